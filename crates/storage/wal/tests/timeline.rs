//! A timeline's history file is there whole or not at all, whenever the power goes; and reading across timelines.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::{
    DATABASE, SEGMENT_BYTES, arc, commit, create, geometry, options, overwrite, read_all, read_reader,
};
use seawall_simulation::{PowerLoss, SimulatedDisk};
use seawall_types::{Lsn, TimelineId, TimelineMark};
use seawall_wal::{
    EndReason, HistoryError, LogEnd, LogError, LogOptions, LogReadError, LogReader, TimelineHistory,
    begin_timeline, next_timeline,
};

/// What a timeline drew when it began.
fn mark(number: u32) -> TimelineMark {
    TimelineMark::from_bytes([u8::try_from(number).unwrap(); 16])
}

#[test]
fn a_crash_at_any_call_leaves_no_history_or_the_whole() {
    let second = TimelineId::new(2).unwrap();
    let history = TimelineHistory::first().fork(second, Lsn::new(0x500_0A28), mark(2), "promoted");
    let original = SimulatedDisk::new(1);
    drop(create(&original));
    let mut call = 0;
    loop {
        let disk = original.copy();
        disk.crash_at(disk.calls() + call);
        let outcome = history.store(&arc(&disk));
        for seed in 0..10 {
            let after = disk.after_power_loss(PowerLoss::Random(seed));
            match TimelineHistory::load(&arc(&after), second) {
                Ok(found) => assert_eq!(found, history),
                Err(HistoryError::Io { source, .. }) => {
                    assert_eq!(source.kind(), std::io::ErrorKind::NotFound);
                    assert!(outcome.is_err(), "a stored history is there");
                }
                Err(other) => panic!("call {call}, seed {seed}: {other}"),
            }
            history.store(&arc(&after)).unwrap();
            assert_eq!(TimelineHistory::load(&arc(&after), second).unwrap(), history);
        }
        if outcome.is_ok() {
            break;
        }
        call += 1;
    }
    assert_eq!(TimelineHistory::load(&arc(&original), TimelineId::FIRST).unwrap(), TimelineHistory::first());
}

#[test]
fn a_reader_follows_the_history_and_reads_nothing_beyond_a_fork() {
    let disk = SimulatedDisk::new(1);
    let log = create(&disk);
    let first: Vec<_> = (0..30).map(|_| commit(&log, &[1; 5000]).unwrap()).collect();
    drop(log);
    // Timeline 2 leaves 1 in the middle; 1 has 12 records more.
    let fork = first[17].end;
    let end = LogEnd { lsn: fork, durable: fork, reason: EndReason::Limit };
    let begin = |number: u32, history: &TimelineHistory, end: LogEnd| {
        let timeline = TimelineId::new(number).unwrap();
        let history = history.fork(timeline, end.lsn, mark(number), "a test");
        let options = LogOptions { timeline, ancestors: history.forks.clone(), ..options() };
        (begin_timeline(&arc(&disk), options, end, 0).unwrap(), history)
    };
    let (log, second) = begin(2, &TimelineHistory::first(), end);
    (0..9).for_each(|_| assert!(commit(&log, &[2; 5000]).is_ok()));
    let end = log.flushed();
    drop(log);
    // And 3 leaves 2 exactly at its end.
    let (log, third) = begin(3, &second, LogEnd { lsn: end, durable: end, reason: EndReason::NoRecord });
    (0..3).for_each(|_| assert!(commit(&log, &[3; 5000]).is_ok()));
    let end = log.flushed();
    drop(log);
    assert_eq!(TimelineHistory::load(&arc(&disk), third.timeline).unwrap(), third);

    let open = |from| LogReader::open_history(arc(&disk), DATABASE, third.clone(), SEGMENT_BYTES, from);
    let (found, log_end) = read_reader(open(geometry().first_lsn()).unwrap()).unwrap();
    let values: Vec<u8> = found.iter().map(|record| record.value[0]).collect();
    assert_eq!(values, [[1; 18].as_slice(), &[2; 9], &[3; 3]].concat());
    assert_eq!(log_end.lsn, end);
    assert_eq!(read_reader(open(fork).unwrap()).unwrap().0.len(), 12);
    let mut reader = open(first[16].start).unwrap();
    let timelines: Vec<u32> =
        std::iter::from_fn(|| reader.next().unwrap().map(|record| record.timeline.get())).collect();
    assert_eq!(timelines, [1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3]);
    // A reader of one timeline reads to its end.
    assert_eq!(read_all(&disk).unwrap().0.len(), 30);

    // Damage before a fork is damage, however short the rest: the history says that it was durable.
    let damaged = disk.copy();
    overwrite(&damaged, first[17].start, &[0; 100]);
    let reader = LogReader::open_history(arc(&damaged), DATABASE, third, SEGMENT_BYTES, first[0].start);
    assert!(
        matches!(read_reader(reader.unwrap()), Err(LogReadError::Damaged { lsn, .. }) if lsn == first[17].start)
    );
}

#[test]
fn numbers_of_timelines_are_never_used_again() {
    let disk = SimulatedDisk::new(1);
    drop(create(&disk));
    let next = |current| next_timeline(&disk, TimelineId::new(current).unwrap(), None).unwrap().get();
    assert_eq!((next(1), next(7)), (2, 8));
    disk.write_file("log/00000004.history", b"");
    assert_eq!(next(1), 5);
    disk.write_file("log/000000090000000000000001", b"");
    assert_eq!(next(1), 10);
    disk.write_file("log/FFFFFFFF.history", b"");
    let error = next_timeline(&disk, TimelineId::FIRST, None).unwrap_err();
    assert!(matches!(error, LogError::LastTimeline { .. }), "{error}");
}

#[test]
fn a_timeline_may_have_any_number_that_is_higher_and_not_taken() {
    let disk = SimulatedDisk::new(1);
    drop(create(&disk));
    let timeline = |number| TimelineId::new(number).unwrap();
    let ask = |current, wanted| next_timeline(&disk, timeline(current), Some(timeline(wanted)));
    assert_eq!(ask(1, 2).unwrap(), timeline(2));
    assert_eq!(ask(1, 900).unwrap(), timeline(900));
    disk.write_file("log/00000384.history", b"");
    for (current, wanted, above) in [(1, 900, 900), (1, 1, 900), (901, 1, 901), (901, 901, 901)] {
        match ask(current, wanted).unwrap_err() {
            LogError::TimelineNumber { wanted: refused, last } => {
                assert_eq!((refused, last), (timeline(wanted), timeline(above)));
            }
            other => panic!("{other}"),
        }
    }
    // Not only the highest.
    assert_eq!(ask(1, 899).unwrap(), timeline(899));
    assert_eq!(ask(1, u32::MAX).unwrap(), timeline(u32::MAX));
}
