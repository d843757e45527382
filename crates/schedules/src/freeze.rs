//! A checkpoint freezes the memtable under writers, and merges it into the tree.
//!
//! Checked: no commit is lost between the memtable that is frozen and the one that takes over; each snapshot, taken at any
//! point, is a prefix of the commits; a power loss at any point leaves what was acknowledged.

use std::sync::Arc;

use seawall_engine::Background;
use seawall_simulation::SimulatedDisk;
use seawall_sync::thread;

use crate::group_commit::{Sessions, check_loss, check_prefixes, lose_power, session, watch};
use crate::world::{open, shared, small_options};

pub(crate) fn against_writers(seed: u64) {
    let disk = SimulatedDisk::new(seed);
    let database = open(&disk, small_options(Background::Manual));
    let table = database.create_table("t").unwrap();
    let sessions = shared::<Sessions>();
    let writers: Vec<_> = (0..2)
        .map(|name| {
            let (database, table, sessions) = (database.clone(), table.clone(), Arc::clone(&sessions));
            thread::spawn(move || session(&database, &table, &sessions, name, 4))
        })
        .collect();
    let checkpoints = {
        let database = database.clone();
        thread::spawn(move || (0..2).for_each(|_| drop(database.checkpoint().unwrap())))
    };
    let watcher = {
        let (database, table, sessions) = (database.clone(), table.clone(), Arc::clone(&sessions));
        thread::spawn(move || watch(&database, &table, &sessions, 5))
    };
    let power = {
        let (disk, sessions) = (disk.clone(), Arc::clone(&sessions));
        thread::spawn(move || lose_power(&disk, &sessions, seed, seed.wrapping_mul(37) % 2500))
    };
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    checkpoints.join().unwrap();
    let mut seen = watcher.join().unwrap();
    let loss = power.join().unwrap();
    seen.extend(watch(&database, &table, &sessions, 1));
    let commits = sessions.lock().unwrap().commits.clone();
    check_prefixes(&seen, &commits);
    assert_eq!(seen.last().unwrap().1.len(), commits.len(), "every commit is there in the end");
    database.check(&mut |damage| panic!("{damage:?}")).unwrap();
    database.close().unwrap();
    check_loss(&loss, &commits);
}
