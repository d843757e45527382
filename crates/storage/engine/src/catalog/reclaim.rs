//! Taking dropped tables out of the tree: their storages are listed in the system table `reclaim`, and cut out by a
//! checkpoint once no snapshot can see them.
//!
//! The row of `reclaim` goes with a commit of its own, after the redo point has passed the drop: no replay can bring
//! rows back that nobody reclaims.

use std::iter::Peekable;
use std::ops::Range;

use rustc_hash::FxHashSet;
use seawall_memtable::{Cursor, Memtable};
use seawall_types::{Lsn, TableId};

use crate::catalog::{self, ListedStorage};
use crate::checkpoint::statistics::Totals;
use crate::checkpoint::turn::CheckpointState;
use crate::engine::Engine;
use crate::error::Error;
use crate::options::Durability;
use crate::pacing::merge_pace::MergePace;
use crate::row_key;
use crate::runs::run::Run;
use crate::sabotage::{Defect, sabotaged};
use crate::snapshots::scan::{self, Direction};
use crate::snapshots::view::Frozen;
use crate::transaction::commit_request::CommitRequest;
use crate::transaction::lock_mode::LockMode;
use crate::transaction::lock_table::lock_name;
use crate::transaction::lock_wait::LockPatience;

/// Pages that one chunk gives back when dropped tables are cut out: their bits are a few pages of the space map.
const CUT_PAGES_MAX: u64 = 1 << 20;
/// Key ranges that one chunk cuts out at most: what it takes to plan does not grow with the number of dropped tables.
const CUT_RANGES_MAX: usize = 1 << 14;
/// Memory that the deletion of a row of `reclaim` takes.
const FORGOTTEN_BYTES: u64 = 128;

impl Engine {
    /// Storages that may be cut out now: dropped before the freeze, and no snapshot sees them.
    pub(crate) fn storages_to_reclaim(
        &self,
        state: &mut CheckpointState,
        frozen: &Frozen,
    ) -> Result<Vec<(TableId, Lsn)>, Error> {
        if state.reclaim.is_none() {
            state.reclaim = Some(self.storages_in_catalog(frozen)?);
        } else {
            let (listed, kept) = reclaim_rows(&frozen.memtable)?;
            let waiting = state.reclaim.get_or_insert_default();
            let kept: FxHashSet<TableId> = kept.into_iter().collect();
            waiting.retain(|found| !kept.contains(&found.storage));
            waiting.extend(listed);
        }
        let horizon = if sabotaged(Defect::CutUnderSnapshot) { Lsn::MAX } else { self.horizon() };
        let waiting = state.reclaim.get_or_insert_default();
        // A storage that was loaded in bulk is entered twice if its table is dropped: the drop is what counts.
        waiting.sort_unstable_by_key(|found| (found.storage, std::cmp::Reverse(found.listed)));
        waiting.dedup_by_key(|found| found.storage);
        // An attempt that failed has struck them off in this memtable, whose rows of theirs are still to be passed over.
        let mut wanted = state.struck_off.clone();
        let unseen = |dropped: Lsn| dropped <= frozen.end && dropped <= horizon;
        for ListedStorage { storage, listed: dropped, .. } in
            waiting.iter().filter(|found| unseen(found.listed) && !self.is_loaded_elsewhere(found))
        {
            // Storages that are being loaded are listed in case the load is never finished. Asked in this order: a
            // load that finished in between has deleted its row before it ceased to be loading.
            let loading = self.loads.is_loading(*storage);
            let key = catalog::reclaim_key(*storage);
            // One that changed after the freeze belonged to a table in between: the next checkpoint has the true stamp.
            let changed = || self.newest_stamp_after(&key, *dropped).is_some();
            if !loading && !changed() && self.read_row(&key, Lsn::MAX, |row| row.is_some())? {
                wanted.push((*storage, *dropped));
            }
            // What is forgotten afterwards goes into the active memtable, all at once.
            if count(wanted.len()) * FORGOTTEN_BYTES > self.active_limit() / 4 {
                self.counters.reclaim.leave_more();
                break;
            }
        }
        Ok(wanted)
    }

    /// Whether the primary may still be filling the storage: a standby knows only what is listed.
    fn is_loaded_elsewhere(&self, found: &ListedStorage) -> bool {
        found.is_filling && self.log.received().is_some()
    }

    /// All rows of `reclaim`, read once after open. Those in the tree were dropped before any snapshot of now.
    fn storages_in_catalog(&self, frozen: &Frozen) -> Result<Vec<ListedStorage>, Error> {
        let (from, to) = scan::row_bounds::<&[u8]>(catalog::RECLAIM, &..);
        let rows = scan::Range::new(self, self.register_snapshot(), None, from, to, Direction::Forward);
        let mut rows = rows.even_if_closed();
        let mut found = Vec::new();
        while let Some((key, row)) = rows.next_row()? {
            let storage = catalog::decode_storage(key)?;
            let dropped =
                frozen.memtable.newest_stamp(&catalog::reclaim_key(storage)).unwrap_or(frozen.start);
            let active = self.view().active.newest_stamp(&catalog::reclaim_key(storage));
            found.push(ListedStorage::new(storage, active.unwrap_or(dropped), row)?);
        }
        Ok(found)
    }

    /// Takes the rows of storages out of the tree and its runs, as many storages at a time as a chunk holds.
    pub(crate) fn cut_out(
        &self,
        storages: &[(TableId, Lsn)],
        pace: &mut MergePace<'_>,
        totals: &mut Totals,
    ) -> Result<(), Error> {
        let mut storages: Vec<TableId> = storages.iter().map(|(storage, _)| *storage).collect();
        storages.sort_unstable();
        storages.dedup();
        let mut runs = self.view().runs.to_vec();
        runs.sort_unstable_by_key(|run| run.number);
        let in_runs = runs.iter().flat_map(|run| ranges_in_run(run, &storages));
        self.cut_ranges(table_ranges(&storages).chain(in_runs), pace, totals)
    }

    /// Takes the rows of ranges, which ascend, out of the tree, as many ranges at a time as a chunk holds.
    pub(crate) fn cut_ranges(
        &self,
        ranges: impl Iterator<Item = Range<Vec<u8>>>,
        pace: &mut MergePace<'_>,
        totals: &mut Totals,
    ) -> Result<(), Error> {
        let mut left = ranges.peekable();
        while left.peek().is_some() {
            let mut ranges = next_ranges(&mut left);
            while !ranges.is_empty() {
                let budget_bytes = self.options.checkpoint.chunk_bytes;
                // Not the freeze point: a checkpoint that only cuts may have that of the one before, and a backup that was begun in
                // between takes what has changed since by the stamps of pages.
                let cut = self.tree.cut(&ranges, CUT_PAGES_MAX, budget_bytes, self.flushed());
                let cut = cut.map_err(|error| Error::tree(&error))?;
                if !cut.chunk.is_empty() {
                    self.apply_chunk(cut.chunk, None, totals)?;
                    pace.chunk_done(totals.rows, totals.written_bytes());
                }
                ranges = cut.rest;
            }
        }
        Ok(())
    }

    /// Deletes the rows of `reclaim` whose storages are gone, and counts them.
    pub(crate) fn forget_reclaimed(
        &self,
        state: &mut CheckpointState,
        frozen: &Frozen,
        gone: &[(TableId, Lsn)],
    ) -> Result<(), Error> {
        let mut forgotten = FxHashSet::default();
        for batch in gone.chunks(1000) {
            let owner = self.locks.new_owner();
            // One that is locked, or was entered again since, is some transaction's that wrote to the storage before it
            // was given up: it stays, and is cut out once more.
            let mut locked = Vec::new();
            for (storage, dropped) in batch {
                let key = catalog::reclaim_key(*storage);
                let name = lock_name(&key);
                if self.lock_one(owner, name, LockMode::AccessExclusive, LockPatience::NONE).is_err() {
                    continue;
                }
                if self.newest_stamp_after(&key, *dropped).is_some() {
                    self.locks.release(owner, name);
                    continue;
                }
                locked.push((key, name));
                forgotten.insert(*storage);
            }
            let request = CommitRequest::plain(owner, Durability::Async);
            let rows = locked.iter().map(|(key, _)| (&key[..], None));
            let logged =
                if locked.is_empty() { Ok(Lsn::ZERO) } else { self.log_commit_unthrottled(&request, rows) };
            locked.iter().for_each(|(_, name)| self.locks.release(owner, *name));
            logged?;
        }
        self.forget_waiting(state, frozen, &forgotten);
        Ok(())
    }

    /// On a standby, which logs nothing: deletes the rows of `reclaim` whose storages are gone in the chunk that moves the redo point
    /// past their drops. No replay brings them back from then on.
    pub(crate) fn strike_off(&self, state: &mut CheckpointState, frozen: &Frozen, gone: &[(TableId, Lsn)]) {
        state.struck_off = gone.to_vec();
        for (storage, _) in gone {
            frozen.memtable.insert(&catalog::reclaim_key(*storage), frozen.end, None, || Lsn::ZERO);
        }
    }

    /// After `strike_off`, when that chunk is applied.
    pub(crate) fn forget_struck_off(
        &self,
        state: &mut CheckpointState,
        frozen: &Frozen,
        gone: &[(TableId, Lsn)],
    ) {
        let forgotten = gone.iter().map(|(storage, _)| *storage).collect();
        self.forget_waiting(state, frozen, &forgotten);
    }

    fn forget_waiting(&self, state: &mut CheckpointState, frozen: &Frozen, forgotten: &FxHashSet<TableId>) {
        let waiting = state.reclaim.get_or_insert_default();
        waiting.retain(|found| !forgotten.contains(&found.storage));
        self.counters.reclaim.count_reclaimed(count(forgotten.len()));
        let loading = self.loads.storages();
        let is_left = |found: &&ListedStorage| {
            found.listed <= frozen.end
                && !loading.contains(&found.storage)
                && !self.is_loaded_elsewhere(found)
        };
        let left = waiting.iter().filter(is_left);
        self.counters.reclaim.left_waiting(left.map(|found| found.listed));
    }
}

fn count(things: usize) -> u64 {
    u64::try_from(things).expect("a count of things in memory fits into 64 bits")
}

/// The key ranges of storages, which ascend.
fn table_ranges(storages: &[TableId]) -> impl Iterator<Item = Range<Vec<u8>>> {
    storages.iter().map(|storage| {
        let (from, to) = row_key::table_range(*storage);
        from..to
    })
}

/// Where a run has rows of storages, which ascend. Segments of its filter stay until the run goes: one may have rows of other storages, too.
fn ranges_in_run(run: &Run, storages: &[TableId]) -> impl Iterator<Item = Range<Vec<u8>>> {
    let storages = storages.iter().filter(|storage| run.may_have_rows_of(**storage));
    storages.map(|storage| {
        let (from, to) = row_key::table_range(*storage);
        run.key_of(&from)..run.key_of(&to)
    })
}

/// The next ranges for a chunk, neighbours made one.
fn next_ranges(left: &mut Peekable<impl Iterator<Item = Range<Vec<u8>>>>) -> Vec<Range<Vec<u8>>> {
    let mut ranges: Vec<Range<Vec<u8>>> = Vec::new();
    while let Some(next) = left.peek() {
        let is_full = ranges.len() == CUT_RANGES_MAX;
        match ranges.last_mut() {
            Some(last) if last.end == next.start => last.end.clone_from(&next.end),
            _ if is_full => break,
            _ => ranges.push(next.clone()),
        }
        left.next();
    }
    ranges
}

/// Storages that a memtable enters into `reclaim`, and storages that it takes out.
fn reclaim_rows(memtable: &Memtable) -> Result<(Vec<ListedStorage>, Vec<TableId>), Error> {
    let (from, to) = row_key::table_range(catalog::RECLAIM);
    let mut cursor = Cursor::new();
    cursor.seek(memtable, &from);
    let (mut entered, mut taken_out) = (Vec::new(), Vec::new());
    while let Some((key, versions)) = cursor.next(memtable) {
        if key >= &to[..] {
            break;
        }
        let storage = TableId::new(catalog::decode_id_key(key)?);
        match versions.newest() {
            (stamp, Some(row)) => entered.push(ListedStorage::new(storage, stamp, row)?),
            (_, None) => taken_out.push(storage),
        }
    }
    Ok((entered, taken_out))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_cut_as_one_range_and_no_chunk_gets_too_many() {
        let neighbours: Vec<TableId> = (100..100_000).map(TableId::new).collect();
        let mut left = table_ranges(&neighbours).peekable();
        let whole = row_key::table_range(TableId::new(100)).0..row_key::table_range(TableId::new(99_999)).1;
        assert_eq!(next_ranges(&mut left), [whole]);
        assert_eq!(left.next(), None);
        let apart: Vec<TableId> = (0..40_000).map(|number| TableId::new(100 + 2 * number)).collect();
        let (mut left, mut counts) = (table_ranges(&apart).peekable(), Vec::new());
        while left.peek().is_some() {
            counts.push(next_ranges(&mut left).len());
        }
        assert_eq!(counts, [CUT_RANGES_MAX, CUT_RANGES_MAX, 40_000 - 2 * CUT_RANGES_MAX]);
    }
}
