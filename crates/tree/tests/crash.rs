//! Power lost at every disk call of a chunk: the next open finds the tree before it or after it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::sync::Arc;

use common::{Changes, Model, STAMP, Workload, apply_to, check, create, merge, options, rows, superblock};
use seawall_simulation::{FaultKind, PowerLoss, SeededRandom, SimulatedDisk, seeds};
use seawall_tree::{RECOVERY_FILE_PATH, Superblock, Tree, TreeAccess, TreeError};
use seawall_types::Lsn;

fn workload(seed: u64) -> Workload {
    Workload { random: SeededRandom::new(seed), key_space: 2_000, long_keys: false, max_key_bytes: 100 }
}

fn outcomes(seed: u64) -> [PowerLoss; 4] {
    [PowerLoss::LoseAll, PowerLoss::KeepAll, PowerLoss::Random(seed), PowerLoss::Random(seed + 1_000_000)]
}

/// Runs `step` with power lost at each of its calls; hands every disk that can result to `judge`.
fn lose_power_everywhere(
    disk: &SimulatedDisk,
    step: impl Fn(&SimulatedDisk),
    judge: impl Fn(SimulatedDisk, bool, &str),
) {
    let whole = disk.copy();
    let before = whole.calls();
    step(&whole);
    let calls = whole.calls() - before;
    assert!(calls > 0);
    for call in 0..=calls {
        let crashed = disk.copy();
        crashed.crash_at(crashed.calls() + call);
        step(&crashed);
        for outcome in outcomes(call) {
            judge(
                crashed.after_power_loss(outcome),
                call == calls,
                &format!("call {call} of {calls}, {outcome:?}"),
            );
        }
    }
}

/// Merges `changes` in one chunk that ends a checkpoint, as far as the disk lets it.
fn checkpoint(disk: &SimulatedDisk, changes: &Changes, redo_point: Lsn) -> Result<(), TreeError> {
    let opened = Tree::open(disk, TreeAccess::Write, options())?;
    let values = Superblock { redo_point, ..opened.superblock };
    let plan = opened.tree.merge_chunk(&mut common::Source::new(changes), u64::MAX, STAMP)?;
    opened.tree.apply_chunk(plan, Some(&values))?;
    Ok(())
}

#[test]
fn a_chunk_is_applied_whole_or_not_at_all() {
    for seed in seeds(4) {
        let disk = SimulatedDisk::new(seed);
        let mut work = workload(seed);
        let mut before = Model::new();
        let tree = create(&disk, 4096);
        for _ in 0..2 {
            let changes = work.changes(600, 2);
            merge(&tree, &changes, 60_000).unwrap();
            apply_to(&mut before, &changes);
        }
        drop(tree);
        let changes = work.changes(150, 4);
        let mut after = before.clone();
        apply_to(&mut after, &changes);
        let redo_point = Lsn::new(1_000);
        lose_power_everywhere(
            &disk,
            |disk| {
                let done = checkpoint(disk, &changes, redo_point);
                assert!(done.is_ok() || disk.crashed(), "{done:?}");
            },
            |disk, is_whole, context| {
                let context = format!("seed {seed}, {context}");
                // Looking only must see the same and write nothing.
                let calls = disk.calls();
                let seen = Tree::open(&disk, TreeAccess::Read, options()).unwrap();
                let shown = rows(&seen.tree);
                assert_eq!(disk.calls(), calls, "{context}: opened for reading and wrote");
                let opened = Tree::open(&disk, TreeAccess::Write, options()).unwrap();
                check(&opened.tree);
                let found = rows(&opened.tree);
                assert!(shown == found, "{context}: a reader saw another tree");
                assert_eq!(seen.superblock.redo_point, opened.superblock.redo_point, "{context}");
                // The redo point moves with the pages.
                let is_new = opened.superblock.redo_point == redo_point;
                let expected = if is_new { &after } else { &before };
                assert!(
                    found == *expected,
                    "{context}: neither before nor after; redo point moved: {is_new}"
                );
                assert!(is_new || !is_whole, "{context}: what was acknowledged is lost");
                drop(opened);
                // And it is a tree to go on with.
                checkpoint(&disk, &changes, redo_point).unwrap();
                let opened = Tree::open(&disk, TreeAccess::Write, options()).unwrap();
                check(&opened.tree);
                assert!(rows(&opened.tree) == after, "{context}: after trying again");
            },
        );
    }
}

#[test]
fn pages_freed_by_a_chunk_and_used_by_the_next_are_not_overwritten_by_applying_the_first_again() {
    for seed in seeds(5) {
        let disk = SimulatedDisk::new(seed);
        let mut work = workload(seed);
        let tree = create(&disk, 4096);
        let first = work.changes(900, 0);
        merge(&tree, &first, u64::MAX).unwrap();
        drop(tree);
        // Chunks without a superblock: all of them stay candidates for being applied again.
        let deletes: Changes = first.keys().step_by(3).map(|key| (key.clone(), None)).collect();
        let (second, third) = (work.changes(300, 1), work.changes(300, 8));
        let mut models = vec![Model::new()];
        for changes in [&first, &deletes, &second, &third] {
            let mut next = models.last().unwrap().clone();
            apply_to(&mut next, changes);
            models.push(next);
        }
        lose_power_everywhere(
            &disk,
            |disk| {
                let Ok(opened) = Tree::open(disk, TreeAccess::Write, options()) else { return };
                for changes in [&deletes, &second, &third] {
                    if merge(&opened.tree, changes, u64::MAX).is_err() {
                        assert!(disk.crashed());
                        return;
                    }
                }
            },
            |disk, _, context| {
                let opened = Tree::open(&disk, TreeAccess::Write, options()).unwrap();
                check(&opened.tree);
                let found = rows(&opened.tree);
                assert!(models[1..].contains(&found), "seed {seed}, {context}: the tree of no chunk");
            },
        );
    }
}

#[test]
fn a_bulk_load_is_there_whole_or_leaves_no_trace() {
    let disk = SimulatedDisk::new(3);
    let tree = create(&disk, 4096);
    let mut before = Model::new();
    let changes = workload(3).changes(500, 0);
    merge(&tree, &changes, u64::MAX).unwrap();
    apply_to(&mut before, &changes);
    drop(tree);
    let loaded: Model = (0..700_u64)
        .map(|number| ([&[0; 7][..], &[1, 0xFF], &number.to_be_bytes()].concat(), vec![5; 90]))
        .chain([(vec![0, 0, 0, 0, 0, 0, 0, 1, 0xFF, 0xFF], vec![6; 30_000])])
        .collect();
    let mut after = before.clone();
    after.extend(loaded.clone());
    lose_power_everywhere(
        &disk,
        |disk| {
            let Ok(opened) = Tree::open(disk, TreeAccess::Write, options()) else { return };
            let tree = Arc::new(opened.tree);
            let load = || {
                let mut loader =
                    tree.bulk_loader(&[0, 0, 0, 0, 0, 0, 0, 1, 0xFF], &[0, 0, 0, 0, 0, 0, 0, 2], STAMP);
                loaded.iter().try_for_each(|(key, value)| loader.push(key, value))?;
                tree.apply_chunk(loader.graft()?, None)
            };
            assert!(load().is_ok() || disk.crashed());
        },
        |disk, is_whole, context| {
            let opened = Tree::open(&disk, TreeAccess::Write, options()).unwrap();
            check(&opened.tree);
            let found = rows(&opened.tree);
            assert!(found == after || (found == before && !is_whole), "{context}");
        },
    );
}

#[test]
fn a_creation_cut_short_is_started_over_and_a_database_is_never_created_over() {
    let disk = SimulatedDisk::new(1);
    let create_on = |disk: &SimulatedDisk| Tree::create(disk, &superblock(8192), options());
    lose_power_everywhere(
        &disk,
        |disk| assert!(create_on(disk).is_ok() || disk.crashed()),
        |disk, is_whole, context| {
            let opened = Tree::open(&disk, TreeAccess::Write, options());
            assert!(opened.is_ok() || !is_whole, "{context}");
            let tree = match opened {
                Ok(opened) => opened.tree,
                Err(_) => create_on(&disk).unwrap_or_else(|error| panic!("{context}: {error}")),
            };
            check(&tree);
            assert!(create_on(&disk).is_err(), "{context}: created twice");
        },
    );
    let tree = create_on(&disk).unwrap();
    merge(&tree, &workload(1).changes(5, 0), u64::MAX).unwrap();
    drop(tree);
    disk.remove_file("superblock");
    assert!(create_on(&disk).is_err(), "a database without superblock was overwritten");
}

#[test]
fn a_full_disk_leaves_the_old_tree_and_the_chunk_can_be_tried_again() {
    for skipped in 0..40 {
        let disk = SimulatedDisk::new(skipped);
        let tree = create(&disk, 4096);
        let first = workload(skipped).changes(400, 0);
        merge(&tree, &first, u64::MAX).unwrap();
        let second = workload(skipped + 100).changes(400, 3);
        let mut model = Model::new();
        apply_to(&mut model, &first);
        let used = disk.allocated_bytes();
        disk.set_capacity(Some(used + skipped * 16_384));
        let refused = merge(&tree, &second, u64::MAX).is_err();
        disk.set_capacity(None);
        if refused {
            assert!(rows(&tree) == model, "after {skipped}");
            match merge(&tree, &second, u64::MAX) {
                Ok(_) => {}
                // The disk filled up after the commit point: opening again finishes the chunk.
                Err(TreeError::Unwritable { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
        apply_to(&mut model, &second);
        drop(tree);
        let tree = common::open(&disk);
        check(&tree);
        assert!(rows(&tree) == model, "after {skipped}, reopened");
    }
}

#[test]
fn a_failed_sync_stops_the_writer_until_the_next_open() {
    let disk = SimulatedDisk::new(1);
    let tree = create(&disk, 4096);
    let changes = workload(1).changes(400, 0);
    disk.fail_next(FaultKind::SyncError);
    assert!(merge(&tree, &changes, u64::MAX).is_err());
    assert!(matches!(merge(&tree, &changes, u64::MAX), Err(TreeError::Unwritable { .. })));
    assert!(rows(&tree).is_empty());
    drop(tree);
    let tree = common::open(&disk);
    merge(&tree, &changes, u64::MAX).unwrap();
    check(&tree);
}

#[test]
fn a_recovery_file_that_does_not_verify_is_ignored() {
    let disk = SimulatedDisk::new(1);
    let tree = create(&disk, 4096);
    let mut model = Model::new();
    for seed in 0..3 {
        let changes = workload(seed).changes(300, 2);
        merge(&tree, &changes, u64::MAX).unwrap();
        apply_to(&mut model, &changes);
    }
    drop(tree);
    let bytes = disk.read_file(RECOVERY_FILE_PATH).unwrap();
    // The last chunk is complete and in place: applied again or not, the tree is the same.
    let expect = |disk: &SimulatedDisk, reapplied: Option<bool>, context: &str| {
        let opened = Tree::open(disk, TreeAccess::Write, options()).unwrap();
        if let Some(reapplied) = reapplied {
            assert_eq!(opened.reapplied_chunk.is_some(), reapplied, "{context}");
        }
        check(&opened.tree);
        assert!(rows(&opened.tree) == model, "{context}");
    };
    expect(&disk.copy(), Some(true), "whole");
    let image_count = u32::from_le_bytes(bytes[44..48].try_into().unwrap()) as usize;
    let table = usize::try_from(u64::from_le_bytes(bytes[48..56].try_into().unwrap())).unwrap();
    let end = table + image_count * 32;
    for offset in (0..100).chain([4_100, 8_191]).chain((8_192..end).step_by(41)).chain(end - 70..end) {
        let damaged = disk.copy();
        damaged.flip_bit(RECOVERY_FILE_PATH, offset as u64, 5);
        expect(&damaged, Some(false), &format!("bit flipped at {offset}"));
    }
    for length in (0..end).step_by(701) {
        let cut = disk.copy();
        cut.truncate(RECOVERY_FILE_PATH, length as u64);
        expect(&cut, Some(false), &format!("cut at {length}"));
    }
    // Another database's.
    let other = SimulatedDisk::new(2);
    let values = Superblock { database: seawall_types::DatabaseId::from_bytes([8; 16]), ..superblock(4096) };
    let tree = Tree::create(&other, &values, options()).unwrap();
    merge(&tree, &workload(7).changes(300, 0), u64::MAX).unwrap();
    let foreign = disk.copy();
    foreign.write_file(RECOVERY_FILE_PATH, &other.read_file(RECOVERY_FILE_PATH).unwrap());
    expect(&foreign, Some(false), "of another database");
    // An older chunk's, after the checkpoint that marks it as done.
    let done = disk.copy();
    let opened = Tree::open(&done, TreeAccess::Write, options()).unwrap();
    opened.tree.store_superblock(&opened.superblock).unwrap();
    drop(opened);
    expect(&done, Some(false), "done");
}

#[test]
fn a_lost_page_file_or_superblock_is_a_typed_error() {
    let disk = SimulatedDisk::new(1);
    drop(create(&disk, 4096));
    let lost = disk.copy();
    lost.remove_file("superblock");
    assert!(matches!(Tree::open(&lost, TreeAccess::Write, options()), Err(TreeError::Superblock(_))));
    let lost = disk.copy();
    lost.remove_file("pages");
    assert!(matches!(Tree::open(&lost, TreeAccess::Write, options()), Err(TreeError::Io { .. })));
    let cut = disk.copy();
    cut.truncate("pages", 4096);
    let tree = common::open(&cut);
    assert!(matches!(tree.get(b"x"), Err(TreeError::Truncated { .. })));
    let flipped = disk.copy();
    flipped.flip_bit("pages", 40, 1);
    let tree = common::open(&flipped);
    let error = merge(&tree, &workload(1).changes(300, 0), u64::MAX).unwrap_err();
    assert!(error.is_damage(), "{error}");
}
