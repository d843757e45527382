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
use crate::error::{LogError, LogReadError};
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
}

impl LogReader {
    /// Has the reader go on with records that only the pending files hold.
    pub fn use_pending(&mut self, pending: PendingUse) {
        self.pending.use_ = pending;
    }

    /// There is no record at the position. Whether a pending file has one: from now on it is read.
    pub(super) fn take_up_pending(&mut self) -> Result<bool, LogReadError> {
        if self.pending.use_ == PendingUse::Ignore {
            return Ok(false);
        }
        let found = match self.pending.found.take() {
            Some(found) => found,
            None => self.open_pending()?,
        };
        let records = self.records_in(&found);
        self.pending.found = Some(found);
        let Some((path, records)) = records? else { return Ok(false) };
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

    fn open_pending(&self) -> Result<Vec<PendingData>, LogReadError> {
        let (disk, identity) = (&*self.bytes.disk, &self.bytes.identity);
        let files = PENDING_PATHS.iter().map(|path| PendingData::open(disk, path, identity));
        files.filter_map(Result::transpose).collect()
    }

    /// The records in one of the pending files that go on at the position.
    fn records_in(&self, found: &[PendingData]) -> Result<Option<(&'static str, Vec<u8>)>, LogReadError> {
        for pending in found {
            let first = self.geometry.stream_position(pending.first);
            let Some(bytes_behind) = self.stream.0.checked_sub(first.0) else { continue };
            let mut bytes = pending.read_from(bytes_behind)?;
            let length = verified_bytes(&bytes, self.geometry, self.key, self.position, self.batch_floor);
            if length > 0 {
                bytes.truncate(length);
                return Ok(Some((pending.path, bytes)));
            }
        }
        Ok(None)
    }
}

/// How many of `bytes` are records that follow one another from `lsn` on.
fn verified_bytes(
    bytes: &[u8],
    geometry: LogGeometry,
    key: LogKey,
    mut lsn: Lsn,
    mut batch_floor: Lsn,
) -> usize {
    let mut verified = 0;
    loop {
        let rest = &bytes[verified..];
        let masks = key.masks(lsn);
        if rest.len() < RECORD_HEADER_BYTES {
            return verified;
        }
        let Some(header) = RecordHeader::decode(rest, masks) else { return verified };
        let Some(batch_start) = header.batch_start_from(batch_floor, lsn) else { return verified };
        let length = usize::try_from(header.length).expect("a record has at most 1 GiB");
        let Some(record) = rest.get(..length) else { return verified };
        if !header.verifies(crc32c(&record[STAMP_BYTES..]), masks) {
            return verified;
        }
        batch_floor = batch_floor.max(batch_start);
        lsn = geometry.advance(lsn, u64::from(header.length));
        verified += length;
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
