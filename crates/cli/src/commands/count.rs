//! `count`: how many rows tables have.

use seawall::{OpenMode, Snapshot, Table};
use serde_json::json;

use super::open;
use crate::arguments::{Count, Shared};
use crate::failure::Failure;
use crate::output::{Output, escape, grouped};
use crate::progress;

/// Counts the rows of each table as one snapshot sees them, by reading them: the tree has no figures by table, and a row
/// that changed since the last checkpoint is in the tree and in memory.
pub(crate) fn count(shared: &Shared, count: &Count, output: &mut Output) -> Result<(), Failure> {
    let database = open(shared, &count.dir, OpenMode::ReadOnly)?;
    let names = match count.tables.is_empty() {
        true => database.tables().list()?.into_iter().map(|table| table.name).collect(),
        false => count.tables.clone(),
    };
    // All looked up before the first is read: a misspelt name costs no time.
    let tables = names.iter().map(|name| database.table(name)).collect::<Result<Vec<Table>, _>>()?;
    let snapshot = database.snapshot();
    for (name, table) in names.iter().zip(&tables) {
        let rows = rows_of(&snapshot, table)?;
        let text = format!("{}\t{}", escape(name.as_bytes()), grouped(rows));
        output.answer(&json!({ "table": name, "rows": rows }), text)?;
    }
    Ok(())
}

fn rows_of(snapshot: &Snapshot, table: &Table) -> Result<u64, Failure> {
    let bar = progress::rows("counting");
    let mut rows = snapshot.rows(table);
    let mut count = 0;
    while rows.next_row()?.is_some() {
        count += 1;
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(count)
}
