//! The reads of an online backup.
//!
//! ```text
//!   log      |G------------------- loads are logged --------------------|
//!        |B                                                              E|   what a restore replays
//!             [system keyspace as of B][leaf][leaf] ...                        what it replays onto
//! ```
//! The rows are those of the tree's leaves, merged with those of sorted runs, each as it is when the walk comes by; memtables are not looked at,
//! and no snapshot is
//! held. That is what a crash between two chunks of a checkpoint leaves behind: each row as of some moment between B and E, and a
//! replay from B on makes of it what it makes of any such state, since records say what a row is. What it needs besides:
//!
//! * The system keyspace exactly as of B: decisions find their transactions, reclaimed storages are listed. It is read while nobody
//!   may change the tree, and the tree has it as of the redo point, so B is that.
//! * No commit in the rows that a crash of this database could still take back: the log is durable beyond what gets into a page.
//! * No row that is in no log: from G on, loads are logged, and those before are in the tree when the first leaf is read.
//! * A restore to E or later, and on a timeline that has this one's log up to E.
//!
//! Rows of storages that no snapshot sees are among the others: of loads that are not published yet, and of dropped tables.
//!
//! # Increments
//!
//! With a parent, a leaf that is the same as when the parent passed is not given out again. Its page says when it was last written,
//! and whatever is written into the tree after the parent has begun has a later stamp than the parent's B: merges have that of a
//! later freeze, cuts and the links of loads have the end of the durable log, which the parent has moved past B with a record
//! before anybody could change the tree again. But for leaves that a load has written before and links only now: the parent says
//! which storages were being loaded when it began, and which numbers were not drawn yet; their leaves are always given out.
//!
//! Rows of sorted runs count as rows of the leaf among whose keys they lie: it is the same if they are in leaves of the run that are as old, too.
//! Where rows were moved from a run to the main part meanwhile, their leaf has the stamp of the newest of them.
//!
//! A parent may be one that was cut short: it has what lies below some key, and says nothing of the rest. So there may be several, each
//! of which builds on the next, and a leaf is compared with the newest that has all of it. One that none has is given out.
//!
//! What is kept of the parent is said as ranges from the first row of a leaf to its last one, and not between the fences of the leaf:
//! what was between two leaves may be gone without either having changed. Where the page above both has not changed, nothing was.
//!
//! # For a server that comes back
//!
//! A server whose history parted from this one's has its rows as of there, as far as its own pages say that nothing changed since
//! (`recovery::rewind`). It is the parent, and what is kept comes with a sum over the rows ([`RowSum`]), which it compares with its own.

mod begun;
pub(crate) mod log_checksum;
mod merged_leaf;
#[cfg(test)]
mod over_runs;
mod redo_point;
pub(crate) mod row_sum;
mod walk;

use std::convert::Infallible;
use std::io::ErrorKind;
use std::sync::Arc;

use seawall_io::{Disk, OpenMode};
use seawall_keys::KEYS_PATH;
use seawall_tree::page::LeafValue;
use seawall_tree::{Direction, Encryption, Superblock, Tree};
use seawall_types::{DatabaseId, Lsn, TableId, TimelineId};
use seawall_wal::{HoldKind, HoldLifetime, HoldOptions, LogGeometry, PreparedRecord, SegmentName};

pub use begun::{BackupReach, BegunBackup};

use crate::archiver::log_archive::{ArchivedLog, LogArchive, LogArchiveError, LogFile};
use crate::archiver::pieces::LogPieces;
use crate::archiver::uploads::upload;
use crate::backup::log_checksum::LogChecksum;
use crate::backup::row_sum::RowSum;
use crate::bulk_load::load_log::LoadsLogged;
use crate::catalog::FIRST_USER_TABLE;
use crate::database::Database;
use crate::engine::Engine;
use crate::error::Error;
use crate::log::hold::LogHold;
use crate::recovery::archive_mode::check_archiving;
use crate::row_key;
use walk::Walk;

/// A row as the tree has it.
type KeyValue = (Vec<u8>, Vec<u8>);

/// The file of keys is a page.
const KEYS_BYTES_MAX: u64 = 1 << 20;

/// What a restored database begins with, besides its rows and its log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupBase {
    /// The database.
    pub database: DatabaseId,
    /// The timeline that it was on.
    pub timeline: TimelineId,
    /// Its page size.
    pub page_bytes: u32,
    /// Its segment size.
    pub segment_bytes: u64,
    /// When it was created, in microseconds since 1970.
    pub created_micros: i64,
    /// The file `keys` of an encrypted database, which the master key of that database opens.
    pub keys: Option<Vec<u8>>,
    /// Where the replay starts.
    pub redo_point: Lsn,
    /// From here on, the log has every row until the backup has ended; before, the rows have what it lacks.
    pub complete_from: Lsn,
    /// In-doubt transactions at the redo point.
    pub in_doubt: u64,
    /// No storage had this number or a higher one when it began.
    pub first_new_table: TableId,
    /// The storages that were being loaded then, in order.
    pub loading: Vec<TableId>,
}

impl BackupBase {
    /// Whether a backup that begins with this can be an increment of one that began with `parent`, as far as these tell.
    fn is_later_than(&self, parent: &BackupBase) -> bool {
        self.database == parent.database && self.redo_point >= parent.redo_point
    }

    /// Whether leaves of storages `first..=last` may be written before it began and linked into the tree after.
    fn may_link_later(&self, first: TableId, last: TableId) -> bool {
        last >= self.first_new_table || self.loading.iter().any(|storage| (first..=last).contains(storage))
    }
}

/// What a backup builds on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupParent {
    /// What that began with.
    pub base: BackupBase,
    /// It was cut short, and has the rows below this key. `None`: it has all.
    pub reached: Option<Vec<u8>>,
}

impl BackupParent {
    /// Whether it has the rows up to `last`, this one included.
    fn has(&self, last: &[u8]) -> bool {
        self.reached.as_deref().is_none_or(|reached| last < reached)
    }
}

/// Where a backup has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackupEnd {
    /// A restore goes at least up to here.
    pub end: Lsn,
    /// No storage has this number or a higher one.
    pub next_table: TableId,
    /// When that was, in microseconds since 1970.
    pub time_micros: i64,
}

/// What a walk comes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackupItem<'a> {
    /// A row.
    Row {
        /// Its key in the tree.
        key: &'a [u8],
        /// Its value.
        value: &'a [u8],
    },
    /// From the first of these keys to the last one, all is as the parent has it.
    Kept {
        /// The first key.
        first: &'a [u8],
        /// The last one.
        last: &'a [u8],
        /// Of the rows that are kept, if it was asked for ([`Backup::keep_since`]).
        sum: Option<RowSum>,
    },
}

/// A stretch of the walk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BackupRange {
    /// No change in its rows is newer; the log is durable up to here.
    pub stamp: Lsn,
    /// Bytes of the leaves that were looked at, and of long values, which lie elsewhere.
    pub read_bytes: u64,
    /// Where the next one starts; `None`: it was the last.
    pub next: Option<Vec<u8>>,
}

/// Where the rows go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Destination {
    Repository,
    /// It may be one of those that commits wait for.
    Standby,
}

/// A backup under way: keeps the log from its redo point on, and loads in the log. See the module.
#[derive(Debug)]
pub struct Backup {
    engine: Arc<Engine>,
    base: BackupBase,
    /// What it builds on, the newest first.
    parents: Vec<BackupParent>,
    /// What is kept comes with a sum over its rows.
    sums_rows: bool,
    /// Rows of the system keyspace.
    system_rows: Vec<KeyValue>,
    hold: LogHold,
    _loads: LoadsLogged,
    end: Lsn,
    destination: Destination,
}

impl Backup {
    /// Begins a backup; `name` is that of the hold that keeps the log meanwhile.
    ///
    /// # Errors
    /// `LogHold` if there is a hold of this name; `ReadOnly`; damage met on the way.
    pub fn begin(database: &Database, name: &str) -> Result<Backup, Error> {
        database.engine().lifecycle.check_writable()?;
        check_archiving(&*database.engine().environment.disk)?;
        let (hold, loads) = needed_log(database.engine(), name)?;
        Backup::begin_with(database.engine(), hold, loads, Destination::Repository)
    }

    /// As `begin`, of a database that may be kept from archiving: its rows go to a standby, and into no repository. Takes a checkpoint
    /// (`redo_point`).
    ///
    /// # Errors
    /// As `begin`, and those of a checkpoint.
    pub fn begin_copy(database: &Database, name: &str) -> Result<Backup, Error> {
        let engine = database.engine();
        engine.lifecycle.check_writable()?;
        let (hold, loads) = needed_log(engine, name)?;
        redo_point::move_behind_loads(engine, loads.since)?;
        Backup::begin_with(engine, hold, loads, Destination::Standby)
    }

    fn begin_with(
        engine: &Arc<Engine>,
        hold: LogHold,
        loads: LoadsLogged,
        destination: Destination,
    ) -> Result<Backup, Error> {
        // Nobody changes the tree as long as this is kept.
        let state = engine.checkpoint_turn.take();
        let superblock = engine.redo.superblock();
        let base = base_of(engine, &superblock, loads.since)?;
        let system_rows = system_rows(&engine.tree)?;
        let end = log_beyond(engine, base.redo_point)?;
        drop(state);
        Ok(Backup {
            engine: Arc::clone(engine),
            base,
            parents: Vec::new(),
            sums_rows: false,
            system_rows,
            hold,
            _loads: loads,
            end,
            destination,
        })
    }

    /// Makes it an increment of earlier backups, the newest first, each of which builds on the next: what has not changed since
    /// is not given out. They have ended, or were cut short, on the history of this timeline. Before the first range.
    ///
    /// # Errors
    /// `BackupParent` if one is of another database, or is not older.
    pub fn build_on(&mut self, parents: Vec<BackupParent>) -> Result<(), Error> {
        if let Some(other) = parents.iter().find(|parent| !self.base.is_later_than(&parent.base)) {
            return Err(Error::BackupParent { redo_point: other.base.redo_point });
        }
        self.parents = parents;
        Ok(())
    }

    /// Keeps what has not changed since `since`, for a server that has the rows as of there, and its storages: see the module. `None` gives
    /// all rows out again.
    pub fn keep_since(&mut self, since: Option<Lsn>) {
        let base = |redo_point| BackupBase {
            redo_point,
            // Whether it has the leaves of a load, the sums say.
            first_new_table: TableId::new(u64::MAX),
            loading: Vec::new(),
            ..self.base.clone()
        };
        self.parents =
            since.into_iter().map(|since| BackupParent { base: base(since), reached: None }).collect();
        self.sums_rows = since.is_some();
    }

    /// What it begins with.
    pub fn base(&self) -> &BackupBase {
        &self.base
    }

    /// The rows of the system keyspace, in order.
    pub fn system_rows(&self) -> &[KeyValue] {
        &self.system_rows
    }

    /// Where the first range of users' rows starts.
    pub fn first_key(&self) -> Vec<u8> {
        row_key::table_range(TableId::new(FIRST_USER_TABLE)).0
    }

    /// Walks from `from` on, in the order of keys, over leaves and long values of `bytes`, or one row or leaf more, and
    /// gives what it comes by to `give`.
    ///
    /// # Errors
    /// Damage met on the way; `Stopped`, `Closed`.
    pub fn read_range(
        &mut self,
        from: &[u8],
        bytes: u64,
        give: &mut dyn FnMut(BackupItem<'_>),
    ) -> Result<BackupRange, Error> {
        self.engine.lifecycle.check_open()?;
        let mut walk = Walk {
            engine: &self.engine,
            parents: &self.parents,
            sums_rows: self.sums_rows,
            give,
            kept: None,
        };
        walk.range(from, bytes)
    }

    /// How much of the log it needs so far: up to here it is durable.
    pub fn end(&self) -> Lsn {
        self.end
    }

    /// Where a restore has to go; what is left to do is to archive the log up to there.
    ///
    /// # Errors
    /// `LogHoldLost` if the log that it needs may be gone; `StandbysLack` if no quorum of standbys gets that log in time; `Stopped`.
    pub fn finish(&mut self) -> Result<BackupEnd, Error> {
        let engine = &self.engine;
        // Where the hold stands is where it stood; the answer is whether it is there.
        self.hold.advance(self.hold.position())?;
        // What is in a page is durable in the log, and what marks a page as changed.
        self.end = self.end.max(engine.flushed());
        if self.destination == Destination::Repository {
            // No failover may take back what is in there.
            engine.wait_safe_for_archives(self.end)?;
        }
        let next_table = TableId::new(engine.objects.next_id());
        Ok(BackupEnd { end: self.end, next_table, time_micros: engine.clock().wall_micros() })
    }
}

/// Notes in the directory of a database how far its backups have come.
#[derive(Clone, Debug)]
pub struct BackupNotes {
    engine: Arc<Engine>,
}

impl BackupNotes {
    /// Notes that the backup with this name has come so far, durably: before the repository has what says so.
    ///
    /// # Errors
    /// `Io`, `DiskFull`.
    pub fn note(&self, name: &str, reach: BackupReach) -> Result<(), Error> {
        let _one_at_a_time = self.engine.backups_begun.lock();
        begun::note(&*self.engine.environment.disk, name, reach)
    }
}

impl Backup {
    /// The log that leads to `end`, as far as it lies in one segment file and is still here: the file and what it has up to there, its
    /// header included.
    ///
    /// # Errors
    /// `Io`.
    pub fn log_before(&self, end: Lsn) -> Result<Option<(SegmentName, Vec<u8>)>, Error> {
        let engine = &self.engine;
        let superblock = engine.redo.superblock();
        let number = end.get().saturating_sub(1) / superblock.segment_bytes;
        let name = SegmentName { number, timeline: superblock.timeline };
        let disk = &*engine.environment.disk;
        let bytes = end.get() - number * superblock.segment_bytes;
        let mut content = vec![
            0;
            usize::try_from(bytes)
                .map_err(|_| Error::Io { message: "a segment is too long".to_owned() })?
        ];
        let read =
            disk.open(&name.path(), OpenMode::Read).and_then(|file| file.read_exact_at(&mut content, 0));
        // It is overwritten only when it has got another name.
        match read.and_then(|()| disk.open(&name.path(), OpenMode::Read)) {
            Ok(_) => Ok(Some((name, content))),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::UnexpectedEof) => Ok(None),
            Err(error) => Err(Error::io(&error)),
        }
    }

    /// To note in the directory how far the backup has come.
    pub fn notes(&self) -> BackupNotes {
        BackupNotes { engine: Arc::clone(&self.engine) }
    }

    /// The last backups that were noted in this directory: others are of another copy of it.
    ///
    /// # Errors
    /// `Io`.
    pub fn begun_here(&self) -> Result<Vec<BegunBackup>, Error> {
        begun::read(&*self.engine.environment.disk)
    }

    /// Puts the log that a restore needs into an archive: from the redo point to where the backup has ended. What is there already
    /// is fine. The checksum of that log ([`LogChecksum`]).
    ///
    /// # Errors
    /// `Archive`.
    pub fn store_log(&self, archive: &dyn LogArchive) -> Result<u64, Error> {
        let engine = &self.engine;
        let superblock = engine.redo.superblock();
        let history = crate::recovery::timeline::history_of(&engine.environment.disk, &superblock)?;
        let geometry = LogGeometry::new(superblock.segment_bytes).map_err(|error| Error::log(&error))?;
        let log = ArchivedLog { database: superblock.database, segment_bytes: superblock.segment_bytes };
        let disk = &*engine.environment.disk;
        let store = |file| upload(disk, archive, &log, file);
        let failed = |LogArchiveError(message)| Error::Archive { message };
        let pieces = LogPieces { history, geometry };
        for timeline in pieces.timelines_with_history() {
            store(LogFile::History(timeline)).map_err(failed)?;
        }
        let mut after = self.base.redo_point;
        let mut checksum = LogChecksum::new(superblock.segment_bytes, after, self.end);
        while let Some(piece) = pieces.next(after, self.end) {
            let content = store(piece.file).map_err(failed)?;
            checksum.add(pieces.geometry.segment_of(after), &content, piece.end);
            after = piece.end;
        }
        let (segment, _) = pieces.current(self.end);
        if let Some(to) = pieces.durable_bytes(self.end) {
            let content = store(LogFile::Tail { segment, from: 0, to }).map_err(failed)?;
            checksum.add(segment.number, &content, self.end);
        }
        checksum.complete().ok_or_else(|| Error::Log {
            message: format!(
                "what was archived does not reach {}, where the backup ended; take it again",
                self.end
            ),
        })
    }
}

/// From now on the log is kept, and loads are in it.
fn needed_log(engine: &Arc<Engine>, name: &str) -> Result<(LogHold, LoadsLogged), Error> {
    let options =
        HoldOptions { kind: HoldKind::Backup, lifetime: HoldLifetime::Process, ..HoldOptions::default() };
    let hold = engine.hold_log(name, options, None)?;
    Ok((hold, engine.need_loads_in_log()?))
}

/// Moves the end of the durable log past the redo point: a later change of the tree has a later stamp. It also leaves
/// something of the log to archive, of a database that has no writes.
fn log_beyond(engine: &Engine, redo_point: Lsn) -> Result<Lsn, Error> {
    let mut record = PreparedRecord::no_op(0);
    let appended = engine.append(&mut record, |_| Ok::<_, Infallible>(()));
    let Ok((span, ())) = appended?;
    engine.log()?.flush_until(span.end)?;
    debug_assert!(span.end > redo_point, "the redo point is in the log");
    Ok(span.end)
}

fn base_of(engine: &Engine, superblock: &Superblock, complete_from: Lsn) -> Result<BackupBase, Error> {
    let keys = match superblock.encryption {
        Encryption::None => None,
        Encryption::Xaes256Gcm => Some(read_keys(&*engine.environment.disk)?),
    };
    // Together: whoever draws a number has the other lock.
    let loading = engine.loads.storages();
    let first_new_table = TableId::new(engine.objects.next_id());
    let mut loading: Vec<TableId> = loading.iter().copied().collect();
    loading.sort_unstable();
    Ok(BackupBase {
        database: superblock.database,
        timeline: superblock.timeline,
        page_bytes: superblock.page_bytes,
        segment_bytes: superblock.segment_bytes,
        created_micros: superblock.created_micros,
        keys,
        redo_point: superblock.redo_point,
        complete_from,
        in_doubt: superblock.in_doubt,
        first_new_table,
        loading,
    })
}

fn read_keys(disk: &dyn Disk) -> Result<Vec<u8>, Error> {
    let read = || {
        let file = disk.open(KEYS_PATH, OpenMode::Read)?;
        let bytes = usize::try_from(file.length()?.min(KEYS_BYTES_MAX)).map_err(std::io::Error::other)?;
        let mut content = vec![0; bytes];
        file.read_exact_at(&mut content, 0)?;
        Ok(content)
    };
    read().map_err(|error: std::io::Error| match error.kind() {
        ErrorKind::NotFound => Error::Keys { message: format!("{} is missing", disk.location(KEYS_PATH)) },
        _ => Error::io(&error),
    })
}

/// The rows of all system tables of a tree that does not change meanwhile.
fn system_rows(tree: &Tree) -> Result<Vec<KeyValue>, Error> {
    let failed = |error| Error::tree(&error);
    let (end, _) = row_key::table_range(TableId::new(FIRST_USER_TABLE));
    let mut found = Vec::new();
    let mut position = tree.leaf_for(&[], Direction::Forward).map_err(failed)?;
    loop {
        let leaf = position.leaf();
        for index in 0..leaf.len() {
            let (row, key) = (leaf.row(index), leaf.key(index).to_vec());
            if key >= end {
                return Ok(found);
            }
            let value = match row.value {
                LeafValue::Inline(value) => value.to_vec(),
                LeafValue::Overflow(reference) => {
                    let read = tree.read_overflow(reference, position.version()).map_err(failed)?;
                    read.ok_or_else(|| Error::Tree {
                        message: "the tree changed while it was read".to_owned(),
                    })?
                }
                LeafValue::Deleted => {
                    return Err(failed(tree.pages().deleted_outside_of_runs(position.page().view().id())));
                }
            };
            found.push((key, value));
        }
        if !tree.move_on(&mut position, Direction::Forward).map_err(failed)? {
            return Ok(found);
        }
    }
}
