//! Statements under `ReadCommitted`: all reads of one see one moment.

use seawall_engine::{Durability, Error, Isolation};

use super::{ALL, BACKGROUNDS, begin, check_and_close, number, open};

/// Sets both rows in one commit.
fn set_both(database: &seawall_engine::Database, table: &seawall_engine::Table, round: u64) {
    let mut transaction = begin(database, Isolation::ReadCommitted);
    for key in ["a", "b"] {
        transaction.put(table, key, round.to_be_bytes()).unwrap();
    }
    transaction.commit().unwrap();
}

#[test]
fn all_reads_of_a_statement_see_one_moment_and_the_next_statement_sees_a_later_one() {
    let database = open(BACKGROUNDS[1]);
    let table = database.create_table("t").unwrap();
    set_both(&database, &table, 1);
    let mut transaction = begin(&database, Isolation::ReadCommitted);
    for round in 2..6 {
        let lsn = transaction.begin_statement().unwrap();
        let before = round - 1;
        assert_eq!(number(transaction.get(&table, "a").unwrap()), before);
        set_both(&database, &table, round);
        database.checkpoint().unwrap();
        assert_eq!(number(transaction.get(&table, "b").unwrap()), before, "a later moment shows");
        let rows: Vec<_> = transaction.rows(&table).map(|row| number(Some(row.unwrap().1))).collect();
        assert_eq!(rows, [before, before]);
        assert_eq!(database.statistics().snapshots.oldest, Some(lsn));
    }
    transaction.end_statement();
    assert_eq!(database.statistics().snapshots.alive, 0, "nothing is kept between statements");
    assert_eq!(number(transaction.get(&table, "a").unwrap()), 5, "a read outside of a statement is current");
    set_both(&database, &table, 6);
    assert_eq!(number(transaction.get(&table, "a").unwrap()), 6);
    drop(transaction);
    check_and_close(database);
}

#[test]
fn a_statement_sees_what_its_transaction_has_written_and_its_session_has_committed() {
    let database = open(BACKGROUNDS[0]);
    let table = database.create_table("t").unwrap();
    let session = database.new_session();
    for round in 1..300_u64 {
        // The session's own commit is `Async`, after a `Sync` commit of another session whose flush is under way.
        let mut ahead = begin(&database, Isolation::ReadCommitted);
        ahead.put(&table, "ahead", round.to_be_bytes()).unwrap();
        let ahead = ahead.commit_async().unwrap();
        let stamp = session.with(Durability::Async).put(&table, "k", round.to_be_bytes()).unwrap();
        let mut transaction = begin(&session, Isolation::ReadCommitted);
        assert!(transaction.begin_statement().unwrap() >= stamp);
        assert_eq!(number(transaction.get(&table, "k").unwrap()), round);
        transaction.put(&table, "k", 0_u64.to_be_bytes()).unwrap();
        assert_eq!(number(transaction.get(&table, "k").unwrap()), 0);
        transaction.rollback();
        ahead.wait().unwrap();
    }
    drop(session);
    check_and_close(database);
}

#[test]
fn a_read_that_locks_sees_the_newest_version_in_an_older_statement_too() {
    let database = open(BACKGROUNDS[1]);
    let table = database.create_table("t").unwrap();
    set_both(&database, &table, 1);
    let mut transaction = begin(&database, Isolation::ReadCommitted);
    transaction.begin_statement().unwrap();
    set_both(&database, &table, 2);
    assert_eq!(number(transaction.get_for_update(&table, "a").unwrap()), 2);
    assert_eq!(number(transaction.get(&table, "b").unwrap()), 1);
    assert_eq!(number(transaction.get(&table, "a").unwrap()), 1, "nothing was written");
    transaction.commit().unwrap();
    check_and_close(database);
}

#[test]
fn a_statement_under_the_other_levels_has_the_snapshot_of_its_transaction() {
    for isolation in ALL.into_iter().filter(|isolation| *isolation != Isolation::ReadCommitted) {
        let database = open(BACKGROUNDS[1]);
        let table = database.create_table("t").unwrap();
        set_both(&database, &table, 1);
        let mut transaction = begin(&database, isolation);
        let first = transaction.begin_statement().unwrap();
        set_both(&database, &table, 2);
        assert_eq!(transaction.begin_statement().unwrap(), first);
        assert_eq!(transaction.snapshot_lsn(), Some(first));
        assert_eq!(number(transaction.get(&table, "a").unwrap()), 1);
        assert!(matches!(transaction.put(&table, "a", "new"), Err(Error::Conflict { .. })));
        assert!(matches!(transaction.begin_statement(), Err(Error::TransactionFailed { .. })));
        drop(transaction);
        check_and_close(database);
    }
}
