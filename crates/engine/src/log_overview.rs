//! The log of a database at a glance, from its files: also of one that is open in another process.

use std::path::Path;
use std::sync::Arc;

use seawall_io::OsDisk;
use seawall_keys::MasterKey;
use seawall_types::{Lsn, TimelineId};
use seawall_wal::{HoldInfo, Record, TimelineFork};

use crate::encryption::{open_keys, open_superblock};
use crate::engine::Environment;
use crate::error::Error;
use crate::log_hold::{hold_error, needed_from};
use crate::log_records::{oldest_record, open_reader};
use crate::options::Options;
use crate::statistics::SegmentInfo;

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

/// What a log consists of, who needs it, and what it can be recovered to.
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
    /// Named positions between the oldest record and the end.
    pub restore_points: Vec<RestorePointInfo>,
}

/// Looks at the log of the database in `directory`, and reads all of it for the named positions. The database may be open
/// elsewhere: what is not flushed yet is not seen, and what is removed in the middle may be missing.
///
/// # Errors
/// As `log_records`.
pub fn log_overview(
    directory: impl AsRef<Path>,
    master_key: Option<&MasterKey>,
) -> Result<LogOverview, Error> {
    let environment = Environment::of_the_system(Arc::new(OsDisk::new(directory.as_ref())));
    let (_, superblock, _) = open_superblock(&*environment.disk)?;
    let options = Options { master_key: master_key.cloned(), ..Options::default() };
    let keys = open_keys(&environment, &superblock, &options)?;
    let disk = &environment.disk;
    let oldest = oldest_record(disk, &superblock, keys.as_ref())?;
    let mut reader = open_reader(disk, &superblock, keys.as_ref(), oldest)?;
    let mut restore_points = Vec::new();
    while let Some(record) = reader.next().map_err(|error| Error::log_read(&error))? {
        if let Ok(Record::RestorePoint(point)) = record.decode() {
            restore_points.push(RestorePointInfo {
                name: point.name.to_owned(),
                lsn: record.span.end,
                timeline: record.timeline,
                time_micros: point.time_micros,
            });
        }
    }
    let end = reader.position();
    let holds = seawall_wal::read_holds(&**disk, superblock.database).map_err(|error| hold_error(&error))?;
    let needed = needed_from(superblock.redo_point, &holds);
    let files = crate::open::list_log_files(disk, &superblock)?;
    Ok(LogOverview {
        timeline: superblock.timeline,
        ancestors: crate::timeline::history_of(disk, &superblock)?.forks,
        redo_point: superblock.redo_point,
        oldest,
        end,
        segment_bytes: superblock.segment_bytes,
        segments: files.segments(needed, end).into_iter().map(SegmentInfo::from).collect(),
        holds,
        restore_points,
    })
}
