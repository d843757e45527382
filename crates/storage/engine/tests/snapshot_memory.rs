//! Old snapshots hold memory up to a limit; then the oldest is cancelled, and never shows a wrong row.
#![expect(clippy::unwrap_used, reason = "a test that fails panics")]

mod common;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use seawall_engine::{Database, Error, Isolation, Options, Snapshot, Table, TransactionOptions};
use seawall_simulation::SimulatedDisk;
use seawall_testing::SetWhenDropped;

const ROWS: u32 = 1000;

fn options() -> Options {
    let mut options = common::small_options();
    options.memory.memtable_bytes = 4 << 20;
    options.memory.snapshot_bytes = 1 << 20;
    options
}

fn open(options: Options) -> (Database, Table) {
    let database = common::try_open(&SimulatedDisk::new(1), options).unwrap();
    let table = database.create_table("t").unwrap();
    (database, table)
}

/// All rows get this value, and go into the tree.
fn write_round(database: &Database, table: &Table, round: u64) {
    let mut transaction = database.begin();
    for row in 0..ROWS {
        transaction.put(table, row.to_be_bytes(), value(round)).unwrap();
    }
    transaction.commit().unwrap();
    database.checkpoint().unwrap();
}

fn value(round: u64) -> [u8; 200] {
    let mut value = [7; 200];
    value[..8].copy_from_slice(&round.to_be_bytes());
    value
}

fn is_cancelled<T: std::fmt::Debug>(result: &Result<T, Error>) -> bool {
    match result {
        Err(error @ Error::SnapshotCancelled { limit, .. }) => {
            assert!(error.is_retryable() && error.to_string().contains(&limit.to_string()), "{error}");
            true
        }
        _ => false,
    }
}

#[test]
fn the_oldest_snapshot_is_cancelled_and_the_others_see_what_they_saw() {
    let (database, table) = open(options());
    write_round(&database, &table, 0);
    let mut snapshots: Vec<(u64, Snapshot)> = Vec::new();
    let mut cancelled_before = 0;
    for round in 1..20 {
        snapshots.push((round - 1, database.snapshot()));
        write_round(&database, &table, round);
        let statistics = database.statistics();
        assert!(statistics.snapshots.memory_bytes <= 1 << 20, "{}", statistics.snapshots.memory_bytes);
        let cancelled = snapshots.iter().filter(|(_, held)| is_cancelled(&held.get(&table, [0; 4]))).count();
        assert_eq!(u64::try_from(cancelled).unwrap(), statistics.snapshots.cancelled);
        assert!(cancelled >= cancelled_before && cancelled < snapshots.len(), "one at a time, none too many");
        cancelled_before = cancelled;
        // The oldest ones, and no other.
        for (seen, snapshot) in &snapshots[cancelled..] {
            assert_eq!(snapshot.get(&table, 5_u32.to_be_bytes()).unwrap().unwrap(), value(*seen));
            let rows: Vec<_> = snapshot.range::<&[u8]>(&table, ..).map(Result::unwrap).collect();
            assert!(rows.len() == 1000 && rows.iter().all(|(_, row)| *row == value(*seen)), "round {seen}");
        }
        for (_, snapshot) in &snapshots[..cancelled] {
            assert!(is_cancelled(&snapshot.range::<&[u8]>(&table, ..).next().unwrap()));
            assert!(is_cancelled(&snapshot.table("t")));
        }
    }
    assert!(cancelled_before > 10, "{cancelled_before}");
    assert_eq!(
        database.get(&table, 5_u32.to_be_bytes()).unwrap().unwrap(),
        value(19),
        "the present is not affected"
    );
    drop(snapshots);
    database.checkpoint().unwrap();
    assert_eq!(database.statistics().snapshots.memory_bytes, 0);
    database.check(&mut |damage| panic!("{damage}")).unwrap();
}

#[test]
fn an_iterator_under_way_and_a_transaction_that_wrote_get_the_error() {
    let (database, table) = open(options().with(|options| options.memory.snapshot_bytes = 0));
    let other = database.create_table("other").unwrap();
    write_round(&database, &table, 0);
    let snapshot = database.snapshot();
    let mut rows = snapshot.range::<&[u8]>(&table, ..);
    assert_eq!(rows.next().unwrap().unwrap().1, value(0));
    let begin = |isolation| {
        let options = TransactionOptions { isolation, ..options().transaction };
        let mut transaction = database.with(options).begin();
        transaction.get(&table, 0_u32.to_be_bytes()).unwrap();
        transaction.put(&other, format!("{isolation:?}"), "w").unwrap();
        transaction
    };
    let mut writer = begin(Isolation::Snapshot);
    let idle = begin(Isolation::Serializable);
    let unaffected = begin(Isolation::ReadCommitted);
    write_round(&database, &table, 1);
    assert!(is_cancelled(&writer.put(&other, "l", "x")));
    assert!(is_cancelled(&writer.commit()));
    assert!(is_cancelled(&idle.commit()), "even if it only wants to commit");
    unaffected.commit().unwrap();
    assert_eq!(database.get(&other, "Snapshot").unwrap(), None);
    // Rows of the leaf at hand are given out as they were; then the iterator meets the error, and ends.
    let rest: Vec<_> = rows.by_ref().collect();
    let (last, before) = rest.split_last().unwrap();
    assert!(is_cancelled(last));
    assert!(before.iter().all(|row| row.as_ref().unwrap().1 == value(0)) && before.len() < 200);
    assert!(rows.next().is_none());
    assert_eq!(database.statistics().snapshots.oldest, None);
    // A closure that is run again gets through.
    let mut tries = 0;
    let seen = database.transact(|transaction| {
        tries += 1;
        transaction.get(&table, 0_u32.to_be_bytes())?;
        if tries == 1 {
            write_round(&database, &table, 2);
        }
        transaction.get(&table, 1_u32.to_be_bytes())
    });
    assert_eq!((seen.unwrap().unwrap(), tries), (value(2).to_vec(), 2));
}

#[test]
fn a_statement_whose_snapshot_was_cancelled_fails_and_the_next_one_of_the_transaction_does_not() {
    let (database, table) = open(options().with(|options| options.memory.snapshot_bytes = 0));
    write_round(&database, &table, 0);
    let options = TransactionOptions { isolation: Isolation::ReadCommitted, ..options().transaction };
    let mut transaction = database.with(options).begin();
    transaction.begin_statement().unwrap();
    write_round(&database, &table, 1);
    assert!(is_cancelled(&transaction.get(&table, 0_u32.to_be_bytes())));
    assert!(is_cancelled(&transaction.rows(&table).next().unwrap()));
    transaction.begin_statement().unwrap();
    assert_eq!(transaction.get(&table, 0_u32.to_be_bytes()).unwrap().unwrap(), value(1));
    transaction.put(&table, 0_u32.to_be_bytes(), value(2)).unwrap();
    transaction.commit().unwrap();
}

/// Rows are overwritten all the time; what a cancelled snapshot saw may be written again. No reader sees a byte of that.
#[test]
fn readers_see_the_right_row_or_the_error_while_snapshots_are_cancelled() {
    let (database, table) = open(options().with(|options| options.memory.snapshot_bytes = 64 << 10));
    write_round(&database, &table, 0);
    let (stop, cancelled, read) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for reader in 0..3_u32 {
            let (database, table, stop, cancelled, read) = (&database, &table, &stop, &cancelled, &read);
            scope.spawn(move || {
                while !stop.load(Ordering::SeqCst) {
                    let snapshot = database.snapshot();
                    let first = snapshot.get(table, reader.to_be_bytes());
                    for row in (0..ROWS).cycle().step_by(7) {
                        let Ok(first) = &first else { break };
                        match snapshot.get(table, row.to_be_bytes()) {
                            Ok(value) => assert_eq!(&value, first, "all rows of a round are alike"),
                            other => {
                                assert!(is_cancelled(&other), "{other:?}");
                                cancelled.fetch_add(1, Ordering::SeqCst);
                                break;
                            }
                        }
                        read.fetch_add(1, Ordering::SeqCst);
                        if stop.load(Ordering::SeqCst) {
                            break;
                        }
                    }
                }
            });
        }
        for round in 1..60 {
            write_round(&database, &table, round);
        }
        stop.store(true, Ordering::SeqCst);
    });
    assert!(
        cancelled.load(Ordering::SeqCst) > 10 && read.load(Ordering::SeqCst) > 1000,
        "{cancelled:?} {read:?}"
    );
}

/// A merge keeps what it replaces in the tree for older snapshots. Tombstones for long values fill no chunk, so a merge may
/// replace very much before it ends.
#[test]
fn while_a_merge_runs_no_more_of_what_it_replaces_is_kept_than_the_limit_allows() {
    let (database, table) = open(options().with(|options| options.memory.memtable_bytes = 8 << 20));
    let rows = 400_u32;
    let long = vec![7; 64 << 10];
    for row in 0..rows {
        database.put(&table, row.to_be_bytes(), &long).unwrap();
    }
    database.checkpoint().unwrap();
    let snapshots = [database.snapshot(), database.snapshot()];
    let mut transaction = database.begin();
    for row in 0..rows {
        transaction.delete(&table, row.to_be_bytes()).unwrap();
    }
    transaction.commit().unwrap();
    let before = database.statistics().memtable.bytes;
    let is_done = AtomicBool::new(false);
    let most = std::thread::scope(|scope| {
        let sampler = scope.spawn(|| {
            let mut most = (0, 0);
            while !is_done.load(Ordering::SeqCst) {
                let statistics = database.statistics();
                most.0 = statistics.memtable.bytes.max(most.0);
                most.1 = statistics.snapshots.memory_bytes.max(most.1);
            }
            most
        });
        database.checkpoint().unwrap();
        is_done.store(true, Ordering::SeqCst);
        sampler.join().unwrap()
    });
    assert!(most.0 <= before + (2 << 20), "{} bytes of memtables during the merge, {before} before", most.0);
    assert!(most.1 <= 1 << 20, "{} bytes kept", most.1);
    for snapshot in &snapshots {
        assert!(is_cancelled(&snapshot.get(&table, [0; 4])));
    }
    assert_eq!(database.get(&table, 5_u32.to_be_bytes()).unwrap(), None);
    assert_eq!(database.snapshot().get(&table, 6_u32.to_be_bytes()).unwrap(), None);
}

/// What two snapshots and a transaction see of rows that change between checkpoints, however many of them there are.
#[test]
fn many_small_checkpoints_leave_few_memtables_and_old_snapshots_see_what_they_saw() {
    let (database, table) = open(options().with(|options| options.memory.snapshot_bytes = 16 << 20));
    write_round(&database, &table, 0);
    let oldest = database.snapshot();
    let mut writer = database.begin();
    assert_eq!(writer.get(&table, 3_u32.to_be_bytes()).unwrap().unwrap(), value(0));
    let mut middle = None;
    for round in 1..200_u64 {
        let mut transaction = database.begin();
        for row in 0..20_u32 {
            let row = (u32::try_from(round).unwrap() * 20 + row) % 500;
            transaction.put(&table, row.to_be_bytes(), value(round)).unwrap();
        }
        transaction.commit().unwrap();
        database.checkpoint().unwrap();
        if round == 110 {
            let rows = database.snapshot().range::<&[u8]>(&table, ..).map(Result::unwrap).collect::<Vec<_>>();
            middle = Some((database.snapshot(), rows));
        }
        let kept = database.statistics().memtable.frozen;
        assert!(kept <= 12, "{kept} memtables after {round} rounds");
    }
    let rows = oldest.range::<&[u8]>(&table, ..).map(Result::unwrap);
    assert_eq!(rows.filter(|(_, row)| *row == value(0)).count(), 1000);
    assert_eq!(oldest.get(&table, 17_u32.to_be_bytes()).unwrap().unwrap(), value(0));
    let (middle, before) = middle.unwrap();
    assert_eq!(middle.range::<&[u8]>(&table, ..).map(Result::unwrap).collect::<Vec<_>>(), before);
    assert!(matches!(writer.put(&table, 3_u32.to_be_bytes(), "w"), Err(Error::Conflict { .. })));
    assert_eq!(database.statistics().snapshots.cancelled, 0);
    drop((oldest, writer, middle));
    database.checkpoint().unwrap();
    assert_eq!(database.statistics().snapshots.memory_bytes, 0);
    database.check(&mut |damage| panic!("{damage}")).unwrap();
}

/// A load reads what it has loaded in order once a row comes out of order.
#[test]
fn a_bulk_load_needs_no_memory_for_snapshots_however_many_checkpoints_end_meanwhile() {
    let (database, table) = open(options().with(|options| {
        options.memory.snapshot_bytes = 0;
        options.memory.memtable_bytes = 256 << 10;
    }));
    let (is_done, checkpoints) = (AtomicBool::new(false), AtomicU64::new(0));
    let rows = 50_000_u32;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::SeqCst) {
                let number = checkpoints.load(Ordering::SeqCst);
                database.put(&table, "row", number.to_be_bytes()).unwrap();
                database.checkpoint().unwrap();
                checkpoints.store(number + 1, Ordering::SeqCst);
            }
        });
        let ends = SetWhenDropped(&is_done);
        let mut load = database.tables().bulk_load("loaded").unwrap();
        for row in 1..rows {
            load.add(row.to_be_bytes(), [7; 60]).unwrap();
        }
        seawall_testing::wait_until("checkpoints", || checkpoints.load(Ordering::SeqCst) > 10);
        load.add(0_u32.to_be_bytes(), [8; 60]).unwrap();
        load.add(5_u32.to_be_bytes(), [8; 60]).unwrap();
        let loaded = load.finish();
        drop(ends);
        let loaded = loaded.unwrap();
        let snapshot = database.snapshot();
        let mut found = 0_u32;
        for row in snapshot.rows(&loaded) {
            let (key, value) = row.unwrap();
            assert_eq!(*key, found.to_be_bytes());
            assert_eq!(value, if found == 0 || found == 5 { [8; 60] } else { [7; 60] });
            found += 1;
        }
        assert_eq!(found, rows);
    });
    database.check(&mut |damage| panic!("{damage}")).unwrap();
}

/// Drops, truncations and updates that arrive cancel nobody; what old snapshots need beyond the limit does, as on a primary.
#[test]
fn what_a_standby_receives_cancels_a_snapshot_by_the_limit_of_memory_alone() {
    let mut following = common::following::Following::with(options());
    let primary = following.primary.clone();
    let (table, gone) = (primary.create_table("t").unwrap(), primary.create_table("gone").unwrap());
    write_round(&primary, &table, 0);
    primary.put(&gone, b"k", b"v").unwrap();
    following.catch_up();
    let standby = following.standby.clone();
    standby.standby().unwrap().checkpoint().unwrap();
    let (seen, dropped) = (standby.table("t").unwrap(), standby.table("gone").unwrap());
    let old = standby.snapshot();
    primary.tables().drop("gone").unwrap();
    write_round(&primary, &table, 1);
    following.catch_up();
    standby.standby().unwrap().checkpoint().unwrap();
    assert_eq!(old.get(&seen, [0; 4]).unwrap().unwrap(), value(0));
    assert_eq!(old.get(&dropped, b"k").unwrap().unwrap(), b"v");
    let mut snapshots = vec![(1, standby.snapshot())];
    for round in 2..20 {
        write_round(&primary, &table, round);
        following.catch_up();
        standby.standby().unwrap().checkpoint().unwrap();
        snapshots.push((round, standby.snapshot()));
    }
    assert!(is_cancelled(&old.get(&seen, [0; 4])));
    assert!(standby.statistics().snapshots.memory_bytes <= 1 << 20);
    for (round, snapshot) in &snapshots {
        let read = snapshot.get(&seen, [0; 4]);
        assert!(is_cancelled(&read) || read.unwrap().unwrap() == value(*round), "round {round}");
    }
    let (round, newest) = snapshots.last().unwrap();
    assert_eq!(newest.get(&seen, [0; 4]).unwrap().unwrap(), value(*round));
}
