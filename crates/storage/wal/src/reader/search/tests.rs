use std::sync::Arc;

use seawall_simulation::{SeededRandom, SimulatedDisk};
use seawall_types::{DatabaseId, Timeline};

use super::*;
use crate::record::{PreparedRecord, STAMP_BYTES};
use crate::segment::{LogIdentity, SegmentName, SegmentUse, encode_header};

fn identity(segment_bytes: u64) -> LogIdentity {
    let geometry = LogGeometry::new(segment_bytes).unwrap();
    LogIdentity { database: DatabaseId::from_bytes([3; 16]), timeline: Timeline::FIRST, geometry }
}

fn put_segment(disk: &SimulatedDisk, identity: &LogIdentity, number: u64, payload: &[u8]) {
    let bytes = [&encode_header(identity, number, SegmentUse::Begun)[..], payload].concat();
    disk.write_file(&SegmentName { number, timeline: identity.timeline.id }.path(), &bytes);
}

fn search_from(
    disk: &SimulatedDisk,
    identity: &LogIdentity,
    to_segment: u64,
) -> (Option<Lsn>, PrefixChecksums) {
    let geometry = identity.geometry;
    let mut bytes = LogBytes::new(Arc::new(disk.clone()), *identity);
    let lsn = geometry.first_lsn();
    let from = StreamPosition(geometry.stream_position(lsn).0 + 1);
    let to = geometry.stream_position(geometry.first_record_of(to_segment + 1));
    let (bytes, key) = (&mut bytes, identity.key());
    let checksums = PrefixChecksums::from(from);
    let floor = Some(lsn);
    let mut search = Search { bytes, key, geometry, lsn, floor, to, checksums, claimed: None };
    let evidence = search.run(from).unwrap();
    (evidence, search.checksums)
}

/// Headers end to end, each of which says that it starts a batch and a record that goes on to the end of the segment
/// or to a place before it.
fn crafted(identity: &LogIdentity, number: u64, random: &mut SeededRandom) -> (Vec<u8>, u64) {
    let geometry = identity.geometry;
    let payload_bytes = geometry.payload_bytes();
    let mut payload = vec![0; usize::try_from(payload_bytes).unwrap()];
    let mut count = 0;
    for (index, header) in payload.chunks_exact_mut(RECORD_HEADER_BYTES).enumerate() {
        let offset = (index * RECORD_HEADER_BYTES) as u64;
        let lsn = Lsn::new(geometry.first_record_of(number).get() + offset);
        let left = payload_bytes - offset;
        let length = if index % 2 == 0 { left } else { left - random.below(left / 2 + 1) };
        let length = u32::try_from(length.max(RECORD_HEADER_BYTES as u64)).unwrap();
        // Masked for another length, none of them verifies.
        header[..STAMP_BYTES].copy_from_slice(&PreparedRecord::no_op(0).stamp(identity.key(), lsn, lsn));
        header[0..4].copy_from_slice(&length.to_le_bytes());
        header[12] = 1;
        count += 1;
    }
    (payload, count)
}

#[test]
fn crafted_bytes_cost_a_few_readings_of_the_segment() {
    let identity = identity(16 << 20);
    let disk = SimulatedDisk::new(1);
    let (payload, count) = crafted(&identity, 1, &mut SeededRandom::new(5));
    put_segment(&disk, &identity, 1, &payload);
    let (evidence, checksums) = search_from(&disk, &identity, 1);
    assert_eq!(evidence, None);
    let segment_bytes = 16 << 20;
    assert!(count > 1_000_000, "{count} headers were crafted");
    // A window of candidates reads what lies behind it once: 16 windows. To check each for itself would be 2^43 bytes.
    let checksummed = checksums.checksummed_bytes;
    assert!(checksummed <= 17 * segment_bytes, "{checksummed} bytes");
    let read = disk.read_count("log/").bytes;
    assert!(read <= 2 * 17 * segment_bytes, "{read} bytes read");
}

#[test]
fn a_record_among_crafted_bytes_is_found() {
    let identity = identity(64 << 10);
    let geometry = identity.geometry;
    let mut random = SeededRandom::new(6);
    for seed in 0..20 {
        let disk = SimulatedDisk::new(seed);
        let (mut payload, _) = crafted(&identity, 1, &mut random);
        let (more, _) = crafted(&identity, 2, &mut random);
        payload.extend_from_slice(&more);
        // It crosses into the second segment.
        let start = usize::try_from(20_000 + random.below(30_000)).unwrap();
        let record = PreparedRecord::no_op(usize::try_from(45_000 + random.below(10_000)).unwrap());
        let lsn = geometry.advance(geometry.first_lsn(), start as u64);
        let copy = &mut payload[start..start + record.record_bytes()];
        copy.copy_from_slice(record.as_bytes());
        copy[..STAMP_BYTES].copy_from_slice(&record.stamp(identity.key(), lsn, lsn));
        let (first, second) = payload.split_at(usize::try_from(geometry.payload_bytes()).unwrap());
        put_segment(&disk, &identity, 1, first);
        put_segment(&disk, &identity, 2, second);
        assert_eq!(search_from(&disk, &identity, 2).0, Some(lsn), "seed {seed}");
        // A record that says it goes on where the file has been cut does not verify, and does no harm.
        disk.truncate("log/000000010000000000000001", 4096 + start as u64 + 100);
        assert_eq!(search_from(&disk, &identity, 2).0, None, "seed {seed}");
    }
}

/// Old bytes of a recycled segment may pass for one record by chance, not for the first of a batch, nor for two of one.
#[test]
fn one_record_far_behind_counts_only_as_the_first_of_its_batch() {
    let identity = identity(1 << 20);
    let geometry = identity.geometry;
    let at = |offset: u64| geometry.advance(geometry.first_lsn(), offset);
    let evidence = |records: &[(u64, u64)]| {
        let mut payload = vec![0; usize::try_from(geometry.payload_bytes()).unwrap()];
        for &(offset, batch) in records {
            let record = PreparedRecord::no_op(100);
            let start = usize::try_from(offset).unwrap();
            payload[start..start + record.record_bytes()].copy_from_slice(record.as_bytes());
            let stamp = record.stamp(identity.key(), at(offset), at(batch));
            payload[start..start + STAMP_BYTES].copy_from_slice(&stamp);
        }
        let disk = SimulatedDisk::new(1);
        put_segment(&disk, &identity, 1, &payload);
        search_from(&disk, &identity, 1).0
    };
    assert_eq!(evidence(&[(500_000, 500_000)]), Some(at(500_000)));
    assert_eq!(evidence(&[(500_000, 499_000)]), None);
    assert_eq!(evidence(&[(500_000, 499_000), (600_000, 599_000)]), None);
    assert_eq!(evidence(&[(500_000, 499_000), (600_000, 499_000)]), Some(at(600_000)));
    assert_eq!(evidence(&[(60_000, 59_000)]), Some(at(60_000)));
    assert_eq!(evidence(&[(60_000, 0)]), None);
}

#[test]
fn a_record_of_every_kind_is_evidence() {
    let identity = identity(64 << 10);
    let lsn = identity.geometry.advance(identity.geometry.first_lsn(), 20_000);
    let kinds: Vec<_> = (0..=u8::MAX).filter_map(RecordKind::from_byte).collect();
    assert!(kinds.len() >= 9);
    for kind in kinds {
        let record = PreparedRecord::from_bytes(kind, vec![7; RECORD_HEADER_BYTES + 30]);
        let mut payload = vec![0; usize::try_from(identity.geometry.payload_bytes()).unwrap()];
        payload[20_000..20_000 + record.record_bytes()].copy_from_slice(record.as_bytes());
        payload[20_000..20_000 + STAMP_BYTES].copy_from_slice(&record.stamp(identity.key(), lsn, lsn));
        let disk = SimulatedDisk::new(1);
        put_segment(&disk, &identity, 1, &payload);
        assert_eq!(search_from(&disk, &identity, 1).0, Some(lsn), "{kind:?}");
    }
}
