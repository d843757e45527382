//! Servers that go on without their standbys after a time.

use std::sync::Arc;
use std::time::Duration;

use seawall_engine::{DatabaseDirectory, Environment, Options, QuorumOptions};
use seawall_simulation::{SimulatedClock, SimulatedDisk, SimulatedRandom};

use super::{REPLICATED, Scene, options};

#[test]
fn a_server_goes_on_alone_after_its_time_and_waits_again_when_standbys_have_caught_up() {
    let after = Duration::from_secs(5);
    let scene = Scene::new(Options { quorum: Some(QuorumOptions { alone_after: Some(after) }), ..options() });
    let (_session, waiting) = scene.commit("k");
    let status = scene.database.quorum().status();
    assert!(status.is_required && status.alone.is_none() && status.lost_for.is_some(), "{status:?}");
    scene.clock.advance(after);
    waiting.join().unwrap().unwrap();
    assert_eq!(scene.value("k"), Some(b"new".to_vec()));
    let status = scene.database.quorum().status();
    assert_eq!((status.alone.is_some(), status.times_alone), (true, 1), "{status:?}");
    scene.database.with(REPLICATED).put(&scene.table, "k2", "1").unwrap();
    scene.acknowledge();
    assert!(scene.database.quorum().status().alone.is_none());
    let (_session, waiting) = scene.commit("k3");
    assert!(!waiting.is_finished());
    scene.acknowledge();
    waiting.join().unwrap().unwrap();
    scene.database.close().unwrap();
}

#[test]
fn a_server_that_was_alone_when_it_ended_is_alone_when_it_begins() {
    let after = Duration::from_secs(5);
    let options = Options { quorum: Some(QuorumOptions { alone_after: Some(after) }), ..options() };
    let scene = Scene::new(options.clone());
    let (_session, waiting) = scene.commit("k");
    scene.clock.advance(after);
    waiting.join().unwrap().unwrap();
    let alone = scene.database.quorum().status().alone;
    assert!(alone.is_some());
    scene.database.with(REPLICATED).put(&scene.table, "alone", "1").unwrap();
    let left = scene.disk.copy();
    scene.disk.crash();
    let again = Scene::over(left.copy(), options);
    assert_eq!(again.database.quorum().status().alone, alone);
    assert_eq!(again.value("alone"), Some(b"1".to_vec()), "it was acknowledged");
    again.database.with(REPLICATED).put(&again.table, "k2", "1").unwrap();
    again.acknowledge();
    assert_eq!(again.database.quorum().status().alone, None);
    let (_session, waiting) = again.commit("k3");
    assert!(!waiting.is_finished());
    again.acknowledge();
    waiting.join().unwrap().unwrap();
    again.database.close().unwrap();
    // Options that have it wait hide what no quorum has.
    let waits = Scene::over(left, self::options());
    assert_eq!(waits.database.quorum().status().alone, None);
    waits.acknowledge();
    assert_eq!(waits.value("alone"), Some(b"1".to_vec()));
    waits.database.close().unwrap();
}

#[test]
fn a_standby_that_is_promoted_waits_for_its_quorum_from_then_on() {
    let after = Duration::from_secs(5);
    let options = Options { quorum: Some(QuorumOptions { alone_after: Some(after) }), ..options() };
    let made = Scene::over(SimulatedDisk::new(1), Options { quorum: None, ..options.clone() });
    made.database.close().unwrap();
    let clock = Arc::new(SimulatedClock::default());
    let environment = Environment {
        disk: Arc::new(made.disk.clone()),
        clock: Arc::clone(&clock) as _,
        random: Arc::new(SimulatedRandom::new(2)),
    };
    let database = DatabaseDirectory::at(environment).follow(options).unwrap();
    clock.advance(Duration::from_secs(3600));
    database.standby().unwrap().promote("test").unwrap();
    let table = database.table("t").unwrap();
    let scene = Scene { table, clock, disk: made.disk, database };
    let (_session, waiting) = scene.commit("k");
    let status = scene.database.quorum().status();
    assert!(status.alone.is_none() && status.lost_for == Some(Duration::ZERO), "{status:?}");
    assert!(!waiting.is_finished());
    scene.acknowledge();
    waiting.join().unwrap().unwrap();
    scene.database.close().unwrap();
}
