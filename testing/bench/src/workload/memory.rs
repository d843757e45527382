//! Resident memory through every kind of work in turn, against what the options allow.
//!
//! A sampler reads it all the time: the kernel's peak is one number, and this wants one for each phase.

use std::time::Duration;

use super::{Cell, Measurement};
use crate::engine::{Durability, Engine, Session};
use crate::error::BenchError;
use crate::histogram::Histogram;
use crate::random::{Random, Zipf};
use crate::rows::{KeySpace, Order, PutStream, RowSource, empty_batch};
use crate::timed_run::{self, Recorder, Totals};
use crate::usage::{Memory, Usage, now, sampled};

const ROUNDS: u32 = 4;
const BATCH_ROWS: usize = 100;

/// The kinds of work, in turn.
#[derive(Clone, Copy, Debug)]
enum Phase {
    Put,
    Batch,
    Read,
    Scan,
    Mix,
}

const PHASES: [(Phase, &str); 5] = [
    (Phase::Put, "put"),
    (Phase::Batch, "batch"),
    (Phase::Read, "read"),
    (Phase::Scan, "scan"),
    (Phase::Mix, "mix"),
];

pub(super) fn memory(cell: &Cell) -> Result<Measurement, BenchError> {
    let before_open = Memory::of_this_process().anonymous;
    let engine = cell.engine.open(&cell.settings(Durability::Buffered))?;
    Memory::reset_peak();
    let (begin, before) = (now(), Usage::of_this_process());
    let (loaded, load_peak) = sampled(|| {
        engine.bulk_load(&mut RowSource::new(cell.keys(), cell.value_bytes, Order::Sorted, cell.seed))
    });
    loaded?;
    let mut peaks = vec![("load", load_peak)];
    let mut operations = cell.rows;
    let phases = u32::try_from(PHASES.len()).expect("a handful");
    let share = cell.duration() / (ROUNDS * phases);
    let zipf = Zipf::new(cell.rows, cell.seed);
    for round in 0..ROUNDS {
        for (phase, name) in PHASES {
            let (totals, peak) = sampled(|| work(cell, engine.as_ref(), phase, share, round, &zipf));
            operations += totals?.operations;
            peaks.push((name, peak));
        }
    }
    let totals = Totals {
        elapsed: begin.elapsed(),
        operations,
        rows: operations,
        histogram: Histogram::new(),
        usage: Usage::of_this_process().since(&before),
    };
    let measurement = report(cell, engine.as_ref(), &totals, &peaks, before_open);
    engine.close()?;
    Ok(measurement)
}

fn report(
    cell: &Cell,
    engine: &dyn Engine,
    totals: &Totals,
    peaks: &[(&str, u64)],
    before_open: u64,
) -> Measurement {
    let mebibytes = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let configured = engine.configured_bytes();
    let anonymous = peaks.iter().map(|(_, peak)| *peak).max().unwrap_or(0);
    let resident = Memory::of_this_process().resident_peak;
    let mut measurement = Measurement::new(cell, mebibytes(resident), totals, configured)
        .with("configured_mib", mebibytes(configured))
        .with("anonymous_peak_mib", mebibytes(anonymous))
        .with("before_open_mib", mebibytes(before_open))
        .with("resident_share_of_configured", resident as f64 / configured as f64);
    for (name, peak) in peaks {
        let name = format!("{name}_anonymous_peak_mib");
        let so_far = measurement.extra.get(&name).copied().unwrap_or(0.0);
        measurement = measurement.with(&name, so_far.max(mebibytes(*peak)));
    }
    measurement
}

fn work(
    cell: &Cell,
    engine: &dyn Engine,
    phase: Phase,
    duration: Duration,
    round: u32,
    zipf: &Zipf,
) -> Result<Totals, BenchError> {
    let keys = cell.keys();
    timed_run::run(engine, cell.threads, duration, |thread, session, recorder| {
        let seed = cell.thread_seed(thread) ^ (u64::from(round) << 32);
        match phase {
            Phase::Put => put(session, recorder, PutStream::new(keys, cell.value_bytes, seed)),
            Phase::Batch => batches(session, recorder, PutStream::new(keys, cell.value_bytes, seed)),
            Phase::Read => read(session, recorder, keys, Random::new(seed)),
            Phase::Scan => scan(session, recorder),
            Phase::Mix => mix(session, recorder, keys, zipf, Random::new(seed), cell.value_bytes),
        }
    })
}

fn put(
    session: &mut dyn Session,
    recorder: &mut Recorder<'_>,
    mut stream: PutStream,
) -> Result<(), BenchError> {
    while recorder.running() {
        let (key, value) = stream.next();
        session.put(&key, value)?;
        recorder.done(1);
    }
    Ok(())
}

fn batches(
    session: &mut dyn Session,
    recorder: &mut Recorder<'_>,
    mut stream: PutStream,
) -> Result<(), BenchError> {
    let mut batch = empty_batch(BATCH_ROWS);
    while recorder.running() {
        stream.fill(&mut batch);
        session.put_batch(&batch)?;
        recorder.done(BATCH_ROWS as u64);
    }
    Ok(())
}

fn read(
    session: &mut dyn Session,
    recorder: &mut Recorder<'_>,
    keys: KeySpace,
    mut random: Random,
) -> Result<(), BenchError> {
    while recorder.running() {
        session.get(&keys.random_key(&mut random))?;
        recorder.done(1);
    }
    Ok(())
}

fn scan(session: &mut dyn Session, recorder: &mut Recorder<'_>) -> Result<(), BenchError> {
    while recorder.running() {
        let scanned = session.scan(&[], u64::MAX)?;
        recorder.done(scanned.rows);
    }
    Ok(())
}

fn mix(
    session: &mut dyn Session,
    recorder: &mut Recorder<'_>,
    keys: KeySpace,
    zipf: &Zipf,
    mut random: Random,
    value_bytes: usize,
) -> Result<(), BenchError> {
    let mut value = vec![0; value_bytes];
    while recorder.running() {
        let key = keys.key(zipf.pick(&mut random));
        if random.below(2) == 0 {
            session.get(&key)?;
        } else {
            random.fill_value(&mut value);
            session.put(&key, &value)?;
        }
        recorder.done(1);
    }
    Ok(())
}
