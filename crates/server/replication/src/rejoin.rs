//! Before a server follows another one: its log must be a part of that one's.
//!
//! ```text
//!   connect --> IDENTIFY_SYSTEM --> TIMELINE_HISTORY --> the directory is cut where that history left it, if need be --> follow
//! ```

use seawall_engine::{DatabaseDirectory, Error, Options, Rejoined, TimelineHistory};
use seawall_types::{DatabaseId, TimelineId};

use crate::client::{Client, ClientError, Dial};
use crate::settings::UpstreamSettings;

/// Why a directory cannot be made ready to follow.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RejoinError {
    /// The upstream cannot be asked. It may be asked later: a standby waits for it.
    #[error("the upstream cannot be asked for its history: {0}")]
    Client(#[from] ClientError),
    /// It answers otherwise than expected.
    #[error("the upstream answers {command} with {answer}")]
    Answer {
        /// The command.
        command: String,
        /// The answer.
        answer: String,
    },
    /// It has another database.
    #[error("the upstream has the database {found}, and this directory has a copy of {expected}")]
    OtherDatabase {
        /// Its system identifier.
        found: String,
        /// That of the directory.
        expected: String,
    },
    /// The engine's answer.
    #[error(transparent)]
    Database(#[from] Error),
}

/// Makes the closed database of `directory` ready to follow its upstream: see [`DatabaseDirectory::rejoin`].
///
/// # Errors
/// `Client` if the upstream cannot be reached now; the others if the database cannot follow it.
pub fn rejoin(
    directory: &DatabaseDirectory,
    options: &Options,
    settings: &UpstreamSettings,
    dial: &dyn Dial,
) -> Result<Rejoined, RejoinError> {
    let (database, own) = directory.identity()?;
    let mut client = Client::log_in(dial.dial().map_err(ClientError::from)?, settings)?;
    let (system, timeline) = identify(&mut client)?;
    let expected = system_identifier_of(database);
    if system != expected {
        return Err(RejoinError::OtherDatabase { found: system, expected });
    }
    if timeline == own.timeline && own.forks.is_empty() {
        return Ok(Rejoined::AsItWas);
    }
    Ok(directory.rejoin(options, &history_of(&mut client, timeline)?)?)
}

fn identify(client: &mut Client) -> Result<(String, TimelineId), RejoinError> {
    const COMMAND: &str = "IDENTIFY_SYSTEM";
    let rows = client.command(COMMAND)?;
    let found = match rows.first().map(Vec::as_slice) {
        Some([Some(system), Some(timeline), ..]) => {
            let timeline = timeline.parse().ok().and_then(TimelineId::new);
            timeline.map(|timeline| (system.clone(), timeline))
        }
        _ => None,
    };
    found.ok_or_else(|| RejoinError::Answer { command: COMMAND.to_owned(), answer: format!("{rows:?}") })
}

fn history_of(client: &mut Client, timeline: TimelineId) -> Result<TimelineHistory, RejoinError> {
    let command = format!("TIMELINE_HISTORY {timeline}");
    let rows = client.command(&command)?;
    let history = match rows.first().map(Vec::as_slice) {
        Some([_, Some(text), ..]) => TimelineHistory::parse(text, timeline, "the upstream's history").ok(),
        _ => None,
    };
    history.ok_or_else(|| RejoinError::Answer { command, answer: format!("{rows:?}") })
}

/// PostgreSQL's system identifier has 64 bits: half of the database's id, and never zero.
pub(crate) fn system_identifier_of(database: DatabaseId) -> String {
    let half: [u8; 8] = std::array::from_fn(|index| database.as_bytes()[index]);
    u64::from_be_bytes(half).max(1).to_string()
}
