//! Reading the log of a database that is open elsewhere: what it writes, removes and recycles meanwhile is no damage.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::sync::{Arc, Mutex};

use common::{DATABASE, SEGMENT_BYTES, commit, create, geometry};
use seawall_simulation::{ObservedDisk, Operation, SimulatedDisk, Verdict};
use seawall_types::{Lsn, TimelineId};
use seawall_wal::{LogReadError, LogReader};

type Action = Box<dyn FnOnce() + Send>;

/// A reader that is interrupted, once, where it lists the log's directory to look for evidence of damage.
fn reader(disk: &SimulatedDisk, from: Lsn, action: Action) -> LogReader {
    let action = Mutex::new(Some(action));
    let disk = ObservedDisk::new(disk.clone(), move |call| {
        if call.kind == Operation::List.into() {
            assert_eq!(call.path, "log");
            let action = action.lock().unwrap().take();
            if let Some(action) = action {
                action();
            }
        }
        Verdict::Make
    });
    LogReader::open(Arc::new(disk), DATABASE, TimelineId::FIRST, SEGMENT_BYTES, from).unwrap()
}

#[test]
fn batches_that_are_written_while_the_reader_looks_for_evidence_are_read_and_no_evidence() {
    for value_bytes in [100, 5_000, 40_000] {
        let disk = SimulatedDisk::new(1);
        let log = Arc::new(create(&disk));
        let first = commit(&log, &[1; 100]).unwrap();
        let writer = Arc::clone(&log);
        let write = move || {
            for byte in 2..6 {
                commit(&writer, &vec![byte; value_bytes]).unwrap();
            }
        };
        let mut reader = reader(&disk, first.start, Box::new(write));
        for number in 0..5 {
            let found = reader.next().unwrap_or_else(|error| panic!("{value_bytes} bytes: {error}"));
            assert!(found.is_some(), "{value_bytes} bytes, record {number}");
        }
        assert!(reader.next().unwrap().is_none());
        assert_eq!(reader.finish().lsn, log.flushed());
    }
}

/// Damage is found all the same, and once only is it looked at again.
#[test]
fn damage_before_batches_that_are_written_meanwhile_is_refused() {
    let disk = SimulatedDisk::new(1);
    let log = Arc::new(create(&disk));
    // Longer than a block, so that no later batch writes the damaged one once more.
    let spans: Vec<_> = (0..3).map(|byte| commit(&log, &[byte; 9_000]).unwrap()).collect();
    let (path, offset) = common::place(spans[2].start);
    disk.flip_bit(&path, offset + 100, 3);
    let writer = Arc::clone(&log);
    let write = move || {
        for byte in 2..6 {
            commit(&writer, &[byte; 300]).unwrap();
        }
    };
    let mut reader = reader(&disk, spans[0].start, Box::new(write));
    assert!(reader.next().unwrap().is_some() && reader.next().unwrap().is_some());
    for _ in 0..2 {
        let error = reader.next().unwrap_err();
        assert!(matches!(error, LogReadError::Damaged { lsn, .. } if lsn == spans[2].start), "{error}");
    }
}

#[test]
fn a_segment_that_is_recycled_under_the_open_reader_is_missing_and_not_damaged() {
    let disk = SimulatedDisk::new(1);
    let log = create(&disk);
    let spans: Vec<_> = (0..60).map(|_| commit(&log, &[1; 62_000]).unwrap()).collect();
    let mut reader = reader(&disk, spans[0].start, Box::new(|| {}));
    assert!(reader.next().unwrap().is_some());
    // The segment that the reader has open gets another place, and other records.
    let report = log.retain_from(log.flushed()).unwrap();
    assert!(report.recycled > 30, "{report:?}");
    (0..50).for_each(|_| assert!(commit(&log, &[2; 62_000]).is_ok()));
    let error = loop {
        match reader.next() {
            Ok(record) => assert!(record.is_some(), "the log does not end here"),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, LogReadError::Missing { .. }), "{error}");
    assert!(geometry().segment_of(reader.position()) < 30);
}
