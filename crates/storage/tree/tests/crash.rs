//! Power lost at every disk call of a chunk: the next open finds the tree before it or after it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::sync::Arc;

use common::{
    Changes, Model, STAMP, Workload, apply_to, check, create, lose_power_everywhere, merge, options, rows,
    superblock,
};
use seawall_simulation::{
    Call, Fault, FaultError, FaultKind, FaultTarget, Operation, Operations, PowerLoss, SeededRandom,
    SimulatedDisk, seeds,
};
use seawall_tree::{RECOVERY_FILE_PATH, Superblock, Tree, TreeAccess, TreeError, TreeOptions};
use seawall_types::Lsn;

fn workload(seed: u64) -> Workload {
    Workload { random: SeededRandom::new(seed), key_space: 2_000, long_keys: false, max_key_bytes: 100 }
}

/// Merges `changes` in one chunk, whatever the number of threads.
fn one_chunk(tree: &Tree, changes: &Changes) -> Result<(), TreeError> {
    let plan = tree.merge_chunk(&mut common::Source::new(changes), u64::MAX, STAMP)?;
    tree.apply_chunk(plan, None).map(|_| ())
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

/// A process is killed in the middle of a chunk, and the power goes while the next one opens: what that one has found in the
/// operating system's cache is durable before a page is overwritten because of it.
#[test]
fn power_lost_in_an_open_after_a_kill_leaves_the_tree_before_or_after() {
    let original = SimulatedDisk::new(7);
    let mut work = workload(7);
    let first = work.changes(400, 0);
    merge(&create(&original, 4096), &first, u64::MAX).unwrap();
    let changes = work.changes(60, 3);
    let mut models = [Model::new(), Model::new()];
    models.iter_mut().for_each(|model| apply_to(model, &first));
    apply_to(&mut models[1], &changes);
    let mut call_count = 0;
    for kill in 0.. {
        let killed = original.copy();
        killed.crash_at(killed.calls() + kill);
        let is_done = checkpoint(&killed, &changes, Lsn::new(1_000)).is_ok();
        for call in 0.. {
            let next = killed.copy();
            next.crash_at(next.calls() + call);
            let is_open = Tree::open(&next, TreeAccess::Write, options()).is_ok();
            for outcome in [PowerLoss::LoseAll, PowerLoss::Random(call), PowerLoss::Random(kill << 8 | call)]
            {
                let disk = next.after_power_loss(outcome);
                let opened = Tree::open(&disk, TreeAccess::Write, options());
                let tree = opened.unwrap_or_else(|error| panic!("{kill}, {call}, {outcome:?}: {error}")).tree;
                check(&tree);
                assert!(
                    models.contains(&rows(&tree)),
                    "{kill}, {call}, {outcome:?}: neither before nor after"
                );
            }
            call_count += 1;
            if is_open {
                break;
            }
        }
        if is_done {
            break;
        }
    }
    assert!(call_count > 60, "{call_count} calls of opening");
}

/// A process is killed while it makes the recovery file longer, and the power goes in the first chunk of the next one: the length
/// that this one has found, in the operating system's cache, is durable before a header says what lies within it.
#[test]
fn power_lost_in_a_chunk_after_a_kill_in_the_first_one_leaves_the_tree_before_or_after() {
    let original = SimulatedDisk::new(9);
    drop(create(&original, 4096));
    let changes = workload(9).changes(60, 0);
    let mut models = [Model::new(), Model::new()];
    apply_to(&mut models[1], &changes);
    let mut fills = 0;
    for kill in 0.. {
        let killed = original.copy();
        let last_call = killed.calls() + kill;
        killed.crash_at(last_call);
        if checkpoint(&killed, &changes, Lsn::new(1_000)).is_ok() {
            break;
        }
        let is_fill = |call: &Call| {
            let operation = (call.index, call.operation, &call.path[..]);
            operation == (last_call, Operation::FillZeros, RECOVERY_FILE_PATH)
        };
        if !killed.trace().iter().any(is_fill) {
            continue;
        }
        fills += 1;
        for call in 0.. {
            let next = killed.copy();
            next.crash_at(next.calls() + call);
            let is_done = checkpoint(&next, &changes, Lsn::new(2_000)).is_ok();
            for outcome in next.outcomes(40, call) {
                let opened = Tree::open(&outcome.disk, TreeAccess::Write, options());
                let tree = opened.unwrap_or_else(|error| panic!("{kill}, {call}: {error}")).tree;
                check(&tree);
                assert!(models.contains(&rows(&tree)), "{kill}, {call}: neither before nor after");
            }
            if is_done {
                break;
            }
        }
    }
    assert!(fills > 0, "the file was never made longer");
}

#[test]
fn pages_freed_by_a_chunk_and_used_by_the_next_are_not_overwritten_by_applying_the_first_again() {
    chunks_after_one_another(1, 5);
}

/// A chunk is written in place while the next one is planned.
#[test]
fn power_lost_between_chunks_that_several_threads_write_leaves_the_tree_of_one_of_them() {
    chunks_after_one_another(3, 3);
}

fn chunks_after_one_another(threads: usize, seed_count: u64) {
    let options = || TreeOptions { threads, ..options() };
    for seed in seeds(seed_count) {
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
                    if one_chunk(&opened.tree, changes).is_err() {
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
                tree.apply_chunk(loader.graft(STAMP)?, None)
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

/// The write that fails is that of a thread, after the chunk was applied: it comes to light with the next one.
#[test]
fn a_write_in_place_that_fails_later_stops_the_writer_and_loses_nothing() {
    let mut failed_later = 0;
    for calls in 0..60 {
        let disk = SimulatedDisk::new(1);
        let tree = common::create_with(&disk, 4096, 3);
        let mut model = Model::new();
        let first = workload(1).changes(400, 0);
        one_chunk(&tree, &first).unwrap();
        apply_to(&mut model, &first);
        let (second, third) = (workload(2).changes(400, 3), workload(3).changes(400, 3));
        let target = FaultTarget::Path { prefix: "pages".to_owned(), operations: Operations::Writes };
        disk.inject(Fault { target, error: FaultError::Number(5), skip: calls, count: 1 });
        let applied = one_chunk(&tree, &second);
        let last = one_chunk(&tree, &third);
        if applied.is_ok() && last.is_err() {
            assert!(rows(&tree) != model, "readers see the chunk, which is committed");
            failed_later += 1;
        }
        if applied.is_ok() {
            apply_to(&mut model, &second);
        }
        let next = one_chunk(&tree, &Changes::new());
        assert!(last.is_ok() || matches!(next, Err(TreeError::Unwritable { .. })), "{next:?}");
        drop(tree);
        disk.clear_faults();
        let tree = common::open_with(&disk, 3);
        check(&tree);
        let found = rows(&tree);
        let mut later = model.clone();
        apply_to(&mut later, if applied.is_ok() { &third } else { &second });
        assert!(found == later || (found == model && last.is_err()), "after {calls} calls");
    }
    assert!(failed_later > 0, "no write failed behind the writer's back");
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
