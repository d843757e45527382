//! Commits that wait for a standby over kills of both servers, and servers that take each other's place again and again.

use seawall_testing::wait_until;

use crate::client::{Client, query, shown};
use crate::process::{Failure, Place, Serving, Started, answered, rows, value};
use crate::standbys::{FOLLOWED, WRITTEN, follow, followed, wait_for};

fn ask(serving: &Serving, sql: &str) -> String {
    value(&mut serving.client(), sql)
}

/// A primary whose commits wait for the standby of this name.
fn waits_for(standby: &str) -> [&str; 2] {
    ["--synchronous-standby-names", standby]
}

/// Commits what waits for the standby, and gives up.
fn commit_in_vain(primary: &Serving, sql: &str) {
    let mut client = primary.client();
    rows(&mut client, "set statement_timeout = '500ms'");
    let told = answered(&mut client, sql);
    let Err(Failure::Told { code, line }) = told else { panic!("{told:?}") };
    assert_eq!(code, "40003", "{line}");
}

#[test]
fn a_primary_that_was_killed_while_commits_waited_logs_its_standby_in_and_shows_them() {
    let place = Place::new();
    let primary = place.serve(&[]);
    rows(&mut primary.client(), "create table t (a int primary key); create sequence s");
    let standby = follow(&place, "second", &primary);
    wait_for(&standby, &primary, WRITTEN);
    primary.end();
    let primary = place.serve(&waits_for("second"));
    standby.end();
    let standby = follow(&place, "second", &primary);
    rows(&mut primary.client(), "insert into t values (1)");
    assert_eq!(ask(&primary, "select nextval('s')"), "1");
    standby.kill();
    commit_in_vain(&primary, "insert into t values (2)");
    // It can be seen waiting, and be cancelled.
    let mut waiting = primary.client();
    waiting.try_send(&query("insert into t values (20)")).unwrap();
    let waits = "from pg_stat_activity where wait_event_type = 'IPC' and wait_event = 'SyncRep'";
    wait_until("it waits for its standby", || ask(&primary, &format!("select count(*) {waits}")) == "1");
    assert_eq!(ask(&primary, &format!("select pg_cancel_backend(pid) {waits}")), "t");
    let told = wait_for_error(&mut waiting);
    assert!(told.contains("40003") || told.contains("outcome"), "{told}");
    // More numbers than were in memory, of rows, of sequences and of objects.
    commit_in_vain(
        &primary,
        "select nextval('s') from generate_series(1, 100); create view v as select 7 as b",
    );
    commit_in_vain(&primary, "create role later login superuser");
    primary.kill();

    let primary = place.serve(&waits_for("second"));
    assert_eq!(ask(&primary, "select count(*) from t"), "1");
    assert!(matches!(answered(&mut primary.client(), "select * from v"), Err(Failure::Told { .. })));
    // Who asks for less works on, with numbers that nobody has had.
    let mut local = primary.client();
    rows(&mut local, "set synchronous_commit = local");
    assert!(value(&mut local, "select nextval('s')").parse::<u32>().unwrap() > 101);
    rows(&mut primary.client(), "set synchronous_commit = local; create table u (a int)");
    rows(&mut primary.client(), "set synchronous_commit = local; create table w (a int primary key)");
    let standby = follow(&place, "second", &primary);
    wait_until("the standby has it all", || ask(&primary, "select count(*) from t") == "3");
    assert_eq!(ask(&primary, "select b from v"), "7");
    assert_eq!(ask(&primary, "select count(*) from pg_roles where rolname = 'later'"), "1");
    rows(&mut primary.client(), "insert into t values (3)");
    wait_for(&standby, &primary, WRITTEN);
    assert_eq!(ask(&standby, "select count(*) from t"), "4");
    standby.end();
    primary.end();
}

#[test]
fn a_standby_that_commits_wait_for_is_made_while_they_wait() {
    let place = Place::new();
    let primary = place.serve(&[]);
    rows(&mut primary.client(), "create table t (a int primary key); create view v as select 1 as b");
    primary.end();
    let primary = place.serve(&waits_for("second"));
    let mut reader = primary.client();
    assert_eq!(value(&mut reader, "select b from v"), "1");
    commit_in_vain(&primary, "insert into t values (1); create or replace view v as select 2 as b");
    assert_eq!(ask(&primary, "select count(*) from t"), "0");
    assert_eq!(value(&mut reader, "select b from v"), "1");
    let standby = follow(&place, "second", &primary);
    wait_until("the standby has it", || ask(&primary, "select count(*) from t") == "1");
    assert_eq!(value(&mut reader, "select b from v"), "2", "what was planned before is planned again");
    rows(&mut primary.client(), "insert into t values (2)");
    wait_for(&standby, &primary, WRITTEN);
    assert_eq!(ask(&standby, "select count(*) from t"), "2");
    standby.end();
    primary.end();
}

#[test]
fn a_primary_without_its_standby_ends_though_a_table_is_being_analyzed() {
    let place = Place::new();
    let primary = place.serve(&[]);
    rows(&mut primary.client(), "create table t (a int primary key); create table u (a int primary key)");
    primary.end();
    let eager = ["--autovacuum-naptime", "1s", "--autovacuum-analyze-threshold", "1"];
    let primary = place.serve(&[&waits_for("second")[..], &eager].concat());
    commit_in_vain(&primary, "insert into t values (1)");
    let local = "set synchronous_commit = local; insert into t select generate_series(10, 200); \
                 insert into u select generate_series(10, 200)";
    rows(&mut primary.client(), local);
    let analyzes = "select count(*) from pg_stat_activity where query like 'autovacuum: ANALYZE%'";
    wait_until("a table is analyzed", || ask(&primary, analyzes) == "1");
    primary.end();
}

/// The next error that the server tells.
fn wait_for_error(client: &mut Client) -> String {
    loop {
        let message = client.receive().unwrap();
        if message.kind == b'E' {
            return shown(&message);
        }
    }
}

fn promote(place: &Place, directory: &str) {
    let promoted = place.command(&["promote", directory]).output().unwrap();
    assert!(promoted.status.success(), "{promoted:?}");
}

/// What a server that does not answer yet has said.
fn said(place: &Place, directory: &str) -> String {
    std::fs::read_to_string(place.path().join(format!("log of {directory}"))).unwrap()
}

#[test]
fn servers_take_each_others_place_again_and_again() {
    let place = Place::new();
    let a = place.serve_database("a", &[]);
    rows(&mut a.client(), "create table t (a int primary key); insert into t values (1)");
    let b = follow(&place, "b", &a);
    wait_for(&b, &a, WRITTEN);
    a.kill();
    promote(&place, "b");
    rows(&mut b.client(), "insert into t values (2)");
    let a = follow(&place, "a", &b);
    wait_for(&a, &b, WRITTEN);
    // The second failover. What was promoted first has a commit that nobody got.
    rows(&mut b.client(), "insert into t values (3)");
    wait_for(&a, &b, WRITTEN);
    b.signal("STOP");
    promote(&place, "a");
    rows(&mut a.client(), "insert into t values (4)");
    b.kill();
    let b = follow(&place, "b", &a);
    wait_for(&b, &a, WRITTEN);
    assert_eq!(ask(&b, "select string_agg(a::text, ' ' order by a) from t"), "1 2 3 4");
    rows(&mut a.client(), "insert into t values (5)");
    wait_for(&b, &a, WRITTEN);
    assert_eq!(ask(&b, "select received_tli from pg_stat_wal_receiver"), "3");
    b.end();
    a.end();
}

#[test]
fn a_former_primary_waits_for_the_server_that_it_is_to_follow_and_opens_nothing_before() {
    let place = Place::new();
    let former = place.serve_database("former", &[]);
    rows(&mut former.client(), "create table t (a int primary key); insert into t values (1)");
    let standby = follow(&place, "second", &former);
    wait_for(&standby, &former, WRITTEN);
    former.signal("STOP");
    promote(&place, "second");
    rows(&mut standby.client(), "insert into t values (2)");
    former.kill();
    let port = standby.port;
    let pages = || std::fs::read(place.path().join("former").join("pages")).unwrap();
    let before = pages();
    standby.kill();

    let settings = followed("former", port);
    let mut waiting = place.start_database("former", &["--follow", &settings]);
    wait_until("it says so", || said(&place, "former").contains("waits for the server to follow"));
    assert!(waiting.child.try_wait().unwrap().is_none());
    assert_eq!(pages(), before);
    // It ends when it is told to.
    let sent =
        std::process::Command::new("kill").args(["-s", "TERM", &waiting.child.id().to_string()]).status();
    assert!(sent.unwrap().success());
    assert!(waiting.child.wait().unwrap().success());
    let waiting = place.start_database("former", &["--follow", &settings]);
    let standby = place.start_on(port, "second", &[]).serving();
    let standby = standby.unwrap_or_else(|_| panic!("{}", said(&place, "second")));
    let former = waiting.serving().unwrap_or_else(|_: Started| panic!("{}", said(&place, "former")));
    wait_for(&former, &standby, WRITTEN);
    assert_eq!(ask(&former, "select count(*) from t"), "2");

    // What is followed already opens though nobody answers.
    standby.end();
    former.end();
    let former = place.serve_database("former", &["--follow", &settings]);
    assert_eq!(ask(&former, "select count(*) from t"), "2");
    assert_ne!(ask(&former, &format!("select {FOLLOWED}")), "");
    former.end();
}

#[test]
fn a_promoted_server_does_not_go_back_to_the_primary_that_it_replaced_by_mistake() {
    let place = Place::new();
    let old = place.serve_database("old", &[]);
    rows(&mut old.client(), "create table t (a int primary key)");
    let new = follow(&place, "new", &old);
    wait_for(&new, &old, WRITTEN);
    promote(&place, "new");
    rows(&mut new.client(), "insert into t values (1)");
    new.end();
    // As before, by the unit file that was written when it was a standby.
    let settings = followed("new", old.port);
    let refused = place.command(&["serve", "new", "--port", "0", "--follow", &settings]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("new was a standby, and was promoted: serve it without --follow"), "{said}");
    let new = place.serve_database("new", &[]);
    assert_eq!(ask(&new, "select count(*) from t"), "1");
    new.end();
    old.end();
}
