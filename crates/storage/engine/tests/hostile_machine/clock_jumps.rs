//! The time of day is set, and the machine sleeps: what is committed does not depend on any clock.

use std::time::Duration;

use seawall_engine::{Background, Error, InDoubtAction, InDoubtRule, LockWait, Options, TransactionOptions};
use seawall_simulation::{
    Delay, Operation, Operations, PowerLoss, SeededRandom, SimulatedClock, SimulatedDisk,
};
use seawall_testing::wait_until;
use std::sync::Arc;

use super::{calls, check_clean, check_rows, open_at, put_rows, small_options};

const HOUR: Duration = Duration::from_secs(3600);
const HOUR_MICROS: i64 = 3_600_000_000;

#[test]
fn commits_keep_their_order_whatever_the_time_of_day_is() {
    let (disk, clock) = (SimulatedDisk::new(1), SimulatedClock::default());
    let mut database = open_at(&disk, &clock, &small_options());
    let table = database.create_table("t").unwrap();
    let mut random = SeededRandom::new(1);
    let mut last = database.snapshot().lsn();
    for number in 0..400 {
        let micros = match random.below(5) {
            0 => i64::MIN,
            1 => i64::MAX,
            2 => -1,
            _ => i64::try_from(random.below(1 << 52)).unwrap(),
        };
        clock.set_wall_micros(micros);
        put_rows(&database, &table, number..number + 1);
        let now = database.snapshot().lsn();
        assert!(now > last);
        last = now;
        database.statistics();
        match random.below(40) {
            0 => assert!(database.checkpoint().is_ok()),
            1 => {
                let crashed = disk.copy();
                let copy = open_at(&crashed, &clock, &small_options());
                check_rows(&copy, 0..number + 1);
            }
            _ => {}
        }
    }
    check_clean(&database);
    database.close().unwrap();
    clock.set_wall_micros(i64::MIN);
    database = open_at(&disk, &clock, &small_options());
    check_rows(&database, 0..400);
    assert!(database.info().unwrap().recent_checkpoints.len() > 3);
    check_clean(&database);
}

/// A decision that a coordinator did not make cannot be taken back.
#[test]
fn a_time_of_day_that_is_set_ahead_makes_no_transaction_old_and_none_young() {
    let (disk, clock) = (SimulatedDisk::new(2), SimulatedClock::default());
    let rules = [InDoubtRule::new(HOUR, InDoubtAction::RollBack)];
    let database = open_at(&disk, &clock, &small_options());
    let table = database.create_table("t").unwrap();
    let prepare = |gid: &str| {
        let mut transaction = database.begin();
        transaction.put(&table, gid, "1").unwrap();
        transaction.prepare(gid).unwrap();
    };
    let start = 1_735_689_600_000_000;
    let decided = || database.two_phase().apply_rules(&rules).unwrap().decided.len();
    prepare("first");
    clock.set_wall_micros(start + 24 * HOUR_MICROS);
    assert_eq!(decided(), 0, "a day ahead");
    assert_eq!(database.two_phase().in_doubt().unwrap()[0].age, Duration::ZERO);
    prepare("second");
    clock.set_wall_micros(start - 24 * HOUR_MICROS);
    clock.advance(HOUR - Duration::from_secs(1));
    assert_eq!(decided(), 0);
    assert_eq!(database.statistics().two_phase.oldest_in_doubt, Some(HOUR - Duration::from_secs(1)));
    clock.advance(Duration::from_secs(1));
    assert_eq!(decided(), 2, "an hour is an hour, also of a day that was set back");
    prepare("third");
    drop(database);
    // A new process has nothing but the time of day to go by, and counts on from there.
    clock.set_wall_micros(start - 24 * HOUR_MICROS + 2 * HOUR_MICROS);
    let database = open_at(&disk.after_power_loss(PowerLoss::KeepAll), &clock, &small_options());
    assert_eq!(database.two_phase().in_doubt().unwrap()[0].age, HOUR);
    clock.set_wall_micros(0);
    clock.advance(HOUR);
    assert_eq!(database.two_phase().in_doubt().unwrap()[0].age, 2 * HOUR);
    assert_eq!(database.two_phase().apply_rules(&rules).unwrap().decided.len(), 1);
}

/// As after a suspended laptop: everything that waits has waited for hours, and all at once.
#[test]
fn hours_that_pass_in_any_disk_call_break_nothing() {
    for seed in 0..12 {
        let (disk, clock) = (SimulatedDisk::new(seed), SimulatedClock::default());
        let mut random = SeededRandom::new(seed);
        let mut options = small_options();
        options.transaction.lock_wait = LockWait::Timeout(Duration::from_secs(10));
        options.checkpoint.log_bytes = 128 << 10;
        options.checkpoint.io_limit = if seed % 2 == 0 { 1 << 20 } else { 0 };
        let mut rows = 0;
        for life in 0..3 {
            for operations in [
                Operations::Reads,
                Operations::Only(Operation::Write),
                Operations::Only(Operation::WriteDurable),
                Operations::Syncs,
            ] {
                let target = calls("", operations);
                let delay = Delay { target, duration: HOUR * 7, skip: random.below(60), count: 3 };
                disk.slow_down(delay, Arc::new(clock.clone()));
            }
            let database = open_at(&disk, &clock, &options);
            let table = match database.table("t") {
                Err(Error::NoSuchTable { .. }) => database.create_table("t").unwrap(),
                found => found.unwrap(),
            };
            check_rows(&database, 0..rows);
            for _ in 0..300 {
                put_rows(&database, &table, rows..rows + 1);
                rows += 1;
                database.statistics();
            }
            check_clean(&database);
            assert!(clock_hours(&clock) > life, "seed {seed}");
            database.close().unwrap();
        }
    }
}

fn clock_hours(clock: &SimulatedClock) -> u64 {
    seawall_io::Clock::monotonic(clock).as_secs() / 3600
}

/// It promises not to; but a clock of a virtual machine that was moved is not ours to trust.
#[test]
fn a_monotonic_clock_that_runs_backwards_stops_nobody() {
    let (disk, clock) = (SimulatedDisk::new(3), SimulatedClock::default());
    clock.advance(HOUR * 100);
    let mut options = small_options();
    options.transaction.lock_wait = LockWait::Timeout(Duration::from_millis(20));
    options.checkpoint.log_bytes = 128 << 10;
    let database = open_at(&disk, &clock, &options);
    let table = database.create_table("t").unwrap();
    for number in 0..600 {
        clock.set_monotonic(HOUR * (100 - number % 90));
        put_rows(&database, &table, number..number + 1);
        database.statistics();
        if number % 100 == 50 {
            database.checkpoint().unwrap();
        }
    }
    let mut holder = database.begin();
    holder.put(&table, "held", "1").unwrap();
    let mut waiter = database.with(TransactionOptions { ..options.transaction }).begin();
    std::thread::scope(|scope| {
        let refused = scope.spawn(|| waiter.put(&table, "held", "2"));
        wait_until("the waiter to wait, or to be refused", || {
            database.statistics().transactions.lock_waiters > 0 || refused.is_finished()
        });
        clock.set_monotonic(Duration::ZERO);
        clock.advance(HOUR);
        clock.set_monotonic(HOUR * 200);
        assert!(matches!(refused.join().unwrap(), Err(Error::Locked { .. })));
    });
    drop((waiter, holder));
    check_rows(&database, 0..600);
    check_clean(&database);
    database.close().unwrap();
}

/// A checkpoint that took hours on the clock says nothing about the next one.
#[test]
fn writers_are_not_held_back_for_long_after_a_clock_has_jumped() {
    let (disk, clock) = (SimulatedDisk::new(4), SimulatedClock::default());
    let options = Options { background: Background::Manual, ..small_options() };
    let database = open_at(&disk, &clock, &options);
    let table = database.create_table("t").unwrap();
    put_rows(&database, &table, 0..3_000);
    let target = calls("pages", Operations::Writes);
    let delay = Delay { target, duration: HOUR * 5, skip: 0, count: 4 };
    disk.slow_down(delay, Arc::new(clock.clone()));
    database.checkpoint().unwrap();
    for _ in 0..2 {
        put_rows(&database, &table, 0..3_000);
        database.checkpoint().unwrap();
    }
    let before = database.statistics().throttle.delayed_micros;
    put_rows(&database, &table, 0..3_000);
    database.checkpoint().unwrap();
    let after = database.statistics().throttle;
    assert_eq!(after.delayed_micros, before, "{after:?}");
    check_rows(&database, 0..3_000);
}
