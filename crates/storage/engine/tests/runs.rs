//! Checkpoints write sparse changes as sorted runs, and readers see no difference.
#![expect(clippy::unwrap_used, reason = "a test that fails panics")]

mod common;
#[path = "runs/cut_short.rs"]
mod cut_short;
#[path = "runs/merges.rs"]
mod merges;
#[path = "runs/rules.rs"]
mod rules;

use std::collections::BTreeMap;

use seawall_engine::{CheckpointStatistics, Database, OpenMode, Options, RunStatistics, Snapshot, Table};
use seawall_simulation::{PowerLoss, SeededRandom, SimulatedDisk, seeds};

use common::following::Following;

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// Rows of a table that is loaded first: some 170 leaves of 4 KiB.
const LOADED: u32 = 2_000;
/// Rows that are changed for a run: more than 64 leaves have one.
const SPARSE: u32 = 150;

/// Checkpoints when asked only, runs wherever changes are sparse.
fn options() -> Options {
    common::small_options().with(|options| {
        options.format.page_bytes = 4096;
        options.memory.cache_bytes = 256 << 10;
        options.checkpoint.threads = 1;
        // No window is due by the share of runs, and so many runs of a size seldom come together.
        options.checkpoint.runs.run_percent = 100;
        options.checkpoint.runs.fan_in = 16;
    })
}

fn without_runs() -> Options {
    options().with(|options| options.checkpoint.runs.run_percent = 0)
}

fn open(disk: &SimulatedDisk, options: Options) -> Database {
    common::try_open(disk, options).unwrap()
}

fn key(number: u32) -> Vec<u8> {
    number.to_be_bytes().to_vec()
}

/// A database, and what is in its table.
struct Model {
    disk: SimulatedDisk,
    database: Database,
    table: Table,
    rows: Rows,
}

impl Model {
    /// With a table of packed leaves.
    fn loaded(seed: u64, options: Options) -> Model {
        let disk = SimulatedDisk::new(seed);
        let database = open(&disk, options);
        Model::load(disk, database)
    }

    fn load(disk: SimulatedDisk, database: Database) -> Model {
        let rows: Rows = (0..LOADED).map(|number| (key(number), vec![1; 300])).collect();
        let mut load = database.tables().bulk_load("t").unwrap();
        rows.iter().for_each(|(key, value)| load.add(key, value).unwrap());
        let table = load.finish().unwrap();
        database.checkpoint().unwrap();
        Model { disk, database, table, rows }
    }

    fn put(&mut self, number: u32, value: Vec<u8>) {
        self.database.put(&self.table, key(number), &value).unwrap();
        self.rows.insert(key(number), value);
    }

    fn delete(&mut self, number: u32) {
        self.database.delete(&self.table, key(number)).unwrap();
        self.rows.remove(&key(number));
    }

    /// Changes rows that are spread over the table: one of five is deleted, one of forty gets a long value.
    fn change_sparsely(&mut self, round: u8) {
        for step in 0..SPARSE {
            let number = (step * 13 + u32::from(round) * 3) % LOADED;
            match (step + u32::from(round)) % 40 {
                0 => self.put(number, vec![round; 5_000]),
                rest if rest % 5 == 1 => self.delete(number),
                _ => self.put(number, vec![round; 90]),
            }
        }
    }

    fn checkpoint(&self) -> CheckpointStatistics {
        self.database.checkpoint().unwrap()
    }

    fn runs(&self) -> RunStatistics {
        self.database.statistics().runs
    }

    fn check(&self, what: &str) {
        expect_rows(&self.database.snapshot(), &self.table, &self.rows, what);
        check_clean(&self.database, what);
    }

    /// The power goes, and the database is opened again.
    fn lose_power(self, options: Options) -> Model {
        let Model { disk, database, table, rows } = self;
        disk.crash();
        drop(table);
        drop(database);
        Model::reopen(disk.after_power_loss(PowerLoss::LoseAll), options, rows)
    }

    fn reopen(disk: SimulatedDisk, options: Options, rows: Rows) -> Model {
        let database = open(&disk, options);
        let table = database.table("t").unwrap();
        Model { disk, database, table, rows }
    }
}

/// The snapshot shows these rows: by scans both ways, one by one, and many at a time.
fn expect_rows(snapshot: &Snapshot, table: &Table, rows: &Rows, what: &str) {
    let owned = |(key, value): (&Vec<u8>, &Vec<u8>)| (key.clone(), value.clone());
    let forward = snapshot.rows(table).map(Result::unwrap);
    assert!(forward.eq(rows.iter().map(owned)), "{what}: a scan");
    let reverse = snapshot.range_reverse::<&[u8]>(table, ..).map(Result::unwrap);
    assert!(reverse.eq(rows.iter().rev().map(owned)), "{what}: a scan backwards");
    for number in (0..LOADED + 10).step_by(7) {
        assert_eq!(
            snapshot.get(table, key(number)).unwrap().as_ref(),
            rows.get(&key(number)),
            "{what}: {number}"
        );
    }
    let keys: Vec<Vec<u8>> = (0..LOADED + 10).step_by(11).map(key).collect();
    let many = snapshot.get_many(table, &keys).unwrap();
    assert!(many.iter().map(Option::as_ref).eq(keys.iter().map(|key| rows.get(key))), "{what}: many");
}

fn check_clean(database: &Database, what: &str) {
    let summary = database.check(&mut |damage| panic!("{what}: {damage}")).unwrap();
    assert_eq!((summary.damages, summary.unreadable), (0, 0), "{what}");
}

#[test]
fn sparse_changes_go_into_a_run_and_others_do_not() {
    let mut model = Model::loaded(1, options());
    assert_eq!(model.runs().count, 0, "what is loaded is dense");
    // Few, side by side in the second half.
    (1_500..1_520).for_each(|number| model.put(number, vec![2; 90]));
    assert_eq!((model.checkpoint().run_rows, model.runs().count), (0, 0));
    model.change_sparsely(3);
    let sparse = model.checkpoint();
    assert_eq!((sparse.rows, sparse.run_rows), (u64::from(SPARSE), u64::from(SPARSE)), "{sparse:?}");
    assert!(sparse.run_bytes > 0 && sparse.run_bytes < sparse.page_file_bytes, "{sparse:?}");
    assert_eq!((model.runs().count, model.runs().rows), (1, u64::from(SPARSE)));
    assert_eq!(model.runs().unfiltered, 0);
    // Appended.
    (LOADED + 100..LOADED + 1_000).for_each(|number| model.put(number, vec![4; 90]));
    let appended = model.checkpoint();
    assert_eq!((appended.rows, appended.run_rows), (900, 0), "{appended:?}");
    model.check("at the end");
    let model = model.lose_power(options());
    model.check("after a power loss");
}

#[test]
fn without_the_option_no_run_is_written_and_the_superblock_stays_what_it_was() {
    let mut model = Model::loaded(1, without_runs());
    model.change_sparsely(2);
    assert_eq!((model.checkpoint().run_rows, model.runs().count), (0, 0));
    model.check("in place");
}

#[test]
fn filters_take_a_quarter_of_the_cache_at_most_and_runs_are_read_without_them_beyond() {
    let options = options().with(|options| {
        options.memory.cache_bytes = 64 << 10;
        options.checkpoint.runs.run_count = 64;
        options.checkpoint.runs.filter_bits = 64;
    });
    let mut model = Model::loaded(11, options.clone());
    for round in 2..17 {
        model.change_sparsely(round);
        assert!(model.checkpoint().run_rows > 0);
        assert!(model.runs().filter_bytes <= 16 << 10, "{:?}", model.runs());
    }
    assert!(model.runs().unfiltered > 0 && model.runs().filter_bytes > 8 << 10, "{:?}", model.runs());
    model.check("with some filters");
    let model = model.lose_power(options);
    assert!(model.runs().filter_bytes <= 16 << 10, "{:?}", model.runs());
    assert!(model.runs().unfiltered > 0 && model.runs().filter_bytes > 8 << 10, "{:?}", model.runs());
    model.check("after a power loss");
}

/// Makes checkpoints on copies of a database, each with the power gone in another call, and hands `check` what is opened afterwards.
fn crash_everywhere(
    base: &SimulatedDisk,
    rows: &Rows,
    options: &Options,
    mut check: impl FnMut(&Model, &str),
) {
    let mut random = SeededRandom::new(3);
    let (mut call, mut is_done) = (0, false);
    while !is_done {
        let disk = base.copy();
        let database = open(&disk, options.clone());
        disk.crash_at(disk.calls() + call);
        // Merges of runs come after the checkpoint, whose outcome does not speak of them.
        is_done = database.checkpoint().is_ok() && !disk.crashed();
        disk.crash();
        drop(database);
        let outcome = match call % 3 {
            0 => PowerLoss::LoseAll,
            1 => PowerLoss::KeepAll,
            _ => PowerLoss::Random(random.next_u64()),
        };
        let what = format!("call {call}, {outcome:?}");
        let model = Model::reopen(disk.after_power_loss(outcome), options.clone(), rows.clone());
        model.check(&what);
        check(&model, &what);
        // The next one starts from what was left.
        model.checkpoint();
        model.check(&format!("{what}, next checkpoint"));
        model.disk.crash();
        drop(model);
        call += 1 + random.below(2);
    }
    assert!(call > 20, "{call} calls");
}

/// A database whose power went with `runs` runs, and sparse changes in the log.
fn crashed(seed: u64, runs: u8) -> (SimulatedDisk, Rows) {
    let mut model = Model::loaded(seed, options());
    for round in 2..2 + runs {
        model.change_sparsely(round);
        model.checkpoint();
    }
    model.change_sparsely(30);
    assert_eq!(model.runs().count, u64::from(runs));
    let Model { disk, database, table, rows } = model;
    disk.crash();
    drop((table, database));
    (disk.after_power_loss(PowerLoss::LoseAll), rows)
}

#[test]
fn a_read_only_open_reads_through_runs_and_writes_nothing() {
    let (disk, rows) = crashed(10, 2);
    let database = open(&disk, Options { mode: OpenMode::ReadOnly, ..options() });
    let table = database.table("t").unwrap();
    expect_rows(&database.snapshot(), &table, &rows, "read-only");
    assert_eq!(database.statistics().runs.count, 2);
    assert!(database.checkpoint().is_err());
    drop(table);
    database.close().unwrap();
    let model = Model::reopen(disk, options(), rows);
    model.check("opened for writing");
}

/// A standby writes runs of its own, and keeps them when its machine loses power.
#[test]
fn a_standby_writes_runs_of_its_own() {
    let mut pair = Following::with(options());
    let table = pair.primary.create_table("t").unwrap();
    let mut rows = Rows::new();
    let mut put = |primary: &Database, number: u32, value: Vec<u8>| {
        primary.put(&table, key(number), &value).unwrap();
        rows.insert(key(number), value);
    };
    (0..LOADED).for_each(|number| put(&pair.primary, number, vec![1; 250]));
    pair.catch_up();
    pair.standby.standby().unwrap().checkpoint().unwrap();
    for round in 2..5_u8 {
        (0..SPARSE).for_each(|step| put(&pair.primary, step * 13, vec![round; 60]));
        pair.catch_up();
        let merged = pair.standby.standby().unwrap().checkpoint().unwrap();
        // With a row of another table, which the pair puts.
        assert!(merged.run_rows >= u64::from(SPARSE), "{merged:?}");
    }
    assert_eq!(pair.primary.statistics().runs.count, 0, "the primary has taken no checkpoint");
    for outcome in [PowerLoss::LoseAll, PowerLoss::KeepAll] {
        pair.restart_standby(outcome);
        pair.catch_up();
        assert_eq!(pair.standby.statistics().runs.count, 3);
        let table = pair.standby.table("t").unwrap();
        expect_rows(&pair.standby.snapshot(), &table, &rows, "a standby");
        check_clean(&pair.standby, "a standby");
    }
}

/// Any changes, checkpoints whenever the memtable is full; runs merged by their share, whenever there are three, or most of them into one.
#[test]
fn changes_through_runs_are_those_of_a_model() {
    for seed in seeds(4) {
        let options = options().with(|options| {
            options.memory.memtable_bytes = 64 << 10;
            options.checkpoint.chunk_bytes = 24 << 10;
            (options.checkpoint.runs.run_percent, options.checkpoint.runs.fan_in) =
                [(10, 16), (100, 16), (100, 2), (20, 3)][usize::try_from(seed % 4).unwrap()];
            options.checkpoint.runs.run_count = if options.checkpoint.runs.fan_in == 16 { 3 } else { 24 };
        });
        let mut random = SeededRandom::new(seed);
        let mut model = Model::loaded(seed, options.clone());
        let mut kept: Vec<(Snapshot, Rows)> = Vec::new();
        let (mut written, mut settled) = (0, 0);
        for round in 0..60_u32 {
            let what = format!("seed {seed}, round {round}");
            let runs_before = model.runs().count;
            change_randomly(&mut model, &mut random);
            written += u32::from(model.runs().count > runs_before);
            settled += u32::from(model.runs().count < runs_before);
            match random.below(12) {
                0 | 1 => kept.push((model.database.snapshot(), model.rows.clone())),
                2 if round > 30 => {
                    model.database.tables().truncate("t").unwrap();
                    model.rows.clear();
                    // As many as before, so that there are leaves to be sparse in.
                    for number in 0..LOADED / 2 {
                        model.put(number * 2, vec![9; 150]);
                    }
                }
                3 => {
                    kept.clear();
                    model = model.lose_power(options.clone());
                }
                4 => {
                    kept.clear();
                    let Model { disk, database, table, rows } = model;
                    drop(table);
                    database.close().unwrap();
                    model = Model::reopen(disk, options.clone(), rows);
                }
                5 | 6 => drop(model.checkpoint()),
                _ => {}
            }
            if kept.len() > 3 {
                kept.remove(usize::try_from(random.below(3)).unwrap());
            }
            for (snapshot, rows) in &kept {
                expect_rows(snapshot, &model.table, rows, &format!("{what}, older"));
            }
            if round % 5 == 0 {
                model.check(&what);
            }
        }
        kept.clear();
        model.check(&format!("seed {seed}, at the end"));
        assert!(written > 0 && settled > 0, "seed {seed}: {written} written, {settled} settled");
    }
}

fn change_randomly(model: &mut Model, random: &mut SeededRandom) {
    let count = random.below(250);
    let hot = random.below(u64::from(LOADED));
    let is_hot = random.chance(1, 4);
    let mut transaction = model.database.begin();
    for _ in 0..count {
        let below = |random: &mut SeededRandom, end: u64| u32::try_from(random.below(end)).unwrap();
        let number = if is_hot {
            u32::try_from(hot).unwrap() + below(random, 60)
        } else {
            below(random, u64::from(LOADED))
        };
        if random.chance(1, 4) {
            transaction.delete(&model.table, key(number)).unwrap();
            model.rows.remove(&key(number));
            continue;
        }
        let length = match random.below(60) {
            0 => 4_000 + random.below(4_000),
            _ => random.below(120),
        };
        let value = random.bytes(usize::try_from(length).unwrap());
        transaction.put(&model.table, key(number), &value).unwrap();
        model.rows.insert(key(number), value);
    }
    transaction.commit().unwrap();
}
