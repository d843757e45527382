//! The segment files of a written log: the list, and the preparation of the next files.
//!
//! ```text
//!   to be removed    retained           current   spares, ready     found at open, not looked at yet
//!   [97][98]         [99][A0][A1]       [A2]      [A3][A4]          [A5][A6]
//!                                                         ^ prepared_until
//! ```
//! A segment is ready when its header, its length and its name are durable and its content cannot be taken for records
//! of it: zeros, or records of the segment that it was before. The steps for a new one: create `log/spare.<number>`,
//! make its length zeros (`NewBlocks`), write the header, sync, rename, sync the directory; only then may an LSN in it be given out.
//! A crash in between leaves a spare name, which is removed some day, or a ready segment.
//!
//! What is found beyond the end when the log is opened is ready as it is, if its header says that the log had not begun to
//! write it: then no record of it was ever there. One that was begun may hold records that were torn off there. It is zeroed,
//! durably, and only then does its header say that it was not begun.
//!
//! Lock order: `preparing` (held across disk calls), then `files`, `set_aside` and `handles` (never).

mod found;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

use seawall_io::{AlignedBuffer, BLOCK_BYTES, Disk, DiskFile, OpenMode, is_disk_full};
use seawall_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use seawall_sync::{Mutex, MutexGuard};
use seawall_types::{Lsn, TimelineId};

use crate::error::LogError;
use crate::geometry::HEADER_BYTES;
use crate::metrics::Counters;
use crate::options::LogOptions;
use crate::record::RECORD_HEADER_BYTES;
use crate::recycle::estimate::RecycleEstimate;
use crate::sabotage::{Defect, sabotaged};
use crate::segment::{LOG_DIRECTORY, LogIdentity, SegmentName, SegmentUse, check_header, encode_header};

pub use found::LogFiles;
pub(crate) use found::{FoundFiles, is_of_other_copy, oldest_without_gap, read_header};

/// How the segments are opened that are written.
fn written_mode() -> OpenMode {
    if sabotaged(Defect::FlushNotDurable) { OpenMode::Write } else { OpenMode::Log }
}

/// Prefix of the names of segments that are being made.
pub(crate) const SPARE_PREFIX: &str = "spare.";

/// Segments recycled in one batch while spares are low.
const RECYCLED_AT_ONCE: usize = 4;

/// The blocks of a new segment. They read as zeros, and the disk has room for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NewBlocks {
    /// Written: a sync of what is written over them later has no metadata to write.
    Written,
    /// Allocated only: half the bytes for the device, where all of the segment is written soon, and by few syncs. Where a promotion takes such
    /// a segment over, its first syncs cost more.
    Allocated,
}

/// What a segment is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentState {
    /// Holds records that are needed, or is about to.
    Live,
    /// Lies beyond the last record.
    Spare,
    /// Nobody needs it any more: it will be recycled or removed.
    Unneeded,
    /// Belongs to no part of the log: of a timeline that was left before, or never counted. It will be recycled or removed,
    /// but for one of a timeline that is newer.
    Stray,
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
    /// How much is logged between two checkpoints.
    pub(crate) estimate: Mutex<RecycleEstimate>,
    /// Segments below are ready. Written under `preparing`; read by `append`.
    prepared_until: AtomicU64,
    preparing: Mutex<()>,
    /// Set under `preparing`: no segment is made any more.
    closed: AtomicBool,
    /// One retention at a time; taken before `preparing`.
    pub(crate) retaining: Mutex<()>,
    files: Mutex<BTreeSet<SegmentName>>,
    /// Files that belong to no part of the log: see `FoundFiles`.
    strays: Mutex<BTreeSet<SegmentName>>,
    /// Ready segments that the flusher has not reached, open, so that crossing into one cannot fail.
    handles: Mutex<BTreeMap<u64, Arc<dyn DiskFile>>>,
    /// Files that a crash left behind, to be removed with the next batch.
    leftovers: Mutex<Vec<String>>,
    /// Segments that are not needed and that could not be removed: tried again after the next checkpoint.
    set_aside: Mutex<BTreeSet<SegmentName>>,
}

impl SegmentSet {
    /// The files `found`, of which those below `prepared_until` are ready; the log ends at `end`.
    pub(crate) fn new(
        disk: Arc<dyn Disk>,
        identity: LogIdentity,
        options: &LogOptions,
        found: FoundFiles,
        end: Lsn,
        prepared_until: u64,
    ) -> SegmentSet {
        SegmentSet {
            disk,
            identity,
            spare_segments: options.spare_segments,
            estimate: Mutex::new(RecycleEstimate::from(end, options.expected_cycle_bytes)),
            prepared_until: AtomicU64::new(prepared_until),
            preparing: Mutex::new(()),
            closed: AtomicBool::new(false),
            retaining: Mutex::new(()),
            files: Mutex::new(found.segments),
            strays: Mutex::new(found.strays),
            handles: Mutex::new(BTreeMap::new()),
            leftovers: Mutex::new(found.leftovers),
            set_aside: Mutex::default(),
        }
    }

    pub(crate) fn prepared_until(&self) -> u64 {
        self.prepared_until.load(Ordering::SeqCst)
    }

    pub(crate) fn path_of(&self, number: u64) -> String {
        self.name_of(number).path()
    }

    pub(crate) fn name_of(&self, number: u64) -> SegmentName {
        SegmentName { number, timeline: self.identity.timeline.id }
    }

    /// Whether fewer spares than wanted are ready when the log has reached segment `current`.
    pub(crate) fn spares_are_low(&self, current: u64) -> bool {
        self.missing_spares(current) > 0
    }

    pub(crate) fn missing_spares(&self, current: u64) -> u64 {
        (current + 1).saturating_add(self.spare_segments).saturating_sub(self.prepared_until())
    }

    /// How many segments to recycle at once, of so many that are wanted: a few while fewer spares are ready than the options want, so that the
    /// log waits for a few headers to be written, and not for all.
    pub(crate) fn recycled_at_once(&self, wanted: usize, current: u64) -> usize {
        if self.spares_are_low(current) { wanted.min(RECYCLED_AT_ONCE) } else { wanted }
    }

    /// How many spares to keep: as many as are filled from one checkpoint to the next, at least as many as the options
    /// want.
    pub(crate) fn wanted_spares(&self) -> u64 {
        self.estimate.lock().segments(self.identity.geometry).max(self.spare_segments)
    }

    /// Makes the segments up to and including `segment` ready.
    pub(crate) fn prepare_through(
        &self,
        segment: u64,
        blocks: NewBlocks,
        counters: &Counters,
    ) -> Result<(), LogError> {
        let preparing = self.preparing.lock();
        if self.closed.load(Ordering::SeqCst) {
            return Err(LogError::Closed);
        }
        let first = self.prepared_until();
        if first > segment {
            return Ok(());
        }
        for number in first..=segment {
            self.prepare_one(number, blocks, counters)?;
        }
        self.publish(&preparing, segment + 1, counters)
    }

    /// Makes spares ready, one at a time, so that an `append` that needs the first does not wait for all.
    pub(crate) fn prepare_ahead(
        &self,
        appended: Lsn,
        blocks: impl Fn() -> NewBlocks,
        counters: &Counters,
    ) -> Result<(), LogError> {
        let current = self.identity.geometry.segment_of(appended);
        while self.spares_are_low(current) {
            self.prepare_through(self.prepared_until(), blocks(), counters)?;
        }
        Ok(())
    }

    /// Makes segments ready that were found beyond the end when the log was opened, one at a time, as long as more spares
    /// are wanted than there are. How many are wanted beyond those.
    pub(crate) fn prepare_found(&self, current: u64, counters: &Counters) -> Result<usize, LogError> {
        let wanted = self.wanted_spares();
        loop {
            let until = self.prepared_until();
            let missing = wanted.saturating_sub(until.saturating_sub(current + 1));
            if missing == 0 || !self.contains(self.name_of(until)) {
                return Ok(usize::try_from(missing).unwrap_or(usize::MAX));
            }
            self.prepare_through(until, NewBlocks::Written, counters)?;
        }
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
        if !sabotaged(Defect::SegmentNameNotSynced) {
            self.sync_names(counters)?;
        }
        self.offer(until);
        Ok(())
    }

    /// The segments below `until` may be written.
    pub(crate) fn offer(&self, until: u64) {
        self.prepared_until.fetch_max(until, Ordering::SeqCst);
    }

    /// Makes names and removals durable.
    pub(crate) fn sync_names(&self, counters: &Counters) -> Result<(), LogError> {
        self.disk
            .sync_directory(LOG_DIRECTORY)
            .map_err(|error| fatal("sync directory", LOG_DIRECTORY, &error))?;
        counters.directory_syncs.add(1);
        Ok(())
    }

    /// Makes segment `number` ready but for the sync of the directory.
    pub(crate) fn prepare_one(
        &self,
        number: u64,
        blocks: NewBlocks,
        counters: &Counters,
    ) -> Result<(), LogError> {
        let name = self.name_of(number);
        if self.contains(name) {
            self.clean(name)?;
            counters.segments_cleaned.add(1);
        } else {
            self.create(name, blocks)?;
            counters.segments_prepared.add(1);
        }
        self.open_handle(number)
    }

    pub(crate) fn open_handle(&self, number: u64) -> Result<(), LogError> {
        let path = self.path_of(number);
        let file =
            self.disk.open(&path, written_mode()).map_err(|error| LogError::io("open", &path, error))?;
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
                self.disk.open(&path, written_mode()).map_err(|error| LogError::io("open", &path, error))
            }
        }
    }

    /// A new segment, of zeros.
    fn create(&self, name: SegmentName, blocks: NewBlocks) -> Result<(), LogError> {
        let spare = spare_path(name.number);
        let outcome = self.create_spare(&spare, name, blocks);
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
                    tracing::debug!(%spare, error = %also, "a half-made segment is left");
                }
                Err(no_space_or("make", &name.path(), error))
            }
        }
    }

    fn create_spare(&self, spare: &str, name: SegmentName, blocks: NewBlocks) -> io::Result<()> {
        let file = match self.disk.open(spare, OpenMode::Create) {
            // A crash left one behind.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                self.disk.remove(spare)?;
                self.disk.open(spare, OpenMode::Create)?
            }
            other => other?,
        };
        let segment_bytes = self.identity.geometry.segment_bytes();
        match blocks {
            NewBlocks::Written => file.fill_zeros(0, segment_bytes)?,
            NewBlocks::Allocated => file.extend(segment_bytes)?,
        }
        file.write_all_at(&encode_header(&self.identity, name.number, SegmentUse::Ready), 0)?;
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
        let sync = || file.sync_data().map_err(|error| fatal("sync", &path, &error));
        let is_whole = file.length().map_err(failed("measure"))? == segment_bytes;
        if is_whole {
            let mut page = [0; BLOCK_BYTES];
            file.read_exact_at(&mut page, 0).map_err(failed("read"))?;
            if check_header(&page, &self.identity, name.number) == Ok(SegmentUse::Ready) {
                // The cache may show what a process before this one has written, and the disk not have it.
                file.write_all_at(&page, 0).map_err(failed("write"))?;
                return sync();
            }
        }
        // The header of a record may begin in the segment before, with bytes that are zeros there. The rest of it goes first:
        // without this, zeroing half of what follows could complete a record whose missing half was zeros (as in `open`).
        file.fill_zeros(HEADER_BYTES, RECORD_HEADER_BYTES as u64).map_err(failed("zero"))?;
        sync()?;
        if !is_whole {
            file.set_length(segment_bytes).map_err(failed("set the length of"))?;
        }
        // Written even if it reads as zeros: after a failed sync the cache may have zeros that the disk does not have, and
        // once the header says that the segment is ready, nobody zeroes it again.
        file.fill_zeros(HEADER_BYTES, segment_bytes - HEADER_BYTES).map_err(failed("zero"))?;
        sync()?;
        let header = encode_header(&self.identity, name.number, SegmentUse::Ready);
        file.write_all_at(&header, 0).map_err(failed("write"))?;
        sync()
    }

    /// The strays of `timeline` beyond segment `current`, the last one first.
    pub(crate) fn strays_beyond(&self, timeline: TimelineId, current: u64) -> Vec<SegmentName> {
        let strays = self.strays.lock();
        let beyond = |name: &&SegmentName| name.timeline == timeline && name.number > current;
        strays.iter().rev().filter(beyond).copied().collect()
    }

    /// Says durably that the log comes to segment `number`: before the first record goes there.
    pub(crate) fn begin(&self, file: &dyn DiskFile, number: u64) -> io::Result<()> {
        let mut page = AlignedBuffer::zeroed(BLOCK_BYTES);
        page.copy_from_slice(&encode_header(&self.identity, number, SegmentUse::Begun));
        file.write_durable_at(&page, 0..BLOCK_BYTES, 0)
    }

    pub(crate) fn contains(&self, name: SegmentName) -> bool {
        self.files.lock().contains(&name)
    }

    /// The file is gone.
    pub(crate) fn forget(&self, name: SegmentName) {
        if !self.files.lock().remove(&name) {
            self.strays.lock().remove(&name);
        }
        self.set_aside.lock().remove(&name);
    }

    /// There is a file more.
    pub(crate) fn add(&self, name: SegmentName) {
        self.files.lock().insert(name);
    }

    /// The file has another name now.
    pub(crate) fn renamed(&self, from: SegmentName, to: SegmentName) {
        self.forget(from);
        self.add(to);
    }

    /// Segments that are not needed if none is needed below `number`, but for those that were set aside: first those that belong to
    /// no part of the log, then the oldest.
    pub(crate) fn unneeded(&self, number: u64) -> Vec<SegmentName> {
        let mut unneeded: Vec<SegmentName> = self.strays.lock().iter().copied().collect();
        unneeded.extend(self.files.lock().iter().take_while(|name| name.number < number));
        let set_aside = self.set_aside.lock();
        unneeded.retain(|name| !set_aside.contains(name));
        unneeded
    }

    /// How many of them there are.
    pub(crate) fn count_unneeded(&self, number: u64) -> usize {
        self.unneeded(number).len()
    }

    /// One file must not keep others from being cleaned up.
    pub(crate) fn set_aside(&self, name: SegmentName, error: &LogError, counters: &Counters) {
        tracing::warn!(path = %name.path(), %error, source = ?std::error::Error::source(error),
            "a log segment that is not needed could not be removed; the next checkpoint retries");
        counters.clean_up_failures.add(1);
        self.set_aside.lock().insert(name);
    }

    /// What was set aside is tried again.
    pub(crate) fn try_all_again(&self) {
        self.set_aside.lock().clear();
    }

    /// How many there are up to segment `current`, strays included, and how many beyond.
    pub(crate) fn count(&self, current: u64) -> (usize, usize) {
        let strays = self.strays.lock().len();
        let files = self.files.lock();
        let spare = files.iter().rev().take_while(|name| name.number > current).count();
        (strays + files.len() - spare, spare)
    }

    /// Half-made files that a crash left.
    pub(crate) fn has_leftovers(&self) -> bool {
        !self.leftovers.lock().is_empty()
    }

    pub(crate) fn take_leftover(&self) -> Option<String> {
        self.leftovers.lock().pop()
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

/// The name of a segment that is being made for place `number`.
pub(crate) fn spare_path(number: u64) -> String {
    format!("{LOG_DIRECTORY}/{SPARE_PREFIX}{number}")
}

/// A failed sync: what is on disk is unknown, and so the log stops.
pub(crate) fn fatal(action: &str, path: &str, error: &io::Error) -> LogError {
    LogError::Poisoned { cause: format!("{action} {path}: {error}") }
}

pub(crate) fn no_space_or(action: &'static str, path: &str, error: io::Error) -> LogError {
    if is_disk_full(&error) {
        LogError::NoSpace { path: path.to_owned(), source: error }
    } else {
        LogError::io(action, path, error)
    }
}
