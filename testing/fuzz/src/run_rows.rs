//! Rows of a tree that belong to its directory alone: the list of runs, their rows, their filters.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use seawall_engine::{Background, Database, Environment, Error, OpenMode, Options};
use seawall_simulation::{SimulatedClock, SimulatedDisk, SimulatedRandom};
use seawall_tree::{Change, MergeSource, Superblock, Tree, TreeAccess, TreeError, TreeOptions};

use crate::input::{Choices, Entries, Input};

/// The entry functions of this file, by the name of their target.
pub const ENTRIES: &Entries = &[("run_rows", run_rows)];

const LIST: u64 = 1 << 63;
const RUN: u64 = LIST + (1 << 32);
const FILTER: u64 = LIST + (1 << 61);
const ROWS: u32 = 120;
/// Longer inputs say nothing new.
const CHANGES_MAX: usize = 24;

/// Rows of the tree, by key.
type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// A database that was closed, and the rows of a run that fits it.
struct Sample {
    disk: SimulatedDisk,
    local: Rows,
}

fn open(disk: &SimulatedDisk) -> Result<Database, Error> {
    let mut options =
        Options { mode: OpenMode::CreateIfMissing, background: Background::Manual, ..Options::default() };
    options.format.page_bytes = 4096;
    options.format.segment_bytes = 64 << 10;
    options.memory.memtable_bytes = 256 << 10;
    options.memory.cache_bytes = 64 << 10;
    options.checkpoint.chunk_bytes = 16 << 10;
    options.checkpoint.threads = 1;
    options.recovery.threads = 1;
    options.log.spare_segments = 1;
    let clock = Arc::new(SimulatedClock::new(1_700_000_000_000_000));
    let random = Arc::new(SimulatedRandom::new(1));
    Database::open(Environment { disk: Arc::new(disk.clone()), clock, random }, options)
}

fn value(index: u32) -> Vec<u8> {
    vec![7; if index % 40 == 7 { 3_000 } else { 60 }]
}

/// Every third row is in the run.
fn is_in_run(index: u32) -> bool {
    index.is_multiple_of(3)
}

static SAMPLE: LazyLock<Sample> = LazyLock::new(|| {
    let disk = SimulatedDisk::new(1);
    let database = open(&disk).expect("an empty disk takes a database");
    let table = database.create_table("kept").expect("it is new");
    for index in (0..ROWS).filter(|index| !is_in_run(*index)) {
        database.put(&table, index.to_be_bytes(), value(index)).expect("a row can be put");
    }
    let storage = table.id();
    database.checkpoint().expect("a checkpoint can be made");
    let end = database.info().expect("it can be asked").redo_point;
    drop(table);
    database.close().expect("it can be closed");
    let mut local = Rows::new();
    for index in (0..ROWS).filter(|index| is_in_run(*index)) {
        let key = [&RUN.to_be_bytes()[..], &storage.to_be_bytes(), &index.to_be_bytes()].concat();
        local.insert(key, value(index));
    }
    // A filter that lets everything pass.
    let segment = [&[1, 6, 1, 0][..], &[0xFF; 64]].concat();
    local.insert(FILTER.to_be_bytes().to_vec(), segment.clone());
    let count = u64::from(ROWS.div_ceil(3));
    let numbers = [0, end.get(), count, 0, 1, 100 * count, storage, storage, segment.len() as u64, 0];
    let mut descriptor = vec![1, 0, 10, 0, 0, 0, 0, 0];
    descriptor.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
    local.insert([LIST.to_be_bytes(), [0; 8]].concat(), descriptor);
    Sample { disk, local }
});

/// A list of runs, rows and filters that nobody checked, in the tree of a real database, with right checksums. The database is then
/// opened, or says what is wrong, and used.
pub fn run_rows(data: &[u8]) {
    let sample = &*SAMPLE;
    let disk = sample.disk.copy();
    let mut input = Input::new(data);
    let counts = Choices::of(&mut input);
    let (next_run, run_count) = if counts.has(0) {
        (input.u64() >> counts.number(1, 64), input.u32() >> counts.number(1, 32))
    } else {
        (1, 1)
    };
    let mut local = sample.local.clone();
    let is_changed = change(&mut local, &mut input) || counts.has(0);
    if let Err(error) = write(&disk, local, next_run, run_count) {
        assert!(is_changed && !error.to_string().is_empty(), "{error}");
        return;
    }
    let database = match open(&disk) {
        Ok(database) => database,
        Err(error) => return assert!(is_changed && !error.to_string().is_empty(), "{error}"),
    };
    let used = use_database(&database);
    assert!(is_changed || used.is_ok(), "{used:?}");
    drop(database);
    if let Err(error) = open(&disk).and_then(Database::close) {
        assert!(is_changed && !error.to_string().is_empty(), "{error}");
    }
}

/// Changes, removes and adds rows; whether it did.
fn change(local: &mut Rows, input: &mut Input<'_>) -> bool {
    for count in 0..CHANGES_MAX {
        if input.is_empty() {
            return count > 0;
        }
        let choices = Choices::of(input);
        // The list and the filter are one row each, and matter most.
        let place = match choices.number(0, 4) {
            0 => 0,
            1 => local.len().saturating_sub(1),
            _ => input.below(local.len()),
        };
        let Some((key, value)) = local.iter().nth(place) else { return true };
        let (mut key, mut value) = (key.clone(), value.clone());
        if !choices.has(2) {
            local.remove(&key);
        }
        if choices.has(3) {
            patch(&mut key, 8, input);
        }
        if choices.has(4) {
            patch(&mut value, 0, input);
        }
        if choices.has(5) {
            value.truncate(usize::from(input.u16()) % (value.len() + 1));
        }
        if choices.has(6) {
            let length = input.byte() % 9;
            let table = [LIST, RUN, FILTER, u64::MAX][usize::from(choices.number(0, 4))];
            let table = table | u64::from(length);
            key = [&table.to_be_bytes()[..], input.take(usize::from(length))].concat();
        }
        if !choices.has(7) {
            local.insert(key, value);
        }
    }
    true
}

/// Changes a byte from `from` on, or adds one.
fn patch(bytes: &mut Vec<u8>, from: usize, input: &mut Input<'_>) {
    let from = from.min(bytes.len());
    let place = from + usize::from(input.byte()) % (bytes.len() - from + 1);
    match bytes.get_mut(place) {
        Some(byte) => *byte = input.byte(),
        None => bytes.push(input.byte()),
    }
}

/// Puts the rows into the tree, and stores the counts with them.
fn write(disk: &SimulatedDisk, local: Rows, next_run: u64, run_count: u32) -> Result<(), TreeError> {
    let opened = Tree::open(disk, TreeAccess::Write, TreeOptions::default())?;
    let mut rows = Changes(local.into_iter().rev().collect());
    let plan = opened.tree.merge_chunk(&mut rows, u64::MAX, opened.superblock.redo_point)?;
    let values = Superblock { next_run, run_count, ..opened.superblock };
    opened.tree.apply_chunk(plan, Some(&values))?;
    opened.tree.close();
    Ok(())
}

/// Rows to be put, the last one first.
struct Changes(Vec<(Vec<u8>, Vec<u8>)>);

impl MergeSource for Changes {
    fn peek(&self) -> Option<(&[u8], Change<'_>)> {
        self.0.last().map(|(key, value)| (&key[..], Change::Put(value)))
    }

    fn advance(&mut self) {
        self.0.pop();
    }
}

/// What a program might ask. Every call may fail, none may panic. Without a failure it has found all rows where nothing was changed.
fn use_database(database: &Database) -> Result<(), Error> {
    let table = database.table("kept")?;
    let snapshot = database.snapshot();
    let mut found = 0;
    for index in 0..ROWS {
        found += u32::from(snapshot.get(&table, index.to_be_bytes())? == Some(value(index)));
    }
    for rows in [snapshot.rows(&table), snapshot.range_reverse::<&[u8]>(&table, ..)] {
        for row in rows.take(1 << 16) {
            let (_, value) = row?;
            found += u32::from(!value.is_empty());
        }
    }
    snapshot.estimate_rows::<&[u8]>(&table, ..)?;
    drop(snapshot);
    database.check(&mut |damage| assert!(!damage.to_string().is_empty()))?;
    database.put(&table, "new", "value")?;
    database.tables().drop("kept")?;
    database.checkpoint()?;
    if found == 3 * ROWS {
        return Ok(());
    }
    Err(Error::Io { message: format!("{found} rows were found") })
}
