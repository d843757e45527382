//! What reading ahead is worth where no leaf is cached: merges into a tree whose leaves lie in no order, with the
//! operating system's cache dropped by the caller before each step.
//!
//! ```sh
//! cold_leaves DIR load 600000 40 && sync && echo 3 > /proc/sys/vm/drop_caches   # rows, merges
//! cold_leaves DIR merge 30000 ahead 1       # or blind; threads
//! ```
#![expect(clippy::print_stdout, reason = "it is what a measurement is for")]

use std::error::Error;

use seawall_io::{Clock, Disk, OsDisk, SystemClock};
use seawall_tree::{
    Change, DivisibleSource, Encryption, MergeSource, PageProtection, Superblock, Tree, TreeAccess,
    TreeMarks, TreeOptions,
};
use seawall_types::{DatabaseId, Lsn, TableId, TimelineId, TimelineMark};

const CHUNK_BYTES: u64 = 16 << 20;
const VALUE_BYTES: usize = 500;
const STAMP: Lsn = Lsn::new(7);

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let [directory, step @ ..] = &words[..] else { return Err("which directory?".into()) };
    let disk = OsDisk::new(*directory);
    match step {
        ["load", rows, merges] => load(&disk, rows.parse()?, merges.parse()?),
        ["merge", rows, how, threads] => {
            let rows: u64 = rows.parse()?;
            let tree = open(&disk, threads.parse()?)?;
            let first: u64 = SystemClock.wall_micros().unsigned_abs();
            let keys = (first..first + rows).map(spread).collect();
            let changes = Changes::new(keys, *how == "ahead");
            report("merge", &tree, |tree| merge(tree, changes))
        }
        _ => Err("load ROWS MERGES, or merge ROWS ahead|blind THREADS".into()),
    }
}

fn load(disk: &OsDisk, rows: u64, merges: u64) -> Result<(), Box<dyn Error>> {
    disk.create_directory("")?;
    let tree = Tree::create(disk, &superblock(), TreeOptions { threads: 2, ..TreeOptions::default() })?;
    // In random order, a part at a time: leaves split again and again. The more parts, the farther apart lie neighbours.
    for start in (0..rows).step_by(usize::try_from(rows.div_ceil(merges))?) {
        let keys = (start..rows.min(start + rows.div_ceil(merges))).map(spread).collect();
        merge(&tree, Changes::new(keys, true))?;
    }
    tree.store_superblock(&superblock())?;
    Ok(())
}

fn open(disk: &OsDisk, threads: usize) -> Result<Tree, Box<dyn Error>> {
    let options = TreeOptions { cache_bytes: 8 << 20, threads, ..TreeOptions::default() };
    Ok(Tree::open(disk, TreeAccess::Write, options)?.tree)
}

/// `step` returns the seconds that count.
fn report(
    name: &str,
    tree: &Tree,
    step: impl FnOnce(&Tree) -> Result<f64, Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    let before = tree.pages().file().read_counts().reads;
    let seconds = step(tree)?;
    let reads = tree.pages().file().read_counts().reads - before;
    let rate = f64::from(u32::try_from(reads)?) / seconds;
    println!("{name}: {reads} pages read, {seconds:.3} s, {rate:.0} pages/s");
    Ok(())
}

/// Seconds spent on planning: what chunks take to be applied is another matter.
fn merge(tree: &Tree, changes: Changes) -> Result<f64, Box<dyn Error>> {
    let mut seconds = 0.0;
    let mut merge = tree.begin_merge(changes)?;
    while !merge.is_done() {
        let started = SystemClock.monotonic();
        let plan = tree.continue_merge(&mut merge, CHUNK_BYTES, STAMP)?;
        seconds += (SystemClock.monotonic() - started).as_secs_f64();
        tree.apply_chunk(plan, None)?;
    }
    Ok(seconds)
}

/// Rows that are put, ascending.
struct Changes {
    keys: Vec<[u8; 8]>,
    next: usize,
    looks_ahead: bool,
    value: [u8; VALUE_BYTES],
}

impl Changes {
    fn new(keys: Vec<u64>, looks_ahead: bool) -> Changes {
        let mut keys: Vec<[u8; 8]> = keys.into_iter().map(u64::to_be_bytes).collect();
        keys.sort_unstable();
        Changes { keys, next: 0, looks_ahead, value: [7; VALUE_BYTES] }
    }
}

impl MergeSource for Changes {
    fn peek(&self) -> Option<(&[u8], Change<'_>)> {
        self.keys.get(self.next).map(|key| (&key[..], Change::Put(&self.value)))
    }

    fn advance(&mut self) {
        self.next += 1;
    }

    fn look_ahead(&self, visit: &mut dyn FnMut(&[u8]) -> bool) {
        if self.looks_ahead {
            let _stopped_at = self.keys[self.next..].iter().find(|key| !visit(&key[..]));
        }
    }
}

impl DivisibleSource for Changes {
    fn dividing_keys(&self, parts: usize) -> Vec<Vec<u8>> {
        (1..parts).map(|part| self.keys[part * self.keys.len() / parts].to_vec()).collect()
    }

    fn split_off(&mut self, key: &[u8]) -> Changes {
        let at = self.keys.partition_point(|other| &other[..] < key);
        Changes { keys: self.keys.split_off(at), ..*self }
    }
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
