//! Statistics of dropped tables: space that waits to be cut out of the tree, and space that was reclaimed.
//!
//! Drops are counted as they are logged (`reclaim_counters`). A checkpoint finds out what is really listed in `reclaim`, up to its
//! freeze point, and counting goes on from there.

use rustc_hash::FxHashSet;
use seawall_types::Lsn;

use crate::catalog::dropped_tables;
use crate::catalog::reclaim_counters::ReclaimStatistics;
use crate::catalog::{self, NameRow, ReclaimRow};
use crate::engine::Engine;
use crate::error::Error;
use crate::row_key;
use crate::snapshots::RegisteredSnapshot;
use crate::snapshots::scan::{Direction, Range, row_bounds};

impl Engine {
    pub(crate) fn reclaim_statistics(&self, page_bytes: u64) -> ReclaimStatistics {
        let counted = self.counted_reclaim_statistics(page_bytes);
        ReclaimStatistics { waiting: counted.waiting.or_else(|| self.find_waiting().ok()), ..counted }
    }

    /// As `reclaim_statistics`, without a look into the catalog.
    pub(crate) fn counted_reclaim_statistics(&self, page_bytes: u64) -> ReclaimStatistics {
        let counters = &self.counters.reclaim;
        counters.statistics(counters.waiting(), page_bytes)
    }

    /// Counts what waits, and remembers it if nothing was dropped meanwhile: there may be very many.
    fn find_waiting(&self) -> Result<u64, Error> {
        let counters = &self.counters.reclaim;
        let before = counters.given_up();
        let waiting = self.count_waiting()?;
        counters.found_waiting(waiting, before);
        Ok(waiting)
    }

    /// What is listed in `reclaim`, but for what is being loaded in bulk, and what memtables know as dropped.
    fn count_waiting(&self) -> Result<u64, Error> {
        self.lifecycle.check_open()?;
        let mut waiting = FxHashSet::default();
        for memtable in self.view().memtables(Lsn::MAX) {
            waiting.extend(dropped_tables::dropped_in(memtable)?.iter().map(|dropped| dropped.storage));
        }
        let (from, to) = row_bounds::<&[u8]>(catalog::RECLAIM, &..);
        let mut rows = Range::new(self, self.register_snapshot(), None, from, to, Direction::Forward);
        while let Some((key, _)) = rows.next_row()? {
            let storage = catalog::decode_storage(key)?;
            if !self.loads.is_loading(storage) {
                waiting.insert(storage);
            }
        }
        Ok(u64::try_from(waiting.len()).expect("a count fits into 64 bits"))
    }

    /// Objects that a snapshot sees as dropped and whose rows are still in `objects`.
    pub(crate) fn dropped_lately(&self, snapshot: &RegisteredSnapshot) -> Result<FxHashSet<u64>, Error> {
        let (from, to) = row_bounds::<&[u8]>(catalog::NAMES, &..);
        let names = self.register_snapshot_at(snapshot.lsn());
        let mut rows = Range::new(self, names, None, from, to, Direction::Forward);
        let mut dropped = FxHashSet::default();
        while let Some((name, row)) = rows.next_row()? {
            match NameRow::decode_key(&row_key::encode(catalog::NAMES, name), row)? {
                NameRow::Dropped { object, .. } => dropped.insert(object),
                NameRow::Table(_) => false,
            };
        }
        let (from, to) = row_bounds::<&[u8]>(catalog::RECLAIM, &..);
        let listed = self.register_snapshot_at(snapshot.lsn());
        let mut rows = Range::new(self, listed, None, from, to, Direction::Forward);
        while let Some((key, row)) = rows.next_row()? {
            if let ReclaimRow::Object { object, .. } = ReclaimRow::decode(catalog::decode_storage(key)?, row)?
            {
                dropped.insert(object);
            }
        }
        Ok(dropped)
    }
}
