//! What encryption costs: the same work on a plain and on an encrypted database, by turns, medians of several rounds.
//!
//! ```text
//! cargo run --release -p seawall-bench --example encryption_cost -- DIR [ROUNDS]
//! ```
//! DIR is where scratch databases are made. Reads have a cache of 1 MiB, so that each reads a page from the operating
//! system's cache, checks it and, of the encrypted database, decrypts it.

use std::error::Error;
use std::path::Path;
use std::time::Duration;

use seawall::{Database, Durability, MasterKey, Options, SecretKey, TransactionOptions};
use seawall_io::{Clock, SystemClock};

const ROWS: u32 = 300_000;
const DURABLE_THREADS: u32 = 8;
const DURABLE_PUTS: u32 = 400;
const READS: u32 = 60_000;
const NAMES: [&str; 7] = [
    "buffered puts a second, 1 thread",
    "log bytes a put",
    "rows a second merged by a checkpoint",
    "durable puts a second, 8 threads",
    "point reads a second past the cache",
    "rows a second scanned past the cache",
    "records a second replayed at start",
];

type Figures = [f64; NAMES.len()];

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let parent = arguments.next().ok_or("give a directory for scratch databases")?;
    let rounds = arguments.next().map_or(Ok(5), |text| text.parse())?;
    let mut measured: [Vec<Figures>; 2] = Default::default();
    for _ in 0..rounds {
        for (figures, is_encrypted) in measured.iter_mut().zip([false, true]) {
            let scratch = tempfile::tempdir_in(&parent)?;
            let master_key = is_encrypted.then(|| MasterKey::Bytes(SecretKey::from_bytes([7; 32])));
            figures.push(measure(scratch.path(), &Options { master_key, ..Options::default() })?);
        }
    }
    println!("{:<38} {:>12} {:>12} {:>7}", "median of rounds by turns", "plain", "encrypted", "ratio");
    for (index, name) in NAMES.iter().enumerate() {
        let [plain, encrypted] = measured.each_ref().map(|figures| median(figures, index));
        println!("{name:<38} {plain:>12.0} {encrypted:>12.0} {:>7.2}", encrypted / plain);
    }
    Ok(())
}

fn median(figures: &[Figures], index: usize) -> f64 {
    let mut values: Vec<f64> = figures.iter().map(|figures| figures[index]).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// A key that is nowhere near the one before.
fn key(number: u32) -> [u8; 8] {
    u64::from(number).wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes()
}

fn measure(directory: &Path, options: &Options) -> Result<Figures, Box<dyn Error>> {
    let (home, copy) = (directory.join("db"), directory.join("copy"));
    let value: Vec<u8> = (0..100).collect();
    let database = Database::open(&home, options.clone())?;
    let table = database.create_table("rows")?;
    let buffered = TransactionOptions { durability: Durability::Async, ..options.transaction };
    let before = database.statistics().log.bytes;
    let puts = time(|| {
        for number in 0..ROWS {
            let mut transaction = database.with(buffered).begin();
            transaction.put(&table, key(number), &value)?;
            transaction.commit()?;
        }
        Ok(())
    })?;
    database.flush()?;
    let log_bytes = database.statistics().log.bytes - before;
    copy_files(&home, &copy)?;
    let merged = time(|| Ok(database.checkpoint().map(|_| ())?))?;
    let durable = time(|| {
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..DURABLE_THREADS)
                .map(|thread| {
                    let (database, table, value) = (&database, &table, &value);
                    scope.spawn(move || {
                        (0..DURABLE_PUTS).try_for_each(|number| {
                            database.put(table, key(thread << 16 | number), value).map(|_| ())
                        })
                    })
                })
                .collect();
            threads
                .into_iter()
                .try_for_each(|thread| thread.join().expect("a thread that puts does not panic"))
        })?;
        Ok(())
    })?;
    database.close()?;

    let database =
        Database::open(&home, options.clone().with(|options| options.memory.cache_bytes = 1 << 20))?;
    let table = database.table("rows")?;
    let reads = time(|| {
        for number in 0..READS {
            let found = database.get(&table, key(number * 7 % ROWS))?;
            assert!(found.is_some(), "a row that was put is there");
        }
        Ok(())
    })?;
    let scan = time(|| {
        let rows = database.snapshot().rows(&table).count();
        assert!(rows >= ROWS as usize, "{rows} rows");
        Ok(())
    })?;
    database.close()?;

    let recovered = Database::open(&copy, options.clone())?.statistics().recovery;
    let replay = recovered.records as f64 / recovered.duration.as_secs_f64();
    let rate = |count: u32, time: Duration| f64::from(count) / time.as_secs_f64();
    Ok([
        rate(ROWS, puts),
        log_bytes as f64 / f64::from(ROWS),
        rate(ROWS, merged),
        rate(DURABLE_THREADS * DURABLE_PUTS, durable),
        rate(READS, reads),
        rate(ROWS, scan),
        replay,
    ])
}

fn time(work: impl FnOnce() -> Result<(), Box<dyn Error>>) -> Result<Duration, Box<dyn Error>> {
    let start = SystemClock.monotonic();
    work()?;
    Ok(SystemClock.monotonic() - start)
}

/// What a crash would leave: the files of an open database, everything in them flushed.
fn copy_files(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_files(&entry.path(), &target)?;
        } else {
            std::fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
