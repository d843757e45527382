//! What was durable long ago is no longer what it was.

use std::time::Duration;

use seawall_engine::{
    Background, Damage, Database, DatabaseDirectory, Durability, Error, HoldKind, HoldLifetime, HoldOptions,
    OpenMode, Options,
};
use seawall_simulation::{PowerLoss, SeededRandom, SimulatedClock, SimulatedDisk};
use seawall_types::Lsn;

use super::{
    await_that, check_clean, check_rows, environment, open_at, put_rows, small_options, try_open_at, value,
};

const SEGMENT: u64 = 64 << 10;
const PAGE: u64 = 4096;
/// What a segment holds behind its header.
const PAYLOAD: usize = (64 << 10) - 4096;

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
    let hold = database.log().hold("archive", archive, None).unwrap();
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
    DatabaseDirectory::at(environment).check(small_options(), &mut |damage| damages.push(damage)).unwrap();
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
            database.log().release_hold("archive").unwrap();
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
    database.log().release_hold("archive").unwrap();
    database.close().unwrap();
    let rotten = disk.copy();
    for entry in disk.list_all() {
        let is_old = entry.name < segment(redo_point.get()) && entry.name.starts_with("log/0");
        assert!(!is_old || rotten.remove_file(&entry.name));
    }
    assert_eq!(damages_of_directory(&rotten), []);
}

/// Nothing lies before it that would show where it ends.
#[test]
fn rot_in_the_very_first_record_that_is_held_is_found() {
    let Archived { disk, held_from, .. } = archived();
    assert_eq!(held_from.get(), SEGMENT + PAGE, "the first record there is");
    for bit in 0..8 * 60 {
        let rotten = disk.copy();
        let lsn = held_from.get() + bit / 8;
        rotten.flip_bit(&segment(lsn), lsn % SEGMENT, u8::try_from(bit % 8).unwrap());
        let damages = damages_of_directory(&rotten);
        assert!(damages.len() == 1 && damages[0].what.contains("held from"), "bit {bit}: {damages:?}");
    }
}

#[test]
fn segments_that_were_zeroed_are_told_one_by_one_the_first_one_too() {
    let Archived { disk, held_from, redo_point, .. } = archived();
    let first = held_from.get() / SEGMENT;
    let last = redo_point.get() / SEGMENT;
    assert!(last > first + 4);
    for zeroed in
        [vec![first], vec![first, first + 1], vec![first + 2], vec![first, first + 3], vec![last - 1]]
    {
        let rotten = disk.copy();
        for number in &zeroed {
            rotten.overwrite(&segment(number * SEGMENT), PAGE, &[0; PAYLOAD]);
        }
        let damages = damages_of_directory(&rotten);
        // A record that begins before the zeros is damaged, too.
        let fewest = zeroed.len();
        let most = fewest + zeroed.iter().filter(|number| **number > first).count();
        assert!((fewest..=most).contains(&damages.len()), "{zeroed:?}: {damages:?}");
        for number in zeroed {
            let is_told = |damage: &Damage| damage.what.contains(&segment(number * SEGMENT));
            assert!(damages.iter().any(is_told), "{number}: {damages:?}");
        }
    }
}

#[test]
fn rot_in_several_segments_is_told_for_each() {
    let Archived { disk, held_from, redo_point, .. } = archived();
    let rotten = disk.copy();
    let segments = held_from.get() / SEGMENT..redo_point.get() / SEGMENT;
    for number in segments.clone() {
        rotten.flip_bit(&segment(number * SEGMENT), SEGMENT / 2, 3);
    }
    let damages = damages_of_directory(&rotten);
    assert_eq!(damages.len() as u64, segments.end - segments.start, "{damages:?}");
    for number in segments {
        assert!(damages.iter().any(|damage| damage.what.contains(&segment(number * SEGMENT))), "{damages:?}");
    }
    let (missing, also) = (held_from.get() / SEGMENT + 1, held_from.get() / SEGMENT + 3);
    let rotten = disk.copy();
    for number in [missing, also] {
        assert!(rotten.remove_file(&segment(number * SEGMENT)));
    }
    rotten.flip_bit(&segment((missing + 1) * SEGMENT), SEGMENT / 2, 3);
    let damages = damages_of_directory(&rotten);
    assert_eq!(damages.len(), 3, "{damages:?}");
}

/// Nobody needs what lies before a hold, though it lies in the same segment.
#[test]
fn rot_before_a_hold_is_no_damage_and_rot_behind_it_is() {
    let (disk, clock) = (SimulatedDisk::new(3), SimulatedClock::default());
    let database = open_at(&disk, &clock, &small_options());
    let table = database.create_table("t").unwrap();
    let permanent = HoldOptions { lifetime: HoldLifetime::Permanent, ..HoldOptions::default() };
    let hold = database.log().hold("archive", permanent, None).unwrap();
    put_rows(&database, &table, 0..100);
    let needed = database.info().unwrap().end_of_log;
    hold.advance(needed).unwrap();
    put_rows(&database, &table, 100..700);
    database.checkpoint().unwrap();
    database.close().unwrap();
    assert!(needed.get() % SEGMENT > PAGE + 100 * 160, "{needed}");
    for (place, expected) in [(needed.get() - 100, 0), (needed.get() - 7000, 0), (needed.get() + 100, 1)] {
        let rotten = disk.copy();
        rotten.flip_bit(&segment(place), place % SEGMENT, 1);
        let damages = damages_of_directory(&rotten);
        assert_eq!(damages.len(), expected, "{place:#x}: {damages:?}");
    }
}

/// In the middle of records, too, of which the beginning is gone.
#[test]
fn sound_log_is_sound_wherever_it_is_held_from() {
    let (disk, clock) = (SimulatedDisk::new(4), SimulatedClock::default());
    let database = open_at(&disk, &clock, &small_options());
    let table = database.create_table("t").unwrap();
    let hold = database.log().hold("archive", HoldOptions::default(), None).unwrap();
    put_rows(&database, &table, 0..500);
    let lengths = [20_000, 150_000, 61_440, 3, 300_000, 1, 61_000];
    for (number, length) in (0_u32..).zip(lengths) {
        database.put(&table, number.to_be_bytes(), vec![7; length]).unwrap();
        database.with(Durability::Async).put(&table, number.to_le_bytes(), [0; 30_000]).unwrap();
    }
    put_rows(&database, &table, 1_000..1_200);
    database.checkpoint().unwrap();
    let redo_point = database.info().unwrap().redo_point;
    let mut random = SeededRandom::new(4);
    let mut position = hold.position();
    let mut places = 0;
    while position < redo_point {
        check_clean(&database);
        position = Lsn::new(position.get() + random.range(1..20_000));
        // As often as not, at the beginning of a segment, as who takes whole ones does.
        if random.below(2) == 0 {
            position = Lsn::new(position.get().next_multiple_of(SEGMENT));
        }
        hold.advance(position.min(redo_point)).unwrap();
        // Whole segments before are removed.
        database.checkpoint().unwrap();
        places += 1;
    }
    assert!(places > 20, "{places}");
}

/// Pages have some of what it says: dropped as a torn tail, it would leave the rest of a transaction.
#[test]
fn rot_in_the_last_batch_is_no_torn_tail_once_a_checkpoint_has_begun_to_write_it() {
    let clock = SimulatedClock::default();
    let mut options = small_options();
    options.checkpoint.chunk_bytes = 16 << 10;
    let rows: u32 = 300;
    let (mut refused, mut dropped, mut call) = (0, 0, 0);
    loop {
        let disk = SimulatedDisk::new(9);
        let database = open_at(&disk, &clock, &options);
        let table = database.create_table("t").unwrap();
        database.checkpoint().unwrap();
        let mut transaction = database.begin();
        (0..rows).for_each(|row| transaction.put(&table, row.to_be_bytes(), value(row)).unwrap());
        transaction.commit().unwrap();
        let end = database.info().unwrap().end_of_log.get();
        disk.crash_at(disk.calls() + call);
        let is_through = database.checkpoint().is_ok();
        drop(database);
        // Not the pending files: they have the batch, too.
        let left = disk.after_power_loss(PowerLoss::LoseAll);
        left.flip_bit(&segment(end - 100), (end - 100) % SEGMENT, 3);
        let is_told = !damages_of_directory(&left).is_empty();
        match Database::open(environment(&left, &clock), options.clone()) {
            Ok(database) => {
                let table = database.table("t").unwrap();
                let is_dropped = database.get(&table, 0_u32.to_be_bytes()).unwrap().is_none();
                // The redo point may be past it although the checkpoint was not told so.
                check_rows(&database, if is_dropped { 0..0 } else { 0..rows });
                dropped += u32::from(is_dropped);
                assert!(!(is_through && is_dropped));
            }
            Err(Error::Log { message }) => {
                assert!(is_told && message.contains("damaged"), "call {call}: {message}");
                refused += 1;
            }
            Err(other) => panic!("call {call}: {other}"),
        }
        if is_through {
            break;
        }
        call += 1;
    }
    assert!(dropped > 0 && refused > 3, "{dropped} of {call} dropped, {refused} refused");
}

/// While the database is open and has the page nowhere in memory.
#[test]
fn a_cold_page_that_rots_is_refused_to_readers_and_checkpoints_and_nothing_else_is() {
    let (disk, clock) = (SimulatedDisk::new(2), SimulatedClock::default());
    let mut options = small_options();
    options.format.page_bytes = 4096;
    options.memory.cache_bytes = 64 << 10;
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

/// That it was durable is said by the record that an idle database writes behind it.
#[test]
fn damage_of_the_last_commit_is_refused_when_the_database_was_idle() {
    let (disk, clock) = (SimulatedDisk::new(1), SimulatedClock::default());
    // No checkpoint, however much time passes.
    let checkpoint_interval = Duration::from_secs(1 << 40);
    let mut options = Options { background: Background::Threads, ..small_options() };
    options.checkpoint.interval = checkpoint_interval;
    let database = open_at(&disk, &clock, &options);
    let table = database.create_table("t").unwrap();
    put_rows(&database, &table, 0..10);
    let last = database.statistics().log.flushed;
    await_that("a record is behind the last commit", || {
        clock.advance(Duration::from_secs(1));
        database.statistics().log.flushed > last
    });
    let image = disk.after_power_loss(PowerLoss::LoseAll);
    check_rows(&open_at(&image.copy(), &clock, &small_options()), 0..10);
    let inside = last.get() - 20;
    image.flip_bit(&segment(inside), inside % SEGMENT, 3);
    let refused = try_open_at(&image, &clock, &small_options()).err();
    assert!(matches!(refused, Some(Error::Log { .. })), "{refused:?}");
    assert!(!damages_of_directory(&image).is_empty());
}
