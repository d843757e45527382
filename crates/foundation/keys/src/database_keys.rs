//! The keys of one database, unwrapped in memory.

use std::fmt;
use std::sync::Arc;

use seawall_codec::encryption::{KEY_BYTES, SecretKey};
use seawall_codec::hexadecimal::to_hexadecimal;
use seawall_io::{Disk, Random};
use seawall_types::DatabaseId;
use zeroize::Zeroizing;

use crate::cipher::Cipher;
use crate::error::KeysError;
use crate::keys_file::{COPIES_MAX, Fingerprint, KEYS_PATH, KeysFile, WrappedKey, fingerprint_of};

/// What is encrypted. Each purpose has a key of its own, so bytes of one place never authenticate in another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Bodies of log records.
    Log,
    /// Pages of the page file.
    Pages,
    /// Page images of the recovery file.
    RecoveryFile,
    /// Scratch files of bulk loads.
    Spill,
    /// Segments in an archive.
    Archive,
    /// Backups.
    Backup,
}

impl Purpose {
    /// Part of the derived key: never changes.
    const fn label(self) -> &'static str {
        match self {
            Purpose::Log => "seawall log v1",
            Purpose::Pages => "seawall pages v1",
            Purpose::RecoveryFile => "seawall recovery file v1",
            Purpose::Spill => "seawall spill v1",
            Purpose::Archive => "seawall archive v1",
            Purpose::Backup => "seawall backup v1",
        }
    }
}

/// What becomes of the master keys that could open the database until now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum OtherMasterKeys {
    /// They no longer can.
    #[default]
    Drop,
    /// They still can: whoever opens the database may change over at any time. A later rotation drops them.
    Keep,
}

/// The keys of one database. Its `Debug` shows none.
#[derive(Clone)]
pub struct DatabaseKeys {
    database: DatabaseId,
    data_key: SecretKey,
    random: Arc<dyn Random>,
}

impl DatabaseKeys {
    /// Draws the data key of a new database and writes the keys file, durably.
    ///
    /// # Errors
    /// `Io`.
    pub fn create(
        disk: &dyn Disk,
        database: DatabaseId,
        master: &SecretKey,
        random: Arc<dyn Random>,
    ) -> Result<DatabaseKeys, KeysError> {
        let mut data_key = Zeroizing::new([0; KEY_BYTES]);
        random.fill(&mut data_key[..]);
        let keys = DatabaseKeys { database, data_key: SecretKey::from_bytes(*data_key), random };
        KeysFile { database, copies: vec![keys.wrap(master)] }.write(disk)?;
        Ok(keys)
    }

    /// Reads the keys file and unwraps the data key.
    ///
    /// # Errors
    /// `Missing`, `Damaged`, `Version`, `OtherDatabase`, `WrongMasterKey` or `Io`.
    pub fn open(
        disk: &dyn Disk,
        database: DatabaseId,
        master: &SecretKey,
        random: Arc<dyn Random>,
    ) -> Result<DatabaseKeys, KeysError> {
        let path = || disk.location(KEYS_PATH);
        let file = read_of(disk, database)?;
        let given = fingerprint_of(master);
        let copy = file.copies.iter().find(|copy| copy.fingerprint == given);
        let copy = copy.ok_or_else(|| KeysError::WrongMasterKey {
            path: path(),
            given: short(&given),
            known: file.copies.iter().map(|copy| short(&copy.fingerprint)).collect::<Vec<_>>().join(", "),
        })?;
        let data_key = copy.unwrap_with(database, master, &random).ok_or_else(|| KeysError::Damaged {
            path: path(),
            what: "the data key does not authenticate, although the master key is the right one".to_owned(),
        })?;
        Ok(DatabaseKeys { database, data_key, random })
    }

    /// Lets `master` open the database from now on. Rewrites the keys file and nothing else; durable when it returns,
    /// so keep the old master key until then.
    ///
    /// # Errors
    /// Those of `open`, and `TooMany` if too many others are kept: the old keys are then in force, or after an `Io`
    /// the old or the new ones.
    pub fn rotate(
        &self,
        disk: &dyn Disk,
        master: &SecretKey,
        others: OtherMasterKeys,
    ) -> Result<(), KeysError> {
        let mut file = read_of(disk, self.database)?;
        let fingerprint = fingerprint_of(master);
        match others {
            OtherMasterKeys::Drop => file.copies.clear(),
            OtherMasterKeys::Keep => file.copies.retain(|copy| copy.fingerprint != fingerprint),
        }
        if file.copies.len() == COPIES_MAX {
            return Err(KeysError::TooMany { path: disk.location(KEYS_PATH), limit: COPIES_MAX });
        }
        file.copies.push(self.wrap(master));
        file.write(disk)
    }

    /// Encrypts and decrypts for `purpose`.
    pub fn cipher(&self, purpose: Purpose) -> Cipher {
        let key = self.data_key.derive(self.database.as_bytes(), purpose.label());
        Cipher::new(&key, Arc::clone(&self.random))
    }

    fn wrap(&self, master: &SecretKey) -> WrappedKey {
        WrappedKey::wrap(self.database, &self.data_key, master, &self.random)
    }
}

fn read_of(disk: &dyn Disk, database: DatabaseId) -> Result<KeysFile, KeysError> {
    let file = KeysFile::read(disk)?;
    if file.database != database {
        return Err(KeysError::OtherDatabase { path: disk.location(KEYS_PATH) });
    }
    Ok(file)
}

/// The first bytes of a fingerprint, for people.
fn short(fingerprint: &Fingerprint) -> String {
    to_hexadecimal(&fingerprint[..4])
}

impl fmt::Debug for DatabaseKeys {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("DatabaseKeys").field("database", &self.database).finish_non_exhaustive()
    }
}
