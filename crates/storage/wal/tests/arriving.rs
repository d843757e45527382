//! A log that arrives bit by bit is read as far as it is there; in what has arrived, nothing is taken for a torn end.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::{append, commit, create, geometry, open_reader, place, read_all};
use seawall_simulation::{SeededRandom, SimulatedDisk, seeds};
use seawall_types::Lsn;
use seawall_wal::{LogReadError, LogReader, RecordSpan};

/// Commits of all sizes over several segments, in batches of one or more.
fn log_of(seed: u64) -> (SimulatedDisk, Vec<RecordSpan>) {
    let mut random = SeededRandom::new(seed);
    let disk = SimulatedDisk::new(1);
    let log = create(&disk);
    let mut spans = Vec::new();
    for _ in 0..40 {
        let length = *random.pick(&[0, 10, 100, 1000, 9000, 70_000]);
        let value = random.bytes(length);
        spans.push(if random.chance(1, 3) { append(&log, &value) } else { commit(&log, &value) }.unwrap());
    }
    log.flush_until(log.appended()).unwrap();
    (disk, spans)
}

/// Where the records end that the reader finds now.
fn read_on(reader: &mut LogReader) -> Result<Vec<Lsn>, LogReadError> {
    let mut ends = Vec::new();
    while let Some(record) = reader.next()? {
        ends.push(record.span.end);
    }
    Ok(ends)
}

fn reader_of(disk: &SimulatedDisk, arrived: Lsn) -> LogReader {
    let mut reader = open_reader(disk, geometry().first_lsn()).unwrap();
    reader.set_arrived(arrived);
    reader
}

#[test]
fn what_has_arrived_is_read_and_a_record_that_goes_on_behind_it_waits() {
    for seed in seeds(20) {
        let (disk, spans) = log_of(seed);
        assert_eq!(read_all(&disk).unwrap().0.len(), spans.len());
        let mut random = SeededRandom::new(seed);
        let (start, end) = (spans[0].start, spans.last().unwrap().end);
        let mut arrived = start;
        let mut reader = reader_of(&disk, arrived);
        let mut found = Vec::new();
        while arrived < end {
            let more = *random.pick(&[1, 5, 20, 3000, 60_000, 200_000]);
            arrived = geometry().advance(arrived, more).min(end);
            reader.set_arrived(arrived);
            found.extend(read_on(&mut reader).unwrap());
            let whole: Vec<Lsn> = spans.iter().map(|span| span.end).filter(|end| *end <= arrived).collect();
            assert_eq!(found, whole, "seed {seed}, up to {arrived}");
        }
        reader.check_cut_off().unwrap();
        // What comes segment by segment may end inside of a record.
        for number in 2..=geometry().segment_of(end) {
            let mut reader = reader_of(&disk, geometry().first_record_of(number));
            read_on(&mut reader).unwrap();
            reader.check_cut_off().unwrap_or_else(|error| panic!("seed {seed}, segment {number}: {error}"));
        }
    }
}

#[test]
fn a_flipped_bit_in_what_has_arrived_is_damage_also_in_the_last_batch() {
    for seed in seeds(20) {
        let (disk, spans) = log_of(seed);
        let mut random = SeededRandom::new(seed);
        let end = spans.last().unwrap().end;
        for (index, span) in spans.iter().enumerate() {
            let length = geometry().payload_between(span.start, span.end);
            // All of the length, then any byte.
            for offset in (0..4).chain([random.below(length)]) {
                let damaged = disk.copy();
                let (path, byte) = place(geometry().advance(span.start, offset));
                damaged.flip_bit(&path, byte, u8::try_from(random.below(8)).unwrap());
                let what = format!("seed {seed}, record {index} of {length} bytes, byte {offset}");
                let mut reader = reader_of(&damaged, end);
                let read = read_on(&mut reader).and_then(|found| reader.check_cut_off().map(|()| found));
                match read {
                    Err(LogReadError::Damaged { path, offset: at, lsn, evidence }) => {
                        assert_eq!((path, at, lsn), (place(span.start).0, place(span.start).1, span.start));
                        assert!(evidence > lsn, "{what}");
                    }
                    Ok(_) => panic!("{what}: dropped in silence"),
                    Err(other) => panic!("{what}: {other}"),
                }
            }
        }
    }
}

/// The log ends at the border of a segment, and its last whole record is one in the middle of a batch, far behind the damaged one.
#[test]
fn one_record_behind_a_damaged_length_is_enough_to_tell_it_from_one_that_was_cut_off() {
    let disk = SimulatedDisk::new(1);
    let log = create(&disk);
    commit(&log, b"first").unwrap();
    append(&log, b"the batch begins").unwrap();
    let long = append(&log, &[7; 100_000]).unwrap();
    let last = append(&log, b"in the middle of it").unwrap();
    let cut_off = append(&log, &[8; 100_000]).unwrap();
    log.flush_until(cut_off.end).unwrap();
    let border = geometry().first_record_of(geometry().segment_of(last.end) + 1);
    assert!(border < cut_off.end);
    let mut reader = reader_of(&disk, border);
    assert_eq!(read_on(&mut reader).unwrap().last(), Some(&last.end));
    reader.check_cut_off().unwrap();
    let (path, byte) = place(geometry().advance(long.start, 3));
    disk.flip_bit(&path, byte, 4);
    let mut reader = reader_of(&disk, border);
    read_on(&mut reader).unwrap();
    let refused = reader.check_cut_off();
    let is_told = |lsn: Lsn, evidence: Lsn| lsn == long.start && evidence == last.start;
    assert!(
        matches!(refused, Err(LogReadError::Damaged { lsn, evidence, .. }) if is_told(lsn, evidence)),
        "{refused:?}"
    );
}
