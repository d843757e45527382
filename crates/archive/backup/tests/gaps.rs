//! Gaps that the archive of a database opens on purpose: what a restore says, and the backup that is taken behind one.
//!
//! Invariant: whatever fails, a restore to the latest after the scheduler's backup gives the database.
#![allow(clippy::unwrap_used, reason = "a test that fails panics")]

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{SEGMENT_BYTES, World, state_of};
use seawall_backup::{
    BackupError, BackupOptions, BackupScheduler, Finding, RestoreRequest, SchedulerOptions, Severity,
    VerifyOptions, back_up_behind_gap, verify,
};
use seawall_engine::{
    ArchiveMode, ArchiveOptions, Database, Error, HoldLifetime, HoldOptions, Options, RestoreTarget,
};
use seawall_io::Clock;
use seawall_simulation::{Fault, FaultError, FaultTarget, Operations, PowerLoss, SimulatedDisk, crash_step};
use seawall_types::{Lsn, TimelineId};

fn options(world: &World) -> Options {
    let mut options = world.options();
    let archive = options.archives.remove(0);
    options.archives.push(ArchiveOptions { limit_bytes: Some(3 * SEGMENT_BYTES), ..archive });
    options
}

fn open(world: &World, options: Options) -> Result<Database, Error> {
    Database::open(world.environment(&world.disk), options)
}

/// Writes some segments of log.
fn fill(database: &Database, segments: u64) -> Result<Lsn, Error> {
    let table = match database.table("t") {
        Err(Error::NoSuchTable { .. }) => database.create_table("t")?,
        table => table?,
    };
    let until = database.statistics().log.appended.get() + segments * SEGMENT_BYTES;
    let mut key = database.statistics().log.appended.get();
    while database.statistics().log.appended.get() < until {
        database.put(&table, (key % 40).to_be_bytes(), [3; 8_000])?;
        key += 1;
    }
    Ok(database.statistics().log.appended)
}

/// The database writes more than its limit while the store is away: its archive does not run meanwhile.
fn lose_hold(database: &Database) -> Result<(), Error> {
    fill(database, 6)?;
    database.checkpoint()?;
    assert!(database.log().holds()?.iter().any(|hold| hold.lost_at.is_some()));
    Ok(())
}

fn left_out(world: &World, target: RestoreTarget) -> String {
    let refused = world.restore(target).map(|(_, report)| report);
    assert!(matches!(&refused, Err(BackupError::LeftOut { .. })), "{refused:?}");
    refused.unwrap_err().to_string()
}

fn keep(world: &World, database: &Database) -> Result<bool, BackupError> {
    world.clock.advance(Duration::from_secs(1));
    let clock: Arc<dyn Clock> = Arc::new(world.clock.clone());
    let id = database.info()?.database;
    let options = BackupOptions { threads: 1, ..BackupOptions::default() };
    Ok(back_up_behind_gap(database, id, &world.repository(), &clock, &options)?.is_some())
}

#[test]
fn a_restore_says_that_the_log_was_left_out_until_there_is_a_backup_behind_the_gap() {
    let world = World::new();
    let database = open(&world, options(&world)).unwrap();
    fill(&database, 2).unwrap();
    world.back_up(&database);
    assert!(!keep(&world, &database).unwrap(), "there is no gap");
    world.clock.advance(Duration::from_secs(60));
    let before_gap = fill(&database, 1).unwrap();
    let state = state_of(&database);
    database.log().create_restore_point("before").unwrap();
    let time = world.clock.wall_micros();
    world.clock.advance(Duration::from_secs(60));
    fill(&database, 1).unwrap();
    database.log().archive_now().unwrap();
    lose_hold(&database).unwrap();
    let inside = database.statistics().checkpoints.redo_point;
    let behind = fill(&database, 2).unwrap();
    database.log().archive_now().unwrap();

    for target in
        [RestoreTarget::Latest, RestoreTarget::Lsn(behind), RestoreTarget::Lsn(Lsn::new(inside.get() - 1))]
    {
        let problem = left_out(&world, target);
        assert!(problem.contains("on purpose") && problem.contains("limit of 196608 bytes"), "{problem}");
    }
    let late = RestoreTarget::Time(world.clock.wall_micros());
    assert!(left_out(&world, late).contains("on purpose"));
    assert!(left_out(&world, RestoreTarget::RestorePoint("none".to_owned())).contains("on purpose"));
    // What lies before it can be reached as ever.
    assert!(world.restored_state(RestoreTarget::Lsn(before_gap)) == state);
    assert!(world.restored_state(RestoreTarget::Time(time)) == state);
    assert!(world.restored_state(RestoreTarget::RestorePoint("before".to_owned())) == state);

    assert!(keep(&world, &database).unwrap());
    assert!(!keep(&world, &database).unwrap(), "one is enough");
    fill(&database, 1).unwrap();
    database.log().archive_now().unwrap();
    assert!(world.restored_state(RestoreTarget::Latest) == state_of(&database));
    assert!(world.restored_state(RestoreTarget::Lsn(before_gap)) == state);
}

/// The database is opened without its archive, whose hold is released, and goes on.
fn without_archive(world: &World, segments: u64) {
    let database = open(world, Options { archives: Vec::new(), ..options(world) }).unwrap();
    database.log().release_hold("archiver").unwrap();
    fill(&database, segments).unwrap();
    database.checkpoint().unwrap();
    database.close().unwrap();
}

#[test]
fn log_that_was_removed_while_the_archive_was_no_archive_is_a_gap_on_record() {
    let world = World::new();
    let database = open(&world, options(&world)).unwrap();
    fill(&database, 2).unwrap();
    world.back_up(&database);
    let archived = database.log().archive_now().unwrap();
    let state = state_of(&database);
    database.close().unwrap();
    without_archive(&world, 6);

    let database = open(&world, options(&world)).unwrap();
    fill(&database, 2).unwrap();
    // The store is away as long as this process lives.
    let target = FaultTarget::Path { prefix: String::new(), operations: Operations::Any };
    world.store.inject(Fault { target, error: FaultError::Number(5), skip: 0, count: u64::MAX });
    database.log().archive_now().unwrap_err();
    database.close().unwrap();
    world.store.clear_faults();
    let database = open(&world, options(&world)).unwrap();
    let end = fill(&database, 2).unwrap();
    database.log().archive_now().unwrap();
    let seen = database.statistics().archives.remove(0);
    let gap = seen.last_gap.unwrap();
    assert!(seen.gaps == 1 && gap.is_on_record && gap.from >= archived && gap.to > gap.from, "{gap:?}");
    for target in [RestoreTarget::Latest, RestoreTarget::Lsn(gap.to), RestoreTarget::Lsn(end)] {
        let problem = left_out(&world, target);
        assert!(problem.contains("is not here any more"), "{problem}");
    }
    assert!(world.restored_state(RestoreTarget::Lsn(archived)) == state);
    let report = verify_report(&world);
    assert!(report.iter().all(|finding| finding.kind.severity() == Severity::Note), "{report:?}");

    assert!(keep(&world, &database).unwrap(), "a backup is needed behind it");
    fill(&database, 1).unwrap();
    database.log().archive_now().unwrap();
    assert!(world.restored_state(RestoreTarget::Latest) == state_of(&database));
    assert!(world.restored_state(RestoreTarget::Lsn(archived)) == state);
    // Opened again, with nothing missing, there is no other gap.
    database.close().unwrap();
    let database = open(&world, options(&world)).unwrap();
    database.log().archive_now().unwrap();
    assert_eq!(database.statistics().archives[0].last_gap, None);
}

#[test]
fn log_that_is_still_here_goes_into_an_archive_that_lacks_it() {
    let world = World::new();
    let database = open(&world, options(&world)).unwrap();
    fill(&database, 2).unwrap();
    world.back_up(&database);
    database.log().archive_now().unwrap();
    let hold = database.log().hold(
        "a standby",
        HoldOptions { lifetime: HoldLifetime::Permanent, ..HoldOptions::default() },
        None,
    );
    drop(hold.unwrap());
    database.close().unwrap();
    without_archive(&world, 6);
    let database = open(&world, options(&world)).unwrap();
    database.log().archive_now().unwrap();
    assert_eq!(database.statistics().archives[0].last_gap, None);
    assert!(world.restored_state(RestoreTarget::Latest) == state_of(&database));
}

/// A database that is restored goes on behind what the repository has of the timeline that it left.
#[test]
fn a_restored_database_has_no_gap_where_its_timeline_begins() {
    let world = World::new();
    let database = open(&world, options(&world)).unwrap();
    let first = fill(&database, 2).unwrap();
    world.back_up(&database);
    let inside = fill(&database, 2).unwrap();
    fill(&database, 2).unwrap();
    database.log().archive_now().unwrap();
    for target in [RestoreTarget::Lsn(inside), RestoreTarget::Latest] {
        let timeline = Some(TimelineId::FIRST);
        let archive_mode = ArchiveMode::Preserve;
        let request = RestoreRequest { target, timeline, archive_mode, ..RestoreRequest::default() };
        let disk = SimulatedDisk::new(9);
        assert!(world.restore_to(&disk, &request).unwrap().end.end > first);
        let restored = world.open_at(&disk);
        fill(&restored, 2).unwrap();
        restored.log().archive_now().unwrap();
        assert_eq!(restored.statistics().archives[0].last_gap, None);
    }
}

fn verify_report(world: &World) -> Vec<Finding> {
    world.clock.advance(Duration::from_secs(3600));
    let mut findings = Vec::new();
    let options = VerifyOptions::default();
    verify(&world.repository(), &world.clock, &options, &mut |finding| findings.push(finding), &mut |_| ())
        .unwrap();
    findings
}

fn scheduler(world: &World, database: &Database) -> BackupScheduler {
    let clock: Arc<dyn Clock> = Arc::new(world.clock.clone());
    let options = SchedulerOptions {
        retry_first: Duration::from_millis(1),
        retry_last: Duration::from_millis(1),
        ..SchedulerOptions::default()
    };
    BackupScheduler::start(database, &world.repository(), &clock, options).unwrap()
}

#[test]
fn a_keeper_takes_a_full_backup_when_a_gap_is_opened_and_one_that_is_found_at_open() {
    let world = World::new();
    let database = open(&world, options(&world)).unwrap();
    fill(&database, 2).unwrap();
    database.log().archive_now().unwrap();
    {
        let scheduler = scheduler(&world, &database);
        lose_hold(&database).unwrap();
        database.log().archive_now().unwrap();
        let report = scheduler.wait(|report| report.backups > 0);
        assert_eq!((report.backups, report.failing), (1, None));
        assert_eq!(report.last.unwrap().manifest.parent, None);
        assert!(world.restored_state(RestoreTarget::Latest) == state_of(&database));
    }
    // Nobody keeps a watch.
    world.clock.advance(Duration::from_secs(1));
    lose_hold(&database).unwrap();
    database.log().archive_now().unwrap();
    database.close().unwrap();
    world.clock.advance(Duration::from_secs(1));
    let database = open(&world, options(&world)).unwrap();
    let scheduler = scheduler(&world, &database);
    assert_eq!(scheduler.wait(|report| report.backups > 0).backups, 1);
    assert!(world.restored_state(RestoreTarget::Latest) == state_of(&database));
    database.close().unwrap();
    assert!(scheduler.wait(|_| false).has_ended, "with the database");
}

#[test]
fn a_keeper_tries_again_while_the_store_fails() {
    let world = World::new();
    let database = open(&world, options(&world)).unwrap();
    fill(&database, 2).unwrap();
    database.log().archive_now().unwrap();
    lose_hold(&database).unwrap();
    database.log().archive_now().unwrap();
    let target = FaultTarget::Path { prefix: String::new(), operations: Operations::Writes };
    world.store.inject(Fault { target, error: FaultError::Number(5), skip: 0, count: 40 });
    let scheduler = scheduler(&world, &database);
    let report = scheduler.wait(|report| report.backups > 0);
    assert!(report.failures > 0 && report.failing.is_none(), "{report:?}");
    assert!(world.restored_state(RestoreTarget::Latest) == state_of(&database));
}

/// Goes on from a database whose hold is lost until a backup is behind the gap, or the power goes somewhere.
fn go_on(world: &World) -> Result<(), Box<dyn std::error::Error>> {
    world.clock.advance(Duration::from_secs(world.store.calls()));
    let database = open(world, options(world))?;
    database.log().archive_now()?;
    keep(world, &database)?;
    fill(&database, 1)?;
    database.log().archive_now()?;
    database.close()?;
    Ok(())
}

#[test]
fn whatever_loses_power_while_a_gap_is_opened_the_database_can_be_restored_afterwards() {
    let begin = World::new();
    let database = open(&begin, options(&begin)).unwrap();
    fill(&database, 2).unwrap();
    begin.back_up(&database);
    lose_hold(&database).unwrap();
    drop(database);
    let copy = || World { disk: begin.disk.copy(), store: begin.store.copy(), ..World::new() };
    let calm = copy();
    let (disk_from, store_from) = (calm.disk.calls(), calm.store.calls());
    go_on(&calm).unwrap();
    let of_disk = (disk_from..calm.disk.calls()).step_by(crash_step(calm.disk.calls() - disk_from, 12));
    let of_store = (store_from..calm.store.calls()).step_by(crash_step(calm.store.calls() - store_from, 12));
    for (call, is_store) in of_disk.map(|call| (call, false)).chain(of_store.map(|call| (call, true))) {
        let world = copy();
        if is_store {
            world.store.crash_at(call)
        } else {
            world.disk.crash_at(call)
        }
        let went_on = go_on(&world);
        assert!(went_on.is_ok() || world.disk.crashed() || world.store.crashed(), "{went_on:?}");
        for outcome in [PowerLoss::LoseAll, PowerLoss::KeepAll, PowerLoss::Random(call)] {
            let what = format!("call {call} of the {}, {outcome:?}", if is_store { "store" } else { "disk" });
            let store = if is_store { world.store.after_power_loss(outcome) } else { world.store.copy() };
            // Where the store has lost power, the machine had its power cut with it.
            let again = World { disk: world.disk.after_power_loss(outcome), store, ..World::new() };
            go_on(&again).unwrap_or_else(|error| panic!("{what}: {error}"));
            let database = open(&again, options(&again)).unwrap();
            database.log().archive_now().unwrap();
            assert!(again.restored_state(RestoreTarget::Latest) == state_of(&database), "{what}");
        }
    }
}
