//! A copy that is damaged, cut or lost, on top of a crash.

use std::cell::Cell;

use seawall_simulation::{PowerLoss, SimulatedDisk};
use seawall_tree::{ImageCompression, PageProtection, RECOVERY_FILE_PATH, Tree, TreeAccess};
use seawall_types::Lsn;

use super::base::{PLACES, Protection, merge_counted, merge_into, start};
use crate::common::image_log::{FileSource, IMAGE_LOG_PATH};
use crate::common::{Changes, apply_to, check, lose_power_everywhere, rows};

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

/// What a chunk frees stays as it was until the chunk is durable in place: if its images are damaged, and the power took what
/// was in place, the tree before it is what is left. Pages that go one by one; many at once, which are punched out; and blocks that are
/// punched out once the second of two chunks has freed the rest of them.
#[test]
fn what_a_chunk_frees_is_not_overwritten_before_the_chunk_is_in_place() {
    let protection = Protection::new(PageProtection::RecoveryFile, ImageCompression::Lz4);
    for (keys, value_bytes, parts) in [(4_u8, 20_000, 1_u8), (1, 2_400_000, 1), (16, 150_000, 2)] {
        let (disk, _, mut before) = start(protection, 9);
        let row = |kind: u8, key: u8| vec![0, 0, 0, 0, 0, 0, 0, 9, kind, key];
        let long: Changes = (0..keys).map(|key| (row(1, key), Some(vec![key; value_bytes]))).collect();
        let freed = |part: u8| -> Changes {
            (part..keys).step_by(parts.into()).map(|key| (row(1, key), None)).collect()
        };
        let taken: Changes = (0..keys).map(|key| (row(2, key), Some(vec![!key; 20_000]))).collect();
        protection.merge(&disk, &long, u64::MAX, Some(Lsn::new(3))).unwrap();
        apply_to(&mut before, &long);
        let mut models = vec![before];
        let steps: Vec<Changes> = (0..parts).map(freed).chain([taken]).collect();
        for changes in &steps {
            let mut next = models.last().expect("there is one").clone();
            apply_to(&mut next, changes);
            models.push(next);
        }
        let punched = {
            let opened = protection.open(&disk.copy()).unwrap();
            steps.iter().map(|changes| merge_counted(&opened, changes, u64::MAX, None).unwrap()).sum::<u64>()
        };
        assert!(keys == 4 || punched >= 1 << 20, "{punched} bytes are punched out");
        let mut old = 0;
        for (call, number) in
            (0..10 + 10 * steps.len() as u64).flat_map(|call| (0..40).map(move |number| (call, number)))
        {
            let crashed = disk.copy();
            crashed.crash_at(crashed.calls() + call);
            if let Ok(opened) = protection.open(&crashed) {
                drop(steps.iter().try_for_each(|changes| merge_into(&opened, changes, u64::MAX, None)));
            }
            let crashed = crashed.after_power_loss(PowerLoss::Random(number));
            (12_300..12_900).step_by(50).for_each(|offset| crashed.flip_bit(RECOVERY_FILE_PATH, offset, 3));
            let context = format!("{keys} rows, call {call}, {number}");
            match protection.open(&crashed) {
                Ok(opened) => {
                    check(&opened.tree);
                    let found = rows(&opened.tree);
                    assert!(models.contains(&found), "{context}: the tree of no chunk");
                    old += u64::from(found == models[0]);
                }
                Err(error) => assert!(error.is_damage(), "{context}: {error}"),
            }
        }
        assert!(old > 20, "{old} times the tree before");
    }
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

/// A chunk frees pages, the next one wants them, and the images of the first are damaged while it may not be in place:
/// whatever is made of it, no tree is made of pages of two.
#[test]
fn pages_freed_by_a_chunk_that_may_not_be_in_place_are_not_overwritten() {
    // What changes nothing is no chunk: it must not make the one before look as if it were in place.
    let nothing = Changes::from([([&[0; 7][..], &[1, 0xFE]].concat(), None)]);
    let in_between = [(PLACES[0], None), (PLACES[1], None), (PLACES[0], Some(&nothing))];
    for (place, between) in in_between {
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
                let done = std::iter::once(&deletes)
                    .chain(between)
                    .chain([&puts])
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
