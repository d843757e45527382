//! Which timeline a restore follows, and what keeps the copy of a trial out of production's history.
#![allow(clippy::unwrap_used, reason = "a test that fails panics")]

mod common;

use std::time::Duration;

use common::{State, World, state_of};
use seawall_archive::System;
use seawall_backup::{BackupError, RestoreReport, RestoreRequest, backups, databases, drill};
use seawall_engine::{ArchiveMode, Database, DatabaseDirectory, Error, OpenMode, Options, RestoreTarget};
use seawall_io::{Clock, Disk, OpenMode as FileMode};
use seawall_simulation::{PowerLoss, SimulatedDisk};
use seawall_types::TimelineId;

fn put(database: &Database, key: &str) {
    let table = database.table("t").or_else(|_| database.create_table("t")).unwrap();
    database.put(&table, key, "value").unwrap();
}

fn restore_copy(world: &World, target: RestoreTarget) -> (SimulatedDisk, RestoreReport) {
    let disk = SimulatedDisk::new(31);
    let request = RestoreRequest { target, ..RestoreRequest::default() };
    let report = world.restore_to(&disk, &request).unwrap();
    (disk, report)
}

fn restored_along(world: &World, target: RestoreTarget, timeline: Option<u32>) -> Result<State, BackupError> {
    let disk = SimulatedDisk::new(32);
    let timeline = timeline.and_then(TimelineId::new);
    let request = RestoreRequest { target, timeline, reserves_timeline: false, ..RestoreRequest::default() };
    world.restore_to(&disk, &request)?;
    Ok(state_of(&world.open_restored(&disk)))
}

/// All objects, but for the numbers of timelines that restores have reserved.
fn names(world: &World) -> Vec<String> {
    let names = world.store.list_all().into_iter().map(|entry| entry.name);
    names.filter(|name| !name.contains("/reserved/")).collect()
}

#[test]
fn what_is_restored_puts_nothing_into_a_repository_until_it_is_allowed() {
    let world = World::new();
    let database = world.open();
    put(&database, "before");
    world.back_up(&database);
    database.log().archive_now().unwrap();
    let before = names(&world);
    let (disk, _) = restore_copy(&world, RestoreTarget::Latest);
    let with_archives = || Database::open(world.environment(&disk), world.options());
    let refused = with_archives().unwrap_err();
    assert!(matches!(refused, Error::ArchivingOff { .. }), "{refused}");
    assert!(refused.to_string().contains("seawall archive-mode"), "{refused}");
    let copy = world.open_restored(&disk);
    put(&copy, "in the copy");
    let refused = world.back_up_while(&copy, 1000, || {});
    assert!(matches!(refused, Err(BackupError::Database(Error::ArchivingOff { .. }))), "{refused:?}");
    copy.close().unwrap();
    assert_eq!(names(&world), before, "nothing of the copy is there");

    DatabaseDirectory::at(world.environment(&disk)).allow_archiving().unwrap();
    // Once is enough, and a second time does no harm.
    DatabaseDirectory::at(world.environment(&disk)).allow_archiving().unwrap();
    let successor = with_archives().unwrap();
    successor.log().archive_now().unwrap();
    world.back_up(&successor);
    assert!(names(&world).len() > before.len());
}

#[test]
fn a_crash_while_a_restore_ends_leaves_no_database_that_archives() {
    let world = World::new();
    let database = world.open();
    put(&database, "before");
    world.back_up(&database);
    database.close().unwrap();
    let calls = {
        let (disk, _) = restore_copy(&world, RestoreTarget::Latest);
        disk.calls()
    };
    for call in calls.saturating_sub(60)..calls {
        let disk = SimulatedDisk::new(call);
        disk.crash_at(call);
        let ended = world.restore_to(&disk, &RestoreRequest::default());
        for outcome in [PowerLoss::LoseAll, PowerLoss::KeepAll, PowerLoss::Random(7)] {
            let left = disk.after_power_loss(outcome);
            let options = Options { mode: OpenMode::Existing, ..world.options() };
            let opened = Database::open(world.environment(&left), options);
            let refused = opened.expect_err("a copy archives");
            let is_refused = matches!(
                refused,
                Error::ArchivingOff { .. } | Error::Restoring { .. } | Error::NoDatabase { .. }
            );
            assert!(is_refused, "call {call} of {calls}, restored: {}: {refused}", ended.is_ok());
        }
    }
}

#[test]
fn the_copy_of_a_trial_that_archives_does_not_take_the_place_of_production() {
    let world = World::new();
    let database = world.open();
    put(&database, "before");
    world.back_up(&database);
    database.log().archive_now().unwrap();
    let (disk, _) = restore_copy(&world, RestoreTarget::Latest);
    DatabaseDirectory::at(world.environment(&disk)).allow_archiving().unwrap();
    let copy = world.open_at(&disk);
    put(&copy, "in the copy");
    copy.close().unwrap();
    world.clock.advance(Duration::from_secs(60));
    put(&database, "in production");
    database.log().archive_now().unwrap();
    let production = state_of(&database);

    // Nothing says which of the two is production.
    let refused = restored_along(&world, RestoreTarget::Latest, None).unwrap_err();
    assert!(matches!(refused, BackupError::WhichTimeline { .. }), "{refused}");
    for word in ["timeline 1 (log up to", "timeline 2, which left timeline 1", "--timeline"] {
        assert!(refused.to_string().contains(word), "{refused}");
    }
    assert!(restored_along(&world, RestoreTarget::Latest, Some(1)).unwrap() == production);

    // Production is what is backed up.
    world.back_up(&database);
    assert!(restored_along(&world, RestoreTarget::Latest, None).unwrap() == production);
    let (_, report) = restore_copy(&world, RestoreTarget::Latest);
    let passed_over = &report.passed_over[0];
    assert_eq!((passed_over.timeline.get(), passed_over.is_newer), (2, false), "{passed_over:?}");
    // Whoever follows the copy hears what it lacks.
    let request = RestoreRequest { timeline: TimelineId::new(2), ..RestoreRequest::default() };
    let report = world.restore_to(&SimulatedDisk::new(33), &request).unwrap();
    assert!(report.passed_over[0].is_newer, "{report:?}");
}

#[test]
fn a_time_is_restored_along_the_timeline_that_was_there_then() {
    let world = World::new();
    let database = world.open();
    put(&database, "start");
    world.back_up(&database);
    let start = world.clock.wall_micros();
    let after = |seconds: i64| RestoreTarget::Time(start + seconds * 1_000_000);
    let mut states = Vec::new();
    for name in ["10 s", "20 s", "30 s"] {
        world.clock.advance(Duration::from_secs(10));
        put(&database, name);
        states.push(state_of(&database));
    }
    database.log().archive_now().unwrap();
    let (disk, report) = world.restore(after(15)).unwrap();
    assert_eq!(report.from_timeline, TimelineId::FIRST);
    database.close().unwrap();
    world.clock.advance(Duration::from_secs(70));
    let successor = world.open_at(&disk);
    assert!(state_of(&successor) == states[0]);
    // From now on, the repository knows of the second timeline.
    successor.log().archive_now().unwrap();
    for name in ["110 s", "120 s"] {
        world.clock.advance(Duration::from_secs(10));
        put(&successor, name);
    }
    successor.log().archive_now().unwrap();
    // The commits of 10 and 20 seconds: the first timeline was all there was.
    assert!(restored_along(&world, after(25), None).unwrap() == states[1]);
    let options = Options { archives: Vec::new(), ..world.options() };
    let request = RestoreRequest { target: after(25), ..RestoreRequest::default() };
    let disk = SimulatedDisk::new(34);
    let environment = world.environment(&disk);
    let drilled = drill(&world.repository(), &environment, &options, &request, &mut |_| {}, &mut |_| {});
    assert_eq!(drilled.unwrap().restored.from_timeline, TimelineId::FIRST);
    // Later it was the second one, if it is production: its backup says so.
    let refused = restored_along(&world, after(115), None).unwrap_err();
    assert!(matches!(refused, BackupError::WhichTimeline { .. }), "{refused}");
    world.back_up(&successor);
    let state = restored_along(&world, after(115), None).unwrap();
    assert_eq!(state["t"].len(), 3, "start, 10 s and 110 s: {state:?}");
}

/// The history of the second timeline comes into the repository late, and says nothing of when that timeline began.
#[test]
fn a_time_between_a_failover_and_the_end_of_an_outage_of_the_archive_is_refused_with_both_timelines() {
    let world = World::new();
    let database = world.open();
    put(&database, "start");
    world.back_up(&database);
    database.log().archive_now().unwrap();
    database.close().unwrap();
    let (disk, _) = world.restore(RestoreTarget::Latest).unwrap();
    let successor = world.open_restored(&disk);
    let start = world.clock.wall_micros();
    for name in ["10 s", "20 s"] {
        world.clock.advance(Duration::from_secs(10));
        put(&successor, name);
    }
    successor.close().unwrap();
    world.clock.advance(Duration::from_secs(70));
    let successor = world.open_at(&disk);
    put(&successor, "90 s");
    successor.log().archive_now().unwrap();
    let between = || RestoreTarget::Time(start + 15_000_000);
    let refused = restored_along(&world, between(), None).unwrap_err().to_string();
    for word in ["no commit after the time asked for", "timeline 1", "--timeline 2"] {
        assert!(refused.contains(word), "{word}: {refused}");
    }
    let state = restored_along(&world, between(), Some(2)).unwrap();
    assert_eq!(state["t"].len(), 2, "start and 10 s: {state:?}");
}

/// Changes a byte of an object.
fn damage(world: &World, path: &str) {
    let file = world.store.open(path, FileMode::Write).unwrap();
    let at = file.length().unwrap() - 1;
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 1], at).unwrap();
}

#[test]
fn a_damaged_history_keeps_only_those_from_restoring_who_follow_it() {
    let world = World::new();
    let database = world.open();
    put(&database, "before");
    world.back_up(&database);
    let (disk, _) = world.restore(RestoreTarget::Latest).unwrap();
    let copy = world.open_at(&disk);
    put(&copy, "in the copy");
    copy.close().unwrap();
    put(&database, "later");
    world.back_up(&database);
    let state = state_of(&database);
    let id = databases(&world.repository()).unwrap()[0];
    damage(&world, &format!("{}/timelines/00000002.history", System::Seawall(id)));
    assert_eq!(backups(&world.repository(), id).unwrap().complete.len(), 2);
    assert!(restored_along(&world, RestoreTarget::Latest, Some(1)).unwrap() == state);
    let refused = restored_along(&world, RestoreTarget::Latest, Some(2)).unwrap_err();
    assert!(refused.to_string().contains("00000002.history"), "{refused}");
    let refused = restored_along(&world, RestoreTarget::Latest, None).unwrap_err();
    assert!(refused.to_string().contains("whose history cannot be read"), "{refused}");
    // The number of the one that cannot be read is not taken once more.
    let request = RestoreRequest {
        timeline: Some(TimelineId::FIRST),
        archive_mode: ArchiveMode::Preserve,
        ..RestoreRequest::default()
    };
    assert_eq!(world.restore_to(&SimulatedDisk::new(35), &request).unwrap().timeline.get(), 3);
}
