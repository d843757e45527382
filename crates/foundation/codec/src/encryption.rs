//! Authenticated encryption: bytes that only a holder of the key can read, and nobody else can change unnoticed.
//!
//! The cipher is XAES-256-GCM (<https://c2sp.org/XAES-256-GCM>): AES-256-GCM under a key that is derived for each message
//! from the first half of a 192-bit nonce. Such a nonce may be drawn at random: after 2^80 messages under one key the
//! chance that two of them have the same is 2^-32. So no counter has to survive a crash, and a restored or copied
//! database, which goes on with the same key, cannot use a nonce a second time. Plain AES-256-GCM with random 96-bit
//! nonces would have to stop after 2^32 messages.
//!
//! ```text
//!   key, 32 bytes --derive(salt, purpose): HKDF-SHA256--> key for one purpose --> CipherKey
//!   plain bytes + associated data + nonce --encrypt--> as many bytes, in place, and a tag of 16
//! ```
//! Invariants:
//! * A key is never shown: `Debug` hides it, and its memory is overwritten when it goes.
//! * Who encrypts passes a nonce that was never used before with the key; this module does not draw it.
//! * Bytes that do not authenticate are never handed out.

use std::fmt;

use hkdf::Hkdf;
use sha2::Sha256;
use xaes_256_gcm::Xaes256Gcm;
use xaes_256_gcm::aead::{AeadInOut, KeyInit};
use zeroize::Zeroize;

/// Bytes of a key.
pub const KEY_BYTES: usize = 32;
/// Bytes of a nonce.
pub const NONCE_BYTES: usize = 24;
/// Bytes of an authentication tag.
pub const TAG_BYTES: usize = 16;

/// A number used once: never twice with one key.
pub type Nonce = [u8; NONCE_BYTES];
/// What shows that ciphertext and associated data are those that were encrypted.
pub type Tag = [u8; TAG_BYTES];

/// A key that encrypts, or from which others are derived.
#[derive(Clone)]
pub struct SecretKey([u8; KEY_BYTES]);

impl SecretKey {
    /// The key with these bytes, which should come from a source that nobody can guess.
    pub const fn from_bytes(bytes: [u8; KEY_BYTES]) -> SecretKey {
        SecretKey(bytes)
    }

    /// The key itself: to be wrapped by another one, and never to be written otherwise.
    pub const fn expose(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }

    /// The key for one `purpose`: HKDF with SHA-256 (RFC 5869). Nobody who has it can find this one, or that of another
    /// purpose or salt.
    pub fn derive(&self, salt: &[u8], purpose: &str) -> SecretKey {
        let mut derived = SecretKey([0; KEY_BYTES]);
        Hkdf::<Sha256>::new(Some(salt), &self.0)
            .expand(purpose.as_bytes(), &mut derived.0)
            .expect("32 bytes are fewer than the 8160 that HKDF-SHA256 gives");
        derived
    }
}

impl Drop for SecretKey {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("SecretKey(hidden)")
    }
}

/// The bytes, their associated data, nonce or tag are not those that were encrypted, or it was done with another key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it does not authenticate: it was changed, or encrypted with another key")]
pub struct NotAuthentic;

/// A key made ready for XAES-256-GCM.
#[derive(Clone)]
pub struct CipherKey(Xaes256Gcm);

impl CipherKey {
    /// Prepares `key`.
    pub fn new(key: &SecretKey) -> CipherKey {
        CipherKey(Xaes256Gcm::new(&key.0.into()))
    }

    /// Encrypts `bytes` in place. The tag covers them and `associated`, which stays readable.
    ///
    /// # Panics
    /// If there are more than 64 GiB.
    pub fn encrypt(&self, nonce: &Nonce, associated: &[u8], bytes: &mut [u8]) -> Tag {
        self.0
            .encrypt_inout_detached(nonce.into(), associated, bytes.into())
            .expect("no record, page or extent is as long as 64 GiB")
            .into()
    }

    /// Decrypts `bytes` in place.
    ///
    /// # Errors
    /// `NotAuthentic`; what `bytes` then holds is of no use.
    pub fn decrypt(
        &self,
        nonce: &Nonce,
        associated: &[u8],
        bytes: &mut [u8],
        tag: &Tag,
    ) -> Result<(), NotAuthentic> {
        let decrypted = self.0.decrypt_inout_detached(nonce.into(), associated, bytes.into(), tag.into());
        decrypted.map_err(|_| NotAuthentic)
    }
}

impl fmt::Debug for CipherKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("CipherKey(hidden)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONCE: &Nonce = b"ABCDEFGHIJKLMNOPQRSTUVWX";

    fn hex(text: &str) -> Vec<u8> {
        let digit = |byte: u8| u8::try_from(char::from(byte).to_digit(16).unwrap()).unwrap();
        text.as_bytes().chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
    }

    /// The two test vectors of the specification, chosen so that the top bit of the derivation's first block is 0 and 1.
    #[test]
    fn the_published_vectors_come_out() {
        let vectors = [
            ([1; 32], &b""[..], "ce546ef63c9cc60765923609", "b33a9a1974e96e52daf2fcf7075e2271"),
            (
                [3; 32],
                b"c2sp.org/XAES-256-GCM",
                "986ec1832593df5443a17943",
                "7fd083bf3fdb41abd740a21f71eb769d",
            ),
        ];
        for (key, associated, ciphertext, tag) in vectors {
            let key = CipherKey::new(&SecretKey::from_bytes(key));
            let mut bytes = b"XAES-256-GCM".to_vec();
            let found = key.encrypt(NONCE, associated, &mut bytes);
            assert_eq!((bytes.clone(), found.to_vec()), (hex(ciphertext), hex(tag)));
            key.decrypt(NONCE, associated, &mut bytes, &found).unwrap();
            assert_eq!(bytes, b"XAES-256-GCM");
        }
    }

    /// RFC 5869, test case 1, of which 32 of the 42 bytes are asked for.
    #[test]
    fn derivation_is_hkdf_sha256() {
        let mut derived = [0; 32];
        Hkdf::<Sha256>::new(Some(&hex("000102030405060708090a0b0c")), &[0x0B; 22])
            .expand(&hex("f0f1f2f3f4f5f6f7f8f9"), &mut derived)
            .unwrap();
        let expected = "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf";
        assert_eq!(derived.to_vec(), hex(expected));
        let key = SecretKey::from_bytes([7; 32]);
        let other = SecretKey::from_bytes([8; 32]);
        let derived = *key.derive(b"salt", "log").expose();
        assert_eq!(derived, *key.derive(b"salt", "log").expose());
        for other in [key.derive(b"salt", "pages"), key.derive(b"tlas", "log"), other.derive(b"salt", "log")]
        {
            assert_ne!(derived, *other.expose());
        }
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let key = CipherKey::new(&SecretKey::from_bytes([5; 32]));
        let plain: Vec<u8> = (0..100).collect();
        let mut sealed = plain.clone();
        let tag = key.encrypt(NONCE, b"place", &mut sealed);
        assert_ne!(sealed, plain);
        let whole = [&NONCE[..], b"place", &sealed, &tag].concat();
        for bit in 0..whole.len() * 8 {
            let mut damaged = whole.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let (nonce, rest) = damaged.split_first_chunk().unwrap();
            let (associated, rest) = rest.split_at(5);
            let (bytes, tag) = rest.split_last_chunk().unwrap();
            assert_eq!(
                key.decrypt(nonce, associated, &mut bytes.to_vec(), tag),
                Err(NotAuthentic),
                "bit {bit}"
            );
        }
    }

    #[test]
    fn keys_are_not_shown() {
        let key = SecretKey::from_bytes([0xAB; 32]);
        for text in [format!("{key:?}"), format!("{:?}", CipherKey::new(&key))] {
            assert!(
                text.contains("hidden") && !text.contains("171") && !text.to_lowercase().contains("ab"),
                "{text}"
            );
        }
    }
}
