//! Checkpoints write sparse changes as sorted runs, and readers see no difference. A test for each of the rules in the engine's module
//! `runs`, named `r1` to `r6`.
#![expect(clippy::unwrap_used, reason = "a test that fails panics")]

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use seawall_crash_harness as harness;
use seawall_engine::{
    Background, CheckpointStatistics, Database, Durability, Environment, Error, OpenMode, Options,
    PublishStatistics, RunOptions, RunStatistics, Snapshot, Table,
};
use seawall_simulation::{PowerLoss, SeededRandom, SimulatedClock, SimulatedDisk, SimulatedRandom, seeds};
use seawall_testing::wait_until;

use common::following::Following;
use harness::everywhere;
use harness::progress::Progress;
use harness::session::{Session, Step};
use harness::state::{Change, State};
use harness::watched_disk::WatchedDisk;

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

/// The snapshot shows these rows: by scans both ways, and one by one.
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

#[test]
fn r1_a_younger_run_hides_an_older_one() {
    let mut model = Model::loaded(2, options());
    for round in 2..7 {
        model.change_sparsely(round);
        // In each of them, and deleted in one.
        if round == 4 {
            model.delete(77)
        } else {
            model.put(77, vec![round; 10])
        }
        assert!(model.checkpoint().run_rows > 0);
        assert_eq!(model.runs().count, u64::from(round) - 1);
        model.check(&format!("round {round}"));
    }
    let model = model.lose_power(options());
    assert_eq!(model.runs().count, 5);
    model.check("after a power loss");
}

#[test]
fn r2_nothing_is_merged_in_place_below_a_run() {
    let mut model = Model::loaded(3, options());
    model.change_sparsely(2);
    model.checkpoint();
    // Few rows, which would go directly if they were not in a run.
    (0..10).for_each(|step| model.put(step * 13 + 6, vec![3; 40]));
    assert_eq!((model.checkpoint().run_rows, model.runs().count), (10, 2));
    model.check("few");
    // All of them, which is dense.
    (0..LOADED).for_each(|number| model.put(number, vec![4; 200]));
    let dense = model.checkpoint();
    assert!(dense.run_rows > 0, "{dense:?}");
    model.check("dense");
    // Where runs are gone, it is direct again.
    let model = model.lose_power(without_runs());
    model.checkpoint();
    assert_eq!(model.runs().count, 0);
    model.check("settled");
}

#[test]
fn r3_a_snapshot_sees_the_same_before_and_after_each_merge() {
    let two = options().with(|options| options.checkpoint.runs.run_count = 2);
    let mut model = Model::loaded(4, two.clone());
    let mut kept = Vec::new();
    for round in 2..12_u8 {
        model.change_sparsely(round);
        if round % 3 != 0 {
            kept.push((model.database.snapshot(), model.rows.clone(), round));
        }
        // Some changes that the snapshot does not see are in the run, too.
        (0..20).for_each(|step| model.put(step * 90, vec![round; 30]));
        model.checkpoint();
        for (snapshot, rows, taken) in &kept {
            expect_rows(snapshot, &model.table, rows, &format!("round {round}, of {taken}"));
        }
        if round % 4 == 0 {
            kept.remove(0);
        }
        model.check(&format!("round {round}"));
    }
    assert!(model.runs().count > 2, "runs that a snapshot is older than stay: {:?}", model.runs());
    kept.clear();
    model.change_sparsely(20);
    model.checkpoint();
    assert_eq!(model.runs().count, 1, "all of them were merged, and then one was written");
    model.check("without snapshots");
    let mut model = model.lose_power(two);
    model.change_sparsely(21);
    model.checkpoint();
    model.check("after a power loss");
}

#[test]
fn runs_of_a_size_become_one_and_no_reader_sees_a_difference() {
    let options = options().with(|options| {
        options.checkpoint.runs.fan_in = 4;
        // So that it takes several slices.
        options.checkpoint.chunk_bytes = 16 << 10;
    });
    let mut model = Model::loaded(12, options.clone());
    let (mut most, mut kept) = (0, Vec::new());
    for round in 2..30 {
        model.change_sparsely(round);
        let written = model.checkpoint();
        assert!(written.run_rows > 0, "{written:?}");
        most = most.max(model.runs().count);
        let what = format!("round {round}");
        model.check(&what);
        for (snapshot, rows) in &kept {
            expect_rows(snapshot, &model.table, rows, &what);
        }
        if round % 5 == 0 {
            kept.push((model.database.snapshot(), model.rows.clone()));
        }
        if kept.len() == 3 {
            kept.remove(0);
        }
        if round == 13 {
            model = {
                kept.clear();
                model.lose_power(options.clone())
            };
            model.check("opened again");
        }
    }
    assert!((4..20).contains(&most), "{most} runs");
    let fewer = model.runs().count;
    kept.clear();
    let model = model.lose_power(without_runs());
    model.checkpoint();
    assert_eq!(model.runs().count, 0, "{fewer} before");
    model.check("settled");
}

/// At as many runs as there should be, neighbours become one, and none goes into the main part: that would take long.
#[test]
fn runs_stay_below_their_number_though_none_are_of_a_size() {
    let options = options().with(|options| options.checkpoint.runs.run_count = 4);
    let mut model = Model::loaded(14, options.clone());
    for round in 2..20 {
        model.change_sparsely(round);
        assert!(model.checkpoint().run_rows > 0);
        assert!(model.runs().count < 4, "{:?}", model.runs());
    }
    let runs = model.runs();
    assert!(runs.tier_slices > 3 && runs.tier_bytes > 0 && runs.windows == 0, "{runs:?}");
    model.check("few runs");
    let model = model.lose_power(options);
    assert!((1..4).contains(&model.runs().count));
    model.check("after a power loss");
}

#[test]
fn runs_are_listed_with_what_they_have_left() {
    let mut model = Model::loaded(15, options());
    assert_eq!(model.database.runs().unwrap(), []);
    for round in 2..5 {
        model.change_sparsely(round);
        model.checkpoint();
    }
    let runs = model.database.runs().unwrap();
    assert_eq!(runs.len(), 3);
    assert!(runs.is_sorted_by(|newer, older| newer.number > older.number && newer.start == older.end));
    for run in &runs {
        assert_eq!((run.level, run.rows), (0, u64::from(SPARSE)), "{run:?}");
        assert!(run.deletions > 0 && run.deletions < run.rows && run.filter_bytes > 0, "{run:?}");
        // A page that begins before the first row of a run may hold some.
        assert!(run.leaves_left >= run.leaves && run.leaves_left <= run.leaves + 1, "{run:?}");
    }
    let of_two = options().with(|options| options.checkpoint.runs.fan_in = 2);
    let model = model.lose_power(of_two);
    model.checkpoint();
    let merged = model.database.runs().unwrap();
    assert!(merged.len() < 3 && merged.iter().any(|run| run.level > 0), "{merged:?}");
    let model = model.lose_power(without_runs());
    model.checkpoint();
    assert_eq!(model.database.runs().unwrap(), []);
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
fn r4_a_run_is_listed_with_the_redo_point() {
    let (base, rows) = crashed(5, 1);
    let before = {
        let model = Model::reopen(base.copy(), options(), rows.clone());
        let redo_point = model.database.statistics().checkpoints.redo_point;
        model.disk.crash();
        redo_point
    };
    let (mut with, mut without) = (0, 0);
    crash_everywhere(&base, &rows, &options(), |model, what| {
        let statistics = model.database.statistics();
        if statistics.checkpoints.redo_point == before {
            assert_eq!(statistics.runs.count, 1, "{what}");
            without += 1;
        } else {
            assert_eq!(statistics.runs.count, 2, "{what}");
            with += 1;
        }
    });
    assert!(with > 0 && without > 5, "{with} with the run, {without} without it");
}

#[test]
fn r5_a_crash_between_leaves_equal_copies() {
    let (base, rows) = crashed(6, 3);
    let mut counts = [0; 5];
    crash_everywhere(&base, &rows, &without_runs(), |model, _| {
        counts[usize::try_from(model.runs().count).unwrap()] += 1;
    });
    // Before; with one more, for rows that older runs have, too; after their merge.
    assert!(counts[3] > 5 && counts[4] > 0 && counts[0] > 0, "{counts:?}");
}

#[test]
fn r6_loads_go_where_no_run_has_a_row() {
    let mut model = Model::loaded(7, options());
    let load_rows = |name: &str, model: &Model, sorted: bool| {
        let mut load = model.database.tables().bulk_load(name).unwrap();
        for number in 0..600_u32 {
            let number = if sorted { number } else { (number * 7) % 600 };
            load.add(key(number), vec![5; 100]).unwrap();
        }
        load
    };
    // Begun before the run is written, and ended after it.
    let mut first = load_rows("first", &model, true);
    let mut second = load_rows("second", &model, false);
    model.change_sparsely(2);
    assert!(model.checkpoint().run_rows > 0);
    let loaded = [first.finish().unwrap(), second.finish().unwrap()];
    let all: Rows = (0..600).map(|number| (key(number), vec![5; 100])).collect();
    for table in &loaded {
        expect_rows(&model.database.snapshot(), table, &all, table.name());
    }
    // Rows of these tables in runs, and then in a new storage.
    for step in 0..100 {
        for table in &loaded {
            model.database.put(table, key(step * 6), "changed").unwrap();
        }
    }
    model.change_sparsely(3);
    assert!(model.checkpoint().run_rows > 200);
    model.database.tables().truncate("first").unwrap();
    model.database.put(&loaded[0], "after", "it").unwrap();
    model.database.tables().drop("second").unwrap();
    let mut again = load_rows("second", &model, true);
    model.checkpoint();
    let again = again.finish().unwrap();
    expect_rows(&model.database.snapshot(), &again, &all, "second, again");
    model.checkpoint();
    let first = model.database.table("first").unwrap();
    assert_eq!(model.database.snapshot().rows(&first).count(), 1);
    model.check("at the end");
}

/// The disk is full from some moment of a checkpoint on. Nothing is lost, and the next checkpoint works.
#[test]
fn a_full_disk_loses_nothing_in_any_step() {
    for (seed, runs, options, step) in [(8, 1, options(), 4 << 10), (9, 3, without_runs(), 32 << 10)] {
        let (base, rows) = crashed(seed, runs);
        let (mut room, mut failed, mut is_done) = (0, 0, false);
        while !is_done {
            let what = format!("seed {seed}, {room} bytes of room");
            let model = Model::reopen(base.copy(), options.clone(), rows.clone());
            model.disk.set_capacity(Some(model.disk.allocated_bytes() + room));
            match model.database.checkpoint() {
                // Without runs, the merges of those that are there come after the checkpoint.
                Ok(_) => is_done = options.checkpoint.runs.run_percent > 0 || model.runs().count == 0,
                Err(Error::DiskFull { .. }) => failed += 1,
                Err(error) => panic!("{what}: {error:?}"),
            }
            model.check(&what);
            model.disk.set_capacity(None);
            model.checkpoint();
            model.check(&format!("{what}, then enough"));
            assert_eq!(model.runs().count > 0, options.checkpoint.runs.run_percent > 0, "{what}");
            let model = model.lose_power(options.clone());
            model.check(&format!("{what}, opened again"));
            model.disk.crash();
            room += step;
        }
        assert!(failed > 0, "seed {seed}: {failed} failed");
    }
}

/// The power goes in any call of a merge of runs.
#[test]
fn a_merge_of_runs_may_be_cut_short_anywhere() {
    let (base, rows) = crashed(13, 3);
    let options = options().with(|options| {
        options.checkpoint.runs.fan_in = 2;
        options.checkpoint.chunk_bytes = 16 << 10;
    });
    let mut counts = [0; 6];
    crash_everywhere(&base, &rows, &options, |model, _| {
        counts[usize::try_from(model.runs().count).unwrap()] += 1;
    });
    // Before; with the new run; with the target beside its sources; after.
    assert!(counts[3] > 5 && counts[4] > 0 && counts[5] > 5 && counts[1] + counts[2] > 0, "{counts:?}");
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

/// The same, where a crash may come in any call: of commits, of checkpoints that write runs and merge them, and of opens.
#[test]
fn a_crash_in_any_call_with_runs_loses_nothing() {
    crash_in_any_call(RunOptions { run_percent: 10, fan_in: 2, run_count: 2, ..RunOptions::default() });
}

/// Where runs are seldom merged into the main part, and most become one.
#[test]
fn a_crash_in_any_call_with_runs_that_become_one_loses_nothing() {
    crash_in_any_call(RunOptions { run_percent: 100, fan_in: 2, ..RunOptions::default() });
}

fn crash_in_any_call(runs: RunOptions) {
    let options = harness::small_options().with(|options| {
        options.memory.memtable_bytes = 64 << 10;
        options.checkpoint.chunk_bytes = 16 << 10;
        options.checkpoint.runs = runs;
    });
    let (start, state) = loaded_for_crashes(&options);
    let progress = Progress::shared(state);
    let watched = WatchedDisk::new(start, Arc::clone(&progress));
    let mut steps = steps_for_crashes().into_iter();
    let (mut points, mut with_runs) = (0_u64, 0);
    let recovered = everywhere::watch_steps(
        watched,
        &options,
        progress,
        |_| steps.next(),
        |point| -> Result<(), String> {
            points += 1;
            let outcome = everywhere::outcome(point.index % 3, point.index);
            let runs = open_harness(&point.disk.after_power_loss(outcome), &options);
            with_runs += u64::from(runs > 0);
            everywhere::recover_point(&point, outcome, &options).map(drop)
        },
    );
    recovered.unwrap();
    assert!(points > 100 && with_runs > points / 4, "{points} calls, runs after {with_runs} of them");
}

/// How many runs a database has that a crash has left.
fn open_harness(disk: &SimulatedDisk, options: &Options) -> u64 {
    let database = harness::open(disk, options);
    let count = database.statistics().runs.count;
    disk.crash();
    count
}

fn loaded_for_crashes(options: &Options) -> (SimulatedDisk, Arc<State>) {
    let disk = harness::template(options);
    let progress = Progress::shared(Arc::default());
    let mut session = Session::closed(Arc::new(disk.clone()), options, Arc::clone(&progress));
    let rows = |count: u32| (0..count).map(|number| (key(number), Arc::from([1; 400]))).collect();
    for (table, count) in [("a", 900), ("b", 200)] {
        session.run(&Step::BulkLoad { table: table.to_owned(), rows: rows(count), finished: true }).unwrap();
    }
    session.run(&Step::Checkpoint).unwrap();
    drop(session);
    let state = Arc::clone(progress.lock().current());
    (disk, state)
}

fn steps_for_crashes() -> Vec<Step> {
    let mut random = SeededRandom::new(11);
    let mut steps = Vec::new();
    for round in 0..5_u8 {
        let mut changes = Vec::new();
        for number in 0..90_u32 {
            let (table, key) = ("a".to_owned(), key(number * 10 + u32::from(round)));
            let length = if number == 40 { 6_000 } else { 30 };
            changes.push(match random.below(4) {
                0 => Change::Delete { table, key },
                _ => Change::Put { table, key, value: random.bytes(length).into() },
            });
        }
        if round < 2 {
            let value = Arc::from([round; 20]);
            changes.extend((0..20).map(|number| Change::Put {
                table: "b".to_owned(),
                key: key(number * 10),
                value: Arc::clone(&value),
            }));
        }
        steps.push(Step::Commit { changes, durability: Durability::Sync });
        let b = || "b".to_owned();
        let defined = match round {
            1 => vec![Change::Truncate { table: b() }],
            2 => vec![Change::Drop { table: b() }],
            _ => Vec::new(),
        };
        if !defined.is_empty() {
            steps.push(Step::Commit { changes: defined, durability: Durability::Sync });
        }
        // In doubt over two checkpoints that write runs.
        let (gid, durability) = ("d".to_owned(), Durability::Sync);
        if round == 1 {
            let value: Arc<[u8]> = Arc::from([7; 25]);
            let put = |number: u32| Change::Put {
                table: "a".to_owned(),
                key: key(number * 10 + 9),
                value: Arc::clone(&value),
            };
            steps.push(Step::Prepare { gid, changes: (0..80).map(put).collect(), durability });
        } else if round == 3 {
            steps.push(Step::Decide { gid, commits: true, durability });
        }
        steps.push(Step::Checkpoint);
        if round == 3 {
            steps.push(Step::Reopen);
        }
    }
    steps
}

/// With threads, the one of checkpoints merges runs: down to their share at once, and all of them when nothing has changed for an interval.
#[test]
fn a_thread_merges_runs_down_to_their_share_and_all_of_an_idle_database() {
    let clock = SimulatedClock::default();
    let hour = Duration::from_secs(3600);
    let options = options().with(|options| {
        options.background = Background::Threads;
        options.checkpoint.interval = hour;
        options.checkpoint.runs.run_percent = 5;
        options.recovery.target = None;
        options.publish_statistics = PublishStatistics::Never;
    });
    let disk = SimulatedDisk::new(12);
    let environment = Environment {
        disk: Arc::new(disk.clone()),
        clock: Arc::new(clock.clone()),
        random: Arc::new(SimulatedRandom::new(1)),
    };
    let database = Database::open(environment, options).unwrap();
    let mut model = Model::load(disk, database);
    for round in 2..8 {
        model.change_sparsely(round);
        assert!(model.checkpoint().run_rows > 0);
    }
    // A few of the windows, those with the most of runs.
    wait_until("a run to be merged to its end, or to have lost rows", || {
        let summary = model.database.check(&mut |damage| panic!("{damage}")).unwrap();
        summary.run_rows < 6 * u64::from(SPARSE)
    });
    model.check("while windows are merged");
    clock.advance(hour);
    wait_until("all runs to be merged", || model.runs().count == 0);
    model.check("without runs");
    let Model { database, table, .. } = model;
    drop(table);
    database.close().unwrap();
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
