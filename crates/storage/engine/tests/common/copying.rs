//! A standby made of the rows of a primary that goes on, on simulated disks.

use std::sync::Arc;

use seawall_crash_harness::{environment, open, template};
use seawall_engine::{
    ArchiveMode, Backup, BackupItem, Database, Error, HoldKind, HoldLifetime, HoldOptions, Restore,
    RestoreMarker, RestoreOptions, SegmentName, TimelineHistory,
};
use seawall_simulation::{SeededRandom, SimulatedDisk};
use seawall_types::Lsn;

use super::small_options;

pub(crate) type Rows = Vec<(Vec<u8>, Vec<u8>)>;

pub(crate) fn rows(database: &Database) -> Rows {
    let snapshot = database.snapshot();
    let Ok(table) = snapshot.table("t") else { return Rows::new() };
    let rows = snapshot.range::<&[u8]>(&table, ..);
    rows.map(|row| row.map(|(key, value)| (key.to_vec(), value.to_vec())).unwrap()).collect()
}

pub(crate) fn write(database: &Database, random: &mut SeededRandom) {
    let table = database.open_or_create_table("t").unwrap();
    let length = usize::try_from(random.below(3000)).unwrap();
    database.put(&table, random.below(300).to_be_bytes(), random.bytes(length)).unwrap();
}

/// What changes the catalog, storages and transactions in doubt while a copy is made.
pub(crate) fn disturb(database: &Database, random: &mut SeededRandom) {
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
pub(crate) fn everything(database: &Database) -> Vec<(String, Rows)> {
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

pub(crate) fn slot() -> HoldOptions {
    HoldOptions { kind: HoldKind::Standby, lifetime: HoldLifetime::Permanent, ..HoldOptions::default() }
}

pub(crate) fn primary() -> Database {
    let primary = open(&template(&small_options()), &small_options());
    drop(primary.log().hold("standby", slot(), None).unwrap());
    primary
}

/// Copies a primary that is written meanwhile; where the copy is whole.
pub(crate) fn copy(
    primary: &Database,
    disk: &SimulatedDisk,
    random: &mut SeededRandom,
    name: &str,
) -> Result<Lsn, Error> {
    copy_while(primary, disk, random, name, || Ok(()))
}

/// As `copy`; `meanwhile` is called between the redo point and the first row, and may end it.
pub(crate) fn copy_while(
    primary: &Database,
    disk: &SimulatedDisk,
    random: &mut SeededRandom,
    name: &str,
    meanwhile: impl FnMut() -> Result<(), Error>,
) -> Result<Lsn, Error> {
    copy_with(primary, disk, name, meanwhile, || {
        for _row in 0..3 {
            write(primary, random);
            disturb(primary, random);
        }
        if random.below(4) == 0 { primary.checkpoint().map(drop) } else { Ok(()) }
    })
}

/// Copies a primary; `meanwhile` is called between the redo point and the first row, `between` before each range of rows.
pub(crate) fn copy_with(
    primary: &Database,
    disk: &SimulatedDisk,
    name: &str,
    mut meanwhile: impl FnMut() -> Result<(), Error>,
    mut between: impl FnMut() -> Result<(), Error>,
) -> Result<Lsn, Error> {
    let mut backup = Backup::begin_copy(primary, name)?;
    let base = backup.base().clone();
    let history_of_primary = history_of(primary);
    let timeline = history_of_primary.timeline_at(base.redo_point);
    let history = history_of_primary.up_to(timeline);
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
    meanwhile()?;
    for (key, value) in backup.system_rows() {
        restore.push(key, value)?;
    }
    let mut next = Some(backup.first_key());
    while let Some(from) = next {
        between()?;
        let mut rows = Rows::new();
        let range = backup.read_range(&from, 16 << 10, &mut |item| {
            if let BackupItem::Row { key, value } = item {
                rows.push((key.to_vec(), value.to_vec()));
            }
        })?;
        restore.note_stamp(range.stamp)?;
        for (key, value) in rows {
            restore.push(&key, &value)?;
        }
        next = range.next;
    }
    let end = backup.finish()?;
    restore.finish_copy(end, &history_of_primary)?;
    Ok(end.end)
}

/// Receives, syncs and applies what `from` has on the timeline that `standby` is on.
pub(crate) fn receive(from: &Database, standby: &Database) -> Result<(), Error> {
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

pub(crate) fn history_of(database: &Database) -> TimelineHistory {
    database.log().timeline_history(database.log().timeline()).unwrap()
}
