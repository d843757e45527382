//! When checkpoints start, what they say about themselves, and what they do to writers and old snapshots.
#![expect(clippy::unwrap_used, reason = "a test that fails panics")]

use std::sync::Arc;

use seawall_engine::{Background, Database, Environment, LockWait, Options, Table, Trigger};
use seawall_simulation::{SimulatedClock, SimulatedDisk, SimulatedRandom};

fn options() -> Options {
    Options {
        segment_bytes: 64 << 10,
        memtable_bytes: 1 << 20,
        cache_bytes: 1 << 20,
        checkpoint_chunk_bytes: 64 << 10,
        recovery_threads: 1,
        lock_wait: LockWait::NoWait,
        background: Background::Manual,
        ..Options::default()
    }
}

fn open(disk: &SimulatedDisk, options: Options) -> Database {
    let environment = Environment {
        disk: Arc::new(disk.clone()),
        clock: Arc::new(SimulatedClock::default()),
        random: Arc::new(SimulatedRandom::new(1)),
    };
    Database::open_in(environment, options, |_| {}).unwrap()
}

fn fill(database: &Database, table: &Table, rows: std::ops::Range<u32>) {
    for row in rows {
        database.put(table, row.to_be_bytes(), [7; 100]).unwrap();
    }
}

#[test]
fn a_checkpoint_says_what_it_did() {
    let database = open(&SimulatedDisk::new(1), options());
    let table = database.create_table("t").unwrap();
    let before = database.statistics().redo_point;
    fill(&database, &table, 0..2000);
    let first = database.checkpoint().unwrap();
    assert_eq!((first.trigger, first.redo_point_before), (Trigger::Request, before));
    assert!(first.redo_point > before && first.redo_point == database.statistics().redo_point);
    assert!(first.rows >= 2000 && first.chunks > 1 && first.fresh_pages > 20, "{first:?}");
    assert_eq!(first.image_bytes, first.protected_pages * 8192);
    assert!(first.recovery_file_bytes > 0 && first.recovery_file_bytes < first.image_bytes, "{first:?}");
    assert_eq!(first.page_file_bytes, first.pages_written() * 8192);
    fill(&database, &table, 0..10);
    let second = database.checkpoint().unwrap();
    assert_eq!((second.redo_point_before, second.rows), (first.redo_point, 10));
    assert_eq!(database.info().unwrap().recent_checkpoints, [first, second]);
}
