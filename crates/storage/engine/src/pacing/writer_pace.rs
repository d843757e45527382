//! The way of a commit into the memtable: the commit pays the throttle, then reserves space or waits for space.
//!
//! Beyond five quarters of its limit, the memtable lets commits in only as chunks are finished, and beyond one and a half not
//! before a checkpoint has ended: that far it comes only if the disk stands still.

use std::time::Duration;

use crate::engine::Engine;
use crate::error::Error;
use crate::pacing::Fill;
use crate::transaction::lock_wait::LockPatience;

/// A row in the memtable, besides key and value: entry, version, and its share of the index.
const MEMTABLE_ROW_BYTES: u64 = 72;
/// Less is not worth counting: a thousand threads that are let in with as much at once are within the slack.
const RESERVED_MIN: u64 = 4 << 10;

/// Room in the memtable for a commit that has been let in and is not applied yet. Given back when this is dropped.
#[derive(Debug)]
#[must_use = "the room is given back when this is dropped"]
pub(crate) struct ReservedRoom<'e> {
    engine: &'e Engine,
    /// What the rows of the commit take; `None`: it waits for no room.
    needed: Option<u64>,
    /// What is counted in `MemtableRoom`.
    reserved: u64,
    patience: LockPatience<'e>,
}

impl<'e> ReservedRoom<'e> {
    /// A reservation for a record with few rows or none, which never waits for space.
    pub(crate) fn none(engine: &'e Engine) -> ReservedRoom<'e> {
        ReservedRoom { engine, needed: None, reserved: 0, patience: LockPatience::NONE }
    }

    /// Reserves the room again that was given back; waits until there is some.
    pub(crate) fn reserve(&mut self) -> Result<(), Error> {
        if let Some(needed) = self.needed {
            self.give_back();
            self.reserved = self.engine.wait_until_reserved(needed, self.patience)?;
        }
        Ok(())
    }

    /// Before a wait: what is waited for may need the room.
    pub(crate) fn give_back(&mut self) {
        let reserved = std::mem::take(&mut self.reserved);
        if reserved > 0 {
            self.engine.pacing.room.give_back(reserved);
        }
    }
}

impl Drop for ReservedRoom<'_> {
    fn drop(&mut self) {
        self.give_back();
    }
}

impl Engine {
    /// Makes sure that the memtable has room for the rows of a commit, slowing the caller down as the checkpoint needs. The
    /// room is reserved until what is returned is dropped: when the rows are in the memtable.
    pub(crate) fn admit_to_memtable<'e>(
        &'e self,
        bytes: u64,
        rows: u64,
        patience: LockPatience<'e>,
    ) -> Result<ReservedRoom<'e>, Error> {
        self.pacing.pay(bytes, self.appended(), || self.fill());
        let needed = Some(bytes + rows * MEMTABLE_ROW_BYTES);
        let mut room = ReservedRoom { engine: self, needed, reserved: 0, patience };
        room.reserve()?;
        Ok(room)
    }

    /// Memory and log that commits have filled by now.
    pub(crate) fn fill(&self) -> Fill {
        let view = self.view();
        let appended = self.appended();
        Fill {
            memtable_bytes: self.active_bytes(),
            memtable_limit: self.active_limit(),
            memtable_rows: u64::try_from(view.active.row_count()).unwrap_or(u64::MAX),
            appended,
            logged_rows: self.queue.logged_rows(),
            logged_bytes: appended.bytes_since(view.active_start),
            image_bytes: self.redo.image_bytes().saturating_sub(view.images_before),
            redo: self.redo_length(),
        }
    }

    /// Reserves room, as soon as there is some; how much is reserved.
    fn wait_until_reserved(&self, needed: u64, patience: LockPatience<'_>) -> Result<u64, Error> {
        let reached = self.limit_reached();
        if self.is_manual() {
            reached.map(|trigger| self.checkpoint(trigger)).transpose()?;
            return Ok(0);
        }
        if reached.is_some() {
            self.background.want_checkpoint();
        }
        if needed < RESERVED_MIN && (reached.is_none() || self.active_bytes() < self.active_limit()) {
            return Ok(0);
        }
        // The throttle aims at the limit; a quarter as much again is for what it cannot foresee.
        let hard_limit = self.active_limit() + self.active_limit() / 4;
        if !self.try_reserve(needed, hard_limit) {
            self.wait_for_room(needed, hard_limit, patience)?;
        }
        Ok(needed)
    }

    /// Reserves room, if the active memtable, with what others have reserved, is not over `limit`.
    fn try_reserve(&self, bytes: u64, limit: u64) -> bool {
        self.pacing.room.try_reserve(bytes, |reserved| {
            self.active_bytes().saturating_add(reserved) <= limit && self.fits_in_all(bytes, reserved)
        })
    }

    /// Whether the memory of all memtables suffices for a large commit beside the one that is being merged. Without that, it
    /// fits as well as it ever will. A small one never waits for this.
    fn fits_in_all(&self, bytes: u64, reserved: u64) -> bool {
        if bytes < self.active_limit() / 8 {
            return true;
        }
        let view = self.view();
        let Some(frozen) = view.unmerged() else { return true };
        let merging = count(frozen.memtable.bytes_used()).saturating_add(frozen.prepared.bytes());
        let all = merging.saturating_add(self.active_bytes()).saturating_add(reserved).saturating_add(bytes);
        all <= self.options.memory.memtable_bytes / 2 * 3
    }

    #[cold]
    fn wait_for_room(&self, bytes: u64, hard_limit: u64, patience: LockPatience<'_>) -> Result<(), Error> {
        let chunks = self.pacing.chunks();
        let before = self.clock().monotonic();
        loop {
            let seen = self.pacing.room.read();
            let moved = self.pacing.chunks() != chunks;
            let limit = if moved { self.active_limit() / 2 * 3 } else { hard_limit };
            if self.try_reserve(bytes, limit) {
                self.pacing.note_wait(self.clock().monotonic().saturating_sub(before));
                return Ok(());
            }
            // What others had reserved may have filled the memtable only now.
            if self.limit_reached().is_some() {
                self.background.want_checkpoint();
            }
            if let Some(error) = self.counters.last_checkpoint_error.lock().clone() {
                return Err(match error {
                    Error::DiskFull { .. } | Error::Stopped { .. } => error,
                    other => Error::CheckpointFailing { cause: other.to_string() },
                });
            }
            self.lifecycle.check_open()?;
            if patience.is_cancelled() {
                return Err(Error::Cancelled);
            }
            self.pacing.room.wait(seen, Duration::from_millis(50));
        }
    }
}

fn count(things: usize) -> u64 {
    u64::try_from(things).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use seawall_simulation::SimulatedDisk;

    use crate::checkpoint::statistics::Trigger;
    use crate::database::Database;
    use crate::environment::Environment;
    use crate::options::{Background, Options};
    use crate::transaction::lock_wait::LockPatience;

    #[test]
    fn a_checkpoint_begins_early_by_what_the_memtable_gets_while_runs_are_merged() {
        let options = Options::default().with(|options| {
            options.background = Background::Manual;
            options.memory.memtable_bytes = 8 << 20;
        });
        let environment = Environment::of_the_system(Arc::new(SimulatedDisk::new(1)));
        let database = Database::open(environment, options).unwrap();
        let (engine, table) = (database.engine(), database.create_table("t").unwrap());
        let limit = engine.active_limit();
        while engine.active_bytes() < limit / 4 * 3 {
            database.put(&table, engine.active_bytes().to_be_bytes(), [1; 1000]).unwrap();
        }
        let is_full = || engine.limit_reached() == Some(Trigger::MemtableFull);
        assert!(!is_full());
        engine.pacing.note_merge(limit / 8, limit);
        assert!(!is_full());
        engine.pacing.note_merge(limit * 2, limit);
        assert_eq!(engine.pacing.merge_fill(), limit / 2, "half of the memtable is used in any case");
        assert!(is_full());
        // Short merges let the next checkpoint begin later, step by step.
        engine.pacing.note_merge(limit / 3, limit);
        assert!(is_full());
        (0..3).for_each(|_| engine.pacing.note_merge(0, limit));
        assert!(!is_full());
    }

    #[test]
    fn who_waits_for_room_is_told_when_some_is_given_back() {
        let options = Options::default().with(|options| {
            options.background = Background::Threads;
            options.memory.memtable_bytes = 8 << 20;
        });
        let environment = Environment::of_the_system(Arc::new(SimulatedDisk::new(1)));
        let database = Database::open(environment, options).unwrap();
        let engine = database.engine();
        let mut room = engine.admit_to_memtable(1 << 20, 1, LockPatience::NONE).unwrap();
        let reserved = engine.pacing.room.reserved();
        assert!(reserved >= 1 << 20, "{reserved}");
        let seen = engine.pacing.room.read();
        room.give_back();
        assert_eq!(engine.pacing.room.reserved(), 0);
        assert_ne!(engine.pacing.room.read(), seen, "nobody was told");
        room.reserve().unwrap();
        assert_eq!(engine.pacing.room.reserved(), reserved);
        let seen = engine.pacing.room.read();
        drop(room);
        assert_eq!(engine.pacing.room.reserved(), 0);
        assert_ne!(engine.pacing.room.read(), seen, "nobody was told");
        database.close().unwrap();
    }
}
