//! Reading the log forward from an LSN to its end.
//!
//! ```text
//!   segment files --read--> window [..rec|rec|rec|re]      one record after another, borrowed from the window
//!                                   ^position
//! ```
//! The first record that does not verify ends the log, unless something behind it says that it was durable: then the log
//! is damaged (`search`); or unless a killed process left it in memory (`rescue`). Of a timeline that is received from another server,
//! what lies behind says nothing, and a mark says how far it is durable (`received`).
//!
//! ```text
//!   timeline 1   [rec|rec|rec|rec|. . .        beyond the fork: never read
//!   timeline 2               [switch|rec|rec|  a key of its own: what timeline 1 wrote does not verify here
//!                            ^ fork, by the history
//! ```
//! A timeline counts up to where the history says that it was left: up to there it is known to be durable. The next one begins
//! with its switch record, durable before anybody was told of the timeline; without it, it is damaged.

mod arriving;
mod bytes;
mod rescue;
pub(crate) mod search;
mod start;

use std::ops::Range;
use std::sync::Arc;

use seawall_codec::checksum::crc32c;
use seawall_io::Disk;
use seawall_keys::Cipher;
use seawall_types::{DatabaseId, Lsn, TimelineId};

use crate::decoded::Record;
use crate::error::{EncryptionProblem, LogError, LogReadError, RecordError};
use crate::geometry::{HEADER_BYTES, LogGeometry, StreamPosition};
use crate::received::ReceivedMark;
use crate::record::{
    FLAG_ENCRYPTED, LogKey, RECORD_ENVELOPE_BYTES, RECORD_HEADER_BYTES, RecordHeader, RecordKind, RecordSpan,
    decrypt_body,
};
use crate::sabotage::{Defect, sabotaged};
use crate::segment::LogIdentity;
use crate::timeline::TimelineHistory;

use bytes::LogBytes;
use rescue::Pending;

pub use rescue::PendingUse;

/// What is read at once, and the window's length unless a record is longer.
const WINDOW_BYTES: usize = 1 << 20;

/// Where a log ends, and how that was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogEnd {
    /// Where the next record will start.
    pub lsn: Lsn,
    /// What was read from here on may be in the operating system's cache only: its batch may have been cut short by the
    /// end of a process, or its sync may have failed. [`crate::Log::open`] writes it once more.
    pub durable: Lsn,
    /// What is there instead of a record.
    pub reason: EndReason,
}

/// What is at the end of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndReason {
    /// Something that does not verify, or zeros; and nothing behind it says that there was a record.
    NoRecord,
    /// The last record fills its segment and the next segment does not exist. A log that was written here has it; one
    /// that was restored from an archive ends so.
    MissingSegment,
    /// The reader was told to stop.
    Limit,
}

/// A record as it stands in the log; bytes are borrowed from the reader's window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogRecord<'a> {
    /// Its place.
    pub span: RecordSpan,
    /// The timeline that it was written on.
    pub timeline: TimelineId,
    /// What it is about.
    pub kind: RecordKind,
    /// Zero in this version.
    pub flags: u8,
    /// The start of the flush batch that it was written in: up to there the log was durable before.
    pub batch_start: Lsn,
    /// Encoded, and decrypted if need be; its checksum is right.
    pub body: &'a [u8],
}

impl<'a> LogRecord<'a> {
    /// Decodes the body.
    ///
    /// # Errors
    /// As [`Record::decode`].
    pub fn decode(&self) -> Result<Record<'a>, RecordError> {
        Record::decode(self.kind, self.flags, self.body)
    }
}

/// Reads the records of a timeline, and of its ancestors before it, one after another.
#[derive(Debug)]
pub struct LogReader {
    bytes: LogBytes,
    geometry: LogGeometry,
    key: LogKey,
    history: TimelineHistory,
    /// Where the timeline that is being read was left; `None`: it is the last one.
    fork: Option<Lsn>,
    /// Where the timeline that is being read began, if reading started before: its first record must be there.
    began_at: Option<Lsn>,
    cipher: Option<Cipher>,
    /// The durable end of a received log on the last timeline, whatever the records say (`received`).
    received: Option<Lsn>,
    /// Where it started: who starts there knows that what lies before is durable.
    from: Lsn,
    position: Lsn,
    /// The same place in the stream.
    stream: StreamPosition,
    limit: Option<Lsn>,
    /// See `LogReader::set_arrived`.
    arrived: Option<Lsn>,
    /// See `LogReader::durable_until`.
    durable_until: Lsn,
    pending: Pending,
    /// Batches start in the order of the log.
    batch_floor: Lsn,
    window: Vec<u8>,
    window_start: StreamPosition,
    /// Bytes of the window that were read.
    filled: usize,
    end: Option<LogEnd>,
    /// A segment that the record at the position needs, if it was removed.
    missing: Option<u64>,
}

/// Up to where a timeline is known to be durable that is received and was not left.
fn received_until(bytes: &LogBytes, fork: Option<Lsn>) -> Result<Option<Lsn>, LogReadError> {
    if fork.is_some() {
        return Ok(None);
    }
    let LogIdentity { database, timeline, .. } = bytes.identity;
    let received = ReceivedMark::read(&*bytes.disk, database, timeline);
    received.map_err(|source| LogReadError::ReceivedMark { source })
}

/// A record that verified: where its body is in the window.
struct Verified {
    header: RecordHeader,
    span: RecordSpan,
    batch_start: Lsn,
    start: usize,
}

impl LogReader {
    /// Starts at the record at `from`, and reads one timeline only, as if it had no beginning and no mark: the first one has
    /// neither. Any other one is read with its history.
    ///
    /// # Errors
    /// `Position` if no record can start there; `Missing` if its segment does not exist; `Header` if that is not a
    /// segment of this log.
    pub fn open(
        disk: Arc<dyn Disk>,
        database: DatabaseId,
        timeline: TimelineId,
        segment_bytes: u64,
        from: Lsn,
    ) -> Result<LogReader, LogReadError> {
        let history = TimelineHistory { timeline, forks: Vec::new() };
        LogReader::open_history(disk, database, history, segment_bytes, from)
    }

    /// Starts at the record at `from`, on the timeline that it is on, and goes on from each timeline to the next one where the
    /// history says that it was left. What an ancestor has beyond is not read.
    ///
    /// # Errors
    /// As `open`.
    pub fn open_history(
        disk: Arc<dyn Disk>,
        database: DatabaseId,
        history: TimelineHistory,
        segment_bytes: u64,
        from: Lsn,
    ) -> Result<LogReader, LogReadError> {
        let refuse = |problem: String| LogReadError::Position { lsn: from, problem };
        let geometry = LogGeometry::new(segment_bytes).map_err(|error| refuse(error.to_string()))?;
        if !geometry.is_normal(from) {
            return Err(refuse("no record can start there".to_owned()));
        }
        let timeline = history.timeline(history.timeline_at(from));
        let identity = LogIdentity { database, timeline, geometry };
        let mut bytes = LogBytes::new(disk, identity);
        let number = geometry.segment_of(from);
        if !bytes.open_checked(number)? {
            return Err(LogReadError::Missing { path: bytes.path_of(number), lsn: from });
        }
        let stream = geometry.stream_position(from);
        let fork = history.left_at(timeline.id);
        let received = received_until(&bytes, fork)?;
        Ok(LogReader {
            bytes,
            geometry,
            key: identity.key(),
            fork,
            received,
            began_at: history.forks.iter().any(|fork| fork.fork == from).then_some(from),
            history,
            cipher: None,
            from,
            position: from,
            stream,
            limit: None,
            arrived: None,
            durable_until: Lsn::ZERO,
            pending: Pending::default(),
            batch_floor: Lsn::ZERO,
            window: Vec::new(),
            window_start: stream,
            filled: 0,
            end: None,
            missing: None,
        })
    }

    /// Decrypts the bodies of records, if there is a cipher: of an encrypted database. To be called before the first
    /// record is read.
    #[must_use]
    pub fn decrypted_with(self, cipher: Option<Cipher>) -> LogReader {
        LogReader { cipher, ..self }
    }

    /// Reads up to `limit` only, the end of some record: the caller knows that the log is durable up to there, so
    /// that whatever does not verify before is damage. Needed while the log is being written; can be raised later to go
    /// on.
    ///
    /// # Panics
    /// If `limit` lies before the position.
    pub fn set_limit(&mut self, limit: Lsn) {
        assert!(limit >= self.position, "the reader is at {}, past the limit {limit}", self.position);
        self.limit = Some(limit);
        self.end = None;
    }

    /// Reads on behind the limit, to the end of the log.
    pub fn lift_limit(&mut self) {
        (self.limit, self.end) = (None, None);
    }

    /// The caller knows that the log was durable up to `known`, the end of some record: one that ends before is damaged. Reads
    /// on behind it, to the end of the log.
    #[must_use]
    pub fn durable_until(self, known: Lsn) -> LogReader {
        LogReader { durable_until: known, ..self }
    }

    /// The record at the position, and moves behind it. `None` at the end of the log or at the limit.
    ///
    /// # Errors
    /// `Damaged` if the record does not verify although it was durable; `Encryption` if it verifies and was encrypted with
    /// another key, or is encrypted and there is none, or the other way round; `Missing` if a segment was removed; `Header`
    /// if a segment is not one of this log; `Pending` if a pending file is not, and is to be used; `Io`. The reader stays
    /// where it is.
    #[expect(
        clippy::should_implement_trait,
        reason = "records are borrowed from the reader, as no `Iterator` can"
    )]
    pub fn next(&mut self) -> Result<Option<LogRecord<'_>>, LogReadError> {
        let verified = match self.verified_or_end() {
            Ok(verified) => verified,
            Err(error) => return Err(self.missing_if_recycled(error)),
        };
        let Some(Verified { header, span, batch_start, start }) = verified else { return Ok(None) };
        let length = usize::try_from(header.length).expect("a record has at most 1 GiB");
        let mut body = start + RECORD_HEADER_BYTES..start + length;
        match self.decrypt(&header, body.clone()) {
            Ok(envelope_bytes) => body.start += envelope_bytes,
            Err(problem) => return Err(self.undecipherable(problem)),
        }
        self.position = span.end;
        self.stream = StreamPosition(self.stream.0 + u64::from(header.length));
        self.batch_floor = self.batch_floor.max(batch_start);
        let (kind, flags) = (header.kind, header.flags & !FLAG_ENCRYPTED);
        let timeline = self.bytes.identity.timeline.id;
        Ok(Some(LogRecord { span, timeline, kind, flags, batch_start, body: &self.window[body] }))
    }

    /// The record at the position, if one verifies there; `None` at the end of the log, or where the reader is to stop.
    fn verified_or_end(&mut self) -> Result<Option<Verified>, LogReadError> {
        let is_at = |stop: Option<Lsn>| stop.is_some_and(|stop| self.position >= stop);
        if self.end.is_some() || is_at(self.limit) || is_at(self.arrived) {
            return Ok(None);
        }
        if self.fork == Some(self.position) {
            self.follow_fork()?;
        }
        let mut verified = self.verified_record()?;
        if verified.is_none() && self.arrived.is_none() && self.known_end().is_none() {
            // The log may be growing: what was read into the window a while ago is looked at once more, before later
            // records are taken for evidence of damage here.
            self.look_again();
            verified = self.verified_record()?;
            while verified.is_none() && self.take_up_pending()? {
                verified = self.verified_record()?;
            }
        }
        if verified.is_none() && self.goes_on_behind_arrived() {
            return Ok(None);
        }
        if verified.is_none() { self.end_or_record() } else { Ok(verified) }
    }

    /// In a log that is open elsewhere, a segment with the header of another place is on its way there: nobody needs it where it
    /// was. Where the caller knows how far the log goes, it is a file that was put there.
    fn missing_if_recycled(&self, error: LogReadError) -> LogReadError {
        match error {
            LogReadError::Header { path, source }
                if self.limit.is_none() && self.arrived.is_none() && source.is_of_other_place() =>
            {
                LogReadError::Missing { path, lsn: self.position }
            }
            other => other,
        }
    }

    /// Forgets what was read ahead: it is read from the files once more, which are opened anew.
    fn look_again(&mut self) {
        self.window_start = self.stream;
        self.filled = 0;
        self.bytes.close();
    }

    /// There is no record at the position: notes the end of the log there. `Some` if there is a record after all: the log may be
    /// growing, and what was taken for evidence of damage can have been written after the look at the position. So damage is what
    /// does not verify when it is read *after* the evidence.
    fn end_or_record(&mut self) -> Result<Option<Verified>, LogReadError> {
        let damage = match self.conclude() {
            Ok(end) => {
                self.end = Some(end);
                return Ok(None);
            }
            Err(damage) => damage,
        };
        self.look_again();
        if let Some(verified) = self.verified_record()? {
            return Ok(Some(verified));
        }
        // The segment may have been removed or recycled meanwhile.
        match self.missing_below()? {
            Some(missing) => {
                Err(LogReadError::Missing { path: self.bytes.path_of(missing), lsn: self.position })
            }
            None => Err(damage),
        }
    }

    /// Goes on on the timeline that begins at the position.
    fn follow_fork(&mut self) -> Result<(), LogReadError> {
        let timeline = self.history.timeline(self.history.timeline_at(self.position));
        let identity = LogIdentity { timeline, ..self.bytes.identity };
        let mut bytes = LogBytes::new(Arc::clone(&self.bytes.disk), identity);
        let number = self.geometry.segment_of(self.position);
        if !bytes.open_checked(number)? {
            return Err(LogReadError::Missing { path: bytes.path_of(number), lsn: self.position });
        }
        let fork = self.history.left_at(timeline.id);
        self.received = received_until(&bytes, fork)?;
        self.bytes = bytes;
        self.key = identity.key();
        self.fork = fork;
        self.began_at = Some(self.position);
        // The new timeline began when all before was durable.
        self.batch_floor = self.batch_floor.max(self.position);
        self.window_start = self.stream;
        self.filled = 0;
        Ok(())
    }

    /// Up to where the timeline that is being read is known to be durable, because the caller says so or it was left there.
    fn known_end(&self) -> Option<Lsn> {
        self.limit.into_iter().chain(self.fork).min()
    }

    /// Decrypts the body of a record that verified, in the window; how many bytes stand before it.
    fn decrypt(&mut self, header: &RecordHeader, body: Range<usize>) -> Result<usize, EncryptionProblem> {
        match (&self.cipher, header.flags & FLAG_ENCRYPTED != 0) {
            (None, false) => Ok(0),
            (None, true) => Err(EncryptionProblem::Encrypted),
            (Some(_), false) => Err(EncryptionProblem::NotEncrypted),
            (Some(cipher), true) => {
                decrypt_body(cipher, header.kind, &mut self.window[body])?;
                Ok(RECORD_ENVELOPE_BYTES)
            }
        }
    }

    fn undecipherable(&mut self, problem: EncryptionProblem) -> LogReadError {
        // What was tried is of no use any more: it is read once more by the next call.
        self.look_again();
        let lsn = self.position;
        let (number, offset) = (self.geometry.segment_of(lsn), self.geometry.offset_of(lsn));
        LogReadError::Encryption { path: self.bytes.path_of(number), offset, lsn, problem }
    }

    /// Writes what was read and may not be durable once more, and syncs it: the last batch. To be called before
    /// anything is made of its records that outlives a power failure.
    ///
    /// # Errors
    /// `Io`.
    pub fn make_durable(&self) -> Result<(), LogError> {
        self.bytes.write_again(self.durable(), self.position)
    }

    /// Everything before was durable when the last record was written, or when the mark of a received log was.
    fn durable(&self) -> Lsn {
        self.received.unwrap_or(self.batch_floor).max(self.from).min(self.position)
    }

    /// Where the next record starts.
    pub fn position(&self) -> Lsn {
        self.position
    }

    /// Where the log ends.
    ///
    /// # Panics
    /// If `next` has not returned `None` yet.
    pub fn finish(self) -> LogEnd {
        let is_at_limit = self.limit.is_some_and(|limit| self.position >= limit);
        match self.end {
            Some(end) => end,
            None => {
                assert!(is_at_limit, "the log was read up to {} only, not to its end", self.position);
                LogEnd { lsn: self.position, durable: self.durable(), reason: EndReason::Limit }
            }
        }
    }

    /// Reads and checks the record at the position; `None` if there is none.
    fn verified_record(&mut self) -> Result<Option<Verified>, LogReadError> {
        self.missing = None;
        if !self.fill(RECORD_HEADER_BYTES)? {
            return Ok(None);
        }
        let masks = self.key.masks(self.position);
        let start = self.window_offset();
        let Some(header) = RecordHeader::decode(&self.window[start..self.filled], masks) else {
            return Ok(None);
        };
        let Some(batch_start) = header.batch_start_from(self.batch_floor, self.position) else {
            return Ok(None);
        };
        let end = self.geometry.advance(self.position, u64::from(header.length));
        if self.known_end().into_iter().chain(self.arrived).any(|last| end > last) {
            return Ok(None);
        }
        let length = usize::try_from(header.length).expect("a record has at most 1 GiB");
        if !self.fill(length)? {
            self.missing = self.removed_segment(end)?;
            return Ok(None);
        }
        let start = self.window_offset();
        let computed = crc32c(&self.window[start + 12..start + length]);
        let span = RecordSpan { start: self.position, end };
        let verified = Verified { header, span, batch_start, start };
        let is_right = header.verifies(computed, masks) || sabotaged(Defect::RecordChecksumNotChecked);
        Ok(is_right.then_some(verified))
    }

    /// The record at the position, which ends at `end`, goes on in a segment that does not exist. A log that was
    /// restored from an archive may end so; but segments are made in order, each before a record goes into it: if there
    /// is a later one, this one was removed.
    fn removed_segment(&mut self, end: Lsn) -> Result<Option<u64>, LogReadError> {
        let first = self.geometry.segment_of(self.position) + 1;
        let mut numbers = Vec::new();
        for number in self.bytes.numbers_from(first)? {
            if self.bytes.exists(number)? {
                numbers.push(number);
            }
        }
        let last = self.geometry.segment_of(end);
        let missing = (first..=last).find(|number| numbers.binary_search(number).is_err());
        Ok(missing.filter(|missing| numbers.last().is_some_and(|last| last > missing)))
    }

    /// A segment that is not there, of those that the record at the position lies in or says that it goes on in: below where
    /// the log is known to end.
    fn missing_below(&mut self) -> Result<Option<u64>, LogReadError> {
        if let Some(missing) = self.missing.take() {
            return Ok(Some(missing));
        }
        // Its header may lie in two.
        let header_end = self.geometry.advance(self.position, RECORD_HEADER_BYTES as u64 - 1);
        for number in self.geometry.segment_of(self.position)..=self.geometry.segment_of(header_end) {
            if !self.bytes.open_checked(number)? {
                return Ok(Some(number));
            }
        }
        Ok(None)
    }

    fn window_offset(&self) -> usize {
        usize::try_from(self.stream.0 - self.window_start.0).expect("the position lies in the window")
    }

    /// Sees to it that `bytes` bytes from the position on are in the window; `false` if the log has fewer. The window
    /// grows only as bytes really come, at most doubling, so a length that is not yet verified allocates little.
    fn fill(&mut self, bytes: usize) -> Result<bool, LogReadError> {
        let mut start = self.window_offset();
        if start + bytes <= self.filled {
            return Ok(true);
        }
        self.window.copy_within(start..self.filled, 0);
        self.filled -= start;
        self.window_start = self.stream;
        start = 0;
        while self.filled < start + bytes {
            if self.filled == self.window.len() {
                let doubled = (self.window.len() * 2).max(WINDOW_BYTES);
                self.window.resize(doubled.min(bytes.next_multiple_of(WINDOW_BYTES)), 0);
            }
            let room = self.readable(self.window.len() - self.filled);
            let target = &mut self.window[self.filled..self.filled + room];
            let read = self.bytes.read(StreamPosition(self.window_start.0 + self.filled as u64), target)?;
            self.filled += read;
            if read == 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Bytes from the end of the window on, at most `room`, that lie before the limit: behind it they may still change.
    fn readable(&self, room: usize) -> usize {
        let Some(limit) = self.known_end().into_iter().chain(self.arrived).min() else { return room };
        let window_end = self.window_start.0 + self.filled as u64;
        let left = self.geometry.stream_position(limit).0.saturating_sub(window_end);
        usize::try_from(left).unwrap_or(usize::MAX).min(room)
    }

    /// There is no record at the position: the end of the log, or damage.
    fn conclude(&mut self) -> Result<LogEnd, LogReadError> {
        let lsn = self.position;
        let number = self.geometry.segment_of(lsn);
        let known_end = self.known_end().into_iter().chain(self.arrived).min();
        let evidence = match known_end {
            Some(known_end) => Some(known_end),
            None if sabotaged(Defect::DamageTakenForTornTail) => None,
            None => {
                let known = self.durable_until.max(self.received.unwrap_or(Lsn::ZERO));
                let found = match self.received {
                    Some(_) => None,
                    None => search::evidence_after(&mut self.bytes, self.key, lsn)?,
                };
                found.or((lsn < known).then_some(known))
            }
        };
        if let Some(evidence) = evidence {
            let missing = if known_end.is_some() { self.missing_below()? } else { None };
            return Err(match missing {
                Some(missing) => LogReadError::Missing { path: self.bytes.path_of(missing), lsn },
                None => self.damaged(evidence),
            });
        }
        if let Some(missing) = self.missing.take() {
            return Err(LogReadError::Missing { path: self.bytes.path_of(missing), lsn });
        }
        // A switch record that is received may be torn as any other.
        if self.began_at == Some(lsn) && self.received.is_none() {
            let (path, timeline) = (self.bytes.path_of(number), self.bytes.identity.timeline.id);
            return Err(LogReadError::NoSwitch { path, timeline, lsn });
        }
        let has_segment = self.bytes.open_checked(number)?;
        if !has_segment && self.geometry.offset_of(lsn) > HEADER_BYTES {
            // There were records in it: it has been removed since then.
            return Err(LogReadError::Missing { path: self.bytes.path_of(number), lsn });
        }
        let reason = if has_segment { EndReason::NoRecord } else { EndReason::MissingSegment };
        Ok(LogEnd { lsn, durable: self.durable(), reason })
    }

    /// There is no record at the position, and `evidence` says that there was one.
    fn damaged(&self, evidence: Lsn) -> LogReadError {
        let lsn = self.position;
        let path = self.bytes.path_of(self.geometry.segment_of(lsn));
        LogReadError::Damaged { path, offset: self.geometry.offset_of(lsn), lsn, evidence }
    }
}
