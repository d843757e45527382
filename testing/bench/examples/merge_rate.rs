//! How many rows a second a checkpoint merges into the tree, and how long its chunks take to apply, on a real disk:
//! `merge_rate <empty directory> [rows in the tree] [rows changed at a time] [rounds] [threads]`.
#![expect(clippy::print_stdout, reason = "it is what a measurement is for")]

use std::error::Error;
use std::time::Duration;

use seawall_io::{Clock, Disk, OsDisk, SystemClock};
use seawall_memtable::{Cursor, Memtable};
use seawall_tree::{
    Change, DivisibleSource, Encryption, MergeSource, PageProtection, Superblock, Tree, TreeMarks,
    TreeOptions,
};
use seawall_types::{DatabaseId, Lsn, TableId, TimelineId, TimelineMark};

const CHUNK_BYTES: u64 = 16 << 20;
const VALUE_BYTES: usize = 100;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().ok_or("which directory?")?;
    let mut number = |default: u64| arguments.next().map_or(Ok(default), |text| text.parse());
    let (rows, changed, rounds) = (number(1_000_000)?, number(500_000)?, number(3)?);
    let threads = usize::try_from(number(1)?)?;
    let disk = OsDisk::new(directory);
    disk.create_directory("")?;
    let options = TreeOptions { threads, ..TreeOptions::default() };
    let tree = Tree::create(&disk, &superblock(), options)?;
    for start in (0..rows).step_by(500_000) {
        let count = (rows - start).min(500_000);
        merge(&tree, "first rows, in random order", (start..start + count).map(spread))?;
    }
    let mut random = 1_u64;
    for round in 0..rounds {
        let keys = (0..changed).map(|_| {
            random = spread(random.wrapping_add(round));
            spread(random % rows)
        });
        merge(&tree, "overwrites of random rows", keys)?;
    }
    for round in 0..rounds {
        let first = rows + round * changed;
        merge(&tree, "new rows at random places", (first..first + changed).map(spread))?;
    }
    for round in 0..rounds {
        let first = round * changed;
        merge(&tree, "new rows behind all others", (first..first + changed).map(|key| u64::MAX / 2 + key))?;
    }
    Ok(())
}

/// Merges one memtable with the rows `keys`, as a checkpoint does.
fn merge(tree: &Tree, name: &str, keys: impl Iterator<Item = u64>) -> Result<(), Box<dyn Error>> {
    static STAMP: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
    let stamp = Lsn::new(STAMP.fetch_add(1, std::sync::atomic::Ordering::Relaxed));
    let memtable = Memtable::new(128 << 20);
    for key in keys {
        let mut row_key = 1000_u64.to_be_bytes().to_vec();
        row_key.extend_from_slice(&(key >> 1).to_be_bytes());
        memtable.insert(&row_key, stamp, Some(&value(key, stamp)), || stamp);
    }
    let (mut applying, mut chunks, mut pages) = (Duration::ZERO, 0_u32, 0);
    let started = SystemClock.monotonic();
    let mut merge = tree.begin_merge(Rows::within(&memtable, &[], None))?;
    let mut planning = SystemClock.monotonic() - started;
    while !merge.is_done() {
        let started = SystemClock.monotonic();
        let plan = tree.continue_merge(&mut merge, CHUNK_BYTES, stamp)?;
        let planned = SystemClock.monotonic();
        let applied = tree.apply_chunk(plan, None)?;
        planning += planned - started;
        applying += SystemClock.monotonic() - planned;
        chunks += 1;
        pages += applied.statistics.fresh_pages + applied.statistics.protected_pages;
    }
    let count = f64::from(u32::try_from(memtable.row_count())?);
    println!(
        "{name}: {count} rows, {pages} pages, {chunks} chunks; planning {:.0} rows/s ({:.3} s), applying {:.3} s",
        count / planning.as_secs_f64(),
        planning.as_secs_f64(),
        applying.as_secs_f64()
    );
    Ok(())
}

struct Rows<'a> {
    memtable: &'a Memtable,
    cursor: Cursor,
    current: Option<(&'a [u8], Option<&'a [u8]>)>,
    end: Option<Vec<u8>>,
}

impl<'a> Rows<'a> {
    fn within(memtable: &'a Memtable, from: &[u8], end: Option<Vec<u8>>) -> Rows<'a> {
        let mut cursor = Cursor::new();
        cursor.seek(memtable, from);
        let mut rows = Rows { memtable, cursor, current: None, end };
        rows.advance();
        rows
    }
}

impl MergeSource for Rows<'_> {
    fn peek(&self) -> Option<(&[u8], Change<'_>)> {
        self.current.map(|(key, value)| (key, value.map_or(Change::Delete, Change::Put)))
    }

    fn advance(&mut self) {
        let next = self.cursor.next(self.memtable);
        let within = next.filter(|(key, _)| self.end.as_ref().is_none_or(|end| *key < &end[..]));
        self.current = within.map(|(key, versions)| (key, versions.newest().1));
    }

    fn look_ahead(&self, visit: &mut dyn FnMut(&[u8]) -> bool) {
        let Some((key, _)) = self.current else { return };
        let mut ahead = Rows::within(self.memtable, key, self.end.clone());
        while let Some((key, _)) = ahead.current
            && visit(key)
        {
            ahead.advance();
        }
    }
}

impl DivisibleSource for Rows<'_> {
    fn dividing_keys(&self, parts: usize) -> Vec<Vec<u8>> {
        self.memtable.dividing_keys(&[], None, parts).into_iter().map(<[u8]>::to_vec).collect()
    }

    fn split_off(&mut self, key: &[u8]) -> Self {
        let rest = Rows::within(self.memtable, key, self.end.replace(key.to_vec()));
        self.current = self.current.filter(|(current, _)| *current < key);
        rest
    }
}

/// Half random, half constant, as in `seawall-bench`.
fn value(key: u64, stamp: Lsn) -> Vec<u8> {
    let mut value = vec![b'v'; VALUE_BYTES];
    let mut random = key ^ stamp.get().wrapping_mul(0x9E37_79B9_7F4A_7C15);
    for word in value[..VALUE_BYTES / 2].chunks_mut(8) {
        random = spread(random);
        word.copy_from_slice(&random.to_le_bytes()[..word.len()]);
    }
    value
}

/// A bijection that scatters numbers over 64 bits.
fn spread(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

fn superblock() -> Superblock {
    Superblock {
        sequence: 0,
        database: DatabaseId::from_bytes([9; 16]),
        page_bytes: 8192,
        timeline: TimelineId::FIRST,
        timeline_mark: TimelineMark::NONE,
        segment_bytes: 16 << 20,
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
        marks: TreeMarks::default(),
        next_run: 0,
        run_count: 0,
    }
}
