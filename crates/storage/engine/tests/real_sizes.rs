//! Sizes that tests with small options do not meet: segments and writes of many megabytes, a log beyond 4 GiB, and as many commits
//! in flight as there may be.
#![expect(clippy::unwrap_used, reason = "a test that fails panics")]

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;

use common::{small_options, try_open};
use seawall_engine::{Database, Error, Options, Table};
use seawall_io::{Disk, OpenMode};
use seawall_keys::{MasterKey, SecretKey};
use seawall_simulation::{PowerLoss, SeededRandom, SimulatedDisk, seeds};
use seawall_tree::SuperblockFile;
use seawall_types::Lsn;
use seawall_wal::{HEADER_BYTES, Log, LogOptions};

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

fn large_options(is_encrypted: bool) -> Options {
    let mut options = Options {
        master_key: is_encrypted.then(|| MasterKey::Bytes(SecretKey::from_bytes([7; 32]))),
        ..small_options()
    };
    options.format.segment_bytes = 64 << 20;
    options.memory.memtable_bytes = 128 << 20;
    options.checkpoint.chunk_bytes = 32 << 20;
    options.checkpoint.threads = 2;
    options.log.spare_segments = 1;
    options
}

/// Rows of one commit: one of a few bytes, of more than 2 MiB, or many that are longer than a log buffer together.
fn draw_rows(random: &mut SeededRandom, number: u64) -> Rows {
    let (count, bytes) = *random.pick(&[(3, 100), (1, 3 << 20), (70, 256 << 10)]);
    (0..count).map(|row: u64| (row.to_be_bytes().to_vec(), number.to_be_bytes().repeat(bytes / 8))).collect()
}

fn commit(database: &Database, table: &Table, rows: &Rows) -> Result<(), Error> {
    let mut transaction = database.begin();
    rows.iter().try_for_each(|(key, value)| transaction.put(table, key, value))?;
    transaction.commit().map(drop)
}

fn rows_of(database: &Database, table: &Table) -> Rows {
    database.snapshot().rows(table).map(Result::unwrap).collect()
}

/// Which of `candidates` is there.
fn found(database: &Database, table: &Table, candidates: [&Rows; 2], context: &str) -> Rows {
    let rows = rows_of(database, table);
    assert!(
        candidates.contains(&&rows),
        "{context}: neither the rows before the last commit nor those after it"
    );
    rows
}

/// Lives that end with a power loss, in a new database whose log begins at `start`, or where the first one does; how far the log is
/// durable at the end.
fn lives(seed: u64, options: &Options, start: Option<Lsn>) -> Lsn {
    let mut random = SeededRandom::new(seed);
    let mut disk = SimulatedDisk::new(seed);
    let database = try_open(&disk, options.clone()).unwrap();
    database.create_table("t").unwrap();
    database.close().unwrap();
    if let Some(start) = start {
        begin_log_at(&disk, start);
    }
    let (mut state, mut attempted, mut number) = (Rows::new(), Rows::new(), 0);
    for life in 0..3 {
        let database = try_open(&disk, options.clone()).unwrap();
        let table = database.table("t").unwrap();
        state = found(&database, &table, [&state, &attempted], &format!("seed {seed}, life {life}"));
        disk.crash_at(disk.calls() + random.range(1..40));
        loop {
            number += 1;
            let rows = draw_rows(&mut random, number);
            attempted = state.clone();
            attempted.extend(rows.clone());
            if commit(&database, &table, &rows).is_err() {
                break;
            }
            state.clone_from(&attempted);
            if number % 5 == 0 && database.checkpoint().is_err() {
                break;
            }
        }
        drop((table, database));
        disk = disk.after_power_loss(PowerLoss::Random(random.next_u64()));
    }
    let database = try_open(&disk, options.clone()).unwrap();
    let table = database.table("t").unwrap();
    found(&database, &table, [&state, &attempted], &format!("seed {seed}, at the end"));
    database.checkpoint().unwrap();
    let mut damages = Vec::new();
    database.check(&mut |damage| damages.push(damage.to_string())).unwrap();
    assert!(damages.is_empty(), "seed {seed}: {damages:?}");
    database.statistics().log.flushed
}

/// Gives a database that is closed another log, empty, at `start`.
fn begin_log_at(disk: &SimulatedDisk, start: Lsn) {
    let (mut file, mut superblock, _) = SuperblockFile::open(disk, OpenMode::Write).unwrap();
    for entry in disk.list_all().iter().filter(|entry| entry.name.starts_with("log/")) {
        disk.remove(&entry.name).unwrap();
    }
    let options = LogOptions {
        segment_bytes: superblock.segment_bytes,
        ..LogOptions::new(superblock.database, superblock.timeline)
    };
    Log::create_at(Arc::new(disk.clone()), options, start).unwrap();
    (superblock.redo_point, superblock.log_end) = (start, start);
    file.store(&superblock).unwrap();
}

#[test]
fn long_segments_and_writes_lose_nothing_and_bring_nothing_back_over_power_losses() {
    let reached = seeds(4).map(|seed| lives(seed, &large_options(seed % 2 == 0), None)).max();
    assert!(
        reached > Some(Lsn::new(96 << 20)) || seeds(4).count() == 1,
        "no log came further into a segment than {reached:?}"
    );
}

/// From three segments before the border on.
#[test]
fn a_log_crosses_4_gib_and_loses_nothing_over_power_losses() {
    const BORDER: u64 = 1 << 32;
    let mut reached = Lsn::new(0);
    for seed in seeds(6) {
        let segment_bytes = if seed % 2 == 0 { 64 << 10 } else { 1 << 20 };
        let mut options = large_options(seed % 3 == 0);
        options.format.segment_bytes = segment_bytes;
        let start = Lsn::new(BORDER - 3 * segment_bytes + HEADER_BYTES);
        reached = reached.max(lives(seed, &options, Some(start)));
    }
    assert!(reached > Lsn::new(BORDER) || seeds(6).count() == 1, "no log came further than {reached}");
}

/// More commits than the ring has places, which nobody waits for and no thread flushes: whoever finds no place flushes.
#[test]
fn more_commits_in_flight_than_there_are_places_for_go_on_and_become_durable_in_order() {
    const COMMITS: u64 = (1 << 16) + 5_000;
    let disk = SimulatedDisk::new(1);
    let mut options = small_options();
    options.memory.memtable_bytes = 128 << 20;
    options.checkpoint.log_bytes = 1 << 30;
    options.format.segment_bytes = 1 << 20;
    let database = try_open(&disk, options.clone()).unwrap();
    let table = database.create_table("t").unwrap();
    let mut handles = Vec::new();
    for number in 0..COMMITS {
        let mut transaction = database.begin();
        transaction.put(&table, number.to_be_bytes(), b"value").unwrap();
        handles.push(transaction.commit_async().unwrap());
    }
    let last = handles.pop().unwrap();
    last.wait().unwrap();
    let left = disk.after_power_loss(PowerLoss::LoseAll);
    drop((handles, table, database));
    let database = try_open(&left, options).unwrap();
    let table = database.table("t").unwrap();
    let rows = rows_of(&database, &table);
    let expected = (0..COMMITS).map(|number| number.to_be_bytes().to_vec());
    assert!(rows.into_keys().eq(expected), "all that were in flight before the last are durable, too");
}
