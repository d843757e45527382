//! A memtable from rows that come in any order and that nobody reads meanwhile: recovery.
//!
//! ```text
//!   rows, dealt by key --> partition 0: push, push, ... sort --+
//!                     \--> partition 1: push, push, ... sort --+-- merge --> packed index
//!                     \--> partition 2: push, push, ... sort --+             (the rows stay where they are)
//! ```
//! Inserting row by row costs a search each; sorting costs less, and of rows with the same key the last one wins.
#![expect(
    unsafe_code,
    reason = "partitions point into arenas that they own, and hand them over to the memtable"
)]

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use seawall_types::Lsn;

use crate::arena::Arena;
use crate::entry::{EntryPointer, EntryRef};
use crate::memtable::Memtable;
use crate::node::head_of;
use crate::pack::Packer;

/// Rows of a sorted partition that are on their way into the cache while one is merged.
const PREFETCH_ROWS: usize = 16;

/// Rows that one thread of a replay collects. All rows of a key must go to the same partition, or come with different
/// stamps.
pub struct ReplayPartition {
    arena: Arena,
    rows: Vec<Row>,
    /// Whether `rows` is in key order, without duplicates.
    is_sorted: bool,
}

/// A row and the first 16 bytes of its key (the table's id and eight more), by which most comparisons are decided.
#[derive(Clone, Copy)]
struct Row {
    heads: [u64; 2],
    entry: EntryPointer,
}

impl Default for ReplayPartition {
    fn default() -> ReplayPartition {
        ReplayPartition::new()
    }
}

impl ReplayPartition {
    /// An empty partition.
    pub fn new() -> ReplayPartition {
        ReplayPartition { arena: Arena::new(), rows: Vec::new(), is_sorted: true }
    }

    /// Copies a row into the partition; a value of `None` is a deletion.
    pub fn push(&mut self, key: &[u8], stamp: Lsn, value: Option<&[u8]>) {
        let entry = EntryRef::create(&self.arena, key, stamp, value).pointer();
        self.rows.push(Row { heads: heads_of(key), entry });
        self.is_sorted = false;
    }

    /// Sorts the rows by key and keeps, of each key, the one with the highest stamp (of equal stamps the last pushed).
    pub fn sort(&mut self) {
        if self.is_sorted {
            return;
        }
        let arena = &self.arena;
        // Stable, so that rows of one key stay in the order in which they came.
        self.rows.sort_by(|left, right| compare(arena, *left, *right));
        self.rows.dedup_by(|later, kept| {
            if compare(arena, *later, *kept) != Ordering::Equal {
                return false;
            }
            if later.of(arena).newest_stamp() >= kept.of(arena).newest_stamp() {
                *kept = *later;
            }
            true
        });
        self.is_sorted = true;
    }

    /// The rows: in key order and one of each key after [`ReplayPartition::sort`], before it as they came.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], Lsn, Option<&[u8]>)> {
        self.rows.iter().map(|row| {
            let entry = row.of(&self.arena);
            let (stamp, value) = entry.newest_value().expect("rows of the log have a stamp");
            (entry.key(), stamp, value)
        })
    }

    /// Rows kept; before sorting, rows pushed.
    pub fn row_count(&self) -> usize {
        self.rows.len()
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Bytes of memory taken.
    pub fn bytes_used(&self) -> usize {
        self.arena.bytes_used() + self.rows.len() * size_of::<Row>()
    }
}

impl Memtable {
    /// Merges partitions into one memtable, which takes over their memory: no row is copied. Partitions that are not
    /// sorted are sorted first, so let each thread sort its own before. Filter and directory are sized for what there is.
    pub fn from_partitions(partitions: Vec<ReplayPartition>) -> Memtable {
        let row_count: usize = partitions.iter().map(ReplayPartition::row_count).sum();
        let mut memtable = Memtable::with_expected_rows(row_count);
        let mut runs = Vec::new();
        for mut partition in partitions {
            partition.sort();
            runs.push(partition.rows);
            memtable.adopt(partition.arena);
        }
        let mut packer = Packer::new(memtable.index().arena());
        let mut batch = memtable.lookup_batch();
        let mut packed_count = 0;
        merge(&memtable, &runs, |entry| {
            batch.push(entry);
            packer.push(entry);
            packed_count += 1;
        });
        batch.flush();
        memtable.index().set_root(packer.finish());
        memtable.shards().mine().count_rows(packed_count);
        memtable
    }
}

impl Row {
    /// The entry; the owner is the partition's arena, or whatever has taken it over.
    fn of<T>(self, _owner: &T) -> EntryRef<'_> {
        // SAFETY: rows are only looked at next to the owner of the arena that they were created in.
        unsafe { self.entry.upgrade() }
    }
}

/// A sorted run, by its next row; the greatest in a heap is the one with the lowest key.
struct Run<'m> {
    memtable: &'m Memtable,
    row: Row,
    rest: &'m [Row],
}

impl<'m> Run<'m> {
    fn new(memtable: &'m Memtable, rows: &'m [Row]) -> Option<Run<'m>> {
        let (row, rest) = rows.split_first()?;
        Some(Run { memtable, row: *row, rest })
    }

    /// Moves on to the next row; false at the end.
    fn advance(&mut self) -> bool {
        let Some((row, rest)) = self.rest.split_first() else { return false };
        (self.row, self.rest) = (*row, rest);
        if let Some(ahead) = self.rest.get(PREFETCH_ROWS) {
            ahead.entry.prefetch();
        }
        true
    }

    fn stamp(&self) -> Option<Lsn> {
        self.row.of(self.memtable).newest_stamp()
    }
}

impl Ord for Run<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        // Of equal keys, the newer first: the older ones that follow are dropped.
        compare(self.memtable, other.row, self.row).then_with(|| self.stamp().cmp(&other.stamp()))
    }
}

impl PartialOrd for Run<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Run<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Run<'_> {}

/// Gives the entries of all runs in key order, of each key the newest one.
fn merge<'m>(memtable: &'m Memtable, runs: &'m [Vec<Row>], mut take: impl FnMut(EntryRef<'m>)) {
    let mut heap: BinaryHeap<Run<'m>> = runs.iter().filter_map(|rows| Run::new(memtable, rows)).collect();
    let mut last: Option<Row> = None;
    while let Some(mut run) = heap.peek_mut() {
        let row = run.row;
        if last.is_none_or(|last| compare(memtable, last, row) != Ordering::Equal) {
            take(row.of(memtable));
            last = Some(row);
        }
        if !run.advance() {
            PeekMut::pop(run);
        }
    }
}

fn compare<T>(owner: &T, left: Row, right: Row) -> Ordering {
    left.heads.cmp(&right.heads).then_with(|| left.of(owner).key().cmp(right.of(owner).key()))
}

fn heads_of(key: &[u8]) -> [u64; 2] {
    match key.split_first_chunk::<8>() {
        Some((first, rest)) => [u64::from_be_bytes(*first), head_of(rest)],
        None => [head_of(key), 0],
    }
}
