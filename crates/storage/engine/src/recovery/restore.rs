//! Builds a database from a backup and the log after the backup.
//!
//! ```text
//!   1. marker `restoring`, durable        from here on only a restore of the same opens the directory
//!   2. keys, tree, superblock: redo point of the backup, on the timeline to follow
//!   3. segments of the log, into log/, one after another, until one is there that has the place to stop at (`end_search`)
//!   4. rows, in order, packed into leaves
//!   5. the database is opened there on a new timeline, with a replay of a kind of its own, and takes a checkpoint
//!   6. the file `archiving-off` (`archive_mode`), then the marker goes
//! ```
//! **If the power goes** before 6 is durable, the directory has the marker, which says what was asked for. The next restore goes on
//! if it asks for the same, and is refused otherwise (`marker`). After 6, this is a database like any other: its redo point is behind
//! everything that was restored.
//!
//! What a restore that goes on finds:
//! * *The tree, in 4.* Rows are linked into it in chunks, each whole or not there at all, in the order of keys: all up to its last
//!   key are there, and durable, and what is to be added is behind. Leaves that were written and not linked are free pages.
//! * *The tree, in 5.* If its redo point has moved, a checkpoint of the replay has moved it, so all rows are there, and the replay goes
//!   on from there. If it is on the new timeline already, or in any other state than these, it is made anew.
//! * *The log.* Nothing of it need be durable. The program that fetches it compares it with what the repository has; all other files go when the place to stop at is known.
//!
//! The replay differs from that of a crash in three ways, because a backup may be older than what it replays by several
//! checkpoints, and its rows younger than its redo point by as many (see `backup`):
//! * A record that says that rows were loaded past the log ends it with an error, unless the rows are in the backup.
//! * A drop is written out (`dropped_tables`) when it is replayed. Where a checkpoint has merged it, nothing in the log tells of it
//!   when the name is taken again.
//! * A storage stays listed in `reclaim` although the log says that it was cut out, unless the same record gives it to a table:
//!   a range of the backup may have been read before the cut. The checkpoint at the end cuts it out once more; numbers of
//!   storages are never used again.

mod copy;
mod end_search;
mod marker;
mod tree_left;

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::sync::Arc;

use seawall_io::{DirectoryLock, Disk, LockMode, OpenMode as FileMode};
use seawall_keys::DatabaseKeys;
use seawall_tree::{BulkLoader, Encryption, PageProtection, Superblock, Tree, TreeMarks};
use seawall_types::{Lsn, TableId, TimelineId};
use seawall_wal::TimelineHistory;

use crate::backup::BackupBase;
use crate::bulk_load::row_sorter::RUN_DIRECTORY;
use crate::catalog::first_local_key;
use crate::directory::{LOCK_PATH, LOG_DIRECTORY, RESTORING_PATH, io};
use crate::engine::Engine;
use crate::environment::Environment;
use crate::error::Error;
use crate::open::open_existing;
use crate::options::{Background, OpenMode, Options};
use crate::recovery::archive_mode::ArchiveMode;
use crate::recovery::statistics::RecoveryProgress;
use crate::recovery::timeline::{Continuation, NewTimeline, ReplayOntoBackup};

pub use end_search::EndSearch;
use end_search::SearchedLog;
use marker::{MARKER_SCRATCH_PATH, read_marker, write_marker};
pub use marker::{NewNumber, RestoreMarker};
use tree_left::{TreeLeft, clear_tree, create_tree, tree_left};

/// How far to restore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RestoreTarget {
    /// To the end of the log that there is.
    Latest,
    /// With every commit stamped at most this.
    Lsn(Lsn),
    /// With every commit before the first one that was made later than this, in microseconds since 1970. Where the clock was set
    /// back, later commits of the same time are not reached.
    Time(i64),
    /// To the first restore point with this name behind the backup.
    RestorePoint(String),
}

/// Where a restore is to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestoreEnd {
    /// The end of the last record.
    pub end: Lsn,
    /// When the last transaction before was committed or prepared, in microseconds since 1970.
    pub last_commit_micros: Option<i64>,
}

/// Which rows of the backup are in the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowsThere {
    /// None.
    None,
    /// The rows up to this key are in the tree.
    UpTo(Vec<u8>),
    /// All.
    All,
}

/// How a restore goes about it.
#[derive(Clone, Debug)]
pub struct RestoreOptions {
    /// Options of the database: memory and the master key.
    pub database: Options,
    /// Rows of so many bytes become durable at a time.
    pub graft_bytes: usize,
    /// Whether the database may archive then.
    pub archive_mode: ArchiveMode,
}

/// A restore under way.
pub struct Restore {
    environment: Environment,
    options: Options,
    base: BackupBase,
    superblock: Superblock,
    keys: Option<DatabaseKeys>,
    tree: Arc<Tree>,
    loader: Option<BulkLoader>,
    loaded_bytes: usize,
    /// Rows of so many bytes are linked into the tree at a time.
    graft_bytes: usize,
    rows_there: RowsThere,
    archive_mode: ArchiveMode,
    /// Something is in the tree.
    has_rows: bool,
    /// Files of the log that are what they should be.
    log_files: BTreeSet<String>,
    marker: RestoreMarker,
    /// The stamp of the leaves: they are as of no moment before the end of the restore, for a backup that goes by stamps.
    loaded_as_of: Lsn,
    lock: Box<dyn DirectoryLock>,
}

impl std::fmt::Debug for Restore {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Restore").field("base", &self.base).finish_non_exhaustive()
    }
}

/// Refuses a directory that has anything in it, but for what a restore has left: what that says of itself. It is not changed.
///
/// # Errors
/// `NotEmpty`, `RestoreMarker`, `Io`.
pub fn check_restore_directory(disk: &dyn Disk) -> Result<Option<RestoreMarker>, Error> {
    let names = match disk.list_names("") {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        names => names.map_err(io)?,
    };
    if names.iter().any(|name| name == RESTORING_PATH) {
        return read_marker(disk).map(Some);
    }
    let mut directories = Vec::new();
    for directory in disk.list_subdirectories("").map_err(io)? {
        // A restore that was refused has left them.
        let is_own = directory == LOG_DIRECTORY || directory == RUN_DIRECTORY;
        if !is_own || !disk.list_names(&directory).map_err(io)?.is_empty() {
            directories.push(directory);
        }
    }
    let is_found = |name: &String| name != LOCK_PATH && name != MARKER_SCRATCH_PATH;
    let mut found = names.into_iter().chain(directories).filter(is_found);
    match found.next() {
        Some(found) => Err(Error::NotEmpty { directory: disk.location(""), found }),
        None => Ok(None),
    }
}

/// Whether the directory has what a restore has not made whole, or has left.
pub(crate) fn is_under_way(disk: &dyn Disk) -> Result<bool, Error> {
    match disk.list_names("") {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        names => Ok(names.map_err(io)?.iter().any(|name| name == RESTORING_PATH)),
    }
}

/// A file of the log, as a restore has left it; `None` if it is not there.
///
/// # Errors
/// `Io`.
pub fn restored_log_file(disk: &dyn Disk, file_name: &str) -> Result<Option<Vec<u8>>, Error> {
    let file = match disk.open(&format!("{LOG_DIRECTORY}/{file_name}"), FileMode::Read) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        file => file.map_err(io)?,
    };
    let bytes = file.length().map_err(io)?;
    let mut content =
        vec![0; usize::try_from(bytes).map_err(|_| Error::Io { message: "a file is too long".to_owned() })?];
    file.read_exact_at(&mut content, 0).map_err(io)?;
    Ok(Some(content))
}

impl Restore {
    /// Begins to make the database of `base` in the environment's directory, or goes on with it: the directory must be empty, or have
    /// what a restore has left that was asked for the same. It will follow the timeline that `history` is of, and has storages below
    /// `next_table`. What is left of a restore of another backup, or along another timeline, gives way.
    ///
    /// # Errors
    /// `NotEmpty`, `OtherRestore`, `RestoreMarker`; `InUse`; `Encrypted` and others where the master key is not the one that is
    /// needed; `Io`, `DiskFull`.
    pub fn begin(
        environment: Environment,
        options: RestoreOptions,
        base: BackupBase,
        history: &TimelineHistory,
        next_table: TableId,
        marker: &RestoreMarker,
    ) -> Result<Restore, Error> {
        let RestoreOptions { database: options, graft_bytes, archive_mode } = options;
        let disk = &*environment.disk;
        if let Some(found) = check_restore_directory(disk)? {
            marker.check(&found, disk)?;
        }
        disk.create_directory("").map_err(io)?;
        let lock = disk.lock(LOCK_PATH, LockMode::Exclusive).map_err(|error| match error.kind() {
            ErrorKind::WouldBlock => Error::InUse { directory: disk.location("") },
            _ => Error::io(&error),
        })?;
        // Again: somebody may have been faster.
        let found = check_restore_directory(disk)?;
        let options = Options {
            mode: OpenMode::Existing,
            background: Background::Manual,
            archives: Vec::new(),
            in_doubt_rules: Vec::new(),
            ..options
        };
        // What was chosen for this directory stays, whatever is chosen otherwise now.
        let new_timeline = found.as_ref().and_then(|found| found.new_timeline);
        let marker = &RestoreMarker { new_timeline, ..marker.clone() };
        let wanted = superblock_of(&base, history, next_table);
        let left = match &found {
            Some(found) => {
                marker.check(found, disk)?;
                let goes_on = found == marker;
                if goes_on { tree_left(&environment, &options, &base, history)? } else { None }
            }
            None => None,
        };
        let TreeLeft { tree, superblock, keys, rows } = match left {
            Some(left) => left,
            None => {
                if found.is_some() {
                    clear_tree(disk)?;
                }
                if found.as_ref() != Some(marker) {
                    write_marker(disk, marker)?;
                }
                let (tree, keys) = create_tree(&environment, &options, &base, &wanted)?;
                TreeLeft { tree, superblock: wanted, keys, rows: RowsThere::None }
            }
        };
        Ok(Restore {
            loader: None,
            loaded_bytes: 0,
            graft_bytes,
            archive_mode,
            has_rows: rows != RowsThere::None,
            rows_there: rows,
            log_files: BTreeSet::new(),
            marker: marker.clone(),
            loaded_as_of: base.redo_point,
            environment,
            options,
            base,
            superblock,
            keys,
            tree: Arc::new(tree),
            lock,
        })
    }

    /// Where the replay onto the rows begins.
    pub fn redo_point(&self) -> Lsn {
        self.base.redo_point
    }

    /// Which rows were there when it began: those that are added are behind them.
    pub fn rows_there(&self) -> &RowsThere {
        &self.rows_there
    }

    /// The number of the timeline that will begin here, if it is chosen.
    pub fn new_timeline(&self) -> Option<NewNumber> {
        self.marker.new_timeline
    }

    /// Chooses it: durable when this returns, so that a restore that goes on has the same.
    ///
    /// # Errors
    /// `Io`, `DiskFull`.
    pub fn choose_new_timeline(&mut self, new: NewNumber) -> Result<(), Error> {
        if self.marker.new_timeline != Some(new) {
            let marker = RestoreMarker { new_timeline: Some(new), ..self.marker.clone() };
            write_marker(&*self.environment.disk, &marker)?;
            self.marker = marker;
        }
        Ok(())
    }

    /// Adds a row of the backup, in order of their keys in the tree.
    ///
    /// # Errors
    /// `Tree` if it is out of order, `DiskFull`, `Io`.
    pub fn push(&mut self, row_key: &[u8], value: &[u8]) -> Result<(), Error> {
        let failed = |error| Error::tree(&error);
        if self.loaded_bytes >= self.graft_bytes {
            self.graft()?;
        }
        let loader = match &mut self.loader {
            Some(loader) => loader,
            None => {
                let from: &[u8] = if self.has_rows { row_key } else { &[] };
                self.has_rows = true;
                self.loader.insert(self.tree.bulk_loader(from, &first_local_key(), self.loaded_as_of))
            }
        };
        self.loaded_bytes += row_key.len() + value.len();
        loader.push(row_key, value).map_err(failed)
    }

    /// No change in the rows that follow is newer: their leaves get a stamp that is not older. Those of a copy are of moments behind its redo
    /// point, and who asks what has changed since then must not miss them.
    ///
    /// # Errors
    /// `DiskFull`, `Io`.
    pub fn note_stamp(&mut self, stamp: Lsn) -> Result<(), Error> {
        if stamp > self.loaded_as_of {
            self.graft()?;
            self.loaded_as_of = stamp;
        }
        Ok(())
    }

    /// All rows were added.
    ///
    /// # Errors
    /// `DiskFull`, `Io`.
    pub fn finish_rows(&mut self) -> Result<(), Error> {
        self.graft()
    }

    /// Links the leaves that were built into the tree.
    fn graft(&mut self) -> Result<(), Error> {
        let Some(loader) = self.loader.take() else { return Ok(()) };
        let failed = |error| Error::tree(&error);
        let plan = loader.graft(self.loaded_as_of).map_err(failed)?;
        self.tree.apply_chunk(plan, Some(&self.superblock)).map_err(failed)?;
        self.loaded_bytes = 0;
        Ok(())
    }

    /// Puts a file of the log where it belongs, whatever is there. A segment is of use to this restore only; histories are needed
    /// afterwards, too, and durable when this returns, but for their names, which the new timeline makes so.
    ///
    /// # Errors
    /// `DiskFull`, `Io`.
    pub fn put_log_file(&mut self, file_name: &str, content: &[u8]) -> Result<(), Error> {
        let path = format!("{LOG_DIRECTORY}/{file_name}");
        let disk = &self.environment.disk;
        match disk.remove(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            removed => removed.map_err(io)?,
        }
        let file = disk.open(&path, FileMode::Create).map_err(io)?;
        file.write_all_at(content, 0).map_err(io)?;
        self.keep_log_file(file_name);
        if file_name.ends_with(".history") { file.sync_data().map_err(io) } else { Ok(()) }
    }

    /// Leaves a file of the log where it is: it is what it should be.
    pub fn keep_log_file(&mut self, file_name: &str) {
        self.log_files.insert(file_name.to_owned());
    }

    /// Removes all files of the log that were neither put nor kept: segments of no use, and what a replay has left.
    fn remove_other_log_files(&self) -> Result<(), Error> {
        let disk = &self.environment.disk;
        let names = disk.list_names(LOG_DIRECTORY).map_err(io)?;
        for name in names.iter().filter(|name| !self.log_files.contains(*name)) {
            disk.remove(&format!("{LOG_DIRECTORY}/{name}")).map_err(io)?;
        }
        Ok(())
    }

    /// Begins to look for the place to stop at; the backup ends at `at_least`.
    pub fn find_end(&self, target: RestoreTarget, at_least: Lsn) -> EndSearch {
        let disk = Arc::clone(&self.environment.disk);
        // A replay that was cut short may have moved the redo point.
        let superblock = Superblock { redo_point: self.base.redo_point, ..self.superblock.clone() };
        let log = SearchedLog { disk, superblock, keys: self.keys.clone() };
        EndSearch::new(log, target, at_least, self.base.complete_from)
    }

    /// Has the restore stop at the place that a search has found; `at_least` is where the backup ends. From now on the database is on
    /// the timeline that the place is on.
    ///
    /// # Errors
    /// `RestoreTarget` if the place lies before the end of the backup; `Io`.
    pub fn stop_at(&mut self, end: &RestoreEnd, at_least: Lsn) -> Result<(), Error> {
        let end = end.end;
        if end < at_least {
            return Err(Error::RestoreTarget {
                problem: format!(
                    "it lies at {end}, before the end of the backup at {at_least}: choose an older backup"
                ),
            });
        }
        if end < self.superblock.log_end {
            return Err(Error::RestoreTarget {
                problem: format!(
                    "when this restore began, the log in the repository led to {}, and it leads to {end} now: remove the directory, \
                     and restore again",
                    self.superblock.log_end
                ),
            });
        }
        self.remove_other_log_files()?;
        (self.loaded_as_of, self.superblock.log_end) = (end, end);
        self.stay_on_timeline_of(end)
    }

    /// Where the target lies before the timeline that was asked for began, the new one leaves an ancestor of that.
    fn stay_on_timeline_of(&mut self, end: Lsn) -> Result<(), Error> {
        let history = crate::recovery::timeline::history_of(&self.environment.disk, &self.superblock)?;
        let timeline = history.timeline(history.timeline_at(Lsn::new(end.get() - 1)));
        if timeline.id == self.superblock.timeline && self.rows_there == RowsThere::None {
            return Ok(());
        }
        (self.superblock.timeline, self.superblock.timeline_mark) = (timeline.id, timeline.mark);
        for _copy in 0..2 {
            self.tree.store_superblock(&self.superblock).map_err(|error| Error::tree(&error))?;
        }
        Ok(())
    }

    /// Gives up before any row was added, and removes all that was made: another restore may be asked for something else here. If the
    /// power goes meanwhile, the marker is there, and a restore of the same begins anew.
    ///
    /// # Errors
    /// `Io`.
    pub fn abandon(self) -> Result<(), Error> {
        let Restore { environment, tree, loader, lock, .. } = self;
        let disk = &*environment.disk;
        drop(loader);
        tree.close();
        drop(tree);
        clear_tree(disk)?;
        for name in disk.list_names(LOG_DIRECTORY).map_err(io)? {
            disk.remove(&format!("{LOG_DIRECTORY}/{name}")).map_err(io)?;
        }
        disk.sync_directory(LOG_DIRECTORY).map_err(io)?;
        disk.remove(RESTORING_PATH).map_err(io)?;
        disk.sync_directory("").map_err(io)?;
        drop(lock);
        Ok(())
    }

    /// Replays the log up to `end`, begins a new timeline there, and makes the database an ordinary one. Returns the timeline.
    ///
    /// # Errors
    /// `TimelineNumber` if the number that was asked for is taken. Damage in the log; `DiskFull`, `Io`.
    pub fn finish(
        self,
        end: Lsn,
        new: NewTimeline<'_>,
        progress: &mut dyn FnMut(RecoveryProgress),
    ) -> Result<TimelineId, Error> {
        let Restore { environment, options, base, tree, lock, loader, archive_mode, .. } = self;
        drop(loader);
        // It is opened once more: the engine owns its files.
        tree.close();
        drop(tree);
        let disk = Arc::clone(&environment.disk);
        let onto_backup = ReplayOntoBackup { complete_from: base.complete_from, end };
        let continuation = Continuation::Restored { new, onto_backup };
        let engine: Arc<Engine> =
            Arc::new(open_existing(environment, options, lock, continuation, progress)?);
        let timeline = engine.timeline();
        // Whatever is to be merged: the redo point has to pass the end of the replay.
        engine.checkpoint_now()?;
        archive_mode.apply(&*disk)?;
        // While the directory is locked: another restore may only clear one that has the marker.
        disk.remove(RESTORING_PATH).map_err(io)?;
        disk.sync_directory("").map_err(io)?;
        engine.close()?;
        Ok(timeline)
    }
}

fn superblock_of(base: &BackupBase, history: &TimelineHistory, next_table: TableId) -> Superblock {
    let timeline = history.timeline(history.timeline);
    Superblock {
        sequence: 0,
        database: base.database,
        page_bytes: base.page_bytes,
        timeline: timeline.id,
        timeline_mark: timeline.mark,
        segment_bytes: base.segment_bytes,
        redo_point: base.redo_point,
        log_end: base.redo_point,
        checkpoint_count: 0,
        completed_chunk: 0,
        next_table,
        in_doubt: base.in_doubt,
        page_count: 0,
        created_micros: base.created_micros,
        // Set by the tree with each store.
        marks: TreeMarks::default(),
        protection: PageProtection::RecoveryFile,
        encryption: if base.keys.is_some() { Encryption::Xaes256Gcm } else { Encryption::None },
        next_run: 0,
        run_count: 0,
    }
}
