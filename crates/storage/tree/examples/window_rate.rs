//! How fast windows of the tree are merged with sorted runs: rows of 108 bytes, scattered, by one thread or several.
//!
//! ```sh
//! window_rate DIR 3000000 8 100000 16 1      # rows, runs, rows of each run, MiB of a window, threads
//! ```
#![expect(clippy::print_stdout, reason = "it is what a measurement is for")]

use std::error::Error;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use seawall_io::{Clock, Disk, OsDisk, SystemClock};
use seawall_tree::{
    Encryption, LoadedWindow, OldValues, PageProtection, Part, RUN_NUMBERS, StoredRun, Superblock, Tree,
    TreeError, TreeMarks, TreeOptions,
};
use seawall_types::{DatabaseId, Lsn, TableId, TimelineId, TimelineMark};

const VALUE: [u8; 100] = [7; 100];
const STAMP: Lsn = Lsn::new(7);
/// Runs are listed under this number, and have filters under those from the other on.
const LIST: u64 = 1 << 63;
const FILTERS: u64 = RUN_NUMBERS.end;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [directory, numbers @ ..] = &arguments[..] else { return Err("which directory?".into()) };
    let numbers = numbers.iter().map(|number| number.parse()).collect::<Result<Vec<u64>, _>>()?;
    let [rows, runs, run_rows, window_mib, threads] = numbers[..] else { return Err("five numbers".into()) };
    let disk = OsDisk::new(directory);
    disk.create_directory("")?;
    let tree = Arc::new(Tree::create(&disk, &superblock(), TreeOptions::default())?);
    load(&tree, &keys(0..rows), &[])?;
    let stored: Vec<StoredRun> = (0..runs).map(stored_run).collect();
    for (number, run) in (0..).zip(&stored) {
        let first = rows + number * run_rows;
        load(&tree, &keys(first..first + run_rows), &run.key(&[]))?;
    }
    let bytes = (rows + runs * run_rows) * 108;
    let count = bytes.div_ceil(window_mib << 20).max(1);
    let ends = (0..=count).map(|index| if index == count { LIST } else { LIST / count * index });
    let mut ends: Vec<Vec<u8>> = ends.map(|end| end.to_be_bytes().to_vec()).collect();
    ends[0].clear();
    let clock = SystemClock;
    let (mut building, mut applying, mut written) = (Duration::ZERO, Duration::ZERO, 0);
    for pair in ends.windows(2) {
        let started = clock.monotonic();
        let window = pair[0].clone()..pair[1].clone();
        let windows = build(&tree, &stored, &window, threads)?;
        building += clock.monotonic() - started;
        let started = clock.monotonic();
        let merged = tree.swap_windows(windows, &stored, STAMP)?;
        written += merged.rows;
        tree.apply_chunk(merged.chunk, None)?;
        applying += clock.monotonic() - started;
    }
    let seconds = building.as_secs_f64();
    let rate = f64::from(u32::try_from(written)?) / seconds;
    println!(
        "{written} rows in {count} windows: built in {seconds:.2} s ({rate:.0} rows/s, {:.0} MB/s), applied in {:.2} s",
        rate * 108.0 / 1e6,
        applying.as_secs_f64()
    );
    Ok(())
}

/// The window in as many pieces as there are threads.
fn build(
    tree: &Arc<Tree>,
    runs: &[StoredRun],
    window: &Range<Vec<u8>>,
    threads: u64,
) -> Result<Vec<LoadedWindow>, TreeError> {
    let number = |key: &[u8]| {
        let mut bytes = [0; 8];
        let length = key.len().min(8);
        bytes[..length].copy_from_slice(&key[..length]);
        u64::from_be_bytes(bytes)
    };
    let (first, end) = (number(&window.start), number(&window.end));
    let mut ends: Vec<Vec<u8>> =
        (1..threads).map(|piece| (first + (end - first) / threads * piece).to_be_bytes().to_vec()).collect();
    ends.insert(0, window.start.clone());
    ends.push(window.end.clone());
    std::thread::scope(|scope| {
        let load = |pair: &[Vec<u8>]| {
            let range = pair[0].clone()..pair[1].clone();
            scope.spawn(move || tree.load_window(range, runs, None, &|_| false, STAMP))
        };
        let threads: Vec<_> = ends.windows(2).map(load).collect();
        threads.into_iter().map(|thread| thread.join().expect("the thread does not panic")).collect()
    })
}

/// Row keys in order: scattered over the lower half of all keys of 8 bytes.
fn keys(numbers: Range<u64>) -> Vec<u64> {
    let mut keys: Vec<u64> = numbers.map(|number| spread(number) >> 1).collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}

fn load(tree: &Arc<Tree>, keys: &[u64], prefix: &[u8]) -> Result<(), Box<dyn Error>> {
    let end = match prefix {
        [] => LIST.to_be_bytes().to_vec(),
        run => [run, &[0xFF; 9]].concat(),
    };
    let mut load = tree.bulk_loader(prefix, &end, STAMP);
    for key in keys {
        load.push(&[prefix, &key.to_be_bytes()].concat(), &VALUE)?;
    }
    let plan = tree.swap(vec![Part::Graft { load: Box::new(load), values: OldValues::Free }], &[], STAMP)?;
    tree.apply_chunk(plan, None)?;
    Ok(())
}

fn stored_run(number: u64) -> StoredRun {
    let listed = [LIST.to_be_bytes(), number.to_be_bytes()].concat();
    StoredRun { rows: RUN_NUMBERS.start + number, filter: FILTERS + number, listed }
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
