//! Tables that are altered while others write to them by what they knew before.
#![expect(clippy::unwrap_used, reason = "a test that fails panics")]

mod common;

use seawall_engine::{Database, Error, Isolation, Table, TableChange, Transaction, TransactionOptions};
use seawall_simulation::{PowerLoss, SimulatedDisk};
use seawall_types::Lsn;

use common::{small_options, try_open};

const ALL: [Isolation; 3] = [Isolation::ReadCommitted, Isolation::Snapshot, Isolation::Serializable];

fn open() -> (SimulatedDisk, Database, Table) {
    let disk = SimulatedDisk::new(1);
    let database = try_open(&disk, small_options()).unwrap();
    database.create_table("t").unwrap();
    let table = database.table("t").unwrap();
    (disk, database, table)
}

fn begin(database: &Database, isolation: Isolation) -> Transaction {
    database.with(TransactionOptions { isolation, ..small_options().transaction }).begin()
}

/// Alters the table in a transaction of its own; the stamp.
fn alter(database: &Database) -> Result<Lsn, Error> {
    let mut transaction = begin(database, Isolation::ReadCommitted);
    let table = transaction.table("t")?;
    transaction.alter_table(&table)?;
    transaction.commit()
}

fn is_altered<T: std::fmt::Debug>(result: &Result<T, Error>) -> bool {
    match result {
        Err(error @ Error::TableChanged { change: TableChange::Altered, name }) => {
            assert!(error.is_retryable() && name == "t" && error.to_string().contains("altered"), "{error}");
            true
        }
        _ => false,
    }
}

type Step = (&'static str, fn(&mut Transaction, &Table));

const USES: [Step; 6] = [
    ("put", |transaction, table| transaction.put(table, "k", "v").unwrap()),
    ("delete", |transaction, table| transaction.delete(table, "k").unwrap()),
    ("update", |transaction, table| transaction.update(table, "k", |_| Some("v")).unwrap()),
    ("a lock", |transaction, table| drop(transaction.get_for_update(table, "k").unwrap())),
    ("a lock without waiting", |transaction, table| drop(transaction.try_lock_row(table, "k").unwrap())),
    ("an alteration", |transaction, table| transaction.alter_table(table).unwrap()),
];

#[test]
fn whoever_used_a_table_by_what_was_known_before_it_was_altered_is_refused() {
    for (isolation, (what, step)) in ALL.into_iter().flat_map(|level| USES.map(|step| (level, step))) {
        let (_disk, database, table) = open();
        let other = database.create_table("other").unwrap();
        let mut transaction = begin(&database, isolation);
        transaction.put(&other, "k", "v").unwrap();
        if what == "an alteration" {
            // Two that alter it wait for each other, so this one comes after.
            alter(&database).unwrap();
            step(&mut transaction, &table);
        } else {
            step(&mut transaction, &table);
            alter(&database).unwrap();
        }
        let result = transaction.commit();
        assert!(is_altered(&result), "{what}, {isolation:?}: {result:?}");
        // The handle is as old as before; a new one knows.
        let mut transaction = begin(&database, isolation);
        step(&mut transaction, &table);
        transaction.put(&other, "k", "v").unwrap();
        assert!(is_altered(&transaction.commit()), "{what}, {isolation:?}");
        let table = database.table("t").unwrap();
        let mut transaction = begin(&database, isolation);
        step(&mut transaction, &table);
        transaction.commit().unwrap();
        assert_eq!(database.get(&other, "k").unwrap(), None);
        assert_eq!(database.statistics().transactions.locks_held, 0);
    }
}

#[test]
fn a_prepare_and_a_write_without_a_transaction_are_refused_too() {
    let (_disk, database, table) = open();
    let mut transaction = database.begin();
    transaction.put(&table, "k", "v").unwrap();
    let stamp = alter(&database).unwrap();
    assert!(is_altered(&transaction.prepare("gid")));
    assert!(is_altered(&database.put(&table, "k", "v")) && is_altered(&database.delete(&table, "k")));
    assert!(database.two_phase().in_doubt().unwrap().is_empty());
    let planned_anew = table.as_of(stamp);
    database.put(&planned_anew, "k", "v").unwrap();
    let planned_before = planned_anew.as_of(Lsn::new(stamp.get() - 1));
    assert!(is_altered(&database.put(&planned_before, "k", "v")));
    assert_eq!(database.get(&planned_before, "k").unwrap().unwrap(), b"v", "reads go on");
    assert_eq!(database.statistics().transactions.locks_held, 0);
}

#[test]
fn the_transaction_that_alters_a_table_writes_to_it_and_a_savepoint_undoes_both() {
    let (_disk, database, table) = open();
    let mut transaction = begin(&database, Isolation::ReadCommitted);
    transaction.put(&table, "before", "1").unwrap();
    let savepoint = transaction.savepoint();
    transaction.alter_table(&table).unwrap();
    transaction.rollback_to(&savepoint).unwrap();
    transaction.commit().unwrap();
    database.put(&table, "k", "v").unwrap();
    let mut transaction = begin(&database, Isolation::ReadCommitted);
    transaction.alter_table(&table).unwrap();
    transaction.put(&table, "after", "1").unwrap();
    assert!(matches!(alter(&database), Err(Error::Locked { .. })), "one after the other");
    let stamp = transaction.commit().unwrap();
    assert!(is_altered(&database.put(&table, "k", "v")), "its own handle, too");
    database.put(&table.as_of(stamp), "k", "v").unwrap();
    assert_eq!(database.snapshot().rows(&table).count(), 3);
}

#[test]
fn a_table_that_the_transaction_has_truncated_itself_must_be_as_it_was_known() {
    let (_disk, database, table) = open();
    let mut transaction = begin(&database, Isolation::ReadCommitted);
    alter(&database).unwrap();
    transaction.truncate_table("t").unwrap();
    transaction.put(&table, "k", "v").unwrap();
    assert!(is_altered(&transaction.commit()));
    let mut transaction = begin(&database, Isolation::ReadCommitted);
    let table = transaction.table("t").unwrap();
    transaction.truncate_table("t").unwrap();
    transaction.put(&table, "k", "v").unwrap();
    transaction.commit().unwrap();
    database.tables().drop("t").unwrap();
    let mut transaction = begin(&database, Isolation::ReadCommitted);
    assert!(matches!(transaction.alter_table(&table), Err(Error::NoSuchTable { .. })));
}

#[test]
fn a_table_that_a_transaction_in_doubt_uses_is_not_altered_also_after_a_crash() {
    let (disk, database, table) = open();
    let mut transaction = database.begin();
    transaction.put(&table, "k", "v").unwrap();
    transaction.prepare("gid").unwrap();
    let refused = alter(&database).unwrap_err();
    assert!(
        matches!(&refused, Error::TableInDoubt { name, gid } if name == "t" && gid == "gid"),
        "{refused}"
    );
    drop(database);
    let database = try_open(&disk.after_power_loss(PowerLoss::LoseAll), small_options()).unwrap();
    assert!(matches!(alter(&database), Err(Error::TableInDoubt { .. })));
    database.checkpoint().unwrap();
    database.two_phase().commit("gid").unwrap();
    alter(&database).unwrap();
    assert_eq!(database.get(&database.table("t").unwrap(), "k").unwrap().unwrap(), b"v");
}

#[test]
fn handles_of_a_new_open_know_what_was_altered_before() {
    let (disk, database, _table) = open();
    let stamp = alter(&database).unwrap();
    assert_eq!(database.definitions_changed_at(), stamp);
    drop(database);
    let database = try_open(&disk.after_power_loss(PowerLoss::LoseAll), small_options()).unwrap();
    assert_eq!(database.definitions_changed_at(), Lsn::ZERO, "nothing was planned yet");
    let table = database.table("t").unwrap();
    database.put(&table, "k", "v").unwrap();
    alter(&database).unwrap();
    assert!(is_altered(&database.put(&table, "k", "v")));
}

type Definition = (&'static str, fn(&Database) -> Result<(), Error>);

#[test]
fn plans_are_as_old_as_the_last_commit_with_definitions() {
    let (_disk, database, table) = open();
    let mut before = database.definitions_changed_at();
    database.put(&table, "k", "v").unwrap();
    let mut undone = database.begin();
    undone.create_table("undone").unwrap();
    undone.alter_table(&table).unwrap();
    undone.rollback();
    assert_eq!(database.definitions_changed_at(), before, "neither rows nor what is rolled back");
    let steps: [Definition; 4] = [
        ("create", |database| database.create_table("new").map(drop)),
        ("truncate", |database| database.tables().truncate("new")),
        ("drop", |database| database.tables().drop("new")),
        ("alter", |database| alter(database).map(drop)),
    ];
    for (what, step) in steps {
        let planned = database.snapshot().lsn();
        assert!(before <= planned, "{what}: a plan made now is good");
        step(&database).unwrap();
        before = database.definitions_changed_at();
        assert!(before > planned, "{what}: it is no more");
    }
}
