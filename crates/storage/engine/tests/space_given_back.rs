//! Space of deleted rows goes back to the tree and to the file system, without an idle database and without more writes of other rows.
#![expect(clippy::unwrap_used, reason = "a test that fails panics")]

mod common;

use std::sync::Arc;

use common::small_options;
use seawall_engine::{Database, Environment, Options, Table};
use seawall_io::{Disk, OsDisk};
use seawall_simulation::{SeededRandom, SimulatedClock, SimulatedDisk, SimulatedRandom};
#[cfg(target_os = "linux")]
use seawall_testing::Need;

/// Some 3,000 leaves.
const ROWS: u32 = 200_000;
const ROW_BYTES: usize = 100;

fn options() -> Options {
    small_options().with(|options| {
        options.checkpoint.threads = 1;
        options.memory.memtable_bytes = 8 << 20;
        // So that what a chunk frees is large enough for the file system.
        options.checkpoint.chunk_bytes = 2 << 20;
    })
}

fn loaded(disk: Arc<dyn Disk>) -> (Database, Table) {
    loaded_with(disk, options())
}

fn loaded_with(disk: Arc<dyn Disk>, options: Options) -> (Database, Table) {
    let environment = Environment {
        disk,
        clock: Arc::new(SimulatedClock::default()),
        random: Arc::new(SimulatedRandom::new(1)),
    };
    let database = Database::open(environment, options).unwrap();
    let mut load = database.tables().bulk_load("t").unwrap();
    (0..ROWS).for_each(|row| load.add(row.to_be_bytes(), [7; ROW_BYTES]).unwrap());
    let table = load.finish().unwrap();
    database.checkpoint().unwrap();
    (database, table)
}

fn delete(database: &Database, table: &Table, rows: impl IntoIterator<Item = u32>) {
    let mut transaction = database.begin();
    rows.into_iter().for_each(|row| transaction.delete(table, row.to_be_bytes()).unwrap());
    transaction.commit().unwrap();
}

fn pages_in_use(database: &Database) -> u64 {
    database.check(&mut |damage| panic!("{damage}")).unwrap().pages
}

fn in_random_order() -> Vec<u32> {
    let mut rows: Vec<u32> = (0..ROWS).collect();
    SeededRandom::new(1).shuffle(&mut rows);
    rows
}

/// As programs do that keep the rows of the last days: no run has to say that the rows are deleted, and no scan to step over that.
#[test]
fn rows_deleted_in_the_order_of_keys_go_directly() {
    let (database, table) = loaded(Arc::new(SimulatedDisk::new(1)));
    let before = pages_in_use(&database);
    for from in (0..ROWS / 10 * 9).step_by(20_000) {
        delete(&database, &table, from..from + 20_000);
        let statistics = database.checkpoint().unwrap();
        assert_eq!(statistics.run_rows, 0, "of rows from {from} on: {statistics:?}");
    }
    let after = pages_in_use(&database);
    assert!(after * 100 <= before * 14, "{after} of {before} pages");
    assert_eq!(database.snapshot().rows(&table).count(), ROWS as usize / 10);
}

/// Rows that are deleted and not merged yet never exceed the share of runs.
#[test]
fn rows_deleted_at_random_free_their_pages_while_others_are_deleted() {
    let (database, table) = loaded(Arc::new(SimulatedDisk::new(2)));
    let before = pages_in_use(&database);
    let rows = in_random_order();
    let (mut left, mut run_rows) = (ROWS, 0);
    for deleted in rows[..ROWS as usize / 10 * 9].chunks(10_000) {
        delete(&database, &table, deleted.iter().copied());
        run_rows += database.checkpoint().unwrap().run_rows;
        left -= u32::try_from(deleted.len()).unwrap();
        let needed = before * u64::from(left) / u64::from(ROWS);
        let pages = pages_in_use(&database);
        // A quarter more than what is left after it: a third. Runs themselves, interior pages and those of the catalog.
        assert!(pages <= needed / 3 * 4 + before / 10, "{pages} pages with {left} rows, of {before}");
    }
    assert!(run_rows > 1_000, "they did not go into runs: {run_rows}");
    assert_eq!(database.snapshot().rows(&table).count(), left as usize);
}

/// The leaves of a run that delete rows are few beside those of another table that is updated meanwhile.
#[test]
fn deletes_in_one_table_count_beside_updates_of_another() {
    let (database, table) = loaded(Arc::new(SimulatedDisk::new(3)));
    let mut load = database.tables().bulk_load("updated").unwrap();
    (0..ROWS).for_each(|row| load.add(row.to_be_bytes(), [7; ROW_BYTES]).unwrap());
    let updated = load.finish().unwrap();
    database.checkpoint().unwrap();
    let before = pages_in_use(&database);
    let rows = in_random_order();
    for some in rows[..ROWS as usize / 10 * 9].chunks(10_000) {
        let mut transaction = database.begin();
        for row in some {
            transaction.delete(&table, row.to_be_bytes()).unwrap();
            if row % 4 == 0 {
                transaction.put(&updated, row.to_be_bytes(), [8; ROW_BYTES]).unwrap();
            }
        }
        transaction.commit().unwrap();
        database.checkpoint().unwrap();
    }
    let after = pages_in_use(&database);
    // Half of the pages were those of the table; of the other half runs may have a quarter.
    assert!(after * 100 <= before * 75, "{after} of {before} pages");
}

/// A report that runs while old rows are purged: what is deleted is not kept in memory for it, and it is not cancelled.
#[test]
fn a_purge_cancels_no_snapshot() {
    // The memtable that says what is deleted has room in that, and with the rows it has not.
    let options = options().with(|options| options.memory.snapshot_bytes = 20 << 20);
    let (database, table) = loaded_with(Arc::new(SimulatedDisk::new(4)), options);
    let snapshot = database.snapshot();
    delete(&database, &table, 0..ROWS / 10 * 9);
    database.checkpoint().unwrap();
    let kept = database.statistics().snapshots;
    assert_eq!(kept.cancelled, 0, "{kept:?}");
    assert_eq!(snapshot.rows(&table).map(Result::unwrap).count(), ROWS as usize);
    drop(snapshot);
    delete(&database, &table, [ROWS - 1]);
    database.checkpoint().unwrap();
    database.check(&mut |damage| panic!("{damage}")).unwrap();
    assert_eq!(database.snapshot().rows(&table).count(), ROWS as usize / 10 - 1);
}

#[cfg(target_os = "linux")]
fn page_file_blocks(directory: &std::path::Path) -> u64 {
    use std::os::unix::fs::MetadataExt;

    std::fs::metadata(directory.join("pages")).unwrap().blocks() * 512
}

#[cfg(target_os = "linux")]
#[test]
fn the_file_system_gets_the_space_of_deleted_rows() {
    let scratch = tempfile::tempdir().unwrap();
    let (database, table) = loaded(Arc::new(OsDisk::new(scratch.path())));
    let before = page_file_blocks(scratch.path());
    let mut punched_bytes = 0;
    for deleted in in_random_order()[..ROWS as usize / 10 * 9].chunks(10_000) {
        delete(&database, &table, deleted.iter().copied());
        punched_bytes += database.checkpoint().unwrap().punched_bytes;
    }
    if punched_bytes == 0 {
        return Need::HolePunching.skip(format!("{} takes none", scratch.path().display()));
    }
    let after = page_file_blocks(scratch.path());
    assert!(after <= before / 2, "{after} of {before} bytes");
}
