//! A standby's directory is made from a primary that is served.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use seawall_engine::{Database, DatabaseDirectory, Environment, Options, VALUE_BYTES_MAX};
use seawall_io::{Clock, SystemClock};
use seawall_replication::{Follower, Replication, UpstreamSettings, bootstrap};
use seawall_server::UpstreamDial;
use seawall_testing::wait_until;
use seawall_types::Lsn;

use crate::primary::{Primary, options};

const LIMIT: Duration = Duration::from_secs(120);

fn settings(primary: &Primary) -> UpstreamSettings {
    let port = primary.served.port();
    format!("host=127.0.0.1 port={port} user=postgres slot=copied").parse().unwrap()
}

/// Copies the primary; the directory may be followed with then.
fn copy(primary: &Primary, into: &Path, options: &Options) {
    let settings = settings(primary);
    let dial = UpstreamDial::new(settings.clone()).unwrap();
    bootstrap(&settings, &dial, &Environment::from(into), options, &mut |_| ()).unwrap();
}

/// Follows until all is applied that the primary has now.
fn catch_up(primary: &Primary, standby: &Database) {
    let settings = settings(primary);
    let dial = Box::new(UpstreamDial::new(settings.clone()).unwrap());
    let now_micros = || SystemClock.wall_micros();
    let replication = Replication::new(standby.clone());
    let follower = Follower::start(replication, settings, dial, None, now_micros, Box::new(|| {})).unwrap();
    let end = primary.sql.engine.log().flushed();
    standby.standby().unwrap().wait_applied(end, LIMIT).unwrap();
    follower.end();
}

fn position(primary: &Primary) -> Lsn {
    primary.sql.replication.slot("copied").unwrap().position
}

/// What is to be logged from here on begins a segment behind the one that recovery needs.
fn fill_segments(database: &Database) {
    let table = database.open_or_create_table("filled").unwrap();
    for row in 0..8_u8 {
        database.put(&table, [row], vec![row; 1 << 20]).unwrap();
    }
}

#[test]
fn a_slot_that_has_come_further_than_the_copy_is_set_back() {
    let directory = tempfile::tempdir().unwrap();
    let primary = Primary::over(Database::open(directory.path().join("data"), options()).unwrap());
    let engine = primary.sql.engine.clone();
    fill_segments(&engine);
    // Behind the last commit, where the redo point of the copy will be.
    engine.log().create_restore_point("behind").unwrap();
    // The slot of a standby that is gone, which had everything.
    primary.sql.replication.create_slot("copied", false).unwrap();
    let used = primary.sql.replication.use_slot("copied", 1).unwrap();
    used.advance(engine.log().flushed()).unwrap();
    drop(used);
    let before = position(&primary);
    let copied = directory.path().join("copied");
    copy(&primary, &copied, &options());
    assert!(position(&primary) < before, "{} {before}", position(&primary));
    // Nothing that the copy needs goes now.
    fill_segments(&engine);
    engine.checkpoint().unwrap();
    fill_segments(&engine);
    engine.checkpoint().unwrap();
    let standby = DatabaseDirectory::at(&copied).follow(options()).unwrap();
    catch_up(&primary, &standby);
    wait_until("the copy is whole", || standby.standby().unwrap().copied_until().is_none());
    standby.close().unwrap();
    primary.close();
}

#[test]
fn the_longest_value_gets_through_a_copy_and_a_stream() {
    let directory = tempfile::tempdir().unwrap();
    let mut options = options();
    options.memory.memtable_bytes = 512 << 20;
    let primary = Primary::over(Database::open(directory.path().join("data"), options.clone()).unwrap());
    let engine = primary.sql.engine.clone();
    let table = engine.create_table("longest").unwrap();
    let value = vec![7; VALUE_BYTES_MAX];
    // Others share its message.
    for row in 0..200_u8 {
        engine.put(&table, [row], vec![row; 1000]).unwrap();
    }
    engine.put(&table, [200], &value).unwrap();
    let copied = directory.path().join("copied");
    copy(&primary, &copied, &options);
    engine.put(&table, [201], &value).unwrap();
    let standby = DatabaseDirectory::at(&copied).follow(options).unwrap();
    catch_up(&primary, &standby);
    let table = standby.table("longest").unwrap();
    for row in [200, 201] {
        assert!(standby.snapshot().get(&table, [row]).unwrap().as_deref() == Some(&value[..]), "{row}");
    }
    standby.close().unwrap();
    primary.close();
}

/// It may be there to try something out, and its standby is there for no more.
#[test]
fn a_copy_of_what_may_not_archive_may_not_either() {
    for is_off in [true, false] {
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path().join("data");
        Database::open(&data, options()).unwrap().close().unwrap();
        if is_off {
            DatabaseDirectory::at(&data).forbid_archiving().unwrap();
        }
        let primary = Primary::over(Database::open(&data, options()).unwrap());
        let copied = directory.path().join("copied");
        copy(&primary, &copied, &options());
        assert_eq!(DatabaseDirectory::at(&copied).is_archiving_off().unwrap(), is_off);
        primary.close();
    }
}

/// A standby that comes back too late is told what to do, and doing that helps.
#[test]
fn a_slot_that_keeps_too_much_is_lost_and_its_standby_is_made_anew() {
    let directory = tempfile::tempdir().unwrap();
    let primary = Primary::over(Database::open(directory.path().join("data"), options()).unwrap());
    let engine = primary.sql.engine.clone();
    let copied = directory.path().join("copied");
    copy(&primary, &copied, &options());
    let standby = DatabaseDirectory::at(&copied).follow(options()).unwrap();
    catch_up(&primary, &standby);
    let slot = || primary.sql.replication.slot("copied").unwrap();
    assert_eq!((slot().is_lost, slot().safe_bytes), (false, None));

    // The limit is for slots that there are, too.
    primary.sql.replication.limit_slots(Some(4 << 20)).unwrap();
    assert!(slot().safe_bytes.is_some_and(|bytes| (1..=4 << 20).contains(&bytes)), "{:?}", slot());
    fill_segments(&engine);
    assert!(slot().is_lost || slot().safe_bytes.is_some_and(|bytes| bytes < 0), "{:?}", slot());
    engine.checkpoint().unwrap();
    wait_until("the slot is lost", || slot().is_lost);
    assert_eq!(slot().safe_bytes, None);

    let settings = settings(&primary);
    let dial = Box::new(UpstreamDial::new(settings.clone()).unwrap());
    let replication = Replication::new(standby.clone());
    let now_micros = || SystemClock.wall_micros();
    let follower =
        Follower::start(Arc::clone(&replication), settings, dial, None, now_micros, Box::new(|| {})).unwrap();
    let told = || replication.receiver().and_then(|receiver| receiver.last_error).unwrap_or_default();
    wait_until("the standby is told", || told().starts_with("the slot copied is lost: "));
    assert!(told().contains("empty its directory"), "{}", told());
    follower.end();
    standby.close().unwrap();

    std::fs::remove_dir_all(&copied).unwrap();
    copy(&primary, &copied, &options());
    assert!(!slot().is_lost);
    let standby = DatabaseDirectory::at(&copied).follow(options()).unwrap();
    catch_up(&primary, &standby);
    wait_until("the copy is whole", || standby.standby().unwrap().copied_until().is_none());
    standby.close().unwrap();
    primary.close();
}
