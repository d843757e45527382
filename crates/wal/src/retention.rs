//! Removing and recycling segments that nobody needs: all renames and removals of a call, then one directory sync, and
//! only then may a recycled segment be written. Never on the way to a commit, an open or a promotion.
//!
//! A crash at any point leaves old segments (the next call finds them), spare ones under their new names with valid
//! headers, or old names with the header of a new place, which `open` recognises and leaves to the next call.

use std::io;

use seawall_types::Lsn;

use crate::error::LogError;
use crate::metrics::Counters;
use crate::segment::SegmentName;
use crate::segment_set::SegmentSet;
use crate::writer::Log;

/// What one call of [`Log::retain_from`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RetentionReport {
    /// Segments removed.
    pub removed: u64,
    /// Segments given a new place.
    pub recycled: u64,
    /// Half-made files of an earlier run removed.
    pub leftovers_removed: u64,
    /// Syncs of the directory: one, or none if there was nothing to do.
    pub directory_syncs: u64,
}

impl Log {
    /// Says that nobody needs the log before `lsn`. Of the segments wholly below, as many are recycled as were filled since
    /// the last call (or as the options want spares, if that is more); the others are removed, those of older timelines as well. For a background thread: appends and flushes go on meanwhile.
    ///
    /// # Errors
    /// `Io`: call again, what was done is not done twice. `Poisoned` if a sync failed.
    pub fn retain_from(&self, lsn: Lsn) -> Result<RetentionReport, LogError> {
        let shared = self.shared();
        shared.check_poison()?;
        let geometry = shared.geometry;
        let first_needed = geometry.segment_of(lsn.min(shared.flushed()));
        let current = geometry.segment_of(shared.appended());
        let outcome = retain(&shared.segments, &shared.counters, first_needed, current);
        shared.poison_if_fatal(outcome)
    }
}

fn retain(
    segments: &SegmentSet,
    counters: &Counters,
    first_needed: u64,
    current: u64,
) -> Result<RetentionReport, LogError> {
    let _retaining = segments.retaining.lock();
    let mut report = RetentionReport::default();
    {
        // A leftover may have the name of the spare that an `append` in want of a segment is about to make.
        let _preparing = segments.lock_preparing();
        for leftover in segments.take_leftovers() {
            remove(segments, &leftover)?;
            report.leftovers_removed += 1;
        }
    }
    let old = segments.below(first_needed);
    // As many as were filled since the last time will be wanted until the next: recycled, none of them costs zeros.
    let target = segments.spares_for_the_next_round(current);
    let ready = segments.prepared_until().saturating_sub(current + 1);
    let wanted = usize::try_from(target.saturating_sub(ready)).unwrap_or(usize::MAX);
    // The oldest are recycled, so that after a crash those with the header of another place come first: see `open`.
    let (to_recycle, to_remove) = old.split_at(wanted.min(old.len()));
    for &name in to_remove {
        remove_segment(segments, name, &mut report, counters)?;
    }
    // Spares last, in the lock that an `append` in want of a segment takes: removals can take long.
    let preparing = segments.lock_preparing();
    let mut until = segments.prepared_until();
    for &name in to_recycle {
        // Found at open: nearer than a segment to recycle, but it must be cleaned first.
        while segments.contains(segments.name_of(until)) && until <= current.saturating_add(target) {
            segments.prepare_one(until, counters)?;
            until += 1;
        }
        let is_wanted = until <= current.saturating_add(target);
        if is_wanted && segments.is_whole(name)? {
            segments.recycle(name, until)?;
            counters.segments_recycled.add(1);
            report.recycled += 1;
            until += 1;
        } else {
            remove_segment(segments, name, &mut report, counters)?;
        }
    }
    if report != RetentionReport::default() || until > segments.prepared_until() {
        segments.publish(&preparing, until, counters)?;
        report.directory_syncs += 1;
    }
    Ok(report)
}

fn remove_segment(
    segments: &SegmentSet,
    name: SegmentName,
    report: &mut RetentionReport,
    counters: &Counters,
) -> Result<(), LogError> {
    remove(segments, &name.path())?;
    segments.forget(name);
    counters.segments_removed.add(1);
    report.removed += 1;
    Ok(())
}

/// One that is gone already is fine: an operator may have been faster.
fn remove(segments: &SegmentSet, path: &str) -> Result<(), LogError> {
    match segments.disk.remove(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(LogError::io("remove", path, error)),
        Ok(()) | Err(_) => Ok(()),
    }
}

impl SegmentSet {
    /// Whether the file has the length of a segment, so that it can be used again.
    fn is_whole(&self, name: SegmentName) -> Result<bool, LogError> {
        let path = name.path();
        let measured = self.disk.open(&path, seawall_io::OpenMode::Read).and_then(|file| file.length());
        match measured {
            Ok(bytes) => Ok(bytes == self.identity.geometry.segment_bytes()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(LogError::io("measure", path, error)),
        }
    }
}
