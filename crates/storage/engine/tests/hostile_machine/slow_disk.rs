//! A disk that answers nothing for a while. Whoever needs it waits, nobody else does, and nothing fails or is lost.
//!
//! A gate holds the calls that are slow, for as long as the test takes to look at everything else: seconds or years, there
//! is no time in these tests. A gate is dropped, and so opened, before a thread that waits at it is joined.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use seawall_engine::{
    Background, CommitHandle, Database, Durability, Error, HoldLifetime, HoldOptions, LockWait, Options,
    Table,
};
use seawall_io::SystemClock;
use seawall_simulation::{
    Delay, Fault, FaultError, Gate, Operation, Operations, PowerLoss, SeededRandom, SimulatedClock,
    SimulatedDisk,
};
use seawall_testing::wait_until;

use super::{
    LIMIT, await_that, calls, check_clean, check_rows, common, environment, open_at, put_rows, small_options,
    value,
};

/// With the threads of the database, on the clock of the machine.
fn open(disk: &SimulatedDisk, options: &Options) -> Database {
    let clock = Arc::new(SystemClock);
    let environment = seawall_engine::Environment { clock, ..environment(disk, &SimulatedClock::default()) };
    Database::open(environment, options.clone()).unwrap()
}

fn options() -> Options {
    let mut options = Options { background: Background::Threads, ..small_options() };
    options.transaction.lock_wait = LockWait::Timeout(std::time::Duration::from_secs(600));
    options.checkpoint.log_bytes = 1 << 30;
    // No checkpoint but those that a test asks for.
    options.memory.memtable_bytes = 64 << 20;
    options
}

/// Rows in the tree, and some in the memtable.
fn with_rows(disk: &SimulatedDisk, options: &Options) -> (Database, Table) {
    let database = open(disk, options);
    let table = database.create_table("t").unwrap();
    put_rows(&database, &table, 0..1_000);
    database.checkpoint().unwrap();
    put_rows(&database, &table, 1_000..1_100);
    (database, table)
}

/// Who must not return before a gate is opened.
#[derive(Default)]
struct Opened(AtomicBool);

impl Opened {
    fn open(&self, gate: &Gate) {
        self.0.store(true, Ordering::SeqCst);
        gate.open();
    }

    /// What a call that has returned said: it waited.
    fn only_then<T>(&self, outcome: T) -> T {
        assert!(self.0.load(Ordering::SeqCst), "it did not wait for the disk");
        outcome
    }
}

#[test]
fn while_the_log_is_slow_sync_commits_wait_and_nobody_else_does() {
    let disk = SimulatedDisk::new(1);
    let (database, table) = with_rows(&disk, &options());
    let opened = Opened::default();
    std::thread::scope(|scope| {
        let gate = disk.hold(calls("log/", Operations::Syncs));
        let writer =
            scope.spawn(|| opened.only_then(database.put(&table, 1_100_u32.to_be_bytes(), value(1_100))));
        gate.await_waiting(1);
        // Readers see what is durable, at once; it is not there for them before its writer is told.
        check_rows(&database, 0..1_100);
        assert_eq!(database.get(&table, 7_u32.to_be_bytes()).unwrap().unwrap(), value(7));
        assert!(database.info().unwrap().end_of_log >= database.statistics().log.flushed);
        let snapshot = database.snapshot();
        let mut rolled_back = database.begin();
        rolled_back.put(&table, "x", "1").unwrap();
        drop(rolled_back);
        let mut pipelined = database.begin();
        pipelined.put(&table, 1_102_u32.to_be_bytes(), value(1_102)).unwrap();
        let mut asynchronous = database.begin();
        asynchronous.put(&table, 1_101_u32.to_be_bytes(), value(1_101)).unwrap();
        asynchronous.set_durability(Durability::Async);
        // Commits that do not ask for the disk do not wait for it.
        let pipelined = pipelined.commit_async().unwrap();
        assert!(!pipelined.is_durable());
        asynchronous.commit().unwrap();
        // Whoever begins now must see the one that was acknowledged, and may not see it before the ones ahead of it: he
        // waits with them. Who has begun before goes on.
        let late = scope.spawn(|| opened.only_then(database.get(&table, 1_101_u32.to_be_bytes())));
        assert_eq!(snapshot.range::<&[u8]>(&table, ..).count(), 1_100);
        let seen = database.statistics();
        assert!(seen.log.appended > seen.log.flushed && seen.transactions.commits_in_flight >= 1, "{seen:?}");
        assert!(gate.waiting() >= 1);
        opened.open(&gate);
        writer.join().unwrap().unwrap();
        pipelined.wait().unwrap();
        assert_eq!(late.join().unwrap().unwrap().unwrap(), value(1_101));
    });
    check_rows(&database, 0..1_103);
    check_clean(&database);
    let crashed = disk.after_power_loss(PowerLoss::LoseAll);
    check_rows(&open_at(&crashed, &SimulatedClock::default(), &small_options()), 0..1_103);
}

/// Nobody else asks for a flush: no commit waits for the disk, and little is logged.
#[test]
fn async_commits_are_durable_in_time_while_the_disk_makes_a_segment() {
    let disk = SimulatedDisk::new(5);
    let mut options = options();
    options.log.spare_segments = 4;
    let (database, table) = with_rows(&disk, &options);
    let put = || database.with(Durability::Async).put(&table, b"row", [7; 500]).unwrap();
    let all_are_ready = || database.statistics().segments.spare >= 4;
    wait_until("four spare segments", all_are_ready);
    let gate = disk.hold(calls("log/spare", Operations::Any));
    // Until one of the four is in use and another one is made. The rest take what is put meanwhile. An old segment may take the place of the
    // first that is used.
    while gate.waiting() == 0 {
        put();
        await_that("another segment", || gate.waiting() > 0 || all_are_ready());
    }
    let last = put();
    await_that("the commit is durable", || database.statistics().log.flushed >= last);
    assert!(gate.waiting() >= 1);
    gate.open();
    database.close().unwrap();
}

/// It follows a record that the pending files have no room for, so it waits for that one's flush, and for no other: nobody
/// flushes it itself here.
#[test]
fn an_async_commit_behind_a_long_record_can_be_seen_when_it_returns() {
    let disk = SimulatedDisk::new(7);
    let hour = std::time::Duration::from_secs(3600);
    let mut options = options();
    options.log.flush_interval = hour;
    options.format.segment_bytes = 4 << 20;
    let (database, table) = with_rows(&disk, &options);
    let pending = || ["log/pending.1", "log/pending.2"].map(|path| disk.read_file(path).unwrap());
    std::thread::scope(|scope| {
        let gate = disk.hold(calls("log/", Operations::Only(Operation::WriteDurable)));
        let long = scope.spawn(|| database.put(&table, "long", vec![1; 6 << 20]));
        gate.await_waiting(1);
        let before = pending();
        let behind = scope.spawn(|| {
            let stamp = database.with(Durability::Async).put(&table, "behind", "x").unwrap();
            (stamp, database.statistics().transactions.visible)
        });
        // It copies what it can of the long record, and finds that there is no room.
        await_that("the commit behind the long one is copied", || pending() != before);
        gate.open();
        long.join().unwrap().unwrap();
        let (stamp, visible) = behind.join().unwrap();
        assert!(visible >= stamp, "{visible} is visible, and {stamp} is acknowledged");
    });
}

#[test]
fn closing_does_not_wait_for_the_flush_interval() {
    let disk = SimulatedDisk::new(6);
    let hour = std::time::Duration::from_secs(3600);
    let (database, table) = with_rows(&disk, &options().with(|options| options.log.flush_interval = hour));
    database.with(Durability::Async).put(&table, b"row", b"value").unwrap();
    let (told, closed) = std::sync::mpsc::channel();
    std::thread::spawn(move || told.send(database.close().is_ok()));
    assert_eq!(closed.recv_timeout(LIMIT), Ok(true));
    let database = open_at(&disk, &SimulatedClock::default(), &small_options());
    let table = database.table("t").unwrap();
    assert_eq!(database.get(&table, b"row").unwrap().unwrap(), b"value");
}

#[test]
fn a_session_does_not_wait_for_the_asynchronous_commits_of_another_unless_it_asks_to() {
    let disk = SimulatedDisk::new(1);
    let (database, table) = with_rows(&disk, &options());
    let (writer, reader) = (database.new_session(), database.new_session());
    let (own, told) = (writer.clone(), database.new_session());
    let key = 1_101_u32.to_be_bytes();
    let opened = Opened::default();
    std::thread::scope(|scope| {
        let gate = disk.hold(calls("log/", Operations::Syncs));
        let mut ahead = database.begin();
        ahead.put(&table, 1_100_u32.to_be_bytes(), value(1_100)).unwrap();
        let ahead = ahead.commit_async().unwrap();
        let stamp = writer.with(Durability::Async).put(&table, key, value(1_101)).unwrap();
        // Nobody has told the reader.
        assert_eq!(reader.snapshot().range::<&[u8]>(&table, ..).count(), 1_100);
        assert_eq!(reader.get(&table, key).unwrap(), None);
        assert_eq!(reader.begin().get(&table, key).unwrap(), None);
        assert_eq!(database.get(&table, key).unwrap(), None);
        // The writer's session, be it another handle or thread, sees it; and so does one that has heard of it.
        let own = scope.spawn(|| opened.only_then(own.get(&table, key)));
        told.observe(stamp);
        let told = scope.spawn(|| opened.only_then(told.begin().get(&table, key)));
        wait_until("both to wait, or to end", || {
            database.statistics().transactions.commit_waiters >= 2 || own.is_finished() || told.is_finished()
        });
        assert!(!own.is_finished() && !told.is_finished(), "they saw what is not visible yet");
        assert_eq!(reader.get(&table, key).unwrap(), None);
        opened.open(&gate);
        ahead.wait().unwrap();
        assert_eq!(own.join().unwrap().unwrap().unwrap(), value(1_101));
        assert_eq!(told.join().unwrap().unwrap().unwrap(), value(1_101));
    });
    reader.observe(seawall_types::Lsn::MAX);
    check_rows(&reader, 0..1_102);
}

/// A `Sync` commit that waits at the gate, and an `Async` one after it that has returned.
fn commits_on_their_way(database: &Database, table: &Table, own: &Database) -> CommitHandle {
    let mut ahead = database.begin();
    ahead.put(table, 1_100_u32.to_be_bytes(), value(1_100)).unwrap();
    let ahead = ahead.commit_async().unwrap();
    own.with(Durability::Async).put(table, 1_101_u32.to_be_bytes(), value(1_101)).unwrap();
    ahead
}

fn failing_syncs_of_the_log() -> Fault {
    let (target, error) = (calls("log/", Operations::Syncs), FaultError::Number(5));
    Fault { target, error, skip: 0, count: u64::MAX }
}

#[test]
fn a_session_never_reads_without_what_it_has_committed_also_when_the_database_has_stopped() {
    let disk = SimulatedDisk::new(1);
    let (database, table) = with_rows(&disk, &options());
    let (own, other) = (database.new_session(), database.new_session());
    let gate = disk.hold(calls("log/", Operations::Syncs));
    let ahead = commits_on_their_way(&database, &table, &own);
    disk.inject(failing_syncs_of_the_log());
    gate.open();
    let ended = ahead.wait();
    assert!(matches!(ended, Err(Error::Stopped { .. })), "{ended:?}");
    let key = 1_101_u32.to_be_bytes();
    let snapshot = own.snapshot();
    let reads: [(&str, Result<(), Error>); 8] = [
        ("get", own.get(&table, key).map(drop)),
        ("tables", own.tables().list().map(drop)),
        ("table", own.table("t").map(drop)),
        ("a transaction", own.begin().get(&table, key).map(drop)),
        ("a range", own.begin().rows(&table).next().unwrap().map(drop)),
        ("a snapshot's table", snapshot.table("t").map(drop)),
        ("a snapshot's row", snapshot.get(&table, key).map(drop)),
        ("a snapshot's range", snapshot.rows(&table).next().unwrap().map(drop)),
    ];
    for (what, read) in reads {
        assert!(matches!(read, Err(Error::Stopped { .. })), "{what}: {read:?}");
    }
    // Others were promised nothing, and read what is there.
    for reader in [&database, &other] {
        assert_eq!(reader.snapshot().rows(&table).count(), 1_100);
        assert_eq!(reader.get(&table, key).unwrap(), None);
    }
}

/// Prepares a row without waiting for the disk.
fn prepare_unsynced(database: &Database, table: &Table) {
    let mut transaction = database.begin();
    transaction.set_durability(Durability::Async);
    transaction.put(table, b"prepared", b"value").unwrap();
    transaction.prepare("gid").unwrap();
}

fn gids(database: &Database) -> Vec<String> {
    database.two_phase().in_doubt().unwrap().into_iter().map(|transaction| transaction.gid).collect()
}

/// A coordinator, which has a session of its own, takes what is not listed for decided.
#[test]
fn a_prepare_that_has_returned_is_listed_in_doubt_whatever_the_disk_does() {
    let disk = SimulatedDisk::new(1);
    let (database, table) = with_rows(&disk, &options());
    let coordinator = database.new_session();
    std::thread::scope(|scope| {
        let gate = disk.hold(calls("log/", Operations::Syncs));
        let ahead = commits_on_their_way(&database, &table, &database);
        prepare_unsynced(&database, &table);
        let listed = scope.spawn(|| gids(&coordinator));
        gate.open();
        assert_eq!(listed.join().unwrap(), ["gid"]);
        ahead.wait().unwrap();
    });
    database.two_phase().rollback("gid").unwrap();
    let gate = disk.hold(calls("log/", Operations::Syncs));
    let ahead = commits_on_their_way(&database, &table, &database);
    prepare_unsynced(&database, &table);
    disk.inject(failing_syncs_of_the_log());
    gate.open();
    let ended = ahead.wait();
    assert!(matches!(ended, Err(Error::Stopped { .. })), "{ended:?}");
    assert_eq!(gids(&coordinator), ["gid"], "recovery decides whether it is prepared");
}

#[test]
fn while_a_checkpoint_waits_for_the_disk_commits_and_readers_go_on() {
    for target in [
        calls("pages", Operations::Only(Operation::Write)),
        calls("pages", Operations::Syncs),
        calls("recovery/", Operations::Syncs),
        calls("superblock", Operations::Syncs),
    ] {
        let disk = SimulatedDisk::new(2);
        // In one segment: the cleaner of the log syncs the superblock, too.
        let mut options = options();
        options.format.segment_bytes = 4 << 20;
        let (database, table) = with_rows(&disk, &options);
        put_rows(&database, &table, 0..600);
        let opened = Opened::default();
        std::thread::scope(|scope| {
            let gate = disk.hold(target.clone());
            let checkpoint = scope.spawn(|| opened.only_then(database.checkpoint()));
            gate.await_waiting(1);
            put_rows(&database, &table, 1_100..1_200);
            check_rows(&database, 0..1_200);
            let seen = database.statistics();
            assert!(seen.memtable.frozen >= 1 && seen.checkpoints.failed == 0, "{target:?}: {seen:?}");
            opened.open(&gate);
            checkpoint.join().unwrap().unwrap();
        });
        check_rows(&database, 0..1_200);
        check_clean(&database);
        let crashed = disk.after_power_loss(PowerLoss::LoseAll);
        let options = Options { background: Background::Manual, ..options };
        check_rows(&open_at(&crashed, &SimulatedClock::default(), &options), 0..1_200);
    }
}

#[test]
fn while_one_reader_waits_for_a_cold_page_others_and_writers_go_on() {
    let disk = SimulatedDisk::new(3);
    let mut options = options();
    options.memory.cache_bytes = 64 << 10;
    let (database, _) = with_rows(&disk, &options);
    database.close().unwrap();
    let database = open(&disk, &options);
    let table = database.table("t").unwrap();
    // The last rows, and the pages above them, are in the cache now.
    for number in 990..1_000_u32 {
        assert!(database.get(&table, number.to_be_bytes()).unwrap().is_some());
    }
    let opened = &Opened::default();
    std::thread::scope(|scope| {
        let gate = disk.hold(calls("pages", Operations::Reads));
        let get = |number: u32| database.get(&table, number.to_be_bytes()).unwrap().unwrap() == value(number);
        let cold = scope.spawn(move || opened.only_then((0..990).all(get)));
        gate.await_waiting(1);
        for number in 990..1_000_u32 {
            assert_eq!(database.get(&table, number.to_be_bytes()).unwrap().unwrap(), value(number));
        }
        put_rows(&database, &table, 1_000..1_200);
        database.statistics();
        opened.open(&gate);
        assert!(cold.join().unwrap());
    });
    check_rows(&database, 0..1_200);
    database.close().unwrap();
}

/// There may be hours of it, and a checkpoint that waits is memory that fills.
#[test]
fn while_a_check_reads_old_log_that_is_held_checkpoints_and_closing_go_on() {
    let disk = SimulatedDisk::new(6);
    let (database, table) = with_rows(&disk, &options());
    let permanent = HoldOptions { lifetime: HoldLifetime::Permanent, ..HoldOptions::default() };
    let hold = database.log().hold("archive", permanent, None).unwrap();
    put_rows(&database, &table, 1_100..2_000);
    database.checkpoint().unwrap();
    let segment_bytes = options().format.segment_bytes;
    let old = hold.position().get() / segment_bytes + 1;
    assert!(database.info().unwrap().redo_point.get() / segment_bytes > old + 1);
    for is_closed in [false, true] {
        std::thread::scope(|scope| {
            let gate = disk.hold(calls(&format!("log/00000001{old:016X}"), Operations::Reads));
            let (checked, used) = (database.clone(), database.clone());
            let check = scope.spawn(move || checked.check(&mut |damage| panic!("{damage}")));
            gate.await_waiting(1);
            let (sender, has_ended) = std::sync::mpsc::channel();
            let other = scope.spawn(move || {
                let outcome = if is_closed { used.close() } else { used.checkpoint().map(drop) };
                sender.send(()).unwrap();
                outcome
            });
            // As long as it takes if all is well; if not, this is what fails.
            let is_free = has_ended.recv_timeout(std::time::Duration::from_secs(60)).is_ok();
            gate.open();
            other.join().unwrap().unwrap();
            assert!(is_free, "the check kept it out");
            let checked = check.join().unwrap();
            match is_closed {
                false => assert!(checked.unwrap().log_records > 900),
                true => assert!(matches!(checked, Err(Error::Closed)), "{checked:?}"),
            }
        });
    }
}

/// What a check cannot read because its holder has let it go is no damage.
#[test]
fn old_log_that_is_released_while_a_check_reads_it_is_no_damage() {
    for released in [false, true] {
        let disk = SimulatedDisk::new(7);
        let options = Options { background: Background::Manual, ..options() };
        let (database, table) = with_rows(&disk, &options);
        let hold = database.log().hold("archive", HoldOptions::default(), None).unwrap();
        put_rows(&database, &table, 1_100..3_500);
        database.checkpoint().unwrap();
        let redo_point = database.info().unwrap().redo_point;
        let old = hold.position().get() / options.format.segment_bytes + 2;
        assert!(redo_point.get() / options.format.segment_bytes > old + 3);
        std::thread::scope(|scope| {
            let gate = disk.hold(calls(&format!("log/00000001{old:016X}"), Operations::Reads));
            let check = scope.spawn(|| database.check(&mut |damage| panic!("{damage}")));
            gate.await_waiting(1);
            let unneeded = database.statistics().segments.removed + database.statistics().segments.recycled;
            if released {
                database.log().release_hold("archive").unwrap();
            } else {
                hold.advance(redo_point).unwrap();
            }
            // Two, so that they are removed, and what took their names recycled once more.
            for rows in [3_500..4_000, 4_000..4_500] {
                put_rows(&database, &table, rows);
                database.checkpoint().unwrap();
            }
            let statistics = database.statistics();
            assert!(
                statistics.segments.removed + statistics.segments.recycled > unneeded + 3,
                "{statistics:?}"
            );
            gate.open();
            check.join().unwrap().unwrap();
        });
    }
}

/// There are segments in reserve: they are filled while another one is being made.
#[test]
fn while_a_segment_is_being_made_commits_go_on_in_the_spare_one() {
    for target in [
        calls("log/spare.", Operations::Only(Operation::FillZeros)),
        calls("log/spare.", Operations::Syncs),
        calls("log/spare.", Operations::Only(Operation::Rename)),
        calls("log", Operations::Only(Operation::SyncDirectory)),
    ] {
        let disk = SimulatedDisk::new(4);
        let mut options = options();
        options.log.spare_segments = 4;
        let (database, table) = with_rows(&disk, &options);
        let all_are_ready = || database.statistics().segments.spare >= 4;
        wait_until("four spare segments", all_are_ready);
        let gate = disk.hold(target.clone());
        let mut rows = 1_100;
        while gate.waiting() == 0 {
            // One is missing: somebody makes it, as soon as he gets to it.
            wait_until("the missing segment, or its making to be held", || {
                all_are_ready() || gate.waiting() > 0
            });
            if gate.waiting() > 0 {
                break;
            }
            put_rows(&database, &table, rows..rows + 10);
            rows += 10;
            assert!(rows < 4_000, "{target:?}: no segment is made");
        }
        // A segment's worth more.
        put_rows(&database, &table, rows..rows + 200);
        check_rows(&database, 0..rows + 200);
        gate.open();
        put_rows(&database, &table, rows + 200..rows + 2_000);
        check_rows(&database, 0..rows + 2_000);
        database.close().unwrap();
    }
}

#[test]
fn closing_waits_for_a_slow_disk_and_loses_nothing() {
    let disk = SimulatedDisk::new(5);
    let (database, table) = with_rows(&disk, &options());
    std::thread::scope(|scope| {
        let gate = disk.hold(calls("log/", Operations::Syncs));
        database.with(Durability::Async).put(&table, 1_100_u32.to_be_bytes(), value(1_100)).unwrap();
        gate.await_waiting(1);
        let closing = scope.spawn(|| database.close());
        // It is the last one: whoever opens now is refused, and not let in beside it.
        let refused = common::try_open(&disk, small_options());
        assert!(matches!(refused, Err(seawall_engine::Error::InUse { .. })), "{refused:?}");
        gate.open();
        closing.join().unwrap().unwrap();
    });
    let after = disk.after_power_loss(PowerLoss::LoseAll);
    check_rows(&open_at(&after, &SimulatedClock::default(), &small_options()), 0..1_101);
}

/// Spikes of seconds everywhere, at random: the same answers, later.
#[test]
fn spikes_of_seconds_change_no_answer() {
    for seed in 0..8 {
        let (disk, clock) = (SimulatedDisk::new(seed), SimulatedClock::default());
        let mut random = SeededRandom::new(seed);
        let mut options = small_options();
        options.checkpoint.log_bytes = 128 << 10;
        for operations in [Operations::Reads, Operations::Writes, Operations::Syncs] {
            for _ in 0..20 {
                let duration = std::time::Duration::from_millis(random.range(1..9_000));
                let (skip, count) = (random.below(300), random.range(1..4));
                let delay = Delay { target: calls("", operations), duration, skip, count };
                disk.slow_down(delay, Arc::new(clock.clone()));
            }
        }
        let database = open_at(&disk, &clock, &options);
        let table = database.create_table("t").unwrap();
        put_rows(&database, &table, 0..1_000);
        check_rows(&database, 0..1_000);
        check_clean(&database);
        let seconds = seawall_io::Clock::monotonic(&clock).as_secs();
        assert!(seconds > 60, "seed {seed}: {seconds} s");
        database.close().unwrap();
        check_rows(&open_at(&disk, &clock, &options), 0..1_000);
    }
}
