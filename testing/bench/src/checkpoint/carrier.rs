//! Who carries the log away while rows are written: an archive, and a standby in the same process and on the same disk.
//!
//! ```text
//!   writers --> log --+--> archiver of the engine --> a new repository
//!                     +--> stream --> standby: receives, syncs, applies
//! ```
//! Without either, it costs nothing to put page images into the log.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Args;
use seawall::{ArchiveOptions, Database, Options, Statistics};
use serde::{Deserialize, Serialize};

use super::cell::Cell;
use super::figures::Figures;
use super::load::NAME;
use crate::error::{BenchError, engine_error};
use crate::standby::{copy, follow, hold_log, open, receive, role};
use crate::usage::now;

const MEBIBYTE: f64 = 1_048_576.0;
/// As a standby's receiver.
const SYNC_BYTES: u64 = 8 << 20;
const LOOK_EVERY: Duration = Duration::from_millis(10);
const CATCH_UP: Duration = Duration::from_secs(3600);

/// Of `full-speed`, `fixed-rate` and `extreme`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args, Serialize, Deserialize)]
pub(crate) struct Carriers {
    /// The log is archived into a new repository below this URL, which stays there; in a program with feature `archive`
    #[arg(long, value_name = "URL")]
    pub(super) archive: Option<String>,
    /// A standby in the same process receives, syncs and applies the log
    #[arg(long)]
    pub(super) standby: bool,
}

impl Carriers {
    pub(super) fn is_none(&self) -> bool {
        *self == Carriers::default()
    }
}

/// A new repository for the cell, for the options of its database; none if none is asked for.
#[cfg(feature = "archive")]
pub(super) fn archives(cell: &Cell) -> Result<Vec<ArchiveOptions>, BenchError> {
    use std::sync::Arc;

    use seawall::backup::{Packing, Repository, RepositoryArchive, RepositoryOptions, SystemClock};

    let Some(url) = &cell.carriers.archive else { return Ok(Vec::new()) };
    let (place, query) = url.split_once('?').unwrap_or((url, ""));
    let query = if query.is_empty() { String::new() } else { format!("?{query}") };
    // Two cells are two databases, and their repositories must not be taken for one.
    let (load, configuration) = (cell.load.file_words(), cell.configuration.file_words());
    let name = format!("{load}-{configuration}-run{}-{}", cell.run, std::process::id());
    let url = format!("{}/{name}{query}", place.trim_end_matches('/'));
    let url = url.parse().map_err(engine_error(NAME, "read the URL of the archive"))?;
    Repository::create(&url, RepositoryOptions::default())
        .map_err(engine_error(NAME, "create the repository"))?;
    let repository = Repository::open(&url, RepositoryOptions::default());
    let repository = Arc::new(repository.map_err(engine_error(NAME, "open the repository"))?);
    let archive = RepositoryArchive::new(repository, Packing::default(), Arc::new(SystemClock));
    Ok(vec![ArchiveOptions::new(Arc::new(archive))])
}

/// There are none without the feature.
#[cfg(not(feature = "archive"))]
pub(super) fn archives(cell: &Cell) -> Result<Vec<ArchiveOptions>, BenchError> {
    match cell.carriers.archive {
        None => Ok(Vec::new()),
        Some(_) => Err(BenchError::Process("--archive: build this program with `--features archive`".into())),
    }
}

/// Makes a standby of `primary`, which is closed and opened for it; none if none is asked for.
pub(super) fn with_standby(
    cell: &Cell,
    primary: Database,
    options: &Options,
) -> Result<(Database, Option<Database>), BenchError> {
    if !cell.carriers.standby {
        return Ok((primary, None));
    }
    hold_log(&primary)?;
    primary.close().map_err(engine_error(NAME, "close"))?;
    let directory = cell.directory.join("standby");
    copy(&cell.database_directory(), &directory)?;
    let standby = follow(&directory, &Options { archives: Vec::new(), ..options.clone() })?;
    Ok((open(&cell.database_directory(), options)?, Some(standby)))
}

/// Runs `body` while the log is carried away. What that came to, with the time after `body` until all of the log had arrived.
pub(super) fn carried<T>(
    primary: &Database,
    standby: Option<&Database>,
    body: impl FnOnce() -> Result<T, BenchError>,
) -> Result<(T, Figures), BenchError> {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let carry = scope.spawn(|| standby.map_or(Ok(0), |standby| send(primary, standby, &stop)));
        let look = scope.spawn(|| look(primary, standby, &stop));
        let begun = primary.statistics();
        let done = body();
        let ended = now();
        stop.store(true, Ordering::SeqCst);
        let sent = carry.join().expect("a sender returns its errors");
        let mut figures = look.join().expect("a look returns its errors")?;
        let (done, sent) = (done?, sent?);
        if let Some(standby) = standby {
            let end = primary.flush().map_err(engine_error(NAME, "flush"))?;
            let sent = sent + receive(primary, standby, SYNC_BYTES)?;
            role(standby)?.wait_applied(end, CATCH_UP).map_err(engine_error(NAME, "apply"))?;
            figures.insert("standby_received_mib".into(), sent as f64 / MEBIBYTE);
            figures.insert("standby_catch_up_seconds".into(), ended.elapsed().as_secs_f64());
        }
        if !begun.archives.is_empty() {
            primary.log().archive_now().map_err(engine_error(NAME, "archive"))?;
            figures.insert("archive_catch_up_seconds".into(), ended.elapsed().as_secs_f64());
            let archived = archived_bytes(&primary.statistics()) - archived_bytes(&begun);
            figures.insert("archived_mib".into(), archived as f64 / MEBIBYTE);
        }
        Ok((done, figures))
    })
}

fn archived_bytes(statistics: &Statistics) -> u64 {
    statistics.archives.iter().map(|archive| archive.bytes).sum()
}

/// Sends until `stop`; the bytes.
fn send(primary: &Database, standby: &Database, stop: &AtomicBool) -> Result<u64, BenchError> {
    let mut sent = 0;
    while !stop.load(Ordering::SeqCst) {
        let now = receive(primary, standby, SYNC_BYTES)?;
        if now == 0 {
            std::thread::park_timeout(Duration::from_millis(1));
        }
        sent += now;
    }
    Ok(sent)
}

/// The highest lags until `stop`.
fn look(primary: &Database, standby: Option<&Database>, stop: &AtomicBool) -> Result<Figures, BenchError> {
    let (mut archive_lag, mut standby_lag, mut segments) = (0, 0, 0);
    let archives = !primary.statistics().archives.is_empty();
    while !stop.load(Ordering::SeqCst) {
        if let Some(standby) = standby {
            let end = primary.log().flushed();
            let applied = role(standby)?.statistics().map_err(engine_error(NAME, "ask"))?.applied;
            standby_lag = standby_lag.max(end.bytes_since(applied.min(end)));
        }
        if archives {
            for one in primary.statistics().archives {
                archive_lag = archive_lag.max(one.lag_bytes);
                segments = segments.max(one.segments_waiting);
            }
        }
        std::thread::park_timeout(LOOK_EVERY);
    }
    let mut figures = Figures::new();
    if standby.is_some() {
        figures.insert("standby_lag_max_mib".into(), standby_lag as f64 / MEBIBYTE);
    }
    if archives {
        figures.insert("archive_lag_max_mib".into(), archive_lag as f64 / MEBIBYTE);
        figures.insert("archive_segments_waiting_max".into(), segments as f64);
    }
    Ok(figures)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::cell::{Kind, measure};
    use crate::checkpoint::configuration::Configuration;
    use crate::checkpoint::load::{Durability, Load, Operation};

    fn cell(directory: &std::path::Path, kind: Kind, carriers: Carriers) -> Cell {
        Cell {
            kind,
            load: Load { operation: Operation::Batch, durability: Durability::Async, threads: 2 },
            carriers,
            configuration: Configuration { protection: "log-images".into(), compression: "lz4".into() },
            rows: 1000,
            value_bytes: 20,
            cache_bytes: 16 << 20,
            memtable_bytes: 16 << 20,
            chunk_bytes: None,
            interval: 0.1,
            recovery_target: 5.0,
            warm_up: 0.0,
            seconds: 0.3,
            operations_per_second: None,
            run: 1,
            seed: 3,
            directory: directory.to_path_buf(),
            series: None,
        }
    }

    #[test]
    fn a_standby_gets_all_of_the_log() {
        for kind in [Kind::Overwrite, Kind::Extreme] {
            let scratch = tempfile::tempdir().unwrap();
            let carriers = Carriers { standby: true, ..Carriers::default() };
            let figures = measure(&cell(scratch.path(), kind, carriers)).unwrap().figures;
            let (received, log) = (figures["standby_received_mib"], figures["log_mib"]);
            assert!(received >= log && log > 0.0, "{received} MiB of {log}");
        }
    }

    #[cfg(feature = "archive")]
    #[test]
    fn an_archive_gets_the_log_beside_a_standby() {
        let (scratch, repositories) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let archive = Some(repositories.path().display().to_string());
        let figures = measure(&cell(scratch.path(), Kind::Overwrite, Carriers { archive, standby: true }))
            .unwrap()
            .figures;
        assert!(figures["archived_mib"] > 0.0 && figures["standby_received_mib"] > 0.0, "{figures:?}");
        assert_eq!(std::fs::read_dir(repositories.path()).unwrap().count(), 1);
    }

    #[test]
    fn tests_that_no_carrier_is_for_refuse_one() {
        let scratch = tempfile::tempdir().unwrap();
        let carriers = Carriers { standby: true, ..Carriers::default() };
        let refused = measure(&cell(scratch.path(), Kind::Kill, carriers)).unwrap_err();
        assert!(refused.to_string().contains("--standby"), "{refused}");
    }
}
