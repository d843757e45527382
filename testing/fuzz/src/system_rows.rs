//! Rows of the system tables, and guards of prepared transactions, that somebody else has written: they come with the log,
//! in records whose checksums are right, so nothing but their own decoders stands between them and the database.

use std::convert::Infallible;
use std::sync::{Arc, LazyLock};

use seawall_engine::{
    Background, Database, Environment, Error, InDoubtAction, InDoubtRule, LockWait, OpenMode, Options,
};
use seawall_io::Disk;
use seawall_simulation::{SimulatedClock, SimulatedDisk, SimulatedRandom};
use seawall_types::{DatabaseId, Lsn, TimelineId};
use seawall_wal::{CommitBuilder, Log, LogOptions, LogReader, Outcome};

use crate::input::{Choices, Entries, Input};

/// The entry functions of this file, by the name of their target.
pub const ENTRIES: &Entries = &[("system_rows", system_rows)];

const SEGMENT_BYTES: u64 = 64 << 10;
/// Longer inputs say nothing new.
const RECORDS_MAX: usize = 24;

/// A database with a few of everything, and where a record can be appended to its log.
struct Sample {
    disk: SimulatedDisk,
    database: DatabaseId,
    redo_point: Lsn,
    /// Keys and values of system tables as they are, to start from.
    rows: Vec<(Vec<u8>, Vec<u8>)>,
    /// Stamp of the transaction that is in doubt.
    prepared: Lsn,
}

fn options() -> Options {
    let mut options =
        Options { mode: OpenMode::CreateIfMissing, background: Background::Manual, ..Options::default() };
    options.format.page_bytes = 4096;
    options.format.segment_bytes = SEGMENT_BYTES;
    options.memory.memtable_bytes = 256 << 10;
    options.memory.cache_bytes = 64 << 10;
    options.checkpoint.chunk_bytes = 16 << 10;
    options.checkpoint.threads = 1;
    options.recovery.threads = 1;
    options.log.spare_segments = 1;
    options.transaction.lock_wait = LockWait::NoWait;
    options
}

fn open(disk: &SimulatedDisk) -> Result<Database, Error> {
    let clock = Arc::new(SimulatedClock::new(1_700_000_000_000_000));
    let environment =
        Environment { disk: Arc::new(disk.clone()), clock, random: Arc::new(SimulatedRandom::new(1)) };
    Database::open(environment, options())
}

fn prepare(database: &Database, gid: &str) -> Lsn {
    let table = database.table("kept").expect("it is there");
    let mut transaction = database.begin();
    transaction.set_owner("fuzzer").expect("a short name");
    transaction.put(&table, gid, "value").expect("a row can be put");
    transaction.get_for_update(&table, "locked").expect("a row can be locked");
    transaction.prepare(gid).expect("it can be prepared")
}

static SAMPLE: LazyLock<Sample> = LazyLock::new(|| {
    let disk = SimulatedDisk::new(1);
    let database = open(&disk).expect("an empty disk takes a database");
    for name in ["kept", "dropped"] {
        let table = database.create_table(name).expect("it is new");
        database.put(&table, "key", "value").expect("a row can be put");
    }
    prepare(&database, "decided by a rule");
    let rules = [InDoubtRule::new(std::time::Duration::ZERO, InDoubtAction::RollBack)];
    database.two_phase().apply_rules(&rules).expect("rules can be applied");
    prepare(&database, "in doubt");
    database.checkpoint().expect("a checkpoint can be made");
    database.tables().drop("dropped").expect("it is there");
    let prepared = database.two_phase().in_doubt().expect("it can be asked")[0].lsn;
    let info = database.info().expect("it can be asked");
    database.close().expect("it can be closed");
    let rows = system_rows_of(&disk, info.database);
    assert!(rows.len() >= 4, "{rows:?}");
    Sample { database: info.database, redo_point: info.redo_point, disk, rows, prepared }
});

/// What the log has about system tables.
fn system_rows_of(disk: &SimulatedDisk, database: DatabaseId) -> Vec<(Vec<u8>, Vec<u8>)> {
    let from = Lsn::new(SEGMENT_BYTES + 4096);
    let mut reader = LogReader::open(arc(disk), database, TimelineId::FIRST, SEGMENT_BYTES, from)
        .expect("the log begins there");
    let mut rows = Vec::new();
    while let Some(record) = reader.next().expect("the log is sound") {
        let commit = match record.decode().expect("the log is sound") {
            seawall_wal::Record::Commit(commit) => commit,
            seawall_wal::Record::CommitPrepared(decision)
            | seawall_wal::Record::RollbackPrepared(decision) => decision.commit,
            _ => continue,
        };
        for change in commit.changes() {
            let change = change.expect("the log is sound");
            if let (0..64, Some(value)) = (change.table().get(), change.value()) {
                let mut row_key = Vec::new();
                change.copy_row_key(&mut row_key);
                rows.push((row_key, value.to_vec()));
            }
        }
    }
    rows
}

fn arc(disk: &SimulatedDisk) -> Arc<dyn Disk> {
    Arc::new(disk.clone())
}

/// Records with system rows, prepares and decisions that nobody checked, at the end of a real log. The database is then
/// opened, or says what is wrong, and used.
pub fn system_rows(data: &[u8]) {
    let sample = &*SAMPLE;
    let disk = sample.disk.copy();
    let mut input = Input::new(data);
    append_records(&disk, sample, &mut input);
    let database = match open(&disk) {
        Ok(database) => database,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let mut reports = 0_u64;
    if let Ok(summary) = database.check(&mut |damage| {
        reports += 1;
        assert!(!damage.to_string().is_empty());
    }) {
        assert_eq!(summary.damages, reports);
    }
    if let Err(error) = use_database(&database) {
        assert!(!error.to_string().is_empty());
    }
    drop(database);
    if let Err(error) = open(&disk).and_then(Database::close) {
        assert!(!error.to_string().is_empty());
    }
}

fn append_records(disk: &SimulatedDisk, sample: &Sample, input: &mut Input<'_>) {
    let mut reader =
        LogReader::open(arc(disk), sample.database, TimelineId::FIRST, SEGMENT_BYTES, sample.redo_point)
            .expect("the log is sound");
    while reader.next().expect("the log is sound").is_some() {}
    let options = LogOptions {
        segment_bytes: SEGMENT_BYTES,
        buffer_bytes: 64 << 10,
        spare_segments: 0,
        ..LogOptions::new(sample.database, TimelineId::FIRST)
    };
    let log = Log::open(arc(disk), options, reader.finish()).expect("the simulated disk takes everything");
    let mut builder = CommitBuilder::new();
    let mut end = None;
    for _ in 0..RECORDS_MAX {
        if input.is_empty() {
            break;
        }
        begin(&mut builder, sample, input);
        let appended = log.append(builder.finish(), |_| Ok::<(), Infallible>(()));
        let Ok((span, ())) = appended.expect("the simulated disk takes everything");
        end = Some(span.end);
    }
    if let Some(end) = end {
        log.flush_until(end).expect("the simulated disk takes everything");
    }
}

/// One record: a commit, a prepare or a decision, and its rows.
fn begin(builder: &mut CommitBuilder, sample: &Sample, input: &mut Input<'_>) {
    let choices = Choices::of(input);
    let gid = match choices.number(4, 4) {
        0 => "in doubt".to_owned(),
        1 => "new".to_owned(),
        _ => {
            let length = usize::from(input.byte()) % 24;
            let gid = String::from_utf8_lossy(input.take(length)).into_owned();
            if gid.is_empty() { "short".to_owned() } else { gid }
        }
    };
    match choices.number(0, 4) {
        0 | 1 => builder.begin(7),
        2 => {
            let length = usize::from(input.byte()) % 48;
            builder.begin_prepare(7, &gid, "owner", input.take(length));
        }
        _ => {
            let outcome = if choices.has(2) { Outcome::Commit } else { Outcome::Rollback };
            let prepared = if choices.has(3) { sample.prepared } else { Lsn::new(input.u64() >> 40) };
            builder.begin_decision(outcome, 7, prepared, &gid);
        }
    }
    let mut last: Option<Vec<u8>> = None;
    for _ in 0..choices.number(6, 4) + 1 {
        let (key, value) = row(sample, input);
        // A record has its rows in order, each once.
        if last.as_ref().is_some_and(|last| *last >= key) {
            continue;
        }
        builder.add(&key, value.as_deref());
        last = Some(key);
    }
}

/// A row that was there, changed, or a new one.
fn row(sample: &Sample, input: &mut Input<'_>) -> (Vec<u8>, Option<Vec<u8>>) {
    let choices = Choices::of(input);
    let (mut key, mut value) = if choices.has(0) {
        sample.rows[usize::from(input.byte()) % sample.rows.len()].clone()
    } else {
        let table = u64::from(input.byte() % 6);
        let lengths = input.byte();
        let key = input.take(usize::from(lengths % 16));
        let value = input.take(usize::from(lengths / 16) * 3);
        ([&table.to_be_bytes()[..], key].concat(), value.to_vec())
    };
    let change = |bytes: &mut Vec<u8>, from: usize, input: &mut Input<'_>| {
        let place = from + usize::from(input.byte()) % (bytes.len() - from + 1);
        match bytes.get_mut(place) {
            Some(byte) => *byte = input.byte(),
            None => bytes.push(input.byte()),
        }
    };
    if choices.has(1) {
        change(&mut key, 8, input);
    }
    if choices.has(2) {
        change(&mut value, 0, input);
    }
    if choices.has(3) {
        value.truncate(usize::from(input.byte()) % (value.len() + 1));
    }
    (key, (!choices.has(7)).then_some(value))
}

/// What a program might ask. Every call may fail, none may panic.
fn use_database(database: &Database) -> Result<(), Error> {
    for transaction in database.two_phase().in_doubt()? {
        database.two_phase().commit(&transaction.gid).or_else(|error| {
            assert!(!error.to_string().is_empty());
            database.two_phase().rollback(&transaction.gid)
        })?;
    }
    database.two_phase().automatic_decisions()?;
    database.two_phase().automatic_decisions_about("decided by a rule")?;
    for table in database.tables().list()? {
        let opened = database.table(&table.name)?;
        let rows = database.snapshot().range::<&[u8]>(&opened, ..).take_while(Result::is_ok).count();
        assert!(rows < 1 << 16, "the scan does not end");
    }
    database.checkpoint()?;
    database.create_table("new")?;
    database.tables().drop("kept")?;
    database.checkpoint()?;
    database.two_phase().forget_old_automatic_decisions(std::time::Duration::ZERO)?;
    Ok(())
}
