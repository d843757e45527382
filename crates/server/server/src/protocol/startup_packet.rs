//! What a client sends first: a start-up packet, a request for encryption, or one that cancels.
//!
//! Four bytes of length that count themselves, four bytes that say which it is, and the body. Of a start-up packet, these are the version of the
//! protocol, and names and values, each up to a zero byte, with an empty name after them.

use bytes::{Buf, BytesMut};
use seawall_values::{SqlError, SqlResult, SqlState};

use super::ProtocolVersion;
use super::frontend::violation;

/// As PostgreSQL's.
const BYTES_MAX: usize = 10_000;
const BYTES_MIN: usize = 8;
const LENGTH_BYTES: usize = 4;

const CANCEL: u32 = 1234 << 16 | 5678;
const TLS: u32 = 1234 << 16 | 5679;
const GSSAPI: u32 = 1234 << 16 | 5680;

/// The first byte of a TLS handshake, of a client that does not ask before.
pub(crate) const TLS_HANDSHAKE: u8 = 0x16;

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum StartupPacket {
    TlsRequest,
    GssapiRequest,
    Cancel { process_id: i32, key: Vec<u8> },
    Startup { version: ProtocolVersion, parameters: Parameters },
}

/// What a client says of itself, in its order.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Parameters(pub(crate) Vec<(String, String)>);

impl Parameters {
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        // The last one counts, as in PostgreSQL.
        self.0.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// Takes the packet off the beginning of `input`; `None`: it has not arrived whole.
pub(crate) fn next_packet(input: &mut BytesMut) -> SqlResult<Option<StartupPacket>> {
    let Some(length) = input.first_chunk::<LENGTH_BYTES>() else { return Ok(None) };
    let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
    if !(BYTES_MIN..=BYTES_MAX).contains(&length) {
        return Err(violation("invalid length of startup packet"));
    }
    if input.len() < length {
        return Ok(None);
    }
    let mut packet = input.split_to(length);
    packet.advance(LENGTH_BYTES);
    let code = packet.get_u32();
    match code {
        TLS => Ok(Some(StartupPacket::TlsRequest)),
        GSSAPI => Ok(Some(StartupPacket::GssapiRequest)),
        CANCEL if packet.len() > LENGTH_BYTES => {
            let process_id = packet.get_i32();
            Ok(Some(StartupPacket::Cancel { process_id, key: packet.to_vec() }))
        }
        CANCEL => Err(violation("invalid length of cancel request packet")),
        code => {
            let version = ProtocolVersion::from_number(code);
            if version.major != ProtocolVersion::NEWEST.major {
                return Err(unknown_version(version));
            }
            Ok(Some(StartupPacket::Startup { version, parameters: parameters(&packet)? }))
        }
    }
}

fn unknown_version(version: ProtocolVersion) -> Box<SqlError> {
    let ProtocolVersion { major, minor } = version;
    let newest = ProtocolVersion::NEWEST;
    let message = format!(
        "unsupported frontend protocol {major}.{minor}: server supports {}.0 to {}.{}",
        newest.major, newest.major, newest.minor
    );
    SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
}

fn parameters(body: &[u8]) -> SqlResult<Parameters> {
    let layout = || violation("invalid startup packet layout: expected terminator as last byte");
    let mut parts = body.split(|byte| *byte == 0);
    let mut parameters = Vec::new();
    loop {
        let name = parts.next().ok_or_else(layout)?;
        if name.is_empty() {
            break;
        }
        let value = parts.next().ok_or_else(layout)?;
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec());
        let (Ok(name), Ok(value)) = (text(name), text(value)) else {
            return Err(violation("a name or value of the startup packet is not UTF-8"));
        };
        parameters.push((name, value));
    }
    // The part after the last zero byte is empty, and it is the last.
    match (parts.next(), parts.next()) {
        (Some([]), None) => Ok(Parameters(parameters)),
        _ => Err(layout()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(code: u32, body: &[u8]) -> BytesMut {
        let mut bytes = BytesMut::new();
        bytes.extend_from_slice(&u32::try_from(body.len() + 8).unwrap().to_be_bytes());
        bytes.extend_from_slice(&code.to_be_bytes());
        bytes.extend_from_slice(body);
        bytes
    }

    fn refusal(mut input: BytesMut) -> String {
        next_packet(&mut input).unwrap_err().to_string()
    }

    #[test]
    fn a_startup_packet_has_names_and_values() {
        let mut input = packet(3 << 16, b"user\0alice\0database\0bank\0user\0bob\0\0");
        let Some(StartupPacket::Startup { version, parameters }) = next_packet(&mut input).unwrap() else {
            panic!("it is one")
        };
        assert_eq!(version, ProtocolVersion { major: 3, minor: 0 });
        assert_eq!((parameters.get("user"), parameters.get("database")), (Some("bob"), Some("bank")));
        assert_eq!(parameters.get("options"), None);
    }

    #[test]
    fn a_packet_is_taken_when_it_is_whole() {
        let whole = packet(3 << 16, b"user\0alice\0\0");
        for length in 0..whole.len() {
            assert_eq!(next_packet(&mut BytesMut::from(&whole[..length])).unwrap(), None);
        }
    }

    #[test]
    fn malformed_packets_are_refused() {
        let layout = "08P01: invalid startup packet layout: expected terminator as last byte";
        for body in [&b""[..], b"user\0alice\0", b"user\0alice", b"user\0\0\0x", b"\0\0"] {
            assert_eq!(refusal(packet(3 << 16, body)), layout, "{body:?}");
        }
        assert_eq!(refusal(BytesMut::from(&b"\0\0\0\x07xxx"[..])), "08P01: invalid length of startup packet");
        assert_eq!(refusal(BytesMut::from(&b"GET / HT"[..])), "08P01: invalid length of startup packet");
        assert_eq!(
            refusal(packet(2 << 16, b"")),
            "0A000: unsupported frontend protocol 2.0: server supports 3.0 to 3.2"
        );
        assert_eq!(refusal(packet(CANCEL, b"1234")), "08P01: invalid length of cancel request packet");
    }

    #[test]
    fn requests_are_known_by_their_codes() {
        assert_eq!(next_packet(&mut packet(TLS, b"")).unwrap(), Some(StartupPacket::TlsRequest));
        assert_eq!(next_packet(&mut packet(GSSAPI, b"")).unwrap(), Some(StartupPacket::GssapiRequest));
        let cancel = StartupPacket::Cancel { process_id: 7, key: b"secret".to_vec() };
        assert_eq!(next_packet(&mut packet(CANCEL, b"\0\0\0\x07secret")).unwrap(), Some(cancel));
    }
}
