//! The key of an archive, wrapped by a master key: a copy in a `KeyRing`. Integers little-endian:
//!
//! | offset | bytes | field       | meaning                                                               |
//! |-------:|------:|-------------|-----------------------------------------------------------------------|
//! |      0 |     8 | magic       | `SWRKY\r\n` and 0x1A; a text-mode copy does not match                 |
//! |      8 |     4 | version     | 1; an unknown one is refused                                          |
//! |     12 |     4 | checksum    | CRC-32C of all bytes, this field as zero                              |
//! |     16 |    16 | repository  | id of the archive; the key of another one is refused                  |
//! |     32 |     8 | key         | id of the repository key, drawn at random                             |
//! |     40 |     8 | created     | of the repository key: microseconds since 1970, signed                |
//! |     48 |    16 | fingerprint | of the master key that wraps it                                       |
//! |     64 |    40 | envelope    | nonce, 24 bytes, and tag, 16 bytes (XAES-256-GCM)                     |
//! |    104 |    32 | wrapped     | the repository key, encrypted; bytes 0..12 and 16..64 are the associated data |
//! |    136 |    24 | reserved    | zero; anything else is refused                                        |
//!
//! ```text
//!   master key --wraps--> repository key --wraps--> key of one object --encrypts--> its frames
//!        |                     |
//!   rotated by the        a new one may follow: objects written before keep theirs, and none is rewritten
//!   next ring
//! ```
//! So a new master key costs one small object, and nothing that exists is overwritten.

use std::fmt;
use std::sync::Arc;

use seawall_codec::checksum::crc32c;
use seawall_codec::encryption::{CipherKey, KEY_BYTES, NONCE_BYTES, NotAuthentic, SecretKey, Tag};
use seawall_codec::hexadecimal::to_hexadecimal;
use seawall_io::Random;
use zeroize::Zeroizing;

use crate::cipher::{Cipher, ENVELOPE_BYTES, Envelope};
use crate::keys_file::{Fingerprint, fingerprint_of};

/// Length of a wrapped repository key.
pub const WRAPPED_REPOSITORY_KEY_BYTES: usize = 160;
/// What the key of an object takes when it is wrapped, besides the nonce and the tag: the key, and eight bytes more.
pub const WRAPPED_OBJECT_KEY_BYTES: usize = KEY_BYTES + OBJECT_SECRET_BYTES;
/// Bytes that are wrapped with the key of an object.
pub const OBJECT_SECRET_BYTES: usize = 8;

const MAGIC: [u8; 8] = *b"SWRKY\r\n\x1A";
const FORMAT_VERSION: u32 = 1;
const _: () = assert!(104 + KEY_BYTES + 24 == WRAPPED_REPOSITORY_KEY_BYTES && 64 + ENVELOPE_BYTES == 104);

/// Tells a repository key from others. Not secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct RepositoryKeyId(pub [u8; 8]);

impl fmt::Display for RepositoryKeyId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

/// Why the bytes of a wrapped repository key give none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RepositoryKeyError {
    /// Not what `wrap` writes.
    #[error("it is damaged: {0}")]
    Damaged(&'static str),
    /// Written by a newer release.
    #[error("it has format version {0}, which this release does not know")]
    Version(u32),
    /// The key of another repository.
    #[error("it belongs to another repository")]
    OtherRepository,
    /// Wrapped by another master key.
    #[error("it was written for the master key with the fingerprint {0}")]
    OtherMasterKey(String),
    /// A new key cannot be wrapped by master keys that are not here.
    #[error("the master keys {} are kept, and a new key can be made for them only where they are given", .0.join(", "))]
    OtherMasterKeys(Vec<String>),
    /// Copies of keys are damaged, and can be made anew by master keys only that are not here.
    #[error("the copies of the keys for the master keys {} are damaged, and can be made anew only where these are given", .0.join(", "))]
    LostMasterKeys(Vec<String>),
    /// More keys and master keys than a ring has room for.
    #[error(
        "there is room for {limit} copies of keys: each master key has one of each key that was ever in force"
    )]
    TooMany {
        /// How many it can hold.
        limit: usize,
    },
}

/// The key of a repository, unwrapped in memory. Its `Debug` does not show it.
#[derive(Clone)]
pub struct RepositoryKey {
    id: RepositoryKeyId,
    created_micros: i64,
    key: SecretKey,
    random: Arc<dyn Random>,
}

/// The first digits of the fingerprint of a master key, for people and for names.
pub fn master_key_fingerprint(master: &SecretKey) -> String {
    to_hexadecimal(&fingerprint_of(master)[..8])
}

impl RepositoryKey {
    /// Draws a new one.
    pub fn draw(random: Arc<dyn Random>, created_micros: i64) -> RepositoryKey {
        let (mut id, mut key) = ([0; 8], Zeroizing::new([0; KEY_BYTES]));
        random.fill(&mut id);
        random.fill(&mut key[..]);
        let key = SecretKey::from_bytes(*key);
        RepositoryKey { id: RepositoryKeyId(id), created_micros, key, random }
    }

    /// Which it is.
    pub fn id(&self) -> RepositoryKeyId {
        self.id
    }

    /// When it was drawn, microseconds since 1970.
    pub fn created_micros(&self) -> i64 {
        self.created_micros
    }

    /// The bytes to store, for the repository with the id `repository`.
    pub fn wrap(&self, repository: &[u8; 16], master: &SecretKey) -> [u8; WRAPPED_REPOSITORY_KEY_BYTES] {
        let mut bytes = [0; WRAPPED_REPOSITORY_KEY_BYTES];
        bytes[0..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes[16..32].copy_from_slice(repository);
        bytes[32..40].copy_from_slice(&self.id.0);
        bytes[40..48].copy_from_slice(&self.created_micros.to_le_bytes());
        bytes[48..64].copy_from_slice(&fingerprint_of(master));
        let mut wrapped = *self.key.expose();
        let cipher = Cipher::new(master, Arc::clone(&self.random));
        let envelope = cipher.encrypt(&associated_data(&bytes), &mut wrapped);
        bytes[64..104].copy_from_slice(&envelope.to_bytes());
        bytes[104..136].copy_from_slice(&wrapped);
        let checksum = crc32c(&bytes);
        bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Reads what `wrap` wrote.
    ///
    /// # Errors
    /// `RepositoryKeyError`; `OtherMasterKey` if `master` is not the one that it was wrapped with.
    pub fn unwrap(
        bytes: &[u8],
        repository: &[u8; 16],
        master: &SecretKey,
        random: Arc<dyn Random>,
    ) -> Result<RepositoryKey, RepositoryKeyError> {
        use RepositoryKeyError::Damaged;
        let bytes: &[u8; WRAPPED_REPOSITORY_KEY_BYTES] =
            bytes.try_into().map_err(|_| Damaged("it is not 160 bytes long"))?;
        check_form(bytes)?;
        if bytes[16..32] != repository[..] {
            return Err(RepositoryKeyError::OtherRepository);
        }
        let fingerprint: Fingerprint = array_at(bytes, 48);
        if fingerprint != fingerprint_of(master) {
            return Err(RepositoryKeyError::OtherMasterKey(to_hexadecimal(&fingerprint[..8])));
        }
        let mut key = Zeroizing::new(array_at::<KEY_BYTES>(bytes, 104));
        let cipher = Cipher::new(master, Arc::clone(&random));
        let envelope = Envelope::from_bytes(&array_at(bytes, 64));
        cipher
            .decrypt(&envelope, &associated_data(bytes), &mut key[..])
            .map_err(|_| Damaged("it does not authenticate, although the master key is the right one"))?;
        Ok(RepositoryKey {
            id: RepositoryKeyId(array_at(bytes, 32)),
            created_micros: i64::from_le_bytes(array_at(bytes, 40)),
            key: SecretKey::from_bytes(*key),
            random,
        })
    }

    /// Draws the key of a new object.
    pub fn draw_object_key(&self) -> ObjectKey {
        let mut key = Zeroizing::new([0; KEY_BYTES]);
        self.random.fill(&mut key[..]);
        ObjectKey::new(SecretKey::from_bytes(*key))
    }

    /// Wraps the key of an object, and a few bytes with it that nobody else shall see. `associated` stays readable, and
    /// must be the same when it is unwrapped.
    pub fn wrap_object_key(
        &self,
        object: &ObjectKey,
        secret: [u8; OBJECT_SECRET_BYTES],
        associated: &[u8],
    ) -> (Envelope, [u8; WRAPPED_OBJECT_KEY_BYTES]) {
        let mut wrapped = [0; WRAPPED_OBJECT_KEY_BYTES];
        wrapped[..KEY_BYTES].copy_from_slice(object.key.expose());
        wrapped[KEY_BYTES..].copy_from_slice(&secret);
        let envelope = self.cipher().encrypt(associated, &mut wrapped);
        (envelope, wrapped)
    }

    /// The key of an object and what was wrapped with it.
    ///
    /// # Errors
    /// `NotAuthentic` if any of it, or `associated`, is not what it was.
    pub fn unwrap_object_key(
        &self,
        envelope: &Envelope,
        wrapped: &[u8; WRAPPED_OBJECT_KEY_BYTES],
        associated: &[u8],
    ) -> Result<(ObjectKey, [u8; OBJECT_SECRET_BYTES]), NotAuthentic> {
        let mut plain = Zeroizing::new(*wrapped);
        self.cipher().decrypt(envelope, associated, &mut plain[..])?;
        let (key, secret) = plain.split_first_chunk::<KEY_BYTES>().expect("32 of 40 bytes");
        let secret = secret.try_into().expect("the other eight of 40 bytes");
        Ok((ObjectKey::new(SecretKey::from_bytes(*key)), secret))
    }

    /// Authenticates a text of the repository that everybody may read.
    pub fn seal(&self, text: &[u8]) -> Envelope {
        self.text_cipher().encrypt(text, &mut [])
    }

    /// Whether `text` is what `seal` saw.
    ///
    /// # Errors
    /// `NotAuthentic` if not, or if it was another key.
    pub fn check_seal(&self, envelope: &Envelope, text: &[u8]) -> Result<(), NotAuthentic> {
        self.text_cipher().decrypt(envelope, text, &mut [])
    }

    fn text_cipher(&self) -> Cipher {
        Cipher::new(&self.key.derive(&self.id.0, "seawall repository texts v1"), Arc::clone(&self.random))
    }

    fn cipher(&self) -> Cipher {
        Cipher::new(&self.key.derive(&self.id.0, "seawall object keys v1"), Arc::clone(&self.random))
    }
}

/// A key as it is stored. What is in it was not found authentic before it is unwrapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WrappedKey([u8; WRAPPED_REPOSITORY_KEY_BYTES]);

impl WrappedKey {
    pub(crate) fn new(key: &RepositoryKey, repository: &[u8; 16], master: &SecretKey) -> WrappedKey {
        WrappedKey(key.wrap(repository, master))
    }

    pub(crate) fn decode(
        bytes: &[u8; WRAPPED_REPOSITORY_KEY_BYTES],
    ) -> Result<WrappedKey, RepositoryKeyError> {
        check_form(bytes)?;
        Ok(WrappedKey(*bytes))
    }

    /// What may be damaged.
    pub(crate) fn unchecked(bytes: &[u8; WRAPPED_REPOSITORY_KEY_BYTES]) -> WrappedKey {
        WrappedKey(*bytes)
    }

    pub(crate) fn is_whole(&self) -> bool {
        check_form(&self.0).is_ok()
    }

    pub(crate) fn bytes(&self) -> &[u8; WRAPPED_REPOSITORY_KEY_BYTES] {
        &self.0
    }

    pub(crate) fn repository(&self) -> &[u8; 16] {
        self.0[16..32].try_into().expect("16 of 160 bytes")
    }

    pub(crate) fn key(&self) -> RepositoryKeyId {
        RepositoryKeyId(array_at(&self.0, 32))
    }

    pub(crate) fn fingerprint(&self) -> Fingerprint {
        array_at(&self.0, 48)
    }

    pub(crate) fn unwrap(
        &self,
        repository: &[u8; 16],
        master: &SecretKey,
        random: Arc<dyn Random>,
    ) -> Result<RepositoryKey, RepositoryKeyError> {
        RepositoryKey::unwrap(&self.0, repository, master, random)
    }
}

fn check_form(bytes: &[u8; WRAPPED_REPOSITORY_KEY_BYTES]) -> Result<(), RepositoryKeyError> {
    use RepositoryKeyError::Damaged;
    if bytes[0..8] != MAGIC {
        return Err(Damaged("it does not begin as a repository key does"));
    }
    let mut unsealed = *bytes;
    unsealed[12..16].fill(0);
    if u32::from_le_bytes(array_at(bytes, 12)) != crc32c(&unsealed) {
        return Err(Damaged("its checksum is wrong"));
    }
    match u32::from_le_bytes(array_at(bytes, 8)) {
        FORMAT_VERSION => {}
        version => return Err(RepositoryKeyError::Version(version)),
    }
    if bytes[136..].iter().any(|byte| *byte != 0) {
        return Err(Damaged("reserved bytes are not zero"));
    }
    Ok(())
}

fn associated_data(bytes: &[u8; WRAPPED_REPOSITORY_KEY_BYTES]) -> [u8; 60] {
    let mut associated = [0; 60];
    associated[..12].copy_from_slice(&bytes[..12]);
    associated[12..].copy_from_slice(&bytes[16..64]);
    associated
}

fn array_at<const N: usize>(bytes: &[u8; WRAPPED_REPOSITORY_KEY_BYTES], offset: usize) -> [u8; N] {
    bytes[offset..offset + N].try_into().expect("the range has the length of the array")
}

impl fmt::Debug for RepositoryKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("RepositoryKey").field("id", &self.id).finish_non_exhaustive()
    }
}

/// The key of one object. Each was drawn for one object, so its frames are numbered instead of getting nonces of their
/// own: a number is used once.
#[derive(Clone)]
pub struct ObjectKey {
    key: SecretKey,
    cipher: CipherKey,
}

/// Which frame of an object: its number, and whether it is the last one. So frames can neither be exchanged nor left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FramePlace {
    /// Counted from 0.
    pub index: u64,
    /// No other follows.
    pub is_last: bool,
}

impl FramePlace {
    fn nonce(self) -> [u8; NONCE_BYTES] {
        let mut nonce = [0; NONCE_BYTES];
        nonce[..8].copy_from_slice(&self.index.to_le_bytes());
        nonce[8] = u8::from(self.is_last);
        nonce
    }
}

impl ObjectKey {
    fn new(key: SecretKey) -> ObjectKey {
        let cipher = CipherKey::new(&key);
        ObjectKey { key, cipher }
    }

    /// Encrypts the frame at `place` in place. To be called once for each place.
    pub fn encrypt(&self, place: FramePlace, associated: &[u8], bytes: &mut [u8]) -> Tag {
        self.cipher.encrypt(&place.nonce(), associated, bytes)
    }

    /// Decrypts the frame at `place` in place.
    ///
    /// # Errors
    /// `NotAuthentic`; what `bytes` then holds is of no use.
    pub fn decrypt(
        &self,
        place: FramePlace,
        associated: &[u8],
        bytes: &mut [u8],
        tag: &Tag,
    ) -> Result<(), NotAuthentic> {
        self.cipher.decrypt(&place.nonce(), associated, bytes, tag)
    }
}

impl fmt::Debug for ObjectKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ObjectKey(hidden)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_simulation::SimulatedRandom;

    const REPOSITORY: &[u8; 16] = b"0123456789abcdef";

    fn random() -> Arc<dyn Random> {
        Arc::new(SimulatedRandom::new(1))
    }

    fn master(byte: u8) -> SecretKey {
        SecretKey::from_bytes([byte; 32])
    }

    #[test]
    fn a_key_comes_back_for_its_master_key_and_repository_only() {
        let key = RepositoryKey::draw(random(), 7);
        let bytes = key.wrap(REPOSITORY, &master(1));
        let back = RepositoryKey::unwrap(&bytes, REPOSITORY, &master(1), random()).unwrap();
        assert_eq!((back.id(), back.created_micros(), back.key.expose()), (key.id(), 7, key.key.expose()));
        let unwrap = |repository, master| RepositoryKey::unwrap(&bytes, repository, &master, random());
        assert!(matches!(unwrap(REPOSITORY, master(2)), Err(RepositoryKeyError::OtherMasterKey(_))));
        assert!(matches!(unwrap(&[0; 16], master(1)), Err(RepositoryKeyError::OtherRepository)));
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_refused() {
        let bytes = RepositoryKey::draw(random(), 7).wrap(REPOSITORY, &master(1));
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(RepositoryKey::unwrap(&damaged, REPOSITORY, &master(1), random()).is_err(), "bit {bit}");
            // With a checksum that fits, the authentication tells.
            damaged[12..16].fill(0);
            let checksum = crc32c(&damaged);
            damaged[12..16].copy_from_slice(&checksum.to_le_bytes());
            if damaged != bytes {
                assert!(
                    RepositoryKey::unwrap(&damaged, REPOSITORY, &master(1), random()).is_err(),
                    "bit {bit}, sealed"
                );
            }
        }
        for length in 0..bytes.len() {
            assert!(RepositoryKey::unwrap(&bytes[..length], REPOSITORY, &master(1), random()).is_err());
        }
    }

    #[test]
    fn a_sealed_text_is_known_again_and_no_other_is() {
        let key = RepositoryKey::draw(random(), 7);
        let seal = key.seal(b"some text");
        assert_eq!(key.check_seal(&seal, b"some text"), Ok(()));
        assert_eq!(key.check_seal(&seal, b"some Text"), Err(NotAuthentic));
        let other = RepositoryKey::draw(Arc::new(SimulatedRandom::new(2)), 7);
        assert_eq!(other.check_seal(&seal, b"some text"), Err(NotAuthentic));
    }

    #[test]
    fn frames_keep_their_places_and_objects_their_keys() {
        let key = RepositoryKey::draw(random(), 7);
        let object = key.draw_object_key();
        let (envelope, wrapped) = key.wrap_object_key(&object, [9; 8], b"header");
        let (back, secret) = key.unwrap_object_key(&envelope, &wrapped, b"header").unwrap();
        assert_eq!(secret, [9; 8]);
        assert!(key.unwrap_object_key(&envelope, &wrapped, b"other").is_err());
        let mut bytes = *b"frame";
        let place = FramePlace { index: 1, is_last: false };
        let tag = object.encrypt(place, b"", &mut bytes);
        for other in [FramePlace { index: 0, is_last: false }, FramePlace { index: 1, is_last: true }] {
            assert_eq!(back.decrypt(other, b"", &mut bytes.clone(), &tag), Err(NotAuthentic));
        }
        assert_eq!(back.decrypt(place, b"", &mut bytes, &tag), Ok(()));
        assert_eq!(&bytes, b"frame");
    }
}
