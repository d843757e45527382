//! Pages, archives and backups wait for standbys.

use std::sync::Arc;
use std::time::Duration;

use seawall_engine::{Background, Backup, Durability, Error, Options};
use seawall_simulation::{PowerLoss, SimulatedClock, SimulatedDisk, crash_step};
use seawall_testing::wait_until;
use seawall_types::Lsn;

use super::{REPLICATED, Scene, options};

/// A checkpoint has put into pages what the mark does not know of yet.
#[test]
fn a_transaction_of_which_pages_hold_a_part_is_seen_whole_after_a_restart() {
    let mut options = Options { background: Background::Manual, ..options() };
    options.checkpoint.chunk_bytes = 16 << 10;
    let (mut calls, mut call) = (None, 0);
    let made = Scene::over(SimulatedDisk::new(1), Options { quorum: None, ..options.clone() });
    made.database.close().unwrap();
    loop {
        let place = format!("power lost in call {call}");
        let scene = Scene::over(made.disk.copy(), options.clone());
        let session = scene.database.new_session();
        session.cancel_token().request();
        let mut transaction = session.with(REPLICATED).begin();
        for key in 0..100_u8 {
            transaction.put(&scene.table, [key], [key; 1000]).unwrap();
        }
        assert!(matches!(transaction.commit(), Err(Error::NotReplicated { .. })));
        scene.acknowledge();
        let before = scene.disk.calls();
        if calls.is_some() {
            scene.disk.crash_at(before + call);
        }
        let checkpoint = scene.database.checkpoint();
        assert!(checkpoint.is_ok() || scene.disk.crashed(), "{place}: {checkpoint:?}");
        let all = *calls.get_or_insert(scene.disk.calls() - before);
        let left = scene.disk.after_power_loss(PowerLoss::Random(call));
        scene.disk.crash();
        let scene = Scene::over(left, options.clone());
        let session = scene.database.new_session();
        let seen = (0..100_u8).filter(|key| session.get(&scene.table, [*key]).unwrap().is_some()).count();
        assert!(seen == 0 || seen == 100, "{place}: {seen} of 100 rows are seen");
        scene.acknowledge();
        scene.database.close().unwrap();
        call += u64::try_from(crash_step(all, 60)).unwrap();
        if call >= all {
            break;
        }
    }
}

#[test]
fn a_backup_ends_when_a_quorum_has_its_log_and_a_copy_for_a_standby_waits_for_none() {
    let scene = Scene::new(Options { background: Background::Manual, ..options() });
    scene.acknowledge();
    scene.database.put(&scene.table, "k", "1").unwrap();
    let mut backup = Backup::begin(&scene.database, "backup").unwrap();
    let refused = backup.finish();
    assert!(matches!(refused, Err(Error::StandbysLack { .. })), "{refused:?}");
    let mut copy = Backup::begin_copy(&scene.database, "copy").unwrap();
    assert_eq!(copy.finish().unwrap().end, scene.database.log().flushed());
    scene.acknowledge();
    assert_eq!(backup.finish().unwrap().end, scene.database.log().flushed());
    drop((backup, copy));
    scene.database.close().unwrap();
}

#[test]
fn a_checkpoint_that_waits_for_standbys_has_not_failed_and_goes_on_when_they_have_come() {
    let mut options = options();
    options.memory.memtable_bytes = 1 << 20;
    let scene = Scene::new(options);
    let (_session, waiting) = scene.commit("k");
    scene.lose();
    // More than half of the room: the gate waits no longer, and what is not visible stays out of pages.
    let writer = scene.database.new_session();
    let (filling, table) = (writer.clone(), scene.table.clone());
    let filled = std::thread::spawn(move || {
        (0..3000_u32).try_for_each(|key| {
            let session = filling.new_session();
            session.with(Durability::Async).put(&table, key.to_be_bytes(), [0; 1000]).map(drop)
        })
    });
    let mut seen = (Lsn::ZERO, 0);
    wait_until("writers wait for room", || {
        scene.clock.advance(Duration::from_secs(1));
        let appended = scene.database.statistics().log.appended;
        seen = (appended, if appended == seen.0 { seen.1 + 1 } else { 0 });
        seen.1 > 50 || filled.is_finished()
    });
    if filled.is_finished() {
        panic!("{:?}", filled.join());
    }
    assert_eq!(scene.database.statistics().checkpoints.failed, 0);
    scene.acknowledge();
    waiting.join().unwrap().unwrap();
    while !filled.is_finished() {
        scene.acknowledge();
        std::thread::yield_now();
    }
    filled.join().unwrap().unwrap();
    assert_eq!(scene.database.statistics().checkpoints.failed, 0);
    scene.acknowledge();
    scene.database.close().unwrap();
}

#[test]
fn pages_wait_for_a_quorum_and_what_it_lacks_stays_out_of_them() {
    let scene = Scene::new(options());
    let (_session, waiting) = scene.commit("k");
    let before = scene.database.info().unwrap().redo_point;
    let (database, clock) = (scene.database.clone(), Arc::clone(&scene.clock));
    let checkpoint = std::thread::spawn(move || database.checkpoint());
    // The clock of the limit stands still; it is the quorum that lets the checkpoint go on.
    assert_eq!(clock_now(&clock), Duration::ZERO);
    scene.acknowledge();
    waiting.join().unwrap().unwrap();
    scene.acknowledge();
    assert!(checkpoint.join().unwrap().unwrap().redo_point > before);
    let (_session, waiting) = scene.commit("k2");
    let before = scene.database.info().unwrap().redo_point;
    let database = scene.database.clone();
    let checkpoint = std::thread::spawn(move || database.checkpoint());
    scene.clock.advance(Duration::from_secs(10));
    while !checkpoint.is_finished() {
        // It may have begun after the clock was moved.
        scene.clock.advance(Duration::from_secs(10));
        std::thread::yield_now();
    }
    let refused = checkpoint.join().unwrap();
    assert!(matches!(refused, Err(Error::StandbysLack { .. })), "{refused:?}");
    assert_eq!(scene.database.info().unwrap().redo_point, before);
    scene.acknowledge();
    waiting.join().unwrap().unwrap();
    scene.acknowledge();
    scene.database.close().unwrap();
}

#[test]
fn pages_wait_for_an_asynchronous_standby_and_get_what_it_lacks_after_a_limit_on_record() {
    let scene = Scene::new(Options { quorum: None, ..options() });
    scene.acknowledge();
    scene.database.checkpoint().unwrap();
    scene.database.put(&scene.table, "k", "1").unwrap();
    let database = scene.database.clone();
    let checkpoint = std::thread::spawn(move || database.checkpoint());
    wait_until("the checkpoint waits", || scene.database.statistics().transactions.commit_waiters > 0);
    assert!(!checkpoint.is_finished());
    scene.acknowledge();
    checkpoint.join().unwrap().unwrap();
    assert_eq!(scene.database.quorum().status().gate_opened, 0);
    scene.database.put(&scene.table, "k", "2").unwrap();
    scene.lose();
    let database = scene.database.clone();
    let checkpoint = std::thread::spawn(move || database.checkpoint());
    wait_until("the checkpoint waits", || scene.database.statistics().transactions.commit_waiters > 0);
    scene.clock.advance(Duration::from_secs(10));
    checkpoint.join().unwrap().unwrap();
    assert_eq!(scene.database.quorum().status().gate_opened, 1);
    // No standby is left: the next one does not wait.
    scene.database.put(&scene.table, "k", "3").unwrap();
    scene.database.checkpoint().unwrap();
    scene.database.close().unwrap();
}

fn clock_now(clock: &SimulatedClock) -> Duration {
    seawall_io::Clock::monotonic(clock)
}
