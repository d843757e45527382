//! Rows of sorted runs that are deleted: they are rows like others there, and nowhere else.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::sync::Arc;

use common::{Changes, STAMP, assert_contains, create, open};
use seawall_simulation::SimulatedDisk;
use seawall_tree::{Change, RUN_NUMBERS, RunRow, Tree, TreeError};
use seawall_types::Lsn;

const RUN: u64 = RUN_NUMBERS.start + 7;

fn run_key(row_key: &[u8]) -> Vec<u8> {
    [&RUN.to_be_bytes(), row_key].concat()
}

fn row_key(number: u64) -> Vec<u8> {
    [64_u64.to_be_bytes(), number.to_be_bytes()].concat()
}

/// Every third row is deleted, every tenth of the others long.
fn change_of(number: u64) -> Option<Vec<u8>> {
    let bytes = if number.is_multiple_of(10) { 5_000 } else { 60 };
    (!number.is_multiple_of(3)).then(|| vec![u8::try_from(number % 251).unwrap(); bytes])
}

fn load_run(tree: &Arc<Tree>, numbers: std::ops::Range<u64>) -> Changes {
    let mut load = tree.bulk_loader(&RUN.to_be_bytes(), &(RUN + 1).to_be_bytes(), STAMP);
    let mut rows = Changes::new();
    for number in numbers {
        let (key, value) = (run_key(&row_key(number)), change_of(number));
        load.push_change(&key, value.as_deref().map_or(Change::Delete, Change::Put)).unwrap();
        rows.insert(key, value);
    }
    tree.apply_chunk(load.graft(STAMP).unwrap(), None).unwrap();
    rows
}

#[test]
fn a_run_gives_back_its_rows_and_its_deletions() {
    let disk = SimulatedDisk::new(1);
    let tree = Arc::new(create(&disk, 4096));
    let rows = load_run(&tree, 0..5_000);
    drop(tree);
    let tree = open(&disk);
    assert_contains(&tree, &rows, "after opening");
    let version = tree.version();
    for number in (0..5_010).step_by(7) {
        let key = run_key(&row_key(number));
        let found = tree.pages().run_row_at(version, &key, |row| match row {
            RunRow::Absent => None,
            RunRow::Deleted => Some(None),
            RunRow::Value(value) => Some(Some(value.to_vec())),
        });
        assert_eq!(found.unwrap(), Some((number < 5_000).then(|| change_of(number))), "row {number}");
    }
    tree.apply_chunk(tree.cut(&[key_range(RUN)], u64::MAX, u64::MAX, STAMP).unwrap().chunk, None).unwrap();
    let key = run_key(&row_key(1));
    assert_eq!(tree.pages().run_row_at(version, &key, |_| ()).unwrap(), None, "the tree has changed");
    assert_contains(&tree, &Changes::new(), "after the cut");
}

fn key_range(number: u64) -> std::ops::Range<Vec<u8>> {
    number.to_be_bytes().to_vec()..(number + 1).to_be_bytes().to_vec()
}

/// Who does not know of runs is told, and does not take a deletion for an empty value.
#[test]
fn who_expects_a_value_is_refused_a_deletion() {
    let disk = SimulatedDisk::new(1);
    let tree = Arc::new(create(&disk, 4096));
    load_run(&tree, 0..100);
    let key = run_key(&row_key(3));
    let refused = tree.get(&key).unwrap_err();
    assert!(matches!(refused, TreeError::Page { .. }), "{refused}");
    let changes: Changes = [(key, Some(vec![1]))].into();
    let refused = common::merge(&tree, &changes, u64::MAX).unwrap_err();
    assert!(matches!(refused, TreeError::Page { .. }), "{refused}");
}

#[test]
#[should_panic(expected = "only sorted runs")]
fn a_load_of_a_table_takes_no_deletion() {
    let tree = Arc::new(create(&SimulatedDisk::new(1), 4096));
    let mut load = tree.bulk_loader(&row_key(0), &row_key(9), STAMP);
    load.push_change(&row_key(1), Change::Delete).unwrap();
}

#[test]
fn the_longest_key_of_a_row_has_room_for_the_number_of_a_run() {
    for page_bytes in [4096, 8192, 65_536] {
        let tree = Arc::new(create(&SimulatedDisk::new(1), page_bytes));
        let longest = tree.max_key_bytes();
        assert!(longest >= 8 + 8 + 2_552, "{longest}");
        let value = vec![7; tree.format().max_inline_value_bytes()];
        let mut rows = Changes::new();
        let mut load = tree.bulk_loader(&RUN.to_be_bytes(), &(RUN + 1).to_be_bytes(), STAMP);
        for last in 0..40_u8 {
            let mut key = run_key(&vec![b'x'; longest - 8]);
            key[longest - 1] = last;
            load.push_change(&key, if last % 2 == 0 { Change::Delete } else { Change::Put(&value) }).unwrap();
            rows.insert(key, (last % 2 == 1).then(|| value.clone()));
        }
        tree.apply_chunk(load.graft(STAMP).unwrap(), None).unwrap();
        assert_contains(&tree, &rows, "the longest keys");
    }
}

/// A leaf has the stamp of its newest row, where rows have stamps of their own.
#[test]
fn a_leaf_has_the_newest_stamp_that_was_noted_for_its_rows() {
    let disk = SimulatedDisk::new(1);
    let tree = Arc::new(create(&disk, 4096));
    let mut load = tree.bulk_loader(&row_key(0), &row_key(10_000), Lsn::new(500)).filled_to(500);
    let stamp_of = |number: u64| Lsn::new(10 + number * 7 % 101);
    for number in 0..3_000 {
        // A row between was lost.
        if number % 50 == 49 {
            load.note_stamp(Lsn::new(300));
        }
        load.note_stamp(stamp_of(number));
        load.push(&row_key(number), &[1; 100]).unwrap();
    }
    tree.apply_chunk(load.graft(STAMP).unwrap(), None).unwrap();
    let mut position = tree.leaf_for(&row_key(0), seawall_tree::Direction::Forward).unwrap();
    let mut number = 0;
    loop {
        let leaf = position.leaf();
        let rows = number..number + leaf.len() as u64;
        let lost = rows.clone().any(|number| number % 50 == 49);
        let newest = if lost { Some(Lsn::new(300)) } else { rows.clone().map(stamp_of).max() };
        assert_eq!(Some(position.page().view().lsn()), newest, "rows {rows:?}");
        number = rows.end;
        if number < 3_000 {
            let used = leaf.used_bytes();
            assert!((1_900..=2_100).contains(&used), "{used} bytes where half a page is asked for");
        }
        if !tree.move_on(&mut position, seawall_tree::Direction::Forward).unwrap() {
            break;
        }
    }
    assert_eq!(number, 3_000);
}
