//! What a promotion costs, what it waits for, and what is left when it fails; and what a standby refuses to follow.
#![allow(clippy::unwrap_used, reason = "a test that fails panics")]

mod common;

use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::time::Duration;

use common::following::{Following, follow};
use common::memory_archive::MemoryArchive;
use common::small_options;
use seawall_crash_harness::{environment, open, template};
use seawall_engine::{
    ArchiveOptions, Database, DatabaseDirectory, Durability, Environment, Error, NewTimeline, Options,
    Transaction,
};
use seawall_io::Clock;
use seawall_simulation::{
    Fault, FaultError, FaultTarget, Operation, Operations, PowerLoss, SimulatedClock, SimulatedDisk,
};
use seawall_types::TimelineId;

const LONG: Duration = Duration::from_secs(60);

fn syncs(disk: &SimulatedDisk, since: usize) -> Vec<String> {
    let is_sync =
        |operation| matches!(operation, Operation::Sync | Operation::SyncDirectory | Operation::WriteDurable);
    let trace = disk.trace();
    let syncs = trace[since..].iter().filter(|call| is_sync(call.operation));
    syncs.map(|call| format!("{:?} {}", call.operation, call.path)).collect()
}

#[test]
fn a_promotion_takes_six_syncs_and_writes_no_segment_full_of_zeros() {
    let mut pair = Following::new();
    for _ in 0..5 {
        pair.flush_primary();
        let table = pair.primary.table("flushed").unwrap();
        pair.primary.put(&table, b"long", [7; 40_000]).unwrap();
        pair.catch_up();
        pair.standby.standby().unwrap().checkpoint().unwrap();
    }
    pair.catch_up();
    let before = pair.standby_disk.trace().len();
    pair.standby.standby().unwrap().promote("test").unwrap();
    let found = syncs(&pair.standby_disk, before);
    assert!(found.len() <= 6, "{found:#?}");
    let written: u64 = pair.standby_disk.trace()[before..]
        .iter()
        .filter_map(|call| call.range.clone())
        .map(|range| range.end - range.start)
        .sum();
    assert!(written < 64 << 10, "{written} bytes");
    let table = pair.standby.table("flushed").unwrap();
    pair.standby.put(&table, b"k", b"promoted").unwrap();
}

#[test]
fn a_promotion_says_what_took_how_long() {
    let mut pair = Following::new();
    pair.flush_primary();
    pair.catch_up();
    assert_eq!(pair.standby.statistics().promotion, None);
    let fork = pair.standby.log().flushed();
    let promotion = pair.standby.standby().unwrap().promote("test").unwrap();
    assert_eq!((promotion.timeline, promotion.fork), (TimelineId::new(2).unwrap(), fork));
    let phases = promotion.phases.named();
    assert_eq!(promotion.phases.total(), phases.iter().map(|(_, took)| *took).sum());
    let statistics = pair.standby.statistics();
    assert_eq!(statistics.promotion, Some(promotion));
    let text = statistics.open_metrics();
    for (phase, took) in phases {
        let sample = format!("seawall_promotion_seconds{{phase=\"{phase}\"}} {}\n", took.as_secs_f64());
        assert!(text.contains(&sample), "{sample}");
    }
}

/// A server that was restored has no pending files. A promotion has no time to make them.
#[test]
fn a_standby_makes_what_its_promotion_needs_when_it_opens() {
    let mut pair = Following::new();
    pair.catch_up();
    // Beyond the first block of its segment, whose header a flush writes otherwise.
    let table = pair.primary.table("flushed").unwrap();
    pair.primary.put(&table, b"long", [7; 10_000]).unwrap();
    pair.catch_up();
    for path in ["log/pending.1", "log/pending.2"] {
        assert!(pair.standby_disk.remove_file(path));
    }
    let left = pair.standby_disk.copy();
    pair.standby_disk.crash();
    let standby = follow(&left, &pair.options);
    standby.standby().unwrap().checkpoint().unwrap();
    let before = left.trace().len();
    standby.standby().unwrap().promote("test").unwrap();
    let found = syncs(&left, before);
    assert!(found.len() <= 6, "{found:#?}");
}

/// Time in which who sleeps sleeps until it is woken.
#[derive(Debug, Default)]
struct DeepSleep {
    clock: SimulatedClock,
    state: Mutex<Sleepers>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Sleepers {
    count: usize,
    are_woken: bool,
}

impl DeepSleep {
    fn await_sleeper(&self) {
        let state = self.state.lock().unwrap();
        let waited = self.changed.wait_timeout_while(state, LONG, |state| state.count == 0);
        assert!(!waited.unwrap().1.timed_out(), "nobody sleeps");
    }

    fn wake_all(&self) {
        self.state.lock().unwrap().are_woken = true;
        self.changed.notify_all();
    }
}

impl Clock for DeepSleep {
    fn wall_micros(&self) -> i64 {
        self.clock.wall_micros()
    }

    fn monotonic(&self) -> Duration {
        self.clock.monotonic()
    }

    fn sleep(&self, duration: Duration) {
        let mut state = self.state.lock().unwrap();
        state.count += 1;
        self.changed.notify_all();
        drop(self.changed.wait_while(state, |state| !state.are_woken).unwrap());
        self.clock.sleep(duration);
    }
}

/// A checkpoint rests between two chunks, as long as it likes.
#[test]
fn a_promotion_does_not_wait_for_a_checkpoint() {
    let mut options = small_options();
    options.checkpoint.io_limit = 1 << 20;
    let mut pair = Following::with(options.clone());
    pair.flush_primary();
    let table = pair.primary.table("flushed").unwrap();
    for row in 0..400_u32 {
        pair.primary.put(&table, row.to_be_bytes(), [7; 1000]).unwrap();
    }
    pair.catch_up();
    let left = pair.standby_disk.after_power_loss(PowerLoss::LoseAll);
    pair.standby_disk.crash();
    let clock = Arc::new(DeepSleep::default());
    let environment =
        Environment { clock: Arc::clone(&clock) as Arc<dyn Clock>, ..environment(Arc::new(left.clone())) };
    let standby = DatabaseDirectory::at(environment).follow(options.clone()).unwrap();
    std::thread::scope(|scope| {
        let merging = scope.spawn(|| standby.standby().unwrap().checkpoint());
        clock.await_sleeper();
        let (done, outcome) = mpsc::channel();
        let promoting = &standby;
        scope.spawn(move || {
            let promoted = promoting.standby().unwrap().promote("test");
            let table = promoting.table("flushed").unwrap();
            let written = promoted.and_then(|_| promoting.put(&table, b"after", b"v").map(drop));
            done.send(written).unwrap();
        });
        let outcome = outcome.recv_timeout(LONG);
        let is_resting = !merging.is_finished();
        clock.wake_all();
        outcome.expect("the promotion waits").unwrap();
        assert!(is_resting, "the checkpoint was over");
        merging.join().unwrap().unwrap();
    });
    // The checkpoint has kept the new timeline, and its redo point is of use on it.
    let left = left.after_power_loss(PowerLoss::LoseAll);
    let database = open(&left, &options);
    assert_eq!(database.log().timeline(), TimelineId::new(2).unwrap());
    let table = database.table("flushed").unwrap();
    assert_eq!(database.snapshot().rows(&table).map(Result::unwrap).count(), 402);
    database.check(&mut |damage| panic!("{damage}")).unwrap();
}

#[test]
fn a_number_that_is_taken_ends_nothing() {
    let mut pair = Following::new();
    pair.catch_up();
    let standby = pair.standby.clone();
    let standby = standby.standby().unwrap();
    let number = TimelineId::new(1);
    let refused = standby.promote(NewTimeline { reason: "test", number });
    assert!(matches!(refused, Err(Error::TimelineNumber { .. })), "{refused:?}");
    // It follows on.
    let table = pair.primary.create_table("later").unwrap();
    pair.primary.put(&table, b"k", b"v").unwrap();
    pair.catch_up();
    assert!(pair.standby.table("later").is_ok());
}

/// The hold of the archive cannot be made, when the timeline has begun already.
#[test]
fn a_promotion_that_fails_on_its_own_timeline_stops_the_engine_and_the_next_open_completes_it() {
    let mut pair = Following::new();
    pair.catch_up();
    let left = pair.standby_disk.after_power_loss(PowerLoss::LoseAll);
    pair.standby_disk.crash();
    let archived = Options {
        archives: vec![ArchiveOptions::new(Arc::new(MemoryArchive::default()))],
        ..small_options()
    };
    let standby = follow(&left, &archived);
    // The standby holds the log for its archive already; without that, the promotion does.
    standby.log().release_hold("archiver").unwrap();
    left.inject(Fault {
        target: FaultTarget::Path { prefix: "log/holds".to_owned(), operations: Operations::Writes },
        error: FaultError::Number(28),
        skip: 0,
        count: 100,
    });
    let failed = standby.standby().unwrap().promote("test");
    assert!(matches!(failed, Err(Error::Stopped { .. })), "{failed:?}");
    left.clear_faults();
    assert!(standby.standby().is_none());
    let table = standby.table("flushed").unwrap();
    let refused = standby.put(&table, b"k", b"v");
    assert!(matches!(refused, Err(Error::Stopped { .. } | Error::ReadOnly)), "{refused:?}");
    let left = left.after_power_loss(PowerLoss::LoseAll);
    let database = open(&left, &archived);
    let table = database.table("flushed").unwrap();
    database.put(&table, b"k", b"v").unwrap();
    assert_eq!(database.log().timeline(), TimelineId::new(2).unwrap());
}

#[test]
fn transactions_in_doubt_and_their_locks_come_along() {
    let mut pair = Following::new();
    pair.flush_primary();
    let table = pair.primary.table("flushed").unwrap();
    for number in 0..10_u8 {
        let mut transaction = pair.primary.begin();
        transaction.put(&table, [number], b"prepared").unwrap();
        transaction.prepare(&format!("gid {number}")).unwrap();
    }
    pair.primary.two_phase().commit("gid 9").unwrap();
    pair.catch_up();
    pair.standby.standby().unwrap().checkpoint().unwrap();
    pair.standby.standby().unwrap().promote("test").unwrap();
    let database = &pair.standby;
    let table = database.table("flushed").unwrap();
    for number in 0..9_u8 {
        let refused = database.put(&table, [number], b"another");
        assert!(matches!(refused, Err(Error::Locked { .. })), "row {number}: {refused:?}");
    }
    database.put(&table, [9], b"another").unwrap();
    // After a power loss, with nothing merged, they are there too.
    let left = pair.standby_disk.after_power_loss(PowerLoss::LoseAll);
    pair.standby_disk.crash();
    let database = open(&left, &pair.options);
    let table = database.table("flushed").unwrap();
    assert_eq!(database.two_phase().in_doubt().unwrap().len(), 9);
    let refused = database.put(&table, [3], b"another");
    assert!(matches!(refused, Err(Error::Locked { .. })), "{refused:?}");
    for number in 0..9 {
        database.two_phase().commit(&format!("gid {number}")).unwrap();
    }
    assert_eq!(database.snapshot().get(&table, [3]).unwrap().as_deref(), Some(&b"prepared"[..]));
}

#[test]
fn definitions_in_doubt_come_along_and_are_decided_on_either_server() {
    for (promotes, commits) in [(true, true), (true, false), (false, true), (false, false)] {
        let mut pair = Following::new();
        pair.flush_primary();
        let rows = |database: &Database, name: &str| {
            let table = database.table(name).ok()?;
            Some(database.snapshot().range::<&[u8]>(&table, ..).count())
        };
        for name in ["dropped", "emptied", "old"] {
            let table = pair.primary.create_table(name).unwrap();
            pair.primary.put(&table, b"k", b"v").unwrap();
        }
        let mut transaction = pair.primary.begin();
        let made = transaction.create_table("made").unwrap();
        transaction.put(&made, b"m", b"v").unwrap();
        transaction.drop_table("dropped").unwrap();
        transaction.truncate_table("emptied").unwrap();
        transaction.rename_table("old", "new").unwrap();
        transaction.prepare("gid").unwrap();
        pair.catch_up();
        pair.standby.standby().unwrap().checkpoint().unwrap();
        pair.restart_standby(PowerLoss::LoseAll);
        if promotes {
            pair.standby.standby().unwrap().promote("test").unwrap();
            for name in ["dropped", "emptied", "old"] {
                let table = pair.standby.table(name).unwrap();
                let refused = pair.standby.put(&table, b"k", b"another");
                assert!(matches!(refused, Err(Error::Locked { .. })), "{name}: {refused:?}");
            }
            // Its number is that of no table of the transaction.
            let table = pair.standby.create_table("later").unwrap();
            pair.standby.put(&table, b"l", b"v").unwrap();
        }
        let decider = if promotes { &pair.standby } else { &pair.primary };
        if commits {
            decider.two_phase().commit("gid").unwrap();
        } else {
            decider.two_phase().rollback("gid").unwrap();
        }
        if !promotes {
            pair.catch_up();
        }
        let found = ["made", "dropped", "emptied", "old", "new"].map(|name| rows(&pair.standby, name));
        let expected = if commits {
            [Some(1), None, Some(0), None, Some(1)]
        } else {
            [None, Some(1), Some(1), Some(1), None]
        };
        assert_eq!(found, expected, "{promotes} {commits}");
        assert!(pair.standby.two_phase().in_doubt().unwrap().is_empty());
        pair.standby.check(&mut |damage| panic!("{damage}")).unwrap();
        if promotes {
            let left = pair.standby_disk.after_power_loss(PowerLoss::LoseAll);
            pair.standby_disk.crash();
            let database = open(&left, &pair.options);
            assert_eq!(
                ["made", "dropped", "emptied", "old", "new"].map(|name| rows(&database, name)),
                expected
            );
            database.checkpoint().unwrap();
            database.check(&mut |damage| panic!("{damage}")).unwrap();
        }
    }
}

/// Tables that a transaction in doubt is about, each with its rows: the keys, and of long values the length.
fn contents(database: &Database) -> Vec<(&'static str, Option<usize>)> {
    let snapshot = database.snapshot();
    let count = |name| Some(snapshot.range::<&[u8]>(&database.table(name).ok()?, ..).count());
    ["again", "dropped", "emptied", "large", "made", "new", "old", "taken"]
        .map(|name| (name, count(name)))
        .into()
}

const BEFORE: [(&str, Option<usize>); 8] = [
    ("again", Some(1)),
    ("dropped", Some(1)),
    ("emptied", Some(1)),
    ("large", None),
    ("made", None),
    ("new", None),
    ("old", Some(1)),
    ("taken", None),
];
const AFTER: [(&str, Option<usize>); 8] = [
    ("again", Some(2)),
    ("dropped", None),
    ("emptied", Some(2)),
    ("large", Some(LARGE_ROWS)),
    ("made", Some(1)),
    ("new", Some(2)),
    ("old", None),
    ("taken", Some(1)),
];
const LARGE_ROWS: usize = 9;

/// Prepares the way from `BEFORE` to `AFTER`.
fn prepare_definitions(primary: &Database) {
    for name in ["again", "dropped", "emptied", "old", "taken"] {
        let table = primary.create_table(name).unwrap();
        primary.put(&table, b"k", b"v").unwrap();
    }
    // Its name is taken again while the drop is in no tree.
    primary.tables().drop("taken").unwrap();
    let mut transaction = primary.begin();
    let put = |transaction: &mut Transaction, name: &str, key: &[u8]| {
        let table = transaction.table(name).unwrap();
        transaction.put(&table, key, b"in doubt").unwrap();
    };
    for name in ["made", "taken"] {
        transaction.create_table(name).unwrap();
        put(&mut transaction, name, b"1");
    }
    // So many bytes are logged in parts.
    let large = transaction.create_table("large").unwrap();
    for row in 0..LARGE_ROWS {
        transaction.put(&large, row.to_be_bytes(), [7; 20_000]).unwrap();
    }
    transaction.drop_table("dropped").unwrap();
    transaction.truncate_table("emptied").unwrap();
    transaction.rename_table("old", "new").unwrap();
    transaction.drop_table("again").unwrap();
    transaction.create_table("again").unwrap();
    for (name, key) in [("emptied", b"1"), ("emptied", b"2"), ("new", b"1"), ("again", b"1"), ("again", b"2")]
    {
        put(&mut transaction, name, key);
    }
    transaction.prepare("gid").unwrap();
}

/// Nobody sees what is in doubt, and nobody else defines its tables, writes to them or takes their names.
fn check_in_doubt(database: &Database, place: &str) {
    assert_eq!(contents(database), BEFORE, "{place}");
    let found = database.two_phase().in_doubt().unwrap();
    assert_eq!(found.len(), 1, "{place}");
    assert_eq!(found[0].tables, ["again", "dropped", "emptied", "old"], "{place}");
    if database.standby().is_some() {
        return;
    }
    let is_locked = |result: Result<(), Error>, what: &str| {
        assert!(matches!(result, Err(Error::Locked { .. })), "{place}, {what}: {result:?}");
    };
    for name in ["made", "large", "new", "taken"] {
        is_locked(database.create_table(name).map(drop), name);
    }
    for name in ["again", "dropped", "emptied", "old"] {
        let table = database.table(name).unwrap();
        is_locked(database.put(&table, b"another", b"v").map(drop), name);
        is_locked(database.tables().truncate(name), name);
        is_locked(database.tables().drop(name), name);
        is_locked(database.tables().rename(name, "another"), name);
    }
}

/// The standby is promoted, merges what is in doubt, and decides; the power goes in each disk call of that.
#[test]
fn definitions_in_doubt_outlast_a_power_loss_in_any_call_of_a_promotion_and_of_the_decision() {
    for commits in [true, false] {
        let mut pair = Following::new();
        prepare_definitions(&pair.primary);
        pair.catch_up();
        check_in_doubt(&pair.standby, "on the standby");
        pair.standby.standby().unwrap().checkpoint().unwrap();
        pair.catch_up();
        let start = pair.standby_disk.after_power_loss(PowerLoss::LoseAll);
        pair.standby.standby().unwrap().promote("test").unwrap();
        check_in_doubt(&pair.standby, "after the promotion");
        let decide = |database: &Database| {
            let two_phase = database.two_phase();
            if commits { two_phase.commit("gid") } else { two_phase.rollback("gid") }.map(drop)
        };
        let run = |standby: &Database| -> Result<(), Error> {
            standby.standby().unwrap().promote("test")?;
            standby.checkpoint()?;
            decide(standby)
        };
        let (mut call, mut met) = (0, [0; 3]);
        loop {
            let place = format!("commits: {commits}, call {call}");
            let disk = start.copy();
            let standby = follow(&disk, &pair.options);
            disk.crash_at(disk.calls() + call);
            let done = run(&standby);
            let is_done = done.is_ok();
            assert!(is_done || disk.crashed(), "{place}: {done:?}");
            let finished = is_done && standby.checkpoint().is_ok();
            let left = disk.after_power_loss(PowerLoss::Random(call));
            disk.crash();
            drop(standby);
            let database = follow_or_open(&left, &pair.options);
            let is_standby = database.standby().is_some();
            if is_standby {
                assert!(!is_done, "{place}");
                check_in_doubt(&database, &place);
                database.standby().unwrap().promote("again").unwrap();
            }
            let is_decided = database.two_phase().in_doubt().unwrap().is_empty();
            assert!(is_decided || !is_done, "{place}: the decision is lost");
            met[usize::from(is_decided) + usize::from(!is_standby)] += 1;
            // Its number is that of no table of the transaction.
            let later = database.create_table("later").unwrap();
            database.put(&later, b"l", b"v").unwrap();
            if !is_decided {
                check_in_doubt(&database, &place);
                decide(&database).unwrap();
            }
            let expected = if commits { AFTER } else { BEFORE };
            assert_eq!(contents(&database), expected, "{place}");
            database.checkpoint().unwrap();
            database.checkpoint().unwrap();
            // Nothing leaks: of the catalog there are two rows a table.
            let tables = database.tables().list().unwrap();
            let snapshot = database.snapshot();
            let rows =
                tables.iter().map(|table| snapshot.rows(&database.table(&table.name).unwrap()).count());
            let rows = u64::try_from(rows.sum::<usize>() + 2 * tables.len()).unwrap();
            assert_eq!(
                database.check(&mut |damage| panic!("{place}: {damage}")).unwrap().rows,
                rows,
                "{place}"
            );
            if finished {
                break;
            }
            call += 1;
        }
        assert!(met.iter().all(|count| *count > 3), "{met:?}: standby, in doubt, decided");
    }
}

/// On the timeline that was received a standby, on one of its own a primary.
fn follow_or_open(disk: &SimulatedDisk, options: &Options) -> Database {
    let directory = DatabaseDirectory::at(environment(Arc::new(disk.clone())));
    if directory.is_followed().unwrap() { follow(disk, options) } else { open(disk, options) }
}

/// Without a hold of a standby the primary loads past its log.
#[test]
fn a_standby_refuses_a_load_that_left_the_log() {
    let disk = template(&small_options());
    let primary = open(&disk, &small_options());
    let standby = follow(&disk.after_power_loss(PowerLoss::LoseAll), &small_options());
    let mut stream = primary.log().stream(standby.standby().unwrap().wanted().unwrap()).unwrap();
    let mut load = primary.tables().bulk_load("loaded").unwrap();
    load.add(b"k", b"v").unwrap();
    load.finish().unwrap();
    let standby = standby.standby().unwrap();
    let mut buffer = vec![0; 30_000];
    let refused = loop {
        let piece = stream.read(&mut buffer).unwrap();
        assert!(piece.bytes > 0, "the load is in the log");
        if let Err(error) = standby.receive(piece.start, &buffer[..piece.bytes]) {
            break error;
        }
    };
    assert!(matches!(refused, Error::FollowedPastLog { .. }), "{refused:?}");
    let synced = standby.sync().unwrap();
    assert_eq!(standby.apply().unwrap(), synced);
    assert!(synced <= stream.flushed());
}

/// A server that wrote has died; what only its memory held is not the new primary's.
#[test]
fn a_former_primary_that_follows_takes_up_nothing_from_its_memory() {
    let disk = template(&small_options());
    let primary = open(&disk, &small_options());
    let table = primary.create_table("t").unwrap();
    primary.put(&table, b"durable", b"v").unwrap();
    let flushed = primary.statistics().log.flushed;
    primary.with(Durability::Async).put(&table, b"in memory", b"v").unwrap();
    assert!(primary.statistics().log.appended > flushed, "the row is in memory only");
    // The process is killed: the machine goes on.
    let left = disk.copy();
    disk.crash();
    drop(primary);
    let standby = follow(&left, &small_options());
    assert_eq!(standby.standby().unwrap().wanted().unwrap(), flushed);
    let table = standby.table("t").unwrap();
    assert_eq!(standby.snapshot().get(&table, b"in memory").unwrap(), None);
    for path in ["log/pending.1", "log/pending.2"] {
        assert!(left.read_file(path).unwrap()[512..].iter().all(|byte| *byte == 0), "{path}");
    }
    let written = DatabaseDirectory::at(environment(Arc::new(left.copy()))).open(small_options(), |_| {});
    assert!(written.is_err(), "it follows");
}
