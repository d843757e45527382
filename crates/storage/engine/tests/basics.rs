//! What every program does first: open, write, read, reopen.
#![expect(clippy::unwrap_used, reason = "a test that fails panics")]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use seawall_engine::{
    Database, Durability, Environment, Error, Isolation, OpenMode, Options, TransactionOptions,
};
use seawall_simulation::{
    CallKind, ObservedDisk, PowerLoss, SimulatedClock, SimulatedDisk, SimulatedRandom, Verdict,
};

fn options() -> Options {
    let lock_wait = Options::default().transaction.lock_wait;
    let mut options = common::small_options();
    options.checkpoint.threads = 1;
    options.transaction.lock_wait = lock_wait;
    options
}

fn open(disk: &SimulatedDisk) -> Database {
    common::try_open(disk, options()).unwrap()
}

#[test]
fn rows_are_there_after_commit_checkpoint_and_reopen() {
    let disk = SimulatedDisk::new(1);
    let database = open(&disk);
    let table = database.create_table("t").unwrap();
    for index in 0..1000_u32 {
        database.put(&table, index.to_be_bytes(), format!("value {index}")).unwrap();
    }
    database.delete(&table, 500_u32.to_be_bytes()).unwrap();
    let expect = |database: &Database| {
        let table = database.table("t").unwrap();
        let rows: Vec<_> = database.snapshot().range::<&[u8]>(&table, ..).collect::<Result<_, _>>().unwrap();
        assert_eq!(rows.len(), 999);
        let mut backwards: Vec<_> =
            database.snapshot().range_reverse::<&[u8]>(&table, ..).collect::<Result<_, _>>().unwrap();
        backwards.reverse();
        assert_eq!(rows, backwards);
        assert_eq!(database.get(&table, 7_u32.to_be_bytes()).unwrap().unwrap(), b"value 7");
        assert_eq!(database.get(&table, 500_u32.to_be_bytes()).unwrap(), None);
    };
    expect(&database);
    database.checkpoint().unwrap();
    expect(&database);
    let crashed = disk.after_power_loss(PowerLoss::LoseAll);
    expect(&open(&crashed));
    database.put(&table, 7_u32.to_be_bytes(), "other").unwrap();
    let crashed = disk.after_power_loss(PowerLoss::LoseAll);
    let reopened = open(&crashed);
    let table = reopened.table("t").unwrap();
    assert_eq!(reopened.get(&table, 7_u32.to_be_bytes()).unwrap().unwrap(), b"other");
    assert_eq!(reopened.statistics().recovery.pages_read, 0);
    reopened.close().unwrap();
    let reopened = open(&crashed);
    let table = reopened.table("t").unwrap();
    assert_eq!(reopened.get(&table, 7_u32.to_be_bytes()).unwrap().unwrap(), b"other");
    let summary = reopened.check(&mut |damage| panic!("{damage}")).unwrap();
    assert_eq!(summary.damages, 0);
}

#[test]
fn a_snapshot_does_not_change_while_checkpoints_pass() {
    let disk = SimulatedDisk::new(2);
    let database = open(&disk);
    let table = database.create_table("t").unwrap();
    for round in 0..5_u32 {
        for index in 0..300_u32 {
            database.put(&table, index.to_be_bytes(), format!("{round} {index}")).unwrap();
        }
        if round == 1 {
            database.checkpoint().unwrap();
        }
        if round == 2 {
            let snapshot = database.snapshot();
            let before: Vec<_> = snapshot.range::<&[u8]>(&table, ..).collect::<Result<_, _>>().unwrap();
            for later in 3..8_u32 {
                for index in 0..300_u32 {
                    match index % 3 {
                        0 => database.delete(&table, index.to_be_bytes()).unwrap(),
                        _ => database.put(&table, index.to_be_bytes(), format!("{later}")).unwrap(),
                    };
                }
                database.checkpoint().unwrap();
                let after: Vec<_> = snapshot.range::<&[u8]>(&table, ..).collect::<Result<_, _>>().unwrap();
                assert_eq!(before, after);
                let value = snapshot.get(&table, 6_u32.to_be_bytes()).unwrap().unwrap();
                assert_eq!(value, b"2 6");
            }
        }
    }
}

#[test]
fn many_dropped_tables_are_cut_out_together() {
    let disk = SimulatedDisk::new(3);
    let database = open(&disk);
    for number in 0..200 {
        let table = database.create_table(&format!("t{number}")).unwrap();
        for row in 0..5_u8 {
            database.with(Durability::Async).put(&table, [row], [7; 50]).unwrap();
        }
    }
    database.checkpoint().unwrap();
    for number in (0..200).filter(|number| number % 3 != 0) {
        database.tables().drop(&format!("t{number}")).unwrap();
    }
    let statistics = database.checkpoint().unwrap();
    assert_eq!(statistics.tables_reclaimed, 133);
    assert!(statistics.chunks <= 4, "{} chunks", statistics.chunks);
    assert_eq!(database.tables().list().unwrap().len(), 67);
    let table = database.table("t99").unwrap();
    assert_eq!(database.get(&table, [4]).unwrap().unwrap(), [7; 50]);
    let summary = database.check(&mut |damage| panic!("{damage}")).unwrap();
    assert!(summary.rows < 67 * 5 + 400, "{} rows are left", summary.rows);
}

#[test]
fn tables_are_created_renamed_truncated_and_dropped() {
    let disk = SimulatedDisk::new(3);
    let database = open(&disk);
    let table = database.create_table("a").unwrap();
    assert!(matches!(database.create_table("a"), Err(Error::TableExists { .. })));
    database.put(&table, "k", "v").unwrap();
    database.tables().rename("a", "b").unwrap();
    assert!(matches!(database.table("a"), Err(Error::NoSuchTable { .. })));
    let table = database.table("b").unwrap();
    assert_eq!(database.get(&table, "k").unwrap().unwrap(), b"v");
    let snapshot = database.snapshot();
    database.tables().truncate("b").unwrap();
    assert_eq!(database.get(&table, "k").unwrap(), None);
    assert_eq!(snapshot.get(&table, "k").unwrap().unwrap(), b"v");
    database.checkpoint().unwrap();
    assert_eq!(snapshot.get(&table, "k").unwrap().unwrap(), b"v");
    drop(snapshot);
    database.put(&table, "k", "w").unwrap();
    let statistics = database.checkpoint().unwrap();
    assert_eq!(statistics.tables_reclaimed, 1);
    database.tables().drop("b").unwrap();
    assert!(matches!(database.get(&table, "k"), Err(Error::NoSuchTable { .. })));
    assert!(matches!(database.put(&table, "k", "x"), Err(Error::NoSuchTable { .. })));
    database.checkpoint().unwrap();
    assert!(database.tables().list().unwrap().is_empty());
    database.check(&mut |damage| panic!("{damage}")).unwrap();
}

#[test]
fn isolation_levels_keep_their_promises_between_two_transactions() {
    let disk = SimulatedDisk::new(4);
    let database = open(&disk);
    let table = database.create_table("t").unwrap();
    database.put(&table, "a", "1").unwrap();
    database.put(&table, "b", "1").unwrap();
    let with = |isolation| TransactionOptions { isolation, ..TransactionOptions::default() };
    // Lost update.
    let mut first = database.with(with(Isolation::Snapshot)).begin();
    let mut second = database.with(with(Isolation::Snapshot)).begin();
    first.get(&table, "a").unwrap();
    second.get(&table, "a").unwrap();
    first.put(&table, "a", "2").unwrap();
    first.commit().unwrap();
    assert!(matches!(second.put(&table, "a", "3"), Err(Error::Conflict { .. })));
    assert!(matches!(second.commit(), Err(Error::TransactionFailed { .. })));
    // Write skew.
    for (isolation, allowed) in [(Isolation::Snapshot, true), (Isolation::Serializable, false)] {
        let mut first = database.with(with(isolation)).begin();
        let mut second = database.with(with(isolation)).begin();
        first.get(&table, "a").unwrap();
        second.get(&table, "b").unwrap();
        first.put(&table, "b", "0").unwrap();
        second.put(&table, "a", "0").unwrap();
        first.commit().unwrap();
        assert_eq!(second.commit().is_ok(), allowed);
    }
}

#[test]
fn asynchronous_commits_are_seen_at_once_and_durable_after_a_flush() {
    let disk = SimulatedDisk::new(5);
    let database = open(&disk);
    let table = database.create_table("t").unwrap();
    database.with(Durability::Async).put(&table, "a", "1").unwrap();
    assert_eq!(database.get(&table, "a").unwrap().unwrap(), b"1");
    let lost = open(&disk.after_power_loss(PowerLoss::LoseAll));
    assert_eq!(lost.get(&lost.table("t").unwrap(), "a").unwrap(), None);
    database.flush().unwrap();
    let kept = open(&disk.after_power_loss(PowerLoss::LoseAll));
    assert_eq!(kept.get(&kept.table("t").unwrap(), "a").unwrap().unwrap(), b"1");
}

#[test]
fn asynchronous_commits_survive_a_kill_and_a_reader_sees_them_without_writing() {
    let disk = SimulatedDisk::new(6);
    let database = open(&disk);
    let table = database.create_table("t").unwrap();
    for (number, length) in [10, 30_000, 10, 200_000, 10].into_iter().enumerate() {
        database.with(Durability::Async).put(&table, number.to_be_bytes(), vec![7; length]).unwrap();
    }
    let killed = disk.copy();
    let calls = killed.calls();
    let environment = Environment {
        disk: Arc::new(killed.clone()),
        clock: Arc::new(SimulatedClock::default()),
        random: Arc::new(SimulatedRandom::new(1)),
    };
    let read_only = Options { mode: OpenMode::ReadOnly, ..options() };
    let reader = Database::open(environment, read_only).unwrap();
    let table = reader.table("t").unwrap();
    assert_eq!(reader.snapshot().range::<&[u8]>(&table, ..).count(), 5);
    // The lock file is there already.
    assert_eq!(killed.calls(), calls);
    drop(reader);
    let reopened = open(&killed);
    assert_eq!(reopened.snapshot().range::<&[u8]>(&table, ..).count(), 5);
    // What recovery has shown is safe from a power failure, too.
    let again = open(&killed.after_power_loss(PowerLoss::LoseAll));
    assert_eq!(again.snapshot().range::<&[u8]>(&table, ..).count(), 5);
}

#[test]
fn rows_load_in_bulk_in_any_order() {
    for in_order in [true, false] {
        let disk = SimulatedDisk::new(6);
        let database = open(&disk);
        let mut load = database.tables().bulk_load("t").unwrap();
        for index in 0..20_000_u32 {
            let key = if in_order || index < 5000 { index } else { index.wrapping_mul(2_654_435_761) };
            load.add(key.to_be_bytes(), index.to_be_bytes()).unwrap();
        }
        let table = load.finish().unwrap();
        for database in [database, open(&disk.after_power_loss(PowerLoss::LoseAll))] {
            let rows =
                database.snapshot().range::<&[u8]>(&table, ..).map(|row| row.unwrap().0).collect::<Vec<_>>();
            assert!(rows.is_sorted());
            assert!(rows.len() > 19_900, "{}", rows.len());
            assert_eq!(database.get(&table, 7_u32.to_be_bytes()).unwrap().unwrap(), 7_u32.to_be_bytes());
            database.checkpoint().unwrap();
            database.checkpoint().unwrap();
            assert_eq!(database.snapshot().range::<&[u8]>(&table, ..).count(), rows.len());
            database.check(&mut |damage| panic!("{damage}")).unwrap();
        }
    }
}

#[test]
fn a_bulk_load_that_outlives_its_database_writes_nothing_more() {
    let disk = SimulatedDisk::new(7);
    let database = open(&disk);
    let mut load = database.tables().bulk_load("t").unwrap();
    for index in 0..5000_u32 {
        load.add(index.to_be_bytes(), [7; 100]).unwrap();
    }
    database.close().unwrap();
    let reopened = open(&disk);
    let table = reopened.create_table("t").unwrap();
    for index in 0..5000_u32 {
        reopened.with(Durability::Async).put(&table, index.to_be_bytes(), [8; 100]).unwrap();
    }
    reopened.checkpoint().unwrap();
    let calls = disk.calls();
    assert!(matches!(load.add(9999_u32.to_be_bytes(), "late"), Err(Error::Closed)));
    assert!(load.finish().is_err());
    assert_eq!(disk.calls(), calls, "the closed database wrote to the directory");
    reopened.check(&mut |damage| panic!("{damage}")).unwrap();
}

#[test]
fn rows_written_to_a_table_that_another_truncates_are_reclaimed() {
    let disk = SimulatedDisk::new(8);
    let database = open(&disk);
    let table = database.create_table("t").unwrap();
    let options = TransactionOptions { isolation: Isolation::ReadCommitted, ..TransactionOptions::default() };
    let mut writer = database.with(options).begin();
    writer.put(&table, "a", "1").unwrap();
    database.tables().truncate("t").unwrap();
    database.checkpoint().unwrap();
    writer.truncate_table("t").unwrap();
    writer.commit().unwrap();
    assert_eq!(database.get(&table, "a").unwrap(), None);
    database.checkpoint().unwrap();
    database.checkpoint().unwrap();
    database.checkpoint().unwrap();
    let summary = database.check(&mut |damage| panic!("{damage}")).unwrap();
    assert_eq!(summary.rows, 2, "the catalog's two rows of the table are all that is left");
}

/// Rows of a batch that have to be read from disk are asked for before the first one is read, by snapshots, transactions and readers.
#[test]
fn rows_that_are_read_together_are_asked_for_together() {
    let disk = SimulatedDisk::new(1);
    let rows = 5_000_u32;
    let keys: Vec<[u8; 4]> = (0..rows + 100).step_by(37).map(u32::to_be_bytes).collect();
    {
        let database = open(&disk);
        let table = database.create_table("t").unwrap();
        for row in 0..rows {
            database.put(&table, row.to_be_bytes(), [7; 200]).unwrap();
        }
        database.checkpoint().unwrap();
        database.close().unwrap();
    }
    let asked = Arc::new(AtomicU64::new(0));
    let reopened = || {
        let counter = Arc::clone(&asked);
        let disk = ObservedDisk::new(disk.clone(), move |call| {
            if let CallKind::WillNeed { bytes, .. } = call.kind {
                counter.fetch_add(bytes >> 10, Ordering::Relaxed);
            }
            Verdict::Make
        });
        let environment = Environment {
            disk: Arc::new(disk),
            clock: Arc::new(SimulatedClock::default()),
            random: Arc::new(SimulatedRandom::new(1)),
        };
        asked.store(0, Ordering::Relaxed);
        let mut options = options();
        options.memory.cache_bytes = 16 << 20;
        Database::open(environment, options).unwrap()
    };
    // In KiB.
    let asked_for = || asked.swap(0, Ordering::Relaxed);
    let slices = || keys.iter().map(|key| &key[..]);
    let expected = |key: &[u8; 4]| (u32::from_be_bytes(*key) < rows).then(|| vec![7; 200]);

    let database = reopened();
    let (table, snapshot) = (database.table("t").unwrap(), database.snapshot());
    let many = snapshot.get_many(&table, &keys).unwrap();
    assert!(many.into_iter().eq(keys.iter().map(expected)));
    // About one leaf of each.
    assert!((700..2_000).contains(&asked_for()));
    snapshot.get_many(&table, &keys).unwrap();
    assert_eq!(asked_for(), 0, "they are cached");
    assert!(snapshot.get_many(&table, &[[0_u8; 4]; 0]).unwrap().is_empty());
    drop(snapshot);
    database.close().unwrap();

    let database = reopened();
    let table = database.table("t").unwrap();
    let mut transaction = database.begin();
    transaction.will_read(&table, slices()).unwrap();
    assert!((300..1_000).contains(&asked_for()));
    assert_eq!(transaction.get(&table, keys[3]).unwrap(), expected(&keys[3]));
    drop(transaction);
    database.close().unwrap();

    let database = reopened();
    let table = database.table("t").unwrap();
    let mut reader = database.begin().open_reader(&table).unwrap();
    reader.will_read(slices());
    assert!((300..1_000).contains(&asked_for()));
    let row = reader.get_with(keys[5], |row| row.map(<[u8]>::to_vec)).unwrap();
    assert_eq!(row, expected(&keys[5]));
    database.close().unwrap();
    // Nothing is there to be read any more.
    reader.will_read(slices());
    assert_eq!(asked_for(), 0);
}
