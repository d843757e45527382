//! A bulk load into an empty table, until it is durable.

use super::{Cell, Measurement};
use crate::engine::Durability;
use crate::error::BenchError;
use crate::histogram::Histogram;
use crate::rows::{Order, RowSource};
use crate::timed_run::Totals;
use crate::usage::{Memory, Usage, now};

pub(super) fn load(cell: &Cell, order: Order) -> Result<Measurement, BenchError> {
    let engine = cell.engine.open(&cell.settings(Durability::Buffered))?;
    let mut rows = RowSource::new(cell.keys(), cell.value_bytes, order, cell.thread_seed(0));
    Memory::reset_peak();
    let (begin, before) = (now(), Usage::of_this_process());
    engine.bulk_load(&mut rows)?;
    let totals = Totals {
        elapsed: begin.elapsed(),
        operations: cell.rows,
        rows: cell.rows,
        histogram: Histogram::new(),
        usage: Usage::of_this_process().since(&before),
    };
    let measurement = Measurement::new(cell, totals.rows_per_second(), &totals, engine.configured_bytes());
    let found = engine.session()?.scan(&[], u64::MAX)?.rows;
    if found != cell.rows {
        return Err(cell.wrong(format!("{found} rows of {} are there after the load", cell.rows)));
    }
    engine.close()?;
    Ok(measurement)
}
