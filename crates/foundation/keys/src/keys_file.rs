//! The file `keys`: the data key of an encrypted database, wrapped by each master key that may open it.
//!
//! | offset | bytes | field      | meaning                                                                     |
//! |-------:|------:|------------|-----------------------------------------------------------------------------|
//! |      0 |     8 | magic      | `SWKEYS\r\n`                                                                |
//! |      8 |     4 | version    | `FORMAT_VERSION`; an unknown one is refused                                 |
//! |     12 |     4 | checksum   | CRC-32C of the file with this field zero                                    |
//! |     16 |    16 | database   | database id; the keys of another one are refused                            |
//! |     32 |     4 | copy_count | copies that follow, 1 to 8: the file ends after them                        |
//! |     36 |    28 | reserved   | zero                                                                        |
//!
//! A copy, one for each master key; integers little-endian:
//!
//! | offset | bytes | field       | meaning                                                                    |
//! |-------:|------:|-------------|----------------------------------------------------------------------------|
//! |      0 |    16 | fingerprint | derived from the master key: tells which one it is, and nothing about it   |
//! |     16 |    40 | envelope    | nonce, 24 bytes, and tag, 16 bytes                                         |
//! |     56 |    32 | data_key    | the data key, encrypted with the master key (XAES-256-GCM); the associated |
//! |        |       |             | data are magic, version and database of the file, and the fingerprint      |
//! |     88 |     8 | reserved    | zero                                                                       |
//!
//! It is written as `keys.new`, synced, renamed and the directory synced: after a crash it is the old one or the new one,
//! whole. A `keys.new` that is left over is removed by the next writing.

use std::io::ErrorKind;
use std::sync::Arc;

use seawall_codec::bytes::u32_at;
use seawall_codec::checksum::crc32c;
use seawall_codec::encryption::{KEY_BYTES, SecretKey};
use seawall_io::{Disk, OpenMode, Random};
use seawall_types::DatabaseId;

use crate::cipher::{Cipher, ENVELOPE_BYTES, Envelope};
use crate::error::KeysError;
use crate::sabotage::{Defect, sabotaged};

/// Path of the keys file in the database's directory.
pub const KEYS_PATH: &str = "keys";

const NEW_KEYS_PATH: &str = "keys.new";
const MAGIC: [u8; 8] = *b"SWKEYS\r\n";
const FORMAT_VERSION: u32 = 1;
const HEADER_BYTES: usize = 64;
const COPY_BYTES: usize = FINGERPRINT_BYTES + ENVELOPE_BYTES + KEY_BYTES + 8;
const FINGERPRINT_BYTES: usize = 16;
/// Master keys that may open one database.
pub(crate) const COPIES_MAX: usize = 8;
const _: () = assert!(36 + 28 == HEADER_BYTES && COPY_BYTES == 96);

/// Tells a master key from others.
pub(crate) type Fingerprint = [u8; FINGERPRINT_BYTES];

/// The content of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeysFile {
    pub(crate) database: DatabaseId,
    pub(crate) copies: Vec<WrappedKey>,
}

/// The data key, wrapped by one master key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WrappedKey {
    pub(crate) fingerprint: Fingerprint,
    envelope: Envelope,
    data_key: [u8; KEY_BYTES],
}

/// What tells `master` from other master keys, and nothing about it.
pub(crate) fn fingerprint_of(master: &SecretKey) -> Fingerprint {
    let derived = master.derive(b"seawall", "fingerprint of a master key");
    *derived.expose().first_chunk().expect("16 of 32 bytes")
}

impl WrappedKey {
    pub(crate) fn wrap(
        database: DatabaseId,
        data_key: &SecretKey,
        master: &SecretKey,
        random: &Arc<dyn Random>,
    ) -> WrappedKey {
        let fingerprint = fingerprint_of(master);
        let mut wrapped = *data_key.expose();
        let cipher = Cipher::new(master, Arc::clone(random));
        let envelope = cipher.encrypt(&associated_data(database, &fingerprint), &mut wrapped);
        WrappedKey { fingerprint, envelope, data_key: wrapped }
    }

    /// The data key; `None` if it was not wrapped by `master` for this database.
    pub(crate) fn unwrap_with(
        &self,
        database: DatabaseId,
        master: &SecretKey,
        random: &Arc<dyn Random>,
    ) -> Option<SecretKey> {
        let mut data_key = zeroize::Zeroizing::new(self.data_key);
        let cipher = Cipher::new(master, Arc::clone(random));
        let associated = associated_data(database, &self.fingerprint);
        cipher.decrypt(&self.envelope, &associated, &mut data_key[..]).ok()?;
        Some(SecretKey::from_bytes(*data_key))
    }
}

fn associated_data(database: DatabaseId, fingerprint: &Fingerprint) -> Vec<u8> {
    [&MAGIC[..], &FORMAT_VERSION.to_le_bytes(), database.as_bytes(), fingerprint].concat()
}

impl KeysFile {
    /// Reads the file.
    ///
    /// # Errors
    /// `Missing`, `Damaged`, `Version` or `Io`.
    pub(crate) fn read(disk: &dyn Disk) -> Result<KeysFile, KeysError> {
        let path = || disk.location(KEYS_PATH);
        let file = disk.open(KEYS_PATH, OpenMode::Read).map_err(|source| match source.kind() {
            ErrorKind::NotFound => KeysError::Missing { path: path() },
            _ => KeysError::Io { operation: "opening", path: path(), source },
        })?;
        let length =
            file.length().map_err(|source| KeysError::Io { operation: "length", path: path(), source })?;
        let longest = HEADER_BYTES + COPIES_MAX * COPY_BYTES;
        let length = usize::try_from(length).ok().filter(|length| (HEADER_BYTES..=longest).contains(length));
        let length = length.ok_or_else(|| KeysError::Damaged {
            path: path(),
            what: format!("its length is not from {HEADER_BYTES} to {longest} bytes"),
        })?;
        let mut bytes = vec![0; length];
        file.read_exact_at(&mut bytes, 0).map_err(|source| KeysError::Io {
            operation: "read",
            path: path(),
            source,
        })?;
        KeysFile::decode(&bytes).map_err(|error| match error {
            DecodeError::Damaged(what) => KeysError::Damaged { path: path(), what: what.to_owned() },
            DecodeError::Version(version) => KeysError::Version { path: path(), version },
        })
    }

    /// Writes the file, in place of the one that is there. Durable when it returns.
    ///
    /// # Errors
    /// `Io`: the file is then the old one or the new one.
    pub(crate) fn write(&self, disk: &dyn Disk) -> Result<(), KeysError> {
        let fail = |operation| {
            let path = disk.location(NEW_KEYS_PATH);
            move |source| KeysError::Io { operation, path, source }
        };
        match disk.remove(NEW_KEYS_PATH) {
            // Left over from a writing that was cut short.
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(fail("removal")(error)),
        }
        let file = disk.open(NEW_KEYS_PATH, OpenMode::Create).map_err(fail("creation"))?;
        file.write_all_at(&self.encode(), 0).map_err(fail("write"))?;
        file.sync_data().map_err(fail("sync"))?;
        disk.rename(NEW_KEYS_PATH, KEYS_PATH).map_err(fail("renaming"))?;
        if sabotaged(Defect::KeysNameNotSynced) {
            return Ok(());
        }
        disk.sync_directory("").map_err(fail("sync of the directory"))
    }

    fn encode(&self) -> Vec<u8> {
        let count = u32::try_from(self.copies.len()).expect("at most eight copies");
        let mut bytes = vec![0; HEADER_BYTES];
        bytes[0..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes[16..32].copy_from_slice(self.database.as_bytes());
        bytes[32..36].copy_from_slice(&count.to_le_bytes());
        for copy in &self.copies {
            bytes.extend_from_slice(&copy.fingerprint);
            bytes.extend_from_slice(&copy.envelope.to_bytes());
            bytes.extend_from_slice(&copy.data_key);
            bytes.extend_from_slice(&[0; 8]);
        }
        let checksum = crc32c(&bytes);
        bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Result<KeysFile, DecodeError> {
        let damaged = |what| Err(DecodeError::Damaged(what));
        let Some((header, copies)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
            return damaged("it ends within its header");
        };
        if header[0..8] != MAGIC {
            return damaged("it does not begin as a keys file does");
        }
        let mut unsealed = bytes.to_vec();
        unsealed[12..16].fill(0);
        if u32_at(header, 12) != crc32c(&unsealed) {
            return damaged("its checksum is wrong");
        }
        match u32_at(header, 8) {
            FORMAT_VERSION => {}
            version => return Err(DecodeError::Version(version)),
        }
        let count = u32_at(header, 32) as usize;
        if count == 0 || count > COPIES_MAX || copies.len() != count * COPY_BYTES {
            return damaged("its length does not fit its number of copies");
        }
        let is_zero = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0);
        let copies = copies.as_chunks::<COPY_BYTES>().0;
        if !is_zero(&header[36..]) || !copies.iter().all(|copy| is_zero(&copy[88..])) {
            return damaged("reserved bytes are not zero");
        }
        let database = DatabaseId::from_bytes(header[16..32].try_into().expect("16 bytes"));
        Ok(KeysFile { database, copies: copies.iter().map(decode_copy).collect() })
    }
}

fn decode_copy(bytes: &[u8; COPY_BYTES]) -> WrappedKey {
    WrappedKey {
        fingerprint: bytes[0..16].try_into().expect("16 bytes"),
        envelope: Envelope::from_bytes(bytes[16..56].try_into().expect("40 bytes")),
        data_key: bytes[56..88].try_into().expect("32 bytes"),
    }
}

#[derive(Debug, PartialEq, Eq)]
enum DecodeError {
    Damaged(&'static str),
    Version(u32),
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_simulation::SimulatedRandom;

    fn sample() -> KeysFile {
        let random: Arc<dyn Random> = Arc::new(SimulatedRandom::new(1));
        let database = DatabaseId::from_bytes([7; 16]);
        let data_key = SecretKey::from_bytes([1; 32]);
        let wrap = |byte| WrappedKey::wrap(database, &data_key, &SecretKey::from_bytes([byte; 32]), &random);
        KeysFile { database, copies: vec![wrap(2), wrap(3)] }
    }

    #[test]
    fn a_file_comes_back() {
        let bytes = sample().encode();
        assert_eq!(bytes.len(), 64 + 2 * 96);
        assert_eq!(KeysFile::decode(&bytes), Ok(sample()));
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_refused() {
        let bytes = sample().encode();
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(KeysFile::decode(&damaged).is_err(), "bit {bit}");
        }
        for length in 0..bytes.len() {
            assert!(KeysFile::decode(&bytes[..length]).is_err(), "length {length}");
        }
    }

    #[test]
    fn what_no_release_wrote_is_refused_although_the_checksum_is_right() {
        let resealed = |change: fn(&mut Vec<u8>)| {
            let mut bytes = sample().encode();
            change(&mut bytes);
            bytes[12..16].fill(0);
            let checksum = crc32c(&bytes);
            bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
            KeysFile::decode(&bytes)
        };
        assert_eq!(resealed(|bytes| bytes[8] = 2), Err(DecodeError::Version(2)));
        for change in [
            |bytes: &mut Vec<u8>| bytes[32] = 0,
            |bytes: &mut Vec<u8>| bytes[32] = 1,
            |bytes: &mut Vec<u8>| bytes[35] = 0xFF,
            |bytes: &mut Vec<u8>| bytes[40] = 1,
            |bytes: &mut Vec<u8>| bytes[64 + 90] = 1,
            |bytes: &mut Vec<u8>| bytes.push(0),
        ] {
            assert!(matches!(resealed(change), Err(DecodeError::Damaged(_))));
        }
    }
}
