//! Using a tree in every way, whatever is in its files.

use std::sync::Arc;

use seawall_io::OpenMode;
use seawall_simulation::SimulatedDisk;
use seawall_tree::page::{LeafValue, Row};
use seawall_tree::{
    Direction, ImageSource, LeafCursor, NoImageSource, Superblock, SuperblockFile, Tree, TreeAccess,
    TreeError,
};

use super::sample::{Changes, PAGE_BYTES, SAMPLE, STAMP, options};
use crate::input::Choices;

/// Reads everything in every way; the number of rows in a scan. Ends with whatever damage it meets.
pub(super) fn exercise_reads(tree: &Tree, keys: &[Vec<u8>]) -> u64 {
    let mut reports = 0;
    let report = &mut |damage: seawall_tree::Damage| {
        assert!(!damage.what.is_empty() && !damage.path.is_empty());
        reports += 1;
    };
    let summary = tree.check(report, &mut |_, _| ());
    assert_eq!(summary.damages, reports);
    for key in keys.iter().step_by(17).chain(&keys[180..]) {
        match tree.get(key) {
            Ok(_) => {}
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
    let forward = scan(tree, Direction::Forward).unwrap_or(0);
    let reverse = scan(tree, Direction::Reverse);
    if summary.damages == 0 {
        assert_eq!((forward, reverse.ok()), (summary.rows, Some(summary.rows)), "a sound tree can be read");
    }
    forward
}

fn scan(tree: &Tree, direction: Direction) -> Result<u64, TreeError> {
    // A leaf has fewer rows than bytes, and a scan comes to each separator once.
    let most = tree.pages().file().page_count() * PAGE_BYTES as u64 * 64;
    let mut rows = 0;
    match direction {
        Direction::Forward => {
            let mut cursor = LeafCursor::seek(tree.pages(), &[])?;
            while let Some(row) = cursor.row() {
                read_value(tree, &row, cursor.position().version())?;
                rows += 1;
                assert!(rows < most, "the scan does not end");
                cursor.advance(tree.pages())?;
            }
        }
        Direction::Reverse => {
            let (mut cursor, mut found) = LeafCursor::seek_below(tree.pages(), &[0xFF; 5000])?;
            while found {
                rows += 1;
                assert!(rows < most, "the scan does not end");
                found = cursor.retreat(tree.pages())?;
            }
        }
    }
    Ok(rows)
}

fn read_value(tree: &Tree, row: &Row<'_>, version: u64) -> Result<(), TreeError> {
    if let LeafValue::Overflow(reference) = row.value {
        let value = tree.read_overflow(reference, version)?.expect("nobody changes the tree");
        assert_eq!(value.len() as u64, reference.total_bytes);
    }
    Ok(())
}

/// Changes the tree in every way. Stops at the first error, as the engine does.
fn exercise_writes(tree: &Arc<Tree>, choices: Choices) -> Result<(), TreeError> {
    let keys = &SAMPLE.keys;
    let change = |(index, key): (usize, &Vec<u8>)| {
        let new_value = |length| Some(vec![0xC0; length]);
        let value = match index % 4 {
            0 => None,
            1 => new_value(300),
            2 => new_value(2_000),
            _ => new_value(1),
        };
        let mut key = key.clone();
        if index % 3 == 0 {
            key.push(b'+');
        }
        (key, value)
    };
    let step = if choices.has(2) { 1 } else { 13 };
    Changes::new(keys.iter().step_by(step).enumerate().map(change).collect()).merge_into(tree)?;
    if choices.has(3) {
        let (from, to) = (7_u64.to_be_bytes(), 8_u64.to_be_bytes());
        let from = if choices.has(4) { &keys[40][..] } else { &from };
        let mut ranges = vec![from.to_vec()..to.to_vec()];
        while !ranges.is_empty() {
            let plan = tree.cut(&ranges, 5, 100_000, STAMP)?;
            ranges = plan.rest;
            tree.apply_chunk(plan.chunk, None)?;
        }
    }
    if choices.has(5) {
        let mut loader = tree.bulk_loader(&keys[10][..9], &[0xFF; 9], STAMP);
        for index in 0..200_u64 {
            loader.push(&[&[0xFE; 8], &index.to_be_bytes()[..]].concat(), &[3; 100])?;
        }
        tree.apply_chunk(loader.graft(STAMP)?, None)?;
    }
    Ok(())
}

fn tree_page_bytes(tree: &Tree) -> u32 {
    u32::try_from(tree.format().page_bytes()).expect("a page has at most 64 KiB")
}

/// Opens the tree, reads it, writes it, reads it; whether nothing was wrong.
pub(super) fn exercise(disk: &SimulatedDisk, choices: Choices) -> bool {
    exercise_with_log(disk, &NoImageSource, choices)
}

/// The same with a log that has page images.
pub(super) fn exercise_with_log(disk: &SimulatedDisk, log: &dyn ImageSource, choices: Choices) -> bool {
    let access = if choices.has(1) { TreeAccess::Read } else { TreeAccess::Write };
    let before = SuperblockFile::open(disk, OpenMode::Read);
    let opened = match Tree::open_with_log(disk, access, options(), log) {
        Ok(opened) => opened,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return false;
        }
    };
    let (_, before, _) = before.expect("the tree was opened with it");
    let (_, stored, _) = SuperblockFile::open(disk, OpenMode::Read).expect("the tree was opened with it");
    let fixed = |values: &Superblock| (values.database, values.page_bytes);
    // A tree opened for reading keeps what the chunk says to itself.
    assert!(access == TreeAccess::Read || fixed(&stored) == fixed(&opened.superblock), "{stored:?}");
    assert_eq!(opened.superblock.database, before.database, "no chunk changes the database");
    assert_eq!(
        tree_page_bytes(&opened.tree),
        opened.superblock.page_bytes,
        "no chunk changes the size of pages"
    );
    let tree = Arc::new(opened.tree);
    exercise_reads(&tree, &SAMPLE.keys);
    let outcome = exercise_writes(&tree, choices);
    match &outcome {
        Ok(()) => {
            assert!(access == TreeAccess::Write, "a tree opened for reading takes no changes");
            exercise_reads(&tree, &SAMPLE.keys);
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    outcome.is_ok()
}
