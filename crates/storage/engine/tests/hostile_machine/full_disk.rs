//! The disk is full where `faults` does not look: while a database is made, while it recovers, and while it closes.

use seawall_engine::{Database, Error, OpenMode, Options, PageProtection};
use seawall_simulation::{PowerLoss, SimulatedClock, SimulatedDisk};

use super::{check_clean, check_rows, open_at, put_rows, small_options, try_open_at};

fn check_refusal(error: &Error) {
    let message = error.to_string();
    assert!(matches!(error, Error::DiskFull { .. }), "{error:?}");
    assert!(message.contains("the disk is full") && message.contains("free some space"), "{message}");
}

/// Opens with room for one more block each time, until it works; how often it was refused.
fn open_with_more_and_more_room(disk: &SimulatedDisk, options: &Options) -> (Database, u32) {
    let clock = SimulatedClock::default();
    let mut refusals = 0;
    let mut capacity = disk.allocated_bytes();
    loop {
        disk.set_capacity(Some(capacity));
        match try_open_at(disk, &clock, options) {
            Ok(database) => return (database, refusals),
            Err(error) => check_refusal(&error),
        }
        refusals += 1;
        capacity = capacity.max(disk.allocated_bytes()) + 4096;
        assert!(refusals < 500, "it never opens");
    }
}

#[test]
fn a_database_is_made_as_soon_as_there_is_room_and_says_so_before() {
    for page_protection in [PageProtection::RecoveryFile, PageProtection::LogImages] {
        let mut options = small_options();
        options.checkpoint.page_protection = page_protection;
        let disk = SimulatedDisk::new(1);
        let (database, refusals) = open_with_more_and_more_room(&disk, &options);
        // Superblock, page file, recovery file, segments, both pending files.
        assert!(refusals > 30, "{refusals}");
        disk.set_capacity(None);
        let table = database.create_table("t").unwrap();
        put_rows(&database, &table, 0..10);
        check_rows(&database, 0..10);
        database.close().unwrap();
        check_rows(&open_at(&disk, &SimulatedClock::default(), &options), 0..10);
    }
}

/// A database of which the power has taken a part in the middle of a checkpoint, with log behind its redo point.
fn crashed_in_a_checkpoint(options: &Options, call: u64) -> SimulatedDisk {
    let (disk, clock) = (SimulatedDisk::new(call), SimulatedClock::default());
    let database = open_at(&disk, &clock, options);
    let table = database.create_table("t").unwrap();
    put_rows(&database, &table, 0..1_500);
    disk.crash_at(disk.calls() + call);
    drop(database.checkpoint());
    disk.crash();
    disk.after_power_loss(PowerLoss::Random(call))
}

/// Recovery writes: a chunk again, segments that are missing, pending files, the superblock. What it cannot write for lack
/// of room it writes the next time.
#[test]
fn a_recovery_on_a_full_disk_is_refused_or_whole_and_goes_on_when_there_is_room() {
    let mut refusals = 0;
    for page_protection in [PageProtection::RecoveryFile, PageProtection::LogImages] {
        let mut options = small_options();
        options.checkpoint.page_protection = page_protection;
        for call in (0..60).step_by(3) {
            let crashed = crashed_in_a_checkpoint(&options, call);
            // The latter are made again.
            for lost in ["none", "log/pending.1", "log/pending.2"] {
                let disk = crashed.copy();
                disk.remove_file(lost);
                let clock = SimulatedClock::default();
                if lost == "none" {
                    // A reader needs no room at all.
                    disk.set_capacity(Some(0));
                    let read_only = Options { mode: OpenMode::ReadOnly, ..options.clone() };
                    check_rows(&open_at(&disk.copy(), &clock, &read_only), 0..1_500);
                }
                let (database, refused) = open_with_more_and_more_room(&disk, &options);
                refusals += refused;
                check_rows(&database, 0..1_500);
                disk.set_capacity(None);
                let table = database.table("t").unwrap();
                put_rows(&database, &table, 1_500..1_600);
                database.checkpoint().unwrap();
                check_clean(&database);
                let again = disk.after_power_loss(PowerLoss::LoseAll);
                check_rows(&open_at(&again, &clock, &options), 0..1_600);
            }
        }
    }
    println!("{refusals} refusals");
    assert!(refusals > 20, "{refusals}");
}

#[test]
fn a_database_on_a_full_disk_closes_and_everything_is_there() {
    let options = small_options();
    let (disk, clock) = (SimulatedDisk::new(3), SimulatedClock::default());
    let database = open_at(&disk, &clock, &options);
    let table = database.create_table("t").unwrap();
    let mut rows = 0;
    disk.set_capacity(Some(disk.allocated_bytes()));
    loop {
        match database.put(&table, rows_key(rows), super::value(rows)) {
            Ok(_) => rows += 1,
            Err(error) => break check_refusal(&error),
        }
    }
    assert!(rows > 100, "{rows}");
    match database.close() {
        Ok(()) => {}
        Err(error) => check_refusal(&error),
    }
    let (database, _) = open_with_more_and_more_room(&disk, &options);
    check_rows(&database, 0..rows);
    check_clean(&database);
}

fn rows_key(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}
