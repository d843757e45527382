//! A page file that needs a second page of the space map: beyond 124 MiB with the smallest pages.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::{Changes, Model, STAMP, apply_to, check, options, rows};
use seawall_simulation::{PowerLoss, SimulatedDisk};
use seawall_tree::{Tree, TreeAccess, TreeError, pages_per_map};

const LONG_BYTES: usize = 60 << 20;

fn open(disk: &SimulatedDisk) -> Result<Tree, TreeError> {
    Tree::open(disk, TreeAccess::Write, options()).map(|opened| opened.tree)
}

fn one_chunk(tree: &Tree, changes: &Changes) -> Result<(), TreeError> {
    let plan = tree.merge_chunk(&mut common::Source::new(changes), u64::MAX, STAMP)?;
    tree.apply_chunk(plan, None).map(|_| ())
}

fn long(number: u8) -> Changes {
    Changes::from([(vec![number], Some(vec![number; LONG_BYTES]))])
}

fn short(number: u8) -> Changes {
    (0..200_u8).map(|key| (vec![9, key], Some(vec![number; 300]))).collect()
}

fn assert_rows(tree: &Tree, models: &[Model], context: &str) {
    check(tree);
    // Long values make a difference too large to be printed.
    assert!(models.contains(&rows(tree)), "{context}: the tree of no chunk");
}

#[test]
fn a_tree_grows_past_the_pages_of_one_map_page_and_survives_a_power_loss_there() {
    let disk = SimulatedDisk::new(1);
    drop(common::create(&disk, 4096));
    let tree = open(&disk).unwrap();
    for changes in [&long(1), &long(2), &short(0)] {
        one_chunk(&tree, changes).unwrap();
    }
    let mut models = vec![Model::new()];
    [&long(1), &long(2), &short(0)].into_iter().for_each(|changes| apply_to(&mut models[0], changes));
    assert_rows(&tree, &models, "with one map page");
    drop(tree);
    // Its first pages are in the first map's reach, the others behind the second map page.
    let crossing = Changes::from([(vec![3], Some(vec![3; 8 << 20]))]);
    let mut next = models[0].clone();
    apply_to(&mut next, &crossing);
    models.push(next);
    let whole = disk.copy();
    one_chunk(&open(&whole).unwrap(), &crossing).unwrap();
    for call in 0..whole.calls() {
        let crashed = disk.copy();
        crashed.crash_at(call);
        assert!(open(&crashed).and_then(|tree| one_chunk(&tree, &crossing)).is_err() || crashed.crashed());
        for outcome in [PowerLoss::LoseAll, PowerLoss::Random(call)] {
            let lost = crashed.after_power_loss(outcome);
            assert_rows(&open(&lost).unwrap(), &models, &format!("call {call}, {outcome:?}"));
        }
    }
    let tree = open(&disk).unwrap();
    one_chunk(&tree, &crossing).unwrap();
    let pages = tree.pages().file().page_count();
    assert!(pages > pages_per_map(tree.format()), "{pages} pages need no second map page");
    // What is freed in the second map's reach is used again, and nothing else is.
    for number in 1..4 {
        for changes in [&Changes::from([(vec![3], None)]), &short(number), &crossing] {
            one_chunk(&tree, changes).unwrap();
            apply_to(&mut models[1], changes);
        }
        assert_rows(&tree, &models[1..], &format!("round {number}"));
    }
    assert_eq!(tree.pages().file().page_count(), pages, "freed pages were not used again");
    drop(tree);
    assert_rows(&open(&disk).unwrap(), &models[1..], "opened again");
}

/// The chunk that takes the first page behind the second map page changes nothing else in the reach of the first.
#[test]
fn a_second_map_page_is_found_again_when_the_first_is_full_to_its_last_page() {
    let disk = SimulatedDisk::new(2);
    drop(common::create(&disk, 4096));
    let tree = open(&disk).unwrap();
    let mut model = Model::new();
    let add = |tree: &Tree, model: &mut Model, key: Vec<u8>, bytes: usize| {
        let changes = Changes::from([(key, Some(vec![7; bytes]))]);
        one_chunk(tree, &changes).unwrap();
        apply_to(model, &changes);
    };
    add(&tree, &mut model, vec![1], LONG_BYTES);
    add(&tree, &mut model, vec![2], LONG_BYTES);
    let free = pages_per_map(tree.format()) - check(&tree).pages;
    add(&tree, &mut model, vec![3], usize::try_from(free - 60).unwrap() * 3_900);
    // A page each.
    for number in 0..200 {
        add(&tree, &mut model, vec![4, number], 3_000);
    }
    drop(tree);
    let tree = open(&disk).unwrap();
    assert!(check(&tree).pages > pages_per_map(tree.format()), "the first map page has pages left");
    for number in 0..50 {
        add(&tree, &mut model, vec![5, number], 3_000);
    }
    assert_rows(&tree, &[model], "after it was opened again");
}
