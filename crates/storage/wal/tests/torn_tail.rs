//! A batch that was torn off by a power loss ends the log, wherever it is torn; what was durable before stays.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::{append, bytes_between, commit, create, geometry, overwrite, read_all};
use seawall_simulation::{SeededRandom, SimulatedDisk};
use seawall_wal::EndReason;

/// A log with durable records, and then one batch of several; `value_bytes` decides how they lie.
fn log_with_batch(value_bytes: usize) -> (SimulatedDisk, Vec<seawall_wal::RecordSpan>, usize) {
    let disk = SimulatedDisk::new(1);
    let log = create(&disk);
    let mut spans: Vec<_> = (0..5_u8).map(|index| commit(&log, &[index; 33]).unwrap()).collect();
    let durable = spans.len();
    spans.extend((0..4_u8).map(|index| append(&log, &vec![index + 100; value_bytes]).unwrap()));
    log.flush_until(log.appended()).unwrap();
    (disk, spans, durable)
}

#[test]
fn a_tail_cut_at_any_byte_ends_the_log_at_a_record() {
    let (disk, spans, durable) = log_with_batch(40);
    let (start, end) = (spans[durable].start, spans.last().unwrap().end);
    let length = usize::try_from(geometry().payload_between(start, end)).unwrap();
    for junk in [0x00, 0xA7] {
        for cut in 0..length {
            let torn = disk.copy();
            let from = geometry().advance(start, cut as u64);
            overwrite(&torn, from, &vec![junk; length - cut]);
            let (found, log_end) = read_all(&torn).unwrap();
            let whole = spans.iter().filter(|span| span.end <= from).count();
            assert_eq!(found.len(), whole, "cut at byte {cut} with {junk:#x}");
            let expected = spans.get(whole).map_or(end, |span| span.start);
            assert_eq!((log_end.lsn, log_end.reason), (expected, EndReason::NoRecord));
        }
    }
}

#[test]
fn a_batch_torn_into_sectors_never_loses_what_was_durable_and_is_never_called_damage() {
    let (disk, spans, durable) = log_with_batch(30_000);
    let (start, end) = (spans[durable].start, spans.last().unwrap().end);
    let bytes = bytes_between(&disk, start, end);
    for seed in 0..150 {
        let mut random = SeededRandom::new(seed);
        let torn = disk.copy();
        let mut lost_any = false;
        for (index, sector) in bytes.chunks(512).enumerate() {
            if random.chance(1, 40) {
                let zeros_or_junk = if random.chance(1, 2) { 0 } else { 0x3C };
                let from = geometry().advance(start, index as u64 * 512);
                overwrite(&torn, from, &vec![zeros_or_junk; sector.len()]);
                lost_any = true;
            }
        }
        let (found, log_end) = read_all(&torn).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert!(found.len() >= durable, "seed {seed}");
        assert_eq!(lost_any, log_end.lsn < end, "seed {seed}");
        for (found, span) in found.iter().zip(&spans) {
            assert_eq!(found.span, *span, "seed {seed}");
        }
    }
}

#[test]
fn an_empty_log_ends_where_it_starts() {
    let disk = SimulatedDisk::new(1);
    drop(create(&disk));
    let (found, end) = read_all(&disk).unwrap();
    assert!(found.is_empty());
    assert_eq!((end.lsn, end.reason), (geometry().first_lsn(), EndReason::NoRecord));
}
