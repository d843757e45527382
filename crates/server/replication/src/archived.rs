//! Log from an archive, for a standby that its upstream does not give it: the upstream is away, or has removed it.
//!
//! ```text
//!   upstream fails --> archive: whole segments, then the tail --verified as a stream is--> received log --> upstream once more
//!                         |
//!                         up to where the upstream's timeline left this one, or else where the archive's histories say (`next_timeline`)
//! ```
//! What comes from an archive is received as what comes from an upstream: each record is verified before it is written, and what is
//! durable is applied. So the files are the same, and a stream goes on where the archive has ended.
//!
//! Of several sources, the first that has more gives it: one that is away, lacks a part or has a damaged one is passed over.
//!
//! **A source may hang.** It is asked by a thread of its own (`request`), which the standby leaves behind when it ends.

mod next_timeline;
mod request;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use seawall_engine::{Database, Error, Standby, TimelineHistory};
use seawall_types::{DatabaseId, Lsn, TimelineId};

use next_timeline::Next;
use request::{Asked, Put, Source};

use crate::sender::current_history;

/// A source that gives nothing for so long hangs: other sources, and the upstream, are tried meanwhile. Longer than a repository's own limit
/// by default.
const PATIENCE: Duration = Duration::from_secs(120);
/// Two segments, which may be fetched at a time, take as much longer as at this speed: the lowest that a repository waits for.
const BYTES_PER_SECOND_MIN: u64 = 1 << 20;

/// The log that a standby wants of an archive.
#[derive(Clone, Debug)]
pub struct WantedLog {
    /// Whose log it is.
    pub database: DatabaseId,
    /// The size of its segments.
    pub segment_bytes: u64,
    /// The timeline that the standby is on, and those before it.
    pub history: TimelineHistory,
    /// The first byte.
    pub from: Lsn,
    /// Where it ends at the latest.
    pub until: Lsn,
}

/// Log that is kept elsewhere than at the upstream.
pub trait LogSource: Send + Sync {
    /// Where, for messages.
    fn name(&self) -> String;

    /// The histories of all timelines after `timeline`, by their numbers, of which there is one.
    ///
    /// # Errors
    /// Why they are not known.
    fn histories_after(
        &self,
        database: DatabaseId,
        timeline: TimelineId,
    ) -> Result<Vec<TimelineHistory>, LogSourceError>;

    /// Gives the log that is there to `put`, in order: bytes of segment files, and the LSN of the first. Ends when `put` says so, or where
    /// what is there ends.
    ///
    /// # Errors
    /// Why there is no more, where there should be.
    fn fetch(
        &self,
        wanted: &WantedLog,
        put: &mut dyn FnMut(Lsn, &[u8]) -> ControlFlow<()>,
    ) -> Result<(), LogSourceError>;
}

/// Why an archive does not give log, in words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct LogSourceError(pub String);

/// Which timelines of an archive a standby follows while no upstream says which one comes next. PostgreSQL's setting of this name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TargetTimeline {
    /// The newest, if it comes from the standby's own.
    #[default]
    Latest,
    /// The standby's own.
    Current,
}

/// Where a standby gets log that its upstream does not give.
pub struct Archive {
    sources: Vec<Source>,
    target: TargetTimeline,
}

/// How far an archive is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// As far as it goes: the upstream is on the same timeline.
    End,
    /// The upstream's timeline left the standby's there.
    Fork(Lsn),
    /// Not at all: the upstream's timeline does not come from the standby's, which would only have more to cut off.
    Nothing,
    /// No upstream has said: the archive's histories say.
    Unknown,
}

/// What has come of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fetched {
    /// Log.
    Log { from: Lsn, to: Lsn },
    /// A new timeline is followed.
    Timeline(TimelineId),
    /// Nothing, and why.
    Nothing(String),
    /// The standby is to end, or was promoted.
    Over,
}

/// Where a standby is.
struct Here {
    history: TimelineHistory,
    /// The end of the last whole record, durably.
    whole: Lsn,
    /// The next byte: the beginning of a record may be here already.
    wanted: Lsn,
}

impl Here {
    fn of(database: &Database, standby: Standby<'_>) -> Result<Here, Error> {
        let whole = match standby.sync() {
            // An attempt to follow a new timeline has ended it, and failed later.
            Err(Error::Closed) => database.log().flushed(),
            synced => synced?,
        };
        Ok(Here { history: current_history(database)?, whole, wanted: standby.wanted()? })
    }
}

impl Archive {
    /// Of some sources, in the order in which they are asked.
    pub fn new(sources: Vec<Arc<dyn LogSource>>, target: TargetTimeline) -> Archive {
        Archive { sources: sources.into_iter().map(Source::new).collect(), target }
    }

    /// Receives what the archive has of the log that the standby wants next, and makes it durable. `note` hears up to where the log is
    /// here; `is_over` is asked again and again.
    ///
    /// # Errors
    /// What this server's engine says of itself. What it says of the log that came is the archive's problem.
    pub(crate) fn fetch(
        &self,
        database: &Database,
        until: Until,
        note: &mut dyn FnMut(Lsn),
        is_over: &dyn Fn() -> bool,
    ) -> Result<Fetched, Error> {
        let Some(standby) = database.standby() else { return Ok(Fetched::Over) };
        let (id, here) = (database.info()?.database, Here::of(database, standby)?);
        let mut sources: Vec<&Source> = self.sources.iter().collect();
        let mut problems = Vec::new();
        let next = match until {
            Until::End => Next::own(),
            Until::Fork(fork) => Next { until: fork, ..Next::own() },
            Until::Nothing => return Ok(Fetched::Nothing(String::new())),
            Until::Unknown => match self.next(id, &here, &mut sources, &mut problems, is_over) {
                Some(next) => next,
                None => return Ok(Fetched::Over),
            },
        };
        if let Some(history) = next.history.filter(|_| here.whole == next.until) {
            standby.follow_timeline(&history)?;
            return Ok(Fetched::Timeline(history.timeline));
        }
        if here.wanted >= next.until {
            problems.extend(next.why);
            return Ok(Fetched::Nothing(problems.join("; ")));
        }
        let segment_bytes = database.log().segment_bytes();
        let Here { history, wanted: from, .. } = here;
        let mut wanted = WantedLog { database: id, segment_bytes, history, from, until: next.until };
        for source in sources {
            match receive(source, standby, &wanted, note, is_over)? {
                Received::Log { from, to } => return Ok(Fetched::Log { from, to }),
                Received::Nothing => {}
                Received::Problem(problem) => problems.push(format!("{}: {problem}", source.name())),
                Received::Over => return Ok(Fetched::Over),
            }
            // Bytes of a record that did not verify have to come again from its beginning on.
            wanted.from = standby.wanted()?;
        }
        Ok(Fetched::Nothing(problems.join("; ")))
    }

    /// What the histories of all sources say; `None` if the standby is to end. A source that does not give its histories might give log that
    /// was left behind by one of them: it is not asked for any.
    fn next<'s>(
        &'s self,
        database: DatabaseId,
        here: &Here,
        sources: &mut Vec<&'s Source>,
        problems: &mut Vec<String>,
        is_over: &dyn Fn() -> bool,
    ) -> Option<Next> {
        let mut newer: Vec<TimelineHistory> = Vec::new();
        let own = here.history.timeline;
        sources.clear();
        for source in &self.sources {
            let request = move |log: &dyn LogSource, _: &mut Put<'_>| log.histories_after(database, own);
            match source.ask(request, &mut |_, _| ControlFlow::Continue(()), PATIENCE, is_over) {
                Asked::Answer(found) => {
                    newer.extend(found);
                    sources.push(source);
                }
                Asked::Problem(problem) => problems.push(format!("{}: {problem}", source.name())),
                Asked::Over => return None,
            }
        }
        Some(next_timeline::next(&here.history, here.whole, &newer, self.target))
    }
}

/// What has come of one source.
enum Received {
    Log { from: Lsn, to: Lsn },
    Nothing,
    Problem(String),
    Over,
}

/// Receives what a source has. What comes of it is of use, whatever ends it: what follows is asked for once more.
fn receive(
    source: &Source,
    standby: Standby<'_>,
    wanted: &WantedLog,
    note: &mut dyn FnMut(Lsn),
    is_over: &dyn Fn() -> bool,
) -> Result<Received, Error> {
    let mut refused = None;
    let mut take =
        |start: Lsn, bytes: &[u8]| match standby.receive(start, bytes).and_then(|()| standby.sync()) {
            Ok(durable) => {
                note(durable);
                ControlFlow::Continue(())
            }
            Err(error) => {
                refused.get_or_insert(error);
                ControlFlow::Break(())
            }
        };
    let request = {
        let wanted = wanted.clone();
        move |log: &dyn LogSource, put: &mut Put<'_>| log.fetch(&wanted, put)
    };
    let patience = PATIENCE + Duration::from_secs(2 * wanted.segment_bytes / BYTES_PER_SECOND_MIN);
    let asked = source.ask(request, &mut take, patience, is_over);
    if is_over() {
        return Ok(Received::Over);
    }
    let (from, to) = (wanted.from, standby.wanted()?);
    Ok(match (refused, asked) {
        // The log that came is not the one that goes on here.
        (Some(Error::Log { message }), _) if to <= from => Received::Problem(message),
        (Some(Error::Log { .. }) | None, _) if to > from => Received::Log { from, to },
        (Some(error), _) => return Err(error),
        (None, Asked::Answer(())) => Received::Nothing,
        (None, Asked::Problem(problem)) => Received::Problem(problem),
        (None, Asked::Over) => Received::Over,
    })
}
