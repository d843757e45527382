//! The numbered invariants of the design, as far as one node goes: each has a test here that names it. The campaigns
//! behind them are in `crash`, `faults`, `damage`, `model` and `isolation`.
#![allow(clippy::unwrap_used, reason = "a test that fails panics")]

use std::collections::BTreeMap;
use std::sync::Arc;

use seawall_engine::{Database, Durability, Error, Options, Table};
use seawall_simulation::{
    Call, Fault, FaultError, FaultTarget, Operation, Operations, PowerLoss, SimulatedDisk,
};
use seawall_tree::{Tree, TreeAccess, TreeOptions};
use seawall_types::Lsn;

use seawall_crash_harness as harness;

use harness::plan::long_key;
use harness::progress::Progress;
use harness::recover::{check_clean, recover};
use harness::state::{Rows, State};
use harness::watched_disk::{CrashPoint, WatchedDisk};
use harness::{environment, open, small_options, template, try_open};

fn new_table(options: &Options) -> (SimulatedDisk, Database, Table) {
    let disk = template(options);
    let database = open(&disk, options);
    let table = database.create_table("t").unwrap();
    (disk, database, table)
}

fn lost(disk: &SimulatedDisk, options: &Options) -> Database {
    open(&disk.after_power_loss(PowerLoss::LoseAll), options)
}

fn rows(database: &Database) -> Rows {
    let table = database.table("t").unwrap();
    let snapshot = database.snapshot();
    let rows = snapshot.range::<&[u8]>(&table, ..).map(|row| row.map(|(key, value)| (key, value.into())));
    rows.collect::<Result<_, _>>().unwrap()
}

fn key(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

/// A database with a long checkpoint ahead of it, and every crash point of that checkpoint.
fn checkpoint_points(options: &Options) -> (State, Vec<CrashPoint>) {
    let disk = template(options);
    let mut state = State::default();
    let progress = Progress::shared(Arc::default());
    let watched = WatchedDisk::new(disk, Arc::clone(&progress));
    let database = Database::open(environment(watched.disk()), options.clone()).unwrap();
    let table = database.create_table("t").unwrap();
    let mut all = Rows::new();
    for round in 0..2_u8 {
        for number in 0..90 {
            let (key, value) = (long_key(number), vec![round; 120]);
            database.with(Durability::Async).put(&table, &key, &value).unwrap();
            all.insert(key, value.into());
        }
        if round == 0 {
            database.checkpoint().unwrap();
        }
    }
    database.create_table("late").unwrap();
    for number in 0..20 {
        database.with(Durability::Async).put(&table, key(number), "async").unwrap();
        all.insert(key(number).to_vec(), Arc::from(*b"async"));
    }
    state.tables.insert("late".to_owned(), Arc::default());
    state.tables.insert("t".to_owned(), Arc::new(all));
    watched.take_points();
    let statistics = database.checkpoint().unwrap();
    assert!(statistics.chunks >= 4, "{statistics:?}");
    (state, watched.take_points())
}

/// Where replay would start, and whether the tree itself has the catalog row of the table `late`.
fn tree_of(disk: &SimulatedDisk) -> (Lsn, bool) {
    let opened = Tree::open(disk, TreeAccess::Read, TreeOptions::default()).unwrap();
    let names = [&0_u64.to_be_bytes()[..], b"late"].concat();
    let found = opened.tree.get(&names).unwrap().is_some();
    (opened.superblock.redo_point, found)
}

#[test]
fn invariant_1_acknowledged_means_durable() {
    let options = small_options();
    let (disk, database, table) = new_table(&options);
    for number in 0..40 {
        database.put(&table, key(number), [3; 2000]).unwrap();
        assert_eq!(rows(&lost(&disk, &options)).len(), number as usize + 1);
    }
    // An asynchronous commit says that it is not durable yet.
    let stamp = database.with(Durability::Async).put(&table, key(99), "later").unwrap();
    assert!(database.statistics().log.flushed < stamp);
    assert_eq!(rows(&lost(&disk, &options)).len(), 40);
    assert!(database.flush().unwrap() >= stamp && database.statistics().log.flushed >= stamp);
    assert_eq!(rows(&lost(&disk, &options)).len(), 41);
}

#[test]
fn invariant_2_a_commit_is_there_whole_or_not_at_all() {
    let options = small_options();
    let (disk, database, table) = new_table(&options);
    database.put(&table, "before", "1").unwrap();
    drop(table);
    database.close().unwrap();
    let (mut whole, mut absent) = (0, 0);
    for crash in 0.. {
        let copy = disk.copy();
        let database = open(&copy, &options);
        let table = database.table("t").unwrap();
        copy.crash_at(copy.calls() + crash);
        let mut transaction = database.begin();
        for number in 0..30 {
            transaction.put(&table, key(number), [9; 6000]).unwrap();
        }
        transaction.delete(&table, "before").unwrap();
        let committed = transaction.commit().is_ok();
        for seed in 0..20 {
            let rows = rows(&open(&copy.after_power_loss(PowerLoss::Random(seed)), &options));
            match (rows.len(), rows.contains_key(&b"before"[..])) {
                (30, false) => whole += 1,
                (1, true) => {
                    assert!(!committed);
                    absent += 1;
                }
                other => panic!("crash in call {crash}, seed {seed}: {other:?}"),
            }
        }
        if committed {
            break;
        }
    }
    assert!(whole > 20 && absent > 40, "{whole} {absent}");
}

#[test]
fn invariant_3_recovery_restores_a_prefix_of_the_commit_order() {
    let options = small_options();
    let mut lengths = std::collections::BTreeSet::new();
    for seed in 0..60 {
        let (disk, database, table) = new_table(&options);
        for number in 0..30 {
            database.with(Durability::Async).put(&table, key(number), [1; 700]).unwrap();
        }
        // The power goes while all of them are written at once.
        disk.crash_at(disk.calls());
        assert!(database.flush().is_err());
        let rows = rows(&open(&disk.after_power_loss(PowerLoss::Random(seed)), &options));
        let expected: Vec<_> =
            (0..u32::try_from(rows.len()).unwrap()).map(|number| key(number).to_vec()).collect();
        assert_eq!(rows.into_keys().collect::<Vec<_>>(), expected, "seed {seed}");
        lengths.insert(expected.len());
    }
    assert!(lengths.len() >= 4 && lengths.range(1..30).count() >= 2, "torn in few ways only: {lengths:?}");
}

#[test]
fn invariant_4_no_page_holds_a_change_whose_record_is_not_durable() {
    let options = small_options();
    let (state, points) = checkpoint_points(&options);
    // As soon as a page is about to be written, the log alone has every commit that can be in it.
    let is_page_write =
        |point: &CrashPoint| point.call.contains("write pages") || point.call.contains("write recovery");
    let first = points.iter().position(is_page_write).expect("a checkpoint writes pages");
    assert!(
        points[..first].iter().any(|point| point.call.contains("write and sync log/")),
        "no flush before"
    );
    assert!(!points[first..].iter().any(|point| point.call.contains("write and sync log/")), "a flush after");
    for point in &points[first..] {
        for outcome in [PowerLoss::LoseAll, PowerLoss::KeepAll] {
            state.compare(&open(&point.disk.after_power_loss(outcome), &options)).unwrap();
        }
    }
}

#[test]
fn invariant_5_replay_onto_a_tree_that_has_some_of_the_changes_gives_the_same_state() {
    let options = small_options();
    let (state, points) = checkpoint_points(&options);
    let (mut old, mut new) = (0, 0);
    let redo_points: std::collections::BTreeSet<Lsn> =
        points.iter().map(|point| tree_of(&point.disk.after_power_loss(PowerLoss::KeepAll)).0).collect();
    assert_eq!(redo_points.len(), 2, "the redo point moves once");
    for point in points.iter().filter(|point| !point.call.contains("log/")) {
        let disk = point.disk.after_power_loss(PowerLoss::KeepAll);
        let redo_point = tree_of(&disk).0;
        if redo_point == *redo_points.first().unwrap() {
            old += 1
        } else {
            new += 1
        }
        // Replayed, merged again from the start, and replayed once more.
        for _ in 0..2 {
            let database = open(&disk, &options);
            assert!(database.statistics().recovery.redo_point >= redo_point);
            state.compare(&database).unwrap();
            disk.crash_at(disk.calls() + 20);
            drop(database);
            let again = disk.after_power_loss(PowerLoss::LoseAll);
            state.compare(&open(&again, &options)).unwrap();
            disk.crash_at(u64::MAX);
            if disk.crashed() {
                break;
            }
        }
    }
    assert!(old > 10 && new > 1, "{old} with the old redo point, {new} with the new one");
}

#[test]
fn invariant_6_the_tree_is_valid_after_any_crash() {
    let options = small_options();
    let (state, points) = checkpoint_points(&options);
    for point in &points {
        for outcome in [PowerLoss::LoseAll, PowerLoss::KeepAll, PowerLoss::Random(point.index)] {
            let disk = point.disk.after_power_loss(outcome);
            let database = open(&disk, &options);
            check_clean(&database);
            if !point.call.contains("log/") {
                state.compare(&database).unwrap();
            }
            disk.crash();
        }
    }
}

#[test]
fn invariant_7_the_system_keyspace_moves_with_the_redo_point() {
    let options = small_options();
    let (_, points) = checkpoint_points(&options);
    let before = tree_of(&points[0].disk.after_power_loss(PowerLoss::LoseAll)).0;
    let mut moved = 0;
    for point in &points {
        for outcome in [PowerLoss::LoseAll, PowerLoss::KeepAll, PowerLoss::Random(point.index)] {
            let (redo_point, has_row) = tree_of(&point.disk.after_power_loss(outcome));
            assert_eq!(redo_point > before, has_row, "{}, {outcome:?}", point.call);
            moved += u32::from(has_row);
        }
    }
    assert!(moved > 3);
}

#[test]
fn invariant_8_readers_see_complete_commits_in_order_and_as_durable_as_they_asked() {
    let options = small_options();
    let watched = WatchedDisk::new(template(&options), Progress::shared(Arc::default()));
    let database = Database::open(environment(watched.disk()), options.clone()).unwrap();
    let table = database.create_table("t").unwrap();
    let old = database.snapshot();
    database.with(Durability::Async).put(&table, "first", "async").unwrap();
    assert_eq!(rows(&database).len(), 1, "an asynchronous commit is visible at once");
    // While the log is being written, the asynchronous commit is there and the synchronous one behind it is not.
    let seen = Arc::new(seawall_sync::Mutex::new(Vec::new()));
    let reader = (database.clone(), Arc::clone(&seen));
    watched.observe(Some(Arc::new(move |call| {
        if call.contains("write and sync") {
            reader.1.lock().push(rows(&reader.0).len());
        }
    })));
    let mut transaction = database.begin();
    transaction.put(&table, "second", "sync").unwrap();
    transaction.put(&table, "third", "sync").unwrap();
    transaction.commit().unwrap();
    watched.observe(None);
    assert_eq!(*seen.lock(), [1]);
    // Whoever was told of a commit sees it; a snapshot stays as it was.
    assert_eq!(rows(&database).len(), 3);
    assert_eq!(old.range::<&[u8]>(&table, ..).count(), 0);
    database.checkpoint().unwrap();
    assert_eq!(old.range::<&[u8]>(&table, ..).count(), 0);
    assert_eq!(rows(&database).len(), 3);
}

#[test]
fn invariant_9_old_records_in_a_recycled_segment_are_not_taken_for_new_ones() {
    let mut options = small_options();
    options.log.spare_segments = 3;
    let (disk, database, table) = new_table(&options);
    // Records of one size, so that in a recycled segment old ones begin where new ones end.
    let mut number = 0;
    let recycled = |database: &Database| database.statistics().segments.recycled;
    while recycled(&database) < 6 {
        for _ in 0..12 {
            database.put(&table, key(number), [5; 10_000]).unwrap();
            number += 1;
        }
        database.delete(&table, key(number - 1)).unwrap();
        database.checkpoint().unwrap();
        assert!(number < 2_000, "nothing is recycled");
    }
    let expected = rows(&database).len();
    for more in 1..30 {
        database.put(&table, key(number), [6; 10_000]).unwrap();
        number += 1;
        let crashed =
            disk.after_power_loss(if more % 2 == 0 { PowerLoss::LoseAll } else { PowerLoss::KeepAll });
        let found = rows(&open(&crashed, &options));
        assert_eq!(found.len(), expected + more);
        assert_eq!(&found[&key(number - 1)[..]][..], &[6; 10_000]);
    }
}

#[test]
fn invariant_10_a_damaged_log_is_not_a_short_log() {
    let options = small_options();
    let (disk, database, table) = new_table(&options);
    let stamps: Vec<Lsn> =
        (0..30).map(|number| database.put(&table, key(number), [4; 500]).unwrap()).collect();
    let crashed = disk.after_power_loss(PowerLoss::KeepAll);
    for (index, stamp) in stamps.iter().enumerate() {
        let damaged = crashed.copy();
        // A stamp is the end of its record; these lie in one segment.
        let offset = stamp.get() % options.format.segment_bytes;
        let path = format!("log/00000001{:016X}", stamp.get() / options.format.segment_bytes);
        damaged.flip_bit(&path, offset - 9, 2);
        match try_open(&damaged, &options) {
            Err(Error::Log { message }) => {
                assert!(index + 1 < stamps.len());
                // Stamp of the commit before: where the damaged record starts.
                let start = index.checked_sub(1).map(|before| stamps[before]);
                if let Some(start) = start {
                    assert!(message.contains(&start.to_string()), "{message}");
                    let at = format!("offset {}", start.get() % options.format.segment_bytes);
                    assert!(message.contains(&at) && message.contains(&path), "{message}");
                }
            }
            Ok(database) => {
                // Only the last flush has nothing behind it that says it was durable.
                assert_eq!(index + 1, stamps.len(), "record {index} was dropped in silence");
                assert_eq!(rows(&database).len(), index);
            }
            Err(other) => panic!("record {index}: {other}"),
        }
    }
}

#[test]
fn invariant_11_after_a_failed_sync_the_database_stops_writing_and_recovers_on_the_next_open() {
    let options = small_options();
    for prefix in ["log/", "pages", "recovery/", "superblock"] {
        let (disk, database, table) = new_table(&options);
        database.put(&table, "acknowledged", "1").unwrap();
        let target = FaultTarget::Path { prefix: prefix.to_owned(), operations: Operations::Syncs };
        disk.inject(Fault { target, error: FaultError::Number(5), skip: 0, count: 1 });
        let error = match prefix {
            "log/" => database.put(&table, "lost", "1").map(|_| ()),
            _ => database.checkpoint().map(|_| ()),
        };
        let Err(Error::Stopped { cause }) = error else { panic!("{prefix}: {error:?}") };
        assert!(cause.contains(prefix), "{cause}");
        for _ in 0..3 {
            assert!(matches!(database.put(&table, "k", "v"), Err(Error::Stopped { .. })));
            assert!(matches!(database.checkpoint(), Err(Error::Stopped { .. })));
            assert_eq!(database.get(&table, "acknowledged").unwrap().unwrap(), b"1");
        }
        disk.crash();
        drop(database);
        let mut state = State::default();
        let rows: Rows = [(b"acknowledged".to_vec(), Arc::from(*b"1"))].into();
        state.tables.insert("t".to_owned(), Arc::new(rows.clone()));
        let mut with_lost = state.clone();
        let rows = rows.into_iter().chain([(b"lost".to_vec(), Arc::from(*b"1"))]).collect();
        with_lost.tables.insert("t".to_owned(), Arc::new(rows));
        let candidates = [Arc::new(with_lost), Arc::new(state)];
        recover(&disk.copy(), &candidates, &options).unwrap();
        recover(&disk.after_power_loss(PowerLoss::LoseAll), &candidates, &options).unwrap();
    }
}

#[test]
fn invariant_12_every_byte_read_is_checked() {
    let options = small_options();
    let (disk, database, table) = new_table(&options);
    for number in 0..30 {
        database.put(&table, key(number), [number.to_le_bytes()[0]; 300]).unwrap();
    }
    database.checkpoint().unwrap();
    for number in 30..40 {
        database.put(&table, key(number), [number.to_le_bytes()[0]; 300]).unwrap();
    }
    let expected = rows(&database);
    let crashed = disk.after_power_loss(PowerLoss::KeepAll);
    let mut noticed = BTreeMap::<String, u32>::new();
    for entry in crashed.list_all() {
        let kind = entry.name.split('/').next().unwrap().to_owned();
        for offset in (0..entry.bytes.min(40_000)).step_by(487) {
            let damaged = crashed.copy();
            damaged.flip_bit(&entry.name, offset, 6);
            let place = format!("{} offset {offset}", entry.name);
            let database = match try_open(&damaged, &options) {
                Ok(database) => database,
                Err(error) => {
                    assert!(!matches!(error, Error::Io { .. }), "{place}: {error}");
                    *noticed.entry(kind.clone()).or_default() += 1;
                    continue;
                }
            };
            let table = database.table("t");
            let found = table.and_then(|table| {
                database.snapshot().range::<&[u8]>(&table, ..).collect::<Result<Vec<_>, _>>()
            });
            match found {
                Ok(found) => {
                    // The last record may have been torn by a crash: nothing tells that from damage.
                    let missing = expected.len() - found.len();
                    assert!(missing <= usize::from(kind == "log"), "{place}: {missing} rows are missing");
                    assert!(found.iter().all(|(key, value)| expected[key][..] == value[..]), "{place}");
                    let mut damages = 0;
                    database.check(&mut |_| damages += 1).unwrap();
                    *noticed.entry(kind.clone()).or_default() += u32::from(damages + missing > 0);
                }
                Err(Error::Tree { message }) => {
                    assert!(message.contains("pages") && message.contains("offset"), "{message}");
                    *noticed.entry(kind.clone()).or_default() += 1;
                }
                Err(other) => panic!("{place}: {other}"),
            }
            damaged.crash();
        }
    }
    println!("{noticed:?}");
    // Of the recovery file, whose chunk is in place, the other copy of what is damaged serves.
    for (kind, least) in [("log", 10), ("pages", 30), ("superblock", 10)] {
        assert!(noticed[kind] >= least, "of {kind}: {noticed:?}");
    }
}

/// A commit, written as a trace of disk calls: one durable write, no metadata.
#[test]
fn a_commit_is_one_durable_write() {
    let options = small_options();
    let (disk, database, table) = new_table(&options);
    let before = disk.calls();
    (0..5).for_each(|number| assert!(database.put(&table, key(number), "v").unwrap() > Lsn::ZERO));
    let trace: Vec<Call> = disk.trace().split_off(usize::try_from(before).unwrap());
    assert!(
        trace.iter().all(|call| call.operation == Operation::WriteDurable && call.path.starts_with("log/"))
    );
    assert_eq!(trace.len(), 5);
}
