//! Random histories, with backups at random moments while the history goes on, restored to random positions and compared with
//! a plain model of what the database held there. Between backups the database is closed and opened again, its checkpoints fail, and
//! it loses power in the middle of them: increments build on what comes of that.
//!
//! Invariants of `engine::backup` and `engine::recovery::restore`: what is restored is the state after a commit, exactly, in-doubt
//! transactions included; and no row is left that belongs to no table.
#![allow(clippy::unwrap_used, reason = "a test that fails panics")]

mod common;

use std::collections::{BTreeMap, BTreeSet};

use seawall_backup::{BackupOptions, RunKind};

use common::{State, World, examine, state_of};
use seawall_engine::{BulkLoad, Database, RestoreTarget};
use seawall_simulation::{
    Fault, FaultError, FaultTarget, Operations, PowerLoss, SeededRandom, SimulatedDisk, seeds,
};
use seawall_types::Lsn;

type Writes = Vec<(String, Vec<u8>, Option<Vec<u8>>)>;

/// What the database holds at a position.
#[derive(Clone)]
struct Moment {
    lsn: Lsn,
    state: State,
    in_doubt: BTreeMap<String, Writes>,
}

/// A load that is not finished.
struct Loading {
    name: String,
    load: BulkLoad,
    rows: BTreeMap<Vec<u8>, Vec<u8>>,
}

struct History<'a> {
    world: &'a World,
    disk: SimulatedDisk,
    database: Database,
    random: SeededRandom,
    state: State,
    in_doubt: BTreeMap<String, Writes>,
    loading: Option<Loading>,
    moments: Vec<Moment>,
    names: u32,
    increments: u64,
    kept_ranges: u64,
    parts: u64,
    reopened: u64,
    failed_checkpoints: u64,
}

impl<'a> History<'a> {
    fn new(world: &'a World, seed: u64) -> History<'a> {
        let database = world.open();
        // Most rows of a database do not change.
        let settled: BTreeMap<Vec<u8>, Vec<u8>> =
            (0..400_u16).map(|key| (key.to_be_bytes().to_vec(), vec![b's'; 100])).collect();
        let mut load = database.tables().bulk_load("settled").unwrap();
        settled.iter().for_each(|(key, value)| load.add(key, value).unwrap());
        load.finish().unwrap();
        let random = SeededRandom::new(seed);
        let state = State::from([("settled".to_owned(), settled)]);
        let in_doubt = BTreeMap::new();
        History {
            world,
            disk: world.disk.clone(),
            database,
            random,
            state,
            in_doubt,
            loading: None,
            moments: Vec::new(),
            names: 0,
            increments: 0,
            kept_ranges: 0,
            parts: 0,
            reopened: 0,
            failed_checkpoints: 0,
        }
    }

    fn new_name(&mut self, kind: &str) -> String {
        self.names += 1;
        format!("{kind} {}", self.names)
    }

    fn any_table(&mut self) -> Option<String> {
        let names: Vec<String> = self.state.keys().cloned().collect();
        (!names.is_empty()).then(|| self.random.pick(&names).clone())
    }

    /// A table that no in-doubt transaction has written to.
    fn free_table(&mut self) -> Option<String> {
        let used: BTreeSet<&String> = self.in_doubt.values().flatten().map(|(table, ..)| table).collect();
        let names: Vec<String> = self.state.keys().filter(|name| !used.contains(name)).cloned().collect();
        (!names.is_empty()).then(|| self.random.pick(&names).clone())
    }

    fn value(&mut self) -> Vec<u8> {
        let length = match self.random.below(20) {
            0 => 20_000,
            1..4 => 2_000,
            _ => self.random.index(60),
        };
        self.random.bytes(length)
    }

    /// Writes to rows that no in-doubt transaction has.
    fn writes(&mut self) -> Writes {
        let locked: BTreeSet<(String, Vec<u8>)> =
            self.in_doubt.values().flatten().map(|(table, key, _)| (table.clone(), key.clone())).collect();
        let mut writes: BTreeMap<(String, Vec<u8>), Option<Vec<u8>>> = BTreeMap::new();
        for _ in 0..=self.random.below(6) {
            let Some(table) = self.any_table() else { break };
            let key = self.random.below(60).to_be_bytes()[6..].to_vec();
            let value = if self.random.chance(1, 4) { None } else { Some(self.value()) };
            if !locked.contains(&(table.clone(), key.clone())) {
                writes.insert((table, key), value);
            }
        }
        writes.into_iter().map(|((table, key), value)| (table, key, value)).collect()
    }

    fn apply(state: &mut State, writes: &Writes) {
        for (table, key, value) in writes {
            let rows = state.get_mut(table).unwrap();
            match value {
                Some(value) => drop(rows.insert(key.clone(), value.clone())),
                None => drop(rows.remove(key)),
            }
        }
    }

    fn transaction(&mut self, writes: &Writes) -> seawall_engine::Transaction {
        let mut transaction = self.database.begin();
        for (table, key, value) in writes {
            let table = self.database.table(table).unwrap();
            match value {
                Some(value) => transaction.put(&table, key, value).unwrap(),
                None => transaction.delete(&table, key).unwrap(),
            }
        }
        transaction
    }

    fn step(&mut self) {
        self.world.clock.advance(std::time::Duration::from_millis(3));
        match self.random.below(30) {
            0..2 => self.create(),
            2 => self.drop_one(),
            3 => self.truncate(),
            4 => self.begin_load(),
            5..7 => self.go_on_with_load(),
            7..10 => self.prepare(),
            10..12 => self.decide(),
            12 | 13 => drop(self.database.checkpoint().unwrap()),
            14 if self.world.archives => {
                self.database.log().archive_now().unwrap();
            }
            _ => {
                let writes = self.writes();
                self.transaction(&writes).commit().unwrap();
                History::apply(&mut self.state, &writes);
            }
        }
        let lsn = self.database.statistics().log.appended;
        self.moments.push(Moment { lsn, state: self.state.clone(), in_doubt: self.in_doubt.clone() });
    }

    /// A checkpoint fails somewhere, or the power goes in it, or the database is closed; if it does not go on, it is opened again.
    fn disturb(&mut self) {
        self.loading = None;
        let what = self.random.below(3);
        match what {
            0 => self.database.clone().close().unwrap(),
            1 => {
                let target = FaultTarget::Path { prefix: String::new(), operations: Operations::Writes };
                let skip = self.random.below(15);
                self.disk.inject(Fault { target, error: FaultError::Number(5), skip, count: 1 });
                self.failed_checkpoints += u64::from(self.database.checkpoint().is_err());
                self.disk.clear_faults();
                if self.database.log().create_restore_point("it goes on").is_ok() {
                    return;
                }
            }
            _ => {
                self.disk.crash_at(self.disk.calls() + self.random.below(25));
                self.failed_checkpoints += u64::from(self.database.checkpoint().is_err());
            }
        }
        if what > 0 {
            self.disk.crash();
            let loss = self.random.next_u64();
            self.disk = self.disk.after_power_loss(PowerLoss::Random(loss));
        }
        self.database = self.world.open_at(&self.disk);
        self.reopened += 1;
    }

    fn create(&mut self) {
        let name = self.new_name("table");
        // Of a name that was dropped, sometimes.
        let name = if self.random.chance(1, 2) { "again".to_owned() } else { name };
        if !self.state.contains_key(&name) {
            self.database.create_table(&name).unwrap();
            self.state.insert(name, BTreeMap::new());
        }
    }

    fn drop_one(&mut self) {
        let Some(name) = self.free_table() else { return };
        self.database.tables().drop(&name).unwrap();
        self.state.remove(&name);
    }

    fn truncate(&mut self) {
        let Some(name) = self.free_table() else { return };
        self.database.tables().truncate(&name).unwrap();
        self.state.get_mut(&name).unwrap().clear();
    }

    fn begin_load(&mut self) {
        // One that was begun before is given up.
        let name = self.new_name("load");
        let load = self.database.tables().bulk_load(&name).unwrap();
        self.loading = Some(Loading { name, load, rows: BTreeMap::new() });
    }

    fn go_on_with_load(&mut self) {
        let Some(mut loading) = self.loading.take() else { return };
        for _ in 0..self.random.below(200) {
            let key = self.random.below(1 << 16).to_be_bytes()[6..].to_vec();
            let value = self.value();
            loading.load.add(&key, &value).unwrap();
            loading.rows.insert(key, value);
        }
        if self.random.chance(1, 2) {
            self.loading = Some(loading);
            return;
        }
        loading.load.finish().unwrap();
        self.state.insert(loading.name, loading.rows);
    }

    fn prepare(&mut self) {
        let writes = self.writes();
        if writes.is_empty() || self.in_doubt.len() > 3 {
            return;
        }
        let gid = self.new_name("gid");
        self.transaction(&writes).prepare(&gid).unwrap();
        self.in_doubt.insert(gid, writes);
    }

    fn decide(&mut self) {
        let Some(gid) = self.in_doubt.keys().next().cloned() else { return };
        let writes = self.in_doubt.remove(&gid).unwrap();
        if self.random.chance(1, 2) {
            self.database.two_phase().commit(&gid).unwrap();
            History::apply(&mut self.state, &writes);
        } else {
            self.database.two_phase().rollback(&gid).unwrap();
        }
    }

    /// A backup, while the history goes on.
    fn back_up(&mut self) -> Lsn {
        let world = self.world;
        let options = BackupOptions {
            is_incremental: self.random.chance(2, 3),
            run_bytes: 300 + self.random.index(3_000),
            range_bytes: 1 + self.random.below(40_000),
            threads: 1,
            progress_bytes: 1 + self.random.below(20_000),
            ..BackupOptions::default()
        };
        // Some are cut short, and one of them more than once.
        let mut taken = None;
        while taken.is_none() {
            let database = self.database.clone();
            let objects = self.random.chance(1, 2).then(|| self.random.below(30));
            if let Some(objects) = objects {
                world.refuse_backups_after(&database, objects);
            }
            let ended = world.back_up_with(&database, &options, || {
                for _ in 0..self.random.below(3) {
                    self.step();
                }
            });
            world.store.clear_faults();
            assert!(ended.is_ok() || objects.is_some(), "{ended:?}");
            taken = ended.ok();
            drop(database);
            if taken.is_none() && self.random.chance(1, 3) {
                self.disturb();
            }
        }
        let manifest = taken.expect("the loop ends with one").manifest;
        self.parts += u64::from(manifest.goes_on_with.is_some());
        let kept = manifest.runs.iter().filter(|run| run.kind == RunKind::Kept);
        self.kept_ranges += kept.map(|run| run.rows).sum::<u64>();
        self.increments += u64::from(manifest.parent.is_some());
        manifest.end.end
    }

    fn run(&mut self, steps: u64) {
        for _ in 0..steps {
            if self.random.chance(1, 12) {
                self.disturb();
            }
            self.step();
        }
    }

    /// What a restore to `lsn` must give.
    fn moment_at(&self, lsn: Lsn) -> &Moment {
        self.moments.iter().rev().find(|moment| moment.lsn <= lsn).unwrap()
    }
}

/// Restores to `target`, and compares with the model.
fn compare(world: &World, moment: &Moment, target: &RestoreTarget, decides: &mut SeededRandom, what: &str) {
    let (disk, _) = world.restore(target.clone()).unwrap_or_else(|error| panic!("{what}: {error}"));
    let database = world.open_restored(&disk);
    assert!(state_of(&database) == moment.state, "{what}: other rows");
    let in_doubt: Vec<String> =
        database.two_phase().in_doubt().unwrap().into_iter().map(|one| one.gid).collect();
    let mut expected: Vec<&String> = moment.in_doubt.keys().collect();
    let mut found: Vec<&String> = in_doubt.iter().collect();
    expected.sort();
    found.sort();
    assert_eq!(found, expected, "{what}");
    let mut state = moment.state.clone();
    for (gid, writes) in moment.in_doubt.iter().filter(|_| decides.chance(1, 2)) {
        database.two_phase().commit(gid).unwrap();
        History::apply(&mut state, writes);
    }
    assert!(state_of(&database) == state, "{what}: other rows after decisions");
    examine(&database);
}

#[test]
fn random_histories_come_back_as_of_random_positions() {
    let (mut increments, mut kept_ranges, mut parts, mut reopened, mut failed_checkpoints) = (0, 0, 0, 0, 0);
    for seed in seeds(12) {
        let world = World::new();
        let mut history = History::new(&world, seed);
        let mut ends = Vec::new();
        for _ in 0..5 {
            history.run(25);
            ends.push(history.back_up());
        }
        history.run(25);
        increments += history.increments;
        kept_ranges += history.kept_ranges;
        parts += history.parts;
        reopened += history.reopened;
        failed_checkpoints += history.failed_checkpoints;
        let end = history.database.log().archive_now().unwrap();
        let mut random = SeededRandom::new(seed);
        for _ in 0..4 {
            let reachable: Vec<Lsn> = history
                .moments
                .iter()
                .map(|moment| moment.lsn)
                .filter(|lsn| (ends[0]..=end).contains(lsn))
                .collect();
            let lsn = *random.pick(&reachable);
            let what = format!("seed {seed}, {lsn}, backups to {ends:?}");
            compare(&world, history.moment_at(lsn), &RestoreTarget::Lsn(lsn), &mut random, &what);
        }
        let latest = format!("seed {seed}, the latest");
        compare(&world, history.moment_at(end), &RestoreTarget::Latest, &mut random, &latest);
    }
    let what = format!("{increments} increments, {kept_ranges} ranges kept, {parts} went on with another");
    println!("{what}; opened again {reopened} times, {failed_checkpoints} failed checkpoints");
    assert!(
        reopened > 30 && failed_checkpoints > 20,
        "{reopened} times, {failed_checkpoints} failed checkpoints"
    );
    assert!(increments > 10 && kept_ranges > 20 && parts > 10, "{what}");
}

#[test]
fn without_an_archive_each_backup_comes_back_as_of_its_end() {
    for seed in seeds(8) {
        let world = World { archives: false, ..World::new() };
        let mut history = History::new(&world, seed);
        for number in 0..3 {
            history.run(40);
            let end = history.back_up();
            let what = format!("seed {seed}, backup {number}, to {end}");
            let mut random = SeededRandom::new(seed);
            compare(&world, history.moment_at(end), &RestoreTarget::Latest, &mut random, &what);
        }
    }
}
