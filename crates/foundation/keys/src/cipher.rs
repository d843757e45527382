//! Encrypting messages with the key of one purpose.

use std::fmt;
use std::sync::Arc;

use seawall_codec::encryption::{CipherKey, NONCE_BYTES, Nonce, NotAuthentic, SecretKey, TAG_BYTES, Tag};
use seawall_io::Random;

use crate::sabotage::{Defect, sabotaged};

/// Bytes that an encrypted message takes besides itself: the nonce and the tag.
pub const ENVELOPE_BYTES: usize = NONCE_BYTES + TAG_BYTES;

/// What is stored beside an encrypted message: the nonce, 24 bytes, and the tag, 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    nonce: Nonce,
    tag: Tag,
}

impl Envelope {
    /// Its bytes: the nonce, then the tag.
    pub fn to_bytes(&self) -> [u8; ENVELOPE_BYTES] {
        let mut bytes = [0; ENVELOPE_BYTES];
        bytes[..NONCE_BYTES].copy_from_slice(&self.nonce);
        bytes[NONCE_BYTES..].copy_from_slice(&self.tag);
        bytes
    }

    /// The envelope with these bytes.
    pub fn from_bytes(bytes: &[u8; ENVELOPE_BYTES]) -> Envelope {
        let (nonce, tag) = bytes.split_at(NONCE_BYTES);
        Envelope {
            nonce: nonce.try_into().expect("the first 24 of 40 bytes"),
            tag: tag.try_into().expect("the last 16 of 40 bytes"),
        }
    }
}

/// Encrypts and decrypts for one purpose. Cheap to clone.
#[derive(Clone)]
pub struct Cipher {
    key: Arc<CipherKey>,
    mark_key: SecretKey,
    random: Arc<dyn Random>,
}

impl Cipher {
    pub(crate) fn new(key: &SecretKey, random: Arc<dyn Random>) -> Cipher {
        let mark_key = key.derive(b"seawall", "marks");
        Cipher { key: Arc::new(CipherKey::new(key)), mark_key, random }
    }

    /// Encrypts `bytes` in place under a nonce drawn for them. `associated` stays readable, and must be the same when
    /// they are decrypted.
    pub fn encrypt(&self, associated: &[u8], bytes: &mut [u8]) -> Envelope {
        let mut nonce = [0; NONCE_BYTES];
        let drawn = if sabotaged(Defect::NoncesShort) { 4 } else { NONCE_BYTES };
        self.random.fill(&mut nonce[..drawn]);
        let tag = self.key.encrypt(&nonce, associated, bytes);
        Envelope { nonce, tag }
    }

    /// Decrypts `bytes` in place.
    ///
    /// # Errors
    /// `NotAuthentic` if `bytes`, `associated` or the envelope are not those that `encrypt` saw and gave; what `bytes`
    /// then holds is of no use.
    pub fn decrypt(
        &self,
        envelope: &Envelope,
        associated: &[u8],
        bytes: &mut [u8],
    ) -> Result<(), NotAuthentic> {
        self.key.decrypt(&envelope.nonce, associated, bytes, &envelope.tag)
    }
}

impl Cipher {
    /// A number by which `bytes` can be known again, and which tells nothing about them to whoever has no key.
    pub fn mark(&self, bytes: &[u8]) -> u32 {
        let derived = self.mark_key.derive(bytes, "mark");
        u32::from_le_bytes(*derived.expose().first_chunk().expect("four of 32 bytes"))
    }
}

impl fmt::Debug for Cipher {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Cipher(hidden)")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeSet, HashSet};
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use seawall_simulation::SimulatedRandom;

    /// Randomness that notes how much of it was drawn.
    #[derive(Debug)]
    struct CountedRandom {
        random: SimulatedRandom,
        drawn_bytes: AtomicU64,
    }

    impl Random for CountedRandom {
        fn fill(&self, bytes: &mut [u8]) {
            self.random.fill(bytes);
            self.drawn_bytes.fetch_add(bytes.len() as u64, Ordering::SeqCst);
        }
    }

    /// Two messages of one key under one nonce give both away. 300,000 draws of 32 bits would hold ten repeats.
    #[test]
    fn no_nonce_is_used_twice_and_every_bit_of_it_is_random() {
        const MESSAGES: u64 = 300_000;
        let random =
            Arc::new(CountedRandom { random: SimulatedRandom::new(1), drawn_bytes: AtomicU64::new(0) });
        let cipher = Cipher::new(&SecretKey::from_bytes([1; 32]), Arc::clone(&random) as Arc<dyn Random>);
        let mut nonces = HashSet::new();
        // A repeat of any eight bytes would be a repeat of a part that is not wholly random.
        let mut parts: [HashSet<[u8; 8]>; 3] = Default::default();
        let mut values = vec![BTreeSet::new(); NONCE_BYTES];
        for _ in 0..MESSAGES {
            let nonce = cipher.encrypt(b"", &mut []).nonce;
            assert!(nonces.insert(nonce), "{nonce:?} was used twice");
            for (part, bytes) in parts.iter_mut().zip(nonce.as_chunks().0) {
                assert!(part.insert(*bytes), "{bytes:?} came twice at one place in nonces");
            }
            values.iter_mut().zip(nonce).for_each(|(values, byte)| {
                values.insert(byte);
            });
        }
        assert!(values.iter().all(|values| values.len() == 256), "a byte of nonces does not take all values");
        assert_eq!(random.drawn_bytes.load(Ordering::SeqCst), MESSAGES * NONCE_BYTES as u64);
    }

    /// A clone shares the key, so it must not repeat nonces of the original.
    #[test]
    fn clones_of_a_cipher_draw_nonces_of_their_own() {
        let cipher = Cipher::new(&SecretKey::from_bytes([1; 32]), Arc::new(SimulatedRandom::new(1)));
        let (first, second) = (cipher.clone(), cipher.clone());
        let nonces: HashSet<Nonce> = (0..1_000)
            .flat_map(|_| [&cipher, &first, &second].map(|cipher| cipher.encrypt(b"", &mut []).nonce))
            .collect();
        assert_eq!(nonces.len(), 3_000);
    }

    #[test]
    fn the_same_message_never_looks_the_same() {
        let cipher = Cipher::new(&SecretKey::from_bytes([1; 32]), Arc::new(SimulatedRandom::new(1)));
        let (mut first, mut second) = (*b"message", *b"message");
        let envelopes = [cipher.encrypt(b"place", &mut first), cipher.encrypt(b"place", &mut second)];
        assert_ne!(first, second);
        assert_ne!(envelopes[0], envelopes[1]);
        let stored = Envelope::from_bytes(&envelopes[0].to_bytes());
        assert_eq!(cipher.decrypt(&stored, b"place", &mut first), Ok(()));
        assert_eq!(&first, b"message");
        assert_eq!(cipher.decrypt(&stored, b"place", &mut second), Err(NotAuthentic));
        assert_eq!(cipher.decrypt(&envelopes[1], b"elsewhere", &mut second.clone()), Err(NotAuthentic));
        let other = Cipher::new(&SecretKey::from_bytes([2; 32]), Arc::new(SimulatedRandom::new(1)));
        assert_eq!(cipher.mark(b"bytes"), cipher.mark(b"bytes"));
        assert_ne!(cipher.mark(b"bytes"), cipher.mark(b"bytez"));
        assert_ne!(cipher.mark(b"bytes"), other.mark(b"bytes"));
    }
}
