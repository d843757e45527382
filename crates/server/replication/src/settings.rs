//! Where a standby connects: `host=... port=...`, in the words of libpq. Several hosts are tried in their order.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// Where a standby connects, and as whom.
#[derive(Clone, PartialEq, Eq)]
pub struct UpstreamSettings {
    /// The servers that may be the upstream: at least one.
    pub hosts: Vec<UpstreamHost>,
    /// What the upstream has to be.
    pub target: TargetServer,
    /// The role.
    pub user: String,
    /// Its password.
    pub password: Option<String>,
    /// The name that `pg_stat_replication` shows.
    pub application_name: String,
    /// The slot on the upstream, which is made if it is missing.
    pub slot: String,
    /// The limit of a connection attempt.
    pub connect_timeout: Duration,
    /// Whether the connection is encrypted, and what is asked of the certificate.
    pub tls_mode: TlsMode,
    /// The certificates that the upstream's has to lead to: a PEM file.
    pub root_certificate: Option<PathBuf>,
    /// Where this server listens, which the upstream is told. Not one of the words.
    pub listens: Option<Listens>,
}

/// Where a standby listens: how its primary would reach it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listens {
    /// The port of TCP, and in the name of the Unix socket.
    pub port: u16,
    /// Where the Unix socket is, if there is one.
    pub socket_directory: Option<String>,
}

impl Listens {
    /// The command that says so.
    pub(crate) fn command(&self) -> String {
        let Listens { port, socket_directory } = self;
        let socket =
            socket_directory.as_ref().map(|directory| format!(" '{}'", directory.replace('\'', "''")));
        format!("SEAWALL_LISTENS {port}{}", socket.unwrap_or_default())
    }
}

/// A server that may be the upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamHost {
    /// A name, an address, or the directory of a Unix socket.
    pub name: String,
    /// The port.
    pub port: u16,
}

/// libpq's `target_session_attrs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetServer {
    /// Whatever answers.
    Any,
    /// A primary, for libpq's `primary` and `read-write`.
    Primary,
}

impl TargetServer {
    fn parse(text: &str) -> Option<TargetServer> {
        match text {
            "any" => Some(TargetServer::Any),
            "primary" | "read-write" => Some(TargetServer::Primary),
            _ => None,
        }
    }
}

/// libpq's `sslmode`. By a Unix socket nothing is encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsMode {
    /// No encryption; also for libpq's `allow`, which begins without.
    Disable,
    /// Encryption, if the upstream has it.
    Prefer,
    /// Encryption.
    Require,
    /// And a certificate that leads to a root certificate.
    VerifyCa,
    /// And that is the one of the host.
    VerifyFull,
}

impl fmt::Display for TlsMode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            TlsMode::Disable => "disable",
            TlsMode::Prefer => "prefer",
            TlsMode::Require => "require",
            TlsMode::VerifyCa => "verify-ca",
            TlsMode::VerifyFull => "verify-full",
        })
    }
}

impl TlsMode {
    fn parse(text: &str) -> Option<TlsMode> {
        Some(match text {
            "disable" | "allow" => TlsMode::Disable,
            "prefer" => TlsMode::Prefer,
            "require" => TlsMode::Require,
            "verify-ca" => TlsMode::VerifyCa,
            "verify-full" => TlsMode::VerifyFull,
            _ => return None,
        })
    }
}

/// Why a text does not say where to connect.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UpstreamSettingsError {
    /// A word is not `name=value`.
    #[error("expected `name=value` at {0:?}, as in \"host=primary port=5432 user=standby\"")]
    Syntax(String),
    /// The setting is not known.
    #[error(
        "{0:?} is not a setting of a connection: expected host, port, target_session_attrs, user, password, application_name, slot, connect_timeout, sslmode or \
         sslrootcert"
    )]
    Unknown(String),
    /// The certificate is to be verified, and there is nothing to verify it with.
    #[error("sslmode={0} needs sslrootcert=FILE, with the certificates that the upstream's has to lead to")]
    NoRootCertificate(TlsMode),
    /// Ports are not as many as hosts.
    #[error("{ports} ports for {hosts} hosts: give one port, or one for each host")]
    Ports {
        /// How many ports.
        ports: usize,
        /// How many hosts.
        hosts: usize,
    },
    /// The value is not one of the setting.
    #[error("{value:?} is not a value of {name}")]
    Value {
        /// The setting.
        name: String,
        /// The value.
        value: String,
    },
}

/// Without the password.
impl fmt::Display for UpstreamSettings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let UpstreamSettings { hosts, user, application_name, .. } = self;
        let listed =
            |of: &dyn Fn(&UpstreamHost) -> String| hosts.iter().map(of).collect::<Vec<_>>().join(",");
        let (names, ports) = (listed(&|host| host.name.clone()), listed(&|host| host.port.to_string()));
        write!(formatter, "host={names} port={ports} user={user} application_name={application_name}")
    }
}

impl fmt::Debug for UpstreamSettings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl Default for UpstreamSettings {
    fn default() -> UpstreamSettings {
        UpstreamSettings {
            hosts: vec![UpstreamHost { name: "localhost".to_owned(), port: 5432 }],
            target: TargetServer::Any,
            user: "postgres".to_owned(),
            password: None,
            application_name: "standby".to_owned(),
            slot: "standby".to_owned(),
            connect_timeout: Duration::from_secs(10),
            tls_mode: TlsMode::Prefer,
            root_certificate: None,
            listens: None,
        }
    }
}

impl FromStr for UpstreamSettings {
    type Err = UpstreamSettingsError;

    fn from_str(text: &str) -> Result<UpstreamSettings, UpstreamSettingsError> {
        let mut settings = UpstreamSettings::default();
        let (mut names, mut ports, mut target) = ("localhost".to_owned(), "5432".to_owned(), None);
        for (name, value) in pairs(text)? {
            let refused = || UpstreamSettingsError::Value { name: name.clone(), value: value.clone() };
            match name.as_str() {
                "host" => names = value,
                "port" => ports = value,
                "target_session_attrs" => target = Some(TargetServer::parse(&value).ok_or_else(refused)?),
                "user" => settings.user = value,
                "password" => settings.password = Some(value),
                "application_name" => settings.application_name = value,
                "slot" => settings.slot = value,
                "connect_timeout" => {
                    settings.connect_timeout = Duration::from_secs(value.parse().map_err(|_| refused())?);
                }
                "sslmode" => settings.tls_mode = TlsMode::parse(&value).ok_or_else(refused)?,
                "sslrootcert" => settings.root_certificate = Some(PathBuf::from(value)),
                _ => return Err(UpstreamSettingsError::Unknown(name)),
            }
        }
        settings.hosts = hosts_of(&names, &ports)?;
        // The list may be the same on all servers, and none is to follow itself.
        let is_list = settings.hosts.len() > 1;
        settings.target = target.unwrap_or(if is_list { TargetServer::Primary } else { TargetServer::Any });
        let verifies = matches!(settings.tls_mode, TlsMode::VerifyCa | TlsMode::VerifyFull);
        if verifies && settings.root_certificate.is_none() {
            return Err(UpstreamSettingsError::NoRootCertificate(settings.tls_mode));
        }
        Ok(settings)
    }
}

/// Lists with commas: one port for each host, or one for all.
fn hosts_of(names: &str, ports: &str) -> Result<Vec<UpstreamHost>, UpstreamSettingsError> {
    let refused = |name: &str, value: &str| UpstreamSettingsError::Value {
        name: name.to_owned(),
        value: value.to_owned(),
    };
    let names: Vec<&str> = names.split(',').map(str::trim).collect();
    if names.contains(&"") {
        return Err(refused("host", &names.join(",")));
    }
    let parse = |port: &str| port.trim().parse::<u16>().map_err(|_| refused("port", port));
    let ports = ports.split(',').map(parse).collect::<Result<Vec<_>, _>>()?;
    if ports.len() != 1 && ports.len() != names.len() {
        return Err(UpstreamSettingsError::Ports { ports: ports.len(), hosts: names.len() });
    }
    let host = |(name, port): (&&str, &u16)| UpstreamHost { name: (*name).to_owned(), port: *port };
    Ok(names.iter().zip(ports.iter().cycle()).map(host).collect())
}

/// Names and values. A value may be in single quotation marks; a backslash takes the next letter as it is.
fn pairs(text: &str) -> Result<Vec<(String, String)>, UpstreamSettingsError> {
    let mut pairs = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let refused = || UpstreamSettingsError::Syntax(rest.chars().take(20).collect());
        let (name, after) = rest.split_once('=').ok_or_else(refused)?;
        let name = name.trim();
        if name.is_empty() || name.contains(char::is_whitespace) {
            return Err(refused());
        }
        let (value, after) = value_of(after.trim_start()).ok_or_else(refused)?;
        pairs.push((name.to_owned(), value));
        rest = after.trim_start();
    }
    Ok(pairs)
}

fn value_of(text: &str) -> Option<(String, &str)> {
    let (is_quoted, body) = text.strip_prefix('\'').map_or((false, text), |body| (true, body));
    let mut value = String::new();
    let mut letters = body.chars();
    loop {
        let before = letters.as_str();
        match letters.next() {
            None if is_quoted => return None,
            None => return Some((value, "")),
            Some('\'') if is_quoted => return Some((value, letters.as_str())),
            Some(space) if !is_quoted && space.is_whitespace() => return Some((value, before)),
            Some('\\') => value.push(letters.next()?),
            Some(letter) => value.push(letter),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_as_libpq_reads_them() {
        let read: UpstreamSettings =
            "host=10.0.0.1 port = 7000 user='re plica' password='it\\'s' slot=s connect_timeout=3"
                .parse()
                .unwrap();
        assert_eq!((read.hosts.len(), read.target, read.user.as_str()), (1, TargetServer::Any, "re plica"));
        assert_eq!((read.hosts[0].name.as_str(), read.hosts[0].port), ("10.0.0.1", 7000));
        assert_eq!(read.password.as_deref(), Some("it's"));
        assert_eq!((read.slot.as_str(), read.connect_timeout), ("s", Duration::from_secs(3)));
        assert!(!format!("{read:?} {read}").contains("it's"));
        let read: UpstreamSettings = "sslmode=verify-ca sslrootcert=/etc/root.pem".parse().unwrap();
        assert_eq!((read.tls_mode, read.root_certificate), (TlsMode::VerifyCa, Some("/etc/root.pem".into())));
        assert_eq!("".parse(), Ok(UpstreamSettings::default()));
    }

    #[test]
    fn several_hosts_have_a_port_each_or_one() {
        let hosts = |text: &str| {
            let read: UpstreamSettings = text.parse().unwrap();
            assert_eq!(read.to_string().parse::<UpstreamSettings>().unwrap().hosts, read.hosts);
            let hosts: Vec<String> =
                read.hosts.iter().map(|host| format!("{}:{}", host.name, host.port)).collect();
            (hosts.join(" "), read.target)
        };
        assert_eq!(hosts("host=a,b"), ("a:5432 b:5432".to_owned(), TargetServer::Primary));
        assert_eq!(hosts("host=a,b port=1,2"), ("a:1 b:2".to_owned(), TargetServer::Primary));
        let any = "host=a,/tmp,::1 port=7 target_session_attrs=any";
        assert_eq!(hosts(any), ("a:7 /tmp:7 ::1:7".to_owned(), TargetServer::Any));
        assert_eq!(hosts("target_session_attrs=read-write").1, TargetServer::Primary);
    }

    #[test]
    fn mistakes_are_named() {
        let refused = |text: &str| text.parse::<UpstreamSettings>().unwrap_err().to_string();
        assert!(refused("host").starts_with("expected `name=value` at \"host\""));
        assert!(refused("password='x").starts_with("expected `name=value`"));
        assert!(refused("hots=a").starts_with("\"hots\" is not a setting"));
        assert_eq!(refused("port=x"), "\"x\" is not a value of port");
        assert_eq!(refused("host=a,,b"), "\"a,,b\" is not a value of host");
        assert_eq!(refused("host=a,b port=1,"), "\"\" is not a value of port");
        assert_eq!(
            refused("host=a,b,c port=1,2"),
            "2 ports for 3 hosts: give one port, or one for each host"
        );
        assert_eq!(
            refused("target_session_attrs=standby"),
            "\"standby\" is not a value of target_session_attrs"
        );
        assert_eq!(refused("sslmode=yes"), "\"yes\" is not a value of sslmode");
        assert!(refused("sslmode=verify-full").starts_with("sslmode=verify-full needs sslrootcert="));
    }
}
