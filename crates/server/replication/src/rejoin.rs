//! Before a server follows another one: its log must be a part of that one's.
//!
//! ```text
//!   connect --> IDENTIFY_SYSTEM, TIMELINE_HISTORY, SHOW seawall.archive_mode
//!           --> the directory is cut where that history left it, if need be --> follow
//! ```

use seawall_engine::{
    ArchiveMode, DatabaseDirectory, Error, Options, Rejoined, ServerToFollow, TimelineHistory,
};
use seawall_types::{DatabaseId, TimelineId};

use crate::client::{Client, ClientError, Dial};
use crate::connect::connect;
use crate::settings::UpstreamSettings;

/// `undefined_object`: there is no such setting.
const UNDEFINED_OBJECT: &str = "42704";

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

/// What `SHOW` calls the setting by which an upstream says whether its database may archive: `on` or `off`.
pub const ARCHIVE_MODE: &str = "seawall.archive_mode";

/// What an upstream has said about its timeline, next to the history of the database that is to follow it.
#[derive(Debug)]
pub struct UpstreamHistory {
    own: TimelineHistory,
    upstream: TimelineHistory,
    archive_mode: Option<ArchiveMode>,
}

impl UpstreamHistory {
    /// Asks the upstream of the closed database in `directory`.
    ///
    /// # Errors
    /// `Client` if the upstream cannot be asked now; the others if the database cannot follow it.
    pub fn ask(
        directory: &DatabaseDirectory,
        settings: &UpstreamSettings,
        dial: &dyn Dial,
    ) -> Result<UpstreamHistory, RejoinError> {
        let (database, own) = directory.identity()?;
        let (mut client, _) = connect(settings, dial, 0)?;
        let (system, timeline) = identify(&mut client)?;
        let expected = system_identifier_of(database);
        if system != expected {
            return Err(RejoinError::OtherDatabase { found: system, expected });
        }
        let upstream = match timeline == own.timeline && own.forks.is_empty() {
            true => own.clone(),
            false => history_of(&mut client, timeline)?,
        };
        let archive_mode = archive_mode_of(&mut client)?;
        Ok(UpstreamHistory { own, upstream, archive_mode })
    }

    /// The upstream's timeline.
    pub fn timeline(&self) -> TimelineId {
        self.upstream.timeline
    }

    /// Whether the upstream's timeline is the database's own, or one that it came from.
    pub fn is_known_here(&self) -> bool {
        self.own.descends_from(&self.upstream)
    }

    /// Makes the database ready to follow the upstream: see [`DatabaseDirectory::rejoin`].
    ///
    /// # Errors
    /// `Database`.
    pub fn rejoin(&self, directory: &DatabaseDirectory, options: &Options) -> Result<Rejoined, RejoinError> {
        let upstream = ServerToFollow { history: &self.upstream, archive_mode: self.archive_mode };
        Ok(directory.rejoin(options, upstream)?)
    }
}

pub(crate) fn identify(client: &mut Client) -> Result<(String, TimelineId), RejoinError> {
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

pub(crate) fn history_of(client: &mut Client, timeline: TimelineId) -> Result<TimelineHistory, RejoinError> {
    if timeline == TimelineId::FIRST {
        return Ok(TimelineHistory::first());
    }
    let command = format!("TIMELINE_HISTORY {timeline}");
    let rows = client.command(&command)?;
    let history = match rows.first().map(Vec::as_slice) {
        Some([_, Some(text), ..]) => TimelineHistory::parse(text, timeline, "the upstream's history").ok(),
        _ => None,
    };
    history.ok_or_else(|| RejoinError::Answer { command, answer: format!("{rows:?}") })
}

/// `None` if the upstream is of a version that does not say so.
fn archive_mode_of(client: &mut Client) -> Result<Option<ArchiveMode>, RejoinError> {
    let command = format!("SHOW \"{ARCHIVE_MODE}\"");
    let rows = match client.command(&command) {
        Err(ClientError::Refused { code, .. }) if code == UNDEFINED_OBJECT => return Ok(None),
        answered => answered?,
    };
    match rows.first().map(Vec::as_slice) {
        Some([Some(mode)]) if mode == "on" => Ok(Some(ArchiveMode::Preserve)),
        Some([Some(mode)]) if mode == "off" => Ok(Some(ArchiveMode::Off)),
        _ => Err(RejoinError::Answer { command, answer: format!("{rows:?}") }),
    }
}

/// PostgreSQL's system identifier has 64 bits: half of the database's id, and never zero.
pub(crate) fn system_identifier_of(database: DatabaseId) -> String {
    let half: [u8; 8] = std::array::from_fn(|index| database.as_bytes()[index]);
    u64::from_be_bytes(half).max(1).to_string()
}
