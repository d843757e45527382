//! A connection for replication: its commands, one after the other, and the stream that one of them begins.
//!
//! ```text
//!   login with replication=true --> commands: IDENTIFY_SYSTEM, SHOW, slots, TIMELINE_HISTORY
//!                                     |
//!                                     +--> START_REPLICATION: CopyBoth until the receiver, the timeline or the server ends
//!                                     +--> SEAWALL_COPY: CopyOut of the whole database, or of what has changed; then
//!                                     |    SEAWALL_COPY_ROWS: CopyOut of ranges, SEAWALL_COPY_END
//!                                     +--> SEAWALL_TAKE_OVER: this standby becomes the primary
//! ```
//! It has a thread of the pool as long as it lasts.

mod copy;
mod log_alarm;
mod rows;
mod stream;

use std::sync::Arc;
use std::time::Duration;

use seawall_engine::{ArchiveMode, Error, LogHold};
use seawall_io::Clock;
use seawall_replication::{
    ARCHIVE_MODE, Command, CommandError, Listens, Replication, SenderError, SlotError, TakeOver,
    TakeOverError, TakenOver, current_history, system_identifier,
};
use seawall_sql::session::TransactionStatus;
use seawall_types::{Lsn, TimelineId};
use seawall_values::{SqlError, SqlResult, SqlState, oid};

use crate::client::flush;
use crate::connections::{Ending, Registered};
use crate::context::Context;
use crate::protocol::backend::Severity;
use crate::protocol::frontend::{self, Frame, FrameError, next_frame, violation};
use crate::socket::{Peer, Readiness};
use crate::statements::StatementSession;
use crate::transport::{Filled, Transport};

use rows::Column;

/// Between two looks whether the connection is to end.
const SLICE: Duration = Duration::from_millis(100);
const UNDEFINED_FILE: SqlState = SqlState::new(b"58P01");

/// Why a connection ends.
enum End {
    /// The client has said so, or is gone.
    Quiet,
    /// The client is told.
    With(Box<SqlError>),
}

impl From<std::io::Error> for End {
    fn from(error: std::io::Error) -> End {
        tracing::info!(%error, "a connection for replication broke");
        End::Quiet
    }
}

/// A connection for replication. See the module.
pub(crate) struct ReplicationConnection {
    pub(crate) context: Arc<Context>,
    pub(crate) transport: Transport,
    pub(crate) registered: Registered,
    pub(crate) session: Box<dyn StatementSession>,
    pub(crate) replication: Arc<Replication>,
    pub(crate) user: String,
    pub(crate) application_name: String,
    /// Holds of temporary slots.
    pub(crate) temporary: Vec<LogHold>,
    /// A copy of what has changed, whose receiver may ask for more.
    pub(crate) copying: Option<copy::Copying>,
    /// Where the receiver listens itself, if it has said so.
    pub(crate) listens: Option<Listens>,
}

impl ReplicationConnection {
    /// Serves commands until the connection ends.
    pub(crate) fn serve(mut self) {
        let process_id = self.registered.entry.process_id;
        let ended = self.commands();
        self.replication.forget_sender(process_id);
        if let Err(End::With(error)) = ended {
            tracing::info!(process_id, %error, "a connection for replication is ended");
            self.transport.end(&error);
        }
    }

    fn commands(&mut self) -> Result<(), End> {
        loop {
            let frame = self.next_frame()?;
            match frame.kind {
                b'X' => return Ok(()),
                b'Q' => {
                    let text = frontend::text(&frame.body).map(str::to_owned);
                    match text {
                        Ok(text) => self.command(&text)?,
                        Err(error) => self.transport.output.error(Severity::Error, &error),
                    }
                    self.transport.output.ready_for_query(TransactionStatus::Idle);
                    self.flush()?;
                }
                // The rest of a stream that has ended.
                b'd' | b'c' | b'f' => {}
                b'P' | b'B' | b'D' | b'E' | b'C' | b'H' | b'S' | b'F' => {
                    let message = "extended query protocol not supported in a replication connection";
                    return Err(End::With(violation(message)));
                }
                kind => return Err(End::With(violation(format!("invalid frontend message type {kind}")))),
            }
        }
    }

    /// Runs a command. One that fails says so, and the connection goes on.
    fn command(&mut self, text: &str) -> Result<(), End> {
        if text.trim().is_empty() {
            self.transport.output.command_complete(None);
            return Ok(());
        }
        let command = match Command::parse(text) {
            Ok(command) => command,
            Err(error) => {
                let code = match error {
                    CommandError::Logical => SqlState::FEATURE_NOT_SUPPORTED,
                    _ => SqlState::SYNTAX_ERROR,
                };
                self.refuse(SqlError::new(code, error.to_string()));
                return Ok(());
            }
        };
        let done = match command {
            Command::Start(start) => return self.start(&start),
            Command::Copy { slot, since } => return self.copy(&slot, since),
            Command::CopyRows(ranges) => return self.copy_more("SEAWALL_COPY_ROWS", |copy| copy.ask(ranges)),
            Command::CopyEnd => return self.end_copy(),
            Command::IdentifySystem => self.identify_system(),
            Command::Show(name) => self.show(&name),
            Command::ReadSlot(name) => self.read_slot(&name),
            Command::CreateSlot { name, is_temporary } => self.create_slot(&name, is_temporary),
            Command::DropSlot(name) => self.drop_slot(&name),
            Command::TimelineHistory(timeline) => self.timeline_history(timeline),
            Command::Listens(listens) => {
                self.listens = Some(listens);
                self.transport.output.command_complete(Some("SEAWALL_LISTENS"));
                Ok(())
            }
            Command::TakeOver(take_over) => self.take_over(&take_over),
            Command::CancelTakeOver { order } => self.cancel_take_over(&order),
        };
        if let Err(error) = done {
            self.refuse(error);
        }
        Ok(())
    }

    fn refuse(&mut self, error: Box<SqlError>) {
        tracing::info!(process_id = self.registered.entry.process_id, %error, "a command of replication fails");
        self.transport.output.error(Severity::Error, &error);
    }

    fn identify_system(&mut self) -> SqlResult<()> {
        let database = self.replication.database();
        let system = system_identifier(database).map_err(of_engine)?;
        let (timeline, end) = (database.log().timeline(), database.log().flushed());
        let columns = [
            Column::text("systemid"),
            Column::of("timeline", oid::INT4, 4),
            Column::text("xlogpos"),
            Column::text("dbname"),
        ];
        let row = [Some(system), Some(timeline.to_string()), Some(end.to_string()), None];
        rows::answer(&mut self.transport.output, &columns, &[&row], "IDENTIFY_SYSTEM");
        Ok(())
    }

    fn show(&mut self, name: &str) -> SqlResult<()> {
        if name == "wal_segment_size" {
            let bytes = self.replication.database().log().segment_bytes();
            let shown = match bytes.checked_div(1 << 20) {
                Some(0) | None => format!("{}kB", bytes >> 10),
                Some(mebibytes) => format!("{mebibytes}MB"),
            };
            let row = [Some(shown)];
            rows::answer(&mut self.transport.output, &[Column::text(name)], &[&row], "SHOW");
            return Ok(());
        }
        if name == ARCHIVE_MODE {
            let mode = self.replication.database().log().archive_mode().map_err(of_engine)?;
            let shown = match mode {
                ArchiveMode::Preserve => "on",
                ArchiveMode::Off => "off",
            };
            let row = [Some(shown.to_owned())];
            rows::answer(&mut self.transport.output, &[Column::text(name)], &[&row], "SHOW");
            return Ok(());
        }
        let mut sink = rows::Answer { output: &mut self.transport.output };
        self.session.simple_query(&format!("SHOW \"{}\"", name.replace('"', "\"\"")), &mut sink)
    }

    fn read_slot(&mut self, name: &str) -> SqlResult<()> {
        let columns =
            [Column::text("slot_type"), Column::text("restart_lsn"), Column::of("restart_tli", oid::INT8, 8)];
        let row = match self.replication.slot(name) {
            // PostgreSQL's answer for a slot that exists and keeps nothing.
            Ok(slot) if slot.is_lost => [Some("physical".to_owned()), None, None],
            Ok(slot) => {
                let history = current_history(self.replication.database()).map_err(of_engine)?;
                let timeline = history.timeline_at(slot.position);
                [Some("physical".to_owned()), Some(slot.position.to_string()), Some(timeline.to_string())]
            }
            Err(SlotError::Missing(_)) => [None, None, None],
            Err(error) => return Err(of_slot(error)),
        };
        rows::answer(&mut self.transport.output, &columns, &[&row], "READ_REPLICATION_SLOT");
        Ok(())
    }

    fn create_slot(&mut self, name: &str, is_temporary: bool) -> SqlResult<()> {
        let hold = self.replication.create_slot(name, is_temporary).map_err(of_slot)?;
        let position = hold.position();
        if is_temporary {
            self.temporary.push(hold);
        }
        let columns = ["slot_name", "consistent_point", "snapshot_name", "output_plugin"].map(Column::text);
        let row = [Some(name.to_owned()), Some(position.to_string()), None, None];
        rows::answer(&mut self.transport.output, &columns, &[&row], "CREATE_REPLICATION_SLOT");
        Ok(())
    }

    fn drop_slot(&mut self, name: &str) -> SqlResult<()> {
        self.replication.drop_slot(name).map_err(of_slot)?;
        self.temporary.retain(|hold| hold.name() != name);
        self.transport.output.command_complete(Some("DROP_REPLICATION_SLOT"));
        Ok(())
    }

    fn timeline_history(&mut self, timeline: TimelineId) -> SqlResult<()> {
        let history = self.replication.database().log().timeline_history(timeline).map_err(|error| {
            let message = format!("could not open the history of timeline {timeline}");
            SqlError::new(UNDEFINED_FILE, message).with_detail(error.to_string())
        })?;
        let columns = [Column::text("filename"), Column::text("content")];
        let row = [Some(format!("{:08X}.history", timeline.get())), Some(history.encode())];
        rows::answer(&mut self.transport.output, &columns, &[&row], "TIMELINE_HISTORY");
        Ok(())
    }
}

/// A switchover.
impl ReplicationConnection {
    fn take_over(&mut self, take_over: &TakeOver) -> SqlResult<()> {
        let database = self.context.database()?;
        let (order, at) = (&take_over.order, take_over.at);
        tracing::info!(order, timeline = %take_over.timeline, %at, "the primary orders this standby to go on");
        let followed = self.replication.take_over(take_over, || database.promote("switchover").map(drop));
        let followed =
            followed.inspect_err(|error| tracing::warn!(%error, "an order to take over is not followed"));
        let timeline = followed.map_err(|error| match error {
            TakeOverError::Promotion(error) => error,
            TakeOverError::Database(error) => of_engine(error),
            error => SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, error.to_string()),
        })?;
        let row = [Some(timeline.to_string())];
        rows::answer(
            &mut self.transport.output,
            &[Column::of("timeline", oid::INT8, 8)],
            &[&row],
            "SEAWALL_TAKE_OVER",
        );
        Ok(())
    }

    fn cancel_take_over(&mut self, order: &str) -> SqlResult<()> {
        let (role, timeline) = match self.replication.cancel_take_over(order).map_err(of_engine)? {
            TakenOver::Cancelled(timeline) => ("standby", timeline),
            TakenOver::Promoted(timeline) => ("primary", timeline),
        };
        let columns = [Column::text("role"), Column::of("timeline", oid::INT8, 8)];
        let row = [Some(role.to_owned()), Some(timeline.to_string())];
        rows::answer(&mut self.transport.output, &columns, &[&row], "SEAWALL_CANCEL_TAKE_OVER");
        Ok(())
    }
}

/// The connection itself.
impl ReplicationConnection {
    fn now_micros(&self) -> i64 {
        self.context.clock.wall_micros()
    }

    fn flush(&mut self) -> Result<(), End> {
        let limit = self.context.reloaded().write_timeout;
        flush(&mut self.transport, &self.registered.entry, limit)?;
        Ok(())
    }

    fn check_goes_on(&self) -> Result<(), End> {
        match self.registered.entry.is_to_end() || self.session.is_to_end() {
            true => Err(End::With(Ending::Shutdown.error())),
            false => Ok(()),
        }
    }

    /// A message that has come; `None`: none has.
    fn received_frame(&mut self) -> Result<Option<Frame>, End> {
        loop {
            let bytes_max = self.context.reloaded().message_bytes_max;
            match next_frame(&mut self.transport.input, bytes_max) {
                Ok(Some(frame)) => return Ok(Some(frame)),
                Ok(None) => match self.transport.fill()? {
                    Filled::Bytes => {}
                    Filled::Nothing => return Ok(None),
                    Filled::End => return Err(End::Quiet),
                },
                Err(FrameError::Kind(kind)) => {
                    return Err(End::With(violation(format!("invalid frontend message type {kind}"))));
                }
                Err(FrameError::Length(_)) => return Err(End::With(violation("invalid message length"))),
            }
        }
    }

    fn next_frame(&mut self) -> Result<Frame, End> {
        loop {
            self.check_goes_on()?;
            if let Some(frame) = self.received_frame()? {
                return Ok(frame);
            }
            self.transport.socket.wait(Readiness::Readable, SLICE)?;
        }
    }

    fn client(&self) -> Option<(String, u16)> {
        match &self.transport.socket.peer {
            Peer::Local => None,
            Peer::Host(address, port) => Some((address.to_string(), *port)),
        }
    }
}

fn of_engine(error: Error) -> Box<SqlError> {
    let code = match error {
        Error::LogHoldLost { .. } | Error::ReadOnly => SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
        Error::NoSuchLogHold { .. } => SqlState::UNDEFINED_OBJECT,
        // The disk has answered, and what it has is wrong: a receiver that asks again gets the same.
        Error::Tree { .. } | Error::Log { .. } | Error::Catalog { .. } | Error::Keys { .. } => {
            SqlState::DATA_CORRUPTED
        }
        _ => SqlState::IO_ERROR,
    };
    SqlError::new(code, error.to_string())
}

fn of_slot(error: SlotError) -> Box<SqlError> {
    let code = match error {
        SlotError::Name(_) => SqlState::INVALID_NAME,
        SlotError::Exists(_) => SqlState::DUPLICATE_OBJECT,
        SlotError::Missing(_) => SqlState::UNDEFINED_OBJECT,
        SlotError::Active { .. } => SqlState::OBJECT_IN_USE,
        SlotError::Database(error) => return of_engine(error),
        _ => SqlState::IO_ERROR,
    };
    // PostgreSQL puts names in quotation marks without Rust's escapes; the check of names lets none through that differ.
    SqlError::new(code, error.to_string())
}

fn of_sender(error: SenderError) -> Box<SqlError> {
    match error {
        SenderError::Database(error) => of_engine(error),
        SenderError::Removed { .. } => SqlError::new(UNDEFINED_FILE, error.to_string()),
        SenderError::Message(_) | SenderError::Claim { .. } => violation(error.to_string()),
        _ => SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, error.to_string()),
    }
}

/// Where a stream began, for messages.
fn starts(position: Lsn, timeline: TimelineId) -> String {
    format!("{position} on timeline {timeline}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that is rewound asks again after the one, and not after the other.
    #[test]
    fn damage_is_told_from_a_disk_that_does_not_answer() {
        let message = || "page 7".to_owned();
        for (error, code) in [
            (Error::Tree { message: message() }, SqlState::DATA_CORRUPTED),
            (Error::Log { message: message() }, SqlState::DATA_CORRUPTED),
            (Error::Io { message: message() }, SqlState::IO_ERROR),
            (Error::DiskFull { message: message() }, SqlState::IO_ERROR),
        ] {
            let told = of_engine(error.clone());
            assert_eq!(told.code, code, "{error:?}");
            assert!(told.message.contains("page 7"), "{told:?}");
        }
    }
}
