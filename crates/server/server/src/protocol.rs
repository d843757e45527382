//! The messages of PostgreSQL's protocol, versions 3.0 and 3.2.
//!
//! Pure functions of bytes: nothing here knows a socket or a session. A message of a client is malformed until it is shown not to be: each
//! length is checked before it is believed, and nothing is allocated for what has not arrived.

pub(crate) mod backend;
pub(crate) mod explain;
pub(crate) mod frontend;
pub(crate) mod startup_packet;

/// A version of the protocol: major and minor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ProtocolVersion {
    pub(crate) major: u16,
    pub(crate) minor: u16,
}

impl ProtocolVersion {
    /// The first one with keys of cancellation longer than four bytes.
    pub(crate) const LONG_CANCEL_KEYS: ProtocolVersion = ProtocolVersion { major: 3, minor: 2 };
    /// The newest one that is spoken.
    pub(crate) const NEWEST: ProtocolVersion = ProtocolVersion::LONG_CANCEL_KEYS;

    pub(crate) fn from_number(number: u32) -> ProtocolVersion {
        let [high, low, ..] =
            [number >> 16, number & 0xffff].map(|half| u16::try_from(half).unwrap_or(u16::MAX));
        ProtocolVersion { major: high, minor: low }
    }

    pub(crate) fn number(self) -> u32 {
        u32::from(self.major) << 16 | u32::from(self.minor)
    }
}
