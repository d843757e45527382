//! Calls and times of statements, by their text without constants: what `pg_stat_statements` shows.
//!
//! There are `STATEMENTS_MAX` entries at most. Where one more is to be made, those with the fewest calls are forgotten.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use seawall_values::Oid;

use crate::parse::Fingerprint;

/// Statements that are kept, at most: with their texts, 15 MiB.
const STATEMENTS_MAX: usize = 5_000;
/// Statements of different texts seldom wait for each other.
const SHARDS: usize = 16;
/// Of a shard that is full, this part is forgotten.
const FORGOTTEN_PART: usize = 20;

/// What one run of a statement has taken.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StatementRun {
    /// Parsing and planning; `None`: its plan was kept.
    pub(crate) plan: Option<Duration>,
    pub(crate) execute: Duration,
    /// Rows returned or changed.
    pub(crate) rows: u64,
    /// Bytes of keys and values that it has added to its transaction.
    pub(crate) log_bytes: u64,
}

/// Count, sum, extremes and spread of durations, in milliseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Times {
    pub(crate) count: u64,
    pub(crate) total: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
    pub(crate) mean: f64,
    squares: f64,
}

impl Times {
    /// By Welford ("Note on a method for calculating corrected sums of squares and products", Technometrics 1962).
    #[expect(clippy::cast_precision_loss, reason = "more calls than 2^53 are not counted")]
    fn add(&mut self, duration: Duration) {
        let milliseconds = duration.as_secs_f64() * 1e3;
        self.min = if self.count == 0 { milliseconds } else { self.min.min(milliseconds) };
        self.max = self.max.max(milliseconds);
        self.count += 1;
        self.total += milliseconds;
        let before = self.mean;
        self.mean += (milliseconds - before) / self.count as f64;
        self.squares += (milliseconds - before) * (milliseconds - self.mean);
    }

    /// The standard deviation.
    #[expect(clippy::cast_precision_loss, reason = "more calls than 2^53 are not counted")]
    pub(crate) fn deviation(&self) -> f64 {
        if self.count == 0 { 0.0 } else { (self.squares / self.count as f64).max(0.0).sqrt() }
    }
}

/// One statement of one role.
#[derive(Clone, Debug)]
pub(crate) struct StatementTotals {
    pub(crate) user: Oid,
    pub(crate) id: i64,
    pub(crate) text: Arc<str>,
    pub(crate) plan: Times,
    pub(crate) execute: Times,
    pub(crate) rows: u64,
    pub(crate) log_bytes: u64,
}

type Shard = Mutex<FxHashMap<(Oid, i64), StatementTotals>>;

/// All statements.
#[derive(Debug)]
pub(crate) struct StatementRegistry {
    shards: [Shard; SHARDS],
    shard_max: usize,
    /// How often statements were forgotten to make room.
    forgotten: AtomicU64,
    /// When all were cleared: microseconds since 2000-01-01 UTC; 0: not since the start.
    cleared_at: AtomicI64,
}

impl Default for StatementRegistry {
    fn default() -> StatementRegistry {
        StatementRegistry {
            shards: std::array::from_fn(|_| Mutex::default()),
            shard_max: STATEMENTS_MAX / SHARDS,
            forgotten: AtomicU64::new(0),
            cleared_at: AtomicI64::new(0),
        }
    }
}

impl StatementRegistry {
    /// A statement of a role has run.
    pub(crate) fn note(&self, user: Oid, statement: &Fingerprint, run: StatementRun) {
        let key = (user, statement.id);
        let mut shard = self.shard(statement.id).lock();
        if shard.len() >= self.shard_max && !shard.contains_key(&key) {
            forget_least_called(&mut shard);
            self.forgotten.fetch_add(1, Ordering::Relaxed);
        }
        let totals = shard.entry(key).or_insert_with(|| StatementTotals {
            user,
            id: statement.id,
            text: Arc::clone(&statement.text),
            plan: Times::default(),
            execute: Times::default(),
            rows: 0,
            log_bytes: 0,
        });
        if let Some(plan) = run.plan {
            totals.plan.add(plan);
        }
        totals.execute.add(run.execute);
        totals.rows += run.rows;
        totals.log_bytes += run.log_bytes;
    }

    /// All that are kept.
    pub(crate) fn all(&self) -> Vec<StatementTotals> {
        self.shards.iter().flat_map(|shard| shard.lock().values().cloned().collect::<Vec<_>>()).collect()
    }

    /// Forgets those of a role and with a number; 0: of any.
    pub(crate) fn clear(&self, user: Oid, id: i64, now: i64) {
        for shard in &self.shards {
            shard.lock().retain(|key, _| (user != 0 && key.0 != user) || (id != 0 && key.1 != id));
        }
        if user == 0 && id == 0 {
            self.forgotten.store(0, Ordering::Relaxed);
            self.cleared_at.store(now, Ordering::Relaxed);
        }
    }

    /// How often statements were forgotten to make room, and when all were cleared last.
    pub(crate) fn info(&self) -> (u64, Option<i64>) {
        let cleared = self.cleared_at.load(Ordering::Relaxed);
        (self.forgotten.load(Ordering::Relaxed), (cleared != 0).then_some(cleared))
    }

    fn shard(&self, id: i64) -> &Shard {
        let index = usize::try_from(id.rem_euclid(16)).unwrap_or(0);
        &self.shards[index]
    }
}

fn forget_least_called(shard: &mut FxHashMap<(Oid, i64), StatementTotals>) {
    let mut calls: Vec<u64> = shard.values().map(|totals| totals.execute.count).collect();
    let mut left = (calls.len() / FORGOTTEN_PART).max(1);
    let (_, least, _) = calls.select_nth_unstable(left - 1);
    let least = *least;
    shard.retain(|_, totals| {
        let is_forgotten = left > 0 && totals.execute.count <= least;
        left -= usize::from(is_forgotten);
        !is_forgotten
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statement(id: i64) -> Fingerprint {
        Fingerprint { id, text: Arc::from(format!("select {id}")) }
    }

    fn run(milliseconds: u64) -> StatementRun {
        StatementRun {
            execute: Duration::from_millis(milliseconds),
            rows: 2,
            log_bytes: 10,
            ..StatementRun::default()
        }
    }

    #[test]
    fn times_of_a_statement_are_summed() {
        let statements = StatementRegistry::default();
        [2, 4, 4, 4, 5, 5, 7, 9].into_iter().for_each(|time| statements.note(10, &statement(1), run(time)));
        statements.note(11, &statement(1), run(1));
        let all = statements.all();
        let totals = all.iter().find(|totals| totals.user == 10).unwrap();
        let times = totals.execute;
        assert_eq!((times.count, times.min, times.max, times.total), (8, 2.0, 9.0, 40.0));
        assert!((times.mean - 5.0).abs() < 1e-9 && (times.deviation() - 2.0).abs() < 1e-9, "{times:?}");
        assert_eq!((totals.rows, totals.log_bytes, totals.plan.count), (16, 80, 0));
        assert_eq!(all.len(), 2);
    }

    #[test]
    fn the_least_called_make_room() {
        let statements = StatementRegistry { shard_max: 40, ..StatementRegistry::default() };
        for id in 0..10_000 {
            statements.note(10, &statement(id), run(1));
            statements.note(10, &statement(-1), run(1));
        }
        let all = statements.all();
        assert!(all.len() <= 40 * SHARDS, "{}", all.len());
        assert_eq!(all.iter().find(|totals| totals.id == -1).unwrap().execute.count, 10_000);
        assert!(statements.info().0 > 0);
    }

    #[test]
    fn a_role_or_a_statement_or_all_are_cleared() {
        let statements = StatementRegistry::default();
        for (user, id) in [(1, 1), (1, 2), (2, 1), (2, 2), (3, 3)] {
            statements.note(user, &statement(id), run(1));
        }
        let left = || {
            let mut left: Vec<_> = statements.all().iter().map(|totals| (totals.user, totals.id)).collect();
            left.sort_unstable();
            left
        };
        statements.clear(1, 2, 5);
        assert_eq!(left(), [(1, 1), (2, 1), (2, 2), (3, 3)]);
        statements.clear(2, 0, 5);
        assert_eq!(left(), [(1, 1), (3, 3)]);
        statements.clear(0, 3, 5);
        assert_eq!((left(), statements.info().1), (vec![(1, 1)], None));
        statements.clear(0, 0, 5);
        assert_eq!((left(), statements.info().1), (vec![], Some(5)));
    }
}
