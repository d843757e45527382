//! A former primary whose checkpoints have put into pages what its successor never had: it comes back without a copy of all rows.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use seawall_io::{Clock, SystemClock};

use crate::process::{Place, Serving, answered, rows, value};
use crate::standbys::{WRITTEN, follow, followed, wait_for};
use crate::switchover::connect;

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
    network(upstream, bytes_of, |_| {})
}

/// As `cutting_network`; `change` may change what the client says.
pub(crate) fn network(upstream: u16, bytes_of: Vec<usize>, change: fn(&mut [u8])) -> (u16, Arc<AtomicU64>) {
    let cuts = Arc::new(Cuts::new(upstream, bytes_of));
    (cut_by(&cuts, change), Arc::clone(&cuts.count))
}

/// Where connections lead, and where they are cut.
struct Cuts {
    upstream: AtomicU16,
    /// After so many bytes each of the next ones ends.
    limits: Mutex<std::vec::IntoIter<usize>>,
    /// How many have ended so.
    count: Arc<AtomicU64>,
}

impl Cuts {
    fn new(upstream: u16, bytes_of: Vec<usize>) -> Cuts {
        let limits = Mutex::new(bytes_of.into_iter());
        Cuts { upstream: AtomicU16::new(upstream), limits, count: Arc::default() }
    }
}

/// Passes connections on, of those that are taken while there is an upstream.
fn cut_by(cuts: &Arc<Cuts>, change: fn(&mut [u8])) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let cuts = Arc::clone(cuts);
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let client = client.unwrap();
            let upstream = cuts.upstream.load(Ordering::SeqCst);
            let Ok(server) = TcpStream::connect(("127.0.0.1", upstream)) else { continue };
            let limit = cuts.limits.lock().unwrap().next();
            let cut = Arc::clone(&cuts.count);
            let (to_server, to_client) = (server.try_clone().unwrap(), client.try_clone().unwrap());
            std::thread::spawn(move || pass(client, to_server, usize::MAX, change));
            std::thread::spawn(move || {
                if pass(server, to_client, limit.unwrap_or(usize::MAX), |_| {}) {
                    cut.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
    });
    port
}

/// About what is sent before the first row: the segment of the log up to where a checkpoint freezes.
fn bytes_before_rows(primary: &Serving) -> usize {
    let sql = "select pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint % (16 * 1024 * 1024)";
    value(&mut primary.client(), sql).parse().unwrap()
}

/// Passes bytes on until one side ends, or there were so many; whether that was so.
fn pass(mut from: TcpStream, mut to: TcpStream, mut left: usize, change: fn(&mut [u8])) -> bool {
    let mut buffer = vec![0; 4096];
    while let Ok(bytes @ 1..) = from.read(&mut buffer) {
        let passed = bytes.min(left);
        left -= passed;
        change(&mut buffer[..passed]);
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
    // A promotion, which other standbys are offered, is none of its ways out.
    assert!(said.contains("is being made equal") && said.contains("--follow"), "{said}");
    assert!(!said.contains("seawall promote"), "{said}");
    let refused = place.command(&["check", "db"]).output().unwrap();
    assert!(String::from_utf8_lossy(&refused.stderr).contains("is being made equal"), "{refused:?}");
    let back = place.serve_database("db", &["--follow", &followed("db", new.port)]);
    assert_equal(&back, &new);
    back.end();
}

/// A port where nobody listens.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// What a page of HTTP says, if there is a server.
pub(crate) fn page(port: u16, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

/// Another server uses the slot, by a mistake in its settings.
#[test]
fn a_rewind_that_is_refused_is_loud_and_goes_on_when_that_is_changed() {
    let place = Place::new();
    let new = parted(&place);
    let settings = format!("host=localhost port={} user=postgres slot=db application_name=third", new.port);
    let third = place.serve_database("third", &["--follow", &settings]);
    seawall_testing::wait_until("the slot is in use", || {
        let used = "select count(*) from pg_replication_slots where slot_name = 'db' and active";
        value(&mut new.client(), used) == "1"
    });
    let port = free_port();
    let listen = format!("127.0.0.1:{port}");
    let started = place.start(&["--follow", &followed("db", new.port), "--http-listen", &listen]);
    let said = || std::fs::read_to_string(&started.log).unwrap();
    let refused = || said().matches("the server to follow refuses").count();
    seawall_testing::wait_until("it was refused twice", || refused() >= 2);
    let said = said();
    // The second pause is longer than the first.
    assert!(said.contains("next_seconds: 1") && said.contains("next_seconds: 2"), "{said}");
    let ready = page(port, "/health/ready").unwrap();
    assert!(ready.starts_with("HTTP/1.1 503 ") && ready.contains("held up"), "{ready}");
    assert!(ready.contains("55006") && ready.contains("\"db\""), "{ready}");
    let metrics = page(port, "/metrics").unwrap();
    let failures = metrics.lines().find_map(|line| line.strip_prefix("seawall_server_start_failures_total "));
    assert!(failures.unwrap().parse::<u64>().unwrap() >= 2, "{metrics}");
    // Nothing was changed so far.
    assert!(!place.path().join("db/rewinding").exists());
    third.end();
    let back =
        started.serving().unwrap_or_else(|ended| panic!("{}", std::fs::read_to_string(ended.log).unwrap()));
    assert_equal(&back, &new);
    let ready = page(port, "/health/ready").unwrap();
    assert!(ready.ends_with("ready\n"), "{ready}");
    back.end();
}

/// A primary that knows no rewinds.
#[test]
fn a_rewind_that_can_never_be_ends_with_what_to_do() {
    let place = Place::new();
    let new = parted(&place);
    let (port, _) = network(new.port, Vec::new(), |said| {
        const COMMAND: &[u8] = b"SEAWALL_COPY SLOT";
        if let Some(at) = said.windows(COMMAND.len()).position(|bytes| bytes == COMMAND) {
            said[at..at + 7].copy_from_slice(b"UNKNOWN");
        }
    });
    let settings =
        format!("host=127.0.0.1 port={port} user=postgres slot=db application_name=db sslmode=disable");
    let ended = place.command(&["serve", "db", "--port", "0", "--follow", &settings]).output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert!(said.contains("cannot send the rows that have changed") && said.contains("upgrade it"), "{said}");
    // It is what it was: nothing here is lost.
    assert!(!place.path().join("db/rewinding").exists());
    let old = place.serve(&[]);
    assert_eq!(value(&mut old.client(), "select text from t where number = -2"), "old");
    old.end();
    // With another primary it comes back.
    let back = place.serve_database("db", &["--follow", &followed("db", new.port)]);
    assert_equal(&back, &new);
    back.end();
}

/// A server that has handed its role over is started without `--follow`, also where it was being rewound.
#[test]
fn a_rewind_after_a_handover_is_completed_without_follow() {
    let place = Place::new();
    let old = place.serve(&[]);
    run(&old, "create table t (number int primary key, text text); create table gone (a int primary key)");
    run(&old, &format!("insert into t select i, repeat(md5(i::text), 10) from generate_series(1, {ROWS}) i"));
    let second = follow(&place, "second", &old);
    let third = follow(&place, "third", &old);
    let ports = (second.port, third.port);
    // An address that moves from the one to the other.
    let cut = Arc::new(Cuts::new(second.port, Vec::new()));
    let address = format!("host=127.0.0.1 port={}", cut_by(&cut, |_| {}));
    let settings = format!("{address} user=postgres slot=db application_name=db sslmode=disable");
    wait_for(&second, &old, WRITTEN);
    wait_for(&third, &old, WRITTEN);
    third.kill();
    let switched =
        place.command(&["switchover", "db", "--to", "second", "--follow", &settings]).output().unwrap();
    assert!(switched.status.success(), "{switched:?}");
    seawall_testing::wait_until("the former primary is a standby", || {
        connect(old.port).is_some_and(|mut client| {
            let rows = answered(&mut client, "select pg_is_in_recovery()");
            rows.is_ok_and(|rows| rows[0][0].as_deref() == Some("t"))
        })
    });
    // The third server has nothing of this.
    run(&second, "update t set text = 'lost' where number < 200; insert into t values (-2, 'lost')");
    wait_for(&old, &second, WRITTEN);
    run(&old, "checkpoint");
    run(&old, "checkpoint");
    second.kill();
    old.kill();
    let gone = format!("host=localhost port={} user=postgres slot=third", ports.0);
    let third = place.start_on(ports.1, "third", &["--follow", &gone]).serving();
    let third = third.unwrap_or_else(|ended| panic!("{}", std::fs::read_to_string(ended.log).unwrap()));
    let promoted = place.command(&["promote", "third"]).output().unwrap();
    assert!(promoted.status.success(), "{promoted:?}");
    run(&third, "insert into t values (-1, 'new')");

    cut.upstream.store(third.port, Ordering::SeqCst);
    // The answer that names the fork; the beginning of the rows; two more attempts.
    *cut.limits.lock().unwrap() = vec![usize::MAX, bytes_before_rows(&third) + 80_000, 1, 1].into_iter();
    let mut started = place.start(&[]);
    seawall_testing::wait_until("the connection is cut", || cut.count.load(Ordering::SeqCst) > 0);
    started.child.kill().unwrap();
    started.child.wait().unwrap();
    assert!(place.path().join("db/rewinding").exists(), "{}", std::fs::read_to_string(started.log).unwrap());
    // Nothing takes it for a server with a role.
    for words in [&["promote", "db", "--wait", "0"][..], &["switchover", "db"], &["new-timeline", "db"]] {
        let refused = place.command(words).output().unwrap();
        assert!(!refused.status.success(), "{words:?}: {refused:?}");
    }
    assert!(place.path().join("db/rewinding").exists() && place.path().join("db/handover").exists());
    let back = place.serve(&[]);
    assert_equal(&back, &third);
    assert_eq!(value(&mut back.client(), "select count(*) from t where text = 'lost'"), "0");
    // The role comes to it again.
    third.kill();
    let promoted = place.command(&["promote", "db"]).output().unwrap();
    assert!(promoted.status.success(), "{promoted:?}");
    run(&back, "insert into t values (-60, 'back'); checkpoint");
    back.end();
    place.check();
}
