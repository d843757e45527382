//! What a standby asks its upstream before it receives, and why a connection to the upstream ends.

use std::time::Duration;

use seawall_engine::{Error, TimelineHistory};
use seawall_types::{Lsn, TimelineId};

use crate::client::{Client, ClientError};
use crate::message::MessageError;

/// `undefined_file`: the upstream has removed the log that is asked for.
const LOG_REMOVED: &str = "58P01";

/// Why a connection to the upstream ends.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FollowError {
    /// The connection.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// A message.
    #[error(transparent)]
    Message(#[from] MessageError),
    /// The upstream has another database.
    #[error("the upstream has the database {found}, and this standby is a copy of {expected}")]
    OtherDatabase {
        /// Its system identifier.
        found: String,
        /// That of this server.
        expected: String,
    },
    /// The upstream is on an older timeline.
    #[error(
        "the upstream is on timeline {found}, and this standby follows the newer timeline {own}: point it to the newer primary"
    )]
    OldTimeline {
        /// That of the upstream.
        found: TimelineId,
        /// That of this standby.
        own: TimelineId,
    },
    /// The upstream is silent.
    #[error("the upstream has said nothing for {0:?}")]
    Silent(Duration),
    /// The slot keeps nothing any more.
    #[error(
        "the slot {slot} is lost: it kept more log than the upstream's max_slot_wal_keep_size allows, so what this standby lacks may be gone. \
         Start it with --archive of a repository that has the log; or empty its directory, and the next start makes it anew"
    )]
    SlotLost {
        /// Its name.
        slot: String,
    },
    /// An answer of the upstream is not as expected.
    #[error("the upstream answers {command} with {answer}")]
    Answer {
        /// The command.
        command: &'static str,
        /// The answer.
        answer: String,
    },
    /// A byte of the log was changed on the way.
    #[error(
        "the record at the end of the upstream's log, {end}, is to go on there: it was changed on the way, and is asked for again"
    )]
    RecordAcrossEnd {
        /// Where that log ends.
        end: Lsn,
    },
    /// It ends a stream that has brought nothing, and again.
    #[error("the upstream ends its streams, and gives neither log nor another timeline")]
    EndsStreams,
    /// No log comes from the archive either.
    #[error("{upstream}; and no log comes from the archive: {problem}")]
    Archive {
        /// Why the upstream gives none.
        upstream: Box<FollowError>,
        /// Why the archive gives none.
        problem: String,
    },
    /// This server's engine.
    #[error(transparent)]
    Database(#[from] Error),
}

impl FollowError {
    /// Whether the upstream gives log that cannot be what goes on here.
    pub(crate) fn is_log_refused(&self) -> bool {
        matches!(self, FollowError::RecordAcrossEnd { .. } | FollowError::Database(Error::Log { .. }))
    }

    /// Whether the upstream lives, and does not have the log.
    pub(crate) fn is_log_removed(&self) -> bool {
        matches!(self, FollowError::Client(ClientError::Refused { code, .. }) if code == LOG_REMOVED)
    }
}

/// What an upstream is.
pub(crate) struct Upstream {
    pub(crate) system: String,
    pub(crate) timeline: TimelineId,
    /// Where its durable log ends.
    pub(crate) end: Lsn,
}

/// The history of a timeline of the upstream.
pub(crate) fn timeline_history(
    client: &mut Client,
    timeline: TimelineId,
) -> Result<TimelineHistory, FollowError> {
    const COMMAND: &str = "TIMELINE_HISTORY";
    let rows = client.command(&format!("{COMMAND} {timeline}"))?;
    let answer = |problem: &dyn std::fmt::Display| FollowError::Answer {
        command: COMMAND,
        answer: format!("{problem}: {rows:?}"),
    };
    let Some([Some(name), Some(content)]) = rows.first().map(Vec::as_slice) else {
        return Err(answer(&"not one row of two columns"));
    };
    TimelineHistory::parse(content, timeline, name).map_err(|error| answer(&error))
}

/// Asks what the upstream is.
pub(crate) fn identify(client: &mut Client) -> Result<Upstream, FollowError> {
    const COMMAND: &str = "IDENTIFY_SYSTEM";
    let rows = client.command(COMMAND)?;
    let found = match rows.first().map(Vec::as_slice) {
        Some([Some(system), Some(timeline), Some(end), ..]) => {
            let timeline = timeline.parse().ok().and_then(TimelineId::new);
            timeline.zip(end.parse().ok()).map(|(timeline, end)| Upstream {
                system: system.clone(),
                timeline,
                end,
            })
        }
        _ => None,
    };
    found.ok_or_else(|| FollowError::Answer { command: COMMAND, answer: format!("{rows:?}") })
}

/// Whether a slot keeps the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlotState {
    Keeps,
    Lost,
}

/// Makes the slot, if it is missing.
pub(crate) fn ensure_slot(client: &mut Client, slot: &str) -> Result<SlotState, FollowError> {
    let rows = client.command(&format!("READ_REPLICATION_SLOT \"{slot}\""))?;
    match rows.first().map(Vec::as_slice) {
        Some([Some(_), Some(_), ..]) => Ok(SlotState::Keeps),
        Some([Some(_), None, ..]) => Ok(SlotState::Lost),
        _ => {
            client.command(&format!("CREATE_REPLICATION_SLOT \"{slot}\" PHYSICAL (RESERVE_WAL)"))?;
            Ok(SlotState::Keeps)
        }
    }
}

/// As `ensure_slot`; one that is lost is made anew. The log is kept from now on.
pub(crate) fn renew_slot(client: &mut Client, slot: &str) -> Result<(), FollowError> {
    if ensure_slot(client, slot)? == SlotState::Lost {
        client.command(&format!("DROP_REPLICATION_SLOT \"{slot}\""))?;
        ensure_slot(client, slot)?;
    }
    Ok(())
}
