//! The object that makes a place a repository, `seawall-repository`. Written once, never changed. A text:
//!
//! ```text
//! Seawall archive repository
//! version 1
//! id 0123456789abcdef0123456789abcdef
//! created 1763768400000000
//! encryption aes-256-gcm
//! crc32c 1a2b3c4d
//! ```
//! `id` is drawn at random, `created` is in microseconds since 1970, `encryption` is that or `none`, and the checksum is
//! CRC-32C of all bytes before its line.

use seawall_codec::checksum::crc32c;

/// The version of repositories.
pub(crate) const FORMAT_VERSION: u32 = 1;
/// It is much shorter.
pub(crate) const TEXT_BYTES_MAX: u64 = 4096;

const TITLE: &str = "Seawall archive repository";

/// What a repository says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepositoryHeader {
    /// Drawn when it was created.
    pub id: [u8; 16],
    /// When that was, microseconds since 1970.
    pub created_micros: i64,
    /// Objects are encrypted, all of them.
    pub is_encrypted: bool,
}

/// Why a text is no header of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RepositoryHeaderError {
    Damaged(&'static str),
    Version(u32),
}

impl RepositoryHeader {
    /// The id as text.
    pub fn id_text(&self) -> String {
        self.id.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    pub(crate) fn encode(&self) -> String {
        let encryption = if self.is_encrypted { "aes-256-gcm" } else { "none" };
        let (id, created) = (self.id_text(), self.created_micros);
        let text = format!(
            "{TITLE}\nversion {FORMAT_VERSION}\nid {id}\ncreated {created}\nencryption {encryption}\n"
        );
        let checksum = crc32c(text.as_bytes());
        format!("{text}crc32c {checksum:08x}\n")
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<RepositoryHeader, RepositoryHeaderError> {
        use RepositoryHeaderError::{Damaged, Version};
        let text = std::str::from_utf8(bytes).map_err(|_| Damaged("it is no text"))?;
        let mut lines = text.lines();
        if lines.next() != Some(TITLE) {
            return Err(Damaged("its first line is another one"));
        }
        let mut field = |name: &'static str| {
            let line = lines.next().and_then(|line| line.split_once(' '));
            line.filter(|(found, _)| *found == name).map(|(_, value)| value)
        };
        let version = field("version").and_then(|value| value.parse().ok());
        match version.ok_or(Damaged("its version is missing"))? {
            FORMAT_VERSION => {}
            version => return Err(Version(version)),
        }
        let id = field("id").filter(|id| id.len() == 32).and_then(|id| u128::from_str_radix(id, 16).ok());
        let created_micros = field("created").and_then(|value| value.parse().ok());
        let header = RepositoryHeader {
            id: id.ok_or(Damaged("its id is missing"))?.to_be_bytes(),
            created_micros: created_micros.ok_or(Damaged("its time is missing"))?,
            is_encrypted: match field("encryption") {
                Some("none") => false,
                Some("aes-256-gcm") => true,
                _ => return Err(Damaged("it does not say whether it is encrypted")),
            },
        };
        // Whatever else is wrong: it is not what this header is written as.
        if header.encode() == text { Ok(header) } else { Err(Damaged("its checksum is wrong")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_comes_back_and_no_other_text_does() {
        for is_encrypted in [false, true] {
            let header = RepositoryHeader { id: [0xAB; 16], created_micros: -5, is_encrypted };
            let text = header.encode();
            assert_eq!(RepositoryHeader::decode(text.as_bytes()), Ok(header));
            for length in 0..text.len() {
                assert!(RepositoryHeader::decode(&text.as_bytes()[..length]).is_err(), "length {length}");
            }
            for index in 0..text.len() {
                for bit in 0..8 {
                    let mut damaged = text.clone().into_bytes();
                    damaged[index] ^= 1 << bit;
                    assert!(RepositoryHeader::decode(&damaged).is_err(), "byte {index} bit {bit}");
                }
            }
        }
        let newer = "Seawall archive repository\nversion 2\nanything\n";
        assert_eq!(RepositoryHeader::decode(newer.as_bytes()), Err(RepositoryHeaderError::Version(2)));
    }
}
