//! Both places of the second copy, and all compressions: power lost at every disk call, again with the other place
//! after it, and damage to either copy at the worst moment. The tree is that before the chunk or that after it, or it
//! does not open; it is never a mixture.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::cell::Cell;

use common::image_log::{FileLog, FileSource, IMAGE_LOG_PATH};
use common::{Changes, Model, STAMP, Source, Workload, apply_to, check, lose_power_everywhere, rows};
use seawall_simulation::{
    Fault, FaultError, FaultTarget, Operations, PowerLoss, SeededRandom, SimulatedDisk,
};
use seawall_tree::{
    ImageCompression, MergeSource, OpenedTree, PageProtection, RECOVERY_FILE_PATH, Superblock, Tree,
    TreeAccess, TreeError, TreeOptions,
};
use seawall_types::{DatabaseId, Lsn};

const PLACES: [PageProtection; 2] = [PageProtection::RecoveryFile, PageProtection::LogImages];

/// How the images of a tree are kept.
#[derive(Clone, Copy, Debug)]
struct Protection {
    place: PageProtection,
    compression: ImageCompression,
    threads: usize,
}

impl Protection {
    fn new(place: PageProtection, compression: ImageCompression) -> Protection {
        Protection { place, compression, threads: 1 }
    }

    /// The other place.
    fn other(self) -> Protection {
        let place = match self.place {
            PageProtection::RecoveryFile => PageProtection::LogImages,
            PageProtection::LogImages => PageProtection::RecoveryFile,
        };
        Protection { place, ..self }
    }

    fn options(self) -> TreeOptions {
        TreeOptions {
            compression: self.compression,
            threads: self.threads,
            recovery_file_bytes: 64 << 10,
            ..common::options()
        }
    }

    fn open_as(self, disk: &SimulatedDisk, access: TreeAccess) -> Result<OpenedTree, TreeError> {
        let opened = Tree::open_with_log(disk, access, self.options(), &FileSource(disk))?;
        if self.place == PageProtection::LogImages && access == TreeAccess::Write {
            let log = FileLog::open(disk).map_err(|source| TreeError::Io {
                operation: "opening",
                path: IMAGE_LOG_PATH.to_owned(),
                offset: 0,
                source,
            })?;
            opened.tree.protect_in_log(log)?;
        }
        Ok(opened)
    }

    fn open(self, disk: &SimulatedDisk) -> Result<OpenedTree, TreeError> {
        self.open_as(disk, TreeAccess::Write)
    }

    /// Merges in chunks of `budget_bytes`; the last one ends a checkpoint if there is a redo point.
    fn merge(
        self,
        disk: &SimulatedDisk,
        changes: &Changes,
        budget_bytes: u64,
        redo_point: Option<Lsn>,
    ) -> Result<(), TreeError> {
        let opened = self.open(disk)?;
        merge_into(&opened, changes, budget_bytes, redo_point)
    }
}

fn merge_into(
    opened: &OpenedTree,
    changes: &Changes,
    budget_bytes: u64,
    redo_point: Option<Lsn>,
) -> Result<(), TreeError> {
    let mut source = Source::new(changes);
    while source.peek().is_some() {
        let plan = opened.tree.merge_chunk(&mut source, budget_bytes, STAMP)?;
        let finish = redo_point.filter(|_| source.peek().is_none());
        let values = finish.map(|redo_point| Superblock { redo_point, ..opened.superblock.clone() });
        opened.tree.apply_chunk(plan, values.as_ref())?;
    }
    Ok(())
}

fn workload(seed: u64) -> Workload {
    Workload { random: SeededRandom::new(seed), key_space: 900, long_keys: false, max_key_bytes: 100 }
}

/// A tree of some chunks, and what it holds.
fn start(protection: Protection, seed: u64) -> (SimulatedDisk, Workload, Model) {
    let disk = SimulatedDisk::new(seed);
    let mut work = workload(seed);
    drop(common::create(&disk, 4096));
    let mut model = Model::new();
    for _ in 0..2 {
        let changes = work.changes(500, 2);
        protection.merge(&disk, &changes, 50_000, Some(Lsn::new(2))).unwrap();
        apply_to(&mut model, &changes);
    }
    (disk, work, model)
}

/// Opens and reads; panics unless every page is right.
fn content(protection: Protection, disk: &SimulatedDisk, context: &str) -> Model {
    let opened = protection.open(disk).unwrap_or_else(|error| panic!("{context}: {error}"));
    check(&opened.tree);
    rows(&opened.tree)
}

fn crash_everywhere(protection: Protection, seed: u64) {
    let (disk, mut work, before) = start(protection, seed);
    let changes = work.changes(100, 4);
    let mut after = before.clone();
    apply_to(&mut after, &changes);
    let redo_point = Lsn::new(1_000);
    let merge = |disk: &SimulatedDisk, protection: Protection| {
        protection.merge(disk, &changes, u64::MAX, Some(redo_point))
    };
    lose_power_everywhere(
        &disk,
        |disk| assert!(merge(disk, protection).is_ok() || disk.crashed()),
        |disk, is_whole, context| {
            let context = format!("{protection:?}, {context}");
            let calls = disk.calls();
            let seen = protection.open_as(&disk, TreeAccess::Read).unwrap();
            let shown = rows(&seen.tree);
            assert_eq!(disk.calls(), calls, "{context}: opened for reading and wrote");
            // With the other place, and the power goes once more in every seventh call of that.
            let other = protection.other();
            for call in (0..).step_by(7) {
                let again = disk.copy();
                again.crash_at(again.calls() + call);
                let done = other.open(&again).map(|_| ());
                let crashed = again.crashed();
                assert!(crashed || done.is_ok(), "{context}: {done:?}");
                if !crashed {
                    break;
                }
                let again = again.after_power_loss(PowerLoss::Random(call));
                assert!(
                    content(protection, &again, &context) == shown,
                    "{context}, and in call {call} of the next"
                );
            }
            let opened = other.open(&disk).unwrap();
            check(&opened.tree);
            let found = rows(&opened.tree);
            assert!(shown == found, "{context}: a reader saw another tree");
            let is_new = opened.superblock.redo_point == redo_point;
            assert!(found == if is_new { after.clone() } else { before.clone() }, "{context}: new {is_new}");
            assert!(is_new || !is_whole, "{context}: what was acknowledged is lost");
            drop(opened);
            merge(&disk, other).unwrap();
            assert!(content(protection, &disk, &context) == after, "{context}: after trying again");
        },
    );
}

#[test]
fn power_lost_at_every_call_with_images_in_the_recovery_file() {
    for (seed, compression) in (0..).zip(ImageCompression::ALL) {
        crash_everywhere(Protection::new(PageProtection::RecoveryFile, compression), seed);
    }
}

#[test]
fn power_lost_at_every_call_with_images_in_the_log() {
    for (seed, compression) in (10..).zip(ImageCompression::ALL) {
        crash_everywhere(Protection::new(PageProtection::LogImages, compression), seed);
    }
}

/// The chunk is in place when the next one is being written: neither is lost, in either place, in any mixture.
#[test]
fn power_lost_in_chunk_after_chunk_finds_the_tree_of_one_of_them() {
    for place in PLACES {
        let protection = Protection::new(place, ImageCompression::Lz4);
        let (disk, mut work, model) = start(protection, 77);
        let steps: Vec<Changes> = (0..3).map(|_| work.changes(120, 3)).collect();
        let mut models = vec![model];
        for changes in &steps {
            let mut next = models.last().unwrap().clone();
            apply_to(&mut next, changes);
            models.push(next);
        }
        lose_power_everywhere(
            &disk,
            |disk| {
                let Ok(opened) = protection.open(disk) else { return };
                let done = steps.iter().try_for_each(|step| merge_into(&opened, step, u64::MAX, None));
                assert!(done.is_ok() || disk.crashed());
            },
            |disk, is_whole, context| {
                let found = content(protection.other(), &disk, context);
                assert!(models.contains(&found), "{place:?}, {context}: the tree of no chunk");
                assert!(!is_whole || found == models[3], "{place:?}, {context}: a chunk is lost");
            },
        );
    }
}

/// Damages the copy of a chunk at any moment of its application, on top of a crash.
fn damage(place: PageProtection, damages: &dyn Fn(&SimulatedDisk) -> Vec<(String, SimulatedDisk)>) -> u64 {
    let protection = Protection::new(place, ImageCompression::Lz4);
    let (disk, mut work, before) = start(protection, 5);
    let changes = work.changes(90, 4);
    let mut after = before.clone();
    apply_to(&mut after, &changes);
    let refused = Cell::new(0);
    lose_power_everywhere(
        &disk,
        // No end of a checkpoint: all of it is there when the header is.
        |disk| drop(protection.merge(disk, &changes, u64::MAX, None)),
        |crashed, _, context| {
            for (what, damaged) in damages(&crashed) {
                match protection.other().open(&damaged) {
                    Ok(opened) => {
                        let found = rows(&opened.tree);
                        assert!(found == before || found == after, "{context}, {what}: a mixture");
                        check(&opened.tree);
                    }
                    Err(error) => {
                        assert!(error.is_damage(), "{context}, {what}: {error}");
                        let message = error.to_string();
                        assert!(message.contains("recovery"), "{context}, {what}: {message}");
                        refused.set(refused.get() + 1);
                    }
                }
            }
        },
    );
    refused.get()
}

fn flip_each(path: &str, offsets: &[u64]) -> impl Fn(&SimulatedDisk) -> Vec<(String, SimulatedDisk)> {
    move |disk: &SimulatedDisk| {
        let length = disk.read_file(path).map_or(0, |bytes| bytes.len() as u64);
        let there = offsets.iter().filter(|offset| **offset < length);
        let flip = |offset: &u64| {
            let damaged = disk.copy();
            damaged.flip_bit(path, *offset, 3);
            (format!("bit flipped at {offset} of {path}"), damaged)
        };
        there.map(flip).collect()
    }
}

#[test]
fn a_damaged_header_is_survived() {
    for place in PLACES {
        let offsets: Vec<u64> = (0..88).step_by(3).chain([300, 447, 511, 512, 8192, 8230]).collect();
        assert_eq!(damage(place, &flip_each(RECOVERY_FILE_PATH, &offsets)), 0, "{place:?}");
    }
}

#[test]
fn a_damaged_table_is_survived() {
    let offsets: Vec<u64> = (12_288..12_288 + 400).step_by(13).collect();
    assert_eq!(damage(PageProtection::RecoveryFile, &flip_each(RECOVERY_FILE_PATH, &offsets)), 0);
}

#[test]
fn a_chunk_half_in_place_whose_images_were_damaged_is_refused() {
    let offsets: Vec<u64> =
        (12_288..12_288 + 400).step_by(11).chain((13_000..40_000).step_by(1_501)).collect();
    let refused = damage(PageProtection::RecoveryFile, &flip_each(RECOVERY_FILE_PATH, &offsets));
    assert!(refused > 50, "{refused}");
}

#[test]
fn a_chunk_half_in_place_whose_recovery_file_was_cut_is_refused() {
    let refused = damage(PageProtection::RecoveryFile, &|disk| {
        let cut = |length: u64| {
            let damaged = disk.copy();
            damaged.truncate(RECOVERY_FILE_PATH, length);
            (format!("cut to {length}"), damaged)
        };
        // With the images, the tables, the second header, and all.
        [20_000, 14_000, 12_500, 8_192, 600, 511, 0].into_iter().map(cut).collect()
    });
    assert!(refused > 100, "{refused}");
    // With images in the log there are the headers and the superblock, one of which is enough.
    let refused = damage(PageProtection::LogImages, &|disk| {
        let cut = |length: u64| {
            let damaged = disk.copy();
            damaged.truncate(RECOVERY_FILE_PATH, length);
            (format!("cut to {length}"), damaged)
        };
        [12_287, 8_192, 4_096, 600, 511, 0].into_iter().map(cut).collect()
    });
    assert!(refused > 20, "{refused}");
}

#[test]
fn a_chunk_whose_images_in_the_log_were_damaged_is_refused() {
    let (disk, ..) = start(Protection::new(PageProtection::LogImages, ImageCompression::Lz4), 5);
    let from = disk.read_file(IMAGE_LOG_PATH).unwrap().len() as u64;
    let offsets: Vec<u64> = (0..40).chain((40..20_000).step_by(1_201)).map(|offset| from + offset).collect();
    let refused = damage(PageProtection::LogImages, &flip_each(IMAGE_LOG_PATH, &offsets));
    assert!(refused > 100, "{refused}");
    let lost = damage(PageProtection::LogImages, &|disk| {
        let damaged = disk.copy();
        damaged.truncate(IMAGE_LOG_PATH, from + 100);
        vec![("log cut".to_owned(), damaged)]
    });
    assert!(lost > 10, "{lost}");
}

/// The superblock that comes with a chunk moves the redo point: with pages of the chunk in place it must not be lost.
#[test]
fn a_chunk_in_place_that_lost_its_superblock_is_refused() {
    for place in PLACES {
        let protection = Protection::new(place, ImageCompression::Lz4);
        let (disk, mut work, before) = start(protection, 9);
        let changes = work.changes(90, 4);
        let refused = Cell::new(0);
        lose_power_everywhere(
            &disk,
            |disk| drop(protection.merge(disk, &changes, u64::MAX, Some(Lsn::new(1_000)))),
            |crashed, _, context| {
                let moved = |disk: &SimulatedDisk| {
                    Tree::open_with_log(disk, TreeAccess::Read, protection.options(), &FileSource(disk))
                        .map(|opened| (opened.superblock.redo_point, rows(&opened.tree)))
                };
                crashed.flip_bit(RECOVERY_FILE_PATH, 4096 + 60, 2);
                match moved(&crashed) {
                    Ok((redo_point, found)) => {
                        assert!(redo_point == Lsn::new(1_000) || found == before, "{place:?}, {context}");
                    }
                    Err(error) => {
                        assert!(error.to_string().contains("half") || error.is_damage(), "{error}");
                        refused.set(refused.get() + 1);
                    }
                }
            },
        );
        assert!(refused.get() > 3, "{place:?}: {}", refused.get());
    }
}

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

/// Each of several writers may be the one whose region is lost: of the file's parts none can go unnoticed.
#[test]
fn a_lost_region_is_noticed() {
    let protection =
        Protection { threads: 4, ..Protection::new(PageProtection::RecoveryFile, ImageCompression::None) };
    let (disk, mut work, _) = start(protection, 6);
    work.key_space = 9_000;
    protection.merge(&disk, &work.changes(2_500, 2), u64::MAX, Some(Lsn::new(3))).unwrap();
    let changes = work.changes(1_000, 2);
    let before = disk.copy();
    protection.merge(&disk, &changes, u64::MAX, None).unwrap();
    let file = disk.read_file(RECOVERY_FILE_PATH).unwrap();
    let regions = usize::from(file[60]);
    assert!(regions > 2, "{regions}");
    for region in 0..regions {
        let at = 64 + region * 24;
        let offset = u64::from_le_bytes(file[at..at + 8].try_into().unwrap());
        let crashed = disk.after_power_loss(PowerLoss::LoseAll);
        crashed.overwrite(RECOVERY_FILE_PATH, offset, &vec![0; 8192]);
        // Nothing was in place: the chunk does not count, and the tree is the old one.
        let opened = protection.open(&crashed).unwrap();
        assert_eq!(opened.reapplied_chunk, None, "region {region}");
        assert!(
            rows(&opened.tree) == rows(&protection.open(&before.copy()).unwrap().tree),
            "region {region}"
        );
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

/// A chunk frees pages, the next one wants them, and the images of the first are damaged while it may not be in place:
/// whatever is made of it, no tree is made of pages of two.
#[test]
fn pages_freed_by_a_chunk_that_may_not_be_in_place_are_not_overwritten() {
    for place in PLACES {
        let protection = Protection::new(place, ImageCompression::Lz4);
        let (disk, mut work, model) = start(protection, 21);
        // Whole leaves go, with long values, and as many come.
        let deletes: Changes = model.keys().skip(40).take(220).map(|key| (key.clone(), None)).collect();
        let mut puts = work.changes(200, 0);
        puts.values_mut().step_by(5).for_each(|value| *value = Some(vec![7; 9_000]));
        let mut models = vec![model];
        for changes in [&deletes, &puts] {
            let mut next = models.last().unwrap().clone();
            apply_to(&mut next, changes);
            models.push(next);
        }
        let tally = Cell::new((0, 0));
        lose_power_everywhere(
            &disk,
            |disk| {
                let Ok(opened) = protection.open(disk) else { return };
                let done = [&deletes, &puts]
                    .into_iter()
                    .try_for_each(|step| merge_into(&opened, step, u64::MAX, None));
                assert!(done.is_ok() || disk.crashed());
            },
            |crashed, _, context| {
                let length = crashed.read_file(RECOVERY_FILE_PATH).unwrap().len() as u64;
                for offset in [4_100, 13_500, 20_000].into_iter().filter(|offset| *offset < length) {
                    let damaged = crashed.copy();
                    damaged.flip_bit(RECOVERY_FILE_PATH, offset, 3);
                    let (whole, refused) = tally.get();
                    match protection.open(&damaged) {
                        Ok(opened) => {
                            check(&opened.tree);
                            let found = rows(&opened.tree);
                            assert!(models.contains(&found), "{place:?}, {context}, {offset}: a mixture");
                            tally.set((whole + 1, refused));
                        }
                        Err(error) => {
                            assert!(error.is_damage(), "{place:?}, {context}, {offset}: {error}");
                            tally.set((whole, refused + 1));
                        }
                    }
                }
            },
        );
        assert!(tally.get().0 > 50, "{place:?}: {:?}", tally.get());
    }
}
