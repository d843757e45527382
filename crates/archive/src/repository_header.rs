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

use seawall_codec::sealed_text::{TextProblem, TextReader, TextWriter};

/// The version of repositories.
pub(crate) const FORMAT_VERSION: u32 = 1;
/// It is much shorter.
pub(crate) const TEXT_BYTES_MAX: u64 = 4096;

const TITLE: &str = "Seawall archive repository";
const ENCRYPTED: &str = "aes-256-gcm";

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

impl RepositoryHeader {
    /// The id as text.
    pub fn id_text(&self) -> String {
        self.id.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    pub(crate) fn encode(&self) -> String {
        let mut text = TextWriter::new(TITLE, FORMAT_VERSION);
        text.line("id", &self.id_text());
        text.line("created", &self.created_micros);
        text.line("encryption", &if self.is_encrypted { ENCRYPTED } else { "none" });
        text.seal()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<RepositoryHeader, TextProblem> {
        let mut text = TextReader::open(bytes, TITLE, FORMAT_VERSION)?;
        let id = Some(text.field("id")?).filter(|id| id.len() == 32);
        let id = id.and_then(|id| u128::from_str_radix(id, 16).ok()).ok_or(TextProblem::Value("id"))?;
        let created_micros = text.parsed("created")?;
        let is_encrypted = match text.field("encryption")? {
            "none" => false,
            ENCRYPTED => true,
            _ => return Err(TextProblem::Value("encryption")),
        };
        text.end()?;
        Ok(RepositoryHeader { id: id.to_be_bytes(), created_micros, is_encrypted })
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
        assert_eq!(RepositoryHeader::decode(newer.as_bytes()), Err(TextProblem::Version(2)));
    }
}
