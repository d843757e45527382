//! A primary hands its role over: nothing acknowledged is lost and one server writes, whenever the power goes, on either side.
#![allow(clippy::unwrap_used, reason = "a test that fails panics")]

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::copying::{everything, history_of, receive, slot, write};
use common::following::follow;
use seawall_crash_harness::{environment, open, small_options, template, try_open};
use seawall_engine::{
    Background, CancelToken, Database, DatabaseDirectory, Durability, Error, HandoverRecord, Options,
    PageProtection, Rejoined, Trigger,
};
use seawall_simulation::{PowerLoss, SeededRandom, SimulatedDisk};
use seawall_testing::wait_until;
use seawall_types::{Lsn, TimelineId};

const LIMIT: Duration = Duration::from_secs(60);

#[derive(Clone)]
struct Node {
    disk: SimulatedDisk,
    database: Database,
}

impl Node {
    /// What is left of it.
    fn crash(self, outcome: PowerLoss) -> SimulatedDisk {
        let left = self.disk.after_power_loss(outcome);
        self.disk.crash();
        left
    }
}

fn place(disk: &SimulatedDisk) -> DatabaseDirectory {
    DatabaseDirectory::at(environment(Arc::new(disk.clone())))
}

/// Starts a server as what it was.
fn start(disk: SimulatedDisk) -> Node {
    let database = match place(&disk).is_followed().unwrap() {
        true => follow(&disk, &small_options()),
        false => open(&disk, &small_options()),
    };
    Node { disk, database }
}

fn pair() -> (Node, Node) {
    let disk = template(&small_options());
    let database = open(&disk, &small_options());
    drop(database.log().hold("standby", slot(), None).unwrap());
    let standby = disk.after_power_loss(PowerLoss::LoseAll);
    let standby = Node { database: follow(&standby, &small_options()), disk: standby };
    (Node { disk, database }, standby)
}

fn record(database: &Database, end: Lsn) -> HandoverRecord {
    let (order, follow) = ("0123".to_owned(), "host=other".to_owned());
    HandoverRecord { timeline: database.log().timeline(), end, order, follow, slot: None }
}

/// The steps of a switchover; whether the standby was ordered to take over.
fn hand_over(primary: &Database, standby: &Database, was_ordered: &mut bool) -> Result<(), Error> {
    let end = primary.handover().park(LIMIT)?;
    receive(primary, standby)?;
    assert_eq!(standby.log().flushed(), end);
    primary.handover().record(&record(primary, end))?;
    *was_ordered = true;
    standby.standby().unwrap().promote("switchover")?;
    primary.handover().refuse_writers();
    Ok(())
}

/// The former primary follows the new one. Its log ends where the new timeline begins.
fn become_standby(former: Node, primary: &Database) -> Node {
    former.database.close().unwrap();
    if primary.log().find_hold("back").is_err() {
        drop(primary.log().hold("back", slot(), None).unwrap());
    }
    let rejoined = place(&former.disk).rejoin(&small_options(), &history_of(primary)).unwrap();
    assert_eq!(rejoined, Rejoined::AsItWas);
    let database = follow(&former.disk, &small_options());
    database.standby().unwrap().follow_timeline(&history_of(primary)).unwrap();
    Node { database, ..former }
}

fn is_there(database: &Database, rows: &[u32]) -> bool {
    let Ok(table) = database.table("acknowledged") else { return rows.is_empty() };
    rows.iter().all(|row| database.get(&table, row.to_be_bytes()).unwrap().is_some())
}

fn acknowledge(database: &Database, rows: &mut Vec<u32>) -> Result<(), Error> {
    let row = u32::try_from(rows.len()).unwrap();
    let table = database.open_or_create_table("acknowledged")?;
    database.put(&table, row.to_be_bytes(), [7; 100])?;
    rows.push(row);
    Ok(())
}

/// Power goes at each disk call of a switchover, of one server or of the other; and both come back.
#[test]
fn one_server_writes_and_has_everything_whenever_the_power_goes() {
    for loses_primary in [true, false] {
        for call in 0.. {
            let mut random = SeededRandom::new(call);
            let (primary, standby) = pair();
            let mut rows = Vec::new();
            for _ in 0..5 {
                acknowledge(&primary.database, &mut rows).unwrap();
                write(&primary.database, &mut random);
            }
            receive(&primary.database, &standby.database).unwrap();
            acknowledge(&primary.database, &mut rows).unwrap();
            let losing = if loses_primary { &primary } else { &standby };
            losing.disk.crash_at(losing.disk.calls() + call);
            let mut was_ordered = false;
            let handed_over = hand_over(&primary.database, &standby.database, &mut was_ordered);
            let has_crashed = losing.disk.crashed();
            assert!(has_crashed || handed_over.is_ok(), "{handed_over:?}");
            let outcome = PowerLoss::Random(call);
            let (primary, standby) = match loses_primary {
                true => (start(primary.crash(outcome)), standby),
                false => (primary, start(standby.crash(outcome))),
            };
            let context = format!("primary loses power: {loses_primary}, call {call}");
            settle(primary, standby, was_ordered, rows, &context);
            if !has_crashed {
                break;
            }
        }
    }
}

/// What becomes of a switchover that was cut off.
fn settle(primary: Node, standby: Node, was_ordered: bool, mut rows: Vec<u32>, context: &str) {
    let handover = primary.database.handover();
    let is_promoted = standby.database.standby().is_none();
    let is_shut = handover.is_handed_over() || handover.is_parked();
    assert!(is_shut || !is_promoted, "{context}: both write");
    assert!(is_shut || !was_ordered, "{context}: it writes, and the other one may");
    if handover.is_handed_over() {
        let refused = acknowledge(&primary.database, &mut rows.clone());
        assert!(matches!(refused, Err(Error::HandedOver)), "{context}: {refused:?}");
    }
    let (primary, standby) = if is_promoted {
        let record = place(&primary.disk).handover().unwrap().unwrap();
        assert_eq!((record.timeline, record.follow.as_str()), (TimelineId::FIRST, "host=other"));
        assert!(is_there(&primary.database, &rows), "{context}: readers go on");
        let follower = become_standby(primary, &standby.database);
        (standby, follower)
    } else {
        handover.take_back().unwrap();
        assert_eq!(place(&primary.disk).handover().unwrap(), None);
        (primary, standby)
    };
    assert!(is_there(&primary.database, &rows), "{context}: something acknowledged is lost");
    acknowledge(&primary.database, &mut rows).unwrap();
    receive(&primary.database, &standby.database).unwrap();
    assert!(is_there(&standby.database, &rows), "{context}");
    assert_eq!(everything(&standby.database), everything(&primary.database), "{context}");
}

/// Roles are exchanged again and again, with tables, loads and transactions in doubt; sometimes one of the two is started anew between.
#[test]
fn roles_go_there_and_back() {
    for seed in 0..6 {
        let mut random = SeededRandom::new(seed);
        let (mut primary, mut standby) = pair();
        let mut rows = Vec::new();
        for round in 0..5 {
            for _ in 0..30 {
                write(&primary.database, &mut random);
                common::copying::disturb(&primary.database, &mut random);
            }
            let table = primary.database.open_or_create_table("t").unwrap();
            primary.database.with(Durability::Async).put(&table, b"not flushed", [round; 8]).unwrap();
            acknowledge(&primary.database, &mut rows).unwrap();
            if random.below(2) == 0 {
                primary.database.checkpoint().unwrap();
            }
            hand_over(&primary.database, &standby.database, &mut false).unwrap();
            let follower = become_standby(primary, &standby.database);
            (primary, standby) = (standby, follower);
            acknowledge(&primary.database, &mut rows).unwrap();
            receive(&primary.database, &standby.database).unwrap();
            assert_eq!(everything(&standby.database), everything(&primary.database), "{seed}, {round}");
            assert!(is_there(&standby.database, &rows), "{seed}, {round}");
            if random.below(2) == 0 {
                // A file of the first switchover says nothing any more.
                primary = start(primary.crash(PowerLoss::Random(seed)));
                assert_eq!(place(&primary.disk).handover().unwrap(), None);
            }
            if random.below(2) == 0 {
                standby = start(standby.crash(PowerLoss::Random(seed)));
            }
        }
    }
}

fn threads() -> Options {
    Options { background: Background::Threads, ..small_options() }
}

/// Each kind of write waits, and goes on when the role stays.
#[test]
fn writers_wait_while_they_are_parked_and_readers_do_not() {
    let database = try_open(&template(&small_options()), &threads()).unwrap();
    let table = database.create_table("t").unwrap();
    database.put(&table, b"before", b"1").unwrap();
    for (gid, key) in [("kept", b"a"), ("given up", b"b")] {
        let mut transaction = database.begin();
        transaction.put(&table, key, b"1").unwrap();
        transaction.prepare(gid).unwrap();
    }
    let end = database.handover().park(LIMIT).unwrap();
    assert!(matches!(database.handover().park(LIMIT), Err(Error::Parked)));
    std::thread::scope(|scope| {
        let begin = |write: fn(&Database)| {
            let database = database.new_session();
            scope.spawn(move || write(&database))
        };
        let writers = [
            begin(|database| {
                database.put(&database.table("t").unwrap(), b"put", b"1").unwrap();
            }),
            begin(|database| drop(database.create_table("other").unwrap())),
            begin(|database| {
                database.two_phase().commit("kept").unwrap();
            }),
            begin(|database| {
                database.two_phase().rollback("given up").unwrap();
            }),
            begin(|database| {
                let mut transaction = database.begin();
                transaction.put(&database.table("t").unwrap(), b"prepared", b"1").unwrap();
                transaction.prepare("new").unwrap();
            }),
            begin(|database| {
                let rows = (0..5_000_u32).map(|row| row.to_be_bytes());
                let table = database.table("t").unwrap();
                let mut transaction = database.begin();
                rows.for_each(|row| transaction.put(&table, row, [1; 20]).unwrap());
                transaction.commit().unwrap();
            }),
            begin(|database| {
                let mut load = database.tables().bulk_load("loaded").unwrap();
                load.add(b"k", b"v").unwrap();
                load.finish().unwrap();
            }),
            begin(|database| {
                database.log().create_restore_point("point").unwrap();
            }),
        ];
        // A checkpoint is nobody's write.
        let _checkpoint = scope.spawn(|| drop(database.checkpoint()));
        for _ in 0..20 {
            assert_eq!(database.get(&table, b"before").unwrap().as_deref(), Some(&b"1"[..]));
            assert_eq!(database.log().flushed(), end);
            std::thread::yield_now();
        }
        assert!(writers.iter().all(|writer| !writer.is_finished()));
        database.handover().take_back().unwrap();
    });
    assert!(database.log().flushed() > end);
    assert_eq!(database.two_phase().in_doubt().unwrap().len(), 1);
    assert!(database.table("other").is_ok() && database.table("loaded").is_ok());
}

#[test]
fn a_parked_writer_is_cancelled_or_refused_and_has_written_nothing() {
    let disk = template(&small_options());
    let database = try_open(&disk, &threads()).unwrap();
    let table = database.create_table("t").unwrap();
    let end = database.handover().park(LIMIT).unwrap();
    std::thread::scope(|scope| {
        let cancelled = database.new_session();
        let token: Arc<CancelToken> = cancelled.cancel_token();
        let waiting = scope.spawn({
            let (cancelled, table) = (cancelled.clone(), table.clone());
            move || cancelled.put(&table, b"cancelled", b"1")
        });
        let refused = scope.spawn({
            let (database, table) = (database.new_session(), table.clone());
            move || database.put(&table, b"refused", b"1")
        });
        token.request();
        assert!(matches!(waiting.join().unwrap(), Err(Error::Cancelled)));
        database.handover().record(&record(&database, end)).unwrap();
        assert!(!refused.is_finished());
        database.handover().refuse_writers();
        assert!(matches!(refused.join().unwrap(), Err(Error::HandedOver)));
    });
    assert!(matches!(database.put(&table, b"later", b"1"), Err(Error::HandedOver)));
    assert!(matches!(database.checkpoint(), Err(Error::HandedOver)));
    database.close().unwrap();
    // Also after a restart, until it is known that nobody else writes.
    let database = try_open(&disk, &threads()).unwrap();
    assert!(database.handover().is_handed_over());
    assert_eq!(database.log().flushed(), end);
    assert_eq!(database.snapshot().range::<&[u8]>(&table, ..).count(), 0);
    assert!(matches!(database.put(&table, b"later", b"1"), Err(Error::HandedOver)));
    database.handover().take_back().unwrap();
    database.put(&table, b"later", b"1").unwrap();
    database.close().unwrap();
    assert!(!try_open(&disk, &threads()).unwrap().handover().is_handed_over());
}

/// A checkpoint that writes page images to the log when writers are parked goes on afterwards, and does not stop the database.
#[test]
fn a_checkpoint_with_images_in_the_log_waits() {
    let options = threads().with(|options| {
        options.checkpoint.page_protection = PageProtection::LogImages;
        options.memory.memtable_bytes = 8 << 20;
        options.checkpoint.log_bytes = 8 << 20;
    });
    let database = try_open(&template(&small_options()), &options).unwrap();
    let table = database.create_table("t").unwrap();
    for round in 0..2_u8 {
        for row in 0..300_u32 {
            database.put(&table, row.to_be_bytes(), [round; 1000]).unwrap();
        }
        if round == 0 {
            database.checkpoint().unwrap();
        }
    }
    let end = database.handover().park(LIMIT).unwrap();
    std::thread::scope(|scope| {
        let checkpoint = scope.spawn(|| database.checkpoint());
        wait_until("a checkpoint has begun", || database.statistics().memtable.frozen > 0);
        assert_eq!(database.log().flushed(), end);
        database.handover().take_back().unwrap();
        assert_eq!(checkpoint.join().unwrap().unwrap().trigger, Trigger::Request);
    });
    assert!(!database.statistics().stopped);
    database.put(&table, b"after", b"1").unwrap();
}
