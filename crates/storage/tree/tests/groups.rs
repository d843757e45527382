//! Level-1 pages without their leaves, and leaves read past the cache.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::sync::{Arc, Mutex};

use common::{Changes, Model, apply_to, create, merge, options, superblock};
use seawall_simulation::{CallKind, ObservedDisk, SeededRandom, SimulatedDisk, Verdict};
use seawall_tree::page::{PAGE_FILE_PATH, PageReference};
use seawall_tree::{Direction, Group, Tree, TreeAccess, TreeError, TreeOptions};

fn key(number: u64) -> Vec<u8> {
    number.to_be_bytes().to_vec()
}

/// A tree of some hundred leaves, in no order on disk.
fn sample(disk: &SimulatedDisk, rows: usize) -> Model {
    let tree = Tree::create(disk, &superblock(4096), options()).unwrap();
    let mut random = SeededRandom::new(2);
    let mut model = Model::new();
    while model.len() < rows {
        let changes: Changes = (0..1_000).map(|_| (key(random.below(1 << 40)), Some(vec![7; 90]))).collect();
        merge(&tree, &changes, 1 << 20).unwrap();
        apply_to(&mut model, &changes);
    }
    model
}

fn groups(tree: &Tree, from: &[u8], to: &[u8]) -> Vec<Group> {
    tree.groups(from, to).collect::<Result<_, TreeError>>().unwrap()
}

#[test]
fn groups_are_the_leaves_that_a_scan_sees() {
    let disk = SimulatedDisk::new(1);
    sample(&disk, 12_000);
    let tree = common::open(&disk);
    let mut position = tree.leaf_for(&[], Direction::Forward).unwrap();
    let mut expected = Vec::new();
    loop {
        let lower = position.lower().unwrap_or_default().to_vec();
        expected.push((lower, position.upper().map(<[u8]>::to_vec), position.page().reference()));
        if !tree.move_on(&mut position, Direction::Forward).unwrap() {
            break;
        }
    }
    let all = groups(&tree, &[], &[0xFF; 9]);
    let found: Vec<_> = all
        .iter()
        .flat_map(|group| {
            (0..group.leaves.len()).map(|index| {
                let leaf = &group.leaves[index];
                (leaf.lower.clone(), group.upper_of(index).map(<[u8]>::to_vec), leaf.page)
            })
        })
        .collect();
    assert_eq!(found, expected);
    assert!(all.len() > 2, "{} groups", all.len());
    assert!(all.iter().all(|group| !group.has_long_values && group.lower == group.leaves[0].lower));
    // Of a range, those that may hold keys of it.
    let (from, to) = (&expected[40].0, &expected[90].0);
    let within: Vec<_> = groups(&tree, from, to)
        .iter()
        .flat_map(|group| {
            group.leaves[group.leaves_within(from, to)].iter().map(|leaf| leaf.page).collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(within, expected[40..90].iter().map(|leaf| leaf.2).collect::<Vec<_>>());
    assert!(groups(&tree, to, from).is_empty() && groups(&tree, from, from).is_empty());
}

#[test]
fn a_tree_of_one_leaf_is_a_group() {
    let tree = create(&SimulatedDisk::new(1), 4096);
    merge(&tree, &[(vec![1], Some(vec![3; 5_000]))].into(), u64::MAX).unwrap();
    let found = groups(&tree, &[0], &[9]);
    assert_eq!(found.len(), 1);
    assert!(found[0].has_long_values && found[0].leaves.len() == 1 && found[0].upper.is_none());
    let mut reads = tree.pages().read_leaves(vec![found[0].leaves[0].page], 1);
    assert_eq!(reads.next_leaf().unwrap().unwrap().view().leaf().unwrap().len(), 1);
    assert!(reads.next_leaf().unwrap().is_none());
}

#[test]
fn groups_with_long_values_say_so() {
    let disk = SimulatedDisk::new(1);
    let model = sample(&disk, 6_000);
    let tree = common::open(&disk);
    let last = model.keys().next_back().unwrap().clone();
    merge(&tree, &[(last, Some(vec![3; 5_000]))].into(), u64::MAX).unwrap();
    let flags: Vec<bool> = groups(&tree, &[], &[0xFF; 9]).iter().map(|group| group.has_long_values).collect();
    let (last, others) = flags.split_last().unwrap();
    assert!(*last && !others.is_empty() && others.iter().all(|flag| !flag), "{flags:?}");
}

/// Offsets and lengths of reads of the page file, in pages, and of what was asked for before.
type Calls = Arc<Mutex<Vec<(bool, u64, u64)>>>;

fn observed(disk: &SimulatedDisk) -> (Tree, Calls) {
    let calls = Calls::default();
    let log = Arc::clone(&calls);
    let disk = ObservedDisk::new(disk.clone(), move |call| {
        if call.path == PAGE_FILE_PATH
            && let CallKind::WillNeed { offset, bytes } = call.kind
        {
            log.lock().unwrap().push((true, offset / 4096, bytes / 4096));
        }
        Verdict::Make
    });
    let options = TreeOptions { cache_bytes: 64 << 10, ..options() };
    (Tree::open(&disk, TreeAccess::Write, options).unwrap().tree, calls)
}

fn all_leaves(tree: &Tree) -> Vec<PageReference> {
    let all = groups(tree, &[], &[0xFF; 9]);
    all.into_iter().flat_map(|group| group.leaves).map(|leaf| leaf.page).collect()
}

#[test]
fn leaves_come_in_the_order_asked_for_with_fewer_reads_than_leaves() {
    let disk = SimulatedDisk::new(1);
    sample(&disk, 8_000);
    let (tree, calls) = observed(&disk);
    let leaves = all_leaves(&tree);
    for bytes in [1, 10 * 4096, 100 * 4096] {
        calls.lock().unwrap().clear();
        let before = tree.pages().file().read_counts();
        let mut reads = tree.pages().read_leaves(leaves.clone(), bytes);
        for leaf in &leaves {
            assert_eq!(reads.next_leaf().unwrap().unwrap().reference(), *leaf);
        }
        assert!(reads.next_leaf().unwrap().is_none());
        let after = tree.pages().file().read_counts();
        let (count, read) = (after.reads - before.reads, (after.bytes - before.bytes) / 4096);
        assert!(read <= leaves.len() as u64, "{read} pages of {} leaves", leaves.len());
        if bytes > 300_000 {
            assert!(count < read * 9 / 10, "{count} calls for {read} pages: neighbours are read together");
        }
        // Each is asked for once, if it is not cached.
        let asked: u64 = calls.lock().unwrap().iter().map(|(_, _, count)| count).sum();
        assert_eq!(asked, read, "leaves asked for");
    }
}

#[test]
fn what_the_cache_has_is_not_read_again_and_nothing_is_put_there() {
    let disk = SimulatedDisk::new(1);
    sample(&disk, 4_000);
    let options = TreeOptions { cache_bytes: 64 << 20, ..options() };
    let tree = Tree::open(&disk, TreeAccess::Write, options).unwrap().tree;
    let leaves = all_leaves(&tree);
    let read_all = || {
        let before = tree.pages().file().read_counts().bytes;
        let mut reads = tree.pages().read_leaves(leaves.clone(), 1 << 20);
        while reads.next_leaf().unwrap().is_some() {}
        (tree.pages().file().read_counts().bytes - before) / 4096
    };
    assert_eq!((read_all(), read_all()), (leaves.len() as u64, leaves.len() as u64));
    common::rows(&tree);
    assert_eq!(read_all(), 0);
}

#[test]
fn a_leaf_of_another_image_or_a_damaged_one_is_refused() {
    let disk = SimulatedDisk::new(1);
    sample(&disk, 4_000);
    let leaves = all_leaves(&common::open(&disk));
    let refuses = |disk: &SimulatedDisk, leaves: Vec<PageReference>| {
        let tree = common::open(disk);
        let mut reads = tree.pages().read_leaves(leaves, 1 << 20);
        matches!(reads.next_leaf(), Err(TreeError::Page { .. }))
    };
    assert!(!refuses(&disk, leaves.clone()));
    let damaged = disk.copy();
    damaged.flip_bit(PAGE_FILE_PATH, leaves[17].page.get() * 4096 + 700, 3);
    assert!(refuses(&damaged, leaves.clone()));
    let mut other = leaves.clone();
    other[9] = PageReference::new(leaves[9].page, leaves[10].mark);
    assert!(refuses(&disk, other));
    // A page of another kind.
    let root = common::open(&disk);
    let root = root.pages().file().read_page(seawall_tree::ROOT_PAGE).unwrap().reference();
    assert!(refuses(&disk, vec![root]));
}
