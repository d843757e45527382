//! Group commit: one thread makes a batch durable for all who wait.
//!
//! Checked at any point: what was acknowledged survives a power loss, and what survives is a prefix of the order of the log.
//! Checked at the end: nobody waits for ever. In the engine also: a snapshot is a prefix, and a session sees its own commits.

use std::convert::Infallible;
use std::sync::Arc;

use seawall_engine::{Background, Database, Durability, Snapshot, Table};
use seawall_simulation::SimulatedDisk;
use seawall_sync::thread;
use seawall_types::{DatabaseId, Lsn, TimelineId};
use seawall_wal::{CommitBuilder, FlushBy, Log, LogOptions, LogReader, Record, RecordSpan};

use crate::world::{PointedDisk, Shared, open, power_loss, shared, small_options, wait_a_while};

pub(crate) const DATABASE: DatabaseId = DatabaseId::from_bytes([0xDB; 16]);
pub(crate) const SEGMENT_BYTES: u64 = 64 << 10;
const WRITERS: u64 = 3;
const RECORDS: u64 = 3;

pub(crate) fn log_options(flush_by: FlushBy) -> LogOptions {
    LogOptions {
        segment_bytes: SEGMENT_BYTES,
        buffer_bytes: 64 << 10,
        spare_segments: 1,
        flush_by,
        ..LogOptions::new(DATABASE, TimelineId::FIRST)
    }
}

/// Appends a commit that puts `value`; `in_order` runs where the log gives it its place.
pub(crate) fn append(log: &Log, value: &[u8], in_order: impl FnOnce(RecordSpan)) -> RecordSpan {
    let mut builder = CommitBuilder::new();
    builder.begin(0);
    builder.put(&[0, 0, 0, 0, 0, 0, 0, 9], value);
    let Ok((span, ())) = log
        .append(builder.finish(), |span| {
            in_order(span);
            Ok::<_, Infallible>(())
        })
        .unwrap();
    span
}

/// The commits on the disk of a log that nobody writes: where each ends, and the first byte of its value.
pub(crate) fn read_log(disk: &SimulatedDisk, from: Lsn, limit: Option<Lsn>) -> Vec<(Lsn, u8)> {
    let reader =
        LogReader::open(Arc::new(disk.clone()), DATABASE, TimelineId::FIRST, SEGMENT_BYTES, from).unwrap();
    read(reader, limit)
}

pub(crate) fn read(mut reader: LogReader, limit: Option<Lsn>) -> Vec<(Lsn, u8)> {
    if let Some(limit) = limit {
        reader.set_limit(limit);
    }
    let mut found = Vec::new();
    while let Some(record) = reader.next().unwrap() {
        let end = record.span.end;
        let Record::Commit(commit) = record.decode().unwrap() else { continue };
        let value = commit.changes().next().unwrap().unwrap().value().unwrap()[0];
        found.push((end, value));
    }
    found
}

#[derive(Debug, Default)]
struct Told {
    /// In the order of the log.
    appended: Vec<(Lsn, u8)>,
    /// Up to here somebody was told that it is durable.
    acknowledged: Lsn,
    /// What was acknowledged when the power went, and what the disk may hold then.
    losses: Vec<(Lsn, SimulatedDisk)>,
}

pub(crate) fn in_the_log(seed: u64) {
    run_log(seed, FlushBy::Thread);
}

pub(crate) fn without_a_flusher_thread(seed: u64) {
    run_log(seed, FlushBy::Caller);
}

fn run_log(seed: u64, flush_by: FlushBy) {
    let disk = SimulatedDisk::new(seed);
    let log = Log::create(Arc::new(PointedDisk::over(&disk)), log_options(flush_by)).unwrap();
    let (log, told) = (Arc::new(log), shared::<Told>());
    let first = log.appended();
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let (log, told, disk) = (Arc::clone(&log), Arc::clone(&told), disk.clone());
            thread::spawn(move || {
                (0..RECORDS).for_each(|record| write_one(&log, &told, &disk, writer, record));
            })
        })
        .collect();
    let power = {
        let (disk, told) = (disk.clone(), Arc::clone(&told));
        thread::spawn(move || {
            wait_a_while(seed.wrapping_mul(37) % 400);
            // No point between the two: what was acknowledged when the power went.
            let mut told = told.lock().unwrap();
            let loss = (told.acknowledged, power_loss(&disk, seed));
            told.losses.push(loss);
        })
    };
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    power.join().unwrap();
    log.close().unwrap();
    drop(log);
    let told = told.lock().unwrap();
    assert_eq!(read_log(&disk, first, None), told.appended, "a closed log has everything");
    for (acknowledged, after) in &told.losses {
        let found = read_log(after, first, None);
        assert!(told.appended.starts_with(&found), "{found:?} is no prefix of {:?}", told.appended);
        let survived = found.last().map_or(first, |(end, _)| *end);
        assert!(survived >= *acknowledged, "acknowledged up to {acknowledged}, found up to {survived}");
    }
}

/// Some wait for the flush, some only ask for it, some are so long that the buffer fills.
fn write_one(log: &Log, told: &Shared<Told>, disk: &SimulatedDisk, writer: u64, record: u64) {
    let name = u8::try_from(writer * RECORDS + record).unwrap();
    let bytes = if writer == 0 { 15_000 } else { 600 };
    let note = |span: RecordSpan| told.lock().unwrap().appended.push((span.end, name));
    let span = append(log, &vec![name; bytes], note);
    match (writer + record) % 3 {
        0 => log.request_flush(span.end),
        1 => {}
        _ => {
            log.flush_until(span.end).unwrap();
            let mut told = told.lock().unwrap();
            told.acknowledged = told.acknowledged.max(span.end);
            // The power may go the very moment that somebody is told.
            let loss = (told.acknowledged, power_loss(disk, span.end.get()));
            told.losses.push(loss);
        }
    }
}

/// What the sessions of a database were told.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    /// Key and stamp of each commit that returned, and whether it is durable.
    pub(crate) commits: Vec<(Vec<u8>, Lsn, Durability)>,
    /// The newest snapshot that somebody looked at.
    pub(crate) shown: Lsn,
}

/// A session that puts `count` rows of its own, every third one `Async`, and sees each of them at once.
pub(crate) fn session(database: &Database, table: &Table, sessions: &Shared<Sessions>, name: u8, count: u8) {
    for number in 0..count {
        let durability = if number % 3 == 1 { Durability::Async } else { Durability::Sync };
        let key = vec![name, number];
        let stamp = database.put_with(table, &key, [number; 40], durability).unwrap();
        sessions.lock().unwrap().commits.push((key.clone(), stamp, durability));
        assert!(database.get(table, &key).unwrap().is_some(), "a session sees its own commits");
    }
}

/// Looks at the database a few times: what each snapshot sees.
pub(crate) fn watch(
    database: &Database,
    table: &Table,
    sessions: &Shared<Sessions>,
    times: u64,
) -> Vec<(Lsn, Vec<Vec<u8>>)> {
    (0..times)
        .map(|_| {
            let snapshot = database.snapshot();
            {
                let mut sessions = sessions.lock().unwrap();
                sessions.shown = sessions.shown.max(snapshot.lsn());
            }
            (snapshot.lsn(), keys_of(&snapshot, table))
        })
        .collect()
}

fn keys_of(snapshot: &Snapshot, table: &Table) -> Vec<Vec<u8>> {
    snapshot.rows(table).map(|row| row.unwrap().0).collect()
}

/// Each snapshot has exactly the commits up to its stamp.
pub(crate) fn check_prefixes(seen: &[(Lsn, Vec<Vec<u8>>)], commits: &[(Vec<u8>, Lsn, Durability)]) {
    for (lsn, keys) in seen {
        let mut wanted: Vec<_> =
            commits.iter().filter(|(_, stamp, _)| stamp <= lsn).map(|(key, ..)| key.clone()).collect();
        wanted.sort();
        assert_eq!(*keys, wanted, "a snapshot at {lsn} is no prefix of the commits");
    }
}

/// What had been told when the power went, and what the disk may hold then.
pub(crate) struct Loss {
    acknowledged: Vec<(Vec<u8>, Lsn, Durability)>,
    shown: Lsn,
    disk: SimulatedDisk,
}

pub(crate) fn lose_power(disk: &SimulatedDisk, sessions: &Shared<Sessions>, seed: u64, points: u64) -> Loss {
    wait_a_while(points);
    let sessions = sessions.lock().unwrap();
    Loss { acknowledged: sessions.commits.clone(), shown: sessions.shown, disk: power_loss(disk, seed) }
}

/// What is there after the power loss is a prefix of all commits, with all that were acknowledged as durable before, and all
/// that are to be durable before anybody sees them and were seen.
pub(crate) fn check_loss(loss: &Loss, all: &[(Vec<u8>, Lsn, Durability)]) {
    let database = open(&loss.disk, small_options(Background::Manual));
    let table = database.table("t").unwrap();
    let keys = keys_of(&database.snapshot(), &table);
    let last = all.iter().filter(|(key, ..)| keys.contains(key)).map(|(_, stamp, _)| *stamp).max();
    check_prefixes(&[(last.unwrap_or(Lsn::ZERO), keys)], all);
    let is_there = |stamp: Lsn| last.is_some_and(|last| stamp <= last);
    let durable = |commits: &[(Vec<u8>, Lsn, Durability)]| {
        commits.iter().filter(|(.., durability)| *durability == Durability::Sync).cloned().collect::<Vec<_>>()
    };
    for (key, stamp, _) in durable(&loss.acknowledged) {
        assert!(is_there(stamp), "{key:?} at {stamp} was acknowledged and is lost");
    }
    for (key, stamp, _) in durable(all) {
        assert!(is_there(stamp) || stamp > loss.shown, "{key:?} at {stamp} was seen and is lost");
    }
    database.check(&mut |damage| panic!("{damage:?}")).unwrap();
    database.close().unwrap();
}

pub(crate) fn in_the_engine(seed: u64) {
    let disk = SimulatedDisk::new(seed);
    let database = open(&disk, small_options(Background::Threads));
    let table = database.create_table("t").unwrap();
    let sessions = shared::<Sessions>();
    let writers: Vec<_> = (0..3)
        .map(|name| {
            let (database, table, sessions) = (database.clone(), table.clone(), Arc::clone(&sessions));
            thread::spawn(move || session(&database, &table, &sessions, name, 2))
        })
        .collect();
    let watcher = {
        let (database, table, sessions) = (database.clone(), table.clone(), Arc::clone(&sessions));
        thread::spawn(move || watch(&database, &table, &sessions, 4))
    };
    let power = {
        let (disk, sessions) = (disk.clone(), Arc::clone(&sessions));
        thread::spawn(move || lose_power(&disk, &sessions, seed, seed.wrapping_mul(37) % 1500))
    };
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    let (seen, loss) = (watcher.join().unwrap(), power.join().unwrap());
    database.close().unwrap();
    let commits = sessions.lock().unwrap().commits.clone();
    check_prefixes(&seen, &commits);
    check_loss(&loss, &commits);
}
