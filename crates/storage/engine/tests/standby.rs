//! A standby shows what its primary shows, at the same positions, whatever is done to either; and takes its place.
#![allow(clippy::unwrap_used, reason = "a test that fails panics")]

use std::collections::BTreeMap;
use std::sync::Arc;

use seawall_crash_harness::{environment, open, small_options, template};
use seawall_engine::{
    Database, DatabaseDirectory, Durability, Error, HoldKind, HoldLifetime, HoldOptions, LockWait, LogHold,
    LogStream, NewTimeline, Options,
};
use seawall_simulation::{Operation, PowerLoss, SeededRandom, SimulatedDisk, crash_step, seeds};
use seawall_types::TimelineId;

type Rows = Vec<(Vec<u8>, Vec<u8>)>;

/// All tables with their rows, and what is in doubt.
#[derive(Debug, Default, PartialEq, Eq)]
struct State {
    tables: BTreeMap<String, Rows>,
    in_doubt: Vec<String>,
}

fn state(database: &Database) -> State {
    let database = database.new_session();
    let mut tables = BTreeMap::new();
    let snapshot = database.snapshot();
    for info in database.tables().list().unwrap() {
        let table = snapshot.table(&info.name).unwrap();
        let rows = snapshot.range::<&[u8]>(&table, ..);
        let rows = rows.map(|row| row.map(|(key, value)| (key.to_vec(), value.to_vec())).unwrap());
        tables.insert(info.name.clone(), rows.collect());
    }
    let in_doubt = database.two_phase().in_doubt().unwrap();
    State { tables, in_doubt: in_doubt.into_iter().map(|transaction| transaction.gid).collect() }
}

fn options() -> Options {
    let mut options = small_options();
    options.memory.memtable_bytes = 1 << 20;
    options.transaction.lock_wait = LockWait::NoWait;
    options
}

fn follow(disk: &SimulatedDisk) -> Database {
    DatabaseDirectory::at(environment(Arc::new(disk.clone()))).follow(options()).unwrap()
}

struct Pair {
    random: SeededRandom,
    primary_disk: SimulatedDisk,
    primary: Database,
    hold: LogHold,
    standby_disk: SimulatedDisk,
    standby: Database,
    stream: LogStream,
    gids: u32,
}

impl Pair {
    fn new(seed: u64) -> Pair {
        let mut random = SeededRandom::new(seed);
        let primary_disk = template(&options());
        let primary = open(&primary_disk, &options());
        let hold_options = HoldOptions {
            kind: HoldKind::Standby,
            lifetime: HoldLifetime::Permanent,
            ..HoldOptions::default()
        };
        let hold = primary.log().hold("standby", hold_options, None).unwrap();
        for number in 0..random.below(20) {
            let table = primary.open_or_create_table("t0").unwrap();
            primary.put(&table, number.to_be_bytes(), random.bytes(500)).unwrap();
        }
        // A copy of what is durable.
        let standby_disk = primary_disk.after_power_loss(PowerLoss::LoseAll);
        let standby = follow(&standby_disk);
        let stream = primary.log().stream(standby.standby().unwrap().wanted().unwrap()).unwrap();
        Pair { random, primary_disk, primary, hold, standby_disk, standby, stream, gids: 0 }
    }

    fn any_table(&mut self) -> String {
        format!("t{}", self.random.below(5))
    }

    /// Something that a user does. What is refused changes nothing.
    fn write(&mut self) {
        let outcome = match self.random.below(24) {
            0 | 1 => {
                let name = self.any_table();
                self.primary.create_table(&name).map(drop)
            }
            2 => {
                let name = self.any_table();
                self.primary.tables().drop(&name)
            }
            3 => {
                let (from, to) = (self.any_table(), self.any_table());
                self.primary.tables().rename(&from, &to)
            }
            4 => {
                let name = self.any_table();
                self.primary.tables().truncate(&name)
            }
            5 => self.primary.checkpoint().map(drop),
            6 | 7 => self.prepare(),
            8 | 9 => self.decide(),
            10 => self.load(),
            _ => self.commit(),
        };
        match outcome {
            Ok(())
            | Err(
                Error::NoSuchTable { .. }
                | Error::TableExists { .. }
                | Error::TableInDoubt { .. }
                | Error::Locked { .. }
                | Error::Conflict { .. }
                | Error::TableChanged { .. },
            ) => {}
            Err(error) => panic!("{error}"),
        }
    }

    fn put_rows(&mut self, transaction: &mut seawall_engine::Transaction) -> Result<(), Error> {
        let name = self.any_table();
        let table = transaction.table(&name)?;
        let count = *self.random.pick(&[1, 1, 5, 30, 200]);
        for _ in 0..=self.random.below(count) {
            let key = u32::try_from(self.random.below(300)).unwrap().to_be_bytes();
            if self.random.chance(1, 5) {
                transaction.delete(&table, key)?;
            } else {
                let limit = *self.random.pick(&[10, 10, 300, 5000]);
                let length = usize::try_from(self.random.below(limit)).unwrap();
                let value = self.random.bytes(length);
                transaction.put(&table, key, value)?;
            }
        }
        Ok(())
    }

    fn commit(&mut self) -> Result<(), Error> {
        let durability = *self.random.pick(&[Durability::Sync, Durability::Async]);
        let mut transaction = self.primary.with(durability).begin();
        self.put_rows(&mut transaction)?;
        transaction.commit().map(drop)
    }

    /// Loads a new table in bulk.
    fn load(&mut self) -> Result<(), Error> {
        let name = self.any_table();
        let mut load = self.primary.tables().bulk_load(&name)?;
        for key in 0..u32::try_from(self.random.below(200)).unwrap() {
            let value = self.random.bytes(100);
            load.add(key.to_be_bytes(), value)?;
        }
        load.finish().map(drop)
    }

    fn prepare(&mut self) -> Result<(), Error> {
        let mut transaction = self.primary.begin();
        let (name, other) = (self.any_table(), self.any_table());
        match self.random.below(8) {
            0 => transaction.create_table(&name).map(drop)?,
            1 => transaction.drop_table(&name)?,
            2 => transaction.truncate_table(&name)?,
            3 => transaction.rename_table(&name, &other)?,
            _ => {}
        }
        self.put_rows(&mut transaction)?;
        self.gids += 1;
        transaction.prepare(&format!("gid {}", self.gids)).map(drop)
    }

    fn decide(&mut self) -> Result<(), Error> {
        let in_doubt = self.primary.two_phase().in_doubt()?;
        if in_doubt.is_empty() {
            return Ok(());
        }
        let gid = in_doubt[self.random.index(in_doubt.len())].gid.clone();
        let two_phase = self.primary.two_phase();
        if self.random.chance(1, 2) { two_phase.commit(&gid) } else { two_phase.rollback(&gid) }.map(drop)
    }

    /// Receives a piece, and does something with what has come.
    fn receive(&mut self) {
        let mut buffer = vec![0; usize::try_from(self.random.range(1..100_000)).unwrap()];
        let piece = self.stream.read(&mut buffer).unwrap();
        let standby = self.standby.standby().unwrap();
        standby.receive(piece.start, &buffer[..piece.bytes]).unwrap();
        match self.random.below(8) {
            0..3 => self.hold.advance(standby.sync().unwrap()).unwrap(),
            3..6 => drop(standby.apply().unwrap()),
            6 => drop(standby.checkpoint().unwrap()),
            _ => {}
        }
    }

    /// Receives and applies all there is.
    fn catch_up(&mut self) {
        let table = self.primary.open_or_create_table("flushed").unwrap();
        self.primary.put(&table, b"k", self.random.bytes(4)).unwrap();
        let standby = self.standby.standby().unwrap();
        loop {
            let mut buffer = vec![0; 70_000];
            let piece = self.stream.read(&mut buffer).unwrap();
            if piece.bytes == 0 {
                break;
            }
            standby.receive(piece.start, &buffer[..piece.bytes]).unwrap();
        }
        let synced = standby.sync().unwrap();
        assert_eq!(synced, self.stream.flushed());
        assert_eq!(standby.apply().unwrap(), synced);
    }

    /// The standby's machine loses power.
    fn lose_standby(&mut self) {
        let outcome = PowerLoss::Random(self.random.next_u64());
        let left = self.standby_disk.after_power_loss(outcome);
        self.standby_disk.crash();
        self.standby_disk = left;
        self.standby = follow(&self.standby_disk);
        let wanted = self.standby.standby().unwrap().wanted().unwrap();
        self.stream = self.primary.log().stream(wanted).unwrap();
    }

    /// The primary's machine loses power, and it goes on where it was.
    fn lose_primary(&mut self) {
        let outcome = PowerLoss::Random(self.random.next_u64());
        let left = self.primary_disk.after_power_loss(outcome);
        self.primary_disk.crash();
        self.primary_disk = left;
        self.primary = open(&self.primary_disk, &options());
        self.hold = self.primary.log().find_hold("standby").unwrap();
        let wanted = self.standby.standby().unwrap().wanted().unwrap();
        self.stream = self.primary.log().stream(wanted).unwrap();
    }

    fn assert_equal(&self, place: &str) {
        let (primary, standby) = (state(&self.primary), state(&self.standby));
        assert_eq!(
            primary.tables.keys().collect::<Vec<_>>(),
            standby.tables.keys().collect::<Vec<_>>(),
            "{place}"
        );
        assert_eq!(primary.in_doubt, standby.in_doubt, "{place}");
        for (name, rows) in &primary.tables {
            assert!(*rows == standby.tables[name], "{place}: rows of {name} differ");
        }
    }
}

fn run(seed: u64) {
    let mut pair = Pair::new(seed);
    for round in 0..3 {
        let place = format!("seed {seed}, round {round}");
        for _ in 0..pair.random.range(10..60) {
            match pair.random.below(40) {
                0 => pair.lose_standby(),
                1 => pair.lose_primary(),
                2..24 => pair.write(),
                _ => pair.receive(),
            }
        }
        pair.catch_up();
        pair.assert_equal(&place);
        // A snapshot of the standby shows what it showed, whatever comes after it.
        let (snapshot, before) = (pair.standby.snapshot(), state(&pair.standby));
        for _ in 0..30 {
            pair.write();
        }
        pair.catch_up();
        pair.standby.standby().unwrap().checkpoint().unwrap();
        for (name, rows) in &before.tables {
            let table = snapshot.table(name).unwrap();
            let now = snapshot.range::<&[u8]>(&table, ..).map(Result::unwrap);
            let now: Vec<_> = now.map(|(key, value)| (key.to_vec(), value.to_vec())).collect();
            assert!(now == *rows, "{place}: the snapshot's rows of {name} have changed");
        }
        drop(snapshot);
        pair.assert_equal(&place);
    }
    promote(pair, seed);
}

/// The primary is lost, and the standby takes its place.
fn promote(pair: Pair, seed: u64) {
    let expected = state(&pair.primary);
    let snapshot = pair.standby.snapshot();
    pair.primary_disk.crash();
    let before = pair.standby_disk.trace().len();
    let number = TimelineId::new(9);
    pair.standby.standby().unwrap().promote(NewTimeline { reason: "lost its primary", number }).unwrap();
    let is_sync =
        |operation| matches!(operation, Operation::Sync | Operation::SyncDirectory | Operation::WriteDurable);
    let trace = pair.standby_disk.trace();
    let syncs = trace[before..].iter().filter(|call| is_sync(call.operation)).count();
    assert!(syncs <= 14, "seed {seed}: a promotion took {syncs} syncs");
    let database = pair.standby.clone();
    assert!(database.standby().is_none(), "seed {seed}");
    assert_eq!(state(&database), expected, "seed {seed}");
    let table = snapshot.table("flushed").unwrap();
    assert!(snapshot.get(&table, b"k").unwrap().is_some(), "seed {seed}: a snapshot from before");
    drop(snapshot);
    // It writes, and decides what was in doubt.
    for gid in &expected.in_doubt {
        database.two_phase().commit(gid).unwrap();
    }
    database.create_table("promoted").unwrap();
    database.checkpoint().unwrap();
    let table = database.table("promoted").unwrap();
    database.put(&table, b"k", b"v").unwrap();
    let expected = state(&database);
    let left = pair.standby_disk.after_power_loss(PowerLoss::Random(seed));
    pair.standby_disk.crash();
    drop(database);
    let database = open(&left, &options());
    assert_eq!(state(&database), expected, "seed {seed}");
    assert_eq!(Some(database.log().timeline()), number);
    let mut damage = Vec::new();
    database.check(&mut |found| damage.push(found)).unwrap();
    assert!(damage.is_empty(), "seed {seed}: {damage:?}");
}

#[test]
fn a_standby_shows_what_its_primary_shows_and_takes_its_place() {
    seeds(60).for_each(run);
}

#[test]
fn a_standby_refuses_to_write_and_a_promoted_one_to_receive() {
    let mut pair = Pair::new(1);
    pair.catch_up();
    let table = pair.standby.table("flushed").unwrap();
    assert!(matches!(pair.standby.put(&table, b"k", b"v"), Err(Error::ReadOnly)));
    assert!(matches!(pair.standby.create_table("t"), Err(Error::ReadOnly)));
    assert!(matches!(pair.standby.checkpoint(), Err(Error::ReadOnly)));
    assert!(pair.primary.standby().is_none());
    let standby = pair.standby.standby().unwrap();
    standby.promote("test").unwrap();
    assert!(standby.receive(standby.applied(), &[1]).is_err());
    assert!(standby.promote("again").is_err());
    pair.standby.put(&table, b"k", b"v").unwrap();
}

/// Receives, applies and merges all that `primary` has, or what it can until the power goes.
fn follow_to_the_end(primary: &Database, standby: &Database) -> Result<(), Error> {
    let standby = standby.standby().unwrap();
    let mut stream = primary.log().stream(standby.wanted()?)?;
    let mut buffer = vec![0; 20_000];
    for count in 1.. {
        let piece = stream.read(&mut buffer).unwrap();
        if piece.bytes == 0 {
            break;
        }
        standby.receive(piece.start, &buffer[..piece.bytes])?;
        if count % 2 == 0 {
            standby.sync()?;
            standby.apply()?;
        }
        if count % 5 == 0 {
            standby.checkpoint()?;
        }
    }
    standby.sync()?;
    standby.apply().map(drop)
}

#[test]
fn a_standby_that_loses_power_in_any_call_goes_on_from_what_is_durable() {
    for seed in seeds(3) {
        let mut pair = Pair::new(seed);
        pair.standby.clone().close().unwrap();
        (0..80).for_each(|_| pair.write());
        let table = pair.primary.open_or_create_table("flushed").unwrap();
        pair.primary.put(&table, b"k", b"v").unwrap();
        let expected = state(&pair.primary);
        let mut calls = None;
        let mut call = 0;
        loop {
            let place = format!("seed {seed}, power lost in call {call}");
            let disk = pair.standby_disk.copy();
            let standby = follow(&disk);
            let before = disk.calls();
            if calls.is_some() {
                disk.crash_at(before + call);
            }
            if let Err(error) = follow_to_the_end(&pair.primary, &standby) {
                assert!(disk.crashed(), "{place}: {error}");
            }
            let all = *calls.get_or_insert(disk.calls() - before);
            let left = disk.after_power_loss(PowerLoss::Random(seed ^ (call << 8)));
            disk.crash();
            drop(standby);
            let standby = follow(&left);
            follow_to_the_end(&pair.primary, &standby).unwrap_or_else(|error| panic!("{place}: {error}"));
            assert_eq!(state(&standby), expected, "{place}");
            standby.standby().unwrap().promote("test").unwrap();
            let mut damage = Vec::new();
            standby.check(&mut |found| damage.push(found)).unwrap();
            assert!(damage.is_empty(), "{place}: {damage:?}");
            call += u64::try_from(crash_step(all, 60)).unwrap();
            if call >= all {
                break;
            }
        }
    }
}

#[test]
fn promotions_end_whole_or_not_at_all_whenever_the_power_goes() {
    for seed in seeds(4) {
        let mut pair = Pair::new(seed);
        (0..40).for_each(|_| pair.write());
        pair.catch_up();
        let expected = state(&pair.primary);
        pair.standby.close().unwrap();
        let mut call = 0;
        loop {
            let disk = pair.standby_disk.copy();
            let standby = follow(&disk);
            disk.crash_at(disk.calls() + call);
            let promoted = standby.standby().unwrap().promote("crashed").is_ok();
            let crashed = disk.crashed();
            let left = disk.after_power_loss(PowerLoss::Random(seed ^ call));
            disk.crash();
            drop(standby);
            let place = format!("seed {seed}, power lost in call {call}");
            // Still a standby, which can be promoted once more; or a primary.
            let database = follow_or_open(&left).unwrap_or_else(|error| panic!("{place}: {error}"));
            if database.standby().is_some() {
                assert!(!promoted, "{place}");
                database
                    .standby()
                    .unwrap()
                    .promote("again")
                    .unwrap_or_else(|error| panic!("{place}: {error}"));
            }
            assert_eq!(state(&database), expected, "{place}");
            let table = database.table("flushed").unwrap();
            database.put(&table, b"k", b"after").unwrap();
            if !crashed {
                break;
            }
            call += 1;
        }
        assert!(call > 10, "only {call} power losses");
    }
}

/// On the timeline that was received a standby, on one of its own a primary.
fn follow_or_open(disk: &SimulatedDisk) -> Result<Database, Error> {
    let place = || DatabaseDirectory::at(environment(Arc::new(disk.clone())));
    match place().open(options(), |_| {}) {
        Err(Error::Log { .. }) => place().follow(options()),
        opened => opened,
    }
}
