//! Restores that are cut short, and run again.
//!
//! Invariants: what comes out is what a restore in one go gives; what is durable is not fetched again; a directory in which something
//! else was being restored is not touched.
#![allow(clippy::unwrap_used, reason = "a test that fails panics")]

mod common;

use common::{State, World, examine, state_of};
use seawall_archive::System;
use seawall_backup::{BackupError, BackupOptions, RestoreReport, RestoreRequest};
use seawall_engine::{Database, Error, RestoreTarget};
use seawall_io::Disk;
use seawall_simulation::{PowerLoss, SimulatedDisk, crash_step};

const ROWS: u32 = 600;

fn put(database: &Database, keys: impl Iterator<Item = u32>, value: &[u8]) {
    let table = database.table("t").unwrap();
    for key in keys {
        database.put(&table, key.to_be_bytes(), value).unwrap();
    }
}

/// Two backups, the second one an increment that went on with one that was cut short, and log behind them.
fn story() -> (World, State) {
    let world = World::new();
    let database = world.open();
    database.create_table("t").unwrap();
    put(&database, 0..ROWS, &[1; 200]);
    database.checkpoint().unwrap();
    world.back_up(&database);
    let incremental = BackupOptions {
        is_incremental: true,
        run_bytes: 1_000,
        range_bytes: 1,
        threads: 1,
        progress_bytes: 2_000,
        ..BackupOptions::default()
    };
    put(&database, (0..ROWS).step_by(7), &[2; 200]);
    database.checkpoint().unwrap();
    world.refuse_backups_after(&database, 10);
    world.back_up_with(&database, &incremental, || {}).unwrap_err();
    world.store.clear_faults();
    put(&database, (0..ROWS).step_by(31), &[3; 200]);
    database.checkpoint().unwrap();
    let increment = world.back_up_with(&database, &incremental, || {}).unwrap();
    assert!(increment.manifest.parent.is_some() && increment.manifest.goes_on_with.is_some());
    put(&database, (0..ROWS).step_by(15), &[4; 5_000]);
    database.log().archive_now().unwrap();
    let state = state_of(&database);
    (world, state)
}

fn request() -> RestoreRequest {
    RestoreRequest { threads: 1, durable_bytes: 4_000, ..RestoreRequest::default() }
}

/// Bytes of backups and of the log that were read while `act` was at work.
fn reads<T>(world: &World, act: impl FnOnce() -> T) -> (T, u64, u64) {
    let system = world.repository().systems().unwrap()[0];
    world.store.reset_read_counts();
    let result = act();
    let bytes = |directory: &str| world.store.read_count(&format!("{system}/{directory}/")).bytes;
    (result, bytes("backups"), bytes("log"))
}

fn assert_restored(world: &World, disk: &SimulatedDisk, expected: &State, what: &str) {
    let database = world.open_restored(disk);
    assert!(state_of(&database) == *expected, "{what}: other rows");
    examine(&database);
}

/// A restore that the power cuts short at a call, unless it has ended before, and what is on the disk then.
fn cut_short(world: &World, request: &RestoreRequest, call: u64, outcome: PowerLoss) -> SimulatedDisk {
    let disk = SimulatedDisk::new(8);
    disk.crash_at(call);
    drop(world.restore_to(&disk, request));
    disk.after_power_loss(outcome)
}

#[test]
fn wherever_the_power_goes_the_same_again_ends_it_and_fetches_what_is_missing() {
    let (world, expected) = story();
    let whole = SimulatedDisk::new(8);
    let (report, all_runs, all_log) = reads(&world, || world.restore_to(&whole, &request()).unwrap());
    assert!(!report.went_on);
    assert_restored(&world, &whole, &expected, "in one go");
    let (calls, mut least_runs, mut least_log, mut went_on) = (whole.calls(), all_runs, all_log, 0);
    for call in (0..calls).step_by(crash_step(calls, 30)) {
        for outcome in [PowerLoss::LoseAll, PowerLoss::KeepAll, PowerLoss::Random(call)] {
            let what = format!("call {call} of {calls}, {outcome:?}");
            let left = cut_short(&world, &request(), call, outcome);
            if seawall_engine::check_restore_directory(&left).is_err() {
                // The marker was the last thing that it removed.
                assert_restored(&world, &left, &expected, &what);
                continue;
            }
            // Once more, a little later.
            left.crash_at(call / 3);
            let again = world.restore_to(&left, &request());
            let left = if again.is_ok() { left } else { left.after_power_loss(outcome) };
            let (again, runs, log) = reads(&world, || world.restore_to(&left, &request()));
            match again {
                Ok(report) => {
                    went_on += u64::from(report.went_on);
                    (least_runs, least_log) = (least_runs.min(runs), least_log.min(log));
                    assert!(
                        runs <= all_runs * 3 / 2,
                        "{what}: {runs} bytes of backups, {all_runs} in one go"
                    );
                }
                Err(BackupError::Database(Error::NotEmpty { .. })) => {}
                Err(error) => panic!("{what}: {error}"),
            }
            assert_restored(&world, &left, &expected, &what);
        }
    }
    println!(
        "{went_on} went on; bytes of backups {least_runs} of {all_runs}, of the log {least_log} of {all_log}"
    );
    assert!(went_on > 10 && least_runs < all_runs / 3 && least_log < all_log / 2);
}

#[test]
fn a_killed_restore_fetches_no_log_again_and_only_the_runs_behind_the_last_rows() {
    let (world, expected) = story();
    let whole = SimulatedDisk::new(8);
    let (report, all_runs, all_log) = reads(&world, || world.restore_to(&whole, &request()).unwrap());
    // Where half of the rows are there.
    let calls = whole.calls();
    let mut found = None;
    for call in (0..calls).step_by(5) {
        let left = cut_short(&world, &request(), call, PowerLoss::KeepAll);
        let (again, runs, log) = reads(&world, || world.restore_to(&left, &request()));
        let Ok(again) = again else { continue };
        let is_halfway = again.went_on && again.rows > report.rows / 3 && again.rows < report.rows * 2 / 3;
        if is_halfway {
            assert_restored(&world, &left, &expected, "halfway");
            found = Some((runs, log));
            break;
        }
    }
    let (runs, log) = found.unwrap();
    assert!(runs < all_runs, "{runs} bytes of backups, {all_runs} in one go");
    assert!(log < all_log / 2, "{log} bytes of the log, {all_log} in one go");
}

fn refused(world: &World, disk: &SimulatedDisk, request: &RestoreRequest) -> String {
    let before = disk.copy();
    let refused = world.restore_to(disk, request).unwrap_err();
    assert_eq!(disk.list_all(), before.list_all(), "it was touched");
    refused.to_string()
}

#[test]
fn what_was_asked_for_otherwise_is_refused_and_left_as_it_is() {
    let (world, expected) = story();
    let calls = {
        let whole = SimulatedDisk::new(8);
        world.restore_to(&whole, &request()).unwrap();
        whole.calls()
    };
    let left = cut_short(&world, &request(), calls / 2, PowerLoss::KeepAll);
    let RestoreReport { end, .. } = world.restore_to(&left.copy(), &request()).unwrap();
    let named = seawall_backup::backups(&world.repository(), database_of(&world)).unwrap().complete;
    for other in [
        RestoreRequest { target: RestoreTarget::Lsn(end.end), ..request() },
        RestoreRequest { target: RestoreTarget::RestorePoint("x".to_owned()), ..request() },
        RestoreRequest { backup: Some(named[0].id.clone()), ..request() },
        RestoreRequest { timeline: Some(seawall_types::TimelineId::FIRST), ..request() },
    ] {
        let problem = refused(&world, &left, &other);
        assert!(
            problem.contains("up to the end of the log") && problem.contains("remove the directory"),
            "{problem}"
        );
    }
    // Rot, or an editor.
    let damaged = left.copy();
    damaged.flip_bit("restoring", 150, 2);
    let problem = refused(&world, &damaged, &request());
    assert!(problem.contains("restoring") && problem.contains("remove the directory"), "{problem}");
    world.restore_to(&left, &request()).unwrap();
    assert_restored(&world, &left, &expected, "asked for the same");
}

fn database_of(world: &World) -> seawall_types::DatabaseId {
    seawall_backup::databases(&world.repository()).unwrap()[0]
}

#[test]
fn a_newer_backup_does_not_begin_it_anew_and_one_that_is_gone_does() {
    let (world, _) = story();
    let calls = {
        let whole = SimulatedDisk::new(8);
        world.restore_to(&whole, &request()).unwrap();
        whole.calls()
    };
    let left = cut_short(&world, &request(), calls / 2, PowerLoss::KeepAll);
    let other = left.copy();
    let begun = world.restore_to(&left.copy(), &request()).unwrap().backup;
    // The database goes on meanwhile, and there is more log.
    let database = world.open();
    put(&database, 0..30, &[9; 4_000]);
    database.checkpoint().unwrap();
    let newer = world.back_up(&database);
    database.log().archive_now().unwrap();
    let expected = state_of(&database);
    let report = world.restore_to(&left, &request()).unwrap();
    assert_eq!((report.backup, report.went_on), (begun.clone(), true));
    assert_restored(&world, &left, &expected, "up to a later end");
    let manifest = format!("{}/backups/{begun}/manifest", System::Seawall(database_of(&world)));
    world.store.remove(&manifest).unwrap();
    let report = world.restore_to(&other, &request()).unwrap();
    assert_eq!((report.backup, report.went_on), (newer.id, false));
    assert_restored(&world, &other, &expected, "from another backup");
}

#[test]
fn an_encrypted_one_goes_on_with_its_keys() {
    let world = World::encrypted();
    let database = world.open();
    database.create_table("t").unwrap();
    put(&database, 0..ROWS, &[1; 200]);
    database.checkpoint().unwrap();
    world.back_up(&database);
    put(&database, 0..60, &[2; 4_000]);
    database.log().archive_now().unwrap();
    let expected = state_of(&database);
    let whole = SimulatedDisk::new(8);
    world.restore_to(&whole, &request()).unwrap();
    let calls = whole.calls();
    for call in (0..calls).step_by(crash_step(calls, 12)) {
        let left = cut_short(&world, &request(), call, PowerLoss::Random(call));
        match world.restore_to(&left, &request()) {
            Ok(_) | Err(BackupError::Database(Error::NotEmpty { .. })) => {}
            Err(error) => panic!("call {call}: {error}"),
        }
        assert_restored(&world, &left, &expected, &format!("call {call}"));
    }
}

/// Checks that a restore is no database before it has ended.
#[test]
fn until_it_has_ended_nobody_opens_it() {
    let (world, _) = story();
    let whole = SimulatedDisk::new(8);
    world.restore_to(&whole, &request()).unwrap();
    let calls = whole.calls();
    for call in (calls / 10..calls - calls / 50).step_by(crash_step(calls, 10)) {
        let left = cut_short(&world, &request(), call, PowerLoss::KeepAll);
        let options = seawall_engine::Options { archives: Vec::new(), ..world.options() };
        let opened = Database::open(world.environment(&left), options);
        let is_refused = matches!(opened, Err(Error::Restoring { .. }));
        assert!(is_refused || seawall_engine::check_restore_directory(&left).is_err(), "call {call}");
    }
}

fn never() -> RestoreRequest {
    RestoreRequest { target: RestoreTarget::RestorePoint("never".to_owned()), ..request() }
}

#[test]
fn a_refused_attempt_removes_what_one_before_it_has_left() {
    let (world, expected) = story();
    let calls = {
        let whole = SimulatedDisk::new(8);
        world.restore_to(&whole, &never()).unwrap_err();
        whole.calls()
    };
    let mut left_marked = 0;
    for call in (0..calls).step_by(crash_step(calls, 20)) {
        let left = cut_short(&world, &never(), call, PowerLoss::KeepAll);
        left_marked += u32::from(matches!(seawall_engine::check_restore_directory(&left), Ok(Some(_))));
        world.restore_to(&left, &never()).unwrap_err();
        // What was meant.
        world.restore_to(&left, &request()).unwrap();
        assert_restored(&world, &left, &expected, &format!("call {call} of {calls}"));
    }
    assert!(left_marked > 0, "no attempt has left anything");
}

#[test]
fn a_restore_point_that_is_not_there_is_looked_for_in_the_log_once() {
    let (world, _) = story();
    let database = world.repository().systems().unwrap()[0];
    let System::Seawall(database) = database else { panic!("{database}") };
    let log_of = |backup: Option<String>| {
        let request = RestoreRequest { backup, ..never() };
        reads(&world, || world.restore_to(&SimulatedDisk::new(8), &request).unwrap_err()).2
    };
    let backups = seawall_backup::backups(&world.repository(), database).unwrap().complete;
    let each: u64 = backups.iter().map(|backup| log_of(Some(backup.id.clone()))).sum();
    let all = log_of(None);
    assert_eq!(backups.len(), 2);
    assert!(all < each * 9 / 10, "{all} bytes of log, {each} from each backup by itself");
}
