//! Who works beside the short commits, and keeps all of them waiting if the engine lets it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use seawall::{Database, Durability, Isolation, LockWait, Table, TransactionOptions};

use crate::error::{BenchError, engine_error};
use crate::random::Random;

use super::cell::{Cell, ENGINE};

const VALUE_BYTES: usize = 100;
/// With its key, a row of a large transaction takes so much of the transaction's limit.
const LARGE_ROW_BYTES: u64 = 116;
/// Rows that the transaction in doubt has read.
const PROTECTED_ROWS: u64 = 100_000;

fn serializable() -> TransactionOptions {
    TransactionOptions {
        isolation: Isolation::Serializable,
        durability: Durability::Sync,
        lock_wait: LockWait::Timeout(Duration::from_secs(10)),
        ..TransactionOptions::default()
    }
}

fn table(database: &Database, name: &str) -> Result<Table, BenchError> {
    database.create_table(name).map_err(engine_error(ENGINE, "create a table"))
}

/// Commits rows `0..rows` in one transaction.
fn commit_rows(database: &Database, table: &Table, rows: u64, random: &mut Random) -> Result<(), BenchError> {
    let mut value = [0; VALUE_BYTES];
    let mut transaction = database.begin();
    for row in 0..rows {
        random.fill_value(&mut value);
        transaction.put(table, row.to_be_bytes(), value).map_err(engine_error(ENGINE, "put"))?;
    }
    transaction.commit().map(|_| ()).map_err(engine_error(ENGINE, "commit"))
}

/// Commits one large transaction after the other.
pub(super) struct Large {
    table: Table,
}

impl Large {
    pub(super) fn new(database: &Database) -> Result<Large, BenchError> {
        Ok(Large { table: table(database, "large")? })
    }

    pub(super) fn run(
        &self,
        cell: &Cell,
        database: &Database,
        stop: &AtomicBool,
        done: &[&AtomicU64],
    ) -> Result<(), BenchError> {
        let mut random = Random::new(7);
        while !stop.load(Ordering::Relaxed) {
            commit_rows(database, &self.table, cell.large_bytes / LARGE_ROW_BYTES, &mut random)?;
            for count in done {
                count.fetch_add(1, Ordering::Relaxed);
            }
        }
        Ok(())
    }
}

/// Counts a table of recent rows under `Serializable` and writes down how many there are.
pub(super) struct Counting {
    counted: Table,
    results: Table,
}

impl Counting {
    pub(super) fn new(cell: &Cell, database: &Database) -> Result<Counting, BenchError> {
        let counted = table(database, "counted")?;
        let mut random = Random::new(8);
        commit_rows(database, &counted, cell.counted_rows, &mut random)?;
        Ok(Counting { counted, results: table(database, "results")? })
    }

    pub(super) fn run(
        &self,
        database: &Database,
        stop: &AtomicBool,
        done: &[&AtomicU64],
    ) -> Result<(), BenchError> {
        while !stop.load(Ordering::Relaxed) {
            let mut transaction = database.with(serializable()).begin();
            let mut range = transaction.rows(&self.counted);
            let mut count = 0_u64;
            while range.next_row().map_err(engine_error(ENGINE, "scan"))?.is_some() {
                count += 1;
            }
            drop(range);
            transaction
                .put(&self.results, b"count", count.to_be_bytes())
                .map_err(engine_error(ENGINE, "put"))?;
            transaction.commit().map_err(engine_error(ENGINE, "commit"))?;
            for count in done {
                count.fetch_add(1, Ordering::Relaxed);
            }
        }
        Ok(())
    }
}

/// Leaves a serializable transaction in doubt that has read many rows which nobody writes.
pub(super) fn leave_in_doubt(database: &Database) -> Result<(), BenchError> {
    let table = table(database, "protected")?;
    let mut transaction = database.with(serializable()).begin();
    for row in 0..PROTECTED_ROWS {
        transaction.get(&table, row.to_be_bytes()).map_err(engine_error(ENGINE, "get"))?;
    }
    transaction.put(&table, b"own", b"").map_err(engine_error(ENGINE, "put"))?;
    transaction.prepare("in doubt").map(|_| ()).map_err(engine_error(ENGINE, "prepare"))
}
