//! The seconds after a new timeline has begun, as after a failover: all old segments may go at once, no checkpoint has ended, and the
//! writers come back.
//!
//! ```text
//!   writers ... | close | old segments | new timeline | writers ...      commits in each 100 ms, before and after
//! ```

use std::time::Duration;

use seawall::{Background, Database, DatabaseDirectory, Options};
use serde::Serialize;

use super::cell::{Cell, ENGINE, close, made, table};
use crate::error::{BenchError, engine_error};
use crate::random::Random;
use crate::recorder::{Recorded, Span, run};
use crate::timeline::evenness;
use crate::usage::{device_written, now};

/// Rows that are put again and again.
const ROWS: u64 = 1_000_000;

/// What was measured.
#[derive(Clone, Debug, Serialize)]
pub(super) struct AfterSwitch {
    segments: u64,
    segment_bytes: u64,
    threads: usize,
    switch_ms: f64,
    commits_per_second_before: f64,
    commits_per_second_after: f64,
    p99_9_us_before: f64,
    p99_9_us_after: f64,
    longest_us_before: f64,
    longest_us_after: f64,
    /// Commits in 100 ms: the median before, and the least after.
    interval_median_before: u64,
    interval_least_before: u64,
    interval_least_after: u64,
    intervals_after: u64,
    /// Intervals with less than four fifths of the median before.
    intervals_below_80_percent: u64,
    intervals_below_80_percent_before: u64,
    made_of_zeros: u64,
    recycled: u64,
    removed: u64,
    log_segments_filled: u64,
    checkpoints: u64,
    device_mib: f64,
}

impl AfterSwitch {
    /// Names and values, as text.
    pub(super) fn rows(&self) -> Vec<(&'static str, String)> {
        let whole = |value: f64| format!("{value:.0}");
        vec![
            ("beginning the timeline, ms", format!("{:.1}", self.switch_ms)),
            ("commits/s before", whole(self.commits_per_second_before)),
            ("commits/s after", whole(self.commits_per_second_after)),
            ("p99.9 us before", whole(self.p99_9_us_before)),
            ("p99.9 us after", whole(self.p99_9_us_after)),
            (
                "longest us before / after",
                format!("{:.0} / {:.0}", self.longest_us_before, self.longest_us_after),
            ),
            (
                "100 ms: median and least before",
                format!("{} / {}", self.interval_median_before, self.interval_least_before),
            ),
            ("100 ms: least after", self.interval_least_after.to_string()),
            (
                "100 ms below 80% of the median before: before / after",
                format!("{} / {}", self.intervals_below_80_percent_before, self.intervals_below_80_percent),
            ),
            ("segments filled", self.log_segments_filled.to_string()),
            (
                "segments made of zeros / recycled / removed",
                format!("{} / {} / {}", self.made_of_zeros, self.recycled, self.removed),
            ),
            ("checkpoints", self.checkpoints.to_string()),
            ("written to the device, MiB", whole(self.device_mib)),
        ]
    }

    pub(super) fn name(&self) -> String {
        format!("{} of {} MiB, {} sessions", self.segments, self.segment_bytes >> 20, self.threads)
    }
}

/// Measures in the cell's directory, and leaves the database there.
pub(super) fn measure(cell: &Cell, threads: usize, seconds: f64) -> Result<AfterSwitch, BenchError> {
    let database = cell.create()?;
    let duration = Duration::from_secs_f64(seconds);
    let before = write(&database, threads, duration)?;
    close(database)?;
    cell.add_old_segments()?;
    rustix::fs::sync();
    let device_before = device_written(&cell.directory);
    let options = Options { background: Background::Threads, ..Options::default() };
    let begun = now();
    let database = DatabaseDirectory::at(&cell.directory)
        .open_on_new_timeline(options, "a benchmark")
        .map_err(engine_error(ENGINE, "begin a timeline"))?;
    let switch_ms = begun.elapsed().as_secs_f64() * 1e3;
    let log_before = database.statistics().log.appended;
    let after = write(&database, threads, duration)?;
    let statistics = database.statistics();
    let device_after = device_written(&cell.directory);
    close(database)?;
    let intervals = after.timeline.intervals(after.elapsed);
    let intervals_before = before.timeline.intervals(before.elapsed);
    let even = evenness(&intervals_before);
    let is_low = |count: &&u64| **count * 5 < even.median * 4;
    Ok(AfterSwitch {
        segments: cell.segments,
        segment_bytes: cell.segment_bytes,
        threads,
        switch_ms,
        commits_per_second_before: before.operations_per_second(),
        commits_per_second_after: after.operations_per_second(),
        p99_9_us_before: before.histogram.quantile_micros(0.999),
        p99_9_us_after: after.histogram.quantile_micros(0.999),
        longest_us_before: before.histogram.max_micros(),
        longest_us_after: after.histogram.max_micros(),
        interval_median_before: even.median,
        interval_least_before: even.least,
        interval_least_after: intervals.iter().min().copied().unwrap_or(0),
        intervals_after: count(intervals.len()),
        intervals_below_80_percent: count(intervals.iter().filter(is_low).count()),
        intervals_below_80_percent_before: count(intervals_before.iter().filter(is_low).count()),
        made_of_zeros: made(&statistics),
        recycled: statistics.segments.recycled,
        removed: statistics.segments.removed,
        log_segments_filled: statistics.log.appended.bytes_since(log_before) / cell.segment_bytes,
        checkpoints: statistics.checkpoints.completed,
        device_mib: device_after.zip(device_before).map_or(0.0, |(after, before)| mebibytes(after - before)),
    })
}

fn write(database: &Database, threads: usize, duration: Duration) -> Result<Recorded, BenchError> {
    let table = table(database)?;
    run(threads, Span { duration, operations_per_second: None }, |thread, recorder| {
        let mut random = Random::new(0x5EA * (1 + count(thread)));
        let mut value = [0; 100];
        while recorder.turn() {
            random.fill_value(&mut value);
            let row = random.below(ROWS);
            database.put(&table, row.to_be_bytes(), value).map_err(engine_error(ENGINE, "put"))?;
            recorder.done();
        }
        Ok(())
    })
}

fn count(things: usize) -> u64 {
    u64::try_from(things).expect("a count of things in memory")
}

fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / 1_048_576.0
}
