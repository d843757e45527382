//! The keys of an encrypted database: made with it, unwrapped when it is opened, rewrapped when the master key changes.
//!
//! What is on disk if the power goes: the file `keys` is durable before the first byte is encrypted, and a creation that
//! was cut short starts over with new keys. A rotation leaves the old file or the new one (`seawall_keys`).

use std::io::ErrorKind;
use std::sync::Arc;

use seawall_io::{Disk, LockMode, OpenMode as FileMode};
use seawall_keys::{Cipher, DatabaseKeys, KEYS_PATH, MasterKey, OtherMasterKeys, Purpose, SecretKey};
use seawall_tree::{Encryption, Superblock, SuperblockFile};
use seawall_types::DatabaseId;

use crate::engine::Engine;
use crate::environment::Environment;
use crate::error::Error;
use crate::options::Options;

/// The master key, if one is given.
pub(crate) fn read_master_key(options: &Options) -> Result<Option<SecretKey>, Error> {
    let Some(master) = &options.master_key else { return Ok(None) };
    master.read().map(Some).map_err(|error| Error::MasterKey { message: error.to_string() })
}

/// The keys of a new database; `None` if there is no master key. What a creation that was cut short has left goes.
pub(crate) fn create_keys(
    environment: &Environment,
    database: DatabaseId,
    master: Option<&SecretKey>,
) -> Result<Option<DatabaseKeys>, Error> {
    let disk = &*environment.disk;
    let Some(master) = master else {
        return match disk.remove(KEYS_PATH) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(Error::io(&error)),
            Ok(()) | Err(_) => Ok(None),
        };
    };
    let created = DatabaseKeys::create(disk, database, master, Arc::clone(&environment.random));
    created.map(Some).map_err(|error| Error::keys(&error))
}

/// The keys of the database that `superblock` belongs to; `None` if it is not encrypted.
pub(crate) fn open_keys(
    environment: &Environment,
    superblock: &Superblock,
    options: &Options,
) -> Result<Option<DatabaseKeys>, Error> {
    let directory = || environment.disk.location("");
    match (superblock.encryption, &options.master_key) {
        (Encryption::None, None) => Ok(None),
        (Encryption::None, Some(_)) => Err(Error::NotEncrypted { directory: directory() }),
        (Encryption::Xaes256Gcm, None) => Err(Error::Encrypted { directory: directory() }),
        (Encryption::Xaes256Gcm, Some(_)) => {
            let master = read_master_key(options)?.expect("the options have one");
            let (disk, random) = (&*environment.disk, Arc::clone(&environment.random));
            let opened = DatabaseKeys::open(disk, superblock.database, &master, random);
            opened.map(Some).map_err(|error| Error::keys(&error))
        }
    }
}

/// As `open_keys`, for who has not read the superblock yet.
pub(crate) fn keys_of_directory(
    environment: &Environment,
    options: &Options,
) -> Result<Option<DatabaseKeys>, Error> {
    let (_, superblock, _) = open_superblock(&*environment.disk)?;
    open_keys(environment, &superblock, options)
}

/// The superblock of a database, which may be open.
pub(crate) fn open_superblock(
    disk: &dyn Disk,
) -> Result<(SuperblockFile, Superblock, Option<seawall_tree::DamagedCopy>), Error> {
    SuperblockFile::open(disk, FileMode::Read).map_err(|error| match &error {
        seawall_tree::SuperblockError::Io { source, .. } if source.kind() == ErrorKind::NotFound => {
            Error::NoDatabase { directory: disk.location("") }
        }
        _ => Error::tree(&error),
    })
}

/// What log records are encrypted with, if they are.
pub(crate) fn log_cipher(keys: Option<&DatabaseKeys>) -> Option<Cipher> {
    keys.map(|keys| keys.cipher(Purpose::Log))
}

/// Changes the master key of a database that is not open.
pub(crate) fn rotate_master_key(
    environment: &Environment,
    old: MasterKey,
    new: &MasterKey,
    others: OtherMasterKeys,
) -> Result<(), Error> {
    let disk = &*environment.disk;
    // Looked at before the lock, which would make a file in a directory of something else.
    open_superblock(disk)?;
    let _lock =
        disk.lock(crate::directory::LOCK_PATH, LockMode::Exclusive).map_err(|error| match error.kind() {
            ErrorKind::WouldBlock => Error::InUse { directory: disk.location("") },
            _ => Error::io(&error),
        })?;
    let options = Options { master_key: Some(old), ..Options::default() };
    let keys = keys_of_directory(environment, &options)?;
    rotate(disk, keys.as_ref(), new, others)
}

fn rotate(
    disk: &dyn Disk,
    keys: Option<&DatabaseKeys>,
    new: &MasterKey,
    others: OtherMasterKeys,
) -> Result<(), Error> {
    let keys = keys.ok_or_else(|| Error::NotEncrypted { directory: disk.location("") })?;
    let master = new.read().map_err(|error| Error::MasterKey { message: error.to_string() })?;
    keys.rotate(disk, &master, others).map_err(|error| Error::keys(&error))
}

impl Engine {
    /// Changes the master key of the open database.
    pub(crate) fn rotate_master_key(&self, new: &MasterKey, others: OtherMasterKeys) -> Result<(), Error> {
        // One rotation at a time; and `close`, after which the directory may be somebody else's, waits for it.
        let lock = self.lifecycle.keep_directory();
        self.lifecycle.check_open()?;
        if self.log.written().is_none() {
            return Err(Error::ReadOnly);
        }
        assert!(lock.is_some(), "an open database has its directory locked");
        rotate(&*self.environment.disk, self.keys.as_ref(), new, others)
    }
}
