//! Who may connect, and how it is proved: rules in the words of `pg_hba.conf`.
//!
//! ```text
//!   type      database   user   address        method
//!   local     all        all                   trust
//!   hostssl   bank       alice  10.0.0.0/8     scram-sha-256
//! ```
//! The first rule that fits a connection counts, and no other is asked, whatever comes of it. Without a rule that fits, nobody connects.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use crate::socket::Peer;

/// How a client shows that it is who it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    /// Not at all.
    Trust,
    /// Nobody connects.
    Reject,
    /// By a password, which does not pass the network.
    Scram,
}

/// Connections of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Local,
    Host,
    HostTls,
    HostClear,
}

/// Names that a rule is for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Names {
    All,
    /// The database that is called as the user.
    SameAsUser,
    Listed(Vec<String>),
}

/// Addresses with a common beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Network {
    address: IpAddr,
    prefix_bits: u32,
}

/// A rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessRule {
    kind: Kind,
    databases: Names,
    users: Names,
    /// `None`: any.
    network: Option<Network>,
    method: Method,
    text: String,
}

/// Why a text is no rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct AccessRuleError(String);

/// A connection, as rules see it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'c> {
    pub(crate) peer: &'c Peer,
    pub(crate) is_encrypted: bool,
    pub(crate) database: &'c str,
    pub(crate) user: &'c str,
}

/// The method of the first rule that fits.
pub(crate) fn method_of(rules: &[AccessRule], asked: Asked<'_>) -> Option<Method> {
    rules.iter().find(|rule| rule.fits(asked)).map(|rule| rule.method)
}

/// The rules that count where none is set: whoever is on this machine.
pub fn default_rules() -> Vec<AccessRule> {
    ["local all all trust", "host all all 127.0.0.0/8 trust", "host all all ::1/128 trust"]
        .iter()
        .filter_map(|text| text.parse().ok())
        .collect()
}

impl AccessRule {
    fn fits(&self, asked: Asked<'_>) -> bool {
        let is_of_kind = match (self.kind, asked.peer) {
            (Kind::Local, Peer::Local) | (Kind::Host, Peer::Host(..)) => true,
            (Kind::HostTls, Peer::Host(..)) => asked.is_encrypted,
            (Kind::HostClear, Peer::Host(..)) => !asked.is_encrypted,
            (Kind::Local, Peer::Host(..)) | (Kind::Host | Kind::HostTls | Kind::HostClear, Peer::Local) => {
                false
            }
        };
        let is_of_network = match (asked.peer, self.network) {
            (Peer::Host(address, _), Some(network)) => network.contains(*address),
            (Peer::Host(..), None) | (Peer::Local, _) => true,
        };
        is_of_kind
            && is_of_network
            && self.databases.contain(asked.database, asked.user)
            && self.users.contain(asked.user, asked.user)
    }

    /// Whether it is for connections with TLS alone.
    pub(crate) fn needs_tls(&self) -> bool {
        self.kind == Kind::HostTls
    }

    /// Whether it lets somebody in from another machine who has shown nothing.
    pub(crate) fn trusts_others(&self) -> bool {
        let is_within_loopback = |network: Network| match network.address {
            IpAddr::V4(address) => address.is_loopback() && network.prefix_bits >= 8,
            IpAddr::V6(address) => address.is_loopback() && network.prefix_bits == 128,
        };
        self.method == Method::Trust
            && self.kind != Kind::Local
            && !self.network.is_some_and(is_within_loopback)
    }
}

impl fmt::Display for AccessRule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl Names {
    fn contain(&self, name: &str, user: &str) -> bool {
        match self {
            Names::All => true,
            Names::SameAsUser => name == user,
            Names::Listed(names) => names.iter().any(|listed| listed == name),
        }
    }

    fn parse(word: &str) -> Names {
        match word {
            "all" => Names::All,
            "sameuser" => Names::SameAsUser,
            names => Names::Listed(names.split(',').map(|name| name.trim_matches('"').to_owned()).collect()),
        }
    }
}

impl Network {
    fn contains(self, address: IpAddr) -> bool {
        let shift = |bits: u32| bits.saturating_sub(self.prefix_bits);
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                (own.to_bits() ^ other.to_bits()).checked_shr(shift(32)).unwrap_or(0) == 0
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                (own.to_bits() ^ other.to_bits()).checked_shr(shift(128)).unwrap_or(0) == 0
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }

    /// `None`: any address.
    fn parse(word: &str) -> Result<Option<Network>, AccessRuleError> {
        if word == "all" {
            return Ok(None);
        }
        let refused = || {
            AccessRuleError(format!(
                "{word:?} is not an address: expected all, or one such as 10.0.0.0/8 or ::1/128"
            ))
        };
        let (address, prefix) = word.split_once('/').ok_or_else(refused)?;
        let address: IpAddr = address.parse().map_err(|_| refused())?;
        let bits = if address.is_ipv4() { 32 } else { 128 };
        let prefix_bits: u32 = prefix.parse().ok().filter(|prefix| *prefix <= bits).ok_or_else(refused)?;
        Ok(Some(Network { address, prefix_bits }))
    }
}

impl FromStr for AccessRule {
    type Err = AccessRuleError;

    fn from_str(text: &str) -> Result<AccessRule, AccessRuleError> {
        let refuse = |problem: String| Err(AccessRuleError(problem));
        let words: Vec<&str> = text.split_whitespace().collect();
        let (kind, databases, users, address, method) = match words[..] {
            ["local", databases, users, method] => (Kind::Local, databases, users, None, method),
            ["local", ..] => return refuse("expected `local DATABASE USER METHOD`".to_owned()),
            [kind, databases, users, address, method] => {
                let kind = match kind {
                    "host" => Kind::Host,
                    "hostssl" => Kind::HostTls,
                    "hostnossl" => Kind::HostClear,
                    other => {
                        return refuse(format!("{other:?} is none of local, host, hostssl and hostnossl"));
                    }
                };
                (kind, databases, users, Network::parse(address)?, method)
            }
            _ => return refuse("expected `host DATABASE USER ADDRESS METHOD`".to_owned()),
        };
        let method = match method {
            "trust" => Method::Trust,
            "reject" => Method::Reject,
            "scram-sha-256" => Method::Scram,
            other => return refuse(format!("{other:?} is none of trust, reject and scram-sha-256")),
        };
        let (databases, users) = (Names::parse(databases), Names::parse(users));
        if users == Names::SameAsUser {
            return refuse("sameuser is said of databases".to_owned());
        }
        Ok(AccessRule { kind, databases, users, network: address, method, text: words.join(" ") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(texts: &[&str]) -> Vec<AccessRule> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    fn method(
        rules: &[AccessRule],
        peer: &Peer,
        is_encrypted: bool,
        database: &str,
        user: &str,
    ) -> Option<Method> {
        method_of(rules, Asked { peer, is_encrypted, database, user })
    }

    fn host(address: &str) -> Peer {
        Peer::Host(address.parse().unwrap(), 1)
    }

    #[test]
    fn the_first_rule_that_fits_counts() {
        let rules = rules(&[
            "local all all trust",
            "host bank mallory all reject",
            "hostssl bank,ledger all 10.0.0.0/8 scram-sha-256",
            "hostnossl sameuser all ::/0 trust",
        ]);
        assert_eq!(method(&rules, &Peer::Local, false, "any", "any"), Some(Method::Trust));
        assert_eq!(method(&rules, &host("10.1.2.3"), true, "bank", "mallory"), Some(Method::Reject));
        assert_eq!(method(&rules, &host("10.1.2.3"), true, "ledger", "bob"), Some(Method::Scram));
        assert_eq!(method(&rules, &host("10.1.2.3"), false, "ledger", "bob"), None);
        assert_eq!(method(&rules, &host("11.1.2.3"), true, "ledger", "bob"), None);
        assert_eq!(method(&rules, &host("fe80::1"), false, "bob", "bob"), Some(Method::Trust));
        assert_eq!(method(&rules, &host("fe80::1"), false, "bank", "bob"), None);
        assert_eq!(method(&rules, &host("::ffff:10.1.2.3"), true, "bank", "bob"), Some(Method::Scram));
    }

    #[test]
    fn the_default_is_this_machine() {
        let rules = default_rules();
        assert_eq!(rules.len(), 3);
        assert_eq!(method(&rules, &host("127.0.0.1"), false, "a", "b"), Some(Method::Trust));
        assert_eq!(method(&rules, &host("::1"), false, "a", "b"), Some(Method::Trust));
        assert_eq!(method(&rules, &host("192.168.0.1"), false, "a", "b"), None);
        assert!(rules.iter().all(|rule| !rule.trusts_others()));
    }

    #[test]
    fn trust_of_other_machines_is_known() {
        for text in
            ["host all all all trust", "host all all 0.0.0.0/0 trust", "hostssl a b 127.0.0.0/7 trust"]
        {
            assert!(text.parse::<AccessRule>().unwrap().trusts_others(), "{text}");
        }
        assert!(!"host all all all scram-sha-256".parse::<AccessRule>().unwrap().trusts_others());
    }

    #[test]
    fn other_texts_are_no_rules() {
        for (text, expected) in [
            ("", "expected `host DATABASE USER ADDRESS METHOD`"),
            ("local all all 127.0.0.1/32 trust", "expected `local DATABASE USER METHOD`"),
            ("host all all trust", "expected `host DATABASE USER ADDRESS METHOD`"),
            ("hosts all all all trust", "\"hosts\" is none of local, host, hostssl and hostnossl"),
            ("host all all all md5", "\"md5\" is none of trust, reject and scram-sha-256"),
            (
                "host all all 10.0.0.0/33 trust",
                "\"10.0.0.0/33\" is not an address: expected all, or one such as 10.0.0.0/8 or ::1/128",
            ),
        ] {
            assert_eq!(text.parse::<AccessRule>().unwrap_err().to_string(), expected);
        }
    }
}
