//! Reads through runs, against a model; the list at an open; what is cut out.

use std::collections::BTreeMap;
use std::ops::Bound;

use seawall_simulation::{PowerLoss, SeededRandom, SimulatedDisk, seeds};
use seawall_tree::{Direction, LeafCursor};
use seawall_types::TableId;

use crate::catalog::{FIRST_LOCAL_TABLE, Table};
use crate::database::{Database, Snapshot};
use crate::error::Error;
use crate::row_key;
use crate::runs::run::{RUNS, RunNumber};
use crate::runs::testing::{add_filler, checkpoint_into_run, leave_unlisted_run, open, put};

mod tiers;

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// Runs that a database may have at most.
const RUNS_MAX: u64 = 24;

fn key_of(number: u64) -> Vec<u8> {
    // Of different lengths, so that one key begins with another.
    let key = format!("key {:04}", number / 3);
    [key.as_bytes(), &[b'.'; 2][..usize::try_from(number % 3).unwrap()]].concat()
}

/// Two tables, side by side, and what is in them.
struct Model {
    random: SeededRandom,
    /// Keys are numbered below this.
    keys: u64,
    rows: [Rows; 2],
}

impl Model {
    fn new(seed: u64) -> Model {
        let mut random = SeededRandom::new(seed);
        let keys = 60 + random.below(900);
        Model { random, keys, rows: [Rows::new(), Rows::new()] }
    }

    fn below(&mut self, end: u64) -> usize {
        usize::try_from(self.random.below(end)).unwrap()
    }

    fn key(&mut self) -> Vec<u8> {
        let number = self.random.below(self.keys);
        key_of(number)
    }

    fn value(&mut self) -> Vec<u8> {
        // Some are longer than what a leaf has room for.
        let length = match self.random.below(40) {
            0 => 1_500 + self.below(9_000),
            1 => 0,
            _ => self.below(120),
        };
        self.random.bytes(length)
    }

    fn change_some(&mut self, database: &Database, tables: &[Table; 2], count: u64) {
        for _ in 0..count {
            let (place, key) = (self.below(2), self.key());
            if self.below(4) == 0 {
                database.delete(&tables[place], &key).unwrap();
                self.rows[place].remove(&key);
                continue;
            }
            let value = self.value();
            database.put(&tables[place], &key, &value).unwrap();
            self.rows[place].insert(key, value);
        }
    }

    fn bound(&mut self) -> Bound<Vec<u8>> {
        match self.below(5) {
            0 => Bound::Unbounded,
            1 | 2 => Bound::Included(self.key()),
            _ => Bound::Excluded(self.key()),
        }
    }

    /// Two bounds that are in order.
    fn bounds(&mut self) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
        let (from, to) = (self.bound(), self.bound());
        match (&from, &to) {
            (Bound::Included(low) | Bound::Excluded(low), Bound::Included(high) | Bound::Excluded(high))
                if low >= high =>
            {
                (Bound::Included(high.clone()), Bound::Included(low.clone()))
            }
            _ => (from, to),
        }
    }
}

/// A snapshot, and what it must show for as long as it lives.
struct Seen {
    snapshot: Snapshot,
    rows: [Rows; 2],
}

impl Seen {
    fn now(database: &Database, model: &Model) -> Seen {
        Seen { snapshot: database.snapshot(), rows: model.rows.clone() }
    }

    fn check(&self, tables: &[Table; 2], model: &mut Model, what: &str) {
        for _ in 0..15 {
            let (place, key) = (model.below(2), model.key());
            let found = self.snapshot.get(&tables[place], &key).unwrap();
            assert_eq!(found.as_ref(), self.rows[place].get(&key), "{what}: {}", key.escape_ascii());
        }
        for _ in 0..4 {
            let (place, bounds, count) = (model.below(2), model.bounds(), 1 + model.below(60));
            let (table, rows) = (&tables[place], &self.rows[place]);
            let forward = self.snapshot.range(table, bounds.clone()).map(Result::unwrap);
            let expected = rows.range(bounds.clone()).map(owned);
            assert!(forward.take(count).eq(expected.take(count)), "{what}: {bounds:?}");
            let reverse = self.snapshot.range_reverse(table, bounds.clone()).map(Result::unwrap);
            let expected = rows.range(bounds.clone()).rev().map(owned);
            assert!(reverse.take(count).eq(expected.take(count)), "{what}: {bounds:?}, backwards");
        }
    }

    fn check_all(&self, tables: &[Table; 2], what: &str) {
        for (table, rows) in tables.iter().zip(&self.rows) {
            let forward = self.snapshot.rows(table).map(Result::unwrap);
            assert!(forward.eq(rows.iter().map(owned)), "{what}");
            let reverse = self.snapshot.range_reverse::<&[u8]>(table, ..).map(Result::unwrap);
            assert!(reverse.eq(rows.iter().rev().map(owned)), "{what}, backwards");
        }
    }
}

fn owned((key, value): (&Vec<u8>, &Vec<u8>)) -> (Vec<u8>, Vec<u8>) {
    (key.clone(), value.clone())
}

/// The main part has the first rows; the tables have their place in the catalog.
fn loaded(database: &Database, model: &mut Model) -> [Table; 2] {
    let tables = ["t", "u"].map(|name| database.create_table(name).unwrap());
    let count = model.random.below(2 * model.keys);
    model.change_some(database, &tables, count);
    database.checkpoint().unwrap();
    tables
}

#[test]
fn reads_through_runs_are_those_of_the_model() {
    for seed in seeds(30) {
        let disk = SimulatedDisk::new(seed);
        let database = open(&disk).unwrap();
        let mut model = Model::new(seed);
        let tables = loaded(&database, &mut model);
        let mut older = vec![Seen::now(&database, &model)];
        for round in 0..1 + model.random.below(RUNS_MAX) {
            let what = format!("seed {seed}, round {round}");
            let count = 1 + model.random.below(80);
            model.change_some(&database, &tables, count);
            if model.below(3) == 0 {
                older.push(Seen::now(&database, &model));
                let count = model.random.below(20);
                model.change_some(&database, &tables, count);
            }
            let filter_bits = [0, 4, 10][model.below(3)];
            checkpoint_into_run(database.engine(), filter_bits);
            Seen::now(&database, &model).check(&tables, &mut model, &what);
            older.iter().for_each(|seen| seen.check(&tables, &mut model, &format!("{what}, older")));
            if model.below(3) == 0 && !older.is_empty() {
                let ended = model.below(older.len() as u64);
                older.remove(ended).check_all(&tables, &what);
            }
        }
        older.iter().for_each(|seen| seen.check_all(&tables, &format!("seed {seed}, older")));
        drop(older);
        Seen::now(&database, &model).check_all(&tables, &format!("seed {seed}"));
        changes_above_runs_hide_them(&database, &tables, &mut model, seed);
        disk.crash();
        let runs = database.engine().view().runs.len();
        drop(database);
        let disk = disk.after_power_loss(PowerLoss::LoseAll);
        let database = open(&disk).unwrap();
        let again = database.engine().view().runs.clone();
        assert_eq!(again.len(), runs, "seed {seed}");
        assert!(again.iter().all(|run| !run.lacks_filter()), "seed {seed}");
        let tables = ["t", "u"].map(|name| database.table(name).unwrap());
        Seen::now(&database, &model).check_all(&tables, &format!("seed {seed}, opened again"));
        Seen::now(&database, &model).check(&tables, &mut model, &format!("seed {seed}, opened again"));
        leave(&disk, database);
    }
}

/// Rows that a transaction has written, and rows in memory, above those of runs.
fn changes_above_runs_hide_them(database: &Database, tables: &[Table; 2], model: &mut Model, seed: u64) {
    model.change_some(database, tables, 20);
    let mut transaction = database.begin();
    let mut rows = model.rows.clone();
    for _ in 0..30 {
        let (place, key, value) = (model.below(2), model.key(), model.value());
        if model.below(2) == 0 {
            transaction.delete(&tables[place], &key).unwrap();
            rows[place].remove(&key);
        } else {
            transaction.put(&tables[place], &key, &value).unwrap();
            rows[place].insert(key, value);
        }
    }
    for (table, rows) in tables.iter().zip(&rows) {
        let forward: Vec<_> = transaction.rows(table).map(Result::unwrap).collect();
        assert!(forward.iter().cloned().eq(rows.iter().map(owned)), "seed {seed}");
        let reverse: Vec<_> = transaction.range_reverse::<&[u8]>(table, ..).map(Result::unwrap).collect();
        assert!(reverse.iter().cloned().eq(rows.iter().rev().map(owned)), "seed {seed}, backwards");
        for (key, value) in rows.iter().step_by(7) {
            assert_eq!(transaction.get(table, key).unwrap().as_ref(), Some(value), "seed {seed}");
        }
    }
}

/// A checkpoint at the close would merge in place what runs have, too: that no checkpoint does as long as there are runs.
fn leave(disk: &SimulatedDisk, database: Database) {
    disk.crash();
    drop(database);
}

/// A scan that began before a run was listed goes on with the run in its place, or without it: the rows are the same.
#[test]
fn scans_go_on_while_runs_are_listed() {
    for seed in seeds(30) {
        let disk = SimulatedDisk::new(seed);
        let database = open(&disk).unwrap();
        let mut model = Model::new(seed);
        let tables = loaded(&database, &mut model);
        for _ in 0..model.below(4) {
            model.change_some(&database, &tables, 30);
            checkpoint_into_run(database.engine(), 10);
        }
        let seen = Seen::now(&database, &model);
        let mut scans = Vec::new();
        for direction in [Direction::Forward, Direction::Reverse] {
            for (table, rows) in tables.iter().zip(&seen.rows) {
                let scan = seen.snapshot.open_scan::<&[u8]>(table, .., direction).unwrap();
                let expected: Vec<_> = match direction {
                    Direction::Forward => rows.iter().map(owned).collect(),
                    Direction::Reverse => rows.iter().rev().map(owned).collect(),
                };
                scans.push((scan, expected.into_iter()));
            }
        }
        for _ in 0..10 {
            for (scan, expected) in &mut scans {
                for _ in 0..model.below(40) {
                    let row = scan.next_row().unwrap().map(|(key, value)| (key.to_vec(), value.to_vec()));
                    assert_eq!(row, expected.next(), "seed {seed}");
                }
            }
            model.change_some(&database, &tables, 10);
            checkpoint_into_run(database.engine(), 10);
        }
        for (scan, expected) in scans {
            assert!(scan.map(Result::unwrap).eq(expected), "seed {seed}");
        }
        leave(&disk, database);
    }
}

#[test]
fn a_younger_run_hides_an_older_one_and_a_snapshot_reads_none_that_ends_after_it() {
    let disk = SimulatedDisk::new(1);
    let database = open(&disk).unwrap();
    let table = database.create_table("t").unwrap();
    database.put(&table, "main", "0").unwrap();
    database.put(&table, "changed", "0").unwrap();
    database.checkpoint().unwrap();
    let mut snapshots = Vec::new();
    for number in 1..=5_u8 {
        snapshots.push(database.snapshot());
        database.put(&table, "changed", [number]).unwrap();
        database.put(&table, [b'k', number], [number]).unwrap();
        checkpoint_into_run(database.engine(), 10);
    }
    let value = |snapshot: &Snapshot| snapshot.get(&table, "changed").unwrap().unwrap();
    assert_eq!(value(&database.snapshot()), [5]);
    for (number, snapshot) in (0..).zip(&snapshots) {
        let expected = if number == 0 { b"0".to_vec() } else { vec![number] };
        assert_eq!(value(snapshot), expected);
        assert_eq!(snapshot.rows(&table).count(), 2 + usize::from(number));
        assert_eq!(snapshot.get(&table, "main").unwrap().unwrap(), b"0");
    }
    drop(snapshots);
    // Two rows in the main part and two in each run, of which one was counted before.
    let estimate = database.snapshot().estimate_rows::<&[u8]>(&table, ..).unwrap();
    assert!((11.5..12.5).contains(&estimate), "{estimate}");
    leave(&disk, database);
}

#[test]
fn a_row_deleted_in_a_run_is_gone_for_those_who_read_the_run() {
    let disk = SimulatedDisk::new(1);
    let database = open(&disk).unwrap();
    let table = database.create_table("t").unwrap();
    for key in ["a", "b", "c"] {
        database.put(&table, key, "main").unwrap();
    }
    database.checkpoint().unwrap();
    database.put(&table, "b", "run").unwrap();
    database.put(&table, "bb", "run").unwrap();
    checkpoint_into_run(database.engine(), 10);
    let before = database.snapshot();
    for key in ["a", "b", "bb", "never there"] {
        database.delete(&table, key).unwrap();
    }
    checkpoint_into_run(database.engine(), 10);
    let between = database.snapshot();
    database.put(&table, "b", "again").unwrap();
    checkpoint_into_run(database.engine(), 10);
    let after = database.snapshot();
    let expected: [(&Snapshot, &[(&str, &str)]); 3] = [
        (&before, &[("a", "main"), ("b", "run"), ("bb", "run"), ("c", "main")]),
        (&between, &[("c", "main")]),
        (&after, &[("b", "again"), ("c", "main")]),
    ];
    for (snapshot, rows) in expected {
        let rows = rows.iter().map(|(key, value)| (key.as_bytes().to_vec(), value.as_bytes().to_vec()));
        let rows: Vec<_> = rows.collect();
        let found: Vec<_> = snapshot.rows(&table).map(Result::unwrap).collect();
        assert_eq!(found, rows);
        let mut found: Vec<_> = snapshot.range_reverse::<&[u8]>(&table, ..).map(Result::unwrap).collect();
        found.reverse();
        assert_eq!(found, rows);
        for key in ["a", "b", "bb", "c", "never there"] {
            let expected = rows.iter().find(|(at, _)| at == key.as_bytes()).map(|(_, value)| value.clone());
            assert_eq!(snapshot.get(&table, key).unwrap(), expected, "{key}");
        }
    }
    let newest = database.engine().view().runs[1].clone();
    assert_eq!((newest.descriptor.rows, newest.descriptor.deletions), (4, 4));
    // All of what is in the second run says that rows are gone.
    assert!(newest.share_of_values() < 0.001);
    check_is_clean(&database);
    leave(&disk, database);
}

/// Tables of this directory alone that have rows.
fn local_tables(database: &Database) -> Vec<TableId> {
    let tree = &database.engine().tree;
    let mut cursor = LeafCursor::seek(tree.pages(), &FIRST_LOCAL_TABLE.to_be_bytes()).unwrap();
    let mut tables = Vec::new();
    while let Some(row) = cursor.row() {
        tables.push(row_key::table_of(&row.key.to_vec()).unwrap());
        cursor.advance(tree.pages()).unwrap();
    }
    tables.dedup();
    tables
}

fn check_is_clean(database: &Database) {
    let summary = database.check(&mut |damage| panic!("{damage}")).unwrap();
    assert_eq!((summary.damages, summary.unreadable), (0, 0));
}

/// A database whose power went after the rows of its second run were in the tree, and before that was listed. The numbers of both.
fn crashed_before_a_run_was_listed(seed: u64) -> (SimulatedDisk, RunNumber, RunNumber) {
    let disk = SimulatedDisk::new(seed);
    let database = open(&disk).unwrap();
    let table = database.create_table("t").unwrap();
    add_filler(&database);
    database.checkpoint().unwrap();
    // Different rows: no run has what a checkpoint merges in place afterwards.
    let put_many = |kind: u8, length: usize| {
        for number in 0..200_u8 {
            database.put(&table, [kind, number], vec![kind; length]).unwrap();
        }
    };
    put_many(1, 100);
    let listed = checkpoint_into_run(database.engine(), 10);
    put_many(2, 2_000);
    let unlisted = leave_unlisted_run(database.engine(), 10);
    disk.crash();
    drop(table);
    drop(database);
    (disk.after_power_loss(PowerLoss::LoseAll), listed, unlisted)
}

fn expect_rows_of_both(database: &Database) {
    let table = database.table("t").unwrap();
    for number in 0..200_u8 {
        assert_eq!(database.get(&table, [1, number]).unwrap().unwrap(), [1; 100], "{number}");
        assert_eq!(database.get(&table, [2, number]).unwrap().unwrap(), [2; 2_000], "{number}");
    }
}

#[test]
fn a_run_that_was_not_listed_is_cut_out_by_the_first_checkpoint_after_an_open() {
    let (disk, listed, unlisted) = crashed_before_a_run_was_listed(1);
    assert_ne!(listed, unlisted);
    let database = open(&disk).unwrap();
    expect_rows_of_both(&database);
    assert_eq!(local_tables(&database).len(), 5, "the list, and two tables for each run");
    database.checkpoint().unwrap();
    assert_eq!(local_tables(&database), [RUNS, listed.rows_table(), listed.filter_table()]);
    expect_rows_of_both(&database);
    check_is_clean(&database);
    assert!(database.engine().redo.superblock().next_run > unlisted.get(), "its number is not drawn again");
    leave(&disk, database);
}

#[test]
fn an_unlisted_run_may_be_cut_out_in_several_attempts() {
    let (base, listed, _) = crashed_before_a_run_was_listed(2);
    let mut random = SeededRandom::new(3);
    let (mut call, mut is_done) = (0, false);
    while !is_done {
        let disk = base.copy();
        let database = open(&disk).unwrap();
        disk.crash_at(disk.calls() + call);
        is_done = database.checkpoint().is_ok();
        disk.crash();
        drop(database);
        let disk = disk.after_power_loss(PowerLoss::Random(random.next_u64()));
        let database = open(&disk).unwrap();
        expect_rows_of_both(&database);
        database.checkpoint().unwrap();
        assert_eq!(
            local_tables(&database),
            [RUNS, listed.rows_table(), listed.filter_table()],
            "call {call}"
        );
        expect_rows_of_both(&database);
        check_is_clean(&database);
        leave(&disk, database);
        call += 1 + random.below(3);
    }
    assert!(call > 20, "{call} calls");
}

#[test]
fn dropped_tables_are_cut_out_of_runs_too() {
    let disk = SimulatedDisk::new(1);
    let database = open(&disk).unwrap();
    let tables = ["a", "b", "c"].map(|name| database.create_table(name).unwrap());
    add_filler(&database);
    database.checkpoint().unwrap();
    for round in 0..3_u8 {
        for table in &tables {
            for number in 0..100_u8 {
                database.put(table, [number], [round; 90]).unwrap();
            }
            database.put(table, "long", vec![round; 5_000]).unwrap();
        }
        checkpoint_into_run(database.engine(), 10);
    }
    database.tables().drop("b").unwrap();
    database.checkpoint().unwrap();
    let tree = &database.engine().tree;
    let runs = database.engine().view().runs.clone();
    assert_eq!(runs.len(), 3);
    let storage = |table: &Table| TableId::new(table.id());
    for run in runs.iter() {
        for (table, count) in tables.iter().zip([101, 0, 101]) {
            let (from, to) = row_key::table_range(storage(table));
            let (from, to) = (run.key_of(&from), run.key_of(&to));
            let mut cursor = LeafCursor::seek(tree.pages(), &from).unwrap();
            let mut found = 0;
            while cursor.row().is_some_and(|row| row.key.to_vec() < to) {
                found += 1;
                cursor.advance(tree.pages()).unwrap();
            }
            assert_eq!(found, count, "{}", table.name());
        }
    }
    for table in [&tables[0], &tables[2]] {
        assert_eq!(database.snapshot().rows(table).count(), 101);
        assert_eq!(database.get(table, "long").unwrap().unwrap(), [2; 5_000]);
    }
    // Long values went with the rows: no page is left behind.
    check_is_clean(&database);
    leave(&disk, database);
}

/// A database with two runs whose power went.
fn crashed_with_two_runs() -> SimulatedDisk {
    let disk = SimulatedDisk::new(1);
    let database = open(&disk).unwrap();
    let table = database.create_table("t").unwrap();
    database.checkpoint().unwrap();
    for round in 0..2_u8 {
        for number in 0..250_u8 {
            database.put(&table, [round, number], [round; 20]).unwrap();
        }
        checkpoint_into_run(database.engine(), 10);
    }
    disk.crash();
    drop(database);
    disk.after_power_loss(PowerLoss::LoseAll)
}

#[test]
fn a_list_that_does_not_go_with_the_superblock_is_refused() {
    for run_count in [1, 2, 3] {
        let disk = crashed_with_two_runs();
        let database = open(&disk).unwrap();
        let engine = database.engine();
        let superblock = seawall_tree::Superblock { run_count, next_run: 3, ..engine.redo.superblock() };
        engine.tree.store_superblock(&superblock).unwrap();
        disk.crash();
        drop(database);
        let disk = disk.after_power_loss(PowerLoss::LoseAll);
        match open(&disk) {
            Ok(database) => {
                assert_eq!(run_count, 2);
                leave(&disk, database);
            }
            Err(error) => {
                assert_ne!(run_count, 2, "{error}");
                assert!(
                    matches!(&error, Error::Catalog { place, .. } if place.contains("list of runs")),
                    "{error}"
                );
            }
        }
    }
}

fn damages(database: &Database) -> Vec<String> {
    let mut damages = Vec::new();
    database.check(&mut |damage| damages.push(damage.to_string())).unwrap();
    damages
}

#[test]
fn a_check_counts_the_rows_of_runs_and_finds_those_that_do_not_belong_there() {
    let disk = crashed_with_two_runs();
    let database = open(&disk).unwrap();
    let engine = database.engine();
    let summary = database.check(&mut |damage| panic!("{damage}")).unwrap();
    assert_eq!(summary.run_rows, 500);
    let main_rows = summary.rows;
    let run = engine.view().runs[1].clone();
    let superblock = engine.redo.superblock();
    // In the run's filter is neither; the second one is in none of its storages.
    let storage = run.descriptor.first_storage;
    for storage in [storage, TableId::new(storage.get() + 1)] {
        put(engine, run.key_of(&row_key::encode(storage, b"not in the filter")), b"value", &superblock);
    }
    let found = damages(&database);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].contains("outside of the storages") && found[0].contains("1 rows"), "{found:?}");
    assert!(found[1].contains("filter lacks rows"), "{found:?}");
    let summary = database.check(&mut |_| {}).unwrap();
    assert_eq!((summary.run_rows, summary.rows), (502, main_rows));
    leave(&disk, database);
}

#[test]
fn a_damaged_descriptor_is_refused_and_a_damaged_filter_is_done_without() {
    let disk = crashed_with_two_runs();
    let database = open(&disk).unwrap();
    let engine = database.engine();
    let newest = engine.view().runs[0].clone();
    let superblock = engine.redo.superblock();
    put(engine, row_key::encode(newest.number.filter_table(), b""), b"no segment", &superblock);
    assert_eq!(damages(&database).len(), 1, "{:?}", damages(&database));
    disk.crash();
    drop(database);
    let disk = disk.after_power_loss(PowerLoss::LoseAll);
    let database = open(&disk).unwrap();
    let engine = database.engine();
    let runs = database.statistics().runs;
    assert_eq!((runs.count, runs.rows, runs.unfiltered), (2, 500, 1));
    assert!((300..800).contains(&runs.filter_bytes), "{runs:?}");
    let table = database.table("t").unwrap();
    for round in 0..2_u8 {
        for number in 0..250_u8 {
            assert_eq!(database.get(&table, [round, number]).unwrap().unwrap(), [round; 20]);
        }
    }
    assert_eq!(database.get(&table, "absent").unwrap(), None);
    put(engine, newest.number.list_key(), b"no descriptor", &superblock);
    disk.crash();
    drop(database);
    let error = open(&disk.after_power_loss(PowerLoss::LoseAll)).unwrap_err();
    let place = format!("run {}", newest.number);
    assert!(matches!(&error, Error::Catalog { place: at, .. } if *at == place), "{error}");
}
