//! A disk whose calls take time: with several threads a write that does not wait for the sync before it comes too early.
//! On a disk where a sync takes no time it nearly always comes late enough by luck.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{Changes, Model, STAMP, apply_to, check, lose_power_everywhere, options, rows};
use seawall_io::SystemClock;
use seawall_simulation::{Call, Delay, FaultTarget, Operation, Operations, PowerLoss, SimulatedDisk};
use seawall_tree::{ImageCompression, PAGE_FILE_PATH, RECOVERY_FILE_PATH, Tree, TreeAccess, TreeOptions};

/// Where the recovery file's headers end and its images begin.
const IMAGES_AT: u64 = 12_288;

/// A thousand rows on some hundred leaves, all of the same size, so that every later round changes leaves in place.
fn round(number: u8, row_count: u32) -> Changes {
    let value = |key: u32| {
        // Different in every byte, so that no compression makes images small.
        let mut random = seawall_simulation::SeededRandom::new(u64::from(key) << 8 | u64::from(number));
        random.bytes(800)
    };
    (0..row_count).map(|key| (key.to_be_bytes().to_vec(), Some(value(key)))).collect()
}

fn one_chunk(tree: &Tree, changes: &Changes) {
    try_one_chunk(tree, changes).unwrap();
}

fn try_one_chunk(tree: &Tree, changes: &Changes) -> Result<(), seawall_tree::TreeError> {
    let plan = tree.merge_chunk(&mut common::Source::new(changes), u64::MAX, STAMP)?;
    tree.apply_chunk(plan, None).map(|_| ())
}

fn open(disk: &SimulatedDisk, threads: usize) -> Tree {
    let options = TreeOptions {
        threads,
        compression: ImageCompression::None,
        recovery_file_bytes: 8 << 20,
        ..options()
    };
    Tree::open(disk, TreeAccess::Write, options).unwrap().tree
}

/// Lets calls on a file take `duration` of real time from now on.
fn slow_down(disk: &SimulatedDisk, path: &str, operations: Operations, duration: Duration) {
    let target = FaultTarget::Path { prefix: path.to_owned(), operations };
    disk.slow_down(Delay { target, duration, skip: 0, count: u64::MAX }, Arc::new(SystemClock));
}

/// The other copy of pages that were written in place is overwritten only after a sync of the page file that began when all
/// of them were written; and pages are overwritten in place only after their own other copy is durable.
fn assert_one_copy_is_always_durable(calls: &[Call], context: &str) {
    let (mut unsynced_pages, mut unsynced_copies) = (0, 0);
    for call in calls {
        let is_write = call.operation == Operation::Write;
        match &*call.path {
            PAGE_FILE_PATH if is_write => {
                assert_eq!(unsynced_copies, 0, "{context}: {call} before the other copy is durable");
                unsynced_pages += 1;
            }
            PAGE_FILE_PATH if call.operation == Operation::Sync => unsynced_pages = 0,
            RECOVERY_FILE_PATH if is_write => {
                assert_eq!(unsynced_pages, 0, "{context}: {call} before the pages are durable");
                unsynced_copies += 1;
            }
            RECOVERY_FILE_PATH if call.operation == Operation::Sync => unsynced_copies = 0,
            _ => {}
        }
    }
}

#[test]
fn one_copy_of_every_page_is_always_durable_however_long_a_call_takes() {
    for threads in 1..=3 {
        for slow in [Operations::Only(Operation::Sync), Operations::Only(Operation::Write)] {
            let disk = SimulatedDisk::new(1);
            drop(common::create(&disk, 4096));
            let tree = open(&disk, threads);
            one_chunk(&tree, &round(0, 1_000));
            slow_down(&disk, PAGE_FILE_PATH, slow, Duration::from_millis(10));
            let before = disk.trace().len();
            (1..5).for_each(|number| one_chunk(&tree, &round(number, 1_000)));
            disk.clear_faults();
            drop(tree);
            let calls = &disk.trace()[before..];
            assert_one_copy_is_always_durable(calls, &format!("{threads} threads, slow {slow:?}"));
            let is_image = |call: &&Call| {
                &*call.path == RECOVERY_FILE_PATH
                    && call.range.as_ref().is_some_and(|range| range.start >= IMAGES_AT)
            };
            let images = calls.iter().filter(is_image).count();
            assert!(images >= 4 * threads, "{threads} threads have written images {images} times");
        }
    }
}

/// As the test before says it of single calls: the power goes in each of them.
#[test]
fn power_lost_while_several_threads_wait_for_a_slow_disk_leaves_the_tree_of_a_chunk() {
    let disk = SimulatedDisk::new(2);
    drop(common::create(&disk, 4096));
    let mut models = vec![Model::new()];
    for number in 0..4 {
        let mut next = models.last().unwrap().clone();
        apply_to(&mut next, &round(number, 400));
        models.push(next);
    }
    one_chunk(&open(&disk, 3), &round(0, 400));
    let syncs = Operations::Only(Operation::Sync);
    lose_power_everywhere(
        &disk,
        |disk| {
            slow_down(disk, PAGE_FILE_PATH, syncs, Duration::from_millis(2));
            let Some(tree) = open_if_power_lasts(disk) else { return };
            let worked = (1..4).try_for_each(|number| try_one_chunk(&tree, &round(number, 400)));
            assert!(worked.is_ok() || disk.crashed(), "{worked:?}");
        },
        |disk, _, context| {
            let tree = open(&disk, 3);
            check(&tree);
            assert!(models[1..].contains(&rows(&tree)), "{context}: the tree of no chunk");
        },
    );
}

fn open_if_power_lasts(disk: &SimulatedDisk) -> Option<Tree> {
    let options = TreeOptions { threads: 3, compression: ImageCompression::None, ..options() };
    let opened = Tree::open(disk, TreeAccess::Write, options);
    assert!(opened.is_ok() || disk.crashed());
    opened.ok().map(|opened| opened.tree)
}

/// A chunk is seen by readers before its pages are written in place.
#[test]
fn readers_see_a_chunk_whose_pages_the_disk_has_not_taken_yet() {
    let disk = SimulatedDisk::new(3);
    drop(common::create(&disk, 4096));
    one_chunk(&open(&disk, 2), &round(0, 1_000));
    for number in 1..4 {
        // Opened anew, so that nothing of the chunk before is on its way.
        let tree = open(&disk, 2);
        let writes = Operations::Writes;
        let gate = disk.hold(FaultTarget::Path { prefix: PAGE_FILE_PATH.to_owned(), operations: writes });
        one_chunk(&tree, &round(number, 1_000));
        gate.await_waiting(1);
        let mut model = Model::new();
        apply_to(&mut model, &round(number, 1_000));
        // Twice: what the first reader has put into the cache must be right, too.
        assert!(rows(&tree) == model, "round {number}: not the chunk that was published");
        assert!(rows(&tree) == model, "round {number}: the cache holds older pages");
        gate.open();
        assert!(rows(&tree) == model, "round {number}: once it is in place");
        check(&tree);
    }
}

/// A region of the recovery file is written in pieces of a mebibyte; with the default options each has several.
#[test]
fn a_chunk_with_regions_of_several_mebibytes_is_written_again_after_a_power_loss() {
    for threads in 1..=3 {
        let disk = SimulatedDisk::new(4);
        drop(common::create(&disk, 4096));
        let tree = open(&disk, threads);
        one_chunk(&tree, &round(0, 8_000));
        one_chunk(&tree, &round(1, 8_000));
        drop(tree);
        let longest = disk
            .trace()
            .into_iter()
            .filter(|call| &*call.path == RECOVERY_FILE_PATH && call.operation == Operation::Write)
            .filter_map(|call| call.range.map(|range| range.end - range.start))
            .max();
        assert!(longest >= Some(1 << 20), "no region has more than one piece: {longest:?}");
        let mut model = Model::new();
        apply_to(&mut model, &round(1, 8_000));
        for outcome in [PowerLoss::LoseAll, PowerLoss::Random(1), PowerLoss::KeepAll] {
            let lost = disk.after_power_loss(outcome);
            let tree = open(&lost, threads);
            check(&tree);
            assert!(rows(&tree) == model, "{threads} threads, {outcome:?}");
        }
    }
}
