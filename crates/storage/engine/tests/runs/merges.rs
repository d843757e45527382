//! Runs become one, and are merged into the main part.

use std::sync::Arc;
use std::time::Duration;

use seawall_engine::{Background, Database, Environment, PublishStatistics};
use seawall_simulation::{SimulatedClock, SimulatedDisk, SimulatedRandom};
use seawall_testing::wait_until;

use super::{Model, SPARSE, expect_rows, options, without_runs};

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
