//! Which files are segments, and which are not archived.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "common/postgresql_log.rs"]
mod postgresql_log;

use postgresql_log::PostgreSqlLog;
use proptest::prelude::*;
use seawall_archive::{
    Expected, PostgreSqlError, SegmentError, System, TimelineId, identify, postgresql_last_record,
    postgresql_last_transaction_end, postgresql_restore_points,
};
use seawall_types::Lsn;

const SYSTEM: u64 = 7_301_234_567_890_123_456;

fn log_of(segments: usize, body_bytes: usize) -> PostgreSqlLog {
    let mut log = PostgreSqlLog::new(SYSTEM);
    log.fill(segments, body_bytes);
    log
}

fn identify_alone(name: &str, content: &[u8]) -> Result<seawall_archive::Description, SegmentError> {
    identify(name, content, &Expected::default())
}

#[test]
fn whole_segments_of_every_release_are_described() {
    for magic in [0xD106, 0xD10D, 0xD110, 0xD113, 0xD116, 0xD118] {
        // Bodies that end on pages, over pages, and over several segments.
        for body_bytes in [0, 1, 100, 8_128, 9_000, 70_000, 2_500_000] {
            let mut log = PostgreSqlLog::new(SYSTEM);
            log.magic = magic;
            log.fill(4, body_bytes);
            for index in 0..4 {
                let found = identify_alone(&log.name(index), &log.segment(index)).unwrap();
                assert_eq!(found.system, System::PostgreSql(SYSTEM));
                assert_eq!((found.log_version, found.segment_bytes), (magic, 1 << 20));
                assert_eq!(found.start, Lsn::new((1 + index as u64) << 20));
                assert_eq!(found.end, Lsn::new((2 + index as u64) << 20));
                assert!(!found.ends_early, "magic {magic:x} bodies of {body_bytes}, segment {index}");
            }
        }
    }
    let mut log = log_of(1, 100);
    log.magic = 0xD200;
    let content = [&0xD200_u16.to_le_bytes()[..], &log.segment(0)[2..]].concat();
    assert!(matches!(identify_alone(&log.name(0), &content), Err(SegmentError::Unknown { .. })));
    assert!(matches!(identify_alone(&log.name(0), b""), Err(SegmentError::Unknown { .. })));
}

#[test]
fn restore_points_are_found_wherever_they_lie_in_a_segment() {
    let mut log = PostgreSqlLog::new(SYSTEM);
    let body = |name: &str| {
        let mut body = vec![0xFF, 72];
        body.extend_from_slice(&[1; 8]);
        body.extend_from_slice(name.as_bytes());
        body.resize(74, 0);
        body
    };
    let mut expected = Vec::new();
    // Over the ends of pages, too, for there are many.
    while log.bytes.len() < 900_000 {
        let name = format!("point {} \u{e9}", expected.len());
        let start = log.start + log.begin() as u64;
        log.record(0, 0x70, &body(&name));
        // Another kind, and another manager.
        log.record(0, 0x50, &body("no point"));
        log.record(10, 0x70, &body("no point"));
        expected.push((Lsn::new(start), name));
    }
    log.fill(2, 100);
    let points = |index| postgresql_restore_points(&log.segment(index), TimelineId::FIRST).unwrap();
    let found: Vec<(Lsn, String)> = points(0).into_iter().map(|point| (point.lsn, point.name)).collect();
    assert!(found == expected, "{} of {}", found.len(), expected.len());
    assert_eq!(points(1), []);
    assert!(postgresql_restore_points(b"", TimelineId::FIRST).is_err());
}

#[test]
fn the_last_record_is_one_that_is_all_there_and_no_switch() {
    let last = |log: &PostgreSqlLog, index| postgresql_last_record(&log.segment(index), TimelineId::FIRST);
    let mut log = PostgreSqlLog::new(SYSTEM);
    let mut begun = Vec::new();
    while log.bytes.len() < 2 << 20 {
        begun.push(log.record(10, 0, &[7; 300]));
    }
    for (index, border) in [(0, 1 << 20), (1, 2 << 20)] {
        // The last one that begins there goes on in the next segment.
        let cut_off = *begun.iter().rfind(|offset| **offset < border).unwrap();
        let whole = *begun.iter().rfind(|offset| **offset < cut_off).unwrap();
        assert_eq!(last(&log, index), Ok(Some(Lsn::new(log.start + whole as u64))));
    }
    let mut log = PostgreSqlLog::new(SYSTEM);
    let before = log.record(10, 0, &[7; 300]);
    log.switch();
    assert_eq!(last(&log, 0), Ok(Some(Lsn::new(log.start + before as u64))));
    // All of it belongs to one record.
    let mut log = PostgreSqlLog::new(SYSTEM);
    log.record(10, 0, &vec![7; 4 << 20]);
    assert_eq!(last(&log, 1), Ok(None));
    assert!(postgresql_last_record(b"", TimelineId::FIRST).is_err());
}

#[test]
fn the_latest_end_of_a_transaction_is_found_in_all_its_forms() {
    let last = |log: &PostgreSqlLog, index| {
        postgresql_last_transaction_end(&log.segment(index), TimelineId::FIRST).unwrap()
    };
    let body = |before: &[u8], micros: i64| [before, &micros.to_le_bytes(), &[7; 30]].concat();
    let (short, long) = (&[0xFF, 38][..], &[0xFE, 38, 0, 0, 0][..]);
    let origin = [&[0xFD, 1, 0][..], &[0xFC, 1, 0, 0, 0], long].concat();
    // A second of 2001, and what PostgreSQL counts from.
    let (at, epoch) = (31_622_400_000_000, 946_684_800_000_000);
    // Commit, abort, commit and abort of a prepared one; and one with more fields.
    for (kind, before) in [(0x00, short), (0x20, long), (0x30, &origin[..]), (0x40, short), (0x80, long)] {
        let mut log = PostgreSqlLog::new(SYSTEM);
        // Over the ends of pages, too, for there are many.
        for number in 0..20_000 {
            log.record(1, kind, &body(before, at + number));
        }
        log.record(1, kind, &body(before, at - 1));
        // Another kind, another manager, and one that is too short.
        log.record(1, 0x10, &body(before, at + 1_000_000));
        log.record(10, kind, &body(before, at + 1_000_000));
        log.record(1, kind, &before[..1]);
        let segments = log.bytes.len() / log.segment_bytes;
        log.fill(segments + 2, 100);
        let found: Vec<_> = (0..segments + 2).map(|index| last(&log, index)).collect();
        assert!(found.is_sorted_by_key(|time| time.is_none()), "kind {kind:x}: {found:?}");
        assert_eq!(found.iter().max(), Some(&Some(epoch + at + 19_999)), "kind {kind:x}: {found:?}");
        assert_eq!(found[segments + 1], None, "kind {kind:x}");
    }
    assert!(postgresql_last_transaction_end(b"", TimelineId::FIRST).is_err());
}

#[test]
fn pages_and_segments_of_other_sizes_are_read() {
    for (segment_bytes, page_bytes) in [(1 << 20, 4096), (1 << 20, 65_536), (64 << 20, 8192)] {
        let mut log = PostgreSqlLog::new(SYSTEM);
        (log.segment_bytes, log.page_bytes, log.start) = (segment_bytes, page_bytes, 5 << 32);
        log.fill(1, 300_000);
        let found = identify_alone(&log.name(0), &log.segment(0)).unwrap();
        assert_eq!(found.start, Lsn::new(5 << 32));
        assert!(!found.ends_early);
    }
}

#[test]
fn a_switched_segment_is_whole_and_nothing_may_follow_the_switch() {
    let mut log = log_of(1, 500);
    for _ in 0..100 {
        log.record(10, 0, b"a few more");
    }
    let switch = log.switch() - (1 << 20);
    let segment = log.segment(1);
    assert!(!identify_alone(&log.name(1), &segment).unwrap().ends_early);
    for offset in [switch + 24, switch + 100, (1 << 20) - 1] {
        let mut damaged = segment.clone();
        damaged[offset] = 1;
        let error = identify_alone(&log.name(1), &damaged).unwrap_err();
        assert!(
            matches!(error, SegmentError::PostgreSql { problem: PostgreSqlError::BehindSwitch { .. }, .. }),
            "{error}"
        );
    }
}

#[test]
fn a_segment_under_another_name_or_of_another_system_is_refused() {
    let log = log_of(2, 500);
    let error = identify_alone(&log.name(1), &log.segment(0)).unwrap_err();
    assert!(error.to_string().contains(&format!("belongs into {}", log.name(0))), "{error}");
    // Of a timeline that is older than its pages.
    let mut newer = PostgreSqlLog::new(SYSTEM);
    newer.timeline = 5;
    newer.fill(1, 500);
    let name = newer.name(0).replacen("00000005", "00000004", 1);
    assert!(identify_alone(&name, &newer.segment(0)).is_err());
    let expected = Expected { system: Some(System::PostgreSql(1)), fork: None };
    let error = identify(&log.name(0), &log.segment(0), &expected).unwrap_err();
    assert!(matches!(error, SegmentError::OtherSystem { .. }), "{error}");
    for name in ["x", "000000010000000000000001.ready", "archive_status/00000002.history"] {
        assert!(matches!(identify_alone(name, &log.segment(0)), Err(SegmentError::Name { .. })));
    }
}

#[test]
fn a_cut_or_lengthened_segment_is_refused() {
    let log = log_of(1, 500);
    let segment = log.segment(0);
    for length in [0, 1, 2, 39, 40, 8192, 1 << 19, (1 << 20) - 1] {
        assert!(identify_alone(&log.name(0), &segment[..length]).is_err(), "{length} bytes");
    }
    let error = identify_alone(&log.name(0), &segment[..1 << 19]).unwrap_err();
    assert!(matches!(error, SegmentError::Length { found: 524_288, expected: 1_048_576, .. }), "{error}");
    let longer = [&segment[..], &[0]].concat();
    assert!(matches!(identify_alone(&log.name(0), &longer), Err(SegmentError::Length { .. })));
}

/// The first half is there, the rest is zeros or what was in the file before it was recycled.
#[test]
fn a_torn_segment_is_refused_unless_its_timeline_was_left_there() {
    let log = log_of(1, 500);
    let mut old = PostgreSqlLog::new(SYSTEM);
    (old.start, old.timeline) = (0, 1);
    old.fill(1, 700);
    for rest in [vec![0; 1 << 19], old.segment(0)[1 << 19..].to_vec()] {
        let torn = [&log.segment(0)[..1 << 19], &rest].concat();
        let name = log.name(0);
        let error = identify_alone(&name, &torn).unwrap_err();
        let SegmentError::EndsEarly { end, .. } = error else { panic!("{error}") };
        let half = (1 << 20) + (1 << 19);
        assert!(end.get() > half - 600 && end.get() <= half, "{end}");
        let found = identify_alone(&format!("{name}.partial"), &torn).unwrap();
        assert_eq!((found.end, found.ends_early), (end, true));
        let with_fork = |fork| identify(&name, &torn, &Expected { system: None, fork: Some(fork) });
        assert!(with_fork(end).unwrap().ends_early);
        assert!(with_fork(Lsn::new(end.get() + 8)).is_err());
    }
}

#[test]
fn a_record_that_was_given_up_is_passed_over() {
    // A crash lost the second page of a record: the server goes on at that page, and says so.
    for in_first_page_of_segment in [false, true] {
        let mut log = log_of(1, 500);
        if in_first_page_of_segment {
            log.bytes.truncate(1 << 20);
        } else {
            while log.bytes.len() % 8192 < 8000 {
                log.record(10, 0, &[1; 40]);
            }
            log.record(10, 0, &[2; 3000]);
            log.bytes.truncate(log.bytes.len() / 8192 * 8192);
        }
        log.page_header(0, 8);
        log.record(0, 0xD0, &[0; 16]);
        log.fill(2, 500);
        for index in 0..2 {
            assert!(!identify_alone(&log.name(index), &log.segment(index)).unwrap().ends_early);
        }
        // Without that flag the same bytes are damage.
        let page = if in_first_page_of_segment {
            1 << 20
        } else {
            log.bytes[1 << 20..].chunks(8192).position(|page| page[2] & 8 != 0).unwrap() * 8192 + (1 << 20)
        };
        log.bytes[page + 2] &= !8;
        let index = 1;
        if !in_first_page_of_segment {
            assert!(identify_alone(&log.name(index), &log.segment(index)).is_err());
        }
    }
}

#[test]
fn the_first_segment_of_a_timeline_begins_with_pages_of_its_parent() {
    let mut log = PostgreSqlLog::new(SYSTEM);
    for _ in 0..500 {
        log.record(10, 0, &[3; 200]);
    }
    // The new timeline goes on in the middle of a page, whose header stays that of the parent.
    log.timeline = 2;
    log.fill(1, 200);
    assert!(!identify_alone(&log.name(0), &log.segment(0)).unwrap().ends_early);
    // The other way round there is no such segment.
    let mut log = PostgreSqlLog::new(SYSTEM);
    log.timeline = 2;
    for _ in 0..500 {
        log.record(10, 0, &[3; 200]);
    }
    log.timeline = 1;
    log.fill(1, 200);
    assert!(identify_alone(&log.name(0).replacen("00000001", "00000002", 1), &log.segment(0)).is_err());
}

#[test]
fn histories_and_backup_labels_need_a_system_and_are_read() {
    let history = b"1\t0/3000158\tno recovery target specified\n";
    let label = b"START WAL LOCATION: 0/2000028 (file 000000010000000000000002)\n";
    let expected = Expected { system: Some(System::PostgreSql(SYSTEM)), fork: None };
    let found = identify("00000002.history", history, &expected).unwrap();
    assert_eq!(found.start, Lsn::new(0x300_0158));
    identify("000000010000000000000002.00000028.backup", label, &expected).unwrap();
    for (name, content) in [
        ("00000001.history", &history[..]),
        ("00000002.history", b""),
        ("00000002.history", b"\xFF\xFE"),
        ("000000010000000000000003.00000028.backup", label),
    ] {
        assert!(matches!(identify(name, content, &expected), Err(SegmentError::Text { .. })), "{name}");
    }
    assert!(matches!(identify_alone("00000002.history", history), Err(SegmentError::NeedsSystem { .. })));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// A flipped bit is found, if it is in a record that begins and ends in the segment, or in a page header.
    #[test]
    fn a_flipped_bit_is_found(body_bytes in 1_usize..20_000, offset in 0_usize..1 << 20, bit in 0_u8..8) {
        let log = log_of(3, body_bytes);
        let segment = log.segment(1);
        let mut damaged = segment.clone();
        damaged[offset] ^= 1 << bit;
        let refused = identify_alone(&log.name(1), &damaged).is_err();
        prop_assert!(refused || is_not_verifiable(&segment, offset), "bodies of {}, offset {}", body_bytes, offset);
    }

    #[test]
    fn random_bytes_are_refused_without_panic(mut content in prop::collection::vec(any::<u8>(), 0..200), fill: bool) {
        let log = PostgreSqlLog::new(SYSTEM);
        if fill {
            content.splice(0..content.len().min(2), log.magic.to_le_bytes());
        }
        prop_assert!(identify_alone(&log.name(0), &content).is_err());
    }

    /// A valid segment with any stretch overwritten: an error, or a description, and never a panic.
    #[test]
    fn overwritten_stretches_never_panic(offset in 0_usize..1 << 20, bytes in prop::collection::vec(any::<u8>(), 1..64)) {
        let log = log_of(2, 900);
        let mut segment = log.segment(1);
        let end = (offset + bytes.len()).min(segment.len());
        segment[offset..end].copy_from_slice(&bytes[..end - offset]);
        if let Ok(found) = identify_alone(&format!("{}.partial", log.name(1)), &segment) {
            prop_assert!(found.end.get() <= found.start.get() + (1 << 20));
        }
    }
}

/// Padding, and the parts of records that begin or end in another segment.
fn is_not_verifiable(segment: &[u8], offset: usize) -> bool {
    let in_page = offset % 8192;
    let header = if offset < 8192 { 40 } else { 24 };
    if in_page < header {
        // Flags of no interest, the timeline if it stays possible, four bytes of padding.
        return in_page == 2 || (4..8).contains(&in_page) || (20..24).contains(&in_page);
    }
    // Before the first record that begins here, behind the last that ends here, or between two.
    let records = records_of(segment);
    !records.iter().any(|(start, end)| (*start..*end).contains(&offset))
}

/// Where records lie that begin and end here, by lengths alone.
fn records_of(segment: &[u8]) -> Vec<(usize, usize)> {
    let word = |offset: usize| u32::from_le_bytes(segment[offset..offset + 4].try_into().unwrap()) as usize;
    let skip = |mut offset: usize, mut bytes: usize| -> Option<usize> {
        while bytes > 0 {
            if offset >= segment.len() {
                return None;
            }
            if offset.is_multiple_of(8192) {
                offset += if offset == 0 { 40 } else { 24 };
            }
            let here = bytes.min(8192 - offset % 8192);
            offset += here;
            bytes -= here;
        }
        Some(offset)
    };
    let mut records = Vec::new();
    let mut offset = skip(0, word(16));
    while let Some(begin) = offset {
        let mut begin = begin.next_multiple_of(8);
        if begin >= segment.len() {
            break;
        }
        if begin % 8192 == 0 {
            begin += if begin == 0 { 40 } else { 24 };
        }
        let end = skip(begin, word(begin));
        if let Some(end) = end {
            records.push((begin, end));
        }
        offset = end;
    }
    records
}
