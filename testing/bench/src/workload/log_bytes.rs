//! What a commit costs in bytes: on the device for every engine, in the log for one that says where its log ends.

use super::{Cell, Measurement, per};
use crate::engine::{Durability, Engine};
use crate::error::BenchError;
use crate::rows::{PutStream, empty_batch};
use crate::timed_run;
use crate::usage::Memory;

const BATCHES: u64 = 100;
const BATCH_ROWS: usize = 100;
const ABORTS: u64 = 1000;

pub(super) fn log_bytes(cell: &Cell) -> Result<Measurement, BenchError> {
    let engine = cell.engine.open(&cell.settings(Durability::Synced))?;
    // Made before the count begins: an engine may make its table with the first session.
    drop(engine.session()?);
    Memory::reset_peak();
    let begin = engine.log_position();
    let totals =
        timed_run::run(engine.as_ref(), cell.threads, cell.duration(), |thread, session, recorder| {
            let mut stream = PutStream::new(cell.keys(), cell.value_bytes, cell.thread_seed(thread));
            while recorder.running() {
                let (key, value) = stream.next();
                session.put(&key, value)?;
                recorder.done(1);
            }
            Ok(())
        })?;
    let end = engine.log_position();
    let device_bytes = per(totals.usage.device_written_bytes as f64, totals.operations);
    let mut measurement = Measurement::new(cell, device_bytes, &totals, engine.configured_bytes());
    if let Some((begin, end)) = begin.zip(end) {
        let row_bytes = (8 + cell.value_bytes) as f64;
        let put_bytes = per((end - begin) as f64, totals.operations);
        measurement = measurement
            .with("log_bytes_per_commit", put_bytes)
            .with("log_overhead_per_commit", put_bytes - row_bytes);
        measurement = batches_and_aborts(cell, engine.as_ref(), row_bytes, measurement)?;
    }
    engine.close()?;
    Ok(measurement)
}

fn batches_and_aborts(
    cell: &Cell,
    engine: &dyn Engine,
    row_bytes: f64,
    measurement: Measurement,
) -> Result<Measurement, BenchError> {
    let position = || engine.log_position().ok_or_else(|| cell.wrong("the log has no end any more"));
    let mut session = engine.session()?;
    let mut stream = PutStream::new(cell.keys(), cell.value_bytes, cell.thread_seed(cell.threads));
    let begin = position()?;
    for _ in 0..ABORTS {
        let (key, value) = stream.next();
        session.abort(&key, value)?;
    }
    let aborted = position()?;
    let mut batch = empty_batch(BATCH_ROWS);
    for _ in 0..BATCHES {
        stream.fill(&mut batch);
        session.put_batch(&batch)?;
    }
    let batches = per((position()? - aborted) as f64, BATCHES);
    Ok(measurement
        .with("log_bytes_per_abort", per((aborted - begin) as f64, ABORTS))
        .with("log_overhead_per_row_in_batches_of_100", batches / BATCH_ROWS as f64 - row_bytes))
}
