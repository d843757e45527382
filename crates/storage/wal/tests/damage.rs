//! Invariant 10: a damaged log is not a short log.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::{
    DATABASE, SEGMENT_BYTES, arc, commit, create, geometry, open_reader, place, read_all, read_from,
};
use seawall_simulation::{SeededRandom, SimulatedDisk};
use seawall_types::{DatabaseId, Lsn, TimelineId};
use seawall_wal::{EndReason, LogReadError, LogReader, RecordSpan, SegmentHeaderError};

/// Commits of all sizes, each in a batch of its own, over several segments.
fn log_of(count: usize) -> (SimulatedDisk, Vec<RecordSpan>) {
    let disk = SimulatedDisk::new(1);
    let log = create(&disk);
    let mut random = SeededRandom::new(7);
    let spans = (0..count).map(|_| {
        let length = *random.pick(&[0, 10, 100, 1000, 9000, 70_000]);
        commit(&log, &random.bytes(length)).unwrap()
    });
    let spans: Vec<_> = spans.collect();
    drop(log);
    (disk, spans)
}

#[test]
fn a_flipped_bit_in_the_middle_is_refused_with_file_offset_and_position() {
    let (disk, spans) = log_of(60);
    let mut random = SeededRandom::new(3);
    for (index, span) in spans.iter().enumerate() {
        let is_last = index + 1 == spans.len();
        let length = geometry().payload_between(span.start, span.end);
        let offsets = (0..14).chain(std::iter::once_with(|| random.range(14..length)));
        for offset in offsets.collect::<Vec<_>>() {
            let damaged = disk.copy();
            let (path, byte) = place(geometry().advance(span.start, offset));
            damaged.flip_bit(&path, byte, u8::try_from(random.below(8)).unwrap());
            match read_from(&damaged, spans[index.saturating_sub(3)].start) {
                Ok((_, end)) => {
                    assert!(is_last, "record {index}, byte {offset} was dropped in silence");
                    assert_eq!(end.lsn, span.start);
                }
                Err(LogReadError::Damaged { path, offset: at, lsn, evidence }) => {
                    assert!(!is_last, "the last batch cannot be told from a torn one");
                    assert_eq!((path, at), place(span.start));
                    assert_eq!(lsn, span.start);
                    assert!(evidence > lsn);
                }
                Err(other) => panic!("record {index}, byte {offset}: {other}"),
            }
        }
    }
}

#[test]
fn a_missing_segment_in_the_middle_is_refused_by_name() {
    let (disk, spans) = log_of(60);
    let last = geometry().segment_of(spans.last().unwrap().start);
    for number in 2..last {
        let damaged = disk.copy();
        let removed = place(geometry().first_record_of(number)).0;
        assert!(damaged.remove_file(&removed));
        match read_all(&damaged).unwrap_err() {
            LogReadError::Missing { path, .. } => assert_eq!(path, removed),
            other => panic!("segment {number}: {other}"),
        }
    }
    let damaged = disk.copy();
    assert!(damaged.remove_file(&place(geometry().first_lsn()).0));
    assert!(matches!(open_reader(&damaged, geometry().first_lsn()), Err(LogReadError::Missing { .. })));
}

#[test]
fn a_zeroed_stretch_is_damage() {
    let (disk, spans) = log_of(60);
    let (path, offset) = place(spans[20].start);
    disk.overwrite(&path, offset, &vec![0; usize::try_from(SEGMENT_BYTES - offset).unwrap()]);
    assert!(matches!(read_all(&disk), Err(LogReadError::Damaged { lsn, .. }) if lsn == spans[20].start));
}

#[test]
fn cut_and_foreign_segments_are_refused() {
    let (disk, _) = log_of(60);
    let second = place(geometry().first_record_of(2)).0;
    for bytes in [0, 100, 4096, 20_000, SEGMENT_BYTES - 1] {
        let damaged = disk.copy();
        damaged.truncate(&second, bytes);
        let error = read_all(&damaged).unwrap_err();
        let LogReadError::Header { path, source: SegmentHeaderError::Length { found, .. } } = error else {
            panic!("{error}");
        };
        assert_eq!((path, found), (second.clone(), bytes));
    }
    for offset in [0, 9, 13, 17, 30, 41, 45, 1000] {
        let damaged = disk.copy();
        damaged.flip_bit(&second, offset, 0);
        assert!(matches!(read_all(&damaged), Err(LogReadError::Header { .. })), "offset {offset}");
    }
    let foreign = DatabaseId::from_bytes([1; 16]);
    let from = geometry().first_lsn();
    let open = |database, timeline, segment_bytes| {
        LogReader::open(arc(&disk), database, timeline, segment_bytes, from).map(|_| ())
    };
    assert!(open(DATABASE, TimelineId::FIRST, SEGMENT_BYTES).is_ok());
    let error = open(foreign, TimelineId::FIRST, SEGMENT_BYTES).unwrap_err();
    assert!(matches!(error, LogReadError::Header { source: SegmentHeaderError::Database { .. }, .. }));
    let second_timeline = TimelineId::new(2).unwrap();
    assert!(matches!(open(DATABASE, second_timeline, SEGMENT_BYTES), Err(LogReadError::Missing { .. })));
    assert!(matches!(open(DATABASE, TimelineId::FIRST, 12345), Err(LogReadError::Position { .. })));
    let inside_header =
        LogReader::open(arc(&disk), DATABASE, TimelineId::FIRST, SEGMENT_BYTES, Lsn::new(65_537));
    assert!(matches!(inside_header, Err(LogReadError::Position { .. })));
}

#[test]
fn a_reader_that_knows_how_far_the_log_is_durable_takes_nothing_less() {
    let (disk, spans) = log_of(10);
    let (path, offset) = place(spans[9].start);
    disk.flip_bit(&path, offset + 5, 1);
    let mut reader = open_reader(&disk, spans[8].start).unwrap();
    reader.set_limit(spans[9].end);
    assert!(reader.next().unwrap().is_some());
    assert!(matches!(reader.next(), Err(LogReadError::Damaged { lsn, .. }) if lsn == spans[9].start));
}

#[test]
fn a_log_restored_up_to_whole_segments_ends_with_the_last_of_them() {
    let disk = SimulatedDisk::new(1);
    let log = create(&disk);
    let span = commit(&log, &[1; 50]).unwrap();
    let overhead = geometry().payload_between(span.start, span.end) - 50;
    let left = geometry().payload_between(span.end, geometry().first_record_of(2)) - overhead;
    // Two bytes more for the length of the value.
    let span = commit(&log, &vec![2; usize::try_from(left).unwrap() - 2]).unwrap();
    assert_eq!(span.end, geometry().first_record_of(2));
    assert_eq!(read_all(&disk).unwrap().1.reason, EndReason::NoRecord);
    drop(log);
    disk.remove_file(&place(span.end).0);
    let (found, end) = read_all(&disk).unwrap();
    assert_eq!((found.len(), end.lsn, end.reason), (2, span.end, EndReason::MissingSegment));
    // And it can be written on.
    let log = seawall_wal::Log::open(arc(&disk), common::options(), end).unwrap();
    commit(&log, b"more").unwrap();
    assert_eq!(read_all(&disk).unwrap().0.len(), 3);
}

/// The mark says which segments to look at, and it may be damaged, too: one that is lost hides nothing.
#[test]
fn a_lost_mark_of_a_begun_segment_hides_no_damage() {
    let (disk, spans) = log_of(60);
    let damaged = spans[30].start;
    let (path, offset) = place(damaged);
    disk.flip_bit(&path, offset + 5, 1);
    let first = geometry().segment_of(damaged);
    for number in first..first + 3 {
        let disk = disk.copy();
        disk.overwrite(&place(geometry().first_record_of(number)).0, 512, &[0; 8]);
        let error = read_all(&disk).unwrap_err();
        assert!(matches!(error, LogReadError::Damaged { lsn, .. } if lsn == damaged), "{number}: {error}");
    }
}
