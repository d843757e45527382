//! A standby made of the rows of a primary that goes on, and a standby that goes on to a new timeline.
#![allow(clippy::unwrap_used, reason = "a test that fails panics")]

mod common;

use std::sync::Arc;

use common::following::follow;
use common::small_options;
use seawall_crash_harness::{environment, open, template};
use seawall_engine::{
    ArchiveMode, Backup, BackupItem, Database, DatabaseDirectory, Error, HoldKind, HoldLifetime, HoldOptions,
    Restore, RestoreMarker, RestoreOptions, SegmentName, TimelineHistory,
};
use seawall_simulation::{PowerLoss, SeededRandom, SimulatedDisk, seeds};
use seawall_types::{Lsn, TimelineId};

type Rows = Vec<(Vec<u8>, Vec<u8>)>;

fn rows(database: &Database) -> Rows {
    let snapshot = database.snapshot();
    let Ok(table) = snapshot.table("t") else { return Rows::new() };
    let rows = snapshot.range::<&[u8]>(&table, ..);
    rows.map(|row| row.map(|(key, value)| (key.to_vec(), value.to_vec())).unwrap()).collect()
}

fn write(database: &Database, random: &mut SeededRandom) {
    let table = database.open_or_create_table("t").unwrap();
    let length = usize::try_from(random.below(3000)).unwrap();
    database.put(&table, random.below(300).to_be_bytes(), random.bytes(length)).unwrap();
}

/// What changes the catalog, storages and transactions in doubt while a copy is made.
fn disturb(database: &Database, random: &mut SeededRandom) {
    let name = format!("d{}", random.below(3));
    let gid = format!("gid {}", random.below(4));
    let is_there = database.table(&name).is_ok();
    let is_prepared = || database.two_phase().in_doubt().unwrap().iter().any(|prepared| prepared.gid == gid);
    match random.below(6) {
        0 if is_there => {
            database.tables().drop(&name).unwrap();
        }
        1 if is_there => {
            database.tables().truncate(&name).unwrap();
        }
        2 if !is_there => {
            let mut load = database.tables().bulk_load(&name).unwrap();
            for row in 0..random.below(300) {
                load.add(row.to_be_bytes(), random.bytes(200)).unwrap();
            }
            load.finish().unwrap();
        }
        3 if !is_prepared() => {
            let table = database.open_or_create_table("doubtful").unwrap();
            let mut transaction = database.begin();
            transaction.put(&table, gid.as_bytes(), random.bytes(50)).unwrap();
            transaction.prepare(&gid).unwrap();
        }
        4 if is_prepared() => {
            database.two_phase().commit(&gid).unwrap();
        }
        5 if is_prepared() => {
            database.two_phase().rollback(&gid).unwrap();
        }
        _ => {
            let table = database.open_or_create_table(&name).unwrap();
            database.put(&table, random.below(50).to_be_bytes(), random.bytes(100)).unwrap();
        }
    }
}

/// All rows of all tables, and what is in doubt.
fn everything(database: &Database) -> Vec<(String, Rows)> {
    let snapshot = database.snapshot();
    let mut found = Vec::new();
    for name in ["t", "d0", "d1", "d2", "doubtful"] {
        let Ok(table) = snapshot.table(name) else { continue };
        let rows = snapshot.range::<&[u8]>(&table, ..);
        let rows = rows.map(|row| row.map(|(key, value)| (key.to_vec(), value.to_vec())).unwrap());
        found.push((name.to_owned(), rows.collect()));
    }
    let in_doubt = database.two_phase().in_doubt().unwrap();
    found.extend(in_doubt.into_iter().map(|prepared| (prepared.gid, Rows::new())));
    found
}

fn slot() -> HoldOptions {
    HoldOptions { kind: HoldKind::Standby, lifetime: HoldLifetime::Permanent, ..HoldOptions::default() }
}

fn primary() -> Database {
    let primary = open(&template(&small_options()), &small_options());
    drop(primary.log().hold("standby", slot(), None).unwrap());
    primary
}

/// Copies a primary that is written meanwhile; where the copy is whole.
fn copy(
    primary: &Database,
    disk: &SimulatedDisk,
    random: &mut SeededRandom,
    name: &str,
) -> Result<Lsn, Error> {
    primary.checkpoint()?;
    let mut backup = Backup::begin_copy(primary, name)?;
    let base = backup.base().clone();
    let timeline = primary.log().timeline_history(primary.log().timeline())?.timeline_at(base.redo_point);
    let history = primary.log().timeline_history(timeline)?;
    let marker = RestoreMarker {
        asked_for: "a copy".to_owned(),
        backup: name.to_owned(),
        timeline,
        new_timeline: None,
    };
    let options = RestoreOptions {
        database: small_options(),
        graft_bytes: 64 << 10,
        archive_mode: ArchiveMode::Preserve,
    };
    let place = environment(Arc::new(disk.clone()));
    let mut restore = Restore::begin(place, options, base.clone(), &history, base.first_new_table, &marker)?;
    let mut head = vec![0; usize::try_from(base.redo_point.get() % base.segment_bytes).unwrap()];
    let number = base.redo_point.get() / base.segment_bytes;
    primary.log().read_segment(SegmentName { number, timeline }, 0, &mut head)?;
    restore.begin_log(&history, &head)?;
    for (key, value) in backup.system_rows() {
        restore.push(key, value)?;
    }
    let mut next = Some(backup.first_key());
    while let Some(from) = next {
        for _row in 0..3 {
            write(primary, random);
            disturb(primary, random);
        }
        if random.below(4) == 0 {
            primary.checkpoint()?;
        }
        let mut pushed = Ok(());
        let range = backup.read_range(&from, 16 << 10, &mut |item| {
            if let BackupItem::Row { key, value } = item
                && pushed.is_ok()
            {
                pushed = restore.push(key, value);
            }
        })?;
        pushed?;
        next = range.next;
    }
    let end = backup.finish()?;
    restore.finish_copy(end)?;
    Ok(end.end)
}

/// Receives, syncs and applies what `from` has on the timeline that `standby` is on.
fn receive(from: &Database, standby: &Database) -> Result<(), Error> {
    let place = standby.standby().unwrap();
    let mut stream = from.log().stream(place.wanted()?)?;
    let mut buffer = vec![0; 70_000];
    loop {
        let piece = stream.read(&mut buffer).unwrap();
        if piece.bytes == 0 || piece.timeline != standby.log().timeline() {
            break;
        }
        place.receive(piece.start, &buffer[..piece.bytes])?;
    }
    place.sync()?;
    place.apply().map(drop)
}

#[test]
fn a_copy_of_a_primary_that_goes_on_becomes_a_standby() {
    for seed in seeds(10) {
        let mut random = SeededRandom::new(seed);
        let primary = primary();
        for _row in 0..400 {
            write(&primary, &mut random);
            disturb(&primary, &mut random);
        }
        let disk = SimulatedDisk::new(seed);
        let end = copy(&primary, &disk, &mut random, "copy").unwrap();
        // It is no database yet.
        let refused = Database::open(environment(Arc::new(disk.clone())), small_options()).unwrap_err();
        assert!(matches!(refused, Error::CopyNotWhole { .. }), "{refused}");
        let standby = follow(&disk, &small_options());
        assert_eq!(standby.standby().unwrap().copied_until(), Some(end));
        let refused = standby.standby().unwrap().promote("too early").unwrap_err();
        assert!(matches!(refused, Error::CopyNotWhole { .. }), "{refused}");
        receive(&primary, &standby).unwrap();
        assert_eq!(standby.standby().unwrap().copied_until(), None);
        for _row in 0..50 {
            write(&primary, &mut random);
            disturb(&primary, &mut random);
        }
        // The standby's own checkpoints, and a restart.
        receive(&primary, &standby).unwrap();
        standby.standby().unwrap().checkpoint().unwrap();
        let left = disk.after_power_loss(PowerLoss::Random(seed));
        disk.crash();
        let standby = follow(&left, &small_options());
        receive(&primary, &standby).unwrap();
        assert_eq!(everything(&standby), everything(&primary), "seed {seed}");
        standby.standby().unwrap().promote("test").unwrap();
        write(&standby, &mut random);
        standby.check(&mut |damage| panic!("seed {seed}: {damage}")).unwrap();
    }
}

/// Whatever call is the last one, the next copy begins anew or goes on following.
#[test]
fn a_copy_that_is_cut_short_is_made_anew() {
    let mut random = SeededRandom::new(1);
    let primary = primary();
    for _row in 0..100 {
        write(&primary, &mut random);
    }
    let mut call = 0;
    loop {
        let disk = SimulatedDisk::new(call);
        disk.crash_at(call);
        let name = format!("copy_{call}");
        let cut_short = copy(&primary, &disk, &mut random, &name);
        let left = disk.after_power_loss(PowerLoss::Random(call));
        let has_crashed = disk.crashed();
        assert!(has_crashed || cut_short.is_ok(), "{cut_short:?}");
        let opened = DatabaseDirectory::at(environment(Arc::new(left.clone()))).follow(small_options());
        let standby = match opened {
            Ok(standby) => standby,
            Err(error) => {
                assert!(
                    matches!(error, Error::Restoring { .. } | Error::NoDatabase { .. }),
                    "{call}: {error}"
                );
                copy(&primary, &left, &mut random, &format!("again_{call}"))
                    .unwrap_or_else(|error| panic!("{call}: {error}"));
                follow(&left, &small_options())
            }
        };
        receive(&primary, &standby).unwrap();
        assert_eq!(standby.standby().unwrap().copied_until(), None);
        assert_eq!(everything(&standby), everything(&primary), "{call}");
        if !has_crashed {
            return;
        }
        call += 1 + random.below(5);
    }
}

fn history_of(database: &Database) -> TimelineHistory {
    database.log().timeline_history(database.log().timeline()).unwrap()
}

#[test]
fn a_standby_follows_another_one_that_was_promoted() {
    for seed in seeds(10) {
        let mut random = SeededRandom::new(seed);
        let primary = primary();
        let disks = [0, 1].map(|number| SimulatedDisk::new(seed + number));
        for (disk, name) in disks.iter().zip(["first", "second"]) {
            copy(&primary, disk, &mut random, name).unwrap();
        }
        let first = follow(&disks[0], &small_options());
        let mut second = follow(&disks[1], &small_options());
        // A slot of a standby: it keeps its log for the one behind it.
        let hold = first.log().hold("second", slot(), None).unwrap();
        receive(&primary, &first).unwrap();
        receive(&primary, &second).unwrap();
        for _row in 0..20 {
            write(&primary, &mut random);
        }
        receive(&primary, &first).unwrap();
        first.standby().unwrap().promote("test").unwrap();
        for _row in 0..20 {
            write(&first, &mut random);
        }
        let history = history_of(&first);
        // It lacks the end of the old timeline.
        let fork = second.standby().unwrap().left_for(&history).unwrap().unwrap();
        let refused = second.standby().unwrap().follow_timeline(&history).unwrap_err();
        assert!(matches!(refused, Error::Log { .. }), "{refused}");
        receive(&first, &second).unwrap();
        assert_eq!(second.log().flushed(), fork);
        if random.below(2) == 0 {
            let left = disks[1].after_power_loss(PowerLoss::Random(seed));
            disks[1].crash();
            second = follow(&left, &small_options());
        }
        let before = second.snapshot();
        second.standby().unwrap().follow_timeline(&history).unwrap();
        receive(&first, &second).unwrap();
        assert_eq!(second.log().timeline(), TimelineId::new(2).unwrap());
        assert_eq!(everything(&second), everything(&first), "seed {seed}");
        drop(before);
        assert!(hold.position() <= fork);
        assert!(first.log().find_hold("second").is_ok());
        // The former primary's history is not theirs any more.
        let refused = second.standby().unwrap().left_for(&TimelineHistory::first()).unwrap_err();
        assert!(matches!(refused, Error::OtherHistory { .. }), "{refused}");
        second.standby().unwrap().promote("test").unwrap();
        write(&second, &mut random);
        second.check(&mut |damage| panic!("seed {seed}: {damage}")).unwrap();
    }
}

#[test]
fn a_standby_beyond_the_fork_is_told() {
    let mut random = SeededRandom::new(1);
    let primary = primary();
    let disks = [0, 1].map(SimulatedDisk::new);
    for (disk, name) in disks.iter().zip(["first", "second"]) {
        copy(&primary, disk, &mut random, name).unwrap();
    }
    let [first, second] = disks.each_ref().map(|disk| follow(disk, &small_options()));
    receive(&primary, &first).unwrap();
    write(&primary, &mut random);
    receive(&primary, &second).unwrap();
    first.standby().unwrap().promote("test").unwrap();
    let refused = second.standby().unwrap().follow_timeline(&history_of(&first)).unwrap_err();
    assert!(matches!(refused, Error::BeyondFork { .. }), "{refused}");
    // It follows on where it did.
    write(&primary, &mut random);
    receive(&primary, &second).unwrap();
    assert_eq!(rows(&second), rows(&primary));
}

/// A new timeline is followed or not, whatever call is the last one.
#[test]
fn power_losses_while_a_timeline_is_followed() {
    let mut random = SeededRandom::new(7);
    let mut call = 0;
    loop {
        let primary = primary();
        let disks = [0, 1].map(|number| SimulatedDisk::new(call * 2 + number));
        for (disk, name) in disks.iter().zip(["first", "second"]) {
            copy(&primary, disk, &mut random, name).unwrap();
        }
        let [first, second] = disks.each_ref().map(|disk| follow(disk, &small_options()));
        receive(&primary, &first).unwrap();
        receive(&primary, &second).unwrap();
        first.standby().unwrap().promote("test").unwrap();
        write(&first, &mut random);
        let history = history_of(&first);
        disks[1].crash_at(disks[1].calls() + call);
        let followed = second.standby().unwrap().follow_timeline(&history);
        let has_crashed = disks[1].crashed();
        assert!(has_crashed || followed.is_ok(), "{followed:?}");
        let left = disks[1].after_power_loss(PowerLoss::Random(call));
        disks[1].crash();
        let second = follow(&left, &small_options());
        if second.log().timeline() != history.timeline {
            second.standby().unwrap().follow_timeline(&history).unwrap();
        }
        receive(&first, &second).unwrap();
        assert_eq!(rows(&second), rows(&first), "call {call}");
        if !has_crashed {
            return;
        }
        call += 1;
    }
}
