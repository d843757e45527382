//! Runs writers for a given time, as fast as they can or at a fixed rate, and notes when each operation completed.
//!
//! One clock reading an operation at full speed: its end is the start of the next. The run ends when the last writer
//! has ended its last operation, so that a stall cannot hide behind the stop.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, OnceLock};
use std::time::{Duration, Instant};

use crate::error::BenchError;
use crate::histogram::Histogram;
use crate::pace::Pace;
use crate::timed_run::sleep_unless_stopped;
use crate::timeline::Timeline;
use crate::usage::{Usage, machine_cpu, now};

/// One writer's count; its body asks `turn` and says `done`.
pub(crate) struct Recorder<'run> {
    stop: &'run AtomicBool,
    start: Instant,
    begin: Instant,
    late: Duration,
    pace: Option<Pace>,
    histogram: Histogram,
    timeline: Timeline,
}

impl Recorder<'_> {
    /// Waits until the next operation is due; false when the run is over.
    pub(crate) fn turn(&mut self) -> bool {
        if let Some(pace) = &mut self.pace {
            let mut since = self.start.elapsed();
            if let Some(ahead) = pace.sleep(since) {
                sleep_unless_stopped(ahead, self.stop);
                since = self.start.elapsed();
            }
            self.late = pace.begin(since);
            self.begin = self.start + since;
        }
        // A flag and nothing else: no data is handed over through it.
        !self.stop.load(Ordering::Relaxed)
    }

    /// The operation that began with the last turn has ended.
    pub(crate) fn done(&mut self) {
        let end = now();
        self.histogram.record(end - self.begin + self.late);
        self.timeline.add(end - self.start);
        self.begin = end;
    }
}

/// What all writers did.
#[derive(Debug)]
pub(crate) struct Recorded {
    pub(crate) elapsed: Duration,
    pub(crate) histogram: Histogram,
    pub(crate) timeline: Timeline,
    pub(crate) usage: Usage,
    /// Of other processes, meanwhile.
    pub(crate) other_cpu: Duration,
}

impl Recorded {
    pub(crate) fn operations(&self) -> u64 {
        self.histogram.count()
    }

    pub(crate) fn operations_per_second(&self) -> f64 {
        self.operations() as f64 / self.elapsed.as_secs_f64()
    }
}

/// How long, and at what rate all threads together; as fast as they can if none is given.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) duration: Duration,
    pub(crate) operations_per_second: Option<f64>,
}

/// Runs `body` on `threads` threads, each with its number, until the time is over or one of them fails.
pub(crate) fn run<F>(threads: usize, span: Span, body: F) -> Result<Recorded, BenchError>
where
    F: Fn(usize, &mut Recorder<'_>) -> Result<(), BenchError> + Sync,
{
    let (stop, start, ready) = (AtomicBool::new(false), OnceLock::new(), Barrier::new(threads + 1));
    let pace = span.operations_per_second.map(|rate| Pace::new(rate / threads as f64));
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|thread| {
                let (stop, start, ready, body) = (&stop, &start, &ready, &body);
                scope.spawn(move || {
                    let timeline = Timeline::new(span.duration);
                    ready.wait();
                    let start = *start.get_or_init(now);
                    let (histogram, late) = (Histogram::new(), Duration::ZERO);
                    let mut recorder =
                        Recorder { stop, start, begin: start, late, pace, histogram, timeline };
                    let result = body(thread, &mut recorder);
                    if result.is_err() {
                        stop.store(true, Ordering::Relaxed);
                    }
                    result.map(|()| (recorder.histogram, recorder.timeline))
                })
            })
            .collect();
        ready.wait();
        let begin = *start.get_or_init(now);
        let (before, machine_before) = (Usage::of_this_process(), machine_cpu());
        sleep_unless_stopped(span.duration, &stop);
        stop.store(true, Ordering::Relaxed);
        let results: Vec<_> =
            workers.into_iter().map(|worker| worker.join().expect("a writer panicked")).collect();
        let (elapsed, usage) = (begin.elapsed(), Usage::of_this_process().since(&before));
        let other_cpu = machine_cpu().saturating_sub(machine_before).saturating_sub(usage.cpu);
        let (mut histogram, mut timeline) = (Histogram::new(), Timeline::new(span.duration));
        for result in results {
            let (latencies, completions) = result?;
            histogram.merge(&latencies);
            timeline.merge(&completions);
        }
        Ok(Recorded { elapsed, histogram, timeline, usage, other_cpu })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(millis: u64, operations_per_second: Option<f64>) -> Span {
        Span { duration: Duration::from_millis(millis), operations_per_second }
    }

    #[test]
    fn a_fixed_rate_is_kept_and_all_operations_are_counted() {
        let recorded = run(3, span(400, Some(3000.0)), |_, recorder| {
            while recorder.turn() {
                recorder.done();
            }
            Ok(())
        })
        .unwrap();
        let whole: u64 = recorded.timeline.intervals(recorded.elapsed).iter().sum();
        assert!(whole <= recorded.operations());
        // The upper bound holds on any machine; the lower one only says that something was done.
        assert!((1..=1600).contains(&recorded.operations()), "{}", recorded.operations());
    }

    #[test]
    fn an_error_ends_the_run_at_once() {
        let error = || BenchError::Process("told to".into());
        let result = run(2, span(600_000, None), |thread, recorder| {
            while recorder.turn() {
                if thread == 1 {
                    return Err(error());
                }
                recorder.done();
            }
            Ok(())
        });
        assert!(result.is_err());
    }
}
