//! Transactions that are larger than memory: rows of tables that they have created or truncated themselves.
#![expect(clippy::unwrap_used, reason = "a test that fails panics")]

mod common;

use seawall_engine::{
    Database, Direction, Error, Isolation, LockWait, Options, Savepoint, Table, Transaction,
    TransactionOptions,
};
use seawall_simulation::{PowerLoss, SeededRandom, SimulatedDisk, crash_step};
use std::collections::BTreeMap;

/// A part has some hundred rows.
fn options() -> Options {
    let mut options = common::small_options();
    options.memory.memtable_bytes = 512 << 10;
    options.memory.transaction_bytes = 256 << 10;
    // Scans copy what is not logged.
    options.memory.all_transactions_bytes = 1 << 20;
    options.memory.snapshot_bytes = 256 << 10;
    options
}

fn open(disk: &SimulatedDisk) -> Result<Database, Error> {
    common::try_open(disk, options())
}

fn begin(database: &Database, isolation: Isolation) -> Transaction {
    database
        .with(TransactionOptions { isolation, lock_wait: LockWait::NoWait, ..TransactionOptions::default() })
        .begin()
}

fn value(number: u32) -> [u8; 100] {
    let mut value = [7; 100];
    value[..4].copy_from_slice(&number.to_be_bytes());
    value
}

/// Four times what a transaction may take.
const ROWS: u32 = 5_000;

fn put_all(transaction: &mut Transaction, table: &Table) -> Result<(), Error> {
    // Not in the order of keys.
    (0..ROWS).try_for_each(|row| transaction.put(table, row.reverse_bits().to_be_bytes(), value(row)))
}

fn count(database: &Database, table: &Table) -> usize {
    database.snapshot().rows(table).map(Result::unwrap).count()
}

/// How many rows there are in the tree, those in runs included.
fn check(database: &Database) -> u64 {
    let summary = database.check(&mut |damage| panic!("{damage}")).unwrap();
    summary.rows + summary.run_rows
}

/// What nobody has is cut out.
fn assert_reclaimed(database: &Database, context: &str) {
    for _ in 0..3 {
        database.checkpoint().unwrap();
    }
    assert_eq!(database.statistics().reclaim.waiting, Some(0), "{context}: storages wait");
    assert!(check(database) < 20, "{context}: rows are left");
}

#[test]
fn a_load_of_any_size_fits_into_the_transaction_that_makes_its_table() {
    for isolation in [Isolation::ReadCommitted, Isolation::Snapshot, Isolation::Serializable] {
        let database = open(&SimulatedDisk::new(1)).unwrap();
        let old = database.create_table("old").unwrap();
        database.put(&old, "a", "1").unwrap();
        let mut transaction = begin(&database, isolation);
        assert_eq!(transaction.get(&old, "a").unwrap().unwrap(), b"1");
        let new = transaction.create_table("new").unwrap();
        put_all(&mut transaction, &new).unwrap();
        transaction.truncate_table("old").unwrap();
        put_all(&mut transaction, &old).unwrap();
        let taken = database.statistics().transactions.memory_bytes;
        assert!(taken <= 256 << 10, "{taken} bytes");
        assert_eq!(count(&database, &old), 1, "others see nothing before the commit");
        transaction.commit().unwrap();
        assert_eq!((count(&database, &old), count(&database, &new)), (ROWS as usize, ROWS as usize));
        for _ in 0..3 {
            database.checkpoint().unwrap();
        }
        assert_eq!(check(&database) / 10, 2 * u64::from(ROWS) / 10);
        assert_eq!(database.statistics().reclaim.waiting, Some(0));
        // Others write to it as to any other.
        database.put(&new, 7_u32.to_be_bytes(), "x").unwrap();
        database.delete(&new, 0_u32.to_be_bytes()).unwrap();
        assert_eq!(count(&database, &new), ROWS as usize);
    }
}

#[test]
fn a_load_that_is_rolled_back_leaves_nothing() {
    let database = open(&SimulatedDisk::new(1)).unwrap();
    let old = database.create_table("old").unwrap();
    database.put(&old, "a", "1").unwrap();
    let mut transaction = database.begin();
    let new = transaction.create_table("new").unwrap();
    put_all(&mut transaction, &new).unwrap();
    transaction.truncate_table("old").unwrap();
    put_all(&mut transaction, &old).unwrap();
    transaction.rollback();
    assert_eq!(count(&database, &old), 1);
    assert!(database.table("new").is_err());
    assert_reclaimed(&database, "rolled back");
    let mut transaction = database.begin();
    let new = transaction.create_table("new").unwrap();
    put_all(&mut transaction, &new).unwrap();
    transaction.truncate_table("new").unwrap();
    put_all(&mut transaction, &new).unwrap();
    transaction.drop_table("new").unwrap();
    transaction.commit().unwrap();
    assert_reclaimed(&database, "truncated and dropped");
}

/// What a transaction shows of its table, looked at in every way.
fn assert_shows(transaction: &mut Transaction, table: &Table, model: &BTreeMap<Vec<u8>, Vec<u8>>, seed: u64) {
    let mut scan = transaction.open_scan::<&[u8]>(table, .., Direction::Forward).unwrap();
    for (key, value) in model {
        let (found_key, found) = scan.next_row().unwrap().expect("a row is missing");
        assert_eq!((found_key, found), (&key[..], &value[..]), "seed {seed}");
    }
    assert!(scan.next_row().unwrap().is_none(), "seed {seed}");
    let reversed = transaction.range_reverse::<&[u8]>(table, ..).map(|row| row.unwrap().0);
    assert!(reversed.eq(model.keys().rev().cloned()), "seed {seed}");
    assert_finds(transaction, table, model, seed);
}

/// What a transaction shows of single rows of its table.
fn assert_finds(transaction: &mut Transaction, table: &Table, model: &BTreeMap<Vec<u8>, Vec<u8>>, seed: u64) {
    let mut random = SeededRandom::new(seed);
    let mut reader = transaction.open_reader(table).unwrap();
    for _ in 0..20 {
        let key = key_of(&mut random);
        let expected = model.get(&key);
        assert_eq!(transaction.get(table, &key).unwrap().as_ref(), expected, "seed {seed}");
        assert_eq!(reader.get_with(&key, |value| value.map(<[u8]>::to_vec)).unwrap().as_ref(), expected);
        let locked = transaction.lock_row(table, &key, LockWait::NoWait).unwrap();
        assert_eq!((locked.value.as_ref(), locked.changed), (expected, false), "seed {seed}");
        let exists = transaction.lock_existing_row(table, &key, LockWait::NoWait).unwrap();
        let found = transaction.lock_new_row(table, &key, LockWait::NoWait).unwrap();
        assert_eq!((exists, found.as_ref()), (expected.is_some(), expected), "seed {seed}");
    }
}

fn key_of(random: &mut SeededRandom) -> Vec<u8> {
    u32::try_from(random.index(3_000)).unwrap().to_be_bytes().to_vec()
}

#[test]
fn a_transaction_reads_what_it_has_logged_and_returns_to_its_savepoints() {
    type Saved = (Savepoint, BTreeMap<Vec<u8>, Vec<u8>>);
    for seed in 0..12 {
        let isolation = [Isolation::ReadCommitted, Isolation::Snapshot, Isolation::Serializable]
            [usize::try_from(seed % 3).unwrap()];
        let database = open(&SimulatedDisk::new(seed)).unwrap();
        let mut random = SeededRandom::new(seed);
        let mut transaction = begin(&database, isolation);
        let table = transaction.create_table("t").unwrap();
        let (mut model, mut saved): (BTreeMap<Vec<u8>, Vec<u8>>, Vec<Saved>) = Default::default();
        for step in 0..15_000 {
            let key = key_of(&mut random);
            match random.index(10) {
                0 => {
                    transaction.delete(&table, &key).unwrap();
                    model.remove(&key);
                }
                1 => {
                    let new = value(step);
                    let old = model.insert(key.clone(), new.to_vec());
                    transaction
                        .update(&table, &key, |current| {
                            assert_eq!(current, old.as_deref(), "seed {seed}, step {step}");
                            Some(new)
                        })
                        .unwrap();
                }
                2 => {
                    let existing = transaction.insert(&table, &key, value(step), LockWait::NoWait).unwrap();
                    assert_eq!(existing.as_ref(), model.get(&key), "seed {seed}, step {step}");
                    model.entry(key).or_insert_with(|| value(step).to_vec());
                }
                _ => {
                    transaction.put(&table, &key, value(step)).unwrap();
                    model.insert(key, value(step).to_vec());
                }
            }
            match random.index(3_000) {
                0 if saved.len() < 2 => {
                    saved.push((transaction.savepoint(), model.clone()));
                    // Made since the savepoint: gone, however much of it is logged.
                    if random.index(2) == 0 {
                        transaction.truncate_table("t").unwrap();
                        model.clear();
                    }
                }
                1..3 => {
                    if let Some((savepoint, then)) = saved.last() {
                        transaction.rollback_to(savepoint).unwrap();
                        model.clone_from(then);
                    }
                }
                3..5 => {
                    if let Some((savepoint, _)) = saved.pop() {
                        transaction.release(&savepoint).unwrap();
                    }
                }
                5..10 => assert_shows(&mut transaction, &table, &model, seed),
                10..12 => drop(database.checkpoint().unwrap()),
                _ => {}
            }
            // Rows under a savepoint that is older than the table's place stay in memory.
            if !saved.is_empty()
                && step % 400 == 0
                && let Some((savepoint, _)) = saved.pop()
            {
                transaction.release(&savepoint).unwrap();
            }
        }
        assert_shows(&mut transaction, &table, &model, seed);
        transaction.commit().unwrap();
        let rows: BTreeMap<_, _> = database.snapshot().rows(&table).map(Result::unwrap).collect();
        assert_eq!(rows, model, "seed {seed}");
        for _ in 0..3 {
            database.checkpoint().unwrap();
        }
        assert_eq!(database.statistics().reclaim.waiting, Some(0), "seed {seed}");
    }
}

#[test]
fn a_table_that_was_there_before_takes_any_number_of_rows_too() {
    type Saved = (Savepoint, BTreeMap<Vec<u8>, Vec<u8>>);
    for seed in 0..8 {
        let database = open(&SimulatedDisk::new(seed)).unwrap();
        let mut random = SeededRandom::new(seed);
        let table = database.create_table("t").unwrap();
        let mut model = BTreeMap::new();
        for row in 0..1_000_u32 {
            database.put(&table, (3 * row).to_be_bytes(), value(row)).unwrap();
            model.insert((3 * row).to_be_bytes().to_vec(), value(row).to_vec());
        }
        database.checkpoint().unwrap();
        let before = model.clone();
        let mut transaction = begin(&database, Isolation::ReadCommitted);
        let mut saved: Vec<Saved> = Vec::new();
        let mut times = 0;
        for step in 0..8_000 {
            if transaction.is_nearly_full() {
                transaction.take_over_table(&table).unwrap();
                times += 1;
                if saved.is_empty() {
                    assert_shows(&mut transaction, &table, &model, seed);
                }
            }
            let key = key_of(&mut random);
            match random.index(5) {
                0 => {
                    transaction.delete(&table, &key).unwrap();
                    model.remove(&key);
                }
                1 => {
                    let existing = transaction.insert(&table, &key, value(step), LockWait::NoWait).unwrap();
                    assert_eq!(existing.as_ref(), model.get(&key), "seed {seed}, step {step}");
                    model.entry(key).or_insert_with(|| value(step).to_vec());
                }
                _ => {
                    transaction.put(&table, &key, value(step)).unwrap();
                    model.insert(key, value(step).to_vec());
                }
            }
            match random.index(2_000) {
                0 if saved.is_empty() => saved.push((transaction.savepoint(), model.clone())),
                1..3 => {
                    if let Some((savepoint, then)) = saved.last() {
                        transaction.rollback_to(savepoint).unwrap();
                        model.clone_from(then);
                    }
                }
                3 => {
                    if let Some((savepoint, _)) = saved.pop() {
                        transaction.release(&savepoint).unwrap();
                    }
                }
                4..7 => assert_finds(&mut transaction, &table, &model, seed),
                7 => drop(database.checkpoint().unwrap()),
                _ => {}
            }
        }
        assert!(times > 0, "seed {seed}: it was never full");
        let seen: BTreeMap<_, _> = database.snapshot().rows(&table).map(Result::unwrap).collect();
        assert_eq!(seen, before, "seed {seed}: others see nothing of it");
        let is_committed = seed % 2 == 0;
        if is_committed {
            transaction.commit().unwrap();
        } else {
            transaction.rollback()
        }
        let rows: BTreeMap<_, _> = database.snapshot().rows(&table).map(Result::unwrap).collect();
        assert_eq!(rows, if is_committed { model } else { before }, "seed {seed}");
        for _ in 0..3 {
            database.checkpoint().unwrap();
        }
        assert_eq!(database.statistics().reclaim.waiting, Some(0), "seed {seed}");
        assert!(check(&database) < rows.len() as u64 + 20, "seed {seed}: rows are left");
    }
}

#[test]
fn a_row_that_others_changed_since_the_statement_is_told_also_of_a_table_that_was_taken_over() {
    let database = open(&SimulatedDisk::new(1)).unwrap();
    let table = database.create_table("t").unwrap();
    for row in 0..10_u8 {
        database.put(&table, [row], "1").unwrap();
    }
    let mut transaction = begin(&database, Isolation::ReadCommitted);
    transaction.begin_statement().unwrap();
    database.put(&table, [3], "2").unwrap();
    transaction.take_over_table(&table).unwrap();
    let mut lock = |row: u8| transaction.lock_row(&table, [row], LockWait::NoWait).unwrap();
    assert_eq!((lock(2).value.unwrap(), lock(2).changed), (b"1".to_vec(), false));
    assert_eq!((lock(3).value.unwrap(), lock(3).changed), (b"2".to_vec(), true));
    // Nobody may write to it now. If somebody does, the commit refuses to lose that.
    database.put(&table, [4], "3").unwrap();
    let refused = transaction.commit().unwrap_err();
    assert!(matches!(refused, Error::Conflict { .. }), "{refused}");
    assert_eq!(database.get(&table, [4]).unwrap().unwrap(), b"3");
}

#[test]
fn a_scan_under_way_meets_no_row_that_its_transaction_logs_later() {
    let database = open(&SimulatedDisk::new(1)).unwrap();
    let mut transaction = begin(&database, Isolation::ReadCommitted);
    let table = transaction.create_table("t").unwrap();
    put_all(&mut transaction, &table).unwrap();
    let mut scan = transaction.open_scan::<&[u8]>(&table, .., Direction::Forward).unwrap();
    let (mut met, mut cancelled) = (0, false);
    for number in 0.. {
        match scan.next_row() {
            Ok(Some((key, _))) => {
                let copy = [key, b"'"].concat();
                transaction.put(&table, copy, value(number)).unwrap();
                met += 1;
            }
            Ok(None) => break,
            Err(Error::SnapshotCancelled { .. }) => {
                cancelled = true;
                break;
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert!(cancelled || met == ROWS as usize, "{met} rows");
    println!("{met} rows, cancelled: {cancelled}");
}

/// Also one that was opened before the first part was logged, whatever checkpoints merge meanwhile.
#[test]
fn a_scan_of_few_rows_meets_no_row_of_a_part_that_is_logged_later() {
    let database = open(&SimulatedDisk::new(1)).unwrap();
    let mut transaction = begin(&database, Isolation::ReadCommitted);
    let table = transaction.create_table("t").unwrap();
    for row in 0..10_u32 {
        transaction.put(&table, row.to_be_bytes(), value(row)).unwrap();
    }
    let mut scan = transaction.open_scan::<&[u8]>(&table, .., Direction::Forward).unwrap();
    for row in 10..10 + ROWS {
        transaction.put(&table, row.to_be_bytes(), value(row)).unwrap();
    }
    database.checkpoint().unwrap();
    let mut met = 0;
    while let Some(row) = scan.next_row().transpose() {
        match row {
            Ok(_) => met += 1,
            Err(Error::SnapshotCancelled { .. }) => return,
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(met, 10);
}

#[test]
fn a_load_needs_no_memory_for_snapshots_however_many_checkpoints_end_meanwhile() {
    let database = open(&SimulatedDisk::new(1)).unwrap();
    let source = database.create_table("source").unwrap();
    for row in 0..20_u32 {
        database.put(&source, row.to_be_bytes(), "x").unwrap();
    }
    let snapshot = database.snapshot();
    let mut transaction = database.begin();
    transaction.begin_statement().unwrap();
    let table = transaction.create_table("t").unwrap();
    let mut scan = transaction.open_scan::<&[u8]>(&source, .., Direction::Forward).unwrap();
    let mut number = 0_u32;
    while scan.next_row().unwrap().is_some() {
        for _ in 0..1_000 {
            number += 1;
            transaction.put(&table, number.to_be_bytes(), value(number)).unwrap();
        }
    }
    assert!(
        transaction.get(&source, 3_u32.to_be_bytes()).unwrap().is_some(),
        "its statement sees what it saw"
    );
    transaction.commit().unwrap();
    assert_eq!(snapshot.rows(&source).map(Result::unwrap).count(), 20);
    assert_eq!(count(&database, &table), 20_000);
}

fn load(disk: &SimulatedDisk) -> Result<(), Error> {
    let database = open(disk)?;
    let mut transaction = begin(&database, Isolation::ReadCommitted);
    let new = transaction.create_table("new")?;
    put_all(&mut transaction, &new)?;
    transaction.truncate_table("old")?;
    let old = transaction.table("old")?;
    put_all(&mut transaction, &old)?;
    let more = transaction.table("more")?;
    transaction.put(&more, "b", "2")?;
    transaction.take_over_table(&more)?;
    (0..ROWS / 4).try_for_each(|row| transaction.put(&more, row.to_be_bytes(), value(row)))?;
    transaction.commit().map(drop)
}

#[test]
fn after_a_power_loss_at_any_moment_a_load_is_there_whole_or_leaves_no_row() {
    let empty = SimulatedDisk::new(1);
    let database = open(&empty).unwrap();
    let old = database.create_table("old").unwrap();
    database.put(&old, "a", "1").unwrap();
    let more = database.create_table("more").unwrap();
    database.put(&more, "a", "1").unwrap();
    database.close().unwrap();
    let whole = empty.copy();
    load(&whole).unwrap();
    let (calls, mut parts) = (whole.calls(), 0);
    for call in (0..calls).step_by(crash_step(calls, 100)) {
        let disk = empty.copy();
        disk.crash_at(call);
        load(&disk).unwrap_or_else(|error| println!("call {call}: {error}"));
        for outcome in [PowerLoss::LoseAll, PowerLoss::Random(call)] {
            let context = format!("call {call} of {calls}, {outcome:?}");
            let database = open(&disk.after_power_loss(outcome)).unwrap();
            let old = database.table("old").unwrap();
            let more = count(&database, &database.table("more").unwrap());
            match database.table("new") {
                Ok(new) => {
                    let counts = (count(&database, &old), count(&database, &new));
                    assert_eq!(counts, (ROWS as usize, ROWS as usize), "{context}");
                    assert_eq!(more, ROWS as usize / 4 + 2, "{context}");
                    for _ in 0..3 {
                        database.checkpoint().unwrap();
                    }
                    assert_eq!(database.statistics().reclaim.waiting, Some(0), "{context}");
                }
                Err(_) => {
                    assert_eq!((count(&database, &old), more), (1, 1), "{context}");
                    parts += u32::from(check(&database) > 100);
                    assert_reclaimed(&database, &context);
                }
            }
        }
    }
    println!("{parts} power losses left parts of a load");
    assert!(parts > 3, "{parts} power losses left parts of a load");
}
