//! Which copy of the superblock is durable, whenever a process ends.
#![allow(clippy::unwrap_used, reason = "a test that fails panics")]

use seawall_crash_harness::everywhere::watch;
use seawall_crash_harness::{open, plan, small_options, template};
use seawall_simulation::{PowerLoss, SimulatedDisk};

/// The next store overwrites the other copy, which may be the only durable one.
#[test]
fn a_superblock_left_in_the_cache_is_durable_once_the_database_is_open() {
    let options = small_options();
    let mut seen = 0;
    let sequence = |disk: &SimulatedDisk| {
        let opened = seawall_tree::SuperblockFile::open(disk, seawall_io::OpenMode::Read);
        opened.unwrap().1.sequence
    };
    watch(&template(&options), &options, &plan::short(), |point| {
        if !point.call.contains("sync superblock") {
            return Ok(());
        }
        let disk = point.disk.copy();
        let found = sequence(&disk);
        if sequence(&disk.after_power_loss(PowerLoss::LoseAll)) == found {
            // An open writes the same once more.
            return Ok(());
        }
        let database = open(&disk, &options);
        assert_eq!(sequence(&disk.after_power_loss(PowerLoss::LoseAll)), found);
        disk.crash();
        drop(database);
        seen += 1;
        Ok(())
    })
    .unwrap();
    assert!(seen > 3, "{seen}");
}
