//! Backups that are cut short, and those that go on with them.
//!
//! Invariants: what a backup that has gone on restores is what a backup in one go would; it needs the objects of the one that was cut
//! short, and nobody removes them; whatever is wrong with those, there is a backup, and it says why it began anew.
#![allow(clippy::unwrap_used, reason = "a test that fails panics")]

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{World, state_of};
use seawall_archive::System;
use seawall_backup::{
    BackupError, BackupOptions, BackupStart, BackupStep, Expiry, Finding, RestoreRequest, RetentionPolicy,
    StoredBackup, VerifyDepth, VerifyOptions, back_up, backups, verify,
};
use seawall_engine::{ArchiveMode, Database, RestoreTarget};
use seawall_io::{Clock, Disk, OpenMode};
use seawall_simulation::{Fault, FaultError, FaultTarget, Operation, Operations, SimulatedDisk};
use seawall_types::DatabaseId;

const ROWS: u32 = 2_000;
const DAY: Duration = Duration::from_secs(86_400);

fn options() -> BackupOptions {
    BackupOptions {
        run_bytes: 4_000,
        range_bytes: 1,
        threads: 1,
        progress_bytes: 10_000,
        ..BackupOptions::default()
    }
}

fn incremental() -> BackupOptions {
    BackupOptions { is_incremental: true, ..options() }
}

fn put(database: &Database, table: &str, key: u32, value: &[u8]) {
    let table = database.table(table).unwrap();
    database.put(&table, key.to_be_bytes(), value).unwrap();
}

fn load(database: &Database, name: &str, value: u8) {
    let mut load = database.tables().bulk_load(name).unwrap();
    (0..ROWS).for_each(|key| load.add(key.to_be_bytes(), [value; 100]).unwrap());
    load.finish().unwrap();
}

/// Two tables of rows that stay as they are, one behind the other.
fn settled(world: &World) -> Database {
    let database = world.open();
    load(&database, "first", 1);
    load(&database, "second", 2);
    database.checkpoint().unwrap();
    database
}

fn database_of(world: &World) -> DatabaseId {
    seawall_backup::databases(&world.repository()).unwrap()[0]
}

/// A backup that the store takes so many objects of.
fn cut_short(world: &World, database: &Database, options: &BackupOptions, objects: u64) {
    world.refuse_backups_after(database, objects);
    let refused = world.back_up_with(database, options, || {}).unwrap_err();
    assert!(matches!(refused, BackupError::Archive(_)), "{refused}");
    world.store.clear_faults();
}

/// What a backup says of its beginning, and the backup.
fn told(world: &World, database: &Database, options: &BackupOptions) -> (BackupStart, StoredBackup) {
    let (start, taken) = try_told(world, database, options);
    (start, taken.unwrap())
}

fn try_told(
    world: &World,
    database: &Database,
    options: &BackupOptions,
) -> (BackupStart, Result<StoredBackup, BackupError>) {
    let clock: Arc<dyn Clock> = Arc::new(world.clock.clone());
    world.clock.advance(Duration::from_secs(1));
    let mut started = None;
    let taken = back_up(database, &world.repository(), &clock, options, &mut |step| {
        if let BackupStep::Begins(start) = step {
            started = Some(start);
        }
    });
    (started.unwrap(), taken)
}

/// The newest attempt.
fn attempt(world: &World) -> String {
    backups(&world.repository(), database_of(world)).unwrap().unfinished.pop().unwrap()
}

fn findings(world: &World) -> Vec<Finding> {
    let mut found = Vec::new();
    let options = VerifyOptions { depth: VerifyDepth::Content, ..VerifyOptions::default() };
    verify(&world.repository(), &world.clock, &options, &mut |one| found.push(one), &mut |_| {}).unwrap();
    found
}

fn expire(world: &World) -> Vec<String> {
    let policy = RetentionPolicy { keep_count: Some(1), ..RetentionPolicy::default() };
    let system = System::Seawall(database_of(world));
    let expiry = Expiry::prepare(world.repository(), system, policy, &world.clock).unwrap();
    expiry.run(&mut |_| {}).unwrap().plan.removed_unfinished
}

fn assert_restores(world: &World, database: &Database) {
    assert!(world.restored_state(RestoreTarget::Latest) == state_of(database));
}

#[test]
fn a_backup_goes_on_with_one_that_was_cut_short_and_has_what_changed_meanwhile() {
    let world = World::new();
    let database = settled(&world);
    let whole = world.back_up_with(&database, &BackupOptions { resumes: false, ..options() }, || {}).unwrap();
    cut_short(&world, &database, &options(), 90);
    let cut = attempt(&world);
    // Below what it has reached and above; a table that goes, and one that is new.
    put(&database, "first", 3, b"changed below");
    put(&database, "second", ROWS - 3, b"changed above");
    load(&database, "third", 3);
    database.checkpoint().unwrap();
    put(&database, "first", 4, b"changed, and not in the tree yet");
    let (start, taken) = told(&world, &database, &options());
    assert_eq!((start.parent, start.goes_on_with.as_ref()), (None, Some(&cut)), "{:?}", start.notes);
    assert_eq!(taken.manifest.goes_on_with.as_ref().map(|part| &part.id), Some(&cut));
    assert_eq!(taken.manifest.parent, None, "it is a full backup");
    let new_rows = u64::from(ROWS);
    assert!(taken.manifest.rows() < whole.manifest.rows() * 2 / 3 + new_rows, "{}", taken.manifest.rows());
    database.log().archive_now().unwrap();
    assert_restores(&world, &database);
    assert_eq!(findings(&world), []);
}

#[test]
fn tables_that_are_dropped_meanwhile_do_not_come_back() {
    let world = World::new();
    let database = settled(&world);
    load(&database, "third", 3);
    database.checkpoint().unwrap();
    cut_short(&world, &database, &options(), 120);
    for name in ["first", "third"] {
        database.tables().drop(name).unwrap();
    }
    for _ in 0..3 {
        database.checkpoint().unwrap();
    }
    let (start, _) = told(&world, &database, &options());
    assert!(start.goes_on_with.is_some());
    database.log().archive_now().unwrap();
    assert_restores(&world, &database);
}

#[test]
fn one_that_was_cut_short_again_and_again_comes_to_an_end() {
    let world = World::new();
    let database = settled(&world);
    let whole = world.back_up_with(&database, &BackupOptions { resumes: false, ..options() }, || {}).unwrap();
    let mut attempts = Vec::new();
    // The third one does not come as far as those before.
    for (number, objects) in [(0, 60), (1, 15), (2, 6)] {
        put(&database, "first", number, b"changed");
        put(&database, "second", number, b"changed");
        database.checkpoint().unwrap();
        cut_short(&world, &database, &options(), objects);
        attempts.push(attempt(&world));
    }
    // One that has nothing is passed over.
    cut_short(&world, &database, &options(), 1);
    put(&database, "first", 700, b"changed");
    database.checkpoint().unwrap();
    let (start, taken) = told(&world, &database, &options());
    assert_eq!(start.goes_on_with.as_ref(), Some(&attempts[2]), "{:?}", start.notes);
    assert!(taken.manifest.rows() < whole.manifest.rows() / 2, "{}", taken.manifest.rows());
    database.log().archive_now().unwrap();
    assert_restores(&world, &database);
    // An increment of it, cut short and gone on with in turn.
    for key in (0..ROWS).step_by(40) {
        put(&database, "first", key, b"changed once more");
    }
    database.checkpoint().unwrap();
    cut_short(&world, &database, &incremental(), 8);
    let part = attempt(&world);
    put(&database, "first", 1, b"and once more");
    database.checkpoint().unwrap();
    let (start, increment) = told(&world, &database, &incremental());
    assert_eq!((start.parent, start.goes_on_with), (Some(taken.id), Some(part)), "{:?}", start.notes);
    assert!(increment.manifest.rows() < 2_000, "{}", increment.manifest.rows());
    database.log().archive_now().unwrap();
    assert_restores(&world, &database);
}

#[test]
fn retention_keeps_what_is_a_part_of_a_backup_and_removes_it_with_that() {
    let world = World::new();
    let database = settled(&world);
    cut_short(&world, &database, &options(), 90);
    let cut = attempt(&world);
    let (_, taken) = told(&world, &database, &options());
    database.log().archive_now().unwrap();
    world.clock.advance(20 * DAY);
    assert_eq!(expire(&world), <[String; 0]>::default());
    assert_eq!(findings(&world), []);
    assert_restores(&world, &database);
    let newer = world.back_up_with(&database, &options(), || {}).unwrap();
    assert_eq!(newer.manifest.goes_on_with, None, "one had ended since");
    world.clock.advance(20 * DAY);
    assert_eq!(expire(&world), std::slice::from_ref(&cut));
    let stored = world.repository().stored(None).unwrap();
    assert!(stored.iter().all(|object| !object.path.contains(&cut) && !object.path.contains(&taken.id)));
    database.log().archive_now().unwrap();
    assert_restores(&world, &database);
    assert_eq!(findings(&world), []);
}

#[test]
fn what_a_backup_under_way_goes_on_with_stays_however_old_it_is() {
    let world = World::new();
    let database = settled(&world);
    cut_short(&world, &database, &options(), 60);
    world.clock.advance(4 * DAY);
    let mut steps = 0;
    let taken = world.back_up_with(&database, &options(), || {
        steps += 1;
        if steps == 2 {
            world.clock.advance(5 * DAY);
            assert_eq!(expire(&world), <[String; 0]>::default());
        }
    });
    assert!(taken.unwrap().manifest.goes_on_with.is_some() && steps > 2);
    database.log().archive_now().unwrap();
    assert_restores(&world, &database);
}

#[test]
fn one_whose_part_is_removed_meanwhile_fails_and_says_so_and_the_next_begins_anew() {
    let world = World::new();
    let database = settled(&world);
    cut_short(&world, &database, &options(), 60);
    let cut = attempt(&world);
    let run = format!("{}/backups/{cut}/run-00000003", System::Seawall(database_of(&world)));
    let mut is_removed = false;
    let refused = world.back_up_with(&database, &options(), || {
        if !std::mem::replace(&mut is_removed, true) {
            world.store.remove(&run).unwrap();
        }
    });
    let refused = refused.unwrap_err();
    assert!(matches!(&refused, BackupError::PartGone { id } if *id == cut), "{refused}");
    let (start, _) = told(&world, &database, &options());
    assert_eq!(start.goes_on_with, None);
    assert!(
        start.notes.iter().any(|note| note.contains(&cut) && note.contains("missing")),
        "{:?}",
        start.notes
    );
    database.log().archive_now().unwrap();
    assert_restores(&world, &database);
}

#[test]
fn progress_that_is_damaged_is_not_gone_on_with_and_verify_names_it() {
    let world = World::new();
    let database = settled(&world);
    cut_short(&world, &database, &options(), 60);
    let cut = attempt(&world);
    let directory = format!("{}/backups/{cut}", System::Seawall(database_of(&world)));
    let is_progress = |path: &String| path.starts_with(&directory) && path.contains("progress-");
    let paths = world.repository().stored(None).unwrap().into_iter().map(|object| object.path);
    let newest = paths.filter(is_progress).max().unwrap();
    let file = world.store.open(&newest, OpenMode::Write).unwrap();
    file.write_all_at(b"rot", 600).unwrap();
    assert!(findings(&world).iter().any(|finding| finding.object.ends_with(&newest)));
    let (start, taken) = told(&world, &database, &options());
    assert_eq!((start.goes_on_with, taken.manifest.goes_on_with), (None, None));
    assert!(start.notes.iter().any(|note| note.contains("progress-")), "{:?}", start.notes);
    database.log().archive_now().unwrap();
    assert_restores(&world, &database);
}

#[test]
fn damaged_progress_keeps_all_attempts_while_it_may_be_of_use_and_stops_no_expiry() {
    let world = World::new();
    let database = settled(&world);
    cut_short(&world, &database, &options(), 60);
    world.back_up_with(&database, &BackupOptions { resumes: false, ..options() }, || {}).unwrap();
    database.log().archive_now().unwrap();
    world.clock.advance(6 * DAY);
    cut_short(&world, &database, &options(), 60);
    let (older, newer) = {
        let mut unfinished = backups(&world.repository(), database_of(&world)).unwrap().unfinished;
        (unfinished.remove(0), unfinished.remove(0))
    };
    let paths = world.repository().stored(None).unwrap().into_iter().map(|object| object.path);
    for path in paths.filter(|path| path.contains(&newer) && path.contains("progress-")) {
        world.store.flip_bit(&path, 600, 1);
    }
    world.clock.advance(2 * DAY);
    // The older one was given up, but nobody knows whether the newer one goes on with it.
    assert_eq!(expire(&world), <[String; 0]>::default());
    world.clock.advance(6 * DAY);
    assert_eq!(expire(&world), [older, newer]);
    assert_restores(&world, &database);
}

#[test]
fn a_chain_that_would_be_too_long_another_timeline_and_a_wish_begin_anew() {
    let world = World::new();
    let database = settled(&world);
    cut_short(&world, &database, &options(), 60);
    cut_short(&world, &database, &options(), 30);
    // Each of these is the newest when the next is taken: it counts only if it ends.
    for other in [
        BackupOptions { chain_max: 1, ..options() },
        BackupOptions { resumes: false, ..options() },
        incremental(),
    ] {
        let store = world.store.copy();
        let world = World { store, clock: world.clock.clone(), ..World::new() };
        let (start, taken) = told(&world, &database, &other);
        let goes_on = other.resumes && other.chain_max > 1;
        assert_eq!(taken.manifest.goes_on_with.is_some(), goes_on, "{other:?}: {:?}", start.notes);
        assert_eq!(start.notes.len(), if other.chain_max == 1 { 2 } else { 0 }, "{:?}", start.notes);
    }
    // Without a manifest yet, there is nothing to restore from; with one, the restored database is on another timeline.
    let options_anew = BackupOptions { resumes: false, ..options() };
    world.back_up_with(&database, &options_anew, || {}).unwrap();
    cut_short(&world, &database, &options(), 60);
    database.log().archive_now().unwrap();
    database.close().unwrap();
    let disk = SimulatedDisk::new(9);
    let request = RestoreRequest { archive_mode: ArchiveMode::Preserve, ..RestoreRequest::default() };
    world.restore_to(&disk, &request).unwrap();
    let restored = world.open_at(&disk);
    let (start, _) = told(&world, &restored, &options());
    assert_eq!(start.goes_on_with, None);
    restored.log().archive_now().unwrap();
    assert_restores(&world, &restored);
}

#[test]
fn an_attempt_that_may_soon_be_taken_for_given_up_is_left_alone() {
    let world = World::new();
    let database = settled(&world);
    cut_short(&world, &database, &options(), 60);
    world.clock.advance(6 * DAY);
    let (start, _) = told(&world, &database, &options());
    assert_eq!(start.goes_on_with, None);
}

#[test]
fn an_attempt_goes_on_with_one_of_its_kind() {
    let world = World::new();
    let database = settled(&world);
    let full = world.back_up_with(&database, &options(), || {}).unwrap();
    put(&database, "first", 1, b"changed");
    database.checkpoint().unwrap();
    cut_short(&world, &database, &options(), 60);
    let (start, increment) = told(&world, &database, &incremental());
    assert_eq!((start.parent, start.goes_on_with), (Some(full.id), None), "an increment is quicker");
    assert!(increment.manifest.rows() < 500);
    let (start, _) = told(&world, &database, &options());
    assert!(start.goes_on_with.is_some(), "no full backup has ended since that began");
    database.log().archive_now().unwrap();
    assert_restores(&world, &database);
}

#[test]
fn a_database_that_crashed_meanwhile_goes_on() {
    let world = World::new();
    let database = settled(&world);
    cut_short(&world, &database, &options(), 60);
    put(&database, "first", 5, b"changed");
    let expected = state_of(&database);
    world.disk.crash();
    drop(database);
    let world = World { disk: world.disk.after_power_loss(seawall_simulation::PowerLoss::LoseAll), ..world };
    let database = world.open();
    database.checkpoint().unwrap();
    let (start, taken) = told(&world, &database, &options());
    assert!(start.goes_on_with.is_some() && taken.manifest.rows() < u64::from(ROWS) * 2);
    database.log().archive_now().unwrap();
    assert!(world.restored_state(RestoreTarget::Latest) == expected);
}

#[test]
fn one_whose_log_was_refused_has_all_its_rows_and_the_next_puts_them_no_more() {
    let world = World { archives: false, ..World::new() };
    let database = settled(&world);
    let prefix = format!("{}/tails/", System::Seawall(database.info().unwrap().database));
    let target = FaultTarget::Path { prefix, operations: Operations::Only(Operation::Rename) };
    let error = FaultError::Kind(std::io::ErrorKind::PermissionDenied);
    world.store.inject(Fault { target, error, skip: 0, count: u64::MAX });
    world.back_up_with(&database, &options(), || {}).unwrap_err();
    world.store.clear_faults();
    let (start, taken) = told(&world, &database, &options());
    assert!(start.goes_on_with.is_some() && taken.manifest.rows() < 100, "{}", taken.manifest.rows());
    assert_restores(&world, &database);
}

#[test]
fn one_of_an_encrypted_database_is_gone_on_with() {
    let world = World::encrypted();
    let database = settled(&world);
    cut_short(&world, &database, &options(), 60);
    put(&database, "first", 5, b"changed");
    database.checkpoint().unwrap();
    let (start, _) = told(&world, &database, &options());
    assert!(start.goes_on_with.is_some(), "{:?}", start.notes);
    database.log().archive_now().unwrap();
    assert_restores(&world, &database);
    assert_eq!(findings(&world), []);
}

#[test]
fn when_one_thread_fails_the_others_stop() {
    let world = World::new();
    let database = settled(&world);
    let objects = || world.repository().stored(None).unwrap().len();
    let before = objects();
    let id = database.info().unwrap().database;
    let prefix = format!("{}/backups/", System::Seawall(id));
    let target = FaultTarget::Path { prefix, operations: Operations::Only(Operation::Rename) };
    let error = FaultError::Kind(std::io::ErrorKind::PermissionDenied);
    world.store.inject(Fault { target, error, skip: 3, count: 1 });
    let options = BackupOptions { threads: 3, ..options() };
    world.back_up_with(&database, &options, || {}).unwrap_err();
    assert!(objects() - before < 15, "{} objects", objects() - before);
}

#[test]
fn a_copy_of_the_directory_does_not_build_on_what_the_other_has_put() {
    let world = World { archives: false, ..World::new() };
    let database = settled(&world);
    let first = world.back_up_with(&database, &options(), || {}).unwrap();
    database.close().unwrap();
    let copy = world.disk.copy();
    let database = world.open();
    put(&database, "first", 1, b"in the one");
    database.checkpoint().unwrap();
    let (start, _) = told(&world, &database, &incremental());
    assert_eq!((start.parent, start.notes.len()), (Some(first.id), 0));
    drop(database);
    // The copy has as much log, and other rows.
    let database = world.open_at(&copy);
    put(&database, "first", 1, b"in the two");
    database.checkpoint().unwrap();
    put(&database, "second", 1, &[9; 900]);
    database.checkpoint().unwrap();
    let (start, taken) = try_told(&world, &database, &incremental());
    assert_eq!((start.parent, start.goes_on_with), (None, None), "{:?}", start.notes);
    assert!(start.notes.iter().any(|note| note.contains("copied")), "{:?}", start.notes);
    // Nor does it put its own log beside that of the other.
    let refused = taken.unwrap_err().to_string();
    assert!(refused.contains("another copy of this database"), "{refused}");
}

#[test]
fn a_directory_that_was_put_back_from_a_copy_goes_on_with_nothing_that_was_begun_since() {
    let world = World { archives: false, ..World::new() };
    let database = settled(&world);
    let first = world.back_up_with(&database, &options(), || {}).unwrap();
    database.close().unwrap();
    let copy = world.disk.copy();
    // The directory that is lost: an attempt, a complete increment, and so much log since that none of it is there any more.
    let database = world.open();
    put(&database, "first", 1, b"lost");
    database.checkpoint().unwrap();
    let (_, increment) = told(&world, &database, &incremental());
    cut_short(&world, &database, &options(), 3);
    drop(database);
    let database = world.open_at(&copy);
    for round in 0..40_u32 {
        put(&database, "first", round + 1, &[9; 9_000]);
    }
    database.checkpoint().unwrap();
    database.checkpoint().unwrap();
    assert!(database.statistics().log.appended > increment.manifest.end.end);
    let mut ours = vec![first.id];
    for wanted in [incremental(), options(), incremental()] {
        let (start, taken) = try_told(&world, &database, &wanted);
        assert!(start.parent.as_ref().is_none_or(|parent| ours.contains(parent)), "{start:?}");
        assert_eq!(start.goes_on_with, None, "{start:?}");
        ours.extend(taken.ok().map(|backup| backup.id));
    }
}

/// The copy has the name of the backup, and not what was put after it was made. By the time of its own backup, no log tells any more.
#[test]
fn a_copy_that_is_made_while_a_backup_is_under_way_builds_on_nothing_that_came_later() {
    for (copied_after, is_cut_short) in [(1, false), (1, true), (30, false), (30, true)] {
        let what = format!("copied after {copied_after} steps, cut short: {is_cut_short}");
        let world = World { archives: false, ..World::new() };
        let database = settled(&world);
        if is_cut_short {
            world.refuse_backups_after(&database, 90);
        }
        let (mut steps, mut copy) = (0, None);
        let taken = world.back_up_with(&database, &options(), || {
            steps += 1;
            if steps == copied_after {
                copy = Some(world.disk.copy());
                put(&database, "first", ROWS - 1, b"of the original alone");
                database.checkpoint().unwrap();
            }
        });
        assert_eq!(taken.is_err(), is_cut_short, "{what}: {taken:?}");
        world.store.clear_faults();
        drop(database);
        let database = world.open_at(&copy.unwrap());
        for round in 0..40_u32 {
            put(&database, "first", round + 1, &[9; 9_000]);
        }
        database.checkpoint().unwrap();
        database.checkpoint().unwrap();
        for wanted in [incremental(), options()] {
            let (start, taken) = try_told(&world, &database, &wanted);
            let Ok(taken) = taken else {
                // The log of the original is there already.
                assert!(!is_cut_short, "{what}");
                assert_eq!((start.parent, start.goes_on_with), (None, None), "{what}");
                continue;
            };
            let request = RestoreRequest { backup: Some(taken.id), ..RestoreRequest::default() };
            let disk = SimulatedDisk::new(9);
            world.restore_to(&disk, &request).unwrap();
            assert!(
                common::state_of(&world.open_restored(&disk)) == state_of(&database),
                "{what}: {start:?}"
            );
        }
    }
}
