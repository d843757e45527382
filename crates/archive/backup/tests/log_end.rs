//! Where a restore stops reading the log, and that the end of what the repository has is no place where damage goes unseen.
#![allow(clippy::unwrap_used, reason = "a test that fails panics")]

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{SEGMENT_BYTES, State, World, state_of};
use seawall_archive::{LogFileName, ObjectName, Packing, System};
use seawall_backup::{
    BackupError, RepositoryArchive, RestoreProgress, RestoreReport, RestoreRequest, restore,
};
use seawall_engine::{ArchivedLog, Database, LogArchive, LogFile, RestoreTarget};
use seawall_io::{Clock, Disk, OpenMode};
use seawall_simulation::{Fault, FaultError, FaultTarget, Operations, SimulatedDisk};
use seawall_types::{DatabaseId, Lsn, TimelineId};
use seawall_wal::SegmentName;

fn put(database: &Database, key: u32, value: &[u8]) -> Lsn {
    let table = database.table("t").or_else(|_| database.create_table("t")).unwrap();
    database.put(&table, key.to_be_bytes(), value).unwrap()
}

fn database_of(world: &World) -> DatabaseId {
    seawall_backup::databases(&world.repository()).unwrap()[0]
}

/// Tails of the first timeline: object, segment, from, to.
fn tails(world: &World) -> Vec<(ObjectName, u64, u64, u64)> {
    let system = System::Seawall(database_of(world));
    let listed = world.repository().list_objects(system, "tails/00000001").unwrap();
    let tail = |(name, _): (ObjectName, u64)| {
        let (segment, range) = name.file_name().split_once('.').unwrap();
        let (from, to) = range.split_once('-').unwrap();
        let number = |digits: &str| u64::from_str_radix(digits, 16).unwrap();
        let tail = (number(&segment[8..]), number(from), number(to));
        (name, tail.0, tail.1, tail.2)
    };
    listed.into_iter().map(tail).collect()
}

/// A segment of the first timeline as the store has it.
fn segment_path(world: &World, number: u64) -> String {
    let system = System::Seawall(database_of(world));
    format!("{system}/log/00000001/00000000000000/00000001{number:016X}")
}

/// The numbers of the whole segments of the first timeline.
fn segments(world: &World) -> Vec<u64> {
    let system = System::Seawall(database_of(world));
    let listed = world.repository().list(system, Some(TimelineId::FIRST)).unwrap();
    let number = |(name, _)| match name {
        LogFileName::Segment(place) => Some(place.digits),
        _ => None,
    };
    listed.into_iter().filter_map(number).collect()
}

fn rot(world: &World, path: &str) {
    world.store.open(path, OpenMode::Write).unwrap().write_all_at(b"rot", 600).unwrap();
}

/// Restores, and counts the segments that were fetched.
fn restore_counted(
    world: &World,
    target: &RestoreTarget,
) -> Result<(State, RestoreReport, u64), BackupError> {
    let disk = SimulatedDisk::new(9);
    let request = RestoreRequest { target: target.clone(), ..RestoreRequest::default() };
    let mut fetched = 0;
    let report =
        restore(&world.repository(), &world.environment(&disk), &world.options(), &request, &mut |step| {
            if let RestoreProgress::Log { segments } = step {
                fetched = segments;
            }
        })?;
    Ok((state_of(&world.open_restored(&disk)), report, fetched))
}

/// What is read wrongly from a disk before it goes up has the right checksums in the archive.
#[test]
fn a_flipped_bit_in_the_last_batch_that_is_archived_is_damage_and_no_torn_end() {
    let world = World::new();
    let database = world.open();
    put(&database, 1, b"x");
    world.back_up(&database);
    let begin = database.log().archive_now().unwrap();
    put(&database, 2, &[7; 300]);
    let end = database.log().archive_now().unwrap();
    let expected = state_of(&database);
    assert!(world.restored_state(RestoreTarget::Latest) == expected);
    let (tail, number, from, to) =
        tails(&world).into_iter().find(|tail| tail.3 == end.get() % SEGMENT_BYTES).unwrap();
    assert_eq!(from, begin.get() % SEGMENT_BYTES, "the last commit has a tail of its own");
    let id = database_of(&world);
    let mut content = Vec::new();
    world.repository().fetch_object(System::Seawall(id), &tail, &mut content).unwrap();
    let whole = world.store.copy();
    // The header of the record, and some of its body.
    for byte in (0..14).chain((14..content.len()).step_by(50)) {
        let world = World { store: whole.copy(), ..World::new() };
        let repository = world.repository();
        repository.remove_object(System::Seawall(id), &tail).unwrap();
        let clock: Arc<dyn Clock> = Arc::new(world.clock.clone());
        let archive = RepositoryArchive::new(repository, Packing::default(), clock);
        let mut flipped = content.clone();
        flipped[byte] ^= 1 << (byte % 8);
        let segment = SegmentName { number, timeline: TimelineId::FIRST };
        let log = ArchivedLog { database: id, segment_bytes: SEGMENT_BYTES };
        archive.store(&log, LogFile::Tail { segment, from, to }, &flipped).unwrap();
        for target in [RestoreTarget::Latest, RestoreTarget::Lsn(end)] {
            let refused = world.restore(target).map(|(_, report)| report);
            let Err(BackupError::Damaged { object, problem }) = refused else {
                panic!("byte {byte}: {refused:?}")
            };
            assert!(object.contains("log"), "{object}");
            assert!(
                problem.contains(&segment.file_name()) && problem.contains(&begin.to_string()),
                "{problem}"
            );
        }
    }
}

/// A history with a name and a time early in a log of several segments.
struct Story {
    world: World,
    database: Database,
    state: State,
    time: i64,
    /// The segment of the name.
    segment: u64,
}

fn story() -> Story {
    let world = World::new();
    let database = world.open();
    put(&database, 1, b"x");
    world.back_up(&database);
    put(&database, 2, b"y");
    let state = state_of(&database);
    let time = world.clock.wall_micros();
    world.clock.advance(Duration::from_secs(60));
    let segment = database.log().create_restore_point("here").unwrap().get() / SEGMENT_BYTES;
    for key in 0..120 {
        put(&database, key, &[5; 9_000]);
        world.clock.advance(Duration::from_secs(1));
    }
    database.log().archive_now().unwrap();
    Story { world, database, state, time, segment }
}

#[test]
fn a_restore_to_a_time_or_a_name_reads_no_further_than_it_has_to() {
    let Story { world, state, time, .. } = story();
    assert!(segments(&world).len() > 12);
    for target in [RestoreTarget::Time(time), RestoreTarget::RestorePoint("here".to_owned())] {
        let (restored, _, fetched) = restore_counted(&world, &target).unwrap();
        assert!(restored == state);
        assert!(fetched < 4, "{fetched} segments for {target:?}");
    }
}

/// A backup may begin before a restore point and end behind it: then it is of no use for that.
#[test]
fn a_restore_point_that_the_newest_backup_has_passed_is_reached_from_an_older_one() {
    let world = World::new();
    let database = world.open();
    put(&database, 1, b"x");
    let first = world.back_up(&database);
    put(&database, 2, b"y");
    let state = state_of(&database);
    let mut is_there = false;
    let during = || {
        if !std::mem::replace(&mut is_there, true) {
            database.log().create_restore_point("here").unwrap();
            put(&database, 3, b"z");
        }
    };
    world.back_up_while(&database, 1000, during).unwrap();
    put(&database, 4, b"later");
    database.log().archive_now().unwrap();
    let named = |backup: Option<&str>| RestoreRequest {
        target: RestoreTarget::RestorePoint("here".to_owned()),
        backup: backup.map(str::to_owned),
        ..RestoreRequest::default()
    };
    let disk = SimulatedDisk::new(9);
    let report = world.restore_to(&disk, &named(None)).unwrap();
    assert_eq!(report.backup, first.id);
    assert!(state_of(&world.open_restored(&disk)) == state);
    // One of the same name behind the newest backup is nearer.
    database.log().create_restore_point("here").unwrap();
    let later = state_of(&database);
    put(&database, 5, b"behind");
    database.log().archive_now().unwrap();
    assert!(restore_counted(&world, &named(None).target).unwrap().0 == later);
    let disk = SimulatedDisk::new(9);
    world.restore_to(&disk, &named(Some(&first.id))).unwrap();
    assert!(state_of(&world.open_restored(&disk)) == state);
}

#[test]
fn what_lies_behind_the_target_may_be_damaged_or_missing() {
    let Story { world, database, state, time, segment } = story();
    let whole = world.store.copy();
    let damages: [fn(&World, u64); 2] = [
        |world, number| rot(world, &segment_path(world, number)),
        |world, number| world.store.remove(&segment_path(world, number)).unwrap(),
    ];
    for damage in damages {
        let world = World { store: whole.copy(), ..World::new() };
        damage(&world, segment + 3);
        let named = RestoreTarget::RestorePoint("here".to_owned());
        for target in [&RestoreTarget::Time(time), &named] {
            assert!(restore_counted(&world, target).unwrap().0 == state);
        }
        let elsewhere = RestoreTarget::RestorePoint("elsewhere".to_owned());
        assert!(restore_counted(&world, &elsewhere).is_err());
        // Before the target it matters.
        let world = World { store: whole.copy(), ..World::new() };
        damage(&world, segment);
        assert!(restore_counted(&world, &named).is_err());
        assert!(restore_counted(&world, &RestoreTarget::Time(time)).is_err());
    }
    database.close().unwrap();
}

#[test]
fn rows_that_were_loaded_past_the_log_behind_the_target_do_not_matter() {
    let world = World { archives: false, ..World::new() };
    let database = world.open();
    put(&database, 1, b"x");
    world.back_up(&database);
    put(&database, 2, b"y");
    let state = state_of(&database);
    let time = world.clock.wall_micros();
    world.clock.advance(Duration::from_secs(60));
    database.log().create_restore_point("before the load").unwrap();
    let mut load = database.tables().bulk_load("loaded").unwrap();
    (0..2000_u32).for_each(|key| load.add(key.to_be_bytes(), [4; 50]).unwrap());
    load.finish().unwrap();
    database.log().create_restore_point("after the load").unwrap();
    // The log goes along with it.
    world.back_up(&database);
    assert!(world.restored_state(RestoreTarget::RestorePoint("before the load".to_owned())) == state);
    assert!(world.restored_state(RestoreTarget::Time(time)) == state);
    let late = RestoreTarget::RestorePoint("after the load".to_owned());
    let problem = world.restore(late).map(|(_, report)| report).unwrap_err().to_string();
    assert!(problem.contains("loaded past the log"), "{problem}");
}

/// The clock was set back: its times come twice, and a restore stops before the first commit that was made later.
#[test]
fn a_restore_to_a_time_stops_before_the_first_commit_that_is_later_also_where_the_clock_was_set_back() {
    let world = World::new();
    let begin = world.clock.wall_micros();
    let database = world.open();
    put(&database, 0, b"0");
    world.back_up(&database);
    let mut moments = Vec::new();
    // Seconds since the beginning; the clock is set back by 30 and goes on.
    for (key, second) in [10, 20, 30, 40, 10, 20, 30, 40, 50].into_iter().enumerate() {
        world.clock.set_wall_micros(begin + second * 1_000_000);
        put(&database, u32::try_from(key).unwrap(), b"x");
        moments.push((second, state_of(&database)));
    }
    database.log().archive_now().unwrap();
    let restored = |second: i64| world.restored_state(RestoreTarget::Time(begin + second * 1_000_000));
    for (second, state) in &moments[..3] {
        assert!(restored(*second) == *state, "{second} s come twice: the first ones count");
        assert!(restored(*second + 5) == *state, "{second} s");
    }
    // Later than all before the clock was set back: the first commit after 40 s is that of 50 s.
    assert!(restored(40) == moments[7].1);
    assert!(restored(49) == moments[7].1);
    assert!(world.restore(RestoreTarget::Time(begin + 50_000_000)).is_err());
}

fn is_gap(world: &World, request: &RestoreRequest) -> bool {
    let refused = world.restore_to(&SimulatedDisk::new(9), request);
    match refused {
        Err(BackupError::Gap { .. }) => true,
        Ok(_) => false,
        Err(other) => panic!("{other}"),
    }
}

/// A drill of a database that archives meets what is on its way; what is older than that is lost.
#[test]
fn a_part_that_is_missing_is_a_gap_unless_all_behind_it_is_young_and_near_and_somebody_asks_for_that() {
    let world = World::new();
    let database = world.open();
    put(&database, 1, b"x");
    let backup = world.back_up(&database);
    let moments: Vec<Lsn> = (0..500).map(|key| put(&database, key % 50, &[5; 9_000])).collect();
    let end = database.log().archive_now().unwrap();
    let last = end.get() / SEGMENT_BYTES;
    let whole = world.store.copy();
    let young = RestoreRequest { settle: Some(Duration::from_secs(300)), ..RestoreRequest::default() };
    for missing in [last - 1, last - 64] {
        let world = World { store: whole.copy(), ..World::new() };
        world.store.remove(&segment_path(&world, missing)).unwrap();
        let disk = SimulatedDisk::new(9);
        let report = world.restore_to(&disk, &young).unwrap();
        let on_its_way = report.on_its_way.unwrap();
        assert_eq!(on_its_way.from.get() / SEGMENT_BYTES, missing);
        assert_eq!(on_its_way.to.get() / SEGMENT_BYTES, missing + 1);
        // The last commit whose record lies in the log before.
        let before = *moments.iter().rfind(|lsn| **lsn <= on_its_way.from).unwrap();
        assert_eq!(report.end.end, before);
        let expected = world.restored_state(RestoreTarget::Lsn(before));
        assert!(state_of(&world.open_restored(&disk)) == expected);
        // Who asks for what lies behind it is told.
        assert!(is_gap(&world, &RestoreRequest { target: RestoreTarget::Lsn(end), ..young.clone() }));
        let late = RestoreTarget::Time(backup.manifest.end.time_micros + 1);
        assert!(is_gap(&world, &RestoreRequest { target: late, ..young.clone() }));
        // It may have been there, and acknowledged: a restore says how to get what lies before it.
        let problem = world.restore(RestoreTarget::Latest).map(drop).unwrap_err().to_string();
        assert!(problem.contains(&format!("`--to-lsn {}`", on_its_way.from)), "{problem}");
        assert!(world.restored_state(RestoreTarget::Lsn(on_its_way.from)) == expected);
        world.clock.advance(Duration::from_secs(400));
        assert!(is_gap(&world, &young), "nothing is on its way for so long");
    }
    let far = World { store: whole.copy(), ..World::new() };
    far.store.remove(&segment_path(&far, last - 65)).unwrap();
    assert!(is_gap(&far, &young), "no upload begins so far ahead");
    // A backup behind it had all that it needs, and more; also one of which only the manifest is damaged.
    database.checkpoint().unwrap();
    let newer = world.back_up(&database);
    database.log().archive_now().unwrap();
    world.store.remove(&segment_path(&world, last - 3)).unwrap();
    assert!(restore_counted(&world, &RestoreTarget::Latest).unwrap().1.on_its_way.is_none());
    assert!(is_gap(&world, &RestoreRequest { backup: Some(backup.id.clone()), ..young.clone() }));
    let system = System::Seawall(database_of(&world));
    rot(&world, &format!("{system}/backups/{}/manifest", newer.id));
    assert!(is_gap(&world, &young));
}

#[test]
fn the_end_of_a_timeline_that_was_left_was_there_before_it_was_left() {
    let world = World::new();
    let database = world.open();
    put(&database, 1, b"x");
    world.back_up(&database);
    let begin = database.log().archive_now().unwrap();
    let state = state_of(&database);
    put(&database, 2, b"y");
    database.log().archive_now().unwrap();
    database.close().unwrap();
    let (disk, _) = world.restore(RestoreTarget::Latest).unwrap();
    let restored = world.open_at(&disk);
    put(&restored, 3, b"z");
    restored.log().archive_now().unwrap();
    restored.close().unwrap();
    let system = System::Seawall(database_of(&world));
    for (tail, number, from, _) in tails(&world) {
        if number == begin.get() / SEGMENT_BYTES && from == begin.get() % SEGMENT_BYTES {
            world.repository().remove_object(system, &tail).unwrap();
        }
    }
    assert!(is_gap(&world, &RestoreRequest { settle: Some(Duration::MAX), ..RestoreRequest::default() }));
    assert!(world.restored_state(RestoreTarget::Lsn(begin)) == state);
}

/// Nothing is asked of the store behind the name: what it has there, and how it is, does not matter.
#[test]
fn nothing_is_fetched_from_behind_a_restore_point() {
    let Story { world, segment, state, .. } = story();
    let last = *segments(&world).iter().max().unwrap();
    assert!(last > segment + 3);
    for number in segment + 1..=last {
        let target =
            FaultTarget::Path { prefix: segment_path(&world, number), operations: Operations::Reads };
        world.store.inject(Fault { target, error: FaultError::Number(5), skip: 0, count: u64::MAX });
    }
    let named = RestoreRequest {
        target: RestoreTarget::RestorePoint("here".to_owned()),
        threads: 1,
        ..RestoreRequest::default()
    };
    let disk = SimulatedDisk::new(9);
    world.restore_to(&disk, &named).unwrap();
    assert!(state_of(&world.open_restored(&disk)) == state);
}
