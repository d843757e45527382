//! The checkpoint: freezes the active memtable and merges it into the tree while writers go on.
//!
//! ```text
//!   freeze --> flush the log --> merge users' rows, chunk by chunk --> write those that are sparse as a run --> cut dropped tables out
//!          --> last chunk: system rows, the run's row in the list and the new redo point --> release the memtable
//!          --> let the log be cleaned up
//! ```
//! Invariants:
//! * No chunk is applied before the log is flushed past every commit in the memtable, so no page ever holds a change
//!   whose record is not durable. Where there are standbys, they have it, too: `quorum::gate`.
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

pub(crate) mod limits;
pub(crate) mod merge_source;
pub(crate) mod page_protection;
pub(crate) mod priority;
pub(crate) mod redo;
pub(crate) mod statistics;
pub(crate) mod turn;

use std::sync::Arc;

use seawall_memtable::Memtable;
use seawall_sync::MutexGuard;
use seawall_sync::atomic::Ordering;
use seawall_tree::{ChunkPlan, MergeSource, Superblock, TreeError};
use seawall_types::{Lsn, TableId};
use seawall_wal::Log;

use crate::catalog::dropped_tables;
use crate::checkpoint::merge_source::FrozenRows;
use crate::checkpoint::priority::Priority;
use crate::checkpoint::statistics::{CheckpointStatistics, Totals, Trigger};
use crate::checkpoint::turn::CheckpointState;
use crate::engine::Engine;
use crate::error::Error;
use crate::in_doubt::rows::{self, LongBodies};
use crate::log::parking::Door;
use crate::pacing::merge_pace::MergePace;
use crate::pacing::run_debt::RunFill;
use crate::runs::route::{Route, SparseRows, find_route};
use crate::runs::run::{Run, RunNumber};
use crate::runs::slice::{Aim, Slice};
use crate::runs::write::WithListed;
use crate::sabotage::{Defect, sabotaged};
use crate::snapshots::kept_memory::ReplacedValues;
use crate::snapshots::view::{Frozen, View};

/// Bytes of rows in a memtable from which on the next one is expected to use all of its filter and directory. Rows fall anywhere in these, so
/// some thousand of them touch every huge page.
const POPULATED_FROM: u64 = 1 << 20;

impl Engine {
    /// Runs checkpoints until everything committed before the call is in the tree.
    pub(crate) fn checkpoint_now(&self) -> Result<CheckpointStatistics, Error> {
        self.lifecycle.check_writable()?;
        self.checkpoint(Trigger::Request)
    }

    /// Runs a checkpoint that the caller waits for, and before it one that was left unfinished.
    pub(crate) fn checkpoint(&self, trigger: Trigger) -> Result<CheckpointStatistics, Error> {
        self.checkpoint_at(Priority::Own, trigger)
    }

    pub(crate) fn checkpoint_at(
        &self,
        priority: Priority,
        trigger: Trigger,
    ) -> Result<CheckpointStatistics, Error> {
        let mut state = self.checkpoint_turn.take();
        // Whoever waited here for another checkpoint may find nothing left to do.
        if trigger == Trigger::MemtableFull && self.limit_reached().is_none() {
            let last = self.counters.checkpoint_history.lock().last().cloned();
            if let Some(last) = last {
                return Ok(last);
            }
        }
        let delayed_before = self.pacing.delayed();
        let result = self.checkpoint_locked(&mut state, priority, trigger);
        self.note_runs(&mut state);
        if self.pacing.checkpoint_ended(delayed_before, || self.fill()) {
            self.background.want_checkpoint();
        }
        // To wait for standbys is no failure: writers without room wait, too.
        let failure = result.as_ref().err().filter(|error| !matches!(error, Error::StandbysLack { .. }));
        *self.counters.last_checkpoint_error.lock() = failure.cloned();
        match &result {
            Ok(statistics) => {
                self.counters.checkpoints.fetch_add(1, Ordering::Relaxed);
                self.counters.checkpoint_history.lock().push(statistics.clone());
                self.pacing.keep_measured(self.redo.superblock().checkpoint_count, statistics);
            }
            Err(Error::StandbysLack { .. }) => {}
            Err(_) => {
                self.counters.checkpoint_failures.fetch_add(1, Ordering::Relaxed);
            }
        }
        if self.is_manual() && result.is_ok() {
            self.merge_slices_due(&mut state);
        }
        self.lifecycle.look_for_move(&*self.environment.disk);
        self.pacing.room.has_changed();
        result
    }

    /// Where no thread does it, the caller merges the windows and runs that are due after its checkpoint. That checkpoint is complete,
    /// whatever comes of these merges: the next one tries those again that fail.
    fn merge_slices_due(&self, state: &mut CheckpointState) {
        loop {
            let aim = match self.options.checkpoint.runs.run_percent {
                0 => Aim::NoRuns,
                _ => Aim::Share,
            };
            match self.merge_slice(state, aim, &mut Totals::default()) {
                Ok(Slice::Window | Slice::Tier) => {}
                Ok(Slice::Nothing) => break,
                Err(error) => {
                    tracing::error!(%error, "merging runs failed; the next checkpoint tries it again");
                    // Slower writers do not help a merge that fails.
                    return self.pacing.note_runs(&RunFill::default(), || self.fill());
                }
            }
        }
        self.note_runs(state);
    }

    fn checkpoint_locked(
        &self,
        state: &mut MutexGuard<'_, CheckpointState>,
        priority: Priority,
        trigger: Trigger,
    ) -> Result<CheckpointStatistics, Error> {
        if let Some(left) = self.view().unmerged().cloned() {
            let merged = self.merge(state, &left, priority, Trigger::Recovery)?;
            merged.log_line();
            self.counters.checkpoint_history.lock().push(merged);
        }
        let next = priority.run(|| self.next_memtable());
        let before = self.clock().monotonic();
        let frozen = self.freeze(next)?;
        let frozen_at = self.clock().monotonic();
        priority.run(|| self.settle_in_doubt(&frozen));
        let settling = self.clock().monotonic().saturating_sub(frozen_at);
        let freeze = frozen_at.saturating_sub(before);
        let mut statistics = self.merge(state, &frozen, priority, trigger)?;
        statistics.durations.freeze = freeze;
        statistics.durations.merge += settling;
        statistics.durations.total += freeze + settling;
        statistics.duration = statistics.durations.total;
        statistics.log_line();
        Ok(statistics)
    }

    /// A memtable to follow the active one, with the memory that its first rows need.
    fn next_memtable(&self) -> Arc<Memtable> {
        let limit = usize::try_from(self.active_limit()).unwrap_or(usize::MAX);
        let next = Arc::new(Memtable::new(limit));
        // One that gets a few rows only need not have all its memory.
        if self.active_bytes() > POPULATED_FROM {
            next.populate();
        }
        next
    }

    /// Makes `active` the active memtable. The old one takes no more commits when this returns, and has all it will.
    pub(crate) fn freeze(&self, active: Arc<Memtable>) -> Result<Frozen, Error> {
        // Commits whose rows are in the old memtable already get their place in the log first. They wait for nothing that
        // needs a freeze.
        let nobody_ahead = self.applying_ahead.write();
        // Without a record of its own: the checkpoint that frees the log must not need room in it.
        let frozen = self.between_commits(|| {
            let view = self.view.load_full();
            let end = self.queue.last_entered();
            let images = self.redo.image_bytes();
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
                runs: Arc::clone(&view.runs),
            }));
            frozen
        });
        drop(nobody_ahead);
        let frozen = frozen?;
        // Commits that entered before may still be on their way into it.
        self.queue.wait_applied();
        self.pacing.room.has_changed();
        if let Some(log) = self.log.written() {
            self.note_checkpoint(log);
        }
        Ok(frozen)
    }

    /// Writes transactions that are in doubt at the freeze point as rows into the frozen memtable. Nobody waits: prepares and decisions
    /// belong to the next epoch by now.
    fn settle_in_doubt(&self, frozen: &Frozen) {
        let in_doubt = frozen.prepared.settle(&frozen.memtable, self.in_doubt.at_freeze());
        self.in_doubt.set_at_freeze(in_doubt);
    }

    /// Runs `swap` where no commit is on its way into the active memtable: in the log's critical section, or between two steps of
    /// a standby.
    fn between_commits(&self, swap: impl FnOnce() -> Frozen) -> Result<Frozen, Error> {
        let apply_turn = self.apply_turn.take();
        // A promotion has that turn when the log becomes a written one.
        match self.log.written() {
            None => Ok(swap()),
            Some(log) => {
                drop(apply_turn);
                Ok(log.in_order(|_| swap())?)
            }
        }
    }

    /// Leaves a record of the checkpoint in the log, for those who read it.
    fn note_checkpoint(&self, log: &Log) {
        let redo_point = self.redo.point();
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
        priority: Priority,
        trigger: Trigger,
    ) -> Result<CheckpointStatistics, Error> {
        let started = self.clock().monotonic();
        let started_micros = self.clock().wall_micros();
        let redo_point_before = self.redo.point();
        let reads_before = self.tree.pages().writer_reads();
        let mut totals = Totals::default();
        let mut pace = MergePace::begin(self, frozen);
        self.flush_for_merge(frozen)?;
        self.note_begin(state, frozen)?;
        totals.durations.log_flush = self.clock().monotonic().saturating_sub(started);
        dropped_tables::write_out(&frozen.memtable, frozen.start)?;
        pace.count_all(frozen);
        let reclaim = self.storages_to_reclaim(state, frozen)?;
        self.cut_unlisted_runs(state, &mut pace, &mut totals)?;
        // The guard stays with this thread.
        let remembered: &mut CheckpointState = state;
        let run =
            priority.run(|| self.merge_user_rows(remembered, frozen, &reclaim, &mut pace, &mut totals))?;
        if totals.chunk.freed_pages * 16 > state.counted_leaves.0 {
            // Rows that were deleted directly: windows have far fewer leaves than were counted.
            state.windows = None;
        }
        let freed_before = totals.chunk.freed_pages;
        priority.run(|| self.cut_out(&reclaim, &mut pace, &mut totals))?;
        self.counters.reclaim.count_freed(totals.chunk.freed_pages - freed_before);
        self.delete_strays(state, frozen)?;
        self.merge_long_bodies(frozen, &mut pace, &mut totals)?;
        if sabotaged(Defect::ReclaimForgottenEarly) {
            self.forget_reclaimed(state, frozen, &reclaim)?;
        }
        let is_standby = self.log.written().is_none();
        if is_standby {
            self.strike_off(state, frozen, &reclaim);
        }
        let superblock = self.merge_system_rows(frozen, run.as_deref(), &mut pace, &mut totals)?;
        self.redo.passed_images(frozen.logged_images);
        frozen.prepared.merged();
        self.in_doubt.forget_settled(self.settled());
        if !reclaim.is_empty() {
            // Windows have lost leaves.
            state.windows = None;
        }
        self.release(frozen, run);
        state.unlisted_runs_are_gone = true;
        state.struck_off.clear();
        if is_standby {
            self.forget_struck_off(state, frozen, &reclaim);
        } else if self.log.parking.door() != Door::HandedOver {
            // They stay on the list of whoever writes next.
            self.forget_reclaimed(state, frozen, &reclaim)?;
        }
        let reclaimed = u64::try_from(reclaim.len()).expect("a count fits into 64 bits");
        if !self.log.is_read_only() {
            // The other copy still has the redo point before this one, and needs segments that are about to go: it
            // must be of use when this one is damaged.
            let storing = self.redo.storing();
            let newest = self.redo.superblock();
            self.tree.store_superblock(&newest).map_err(|error| self.tree_write_error(&error))?;
            drop(storing);
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
            run_rows: totals.run_rows,
            run_bytes: totals.run_bytes,
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
            fill_highest_permille: pace.fill_highest_permille(),
            writers_delayed: pace.writers_delayed(),
            duration: totals.durations.total,
            durations: totals.durations,
        })
    }

    /// Makes the log durable past every commit in the memtable, see the module, and waits for standbys: see `quorum::gate`.
    fn flush_for_merge(&self, frozen: &Frozen) -> Result<(), Error> {
        if self.log.written().is_none() || sabotaged(Defect::PagesBeforeLog) {
            return Ok(());
        }
        self.log()?.flush_until(frozen.end)?;
        // Where standbys are waited for, the gate waits for what is visible, too, and not without end.
        if !self.members.are_required() {
            self.require_visible(frozen.end, None)?;
        }
        self.wait_safe_for_pages(frozen.end)
    }

    /// Puts on record, before any page has what is in the memtable, that the log is durable up to the freeze point, and which number a
    /// run of this checkpoint gets: a run that is cut short must not have the number of a later one. Where there is no run yet, the first
    /// one is drawn its number when it is begun: a database whose changes are never sparse has none.
    fn note_begin(&self, state: &mut CheckpointState, frozen: &Frozen) -> Result<(), Error> {
        let draws = !self.view().runs.is_empty() && state.drawn_run.is_none();
        let next_run = self.redo.superblock().next_run;
        self.store_begin(frozen.end, if draws { next_run + 1 } else { next_run })?;
        if draws {
            state.drawn_run = RunNumber::new(next_run);
        }
        Ok(())
    }

    /// Draws the number of a run, and puts on record that it is used.
    pub(crate) fn draw_run_number(&self) -> Result<RunNumber, Error> {
        let next_run = self.redo.superblock().next_run;
        let number = RunNumber::new(next_run).expect("a checkpoint takes longer than there are numbers for");
        self.store_begin(Lsn::ZERO, next_run + 1)?;
        Ok(number)
    }

    /// Puts on record that the log is durable up to `end`, before any page has what is in it. Without that, a bit that turned over in
    /// its last batch would make that a torn tail: dropped, although some of it is in pages.
    pub(crate) fn note_end_of_log(&self, end: Lsn) -> Result<(), Error> {
        self.store_begin(end, self.redo.superblock().next_run)
    }

    fn store_begin(&self, end: Lsn, next_run: u64) -> Result<(), Error> {
        let _storing = self.redo.storing();
        let current = self.redo.superblock();
        // The caller has read it before, and another one may have drawn a number since.
        let next_run = if sabotaged(Defect::RunNumberReused) {
            current.next_run
        } else {
            next_run.max(current.next_run)
        };
        let superblock = Superblock { log_end: end.max(current.log_end), next_run, ..current.clone() };
        if self.log.is_read_only() || superblock == current {
            return Ok(());
        }
        self.tree.store_superblock(&superblock).map_err(|error| self.tree_write_error(&error))?;
        self.redo.stored(superblock);
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

    /// Merges the rows of users: those that are dense in the tree in place, the others as a run, which is not listed yet.
    fn merge_user_rows(
        &self,
        state: &mut CheckpointState,
        frozen: &Frozen,
        reclaim: &[(TableId, Lsn)],
        pace: &mut MergePace<'_>,
        totals: &mut Totals,
    ) -> Result<Option<Arc<Run>>, Error> {
        let skipped: Vec<TableId> = reclaim.iter().map(|(storage, _)| *storage).collect();
        let all = || FrozenRows::of_users(&frozen.memtable, frozen.start, skipped.clone());
        let rows = (&*frozen.memtable, frozen.start);
        let options = &self.options.checkpoint.runs;
        let sparse = match options.run_percent {
            0 => SparseRows::Direct,
            _ => SparseRows::IntoRun {
                leaves_min: options.leaves_min.into(),
                // Much less than would cancel the snapshot.
                gone_bytes_max: self.is_needed(frozen).then_some(self.options.memory.snapshot_bytes / 4),
            },
        };
        match find_route(&self.tree, rows, &skipped, &self.view().runs, sparse)? {
            Route::Direct => self.merge_directly(frozen, all(), pace, totals).map(|()| None),
            Route::ByRange { direct, run } => {
                self.merge_directly(frozen, all().within(direct), pace, totals)?;
                // Its number counts as used from the first page on.
                let number = state.drawn_run.take().map_or_else(|| self.draw_run_number(), Ok)?;
                self.write_run(state, (frozen, number), all().within(run), pace, totals)
            }
        }
    }

    /// Merges rows into the main part, in place.
    fn merge_directly(
        &self,
        frozen: &Frozen,
        rows: FrozenRows<'_>,
        pace: &mut MergePace<'_>,
        totals: &mut Totals,
    ) -> Result<(), Error> {
        let replaced = ReplacedValues::of(self, frozen);
        let mut merge = self.tree.begin_merge(rows).map_err(|error| Error::tree(&error))?;
        while !merge.is_done() {
            let (floor, older) = replaced.look();
            merge.parts_mut().iter_mut().for_each(|rows| rows.keep_bases(&replaced, floor, older.clone()));
            let before = self.clock().monotonic();
            let plan = self
                .tree
                .continue_merge(&mut merge, self.options.checkpoint.chunk_bytes, frozen.end)
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
            let plan = self.tree.merge_chunk(&mut parts, self.options.checkpoint.chunk_bytes, frozen.end);
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
        run: Option<&Run>,
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
        let mut last = WithListed::new(&mut rows, run);
        let plan =
            self.tree.merge_chunk(&mut last, u64::MAX, frozen.end).map_err(|error| Error::tree(&error))?;
        totals.rows += rows.taken();
        let _storing = self.redo.storing();
        let current = self.redo.superblock();
        let superblock = Superblock {
            redo_point: frozen.end.max(current.redo_point),
            checkpoint_count: current.checkpoint_count + 1,
            next_table: TableId::new(self.objects.next_id()),
            in_doubt: frozen.prepared.in_doubt_at_end(),
            next_run: current.next_run.max(run.map_or(0, |run| run.number.get() + 1)),
            run_count: current.run_count + u32::from(run.is_some()),
            ..current
        };
        if sabotaged(Defect::RedoPointTooEarly) {
            self.tree.store_superblock(&superblock).map_err(|error| self.tree_write_error(&error))?;
        }
        self.apply_chunk(plan, Some(&superblock), totals)?;
        self.redo.stored(superblock.clone());
        self.pacing.redo_point_moved(frozen.logged_rows);
        Ok(superblock)
    }

    /// A write of the tree failed. Unless the disk was full before anything was overwritten, what is on disk is
    /// unknown, and the database takes no more writes.
    pub(crate) fn tree_write_error(&self, error: &TreeError) -> Error {
        match self.tree.failure() {
            Some(_) => self.lifecycle.stop(crate::error::chain(error)),
            // Images could not be put into the log.
            None if self.log.written().is_some_and(|log| log.poison_cause().is_some()) => {
                self.lifecycle.stopped_error()
            }
            None => Error::tree(error),
        }
    }
}
