//! An in-doubt transaction survives power failures, checkpoints and the log's recycling; a decision counts once.

use std::sync::Arc;

use seawall_engine::{DatabaseDirectory, Durability, Environment, OpenMode, Options};
use seawall_keys::{MasterKey, SecretKey};
use seawall_simulation::{SimulatedClock, SimulatedDisk, SimulatedRandom};
use seawall_tree::{Superblock, SuperblockFile};

use super::{
    check_and_close, get, gids, lose_power, lose_unsynced, only, open, open_with, options, prepare, put,
};

/// What happens between two steps of a transaction.
#[derive(Clone, Copy, Debug)]
pub(super) enum Between {
    Nothing,
    PowerFailure,
    Checkpoint,
    CheckpointAndPowerFailure,
    Close,
    /// A checkpoint, then much more log, then another one: the segments that were written first are used again.
    OldLogGone,
}

pub(super) const ALL: [Between; 6] = [
    Between::Nothing,
    Between::PowerFailure,
    Between::Checkpoint,
    Between::CheckpointAndPowerFailure,
    Between::Close,
    Between::OldLogGone,
];

pub(super) type World = (SimulatedDisk, seawall_engine::Database);

pub(super) fn pass((disk, database): World, between: Between, options: &Options) -> World {
    match between {
        Between::Nothing => (disk, database),
        Between::Checkpoint => {
            database.checkpoint().unwrap();
            (disk, database)
        }
        Between::PowerFailure => {
            let left = lose_power(&disk, database);
            let database = open_with(&left, options.clone());
            (left, database)
        }
        Between::CheckpointAndPowerFailure => {
            let world = pass((disk, database), Between::Checkpoint, options);
            pass(world, Between::PowerFailure, options)
        }
        Between::Close => {
            database.close().unwrap();
            let database = open_with(&disk, options.clone());
            (disk, database)
        }
        Between::OldLogGone => {
            let oldest = |database: &seawall_engine::Database| database.info().unwrap().segments[0].first_lsn;
            let before = oldest(&database);
            database.checkpoint().unwrap();
            let table = database.table("t").unwrap();
            for _ in 0..8 {
                database.put(&table, "filler", [7; 40_000]).unwrap();
            }
            database.checkpoint().unwrap();
            assert!(oldest(&database) > before, "the log is not held back");
            pass((disk, database), Between::PowerFailure, options)
        }
    }
}

/// Runs a transaction with something between its steps; of two others, one is decided first and one stays in doubt.
fn run(first: Between, second: Between, third: Between, commits: bool, options: &Options) {
    let disk = SimulatedDisk::new(1);
    let database = open_with(&disk, options.clone());
    let long = "long ".repeat(3_000);
    database.create_table("t").unwrap();
    put(&database, "a", "old").unwrap();
    put(&database, "gone", "old").unwrap();
    prepare(&database, "early", &[("e", "early")]);
    let mut world = pass((disk, database), first, options);
    prepare(&world.1, "other", &[("o", "other")]);
    let table = world.1.table("t").unwrap();
    let mut transaction = world.1.begin();
    transaction.set_owner("tester").unwrap();
    transaction.put(&table, "a", "new").unwrap();
    transaction.put(&table, "long", &long).unwrap();
    transaction.delete(&table, "gone").unwrap();
    transaction.prepare("this").unwrap();
    world.1.two_phase().commit("early").unwrap();
    world = pass(world, second, options);
    assert_eq!(gids(&world.1), ["other", "this"]);
    let this = world.1.two_phase().in_doubt().unwrap().remove(1);
    assert_eq!((&this.owner[..], this.rows, &this.tables[..]), ("tester", 3, &["t".to_owned()][..]));
    assert_eq!((get(&world.1, "a").as_deref(), get(&world.1, "long")), (Some("old"), None));
    assert!(put(&world.1, "a", "refused").is_err(), "the row is locked");
    if commits {
        world.1.two_phase().commit("this").unwrap();
    } else {
        world.1.two_phase().rollback("this").unwrap();
    }
    world = pass(world, third, options);
    let database = world.1;
    assert_eq!(only(&database).gid, "other");
    assert_eq!(get(&database, "e").as_deref(), Some("early"));
    let expected = if commits { ("new", Some(long), None) } else { ("old", None, Some("old".to_owned())) };
    assert_eq!(get(&database, "a").as_deref(), Some(expected.0));
    assert_eq!((get(&database, "long"), get(&database, "gone")), (expected.1, expected.2));
    put(&database, "a", "later").unwrap();
    database.two_phase().rollback("other").unwrap();
    database.checkpoint().unwrap();
    // No row is left in the system table: two of the catalog, and those of the table.
    let rows = database.snapshot().range::<&[u8]>(&database.table("t").unwrap(), ..).count();
    let summary = database.check(&mut |damage| panic!("{damage}")).unwrap();
    assert_eq!(summary.rows, u64::try_from(rows).unwrap() + 2);
    check_and_close(database);
}

#[test]
fn in_doubt_transactions_survive_whatever_comes_between() {
    for first in [Between::Nothing, Between::CheckpointAndPowerFailure] {
        for second in ALL {
            for third in ALL {
                for commits in [true, false] {
                    run(first, second, third, commits, &options());
                }
            }
        }
    }
}

#[test]
fn they_survive_in_an_encrypted_database_and_nothing_of_them_is_readable() {
    let key = MasterKey::Bytes(SecretKey::from_bytes([7; 32]));
    let options = Options { master_key: Some(key), ..options() };
    run(Between::Checkpoint, Between::OldLogGone, Between::PowerFailure, true, &options);
    run(Between::Nothing, Between::PowerFailure, Between::Checkpoint, false, &options);
    let disk = SimulatedDisk::new(2);
    let database = open_with(&disk, options);
    database.create_table("t").unwrap();
    prepare(&database, "a secret gid", &[("secret key", "secret value")]);
    database.checkpoint().unwrap();
    for entry in disk.list_all() {
        let bytes = disk.read_file(&entry.name).unwrap_or_default();
        let shown = bytes.windows(6).any(|window| window == b"secret");
        assert!(!shown, "{}", entry.name);
    }
    database.close().unwrap();
}

#[test]
fn a_write_set_longer_than_pages_parts_and_the_memory_that_is_kept_survives() {
    let mut options = options();
    options.memory.memtable_bytes = 64 << 20;
    for between in ALL {
        let disk = SimulatedDisk::new(3);
        let database = open_with(&disk, options.clone());
        let table = database.create_table("t").unwrap();
        let mut transaction = database.begin();
        for number in 0..300_u32 {
            transaction.put(&table, number.to_be_bytes(), vec![number.to_le_bytes()[0]; 10_000]).unwrap();
        }
        transaction.prepare("long").unwrap();
        let (disk, database) = pass((disk, database), between, &options);
        let found = only(&database);
        assert_eq!((found.rows, found.bytes), (300, 300 * (8 + 4 + 10_000)));
        database.two_phase().commit("long").unwrap();
        let (_, database) = pass((disk, database), between, &options);
        let table = database.table("t").unwrap();
        for number in 0..300_u32 {
            let value = database.get(&table, number.to_be_bytes()).unwrap().unwrap();
            assert_eq!(value, vec![number.to_le_bytes()[0]; 10_000], "{between:?}");
        }
        check_and_close(database);
    }
}

/// The power goes at each disk call of the checkpoint that puts a long write set into the tree: in parts, before the row that
/// says that they are one.
#[test]
fn a_long_write_set_survives_a_crash_anywhere_in_its_checkpoint_and_leaves_nothing_behind() {
    let mut options = options();
    options.memory.memtable_bytes = 64 << 20;
    let disk = SimulatedDisk::new(9);
    let database = open_with(&disk, options.clone());
    let table = database.create_table("t").unwrap();
    let value = |number: u32| vec![number.to_le_bytes()[0]; 500_000];
    let mut transaction = database.begin();
    for number in 0..5_u32 {
        transaction.put(&table, number.to_be_bytes(), value(number)).unwrap();
    }
    transaction.prepare("long").unwrap();
    let start = lose_power(&disk, database);
    let mut call = 0;
    loop {
        let disk = start.copy();
        let database = open_with(&disk, options.clone());
        disk.crash_at(disk.calls() + call);
        let finished = database.checkpoint().is_ok();
        let (commits, outcome) = (call % 2 == 0, seawall_simulation::PowerLoss::Random(call));
        let left = disk.after_power_loss(outcome);
        disk.crash();
        drop(database);
        // Decided before any other checkpoint: nobody puts the row to the parts that are there.
        let database = open_with(&left, options.clone());
        assert_eq!(only(&database).rows, 5);
        if commits {
            database.two_phase().commit("long").unwrap();
        } else {
            database.two_phase().rollback("long").unwrap();
        }
        let left = lose_power(&left, database);
        let database = open_with(&left, options.clone());
        let table = database.table("t").unwrap();
        for number in 0..5_u32 {
            let found = database.get(&table, number.to_be_bytes()).unwrap();
            assert_eq!(found, commits.then(|| value(number)), "call {call}");
        }
        database.checkpoint().unwrap();
        let rows = database.check(&mut |damage| panic!("{damage}")).unwrap().rows;
        assert_eq!(
            rows,
            2 + if commits { 5 } else { 0 },
            "call {call}: two rows of the catalog, and the table's"
        );
        check_and_close(database);
        if finished {
            assert!(call > 20, "{call} disk calls: the parts were not merged one by one");
            break;
        }
        call += 1;
    }
}

/// Prepared write sets are memory like any other: they start checkpoints, and are merged in chunks.
#[test]
fn what_is_prepared_counts_against_the_memory_that_is_allowed() {
    let mut options = options();
    options.memory.memtable_bytes = 8 << 20;
    options.checkpoint.chunk_bytes = 1 << 20;
    let disk = SimulatedDisk::new(10);
    let database = open_with(&disk, options.clone());
    let table = database.create_table("t").unwrap();
    for number in 0..40 {
        let mut transaction = database.begin();
        transaction.put(&table, format!("{number}"), vec![1; 1 << 20]).unwrap();
        transaction.prepare(&format!("{number}")).unwrap();
        // Half of it each: what is active, and what is being merged. One more may have come in.
        let bytes = database.statistics().memtable.bytes;
        assert!(bytes <= 9 << 20, "{bytes} bytes after {number}");
    }
    let checkpoints = database.info().unwrap().recent_checkpoints;
    assert!(checkpoints.len() >= 9, "{}", checkpoints.len());
    assert!(checkpoints.iter().all(|one| one.chunks >= 4), "{checkpoints:?}");
    let left = lose_power(&disk, database);
    let database = open_with(&left, options);
    for number in 0..40 {
        database.two_phase().commit(&format!("{number}")).unwrap();
    }
    assert_eq!(database.snapshot().range::<&[u8]>(&database.table("t").unwrap(), ..).count(), 40);
    check_and_close(database);
}

#[test]
fn thousands_in_doubt_survive_a_recovery_that_merges_on_the_way() {
    let disk = SimulatedDisk::new(4);
    let database = open(&disk);
    database.create_table("t").unwrap();
    for number in 0..2_000 {
        prepare(&database, &format!("gid {number}"), &[(&format!("key {number}"), &"v".repeat(900))]);
        if number % 3 == 0 {
            database.two_phase().commit(&format!("gid {number}")).unwrap();
        }
    }
    let left = lose_power(&disk, database);
    let mut little_memory = options();
    little_memory.memory.memtable_bytes = 64 << 10;
    little_memory.memory.cache_bytes = 16 << 10;
    let database = open_with(&left, little_memory);
    let recovery = database.statistics().recovery;
    assert!(recovery.merges > 3, "{recovery:?}");
    assert_eq!(gids(&database).len(), 1_333);
    for number in 0..2_000 {
        let (key, gid) = (format!("key {number}"), format!("gid {number}"));
        assert_eq!(get(&database, &key).is_some(), number % 3 == 0);
        if number % 3 == 1 {
            database.two_phase().with(Durability::Async).commit(&gid).unwrap();
            assert!(get(&database, &key).is_some());
        } else if number % 3 == 2 {
            database.two_phase().with(Durability::Async).rollback(&gid).unwrap();
            put(&database, &key, "free").unwrap();
        }
    }
    check_and_close(database);
}

#[test]
fn recovery_reads_no_page_unless_something_was_in_doubt_at_the_redo_point() {
    let disk = SimulatedDisk::new(5);
    let database = open(&disk);
    database.create_table("t").unwrap();
    prepare(&database, "before", &[("a", "1")]);
    database.checkpoint().unwrap();
    let with = open(&disk.after_power_loss(seawall_simulation::PowerLoss::LoseAll));
    assert!(with.statistics().recovery.pages_read > 0);
    database.two_phase().commit("before").unwrap();
    database.checkpoint().unwrap();
    prepare(&database, "after", &[("b", "1")]);
    prepare(&database, "last", &[("c", "1")]);
    database.two_phase().rollback("last").unwrap();
    let without = open(&disk.after_power_loss(seawall_simulation::PowerLoss::LoseAll));
    assert_eq!(without.statistics().recovery.pages_read, 0);
    assert_eq!(gids(&without), ["after"]);
}

#[test]
fn a_read_only_open_shows_what_is_in_doubt_and_decides_nothing() {
    let disk = SimulatedDisk::new(6);
    let database = open(&disk);
    database.create_table("t").unwrap();
    prepare(&database, "first", &[("a", "1")]);
    database.checkpoint().unwrap();
    prepare(&database, "second", &[("b", "1")]);
    let left = lose_power(&disk, database);
    let database = open_with(&left, Options { mode: OpenMode::ReadOnly, ..options() });
    assert_eq!(gids(&database), ["first", "second"]);
    let refused = database.two_phase().commit("first");
    assert!(matches!(refused, Err(seawall_engine::Error::ReadOnly)), "{refused:?}");
    database.close().unwrap();
}

#[test]
fn an_unsynced_prepare_or_decision_is_lost_with_the_power_and_with_nothing_before_it() {
    let disk = SimulatedDisk::new(7);
    let database = open(&disk);
    let table = database.create_table("t").unwrap();
    let unsynced = |key: &str| {
        let options = super::TransactionOptions { durability: Durability::Async, ..options().transaction };
        let mut transaction = database.with(options).begin();
        transaction.put(&table, key, "value").unwrap();
        transaction
    };
    unsynced("a").prepare("durable").unwrap();
    database.flush().unwrap();
    let lost = unsynced("b").prepare("lost").unwrap();
    assert!(lost > lsn_of(&database, "durable"));
    database.two_phase().with(Durability::Async).commit("durable").unwrap();
    let again = open(&lose_unsynced(&disk));
    assert_eq!(gids(&again), ["durable"]);
    assert_eq!(get(&again, "a"), None);
    assert_eq!(again.two_phase().commit("durable").map(|_| ()).map_err(|error| error.to_string()), Ok(()));
    check_and_close(again);
}

fn lsn_of(database: &seawall_engine::Database, gid: &str) -> seawall_types::Lsn {
    database.two_phase().in_doubt().unwrap().into_iter().find(|found| found.gid == gid).unwrap().lsn
}

#[test]
fn a_gid_is_free_again_after_the_decision_across_crashes() {
    let mut disk = SimulatedDisk::new(8);
    let mut database = open(&disk);
    database.create_table("t").unwrap();
    for round in 0..12_u32 {
        prepare(&database, "again", &[("key", &round.to_string())]);
        if round % 4 == 1 {
            database.checkpoint().unwrap();
        }
        if round % 2 == 0 {
            database.two_phase().commit("again").unwrap();
        } else {
            database.two_phase().rollback("again").unwrap();
        }
        if round % 3 == 2 {
            disk = lose_power(&disk, database);
            database = open(&disk);
        }
        assert_eq!(get(&database, "key"), Some((round / 2 * 2).to_string()));
    }
    check_and_close(database);
}

/// The pages are as they were written, and yet the transactions are not those that the superblock counts.
#[test]
fn a_check_finds_what_keeps_a_database_with_transactions_in_doubt_from_opening() {
    let disk = SimulatedDisk::new(11);
    let database = open(&disk);
    let table = database.create_table("t").unwrap();
    let mut transaction = database.begin();
    transaction.put(&table, "long", [1; 5_000]).unwrap();
    transaction.prepare("long").unwrap();
    prepare(&database, "short", &[("a", "1")]);
    database.checkpoint().unwrap();
    database.check(&mut |damage| panic!("{damage}")).unwrap();
    let left = lose_power(&disk, database);
    for counted in [2, 1] {
        {
            let (file, superblock, _) = SuperblockFile::open(&left, seawall_io::OpenMode::Write).unwrap();
            let mut file = file;
            for _ in 0..2 {
                file.store(&Superblock { in_doubt: counted, ..superblock.clone() }).unwrap();
            }
        }
        let environment = Environment {
            disk: Arc::new(left.clone()),
            clock: Arc::new(SimulatedClock::default()),
            random: Arc::new(SimulatedRandom::new(1)),
        };
        let mut damages = Vec::new();
        let report = &mut |damage: seawall_engine::Damage| damages.push(damage.to_string());
        DatabaseDirectory::at(environment).check(options(), report).unwrap();
        if counted == 2 {
            assert!(damages.is_empty(), "{damages:?}");
        } else {
            assert_eq!(damages, ["prepared transactions: 2 are in the tree, and 1 by the superblock"]);
        }
    }
}
