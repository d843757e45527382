//! A standby's directory from nothing: a copy of the primary over the connection that the standby will follow it by.
//!
//! **If the power goes**, the directory has what a restore leaves that was cut short, and the next call begins anew; or it has the whole copy,
//! which needs log that the slot keeps (`engine::standby::copied`).

use std::time::Duration;

use seawall_engine::{
    ArchiveMode, BackupBase, BackupEnd, Environment, Error, Options, Restore, RestoreMarker, RestoreOptions,
    TimelineHistory, check_restore_directory,
};
use seawall_types::Lsn;

use crate::client::{ClientError, Dial, Streamed};
use crate::connect::connect;
use crate::copy::{CopyMessageError, FromPrimary};
use crate::settings::UpstreamSettings;
use crate::upstream::{FollowError, ensure_slot};

/// Rows of so many bytes become durable at a time.
const GRAFT_BYTES: usize = 64 << 20;
/// A primary that is silent for so long is given up: it says every second that it lives.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// Why there is no copy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BootstrapError {
    /// The connection, or what the upstream is.
    #[error("cannot copy the primary: {0}")]
    Upstream(#[from] FollowError),
    /// A message.
    #[error("cannot copy the primary: {0}")]
    Message(#[from] CopyMessageError),
    /// The primary has ended the copy before it was whole.
    #[error("cannot copy the primary: it has ended the copy before it was whole")]
    CutShort,
    /// This server's directory.
    #[error(transparent)]
    Database(#[from] Error),
}

impl From<ClientError> for BootstrapError {
    fn from(error: ClientError) -> BootstrapError {
        FollowError::from(error).into()
    }
}

/// Whether the environment's directory has no database: it is missing, empty, or has a copy that was cut short.
///
/// # Errors
/// `Io`; `RestoreMarker`.
pub fn needs_copy(environment: &Environment) -> Result<bool, Error> {
    match check_restore_directory(&*environment.disk) {
        Ok(None) => Ok(true),
        Ok(Some(marker)) => Ok(marker.is_of_standby()),
        Err(Error::NotEmpty { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Copies the primary into the environment's directory. `progress` is told the bytes of rows so far.
///
/// # Errors
/// `BootstrapError`.
pub fn bootstrap(
    settings: &UpstreamSettings,
    dial: &dyn Dial,
    environment: &Environment,
    options: &Options,
    progress: &mut dyn FnMut(u64),
) -> Result<(), BootstrapError> {
    let (mut client, _) = connect(settings, dial, 0)?;
    // A lost one is made to keep the log again by the copy.
    ensure_slot(&mut client, &settings.slot)?;
    client.begin_stream(&format!("SEAWALL_COPY SLOT \"{}\"", settings.slot))?;
    let mut copy = Copy { environment, options, state: State::Empty, rows: 0, bytes: 0 };
    let mut silent = Duration::ZERO;
    loop {
        let limit = Duration::from_secs(1);
        match client.streamed(limit)? {
            Streamed::Message(message) => {
                silent = Duration::ZERO;
                if let Some(end) = copy.take(&message)? {
                    return copy.finish(end);
                }
                progress(copy.bytes);
            }
            Streamed::Nothing if silent >= SILENCE_MAX => {
                return Err(FollowError::Silent(SILENCE_MAX).into());
            }
            Streamed::Nothing => silent += limit,
            Streamed::Done => return Err(BootstrapError::CutShort),
        }
    }
}

/// The history of the timeline that the redo point is on: the copy begins there, and receives one timeline after the other.
fn history_at(primary: &TimelineHistory, redo_point: Lsn) -> TimelineHistory {
    primary.up_to(primary.timeline_at(redo_point))
}

struct Copy<'a> {
    environment: &'a Environment,
    options: &'a Options,
    state: State,
    rows: u64,
    /// Bytes of these.
    bytes: u64,
}

enum State {
    Empty,
    /// The beginning of the log is to come.
    Head {
        restore: Box<Restore>,
        primary: TimelineHistory,
        head: Vec<u8>,
    },
    Rows {
        restore: Box<Restore>,
        primary: TimelineHistory,
    },
}

impl Copy<'_> {
    /// Takes a message; the end of the copy, if it is that.
    fn take(&mut self, message: &[u8]) -> Result<Option<BackupEnd>, BootstrapError> {
        let unexpected = || BootstrapError::from(CopyMessageError::out_of_order());
        self.state = match (std::mem::replace(&mut self.state, State::Empty), FromPrimary::parse(message)?) {
            (state, FromPrimary::Alive) => state,
            (State::Empty, FromPrimary::Base(base, primary, archive_mode)) => {
                let history = history_at(&primary, base.redo_point);
                let restore = Box::new(self.begin(*base, &history, archive_mode)?);
                State::Head { restore, primary, head: Vec::new() }
            }
            (State::Head { restore, primary, mut head }, FromPrimary::Head(bytes)) => {
                head.extend_from_slice(bytes);
                State::Head { restore, primary, head }
            }
            (State::Head { mut restore, primary, head }, FromPrimary::Rows(_)) => {
                restore.begin_log(&history_at(&primary, restore.redo_point()), &head)?;
                self.state = State::Rows { restore, primary };
                return self.take(message);
            }
            (State::Rows { mut restore, primary }, FromPrimary::Rows(rows)) => {
                for row in rows {
                    let (key, value) = row?;
                    restore.push(key, value)?;
                    self.rows += 1;
                    self.bytes += (key.len() + value.len()) as u64;
                }
                State::Rows { restore, primary }
            }
            (State::Rows { mut restore, primary }, FromPrimary::Stamp(stamp)) => {
                restore.note_stamp(stamp)?;
                State::Rows { restore, primary }
            }
            (State::Rows { restore, primary }, FromPrimary::End(end, rows)) => {
                if rows != self.rows {
                    return Err(BootstrapError::CutShort);
                }
                self.state = State::Rows { restore, primary };
                return Ok(Some(end));
            }
            (State::Empty | State::Head { .. } | State::Rows { .. }, _) => return Err(unexpected()),
        };
        Ok(None)
    }

    fn begin(
        &self,
        base: BackupBase,
        history: &TimelineHistory,
        archive_mode: ArchiveMode,
    ) -> Result<Restore, Error> {
        let options =
            RestoreOptions { database: self.options.clone(), graft_bytes: GRAFT_BYTES, archive_mode };
        // Each attempt is one of its own: rows of two moments must not be mixed.
        let mut attempt = [0; 8];
        self.environment.random.fill(&mut attempt);
        let source = format!("{} {:016x}", base.redo_point, u64::from_be_bytes(attempt));
        let marker = RestoreMarker::of_standby(base.database, source, history.timeline);
        let next_table = base.first_new_table;
        Restore::begin(self.environment.clone(), options, base, history, next_table, &marker)
    }

    fn finish(self, end: BackupEnd) -> Result<(), BootstrapError> {
        match self.state {
            State::Rows { restore, primary } => Ok(restore.finish_copy(end, &primary)?),
            State::Empty | State::Head { .. } => Err(BootstrapError::CutShort),
        }
    }
}
