//! An encrypted database: nothing that users store can be read from any of its files, and only a master key opens it.
#![expect(clippy::unwrap_used, reason = "a test that fails panics")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use seawall_engine::{
    Background, Database, DatabaseDirectory, Durability, Environment, Error, ImageCompression, OpenMode,
    Options, PageProtection,
};
use seawall_keys::{KEYS_PATH, MasterKey, OtherMasterKeys, SecretKey};
use seawall_simulation::{PowerLoss, SeededRandom, SimulatedClock, SimulatedDisk, SimulatedRandom};

const TABLE: &str = "table name that nobody may read";
const KEY: &str = "key that nobody may read";
const VALUE: &str = "value that nobody may read";
const LONG_VALUE: &str = "long value that nobody may read";
const LOADED: &str = "loaded value that nobody may read";

fn master(byte: u8) -> Option<MasterKey> {
    Some(MasterKey::Bytes(SecretKey::from_bytes([byte; 32])))
}

fn options(master_key: Option<MasterKey>) -> Options {
    let mut options = Options { background: Background::Manual, master_key, ..Options::default() };
    options.format.page_bytes = 4096;
    options.format.segment_bytes = 64 << 10;
    options.memory.memtable_bytes = 512 << 10;
    options.memory.cache_bytes = 256 << 10;
    options.checkpoint.chunk_bytes = 64 << 10;
    options.recovery.threads = 1;
    options
}

fn environment(disk: &SimulatedDisk) -> Environment {
    // Another seed for each opening, as the operating system would give other bytes.
    Environment {
        disk: Arc::new(disk.clone()),
        clock: Arc::new(SimulatedClock::default()),
        random: Arc::new(SimulatedRandom::new(disk.calls())),
    }
}

fn try_open(disk: &SimulatedDisk, options: Options) -> Result<Database, Error> {
    Database::open(environment(disk), options)
}

fn open(disk: &SimulatedDisk, master_key: Option<MasterKey>) -> Database {
    try_open(disk, options(master_key)).unwrap()
}

/// The files in which `needle` stands.
fn files_with(disk: &SimulatedDisk, needle: &str) -> Vec<String> {
    let names = disk.list_all().into_iter().map(|entry| entry.name);
    names
        .filter(|name| {
            let bytes = disk.read_file(name).unwrap();
            bytes.windows(needle.len()).any(|window| window == needle.as_bytes())
        })
        .collect()
}

/// Puts, long values, deletes, a checkpoint in the middle, a bulk load that spills, and a crash: everything that writes.
/// `watch` sees the disk after each step.
fn live(disk: &SimulatedDisk, options: &Options, watch: &mut dyn FnMut(&SimulatedDisk)) {
    let database = try_open(disk, options.clone()).unwrap();
    let table = database.create_table(TABLE).unwrap();
    for round in 0..4_u32 {
        for number in 0..200_u32 {
            let key = format!("{KEY} {number:05}");
            let value = if number % 40 == round { LONG_VALUE.repeat(500) } else { VALUE.repeat(3) };
            database.put(&table, &key, value).unwrap();
        }
        watch(disk);
        database.delete(&table, format!("{KEY} {round:05}")).unwrap();
        if round % 2 == 1 {
            database.checkpoint().unwrap();
            watch(disk);
        }
    }
    let mut load = database.tables().bulk_load("loaded").unwrap();
    for number in (0..6_000_u32).rev() {
        load.add(format!("{KEY} {number:05}"), format!("{LOADED} {number}")).unwrap();
    }
    // Scratch files are there now.
    assert!(disk.list_all().iter().any(|entry| entry.name.contains("sort-")));
    watch(disk);
    load.finish().unwrap();
    watch(disk);
    let mut transaction = database.begin();
    transaction.put(&table, "last", VALUE).unwrap();
    transaction.commit().unwrap();
    watch(disk);
    // No close: the log holds what a recovery replays.
    std::mem::forget(database);
}

fn assert_all_there(database: &Database) {
    let table = database.table(TABLE).unwrap();
    assert_eq!(database.get(&table, "last").unwrap().unwrap(), VALUE.as_bytes());
    assert_eq!(
        database.get(&table, format!("{KEY} 00043")).unwrap().unwrap(),
        LONG_VALUE.repeat(500).as_bytes()
    );
    assert_eq!(database.snapshot().rows(&table).count(), 200);
    let loaded = database.table("loaded").unwrap();
    assert_eq!(database.snapshot().rows(&loaded).count(), 6_000);
    assert_eq!(
        database.get(&loaded, format!("{KEY} 00007")).unwrap().unwrap(),
        format!("{LOADED} 7").as_bytes()
    );
}

fn search_everything(
    protection: PageProtection,
    compression: ImageCompression,
    master_key: Option<&MasterKey>,
) {
    let disk = SimulatedDisk::new(1);
    let mut options = options(master_key.cloned());
    options.checkpoint.page_protection = protection;
    options.checkpoint.page_image_compression = compression;
    let mut found = BTreeMap::<&str, BTreeSet<String>>::new();
    live(&disk, &options, &mut |disk| {
        for needle in [TABLE, KEY, VALUE, LONG_VALUE, LOADED] {
            found.entry(needle).or_default().extend(files_with(disk, needle));
        }
    });
    if master_key.is_some() {
        assert!(found.values().all(BTreeSet::is_empty), "{protection:?}: {found:#?}");
    } else {
        // The same search finds each of them where it is not encrypted, and in each kind of file.
        assert!(found.values().all(|files| !files.is_empty()), "{found:#?}");
        for kind in ["pages", "log/", "recovery/chunk", "recovery/sort-"] {
            let is_expected = kind != "recovery/chunk" || protection == PageProtection::RecoveryFile;
            let is_found = found.values().flatten().any(|file| file.starts_with(kind));
            assert_eq!(is_found, is_expected, "{kind}: {found:#?}");
        }
    }
    for loss in [PowerLoss::LoseAll, PowerLoss::KeepAll, PowerLoss::Random(3)] {
        let crashed = disk.after_power_loss(loss);
        let database = try_open(&crashed, options.clone()).unwrap();
        assert_all_there(&database);
        let mut damages = Vec::new();
        database.check(&mut |damage| damages.push(damage)).unwrap();
        assert!(damages.is_empty(), "{damages:#?}");
        assert_eq!(database.info().unwrap().encrypted, master_key.is_some());
        database.close().unwrap();
        assert_all_there(&try_open(&crashed, options.clone()).unwrap());
    }
}

#[test]
fn nothing_can_be_read_from_any_file_at_any_time() {
    for protection in PageProtection::ALL {
        for compression in [ImageCompression::None, ImageCompression::Lz4] {
            search_everything(protection, compression, master(1).as_ref());
        }
        search_everything(protection, ImageCompression::None, None);
    }
}

/// Bits of every file are flipped: what can still be read is right, and what cannot is an error that says damage.
#[test]
fn a_flipped_bit_is_survived_or_refused() {
    let (mut refused, mut survived) = (0, 0);
    for protection in PageProtection::ALL {
        let disk = SimulatedDisk::new(1);
        let mut options = options(master(1));
        options.checkpoint.page_protection = protection;
        live(&disk, &options, &mut |_| {});
        let disk = disk.after_power_loss(PowerLoss::LoseAll);
        let mut random = SeededRandom::new(2);
        let files: Vec<_> = disk.list_all().into_iter().filter(|file| file.bytes > 0).collect();
        for round in 0..120 {
            let damaged = disk.copy();
            let file = random.pick(&files);
            let offset = random.below(file.bytes);
            damaged.flip_bit(&file.name, offset, u8::try_from(random.below(8)).unwrap());
            let context = format!("{protection:?}, round {round}: offset {offset} of {}", file.name);
            let read = try_open(&damaged, options.clone()).and_then(|database| {
                let loaded = database.table("loaded")?;
                for row in database.snapshot().rows(&loaded) {
                    let (key, value) = row?;
                    assert!(
                        key.starts_with(KEY.as_bytes()) && value.starts_with(LOADED.as_bytes()),
                        "{context}"
                    );
                }
                database.get(&database.table(TABLE)?, format!("{KEY} 00043"))
            });
            match read {
                Ok(value) => {
                    survived += 1;
                    assert_eq!(value.unwrap(), LONG_VALUE.repeat(500).as_bytes(), "{context}");
                }
                Err(Error::Log { message } | Error::Tree { message } | Error::Keys { message }) => {
                    refused += 1;
                    assert!(!message.contains("authenticate"), "{context}: {message}");
                }
                Err(error) => panic!("{context}: {error}"),
            }
        }
    }
    assert!(refused > 10 && survived > 10, "{refused} refused, {survived} survived");
}

#[test]
fn the_wrong_master_key_or_none_says_so_and_changes_nothing() {
    let disk = SimulatedDisk::new(1);
    live(&disk, &options(master(1)), &mut |_| {});
    let disk = disk.after_power_loss(PowerLoss::LoseAll);
    let files = disk.list_all();
    let calls = disk.calls();
    let wrong = try_open(&disk, options(master(2))).unwrap_err();
    assert!(matches!(wrong, Error::WrongMasterKey { .. }), "{wrong}");
    let none = try_open(&disk, options(None)).unwrap_err();
    assert!(matches!(none, Error::Encrypted { .. }), "{none}");
    let unreadable = MasterKey::File("/nowhere/key".into());
    let unreadable = try_open(&disk, options(Some(unreadable))).unwrap_err();
    assert!(matches!(unreadable, Error::MasterKey { .. }), "{unreadable}");
    for master_key in [master(2), None] {
        let checked = DatabaseDirectory::at(environment(&disk)).check(options(master_key), &mut |_| {});
        assert!(
            matches!(checked, Err(Error::WrongMasterKey { .. } | Error::Encrypted { .. })),
            "{checked:?}"
        );
    }
    assert_eq!((disk.list_all(), disk.calls()), (files, calls), "a refused opening has written");
    let read_only = Options { mode: OpenMode::ReadOnly, ..options(master(1)) };
    assert_all_there(&try_open(&disk, read_only).unwrap());
    assert_all_there(&open(&disk, master(1)));

    let plain = SimulatedDisk::new(2);
    open(&plain, None).close().unwrap();
    let not_encrypted = try_open(&plain, options(master(1))).unwrap_err();
    assert!(matches!(not_encrypted, Error::NotEncrypted { .. }), "{not_encrypted}");
}

#[test]
fn a_damaged_or_missing_keys_file_is_told_from_a_wrong_key() {
    let disk = SimulatedDisk::new(1);
    open(&disk, master(1)).close().unwrap();
    let damage = |change: &dyn Fn(&SimulatedDisk)| {
        let damaged = disk.copy();
        change(&damaged);
        let error = try_open(&damaged, options(master(1))).unwrap_err();
        assert!(matches!(error, Error::Keys { .. }), "{error}");
        let mut reported = Vec::new();
        let checked = DatabaseDirectory::at(environment(&damaged)).check(options(master(1)), &mut |damage| {
            reported.push(damage.to_string());
        });
        assert_eq!((checked.unwrap().damages, reported.len()), (1, 1), "{reported:?}");
        assert!(reported[0].contains(KEYS_PATH), "{reported:?}");
    };
    damage(&|disk| disk.flip_bit(KEYS_PATH, 100, 3));
    damage(&|disk| disk.truncate(KEYS_PATH, 100));
    damage(&|disk| assert!(disk.remove_file(KEYS_PATH)));
    let other = SimulatedDisk::new(2);
    let of_other = Environment { random: Arc::new(SimulatedRandom::new(999)), ..environment(&other) };
    Database::open(of_other, options(master(1))).unwrap().close().unwrap();
    let foreign = other.read_file(KEYS_PATH).unwrap();
    damage(&|disk| disk.write_file(KEYS_PATH, &foreign));
}

#[test]
fn an_open_database_changes_its_master_key_and_nothing_else() {
    let disk = SimulatedDisk::new(1);
    let database = open(&disk, master(1));
    let table = database.create_table(TABLE).unwrap();
    database.put(&table, KEY, VALUE).unwrap();
    let others = |disk: &SimulatedDisk| {
        let mut files = disk.list_all();
        files.retain(|entry| entry.name != KEYS_PATH);
        files.into_iter().map(|entry| disk.read_file(&entry.name).unwrap()).collect::<Vec<_>>()
    };
    let before = others(&disk);
    database.rotate_master_key(&master(2).unwrap(), OtherMasterKeys::Keep).unwrap();
    database.rotate_master_key(&master(3).unwrap(), OtherMasterKeys::Keep).unwrap();
    assert!(others(&disk) == before);
    for byte in 1..=3 {
        let table = open(&disk.after_power_loss(PowerLoss::LoseAll), master(byte)).table(TABLE);
        table.unwrap();
    }
    database.rotate_master_key(&master(2).unwrap(), OtherMasterKeys::Drop).unwrap();
    database.put(&table, KEY, "after the rotation").unwrap();
    let disk = disk.after_power_loss(PowerLoss::LoseAll);
    for byte in [1, 3] {
        assert!(matches!(try_open(&disk, options(master(byte))), Err(Error::WrongMasterKey { .. })));
    }
    let reopened = open(&disk, master(2));
    let table = reopened.table(TABLE).unwrap();
    assert_eq!(reopened.get(&table, KEY).unwrap().unwrap(), b"after the rotation");
    drop(reopened);
    let read_only = try_open(&disk, Options { mode: OpenMode::ReadOnly, ..options(master(2)) }).unwrap();
    let refused = read_only.rotate_master_key(&master(1).unwrap(), OtherMasterKeys::Drop).unwrap_err();
    assert!(matches!(refused, Error::ReadOnly), "{refused}");
    let plain = open(&SimulatedDisk::new(2), None);
    let refused = plain.rotate_master_key(&master(1).unwrap(), OtherMasterKeys::Drop).unwrap_err();
    assert!(matches!(refused, Error::NotEncrypted { .. }), "{refused}");
}

#[test]
fn a_closed_database_changes_its_master_key_under_its_lock() {
    let scratch = tempfile::tempdir().unwrap();
    let directory = scratch.path().join("db");
    let database = Database::open(&directory, options(master(1))).unwrap();
    let table = database.create_table(TABLE).unwrap();
    database.put(&table, KEY, VALUE).unwrap();
    let (first, second) = (master(1).unwrap(), master(2).unwrap());
    let rotate = |old: &MasterKey, new: &MasterKey| {
        DatabaseDirectory::at(&directory).rotate_master_key(old.clone(), new, OtherMasterKeys::Drop)
    };
    assert!(matches!(rotate(&first, &second), Err(Error::InUse { .. })));
    database.close().unwrap();
    assert!(matches!(rotate(&second, &first), Err(Error::WrongMasterKey { .. })));
    rotate(&first, &second).unwrap();
    assert!(matches!(Database::open(&directory, options(master(1))), Err(Error::WrongMasterKey { .. })));
    let database = Database::open(&directory, options(master(2))).unwrap();
    assert_eq!(database.get(&database.table(TABLE).unwrap(), KEY).unwrap().unwrap(), VALUE.as_bytes());
    let mut records = 0;
    let mut count = |_| {
        records += 1;
        std::ops::ControlFlow::Continue(())
    };
    database.flush().unwrap();
    let files = DatabaseDirectory::at(&directory);
    files.log_records(master(2).as_ref(), None, &mut count).unwrap();
    assert!(records >= 2, "{records} records");
    let refused = files.log_records(None, None, &mut |_| panic!("nothing can be read"));
    assert!(matches!(refused, Err(Error::Encrypted { .. })), "{refused:?}");
    let nowhere = scratch.path().join("nowhere");
    let none = DatabaseDirectory::at(&nowhere).rotate_master_key(first, &second, OtherMasterKeys::Drop);
    assert!(matches!(none, Err(Error::NoDatabase { .. })), "{none:?}");
    assert!(!nowhere.exists());
}

/// The power goes at each call of a creation: then it can be started over, encrypted or not, with any master key; or the
/// database is there and opens with the first one.
#[test]
fn a_creation_cut_short_is_started_over_with_new_keys() {
    let (mut again, mut done) = (0, 0);
    for call in 0.. {
        let disk = SimulatedDisk::new(call);
        disk.crash_at(call);
        let finished = try_open(&disk, options(master(1))).is_ok();
        for loss in [PowerLoss::LoseAll, PowerLoss::KeepAll, PowerLoss::Random(call)] {
            for second in [master(2), None] {
                let after = disk.after_power_loss(loss);
                match try_open(&after, options(second.clone())) {
                    Ok(database) => {
                        assert!(!finished, "call {call}: the finished database is gone");
                        again += 1;
                        let table = database.create_table(TABLE).unwrap();
                        database.put(&table, KEY, VALUE).unwrap();
                        database.close().unwrap();
                        assert_eq!(after.read_file(KEYS_PATH).is_some(), second.is_some(), "call {call}");
                        open(&after, second).table(TABLE).unwrap();
                    }
                    Err(Error::WrongMasterKey { .. } | Error::Encrypted { .. }) => {
                        done += 1;
                        open(&after, master(1)).create_table(TABLE).unwrap();
                    }
                    Err(error) => panic!("call {call}, {loss:?}: {error}"),
                }
            }
        }
        if finished {
            break;
        }
    }
    assert!(again > 50 && done > 10, "started over {again} times, found {done} times");
}

#[test]
fn a_new_database_is_not_begun_without_its_master_key() {
    let disk = SimulatedDisk::new(1);
    let missing = MasterKey::Environment("SEAWALL_NOT_SET_ANYWHERE".to_owned());
    let error = try_open(&disk, options(Some(missing))).unwrap_err();
    assert!(matches!(error, Error::MasterKey { .. }), "{error}");
    open(&disk, None).close().unwrap();
}

/// Threads, `Async` commits and a checkpoint beside them, on a real disk, opened again after each.
#[test]
fn threads_write_an_encrypted_database() {
    let scratch = tempfile::tempdir().unwrap();
    let directory = scratch.path().join("db");
    let options = options(master(1)).with(|options| {
        options.background = Background::Threads;
        options.transaction.durability = Durability::Async;
    });
    for round in 0..3_u32 {
        let database = Database::open(&directory, options.clone()).unwrap();
        let table = database.create_table(&format!("{TABLE} {round}")).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..3_u32 {
                let (database, table) = (&database, &table);
                scope.spawn(move || {
                    for number in 0..300_u32 {
                        database.put(table, format!("{KEY} {thread} {number}"), VALUE.repeat(5)).unwrap();
                    }
                });
            }
            database.checkpoint().unwrap();
        });
        database.close().unwrap();
        let database = Database::open(&directory, options.clone()).unwrap();
        for before in 0..=round {
            let table = database.table(&format!("{TABLE} {before}")).unwrap();
            assert_eq!(database.snapshot().rows(&table).count(), 900);
        }
        database.close().unwrap();
    }
}
