//! The answer to `SEAWALL_COPY`: a checkpoint, then all rows, for a new standby; or those that have changed, for a server that comes back.
//! That one asks for others then, and says when it has all.

use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use seawall_engine::{Database, Error};
use seawall_replication::ActiveSlot;
use seawall_replication::copy::{CopySender, FromPrimary};
use seawall_types::Lsn;
use seawall_values::{SqlError, SqlState};

use super::{End, ReplicationConnection, of_engine, of_slot};

/// Output beyond this is sent before more is read.
const FLUSH_BYTES: usize = 256 << 10;
/// A receiver hears at least so often that this server lives.
const KEEP_ALIVE: Duration = Duration::from_secs(1);

/// A copy under way. The slot is in use meanwhile.
pub(crate) struct Copying {
    sender: CopySender,
    _slot: ActiveSlot,
}

impl ReplicationConnection {
    /// Sends a copy of the database, or of what has changed since.
    pub(super) fn copy(&mut self, slot: &str, since: Option<Lsn>) -> Result<(), End> {
        let process_id = self.registered.entry.process_id;
        // One that its receiver has given up.
        self.copying = None;
        let slot = match self.replication.use_slot_for_copy(slot, process_id) {
            Ok(slot) => slot,
            Err(error) => {
                self.refuse(of_slot(error));
                return Ok(());
            }
        };
        match since {
            None => tracing::info!(process_id, "a copy for a standby begins"),
            Some(since) => {
                tracing::info!(process_id, %since, "a server comes back: a copy of what has changed begins");
            }
        }
        self.transport.output.copy_out_response(1, 0);
        self.flush()?;
        let database = self.replication.database().clone();
        let begun = self.begin_copy(&database, &format!("copy_{process_id}"), since);
        let copied = begun.and_then(|mut sender| {
            self.send_copy(&database, &mut sender)?;
            Ok(sender)
        });
        let copied = copied.map(|sender| {
            if since.is_some() {
                self.copying = Some(Copying { sender, _slot: slot });
            } else {
                tracing::info!(process_id, "a copy for a standby ends");
            }
        });
        self.answer_copy("SEAWALL_COPY", copied)
    }

    /// Sends more of a copy that is under way: what `ask` asks for.
    pub(super) fn copy_more(&mut self, command: &str, ask: impl FnOnce(&mut CopySender)) -> Result<(), End> {
        let Some(mut copying) = self.copying.take() else {
            let message = format!("{command} without a SEAWALL_COPY of what has changed");
            self.refuse(SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message));
            return Ok(());
        };
        ask(&mut copying.sender);
        self.transport.output.copy_out_response(1, 0);
        let database = self.replication.database().clone();
        let copied = self.send_copy(&database, &mut copying.sender);
        let copied = copied.map(|()| self.copying = Some(copying));
        self.answer_copy(command, copied)
    }

    /// Sends the end of a copy that is under way, which is over then.
    pub(super) fn end_copy(&mut self) -> Result<(), End> {
        let sent = self.copy_more("SEAWALL_COPY_END", CopySender::ask_for_end);
        if self.copying.take().is_some() {
            tracing::info!(process_id = self.registered.entry.process_id, "a copy of what has changed ends");
        }
        sent
    }

    fn answer_copy(&mut self, command: &str, copied: Result<(), CopyEnd>) -> Result<(), End> {
        match copied {
            Ok(()) => {
                self.transport.output.copy_done();
                self.transport.output.command_complete(Some(command));
                Ok(())
            }
            Err(CopyEnd::Refused(error)) => {
                self.refuse(of_engine(error));
                Ok(())
            }
            Err(CopyEnd::Connection(end)) => Err(end),
        }
    }

    fn send_copy(&mut self, database: &Database, sender: &mut CopySender) -> Result<(), CopyEnd> {
        let mut message = Vec::new();
        while sender.next(database, &mut message)? {
            self.transport.output.copy_data(&message);
            message.clear();
            if self.transport.output.bytes.len() >= FLUSH_BYTES {
                self.flush()?;
                self.check_goes_on()?;
            }
        }
        self.flush()?;
        Ok(())
    }

    /// Its checkpoint may take long.
    fn begin_copy(
        &mut self,
        database: &Database,
        hold: &str,
        since: Option<Lsn>,
    ) -> Result<CopySender, CopyEnd> {
        std::thread::scope(|scope| {
            let (answered, answer) = sync_channel(1);
            scope.spawn(move || {
                let begun = CopySender::begin(database, hold, since);
                // The connection may be gone.
                answered.send(begun).unwrap_or_default();
            });
            loop {
                match answer.recv_timeout(KEEP_ALIVE) {
                    Ok(begun) => return Ok(begun?),
                    Err(RecvTimeoutError::Timeout) => {
                        self.transport.output.copy_data(&FromPrimary::Alive.encode());
                        self.flush()?;
                        self.check_goes_on()?;
                    }
                    Err(RecvTimeoutError::Disconnected) => {
                        return Err(Error::Stopped { cause: "a checkpoint panicked".to_owned() }.into());
                    }
                }
            }
        })
    }
}

/// Why a copy is not whole.
enum CopyEnd {
    /// The receiver is told.
    Refused(Error),
    Connection(End),
}

impl From<Error> for CopyEnd {
    fn from(error: Error) -> CopyEnd {
        CopyEnd::Refused(error)
    }
}

impl From<End> for CopyEnd {
    fn from(end: End) -> CopyEnd {
        CopyEnd::Connection(end)
    }
}
