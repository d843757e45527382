//! Snapshots over checkpoints: small histories that once went wrong.

use seawall_engine::Isolation;

use super::{BACKGROUNDS, begin, check_and_close, open};

#[test]
fn a_snapshot_keeps_rows_that_are_first_written_several_checkpoints_later() {
    let database = open(BACKGROUNDS[1]);
    let table = database.create_table("t").unwrap();
    let keys = ["a", "b", "c", "d"];
    for key in keys {
        database.put(&table, key, "old").unwrap();
    }
    database.checkpoint().unwrap();
    let first = database.snapshot();
    let mut snapshots = vec![(first, vec!["old"; 4])];
    let mut rows = vec!["old"; 4];
    // Each checkpoint merges another row, so no memtable but its own knows what it was.
    for (index, key) in keys.into_iter().enumerate() {
        database.put(&table, key, "new").unwrap();
        rows[index] = "new";
        database.checkpoint().unwrap();
        snapshots.push((database.snapshot(), rows.clone()));
    }
    for _ in 0..2 {
        for (snapshot, expected) in &snapshots {
            let values: Vec<_> = keys.map(|key| snapshot.get(&table, key).unwrap().unwrap()).to_vec();
            let scanned: Vec<_> = snapshot.range::<&[u8]>(&table, ..).map(|row| row.unwrap().1).collect();
            let expected: Vec<_> = expected.iter().map(|value| value.as_bytes().to_vec()).collect();
            assert_eq!((&values, &scanned), (&expected, &expected));
        }
        // The rows once more: now several memtables know each of them.
        for key in keys {
            database.put(&table, key, "newest").unwrap();
        }
        database.checkpoint().unwrap();
        snapshots.swap_remove(1);
    }
    drop(snapshots);
    database.checkpoint().unwrap();
    assert_eq!(database.statistics().memtable.frozen, 0);
    check_and_close(database);
}

#[test]
fn a_snapshot_keeps_the_rows_of_a_bulk_loaded_table_that_is_truncated() {
    let database = open(BACKGROUNDS[1]);
    database.create_table("other").unwrap();
    database.checkpoint().unwrap();
    let mut load = database.tables().bulk_load("t").unwrap();
    load.add("k", "v").unwrap();
    // The checkpoint notes the storage as one that may have to be given back.
    database.checkpoint().unwrap();
    let table = load.finish().unwrap();
    let snapshot = database.snapshot();
    let mut transaction = begin(&database, Isolation::Snapshot);
    assert!(transaction.get(&table, "k").unwrap().is_some());
    database.tables().truncate("t").unwrap();
    for _ in 0..2 {
        database.checkpoint().unwrap();
        assert_eq!(snapshot.get(&table, "k").unwrap().unwrap(), b"v");
        assert_eq!(transaction.get(&table, "k").unwrap().unwrap(), b"v");
        assert_eq!(database.get(&table, "k").unwrap(), None);
    }
    drop((snapshot, transaction));
    assert_eq!(database.checkpoint().unwrap().tables_reclaimed, 1);
    check_and_close(database);
}
