//! A checkpoint publishes a chunk of changed pages under readers who take no lock.
//!
//! Each round is one transaction that adds rows between those that are there, so that leaves split, and writes some of the old
//! ones again. Rows of earlier rounds are in the tree only: a reader who takes pages of two trees for one misses some of them.
//! Checked: a snapshot, by scans or by single reads, sees every row of the rounds up to it, and none of later ones: those are looked up in
//! vain, and then there.

use std::sync::Arc;

use seawall_engine::{Background, Database, Snapshot, Table};
use seawall_simulation::SimulatedDisk;
use seawall_sync::thread;
use seawall_types::Lsn;

use crate::world::{Shared, open, shared, small_options, wait_a_while};

const ROWS: u8 = 20;
const ROUNDS: u8 = 5;
const ROW_BYTES: usize = 700;
/// Room for eight pages, of which the table has more, and for filters.
const FULL_CACHE_BYTES: u64 = 40_000;

/// The stamps of the rounds.
type Rounds = Shared<Vec<Lsn>>;

#[derive(Debug)]
struct Seen {
    lsn: Lsn,
    /// Of each round, how many of its rows.
    rows: [u8; ROUNDS as usize],
    /// By which round the row that all rounds write was written.
    hot: u8,
}

pub(crate) fn against_readers(seed: u64) {
    let disk = SimulatedDisk::new(seed);
    // As small as it can be: readers find pages in the file, too. Or full, so that leaves which were read in vain have filters.
    let cache_bytes = [0, FULL_CACHE_BYTES, 1 << 20][usize::try_from(seed % 3).unwrap()];
    let options = small_options(Background::Manual).with(|options| options.memory.cache_bytes = cache_bytes);
    let database = open(&disk, options);
    let table = database.create_table("t").unwrap();
    let rounds: Rounds = shared();
    write_round(&database, &table, 0, &rounds);
    database.checkpoint().unwrap();
    let writer = {
        let (database, table, rounds) = (database.clone(), table.clone(), Arc::clone(&rounds));
        thread::spawn(move || {
            for round in 1..ROUNDS {
                write_round(&database, &table, round, &rounds);
                database.checkpoint().unwrap();
            }
        })
    };
    let readers: Vec<_> = (0..2)
        .map(|reader| {
            let (database, table) = (database.clone(), table.clone());
            thread::spawn(move || {
                // Pages come into the cache at any moment of a checkpoint.
                wait_a_while(seed.wrapping_mul(41 + reader) % 2000);
                (0..5).map(|_| look(&database, &table, reader == 0)).collect::<Vec<_>>()
            })
        })
        .collect();
    let mut seen: Vec<_> = readers.into_iter().flat_map(|reader| reader.join().unwrap()).collect();
    writer.join().unwrap();
    // Without memtables in front of it: a page that was put into the cache too late is still there.
    seen.extend([true, false].map(|scans| look(&database, &table, scans)));
    check(&seen, &rounds.lock().unwrap());
    database.check(&mut |damage| panic!("{damage:?}")).unwrap();
    database.close().unwrap();
}

fn write_round(database: &Database, table: &Table, round: u8, rounds: &Rounds) {
    let mut transaction = database.begin();
    for row in 0..ROWS {
        transaction.put(table, [row, round], [round; ROW_BYTES]).unwrap();
    }
    transaction.put(table, b"hot", [round]).unwrap();
    let stamp = transaction.commit().unwrap();
    rounds.lock().unwrap().push(stamp);
}

fn look(database: &Database, table: &Table, scans: bool) -> Seen {
    let snapshot = database.snapshot();
    let mut seen = Seen { lsn: snapshot.lsn(), rows: [0; ROUNDS as usize], hot: 0 };
    if scans {
        scan(&snapshot, table, &mut seen)
    } else {
        look_up(&snapshot, table, &mut seen)
    }
    seen
}

fn scan(snapshot: &Snapshot, table: &Table, seen: &mut Seen) {
    for row in snapshot.rows(table) {
        let (key, value) = row.unwrap();
        if key == b"hot" {
            seen.hot = value[0];
        } else {
            assert_eq!(key[1], value[0]);
            seen.rows[usize::from(key[1])] += 1;
        }
    }
}

fn look_up(snapshot: &Snapshot, table: &Table, seen: &mut Seen) {
    for (row, round) in (0..ROWS).flat_map(|row| (0..ROUNDS).map(move |round| (row, round))) {
        let is_there = snapshot.get(table, [row, round]).unwrap().is_some();
        seen.rows[usize::from(round)] += u8::from(is_there);
    }
    seen.hot = snapshot.get(table, b"hot").unwrap().unwrap()[0];
}

fn check(all: &[Seen], rounds: &[Lsn]) {
    for seen in all {
        let last = rounds.iter().rposition(|stamp| *stamp <= seen.lsn).unwrap();
        let wanted: Vec<_> = (0..rounds.len()).map(|round| if round <= last { ROWS } else { 0 }).collect();
        assert_eq!(seen.rows[..], wanted, "{seen:?}, by {rounds:?}");
        assert_eq!(usize::from(seen.hot), last, "{seen:?}, by {rounds:?}");
    }
}
