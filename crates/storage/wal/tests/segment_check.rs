//! Segment files looked at alone.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::{DATABASE, SEGMENT_BYTES, append, create, geometry};
use seawall_simulation::{SeededRandom, SimulatedDisk, seeds};
use seawall_types::{Lsn, TimelineId};
use seawall_wal::{
    HEADER_BYTES, RecordSpan, SegmentCheckError, SegmentHeaderError, SegmentName, check_segment,
};

fn name(number: u64) -> SegmentName {
    SegmentName { number, timeline: TimelineId::FIRST }
}

/// A log of some segments with records of random lengths up to `value_bytes_max`, and spares.
fn log(seed: u64, value_bytes_max: u64) -> (SimulatedDisk, Vec<RecordSpan>) {
    let disk = SimulatedDisk::new(seed);
    let log = create(&disk);
    let mut random = SeededRandom::new(seed);
    let mut spans: Vec<RecordSpan> = Vec::new();
    while spans.last().is_none_or(|span| geometry().segment_of(span.end) < 5) {
        let length = usize::try_from(random.below(value_bytes_max)).unwrap();
        let value = random.bytes(length);
        spans.push(append(&log, &value).unwrap());
    }
    log.flush_until(log.appended()).unwrap();
    log.prepare_ahead().unwrap();
    (disk, spans)
}

fn segment(disk: &SimulatedDisk, number: u64) -> Vec<u8> {
    disk.read_file(&name(number).path()).unwrap()
}

#[test]
fn a_whole_segment_says_whose_it_is_and_a_last_one_where_it_ends() {
    for seed in seeds(10) {
        for value_bytes_max in [10, 300, 5_000, 40_000, 200_000] {
            let (disk, spans) = log(seed, value_bytes_max);
            let end = spans.last().unwrap().end;
            // A record that fills its segment exactly ends behind the header of the next one, which is not begun.
            let end_is_next = end == geometry().first_record_of(geometry().segment_of(end));
            let last = geometry().segment_of(end) - u64::from(end_is_next);
            for number in 1..=last {
                let content = check_segment(&segment(&disk, number)).unwrap();
                assert_eq!((content.database, content.name), (DATABASE, name(number)));
                assert_eq!(content.segment_bytes, SEGMENT_BYTES);
                let within = (number == last && !end_is_next).then_some(end);
                let expected = within.unwrap_or(Lsn::new((number + 1) * SEGMENT_BYTES));
                let has_record = spans.iter().any(|span| {
                    geometry().segment_of(span.start) == number
                        && span.start.get() / SEGMENT_BYTES == (span.end.get() - 1) / SEGMENT_BYTES
                });
                if has_record {
                    assert_eq!(content.records_end, expected, "seed {seed}, segment {number}");
                    assert_eq!(content.is_full, within.is_none());
                    assert!(content.verified_bytes > 0);
                }
            }
        }
    }
}

#[test]
fn a_damaged_byte_of_a_record_is_found_unless_the_record_is_in_two_segments() {
    for seed in seeds(20) {
        let (disk, spans) = log(seed, 2_000);
        let mut random = SeededRandom::new(seed);
        for number in 1..=3 {
            let whole = segment(&disk, number);
            for _ in 0..50 {
                let offset = random.range(HEADER_BYTES..SEGMENT_BYTES);
                let lsn = Lsn::new(number * SEGMENT_BYTES + offset);
                let span = spans.iter().find(|span| (span.start..span.end).contains(&lsn)).unwrap();
                let is_in_one = span.start.get() / SEGMENT_BYTES == number
                    && span.end.get() <= (number + 1) * SEGMENT_BYTES;
                let mut damaged = whole.clone();
                damaged[usize::try_from(offset).unwrap()] ^= 1 << random.below(8);
                let found = check_segment(&damaged);
                let is_told = match &found {
                    Err(SegmentCheckError::Damaged { .. }) => true,
                    // The first record is found by search, the last one has none behind it.
                    Ok(content) => {
                        content.verified_bytes < check_segment(&whole).unwrap().verified_bytes
                            || !content.is_full
                    }
                    Err(error) => panic!("seed {seed} offset {offset}: {error}"),
                };
                assert!(is_told || !is_in_one, "seed {seed} segment {number} offset {offset}: {found:?}");
            }
        }
    }
}

#[test]
fn what_is_no_segment_is_refused() {
    let (disk, _) = log(1, 500);
    let whole = segment(&disk, 2);
    for length in [0, 100, 4095, 4096, 30_000, whole.len() - 1] {
        let error = check_segment(&whole[..length]).unwrap_err();
        assert!(matches!(error, SegmentCheckError::Header(SegmentHeaderError::Length { .. })), "{error}");
    }
    for offset in 0..4096 {
        let mut damaged = whole.clone();
        damaged[offset] ^= 1;
        assert!(check_segment(&damaged).is_err(), "offset {offset}");
    }
    // One that the log has not come to.
    let spare = (3..20)
        .map(|number| name(number).path())
        .filter_map(|path| disk.read_file(&path))
        .next_back()
        .unwrap();
    assert!(matches!(check_segment(&spare), Err(SegmentCheckError::NotBegun)));
    // The second half never came to the disk.
    let mut torn = whole;
    torn[30_000..].fill(0);
    let content = check_segment(&torn).unwrap();
    assert!(!content.is_full && content.records_end.get() < 2 * SEGMENT_BYTES + 30_000);
}
