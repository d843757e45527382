//! Invariant 9, and cleaning up: batches with one directory sync; old bytes are never replayed; a crash anywhere is fine.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use common::{SEGMENT_BYTES, arc, commit, create, geometry, open_reader, options, read_from};
use seawall_simulation::{
    Fault, FaultError, FaultTarget, Operation, Operations, PowerLoss, SeededRandom, SimulatedDisk,
};
use seawall_wal::{
    HoldLifetime, HoldOptions, Log, LogObserver, LogOptions, LogReadError, OpenLog, RecordSpan,
    RetentionReport, SegmentState,
};

fn fill(log: &Log, segments: u64, random: &mut SeededRandom) -> Vec<RecordSpan> {
    let until = geometry().segment_of(log.appended()) + segments;
    let mut spans = Vec::new();
    while geometry().segment_of(log.appended()) < until {
        spans.push(commit(log, &random.bytes(3000)).unwrap());
    }
    spans
}

#[test]
fn a_thousand_old_segments_go_in_at_most_four_batches_of_one_directory_sync_each() {
    let disk = SimulatedDisk::new(1);
    let log = create(&disk);
    for _ in 0..1000 {
        // One record that fills a segment and a bit.
        commit(&log, &[1; 62_000]).unwrap();
    }
    let before = disk.trace().len();
    let report = log.retain_from(log.flushed()).unwrap();
    let trace = disk.trace();
    let calls = |wanted| trace[before..].iter().filter(|call| call.operation == wanted).count() as u64;
    assert!(report.batches <= 4 && report.batches == report.directory_syncs, "{report:?}");
    assert_eq!(calls(Operation::SyncDirectory), report.batches);
    assert_eq!((calls(Operation::Rename), calls(Operation::Remove)), (report.recycled, report.removed));
    assert!(report.recycled > 200 && report.recycled + report.removed >= 1000, "{report:?}");
    assert_eq!(trace.last().unwrap().operation, Operation::SyncDirectory);
    let segments = log.segments();
    assert_eq!(segments[0].state, SegmentState::Live);
    assert!(segments[1..].iter().all(|segment| segment.state == SegmentState::Spare));
    assert_eq!(segments.len() as u64, 1 + report.recycled);
    assert_eq!(log.oldest_retained(), segments[0].first_lsn);
    assert_eq!(log.retain_from(log.flushed()).unwrap().directory_syncs, 0);
    assert_eq!(log.statistics().clean_up_batches, report.batches);
}

#[test]
fn a_batch_can_be_ended_after_any_file_and_what_is_left_is_known() {
    let disk = SimulatedDisk::new(1);
    let log = create(&disk);
    for _ in 0..20 {
        commit(&log, &[1; 62_000]).unwrap();
    }
    let end = read_from(&disk, log.flushed()).unwrap().1;
    drop(log);
    // Opened anew, so that nothing is known about how much will be logged.
    let log = Log::open(arc(&disk), LogOptions { spare_segments: 0, ..options() }, end).unwrap();
    log.redo_point_moved(log.flushed());
    let all = log.count_unneeded();
    for done in 1..=all {
        assert_eq!(log.count_unneeded(), all - done + 1);
        let report = log.clean_up(&mut || ControlFlow::Break(())).unwrap();
        assert_eq!((report.removed, report.directory_syncs, report.left), (1, 1, all - done));
    }
    assert_eq!(log.clean_up(&mut || ControlFlow::Break(())).unwrap(), RetentionReport::default());
}

#[test]
fn old_bytes_of_recycled_segments_are_never_replayed() {
    let disk = SimulatedDisk::new(1);
    let log = create(&disk);
    let mut random = SeededRandom::new(1);
    for round in 0..20 {
        let spans = fill(&log, 3, &mut random);
        let redo = spans[spans.len() / 2].start;
        log.retain_from(redo).unwrap();
        let after = disk.after_power_loss(PowerLoss::Random(round));
        let (found, end) = read_from(&after, redo).unwrap();
        assert_eq!(end.lsn, log.flushed(), "round {round}");
        assert_eq!(found.len(), spans.len() - spans.len() / 2);
    }
    assert!(log.statistics().segments_recycled > 20);
    // Nothing of what is before the retained part is found.
    assert!(read_from(&disk, geometry().first_lsn()).is_err());
}

#[test]
fn a_crash_at_any_call_of_retention_loses_nothing_and_is_made_up_for() {
    let original = SimulatedDisk::new(1);
    let log = create(&original);
    let spans = fill(&log, 7, &mut SeededRandom::new(2));
    let (redo, end) = (spans[spans.len() - 3].start, log.flushed());
    drop(log);
    let mut call = 0;
    loop {
        let disk = original.copy();
        let log_end = read_from(&disk, redo).unwrap().1;
        let log = Log::open(arc(&disk), options(), log_end).unwrap();
        disk.crash_at(disk.calls() + call);
        let outcome = log.retain_from(redo);
        for loss in (0..6).map(PowerLoss::Random).chain([PowerLoss::KeepAll, PowerLoss::LoseAll]) {
            let after = disk.after_power_loss(loss);
            let (found, log_end) = read_from(&after, redo).unwrap();
            assert_eq!((found.len(), log_end.lsn), (3, end), "call {call}, {loss:?}");
            let log = Log::open(arc(&after), options(), log_end).unwrap();
            assert!(log.oldest_retained() <= redo);
            read_from(&after, log.oldest_retained()).map(drop).unwrap_or_else(|error| {
                // A record that began in a segment that is gone is no start; the header must be right, though.
                assert!(!matches!(error, seawall_wal::LogReadError::Header { .. }), "{error}");
            });
            fill(&log, 2, &mut SeededRandom::new(3));
            log.retain_from(redo).unwrap();
            let names: Vec<_> = after.list_all().into_iter().map(|entry| entry.name).collect();
            assert!(names.iter().all(|name| !name.contains("spare")), "{names:?}");
            // Segments of the two records' length, the one being written, two spares; nothing from before.
            assert!(log.segments()[0].name.number >= geometry().segment_of(redo), "call {call}, {loss:?}");
            let (found, _) = read_from(&after, redo).unwrap();
            assert!(found.len() > 3);
        }
        if outcome.is_ok() {
            break;
        }
        call += 1;
    }
    assert!(call > 5);
}

/// How often the log has asked for spare segments.
#[derive(Debug, Default)]
struct Requests(AtomicU64);

impl LogObserver for Requests {
    fn spares_low(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn spares_are_prepared_ahead_and_asked_for() {
    let disk = SimulatedDisk::new(1);
    let requests = Arc::new(Requests::default());
    let log = Log::create(arc(&disk), LogOptions { observer: Some(requests.clone()), ..options() }).unwrap();
    log.prepare_ahead().unwrap();
    assert_eq!(log.segments().len(), 3);
    let waits = log.statistics().segment_waits;
    fill(&log, 2, &mut SeededRandom::new(1));
    assert!(requests.0.load(Ordering::SeqCst) >= 1);
    assert_eq!(log.statistics().segment_waits, waits, "nobody had to wait for a segment");
}

/// A log with old segments, opened anew, so that nothing is known about how much will be logged, and the file of the third one.
fn old_segments(disk: &SimulatedDisk) -> (OpenLog, String) {
    let log = create(disk);
    for _ in 0..20 {
        commit(&log, &[1; 62_000]).unwrap();
    }
    let end = read_from(disk, log.flushed()).unwrap().1;
    drop(log);
    let log = Log::open(arc(disk), LogOptions { spare_segments: 0, ..options() }, end).unwrap();
    let third = log.segments()[2].name.path();
    (log, third)
}

fn refuse(disk: &SimulatedDisk, prefix: &str, operation: Operation) {
    let target = FaultTarget::Path { prefix: prefix.to_owned(), operations: Operations::Only(operation) };
    disk.inject(Fault { target, error: FaultError::Number(1), skip: 0, count: 1000 });
}

#[test]
fn one_file_that_cannot_be_removed_keeps_no_other_from_going() {
    let disk = SimulatedDisk::new(1);
    disk.write_file("log/spare.99", &[0; 100]);
    let (log, third) = old_segments(&disk);
    refuse(&disk, &third, Operation::Remove);
    refuse(&disk, "log/spare.99", Operation::Remove);
    log.redo_point_moved(log.flushed());
    let all = log.count_unneeded();
    let mut go_on = || ControlFlow::Continue(());
    let report = log.remove_unneeded(&mut go_on).unwrap();
    assert_eq!((report.removed, report.failed, report.left), (all - 1, 2, 0), "{report:?}");
    assert!(!log.needs_clean_up(), "nobody tries again at once");
    assert_eq!(log.statistics().clean_up_failures, 2);
    assert!(disk.read_file(&third).is_some());
    // After the next checkpoint it is tried again.
    disk.clear_faults();
    commit(&log, &[1; 100]).unwrap();
    log.redo_point_moved(log.flushed());
    assert_eq!(log.remove_unneeded(&mut go_on).unwrap().removed, 1);
    assert!(disk.read_file(&third).is_none());
}

#[test]
fn one_file_that_cannot_be_recycled_keeps_no_other_from_it() {
    for operation in [Operation::Write, Operation::Rename] {
        let disk = SimulatedDisk::new(1);
        let (log, third) = old_segments(&disk);
        refuse(&disk, &third, operation);
        for _ in 0..20 {
            commit(&log, &[1; 62_000]).unwrap();
        }
        let report = log.retain_from(log.flushed()).unwrap();
        assert!(report.recycled >= 10, "{operation:?}: {report:?}");
        assert_eq!(report.failed, u64::from(operation == Operation::Rename), "{report:?}");
        for _ in 0..30 {
            commit(&log, &[1; 62_000]).unwrap();
        }
        disk.clear_faults();
        log.retain_from(log.flushed()).unwrap();
        assert!(disk.read_file(&third).is_none());
        assert!(read_from(&disk, log.flushed()).unwrap().0.is_empty());
    }
}

/// A hundred thousand headers would take the disk from everybody else.
#[test]
fn recycling_rests_after_each_file_too() {
    let disk = SimulatedDisk::new(1);
    let (log, _) = old_segments(&disk);
    for _ in 0..20 {
        commit(&log, &[1; 62_000]).unwrap();
    }
    log.redo_point_moved(log.flushed());
    let mut rests = 0;
    let mut rest = || {
        rests += 1;
        if rests < 5 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    let report = log.clean_up(&mut rest).unwrap();
    assert_eq!((report.recycled, rests), (5, 5), "{report:?}");
}

/// Damage is no reason to give a segment up that somebody needs: what is left of it may be all there is.
#[test]
fn a_damaged_header_takes_no_segment_from_its_hold() {
    let disk = SimulatedDisk::new(1);
    let log = create(&disk);
    let from = log.appended();
    let options_of_hold = HoldOptions { lifetime: HoldLifetime::Permanent, ..HoldOptions::default() };
    log.hold("archive", options_of_hold, from, 0).unwrap();
    let spans = fill(&log, 10, &mut SeededRandom::new(4));
    let redo = spans.last().unwrap().start;
    log.redo_point_moved(redo);
    let oldest = log.segments()[0].name.path();
    drop(log);
    // Any field, the marks of the format among them.
    for offset in [0, 8, 45, 60, 300, 514, 2000] {
        let damaged = disk.copy();
        damaged.flip_bit(&oldest, offset, 3);
        let before = damaged.read_file(&oldest);
        let end = read_from(&damaged, redo).unwrap().1;
        let log = Log::open(arc(&damaged), options(), end).unwrap();
        assert_eq!(log.find_hold("archive").unwrap().get(), from, "offset {offset}");
        log.retain_from(redo).unwrap();
        assert_eq!(log.find_hold("archive").unwrap().get(), from, "offset {offset}");
        assert_eq!(damaged.read_file(&oldest), before, "offset {offset}");
    }
}

/// A reader of a log that another process writes may come to a segment that is being recycled: it has the header of its new
/// place, and still its old name.
#[test]
fn a_reader_that_comes_to_a_segment_being_recycled_hears_that_the_log_is_gone_there() {
    let disk = SimulatedDisk::new(1);
    let log = create(&disk);
    for _ in 0..60 {
        commit(&log, &[1; 62_000]).unwrap();
    }
    let first = log.segments()[0].first_lsn;
    let mut reader = open_reader(&disk, first).unwrap();
    reader.next().unwrap().unwrap();
    log.redo_point_moved(log.flushed());
    // A few at first, as no spare is ready.
    assert_eq!(log.clean_up(&mut || ControlFlow::Continue(())).unwrap().recycled, 4);
    let (mut recycled, mut seen) = (0, None);
    let mut rest = || {
        recycled += 1;
        // Further than the reader has read ahead.
        if recycled < 30 {
            return ControlFlow::Continue(());
        }
        seen = (0..60).find_map(|_| reader.next().map(drop).err());
        ControlFlow::Break(())
    };
    assert_eq!(log.clean_up(&mut rest).unwrap().recycled, 30);
    let error = seen.expect("the log ends nowhere before the segment");
    assert!(matches!(error, LogReadError::Missing { .. }), "{error}");
}

#[test]
fn until_a_checkpoint_has_ended_as_many_are_recycled_as_are_expected_to_be_filled() {
    let disk = SimulatedDisk::new(1);
    let log = create(&disk);
    for _ in 0..30 {
        commit(&log, &[1; 62_000]).unwrap();
    }
    let end = read_from(&disk, log.flushed()).unwrap().1;
    drop(log);
    let expected = LogOptions { expected_cycle_bytes: 20 * SEGMENT_BYTES, ..options() };
    let log = Log::open(arc(&disk), expected, end).unwrap();
    log.recovery_starts_at(log.flushed());
    let unneeded = log.count_unneeded();
    // A few at first, as no spare is ready, and then the others.
    let mut go_on = || ControlFlow::Continue(());
    let first = log.clean_up(&mut go_on).unwrap();
    assert_eq!((first.recycled, first.removed, first.directory_syncs), (4, 0, 1));
    let second = log.clean_up(&mut go_on).unwrap();
    assert_eq!((second.recycled, second.removed, second.directory_syncs), (16, 0, 1));
    let third = log.clean_up(&mut go_on).unwrap();
    assert_eq!((third.recycled, third.removed, third.left), (0, unneeded - 20, 0));
    for _ in 0..20 {
        commit(&log, &[2; 62_000]).unwrap();
    }
    let statistics = log.statistics();
    assert_eq!((statistics.segments_prepared, statistics.segment_waits), (0, 0), "{statistics:?}");
    assert_eq!(read_from(&disk, end.lsn).unwrap().0.len(), 20);
}
