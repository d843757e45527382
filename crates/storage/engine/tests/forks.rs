//! Three servers and random histories of forks: a standby that has less than the other one is promoted, or both are, or one is by mistake,
//! while the former primary goes on. All go back to one of them, over power losses, and have its rows in the end.
#![allow(clippy::unwrap_used, reason = "a test that fails panics")]

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;

use common::copying::{Rows, disturb, everything, history_of, slot, write};
use common::rewinding::rewind;
use common::small_options;
use seawall_crash_harness::{environment, open, template};
use seawall_engine::{Database, DatabaseDirectory, Environment, Error, Rejoined, StandbyPositions};
use seawall_simulation::{PowerLoss, SeededRandom, SimulatedDisk, SimulatedRandom, seeds};
use seawall_types::Lsn;

/// Names of the servers, and of the slots that keep the log for them.
const NAMES: [&str; 3] = ["a", "b", "c"];
const ROUNDS: usize = 3;

struct Node {
    disk: SimulatedDisk,
    database: Database,
}

/// What was done and found.
#[derive(Debug, Default)]
struct Counts {
    cuts: u64,
    rewinds: u64,
    /// Rows that were not sent.
    kept_rows: u64,
    power_losses_in_cuts: u64,
    power_losses_in_rewinds: u64,
    both_promoted: u64,
    by_mistake: u64,
}

struct Trio {
    random: SeededRandom,
    nodes: Vec<Node>,
    /// Which of them is written.
    primary: usize,
    /// What the primary showed after each of its commits, since its timeline began.
    shown: BTreeMap<Lsn, Vec<(String, Rows)>>,
    counts: Counts,
}

/// Of each server, and of each time that it is opened, another one: timelines of one number are told apart by it.
fn environment_of(disk: &SimulatedDisk, random: &mut SeededRandom) -> Environment {
    let random = Arc::new(SimulatedRandom::new(random.next_u64()));
    Environment { random, ..environment(Arc::new(disk.clone())) }
}

fn follow(disk: &SimulatedDisk, random: &mut SeededRandom) -> Database {
    DatabaseDirectory::at(environment_of(disk, random)).follow(small_options()).unwrap()
}

/// Slots of all other servers, so that each may be promoted.
fn keep_log(database: &Database) {
    for name in NAMES {
        if database.log().find_hold(name).is_err() {
            drop(database.log().hold(name, slot(), None).unwrap());
        }
    }
}

/// Without empty tables: a step of the primary may create one first, and put rows into it then.
fn told_apart(mut everything: Vec<(String, Rows)>) -> Vec<(String, Rows)> {
    everything.retain(|(name, rows)| !rows.is_empty() || name.starts_with("gid "));
    everything
}

impl Trio {
    fn new(seed: u64) -> Trio {
        let mut random = SeededRandom::new(seed);
        let disk = template(&small_options());
        let database = open(&disk, &small_options());
        keep_log(&database);
        let copies = [1, 2].map(|_| disk.after_power_loss(PowerLoss::LoseAll));
        let mut nodes = vec![Node { disk, database }];
        nodes.extend(copies.map(|disk| Node { database: follow(&disk, &mut random), disk }));
        nodes.iter().for_each(|node| keep_log(&node.database));
        let mut trio = Trio { random, nodes, primary: 0, shown: BTreeMap::new(), counts: Counts::default() };
        trio.note_shown();
        trio
    }

    fn database(&self, node: usize) -> &Database {
        &self.nodes[node].database
    }

    fn standbys(&self) -> [usize; 2] {
        [(self.primary + 1) % 3, (self.primary + 2) % 3]
    }

    /// Something that a user does on a primary.
    fn write_on(&mut self, node: usize) {
        let database = self.nodes[node].database.clone();
        match self.random.below(3) {
            0 => disturb(&database, &mut self.random),
            _ => write(&database, &mut self.random),
        }
    }

    fn note_shown(&mut self) {
        let primary = self.database(self.primary);
        let shown = (primary.snapshot().lsn(), everything(primary));
        self.shown.extend([shown]);
    }

    /// A standby receives a piece of what the primary has, or all; whether that was all.
    fn receive(&mut self, node: usize, from: usize, all: bool) -> bool {
        let (from, standby) = (self.nodes[from].database.clone(), self.nodes[node].database.clone());
        let place = standby.standby().unwrap();
        let mut stream = from.log().stream(place.wanted().unwrap()).unwrap();
        let is_at_end = loop {
            let mut buffer = vec![0; usize::try_from(self.random.range(1..40_000)).unwrap()];
            let piece = stream.read(&mut buffer).unwrap();
            if piece.bytes == 0 || piece.timeline != standby.log().timeline() {
                break true;
            }
            place.receive(piece.start, &buffer[..piece.bytes]).unwrap();
            if !all {
                break false;
            }
        };
        place.sync().unwrap();
        if all || self.random.chance(1, 2) {
            place.apply().unwrap();
        }
        let candidate = self.standbys().iter().map(|standby| self.database(*standby).log().flushed()).max();
        self.database(self.primary).quorum().standbys_are_at(StandbyPositions { quorum: None, candidate });
        is_at_end
    }

    /// A standby's process is killed, or its machine loses power.
    fn restart_standby(&mut self, node: usize) {
        let outcome = match self.random.chance(1, 2) {
            true => PowerLoss::KeepAll,
            false => PowerLoss::Random(self.random.next_u64()),
        };
        let left = self.nodes[node].disk.after_power_loss(outcome);
        self.nodes[node].disk.crash();
        self.nodes[node] = Node { database: follow(&left, &mut self.random), disk: left };
    }

    fn live(&mut self) {
        for _ in 0..self.random.range(5..25) {
            let node = self.standbys()[self.random.index(2)];
            match self.random.below(12) {
                0 => drop(self.database(self.primary).checkpoint().unwrap()),
                1 => drop(self.database(node).standby().unwrap().checkpoint().unwrap()),
                2 => self.restart_standby(node),
                3..7 => drop(self.receive(node, self.primary, false)),
                _ => {
                    self.write_on(self.primary);
                    self.note_shown();
                }
            }
        }
    }

    fn promote(&mut self, node: usize, place: &str) {
        let database = self.database(node);
        database.standby().unwrap().promote("a test").unwrap();
        // What it shows is a moment of the primary: the last one that it has.
        let fork = history_of(database).forks.last().unwrap().fork;
        let (_, expected) = self.shown.range(..=fork).next_back().unwrap();
        assert!(
            told_apart(everything(database)) == told_apart(expected.clone()),
            "{place}: what is promoted shows no moment of its primary"
        );
    }

    /// Some servers write on timelines of their own, and one of them is the one that all follow.
    fn part(&mut self, place: &str) {
        let [one, other] = match self.random.chance(1, 2) {
            true => self.standbys(),
            false => [self.standbys()[1], self.standbys()[0]],
        };
        let former = self.primary;
        self.promote(one, place);
        let mut writers = vec![former, one];
        if self.random.chance(1, 3) {
            self.promote(other, place);
            self.counts.both_promoted += 1;
            writers.push(other);
        }
        for _ in 0..self.random.below(20) {
            let writer = writers[self.random.index(writers.len())];
            if self.random.chance(1, 10) {
                // The limit of the gate is zero where no threads are: pages get what nobody else has.
                self.database(writer).checkpoint().unwrap();
                continue;
            }
            self.write_on(writer);
            if writer == former {
                self.note_shown();
            }
        }
        self.primary = one;
        if self.random.chance(1, 5) {
            // It was promoted by mistake: the former primary is the one that counts.
            self.primary = former;
            self.counts.by_mistake += 1;
        }
    }

    /// A server ends, and follows the primary: its log is cut, or its rows are made those of the primary, whenever the power goes.
    fn come_back(&mut self, node: usize, place: &str) {
        let was_closed = self.random.chance(1, 3);
        let disk = self.nodes[node].disk.clone();
        let mut left = if was_closed {
            self.nodes[node].database.clone().close().unwrap();
            disk
        } else {
            let left = disk.after_power_loss(PowerLoss::Random(self.random.next_u64()));
            disk.crash();
            left
        };
        let upstream = history_of(self.database(self.primary));
        let rejoined = loop {
            let directory = DatabaseDirectory::at(environment_of(&left, &mut self.random));
            if self.random.chance(2, 3) {
                left.crash_at(left.calls() + self.random.range(1..60));
            }
            let rejoined = directory.rejoin(&small_options(), &upstream);
            if !left.crashed() {
                left.crash_at(u64::MAX);
                break rejoined;
            }
            self.counts.power_losses_in_cuts += 1;
            left = left.after_power_loss(PowerLoss::Random(self.random.next_u64()));
        };
        match rejoined {
            Ok(Rejoined::Cut(cut)) => {
                assert!(cut.fork <= cut.end, "{place}: {cut:?}");
                self.counts.cuts += 1;
            }
            Ok(Rejoined::AsItWas) => {}
            // Pages were given what the most advanced standby had, and another one was promoted; or the gate was open.
            Err(Error::PagesBeyondFork { fork, pages, .. }) => {
                assert!(pages > fork, "{place}: {pages} {fork}");
                left = self.rewind(left, place);
            }
            Err(error) => panic!("{place}: {error}"),
        }
        let database = follow(&left, &mut self.random);
        keep_log(&database);
        self.nodes[node] = Node { disk: left, database };
    }

    /// Makes the rows of a server those of the primary, which goes on meanwhile, whenever the power goes.
    fn rewind(&mut self, mut left: SimulatedDisk, place: &str) -> SimulatedDisk {
        let primary = self.database(self.primary).clone();
        let upstream = history_of(&primary);
        loop {
            if self.random.chance(2, 3) {
                left.crash_at(left.calls() + self.random.range(1..300));
            }
            let environment = environment_of(&left, &mut self.random);
            let name = format!("rewind_{}_{}", self.counts.rewinds, self.counts.power_losses_in_rewinds);
            let mut random = SeededRandom::new(self.random.next_u64());
            let mut meanwhile = || match random.below(8) {
                0 => drop(primary.checkpoint().unwrap()),
                1 | 2 => disturb(&primary, &mut random),
                3 => write(&primary, &mut random),
                _ => {}
            };
            let rewound = rewind(&primary, environment, &small_options(), &name, &mut meanwhile);
            if !left.crashed() {
                left.crash_at(u64::MAX);
                let rewound = rewound.unwrap_or_else(|error| panic!("{place}: {error}"));
                self.counts.rewinds += 1;
                self.counts.kept_rows += rewound.map_or(0, |rewound| rewound.kept_rows);
                return left;
            }
            self.counts.power_losses_in_rewinds += 1;
            left = left.after_power_loss(PowerLoss::Random(self.random.next_u64()));
            let directory = DatabaseDirectory::at(environment_of(&left, &mut self.random));
            match directory.rejoin(&small_options(), &upstream) {
                // Only what comes after all of it was missing.
                Ok(Rejoined::AsItWas) => return left,
                Err(Error::PagesBeyondFork { .. } | Error::Rewinding { .. }) => {}
                other => panic!("{place}: {other:?}"),
            }
        }
    }

    /// A standby receives everything, over as many timelines as there are.
    fn catch_up(&mut self, node: usize, place: &str) {
        let history = history_of(self.database(self.primary));
        loop {
            self.receive(node, self.primary, true);
            let database = self.nodes[node].database.clone();
            let own = database.log().timeline();
            if own == history.timeline {
                break;
            }
            let next = history.forks.iter().skip(1).map(|fork| fork.parent).chain([history.timeline]);
            let next = history.forks.iter().zip(next).find(|(fork, _)| fork.parent == own);
            let (_, next) = next.unwrap_or_else(|| panic!("{place}: {own} is no timeline of the primary"));
            let next = self.database(self.primary).log().timeline_history(next).unwrap();
            let followed = database.standby().unwrap().follow_timeline(&next);
            followed.unwrap_or_else(|error| panic!("{place}: {error}"));
        }
    }

    fn compare(&mut self, place: &str) {
        let flushed = self.nodes[self.primary].database.clone();
        let table = flushed.open_or_create_table("t").unwrap();
        flushed.put(&table, b"flushed", self.random.bytes(4)).unwrap();
        for node in self.standbys() {
            self.catch_up(node, place);
        }
        let expected = everything(self.database(self.primary));
        for node in self.standbys() {
            assert!(everything(self.database(node)) == expected, "{place}: {} has other rows", NAMES[node]);
        }
        self.shown.clear();
        self.note_shown();
    }
}

/// How many histories: those of the suite, or `SEAWALL_FORK_HISTORIES`.
fn histories() -> u64 {
    std::env::var("SEAWALL_FORK_HISTORIES").ok().and_then(|text| text.parse().ok()).unwrap_or(60)
}

#[test]
fn three_servers_have_the_same_rows_after_each_fork_however_they_came_there() {
    let mut all = Counts::default();
    for seed in seeds(histories()) {
        let mut trio = Trio::new(seed);
        for round in 0..ROUNDS {
            let place = format!("seed {seed}, round {round}");
            trio.live();
            trio.part(&place);
            for node in trio.standbys() {
                trio.come_back(node, &place);
            }
            trio.compare(&place);
        }
        for node in &trio.nodes {
            let mut damage = Vec::new();
            node.database.check(&mut |found| damage.push(found)).unwrap();
            assert!(damage.is_empty(), "seed {seed}: {damage:?}");
        }
        let Counts { cuts, rewinds, kept_rows, both_promoted, by_mistake, .. } = trio.counts;
        all.cuts += cuts;
        all.rewinds += rewinds;
        all.kept_rows += kept_rows;
        all.power_losses_in_cuts += trio.counts.power_losses_in_cuts;
        all.power_losses_in_rewinds += trio.counts.power_losses_in_rewinds;
        all.both_promoted += both_promoted;
        all.by_mistake += by_mistake;
    }
    eprintln!("{} histories of {ROUNDS} forks: {all:?}", histories());
    if std::env::var("SEAWALL_SEED").is_err() {
        let has_cuts = all.cuts > histories() / 2 && all.power_losses_in_cuts > 0;
        let has_rewinds =
            all.rewinds > histories() / 2 && all.power_losses_in_rewinds > 0 && all.kept_rows > 0;
        assert!(has_cuts && has_rewinds && all.both_promoted > 0 && all.by_mistake > 0, "{all:?}");
    }
}
