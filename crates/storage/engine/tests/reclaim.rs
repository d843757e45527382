//! The space of dropped tables: cut out by checkpoints, beside everything that goes on meanwhile.
#![expect(clippy::unwrap_used, reason = "a test that fails panics")]

mod common;

use std::fmt;
use std::sync::Arc;
use std::thread::ThreadId;
use std::time::Duration;

use seawall_engine::{
    Background, Database, Durability, Environment, LockWait, Options, Transaction, TransactionOptions,
};
use seawall_io::Clock;
use seawall_simulation::{PowerLoss, SimulatedClock, SimulatedDisk, SimulatedRandom, crash_step};
use seawall_sync::Mutex;
use seawall_testing::wait_until;

use common::small_options;

type Action = Box<dyn FnOnce() + Send>;

/// A clock that stands still, and does something when one thread looks at it: the tests' way into a checkpoint.
#[derive(Clone, Default)]
struct ObservedClock {
    clock: SimulatedClock,
    /// Looks that the thread has still to do before.
    observer: Arc<Mutex<Option<(ThreadId, u32, Action)>>>,
}

impl ObservedClock {
    /// Acts when this thread has looked at the clock `looks` times.
    fn after_looks(&self, looks: u32, action: Action) {
        *self.observer.lock() = Some((std::thread::current().id(), looks, action));
    }
}

impl fmt::Debug for ObservedClock {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ObservedClock")
    }
}

impl Clock for ObservedClock {
    fn wall_micros(&self) -> i64 {
        self.clock.wall_micros()
    }

    fn monotonic(&self) -> Duration {
        let action = {
            let mut observer = self.observer.lock();
            match observer.as_mut() {
                Some((thread, looks, _)) if *thread == std::thread::current().id() => {
                    *looks = looks.saturating_sub(1);
                    if *looks == 0 { observer.take().map(|(_, _, action)| action) } else { None }
                }
                _ => None,
            }
        };
        if let Some(action) = action {
            action();
        }
        self.clock.monotonic()
    }

    fn sleep(&self, duration: Duration) {
        self.clock.sleep(duration);
    }
}

fn open_with(disk: &SimulatedDisk, clock: &ObservedClock, options: Options) -> Database {
    let environment = Environment {
        disk: Arc::new(disk.clone()),
        clock: Arc::new(clock.clone()),
        random: Arc::new(SimulatedRandom::new(1)),
    };
    Database::open(environment, options).unwrap()
}

/// A table is loaded before a checkpoint freezes, committed and truncated after it: its rows belong to a table in between,
/// which old snapshots see, and a crash that loses the truncate.
#[test]
fn a_table_loaded_and_truncated_during_a_checkpoint_keeps_its_rows_for_those_who_see_them() {
    let mut during = 0;
    // Whatever moment of the checkpoint that is.
    for looks in 1..=12 {
        let (disk, clock) = (SimulatedDisk::new(1), ObservedClock::default());
        let mut options = small_options();
        options.transaction.lock_wait = LockWait::Timeout(Duration::from_secs(60));
        let database = open_with(&disk, &clock, options.clone());
        let mut load = database.tables().bulk_load("loaded").unwrap();
        for row in 0..100_u32 {
            load.add(row.to_be_bytes(), [7; 100]).unwrap();
        }
        // The storage is listed in `reclaim` by now, in case the load is never finished.
        database.checkpoint().unwrap();
        let mut blocker = database.begin();
        blocker.create_table("loaded").unwrap();
        let other = database.clone();
        let loader = std::thread::spawn(move || {
            load.finish().unwrap();
            let snapshot = other.snapshot();
            let unsynced = TransactionOptions { durability: Durability::Async, ..options.transaction };
            let mut transaction = other.with(unsynced).begin();
            transaction.truncate_table("loaded").unwrap();
            let truncated = transaction.commit().unwrap();
            (snapshot, truncated)
        });
        wait_until("the truncate to wait for a lock", || database.statistics().transactions.lock_waiters > 0);
        let loaded = Arc::new(Mutex::new(None));
        let result = Arc::clone(&loaded);
        clock.after_looks(
            looks,
            Box::new(move || {
                blocker.rollback();
                *result.lock() = Some(loader.join().unwrap());
            }),
        );
        database.checkpoint().unwrap();
        let Some((snapshot, truncated)) = loaded.lock().take() else { break };
        let table = snapshot.table("loaded").unwrap();
        assert_eq!(snapshot.rows(&table).count(), 100, "to a snapshot, {looks} looks");
        drop(snapshot);
        let crashed =
            open_with(&disk.after_power_loss(PowerLoss::LoseAll), &ObservedClock::default(), small_options());
        let table = crashed.table("loaded").unwrap();
        // What came before the freeze is as durable as the checkpoint.
        let lost = truncated > database.statistics().checkpoints.redo_point;
        let left = if lost { 100 } else { 0 };
        assert_eq!(crashed.snapshot().rows(&table).count(), left, "after a crash, {looks} looks");
        during += u32::from(lost);
    }
    println!("truncated after the freeze in {during} runs");
    assert!(during >= 3);
}

/// A sorted load that is linked some leaves at a time, and the power goes in any call of it: the table has all rows or is not
/// there, and what was linked of it is cut out by the next checkpoints.
#[test]
fn a_load_that_is_linked_in_pieces_is_there_whole_after_a_power_loss_or_leaves_no_row() {
    const ROWS: u32 = 3000;
    let mut options = small_options();
    options.format.page_bytes = 4096;
    options.memory.memtable_bytes = 64 << 10;
    let open = |disk: &SimulatedDisk| common::try_open(disk, options.clone());
    let load = |disk: &SimulatedDisk| {
        let database = open(disk)?;
        let mut load = database.tables().bulk_load("t")?;
        (0..ROWS).try_for_each(|row| load.add(row.to_be_bytes(), [7; 500]))?;
        load.finish().map(drop)
    };
    let empty = SimulatedDisk::new(1);
    open(&empty).unwrap().close().unwrap();
    let whole = empty.copy();
    load(&whole).unwrap();
    let (calls, mut begun) = (whole.calls(), 0);
    for call in (0..calls).step_by(crash_step(calls, 100)) {
        let disk = empty.copy();
        disk.crash_at(call);
        load(&disk).unwrap_or_else(|error| println!("call {call}: {error}"));
        for outcome in [PowerLoss::LoseAll, PowerLoss::Random(call)] {
            let context = format!("call {call} of {calls}, {outcome:?}");
            let database = open(&disk.after_power_loss(outcome)).unwrap();
            let check = || database.check(&mut |damage| panic!("{context}: {damage}")).unwrap().rows;
            match database.table("t") {
                Ok(table) => {
                    let count = database.snapshot().rows(&table).count();
                    assert_eq!(count, ROWS as usize, "{context}");
                }
                Err(_) => {
                    begun += u32::from(check() > 100);
                    for _ in 0..3 {
                        database.checkpoint().unwrap();
                    }
                    assert!(check() < 10, "{context}: rows are left");
                }
            }
        }
    }
    println!("{begun} power losses left a part of the table");
    assert!(begun > 3, "{begun} power losses left a part of the table");
}

fn define_many(database: &Database, count: u32) {
    let names = || (0..count).map(|number| format!("table {number}"));
    database
        .transact(|transaction| names().try_for_each(|name| transaction.create_table(&name).map(drop)))
        .unwrap();
}

fn drop_many(database: &Database, count: u32) {
    let names = || (0..count).map(|number| format!("table {number}"));
    database.transact(|transaction| names().try_for_each(|name| transaction.drop_table(&name))).unwrap();
}

#[test]
fn many_dropped_tables_are_forgotten_a_few_at_a_time() {
    let (disk, clock) = (SimulatedDisk::new(1), ObservedClock::default());
    let database = open_with(&disk, &clock, small_options());
    define_many(&database, 3000);
    database.checkpoint().unwrap();
    drop_many(&database, 3000);
    let snapshot_of = |database: &Database| database.statistics().reclaim;
    assert_eq!(snapshot_of(&database).waiting, Some(3000));
    let (mut waiting, mut checkpoints) = (3000, 0);
    while waiting > 0 {
        database.checkpoint().unwrap();
        let left = snapshot_of(&database).waiting.unwrap();
        assert!(left < waiting, "{left} of {waiting} are left");
        let memtable = database.statistics().memtable.bytes;
        assert!(memtable <= small_options().memory.memtable_bytes / 4, "{memtable} bytes in the memtable");
        (waiting, checkpoints) = (left, checkpoints + 1);
    }
    assert!(checkpoints > 1);
    assert_eq!(snapshot_of(&database).tables, 3000);
}

#[test]
fn what_one_checkpoint_leaves_the_next_one_takes_at_once() {
    let (disk, clock) = (SimulatedDisk::new(1), ObservedClock::default());
    let hour = Duration::from_secs(3600);
    let mut options = Options { background: Background::Threads, ..small_options() };
    options.checkpoint.interval = hour;
    let database = open_with(&disk, &clock, options);
    define_many(&database, 3000);
    drop_many(&database, 3000);
    database.checkpoint().unwrap();
    wait_until("the dropped tables to be cut out", || database.statistics().reclaim.waiting == Some(0));
}

#[test]
fn a_merge_of_definitions_keeps_to_the_limit_on_its_writes() {
    let (disk, clock) = (SimulatedDisk::new(1), ObservedClock::default());
    let mut options = small_options();
    options.memory.memtable_bytes = 16 << 20;
    options.checkpoint.io_limit = 1 << 20;
    options.recovery.target = None;
    let database = open_with(&disk, &clock, options);
    define_many(&database, 10_000);
    let statistics = database.checkpoint().unwrap();
    let written = statistics.fresh_pages + statistics.protected_pages;
    println!("{statistics:?}");
    assert!(statistics.chunks > 5 && written > 100, "{} chunks, {written} pages", statistics.chunks);
    // The clock of the test moves only when somebody rests.
    assert!(statistics.durations.paused > Duration::from_millis(500), "{:?}", statistics.durations);
}

/// The number of a storage that nobody uses any more is not given again, whatever the log says of it last.
#[test]
fn a_storage_that_was_dropped_as_soon_as_it_was_made_is_not_another_tables_after_a_replay() {
    let (disk, clock) = (SimulatedDisk::new(1), ObservedClock::default());
    let database = open_with(&disk, &clock, small_options());
    let first = database.create_table("first").unwrap().id();
    database.checkpoint().unwrap();
    let truncate_and_drop = |transaction: &mut Transaction| {
        transaction.truncate_table("first")?;
        transaction.drop_table("first")
    };
    database.transact(truncate_and_drop).unwrap();
    let killed = disk.copy();
    disk.crash();
    drop(database);
    let database = open_with(&killed, &clock, small_options());
    // What was replayed is in the tree then, and that the storage is cut out is lost again.
    database.checkpoint().unwrap();
    let killed = killed.after_power_loss(PowerLoss::LoseAll);
    let database = open_with(&killed, &clock, small_options());
    let table = database.create_table("second").unwrap();
    assert!(table.id() > first + 1, "{} after {first}, which was truncated", table.id());
    database.put(&table, "key", "value").unwrap();
    database.checkpoint().unwrap();
    assert_eq!(database.get(&table, "key").unwrap().as_deref(), Some(&b"value"[..]));
}
