//! Leaves are asked for before they are read: which ones, how many at a time, and none that is cached.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use common::{Changes, Model, STAMP, Source, apply_to, assert_holds, merge, options, superblock};
use seawall_simulation::{CallKind, ObservedDisk, SeededRandom, SimulatedDisk, Verdict};
use seawall_tree::page::PAGE_FILE_PATH;
use seawall_tree::{Direction, MergeSource, Tree, TreeAccess, TreeError, TreeOptions};
use seawall_types::PageId;

const PAGE_BYTES: usize = 4096;
const ROWS: u64 = 20_000;

/// What a tree has asked for: page numbers, request by request.
type Asked = Arc<Mutex<Vec<Vec<u64>>>>;

fn key(number: u64) -> Vec<u8> {
    number.to_be_bytes().to_vec()
}

/// A tree of some 700 leaves, written by merges in random order.
fn sample() -> (SimulatedDisk, Model) {
    let disk = SimulatedDisk::new(1);
    let tree = Tree::create(&disk, &superblock(4096), options()).unwrap();
    let mut random = SeededRandom::new(2);
    let mut model = Model::new();
    while model.len() < usize::try_from(ROWS).unwrap() {
        let changes: Changes = (0..2_000).map(|_| (key(random.below(1 << 40)), Some(vec![7; 90]))).collect();
        merge(&tree, &changes, 1 << 20).unwrap();
        apply_to(&mut model, &changes);
    }
    (disk, model)
}

/// Opens the tree with nothing in its cache.
fn open(disk: &SimulatedDisk, cache_bytes: usize, threads: usize) -> (Tree, Asked) {
    let asked = Asked::default();
    let log = Arc::clone(&asked);
    let disk = ObservedDisk::new(disk.clone(), move |call| {
        if let CallKind::WillNeed { offset, bytes } = call.kind {
            assert_eq!(call.path, PAGE_FILE_PATH);
            let page_bytes = PAGE_BYTES as u64;
            assert!(offset.is_multiple_of(page_bytes) && bytes.is_multiple_of(page_bytes) && bytes > 0);
            let first = offset / page_bytes;
            log.lock().unwrap().push((first..first + bytes / page_bytes).collect());
        }
        Verdict::Make
    });
    let options = TreeOptions { cache_bytes, threads, ..options() };
    (Tree::open(&disk, TreeAccess::Write, options).unwrap().tree, asked)
}

fn take(asked: &Asked) -> Vec<u64> {
    std::mem::take(&mut *asked.lock().unwrap()).concat()
}

/// The leaves where changes belong.
fn leaves_of(disk: &SimulatedDisk, changes: &Changes) -> BTreeSet<u64> {
    let (tree, _) = open(disk, 0, 1);
    let leaf = |key: &Vec<u8>| tree.leaf_for(key, Direction::Forward).unwrap().page().view().id().get();
    changes.keys().map(leaf).collect()
}

#[test]
fn a_batch_of_lookups_asks_for_its_leaves_and_where_they_are_cached_for_none() {
    let (disk, model) = sample();
    let sparse: Changes = sparse_changes(&model, 5);
    let keys: Vec<&[u8]> = sparse.keys().map(Vec::as_slice).collect();
    let ask = |tree: &Tree| {
        let leaves: Vec<PageId> = keys.iter().filter_map(|key| tree.pages().leaf_to_read(key)).collect();
        tree.pages().will_read_leaves(leaves);
    };
    let (tree, asked) = open(&disk, 64 << 20, 1);
    ask(&tree);
    assert_eq!(
        asked.lock().unwrap().iter().flatten().copied().collect::<BTreeSet<_>>(),
        leaves_of(&disk, &sparse)
    );
    let pages = take(&asked);
    assert_eq!(pages.iter().collect::<BTreeSet<_>>().len(), pages.len(), "each is asked for once");
    for (key, value) in model.iter().filter(|(key, _)| sparse.contains_key(*key)) {
        assert_eq!(tree.get(key).unwrap().as_ref(), Some(value));
    }
    ask(&tree);
    assert_eq!(take(&asked), [], "all are cached");
    // Of a tree whose pages are damaged nothing is said.
    disk.flip_bit(PAGE_FILE_PATH, PAGE_BYTES as u64 + 100, 3);
    let (tree, asked) = open(&disk, 64 << 20, 1);
    ask(&tree);
    assert_eq!(take(&asked), [], "the root leads nowhere");
    assert!(tree.get(keys[0]).is_err());
}

fn sparse_changes(model: &Model, seed: u64) -> Changes {
    let mut random = SeededRandom::new(seed);
    let chosen = model.keys().filter(|_| random.chance(1, 120));
    chosen.map(|key| (key.clone(), Some(vec![9; 90]))).collect()
}

#[test]
fn a_merge_asks_for_the_leaves_of_its_changes_and_for_no_others() {
    let (disk, model) = sample();
    for threads in [1, 3] {
        let disk = disk.copy();
        let mut model = model.clone();
        let changes = sparse_changes(&model, 3);
        let expected = leaves_of(&disk, &changes);
        let (tree, asked) = open(&disk, 64 << 10, threads);
        // One chunk, so that no thread starts anew.
        merge(&tree, &changes, 1 << 20).unwrap();
        let pages = take(&asked);
        let distinct: BTreeSet<u64> = pages.iter().copied().collect();
        assert_eq!(distinct, expected, "{threads} threads");
        assert!(
            pages.len() < expected.len() * 5 / 4,
            "{} requests for {} leaves",
            pages.len(),
            expected.len()
        );
        apply_to(&mut model, &changes);
        assert_holds(&tree, &model, "after reading ahead");
    }
}

#[test]
fn a_merge_asks_for_nothing_that_is_cached() {
    let (disk, model) = sample();
    let (tree, asked) = open(&disk, 64 << 20, 1);
    common::rows(&tree);
    take(&asked);
    merge(&tree, &sparse_changes(&model, 3), 1 << 20).unwrap();
    assert!(take(&asked).is_empty());
}

/// A source that does not know what comes.
struct Blind(Source);

impl MergeSource for Blind {
    fn peek(&self) -> Option<(&[u8], seawall_tree::Change<'_>)> {
        self.0.peek()
    }

    fn advance(&mut self) {
        self.0.advance();
    }
}

#[test]
fn a_source_need_not_know_what_comes() -> Result<(), TreeError> {
    let (disk, mut model) = sample();
    let (tree, asked) = open(&disk, 64 << 10, 1);
    let changes = sparse_changes(&model, 5);
    let mut source = Blind(Source::new(&changes));
    while source.peek().is_some() {
        let plan = tree.merge_chunk(&mut source, 1 << 20, STAMP)?;
        tree.apply_chunk(plan, None)?;
    }
    assert!(take(&asked).is_empty());
    apply_to(&mut model, &changes);
    assert_holds(&tree, &model, "without reading ahead");
    Ok(())
}
