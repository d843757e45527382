//! A chunk on a disk that fills up.

use seawall_simulation::SimulatedDisk;
use seawall_types::{DatabaseId, Lsn, TableId, TimelineId, TimelineMark};

use super::*;
use crate::merge::{Change, MergeSource};
use crate::space_map::pages_per_map;
use crate::superblock::{Encryption, PageProtection, TreeMarks};
use crate::tree::TreeAccess;

const STAMP: Lsn = Lsn::new(7);

/// Rows to be put, the next one last.
struct Rows(Vec<(Vec<u8>, Vec<u8>)>);

impl Rows {
    fn from_number(first: u32) -> Rows {
        Rows((first..first + 60).rev().map(|number| (number.to_be_bytes().to_vec(), vec![1; 900])).collect())
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
    }
}

fn options() -> TreeOptions {
    TreeOptions { cache_bytes: 64 << 10, recovery_file_bytes: 1 << 20, ..TreeOptions::default() }
}

fn put(tree: &Tree, first: u32) -> Result<(), TreeError> {
    let plan = tree.merge_chunk(&mut Rows::from_number(first), u64::MAX, STAMP)?;
    tree.apply_chunk(plan, None).map(|_| ())
}

/// The first chunk that needs pages of a second page of the space map, with room for ever more blocks on the disk: either it
/// is applied, or the tree is what it was and takes a chunk when there is space again.
#[test]
fn a_full_disk_stops_no_chunk_that_is_committed_at_a_new_page_of_the_space_map() {
    let disk = SimulatedDisk::new(1);
    put(&Tree::create(&disk, &values(), options()).unwrap(), 0).unwrap();
    let mut refused = 0;
    loop {
        let disk = disk.copy();
        let tree = Tree::open(&disk, TreeAccess::Write, options()).unwrap().tree;
        put(&tree, 50).unwrap();
        let left = pages_per_map(tree.format()) - 60;
        tree.space.lock().reserve(u32::try_from(left).unwrap()).unwrap();
        disk.set_capacity(Some(disk.allocated_bytes() + refused * 4096));
        let put_here = put(&tree, 100);
        assert_eq!(tree.failure(), None, "with {refused} free blocks: {put_here:?}");
        disk.set_capacity(None);
        if put_here.is_ok() {
            break;
        }
        put(&tree, 100).unwrap();
        let report = |damage| panic!("with {refused} free blocks: {damage:?}");
        tree.check(&mut { report }, &mut |_, _| ());
        refused += 1;
    }
    assert!(refused > 10, "the disk was full {refused} times only");
}
