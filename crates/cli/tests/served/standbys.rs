//! Standbys that are made from a running primary, follow each other, and take the primary's place.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use seawall_testing::wait_until;

use crate::client::Client;
use crate::process::{Place, Serving, answered, rows, value};
use crate::rewinding::{free_port, network, page};

const WRITERS: u64 = 3;

/// Follows `upstream`; the names of what follows are those of the directories.
pub(crate) fn follow(place: &Place, directory: &str, upstream: &Serving) -> Serving {
    place.serve_database(directory, &["--follow", &followed(directory, upstream.port)])
}

/// What `directory` follows.
pub(crate) fn followed(directory: &str, port: u16) -> String {
    format!("host=localhost port={port} user=postgres slot={directory} application_name={directory}")
}

fn ask(serving: &Serving, sql: &str) -> String {
    value(&mut serving.client(), sql)
}

/// Inserts rows until it is told to end, or the server is gone.
fn write(port: u16, writer: u64, acknowledged: &AtomicU64, is_over: &AtomicBool) {
    let mut client = Client::logged_in(port, "postgres");
    for number in 0.. {
        let text = "x".repeat(usize::try_from(number % 700).unwrap());
        let sql = format!("insert into t values ({writer}, {number}, '{text}')");
        if is_over.load(Ordering::SeqCst) || answered(&mut client, &sql).is_err() {
            return;
        }
        acknowledged.fetch_add(1, Ordering::SeqCst);
    }
}

fn fingerprint(serving: &Serving) -> String {
    ask(
        serving,
        "select count(*) || ' ' || coalesce(md5(string_agg(t::text, '|' order by writer, number)), '') from t t",
    )
}

/// Everything that `upstream` has is seen by readers of `standby`.
pub(crate) fn wait_for(standby: &Serving, upstream: &Serving, position: &str) {
    let end = ask(upstream, &format!("select {position}"));
    let has_come = format!("select coalesce(pg_last_wal_replay_lsn() >= '{end}', false)");
    wait_until("the standby has applied everything", || ask(standby, &has_come) == "t");
}

pub(crate) const WRITTEN: &str = "pg_current_wal_lsn()";
pub(crate) const FOLLOWED: &str = "pg_last_wal_replay_lsn()";

#[test]
fn standbys_are_made_under_load_and_follow_the_one_that_is_promoted() {
    let place = Place::new();
    let primary = place.serve(&[]);
    rows(
        &mut primary.client(),
        "create table t (writer int, number int, text text, primary key (writer, number))",
    );
    rows(
        &mut primary.client(),
        "insert into t select -1, i, repeat('y', 500) from generate_series(1, 20000) i",
    );
    let (acknowledged, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    let (first, second, cascade) = std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (acknowledged, is_over, port) = (&acknowledged, &is_over, primary.port);
            scope.spawn(move || write(port, writer, acknowledged, is_over));
        }
        wait_until("rows are written", || acknowledged.load(Ordering::SeqCst) > 100);
        // Both are made while rows come.
        let first = follow(&place, "first", &primary);
        let second = follow(&place, "second", &primary);
        let before = acknowledged.load(Ordering::SeqCst);
        wait_until("rows are written", || acknowledged.load(Ordering::SeqCst) > before + 100);
        // A copy of the primary that goes on behind the first standby.
        is_over.store(true, Ordering::SeqCst);
        let cascade = follow(&place, "cascade", &primary);
        cascade.end();
        let cascade = follow(&place, "cascade", &first);
        (first, second, cascade)
    });
    wait_for(&first, &primary, WRITTEN);
    wait_for(&second, &primary, WRITTEN);
    wait_for(&cascade, &first, FOLLOWED);
    let expected = fingerprint(&primary);
    for standby in [&first, &second, &cascade] {
        assert_eq!(fingerprint(standby), expected);
    }
    assert_eq!(
        ask(&first, "select count(*) from pg_stat_replication where application_name = 'cascade'"),
        "1"
    );
    let lags =
        "select count(*) from pg_stat_replication where replay_lsn is not null and sync_state = 'async'";
    assert_eq!(ask(&primary, lags), "2");

    primary.kill();
    let promoted = place.command(&["--json", "promote", "first"]).output().unwrap();
    assert!(promoted.status.success(), "{promoted:?}");
    let answer: serde_json::Value = serde_json::from_slice(&promoted.stdout).unwrap();
    assert_eq!(answer["timeline"], 2);
    assert_eq!(fingerprint(&first), expected);
    rows(&mut first.client(), "insert into t values (100, 1, 'after the promotion')");

    // The cascade follows by itself, and the other standby when it is told of the new primary.
    wait_for(&cascade, &first, WRITTEN);
    second.end();
    let second = follow(&place, "second", &first);
    wait_for(&second, &first, WRITTEN);
    let expected = fingerprint(&first);
    for standby in [&second, &cascade] {
        assert_eq!(fingerprint(standby), expected);
        assert_eq!(ask(standby, "select received_tli from pg_stat_wal_receiver"), "2");
        standby.panics_nowhere();
    }
    // A standby of the new timeline comes back on it.
    second.kill();
    let second = follow(&place, "second", &first);
    rows(&mut first.client(), "insert into t values (100, 2, 'again')");
    wait_for(&second, &first, WRITTEN);
    assert_eq!(fingerprint(&second), fingerprint(&first));

    // What was promoted is not a standby by mistake, and is served without --follow.
    first.kill();
    let again = format!("host=localhost port={} user=postgres", second.port);
    let refused = place.command(&["serve", "first", "--port", "0", "--follow", &again]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("first was a standby, and was promoted: serve it without --follow"), "{said}");
    let refused = place.command(&["promote", "first"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    let first = place.serve_database("first", &[]);
    assert_eq!(ask(&first, "select pg_is_in_recovery()"), "f");
    let before = ask(&first, "select count(*) from t");
    rows(&mut first.client(), "insert into t values (100, 3, 'once more')");
    assert_ne!(ask(&first, "select count(*) from t"), before);
    first.end();
}

/// All servers have the same list; none of them follows a standby, or itself.
#[test]
fn a_standby_finds_the_new_primary_among_several_hosts() {
    let place = Place::new();
    let primary = place.serve(&["--max-slot-wal-keep-size", "64GiB"]);
    rows(&mut primary.client(), "create table t (writer int, number int, text text)");
    rows(&mut primary.client(), "insert into t values (1, 1, 'before')");
    let first = follow(&place, "first", &primary);
    // The first host is a standby for now, and the third one does not answer.
    let (ports, nobody) = ([first.port, primary.port], TcpListener::bind("127.0.0.1:0").unwrap());
    let closed = nobody.local_addr().unwrap().port();
    drop(nobody);
    let settings = format!(
        "host=localhost,localhost,localhost port={},{},{closed} user=postgres slot=second application_name=second",
        ports[0], ports[1]
    );
    let second = place.serve_database("second", &["--follow", &settings]);
    wait_for(&second, &primary, WRITTEN);
    assert_eq!(ask(&second, "select sender_port from pg_stat_wal_receiver"), ports[1].to_string());
    let slots = "select string_agg(slot_name || ' ' || wal_status, ', ' order by slot_name) from pg_replication_slots \
                 where safe_wal_size > 0";
    assert_eq!(ask(&primary, slots), "first reserved, second reserved");
    wait_for(&first, &primary, WRITTEN);

    primary.kill();
    let promoted = place.command(&["promote", "first"]).output().unwrap();
    assert!(promoted.status.success(), "{promoted:?}");
    rows(&mut first.client(), "insert into t values (1, 2, 'after the promotion')");
    wait_for(&second, &first, WRITTEN);
    assert_eq!(fingerprint(&second), fingerprint(&first));
    assert_eq!(ask(&second, "select sender_port from pg_stat_wal_receiver"), ports[0].to_string());
    second.panics_nowhere();
    second.end();
    first.end();
}

#[test]
fn a_standby_that_is_killed_while_it_is_made_is_made_by_the_next_start() {
    let place = Place::new();
    let primary = place.serve(&[]);
    rows(
        &mut primary.client(),
        "create table t (writer int, number int, text text, primary key (writer, number))",
    );
    rows(
        &mut primary.client(),
        "insert into t select 1, i, repeat(md5(i::text), 30) from generate_series(1, 30000) i",
    );
    let settings = format!("host=localhost port={} user=postgres slot=made", primary.port);
    for attempt in 0..4 {
        let mut started = place.start_database("made", &["--follow", &settings]);
        let file = place.path().join("made").join("pages");
        wait_until("rows come", || {
            let bytes = std::fs::metadata(&file).map_or(0, |file| file.len());
            bytes > attempt * 3_000_000 || started.child.try_wait().unwrap().is_some()
        });
        started.child.kill().unwrap();
        started.child.wait().unwrap();
    }
    let standby = place.serve_database("made", &["--follow", &settings]);
    wait_for(&standby, &primary, WRITTEN);
    assert_eq!(fingerprint(&standby), fingerprint(&primary));
    standby.end();
    primary.end();
}

/// Its rows are all here, and the primary does not give the log that they need.
#[test]
fn a_copy_whose_primary_refuses_the_log_says_why_and_goes_on_when_that_is_changed() {
    static DROPS_SLOT: AtomicBool = AtomicBool::new(true);
    let place = Place::new();
    let primary = place.serve(&[]);
    rows(&mut primary.client(), "create table t (writer int, number int, text text)");
    rows(&mut primary.client(), "insert into t select 1, i, 'x' from generate_series(1, 1000) i");
    // As if the slot were dropped again and again, each time that it was made.
    let (port, _) = network(primary.port, Vec::new(), |said| {
        const COMMAND: &[u8] = b"START_REPLICATION SLOT \"made\"";
        if DROPS_SLOT.load(Ordering::SeqCst)
            && let Some(at) = said.windows(COMMAND.len()).position(|bytes| bytes == COMMAND)
        {
            said[at..at + COMMAND.len()].copy_from_slice(b"START_REPLICATION SLOT \"gone\"");
        }
    });
    let settings = format!("host=127.0.0.1 port={port} user=postgres slot=made sslmode=disable");
    let http = free_port();
    let started =
        place.start_database("made", &["--follow", &settings, "--http-listen", &format!("127.0.0.1:{http}")]);
    let ready = || page(http, "/health/ready").unwrap_or_default();
    wait_until("it says that it is held up", || ready().contains("held up"));
    let said = ready();
    assert!(
        said.starts_with("HTTP/1.1 503 ") && said.contains("the copy of the primary needs log"),
        "{said}"
    );
    assert!(said.contains("replication slot \"gone\" does not exist"), "{said}");
    let failures = || {
        let metrics = page(http, "/metrics").unwrap_or_default();
        let failures =
            metrics.lines().find_map(|line| line.strip_prefix("seawall_server_start_failures_total "));
        failures.and_then(|failures| failures.parse::<u64>().ok()).unwrap_or_default()
    };
    wait_until("attempts are counted", || failures() >= 2);
    DROPS_SLOT.store(false, Ordering::SeqCst);
    let standby =
        started.serving().unwrap_or_else(|ended| panic!("{}", std::fs::read_to_string(ended.log).unwrap()));
    assert!(ready().ends_with("ready\n"), "{}", ready());
    assert_eq!(fingerprint(&standby), fingerprint(&primary));
    standby.end();
    primary.end();
}

/// The files are a root's certificate, and one for `localhost` with its key, good for a hundred years.
#[test]
fn a_standby_verifies_the_certificate_of_its_primary() {
    let place = Place::new();
    let file = |name: &str| format!("{}/tests/served/tls/{name}", env!("CARGO_MANIFEST_DIR"));
    let key = place.path().join("key.pem");
    std::fs::copy(file("key.pem"), &key).unwrap();
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    let (certificate, root) = (file("certificate.pem"), file("root.pem"));
    let primary = place.serve(&[
        "--tls-certificate",
        &certificate,
        "--tls-key",
        key.to_str().unwrap(),
        "--access",
        "hostnossl replication all all reject",
        "--access",
        "host all all all trust",
    ]);
    rows(&mut primary.client(), "create table t (writer int, number int)");
    let base = format!("port={} user=postgres", primary.port);
    for (directory, settings) in [
        ("full", format!("host=localhost sslmode=verify-full sslrootcert='{root}' slot=full {base}")),
        ("ca", format!("host=127.0.0.1 sslmode=verify-ca sslrootcert='{root}' slot=ca {base}")),
        ("any", format!("host=127.0.0.1 sslmode=require slot=any {base}")),
    ] {
        let standby = place.serve_database(directory, &["--follow", &settings]);
        wait_for(&standby, &primary, WRITTEN);
        standby.end();
    }
    for (settings, expected) in [
        (
            format!("host=127.0.0.1 sslmode=verify-full sslrootcert='{root}' {base}"),
            "certificate not valid for name",
        ),
        (format!("host=localhost sslmode=verify-full sslrootcert='{certificate}' {base}"), "certificate"),
        (format!("host=localhost sslmode=disable {base}"), "reject"),
    ] {
        let refused =
            place.command(&["serve", "refused", "--port", "0", "--follow", &settings]).output().unwrap();
        assert_eq!(refused.status.code(), Some(1), "{refused:?}");
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(said.contains(expected), "{settings}: {said}");
    }
    primary.end();
}

#[test]
fn a_standby_of_an_encrypted_database_needs_its_master_key() {
    let place = Place::new();
    let key = place.path().join("master.key");
    std::fs::write(&key, "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f").unwrap();
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    let with_key = ["--master-key-file", key.to_str().unwrap()];
    let made = place.command(&[&["init", "db", "--encrypt"], &with_key[..]].concat()).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    let primary = place.serve(&with_key);
    rows(
        &mut primary.client(),
        "create table t (writer int, number int, text text, primary key (writer, number))",
    );
    rows(&mut primary.client(), "insert into t select 1, i, md5(i::text) from generate_series(1, 2000) i");
    let settings = format!("host=localhost port={} user=postgres slot=sealed", primary.port);
    let refused = place.command(&["serve", "sealed", "--port", "0", "--follow", &settings]).output().unwrap();
    assert_eq!(refused.status.code(), Some(9), "{refused:?}");
    let follows = ["--follow", &settings];
    let standby = place.serve_database("sealed", &[&with_key[..], &follows].concat());
    wait_for(&standby, &primary, WRITTEN);
    assert_eq!(fingerprint(&standby), fingerprint(&primary));
    standby.end();
    primary.end();
}

/// What a network does to the bytes from a primary.
struct BadNetwork {
    port: u16,
    upstream: u16,
    /// A byte is changed after about so many, and the connection is cut after several times as many. 0: never.
    change_every: AtomicU64,
    changed: AtomicU64,
}

impl BadNetwork {
    /// Takes connections until the test ends.
    fn begin(upstream: u16, change_every: u64) -> &'static BadNetwork {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let network: &'static BadNetwork = Box::leak(Box::new(BadNetwork {
            port: listener.local_addr().unwrap().port(),
            upstream,
            change_every: AtomicU64::new(change_every),
            changed: AtomicU64::new(0),
        }));
        std::thread::spawn(move || {
            for (number, client) in listener.incoming().enumerate() {
                let (Ok(client), Ok(server)) = (client, TcpStream::connect(("127.0.0.1", network.upstream)))
                else {
                    continue;
                };
                let (to_server, from_client) = (server.try_clone().unwrap(), client.try_clone().unwrap());
                std::thread::spawn(move || pass(from_client, to_server, |_| true));
                let mut random = fastrand::Rng::with_seed(number as u64);
                let mut has_changed = false;
                std::thread::spawn(move || {
                    pass(server, client, |bytes| network.spoil(bytes, &mut random, &mut has_changed));
                });
            }
        });
        network
    }

    /// Whether the connection goes on. When the network is good again, none goes on that has had a changed byte.
    fn spoil(&self, bytes: &mut [u8], random: &mut fastrand::Rng, has_changed: &mut bool) -> bool {
        let change_every = self.change_every.load(Ordering::SeqCst);
        if change_every == 0 {
            return !*has_changed;
        }
        if random.u64(..change_every) > bytes.len() as u64 {
            return true;
        }
        let at = random.usize(..bytes.len());
        bytes[at] ^= 1 << random.u32(..8);
        *has_changed = true;
        self.changed.fetch_add(1, Ordering::SeqCst);
        random.u32(..4) > 0
    }
}

/// Passes bytes on until one side ends or `spoil` says so; in pieces of odd sizes.
fn pass(mut from: TcpStream, mut to: TcpStream, mut spoil: impl FnMut(&mut [u8]) -> bool) {
    let mut buffer = vec![0; 30_011];
    while let Ok(bytes @ 1..) = from.read(&mut buffer) {
        if !spoil(&mut buffer[..bytes]) || to.write_all(&buffer[..bytes]).is_err() {
            break;
        }
    }
    from.shutdown(Shutdown::Both).unwrap_or_default();
    to.shutdown(Shutdown::Both).unwrap_or_default();
}

/// A network that changes bytes and cuts connections makes a standby late, and never wrong.
#[test]
fn a_standby_behind_a_bad_network_becomes_equal() {
    let place = Place::new();
    let primary = place.serve(&[]);
    rows(
        &mut primary.client(),
        "create table t (writer int, number int, text text, primary key (writer, number))",
    );
    rows(
        &mut primary.client(),
        "insert into t select -1, i, repeat(md5(i::text), 20) from generate_series(1, 4000) i",
    );
    // A copy of about 3 MB: some attempts fail, one comes through.
    let network = BadNetwork::begin(primary.port, 6_000_000);
    let settings = format!("host=127.0.0.1 port={} user=postgres slot=bad sslmode=disable", network.port);
    let arguments = ["--follow", &settings[..]];
    let mut attempts = 0;
    let standby = loop {
        attempts += 1;
        // The last attempts go through whatever has come of those before.
        if attempts > 10 {
            network.change_every.store(0, Ordering::SeqCst);
        }
        match place.start_database("bad", &arguments).serving() {
            Ok(serving) => break serving,
            Err(mut ended) => assert!(!ended.child.wait().unwrap().success()),
        }
    };
    network.change_every.store(200_000, Ordering::SeqCst);
    let (acknowledged, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (acknowledged, is_over, port) = (&acknowledged, &is_over, primary.port);
            scope.spawn(move || write(port, writer, acknowledged, is_over));
        }
        let before = network.changed.load(Ordering::SeqCst);
        wait_until("bytes are changed", || network.changed.load(Ordering::SeqCst) > before + 3);
        is_over.store(true, Ordering::SeqCst);
    });
    network.change_every.store(0, Ordering::SeqCst);
    wait_for(&standby, &primary, WRITTEN);
    assert_eq!(fingerprint(&standby), fingerprint(&primary));
    standby.end();
    primary.end();
}
