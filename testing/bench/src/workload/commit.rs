//! Commits: of one row, of many, and many at a time. The table is empty at the start.

use std::collections::VecDeque;

use super::{Cell, Measurement};
use crate::engine::{Durability, Session};
use crate::error::BenchError;
use crate::rows::{Key, PutStream, empty_batch};
use crate::timed_run;
use crate::usage::{Memory, now};

pub(super) fn put(cell: &Cell, durability: Durability) -> Result<Measurement, BenchError> {
    let engine = cell.engine.open(&cell.settings(durability))?;
    Memory::reset_peak();
    let totals =
        timed_run::run(engine.as_ref(), cell.threads, cell.duration(), |thread, session, recorder| {
            let mut stream = PutStream::new(cell.keys(), cell.value_bytes, cell.thread_seed(thread));
            let mut last = None;
            while recorder.running() {
                let (key, value) = stream.next();
                session.put(&key, value)?;
                recorder.done(1);
                last = Some(key);
            }
            expect_row(cell, session, last)
        })?;
    let measurement =
        Measurement::new(cell, totals.operations_per_second(), &totals, engine.configured_bytes());
    engine.close()?;
    Ok(measurement)
}

pub(super) fn put_batches(cell: &Cell, batch_rows: usize) -> Result<Measurement, BenchError> {
    let engine = cell.engine.open(&cell.settings(Durability::Synced))?;
    Memory::reset_peak();
    let totals =
        timed_run::run(engine.as_ref(), cell.threads, cell.duration(), |thread, session, recorder| {
            let mut stream = PutStream::new(cell.keys(), cell.value_bytes, cell.thread_seed(thread));
            let mut batch = empty_batch(batch_rows);
            while recorder.running() {
                stream.fill(&mut batch);
                session.put_batch(&batch)?;
                recorder.done(batch_rows as u64);
            }
            expect_row(cell, session, batch.last().map(|row| row.key).filter(|key| *key != Key::default()))
        })?;
    let measurement =
        Measurement::new(cell, totals.operations_per_second(), &totals, engine.configured_bytes())
            .with("rows_per_second", totals.rows_per_second());
    engine.close()?;
    Ok(measurement)
}

pub(super) fn put_in_flight(cell: &Cell, in_flight: usize) -> Result<Measurement, BenchError> {
    let engine = cell.engine.open(&cell.settings(Durability::Synced))?;
    Memory::reset_peak();
    let totals =
        timed_run::run(engine.as_ref(), cell.threads, cell.duration(), |thread, session, recorder| {
            let mut stream = PutStream::new(cell.keys(), cell.value_bytes, cell.thread_seed(thread));
            let mut begins = VecDeque::with_capacity(in_flight);
            let mut last = None;
            while recorder.running() {
                let (key, value) = stream.next();
                begins.push_back(now());
                session.put_in_flight(&key, value)?;
                last = Some(key);
                if begins.len() >= in_flight {
                    session.wait_for_oldest()?;
                    let begin = begins.pop_front().expect("one was just pushed");
                    recorder.record(begin.elapsed(), 1);
                }
            }
            // Only what became durable counts, and all of it does: the run's time goes on until here.
            while let Some(begin) = begins.pop_front() {
                session.wait_for_oldest()?;
                recorder.record(begin.elapsed(), 1);
            }
            expect_row(cell, session, last)
        })?;
    let measurement =
        Measurement::new(cell, totals.operations_per_second(), &totals, engine.configured_bytes());
    engine.close()?;
    Ok(measurement)
}

/// A session sees its own commits: a figure for writes that vanish would mean nothing.
fn expect_row(cell: &Cell, session: &mut dyn Session, key: Option<Key>) -> Result<(), BenchError> {
    match key {
        Some(key) if session.get(&key)?.is_none() => Err(cell.wrong("a row that was committed is not there")),
        Some(_) | None => Ok(()),
    }
}
