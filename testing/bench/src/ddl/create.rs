//! Many tables, made one after another.

use seawall::{Database, Durability, TransactionOptions};

use super::cell::{Cell, NAME};
use crate::error::{BenchError, engine_error};

/// Each in a transaction of its own, with its rows; durable together, at the end.
pub(super) fn create_tables(cell: &Cell, database: &Database) -> Result<(), BenchError> {
    let value = Cell::value();
    let options = TransactionOptions { durability: Durability::Async, ..TransactionOptions::default() };
    for number in 0..cell.table_count() {
        let mut transaction = database.with(options).begin();
        let table = transaction.create_table(&Cell::name(number));
        let table = table.map_err(engine_error(NAME, "create a table"))?;
        for row in 0..cell.rows_of_a_table() {
            transaction.put(&table, row.to_be_bytes(), &value).map_err(engine_error(NAME, "put"))?;
        }
        transaction.commit().map_err(engine_error(NAME, "commit"))?;
    }
    Ok(())
}
