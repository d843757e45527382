//! Reading the log of a database that is open elsewhere: what it writes, removes and recycles meanwhile is no damage.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::io;
use std::sync::{Arc, Mutex};

use common::{DATABASE, SEGMENT_BYTES, commit, create, geometry};
use seawall_io::{DirectoryEntry, DirectoryLock, Disk, DiskFile, LockMode, OpenMode, SharedMapping};
use seawall_simulation::SimulatedDisk;
use seawall_types::{Lsn, TimelineId};
use seawall_wal::{LogReadError, LogReader};

type Action = Box<dyn FnOnce() + Send>;

/// A disk that does something before it lists the log's directory, once.
struct Interrupted {
    disk: SimulatedDisk,
    action: Mutex<Option<Action>>,
}

impl std::fmt::Debug for Interrupted {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.disk.fmt(formatter)
    }
}

impl Disk for Interrupted {
    fn open(&self, path: &str, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        self.disk.open(path, mode)
    }

    fn create_directory(&self, path: &str) -> io::Result<()> {
        self.disk.create_directory(path)
    }

    fn list(&self, directory: &str) -> io::Result<Vec<DirectoryEntry>> {
        self.disk.list(directory)
    }

    fn list_names(&self, directory: &str) -> io::Result<Vec<String>> {
        assert_eq!(directory, "log");
        let action = self.action.lock().unwrap().take();
        if let Some(action) = action {
            action();
        }
        self.disk.list_names(directory)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        self.disk.remove(path)
    }

    fn sync_directory(&self, directory: &str) -> io::Result<()> {
        self.disk.sync_directory(directory)
    }

    fn map_shared(&self, path: &str) -> io::Result<Box<dyn SharedMapping>> {
        self.disk.map_shared(path)
    }

    fn lock(&self, path: &str, mode: LockMode) -> io::Result<Box<dyn DirectoryLock>> {
        self.disk.lock(path, mode)
    }

    fn location(&self, path: &str) -> String {
        self.disk.location(path)
    }
}

/// A reader that is interrupted where it looks for evidence of damage.
fn reader(disk: &SimulatedDisk, from: Lsn, action: Action) -> (LogReader, Arc<Interrupted>) {
    let disk = Arc::new(Interrupted { disk: disk.clone(), action: Mutex::new(Some(action)) });
    let on_disk = Arc::clone(&disk) as Arc<dyn Disk>;
    (LogReader::open(on_disk, DATABASE, TimelineId::FIRST, SEGMENT_BYTES, from).unwrap(), disk)
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
        let (mut reader, _disk) = reader(&disk, first.start, Box::new(write));
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
    let (mut reader, _disk) = reader(&disk, spans[0].start, Box::new(write));
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
    let (mut reader, _disk) = reader(&disk, spans[0].start, Box::new(|| {}));
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
