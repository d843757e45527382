//! What a backup reads of a database that is in use.
//!
//! ```text
//!   log      |G------------------- loads are logged --------------------|
//!        |B                                                              E|   what a restore replays
//!             [system keyspace as of B][range at S1][range at S2] ...         what it replays onto
//! ```
//! A replay from B over rows that are as of any moment between B and E gives the same as over those as of B: records say what a
//! row is. So each range has a short snapshot of its own, and no snapshot is held for long. What a replay needs besides:
//!
//! * The system keyspace exactly as of B: decisions find their transactions, reclaimed storages are listed. It is read from
//!   the tree while nobody may change it, and the tree has it as of the redo point, so B is that.
//! * No commit in the rows that a crash of this database could still take back: a range is given out when the log is durable
//!   up to its snapshot.
//! * No row that is in no log: from G on, loads are logged, and those before are in the tree when the first range is read.
//! * A restore to E or later, and on a timeline that has this one's log up to E.
//!
//! Rows of storages that nobody sees are among the others: of loads that are not published yet, and of dropped tables.

use std::convert::Infallible;
use std::io::ErrorKind;
use std::ops::Bound;
use std::sync::Arc;

use seawall_io::{Disk, OpenMode};
use seawall_keys::KEYS_PATH;
use seawall_tree::page::LeafValue;
use seawall_tree::{Encryption, Superblock, Tree};
use seawall_types::{DatabaseId, Lsn, TableId, TimelineId};
use seawall_wal::{HoldKind, HoldLifetime, HoldOptions, LogGeometry, PreparedRecord};

use crate::archiver::pieces::LogPieces;
use crate::archiver::uploads::upload;
use crate::catalog::FIRST_USER_TABLE;
use crate::engine::Engine;
use crate::error::Error;
use crate::load_log::LoadsLogged;
use crate::log_archive::{ArchivedLog, LogArchive, LogArchiveError, LogFile};
use crate::log_hold::LogHold;
use crate::row_key;
use crate::scan::{Direction, Range};

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
    /// Of an encrypted database: its file `keys`, which a master key of its own opens.
    pub keys: Option<Vec<u8>>,
    /// Where the replay starts.
    pub redo_point: Lsn,
    /// From here on, the log has every row until the backup has ended; before, the rows have what it lacks.
    pub complete_from: Lsn,
    /// In-doubt transactions at the redo point.
    pub in_doubt: u64,
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

/// A range that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupRange {
    /// Its rows are as of this snapshot. The log is durable up to here.
    pub snapshot: Lsn,
    /// How many rows there were.
    pub rows: u64,
    /// Where the next one starts; `None`: it was the last.
    pub next: Option<Vec<u8>>,
}

/// A backup under way: keeps the log from its redo point on, and loads in the log. See the module.
#[derive(Debug)]
pub struct Backup {
    engine: Arc<Engine>,
    base: BackupBase,
    /// Rows of the system keyspace.
    system_rows: Vec<KeyValue>,
    hold: LogHold,
    _loads: LoadsLogged,
    end: Lsn,
}

impl Backup {
    pub(crate) fn begin(engine: &Arc<Engine>, name: &str) -> Result<Backup, Error> {
        engine.check_writable()?;
        let options =
            HoldOptions { kind: HoldKind::Backup, lifetime: HoldLifetime::Process, ..HoldOptions::default() };
        let hold = engine.hold_log(name, options, None)?;
        let loads = engine.need_loads_in_log()?;
        let (superblock, system_rows) = {
            let _state = engine.lock_checkpoint();
            (engine.superblock.lock().clone(), system_rows(&engine.tree)?)
        };
        let base = base_of(engine, &superblock, loads.since)?;
        let end = base.redo_point.max(base.complete_from);
        Ok(Backup { engine: Arc::clone(engine), base, system_rows, hold, _loads: loads, end })
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

    /// Gives the rows from `from` on to `row`, in order, until they are `bytes` long or at their end. What was given out must not
    /// be kept before this returns: only then a crash cannot take it back.
    ///
    /// # Errors
    /// Damage met on the way, `SnapshotCancelled`, `Stopped`, `Closed`. What was given out is void then; the range can be read again.
    pub fn read_range(
        &mut self,
        from: &[u8],
        bytes: usize,
        row: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<BackupRange, Error> {
        let engine = &self.engine;
        engine.check_open()?;
        let snapshot = engine.register_snapshot();
        let lsn = snapshot.lsn();
        let (from, to) = (Bound::Included(from.to_vec()), Bound::Unbounded);
        let mut rows = Range::new(engine, snapshot, None, from, to, Direction::Forward);
        let (mut count, mut taken, mut next) = (0, 0, None);
        while let Some((key, value)) = rows.next_entry()? {
            row(key, value);
            count += 1;
            taken += key.len() + value.len();
            if taken >= bytes {
                // The key after this one.
                next = Some([key, &[0]].concat());
                break;
            }
        }
        drop(rows);
        engine.flush_until(lsn)?;
        self.end = self.end.max(lsn);
        Ok(BackupRange { snapshot: lsn, rows: count, next })
    }

    /// How much of the log it needs so far: up to here it is durable.
    pub fn end(&self) -> Lsn {
        self.end
    }

    /// Makes the log durable up to where a restore has to go; what is left to do is to archive it up to there.
    ///
    /// # Errors
    /// `LogHoldLost` if the log that it needs may be gone; `Stopped`.
    pub fn finish(&mut self) -> Result<BackupEnd, Error> {
        let engine = &self.engine;
        // Where the hold stands is where it stood; the answer is whether it is there.
        self.hold.advance(self.hold.position())?;
        // So that there is something of the log to archive, also of a database that nobody has written to.
        let mut record = PreparedRecord::no_op(0);
        let appended = engine.log()?.append(&mut record, |_| Ok::<_, Infallible>(()));
        let Ok((span, ())) = appended.map_err(|error| engine.log_error(&error))?;
        engine.flush_until(span.end)?;
        self.end = self.end.max(engine.flushed());
        let next_table = TableId::new(engine.objects().next_id());
        Ok(BackupEnd { end: self.end, next_table, time_micros: engine.clock().wall_micros() })
    }
}

impl Backup {
    /// Puts the log that a restore needs into an archive: from the redo point to where the backup has ended. What is there already
    /// is fine.
    ///
    /// # Errors
    /// `Archive`.
    pub fn store_log(&self, archive: &dyn LogArchive) -> Result<(), Error> {
        let engine = &self.engine;
        let superblock = engine.superblock.lock().clone();
        let history = crate::timeline::history_of(&engine.environment.disk, &superblock)?;
        let geometry = LogGeometry::new(superblock.segment_bytes).map_err(|error| Error::log(&error))?;
        let log = ArchivedLog { database: superblock.database, segment_bytes: superblock.segment_bytes };
        let disk = &*engine.environment.disk;
        let store = |file| upload(disk, archive, &log, file).map(drop);
        let failed = |LogArchiveError(message)| Error::Archive { message };
        let pieces = LogPieces { history, geometry };
        for timeline in pieces.timelines_with_history() {
            store(LogFile::History(timeline)).map_err(failed)?;
        }
        let mut after = self.base.redo_point;
        while let Some(piece) = pieces.next(after, self.end) {
            store(piece.file).map_err(failed)?;
            after = piece.end;
        }
        let (segment, _) = pieces.current(self.end);
        match pieces.durable_bytes(self.end) {
            Some(to) => store(LogFile::Tail { segment, from: 0, to }).map_err(failed),
            None => Ok(()),
        }
    }
}

fn base_of(engine: &Engine, superblock: &Superblock, complete_from: Lsn) -> Result<BackupBase, Error> {
    let keys = match superblock.encryption {
        Encryption::None => None,
        Encryption::Xaes256Gcm => Some(read_keys(&*engine.environment.disk)?),
    };
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

/// The rows of all system tables of a tree that nobody changes meanwhile.
fn system_rows(tree: &Tree) -> Result<Vec<KeyValue>, Error> {
    let failed = |error| Error::tree(&error);
    let (end, _) = row_key::table_range(TableId::new(FIRST_USER_TABLE));
    let mut found = Vec::new();
    let mut position = tree.leaf_for(&[], seawall_tree::Direction::Forward).map_err(failed)?;
    loop {
        let leaf = position.leaf();
        for index in 0..leaf.len() {
            let row = leaf.row(index);
            let mut key = leaf.prefix().to_vec();
            key.extend_from_slice(row.key.suffix());
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
            };
            found.push((key, value));
        }
        if !tree.move_on(&mut position, seawall_tree::Direction::Forward).map_err(failed)? {
            return Ok(found);
        }
    }
}
