//! What scattered updates do to checkpoints, and to scans afterwards.
//!
//! ```text
//! cargo run --release -p seawall-bench --example scattered_updates -- DIRECTORY ROWS UPDATES ROUNDS
//! ```
//! Loads `ROWS` rows of 8-byte keys and 100-byte values in key order; then, `ROUNDS` times, overwrites `UPDATES` rows drawn at
//! random and takes a checkpoint. Then the page file is dropped from the operating system's cache, and read: all of it in key
//! order, and, dropped again, scans of 1,000 rows from random keys for five seconds. Written bytes are those that the block
//! device counted, for everybody on the machine.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fastrand::Rng;
use seawall::{Database, Durability, Options, Table};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1);
    let mut next = |what: &str| arguments.next().ok_or_else(|| format!("{what} is missing"));
    let directory = PathBuf::from(next("DIRECTORY")?).join("scattered-updates");
    let rows: u64 = next("ROWS")?.parse()?;
    let updates: u64 = next("UPDATES")?.parse()?;
    let rounds: u64 = next("ROUNDS")?.parse()?;
    let mut random = Rng::with_seed(1);
    load(&directory, rows, &mut random)?;
    update(&directory, rows, updates, rounds, &mut random)?;
    drop_from_cache(&directory)?;
    let database = Database::open(&directory, options())?;
    let table = database.table("t")?;
    let (count, elapsed) = timed(|| scan(&database, &table, &[], u64::MAX))?;
    println!("full scan: {:.0} rows/s", per_second(count, elapsed));
    database.close()?;
    drop_from_cache(&directory)?;
    short_scans(&directory, rows, &mut random)?;
    std::fs::remove_dir_all(directory)?;
    Ok(())
}

/// Nothing but a request starts a checkpoint.
fn options() -> Options {
    let mut options = Options::default();
    options.memory.memtable_bytes = 2 << 30;
    options.memory.cache_bytes = 256 << 20;
    options.checkpoint.log_bytes = 1 << 40;
    options.checkpoint.interval = Duration::from_secs(100_000);
    options.recovery.target = None;
    options
}

/// A value of which half can be compressed.
fn value(random: &mut Rng) -> [u8; 100] {
    let mut value = [b'x'; 100];
    random.fill(&mut value[..48]);
    value
}

fn load(directory: &Path, rows: u64, random: &mut Rng) -> Outcome<()> {
    let database = Database::open(directory, options())?;
    let mut load = database.tables().bulk_load("t")?;
    for row in 0..rows {
        load.add(row.to_be_bytes(), value(random))?;
    }
    load.finish()?;
    database.checkpoint()?;
    Ok(database.close()?)
}

fn update(directory: &Path, rows: u64, updates: u64, rounds: u64, random: &mut Rng) -> Outcome<()> {
    let database = Database::open(directory, options())?;
    let table = database.table("t")?;
    let mut times = Vec::new();
    let before = device_written(directory);
    for _ in 0..rounds {
        for _ in 0..updates {
            let row = random.u64(..rows);
            database.with(Durability::Async).put(&table, row.to_be_bytes(), value(random))?;
        }
        let (_, elapsed) = timed(|| Ok(database.checkpoint()?))?;
        times.push(elapsed);
    }
    database.close()?;
    times.sort_unstable();
    println!("checkpoint, median: {:.3} s", times[times.len() / 2].as_secs_f64());
    if let Some((before, after)) = before.zip(device_written(directory)) {
        println!("device, a checkpoint, log included: {} MiB", ((after - before) / rounds.max(1)) >> 20);
    }
    Ok(())
}

fn scan(database: &Database, table: &Table, from: &[u8], limit: u64) -> Outcome<u64> {
    let snapshot = database.snapshot();
    let mut range = snapshot.range(table, from..);
    let mut count = 0;
    while count < limit && range.next_row()?.is_some() {
        count += 1;
    }
    Ok(count)
}

fn short_scans(directory: &Path, rows: u64, random: &mut Rng) -> Outcome<()> {
    let database = Database::open(directory, options())?;
    let table = database.table("t")?;
    let (scans, elapsed) = timed(|| {
        let (mut scans, mut spent) = (0, Duration::ZERO);
        while spent < Duration::from_secs(5) {
            let from = (random.u64(..rows)).to_be_bytes();
            spent += timed(|| scan(&database, &table, &from, 1000))?.1;
            scans += 1;
        }
        Ok(scans)
    })?;
    println!("scans of 1,000 rows: {:.0}/s", per_second(scans, elapsed));
    Ok(database.close()?)
}

#[expect(clippy::disallowed_methods, reason = "an example that measures has no simulated clock")]
fn timed<T>(work: impl FnOnce() -> Outcome<T>) -> Outcome<(T, Duration)> {
    let start = Instant::now();
    let result = work()?;
    Ok((result, start.elapsed()))
}

fn per_second(count: u64, elapsed: Duration) -> f64 {
    count as f64 / elapsed.as_secs_f64()
}

#[expect(clippy::disallowed_methods, reason = "an example that measures looks behind the engine's disk")]
fn drop_from_cache(directory: &Path) -> Outcome<()> {
    let file = std::fs::File::open(directory.join("pages"))?;
    file.sync_all()?;
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
    Ok(())
}

/// Field 7 of the device's `stat`, in sectors of 512 bytes; `None` where the kernel does not say.
fn device_written(directory: &Path) -> Option<u64> {
    let device = std::fs::metadata(directory).ok()?.dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let stat = std::fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/stat")).ok()?;
    Some(stat.split_whitespace().nth(6)?.parse::<u64>().ok()? * 512)
}
