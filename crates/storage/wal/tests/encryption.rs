//! The log of an encrypted database.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::convert::Infallible;
use std::sync::Arc;

use common::{DATABASE, Found, arc, geometry, options, place};
use seawall_keys::{Cipher, DatabaseKeys, Purpose, SecretKey};
use seawall_simulation::{PowerLoss, SimulatedDisk, SimulatedRandom};
use seawall_types::Lsn;
use seawall_wal::{
    CommitBuilder, EncryptionProblem, Log, LogOptions, LogReadError, PreparedRecord, Record, RestorePoint,
};

const NEEDLE: &[u8] = b"value that nobody may read";

fn cipher(byte: u8) -> Option<Cipher> {
    let (disk, key) = (SimulatedDisk::new(1), SecretKey::from_bytes([byte; 32]));
    let random = Arc::new(SimulatedRandom::new(u64::from(byte)));
    Some(DatabaseKeys::create(&disk, DATABASE, &key, random).unwrap().cipher(Purpose::Log))
}

fn encrypted(byte: u8) -> LogOptions {
    LogOptions { cipher: cipher(byte), ..options() }
}

/// All commits, or what was wrong with one.
fn read(disk: &SimulatedDisk, cipher: Option<Cipher>) -> Result<Vec<Found>, LogReadError> {
    let mut reader = common::open_reader(disk, geometry().first_lsn())?.decrypted_with(cipher);
    let mut all = Vec::new();
    while let Some(record) = reader.next()? {
        if let Record::Commit(commit) = record.decode().unwrap() {
            let value = commit.changes().next().unwrap().unwrap().value().unwrap().to_vec();
            all.push(Found { span: record.span, value });
        }
    }
    Ok(all)
}

fn holds(disk: &SimulatedDisk, needle: &[u8]) -> bool {
    let files = disk.list_all().into_iter().map(|entry| disk.read_file(&entry.name).unwrap());
    files.into_iter().any(|bytes| bytes.windows(needle.len()).any(|window| window == needle))
}

#[test]
fn records_come_back_and_nothing_of_them_can_be_read() {
    for is_encrypted in [true, false] {
        let disk = SimulatedDisk::new(1);
        let cipher = if is_encrypted { cipher(1) } else { None };
        let log = Log::create(arc(&disk), LogOptions { cipher: cipher.clone(), ..options() }).unwrap();
        let values: Vec<Vec<u8>> = (0..300).map(|number| NEEDLE.repeat(number % 60 * (number % 7))).collect();
        for value in &values {
            common::append(&log, value).unwrap();
        }
        let mut named = RestorePoint { name: "name that nobody may read", time_micros: 5 }.prepare();
        let Ok((last, ())) = log.append(&mut named, |_| Ok::<_, Infallible>(())).unwrap();
        let Ok(_) = log.append(&mut PreparedRecord::no_op(0), |_| Ok::<_, Infallible>(())).unwrap();
        log.flush_until(log.appended()).unwrap();
        assert!(last.end <= log.flushed());
        let found: Vec<Vec<u8>> = read(&disk, cipher).unwrap().into_iter().map(|found| found.value).collect();
        assert!(found == values);
        for needle in [NEEDLE, b"name that nobody may read"] {
            assert_eq!(holds(&disk, needle), !is_encrypted);
        }
    }
}

#[test]
fn a_record_costs_forty_bytes_more() {
    let lengths: Vec<u64> = [encrypted(1), options()]
        .into_iter()
        .map(|options| {
            let log = Log::create(arc(&SimulatedDisk::new(1)), options).unwrap();
            let span = common::append(&log, &[7; 100]).unwrap();
            span.end.bytes_since(span.start)
        })
        .collect();
    assert_eq!(lengths[0], lengths[1] + 40);
}

#[test]
fn a_refused_record_is_encrypted_once() {
    let disk = SimulatedDisk::new(1);
    let log = Log::create(arc(&disk), encrypted(1)).unwrap();
    let mut builder = CommitBuilder::new();
    builder.begin(0);
    builder.put(&common::ROW_KEY, NEEDLE);
    let record = builder.finish();
    for _ in 0..3 {
        assert_eq!(log.append(record, |_| Err::<(), _>("not now")).unwrap(), Err("not now"));
    }
    let Ok((span, ())) = log.append(record, |_| Ok::<_, Infallible>(())).unwrap();
    log.flush_until(span.end).unwrap();
    assert_eq!(read(&disk, cipher(1)).unwrap(), [Found { span, value: NEEDLE.to_vec() }]);
}

fn problem(result: Result<Vec<Found>, LogReadError>) -> EncryptionProblem {
    match result {
        Err(LogReadError::Encryption { problem, .. }) => problem,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_wrong_key_or_none_is_no_damage() {
    let disk = SimulatedDisk::new(1);
    let log = Log::create(arc(&disk), encrypted(1)).unwrap();
    common::commit(&log, NEEDLE).unwrap();
    assert_eq!(problem(read(&disk, cipher(2))), EncryptionProblem::NotAuthentic);
    assert_eq!(problem(read(&disk, None)), EncryptionProblem::Encrypted);
    let plain = SimulatedDisk::new(1);
    common::commit(&common::create(&plain), NEEDLE).unwrap();
    assert_eq!(problem(read(&plain, cipher(1))), EncryptionProblem::NotEncrypted);
    // The reader stays where it is, and says the same again.
    let mut reader = common::open_reader(&disk, geometry().first_lsn()).unwrap().decrypted_with(cipher(2));
    for _ in 0..3 {
        assert!(matches!(reader.next(), Err(LogReadError::Encryption { .. })));
    }
}

/// Invariant 10 with encryption: damage before records that were written when it was durable is refused, with its place.
#[test]
fn a_flipped_bit_in_the_middle_is_damage_and_at_the_end_the_end() {
    let disk = SimulatedDisk::new(1);
    let log = Log::create(arc(&disk), encrypted(1)).unwrap();
    let spans: Vec<_> = (0..5).map(|_| common::commit(&log, NEEDLE).unwrap()).collect();
    drop(log);
    let disk = disk.after_power_loss(PowerLoss::LoseAll);
    for (index, span) in spans.iter().enumerate() {
        for byte in 0..span.end.bytes_since(span.start) {
            let damaged = disk.copy();
            let (path, offset) = place(geometry().advance(span.start, byte));
            damaged.flip_bit(&path, offset, 3);
            match read(&damaged, cipher(1)) {
                Ok(found) => assert_eq!((index, found.len()), (4, 4), "byte {byte} of record {index}"),
                Err(LogReadError::Damaged { lsn, .. }) => assert_eq!(lsn, span.start),
                Err(other) => panic!("byte {byte} of record {index}: {other}"),
            }
        }
    }
    // And the log goes on behind its end.
    let mut reader = common::open_reader(&disk, geometry().first_lsn()).unwrap().decrypted_with(cipher(1));
    while reader.next().unwrap().is_some() {}
    let log = Log::open(arc(&disk), encrypted(1), reader.finish()).unwrap();
    common::commit(&log, b"more").unwrap();
    assert_eq!(read(&disk, cipher(1)).unwrap().len(), 6);
    assert!(log.appended() > Lsn::ZERO);
}
