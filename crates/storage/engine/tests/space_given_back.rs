//! Space of deleted rows goes back to the tree and to the file system, without an idle database and without more writes of other rows.
#![expect(clippy::unwrap_used, reason = "a test that fails panics")]

mod common;

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use common::small_options;
use seawall_engine::{Database, Environment, Options, Table};
use seawall_io::{Disk, OsDisk};
use seawall_simulation::{SeededRandom, SimulatedClock, SimulatedDisk, SimulatedRandom};

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
    let environment = Environment {
        disk,
        clock: Arc::new(SimulatedClock::default()),
        random: Arc::new(SimulatedRandom::new(1)),
    };
    let database = Database::open(environment, options()).unwrap();
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

/// Wherever they are: what is deleted, and not merged yet, is no larger than runs may be.
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

fn page_file_blocks(directory: &Path) -> u64 {
    std::fs::metadata(directory.join("pages")).unwrap().blocks() * 512
}

#[test]
fn the_file_system_gets_the_space_of_deleted_rows() {
    let scratch = tempfile::tempdir().unwrap();
    let (database, table) = loaded(Arc::new(OsDisk::new(scratch.path())));
    let before = page_file_blocks(scratch.path());
    for deleted in in_random_order()[..ROWS as usize / 10 * 9].chunks(10_000) {
        delete(&database, &table, deleted.iter().copied());
        database.checkpoint().unwrap();
    }
    let after = page_file_blocks(scratch.path());
    assert!(after <= before / 2, "{after} of {before} bytes");
}
