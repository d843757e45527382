//! A log that is received from another server is torn where that server's log never was: it opens, up to the tear.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::{DATABASE, append, arc, commit, create, geometry, options, overwrite, read_all, read_reader};
use seawall_simulation::{PowerLoss, SeededRandom, SimulatedDisk, seeds};
use seawall_types::{Lsn, Timeline, TimelineId, TimelineMark};
use seawall_wal::{
    EndReason, Log, LogError, LogOptions, LogReadError, LogReader, ReceivedMark, ReceivedMarkError,
    RecordSpan, TimelineHistory, begin_timeline,
};

const SECTOR_BYTES: u64 = 512;

/// A primary's log: one batch that a standby has synced, and then several that it has written with one sync.
struct Received {
    disk: SimulatedDisk,
    spans: Vec<RecordSpan>,
    /// So many of them are known to be durable.
    synced: usize,
}

impl Received {
    fn new(value_bytes: usize) -> Received {
        let disk = SimulatedDisk::new(1);
        let log = create(&disk);
        let mut spans: Vec<_> =
            (0..3_u8).map(|byte| commit(&log, &vec![byte + 1; value_bytes]).unwrap()).collect();
        let synced = spans.len();
        for batch in 0..6_u8 {
            spans.extend((0..2).map(|_| append(&log, &vec![100 + batch; value_bytes]).unwrap()));
            log.flush_until(log.appended()).unwrap();
        }
        Received { disk, spans, synced }
    }

    fn synced_until(&self) -> Lsn {
        self.spans[self.synced - 1].end
    }

    fn end(&self) -> Lsn {
        self.spans.last().unwrap().end
    }

    /// What is on the standby's disk.
    fn standby(&self) -> SimulatedDisk {
        let disk = self.disk.copy();
        drop(ReceivedMark::create(&disk, DATABASE, Timeline::FIRST, self.synced_until()).unwrap());
        disk
    }

    /// The sectors of the log from `start` to `end`: where each begins, and its bytes that lie between the two.
    fn sectors(&self, start: Lsn, end: Lsn) -> Vec<(Lsn, usize)> {
        let mut sectors = Vec::new();
        let mut at = start;
        while at < end {
            let border = Lsn::new(at.get() / SECTOR_BYTES * SECTOR_BYTES + SECTOR_BYTES).min(end);
            sectors.push((at, usize::try_from(border.bytes_since(at)).unwrap()));
            at = geometry().normalise(border);
        }
        sectors
    }
}

#[test]
fn a_received_log_that_is_torn_in_any_sector_opens_up_to_the_tear() {
    for value_bytes in [40, 700, 20_000] {
        let received = Received::new(value_bytes);
        let mut refused_without_mark = 0;
        for (at, bytes) in received.sectors(received.synced_until(), received.end()) {
            let place = format!("values of {value_bytes} bytes, sector at {at}");
            let torn = received.standby();
            overwrite(&torn, at, &vec![0; bytes]);
            let (found, end) = read_all(&torn).unwrap_or_else(|error| panic!("{place}: {error}"));
            let whole = received.spans.iter().filter(|span| span.end <= at).count();
            assert_eq!(found.len(), whole, "{place}");
            assert_eq!(
                (end.lsn, end.durable),
                (received.spans[whole].start, received.synced_until()),
                "{place}"
            );
            // The rule of a log that was written here would not do.
            assert!(torn.remove_file("log/00000001.received"));
            refused_without_mark += u64::from(matches!(read_all(&torn), Err(LogReadError::Damaged { .. })));
        }
        assert!(refused_without_mark > 0, "values of {value_bytes} bytes");
    }
}

#[test]
fn a_received_log_that_is_torn_in_many_sectors_opens_up_to_the_first() {
    let received = Received::new(5_000);
    let sectors = received.sectors(received.synced_until(), received.end());
    for seed in seeds(100) {
        let mut random = SeededRandom::new(seed);
        let torn = received.standby();
        let lost: Vec<_> = sectors.iter().filter(|_| random.chance(1, 10)).collect();
        for (at, bytes) in &lost {
            overwrite(&torn, *at, &vec![0xA7; *bytes]);
        }
        let (found, _) = read_all(&torn).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let first = lost.first().map_or(received.end(), |(at, _)| *at);
        let whole = received.spans.iter().filter(|span| span.end <= first).count();
        assert_eq!(found.len(), whole, "seed {seed}");
    }
}

#[test]
fn what_does_not_verify_before_the_mark_is_damage() {
    let received = Received::new(700);
    let first = received.spans[0].start;
    for (at, bytes) in received.sectors(first, received.synced_until()) {
        // Also where nothing lies behind it.
        for end in [geometry().advance(at, bytes as u64), received.end()] {
            let damaged = received.standby();
            let lost = geometry().payload_between(at, end);
            overwrite(&damaged, at, &vec![0; usize::try_from(lost).unwrap()]);
            let error = read_all(&damaged).unwrap_err();
            let whole = received.spans.iter().filter(|span| span.end <= at).count();
            let expected = received.spans[whole].start;
            assert!(matches!(error, LogReadError::Damaged { lsn, .. } if lsn == expected), "{at}: {error}");
        }
    }
}

/// What lay behind the tear belongs to the old timeline, and never verifies on the new one.
#[test]
fn a_new_timeline_begins_at_the_tear_and_the_received_one_is_not_written() {
    let received = Received::new(5_000);
    for index in received.synced..received.spans.len() {
        let standby = received.standby();
        overwrite(&standby, received.spans[index].start, &[0; 20]);
        let (_, end) = read_all(&standby).unwrap();
        assert_eq!(end.lsn, received.spans[index].start);
        let refused = Log::open(arc(&standby), options(), end).unwrap_err();
        assert!(matches!(refused, LogError::Received { timeline: TimelineId::FIRST }), "{refused}");
        let timeline = TimelineId::new(2).unwrap();
        let mark = TimelineMark::from_bytes([9; 16]);
        let history = TimelineHistory::first().fork(timeline, end.lsn, mark, "promoted");
        let options = LogOptions { timeline, ancestors: history.forks.clone(), ..options() };
        let log = begin_timeline(&arc(&standby), options, end, 0).unwrap();
        commit(&log, &[200; 5_000]).unwrap();
        let after = standby.after_power_loss(PowerLoss::Random(index as u64));
        let open = LogReader::open_history(
            arc(&after),
            DATABASE,
            history,
            geometry().segment_bytes(),
            received.spans[0].start,
        );
        let (found, new_end) = read_reader(open.unwrap()).unwrap();
        let values: Vec<u8> = found.iter().map(|record| record.value[0]).collect();
        assert_eq!(values.len(), index + 1, "{values:?}");
        assert_eq!((values[index], new_end.lsn, new_end.reason), (200, log.flushed(), EndReason::NoRecord));
    }
}

#[test]
fn a_mark_of_another_timeline_of_the_same_number_says_nothing() {
    let received = Received::new(700);
    let standby = received.disk.copy();
    let other = Timeline { mark: TimelineMark::from_bytes([3; 16]), ..Timeline::FIRST };
    drop(ReceivedMark::create(&standby, DATABASE, other, received.end()).unwrap());
    assert!(ReceivedMark::open(&standby, DATABASE, Timeline::FIRST).unwrap().is_none());
    assert_eq!(read_all(&standby).unwrap().1.lsn, received.end());
    overwrite(&standby, received.spans[received.synced].start, &[0; 20]);
    assert!(matches!(read_all(&standby), Err(LogReadError::Damaged { .. })));
}

/// Whenever the power goes the mark is where it was or where it was moved, and there is always one.
#[test]
fn a_crash_at_any_call_leaves_a_mark_that_was_true() {
    let original = SimulatedDisk::new(1);
    drop(create(&original));
    let positions: Vec<Lsn> = (1..6).map(|step| Lsn::new(step * 10_000)).collect();
    let mut call = 0;
    loop {
        let disk = original.copy();
        disk.crash_at(disk.calls() + call);
        let mut reached = None;
        let outcome = (|| {
            let mut mark = ReceivedMark::create(&disk, DATABASE, Timeline::FIRST, positions[0])?;
            reached = Some(0);
            for (index, position) in positions.iter().enumerate() {
                mark.advance(*position)?;
                reached = Some(index);
            }
            Ok::<_, LogError>(())
        })();
        for seed in 0..10 {
            let after = disk.after_power_loss(PowerLoss::Random(seed));
            let mark = ReceivedMark::open(&after, DATABASE, Timeline::FIRST).unwrap();
            let place = format!("call {call}, seed {seed}");
            match (mark, reached) {
                (None, reached) => assert_eq!(reached, None, "{place}"),
                (Some(mark), None) => assert_eq!(mark.synced(), positions[0], "{place}"),
                (Some(mark), Some(reached)) => {
                    let next = positions.get(reached + 1).copied();
                    assert!(mark.synced() == positions[reached] || Some(mark.synced()) == next, "{place}");
                }
            }
        }
        if outcome.is_ok() {
            break;
        }
        call += 1;
    }
    assert!(call > 8, "{call} calls");
}

#[test]
fn one_copy_of_a_mark_is_enough_and_a_file_without_any_is_refused() {
    let disk = SimulatedDisk::new(1);
    drop(create(&disk));
    let mut mark = ReceivedMark::create(&disk, DATABASE, Timeline::FIRST, Lsn::new(1000)).unwrap();
    mark.advance(Lsn::new(2000)).unwrap();
    mark.advance(Lsn::new(1500)).unwrap();
    assert_eq!(mark.synced(), Lsn::new(2000));
    let path = "log/00000001.received";
    let synced = |disk: &SimulatedDisk| {
        ReceivedMark::open(disk, DATABASE, Timeline::FIRST).map(|mark| mark.unwrap().synced().get())
    };
    for (offset, expected) in [(0, 1000), (4096, 2000)] {
        let damaged = disk.copy();
        damaged.flip_bit(path, offset + 70, 1);
        assert_eq!(synced(&damaged).unwrap(), expected);
    }
    let damaged = disk.copy();
    damaged.truncate(path, 0);
    let error = synced(&damaged).unwrap_err();
    assert!(matches!(error, ReceivedMarkError::Damaged { .. }), "{error}");
    let error = read_all(&damaged).unwrap_err();
    assert!(matches!(error, LogReadError::ReceivedMark { .. }), "{error}");
}

/// Of a timeline that has just been begun elsewhere not even the first record may have come.
#[test]
fn a_received_timeline_may_end_where_it_began() {
    let disk = SimulatedDisk::new(1);
    let log = create(&disk);
    let spans: Vec<_> = (0..3).map(|byte| commit(&log, &[byte; 700]).unwrap()).collect();
    drop(log);
    let (_, end) = read_all(&disk).unwrap();
    let second = TimelineId::new(2).unwrap();
    let history = TimelineHistory::first().fork(second, end.lsn, TimelineMark::from_bytes([4; 16]), "x");
    let begun = LogOptions { timeline: second, ancestors: history.forks.clone(), ..options() };
    drop(begin_timeline(&arc(&disk), begun, end, 0).unwrap());
    let path = format!("log/00000002{:016X}", geometry().segment_of(end.lsn));
    disk.overwrite(&path, geometry().offset_of(end.lsn), &[0; 10]);
    let read = |disk: &SimulatedDisk| {
        let segment_bytes = geometry().segment_bytes();
        let reader =
            LogReader::open_history(arc(disk), DATABASE, history.clone(), segment_bytes, spans[0].start);
        read_reader(reader.unwrap())
    };
    assert!(matches!(read(&disk), Err(LogReadError::NoSwitch { .. })));
    drop(ReceivedMark::create(&disk, DATABASE, history.timeline(second), end.lsn).unwrap());
    let (found, found_end) = read(&disk).unwrap();
    assert_eq!((found.len(), found_end.lsn), (3, end.lsn));
}
