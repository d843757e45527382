//! Taking dropped tables out of the tree: their storages are listed in the system table `reclaim`, and cut out by a
//! checkpoint once no snapshot can see them.
//!
//! The row of `reclaim` goes with a commit of its own, after the redo point has passed the drop: no replay can bring
//! rows back that nobody reclaims.

use rustc_hash::FxHashSet;
use seawall_memtable::{Cursor, Memtable};
use seawall_types::{Lsn, TableId};

use crate::catalog;
use crate::checkpoint::CheckpointState;
use crate::checkpoint_statistics::Totals;
use crate::commit::CommitRequest;
use crate::engine::Engine;
use crate::error::Error;
use crate::lock_table::{LockWait, lock_name};
use crate::options::Durability;
use crate::row_key;
use crate::scan::{Direction, Range};
use crate::view::Frozen;

/// Pages that one chunk gives back when dropped tables are cut out: their bits are a few pages of the space map.
const CUT_PAGES_MAX: u64 = 1 << 20;

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
            let (dropped, kept) = reclaim_rows(&frozen.memtable)?;
            let waiting = state.reclaim.get_or_insert_default();
            let kept: FxHashSet<TableId> = kept.into_iter().collect();
            waiting.retain(|(storage, _)| !kept.contains(storage));
            waiting.extend(dropped);
        }
        let horizon = self.horizon();
        let waiting = state.reclaim.get_or_insert_default();
        // A storage that was loaded in bulk is entered twice if its table is dropped: the drop is what counts.
        waiting.sort_unstable_by_key(|(storage, dropped)| (*storage, std::cmp::Reverse(*dropped)));
        waiting.dedup_by_key(|(storage, _)| *storage);
        let unseen = |dropped: Lsn| dropped <= frozen.end && dropped <= horizon;
        let mut wanted = Vec::new();
        for (storage, dropped) in waiting.iter().filter(|(_, dropped)| unseen(*dropped)) {
            // Storages that are being loaded are listed in case the load is never finished. Asked in this order: a
            // load that finished in between has deleted its row before it ceased to be loading.
            let loading = self.loading.lock().contains(storage);
            if !loading && self.read_row(&catalog::reclaim_key(*storage), Lsn::MAX, |row| row.is_some())? {
                wanted.push((*storage, *dropped));
            }
        }
        Ok(wanted)
    }

    /// All rows of `reclaim`, read once after open. Those in the tree were dropped before any snapshot of now.
    fn storages_in_catalog(&self, frozen: &Frozen) -> Result<Vec<(TableId, Lsn)>, Error> {
        let (from, to) = crate::scan::row_bounds::<&[u8]>(catalog::RECLAIM, &..);
        let rows = Range::new(self, self.register_snapshot(), None, from, to, Direction::Forward);
        let mut rows = rows.even_if_closed();
        let mut found = Vec::new();
        while let Some((key, _)) = rows.next_row()? {
            let storage = TableId::new(catalog::decode_id_key(&row_key::encode(catalog::RECLAIM, key))?);
            let dropped =
                frozen.memtable.newest_stamp(&catalog::reclaim_key(storage)).unwrap_or(frozen.start);
            let active = self.view().active.newest_stamp(&catalog::reclaim_key(storage));
            found.push((storage, active.unwrap_or(dropped)));
        }
        Ok(found)
    }

    /// Takes the rows of storages out of the tree, as many storages at a time as a chunk holds.
    pub(crate) fn cut_out(
        &self,
        storages: &[(TableId, Lsn)],
        stamp: Lsn,
        totals: &mut Totals,
    ) -> Result<(), Error> {
        let mut storages: Vec<TableId> = storages.iter().map(|(storage, _)| *storage).collect();
        storages.sort_unstable();
        storages.dedup();
        let mut ranges: Vec<_> =
            storages.into_iter().map(row_key::table_range).map(|(from, to)| from..to).collect();
        while !ranges.is_empty() {
            let budget_bytes = self.options.checkpoint_chunk_bytes;
            let cut = self.tree.cut(&ranges, CUT_PAGES_MAX, budget_bytes, stamp);
            let cut = cut.map_err(|error| Error::tree(&error))?;
            if !cut.chunk.is_empty() {
                self.apply_chunk(cut.chunk, None, totals)?;
            }
            ranges = cut.rest;
        }
        Ok(())
    }

    /// Deletes the rows of `reclaim` whose storages are gone.
    pub(crate) fn forget_reclaimed(
        &self,
        state: &mut CheckpointState,
        gone: &[(TableId, Lsn)],
    ) -> Result<(), Error> {
        let mut forgotten = FxHashSet::default();
        for batch in gone.chunks(1000) {
            let owner = self.new_lock_owner();
            // One that is locked, or was entered again since, is some transaction's that wrote to the storage before it
            // was given up: it stays, and is cut out once more.
            let mut locked = Vec::new();
            for (storage, dropped) in batch {
                let key = catalog::reclaim_key(*storage);
                let name = lock_name(&key);
                if self.lock_one(owner, name, LockWait::NoWait).is_err() {
                    continue;
                }
                if self.newest_stamp(&key).is_some_and(|stamp| stamp > *dropped) {
                    self.locks.release(owner, name);
                    continue;
                }
                locked.push((key, name));
                forgotten.insert(*storage);
            }
            let request = CommitRequest {
                tables: &[],
                definitions: &[],
                reads: &[],
                snapshot: Lsn::ZERO,
                durability: Durability::Async,
            };
            let rows = locked.iter().map(|(key, _)| (&key[..], None));
            let logged =
                if locked.is_empty() { Ok(Lsn::ZERO) } else { self.log_commit_unthrottled(&request, rows) };
            locked.iter().for_each(|(_, name)| self.locks.release(owner, *name));
            logged?;
        }
        state.reclaim.get_or_insert_default().retain(|(storage, _)| !forgotten.contains(storage));
        Ok(())
    }
}

/// Storages that a memtable enters into `reclaim`, with the stamps, and storages that it takes out.
#[expect(clippy::type_complexity, reason = "two lists")]
fn reclaim_rows(memtable: &Memtable) -> Result<(Vec<(TableId, Lsn)>, Vec<TableId>), Error> {
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
            (stamp, Some(_)) => entered.push((storage, stamp)),
            (_, None) => taken_out.push(storage),
        }
    }
    Ok((entered, taken_out))
}
