//! A checkpoint freezes the memtable under writers, and merges it into the tree.
//!
//! Checked: no commit and no prepare is lost between the memtable that is frozen and the one that takes over; each snapshot,
//! taken at any point, is a prefix of the commits; a power loss at any point leaves what was acknowledged.

use std::sync::Arc;

use seawall_engine::{Background, Database};
use seawall_simulation::SimulatedDisk;
use seawall_sync::thread;

use crate::group_commit::Sessions;
use crate::world::{Shared, open, power_loss, shared, small_options, wait_a_while};

pub(crate) fn against_writers(seed: u64) {
    let sessions = Sessions::open(seed, small_options(Background::Manual));
    let writers: Vec<_> = (0..2)
        .map(|name| {
            let sessions = sessions.clone();
            thread::spawn(move || sessions.write(name, 4))
        })
        .collect();
    let checkpoints = {
        let database = sessions.database.clone();
        thread::spawn(move || {
            for _ in 0..2 {
                database.checkpoint().unwrap();
            }
        })
    };
    let watcher = {
        let sessions = sessions.clone();
        thread::spawn(move || sessions.watch(5))
    };
    let power = {
        let sessions = sessions.clone();
        thread::spawn(move || sessions.lose_power(seed.wrapping_mul(37) % 2500))
    };
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    checkpoints.join().unwrap();
    power.join().unwrap();
    sessions.check(&watcher.join().unwrap());
}

/// Numbers of the transactions for which a call returned, or was begun.
#[derive(Clone, Debug, Default)]
struct Told {
    prepared: Vec<u8>,
    to_be_decided: Vec<u8>,
    decided: Vec<u8>,
}

#[derive(Debug, Default)]
struct TwoPhase {
    told: Told,
    losses: Vec<(Told, SimulatedDisk)>,
}

impl TwoPhase {
    fn lose_power(&mut self, disk: &SimulatedDisk, seed: u64) {
        self.losses.push((self.told.clone(), power_loss(disk, seed)));
    }
}

/// What is in doubt goes into the tree with the checkpoint whose freeze comes after its prepare, and with no other.
pub(crate) fn against_prepared_transactions(seed: u64) {
    let disk = SimulatedDisk::new(seed);
    let database = open(&disk, small_options(Background::Manual));
    database.create_table("t").unwrap();
    let world = shared::<TwoPhase>();
    let writers: Vec<_> = (0..2_u8)
        .map(|writer| {
            let (database, world) = (database.clone(), Arc::clone(&world));
            thread::spawn(move || (0..2).for_each(|number| run(&database, &world, writer * 2 + number)))
        })
        .collect();
    let checkpoints = {
        let (database, disk, world) = (database.clone(), disk.clone(), Arc::clone(&world));
        thread::spawn(move || {
            for _ in 0..2 {
                database.checkpoint().unwrap();
                world.lock().unwrap().lose_power(&disk, seed);
            }
        })
    };
    wait_a_while(seed.wrapping_mul(37) % 2500);
    world.lock().unwrap().lose_power(&disk, seed);
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    checkpoints.join().unwrap();
    let mut world = world.lock().unwrap();
    world.lose_power(&disk, seed);
    drop(database);
    world.losses.iter().for_each(|(told, disk)| check(told, disk));
}

/// Prepares a transaction; every other one is committed, too.
fn run(database: &Database, world: &Shared<TwoPhase>, number: u8) {
    let table = database.table("t").unwrap();
    let mut transaction = database.begin();
    transaction.put(&table, [number], [number]).unwrap();
    transaction.prepare(&number.to_string()).unwrap();
    world.lock().unwrap().told.prepared.push(number);
    if number.is_multiple_of(2) {
        world.lock().unwrap().told.to_be_decided.push(number);
        database.two_phase().commit(&number.to_string()).unwrap();
        world.lock().unwrap().told.decided.push(number);
    }
}

fn check(told: &Told, disk: &SimulatedDisk) {
    let database = open(disk, small_options(Background::Manual));
    let table = database.table("t").unwrap();
    let in_doubt: Vec<_> = database.two_phase().in_doubt().unwrap().into_iter().map(|one| one.gid).collect();
    for number in &told.prepared {
        let is_in_doubt = in_doubt.contains(&number.to_string());
        let is_there = database.get(&table, [*number]).unwrap().is_some();
        assert!(is_in_doubt != is_there, "{number}: in doubt {in_doubt:?}, after {told:?}");
        assert!(is_in_doubt || told.to_be_decided.contains(number), "{number} was decided by nobody");
        assert!(is_there || !told.decided.contains(number), "the commit of {number} is lost");
    }
    database.check(&mut |damage| panic!("{damage:?}")).unwrap();
    database.close().unwrap();
}
