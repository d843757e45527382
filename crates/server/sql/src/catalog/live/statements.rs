//! `pg_stat_statements`: calls and times of statements. What is not counted is 0.

use std::sync::Arc;

use seawall_values::numeric::Numeric;
use seawall_values::{Datum, SqlResult};

use super::super::names::Names;
use super::super::numbers::{DATABASE, READ_ALL_STATISTICS};
use super::super::source::Source;
use super::{Live, Rows, Table, count, moment};
use crate::monitor::statements::{StatementTotals, Times};

pub(super) const TABLE: Table = &[
    ("pg_stat_statements", Live::Once(pg_stat_statements)),
    ("pg_stat_statements_info", Live::Once(pg_stat_statements_info)),
];

/// Blocks read and written, by kind: there is no such count.
const BLOCK_COUNTS: usize = 10;
/// Times of the same.
const BLOCK_TIMES: usize = 4;

fn pg_stat_statements(source: &mut dyn Source, names: &Names, rows: &mut Rows) -> SqlResult<()> {
    let Some(monitor) = source.monitor() else { return Ok(()) };
    rows.extend(monitor.statements.all().iter().map(|totals| row(totals, names)));
    Ok(())
}

fn row(totals: &StatementTotals, names: &Names) -> Vec<Datum> {
    let is_shown = names.has_role(totals.user) || names.has_role(READ_ALL_STATISTICS);
    let (id, text) = match is_shown {
        true => (Datum::Int8(totals.id), Datum::text(&*totals.text)),
        false => (Datum::Null, Datum::text("<insufficient privilege>")),
    };
    let mut row = vec![Datum::Oid(totals.user), Datum::Oid(DATABASE), Datum::Bool(true), id, text];
    row.extend(times(&totals.plan));
    row.extend(times(&totals.execute));
    row.push(count(totals.rows));
    row.extend(std::iter::repeat_n(Datum::Int8(0), BLOCK_COUNTS));
    row.extend(std::iter::repeat_n(Datum::Float8(0.0), BLOCK_TIMES));
    row.extend([Datum::Int8(0), Datum::Int8(0)]);
    row.push(Datum::Numeric(Arc::new(Numeric::from(totals.log_bytes))));
    // Nothing is compiled to machine code: the number of functions and their time, then three more counts, each with its time.
    for _ in 0..4 {
        row.extend([Datum::Int8(0), Datum::Float8(0.0)]);
    }
    row
}

fn times(times: &Times) -> [Datum; 6] {
    [
        count(times.count),
        Datum::Float8(times.total),
        Datum::Float8(times.min),
        Datum::Float8(times.max),
        Datum::Float8(times.mean),
        Datum::Float8(times.deviation()),
    ]
}

fn pg_stat_statements_info(source: &mut dyn Source, _names: &Names, rows: &mut Rows) -> SqlResult<()> {
    let started = source.asker().server_started;
    let Some(monitor) = source.monitor() else { return Ok(()) };
    let (forgotten, cleared) = monitor.statements.info();
    rows.push_back(vec![count(forgotten), moment(Some(cleared.unwrap_or(started)))]);
    Ok(())
}
