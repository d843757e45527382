//! The newest versions in a frozen memtable, in key order, as changes to the tree.
//!
//! What a merge replaces in the tree is kept behind the row's versions, as their base, for old snapshots. If an older
//! memtable still knows the row, the base is stamped with the end of that one: snapshots before it go on to the older
//! one. Otherwise the row has not changed since before the oldest snapshot, and the base is stamped zero.
//!
//! The rows may be divided by key among threads: each row is then merged, and gets its base, by one of them.

use seawall_memtable::{Cursor, Lookup, Memtable};
use seawall_tree::{Change, DivisibleSource, MergeSource};
use seawall_types::{Lsn, TableId};

use crate::catalog::FIRST_USER_TABLE;
use crate::row_key;
use crate::view::Frozen;

/// Fewer rows are not worth dividing: several threads would wait for one another, and for a chunk more.
const PART_ROWS_MIN: usize = 1_000;

/// See the module.
pub(crate) struct FrozenRows<'a> {
    memtable: &'a Memtable,
    /// Every commit in the memtable is stamped later than this.
    start: Lsn,
    cursor: Cursor,
    current: Option<(&'a [u8], Option<&'a [u8]>)>,
    /// First key that is not taken.
    end: Option<Vec<u8>>,
    /// Storages whose rows are about to be cut out, ascending.
    skipped: Vec<TableId>,
    keep_replaced: bool,
    /// Memtables that were merged before and are kept for old snapshots, newest first.
    older: Vec<Frozen>,
    taken: u64,
}

impl<'a> FrozenRows<'a> {
    /// Rows of users' tables, without those of `skipped` storages.
    pub(crate) fn of_users(memtable: &'a Memtable, start: Lsn, mut skipped: Vec<TableId>) -> FrozenRows<'a> {
        skipped.sort_unstable();
        FrozenRows::new(memtable, start, &first_user_key(), None, skipped)
    }

    /// Rows of system tables.
    pub(crate) fn of_system(memtable: &'a Memtable, start: Lsn) -> FrozenRows<'a> {
        FrozenRows::new(memtable, start, &[], Some(first_user_key()), Vec::new())
    }

    fn new(
        memtable: &'a Memtable,
        start: Lsn,
        from: &[u8],
        end: Option<Vec<u8>>,
        skipped: Vec<TableId>,
    ) -> FrozenRows<'a> {
        let mut rows = FrozenRows::starting_at(memtable, start, from, end, skipped);
        rows.step();
        rows.skip_unwanted();
        rows
    }

    fn starting_at(
        memtable: &'a Memtable,
        start: Lsn,
        from: &[u8],
        end: Option<Vec<u8>>,
        skipped: Vec<TableId>,
    ) -> FrozenRows<'a> {
        let mut cursor = Cursor::new();
        cursor.seek(memtable, from);
        FrozenRows {
            memtable,
            start,
            cursor,
            current: None,
            end,
            skipped,
            keep_replaced: false,
            older: Vec::new(),
            taken: 0,
        }
    }

    /// Tells of memtables that were merged before this one and are kept for old snapshots, newest first.
    pub(crate) fn behind(mut self, older: Vec<Frozen>) -> FrozenRows<'a> {
        self.older = older;
        self
    }

    /// Whether what the merge replaces is kept, behind the row's versions, for a snapshot older than the freeze point.
    pub(crate) fn keep_replaced(&mut self, keep: bool) {
        self.keep_replaced = keep;
    }

    /// Rows taken so far.
    pub(crate) fn taken(&self) -> u64 {
        self.taken
    }

    /// Rows taken so far from all `parts`.
    pub(crate) fn taken_of(parts: &[FrozenRows<'_>]) -> u64 {
        parts.iter().map(FrozenRows::taken).sum()
    }

    fn step(&mut self) {
        let next = self.cursor.next(self.memtable);
        self.current = next
            .filter(|(key, _)| self.end.as_ref().is_none_or(|end| *key < &end[..]))
            .map(|(key, versions)| (key, versions.newest().1));
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

fn first_user_key() -> Vec<u8> {
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
        let end = self.end.replace(key.to_vec());
        let mut rest = FrozenRows::starting_at(self.memtable, self.start, key, end, self.skipped.clone());
        rest.keep_replaced = self.keep_replaced;
        rest.older.clone_from(&self.older);
        rest.step();
        rest.skip_unwanted();
        self.current = self.current.filter(|(current, _)| *current < key);
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

    fn keep_replaced(&self) -> bool {
        self.keep_replaced
    }

    fn replaced(&mut self, key: &[u8], value: Option<&[u8]>) {
        // After an attempt that failed, the row may have its base already; the tree may show what the attempt put.
        let has_base = self
            .memtable
            .versions(key)
            .is_some_and(|versions| !matches!(versions.visible(self.start), Lookup::Missing));
        if !has_base {
            let known = self.older.iter().find(|older| older.memtable.newest_stamp(key).is_some());
            self.memtable.add_base(key, known.map_or(Lsn::ZERO, |older| older.end), value);
        }
    }
}
