//! `info`, `check`, `checkpoint`, `inspect runs`.

use std::collections::BTreeMap;
use std::path::Path;

use seawall::{
    CheckSummary, CheckpointStatistics, Damage, DamageKind, Database, DatabaseDirectory, DatabaseInfo,
    OpenMode, RecoveryTimeStatistics, RunInfo,
};
use seawall_codec::hexadecimal::to_hexadecimal;
use serde_json::{Value, json};

use super::in_doubt::{decision_json, decision_text};
use super::log::{segment_json, segment_text};
use super::{close, not_a_database, open, options};
use crate::arguments::Shared;
use crate::failure::Failure;
use crate::files::utc;
use crate::output::{Output, counted, duration, escape, grouped, size};
use crate::progress;

pub(crate) fn info(shared: &Shared, directory: &Path, output: &mut Output) -> Result<(), Failure> {
    let (info, tables) = read_info(shared, directory)?;
    if output.json() {
        return output.line(info_json(&info, tables));
    }
    info_lines(&info, tables, output)
}

/// What the files of a closed database say, and how many tables there are.
pub(crate) fn read_info(shared: &Shared, directory: &Path) -> Result<(DatabaseInfo, usize), Failure> {
    let database = open(shared, directory, OpenMode::ReadOnly)?;
    Ok((database.info()?, database.tables().list()?.len()))
}

pub(crate) fn info_lines(info: &DatabaseInfo, tables: usize, output: &mut Output) -> Result<(), Failure> {
    let mut line = |name: &str, value: String| output.line(format_args!("{name:<16} {value}"));
    line("database", info.database.to_string())?;
    line("made", utc(info.created_micros))?;
    line("encrypted", if info.encrypted { "yes" } else { "no" }.to_owned())?;
    line("tables", tables.to_string())?;
    line("page size", size(info.page_bytes))?;
    line("page protection", info.page_protection.to_string())?;
    line("page file", size(info.page_file_bytes))?;
    line("timeline", info.timeline.to_string())?;
    line("redo point", info.redo_point.to_string())?;
    line("end of log", info.end_of_log.to_string())?;
    line("to replay", size(info.end_of_log.bytes_since(info.redo_point)))?;
    line("recovery", recovery_text(&info.recovery_time))?;
    line("checkpoints", info.checkpoint_count.to_string())?;
    if let Some(last) = &info.recent_checkpoints.last() {
        line("last checkpoint", checkpoint_text(last))?;
    }
    line("in doubt", in_doubt_text(info))?;
    if let Some(last) = info.automatic_decisions.last() {
        let count = grouped(info.automatic_decisions.len() as u64);
        line("decided by rules", format!("{count}, the last: {}", decision_text(last)))?;
    }
    line("segments", format!("{} of {}", info.segments.len(), size(info.segment_bytes)))?;
    for segment in &info.segments {
        line("", segment_text(segment))?;
    }
    Ok(())
}

fn in_doubt_text(info: &DatabaseInfo) -> String {
    match info.oldest_in_doubt {
        Some(age) => format!("{}, the oldest for {}", grouped(info.in_doubt), duration(age)),
        None => "nothing".to_owned(),
    }
}

/// What a recovery would take, and what that rests on.
fn recovery_text(time: &RecoveryTimeStatistics) -> String {
    if time.rows == 0 {
        return "no rows to replay".to_owned();
    }
    let measured = match time.measured_rows_per_second {
        0 => "by a default speed, as none was measured here yet".to_owned(),
        rows => {
            let bytes = size(time.measured_bytes_per_second);
            format!("measured: {} rows/s, {bytes}/s", grouped(rows))
        }
    };
    format!("about {} for {} ({measured})", duration(time.estimated), counted(time.rows, "row"))
}

pub(crate) fn info_json(info: &DatabaseInfo, tables: usize) -> Value {
    let segments: Vec<Value> = info.segments.iter().map(segment_json).collect();
    json!({
        "database_id": info.database.to_string(),
        "created_micros": info.created_micros,
        "encrypted": info.encrypted,
        "tables": tables,
        "page_bytes": info.page_bytes,
        "page_protection": info.page_protection.name(),
        "page_file_bytes": info.page_file_bytes,
        "segment_bytes": info.segment_bytes,
        "timeline": info.timeline.get(),
        "redo_point": info.redo_point.to_string(),
        "end_of_log": info.end_of_log.to_string(),
        "replay_bytes": info.end_of_log.bytes_since(info.redo_point),
        "recovery_time": {
            "target_seconds": info.recovery_time.target.map(|target| target.as_secs_f64()),
            "estimated_seconds": info.recovery_time.estimated.as_secs_f64(),
            "rows": info.recovery_time.rows,
            "bytes": info.recovery_time.bytes,
            "measured_rows_per_second": info.recovery_time.measured_rows_per_second,
            "measured_bytes_per_second": info.recovery_time.measured_bytes_per_second,
        },
        "checkpoints": info.checkpoint_count,
        "last_checkpoint": info.recent_checkpoints.last().map(checkpoint_json),
        "recent_checkpoints": info.recent_checkpoints.iter().map(checkpoint_json).collect::<Vec<_>>(),
        "in_doubt": info.in_doubt,
        "oldest_in_doubt_seconds": info.oldest_in_doubt.map(|age| age.as_secs_f64()),
        "automatic_decisions": info.automatic_decisions.iter().map(decision_json).collect::<Vec<_>>(),
        "segments": segments,
    })
}

pub(crate) fn check(shared: &Shared, directory: &Path, output: &mut Output) -> Result<(), Failure> {
    let bar = progress::rows("checking");
    let mut written = Ok(());
    let mut tables = None;
    let summary =
        DatabaseDirectory::at(directory).check(options(shared, OpenMode::ReadOnly), &mut |damage| {
            if written.is_ok() {
                let tables = tables.get_or_insert_with(|| tables_of(shared, directory));
                written = output.answer(&damage_json(&damage, tables), damage_text(&damage, tables));
            }
        });
    bar.finish_and_clear();
    let summary = summary.map_err(|error| not_a_database(error.into()))?;
    let written = written.and_then(|()| {
        output.answer(
            &json!({ "checked": summary_json(&summary), "damages": summary.damages, "unreadable": summary.unreadable }),
            format_args!("checked {}", read_by(&summary)),
        )
    });
    // Damage is damage, whether somebody reads where it is or not.
    match (summary.damages, summary.unreadable) {
        (0, 0) => written.and_then(|()| output.answer(&json!({ "ok": true }), "no damage found")),
        (0, unreadable) => Err(Failure::Unreadable { places: counted(unreadable, "place") }),
        (damages, _) => Err(Failure::Damage { findings: counted(damages, "damage") }),
    }
}

/// What a check has read.
pub(crate) fn read_by(summary: &CheckSummary) -> String {
    format!(
        "{} with {} in {}, {}",
        counted(summary.pages, "page"),
        counted(summary.rows, "row"),
        counted(summary.tables, "table"),
        counted(summary.log_records, "log record")
    )
}

/// Names of tables by the storage that has their rows.
pub(crate) type Tables = BTreeMap<u64, String>;

/// As far as a damaged database tells.
fn tables_of(shared: &Shared, directory: &Path) -> Tables {
    let read = || {
        let database = Database::open(directory, options(shared, OpenMode::ReadOnly))?;
        let tables = database.tables().list()?;
        database.close()?;
        Ok::<_, seawall::Error>(tables)
    };
    let tables = read().unwrap_or_default();
    tables.into_iter().map(|table| (table.storage, table.name)).collect()
}

/// File, offset, what, and which rows.
pub(crate) fn damage_text(damage: &Damage, tables: &Tables) -> String {
    let offset = damage.offset.map_or_else(String::new, |offset| format!(", offset {offset}"));
    let rows = damage.keys.as_ref().map_or_else(String::new, |keys| {
        let place = |bound: &Option<(u64, Vec<u8>)>, open: &str| match bound {
            Some((storage, key)) => {
                let table = tables.get(storage).map(|name| format!(" (table {name:?})")).unwrap_or_default();
                format!("key {} of storage {storage}{table}", escape(key))
            }
            None => open.to_owned(),
        };
        format!("; affects rows from {} to {}", place(&keys.from, "the first"), place(&keys.to, "the last"))
    });
    let could_not = if damage.kind == DamageKind::Unreadable { " could not be read:" } else { "" };
    format!("{}{offset}:{could_not} {}{rows}", damage.path, damage.what)
}

fn damage_json(damage: &Damage, tables: &Tables) -> Value {
    let bound = |bound: &Option<(u64, Vec<u8>)>| match bound {
        Some((storage, key)) => {
            json!({ "storage": storage, "table": tables.get(storage), "key_hex": to_hexadecimal(key) })
        }
        None => Value::Null,
    };
    let keys = damage.keys.as_ref().map(|keys| json!({ "from": bound(&keys.from), "to": bound(&keys.to) }));
    let kind = if damage.kind == DamageKind::Unreadable { "unreadable" } else { "damage" };
    json!({ kind: damage.what, "file": damage.path, "offset": damage.offset, "keys": keys })
}

fn summary_json(summary: &CheckSummary) -> Value {
    json!({ "pages": summary.pages, "rows": summary.rows, "log_records": summary.log_records, "tables": summary.tables, "depth": summary.depth, "parts": summary.parts })
}

pub(crate) fn runs(shared: &Shared, directory: &Path, output: &mut Output) -> Result<(), Failure> {
    let runs = open(shared, directory, OpenMode::ReadOnly)?.runs()?;
    if output.json() {
        return output.line(json!({ "runs": runs.iter().map(run_json).collect::<Vec<_>>() }));
    }
    if runs.is_empty() {
        return output.line("no runs");
    }
    runs.iter().try_for_each(|run| output.line(run_text(run)))
}

fn run_text(run: &RunInfo) -> String {
    let deletions = match run.deletions {
        0 => String::new(),
        count => format!(", {} of them deleted", grouped(count)),
    };
    let filter =
        if run.filter_bytes == 0 { "no filter".to_owned() } else { size(run.filter_bytes) + " of filter" };
    format!(
        "run {}: level {}, ({}, {}], {}{deletions}, {} of {} left, {filter}",
        run.number,
        run.level,
        run.start,
        run.end,
        counted(run.rows, "row"),
        grouped(run.leaves_left),
        counted(run.leaves, "leaf page"),
    )
}

fn run_json(run: &RunInfo) -> Value {
    json!({
        "number": run.number,
        "level": run.level,
        "start": run.start.to_string(),
        "end": run.end.to_string(),
        "rows": run.rows,
        "deletions": run.deletions,
        "leaves": run.leaves,
        "leaves_left": run.leaves_left,
        "filter_bytes": run.filter_bytes,
        "written_micros": run.written_micros,
    })
}

pub(crate) fn checkpoint(shared: &Shared, directory: &Path, output: &mut Output) -> Result<(), Failure> {
    let database = open(shared, directory, OpenMode::Existing)?;
    let statistics = database.checkpoint()?;
    close(database, directory, output);
    output.answer(&checkpoint_json(&statistics), checkpoint_text(&statistics))
}

fn checkpoint_text(checkpoint: &CheckpointStatistics) -> String {
    format!(
        "redo point {}: {} merged in {}, {} written, {} ({})",
        checkpoint.redo_point,
        counted(checkpoint.rows, "row"),
        counted(checkpoint.chunks, "chunk"),
        counted(checkpoint.pages_written(), "page"),
        duration(checkpoint.duration),
        checkpoint.trigger.name()
    )
}

fn checkpoint_json(checkpoint: &CheckpointStatistics) -> Value {
    let durations = &checkpoint.durations;
    json!({
        "trigger": checkpoint.trigger.name(),
        "started_micros": checkpoint.started_micros,
        "redo_point_before": checkpoint.redo_point_before.to_string(),
        "redo_point": checkpoint.redo_point.to_string(),
        "rows": checkpoint.rows,
        "chunks": checkpoint.chunks,
        "leaves": checkpoint.leaves,
        "interiors": checkpoint.interiors,
        "pages_read": checkpoint.pages_read,
        "pages_written": checkpoint.pages_written(),
        "fresh_pages": checkpoint.fresh_pages,
        "protected_pages": checkpoint.protected_pages,
        "freed_pages": checkpoint.freed_pages,
        "tables_reclaimed": checkpoint.tables_reclaimed,
        "page_file_bytes": checkpoint.page_file_bytes,
        "image_bytes": checkpoint.image_bytes,
        "recovery_file_bytes": checkpoint.recovery_file_bytes,
        "punched_bytes": checkpoint.punched_bytes,
        "fill_highest_permille": checkpoint.fill_highest_permille,
        "writers_delayed_seconds": checkpoint.writers_delayed.as_secs_f64(),
        "seconds": checkpoint.duration.as_secs_f64(),
        "durations_seconds": {
            "freeze": durations.freeze.as_secs_f64(),
            "log_flush": durations.log_flush.as_secs_f64(),
            "merge": durations.merge.as_secs_f64(),
            "recovery_write": durations.recovery_write.as_secs_f64(),
            "recovery_sync": durations.recovery_sync.as_secs_f64(),
            "page_write": durations.page_write.as_secs_f64(),
            "page_sync": durations.page_sync.as_secs_f64(),
            "publish": durations.publish.as_secs_f64(),
            "publish_max": durations.publish_max.as_secs_f64(),
            "paused": durations.paused.as_secs_f64(),
            "total": durations.total.as_secs_f64(),
        },
    })
}
