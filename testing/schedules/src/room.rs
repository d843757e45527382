//! Writers that wait for room in the memtable, and the checkpoints that make it.
//!
//! No wait ends by its timeout here, so whoever is not woken makes the run a deadlock: the log's flusher, the thread of
//! checkpoints, writers. Checked besides: every row is there.

use seawall_engine::{Background, Durability};
use seawall_simulation::SimulatedDisk;
use seawall_sync::thread;

use crate::world::{open, small_options};

const WRITERS: u8 = 2;
const ROWS: u8 = 9;
const ROW_BYTES: usize = 60_000;

pub(crate) fn in_the_memtable(seed: u64) {
    let disk = SimulatedDisk::new(seed);
    let mut options = small_options(Background::Threads);
    options.checkpoint.chunk_bytes = 1 << 20;
    let database = open(&disk, options);
    let table = database.create_table("t").unwrap();
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let (database, table) = (database.clone(), table.clone());
            thread::spawn(move || {
                for row in 0..ROWS {
                    let durability = if row % 4 == 0 { Durability::Sync } else { Durability::Async };
                    database.with(durability).put(&table, [writer, row], [row; ROW_BYTES]).unwrap();
                }
            })
        })
        .collect();
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    let count =
        database.snapshot().rows(&table).filter(|row| row.as_ref().unwrap().1.len() == ROW_BYTES).count();
    assert_eq!(count, usize::from(WRITERS * ROWS));
    database.close().unwrap();
}
