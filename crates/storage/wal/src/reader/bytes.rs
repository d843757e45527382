//! The record bytes of a timeline's segment files as one stream.

use std::io;
use std::sync::Arc;

use seawall_io::{BLOCK_BYTES, Disk, DiskFile, OpenMode};
use seawall_types::Lsn;

use crate::error::{LogError, LogReadError, SegmentHeaderError};
use crate::geometry::{HEADER_BYTES, LogGeometry, StreamPosition};
use crate::segment::{LOG_DIRECTORY, LogIdentity, SegmentName, SegmentUse, check_header, encode_header};
use crate::write_again::write_again;

/// Reads across segments; keeps the last one open.
#[derive(Debug)]
pub(super) struct LogBytes {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) identity: LogIdentity,
    open: Option<OpenSegment>,
    /// What is read instead of the segments: where it starts, and the bytes.
    overlays: Vec<(StreamPosition, Vec<u8>)>,
}

#[derive(Debug)]
struct OpenSegment {
    number: u64,
    file: Arc<dyn DiskFile>,
    /// Length of the file, at most that of a segment.
    bytes: u64,
    header: Result<SegmentUse, SegmentHeaderError>,
}

impl LogBytes {
    pub(super) fn new(disk: Arc<dyn Disk>, identity: LogIdentity) -> LogBytes {
        LogBytes { disk, identity, open: None, overlays: Vec::new() }
    }

    pub(super) fn geometry(&self) -> LogGeometry {
        self.identity.geometry
    }

    pub(super) fn path_of(&self, number: u64) -> String {
        SegmentName { number, timeline: self.identity.timeline.id }.path()
    }

    /// The next read opens its segment anew.
    pub(super) fn close(&mut self) {
        self.open = None;
    }

    /// Opens a segment; `false` if there is none: a file that another copy of the database wrote is not one of this log.
    ///
    /// # Errors
    /// `Header` if it is not one of this log, or not whole: a file gets its name only after that.
    pub(super) fn open_checked(&mut self, number: u64) -> Result<bool, LogReadError> {
        let path = self.path_of(number);
        match self.open_any(number)? {
            None => Ok(false),
            Some(OpenSegment { header: Ok(_), .. }) => Ok(true),
            Some(OpenSegment { header: Err(problem), .. }) => {
                Err(LogReadError::Header { path, source: problem.clone() })
            }
        }
    }

    /// Whether there is a file of this log for the segment, whatever its header says.
    pub(super) fn exists(&mut self, number: u64) -> Result<bool, LogReadError> {
        Ok(self.open_any(number)?.is_some())
    }

    /// Whether the segment's header page is valid; `false` if there is no such file.
    pub(super) fn has_valid_header(&mut self, number: u64) -> Result<bool, LogReadError> {
        Ok(self.open_any(number)?.is_some_and(|segment| segment.header.is_ok()))
    }

    /// Whether there may be records in a segment: the log came there, or its header is damaged. One with the header of
    /// another place was on the way from there when the power went: what it holds is of no use to anybody.
    pub(super) fn may_have_records(&mut self, number: u64) -> Result<bool, LogReadError> {
        Ok(match self.open_any(number)?.map(|segment| &segment.header) {
            None | Some(Ok(SegmentUse::Ready)) => false,
            Some(Ok(SegmentUse::Begun)) => true,
            Some(Err(problem)) => !problem.is_of_other_place(),
        })
    }

    /// The numbers of this timeline's segments from `first` on, ascending.
    pub(super) fn numbers_from(&self, first: u64) -> Result<Vec<u64>, LogReadError> {
        let entries = self.disk.list_names(LOG_DIRECTORY).map_err(|source| LogReadError::Io {
            action: "list",
            path: LOG_DIRECTORY.to_owned(),
            offset: 0,
            source,
        })?;
        let names = entries.iter().filter_map(|entry| SegmentName::parse(entry));
        let mut numbers: Vec<u64> = names
            .filter(|name| name.timeline == self.identity.timeline.id && name.number >= first)
            .map(|name| name.number)
            .collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Fills `buffer` with the stream from `position` on; fewer bytes only where a segment is missing, or cannot be read: who
    /// needs more of it calls again, from there on, and is told.
    pub(super) fn read(
        &mut self,
        position: StreamPosition,
        buffer: &mut [u8],
    ) -> Result<usize, LogReadError> {
        let mut done = 0;
        while done < buffer.len() {
            let next = StreamPosition(position.0 + done as u64);
            if let Some(bytes) = self.overlay_at(next) {
                let length = bytes.len().min(buffer.len() - done);
                buffer[done..done + length].copy_from_slice(&bytes[..length]);
                done += length;
                continue;
            }
            let (number, offset) = self.geometry().file_position(next);
            let piece = match self.open_checked(number) {
                Ok(false) => break,
                Ok(true) => self.read_piece(number, offset, &mut buffer[done..]),
                Err(error) => Err(error),
            };
            match piece {
                Ok(bytes) => done += bytes,
                Err(_) if done > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    /// As `read`, but takes segments as they are, even if the header is wrong or the file too short.
    pub(super) fn read_anyhow(
        &mut self,
        position: StreamPosition,
        buffer: &mut [u8],
    ) -> Result<usize, LogReadError> {
        let mut done = 0;
        while done < buffer.len() {
            let (number, offset) = self.geometry().file_position(StreamPosition(position.0 + done as u64));
            if self.open_any(number)?.is_none_or(|segment| offset >= segment.bytes) {
                break;
            }
            done += self.read_piece(number, offset, &mut buffer[done..])?;
        }
        Ok(done)
    }

    /// From now on `read` finds `bytes` at `start`, whatever the segments have there.
    pub(super) fn overlay(&mut self, start: StreamPosition, bytes: Vec<u8>) {
        self.overlays.push((start, bytes));
    }

    fn overlay_at(&self, position: StreamPosition) -> Option<&[u8]> {
        self.overlays.iter().find_map(|(start, bytes)| {
            let offset = usize::try_from(position.0.checked_sub(start.0)?).ok()?;
            bytes.get(offset..).filter(|bytes| !bytes.is_empty())
        })
    }

    /// Writes `bytes` at `start`, and syncs them. The segments are there: each was before a record got its place in it.
    pub(super) fn write_synced(&mut self, start: StreamPosition, bytes: &[u8]) -> Result<(), LogReadError> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let position = StreamPosition(start.0 + (bytes.len() - rest.len()) as u64);
            let (number, offset) = self.geometry().file_position(position);
            let path = self.path_of(number);
            if !self.open_checked(number)? {
                return Err(LogReadError::Missing { path, lsn: self.geometry().lsn_at(position) });
            }
            self.mark_begun(number)?;
            let left = usize::try_from(self.geometry().segment_bytes() - offset).unwrap_or(usize::MAX);
            let (piece, others) = rest.split_at(left.min(rest.len()));
            let written = self.disk.open(&path, OpenMode::Write).and_then(|file| {
                file.write_all_at(piece, offset)?;
                file.sync_data()
            });
            written.map_err(|source| LogReadError::Io { action: "write to", path, offset, source })?;
            rest = others;
        }
        Ok(())
    }

    /// Before the first record is written into a segment, its header durably says so.
    fn mark_begun(&mut self, number: u64) -> Result<(), LogReadError> {
        if self.may_have_records(number)? {
            return Ok(());
        }
        let path = self.path_of(number);
        let header = encode_header(&self.identity, number, SegmentUse::Begun);
        let written = self.disk.open(&path, OpenMode::Write).and_then(|file| {
            file.write_all_at(&header, 0)?;
            file.sync_data()
        });
        self.open = None;
        written.map_err(|source| LogReadError::Io { action: "write to", path, offset: 0, source })
    }

    /// See [`LogReader::make_durable`](super::LogReader::make_durable).
    pub(super) fn write_again(&self, from: Lsn, to: Lsn) -> Result<(), LogError> {
        write_again(&*self.disk, &self.identity, from, to)
    }

    /// Reads up to the end of the open segment.
    fn read_piece(&mut self, number: u64, offset: u64, buffer: &mut [u8]) -> Result<usize, LogReadError> {
        let path = self.path_of(number);
        let segment = self.open.as_ref().expect("the caller has opened it");
        let left = usize::try_from(segment.bytes - offset).unwrap_or(usize::MAX);
        let bytes = left.min(buffer.len());
        let read = segment.file.read_exact_at(&mut buffer[..bytes], offset);
        read.map_err(|source| LogReadError::Io { action: "read", path, offset, source })?;
        Ok(bytes)
    }

    fn open_any(&mut self, number: u64) -> Result<Option<&OpenSegment>, LogReadError> {
        if self.open.as_ref().is_none_or(|segment| segment.number != number) {
            self.open = self.open_file(number)?;
        }
        Ok(self.open.as_ref())
    }

    fn open_file(&self, number: u64) -> Result<Option<OpenSegment>, LogReadError> {
        let path = self.path_of(number);
        let failed = |action, source| LogReadError::Io { action, path: path.clone(), offset: 0, source };
        let file = match self.disk.open(&path, OpenMode::Read) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed("open", error)),
            Ok(file) => file,
        };
        let expected = self.geometry().segment_bytes();
        let length = file.length().map_err(|error| failed("measure", error))?;
        if length < HEADER_BYTES {
            let header = Err(SegmentHeaderError::Length { found: length, expected });
            return Ok(Some(OpenSegment { number, file, bytes: length, header }));
        }
        let mut page = [0; BLOCK_BYTES];
        file.read_exact_at(&mut page, 0).map_err(|error| failed("read", error))?;
        let header = match check_header(&page, &self.identity, number) {
            // Of no more concern than one of another number.
            Err(SegmentHeaderError::OtherTimeline { .. }) => return Ok(None),
            Ok(_) if length < expected => Err(SegmentHeaderError::Length { found: length, expected }),
            checked => checked,
        };
        Ok(Some(OpenSegment { number, file, bytes: length.min(expected), header }))
    }
}
