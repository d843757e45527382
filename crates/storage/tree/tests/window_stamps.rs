//! Stamps of leaves tell what has changed among their rows, whatever merges, cuts and windows came in which order. Whoever asks for the changes
//! since a time goes by them: a leaf that is no newer has exactly the rows of that time between its first and its last one.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use common::runs::{Stored, everything, slice, stored_run};
use common::{Changes, Source, Workload, apply_to, create, open};
use seawall_simulation::{SeededRandom, SimulatedDisk, seeds};
use seawall_tree::{Direction, Tree};
use seawall_types::Lsn;

type Stamps = BTreeMap<Vec<u8>, Lsn>;

/// The last change of each key, deletions included.
#[derive(Default)]
struct History {
    stored: Stored,
    /// Of the main part.
    main: Stamps,
    /// Of the rows of each run.
    runs: BTreeMap<u64, Stamps>,
    now: u64,
}

impl History {
    fn tick(&mut self) -> Lsn {
        self.now += 10;
        Lsn::new(self.now)
    }

    /// Changes that go straight into the main part.
    fn change(&mut self, changes: &Changes, stamp: Lsn) {
        for (key, value) in changes {
            if self.stored.main.get(key) != value.as_ref() {
                self.main.insert(key.clone(), stamp);
            }
        }
        apply_to(&mut self.stored.main, changes);
    }

    fn merge(&mut self, tree: &Tree, changes: &Changes) {
        let stamp = self.tick();
        let mut merge = tree.begin_merge(Source::new(changes)).unwrap();
        while !merge.is_done() {
            let plan = tree.continue_merge(&mut merge, 40_000, stamp).unwrap();
            tree.apply_chunk(plan, None).unwrap();
        }
        self.change(changes, stamp);
    }

    fn write_run(&mut self, tree: &Arc<Tree>, changes: Changes) {
        let stamp = self.tick();
        self.runs.insert(self.stored.next_run, changes.keys().map(|key| (key.clone(), stamp)).collect());
        self.stored.write_run(tree, changes, stamp);
    }

    /// Drops a range: out of the main part and out of all runs.
    fn cut(&mut self, tree: &Tree, range: &Range<Vec<u8>>) {
        let stamp = self.tick();
        let mut ranges = vec![range.clone()];
        for (number, rows) in &mut self.stored.runs {
            rows.retain(|key, _| !range.contains(key));
            let run = stored_run(*number);
            ranges.push(run.key(&range.start)..run.key(&range.end));
        }
        ranges.sort_by(|one, other| one.start.cmp(&other.start));
        let plan = tree.cut(&ranges, u64::MAX, u64::MAX, stamp).unwrap();
        assert!(plan.rest.is_empty());
        tree.apply_chunk(plan.chunk, None).unwrap();
        let gone: Changes =
            self.stored.main.range(range.clone()).map(|(key, _)| (key.clone(), None)).collect();
        self.change(&gone, stamp);
    }

    /// What windows over the runs from index `first` on bring into the main part, and `skipped` rows, which go now.
    fn window(
        &mut self,
        range: &Range<Vec<u8>>,
        first: usize,
        changes: &Changes,
        stamp: Lsn,
        skipped: &BTreeSet<u64>,
    ) {
        for (number, rows) in self.stored.runs[first..].iter().rev() {
            let stamps = &self.runs[number];
            for key in rows.range(range.clone()).map(|(key, _)| key) {
                let stamp = stamps[key].max(self.main.get(key).copied().unwrap_or_default());
                self.main.insert(key.clone(), stamp);
            }
        }
        self.stored.merge_window(range, first, &Changes::new());
        self.change(changes, stamp);
        let is_skipped = |key: &[u8]| skipped.contains(&u64::from_be_bytes(key[..8].try_into().unwrap()));
        let gone = self.stored.main.range(range.clone()).filter(|(key, _)| is_skipped(key));
        let gone: Changes = gone.map(|(key, _)| (key.clone(), None)).collect();
        self.change(&gone, stamp);
    }

    /// Each change shows: by the leaf among whose rows it lies, or by the page above if it lies between two of its leaves.
    fn assert_shows(&self, tree: &Tree, context: &str) {
        let end = everything().end;
        let mut position = tree.leaf_for(&[], Direction::Forward).unwrap();
        let mut before: Option<(Vec<u8>, seawall_tree::ParentPage)> = None;
        loop {
            let leaf = position.leaf();
            let rows = leaf.search(&end).unwrap_or_else(|above| above);
            if rows > 0 {
                let (first, last) = (leaf.key(0).to_vec(), leaf.key(rows - 1).to_vec());
                let stamp = position.page().view().lsn();
                for (key, changed) in self.main.range(first.clone()..=last.clone()) {
                    let shown = format!(
                        "{stamp}, {:?} to {:?}",
                        first.escape_ascii().to_string(),
                        last.escape_ascii().to_string()
                    );
                    assert!(
                        *changed <= stamp,
                        "{context}: {} changed at {changed}, its leaf {shown}",
                        key.escape_ascii()
                    );
                }
                if let Some((key, parent)) = &before
                    && position.parent().is_some_and(|own| own.id == parent.id)
                {
                    for (key, changed) in self.main.range(key.clone()..first) {
                        assert!(
                            *changed <= parent.lsn.max(stamp) || self.stored.main.contains_key(key),
                            "{context}: {} changed at {changed}, between leaves",
                            key.escape_ascii()
                        );
                    }
                }
                before = position.parent().map(|parent| (last, parent));
            }
            if rows < leaf.len() || !tree.move_on(&mut position, Direction::Forward).unwrap() {
                return;
            }
        }
    }
}

/// Rows side by side; mostly those of whole leaves, which leave no trace in the leaves around when they go.
fn neighbours(tree: &Tree, work: &mut Workload, history: &History) -> Range<Vec<u8>> {
    let main = &history.stored.main;
    let mut from = work.key();
    let rows = work.random.index(600);
    let mut end = main.range(from.clone()..).nth(rows).map_or(everything().end, |(key, _)| key.clone());
    if work.random.chance(3, 4) {
        let leaf_of = |key: &[u8]| tree.leaf_for(key, Direction::Forward).unwrap();
        from = leaf_of(&from).lower().unwrap_or_default().to_vec();
        let last = if work.random.chance(1, 2) { &from } else { &end };
        end = leaf_of(last).upper().map_or(everything().end, <[u8]>::to_vec).min(everything().end);
    }
    if from < end { from..end } else { everything() }
}

#[test]
fn a_change_shows_in_the_stamp_of_the_leaf_whose_rows_it_lies_among() {
    for seed in seeds(30) {
        let disk = SimulatedDisk::new(seed);
        let mut tree = Arc::new(create(&disk, 4096));
        let mut history = History { now: 100, ..History::default() };
        let mut work = Workload {
            random: SeededRandom::new(seed),
            key_space: [300, 3_000, 3_000, 20_000][usize::try_from(seed % 4).unwrap()],
            // With them a tree of as many rows has three levels.
            long_keys: seed % 2 == 1,
            max_key_bytes: tree.max_key_bytes() - 8,
        };
        let first = work.changes(3_000, 0);
        history.merge(&tree, &first);
        for round in 0..12 {
            let context = format!("seed {seed}, round {round}");
            step(&tree, &mut history, &mut work);
            history.assert_shows(&tree, &context);
            if round % 5 == 4 {
                history.stored.assert_stored(&tree, &context);
            }
            if work.random.chance(1, 5) {
                drop(tree);
                tree = Arc::new(open(&disk));
            }
        }
    }
}

fn step(tree: &Arc<Tree>, history: &mut History, work: &mut Workload) {
    let has_runs = !history.stored.runs.is_empty();
    match work.random.below(8) {
        0 if !has_runs => {
            let count = 1 + work.random.below(40);
            let changes = work.changes(count, 3);
            history.merge(tree, &changes);
        }
        0 | 1 if !has_runs => {
            let gone = neighbours(tree, work, history);
            let gone = history.stored.main.range(gone).map(|(key, _)| (key.clone(), None)).collect();
            history.merge(tree, &gone);
        }
        2 => {
            let gone = neighbours(tree, work, history);
            history.cut(tree, &gone);
        }
        3 if history.stored.runs.len() > 1 => merge_runs(tree, history, work),
        0 | 1 | 3 | 4 => {
            // Few rows, so that most leaves stay as old as they are; of one part of the keys, now and then.
            let count = 1 + work.random.below(60);
            let mut changes = work.changes(count, 4);
            if work.random.chance(2, 3) {
                let near = neighbours(tree, work, history);
                changes.retain(|key, _| near.contains(key));
                changes.insert(work.key(), None);
            }
            history.write_run(tree, changes);
        }
        _ => windows(tree, history, work),
    }
}

/// One window or two, whose bounds lie anywhere.
fn windows(tree: &Arc<Tree>, history: &mut History, work: &mut Workload) {
    let stamp = history.tick();
    let first = work.random.index(history.stored.runs.len() + 1);
    let mut ranges = vec![neighbours(tree, work, history)];
    let end = everything().end;
    if ranges[0].end < end && work.random.chance(1, 2) {
        ranges.push(ranges[0].end.clone()..end);
    }
    let changes = if first == 0 && work.random.chance(1, 3) { work.changes(30, 4) } else { Changes::new() };
    let skipped: BTreeSet<u64> =
        if work.random.chance(1, 5) { [work.random.below(3)].into() } else { BTreeSet::new() };
    let is_skipped = |key: &[u8]| skipped.contains(&u64::from_be_bytes(key[..8].try_into().unwrap()));
    let runs = history.stored.stored_runs();
    let mut windows = Vec::new();
    for range in &ranges {
        let own: Changes = changes
            .iter()
            .filter(|(key, _)| range.contains(*key))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        let mut source = Source::new(&own);
        windows.push(
            tree.load_window(range.clone(), &runs[first..], Some(&mut source), &is_skipped, stamp).unwrap(),
        );
        history.window(range, first, &own, stamp, &skipped);
    }
    let merged = tree.swap_windows(windows, &runs[first..], stamp).unwrap();
    tree.apply_chunk(merged.chunk, None).unwrap();
}

/// All runs become one, in a few slices.
fn merge_runs(tree: &Arc<Tree>, history: &mut History, work: &mut Workload) {
    let (runs, target) = (history.stored.stored_runs(), history.stored.next_run);
    history.stored.next_run += 1;
    let budget_bytes = [2_000, u64::MAX][work.random.index(2)];
    let mut from = Some(Vec::new());
    while let Some(at) = from {
        let stamp = history.tick();
        let merged = slice(tree, (&runs, &stored_run(target)), &at, budget_bytes, stamp).unwrap();
        tree.apply_chunk(merged.chunk, None).unwrap();
        from = merged.next;
    }
    let (mut rows, mut stamps) = (Changes::new(), Stamps::new());
    for (number, older) in history.stored.runs.drain(..).rev() {
        rows.extend(older);
        stamps.extend(history.runs.remove(&number).unwrap());
    }
    if !rows.is_empty() {
        history.stored.runs.push((target, rows));
        history.runs.insert(target, stamps);
    }
}

/// Where all leaves below a level-1 page have gone, only a page higher up tells.
#[test]
fn a_window_over_a_level_1_page_that_has_gone_shows_it() {
    let disk = SimulatedDisk::new(1);
    let tree = Arc::new(create(&disk, 4096));
    let key = |number: u64| [64_u64.to_be_bytes(), number.to_be_bytes()].concat();
    let mut load = tree.bulk_loader(&key(0), &key(u64::MAX), Lsn::new(10));
    for number in 0..40_000 {
        load.push(&key(number), &[1; 80]).unwrap();
    }
    tree.apply_chunk(load.graft(Lsn::new(10)).unwrap(), None).unwrap();
    let gone = tree.groups(&key(20_000), &key(20_001)).next().unwrap().unwrap();
    let gone = gone.lower..gone.upper.unwrap();
    let plan = tree.cut(std::slice::from_ref(&gone), u64::MAX, u64::MAX, Lsn::new(20)).unwrap();
    tree.apply_chunk(plan.chunk, None).unwrap();
    let below = tree.leaf_for(&gone.start, Direction::Reverse).unwrap();
    assert_eq!(below.page().view().lsn(), Lsn::new(10), "no leaf beside it was written");
    let window = key(10_007)..key(30_000);
    let merged = tree.merge_window(window, &[], None, &|_| false, Lsn::new(30)).unwrap();
    tree.apply_chunk(merged.chunk, None).unwrap();
    let around = tree.leaf_for(&gone.start, Direction::Forward).unwrap();
    let leaf = around.leaf();
    let (first, last) = (leaf.key(0).to_vec(), leaf.key(leaf.len() - 1).to_vec());
    assert!(first < gone.start && last >= gone.end, "{first:?} to {last:?} around {gone:?}");
    assert!(around.page().view().lsn() >= Lsn::new(20), "{}", around.page().view().lsn());
}
