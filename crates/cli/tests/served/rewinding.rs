//! A former primary whose checkpoints have put into pages what its successor never had: it comes back without a copy of all rows.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use seawall_io::{Clock, SystemClock};

use crate::process::{Place, Serving, rows, value};
use crate::standbys::{WRITTEN, follow, followed, wait_for};

const ROWS: u64 = 40_000;

fn fingerprint(serving: &Serving) -> String {
    let sql =
        "select count(*) || ' ' || md5(string_agg(number || ' ' || text, '|' order by number)) from t t";
    value(&mut serving.client(), sql)
}

fn run(serving: &Serving, sql: &str) {
    rows(&mut serving.client(), sql);
}

/// A primary that has gone on alone with checkpoints, and is killed; and its former standby, which has been promoted and written to.
fn parted(place: &Place) -> Serving {
    let old = place.serve(&[]);
    run(&old, "create table t (number int primary key, text text)");
    run(&old, &format!("insert into t select i, repeat(md5(i::text), 10) from generate_series(1, {ROWS}) i"));
    run(&old, "create table gone (a int primary key); insert into gone values (1)");
    let new = follow(place, "new", &old);
    run(&old, "checkpoint");
    wait_for(&new, &old, WRITTEN);
    old.kill();
    let promoted = place.command(&["promote", "new"]).output().unwrap();
    assert!(promoted.status.success(), "{promoted:?}");
    run(
        &new,
        "update t set text = 'new' where number between 30000 and 30100; insert into t values (-1, 'new')",
    );

    // A server that has had no standby since its start waits for none.
    let old = place.serve(&[]);
    run(
        &old,
        "update t set text = 'old' where number between 10000 and 10100; delete from t where number < 300",
    );
    run(&old, "insert into t values (-2, 'old'); drop table gone; create table alone (a int primary key)");
    run(&old, "begin; insert into alone values (1); prepare transaction 'alone'");
    run(&old, "checkpoint");
    run(&old, "insert into t values (-3, 'old'); checkpoint; checkpoint");
    old.kill();
    new
}

fn assert_equal(back: &Serving, new: &Serving) {
    run(new, "insert into t select min(number) - 1, 'both' from t");
    wait_for(back, new, WRITTEN);
    assert_eq!(fingerprint(back), fingerprint(new));
    let tables = "select string_agg(relname, ' ' order by relname) from pg_class where relname in ('t', 'gone', 'alone')";
    assert_eq!(value(&mut back.client(), tables), "gone t");
    assert_eq!(value(&mut back.client(), "select count(*) from pg_prepared_xacts"), "0");
    back.panics_nowhere();
}

/// What a line of the log says of `field`.
fn field(said: &str, line: &str, field: &str) -> u64 {
    let line =
        said.lines().find(|said| said.contains(line)).unwrap_or_else(|| panic!("{line:?} is not in {said}"));
    let (_, rest) =
        line.split_once(&format!("{field}: ")).unwrap_or_else(|| panic!("no {field} in {line:?}"));
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap()
}

#[test]
fn a_former_primary_fetches_what_has_changed_and_follows() {
    let place = Place::new();
    let new = parted(&place);
    let began = SystemClock.monotonic();
    let back = place.serve_database("db", &["--follow", &followed("db", new.port)]);
    let took = SystemClock.monotonic().saturating_sub(began);
    assert_equal(&back, &new);
    let said = back.said();
    let of = |name| field(&said, "rewound: the rows that had changed were fetched", name);
    let (fetched, kept) = (of("rows"), of("kept_rows"));
    eprintln!("back after {took:?}: {fetched} rows fetched, {kept} kept, {} ms", of("milliseconds"));
    assert!(fetched < ROWS / 10 && kept > ROWS * 9 / 10, "{fetched} fetched, {kept} kept");
    assert!(of("bytes") < ROWS * 32, "{} bytes", of("bytes"));
    assert!(place.path().join("db/aside").exists() && !place.path().join("db/rewinding").exists());
    // What it has now is what a standby has: it starts again as one, and takes its primary's place.
    back.end();
    let back = place.serve_database("db", &["--follow", &followed("db", new.port)]);
    assert_equal(&back, &new);
    new.kill();
    let promoted = place.command(&["promote", "db"]).output().unwrap();
    assert!(promoted.status.success(), "{promoted:?}");
    run(&back, "insert into t values (-50, 'back'); checkpoint");
    back.end();
    place.check();
}

/// The primary's pages stay behind the fork: its checkpoints wait for the server that comes back.
#[test]
fn a_primary_whose_commits_wait_for_the_former_one_gets_it_back() {
    let place = Place::new();
    let new = parted(&place);
    new.kill();
    let new = place.serve_database("new", &["--synchronous-standby-names", "db"]);
    run(&new, "set synchronous_commit = local; insert into t values (-6, 'local')");
    let back = place.serve_database("db", &["--follow", &followed("db", new.port)]);
    assert_equal(&back, &new);
    let said = back.said();
    let kept = field(&said, "rewound: the rows that had changed were fetched", "kept_rows");
    assert!(kept > ROWS * 9 / 10, "{kept} kept");
    back.end();
}

/// Passes connections on, of which each of the first few ends after so many bytes.
fn cutting_network(upstream: u16, bytes_of: Vec<usize>) -> (u16, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (left, cut) = (Mutex::new(bytes_of.into_iter()), Arc::new(AtomicU64::new(0)));
    let counted = Arc::clone(&cut);
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let (client, server) = (client.unwrap(), TcpStream::connect(("127.0.0.1", upstream)).unwrap());
            let limit = left.lock().unwrap().next();
            let (to_server, to_client) = (server.try_clone().unwrap(), client.try_clone().unwrap());
            let cut = Arc::clone(&cut);
            std::thread::spawn(move || pass(client, to_server, usize::MAX));
            std::thread::spawn(move || {
                if pass(server, to_client, limit.unwrap_or(usize::MAX)) {
                    cut.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
    });
    (port, counted)
}

/// About what is sent before the first row: the segment of the log up to where a checkpoint freezes.
fn bytes_before_rows(primary: &Serving) -> usize {
    let sql = "select pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint % (16 * 1024 * 1024)";
    value(&mut primary.client(), sql).parse().unwrap()
}

/// Passes bytes on until one side ends, or there were so many; whether that was so.
fn pass(mut from: TcpStream, mut to: TcpStream, mut left: usize) -> bool {
    let mut buffer = vec![0; 4096];
    while let Ok(bytes @ 1..) = from.read(&mut buffer) {
        let passed = bytes.min(left);
        left -= passed;
        if to.write_all(&buffer[..passed]).is_err() || left == 0 {
            break;
        }
    }
    from.shutdown(Shutdown::Both).unwrap_or_default();
    to.shutdown(Shutdown::Both).unwrap_or_default();
    left == 0
}

/// The server that is killed meanwhile goes on where it is started again, and so it does when the connection breaks.
#[test]
fn a_rewind_that_is_cut_short_is_completed() {
    let place = Place::new();
    let new = parted(&place);
    // The history first; then the beginning of the log, and rows.
    let (port, cut) = cutting_network(new.port, vec![usize::MAX, 20_000, bytes_before_rows(&new) + 40_000]);
    let settings =
        format!("host=127.0.0.1 port={port} user=postgres slot=db application_name=db sslmode=disable");
    let back = place.serve_database("db", &["--follow", &settings]);
    assert_eq!(cut.load(Ordering::SeqCst), 2);
    assert!(back.said().contains("the rows that have changed are not all here"), "{}", back.said());
    assert_equal(&back, &new);
    back.end();

    // Nobody opens what is half of each, but to complete it.
    let place = Place::new();
    let new = parted(&place);
    let bytes = vec![usize::MAX, bytes_before_rows(&new) + 80_000];
    let (port, cut) = cutting_network(new.port, bytes.into_iter().chain([1; 100]).collect());
    let settings =
        format!("host=127.0.0.1 port={port} user=postgres slot=db application_name=db sslmode=disable");
    let mut started = place.start(&["--follow", &settings]);
    seawall_testing::wait_until("the connection is cut", || cut.load(Ordering::SeqCst) > 1);
    started.child.kill().unwrap();
    started.child.wait().unwrap();
    assert!(place.path().join("db/rewinding").exists());
    let refused = place.command(&["serve", "db", "--port", "0"]).output().unwrap();
    assert!(!refused.status.success(), "{refused:?}");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("--follow"), "{said}");
    let refused = place.command(&["check", "db"]).output().unwrap();
    assert!(String::from_utf8_lossy(&refused.stderr).contains("is being made equal"), "{refused:?}");
    let back = place.serve_database("db", &["--follow", &followed("db", new.port)]);
    assert_equal(&back, &new);
    back.end();
}
