//! What a backup builds on: a complete one, if it is an increment, and one that was cut short, if there is one to go on with.
//!
//! ```text
//!   key order      |--- reached by the first attempt ---|--- reached by the second ---|
//!   first attempt  [ rows .............................. ]  progress object, no manifest
//!   second         [ kept       changed rows     kept    | rows ..................... ]  progress object, no manifest
//!   third          [ kept  changed rows                          kept                 | rows ...... ]  manifest
//! ```
//! Going on is what an increment does, with a parent that ends at the key it has reached: below, leaves that have not been written
//! since it began are kept; above, everything is read, or compared with what lies deeper (`engine::backup`). So the result is a
//! backup like any other: what has changed meanwhile is in it, and a restore needs the log from the last attempt on only.
//!
//! A backup goes on with the newest attempt of its kind: a full one with a full one that began after the last complete full backup,
//! an increment with an increment of the same parent.
//!
//! **What if a directory was copied, or put back from a copy?** Two databases of one name and timeline may put backups into one
//! repository, and to go on with one of the other would mix both. So a backup builds only on what was begun in its own directory, which
//! has a list (`engine::backup::begun`), and on no more of an attempt than had been put when the list was written: a copy that was made while
//! a backup was under way has the list of that time. Beside that, the log that leads to the end of a parent is compared with what the
//! repository has of it, as long as the database still has that.
//!
//! **What if the attempt is removed meanwhile?** Retention keeps what a backup names, be it in its manifest or in its progress objects.
//! The first one of those is put before anything else, so retention sees it; an attempt that is older than [`GOES_ON_WITHIN`] may be
//! taken for given up at any moment, and is left alone. Before the manifest is put, all is looked for once more.

use seawall_archive::{ArchiveError, Repository, System};
use seawall_engine::{Backup, BackupParent, BackupReach, BegunBackup};
use seawall_types::Lsn;
use seawall_wal::{HEADER_BYTES, LogGeometry, TimelineHistory};

use crate::catalog::{StoredBackup, StoredBackups, backups};
use crate::chain_member::{ChainMember, chain_of, read_progress};
use crate::error::BackupError;
use crate::manifest::{CutShort, Manifest};
use crate::object_names;
use crate::options::{BackupOptions, BackupStart};
use crate::progress::Progress;
use crate::stored_log::StoredLog;

/// In microseconds. Shorter than retention keeps what may be under way, unless it is told otherwise.
const GOES_ON_WITHIN: i64 = 5 * 86_400 * 1_000_000;

/// What a backup builds on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Foundation {
    /// Oldest first.
    chain: Vec<ChainMember>,
    /// See `Manifest`.
    pub(crate) parent: Option<String>,
    /// See `Manifest`.
    pub(crate) goes_on_with: Option<CutShort>,
    notes: Vec<String>,
}

impl Foundation {
    /// Looks what the repository has for `backup`, which begins now.
    pub(crate) fn find(
        backup: &Backup,
        repository: &Repository,
        options: &BackupOptions,
        now_micros: i64,
    ) -> Result<Foundation, BackupError> {
        if !options.is_incremental && !options.resumes {
            return Ok(Foundation::default());
        }
        let stored = backups(repository, backup.base().database)?;
        let begun = backup.begun_here()?;
        let search = Search { backup, repository, options, stored: &stored, begun, now_micros };
        let mut found = Foundation::default();
        if options.is_incremental {
            search.complete(&mut found)?;
        }
        if options.resumes {
            search.cut_short(&mut found)?;
        }
        Ok(found)
    }

    /// For the database, newest first.
    pub(crate) fn parents(&self) -> Vec<BackupParent> {
        self.chain.iter().rev().map(ChainMember::as_parent).collect()
    }

    /// For people.
    pub(crate) fn start(&self) -> BackupStart {
        BackupStart {
            parent: self.parent.clone(),
            goes_on_with: self.goes_on_with.as_ref().map(|cut_short| cut_short.id.clone()),
            notes: self.notes.clone(),
        }
    }

    /// Whether what was cut short is still there.
    pub(crate) fn check_parts(&self, repository: &Repository) -> Result<(), BackupError> {
        for member in self.chain.iter().filter(|member| member.progress.is_some()) {
            if !member.is_there(repository)? {
                return Err(BackupError::PartGone { id: member.id.clone() });
            }
        }
        Ok(())
    }
}

const OTHER_HISTORY: &str =
    "the database has another history. Was its directory copied? A copy needs a repository of its own";

const NO_LIST: &str = "the directory has no list of the backups that were begun in it (backups-begun), so nothing says that it is one of this \
     database and not of a copy";

fn not_gone_on_with(id: &str, problem: &str) -> String {
    format!("{id} was cut short and is not resumed: {problem}")
}

/// An answer, or why there is none; an error if the store does not say.
type Judged<T> = Result<Result<T, String>, BackupError>;

struct Search<'a> {
    backup: &'a Backup,
    repository: &'a Repository,
    options: &'a BackupOptions,
    stored: &'a StoredBackups,
    /// What was begun in this directory.
    begun: Vec<BegunBackup>,
    now_micros: i64,
}

impl Search<'_> {
    /// The newest backup that the database goes on from. One on an earlier timeline is none: what was restored has other leaves.
    fn complete(&self, found: &mut Foundation) -> Result<(), BackupError> {
        let fits = |older: &&StoredBackup| {
            let Manifest { base, end, .. } = &older.manifest;
            base.timeline == self.backup.base().timeline && end.end <= self.backup.end()
        };
        let Some(newest) = self.stored.complete.iter().rfind(fits) else { return Ok(()) };
        if self.reach(&newest.id) != Some(BackupReach::Ended)
            || self.is_of_other_history(newest.manifest.end.end)?
        {
            let why = if self.begun.is_empty() { NO_LIST } else { OTHER_HISTORY };
            let note = format!("this is a full backup, not an increment of {}: {why}", newest.id);
            found.notes.push(note);
            return Ok(());
        }
        match self.chain(ChainMember::of(&newest.id, &newest.manifest))? {
            Ok(chain) => (found.chain, found.parent) = (chain, Some(newest.id.clone())),
            Err(problem) => {
                found
                    .notes
                    .push(format!("this is a full backup, not an increment of {}: {problem}", newest.id));
            }
        }
        Ok(())
    }

    /// The newest attempt that fits.
    fn cut_short(&self, found: &mut Foundation) -> Result<(), BackupError> {
        for id in self.stored.unfinished.iter().rev() {
            let Some(newest) = self.newest_progress(id)? else { continue };
            let problem = match read_progress(self.repository, self.system(), &newest) {
                // It was removed meanwhile.
                Err(BackupError::Archive(ArchiveError::NotFound { .. })) => continue,
                Err(
                    error
                    @ (BackupError::Damaged { .. } | BackupError::Archive(ArchiveError::Damaged { .. })),
                ) => Some(error.to_string()),
                read => {
                    let (member, progress) = read?;
                    if progress.started_micros < self.now_micros.saturating_sub(GOES_ON_WITHIN) {
                        return Ok(());
                    }
                    if !self.is_of_kind(&progress, found.parent.as_deref()) {
                        continue;
                    }
                    if self.reach(id).is_none() || self.is_of_other_history(progress.stamp)? {
                        let why = if self.begun.is_empty() { NO_LIST } else { OTHER_HISTORY };
                        found.notes.push(not_gone_on_with(id, why));
                        continue;
                    }
                    match self.whole_chain(newest, member)? {
                        Ok(Some((cut_short, chain))) => {
                            (found.chain, found.goes_on_with) = (chain, Some(cut_short));
                            return Ok(());
                        }
                        Ok(None) => None,
                        Err(problem) => Some(problem),
                    }
                }
            };
            found.notes.extend(problem.map(|problem| not_gone_on_with(id, &problem)));
        }
        Ok(())
    }

    /// Whether the log that leads to `end` is here, and in the repository is another one.
    fn is_of_other_history(&self, end: Lsn) -> Result<bool, BackupError> {
        let Some((name, ours)) = self.backup.log_before(end)? else { return Ok(false) };
        let base = self.backup.base();
        let geometry = LogGeometry::new(base.segment_bytes)
            .map_err(|error| BackupError::damaged(name.file_name(), error.to_string()))?;
        let history = TimelineHistory { timeline: base.timeline, ..TimelineHistory::first() };
        let log = StoredLog::new(self.repository, None, base.database, geometry, history);
        let Some(stored) = log.fetch_segment(name)? else { return Ok(false) };
        let there = usize::try_from(stored.bytes).map_or(ours.len(), |bytes| bytes.min(ours.len()));
        let header = usize::try_from(HEADER_BYTES).expect("a page");
        Ok(ours.get(header..there) != stored.content.get(header..there))
    }

    fn system(&self) -> System {
        System::Seawall(self.backup.base().database)
    }

    /// How far a backup has come that was begun in this directory.
    fn reach(&self, id: &str) -> Option<BackupReach> {
        self.begun.iter().find(|begun| begun.name == id).map(|begun| begun.reach)
    }

    /// Of an attempt, the last thing that it has said.
    fn newest_progress(&self, id: &str) -> Result<Option<CutShort>, BackupError> {
        let names = self.repository.list_objects(self.system(), &object_names::directory(id))?;
        // An expiry removes it.
        if names.iter().any(|(name, _)| object_names::is_removal_mark(name)) {
            return Ok(None);
        }
        // Of a backup that was under way when this copy of the directory was made, what came later is not this copy's.
        let is_of_here =
            |number: &u32| self.reach(id).is_none_or(|reach| BackupReach::Progress(*number) <= reach);
        let newest =
            names.iter().filter_map(|(name, _)| object_names::parse_progress(name)).filter(is_of_here).max();
        Ok(newest.map(|progress| CutShort { id: id.to_owned(), progress }))
    }

    /// Whether this backup would be of the same kind as the attempt, and nothing better has ended since that began.
    fn is_of_kind(&self, progress: &Progress, parent: Option<&str>) -> bool {
        let (base, own) = (&progress.base, self.backup.base());
        let is_before = base.timeline == own.timeline
            && base.redo_point <= own.redo_point
            && progress.stamp <= self.backup.end();
        let is_later_full = |other: &StoredBackup| {
            other.manifest.parent.is_none()
                && other.manifest.base.timeline == own.timeline
                && other.manifest.started_micros > progress.started_micros
        };
        let is_outdated = parent.is_none() && self.stored.complete.iter().any(is_later_full);
        is_before && progress.parent.as_deref() == parent && !is_outdated
    }

    /// An attempt with what it builds on, if all of it is there; `None` if it has nothing.
    fn whole_chain(
        &self,
        mut newest: CutShort,
        mut member: ChainMember,
    ) -> Judged<Option<(CutShort, Vec<ChainMember>)>> {
        // One that was cut short before it had come anywhere is passed over: it makes a chain longer for nothing.
        while member.runs.is_empty() {
            let Some(below) = member.goes_on_with.take() else { return Ok(Ok(None)) };
            member = match read_progress(self.repository, self.system(), &below) {
                Ok((member, _)) => member,
                Err(error) => return refusal(error),
            };
            newest = below;
        }
        let chain = match self.chain(member)? {
            Ok(chain) => chain,
            Err(problem) => return Ok(Err(problem)),
        };
        for member in chain.iter().filter(|member| member.progress.is_some()) {
            if !member.is_there(self.repository)? {
                return Ok(Err(format!("objects of {} are missing", member.id)));
            }
        }
        Ok(Ok(Some((newest, chain))))
    }

    /// What a restore would read, or why one cannot build on it.
    fn chain(&self, top: ChainMember) -> Judged<Vec<ChainMember>> {
        match chain_of(self.repository, &self.stored.complete, top) {
            Ok(chain) if chain.len() < self.options.chain_max => Ok(Ok(chain)),
            Ok(chain) => Ok(Err(format!("a restore would have to read more than {} backups", chain.len()))),
            Err(error) => refusal(error),
        }
    }
}

/// What is damaged or missing is a reason not to build on it; what the store says otherwise is an error.
fn refusal<T>(error: BackupError) -> Judged<T> {
    match error {
        BackupError::Damaged { .. }
        | BackupError::Archive(ArchiveError::Damaged { .. } | ArchiveError::NotFound { .. }) => {
            Ok(Err(error.to_string()))
        }
        other => Err(other),
    }
}
