//! Counters of tables, indexes and the database.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use seawall_values::numeric::Numeric;
use seawall_values::system::system;
use seawall_values::{Datum, Oid, SqlResult, oid};

use super::super::names::Names;
use super::super::numbers::{DATABASE, column_number};
use super::super::source::Source;
use super::indexes::{collation, compared_type};
use super::{Live, Rows, Table, array, count, moment, name};
use crate::schema::Definition;
use crate::schema::statistics::ColumnStatistics;

pub(super) const TABLE: Table = &[
    ("pg_stat_all_tables", TABLES),
    ("pg_stat_user_tables", TABLES),
    ("pg_statio_all_tables", IO_OF_TABLES),
    ("pg_statio_user_tables", IO_OF_TABLES),
    ("pg_stat_all_indexes", INDEXES),
    ("pg_stat_user_indexes", INDEXES),
    ("pg_stat_database", Live::Once(pg_stat_database)),
    ("pg_stat_wal", Live::Once(pg_stat_wal)),
    ("pg_stat_bgwriter", Live::Once(pg_stat_bgwriter)),
    ("pg_stat_archiver", Live::Once(pg_stat_archiver)),
    (
        "pg_statistic",
        Live::Each { make: pg_statistic, numbers: &[0], names: &[], has_system: false, rest: None },
    ),
    (
        "pg_stats",
        Live::Each { make: column_statistics, numbers: &[], names: &[1], has_system: false, rest: None },
    ),
];

const TABLES: Live = Live::Each { make: tables, numbers: &[0], names: &[2], has_system: false, rest: None };
const IO_OF_TABLES: Live =
    Live::Each { make: io_of_tables, numbers: &[0], names: &[2], has_system: false, rest: None };
const INDEXES: Live =
    Live::Each { make: indexes, numbers: &[0, 1], names: &[3, 4], has_system: false, rest: None };

fn tables(definition: &Definition, source: &mut dyn Source, names: &Names, rows: &mut Rows) -> SqlResult<()> {
    let Definition::Table(table) = definition else { return Ok(()) };
    let known = source.statistics(table.oid)?;
    let mut of_indexes = [0, 0];
    for index in &table.indexes {
        let known = source.statistics(index.oid)?;
        of_indexes = [of_indexes[0] + known.scans, of_indexes[1] + known.rows_read];
    }
    let of_indexes =
        of_indexes.map(|number| if table.indexes.is_empty() { Datum::Null } else { count(number) });
    let [index_scans, index_rows] = of_indexes;
    // As of the last checkpoint: before the first one, ANALYZE knows better.
    let live_rows = source.live_rows(table)?;
    let mut row = vec![
        Datum::Oid(table.oid),
        name(names.namespace(table.namespace)),
        name(&table.name),
        count(known.scans),
        count(known.rows_read),
        index_scans,
        index_rows,
        count(known.inserted),
        count(known.updated),
        count(known.deleted),
        Datum::Int8(0),
        count(live_rows.filter(|rows| *rows > 0).or(known.rows).unwrap_or(0)),
        Datum::Int8(0),
        count(known.changed),
        Datum::Int8(0),
    ];
    // Nothing is vacuumed, so there are no moments of it, and no counts.
    let stored = source.table_statistics(table.oid)?.map(|known| known.analyzed_at);
    // What was stored before the server began is not known to be automatic.
    let analyzed = known.analyzed_at.or(stored.filter(|at| Some(*at) != known.automatically_analyzed_at));
    row.extend([Datum::Null, Datum::Null, moment(analyzed), moment(known.automatically_analyzed_at)]);
    row.extend([Datum::Int8(0), Datum::Int8(0), count(known.analyzes), count(known.automatic_analyzes)]);
    rows.push_back(row);
    Ok(())
}

/// Pages are cached for all tables together: nothing is counted for each.
fn io_of_tables(
    definition: &Definition,
    _source: &mut dyn Source,
    names: &Names,
    rows: &mut Rows,
) -> SqlResult<()> {
    let Definition::Table(table) = definition else { return Ok(()) };
    let mut row = vec![Datum::Oid(table.oid), name(names.namespace(table.namespace)), name(&table.name)];
    let of_indexes = if table.indexes.is_empty() { Datum::Null } else { Datum::Int8(0) };
    row.extend([Datum::Int8(0), Datum::Int8(0), of_indexes.clone(), of_indexes]);
    row.extend(std::iter::repeat_n(Datum::Null, 4));
    rows.push_back(row);
    Ok(())
}

fn indexes(
    definition: &Definition,
    source: &mut dyn Source,
    names: &Names,
    rows: &mut Rows,
) -> SqlResult<()> {
    let Definition::Table(table) = definition else { return Ok(()) };
    for index in &table.indexes {
        let known = source.statistics(index.oid)?;
        rows.push_back(vec![
            Datum::Oid(table.oid),
            Datum::Oid(index.oid),
            name(names.namespace(table.namespace)),
            name(&table.name),
            name(&index.name),
            count(known.scans),
            count(known.rows_read),
            count(known.rows_read),
        ]);
    }
    Ok(())
}

/// `pg_stats`: what `ANALYZE` has found out about the columns of a table that the user may read.
fn column_statistics(
    definition: &Definition,
    source: &mut dyn Source,
    names: &Names,
    rows: &mut Rows,
) -> SqlResult<()> {
    let Definition::Table(table) = definition else { return Ok(()) };
    let Some(known) = source.table_statistics(table.oid)?.filter(|_| names.has_role(table.owner)) else {
        return Ok(());
    };
    for (position, column) in table.columns.iter().enumerate().filter(|(_, column)| !column.is_dropped) {
        let Some(found) = known.column(position, column.of) else { continue };
        let mut row = vec![
            name(names.namespace(table.namespace)),
            name(&table.name),
            name(&column.name),
            Datum::Bool(false),
            real(found.null_fraction),
            Datum::Int4(found.average_width),
            real(found.distinct),
            values_or_null(column.of.oid, found.common.iter().map(|(value, _)| value.clone()).collect()),
            values_or_null(oid::FLOAT4, found.common.iter().map(|(_, share)| real(*share)).collect()),
            values_or_null(column.of.oid, found.histogram.clone()),
            found.correlation.map_or(Datum::Null, real),
        ];
        // Elements of arrays are not counted.
        row.extend([Datum::Null, Datum::Null, Datum::Null]);
        rows.push_back(row);
    }
    Ok(())
}

/// One kind of numbers and values in a row of `pg_statistic`.
#[derive(Default)]
struct Slot {
    kind: i16,
    operator: Oid,
    collation: Oid,
    numbers: Vec<Datum>,
    values: Vec<Datum>,
}

/// Slots of a row.
const SLOTS: usize = 5;
/// Kinds: most common values, histogram, correlation.
const COMMON: i16 = 1;
const HISTOGRAM: i16 = 2;
const CORRELATION: i16 = 3;

/// `pg_statistic`: what `ANALYZE` has found out about the columns of all tables.
fn pg_statistic(
    definition: &Definition,
    source: &mut dyn Source,
    _names: &Names,
    rows: &mut Rows,
) -> SqlResult<()> {
    let Definition::Table(table) = definition else { return Ok(()) };
    let Some(known) = source.table_statistics(table.oid)? else { return Ok(()) };
    for (position, column) in table.columns.iter().enumerate().filter(|(_, column)| !column.is_dropped) {
        let Some(found) = known.column(position, column.of) else { continue };
        let mut row = vec![
            Datum::Oid(table.oid),
            Datum::Int2(column_number(position)),
            Datum::Bool(false),
            real(found.null_fraction),
            Datum::Int4(found.average_width),
            real(found.distinct),
        ];
        let slots = slots(found);
        row.extend(slots.iter().map(|slot| Datum::Int2(slot.kind)));
        row.extend(slots.iter().map(|slot| Datum::Oid(slot.operator)));
        row.extend(slots.iter().map(|slot| Datum::Oid(slot.collation)));
        row.extend(slots.iter().map(|slot| values_or_null(oid::FLOAT4, slot.numbers.clone())));
        row.extend(slots.iter().map(|slot| values_or_null(column.of.oid, slot.values.clone())));
        rows.push_back(row);
    }
    Ok(())
}

fn slots(found: &ColumnStatistics) -> Vec<Slot> {
    let of = found.of.oid;
    let slot = |kind, operator| Slot {
        kind,
        operator: comparison(operator, of),
        collation: collation(of),
        ..Slot::default()
    };
    let mut slots = Vec::with_capacity(SLOTS);
    if !found.common.is_empty() {
        let (values, numbers) =
            found.common.iter().map(|(value, share)| (value.clone(), real(*share))).unzip();
        slots.push(Slot { numbers, values, ..slot(COMMON, "=") });
    }
    if !found.histogram.is_empty() {
        slots.push(Slot { values: found.histogram.clone(), ..slot(HISTOGRAM, "<") });
    }
    if let Some(correlation) = found.correlation {
        slots.push(Slot { numbers: vec![real(correlation)], ..slot(CORRELATION, "<") });
    }
    slots.resize_with(SLOTS, Slot::default);
    slots
}

/// The operator of this name that compares two values of a type; 0: there is none.
fn comparison(name: &str, of: Oid) -> Oid {
    let of = compared_type(of);
    let known = system().operators_named(name).iter().find(|known| known.left == of && known.right == of);
    known.map_or(0, |known| known.oid)
}

#[expect(clippy::cast_possible_truncation, reason = "the columns are reals")]
fn real(number: f64) -> Datum {
    Datum::Float4(number as f32)
}

fn values_or_null(element: Oid, values: Vec<Datum>) -> Datum {
    if values.is_empty() { Datum::Null } else { array(element, values) }
}

/// The database's counters: what is not counted is 0.
fn pg_stat_database(source: &mut dyn Source, names: &Names, rows: &mut Rows) -> SqlResult<()> {
    let sessions =
        source.activity().iter().filter(|session| session.backend_type == "client backend").count();
    let pages_read = source.engine_totals().pages_read;
    let started = source.asker().server_started;
    let read = |counter: &AtomicU64| count(counter.load(Ordering::Relaxed));
    let zero = Datum::Int8(0);
    let (commits, rollbacks, deadlocks, changes) = match source.monitor() {
        Some(monitor) => {
            let counts = &monitor.counts;
            (
                read(&counts.commits),
                read(&counts.rollbacks),
                read(&counts.deadlocks),
                monitor.relations.sums().map(count),
            )
        }
        None => (zero.clone(), zero.clone(), zero.clone(), [0; 4].map(Datum::Int8)),
    };
    let [rows_read, inserted, updated, deleted] = changes;
    let mut row = vec![
        Datum::Oid(DATABASE),
        name(&names.database),
        Datum::Int4(i32::try_from(sessions).unwrap_or(i32::MAX)),
        commits,
        rollbacks,
        count(pages_read),
        zero.clone(),
        rows_read.clone(),
        rows_read,
        inserted,
        updated,
        deleted,
        zero.clone(),
        zero.clone(),
        zero.clone(),
        deadlocks,
        Datum::Null,
        Datum::Null,
    ];
    row.extend(std::iter::repeat_n(Datum::Float8(0.0), 5));
    row.extend(std::iter::repeat_n(zero, 4));
    row.push(Datum::TimestampTz(started));
    rows.push_back(row);
    Ok(())
}

/// The log since the database was opened.
fn pg_stat_wal(source: &mut dyn Source, _names: &Names, rows: &mut Rows) -> SqlResult<()> {
    let totals = source.engine_totals();
    rows.push_back(vec![
        count(totals.log_records),
        Datum::Int8(0),
        Datum::Numeric(Arc::new(Numeric::from(totals.log_bytes))),
        Datum::Int8(0),
        count(totals.log_flushes),
        count(totals.log_flushes),
        Datum::Float8(0.0),
        Datum::Float8(0.0),
        Datum::TimestampTz(source.asker().server_started),
    ]);
    Ok(())
}

/// Checkpoints since the database was opened: each is counted as one that was due. Nothing else writes pages.
fn pg_stat_bgwriter(source: &mut dyn Source, _names: &Names, rows: &mut Rows) -> SqlResult<()> {
    let totals = source.engine_totals();
    rows.push_back(vec![
        count(totals.checkpoints),
        Datum::Int8(0),
        Datum::Float8(0.0),
        Datum::Float8(0.0),
        count(totals.pages_written),
        Datum::Int8(0),
        Datum::Int8(0),
        Datum::Int8(0),
        Datum::Int8(0),
        count(totals.pages_read),
        Datum::TimestampTz(source.asker().server_started),
    ]);
    Ok(())
}

/// All archives of the log together.
fn pg_stat_archiver(source: &mut dyn Source, _names: &Names, rows: &mut Rows) -> SqlResult<()> {
    let totals = source.engine_totals();
    rows.push_back(vec![
        count(totals.archived),
        Datum::Null,
        moment(totals.last_archived),
        count(totals.archive_failures),
        Datum::Null,
        Datum::Null,
        Datum::TimestampTz(source.asker().server_started),
    ]);
    Ok(())
}
