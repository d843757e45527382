//! Watches the database while writers run: every checkpoint that ends, in figures, and what the throttle did.
//!
//! This is the only place that knows what the engine's statistics are called.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use seawall::{CheckpointStatistics, Database, Statistics};

use super::figures::{EACH_CHECKPOINT, Figures, means};
use crate::workload::per;

/// Shorter than any checkpoint of interest, so that none is missed.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Worth a maximum beside the mean: a reader waits that long.
const PUBLISH_LONGEST: &str = "checkpoint_each_publish_longest_ms";

/// What was seen between the start and the end of a run.
#[derive(Debug)]
pub(super) struct Watched {
    before: Statistics,
    after: Statistics,
    checkpoints: Vec<Figures>,
    triggers: BTreeMap<String, u64>,
}

/// Runs `body` and watches meanwhile.
pub(super) fn watched<T>(database: &Database, body: impl FnOnce() -> T) -> (T, Watched) {
    let stop = AtomicBool::new(false);
    let before = database.statistics();
    std::thread::scope(|scope| {
        let (stop_seen, known) = (&stop, before.checkpoints.last.clone());
        let watcher = scope.spawn(move || look_until(database, stop_seen, known));
        let result = body();
        stop.store(true, Ordering::SeqCst);
        watcher.thread().unpark();
        let seen = watcher.join().expect("the watcher only reads");
        let after = database.statistics();
        let checkpoints = seen.iter().map(figures).collect();
        let mut triggers = BTreeMap::new();
        for checkpoint in &seen {
            *triggers
                .entry(format!("checkpoints_by_{}", checkpoint.trigger.name().replace('-', "_")))
                .or_default() += 1;
        }
        (result, Watched { before, after, checkpoints, triggers })
    })
}

fn look_until(
    database: &Database,
    stop: &AtomicBool,
    mut known: Option<CheckpointStatistics>,
) -> Vec<CheckpointStatistics> {
    let mut seen = Vec::new();
    loop {
        // Read first: what ended before the stop is seen by the last look.
        let is_last = stop.load(Ordering::SeqCst);
        let last = database.statistics().checkpoints.last;
        if last.is_some() && last != known {
            seen.extend(last.clone());
            known = last;
        }
        if is_last {
            return seen;
        }
        std::thread::park_timeout(LOOK_EVERY);
    }
}

/// One checkpoint: a line for each figure that the engine has.
fn figures(checkpoint: &CheckpointStatistics) -> Figures {
    let durations = &checkpoint.durations;
    let millis = |duration: Duration| duration.as_secs_f64() * 1000.0;
    let mebibytes = |bytes: u64| bytes as f64 / 1_048_576.0;
    let written_bytes = checkpoint.recovery_file_bytes + checkpoint.page_file_bytes;
    [
        ("total_ms", millis(durations.total)),
        ("freeze_ms", millis(durations.freeze)),
        ("log_flush_ms", millis(durations.log_flush)),
        ("merge_ms", millis(durations.merge)),
        ("recovery_write_ms", millis(durations.recovery_write)),
        ("recovery_sync_ms", millis(durations.recovery_sync)),
        ("page_write_ms", millis(durations.page_write)),
        ("page_sync_ms", millis(durations.page_sync)),
        ("publish_ms", millis(durations.publish)),
        ("publish_longest_ms", millis(durations.publish_max)),
        ("paused_ms", millis(durations.paused)),
        ("rows", checkpoint.rows as f64),
        ("chunks", checkpoint.chunks as f64),
        ("pages", checkpoint.pages_written() as f64),
        ("pages_read", checkpoint.pages_read as f64),
        ("protected_pages", checkpoint.protected_pages as f64),
        ("fresh_pages", checkpoint.fresh_pages as f64),
        ("freed_pages", checkpoint.freed_pages as f64),
        ("image_mib", mebibytes(checkpoint.image_bytes)),
        ("recovery_file_mib", mebibytes(checkpoint.recovery_file_bytes)),
        ("page_file_mib", mebibytes(checkpoint.page_file_bytes)),
        ("written_bytes_per_page", per(written_bytes as f64, checkpoint.pages_written())),
    ]
    .into_iter()
    .map(|(name, value)| (format!("{EACH_CHECKPOINT}{name}"), value))
    .collect()
}

impl Watched {
    /// Bytes by which the log grew.
    pub(super) fn log_bytes(&self) -> u64 {
        self.after.log.appended.bytes_since(self.before.log.appended)
    }

    /// Checkpoints, each as a mean, what triggered them, and the throttle.
    pub(super) fn figures(&self) -> Figures {
        let mut figures = means(&self.checkpoints);
        let longest = self.checkpoints.iter().filter_map(|one| one.get(PUBLISH_LONGEST).copied());
        if let Some(longest) = longest.reduce(f64::max) {
            figures.insert("longest_publish_ms".into(), longest);
        }
        let delayed = self.after.throttle.delayed_micros - self.before.throttle.delayed_micros;
        figures.insert(
            "checkpoints".into(),
            (self.after.checkpoints.completed - self.before.checkpoints.completed) as f64,
        );
        figures.insert("throttled_thread_ms".into(), delayed as f64 / 1000.0);
        figures.extend(self.triggers.iter().map(|(name, count)| (name.clone(), *count as f64)));
        let failures = self.after.checkpoints.failed - self.before.checkpoints.failed;
        if failures > 0 {
            figures.insert("checkpoint_failures".into(), failures as f64);
        }
        figures
    }
}

#[cfg(test)]
mod tests {
    use seawall::Options;

    use super::*;

    #[test]
    fn every_checkpoint_of_a_run_is_seen_and_none_before() {
        let directory = tempfile::tempdir().unwrap();
        let database = Database::open(directory.path(), Options::default()).unwrap();
        let table = database.create_table("rows").unwrap();
        database.put(&table, "before", "1").unwrap();
        database.checkpoint().unwrap();
        let ((), watched) = watched(&database, || {
            database.put(&table, "within", "1").unwrap();
            database.checkpoint().map(drop).unwrap();
        });
        let figures = watched.figures();
        assert!((figures["checkpoints"] - 1.0).abs() < f64::EPSILON);
        assert!((figures["checkpoints_by_request"] - 1.0).abs() < f64::EPSILON, "{figures:?}");
        assert!((figures["checkpoint_each_rows"] - 1.0).abs() < 1.5, "{figures:?}");
        assert!(watched.log_bytes() > 0);
        database.close().unwrap();
    }
}
