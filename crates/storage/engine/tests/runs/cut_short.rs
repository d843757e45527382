//! Checkpoints and merges of runs that are cut short: by the power, in any call, or by a full disk.

use std::sync::Arc;

use seawall_crash_harness as harness;
use seawall_engine::{Durability, Error, Options, RunOptions};
use seawall_simulation::{SeededRandom, SimulatedDisk};

use super::{Model, crash_everywhere, crashed, key, options, without_runs};
use harness::everywhere;
use harness::progress::Progress;
use harness::session::{Session, Step};
use harness::state::{Change, State};
use harness::watched_disk::WatchedDisk;

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
