//! Swaps of many parts against a `BTreeMap`, and with power lost at every call.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::ops::Range;
use std::sync::Arc;

use common::{
    Changes, Model, STAMP, Workload, apply_to, assert_holds, create, cut_model, lose_power_everywhere, merge,
    open,
};
use seawall_simulation::{SeededRandom, SimulatedDisk, seeds};
use seawall_tree::page::{LeafValue, OverflowReference};
use seawall_tree::{LeafCursor, OldValues, Part, Tree, TreeError};

/// Key and what it refers to, of the long values in a range.
fn long_values(tree: &Tree, range: &Range<Vec<u8>>) -> Vec<(Vec<u8>, OverflowReference)> {
    let pages = tree.pages();
    let mut cursor = LeafCursor::seek(pages, &range.start).unwrap();
    let mut found = Vec::new();
    while let Some(row) = cursor.row().filter(|row| row.key.compare(&range.end).is_lt()) {
        if let LeafValue::Overflow(reference) = row.value {
            found.push((row.key.to_vec(), reference));
        }
        cursor.advance(pages).unwrap();
    }
    found
}

/// Parts of all kinds in ascending order, and what they make of the model.
struct Script {
    parts: Vec<Part>,
    freed: Vec<OverflowReference>,
}

fn random_parts(tree: &Arc<Tree>, model: &mut Model, work: &mut Workload) -> Script {
    let count = 1 + work.random.index(12);
    let mut keys: Vec<Vec<u8>> = (0..count * 2).map(|_| work.key()).collect();
    keys.sort();
    let mut script = Script { parts: Vec::new(), freed: Vec::new() };
    // Neighbours touch one another, now and then.
    for pair in 1..count {
        if work.random.chance(1, 3) {
            keys[pair * 2] = keys[pair * 2 - 1].clone();
        }
    }
    let mut last_end: Vec<u8> = Vec::new();
    for pair in keys.chunks(2) {
        let range = pair[0].clone()..pair[1].clone();
        if range.start < last_end {
            continue;
        }
        match work.random.below(6) {
            0 => {
                let value = work.value();
                model.insert(range.start.clone(), value.clone());
                last_end = [&range.start[..], &[0]].concat();
                script.parts.push(Part::Put { key: range.start, value });
            }
            1 => {
                model.remove(&range.start);
                last_end = [&range.start[..], &[0]].concat();
                script.parts.push(Part::Delete { key: range.start });
            }
            2 => {
                cut_model(model, &range.start, &range.end);
                last_end.clone_from(&range.end);
                script.parts.push(Part::Cut { range, values: OldValues::Free });
            }
            3 => {
                // What is kept of a cut is freed one by one.
                script.freed.extend(long_values(tree, &range).into_iter().map(|(_, value)| value));
                cut_model(model, &range.start, &range.end);
                last_end.clone_from(&range.end);
                script.parts.push(Part::Cut { range, values: OldValues::Keep });
            }
            _ if range.is_empty() => {}
            _ => {
                last_end.clone_from(&range.end);
                script.parts.push(graft_of(tree, model, work, range, &mut script.freed));
            }
        }
    }
    script
}

/// New rows for a range; some of its long values go on under other keys.
fn graft_of(
    tree: &Arc<Tree>,
    model: &mut Model,
    work: &mut Workload,
    range: Range<Vec<u8>>,
    freed: &mut Vec<OverflowReference>,
) -> Part {
    let moved: Vec<(Vec<u8>, OverflowReference)> = long_values(tree, &range);
    let old: Model = model.range(range.clone()).map(|(key, value)| (key.clone(), value.clone())).collect();
    cut_model(model, &range.start, &range.end);
    let rows = if work.random.chance(1, 5) { 0 } else { work.random.below(300) };
    let new = work.changes(rows, 0).into_iter().filter(|(key, _)| range.contains(key));
    let new: Model = new.map(|(key, value)| (key, value.unwrap())).collect();
    let keeps = work.random.chance(1, 2);
    let mut load = tree.bulk_loader(&range.start, &range.end, STAMP);
    let mut all: std::collections::BTreeMap<Vec<u8>, Option<OverflowReference>> =
        new.keys().map(|key| (key.clone(), None)).collect();
    if keeps {
        for (key, reference) in moved {
            if !new.contains_key(&key) && work.random.chance(2, 3) {
                all.insert(key.clone(), Some(reference));
                model.insert(key.clone(), old[&key].clone());
            } else {
                freed.push(reference);
            }
        }
    }
    for (key, reference) in all {
        match reference {
            Some(reference) => load.push_reference(&key, reference).unwrap(),
            None => load.push(&key, &new[&key]).unwrap(),
        }
    }
    model.extend(new);
    Part::Graft { load: Box::new(load), values: if keeps { OldValues::Keep } else { OldValues::Free } }
}

#[test]
fn random_swaps_leave_what_a_map_holds() {
    for seed in seeds(40) {
        let disk = SimulatedDisk::new(seed);
        let page_bytes = [4096, 4096, 8192][usize::try_from(seed % 3).unwrap()];
        let mut tree = Arc::new(common::create_with(&disk, page_bytes, 1));
        let mut model = Model::new();
        let mut work = Workload {
            random: SeededRandom::new(seed),
            key_space: [300, 3_000, 30_000][usize::try_from(seed / 3 % 3).unwrap()],
            long_keys: seed % 2 == 0,
            max_key_bytes: tree.max_key_bytes(),
        };
        for round in 0..10 {
            let context = format!("seed {seed}, round {round}");
            if round == 0 || work.random.chance(1, 3) {
                let changes = work.changes(1_200, 1);
                merge(&tree, &changes, u64::MAX).unwrap();
                apply_to(&mut model, &changes);
            }
            let before = model.clone();
            let script = random_parts(&tree, &mut model, &mut work);
            let plan = tree.swap(script.parts, &script.freed, STAMP).unwrap();
            if work.random.chance(1, 6) {
                // Given up: the next plan takes the pages back.
                drop(plan);
                model = before;
                let nothing = tree.swap(Vec::new(), &[], STAMP).unwrap();
                assert!(nothing.is_empty());
            } else {
                tree.apply_chunk(plan, None).unwrap();
            }
            assert_holds(&tree, &model, &context);
            if work.random.chance(1, 4) {
                drop(tree);
                tree = Arc::new(open(&disk));
            }
        }
    }
}

fn key(number: u64) -> Vec<u8> {
    number.to_be_bytes().to_vec()
}

/// Rows move from one place to another and their values with them: in no durable tree are they in both or in neither.
#[test]
fn rows_move_from_one_place_to_another_whole_or_not_at_all() {
    let disk = SimulatedDisk::new(3);
    let mut before = Model::new();
    {
        let tree = create(&disk, 4096);
        let row = |number: u64| {
            let bytes = if number % 20 == 3 { 9_000 } else { 120 };
            (key(number), Some(vec![u8::try_from(number % 250).unwrap(); bytes]))
        };
        let changes: Changes = (0..900).map(row).collect();
        merge(&tree, &changes, u64::MAX).unwrap();
        apply_to(&mut before, &changes);
    }
    // 300..500 goes to 2000.., 700..720 is cut, a row is put and another deleted.
    let mut after = before.clone();
    for number in 300..500 {
        let value = after.remove(&key(number)).unwrap();
        after.insert(key(number + 2_000), value);
    }
    cut_model(&mut after, &key(700), &key(720));
    after.insert(key(800), vec![1; 40]);
    after.remove(&key(803));
    let step = |disk: &SimulatedDisk| {
        let result = || -> Result<(), TreeError> {
            let opened = seawall_tree::Tree::open(disk, seawall_tree::TreeAccess::Write, common::options())?;
            let tree = Arc::new(opened.tree);
            let mut load = tree.bulk_loader(&key(2_000), &key(3_000), STAMP);
            let mut cursor = LeafCursor::seek(tree.pages(), &key(300))?;
            while let Some(row) = cursor.row().filter(|row| row.key.compare(&key(500)).is_lt()) {
                let number = u64::from_be_bytes(row.key.to_vec().try_into().unwrap());
                match row.value {
                    LeafValue::Inline(value) => load.push(&key(number + 2_000), value)?,
                    LeafValue::Overflow(value) => load.push_reference(&key(number + 2_000), value)?,
                    LeafValue::Deleted => panic!("no row is deleted"),
                }
                cursor.advance(tree.pages())?;
            }
            let parts = vec![
                Part::Cut { range: key(300)..key(500), values: OldValues::Keep },
                Part::Cut { range: key(700)..key(720), values: OldValues::Free },
                Part::Put { key: key(800), value: vec![1; 40] },
                Part::Delete { key: key(803) },
                Part::Graft { load: Box::new(load), values: OldValues::Free },
            ];
            let plan = tree.swap(parts, &[], STAMP)?;
            tree.apply_chunk(plan, None)?;
            Ok(())
        };
        drop(result());
    };
    lose_power_everywhere(&disk, step, |disk, is_done, context| {
        let tree = open(&disk);
        let found = common::rows(&tree);
        if is_done || found != before {
            assert_holds(&tree, &after, context);
        } else {
            assert_holds(&tree, &before, context);
        }
    });
}

/// Runs are grafted one behind the other: the last leaf of the one before is not written again for that.
#[test]
fn a_leaf_beside_a_graft_is_not_written() {
    let tree = Arc::new(create(&SimulatedDisk::new(1), 4096));
    let mut model = Model::new();
    for start in [0, 5_000, 10_000] {
        let mut load = tree.bulk_loader(&key(start), &key(start + 5_000), STAMP);
        for number in start..start + 1_000 {
            load.push(&key(number), &[1; 100]).unwrap();
            model.insert(key(number), vec![1; 100]);
        }
        let plan = load.graft(STAMP).unwrap();
        assert_eq!(plan.statistics().leaves, 0, "leaves written besides those of the load");
        tree.apply_chunk(plan, None).unwrap();
        common::assert_holds(&tree, &model, "after a graft");
    }
}

#[test]
#[should_panic(expected = "must ascend")]
fn parts_that_overlap_are_refused() {
    let tree = create(&SimulatedDisk::new(1), 4096);
    let cut = |from, to| Part::Cut { range: key(from)..key(to), values: OldValues::Free };
    drop(tree.swap(vec![cut(1, 5), cut(4, 9)], &[], STAMP));
}

#[test]
#[should_panic(expected = "another tree")]
fn a_load_for_another_tree_is_refused() {
    let tree = create(&SimulatedDisk::new(1), 4096);
    let other = Arc::new(create(&SimulatedDisk::new(2), 4096));
    let load = other.bulk_loader(&key(1), &key(2), STAMP);
    drop(tree.swap(vec![Part::Graft { load: Box::new(load), values: OldValues::Free }], &[], STAMP));
}

#[test]
fn a_key_that_no_page_holds_is_refused() {
    let tree = create(&SimulatedDisk::new(1), 4096);
    let part = Part::Put { key: vec![1; tree.max_key_bytes() + 1], value: Vec::new() };
    assert!(matches!(tree.swap(vec![part], &[], STAMP), Err(TreeError::KeyTooLong { .. })));
    assert_holds(&tree, &Model::new(), "after a refusal");
}
