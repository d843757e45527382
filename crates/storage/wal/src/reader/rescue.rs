//! Records that a killed process left in its buffers: what acknowledges `Async` commits (`pending`).
//!
//! ```text
//!   segments    ...[rec][rec]|                      the end, as far as the segments tell
//!   pending.2        [..][rec][rec][rec]|           goes on exactly there, record by record
//!   pending.1                           [rec]|      and this one there
//! ```
//! One buffer after the other, for the second one's records say that the log was durable up to the first one's end:
//!
//! 1. What was read from the last batch on is written again and synced: it may be in the cache only.
//! 2. The records that go on at the end are written to the segments, and synced. A power loss in the middle leaves a torn
//!    batch, and what of it is still in the pending file.
//! 3. Reading goes on. At the next end the other buffer is looked at.
//!
//! The same makes good what is damaged in the segments, if a buffer still has it.
//!
//! After a power loss, what verifies here was appended at this place of this log and not given up since (`pending` says
//! why), so it may be believed, and is as good as never having been lost.

use seawall_codec::checksum::crc32c;
use seawall_types::Lsn;

use super::LogReader;
use crate::error::{LogError, LogReadError, PendingFileError};
use crate::geometry::LogGeometry;
use crate::pending::{PENDING_PATHS, PendingData};
use crate::record::{LogKey, RECORD_HEADER_BYTES, RecordHeader, STAMP_BYTES};
use crate::segment::LOG_DIRECTORY;

/// What a reader does about records that are not in the segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum PendingUse {
    /// It ends where the segments end. For who reads a log that is being written, or knows how far to read.
    #[default]
    Ignore,
    /// It reads them, and changes nothing.
    Read,
    /// It makes them part of the log. For recovery, before the log is written again.
    Rescue,
}

#[derive(Debug, Default)]
pub(super) struct Pending {
    pub(super) use_: PendingUse,
    /// Looked for at the end of the segments.
    found: Option<Vec<PendingData>>,
    /// Damaged headers whose content was not needed.
    damages: Vec<(&'static str, PendingFileError)>,
    /// Records that only the pending files had.
    records: u64,
}

impl LogReader {
    /// Has the reader go on with records that only the pending files hold.
    pub fn use_pending(&mut self, pending: PendingUse) {
        self.pending.use_ = pending;
    }

    /// How many records that were read are in the pending files only, or were until they were rescued.
    pub fn rescued_records(&self) -> u64 {
        self.pending.records
    }

    /// Damage of pending files that did not keep the reader from finding their records. Known once it has come to the end
    /// of the segments.
    pub fn pending_damages(&self) -> Vec<LogReadError> {
        let error = |(path, damage): &(&'static str, PendingFileError)| LogReadError::Pending {
            path: (*path).to_owned(),
            source: damage.clone(),
        };
        self.pending.damages.iter().map(error).collect()
    }

    /// There is no record at the position. Whether a pending file has one: from now on it is read.
    pub(super) fn take_up_pending(&mut self) -> Result<bool, LogReadError> {
        // Of a received log there are no buffers here.
        if self.pending.use_ == PendingUse::Ignore || self.received.is_some() {
            return Ok(false);
        }
        let found = match self.pending.found.take() {
            Some(found) => found,
            None => self.open_pending()?,
        };
        let records = self.records_in(&found);
        self.pending.found = Some(found);
        let Some(PendingRecords { path, bytes: records, count }) = records? else { return Ok(false) };
        self.pending.records += count;
        tracing::info!(%path, from = %self.position, bytes = records.len(),
            "records that a process left when it ended are read from memory that outlived it");
        match self.pending.use_ {
            PendingUse::Ignore => {}
            PendingUse::Read => self.bytes.overlay(self.stream, records),
            PendingUse::Rescue => {
                self.make_durable().map_err(as_read_error)?;
                self.bytes.write_synced(self.stream, &records)?;
            }
        }
        self.window_start = self.stream;
        self.filled = 0;
        Ok(true)
    }

    fn open_pending(&mut self) -> Result<Vec<PendingData>, LogReadError> {
        let mut files = Vec::new();
        for path in PENDING_PATHS {
            let found = PendingData::open(&*self.bytes.disk, path, &self.bytes.identity)?;
            if let Some(damage) = found.damage {
                tracing::warn!(%path, %damage, "the header is damaged; what follows does not depend on it");
                self.pending.damages.push((path, damage));
            }
            files.extend(found.data);
        }
        Ok(files)
    }

    /// The records in one of the pending files that go on at the position.
    fn records_in(&self, found: &[PendingData]) -> Result<Option<PendingRecords>, LogReadError> {
        for pending in found {
            let first = self.geometry.stream_position(pending.first);
            let Some(bytes_behind) = self.stream.0.checked_sub(first.0) else { continue };
            let mut bytes = pending.read_from(bytes_behind)?;
            let (length, count) =
                verified_bytes(&bytes, self.geometry, self.key, self.position, self.batch_floor);
            if count > 0 {
                bytes.truncate(length);
                return Ok(Some(PendingRecords { path: pending.path, bytes, count }));
            }
        }
        Ok(None)
    }
}

/// Records of one pending file.
struct PendingRecords {
    path: &'static str,
    bytes: Vec<u8>,
    count: u64,
}

/// How many of `bytes` are records that follow one another from `lsn` on, and how many records that is.
fn verified_bytes(
    bytes: &[u8],
    geometry: LogGeometry,
    key: LogKey,
    mut lsn: Lsn,
    mut batch_floor: Lsn,
) -> (usize, u64) {
    let (mut verified, mut count) = (0, 0);
    loop {
        let rest = &bytes[verified..];
        let masks = key.masks(lsn);
        if rest.len() < RECORD_HEADER_BYTES {
            return (verified, count);
        }
        let Some(header) = RecordHeader::decode(rest, masks) else { return (verified, count) };
        let Some(batch_start) = header.batch_start_from(batch_floor, lsn) else { return (verified, count) };
        let length = usize::try_from(header.length).expect("a record has at most 1 GiB");
        let Some(record) = rest.get(..length) else { return (verified, count) };
        if !header.verifies(crc32c(&record[STAMP_BYTES..]), masks) {
            return (verified, count);
        }
        batch_floor = batch_floor.max(batch_start);
        lsn = geometry.advance(lsn, u64::from(header.length));
        verified += length;
        count += 1;
    }
}

fn as_read_error(error: LogError) -> LogReadError {
    match error {
        LogError::Io { action, path, source } => LogReadError::Io { action, path, offset: 0, source },
        other => {
            let (path, source) = (LOG_DIRECTORY.to_owned(), std::io::Error::other(other));
            LogReadError::Io { action: "write again", path, offset: 0, source }
        }
    }
}
