//! Standbys in company that they should not be in, or that has less than they have; and what they take along of transactions.

use std::net::TcpListener;

use seawall_testing::wait_until;

use crate::process::{Failure, Place, Serving, answered, rows, value};
use crate::standbys::{FOLLOWED, WRITTEN, follow, followed, wait_for};

fn ask(serving: &Serving, sql: &str) -> String {
    value(&mut serving.client(), sql)
}

fn promote(place: &Place, directory: &str) {
    let promoted = place.command(&["promote", directory]).output().unwrap();
    assert!(promoted.status.success(), "{promoted:?}");
}

/// A port where nobody listens.
fn nobody() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn a_standby_ahead_of_its_upstream_is_read_and_waits_for_it() {
    let place = Place::new();
    let primary = place.serve(&[]);
    rows(&mut primary.client(), "create table t (a int primary key)");
    let first = follow(&place, "first", &primary);
    let second = follow(&place, "second", &primary);
    wait_for(&first, &primary, WRITTEN);
    first.kill();
    rows(&mut primary.client(), "insert into t values (1)");
    wait_for(&second, &primary, WRITTEN);
    second.end();

    // The upstream lacks the row, and nobody gives it to it.
    let first = place.serve_database("first", &["--follow", &followed("first", nobody())]);
    let port = first.port;
    let second = follow(&place, "second", &first);
    wait_until("it says so", || second.said().contains("is ahead of the WAL flush position of this server"));
    assert_eq!(ask(&first, "select count(*) from t"), "0");
    assert_eq!(ask(&second, "select count(*) from t"), "1");
    first.end();
    let settings = followed("first", primary.port);
    let started = place.start_on(port, "first", &["--follow", &settings]).serving();
    let first = started.unwrap_or_else(|_| panic!("first does not start again"));
    rows(&mut primary.client(), "insert into t values (2)");
    wait_for(&second, &primary, WRITTEN);
    assert_eq!(ask(&second, "select sender_port from pg_stat_wal_receiver"), port.to_string());
    assert_eq!(ask(&second, "select count(*) from t"), "2");
    second.end();
    first.end();
    primary.end();
}

/// Nothing was committed since: the pages of the new primary end where its timeline begins.
#[test]
fn a_standby_is_made_of_one_that_was_promoted_a_moment_ago() {
    let place = Place::new();
    let old = place.serve(&[]);
    rows(&mut old.client(), "create table t (a int primary key); insert into t values (1)");
    let new = follow(&place, "new", &old);
    wait_for(&new, &old, WRITTEN);
    old.kill();
    promote(&place, "new");
    let third = follow(&place, "third", &new);
    assert_eq!(ask(&third, "select count(*) from t"), "1");
    third.kill();
    let third = follow(&place, "third", &new);
    rows(&mut new.client(), "insert into t values (2)");
    wait_for(&third, &new, WRITTEN);
    assert_eq!(ask(&third, "select count(*) from t"), "2");
    assert_eq!(ask(&third, "select received_tli from pg_stat_wal_receiver"), "2");
    third.end();
    new.end();
}

/// A commit waits for the standby that is made. So the pages of the new primary end before its timeline begins.
#[test]
fn a_standby_is_made_of_one_that_was_promoted_and_waits_for_it() {
    let place = Place::new();
    let old = place.serve(&[]);
    rows(&mut old.client(), "create table t (a int primary key); insert into t values (1)");
    let settings = followed("new", old.port);
    let new =
        place.serve_database("new", &["--synchronous-standby-names", "third", "--follow", settings.as_str()]);
    wait_for(&new, &old, WRITTEN);
    old.kill();
    promote(&place, "new");
    let third = std::thread::scope(|scope| {
        let committed = scope.spawn(|| rows(&mut new.client(), "insert into t values (2)"));
        let waits = "select count(*) from pg_stat_activity where wait_event = 'SyncRep'";
        wait_until("the commit waits", || ask(&new, waits) == "1");
        let third = follow(&place, "third", &new);
        committed.join().unwrap();
        third
    });
    wait_for(&third, &new, WRITTEN);
    assert_eq!(ask(&third, "select count(*) from t"), "2");
    assert_eq!(ask(&third, "select received_tli from pg_stat_wal_receiver"), "2");
    third.end();
    new.end();
}

/// The machine of the old primary comes up again, and serves it as it always did.
#[test]
fn a_standby_is_not_taken_back_by_an_old_primary() {
    let place = Place::new();
    let old = place.serve(&[]);
    rows(&mut old.client(), "create table t (a int primary key)");
    let new = follow(&place, "new", &old);
    let third = follow(&place, "third", &old);
    wait_for(&new, &old, WRITTEN);
    wait_for(&third, &old, WRITTEN);
    third.end();
    old.signal("STOP");
    promote(&place, "new");
    let third = follow(&place, "third", &new);
    rows(&mut new.client(), "insert into t values (1)");
    wait_for(&third, &new, WRITTEN);
    assert_eq!(ask(&third, "select received_tli from pg_stat_wal_receiver"), "2");
    third.end();
    old.signal("CONT");
    rows(&mut old.client(), "insert into t values (2)");

    // Both call themselves primaries, and the old one comes first in the list.
    let list = format!(
        "host=localhost,localhost port={},{} user=postgres slot=third application_name=third",
        old.port, new.port
    );
    let third = place.serve_database("third", &["--follow", &list]);
    rows(&mut new.client(), "insert into t values (3)");
    wait_for(&third, &new, WRITTEN);
    assert_eq!(ask(&third, "select string_agg(a::text, ' ' order by a) from t"), "1 3");
    assert!(!place.path().join("third").join("aside").exists(), "its log was cut");
    third.end();
    // And with the old one alone it stays as it is.
    let third = follow(&place, "third", &old);
    wait_until("it says so", || third.said().contains("this standby follows the newer timeline 2"));
    assert_eq!(ask(&third, "select string_agg(a::text, ' ' order by a) from t"), "1 3");
    third.end();
    new.end();
    old.end();
}

#[test]
fn prepared_transactions_come_along_over_restarts_and_a_promotion() {
    let place = Place::new();
    let primary = place.serve(&[]);
    rows(&mut primary.client(), "create table t (a int primary key, b text)");
    let standby = follow(&place, "second", &primary);
    for (gid, first) in [("kept", 1), ("committed", 10), ("rolled back", 20), ("left", 30)] {
        let mut client = primary.client();
        rows(&mut client, &format!("begin; insert into t values ({first}, '{gid}'); savepoint s"));
        rows(&mut client, &format!("insert into t values ({}, 'undone'); rollback to s", first + 1));
        rows(
            &mut client,
            &format!("insert into t values ({}, '{gid}'); prepare transaction '{gid}'", first + 2),
        );
    }
    rows(&mut primary.client(), "commit prepared 'committed'");
    rows(&mut primary.client(), "rollback prepared 'rolled back'");
    wait_for(&standby, &primary, WRITTEN);
    let in_doubt = "select string_agg(gid, ',' order by gid) from pg_prepared_xacts";
    assert_eq!(ask(&standby, in_doubt), "kept,left");
    let refused = answered(&mut standby.client(), "commit prepared 'kept'");
    assert!(matches!(&refused, Err(Failure::Told { code, .. }) if code == "25006"), "{refused:?}");
    standby.kill();
    let standby = follow(&place, "second", &primary);
    assert_eq!(ask(&standby, in_doubt), "kept,left");
    assert_eq!(ask(&standby, "select string_agg(a::text, ' ' order by a) from t"), "10 12");
    primary.kill();

    promote(&place, "second");
    // Its locks are held: another one waits for them.
    let locked =
        answered(&mut standby.client(), "set lock_timeout = '100ms'; insert into t values (1, 'other')");
    assert!(matches!(&locked, Err(Failure::Told { code, .. }) if code == "55P03"), "{locked:?}");
    rows(&mut standby.client(), "commit prepared 'kept'");
    standby.kill();
    let promoted = place.serve_database("second", &[]);
    assert_eq!(ask(&promoted, in_doubt), "left");
    rows(&mut promoted.client(), "rollback prepared 'left'");
    assert_eq!(ask(&promoted, "select string_agg(a::text, ' ' order by a) from t"), "1 3 10 12");
    promoted.end();
}

/// Each kind of write, and what prepares one, has the code by which drivers know that they are at the wrong server.
#[test]
fn every_kind_of_write_is_refused_with_its_code() {
    let place = Place::new();
    let primary = place.serve(&[]);
    rows(
        &mut primary.client(),
        "create table t (a int primary key, b text); create sequence s; create view v as select a from t; \
         insert into t values (1, 'x')",
    );
    let standby = follow(&place, "second", &primary);
    wait_for(&standby, &primary, WRITTEN);
    for sql in [
        "insert into t values (2, 'y')",
        "insert into v values (3)",
        "update t set b = 'z'",
        "delete from t",
        "truncate t",
        "copy t from stdin",
        "with w as (delete from t returning a) select * from w",
        "select * from t for update",
        "select * from t for share",
        "select nextval('s')",
        "select setval('s', 7)",
        "create table u (a int)",
        "create table u as select 1",
        "select 1 as a into u",
        "alter table t add column c int",
        "drop table t",
        "create index on t (b)",
        "create sequence r",
        "create view w as select 1",
        "create role r",
        "grant select on t to public",
        "comment on table t is 'x'",
        "prepare transaction 'x'",
        "commit prepared 'x'",
        "rollback prepared 'x'",
    ] {
        let in_transaction = if sql.starts_with("prepare") { "begin; " } else { "" };
        let mut client = standby.client();
        let refused = answered(&mut client, &format!("{in_transaction}{sql}"));
        let Err(Failure::Told { code, line }) = refused else { panic!("{sql}: {refused:?}") };
        assert_eq!(code, "25006", "{sql}: {line}");
    }
    assert_eq!(ask(&standby, "select a || b from t"), "1x");
    assert_eq!(ask(&standby, &format!("select {FOLLOWED} is not null")), "t");
    standby.end();
    primary.end();
}

/// Of a copy that was restored to try something out, and the servers that come back to it, nothing gets into the repository of the original.
#[test]
fn a_former_primary_archives_as_its_new_one_does_when_its_log_was_cut() {
    let place = Place::new();
    let old = place.serve(&[]);
    rows(&mut old.client(), "create table t (a int primary key)");
    let new = follow(&place, "new", &old);
    wait_for(&new, &old, WRITTEN);
    new.kill();
    rows(&mut old.client(), "insert into t values (1)");
    old.kill();
    let new = place.serve_database("new", &["--follow", &followed("new", nobody())]);
    promote(&place, "new");
    let switched = |directory: &str, mode: &str| {
        let switched = place.command(&["archive-mode", directory, mode]).output().unwrap();
        assert!(switched.status.success(), "{switched:?}");
    };
    switched("new", "off");
    rows(&mut new.client(), "insert into t values (2)");
    let old = place.serve_database("db", &["--follow", &followed("db", new.port)]);
    wait_for(&old, &new, WRITTEN);
    assert_eq!(ask(&old, "select string_agg(a::text, ' ') from t"), "2");
    assert!(place.path().join("db/aside").exists() && place.path().join("db/archiving-off").exists());
    old.end();
    let repository = place.path().join("repository").display().to_string();
    let made = place.command(&["repo", "create", "--repository", &repository]).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    let settings = followed("db", new.port);
    let follows = ["serve", "db", "--port", "0", "--follow", &settings];
    let archives = ["--archive", &repository];
    let refused = place.command(&[&follows[..], &archives].concat()).output().unwrap();
    assert!(!refused.status.success(), "{refused:?}");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("archive-mode") && said.contains("on"), "{said}");

    // The other way round: what was a trial comes to a primary that archives.
    switched("new", "on");
    let old = follow(&place, "db", &new);
    rows(&mut new.client(), "insert into t values (3)");
    wait_for(&old, &new, WRITTEN);
    new.end();
    promote(&place, "db");
    assert!(place.path().join("db/archiving-off").exists(), "a standby has its own");
    let new = follow(&place, "new", &old);
    wait_for(&new, &old, WRITTEN);
    assert!(place.path().join("new/archiving-off").exists(), "as its new primary");
    new.end();
    old.end();
}
