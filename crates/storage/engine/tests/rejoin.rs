//! A server that was replaced cuts its log where the new timeline left it, and follows: after any history, whenever the power goes.
#![allow(clippy::unwrap_used, reason = "a test that fails panics")]

use std::collections::BTreeMap;
use std::sync::Arc;

use seawall_crash_harness::{environment, open, small_options, template};
use seawall_engine::{
    ArchiveMode, CutLog, Database, DatabaseDirectory, Durability, Environment, Error, HoldKind, HoldLifetime,
    HoldOptions, LockWait, LogHold, LogStream, Options, Rejoined, ServerToFollow, StandbyPositions,
    TimelineHistory,
};
use seawall_simulation::{PowerLoss, SeededRandom, SimulatedDisk, SimulatedRandom, crash_step, seeds};
use seawall_types::{Lsn, TimelineId, TimelineMark};

type Rows = Vec<(Vec<u8>, Vec<u8>)>;

/// All tables with their rows, and what is in doubt.
fn state(database: &Database) -> (BTreeMap<String, Rows>, Vec<String>) {
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
    (tables, in_doubt.into_iter().map(|transaction| transaction.gid).collect())
}

fn options() -> Options {
    small_options().with(|options| {
        options.memory.memtable_bytes = 2 << 20;
        options.checkpoint.log_bytes = 1 << 20;
        options.transaction.lock_wait = LockWait::NoWait;
    })
}

fn directory(disk: &SimulatedDisk) -> DatabaseDirectory {
    DatabaseDirectory::at(environment(Arc::new(disk.clone())))
}

fn follow(disk: &SimulatedDisk) -> Database {
    directory(disk).follow(options()).unwrap()
}

fn history(database: &Database) -> TimelineHistory {
    database.log().timeline_history(database.log().timeline()).unwrap()
}

fn rejoin(disk: &SimulatedDisk, upstream: &Database) -> Result<Rejoined, Error> {
    directory(disk).rejoin(&options(), &history(upstream))
}

fn cut(rejoined: Result<Rejoined, Error>) -> CutLog {
    match rejoined.unwrap() {
        Rejoined::Cut(cut) => cut,
        Rejoined::AsItWas => panic!("nothing was cut"),
    }
}

fn hold_for_standby(primary: &Database) -> LogHold {
    let options =
        HoldOptions { kind: HoldKind::Standby, lifetime: HoldLifetime::Permanent, ..HoldOptions::default() };
    match primary.log().find_hold("standby") {
        Ok(hold) => hold,
        Err(_) => primary.log().hold("standby", options, None).unwrap(),
    }
}

struct Node {
    disk: SimulatedDisk,
    database: Database,
}

impl Node {
    /// Its end: closed, killed, or without power. What is left of it.
    fn end(self, random: &mut SeededRandom) -> SimulatedDisk {
        let left = match random.below(3) {
            0 => {
                self.database.close().unwrap();
                return self.disk;
            }
            1 => self.disk.copy(),
            _ => self.disk.after_power_loss(PowerLoss::Random(random.next_u64())),
        };
        self.disk.crash();
        left
    }
}

struct Pair {
    random: SeededRandom,
    primary: Node,
    standby: Node,
    hold: LogHold,
    stream: LogStream,
    gids: u32,
}

impl Pair {
    fn new(seed: u64) -> Pair {
        let disk = template(&options());
        let database = open(&disk, &options());
        let hold = hold_for_standby(&database);
        let standby_disk = disk.after_power_loss(PowerLoss::LoseAll);
        let standby = Node { database: follow(&standby_disk), disk: standby_disk };
        let stream = database.log().stream(standby.database.standby().unwrap().wanted().unwrap()).unwrap();
        let primary = Node { disk, database };
        let pair = Pair { random: SeededRandom::new(seed), primary, standby, hold, stream, gids: 0 };
        pair.say(pair.standby.database.standby().unwrap().wanted().unwrap());
        pair
    }

    fn any_table(&mut self) -> String {
        format!("t{}", self.random.below(4))
    }

    /// Something that a user does on `database`. What is refused changes nothing.
    fn write(&mut self, database: &Database) {
        let name = self.any_table();
        let outcome = match self.random.below(20) {
            0 | 1 => database.create_table(&name).map(drop),
            2 => database.tables().drop(&name),
            3 => database.tables().truncate(&name),
            4 => self.load(database, &name),
            5 | 6 => self.prepare(database, &name),
            7 | 8 => self.decide(database),
            _ => self.commit(database, &name),
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

    fn put_rows(&mut self, transaction: &mut seawall_engine::Transaction, name: &str) -> Result<(), Error> {
        let table = transaction.table(name)?;
        let count = *self.random.pick(&[1, 1, 5, 30]);
        for _ in 0..=self.random.below(count) {
            let key = u32::try_from(self.random.below(200)).unwrap().to_be_bytes();
            if self.random.chance(1, 5) {
                transaction.delete(&table, key)?;
            } else {
                let limit = *self.random.pick(&[10, 10, 300, 3000]);
                let length = usize::try_from(self.random.below(limit)).unwrap();
                transaction.put(&table, key, self.random.bytes(length))?;
            }
        }
        Ok(())
    }

    fn commit(&mut self, database: &Database, name: &str) -> Result<(), Error> {
        let durability = *self.random.pick(&[Durability::Sync, Durability::Async]);
        let mut transaction = database.with(durability).begin();
        self.put_rows(&mut transaction, name)?;
        transaction.commit().map(drop)
    }

    fn load(&mut self, database: &Database, name: &str) -> Result<(), Error> {
        let mut load = database.tables().bulk_load(name)?;
        for key in 0..u32::try_from(self.random.below(200)).unwrap() {
            let value = self.random.bytes(100);
            load.add(key.to_be_bytes(), value)?;
        }
        load.finish().map(drop)
    }

    fn prepare(&mut self, database: &Database, name: &str) -> Result<(), Error> {
        let mut transaction = database.begin();
        self.put_rows(&mut transaction, name)?;
        self.gids += 1;
        transaction.prepare(&format!("gid {}", self.gids)).map(drop)
    }

    fn decide(&mut self, database: &Database) -> Result<(), Error> {
        let in_doubt = database.two_phase().in_doubt()?;
        if in_doubt.is_empty() {
            return Ok(());
        }
        let gid = in_doubt[self.random.index(in_doubt.len())].gid.clone();
        let two_phase = database.two_phase();
        if self.random.chance(1, 2) { two_phase.commit(&gid) } else { two_phase.rollback(&gid) }.map(drop)
    }

    fn write_on_primary(&mut self) {
        let primary = self.primary.database.clone();
        self.write(&primary);
    }

    /// The standby gets a piece, or all there is, makes it durable and says so.
    fn receive(&mut self, all: bool) {
        let standby = self.standby.database.clone();
        let standby = standby.standby().unwrap();
        loop {
            let mut buffer = vec![0; usize::try_from(self.random.range(1..50_000)).unwrap()];
            let piece = self.stream.read(&mut buffer).unwrap();
            standby.receive(piece.start, &buffer[..piece.bytes]).unwrap();
            if !all || piece.bytes == 0 {
                break;
            }
        }
        let synced = standby.sync().unwrap();
        self.hold.advance(synced).unwrap();
        self.say(synced);
        if all || self.random.chance(1, 2) {
            standby.apply().unwrap();
        }
    }

    /// The primary hears how far its standby is.
    fn say(&self, candidate: Lsn) {
        let positions = StandbyPositions { quorum: None, candidate: Some(candidate) };
        self.primary.database.quorum().standbys_are_at(positions);
    }

    fn catch_up(&mut self) {
        let table = self.primary.database.open_or_create_table("flushed").unwrap();
        self.primary.database.put(&table, b"k", self.random.bytes(4)).unwrap();
        self.receive(true);
    }

    fn assert_equal(&self, place: &str) {
        let (primary, standby) = (state(&self.primary.database), state(&self.standby.database));
        assert_eq!(primary.0.keys().collect::<Vec<_>>(), standby.0.keys().collect::<Vec<_>>(), "{place}");
        assert_eq!(primary.1, standby.1, "{place}: in doubt");
        for (name, rows) in &primary.0 {
            assert!(*rows == standby.0[name], "{place}: rows of {name} differ");
        }
    }

    /// The standby is promoted, the primary writes what nobody gets, and comes back as a standby. Whether its log was cut.
    fn fail_over(mut self, place: &str) -> (Pair, bool) {
        for _ in 0..self.random.below(15) {
            self.write_on_primary();
        }
        if self.random.chance(1, 8) {
            // The limit of the gate is zero where no threads are: pages get what the standby lacks.
            self.primary.database.checkpoint().unwrap();
        }
        let Pair { mut random, primary, standby, gids, .. } = self;
        let has_gate_opened = primary.database.quorum().status().gate_opened > 0;
        standby.database.standby().unwrap().promote("its primary is gone").unwrap();
        let hold = hold_for_standby(&standby.database);
        let former = primary.end(&mut random);
        let fork = history(&standby.database).forks.last().unwrap().fork;
        let stream = standby.database.log().stream(fork).unwrap();
        let placeholder = Node { disk: former.copy(), database: standby.database.clone() };
        let mut pair = Pair { random, primary: standby, standby: placeholder, hold, stream, gids };
        for _ in 0..pair.random.below(15) {
            pair.write_on_primary();
        }
        let rejoined = rejoin(&former, &pair.primary.database);
        let was_cut = matches!(&rejoined, Ok(Rejoined::Cut(_)));
        let disk = match rejoined {
            Ok(Rejoined::Cut(cut)) => {
                assert!(cut.fork <= cut.end, "{place}: {cut:?}");
                let list = former.read_file(&format!("{}/records.txt", cut.aside)).unwrap();
                let list = String::from_utf8(list).unwrap();
                let listed = list.lines().filter(|line| !line.starts_with(' ')).count();
                assert_eq!(u64::try_from(listed).unwrap(), cut.records, "{place}");
                former
            }
            // It had no more than the standby.
            Ok(Rejoined::AsItWas) => copy_of(&pair.primary, &former, place),
            Err(Error::PagesBeyondFork { fork, pages, .. }) => {
                assert!(has_gate_opened && pages > fork, "{place}: the gate was shut, {pages} {fork}");
                pair.primary.disk.after_power_loss(PowerLoss::LoseAll)
            }
            Err(error) => panic!("{place}: {error}"),
        };
        pair.standby = Node { database: follow(&disk), disk };
        let wanted = pair.standby.database.standby().unwrap().wanted().unwrap();
        pair.stream = pair.primary.database.log().stream(wanted).unwrap();
        pair.say(wanted);
        (pair, was_cut)
    }
}

/// Of a former primary whose log ends where the new timeline begins, or before: it receives the rest of its own timeline first. What is
/// on the other server's disk has it.
fn copy_of(primary: &Node, former: &SimulatedDisk, place: &str) -> SimulatedDisk {
    let end = follow(former).standby().unwrap().wanted().unwrap();
    let began = history(&primary.database).forks.last().unwrap().fork;
    assert!(end <= began, "{place}: {end} {began}");
    primary.disk.after_power_loss(PowerLoss::LoseAll)
}

/// How many histories: those of the suite, or `SEAWALL_FORK_HISTORIES`.
fn histories() -> u64 {
    std::env::var("SEAWALL_FORK_HISTORIES").ok().and_then(|text| text.parse().ok()).unwrap_or(40)
}

#[test]
fn servers_that_take_each_others_place_have_the_same_rows_after_each_cut() {
    let mut cuts = 0;
    for seed in seeds(histories()) {
        let mut pair = Pair::new(seed);
        for round in 0..3 {
            let place = format!("seed {seed}, round {round}");
            for _ in 0..pair.random.range(5..30) {
                match pair.random.below(10) {
                    0 => {
                        pair.catch_up();
                        pair.primary.database.checkpoint().unwrap();
                    }
                    1 => drop(pair.standby.database.standby().unwrap().checkpoint().unwrap()),
                    2..5 => pair.receive(false),
                    _ => pair.write_on_primary(),
                }
            }
            let was_cut;
            (pair, was_cut) = pair.fail_over(&place);
            cuts += u64::from(was_cut);
            pair.catch_up();
            pair.assert_equal(&place);
        }
        for node in [&pair.primary, &pair.standby] {
            let mut damage = Vec::new();
            node.database.check(&mut |found| damage.push(found)).unwrap();
            assert!(damage.is_empty(), "seed {seed}: {damage:?}");
        }
    }
    if std::env::var("SEAWALL_SEED").is_err() {
        assert!(cuts > histories() / 2, "{cuts} cuts");
    }
}

/// A primary that is ahead of the standby that took its place.
fn diverged(seed: u64) -> (SimulatedDisk, Node) {
    let mut pair = Pair::new(seed);
    for _ in 0..30 {
        pair.write_on_primary();
    }
    pair.catch_up();
    pair.primary.database.checkpoint().unwrap();
    for _ in 0..5 {
        pair.write_on_primary();
    }
    pair.catch_up();
    let primary = pair.primary.database.clone();
    let table = primary.table("flushed").unwrap();
    for number in 0..30_u8 {
        primary.put(&table, [b'x', number], pair.random.bytes(3000)).unwrap();
    }
    let Pair { primary, standby, .. } = pair;
    standby.database.standby().unwrap().promote("test").unwrap();
    let _hold = hold_for_standby(&standby.database);
    let table = standby.database.table("flushed").unwrap();
    standby.database.put(&table, b"new timeline", b"1").unwrap();
    let former = primary.disk.copy();
    primary.disk.crash();
    (former, standby)
}

fn catch_up(standby: &Database, primary: &Database) {
    let wanted = standby.standby().unwrap().wanted().unwrap();
    let mut stream = primary.log().stream(wanted).unwrap();
    let mut buffer = vec![0; 70_000];
    loop {
        let piece = stream.read(&mut buffer).unwrap();
        if piece.bytes == 0 {
            break;
        }
        standby.standby().unwrap().receive(piece.start, &buffer[..piece.bytes]).unwrap();
    }
    standby.standby().unwrap().sync().unwrap();
    standby.standby().unwrap().apply().unwrap();
}

#[test]
fn a_cut_is_made_whole_or_not_at_all_whenever_the_power_goes() {
    for seed in seeds(3) {
        let (former, primary) = diverged(seed);
        let expected = state(&primary.database);
        let mut calls = None;
        let mut call = 0;
        loop {
            let place = format!("seed {seed}, power lost in call {call}");
            let disk = former.copy();
            let before = disk.calls();
            if calls.is_some() {
                disk.crash_at(before + call);
            }
            let rejoined = rejoin(&disk, &primary.database);
            assert!(rejoined.is_ok() || disk.crashed(), "{place}: {rejoined:?}");
            let all = *calls.get_or_insert(disk.calls() - before);
            let left = disk.after_power_loss(PowerLoss::Random(seed ^ (call << 8)));
            disk.crash();
            if seed == 0 && rejoined.is_err() && !is_cut(&left) {
                // The server that it was, with all of its log: unless it comes back, somebody may want to look at it.
                let as_it_was = open(&left.copy(), &options());
                let table = as_it_was.table("flushed").unwrap();
                assert!(as_it_was.get(&table, [b'x', 29]).unwrap().is_some(), "{place}");
            }
            match rejoin(&left, &primary.database) {
                Ok(Rejoined::Cut(_)) => assert!(rejoined.is_err(), "{place}: cut twice"),
                Ok(Rejoined::AsItWas) => assert!(is_cut(&left), "{place}"),
                Err(error) => panic!("{place}: {error}"),
            }
            let standby = follow(&left);
            catch_up(&standby, &primary.database);
            assert_eq!(state(&standby), expected, "{place}");
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

/// Whether the superblock names a timeline that is not the first one.
fn is_cut(disk: &SimulatedDisk) -> bool {
    directory(disk).identity().unwrap().1.timeline > TimelineId::FIRST
}

#[test]
fn a_standby_that_was_promoted_by_mistake_goes_back_to_its_primary() {
    let mut pair = Pair::new(3);
    for _ in 0..20 {
        pair.write_on_primary();
    }
    pair.catch_up();
    let Pair { primary, standby, .. } = pair;
    standby.database.standby().unwrap().promote("by mistake").unwrap();
    let table = standby.database.table("flushed").unwrap();
    standby.database.put(&table, b"mistake", b"1").unwrap();
    let mistaken = standby.disk.copy();
    standby.disk.crash();
    let table = primary.database.table("flushed").unwrap();
    primary.database.put(&table, b"goes on", b"1").unwrap();
    let cut = cut(rejoin(&mistaken, &primary.database));
    assert_eq!((cut.left, cut.timeline), (TimelineId::new(2).unwrap(), TimelineId::FIRST));
    assert_eq!(cut.records, 2, "the switch record and a commit");
    let back = follow(&mistaken);
    catch_up(&back, &primary.database);
    assert_eq!(state(&back), state(&primary.database));
    // It may be promoted once more: on another timeline.
    back.standby().unwrap().promote("in earnest").unwrap();
    assert_eq!(back.log().timeline(), TimelineId::new(3).unwrap());
    back.put(&back.table("flushed").unwrap(), b"k2", b"1").unwrap();
}

#[test]
fn a_standby_that_had_received_more_than_the_one_that_was_promoted_follows_it() {
    let mut pair = Pair::new(4);
    for _ in 0..20 {
        pair.write_on_primary();
    }
    pair.catch_up();
    let other = pair.standby.disk.after_power_loss(PowerLoss::LoseAll);
    for _ in 0..10 {
        pair.write_on_primary();
    }
    pair.catch_up();
    let ahead = pair.standby.disk.after_power_loss(PowerLoss::LoseAll);
    pair.primary.disk.crash();
    pair.standby.disk.crash();
    let promoted = follow(&other);
    promoted.standby().unwrap().apply().unwrap();
    promoted.standby().unwrap().promote("test").unwrap();
    let cut = cut(rejoin(&ahead, &promoted));
    assert!(cut.records > 0 && cut.fork < cut.end);
    assert_eq!(cut.timeline, promoted.log().timeline());
    let standby = follow(&ahead);
    catch_up(&standby, &promoted);
    assert_eq!(state(&standby), state(&promoted));
}

/// Two standbys that were promoted to timelines of one number: the one that had received more, and the other one, which is followed.
fn split(seed: u64) -> (SimulatedDisk, Node) {
    let mut pair = Pair::new(seed);
    for _ in 0..20 {
        pair.write_on_primary();
    }
    pair.catch_up();
    let other = pair.standby.disk.after_power_loss(PowerLoss::LoseAll);
    for _ in 0..10 {
        pair.write_on_primary();
    }
    pair.catch_up();
    let ahead = pair.standby.disk.after_power_loss(PowerLoss::LoseAll);
    pair.primary.disk.crash();
    pair.standby.disk.crash();
    let promoted = |disk: &SimulatedDisk, mark: u64, byte: u8| {
        let random = Arc::new(SimulatedRandom::new(mark));
        let environment = Environment { random, ..environment(Arc::new(disk.clone())) };
        let database = DatabaseDirectory::at(environment).follow(options()).unwrap();
        database.standby().unwrap().apply().unwrap();
        database.standby().unwrap().promote("test").unwrap();
        let table = database.table("flushed").unwrap();
        for number in 0..40_u8 {
            database.put(&table, [b'x', number], [byte; 3000]).unwrap();
        }
        database
    };
    let former = promoted(&ahead, 7, 1);
    assert_eq!(history(&former).timeline, TimelineId::new(2).unwrap());
    let left = ahead.copy();
    ahead.crash();
    let database = promoted(&other, 8, 2);
    let _hold = hold_for_standby(&database);
    (left, Node { disk: other, database })
}

#[test]
fn a_cut_between_two_timelines_of_one_number_is_made_whole_or_not_at_all_whenever_the_power_goes() {
    for seed in seeds(2) {
        let (former, primary) = split(seed);
        let expected = state(&primary.database);
        let own = directory(&former).identity().unwrap().1;
        let (mut calls, mut call) = (None, 0);
        loop {
            let place = format!("seed {seed}, power lost in call {call}");
            let disk = former.copy();
            let before = disk.calls();
            if calls.is_some() {
                disk.crash_at(before + call);
            }
            let rejoined = rejoin(&disk, &primary.database);
            assert!(rejoined.is_ok() || disk.crashed(), "{place}: {rejoined:?}");
            let all = *calls.get_or_insert(disk.calls() - before);
            let left = disk.after_power_loss(PowerLoss::Random(seed ^ (call << 8)));
            disk.crash();
            if directory(&left).identity().unwrap().1 == own {
                // The server that it was, with all of its log.
                let as_it_was = open(&left.copy(), &options());
                let table = as_it_was.table("flushed").unwrap();
                assert_eq!(as_it_was.get(&table, [b'x', 39]).unwrap(), Some(vec![1; 3000]), "{place}");
            }
            let again = rejoin(&left, &primary.database).unwrap_or_else(|error| panic!("{place}: {error}"));
            assert!(rejoined.is_err() || again == Rejoined::AsItWas, "{place}: cut twice");
            let standby = follow(&left);
            catch_up(&standby, &primary.database);
            assert_eq!(state(&standby), expected, "{place}");
            let mut damage = Vec::new();
            standby.check(&mut |found| damage.push(found)).unwrap();
            assert!(damage.is_empty(), "{place}: {damage:?}");
            call += u64::try_from(crash_step(all, 120)).unwrap();
            if call >= all {
                break;
            }
        }
    }
}

#[test]
fn a_history_that_is_not_of_this_log_is_refused_and_changes_nothing() {
    let (former, primary) = diverged(5);
    let fork = history(&primary.database).forks[0].fork;
    let second = TimelineId::new(2).unwrap();
    let mark = TimelineMark::from_bytes([7; 16]);
    let elsewhere = TimelineHistory::first().fork(second, Lsn::new(fork.get() + 1), mark, "");
    let refused = directory(&former).rejoin(&options(), &elsewhere);
    assert!(matches!(refused, Err(Error::NotItsLog { .. })), "{refused:?}");
    let before_pages = TimelineHistory::first().fork(second, Lsn::new(4096), mark, "");
    let refused = directory(&former).rejoin(&options(), &before_pages);
    let Err(Error::PagesBeyondFork { fork: at, pages, .. }) = refused else { panic!("{refused:?}") };
    assert!(at == Lsn::new(4096) && pages > at);
    let own = TimelineHistory::first();
    assert_eq!(directory(&former).rejoin(&options(), &own).unwrap(), Rejoined::AsItWas);
    let in_use = open(&former, &options());
    let refused = rejoin(&former, &primary.database);
    assert!(matches!(refused, Err(Error::InUse { .. })), "{refused:?}");
    let table = in_use.table("flushed").unwrap();
    assert!(in_use.get(&table, [b'x', 29]).unwrap().is_some());
}

/// As for a rewind: a server that was restored to try something out, and those that come back to it, put nothing into the repository of the
/// original. And whether there is something to cut when it comes back makes no difference.
#[test]
fn a_server_that_comes_back_archives_as_the_one_to_follow_does() {
    for (is_off_there, is_off_here) in [(true, false), (false, true), (true, true), (false, false)] {
        for has_more in [true, false] {
            let what = format!("off there: {is_off_there}, off here: {is_off_here}, more: {has_more}");
            let mut pair = Pair::new(7);
            let former = pair.primary.database.clone();
            let table = former.create_table("t0").unwrap();
            pair.catch_up();
            if has_more {
                former.put(&table, b"lost", b"").unwrap();
            }
            pair.standby.database.standby().unwrap().promote("a test").unwrap();
            let history = history(&pair.standby.database);
            let disk = pair.primary.disk.copy();
            pair.primary.disk.crash();
            if is_off_here {
                directory(&disk).forbid_archiving().unwrap();
            }
            let mode = if is_off_there { ArchiveMode::Off } else { ArchiveMode::Preserve };
            let come_back = |disk: &SimulatedDisk| {
                let upstream = ServerToFollow { history: &history, archive_mode: Some(mode) };
                directory(disk).rejoin(&options(), upstream)
            };
            let is_off = |disk: &SimulatedDisk| directory(disk).is_archiving_off().unwrap();
            let whole = disk.copy();
            let before = whole.calls();
            let rejoined = come_back(&whole).unwrap();
            let calls = whole.calls() - before;
            assert_eq!(matches!(rejoined, Rejoined::Cut(_)), has_more, "{what}");
            assert_eq!(is_off(&whole), is_off_there, "{what}");
            for call in 0..calls {
                let crashing = disk.copy();
                crashing.crash_at(crashing.calls() + call);
                let broken = come_back(&crashing);
                assert!(broken.is_ok() || crashing.crashed(), "{what}, call {call}: {broken:?}");
                let left = crashing.after_power_loss(PowerLoss::Random(call));
                if has_more {
                    let is_cut = directory(&left).identity().unwrap().1 == history;
                    let may_archive = if is_cut { !is_off_there } else { !is_off_here };
                    assert!(is_off(&left) || may_archive, "{what}, call {call}, cut: {is_cut}");
                }
                let rejoined = come_back(&left).unwrap();
                // The log was cut, and the power went before the database was allowed to archive: it says so when it is to.
                let stays_off = rejoined == Rejoined::AsItWas && has_more && is_off_here;
                assert!(is_off(&left) == is_off_there || stays_off, "{what}, call {call}");
            }
            // Without an answer, nothing is taken over.
            directory(&disk).rejoin(&options(), &history).unwrap();
            assert_eq!(is_off(&disk), is_off_here, "{what}");
            // A standby has its own, unless its log is cut.
            follow(&whole).close().unwrap();
            directory(&whole).forbid_archiving().unwrap();
            assert_eq!(come_back(&whole).unwrap(), Rejoined::AsItWas, "{what}");
            assert!(is_off(&whole), "{what}");
        }
    }
}
