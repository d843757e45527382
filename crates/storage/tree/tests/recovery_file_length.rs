//! The recovery file has room for every chunk of the budget, also of many threads: it never grows.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::{Changes, STAMP, Source, check, rows, superblock};
use seawall_simulation::{SeededRandom, SimulatedDisk};
use seawall_tree::{RECOVERY_FILE_PATH, Tree, TreeOptions};

/// The pages of the smallest chunk that the engine allows, and of one where threads do not hear of each other for long.
const CHUNK_PAGES: [u64; 2] = [4, 24];

fn length(disk: &SimulatedDisk) -> usize {
    disk.read_file(RECOVERY_FILE_PATH).unwrap().len()
}

/// Two neighbours of one pair differ at their end only, so the keys that part leaves are long, and parents have few.
fn key(pair: u32, second: u8, bytes: usize) -> Vec<u8> {
    let mut key = pair.to_be_bytes().to_vec();
    key.resize(bytes, b'-');
    key.push(second);
    key
}

fn all_rows(pairs: u32, key_bytes: usize, value: &[u8]) -> Changes {
    let keys = (0..pairs).flat_map(|pair| [key(pair, b'a', key_bytes), key(pair, b'b', key_bytes)]);
    keys.map(|key| (key, Some(value.to_vec()))).collect()
}

/// Merges `changes`; the most pages of a chunk that needed protection.
fn merge(disk: &SimulatedDisk, tree: &Tree, changes: &Changes, chunk_bytes: u64, what: &str) -> u64 {
    let fixed = length(disk);
    let mut merge = tree.begin_merge(Source::new(changes)).unwrap();
    let mut most = 0;
    while !merge.is_done() {
        let plan = tree.continue_merge(&mut merge, chunk_bytes, STAMP).unwrap();
        most = most.max(tree.apply_chunk(plan, None).unwrap().statistics.protected_pages);
        assert_eq!(length(disk), fixed, "{what}: {most} pages");
    }
    most
}

/// A tree whose recovery file is as long as it is to be: the first chunks make it so.
fn new_tree(disk: &SimulatedDisk, page_bytes: u32, threads: usize, chunk_bytes: u64) -> (Tree, usize) {
    let options = TreeOptions { threads, recovery_file_bytes: chunk_bytes, ..common::options() };
    let tree = Tree::create(disk, &superblock(page_bytes), options).unwrap();
    let key_bytes = tree.format().max_key_bytes() - 1;
    let first = all_rows(1, key_bytes, b"first");
    for _ in 0..2 {
        let plan = tree.merge_chunk(&mut Source::new(&first), chunk_bytes, STAMP).unwrap();
        tree.apply_chunk(plan, None).unwrap();
    }
    (tree, key_bytes)
}

fn fill_change_and_empty(page_bytes: u32, threads: usize, chunk_pages: u64, pairs: u32) {
    let chunk_bytes = chunk_pages * u64::from(page_bytes);
    let disk = SimulatedDisk::new(1);
    let (tree, key_bytes) = new_tree(&disk, page_bytes, threads, chunk_bytes);
    let what =
        |step| format!("{step} with {threads} threads, chunks of {chunk_pages} pages of {page_bytes} bytes");
    let all = all_rows(pairs, key_bytes, b"filled");
    merge(&disk, &tree, &all, chunk_bytes, &what("filling"));
    let changed = all_rows(pairs, key_bytes, b"change");
    let most = merge(&disk, &tree, &changed, chunk_bytes, &what("changing"));
    println!("{}: {most} pages at most", what("changing"));
    assert!(rows(&tree).values().all(|value| value == b"change"));
    check(&tree);
    // Whole leaves go, which writes nothing but what is above them.
    let mut random = SeededRandom::new(2);
    let gone: Changes =
        changed.into_keys().filter(|_| random.chance(19, 20)).map(|key| (key, None)).collect();
    let most = merge(&disk, &tree, &gone, chunk_bytes, &what("emptying"));
    println!("{}: {most} pages at most", what("emptying"));
    check(&tree);
}

#[test]
fn no_chunk_of_any_number_of_threads_needs_more_than_the_recovery_file_has() {
    for threads in [1, 2, 8, 16] {
        CHUNK_PAGES.iter().for_each(|pages| fill_change_and_empty(4096, threads, *pages, 3_000));
    }
}

#[test]
fn nor_does_one_of_the_largest_pages() {
    for threads in [1, 16] {
        CHUNK_PAGES.iter().for_each(|pages| fill_change_and_empty(65_536, threads, *pages, 3_000));
    }
}

/// Changes so far apart that each leaf has several pages above it to itself, which must be written, too. A row fills a leaf,
/// so every second key that parts leaves is long, and pages at all levels have few children.
#[test]
fn nor_do_changes_far_apart_in_a_deep_tree() {
    const PAGES: u64 = 256;
    const PAIRS: u32 = 4_000;
    for threads in [1, 2, 4] {
        let (chunk_bytes, disk) = (PAGES * 4096, SimulatedDisk::new(1));
        let (tree, key_bytes) = new_tree(&disk, 4096, threads, chunk_bytes);
        let what = |step| format!("{step} with {threads} threads");
        merge(&disk, &tree, &all_rows(PAIRS, key_bytes, &[1; 1000]), chunk_bytes, &what("filling"));
        let depth = check(&tree).depth;
        assert!(depth > 5, "the tree is not deep: {depth}");
        let mut random = SeededRandom::new(3);
        let some = (0..PAIRS).filter(|_| random.chance(1, 15));
        let changed = some.map(|pair| (key(pair, b'a', key_bytes), Some(vec![2; 1000]))).collect();
        let most = merge(&disk, &tree, &changed, chunk_bytes, &what("changing a few"));
        println!("{}: {most} pages at most, {depth} levels", what("changing a few"));
        assert!(most > PAGES / 2, "{}: chunks of {most} pages show nothing", what("changing a few"));
        check(&tree);
    }
}
