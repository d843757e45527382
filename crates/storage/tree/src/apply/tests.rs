//! A chunk on a disk that fills up.

use seawall_io::{Disk, OpenMode};
use seawall_simulation::{PowerLoss, SimulatedDisk};
use seawall_types::{DatabaseId, Lsn, TableId, TimelineId, TimelineMark};

use super::*;
use crate::merge::{Change, MergeSource};
use crate::page::PAGE_FILE_PATH;
use crate::space_map::pages_per_map;
use crate::superblock::{Encryption, PageProtection, TreeMarks};
use crate::tree::TreeAccess;

const STAMP: Lsn = Lsn::new(7);

/// Rows to be put, the next one last.
struct Rows(Vec<(Vec<u8>, Vec<u8>)>);

impl Rows {
    fn from_number(first: u32) -> Rows {
        Rows::of_bytes(first, 1)
    }

    fn of_bytes(first: u32, byte: u8) -> Rows {
        let row = |number: u32| (number.to_be_bytes().to_vec(), vec![byte; 900]);
        Rows((first..first + 60).rev().map(row).collect())
    }
}

impl MergeSource for Rows {
    fn peek(&self) -> Option<(&[u8], Change<'_>)> {
        self.0.last().map(|(key, value)| (&key[..], Change::Put(value)))
    }

    fn advance(&mut self) {
        self.0.pop();
    }
}

fn values() -> Superblock {
    Superblock {
        sequence: 0,
        database: DatabaseId::from_bytes([9; 16]),
        page_bytes: 4096,
        timeline: TimelineId::FIRST,
        segment_bytes: 1 << 20,
        redo_point: Lsn::new(1),
        checkpoint_count: 0,
        completed_chunk: 0,
        next_table: TableId::new(1),
        page_count: 0,
        created_micros: 0,
        protection: PageProtection::RecoveryFile,
        encryption: Encryption::None,
        in_doubt: 0,
        log_end: Lsn::ZERO,
        timeline_mark: TimelineMark::NONE,
        marks: TreeMarks::default(),
        next_run: 0,
        run_count: 0,
    }
}

fn options() -> TreeOptions {
    TreeOptions { cache_bytes: 64 << 10, recovery_file_bytes: 1 << 20, ..TreeOptions::default() }
}

fn plan(tree: &Tree, mut rows: Rows) -> Result<ChunkPlan, TreeError> {
    tree.merge_chunk(&mut rows, u64::MAX, STAMP)
}

fn put(tree: &Tree, first: u32) -> Result<(), TreeError> {
    tree.apply_chunk(plan(tree, Rows::from_number(first))?, None).map(|_| ())
}

/// Takes the pages that the first page of the space map has left, as a bulk load does.
fn reserve_to_the_border(tree: &Tree) {
    let left = pages_per_map(tree.format()) - 100;
    tree.space.lock().reserve(u32::try_from(left).unwrap()).unwrap();
    while tree.space.lock().reserve(1).unwrap().get() + 1 < pages_per_map(tree.format()) {}
}

fn check(tree: &Tree, context: &str) {
    tree.check(&mut |damage| panic!("{context}: {damage:?}"), &mut |_, _| ());
}

/// Puts rows from 100 on into a tree that `prepare` has made, with room for ever more blocks on the disk: either the chunk is
/// applied, or the tree is what it was and takes the chunk when there is space again.
fn fill_up_beside_a_chunk(prepare: impl Fn(&Tree)) {
    let disk = SimulatedDisk::new(1);
    put(&Tree::create(&disk, &values(), options()).unwrap(), 0).unwrap();
    let mut refused = 0;
    loop {
        let disk = disk.copy();
        let tree = Tree::open(&disk, TreeAccess::Write, options()).unwrap().tree;
        prepare(&tree);
        disk.set_capacity(Some(disk.allocated_bytes() + refused * 4096));
        let put_here = put(&tree, 100);
        assert_eq!(tree.failure(), None, "with {refused} free blocks: {put_here:?}");
        disk.set_capacity(None);
        if put_here.is_ok() {
            break;
        }
        put(&tree, 100).unwrap();
        check(&tree, &format!("with {refused} free blocks"));
        refused += 1;
    }
    assert!(refused > 10, "the disk was full {refused} times only");
}

/// The first chunk that needs pages of a second page of the space map.
#[test]
fn a_full_disk_stops_no_chunk_that_is_committed_at_a_new_page_of_the_space_map() {
    fill_up_beside_a_chunk(|tree| {
        put(tree, 50).unwrap();
        reserve_to_the_border(tree);
    });
}

/// The page of the space map is new since a bulk load needed it, while the chunk before was being applied.
#[test]
fn nor_at_one_that_a_bulk_load_has_added_while_a_chunk_was_applied() {
    fill_up_beside_a_chunk(|tree| {
        let before = plan(tree, Rows::from_number(50)).unwrap();
        reserve_to_the_border(tree);
        tree.space.lock().reserve(1).unwrap();
        tree.apply_chunk(before, None).unwrap();
    });
}

/// A chunk of changed pages only, and the power goes at each of its calls: the blocks of the new page of the space map are
/// there when the chunk is committed, so that the next open needs no space.
#[test]
fn a_full_disk_stops_no_open_at_a_new_page_of_the_space_map() {
    let disk = SimulatedDisk::new(1);
    put(&Tree::create(&disk, &values(), options()).unwrap(), 0).unwrap();
    let mut applied_again = 0;
    for calls in 0.. {
        let disk = disk.copy();
        let tree = Tree::open(&disk, TreeAccess::Write, options()).unwrap().tree;
        // The recovery file has its length from here on.
        tree.apply_chunk(plan(&tree, Rows::of_bytes(0, 2)).unwrap(), Some(&values())).unwrap();
        reserve_to_the_border(&tree);
        tree.space.lock().reserve(1).unwrap();
        disk.crash_at(disk.calls() + calls);
        let changed = plan(&tree, Rows::of_bytes(0, 3)).unwrap();
        assert!(changed.fresh.is_empty(), "only pages that are there change");
        if tree.apply_chunk(changed, None).is_ok() {
            break;
        }
        let after = disk.after_power_loss(PowerLoss::LoseAll);
        after.set_capacity(Some(after.allocated_bytes()));
        let opened = Tree::open(&after, TreeAccess::Write, options());
        let opened = opened.unwrap_or_else(|error| panic!("power lost at call {calls}: {error}"));
        applied_again += u64::from(opened.reapplied_chunk.is_some());
        check(&opened.tree, &format!("power lost at call {calls}"));
    }
    assert!(applied_again > 0, "no power loss left a committed chunk");
}

/// A device that loses the last write of the second page of the space map leaves one that calls pages free which are in use.
#[test]
fn an_older_second_page_of_the_space_map_hands_out_no_page() {
    let disk = SimulatedDisk::new(1);
    let tree = Tree::create(&disk, &values(), options()).unwrap();
    put(&tree, 0).unwrap();
    reserve_to_the_border(&tree);
    put(&tree, 100).unwrap();
    let map_page = pages_per_map(tree.format());
    let image = || {
        let mut bytes = [0; 4096];
        let file = disk.open(PAGE_FILE_PATH, OpenMode::Read).unwrap();
        file.read_exact_at(&mut bytes, map_page * 4096).unwrap();
        bytes
    };
    let older = image();
    // The open is not to write it again.
    let last = plan(&tree, Rows::from_number(200)).unwrap();
    tree.apply_chunk(last, Some(&values())).unwrap();
    assert!(older != [0; 4096] && older != image(), "two chunks write the page");
    drop(tree);
    disk.overwrite(PAGE_FILE_PATH, map_page * 4096, &older);
    let tree = Tree::open(&disk, TreeAccess::Write, options()).unwrap().tree;
    let mut damaged = Vec::new();
    tree.check(&mut |damage| damaged.push(damage.page.get()), &mut |_, _| ());
    assert_eq!(damaged, [map_page]);
    reserve_to_the_border(&tree);
    let Err(TreeError::Page { page, .. }) = put(&tree, 300) else { panic!("its pages were handed out") };
    assert_eq!(page.get(), map_page);
}
