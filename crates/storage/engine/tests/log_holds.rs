//! Who needs the log: it is kept for holders, up to their limits, over crashes and restarts; and what nobody needs goes, by
//! itself, whenever the power goes.
#![allow(clippy::unwrap_used, reason = "a test that fails panics")]

use std::sync::Arc;

use seawall_crash_harness::{environment, open, small_options, template};
use seawall_engine::{
    AtLimit, Background, Database, DatabaseDirectory, Error, HoldKind, HoldLifetime, HoldOptions, OpenMode,
    Options,
};
use seawall_simulation::{PowerLoss, SimulatedDisk};
use seawall_testing::wait_until;
use seawall_types::Lsn;

const SEGMENT_BYTES: u64 = 64 << 10;

fn slot(limit_segments: u64) -> HoldOptions {
    HoldOptions {
        kind: HoldKind::Standby,
        limit_bytes: Some(limit_segments * SEGMENT_BYTES),
        lifetime: HoldLifetime::Permanent,
        ..HoldOptions::default()
    }
}

fn write(database: &Database, segments: u64) {
    let table = database.table("t").or_else(|_| database.create_table("t")).unwrap();
    let until = database.statistics().log.appended.get() + segments * SEGMENT_BYTES;
    let mut row = 0_u32;
    while database.statistics().log.appended.get() < until {
        database.put(&table, (row % 9).to_be_bytes(), [7; 20_000]).unwrap();
        row += 1;
    }
}

fn oldest(database: &Database) -> Lsn {
    database.info().unwrap().segments[0].first_lsn
}

#[test]
fn the_log_is_kept_for_a_holder_and_goes_when_it_moves_on() {
    let options = small_options();
    let database = open(&template(&options), &options);
    write(&database, 2);
    let hold = database.log().hold("archive", HoldOptions::default(), None).unwrap();
    let from = hold.position();
    assert_eq!(from, database.statistics().checkpoints.redo_point);
    write(&database, 20);
    database.checkpoint().unwrap();
    assert!(oldest(&database) <= from);
    let seen = database.statistics();
    assert_eq!((seen.log.holds.len(), seen.log.holds[0].position), (1, from));
    assert_eq!(seen.segments.unneeded, 0);
    hold.advance(seen.checkpoints.redo_point).unwrap();
    assert!(database.statistics().segments.unneeded >= 18);
    write(&database, 1);
    database.checkpoint().unwrap();
    assert!(oldest(&database).get() + SEGMENT_BYTES > seen.checkpoints.redo_point.get());
    // It ends with the handle.
    drop(hold);
    assert!(database.log().holds().unwrap().is_empty());
    database.log().hold("archive", HoldOptions::default(), None).unwrap().release().unwrap();
}

#[test]
fn a_permanent_hold_survives_restarts_and_a_lost_one_says_so_to_whoever_comes_back() {
    let options = small_options();
    let disk = template(&options);
    let database = open(&disk, &options);
    write(&database, 2);
    let hold = database.log().hold("standby b", slot(10), None).unwrap();
    let from = hold.position();
    drop(hold);
    write(&database, 6);
    database.checkpoint().unwrap();
    let disk = disk.after_power_loss(PowerLoss::LoseAll);
    let database = open(&disk, &options);
    assert_eq!(database.log().find_hold("standby b").unwrap().position(), from);
    assert!(oldest(&database) <= from);
    let hold = database.log().find_hold("standby b").unwrap();
    write(&database, 12);
    database.checkpoint().unwrap();
    assert!(oldest(&database) > from, "a lost hold keeps nothing");
    let error = hold.advance(from).unwrap_err();
    assert!(
        matches!(&error, Error::LogHoldLost { name, position, .. } if name == "standby b" && *position == from)
    );
    assert!(error.to_string().contains("Release it"), "{error}");
    let seen = database.statistics();
    assert!(seen.log.holds_lost == 1 && seen.log.holds[0].lost_at.is_some(), "{seen:?}");
    let disk = disk.after_power_loss(PowerLoss::LoseAll);
    let database = open(&disk, &options);
    assert!(matches!(database.log().find_hold("standby b"), Err(Error::LogHoldLost { .. })));
    database.log().release_hold("standby b").unwrap();
    assert!(matches!(database.log().find_hold("standby b"), Err(Error::NoSuchLogHold { .. })));
    assert!(matches!(database.log().hold("standby b", slot(10), Some(from)), Err(Error::LogHold { .. })));
    database.log().hold("standby b", slot(10), None).unwrap();
}

#[test]
fn the_newest_log_is_kept_as_the_options_say() {
    let mut options = small_options();
    options.log.keep_bytes = 8 * SEGMENT_BYTES;
    let database = open(&template(&options), &options);
    write(&database, 20);
    database.checkpoint().unwrap();
    let kept = database.statistics().log.appended.bytes_since(oldest(&database));
    assert!((8 * SEGMENT_BYTES..10 * SEGMENT_BYTES).contains(&kept), "{kept}");
    assert_eq!(database.log().holds().unwrap()[0].options.kind, HoldKind::Keep);
}

/// Segments are removed by the database's own thread: neither the checkpoint nor the close waits for them.
#[test]
fn with_threads_the_log_is_cleaned_up_beside_the_work() {
    let options = Options { background: Background::Threads, ..small_options() };
    let disk = template(&options);
    let database = open(&disk, &options);
    let hold = database.log().hold("archive", HoldOptions::default(), None).unwrap();
    write(&database, 60);
    database.checkpoint().unwrap();
    hold.advance(database.statistics().checkpoints.redo_point).unwrap();
    wait_until("segments to be cleaned up", || database.statistics().segments.unneeded == 0);
    // The last batch is in its sync, perhaps; the next statistics are after it.
    drop(hold);
    database.close().unwrap();
    let names = disk.list_all();
    let segments = names.iter().filter(|entry| entry.bytes == SEGMENT_BYTES && entry.name.len() == 28);
    assert!(segments.count() < 60, "{names:?}");
}

/// What a crash left is cleaned up by the next process, not on the way of opening, and not before both copies of the
/// superblock have the redo point.
#[test]
fn what_a_crash_left_goes_soon_after_the_next_open() {
    let options = small_options();
    let disk = template(&options);
    let database = open(&disk, &options);
    let hold = database.log().hold("backup", HoldOptions::default(), None).unwrap();
    write(&database, 30);
    database.checkpoint().unwrap();
    let needed = database.statistics().checkpoints.redo_point;
    let crashed = disk.after_power_loss(PowerLoss::LoseAll);
    drop(hold);
    // Without threads nothing is removed by opening.
    let same = crashed.copy();
    let reader = open(&same, &options);
    assert_eq!(reader.statistics().segments.removed, 0);
    assert!(oldest(&reader).get() + 20 * SEGMENT_BYTES < needed.get());
    same.crash();
    let options = Options { background: Background::Threads, ..options };
    let database = Database::open(environment(Arc::new(crashed.clone())), options).unwrap();
    wait_until("segments to be cleaned up after a crash", || {
        oldest(&database).get() + SEGMENT_BYTES > needed.get()
    });
    database.close().unwrap();
}

/// Makes, moves and releases holds while segments go; `visit` sees the disk with the power gone in each call, and the position
/// that the permanent hold must not have passed.
fn crash_everywhere(
    start: &SimulatedDisk,
    options: &Options,
    mut visit: impl FnMut(&SimulatedDisk, u64, Lsn),
) -> u64 {
    let mut call = 0;
    loop {
        let disk = start.copy();
        let database = open(&disk, options);
        disk.crash_at(disk.calls() + call);
        let mut needed = Lsn::MAX;
        let outcome = (|| {
            let hold = database.log().hold("slot", slot(1000), None)?;
            needed = hold.position();
            let table = database.table("t")?;
            for row in 0..12_u32 {
                database.put(&table, row.to_be_bytes(), [8; 20_000])?;
            }
            database.checkpoint()?;
            let to = Lsn::new(needed.get() + SEGMENT_BYTES);
            hold.advance(to)?;
            needed = to;
            for row in 0..12_u32 {
                database.put(&table, row.to_be_bytes(), [9; 20_000])?;
            }
            database.checkpoint()?;
            database.log().find_hold("slot").map(drop)
        })();
        disk.crash();
        drop(database);
        visit(&disk, call, needed);
        if outcome.is_ok() {
            return call;
        }
        call += 1;
    }
}

#[test]
fn a_crash_at_any_call_keeps_what_a_permanent_hold_needs() {
    let options = small_options();
    let disk = template(&options);
    let database = open(&disk, &options);
    write(&database, 9);
    database.checkpoint().unwrap();
    drop(database);
    let calls = crash_everywhere(&disk, &options, |disk, call, needed| {
        for loss in [PowerLoss::Random(call), PowerLoss::KeepAll, PowerLoss::LoseAll] {
            let mut after = disk.after_power_loss(loss);
            // And once more in the recovery.
            after.crash_at(after.calls() + call % 23);
            drop(Database::open(environment(Arc::new(after.clone())), options.clone()));
            after = after.after_power_loss(PowerLoss::Random(call));
            let database = open(&after, &options);
            let place = format!("call {call}, {loss:?}");
            match database.log().find_hold("slot") {
                Ok(hold) => {
                    assert!(needed == Lsn::MAX || hold.position() <= needed, "{place}");
                    assert!(oldest(&database) <= hold.position(), "{place}: the log that it needs is gone");
                }
                Err(Error::NoSuchLogHold { .. }) => assert_eq!(needed, Lsn::MAX, "{place}: the hold is gone"),
                Err(error) => panic!("{place}: {error}"),
            }
            write(&database, 3);
            database.checkpoint().unwrap();
            database.check(&mut |damage| panic!("{place}: {damage}")).unwrap();
            after.crash();
        }
    });
    assert!(calls > 60, "{calls} calls");
}

#[test]
fn a_holder_reads_every_record_that_it_was_promised() {
    let options = small_options();
    let database = open(&template(&options), &options);
    write(&database, 1);
    let stays = HoldOptions { at_limit: AtLimit::SlowWriters, ..slot(1000) };
    let hold = database.log().hold("archive", stays, None).unwrap();
    for _ in 0..4 {
        write(&database, 3);
        database.checkpoint().unwrap();
        assert!(oldest(&database) <= hold.position());
    }
    assert!(matches!(
        database.log().hold("archive", stays, None),
        Err(Error::LogHold { message }) if message.contains("already")
    ));
}

#[test]
fn a_reader_sees_who_holds_the_log_and_a_damaged_file_is_refused_with_what_to_do() {
    let options = small_options();
    let disk = template(&options);
    let database = open(&disk, &options);
    write(&database, 2);
    database.log().hold("standby b", slot(10), None).unwrap();
    database.close().unwrap();
    let read_only = Options { mode: OpenMode::ReadOnly, ..options.clone() };
    let reader = open(&disk, &read_only);
    assert_eq!(reader.log().holds().unwrap()[0].name, "standby b");
    assert!(matches!(reader.log().hold("x", slot(1), None), Err(Error::ReadOnly)));
    drop(reader);
    disk.flip_bit("log/holds", 70, 0);
    assert_eq!(open(&disk.copy(), &read_only).log().holds().unwrap().len(), 1, "the other copy has it");
    disk.flip_bit("log/holds", 8192 + 70, 0);
    let error = Database::open(environment(Arc::new(disk.clone())), options.clone()).unwrap_err();
    assert!(error.to_string().contains("log/holds") && error.to_string().contains("remove it"), "{error}");
    let mut found = Vec::new();
    let environment = environment(Arc::new(disk.clone()));
    DatabaseDirectory::at(environment)
        .check(options.clone(), &mut |damage| found.push(damage.to_string()))
        .unwrap();
    assert!(found.iter().any(|damage| damage.contains("log/holds")), "{found:?}");
    disk.remove_file("log/holds");
    assert!(open(&disk, &options).log().holds().unwrap().is_empty());
}

/// `seawall log` beside the database: what a checkpoint passes meanwhile may go, and that is no damage. A hold keeps it.
#[test]
fn log_that_goes_while_it_is_read_elsewhere_is_no_damage() {
    for is_held in [false, true] {
        let scratch = tempfile::tempdir().unwrap();
        let directory = scratch.path().join("db");
        let mut options = small_options();
        options.memory.memtable_bytes = 64 << 20;
        options.checkpoint.log_bytes = 1 << 30;
        let database = Database::open(&directory, options).unwrap();
        write(&database, 80);
        let hold = is_held.then(|| database.log().hold("reader", HoldOptions::default(), None).unwrap());
        let mut records = 0;
        let mut visit = |_| {
            records += 1;
            if records == 1 {
                database.checkpoint().unwrap();
                wait_until("the log to be cleaned up", || database.statistics().segments.unneeded == 0);
            }
            std::ops::ControlFlow::Continue(())
        };
        let read = DatabaseDirectory::at(&directory).log_records(None, None, &mut visit);
        match read {
            Ok(()) => assert!(is_held && records > 80, "{records} records"),
            Err(Error::LogNotKept { lsn, kept_from }) => {
                assert!(!is_held && lsn < kept_from, "{lsn}, {kept_from}");
                assert_eq!(kept_from, database.statistics().checkpoints.redo_point);
            }
            Err(other) => panic!("{other}"),
        }
        drop(hold);
        database.close().unwrap();
    }
}
