//! Loads take what is free in the file before they make it longer.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::sync::Arc;

use common::{Model, STAMP, assert_holds, create, cut_ranges};
use seawall_simulation::{SeededRandom, SimulatedDisk};
use seawall_tree::Tree;

/// With its value, an eighth of a page of 4 KiB.
const VALUE_BYTES: usize = 480;

fn key(number: u64) -> Vec<u8> {
    number.to_be_bytes().to_vec()
}

fn load(tree: &Arc<Tree>, model: &mut Model, rows: std::ops::Range<u64>) {
    let mut loader = tree.bulk_loader(&key(rows.start), &key(rows.end), STAMP);
    for number in rows {
        let byte = u8::try_from(number % 251).unwrap();
        loader.push(&key(number), &[byte; VALUE_BYTES]).unwrap();
        model.insert(key(number), vec![byte; VALUE_BYTES]);
    }
    let plan = loader.graft(STAMP).unwrap();
    tree.apply_chunk(plan, None).unwrap();
}

/// Holes of 80 to 400 pages, which are shorter than the 512 that a load would like to have.
#[test]
fn a_load_fills_holes_that_are_shorter_than_it_would_like() {
    let disk = SimulatedDisk::new(1);
    let tree = Arc::new(create(&disk, 4096));
    let mut model = Model::new();
    load(&tree, &mut model, 0..40_000);
    let mut random = SeededRandom::new(3);
    let (mut ranges, mut from, mut freed) = (Vec::new(), 0, 0);
    while from < 36_000 {
        let rows = 8 * (80 + random.below(320));
        ranges.push(key(from)..key(from + rows));
        (from..from + rows).for_each(|number| {
            model.remove(&key(number));
        });
        freed += rows;
        from += rows + 8 * (2 + random.below(40));
    }
    cut_ranges(&tree, ranges, u64::MAX, u64::MAX).unwrap();
    // Another chunk: what a chunk frees can be taken once it is durable in place.
    load(&tree, &mut model, 40_000..40_008);
    let before = tree.pages().file().page_count();
    load(&tree, &mut model, 50_000..50_000 + freed * 3 / 4);
    assert_eq!(tree.pages().file().page_count(), before, "the file grew for {freed} rows");
    assert_holds(&tree, &model, "after the load");
}

/// Pages that become free while a load goes on lie before those that it has taken.
#[test]
fn a_load_goes_on_where_pages_become_free_meanwhile() {
    let disk = SimulatedDisk::new(1);
    let tree = Arc::new(create(&disk, 4096));
    let mut model = Model::new();
    load(&tree, &mut model, 0..20_000);
    let mut loader = tree.bulk_loader(&key(100_000), &key(200_000), STAMP);
    for number in 100_000..112_000 {
        if number % 2_000 == 0 {
            let start = (number - 100_000) * 3 / 2;
            cut_ranges(&tree, vec![key(start)..key(start + 900)], u64::MAX, u64::MAX).unwrap();
            (start..start + 900).for_each(|gone| {
                model.remove(&key(gone));
            });
        }
        loader.push(&key(number), &[9; VALUE_BYTES]).unwrap();
        model.insert(key(number), vec![9; VALUE_BYTES]);
    }
    let plan = loader.graft(STAMP).unwrap();
    tree.apply_chunk(plan, None).unwrap();
    assert_holds(&tree, &model, "after the load");
    drop(tree);
    assert_holds(&common::open(&disk), &model, "after opening");
}
