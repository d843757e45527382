//! The newest versions in a frozen memtable, in key order, as changes to the tree.
//!
//! What a merge replaces in the tree is kept behind the row's versions, as their base, for old snapshots. If an older
//! memtable still knows the row, the base is stamped with the end of that one: snapshots before it go on to the older
//! one. Otherwise the row has not changed since before the oldest snapshot that is not cancelled, and the base is stamped
//! right above the cancelled ones: a reader whose snapshot was cancelled while it was reading may still come here, with an
//! older view that has the memtables that were dropped since, and must go on to them.
//!
//! The rows may be divided by key among threads: each row is then merged, and gets its base, by one of them.

use std::ops::Range;
use std::sync::Arc;

use seawall_memtable::{Cursor, Lookup, Memtable, Versions};
use seawall_tree::{Change, DivisibleSource, MergeSource};
use seawall_types::{Lsn, TableId};

use crate::catalog::dropped_tables;
use crate::catalog::{self, FIRST_USER_TABLE};
use crate::in_doubt::rows::PREPARED;
use crate::row_key;
use crate::sabotage::{Defect, sabotaged};
use crate::snapshots::view::Frozen;

/// What a value that is kept takes beyond its bytes, about.
const REPLACED_OVERHEAD_BYTES: usize = 40;

/// Fewer rows are not worth dividing: several threads would wait for one another, and for a chunk more.
const PART_ROWS_MIN: usize = 1_000;

/// Who keeps what a merge replaces in the tree, and how much of it.
pub(crate) trait KeepReplaced: Sync {
    /// Whether a snapshot needs what is replaced; once that is false it stays so, for this memtable.
    fn is_needed(&self) -> bool;

    /// Whether another `bytes` bytes may be kept. If not, no snapshot needs them, or one that did is cancelled.
    fn admits(&self, bytes: u64) -> bool;
}

/// See the module.
pub(crate) struct FrozenRows<'a> {
    memtable: &'a Memtable,
    /// Every commit in the memtable is stamped later than this.
    start: Lsn,
    cursor: Cursor,
    current: Option<(&'a [u8], Option<&'a [u8]>)>,
    /// No row before it is taken.
    from: Vec<u8>,
    /// First key that is not taken.
    end: Option<Vec<u8>>,
    /// Only rows of these ranges are taken, which ascend; `None`: of all keys.
    ranges: Option<Arc<[Range<Vec<u8>>]>>,
    /// The first of them that may have rows from the one at hand on.
    range_index: usize,
    /// Storages whose rows are about to be cut out, ascending.
    skipped: Vec<TableId>,
    keeper: Option<&'a dyn KeepReplaced>,
    /// Snapshots up to this stamp are cancelled.
    snapshot_floor: Lsn,
    /// Memtables that were merged before and are kept for old snapshots, newest first.
    older: Vec<Frozen>,
    taken: u64,
}

impl<'a> FrozenRows<'a> {
    /// Rows of users' tables, without those of `skipped` storages.
    pub(crate) fn of_users(memtable: &'a Memtable, start: Lsn, mut skipped: Vec<TableId>) -> FrozenRows<'a> {
        skipped.sort_unstable();
        FrozenRows::new(memtable, start, &first_user_key(), None, skipped, None)
    }

    /// Rows of system tables.
    pub(crate) fn of_system(memtable: &'a Memtable, start: Lsn) -> FrozenRows<'a> {
        FrozenRows::new(memtable, start, &[], Some(first_user_key()), Vec::new(), None)
    }

    /// The rows of the system tables that list the tables.
    pub(crate) fn of_catalog(memtable: &'a Memtable, start: Lsn) -> FrozenRows<'a> {
        FrozenRows::new(memtable, start, &[], Some(first_key_behind_catalog()), Vec::new(), None)
    }

    /// Rows of the other system tables.
    pub(crate) fn of_system_behind_catalog(memtable: &'a Memtable, start: Lsn) -> FrozenRows<'a> {
        FrozenRows::new(
            memtable,
            start,
            &first_key_behind_catalog(),
            Some(first_user_key()),
            Vec::new(),
            None,
        )
    }

    fn new(
        memtable: &'a Memtable,
        start: Lsn,
        from: &[u8],
        end: Option<Vec<u8>>,
        skipped: Vec<TableId>,
        ranges: Option<Arc<[Range<Vec<u8>>]>>,
    ) -> FrozenRows<'a> {
        let mut cursor = Cursor::new();
        cursor.seek(memtable, from);
        let mut rows = FrozenRows {
            memtable,
            start,
            cursor,
            current: None,
            from: from.to_vec(),
            end,
            ranges,
            range_index: 0,
            skipped,
            keeper: None,
            snapshot_floor: Lsn::ZERO,
            older: Vec::new(),
            taken: 0,
        };
        rows.step();
        rows.skip_unwanted();
        rows
    }

    /// Only the rows of `ranges`, which ascend and do not overlap. None of them must be taken yet.
    pub(crate) fn within(self, ranges: Vec<Range<Vec<u8>>>) -> FrozenRows<'a> {
        let all = FrozenRows { ranges: Some(ranges.into()), ..self };
        all.part(&all.from, all.end.clone())
    }

    /// From now on what the merge replaces is kept, behind the row's versions, for snapshots older than the freeze point and
    /// above `snapshot_floor`, as far as `keeper` says. `older` are the memtables that were merged before this one and are
    /// kept for old snapshots, newest first.
    pub(crate) fn keep_bases(
        &mut self,
        keeper: &'a dyn KeepReplaced,
        snapshot_floor: Lsn,
        older: Vec<Frozen>,
    ) {
        self.keeper = Some(keeper).filter(|_| !sabotaged(Defect::ReplacedValueNotKept));
        self.snapshot_floor = snapshot_floor;
        self.older = older;
    }

    /// Takes all rows, and gives none.
    pub(crate) fn skip_all(&mut self) {
        self.current = None;
    }

    /// Whether all rows are taken.
    pub(crate) fn is_done(&self) -> bool {
        self.current.is_none()
    }

    /// Whether there are more than `count` rows; walks over so many.
    pub(crate) fn are_more_than(mut self, count: u64) -> bool {
        for _ in 0..count {
            self.step();
        }
        !self.is_done()
    }

    /// Rows taken so far.
    pub(crate) fn taken(&self) -> u64 {
        self.taken
    }

    /// Rows taken so far from all `parts`.
    pub(crate) fn taken_of(parts: &[FrozenRows<'_>]) -> u64 {
        parts.iter().map(FrozenRows::taken).sum()
    }

    /// The rows from `from` to `end`, none of them taken.
    fn part(&self, from: &[u8], end: Option<Vec<u8>>) -> FrozenRows<'a> {
        let (skipped, ranges) = (self.skipped.clone(), self.ranges.clone());
        let rows = FrozenRows::new(self.memtable, self.start, from, end, skipped, ranges);
        FrozenRows {
            keeper: self.keeper,
            snapshot_floor: self.snapshot_floor,
            older: self.older.clone(),
            ..rows
        }
    }

    /// The stamp of a base: every snapshot from it on, up to the memtable's own versions, sees it.
    fn base_stamp(&self, known_end: Lsn) -> Lsn {
        let above_cancelled = match self.snapshot_floor {
            Lsn::ZERO => Lsn::ZERO,
            floor => Lsn::new(floor.get() + 1),
        };
        // What the tree holds is right for a snapshot at the memtable's start, whatever is cancelled.
        known_end.max(above_cancelled).min(self.start)
    }

    fn step(&mut self) {
        let next = self.next_in_ranges();
        self.current = next
            .filter(|(key, _)| self.end.as_ref().is_none_or(|end| *key < &end[..]))
            .map(|(key, versions)| (key, dropped_tables::as_merged(key, versions.newest().1)));
    }

    /// The next row of the memtable that is in one of the ranges.
    fn next_in_ranges(&mut self) -> Option<(&'a [u8], Versions<'a>)> {
        let mut next = self.cursor.next(self.memtable)?;
        let Some(ranges) = &self.ranges else { return Some(next) };
        loop {
            let passed = |range: &&Range<Vec<u8>>| range.end.as_slice() <= next.0;
            self.range_index += ranges[self.range_index..].iter().take_while(passed).count();
            let range = ranges.get(self.range_index)?;
            if next.0 >= range.start.as_slice() {
                return Some(next);
            }
            self.cursor.seek(self.memtable, &range.start);
            next = self.cursor.next(self.memtable)?;
        }
    }

    fn skip_unwanted(&mut self) {
        while let Some((key, _)) = self.current {
            let skipped =
                row_key::table_of(key).is_some_and(|table| self.skipped.binary_search(&table).is_ok());
            if !skipped {
                return;
            }
            self.taken += 1;
            self.step();
        }
    }
}

/// Names and objects are the first two system tables.
fn first_key_behind_catalog() -> Vec<u8> {
    row_key::table_range(catalog::RECLAIM).0
}

pub(crate) fn first_user_key() -> Vec<u8> {
    row_key::encode(TableId::new(FIRST_USER_TABLE), b"")
}

impl DivisibleSource for FrozenRows<'_> {
    fn dividing_keys(&self, parts: usize) -> Vec<Vec<u8>> {
        let Some((next, _)) = self.current else { return Vec::new() };
        let parts = parts.min(self.memtable.row_count() / PART_ROWS_MIN);
        let keys = self.memtable.dividing_keys(next, self.end.as_deref(), parts);
        keys.into_iter().map(<[u8]>::to_vec).collect()
    }

    fn split_off(&mut self, key: &[u8]) -> Self {
        assert!(key > &self.from[..], "a part begins behind the one before");
        let rest = self.part(key, self.end.clone());
        // Anew: it may have skipped rows that are the other part's now.
        *self = self.part(&self.from, Some(key.to_vec()));
        rest
    }
}

impl MergeSource for FrozenRows<'_> {
    fn peek(&self) -> Option<(&[u8], Change<'_>)> {
        let (key, value) = self.current?;
        Some((key, value.map_or(Change::Delete, Change::Put)))
    }

    fn advance(&mut self) {
        self.taken += 1;
        self.step();
        if !self.skipped.is_empty() {
            self.skip_unwanted();
        }
    }

    fn look_ahead(&self, visit: &mut dyn FnMut(&[u8]) -> bool) {
        let Some((key, _)) = self.current else { return };
        let mut ahead = self.part(key, self.end.clone());
        while let Some((key, _)) = ahead.current
            && visit(key)
        {
            ahead.advance();
        }
    }

    fn keep_replaced(&self) -> bool {
        self.keeper.is_some_and(KeepReplaced::is_needed)
    }

    fn replaced(&mut self, key: &[u8], value: Option<&[u8]>) {
        // No snapshot reads in-doubt transactions, and their write sets may be long.
        if row_key::table_of(key) == Some(PREPARED) {
            return;
        }
        // After an attempt that failed, the row may have its base already; the tree may show what the attempt put.
        let has_base = self
            .memtable
            .versions(key)
            .is_some_and(|versions| !matches!(versions.visible(self.start), Lookup::Missing));
        let bytes = REPLACED_OVERHEAD_BYTES + value.map_or(0, <[u8]>::len);
        let bytes = u64::try_from(bytes).expect("a value fits into memory");
        if !has_base && self.keeper.is_some_and(|keeper| keeper.admits(bytes)) {
            let known = self.older.iter().find(|older| older.memtable.newest_stamp(key).is_some());
            let known_end = known.map_or(Lsn::ZERO, |older| older.end);
            self.memtable.add_base(key, self.base_stamp(known_end), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use seawall_simulation::{SeededRandom, seeds};

    use super::*;

    #[test]
    fn parts_hold_the_rows_of_users_and_each_once() {
        let memtable = Memtable::new(1 << 20);
        let mut users = Vec::new();
        for number in 0..9_000_u64 {
            let table =
                TableId::new(if number % 2 == 0 { FIRST_USER_TABLE - 1 } else { FIRST_USER_TABLE + 3 });
            let key = row_key::encode(table, &number.to_be_bytes());
            memtable.insert(&key, Lsn::new(1), Some(b"value"), || Lsn::ZERO);
            if number % 2 == 1 {
                users.push(key);
            }
        }
        // The first and the last rows of users' tables are skipped, more than a part's worth of each.
        let skipped = vec![TableId::new(FIRST_USER_TABLE), TableId::new(FIRST_USER_TABLE + 9)];
        for table in &skipped {
            for number in 0..4_000_u64 {
                let key = row_key::encode(*table, &number.to_be_bytes());
                memtable.insert(&key, Lsn::new(1), Some(b"value"), || Lsn::ZERO);
            }
        }
        let rows = FrozenRows::of_users(&memtable, Lsn::ZERO, skipped);
        let keys = rows.dividing_keys(7);
        assert_eq!(keys.len(), 6);
        let mut parts = vec![rows];
        for key in keys {
            let rest = parts.last_mut().unwrap().split_off(&key);
            parts.push(rest);
        }
        let mut found = Vec::new();
        for part in &mut parts {
            while let Some((key, _)) = part.peek() {
                found.push(key.to_vec());
                part.advance();
            }
        }
        assert_eq!(found, users);
        assert_eq!(FrozenRows::taken_of(&parts), 4_500 + 2 * 4_000);
    }

    #[test]
    fn rows_within_ranges_are_those_of_a_model() {
        for seed in seeds(50) {
            let mut random = SeededRandom::new(seed);
            let memtable = Memtable::new(1 << 20);
            let key_of =
                |number: u64| row_key::encode(TableId::new(FIRST_USER_TABLE), &number.to_be_bytes()[6..]);
            let mut keys: Vec<Vec<u8>> =
                (0..random.below(3_000)).map(|_| key_of(random.below(4_000))).collect();
            for key in &keys {
                memtable.insert(key, Lsn::new(1), Some(b"value"), || Lsn::ZERO);
            }
            keys.sort();
            keys.dedup();
            let count = usize::try_from(random.below(10)).unwrap();
            let mut bounds: Vec<u64> = (0..2 * count).map(|_| random.below(4_100)).collect();
            bounds.sort_unstable();
            let ranges: Vec<Range<Vec<u8>>> =
                bounds.chunks(2).map(|pair| key_of(pair[0])..key_of(pair[1])).collect();
            keys.retain(|key| ranges.iter().any(|range| range.contains(key)));
            let mut rows = FrozenRows::of_users(&memtable, Lsn::ZERO, Vec::new()).within(ranges.clone());
            let mut parts = Vec::new();
            // Divided among threads, too.
            for key in rows.dividing_keys(usize::try_from(random.below(3)).unwrap()) {
                if rows.peek().is_some_and(|(first, _)| *first < key[..]) {
                    let rest = rows.split_off(&key);
                    parts.push(std::mem::replace(&mut rows, rest));
                }
            }
            parts.push(rows);
            let mut found = Vec::new();
            for part in &mut parts {
                while let Some((key, _)) = part.peek() {
                    found.push(key.to_vec());
                    part.advance();
                }
            }
            assert_eq!(found, keys, "seed {seed}");
            assert_eq!(FrozenRows::taken_of(&parts), keys.len() as u64, "seed {seed}");
        }
    }

    struct All;

    impl KeepReplaced for All {
        fn is_needed(&self) -> bool {
            true
        }

        fn admits(&self, _bytes: u64) -> bool {
            true
        }
    }

    #[test]
    fn a_cancelled_snapshot_does_not_see_what_is_kept_for_younger_ones() {
        let memtable = Memtable::new(0);
        let key = row_key::encode(TableId::new(FIRST_USER_TABLE), b"k");
        memtable.insert(&key, Lsn::new(30), Some(b"new"), || Lsn::ZERO);
        let mut rows = FrozenRows::of_users(&memtable, Lsn::new(20), Vec::new());
        rows.keep_bases(&All, Lsn::new(10), Vec::new());
        rows.replaced(&key, Some(b"old"));
        assert_eq!(
            memtable.get(&key, Lsn::new(10)),
            Lookup::Missing,
            "an older memtable, or the tree, knows"
        );
        assert_eq!(memtable.get(&key, Lsn::new(11)), Lookup::Value(b"old"));
        // All snapshots before the memtable are cancelled, and some that see a part of it.
        let other = row_key::encode(TableId::new(FIRST_USER_TABLE), b"l");
        memtable.insert(&other, Lsn::new(25), Some(b"new"), || Lsn::ZERO);
        rows.keep_bases(&All, Lsn::new(27), Vec::new());
        rows.replaced(&other, Some(b"old"));
        assert_eq!(memtable.get(&other, Lsn::new(28)), Lookup::Value(b"new"));
        assert_eq!(memtable.get(&other, Lsn::new(20)), Lookup::Value(b"old"));
        assert_eq!(memtable.get(&other, Lsn::new(19)), Lookup::Missing);
    }

    #[test]
    #[should_panic(expected = "a part begins behind the one before")]
    fn no_part_begins_among_the_rows_of_the_system() {
        let memtable = Memtable::new(0);
        for table in [FIRST_USER_TABLE - 1, FIRST_USER_TABLE] {
            memtable.insert(&row_key::encode(TableId::new(table), b"k"), Lsn::new(1), None, || Lsn::ZERO);
        }
        let mut rows = FrozenRows::of_users(&memtable, Lsn::ZERO, Vec::new());
        let _rest = rows.split_off(&row_key::encode(TableId::new(FIRST_USER_TABLE - 1), b""));
    }
}
