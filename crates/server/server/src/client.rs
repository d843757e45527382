//! The client of a session, as a statement sees it: takes rows, notices and copied data, and gives data that is copied.
//!
//! What it takes is sent when there is much of it. A client that takes nothing for too long is given up, and the statement with it.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use seawall_sql::session::{EncodedRow, Field, Notice, Sink};
use seawall_values::{SqlError, SqlResult, SqlState};

use crate::alarm::Alarm;
use crate::connections::Entry;
use crate::protocol::frontend::{FrameError, next_frame, text, violation};
use crate::socket::Readiness;
use crate::transport::{Filled, Transport};

/// Output beyond this is sent before more is made.
const FLUSH_BYTES: usize = 32 << 10;
/// Data of several messages that a statement is given together.
const COPIED_AT_ONCE: usize = 64 << 10;
/// Between two looks whether the connection is to end.
const SLICE: Duration = Duration::from_millis(100);

pub(crate) struct Client<'c> {
    transport: &'c mut Transport,
    entry: &'c Entry,
    alarm: Alarm<'c>,
    write_timeout: Duration,
    message_bytes_max: usize,
    is_copying_out: bool,
    /// Told before the next ReadyForQuery, as PostgreSQL tells them.
    changed: &'c mut BTreeMap<String, String>,
    /// Why there is nobody to send anything to.
    pub(crate) lost: Option<io::Error>,
    /// A message came that has no meaning here, so nobody knows what those after it mean.
    pub(crate) is_out_of_step: bool,
}

impl<'c> Client<'c> {
    pub(crate) fn new(
        transport: &'c mut Transport,
        entry: &'c Entry,
        alarm: Alarm<'c>,
        write_timeout: Duration,
        message_bytes_max: usize,
        changed: &'c mut BTreeMap<String, String>,
    ) -> Client<'c> {
        Client {
            transport,
            entry,
            alarm,
            write_timeout,
            message_bytes_max,
            is_copying_out: false,
            changed,
            lost: None,
            is_out_of_step: false,
        }
    }

    /// The end of the data of `COPY .. TO STDOUT`, if that is what the statement was.
    pub(crate) fn finish_copy_out(&mut self) {
        if std::mem::take(&mut self.is_copying_out) {
            self.transport.output.copy_done();
        }
    }

    fn flush_much(&mut self) -> SqlResult<()> {
        if self.transport.output.bytes.len() < FLUSH_BYTES { Ok(()) } else { self.flush() }
    }

    fn flush(&mut self) -> SqlResult<()> {
        let flushed = flush(self.transport, self.entry, self.write_timeout);
        flushed.map_err(|error| self.lose(error))
    }

    fn lose(&mut self, error: io::Error) -> Box<SqlError> {
        self.lost = Some(error);
        SqlError::new(SqlState::CONNECTION_FAILURE, "connection to client lost")
    }

    fn unexpected(&mut self, kind: u8) -> Box<SqlError> {
        self.is_out_of_step = true;
        violation(format!("unexpected message type 0x{kind:02X} during COPY from stdin"))
    }

    /// Adds the data of messages that have arrived whole already: a client may send one for each row.
    fn with_data_that_follows(&mut self, mut data: Vec<u8>) -> Vec<u8> {
        let input = &mut self.transport.input;
        while data.len() < COPIED_AT_ONCE
            && input.first() == Some(&b'd')
            && let Ok(Some(frame)) = next_frame(input, self.message_bytes_max)
        {
            data.extend_from_slice(&frame.body);
        }
        data
    }

    /// Waits for input; ends the wait if the statement is to end.
    fn fill(&mut self) -> SqlResult<()> {
        loop {
            // Each time: where bytes come one by one, no wait is ever over.
            self.entry.ending().map_or(Ok(()), |ending| Err(ending.error()))?;
            match self.transport.fill() {
                Ok(Filled::Bytes) => return Ok(()),
                Ok(Filled::End) => {
                    self.lost = Some(io::ErrorKind::UnexpectedEof.into());
                    let message = "unexpected EOF on client connection with an open transaction";
                    return Err(SqlError::new(SqlState::CONNECTION_FAILURE, message));
                }
                Ok(Filled::Nothing) => {}
                Err(error) => return Err(self.lose(error)),
            }
            if let Err(error) = self.transport.socket.wait(Readiness::Readable, SLICE) {
                return Err(self.lose(error));
            }
        }
    }
}

/// Sends all of the output. `TimedOut`: the client has taken nothing for `limit`. `Interrupted`: the connection is to end.
pub(crate) fn flush(transport: &mut Transport, entry: &Entry, limit: Duration) -> io::Result<()> {
    let mut waited = Duration::ZERO;
    while !transport.flush_some()? {
        if transport.socket.wait(Readiness::Writable, SLICE)? {
            waited = Duration::ZERO;
            continue;
        }
        waited += SLICE;
        if waited >= limit {
            return Err(io::ErrorKind::TimedOut.into());
        }
        if entry.is_to_end() {
            return Err(io::ErrorKind::Interrupted.into());
        }
    }
    Ok(())
}

impl Sink for Client<'_> {
    fn statement_begins(&mut self, limit: Option<Duration>) {
        self.alarm.set(limit);
    }

    fn fields(&mut self, fields: &[Field]) -> SqlResult<()> {
        self.transport.output.row_description(fields);
        Ok(())
    }

    fn row(&mut self, row: &EncodedRow) -> SqlResult<()> {
        self.transport.output.data_row(row);
        self.flush_much()
    }

    fn complete(&mut self, tag: Option<&str>) -> SqlResult<()> {
        self.finish_copy_out();
        self.transport.output.command_complete(tag);
        self.flush_much()
    }

    fn notice(&mut self, notice: &Notice) -> SqlResult<()> {
        self.transport.output.notice(notice);
        self.flush_much()
    }

    fn setting(&mut self, name: &str, value: &str) -> SqlResult<()> {
        self.changed.insert(name.to_owned(), value.to_owned());
        Ok(())
    }

    fn notification(&mut self, process_id: i32, channel: &str, payload: &str) -> SqlResult<()> {
        self.transport.output.notification(process_id, channel, payload);
        self.flush_much()
    }

    fn copy_out(&mut self, format: i8, columns: usize) -> SqlResult<()> {
        self.is_copying_out = true;
        self.transport.output.copy_out_response(format, columns);
        Ok(())
    }

    fn copy_data(&mut self, data: &[u8]) -> SqlResult<()> {
        self.transport.output.copy_data(data);
        self.flush_much()
    }

    fn copy_in(&mut self, format: i8, columns: usize) -> SqlResult<()> {
        self.transport.output.copy_in_response(format, columns);
        self.flush()
    }

    fn next_copy_data(&mut self) -> SqlResult<Option<Vec<u8>>> {
        loop {
            match next_frame(&mut self.transport.input, self.message_bytes_max) {
                Ok(None) => self.fill()?,
                Ok(Some(frame)) => match frame.kind {
                    b'd' => return Ok(Some(self.with_data_that_follows(frame.body.into()))),
                    b'c' => return Ok(None),
                    b'f' => {
                        let message = format!("COPY from stdin failed: {}", text(&frame.body)?);
                        return Err(SqlError::new(SqlState::QUERY_CANCELED, message));
                    }
                    // Of a client that sent them ahead; PostgreSQL ignores them, too.
                    b'H' | b'S' => {}
                    other => return Err(self.unexpected(other)),
                },
                Err(FrameError::Kind(other)) => return Err(self.unexpected(other)),
                Err(FrameError::Length(_)) => {
                    self.lost = Some(io::ErrorKind::InvalidData.into());
                    return Err(violation("invalid message length"));
                }
            }
        }
    }
}
