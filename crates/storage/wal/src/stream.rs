//! The log as a stream of bytes, for a standby or a copy of the log: from any position up to the durable end, and on as it grows.
//!
//! ```text
//!    flush --> durable --> published --> wake          LogStream::read(buffer)
//!                |                                       |
//!                +--> recent pages in memory ------------+ 1. whoever keeps up reads these
//!   segment files  [H|rec|rec|rec][H|rec|rec| ... -------+ 2. whoever does not reads the files
//! ```
//! **What is streamed** is what lies in the segment files, header pages included, in the order of the LSNs: LSN `n*S + i` is byte `i`
//! of segment `n`. A receiver that writes each byte where its LSN says has files that are equal byte for byte. A header page is not
//! read but made, as the primary makes it: with the mark that the log has begun the segment. It comes with the first record byte
//! after it, never before: a stream that has sent all ends at the border.
//!
//! **Only durable bytes** are sent. A standby is never ahead of the disk of its primary: what the primary loses with a power loss no
//! standby has, and what it writes there later, on the same timeline, differs from nothing that was sent.
//!
//! **Timelines.** A stream follows the histories. No piece crosses the point where a timeline was left; a piece says its timeline.
//! At a fork inside a segment the next piece starts in the middle of the new timeline's segment: its receiver makes the header page.
//!
//! **Without a hold** the log may lose what the stream is about to read. Then `read` says so with a typed error: a segment gets
//! another header, durably, before anything else in it is overwritten, so a header that is right *after* the read vouches for the
//! bytes. A receiver that is to find its place again takes a permanent hold of kind [`HoldKind::Standby`](crate::HoldKind::Standby).

use std::io;
use std::sync::Arc;
use std::time::Duration;

use seawall_io::{BLOCK_BYTES, DiskFile, OpenMode};
use seawall_types::{Lsn, TimelineId};

use crate::error::{LogError, LogStreamError};
use crate::geometry::{HEADER_BYTES, LogGeometry};
use crate::recent::{LogBell, RecentLog};
use crate::segment::{LogIdentity, SegmentName, SegmentUse, check_header, encode_header};
use crate::segment_set::SegmentSet;
use crate::timeline::TimelineHistory;

/// A log that can be streamed.
pub(crate) trait StreamedLog: Send + Sync {
    /// Everything before is durable.
    fn flushed(&self) -> Lsn;
    /// The first LSN of the oldest segment from which on none is missing.
    fn oldest_retained(&self) -> Lsn;
    /// Its files.
    fn segment_set(&self) -> &SegmentSet;
    /// The timeline that it is on, and its ancestors.
    fn history(&self) -> &TimelineHistory;
    /// Its newest bytes.
    fn recent(&self) -> &RecentLog;
    /// An error if nothing more will become durable.
    fn check_growing(&self) -> Result<(), LogError>;
}

/// Consecutive bytes of one timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamPiece {
    /// The timeline that they are on.
    pub timeline: TimelineId,
    /// The LSN of the first byte; byte of the segment file that its LSN says.
    pub start: Lsn,
    /// How many there are; none: there are no more for now.
    pub bytes: usize,
}

/// Reads the bytes of a log from a position on. See the module.
pub struct LogStream {
    log: Arc<dyn StreamedLog>,
    /// Where the next piece starts: may lie in a header page.
    position: Lsn,
    open: Option<OpenSegment>,
}

struct OpenSegment {
    name: SegmentName,
    file: Arc<dyn DiskFile>,
}

impl std::fmt::Debug for LogStream {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("LogStream").field("position", &self.position).finish_non_exhaustive()
    }
}

impl Drop for LogStream {
    fn drop(&mut self) {
        self.log.recent().close_stream();
    }
}

impl LogStream {
    pub(crate) fn open(log: Arc<dyn StreamedLog>, from: Lsn) -> Result<LogStream, LogStreamError> {
        let geometry = log.segment_set().identity.geometry;
        let (end, oldest) = (log.flushed(), log.oldest_retained());
        if geometry.segment_of(from) < geometry.segment_of(oldest) {
            return Err(LogStreamError::NotRetained { position: from, oldest });
        }
        if geometry.normalise(from) > end {
            return Err(LogStreamError::NotReached { position: from, end });
        }
        log.recent().open_stream();
        Ok(LogStream { log, position: from, open: None })
    }

    /// Where the next piece starts.
    pub fn position(&self) -> Lsn {
        self.position
    }

    /// The end of the durable log: a record ends there.
    pub fn flushed(&self) -> Lsn {
        self.log.flushed()
    }

    /// Puts what comes next into `buffer`, as much as there is and fits, of one segment and one timeline. A piece without bytes: all
    /// that is durable was read.
    ///
    /// # Errors
    /// `NotRetained` if the log does not keep it any more. `Header`, `Io`: nothing was read, and the next call tries again. `Stopped` if
    /// everything was read and nothing more will become durable.
    pub fn read(&mut self, buffer: &mut [u8]) -> Result<StreamPiece, LogStreamError> {
        let geometry = self.geometry();
        let (start, history) = (self.position, self.log.history());
        // In a header page: that of the segment that the first record after it is in.
        let timeline = history.timeline_at(geometry.normalise(start));
        let identity =
            LogIdentity { timeline: history.timeline(timeline), ..self.log.segment_set().identity };
        let durable = file_end(geometry, self.log.flushed());
        let left = history.left_at(timeline).map(|fork| file_end(geometry, fork));
        let end = left.map_or(durable, |left| left.min(durable));
        let mut bytes = 0;
        if start < end {
            let left = usize::try_from(end.bytes_since(start)).unwrap_or(usize::MAX).min(buffer.len());
            bytes = self.read_before(&identity, &mut buffer[..left])?;
        } else if let Err(source) = self.log.check_growing()
            && start >= file_end(geometry, self.log.flushed())
        {
            return Err(LogStreamError::Stopped { source });
        }
        self.position = Lsn::new(start.get() + bytes as u64);
        Ok(StreamPiece { timeline, start, bytes })
    }

    /// Whether there is something to read, or the log has stopped.
    pub fn has_more(&self) -> bool {
        self.position < file_end(self.geometry(), self.log.flushed()) || self.log.check_growing().is_err()
    }

    /// Sleeps until there is something to read or the log stops, at most for `limit`; may return early.
    pub fn wait(&self, limit: Duration) {
        let changed = self.log.recent().changed();
        let seen = changed.read();
        if !self.has_more() {
            changed.wait(seen, Some(limit));
        }
    }

    /// For a thread that sleeps on something else as well: `bell` is rung each time that the log has grown or has stopped, as long as
    /// it is there and a stream of the log is open. To miss nothing, look with [`LogStream::has_more`] after the bell is ready to ring.
    pub fn set_bell(&self, bell: &Arc<dyn LogBell>) {
        self.log.recent().hang(bell);
    }

    fn geometry(&self) -> LogGeometry {
        self.log.segment_set().identity.geometry
    }

    /// Reads some bytes at the position, all of `buffer` being durable and on one timeline.
    fn read_before(&mut self, identity: &LogIdentity, buffer: &mut [u8]) -> Result<usize, LogStreamError> {
        let geometry = identity.geometry;
        let (number, offset) = (geometry.segment_of(self.position), geometry.offset_of(self.position));
        if offset < HEADER_BYTES {
            let page = encode_header(identity, number, SegmentUse::Begun);
            let rest = &page[usize::try_from(offset).expect("less than a header page")..];
            let bytes = rest.len().min(buffer.len());
            buffer[..bytes].copy_from_slice(&rest[..bytes]);
            return Ok(bytes);
        }
        let left = usize::try_from(geometry.segment_bytes() - offset).unwrap_or(usize::MAX);
        let bytes = left.min(buffer.len());
        let buffer = &mut buffer[..bytes];
        if identity.timeline == self.log.segment_set().identity.timeline {
            let recent = self.log.recent().read(geometry.stream_position(self.position), buffer);
            if recent > 0 {
                return Ok(recent);
            }
        }
        self.read_file(identity, SegmentName { number, timeline: identity.timeline.id }, offset, buffer)
    }

    /// Fills `buffer` from a segment file, and makes sure that the segment was this one meanwhile.
    fn read_file(
        &mut self,
        identity: &LogIdentity,
        name: SegmentName,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<usize, LogStreamError> {
        let position = self.position;
        let failed = |action, source| LogStreamError::Io { action, path: name.path(), offset, source };
        if self.open.as_ref().is_none_or(|open| open.name != name) {
            let file = match self.log.segment_set().disk.open(&name.path(), OpenMode::Read) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    return Err(self.not_retained(position));
                }
                opened => opened.map_err(|error| failed("open", error))?,
            };
            self.open = Some(OpenSegment { name, file });
        }
        let file = &*self.open.as_ref().expect("it was just opened").file;
        let mut page = [0; BLOCK_BYTES];
        let read = file.read_exact_at(buffer, offset).and_then(|()| file.read_exact_at(&mut page, 0));
        // The next read opens it anew: a file of the same name may be another one by then.
        let checked = read.map_err(|error| failed("read", error)).and_then(|()| {
            match check_header(&page, identity, name.number) {
                Ok(_) => Ok(buffer.len()),
                Err(problem) if problem.is_of_other_place() => Err(self.not_retained(position)),
                Err(source) => Err(LogStreamError::Header { path: name.path(), source }),
            }
        });
        if checked.is_err() {
            self.open = None;
        }
        checked
    }

    fn not_retained(&self, position: Lsn) -> LogStreamError {
        LogStreamError::NotRetained { position, oldest: self.log.oldest_retained() }
    }
}

/// Where the file bytes of a log end that ends at `lsn`: a header page without a record after it is not among them.
fn file_end(geometry: LogGeometry, lsn: Lsn) -> Lsn {
    let offset = geometry.offset_of(lsn);
    if offset <= HEADER_BYTES { Lsn::new(lsn.get() - offset) } else { lsn }
}
