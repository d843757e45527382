//! The records of a database's log, for people who want to know what happened.

use std::ops::ControlFlow;
use std::sync::Arc;

use seawall_io::Disk;
use seawall_keys::{DatabaseKeys, MasterKey};
use seawall_tree::Superblock;
use seawall_types::{Lsn, TimelineId};
use seawall_wal::{Changes, LogReadError, LogReader, LogRecord, Record};

use crate::encryption::{log_cipher, open_keys, open_superblock};
use crate::environment::Environment;
use crate::error::Error;
use crate::log::hold::{hold_error, needed_from};
use crate::options::Options;
use crate::row_key;

/// One record of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogRecordInfo {
    /// Where it starts.
    pub lsn: Lsn,
    /// Where the next one starts; the stamp of a commit.
    pub end: Lsn,
    /// Its timeline.
    pub timeline: TimelineId,
    /// What it says.
    pub content: LogContent,
}

/// What a record says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogContent {
    /// A transaction committed.
    Commit {
        /// When, in microseconds since 1970.
        time_micros: i64,
        /// What it wrote.
        changes: Vec<LogChange>,
    },
    /// A transaction was prepared.
    Prepare {
        /// The coordinator's name for it.
        gid: String,
        /// Who prepared it.
        owner: String,
        /// When, in microseconds since 1970.
        time_micros: i64,
        /// What it wrote, to be put if it is committed.
        changes: Vec<LogChange>,
    },
    /// A prepared transaction was committed.
    CommitPrepared {
        /// The coordinator's name for it.
        gid: String,
        /// Stamp of the prepare: the end of its record.
        prepared: Lsn,
        /// When, in microseconds since 1970.
        time_micros: i64,
        /// What was put beside the prepared rows.
        changes: Vec<LogChange>,
    },
    /// A prepared transaction was rolled back.
    RollbackPrepared {
        /// The coordinator's name for it.
        gid: String,
        /// Stamp of the prepare: the end of its record.
        prepared: Lsn,
        /// When, in microseconds since 1970.
        time_micros: i64,
        /// What was put with the decision.
        changes: Vec<LogChange>,
    },
    /// A checkpoint began: it froze the memtable here.
    Checkpoint {
        /// Where a replay starts until the checkpoint is done.
        redo_point: Lsn,
        /// When, in microseconds since 1970.
        time_micros: i64,
    },
    /// The log goes on on a new timeline.
    TimelineSwitch {
        /// The new one.
        timeline: TimelineId,
        /// The one it leaves.
        parent: TimelineId,
        /// Where.
        fork: Lsn,
        /// When, in microseconds since 1970.
        time_micros: i64,
    },
    /// A name for a position to recover to.
    RestorePoint {
        /// The name.
        name: String,
        /// When, in microseconds since 1970.
        time_micros: i64,
    },
    /// Rows that are in no record were loaded in bulk.
    BulkLoad {
        /// Number under which they lie.
        table: u64,
        /// When, in microseconds since 1970.
        time_micros: i64,
    },
    /// Padding.
    NoOp,
    /// Copies of pages that a checkpoint overwrites, against torn ones.
    PageImages {
        /// Number of the chunk.
        chunk: u64,
        /// Images in the record.
        images: u64,
        /// Bytes stored for them.
        stored_bytes: u64,
    },
}

/// One row that a commit wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogChange {
    /// Number under which the table's rows lay: `TableInfo::storage`. System tables have numbers below 64.
    pub table: u64,
    /// Its key.
    pub key: Vec<u8>,
    /// Length of its value; `None` is a delete.
    pub value_bytes: Option<u64>,
}

/// Tells `visit` of each record from `from` on, or from the oldest that is kept.
pub(crate) fn log_records(
    environment: &Environment,
    master_key: Option<&MasterKey>,
    from: Option<Lsn>,
    visit: &mut dyn FnMut(LogRecordInfo) -> ControlFlow<()>,
) -> Result<(), Error> {
    let (_, superblock, _) = open_superblock(&*environment.disk)?;
    let options = Options { master_key: master_key.cloned(), ..Options::default() };
    let keys = open_keys(environment, &superblock, &options)?;
    let keys = keys.as_ref();
    let from = match from {
        Some(from) => from,
        None => oldest_record(&environment.disk, &superblock, keys)?,
    };
    let mut reader = open_reader(&environment.disk, &superblock, keys, from)?;
    while let Some(record) = next_record(&mut reader, &environment.disk)? {
        let content = content_of(&record).map_err(|problem| Error::Log {
            message: format!("record at {}: {problem}", record.span.start),
        })?;
        let (lsn, end) = (record.span.start, record.span.end);
        let info = LogRecordInfo { lsn, end, timeline: record.timeline, content };
        if visit(info).is_break() {
            break;
        }
    }
    Ok(())
}

/// Reads the log of the database from `from` on.
pub(crate) fn open_reader(
    disk: &Arc<dyn Disk>,
    superblock: &Superblock,
    keys: Option<&DatabaseKeys>,
    from: Lsn,
) -> Result<LogReader, Error> {
    let history = crate::recovery::timeline::history_of(disk, superblock)?;
    let (database, segment_bytes) = (superblock.database, superblock.segment_bytes);
    let reader = LogReader::open_history(Arc::clone(disk), database, history, segment_bytes, from);
    let reader = reader.map_err(|error| Error::log(&error))?;
    Ok(reader.durable_until(superblock.log_end).decrypted_with(log_cipher(keys)))
}

/// The next record of a database that may be open elsewhere. What a checkpoint passes meanwhile may go: that is no damage.
pub(crate) fn next_record<'a>(
    reader: &'a mut LogReader,
    disk: &Arc<dyn Disk>,
) -> Result<Option<LogRecord<'a>>, Error> {
    let lsn = reader.position();
    let is_gone = match reader.next() {
        Ok(Some(record)) => return Ok(Some(record)),
        // The log goes on at least to the redo point. Where nothing is left before that, it seems to end.
        Ok(None) => None,
        Err(error @ LogReadError::Missing { .. }) => Some(error),
        Err(error) => return Err(Error::log(&error)),
    };
    // Asked after the failure: what is needed now was needed then.
    match (kept_from(disk)?, is_gone) {
        (kept_from, _) if lsn < kept_from => Err(Error::LogNotKept { lsn, kept_from }),
        (_, Some(error)) => Err(Error::log(&error)),
        (_, None) => Ok(None),
    }
}

/// The log is needed from here on, as the files say.
fn kept_from(disk: &Arc<dyn Disk>) -> Result<Lsn, Error> {
    let (_, superblock, _) = open_superblock(&**disk)?;
    let holds = seawall_wal::read_holds(&**disk, superblock.database).map_err(|error| hold_error(&error))?;
    Ok(needed_from(superblock.redo_point, &holds))
}

/// Where the first whole record of the oldest segment starts: the segment may begin in the middle of one.
pub(crate) fn oldest_record(
    disk: &Arc<dyn Disk>,
    superblock: &Superblock,
    keys: Option<&DatabaseKeys>,
) -> Result<Lsn, Error> {
    let redo_point = superblock.redo_point;
    for start in crate::recovery::timeline::list_log_files(disk, superblock)?.beginnings(redo_point) {
        if start >= redo_point {
            break;
        }
        // One that is being recycled has the header of another place, or is gone by now.
        let Ok(mut reader) = open_reader(disk, superblock, keys, start) else { continue };
        // What does not verify there is the rest of a record.
        if let Ok(Some(first)) = reader.find_record() {
            return Ok(first.min(redo_point));
        }
    }
    Ok(redo_point)
}

pub(crate) fn content_of(record: &LogRecord<'_>) -> Result<LogContent, String> {
    Ok(match record.decode().map_err(|error| error.to_string())? {
        Record::Commit(commit) => {
            LogContent::Commit { time_micros: commit.time_micros, changes: changes_of(commit.changes())? }
        }
        Record::Checkpoint(checkpoint) => {
            LogContent::Checkpoint { redo_point: checkpoint.redo_point, time_micros: checkpoint.time_micros }
        }
        Record::TimelineSwitch(switch) => LogContent::TimelineSwitch {
            timeline: switch.timeline,
            parent: switch.parent,
            fork: switch.fork,
            time_micros: switch.time_micros,
        },
        Record::RestorePoint(point) => {
            LogContent::RestorePoint { name: point.name.to_owned(), time_micros: point.time_micros }
        }
        Record::Prepare(prepare) => LogContent::Prepare {
            gid: prepare.gid.to_owned(),
            owner: prepare.owner.to_owned(),
            time_micros: prepare.commit.time_micros,
            changes: changes_of(prepare.changes())?,
        },
        Record::CommitPrepared(decision) => LogContent::CommitPrepared {
            gid: decision.gid.to_owned(),
            prepared: decision.prepared,
            time_micros: decision.commit.time_micros,
            changes: changes_of(decision.changes())?,
        },
        Record::RollbackPrepared(decision) => LogContent::RollbackPrepared {
            gid: decision.gid.to_owned(),
            prepared: decision.prepared,
            time_micros: decision.commit.time_micros,
            changes: changes_of(decision.changes())?,
        },
        Record::BulkLoad(load) => {
            LogContent::BulkLoad { table: load.table.get(), time_micros: load.time_micros }
        }
        Record::NoOp => LogContent::NoOp,
        Record::PageImages(images) => LogContent::PageImages {
            chunk: images.chunk,
            images: u64::try_from(images.entries().len()).unwrap_or(u64::MAX),
            stored_bytes: u64::try_from(images.stored.len()).unwrap_or(u64::MAX),
        },
    })
}

fn changes_of(changes: Changes<'_>) -> Result<Vec<LogChange>, String> {
    let mut row_key = Vec::new();
    let mut found = Vec::new();
    for change in changes {
        let change = change.map_err(|error| error.to_string())?;
        change.copy_row_key(&mut row_key);
        let length = |value: &[u8]| u64::try_from(value.len()).unwrap_or(u64::MAX);
        found.push(LogChange {
            table: change.table().get(),
            key: row_key::key_of(&row_key).to_vec(),
            value_bytes: change.value().map(length),
        });
    }
    Ok(found)
}
