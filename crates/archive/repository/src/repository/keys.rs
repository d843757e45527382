//! The keys of an encrypted repository: made, read, handed over to another master key.
//!
//! All keys are in one small object, a ring ([`KeyRing`]). A rotation puts the next ring and then removes those before it. What
//! the repository holds is neither read nor written. What is there if the power goes:
//!
//! ```text
//!   before the put    the ring before: nothing has changed
//!   after the put     the new ring, which counts, and older ones, which do not: the next rotation removes them, too
//! ```
//! Two rotations at the same moment put a ring with the same number: the store takes one of them, and the other is refused. One that
//! was overtaken by several finds that its ring is not the newest, and is refused, too. So what a rotation uses and removes
//! follows from the newest ring, and none removes what another one has just put.
//!
//! A ring's number is under a checksum, which anybody can make: whoever can write to the store can put the copies of an old ring
//! as the newest one. A ring has every key of the ring before it, so one that lacks a key is known for what it is by whoever knew that
//! key. Such a ring is refused, and no rotation removes a ring with a key that the new one lacks.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use seawall_codec::encryption::SecretKey;
use seawall_keys::{
    KEY_RING_BYTES_MAX, KeyRing, MasterKey, OtherMasterKeys, RepositoryKey, RepositoryKeyError,
    RepositoryKeyId, master_key_fingerprint,
};

use super::{FETCHES_OF_DAMAGED, Repository};
use crate::error::ArchiveError;
use crate::layout;
use crate::store::{Put, StoreCause, StoreError};

/// How often a ring is looked for that another rotation has removed meanwhile.
const LOOKS: u32 = 10;

/// How a master key is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Rotation {
    /// What becomes of the master keys that open the repository until now.
    pub others: OtherMasterKeys,
    /// Which repository key encrypts objects from then on.
    pub key: KeyInForce,
}

/// What a rotation has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rotated {
    /// Fingerprints of the master keys that no longer open the repository.
    pub removed_master_keys: Vec<String>,
    /// Older rings that are still there, and why. They do not count; but the master keys of before open what is in them.
    pub left_rings: Vec<LeftRing>,
}

/// An older ring of keys that a rotation has left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftRing {
    /// Its full name.
    pub object: String,
    /// Why it is still there.
    pub reason: String,
}

/// Which repository key encrypts objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum KeyInForce {
    /// The newest one that there is.
    #[default]
    Newest,
    /// A new one. Objects that are there keep theirs.
    Renewed,
}

impl Repository {
    /// Draws the first repository key, and puts the ring with it.
    pub(super) fn make_first_ring(&self) -> Result<Vec<RepositoryKey>, ArchiveError> {
        let master = self.master_key()?.expect("an encrypted repository is made with a master key");
        let key = self.draw_key();
        self.put_ring(&KeyRing::first(self.header.id, &key, &master))?;
        Ok(vec![key])
    }

    /// The keys that the master key opens, newest first; none if the repository is not encrypted.
    pub(super) fn read_keys(&self) -> Result<Vec<RepositoryKey>, ArchiveError> {
        let url = || self.url.clone();
        let master = match (self.header.is_encrypted, self.master_key()?) {
            (false, None) => return Ok(Vec::new()),
            (false, Some(_)) => return Err(ArchiveError::NotEncrypted { url: url() }),
            (true, None) => return Err(ArchiveError::NeedsMasterKey { url: url() }),
            (true, Some(master)) => master,
        };
        let ring = self.newest_ring()?;
        self.check_progress(&ring)?;
        let mut keys = self.open_ring(&ring, &master)?;
        keys.reverse();
        Ok(keys)
    }

    /// Whether a ring has all keys that are known already.
    fn check_progress(&self, ring: &KeyRing) -> Result<(), ArchiveError> {
        let keys = ring.keys();
        match self.keys().iter().find(|known| !keys.contains(&known.id())) {
            None => Ok(()),
            Some(lost) => Err(ArchiveError::KeysPutBack {
                object: self.storage.location(&self.ring_path(ring.number())),
                key: lost.id().to_string(),
            }),
        }
    }

    /// Reads the keys again if the newest ring has others than those that are known. Which it has everybody can read: where nothing
    /// has changed, the master key is not asked for.
    pub(super) fn take_up_keys(&self) -> Result<(), ArchiveError> {
        if !self.header.is_encrypted {
            return Ok(());
        }
        let known: BTreeSet<RepositoryKeyId> = self.keys().iter().map(RepositoryKey::id).collect();
        match self.newest_ring()?.keys() == known {
            true => Ok(()),
            false => self.reread_keys(),
        }
    }

    /// The keys in a ring, oldest first.
    fn open_ring(&self, ring: &KeyRing, master: &SecretKey) -> Result<Vec<RepositoryKey>, ArchiveError> {
        ring.open(master, &self.options.random).map_err(|error| match error {
            RepositoryKeyError::OtherMasterKey(known) => ArchiveError::WrongMasterKey {
                url: self.url.clone(),
                given: master_key_fingerprint(master),
                known,
            },
            source => self.key_error(ring.number(), source),
        })
    }

    fn newest_ring(&self) -> Result<KeyRing, ArchiveError> {
        let mut looks = 0;
        loop {
            looks += 1;
            let Some(number) = self.rings()?.pop_last() else {
                let object = self.storage.location(layout::KEYS);
                return Err(ArchiveError::Damaged { object, problem: "there is no ring of keys".to_owned() });
            };
            match self.ring_if_there(number)? {
                Some(ring) => return Ok(ring),
                // It was removed after the listing: so there is a later one.
                None if looks < LOOKS => {}
                None => return self.read_ring(number),
            }
        }
    }

    fn read_ring(&self, number: u32) -> Result<KeyRing, ArchiveError> {
        let mut reads = 0;
        loop {
            reads += 1;
            let bytes = self.read_small(&self.ring_path(number), KEY_RING_BYTES_MAX as u64 + 1)?;
            match KeyRing::decode(&bytes, &self.header.id) {
                Ok(ring) if ring.number() == number => return Ok(ring),
                Ok(_) => {
                    let problem = "it has the number of another ring";
                    return Err(self.key_error(number, RepositoryKeyError::Damaged(problem)));
                }
                // It may have been damaged on its way.
                Err(RepositoryKeyError::Damaged(_)) if reads < FETCHES_OF_DAMAGED => {}
                Err(problem @ RepositoryKeyError::Damaged(_)) => {
                    return self.read_damaged_ring(number, &bytes, problem);
                }
                Err(source) => return Err(self.key_error(number, source)),
            }
        }
    }

    /// What is whole of a ring that is damaged where it lies: the copies in it have checksums of their own.
    fn read_damaged_ring(
        &self,
        number: u32,
        bytes: &[u8],
        problem: RepositoryKeyError,
    ) -> Result<KeyRing, ArchiveError> {
        let left = KeyRing::decode_damaged(bytes, &self.header.id, number);
        // What is wrong with the whole says more.
        let ring = left.map_err(|_| self.key_error(number, problem.clone()))?;
        let object = self.storage.location(&self.ring_path(number));
        let joined = |masters: BTreeSet<String>| masters.into_iter().collect::<Vec<_>>().join(", ");
        let (masters, lost) = (joined(ring.masters()), joined(ring.lost_masters()));
        tracing::warn!(
            %object, %problem, %masters, %lost,
            "a ring of keys is damaged, and still opens for these master keys: put a new one by `seawall repo rotate-key`"
        );
        Ok(ring)
    }

    /// Numbers of the rings of this repository. A creation that did not come to its end leaves that of another one behind.
    fn rings(&self) -> Result<BTreeSet<u32>, StoreError> {
        let entries = self.request(|storage| storage.list(layout::KEYS))?;
        let rings = entries.iter().filter_map(|entry| layout::ring_of(&entry.path));
        Ok(rings.filter(|(id, _)| *id == self.header.id).map(|(_, number)| number).collect())
    }

    fn ring_path(&self, number: u32) -> String {
        layout::ring(&self.header.id, number)
    }

    fn key_error(&self, number: u32, source: RepositoryKeyError) -> ArchiveError {
        ArchiveError::Key { object: self.storage.location(&self.ring_path(number)), source }
    }

    fn master_key(&self) -> Result<Option<SecretKey>, ArchiveError> {
        Ok(self.options.master_key.as_ref().map(MasterKey::read).transpose()?)
    }

    fn draw_key(&self) -> RepositoryKey {
        RepositoryKey::draw(Arc::clone(&self.options.random), self.options.clock.wall_micros())
    }

    /// Puts a ring, if there is none with this number.
    fn put_ring(&self, ring: &KeyRing) -> Result<(), ArchiveError> {
        let (path, bytes) = (self.ring_path(ring.number()), Bytes::from(ring.encode()));
        match self.request(|storage| storage.put_new(&path, std::slice::from_ref(&bytes)))? {
            Put::Stored => Ok(()),
            // A put that is tried again may find what it has put itself.
            Put::Exists if self.ring_if_there(ring.number())?.as_ref() == Some(ring) => Ok(()),
            Put::Exists => Err(ArchiveError::RotatedMeanwhile { url: self.url.clone() }),
        }
    }

    /// `None`: a later rotation has removed it.
    fn ring_if_there(&self, number: u32) -> Result<Option<KeyRing>, ArchiveError> {
        match self.read_ring(number) {
            Err(ArchiveError::Store(error)) if error.cause == StoreCause::NotFound => Ok(None),
            read => read.map(Some),
        }
    }

    /// Lets `new` open the repository. After an error it may be run again, with the old master key, or where that no longer opens the
    /// repository with the new one.
    ///
    /// # Errors
    /// `NotEncrypted`, `WrongMasterKey`, `UnsteadyMasterKey`, `RotatedMeanwhile`, `KeysPutBack`, `TooManyKeys`, `MasterKey`, `Key` or
    /// `Store`; `KeptMasterKeys` if the key in force is to be renewed, and there are other master keys that are kept;
    /// `LostMasterKeys` if there are such in a damaged ring, and it has lost their copies.
    pub fn rotate_master_key(&self, new: &MasterKey, rotation: Rotation) -> Result<Rotated, ArchiveError> {
        let own = self.master_key()?.filter(|_| self.header.is_encrypted);
        let own = own.ok_or_else(|| ArchiveError::NotEncrypted { url: self.url.clone() })?;
        let master = self.read_steady(new)?;
        let ring = self.newest_ring()?;
        self.check_progress(&ring)?;
        let (next, keys) = self.ring_after(&ring, &own, &master, rotation)?;
        self.put_ring(&next)?;
        // Others may have gone on from the ring that was read, so far that this number was free again. What was put counts only if it
        // is the newest. And before anything goes, it is known that it can be read and opened.
        let newest = self.newest_ring()?;
        if newest != next {
            // Overtaken, it never counts, and is no older ring whose keys anybody uses.
            if newest.number() > next.number()
                && let Some(reason) = self.remove_ring(next.number(), &next.keys())?
            {
                tracing::warn!(%reason, "the ring of a rotation that was overtaken stays");
            }
            return Err(ArchiveError::RotatedMeanwhile { url: self.url.clone() });
        }
        self.open_ring(&newest, &master)?;
        *self.keys.write() = Arc::new(keys);
        let left_rings = self.remove_rings_before(&next)?;
        let before: BTreeSet<String> = ring.masters().union(&ring.lost_masters()).cloned().collect();
        let removed_master_keys = before.difference(&next.masters()).cloned().collect();
        Ok(Rotated { removed_master_keys, left_rings })
    }

    /// The ring that a rotation puts, and the keys in it, newest first.
    fn ring_after(
        &self,
        ring: &KeyRing,
        own: &SecretKey,
        new: &SecretKey,
        rotation: Rotation,
    ) -> Result<(KeyRing, Vec<RepositoryKey>), ArchiveError> {
        let mut keys = self.open_ring(ring, own)?;
        if rotation.key == KeyInForce::Renewed {
            keys.push(self.draw_key());
        }
        let masters = match rotation.others {
            OtherMasterKeys::Keep => vec![own, new],
            OtherMasterKeys::Drop => vec![new],
        };
        let next = ring.next(&keys, &masters, rotation.others).map_err(|error| match error {
            RepositoryKeyError::OtherMasterKeys(kept) => {
                ArchiveError::KeptMasterKeys { url: self.url.clone(), kept }
            }
            RepositoryKeyError::LostMasterKeys(lost) => {
                let object = self.storage.location(&self.ring_path(ring.number()));
                ArchiveError::LostMasterKeys { object, lost }
            }
            RepositoryKeyError::TooMany { limit } => {
                ArchiveError::TooManyKeys { url: self.url.clone(), limit }
            }
            source => self.key_error(ring.number(), source),
        })?;
        keys.reverse();
        Ok((next, keys))
    }

    /// A command that draws a key each time it is asked would lock everybody out.
    fn read_steady(&self, source: &MasterKey) -> Result<SecretKey, ArchiveError> {
        let (key, again) = (source.read()?, source.read()?);
        match key.expose() == again.expose() {
            true => Ok(key),
            false => Err(ArchiveError::UnsteadyMasterKey { url: self.url.clone() }),
        }
    }

    /// Removes the rings before `ring`, which counts already: so one that stays is no failure.
    fn remove_rings_before(&self, ring: &KeyRing) -> Result<Vec<LeftRing>, ArchiveError> {
        let mut left = Vec::new();
        for &number in self.rings()?.range(..ring.number()) {
            if let Some(reason) = self.remove_ring(number, &ring.keys())? {
                let object = self.storage.location(&self.ring_path(number));
                tracing::warn!(%object, %reason, "an older ring of keys stays");
                left.push(LeftRing { object, reason });
            }
        }
        Ok(left)
    }

    /// Removes a ring that has no other keys than `keys`. If it stays, tells why.
    fn remove_ring(
        &self,
        number: u32,
        keys: &BTreeSet<RepositoryKeyId>,
    ) -> Result<Option<String>, ArchiveError> {
        if let Some(reason) = self.reason_to_keep(number, keys)? {
            return Ok(Some(reason));
        }
        match self.request(|storage| storage.remove(&self.ring_path(number))) {
            Ok(()) => Ok(None),
            Err(error) if error.cause == StoreCause::Denied || error.cause == StoreCause::Other => {
                Ok(Some(error.message))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn reason_to_keep(
        &self,
        number: u32,
        keys: &BTreeSet<RepositoryKeyId>,
    ) -> Result<Option<String>, ArchiveError> {
        let ring = match self.ring_if_there(number) {
            Ok(ring) => ring,
            // Which keys are in it is not known.
            Err(ArchiveError::Key { source, .. }) => return Ok(Some(source.to_string())),
            Err(error) => return Err(error),
        };
        let more = ring.and_then(|ring| ring.keys().difference(keys).next().copied());
        Ok(more.map(|key| {
            format!(
                "it has the repository key {key}, which the newest ring lacks: somebody may have put an older ring as the newest. What is \
                 encrypted with that key is lost without it"
            )
        }))
    }

    /// Fingerprints of the master keys that open the repository; none if it is not encrypted.
    ///
    /// # Errors
    /// `Key` or `Store`.
    pub fn master_keys(&self) -> Result<Vec<String>, ArchiveError> {
        if !self.header.is_encrypted {
            return Ok(Vec::new());
        }
        Ok(self.newest_ring()?.masters().into_iter().collect())
    }
}
