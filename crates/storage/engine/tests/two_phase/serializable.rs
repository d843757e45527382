//! A serializable transaction that is in doubt has its place in the order where it is decided: until then nobody commits a
//! change of what it has read.

use std::sync::Arc;
use std::time::Duration;

use seawall_engine::{
    Background, Database, Environment, Error, Isolation, LockWait, Options, Table, Transaction,
    TransactionOptions,
};
use seawall_simulation::SimulatedDisk;
use seawall_testing::wait_until;

use super::{begin, check_and_close, get, lose_power, open, options, put};

const SERIALIZABLE: Isolation = Isolation::Serializable;

/// Reads the row `read` and the range `m..p`, and writes `gid`, as prepared.
fn prepare_reader(database: &Database, table: &Table, gid: &str) -> Result<(), Error> {
    let mut transaction = begin(database, SERIALIZABLE);
    transaction.get(table, "read")?;
    assert_eq!(transaction.range(table, "m".."p").count(), 0);
    transaction.put(table, gid, "1")?;
    transaction.prepare(gid).map(|_| ())
}

#[test]
fn what_it_has_read_is_validated_at_the_prepare() {
    let database = open(&SimulatedDisk::new(1));
    let table = database.create_table("t").unwrap();
    let mut transaction = begin(&database, SERIALIZABLE);
    assert_eq!(transaction.get(&table, "a").unwrap(), None);
    transaction.put(&table, "b", "1").unwrap();
    put(&database, "a", "1").unwrap();
    let refused = transaction.prepare("gid");
    assert!(matches!(refused, Err(Error::Conflict { .. })), "{refused:?}");
    put(&database, "b", "not locked").unwrap();
    check_and_close(database);
}

#[test]
fn what_it_has_read_is_protected_until_the_decision_across_restarts() {
    let disk = SimulatedDisk::new(2);
    let mut database = open(&disk);
    let table = database.create_table("t").unwrap();
    prepare_reader(&database, &table, "gid").unwrap();
    let mut disk = disk;
    for restart in 0..3 {
        if restart > 0 {
            if restart == 2 {
                database.checkpoint().unwrap();
            }
            disk = lose_power(&disk, database);
            database = open(&disk);
        }
        for key in ["read", "m", "oz"] {
            let refused = put(&database, key, "1");
            assert!(matches!(refused, Err(Error::Locked { .. })), "{key}: {refused:?}");
        }
        put(&database, "p", "1").unwrap();
        put(&database, "l", "1").unwrap();
        // It has read where the table's rows are.
        assert!(matches!(database.tables().truncate("t"), Err(Error::TableInDoubt { .. })));
    }
    database.two_phase().commit("gid").unwrap();
    for key in ["read", "m", "oz"] {
        put(&database, key, "1").unwrap();
    }
    check_and_close(database);
}

#[test]
fn of_two_prepared_ones_that_read_what_the_other_writes_one_is_refused() {
    for first_reads in [true, false] {
        let database = open(&SimulatedDisk::new(3));
        let table = database.create_table("t").unwrap();
        let mut one = begin(&database, SERIALIZABLE);
        let mut two = begin(&database, SERIALIZABLE);
        if first_reads {
            assert_eq!(one.get(&table, "y").unwrap(), None);
        }
        assert_eq!(two.get(&table, "x").unwrap(), None);
        one.put(&table, "x", "1").unwrap();
        two.put(&table, "y", "1").unwrap();
        one.prepare("one").unwrap();
        let refused = two.prepare("two");
        assert!(matches!(refused, Err(Error::Locked { .. })), "{refused:?}");
        database.two_phase().commit("one").unwrap();
        check_and_close(database);
    }
}

#[test]
fn of_two_global_transactions_that_read_in_one_database_what_the_other_writes_there_one_is_refused() {
    let (first, second) = (SimulatedDisk::new(6), SimulatedDisk::new(7));
    let databases = [open(&first), open(&second)];
    let tables = databases.each_ref().map(|database| database.create_table("t").unwrap());
    // T1 reads in the first database and writes in the second one, T2 the other way round.
    let [mut one_here, mut two_here] = [(); 2].map(|()| begin(&databases[0], SERIALIZABLE));
    let [mut one_there, mut two_there] = [(); 2].map(|()| begin(&databases[1], SERIALIZABLE));
    assert_eq!(one_here.get(&tables[0], "x").unwrap(), None);
    assert_eq!(two_there.get(&tables[1], "y").unwrap(), None);
    one_there.put(&tables[1], "y", "1").unwrap();
    two_here.put(&tables[0], "x", "1").unwrap();
    one_here.prepare("one").unwrap();
    one_there.prepare("one").unwrap();
    let refused = two_here.prepare("two");
    assert!(matches!(refused, Err(Error::Locked { .. })), "{refused:?}");
    let refused = two_there.prepare("two");
    assert!(matches!(refused, Err(Error::Locked { .. })), "{refused:?}");
    // What was only read is protected across a restart, and decided like any other.
    databases[0].checkpoint().unwrap();
    let [here, there] = databases;
    let left = lose_power(&first, here);
    let here = open(&left);
    assert!(matches!(put(&here, "x", "2"), Err(Error::Locked { .. })));
    for database in [&here, &there] {
        let found = database.two_phase().in_doubt().unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].rows, u64::from(std::ptr::eq(database, &raw const there)));
        database.two_phase().commit("one").unwrap();
    }
    put(&here, "x", "2").unwrap();
    check_and_close(here);
    check_and_close(there);
}

#[test]
fn a_serializable_transaction_that_has_done_nothing_has_nothing_to_prepare() {
    let database = open(&SimulatedDisk::new(8));
    let refused = begin(&database, SERIALIZABLE).prepare("gid");
    assert!(matches!(refused, Err(Error::NothingToPrepare)), "{refused:?}");
    check_and_close(database);
}

#[test]
fn a_writer_that_was_prepared_first_keeps_a_reader_from_being_prepared() {
    let disk = SimulatedDisk::new(4);
    let database = open(&disk);
    let table = database.create_table("t").unwrap();
    super::prepare(&database, "writer", &[("n", "1")]);
    let refused = prepare_reader(&database, &table, "reader");
    assert!(matches!(refused, Err(Error::Locked { .. })), "{refused:?}");
    // A commit has its place before the decision, so it may have read the old row.
    let mut plain = begin(&database, SERIALIZABLE);
    assert_eq!(plain.get(&table, "n").unwrap(), None);
    plain.put(&table, "plain", "1").unwrap();
    plain.commit().unwrap();
    database.checkpoint().unwrap();
    let left = lose_power(&disk, database);
    let database = open(&left);
    let table = database.table("t").unwrap();
    assert!(prepare_reader(&database, &table, "reader").is_err());
    database.two_phase().rollback("writer").unwrap();
    prepare_reader(&database, &table, "reader").unwrap();
    database.two_phase().commit("reader").unwrap();
    check_and_close(database);
}

/// The read-only anomaly (Fekete, O'Neil, O'Neil, SIGMOD Record 2004), with a prepared transaction in it: without
/// protection, the reader would see the deposit but not the withdrawal that came before it.
#[test]
fn a_reader_never_sees_a_later_commit_without_an_earlier_decision() {
    let database = open(&SimulatedDisk::new(5));
    let table = database.create_table("t").unwrap();
    put(&database, "savings", "0").unwrap();
    put(&database, "checking", "0").unwrap();
    let mut withdrawal = begin(&database, SERIALIZABLE);
    withdrawal.get(&table, "savings").unwrap();
    withdrawal.put(&table, "checking", "-11").unwrap();
    withdrawal.prepare("withdrawal").unwrap();
    assert!(matches!(put(&database, "savings", "20"), Err(Error::Locked { .. })));
    let mut reader = begin(&database, SERIALIZABLE);
    assert_eq!(reader.get(&table, "savings").unwrap().as_deref(), Some(&b"0"[..]));
    drop(reader);
    database.two_phase().commit("withdrawal").unwrap();
    put(&database, "savings", "20").unwrap();
    check_and_close(database);
}

#[test]
fn a_writer_waits_for_the_decision() {
    let mut options = Options { background: Background::Threads, ..options() };
    options.transaction.lock_wait = LockWait::Timeout(Duration::from_secs(120));
    let environment = Environment::of_the_system(Arc::new(SimulatedDisk::new(6)));
    let database = Database::open(environment, options).unwrap();
    let table = database.create_table("t").unwrap();
    prepare_reader(&database, &table, "gid").unwrap();
    std::thread::scope(|scope| {
        let writers: Vec<_> = ["read", "m", "n"]
            .into_iter()
            .map(|key| {
                let database = &database;
                scope.spawn(move || put(database, key, "1"))
            })
            .collect();
        database.two_phase().commit("gid").unwrap();
        writers.into_iter().for_each(|writer| writer.join().unwrap().unwrap());
    });
    assert_eq!(get(&database, "n").as_deref(), Some("1"));
    check_and_close(database);
}

/// Decisions about other transactions wake it up each time.
#[test]
fn a_large_commit_that_waits_for_a_decision_takes_its_memory_once() {
    const VALUE_BYTES: usize = 1 << 20;
    let mut options = Options { background: Background::Threads, ..options() };
    options.transaction.lock_wait = LockWait::Timeout(Duration::from_secs(600));
    options.memory.memtable_bytes = 1 << 30;
    options.checkpoint.log_bytes = 1 << 30;
    let environment = Environment::of_the_system(Arc::new(SimulatedDisk::new(11)));
    let database = Database::open(environment, options).unwrap();
    let table = database.create_table("t").unwrap();
    prepare_reader(&database, &table, "reader").unwrap();
    std::thread::scope(|scope| {
        let before = database.statistics().memtable.bytes;
        let writer = scope.spawn(|| database.put(&table, "read", vec![1; VALUE_BYTES]));
        wait_until("the large commit to wait for the decision", || {
            database.statistics().transactions.lock_waiters > 0
        });
        for number in 0..1_000 {
            let gid = number.to_string();
            super::prepare(&database, &gid, &[(&gid, "1")]);
            database.two_phase().commit(&gid).unwrap();
        }
        let waiting = database.statistics().memtable.bytes - before;
        database.two_phase().commit("reader").unwrap();
        writer.join().unwrap().unwrap();
        let all = database.statistics().memtable.bytes - before;
        println!("{waiting} bytes while it waited, {all} in all");
        assert!(
            usize::try_from(all).unwrap() < 2 * VALUE_BYTES,
            "{waiting} bytes while it waited, {all} in all"
        );
    });
    check_and_close(database);
}

/// The room that a waiting commit has no use for yet is not kept from the decision.
#[test]
fn a_decision_gets_room_in_the_memtable_while_a_large_commit_waits_for_it() {
    let mut options = Options { background: Background::Threads, ..options() };
    options.transaction.lock_wait = LockWait::Timeout(Duration::from_secs(120));
    options.memory.memtable_bytes = 2 << 20;
    let environment = Environment::of_the_system(Arc::new(SimulatedDisk::new(12)));
    let database = Database::open(environment, options.clone()).unwrap();
    let table = database.create_table("t").unwrap();
    // No checkpoint is due before the large commit, and one beside it would have no room.
    database.put(&table, "filler", vec![0; 500 << 10]).unwrap();
    let mut prepared =
        database.with(TransactionOptions { isolation: SERIALIZABLE, ..options.transaction }).begin();
    assert_eq!(prepared.get(&table, "x").unwrap(), None);
    (0..60).for_each(|row| prepared.put(&table, format!("prepared {row}"), [0; 100]).unwrap());
    prepared.prepare("gid").unwrap();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut transaction = database.with(options.transaction).begin();
            (0..300).for_each(|row| transaction.put(&table, format!("large {row}"), [0; 3_000]).unwrap());
            transaction.put(&table, "x", "1").unwrap();
            transaction.commit().unwrap();
        });
        wait_until("the large commit to wait for the decision", || {
            database.statistics().transactions.lock_waiters > 0
        });
        let decision = scope.spawn(|| database.two_phase().commit("gid").map(|_| ()));
        wait_until("the decision to be made", || decision.is_finished());
        decision.join().unwrap().unwrap();
        writer.join().unwrap();
    });
    assert_eq!(get(&database, "x").as_deref(), Some("1"));
    check_and_close(database);
}

#[test]
fn a_reader_that_is_to_be_prepared_waits_for_the_decision_about_what_it_has_read() {
    for commits in [true, false] {
        let mut options = Options { background: Background::Threads, ..options() };
        options.transaction.lock_wait = LockWait::Timeout(Duration::from_secs(120));
        let environment = Environment::of_the_system(Arc::new(SimulatedDisk::new(7)));
        let database = Database::open(environment, options.clone()).unwrap();
        let table = database.create_table("t").unwrap();
        super::prepare(&database, "writer", &[("n", "1")]);
        let mut reader =
            database.with(TransactionOptions { isolation: SERIALIZABLE, ..options.transaction }).begin();
        assert_eq!(reader.range(&table, "m".."p").count(), 0);
        reader.put(&table, "reader", "1").unwrap();
        let outcome = std::thread::scope(|scope| {
            let waiting = scope.spawn(|| reader.prepare("reader"));
            // It has its gid, and goes on to its place in the log.
            wait_until("the second prepare to have its gid", || {
                database.statistics().two_phase.in_doubt >= 2
            });
            // While it waits it keeps nobody from anything.
            put(&database, "m", "1").unwrap();
            if commits {
                database.two_phase().commit("writer").unwrap();
            } else {
                database.two_phase().rollback("writer").unwrap();
            }
            waiting.join().unwrap()
        });
        // Somebody has changed what it has read; not the one it waited for, if that was rolled back.
        assert!(matches!(outcome, Err(Error::Conflict { .. })), "{outcome:?}");
        check_and_close(database);
    }
}

#[test]
fn a_reader_is_prepared_once_the_writer_is_rolled_back() {
    let mut options = Options { background: Background::Threads, ..options() };
    options.transaction.lock_wait = LockWait::Timeout(Duration::from_secs(120));
    let environment = Environment::of_the_system(Arc::new(SimulatedDisk::new(8)));
    let database = Database::open(environment, options.clone()).unwrap();
    let table = database.create_table("t").unwrap();
    super::prepare(&database, "writer", &[("n", "1")]);
    let mut reader =
        database.with(TransactionOptions { isolation: SERIALIZABLE, ..options.transaction }).begin();
    assert_eq!(reader.get(&table, "n").unwrap(), None);
    reader.put(&table, "reader", "1").unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| reader.prepare("reader"));
        wait_until("the second prepare to have its gid", || database.statistics().two_phase.in_doubt >= 2);
        database.two_phase().rollback("writer").unwrap();
        waiting.join().unwrap().unwrap();
    });
    database.two_phase().commit("reader").unwrap();
    check_and_close(database);
}

/// Each reads the whole table and counts up: whoever is second waits, then begins anew. None waits for one that waits.
#[test]
fn serializable_transactions_that_all_conflict_get_through_one_after_the_other() {
    let mut options = Options { background: Background::Threads, ..options() };
    options.transaction.lock_wait = LockWait::Timeout(Duration::from_secs(120));
    let environment = Environment::of_the_system(Arc::new(SimulatedDisk::new(9)));
    let database = Database::open(environment, options.clone()).unwrap();
    let table = database.create_table("t").unwrap();
    std::thread::scope(|scope| {
        for worker in 0..4_u8 {
            let (database, table, options) = (&database, &table, &options);
            scope.spawn(move || {
                let mut done = 0;
                while done < 25 {
                    let options = TransactionOptions { isolation: SERIALIZABLE, ..options.transaction };
                    let mut transaction = database.with(options).begin();
                    let rows = transaction.rows(table).count();
                    let gid = format!("{worker} {done}");
                    let written = transaction.put(table, format!("{rows}"), [worker]);
                    match written.and_then(|()| transaction.prepare(&gid)) {
                        Ok(_) => {
                            database.two_phase().commit(&gid).unwrap();
                            done += 1;
                        }
                        Err(Error::Conflict { .. }) => {}
                        Err(other) => panic!("{other}"),
                    }
                }
            });
        }
    });
    assert_eq!(database.snapshot().rows(&table).count(), 100, "no count was taken twice");
    check_and_close(database);
}

/// Rows that are read again, ranges that overlap: the record and the memory of the prepare have each once.
#[test]
fn what_is_read_again_and_again_is_kept_once() {
    let database = open(&SimulatedDisk::new(10));
    let table = database.create_table("t").unwrap();
    let mut transaction = begin(&database, SERIALIZABLE);
    for number in 0..10_000_u32 {
        assert_eq!(transaction.get_for_update(&table, "read").unwrap(), None);
        assert_eq!(transaction.get(&table, "m").unwrap(), None);
        assert_eq!(transaction.range(&table, format!("a{:02}", number % 50)..format!("b")).count(), 0);
    }
    transaction.put(&table, "x", "1").unwrap();
    let before = database.statistics().memtable.bytes;
    transaction.prepare("gid").unwrap();
    let taken = database.statistics().memtable.bytes - before;
    assert!(taken < 2_000, "{taken} bytes");
    assert!(put(&database, "a00x", "1").is_err() && put(&database, "m", "1").is_err());
    assert!(put(&database, "read", "1").is_err());
    put(&database, "b", "1").unwrap();
    database.two_phase().commit("gid").unwrap();
    check_and_close(database);
}

/// Whoever begins after the decision meets no table, and may commit before the reader is decided: so the reader would have to
/// come both before and after it.
#[test]
fn who_has_read_a_table_that_a_transaction_in_doubt_defines_is_not_prepared() {
    type Define = fn(&mut Transaction) -> Result<(), Error>;
    let definitions: [Define; 3] = [
        |transaction| transaction.drop_table("t"),
        |transaction| transaction.truncate_table("t"),
        |transaction| transaction.rename_table("t", "renamed"),
    ];
    for define in definitions {
        let disk = SimulatedDisk::new(13);
        let database = open(&disk);
        let table = database.create_table("t").unwrap();
        let other = database.create_table("other").unwrap();
        let mut reader = begin(&database, SERIALIZABLE);
        assert_eq!(reader.rows(&table).count(), 0);
        reader.put(&other, "reader", "1").unwrap();
        let mut definer = begin(&database, SERIALIZABLE);
        define(&mut definer).unwrap();
        definer.prepare("definer").unwrap();
        let refused = reader.prepare("reader");
        assert!(matches!(refused, Err(Error::Locked { .. })), "{refused:?}");
        // A commit has its place before the decision.
        let mut plain = begin(&database, SERIALIZABLE);
        assert_eq!(plain.rows(&table).count(), 0);
        plain.put(&other, "plain", "1").unwrap();
        plain.commit().unwrap();
        let left = lose_power(&disk, database);
        let database = open(&left);
        let (table, other) = (database.table("t").unwrap(), database.table("other").unwrap());
        let prepare_reader = || {
            let mut reader = begin(&database, SERIALIZABLE);
            assert_eq!(reader.rows(&table).count(), 0);
            reader.put(&other, "reader", "1").unwrap();
            reader.prepare("reader")
        };
        let refused = prepare_reader();
        assert!(matches!(refused, Err(Error::Locked { .. })), "{refused:?}");
        database.two_phase().rollback("definer").unwrap();
        prepare_reader().unwrap();
        database.two_phase().commit("reader").unwrap();
        check_and_close(database);
    }
}
