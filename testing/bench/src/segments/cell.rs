//! One number of old segments of one size.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FallocateFlags, fallocate};
use seawall::{Background, Database, DatabaseDirectory, OpenMode, Options, Statistics, Table};
use serde::Serialize;

use crate::error::{BenchError, engine_error, file_error};
use crate::histogram::Histogram;
use crate::usage::now;

pub(super) const ENGINE: &str = "seawall";
const TABLE: &str = "t";
/// Commits from one look at what is left to the next.
const COMMITS_PER_LOOK: u64 = 32;

/// What is to be measured.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    pub(super) directory: PathBuf,
    pub(super) segments: u64,
    pub(super) segment_bytes: u64,
    pub(super) seconds: f64,
    pub(super) opens: u64,
    pub(super) content: Content,
}

/// What the old segments are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Content {
    /// Zeros that were written, through the operating system's cache.
    Written,
    /// Space that was allocated and not written.
    Allocated,
    /// Nothing: they take no space.
    Holes,
}

/// What was measured.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Figures {
    segments: u64,
    segment_bytes: u64,
    /// What the old segments are made of.
    content: Content,
    /// From opening until the last is gone, beside commits.
    beside_seconds: f64,
    beside_removed: u64,
    beside_recycled: u64,
    beside_batches: u64,
    /// All syncs of the directory meanwhile, and segments that were made ready for the log, each of which takes one.
    beside_directory_syncs: u64,
    beside_segments_made: u64,
    /// Without rest, in one checkpoint.
    at_once_seconds: f64,
    at_once_removed: u64,
    at_once_batches: u64,
    at_once_directory_syncs: u64,
    at_once_segments_made: u64,
    quiet_commits_per_second: f64,
    beside_commits_per_second: f64,
    quiet_commit_p50_us: f64,
    beside_commit_p50_us: f64,
    quiet_commit_p99_us: f64,
    beside_commit_p99_us: f64,
    quiet_commit_max_us: f64,
    beside_commit_max_us: f64,
    quiet_open_median_us: f64,
    beside_open_median_us: f64,
    quiet_open_max_us: f64,
    beside_open_max_us: f64,
    /// With all old segments there.
    first_open_us: f64,
    quiet_close_max_us: f64,
    beside_close_max_us: f64,
}

impl Figures {
    pub(super) fn name(&self) -> String {
        let content = match self.content {
            Content::Written => "written",
            Content::Allocated => "allocated",
            Content::Holes => "holes",
        };
        format!("{} of {} MiB, {content}", self.segments, self.segment_bytes >> 20)
    }

    /// Names and values, as text.
    pub(super) fn rows(&self) -> Vec<(&'static str, String)> {
        let seconds = |value: f64| format!("{value:.3}");
        let micros = |value: f64| format!("{value:.0}");
        vec![
            ("removed beside commits, seconds", seconds(self.beside_seconds)),
            ("- removed / recycled", format!("{} / {}", self.beside_removed, self.beside_recycled)),
            (
                "- batches / directory syncs / of these for segments made",
                format!(
                    "{} / {} / {}",
                    self.beside_batches, self.beside_directory_syncs, self.beside_segments_made
                ),
            ),
            ("removed at once, seconds", seconds(self.at_once_seconds)),
            (
                "- removed / batches / directory syncs / of these for segments made",
                format!(
                    "{} / {} / {} / {}",
                    self.at_once_removed,
                    self.at_once_batches,
                    self.at_once_directory_syncs,
                    self.at_once_segments_made
                ),
            ),
            ("commits/s quiet", micros(self.quiet_commits_per_second)),
            ("commits/s beside", micros(self.beside_commits_per_second)),
            ("commit p50 us, quiet", micros(self.quiet_commit_p50_us)),
            ("commit p50 us, beside", micros(self.beside_commit_p50_us)),
            ("commit p99 us, quiet", micros(self.quiet_commit_p99_us)),
            ("commit p99 us, beside", micros(self.beside_commit_p99_us)),
            ("longest commit us, quiet", micros(self.quiet_commit_max_us)),
            ("longest commit us, beside", micros(self.beside_commit_max_us)),
            ("open median us, quiet", micros(self.quiet_open_median_us)),
            ("open median us, beside", micros(self.beside_open_median_us)),
            ("longest open us, quiet", micros(self.quiet_open_max_us)),
            ("longest open us, beside", micros(self.beside_open_max_us)),
            ("first open us, all there", micros(self.first_open_us)),
            ("longest close us, quiet", micros(self.quiet_close_max_us)),
            ("longest close us, beside", micros(self.beside_close_max_us)),
        ]
    }
}

/// Latencies of commits, one thread, and how long they took together.
struct Commits {
    latencies: Histogram,
    elapsed: Duration,
}

impl Commits {
    fn per_second(&self) -> f64 {
        self.latencies.count() as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }
}

/// Opens and closes in turn.
#[derive(Default)]
struct Opens {
    open: Vec<Duration>,
    close: Vec<Duration>,
}

impl Opens {
    fn median_micros(&mut self) -> f64 {
        self.open.sort_unstable();
        self.open.get(self.open.len() / 2).map_or(0.0, |duration| micros(*duration))
    }
}

fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

fn longest(durations: &[Duration]) -> f64 {
    durations.iter().max().map_or(0.0, |duration| micros(*duration))
}

/// Measures the cell in its directory, and leaves the database there.
pub(super) fn measure(cell: &Cell) -> Result<Figures, BenchError> {
    let database = cell.create()?;
    let deadline = now() + Duration::from_secs_f64(cell.seconds);
    let quiet = commit_until(&database, |_| now() >= deadline)?;
    close(database)?;
    let mut quiet_opens = cell.open_and_close(|_| false)?;

    cell.add_old_segments()?;
    let begun = now();
    let database = cell.open(Background::Threads)?;
    let first_open_us = micros(now() - begun);
    let beside = commit_until(&database, |database| database.statistics().segments.unneeded == 0)?;
    let beside_seconds = (now() - begun).as_secs_f64();
    // The last batch has ended when the database is closed.
    close(database.clone())?;
    let cleaned = database.statistics();
    drop(database);

    cell.add_old_segments()?;
    let mut beside_opens = cell.open_and_close(|database| database.statistics().segments.unneeded == 0)?;

    cell.add_old_segments()?;
    let database = cell.open(Background::Manual)?;
    let table = table(&database)?;
    database.put(&table, [0], [0]).map_err(engine_error(ENGINE, "put"))?;
    let (before, begun) = (database.statistics(), now());
    database.checkpoint().map_err(engine_error(ENGINE, "checkpoint"))?;
    let at_once_seconds = (now() - begun).as_secs_f64();
    let at_once = database.statistics();
    close(database)?;
    Ok(Figures {
        segments: cell.segments,
        segment_bytes: cell.segment_bytes,
        content: cell.content,
        beside_seconds,
        beside_removed: cleaned.segments.removed,
        beside_recycled: cleaned.segments.recycled,
        beside_batches: cleaned.segments.clean_up_batches,
        beside_directory_syncs: cleaned.segments.directory_syncs,
        beside_segments_made: made(&cleaned),
        at_once_seconds,
        at_once_removed: at_once.segments.removed - before.segments.removed,
        at_once_batches: at_once.segments.clean_up_batches - before.segments.clean_up_batches,
        at_once_directory_syncs: at_once.segments.directory_syncs - before.segments.directory_syncs,
        at_once_segments_made: made(&at_once) - made(&before),
        quiet_commits_per_second: quiet.per_second(),
        beside_commits_per_second: beside.per_second(),
        quiet_commit_p50_us: quiet.latencies.quantile_micros(0.5),
        beside_commit_p50_us: beside.latencies.quantile_micros(0.5),
        quiet_commit_p99_us: quiet.latencies.quantile_micros(0.99),
        beside_commit_p99_us: beside.latencies.quantile_micros(0.99),
        quiet_commit_max_us: quiet.latencies.max_micros(),
        beside_commit_max_us: beside.latencies.max_micros(),
        quiet_open_median_us: quiet_opens.median_micros(),
        beside_open_median_us: beside_opens.median_micros(),
        quiet_open_max_us: longest(&quiet_opens.open),
        beside_open_max_us: longest(&beside_opens.open),
        first_open_us,
        quiet_close_max_us: longest(&quiet_opens.close),
        beside_close_max_us: longest(&beside_opens.close),
    })
}

/// Segments made ready for the log, but for recycled ones.
pub(super) fn made(statistics: &Statistics) -> u64 {
    statistics.segments.prepared + statistics.segments.cleaned
}

impl Cell {
    /// A database on its second timeline.
    pub(super) fn create(&self) -> Result<Database, BenchError> {
        let options = Options::default().with(|options| {
            options.format.segment_bytes = self.segment_bytes;
            options.mode = OpenMode::New;
        });
        let database = Database::open(&self.directory, options).map_err(engine_error(ENGINE, "create"))?;
        database.create_table(TABLE).map_err(engine_error(ENGINE, "create a table"))?;
        close(database)?;
        DatabaseDirectory::at(&self.directory)
            .open_on_new_timeline(Options::default(), "a benchmark")
            .map_err(engine_error(ENGINE, "begin a timeline"))
    }

    fn open(&self, background: Background) -> Result<Database, BenchError> {
        let options = Options { mode: OpenMode::Existing, background, ..Options::default() };
        Database::open(&self.directory, options).map_err(engine_error(ENGINE, "open"))
    }

    /// Segments of the first timeline, far beyond where it was left, until there are as many as wanted.
    #[expect(clippy::disallowed_methods, reason = "the benchmark's own files")]
    pub(super) fn add_old_segments(&self) -> Result<(), BenchError> {
        let log = self.directory.join("log");
        // The log itself has come nowhere near these numbers.
        let first = 1 << 20;
        for number in first..first + self.segments {
            self.add_old_segment(&log.join(format!("00000001{number:016X}")))?;
        }
        let synced = File::open(&log).and_then(|directory| directory.sync_all());
        synced.map_err(file_error("sync", &log))
    }

    #[expect(clippy::disallowed_methods, reason = "the benchmark's own files")]
    fn add_old_segment(&self, path: &Path) -> Result<(), BenchError> {
        if path.exists() {
            return Ok(());
        }
        let mut file = File::create(path).map_err(file_error("create", path))?;
        let made = match self.content {
            Content::Holes => file.set_len(self.segment_bytes),
            Content::Allocated => {
                fallocate(&file, FallocateFlags::empty(), 0, self.segment_bytes).map_err(io::Error::from)
            }
            Content::Written => (0..self.segment_bytes >> 20)
                .try_for_each(|_| file.write_all(&[0; 1 << 20]))
                .and_then(|()| file.sync_data()),
        };
        made.map_err(file_error("fill", path))
    }

    /// Opens and closes with a commit in between, until it is over or often enough.
    fn open_and_close(&self, is_over: impl Fn(&Database) -> bool) -> Result<Opens, BenchError> {
        let mut opens = Opens::default();
        for _ in 0..self.opens {
            let begun = now();
            let database = self.open(Background::Threads)?;
            opens.open.push(now() - begun);
            let table = table(&database)?;
            database.put(&table, [1], [1]).map_err(engine_error(ENGINE, "put"))?;
            let is_last = is_over(&database);
            let begun = now();
            close(database)?;
            opens.close.push(now() - begun);
            if is_last {
                break;
            }
        }
        Ok(opens)
    }
}

pub(super) fn table(database: &Database) -> Result<Table, BenchError> {
    database.table(TABLE).map_err(engine_error(ENGINE, "open a table"))
}

pub(super) fn close(database: Database) -> Result<(), BenchError> {
    database.close().map_err(engine_error(ENGINE, "close"))
}

fn commit_until(database: &Database, is_over: impl Fn(&Database) -> bool) -> Result<Commits, BenchError> {
    let table = table(database)?;
    let mut latencies = Histogram::new();
    let started = now();
    let mut row = 0_u64;
    loop {
        let before: Instant = now();
        database.put(&table, (row % 10_000).to_be_bytes(), [7; 100]).map_err(engine_error(ENGINE, "put"))?;
        latencies.record(now() - before);
        row += 1;
        if row.is_multiple_of(COMMITS_PER_LOOK) && is_over(database) {
            return Ok(Commits { latencies, elapsed: now() - started });
        }
    }
}
