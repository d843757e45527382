//! What an operator chooses about the server.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use seawall_sql::session::DatabaseSettings;

use crate::access::{AccessRule, default_rules};
use crate::tls::TlsFiles;

/// The configuration. What is marked so takes effect at a reload, the rest at a start.
#[derive(Clone, Debug)]
pub struct Configuration {
    /// Addresses and names of this machine that TCP clients connect to; `*`: all; none: no TCP.
    pub listen: Vec<String>,
    /// The port of all of them, and of the name of the Unix socket; 0: one that is free.
    pub port: u16,
    /// Where the Unix socket is; none: no Unix socket.
    pub socket_directory: Option<PathBuf>,
    /// The rights of the Unix socket.
    pub socket_permissions: u32,
    /// Who may connect. Takes effect at a reload.
    pub access: Vec<AccessRule>,
    /// Certificate and key; none: no TLS. What is in the files takes effect at a reload.
    pub tls: Option<TlsFiles>,
    /// Connections at a time, at most.
    pub connections_max: usize,
    /// Of these, so many are for superusers.
    pub connections_reserved: usize,
    /// How long a login may take. Takes effect at a reload.
    pub authentication_timeout: Duration,
    /// How long a client may take nothing of what it is sent. Takes effect at a reload.
    pub write_timeout: Duration,
    /// How often statements are looked for whose client is gone; none: never.
    pub client_check_interval: Option<Duration>,
    /// Bytes of a message, at most. Takes effect at a reload.
    pub message_bytes_max: usize,
    /// What sessions share. Takes effect at a reload.
    pub database: DatabaseSettings,
    /// Whether connections and their ends are logged. Takes effect at a reload.
    pub logs_connections: bool,
    /// Where metrics and health are served by HTTP; none: nowhere.
    pub http_listen: Option<SocketAddr>,
}

impl Default for Configuration {
    fn default() -> Configuration {
        Configuration {
            listen: vec!["localhost".to_owned()],
            port: 5432,
            socket_directory: Some("/tmp".into()),
            socket_permissions: 0o777,
            access: default_rules(),
            tls: None,
            connections_max: 100,
            connections_reserved: 3,
            authentication_timeout: Duration::from_secs(60),
            write_timeout: Duration::from_secs(60),
            client_check_interval: Some(Duration::from_secs(1)),
            message_bytes_max: 256 << 20,
            database: DatabaseSettings::default(),
            logs_connections: false,
            http_listen: None,
        }
    }
}

/// Why a configuration is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigurationError {
    /// Everybody on the network could read and change everything.
    #[error(
        "the server listens on {address}, beyond this machine, and the rule `{rule}` lets clients of other machines in without a password: \
         write scram-sha-256 in place of trust, or listen on localhost"
    )]
    Open {
        /// Where it listens.
        address: String,
        /// The rule.
        rule: String,
    },
    /// Nobody could connect.
    #[error("there is neither an address to listen on nor a directory for the Unix socket: set one of them")]
    Unreachable,
    /// There are more reserved connections than connections.
    #[error("{reserved} of {connections} connections cannot be reserved: leave at least one to others")]
    Reserved {
        /// How many are reserved.
        reserved: usize,
        /// How many there are.
        connections: usize,
    },
    /// A rule asks for TLS, and there is none.
    #[error(
        "the rule `{rule}` is for connections with TLS, and there is no certificate: set tls_certificate and tls_key"
    )]
    NoCertificate {
        /// The rule.
        rule: String,
    },
}

impl Configuration {
    /// Whether it can be, and is safe.
    ///
    /// # Errors
    /// What is wrong, and what to do.
    pub fn check(&self) -> Result<(), ConfigurationError> {
        if self.listen.is_empty() && self.socket_directory.is_none() {
            return Err(ConfigurationError::Unreachable);
        }
        if self.connections_reserved >= self.connections_max {
            return Err(ConfigurationError::Reserved {
                reserved: self.connections_reserved,
                connections: self.connections_max,
            });
        }
        let open = self.access.iter().find(|rule| rule.trusts_others());
        let beyond = self.listen.iter().find(|address| !is_loopback(address));
        if let (Some(rule), Some(address)) = (open, beyond) {
            return Err(ConfigurationError::Open { address: address.clone(), rule: rule.to_string() });
        }
        match self.access.iter().find(|rule| rule.needs_tls()) {
            Some(rule) if self.tls.is_none() => {
                Err(ConfigurationError::NoCertificate { rule: rule.to_string() })
            }
            Some(_) | None => Ok(()),
        }
    }
}

impl Configuration {
    /// The settings that another configuration has otherwise, and that only a start takes.
    pub(crate) fn changed_fixed(&self, other: &Configuration) -> Vec<&'static str> {
        let Configuration {
            listen,
            port,
            socket_directory,
            socket_permissions,
            connections_max,
            connections_reserved,
            client_check_interval,
            http_listen,
            // These are taken by a reload.
            access: _,
            tls: _,
            authentication_timeout: _,
            write_timeout: _,
            message_bytes_max: _,
            database: _,
            logs_connections: _,
        } = self;
        [
            ("listen", *listen != other.listen),
            ("port", *port != other.port),
            ("socket_directory", *socket_directory != other.socket_directory),
            ("socket_permissions", *socket_permissions != other.socket_permissions),
            ("connections", *connections_max != other.connections_max),
            ("reserved_connections", *connections_reserved != other.connections_reserved),
            ("client_check_interval", *client_check_interval != other.client_check_interval),
            ("http_listen", *http_listen != other.http_listen),
        ]
        .into_iter()
        .filter_map(|(name, is_changed)| is_changed.then_some(name))
        .collect()
    }
}

fn is_loopback(address: &str) -> bool {
    address == "localhost" || address.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(listen: &str, rule: &str) -> Configuration {
        Configuration {
            listen: vec![listen.to_owned()],
            access: vec![rule.parse().unwrap()],
            ..Configuration::default()
        }
    }

    #[test]
    fn nobody_from_elsewhere_is_trusted() {
        for listen in ["*", "0.0.0.0", "10.0.0.1", "db.example.com", "::"] {
            let refused = with(listen, "host all all all trust").check();
            assert!(matches!(refused, Err(ConfigurationError::Open { .. })), "{listen}");
            assert_eq!(with(listen, "host all all all scram-sha-256").check(), Ok(()));
            assert_eq!(with(listen, "host all all 127.0.0.1/32 trust").check(), Ok(()));
        }
        for listen in ["localhost", "127.0.0.1", "::1", "127.1.2.3"] {
            assert_eq!(with(listen, "host all all all trust").check(), Ok(()), "{listen}");
        }
    }

    #[test]
    fn what_a_reload_does_not_take_is_named() {
        let before = Configuration::default();
        let taken = Configuration {
            write_timeout: Duration::ZERO,
            access: vec![],
            logs_connections: true,
            ..before.clone()
        };
        assert_eq!(before.changed_fixed(&taken), [""; 0]);
        let other = Configuration { port: 1, connections_max: 1, ..taken };
        assert_eq!(before.changed_fixed(&other), ["port", "connections"]);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        assert_eq!(Configuration::default().check(), Ok(()));
        let unreachable =
            Configuration { listen: vec![], socket_directory: None, ..Configuration::default() };
        assert_eq!(unreachable.check(), Err(ConfigurationError::Unreachable));
        let full = Configuration { connections_max: 3, ..Configuration::default() };
        assert!(matches!(full.check(), Err(ConfigurationError::Reserved { .. })));
        let refused = with("localhost", "hostssl all all all scram-sha-256").check();
        assert!(matches!(refused, Err(ConfigurationError::NoCertificate { .. })));
    }
}
