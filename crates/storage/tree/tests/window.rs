//! Windows over runs against a model of versions, and with power lost at every call.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use common::runs::{LIST, STAMP, Stored, everything, settle, slice, stored_run};
use common::{Changes, Model, Workload, apply_to, create, lose_power_everywhere, merge, open};
use seawall_simulation::{SeededRandom, SimulatedDisk, seeds};
use seawall_testing::SetWhenDropped;
use seawall_tree::{Direction, RunRow, StoredRun, Tree, TreeError};
use seawall_types::Lsn;

fn workload(seed: u64, tree: &Tree) -> Workload {
    Workload {
        random: SeededRandom::new(seed),
        key_space: [200, 2_000, 20_000][usize::try_from(seed % 3).unwrap()],
        long_keys: seed % 4 == 1,
        max_key_bytes: tree.max_key_bytes() - 8,
    }
}

fn random_window(work: &mut Workload) -> Range<Vec<u8>> {
    let (one, other) = (work.key(), work.key());
    match work.random.below(8) {
        0 => everything(),
        1 => Vec::new()..one.max(vec![1]),
        2 => one..LIST.to_be_bytes().to_vec(),
        _ if one == other => everything(),
        _ => one.clone().min(other.clone())..one.max(other),
    }
}

#[test]
fn windows_take_what_is_oldest_and_change_nothing_that_is_seen() {
    for seed in seeds(30) {
        let disk = SimulatedDisk::new(seed);
        let page_bytes = [4096, 4096, 8192][usize::try_from(seed % 3).unwrap()];
        let mut tree = Arc::new(create(&disk, page_bytes));
        let mut stored = Stored::default();
        let mut work = workload(seed, &tree);
        for round in 0..14 {
            let context = format!("seed {seed}, round {round}");
            let seen = stored.seen();
            match work.random.below(5) {
                0 | 1 => {
                    let count = 1 + work.random.below(900);
                    let changes = work.changes(count, 3);
                    if stored.runs.is_empty() && work.random.chance(1, 2) {
                        merge(&tree, &changes, u64::MAX).unwrap();
                        apply_to(&mut stored.main, &changes);
                    } else {
                        stored.write_run(&tree, changes, STAMP);
                    }
                }
                2 if stored.runs.len() > 1 => merge_runs(&tree, &mut stored, &mut work, &context),
                _ => {
                    let range = random_window(&mut work);
                    let first = work.random.index(stored.runs.len() + 1);
                    // Changes go straight into a window only where no younger run has rows.
                    let changes = if first == 0 && work.random.chance(1, 2) {
                        let changes = work.changes(200, 3);
                        changes.into_iter().filter(|(key, _)| range.contains(key)).collect()
                    } else {
                        Changes::new()
                    };
                    window(&tree, &mut stored, &range, first, &changes);
                    let mut expected = seen;
                    apply_to(&mut expected, &changes);
                    assert_eq!(stored.seen(), expected, "{context}");
                }
            }
            stored.assert_stored(&tree, &context);
            stored.assert_segments(&tree, &context);
            if work.random.chance(1, 4) {
                drop(tree);
                tree = Arc::new(open(&disk));
            }
        }
        let seen = stored.seen();
        settle(&tree, &stored.stored_runs(), 50_000).unwrap();
        stored = Stored { main: seen, ..Stored::default() };
        stored.assert_stored(&tree, &format!("seed {seed}, settled"));
        settle(&tree, &[], 50_000).unwrap();
    }
}

fn window(tree: &Arc<Tree>, stored: &mut Stored, range: &Range<Vec<u8>>, first: usize, changes: &Changes) {
    let runs = stored.stored_runs();
    let mut source = common::Source::new(changes);
    let nothing_left = |run: &(u64, Changes)| !run.1.keys().any(|key| !range.contains(key));
    let expected: Vec<usize> = stored.runs[first..]
        .iter()
        .enumerate()
        .filter(|(_, run)| nothing_left(run))
        .map(|(index, _)| index)
        .collect();
    let merged =
        tree.merge_window(range.clone(), &runs[first..], Some(&mut source), &|_| false, STAMP).unwrap();
    assert_eq!(merged.emptied, expected);
    tree.apply_chunk(merged.chunk, None).unwrap();
    assert_eq!(source.taken(), changes.len());
    stored.merge_window(range, first, changes);
    assert_eq!(merged.rows, stored.main.range(range.clone()).count() as u64);
}

/// Neighbours in age become one run, slice by slice, or some slices of that. What is left then are runs like others.
fn merge_runs(tree: &Arc<Tree>, stored: &mut Stored, work: &mut Workload, context: &str) {
    let first = work.random.index(stored.runs.len() - 1);
    let end = first + 2 + work.random.index(stored.runs.len() - first - 1);
    let seen = stored.seen();
    let sources: Vec<u64> = stored.runs[first..end].iter().map(|(number, _)| *number).collect();
    let runs = stored.stored_runs()[first..end].to_vec();
    let number = stored.next_run;
    stored.next_run += 1;
    let budget_bytes = [1_000, 50_000, u64::MAX][work.random.index(3)];
    let (mut from, mut left) = (Some(Vec::new()), [1, 3, 200][work.random.index(3)]);
    while let Some(at) = from.take().filter(|_| left > 0) {
        let merged = slice(tree, (&runs, &stored_run(number)), &at, budget_bytes, STAMP).unwrap();
        tree.apply_chunk(merged.chunk, None).unwrap();
        stored.merge_slice(&sources, number, merged.next.as_deref());
        let emptied = |index: &usize| !stored.runs.iter().any(|(number, _)| *number == sources[*index]);
        assert_eq!(merged.emptied, (0..sources.len()).filter(emptied).collect::<Vec<usize>>(), "{context}");
        if left <= 3 {
            assert_eq!(stored.seen(), seen, "{context}");
            stored.assert_stored(tree, context);
        }
        from = merged.next;
        left -= 1;
    }
}

/// Threads build windows side by side, and one chunk swaps them in; what lies between them stays as it is.
#[test]
fn several_windows_go_into_one_chunk() {
    for seed in seeds(8) {
        let disk = SimulatedDisk::new(seed);
        let tree = Arc::new(create(&disk, 4096));
        let mut work = workload(seed, &tree);
        let mut stored = Stored::default();
        let first = work.changes(1_500, 0);
        merge(&tree, &first, u64::MAX).unwrap();
        apply_to(&mut stored.main, &first);
        for _ in 0..3 {
            let changes = work.changes(400, 2);
            stored.write_run(&tree, changes, STAMP);
        }
        let (seen, runs) = (stored.seen(), stored.stored_runs());
        let mut keys: Vec<Vec<u8>> = (0..6).map(|_| work.key()).collect();
        keys.sort();
        keys.dedup();
        // Every second time all of it, in neighbours.
        if seed % 2 == 0 {
            keys = vec![Vec::new(), keys[0].clone(), keys[0].clone(), everything().end];
        }
        let ranges: Vec<Range<Vec<u8>>> =
            keys.chunks_exact(2).map(|pair| pair[0].clone()..pair[1].clone()).collect();
        let windows = std::thread::scope(|scope| {
            let load = |range: &Range<Vec<u8>>| {
                let (tree, runs, range) = (&tree, &runs, range.clone());
                scope.spawn(move || tree.load_window(range, runs, None, &|_| false, STAMP).unwrap())
            };
            let threads: Vec<_> = ranges.iter().map(load).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let merged = tree.swap_windows(windows, &runs, STAMP).unwrap();
        assert_eq!(merged.emptied.len(), if seed % 2 == 0 { 3 } else { 0 });
        tree.apply_chunk(merged.chunk, None).unwrap();
        ranges.iter().for_each(|range| stored.merge_window(range, 0, &Changes::new()));
        assert_eq!(stored.seen(), seen);
        stored.assert_stored(&tree, &format!("seed {seed}"));
        stored.assert_segments(&tree, &format!("seed {seed}"));
    }
}

/// The value of a key as readers find it: in the newest run that says something about it, or in the tree, all in one version.
fn read(tree: &Tree, runs: &[StoredRun], key: &[u8]) -> Option<Vec<u8>> {
    'version: loop {
        let version = tree.version();
        for run in runs {
            let found = tree.pages().run_row_at(version, &run.key(key), |row| match row {
                RunRow::Absent => None,
                RunRow::Deleted => Some(None),
                RunRow::Value(value) => Some(Some(value.to_vec())),
            });
            match found.unwrap() {
                None => continue 'version,
                Some(None) => {}
                Some(Some(value)) => return value,
            }
        }
        if let Some(value) = tree.get_at(version, key, |value| value.map(<[u8]>::to_vec)).unwrap() {
            return value;
        }
    }
}

/// A window moves rows from runs to the tree: readers who look at one after the other miss none and see none that was deleted.
#[test]
fn readers_see_the_same_while_windows_are_merged() {
    for seed in seeds(4) {
        let tree = Arc::new(create(&SimulatedDisk::new(seed), 4096));
        let mut work = workload(seed, &tree);
        let mut stored = Stored::default();
        for _ in 0..4 {
            let changes = work.changes(800, 3);
            stored.write_run(&tree, changes, STAMP);
        }
        let (seen, runs) = (stored.seen(), stored.stored_runs());
        let keys: Vec<Vec<u8>> = stored.runs.iter().flat_map(|(_, rows)| rows.keys().cloned()).collect();
        let (is_done, reads) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|scope| {
            let read_on = |reader| {
                let (tree, runs, keys, seen, is_done, reads) = (&tree, &runs, &keys, &seen, &is_done, &reads);
                scope.spawn(move || {
                    let mut random = SeededRandom::new(reader);
                    while !is_done.load(Relaxed) {
                        let key = &keys[random.index(keys.len())];
                        assert_eq!(read(tree, runs, key).as_ref(), seen.get(key), "{}", key.escape_ascii());
                        reads.fetch_add(1, Relaxed);
                    }
                })
            };
            let readers = [0, 1].map(read_on);
            let _ended = SetWhenDropped(&is_done);
            let mut windows = 0;
            while !stored.runs.is_empty() {
                let range = if windows < 60 { random_window(&mut work) } else { everything() };
                let first = if windows < 60 { work.random.index(stored.runs.len()) } else { 0 };
                window(&tree, &mut stored, &range, first, &Changes::new());
                windows += 1;
            }
            let before = reads.load(Relaxed);
            let has_failed = || readers.iter().any(|reader| reader.is_finished());
            while reads.load(Relaxed) < before + 1_000 && !has_failed() {
                std::thread::yield_now();
            }
        });
        assert_eq!(stored.seen(), seen);
    }
}

/// A window that is given up leaves nothing behind.
#[test]
fn a_window_that_is_not_swapped_in_changes_nothing() {
    let disk = SimulatedDisk::new(8);
    let stored = sample(&disk);
    let tree = Arc::new(open(&disk));
    let loaded = tree.load_window(everything(), &stored.stored_runs(), None, &|_| false, STAMP).unwrap();
    drop(loaded);
    stored.assert_stored(&tree, "a window was built and given up");
    let loaded = tree.load_window(everything(), &stored.stored_runs(), None, &|_| false, STAMP).unwrap();
    drop(tree.swap_windows(vec![loaded], &stored.stored_runs(), STAMP).unwrap());
    let nothing = tree.swap(Vec::new(), &[], STAMP).unwrap();
    assert!(nothing.is_empty());
    stored.assert_stored(&tree, "a plan was given up");
}

/// Old snapshots get the values that a window replaces, as those that a merge in place replaces.
#[test]
fn replaced_values_are_handed_over_once_each() {
    let disk = SimulatedDisk::new(1);
    let tree = Arc::new(create(&disk, 4096));
    let mut work = workload(4, &tree);
    let mut model = Model::new();
    for _ in 0..4 {
        let changes = work.changes(900, 3);
        let mut source = common::Source::new(&changes);
        source.keep = true;
        let merged = tree.merge_window(everything(), &[], Some(&mut source), &|_| false, STAMP).unwrap();
        tree.apply_chunk(merged.chunk, None).unwrap();
        let expected: Vec<_> = changes.keys().map(|key| (key.clone(), model.get(key).cloned())).collect();
        assert_eq!(source.replaced, expected);
        apply_to(&mut model, &changes);
        common::assert_holds(&tree, &model, "after a window");
    }
}

#[test]
fn rows_that_are_to_be_skipped_go_with_their_values() {
    let disk = SimulatedDisk::new(1);
    let tree = Arc::new(create(&disk, 4096));
    let mut work = workload(5, &tree);
    let mut stored = Stored::default();
    let first = work.changes(1_500, 0);
    merge(&tree, &first, u64::MAX).unwrap();
    apply_to(&mut stored.main, &first);
    for _ in 0..3 {
        let changes = work.changes(500, 2);
        stored.write_run(&tree, changes, STAMP);
    }
    // Those of one table.
    let is_skipped = |key: &[u8]| key[..8] == 1_u64.to_be_bytes();
    let runs = stored.stored_runs();
    let merged = tree.merge_window(everything(), &runs, None, &is_skipped, STAMP).unwrap();
    tree.apply_chunk(merged.chunk, None).unwrap();
    let mut left = stored.seen();
    left.retain(|key, _| !is_skipped(key));
    common::assert_holds(&tree, &left, "without a table");
}

#[test]
fn a_slice_leaves_out_what_is_to_be_skipped_with_its_values() {
    let disk = SimulatedDisk::new(1);
    let tree = Arc::new(create(&disk, 4096));
    let mut work = workload(5, &tree);
    let mut stored = Stored::default();
    for _ in 0..3 {
        let changes = work.changes(500, 2);
        stored.write_run(&tree, changes, STAMP);
    }
    let is_skipped = |key: &[u8]| key[..8] == 1_u64.to_be_bytes();
    let (runs, target) = (stored.stored_runs(), stored_run(3));
    let (mut from, mut rows, mut deletions) = (Some(Vec::new()), 0, 0);
    while let Some(at) = from {
        let slice = tree.load_slice((&runs, &target), &at, 0, &is_skipped, &mut |_| Ok(()), STAMP).unwrap();
        (rows, deletions) = (rows + slice.rows, deletions + slice.deletions);
        let listed = (rows > 0).then(|| vec![1; 88]);
        let merged = tree.swap_slice(slice, (&runs, &target), listed, None, STAMP).unwrap();
        from = merged.next;
        tree.apply_chunk(merged.chunk, None).unwrap();
        common::check(&tree);
    }
    stored.merge_slice(&[0, 1, 2], 3, None);
    stored.runs[0].1.retain(|key, _| !is_skipped(key));
    stored.assert_contents(&tree, "without a table");
    let left = &stored.runs[0].1;
    assert_eq!(rows, left.len() as u64);
    assert_eq!(deletions, left.values().filter(|value| value.is_none()).count() as u64);
}

/// Leaves have the stamp of what changed among their rows: of a window whose rows are old nearly all leaves stay old. Where a level-1 page was
/// made anew, or between two of them, a leaf may have a newer one.
#[test]
fn leaves_keep_the_stamps_of_their_rows() {
    let disk = SimulatedDisk::new(1);
    let tree = Arc::new(create(&disk, 4096));
    let row =
        |number: u64, byte: u8| ([64_u64.to_be_bytes(), number.to_be_bytes()].concat(), Some(vec![byte; 80]));
    let mut stored = Stored::default();
    let mut load = tree.bulk_loader(&row(0, 0).0, &row(1 << 40, 0).0, Lsn::new(10));
    for number in 0..40_000 {
        load.push(&row(number * 2, 1).0, &[1; 80]).unwrap();
    }
    tree.apply_chunk(load.graft(Lsn::new(10)).unwrap(), None).unwrap();
    stored.write_run(&tree, (20_000..20_100).map(|number| row(number * 2 + 1, 2)).collect(), Lsn::new(20));
    stored.write_run(&tree, [(row(6_000, 0).0, None)].into(), Lsn::new(30));
    let runs = stored.stored_runs();
    let merged = tree.merge_window(everything(), &runs, None, &|_| false, Lsn::new(40)).unwrap();
    tree.apply_chunk(merged.chunk, None).unwrap();
    let mut position = tree.leaf_for(&[], Direction::Forward).unwrap();
    let (mut leaves, mut newer, mut exact) = (0, 0, std::collections::BTreeMap::<u64, u64>::new());
    loop {
        let leaf = position.leaf();
        let stamp = position.page().view().lsn().get();
        let has = |from: u64, to: u64| {
            leaf.compare(0, &row(to, 0).0).is_le() && leaf.compare(leaf.len() - 1, &row(from, 0).0).is_ge()
        };
        let expected = match () {
            () if has(6_000, 6_000) => 30,
            () if has(40_001, 40_199) => 20,
            () => 10,
        };
        assert!(stamp >= expected, "{stamp}, not {expected}");
        leaves += 1;
        newer += u64::from(stamp > expected);
        *exact.entry(stamp).or_default() += u64::from(stamp == expected);
        if !tree.move_on(&mut position, Direction::Forward).unwrap() {
            break;
        }
    }
    assert!(leaves > 800 && newer < leaves / 4, "{newer} of {leaves} are newer than their rows");
    assert!(exact[&10] > leaves / 4 * 3 && exact[&20] >= 2 && exact[&30] == 1, "{exact:?}");
}

/// A row in the wrong place is found, and nothing is merged.
#[test]
fn a_damaged_leaf_stops_a_window_and_changes_nothing() {
    let disk = SimulatedDisk::new(1);
    let tree = Arc::new(create(&disk, 4096));
    let mut work = workload(2, &tree);
    let mut stored = Stored::default();
    for _ in 0..3 {
        let changes = work.changes(1_500, 1);
        stored.write_run(&tree, changes, STAMP);
    }
    let leaf = tree.leaf_for(&stored_run(1).key(&work.key()), Direction::Forward).unwrap();
    drop(tree);
    let damaged = disk.copy();
    damaged.flip_bit(seawall_tree::PAGE_FILE_PATH, leaf.page().view().id().get() * 4096 + 900, 2);
    let tree = Arc::new(open(&damaged));
    let refused =
        tree.merge_window(everything(), &stored.stored_runs(), None, &|_| false, STAMP).unwrap_err();
    assert!(matches!(refused, TreeError::Page { .. }), "{refused}");
    let refused = settle(&tree, &stored.stored_runs(), 10_000).unwrap_err();
    assert!(matches!(refused, TreeError::Page { .. }), "{refused}");
}

/// A tree with two runs, some of whose values are long, and what it holds.
fn sample(disk: &SimulatedDisk) -> Stored {
    let tree = Arc::new(create(disk, 4096));
    let mut stored = Stored::default();
    let change = |number: u64, seed: u64| {
        let key = [64_u64.to_be_bytes(), number.to_be_bytes()].concat();
        let bytes = if number % 37 == 5 { 6_000 } else { 100 };
        let value = vec![u8::try_from((number + seed) % 250).unwrap(); bytes];
        (key, (!(number + seed).is_multiple_of(5)).then_some(value))
    };
    let first: Changes = (0..400).map(|number| (change(number, 1).0, Some(vec![3; 150]))).collect();
    merge(&tree, &first, u64::MAX).unwrap();
    apply_to(&mut stored.main, &first);
    stored.write_run(&tree, (0..400).step_by(3).map(|number| change(number, 2)).collect(), STAMP);
    stored.write_run(&tree, (100..500).step_by(4).map(|number| change(number, 3)).collect(), STAMP);
    stored
}

#[test]
fn a_window_is_there_whole_or_not_at_all() {
    let disk = SimulatedDisk::new(5);
    let before = sample(&disk);
    let key = |number: u64| [64_u64.to_be_bytes(), number.to_be_bytes()].concat();
    let range = key(90)..key(260);
    let mut after = before.clone();
    after.merge_window(&range, 0, &Changes::new());
    let step = |disk: &SimulatedDisk| {
        let result = || -> Result<(), TreeError> {
            let opened = Tree::open(disk, seawall_tree::TreeAccess::Write, common::options())?;
            let tree = Arc::new(opened.tree);
            let merged = tree.merge_window(range.clone(), &before.stored_runs(), None, &|_| false, STAMP)?;
            tree.apply_chunk(merged.chunk, None)?;
            Ok(())
        };
        drop(result());
    };
    lose_power_everywhere(&disk, step, |disk, is_done, context| {
        let tree = open(&disk);
        let found: Model = before
            .main
            .keys()
            .chain(after.main.keys())
            .filter_map(|key| Some((key.clone(), tree.get(key).unwrap()?)))
            .collect();
        let state = if found == after.main { &after } else { &before };
        assert!(!is_done || found == after.main, "{context}");
        state.assert_stored(&tree, context);
        assert_eq!(state.seen(), before.seen(), "{context}");
    });
}

#[test]
fn runs_that_are_being_settled_lose_nothing_and_the_next_one_goes_on() {
    let disk = SimulatedDisk::new(6);
    let before = sample(&disk);
    let settle_all = |disk: &SimulatedDisk| -> Result<(), TreeError> {
        let opened = Tree::open(disk, seawall_tree::TreeAccess::Write, common::options())?;
        settle(&Arc::new(opened.tree), &before.stored_runs(), 4096)
    };
    let seen = before.seen();
    lose_power_everywhere(
        &disk,
        |disk| drop(settle_all(disk)),
        |disk, is_done, context| {
            if !is_done {
                settle_all(&disk).unwrap();
            }
            common::assert_holds(&open(&disk), &seen, context);
        },
    );
}

/// Runs become one in two slices and more, with power lost at every call, and once more at every call of what goes on after that.
#[test]
fn a_slice_is_there_whole_or_not_at_all() {
    let disk = SimulatedDisk::new(9);
    let before = sample(&disk);
    let (sources, target) = (vec![1, 0], stored_run(2));
    // A slice, from where the tree says that the last one ended.
    let step = |disk: &SimulatedDisk| -> Result<(), TreeError> {
        let opened = Tree::open(disk, seawall_tree::TreeAccess::Write, common::options())?;
        let tree = Arc::new(opened.tree);
        let mut from = Some(Vec::new());
        while let Some(at) = from {
            let merged = slice(&tree, (&before.stored_runs(), &target), &at, 9_000, STAMP)?;
            tree.apply_chunk(merged.chunk, None)?;
            from = merged.next;
        }
        Ok(())
    };
    // What there is after each slice.
    let mut states = vec![before.clone()];
    {
        let disk = disk.copy();
        let tree = Arc::new(open(&disk));
        let mut from = Some(Vec::new());
        while let Some(at) = from {
            let merged = slice(&tree, (&before.stored_runs(), &target), &at, 9_000, STAMP).unwrap();
            tree.apply_chunk(merged.chunk, None).unwrap();
            from = merged.next.clone();
            let mut state = states.last().unwrap().clone();
            state.merge_slice(&sources, 2, from.as_deref());
            state.assert_stored(&tree, "after a slice");
            state.assert_segments(&tree, "after a slice");
            states.push(state);
        }
    }
    assert!(states.len() > 3, "{} states", states.len());
    lose_power_everywhere(
        &disk,
        |disk| drop(step(disk)),
        |disk, is_done, context| {
            let tree = Arc::new(open(&disk));
            let found = common::contents(&tree);
            let is_this = |state: &&Stored| {
                state.runs.iter().all(|(number, rows)| {
                    let (from, to) = (stored_run(*number).key(&[]), stored_run(number + 1).key(&[]));
                    found.range(from..to).map(|(key, _)| &key[8..]).eq(rows.keys().map(|key| &key[..]))
                })
            };
            let state =
                states.iter().rev().find(is_this).unwrap_or_else(|| panic!("{context}: no such state"));
            assert!(!is_done || state.runs.len() == 1, "{context}");
            state.assert_stored(&tree, context);
            state.assert_segments(&tree, context);
            assert_eq!(state.seen(), before.seen(), "{context}");
            // What is left are runs like others: a window takes them all.
            let merged =
                tree.merge_window(everything(), &state.stored_runs(), None, &|_| false, STAMP).unwrap();
            tree.apply_chunk(merged.chunk, None).unwrap();
            common::assert_holds(&tree, &before.seen(), context);
        },
    );
}

/// A power loss between two slices, of which the second one may be under way: what goes on from there with new slices loses nothing, wherever
/// the power goes once more.
#[test]
fn slices_that_follow_a_power_loss_lose_nothing() {
    let first = SimulatedDisk::new(10);
    let before = sample(&first);
    {
        let tree = Arc::new(open(&first));
        let merged = slice(&tree, (&before.stored_runs(), &stored_run(2)), &[], 9_000, STAMP).unwrap();
        assert!(merged.next.is_some() && merged.emptied.is_empty());
        tree.apply_chunk(merged.chunk, None).unwrap();
    }
    // In the order in which an engine has them: the target behind the newest of the runs that it is made of.
    let left = [stored_run(1), stored_run(2), stored_run(0)];
    let all_of_them = |disk: &SimulatedDisk| -> Result<(), TreeError> {
        let opened = Tree::open(disk, seawall_tree::TreeAccess::Write, common::options())?;
        let tree = Arc::new(opened.tree);
        let mut from = Some(Vec::new());
        while let Some(at) = from {
            let merged = slice(&tree, (&left, &stored_run(3)), &at, 20_000, STAMP)?;
            tree.apply_chunk(merged.chunk, None)?;
            from = merged.next;
        }
        Ok(())
    };
    let seen = before.seen();
    lose_power_everywhere(
        &first,
        |disk| drop(all_of_them(disk)),
        |disk, _, context| {
            let tree = Arc::new(open(&disk));
            let all = [stored_run(1), stored_run(3), stored_run(2), stored_run(0)];
            let merged = tree.merge_window(everything(), &all, None, &|_| false, STAMP).unwrap();
            tree.apply_chunk(merged.chunk, None).unwrap();
            common::assert_holds(&tree, &seen, context);
        },
    );
}
