//! Random changes of a database that is many times as large as the cache: how fast they go, and what they cost the device.

use super::{Cell, Change, Measurement, per};
use crate::engine::{Durability, Engine, Session};
use crate::error::BenchError;
use crate::random::Random;
use crate::rows::{Key, KeySpace, Order, Row, RowSource, empty_batch};
use crate::timed_run::{self, Totals};
use crate::usage::{Memory, device_written};

/// The part of the time of the measurement that writers go on before it, so that checkpoints and compactions have begun.
const WARM_UP_SHARE: u32 = 3;

pub(super) fn beyond(cell: &Cell, change: Change, batch_rows: usize) -> Result<Measurement, BenchError> {
    let engine = cell.engine.open(&cell.settings(Durability::Buffered))?;
    engine.bulk_load(&mut RowSource::new(cell.keys(), cell.value_bytes, Order::Sorted, cell.seed))?;
    write(cell, engine.as_ref(), change, batch_rows, 1)?;
    Memory::reset_peak();
    let before = device_written(&cell.directory);
    let totals = write(cell, engine.as_ref(), change, batch_rows, 0)?;
    let device_bytes = before.zip(device_written(&cell.directory)).map(|(before, after)| after - before);
    let mut measurement =
        Measurement::new(cell, totals.rows_per_second(), &totals, engine.configured_bytes());
    if let Some(bytes) = device_bytes {
        let user_bytes = totals.rows * (size_of::<Key>() + cell.value_bytes) as u64;
        measurement = measurement.with("device_bytes_per_user_byte", per(bytes as f64, user_bytes));
    }
    engine.close()?;
    Ok(measurement)
}

fn write(
    cell: &Cell,
    engine: &dyn Engine,
    change: Change,
    batch_rows: usize,
    phase: u32,
) -> Result<Totals, BenchError> {
    let duration = if phase == 0 { cell.duration() } else { cell.duration() / WARM_UP_SHARE };
    timed_run::run(engine, cell.threads, duration, |thread, session, recorder| {
        let mut random = Random::new(cell.thread_seed(thread) ^ (u64::from(phase) << 32));
        let mut batch = empty_batch(batch_rows);
        while recorder.running() {
            fill(&mut batch, change, cell.keys(), cell.value_bytes, &mut random);
            session.put_batch(&batch)?;
            recorder.done(batch_rows as u64);
        }
        expect_last(cell, session, &batch)
    })
}

fn fill(batch: &mut [Row], change: Change, keys: KeySpace, value_bytes: usize, random: &mut Random) {
    for row in batch {
        row.key = match change {
            // Of 2^64 keys none comes twice, as good as.
            Change::Insert => random.next().to_be_bytes(),
            Change::Update => keys.random_key(random),
        };
        row.value.resize(value_bytes, 0);
        random.fill_value(&mut row.value);
    }
}

fn expect_last(cell: &Cell, session: &mut dyn Session, batch: &[Row]) -> Result<(), BenchError> {
    match batch.last() {
        Some(row) if !row.value.is_empty() && session.get(&row.key)?.is_none() => {
            Err(cell.wrong("a row that was committed is not there"))
        }
        Some(_) | None => Ok(()),
    }
}
