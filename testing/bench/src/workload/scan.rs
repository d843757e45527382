//! Scans in key order, everything cached: the whole table, and short ranges.

use super::prepared::prepare;
use super::{Cell, Measurement};
use crate::engine::Engine;
use crate::error::BenchError;
use crate::random::Random;
use crate::timed_run;
use crate::usage::Memory;

pub(super) fn full(cell: &Cell) -> Result<Measurement, BenchError> {
    let engine = open_warm(cell)?;
    let totals = timed_run::run(engine.as_ref(), cell.threads, cell.duration(), |_, session, recorder| {
        while recorder.running() {
            let scanned = session.scan(&[], u64::MAX)?;
            if scanned.rows != cell.rows {
                return Err(cell.wrong(format!("a full scan saw {} rows of {}", scanned.rows, cell.rows)));
            }
            recorder.done(scanned.rows);
        }
        Ok(())
    })?;
    let measurement = Measurement::new(cell, totals.rows_per_second(), &totals, engine.configured_bytes());
    engine.close()?;
    Ok(measurement)
}

pub(super) fn short(cell: &Cell, scan_rows: u64) -> Result<Measurement, BenchError> {
    let engine = open_warm(cell)?;
    let keys = cell.keys();
    // A scan that starts near the end would be shorter than it says.
    let last_start = cell.rows.saturating_sub(scan_rows).max(1);
    let expected = scan_rows.min(cell.rows);
    let totals =
        timed_run::run(engine.as_ref(), cell.threads, cell.duration(), |thread, session, recorder| {
            let mut random = Random::new(cell.thread_seed(thread));
            while recorder.running() {
                let scanned = session.scan(&keys.key(random.below(last_start)), scan_rows)?;
                if scanned.rows != expected {
                    return Err(cell.wrong(format!("a scan of {expected} rows saw {}", scanned.rows)));
                }
                recorder.done(scanned.rows);
            }
            Ok(())
        })?;
    let measurement =
        Measurement::new(cell, totals.operations_per_second(), &totals, engine.configured_bytes())
            .with("rows_per_second", totals.rows_per_second());
    engine.close()?;
    Ok(measurement)
}

fn open_warm(cell: &Cell) -> Result<Box<dyn Engine>, BenchError> {
    let engine = cell.engine.open(&prepare(cell)?)?;
    engine.session()?.scan(&[], u64::MAX)?;
    Memory::reset_peak();
    Ok(engine)
}
