//! Verifying a repository: is everything there that should be, and is it what was put?
//!
//! ```text
//!   listing --each object, several at a time--> its header, or all of it --> findings
//!      |                                           |
//!      +--> strangers        manifests, histories, gaps --> what is missing: segments, log of backups, objects of backups
//! ```
//! With [`VerifyDepth::Headers`], 512 bytes of each object are read and held against its name and its length; with
//! [`VerifyDepth::Content`] all of it, every checksum, every record of the log, every row of a backup's runs, and whether the log of
//! each backup of a database is the one that it was taken with.
//!
//! A repository that is in use changes meanwhile. What is gone when it is asked for, and from the listing too, was removed by
//! retention or merged by an archiver, and is no finding. A segment that is missing just before one that was archived within
//! [`VerifyOptions::settle`] may still be on its way: uploads run beside each other.
//!
//! Memory: some 200 bytes for each object, and for each thread the content of one segment or run.

mod backup_log;
mod backups;
mod log;
mod objects;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use seawall_archive::{Gap, LogFileName, Repository, StoredName, StoredObject, System};
use seawall_engine::Error;
use seawall_io::Clock;
use seawall_types::{Lsn, TimelineId};
use seawall_wal::TimelineHistory;

use crate::dependencies::BackupDependencies;
use crate::error::BackupError;
use crate::history::StoredHistory;
use crate::object_names;
use crate::removal_mark::RemovalMark;
use objects::{Examined, Examiner};

/// How much of each object is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VerifyDepth {
    /// Its header.
    Headers,
    /// All of it.
    Content,
}

/// How a repository is verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerifyOptions {
    /// How much of each object is read. Default: its header.
    pub depth: VerifyDepth,
    /// Objects that are read at a time. Default 8.
    pub threads: usize,
    /// A segment may be missing for so long after the next one was archived. Default five minutes.
    pub settle: Duration,
}

impl Default for VerifyOptions {
    fn default() -> VerifyOptions {
        VerifyOptions { depth: VerifyDepth::Headers, threads: 8, settle: Duration::from_secs(300) }
    }
}

/// What is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FindingKind {
    /// An object is not what was put, or cannot be read.
    Damaged,
    /// Segments are missing between others, and nobody knows why.
    MissingLog,
    /// The log that a backup needs is not all there.
    BackupWithoutLog,
    /// An object that a backup needs is not there, or a backup that it builds on.
    BackupIncomplete,
    /// There is log or a backup of a timeline other than the first, and no history of it.
    MissingHistory,
    /// An object that nobody has put there who belongs to it.
    Stranger,
    /// Segments are missing that were left out on purpose, or removed by retention.
    OnRecord,
    /// Between two backups of a database, log is missing that was never archived: only what the backups need is there.
    NotArchived,
    /// Segments are missing that may be on their way.
    OnItsWay,
    /// A backup without a manifest: under way, or given up.
    Unfinished,
    /// What is of no use and does no harm.
    Leftover,
}

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Nothing is wrong.
    Note,
    /// Somebody should look at it.
    Doubt,
    /// Something that was archived or backed up cannot be restored.
    Damage,
}

impl FindingKind {
    /// How bad it is.
    pub fn severity(self) -> Severity {
        match self {
            FindingKind::Damaged
            | FindingKind::MissingLog
            | FindingKind::BackupWithoutLog
            | FindingKind::BackupIncomplete
            | FindingKind::MissingHistory => Severity::Damage,
            FindingKind::Stranger => Severity::Doubt,
            FindingKind::OnRecord
            | FindingKind::NotArchived
            | FindingKind::OnItsWay
            | FindingKind::Unfinished
            | FindingKind::Leftover => Severity::Note,
        }
    }

    /// A word for programs.
    pub fn name(self) -> &'static str {
        match self {
            FindingKind::Damaged => "damaged",
            FindingKind::MissingLog => "missing_log",
            FindingKind::BackupWithoutLog => "backup_without_log",
            FindingKind::BackupIncomplete => "backup_incomplete",
            FindingKind::MissingHistory => "missing_history",
            FindingKind::Stranger => "stranger",
            FindingKind::OnRecord => "on_record",
            FindingKind::NotArchived => "not_archived",
            FindingKind::OnItsWay => "on_its_way",
            FindingKind::Unfinished => "unfinished",
            FindingKind::Leftover => "leftover",
        }
    }
}

/// Something that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What it is.
    pub kind: FindingKind,
    /// What it is about: an object or a stretch of log.
    pub object: String,
    /// What is wrong with it.
    pub problem: String,
}

/// How far it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VerifyProgress {
    /// Objects examined.
    pub objects: u64,
    /// All that were listed.
    pub total: u64,
}

/// What was verified.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// Objects listed.
    pub objects: u64,
    /// Bytes that they have in the store.
    pub stored_bytes: u64,
    /// Bytes of content that were read and checked.
    pub checked_bytes: u64,
    /// Backups that are complete, by their manifests.
    pub backups: u64,
    /// Findings that are damage.
    pub damages: u64,
    /// Findings that somebody should look at.
    pub doubts: u64,
}

/// The log that a backup has put, as far as one of its objects tells.
#[derive(Clone, Debug)]
struct OtherBackupLog {
    backup: String,
    timeline: TimelineId,
    first: Lsn,
    /// `None`: it may have put any of the log from `first` on.
    end: Option<Lsn>,
}

impl OtherBackupLog {
    fn of(object: &StoredObject, examined: &Examined) -> Option<OtherBackupLog> {
        let Some(StoredName::Object(_, name)) = &object.name else { return None };
        let backup = object_names::backup_of(name)?.to_owned();
        if let Some(RemovalMark { timeline, first, end }) = examined.removal {
            return Some(OtherBackupLog { backup, timeline, first, end });
        }
        let header = examined.header.as_ref()?;
        Some(OtherBackupLog { backup, timeline: header.timeline?, first: header.start, end: None })
    }
}

/// What is known of a system when all of its objects were examined.
#[derive(Debug, Default)]
struct SystemFacts {
    log: Vec<log::LogFacts>,
    histories: BTreeMap<TimelineId, TimelineHistory>,
    /// Timelines whose histories are listed, good or not.
    listed_histories: BTreeSet<TimelineId>,
    gaps: Vec<Gap>,
    backups: Vec<BackupDependencies>,
    /// By objects of all backups: some have no manifest, or have lost it to an expiry that was cut short.
    log_of_others: Vec<OtherBackupLog>,
    /// Objects of backups, by path.
    backup_objects: BTreeMap<String, backups::ObjectFacts>,
    /// Paths of all manifests that are listed, good or not.
    manifests: Vec<String>,
}

/// Verifies all that a repository holds. Each finding goes to `found`.
///
/// # Errors
/// What the store says if it does not answer: what was found until then is true, but not all.
pub fn verify(
    repository: &Repository,
    clock: &dyn Clock,
    options: &VerifyOptions,
    found: &mut dyn FnMut(Finding),
    progress: &mut dyn FnMut(VerifyProgress),
) -> Result<VerifyReport, BackupError> {
    let objects = repository.stored(None)?;
    let mut report = VerifyReport {
        objects: objects.len() as u64,
        stored_bytes: objects.iter().map(|object| object.bytes).sum(),
        ..VerifyReport::default()
    };
    let mut damages = 0;
    let mut doubts = 0;
    let mut tell = |finding: Finding| {
        match finding.kind.severity() {
            Severity::Damage => damages += 1,
            Severity::Doubt => doubts += 1,
            Severity::Note => {}
        }
        found(finding);
    };
    let histories = read_all_histories(repository, &objects);
    let examiner = Examiner { repository, depth: options.depth, histories: &histories };
    let mut systems: Vec<(System, SystemFacts)> = Vec::new();
    let mut done = VerifyProgress { objects: 0, total: report.objects };
    examine_all(&examiner, &objects, options.threads, &mut |index, examined| {
        report.checked_bytes += examined.checked_bytes;
        collect(&mut systems, &objects[index], &examined);
        examined.findings.into_iter().for_each(&mut tell);
        done.objects += 1;
        progress(done);
    })?;
    for (system, mut facts) in systems {
        report.backups += facts.backups.len() as u64;
        let known = histories.iter().filter(|((of, _), _)| *of == system.to_string());
        facts.histories = known.map(|((_, timeline), history)| (*timeline, history.clone())).collect();
        let settled_before =
            clock.wall_micros().saturating_sub(i64::try_from(options.settle.as_micros()).unwrap_or(i64::MAX));
        let log = log::Log::new(system, &facts, settled_before, &mut tell);
        log.find_missing(&mut tell);
        log.find_missing_histories(&mut tell);
        for backup in &facts.backups {
            log.check_backup(backup, &mut tell);
        }
        backups::check(repository, system, &facts, &mut tell)?;
        if options.depth == VerifyDepth::Content {
            backup_log::check(repository, system, &facts, options.threads, &mut tell)?;
        }
    }
    report.damages = damages;
    report.doubts = doubts;
    Ok(report)
}

type Histories = BTreeMap<(String, TimelineId), TimelineHistory>;

/// Those that can be read: the others are found with the rest of the objects.
fn read_all_histories(repository: &Repository, objects: &[StoredObject]) -> Histories {
    let mut histories = Histories::new();
    for object in objects {
        let Some(StoredName::LogFile(system, LogFileName::History(timeline))) = object.name else { continue };
        if let Ok(Some(StoredHistory { history: Ok(history), .. })) =
            StoredHistory::read(repository, system, timeline)
        {
            histories.insert((system.to_string(), timeline), history);
        }
    }
    histories
}

/// Examines all objects, several at a time, and gives what is known of each to `take`.
fn examine_all(
    examiner: &Examiner<'_>,
    objects: &[StoredObject],
    threads: usize,
    take: &mut dyn FnMut(usize, Examined),
) -> Result<(), BackupError> {
    let next = Mutex::new(0..objects.len());
    let (sender, receiver) = channel::<Result<(usize, Examined), BackupError>>();
    let work = |sender: Sender<_>| {
        loop {
            let index = next.lock().expect("no thread panics while it takes a number").next();
            let Some(index) = index else { return };
            let examined = examiner.examine(&objects[index]).map(|examined| (index, examined));
            let is_over = examined.is_err();
            if sender.send(examined).is_err() || is_over {
                return;
            }
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads.max(1))
            .map(|_| {
                let (work, sender) = (&work, sender.clone());
                scope.spawn(move || work(sender))
            })
            .collect();
        drop(sender);
        let mut result = Ok(());
        for examined in receiver {
            match examined {
                Ok((index, examined)) => take(index, examined),
                Err(error) => {
                    // Nothing more is begun.
                    *next.lock().expect("no thread panics while it takes a number") = 0..0;
                    result = Err(error);
                }
            }
        }
        for worker in workers {
            let panicked = |_| Error::Io { message: "a thread of the verification panicked".to_owned() };
            worker.join().map_err(panicked)?;
        }
        result
    })
}

fn collect(systems: &mut Vec<(System, SystemFacts)>, object: &StoredObject, examined: &Examined) {
    let Some(system) = object.name.as_ref().and_then(StoredName::system) else { return };
    let index = systems.iter().position(|(known, _)| *known == system).unwrap_or_else(|| {
        systems.push((system, SystemFacts::default()));
        systems.len() - 1
    });
    let facts = &mut systems[index].1;
    facts.log.extend(log::LogFacts::of(object, examined.header.as_ref()));
    match &object.name {
        Some(StoredName::Gap(_, gap)) => facts.gaps.push(*gap),
        Some(StoredName::LogFile(_, LogFileName::History(timeline))) => {
            facts.listed_histories.insert(*timeline);
        }
        _ => {}
    }
    facts.backups.extend(examined.backup.clone());
    facts.log_of_others.extend(OtherBackupLog::of(object, examined));
    if let Some(of_backup) = backups::ObjectFacts::of(object, examined) {
        if of_backup.is_manifest {
            facts.manifests.push(object.path.clone());
        }
        facts.backup_objects.insert(object.path.clone(), of_backup);
    }
}
