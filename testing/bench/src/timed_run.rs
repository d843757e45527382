//! Runs one body on several threads for a given time and counts.
//!
//! ```text
//!   main     ---sessions ready--- start ---- seconds pass ---- stop ---- join ---- totals
//!   worker 1                       |-- operation --|-- operation --|..|
//!   worker 2                       |-- operation --|-- operation --|..|
//! ```
//! One clock reading an operation: its end is the start of the next. The run ends when the last worker has ended its
//! last operation, so that a stall cannot hide behind the stop.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::engine::{Engine, Session};
use crate::error::BenchError;
use crate::histogram::Histogram;
use crate::usage::{Usage, now};

/// One worker's count; its body asks `running` and says `done`.
pub(crate) struct Recorder<'run> {
    stop: &'run AtomicBool,
    last: Instant,
    histogram: Histogram,
    operations: u64,
    rows: u64,
}

impl Recorder<'_> {
    pub(crate) fn running(&self) -> bool {
        // A flag and nothing else: no data is handed over through it.
        !self.stop.load(Ordering::Relaxed)
    }

    /// An operation that began at the last call has ended, and `rows` rows went through it.
    pub(crate) fn done(&mut self, rows: u64) {
        let end = now();
        self.record(end - self.last, rows);
        self.last = end;
    }

    /// An operation among several at a time.
    pub(crate) fn record(&mut self, latency: Duration, rows: u64) {
        self.histogram.record(latency);
        self.operations += 1;
        self.rows += rows;
    }
}

/// What all workers did.
#[derive(Debug)]
pub(crate) struct Totals {
    pub(crate) elapsed: Duration,
    pub(crate) operations: u64,
    pub(crate) rows: u64,
    pub(crate) histogram: Histogram,
    pub(crate) usage: Usage,
}

impl Totals {
    pub(crate) fn operations_per_second(&self) -> f64 {
        self.operations as f64 / self.elapsed.as_secs_f64()
    }

    pub(crate) fn rows_per_second(&self) -> f64 {
        self.rows as f64 / self.elapsed.as_secs_f64()
    }
}

/// Runs `body` on `threads` threads, each with its number and a session, until `duration` is over.
pub(crate) fn run<B>(
    engine: &dyn Engine,
    threads: usize,
    duration: Duration,
    body: B,
) -> Result<Totals, BenchError>
where
    B: Fn(usize, &mut dyn Session, &mut Recorder<'_>) -> Result<(), BenchError> + Sync,
{
    assert!(threads > 0, "a run needs a thread");
    let stop = AtomicBool::new(false);
    let start = Barrier::new(threads + 1);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|thread| {
                let (stop, start, body) = (&stop, &start, &body);
                scope.spawn(move || {
                    let session = engine.session();
                    // Nobody may be missing at the barrier, not even who failed.
                    start.wait();
                    let mut recorder =
                        Recorder { stop, last: now(), histogram: Histogram::new(), operations: 0, rows: 0 };
                    let result =
                        session.and_then(|mut session| body(thread, session.as_mut(), &mut recorder));
                    if result.is_err() {
                        stop.store(true, Ordering::Relaxed);
                    }
                    result.map(|()| (recorder.histogram, recorder.operations, recorder.rows))
                })
            })
            .collect();
        start.wait();
        let (begin, before) = (now(), Usage::of_this_process());
        sleep_unless_stopped(duration, &stop);
        stop.store(true, Ordering::Relaxed);
        let results: Vec<_> =
            workers.into_iter().map(|worker| worker.join().expect("a worker panicked")).collect();
        let (elapsed, usage) = (begin.elapsed(), Usage::of_this_process().since(&before));
        let mut totals = Totals { elapsed, operations: 0, rows: 0, histogram: Histogram::new(), usage };
        for result in results {
            let (histogram, operations, rows) = result?;
            totals.histogram.merge(&histogram);
            totals.operations += operations;
            totals.rows += rows;
        }
        Ok(totals)
    })
}

/// In steps, so that a worker that failed ends the run at once.
pub(crate) fn sleep_unless_stopped(duration: Duration, stop: &AtomicBool) {
    let begin = now();
    while !stop.load(Ordering::Relaxed) {
        let left = duration.saturating_sub(begin.elapsed());
        if left.is_zero() {
            break;
        }
        std::thread::sleep(left.min(Duration::from_millis(50)));
    }
}
