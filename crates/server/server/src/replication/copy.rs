//! The answer to `SEAWALL_COPY`: a checkpoint, then all rows, for a new standby.

use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use seawall_engine::{Database, Error};
use seawall_replication::copy::{CopySender, FromPrimary};

use super::{End, ReplicationConnection, of_engine, of_slot};

/// Output beyond this is sent before more is read.
const FLUSH_BYTES: usize = 256 << 10;
/// A receiver hears at least so often that this server lives.
const KEEP_ALIVE: Duration = Duration::from_secs(1);

impl ReplicationConnection {
    /// Sends a copy of the database. The slot is in use meanwhile.
    pub(super) fn copy(&mut self, slot: &str) -> Result<(), End> {
        let process_id = self.registered.entry.process_id;
        let slot = match self.replication.use_slot_for_copy(slot, process_id) {
            Ok(slot) => slot,
            Err(error) => {
                self.refuse(of_slot(error));
                return Ok(());
            }
        };
        tracing::info!(process_id, "a copy for a standby begins");
        self.transport.output.copy_out_response(1, 0);
        self.flush()?;
        let copied = self.send_copy(&format!("copy_{process_id}"));
        drop(slot);
        match copied {
            Ok(()) => {
                tracing::info!(process_id, "a copy for a standby ends");
                self.transport.output.copy_done();
                self.transport.output.command_complete(Some("SEAWALL_COPY"));
                Ok(())
            }
            Err(CopyEnd::Refused(error)) => {
                self.refuse(of_engine(error));
                Ok(())
            }
            Err(CopyEnd::Connection(end)) => Err(end),
        }
    }

    fn send_copy(&mut self, hold: &str) -> Result<(), CopyEnd> {
        let database = self.replication.database().clone();
        let mut sender = self.begin_copy(&database, hold)?;
        let mut message = Vec::new();
        while sender.next(&database, &mut message)? {
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
    fn begin_copy(&mut self, database: &Database, hold: &str) -> Result<CopySender, CopyEnd> {
        std::thread::scope(|scope| {
            let (answered, answer) = sync_channel(1);
            scope.spawn(move || {
                let begun = CopySender::begin(database, hold);
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
