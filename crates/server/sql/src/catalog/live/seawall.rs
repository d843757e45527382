//! The views of schema `seawall`: what the engine is doing, and what it keeps.

use std::time::Duration;

use seawall_engine::{CheckpointStatistics, Database, HoldInfo, HoldKind, SegmentState};
use seawall_types::Lsn;
use seawall_values::{Datum, SqlResult};

use super::super::names::Names;
use super::super::numbers::READ_ALL_STATISTICS;
use super::super::source::Source;
use super::{Live, Rows, Table, count, moment_since_1970, text_or_null};
use crate::schema::Definition;
use crate::storage::engine_error::EngineResult;

pub(super) const TABLE: Table = &[
    ("in_doubt", Live::Once(in_doubt)),
    ("checkpoints", Live::Once(checkpoints)),
    ("segments", Live::Once(segments)),
    ("holds", Live::Once(holds)),
    ("throttle", Live::Once(throttle)),
    (
        "log_by_table",
        Live::Each { make: log_by_table, numbers: &[], names: &[1], has_system: false, rest: None },
    ),
    ("archives", Live::Once(archives)),
];

fn lsn(lsn: Lsn) -> Datum {
    Datum::Unsigned8(lsn.get())
}

fn seconds(duration: Duration) -> Datum {
    Datum::Float8(duration.as_secs_f64())
}

/// The handle of the database; a source without one has no rows.
fn engine(source: &dyn Source) -> Option<Database> {
    source.engine().cloned()
}

/// Transactions that are prepared and not decided.
fn in_doubt(source: &mut dyn Source, _names: &Names, rows: &mut Rows) -> SqlResult<()> {
    let Some(engine) = engine(source) else { return Ok(()) };
    rows.extend(engine.two_phase().in_doubt().sql()?.into_iter().map(|held| {
        vec![
            Datum::text(held.gid),
            Datum::text(held.owner),
            moment_since_1970(held.prepared_micros),
            seconds(held.age),
            lsn(held.lsn),
            count(held.rows),
            count(held.bytes),
        ]
    }));
    Ok(())
}

/// The last hundred checkpoints since the database was opened, oldest first.
fn checkpoints(source: &mut dyn Source, _names: &Names, rows: &mut Rows) -> SqlResult<()> {
    let Some(engine) = engine(source) else { return Ok(()) };
    rows.extend(engine.info().sql()?.recent_checkpoints.iter().map(checkpoint));
    Ok(())
}

fn checkpoint(done: &CheckpointStatistics) -> Vec<Datum> {
    let times = &done.durations;
    vec![
        moment_since_1970(done.started_micros),
        Datum::text(done.trigger.name()),
        lsn(done.redo_point),
        count(done.rows),
        count(done.chunks),
        count(done.pages_written()),
        count(done.pages_read),
        count(done.page_file_bytes),
        count(done.recovery_file_bytes),
        count(done.tables_reclaimed),
        seconds(done.duration),
        seconds(times.freeze),
        seconds(times.merge),
        seconds(times.recovery_write + times.page_write),
        seconds(times.log_flush + times.recovery_sync + times.page_sync),
        seconds(times.paused),
    ]
}

/// The files of the log, oldest first.
fn segments(source: &mut dyn Source, _names: &Names, rows: &mut Rows) -> SqlResult<()> {
    let Some(engine) = engine(source) else { return Ok(()) };
    rows.extend(engine.info().sql()?.segments.into_iter().map(|segment| {
        let state = match segment.state {
            SegmentState::Live => "live",
            SegmentState::Spare => "spare",
            SegmentState::Unneeded => "unneeded",
            SegmentState::Stray => "stray",
        };
        vec![Datum::text(segment.name), lsn(segment.first_lsn), Datum::text(state)]
    }));
    Ok(())
}

/// Who keeps the log besides recovery.
fn holds(source: &mut dyn Source, _names: &Names, rows: &mut Rows) -> SqlResult<()> {
    let Some(engine) = engine(source) else { return Ok(()) };
    let end = engine.statistics().log.appended;
    rows.extend(engine.log().holds().sql()?.iter().map(|held| hold(held, end)));
    Ok(())
}

fn hold(hold: &HoldInfo, end: Lsn) -> Vec<Datum> {
    let kind = match hold.options.kind {
        HoldKind::Archive => "archive",
        HoldKind::Standby => "standby",
        HoldKind::Backup => "backup",
        HoldKind::Keep => "keep",
        HoldKind::Other => "other",
    };
    let is_lost = hold.lost_at.is_some();
    let held = if is_lost { 0 } else { end.bytes_since(hold.position.min(end)) };
    vec![
        Datum::text(&hold.name),
        Datum::text(kind),
        lsn(hold.position),
        count(held),
        hold.options.limit_bytes.map_or(Datum::Null, count),
        moment_since_1970(hold.created_micros),
        Datum::Bool(is_lost),
    ]
}

/// Whether writers are held back, and why: one row.
fn throttle(source: &mut dyn Source, _names: &Names, rows: &mut Rows) -> SqlResult<()> {
    let Some(engine) = engine(source) else { return Ok(()) };
    let now = engine.statistics().throttle;
    rows.push_back(vec![
        text_or_null(now.reason.map(seawall_engine::ThrottleReason::name)),
        now.rate_bytes_per_second.map_or(Datum::Null, count),
        Datum::Float8(now.factor),
        seconds(Duration::from_micros(now.delay_micros_per_commit)),
        count(now.delayed_commits),
        seconds(Duration::from_micros(now.delayed_micros)),
        Datum::Float8(now.fill),
        now.progress.map_or(Datum::Null, Datum::Float8),
    ]);
    Ok(())
}

/// What the rows of a table, and the entries of each of its indexes, have put into the log.
fn log_by_table(
    definition: &Definition,
    source: &mut dyn Source,
    names: &Names,
    rows: &mut Rows,
) -> SqlResult<()> {
    let Definition::Table(table) = definition else { return Ok(()) };
    let indexes = table.indexes.iter().filter_map(|index| Some((index.storage.as_deref()?, &index.name)));
    let parts =
        std::iter::once((&*table.storage, None)).chain(indexes.map(|(place, name)| (place, Some(name))));
    for (place, index) in parts {
        let logged = source.logged_rows(place)?;
        rows.push_back(vec![
            Datum::text(names.namespace(table.namespace)),
            Datum::text(&table.name),
            text_or_null(index),
            count(logged.rows),
            count(logged.bytes),
        ]);
    }
    Ok(())
}

/// The repositories that the log goes into. Why one fails is shown to those who may read all statistics: it may name places.
fn archives(source: &mut dyn Source, names: &Names, rows: &mut Rows) -> SqlResult<()> {
    let Some(engine) = engine(source) else { return Ok(()) };
    let shows_failures = names.has_role(READ_ALL_STATISTICS);
    rows.extend(engine.statistics().archives.into_iter().map(|archive| {
        let failing = archive
            .failing
            .map(|why| if shows_failures { why } else { "<insufficient privilege>".to_owned() });
        vec![
            Datum::text(archive.name),
            Datum::Bool(archive.is_required),
            lsn(archive.archived),
            count(archive.lag_bytes),
            count(archive.segments_waiting),
            count(archive.uploads),
            count(archive.segments),
            count(archive.bytes),
            archive.last_success_micros.map_or(Datum::Null, moment_since_1970),
            count(archive.failures),
            text_or_null(failing),
            count(archive.gaps),
        ]
    }));
    Ok(())
}
