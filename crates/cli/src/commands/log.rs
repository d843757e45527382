//! `log`: the log at a glance (`overview`), or its records, for people who want to know what happened.

mod overview;

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use seawall::{DatabaseDirectory, Error, LogChange, LogContent, LogRecordInfo, OpenMode};
use serde_json::{Map, Value, json};

use super::open;
use seawall_settings::KeyOf;

use crate::arguments::{Log, Shared};
use crate::failure::Failure;
use crate::files::utc;
use crate::output::{Notation, Output, counted, escape, grouped};

/// Changes of one commit that are shown to people; programs get all.
const CHANGES_SHOWN: usize = 20;

pub(crate) use overview::{segment_json, segment_text};

pub(crate) fn log(shared: &Shared, log: &Log, output: &mut Output) -> Result<(), Failure> {
    if !log.records && log.from.is_none() && log.limit.is_none() {
        return overview::overview(shared, log, output);
    }
    let names = table_names(shared, log);
    let mut left = log.limit.unwrap_or(u64::MAX);
    if left == 0 {
        return Ok(());
    }
    let mut shown = Ok(());
    let mut seen_any = false;
    let read = DatabaseDirectory::at(&log.dir).log_records(
        shared.key_of(KeyOf::Databases).as_ref(),
        log.from,
        &mut |record| {
            left -= 1;
            seen_any = true;
            shown =
                if output.json() { output.line(record_json(&record)) } else { show(&record, &names, output) };
            if shown.is_err() || left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        },
    );
    match (read, log.from) {
        // More likely a wrong number than a damaged log; `check` tells.
        (Err(Error::Log { message }), Some(from)) if !seen_any => {
            Err(Failure::Usage(format!("no record starts at {from}, or the log is damaged there: {message}")))
        }
        (read, _) => Ok(read.map(|()| shown)??),
    }
}

/// Names of the tables of now, by the number under which the log has their rows. None if the database is being written
/// or does not open: the log can be read all the same.
fn table_names(shared: &Shared, log: &Log) -> BTreeMap<u64, String> {
    let tables =
        open(shared, &log.dir, OpenMode::ReadOnly).and_then(|database| Ok(database.tables().list()?));
    tables.unwrap_or_default().into_iter().map(|table| (table.storage, table.name)).collect()
}

fn show(record: &LogRecordInfo, names: &BTreeMap<u64, String>, output: &mut Output) -> Result<(), Failure> {
    let bytes = record.end.bytes_since(record.lsn);
    let text = match &record.content {
        LogContent::Commit { time_micros, changes } => {
            format!("commit of {}, {}", counted(changes.len() as u64, "change"), utc(*time_micros))
        }
        LogContent::Checkpoint { redo_point, time_micros } => {
            format!("checkpoint, replay started at {redo_point} before it, {}", utc(*time_micros))
        }
        LogContent::TimelineSwitch { timeline, parent, fork, time_micros } => {
            format!("timeline {timeline} leaves {parent} at {fork}, {}", utc(*time_micros))
        }
        LogContent::RestorePoint { name, time_micros } => {
            format!("restore point {name:?}, {}", utc(*time_micros))
        }
        LogContent::Prepare { gid, owner, time_micros, changes } => {
            let by = if owner.is_empty() { String::new() } else { format!(" by {owner:?}") };
            format!(
                "prepare{by} of {} as {gid:?}, {}",
                counted(changes.len() as u64, "change"),
                utc(*time_micros)
            )
        }
        LogContent::CommitPrepared { gid, prepared, time_micros, .. } => {
            format!("commit of {gid:?}, prepared at {prepared}, {}", utc(*time_micros))
        }
        LogContent::RollbackPrepared { gid, prepared, time_micros, .. } => {
            format!("rollback of {gid:?}, prepared at {prepared}, {}", utc(*time_micros))
        }
        LogContent::BulkLoad { table, time_micros } => {
            format!("rows of table {table} were loaded past the log, {}", utc(*time_micros))
        }
        LogContent::NoOp => "nothing".to_owned(),
        LogContent::PageImages { chunk, images, stored_bytes } => {
            format!("{} page images of chunk {chunk}, {} bytes", grouped(*images), grouped(*stored_bytes))
        }
    };
    output.line(format_args!("{}  {} bytes, timeline {}: {text}", record.lsn, bytes, record.timeline))?;
    let changes = changes_of(&record.content);
    for change in changes.iter().take(CHANGES_SHOWN) {
        output.line(format_args!("    {}", change_text(change, names)))?;
    }
    if changes.len() > CHANGES_SHOWN {
        output.line(format_args!("    and {} more", changes.len() - CHANGES_SHOWN))?;
    }
    Ok(())
}

fn changes_of(content: &LogContent) -> &[LogChange] {
    match content {
        LogContent::Commit { changes, .. }
        | LogContent::Prepare { changes, .. }
        | LogContent::CommitPrepared { changes, .. }
        | LogContent::RollbackPrepared { changes, .. } => changes,
        LogContent::Checkpoint { .. }
        | LogContent::TimelineSwitch { .. }
        | LogContent::RestorePoint { .. }
        | LogContent::BulkLoad { .. }
        | LogContent::NoOp
        | LogContent::PageImages { .. } => &[],
    }
}

fn change_text(change: &LogChange, names: &BTreeMap<u64, String>) -> String {
    let table = match names.get(&change.table) {
        Some(name) => name.clone(),
        None => format!("table {}", change.table),
    };
    let key = escape(&change.key);
    match change.value_bytes {
        Some(bytes) => format!("put {table} {key} ({} bytes)", grouped(bytes)),
        None => format!("delete {table} {key}"),
    }
}

fn record_json(record: &LogRecordInfo) -> Value {
    let mut object = Map::new();
    object.insert("lsn".to_owned(), record.lsn.to_string().into());
    object.insert("end".to_owned(), record.end.to_string().into());
    object.insert("timeline".to_owned(), record.timeline.get().into());
    let content = match &record.content {
        LogContent::Commit { time_micros, changes } => json!({
            "kind": "commit", "time_micros": time_micros, "changes": changes_json(changes),
        }),
        LogContent::Prepare { gid, owner, time_micros, changes } => json!({
            "kind": "prepare", "gid": gid, "owner": owner, "time_micros": time_micros,
            "changes": changes_json(changes),
        }),
        LogContent::CommitPrepared { gid, prepared, time_micros, changes } => json!({
            "kind": "commit prepared", "gid": gid, "prepared": prepared.to_string(), "time_micros": time_micros,
            "changes": changes_json(changes),
        }),
        LogContent::RollbackPrepared { gid, prepared, time_micros, changes } => json!({
            "kind": "rollback prepared", "gid": gid, "prepared": prepared.to_string(), "time_micros": time_micros,
            "changes": changes_json(changes),
        }),
        LogContent::Checkpoint { redo_point, time_micros } => json!({
            "kind": "checkpoint", "redo_point": redo_point.to_string(), "time_micros": time_micros,
        }),
        LogContent::TimelineSwitch { timeline, parent, fork, time_micros } => json!({
            "kind": "timeline switch", "new_timeline": timeline.get(), "parent": parent.get(),
            "fork": fork.to_string(), "time_micros": time_micros,
        }),
        LogContent::RestorePoint { name, time_micros } => json!({
            "kind": "restore point", "name": name, "time_micros": time_micros,
        }),
        LogContent::BulkLoad { table, time_micros } => json!({
            "kind": "bulk load", "table": table, "time_micros": time_micros,
        }),
        LogContent::NoOp => json!({ "kind": "no-op" }),
        LogContent::PageImages { chunk, images, stored_bytes } => json!({
            "kind": "page images", "chunk": chunk, "images": images, "stored_bytes": stored_bytes,
        }),
    };
    if let Value::Object(content) = content {
        object.extend(content);
    }
    Value::from(object)
}

fn changes_json(changes: &[LogChange]) -> Vec<Value> {
    changes.iter().map(change_json).collect()
}

fn change_json(change: &LogChange) -> Value {
    let mut object = Map::new();
    object.insert("table".to_owned(), change.table.into());
    Notation::Text.set(&mut object, "key", &change.key);
    object.insert("value_bytes".to_owned(), change.value_bytes.into());
    Value::from(object)
}
