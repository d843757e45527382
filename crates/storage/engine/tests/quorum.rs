//! Commits that standbys must have: nobody sees one before, readers go on, and a wait can be ended.
#![allow(clippy::unwrap_used, reason = "a test that fails panics")]

#[path = "quorum/alone.rs"]
mod alone;
mod common;
#[path = "quorum/pages.rs"]
mod pages;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use common::small_options;
use seawall_engine::{
    Background, Database, Durability, Effect, Environment, Error, Isolation, LockWait, Options,
    QuorumOptions, QuorumPositions, ReplicationLevel, StandbyPositions, Table,
};
use seawall_simulation::{PowerLoss, SimulatedClock, SimulatedDisk, SimulatedRandom, crash_step};
use seawall_testing::wait_until;
use seawall_types::Lsn;

const REPLICATED: Durability = Durability::Replicated(ReplicationLevel::Flushed);

fn options() -> Options {
    let mut options = small_options();
    options.background = Background::Threads;
    options.memory.memtable_bytes = 64 << 20;
    options.checkpoint.interval = Duration::from_secs(1 << 30);
    options.transaction.lock_wait = LockWait::Timeout(Duration::from_secs(600));
    options.quorum = Some(QuorumOptions::default());
    options
}

struct Scene {
    database: Database,
    table: Table,
    clock: Arc<SimulatedClock>,
    disk: SimulatedDisk,
}

impl Scene {
    fn new(options: Options) -> Scene {
        let scene = Scene::over(SimulatedDisk::new(1), options);
        scene.database.put(&scene.table, "old", "1").unwrap();
        scene
    }

    fn over(disk: SimulatedDisk, options: Options) -> Scene {
        Scene::try_over(disk, options).unwrap()
    }

    fn try_over(disk: SimulatedDisk, options: Options) -> Result<Scene, Error> {
        let clock = Arc::new(SimulatedClock::default());
        let environment = Environment {
            disk: Arc::new(disk.clone()),
            clock: Arc::clone(&clock) as _,
            random: Arc::new(SimulatedRandom::new(1)),
        };
        let database = Database::open(environment, options)?;
        let table = database.open_or_create_table("t")?;
        Ok(Scene { database, table, clock, disk })
    }

    /// What the file says that was visible, as far as that is durable.
    fn marked(&self) -> Lsn {
        let Some(file) = self.disk.after_power_loss(PowerLoss::LoseAll).read_file("quorum") else {
            return Lsn::ZERO;
        };
        let copy = |at: usize| u64::from_le_bytes(file[at + 40..at + 48].try_into().unwrap());
        Lsn::new(copy(0).max(copy(4096)))
    }

    /// A quorum has everything that is durable.
    fn acknowledge(&self) {
        let end = self.database.log().flushed();
        self.acknowledge_until(end);
    }

    fn acknowledge_until(&self, lsn: Lsn) {
        let quorum = Some(QuorumPositions { written: lsn, flushed: lsn, applied: lsn });
        self.database.quorum().standbys_are_at(StandbyPositions { quorum, candidate: Some(lsn) });
    }

    fn lose(&self) {
        self.database.quorum().standbys_are_at(StandbyPositions::default());
    }

    fn value(&self, key: &str) -> Option<Vec<u8>> {
        self.database.new_session().get(&self.table, key).unwrap()
    }

    fn in_flight(&self) -> u64 {
        self.database.statistics().transactions.commits_in_flight
    }

    /// A session of its own commits a row and waits for the quorum.
    fn commit(&self, key: &str) -> (Database, std::thread::JoinHandle<Result<Lsn, Error>>) {
        let session = self.database.new_session();
        let (writer, table, key) = (session.clone(), self.table.clone(), key.to_owned());
        let before = self.in_flight();
        let thread = std::thread::spawn(move || writer.with(REPLICATED).put(&table, &key, "new"));
        wait_until("the commit is in the log", || self.in_flight() > before);
        self.database.flush().unwrap();
        (session, thread)
    }
}

#[test]
fn a_commit_returns_and_is_seen_when_a_quorum_has_it() {
    let scene = Scene::new(options());
    let (_session, waiting) = scene.commit("k");
    assert_eq!(scene.value("k"), None);
    assert!(!waiting.is_finished());
    scene.acknowledge();
    let stamp = waiting.join().unwrap().unwrap();
    assert!(stamp <= scene.database.log().flushed());
    assert_eq!(scene.value("k"), Some(b"new".to_vec()));
    scene.database.close().unwrap();
}

#[test]
fn without_a_quorum_in_the_options_such_a_commit_waits_for_no_standby() {
    let scene = Scene::new(Options { quorum: None, ..options() });
    scene.database.with(REPLICATED).put(&scene.table, "k", "new").unwrap();
    assert_eq!(scene.value("k"), Some(b"new".to_vec()));
    scene.database.close().unwrap();
}

#[test]
fn a_lost_quorum_keeps_no_reader_and_nobody_who_asks_for_less() {
    let scene = Scene::new(options());
    let (_session, waiting) = scene.commit("k");
    scene.lose();
    for durability in [Durability::Sync, Durability::Async] {
        let session = scene.database.new_session();
        session.with(durability).put(&scene.table, "local", "1").unwrap();
    }
    let reader = scene.database.new_session();
    assert_eq!(reader.get(&scene.table, "old").unwrap(), Some(b"1".to_vec()));
    let mut transaction = reader.with(Isolation::Serializable).begin();
    assert_eq!(transaction.get(&scene.table, "k").unwrap(), None);
    assert_eq!(
        transaction.get(&scene.table, "local").unwrap(),
        None,
        "what is behind it is not seen before it"
    );
    transaction.commit().unwrap();
    assert_eq!(reader.tables().list().unwrap().len(), 1);
    assert_eq!(reader.two_phase().in_doubt().unwrap().len(), 0);
    scene.acknowledge();
    waiting.join().unwrap().unwrap();
    assert_eq!(scene.value("local"), Some(b"1".to_vec()));
    scene.database.close().unwrap();
}

#[test]
fn a_cancelled_wait_leaves_the_outcome_open_until_the_quorum_has_the_commit() {
    let scene = Scene::new(options());
    let (session, waiting) = scene.commit("k");
    session.cancel_token().request();
    let error = waiting.join().unwrap().unwrap_err();
    let Error::NotReplicated { lsn } = error else { panic!("{error}") };
    assert_eq!(error.effect(), Effect::Unknown);
    assert!(!error.is_retryable());
    session.cancel_token().clear();
    assert_eq!(session.get(&scene.table, "k").unwrap(), None, "its own session does not see it either");
    scene.acknowledge_until(Lsn::new(lsn.get() - 1));
    assert_eq!(scene.value("k"), None);
    scene.acknowledge_until(lsn);
    assert_eq!(scene.value("k"), Some(b"new".to_vec()));
    scene.database.close().unwrap();
}

#[test]
fn a_reader_of_a_row_whose_commit_waits_can_be_cancelled() {
    let scene = Scene::new(options());
    let (_writer, waiting) = scene.commit("k");
    let session = scene.database.new_session();
    let (reader, table) = (session.clone(), scene.table.clone());
    let locked = std::thread::spawn(move || {
        let mut transaction = reader.with(Isolation::ReadCommitted).begin();
        transaction.get_for_update(&table, "k")
    });
    wait_until("it waits for the row to be visible", || {
        scene.database.statistics().transactions.commit_waiters >= 2
    });
    session.cancel_token().request();
    let cancelled = locked.join().unwrap();
    assert!(matches!(cancelled, Err(Error::Cancelled)), "{cancelled:?}");
    scene.acknowledge();
    waiting.join().unwrap().unwrap();
    scene.database.close().unwrap();
}

#[test]
fn closing_ends_the_waits_and_leaves_what_standbys_lack_to_the_log() {
    let scene = Scene::new(options());
    let (_session, waiting) = scene.commit("k");
    scene.database.clone().close().unwrap();
    let error = waiting.join().unwrap().unwrap_err();
    assert!(matches!(error, Error::NotReplicated { .. }), "{error}");
    let alone = Options { quorum: None, ..options() };
    let environment = Environment {
        disk: Arc::new(scene.disk.clone()),
        clock: Arc::new(SimulatedClock::default()),
        random: Arc::new(SimulatedRandom::new(2)),
    };
    let database = Database::open(environment, alone).unwrap();
    assert!(database.statistics().recovery.records > 0, "no checkpoint has passed it");
    let table = database.table("t").unwrap();
    assert_eq!(database.get(&table, "k").unwrap(), Some(b"new".to_vec()));
    database.close().unwrap();
}

#[test]
fn writers_that_find_the_queue_full_of_waiting_commits_sleep_and_can_be_cancelled() {
    let scene = Scene::new(options());
    let (_session, waiting) = scene.commit("k");
    let writer = scene.database.new_session();
    for number in 1..1_u32 << 16 {
        let session = writer.new_session();
        session.with(Durability::Async).put(&scene.table, (number % 1000).to_be_bytes(), "1").unwrap();
    }
    assert_eq!(scene.in_flight(), 1 << 16);
    let (blocked, table) = (writer.clone(), scene.table.clone());
    let full = std::thread::spawn(move || blocked.with(Durability::Async).put(&table, "one too many", "1"));
    wait_until("it waits for room", || scene.database.statistics().transactions.commit_waiters >= 2);
    writer.cancel_token().request();
    let refused = full.join().unwrap();
    assert!(matches!(refused, Err(Error::Cancelled)), "{refused:?}");
    writer.cancel_token().clear();
    scene.acknowledge();
    waiting.join().unwrap().unwrap();
    wait_until("all are visible", || scene.in_flight() == 0);
    writer.put(&scene.table, "one too many", "1").unwrap();
    scene.database.close().unwrap();
}

/// Whatever a killed process, or a machine without power, leaves.
#[test]
fn a_restart_shows_what_was_visible_and_the_rest_when_a_quorum_has_it() {
    for seed in 0..12 {
        let scene = Scene::new(options());
        let (_session, waiting) = scene.commit("k1");
        scene.acknowledge();
        let shown = waiting.join().unwrap().unwrap();
        wait_until("the mark is moved", || scene.marked() >= shown);
        let mut transaction = scene.database.with(REPLICATED).begin();
        transaction.put(&scene.table, "k1", "newer").unwrap();
        transaction.put(&scene.table, "k2", "new").unwrap();
        let _not_waited_for = transaction.commit_async().unwrap();
        scene.database.new_session().create_table("u").unwrap();
        let mut prepared = scene.database.new_session().begin();
        prepared.put(&scene.table, "in doubt", "1").unwrap();
        prepared.prepare("gid").unwrap();
        let end = scene.database.log().flushed();
        let left =
            if seed == 0 { scene.disk.copy() } else { scene.disk.after_power_loss(PowerLoss::Random(seed)) };
        scene.disk.crash();
        drop(scene);

        let scene = Scene::over(left, options());
        assert_eq!(scene.value("old"), Some(b"1".to_vec()), "seed {seed}");
        assert_eq!(scene.value("k1"), Some(b"new".to_vec()), "seed {seed}");
        assert_eq!(scene.value("k2"), None, "seed {seed}");
        let names = |scene: &Scene| {
            let tables = scene.database.new_session().tables().list().unwrap();
            tables.into_iter().map(|table| table.name).collect::<Vec<_>>()
        };
        assert_eq!(names(&scene), ["t"], "seed {seed}");
        // It takes commits, behind those.
        scene.database.new_session().put(&scene.table, "k3", "1").unwrap();
        assert_eq!(scene.value("k3"), None, "seed {seed}");
        scene.acknowledge_until(Lsn::new(shown.get() + 1));
        assert_eq!(scene.value("k2"), None, "seed {seed}");
        scene.acknowledge();
        assert!(scene.database.log().flushed() >= end, "seed {seed}: all of that was acknowledged locally");
        assert_eq!(scene.value("k1"), Some(b"newer".to_vec()), "seed {seed}");
        assert_eq!(scene.value("k2"), Some(b"new".to_vec()), "seed {seed}");
        assert_eq!(scene.value("k3"), Some(b"1".to_vec()), "seed {seed}");
        assert_eq!(names(&scene), ["t", "u"], "seed {seed}");
        scene.database.two_phase().commit("gid").unwrap();
        assert_eq!(scene.value("in doubt"), Some(b"1".to_vec()), "seed {seed}");
        scene.acknowledge();
        scene.database.checkpoint().unwrap();
        let mut damage = Vec::new();
        scene.database.check(&mut |found| damage.push(found)).unwrap();
        assert!(damage.is_empty(), "seed {seed}: {damage:?}");
        scene.database.close().unwrap();
    }
}

/// Commits keys that no quorum has yet, and has the quorum acknowledge some of them; until the power goes.
struct Committed {
    /// The stamps of what is durable here, by key.
    stamps: BTreeMap<u8, Lsn>,
    /// What the quorum has said that it has.
    acknowledged: Lsn,
}

impl Committed {
    fn commit(&mut self, scene: &Scene, keys: std::ops::Range<u8>) -> Result<(), Error> {
        for key in keys {
            let session = scene.database.new_session();
            // The same thread acknowledges: it does not wait.
            session.cancel_token().request();
            match session.with(REPLICATED).put(&scene.table, [key], "v") {
                Err(Error::NotReplicated { lsn }) => drop(self.stamps.insert(key, lsn)),
                other => drop(other?),
            }
            if key % 3 == 2 {
                self.acknowledged = scene.database.log().flushed();
                scene.acknowledge();
            }
            if key % 6 == 5 {
                scene.database.checkpoint()?;
            }
        }
        Ok(())
    }

    fn run(&mut self, disk: &SimulatedDisk, options: &Options) -> Result<(), Error> {
        let scene = Scene::try_over(disk.clone(), options.clone())?;
        self.commit(&scene, 0..7)?;
        // The mark moves here.
        scene.database.clone().close()?;
        let scene = Scene::try_over(disk.clone(), options.clone())?;
        scene.acknowledge();
        self.acknowledged = scene.database.log().flushed();
        self.commit(&scene, 7..14)
    }
}

#[test]
fn whenever_the_power_goes_a_restart_shows_only_what_a_quorum_had_and_loses_nothing() {
    let options = Options { background: Background::Manual, ..options() };
    let made = Scene::over(SimulatedDisk::new(1), Options { quorum: None, ..options.clone() });
    made.database.close().unwrap();
    let (mut calls, mut call) = (None, 0);
    loop {
        let place = format!("power lost in call {call}");
        let disk = made.disk.copy();
        let before = disk.calls();
        if calls.is_some() {
            disk.crash_at(before + call);
        }
        let mut committed = Committed { stamps: BTreeMap::new(), acknowledged: Lsn::ZERO };
        let run = committed.run(&disk, &options);
        assert!(run.is_ok() || disk.crashed(), "{place}: {run:?}");
        let all = *calls.get_or_insert(disk.calls() - before);
        let left = disk.after_power_loss(PowerLoss::Random(call));
        disk.crash();
        let scene = Scene::try_over(left, options.clone()).unwrap_or_else(|error| panic!("{place}: {error}"));
        let seen = |key: u8| scene.database.new_session().get(&scene.table, [key]).unwrap().is_some();
        for key in 0..14 {
            let is_known = committed.stamps.get(&key).is_some_and(|stamp| *stamp <= committed.acknowledged);
            assert!(is_known || !seen(key), "{place}: {key} is seen, and no quorum had it");
        }
        scene.acknowledge();
        for key in committed.stamps.keys() {
            assert!(seen(*key), "{place}: {key} was durable");
        }
        scene.database.close().unwrap();
        call += u64::try_from(crash_step(all, 80)).unwrap();
        if call >= all {
            break;
        }
    }
}

#[test]
fn a_server_that_closed_hides_nothing_that_was_visible_and_without_a_quorum_shows_all() {
    let scene = Scene::new(options());
    let (session, waiting) = scene.commit("k");
    session.cancel_token().request();
    waiting.join().unwrap().unwrap_err();
    scene.database.clone().close().unwrap();
    let again = Scene::over(scene.disk.clone(), options());
    assert_eq!((again.value("old"), again.value("k")), (Some(b"1".to_vec()), None));
    again.database.clone().close().unwrap();
    let alone = Scene::over(scene.disk.clone(), Options { quorum: None, ..options() });
    assert_eq!(alone.value("k"), Some(b"new".to_vec()));
    assert!(alone.disk.read_file("quorum").is_none(), "what is shown now may be shown later");
    alone.database.close().unwrap();
    let again = Scene::over(scene.disk, options());
    assert_eq!(again.value("k"), Some(b"new".to_vec()));
    again.database.close().unwrap();
}

#[test]
fn a_log_that_ends_without_a_commit_keeps_no_later_commit_out_of_sight() {
    let scene = Scene::new(options());
    scene.acknowledge();
    wait_until("the mark is moved", || scene.marked() >= scene.database.snapshot().lsn());
    scene.database.log().create_restore_point("end").unwrap();
    let left = scene.disk.copy();
    scene.disk.crash();
    let scene = Scene::over(left, options());
    assert_eq!(scene.database.quorum().newest_waiting(), None);
    scene.database.new_session().put(&scene.table, "k", "1").unwrap();
    assert_eq!(scene.value("k"), Some(b"1".to_vec()), "it asks for no standby, and is behind none that does");
    scene.database.close().unwrap();
}

#[test]
fn a_decision_that_is_asked_for_again_while_it_waits_can_be_cancelled() {
    let scene = Scene::new(options());
    let mut transaction = scene.database.begin();
    transaction.put(&scene.table, "k", "1").unwrap();
    transaction.prepare("gid").unwrap();
    let session = scene.database.new_session();
    session.cancel_token().request();
    let decided = session.two_phase().with(REPLICATED).commit("gid");
    assert!(matches!(decided, Err(Error::NotReplicated { .. })), "{decided:?}");
    let again = session.two_phase().with(REPLICATED).commit("gid");
    assert!(matches!(again, Err(Error::NotReplicated { .. } | Error::Cancelled)), "{again:?}");
    scene.acknowledge();
    scene.database.close().unwrap();
}

#[test]
fn a_writer_into_a_table_whose_drop_waits_can_be_cancelled() {
    let scene = Scene::new(options());
    let session = scene.database.new_session();
    session.cancel_token().request();
    let mut transaction = session.with(REPLICATED).begin();
    transaction.drop_table("t").unwrap();
    assert!(matches!(transaction.commit(), Err(Error::NotReplicated { .. })));
    let refused = session.put(&scene.table, "k", "1");
    assert!(matches!(refused, Err(Error::Cancelled)), "{refused:?}");
    scene.acknowledge();
    let refused = session.put(&scene.table, "k", "1");
    assert!(matches!(refused, Err(Error::NoSuchTable { .. })), "{refused:?}");
    scene.database.close().unwrap();
}
