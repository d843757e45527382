//! The power goes: at every disk call of a workload that does everything, again during the recovery, and again during
//! that one's. What is found must be a prefix of the commit order that holds every acknowledged commit, each commit
//! whole; and the database must go on working. Random workloads and calls are in `crash_campaign`.
#![allow(clippy::unwrap_used, reason = "a test that fails panics")]

use std::sync::Arc;

use seawall::{Durability, ImageCompression};
use seawall_crash_harness::everywhere::{outcome, recover_point, state_of, watch, watch_recovery};
use seawall_crash_harness::progress::Progress;
use seawall_crash_harness::recover::{check_clean, find_state, go_on, recover};
use seawall_crash_harness::session::{Session, Step};
use seawall_crash_harness::state::State;
use seawall_crash_harness::{
    open, other_place, plan, plan_options, protected_options, small_options, template, wide_options,
    without_threads,
};
use seawall_simulation::{PowerLoss, SeededRandom, SimulatedDisk, crash_count};
use seawall_torture::crashes::{Effort, run_workloads};

fn crash_everywhere(number: u64) {
    let options = protected_options(number);
    let mut points = 0;
    watch(&template(&options), &options, &plan::thorough(), |point| {
        points += 1;
        recover_point(&point, outcome(number, point.index), &other_place(&options)).map(drop)
    })
    .unwrap();
    println!("{points} crash points");
    assert!(points > 400, "{points} disk calls: the plan does not do much");
}

#[test]
fn a_crash_at_any_call_that_loses_all_unsynced_writes() {
    crash_everywhere(0);
}

#[test]
fn a_crash_at_any_call_that_keeps_all_unsynced_writes() {
    crash_everywhere(1);
}

#[test]
fn a_crash_at_any_call_that_tears_unsynced_writes_one() {
    crash_everywhere(2);
}

#[test]
fn a_crash_at_any_call_that_tears_unsynced_writes_two() {
    crash_everywhere(3);
}

#[test]
fn a_crash_at_any_call_that_tears_unsynced_writes_three() {
    let campaign = crash_count(1000).div_ceil(1000);
    (4..4 + campaign).for_each(crash_everywhere);
}

/// As with the default options: several threads, and chunks of which each writes regions of more than a mebibyte.
fn crash_in_large_chunks(checkpoint_threads: usize, outcomes: [u64; 2]) {
    let compression = ImageCompression::None;
    let mut options = small_options();
    options.checkpoint.page_image_compression = compression;
    options.checkpoint.threads = checkpoint_threads;
    let options = wide_options(options);
    let start = template(&options);
    let mut points = 0;
    watch(&start, &options, &plan::wide(), |point| {
        points += 1;
        // All calls for a chunk, and some of a load's and the log's many others.
        if !point.call.contains("recovery/") && !point.call.contains("pages") && point.index % 10 != 0 {
            return Ok(());
        }
        let recovering = without_threads(&options);
        outcomes
            .into_iter()
            .try_for_each(|number| recover_point(&point, outcome(number, point.index), &recovering).map(drop))
    })
    .unwrap();
    println!("{points} crash points");
    assert!(points > 60, "{points} disk calls: the plan does not do much");
}

#[test]
fn a_crash_at_any_call_of_large_chunks_that_one_thread_writes() {
    crash_in_large_chunks(1, [0, 2]);
}

#[test]
fn a_crash_at_any_call_of_large_chunks_that_several_threads_write() {
    crash_in_large_chunks(3, [0, 3]);
}

#[test]
fn a_crash_at_any_call_of_a_creation() {
    let options = small_options();
    let step = plan::thorough().swap_remove(0);
    let mut points = 0;
    watch(&SimulatedDisk::new(1), &options, &[step, Step::Checkpoint], |point| {
        points += 1;
        (0..8).try_for_each(|number| recover_point(&point, outcome(number, point.index), &options).map(drop))
    })
    .unwrap();
    println!("{points} crash points, 8 outcomes each");
    assert!(points > 40, "{points} disk calls: a creation does not do much");
}

#[test]
fn the_plan_does_everything_once() {
    let options = plan_options();
    let disk = template(&options);
    let progress = Progress::shared(Arc::default());
    let mut session = Session::open(Arc::new(disk.clone()), &options, progress).unwrap();
    let (mut deepest, mut shrunk, mut reclaimed, mut recycled, mut removed) = (0, false, 0, 0, 0);
    for step in plan::thorough() {
        let before = session.database().unwrap().statistics();
        session.run(&step).unwrap();
        let depth = check_clean(session.database().unwrap()).depth;
        shrunk |= depth < deepest;
        deepest = deepest.max(depth);
        let statistics = session.database().unwrap().statistics();
        if matches!(step, Step::Checkpoint) {
            reclaimed += statistics.checkpoints.last.unwrap().tables_reclaimed;
            recycled += statistics.segments.recycled - before.segments.recycled;
            removed += statistics.segments.removed - before.segments.removed;
        }
    }
    println!(
        "{} calls, depth {deepest}, {reclaimed} reclaimed, {recycled} recycled, {removed} removed",
        disk.calls()
    );
    assert!(deepest >= 3 && shrunk, "depth {deepest}, and it shrank: {shrunk}");
    assert!(reclaimed >= 4 && recycled >= 2 && removed >= 2, "{reclaimed} {recycled} {removed}");
}

/// Crashes in every `stride`-th call of the plan, from the `first` on, and in every call of the recovery.
fn crash_twice(first: u64, stride: u64) {
    let options = protected_options(first);
    let next = other_place(&options);
    let mut states = 0;
    watch(&template(&options), &options, &plan::thorough(), |point| {
        if point.index % stride != first {
            return Ok(());
        }
        let disk = point.disk.after_power_loss(PowerLoss::Random(point.index));
        let state = state_of(&disk, &point.candidates, &options)?;
        watch_recovery(&disk, &[state], &next, |second| {
            states += 1;
            recover_point(&second, outcome(second.index % 5, point.index), &options).map(drop)
        })
    })
    .unwrap();
    println!("{states} states after two crashes");
    assert!(states > 800, "{states} states: recoveries do not do much");
}

#[test]
fn a_crash_in_the_recovery_from_a_crash_one() {
    crash_twice(0, 26);
}

#[test]
fn a_crash_in_the_recovery_from_a_crash_two() {
    crash_twice(13, 26);
}

#[test]
fn a_third_crash_in_the_recovery_from_two() {
    let options = protected_options(3);
    let mut states = 0;
    watch(&template(&options), &options, &plan::thorough(), |point| {
        if point.index % 150 != 75 {
            return Ok(());
        }
        let disk = point.disk.after_power_loss(PowerLoss::Random(point.index));
        let state = state_of(&disk, &point.candidates, &options)?;
        watch_recovery(&disk, &[state], &options, |second| {
            if second.index % 7 != 3 {
                return Ok(());
            }
            let disk = second.disk.after_power_loss(PowerLoss::Random(second.index));
            let state = state_of(&disk, &second.candidates, &options)?;
            watch_recovery(&disk, &[state], &options, |third| {
                states += 1;
                recover_point(&third, outcome(third.index % 5, second.index), &options).map(drop)
            })
        })
    })
    .unwrap();
    println!("{states} states after three crashes");
    assert!(states > 1_500, "{states} states: recoveries do not do much");
}

/// The process is killed in a call, and what it wrote is in the system's cache; the next one reads it there, every
/// `Async` commit that was acknowledged included. The power goes after the next process has committed once.
#[test]
fn a_killed_process_at_any_call_and_a_power_loss_soon_after() {
    let options = plan_options();
    let mut points = 0;
    watch(&template(&options), &options, &plan::thorough(), |point| {
        points += 1;
        let place = format!("killed in call {} ({})", point.index, point.call);
        let disk = point.disk.copy();
        let database = open(&disk, &options);
        let found = find_state(&database, &point.survivors).map_err(|error| format!("{place}: {error}"))?;
        check_clean(&database);
        let mut next = State::clone(&found);
        database.create_table("killed").unwrap();
        next.tables.insert("killed".to_owned(), Arc::default());
        let crashed = disk.after_power_loss(outcome(point.index % 3, point.index));
        disk.crash();
        drop(database);
        recover(&crashed, &[Arc::new(next)], &options).map_err(|error| format!("{place}: {error}")).map(drop)
    })
    .unwrap();
    println!("{points} calls");
    assert!(points > 400, "{points} disk calls: the plan does not do much");
}

/// As before, but the power goes in every call of the next process's recovery.
fn kill_and_crash(first: u64, stride: u64) {
    let options = protected_options(first);
    let mut states = 0;
    watch(&template(&options), &options, &plan::thorough(), |point| {
        if point.index % stride != first {
            return Ok(());
        }
        watch_recovery(&point.disk.copy(), &point.candidates, &options, |second| {
            states += 1;
            [0, 2 + second.index % 5].into_iter().try_for_each(|number| {
                recover_point(&second, outcome(number, point.index), &options)
                    .map_err(|reason| format!("killed in call {} ({}), {reason}", point.index, point.call))
                    .map(drop)
            })
        })
    })
    .unwrap();
    println!("{states} crash points after a kill");
    assert!(states > 1_200, "{states} crash points: recoveries do not do much");
}

#[test]
fn a_killed_process_and_a_power_loss_in_the_recovery_one() {
    kill_and_crash(3, 18);
}

#[test]
fn a_killed_process_and_a_power_loss_in_the_recovery_two() {
    kill_and_crash(12, 18);
}

/// What a commit is acknowledged in must have a name that the power cannot take.
#[test]
fn a_killed_creation_and_a_power_loss_after_the_first_commit() {
    let options = small_options();
    let mut points = 0;
    watch(&SimulatedDisk::new(1), &options, &[Step::Flush], |point| {
        points += 1;
        let disk = point.disk.copy();
        let database = open(&disk, &options);
        database.create_table("first").unwrap();
        let mut state = State::default();
        state.tables.insert("first".to_owned(), Arc::default());
        let crashed = disk.after_power_loss(PowerLoss::LoseAll);
        disk.crash();
        drop(database);
        recover(&crashed, &[Arc::new(state)], &options)
            .map_err(|reason| format!("killed in call {} ({}): {reason}", point.index, point.call))
            .map(drop)
    })
    .unwrap();
    println!("{points} calls of a creation");
    assert!(points > 20, "{points} disk calls: a creation does not do much");
}

/// A log longer than the memory for it is merged into the tree in parts while it is replayed: a crash or a kill in the
/// middle of that.
#[test]
fn a_crash_in_a_recovery_that_merges_parts() {
    let mut options = small_options();
    options.memory.memtable_bytes = 4 << 20;
    options.checkpoint.log_bytes = 4 << 20;
    let mut little_memory = options.clone();
    little_memory.memory.memtable_bytes = 64 << 10;
    little_memory.memory.cache_bytes = 64 << 10;
    let mut steps = vec![plan::thorough().swap_remove(0)];
    let mut random = SeededRandom::new(3);
    let mut puts = (0..24).map(|number| plan::put_random(&mut random, "small", number, 25_000)).peekable();
    while puts.peek().is_some() {
        let durability = if puts.len() % 4 == 1 { Durability::Sync } else { Durability::Async };
        steps.push(Step::Commit { changes: puts.by_ref().take(2).collect(), durability });
    }
    let (mut states, mut merges) = (0, 0);
    watch(&template(&options), &options, &steps, |point| {
        if !point.call.contains("write and sync log/") || point.index % 3 != 0 {
            return Ok(());
        }
        for disk in [point.disk.copy(), point.disk.after_power_loss(PowerLoss::Random(point.index))] {
            let copy = disk.copy();
            merges += open(&copy, &little_memory).statistics().recovery.merges;
            copy.crash();
            watch_recovery(&disk, &point.candidates, &little_memory, |second| {
                states += 1;
                [0, 2 + second.index % 5].into_iter().try_for_each(|number| {
                    recover_point(&second, outcome(number, point.index), &little_memory).map(drop)
                })
            })?;
        }
        Ok(())
    })
    .unwrap();
    println!("{states} crash points in recoveries with {merges} merges");
    assert!(merges > 8 && states > 300, "{merges} {states}");
}

#[test]
fn a_database_that_recovered_reclaims_what_a_crash_left() {
    // `go_on` counts the rows in the tree: an abandoned load and a dropped table leave none.
    let options = small_options();
    let disk = template(&options);
    let database = open(&disk, &options);
    database.create_table("dropped").unwrap();
    let table = database.table("dropped").unwrap();
    for key in 0..200_u32 {
        database.put(&table, key.to_be_bytes(), [1; 200]).unwrap();
    }
    database.checkpoint().unwrap();
    let mut load = database.tables().bulk_load("abandoned").unwrap();
    (0..200_u32).for_each(|key| load.add(key.to_be_bytes(), [2; 200]).unwrap());
    database.tables().drop("dropped").unwrap();
    let crashed = disk.after_power_loss(PowerLoss::Random(3));
    let database = open(&crashed, &options);
    go_on(&database, &Arc::default()).unwrap();
}

/// Each commit of definitions whole or not at all, no table's rows under another name, nothing left of dropped ones.
#[test]
fn a_crash_at_any_call_while_tables_are_defined() {
    for number in 0..4 {
        let options = protected_options(number);
        let mut points = 0;
        watch(&template(&options), &options, &plan::definitions(), |point| {
            points += 1;
            recover_point(&point, outcome(number, point.index), &other_place(&options)).map(drop)
        })
        .unwrap();
        println!("{points} crash points");
        assert!(points > 200, "{points} disk calls: the plan does not do much");
    }
}

#[test]
fn a_crash_in_the_recovery_of_definitions() {
    for first in [2, 5, 11] {
        let options = protected_options(first);
        let mut states = 0;
        watch(&template(&options), &options, &plan::definitions(), |point| {
            if point.index % 17 != first {
                return Ok(());
            }
            let disk = point.disk.after_power_loss(PowerLoss::Random(point.index));
            let state = state_of(&disk, &point.candidates, &options)?;
            watch_recovery(&disk, &[state], &other_place(&options), |second| {
                states += 1;
                recover_point(&second, outcome(second.index % 5, point.index), &options).map(drop)
            })
        })
        .unwrap();
        println!("{states} states after two crashes");
        assert!(states > 100, "{states} states: recoveries do not do much");
    }
}

/// Crashes at some calls of each kind, all states that they may leave or a sample, crashes in the recoveries, and in these.
#[test]
fn every_state_that_a_power_loss_may_leave_is_recovered_from_three_crashes_deep() {
    let effort = Effort { points: 12, states: 64, depth: 3, lose_syncs: None };
    let (findings, tried) = run_workloads(1..7, &effort);
    findings.iter().for_each(|finding| eprintln!("{finding}"));
    assert!(findings.is_empty(), "{} workloads went wrong", findings.len());
    let tried = |what: &str| tried.get(what).copied().unwrap_or(0);
    assert!(tried("crash points with every state, torn at 512 bytes") > 20);
    assert!(tried("states after a crash") > 1_000);
    assert!(tried("states after a crash in a recovery") > 200);
    assert!(tried("states after a crash in a recovery from a crash in a recovery") > 100);
}

/// Otherwise it could find nothing.
#[test]
fn a_disk_that_lies_about_syncs_is_found_out() {
    let effort = Effort { points: 20, states: 32, depth: 1, lose_syncs: Some(3) };
    let (findings, _) = run_workloads(1..4, &effort);
    assert_eq!(findings.len(), 3);
    assert!(findings[0].repeat.contains("--lose-syncs 3"), "{}", findings[0]);
    for evidence in findings.into_iter().filter_map(|finding| finding.evidence) {
        std::fs::remove_dir_all(evidence).unwrap();
    }
}
