//! What transactions see of each other, while rows are written over and over.
//!
//! Checked: a snapshot shows the rows as of its stamp, however often they were written since, and all rows of a commit or none;
//! of two serializable transactions that each overwrite what the other has read, one is refused; and so is, of two to be prepared,
//! one that has read a table that the other drops.

use std::sync::Arc;

use seawall_engine::{
    Background, Database, Durability, Error, Isolation, LockWait, Table, TransactionOptions,
};
use seawall_simulation::SimulatedDisk;
use seawall_sync::thread;
use seawall_types::Lsn;

use crate::world::{Shared, open, shared, small_options};

const WRITES: u8 = 6;
const LOOKS: u8 = 4;
/// A commit of so many bytes is put into the memtable ahead of its place in the log.
const LARGE_BYTES: usize = 64 << 10;

fn open_async(seed: u64) -> (Database, Table) {
    let mut options = small_options(Background::Manual);
    options.transaction.durability = Durability::Async;
    let database = open(&SimulatedDisk::new(seed), options);
    let table = database.create_table("t").unwrap();
    (database, table)
}

/// Stamps of the commits that wrote a row, in order.
type Stamps = Shared<Vec<Lsn>>;

/// What a snapshot showed.
#[derive(Debug)]
struct Seen {
    lsn: Lsn,
    pair: [u8; 3],
    single: [u8; 2],
}

/// One writes two rows together again and again, another one a third without a transaction, which can be ahead of what is
/// visible; two look.
pub(crate) fn of_snapshots(seed: u64) {
    snapshots(seed, write_pair, 0);
}

/// The pair is put into the memtable before it has its place in the log, beside checkpoints that freeze the memtable.
pub(crate) fn of_snapshots_beside_large_commits(seed: u64) {
    snapshots(seed, write_large_pair, 2);
}

fn snapshots(seed: u64, write_pair: fn(&Database, &Table, u8, &Stamps), checkpoints: u32) {
    let (database, table) = open_async(seed);
    let checkpointing = {
        let database = database.clone();
        thread::spawn(move || {
            for _ in 0..checkpoints {
                database.checkpoint().unwrap();
            }
        })
    };
    let (pairs, singles): (Stamps, Stamps) = (shared(), shared());
    write_pair(&database, &table, 0, &pairs);
    write_single(&database, &table, 0, &singles);
    let writers = [(write_pair, &pairs), (write_single, &singles)].map(|(write, stamps)| {
        let (database, table, stamps) = (database.clone(), table.clone(), Arc::clone(stamps));
        thread::spawn(move || (1..WRITES).for_each(|number| write(&database, &table, number, &stamps)))
    });
    let readers: Vec<_> = (0..2)
        .map(|_| {
            let (database, table) = (database.clone(), table.clone());
            thread::spawn(move || (0..LOOKS).map(|_| look(&database, &table)).collect::<Vec<_>>())
        })
        .collect();
    let all: Vec<_> = readers.into_iter().flat_map(|reader| reader.join().unwrap()).collect();
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    checkpointing.join().unwrap();
    let number_at = |stamps: &Stamps, lsn: Lsn| {
        u8::try_from(stamps.lock().unwrap().iter().filter(|stamp| **stamp <= lsn).count()).unwrap() - 1
    };
    for seen in all {
        assert_eq!(seen.pair, [number_at(&pairs, seen.lsn); 3], "{seen:?}, by {pairs:?}");
        assert_eq!(seen.single, [number_at(&singles, seen.lsn); 2], "{seen:?}, by {singles:?}");
    }
    database.close().unwrap();
}

/// Two rows are written together again and again, beside checkpoints; one transaction reads both in each of its statements, and
/// commits rows of its session between them.
pub(crate) fn of_statements(seed: u64) {
    let (database, table) = open_async(seed);
    let pairs: Stamps = shared();
    write_pair(&database, &table, 0, &pairs);
    let writer = {
        let (database, table, pairs) = (database.new_session(), table.clone(), Arc::clone(&pairs));
        thread::spawn(move || (1..WRITES).for_each(|number| write_pair(&database, &table, number, &pairs)))
    };
    let checkpointing = {
        let database = database.clone();
        thread::spawn(move || database.checkpoint().unwrap())
    };
    let mut transaction = database
        .with(TransactionOptions {
            isolation: Isolation::ReadCommitted,
            durability: Durability::Async,
            lock_wait: LockWait::NoWait,
            ..TransactionOptions::default()
        })
        .begin();
    let mut before = 0;
    for number in 0..LOOKS {
        database.put(&table, b"c", [number]).unwrap();
        transaction.begin_statement().unwrap();
        let seen = [b"a", b"b"].map(|key| transaction.get(&table, key).unwrap().unwrap()[0]);
        let scanned: Vec<_> = transaction.rows(&table).map(|row| row.unwrap().1[0]).collect();
        assert_eq!(scanned, [seen[0], seen[0], number], "one moment, with what the session has committed");
        assert!(seen[0] == seen[1] && seen[0] >= before, "{seen:?} after {before}");
        before = seen[0];
    }
    transaction.commit().unwrap();
    writer.join().unwrap();
    checkpointing.join().unwrap();
    database.close().unwrap();
}

fn write_pair(database: &Database, table: &Table, number: u8, stamps: &Stamps) {
    write_pair_of(database, table, &[number], stamps);
}

fn write_large_pair(database: &Database, table: &Table, number: u8, stamps: &Stamps) {
    write_pair_of(database, table, &[number; LARGE_BYTES], stamps);
}

fn write_pair_of(database: &Database, table: &Table, value: &[u8], stamps: &Stamps) {
    let number = value[0];
    let mut transaction = database.begin();
    transaction.put(table, b"a", value).unwrap();
    transaction.put(table, b"b", [number]).unwrap();
    let stamp = transaction.commit().unwrap();
    stamps.lock().unwrap().push(stamp);
}

fn write_single(database: &Database, table: &Table, number: u8, stamps: &Stamps) {
    let stamp = database.put(table, b"c", [number]).unwrap();
    stamps.lock().unwrap().push(stamp);
}

fn look(database: &Database, table: &Table) -> Seen {
    let before = database.get(table, b"a").unwrap().unwrap()[0];
    let snapshot = database.snapshot();
    let number = |key: &[u8]| {
        let row = snapshot.get(table, key).unwrap();
        row.unwrap_or_else(|| panic!("{key:?} is missing at {}", snapshot.lsn()))[0]
    };
    let single = number(b"c");
    let seen = Seen {
        lsn: snapshot.lsn(),
        pair: [b"a", b"b", b"a"].map(|key| number(key)),
        single: [single, number(b"c")],
    };
    assert!(before <= seen.pair[0], "{before} was seen before {seen:?}");
    seen
}

/// Two transactions that each read what the other writes.
pub(crate) fn of_serializable_transactions(seed: u64) {
    let (database, table) = open_async(seed);
    let threads: Vec<_> = (0..2_u8)
        .map(|own| {
            let (database, table) = (database.clone(), table.clone());
            thread::spawn(move || {
                let mut transaction = database
                    .with(TransactionOptions {
                        isolation: Isolation::Serializable,
                        durability: Durability::Async,
                        lock_wait: LockWait::NoWait,
                        ..TransactionOptions::default()
                    })
                    .begin();
                let other = transaction.get(&table, [1 - own])?;
                transaction.put(&table, [own], b"written")?;
                transaction.commit().map(|_| other)
            })
        })
        .collect();
    let results: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    assert!(results.iter().any(Result::is_ok), "{results:?}");
    for result in &results {
        assert!(matches!(result, Ok(_) | Err(Error::Conflict { .. })), "{result:?}");
    }
    let blind = results.iter().filter(|result| matches!(result, Ok(None))).count();
    assert!(blind <= 1, "neither saw what the other has written: {results:?}");
    database.close().unwrap();
}

/// More than are looked at in the log's critical section.
const READS: u16 = 260;

/// One reads many rows of a table, the other one drops the table, and both want to be prepared.
pub(crate) fn of_a_reader_and_a_definition_in_doubt(seed: u64) {
    let (database, table) = open_async(seed);
    let other = database.create_table("other").unwrap();
    let begin = |database: &Database| {
        let options = TransactionOptions {
            isolation: Isolation::Serializable,
            durability: Durability::Async,
            lock_wait: LockWait::NoWait,
            ..TransactionOptions::default()
        };
        database.with(options).begin()
    };
    let mut reader = begin(&database);
    for row in 0..READS {
        assert_eq!(reader.get(&table, row.to_be_bytes()).unwrap(), None);
    }
    reader.put(&other, b"k", b"v").unwrap();
    let mut definer = begin(&database);
    definer.drop_table("t").unwrap();
    let threads = [("reader", reader), ("definer", definer)]
        .map(|(gid, transaction)| thread::spawn(move || transaction.prepare(gid).map(|_| gid)));
    let results = threads.map(|thread| thread.join().unwrap());
    assert!(matches!(results[0], Ok(_) | Err(Error::Locked { .. })), "{results:?}");
    assert!(matches!(results[1], Ok(_) | Err(Error::TableInDoubt { .. })), "{results:?}");
    let prepared: Vec<&str> = results.iter().flatten().copied().collect();
    assert_eq!(prepared.len(), 1, "both are in doubt, or none: {results:?}");
    database.two_phase().commit(prepared[0]).unwrap();
    database.close().unwrap();
}

const COUNTED: u8 = 3;

/// Two count the rows of a table and add one of that number; a third writes to another table, which nobody has read. Each
/// validation looks at what the others have left for it.
pub(crate) fn of_validations_beside_commits(seed: u64) {
    let (database, table) = open_async(seed);
    let other = database.create_table("other").unwrap();
    let writer = {
        let database = database.clone();
        thread::spawn(move || {
            for number in 0..WRITES {
                let mut transaction = database.begin();
                transaction.put(&other, [number % 2], [number]).unwrap();
                transaction.commit().unwrap();
            }
        })
    };
    let counters: Vec<_> = (0..2)
        .map(|_| {
            let (database, table) = (database.clone(), table.clone());
            thread::spawn(move || count_up(&database, &table))
        })
        .collect();
    let mut counted: Vec<u8> = counters.into_iter().flat_map(|counter| counter.join().unwrap()).collect();
    writer.join().unwrap();
    counted.sort_unstable();
    let expected: Vec<u8> = (0..).take(counted.len()).collect();
    assert_eq!(counted, expected, "two have counted the same rows");
    assert_eq!(database.snapshot().rows(&table).count(), counted.len());
    database.close().unwrap();
}

/// Counts and adds until there are enough; the counts that were committed.
fn count_up(database: &Database, table: &Table) -> Vec<u8> {
    let mut counted = Vec::new();
    loop {
        let mut transaction = database
            .with(TransactionOptions {
                isolation: Isolation::Serializable,
                durability: Durability::Async,
                lock_wait: LockWait::NoWait,
                ..TransactionOptions::default()
            })
            .begin();
        let count = u8::try_from(transaction.rows(table).count()).unwrap();
        if count >= COUNTED {
            return counted;
        }
        match transaction.put(table, [count], b"").and_then(|()| transaction.commit()) {
            Ok(_) => counted.push(count),
            // Lets the others go first.
            Err(Error::Conflict { .. } | Error::Locked { .. }) => thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
    }
}
