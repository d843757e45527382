//! The keys file of an encrypted database, the master key as users write it, and the key of an archive.

use std::sync::Arc;

use seawall_codec::checksum::crc32c;
use seawall_io::{Disk, OsDisk};
use seawall_keys::{
    DatabaseKeys, KEYS_PATH, KeyRing, MasterKey, OtherMasterKeys, Purpose, RepositoryKey, SecretKey,
};
use seawall_simulation::{SimulatedDisk, SimulatedRandom};
use seawall_types::DatabaseId;

use crate::input::{Choices, Entries, Input, mutate};

/// The entry functions of this file, by the name of their target.
pub const ENTRIES: &Entries = &[
    ("keys_file", keys_file),
    ("key_ring", key_ring),
    ("master_key", master_key),
    ("repository_key", repository_key),
];

const DATABASE: DatabaseId = DatabaseId::from_bytes([9; 16]);

fn master(byte: u8) -> SecretKey {
    SecretKey::from_bytes([byte; 32])
}

fn random() -> Arc<SimulatedRandom> {
    Arc::new(SimulatedRandom::new(1))
}

/// A keys file with changed bytes: whatever opens has the data key, as no other one is authentic; and can be rotated.
pub fn keys_file(data: &[u8]) {
    let mut input = Input::new(data);
    let choices = Choices::of(&mut input);
    let disk = SimulatedDisk::new(1);
    let keys =
        DatabaseKeys::create(&disk, DATABASE, &master(1), random()).expect("an empty disk takes the keys");
    for other in 2..2 + choices.number(2, 4) {
        keys.rotate(&disk, &master(other), OtherMasterKeys::Keep).expect("there is room for more");
    }
    let mut file = disk.read_file(KEYS_PATH).expect("it was written");
    if choices.has(1) {
        let bytes = usize::from(input.u16()) % 1024;
        file.resize(bytes, 0);
    }
    mutate(&mut file, &mut input);
    if !choices.has(0) && file.len() >= 16 {
        file[12..16].fill(0);
        let checksum = crc32c(&file);
        file[12..16].copy_from_slice(&checksum.to_le_bytes());
    }
    disk.write_file(KEYS_PATH, &file);
    let mark = |keys: &DatabaseKeys| keys.cipher(Purpose::Pages).mark(b"some bytes");
    for known in 1..7 {
        match DatabaseKeys::open(&disk, DATABASE, &master(known), random()) {
            Ok(found) => {
                assert_eq!(mark(&found), mark(&keys), "another data key was taken for the right one");
                if choices.has(4) && found.rotate(&disk, &master(9), OtherMasterKeys::Keep).is_ok() {
                    let rotated = DatabaseKeys::open(&disk, DATABASE, &master(9), random());
                    assert_eq!(mark(&rotated.expect("it was let in just now")), mark(&keys));
                }
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}

/// A file with a master key: 32 bytes in one of three forms, or refused without showing what is in it.
pub fn master_key(data: &[u8]) {
    let directory = std::env::temp_dir();
    let name = format!("seawall-fuzz-master-key-{}", std::process::id());
    let path = directory.join(&name);
    std::fs::write(&path, data).expect("the scratch directory takes a file");
    let read = MasterKey::File(path).read();
    OsDisk::new(directory).remove(&name).expect("it was written");
    match read {
        Ok(key) => assert!(data.len() >= key.expose().len(), "a key out of {} bytes", data.len()),
        Err(error) => {
            let message = error.to_string();
            let shown = String::from_utf8_lossy(data);
            assert!(shown.len() < 24 || !message.contains(&*shown), "the message shows the key");
        }
    }
}

/// A wrapped repository key with changed bytes, checksum made right or not: the key that comes out is the one that went in.
pub fn repository_key(data: &[u8]) {
    let mut input = Input::new(data);
    let choices = Choices::of(&mut input);
    let key = RepositoryKey::draw(random(), 7);
    let wrapped = key.wrap(DATABASE.as_bytes(), &master(1));
    let mut bytes = wrapped.to_vec();
    if choices.has(1) {
        let length = usize::from(input.u16()) % 400;
        bytes.resize(length, 0);
    }
    mutate(&mut bytes, &mut input);
    if !choices.has(0) && bytes.len() >= 16 {
        bytes[12..16].fill(0);
        let checksum = crc32c(&bytes);
        bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
    }
    for known in 1..3 {
        match RepositoryKey::unwrap(&bytes, DATABASE.as_bytes(), &master(known), random()) {
            Ok(found) => {
                assert_eq!((known, found.id(), found.created_micros()), (1, key.id(), 7));
                assert_eq!(bytes, wrapped, "a changed key was taken for the right one");
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}

/// A ring of two keys for two master keys with changed bytes, checksum made right or not: it is refused, or opens with keys that
/// were drawn and no others.
pub fn key_ring(data: &[u8]) {
    let mut input = Input::new(data);
    let choices = Choices::of(&mut input);
    let random: Arc<dyn seawall_io::Random> = random();
    let keys = [7, 8].map(|created| RepositoryKey::draw(Arc::clone(&random), created));
    let (one, two) = (master(1), master(2));
    let masters = [&one, &two];
    let ring = KeyRing::first(*DATABASE.as_bytes(), &keys[0], masters[0])
        .next(&keys, &masters, OtherMasterKeys::Drop)
        .expect("there is room");
    let mut bytes = ring.encode();
    if choices.has(1) {
        let length = usize::from(input.u16()) % 1024;
        bytes.resize(length, 0);
    }
    mutate(&mut bytes, &mut input);
    if !choices.has(0) && bytes.len() >= 16 {
        bytes[12..16].fill(0);
        let checksum = crc32c(&bytes);
        bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
    }
    let Ok(found) = KeyRing::decode(&bytes, DATABASE.as_bytes()) else { return };
    assert_eq!(found.encode(), bytes);
    for known in 1..3 {
        match found.open(&master(known), &random) {
            Ok(opened) => {
                let is_known = |found: &RepositoryKey| keys.iter().any(|key| key.id() == found.id());
                assert!(!opened.is_empty() && opened.iter().all(is_known), "a key that nobody has drawn");
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}
