//! Commits of many rows, which are in the memtable before they have their place in the log.
#![expect(clippy::unwrap_used, reason = "a test that fails panics")]

mod common;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use common::{small_options, try_open};
use seawall_engine::{
    Background, Database, Durability, Environment, Error, Isolation, LockWait, Options, Snapshot, Table,
    TransactionOptions,
};
use seawall_simulation::SimulatedDisk;
use seawall_testing::{SetWhenDropped, wait_until};
use seawall_types::Lsn;

/// Enough to be put in ahead.
const ROWS: u32 = 200;
const ROUNDS: u32 = 60;
/// Rounds after which a checkpoint must have met one.
const ROUNDS_MAX: u32 = 100 * ROUNDS;

/// The end of the log when the commit began, and its place there.
fn fill(database: &Database, table: &Table, round: u32, gid: Option<&str>) -> Range<Lsn> {
    let mut transaction = database.begin();
    (0..ROWS).for_each(|row| transaction.put(table, row.to_be_bytes(), round.to_be_bytes()).unwrap());
    let appended = || database.statistics().log.appended;
    let (began, ended) = match gid {
        Some(gid) => {
            transaction.prepare(gid).unwrap();
            (appended(), database.two_phase().commit(gid).unwrap())
        }
        None => (appended(), transaction.commit().unwrap()),
    };
    began..ended
}

/// The round that all rows are of.
fn round_of(snapshot: &Snapshot, table: &Table) -> u32 {
    let values: Vec<Vec<u8>> = snapshot.rows(table).map(|row| row.unwrap().1).collect();
    assert!(values.windows(2).all(|pair| pair[0] == pair[1]), "rows of two commits at {}", snapshot.lsn());
    assert!(values.is_empty() || values.len() == ROWS as usize, "{} rows", values.len());
    let first = values.first().map_or(0, |value| u32::from_be_bytes(value[..].try_into().unwrap()));
    for row in [0, ROWS / 2, ROWS - 1] {
        let value = snapshot.get(table, row.to_be_bytes()).unwrap();
        let round = value.map_or(0, |value| u32::from_be_bytes(value.try_into().unwrap()));
        assert_eq!(round, first, "row {row} at {}", snapshot.lsn());
    }
    first
}

fn options(background: Background) -> Options {
    let mut options = Options { background, ..small_options() };
    options.memory.memtable_bytes = 256 << 10;
    options.checkpoint.log_bytes = 100_000;
    options.checkpoint.chunk_bytes = 16 << 10;
    options.transaction.lock_wait = LockWait::Timeout(std::time::Duration::from_secs(120));
    options
}

#[test]
fn a_large_commit_is_seen_whole_or_not_at_all_beside_small_ones_and_checkpoints() {
    for background in [Background::Threads, Background::Manual] {
        let environment = Environment::of_the_system(Arc::new(SimulatedDisk::new(1)));
        let database = Database::open(environment, options(background)).unwrap();
        let [large, small] = ["large", "small"].map(|name| database.create_table(name).unwrap());
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (database, large, small, done) = (&database, &large, &small, &done);
            let readers: Vec<_> = (0..2)
                .map(|_| {
                    scope.spawn(move || {
                        let mut last = 0;
                        while !done.load(Ordering::SeqCst) {
                            let snapshot = database.snapshot();
                            let round = round_of(&snapshot, large);
                            assert!(round >= last, "{round} after {last}");
                            assert_eq!(round_of(&snapshot, large), round, "a snapshot does not change");
                            last = round;
                        }
                    })
                })
                .collect();
            scope.spawn(move || {
                for turn in 0_u32.. {
                    if done.load(Ordering::SeqCst) {
                        return;
                    }
                    database.put(small, (turn % 7).to_be_bytes(), [0; 100]).unwrap();
                }
            });
            let _stop = SetWhenDropped(done);
            let mut commits = Vec::new();
            let has_met = |commits: &[Range<Lsn>]| {
                let redo_point = database.statistics().checkpoints.redo_point;
                commits.iter().any(|commit| commit.contains(&redo_point))
            };
            let (mut met, mut rounds) = (false, 1..=ROUNDS_MAX);
            while let Some(round) = rounds.next().filter(|round| *round <= ROUNDS || !met) {
                let gid = round.to_string();
                commits.push(fill(database, large, round, round.is_multiple_of(3).then_some(&gid[..])));
                assert_eq!(round_of(&database.snapshot(), large), round, "who commits sees it");
                met |= has_met(&commits);
            }
            assert!(met, "no checkpoint has frozen the memtable while a large commit was on its way");
            done.store(true, Ordering::SeqCst);
            readers.into_iter().for_each(|reader| reader.join().unwrap());
        });
        database.check(&mut |damage| panic!("{damage:?}")).unwrap();
        database.close().unwrap();
    }
}

/// A commit of many rows that is refused when its rows are in the memtable already: the disk has no room for its record.
fn refused(disk: &SimulatedDisk, database: &Database, table: &Table) {
    let before = database.statistics().memtable.bytes;
    let mut transaction = database.begin();
    (0..ROWS).for_each(|row| transaction.put(table, row.to_be_bytes(), [0; 4 << 10]).unwrap());
    disk.set_capacity(Some(disk.allocated_bytes()));
    let answer = transaction.commit();
    disk.set_capacity(None);
    assert!(matches!(answer, Err(Error::DiskFull { .. })), "{answer:?}");
    assert!(database.statistics().memtable.bytes > before, "its rows were not in the memtable yet");
}

#[test]
fn a_large_commit_that_is_refused_leaves_nothing_behind() {
    let disk = SimulatedDisk::new(1);
    // So large that no refused commit meets a checkpoint that was not asked for.
    let mut options = small_options();
    options.memory.memtable_bytes = 64 << 20;
    let database = try_open(&disk, options).unwrap();
    let table = database.create_table("t").unwrap();
    database.put(&table, 0_u32.to_be_bytes(), b"old").unwrap();
    let before = database.snapshot();
    refused(&disk, &database, &table);
    refused(&disk, &database, &table);
    let rows = |database: &Database| -> Vec<(Vec<u8>, Vec<u8>)> {
        database.snapshot().rows(&table).map(Result::unwrap).collect()
    };
    let old = (0_u32.to_be_bytes().to_vec(), b"old".to_vec());
    assert_eq!(rows(&database), std::slice::from_ref(&old));
    assert_eq!(database.get(&table, 1_u32.to_be_bytes()).unwrap(), None);
    // A writer under `Snapshot` meets no conflict with what never was.
    let mut writer = database.begin();
    assert_eq!(writer.get(&table, 1_u32.to_be_bytes()).unwrap(), None);
    refused(&disk, &database, &table);
    writer.put(&table, 1_u32.to_be_bytes(), b"new").unwrap();
    writer.commit().unwrap();
    let new = (1_u32.to_be_bytes().to_vec(), b"new".to_vec());
    refused(&disk, &database, &table);
    assert_eq!(rows(&database), [old.clone(), new.clone()]);
    database.checkpoint().unwrap();
    assert_eq!(rows(&database), [old.clone(), new.clone()]);
    assert_eq!(before.get(&table, 1_u32.to_be_bytes()).unwrap(), None);
    drop(before);
    write_all(&disk, &database, &table);
    database.close().unwrap();
    let database = try_open(&disk, small_options()).unwrap();
    let table = database.table("t").unwrap();
    assert_eq!(database.snapshot().rows(&table).count(), ROWS as usize);
    database.check(&mut |damage| panic!("{damage:?}")).unwrap();
}

/// Writes all rows after all, over those that were refused.
fn write_all(disk: &SimulatedDisk, database: &Database, table: &Table) {
    refused(disk, database, table);
    fill(database, table, 9, None);
    assert_eq!(round_of(&database.snapshot(), table), 9);
}

/// Others overtake it again and again, with more keys each time than are looked at in the log's critical section. They are
/// put in after their place in the log, so the freeze that waits for the large commit does not keep them back.
#[test]
fn a_large_serializable_commit_and_a_checkpoint_end_beside_many_other_commits() {
    const LARGE: u32 = 60_000;
    const OTHERS: u32 = 4;
    const OTHER_ROWS: u32 = 120;
    let mut options = Options { background: Background::Threads, ..small_options() };
    options.memory.memtable_bytes = 256 << 20;
    let environment = Environment::of_the_system(Arc::new(SimulatedDisk::new(1)));
    let database = Database::open(environment, options.clone()).unwrap();
    let [large, other] = ["large", "other"].map(|name| database.create_table(name).unwrap());
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (database, large, other, done, options) = (&database, &large, &other, &done, &options);
        let begin = move |isolation| {
            let durability = Durability::Async;
            database.with(TransactionOptions { isolation, durability, ..options.transaction }).begin()
        };
        let _stop = SetWhenDropped(done);
        for writer in 0..OTHERS {
            scope.spawn(move || {
                for turn in 0_u32.. {
                    if done.load(Ordering::SeqCst) {
                        return;
                    }
                    let mut transaction = begin(Isolation::Snapshot);
                    for row in 0..OTHER_ROWS {
                        let key = (writer * OTHER_ROWS + row).to_be_bytes();
                        transaction.put(other, key, turn.to_be_bytes()).unwrap();
                    }
                    transaction.commit().unwrap();
                }
            });
        }
        let committing = scope.spawn(move || {
            let mut transaction = begin(Isolation::Serializable);
            assert_eq!(transaction.get(large, b"read").unwrap(), None);
            (0..LARGE).for_each(|row| transaction.put(large, row.to_be_bytes(), []).unwrap());
            transaction.commit().map(|_| ())
        });
        let checkpointing = scope.spawn(move || {
            wait_until("the large commit to be on its way", || {
                database.statistics().memtable.rows >= u64::from(LARGE) || committing.is_finished()
            });
            let checkpoint = database.checkpoint().map(|_| ());
            (checkpoint, committing.join().unwrap())
        });
        wait_until("both to end", || checkpointing.is_finished());
        let (checkpoint, commit) = checkpointing.join().unwrap();
        checkpoint.unwrap();
        commit.unwrap();
    });
    assert_eq!(database.snapshot().rows(&large).count(), LARGE as usize);
    database.close().unwrap();
}

#[test]
fn a_large_commit_into_a_table_that_was_truncated_meanwhile_is_refused_and_leaves_nothing_behind() {
    let database = try_open(&SimulatedDisk::new(1), small_options()).unwrap();
    let table = database.create_table("t").unwrap();
    let mut transaction = database.begin();
    (0..ROWS).for_each(|row| transaction.put(&table, row.to_be_bytes(), b"never").unwrap());
    database.tables().truncate("t").unwrap();
    let answer = transaction.commit();
    assert!(matches!(answer, Err(Error::TableChanged { .. })), "{answer:?}");
    assert_eq!(database.snapshot().rows(&table).count(), 0);
    fill(&database, &table, 1, None);
    database.checkpoint().unwrap();
    assert_eq!(round_of(&database.snapshot(), &table), 1);
    database.check(&mut |damage| panic!("{damage:?}")).unwrap();
}
