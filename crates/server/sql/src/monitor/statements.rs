//! Calls and times of statements, by their text without constants: what `pg_stat_statements` shows.
//!
//! There are `STATEMENTS_MAX` entries at most. Where one more is to be made, those with the fewest calls are forgotten.
//!
//! ```text
//!   session --> shard (read) --> entry --> its stripe      sessions that run the same statement seldom wait for each other
//!   reader  --> shard (read) --> entry --> sum of stripes
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use rustc_hash::FxHashMap;
use seawall_values::Oid;

use crate::parse::Fingerprint;

/// Statements that are kept, at most: with their texts, 20 MiB.
const STATEMENTS_MAX: usize = 5_000;
/// New statements of different texts seldom wait for each other.
const SHARDS: usize = 16;
/// Sessions count in different memory, if their numbers differ by less.
const STRIPES: usize = 4;
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

    /// Both together, by Chan et al. ("Updating formulae and a pairwise algorithm for computing sample variances", 1979).
    #[expect(clippy::cast_precision_loss, reason = "more calls than 2^53 are not counted")]
    fn merge(&mut self, other: &Times) {
        if other.count == 0 {
            return;
        }
        let (own, others) = (self.count as f64, other.count as f64);
        let distance = other.mean - self.mean;
        self.min = if self.count == 0 { other.min } else { self.min.min(other.min) };
        self.max = self.max.max(other.max);
        self.count += other.count;
        self.total += other.total;
        self.mean += distance * others / (own + others);
        self.squares += other.squares + distance * distance * own * others / (own + others);
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

impl StatementTotals {
    fn add(&mut self, run: &StatementRun) {
        if let Some(plan) = run.plan {
            self.plan.add(plan);
        }
        self.execute.add(run.execute);
        self.rows += run.rows;
        self.log_bytes += run.log_bytes;
    }

    fn merge(&mut self, other: &StatementTotals) {
        self.plan.merge(&other.plan);
        self.execute.merge(&other.execute);
        self.rows += other.rows;
        self.log_bytes += other.log_bytes;
    }
}

/// What some sessions have counted, in cache lines of its own.
#[derive(Debug)]
#[repr(align(64))]
struct Stripe(Mutex<StatementTotals>);

/// One statement of one role, as sessions count it.
#[derive(Debug)]
struct Entry {
    stripes: [Stripe; STRIPES],
}

impl Entry {
    fn new(user: Oid, statement: &Fingerprint) -> Entry {
        let none = || StatementTotals {
            user,
            id: statement.id,
            text: Arc::clone(&statement.text),
            plan: Times::default(),
            execute: Times::default(),
            rows: 0,
            log_bytes: 0,
        };
        Entry { stripes: std::array::from_fn(|_| Stripe(Mutex::new(none()))) }
    }

    fn note(&self, session: i32, run: &StatementRun) {
        let stripe = usize::from(session.to_le_bytes()[0]) % STRIPES;
        self.stripes[stripe].0.lock().add(run);
    }

    fn totals(&self) -> StatementTotals {
        let [first, rest @ ..] = &self.stripes;
        let mut totals = first.0.lock().clone();
        rest.iter().for_each(|stripe| totals.merge(&stripe.0.lock()));
        totals
    }

    fn calls(&self) -> u64 {
        self.stripes.iter().map(|stripe| stripe.0.lock().execute.count).sum()
    }
}

type Entries = FxHashMap<(Oid, i64), Entry>;
type Shard = RwLock<Entries>;

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
            shards: std::array::from_fn(|_| Shard::default()),
            shard_max: STATEMENTS_MAX / SHARDS,
            forgotten: AtomicU64::new(0),
            cleared_at: AtomicI64::new(0),
        }
    }
}

impl StatementRegistry {
    /// A session has run a statement of a role.
    pub(crate) fn note(&self, session: i32, user: Oid, statement: &Fingerprint, run: StatementRun) {
        let key = (user, statement.id);
        if let Some(entry) = self.shard(statement.id).read().get(&key) {
            return entry.note(session, &run);
        }
        let mut shard = self.shard(statement.id).write();
        if shard.len() >= self.shard_max && !shard.contains_key(&key) {
            forget_least_called(&mut shard);
            self.forgotten.fetch_add(1, Ordering::Relaxed);
        }
        shard.entry(key).or_insert_with(|| Entry::new(user, statement)).note(session, &run);
    }

    /// All that are kept.
    pub(crate) fn all(&self) -> Vec<StatementTotals> {
        self.shards
            .iter()
            .flat_map(|shard| shard.read().values().map(Entry::totals).collect::<Vec<_>>())
            .collect()
    }

    /// Forgets those of a role and with a number; 0: of any.
    pub(crate) fn clear(&self, user: Oid, id: i64, now: i64) {
        for shard in &self.shards {
            shard.write().retain(|key, _| (user != 0 && key.0 != user) || (id != 0 && key.1 != id));
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

fn forget_least_called(shard: &mut Entries) {
    let mut calls: Vec<u64> = shard.values().map(Entry::calls).collect();
    let mut left = (calls.len() / FORGOTTEN_PART).max(1);
    let (_, least, _) = calls.select_nth_unstable(left - 1);
    let least = *least;
    shard.retain(|_, entry| {
        let is_forgotten = left > 0 && entry.calls() <= least;
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
        for (session, time) in (1..).zip([2, 4, 4, 4, 5, 5, 7, 9]) {
            statements.note(session, 10, &statement(1), run(time));
        }
        statements.note(1, 11, &statement(1), run(1));
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
            statements.note(1, 10, &statement(id), run(1));
            statements.note(2, 10, &statement(-1), run(1));
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
            statements.note(7, user, &statement(id), run(1));
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
