//! Removing and recycling segments that are not needed, a batch at a time: all renames or removals of the batch, then ONE sync
//! of the directory, and only then may a recycled segment be written. Never on the way to a commit, an open or a promotion:
//! a background thread calls [`Log::clean_up`], and rests between two files, for a file system takes longer to free a file
//! than to sync a directory.
//!
//! ```text
//!   holds --settle--> position below which the log is not needed     (durable: see `holds`)
//!   segments below --+--> as many as the log fills between two checkpoints: recycled, one batch   (`recycle`)
//!                    +--> the others: removed, up to 512 a batch
//! ```
//! **If the power goes**, each removed name is there or not, in any combination: what is there is found by the next `open`,
//! and removed by the next batch. A gap among the segments does no harm, since no reader goes below what is needed. Nothing
//! says how far a batch came, so there is nothing to repair.
//!
//! A file that cannot be removed keeps no other from going: it is set aside, counted and told, and tried again after the next
//! checkpoint.

use std::io;
use std::ops::ControlFlow;

use seawall_types::Lsn;

use crate::error::LogError;
use crate::holds::{HoldError, Holds};
use crate::metrics::Counters;
use crate::recycle::recycle;
use crate::sabotage::{Defect, sabotaged};
use crate::segment_set::SegmentSet;
use crate::writer::Log;

/// Files removed before the directory is synced.
const BATCH_FILES: usize = 512;
/// Files that fail before a batch ends: then it is the disk, and no file.
const FAILURES_MAX: u64 = 8;

/// What was cleaned up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RetentionReport {
    /// Segments removed.
    pub removed: u64,
    /// Segments given a new place.
    pub recycled: u64,
    /// Half-made files of an earlier run removed.
    pub leftovers_removed: u64,
    /// Batches with anything in them.
    pub batches: u64,
    /// Syncs of the directory: one a batch.
    pub directory_syncs: u64,
    /// Files that could not be removed or renamed.
    pub failed: u64,
    /// Segments that are not needed and that are still there, but for those.
    pub left: u64,
}

impl RetentionReport {
    fn add(&mut self, batch: RetentionReport) {
        self.removed += batch.removed;
        self.recycled += batch.recycled;
        self.leftovers_removed += batch.leftovers_removed;
        self.batches += batch.batches;
        self.directory_syncs += batch.directory_syncs;
        self.failed += batch.failed;
        self.left = batch.left;
    }
}

impl Log {
    /// A checkpoint has ended: recovery starts at `redo_point` from now on, durably. What was logged since the last one tells
    /// how many segments to recycle. Makes no system call.
    pub fn redo_point_moved(&self, redo_point: Lsn) {
        if self.move_redo_point(redo_point) {
            self.segments.estimate.lock().cycle_ended(self.appended());
            self.segments.try_all_again();
        }
    }

    /// Recovery starts at `redo_point`, as it did when the log was opened: no checkpoint has ended. Makes no system call.
    pub fn recovery_starts_at(&self, redo_point: Lsn) {
        if self.move_redo_point(redo_point) {
            self.segments.try_all_again();
        }
    }

    /// Removes or recycles one batch of the segments that are not needed. `rest` is called after each file, and
    /// may wait, or end the batch there: what was done is made durable at once. Appends and flushes go on meanwhile. Call it
    /// again while `left` is not zero.
    ///
    /// # Errors
    /// `Io`, `Holds`: call again, what was done is not done twice. A file that cannot be removed is an
    /// error only if no other can either. `Poisoned` if a sync of a segment or the directory failed.
    pub fn clean_up(&self, rest: &mut dyn FnMut() -> ControlFlow<()>) -> Result<RetentionReport, LogError> {
        self.check_poison()?;
        let outcome = self.cleaning().batch(Recycling::AsWanted, rest);
        self.poison_if_fatal(outcome)
    }

    /// As `clean_up`, and recycles nothing: for a log that is about to be closed.
    ///
    /// # Errors
    /// As `clean_up`.
    pub fn remove_unneeded(
        &self,
        rest: &mut dyn FnMut() -> ControlFlow<()>,
    ) -> Result<RetentionReport, LogError> {
        self.check_poison()?;
        let outcome = self.cleaning().batch(Recycling::None, rest);
        self.poison_if_fatal(outcome)
    }

    /// Says where recovery starts, and cleans up everything that is not needed, without rest.
    ///
    /// # Errors
    /// As `clean_up`.
    pub fn retain_from(&self, redo_point: Lsn) -> Result<RetentionReport, LogError> {
        self.redo_point_moved(redo_point);
        all_batches(|| self.clean_up(&mut || ControlFlow::Continue(())))
    }

    /// Segments that are no longer needed and that are still there, as far as is known without a disk call.
    pub fn count_unneeded(&self) -> u64 {
        self.cleaning().count_unneeded()
    }

    /// Whether a call of `clean_up` would do something: files to remove, or a hold over its limit. Makes no disk call.
    pub fn needs_clean_up(&self) -> bool {
        self.count_unneeded() > 0
            || self.segments.has_leftovers()
            || self.holds.any_over_limit(self.redo_point(), self.appended())
    }

    /// Whether there are segments wholly below `redo_point`.
    pub fn would_free(&self, redo_point: Lsn) -> bool {
        self.segments.count_unneeded(self.cleaning().first_needed(redo_point)) > 0
    }

    /// Segments that hold records or are about to, and segments beyond the last record.
    pub fn count_segments(&self) -> (u64, u64) {
        let (live, spare) = self.segments.count(self.geometry.segment_of(self.appended()));
        (count(live), count(spare))
    }
}

/// Whether old segments are used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recycling {
    AsWanted,
    None,
}

impl Log {
    fn cleaning(&self) -> Cleaning<'_> {
        Cleaning {
            segments: &self.segments,
            counters: &self.counters,
            holds: &self.holds,
            redo_point: self.redo_point(),
            appended: self.appended(),
            flushed: self.flushed(),
        }
    }
}

/// The segments of a log that is written or received, and how far it and those who need it have come.
pub(crate) struct Cleaning<'a> {
    pub(crate) segments: &'a SegmentSet,
    pub(crate) counters: &'a Counters,
    pub(crate) holds: &'a Holds,
    /// Recovery needs the log from here on.
    pub(crate) redo_point: Lsn,
    pub(crate) appended: Lsn,
    pub(crate) flushed: Lsn,
}

impl Cleaning<'_> {
    fn count_unneeded(&self) -> u64 {
        let needed = self.holds.needed_from(self.redo_point, self.appended);
        count(self.segments.count_unneeded(self.first_needed(needed)))
    }

    pub(crate) fn batch(
        &self,
        recycling: Recycling,
        rest: &mut dyn FnMut() -> ControlFlow<()>,
    ) -> Result<RetentionReport, LogError> {
        let (segments, counters) = (self.segments, self.counters);
        let geometry = segments.identity.geometry;
        let _retaining = segments.retaining.lock();
        let needed = self.holds.settle(self.redo_point, self.appended).map_err(as_log_error)?;
        let first_needed = self.first_needed(needed);
        let current = geometry.segment_of(self.appended);
        let mut report = RetentionReport::default();
        let wanted = match recycling {
            Recycling::AsWanted => segments.prepare_found(current, counters)?,
            Recycling::None => 0,
        };
        let wanted = segments.recycled_at_once(wanted, current);
        if wanted > 0 {
            let recycled = recycle(segments, counters, first_needed, wanted, rest)?;
            (report.recycled, report.failed) = (recycled.segments, recycled.failed);
        }
        if report.recycled == 0 {
            remove_batch(segments, counters, first_needed, rest, &mut report)?;
        }
        report.batches = u64::from(report.recycled + report.removed + report.leftovers_removed > 0);
        report.directory_syncs = report.batches;
        counters.clean_up_batches.add(report.batches);
        report.left = count(segments.count_unneeded(first_needed));
        Ok(report)
    }

    fn first_needed(&self, needed: Lsn) -> u64 {
        self.segments.identity.geometry.segment_of(needed.min(self.flushed))
            + u64::from(sabotaged(Defect::SegmentRemovedTooEarly))
    }
}

/// Batch after batch, until nothing is left that can go.
pub(crate) fn all_batches(
    mut batch: impl FnMut() -> Result<RetentionReport, LogError>,
) -> Result<RetentionReport, LogError> {
    let mut all = RetentionReport::default();
    loop {
        let report = batch()?;
        all.add(report);
        if report.left == 0 || report.batches == 0 {
            return Ok(all);
        }
    }
}

/// Removes up to a batch of files, and makes that durable. An error if none can be removed.
fn remove_batch(
    segments: &SegmentSet,
    counters: &Counters,
    first_needed: u64,
    rest: &mut dyn FnMut() -> ControlFlow<()>,
    report: &mut RetentionReport,
) -> Result<(), LogError> {
    let mut failure = remove_leftovers(segments, counters, report);
    for name in segments.unneeded(first_needed).into_iter().take(BATCH_FILES) {
        match remove(segments, &name.path()) {
            Ok(()) => {
                segments.forget(name);
                counters.segments_removed.add(1);
                report.removed += 1;
            }
            Err(error) => {
                segments.set_aside(name, &error, counters);
                report.failed += 1;
                failure = Some(error);
            }
        }
        if rest().is_break() || report.failed >= FAILURES_MAX {
            break;
        }
    }
    match failure {
        // The disk rather than a file.
        Some(error) if report.removed + report.leftovers_removed == 0 => Err(error),
        None if report.removed + report.leftovers_removed == 0 => Ok(()),
        Some(_) | None => segments.sync_names(counters),
    }
}

/// Half-made files that a crash left. One that stays is found again by the next open.
fn remove_leftovers(
    segments: &SegmentSet,
    counters: &Counters,
    report: &mut RetentionReport,
) -> Option<LogError> {
    // A leftover may have the name of the spare that an `append` in want of a segment is about to make.
    let _preparing = segments.lock_preparing();
    let mut failure = None;
    while let Some(leftover) = segments.take_leftover() {
        match remove(segments, &leftover) {
            Ok(()) => report.leftovers_removed += 1,
            Err(error) => {
                tracing::warn!(path = %leftover, %error, "a half-made file is left; the next open removes it");
                counters.clean_up_failures.add(1);
                report.failed += 1;
                failure = Some(error);
            }
        }
    }
    failure
}

/// Removes a segment. A segment that is gone already is fine: an operator may have been faster.
fn remove(segments: &SegmentSet, path: &str) -> Result<(), LogError> {
    match segments.disk.remove(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(LogError::io("remove", path, error)),
        Ok(()) | Err(_) => Ok(()),
    }
}

fn count(number: usize) -> u64 {
    u64::try_from(number).expect("a count of files fits into 64 bits")
}

fn as_log_error(source: HoldError) -> LogError {
    LogError::Holds { source }
}
