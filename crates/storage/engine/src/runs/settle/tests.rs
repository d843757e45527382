//! Replayed rows over runs, and rewinds of servers with runs; windows for tests of others.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use seawall_simulation::{PowerLoss, SeededRandom, SimulatedClock, SimulatedDisk, SimulatedRandom, seeds};
use seawall_tree::{StoredRun, TreeAccess};

use super::{apply, settle_runs};
use crate::backup::{Backup, BackupItem};
use crate::catalog::{FIRST_USER_TABLE, first_local_key};
use crate::database::{Database, DatabaseDirectory};
use crate::engine::Engine;
use crate::environment::Environment;
use crate::error::Error;
use crate::options::{Background, Options};
use crate::recovery::rewind::{Rewind, RowsFromPrimary};
use crate::recovery::timeline::history_of;
use crate::row_key;
use crate::runs::testing::checkpoint_into_run;
use seawall_types::TableId;
use seawall_wal::SegmentName;

pub(crate) type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// The row keys of users.
pub(crate) fn all_users() -> Range<Vec<u8>> {
    row_key::table_range(TableId::new(FIRST_USER_TABLE)).0..first_local_key().to_vec()
}

/// Merges what all runs have in a range into the main part.
pub(crate) fn merge_window(engine: &Engine, range: Range<Vec<u8>>) {
    let _turn = engine.checkpoint_turn.take();
    let mut superblock = engine.redo.superblock();
    let view = engine.view.load_full();
    let runs: Vec<StoredRun> = view.runs.iter().map(|run| run.stored()).collect();
    let merged = engine.tree.merge_window(range, &runs, None, &|_| false, engine.flushed()).unwrap();
    let emptied = merged.emptied.clone();
    let _storing = engine.redo.storing();
    apply(&engine.tree, &mut superblock, merged).unwrap();
    engine.redo.stored(superblock);
    let mut view = (*view).clone();
    let left = view.runs.iter().enumerate().filter(|(index, _)| !emptied.contains(index));
    view.runs = left.map(|(_, run)| Arc::clone(run)).collect();
    engine.view.store(Arc::new(view));
}

/// Merges all runs into the main part.
pub(crate) fn settle(engine: &Engine) {
    let _turn = engine.checkpoint_turn.take();
    let mut superblock = engine.redo.superblock();
    let _storing = engine.redo.storing();
    settle_runs(&engine.tree, &mut superblock, 20_000, engine.flushed()).unwrap();
    assert_eq!(superblock.run_count, 0);
    engine.redo.stored(superblock);
    let mut view = (*engine.view.load_full()).clone();
    view.runs = Arc::default();
    engine.view.store(Arc::new(view));
}

fn environment(disk: &SimulatedDisk) -> Environment {
    Environment {
        disk: Arc::new(disk.clone()),
        clock: Arc::new(SimulatedClock::default()),
        random: Arc::new(SimulatedRandom::new(1)),
    }
}

/// Small pages, no threads, and so much memory.
fn options(memtable_bytes: u64) -> Options {
    Options::default().with(|options| {
        options.format.page_bytes = 4096;
        options.format.segment_bytes = 64 << 10;
        options.memory.memtable_bytes = memtable_bytes;
        options.memory.cache_bytes = 16 << 10;
        options.checkpoint.chunk_bytes = 64 << 10;
        // No checkpoint merges the runs of a test.
        options.checkpoint.runs.run_percent = 100;
        options.checkpoint.runs.run_count = 64;
        options.recovery.threads = 1;
        options.background = Background::Manual;
    })
}

const MUCH: u64 = 16 << 20;
const LITTLE: u64 = 64 << 10;

fn open(disk: &SimulatedDisk, memtable_bytes: u64) -> Result<Database, Error> {
    Database::open(environment(disk), options(memtable_bytes))
}

/// Changes of a table; some values are long, and some rows go.
pub(crate) fn change(
    database: &Database,
    table: &str,
    rows: &mut Rows,
    random: &mut SeededRandom,
    (count, keys): (u64, Range<u64>),
) {
    let table = database.table(table).unwrap();
    for _ in 0..count {
        let key = format!("key {:05}", keys.start + random.below(keys.end - keys.start)).into_bytes();
        if random.chance(1, 4) {
            database.delete(&table, &key).unwrap();
            rows.remove(&key);
        } else {
            let length = if random.chance(1, 40) { 1_500 + random.below(6_000) } else { random.below(120) };
            let value = random.bytes(usize::try_from(length).unwrap());
            database.put(&table, &key, &value).unwrap();
            rows.insert(key, value);
        }
    }
}

/// Puts rows of all numbers below `count`, many at a time.
fn fill(database: &Database, table: &str, rows: &mut Rows, count: u64) {
    let table = database.table(table).unwrap();
    for first in (0..count).step_by(500) {
        let mut transaction = database.begin();
        for number in first..count.min(first + 500) {
            let key = format!("key {number:05}").into_bytes();
            let value = vec![u8::try_from(number % 251).unwrap(); 90];
            transaction.put(&table, &key, &value).unwrap();
            rows.insert(key, value);
        }
        transaction.commit().unwrap();
    }
}

fn rows_of(database: &Database, table: &str) -> Rows {
    let snapshot = database.snapshot();
    snapshot.rows(&database.table(table).unwrap()).map(Result::unwrap).collect()
}

fn check_is_clean(database: &Database) {
    let summary = database.check(&mut |damage| panic!("{damage}")).unwrap();
    assert_eq!((summary.damages, summary.unreadable), (0, 0));
}

fn leave(disk: &SimulatedDisk, database: Database) -> SimulatedDisk {
    disk.crash();
    drop(database);
    disk.after_power_loss(PowerLoss::KeepAll)
}

/// A log that is longer than the memory for it, over runs.
fn long_log_over_runs(seed: u64) -> (SimulatedDisk, Rows) {
    let disk = SimulatedDisk::new(seed);
    let mut random = SeededRandom::new(seed);
    let mut rows = Rows::new();
    let database = open(&disk, MUCH).unwrap();
    database.create_table("t").unwrap();
    let keys = [300, 3_000][usize::try_from(seed % 2).unwrap()];
    if !seed.is_multiple_of(3) {
        change(&database, "t", &mut rows, &mut random, (2_000, 0..keys));
    }
    database.checkpoint().unwrap();
    for _ in 0..1 + random.below(4) {
        let first = random.below(keys);
        let count = 1 + random.below(400);
        let end = first + 1 + random.below(keys);
        change(&database, "t", &mut rows, &mut random, (count, first..end));
        checkpoint_into_run(database.engine(), 10);
    }
    let first = random.below(keys);
    let end = first + 1 + random.below(keys);
    change(&database, "t", &mut rows, &mut random, (1_500, first..end));
    change(&database, "t", &mut rows, &mut random, (500, 0..2 * keys));
    (leave(&disk, database), rows)
}

/// Rows that a recovery merges are newer than those of runs, and must not come to stand below them.
#[test]
fn a_replay_in_parts_merges_over_runs() {
    let mut merges = 0;
    for seed in seeds(12) {
        let (disk, rows) = long_log_over_runs(seed);
        let database = open(&disk, LITTLE).unwrap();
        merges += database.statistics().recovery.merges;
        assert!(rows_of(&database, "t") == rows, "seed {seed}: other rows");
        check_is_clean(&database);
        let disk = leave(&disk, database);
        let database = open(&disk, MUCH).unwrap();
        assert!(rows_of(&database, "t") == rows, "seed {seed}: other rows, opened again");
        disk.crash();
    }
    assert!(merges >= 12, "{merges} merges");
}

#[test]
fn a_replay_in_parts_over_runs_begins_again_whenever_the_power_goes() {
    for seed in seeds(3) {
        let (disk, rows) = long_log_over_runs(seed);
        let whole = disk.copy();
        let before = whole.calls();
        drop(open(&whole, LITTLE).unwrap());
        let calls = whole.calls() - before;
        let mut random = SeededRandom::new(seed);
        for _ in 0..40 {
            let call = random.below(calls);
            let crashed = disk.copy();
            crashed.crash_at(crashed.calls() + call);
            drop(open(&crashed, LITTLE));
            let left = crashed.after_power_loss(PowerLoss::Random(seed ^ call));
            crashed.crash();
            let database = open(&left, LITTLE).unwrap();
            assert!(rows_of(&database, "t") == rows, "seed {seed}, call {call} of {calls}: other rows");
            check_is_clean(&database);
            left.crash();
        }
    }
}

/// All rows of users, as a backup has them.
pub(crate) fn merged_rows(database: &Database, name: &str) -> Rows {
    let mut backup = Backup::begin_copy(database, name).unwrap();
    let (mut rows, mut next) = (Rows::new(), Some(backup.first_key()));
    while let Some(from) = next {
        let mut give = |item: BackupItem<'_>| match item {
            BackupItem::Row { key, value } => {
                assert!(rows.insert(key.to_vec(), value.to_vec()).is_none(), "a row comes twice");
            }
            BackupItem::Kept { .. } => panic!("there is no parent"),
        };
        next = backup.read_range(&from, 5_000, &mut give).unwrap().next;
    }
    backup.finish().unwrap();
    rows
}

/// What a rewind does, up to its end.
fn rewind(primary: &Database, place: &SimulatedDisk, name: &str) -> Result<u64, Error> {
    let upstream = history_of(&primary.engine().environment.disk, &primary.engine().redo.superblock())?;
    let options = options(MUCH);
    let mut rewind =
        Rewind::begin(environment(place), &options, &upstream)?.expect("the histories have parted");
    let mut backup = Backup::begin_copy(primary, name)?;
    backup.keep_since(Some(rewind.since()));
    let base = backup.base().clone();
    let offset = base.redo_point.get() % base.segment_bytes;
    let mut head = vec![0; usize::try_from(offset).unwrap()];
    let number = base.redo_point.get() / base.segment_bytes;
    let segment = SegmentName { number, timeline: upstream.timeline_at(base.redo_point) };
    match primary.log().read_segment(segment, 0, &mut head) {
        // The first record of a segment makes it.
        Err(Error::Io { .. }) if offset <= 4096 => head.clear(),
        read => read?,
    }
    let archive_mode = primary.log().archive_mode()?;
    rewind.take_beginning(RowsFromPrimary { base, history: upstream, head, archive_mode })?;
    for (key, value) in backup.system_rows() {
        rewind.push(key, value)?;
    }
    let mut next = Some(backup.first_key());
    while let Some(from) = next {
        next = give(&mut backup, &mut rewind, &from, None)?;
    }
    let asked = rewind.ask()?;
    backup.keep_since(None);
    for range in asked {
        let mut next = Some(range.start);
        while let Some(from) = next.filter(|from| *from < range.end) {
            next = give(&mut backup, &mut rewind, &from, Some(&range.end))?;
        }
    }
    let end = backup.finish()?;
    Ok(rewind.finish(end)?.kept_rows)
}

/// Hands over what a walk came by, in its order.
type Step = Box<dyn FnOnce(&mut Rewind) -> Result<(), Error>>;

fn give(
    backup: &mut Backup,
    rewind: &mut Rewind,
    from: &[u8],
    to: Option<&[u8]>,
) -> Result<Option<Vec<u8>>, Error> {
    let mut items: Vec<Step> = Vec::new();
    let range = backup.read_range(from, 5_000, &mut |item| match item {
        BackupItem::Row { key, .. } if to.is_some_and(|to| key >= to) => {}
        BackupItem::Row { key, value } => {
            let (key, value) = (key.to_vec(), value.to_vec());
            items.push(Box::new(move |rewind| rewind.push(&key, &value)));
        }
        BackupItem::Kept { first, last, sum } => {
            let (first, last) = (first.to_vec(), last.to_vec());
            items.push(Box::new(move |rewind| rewind.keep(&first, &last, sum.unwrap())));
        }
    })?;
    rewind.note_stamp(range.stamp);
    items.into_iter().try_for_each(|item| item(rewind))?;
    Ok(range.next)
}

/// The rows of users in the main part of a tree that nobody has open, which has no runs.
fn rows_of_main_part(disk: &SimulatedDisk) -> Rows {
    let opened = seawall_tree::Tree::open(
        disk,
        TreeAccess::Read,
        seawall_tree::TreeOptions { cache_bytes: 64 << 10, ..seawall_tree::TreeOptions::default() },
    );
    let opened = opened.unwrap();
    assert_eq!(opened.superblock.run_count, 0);
    let tree = opened.tree;
    let range = all_users();
    let mut cursor = seawall_tree::LeafCursor::seek(tree.pages(), &range.start).unwrap();
    let mut rows = Rows::new();
    while let Some(row) = cursor.row() {
        let key = row.key.to_vec();
        if key >= range.end {
            break;
        }
        let value = tree.get(&key).unwrap().unwrap();
        rows.insert(key, value);
        cursor.advance(tree.pages()).unwrap();
    }
    rows
}

/// Two databases whose histories have parted, with runs from before and from after on both sides; the former one has ended.
fn parted(seed: u64) -> (SimulatedDisk, SimulatedDisk, Database) {
    let mut random = SeededRandom::new(seed);
    let disk = SimulatedDisk::new(seed);
    let mut rows = Rows::new();
    let database = open(&disk, MUCH).unwrap();
    database.create_table("t").unwrap();
    // So many that there are several level-1 pages.
    fill(&database, "t", &mut rows, 20_000);
    database.checkpoint().unwrap();
    for _ in 0..2 {
        change(&database, "t", &mut rows, &mut random, (60, 0..20_000));
        checkpoint_into_run(database.engine(), 10);
    }
    let other = leave(&disk, database);
    let former_disk = other.copy();
    let former = open(&former_disk, MUCH).unwrap();
    let new = DatabaseDirectory::at(environment(&other));
    let primary = new.open_on_new_timeline(options(MUCH), "the other one is not to be reached").unwrap();
    for (database, window) in [(&former, random.chance(1, 2)), (&primary, random.chance(1, 2))] {
        let first = random.below(19_000);
        change(database, "t", &mut rows, &mut random, (40, first..first + 200));
        checkpoint_into_run(database.engine(), 10);
        if window {
            let half = row_key::encode(TableId::new(database.table("t").unwrap().id()), b"key 10000");
            merge_window(database.engine(), all_users().start..half);
        }
        change(database, "t", &mut rows, &mut random, (10, first..first + 200));
        checkpoint_into_run(database.engine(), 10);
    }
    (leave(&former_disk, former), other, primary)
}

#[test]
fn a_server_with_runs_is_rewound_to_one_with_runs() {
    let mut kept = 0;
    for seed in seeds(8) {
        let (former, disk, primary) = parted(seed);
        kept += rewind(&primary, &former, "rewind").unwrap();
        let expected = merged_rows(&primary, "all");
        assert!(expected.len() > 15_000, "{} rows", expected.len());
        assert!(rows_of_main_part(&former) == expected, "seed {seed}: other rows");
        disk.crash();
    }
    assert!(kept > 20_000, "{kept} rows were kept");
}

#[test]
fn a_rewind_with_runs_begins_again_whenever_the_power_goes() {
    for seed in seeds(2) {
        let (former, disk, primary) = parted(seed);
        let whole = former.copy();
        let before = whole.calls();
        rewind(&primary, &whole, "whole").unwrap();
        let calls = whole.calls() - before;
        let expected = merged_rows(&primary, "all");
        let mut random = SeededRandom::new(seed);
        for attempt in 0..30 {
            let call = random.below(calls);
            let crashed = former.copy();
            crashed.crash_at(crashed.calls() + call);
            drop(rewind(&primary, &crashed, &format!("first_{attempt}")));
            let left = crashed.after_power_loss(PowerLoss::Random(seed ^ call));
            crashed.crash();
            let again = rewind(&primary, &left, &format!("again_{attempt}"));
            // Near the end it is a copy that follows already.
            if again.is_ok() {
                assert!(
                    rows_of_main_part(&left) == expected,
                    "seed {seed}, call {call} of {calls}: other rows"
                );
            }
        }
        disk.crash();
    }
}
