//! The object that makes a place a repository, `seawall-repository`. Written once, never changed. A text:
//!
//! ```text
//! Seawall archive repository
//! version 2
//! id 0123456789abcdef0123456789abcdef
//! created 1763768400000000
//! encryption aes-256-gcm
//! key 6d1f0a52c0ffee00
//! seal 00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff0011223344556677
//! crc32c 1a2b3c4d
//! ```
//! `id` is drawn at random, `created` is in microseconds since 1970, `encryption` is that or `none`, and the checksum is
//! CRC-32C of all bytes before its line. An encrypted repository alone has `key`, the id of its first repository key, and `seal`: nonce
//! and tag (XAES-256-GCM) of an empty message by that key, with all lines before `key` as the associated data. So who has no
//! key cannot change what is said there; and who opens a repository with a master key goes on only if it is encrypted. Version 1 is read where
//! `encryption` is `none`: nothing else differs.

use seawall_codec::hexadecimal::{from_hexadecimal, to_hexadecimal};
use seawall_codec::sealed_text::{TextProblem, TextReader, TextWriter};
use seawall_keys::{ENVELOPE_BYTES, Envelope, NotAuthentic, RepositoryKey, RepositoryKeyId};

/// The version of repositories.
pub(crate) const FORMAT_VERSION: u32 = 2;
/// The version before: without encryption it says the same, with encryption it had no seal.
const UNSEALED_VERSION: u32 = 1;
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

/// What shows that the header of an encrypted repository is what was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seal {
    /// The key that has sealed it.
    pub(crate) key: RepositoryKeyId,
    envelope: Envelope,
}

impl RepositoryHeader {
    /// The id as text.
    pub fn id_text(&self) -> String {
        to_hexadecimal(&self.id)
    }

    fn encryption(&self) -> &'static str {
        if self.is_encrypted { ENCRYPTED } else { "none" }
    }

    /// What is sealed: the lines that say something.
    fn sealed_lines(&self) -> String {
        let (id, created, encryption) = (self.id_text(), self.created_micros, self.encryption());
        format!("{TITLE}\nversion {FORMAT_VERSION}\nid {id}\ncreated {created}\nencryption {encryption}\n")
    }

    /// Its text, sealed by a key of the repository if that is encrypted.
    pub(crate) fn encode(&self, key: Option<&RepositoryKey>) -> String {
        let mut text = TextWriter::new(TITLE, FORMAT_VERSION);
        text.line("id", &self.id_text());
        text.line("created", &self.created_micros);
        text.line("encryption", &self.encryption());
        if let Some(key) = key {
            text.line("key", &key.id());
            text.line("seal", &to_hexadecimal(&key.seal(self.sealed_lines().as_bytes()).to_bytes()));
        }
        text.seal()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<(RepositoryHeader, Option<Seal>), TextProblem> {
        let opened = TextReader::open(bytes, TITLE, FORMAT_VERSION);
        let is_unsealed = matches!(opened, Err(TextProblem::Version(UNSEALED_VERSION)));
        let mut text = if is_unsealed { TextReader::open(bytes, TITLE, UNSEALED_VERSION)? } else { opened? };
        let id = array(text.field("id")?).ok_or(TextProblem::Value("id"))?;
        let created_micros = text.parsed("created")?;
        let is_encrypted = match text.field("encryption")? {
            "none" => false,
            // Its keys lie elsewhere.
            ENCRYPTED if is_unsealed => return Err(TextProblem::Version(UNSEALED_VERSION)),
            ENCRYPTED => true,
            _ => return Err(TextProblem::Value("encryption")),
        };
        let seal = if is_encrypted { Some(Seal::decode(&mut text)?) } else { None };
        text.end()?;
        Ok((RepositoryHeader { id, created_micros, is_encrypted }, seal))
    }
}

impl Seal {
    fn decode(text: &mut TextReader<'_>) -> Result<Seal, TextProblem> {
        let key = array(text.field("key")?).ok_or(TextProblem::Value("key"))?;
        let envelope: Option<[u8; ENVELOPE_BYTES]> = array(text.field("seal")?);
        let envelope = Envelope::from_bytes(&envelope.ok_or(TextProblem::Value("seal"))?);
        Ok(Seal { key: RepositoryKeyId(key), envelope })
    }

    /// Whether `header` is what was sealed with one of `keys`.
    pub(crate) fn check(
        &self,
        header: &RepositoryHeader,
        keys: &[RepositoryKey],
    ) -> Result<(), NotAuthentic> {
        let key = keys.iter().find(|key| key.id() == self.key).ok_or(NotAuthentic)?;
        key.check_seal(&self.envelope, header.sealed_lines().as_bytes())
    }
}

/// Exactly `N` bytes.
fn array<const N: usize>(text: &str) -> Option<[u8; N]> {
    from_hexadecimal(text)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use seawall_simulation::SimulatedRandom;

    fn key(seed: u64) -> RepositoryKey {
        RepositoryKey::draw(Arc::new(SimulatedRandom::new(seed)), 1)
    }

    #[test]
    fn a_header_comes_back_and_no_other_text_does() {
        let key = key(1);
        for key in [None, Some(&key)] {
            let header = RepositoryHeader { id: [0xAB; 16], created_micros: -5, is_encrypted: key.is_some() };
            let text = header.encode(key);
            let (found, seal) = RepositoryHeader::decode(text.as_bytes()).unwrap();
            assert_eq!((&found, seal.is_some()), (&header, key.is_some()));
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
        for (encryption, expected) in [
            (
                "none",
                Ok((RepositoryHeader { id: [0xAB; 16], created_micros: -5, is_encrypted: false }, None)),
            ),
            (ENCRYPTED, Err(TextProblem::Version(1))),
        ] {
            let mut text = TextWriter::new(TITLE, 1);
            text.line("id", &"ab".repeat(16));
            text.line("created", &-5);
            text.line("encryption", &encryption);
            assert_eq!(RepositoryHeader::decode(text.seal().as_bytes()), expected);
        }
        let newer = "Seawall archive repository\nversion 3\nanything\n";
        assert_eq!(RepositoryHeader::decode(newer.as_bytes()), Err(TextProblem::Version(3)));
    }

    /// Somebody without the key changes a line, and makes the checksum right.
    #[test]
    fn a_changed_header_has_no_seal_that_fits() {
        let key = key(1);
        let header = RepositoryHeader { id: [1; 16], created_micros: 5, is_encrypted: true };
        let (_, seal) = RepositoryHeader::decode(header.encode(Some(&key)).as_bytes()).unwrap();
        let seal = seal.unwrap();
        assert_eq!(seal.check(&header, std::slice::from_ref(&key)), Ok(()));
        for changed in [
            RepositoryHeader { id: [2; 16], ..header.clone() },
            RepositoryHeader { created_micros: 6, ..header.clone() },
            RepositoryHeader { is_encrypted: false, ..header.clone() },
        ] {
            assert_eq!(seal.check(&changed, std::slice::from_ref(&key)), Err(NotAuthentic));
        }
        assert_eq!(seal.check(&header, &[self::key(2)]), Err(NotAuthentic));
    }
}
