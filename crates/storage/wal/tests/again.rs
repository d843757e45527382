//! What a process that ended in the middle of a flush has left in the cache is made durable before it is built upon; and
//! a segment that is missing under a record is missed.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::{arc, commit, create, geometry, open_reader, options, place};
use seawall_simulation::{PowerLoss, SimulatedDisk};
use seawall_types::Lsn;
use seawall_wal::{Log, LogReadError};

fn read_to_end(disk: &SimulatedDisk, from: Lsn) -> seawall_wal::LogEnd {
    let mut reader = open_reader(disk, from).unwrap();
    while reader.next().unwrap().is_some() {}
    reader.finish()
}

#[test]
fn a_batch_left_in_the_cache_is_durable_once_the_log_is_open() {
    let disk = SimulatedDisk::new(1);
    let log = create(&disk);
    let start = log.appended();
    commit(&log, b"durable").unwrap();
    // The process is killed while the system has taken the write and not yet synced it.
    disk.crash_at(disk.calls());
    commit(&log, &[7; 20_000]).unwrap_err();
    drop(log);
    let killed = disk.copy();
    let end = read_to_end(&killed, start);
    assert!(end.durable < end.lsn);
    assert_eq!(read_to_end(&killed.after_power_loss(PowerLoss::LoseAll), start).lsn, end.durable);
    let log = Log::open(arc(&killed), options(), end).unwrap();
    let reopened = killed.after_power_loss(PowerLoss::LoseAll);
    assert_eq!(read_to_end(&reopened, start).lsn, end.lsn);
    let next = commit(&log, b"next").unwrap();
    assert_eq!(read_to_end(&killed.after_power_loss(PowerLoss::LoseAll), start).lsn, next.end);
}

#[test]
fn a_removed_segment_that_the_last_record_needs_is_missed() {
    let disk = SimulatedDisk::new(1);
    let log = create(&disk);
    let start = log.appended();
    let span = commit(&log, &vec![7; 70_000]).unwrap();
    log.prepare_ahead().unwrap();
    drop(log);
    let last = geometry().segment_of(span.end);
    assert!(last > geometry().segment_of(start));
    assert!(disk.remove_file(&place(geometry().first_record_of(last)).0));
    let error = open_reader(&disk, start).unwrap().next().map(|_| ()).unwrap_err();
    assert!(matches!(error, LogReadError::Missing { lsn, .. } if lsn == start), "{error}");
}
