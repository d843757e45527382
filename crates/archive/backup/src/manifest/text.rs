//! What manifests and progress objects have in common, as lines of their texts.

use seawall_codec::hexadecimal::from_hexadecimal;
use seawall_codec::sealed_text::{TextReader, TextWriter};
use seawall_engine::BackupBase;
use seawall_types::{DatabaseId, TableId, TimelineId};

use super::{CutShort, RunInfo, RunKind};
use crate::object_names;

const NONE: &str = "none";

/// What it began with, all but `keys`.
pub(crate) fn write_base(text: &mut TextWriter, base: &BackupBase) {
    text.line("database", &base.database);
    text.line("timeline", &base.timeline);
    text.line("page_bytes", &base.page_bytes);
    text.line("segment_bytes", &base.segment_bytes);
    text.line("created", &base.created_micros);
    text.line("redo_point", &base.redo_point);
    text.line("complete_from", &base.complete_from);
    text.line("in_doubt", &base.in_doubt);
    text.line("first_new_table", &base.first_new_table.get());
    text.line("loading", &numbers_text(&base.loading));
}

pub(crate) fn read_base(text: &mut TextReader<'_>) -> Result<BackupBase, String> {
    let database = from_hexadecimal(text.field("database")?).and_then(|bytes| bytes.try_into().ok());
    let timeline = TimelineId::new(text.parsed("timeline")?).ok_or("its timeline cannot be")?;
    Ok(BackupBase {
        database: DatabaseId::from_bytes(database.ok_or("its database cannot be")?),
        timeline,
        page_bytes: read_page_bytes(text)?,
        segment_bytes: text.parsed("segment_bytes")?,
        created_micros: text.parsed("created")?,
        keys: None,
        redo_point: text.parsed("redo_point")?,
        complete_from: text.parsed("complete_from")?,
        in_doubt: text.parsed("in_doubt")?,
        first_new_table: TableId::new(text.parsed("first_new_table")?),
        loading: numbers_of(text.field("loading")?).ok_or("its loading cannot be")?,
    })
}

fn read_page_bytes(text: &mut TextReader<'_>) -> Result<u32, String> {
    let bytes: u32 = text.parsed("page_bytes")?;
    let is_size = bytes.is_power_of_two() && (4096..=65536).contains(&bytes);
    is_size.then_some(bytes).ok_or_else(|| "its page_bytes cannot be".to_owned())
}

/// What it builds on: the complete backup, and the one that was cut short.
pub(crate) fn write_origin(text: &mut TextWriter, parent: Option<&str>, goes_on_with: Option<&CutShort>) {
    text.line("parent", &parent.unwrap_or(NONE));
    match goes_on_with {
        Some(CutShort { id, progress }) => text.line("goes_on_with", &format_args!("{id} {progress}")),
        None => text.line("goes_on_with", &NONE),
    }
}

pub(crate) fn read_origin(text: &mut TextReader<'_>) -> Result<(Option<String>, Option<CutShort>), String> {
    let parent = match text.field("parent")? {
        NONE => None,
        parent => Some(backup_id(parent).ok_or("its parent cannot be")?),
    };
    let goes_on_with = match text.field("goes_on_with")? {
        NONE => None,
        text => Some(cut_short(text).ok_or("its goes_on_with cannot be")?),
    };
    Ok((parent, goes_on_with))
}

fn cut_short(text: &str) -> Option<CutShort> {
    let (id, progress) = text.split_once(' ')?;
    Some(CutShort { id: backup_id(id)?, progress: progress.parse().ok()? })
}

/// What can be the name of a backup's directory.
fn backup_id(text: &str) -> Option<String> {
    let manifest = object_names::manifest(text)?;
    (object_names::backup_of(&manifest) == Some(text)).then(|| text.to_owned())
}

/// The runs, by number.
pub(crate) fn write_runs(text: &mut TextWriter, runs: &[RunInfo]) {
    for (number, RunInfo { kind, rows, bytes, checksum }) in runs.iter().enumerate() {
        text.line(kind.word(), &format_args!("{number} {rows} {bytes} {checksum:016x}"));
    }
    text.line("runs", &runs.len());
}

/// The runs, which are the last lines.
pub(crate) fn read_runs(mut text: TextReader<'_>) -> Result<Vec<RunInfo>, String> {
    let runs = text.list(&[RunKind::Rows.word(), RunKind::Kept.word()], "runs", run)?;
    text.end()?;
    let sum = |of: fn(&RunInfo) -> u64| runs.iter().map(of).try_fold(0_u64, u64::checked_add);
    match (sum(|run| run.rows), sum(|run| run.bytes)) {
        (Some(_), Some(_)) => Ok(runs),
        _ => Err("its runs are longer than any can be".to_owned()),
    }
}

fn run(word: &str, fields: &[&str]) -> Option<RunInfo> {
    let kind = [RunKind::Rows, RunKind::Kept].into_iter().find(|kind| kind.word() == word)?;
    let [rows, bytes, checksum] = fields else { return None };
    let checksum = u64::from_str_radix(checksum, 16).ok()?;
    Some(RunInfo { kind, rows: rows.parse().ok()?, bytes: bytes.parse().ok()?, checksum })
}

fn numbers_text(tables: &[TableId]) -> String {
    let numbers: Vec<String> = tables.iter().map(|table| table.get().to_string()).collect();
    if numbers.is_empty() { NONE.to_owned() } else { numbers.join(",") }
}

fn numbers_of(text: &str) -> Option<Vec<TableId>> {
    if text == NONE {
        return Some(Vec::new());
    }
    text.split(',').map(|number| number.parse().ok().map(TableId::new)).collect()
}
