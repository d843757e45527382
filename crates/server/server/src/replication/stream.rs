//! The stream of `START_REPLICATION`.
//!
//! Messages go out as long as there is log, and what the receiver says is taken in between. Where there is neither, the thread sleeps until
//! one of them comes: the flush of the log wakes it (`log_alarm`). A receiver that says nothing for half of the
//! time-out is asked; one that says nothing for all of it is given up. When the server ends, what is durable by then is sent first.
//!
//! ```text
//!   a commit waits for the receiver:  log, send, answer, log, send, answer, ..
//!   none does:                        log, send, (a millisecond: answers, log, log, log) answers, send, (a millisecond ..
//! ```
//! A message and an answer for each flush would take a quarter of what the commits themselves take of the processors.

use std::time::Duration;

use seawall_io::Clock;
use seawall_replication::{ActiveSlot, Lag, Sender, SenderStatus, StartReplication, Step};
use seawall_types::{Lsn, TimelineId};
use seawall_values::{SqlError, SqlState, oid};

use super::log_alarm::LogAlarm;
use super::rows::{self, Column};
use super::{End, ReplicationConnection, of_engine, of_sender, of_slot, starts};
use crate::connections::Ending;
use crate::protocol::frontend::violation;

/// Output beyond this is sent before more is read of the log.
const FLUSH_BYTES: usize = 256 << 10;
/// Between two looks at what is told to nobody, while there is nothing to send and to hear.
const REST: Duration = Duration::from_millis(100);
/// Between a message that no commit waits for and the next look at the log and at what the receiver says.
const GATHER: Duration = Duration::from_millis(1);
/// PostgreSQL's `wal_sender_timeout`.
const TIMEOUT: Duration = Duration::from_secs(60);
/// A receiver without news hears at least so often that this server lives.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// A stream under way.
struct Streaming {
    alarm: LogAlarm,
    sender: Sender,
    slot: Option<ActiveSlot>,
    status: SenderStatus,
    /// When something came last, and when it was answered last.
    heard: Duration,
    spoke: Duration,
    has_asked: bool,
}

/// How a stream has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StreamEnd {
    /// The receiver has ended it.
    Receiver,
    /// The timeline was left.
    Timeline { next: TimelineId, fork: Lsn },
}

impl ReplicationConnection {
    /// Streams until the receiver, the timeline or the server ends.
    pub(super) fn start(&mut self, start: &StartReplication) -> Result<(), End> {
        let begun = self.begin_stream(start);
        let mut streaming = match begun {
            Ok(streaming) => streaming,
            Err(error) => {
                self.refuse(error);
                return Ok(());
            }
        };
        let process_id = self.registered.entry.process_id;
        let from = starts(start.position, streaming.sender.timeline());
        tracing::info!(process_id, from, slot = start.slot, "a stream begins");
        self.transport.output.copy_both_response();
        self.flush()?;
        let ended = self.stream(&mut streaming)?;
        tracing::info!(process_id, end = %streaming.sender.position(), ?ended, "a stream ends");
        drop(streaming);
        self.replication.forget_sender(process_id);
        self.end_stream(ended)
    }

    fn begin_stream(&mut self, start: &StartReplication) -> Result<Streaming, Box<SqlError>> {
        let process_id = self.registered.entry.process_id;
        let slot = start.slot.as_deref().map(|name| self.replication.use_slot(name, process_id));
        let slot = slot.transpose().map_err(of_slot)?;
        let mut sender =
            Sender::begin(self.replication.database(), start.position, start.timeline).map_err(of_sender)?;
        let now = self.context.clock.monotonic();
        let status = SenderStatus {
            process_id,
            user: self.user.clone(),
            application_name: self.application_name.clone(),
            client: self.client(),
            listens: self.listens.clone(),
            began_micros: self.now_micros(),
            is_streaming: false,
            sent: start.position,
            progress: sender.progress(),
            reply_micros: None,
            lag: Lag::default(),
            behind_since_micros: None,
        };
        let alarm = LogAlarm::start(&mut sender).map_err(|error| {
            SqlError::new(SqlState::INSUFFICIENT_RESOURCES, format!("no pipe for a stream: {error}"))
        })?;
        Ok(Streaming { alarm, sender, slot, status, heard: now, spoke: now, has_asked: false })
    }

    fn stream(&mut self, streaming: &mut Streaming) -> Result<StreamEnd, End> {
        let mut message = Vec::new();
        loop {
            if self.hear(streaming)? {
                return Ok(StreamEnd::Receiver);
            }
            let is_to_end = self.check_goes_on().is_err();
            let end = streaming.sender.end_of_log();
            message.clear();
            let step = streaming.sender.next(&mut message, self.now_micros());
            let step = step.map_err(|error| End::With(of_sender(error)))?;
            match step {
                Step::Sent => {
                    self.transport.output.copy_data(&message);
                    streaming.spoke = self.context.clock.monotonic();
                    if !streaming.sender.has_sent(end) {
                        if self.transport.output.bytes.len() >= FLUSH_BYTES {
                            self.flush()?;
                        }
                        continue;
                    }
                }
                Step::Idle => {}
                Step::TimelineEnded { next, fork } => return Ok(StreamEnd::Timeline { next, fork }),
            }
            self.flush()?;
            self.note(streaming, true);
            if is_to_end {
                return Err(End::With(Ending::Shutdown.error()));
            }
            self.keep_alive(streaming)?;
            if step == Step::Idle {
                streaming.alarm.wait(&self.transport.socket, &streaming.sender, REST)?;
            } else if !self.replication.is_waited_for(&self.application_name) {
                self.context.clock.sleep(GATHER);
            }
        }
    }

    /// Takes what the receiver has said; whether it ends the stream.
    fn hear(&mut self, streaming: &mut Streaming) -> Result<bool, End> {
        while let Some(frame) = self.received_frame()? {
            streaming.heard = self.context.clock.monotonic();
            streaming.has_asked = false;
            match frame.kind {
                b'd' => {
                    let taken = streaming.sender.take(&frame.body, self.now_micros());
                    let wants_answer = taken.map_err(|error| End::With(of_sender(error)))?;
                    let flushed = streaming.sender.progress().flushed;
                    let advanced = streaming.slot.as_ref().map_or(Ok(()), |slot| slot.advance(flushed));
                    advanced.map_err(|error| End::With(of_engine(error)))?;
                    streaming.status.reply_micros = Some(self.now_micros());
                    self.note(streaming, false);
                    if wants_answer {
                        self.speak(streaming, false)?;
                    }
                }
                b'c' => return Ok(true),
                b'X' => return Err(End::Quiet),
                b'f' => {
                    let message = "COPY from the receiver failed";
                    return Err(End::With(SqlError::new(SqlState::QUERY_CANCELED, message)));
                }
                kind => {
                    let message = format!("unexpected message type 0x{kind:02X} during a stream");
                    return Err(End::With(violation(message)));
                }
            }
        }
        Ok(false)
    }

    fn note(&self, streaming: &mut Streaming, has_sent_all: bool) {
        let Streaming { sender, status, .. } = streaming;
        let before = (status.sent, status.progress, status.is_streaming);
        (status.sent, status.progress) = (sender.position(), sender.progress());
        (status.lag, status.behind_since_micros) = (sender.lag().lag(), sender.lag().behind_since_micros());
        status.is_streaming |= has_sent_all;
        if before != (status.sent, status.progress, status.is_streaming) || status.reply_micros.is_some() {
            self.replication.note_sender(status.clone());
        }
    }

    fn keep_alive(&mut self, streaming: &mut Streaming) -> Result<(), End> {
        let now = self.context.clock.monotonic();
        let silent = now.saturating_sub(streaming.heard);
        if silent >= TIMEOUT {
            let message = "terminating walsender process due to replication timeout";
            return Err(End::With(SqlError::new(SqlState::ADMIN_SHUTDOWN, message)));
        }
        let asks = silent >= TIMEOUT / 2 && !streaming.has_asked;
        if asks || now.saturating_sub(streaming.spoke) >= KEEP_ALIVE {
            streaming.has_asked |= asks;
            self.speak(streaming, asks)?;
        }
        Ok(())
    }

    fn speak(&mut self, streaming: &mut Streaming, wants_answer: bool) -> Result<(), End> {
        let message = streaming.sender.keep_alive(self.now_micros(), wants_answer);
        self.transport.output.copy_data(&message);
        streaming.spoke = self.context.clock.monotonic();
        self.flush()
    }

    /// Ends the copy in both directions, and says which timeline followed.
    fn end_stream(&mut self, ended: StreamEnd) -> Result<(), End> {
        self.transport.output.copy_done();
        if let StreamEnd::Timeline { next, fork } = ended {
            self.flush()?;
            self.wait_for_copy_done()?;
            let columns = [Column::of("next_tli", oid::INT8, 8), Column::text("next_tli_startpos")];
            let row = [Some(next.to_string()), Some(fork.to_string())];
            rows::answer(&mut self.transport.output, &columns, &[&row], "START_STREAMING");
        } else {
            self.transport.output.command_complete(Some("START_STREAMING"));
        }
        // Twice, as PostgreSQL says it, and as its programs expect it.
        self.transport.output.command_complete(Some("START_REPLICATION"));
        Ok(())
    }

    fn wait_for_copy_done(&mut self) -> Result<(), End> {
        let began = self.context.clock.monotonic();
        loop {
            self.check_goes_on()?;
            while let Some(frame) = self.received_frame()? {
                match frame.kind {
                    b'c' => return Ok(()),
                    b'X' => return Err(End::Quiet),
                    // What it says of itself on the way.
                    _ => {}
                }
            }
            if self.context.clock.monotonic().saturating_sub(began) >= TIMEOUT {
                return Err(End::Quiet);
            }
            self.transport.socket.wait(crate::socket::Readiness::Readable, super::SLICE)?;
        }
    }
}
