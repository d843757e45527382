//! How a chunk is written: full disks, several writers, lengths, numbers and syncs.

use seawall_simulation::{Fault, FaultError, FaultTarget, Operations, PowerLoss, SimulatedDisk};
use seawall_tree::{ImageCompression, PageProtection, RECOVERY_FILE_PATH};
use seawall_types::Lsn;

use super::base::{PLACES, Protection, content, merge_into, start, workload};
use crate::common;
use crate::common::{Changes, Workload, apply_to, check, rows};

/// A full disk at each write of a chunk: the old tree stands and the chunk is done later, or the next open finishes it.
#[test]
fn a_disk_full_at_any_write_of_a_chunk_loses_nothing() {
    for place in PLACES {
        let protection = Protection::new(place, ImageCompression::Lz4);
        let (disk, mut work, before) = start(protection, 8);
        let changes = work.changes(150, 3);
        let mut after = before.clone();
        apply_to(&mut after, &changes);
        let (mut tried_again, mut reopened) = (0, 0);
        for call in 0.. {
            let disk = disk.copy();
            let opened = protection.open(&disk).unwrap();
            let target = FaultTarget::Path { prefix: String::new(), operations: Operations::Writes };
            disk.inject(Fault { target, error: FaultError::Number(28), skip: call, count: 1 });
            let first = merge_into(&opened, &changes, u64::MAX, Some(Lsn::new(1_000)));
            disk.clear_faults();
            let is_done = first.is_ok();
            if let Err(error) = first {
                assert!(!error.is_damage(), "{error}");
                match opened.tree.failure() {
                    None => {
                        tried_again += 1;
                        assert!(rows(&opened.tree) == before, "{place:?}, call {call}");
                        merge_into(&opened, &changes, u64::MAX, Some(Lsn::new(1_000))).unwrap();
                    }
                    Some(_) => reopened += 1,
                }
            }
            drop(opened);
            let opened = protection.other().open(&disk).unwrap();
            let found = rows(&opened.tree);
            assert!(found == before || found == after, "{place:?}, call {call}: a mixture");
            check(&opened.tree);
            merge_into(&opened, &changes, u64::MAX, Some(Lsn::new(1_000))).unwrap();
            assert!(rows(&opened.tree) == after, "{place:?}, call {call}");
            if is_done && call > 20 {
                break;
            }
        }
        assert!(tried_again > 1 && reopened > 0, "{place:?}: {tried_again}, {reopened}");
    }
}

/// What several threads have written is what one has, to those who read it.
#[test]
fn several_writers_leave_a_chunk_that_can_be_applied_again() {
    for place in PLACES {
        for compression in ImageCompression::ALL {
            let protection = Protection { threads: 3, ..Protection::new(place, compression) };
            let (disk, mut work, mut model) = start(protection, 6);
            work.key_space = 9_000;
            let changes = work.changes(2_500, 2);
            protection.merge(&disk, &changes, u64::MAX, Some(Lsn::new(3))).unwrap();
            apply_to(&mut model, &changes);
            let changes = work.changes(1_000, 2);
            protection.merge(&disk, &changes, u64::MAX, None).unwrap();
            apply_to(&mut model, &changes);
            if place == PageProtection::RecoveryFile {
                let file = disk.read_file(RECOVERY_FILE_PATH).unwrap();
                assert!(file[60] > 1, "{} regions", file[60]);
            }
            // The power takes what was written in place: all of it is written again.
            let crashed = disk.after_power_loss(PowerLoss::LoseAll);
            let opened = protection.other().open(&crashed).unwrap();
            assert!(opened.reapplied_chunk.is_some());
            assert!(rows(&opened.tree) == model, "{protection:?}");
            check(&opened.tree);
        }
    }
}

/// The recovery file has its length once it is needed, and has it again after a chunk that needed more.
#[test]
fn the_recovery_file_keeps_its_length() {
    let protection = Protection::new(PageProtection::RecoveryFile, ImageCompression::None);
    let disk = SimulatedDisk::new(1);
    drop(common::create(&disk, 4096));
    let length = |disk: &SimulatedDisk| disk.read_file(RECOVERY_FILE_PATH).unwrap().len();
    assert_eq!(length(&disk), 12_288, "a new file holds no more than its headers");
    let mut work = workload(1);
    protection.merge(&disk, &work.changes(20, 0), u64::MAX, Some(Lsn::new(2))).unwrap();
    let fixed = length(&disk);
    for round in 3..8 {
        protection.merge(&disk, &work.changes(200, 2), 40_000, Some(Lsn::new(round))).unwrap();
        assert_eq!(length(&disk), fixed);
    }
    let opened = protection.open(&disk).unwrap();
    let mut work = Workload { key_space: 100_000, ..work };
    merge_into(&opened, &work.changes(20_000, 0), 40_000, Some(Lsn::new(8))).unwrap();
    assert_eq!(length(&disk), fixed);
    merge_into(&opened, &work.changes(20_000, 0), u64::MAX, None).unwrap();
    assert!(length(&disk) > fixed, "a chunk far over its budget makes the file longer");
    merge_into(&opened, &work.changes(10, 0), u64::MAX, Some(Lsn::new(9))).unwrap();
    assert_eq!(length(&disk), fixed, "and the end of the checkpoint cuts it");
    merge_into(&opened, &work.changes(20_000, 0), u64::MAX, Some(Lsn::new(10))).unwrap();
    assert_eq!(length(&disk), fixed, "also below the images of the chunk that ends it");
    drop(opened);
    content(protection, &disk, "the file is shorter than its last chunk, which is in place");
}

/// What is left of a chunk that was given up must not pass for a part of a later one.
#[test]
fn the_number_of_a_chunk_is_never_given_again() {
    let protection = Protection::new(PageProtection::RecoveryFile, ImageCompression::None);
    let (disk, mut work, _) = start(protection, 5);
    let chunk = |disk: &SimulatedDisk| {
        let bytes = disk.read_file(RECOVERY_FILE_PATH).unwrap();
        u64::from_le_bytes(bytes[32..40].try_into().unwrap())
    };
    protection.merge(&disk, &work.changes(300, 0), u64::MAX, None).unwrap();
    let committed = chunk(&disk);
    // It is in place; a chunk that was on its way over its images has damaged them when the power went.
    for offset in (12_288..16_000).step_by(97) {
        disk.flip_bit(RECOVERY_FILE_PATH, offset, 1);
    }
    let opened = protection.open(&disk).unwrap();
    assert_eq!(opened.reapplied_chunk, None);
    merge_into(&opened, &work.changes(300, 0), u64::MAX, None).unwrap();
    assert_eq!(chunk(&disk), committed + 1);
}

/// Two syncs a chunk, and four at the end of a checkpoint, the superblock's included; one more where a chunk wants pages
/// that the one before has freed.
#[test]
fn a_chunk_costs_two_syncs() {
    let protection = Protection::new(PageProtection::RecoveryFile, ImageCompression::Lz4);
    let (disk, mut work, _) = start(protection, 2);
    let opened = protection.open(&disk).unwrap();
    let syncs =
        |disk: &SimulatedDisk| disk.trace().iter().filter(|call| call.to_string().contains(" sync ")).count();
    let keys = work.changes(100, 0);
    let again =
        |round: u8| -> Changes { keys.keys().map(|key| (key.clone(), Some(vec![round; 60]))).collect() };
    // The long values of these keys are freed here.
    merge_into(&opened, &again(3), u64::MAX, Some(Lsn::new(5))).unwrap();
    let before = syncs(&disk);
    merge_into(&opened, &again(0), u64::MAX, None).unwrap();
    let first = syncs(&disk) - before;
    merge_into(&opened, &again(1), u64::MAX, None).unwrap();
    let second = syncs(&disk) - before - first;
    merge_into(&opened, &again(2), u64::MAX, Some(Lsn::new(7))).unwrap();
    let last = syncs(&disk) - before - first - second;
    assert!(first <= 2 && second == 2 && last == 4, "{first} {second} {last}");
}
