//! The three ways to end, and what a reload changes.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use seawall_engine::RecoveryProgress;
use seawall_server::{Configuration, Server, Shutdown};
use seawall_testing::wait_until;
use seawall_types::Lsn;

use crate::client::{Client, VERSION, query, startup};
use crate::fake::Fake;
use crate::{configuration, running, running_with};

const ADMIN: &str = "Error FATAL 57P01 terminating connection due to administrator command";

#[test]
fn a_fast_shutdown_ends_what_is_under_way() {
    let server = running();
    let port = server.port();
    let mut idle = Client::logged_in(port, "bob");
    let mut open = Client::logged_in(port, "bob");
    open.query("BEGIN");
    let mut sleeping = Client::logged_in(port, "bob");
    sleeping.send(&query("SELECT pg_sleep(3600)"));
    let mut copying = Client::logged_in(port, "bob");
    copying.query("COPY t FROM STDIN");
    let mut slow = Client::logged_in(port, "bob");
    slow.send(&query("SELECT repeat('x', 1000) FROM generate_series(1, 1000000)"));
    assert_eq!(server.end(Shutdown::Fast), Shutdown::Fast);
    assert_eq!(idle.answers(), [ADMIN, "closed"]);
    assert_eq!(open.answers(), [ADMIN, "closed"]);
    assert!(sleeping.answers().ends_with(&[ADMIN.to_owned(), "closed".to_owned()]));
    assert!(!copying.answers().is_empty());
    TcpStream::connect(("127.0.0.1", port)).unwrap_err();
}

#[test]
fn a_fast_shutdown_does_not_wait_for_a_password() {
    let access = vec!["host all all all scram-sha-256".parse().unwrap()];
    let authentication_timeout = Duration::from_secs(3600);
    let server = running_with(&Configuration { access, authentication_timeout, ..configuration() });
    let mut client = Client::tcp(server.port());
    client.send(&startup(VERSION, &[("user", "alice")]));
    assert_eq!(client.receive().unwrap().kind, b'R');
    let ending = std::thread::spawn(move || server.end(Shutdown::Fast));
    wait_until("the server has ended", || ending.is_finished());
    assert_eq!(client.answers(), ["closed"]);
}

#[test]
fn a_smart_shutdown_waits_for_the_last_client() {
    let server = running();
    let port = server.port();
    let mut client = Client::logged_in(port, "bob");
    let ending = std::thread::spawn(move || server.end(Shutdown::Smart));
    let expected = ["Error FATAL 57P03 the database system is shutting down", "closed"];
    wait_until("no new client is taken", || {
        let mut late = Client::tcp(port);
        late.send(&startup(VERSION, &[("user", "bob")]));
        late.answers() == expected
    });
    assert_eq!(client.query("SELECT generate_series(1, 1)").last().unwrap(), "ReadyForQuery I");
    assert!(!ending.is_finished());
    drop(client);
    assert_eq!(ending.join().unwrap(), Shutdown::Smart);
}

#[test]
fn an_immediate_shutdown_waits_for_nothing() {
    let server = running();
    let mut sleeping = Client::logged_in(server.port(), "bob");
    sleeping.send(&query("SELECT pg_sleep(3600)"));
    assert_eq!(server.end(Shutdown::Immediate), Shutdown::Immediate);
    assert!(sleeping.answers().last().is_some_and(|last| last == "closed"));
}

#[test]
fn a_reload_changes_rules_and_keeps_what_is_in_force_if_they_are_wrong() {
    let server = running();
    let mut before = Client::logged_in(server.port(), "bob");
    let access = vec!["host all alice all trust".parse().unwrap()];
    server.reload(&Configuration { access, ..configuration() }).unwrap();
    let refused = |server: &Server, user: &str| {
        let mut client = Client::tcp(server.port());
        client.send(&startup(VERSION, &[("user", user)]));
        client.answers()[0].starts_with("Error FATAL 28000 no access rule")
    };
    assert!(refused(&server, "bob"));
    assert!(!refused(&server, "alice"));
    let open = vec!["host all all all trust".parse().unwrap()];
    let everywhere = Configuration { access: open, listen: vec!["*".to_owned()], ..configuration() };
    server.reload(&everywhere).unwrap_err();
    assert!(refused(&server, "bob"));
    // Who is in stays in.
    assert_eq!(before.query("SELECT generate_series(1, 0)").last().unwrap(), "ReadyForQuery I");
}

#[test]
fn a_database_that_has_stopped_is_not_ready() {
    let http = Configuration { http_listen: Some(([127, 0, 0, 1], 0).into()), ..configuration() };
    let server = Server::start(&http).unwrap();
    let database = Arc::new(Fake::default());
    server.serve(Arc::<Fake>::clone(&database));
    assert!(get(&server, "/health/ready").starts_with("HTTP/1.1 200 "));
    database.is_stopped.store(true, Ordering::SeqCst);
    let ready = get(&server, "/health/ready");
    assert!(ready.starts_with("HTTP/1.1 503 ") && ready.contains("takes no more writes"), "{ready}");
}

fn get(server: &Server, path: &str) -> String {
    let mut stream = TcpStream::connect(server.http_address().unwrap()).unwrap();
    stream.set_read_timeout(Some(seawall_testing::PATIENCE)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn metrics_and_health_are_served() {
    let http = Configuration { http_listen: Some(([127, 0, 0, 1], 0).into()), ..configuration() };
    let starting = Server::start(&http).unwrap();
    assert!(get(&starting, "/health/live").starts_with("HTTP/1.1 200 "));
    let ready = get(&starting, "/health/ready");
    assert!(ready.starts_with("HTTP/1.1 503 ") && ready.ends_with("starting\n"), "{ready}");
    assert!(get(&starting, "/metrics").ends_with("# EOF\n"));
    let progress = RecoveryProgress {
        redo_point: Lsn::new(1000),
        replayed: Lsn::new(1700),
        end_at_most: Lsn::new(2000),
        elapsed: Duration::from_secs(7),
        left_at_most: Duration::from_secs(3),
    };
    starting.progress().tell(progress);
    let ready = get(&starting, "/health/ready");
    let expected = "recovering: 700 of at most 1000 bytes of the log are replayed, at most 3 seconds to go\n";
    assert!(ready.starts_with("HTTP/1.1 503 ") && ready.ends_with(expected), "{ready}");
    drop(starting);

    let server = running_with(&http);
    let mut client = Client::logged_in(server.port(), "bob");
    client.query("SELECT 1/0");
    assert!(get(&server, "/health/ready").starts_with("HTTP/1.1 200 "));
    let metrics = get(&server, "/metrics");
    for line in [
        "application/openmetrics-text",
        "seawall_stopped 0",
        "seawall_server_connections 1",
        "seawall_server_logins_total 1",
        "seawall_server_failed_statements_total 1",
        "seawall_server_statement_duration_seconds_count 1",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
    assert_eq!(metrics.matches("# EOF").count(), 1);
    assert!(get(&server, "/other").starts_with("HTTP/1.1 404 "));
}
