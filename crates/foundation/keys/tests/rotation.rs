//! The keys file over its life: created, opened with right and wrong master keys, rotated, and cut short anywhere.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use seawall_io::{Disk, OpenMode, Random};
use seawall_keys::{DatabaseKeys, Envelope, KEYS_PATH, KeysError, OtherMasterKeys, Purpose, SecretKey};
use seawall_simulation::{PowerLoss, SimulatedDisk, SimulatedRandom};
use seawall_types::DatabaseId;

const DATABASE: DatabaseId = DatabaseId::from_bytes([7; 16]);

fn master(byte: u8) -> SecretKey {
    SecretKey::from_bytes([byte; 32])
}

fn random() -> Arc<dyn Random> {
    Arc::new(SimulatedRandom::new(5))
}

fn open(disk: &SimulatedDisk, byte: u8) -> Result<DatabaseKeys, KeysError> {
    DatabaseKeys::open(disk, DATABASE, &master(byte), random())
}

fn created(seed: u64) -> (SimulatedDisk, Envelope, [u8; 7]) {
    let disk = SimulatedDisk::new(seed);
    disk.create_directory("").unwrap();
    let keys = DatabaseKeys::create(&disk, DATABASE, &master(1), random()).unwrap();
    let mut message = *b"message";
    let envelope = keys.cipher(Purpose::Log).encrypt(b"", &mut message);
    (disk, envelope, message)
}

fn reads(keys: &DatabaseKeys, purpose: Purpose, envelope: &Envelope, message: [u8; 7]) -> bool {
    let mut bytes = message;
    keys.cipher(purpose).decrypt(envelope, b"", &mut bytes).is_ok() && &bytes == b"message"
}

#[test]
fn only_the_right_master_key_opens() {
    let (disk, envelope, message) = created(1);
    assert!(reads(&open(&disk, 1).unwrap(), Purpose::Log, &envelope, message));
    assert!(!reads(&open(&disk, 1).unwrap(), Purpose::Pages, &envelope, message));
    let wrong = open(&disk, 2).unwrap_err();
    assert!(matches!(wrong, KeysError::WrongMasterKey { .. }), "{wrong}");
    let other = DatabaseKeys::open(&disk, DatabaseId::from_bytes([8; 16]), &master(1), random()).unwrap_err();
    assert!(matches!(other, KeysError::OtherDatabase { .. }), "{other}");
    disk.remove(KEYS_PATH).unwrap();
    let missing = open(&disk, 1).unwrap_err();
    assert!(matches!(missing, KeysError::Missing { .. }), "{missing}");
}

#[test]
fn a_rotation_keeps_the_data_key_and_drops_or_keeps_the_old_master_key() {
    let (disk, envelope, message) = created(2);
    let keys = open(&disk, 1).unwrap();
    keys.rotate(&disk, &master(2), OtherMasterKeys::Keep).unwrap();
    for byte in [1, 2] {
        assert!(reads(&open(&disk, byte).unwrap(), Purpose::Log, &envelope, message));
    }
    open(&disk, 2).unwrap().rotate(&disk, &master(2), OtherMasterKeys::Drop).unwrap();
    assert!(reads(&open(&disk, 2).unwrap(), Purpose::Log, &envelope, message));
    assert!(matches!(open(&disk, 1), Err(KeysError::WrongMasterKey { .. })));
}

#[test]
fn the_file_has_room_for_eight_master_keys() {
    let (disk, ..) = created(3);
    let keys = open(&disk, 1).unwrap();
    for byte in 2..=8 {
        keys.rotate(&disk, &master(byte), OtherMasterKeys::Keep).unwrap();
        keys.rotate(&disk, &master(byte), OtherMasterKeys::Keep).unwrap();
    }
    let ninth = keys.rotate(&disk, &master(9), OtherMasterKeys::Keep).unwrap_err();
    assert!(matches!(ninth, KeysError::TooMany { .. }), "{ninth}");
    for byte in 1..=8 {
        open(&disk, byte).unwrap();
    }
}

#[test]
fn damage_of_the_file_is_told_from_a_wrong_key() {
    let (disk, ..) = created(4);
    let file = disk.open(KEYS_PATH, OpenMode::Write).unwrap();
    let length = file.length().unwrap();
    for offset in 0..length {
        let mut byte = [0];
        file.read_exact_at(&mut byte, offset).unwrap();
        file.write_all_at(&[byte[0] ^ 0x10], offset).unwrap();
        let error = open(&disk, 1).unwrap_err();
        assert!(matches!(error, KeysError::Damaged { .. }), "offset {offset}: {error}");
        file.write_all_at(&byte, offset).unwrap();
    }
    open(&disk, 1).unwrap();
    for length in [0, 63, length - 1, length + 1, 1 << 40] {
        file.set_length(length).unwrap();
        assert!(matches!(open(&disk, 1), Err(KeysError::Damaged { .. })), "length {length}");
    }
}

/// Whatever call of a rotation the power fails at, the old master key opens the database or the new one does; once the
/// rotation has returned, the new one does.
#[test]
fn a_rotation_cut_short_leaves_the_old_keys_or_the_new_ones() {
    let (mut old, mut new) = (0, 0);
    for seed in 0..20 {
        for call in 0.. {
            let (disk, envelope, message) = created(seed);
            let keys = open(&disk, 1).unwrap();
            disk.crash_at(disk.calls() + call);
            let finished = keys.rotate(&disk, &master(2), OtherMasterKeys::Drop).is_ok();
            for loss in [PowerLoss::LoseAll, PowerLoss::KeepAll, PowerLoss::Random(seed)] {
                let after = disk.after_power_loss(loss);
                let with_new = open(&after, 2);
                assert!(
                    with_new.is_ok() || !finished,
                    "seed {seed}, call {call}: a finished rotation is lost"
                );
                if with_new.is_ok() {
                    new += 1
                } else {
                    old += 1
                }
                let opened = with_new.or_else(|_| open(&after, 1)).unwrap();
                assert!(reads(&opened, Purpose::Log, &envelope, message));
                // And the next rotation succeeds, whatever was left behind.
                opened.rotate(&after, &master(3), OtherMasterKeys::Drop).unwrap();
                open(&after, 3).unwrap();
            }
            if finished {
                break;
            }
        }
    }
    assert!(old > 20 && new > 20, "{old} times the old keys, {new} times the new ones");
}
