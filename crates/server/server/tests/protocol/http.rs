//! Metrics and health, beside clients of HTTP that are slow, greedy, or many.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use seawall_server::{Configuration, Server};
use seawall_testing::PATIENCE;

use crate::{configuration, running_with};

fn with_http() -> Configuration {
    Configuration { http_listen: Some(([127, 0, 0, 1], 0).into()), ..configuration() }
}

fn connect(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(server.http_address().unwrap()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

fn get(server: &Server, path: &str) -> String {
    let mut stream = connect(server);
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// Whether the server has hung up.
fn is_ended(stream: &mut TcpStream) -> bool {
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).map_or(true, |_| rest.is_empty())
}

/// More connections than there may be send the beginning of a request and no more: one that sends all of it is answered, each time.
#[test]
fn slow_clients_keep_no_other_client_out() {
    let server = running_with(&with_http());
    let mut slow: Vec<TcpStream> = (0..100)
        .map(|_| {
            let mut stream = connect(&server);
            stream.write_all(b"GET /metrics HTTP/1.1\r\nHost:").unwrap();
            stream
        })
        .collect();
    for _ in 0..10 {
        assert!(get(&server, "/health/live").starts_with("HTTP/1.1 200 "));
    }
    let metrics = get(&server, "/metrics");
    let displaced = metrics
        .lines()
        .find_map(|line| line.strip_prefix("seawall_server_displaced_http_connections_total "))
        .unwrap();
    assert!(displaced.parse::<u64>().unwrap() >= 100 - 32, "{displaced}");
    // The oldest was ended when the room was needed, long before its time was over.
    slow[0].set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    assert!(is_ended(&mut slow[0]));
}

#[test]
fn a_request_that_is_never_finished_is_ended() {
    let server = running_with(&with_http());
    let mut stream = connect(&server);
    stream.write_all(b"GET /health/live HTTP/1.1\r\n").unwrap();
    assert!(is_ended(&mut stream));
}

#[test]
fn a_connection_serves_one_request_with_a_head_of_limited_size() {
    let server = running_with(&with_http());
    let mut stream = connect(&server);
    stream.write_all(b"GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut answer = String::new();
    // Ends with the answer, though the client has not asked for that.
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.ends_with("live\n"), "{answer}");

    let mut greedy = connect(&server);
    let head = format!("GET /health/live HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(64 << 10));
    // The server may hang up before it has taken all.
    let sent = greedy.write_all(head.as_bytes());
    let mut answer = Vec::new();
    let read = greedy.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer).into_owned();
    assert!(!answer.starts_with("HTTP/1.1 200 "), "{answer} after {sent:?}, {read:?}");
    assert!(get(&server, "/health/live").starts_with("HTTP/1.1 200 "));
}

/// A server that comes back may be refused by the one to follow: before there is a database, this is where it shows.
#[test]
fn what_holds_a_starting_server_up_is_said() {
    let server = Server::start(&with_http()).unwrap();
    let metric = |name: &str| {
        let metrics = get(&server, "/metrics");
        let value = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.unwrap_or_else(|| panic!("no {name} in {metrics}")).parse::<f64>().unwrap()
    };
    let ready = || get(&server, "/health/ready");
    assert!(ready().ends_with("\r\n\r\nstarting\n"), "{}", ready());
    assert_eq!(metric("seawall_server_start_failures_total"), 0.0);
    assert_eq!(metric("seawall_server_start_held_up_seconds"), 0.0);
    let progress = server.progress();
    progress.held_up("the slot is in use");
    progress.held_up("no such\nrole");
    let said = ready();
    assert!(said.starts_with("HTTP/1.1 503 "), "{said}");
    assert!(said.contains("held up") && said.ends_with("in 2 attempts: no such role\n"), "{said}");
    assert_eq!(metric("seawall_server_start_failures_total"), 2.0);
    assert!(metric("seawall_server_start_held_up_seconds") > 0.0);
    progress.goes_on();
    assert!(ready().ends_with("\r\n\r\nstarting\n"), "{}", ready());
    assert_eq!(metric("seawall_server_start_failures_total"), 2.0);
    assert_eq!(metric("seawall_server_start_held_up_seconds"), 0.0);
}
