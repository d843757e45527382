//! Creating a log, and opening one where recovery found its end.
//!
//! Behind the end there may be records of the batch that was torn off. None of them may ever be taken for a record of
//! the log once it has grown up to it again, so they are zeroed before anything is appended:
//!
//! 1. the 14 bytes at the end, where the next header will be; sync. From here on the record at the end can never
//!    verify, whatever else is on disk: without this step, zeroing half of the rest could complete a record whose
//!    missing half was zeros. If there was anything, the bytes become a mark that no record begins with;
//! 2. the rest of the segment if there was anything, else as much as one write of a batch reaches; sync. A batch is written
//!    in order, and each write of it is durable before the next: where nothing is left of the header at the end, nothing of
//!    that batch lies further on than one write;
//! 3. zeros over the mark; sync;
//! 4. later segments, each before an LSN in it is given out (`segment_set`).
//!
//! All of it is written even if it reads as zeros: an earlier attempt may have ended with a failed sync, so that the zeros are
//! in the operating system's cache and old records on the disk. The mark is there until the rest is durable, so that the next
//! attempt writes all of it, too. Before that, the last batch is made durable (`write_again`).
//!
//! A crash after any part of this leaves the same end: what is left behind it belongs to a batch that started at or
//! before the end, which is no evidence of damage, and the end itself does not verify.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

use seawall_io::{BLOCK_BYTES, Disk, DiskFile, OpenMode};
use seawall_types::{Lsn, Timeline};

use crate::error::{LogError, SegmentHeaderError};
use crate::geometry::HEADER_BYTES;
use crate::metrics::Counters;
use crate::options::{BUFFER_BYTES_MAX, LogOptions};
use crate::pending::Clearing;
use crate::reader::LogEnd;
use crate::received::ReceivedMark;
use crate::record::RECORD_HEADER_BYTES;
use crate::recycle::OldName;
use crate::sabotage::{Defect, sabotaged};
use crate::segment::{LOG_DIRECTORY, LogIdentity, SegmentName, SegmentUse, check_header, encode_header};
use crate::segment_set::{
    FoundFiles, NewBlocks, SegmentSet, fatal, is_of_other_copy, oldest_without_gap, read_header,
};
use crate::timeline::TimelineHistory;
use crate::write_again::write_again;

/// Further than any one write of a batch reaches: a buffer or a piece of long records, and a block.
const WRITE_REACH_BYTES: u64 = 2 * BUFFER_BYTES_MAX as u64;
/// Stands at the end of the log while it is cut off. No record begins with it: there is no such kind.
const CUT_MARK: [u8; RECORD_HEADER_BYTES] = [0xFF; RECORD_HEADER_BYTES];
/// Spares of the parent that are looked at for a new timeline's first segment.
const SPARES_TRIED: usize = 4;

/// What a writer starts from.
pub(crate) struct StartState {
    pub(crate) identity: LogIdentity,
    pub(crate) segments: SegmentSet,
    /// Where the next record goes.
    pub(crate) end: Lsn,
    /// What the log holds of the block that `end` lies in.
    pub(crate) carry: Vec<u8>,
    pub(crate) counters: Counters,
    /// What to do about the pending files.
    pub(crate) clearing: Clearing,
}

/// Makes the first segment of a timeline that starts at `start`.
pub(crate) fn create(disk: Arc<dyn Disk>, options: &LogOptions, start: Lsn) -> Result<StartState, LogError> {
    let identity = options.check()?;
    if !identity.geometry.is_normal(start) {
        return Err(LogError::Options { problem: format!("no record can start at {start}") });
    }
    let history = options.history();
    let parent = options.ancestors.last().map(|fork| history.timeline(fork.parent));
    // A parent has the directory, durably.
    if parent.is_none() {
        disk.create_directory(LOG_DIRECTORY).map_err(|error| LogError::io("create", LOG_DIRECTORY, error))?;
        disk.sync_directory("").map_err(|error| fatal("sync directory", "", &error))?;
    }
    let mut found = FoundFiles::list(&*disk, &history, identity.geometry)?;
    let number = identity.geometry.segment_of(start);
    drop_recycled(&*disk, &identity, &history, &mut found, number);
    for name in found.segments.iter().filter(|name| name.timeline == identity.timeline.id) {
        if is_of_other_copy(&*disk, &identity, *name) {
            continue;
        }
        // A crash while the log was created leaves the first segment, empty.
        if name.number != number || !is_empty(&*disk, *name)? {
            return Err(LogError::AlreadyExists { path: name.path() });
        }
    }
    let counters = Counters::default();
    let segments = SegmentSet::new(disk, identity, options, found, start, number);
    make_first(&segments, parent, start, &counters)?;
    let carry = vec![0; offset_in_block(identity.geometry.offset_of(start))];
    let clearing = if parent.is_some() { Clearing::NotNeeded } else { Clearing::Zeros };
    Ok(StartState { identity, segments, end: start, carry, counters, clearing })
}

/// Makes the segment ready that a timeline starts in: of a spare that its parent had ready, so that no zeros need be written, or
/// anew. What is in it before `start` is never read.
fn make_first(
    segments: &SegmentSet,
    parent: Option<Timeline>,
    start: Lsn,
    counters: &Counters,
) -> Result<(), LogError> {
    let geometry = segments.identity.geometry;
    let number = geometry.segment_of(start);
    // A flush says so itself only where it starts a segment at its beginning.
    let is_begun = geometry.offset_of(start) > HEADER_BYTES;
    let segment_use = if is_begun { SegmentUse::Begun } else { SegmentUse::Ready };
    let is_there = segments.contains(segments.name_of(number));
    if let Some(parent) = parent.filter(|_| !is_there) {
        let received = ReceivedMark::read(&*segments.disk, segments.identity.database, parent);
        let is_received = received.map_err(|source| LogError::ReceivedMark { source })?.is_some();
        let old_name = if is_received { OldName::GoesLast } else { OldName::GoesFirst };
        for spare in segments.strays_beyond(parent.id, number).into_iter().take(SPARES_TRIED) {
            if is_ready_spare(segments, parent, spare) {
                return segments.adopt(spare, number, segment_use, old_name, counters);
            }
        }
    }
    segments.prepare_through(number, NewBlocks::Written, counters)?;
    if is_begun {
        let path = segments.path_of(number);
        let begun = segments.disk.open(&path, OpenMode::Log).and_then(|file| segments.begin(&*file, number));
        begun.map_err(|error| LogError::io("begin", &path, error))?;
    }
    Ok(())
}

/// Whether the segment's own timeline has it ready and has not begun it.
fn is_ready_spare(segments: &SegmentSet, timeline: Timeline, name: SegmentName) -> bool {
    let identity = LogIdentity { timeline, ..segments.identity };
    let length = segments.disk.open(&name.path(), OpenMode::Read).and_then(|file| file.length());
    let is_whole = length.is_ok_and(|bytes| bytes == identity.geometry.segment_bytes());
    let header = read_header(&*segments.disk, &identity, name);
    is_whole && header.is_ok_and(|header| header == Ok(SegmentUse::Ready))
}

fn is_empty(disk: &dyn Disk, name: SegmentName) -> Result<bool, LogError> {
    let path = name.path();
    let failed = |error| LogError::io("read", &path, error);
    let file = disk.open(&path, OpenMode::Read).map_err(failed)?;
    let length = file.length().map_err(failed)?;
    let mut piece = vec![0; 64 << 10];
    let mut offset = HEADER_BYTES;
    while offset < length {
        let bytes = usize::try_from(length - offset).unwrap_or(usize::MAX).min(piece.len());
        file.read_exact_at(&mut piece[..bytes], offset).map_err(failed)?;
        if piece[..bytes].iter().any(|&byte| byte != 0) {
            return Ok(false);
        }
        offset += bytes as u64;
    }
    Ok(true)
}

/// Prepares the log that ends at `end` for more.
pub(crate) fn open(disk: Arc<dyn Disk>, options: &LogOptions, end: LogEnd) -> Result<StartState, LogError> {
    let identity = options.check()?;
    let geometry = identity.geometry;
    let received = ReceivedMark::read(&*disk, identity.database, identity.timeline);
    if received.map_err(|source| LogError::ReceivedMark { source })?.is_some() {
        return Err(LogError::Received { timeline: identity.timeline.id });
    }
    let (found, is_missing) = find_files(&*disk, options, &identity, end)?;
    let end = end.lsn;
    let number = geometry.segment_of(end);
    let counters = Counters::default();
    if is_missing && end == geometry.first_record_of(number) {
        let segments = SegmentSet::new(disk, identity, options, found, end, number);
        segments.prepare_through(number, NewBlocks::Written, &counters)?;
        let (carry, clearing) = (Vec::new(), Clearing::Zeros);
        return Ok(StartState { identity, segments, end, carry, counters, clearing });
    }
    let name = SegmentName { number, timeline: identity.timeline.id };
    let carry = cut_off_segment(&*disk, &identity, name, geometry.offset_of(end))?;
    let segments = SegmentSet::new(disk, identity, options, found, end, number + 1);
    segments.open_handle(number)?;
    Ok(StartState { identity, segments, end, carry, counters, clearing: Clearing::Zeros })
}

/// Makes the last batch before `end` durable, and lists the files; whether that of `end` is missing.
fn find_files(
    disk: &dyn Disk,
    options: &LogOptions,
    identity: &LogIdentity,
    end: LogEnd,
) -> Result<(FoundFiles, bool), LogError> {
    let geometry = identity.geometry;
    if !geometry.is_normal(end.lsn) {
        return Err(LogError::Options { problem: format!("no record can start at {}", end.lsn) });
    }
    write_again(disk, identity, end.durable, end.lsn)?;
    let history = options.history();
    let mut found = FoundFiles::list(disk, &history, geometry)?;
    let number = geometry.segment_of(end.lsn);
    drop_recycled(disk, identity, &history, &mut found, number);
    let name = SegmentName { number, timeline: identity.timeline.id };
    let is_missing = !found.segments.contains(&name) || is_of_other_copy(disk, identity, name);
    Ok((found, is_missing))
}

/// What a receiver starts from.
pub(crate) struct ReceivedFiles {
    pub(crate) segments: SegmentSet,
    pub(crate) counters: Counters,
}

/// Prepares the log that ends at `end` to receive more. What lies behind the end is left as it is: it will be received again.
pub(crate) fn open_received(
    disk: &Arc<dyn Disk>,
    options: &LogOptions,
    end: LogEnd,
) -> Result<ReceivedFiles, LogError> {
    let identity = options.check()?;
    let geometry = identity.geometry;
    disk.create_directory(LOG_DIRECTORY).map_err(|error| LogError::io("create", LOG_DIRECTORY, error))?;
    disk.sync_directory("").map_err(|error| fatal("sync directory", "", &error))?;
    let (found, is_missing) = find_files(&**disk, options, &identity, end)?;
    let end = end.lsn;
    let number = geometry.segment_of(end);
    let counters = Counters::default();
    let begins_here = end == identity.timeline.began || end == geometry.first_lsn();
    if is_missing && (begins_here || end == geometry.first_record_of(number)) {
        let history = options.history();
        let parent = options.ancestors.last().filter(|_| begins_here);
        let parent = parent.map(|fork| history.timeline(fork.parent));
        let disk = Arc::clone(disk);
        let segments = SegmentSet::new(disk, identity, options, found, end, number);
        make_first(&segments, parent, end, &counters)?;
        return Ok(ReceivedFiles { segments, counters });
    }
    let name = SegmentName { number, timeline: identity.timeline.id };
    check_segment(&**disk, &identity, name)?;
    let disk = Arc::clone(disk);
    let segments = SegmentSet::new(disk, identity, options, found, end, number + 1);
    Ok(ReceivedFiles { segments, counters })
}

/// Zeroes what lies behind `offset`, durably; returns the part of `offset`'s block before it.
fn cut_off_segment(
    disk: &dyn Disk,
    identity: &LogIdentity,
    name: SegmentName,
    offset: u64,
) -> Result<Vec<u8>, LogError> {
    let path = name.path();
    let failed = |action: &'static str| {
        let path = path.clone();
        move |error: io::Error| LogError::io(action, path, error)
    };
    let (file, segment_use) = check_segment(disk, identity, name)?;
    let segment_bytes = identity.geometry.segment_bytes();
    if segment_use == SegmentUse::Ready && offset > HEADER_BYTES {
        // It lost its mark. Durable with the zeros, before the next record.
        let header = encode_header(identity, name.number, SegmentUse::Begun);
        file.write_all_at(&header, 0).map_err(failed("write the header of"))?;
    }
    if !sabotaged(Defect::TailNotZeroed) {
        zero_behind(&*file, offset, segment_bytes).map_err(failed("zero the end of"))?;
    }
    let mut carry = vec![0; offset_in_block(offset)];
    let block_start = offset - carry.len() as u64;
    file.read_exact_at(&mut carry, block_start).map_err(failed("read"))?;
    Ok(carry)
}

/// Opens a whole segment of this log; what its header says.
fn check_segment(
    disk: &dyn Disk,
    identity: &LogIdentity,
    name: SegmentName,
) -> Result<(Arc<dyn DiskFile>, SegmentUse), LogError> {
    let path = name.path();
    let failed = |action: &'static str| {
        let path = path.clone();
        move |error: io::Error| LogError::io(action, path, error)
    };
    let refused = |source| LogError::Header { path: path.clone(), source };
    let file = disk.open(&path, OpenMode::Write).map_err(failed("open"))?;
    let expected = identity.geometry.segment_bytes();
    let length = file.length().map_err(failed("measure"))?;
    if length != expected {
        return Err(refused(SegmentHeaderError::Length { found: length, expected }));
    }
    let mut page = [0; BLOCK_BYTES];
    file.read_exact_at(&mut page, 0).map_err(failed("read"))?;
    let segment_use = check_header(&page, identity, name.number).map_err(refused)?;
    Ok((file, segment_use))
}

/// Steps 1 to 3, in a segment of `segment_bytes` bytes that the log ends in at `offset`.
fn zero_behind(file: &dyn DiskFile, offset: u64, segment_bytes: u64) -> io::Result<()> {
    let header_end = segment_bytes.min(offset + RECORD_HEADER_BYTES as u64);
    let header_bytes = usize::try_from(header_end - offset).expect("at most a header");
    let mut header = [0; RECORD_HEADER_BYTES];
    file.read_exact_at(&mut header[..header_bytes], offset)?;
    let was_written = header != [0; RECORD_HEADER_BYTES];
    if was_written {
        file.write_all_at(&CUT_MARK[..header_bytes], offset)?;
    } else {
        file.fill_zeros(offset, header_end - offset)?;
    }
    file.sync_data()?;
    let reach = if was_written { segment_bytes } else { segment_bytes.min(header_end + WRITE_REACH_BYTES) };
    if header_end < reach {
        file.fill_zeros(header_end, reach - header_end)?;
        file.sync_data()?;
    }
    if was_written {
        file.fill_zeros(offset, header_end - offset)?;
        file.sync_data()?;
    }
    Ok(())
}

/// A crash while segments were recycled leaves old names with the header of another place: they are not part of the log
/// any more. Recycling goes from the oldest on, so only the first ones can be such. Neither are those of another copy.
/// A damaged header is neither: a hold may need that segment, and what is left of it may be all there is.
fn drop_recycled(
    disk: &dyn Disk,
    identity: &LogIdentity,
    history: &TimelineHistory,
    found: &mut FoundFiles,
    current: u64,
) {
    let oldest = oldest_without_gap(&found.segments, current);
    let run: BTreeSet<SegmentName> =
        found.segments.iter().filter(|name| (oldest..current).contains(&name.number)).copied().collect();
    for name in run {
        let identity = LogIdentity { timeline: history.timeline(name.timeline), ..*identity };
        // One that cannot be read now is somebody else's to report.
        let header = read_header(disk, &identity, name);
        if !matches!(header, Ok(Err(problem)) if problem.is_of_other_place()) {
            return;
        }
        found.segments.remove(&name);
        found.strays.insert(name);
    }
}

fn offset_in_block(offset: u64) -> usize {
    usize::try_from(offset % BLOCK_BYTES as u64).expect("an offset in a block is small")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_in_blocks() {
        assert_eq!(offset_in_block(0), 0);
        assert_eq!(offset_in_block(4095), 4095);
        assert_eq!(offset_in_block(4096 * 7 + 3), 3);
    }
}
