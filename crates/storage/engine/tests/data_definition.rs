//! Creating, dropping, renaming and truncating tables in transactions: what each of them means, refuses and leaves behind.
#![expect(clippy::unwrap_used, reason = "a test that fails panics")]

use std::sync::Arc;
use std::time::Duration;

use seawall_engine::{
    Background, Database, Durability, Environment, Error, Isolation, LockWait, Options, Snapshot, Table,
    TableChange, Transaction, TransactionOptions,
};
use seawall_simulation::{PowerLoss, SimulatedClock, SimulatedDisk, SimulatedRandom};
use seawall_testing::wait_until;

const ALL: [Isolation; 3] = [Isolation::ReadCommitted, Isolation::Snapshot, Isolation::Serializable];

fn options() -> Options {
    let mut options = Options { background: Background::Manual, ..Options::default() };
    options.format.segment_bytes = 64 << 10;
    options.memory.memtable_bytes = 4 << 20;
    options.memory.cache_bytes = 1 << 20;
    options.checkpoint.chunk_bytes = 64 << 10;
    options.checkpoint.threads = 1;
    options.recovery.threads = 1;
    options.transaction.lock_wait = LockWait::NoWait;
    options
}

fn open_with(disk: &SimulatedDisk, clock: &Arc<SimulatedClock>, options: Options) -> Database {
    let environment = Environment {
        disk: Arc::new(disk.clone()),
        clock: Arc::clone(clock) as Arc<dyn seawall_io::Clock>,
        random: Arc::new(SimulatedRandom::new(1)),
    };
    Database::open(environment, options).unwrap()
}

fn open(disk: &SimulatedDisk) -> Database {
    open_with(disk, &Arc::default(), options())
}

fn begin(database: &Database, isolation: Isolation) -> Transaction {
    database.with(TransactionOptions { isolation, ..options().transaction }).begin()
}

fn names(database: &Database) -> Vec<String> {
    database.tables().list().unwrap().into_iter().map(|table| table.name).collect()
}

fn fill(database: &Database, table: &Table, rows: u8) {
    for row in 0..rows {
        database.put(table, [row], [row; 100]).unwrap();
    }
}

fn keys(snapshot: &Snapshot, name: &str) -> Vec<Vec<u8>> {
    let table = snapshot.table(name).unwrap();
    snapshot.rows(&table).map(|row| row.unwrap().0).collect()
}

/// Rows in the tree when everything is merged and no space waits: two of the catalog for each table, and its own.
fn assert_nothing_is_left(database: &Database, rows: u64) {
    while database.statistics().reclaim.waiting != Some(0) {
        let before = database.statistics().reclaim.waiting;
        database.checkpoint().unwrap();
        assert!(database.statistics().reclaim.waiting < before, "{before:?} dropped tables wait on");
    }
    // What it deleted in the catalog goes into the tree, too.
    database.checkpoint().unwrap();
    let summary = database.check(&mut |damage| panic!("{damage}")).unwrap();
    assert_eq!(summary.rows, 2 * names(database).len() as u64 + rows);
    assert_eq!(database.statistics().reclaim.waiting, Some(0));
    assert_eq!(database.statistics().transactions.locks_held, 0);
}

#[test]
fn what_cannot_be_is_refused_and_the_transaction_goes_on() {
    for isolation in ALL {
        let database = open(&SimulatedDisk::new(1));
        database.create_table("there").unwrap();
        database.create_table("other").unwrap();
        let mut transaction = begin(&database, isolation);
        let exists = |result: Result<(), Error>, wanted: &str| {
            assert!(matches!(&result, Err(Error::TableExists { name }) if name == wanted), "{result:?}");
        };
        let missing = |result: Result<(), Error>| {
            assert!(matches!(&result, Err(Error::NoSuchTable { name }) if name == "missing"), "{result:?}");
        };
        exists(transaction.create_table("there").map(drop), "there");
        exists(transaction.rename_table("there", "other"), "other");
        exists(transaction.rename_table("there", "there"), "there");
        missing(transaction.drop_table("missing"));
        missing(transaction.truncate_table("missing"));
        missing(transaction.rename_table("missing", "new"));
        missing(transaction.rename_table("missing", "there"));
        missing(transaction.table("missing").map(drop));
        for name in ["", &"n".repeat(256)] {
            assert!(matches!(transaction.create_table(name), Err(Error::TableName { .. })));
            assert!(matches!(transaction.rename_table("there", name), Err(Error::TableName { .. })));
        }
        // Its own, not yet committed.
        transaction.create_table("missing").unwrap();
        exists(transaction.create_table("missing").map(drop), "missing");
        transaction.drop_table("missing").unwrap();
        missing(transaction.drop_table("missing"));
        transaction.drop_table("there").unwrap();
        transaction.commit().unwrap();
        assert_eq!(names(&database), ["other"], "{isolation:?}");
        assert_nothing_is_left(&database, 0);
    }
}

#[test]
fn definitions_and_rows_commit_together_or_not_at_all() {
    let disk = SimulatedDisk::new(2);
    let database = open(&disk);
    let kept = database.create_table("kept").unwrap();
    database.create_table("dropped").unwrap();
    let change = |transaction: &mut Transaction| {
        let new = transaction.create_table("new")?;
        transaction.put(&new, "k", "of the new one")?;
        transaction.put(&kept, "k", "of the old one")?;
        transaction.rename_table("kept", "renamed")?;
        transaction.drop_table("dropped")
    };
    let mut transaction = database.begin();
    change(&mut transaction).unwrap();
    transaction.rollback();
    assert_eq!(names(&database), ["dropped", "kept"]);
    assert_eq!(database.get(&kept, "k").unwrap(), None);
    database.transact(change).unwrap();
    for database in [database, open(&disk.after_power_loss(PowerLoss::LoseAll))] {
        assert_eq!(names(&database), ["new", "renamed"]);
        let (new, renamed) = (database.table("new").unwrap(), database.table("renamed").unwrap());
        assert_eq!(database.get(&new, "k").unwrap().unwrap(), b"of the new one");
        assert_eq!(database.get(&renamed, "k").unwrap().unwrap(), b"of the old one");
        assert_nothing_is_left(&database, 2);
    }
}

#[test]
fn a_truncate_takes_what_its_own_transaction_wrote_before_it_and_leaves_what_comes_after() {
    for isolation in ALL {
        let database = open(&SimulatedDisk::new(3));
        let table = database.create_table("t").unwrap();
        database.put(&table, "committed", "v").unwrap();
        let mut transaction = begin(&database, isolation);
        transaction.put(&table, "before", "v").unwrap();
        transaction.truncate_table("t").unwrap();
        assert_eq!(transaction.rows(&table).count(), 0);
        transaction.put(&table, "between", "v").unwrap();
        transaction.truncate_table("t").unwrap();
        transaction.put(&table, "after", "v").unwrap();
        transaction.commit().unwrap();
        assert_eq!(keys(&database.snapshot(), "t"), [b"after"]);
        assert_nothing_is_left(&database, 1);
    }
}

#[test]
fn a_name_that_is_given_up_can_be_taken_in_the_same_transaction() {
    let database = open(&SimulatedDisk::new(4));
    let old = database.create_table("t").unwrap();
    database.put(&old, "old", "v").unwrap();
    let before = database.snapshot();
    let mut transaction = database.begin();
    transaction.put(&old, "lost", "v").unwrap();
    transaction.drop_table("t").unwrap();
    let new = transaction.create_table("t").unwrap();
    assert_ne!(old.id(), new.id());
    transaction.put(&new, "new", "v").unwrap();
    assert!(matches!(transaction.put(&old, "late", "v"), Err(Error::NoSuchTable { .. })));
    assert!(matches!(transaction.get(&old, "old"), Err(Error::NoSuchTable { .. })));
    transaction.commit().unwrap();
    assert_eq!(keys(&database.snapshot(), "t"), [b"new"]);
    assert_eq!(keys(&before, "t"), [b"old"]);
    // Two tables change names.
    let other = database.create_table("other").unwrap();
    let mut transaction = database.begin();
    transaction.rename_table("t", "between").unwrap();
    transaction.rename_table("other", "t").unwrap();
    transaction.rename_table("between", "other").unwrap();
    transaction.commit().unwrap();
    assert_eq!(database.table("t").unwrap().id(), other.id());
    assert_eq!(database.table("other").unwrap().id(), new.id());
    drop(before);
    assert_nothing_is_left(&database, 1);
}

/// The drop is in the memtable, or merged while a snapshot still sees the table.
#[test]
fn the_name_of_a_dropped_table_is_free_and_the_table_is_not_forgotten() {
    let disk = SimulatedDisk::new(14);
    let database = open(&disk);
    for merges in [false, true] {
        let old = database.create_table("t").unwrap();
        fill(&database, &old, 50);
        database.create_table("other").unwrap();
        let snapshot = database.snapshot();
        database.tables().drop("t").unwrap();
        if merges {
            database.checkpoint().unwrap();
        }
        let new = database.create_table("t").unwrap();
        database.put(&new, "new", "v").unwrap();
        database.tables().drop("t").unwrap();
        database.tables().rename("other", "t").unwrap();
        assert_eq!(keys(&snapshot, "t").len(), 50);
        assert!(keys(&database.snapshot(), "t").is_empty());
        assert_eq!(names(&database), ["t"]);
        drop(snapshot);
        let crashed = open(&disk.after_power_loss(PowerLoss::LoseAll));
        assert_eq!(crashed.statistics().reclaim.waiting, Some(2));
        for database in [&crashed, &database] {
            assert_eq!(names(database), ["t"]);
            assert_nothing_is_left(database, 0);
        }
        database.tables().drop("t").unwrap();
    }
}

#[test]
fn a_savepoint_brings_tables_back() {
    let database = open(&SimulatedDisk::new(5));
    let table = database.create_table("t").unwrap();
    database.put(&table, "k", "v").unwrap();
    let mut transaction = database.begin();
    let savepoint = transaction.savepoint();
    transaction.truncate_table("t").unwrap();
    transaction.put(&table, "gone", "v").unwrap();
    transaction.drop_table("t").unwrap();
    let new = transaction.create_table("new").unwrap();
    transaction.rollback_to(&savepoint).unwrap();
    assert!(matches!(transaction.put(&new, "k", "v"), Err(Error::NoSuchTable { .. })));
    transaction.put(&table, "l", "v").unwrap();
    transaction.commit().unwrap();
    assert_eq!(names(&database), ["t"]);
    assert_eq!(keys(&database.snapshot(), "t"), [b"k", b"l"]);
    assert_nothing_is_left(&database, 2);
}

/// Each way for a table to go while somebody reads it.
fn tables_change(database: &Database) {
    database.tables().drop("dropped").unwrap();
    database.tables().truncate("truncated").unwrap();
    database.tables().rename("renamed", "elsewhere").unwrap();
    let mut transaction = database.begin();
    transaction.drop_table("replaced").unwrap();
    let new = transaction.create_table("replaced").unwrap();
    transaction.put(&new, "new", "v").unwrap();
    transaction.commit().unwrap();
}

const READ: [&str; 4] = ["dropped", "truncated", "renamed", "replaced"];

#[test]
fn who_began_before_still_reads_the_table_through_checkpoints() {
    for isolation in [Isolation::Snapshot, Isolation::Serializable] {
        let database = open(&SimulatedDisk::new(6));
        for name in READ {
            let table = database.create_table(name).unwrap();
            fill(&database, &table, 200);
        }
        database.checkpoint().unwrap();
        let snapshot = database.snapshot();
        let mut reader = begin(&database, isolation);
        let dropped = reader.table("dropped").unwrap();
        reader.get(&dropped, [0]).unwrap();
        tables_change(&database);
        for _ in 0..3 {
            for name in READ {
                assert_eq!(keys(&snapshot, name).len(), 200, "{name}");
                let table = reader.table(name).unwrap();
                assert_eq!(reader.rows(&table).count(), 200, "{name}");
                assert_eq!(reader.get(&table, [7]).unwrap().unwrap(), [7; 100]);
            }
            database.checkpoint().unwrap();
            assert_eq!(database.statistics().reclaim.waiting, Some(3));
        }
        assert_eq!(names(&database), ["elsewhere", "replaced", "truncated"]);
        // It reads the table, and cannot write to it any more.
        reader.put(&dropped, "late", "v").unwrap();
        assert!(matches!(
            reader.commit(),
            Err(Error::TableChanged { change: TableChange::Dropped, .. } | Error::Conflict { .. })
        ));
        drop(snapshot);
        assert_nothing_is_left(&database, 201);
        assert_eq!(database.statistics().reclaim.tables, 3);
    }
}

type Define = fn(&mut Transaction) -> Result<(), Error>;

const DEFINE: [Define; 4] = [
    |transaction| transaction.drop_table("t"),
    |transaction| transaction.truncate_table("t"),
    |transaction| transaction.rename_table("t", "renamed"),
    |transaction| transaction.rename_table("other", "renamed"),
];

/// Who comes second waits, and then sees what the first made of the table.
#[test]
fn two_who_define_one_table_come_one_after_the_other() {
    let gone: fn(&Result<(), Error>) -> bool = |result| matches!(result, Err(Error::NoSuchTable { .. }));
    let exists: fn(&Result<(), Error>) -> bool = |result| matches!(result, Err(Error::TableExists { .. }));
    let sees = [
        (0, 0, gone),
        (0, 1, gone),
        (1, 0, Result::is_ok),
        (1, 1, Result::is_ok),
        (2, 0, gone),
        (0, 2, gone),
        (2, 2, gone),
        (2, 3, exists),
        (3, 2, exists),
    ];
    for isolation in ALL {
        for (first, second, expected) in sees {
            let database = open(&SimulatedDisk::new(7));
            database.create_table("t").unwrap();
            database.create_table("other").unwrap();
            let lock_wait = LockWait::Timeout(Duration::from_secs(60));
            let mut one = begin(&database, isolation);
            let waiting = TransactionOptions { isolation, lock_wait, ..options().transaction };
            let mut two = database.with(waiting).begin();
            let other = two.table("other").unwrap();
            two.get(&other, "k").unwrap();
            DEFINE[first](&mut one).unwrap();
            let second_waits = std::thread::spawn(move || DEFINE[second](&mut two));
            wait_until("the second definition to wait", || {
                database.statistics().transactions.lock_waiters > 0
            });
            one.commit().unwrap();
            let result = second_waits.join().unwrap();
            let is_expected = match isolation {
                Isolation::ReadCommitted => expected(&result),
                Isolation::Snapshot | Isolation::Serializable => {
                    matches!(result, Err(Error::Conflict { .. }))
                }
            };
            assert!(is_expected, "{isolation:?}: {first} then {second}: {result:?}");
        }
    }
}

#[test]
fn two_who_define_one_table_do_not_both_succeed() {
    for isolation in ALL {
        for (first, second) in [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (0, 2), (2, 2), (2, 3), (3, 2)] {
            let database = open(&SimulatedDisk::new(7));
            database.create_table("t").unwrap();
            database.create_table("other").unwrap();
            let (mut one, mut two) = (begin(&database, isolation), begin(&database, isolation));
            let mark = two.table("other").unwrap();
            two.get(&mark, "k").unwrap();
            DEFINE[first](&mut one).unwrap();
            let blocked = DEFINE[second](&mut two);
            assert!(matches!(blocked, Err(Error::Locked { .. })), "{first} {second}: {blocked:?}");
            one.commit().unwrap();
            database.check(&mut |damage| panic!("{damage}")).unwrap();
            assert_nothing_is_left(&database, 0);
        }
    }
}

#[test]
fn a_drop_waits_for_no_writer_and_the_writer_is_told() {
    for isolation in ALL {
        let database = open(&SimulatedDisk::new(8));
        let table = database.create_table("t").unwrap();
        let mut writer = begin(&database, isolation);
        writer.put(&table, "k", "v").unwrap();
        database.tables().drop("t").unwrap();
        let refused = writer.commit();
        assert!(
            matches!(refused, Err(Error::TableChanged { change: TableChange::Dropped, .. })),
            "{refused:?}"
        );
        // One who comes later, with the old handle.
        assert!(matches!(database.put(&table, "k", "v"), Err(Error::NoSuchTable { .. })));
        assert_nothing_is_left(&database, 0);
    }
}

fn create_many(database: &Database, count: u32, rows: u32) -> Vec<Table> {
    let create = |transaction: &mut Transaction| {
        let tables: Result<Vec<Table>, Error> =
            (0..count).map(|number| transaction.create_table(&format!("t{number}"))).collect();
        for table in tables.as_ref().map_or(&[][..], |tables| tables) {
            (0..rows).try_for_each(|row| transaction.put(table, row.to_be_bytes(), [1; 20]))?;
        }
        tables
    };
    database.transact(create).unwrap()
}

#[test]
fn one_transaction_touches_ten_thousand_tables() {
    const COUNT: u32 = 10_000;
    let disk = SimulatedDisk::new(9);
    let database = open(&disk);
    let tables = create_many(&database, COUNT, 1);
    let touch = |transaction: &mut Transaction| {
        for (number, table) in tables.iter().enumerate() {
            let name = format!("t{number}");
            transaction.put(table, "k", "v")?;
            match number % 4 {
                0 => transaction.drop_table(&name)?,
                1 => transaction.truncate_table(&name)?,
                2 => transaction.rename_table(&name, &format!("r{number}"))?,
                _ => {}
            }
        }
        Ok(())
    };
    database.transact(touch).unwrap();
    assert_eq!(database.statistics().reclaim.waiting, Some(u64::from(COUNT) / 2));
    assert_nothing_is_left(&database, u64::from(COUNT));
    assert_eq!(names(&database).len(), 7_500);
    assert_eq!(names(&open(&disk.after_power_loss(PowerLoss::LoseAll))).len(), 7_500);
}

/// Every second table, so that no two of those dropped lie side by side.
#[test]
fn the_log_of_a_drop_is_short_and_a_drop_of_many_tables_is_cut_in_bounded_chunks() {
    const COUNT: u32 = 2_000;
    let database = open(&SimulatedDisk::new(10));
    create_many(&database, COUNT, 20);
    database.checkpoint().unwrap();
    let before = database.statistics().log.bytes;
    for number in (0..COUNT).step_by(2) {
        let unsynced = TransactionOptions { durability: Durability::Async, ..options().transaction };
        let mut transaction = database.with(unsynced).begin();
        transaction.drop_table(&format!("t{number}")).unwrap();
        transaction.commit().unwrap();
    }
    let each = (database.statistics().log.bytes - before) / u64::from(COUNT / 2);
    assert!(each < 60, "{each} bytes of log for a drop");
    let statistics = database.checkpoint().unwrap();
    assert_eq!(statistics.tables_reclaimed, u64::from(COUNT / 2));
    assert!(statistics.chunks > 5, "{} chunks of 64 KiB", statistics.chunks);
    assert_nothing_is_left(&database, u64::from(COUNT / 2) * 20);
}

#[test]
fn a_catalog_that_changes_all_over_is_merged_in_bounded_chunks_and_an_old_snapshot_sees_none_of_it() {
    const COUNT: u32 = 3_000;
    let disk = SimulatedDisk::new(15);
    let database = open(&disk);
    create_many(&database, COUNT, 0);
    let created = database.checkpoint().unwrap();
    assert!(created.chunks > 3, "{} chunks of 64 KiB", created.chunks);
    let snapshot = database.snapshot();
    let change = |transaction: &mut Transaction| {
        (0..COUNT).try_for_each(|number| match number % 2 {
            0 => transaction.drop_table(&format!("t{number}")),
            _ => transaction.rename_table(&format!("t{number}"), &format!("r{number}")),
        })
    };
    database.transact(change).unwrap();
    for _ in 0..2 {
        let changed = database.checkpoint().unwrap();
        assert!(changed.chunks > 3 || changed.rows < 10, "{} chunks of 64 KiB", changed.chunks);
        for number in 0..COUNT {
            let table = snapshot.table(&format!("t{number}")).unwrap();
            assert_eq!(snapshot.get(&table, "k").unwrap(), None);
        }
        assert!(matches!(snapshot.table("r1"), Err(Error::NoSuchTable { .. })));
        assert_eq!(names(&database).len(), 1_500);
        database.check(&mut |damage| panic!("{damage}")).unwrap();
    }
    assert_eq!(names(&open(&disk.after_power_loss(PowerLoss::LoseAll))).len(), 1_500);
    drop(snapshot);
    assert_nothing_is_left(&database, 0);
}

/// Of what lies wholly in a dropped table interior pages are read, and its space goes back to the file system.
#[test]
fn a_large_table_goes_by_its_interior_pages() {
    let disk = SimulatedDisk::new(11);
    let clock = Arc::default();
    let mut load = open_with(&disk, &clock, options());
    let database = load.clone();
    let mut bulk = load.tables().bulk_load("large").unwrap();
    for row in 0..100_000_u32 {
        bulk.add(row.to_be_bytes(), [7; 200]).unwrap();
    }
    bulk.finish().unwrap();
    database.create_table("small").unwrap();
    drop(database);
    load.checkpoint().unwrap();
    load.close().unwrap();
    load = open_with(&disk, &clock, options());
    load.tables().drop("large").unwrap();
    let statistics = load.checkpoint().unwrap();
    assert!(statistics.freed_pages > 2_500, "{}", statistics.freed_pages);
    assert!(statistics.pages_read < statistics.freed_pages / 50, "{} pages read", statistics.pages_read);
    let reclaim = load.statistics().reclaim;
    assert_eq!((reclaim.waiting, reclaim.tables), (Some(0), 1));
    assert!(reclaim.freed_bytes > 20 << 20, "{reclaim:?}");
    assert!(reclaim.punched_bytes > reclaim.freed_bytes / 10 * 9, "{reclaim:?}");
    assert_nothing_is_left(&load, 0);
}

#[test]
fn an_opened_database_knows_what_waits_before_its_first_checkpoint() {
    let disk = SimulatedDisk::new(12);
    let database = open(&disk);
    for name in ["a", "b"] {
        database.create_table(name).unwrap();
    }
    let snapshot = database.snapshot();
    database.tables().drop("a").unwrap();
    database.checkpoint().unwrap();
    database.tables().truncate("b").unwrap();
    assert_eq!(database.statistics().reclaim.waiting, Some(2));
    for crashed in [disk.after_power_loss(PowerLoss::LoseAll), disk.copy()] {
        let reopened = open(&crashed);
        assert_eq!(reopened.statistics().reclaim.waiting, Some(2));
        assert_nothing_is_left(&reopened, 0);
        assert_eq!(reopened.statistics().reclaim.tables, 2);
    }
    drop(snapshot);
}

/// Nothing is written after the snapshot has ended: time alone brings the space back.
#[test]
fn space_that_a_snapshot_held_comes_back_when_it_has_ended() {
    let mut options = Options { background: Background::Threads, ..options() };
    options.checkpoint.interval = Duration::from_millis(1);
    let environment = Environment::of_the_system(Arc::new(SimulatedDisk::new(13)));
    let database = Database::open(environment, options).unwrap();
    let table = database.create_table("t").unwrap();
    fill(&database, &table, 100);
    let snapshot = database.snapshot();
    database.tables().drop("t").unwrap();
    database.checkpoint().unwrap();
    assert_eq!(database.statistics().reclaim.waiting, Some(1));
    assert_eq!(keys(&snapshot, "t").len(), 100);
    drop(snapshot);
    wait_until("the dropped table to be cut out", || database.statistics().reclaim.waiting == Some(0));
    database.close().unwrap();
}
