//! All keys of an archive, for all master keys that open it: the content of an object `keys/<id of the archive>.<number>`.
//! Integers little-endian:
//!
//! | offset | bytes | field      | meaning                                                               |
//! |-------:|------:|------------|-----------------------------------------------------------------------|
//! |      0 |     8 | magic      | `SWRNG\r\n` and 0x1A; a text-mode copy does not match                 |
//! |      8 |     4 | version    | 1; an unknown one is refused                                          |
//! |     12 |     4 | checksum   | CRC-32C of all bytes, this field as zero                              |
//! |     16 |    16 | repository | id of the archive; the ring of another one is refused                 |
//! |     32 |     4 | number     | from 1 on, as in its name                                             |
//! |     36 |     4 | copies     | how many follow, 1 to 4096                                            |
//! |     40 |       | copies     | 160 bytes each, a key wrapped by a master key; oldest key first. Each master key has a copy of each key |
//!
//! ```text
//!   ring 1: K1 by A            a rotation reads the newest ring, and puts the next one, if there is none with this number yet:
//!   ring 2: K1 by A, K1 by B   of two rotations at the same moment one wins, and the other one starts again from what that has
//!   ring 3: K1 by B, K2 by B   put. Only then are older rings removed. The newest ring counts, and no other
//! ```
//! Invariants:
//! * A ring has every key of the ring before it. So no key is lost, whatever rotations there are and wherever they end.
//! * Every master key of a ring opens every key in it.
//!
//! One damaged byte locks nobody out whose own copies are whole: each has a checksum of its own, and a tag. `decode_damaged` takes the
//! copies of those master keys that have all keys; which keys there are follows from the places of all copies. Whose copies are lost is
//! remembered: the next ring cannot have them, so it is refused where these master keys are to be kept.

use std::collections::BTreeSet;
use std::sync::Arc;

use seawall_codec::bytes::u32_at;
use seawall_codec::checksum::crc32c;
use seawall_codec::encryption::SecretKey;
use seawall_codec::hexadecimal::to_hexadecimal;
use seawall_io::Random;

use crate::database_keys::OtherMasterKeys;
use crate::keys_file::{Fingerprint, fingerprint_of};
use crate::repository_key::{
    RepositoryKey, RepositoryKeyError, RepositoryKeyId, WRAPPED_REPOSITORY_KEY_BYTES, WrappedKey,
};

/// The most copies that a ring has.
const COPIES_MAX: usize = 4096;
/// Length of the longest ring.
pub const KEY_RING_BYTES_MAX: usize = COPIES + COPIES_MAX * WRAPPED_REPOSITORY_KEY_BYTES;

const MAGIC: [u8; 8] = *b"SWRNG\r\n\x1A";
const FORMAT_VERSION: u32 = 1;
/// Where the copies begin.
const COPIES: usize = 40;

/// All keys of a repository, each wrapped by each master key that opens it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRing {
    repository: [u8; 16],
    number: u32,
    copies: Vec<WrappedKey>,
    is_whole: bool,
    /// Master keys of a damaged ring whose copies are not all whole.
    lost: BTreeSet<Fingerprint>,
}

impl KeyRing {
    /// The first ring of a repository.
    pub fn first(repository: [u8; 16], key: &RepositoryKey, master: &SecretKey) -> KeyRing {
        let copies = vec![WrappedKey::new(key, &repository, master)];
        KeyRing { repository, number: 1, copies, is_whole: true, lost: BTreeSet::new() }
    }

    /// The ring after this one, which has `keys`, oldest first, for `masters`, and those of this ring if they are kept.
    ///
    /// # Errors
    /// `OtherMasterKeys` if one that is kept has no copy of one of `keys`: that can be made with this master key only. `LostMasterKeys`
    /// if the copies of one that is kept are damaged: those, too, can be made with it only. `TooMany`.
    ///
    /// # Panics
    /// If a key of this ring is not among `keys`.
    pub fn next(
        &self,
        keys: &[RepositoryKey],
        masters: &[&SecretKey],
        others: OtherMasterKeys,
    ) -> Result<KeyRing, RepositoryKeyError> {
        let ids: BTreeSet<RepositoryKeyId> = keys.iter().map(RepositoryKey::id).collect();
        assert!(self.keys().is_subset(&ids), "a key of the ring would be lost");
        let given: BTreeSet<Fingerprint> = masters.iter().map(|master| fingerprint_of(master)).collect();
        let lost: Vec<String> = self.lost.difference(&given).map(short).collect();
        if others == OtherMasterKeys::Keep && !lost.is_empty() {
            return Err(RepositoryKeyError::LostMasterKeys(lost));
        }
        let mut copies = match others {
            OtherMasterKeys::Drop => Vec::new(),
            OtherMasterKeys::Keep => self.copies.clone(),
        };
        copies.retain(|copy| !given.contains(&copy.fingerprint()));
        if !copies.is_empty() && self.keys() != ids {
            let others: BTreeSet<String> = copies.iter().map(|copy| short(&copy.fingerprint())).collect();
            return Err(RepositoryKeyError::OtherMasterKeys(others.into_iter().collect()));
        }
        let wrap = |key| masters.iter().map(move |master| WrappedKey::new(key, &self.repository, master));
        copies.extend(keys.iter().flat_map(wrap));
        // One master key may be given twice.
        let mut seen = BTreeSet::new();
        copies.retain(|copy| seen.insert((copy.key(), copy.fingerprint())));
        let number = self.number.checked_add(1).filter(|_| copies.len() <= COPIES_MAX);
        let number = number.ok_or(RepositoryKeyError::TooMany { limit: COPIES_MAX })?;
        Ok(KeyRing { repository: self.repository, number, copies, is_whole: true, lost: BTreeSet::new() })
    }

    /// Its number, from 1 on.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Fingerprints of the master keys that open it.
    pub fn masters(&self) -> BTreeSet<String> {
        self.copies.iter().map(|copy| short(&copy.fingerprint())).collect()
    }

    /// Fingerprints of the master keys that opened it before it was damaged, and do not any more.
    pub fn lost_masters(&self) -> BTreeSet<String> {
        self.lost.iter().map(short).collect()
    }

    /// Which keys it has.
    pub fn keys(&self) -> BTreeSet<RepositoryKeyId> {
        self.copies.iter().map(WrappedKey::key).collect()
    }

    /// All keys, oldest first.
    ///
    /// # Errors
    /// `OtherMasterKey` if `master` is none of those that open it, `Damaged`.
    pub fn open(
        &self,
        master: &SecretKey,
        random: &Arc<dyn Random>,
    ) -> Result<Vec<RepositoryKey>, RepositoryKeyError> {
        let own = fingerprint_of(master);
        let copies = self.copies.iter().filter(|copy| copy.fingerprint() == own);
        let keys: Result<Vec<RepositoryKey>, RepositoryKeyError> =
            copies.map(|copy| copy.unwrap(&self.repository, master, Arc::clone(random))).collect();
        let keys = keys?;
        if keys.is_empty() && !self.is_whole {
            return Err(RepositoryKeyError::Damaged("it has no whole copies for this master key"));
        }
        if keys.is_empty() {
            let known: Vec<String> = self.masters().into_iter().collect();
            return Err(RepositoryKeyError::OtherMasterKey(known.join(", ")));
        }
        Ok(keys)
    }

    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let count = u32::try_from(self.copies.len()).expect("a few thousand at most");
        let mut bytes = Vec::with_capacity(COPIES + self.copies.len() * WRAPPED_REPOSITORY_KEY_BYTES);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&self.repository);
        bytes.extend_from_slice(&self.number.to_le_bytes());
        bytes.extend_from_slice(&count.to_le_bytes());
        self.copies.iter().for_each(|copy| bytes.extend_from_slice(copy.bytes()));
        let checksum = crc32c(&bytes);
        bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Reads what `encode` wrote.
    ///
    /// # Errors
    /// `Damaged`, `Version` or `OtherRepository`.
    pub fn decode(bytes: &[u8], repository: &[u8; 16]) -> Result<KeyRing, RepositoryKeyError> {
        use RepositoryKeyError::Damaged;
        let (header, rest) =
            bytes.split_first_chunk::<COPIES>().ok_or(Damaged("it ends within its header"))?;
        check_form(header, rest)?;
        if header[16..32] != repository[..] {
            return Err(RepositoryKeyError::OtherRepository);
        }
        let copies = copies_in(header, rest)?;
        let copies = copies.iter().map(WrappedKey::decode).collect::<Result<Vec<_>, _>>()?;
        let ring = KeyRing {
            repository: *repository,
            number: u32_at(header, 32),
            copies,
            is_whole: true,
            lost: BTreeSet::new(),
        };
        check_places(&ring.copies)?;
        if ring.number == 0 || ring.copies.iter().any(|copy| copy.repository() != repository) {
            return Err(Damaged("it has a key of another repository, or no number"));
        }
        Ok(ring)
    }

    /// What is left of the ring `number` that `decode` has found damaged: the copies of each master key for which all are whole, and
    /// which master keys have lost theirs.
    ///
    /// # Errors
    /// `Damaged` if it cannot be told which keys it had, or no master key has all of them.
    pub fn decode_damaged(
        bytes: &[u8],
        repository: &[u8; 16],
        number: u32,
    ) -> Result<KeyRing, RepositoryKeyError> {
        use RepositoryKeyError::Damaged;
        let (header, rest) =
            bytes.split_first_chunk::<COPIES>().ok_or(Damaged("it ends within its header"))?;
        let copies = copies_in(header, rest)?;
        let found: Vec<WrappedKey> = copies.iter().map(WrappedKey::unchecked).collect();
        check_places(&found)?;
        let is_damaged = |copy: &&WrappedKey| !copy.is_whole() || copy.repository() != repository;
        let lost: BTreeSet<Fingerprint> =
            found.iter().filter(is_damaged).map(WrappedKey::fingerprint).collect();
        let copies: Vec<_> = found.into_iter().filter(|copy| !lost.contains(&copy.fingerprint())).collect();
        match copies.is_empty() {
            true => Err(Damaged("no master key has whole copies of all keys")),
            false => Ok(KeyRing { repository: *repository, number, copies, is_whole: false, lost }),
        }
    }
}

/// As many copies as the header says, and nothing more.
fn copies_in<'a>(
    header: &[u8; COPIES],
    rest: &'a [u8],
) -> Result<&'a [[u8; WRAPPED_REPOSITORY_KEY_BYTES]], RepositoryKeyError> {
    let (copies, more) = rest.as_chunks::<WRAPPED_REPOSITORY_KEY_BYTES>();
    let expected = usize::try_from(u32_at(header, 36)).unwrap_or(usize::MAX);
    match copies.len() == expected && more.is_empty() && (1..=COPIES_MAX).contains(&expected) {
        true => Ok(copies),
        false => Err(RepositoryKeyError::Damaged("it has not as many keys as it says")),
    }
}

/// Each master key has each key, once.
fn check_places(copies: &[WrappedKey]) -> Result<(), RepositoryKeyError> {
    let places: BTreeSet<_> = copies.iter().map(|copy| (copy.key(), copy.fingerprint())).collect();
    let keys: BTreeSet<RepositoryKeyId> = copies.iter().map(WrappedKey::key).collect();
    let masters: BTreeSet<Fingerprint> = copies.iter().map(WrappedKey::fingerprint).collect();
    // Distinct, and as many as there can be.
    match places.len() == copies.len() && places.len() == keys.len() * masters.len() {
        true => Ok(()),
        false => Err(RepositoryKeyError::Damaged("a master key lacks a key, or has it twice")),
    }
}

fn check_form(header: &[u8; COPIES], rest: &[u8]) -> Result<(), RepositoryKeyError> {
    use RepositoryKeyError::Damaged;
    if header[0..8] != MAGIC {
        return Err(Damaged("it does not begin as a ring of keys does"));
    }
    match u32_at(header, 8) {
        FORMAT_VERSION => {}
        version => return Err(RepositoryKeyError::Version(version)),
    }
    let mut unsealed = *header;
    unsealed[12..16].fill(0);
    if u32_at(header, 12) != crc32c(&[&unsealed[..], rest].concat()) {
        return Err(Damaged("its checksum is wrong"));
    }
    Ok(())
}

/// The digits that are shown.
fn short(fingerprint: &Fingerprint) -> String {
    to_hexadecimal(&fingerprint[..8])
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_simulation::SimulatedRandom;

    const REPOSITORY: [u8; 16] = *b"0123456789abcdef";

    fn random() -> Arc<dyn Random> {
        Arc::new(SimulatedRandom::new(1))
    }

    fn master(byte: u8) -> SecretKey {
        SecretKey::from_bytes([byte; 32])
    }

    fn key(seed: u64) -> RepositoryKey {
        RepositoryKey::draw(Arc::new(SimulatedRandom::new(seed)), 7)
    }

    fn ids(ring: &KeyRing, master: &SecretKey) -> Vec<RepositoryKeyId> {
        ring.open(master, &random()).unwrap().iter().map(RepositoryKey::id).collect()
    }

    #[test]
    fn a_ring_comes_back_and_opens_for_each_of_its_master_keys() {
        let (one, two) = (key(1), key(2));
        let first = KeyRing::first(REPOSITORY, &one, &master(1));
        let both =
            first.next(std::slice::from_ref(&one), &[&master(1), &master(2)], OtherMasterKeys::Keep).unwrap();
        let renewed =
            both.next(&[one.clone(), two.clone()], &[&master(1), &master(2)], OtherMasterKeys::Keep).unwrap();
        let last = renewed.next(&[one.clone(), two.clone()], &[&master(3)], OtherMasterKeys::Drop).unwrap();
        for (ring, number, masters) in
            [(&first, 1, &[1][..]), (&both, 2, &[1, 2]), (&renewed, 3, &[1, 2]), (&last, 4, &[3])]
        {
            let back = KeyRing::decode(&ring.encode(), &REPOSITORY).unwrap();
            assert_eq!((&back, back.number(), back.masters().len()), (ring, number, masters.len()));
            for byte in masters {
                let expected: Vec<_> =
                    [&one, &two].iter().take(back.keys().len()).map(|key| key.id()).collect();
                assert_eq!(ids(&back, &master(*byte)), expected, "oldest first");
            }
        }
        assert!(matches!(last.open(&master(1), &random()), Err(RepositoryKeyError::OtherMasterKey(_))));
        assert_eq!(KeyRing::decode(&last.encode(), &[0; 16]), Err(RepositoryKeyError::OtherRepository));
    }

    #[test]
    fn a_new_key_cannot_leave_out_a_master_key_that_is_kept() {
        let (one, two) = (key(1), key(2));
        let both = KeyRing::first(REPOSITORY, &one, &master(1))
            .next(std::slice::from_ref(&one), &[&master(2)], OtherMasterKeys::Keep)
            .unwrap();
        let refused =
            both.next(&[one.clone(), two.clone()], &[&master(1), &master(3)], OtherMasterKeys::Keep);
        let Err(RepositoryKeyError::OtherMasterKeys(others)) = refused else { panic!("{refused:?}") };
        assert_eq!(others, [crate::master_key_fingerprint(&master(2))]);
        assert!(both.next(&[one, two], &[&master(1), &master(2)], OtherMasterKeys::Keep).is_ok());
    }

    #[test]
    #[should_panic(expected = "would be lost")]
    fn no_key_is_left_out_of_the_next_ring() {
        let ring = KeyRing::first(REPOSITORY, &key(1), &master(1));
        drop(ring.next(&[key(2)], &[&master(1)], OtherMasterKeys::Drop));
    }

    #[test]
    fn there_is_a_limit_and_it_is_told() {
        let one = key(1);
        let masters: Vec<SecretKey> = (0..=255).map(master).collect();
        let masters: Vec<&SecretKey> = masters.iter().collect();
        let first = KeyRing::first(REPOSITORY, &one, masters[0]);
        let mut keys: Vec<RepositoryKey> = (2..=16).map(key).collect();
        keys.insert(0, one);
        let full = first.next(&keys, &masters, OtherMasterKeys::Drop).unwrap();
        assert_eq!(full.encode().len(), KEY_RING_BYTES_MAX);
        assert_eq!(KeyRing::decode(&full.encode(), &REPOSITORY).as_ref(), Ok(&full));
        keys.push(key(17));
        let more = full.next(&keys, &masters, OtherMasterKeys::Drop);
        assert_eq!(more, Err(RepositoryKeyError::TooMany { limit: 4096 }));
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_refused() {
        let one = key(1);
        let ring = KeyRing::first(REPOSITORY, &one, &master(1))
            .next(&[one, key(2)], &[&master(1)], OtherMasterKeys::Drop)
            .unwrap();
        let bytes = ring.encode();
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(KeyRing::decode(&damaged, &REPOSITORY).is_err(), "bit {bit}");
        }
        for length in 0..bytes.len() {
            assert!(KeyRing::decode(&bytes[..length], &REPOSITORY).is_err(), "length {length}");
        }
        assert!(KeyRing::decode(&[&bytes[..], &[0]].concat(), &REPOSITORY).is_err());
    }

    /// Whatever is damaged: a master key opens all keys, or none.
    #[test]
    fn a_flipped_bit_locks_out_nobody_whose_own_copies_are_whole() {
        let keys = [key(1), key(2)];
        let ring = KeyRing::first(REPOSITORY, &keys[0], &master(1));
        let ring = ring.next(&keys, &[&master(1), &master(2)], OtherMasterKeys::Drop).unwrap();
        let expected: Vec<_> = keys.iter().map(RepositoryKey::id).collect();
        let bytes = ring.encode();
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let found = KeyRing::decode_damaged(&damaged, &REPOSITORY, 2);
            let opens = |byte| match found.as_ref().map(|ring| ring.open(&master(byte), &random())) {
                Ok(Ok(keys)) => {
                    assert_eq!(keys.iter().map(RepositoryKey::id).collect::<Vec<_>>(), expected, "bit {bit}");
                    true
                }
                Ok(Err(RepositoryKeyError::Damaged(_))) | Err(RepositoryKeyError::Damaged(_)) => false,
                other => panic!("bit {bit}: {other:?}"),
            };
            let opened = [1, 2].into_iter().filter(|byte| opens(*byte)).count();
            let in_copy = (bit / 8).checked_sub(COPIES).map(|offset| offset % WRAPPED_REPOSITORY_KEY_BYTES);
            let expected = match in_copy {
                // How many there are.
                None if bit / 8 >= 36 => 0,
                None => 2,
                // Which key it is, and whose.
                Some(32..40 | 48..64) => 0,
                Some(_) => 1,
            };
            assert_eq!(opened, expected, "bit {bit}");
        }
        // One that is cut short would lack a key.
        let one = ring.next(&keys, &[&master(1)], OtherMasterKeys::Drop).unwrap().encode();
        for length in 0..one.len() {
            assert!(KeyRing::decode_damaged(&one[..length], &REPOSITORY, 3).is_err(), "length {length}");
        }
    }
}
