//! Group commit: one thread makes a batch durable for all who wait.
//!
//! Checked at any point: what was acknowledged survives a power loss, and what survives is a prefix of the order of the log.
//! Checked at the end: nobody waits for ever. In the engine also: a snapshot is a prefix, and a session sees its own commits.

use std::convert::Infallible;
use std::sync::Arc;

use seawall_engine::{Background, Database, Durability, Options, Snapshot, Table};
use seawall_simulation::SimulatedDisk;
use seawall_sync::thread;
use seawall_types::{DatabaseId, Lsn, TimelineId};
use seawall_wal::{CommitBuilder, FlushBy, Log, LogOptions, LogReader, PendingUse, Record, RecordSpan};

use crate::world::{Shared, open, pointed, power_loss, shared, small_options, wait_a_while};

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
    /// Up to here somebody has asked for a flush, without waiting for it.
    requested: Lsn,
    /// What was acknowledged when the power went, and what the disk may hold then.
    losses: Vec<(Lsn, SimulatedDisk)>,
}

pub(crate) fn in_the_log(seed: u64) {
    run_log(seed, FlushBy::Thread);
}

pub(crate) fn without_a_flusher_thread(seed: u64) {
    run_log(seed, FlushBy::Caller);
}

/// What is written.
#[derive(Clone, Copy, Debug)]
enum Load {
    /// Some wait for the flush, some only ask for it; some records are so long that they are moved into the log, not copied.
    Mixed,
    /// More than the buffer holds, and nobody but the log's own thread flushes, if it has one.
    MoreThanFits,
}

impl Load {
    fn of(seed: u64) -> Load {
        if seed.is_multiple_of(3) { Load::MoreThanFits } else { Load::Mixed }
    }

    fn bytes(self, writer: u64) -> usize {
        match self {
            Load::Mixed if writer == 0 => 25_000,
            Load::Mixed => 600,
            Load::MoreThanFits => 16_000,
        }
    }
}

fn run_log(seed: u64, flush_by: FlushBy) {
    let disk = SimulatedDisk::new(seed);
    let log = Log::create(pointed(&disk), log_options(flush_by)).unwrap();
    let (log, told) = (Arc::new(log), shared::<Told>());
    let first = log.appended();
    let load = Load::of(seed);
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let (log, told, disk) = (Arc::clone(&log), Arc::clone(&told), disk.clone());
            thread::spawn(move || {
                (0..RECORDS).for_each(|record| write_one(&log, &told, &disk, load, (writer, record)));
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
    let requested = told.lock().unwrap().requested;
    while log.flushed() < requested {
        // Nobody asks again: a request that is lost makes the run too long.
        thread::yield_now();
    }
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

fn write_one(log: &Log, told: &Shared<Told>, disk: &SimulatedDisk, load: Load, (writer, record): (u64, u64)) {
    let name = u8::try_from(writer * RECORDS + record).unwrap();
    let note = |span: RecordSpan| told.lock().unwrap().appended.push((span.end, name));
    let span = append(log, &vec![name; load.bytes(writer)], note);
    match load {
        _ if (writer + record).is_multiple_of(3) => {
            log.request_flush(span.end);
            let mut told = told.lock().unwrap();
            told.requested = told.requested.max(span.end);
        }
        Load::Mixed if (writer + record) % 3 == 2 => {
            log.flush_until(span.end).unwrap();
            let mut told = told.lock().unwrap();
            told.acknowledged = told.acknowledged.max(span.end);
            // The power may go the very moment that somebody is told.
            let loss = (told.acknowledged, power_loss(disk, span.end.get()));
            told.losses.push(loss);
        }
        Load::Mixed | Load::MoreThanFits => {}
    }
}

/// Writers who wait until a kill of the process no longer takes what they have appended, and a kill at any point. Some records
/// are moved into the batch and some are copied, and together they are more than the pending files have room for.
pub(crate) fn when_the_process_is_killed(seed: u64) {
    let disk = SimulatedDisk::new(seed);
    let flush_by = if seed.is_multiple_of(2) { FlushBy::Thread } else { FlushBy::Caller };
    let log = Log::create(pointed(&disk), log_options(flush_by)).unwrap();
    let (log, told) = (Arc::new(log), shared::<Told>());
    let first = log.appended();
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let (log, told) = (Arc::clone(&log), Arc::clone(&told));
            thread::spawn(move || (0..RECORDS).for_each(|record| keep_one(&log, &told, (writer, record))))
        })
        .collect();
    let killer = {
        let (disk, told) = (disk.clone(), Arc::clone(&told));
        thread::spawn(move || {
            wait_a_while(seed.wrapping_mul(37) % 300);
            // No point between the two: what was acknowledged when the process ended.
            let mut told = told.lock().unwrap();
            let killed = (told.acknowledged, disk.copy());
            told.losses.push(killed);
        })
    };
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    killer.join().unwrap();
    drop(log);
    let told = told.lock().unwrap();
    for (acknowledged, killed) in &told.losses {
        let disk = Arc::new(killed.clone());
        let mut reader = LogReader::open(disk, DATABASE, TimelineId::FIRST, SEGMENT_BYTES, first).unwrap();
        reader.use_pending(PendingUse::Read);
        let found = read(reader, None);
        assert!(told.appended.starts_with(&found), "{found:?} is no prefix of {:?}", told.appended);
        let survived = found.last().map_or(first, |(end, _)| *end);
        assert!(survived >= *acknowledged, "acknowledged up to {acknowledged}, found up to {survived}");
    }
}

fn keep_one(log: &Log, told: &Shared<Told>, (writer, record): (u64, u64)) {
    let name = u8::try_from(writer * RECORDS + record).unwrap();
    let note = |span: RecordSpan| told.lock().unwrap().appended.push((span.end, name));
    let span = append(log, &vec![name; Load::Mixed.bytes(writer)], note);
    if (writer + record).is_multiple_of(4) {
        log.flush_until(span.end).unwrap();
    } else {
        log.survive_kill(span.end).unwrap();
    }
    let mut told = told.lock().unwrap();
    told.acknowledged = told.acknowledged.max(span.end);
}

/// Key and stamp of a commit that returned, and whether it is durable.
type Commit = (Vec<u8>, Lsn, Durability);

/// What the sessions of a database were told.
#[derive(Debug, Default)]
struct SessionsTold {
    commits: Vec<Commit>,
    /// The newest snapshot that somebody looked at.
    shown: Lsn,
    losses: Vec<Loss>,
}

/// What had been told when the power went, and what the disk may hold then.
#[derive(Debug)]
struct Loss {
    acknowledged: Vec<Commit>,
    shown: Lsn,
    disk: SimulatedDisk,
}

/// Sessions of a database, and those who look at it.
#[derive(Clone, Debug)]
pub(crate) struct Sessions {
    pub(crate) database: Database,
    table: Table,
    disk: SimulatedDisk,
    told: Shared<SessionsTold>,
    seed: u64,
}

impl Sessions {
    pub(crate) fn open(seed: u64, options: Options) -> Sessions {
        let disk = SimulatedDisk::new(seed);
        let database = open(&disk, options);
        let table = database.create_table("t").unwrap();
        Sessions { database, table, disk, told: shared(), seed }
    }

    /// Puts `count` rows of its own, every third one `Async`, and sees each of them at once.
    pub(crate) fn write(&self, name: u8, count: u8) {
        for number in 0..count {
            let durability = if (name + number) % 3 == 1 { Durability::Async } else { Durability::Sync };
            let key = vec![name, number];
            let stamp = self.database.with(durability).put(&self.table, &key, [number; 40]).unwrap();
            {
                let mut told = self.told.lock().unwrap();
                told.commits.push((key.clone(), stamp, durability));
                if self.seed % 7 == u64::from(name) {
                    // The power may go the very moment that somebody is told.
                    self.lose_power_now(&mut told);
                }
            }
            assert!(
                self.database.get(&self.table, &key).unwrap().is_some(),
                "a session sees its own commits"
            );
        }
    }

    /// Looks at the database a few times: what each snapshot sees, and sees again later.
    pub(crate) fn watch(&self, times: u64) -> Vec<(Lsn, Vec<Vec<u8>>)> {
        (0..times).map(|time| self.look(time == self.seed / 4 % times)).collect()
    }

    fn look(&self, power_goes: bool) -> (Lsn, Vec<Vec<u8>>) {
        let snapshot = self.database.snapshot();
        {
            let mut told = self.told.lock().unwrap();
            told.shown = told.shown.max(snapshot.lsn());
            if power_goes {
                // The very moment that it is seen.
                self.lose_power_now(&mut told);
            }
        }
        let keys = keys_of(&snapshot, &self.table);
        wait_a_while(self.seed % 5 * 40);
        assert_eq!(keys, keys_of(&snapshot, &self.table), "a snapshot changed");
        (snapshot.lsn(), keys)
    }

    /// The power goes after some `points`.
    pub(crate) fn lose_power(&self, points: u64) {
        wait_a_while(points);
        self.lose_power_now(&mut self.told.lock().unwrap());
    }

    fn lose_power_now(&self, told: &mut SessionsTold) {
        let (acknowledged, shown) = (told.commits.clone(), told.shown);
        told.losses.push(Loss { acknowledged, shown, disk: power_loss(&self.disk, self.seed) });
    }

    /// When all have ended: what was `seen`, and what each power loss left.
    pub(crate) fn check(self, seen: &[(Lsn, Vec<Vec<u8>>)]) {
        let told = self.told.lock().unwrap();
        let last = self.look_at_the_end();
        check_prefixes(seen, &told.commits);
        check_prefixes(std::slice::from_ref(&last), &told.commits);
        assert_eq!(last.1.len(), told.commits.len(), "every commit is there in the end");
        self.database.check(&mut |damage| panic!("{damage:?}")).unwrap();
        self.database.clone().close().unwrap();
        told.losses.iter().for_each(|loss| check_loss(loss, &told.commits));
    }

    fn look_at_the_end(&self) -> (Lsn, Vec<Vec<u8>>) {
        let snapshot = self.database.snapshot();
        (snapshot.lsn(), keys_of(&snapshot, &self.table))
    }
}

fn keys_of(snapshot: &Snapshot, table: &Table) -> Vec<Vec<u8>> {
    snapshot.rows(table).map(|row| row.unwrap().0).collect()
}

/// Each snapshot has exactly the commits up to its stamp.
fn check_prefixes(seen: &[(Lsn, Vec<Vec<u8>>)], commits: &[Commit]) {
    for (lsn, keys) in seen {
        let mut wanted: Vec<_> =
            commits.iter().filter(|(_, stamp, _)| stamp <= lsn).map(|(key, ..)| key.clone()).collect();
        wanted.sort();
        assert_eq!(*keys, wanted, "a snapshot at {lsn} is no prefix of the commits");
    }
}

/// What is there after the power loss is a prefix of all commits, with all that were acknowledged as durable before, and all
/// that are to be durable before anybody sees them and were seen.
fn check_loss(loss: &Loss, all: &[Commit]) {
    let database = open(&loss.disk, small_options(Background::Manual));
    let table = database.table("t").unwrap();
    let keys = keys_of(&database.snapshot(), &table);
    let last = all.iter().filter(|(key, ..)| keys.contains(key)).map(|(_, stamp, _)| *stamp).max();
    check_prefixes(&[(last.unwrap_or(Lsn::ZERO), keys)], all);
    let is_there = |stamp: Lsn| last.is_some_and(|last| stamp <= last);
    let durable = |commits: &[Commit]| {
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
    let sessions = Sessions::open(seed, small_options(Background::Threads));
    let writers: Vec<_> = (0..3)
        .map(|name| {
            let sessions = sessions.clone();
            thread::spawn(move || sessions.write(name, 3))
        })
        .collect();
    let watcher = {
        let sessions = sessions.clone();
        thread::spawn(move || sessions.watch(4))
    };
    let power = {
        let sessions = sessions.clone();
        thread::spawn(move || sessions.lose_power(seed.wrapping_mul(37) % 1500))
    };
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    power.join().unwrap();
    sessions.check(&watcher.join().unwrap());
}
