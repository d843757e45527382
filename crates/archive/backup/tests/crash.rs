//! Power losses of the database, of the repository, and in the middle of a restore: in some calls of the disk, with
//! `SEAWALL_CRASHES=all` in every one.
//!
//! Invariants: what was acknowledged as archived is in what is restored; what is restored is a prefix of the commit order; a
//! restore that was cut short is never taken for a database.
#![allow(clippy::unwrap_used, reason = "a test that fails panics")]

mod common;

use common::{World, examine, state_of};
use seawall_backup::{RestoreRequest, databases};
use seawall_engine::{Database, Durability, Error, RestoreTarget};
use seawall_simulation::{PowerLoss, SimulatedDisk, crash_step};

fn outcomes() -> [PowerLoss; 3] {
    [PowerLoss::LoseAll, PowerLoss::KeepAll, PowerLoss::Random(7)]
}

#[test]
fn a_restore_that_was_cut_short_is_no_database_and_can_be_run_again() {
    let world = World::new();
    let database = world.open();
    let table = database.create_table("t").unwrap();
    for key in 0..40_u32 {
        database.put(&table, key.to_be_bytes(), [1; 500]).unwrap();
    }
    database.checkpoint().unwrap();
    world.back_up(&database);
    for key in 30..60_u32 {
        database.put(&table, key.to_be_bytes(), [2; 3_000]).unwrap();
    }
    database.log().archive_now().unwrap();
    let expected = state_of(&database);
    let request = RestoreRequest::default();
    let whole = SimulatedDisk::new(8);
    world.restore_to(&whole, &request).unwrap();
    let calls = whole.calls();
    for call in (0..calls).step_by(crash_step(calls, 15)) {
        let disk = SimulatedDisk::new(8);
        disk.crash_at(call);
        world.restore_to(&disk, &request).unwrap_err();
        for outcome in outcomes() {
            let left = disk.after_power_loss(outcome);
            let what = format!("call {call}, {outcome:?}");
            let options = seawall_engine::Options { archives: Vec::new(), ..world.options() };
            let options = seawall_engine::Options { mode: seawall_engine::OpenMode::Existing, ..options };
            match Database::open(world.environment(&left), options) {
                Ok(database) => assert!(state_of(&database) == expected, "{what}"),
                Err(Error::Restoring { .. }) => {
                    world.restore_to(&left, &request).unwrap_or_else(|error| panic!("{what}: {error}"));
                    let database = world.open_restored(&left);
                    assert!(state_of(&database) == expected, "{what}");
                    examine(&database);
                }
                Err(Error::NoDatabase { .. }) => {}
                Err(error) => panic!("{what}: {error}"),
            }
        }
    }
}

/// Writes keys in ascending order, some of them as archived, with a checkpoint and a backup in between, until the power goes.
/// The first key that may be missing in the archive, and whether the backup is there.
fn work(world: &World) -> (u32, bool) {
    let (mut archived, mut is_backed_up) = (0, false);
    // Each life of the machine is later than the one before.
    world.clock.advance(std::time::Duration::from_secs(world.store.calls()));
    let mut run = || -> Result<(), Box<dyn std::error::Error>> {
        let database = Database::open(world.environment(&world.disk), world.options())?;
        let table = match database.table("t") {
            Err(Error::NoSuchTable { .. }) => database.create_table("t")?,
            other => other?,
        };
        let from = u32::try_from(state_of(&database)["t"].len())?;
        for key in from..from + 40 {
            let is_archived = key % 5 == 0;
            let durability = if is_archived { Durability::Archived } else { Durability::Async };
            database.with(durability).put(&table, key.to_be_bytes(), [3; 4_000])?;
            if is_archived {
                archived = key + 1;
            }
            if key % 16 == 9 {
                database.checkpoint()?;
            }
            if key % 40 == 20 {
                world.back_up_while(&database, 20_000, || {})?;
                is_backed_up = true;
            }
        }
        database.close()?;
        Ok(())
    };
    let ended = run();
    assert!(ended.is_ok() || world.disk.crashed() || world.store.crashed(), "{ended:?}");
    (archived, is_backed_up)
}

/// What is restored has the first keys, and all that were acknowledged as archived.
fn check_restored(world: &World, archived: u32, is_backed_up: bool, what: &str) {
    let restored = world.restore(RestoreTarget::Latest);
    let (disk, _) = match restored {
        Ok(restored) => restored,
        Err(error) => {
            assert!(!is_backed_up, "{what}: {error}");
            return;
        }
    };
    let database = world.open_restored(&disk);
    let keys: Vec<Vec<u8>> = state_of(&database)["t"].keys().cloned().collect();
    let expected: Vec<Vec<u8>> = (0_u32..).take(keys.len()).map(|key| key.to_be_bytes().to_vec()).collect();
    assert_eq!(keys, expected, "{what}: not a prefix");
    assert!(keys.len() >= usize::try_from(archived).unwrap(), "{what}: {} of {archived} keys", keys.len());
    examine(&database);
}

#[test]
fn what_was_acknowledged_as_archived_survives_the_loss_of_the_machine() {
    let calm = World::new();
    work(&calm);
    let calls = calm.disk.calls();
    for call in (0..calls).step_by(crash_step(calls, 15)) {
        let world = World::new();
        world.disk.crash_at(call);
        let (archived, is_backed_up) = work(&world);
        let what = format!("call {call}");
        // The machine is gone.
        check_restored(&world, archived, is_backed_up, &what);
        // The machine comes back.
        for outcome in outcomes() {
            let what = format!("{what}, {outcome:?}");
            let again = World {
                disk: world.disk.after_power_loss(outcome),
                store: world.store.copy(),
                ..World::new()
            };
            let (more, _) = work(&again);
            assert!(more > archived, "{what}: it went on archiving");
            check_restored(&again, more, true, &what);
        }
    }
}

#[test]
fn a_repository_that_loses_power_has_all_that_was_acknowledged_and_takes_the_rest_later() {
    let calm = World::new();
    let before = calm.store.calls();
    work(&calm);
    let calls = calm.store.calls();
    for call in (before..calls).step_by(crash_step(calls - before, 12)) {
        let world = World::new();
        world.store.crash_at(call);
        let (archived, is_backed_up) = work(&world);
        for outcome in outcomes() {
            let what = format!("call {call} of the store, {outcome:?}");
            let store = world.store.after_power_loss(outcome);
            let again =
                World { disk: world.disk.after_power_loss(PowerLoss::KeepAll), store, ..World::new() };
            assert!(databases(&again.repository()).unwrap().len() <= 1);
            check_restored(&again, archived, is_backed_up, &what);
            let (more, _) = work(&again);
            assert!(more > archived, "{what}");
            check_restored(&again, more, true, &what);
        }
    }
}
