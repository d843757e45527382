//! `init`, `rotate-key`, `tables`, `create`, `drop`, `rename`, `truncate`.

use std::path::Path;

use seawall::{DatabaseDirectory, OpenMode, OtherMasterKeys};
use serde_json::json;

use super::{close, guard_key, open, open_with, options};
use seawall_settings::KeyOf;

use crate::arguments::{Init, OneTable, Rename, RotateKey, Shared};
use crate::failure::Failure;
use crate::output::{Output, escape};

pub(crate) fn init(shared: &Shared, init: &Init, output: &mut Output) -> Result<(), Failure> {
    let mut options = options(shared, OpenMode::New);
    if let Some(bytes) = init.page_bytes {
        options.format.page_bytes = bytes;
    }
    if let Some(mib) = init.segment_mib {
        options.format.segment_bytes = mib.saturating_mul(1 << 20);
    }
    match (init.encrypt, &options.master_key) {
        (true, None) => {
            let problem = "--encrypt needs a master key: give --master-key-file, --master-key-env or --master-key-command";
            return Err(Failure::Usage(problem.to_owned()));
        }
        (false, Some(_)) => {
            let problem = "a master key is given: add --encrypt if the database is to be encrypted";
            return Err(Failure::Usage(problem.to_owned()));
        }
        (true, Some(_)) | (false, None) => {}
    }
    let database = open_with(&init.dir, options)?;
    let id = database.info()?.database.to_string();
    close(database, &init.dir, output);
    let directory = init.dir.display().to_string();
    output.answer(
        &json!({ "directory": directory, "database_id": id }),
        format_args!("made database {id} in {directory}"),
    )
}

pub(crate) fn rotate_key(shared: &Shared, rotate: &RotateKey, output: &mut Output) -> Result<(), Failure> {
    let needed =
        || Failure::Usage("give the old master key with --master-key-file, -env or -command".to_owned());
    let old = shared.key_of(KeyOf::Databases).ok_or_else(needed)?;
    let new = rotate.new.source().ok_or_else(needed)?;
    guard_key(&new, output)?;
    let others = if rotate.keep_others { OtherMasterKeys::Keep } else { OtherMasterKeys::Drop };
    DatabaseDirectory::at(&rotate.dir).rotate_master_key(old, &new, others)?;
    output.note_done();
    let directory = rotate.dir.display().to_string();
    output.answer(
        &json!({ "rotated": directory, "others_kept": rotate.keep_others }),
        format_args!("the database in {directory} has a new master key"),
    )
}

pub(crate) fn list(shared: &Shared, directory: &Path, output: &mut Output) -> Result<(), Failure> {
    let database = open(shared, directory, OpenMode::ReadOnly)?;
    for table in database.tables().list()? {
        let answer = json!({ "name": table.name, "id": table.id, "created_micros": table.created_micros });
        // A name may hold line breaks and what terminals take for commands.
        output.answer(&answer, escape(table.name.as_bytes()))?;
    }
    Ok(())
}

pub(crate) fn create(shared: &Shared, table: &OneTable, output: &mut Output) -> Result<(), Failure> {
    let database = open(shared, &table.dir, OpenMode::Existing)?;
    database.create_table(&table.table)?;
    close(database, &table.dir, output);
    done(output, "created", &table.table)
}

pub(crate) fn drop(shared: &Shared, table: &OneTable, output: &mut Output) -> Result<(), Failure> {
    let database = open(shared, &table.dir, OpenMode::Existing)?;
    database.tables().drop(&table.table)?;
    close(database, &table.dir, output);
    done(output, "dropped", &table.table)
}

pub(crate) fn rename(shared: &Shared, rename: &Rename, output: &mut Output) -> Result<(), Failure> {
    let database = open(shared, &rename.dir, OpenMode::Existing)?;
    database.tables().rename(&rename.from, &rename.to)?;
    close(database, &rename.dir, output);
    let (from, to) = (&rename.from, &rename.to);
    let text = format!("renamed table {} to {}", escape(from.as_bytes()), escape(to.as_bytes()));
    output.answer(&json!({ "renamed": from, "to": to }), text)
}

pub(crate) fn truncate(shared: &Shared, table: &OneTable, output: &mut Output) -> Result<(), Failure> {
    let database = open(shared, &table.dir, OpenMode::Existing)?;
    database.tables().truncate(&table.table)?;
    close(database, &table.dir, output);
    done(output, "truncated", &table.table)
}

fn done(output: &mut Output, what: &str, table: &str) -> Result<(), Failure> {
    output.answer(&json!({ what: table }), format_args!("{what} table {}", escape(table.as_bytes())))
}
