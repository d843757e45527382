//! The sending side: what a receiver has asked for, as messages, and what the receiver says of itself.
//!
//! ```text
//!   START_REPLICATION --> Sender::begin --> next --> next --> .. --> Step::TimelineEnded
//!                                            |
//!                         the log's file bytes, in messages of one timeline
//! ```
//! A state machine without a socket: the caller sends what `next` gives, and passes on what comes.
//!
//! A stream of one timeline ends where the timeline was left, and the receiver asks for the next one. A request for a timeline from the
//! start of the segment in which the timeline begins is served as well: up to the fork, the bytes are those of this server's file.

use std::sync::Arc;
use std::time::Duration;

use seawall_engine::{Database, Error, LogBell, LogStream, LogStreamError, SegmentName, TimelineHistory};
use seawall_types::{Lsn, TimelineId};

use crate::lag::LagTracker;
use crate::message::{self, FromReceiver, MessageError, Progress};

/// A message has at most so many bytes of the log: as PostgreSQL's.
const DATA_BYTES_MAX: usize = 128 << 10;
/// The header page of a segment.
const HEADER_BYTES: u64 = 4096;
/// A log that has ended is given so long to go on with the next timeline: the receiver would ask in vain, and rest.
const PROMOTION_MAX: Duration = Duration::from_secs(1);

/// What `next` did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It gave a message.
    Sent,
    /// All that is durable was given.
    Idle,
    /// The timeline was left, and all of it was given.
    TimelineEnded {
        /// The timeline that followed.
        next: TimelineId,
        /// Where it began.
        fork: Lsn,
    },
}

/// Why a stream does not begin, or ends.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SenderError {
    /// The position is beyond the end of the log.
    #[error("requested starting point {position} is ahead of the WAL flush position of this server {end}")]
    Ahead {
        /// What was asked for.
        position: Lsn,
        /// The end of the durable log.
        end: Lsn,
    },
    /// The timeline is not one of this server, or has nothing at the position.
    #[error("requested starting point {position} on timeline {timeline} is not in this server's history")]
    NotInHistory {
        /// What was asked for.
        position: Lsn,
        /// The timeline.
        timeline: TimelineId,
    },
    /// The log from there on is gone.
    #[error("requested WAL segment {segment} has already been removed; the log is kept from {oldest} on")]
    Removed {
        /// The segment file.
        segment: String,
        /// The oldest position that is kept.
        oldest: Lsn,
    },
    /// The receiver says that it has what there is not.
    #[error("the receiver acknowledges the log up to {claimed}, and the log ends at {end}")]
    Claim {
        /// What it says.
        claimed: Lsn,
        /// The end of the log.
        end: Lsn,
    },
    /// A message is not one of replication.
    #[error(transparent)]
    Message(#[from] MessageError),
    /// Segments of this size are not known to PostgreSQL's tools.
    #[error(
        "log segments of {segment_bytes} bytes cannot be streamed to PostgreSQL's programs, which know 1 MiB to 1 GiB"
    )]
    SegmentSize {
        /// The size.
        segment_bytes: u64,
    },
    /// The log cannot be read.
    #[error("cannot read the log at {position}: {source}")]
    Log {
        /// Where.
        position: Lsn,
        /// What the log says.
        source: LogStreamError,
    },
    /// What the engine says.
    #[error(transparent)]
    Database(#[from] Error),
}

/// A stream to one receiver. See the module.
#[derive(Debug)]
pub struct Sender {
    database: Database,
    timeline: TimelineId,
    /// Where the timeline was left, and for which one.
    left: Option<(Lsn, TimelineId)>,
    /// Where the timeline began.
    began: Lsn,
    segment_bytes: u64,
    /// The next byte.
    position: Lsn,
    stream: Option<LogStream>,
    bell: Option<Arc<dyn LogBell>>,
    buffer: Vec<u8>,
    progress: Progress,
    lag: LagTracker,
}

impl Sender {
    /// Begins a stream of `timeline`, by default the current one, at `position`.
    ///
    /// # Errors
    /// `NotInHistory`, `Ahead`, `Removed`; `Database`.
    pub fn begin(
        database: &Database,
        position: Lsn,
        timeline: Option<TimelineId>,
    ) -> Result<Sender, SenderError> {
        let history = current_history(database)?;
        let timeline = timeline.unwrap_or(history.timeline);
        let not_there = || SenderError::NotInHistory { position, timeline };
        let (began, left) = span_of(&history, timeline).ok_or_else(not_there)?;
        let segment_bytes = database.log().segment_bytes();
        let mut sender = Sender {
            database: database.clone(),
            timeline,
            left,
            began,
            segment_bytes,
            position,
            stream: None,
            bell: None,
            buffer: vec![0; DATA_BYTES_MAX],
            progress: Progress::default(),
            lag: LagTracker::default(),
        };
        let is_before = sender.segment_of(position) < sender.segment_of(began);
        if is_before || left.is_some_and(|(fork, _)| position > fork) {
            return Err(not_there());
        }
        // At the end of a segment, the next header page is not there yet: the stream begins when it is.
        let end = database.log().flushed();
        if position > end {
            return Err(SenderError::Ahead { position, end });
        }
        sender.open()?;
        Ok(sender)
    }

    /// The next byte that is sent.
    pub fn position(&self) -> Lsn {
        self.position
    }

    /// The timeline.
    pub fn timeline(&self) -> TimelineId {
        self.timeline
    }

    /// How far the receiver said that it is.
    pub fn progress(&self) -> Progress {
        self.progress
    }

    /// The end of this server's durable log.
    pub fn end_of_log(&self) -> Lsn {
        self.database.log().flushed()
    }

    /// Puts the next message into `out`, if there is one.
    ///
    /// # Errors
    /// `Removed`, `Log`; `Database`.
    pub fn next(&mut self, out: &mut Vec<u8>, now_micros: i64) -> Result<Step, SenderError> {
        if let Some((fork, next)) = self.left.filter(|(fork, _)| self.normalised() >= *fork) {
            return Ok(Step::TimelineEnded { next, fork });
        }
        let bytes = if self.normalised() < self.began {
            self.read_before_fork()?
        } else {
            match self.read_stream() {
                // A standby that was promoted: the timeline may have been left meanwhile.
                Err(SenderError::Log { source: LogStreamError::Stopped { .. }, .. })
                    if self.has_been_left()? =>
                {
                    return self.next(out, now_micros);
                }
                read => read?,
            }
        };
        if bytes == 0 {
            return Ok(Step::Idle);
        }
        message::put_data_head(out, self.position, self.end_of_log(), now_micros);
        out.extend_from_slice(&self.buffer[..bytes]);
        self.position = Lsn::new(self.position.get() + bytes as u64);
        self.lag.sent(self.position, now_micros);
        Ok(Step::Sent)
    }

    /// Whether everything before `end` was given: an end of the log.
    pub fn has_sent(&self, end: Lsn) -> bool {
        self.normalised() >= end
    }

    /// A message that says that this server is alive.
    pub fn keep_alive(&self, now_micros: i64, wants_answer: bool) -> Vec<u8> {
        message::keep_alive(self.end_of_log(), now_micros, wants_answer)
    }

    /// What the receiver's answers tell of its lag.
    pub fn lag(&self) -> &LagTracker {
        &self.lag
    }

    /// Takes what the receiver says; whether it waits for an answer.
    ///
    /// # Errors
    /// `Message`; `Claim`.
    pub fn take(&mut self, body: &[u8], now_micros: i64) -> Result<bool, SenderError> {
        match FromReceiver::parse(body)? {
            FromReceiver::Ignored => Ok(false),
            FromReceiver::Status { progress, wants_answer } => {
                let claimed = progress.written.max(progress.flushed).max(progress.applied);
                // It may have more than this stream has sent: from a stream before. A header page without a record counts.
                let end = self.end_of_log();
                if claimed > normalised(end, self.segment_bytes) {
                    return Err(SenderError::Claim { claimed, end });
                }
                self.progress = progress;
                self.lag.acknowledged(progress, now_micros);
                Ok(wants_answer)
            }
        }
    }

    /// `bell` is rung when the log has grown, or has stopped. See [`LogStream::set_bell`].
    pub fn set_bell(&mut self, bell: Arc<dyn LogBell>) {
        if let Some(stream) = &self.stream {
            stream.set_bell(&bell);
        }
        self.bell = Some(bell);
    }

    /// Whether there may be something to send, or the log has stopped; `None`: the log has not come to the position, and no bell tells.
    pub fn has_more(&self) -> Option<bool> {
        self.stream.as_ref().map(LogStream::has_more)
    }

    fn segment_of(&self, lsn: Lsn) -> u64 {
        lsn.get() / self.segment_bytes
    }

    fn normalised(&self) -> Lsn {
        normalised(self.position, self.segment_bytes)
    }

    /// Opens the stream of the log, unless the log has not come there.
    fn open(&mut self) -> Result<bool, SenderError> {
        if self.stream.is_none() {
            let from = self.position.max(self.began);
            match self.database.log().open_stream(from)? {
                Ok(stream) => {
                    self.bell.iter().for_each(|bell| stream.set_bell(bell));
                    self.stream = Some(stream);
                }
                Err(LogStreamError::NotReached { .. }) => return Ok(false),
                Err(source) => return Err(self.failed(source)),
            }
        }
        Ok(true)
    }

    fn read_stream(&mut self) -> Result<usize, SenderError> {
        if !self.open()? {
            return Ok(0);
        }
        let Some(stream) = &mut self.stream else { return Ok(0) };
        match stream.read(&mut self.buffer) {
            Ok(piece) => Ok(piece.bytes),
            Err(source) => Err(self.failed(source)),
        }
    }

    /// Reads of the file in which the timeline begins what lies before the fork.
    fn read_before_fork(&mut self) -> Result<usize, SenderError> {
        let name = SegmentName { number: self.segment_of(self.began), timeline: self.timeline };
        let left = usize::try_from(self.began.bytes_since(self.position)).unwrap_or(usize::MAX);
        let bytes = left.min(self.buffer.len());
        let offset = self.position.get() % self.segment_bytes;
        self.database.log().read_segment(name, offset, &mut self.buffer[..bytes])?;
        Ok(bytes)
    }

    /// Whether the timeline was the current one, and is not any more. Its log has ended: a promotion may be about to begin the next one.
    fn has_been_left(&mut self) -> Result<bool, SenderError> {
        if self.left.is_some() || !self.database.log().wait_until_left(self.timeline, PROMOTION_MAX) {
            return Ok(false);
        }
        let history = current_history(&self.database)?;
        self.left = span_of(&history, self.timeline).and_then(|(_, left)| left);
        self.stream = None;
        Ok(self.left.is_some())
    }

    fn failed(&self, source: LogStreamError) -> SenderError {
        match source {
            LogStreamError::NotRetained { position, oldest } => {
                let name = SegmentName { number: self.segment_of(position), timeline: self.timeline };
                SenderError::Removed { segment: name.file_name(), oldest }
            }
            source => SenderError::Log { position: self.position, source },
        }
    }
}

/// The first byte at `lsn` or after it that is not of a header page.
fn normalised(lsn: Lsn, segment_bytes: u64) -> Lsn {
    let offset = lsn.get() % segment_bytes;
    Lsn::new(lsn.get() + HEADER_BYTES.saturating_sub(offset))
}

/// The history of the timeline that the database is on.
///
/// # Errors
/// What the engine says.
pub fn current_history(database: &Database) -> Result<TimelineHistory, Error> {
    database.log().timeline_history(database.log().timeline())
}

/// Where a timeline began and was left.
fn span_of(history: &TimelineHistory, timeline: TimelineId) -> Option<(Lsn, Option<(Lsn, TimelineId)>)> {
    let mut began = Lsn::ZERO;
    let children = history.forks.iter().skip(1).map(|fork| fork.parent).chain([history.timeline]);
    for (fork, child) in history.forks.iter().zip(children) {
        if fork.parent == timeline {
            return Some((began, Some((fork.fork, child))));
        }
        began = fork.fork;
    }
    (history.timeline == timeline).then_some((began, None))
}

#[cfg(test)]
mod tests {
    use seawall_types::TimelineMark;

    use super::*;

    #[test]
    fn a_timeline_spans_what_its_forks_say() {
        let timeline = |number| TimelineId::new(number).unwrap();
        let history = TimelineHistory::first().fork(timeline(2), Lsn::new(100), TimelineMark::NONE, "").fork(
            timeline(5),
            Lsn::new(300),
            TimelineMark::NONE,
            "",
        );
        let span = |number| span_of(&history, timeline(number));
        assert_eq!(span(1), Some((Lsn::ZERO, Some((Lsn::new(100), timeline(2))))));
        assert_eq!(span(2), Some((Lsn::new(100), Some((Lsn::new(300), timeline(5))))));
        assert_eq!(span(5), Some((Lsn::new(300), None)));
        assert_eq!(span(3), None);
    }

    #[test]
    fn a_position_in_a_header_page_stands_for_the_first_record() {
        let segment = 1 << 20;
        for (at, expected) in [(0, 4096), (4095, 4096), (4096, 4096), (segment, segment + 4096), (5000, 5000)]
        {
            assert_eq!(normalised(Lsn::new(at), segment), Lsn::new(expected));
        }
    }
}
