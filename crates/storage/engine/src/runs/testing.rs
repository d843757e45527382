//! Runs made by hand, for tests of those who read them.

use std::sync::Arc;

use seawall_io::Disk;
use seawall_memtable::{Cursor, Memtable};
use seawall_simulation::{SimulatedClock, SimulatedDisk, SimulatedRandom};
use seawall_tree::{BulkLoader, Change, MergeSource, Superblock};
use seawall_types::{Lsn, TableId};

use crate::catalog::FIRST_USER_TABLE;
use crate::database::Database;
use crate::engine::Engine;
use crate::environment::Environment;
use crate::error::Error;
use crate::options::{Background, Options};
use crate::row_key;
use crate::runs::filter::{BuiltSegment, FilterBuilder};
use crate::runs::run::{Run, RunDescriptor, RunNumber};
use crate::snapshots::view::{Frozen, View};

/// A database with small pages and no threads. Its checkpoints merge no run that a test has made, as long as those have no more leaves than
/// the main part.
pub(crate) fn open(disk: &SimulatedDisk) -> Result<Database, Error> {
    open_with(disk, 100)
}

/// As `open`; runs may have so many percent of the main part.
pub(crate) fn open_with(disk: &SimulatedDisk, run_percent: u32) -> Result<Database, Error> {
    open_on(Arc::new(disk.clone()), |options| options.checkpoint.runs.run_percent = run_percent)
}

/// As `open`, on any disk, with some options changed.
pub(crate) fn open_on(disk: Arc<dyn Disk>, change: impl FnOnce(&mut Options)) -> Result<Database, Error> {
    let clock = Arc::new(SimulatedClock::default());
    let environment = Environment { disk, clock, random: Arc::new(SimulatedRandom::new(1)) };
    let options = Options::default().with(|options| {
        options.format.page_bytes = 4096;
        options.format.segment_bytes = 64 << 10;
        options.memory.memtable_bytes = 1 << 20;
        options.memory.cache_bytes = 256 << 10;
        options.checkpoint.chunk_bytes = 64 << 10;
        options.checkpoint.runs.run_percent = 100;
        // Runs become one in tests that ask for it.
        options.checkpoint.runs.fan_in = 16;
        options.checkpoint.runs.run_count = 64;
        options.recovery.threads = 1;
        options.background = Background::Manual;
        change(options);
    });
    Database::open(environment, options)
}

/// Loads a table of so many leaves that runs of a test have less than the main part, and no window of them is due.
pub(crate) fn add_filler(database: &Database) {
    let mut load = database.tables().bulk_load("filler").unwrap();
    (0..200_u8).for_each(|number| load.add([number], [number; 1_000]).unwrap());
    load.finish().unwrap();
}

/// A checkpoint that writes all changes of users' rows as one run, and changes nothing else.
///
/// # Panics
/// If there are no changes, or some of the catalog.
pub(crate) fn checkpoint_into_run(engine: &Engine, filter_bits: u16) -> RunNumber {
    let _turn = engine.checkpoint_turn.take();
    let frozen = frozen_and_flushed(engine);
    let number = draw_number(engine, frozen.end);
    let descriptor = write_run(engine, number, &frozen, filter_bits);
    list_run(engine, &frozen, number, descriptor);
    number
}

/// As `checkpoint_into_run`, cut short before the run is listed.
pub(crate) fn leave_unlisted_run(engine: &Engine, filter_bits: u16) -> RunNumber {
    let _turn = engine.checkpoint_turn.take();
    let frozen = frozen_and_flushed(engine);
    let number = draw_number(engine, frozen.end);
    write_run(engine, number, &frozen, filter_bits);
    number
}

fn frozen_and_flushed(engine: &Engine) -> Frozen {
    let frozen = engine.freeze(Arc::new(Memtable::new(0))).unwrap();
    engine.log().unwrap().flush_until(frozen.end).unwrap();
    frozen
}

fn draw_number(engine: &Engine, end: Lsn) -> RunNumber {
    let _storing = engine.redo.storing();
    let current = engine.redo.superblock();
    let number = RunNumber::new(current.next_run).unwrap();
    let superblock = Superblock { next_run: current.next_run + 1, log_end: end, ..current };
    engine.tree.store_superblock(&superblock).unwrap();
    engine.redo.stored(superblock);
    number
}

fn write_run(engine: &Engine, number: RunNumber, frozen: &Frozen, filter_bits: u16) -> RunDescriptor {
    let loader = |table: TableId| {
        let (from, to) = row_key::table_range(table);
        engine.tree.bulk_loader(&from, &to, frozen.end)
    };
    let mut rows = loader(number.rows_table());
    let mut filter =
        FilterTable { table: number.filter_table(), loader: loader(number.filter_table()), bytes: 0 };
    let inline_bytes_max = engine.tree.format().max_inline_value_bytes();
    let mut builder = (filter_bits > 0).then(|| FilterBuilder::new(filter_bits, inline_bytes_max));
    let mut cursor = Cursor::new();
    cursor.seek_to_first(&frozen.memtable);
    let (mut storages, mut row_bytes, mut deletions) = (Vec::new(), 0, 0);
    while let Some((key, versions)) = cursor.next(&frozen.memtable) {
        let storage = row_key::table_of(key).unwrap();
        assert!(storage.get() >= FIRST_USER_TABLE, "the catalog has changed");
        storages.push(storage);
        let (_, value) = versions.newest();
        deletions += u64::from(value.is_none());
        let change = value.map_or(Change::Delete, Change::Put);
        rows.push_change(&row_key::encode(number.rows_table(), key), change).unwrap();
        row_bytes += (key.len() + value.map_or(0, <[u8]>::len)) as u64;
        if let Some(builder) = &mut builder {
            filter.push(builder.push(key));
        }
    }
    if let Some(builder) = builder {
        filter.push(builder.finish());
    }
    let filter_bytes = filter.bytes;
    let row_count = rows.row_count();
    let leaves = rows.leaf_count();
    for loader in [rows, filter.loader] {
        let plan = loader.graft(frozen.end).unwrap();
        engine.tree.apply_chunk(plan, None).unwrap();
    }
    RunDescriptor {
        level: 0,
        filter_bits,
        start: frozen.start,
        end: frozen.end,
        rows: row_count,
        deletions,
        leaves,
        row_bytes,
        first_storage: storages[0],
        last_storage: storages[storages.len() - 1],
        filter_bytes,
        written_micros: 0,
    }
}

struct FilterTable {
    table: TableId,
    loader: BulkLoader,
    bytes: u64,
}

impl FilterTable {
    fn push(&mut self, segment: Option<BuiltSegment>) {
        if let Some(BuiltSegment { separator, value }) = segment {
            self.bytes += value.len() as u64;
            self.loader.push(&row_key::encode(self.table, &separator), &value).unwrap();
        }
    }
}

/// In one chunk: the list and the redo point. Then the readers get the run in the memtable's place.
fn list_run(engine: &Engine, frozen: &Frozen, number: RunNumber, descriptor: RunDescriptor) {
    let current = engine.redo.superblock();
    let superblock = Superblock {
        redo_point: frozen.end,
        checkpoint_count: current.checkpoint_count + 1,
        next_table: TableId::new(engine.objects.next_id()),
        run_count: current.run_count + 1,
        ..current
    };
    put(engine, number.list_key(), &descriptor.encode(), &superblock);
    let run = Run::new(number, descriptor);
    let mut view: View = (*engine.view.load_full()).clone();
    view.runs = std::iter::once(Arc::new(run)).chain(view.runs.iter().cloned()).collect();
    engine.view.store(Arc::new(view));
    engine.release(frozen, None);
    engine.read_filters(&|| true);
}

/// Puts a row into the tree past the log, and stores the superblock with it.
pub(crate) fn put(engine: &Engine, key: Vec<u8>, value: &[u8], superblock: &Superblock) {
    let _storing = engine.redo.storing();
    let mut rows = Row(Some((key, value.to_vec())));
    let plan = engine.tree.merge_chunk(&mut rows, u64::MAX, superblock.redo_point).unwrap();
    engine.tree.apply_chunk(plan, Some(superblock)).unwrap();
    engine.redo.stored(superblock.clone());
}

struct Row(Option<(Vec<u8>, Vec<u8>)>);

impl MergeSource for Row {
    fn peek(&self) -> Option<(&[u8], Change<'_>)> {
        self.0.as_ref().map(|(key, value)| (&key[..], Change::Put(value)))
    }

    fn advance(&mut self) {
        self.0 = None;
    }
}
