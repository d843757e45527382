//! A standby gives back the space of dropped tables while it follows, and takes nothing that a load of its primary still fills.
#![allow(clippy::unwrap_used, reason = "a test that fails panics")]

mod common;

use common::following::Following;
use common::small_options;
use seawall_crash_harness::open;
use seawall_engine::{Database, Error, Isolation, LockWait, Options, Transaction, TransactionOptions};
use seawall_simulation::{Fault, FaultError, FaultTarget, PowerLoss};

const ROWS: u32 = 3_000;

/// A part of a transaction's rows has some hundred.
fn options() -> Options {
    let mut options = small_options();
    options.memory.memtable_bytes = 512 << 10;
    options.memory.transaction_bytes = 256 << 10;
    options.memory.all_transactions_bytes = 1 << 20;
    options
}

/// All rows in the tree, also those that no table has.
fn rows_in_tree(database: &Database) -> u64 {
    database.check(&mut |damage| panic!("{damage}")).unwrap().rows
}

fn count(database: &Database, name: &str) -> usize {
    let database = database.new_session();
    let snapshot = database.snapshot();
    let table = snapshot.table(name).unwrap();
    snapshot.rows(&table).map(Result::unwrap).count()
}

fn fill(database: &Database, name: &str) {
    let table = database.create_table(name).unwrap();
    for row in 0..ROWS {
        database.put(&table, row.to_be_bytes(), [7; 100]).unwrap();
    }
}

/// Both have merged all they have, and hold the same rows.
fn assert_same_rows_in_trees(pair: &mut Following, place: &str) {
    for _ in 0..3 {
        pair.primary.checkpoint().unwrap();
        pair.catch_up();
        pair.standby.standby().unwrap().checkpoint().unwrap();
    }
    pair.primary.checkpoint().unwrap();
    assert_eq!(rows_in_tree(&pair.standby), rows_in_tree(&pair.primary), "{place}");
}

#[test]
fn dropped_and_truncated_tables_leave_the_tree_of_a_standby_that_follows() {
    let mut pair = Following::with(options());
    for round in 1..=3 {
        fill(&pair.primary, "dropped");
        pair.primary.open_or_create_table("truncated").unwrap();
        let table = pair.primary.table("truncated").unwrap();
        for row in 0..ROWS {
            pair.primary.put(&table, row.to_be_bytes(), [7; 100]).unwrap();
        }
        pair.catch_up();
        pair.standby.standby().unwrap().checkpoint().unwrap();
        assert!(rows_in_tree(&pair.standby) >= 2 * u64::from(ROWS));
        let snapshot = pair.standby.snapshot();
        pair.primary.tables().drop("dropped").unwrap();
        pair.primary.tables().truncate("truncated").unwrap();
        pair.catch_up();
        pair.standby.standby().unwrap().checkpoint().unwrap();
        // A snapshot of the standby holds them, as one of the primary would.
        let table = snapshot.table("dropped").unwrap();
        assert_eq!(snapshot.rows(&table).map(Result::unwrap).count(), 3_000, "round {round}");
        drop(snapshot);
        pair.standby.standby().unwrap().checkpoint().unwrap();
        let left = rows_in_tree(&pair.standby);
        assert!(left < 100, "round {round}: {left} rows are left");
        assert_eq!(pair.standby.statistics().reclaim.waiting, Some(0), "round {round}");
        pair.restart_standby(PowerLoss::LoseAll);
        assert_eq!(pair.standby.statistics().reclaim.waiting, Some(0), "round {round}, after a power loss");
    }
    assert_same_rows_in_trees(&mut pair, "in the end");
}

/// What becomes of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Commit,
    Rollback,
    PrimaryCrashes,
}

fn begin(database: &Database) -> Transaction {
    let options = TransactionOptions {
        isolation: Isolation::ReadCommitted,
        lock_wait: LockWait::NoWait,
        ..TransactionOptions::default()
    };
    database.with(options).begin()
}

/// A transaction of the primary logs its rows in parts; between them the standby merges what it has, and may lose power.
fn load_in_parts(fate: Fate, loses_standby: bool) {
    let place = format!("{fate:?}, standby loses power: {loses_standby}");
    let mut pair = Following::with(options());
    let mut transaction = begin(&pair.primary);
    let table = transaction.create_table("loaded").unwrap();
    for row in 0..ROWS {
        transaction.put(&table, row.to_be_bytes(), [7; 100]).unwrap();
        if row % 1_000 == 999 {
            pair.catch_up();
            pair.standby.standby().unwrap().checkpoint().unwrap();
            if loses_standby {
                pair.restart_standby(PowerLoss::LoseAll);
            }
        }
    }
    assert!(rows_in_tree(&pair.standby) > 500, "{place}: the parts are in the tree");
    match fate {
        Fate::Commit => drop(transaction.commit().unwrap()),
        Fate::Rollback => transaction.rollback(),
        Fate::PrimaryCrashes => {
            pair.restart_primary();
            drop(transaction);
        }
    }
    assert_same_rows_in_trees(&mut pair, &place);
    if fate == Fate::Commit {
        assert_eq!(count(&pair.standby, "loaded"), 3_000, "{place}");
    } else {
        assert!(matches!(pair.standby.table("loaded"), Err(Error::NoSuchTable { .. })), "{place}");
        assert!(rows_in_tree(&pair.standby) < 100, "{place}");
    }
}

#[test]
fn a_load_of_the_primary_keeps_its_storage_on_the_standby_until_its_fate_is_known() {
    for fate in [Fate::Commit, Fate::Rollback, Fate::PrimaryCrashes] {
        load_in_parts(fate, false);
        load_in_parts(fate, true);
    }
}

#[test]
fn a_bulk_load_that_is_given_up_leaves_nothing_on_a_standby() {
    let mut pair = Following::with(options());
    let mut load = pair.primary.tables().bulk_load("kept").unwrap();
    for row in 0..ROWS {
        load.add(row.to_be_bytes(), [7; 100]).unwrap();
    }
    let mut given_up = pair.primary.tables().bulk_load("given up").unwrap();
    given_up.add(b"k", b"v").unwrap();
    pair.catch_up();
    pair.standby.standby().unwrap().checkpoint().unwrap();
    load.finish().unwrap();
    drop(given_up);
    assert_same_rows_in_trees(&mut pair, "both loads have ended");
    assert_eq!(count(&pair.standby, "kept"), 3_000);
    assert_eq!(pair.standby.statistics().reclaim.waiting, Some(0));
}

#[test]
fn a_storage_that_is_being_filled_is_given_back_after_a_promotion() {
    let mut pair = Following::with(options());
    let mut transaction = begin(&pair.primary);
    let table = transaction.create_table("loaded").unwrap();
    (0..ROWS).for_each(|row| transaction.put(&table, row.to_be_bytes(), [7; 100]).unwrap());
    pair.catch_up();
    pair.standby.standby().unwrap().checkpoint().unwrap();
    pair.primary_disk.crash();
    pair.standby.standby().unwrap().promote("the primary is lost").unwrap();
    for _ in 0..3 {
        pair.standby.checkpoint().unwrap();
    }
    assert!(rows_in_tree(&pair.standby) < 100);
    drop(transaction);
}

/// The primary has cut a table out, and the standby that was promoted has not: a replay goes by its own list.
#[test]
fn a_replay_after_a_promotion_gives_back_what_only_the_former_primary_had_cut_out() {
    let mut pair = Following::with(options());
    fill(&pair.primary, "dropped");
    pair.catch_up();
    pair.standby.standby().unwrap().checkpoint().unwrap();
    pair.primary.tables().drop("dropped").unwrap();
    for _ in 0..3 {
        pair.primary.checkpoint().unwrap();
    }
    pair.catch_up();
    pair.standby.standby().unwrap().promote("test").unwrap();
    let left = pair.standby_disk.after_power_loss(PowerLoss::LoseAll);
    pair.standby_disk.crash();
    let database = open(&left, &options());
    for _ in 0..3 {
        database.checkpoint().unwrap();
    }
    let rows = rows_in_tree(&database);
    assert!(rows < 100, "{rows} rows are left");
}

fn no_space(call: u64) -> Fault {
    Fault { target: FaultTarget::Call(call), error: FaultError::Number(28), skip: 0, count: 1 }
}

/// A full disk ends a checkpoint in each of its calls; the next attempt still knows what it had cut out.
#[test]
fn a_checkpoint_that_fails_in_any_call_loses_no_storage() {
    let mut call = 0;
    let mut retried = 0;
    loop {
        let mut pair = Following::with(options());
        fill(&pair.primary, "dropped");
        pair.catch_up();
        pair.standby.standby().unwrap().checkpoint().unwrap();
        // Rows of the table are in the memtable that the failing checkpoint merges, too.
        let table = pair.primary.table("dropped").unwrap();
        for row in 0..200_u32 {
            pair.primary.put(&table, ((1 << 20) | row).to_be_bytes(), [8; 100]).unwrap();
        }
        pair.primary.tables().drop("dropped").unwrap();
        pair.catch_up();
        let before = pair.standby_disk.calls();
        pair.standby_disk.inject(no_space(before + call));
        let standby = pair.standby.standby().unwrap();
        let failed = standby.checkpoint();
        pair.standby_disk.clear_faults();
        let calls = pair.standby_disk.calls() - before;
        if failed.is_err() && !pair.standby.statistics().stopped {
            retried += 1;
            for _ in 0..2 {
                standby.checkpoint().unwrap();
            }
            let rows = rows_in_tree(&pair.standby);
            assert!(rows < 100, "no space in call {call}: {rows} rows are left");
        }
        if failed.is_ok() && call >= calls {
            break;
        }
        call += 1;
    }
    assert!(retried > 0, "no checkpoint could be tried again");
}
