//! Scans and changes of tables and indexes, since the server began.
//!
//! As in PostgreSQL, changes count when they are made: those of a transaction that is rolled back, too.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use parking_lot::RwLock;
use rustc_hash::FxHashMap;
use seawall_values::Oid;

use crate::catalog::source::Statistics;

/// Tables and indexes that are counted at a time, at most: about 10 MiB. Others count nothing until some of these are dropped.
const RELATIONS_MAX: usize = 1 << 16;

/// The counters of one table or index. Each is `Relaxed`: right on its own.
#[derive(Debug, Default)]
pub(crate) struct RelationCounters {
    /// Scans that were begun, and look-ups of single rows.
    pub(crate) scans: AtomicU64,
    /// Rows, or entries, that these have given.
    pub(crate) rows_read: AtomicU64,
    pub(crate) inserted: AtomicU64,
    pub(crate) updated: AtomicU64,
    pub(crate) deleted: AtomicU64,
    /// Of all rows changed, those that an `ANALYZE` has seen.
    changes_seen: AtomicU64,
    /// By whom it was asked for.
    pub(crate) analyzed: Analyzed,
    /// Without being asked for.
    pub(crate) automatically_analyzed: Analyzed,
}

/// How often a table was analyzed, and when last: microseconds since 2000-01-01 UTC.
#[derive(Debug, Default)]
pub(crate) struct Analyzed {
    count: AtomicU64,
    last: AtomicI64,
}

impl Analyzed {
    fn note(&self, at: i64) {
        self.last.store(at, Ordering::Relaxed);
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// The count, and the last moment.
    fn shown(&self) -> (u64, Option<i64>) {
        let count = self.count.load(Ordering::Relaxed);
        (count, (count > 0).then(|| self.last.load(Ordering::Relaxed)))
    }
}

impl RelationCounters {
    /// Rows changed in any way since the last `ANALYZE`, or the start of the server.
    pub(crate) fn changed(&self) -> u64 {
        self.changes().saturating_sub(self.changes_seen.load(Ordering::Relaxed))
    }

    /// Rows changed in any way since the start of the server.
    pub(crate) fn changes(&self) -> u64 {
        let counters = [&self.inserted, &self.updated, &self.deleted];
        counters.into_iter().map(|counter| counter.load(Ordering::Relaxed)).sum()
    }

    pub(crate) fn note_scan(&self, rows: u64) {
        self.scans.fetch_add(1, Ordering::Relaxed);
        self.rows_read.fetch_add(rows, Ordering::Relaxed);
    }

    pub(crate) fn note_insert(&self) {
        self.inserted.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn note_update(&self) {
        self.updated.fetch_add(1, Ordering::Relaxed);
    }

    /// An `ANALYZE` has seen so many of all changes.
    pub(crate) fn note_analyze(&self, changes: u64, at: i64, is_automatic: bool) {
        self.changes_seen.fetch_max(changes, Ordering::Relaxed);
        if is_automatic { &self.automatically_analyzed } else { &self.analyzed }.note(at);
    }

    pub(crate) fn note_delete(&self) {
        self.deleted.fetch_add(1, Ordering::Relaxed);
    }
}

/// Counts the rows of one scan, and adds them when it ends: a scan of many rows touches memory of others once.
#[derive(Debug)]
pub(crate) struct ScanCount {
    pub(crate) rows: u64,
    counters: Arc<RelationCounters>,
}

impl ScanCount {
    /// A scan begins.
    pub(crate) fn new(counters: &Arc<RelationCounters>) -> ScanCount {
        ScanCount { rows: 0, counters: Arc::clone(counters) }
    }
}

impl Drop for ScanCount {
    fn drop(&mut self) {
        self.counters.note_scan(self.rows);
    }
}

/// The counters of all relations, by their numbers.
#[derive(Debug)]
pub(crate) struct RelationRegistry {
    known: RwLock<FxHashMap<Oid, Arc<RelationCounters>>>,
    relations_max: usize,
}

impl Default for RelationRegistry {
    fn default() -> RelationRegistry {
        RelationRegistry { known: RwLock::default(), relations_max: RELATIONS_MAX }
    }
}

impl RelationRegistry {
    /// The counters of a relation that is about to be used.
    pub(crate) fn of(&self, relation: Oid) -> Arc<RelationCounters> {
        if let Some(known) = self.known.read().get(&relation) {
            return Arc::clone(known);
        }
        let mut known = self.known.write();
        if known.len() >= self.relations_max && !known.contains_key(&relation) {
            // Counts, but is not seen.
            return Arc::default();
        }
        Arc::clone(known.entry(relation).or_default())
    }

    /// The counters of a relation, if it was used.
    pub(crate) fn look(&self, relation: Oid) -> Option<Arc<RelationCounters>> {
        self.known.read().get(&relation).cloned()
    }

    /// What statistics show of a relation.
    pub(crate) fn shown(&self, relation: Oid) -> Statistics {
        let Some(known) = self.look(relation) else { return Statistics::default() };
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (analyzes, analyzed_at) = known.analyzed.shown();
        let (automatic_analyzes, automatically_analyzed_at) = known.automatically_analyzed.shown();
        Statistics {
            rows: None,
            bytes: 0,
            scans: read(&known.scans),
            rows_read: read(&known.rows_read),
            inserted: read(&known.inserted),
            updated: read(&known.updated),
            deleted: read(&known.deleted),
            changed: known.changed(),
            analyzes,
            automatic_analyzes,
            analyzed_at,
            automatically_analyzed_at,
        }
    }

    /// Tables of which more than so many rows have changed since their last `ANALYZE`, and how many; those with the most first.
    pub(crate) fn changed_by(&self, threshold: u64) -> Vec<(Oid, u64)> {
        let known = self.known.read();
        let changed = known.iter().map(|(oid, known)| (*oid, known.changed()));
        let mut changed: Vec<_> = changed.filter(|(_, changed)| *changed > threshold).collect();
        changed.sort_by_key(|(oid, changed)| (std::cmp::Reverse(*changed), *oid));
        changed
    }

    /// The sums of all that were used: rows read, inserted, updated and deleted. Entries of indexes count as rows read.
    pub(crate) fn sums(&self) -> [u64; 4] {
        let mut sums = [0; 4];
        for known in self.known.read().values() {
            let counters = [&known.rows_read, &known.inserted, &known.updated, &known.deleted];
            sums.iter_mut().zip(counters).for_each(|(sum, counter)| *sum += counter.load(Ordering::Relaxed));
        }
        sums
    }

    /// A relation was dropped.
    pub(crate) fn forget(&self, relation: Oid) {
        self.known.write().remove(&relation);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scan_counts_when_it_ends() {
        let relations = RelationRegistry::default();
        let mut scan = ScanCount::new(&relations.of(7));
        scan.rows += 3;
        assert_eq!(relations.of(7).rows_read.load(Ordering::Relaxed), 0);
        drop(scan);
        let known = relations.look(7).unwrap();
        assert_eq!((known.scans.load(Ordering::Relaxed), known.rows_read.load(Ordering::Relaxed)), (1, 3));
        assert!(relations.look(8).is_none());
    }

    #[test]
    fn more_relations_than_there_is_room_for_are_not_kept() {
        let relations = RelationRegistry { relations_max: 2, ..RelationRegistry::default() };
        (1..5).for_each(|relation| relations.of(relation).note_insert());
        assert_eq!(relations.known.read().len(), 2);
        relations.forget(1);
        relations.of(5).note_delete();
        assert!(relations.look(5).is_some());
    }
}
