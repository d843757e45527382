//! Point reads of random rows: each exists, or none does. Each read is a transaction of its own, or several are one.

use std::time::Duration;

use super::prepared::{drop_page_cache, prepare};
use super::{Cell, Measurement, per};
use crate::engine::Engine;
use crate::error::BenchError;
use crate::random::Random;
use crate::timed_run::{self, Totals};
use crate::usage::Memory;

/// Shortest time that caches are given to settle after the scan that fills them.
const WARM_UP_MIN: Duration = Duration::from_millis(20);

pub(super) fn cached(cell: &Cell) -> Result<Measurement, BenchError> {
    let engine = cell.engine.open(&prepare(cell)?)?;
    engine.session()?.scan(&[], u64::MAX)?;
    read_for(cell, engine.as_ref(), (cell.duration() / 4).max(WARM_UP_MIN), 1 << 32, false, 1)?;
    Memory::reset_peak();
    let totals = read_for(cell, engine.as_ref(), cell.duration(), 0, false, 1)?;
    let measurement =
        Measurement::new(cell, totals.operations_per_second(), &totals, engine.configured_bytes());
    engine.close()?;
    Ok(measurement)
}

pub(super) fn cold(cell: &Cell, absent: bool, together: u16) -> Result<Measurement, BenchError> {
    let settings = prepare(cell)?;
    drop_page_cache(&settings.directory)?;
    let engine = cell.engine.open(&settings)?;
    Memory::reset_peak();
    let pages_before = engine.page_reads();
    let totals = read_for(cell, engine.as_ref(), cell.duration(), 0, absent, together)?;
    let pages = engine.page_reads().zip(pages_before).map(|(after, before)| after - before);
    let gets = totals.rows;
    let mut measurement =
        Measurement::new(cell, totals.rows_per_second(), &totals, engine.configured_bytes())
            .with("device_bytes_per_get", per(totals.usage.device_read_bytes as f64, gets))
            .with("read_calls_per_get", per(totals.usage.read_calls as f64, gets));
    if let Some(pages) = pages {
        measurement = measurement.with("page_reads_per_get", per(pages as f64, gets));
    }
    engine.close()?;
    Ok(measurement)
}

fn read_for(
    cell: &Cell,
    engine: &dyn Engine,
    duration: Duration,
    salt: u64,
    absent: bool,
    together: u16,
) -> Result<Totals, BenchError> {
    let keys = cell.keys();
    timed_run::run(engine, cell.threads, duration, |thread, session, recorder| {
        let mut random = Random::new(cell.thread_seed(thread) ^ salt);
        // Of 2^64 keys none is one of the rows, as good as.
        let mut next = || if absent { random.next().to_be_bytes() } else { keys.random_key(&mut random) };
        let wrong = |key: &[u8]| {
            let problem = if absent { "there" } else { "not there" };
            cell.wrong(format!("row {key:02x?} is {problem}"))
        };
        let mut batch = vec![[0; 8]; usize::from(together)];
        while recorder.running() {
            if together == 1 {
                let key = next();
                if session.get(&key)?.is_none() != absent {
                    return Err(wrong(&key));
                }
            } else {
                batch.fill_with(&mut next);
                let found = session.get_many(&batch)?;
                let other = batch.iter().zip(&found).find(|(_, found)| found.is_none() != absent);
                if let Some((key, _)) = other {
                    return Err(wrong(key));
                }
            }
            recorder.done(together.into());
        }
        Ok(())
    })
}
