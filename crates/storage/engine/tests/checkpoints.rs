//! When checkpoints start, what they say about themselves, and what they do to writers and old snapshots.
#![expect(clippy::unwrap_used, reason = "a test that fails panics")]

mod common;

use std::sync::Arc;
use std::time::Duration;

use seawall_engine::{
    AtLimit, Background, Database, DatabaseDirectory, Durability, Environment, HoldOptions, OpenMode,
    Options, Table, ThrottleReason, Trigger,
};
use seawall_io::Clock;
use seawall_simulation::{SimulatedClock, SimulatedDisk, SimulatedRandom};

use common::small_options as options;

fn open(disk: &SimulatedDisk, options: Options) -> Database {
    common::try_open(disk, options).unwrap()
}

fn fill(database: &Database, table: &Table, rows: std::ops::Range<u32>) {
    for row in rows {
        database.put(table, row.to_be_bytes(), [7; 100]).unwrap();
    }
}

#[test]
fn a_checkpoint_says_what_it_did() {
    let database = open(&SimulatedDisk::new(1), options());
    let table = database.create_table("t").unwrap();
    let before = database.statistics().checkpoints.redo_point;
    fill(&database, &table, 0..2000);
    let first = database.checkpoint().unwrap();
    assert_eq!((first.trigger, first.redo_point_before), (Trigger::Request, before));
    assert!(first.redo_point > before && first.redo_point == database.statistics().checkpoints.redo_point);
    assert!(first.rows >= 2000 && first.chunks > 1 && first.fresh_pages > 20, "{first:?}");
    assert_eq!(first.image_bytes, first.protected_pages * 8192);
    assert!(first.recovery_file_bytes > 0 && first.recovery_file_bytes < first.image_bytes, "{first:?}");
    assert_eq!(first.page_file_bytes, first.pages_written() * 8192);
    fill(&database, &table, 0..10);
    let second = database.checkpoint().unwrap();
    assert_eq!((second.redo_point_before, second.rows), (first.redo_point, 10));
    assert_eq!(database.info().unwrap().recent_checkpoints, [first, second]);
}

/// The estimate sees what checkpoints have put into the tree, of this table alone.
#[test]
fn rows_in_a_range_are_estimated() {
    let database = open(&SimulatedDisk::new(3), options());
    let (table, other) = (database.create_table("t").unwrap(), database.create_table("u").unwrap());
    assert_eq!(database.snapshot().estimate_rows::<&[u8]>(&table, ..).unwrap(), 0.0);
    fill(&database, &table, 0..5000);
    fill(&database, &other, 0..2000);
    database.checkpoint().unwrap();
    let snapshot = database.snapshot();
    let all = snapshot.estimate_rows::<&[u8]>(&table, ..).unwrap();
    assert!((4000.0..6000.0).contains(&all), "{all}");
    let part = snapshot.estimate_rows(&table, 1000_u32.to_be_bytes()..2000_u32.to_be_bytes()).unwrap();
    assert!((700.0..1300.0).contains(&part), "{part}");
    let none = snapshot.estimate_rows(&table, 6000_u32.to_be_bytes()..).unwrap();
    assert!(none < 100.0, "{none}");
}

#[test]
fn checkpoints_of_earlier_sessions_are_remembered() {
    let disk = SimulatedDisk::new(2);
    let database = open(&disk, options());
    let table = database.create_table("t").unwrap();
    for round in 0..105 {
        fill(&database, &table, round..round + 3);
        database.checkpoint().unwrap();
    }
    let before = database.info().unwrap().recent_checkpoints;
    assert_eq!(before.len(), 100);
    database.close().unwrap();
    let database = open(&disk, options());
    assert_eq!(database.info().unwrap().recent_checkpoints, before);
    database.close().unwrap();
    // What is damaged, or of another database, is forgotten, and nothing else is.
    let mut bytes = disk.read_file("measurements").unwrap();
    bytes[256 * 7 + 60] ^= 1;
    disk.write_file("measurements", &bytes);
    let database = open(&disk, Options { mode: OpenMode::ReadOnly, ..options() });
    assert_eq!(database.info().unwrap().recent_checkpoints.len(), 99);
    drop(database);
    assert!(disk.remove_file("measurements"));
    let database = open(&disk, options());
    assert!(database.info().unwrap().recent_checkpoints.is_empty());
    database.checkpoint().unwrap();
    assert_eq!(database.info().unwrap().recent_checkpoints.len(), 1);
}

#[test]
fn a_database_that_is_opened_for_reading_replays_no_more_rows_than_fit_into_memory() {
    let disk = SimulatedDisk::new(12);
    let mut options = options();
    options.memory.memtable_bytes = 64 << 20;
    options.checkpoint.log_bytes = 1 << 30;
    let database = open(&disk, options.clone());
    let table = database.create_table("t").unwrap();
    let mut little = Options { mode: OpenMode::ReadOnly, ..options.clone() };
    little.memory.memtable_bytes = 1 << 20;
    little.memory.cache_bytes = 64 << 10;
    // Many versions of few rows: packed, they fit.
    for round in 0..50 {
        fill(&database, &table, 0..500);
        database.put(&table, "round", [round]).unwrap();
    }
    database.flush().unwrap();
    let read_only = open(&disk.copy(), little.clone());
    let statistics = read_only.statistics();
    assert!(statistics.memtable.bytes < 1 << 20, "{} bytes", statistics.memtable.bytes);
    let table_there = read_only.table("t").unwrap();
    assert_eq!(read_only.get(&table_there, "round").unwrap().unwrap(), [49]);
    assert_eq!(read_only.snapshot().rows(&table_there).count(), 501);
    // Many rows: they do not.
    fill(&database, &table, 0..20_000);
    database.flush().unwrap();
    let refused = common::try_open(&disk.copy(), little.clone()).map(drop).unwrap_err().to_string();
    assert!(refused.contains("memtable_bytes") && refused.contains("for reading only"), "{refused}");
    let read_only = open(&disk.copy(), little.with(|options| options.memory.memtable_bytes = 64 << 20));
    let table_there = read_only.table("t").unwrap();
    assert_eq!(read_only.snapshot().rows(&table_there).count(), 20_001);
}

#[test]
fn a_check_without_memory_for_the_rows_of_the_log_says_that_it_has_not_read_the_catalog() {
    let disk = SimulatedDisk::new(12);
    let mut options = options();
    options.memory.memtable_bytes = 64 << 20;
    options.checkpoint.log_bytes = 1 << 30;
    let database = open(&disk, options.clone());
    let table = database.create_table("t").unwrap();
    fill(&database, &table, 0..20_000);
    database.flush().unwrap();
    let check = |memtable_bytes| {
        let environment = Environment {
            disk: Arc::new(disk.copy()),
            clock: Arc::new(SimulatedClock::default()),
            random: Arc::new(SimulatedRandom::new(1)),
        };
        let mut options = options.clone();
        options.memory.memtable_bytes = memtable_bytes;
        options.memory.cache_bytes = 64 << 10;
        let mut found = Vec::new();
        let summary = DatabaseDirectory::at(environment).check(options, &mut |damage| found.push(damage));
        (summary.unwrap(), found)
    };
    let (summary, found) = check(1 << 20);
    assert_eq!((summary.damages, summary.unreadable, summary.tables), (0, 1, 0), "{found:?}");
    assert!(summary.log_records > 20_000, "the log was read: {summary:?}");
    assert_eq!((found.len(), found[0].path.as_str()), (1, "catalog"));
    assert!(found[0].what.contains("memtable_bytes"), "{}", found[0]);
    let (summary, found) = check(64 << 20);
    assert_eq!((summary.damages, summary.unreadable, summary.tables), (0, 0, 1), "{found:?}");
}

#[test]
fn a_log_that_would_take_too_long_to_replay_starts_a_checkpoint() {
    let targets = [None, Some(Duration::from_secs(5))];
    for recovery_target in targets {
        let database =
            open(&SimulatedDisk::new(3), options().with(|options| options.recovery.target = recovery_target));
        let table = database.create_table("t").unwrap();
        // One row again and again: the memtable does not grow, the log does, past what a replay can hold.
        for _ in 0..20_000 {
            database.put(&table, "k", [7; 100]).unwrap();
        }
        let triggers: Vec<_> =
            database.info().unwrap().recent_checkpoints.iter().map(|done| done.trigger).collect();
        match recovery_target {
            None => assert_eq!(triggers, []),
            Some(_) => {
                assert!(triggers.len() >= 2, "{triggers:?}");
                assert!(triggers.iter().all(|trigger| *trigger == Trigger::RecoveryTarget), "{triggers:?}");
            }
        }
    }
}

#[test]
fn what_a_recovery_would_replay_is_known() {
    let disk = SimulatedDisk::new(4);
    let database = open(&disk, options());
    let table = database.create_table("t").unwrap();
    database.checkpoint().unwrap();
    fill(&database, &table, 0..500);
    fill(&database, &table, 0..500);
    let expected = database.statistics().recovery_time;
    assert_eq!(expected.rows, 1000, "each version counts");
    assert!(expected.bytes > 100_000 && expected.estimated > Duration::from_millis(200), "{expected:?}");
    assert_eq!(expected.measured_rows_per_second, 0);
    let copy = disk.copy();
    let database = open(&copy, options());
    let recovered = database.statistics();
    assert_eq!((recovered.recovery.rows, recovered.recovery_time.rows), (1000, 1000));
    database.checkpoint().unwrap();
    let after = database.statistics().recovery_time;
    assert_eq!(after.rows, 0);
    assert!(after.bytes < 1000 && after.estimated < expected.estimated, "{after:?}");
}

#[test]
fn a_checkpoint_keeps_to_its_share_of_the_disk() {
    let limit = 1 << 20;
    let database = open(
        &SimulatedDisk::new(5),
        options().with(|options| {
            options.checkpoint.io_limit = limit;
            options.memory.memtable_bytes = 8 << 20;
        }),
    );
    let table = database.create_table("t").unwrap();
    fill(&database, &table, 0..5000);
    let done = database.checkpoint().unwrap();
    let written = done.page_file_bytes + done.recovery_file_bytes;
    // Time passes in pauses only. The last chunk is written after the last of them.
    assert_eq!(done.durations.paused, done.duration);
    let least = Duration::from_secs_f64((written - (200 << 10)) as f64 / limit as f64);
    assert!(done.durations.paused >= least, "{:?} for {written} bytes", done.durations.paused);
    // Who closes does not want to wait for that.
    fill(&database, &table, 0..5000);
    database.clone().close().unwrap();
    let last = database.info().unwrap().recent_checkpoints.pop().unwrap();
    assert_eq!((last.trigger, last.durations.paused), (Trigger::Close, Duration::ZERO));
}

#[test]
fn log_that_is_held_back_slows_writers_before_its_limit() {
    let (disk, clock) = (SimulatedDisk::new(6), SimulatedClock::default());
    let environment = Environment {
        disk: Arc::new(disk),
        clock: Arc::new(clock.clone()),
        random: Arc::new(SimulatedRandom::new(1)),
    };
    let mut options = options();
    options.memory.memtable_bytes = 64 << 20;
    let database = Database::open(environment, options).unwrap();
    let table = database.create_table("t").unwrap();
    let limit_bytes = 16 << 20;
    let options = HoldOptions {
        at_limit: AtLimit::SlowWriters,
        limit_bytes: Some(limit_bytes),
        ..HoldOptions::default()
    };
    let hold = database.log().hold("archive", options, None).unwrap();
    let held = || database.statistics().log.appended.bytes_since(hold.position());
    let round = || {
        let before = clock.monotonic();
        fill(&database, &table, 0..4000);
        clock.monotonic() - before
    };
    assert_eq!((round(), database.statistics().throttle.reason), (Duration::ZERO, None));
    while held() < limit_bytes / 4 * 3 {
        round();
    }
    let slowed = round();
    let seen = database.statistics().throttle;
    assert_eq!(seen.reason, Some(ThrottleReason::HeldBackLog));
    assert!(
        slowed > Duration::from_secs(1) && seen.factor > 0.3 && seen.delay_micros_per_commit > 0,
        "{slowed:?} {seen:?}"
    );
    // Nobody takes any of it away: ever slower, and no hard edge.
    let slower = (0..4).map(|_| round()).max().unwrap();
    assert!(slower > slowed, "{slower:?} {slowed:?}");
    hold.advance(database.statistics().log.appended).unwrap();
    round();
    assert_eq!((round(), database.statistics().throttle.reason), (Duration::ZERO, None));
}

/// With threads and a real clock: whatever the machine does, memory is bounded, and no commit fails.
#[test]
fn writers_faster_than_the_disk_are_slowed_and_memory_stays_bounded() {
    let memtable_bytes = 1 << 20;
    let mut options = Options { background: Background::Threads, ..options() };
    options.memory.memtable_bytes = memtable_bytes;
    let environment = Environment::of_the_system(Arc::new(SimulatedDisk::new(7)));
    let database = Database::open(environment, options).unwrap();
    let table = database.create_table("t").unwrap();
    std::thread::scope(|scope| {
        for writer in 0..4_u64 {
            let (database, table) = (&database, &table);
            scope.spawn(move || {
                for row in 0..20_000 {
                    // Spread over the whole tree, so that merging costs far more than logging.
                    let key = (row * 4 + writer).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                    database.with(Durability::Async).put(table, key.to_be_bytes(), [7; 100]).unwrap();
                    if row % 500 == 0 {
                        let seen = database.statistics();
                        // Twice the limit of the active one at most, and as much frozen: see `writer_pace`.
                        assert!(seen.memtable.bytes <= memtable_bytes * 9 / 4, "{seen:?}");
                    }
                }
            });
        }
    });
    let seen = database.statistics();
    assert!(seen.checkpoints.completed > 5 && seen.throttle.delayed_commits > 0, "{seen:?}");
    assert_eq!(database.snapshot().range::<&[u8]>(&table, ..).count(), 80_000);
    database.check(&mut |damage| panic!("{damage}")).unwrap();
}
