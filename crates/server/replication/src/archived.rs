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
    /// No upstream has said: the history of the primary that was copied says so where a copy is not whole, and otherwise the archive's
    /// histories.
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
            Until::Unknown => {
                let copied = standby.copied_history()?.zip(standby.copied_until());
                match copied.and_then(|(copied, end)| next_timeline::of_copy(&here.history, &copied, end)) {
                    Some(next) => next,
                    None => match self.next(id, &here, &mut sources, &mut problems, is_over) {
                        Some(next) => next,
                        None => return Ok(Fetched::Over),
                    },
                }
            }
        };
        if let Some(history) = next.history.filter(|_| here.whole == next.until) {
            standby.follow_timeline(&history)?;
            return Ok(Fetched::Timeline(history.timeline));
        }
        if !standby.forget_record_across(next.until)? && here.wanted >= next.until {
            problems.extend(next.why);
            return Ok(Fetched::Nothing(problems.join("; ")));
        }
        let segment_bytes = database.log().segment_bytes();
        let (history, from) = (here.history, standby.wanted()?);
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

#[cfg(test)]
mod tests {
    use seawall_crash_harness::{environment, open, small_options, template};
    use seawall_engine::{
        ArchiveMode, Backup, BackupItem, DatabaseDirectory, Environment, HoldKind, HoldLifetime, HoldOptions,
        Restore, RestoreMarker, RestoreOptions, SegmentName,
    };
    use seawall_simulation::{PowerLoss, SimulatedDisk};
    use seawall_types::TimelineMark;

    use super::*;

    /// A repository with the log of a database, and with histories.
    struct Stored {
        database: Database,
        histories: Vec<TimelineHistory>,
    }

    impl LogSource for Stored {
        fn name(&self) -> String {
            "stored".to_owned()
        }

        fn histories_after(
            &self,
            _database: DatabaseId,
            timeline: TimelineId,
        ) -> Result<Vec<TimelineHistory>, LogSourceError> {
            Ok(self.histories.iter().filter(|history| history.timeline > timeline).cloned().collect())
        }

        fn fetch(
            &self,
            wanted: &WantedLog,
            put: &mut dyn FnMut(Lsn, &[u8]) -> ControlFlow<()>,
        ) -> Result<(), LogSourceError> {
            let mut stream = self.database.log().stream(wanted.from).unwrap();
            let mut buffer = vec![0; 50_000];
            loop {
                let piece = stream.read(&mut buffer).unwrap();
                let left = wanted.until.get().saturating_sub(piece.start.get());
                let bytes = piece.bytes.min(usize::try_from(left).unwrap());
                let is_over = bytes == 0 || piece.timeline != wanted.history.timeline;
                if is_over || put(piece.start, &buffer[..bytes]).is_break() {
                    return Ok(());
                }
            }
        }
    }

    fn place(disk: &SimulatedDisk) -> Environment {
        environment(Arc::new(disk.clone()))
    }

    fn write(database: &Database, rows: std::ops::Range<u32>) {
        let table = database.open_or_create_table("t").unwrap();
        for row in rows {
            database.put(&table, row.to_be_bytes(), [7; 900]).unwrap();
        }
    }

    /// A copy with a redo point on the first timeline, which needs log of the second one; and the server that has that log.
    fn copy_between_timelines() -> (Database, Database) {
        let disk = template(&small_options());
        let former = open(&disk, &small_options());
        let slot = HoldOptions {
            kind: HoldKind::Standby,
            lifetime: HoldLifetime::Permanent,
            ..HoldOptions::default()
        };
        drop(former.log().hold("standby", slot, None).unwrap());
        let primary = disk.after_power_loss(PowerLoss::LoseAll);
        let primary = DatabaseDirectory::at(place(&primary)).follow(small_options()).unwrap();
        write(&former, 0..100);
        let mut backup = Backup::begin_copy(&former, "copy").unwrap();
        let base = backup.base().clone();
        let mut head = vec![0; usize::try_from(base.redo_point.get() % base.segment_bytes).unwrap()];
        let number = base.redo_point.get() / base.segment_bytes;
        let first = SegmentName { number, timeline: TimelineId::FIRST };
        former.log().read_segment(first, 0, &mut head).unwrap();
        let mut rows: Vec<(Vec<u8>, Vec<u8>)> = backup.system_rows().to_vec();
        let mut next = Some(backup.first_key());
        while let Some(from) = next {
            let mut take = |item: BackupItem<'_>| {
                if let BackupItem::Row { key, value } = item {
                    rows.push((key.to_vec(), value.to_vec()));
                }
            };
            next = backup.read_range(&from, 16 << 10, &mut take).unwrap().next;
        }
        write(&former, 100..250);
        let mut end = backup.finish().unwrap();
        let standby = primary.standby().unwrap();
        let stored = Stored { database: former, histories: Vec::new() };
        let wanted = WantedLog {
            database: base.database,
            segment_bytes: base.segment_bytes,
            history: TimelineHistory::first(),
            from: standby.wanted().unwrap(),
            until: Lsn::MAX,
        };
        stored
            .fetch(&wanted, &mut |start, bytes| {
                standby.receive(start, bytes).unwrap();
                ControlFlow::Continue(())
            })
            .unwrap();
        standby.sync().unwrap();
        standby.apply().unwrap();
        standby.promote("test").unwrap();
        write(&primary, 200..300);

        // As if the rows had been copied from there, with the redo point before its timeline.
        end.end = primary.log().flushed();
        let disk = SimulatedDisk::new(5);
        let options = RestoreOptions {
            database: small_options(),
            graft_bytes: 1 << 20,
            archive_mode: ArchiveMode::Preserve,
        };
        let marker = RestoreMarker::of_standby(base.database, "copy".to_owned(), TimelineId::FIRST);
        let (first, next_table) = (TimelineHistory::first(), end.next_table);
        let mut restore = Restore::begin(place(&disk), options, base, &first, next_table, &marker).unwrap();
        restore.begin_log(&first, &head).unwrap();
        restore.note_stamp(end.end).unwrap();
        rows.iter().for_each(|(key, value)| restore.push(key, value).unwrap());
        restore.finish_copy(end, &current_history(&primary).unwrap()).unwrap();
        let copy = DatabaseDirectory::at(place(&disk)).follow(small_options()).unwrap();
        (copy, primary)
    }

    /// Its upstream is away, or on an earlier timeline. In the repository, a newer timeline has left the copy's later than the one that it
    /// needs.
    #[test]
    fn a_copy_that_is_not_whole_gets_the_timeline_of_its_primary() {
        for target in [TargetTimeline::Latest, TargetTimeline::Current] {
            let (copy, primary) = copy_between_timelines();
            let own = current_history(&copy).unwrap();
            assert_eq!(own, TimelineHistory::first());
            let history = current_history(&primary).unwrap();
            let fork = Lsn::new(history.forks[0].fork.get() + 4000);
            let mark = TimelineMark::from_bytes([9; 16]);
            let trial = own.fork(TimelineId::new(7).unwrap(), fork, mark, "a trial");
            let histories = vec![history.clone(), trial];
            let archive =
                Archive::new(vec![Arc::new(Stored { database: primary.clone(), histories })], target);
            let mut fetched = Vec::new();
            while copy.standby().unwrap().copied_until().is_some() {
                let next = archive.fetch(&copy, Until::Unknown, &mut |_| {}, &|| false).unwrap();
                assert!(!matches!(next, Fetched::Nothing(_)), "{target:?}: {next:?} after {fetched:?}");
                fetched.push(next);
                copy.standby().unwrap().apply().unwrap();
            }
            assert!(fetched.contains(&Fetched::Timeline(history.timeline)), "{fetched:?}");
            let rows = |database: &Database| {
                let snapshot = database.snapshot();
                let table = snapshot.table("t").unwrap();
                snapshot.range::<&[u8]>(&table, ..).count()
            };
            assert_eq!((rows(&copy), rows(&primary)), (300, 300), "{target:?}");
        }
    }
}
