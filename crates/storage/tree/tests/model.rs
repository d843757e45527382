//! Random merges, cuts and bulk loads against a `BTreeMap`; after each, every page is right and accounted for.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::ops::Range;
use std::sync::Arc;

use common::{
    Changes, Model, STAMP, Workload, apply_to, assert_holds, create, create_with, cut, cut_model, cut_ranges,
    merge, merge_all, open_with,
};
use seawall_simulation::{SeededRandom, SimulatedDisk, seeds};

#[test]
fn random_chunks_leave_what_a_map_holds() {
    random_chunks(1);
}

#[test]
fn random_chunks_by_three_threads_leave_what_a_map_holds() {
    random_chunks(3);
}

fn random_chunks(threads: usize) {
    for seed in seeds(24) {
        let disk = SimulatedDisk::new(seed);
        let page_bytes = [4096, 4096, 8192][usize::try_from(seed % 3).unwrap()];
        let mut tree = Arc::new(create_with(&disk, page_bytes, threads));
        let mut model = Model::new();
        let mut work = Workload {
            random: SeededRandom::new(seed),
            key_space: [300, 3_000, 100_000][usize::try_from(seed / 3 % 3).unwrap()],
            long_keys: seed % 2 == 0,
            max_key_bytes: tree.max_key_bytes(),
        };
        for round in 0..12 {
            let context = format!("seed {seed}, round {round}");
            match work.random.below(10) {
                0 | 1 => {
                    let ranges = random_ranges(&mut work);
                    for range in &ranges {
                        cut_model(&mut model, &range.start, &range.end);
                    }
                    let freed_pages_max = [1, 10, 10_000][work.random.index(3)];
                    let budget_bytes = [1, 30_000, u64::MAX][work.random.index(3)];
                    cut_ranges(&tree, ranges, freed_pages_max, budget_bytes).unwrap();
                }
                2 => load_a_range(&tree, &mut model, &mut work),
                _ => {
                    let (count, deletes) = (work.random.below(1_500), work.random.below(10));
                    let changes = work.changes(count, deletes);
                    let budget_bytes = [1, 30_000, 1 << 30][work.random.index(3)];
                    let budget_bytes = if count > 200 { budget_bytes.max(30_000) } else { budget_bytes };
                    merge(&tree, &changes, budget_bytes).unwrap();
                    apply_to(&mut model, &changes);
                }
            }
            assert_holds(&tree, &model, &context);
            if work.random.chance(1, 4) {
                drop(tree);
                tree = Arc::new(open_with(&disk, threads));
            }
        }
        let everything = [0xFF; 9];
        cut(&tree, &[], &everything, u64::MAX).unwrap();
        let summary = assert_holds(&tree, &Model::new(), &format!("seed {seed}, everything cut"));
        assert_eq!(summary.pages - summary.space_map_pages, 1, "the root alone is left");
    }
}

/// Ranges to be cut in ascending order; some are empty, some neighbours.
fn random_ranges(work: &mut Workload) -> Vec<Range<Vec<u8>>> {
    let count = if work.random.chance(1, 2) { 1 } else { 1 + work.random.index(12) };
    let mut keys: Vec<Vec<u8>> = (0..count * 2).map(|_| work.key()).collect();
    keys.sort();
    for pair in 1..count {
        if work.random.chance(1, 4) {
            keys[pair * 2] = keys[pair * 2 - 1].clone();
        }
    }
    keys.chunks(2).map(|pair| pair[0].clone()..pair[1].clone()).collect()
}

/// Cuts a range and loads rows into it, as a table that is truncated and loaded again.
fn load_a_range(tree: &Arc<seawall_tree::Tree>, model: &mut Model, work: &mut Workload) {
    let (mut from, mut to) = (work.key(), work.key());
    if from >= to {
        std::mem::swap(&mut from, &mut to);
    }
    if from == to {
        return;
    }
    cut(tree, &from, &to, u64::MAX).unwrap();
    cut_model(model, &from, &to);
    let (count, space) = (work.random.below(3_000), work.key_space);
    work.key_space *= 10;
    let rows: Changes =
        work.changes(count, 0).into_iter().filter(|(key, _)| from <= *key && *key < to).collect();
    work.key_space = space;
    let mut loader = tree.bulk_loader(&from, &to, STAMP);
    for (key, value) in &rows {
        loader.push(key, value.as_ref().unwrap()).unwrap();
    }
    if work.random.chance(1, 4) {
        return;
    }
    // A checkpoint in the middle of a load does not see its pages.
    if work.random.chance(1, 2) {
        let changes = [(vec![1; 9], Some(vec![2; 300]))].into_iter().collect();
        merge(tree, &changes, u64::MAX).unwrap();
        apply_to(model, &changes);
        // A row that came into the range meanwhile gives way.
        cut_model(model, &from, &to);
    }
    let plan = loader.graft(STAMP).unwrap();
    tree.apply_chunk(plan, None).unwrap();
    apply_to(model, &rows);
}

#[test]
fn deleting_everything_leaves_one_empty_leaf_and_no_other_page() {
    for seed in seeds(6) {
        let disk = SimulatedDisk::new(seed);
        let tree = create_with(&disk, 4096, if seed % 3 == 2 { 3 } else { 1 });
        let max_key_bytes = tree.max_key_bytes();
        let random = SeededRandom::new(seed);
        let mut work = Workload { random, key_space: 20_000, long_keys: seed % 2 == 1, max_key_bytes };
        let changes = work.changes(6_000, 0);
        merge(&tree, &changes, 200_000).unwrap();
        let deletes: Changes = changes.into_keys().map(|key| (key, None)).collect();
        let deletes_in_order = deletes.into_iter();
        // Every second one first, so that joins are needed on the way.
        let (first, second): (Vec<_>, Vec<_>) =
            deletes_in_order.enumerate().partition(|(index, _)| index % 2 == 0);
        for part in [first, second] {
            let part: Changes = part.into_iter().map(|(_, change)| change).collect();
            merge(&tree, &part, 100_000).unwrap();
            common::check(&tree);
        }
        let summary = assert_holds(&tree, &Model::new(), &format!("seed {seed}"));
        assert_eq!((summary.depth, summary.leaves, summary.interiors, summary.overflow_pages), (1, 1, 0, 0));
    }
}

#[test]
fn many_ranges_are_cut_in_one_chunk_and_in_few_if_the_budget_is_small() {
    let disk = SimulatedDisk::new(1);
    let row = |table: u64, number: u64| [table.to_be_bytes(), number.to_be_bytes()].concat();
    let all: Changes = (0..400)
        .flat_map(|table| (0..30).map(move |number| (row(table, number), Some(vec![3; 100]))))
        .collect();
    // Every second table, so that nearly every leaf is one on a border; then what is left.
    for budget_bytes in [u64::MAX, 200_000] {
        let tree = create(&disk.copy(), 4096);
        merge(&tree, &all, u64::MAX).unwrap();
        let ranges =
            |odd| (0..200_u64).map(move |pair| row(pair * 2 + odd, 0)..row(pair * 2 + odd + 1, 0)).collect();
        let chunks = cut_ranges(&tree, ranges(0), u64::MAX, budget_bytes).unwrap();
        assert!(
            if budget_bytes == u64::MAX { chunks == 1 } else { (3..20).contains(&chunks) },
            "{chunks} chunks"
        );
        let mut left = Model::new();
        apply_to(&mut left, &all);
        left.retain(|key, _| key[7] % 2 == 1);
        assert_holds(&tree, &left, "every second table cut");
        assert_eq!(cut_ranges(&tree, ranges(1), u64::MAX, u64::MAX).unwrap(), 1);
        let summary = assert_holds(&tree, &Model::new(), "all tables cut");
        assert_eq!(summary.leaves, 1);
    }
}

#[test]
fn rows_added_at_the_end_fill_their_leaves() {
    let disk = SimulatedDisk::new(1);
    let tree = create(&disk, 8192);
    for chunk in 0..40_u64 {
        let changes: Changes = (chunk * 500..chunk * 500 + 500)
            .map(|number| (number.to_be_bytes().to_vec(), Some(vec![7; 100])))
            .collect();
        merge(&tree, &changes, u64::MAX).unwrap();
    }
    let summary = common::check(&tree);
    let fill = summary.leaf_bytes * 100 / (summary.leaves * 8192);
    assert!(fill >= 95, "leaves are {fill}% full");
}

#[test]
fn changes_that_make_no_difference_write_nothing() {
    let disk = SimulatedDisk::new(1);
    let tree = create(&disk, 4096);
    let random = SeededRandom::new(5);
    let mut work = Workload { random, key_space: 5_000, long_keys: false, max_key_bytes: 100 };
    let changes: Changes =
        work.changes(3_000, 0).into_iter().filter(|(_, value)| value.as_ref().unwrap().len() < 900).collect();
    merge(&tree, &changes, u64::MAX).unwrap();
    let mut again = common::Source::new(&changes);
    let plan = tree.merge_chunk(&mut again, u64::MAX, STAMP).unwrap();
    assert!(plan.is_empty(), "{:?}", plan.statistics());
    let missing: Changes = (0..500_u64).map(|number| (vec![9, number.to_be_bytes()[7]], None)).collect();
    let plan = tree.merge_chunk(&mut common::Source::new(&missing), u64::MAX, STAMP).unwrap();
    assert!(plan.is_empty());
}

#[test]
fn replaced_values_are_handed_over_once_each() {
    replaced_values(1);
}

#[test]
fn replaced_values_are_handed_over_once_each_by_three_threads() {
    replaced_values(3);
}

fn replaced_values(threads: usize) {
    let disk = SimulatedDisk::new(1);
    let tree = create_with(&disk, 4096, threads);
    let random = SeededRandom::new(3);
    let mut work =
        Workload { random, key_space: 2_000, long_keys: true, max_key_bytes: tree.max_key_bytes() };
    let mut model = Model::new();
    for _ in 0..4 {
        let changes = work.changes(1_000, 3);
        let mut source = common::Source::new(&changes);
        source.keep = true;
        let (_, parts) = merge_all(&tree, source, 50_000).unwrap();
        assert_eq!(parts.len() > 1, threads > 1, "parts for {threads} threads");
        let replaced: Vec<_> = parts.into_iter().flat_map(|part| part.replaced).collect();
        let expected: Vec<_> = changes.keys().map(|key| (key.clone(), model.get(key).cloned())).collect();
        assert_eq!(replaced, expected);
        apply_to(&mut model, &changes);
    }
}

#[test]
fn each_thread_takes_up_a_part() {
    let disk = SimulatedDisk::new(1);
    let tree = create_with(&disk, 4096, 3);
    let rows = |value: u8| -> Changes {
        (0..20_000_u64).map(|key| (key.to_be_bytes().to_vec(), Some(vec![value; 50]))).collect()
    };
    // An empty tree has no borders between parts: the first chunk makes them, from some changes of each part.
    let mut first = tree.begin_merge(common::Source::new(&rows(1))).unwrap();
    let plan = tree.continue_merge(&mut first, u64::MAX, STAMP).unwrap();
    tree.apply_chunk(plan, None).unwrap();
    let taken: Vec<usize> = first.parts().iter().map(common::Source::taken).collect();
    assert!(taken.len() == 24 && taken.iter().all(|taken| (100..800).contains(taken)), "{taken:?}");
    while !first.is_done() {
        let plan = tree.continue_merge(&mut first, 100_000, STAMP).unwrap();
        tree.apply_chunk(plan, None).unwrap();
    }
    // Now there are some, and each thread takes a change however small the budget.
    let mut second = tree.begin_merge(common::Source::new(&rows(2))).unwrap();
    let plan = tree.continue_merge(&mut second, 1, STAMP).unwrap();
    tree.apply_chunk(plan, None).unwrap();
    let busy = second.parts().iter().filter(|part| part.taken() > 0).count();
    assert_eq!(busy, 3, "parts that a thread took up");
    while !second.is_done() {
        let plan = tree.continue_merge(&mut second, 100_000, STAMP).unwrap();
        tree.apply_chunk(plan, None).unwrap();
    }
    let expected: Model = rows(2).into_iter().map(|(key, value)| (key, value.unwrap())).collect();
    assert_holds(&tree, &expected, "after both");
}

/// A leaf that holds keys below the first change must not make a part begin there: the source may have no right to what
/// is below, as a merge of users' rows has none to the system's.
#[test]
fn no_part_begins_before_the_first_change() {
    let disk = SimulatedDisk::new(1);
    let tree = create_with(&disk, 4096, 3);
    let row = |key: u64| (key.to_be_bytes().to_vec(), Some(vec![7; 50]));
    merge(&tree, &(0..2_000).map(row).collect(), u64::MAX).unwrap();
    for first in (100..200).step_by(7) {
        let changes: Changes = (first..first + 30).map(row).collect();
        // The source asserts it.
        let parts = tree.begin_merge(common::Source::new(&changes)).unwrap();
        assert!(parts.parts().len() > 20);
    }
}

#[test]
fn a_chunk_stays_near_its_budget() {
    let disk = SimulatedDisk::new(1);
    let tree = create(&disk, 4096);
    let random = SeededRandom::new(3);
    let mut work = Workload { random, key_space: 100_000, long_keys: false, max_key_bytes: 100 };
    for round in 0..6 {
        let mut source = common::Source::new(&work.changes(3_000, round));
        while seawall_tree::MergeSource::peek(&source).is_some() {
            let plan = tree.merge_chunk(&mut source, 100_000, STAMP).unwrap();
            let statistics = plan.statistics();
            // The spine, some leaves gathered, and one value of 60 kB.
            let bytes = (statistics.fresh_pages + statistics.protected_pages) * 4096;
            assert!(bytes < 100_000 + 64_000 + 24 * 4096, "{statistics:?}");
            tree.apply_chunk(plan, None).unwrap();
        }
    }
}

#[test]
fn keys_that_no_page_holds_are_refused_and_change_nothing() {
    let disk = SimulatedDisk::new(1);
    let tree = create(&disk, 4096);
    let max_key_bytes = tree.max_key_bytes();
    let changes: Changes =
        [(vec![1; max_key_bytes], Some(vec![1; 3_000])), (vec![2; max_key_bytes + 1], Some(vec![]))].into();
    let error = merge(&tree, &changes, u64::MAX).unwrap_err();
    assert!(matches!(error, seawall_tree::TreeError::KeyTooLong { .. }), "{error}");
    assert_holds(&tree, &Model::new(), "after a refusal");
    let changes: Changes = [(vec![1; max_key_bytes], Some(vec![1; 3_000]))].into();
    merge(&tree, &changes, u64::MAX).unwrap();
    assert_holds(&tree, &[(vec![1; max_key_bytes], vec![1; 3_000])].into(), "after a good merge");
}
