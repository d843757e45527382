//! Restoring: which backup, which log, and in which order.
//!
//! ```text
//!   choose a backup --> log of the timeline from its redo point on --> where to stop --> rows --> replay, new timeline
//! ```
//! The log comes before the rows: it is short, and tells whether the target can be reached at all. It is fetched as far as it is
//! wanted: what lies behind the target may be damaged or missing.
//!
//! A restore that was cut short is resumed by one that asks for the same (`engine::recovery::restore` has what is on disk): with the backup
//! that it chose, if that is still there; log that is there as the repository has it is not fetched again, nor are runs whose rows are all there.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use seawall_archive::{Repository, System};
use seawall_codec::checksum::Crc64;
use seawall_engine::{
    ArchiveMode, Environment, Error, LogChecksum, NewTimeline, Options, Restore, RestoreEnd, RestoreMarker,
    RestoreOptions, RestoreTarget, RowsThere, check_restore_directory,
};
use seawall_types::{DatabaseId, Lsn, TimelineId, utc};
use seawall_wal::{LogGeometry, TimelineHistory};

use crate::catalog::{StoredBackup, backups, databases};
use crate::chain::ChainReader;
use crate::chain_member::{ChainMember, chain_of};
use crate::error::BackupError;
use crate::object_names;
use crate::reservation::{Reservations, Reserved};
use crate::run::RunReader;
use crate::stored_log::{FetchedLog, OnItsWay, PassedLog, StoredLog};
use crate::timelines::{Destination, Followed, OwnBackup, PassedOver, Timelines};

/// What to restore.
#[derive(Clone, Debug)]
pub struct RestoreRequest {
    /// How far.
    pub target: RestoreTarget,
    /// Along the history of this timeline. Default: the one that production is on, as far as the repository tells (`timelines`).
    pub timeline: Option<TimelineId>,
    /// Begin a timeline with this number: see [`seawall_engine::NewTimeline`]. Default: one above all that the repository has, or has reserved.
    pub new_timeline: Option<TimelineId>,
    /// Whether that number is reserved in the repository, so that no other restore takes it. Default: yes. A [`drill`](crate::drill()) does not.
    pub reserves_timeline: bool,
    /// Whether the restored database may archive and be backed up. Default: not before an operator allows it.
    pub archive_mode: ArchiveMode,
    /// Of this database, if the repository has several.
    pub database: Option<DatabaseId>,
    /// From this backup. Default: the newest one that will do.
    pub backup: Option<String>,
    /// Objects that are fetched at a time. Default 4.
    pub threads: usize,
    /// Rows of so many bytes become durable at a time: a restore that is cut short goes on behind them. Default 256 MiB.
    pub durable_bytes: usize,
    /// To the latest, where log is missing and all that lies behind it is younger than this: it may be on its way, and what lies before
    /// it is the end. Default: none, it is a gap.
    pub settle: Option<Duration>,
}

impl Default for RestoreRequest {
    fn default() -> RestoreRequest {
        RestoreRequest {
            target: RestoreTarget::Latest,
            timeline: None,
            new_timeline: None,
            reserves_timeline: true,
            archive_mode: ArchiveMode::Off,
            database: None,
            backup: None,
            threads: 4,
            durable_bytes: 256 << 20,
            settle: None,
        }
    }
}

/// How far a restore is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestoreProgress {
    /// The log is being fetched.
    Log {
        /// Segments so far.
        segments: u64,
    },
    /// Rows are being fetched and written.
    Rows {
        /// Bytes so far, before compression.
        bytes: u64,
        /// All of them.
        total: u64,
        /// Time since the restore began.
        elapsed: Duration,
    },
    /// The log is being replayed.
    Replay {
        /// Bytes so far.
        bytes: u64,
        /// All of them.
        total: u64,
    },
}

/// What was restored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoreReport {
    /// The backup.
    pub backup: String,
    /// Where the database stands: after the last commit that ends here.
    pub end: RestoreEnd,
    /// The timeline that was followed.
    pub from_timeline: TimelineId,
    /// The timeline that the database is on now.
    pub timeline: TimelineId,
    /// Why the number of that timeline is not reserved in the repository, where it was to be.
    pub not_reserved: Option<String>,
    /// Rows of the backup that were written, with those that an increment has from its parents; not those that an attempt before
    /// this one has written.
    pub rows: u64,
    /// Log that the repository lacks and has later log behind, of a restore that takes it for being on its way.
    pub on_its_way: Option<OnItsWay>,
    /// It went on with an attempt that was cut short.
    pub went_on: bool,
    /// Timelines with data that the restore has left out, and that its target may have meant.
    pub passed_over: Vec<PassedOver>,
    /// How long it took.
    pub elapsed: Duration,
}

impl RestoreRequest {
    /// What a restore of this must have in common with one that goes on with it, in words.
    fn words(&self, database: DatabaseId) -> String {
        let target = match &self.target {
            RestoreTarget::Latest => "the end of the log".to_owned(),
            RestoreTarget::Lsn(lsn) => lsn.to_string(),
            RestoreTarget::Time(micros) => utc(*micros),
            RestoreTarget::RestorePoint(name) => format!("the restore point {name:?}"),
        };
        let backup = self.backup.as_deref().unwrap_or("any backup");
        let timeline = self
            .timeline
            .map_or_else(|| "the timeline of production".to_owned(), |number| format!("timeline {number}"));
        format!("the database {database}, up to {target}, along {timeline}, from {backup}")
    }
}

/// Makes the database that `request` asks for in the environment's directory, which must be empty, or have what a restore of the same
/// that was cut short has left: this goes on with it. It is an ordinary database when this returns, and cannot be opened before.
///
/// # Errors
/// `NoBackup`, `Gap`, `LeftOut`, `LogTooShort`, `WhichDatabase`, `WhichTimeline`, `Damaged`; what the repository or the database says.
pub fn restore(
    repository: &Repository,
    environment: &Environment,
    options: &Options,
    request: &RestoreRequest,
    progress: &mut dyn FnMut(RestoreProgress),
) -> Result<RestoreReport, BackupError> {
    let left = check_restore_directory(&*environment.disk)?;
    let started = environment.clock.monotonic();
    let database = which_database(repository, request.database)?;
    let system = System::Seawall(database);
    let stored = Stored::load(repository, database)?;
    // A time that the log does not reach is refused, with the other timelines.
    let Followed { history, passed_over, archived_later: _ } = stored.follow(repository, system, request)?;
    let timeline = history.timeline;
    let candidates = stored.candidates(request, &history, left.as_ref())?;
    let asked_for = request.words(database);
    let mut refused = None;
    let last = candidates.len().saturating_sub(1);
    for (index, backup) in candidates.into_iter().enumerate() {
        let top = ChainMember::of(&backup.id, &backup.manifest);
        let chain = chain_of(repository, &stored.backups, top)?;
        let marker = RestoreMarker {
            asked_for: asked_for.clone(),
            backup: backup.id.clone(),
            timeline,
            new_timeline: None,
        };
        let plan = Plan {
            repository,
            environment,
            options,
            request,
            stored: &stored,
            backup,
            chain,
            history: history.clone(),
            marker,
            is_last: index == last,
        };
        let Begun { mut restore, end, on_its_way } = match plan.begin(progress) {
            // A restore point may lie behind an older backup.
            Err(error) if error.is_behind_log() => {
                refused.get_or_insert(error);
                continue;
            }
            begun => begun?,
        };
        let went_on = *restore.rows_there() != RowsThere::None;
        let Reserved { number, problem } = plan.reserve_timeline(&mut restore)?;
        let (timeline, rows) = plan.finish(restore, &end, number, started, progress)?;
        return Ok(RestoreReport {
            backup: backup.id.clone(),
            end,
            from_timeline: history.timeline,
            timeline,
            not_reserved: problem,
            rows,
            on_its_way,
            went_on,
            passed_over,
            elapsed: environment.clock.monotonic().saturating_sub(started),
        });
    }
    Err(match refused {
        Some(BackupError::Database(Error::RestoreTarget { problem })) => {
            let hint = stored.timelines.hint_of_others(timeline);
            Error::RestoreTarget { problem: format!("{problem}{hint}") }.into()
        }
        Some(refused) => refused,
        None => BackupError::NoBackup { problem: "there is none".to_owned() },
    })
}

pub(crate) fn which_database(
    repository: &Repository,
    given: Option<DatabaseId>,
) -> Result<DatabaseId, BackupError> {
    let found = databases(repository)?;
    let refuse = |problem: String| Err(BackupError::WhichDatabase { problem });
    let list = || found.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    match (given, &found[..]) {
        (Some(database), _) if found.contains(&database) => Ok(database),
        (Some(database), _) => {
            refuse(format!("{} has nothing of the database {database}; it has: {}", repository.url(), list()))
        }
        (None, [database]) => Ok(*database),
        (None, []) => refuse(format!("{} has no database of Seawall", repository.url())),
        (None, _) => refuse(format!("{} has several databases, name one of: {}", repository.url(), list())),
    }
}

/// What the repository has of the database.
pub(crate) struct Stored {
    pub(crate) timelines: Timelines,
    pub(crate) backups: Vec<StoredBackup>,
    /// There are some whose manifest cannot be read.
    has_damaged: bool,
}

impl Stored {
    pub(crate) fn load(repository: &Repository, database: DatabaseId) -> Result<Stored, BackupError> {
        let found = backups(repository, database)?;
        let of_backups = found.complete.iter().map(|backup| backup.manifest.base.timeline);
        Ok(Stored {
            timelines: Timelines::load(repository, System::Seawall(database), of_backups)?,
            backups: found.complete,
            has_damaged: !found.damaged.is_empty(),
        })
    }

    /// The timeline to follow: the one that was asked for, or that of production.
    pub(crate) fn follow(
        &self,
        repository: &Repository,
        system: System,
        request: &RestoreRequest,
    ) -> Result<Followed, BackupError> {
        let Some(first) = self.backups.first() else {
            return Err(BackupError::NoBackup {
                problem: "the repository has none that is complete".to_owned(),
            });
        };
        let own: Vec<OwnBackup> = self.backups.iter().map(own_backup).collect();
        let segment_bytes = first.manifest.base.segment_bytes;
        let destination = match &request.target {
            RestoreTarget::Latest | RestoreTarget::RestorePoint(_) => Destination::End,
            RestoreTarget::Lsn(lsn) => Destination::Lsn(*lsn),
            RestoreTarget::Time(micros) => Destination::Time(*micros),
        };
        self.timelines.follow(repository, system, segment_bytes, &own, destination, request.timeline)
    }

    /// The backups that may do along `history`, the best one first: the one that an attempt before this has chosen.
    fn candidates(
        &self,
        request: &RestoreRequest,
        history: &TimelineHistory,
        left: Option<&RestoreMarker>,
    ) -> Result<Vec<&StoredBackup>, BackupError> {
        let refuse = |problem: String| Err(BackupError::NoBackup { problem });
        let timeline = history.timeline;
        let is_named = |backup: &&StoredBackup| request.backup.as_ref().is_none_or(|id| backup.id == *id);
        if let Some(id) =
            request.backup.as_ref().filter(|_| !self.backups.iter().any(|backup| is_named(&backup)))
        {
            return refuse(format!("the repository has none that is called {id} and can be read"));
        }
        let on_it: Vec<_> =
            self.backups.iter().filter(is_named).filter(|backup| backup.is_on(history)).collect();
        if on_it.is_empty() {
            let others: BTreeSet<u32> =
                self.backups.iter().map(|backup| backup.manifest.base.timeline.get()).collect();
            return refuse(format!(
                "none was taken on timeline {timeline}, or on an ancestor before it was left; there are some on these timelines: \
                 {others:?}"
            ));
        }
        let is_before = |backup: &&&StoredBackup| match &request.target {
            RestoreTarget::Lsn(lsn) => backup.manifest.end.end <= *lsn,
            RestoreTarget::Time(micros) => backup.manifest.end.time_micros <= *micros,
            RestoreTarget::Latest | RestoreTarget::RestorePoint(_) => true,
        };
        let mut fitting: Vec<&StoredBackup> = on_it.iter().filter(is_before).copied().collect();
        if fitting.is_empty() {
            let end = on_it[0].manifest.end;
            return refuse(format!(
                "the oldest one, {}, ends at {} ({}), later than that",
                on_it[0].id,
                end.end,
                utc(end.time_micros)
            ));
        }
        fitting.reverse();
        let is_begun = |backup: &&StoredBackup| left.is_some_and(|left| left.backup == backup.id);
        let begun = fitting.iter().copied().find(is_begun);
        if !matches!(request.target, RestoreTarget::RestorePoint(_)) {
            fitting.truncate(1);
        }
        if let Some(begun) = begun {
            fitting.retain(|backup| !is_begun(backup));
            fitting.insert(0, begun);
        }
        Ok(fitting)
    }
}

fn own_backup(backup: &StoredBackup) -> OwnBackup {
    let manifest = &backup.manifest;
    OwnBackup {
        id: backup.id.clone(),
        timeline: manifest.base.timeline,
        end: manifest.end.end,
        ended_micros: manifest.end.time_micros,
    }
}

/// What was read came from the repository.
fn of_log(error: Error) -> BackupError {
    match error {
        Error::Log { message } => BackupError::damaged("the log in the repository", message),
        other => other.into(),
    }
}

/// Where a restore stops.
struct Found {
    end: RestoreEnd,
    on_its_way: Option<OnItsWay>,
}

/// A restore that knows where to stop.
struct Begun {
    restore: Restore,
    end: RestoreEnd,
    /// See `RestoreReport`.
    on_its_way: Option<OnItsWay>,
}

/// A restore of one backup.
struct Plan<'a> {
    repository: &'a Repository,
    environment: &'a Environment,
    options: &'a Options,
    request: &'a RestoreRequest,
    stored: &'a Stored,
    backup: &'a StoredBackup,
    /// It, and before it what it builds on.
    chain: Vec<ChainMember>,
    /// Of the timeline that is followed.
    history: TimelineHistory,
    marker: RestoreMarker,
    /// No other backup is tried after it: what it has fetched is of no use if it is refused.
    is_last: bool,
}

impl Plan<'_> {
    /// Begins, fetches the log, and finds where to stop. A restore that is refused here, and for good, leaves no part of itself, unless
    /// rows of an attempt before are there: somebody else may ask for those.
    fn begin(&self, progress: &mut dyn FnMut(RestoreProgress)) -> Result<Begun, BackupError> {
        let base = &self.backup.manifest.base;
        let options = RestoreOptions {
            database: self.options.clone(),
            graft_bytes: self.request.durable_bytes.max(1),
            archive_mode: self.request.archive_mode,
        };
        let mut restore = Restore::begin(
            self.environment.clone(),
            options,
            base.clone(),
            &self.history,
            self.backup.manifest.end.next_table,
            &self.marker,
        )?;
        match self.find_end(&mut restore, progress) {
            Ok(Found { end, on_its_way }) => Ok(Begun { restore, end, on_its_way }),
            Err(error) => {
                // A refused restore leaves an empty directory, so that the corrected command can run there. With rows in place it
                // stays as it is, to be resumed. An earlier backup may still be tried where the log of this one is incomplete.
                let is_final = self.is_last || !error.is_behind_log();
                if is_final && error.is_refusal() && *restore.rows_there() == RowsThere::None {
                    restore.abandon()?;
                }
                Err(error)
            }
        }
    }

    /// Fetches the log, and finds where to stop.
    fn find_end(
        &self,
        restore: &mut Restore,
        progress: &mut dyn FnMut(RestoreProgress),
    ) -> Result<Found, BackupError> {
        let manifest = &self.backup.manifest;
        let base = &manifest.base;
        let geometry = LogGeometry::new(base.segment_bytes)
            .map_err(|error| BackupError::damaged(&self.backup.id, error.to_string()))?;
        let history = self.history.clone();
        // All that can be read: they are needed along the way, and by others that follow the new timeline.
        for history in self.stored.timelines.histories().filter(|history| !history.forks.is_empty()) {
            let path = TimelineHistory::path(history.timeline);
            let name = path.rsplit('/').next().unwrap_or(&path);
            restore.put_log_file(name, history.encode().as_bytes())?;
        }
        let log =
            StoredLog::new(self.repository, Some(&*self.environment.disk), base.database, geometry, history);
        let to = match self.request.target {
            RestoreTarget::Lsn(lsn) => lsn,
            RestoreTarget::Latest | RestoreTarget::Time(_) | RestoreTarget::RestorePoint(_) => Lsn::MAX,
        };
        let mut search = restore.find_end(self.request.target.clone(), manifest.end.end);
        let mut checksum = LogChecksum::new(base.segment_bytes, base.redo_point, manifest.end.end);
        let mut segments = 0;
        let fetched = log.fetch(base.redo_point, to, self.request.threads, &mut |fetched, arrived| {
            let file_name = fetched.name.file_name();
            // Copies of one database may archive into one repository. Rows of one copy with the log of another would restore to a
            // state that never existed.
            checksum.add(fetched.name.number, &fetched.content, arrived);
            let expected = manifest.log_checksum.or(checksum.complete());
            if checksum.complete().is_some_and(|found| Some(found) != expected) {
                return Err(self.backup.other_log());
            }
            if fetched.is_here {
                restore.keep_log_file(&file_name);
            } else {
                restore.put_log_file(&file_name, &fetched.content)?;
            }
            segments += 1;
            progress(RestoreProgress::Log { segments });
            search.read_until(arrived).map_err(of_log)
        });
        let FetchedLog { gap, passed } = fetched?;
        // Uploads run side by side, so the newest segments may arrive out of order. With another target, the hole is a gap: whether the
        // target lies before it is decided below.
        let is_latest = matches!(self.request.target, RestoreTarget::Latest);
        let on_its_way = match passed {
            Some(passed) if is_latest && self.may_be_on_its_way(&log, &passed)? => Some(passed.missing),
            Some(_) | None => None,
        };
        let end = match (search.end(), gap) {
            (Err(Error::RestoreTarget { .. }), Some(gap)) => return Err(gap),
            (Ok(_), Some(gap)) if is_latest && on_its_way.is_none() => return Err(gap),
            (end, _) => end.map_err(of_log)?,
        };
        if is_latest && end.end < manifest.end.end {
            return Err(BackupError::LogTooShort { log_end: end.end, needed: manifest.end.end });
        }
        restore.stop_at(&end, manifest.end.end)?;
        Ok(Found { end, on_its_way })
    }

    /// Whether log that is missing may come still: what lies behind it is young, and no backup needs that, as far as is known.
    fn may_be_on_its_way(&self, log: &StoredLog<'_>, passed: &PassedLog) -> Result<bool, BackupError> {
        let Some(settle) = self.request.settle else { return Ok(false) };
        let is_behind = |backup: &&StoredBackup| backup.manifest.end.end > passed.missing.from;
        let is_on_it = |backup: &StoredBackup| backup.is_on(&self.history);
        if self.stored.has_damaged || self.stored.backups.iter().filter(is_behind).any(is_on_it) {
            return Ok(false);
        }
        let settle = i64::try_from(settle.as_micros()).unwrap_or(i64::MAX);
        log.is_all_since(passed, self.environment.clock.wall_micros().saturating_sub(settle))
    }

    /// Writes the rows that are not there, replays the log, and makes a database of it.
    fn finish(
        &self,
        mut restore: Restore,
        end: &RestoreEnd,
        number: TimelineId,
        started: Duration,
        progress: &mut dyn FnMut(RestoreProgress),
    ) -> Result<(TimelineId, u64), BackupError> {
        let (clock, total) = (
            &self.environment.clock,
            self.chain.iter().flat_map(|backup| &backup.runs).map(|run| run.bytes).sum(),
        );
        let bytes = AtomicU64::new(0);
        let fetch = |backup: &ChainMember, number| {
            let run = fetch_run(self.repository, backup, number)?;
            bytes.fetch_add(run.bytes(), Ordering::Relaxed);
            Ok(run)
        };
        let (mut rows, mut shown) = (0, 0);
        let after = match restore.rows_there().clone() {
            RowsThere::None => None,
            RowsThere::UpTo(last) => Some(last),
            RowsThere::All => return self.replay(restore, end, number, rows, progress),
        };
        let (chain, threads) = (&self.chain, self.request.threads);
        let reader = ChainReader { chain, fetch: &fetch, threads, after: after.as_deref() };
        let skipped = |skipped| {
            bytes.fetch_add(skipped, Ordering::Relaxed);
        };
        reader.read(&skipped, &mut |key, value| {
            restore.push(key, value)?;
            rows += 1;
            let bytes = bytes.load(Ordering::Relaxed);
            if bytes != shown {
                shown = bytes;
                let elapsed = clock.monotonic().saturating_sub(started);
                progress(RestoreProgress::Rows { bytes, total, elapsed });
            }
            Ok(())
        })?;
        restore.finish_rows()?;
        self.replay(restore, end, number, rows, progress)
    }

    /// Replays the log, and makes a database of it; its timeline, and the rows that were written.
    fn replay(
        &self,
        restore: Restore,
        end: &RestoreEnd,
        number: TimelineId,
        rows: u64,
        progress: &mut dyn FnMut(RestoreProgress),
    ) -> Result<(TimelineId, u64), BackupError> {
        let reason = format!("restored from the backup {} to {}", self.backup.id, end.end);
        let new = NewTimeline { reason: &reason, number: Some(number) };
        let timeline = restore.finish(end.end, new, &mut |step| {
            let start = step.redo_point;
            let (bytes, total) = (step.replayed.bytes_since(start), end.end.bytes_since(start));
            progress(RestoreProgress::Replay { bytes, total });
        })?;
        Ok((timeline, rows))
    }

    /// The number of the timeline that will begin.
    fn reserve_timeline(&self, restore: &mut Restore) -> Result<Reserved, BackupError> {
        let reservations = Reservations {
            repository: self.repository,
            system: System::Seawall(self.backup.manifest.base.database),
            random: &self.environment.random,
            now_micros: self.environment.clock.wall_micros(),
            last: self.stored.timelines.last(),
            wanted: self.request.new_timeline,
        };
        match self.request.reserves_timeline {
            true => reservations.reserve(restore),
            false => Ok(Reserved { number: reservations.free()?, problem: None }),
        }
    }
}

/// A run of a backup, which is what its manifest says.
pub(crate) fn fetch_run(
    repository: &Repository,
    backup: &ChainMember,
    number: u32,
) -> Result<RunReader, BackupError> {
    let object = object_names::run(&backup.id, number);
    let index = usize::try_from(number).expect("32 bits");
    let expected = backup.runs[index];
    let mut content = Vec::new();
    let system = System::Seawall(backup.base.database);
    repository.fetch_object(system, &object, &mut content)?;
    let mut checksum = Crc64::new();
    checksum.update(&content);
    if (content.len() as u64, checksum.finish()) != (expected.bytes, expected.checksum) {
        return Err(BackupError::damaged(&object, "it is not what the manifest says"));
    }
    let run = RunReader::open(content, number).map_err(|problem| BackupError::damaged(&object, problem))?;
    if run.rows_left() != expected.rows {
        return Err(BackupError::damaged(&object, "it has not the rows that the manifest says"));
    }
    Ok(run)
}
