//! The checkpoint: freezes the active memtable and merges it into the tree while writers go on.
//!
//! ```text
//!   freeze --> flush the log --> merge users' rows, chunk by chunk --> cut dropped tables out
//!          --> last chunk: system rows and the new redo point --> release the memtable --> let the log be cleaned up
//! ```
//! Invariants:
//! * No chunk is applied before the log is flushed past every commit in the memtable, so no page ever holds a change
//!   whose record is not durable.
//! * The system rows are merged in the chunk that advances the redo point, and in no other; but for names and objects of
//!   tables, see `catalog::merge`.
//! * A crash between chunks leaves a tree that is partly newer than the redo point. Replay repeats all changes since
//!   the redo point; each says what the row is, not how it changed, so the outcome is the same.
//! * Long write sets of prepared transactions are merged before the last chunk, too, and mean nothing without the row that
//!   comes with that (`in_doubt::rows`).
//! * Transactions that are in doubt at the freeze point become rows of the system table `prepared` then, and those that
//!   were decided lose theirs (`in_doubt`): a decision replayed from the redo point on finds its transaction.
//! * Rows of a dropped table are cut out only when no snapshot can see them; the row of `reclaim` goes with a commit
//!   of its own after the redo point has passed the drop, so that no replay can bring rows back that nobody reclaims.

pub(crate) mod merge_source;
pub(crate) mod page_protection;
pub(crate) mod statistics;

use std::sync::Arc;
use std::time::Duration;

use seawall_io::sabotage::{Defect, sabotaged};
use seawall_memtable::Memtable;
use seawall_sync::MutexGuard;
use seawall_sync::atomic::Ordering;
use seawall_tree::{ChunkPlan, MergeSource, Superblock, TreeError};
use seawall_types::{Lsn, TableId};
use seawall_wal::Log;

use crate::catalog::dropped_tables;
use crate::checkpoint::merge_source::FrozenRows;
use crate::checkpoint::statistics::{CheckpointStatistics, Totals, Trigger};
use crate::engine::Engine;
use crate::error::Error;
use crate::in_doubt::rows::{self, LongBodies};
use crate::pacing::recovery_time::RedoLength;
use crate::pacing::writer_pace::MergePace;
use crate::snapshots::kept_memory::ReplacedValues;
use crate::snapshots::view::{Frozen, View};

/// What checkpoints remember from one to the next; its mutex is held by whoever changes the tree.
#[derive(Debug)]
pub(crate) struct CheckpointState {
    /// Monotonic time of the last one's end.
    last_end: Duration,
    /// Storages waiting to be cut out, with the stamp of the drop. `None` until they are read from the catalog.
    pub(crate) reclaim: Option<Vec<(TableId, Lsn)>>,
    /// Nothing is left in the system table `prepared` that an earlier process has not merged to its end, or it is being
    /// deleted.
    strays_are_gone: bool,
}

impl CheckpointState {
    pub(crate) fn new(now: Duration) -> CheckpointState {
        CheckpointState { last_end: now, reclaim: None, strays_are_gone: false }
    }
}

/// When.
impl Engine {
    /// Bytes that the active memtable may hold.
    pub(crate) fn active_limit(&self) -> u64 {
        self.options.memtable_bytes / 2
    }

    /// Which limit is reached, if any.
    pub(crate) fn limit_reached(&self) -> Option<Trigger> {
        let active = self.active_bytes();
        // Where writers were slowed to the end, the next checkpoint starts at once: to let them go until the memtable is
        // full, and then slow them again, would be a swing.
        let limit = self.active_limit();
        let limit = if self.saturated.load(Ordering::Relaxed) { limit / 8 * 7 } else { limit };
        if active >= limit {
            return Some(Trigger::MemtableFull);
        }
        if self.log_behind() >= self.options.checkpoint_log_bytes {
            return Some(Trigger::LogVolume);
        }
        self.recovery_time.is_due().then_some(Trigger::RecoveryTarget)
    }

    pub(crate) fn active_bytes(&self) -> u64 {
        let rows = u64::try_from(self.view().active.bytes_used()).unwrap_or(u64::MAX);
        // The checkpoint writes drops out in memory.
        let written_out = self.counters.reclaim.given_up_since_freeze() * dropped_tables::WRITTEN_OUT_BYTES;
        rows.saturating_add(written_out).saturating_add(self.view().prepared.bytes())
    }

    /// What a recovery would have to replay now.
    pub(crate) fn redo_length(&self) -> RedoLength {
        let rows = self.queue.logged_rows().saturating_sub(self.recovery_time.rows_at_redo());
        RedoLength { rows, bytes: self.log_behind() }
    }

    fn log_behind(&self) -> u64 {
        let behind = self.appended().bytes_since(Lsn::new(self.redo_point.load(Ordering::SeqCst)));
        let images = self.image_log_bytes.load(Ordering::Relaxed);
        behind.saturating_sub(images.saturating_sub(self.images_before_redo.load(Ordering::Relaxed)))
    }

    /// `Interval`, if it is over and there is something to merge, or a dropped table to cut out that a snapshot had kept;
    /// at once where the last checkpoint cut out as many tables as it may, and left more.
    pub(crate) fn interval_over(&self) -> Option<Trigger> {
        if self.counters.reclaim.take_more() {
            return Some(Trigger::Interval);
        }
        let view = self.view();
        let changed = !view.is_active_empty() || view.unmerged().is_some();
        let has_work = changed || self.counters.reclaim.has_due(self.horizon());
        (has_work && self.time_to_checkpoint().is_zero()).then_some(Trigger::Interval)
    }

    /// Time until the interval is over.
    pub(crate) fn time_to_checkpoint(&self) -> Duration {
        let Some(state) = self.checkpoint.try_lock() else { return self.options.checkpoint_interval };
        let since = self.clock().monotonic().saturating_sub(state.last_end);
        self.options.checkpoint_interval.saturating_sub(since)
    }
}

/// How.
impl Engine {
    /// Runs checkpoints until everything committed before the call is in the tree.
    pub(crate) fn checkpoint_now(&self) -> Result<CheckpointStatistics, Error> {
        self.check_writable()?;
        self.checkpoint(Trigger::Request)
    }

    /// Waits for the turn to change the tree. Whoever rests between chunks, or checks the tree, looks whether somebody waits.
    pub(crate) fn lock_checkpoint(&self) -> MutexGuard<'_, CheckpointState> {
        self.checkpoint_waiters.fetch_add(1, Ordering::SeqCst);
        let state = self.checkpoint.lock();
        self.checkpoint_waiters.fetch_sub(1, Ordering::SeqCst);
        state
    }

    /// Runs a checkpoint, and before it one that was left unfinished.
    pub(crate) fn checkpoint(&self, trigger: Trigger) -> Result<CheckpointStatistics, Error> {
        let mut state = self.lock_checkpoint();
        // Whoever waited here for another checkpoint may find nothing left to do.
        if trigger == Trigger::MemtableFull && self.limit_reached().is_none() {
            let last = self.counters.checkpoint_history.lock().last().cloned();
            if let Some(last) = last {
                return Ok(last);
            }
        }
        let delayed_before = self.throttle.delayed();
        let result = self.checkpoint_locked(&mut state, trigger);
        self.end_of_progress(delayed_before);
        *self.counters.last_checkpoint_error.lock() = result.as_ref().err().cloned();
        match &result {
            Ok(statistics) => {
                self.counters.checkpoints.fetch_add(1, Ordering::Relaxed);
                self.counters.checkpoint_history.lock().push(statistics.clone());
                let number = self.superblock.lock().checkpoint_count;
                self.measurements.keep(number, statistics, self.recovery_time.speed());
            }
            Err(_) => {
                self.counters.checkpoint_failures.fetch_add(1, Ordering::Relaxed);
            }
        }
        self.known_place.look(&*self.environment.disk);
        self.room.wake_all();
        result
    }

    fn checkpoint_locked(
        &self,
        state: &mut MutexGuard<'_, CheckpointState>,
        trigger: Trigger,
    ) -> Result<CheckpointStatistics, Error> {
        if let Some(left) = self.view().unmerged().cloned() {
            let merged = self.merge(state, &left, Trigger::Recovery)?;
            merged.log_line();
            self.counters.checkpoint_history.lock().push(merged);
        }
        let before = self.clock().monotonic();
        let frozen = self.freeze()?;
        let freeze = self.clock().monotonic().saturating_sub(before);
        let mut statistics = self.merge(state, &frozen, trigger)?;
        statistics.durations.freeze = freeze;
        statistics.durations.total += freeze;
        statistics.duration = statistics.durations.total;
        statistics.log_line();
        Ok(statistics)
    }

    /// Starts a new active memtable. The old one takes no more commits when this returns, and has all it will.
    fn freeze(&self) -> Result<Frozen, Error> {
        let log = self.log()?;
        let limit = usize::try_from(self.active_limit()).unwrap_or(usize::MAX);
        let active = Arc::new(Memtable::new(limit));
        // Commits whose rows are in the old memtable already get their place in the log first. They wait for nothing that
        // needs a freeze.
        let nobody_ahead = self.applying_ahead.write();
        // Without a record of its own: the checkpoint that frees the log must not need room in it.
        let frozen = log.in_order(|_| {
            let view = self.view.load_full();
            let end = self.queue.last_entered();
            let images = self.image_log_bytes.load(Ordering::Relaxed);
            self.counters.reclaim.freeze();
            let frozen = Frozen {
                memtable: Arc::clone(&view.active),
                start: view.active_start,
                end,
                logged_rows: self.queue.logged_rows(),
                logged_images: images,
                prepared: Arc::clone(&view.prepared),
                replaced_bytes: Arc::default(),
                merged: false,
            };
            let mut all = vec![frozen.clone()];
            all.extend(view.frozen.iter().cloned());
            self.view.store(Arc::new(View {
                active: Arc::clone(&active),
                active_start: end,
                images_before: images,
                prepared: Arc::default(),
                snapshot_floor: self.snapshots.floor(),
                frozen: all,
            }));
            frozen
        });
        drop(nobody_ahead);
        let frozen = frozen?;
        // Commits that entered before may still be on their way into it.
        self.queue.wait_applied();
        // First: there is room, whatever has to be settled.
        self.room.wake_all();
        let in_doubt_before = self.in_doubt_at_freeze.load(Ordering::SeqCst);
        let in_doubt = frozen.prepared.settle(&frozen.memtable, in_doubt_before);
        self.in_doubt_at_freeze.store(in_doubt, Ordering::SeqCst);
        self.note_checkpoint(log);
        Ok(frozen)
    }

    /// Leaves a record of the checkpoint in the log, for those who read it.
    fn note_checkpoint(&self, log: &Log) {
        let redo_point = Lsn::new(self.redo_point.load(Ordering::SeqCst));
        let time_micros = self.clock().wall_micros();
        let mut record = seawall_wal::Checkpoint { redo_point, time_micros }.prepare();
        if let Err(error) = log.append(&mut record, |_| Ok::<_, std::convert::Infallible>(())) {
            tracing::debug!(%error, "no record of the checkpoint in the log");
        }
    }

    /// Merges one frozen memtable and advances the redo point past it.
    fn merge(
        &self,
        state: &mut MutexGuard<'_, CheckpointState>,
        frozen: &Frozen,
        trigger: Trigger,
    ) -> Result<CheckpointStatistics, Error> {
        let started = self.clock().monotonic();
        let started_micros = self.clock().wall_micros();
        let redo_point_before = self.superblock.lock().redo_point;
        let reads_before = self.tree.pages().writer_reads();
        let mut totals = Totals::default();
        let mut pace = MergePace::begin(self, frozen);
        self.flush_for_merge(frozen)?;
        self.note_end_of_log(frozen)?;
        totals.durations.log_flush = self.clock().monotonic().saturating_sub(started);
        dropped_tables::write_out(&frozen.memtable, frozen.start)?;
        pace.count_all(frozen);
        let reclaim = self.storages_to_reclaim(state, frozen)?;
        self.merge_user_rows(frozen, &reclaim, &mut pace, &mut totals)?;
        let freed_before = totals.chunk.freed_pages;
        self.cut_out(&reclaim, &mut pace, &mut totals)?;
        self.counters.reclaim.count_freed(totals.chunk.freed_pages - freed_before);
        self.delete_strays(state, frozen)?;
        self.merge_long_bodies(frozen, &mut pace, &mut totals)?;
        if sabotaged(Defect::ReclaimForgottenEarly) {
            self.forget_reclaimed(state, frozen, &reclaim)?;
        }
        let superblock = self.merge_system_rows(frozen, &mut pace, &mut totals)?;
        self.images_before_redo.store(frozen.logged_images, Ordering::Relaxed);
        frozen.prepared.merged();
        self.in_doubt.forget_settled(self.settled());
        self.release(frozen);
        self.forget_reclaimed(state, frozen, &reclaim)?;
        let reclaimed = u64::try_from(reclaim.len()).expect("a count fits into 64 bits");
        if self.log.is_some() {
            // The other copy still has the redo point before this one, and needs segments that are about to go: it
            // must be of use when this one is damaged.
            self.tree.store_superblock(&superblock).map_err(|error| self.tree_write_error(&error))?;
            self.clean_log_up_to(superblock.redo_point)?;
        }
        let end = self.clock().monotonic();
        state.last_end = end;
        totals.durations.total = end.saturating_sub(started);
        totals.durations.paused = pace.paused();
        pace.learn(totals.durations.total);
        Ok(CheckpointStatistics {
            trigger,
            started_micros,
            redo_point_before,
            redo_point: superblock.redo_point,
            rows: totals.rows,
            chunks: totals.chunks,
            leaves: totals.chunk.leaves,
            interiors: totals.chunk.interiors,
            pages_read: self.tree.pages().writer_reads() - reads_before,
            fresh_pages: totals.chunk.fresh_pages,
            protected_pages: totals.chunk.protected_pages,
            freed_pages: totals.chunk.freed_pages,
            tables_reclaimed: reclaimed,
            page_file_bytes: totals.page_file_bytes,
            image_bytes: totals.chunk.protected_pages * u64::from(superblock.page_bytes),
            recovery_file_bytes: totals.recovery_file_bytes,
            punched_bytes: totals.punched_bytes,
            duration: totals.durations.total,
            durations: totals.durations,
        })
    }

    /// Makes the log durable past every commit in the memtable: see the module.
    fn flush_for_merge(&self, frozen: &Frozen) -> Result<(), Error> {
        if self.log.is_none() || sabotaged(Defect::PagesBeforeLog) {
            return Ok(());
        }
        self.log()?.flush_until(frozen.end)?;
        self.wait_visible(frozen.end);
        if self.visible() < frozen.end { Err(self.stopped_error()) } else { Ok(()) }
    }

    /// Puts on record that the log is durable up to the freeze point, before any page has what is in it. Without that, a bit
    /// that turned over in its last batch would make that a torn tail: dropped, although some of it is in pages.
    fn note_end_of_log(&self, frozen: &Frozen) -> Result<(), Error> {
        let superblock = {
            let current = self.superblock.lock();
            Superblock { log_end: frozen.end.max(current.log_end), ..current.clone() }
        };
        if self.log.is_none() || superblock.log_end == self.superblock.lock().log_end {
            return Ok(());
        }
        self.tree.store_superblock(&superblock).map_err(|error| self.tree_write_error(&error))?;
        *self.superblock.lock() = superblock;
        Ok(())
    }

    /// Applies a planned chunk.
    pub(crate) fn apply_chunk(
        &self,
        plan: ChunkPlan,
        finish: Option<&Superblock>,
        totals: &mut Totals,
    ) -> Result<(), Error> {
        let applied = self.tree.apply_chunk(plan, finish).map_err(|error| self.tree_write_error(&error))?;
        self.counters.reclaim.count_punched(applied.punched_bytes);
        totals.add(&applied);
        Ok(())
    }

    fn merge_user_rows(
        &self,
        frozen: &Frozen,
        reclaim: &[(TableId, Lsn)],
        pace: &mut MergePace<'_>,
        totals: &mut Totals,
    ) -> Result<(), Error> {
        let skipped = reclaim.iter().map(|(storage, _)| *storage).collect();
        let replaced = ReplacedValues::of(self, frozen);
        let rows = FrozenRows::of_users(&frozen.memtable, frozen.start, skipped);
        let mut merge = self.tree.begin_merge(rows).map_err(|error| Error::tree(&error))?;
        while !merge.is_done() {
            let (floor, older) = replaced.look();
            merge.parts_mut().iter_mut().for_each(|rows| rows.keep_bases(&replaced, floor, older.clone()));
            let before = self.clock().monotonic();
            let plan = self
                .tree
                .continue_merge(&mut merge, self.options.checkpoint_chunk_bytes, frozen.end)
                .map_err(|error| Error::tree(&error))?;
            totals.durations.merge += self.clock().monotonic().saturating_sub(before);
            self.apply_chunk(plan, None, totals)?;
            pace.chunk_done(FrozenRows::taken_of(merge.parts()), totals.written_bytes());
        }
        totals.rows += FrozenRows::taken_of(merge.parts());
        Ok(())
    }

    /// Write sets of in-doubt transactions that are too long for the last chunk: `in_doubt::rows`.
    fn merge_long_bodies(
        &self,
        frozen: &Frozen,
        pace: &mut MergePace<'_>,
        totals: &mut Totals,
    ) -> Result<(), Error> {
        let bodies = frozen.prepared.long_bodies();
        let mut parts = LongBodies::new(&bodies);
        while parts.peek().is_some() {
            let before = self.clock().monotonic();
            let plan = self.tree.merge_chunk(&mut parts, self.options.checkpoint_chunk_bytes, frozen.end);
            totals.durations.merge += self.clock().monotonic().saturating_sub(before);
            self.apply_chunk(plan.map_err(|error| Error::tree(&error))?, None, totals)?;
            pace.chunk_done(totals.rows, totals.written_bytes());
        }
        Ok(())
    }

    /// Deletes what a checkpoint that was cut short has left of such write sets: in the last chunk of the first one after
    /// an open.
    fn delete_strays(
        &self,
        state: &mut MutexGuard<'_, CheckpointState>,
        frozen: &Frozen,
    ) -> Result<(), Error> {
        if state.strays_are_gone {
            return Ok(());
        }
        let bodies = frozen.prepared.long_bodies();
        for (stamp, row_key) in rows::read_all(&self.tree)?.strays {
            // Those that are in doubt still get their head with this checkpoint.
            if bodies.binary_search_by_key(&stamp, |(stamp, _)| *stamp).is_err() {
                frozen.memtable.insert(&row_key, frozen.end, None, || Lsn::ZERO);
            }
        }
        state.strays_are_gone = true;
        Ok(())
    }

    /// The last chunk, see the module; before it, names and objects of tables where they are many.
    fn merge_system_rows(
        &self,
        frozen: &Frozen,
        pace: &mut MergePace<'_>,
        totals: &mut Totals,
    ) -> Result<Superblock, Error> {
        let replaced = ReplacedValues::of(self, frozen);
        let mut rows = self.merge_catalog_rows(frozen, &replaced, pace, totals)?;
        let (floor, older) = replaced.look();
        rows.keep_bases(&replaced, floor, older);
        if sabotaged(Defect::SystemRowsDropped) {
            rows.skip_all();
        }
        let plan =
            self.tree.merge_chunk(&mut rows, u64::MAX, frozen.end).map_err(|error| Error::tree(&error))?;
        totals.rows += rows.taken();
        let superblock = {
            let current = self.superblock.lock();
            Superblock {
                redo_point: frozen.end.max(current.redo_point),
                checkpoint_count: current.checkpoint_count + 1,
                next_table: TableId::new(self.objects.next_id()),
                in_doubt: frozen.prepared.in_doubt_at_end(),
                ..current.clone()
            }
        };
        if sabotaged(Defect::RedoPointTooEarly) {
            self.tree.store_superblock(&superblock).map_err(|error| self.tree_write_error(&error))?;
        }
        self.apply_chunk(plan, Some(&superblock), totals)?;
        self.redo_point.store(superblock.redo_point.get(), Ordering::SeqCst);
        self.recovery_time.redo_point_moved(frozen.logged_rows);
        *self.superblock.lock() = superblock.clone();
        Ok(superblock)
    }

    /// A write of the tree failed. Unless the disk was full before anything was overwritten, what is on disk is
    /// unknown, and the database takes no more writes.
    pub(crate) fn tree_write_error(&self, error: &TreeError) -> Error {
        match self.tree.failure() {
            Some(_) => self.stop(crate::error::chain(error)),
            // Images could not be put into the log.
            None if self.log.as_ref().is_some_and(|log| log.poison_cause().is_some()) => self.stopped_error(),
            None => Error::tree(error),
        }
    }
}
