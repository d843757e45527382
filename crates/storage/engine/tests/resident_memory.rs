//! What the process takes, by the kernel's count: a process of its own, so that no other test is in the figures.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that fails panics")]

mod common;

use seawall_simulation::SimulatedDisk;

fn resident_bytes() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

/// Each memtable has a filter and a directory for as many rows as fit into it, and rows are spread over all of them.
#[test]
fn a_long_snapshot_beside_a_trickle_of_writes_takes_what_the_statistics_say() {
    let mut options = common::small_options();
    options.memory.memtable_bytes = 256 << 20;
    let database = common::try_open(&SimulatedDisk::new(1), options).unwrap();
    let table = database.create_table("t").unwrap();
    let write = |round: u64| {
        let mut transaction = database.begin();
        for row in 0..100 {
            transaction.put(&table, (round * 100 + row).to_be_bytes(), round.to_be_bytes()).unwrap();
        }
        transaction.commit().unwrap();
        database.checkpoint().unwrap();
    };
    (0..4).for_each(write);
    let before = resident_bytes();
    let snapshot = database.snapshot();
    (4..304).for_each(write);
    let statistics = database.statistics();
    let taken = resident_bytes().saturating_sub(before);
    let told = statistics.snapshots.memory_bytes;
    // The simulated disk holds the files of the database in memory, some ten mebibytes.
    assert!(taken < told + (64 << 20), "{taken} bytes taken, {told} by the statistics");
    assert!(told < 16 << 20, "{told} bytes for 30,000 short rows");
    assert_eq!(snapshot.get(&table, 500_u64.to_be_bytes()).unwrap(), None);
    assert_eq!(snapshot.get(&table, 399_u64.to_be_bytes()).unwrap().unwrap(), 3_u64.to_be_bytes());
}
