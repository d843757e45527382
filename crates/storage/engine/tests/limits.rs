//! Every error that a program can bring about by what it asks for: the variant, what the message says, and what is
//! left afterwards. And the memory that a row changed again and again takes.
#![expect(clippy::unwrap_used, reason = "a test that fails panics")]

mod common;

use std::time::Duration;

use seawall_engine::{
    Database, Durability, Error, Isolation, KEY_BYTES_MAX, OpenMode, Options, Table, TableChange,
    TransactionOptions, VALUE_BYTES_MAX,
};
use seawall_simulation::{Fault, FaultError, FaultKind, FaultTarget, Operations, SimulatedDisk};

use common::try_open;

fn options() -> Options {
    let mut options = common::small_options();
    options.checkpoint.threads = 1;
    options
}

fn open(seed: u64) -> (SimulatedDisk, Database, Table) {
    let disk = SimulatedDisk::new(seed);
    let database = try_open(&disk, options()).unwrap();
    let table = database.create_table("t").unwrap();
    (disk, database, table)
}

/// The error's message must hold all of `parts`.
#[track_caller]
fn says(error: &Error, parts: &[&str]) {
    let message = error.to_string();
    for part in parts {
        assert!(message.contains(part), "{message:?} does not say {part:?}");
    }
}

macro_rules! refused {
    ($result:expr, $variant:pat, $($part:expr),+) => {{
        let error = $result.map(|_| ()).unwrap_err();
        assert!(matches!(error, $variant), "{error:?}");
        says(&error, &[$($part),+]);
        error
    }};
}

#[test]
fn keys_over_the_limit_are_refused_and_the_transaction_goes_on() {
    let (_disk, database, table) = open(1);
    let longest = vec![7; KEY_BYTES_MAX];
    let mut transaction = database.begin();
    transaction.put(&table, &longest, "v").unwrap();
    let too_long = vec![7; KEY_BYTES_MAX + 1];
    let expected = (KEY_BYTES_MAX + 1).to_string();
    refused!(
        transaction.put(&table, &too_long, "v"),
        Error::KeyTooLarge { bytes: 4097, limit: 4096 },
        "4097",
        "4096"
    );
    refused!(transaction.delete(&table, &too_long), Error::KeyTooLarge { .. }, &expected);
    assert_eq!(transaction.get(&table, &too_long).unwrap(), None, "reading it is harmless: it is not there");
    transaction.commit().unwrap();
    refused!(database.put(&table, &too_long, "v"), Error::KeyTooLarge { .. }, &expected);
    refused!(database.delete(&table, &too_long), Error::KeyTooLarge { .. }, &expected);
    assert_eq!(database.get(&table, &too_long).unwrap(), None);
    let mut load = database.tables().bulk_load("loaded").unwrap();
    load.add(&longest, "v").unwrap();
    refused!(load.add(&too_long, "v"), Error::KeyTooLarge { .. }, &expected);
    let loaded = load.finish().unwrap();
    database.checkpoint().unwrap();
    for table in [&table, &loaded] {
        assert_eq!(database.get(table, &longest).unwrap().unwrap(), b"v");
        assert_eq!(database.snapshot().range::<&[u8]>(table, ..).count(), 1);
    }
    database.check(&mut |damage| panic!("{damage}")).unwrap();
}

#[test]
fn small_pages_hold_shorter_keys_and_the_error_says_how_long() {
    let disk = SimulatedDisk::new(2);
    let database = try_open(&disk, options().with(|options| options.format.page_bytes = 4096)).unwrap();
    let table = database.create_table("t").unwrap();
    let error =
        refused!(database.put(&table, [1; 4000], "v"), Error::KeyTooLarge { .. }, "4000", "this database");
    let Error::KeyTooLarge { limit, .. } = error else { unreachable!() };
    database.put(&table, vec![1; limit], "v").unwrap();
    refused!(database.put(&table, vec![1; limit + 1], "v"), Error::KeyTooLarge { .. }, &limit.to_string());
    database.checkpoint().unwrap();
    assert_eq!(database.get(&table, vec![1; limit]).unwrap().unwrap(), b"v");
}

#[test]
fn values_over_the_limit_are_refused() {
    let (_disk, database, table) = open(3);
    let too_long = vec![0; VALUE_BYTES_MAX + 1];
    let expected = VALUE_BYTES_MAX.to_string();
    refused!(database.put(&table, "k", &too_long), Error::ValueTooLarge { .. }, &expected, "split it");
    let mut transaction = database.begin();
    refused!(transaction.put(&table, "k", &too_long), Error::ValueTooLarge { .. }, &expected);
    transaction.put(&table, "k", "short").unwrap();
    transaction.commit().unwrap();
    let mut load = database.tables().bulk_load("loaded").unwrap();
    refused!(load.add("k", &too_long), Error::ValueTooLarge { .. }, &expected);
    drop(load);
    assert_eq!(database.get(&table, "k").unwrap().unwrap(), b"short");
}

#[test]
fn a_transaction_over_its_limit_is_refused_and_can_commit_what_it_has() {
    let disk = SimulatedDisk::new(4);
    let database =
        try_open(&disk, options().with(|options| options.memory.transaction_bytes = 26_000)).unwrap();
    let table = database.create_table("t").unwrap();
    let mut transaction = database.begin();
    transaction.put(&table, "a", [1; 6000]).unwrap();
    // Twice its bytes, as the record of the commit has them too.
    let error = refused!(
        transaction.put(&table, "b", [1; 8000]),
        Error::TransactionTooLarge { limit: 26_000, .. },
        "26000",
        "memory.transaction_bytes",
        "bulk load"
    );
    assert!(matches!(error, Error::TransactionTooLarge { bytes: 28_000..28_800, .. }), "{error}");
    transaction.put(&table, "c", [1; 3000]).unwrap();
    transaction.put(&table, "a", [2; 6000]).unwrap();
    let savepoint = transaction.savepoint();
    transaction.delete(&table, "a").unwrap();
    transaction.put(&table, "b", [3; 6000]).unwrap();
    transaction.rollback_to(&savepoint).unwrap();
    transaction.commit().unwrap();
    assert_eq!(database.get(&table, "a").unwrap().unwrap(), [2; 6000]);
    assert_eq!(database.get(&table, "b").unwrap(), None);
    assert!(database.get(&table, "c").unwrap().is_some());
}

#[test]
fn names_of_tables_are_1_to_255_bytes_and_unique() {
    let (_disk, database, _table) = open(5);
    refused!(database.create_table(""), Error::TableName { bytes: 0, .. }, "0 bytes", "1 to 255");
    refused!(database.create_table(&"n".repeat(256)), Error::TableName { bytes: 256, .. }, "256", "1 to 255");
    refused!(database.tables().bulk_load(""), Error::TableName { .. }, "1 to 255");
    refused!(database.tables().rename("t", &"ß".repeat(128)), Error::TableName { bytes: 256, .. }, "UTF-8");
    let longest = "n".repeat(255);
    database.create_table(&longest).unwrap();
    refused!(database.create_table("t"), Error::TableExists { .. }, "\"t\"", "exists");
    refused!(database.tables().bulk_load("t"), Error::TableExists { .. }, "\"t\"", "exists");
    refused!(database.tables().rename(&longest, "t"), Error::TableExists { .. }, "\"t\"", "exists");
    refused!(database.tables().rename("t", "t"), Error::TableExists { .. }, "\"t\"", "exists");
    for result in [
        database.table("missing").map(|_| ()),
        database.tables().drop("missing"),
        database.tables().truncate("missing"),
        database.tables().rename("missing", "other"),
        database.snapshot().table("missing").map(|_| ()),
        database.begin().table("missing").map(|_| ()),
    ] {
        refused!(result, Error::NoSuchTable { .. }, "\"missing\"", "create it");
    }
    let names: Vec<_> = database.tables().list().unwrap().into_iter().map(|table| table.name).collect();
    assert_eq!(names, [longest.as_str(), "t"]);
}

#[test]
fn a_bulk_load_whose_name_is_locked_is_finished_when_it_is_free() {
    for in_order in [true, false] {
        let (_disk, database, _table) = open(6);
        let mut load = database.tables().bulk_load("u").unwrap();
        for number in 0..200_u32 {
            let key = if in_order { number } else { number ^ 0x55 };
            load.add(key.to_be_bytes(), [1; 100]).unwrap();
        }
        let mut other = database.begin();
        other.create_table("u").unwrap();
        for _ in 0..2 {
            refused!(load.finish(), Error::Locked { .. }, "locked");
            database.checkpoint().unwrap();
        }
        other.rollback();
        let table = load.finish().unwrap();
        assert_eq!(database.snapshot().range::<&[u8]>(&table, ..).count(), 200);
        refused!(load.finish(), Error::BulkLoad { .. }, "finished");
        drop(load);
        database.checkpoint().unwrap();
        assert_eq!(database.snapshot().range::<&[u8]>(&table, ..).count(), 200);
        database.check(&mut |damage| panic!("{damage}")).unwrap();
    }
}

#[test]
fn a_name_taken_while_a_bulk_load_ran_is_refused_at_its_end() {
    let (_disk, database, _table) = open(6);
    let mut load = database.tables().bulk_load("u").unwrap();
    load.add("k", "loaded").unwrap();
    let table = database.create_table("u").unwrap();
    database.put(&table, "k", "put").unwrap();
    refused!(load.finish(), Error::TableExists { .. }, "\"u\"");
    refused!(load.add("l", "late"), Error::BulkLoad { .. }, "ended");
    drop(load);
    database.checkpoint().unwrap();
    assert_eq!(database.get(&table, "k").unwrap().unwrap(), b"put");
    assert_eq!(database.tables().list().unwrap().len(), 2);
    database.check(&mut |damage| panic!("{damage}")).unwrap();
}

#[test]
fn a_dropped_table_is_gone_for_its_handles() {
    let (_disk, database, table) = open(7);
    database.put(&table, "k", "v").unwrap();
    let snapshot = database.snapshot();
    let mut writer = database.begin();
    writer.put(&table, "k", "w").unwrap();
    database.tables().drop("t").unwrap();
    refused!(database.get(&table, "k"), Error::NoSuchTable { .. }, "\"t\"");
    refused!(database.put(&table, "k", "v"), Error::NoSuchTable { .. }, "\"t\"");
    refused!(database.delete(&table, "k"), Error::NoSuchTable { .. }, "\"t\"");
    let mut transaction = database.begin();
    refused!(transaction.get(&table, "k"), Error::NoSuchTable { .. }, "\"t\"");
    refused!(transaction.get_for_update(&table, "k"), Error::NoSuchTable { .. }, "\"t\"");
    refused!(transaction.put(&table, "k", "v"), Error::NoSuchTable { .. }, "\"t\"");
    refused!(transaction.range::<&[u8]>(&table, ..).next().unwrap(), Error::NoSuchTable { .. }, "\"t\"");
    drop(transaction);
    assert_eq!(snapshot.get(&table, "k").unwrap().unwrap(), b"v", "older snapshots go on seeing it");
    let changed = Error::TableChanged { name: String::new(), change: TableChange::Dropped };
    assert!(!changed.is_retryable());
    refused!(writer.commit(), Error::TableChanged { change: TableChange::Dropped, .. }, "\"t\"", "dropped");
}

#[test]
fn a_writer_to_a_table_that_is_truncated_meanwhile_loses_and_may_try_again() {
    let (_disk, database, table) = open(8);
    let mut writer = database.begin();
    writer.put(&table, "k", "v").unwrap();
    database.tables().truncate("t").unwrap();
    let error =
        refused!(writer.commit(), Error::TableChanged { change: TableChange::Truncated, .. }, "truncated");
    assert!(error.is_retryable());
    assert_eq!(database.get(&table, "k").unwrap(), None);
}

#[test]
fn a_closed_database_says_so_to_everyone_who_holds_a_part_of_it() {
    let (_disk, database, table) = open(9);
    let other = database.clone();
    let mut transaction = database.begin();
    transaction.put(&table, "k", "v").unwrap();
    let mut load = database.tables().bulk_load("loaded").unwrap();
    let snapshot = database.snapshot();
    database.close().unwrap();
    let closed = "the database is closed";
    refused!(other.put(&table, "k", "v"), Error::Closed, closed);
    refused!(other.get(&table, "k"), Error::Closed, closed);
    refused!(other.create_table("u"), Error::Closed, closed);
    refused!(other.table("t"), Error::Closed, closed);
    refused!(other.tables().list(), Error::Closed, closed);
    refused!(other.checkpoint(), Error::Closed, closed);
    refused!(other.flush(), Error::Closed, closed);
    refused!(other.tables().bulk_load("u"), Error::Closed, closed);
    refused!(other.check(&mut |_| {}), Error::Closed, closed);
    refused!(other.transact(|transaction| transaction.put(&table, "k", "v")), Error::Closed, closed);
    refused!(snapshot.get(&table, "k"), Error::Closed, closed);
    refused!(snapshot.range::<&[u8]>(&table, ..).next().unwrap(), Error::Closed, closed);
    refused!(snapshot.table("t"), Error::Closed, closed);
    refused!(transaction.get(&table, "k"), Error::Closed, closed);
    refused!(transaction.range::<&[u8]>(&table, ..).next().unwrap(), Error::Closed, closed);
    refused!(transaction.commit(), Error::Closed, closed);
    refused!(load.add("k", "v"), Error::Closed, closed);
    refused!(load.finish(), Error::Closed, closed);
    other.close().unwrap();
}

#[test]
fn a_read_only_database_reads_and_refuses_every_write() {
    let (disk, database, table) = open(10);
    database.put(&table, "k", "v").unwrap();
    database.close().unwrap();
    let before = disk.calls();
    let read_only = || try_open(&disk, Options { mode: OpenMode::ReadOnly, ..options() });
    let (database, other) = (read_only().unwrap(), read_only().unwrap());
    let table = database.table("t").unwrap();
    assert_eq!(database.get(&table, "k").unwrap().unwrap(), b"v");
    assert_eq!(other.tables().list().unwrap().len(), 1);
    let message = "read-only";
    refused!(database.put(&table, "k", "w"), Error::ReadOnly, message);
    refused!(database.delete(&table, "k"), Error::ReadOnly, message);
    refused!(database.create_table("u"), Error::ReadOnly, message);
    refused!(database.tables().drop("t"), Error::ReadOnly, message);
    refused!(database.checkpoint(), Error::ReadOnly, message);
    refused!(database.flush(), Error::ReadOnly, message);
    refused!(database.tables().bulk_load("u"), Error::ReadOnly, message);
    let mut transaction = database.begin();
    refused!(transaction.put(&table, "k", "w"), Error::ReadOnly, message);
    refused!(transaction.get_for_update(&table, "k"), Error::ReadOnly, message);
    assert_eq!(transaction.get(&table, "k").unwrap().unwrap(), b"v");
    transaction.commit().unwrap();
    refused!(try_open(&disk, options()), Error::InUse { .. }, "in use");
    drop((database, other));
    assert_eq!(disk.calls(), before, "nothing was changed on disk");
    try_open(&disk, options()).unwrap().close().unwrap();
}

#[test]
fn a_database_is_open_once() {
    let (disk, database, _table) = open(11);
    refused!(try_open(&disk, options()), Error::InUse { .. }, "simulated:/", "in use by another process");
    let read_only = Options { mode: OpenMode::ReadOnly, ..options() };
    refused!(try_open(&disk, read_only.clone()), Error::InUse { .. }, "in use");
    database.close().unwrap();
    try_open(&disk, read_only).unwrap();
}

#[test]
fn what_is_in_the_directory_must_fit_the_mode() {
    let disk = SimulatedDisk::new(12);
    for mode in [OpenMode::Existing, OpenMode::ReadOnly] {
        refused!(
            try_open(&disk, Options { mode, ..options() }),
            Error::NoDatabase { .. },
            "simulated:/",
            "no database"
        );
    }
    let new = Options { mode: OpenMode::New, ..options() };
    try_open(&disk, new.clone()).unwrap().close().unwrap();
    refused!(try_open(&disk, new.clone()), Error::NotEmpty { .. }, "superblock", "empty or missing");
    let foreign = SimulatedDisk::new(13);
    foreign.write_file("letter.txt", b"Dear Sir");
    for mode in [OpenMode::New, OpenMode::CreateIfMissing] {
        let error = try_open(&foreign, Options { mode, ..options() });
        refused!(error, Error::NotEmpty { .. }, "letter.txt", "simulated:/");
    }
    assert_eq!(foreign.read_file("letter.txt").unwrap(), b"Dear Sir");
}

#[test]
fn options_that_cannot_be_are_refused_by_group_and_name() {
    let refuse = |name: &str, change: &dyn Fn(&mut Options)| {
        let disk = SimulatedDisk::new(14);
        let error = try_open(&disk, options().with(change)).map(|_| ()).unwrap_err();
        assert!(matches!(&error, Error::Option { name: found, .. } if *found == name), "{error:?}");
        says(&error, &["option", name, "must be"]);
        assert!(disk.list_all().is_empty(), "nothing is created");
    };
    for bytes in [0, 2048, 5000, 131_072] {
        refuse("format.page_bytes", &|options| options.format.page_bytes = bytes);
    }
    for bytes in [0, 32 << 10, 100_000, 2 << 30] {
        refuse("format.segment_bytes", &|options| options.format.segment_bytes = bytes);
    }
    refuse("memory.memtable_bytes", &|options| options.memory.memtable_bytes = (64 << 10) - 1);
    refuse("memory.transaction_bytes", &|options| options.memory.transaction_bytes = 2 << 30);
    refuse("memory.all_transactions_bytes", &|options| options.memory.all_transactions_bytes = 1 << 20);
    for bytes in [0, 128 << 20] {
        refuse("checkpoint.chunk_bytes", &|options| options.checkpoint.chunk_bytes = bytes);
    }
    for percent in [1, 4, 101] {
        refuse("checkpoint.runs.run_percent", &|options| options.checkpoint.runs.run_percent = percent);
    }
    for fan_in in [0, 1, 17] {
        refuse("checkpoint.runs.fan_in", &|options| options.checkpoint.runs.fan_in = fan_in);
    }
    for count in [0, 1, 65] {
        refuse("checkpoint.runs.run_count", &|options| options.checkpoint.runs.run_count = count);
    }
    refuse("checkpoint.runs.filter_bits", &|options| options.checkpoint.runs.filter_bits = 65);
    for threads in [0, 17] {
        refuse("checkpoint.threads", &|options| options.checkpoint.threads = threads);
    }
    let short = Some(Duration::from_millis(999));
    refuse("recovery.target", &|options| options.recovery.target = short);
}

#[test]
fn a_transaction_that_failed_says_why_until_it_is_rolled_back() {
    let (_disk, database, table) = open(15);
    let mut holder = database.begin();
    holder.put(&table, "k", "held").unwrap();
    let mut loser = database.begin();
    loser.put(&table, "other", "v").unwrap();
    let error =
        refused!(loser.put(&table, "k", "v"), Error::Locked { .. }, "locked by another", "not to wait");
    assert!(error.is_retryable());
    let expected = ["only a rollback is left", "locked by another"];
    let check = |error: Error| {
        assert!(matches!(error, Error::TransactionFailed { .. }), "{error:?}");
        assert!(!error.is_retryable());
        says(&error, &expected);
    };
    check(loser.get(&table, "k").unwrap_err());
    check(loser.put(&table, "x", "v").unwrap_err());
    check(loser.get_for_update(&table, "x").unwrap_err());
    check(loser.range::<&[u8]>(&table, ..).next().unwrap().unwrap_err());
    check(loser.table("t").unwrap_err());
    check(loser.create_table("u").unwrap_err());
    let too_late = loser.savepoint();
    check(loser.rollback_to(&too_late).unwrap_err());
    check(loser.release(&too_late).unwrap_err());
    check(loser.begin_statement().unwrap_err());
    check(loser.try_lock_row(&table, "x").unwrap_err());
    // What it held is free at once, before it is dropped.
    database.put(&table, "other", "theirs").unwrap();
    check(loser.commit().unwrap_err());
    holder.commit().unwrap();
    assert_eq!(database.get(&table, "other").unwrap().unwrap(), b"theirs");
}

#[test]
fn savepoints_are_of_one_transaction_and_end_with_an_earlier_one() {
    let (_disk, database, table) = open(16);
    let (mut one, mut other) = (database.begin(), database.begin());
    let outer = one.savepoint();
    let foreign = other.savepoint();
    one.put(&table, "k", "v").unwrap();
    let inner = one.savepoint();
    one.rollback_to(&outer).unwrap();
    for gone in [&inner, &foreign] {
        refused!(one.rollback_to(gone), Error::NoSuchSavepoint, "savepoint does not exist");
    }
    assert_eq!(one.get(&table, "k").unwrap(), None);
    one.put(&table, "k", "again").unwrap();
    one.rollback_to(&outer).unwrap();
    one.put(&table, "l", "v").unwrap();
    one.commit().unwrap();
    assert_eq!(database.get(&table, "k").unwrap(), None);
    assert!(database.get(&table, "l").unwrap().is_some());
}

#[test]
fn a_conflict_says_what_collided() {
    let (_disk, database, table) = open(17);
    let with = |isolation| TransactionOptions { isolation, ..options().transaction };
    let mut writer = database.with(with(Isolation::Snapshot)).begin();
    writer.get(&table, "k").unwrap();
    let mut reader = database.with(with(Isolation::Serializable)).begin();
    reader.get(&table, "k").unwrap();
    reader.put(&table, "l", "v").unwrap();
    database.put(&table, "k", "first").unwrap();
    let error =
        refused!(writer.put(&table, "k", "second"), Error::Conflict { .. }, "that this one writes", "again");
    assert!(error.is_retryable());
    let error = refused!(reader.commit(), Error::Conflict { .. }, "this one has read", "again");
    assert!(error.is_retryable());
    assert_eq!(database.get(&table, "l").unwrap(), None);
}

#[test]
fn a_full_disk_is_said_and_passes_when_there_is_space() {
    let (disk, database, table) = open(18);
    database.put(&table, "k", "v").unwrap();
    disk.set_capacity(Some(disk.allocated_bytes()));
    let mut refusal = None;
    for round in 0..200 {
        if let Err(error) = database.put(&table, "k", vec![round; 3000]) {
            refusal = Some(error);
            break;
        }
    }
    let error = refusal.expect("200 writes of 3000 bytes do not fit into the segments that were ready");
    assert!(matches!(error, Error::DiskFull { .. }), "{error:?}");
    says(&error, &["the disk is full", "nothing acknowledged is lost"]);
    assert!(database.get(&table, "k").unwrap().is_some(), "reads go on");
    disk.set_capacity(None);
    database.put(&table, "k", "after").unwrap();
    assert_eq!(database.get(&table, "k").unwrap().unwrap(), b"after");
    database.checkpoint().unwrap();
    database.close().unwrap();
    let database = try_open(&disk, options()).unwrap();
    assert_eq!(database.get(&database.table("t").unwrap(), "k").unwrap().unwrap(), b"after");
}

#[test]
fn after_a_failed_sync_writes_stop_and_reads_go_on() {
    let (disk, database, table) = open(19);
    database.put(&table, "k", "v").unwrap();
    disk.fail_next(FaultKind::SyncError);
    refused!(database.put(&table, "l", "v"), Error::Stopped { .. }, "stopped taking writes", "open it again");
    refused!(database.put(&table, "m", "v"), Error::Stopped { .. }, "stopped taking writes");
    refused!(database.checkpoint(), Error::Stopped { .. }, "stopped taking writes");
    refused!(database.flush(), Error::Stopped { .. }, "stopped taking writes");
    assert_eq!(database.get(&table, "k").unwrap().unwrap(), b"v");
    let mut transaction = database.begin();
    assert_eq!(transaction.get(&table, "m").unwrap(), None);
    transaction.commit().unwrap();
    refused!(database.close(), Error::Stopped { .. }, "stopped taking writes");
    let database = try_open(&disk, options()).unwrap();
    let table = database.table("t").unwrap();
    assert_eq!(database.get(&table, "k").unwrap().unwrap(), b"v");
    database.put(&table, "l", "v").unwrap();
}

#[test]
fn a_checkpoint_whose_write_fails_stops_the_database_and_loses_nothing() {
    let (disk, database, table) = open(20);
    for index in 0..500_u32 {
        database.put(&table, index.to_be_bytes(), [7; 100]).unwrap();
    }
    let target = FaultTarget::Path { prefix: "pages".to_owned(), operations: Operations::Writes };
    disk.inject(Fault { target, error: FaultError::Number(5), skip: 0, count: 1 });
    refused!(database.checkpoint(), Error::Stopped { .. }, "stopped taking writes", "pages");
    refused!(database.put(&table, "k", "v"), Error::Stopped { .. }, "stopped taking writes", "pages");
    assert_eq!(database.get(&table, 7_u32.to_be_bytes()).unwrap().unwrap(), [7; 100]);
    database.close().unwrap_err();
    let database = try_open(&disk, options()).unwrap();
    let table = database.table("t").unwrap();
    assert_eq!(database.snapshot().range::<&[u8]>(&table, ..).count(), 500);
    database.checkpoint().unwrap();
    database.check(&mut |damage| panic!("{damage}")).unwrap();
}

#[test]
fn a_row_changed_a_million_times_takes_one_entry_and_bounded_memory() {
    let disk = SimulatedDisk::new(21);
    let mut options = options();
    options.format.segment_bytes = 16 << 20;
    options.memory.memtable_bytes = 64 << 20;
    // The log gets long, though the memtable does not.
    options.recovery.target = None;
    let database = try_open(&disk, options).unwrap();
    let table = database.create_table("t").unwrap();
    database.checkpoint().unwrap();
    database.put(&table, "counter", 0_u64.to_be_bytes()).unwrap();
    let before = database.statistics();
    for value in 0..1_000_000_u64 {
        database.with(Durability::Async).put(&table, "counter", value.to_be_bytes()).unwrap();
    }
    let after = database.statistics();
    assert_eq!(after.checkpoints.completed, before.checkpoints.completed, "no checkpoint between");
    assert_eq!(after.memtable.rows, before.memtable.rows);
    let growth = after.memtable.bytes - before.memtable.bytes;
    assert!(growth <= 4096, "a million versions took {growth} bytes");
    assert_eq!(database.get(&table, "counter").unwrap().unwrap(), 999_999_u64.to_be_bytes());
    let merged = database.checkpoint().unwrap();
    assert_eq!(merged.rows, 1);
    assert!(merged.protected_pages + merged.fresh_pages <= 3, "{merged:?}");
}
