//! An empty table is filled: by a bulk load, until that is durable, or by transactions.

use std::time::Duration;

use super::{Cell, Measurement};
use crate::engine::{Durability, Engine};
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
    measured(cell, engine, &totals)
}

/// The rows are made between the transactions, and that time does not count.
pub(super) fn in_transactions(
    cell: &Cell,
    order: Order,
    transaction_rows: usize,
) -> Result<Measurement, BenchError> {
    let engine = cell.engine.open(&cell.settings(Durability::Buffered))?;
    let mut rows = RowSource::new(cell.keys(), cell.value_bytes, order, cell.thread_seed(0));
    let mut histogram = Histogram::new();
    let (mut elapsed, mut transactions) = (Duration::ZERO, 0);
    Memory::reset_peak();
    let before = Usage::of_this_process();
    {
        let mut session = engine.session()?;
        loop {
            let batch = rows.next_batch(transaction_rows);
            if batch.is_empty() {
                break;
            }
            let begin = now();
            session.put_batch(&batch)?;
            let took = begin.elapsed();
            histogram.record(took);
            (elapsed, transactions) = (elapsed + took, transactions + 1);
        }
    }
    let usage = Usage::of_this_process().since(&before);
    let totals = Totals { elapsed, operations: transactions, rows: cell.rows, histogram, usage };
    measured(cell, engine, &totals)
}

/// What was measured, if all rows are there.
fn measured(cell: &Cell, engine: Box<dyn Engine>, totals: &Totals) -> Result<Measurement, BenchError> {
    let measurement = Measurement::new(cell, totals.rows_per_second(), totals, engine.configured_bytes());
    let found = engine.session()?.scan(&[], u64::MAX)?.rows;
    if found != cell.rows {
        return Err(cell.wrong(format!("{found} rows of {} are there after the load", cell.rows)));
    }
    engine.close()?;
    Ok(measurement)
}
