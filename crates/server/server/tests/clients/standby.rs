//! A standby beside its primary: it follows pgbench, serves reads and refuses writes, and takes the primary's place.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use seawall_engine::{Database, DatabaseDirectory};
use seawall_io::{Clock, SystemClock};
use seawall_replication::message::FromSender;
use seawall_replication::{Client, Dial, Follower, Streamed, UpstreamSettings};
use seawall_server::{Shutdown, UpstreamDial};
use seawall_testing::{wait_for, wait_until};
use seawall_types::Lsn;

use crate::primary::{Primary, copy_directory, options};
use crate::program::{both, ok};

fn now_micros() -> i64 {
    SystemClock.wall_micros()
}

fn follow(standby: &Primary, primary: &Primary) -> Follower {
    follow_by(standby, primary, now_micros)
}

/// As `follow`, by another time of day.
fn follow_by(standby: &Primary, primary: &Primary, now_micros: fn() -> i64) -> Follower {
    let port = primary.served.port();
    let settings: UpstreamSettings =
        format!("host=127.0.0.1 port={port} user=postgres application_name=second slot=second")
            .parse()
            .unwrap();
    let dial = Box::new(UpstreamDial::new(settings.clone()).unwrap());
    Follower::start(standby.sql.replication.clone(), settings, dial, None, now_micros, Box::new(|| {}))
        .unwrap()
}

/// All rows of pgbench's tables, as a number and a sum of each.
fn rows(server: &Primary) -> String {
    let of = |table: &str| {
        format!("select count(*), md5(string_agg(t::text, '|' order by t::text)) from {table} t")
    };
    ["pgbench_accounts", "pgbench_branches", "pgbench_tellers", "pgbench_history"]
        .map(|table| server.sql(&of(table)))
        .join("\n")
}

#[test]
fn a_standby_follows_serves_reads_and_takes_the_primarys_place() {
    let directory = tempfile::tempdir().unwrap();
    let (data, copy) = (directory.path().join("data"), directory.path().join("copy"));
    let primary = Primary::over(Database::open(&data, options()).unwrap());
    if primary.program("pgbench").is_none() {
        return;
    }
    assert!(primary.command("CREATE_REPLICATION_SLOT second PHYSICAL").starts_with("second|"));
    primary.close();
    copy_directory(&data, &copy);

    let primary = Primary::over(Database::open(&data, options()).unwrap());
    let standby = Primary::over(DatabaseDirectory::at(&copy).follow(options()).unwrap());
    let follower = follow(&standby, &primary);
    ok(primary.program("pgbench").unwrap().args(["-i", "-I", "dtgp", "-s", "1", "-q"]));
    ok(primary.program("pgbench").unwrap().args(["-n", "-c", "4", "-j", "2", "-t", "100"]));
    primary.sql("create view v as select 7 as seven");
    primary.sql("create sequence s");
    primary.sql("select nextval('s')");

    let end = primary.sql("select pg_current_wal_lsn()");
    let acknowledged = format!("select count(*) from pg_stat_replication where replay_lsn >= '{end}'");
    wait_until("the standby has applied everything", || primary.sql(&acknowledged) == "1");
    assert_eq!(rows(&standby), rows(&primary));
    assert_eq!(standby.sql("select seven from v"), "7");
    let shown = "select application_name, state, sync_state from pg_stat_replication";
    assert_eq!(primary.sql(shown), "second|streaming|async");
    assert_eq!(primary.sql("select slot_name, active from pg_replication_slots"), "second|t");
    assert_eq!(standby.sql("select status, slot_name from pg_stat_wal_receiver"), "streaming|second");
    assert_eq!(standby.sql("select pg_is_in_recovery(), pg_last_wal_replay_lsn() >= pg_lsn '0/1'"), "t|t");
    let age = "select pg_last_xact_replay_timestamp() between now() - interval '1 hour' and now()";
    assert_eq!(standby.sql(age), "t");
    assert_eq!(primary.sql("select pg_last_xact_replay_timestamp() is null"), "t");
    // Of its own, which writes nothing into the log.
    standby.sql("checkpoint");
    assert_eq!(standby.sql("show transaction_read_only"), "on");
    refuses_writes(&standby);

    // What is applied can be held back, and is still received.
    assert_eq!(
        standby.sql("select pg_is_wal_replay_paused(), pg_get_wal_replay_pause_state()"),
        "f|not paused"
    );
    standby.sql("select pg_wal_replay_pause()");
    assert_eq!(standby.sql("select pg_is_wal_replay_paused(), pg_get_wal_replay_pause_state()"), "t|paused");
    primary.sql("create table later (a int)");
    let end = primary.sql("select pg_current_wal_lsn()");
    let received = format!("select count(*) from pg_stat_replication where flush_lsn >= '{end}'");
    wait_until("the standby has received everything", || primary.sql(&received) == "1");
    assert_eq!(standby.sql("select to_regclass('later') is null"), "t");
    standby.sql("select pg_wal_replay_resume()");
    wait_until("the standby applies", || standby.sql("select to_regclass('later') is null") == "f");
    let refused =
        primary.program("psql").unwrap().args(["-X", "-c", "select pg_wal_replay_pause()"]).output();
    assert!(both(&refused.unwrap()).contains("recovery is not in progress"));

    // The primary is gone at once, and what the standby has acknowledged is not.
    let expected = rows(&primary);
    let Primary { mut served, sql } = primary;
    served.end(Shutdown::Immediate);
    let promoted = standby
        .program("psql")
        .unwrap()
        .args([
            "-X",
            "-A",
            "-t",
            "-q",
            "-c",
            "select pg_is_in_recovery()",
            "-c",
            "select pg_promote()",
            "-c",
            "select pg_is_in_recovery()",
            "-c",
            "insert into pgbench_history (tid) values (77)",
            "-c",
            "delete from pgbench_history where tid = 77",
            "-c",
            "select nextval('s') > 1",
            "-c",
            "create table after_promotion (a int)",
        ])
        .output()
        .unwrap();
    // The same session goes on.
    assert_eq!(both(&promoted).split_whitespace().collect::<Vec<_>>(), ["t", "t", "f", "t"]);
    assert_eq!(rows(&standby), expected);
    let again = standby.program("psql").unwrap().args(["-X", "-c", "select pg_promote()"]).output().unwrap();
    assert!(both(&again).contains("recovery is not in progress"), "{}", both(&again));
    drop(follower);
    assert_eq!(standby.sql.replication.receiver(), None);
    standby.close();
    drop((served, sql));
}

fn refuses_writes(standby: &Primary) {
    for (statement, expected) in [
        ("insert into pgbench_history (tid) values (1)", "cannot execute INSERT in a read-only transaction"),
        ("update pgbench_tellers set tbalance = 0", "cannot execute UPDATE in a read-only transaction"),
        ("delete from pgbench_history", "cannot execute DELETE in a read-only transaction"),
        ("create table t (a int)", "cannot execute CREATE TABLE in a read-only transaction"),
        ("truncate pgbench_history", "cannot execute TRUNCATE TABLE in a read-only transaction"),
        ("select nextval('s')", "cannot execute nextval() in a read-only transaction"),
        ("begin read write", "cannot set transaction read-write mode during recovery"),
        ("commit prepared 'x'", "cannot execute COMMIT PREPARED during recovery"),
        ("analyze", "cannot execute ANALYZE during recovery"),
        ("listen x", "cannot execute LISTEN during recovery"),
        ("select pg_current_wal_lsn()", "recovery is in progress"),
    ] {
        let output = standby.program("psql").unwrap().args(["-X", "-c", statement]).output().unwrap();
        assert!(both(&output).contains(expected), "{statement}: {}", both(&output));
    }
}

#[test]
fn a_standby_of_another_database_receives_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let primary = Primary::over(Database::open(directory.path().join("a"), options()).unwrap());
    let other = directory.path().join("b");
    Primary::over(Database::open(&other, options()).unwrap()).close();
    let standby = Primary::over(DatabaseDirectory::at(&other).follow(options()).unwrap());
    let follower = follow(&standby, &primary);
    let last_error = || standby.sql.replication.receiver().and_then(|receiver| receiver.last_error);
    wait_until("the standby says why it does not receive", || {
        last_error().is_some_and(|error| error.starts_with("the upstream has the database "))
    });
    drop(follower);
    standby.close();
    primary.close();
}

/// The status of an answer, and its text.
fn http(server: &Primary, path: &str) -> String {
    use std::io::{Read, Write};
    let address = server.served.server().http_address().unwrap();
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer.split(' ').nth(1).unwrap().to_owned();
    format!("{status} {}", answer.split("\r\n\r\n").nth(1).unwrap().trim())
}

#[test]
fn health_tells_a_primary_from_a_standby() {
    let directory = tempfile::tempdir().unwrap();
    let (data, copy) = (directory.path().join("data"), directory.path().join("copy"));
    Primary::over(Database::open(&data, options()).unwrap()).close();
    copy_directory(&data, &copy);
    let primary = Primary::over(Database::open(&data, options()).unwrap());
    let standby = Primary::over(DatabaseDirectory::at(&copy).follow(options()).unwrap());
    assert_eq!(http(&primary, "/health/primary"), "200 ready");
    assert_eq!(http(&primary, "/health/standby"), "503 a primary");
    assert_eq!(http(&standby, "/health/primary"), "503 a standby");
    assert_eq!(http(&standby, "/health/standby"), "200 ready");
    assert_eq!(http(&standby, "/health/standby?lag=0"), "503 not connected: the lag is not known");
    assert_eq!(http(&standby, "/health/standby?lag=x"), "400 lag is a number of bytes");
    let follower = follow(&standby, &primary);
    wait_until("the standby has caught up", || http(&standby, "/health/standby?lag=0") == "200 ready");
    drop(follower);
    standby.close();
    primary.close();
}

/// Of a standby whose time of day is set: how far, in microseconds, and how often it was looked at.
static SET_BY: AtomicI64 = AtomicI64::new(0);
static LOOKS: AtomicU64 = AtomicU64::new(0);

fn time_that_is_set() -> i64 {
    LOOKS.fetch_add(1, Ordering::SeqCst);
    now_micros() + SET_BY.load(Ordering::SeqCst)
}

#[test]
fn a_time_of_day_that_is_set_ends_no_stream() {
    let directory = tempfile::tempdir().unwrap();
    let (data, copy) = (directory.path().join("data"), directory.path().join("copy"));
    Primary::over(Database::open(&data, options()).unwrap()).close();
    copy_directory(&data, &copy);
    let primary = Primary::over(Database::open(&data, options()).unwrap());
    let standby = Primary::over(DatabaseDirectory::at(&copy).follow(options()).unwrap());
    let follower = follow_by(&standby, &primary, time_that_is_set);
    let has_all = || {
        let end = primary.sql.engine.log().flushed();
        primary
            .sql
            .replication
            .senders()
            .first()
            .filter(|sender| sender.progress.applied >= end)
            .map(|sender| sender.process_id)
    };
    let stream = wait_for("the standby has caught up", has_all);
    for hours in [2, -3, 5] {
        SET_BY.fetch_add(hours * 3_600_000_000, Ordering::SeqCst);
        // It has nothing to receive, and looks at the time meanwhile.
        let looks = LOOKS.load(Ordering::SeqCst);
        wait_until("the standby looks at the time", || LOOKS.load(Ordering::SeqCst) > looks + 3);
        let table = primary.sql.engine.open_or_create_table("t").unwrap();
        primary.sql.engine.put(&table, b"k", hours.to_be_bytes()).unwrap();
        assert_eq!(wait_for("the standby has caught up", has_all), stream, "{hours} hours: another stream");
    }
    drop(follower);
    standby.close();
    primary.close();
}

#[test]
fn log_that_no_commit_waits_for_is_sent_at_most_once_a_millisecond() {
    const WRITERS: u32 = 4;
    const LIMIT: Duration = Duration::from_secs(60);
    let directory = tempfile::tempdir().unwrap();
    let primary = Primary::over(Database::open(directory.path().join("data"), options()).unwrap());
    let engine = &primary.sql.engine;
    let table = &engine.open_or_create_table("t").unwrap();
    let from = engine.log().flushed();
    let port = primary.served.port();
    let settings: UpstreamSettings = format!("host=127.0.0.1 port={port} user=postgres").parse().unwrap();
    let wire = UpstreamDial::new(settings.clone()).unwrap().dial(&settings.hosts[0]).unwrap();
    let mut client = Client::log_in(wire, &settings).unwrap();
    client.begin_stream(&format!("START_REPLICATION PHYSICAL {from}")).unwrap();

    let began = SystemClock.monotonic();
    let (mut messages, mut position) = (0, from);
    std::thread::scope(|scope| {
        let write = |writer: u32| {
            for row in 0..1_000_u32 {
                engine.put(table, [writer.to_be_bytes(), row.to_be_bytes()].concat(), b"v").unwrap();
            }
        };
        let writers: Vec<_> = (0..WRITERS).map(|writer| scope.spawn(move || write(writer))).collect();
        while !writers.iter().all(|writer| writer.is_finished()) || position < engine.log().flushed() {
            assert!(
                SystemClock.monotonic().saturating_sub(began) < LIMIT,
                "not all log has come: {position}"
            );
            if let Streamed::Message(message) = client.streamed(Duration::from_millis(10)).unwrap()
                && let FromSender::Data { start, bytes, .. } = FromSender::parse(&message).unwrap()
            {
                messages += 1;
                position = Lsn::new(start.get() + bytes.len() as u64);
            }
        }
    });
    let milliseconds = SystemClock.monotonic().saturating_sub(began).as_millis();
    assert!(messages <= milliseconds + 2, "{messages} messages in {milliseconds} ms");
    drop(client);
    primary.close();
}
