//! A whole data directory with changed bytes: it opens and gives data, or says what is wrong with it.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use seawall_codec::checksum::crc32c;
use seawall_engine::{
    Background, Database, Durability, Environment, Error, Isolation, LockWait, OpenMode, Options,
    PageProtection, TransactionOptions,
};
use seawall_keys::{MasterKey, SecretKey};
use seawall_simulation::{PowerLoss, SimulatedClock, SimulatedDisk, SimulatedRandom};

use crate::input::{Choices, Entries, Input, patch_at};

/// The entry functions of this file, by the name of their target.
pub const ENTRIES: &Entries = &[("data_directory", data_directory)];

const TABLES: [&str; 2] = ["first", "second"];
const ROWS: u32 = 120;

/// What each row of a directory may hold: the value of its one or two commits.
type Expected = BTreeMap<(&'static str, u32), Vec<Option<Vec<u8>>>>;

struct Sample {
    kind: Kind,
    disk: SimulatedDisk,
    files: Vec<String>,
    expected: Expected,
}

/// A way to keep a database.
#[derive(Clone, Copy)]
struct Kind {
    protection: PageProtection,
    is_encrypted: bool,
}

const KINDS: [Kind; 4] = [
    Kind { protection: PageProtection::RecoveryFile, is_encrypted: false },
    Kind { protection: PageProtection::LogImages, is_encrypted: false },
    Kind { protection: PageProtection::RecoveryFile, is_encrypted: true },
    Kind { protection: PageProtection::LogImages, is_encrypted: true },
];

fn options(kind: Kind, mode: OpenMode) -> Options {
    let mut options = Options {
        mode,
        master_key: kind.is_encrypted.then(|| MasterKey::Bytes(SecretKey::from_bytes([7; 32]))),
        background: Background::Manual,
        ..Options::default()
    };
    options.checkpoint.page_protection = kind.protection;
    options.format.page_bytes = 4096;
    options.format.segment_bytes = 64 << 10;
    options.memory.memtable_bytes = 256 << 10;
    options.memory.cache_bytes = 64 << 10;
    options.checkpoint.chunk_bytes = 16 << 10;
    options.checkpoint.threads = 1;
    options.recovery.threads = 1;
    options.log.spare_segments = 1;
    options
}

fn open(disk: &SimulatedDisk, kind: Kind, mode: OpenMode) -> Result<Database, Error> {
    let clock = Arc::new(SimulatedClock::new(1_700_000_000_000_000));
    Database::open(
        Environment { disk: Arc::new(disk.clone()), clock, random: Arc::new(SimulatedRandom::new(1)) },
        options(kind, mode),
    )
}

fn value(round: u8, index: u32) -> Vec<u8> {
    let bytes = match index % 40 {
        // In overflow extents.
        7 => 3_000,
        _ => 30 + index as usize % 50,
    };
    [&index.to_be_bytes()[..], &vec![round; bytes]].concat()
}

/// The directories that inputs start from, of each kind.
static SAMPLES: [LazyLock<Vec<Sample>>; 4] = [
    LazyLock::new(|| samples_of(KINDS[0])),
    LazyLock::new(|| samples_of(KINDS[1])),
    LazyLock::new(|| samples_of(KINDS[2])),
    LazyLock::new(|| samples_of(KINDS[3])),
];

/// One that was closed, one with a log to replay, two whose power went in the middle of a checkpoint.
fn samples_of(kind: Kind) -> Vec<Sample> {
    let disk = SimulatedDisk::new(1);
    let mut expected = Expected::new();
    let database = open(&disk, kind, OpenMode::New).expect("an empty disk takes a database");
    for name in TABLES {
        let table = database.create_table(name).expect("it is new");
        for index in 0..ROWS {
            database.put(&table, index.to_be_bytes(), value(1, index)).expect("a row can be put");
            expected.insert((name, index), vec![Some(value(1, index))]);
        }
    }
    database.create_table("dropped").expect("it is new");
    database.checkpoint().expect("a checkpoint can be made");
    database.tables().drop("dropped").expect("it is there");
    let closed = disk.copy();
    open(&closed, kind, OpenMode::Existing).and_then(Database::close).expect("it can be closed");
    let mut samples = vec![sample(kind, closed, expected.clone())];
    for name in TABLES {
        let table = database.table(name).expect("it is there");
        for index in (0..ROWS).step_by(3) {
            let new = if index % 2 == 0 { Some(value(2, index)) } else { None };
            match &new {
                Some(new) => database.put(&table, index.to_be_bytes(), new),
                None => database.delete(&table, index.to_be_bytes()),
            }
            .expect("a row can be changed");
            expected.entry((name, index)).or_default().push(new);
        }
    }
    samples.push(sample(kind, disk.copy(), expected.clone()));
    // The power goes in the middle of the last half of a checkpoint: a chunk is complete but not in place.
    let whole = disk.copy();
    let before = whole.calls();
    open(&whole, kind, OpenMode::Existing)
        .and_then(|database| database.checkpoint())
        .expect("a checkpoint can be made");
    for part in [2, 3] {
        let cut = disk.copy();
        let calls = whole.calls() - before;
        cut.crash_at(cut.calls() + calls * part / 4);
        if let Ok(database) = open(&cut, kind, OpenMode::Existing) {
            // Fails when the power goes.
            drop(database.checkpoint());
            drop(database);
        }
        samples.push(sample(kind, cut.after_power_loss(PowerLoss::KeepAll), expected.clone()));
    }
    samples.push(in_doubt_sample(kind, &disk, &database, expected));
    samples
}

/// The last sample: transactions in doubt, one in the tree, one in the log, and one decided in the log.
fn in_doubt_sample(kind: Kind, disk: &SimulatedDisk, database: &Database, mut expected: Expected) -> Sample {
    let mut prepare = |gid: &str, name: &'static str, rows: [u32; 2]| {
        let table = database.table(name).expect("it is there");
        let mut transaction = database
            .with(TransactionOptions {
                isolation: Isolation::Serializable,
                durability: Durability::Sync,
                lock_wait: LockWait::NoWait,
                ..TransactionOptions::default()
            })
            .begin();
        transaction.set_owner("fuzzer").expect("a short name");
        transaction.get(&table, [7; 3]).expect("a row can be read");
        for index in rows {
            let new = value(4, index);
            transaction.put(&table, index.to_be_bytes(), &new).expect("a row can be changed");
            expected.entry((name, index)).or_default().push(Some(new));
        }
        transaction.get_for_update(&table, gid).expect("a row can be locked");
        transaction.prepare(gid).expect("it can be prepared");
    };
    prepare("decided", TABLES[0], [7, 8]);
    database.checkpoint().expect("a checkpoint can be made");
    database.two_phase().commit("decided").expect("it is in doubt");
    prepare("merged", TABLES[0], [47, 48]);
    database.checkpoint().expect("a checkpoint can be made");
    prepare("logged", TABLES[1], [7, 8]);
    prepare("rolled back", TABLES[0], [87, 88]);
    database.two_phase().rollback("rolled back").expect("it is in doubt");
    sample(kind, disk.copy(), expected)
}

fn sample(kind: Kind, disk: SimulatedDisk, expected: Expected) -> Sample {
    let files = disk.list_all().into_iter().filter(|entry| entry.bytes > 0).map(|entry| entry.name).collect();
    let sample = Sample { kind, disk, files, expected };
    let database = open(&sample.disk.copy(), kind, OpenMode::Existing).expect("a sound directory opens");
    for name in TABLES {
        check_rows(&database, name, &sample.expected).expect("a sound directory has its rows");
    }
    sample
}

/// Rows that come out are rows that went in.
fn check_rows(database: &Database, name: &'static str, expected: &Expected) -> Result<(), Error> {
    let table = database.table(name)?;
    for index in 0..ROWS {
        let found = database.get(&table, index.to_be_bytes())?;
        let known = &expected[&(name, index)];
        // A log that was cut ends earlier, up to the very first row.
        assert!(found.is_none() || known.contains(&found), "row {index} of {name}: {found:02x?}");
    }
    let snapshot = database.snapshot();
    for row in snapshot.range::<&[u8]>(&table, ..) {
        let (key, found) = row?;
        let index = <[u8; 4]>::try_from(&key[..]).map(u32::from_be_bytes).expect("a key that was put");
        assert!(expected[&(name, index)].contains(&Some(found)), "row {index} of {name}");
    }
    Ok(())
}

/// A list of changes to the files of a directory, which is then opened, read, checked, written, closed, and opened once
/// more.
pub fn data_directory(data: &[u8]) {
    let mut input = Input::new(data);
    let choices = Choices::of(&mut input);
    // Bit 7: another kind of database, which a byte of its own says.
    let variant = if choices.has(7) { input.byte() } else { 0 };
    let samples = &*SAMPLES[usize::from(variant) % KINDS.len()];
    let in_doubt = variant & 4 != 0;
    let sample = &samples[if in_doubt { 4 } else { usize::from(choices.number(0, 4)) }];
    let disk = sample.disk.copy();
    let is_burst = change_files(&disk, sample, &mut input, choices.has(2));
    let mode = if choices.has(3) { OpenMode::ReadOnly } else { OpenMode::Existing };
    let database = match open(&disk, sample.kind, mode) {
        Ok(database) => database,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    if is_burst {
        // One short change never gets past a checksum: what is read is right, or an error says that it is not.
        for name in TABLES {
            if let Err(error) = check_rows(&database, name, &sample.expected) {
                assert!(!error.to_string().is_empty());
            }
        }
    }
    let before = rows_of(&database);
    use_database(&database, choices);
    drop(database);
    let Ok(database) = open(&disk, sample.kind, mode) else { return };
    let after = rows_of(&database);
    if let (true, Ok(before), Ok(after)) = (is_burst && mode == OpenMode::ReadOnly, before, after) {
        assert_eq!(before, after, "nobody has written");
    }
}

/// All rows of all tables, counted.
fn rows_of(database: &Database) -> Result<usize, Error> {
    let mut rows = 0;
    for table in database.tables().list()? {
        let table = database.table(&table.name)?;
        let snapshot = database.snapshot();
        for row in snapshot.range::<&[u8]>(&table, ..) {
            row?;
            rows += 1;
            assert!(rows < 1 << 20, "the scan does not end");
        }
        let backwards = snapshot.range_reverse::<&[u8]>(&table, ..).take_while(Result::is_ok).count();
        assert!(backwards < 1 << 20, "the scan does not end");
    }
    Ok(rows)
}

/// What a program might do. Every call may fail, none may panic.
fn use_database(database: &Database, choices: Choices) {
    let mut reports = 0_u64;
    if let Ok(summary) = database.check(&mut |_| reports += 1) {
        assert_eq!(summary.damages, reports);
    }
    let decide = || -> Result<(), Error> {
        for (index, transaction) in database.two_phase().in_doubt()?.into_iter().enumerate() {
            match index % 2 {
                0 => database.two_phase().commit(&transaction.gid)?,
                _ => database.two_phase().rollback(&transaction.gid)?,
            };
        }
        Ok(())
    };
    if let Err(error) = decide() {
        assert!(!error.to_string().is_empty());
    }
    let change = || -> Result<(), Error> {
        let table = database.table(TABLES[0])?;
        for index in (0..ROWS).step_by(5) {
            database.put(&table, index.to_be_bytes(), value(3, index))?;
        }
        if choices.has(4) {
            database.create_table("new")?;
            database.tables().drop(TABLES[1])?;
        }
        database.checkpoint()?;
        database.checkpoint()?;
        if choices.has(5) {
            database.tables().truncate(TABLES[0])?;
        }
        database.flush()?;
        Ok(())
    };
    if let Err(error) = change() {
        assert!(!error.to_string().is_empty());
    }
    if choices.has(6) && database.info().is_ok() {
        assert!(
            database.clone().close().is_ok() || database.clone().close().is_ok(),
            "closing twice is harmless"
        );
    }
}

/// Applies the changes; whether there was one alone, at most four bytes long and not followed by any repair of a
/// checksum: such a change is always found.
fn change_files(disk: &SimulatedDisk, sample: &Sample, input: &mut Input<'_>, fixes: bool) -> bool {
    let mut count = 0;
    let mut is_burst = !fixes;
    while !input.is_empty() && count < 16 {
        count += 1;
        let path = &sample.files[usize::from(input.byte()) % sample.files.len()];
        let change = Choices::of(input);
        let place = u64::from(input.u32());
        let Some(mut bytes) = disk.read_file(path).filter(|bytes| !bytes.is_empty()) else { continue };
        let place = usize::try_from(place).unwrap_or(0) % bytes.len();
        match change.number(4, 16) {
            0 => {
                disk.remove_file(path);
                is_burst = false;
                continue;
            }
            1 => {
                bytes.truncate(place);
                is_burst = false;
            }
            2 => {
                let to = (place + 4096).min(bytes.len());
                bytes[place..to].fill(0);
                is_burst = false;
            }
            3 => {
                let from = usize::try_from(input.u32()).unwrap_or(0) % bytes.len();
                let length = 4096.min(bytes.len() - from.max(place));
                bytes.copy_within(from..from + length, place);
                is_burst = false;
            }
            4 => {
                is_burst = false;
                rename_segment(
                    disk,
                    path,
                    u64::from_le_bytes(*b"\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF") >> (place % 64),
                );
                continue;
            }
            _ => {
                let patch = input.take(usize::from(change.number(0, 4)) + 1);
                patch_at(&mut bytes, place, patch, true);
            }
        }
        if fixes {
            fix_up(path, &mut bytes, place);
        }
        disk.write_file(path, &bytes);
    }
    is_burst && count <= 1
}

/// Gives a segment the name of another one.
fn rename_segment(disk: &SimulatedDisk, path: &str, number: u64) {
    let (Some(bytes), true) = (disk.read_file(path), path.starts_with("log/")) else { return };
    disk.write_file(&format!("log/00000001{number:016X}"), &bytes);
}

/// Makes the checksum right that covers `place`, where that is simple.
fn fix_up(path: &str, bytes: &mut [u8], place: usize) {
    let start = place - place % 4096;
    let is_pending = path.starts_with("log/pending");
    let (range, checksum_at, covered_from) = match path {
        "pages" => (start..start + 4096, 0, 4),
        "superblock" => (start..start + 4096, 12, 0),
        // The headers, one sector each.
        "recovery/chunk" if start == 0 || start == 8192 => (start..start + 512, 12, 0),
        "keys" => (0..bytes.len(), 12, 0),
        "measurements" => (place - place % 256..place - place % 256 + 256, 0, 4),
        _ if is_pending && start == 0 => (0..512, 12, 0),
        _ if path.starts_with("log/") && start == 0 => (0..48, 44, 0),
        _ => return,
    };
    let Some(block) = bytes.get_mut(range).filter(|block| block.len() >= checksum_at + 4) else { return };
    block[checksum_at..checksum_at + 4].fill(0);
    let end = if checksum_at == 44 { 44 } else { block.len() };
    let checksum = crc32c(&block[covered_from..end]);
    block[checksum_at..checksum_at + 4].copy_from_slice(&checksum.to_le_bytes());
}
