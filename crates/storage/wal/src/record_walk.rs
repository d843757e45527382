//! Follows the records of a received log through pieces of any size, and verifies each record.
//!
//! ```text
//!   pieces   [...rec|rec|re][c|rec|rec][ord that is lo][ng|
//!                       ^ end of the last whole record: what lies behind it is part of one
//! ```

use seawall_codec::checksum::Crc32c;
use seawall_types::Lsn;

use crate::geometry::LogGeometry;
use crate::record::{LogKey, RECORD_HEADER_BYTES, RecordHeader, RecordKind, STAMP_BYTES};
use crate::sabotage::{Defect, sabotaged};
use crate::segment::LogIdentity;

/// See the module.
#[derive(Debug)]
pub(crate) struct RecordWalk {
    geometry: LogGeometry,
    key: LogKey,
    /// End of the last whole record.
    end: Lsn,
    /// Batches start in the order of the log.
    batch_floor: Lsn,
    /// Bytes so far of the record that starts there.
    read: usize,
    header: [u8; RECORD_HEADER_BYTES],
    /// What the header says, and the checksum of the bytes behind the stamp so far, once the header is whole.
    begun: Option<(RecordHeader, Crc32c)>,
}

/// Why a walk ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WalkError {
    /// The bytes from here on are no record of this log.
    NoRecord(Lsn),
    /// The record here says that rows were loaded which are in no log: whoever has only the log lacks them.
    LoadedPastLog(Lsn),
}

impl RecordWalk {
    /// Starts at `start`, where a record starts.
    pub(crate) fn from(identity: &LogIdentity, start: Lsn) -> RecordWalk {
        RecordWalk {
            geometry: identity.geometry,
            key: identity.key(),
            end: start,
            batch_floor: Lsn::ZERO,
            read: 0,
            header: [0; RECORD_HEADER_BYTES],
            begun: None,
        }
    }

    /// End of the last whole record.
    pub(crate) fn end(&self) -> Lsn {
        self.end
    }

    /// Follows the next record bytes, header pages of segments left out. After an error it is of no more use.
    pub(crate) fn follow(&mut self, mut bytes: &[u8]) -> Result<(), WalkError> {
        while !bytes.is_empty() {
            bytes = match self.begun.take() {
                None => self.follow_header(bytes)?,
                Some((header, checksum)) => self.follow_body(header, checksum, bytes)?,
            };
        }
        Ok(())
    }

    /// Takes what belongs to the header of the record; the rest.
    fn follow_header<'a>(&mut self, bytes: &'a [u8]) -> Result<&'a [u8], WalkError> {
        let (piece, rest) = bytes.split_at(bytes.len().min(RECORD_HEADER_BYTES - self.read));
        self.header[self.read..self.read + piece.len()].copy_from_slice(piece);
        self.read += piece.len();
        if self.read < RECORD_HEADER_BYTES {
            return Ok(rest);
        }
        let header = RecordHeader::decode(&self.header, self.key.masks(self.end));
        let header = header.ok_or(WalkError::NoRecord(self.end))?;
        let batch_start =
            header.batch_start_from(self.batch_floor, self.end).ok_or(WalkError::NoRecord(self.end))?;
        self.batch_floor = self.batch_floor.max(batch_start);
        let mut checksum = Crc32c::new();
        checksum.update(&self.header[STAMP_BYTES..]);
        self.follow_body(header, checksum, rest)
    }

    /// Takes what belongs to the body of the record; the rest.
    fn follow_body<'a>(
        &mut self,
        header: RecordHeader,
        mut checksum: Crc32c,
        bytes: &'a [u8],
    ) -> Result<&'a [u8], WalkError> {
        let length = usize::try_from(header.length).expect("a record has at most 1 GiB");
        let (piece, rest) = bytes.split_at(bytes.len().min(length - self.read));
        checksum.update(piece);
        self.read += piece.len();
        if self.read < length {
            self.begun = Some((header, checksum));
            return Ok(rest);
        }
        let verifies = header.verifies(checksum.finish(), self.key.masks(self.end));
        if !verifies && !sabotaged(Defect::ReceivedNotVerified) {
            return Err(WalkError::NoRecord(self.end));
        }
        if header.kind == RecordKind::BulkLoad {
            return Err(WalkError::LoadedPastLog(self.end));
        }
        self.end = self.geometry.advance(self.end, u64::from(header.length));
        self.read = 0;
        Ok(rest)
    }
}
