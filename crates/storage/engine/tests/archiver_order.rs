//! Uploads that end out of order, or fail while others succeed; two who wait at a time.
#![allow(clippy::unwrap_used, reason = "a test that fails panics")]

mod common;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use common::memory_archive::{MemoryArchive, SEGMENT_BYTES, State, archive_options, fill};
use common::small_options;
use seawall_engine::{
    ArchiveOptions, ArchiveStatistics, Background, Database, Durability, Environment, Error, Options,
    UPLOADS_AHEAD_MAX,
};
use seawall_simulation::{SimulatedClock, SimulatedDisk, SimulatedRandom};
use seawall_testing::{wait_for, wait_until};

fn open(archive: &Arc<MemoryArchive>, clock: &SimulatedClock, background: Background) -> Database {
    open_with(archive_options(archive), clock, background)
}

fn open_with(archive: ArchiveOptions, clock: &SimulatedClock, background: Background) -> Database {
    let environment = Environment {
        disk: Arc::new(SimulatedDisk::new(1)),
        clock: Arc::new(clock.clone()),
        random: Arc::new(SimulatedRandom::new(1)),
    };
    let options = Options { archives: vec![archive], background, ..small_options() };
    Database::open(environment, options).unwrap()
}

/// The statistics when they are as wanted.
fn seen(database: &Database, is_wanted: impl Fn(&ArchiveStatistics) -> bool) -> ArchiveStatistics {
    wait_for("the archiver to come so far", || {
        Some(database.statistics().archives.remove(0)).filter(&is_wanted)
    })
}

fn first_segment(database: &Database) -> u64 {
    database.statistics().checkpoints.redo_point.get() / SEGMENT_BYTES
}

/// How far behind the first segment that was missing anything was stored, at most.
fn farthest_ahead(state: &State, first: u64) -> u64 {
    let (mut stored, mut farthest) = (BTreeSet::new(), 0);
    for (number, is_whole) in &state.order {
        let missing = (first..).find(|number| !stored.contains(number)).unwrap();
        farthest = farthest.max(number.saturating_sub(missing));
        if *is_whole {
            stored.insert(*number);
        }
    }
    farthest
}

#[test]
fn what_lies_behind_a_segment_that_is_not_there_is_not_archived() {
    let archive = Arc::new(MemoryArchive::default());
    let database = open(&archive, &SimulatedClock::default(), Background::Threads);
    let first = first_segment(&database);
    archive.set(|state| state.held.extend([first]));
    fill(&database, 5);
    let table = database.table("t").unwrap();
    let (sender, receiver) = channel();
    std::thread::scope(|scope| {
        let (database, table) = (&database, &table);
        scope.spawn(move || {
            sender.send(database.with(Durability::Archived).put(table, "k", "v").unwrap()).unwrap();
        });
        // The others, and the tail with the commit.
        let others = first + 1..=first + 5;
        archive.wait_until(|state| {
            others.clone().all(|wanted| state.order.iter().any(|(number, _)| *number == wanted))
        });
        seen(database, |seen| seen.uploads == 1);
        assert!(receiver.try_recv().is_err(), "its record is there, and not all that lies before it");
        let archived = database.statistics().archives[0].archived;
        assert_eq!(archived.get() / SEGMENT_BYTES, first);
        let hold = database.log().holds().unwrap().remove(0);
        assert_eq!(hold.position.get() / SEGMENT_BYTES, first, "the log is kept from there on");
        archive.set(|state| state.held.clear());
        let stamp = receiver.recv().unwrap();
        assert!(database.statistics().archives[0].archived >= stamp);
    });
    assert!(database.log().archive_now().is_ok());
    database.close().unwrap();
}

#[test]
fn nothing_goes_up_that_lies_far_behind_a_segment_that_is_not_there() {
    let archive = Arc::new(MemoryArchive::default());
    let database = open(&archive, &SimulatedClock::default(), Background::Threads);
    let first = first_segment(&database);
    archive.set(|state| state.held.extend([first]));
    fill(&database, UPLOADS_AHEAD_MAX + 10);
    std::thread::scope(|scope| {
        // Asks for a tail.
        let waiter = scope.spawn(|| database.log().archive_now());
        seen(&database, |seen| seen.uploads == 1 && seen.segments == UPLOADS_AHEAD_MAX - 1);
        archive.set(|state| state.held.clear());
        waiter.join().unwrap().unwrap();
    });
    let farthest = farthest_ahead(&archive.state.lock().unwrap(), first);
    assert!((32..=UPLOADS_AHEAD_MAX).contains(&farthest), "{farthest} segments ahead");
    database.close().unwrap();
}

#[test]
fn one_that_fails_again_and_again_keeps_no_other_from_the_only_place() {
    let archive = Arc::new(MemoryArchive::default());
    let clock = SimulatedClock::default();
    let only_place = ArchiveOptions { uploads_max: 1, ..archive_options(&archive) };
    let database = open_with(only_place, &clock, Background::Threads);
    archive.set(|state| state.refused.extend([first_segment(&database)]));
    fill(&database, 4);
    seen(&database, |seen| {
        clock.advance(Duration::from_secs(20));
        seen.segments >= 3 && seen.failures >= 2
    });
    archive.set(|state| state.refused.clear());
    seen(&database, |seen| {
        // One more that was refused may have ended after that, and waits for its time.
        clock.advance(Duration::from_secs(20));
        seen.failing.is_none() && seen.segments_waiting == 0
    });
    database.log().archive_now().unwrap();
    database.close().unwrap();
}

#[test]
fn what_fails_is_told_until_it_succeeds_whatever_else_does() {
    let archive = Arc::new(MemoryArchive::default());
    let clock = SimulatedClock::default();
    let database = open(&archive, &clock, Background::Threads);
    let first = first_segment(&database);
    archive.set(|state| state.refused.extend([first]));
    fill(&database, 4);
    seen(&database, |seen| {
        // A failed upload is tried again when time has passed.
        clock.advance(Duration::from_secs(20));
        assert!(seen.failures == 0 || seen.failing.is_some(), "{seen:?}");
        seen.segments >= 3 && seen.failures >= 2
    });
    archive.set(|state| state.refused.clear());
    seen(&database, |seen| {
        // One more that was refused may have ended after that, and waits for its time.
        clock.advance(Duration::from_secs(20));
        seen.failing.is_none() && seen.segments_waiting == 0
    });
    database.log().archive_now().unwrap();
    assert_eq!(database.statistics().archives[0].failing, None);
    database.close().unwrap();
}

#[test]
fn of_two_who_wait_at_a_time_without_threads_of_the_database_nobody_hangs() {
    for is_down in [false, true] {
        let archive = Arc::new(MemoryArchive::default());
        let database = open(&archive, &SimulatedClock::default(), Background::Manual);
        let table = database.create_table("t").unwrap();
        archive.set(|state| state.is_closed = true);
        let put = |key: &'static str| database.with(Durability::Archived).put(&table, key, "v");
        std::thread::scope(|scope| {
            let first = scope.spawn(|| put("first"));
            archive.wait_until(|state| state.waiting > 0);
            let second = scope.spawn(|| put("second"));
            wait_until("the second commit to be visible", || {
                database.get(&table, "second").unwrap().is_some()
            });
            archive.set(|state| (state.is_closed, state.is_down) = (false, is_down));
            for told in [first.join().unwrap(), second.join().unwrap()] {
                assert_eq!(matches!(told, Err(Error::DoneNotArchived { .. })), is_down, "{told:?}");
            }
        });
        archive.set(|state| state.is_down = false);
        database.log().archive_now().unwrap();
    }
}
