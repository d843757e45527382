//! What transactions take in memory: never more than the options say, whatever they do.
#![expect(clippy::unwrap_used, reason = "a test that fails panics")]

mod common;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use seawall_engine::{
    Background, Database, Durability, Environment, Error, Isolation, LockWait, Options, Table, Transaction,
    TransactionOptions,
};
use seawall_simulation::SimulatedDisk;

use common::{small_options, try_open};

/// Counts what is allocated by the thread of a test, as the allocator rounds it.
mod counting {
    #![expect(unsafe_code, reason = "an allocator that counts and passes on")]

    use std::alloc::{GlobalAlloc, Layout, System};
    use std::cell::Cell;

    struct Counting;

    #[global_allocator]
    static COUNTING: Counting = Counting;

    thread_local! {
        static ALLOCATED: Cell<i64> = const { Cell::new(0) };
    }

    /// A word before each piece, whole units of 16 bytes.
    fn rounded(bytes: usize) -> i64 {
        i64::try_from((bytes + 8).next_multiple_of(16).max(32)).unwrap_or(i64::MAX)
    }

    fn count(bytes: i64) {
        // A thread that is ending counts no more.
        ALLOCATED.try_with(|allocated| allocated.set(allocated.get() + bytes)).unwrap_or(());
    }

    /// Bytes that this thread has allocated more than it has freed.
    pub(crate) fn allocated() -> i64 {
        ALLOCATED.with(Cell::get)
    }

    // SAFETY: every call is passed on as it is.
    unsafe impl GlobalAlloc for Counting {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            count(rounded(layout.size()));
            // SAFETY: the caller answers for the layout.
            unsafe { System.alloc(layout) }
        }

        unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
            count(-rounded(layout.size()));
            // SAFETY: the caller answers for pointer and layout.
            unsafe { System.dealloc(pointer, layout) }
        }

        unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
            count(rounded(bytes) - rounded(layout.size()));
            // SAFETY: the caller answers for pointer, layout and size.
            unsafe { System.realloc(pointer, layout, bytes) }
        }
    }
}

const LIMIT: u64 = 8 << 20;

fn open(limit: u64) -> (Database, Table) {
    let mut options = small_options();
    options.memory.memtable_bytes = 64 << 20;
    options.memory.transaction_bytes = limit;
    options.memory.all_transactions_bytes = limit.max(2 * LIMIT);
    let database = try_open(&SimulatedDisk::new(1), options).unwrap();
    let table = database.create_table("t").unwrap();
    (database, table)
}

/// Does `step` with 0, 1, 2... until the transaction is refused more; how much it had taken, of `LIMIT`.
fn until_refused(
    transaction: &mut Transaction,
    mut step: impl FnMut(&mut Transaction, u64) -> Result<(), Error>,
) -> i64 {
    let before = counting::allocated();
    for number in 0.. {
        assert!(counting::allocated() - before < 4 * i64::try_from(LIMIT).unwrap(), "it is never refused");
        match step(transaction, number) {
            Ok(()) => {}
            Err(error) => {
                assert!(matches!(error, Error::TransactionTooLarge { limit: LIMIT, .. }), "{error}");
                break;
            }
        }
    }
    counting::allocated() - before
}

fn begin(database: &Database, isolation: Isolation) -> Transaction {
    database.with(TransactionOptions { isolation, ..small_options().transaction }).begin()
}

#[test]
fn a_transaction_takes_no_more_than_its_limit_whatever_it_does() {
    let steps: [(&str, Step); 10] = [
        ("deletes in order", |transaction, table, number| transaction.delete(table, number.to_be_bytes())),
        ("deletes", |transaction, table, number| {
            transaction.delete(table, number.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes())
        }),
        ("small rows", |transaction, table, number| transaction.put(table, number.to_be_bytes(), [1; 8])),
        ("rows", |transaction, table, number| transaction.put(table, number.to_be_bytes(), [1; 1000])),
        ("one row, with savepoints", |transaction, table, number| {
            transaction.savepoint();
            transaction.put(table, [1; 8], number.to_be_bytes())
        }),
        ("one row, after a savepoint", |transaction, table, number| {
            if number == 0 {
                transaction.savepoint();
            }
            transaction.put(table, [1; 8], number.to_be_bytes())
        }),
        ("locks", |transaction, table, number| {
            transaction.get_for_update(table, number.to_be_bytes()).map(|_| ())
        }),
        ("refused updates", |transaction, table, number| {
            let refuse = |_: Option<&[u8]>| Err::<Option<[u8; 0]>, _>(Error::NoSuchSavepoint);
            match transaction.try_update(table, number.to_be_bytes(), refuse) {
                Err(Error::NoSuchSavepoint) => Ok(()),
                other => other,
            }
        }),
        ("reads", |transaction, table, number| transaction.get(table, number.to_be_bytes()).map(|_| ())),
        ("ranges", |transaction, table, number| {
            let mut range =
                transaction.range(table, (2 * number).to_be_bytes()..(2 * number + 1).to_be_bytes());
            range.next_row().map(|_| ())
        }),
    ];
    for isolation in [Isolation::Snapshot, Isolation::Serializable] {
        let takes_memory = |what: &str| isolation == Isolation::Serializable || !READS.contains(&what);
        for (what, step) in steps.into_iter().filter(|(what, _)| takes_memory(what)) {
            takes_no_more_than_its_limit(what, isolation, step);
        }
    }
}

/// Steps that do nothing but read, which only `Serializable` remembers.
const READS: [&str; 2] = ["reads", "ranges"];

type Step = fn(&mut Transaction, &Table, u64) -> Result<(), Error>;

fn takes_no_more_than_its_limit(what: &str, isolation: Isolation, step: Step) {
    let (database, table) = open(LIMIT);
    let start = counting::allocated();
    let mut transaction = begin(&database, isolation);
    let taken = until_refused(&mut transaction, |transaction, number| step(transaction, &table, number));
    let limit = i64::try_from(LIMIT).unwrap();
    // The record is still to come, and is counted.
    assert!(taken <= limit + limit / 10, "{what}, {isolation:?}: {taken}");
    assert!(
        taken >= limit * 3 / 10,
        "{what}, {isolation:?}, is charged for much more than it takes: {taken}"
    );
    drop(transaction);
    let left = counting::allocated() - start;
    // The lock table keeps room for some.
    assert!(left < limit / 8, "{what}, {isolation:?}: {left} bytes stay");
}

#[test]
fn what_a_savepoint_takes_back_leaves_no_memory_that_nobody_counts() {
    let (database, table) = open(LIMIT);
    let mut transaction = begin(&database, Isolation::Snapshot);
    let savepoint = transaction.savepoint();
    let start = counting::allocated();
    let taken = until_refused(&mut transaction, |transaction, number| {
        transaction.put(&table, number.to_be_bytes(), [1; 8])
    });
    transaction.rollback_to(&savepoint).unwrap();
    let left = counting::allocated() - start;
    // The lock table keeps room for some, and the transaction its list of locks.
    assert!(left < taken / 4, "{left} of {taken} bytes stay");
}

#[test]
fn definitions_of_tables_count_and_one_that_is_refused_leaves_nothing_behind() {
    let (database, _table) = open(LIMIT);
    let mut transaction = begin(&database, Isolation::Snapshot);
    let mut made = 0;
    let taken = until_refused(&mut transaction, |transaction, number| {
        made = number;
        transaction.create_table(&format!("table {number}")).map(|_| ())
    });
    let limit = i64::try_from(LIMIT).unwrap();
    assert!(taken <= limit + limit / 10 && made > 1_000, "{taken} bytes for {made} tables");
    transaction.commit().unwrap();
    assert_eq!(database.tables().list().unwrap().len() as u64, made + 1);
    database.check(&mut |damage| panic!("{damage}")).unwrap();
}

#[test]
fn one_row_that_is_read_again_and_again_takes_no_more_memory() {
    let (database, table) = open(LIMIT);
    let mut transaction = begin(&database, Isolation::Serializable);
    for _ in 0..300_000 {
        transaction.get(&table, "k").unwrap();
    }
    transaction.put(&table, "l", "v").unwrap();
    transaction.commit().unwrap();
}

#[test]
fn a_reader_takes_no_memory_for_what_its_transaction_has_written_unless_that_writes_on() {
    let (database, table) = open(LIMIT);
    let mut transaction = begin(&database, Isolation::ReadCommitted);
    for row in 0..5_000_u32 {
        transaction.put(&table, row.to_be_bytes(), [7; 100]).unwrap();
    }
    let before = counting::allocated();
    let mut reader = transaction.open_reader(&table).unwrap();
    let taken = counting::allocated() - before;
    assert!(taken < 10_000, "{taken} bytes for a reader");
    transaction.put(&table, 7_u32.to_be_bytes(), "new").unwrap();
    transaction.delete(&table, 8_u32.to_be_bytes()).unwrap();
    let length = |reader: &mut seawall_engine::Reader, row: u32| {
        reader.get_with(row.to_be_bytes(), |value| value.map(<[u8]>::len)).unwrap()
    };
    assert_eq!([7, 8, 5_000].map(|row| length(&mut reader, row)), [Some(100), Some(100), None]);
    drop(reader);
    let mut reader = transaction.open_reader(&table).unwrap();
    assert_eq!([7, 8, 9].map(|row| length(&mut reader, row)), [Some(3), None, Some(100)]);
}

#[test]
fn all_transactions_together_keep_to_the_memory_that_they_may_take() {
    let (database, table) = open(LIMIT);
    let mut open: Vec<Transaction> = Vec::new();
    let mut rows = 0_u64;
    let refused = 'all: loop {
        let mut transaction = begin(&database, Isolation::Snapshot);
        for _ in 0..20_000 {
            rows += 1;
            if let Err(error) = transaction.put(&table, rows.to_be_bytes(), [7; 8]) {
                open.push(transaction);
                break 'all error;
            }
        }
        open.push(transaction);
        assert!(open.len() < 10, "nobody is refused");
    };
    assert!(matches!(refused, Error::TransactionMemory { limit, .. } if limit == 2 * LIMIT), "{refused}");
    assert!(refused.to_string().contains("`memory.all_transactions_bytes`"), "{refused}");
    // What was refused has changed nothing: all can commit, and make room.
    let mut last = open.pop().unwrap();
    open.into_iter().for_each(|transaction| assert!(transaction.commit().is_ok()));
    last.put(&table, rows.to_be_bytes(), [7; 8]).unwrap();
    last.commit().unwrap();
    assert_eq!(database.snapshot().range::<&[u8]>(&table, ..).count() as u64, rows);
}

#[test]
fn large_commits_that_come_at_once_overfill_the_memtable_by_one_of_them_at_most() {
    const MEMTABLE: u64 = 16 << 20;
    const ROWS: u64 = 60_000;
    let mut options = Options { background: Background::Threads, ..small_options() };
    options.memory.memtable_bytes = MEMTABLE;
    options.memory.transaction_bytes = 64 << 20;
    options.format.segment_bytes = 16 << 20;
    options.checkpoint.log_bytes = 1 << 30;
    options.checkpoint.chunk_bytes = 4 << 20;
    options.transaction.lock_wait = LockWait::Timeout(Duration::from_secs(600));
    let environment = Environment::of_the_system(Arc::new(SimulatedDisk::new(1)));
    let database = Database::open(environment, options).unwrap();
    let table = database.create_table("t").unwrap();
    let (barrier, largest, is_over) = (Barrier::new(8), AtomicU64::new(0), AtomicBool::new(false));
    let look = || largest.fetch_max(database.statistics().memtable.bytes, Ordering::SeqCst);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..8_u64)
            .map(|writer| {
                let (database, table, barrier, look) = (&database, &table, &barrier, &look);
                scope.spawn(move || {
                    let mut transaction = database.begin();
                    transaction.set_durability(Durability::Async);
                    for row in 0..ROWS {
                        transaction.put(table, (writer << 32 | row).to_be_bytes(), [7; 100]).unwrap();
                    }
                    barrier.wait();
                    transaction.commit().unwrap();
                    look();
                })
            })
            .collect();
        scope.spawn(|| {
            while !is_over.load(Ordering::SeqCst) {
                look();
                std::thread::yield_now();
            }
        });
        let ended: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        is_over.store(true, Ordering::SeqCst);
        ended.into_iter().for_each(|ended| ended.unwrap());
    });
    let one = ROWS * (16 + 100 + 100);
    let largest = largest.into_inner();
    assert!(largest > MEMTABLE / 2, "{largest}");
    assert!(largest < MEMTABLE / 2 * 3 + one, "{largest} bytes, and one commit has {one}");
    database.close().unwrap();
}
