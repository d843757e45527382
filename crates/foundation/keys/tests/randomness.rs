//! Keys are wholly random, no two purposes share one, and no two frames of an object a nonce.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::HashSet;
use std::sync::Arc;

use seawall_io::Random;
use seawall_keys::{DatabaseKeys, FramePlace, Purpose, RepositoryKey, SecretKey};
use seawall_simulation::SimulatedDisk;
use seawall_types::DatabaseId;

const KEY_BYTES: usize = 32;
const PURPOSES: [Purpose; 6] =
    [Purpose::Log, Purpose::Pages, Purpose::RecoveryFile, Purpose::Spill, Purpose::Archive, Purpose::Backup];

/// Draws sevens, and one other byte at one place of each draw that reaches there.
#[derive(Debug)]
struct OneByteDiffers(Option<usize>);

impl Random for OneByteDiffers {
    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill(7);
        if let Some(byte) = self.0.and_then(|place| bytes.get_mut(place)) {
            *byte = 8;
        }
    }
}

/// One draw like all others, and one with another byte at each place of a key.
fn draws() -> impl Iterator<Item = Arc<dyn Random>> {
    let places = std::iter::once(None).chain((0..KEY_BYTES).map(Some));
    places.map(|place| Arc::new(OneByteDiffers(place)) as Arc<dyn Random>)
}

fn database_keys(random: Arc<dyn Random>, database: u8) -> DatabaseKeys {
    let (disk, master) = (SimulatedDisk::new(1), SecretKey::from_bytes([1; KEY_BYTES]));
    DatabaseKeys::create(&disk, DatabaseId::from_bytes([database; 16]), &master, random).unwrap()
}

fn first_frame(random: Arc<dyn Random>) -> Vec<u8> {
    let mut bytes = vec![0; 64];
    let place = FramePlace { index: 0, is_last: false };
    RepositoryKey::draw(random, 0).draw_object_key().encrypt(place, b"", &mut bytes);
    bytes
}

#[test]
fn each_byte_of_a_data_key_and_of_an_object_key_is_random() {
    let marks: HashSet<u32> =
        draws().map(|random| database_keys(random, 1).cipher(Purpose::Pages).mark(b"")).collect();
    assert_eq!(marks.len(), 1 + KEY_BYTES, "two draws gave one data key");
    let frames: HashSet<Vec<u8>> = draws().map(first_frame).collect();
    assert_eq!(frames.len(), 1 + KEY_BYTES, "two draws gave one object key");
}

/// What is known by one repository key cannot be unwrapped by another that differs in one byte.
#[test]
fn each_byte_of_a_repository_key_is_random() {
    let associated = b"object";
    let keys: Vec<RepositoryKey> = draws().map(|random| RepositoryKey::draw(random, 0)).collect();
    for (number, key) in keys.iter().enumerate() {
        let (envelope, wrapped) = key.wrap_object_key(&key.draw_object_key(), [3; 8], associated);
        for (other_number, other) in keys.iter().enumerate() {
            let is_unwrapped = other.unwrap_object_key(&envelope, &wrapped, associated).is_ok();
            assert_eq!(is_unwrapped, number == other_number, "keys {number} and {other_number}");
        }
    }
}

#[test]
fn no_two_purposes_and_no_two_databases_share_a_key() {
    let marks: HashSet<u32> = [1, 2]
        .into_iter()
        .flat_map(|database| {
            let keys = database_keys(Arc::new(OneByteDiffers(None)), database);
            PURPOSES.map(|purpose| keys.cipher(purpose).mark(b""))
        })
        .collect();
    assert_eq!(marks.len(), 2 * PURPOSES.len());
}

/// Zeros, encrypted, show the key stream: the same one twice gives two frames away.
#[test]
fn no_two_frames_of_an_object_have_one_key_stream() {
    let key = RepositoryKey::draw(Arc::new(OneByteDiffers(None)), 0).draw_object_key();
    let far = [32, 48, 63].map(|bit| 1 << bit);
    let indexes = (0..70_000).chain(far).chain([u64::MAX]);
    let mut streams = HashSet::new();
    for place in indexes.flat_map(|index| [false, true].map(|is_last| FramePlace { index, is_last })) {
        let mut stream = [0; 16];
        key.encrypt(place, b"", &mut stream);
        assert!(streams.insert(stream), "{place:?} has the key stream of another place");
    }
}
