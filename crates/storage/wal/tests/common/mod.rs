//! What the tests of the log share: small logs on a simulated disk, records with known content.
#![allow(dead_code, clippy::unwrap_used, reason = "each test file uses a part of it, and a test may panic")]

use std::convert::Infallible;
use std::sync::Arc;

use seawall_io::Disk;
use seawall_simulation::SimulatedDisk;
use seawall_types::{DatabaseId, Lsn, TimelineId};
use seawall_wal::{
    CommitBuilder, Log, LogEnd, LogError, LogGeometry, LogOptions, LogReadError, LogReader, OpenLog, Record,
    RecordSpan,
};

pub(crate) const SEGMENT_BYTES: u64 = 64 << 10;
pub(crate) const DATABASE: DatabaseId = DatabaseId::from_bytes([0xDB; 16]);
pub(crate) const ROW_KEY: [u8; 8] = [0, 0, 0, 0, 0, 0, 0, 9];

pub(crate) fn options() -> LogOptions {
    LogOptions {
        segment_bytes: SEGMENT_BYTES,
        buffer_bytes: 256 << 10,
        ..LogOptions::new(DATABASE, TimelineId::FIRST)
    }
}

pub(crate) fn geometry() -> LogGeometry {
    LogGeometry::new(SEGMENT_BYTES).unwrap()
}

pub(crate) fn arc(disk: &SimulatedDisk) -> Arc<dyn Disk> {
    Arc::new(disk.clone())
}

pub(crate) fn create(disk: &SimulatedDisk) -> OpenLog {
    Log::create(arc(disk), options()).unwrap()
}

/// Appends a commit that puts `value`.
pub(crate) fn append(log: &Log, value: &[u8]) -> Result<RecordSpan, LogError> {
    let mut builder = CommitBuilder::new();
    builder.begin(0);
    builder.put(&ROW_KEY, value);
    let result = log.append(builder.finish(), |_| Ok::<(), Infallible>(()))?;
    let Ok((span, ())) = result;
    Ok(span)
}

/// Appends and flushes.
pub(crate) fn commit(log: &Log, value: &[u8]) -> Result<RecordSpan, LogError> {
    let span = append(log, value)?;
    log.flush_until(span.end)?;
    Ok(span)
}

/// A record as read back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) span: RecordSpan,
    pub(crate) value: Vec<u8>,
}

pub(crate) fn open_reader(disk: &SimulatedDisk, from: Lsn) -> Result<LogReader, LogReadError> {
    LogReader::open(arc(disk), DATABASE, TimelineId::FIRST, SEGMENT_BYTES, from)
}

/// All commits from `from` on, and the end of the log.
pub(crate) fn read_from(disk: &SimulatedDisk, from: Lsn) -> Result<(Vec<Found>, LogEnd), LogReadError> {
    read_reader(open_reader(disk, from)?)
}

/// All commits that `reader` finds, and the end of the log.
pub(crate) fn read_reader(mut reader: LogReader) -> Result<(Vec<Found>, LogEnd), LogReadError> {
    let mut all = Vec::new();
    while let Some(record) = reader.next()? {
        match record.decode().unwrap() {
            Record::Commit(commit) => {
                let changes: Vec<_> = commit.changes().map(Result::unwrap).collect();
                assert_eq!(changes.len(), 1);
                let value = changes[0].value().unwrap().to_vec();
                all.push(Found { span: record.span, value });
            }
            Record::Checkpoint(_)
            | Record::TimelineSwitch(_)
            | Record::RestorePoint(_)
            | Record::NoOp
            | Record::BulkLoad(_)
            | Record::PageImages(_)
            | Record::Prepare(_)
            | Record::CommitPrepared(_)
            | Record::RollbackPrepared(_) => {}
        }
    }
    Ok((all, reader.finish()))
}

/// All commits of the log.
pub(crate) fn read_all(disk: &SimulatedDisk) -> Result<(Vec<Found>, LogEnd), LogReadError> {
    read_from(disk, geometry().first_lsn())
}

/// Path and offset of the byte at `lsn`.
pub(crate) fn place(lsn: Lsn) -> (String, u64) {
    (format!("log/{:08X}{:016X}", 1, geometry().segment_of(lsn)), geometry().offset_of(lsn))
}

/// Overwrites record bytes from `lsn` on, across segments.
pub(crate) fn overwrite(disk: &SimulatedDisk, lsn: Lsn, bytes: &[u8]) {
    for (index, &byte) in bytes.iter().enumerate() {
        let (path, offset) = place(geometry().advance(lsn, index as u64));
        disk.overwrite(&path, offset, &[byte]);
    }
}

/// Record bytes between two positions.
pub(crate) fn bytes_between(disk: &SimulatedDisk, start: Lsn, end: Lsn) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut files = std::collections::HashMap::new();
    for index in 0..geometry().payload_between(start, end) {
        let (path, offset) = place(geometry().advance(start, index));
        let file: &Vec<u8> = files.entry(path).or_insert_with_key(|path| disk.read_file(path).unwrap());
        bytes.push(file[usize::try_from(offset).unwrap()]);
    }
    bytes
}
