//! Invariant 11: a failed sync is never tried again. A full disk loses nothing.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::{SEGMENT_BYTES, append, arc, commit, create, options, read_all};
use seawall_simulation::{FaultKind, PowerLoss, SimulatedDisk};
use seawall_wal::{Log, LogError};

#[test]
fn after_a_failed_sync_the_log_takes_no_more_writes_until_it_is_opened_again() {
    let disk = SimulatedDisk::new(1);
    let log = create(&disk);
    commit(&log, b"good").unwrap();
    let durable = log.flushed();
    let pending = append(&log, b"unlucky").unwrap();
    disk.fail_next(FaultKind::SyncError);
    assert!(matches!(log.flush_until(pending.end), Err(LogError::Poisoned { .. })));
    let calls = disk.calls();
    for _ in 0..3 {
        assert!(matches!(log.flush_until(pending.end), Err(LogError::Poisoned { .. })));
        assert!(matches!(append(&log, b"more"), Err(LogError::Poisoned { .. })));
        assert!(matches!(log.retain_from(durable), Err(LogError::Poisoned { .. })));
        assert!(matches!(log.prepare_ahead(), Err(LogError::Poisoned { .. })));
    }
    assert_eq!(disk.calls(), calls, "nothing is written any more");
    assert!(log.poison_cause().unwrap().contains("log/0000000100000000000000"), "{:?}", log.poison_cause());
    assert_eq!(log.flushed(), durable);
    log.flush_until(durable).unwrap();
    drop(log);
    let disk = disk.after_power_loss(PowerLoss::LoseAll);
    let (found, end) = read_all(&disk).unwrap();
    assert!(found[0].value == b"good" && end.lsn >= durable);
    let log = Log::open(arc(&disk), options(), end).unwrap();
    commit(&log, b"again").unwrap();
    assert_eq!(read_all(&disk).unwrap().0.last().unwrap().value, b"again");
}

#[test]
fn a_full_disk_refuses_appends_and_loses_nothing() {
    let disk = SimulatedDisk::new(1);
    let log = create(&disk);
    disk.set_capacity(Some(disk.allocated_bytes() + SEGMENT_BYTES + SEGMENT_BYTES / 2));
    let mut written = 0;
    let error = loop {
        match commit(&log, &[7; 5000]) {
            Ok(_) => written += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, LogError::NoSpace { .. }), "{error}");
    assert!(matches!(log.prepare_ahead(), Err(LogError::NoSpace { .. })));
    // Where there is room left in the last segment, short commits still go.
    commit(&log, b"short").unwrap();
    assert!(log.poison_cause().is_none());
    assert_eq!(read_all(&disk).unwrap().0.len(), written + 1);
    assert!(disk.list_all().iter().all(|entry| !entry.name.contains("spare")), "its space is given back");
    disk.set_capacity(None);
    commit(&log, &[8; 5000]).unwrap();
    assert_eq!(read_all(&disk).unwrap().0.len(), written + 2);
}

#[test]
fn a_failed_directory_sync_stops_the_log() {
    let disk = SimulatedDisk::new(1);
    let log = create(&disk);
    commit(&log, b"good").unwrap();
    // The second sync is that of the directory: the first is that of the new segment.
    let mut tries = 0;
    loop {
        disk.fail_next(FaultKind::SyncError);
        match log.prepare_ahead() {
            Err(LogError::Poisoned { .. }) => break,
            Err(_) => tries += 1,
            Ok(()) => panic!("the fault did not strike"),
        }
        disk.clear_faults();
        assert!(tries < 2 || log.poison_cause().is_none());
        if tries == 2 {
            return;
        }
    }
}

#[test]
fn records_over_the_limit_are_refused() {
    let disk = SimulatedDisk::new(1);
    let log =
        Log::create(arc(&disk), seawall_wal::LogOptions { record_bytes_max: 1000, ..options() }).unwrap();
    assert!(matches!(append(&log, &[0; 1000]), Err(LogError::RecordTooLarge { limit: 1000, .. })));
    commit(&log, &[0; 900]).unwrap();
    let refused = |change: fn(&mut seawall_wal::LogOptions)| {
        let mut options = options();
        change(&mut options);
        matches!(Log::create(arc(&SimulatedDisk::new(2)), options), Err(LogError::Options { .. }))
    };
    assert!(refused(|options| options.segment_bytes = 100_000));
    assert!(refused(|options| options.buffer_bytes = 10));
    assert!(refused(|options| options.record_bytes_max = u64::MAX));
}

#[test]
fn a_refused_record_leaves_its_place_to_the_next() {
    let disk = SimulatedDisk::new(1);
    let log = create(&disk);
    let mut record = seawall_wal::PreparedRecord::no_op(50);
    let refused = log.append(&mut record, |_| Err::<(), _>("conflict")).unwrap();
    assert_eq!(refused.unwrap_err(), "conflict");
    let span = commit(&log, b"next").unwrap();
    assert_eq!(span.start, common::geometry().first_lsn());
    assert_eq!(read_all(&disk).unwrap().0.len(), 1);
}
