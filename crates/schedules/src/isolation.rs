//! What transactions see of each other, while rows are written over and over.
//!
//! Checked: a snapshot shows the rows as of its stamp, however often they were written since, and all rows of a commit or none;
//! of two serializable transactions that each overwrite what the other has read, one is refused.

use std::sync::Arc;

use seawall_engine::{
    Background, Database, Durability, Error, Isolation, LockWait, Options, Table, TransactionOptions,
};
use seawall_simulation::SimulatedDisk;
use seawall_sync::thread;
use seawall_types::Lsn;

use crate::world::{Shared, open, shared, small_options};

const WRITES: u8 = 6;
const LOOKS: u8 = 4;

fn open_async(seed: u64) -> (Database, Table) {
    let options = Options { durability: Durability::Async, ..small_options(Background::Manual) };
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
    let (database, table) = open_async(seed);
    let (pairs, singles): (Stamps, Stamps) = (shared(), shared());
    write_pair(&database, &table, 0, &pairs);
    write_single(&database, &table, 0, &singles);
    let writers =
        [(write_pair as fn(&_, &_, _, &_), &pairs), (write_single, &singles)].map(|(write, stamps)| {
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
    let number_at = |stamps: &Stamps, lsn: Lsn| {
        u8::try_from(stamps.lock().unwrap().iter().filter(|stamp| **stamp <= lsn).count()).unwrap() - 1
    };
    for seen in all {
        assert_eq!(seen.pair, [number_at(&pairs, seen.lsn); 3], "{seen:?}, by {pairs:?}");
        assert_eq!(seen.single, [number_at(&singles, seen.lsn); 2], "{seen:?}, by {singles:?}");
    }
    database.close().unwrap();
}

fn write_pair(database: &Database, table: &Table, number: u8, stamps: &Stamps) {
    let mut transaction = database.begin();
    transaction.put(table, b"a", [number]).unwrap();
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
                let mut transaction = database.begin_with(TransactionOptions {
                    isolation: Isolation::Serializable,
                    durability: Durability::Async,
                    lock_wait: LockWait::NoWait,
                });
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
