//! Standbys that are made from a backup, and receive the log of the repository.
//!
//! Invariants: a copy that resumes after a crash equals a copy without one; an incomplete copy does not open as a database.
#![allow(clippy::unwrap_used, reason = "a test that fails panics")]

mod common;

use std::ops::ControlFlow;

use common::{SEGMENT_BYTES, World, state_of};
use seawall_backup::{BackupError, RepositoryLog, StandbyCopy, copy_for_standby};
use seawall_engine::{Database, DatabaseDirectory, Error, OpenMode, Options};
use seawall_simulation::{PowerLoss, SimulatedDisk, crash_step};
use seawall_types::Lsn;

fn options(world: &World) -> Options {
    Options { archives: Vec::new(), mode: OpenMode::Existing, ..world.options() }
}

fn copy(world: &World, disk: &SimulatedDisk) -> Result<StandbyCopy, BackupError> {
    copy_for_standby(&world.repository(), &world.environment(disk), &options(world), None, &mut |_| {})
}

fn follow(world: &World, disk: &SimulatedDisk) -> Result<Database, Error> {
    DatabaseDirectory::at(world.environment(disk)).follow(options(world))
}

/// Receives some pieces of the repository's log; whether there were so many.
fn receive_pieces(world: &World, database: &Database, pieces: usize) -> bool {
    let standby = database.standby().unwrap();
    let history = database.log().timeline_history(database.log().timeline()).unwrap();
    let log = RepositoryLog::new(world.repository(), database.info().unwrap().database);
    let mut left = pieces;
    let mut put = |start: Lsn, bytes: &[u8]| {
        standby.receive(start, bytes).unwrap();
        left -= 1;
        if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    log.fetch(&history, SEGMENT_BYTES, standby.wanted().unwrap(), Lsn::MAX, &mut put).unwrap();
    standby.sync().unwrap();
    standby.apply().unwrap();
    left == 0
}

fn receive(world: &World, database: &Database) {
    assert!(!receive_pieces(world, database, usize::MAX));
    assert_eq!(database.standby().unwrap().copied_until(), None, "it is whole");
}

fn put(database: &Database, keys: std::ops::Range<u32>, value: &[u8]) {
    let table = match database.table("t") {
        Err(Error::NoSuchTable { .. }) => database.create_table("t"),
        found => found,
    }
    .unwrap();
    for key in keys {
        database.put(&table, key.to_be_bytes(), value).unwrap();
    }
}

/// A database with a backup that rows were changed during and after, all of which is in the repository.
fn backed_up(world: &World) -> Database {
    let database = world.open();
    put(&database, 0..40, &[1; 500]);
    database.checkpoint().unwrap();
    let mut key = 20;
    world
        .back_up_while(&database, 4_000, || {
            put(&database, key..key + 3, &[2; 2_000]);
            key += 3;
        })
        .unwrap();
    put(&database, 30..70, &[3; 3_000]);
    database.log().archive_now().unwrap();
    database
}

#[test]
fn a_copy_for_a_standby_that_was_cut_short_is_made_by_the_next_one() {
    let world = World::new();
    let expected = state_of(&backed_up(&world));
    let whole = SimulatedDisk::new(8);
    copy(&world, &whole).unwrap();
    let calls = whole.calls();
    let mut made_again = 0;
    for call in (0..calls).step_by(crash_step(calls, 15)) {
        let disk = SimulatedDisk::new(8);
        disk.crash_at(call);
        copy(&world, &disk).unwrap_err();
        for outcome in [PowerLoss::LoseAll, PowerLoss::KeepAll, PowerLoss::Random(7)] {
            let what = format!("call {call}, {outcome:?}");
            let left = disk.after_power_loss(outcome);
            let standby = match follow(&world, &left) {
                Ok(standby) => standby,
                Err(Error::Restoring { .. } | Error::NoDatabase { .. }) => {
                    made_again += 1;
                    copy(&world, &left).unwrap_or_else(|error| panic!("{what}: {error}"));
                    follow(&world, &left).unwrap_or_else(|error| panic!("{what}: {error}"))
                }
                Err(error) => panic!("{what}: {error}"),
            };
            receive(&world, &standby);
            assert!(state_of(&standby) == expected, "{what}");
        }
    }
    assert!(made_again > 10, "{made_again}");
}

/// A newer backup replaces the rows of an older one that a crash left.
#[test]
fn a_copy_that_was_cut_short_gives_way_to_one_of_a_newer_backup() {
    for world in [World::new(), World::encrypted()] {
        let database = backed_up(&world);
        let whole = SimulatedDisk::new(8);
        let first = copy(&world, &whole).unwrap();
        let disk = SimulatedDisk::new(8);
        disk.crash_at(whole.calls() / 2);
        copy(&world, &disk).unwrap_err();
        let left = disk.after_power_loss(PowerLoss::KeepAll);

        put(&database, 60..90, &[4; 700]);
        database.checkpoint().unwrap();
        world.clock.advance(std::time::Duration::from_secs(1));
        world.back_up(&database);
        database.log().archive_now().unwrap();
        let second = copy(&world, &left).unwrap();
        assert_ne!(first.backup, second.backup);
        let standby = follow(&world, &left).unwrap();
        receive(&world, &standby);
        assert!(state_of(&standby) == state_of(&database));
    }
}

#[test]
fn the_log_of_a_repository_is_received_piece_by_piece_and_as_it_grows() {
    let world = World::new();
    let database = backed_up(&world);
    let disk = SimulatedDisk::new(8);
    let copied = copy(&world, &disk).unwrap();
    let standby = follow(&world, &disk).unwrap();
    assert_eq!(standby.standby().unwrap().copied_until(), Some(copied.end));
    let refused =
        Database::open(world.environment(&disk.after_power_loss(PowerLoss::KeepAll)), options(&world));
    assert!(matches!(refused, Err(Error::CopyNotWhole { .. })), "{refused:?}");
    let mut rounds = 0;
    while receive_pieces(&world, &standby, 1) {
        rounds += 1;
    }
    assert!(rounds > 2, "{rounds}");
    assert!(state_of(&standby) == state_of(&database));
    // A tail that grows within its segment, and over its end.
    for (first, length) in [(100, 50), (101, 50), (102, 60_000), (103, 60_000), (104, 10)] {
        put(&database, first..first + 1, &vec![5; length]);
        database.log().archive_now().unwrap();
        receive(&world, &standby);
        assert!(state_of(&standby) == state_of(&database), "{first}");
    }
    // The standby's own checkpoint, and a restart.
    standby.standby().unwrap().checkpoint().unwrap();
    let left = disk.after_power_loss(PowerLoss::Random(1));
    disk.crash();
    let standby = follow(&world, &left).unwrap();
    receive(&world, &standby);
    assert!(state_of(&standby) == state_of(&database));
}
