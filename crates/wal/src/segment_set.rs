//! The segment files of a log that is written: which there are, and making the next ones ready.
//!
//! ```text
//!   to be removed    retained           current   spares, ready     found at open, not looked at yet
//!   [97][98]         [99][A0][A1]       [A2]      [A3][A4]          [A5][A6]
//!                                                         ^ prepared_until
//! ```
//! A segment is ready when its header, its length and its name are durable and its content cannot be taken for records
//! of it: zeros, or records of the segment that it was before. The steps for a new one: create `log/spare.<number>`,
//! zero-fill, write the header, sync, rename, sync the directory; only then may an LSN in it be given out. A crash in
//! between leaves a spare name, which is removed some day, or a ready segment. What is found beyond the end when the log
//! is opened may hold records that were torn off there, so it is zeroed before it becomes ready.
//!
//! Lock order: `preparing` (held across disk calls), then `files` and `handles` (never).

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};
use seawall_io::{Disk, DiskFile, OpenMode};
use seawall_types::Lsn;

use crate::error::LogError;
use crate::geometry::HEADER_BYTES;
use crate::metrics::Counters;
use crate::segment::{LOG_DIRECTORY, LogIdentity, SegmentName, check_header, encode_header};

/// Segments kept for use again at most, whatever the log has filled: more would only take space on the disk.
const RECYCLED_MAX: u64 = 64;

/// Prefix of the names of segments that are being made.
pub(crate) const SPARE_PREFIX: &str = "spare.";

/// What a segment is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentState {
    /// Holds records, or is about to.
    Live,
    /// Lies beyond the last record.
    Spare,
}

/// A segment on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentInfo {
    /// Timeline and number; gives the path.
    pub name: SegmentName,
    /// The LSN of its first record byte.
    pub first_lsn: Lsn,
    /// What it is good for.
    pub state: SegmentState,
}

/// The segment files.
#[derive(Debug)]
pub(crate) struct SegmentSet {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) identity: LogIdentity,
    spare_segments: u64,
    /// Segments below are ready. Written under `preparing`; read by `append`.
    prepared_until: AtomicU64,
    preparing: Mutex<()>,
    /// The segment that was written when the log was last cleaned up, or opened.
    last_retained_at: AtomicU64,
    /// Set under `preparing`: no segment is made any more.
    closed: AtomicBool,
    /// One retention at a time; taken before `preparing`.
    pub(crate) retaining: Mutex<()>,
    files: Mutex<BTreeSet<SegmentName>>,
    /// Ready segments that the flusher has not reached, open, so that crossing into one cannot fail.
    handles: Mutex<BTreeMap<u64, Arc<dyn DiskFile>>>,
    /// Files that a crash left behind, to be removed with the next batch.
    leftovers: Mutex<Vec<String>>,
}

impl SegmentSet {
    /// The files `files`, of which those below `prepared_until` are ready.
    pub(crate) fn new(
        disk: Arc<dyn Disk>,
        identity: LogIdentity,
        spare_segments: u64,
        found: FoundFiles,
        prepared_until: u64,
    ) -> SegmentSet {
        SegmentSet {
            disk,
            identity,
            spare_segments,
            prepared_until: AtomicU64::new(prepared_until),
            preparing: Mutex::new(()),
            last_retained_at: AtomicU64::new(u64::MAX),
            closed: AtomicBool::new(false),
            retaining: Mutex::new(()),
            files: Mutex::new(found.segments),
            handles: Mutex::new(BTreeMap::new()),
            leftovers: Mutex::new(found.leftovers),
        }
    }

    pub(crate) fn prepared_until(&self) -> u64 {
        self.prepared_until.load(Ordering::SeqCst)
    }

    pub(crate) fn path_of(&self, number: u64) -> String {
        self.name_of(number).path()
    }

    pub(crate) fn name_of(&self, number: u64) -> SegmentName {
        SegmentName { number, timeline: self.identity.timeline }
    }

    /// Whether fewer spares than wanted are ready when the log has reached segment `current`.
    pub(crate) fn spares_are_low(&self, current: u64) -> bool {
        self.missing_spares(current) > 0
    }

    pub(crate) fn missing_spares(&self, current: u64) -> u64 {
        (current + 1).saturating_add(self.spare_segments).saturating_sub(self.prepared_until())
    }

    /// How many spares to keep when the log has reached segment `current`: as many as it filled since the last call,
    /// at least as many as the options want, and at most `RECYCLED_MAX`.
    pub(crate) fn spares_for_the_next_round(&self, current: u64) -> u64 {
        let last = self.last_retained_at.swap(current, Ordering::SeqCst);
        let filled = current.saturating_sub(last).min(RECYCLED_MAX);
        self.spare_segments.max(filled)
    }

    /// Makes the segments up to and including `segment` ready.
    pub(crate) fn prepare_through(&self, segment: u64, counters: &Counters) -> Result<(), LogError> {
        let preparing = self.preparing.lock();
        if self.closed.load(Ordering::SeqCst) {
            return Err(LogError::Closed);
        }
        let first = self.prepared_until();
        if first > segment {
            return Ok(());
        }
        for number in first..=segment {
            self.prepare_one(number, counters)?;
        }
        self.publish(&preparing, segment + 1, counters)
    }

    /// Makes spares ready, one at a time, so that an `append` that needs the first does not wait for all.
    pub(crate) fn prepare_ahead(&self, appended: Lsn, counters: &Counters) -> Result<(), LogError> {
        let current = self.identity.geometry.segment_of(appended);
        while self.spares_are_low(current) {
            self.prepare_through(self.prepared_until(), counters)?;
        }
        Ok(())
    }

    /// Waits for a segment that is being made; none is made after that.
    pub(crate) fn close(&self) {
        let _preparing = self.preparing.lock();
        self.closed.store(true, Ordering::SeqCst);
    }

    pub(crate) fn lock_preparing(&self) -> MutexGuard<'_, ()> {
        self.preparing.lock()
    }

    /// Makes names durable, then offers the segments below `until`.
    pub(crate) fn publish(
        &self,
        _preparing: &MutexGuard<'_, ()>,
        until: u64,
        counters: &Counters,
    ) -> Result<(), LogError> {
        self.disk
            .sync_directory(LOG_DIRECTORY)
            .map_err(|error| fatal("sync directory", LOG_DIRECTORY, &error))?;
        counters.directory_syncs.add(1);
        self.prepared_until.fetch_max(until, Ordering::SeqCst);
        Ok(())
    }

    /// Makes segment `number` ready but for the sync of the directory.
    pub(crate) fn prepare_one(&self, number: u64, counters: &Counters) -> Result<(), LogError> {
        let name = self.name_of(number);
        if self.contains(name) {
            self.clean(name)?;
            counters.segments_cleaned.add(1);
        } else {
            self.create(name)?;
            counters.segments_prepared.add(1);
        }
        self.open_handle(number)
    }

    pub(crate) fn open_handle(&self, number: u64) -> Result<(), LogError> {
        let path = self.path_of(number);
        let file =
            self.disk.open(&path, OpenMode::Log).map_err(|error| LogError::io("open", &path, error))?;
        self.handles.lock().insert(number, file);
        Ok(())
    }

    /// The open file of a ready segment. Those before it are done with.
    pub(crate) fn take_handle(&self, number: u64) -> Result<Arc<dyn DiskFile>, LogError> {
        let mut handles = self.handles.lock();
        let later = handles.split_off(&(number + 1));
        let found = handles.remove(&number);
        *handles = later;
        drop(handles);
        match found {
            Some(file) => Ok(file),
            None => {
                let path = self.path_of(number);
                self.disk.open(&path, OpenMode::Log).map_err(|error| LogError::io("open", &path, error))
            }
        }
    }

    /// A new, zero-filled segment.
    fn create(&self, name: SegmentName) -> Result<(), LogError> {
        let spare = format!("{LOG_DIRECTORY}/{SPARE_PREFIX}{}", name.number);
        let outcome = self.create_spare(&spare, name);
        match outcome {
            Ok(()) => {
                let path = name.path();
                self.disk.rename(&spare, &path).map_err(|error| LogError::io("rename to", &path, error))?;
                self.files.lock().insert(name);
                Ok(())
            }
            Err(error) => {
                // Gives back the space of what was written; whatever goes wrong now, the first error counts.
                if let Err(also) = self.disk.remove(&spare) {
                    tracing::debug!(%spare, error = %also, "a half-made segment stays behind");
                }
                Err(no_space_or("make", &name.path(), error))
            }
        }
    }

    fn create_spare(&self, spare: &str, name: SegmentName) -> io::Result<()> {
        let file = match self.disk.open(spare, OpenMode::Create) {
            // A crash left one behind.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                self.disk.remove(spare)?;
                self.disk.open(spare, OpenMode::Create)?
            }
            other => other?,
        };
        file.fill_zeros(0, self.identity.geometry.segment_bytes())?;
        file.write_all_at(&encode_header(&self.identity, name.number), 0)?;
        file.sync_data()
    }

    /// Makes a segment that was found beyond the end as good as new.
    fn clean(&self, name: SegmentName) -> Result<(), LogError> {
        let path = name.path();
        let failed = |action: &'static str| {
            let path = path.clone();
            move |error: io::Error| no_space_or(action, &path, error)
        };
        let segment_bytes = self.identity.geometry.segment_bytes();
        let file = self.disk.open(&path, OpenMode::Write).map_err(failed("open"))?;
        if file.length().map_err(failed("measure"))? != segment_bytes {
            file.set_length(segment_bytes).map_err(failed("set the length of"))?;
            file.fill_zeros(0, segment_bytes).map_err(failed("zero-fill"))?;
        }
        zero_range(&*file, HEADER_BYTES, segment_bytes).map_err(failed("zero"))?;
        let mut page = [0; 4096];
        file.read_exact_at(&mut page, 0).map_err(failed("read"))?;
        if check_header(&page, &self.identity, name.number).is_err() {
            file.write_all_at(&encode_header(&self.identity, name.number), 0).map_err(failed("write"))?;
        }
        // After a failed sync the cache may show zeros that the disk does not have.
        file.sync_data().map_err(|error| fatal("sync", &path, &error))
    }

    /// Gives the old segment `from` the place of segment `number`, but for the sync of the directory.
    ///
    /// The header comes first: whoever finds the new name finds a valid header, and under the old name, below what
    /// anybody reads, a header of another place is recognised by `open`.
    pub(crate) fn recycle(&self, from: SegmentName, number: u64) -> Result<(), LogError> {
        let (old_path, name) = (from.path(), self.name_of(number));
        let failed = |error| LogError::io("recycle", &old_path, error);
        let file = self.disk.open(&old_path, OpenMode::Write).map_err(failed)?;
        file.write_all_at(&encode_header(&self.identity, number), 0).map_err(failed)?;
        file.sync_data().map_err(|error| fatal("sync", &old_path, &error))?;
        self.disk.rename(&old_path, &name.path()).map_err(failed)?;
        let mut files = self.files.lock();
        files.remove(&from);
        files.insert(name);
        drop(files);
        self.open_handle(number)
    }

    pub(crate) fn contains(&self, name: SegmentName) -> bool {
        self.files.lock().contains(&name)
    }

    pub(crate) fn forget(&self, name: SegmentName) {
        self.files.lock().remove(&name);
    }

    /// Segments of this timeline and older ones with numbers below `number`, oldest first.
    pub(crate) fn below(&self, number: u64) -> Vec<SegmentName> {
        let files = self.files.lock();
        let is_old = |name: &&SegmentName| name.number < number && name.timeline <= self.identity.timeline;
        files.iter().filter(is_old).copied().collect()
    }

    pub(crate) fn take_leftovers(&self) -> Vec<String> {
        std::mem::take(&mut *self.leftovers.lock())
    }

    /// The start of the oldest segment from which on up to `current` none is missing.
    pub(crate) fn oldest_retained(&self, current: u64) -> Lsn {
        let files = self.files.lock();
        let oldest = oldest_without_gap(&files, current);
        self.identity.geometry.first_record_of(oldest)
    }

    pub(crate) fn list(&self, current: u64) -> Vec<SegmentInfo> {
        let files = self.files.lock();
        let describe = |name: &SegmentName| SegmentInfo {
            name: *name,
            first_lsn: self.identity.geometry.first_record_of(name.number),
            state: if name.number > current { SegmentState::Spare } else { SegmentState::Live },
        };
        files.iter().map(describe).collect()
    }
}

/// Numbers down from `current` as long as there is a file of some timeline for each.
pub(crate) fn oldest_without_gap(files: &BTreeSet<SegmentName>, current: u64) -> u64 {
    let mut oldest = current;
    for name in files.iter().rev() {
        if name.number + 1 == oldest {
            oldest = name.number;
        } else if name.number + 1 < oldest {
            break;
        }
    }
    oldest
}

/// What the log directory holds.
#[derive(Debug, Default)]
pub(crate) struct FoundFiles {
    pub(crate) segments: BTreeSet<SegmentName>,
    pub(crate) leftovers: Vec<String>,
}

impl FoundFiles {
    pub(crate) fn list(disk: &dyn Disk) -> Result<FoundFiles, LogError> {
        let entries = disk.list(LOG_DIRECTORY).map_err(|error| LogError::io("list", LOG_DIRECTORY, error))?;
        let mut found = FoundFiles::default();
        for entry in entries {
            if let Some(name) = SegmentName::parse(&entry.name) {
                found.segments.insert(name);
            } else if entry.name.starts_with(SPARE_PREFIX) {
                found.leftovers.push(format!("{LOG_DIRECTORY}/{}", entry.name));
            }
        }
        Ok(found)
    }
}

/// Overwrites with zeros what is not zero in `start..end`; not synced. Returns whether anything was written.
pub(crate) fn zero_range(file: &dyn DiskFile, start: u64, end: u64) -> io::Result<bool> {
    const PIECE_BYTES: usize = 256 << 10;
    let mut piece = vec![0; PIECE_BYTES];
    let zeros = vec![0; PIECE_BYTES];
    let mut has_written = false;
    let mut offset = start;
    while offset < end {
        let bytes = usize::try_from(end - offset).unwrap_or(usize::MAX).min(PIECE_BYTES);
        file.read_exact_at(&mut piece[..bytes], offset)?;
        if piece[..bytes] != zeros[..bytes] {
            file.write_all_at(&zeros[..bytes], offset)?;
            has_written = true;
        }
        offset += bytes as u64;
    }
    Ok(has_written)
}

/// A failed sync: what is on disk is unknown, and so the log stops.
pub(crate) fn fatal(action: &str, path: &str, error: &io::Error) -> LogError {
    LogError::Poisoned { cause: format!("{action} {path}: {error}") }
}

pub(crate) fn no_space_or(action: &'static str, path: &str, error: io::Error) -> LogError {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            LogError::NoSpace { path: path.to_owned(), source: error }
        }
        _ => LogError::io(action, path, error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_types::TimelineId;

    #[test]
    fn the_oldest_segment_is_the_last_before_a_gap() {
        let name = |number, timeline| SegmentName { number, timeline: TimelineId::new(timeline).unwrap() };
        let files: BTreeSet<_> =
            [name(3, 1), name(5, 1), name(6, 1), name(7, 1), name(7, 2), name(8, 2), name(9, 2)].into();
        assert_eq!(oldest_without_gap(&files, 8), 5);
        assert_eq!(oldest_without_gap(&files, 9), 5);
        assert_eq!(oldest_without_gap(&files, 20), 20);
        assert_eq!(oldest_without_gap(&files, 3), 3);
    }
}
