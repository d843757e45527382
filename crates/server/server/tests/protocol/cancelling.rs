//! What ends a statement or a connection before its time.

use std::sync::Arc;
use std::time::Duration;

use seawall_server::{Configuration, Server};
use seawall_testing::{wait_for, wait_until};

use crate::client::{Client, SYNC, VERSION, cancel, query, shown, startup};
use crate::fake::Fake;
use crate::{configuration, running, running_with};

const SLEEP: &str = "SELECT pg_sleep(3600)";

fn with_setting(port: u16, name: &str, value: &str) -> Client {
    let mut client = Client::tcp(port);
    client.send(&startup(VERSION, &[("user", "bob"), (name, value)]));
    client.finish_login();
    client
}

fn cancelled(reason: &str) -> [String; 3] {
    let error = format!("Error ERROR 57014 canceling statement due to {reason}");
    ["RowDescription pg_sleep:2278:0".to_owned(), error, "ReadyForQuery I".to_owned()]
}

#[test]
fn a_statement_is_cancelled_by_its_key_and_by_no_other() {
    let server = running();
    let mut sleeper = Client::logged_in(server.port(), "bob");
    let (process_id, key) = (sleeper.process_id, sleeper.key.clone());
    sleeper.send(&query(SLEEP));
    let wrong: Vec<u8> = key.iter().map(|byte| !byte).collect();
    for (process_id, key) in [(process_id, &wrong[..]), (process_id, &key[..3]), (process_id + 1, &key[..])] {
        let mut client = Client::tcp(server.port());
        client.send(&cancel(process_id, key));
        assert_eq!(client.receive(), None);
    }
    // The right key is sent until it meets the statement.
    let port = server.port();
    let (ended, has_ended) = std::sync::mpsc::channel();
    let canceller = std::thread::spawn(move || {
        wait_until("the statement is cancelled", || {
            Client::tcp(port).send(&cancel(process_id, &key));
            has_ended.try_recv().is_ok()
        });
    });
    assert_eq!(sleeper.answers(), cancelled("user request"));
    ended.send(()).unwrap();
    canceller.join().unwrap();
    assert_eq!(sleeper.query("SELECT generate_series(1, 0)").len(), 3);
}

#[test]
fn a_statement_has_a_limit_of_time() {
    let server = running();
    let mut client = with_setting(server.port(), "statement_timeout", "20");
    assert_eq!(client.query(SLEEP), cancelled("statement timeout"));
    assert_eq!(client.query(SLEEP), cancelled("statement timeout"));
}

/// As a session that takes its cancellation back when a statement begins.
#[test]
fn a_statement_that_does_not_notice_is_told_again() {
    let server = running();
    let mut client = with_setting(server.port(), "statement_timeout", "1");
    let expected = ["Error ERROR 57014 canceling statement due to statement timeout", "ReadyForQuery I"];
    assert_eq!(client.query("SLEEP DEEPLY"), expected);
}

#[test]
fn an_idle_connection_has_a_limit_of_time() {
    let server = running();
    let mut client = with_setting(server.port(), "idle_session_timeout", "20");
    let expected = ["Error FATAL 57P05 terminating connection due to idle-session timeout", "closed"];
    assert_eq!(client.answers(), expected);
    let mut client = with_setting(server.port(), "idle_in_transaction_session_timeout", "20");
    assert_eq!(client.query("BEGIN").last().unwrap(), "ReadyForQuery T");
    let expected = ["Error FATAL 25P03 terminating connection due to idle-in-transaction timeout", "closed"];
    assert_eq!(client.answers(), expected);
}

#[test]
fn bytes_that_come_one_by_one_make_no_limit_longer() {
    let server = running();
    let mut client = with_setting(server.port(), "idle_in_transaction_session_timeout", "100");
    assert_eq!(client.query("BEGIN").last().unwrap(), "ReadyForQuery T");
    client.send(&[b'Q', 0, 1, 0, 0]);
    wait_until("the connection has ended", || client.try_send(b"x").is_err());

    let mut client = with_setting(server.port(), "statement_timeout", "100");
    client.query("COPY t FROM STDIN");
    client.send(&[b'd', 0, 1, 0, 0]);
    client.set_limit(Duration::from_millis(5));
    let told = wait_for("the statement has ended", || {
        client.send(b"x");
        client.try_receive().ok().flatten()
    });
    assert_eq!(shown(&told), "Error ERROR 57014 canceling statement due to statement timeout");
}

/// There is one place: the next client gets it when the server has noticed.
#[test]
fn a_client_that_vanishes_takes_its_statement_with_it() {
    let interval = Some(Duration::from_millis(10));
    let server = running_with(&Configuration {
        client_check_interval: interval,
        connections_max: 1,
        connections_reserved: 0,
        ..configuration()
    });
    for sent in [
        query(SLEEP),
        query("COPY t FROM STDIN"),
        query("SELECT repeat('x', 1000) FROM generate_series(1, 100000)"),
        query("BEGIN"),
        query("SELECT")[..7].to_vec(),
        Vec::new(),
    ] {
        let mut client = Client::admitted(server.port(), "bob");
        client.send(&sent);
    }
    Client::admitted(server.port(), "bob");
}

#[test]
fn a_client_that_takes_nothing_is_given_up() {
    let server = running_with(&Configuration {
        write_timeout: Duration::from_millis(200),
        connections_max: 1,
        connections_reserved: 0,
        ..configuration()
    });
    let mut slow = Client::logged_in(server.port(), "bob");
    slow.send(&query("SELECT repeat('x', 1000) FROM generate_series(1, 1000000)"));
    Client::admitted(server.port(), "bob");
}

#[test]
fn a_panic_ends_one_connection() {
    let server = running();
    let mut other = Client::logged_in(server.port(), "bob");
    let mut client = Client::logged_in(server.port(), "bob");
    let expected = ["Error FATAL XX000 a statement has failed in an unforeseen way", "closed"];
    assert_eq!(client.query("PANIC"), expected);
    other.send(SYNC);
    assert_eq!(other.answers(), ["ReadyForQuery I"]);
}

/// Each of them waits for the next one, as transactions do that wait for locks: with fewer threads none would go on.
#[test]
fn all_connections_may_be_inside_a_statement() {
    let server = running_with(&Configuration { connections_max: 40, ..configuration() });
    let mut sleepers: Vec<Client> = (0..36).map(|_| Client::logged_in(server.port(), "bob")).collect();
    sleepers.iter_mut().for_each(|client| client.send(&query(SLEEP)));
    let mut last = Client::logged_in(server.port(), "bob");
    assert_eq!(last.query("SELECT generate_series(1, 0)").len(), 3);
    for mut client in sleepers {
        let request = cancel(client.process_id, &client.key);
        let port = server.port();
        let (ended, has_ended) = std::sync::mpsc::channel();
        let canceller = std::thread::spawn(move || {
            wait_until("the statement is cancelled", || {
                Client::tcp(port).send(&request);
                has_ended.try_recv().is_ok()
            });
        });
        assert_eq!(client.answers(), cancelled("user request"));
        ended.send(()).unwrap();
        canceller.join().unwrap();
    }
}

#[test]
fn an_idle_client_is_told_what_others_say() {
    let server = Server::start(&configuration()).unwrap();
    let database = Arc::new(Fake::default());
    server.serve(Arc::<Fake>::clone(&database));
    let mut client = Client::logged_in(server.port(), "bob");
    for payload in ["one", "two"] {
        database.notify(payload);
        assert_eq!(
            client.receive().unwrap().body,
            [&1_i32.to_be_bytes()[..], b"channel\0", payload.as_bytes(), b"\0"].concat()
        );
    }
    assert_eq!(client.query("SELECT generate_series(1, 0)").len(), 3);
    let mut sleeper = Client::logged_in(server.port(), "bob");
    sleeper.send(&query("SELECT generate_series(1, 0)"));
    database.terminate();
    let ended = ["Error FATAL 57P01 terminating connection due to administrator command", "closed"];
    assert_eq!(client.answers(), ended);
    wait_until("the other one has ended", || sleeper.answers().last().is_some_and(|last| last == "closed"));
}
