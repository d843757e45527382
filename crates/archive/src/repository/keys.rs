//! The keys of an encrypted repository: made, read, handed over to another master key.
//!
//! A new master key costs one small object for each repository key, put beside those of the old one: both open the repository
//! until the old one's are removed. What the repository holds is neither read nor written.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use seawall_codec::encryption::SecretKey;
use seawall_keys::{
    MasterKey, RepositoryKey, RepositoryKeyError, WRAPPED_REPOSITORY_KEY_BYTES, master_key_fingerprint,
};

use super::Repository;
use crate::error::ArchiveError;
use crate::layout;
use crate::store::Put;

/// Room for a wrapped key, and a byte more: a longer object is told from one.
const KEY_BYTES_MAX: u64 = WRAPPED_REPOSITORY_KEY_BYTES as u64 + 1;

impl Repository {
    /// Draws the first repository key, and puts it.
    pub(super) fn make_first_key(&self) -> Result<(), ArchiveError> {
        let master = self.master_key()?.expect("an encrypted repository is made with a master key");
        let key = self.draw_key();
        self.put_key(&key, &master)?;
        *self.keys.write() = Arc::new(vec![key]);
        Ok(())
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
        let given = master_key_fingerprint(&master);
        let mut known = BTreeSet::new();
        let mut keys = Vec::new();
        for entry in self.request(|storage| storage.list(layout::KEYS))? {
            let Some(fingerprint) = layout::fingerprint_of_key(&entry.path) else { continue };
            if fingerprint != given {
                known.insert(fingerprint.to_owned());
            } else if let Some(key) = self.read_key(&entry.path, &master)? {
                keys.push(key);
            }
        }
        if keys.is_empty() {
            let known = known.into_iter().collect::<Vec<_>>().join(", ");
            return Err(ArchiveError::WrongMasterKey { url: url(), given, known });
        }
        keys.sort_by_key(|key| std::cmp::Reverse((key.created_micros(), key.id())));
        Ok(keys)
    }

    /// `None` for the key of another repository, which a creation that did not come to its end left behind.
    fn read_key(&self, path: &str, master: &SecretKey) -> Result<Option<RepositoryKey>, ArchiveError> {
        let bytes = self.read_small(path, KEY_BYTES_MAX)?;
        let random = Arc::clone(&self.options.random);
        match RepositoryKey::unwrap(&bytes, &self.header.id, master, random) {
            Ok(key) => Ok(Some(key)),
            Err(RepositoryKeyError::OtherRepository) => Ok(None),
            Err(source) => Err(ArchiveError::Key { object: self.storage.location(path), source }),
        }
    }

    fn master_key(&self) -> Result<Option<SecretKey>, ArchiveError> {
        Ok(self.options.master_key.as_ref().map(MasterKey::read).transpose()?)
    }

    fn draw_key(&self) -> RepositoryKey {
        RepositoryKey::draw(Arc::clone(&self.options.random), self.options.clock.wall_micros())
    }

    /// Puts `key`, wrapped by `master`. If it is there already, it stays: it holds the same key.
    fn put_key(&self, key: &RepositoryKey, master: &SecretKey) -> Result<(), ArchiveError> {
        let path = layout::key(key.id(), &master_key_fingerprint(master));
        let wrapped = Bytes::copy_from_slice(&key.wrap(&self.header.id, master));
        match self.request(|storage| storage.put_new(&path, std::slice::from_ref(&wrapped)))? {
            Put::Stored => Ok(()),
            Put::Exists => self.read_key(&path, master).map(|_| ()),
        }
    }

    /// Lets `master` open the repository, too. The one that it was opened with goes on doing so.
    ///
    /// # Errors
    /// `NotEncrypted`, `MasterKey`, `Key` or `Store`; after an error it may be run again.
    pub fn add_master_key(&self, master: &MasterKey) -> Result<(), ArchiveError> {
        if !self.header.is_encrypted {
            return Err(ArchiveError::NotEncrypted { url: self.url.clone() });
        }
        let master = master.read()?;
        self.keys().iter().try_for_each(|key| self.put_key(key, &master))
    }

    /// Lets no master key but the one that the repository was opened with open it from now on. Returns the fingerprints of
    /// those that no longer do.
    ///
    /// # Errors
    /// `MasterKey` or `Store`.
    pub fn remove_other_master_keys(&self) -> Result<Vec<String>, ArchiveError> {
        let Some(master) = self.master_key()? else { return Ok(Vec::new()) };
        let own = master_key_fingerprint(&master);
        let mut removed = BTreeSet::new();
        for entry in self.request(|storage| storage.list(layout::KEYS))? {
            let other = layout::fingerprint_of_key(&entry.path).filter(|fingerprint| *fingerprint != own);
            if let Some(fingerprint) = other {
                self.request(|storage| storage.remove(&entry.path))?;
                removed.insert(fingerprint.to_owned());
            }
        }
        Ok(removed.into_iter().collect())
    }

    /// Draws a new repository key: objects that are put by whoever opens the repository from now on are encrypted with it.
    /// Master keys other than the one it was opened with must be added again.
    ///
    /// # Errors
    /// `NotEncrypted`, `MasterKey` or `Store`.
    pub fn renew_key(&mut self) -> Result<(), ArchiveError> {
        let Some(master) = self.master_key()? else {
            return Err(ArchiveError::NotEncrypted { url: self.url.clone() });
        };
        let key = self.draw_key();
        self.put_key(&key, &master)?;
        self.reread_keys()
    }

    /// Fingerprints of the master keys that open the repository.
    ///
    /// # Errors
    /// `Store`.
    pub fn master_keys(&self) -> Result<Vec<String>, ArchiveError> {
        let entries = self.request(|storage| storage.list(layout::KEYS))?;
        let fingerprints = entries.iter().filter_map(|entry| layout::fingerprint_of_key(&entry.path));
        let fingerprints: BTreeSet<String> = fingerprints.map(str::to_owned).collect();
        Ok(fingerprints.into_iter().collect())
    }
}
