//! Checking the log that others need: archives, standbys, backups. Recovery reads none of it, so nobody else would find
//! out that it has rotted before the day on which it is all that is left.

use std::sync::Arc;

use seawall_io::Disk;
use seawall_keys::DatabaseKeys;
use seawall_tree::Superblock;
use seawall_types::Lsn;
use seawall_wal::{HoldInfo, HoldKind};

use super::{Reports, check_record};
use crate::error::Error;
use crate::log_hold::needed_from;
use crate::log_records::open_reader;

/// From where on somebody in particular needs the log; the redo point, if that is further back.
pub(super) fn held_from(redo_point: Lsn, holds: &[HoldInfo]) -> Lsn {
    let held: Vec<HoldInfo> =
        holds.iter().filter(|hold| hold.options.kind != HoldKind::Keep).cloned().collect();
    needed_from(redo_point, &held)
}

/// Reads the log from where it is held to the redo point; how many records that are. `held_from` is asked again where it
/// cannot be read: in an open database, holders move on and segments go.
pub(super) fn check_held_log(
    disk: &Arc<dyn Disk>,
    superblock: &Superblock,
    keys: Option<&DatabaseKeys>,
    held_from: &dyn Fn() -> Lsn,
    reports: &mut Reports<'_>,
) -> u64 {
    loop {
        let from = held_from();
        if from >= superblock.redo_point {
            return 0;
        }
        match read_held_log(disk, superblock, keys, from, reports) {
            Ok(records) => return records,
            Err(_) if held_from() > from => {}
            Err(error) => {
                reports.tell_plain("log", format!("{error}; the log is held from {from} on"));
                return 0;
            }
        }
    }
}

fn read_held_log(
    disk: &Arc<dyn Disk>,
    superblock: &Superblock,
    keys: Option<&DatabaseKeys>,
    from: Lsn,
    reports: &mut Reports<'_>,
) -> Result<u64, Error> {
    let redo_point = superblock.redo_point;
    let files = crate::open::list_log_files(disk, superblock)?;
    let mut beginnings = files.beginnings(redo_point).peekable();
    let oldest = beginnings.peek().copied().unwrap_or(redo_point);
    // A hold may begin in the middle of a record, and its segment too: what is read begins with the first whole one.
    let Some(beginning) = beginnings.take_while(|beginning| *beginning <= from).last() else {
        return Err(Error::Log { message: format!("segments before {oldest} are missing") });
    };
    let first = open_reader(disk, superblock, keys, beginning)?.find_record();
    let Some(first) = first.map_err(|error| Error::log_read(&error))?.filter(|first| *first < redo_point)
    else {
        return Ok(0);
    };
    let mut reader = open_reader(disk, superblock, keys, first)?;
    reader.set_limit(redo_point);
    let mut records = 0;
    while let Some(record) = reader.next().map_err(|error| Error::log_read(&error))? {
        records += 1;
        if let Err(what) = check_record(&record) {
            reports.tell_plain("log", format!("record at {}: {what}", record.span.start));
        }
    }
    Ok(records)
}
