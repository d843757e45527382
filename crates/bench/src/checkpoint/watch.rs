//! Watches the database while writers run: every checkpoint that ends, in figures, and what the throttle did.
//!
//! This is the only place that knows what the engine's statistics are called.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use seawall::{CheckpointStatistics, Database, Statistics, Trigger};

use super::figures::{EACH_CHECKPOINT, Figures, means};

/// Shorter than any checkpoint of interest, so that none is missed.
const LOOK_EVERY: Duration = Duration::from_millis(10);

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
        let (stop_seen, known) = (&stop, before.last_checkpoint.clone());
        let watcher = scope.spawn(move || look_until(database, stop_seen, known));
        let result = body();
        stop.store(true, Ordering::SeqCst);
        watcher.thread().unpark();
        let seen = watcher.join().expect("the watcher only reads");
        let after = database.statistics();
        let checkpoints = seen.iter().map(figures).collect();
        let mut triggers = BTreeMap::new();
        for checkpoint in &seen {
            *triggers.entry(format!("checkpoints_by_{}", trigger_name(checkpoint.trigger))).or_default() += 1;
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
        let last = database.statistics().last_checkpoint;
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

fn trigger_name(trigger: Trigger) -> String {
    let mut name = String::new();
    for (index, letter) in format!("{trigger:?}").chars().enumerate() {
        if index > 0 && letter.is_ascii_uppercase() {
            name.push('_');
        }
        name.push(letter.to_ascii_lowercase());
    }
    name
}

/// One checkpoint: a line for each figure that the engine has.
fn figures(checkpoint: &CheckpointStatistics) -> Figures {
    let millis = |duration: Duration| duration.as_secs_f64() * 1000.0;
    [
        ("total_ms", millis(checkpoint.duration)),
        ("rows", checkpoint.rows as f64),
        ("chunks", checkpoint.chunks as f64),
        ("leaves", checkpoint.leaves as f64),
        ("pages", (checkpoint.protected_pages + checkpoint.fresh_pages) as f64),
        ("protected_pages", checkpoint.protected_pages as f64),
        ("fresh_pages", checkpoint.fresh_pages as f64),
        ("freed_pages", checkpoint.freed_pages as f64),
    ]
    .into_iter()
    .map(|(name, value)| (format!("{EACH_CHECKPOINT}{name}"), value))
    .collect()
}

impl Watched {
    /// Bytes by which the log grew.
    pub(super) fn log_bytes(&self) -> u64 {
        self.after.appended.bytes_since(self.before.appended)
    }

    /// Checkpoints, each as a mean, what triggered them, and the throttle.
    pub(super) fn figures(&self) -> Figures {
        let mut figures = means(&self.checkpoints);
        let delayed = self.after.throttle.delayed_micros - self.before.throttle.delayed_micros;
        figures.insert("checkpoints".into(), (self.after.checkpoints - self.before.checkpoints) as f64);
        figures.insert("throttled_thread_ms".into(), delayed as f64 / 1000.0);
        figures.extend(self.triggers.iter().map(|(name, count)| (name.clone(), *count as f64)));
        let failures = self.after.checkpoint_failures - self.before.checkpoint_failures;
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

    #[test]
    fn a_trigger_is_a_name_in_lower_case() {
        assert_eq!(trigger_name(Trigger::MemtableFull), "memtable_full");
    }
}
