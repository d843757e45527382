//! Sessions that wait on a standby for a position, and standbys that are kept behind.

use std::time::Instant;

use seawall_testing::wait_until;

use crate::client::Client;
use crate::process::{Failure, Place, Serving, answered, rows, value};
use crate::standbys::{FOLLOWED, WRITTEN, follow, followed, wait_for};

fn ask(serving: &Serving, sql: &str) -> String {
    value(&mut serving.client(), sql)
}

fn told(client: &mut Client, sql: &str) -> String {
    match answered(client, sql) {
        Err(Failure::Told { code, .. }) => code,
        other => panic!("{sql}: {other:?}"),
    }
}

#[test]
fn a_session_waits_on_a_standby_for_what_it_has_written() {
    let place = Place::new();
    let primary = place.serve(&[]);
    rows(&mut primary.client(), "create table t (number int primary key)");
    let standby = follow(&place, "waited", &primary);
    wait_for(&standby, &primary, WRITTEN);
    let (mut writer, mut reader) = (primary.client(), standby.client());
    assert_eq!(rows(&mut writer, "select seawall.last_commit_lsn()"), [[None]]);
    for number in 0..200 {
        rows(&mut writer, &format!("insert into t values ({number})"));
        let written = value(&mut writer, "select seawall.last_commit_lsn()");
        assert_eq!(value(&mut reader, &format!("select seawall.wait_for_lsn('{written}')")), "t");
        assert_eq!(value(&mut reader, "select max(number) from t"), number.to_string());
    }
    // A query has no commit to wait for.
    let written = value(&mut writer, "select seawall.last_commit_lsn()");
    rows(&mut writer, "select count(*) from t");
    assert_eq!(value(&mut writer, "select seawall.last_commit_lsn()"), written);
    rows(&mut writer, "begin; insert into t values (1000); prepare transaction 'two'");
    rows(&mut writer, "commit prepared 'two'");
    assert_ne!(value(&mut writer, "select seawall.last_commit_lsn()"), written);
    wait_for(&standby, &primary, WRITTEN);

    // At the position, before it and after it.
    rows(&mut reader, "select pg_wal_replay_pause()");
    let here = value(&mut reader, &format!("select {FOLLOWED}"));
    let wait = |by: &str, limit: u32| format!("select seawall.wait_for_lsn('{here}'::pg_lsn {by}, {limit})");
    assert_eq!(value(&mut reader, &wait("+ 0", 1)), "t");
    assert_eq!(value(&mut reader, &wait("- 1", 1)), "t");
    assert_eq!(value(&mut reader, &wait("+ 1", 1)), "f");
    assert_eq!(told(&mut reader, "select seawall.wait_for_lsn('0/1', -1)"), "22023");
    // A time-out of the statement, and a cancellation.
    rows(&mut reader, "set statement_timeout = '50ms'");
    assert_eq!(told(&mut reader, &wait("+ 1", 0)), "57014");
    rows(&mut reader, "set statement_timeout = 0");
    let waits = "select pid from pg_stat_activity where wait_event = 'WaitForWalReplay'";
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| told(&mut standby.client(), &wait("+ 1", 0)));
        wait_until("it waits", || !rows(&mut reader, waits).is_empty());
        rows(&mut reader, &format!("select pg_cancel_backend(pid) from ({waits}) w"));
        assert_eq!(waiting.join().unwrap(), "57014");
    });
    // What comes ends the wait at once.
    rows(&mut writer, "insert into t values (2000)");
    let written = value(&mut writer, "select seawall.last_commit_lsn()");
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| ask(&standby, &format!("select seawall.wait_for_lsn('{written}')")));
        wait_until("it waits", || !rows(&mut reader, waits).is_empty());
        rows(&mut reader, "select pg_wal_replay_resume()");
        assert_eq!(waiting.join().unwrap(), "t");
    });
    // A promotion ends the wait for what will never come.
    let beyond = "select seawall.wait_for_lsn('FFFF/0')";
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| told(&mut standby.client(), beyond));
        wait_until("it waits", || !rows(&mut reader, waits).is_empty());
        rows(&mut reader, "select pg_promote()");
        assert_eq!(waiting.join().unwrap(), "55000");
    });
    assert_eq!(value(&mut reader, &format!("select seawall.wait_for_lsn('{written}')")), "t");
    assert_eq!(told(&mut writer, beyond), "55000");
    standby.panics_nowhere();
    primary.end();
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the time of the machine that runs the test")]
fn a_delayed_standby_shows_commits_when_they_are_old_enough_and_a_reload_ends_that() {
    let place = Place::new();
    let primary = place.serve(&[]);
    rows(&mut primary.client(), "create table t (number int primary key)");
    let settings = place.path().join("late.toml");
    let write = |delay: &str| {
        let text = format!("[server]\nrecovery_min_apply_delay = \"{delay}\"\n");
        std::fs::write(&settings, text).unwrap();
    };
    write("1h");
    let followed = followed("late", primary.port);
    let config = settings.to_str().unwrap();
    let arguments = ["--follow", &followed, "--config", config];
    // A copy is made whole all the same.
    let standby = place.serve_database("late", &arguments);
    rows(&mut primary.client(), "insert into t values (1)");
    let end = ask(&primary, "select pg_current_wal_flush_lsn()");
    let received = format!("select pg_last_wal_receive_lsn() >= '{end}'");
    wait_until("it is received", || ask(&standby, &received) == "t");
    assert_eq!(ask(&standby, &format!("select seawall.wait_for_lsn('{end}', 50)")), "f");
    assert_eq!(ask(&standby, "select count(*) from t"), "0");
    standby.end();
    let standby = place.serve_database("late", &arguments);
    wait_until("it is received", || ask(&standby, &received) == "t");
    assert_eq!(ask(&standby, "select count(*) from t"), "0");

    write("1s");
    standby.signal("HUP");
    assert_eq!(ask(&standby, &format!("select seawall.wait_for_lsn('{end}')")), "t");
    assert_eq!(ask(&standby, "select count(*) from t"), "1");
    let begun = Instant::now();
    rows(&mut primary.client(), "insert into t values (2)");
    let end = ask(&primary, "select pg_current_wal_flush_lsn()");
    assert_eq!(ask(&standby, &format!("select seawall.wait_for_lsn('{end}')")), "t");
    assert!(begun.elapsed().as_millis() >= 1000, "{:?}", begun.elapsed());

    // A promotion waits for nothing.
    write("1h");
    standby.signal("HUP");
    wait_until("the delay is taken over", || {
        rows(&mut primary.client(), "insert into t select max(number) + 1 from t");
        let end = ask(&primary, "select pg_current_wal_flush_lsn()");
        ask(&standby, &format!("select seawall.wait_for_lsn('{end}', 1000)")) == "f"
    });
    let expected = ask(&primary, "select count(*) from t");
    let end = ask(&primary, "select pg_current_wal_flush_lsn()");
    let received = format!("select pg_last_wal_receive_lsn() >= '{end}'");
    wait_until("it is received", || ask(&standby, &received) == "t");
    primary.end();
    let promoted = place.command(&["promote", "late"]).output().unwrap();
    assert!(promoted.status.success(), "{promoted:?}");
    assert_eq!(ask(&standby, "select count(*) from t"), expected);
    standby.end();
}
