//! `batch`: puts and deletes of a file, in one transaction over any tables: all of them, or none.

use std::collections::HashMap;

use seawall::{Database, Error, Lsn, OpenMode, Table, Transaction};
use serde_json::json;

use super::{close, close_unfinished, open};
use crate::arguments::{Batch, Shared};
use crate::failure::Failure;
use crate::files;
use crate::output::{Output, counted};
use crate::rows::{Change, ChangeReader};

pub(crate) fn batch(shared: &Shared, batch: &Batch, output: &mut Output) -> Result<(), Failure> {
    let (input, _) = files::open_input(&batch.file)?;
    // Before the first line is read: a missing database is said at once, not after a slow pipe's first line.
    let database = open(shared, &batch.dir, OpenMode::Existing)?;
    let name = files::input_name(&batch.file);
    let applied = ChangeReader::new(input, name.clone()).and_then(|reader| apply(&database, reader, &name));
    let applied = match applied {
        Ok(applied) => applied,
        Err(failure) => {
            close_unfinished(database, &batch.dir, output);
            return Err(nothing_done(failure));
        }
    };
    close(database, &batch.dir, output);
    let text = format!(
        "committed {} and {} in one transaction",
        counted(applied.puts, "put"),
        counted(applied.deletes, "delete")
    );
    let lsn = applied.lsn.map(|lsn| lsn.to_string());
    output.answer(&json!({ "puts": applied.puts, "deletes": applied.deletes, "lsn": lsn }), text)
}

/// What a batch has done.
struct Applied {
    puts: u64,
    deletes: u64,
    /// `None` if there was nothing to do.
    lsn: Option<Lsn>,
}

fn apply(database: &Database, mut reader: ChangeReader, name: &str) -> Result<Applied, Failure> {
    let mut transaction = database.begin();
    let mut tables = HashMap::new();
    let mut applied = Applied { puts: 0, deletes: 0, lsn: None };
    while let Some((line, change)) = reader.next_change()? {
        let refused = |error: Error| refused(name, line, error);
        let table = change.table();
        if !tables.contains_key(table) {
            tables.insert(table.to_owned(), database.table(table).map_err(refused)?);
        }
        make(&mut transaction, &tables[table], &change).map_err(refused)?;
        match change {
            Change::Put { .. } => applied.puts += 1,
            Change::Delete { .. } => applied.deletes += 1,
        }
    }
    if applied.puts + applied.deletes > 0 {
        applied.lsn = Some(transaction.commit()?);
    }
    Ok(applied)
}

fn make(transaction: &mut Transaction, table: &Table, change: &Change) -> Result<(), Error> {
    match change {
        Change::Put { key, value, .. } => transaction.put(table, key, value),
        Change::Delete { key, .. } => transaction.delete(table, key),
    }
}

/// What is wrong with a line says so with its number; what is wrong with the database is what it is everywhere.
fn refused(name: &str, line: u64, error: Error) -> Failure {
    match error {
        Error::NoSuchTable { .. }
        | Error::TableName { .. }
        | Error::KeyTooLarge { .. }
        | Error::ValueTooLarge { .. }
        | Error::TransactionTooLarge { .. }
        | Error::TransactionMemory { .. } => {
            let problem = error.to_string();
            Failure::Input { name: name.to_owned(), place: format!("line {line}"), problem }
        }
        other => other.into(),
    }
}

fn nothing_done(failure: Failure) -> Failure {
    match failure {
        Failure::Input { name, place, problem } => {
            Failure::Input { name, place, problem: format!("{problem} (nothing is committed)") }
        }
        other => other,
    }
}
