//! Recovery files of others, and such that lie.

use seawall_simulation::SimulatedDisk;
use seawall_tree::{ImageCompression, PageProtection, RECOVERY_FILE_PATH, Superblock, Tree};
use seawall_types::{DatabaseId, Lsn};

use super::base::{PLACES, Protection, start};
use crate::common;
use crate::common::{apply_to, rows};

#[test]
fn a_file_of_another_database_or_without_a_header_is_refused_and_one_of_a_checkpoint_before_ignored() {
    for place in PLACES {
        let protection = Protection::new(place, ImageCompression::Lz4);
        let (disk, mut work, mut model) = start(protection, 3);
        let other = SimulatedDisk::new(2);
        let values = Superblock { database: DatabaseId::from_bytes([8; 16]), ..common::superblock(4096) };
        drop(Tree::create(&other, &values, protection.options()).unwrap());
        let refuse = |file: &[u8], words: &str| {
            let damaged = disk.copy();
            damaged.write_file(RECOVERY_FILE_PATH, file);
            let error = protection.open(&damaged).map(|_| ()).unwrap_err();
            assert!(error.is_damage() && error.to_string().contains(words), "{error}");
        };
        refuse(&other.read_file(RECOVERY_FILE_PATH).unwrap(), "of database");
        refuse(&[], "neither header");
        refuse(&vec![0; 100_000], "neither header");
        let older = disk.read_file(RECOVERY_FILE_PATH).unwrap();
        let changes = work.changes(300, 2);
        protection.merge(&disk, &changes, 50_000, Some(Lsn::new(9))).unwrap();
        apply_to(&mut model, &changes);
        disk.write_file(RECOVERY_FILE_PATH, &older);
        let opened = protection.open(&disk).unwrap();
        assert_eq!(opened.reapplied_chunk, None);
        assert!(rows(&opened.tree) == model);
    }
}

/// Counts, lengths and offsets that lie, under checksums that are right.
#[test]
fn a_header_or_table_that_lies_is_refused_or_ignored_and_never_believed() {
    let protection = Protection::new(PageProtection::RecoveryFile, ImageCompression::Lz4);
    let (disk, mut work, mut model) = start(protection, 4);
    let changes = work.changes(300, 2);
    protection.merge(&disk, &changes, u64::MAX, None).unwrap();
    apply_to(&mut model, &changes);
    let whole = disk.read_file(RECOVERY_FILE_PATH).unwrap();
    let count = u32::from_le_bytes(whole[80..84].try_into().unwrap()) as usize;
    let forge = |offset: usize, value: u64, bytes: usize| {
        let mut file = whole.clone();
        file[offset..offset + bytes].copy_from_slice(&value.to_le_bytes()[..bytes]);
        let chunk = file[32..40].to_vec();
        for entry in (0..count).map(|index| 12_288 + index * 40) {
            let checksum = crc32c_of(&[&chunk, &file[entry..entry + 32]]);
            file[entry + 32..entry + 36].copy_from_slice(&checksum);
        }
        let table = 12_288..12_288 + count * 40;
        let checksum = crc32c_of(&[&file[table.clone()]]);
        file[84..88].copy_from_slice(&checksum);
        file[12..16].fill(0);
        let checksum = crc32c_of(&[&file[..512]]);
        file[12..16].copy_from_slice(&checksum);
        file.copy_within(..512, 8192);
        let forged = disk.copy();
        forged.write_file(RECOVERY_FILE_PATH, &file);
        forged
    };
    let read = |disk: &SimulatedDisk| protection.open(disk).map(|opened| rows(&opened.tree));
    assert!(read(&forge(0, u64::from_le_bytes(*b"SWCHUNK\n"), 8)).unwrap() == model, "nothing forged");
    // image count, region: offset, bytes, count; entry: page, offset, stored bytes, compression
    for (offset, bytes) in [(44, 4), (64, 8), (72, 8), (80, 4), (12_296, 8), (12_304, 4), (12_308, 4)] {
        for value in [0, 1, 5, 4096, 1 << 20, u64::from(u32::MAX), u64::MAX >> 2, u64::MAX] {
            match read(&forge(offset, value, bytes)) {
                Ok(found) => assert!(found == model, "{value} at {offset}"),
                Err(error) => assert!(error.is_damage(), "{value} at {offset}: {error}"),
            }
        }
    }
    // A table that puts an image on another page: the image says which one it is of.
    for value in [0, 1, 3, 1 << 45, u64::MAX] {
        match read(&forge(12_288, value, 8)) {
            Ok(found) => assert!(found == model, "page {value}"),
            Err(error) => assert!(error.is_damage(), "page {value}: {error}"),
        }
    }
}

/// The same of a header whose images are in the log.
#[test]
fn a_header_that_lies_about_the_log_is_refused_and_never_believed() {
    let protection = Protection::new(PageProtection::LogImages, ImageCompression::Lz4);
    let (disk, mut work, mut model) = start(protection, 4);
    let changes = work.changes(300, 2);
    protection.merge(&disk, &changes, u64::MAX, None).unwrap();
    apply_to(&mut model, &changes);
    let whole = disk.read_file(RECOVERY_FILE_PATH).unwrap();
    assert_eq!(whole[56], 1, "the images are in the log");
    let forge = |offset: usize, value: u64, bytes: usize| {
        let mut file = whole.clone();
        file[offset..offset + bytes].copy_from_slice(&value.to_le_bytes()[..bytes]);
        file[12..16].fill(0);
        let checksum = crc32c_of(&[&file[..512]]);
        file[12..16].copy_from_slice(&checksum);
        file.copy_within(..512, 8192);
        let forged = disk.copy();
        forged.write_file(RECOVERY_FILE_PATH, &file);
        forged
    };
    let read = |disk: &SimulatedDisk| protection.other().open(disk).map(|opened| rows(&opened.tree));
    assert!(read(&forge(56, 1, 4)).unwrap() == model, "nothing forged");
    let mut refused = 0;
    // Image count, place, record count; start, end, timeline, checksum.
    for (offset, bytes) in [(44, 4), (56, 4), (60, 4), (64, 8), (72, 8), (80, 4), (84, 4)] {
        for value in [0, 1, 2, 5, 4096, 1 << 20, u64::from(u32::MAX), u64::MAX >> 2, u64::MAX] {
            match read(&forge(offset, value, bytes)) {
                Ok(found) => assert!(found == model, "{value} at {offset}"),
                Err(error) => {
                    assert!(error.is_damage(), "{value} at {offset}: {error}");
                    refused += 1;
                }
            }
        }
    }
    assert!(refused > 40, "{refused}");
}

fn crc32c_of(parts: &[&[u8]]) -> [u8; 4] {
    seawall_codec::checksum::crc32c(&parts.concat()).to_le_bytes()
}
