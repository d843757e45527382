//! Windows are about as large as asked for, whatever lies in the tree and what in runs.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::ops::Range;
use std::sync::Arc;

use common::runs::{STAMP, Stored, everything, settle};
use common::{Changes, apply_to, create, merge};
use seawall_simulation::{SeededRandom, SimulatedDisk, seeds};
use seawall_tree::{StoredRun, Tree};

const PAGE_BYTES: u64 = 4096;

fn key(number: u64) -> Vec<u8> {
    [64_u64.to_be_bytes(), number.to_be_bytes()].concat()
}

/// Rows of one shape: everywhere, in a few places, or side by side at one.
fn rows(random: &mut SeededRandom, count: u64) -> Changes {
    let places: Vec<u64> = (0..3).map(|_| random.below(1 << 40)).collect();
    let shape = random.below(4);
    let number = |random: &mut SeededRandom, index: u64| match shape {
        0 => random.below(1 << 40),
        1 => places[random.index(3)] + random.below(500),
        2 => places[0] + index,
        _ => (1 << 41) + index,
    };
    (0..count)
        .map(|index| {
            let bytes = usize::try_from(random.below(200)).unwrap();
            (key(number(random, index)), (!random.chance(1, 10)).then(|| vec![7; bytes]))
        })
        .collect()
}

/// Leaves of the tree, or of a run, that may have keys of a range.
fn leaves(tree: &Tree, range: &Range<Vec<u8>>) -> u64 {
    let groups = tree.groups(&range.start, &range.end);
    groups.map(|group| group.unwrap().leaves_within(&range.start, &range.end).len() as u64).sum()
}

/// Windows follow one another without a gap, and none is too large.
fn assert_bounds(tree: &Tree, runs: &[StoredRun], window_bytes: u64, context: &str) {
    let (mut from, end, mut windows, mut halves) = (Vec::new(), everything().end, 0, 0);
    while from < end {
        let bounds = tree.window_at(from.clone()..end.clone(), runs, window_bytes).unwrap();
        assert!(
            bounds.range.start == from && from < bounds.range.end && bounds.range.end <= end,
            "{context}"
        );
        assert_eq!(bounds.tree_leaves, leaves(tree, &bounds.range), "{context}");
        for (run, found) in runs.iter().zip(&bounds.run_leaves) {
            let range = run.key(&bounds.range.start)..run.key(&bounds.range.end);
            assert_eq!(*found, leaves(tree, &range), "{context}");
        }
        let bytes = (bounds.tree_leaves + bounds.run_leaves.iter().sum::<u64>()) * PAGE_BYTES;
        let around = (runs.len() as u64 + 1) * PAGE_BYTES;
        assert!(bytes <= window_bytes + around, "{context}: {bytes} bytes of {window_bytes}");
        windows += 1;
        halves += u64::from(bytes * 2 >= window_bytes || bounds.range.end == end);
        from = bounds.range.end;
    }
    assert_eq!(windows, halves, "{context}: windows much smaller than asked for");
}

#[test]
fn windows_are_about_as_large_as_asked_for() {
    for seed in seeds(40) {
        let disk = SimulatedDisk::new(seed);
        let tree = Arc::new(create(&disk, 4096));
        let mut random = SeededRandom::new(seed);
        let mut stored = Stored::default();
        let in_tree = [0, 50, 5_000, 20_000][usize::try_from(seed % 4).unwrap()];
        let mut first = rows(&mut random, in_tree);
        first.retain(|_, value| value.is_some());
        merge(&tree, &first, u64::MAX).unwrap();
        apply_to(&mut stored.main, &first);
        for _ in 0..random.below(5) {
            let count = [3, 300, 6_000][random.index(3)];
            let changes = rows(&mut random, count);
            stored.write_run(&tree, changes, STAMP);
        }
        let runs = stored.stored_runs();
        for window_bytes in [1, 20_000, 100_000, 1 << 20] {
            assert_bounds(&tree, &runs, window_bytes, &format!("seed {seed}, {window_bytes} bytes"));
        }
        let seen = stored.seen();
        settle(&tree, &runs, 100_000).unwrap();
        common::assert_holds(&tree, &seen, &format!("seed {seed}, settled"));
    }
}

/// With one leaf in the tree all of a large run would be one window, if only the tree had a say.
#[test]
fn a_run_over_an_empty_tree_is_settled_in_windows() {
    let disk = SimulatedDisk::new(1);
    let tree = Arc::new(create(&disk, 4096));
    let mut stored = Stored::default();
    stored.write_run(&tree, (0..30_000).map(|number| (key(number), Some(vec![1; 80]))).collect(), STAMP);
    let mut windows = 0;
    let mut apply = |merged: seawall_tree::MergedWindow| {
        windows += 1;
        assert!(merged.rows * 100 < 250_000, "{} rows in one window", merged.rows);
        tree.apply_chunk(merged.chunk, None).map(|_| ())
    };
    tree.settle_runs(&everything(), &stored.stored_runs(), 100_000, STAMP, &mut apply).unwrap();
    assert!(windows > 20, "{windows}");
    common::assert_holds(&tree, &stored.seen(), "settled");
}
