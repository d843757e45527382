//! Scans and readers that borrow nothing: what they show while their transaction goes on.
#![expect(clippy::unwrap_used, reason = "a test that fails panics")]

mod common;

use std::collections::BTreeMap;
use std::ops::Bound;

use seawall_engine::{
    Database, Direction, Error, Isolation, Options, Reader, Scan, Table, Transaction, TransactionOptions,
};
use seawall_simulation::{SeededRandom, SimulatedDisk};

use common::{small_options, try_open};

const ALL: [Isolation; 3] = [Isolation::ReadCommitted, Isolation::Snapshot, Isolation::Serializable];
const DIRECTIONS: [Direction; 2] = [Direction::Forward, Direction::Reverse];

/// Puts a row, or deletes it.
type PutRow<'p> = dyn FnMut(&[u8], Option<Vec<u8>>) + 'p;

fn open(options: Options) -> (Database, Table) {
    let database = try_open(&SimulatedDisk::new(1), options).unwrap();
    let table = database.create_table("t").unwrap();
    (database, table)
}

fn begin(database: &Database, isolation: Isolation) -> Transaction {
    database.with(TransactionOptions { isolation, ..small_options().transaction }).begin()
}

fn all(transaction: &mut Transaction, table: &Table, direction: Direction) -> Scan {
    transaction.open_scan::<&[u8]>(table, .., direction).unwrap()
}

fn keys(scan: Scan) -> Vec<String> {
    scan.map(|row| String::from_utf8(row.unwrap().0).unwrap()).collect()
}

#[test]
fn a_scan_and_a_reader_can_go_to_another_thread() {
    fn goes_anywhere<T: Send + 'static>() {}
    goes_anywhere::<Scan>();
    goes_anywhere::<Reader>();
}

#[test]
fn a_statement_that_changes_what_it_scans_meets_each_row_once() {
    for isolation in ALL {
        let (database, table) = open(small_options());
        for number in 0..100_u8 {
            database.put(&table, [number], [number]).unwrap();
        }
        database.checkpoint().unwrap();
        let mut transaction = begin(&database, isolation);
        transaction.put(&table, [200], [200]).unwrap();
        transaction.begin_statement().unwrap();
        let mut scan = all(&mut transaction, &table, Direction::Forward);
        let mut met = Vec::new();
        while let Some((key, value)) = scan.next_row().unwrap() {
            met.push(key[0]);
            let moved = [key, b"moved"].concat();
            let value = value.to_vec();
            transaction.delete(&table, &moved[..1]).unwrap();
            transaction.put(&table, moved, value).unwrap();
        }
        assert_eq!(met, (0..100).chain([200]).collect::<Vec<_>>(), "{isolation:?}");
        assert_eq!(transaction.rows(&table).count(), 101);
        transaction.commit().unwrap();
        assert_eq!(database.snapshot().rows(&table).count(), 101);
    }
}

#[test]
fn several_scans_are_open_beside_writes_and_statements_of_their_transaction_and_after_its_end() {
    for (isolation, direction) in ALL.into_iter().flat_map(|level| DIRECTIONS.map(|way| (level, way))) {
        let (database, table) = open(small_options());
        database.put(&table, "committed", "1").unwrap();
        let mut transaction = begin(&database, isolation);
        transaction.begin_statement().unwrap();
        let empty = all(&mut transaction, &table, direction);
        transaction.put(&table, "own", "1").unwrap();
        let with_own = all(&mut transaction, &table, direction);
        database.put(&table, "later", "1").unwrap();
        transaction.delete(&table, "committed").unwrap();
        transaction.begin_statement().unwrap();
        let last = all(&mut transaction, &table, direction);
        database.checkpoint().unwrap();
        drop(transaction);
        let expect = |scan, mut expected: Vec<&str>| {
            if direction == Direction::Reverse {
                expected.reverse();
            }
            assert_eq!(keys(scan), expected, "{isolation:?}");
        };
        expect(empty, vec!["committed"]);
        expect(with_own, vec!["committed", "own"]);
        match isolation {
            Isolation::ReadCommitted => expect(last, vec!["later", "own"]),
            Isolation::Snapshot | Isolation::Serializable => expect(last, vec!["own"]),
        }
        assert_eq!(database.statistics().snapshots.alive, 0);
        database.close().unwrap();
    }
}

#[test]
fn a_reader_shows_the_rows_as_they_were_when_it_was_opened_also_after_the_end_of_its_transaction() {
    for isolation in ALL {
        let (database, table) = open(small_options());
        for key in ["committed", "deleted", "updated"] {
            database.put(&table, key, "old").unwrap();
        }
        let mut transaction = begin(&database, isolation);
        transaction.begin_statement().unwrap();
        transaction.put(&table, "own", "new").unwrap();
        transaction.put(&table, "updated", "new").unwrap();
        transaction.delete(&table, "deleted").unwrap();
        let mut reader = transaction.open_reader(&table).unwrap();
        let mut expect = |moment: &str| {
            let shown = ["committed", "deleted", "later", "own", "updated"].map(|key| {
                let value = reader.get_with(key, |value| value.map(<[u8]>::to_vec)).unwrap();
                value.map(|value| String::from_utf8(value).unwrap())
            });
            let shown = shown.each_ref().map(Option::as_deref);
            assert_eq!(shown, [Some("old"), None, None, Some("new"), Some("new")], "{isolation:?}, {moment}");
        };
        expect("at once");
        database.put(&table, "later", "1").unwrap();
        database.put(&table, "committed", "2").unwrap();
        transaction.put(&table, "own", "2").unwrap();
        transaction.put(&table, "deleted", "2").unwrap();
        transaction.begin_statement().unwrap();
        database.checkpoint().unwrap();
        expect("after writes of others and its own");
        drop(transaction);
        expect("after the end");
        drop(reader);
        assert_eq!(database.statistics().snapshots.alive, 0);
    }
}

#[test]
fn a_reader_whose_snapshot_was_cancelled_says_so() {
    let (database, table) = open(small_options().with(|options| options.memory.snapshot_bytes = 0));
    database.put(&table, "k", "old").unwrap();
    let mut transaction = begin(&database, Isolation::Snapshot);
    let mut reader = transaction.open_reader(&table).unwrap();
    database.put(&table, "k", "new").unwrap();
    database.checkpoint().unwrap();
    let read = reader.get_with("k", |value| value.map(<[u8]>::to_vec));
    assert!(matches!(read, Err(Error::SnapshotCancelled { .. })), "{read:?}");
}

#[test]
fn a_scan_shows_what_a_range_shows() {
    for seed in 0..40 {
        let mut random = SeededRandom::new(seed);
        let (database, table) = open(small_options());
        let mut expected = BTreeMap::new();
        let mut write = |random: &mut SeededRandom, put: &mut PutRow<'_>| {
            let key = u16::try_from(random.below(400)).unwrap().to_be_bytes();
            let length = if random.chance(1, 40) { 9_000 } else { 20 };
            let value =
                (!random.chance(1, 4)).then(|| vec![u8::try_from(random.below(256)).unwrap(); length]);
            put(&key, value.clone());
            match value {
                Some(value) => expected.insert(key.to_vec(), value),
                None => expected.remove(&key[..]),
            };
        };
        for _ in 0..random.below(600) {
            write(&mut random, &mut |key, value| match value {
                Some(value) => drop(database.put(&table, key, value).unwrap()),
                None => drop(database.delete(&table, key).unwrap()),
            });
            if random.chance(1, 150) {
                database.checkpoint().unwrap();
            }
        }
        let mut transaction = begin(&database, Isolation::Snapshot);
        for _ in 0..random.below(60) {
            write(&mut random, &mut |key, value| match value {
                Some(value) => transaction.put(&table, key, value).unwrap(),
                None => transaction.delete(&table, key).unwrap(),
            });
        }
        for _ in 0..20 {
            let bound = |random: &mut SeededRandom| {
                let key = u16::try_from(random.below(400)).unwrap().to_be_bytes().to_vec();
                match random.below(3) {
                    0 => Bound::Included(key),
                    1 => Bound::Excluded(key),
                    _ => Bound::Unbounded,
                }
            };
            let bounds = (bound(&mut random), bound(&mut random));
            let inside = |key: &[u8]| std::ops::RangeBounds::contains(&bounds, &key.to_vec());
            let rows: Vec<_> = expected
                .iter()
                .filter(|(key, _)| inside(key))
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect();
            let open = |transaction: &mut Transaction, direction| -> Vec<(Vec<u8>, Vec<u8>)> {
                let scan = transaction.open_scan(&table, bounds.clone(), direction).unwrap();
                scan.map(Result::unwrap).collect()
            };
            assert_eq!(open(&mut transaction, Direction::Forward), rows, "seed {seed}: {bounds:?}");
            let mut reversed = open(&mut transaction, Direction::Reverse);
            reversed.reverse();
            assert_eq!(reversed, rows, "seed {seed}: {bounds:?}");
            let range: Vec<_> = transaction.range(&table, bounds.clone()).map(Result::unwrap).collect();
            assert_eq!(range, rows, "seed {seed}: {bounds:?}");
        }
    }
}

#[test]
fn a_scan_ends_with_an_error_when_its_snapshot_is_cancelled() {
    let mut options = small_options();
    options.memory.snapshot_bytes = 0;
    options.memory.memtable_bytes = 4 << 20;
    let (database, table) = open(options);
    let write = |round: u8| {
        let mut transaction = database.begin();
        (0..1000_u16).for_each(|row| transaction.put(&table, row.to_be_bytes(), [round; 200]).unwrap());
        transaction.commit().unwrap();
        database.checkpoint().unwrap();
    };
    write(0);
    let mut tries = 0;
    let read = database.transact(|transaction| {
        tries += 1;
        let scan = all(transaction, &table, Direction::Forward);
        if tries == 1 {
            write(1);
        }
        let rows: Result<Vec<_>, Error> = scan.collect();
        if let Err(error) = &rows {
            assert!(matches!(error, Error::SnapshotCancelled { .. }), "{error}");
        }
        rows
    });
    assert_eq!((read.unwrap().len(), tries), (1000, 2), "the closure is run again");
    let mut kept = database.snapshot().open_scan::<&[u8]>(&table, .., Direction::Forward).unwrap();
    write(2);
    let error = kept.find_map(Result::err).unwrap();
    assert!(matches!(error, Error::SnapshotCancelled { .. }), "{error}");
    assert!(kept.next().is_none(), "it ends there");
}

#[test]
fn the_copy_of_own_rows_counts_as_memory_until_the_scan_is_dropped() {
    let limit = 64 << 20;
    let (database, table) = open(small_options().with(|options| {
        options.memory.transaction_bytes = limit;
        options.memory.all_transactions_bytes = limit;
    }));
    let mut transaction = database.begin();
    for number in 0..10_000_u32 {
        transaction.put(&table, number.to_be_bytes(), [1; 1000]).unwrap();
    }
    let before = database.statistics().transactions.memory_bytes;
    let narrow = transaction.open_scan(&table, [0; 4]..[0, 0, 0, 3], Direction::Forward).unwrap();
    assert_eq!(
        database.statistics().transactions.memory_bytes,
        before,
        "a few rows take nothing that is shared"
    );
    let mut scans = vec![narrow];
    let refused = loop {
        match transaction.open_scan::<&[u8]>(&table, .., Direction::Forward) {
            Ok(scan) => scans.push(scan),
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, Error::TransactionMemory { .. }), "{refused}");
    let taken = database.statistics().transactions.memory_bytes;
    assert!(scans.len() > 2 && taken >= before + 10_000_000, "{} scans take {taken}", scans.len());
    drop(scans);
    assert_eq!(database.statistics().transactions.memory_bytes, before);
    transaction.put(&table, "usable", "still").unwrap();
}

#[test]
fn what_a_serializable_transaction_scans_must_not_change_before_it_commits() {
    let (database, table) = open(small_options());
    let mut transaction = begin(&database, Isolation::Serializable);
    let scan = transaction.open_scan(&table, "a".."c", Direction::Reverse).unwrap();
    transaction.put(&table, "x", "1").unwrap();
    database.put(&table, "b", "1").unwrap();
    assert!(matches!(transaction.commit(), Err(Error::Conflict { .. })));
    assert!(keys(scan).is_empty());
}
