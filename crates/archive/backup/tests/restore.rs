//! Restoring to positions, times and names; what is refused, and how.
#![allow(clippy::unwrap_used, reason = "a test that fails panics")]

mod common;

use std::time::Duration;

use common::{SEGMENT_BYTES, State, World, examine, state_of};
use seawall_archive::{LogFileName, System};
use seawall_backup::{BackupError, BackupOptions, RestoreRequest, RunKind, StoredBackup, backups};
use seawall_engine::{Database, Error, OpenMode, Options, RestoreTarget};
use seawall_io::{Clock, Disk};
use seawall_simulation::SimulatedDisk;
use seawall_types::{Lsn, TimelineId};

fn put(database: &Database, key: u32, value: &[u8]) -> Lsn {
    let table = database.table("t").or_else(|_| database.create_table("t")).unwrap();
    database.put(&table, key.to_be_bytes(), value).unwrap()
}

fn error_of(world: &World, target: RestoreTarget) -> String {
    world.restore(target).map(|(_, report)| report).unwrap_err().to_string()
}

#[test]
fn every_commit_behind_a_backup_can_be_restored() {
    let world = World::new();
    let database = world.open();
    for key in 0..300 {
        put(&database, key, &[1; 200]);
    }
    database.checkpoint().unwrap();
    put(&database, 7, b"not in the tree yet");
    let backup = world.back_up(&database);
    assert!(backup.manifest.runs.len() > 10);
    let mut states = vec![(database.statistics().log.appended, state_of(&database))];
    for key in 290..320 {
        let lsn = put(&database, key, &[3; 9_000]);
        states.push((lsn, state_of(&database)));
    }
    database.log().archive_now().unwrap();
    for (lsn, state) in states.iter().step_by(5) {
        assert!(world.restored_state(RestoreTarget::Lsn(*lsn)) == *state, "{lsn}");
        // Between two commits, the first one counts.
        if *lsn < states.last().unwrap().0 {
            assert!(
                world.restored_state(RestoreTarget::Lsn(Lsn::new(lsn.get() + 1))) == *state,
                "behind {lsn}"
            );
        }
    }
    assert!(world.restored_state(RestoreTarget::Latest) == states.last().unwrap().1);
}

#[test]
fn times_and_names_are_found() {
    let world = World::new();
    let database = world.open();
    put(&database, 1, b"before");
    world.back_up(&database);
    let mut moments: Vec<(i64, State)> = Vec::new();
    for key in 0..5 {
        world.clock.advance(Duration::from_secs(10));
        put(&database, key, b"x");
        moments.push((world.clock.wall_micros(), state_of(&database)));
        database.log().create_restore_point(&format!("after {key}")).unwrap();
        database.log().create_restore_point("again and again").unwrap();
    }
    database.log().archive_now().unwrap();
    for (key, (micros, state)) in moments.iter().enumerate().take(4) {
        assert_eq!(world.restored_state(RestoreTarget::Time(*micros)), *state);
        assert_eq!(world.restored_state(RestoreTarget::Time(*micros + 9_999_999)), *state);
        assert_eq!(world.restored_state(RestoreTarget::RestorePoint(format!("after {key}"))), *state);
    }
    let first = &moments.first().unwrap().1;
    assert_eq!(world.restored_state(RestoreTarget::RestorePoint("again and again".to_owned())), *first);
    let last = moments.last().unwrap();
    let problem = error_of(&world, RestoreTarget::Time(last.0));
    assert!(problem.contains("no commit after the time"), "{problem}");
    let problem = error_of(&world, RestoreTarget::RestorePoint("never".to_owned()));
    assert!(problem.contains("\"never\""), "{problem}");
    // A newer backup hides no older name.
    world.back_up(&database);
    database.log().archive_now().unwrap();
    assert_eq!(world.restored_state(RestoreTarget::RestorePoint("after 2".to_owned())), moments[2].1);
}

#[test]
fn positions_out_of_reach_are_refused_with_what_there_is() {
    let world = World::new();
    let problem = error_of(&world, RestoreTarget::Latest);
    assert!(problem.contains("no database"), "{problem}");
    let database = world.open();
    let early = put(&database, 1, b"x");
    database.log().archive_now().unwrap();
    let problem = error_of(&world, RestoreTarget::Latest);
    assert!(problem.contains("none that is complete"), "{problem}");
    let backup = world.back_up(&database);
    let problem = error_of(&world, RestoreTarget::Lsn(early));
    assert!(problem.contains(&backup.id) && problem.contains("later than that"), "{problem}");
    let problem = error_of(&world, RestoreTarget::Time(0));
    assert!(problem.contains("later than that"), "{problem}");
    let end = database.log().archive_now().unwrap();
    let problem = error_of(&world, RestoreTarget::Lsn(Lsn::new(end.get() + 1)));
    assert!(problem.contains(&end.to_string()), "{problem}");
    let request = RestoreRequest { timeline: TimelineId::new(5), ..RestoreRequest::default() };
    let problem = world.restore_to(&SimulatedDisk::new(5), &request).unwrap_err().to_string();
    assert!(problem.contains("no timeline 5"), "{problem}");
}

#[test]
fn a_restore_that_is_refused_leaves_nothing_in_the_way() {
    let world = World::new();
    let database = world.open();
    put(&database, 1, b"x");
    world.back_up(&database);
    put(&database, 2, b"y");
    let end = database.log().archive_now().unwrap();
    let disk = SimulatedDisk::new(21);
    let ask = |target| RestoreRequest { target, ..RestoreRequest::default() };
    for target in [
        RestoreTarget::Lsn(Lsn::new(end.get() + 1)),
        RestoreTarget::Time(world.clock.wall_micros() + 1_000_000_000),
        RestoreTarget::RestorePoint("never".to_owned()),
    ] {
        let refused = world.restore_to(&disk, &ask(target.clone())).unwrap_err();
        assert!(
            matches!(refused, BackupError::Database(Error::RestoreTarget { .. })),
            "{target:?}: {refused}"
        );
        let left: Vec<String> = disk.list_all().into_iter().map(|entry| entry.name).collect();
        assert!(left.iter().all(|name| name == "lock"), "{target:?}: {left:?}");
    }
    // What was meant.
    world.restore_to(&disk, &ask(RestoreTarget::Lsn(end))).unwrap();
    assert!(state_of(&world.open_restored(&disk)) == state_of(&database));
}

#[test]
fn only_an_empty_directory_is_restored_into() {
    let world = World::new();
    let database = world.open();
    put(&database, 1, b"x");
    world.back_up(&database);
    let request = RestoreRequest::default();
    database.close().unwrap();
    let before = world.disk.calls();
    let refused = world.restore_to(&world.disk, &request);
    assert!(matches!(refused, Err(BackupError::Database(Error::NotEmpty { .. }))), "{refused:?}");
    assert_eq!(world.disk.calls(), before, "nothing was changed");
    assert_eq!(state_of(&world.open()).len(), 1);
}

#[test]
fn a_missing_segment_is_a_gap_and_a_damaged_object_is_named() {
    let world = World::new();
    let database = world.open();
    put(&database, 1, b"x");
    database.checkpoint().unwrap();
    let backup = world.back_up(&database);
    let begin = database.statistics().log.appended.get() / SEGMENT_BYTES;
    for key in 0..30 {
        put(&database, key, &[5; 20_000]);
    }
    let end = database.log().archive_now().unwrap();
    let system = System::Seawall(backup.manifest.base.database);
    let segments: Vec<String> = world
        .repository()
        .list(system, Some(TimelineId::FIRST))
        .unwrap()
        .into_iter()
        .filter(|(name, _)| matches!(name, LogFileName::Segment(place) if place.digits > begin))
        .map(|(name, _)| name.to_string())
        .collect();
    assert!(segments.len() > 5);
    let whole = world.store.copy();
    let path = |name: &str| format!("{system}/log/00000001/00000000000000/{name}");
    world.store.remove(&path(&segments[2])).unwrap();
    let problem = error_of(&world, RestoreTarget::Lsn(end));
    assert!(problem.contains("there is a gap"), "{problem}");
    let world = World { store: whole, ..world };
    let run = format!("{system}/backups/{}/run-00000001", backup.id);
    let file = world.store.open(&run, seawall_io::OpenMode::Write).unwrap();
    file.write_all_at(b"rot", 600).unwrap();
    let problem = error_of(&world, RestoreTarget::Latest);
    assert!(problem.contains("run-00000001") && problem.contains("damaged"), "{problem}");
}

#[test]
fn a_restored_database_goes_on_on_a_timeline_of_its_own_and_both_can_be_restored() {
    let world = World::new();
    let database = world.open();
    let fork = put(&database, 1, b"common");
    world.back_up(&database);
    let early = database.statistics().log.appended;
    put(&database, 1, b"common to both");
    let common = state_of(&database);
    let fork_end = database.log().archive_now().unwrap();
    assert!(fork_end > fork);
    put(&database, 2, b"old way");
    database.log().archive_now().unwrap();
    let old = state_of(&database);
    database.close().unwrap();

    let (disk, report) = world.restore(RestoreTarget::Lsn(fork_end)).unwrap();
    assert_eq!((report.from_timeline.get(), report.timeline.get()), (1, 2));
    let restored = world.open_at(&disk);
    assert_eq!((restored.log().timeline().get(), state_of(&restored)), (2, common));
    for key in 10..40 {
        put(&restored, key, &[8; 9_000]);
    }
    let second = restored.log().archive_now().unwrap();
    let new = state_of(&restored);
    restored.close().unwrap();

    // From the backup that was taken on the first timeline.
    let along = |target| RestoreRequest { target, timeline: TimelineId::new(2), ..RestoreRequest::default() };
    for (seed, target) in [(10, RestoreTarget::Latest), (11, RestoreTarget::Lsn(second))] {
        let disk = SimulatedDisk::new(seed);
        world.restore_to(&disk, &along(target)).unwrap();
        assert!(state_of(&world.open_restored(&disk)) == new);
    }
    // A place before the fork, where both timelines have the same.
    let request = RestoreRequest { target: RestoreTarget::Lsn(early), ..RestoreRequest::default() };
    let disk = SimulatedDisk::new(6);
    let report = world.restore_to(&disk, &request).unwrap();
    assert!(report.end.end <= early && early < fork_end);
    let way_back = world.open_restored(&disk);
    assert_eq!(state_of(&way_back)["t"].len(), 1);
    way_back.close().unwrap();
    let first = RestoreRequest { timeline: Some(TimelineId::FIRST), ..RestoreRequest::default() };
    let disk = SimulatedDisk::new(7);
    let report = world.restore_to(&disk, &first).unwrap();
    assert_eq!(
        (report.from_timeline.get(), report.timeline.get()),
        (1, 6),
        "a number that none has, or has reserved"
    );
    assert!(state_of(&world.open_restored(&disk)) == old);
}

#[test]
fn rows_loaded_past_the_log_are_in_the_next_backup_and_stop_a_restore_from_the_one_before() {
    let world = World { archives: false, ..World::new() };
    let database = world.open();
    put(&database, 1, b"x");
    world.back_up(&database);
    let before = state_of(&database);
    let mut load = database.tables().bulk_load("loaded").unwrap();
    for key in 0..2000_u32 {
        load.add(key.to_be_bytes(), [4; 50]).unwrap();
    }
    load.finish().unwrap();
    // The log up to the end of the second backup has the record, and the first backup is the only one before that.
    let second = world.back_up(&database);
    assert_eq!(world.restored_state(RestoreTarget::Latest), state_of(&database));
    let manifests = backups(&world.repository(), second.manifest.base.database).unwrap().complete;
    assert_eq!(manifests.len(), 2);
    let first_end = manifests[0].manifest.end.end;
    assert_eq!(world.restored_state(RestoreTarget::Lsn(first_end)), before);
    let just_before = Lsn::new(second.manifest.end.end.get() - 1);
    let problem = error_of(&world, RestoreTarget::Lsn(just_before));
    assert!(problem.contains("loaded past the log"), "{problem}");
}

#[test]
fn loads_are_logged_while_the_log_is_archived() {
    let world = World::new();
    let database = world.open();
    put(&database, 1, b"x");
    world.back_up(&database);
    for (name, keys) in [("in order", [1_u32, 2, 3]), ("out of order", [3, 1, 2])] {
        let mut load = database.tables().bulk_load(name).unwrap();
        for key in keys.iter().flat_map(|key| (0..500).map(move |number| key * 1000 + number)) {
            load.add(key.to_be_bytes(), [4; 900]).unwrap();
        }
        load.finish().unwrap();
    }
    database.log().archive_now().unwrap();
    assert_eq!(world.restored_state(RestoreTarget::Latest), state_of(&database));
}

#[test]
fn encrypted_databases_are_backed_up_into_encrypted_repositories_only() {
    let world = World::encrypted();
    let database = world.open();
    for key in 0..100 {
        put(&database, key, b"a secret that nobody should find");
    }
    world.back_up(&database);
    put(&database, 1, b"a secret behind the backup");
    database.log().archive_now().unwrap();
    assert_eq!(world.restored_state(RestoreTarget::Latest), state_of(&database));
    let plain = World::new();
    let refused = plain.back_up_while(&database, 1000, || {});
    assert!(matches!(refused, Err(BackupError::RepositoryNotEncrypted { .. })), "{refused:?}");
    let other = World { master_key: None, ..World::new() };
    assert!(other.restore(RestoreTarget::Latest).is_err());
}

#[test]
fn a_backup_of_an_open_database_does_not_keep_its_log_for_longer() {
    let world = World { archives: false, ..World::new() };
    let database = world.open();
    put(&database, 1, b"x");
    let held = std::cell::Cell::new(0);
    world.back_up_while(&database, 1000, || held.set(database.log().holds().unwrap().len())).unwrap();
    assert_eq!((held.get(), database.log().holds().unwrap().len()), (1, 0));
}

#[test]
fn a_directory_with_the_marker_of_a_restore_is_opened_by_nobody() {
    let world = World::new();
    let database = world.open();
    put(&database, 1, b"x");
    database.close().unwrap();
    world.disk.open("restoring", seawall_io::OpenMode::Create).unwrap();
    for mode in [OpenMode::Existing, OpenMode::CreateIfMissing, OpenMode::New, OpenMode::ReadOnly] {
        let options = Options { mode, ..world.options() };
        let opened = Database::open(world.environment(&world.disk), options);
        assert!(matches!(opened, Err(Error::Restoring { .. })), "{mode:?}: {opened:?}");
    }
}

#[test]
fn what_a_restore_makes_has_an_ordinary_log() {
    let world = World::new();
    let database = world.open();
    put(&database, 1, b"x");
    world.back_up(&database);
    let end = database.log().archive_now().unwrap();
    let (disk, report) = world.restore(RestoreTarget::Latest).unwrap();
    assert_eq!(report.end.end, end);
    let restored = world.open_restored(&disk);
    let info = restored.info().unwrap();
    assert!(info.redo_point >= end);
    assert_eq!(info.timeline.get(), 2);
    examine(&restored);
}

/// A database of many leaves, with the rows of all of them in the tree.
fn settled(world: &World) -> Database {
    let database = world.open();
    for key in 0..2_000 {
        put(&database, key, &[1; 100]);
    }
    database.checkpoint().unwrap();
    database
}

fn increment(world: &World, database: &Database) -> StoredBackup {
    let options = BackupOptions { is_incremental: true, ..BackupOptions::default() };
    world.back_up_with(database, &options, || {}).unwrap()
}

#[test]
fn an_increment_has_what_has_changed_and_restores_with_what_it_builds_on() {
    let world = World::new();
    let database = settled(&world);
    let full = increment(&world, &database);
    assert_eq!(full.manifest.parent, None, "there was nothing to build on");
    assert!(full.manifest.rows() > 2_000);
    // Rows that change, that go, and that come; a stretch of leaves that goes as a whole.
    put(&database, 700, b"changed");
    put(&database, 1_000_000, b"new");
    let table = database.table("t").unwrap();
    for key in (100..500_u32).chain([1_500]) {
        database.delete(&table, key.to_be_bytes()).unwrap();
    }
    database.checkpoint().unwrap();
    let first = increment(&world, &database);
    assert_eq!(first.manifest.parent.as_ref(), Some(&full.id));
    assert!(first.manifest.rows() < 300, "{} rows", first.manifest.rows());
    let nothing = increment(&world, &database);
    assert_eq!(nothing.manifest.parent.as_ref(), Some(&first.id));
    assert!(nothing.manifest.rows() < 150, "{} rows", nothing.manifest.rows());
    put(&database, 701, b"changed later");
    let in_log = put(&database, 702, b"in the log only");
    database.log().archive_now().unwrap();
    assert!(world.restored_state(RestoreTarget::Lsn(in_log)) == state_of(&database));
    // Each of them is a backup of its own.
    let end = first.manifest.end.end;
    let (_, report) = world.restore(RestoreTarget::Lsn(end)).unwrap();
    assert_eq!((report.backup, report.rows), (first.id.clone(), 1_600 + system_rows(&first)));
    // Without its parent it is nothing.
    let system = System::Seawall(full.manifest.base.database);
    world.store.remove(&format!("{system}/backups/{}/manifest", full.id)).unwrap();
    let problem = error_of(&world, RestoreTarget::Lsn(end));
    assert!(problem.contains(&full.id) && problem.contains(&first.id), "{problem}");
}

fn system_rows(backup: &StoredBackup) -> u64 {
    backup.manifest.runs[0].rows
}

#[test]
fn rows_that_were_written_before_a_backup_and_linked_after_it_are_in_its_increments() {
    let world = World { archives: false, ..World::new() };
    let database = settled(&world);
    let mut load = database.tables().bulk_load("loaded").unwrap();
    for key in 0..2_000_u32 {
        load.add(key.to_be_bytes(), [7; 100]).unwrap();
    }
    // Its leaves are written, and stamped, before the redo point of the backup.
    put(&database, 1, b"later than the load");
    database.checkpoint().unwrap();
    world.back_up(&database);
    load.finish().unwrap();
    for _ in 0..2 {
        let backup = increment(&world, &database);
        assert!(backup.manifest.parent.is_some());
        assert!(world.restored_state(RestoreTarget::Latest) == state_of(&database));
    }
}

/// Bulk loads have leaves of their own.
fn load(database: &Database, name: &str) {
    let mut load = database.tables().bulk_load(name).unwrap();
    (0..100_u32).for_each(|key| load.add(key.to_be_bytes(), [8; 500]).unwrap());
    load.finish().unwrap();
}

#[test]
fn rows_that_were_cut_out_without_a_write_in_between_stay_out_of_increments() {
    let world = World::new();
    let database = settled(&world);
    ["before", "between", "behind"].iter().for_each(|name| load(&database, name));
    database.checkpoint().unwrap();
    let snapshot = database.snapshot();
    database.tables().drop("between").unwrap();
    // The snapshot keeps its rows in the tree, between leaves that stay as they are.
    database.checkpoint().unwrap();
    world.back_up(&database);
    drop(snapshot);
    for _ in 0..3 {
        database.checkpoint().unwrap();
    }
    let backup = increment(&world, &database);
    assert!(backup.manifest.parent.is_some() && backup.manifest.rows() < 300);
    assert!(world.restored_state(RestoreTarget::Latest) == state_of(&database));
}

#[test]
fn leaves_that_have_gone_between_two_that_stay_are_gone_in_increments() {
    let world = World::new();
    let database = world.open();
    for key in 0..400 {
        put(&database, key, &[1; 900]);
    }
    database.checkpoint().unwrap();
    world.back_up(&database);
    let table = database.table("t").unwrap();
    // With three or four rows a leaf, some of these begin and end where leaves do.
    for from in [40, 101, 162, 223, 284] {
        for key in from..from + 24_u32 {
            database.delete(&table, key.to_be_bytes()).unwrap();
        }
    }
    database.checkpoint().unwrap();
    assert!(increment(&world, &database).manifest.rows() < 100);
    assert!(world.restored_state(RestoreTarget::Latest) == state_of(&database));
}

#[test]
fn a_restored_database_begins_with_a_full_backup() {
    let world = World::new();
    let database = settled(&world);
    world.back_up(&database);
    database.log().archive_now().unwrap();
    database.close().unwrap();
    let (disk, _) = world.restore(RestoreTarget::Latest).unwrap();
    let database = world.open_at(&disk);
    let backup = increment(&world, &database);
    assert_eq!(backup.manifest.parent, None);
    assert!(backup.manifest.rows() > 2_000);
}

#[test]
fn long_values_make_no_longer_runs() {
    let world = World::new();
    let database = world.open();
    for key in 0..40 {
        put(&database, key, &[7; 30_000]);
    }
    database.checkpoint().unwrap();
    // All of them are in one leaf.
    let backup = world.back_up_while(&database, 100_000, || {}).unwrap();
    let longest = backup.manifest.runs.iter().map(|run| run.bytes).max();
    assert!(longest < Some(140_000), "{longest:?} bytes in a run");
    assert!(world.restored_state(RestoreTarget::Latest) == state_of(&database));
    put(&database, 7, &[8; 30_000]);
    database.checkpoint().unwrap();
    assert!(increment(&world, &database).manifest.parent.is_some());
    assert!(world.restored_state(RestoreTarget::Latest) == state_of(&database));
}

#[test]
fn a_damaged_manifest_or_run_spoils_no_other_backup() {
    let world = World::new();
    let database = settled(&world);
    let first = world.back_up(&database);
    put(&database, 1, b"later");
    let second = world.back_up(&database);
    database.log().archive_now().unwrap();
    let system = System::Seawall(first.manifest.base.database);
    let whole = world.store.copy();
    let damage = |world: &World, object: &str| {
        let path = format!("{system}/backups/{}/{object}", second.id);
        let file = world.store.open(&path, seawall_io::OpenMode::Write).unwrap();
        file.write_all_at(b"rot", 600).unwrap();
    };
    damage(&world, "manifest");
    let stored = backups(&world.repository(), first.manifest.base.database).unwrap();
    assert_eq!((stored.complete.len(), stored.damaged.len()), (1, 1), "{stored:?}");
    assert!(world.restored_state(RestoreTarget::Latest) == state_of(&database));
    // Of a run, the restore hears when it comes to it, and another backup can be named.
    let world = World { store: whole, ..world };
    damage(&world, "run-00000001");
    let problem = error_of(&world, RestoreTarget::Latest);
    assert!(problem.contains("run-00000001"), "{problem}");
    let request = RestoreRequest { backup: Some(first.id.clone()), ..RestoreRequest::default() };
    let disk = SimulatedDisk::new(9);
    assert_eq!(world.restore_to(&disk, &request).unwrap().backup, first.id);
    let unknown = RestoreRequest { backup: Some("yesterday's".to_owned()), ..RestoreRequest::default() };
    let problem = world.restore_to(&SimulatedDisk::new(9), &unknown).unwrap_err().to_string();
    assert!(problem.contains("yesterday's"), "{problem}");
}

#[test]
fn an_increment_onto_a_chain_that_is_broken_or_long_is_a_full_backup() {
    let world = World::new();
    let database = settled(&world);
    let full = world.back_up(&database);
    assert!(increment(&world, &database).manifest.parent.is_some());
    let options = BackupOptions { is_incremental: true, chain_max: 2, ..BackupOptions::default() };
    let third = world.back_up_with(&database, &options, || {}).unwrap();
    assert_eq!(third.manifest.parent, None, "a restore would have read three");
    let fourth = increment(&world, &database);
    assert_eq!(fourth.manifest.parent, Some(third.id.clone()));
    let system = System::Seawall(full.manifest.base.database);
    world.store.remove(&format!("{system}/backups/{}/manifest", third.id)).unwrap();
    let fifth = increment(&world, &database);
    assert_eq!(fifth.manifest.parent, None, "it would have built on one that nobody can restore");
    let kept = fifth.manifest.runs.iter().filter(|run| run.kind == RunKind::Kept);
    assert_eq!(kept.count(), 0);
}

#[test]
fn a_missing_end_of_the_log_is_a_gap_where_something_behind_it_is_there() {
    let world = World::new();
    let database = settled(&world);
    world.back_up(&database);
    for key in 0..8 {
        put(&database, key, &[5; 20_000]);
        database.log().archive_now().unwrap();
    }
    let system = System::Seawall(database_of(&world));
    let segment = database.statistics().log.appended.get() / SEGMENT_BYTES;
    // The last segment that is whole; behind it there are tails only.
    let name = format!("{system}/log/00000001/00000000000000/00000001{:016X}", segment - 1);
    world.store.remove(&name).unwrap();
    let problem = error_of(&world, RestoreTarget::Lsn(database.statistics().log.appended));
    assert!(problem.contains("there is a gap"), "{problem}");
    let lsn = problem.split("--to-lsn ").nth(1).and_then(|rest| rest.split('`').next()).unwrap();
    world.restored_state(RestoreTarget::Lsn(lsn.parse().unwrap()));
}

fn database_of(world: &World) -> seawall_types::DatabaseId {
    seawall_backup::databases(&world.repository()).unwrap()[0]
}
