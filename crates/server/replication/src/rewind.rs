//! A server that comes back, and whose pages hold what its new primary never had: it fetches what has changed on either side since their
//! histories parted (`engine::recovery::rewind`).
//!
//! ```text
//!   connect --> IDENTIFY_SYSTEM, TIMELINE_HISTORY --> Rewind::begin: since when
//!           --> SEAWALL_COPY .. SINCE: what changed there, and what did not, with sums --> Rewind::ask: what did here
//!           --> SEAWALL_COPY_ROWS, as often as the ranges need --> SEAWALL_COPY_END --> Rewind::finish
//! ```
//! **If the power goes**, or the primary, the directory has the marker of a rewind, and the next call begins again.

use std::ops::Range;
use std::time::Duration;

use seawall_engine::{DatabaseDirectory, Environment, Error, Options, Rewind, Rewound, RowsFromPrimary};

use crate::client::{Client, ClientError, Dial, Streamed};
use crate::connect::connect;
use crate::copy::{CopyMessageError, FromPrimary, encode_ranges};
use crate::rejoin::{RejoinError, history_of, identify, system_identifier_of};
use crate::settings::UpstreamSettings;
use crate::upstream::{FollowError, ensure_slot};

/// A command asks for ranges whose keys have so many bytes, or for one.
const COMMAND_BYTES: usize = 64 << 10;
/// A primary that is silent for so long is given up: it says every second that it lives.
const SILENCE_MAX: Duration = Duration::from_secs(60);
const SECOND: Duration = Duration::from_secs(1);

/// Why a server is not rewound. What was begun is completed by the next call.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RewindError {
    /// The connection, or what the upstream is.
    #[error(transparent)]
    Upstream(RejoinError),
    /// The slot, or silence.
    #[error(transparent)]
    Follow(FollowError),
    /// A message.
    #[error(transparent)]
    Message(#[from] CopyMessageError),
    /// The primary has ended the copy before it was whole.
    #[error("the primary has ended the copy before it was whole")]
    CutShort,
    /// The primary refuses, and will refuse again as long as it is what it is.
    #[error("the primary cannot send the rows that have changed: {code}: {message}. {advice}")]
    Unable {
        /// SQLSTATE.
        code: String,
        /// Why.
        message: String,
        /// What to do.
        advice: &'static str,
    },
    /// This server's directory.
    #[error(transparent)]
    Database(#[from] Error),
}

impl From<ClientError> for RewindError {
    fn from(error: ClientError) -> RewindError {
        if let ClientError::Refused { code, message, .. } = &error
            && let Some(advice) = advice_on(code)
        {
            return RewindError::Unable { code: code.clone(), message: message.clone(), advice };
        }
        RewindError::Upstream(error.into())
    }
}

impl From<RejoinError> for RewindError {
    fn from(error: RejoinError) -> RewindError {
        match error {
            RejoinError::Client(error) => error.into(),
            error => RewindError::Upstream(error),
        }
    }
}

impl From<FollowError> for RewindError {
    fn from(error: FollowError) -> RewindError {
        match error {
            FollowError::Client(error) => error.into(),
            error => RewindError::Follow(error),
        }
    }
}

/// What to do about a refusal that another attempt meets again; `None` if another attempt may succeed.
fn advice_on(code: &str) -> Option<&'static str> {
    match code {
        // `syntax_error`, `feature_not_supported`.
        "42601" | "0A000" => Some(
            "It may be of an older version: upgrade it. Or empty the directory of this server, and its next start copies all rows",
        ),
        // `data_corrupted`, `index_corrupted`.
        "XX001" | "XX002" => Some(
            "Its database is damaged: `seawall check` says where. Follow another server that has the database, or restore the primary from \
             a backup",
        ),
        _ => None,
    }
}

/// What a failed rewind may expect of the next attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outlook {
    /// The network or the primary is away, or the primary is starting or ending: the next attempt may succeed.
    Passes,
    /// The primary answers and refuses. The next attempt succeeds after a change there: of a role, a slot, a limit.
    Refused,
    /// No attempt succeeds with these two servers as they are.
    Never,
}

impl RewindError {
    /// What the next attempt may expect.
    pub fn outlook(&self) -> Outlook {
        match self {
            RewindError::Upstream(RejoinError::Client(error)) => error.outlook(),
            RewindError::Follow(FollowError::Silent(_)) | RewindError::CutShort => Outlook::Passes,
            RewindError::Upstream(_)
            | RewindError::Follow(_)
            | RewindError::Message(_)
            | RewindError::Unable { .. }
            | RewindError::Database(_) => Outlook::Never,
        }
    }
}

impl ClientError {
    /// What the next attempt may expect.
    pub fn outlook(&self) -> Outlook {
        match self {
            ClientError::Io(_) | ClientError::NotPrimary => Outlook::Passes,
            // Classes `connection_exception` and `operator_intervention`.
            ClientError::Refused { code, .. } if code.starts_with("08") || code.starts_with("57") => {
                Outlook::Passes
            }
            ClientError::Refused { code, .. } if advice_on(code).is_none() => Outlook::Refused,
            ClientError::Refused { .. }
            | ClientError::Authentication(_)
            | ClientError::NoPassword
            | ClientError::Scram(_)
            | ClientError::Unexpected { .. } => Outlook::Never,
        }
    }
}

/// Makes the closed database in the environment's directory equal to the upstream, with the log that it will receive. `None` if there is
/// nothing to rewind. `progress` is told the bytes of rows so far.
///
/// # Errors
/// `RewindError`.
pub fn rewind(
    settings: &UpstreamSettings,
    dial: &dyn Dial,
    environment: &Environment,
    options: &Options,
    progress: &mut dyn FnMut(u64),
) -> Result<Option<Rewound>, RewindError> {
    let (database, _) = DatabaseDirectory::at(environment.clone()).identity()?;
    // One connection for all of it: what the history is of is what the rows are of.
    let (mut client, _) = connect(settings, dial, 0)?;
    let (system, timeline) = identify(&mut client)?;
    let expected = system_identifier_of(database);
    if system != expected {
        return Err(RejoinError::OtherDatabase { found: system, expected }.into());
    }
    let upstream = history_of(&mut client, timeline)?;
    let Some(rewind) = Rewind::begin(environment.clone(), options, &upstream)? else { return Ok(None) };
    // A lost one is made to keep the log again by the copy.
    ensure_slot(&mut client, &settings.slot)?;
    let since = rewind.since();
    let mut copy = Copy { rewind, state: State::Empty, rows: 0, end: None, progress };
    copy.run(&mut client, &format!("SEAWALL_COPY SLOT \"{}\" SINCE {since}", settings.slot))?;
    let ranges = copy.rewind.ask()?;
    for ranges in in_commands(&ranges) {
        copy.run(&mut client, &format!("SEAWALL_COPY_ROWS '{}'", encode_ranges(ranges)))?;
    }
    copy.run(&mut client, "SEAWALL_COPY_END")?;
    let Some(end) = copy.end else { return Err(RewindError::CutShort) };
    Ok(Some(copy.rewind.finish(end)?))
}

/// The ranges in parts that are not too long for a command.
fn in_commands(ranges: &[Range<Vec<u8>>]) -> Vec<&[Range<Vec<u8>>]> {
    let mut bytes = 0;
    let mut parts = Vec::new();
    let mut first = 0;
    for (index, range) in ranges.iter().enumerate() {
        let more = range.start.len() + range.end.len() + 8;
        if index > first && bytes + more > COMMAND_BYTES {
            parts.push(&ranges[first..index]);
            (first, bytes) = (index, 0);
        }
        bytes += more;
    }
    if first < ranges.len() {
        parts.push(&ranges[first..]);
    }
    parts
}

struct Copy<'p> {
    rewind: Rewind,
    state: State,
    rows: u64,
    end: Option<seawall_engine::BackupEnd>,
    progress: &'p mut dyn FnMut(u64),
}

enum State {
    Empty,
    /// The beginning of the log is to come.
    Head(Box<RowsFromPrimary>),
    Rows,
}

impl Copy<'_> {
    /// Runs a command, and takes what it answers.
    fn run(&mut self, client: &mut Client, command: &str) -> Result<(), RewindError> {
        client.begin_stream(command)?;
        let mut silent = Duration::ZERO;
        loop {
            match client.streamed(SECOND)? {
                Streamed::Message(message) => {
                    silent = Duration::ZERO;
                    self.take(FromPrimary::parse(&message)?)?;
                    (self.progress)(self.rewind.bytes());
                }
                Streamed::Nothing if silent >= SILENCE_MAX => {
                    return Err(FollowError::Silent(SILENCE_MAX).into());
                }
                Streamed::Nothing => silent += SECOND,
                Streamed::Done => return Ok(client.end_stream()?),
            }
        }
    }

    fn take(&mut self, message: FromPrimary<'_>) -> Result<(), RewindError> {
        self.state = match (std::mem::replace(&mut self.state, State::Empty), message) {
            (state, FromPrimary::Alive) => state,
            (State::Empty, FromPrimary::Base(base, history, archive_mode)) => {
                let (base, head) = (*base, Vec::new());
                State::Head(Box::new(RowsFromPrimary { base, history, head, archive_mode }))
            }
            (State::Head(mut beginning), FromPrimary::Head(bytes)) => {
                beginning.head.extend_from_slice(bytes);
                State::Head(beginning)
            }
            (State::Head(beginning), rows @ FromPrimary::Rows(_)) => {
                self.rewind.take_beginning(*beginning)?;
                self.state = State::Rows;
                return self.take(rows);
            }
            (State::Rows, FromPrimary::Rows(rows)) => {
                for row in rows {
                    let (key, value) = row?;
                    self.rewind.push(key, value)?;
                    self.rows += 1;
                }
                State::Rows
            }
            (State::Rows, FromPrimary::Stamp(stamp)) => {
                self.rewind.note_stamp(stamp);
                State::Rows
            }
            (State::Rows, FromPrimary::Unchanged(ranges)) => {
                for range in ranges {
                    let (first, last, sum) = range?;
                    self.rewind.keep(first, last, sum)?;
                }
                State::Rows
            }
            (State::Rows, FromPrimary::End(end, rows)) => {
                if rows != self.rows {
                    return Err(RewindError::CutShort);
                }
                self.end = Some(end);
                State::Rows
            }
            (State::Empty | State::Head(_) | State::Rows, _) => {
                return Err(CopyMessageError::out_of_order().into());
            }
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_met_again_or_passes_by_its_code() {
        let of = |code: &str| {
            let refused = |severity: &str| ClientError::Refused {
                severity: severity.to_owned(),
                code: code.to_owned(),
                message: "why".to_owned(),
            };
            let error = RewindError::from(refused("ERROR"));
            assert_eq!(error.outlook(), refused("FATAL").outlook(), "{code}");
            (error.outlook(), error.to_string())
        };
        for code in ["57P03", "57P01", "08006"] {
            assert_eq!(of(code).0, Outlook::Passes, "{code}");
        }
        for code in ["55006", "28000", "28P01", "42501", "53300", "58030"] {
            assert_eq!(of(code).0, Outlook::Refused, "{code}");
        }
        for (code, advice) in [("42601", "upgrade"), ("0A000", "upgrade"), ("XX001", "seawall check")] {
            let (outlook, said) = of(code);
            assert_eq!(outlook, Outlook::Never, "{code}");
            assert!(said.contains(advice) && said.contains("why") && said.contains(code), "{said}");
        }
        let gone = ClientError::Io(std::io::Error::other("gone"));
        assert_eq!(RewindError::from(gone).outlook(), Outlook::Passes);
        assert_eq!(RewindError::CutShort.outlook(), Outlook::Passes);
        assert_eq!(RewindError::from(ClientError::NoPassword).outlook(), Outlook::Never);
    }

    #[test]
    fn long_lists_of_ranges_take_several_commands() {
        let range = |number: u32, bytes: usize| {
            let key = |number: u32| [&number.to_be_bytes()[..], &vec![7; bytes]].concat();
            key(number)..key(number + 1)
        };
        assert!(in_commands(&[]).is_empty());
        for bytes in [0, 100, 4000, COMMAND_BYTES] {
            let ranges: Vec<_> = (0..300).map(|number| range(number, bytes)).collect();
            let parts = in_commands(&ranges);
            assert_eq!(parts.concat(), ranges);
            let longest = parts.iter().map(|part| part.len() * (2 * bytes + 16)).max().unwrap();
            assert!(longest <= COMMAND_BYTES || parts.len() == ranges.len(), "{bytes}: {longest}");
        }
    }
}
