//! Whose log it is.

use std::fmt;
use std::str::FromStr;

use seawall_types::DatabaseId;

/// A database (Seawall's) or a cluster (PostgreSQL's), by the number that was drawn when it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum System {
    /// A Seawall database, by its id.
    Seawall(DatabaseId),
    /// A PostgreSQL cluster, by its system identifier, as `pg_controldata` shows it.
    PostgreSql(u64),
}

impl System {
    /// The byte and the sixteen bytes that stand for it in a header.
    pub(crate) fn to_parts(self) -> (u8, [u8; 16]) {
        match self {
            System::Seawall(database) => (1, *database.as_bytes()),
            System::PostgreSql(identifier) => {
                let mut bytes = [0; 16];
                bytes[..8].copy_from_slice(&identifier.to_le_bytes());
                (2, bytes)
            }
        }
    }

    pub(crate) fn from_parts(kind: u8, bytes: [u8; 16]) -> Option<System> {
        match kind {
            1 => Some(System::Seawall(DatabaseId::from_bytes(bytes))),
            2 if bytes[8..] == [0; 8] => {
                let identifier = bytes.first_chunk().expect("eight of sixteen bytes");
                Some(System::PostgreSql(u64::from_le_bytes(*identifier)))
            }
            _ => None,
        }
    }

    /// The name of its directory.
    pub(crate) fn directory(self) -> String {
        match self {
            System::Seawall(database) => format!("seawall-{database}"),
            System::PostgreSql(identifier) => format!("postgresql-{identifier}"),
        }
    }
}

impl fmt::Display for System {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.directory())
    }
}

/// The text names no system.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a valid system: expected postgresql-<system identifier> or seawall-<32 hexadecimal digits>"
)]
pub struct ParseSystemError(String);

impl FromStr for System {
    type Err = ParseSystemError;

    fn from_str(text: &str) -> Result<System, ParseSystemError> {
        let refuse = || ParseSystemError(text.to_owned());
        if let Some(digits) = text.strip_prefix("postgresql-") {
            let identifier: u64 = digits.parse().map_err(|_| refuse())?;
            let system = System::PostgreSql(identifier);
            return if system.directory() == text { Ok(system) } else { Err(refuse()) };
        }
        let digits = text.strip_prefix("seawall-").ok_or_else(refuse)?;
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if digits.len() != 32 || !digits.bytes().all(is_digit) {
            return Err(refuse());
        }
        let number = u128::from_str_radix(digits, 16).map_err(|_| refuse())?;
        Ok(System::Seawall(DatabaseId::from_bytes(number.to_be_bytes())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_comes_back_from_its_name_and_its_bytes() {
        let database = DatabaseId::from_bytes(*b"0123456789abcdef");
        for system in [System::PostgreSql(7_301_234_567_890_123_456), System::Seawall(database)] {
            assert_eq!(system.to_string().parse(), Ok(system));
            let (kind, bytes) = system.to_parts();
            assert_eq!(System::from_parts(kind, bytes), Some(system));
        }
        for text in ["", "postgresql-", "postgresql-07", "postgresql-x", "seawall-12", "mysql-1"] {
            assert!(text.parse::<System>().is_err(), "{text}");
        }
        assert_eq!(System::from_parts(0, [0; 16]), None);
        assert_eq!(System::from_parts(2, [1; 16]), None);
    }
}
