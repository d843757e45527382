//! What was durable long ago is no longer what it was.

use seawall_engine::{Damage, Database, Error, HoldKind, HoldLifetime, HoldOptions, OpenMode, Options};
use seawall_simulation::{SeededRandom, SimulatedClock, SimulatedDisk};
use seawall_types::Lsn;

use super::{check_clean, check_rows, environment, open_at, put_rows, small_options, value};

const SEGMENT: u64 = 64 << 10;
const PAGE: u64 = 4096;

/// A closed database of some segments, all behind the redo point, from whose beginning on an archive holds the log.
struct Archived {
    disk: SimulatedDisk,
    held_from: Lsn,
    redo_point: Lsn,
    rows: u32,
}

fn archived() -> Archived {
    let (disk, clock) = (SimulatedDisk::new(1), SimulatedClock::default());
    let database = open_at(&disk, &clock, &small_options());
    let table = database.create_table("t").unwrap();
    let archive = HoldOptions {
        kind: HoldKind::Archive,
        limit_bytes: None,
        lifetime: HoldLifetime::Permanent,
        ..HoldOptions::default()
    };
    let hold = database.hold_log("archive", archive, None).unwrap();
    let held_from = hold.position();
    let rows = 2_000;
    put_rows(&database, &table, 0..rows);
    database.checkpoint().unwrap();
    let redo_point = database.info().unwrap().redo_point;
    assert!(redo_point.get() > held_from.get() + 5 * SEGMENT, "{held_from} {redo_point}");
    check_clean(&database);
    database.close().unwrap();
    Archived { disk, held_from, redo_point, rows }
}

fn segment(lsn: u64) -> String {
    format!("log/00000001{:016X}", lsn / SEGMENT)
}

fn damages_of(database: &Database) -> Vec<Damage> {
    let mut damages = Vec::new();
    database.check(&mut |damage| damages.push(damage)).unwrap();
    damages
}

fn damages_of_directory(disk: &SimulatedDisk) -> Vec<Damage> {
    let mut damages = Vec::new();
    let environment = environment(&disk.copy(), &SimulatedClock::default());
    Database::check_directory_in(environment, small_options(), &mut |damage| damages.push(damage)).unwrap();
    damages
}

/// Recovery needs none of it, so nothing else would notice before the archive's turn has come.
#[test]
fn rot_in_old_log_that_somebody_holds_is_found_by_check_and_keeps_nobody_from_working() {
    let Archived { disk, held_from, redo_point, rows } = archived();
    let mut random = SeededRandom::new(1);
    let clock = SimulatedClock::default();
    for round in 0..40 {
        let lsn = loop {
            let lsn = random.range(held_from.get()..redo_point.get());
            // Of a header page, only some bytes mean anything.
            if lsn % SEGMENT >= PAGE {
                break lsn;
            }
        };
        let rotten = disk.copy();
        rotten.flip_bit(&segment(lsn), lsn % SEGMENT, u8::try_from(random.below(8)).unwrap());
        let on_disk = damages_of_directory(&rotten);
        let mode = if round % 2 == 0 { OpenMode::Existing } else { OpenMode::ReadOnly };
        let database = open_at(&rotten, &clock, &Options { mode, ..small_options() });
        for damages in [on_disk, damages_of(&database)] {
            assert_eq!(damages.len(), 1, "a flip at {lsn:#x}: {damages:?}");
            let told = damages[0].to_string();
            assert!(told.contains(&segment(lsn)) && told.contains("held from"), "{lsn:#x}: {told}");
        }
        check_rows(&database, 0..rows);
        if mode == OpenMode::Existing {
            let table = database.table("t").unwrap();
            put_rows(&database, &table, rows..rows + 1);
            database.checkpoint().unwrap();
            // Nobody needs it any more.
            database.release_log_hold("archive").unwrap();
            check_clean(&database);
        }
    }
}

#[test]
fn old_log_that_is_missing_is_told_only_if_somebody_holds_it() {
    let Archived { disk, held_from, redo_point, .. } = archived();
    let clock = SimulatedClock::default();
    for number in held_from.get() / SEGMENT..redo_point.get() / SEGMENT {
        let missing = disk.copy();
        assert!(missing.remove_file(&segment(number * SEGMENT)));
        let damages = damages_of_directory(&missing);
        assert_eq!(damages.len(), 1, "segment {number}: {damages:?}");
        assert!(damages[0].what.contains("held from"), "{}", damages[0]);
    }
    let database = open_at(&disk, &clock, &small_options());
    database.release_log_hold("archive").unwrap();
    database.close().unwrap();
    let rotten = disk.copy();
    for entry in disk.list_all() {
        let is_old = entry.name < segment(redo_point.get()) && entry.name.starts_with("log/0");
        assert!(!is_old || rotten.remove_file(&entry.name));
    }
    assert_eq!(damages_of_directory(&rotten), []);
}

/// While the database is open and has the page nowhere in memory.
#[test]
fn a_cold_page_that_rots_is_refused_to_readers_and_checkpoints_and_nothing_else_is() {
    let (disk, clock) = (SimulatedDisk::new(2), SimulatedClock::default());
    let options = Options { page_bytes: 4096, cache_bytes: 64 << 10, ..small_options() };
    let rows = 3_000;
    let database = open_at(&disk, &clock, &options);
    let table = database.create_table("t").unwrap();
    put_rows(&database, &table, 0..rows);
    database.checkpoint().unwrap();
    database.close().unwrap();
    let database = open_at(&disk, &clock, &options);
    // The leaf with a row of the middle: its key is stored with the row.
    let sound = disk.read_file("pages").unwrap();
    let middle = rows / 2;
    let at = sound.windows(160).position(|bytes| bytes == value(middle)).unwrap() as u64;
    disk.flip_bit("pages", at, 0);
    let refusal = database.get(&table, middle.to_be_bytes()).unwrap_err();
    let place = format!("offset {}", at / PAGE * PAGE);
    assert!(matches!(&refusal, Error::Tree { message } if message.contains(&place)), "{refusal}");
    let (mut read, mut refused) = (0, 0);
    for number in 0..rows {
        match database.get(&table, number.to_be_bytes()) {
            Ok(found) => {
                assert_eq!(found, Some(value(number)));
                read += 1;
            }
            Err(Error::Tree { .. }) => refused += 1,
            Err(other) => panic!("row {number}: {other}"),
        }
    }
    assert!((1..40).contains(&refused) && read + refused == rows, "{read} read, {refused} refused");
    let damages = damages_of(&database);
    assert!(damages.len() == 1 && damages[0].keys.is_some(), "{damages:?}");
    assert_eq!(damages[0].offset, Some(at / PAGE * PAGE));
    // Writers go on. What lies on the page can be changed, too, but not be merged into it.
    put_rows(&database, &table, rows..rows + 10);
    database.checkpoint().unwrap();
    database.put(&table, middle.to_be_bytes(), "new").unwrap();
    for _ in 0..2 {
        let error = database.checkpoint().unwrap_err();
        assert!(matches!(&error, Error::Tree { message } if message.contains(&place)), "{error}");
    }
    assert_eq!(database.get(&table, middle.to_be_bytes()).unwrap().unwrap(), b"new");
    put_rows(&database, &table, rows + 10..rows + 20);
    // The page comes back from somewhere: a backup, or a disk whose cable was loose.
    disk.overwrite("pages", at / PAGE * PAGE, &sound[usize::try_from(at / PAGE * PAGE).unwrap()..][..4096]);
    database.checkpoint().unwrap();
    database.put(&table, middle.to_be_bytes(), value(middle)).unwrap();
    check_rows(&database, 0..rows + 20);
    check_clean(&database);
    database.close().unwrap();
}
