//! Two copies of one directory, on the same timeline, that both put something into one repository: nothing of both is ever mixed.
#![allow(clippy::unwrap_used, reason = "a test that fails panics")]

mod common;

use common::{SEGMENT_BYTES, World, state_of};
use seawall_archive::System;
use seawall_backup::{Finding, RestoreRequest, Severity, StoredBackup, VerifyDepth, VerifyOptions, verify};
use seawall_engine::{Database, Durability, Error};
use seawall_io::{Disk, OpenMode};
use seawall_simulation::{Fault, FaultError, FaultTarget, Operation, Operations, SimulatedDisk};
use seawall_types::Lsn;

fn put(database: &Database, count: u32, value: &str) {
    let table = database.table("t").or_else(|_| database.create_table("t")).unwrap();
    for key in 0..count {
        database.put(&table, format!("k{key}"), value).unwrap();
    }
}

/// A database with a row, and a copy of its directory.
fn two_copies(world: &World) -> (Database, Database) {
    let database = world.open();
    put(&database, 1, "common");
    database.close().unwrap();
    let copy = world.disk.copy();
    (world.open(), world.open_at(&copy))
}

fn restored(world: &World, backup: &StoredBackup) -> common::State {
    let disk = SimulatedDisk::new(41);
    let request = RestoreRequest { backup: Some(backup.id.clone()), ..RestoreRequest::default() };
    world.restore_to(&disk, &request).unwrap();
    state_of(&world.open_restored(&disk))
}

fn damages(world: &World) -> Vec<String> {
    let mut found = Vec::new();
    let options = VerifyOptions { depth: VerifyDepth::Content, ..VerifyOptions::default() };
    let mut tell = |finding: Finding| {
        if finding.kind.severity() == Severity::Damage {
            found.push(format!("{finding:?}"));
        }
    };
    verify(&world.repository(), &world.clock, &options, &mut tell, &mut |_| ()).unwrap();
    found
}

#[test]
fn a_backup_of_a_copy_that_went_its_own_way_is_refused_and_leaves_the_other_whole() {
    for (rows, rows_of_copy) in [(3, 5), (5, 3), (3, 3), (1, 400)] {
        let world = World { archives: false, ..World::new() };
        let (database, copy) = two_copies(&world);
        put(&database, rows, "original");
        put(&copy, rows_of_copy, "copy");
        let backup = world.back_up(&database);
        let before = world.store.list_all().len();
        let refused = world.back_up_while(&copy, 1000, || {}).unwrap_err().to_string();
        assert!(refused.contains("another copy of this database"), "{refused}");
        assert!(restored(&world, &backup) == state_of(&database), "{rows} and {rows_of_copy} rows");
        assert_eq!(damages(&world), [""; 0]);
        // Runs without a manifest at most.
        let manifests = world.store.list_all();
        let manifests = manifests.iter().filter(|entry| entry.name.ends_with("/manifest"));
        assert_eq!(manifests.count(), 1, "of {before} objects before");
    }
}

#[test]
fn a_copy_that_archives_second_is_refused_at_its_first_tail() {
    let world = World::new();
    let (database, copy) = two_copies(&world);
    let put = |database: &Database, value: &str| {
        let table = database.table("t")?;
        database.with(Durability::Archived).put(&table, "k", value).map(drop)
    };
    put(&database, "original").unwrap();
    let refused = put(&copy, "a copy with a longer value").unwrap_err();
    assert!(matches!(refused, Error::DoneNotArchived { .. }), "{refused}");
    let refused = copy.log().archive_now().unwrap_err().to_string();
    assert!(refused.contains("another copy of this database"), "{refused}");
    put(&database, "original again").unwrap();
    drop(copy);
    world.back_up(&database);
    let state = world.restored_state(seawall_engine::RestoreTarget::Latest);
    assert!(state == state_of(&database));
}

/// The original has put the common log, so it is sure of the segment; then the copy goes on first.
#[test]
fn a_commit_is_not_acknowledged_after_a_copy_that_went_on_first() {
    let world = World::new();
    let database = world.open();
    put(&database, 1, "common");
    database.log().archive_now().unwrap();
    let copy = world.open_at(&world.disk.copy());
    let commit = |database: &Database, value: &str| {
        let table = database.table("t")?;
        database.with(Durability::Archived).put(&table, "k", value).map(drop)
    };
    commit(&copy, "the copy went on first, with more log than the other will have").unwrap();
    let refused = commit(&database, "original").unwrap_err();
    assert!(matches!(refused, Error::DoneNotArchived { .. }), "{refused}");
    let refused = database.log().archive_now().unwrap_err().to_string();
    assert!(refused.contains("another copy of this database"), "{refused}");
    // What was refused has left nothing, so the copy goes on.
    commit(&copy, "again").unwrap();
    world.back_up(&copy);
    assert!(world.restored_state(seawall_engine::RestoreTarget::Latest) == state_of(&copy));
}

/// The copy has put the rest of the segment, and its tails have given way to it.
#[test]
fn a_commit_is_not_acknowledged_after_a_copy_that_has_put_the_whole_segment() {
    let world = World::new();
    let database = world.open();
    put(&database, 1, "common");
    database.log().archive_now().unwrap();
    let copy = world.open_at(&world.disk.copy());
    put(&copy, 2, &"x".repeat(2 * usize::try_from(SEGMENT_BYTES).unwrap() / 5));
    put(&copy, 2, &"y".repeat(2 * usize::try_from(SEGMENT_BYTES).unwrap() / 5));
    copy.log().archive_now().unwrap();
    let table = database.table("t").unwrap();
    let refused = database.with(Durability::Archived).put(&table, "k", "original").unwrap_err();
    assert!(matches!(refused, Error::DoneNotArchived { .. }), "{refused}");
}

/// More log than a segment holds.
fn fill_a_segment(database: &Database) {
    put(database, 4, &"x".repeat(2 * usize::try_from(SEGMENT_BYTES).unwrap() / 5));
}

fn commit_archived(database: &Database, value: &str) -> Result<Lsn, Error> {
    let table = database.table("t")?;
    database.with(Durability::Archived).put(&table, "k", value)
}

/// Objects of the repository below this directory of the database.
fn objects_in(world: &World, directory: &str) -> Vec<String> {
    let names = world.store.list_all().into_iter().map(|entry| entry.name);
    names.filter(|name| name.contains(&format!("/{directory}/"))).collect()
}

fn calls_below(database: &Database, directory: &str, operation: Operation) -> FaultTarget {
    let prefix = format!("{}/{directory}/", System::Seawall(database.info().unwrap().database));
    FaultTarget::Path { prefix, operations: Operations::Only(operation) }
}

/// The copy was killed between its put and the removal of the tails, or one could not be removed.
#[test]
fn a_tail_of_the_common_log_does_not_hide_the_segment_of_another_copy() {
    let world = World::new();
    let database = world.open();
    put(&database, 1, "common");
    database.log().archive_now().unwrap();
    let original = world.disk.copy();
    let copy = world.open_at(&world.disk.copy());
    let target = calls_below(&database, "tails", Operation::Remove);
    let error = FaultError::Kind(std::io::ErrorKind::PermissionDenied);
    world.store.inject(Fault { target, error, skip: 0, count: u64::MAX });
    fill_a_segment(&copy);
    copy.log().archive_now().unwrap();
    world.store.clear_faults();
    assert_eq!(objects_in(&world, "log").len(), 1);
    assert!(objects_in(&world, "tails").len() > 1, "{:?}", objects_in(&world, "tails"));
    // The original knows no more what it has put.
    drop(database);
    let database = world.open_at(&original);
    let refused = commit_archived(&database, "original").unwrap_err();
    assert!(matches!(refused, Error::DoneNotArchived { .. }), "{refused}");
    let refused = world.back_up_while(&database, 1000, || {}).unwrap_err().to_string();
    assert!(refused.contains("another copy of this database"), "{refused}");
    // What was refused has left nothing in the way of the other.
    commit_archived(&copy, "again").unwrap();
    world.back_up(&copy);
    assert!(world.restored_state(seawall_engine::RestoreTarget::Latest) == state_of(&copy));
}

/// The copy has looked at the tails and not put its segment yet; the original puts its first tail, and there is no segment.
#[test]
fn an_acknowledged_tail_does_not_give_way_to_the_segment_of_another_copy() {
    let world = World::new();
    let (database, copy) = two_copies(&world);
    fill_a_segment(&copy);
    let gate = world.store.hold(calls_below(&database, "log", Operation::Rename));
    let refused = std::thread::scope(|scope| {
        let archiving = scope.spawn(|| copy.log().archive_now());
        gate.await_waiting(1);
        commit_archived(&database, "original").unwrap();
        gate.open();
        archiving.join().unwrap().unwrap_err().to_string()
    });
    assert!(refused.contains("another copy of this database"), "{refused}");
    assert_eq!(objects_in(&world, "log"), [""; 0], "the segment was taken back");
    // The one that was acknowledged goes on.
    drop(copy);
    world.back_up(&database);
    let stamp = commit_archived(&database, "original again").unwrap();
    assert!(world.restored_state(seawall_engine::RestoreTarget::Lsn(stamp)) == state_of(&database));
}

#[test]
fn a_damaged_tail_does_not_keep_a_segment_from_being_archived() {
    let world = World::new();
    let database = world.open();
    put(&database, 1, "first");
    database.log().archive_now().unwrap();
    drop(database);
    let objects = world.store.list_all();
    let tails: Vec<_> = objects.iter().filter(|entry| entry.name.contains("/tails/")).collect();
    assert!(!tails.is_empty());
    for tail in tails {
        let file = world.store.open(&tail.name, OpenMode::Write).unwrap();
        file.write_all_at(b"rot", file.length().unwrap() - 3).unwrap();
    }
    let database = world.open();
    put(&database, 4, &"x".repeat(2 * usize::try_from(SEGMENT_BYTES).unwrap() / 5));
    database.log().archive_now().unwrap();
    world.back_up(&database);
    assert!(world.restored_state(seawall_engine::RestoreTarget::Latest) == state_of(&database));
}

/// An earlier program, or somebody's hand, has put the longer log of another copy there.
#[test]
fn a_backup_whose_log_is_that_of_another_copy_is_not_restored() {
    let world = World { archives: false, ..World::new() };
    let (database, copy) = two_copies(&world);
    put(&database, 3, "original");
    put(&copy, 5, "copy");
    world.back_up(&database);
    assert_eq!(damages(&world), [""; 0]);
    let elsewhere = World { archives: false, ..World::new() };
    elsewhere.back_up(&copy);
    for entry in elsewhere.store.list_all().iter().filter(|entry| entry.name.contains("/tails/")) {
        let from = elsewhere.store.open(&entry.name, OpenMode::Read).unwrap();
        let mut content = vec![0; usize::try_from(from.length().unwrap()).unwrap()];
        from.read_exact_at(&mut content, 0).unwrap();
        let to = world.store.open(&entry.name, OpenMode::Create).unwrap();
        to.write_all_at(&content, 0).unwrap();
    }
    let refused = world.restore_to(&SimulatedDisk::new(42), &RestoreRequest::default()).unwrap_err();
    assert!(refused.to_string().contains("is not the log that this backup was taken with"), "{refused}");
    let found = damages(&world);
    assert!(found.iter().any(|finding| finding.contains("not the log that")), "{found:?}");
}
