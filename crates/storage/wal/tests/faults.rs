//! Invariant 11: a failed sync is never tried again. A full disk loses nothing.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::{
    DATABASE, SEGMENT_BYTES, append, arc, commit, create, geometry, options, overwrite, place, read_all,
};
use seawall_simulation::{
    Fault, FaultError, FaultKind, FaultTarget, Operation, Operations, PowerLoss, SimulatedDisk,
};
use seawall_types::{Lsn, TimelineId};
use seawall_wal::{HEADER_BYTES, Log, LogError, LogOptions, LogReadError, LogReader};

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
    let operations = Operations::Only(Operation::SyncDirectory);
    let target = FaultTarget::Path { prefix: "log".to_owned(), operations };
    disk.inject(Fault { target, error: FaultError::Number(5), skip: 0, count: 1 });
    assert!(matches!(log.prepare_ahead(), Err(LogError::Poisoned { .. })));
    assert!(matches!(append(&log, b"more"), Err(LogError::Poisoned { .. })));
}

#[test]
fn a_new_segment_whose_sync_failed_is_thrown_away_and_made_again() {
    let disk = SimulatedDisk::new(1);
    let log = create(&disk);
    disk.fail_next(FaultKind::SyncError);
    assert!(matches!(log.prepare_ahead(), Err(LogError::Io { .. })));
    assert!(disk.list_all().iter().all(|entry| !entry.name.contains("spare")));
    log.prepare_ahead().unwrap();
    commit(&log, &[3; 100_000]).unwrap();
    assert_eq!(read_all(&disk.after_power_loss(PowerLoss::LoseAll)).unwrap().0.len(), 1);
}

/// A batch that reaches into the next segment is torn off. That segment is zeroed, the sync fails, and the cache shows zeros
/// that the disk does not have.
#[test]
fn zeros_that_a_failed_sync_left_in_the_cache_are_written_again() {
    for seed in 0..10 {
        let disk = SimulatedDisk::new(seed);
        let log = create(&disk);
        commit(&log, b"good").unwrap();
        let torn = append(&log, &[7; 5000]).unwrap();
        (0..30).for_each(|_| assert!(append(&log, &[7; 5000]).is_ok()));
        log.flush_until(log.appended()).unwrap();
        drop(log);
        overwrite(&disk, torn.start, &[0; 14]);
        let (path, _) = place(geometry().first_record_of(geometry().segment_of(torn.start) + 1));
        let reopen = || Log::open(arc(&disk), options(), read_all(&disk).unwrap().1).unwrap();
        let log = reopen();
        assert_eq!(log.appended(), torn.start);
        let target =
            FaultTarget::Path { prefix: path.clone(), operations: Operations::Only(Operation::Sync) };
        disk.inject(Fault { target, error: FaultError::Number(5), skip: 0, count: 1 });
        assert!(matches!(log.prepare_ahead(), Err(LogError::Poisoned { .. })));
        drop(log);
        reopen().prepare_ahead().unwrap();
        let found = disk.after_power_loss(PowerLoss::LoseAll).read_file(&path).unwrap();
        let records = &found[usize::try_from(HEADER_BYTES).unwrap()..];
        let left = records.iter().filter(|&&byte| byte != 0).count();
        assert_eq!(left, 0, "seed {seed}: bytes of records that were given up are on the disk");
    }
}

/// As above, in the segment that the log ends in, where a torn record reaches further than one write.
#[test]
fn zeros_far_behind_the_end_are_written_again_after_a_failed_sync() {
    const SEGMENT: u64 = 64 << 20;
    let options = || LogOptions { segment_bytes: SEGMENT, spare_segments: 0, ..options() };
    let template = SimulatedDisk::new(1);
    let log = Log::create(arc(&template), options()).unwrap();
    commit(&log, b"good").unwrap();
    let torn = append(&log, &vec![7; 40 << 20]).unwrap();
    append(&log, &[7; 1000]).unwrap();
    log.flush_until(log.appended()).unwrap();
    drop(log);
    let path = format!("log/{:08X}{:016X}", 1, torn.start.get() / SEGMENT);
    template.flip_bit(&path, torn.start.get() % SEGMENT + 5000, 0);
    for failed in 0.. {
        let disk = template.copy();
        let open = || {
            let from = Lsn::new(SEGMENT + HEADER_BYTES);
            let mut reader = LogReader::open(arc(&disk), DATABASE, TimelineId::FIRST, SEGMENT, from).unwrap();
            while reader.next().unwrap().is_some() {}
            let end = reader.finish();
            assert_eq!(end.lsn, torn.start);
            Log::open(arc(&disk), options(), end)
        };
        let target =
            FaultTarget::Path { prefix: path.clone(), operations: Operations::Only(Operation::Sync) };
        disk.inject(Fault { target, error: FaultError::Number(5), skip: failed, count: 1 });
        let outcome = open();
        if outcome.is_err() {
            drop(open().unwrap());
        }
        let found = disk.after_power_loss(PowerLoss::LoseAll).read_file(&path).unwrap();
        let behind = &found[usize::try_from(torn.start.get() % SEGMENT).unwrap()..];
        assert!(
            behind == vec![0; behind.len()],
            "sync {failed}: bytes of records that were given up are on the disk"
        );
        if outcome.is_ok() {
            assert!(failed > 3, "{failed} syncs have failed");
            break;
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

/// What a run acknowledged, and how far it was appended.
fn work(disk: &SimulatedDisk) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let (mut appended, mut acknowledged) = (Vec::new(), Vec::new());
    let Ok(log) = Log::create(arc(disk), options()) else { return (appended, acknowledged) };
    for index in 0..25_u8 {
        let value = vec![index; 500 + usize::from(index) * 400];
        if append(&log, &value).is_ok() {
            appended.push(value);
            if log.flush_until(log.appended()).is_ok() {
                acknowledged.clone_from(&appended);
            }
        }
        // Each may fail; what counts is what is acknowledged.
        drop((index % 6 == 0).then(|| log.prepare_ahead()));
    }
    (appended, acknowledged)
}

#[test]
fn whichever_disk_call_fails_nothing_acknowledged_is_lost() {
    let calls = {
        let disk = SimulatedDisk::new(1);
        work(&disk);
        disk.calls()
    };
    assert!(calls > 50);
    for call in 0..calls {
        for error in [FaultError::Number(5), FaultError::Number(28)] {
            let disk = SimulatedDisk::new(call);
            disk.inject(Fault { target: FaultTarget::Call(call), error, skip: 0, count: 1 });
            let (appended, acknowledged) = work(&disk);
            for loss in [PowerLoss::LoseAll, PowerLoss::KeepAll, PowerLoss::Random(call)] {
                let after = disk.after_power_loss(loss);
                let found = match read_all(&after) {
                    Ok((found, end)) => {
                        drop(Log::open(arc(&after), options(), end).unwrap());
                        found
                    }
                    Err(error) => {
                        assert!(matches!(error, LogReadError::Missing { .. }), "call {call}: {error}");
                        Vec::new()
                    }
                };
                let found: Vec<_> = found.into_iter().map(|found| found.value).collect();
                assert!(found.len() >= acknowledged.len(), "call {call}, {loss:?}");
                assert_eq!(found, appended[..found.len()], "call {call}, {loss:?}");
            }
        }
    }
}
