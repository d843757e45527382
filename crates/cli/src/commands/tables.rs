//! `init`, `tables`, `create`, `drop`, `rename`, `truncate`.

use std::path::Path;

use seawall::OpenMode;
use serde_json::json;

use super::{open, open_with, options};
use crate::arguments::{Init, OneTable, Rename, Shared};
use crate::failure::Failure;
use crate::output::Output;

pub(crate) fn init(shared: &Shared, init: &Init, output: &mut Output) -> Result<(), Failure> {
    let mut options = options(shared, OpenMode::New);
    if let Some(bytes) = init.page_bytes {
        options.page_bytes = bytes;
    }
    if let Some(mib) = init.segment_mib {
        options.segment_bytes = mib.saturating_mul(1 << 20);
    }
    let database = open_with(&init.dir, options)?;
    let id = database.info()?.database.to_string();
    database.close()?;
    let directory = init.dir.display().to_string();
    output.answer(
        &json!({ "directory": directory, "database_id": id }),
        format_args!("made database {id} in {directory}"),
    )
}

pub(crate) fn list(shared: &Shared, directory: &Path, output: &mut Output) -> Result<(), Failure> {
    let database = open(shared, directory, OpenMode::ReadOnly)?;
    for table in database.tables()? {
        let answer = json!({ "name": table.name, "id": table.id, "created_micros": table.created_micros });
        output.answer(&answer, &table.name)?;
    }
    Ok(())
}

pub(crate) fn create(shared: &Shared, table: &OneTable, output: &mut Output) -> Result<(), Failure> {
    let database = open(shared, &table.dir, OpenMode::Existing)?;
    database.create_table(&table.table)?;
    database.close()?;
    done(output, "created", &table.table)
}

pub(crate) fn drop(shared: &Shared, table: &OneTable, output: &mut Output) -> Result<(), Failure> {
    let database = open(shared, &table.dir, OpenMode::Existing)?;
    database.drop_table(&table.table)?;
    database.close()?;
    done(output, "dropped", &table.table)
}

pub(crate) fn rename(shared: &Shared, rename: &Rename, output: &mut Output) -> Result<(), Failure> {
    let database = open(shared, &rename.dir, OpenMode::Existing)?;
    database.rename_table(&rename.from, &rename.to)?;
    database.close()?;
    let (from, to) = (&rename.from, &rename.to);
    output.answer(&json!({ "renamed": from, "to": to }), format_args!("renamed table {from} to {to}"))
}

pub(crate) fn truncate(shared: &Shared, table: &OneTable, output: &mut Output) -> Result<(), Failure> {
    let database = open(shared, &table.dir, OpenMode::Existing)?;
    database.truncate_table(&table.table)?;
    database.close()?;
    done(output, "truncated", &table.table)
}

fn done(output: &mut Output, what: &str, table: &str) -> Result<(), Failure> {
    output.answer(&json!({ what: table }), format_args!("{what} table {table}"))
}
