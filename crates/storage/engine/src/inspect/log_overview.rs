//! The log of a database at a glance, from its files: also of one that is open in another process.

use std::sync::Arc;

use seawall_io::Disk;
use seawall_keys::{DatabaseKeys, MasterKey};
use seawall_tree::Superblock;
use seawall_types::{Lsn, TimelineId};
use seawall_wal::{HoldInfo, LogFiles, Record, TimelineFork};

use crate::encryption::{open_keys, open_superblock};
use crate::environment::Environment;
use crate::error::Error;
use crate::inspect::log_records::{next_record, oldest_record, open_reader};
use crate::inspect::statistics::SegmentInfo;
use crate::log::hold::{hold_error, needed_from};
use crate::options::Options;

/// A named position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestorePointInfo {
    /// Its name. There may be several of one name.
    pub name: String,
    /// The position: a recovery to it has everything before.
    pub lsn: Lsn,
    /// The timeline that it is on.
    pub timeline: TimelineId,
    /// When it was made, in microseconds since 1970.
    pub time_micros: i64,
}

/// What a log consists of, and who needs it.
#[derive(Clone, Debug)]
pub struct LogOverview {
    /// The timeline that is written.
    pub timeline: TimelineId,
    /// Its ancestors, oldest first, and where each was left.
    pub ancestors: Vec<TimelineFork>,
    /// Recovery needs the log from here on.
    pub redo_point: Lsn,
    /// The oldest record that can be read.
    pub oldest: Lsn,
    /// Where it ends, as far as the segments tell.
    pub end: Lsn,
    /// Bytes of a segment.
    pub segment_bytes: u64,
    /// Files, by number.
    pub segments: Vec<SegmentInfo>,
    /// Who holds it besides recovery, by name. Of a database that is open, positions are those of the last time that
    /// segments were freed.
    pub holds: Vec<HoldInfo>,
}

/// Looks at names and headers of segments, and at the last one that was written.
pub(crate) fn log_overview(
    environment: &Environment,
    master_key: Option<&MasterKey>,
) -> Result<LogOverview, Error> {
    let disk = &environment.disk;
    let (superblock, keys) = open_files(environment, master_key)?;
    let files = crate::recovery::timeline::list_log_files(disk, &superblock)?;
    let end = end_of_log(disk, &superblock, keys.as_ref(), &files)?;
    let holds = seawall_wal::read_holds(&**disk, superblock.database).map_err(|error| hold_error(&error))?;
    let needed = needed_from(superblock.redo_point, &holds);
    Ok(LogOverview {
        timeline: superblock.timeline,
        ancestors: crate::recovery::timeline::history_of(disk, &superblock)?.forks,
        redo_point: superblock.redo_point,
        oldest: oldest_record(disk, &superblock, keys.as_ref())?,
        end,
        segment_bytes: superblock.segment_bytes,
        segments: files.segments(needed, end).into_iter().map(SegmentInfo::from).collect(),
        holds,
    })
}

/// The named positions between the oldest record of the log and its end: reads all of it.
pub(crate) fn restore_points(
    environment: &Environment,
    master_key: Option<&MasterKey>,
) -> Result<Vec<RestorePointInfo>, Error> {
    let disk = &environment.disk;
    let (superblock, keys) = open_files(environment, master_key)?;
    let oldest = oldest_record(disk, &superblock, keys.as_ref())?;
    let mut reader = open_reader(disk, &superblock, keys.as_ref(), oldest)?;
    let mut restore_points = Vec::new();
    while let Some(record) = next_record(&mut reader, disk)? {
        if let Ok(Record::RestorePoint(point)) = record.decode() {
            restore_points.push(RestorePointInfo {
                name: point.name.to_owned(),
                lsn: record.span.end,
                timeline: record.timeline,
                time_micros: point.time_micros,
            });
        }
    }
    Ok(restore_points)
}

fn open_files(
    environment: &Environment,
    master_key: Option<&MasterKey>,
) -> Result<(Superblock, Option<DatabaseKeys>), Error> {
    let (_, superblock, _) = open_superblock(&*environment.disk)?;
    let options = Options { master_key: master_key.cloned(), ..Options::default() };
    let keys = open_keys(environment, &superblock, &options)?;
    Ok((superblock, keys))
}

/// Reads the last segment that was begun, or all from the redo point on where that is not possible.
fn end_of_log(
    disk: &Arc<dyn Disk>,
    superblock: &Superblock,
    keys: Option<&DatabaseKeys>,
    files: &LogFiles,
) -> Result<Lsn, Error> {
    let redo_point = superblock.redo_point;
    let last = files.last_begun(&**disk, superblock.database).filter(|last| *last > redo_point);
    let first = last.and_then(|last| open_reader(disk, superblock, keys, last).ok()?.find_record().ok()?);
    let mut reader = open_reader(disk, superblock, keys, first.unwrap_or(redo_point))?;
    while reader.next().map_err(|error| Error::log(&error))?.is_some() {}
    Ok(reader.position())
}
