//! Checkpoints by several threads, with readers beside them: snapshots from before keep seeing what they saw, also what
//! only the tree had.
#![expect(clippy::unwrap_used, reason = "a test that fails panics")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use seawall_engine::{Background, Database, Durability, Environment, Options, Snapshot, Table};
use seawall_simulation::{SeededRandom, SimulatedClock, SimulatedDisk, SimulatedRandom};

const KEYS: u64 = 12_000;

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

fn open(disk: &SimulatedDisk) -> Database {
    let mut options = Options { background: Background::Manual, ..Options::default() };
    options.format.page_bytes = 4096;
    options.format.segment_bytes = 1 << 20;
    options.memory.memtable_bytes = 64 << 20;
    options.memory.cache_bytes = 256 << 10;
    options.checkpoint.chunk_bytes = 256 << 10;
    options.checkpoint.threads = 3;
    options.recovery.threads = 1;
    let environment = Environment {
        disk: Arc::new(disk.clone()),
        clock: Arc::new(SimulatedClock::default()),
        random: Arc::new(SimulatedRandom::new(1)),
    };
    Database::open(environment, options).unwrap()
}

/// Changes about half of the rows, some of them to long values and some to nothing.
fn change(database: &Database, table: &Table, rows: &mut Rows, random: &mut SeededRandom, round: u8) {
    let keys: Vec<u64> = (0..KEYS).filter(|_| random.chance(1, 2)).collect();
    for batch in keys.chunks(1_000) {
        let mut transaction = database.with(Durability::Async).begin();
        for number in batch {
            let key = number.to_be_bytes().to_vec();
            if random.chance(1, 8) {
                transaction.delete(table, &key).unwrap();
                rows.remove(&key);
                continue;
            }
            let value = vec![round; if number.is_multiple_of(500) { 9_000 } else { 60 }];
            transaction.put(table, &key, &value).unwrap();
            rows.insert(key, value);
        }
        transaction.commit().unwrap();
    }
}

fn assert_sees(snapshot: &Snapshot, table: &Table, expected: &Rows, context: &str) {
    let found: Rows = snapshot.rows(table).map(Result::unwrap).collect();
    assert!(found == *expected, "{context}: a scan found {} rows of {}", found.len(), expected.len());
    for number in (0..KEYS).step_by(37) {
        let key = number.to_be_bytes();
        assert_eq!(
            snapshot.get(table, key).unwrap().as_ref(),
            expected.get(&key[..]),
            "{context}: row {number}"
        );
    }
}

#[test]
fn snapshots_see_the_same_rows_while_threads_merge_and_afterwards() {
    let disk = SimulatedDisk::new(1);
    let mut random = SeededRandom::new(5);
    let mut rows = Rows::new();
    {
        let database = open(&disk);
        let table = database.create_table("t").unwrap();
        let mut kept: Vec<(Snapshot, Rows)> = Vec::new();
        for round in 0..4 {
            change(&database, &table, &mut rows, &mut random, round);
            kept.push((database.snapshot(), rows.clone()));
            if round == 3 {
                change(&database, &table, &mut rows, &mut random, 99);
            }
            let done = AtomicBool::new(false);
            std::thread::scope(|scope| {
                for (index, (snapshot, expected)) in kept.iter().enumerate() {
                    let (done, table) = (&done, &table);
                    scope.spawn(move || {
                        loop {
                            let is_last = done.load(Ordering::SeqCst);
                            assert_sees(
                                snapshot,
                                table,
                                expected,
                                &format!("snapshot {index} in round {round}"),
                            );
                            if is_last {
                                break;
                            }
                        }
                    });
                }
                let merged = database.checkpoint();
                done.store(true, Ordering::SeqCst);
                assert!(merged.unwrap().chunks > 3, "too little for a test");
            });
        }
        kept.remove(1);
        for (index, (snapshot, expected)) in kept.iter().enumerate() {
            assert_sees(snapshot, &table, expected, &format!("snapshot {index} at the end"));
        }
        drop(kept);
        database.close().unwrap();
    }
    let database = open(&disk);
    let table = database.table("t").unwrap();
    assert_sees(&database.snapshot(), &table, &rows, "after reopening");
    let mut damages = Vec::new();
    database.check(&mut |damage| damages.push(damage)).unwrap();
    assert!(damages.is_empty(), "{damages:?}");
}
