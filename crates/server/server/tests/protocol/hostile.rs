//! Garbage, and many at a time.

use proptest::collection::vec;
use proptest::prelude::*;
use seawall_server::{Configuration, Server};

use crate::client::{Client, SYNC, VERSION, message, startup};
use crate::{configuration, running, running_with};

/// The server answers everybody else.
fn serves(server: &Server) {
    let mut client = Client::logged_in(server.port(), "bob");
    assert_eq!(client.query("SELECT generate_series(1, 0)").last().unwrap(), "ReadyForQuery I");
}

/// Sends everything, takes all answers, and hangs up.
fn throw(mut client: Client, bytes: &[u8]) {
    // The server may hang up first.
    if client.try_send(bytes).is_ok() && client.try_send(b"X\0\0\0\x04").is_ok() {
        client.set_limit(std::time::Duration::from_millis(5));
    }
}

#[test]
fn garbage_ends_its_own_connection_at_most() {
    let server = running();
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(300));
    let kinds = prop::sample::select(b"QPBDECHSXFdcfp".to_vec());
    let messages = vec((kinds, vec(any::<u8>(), 0..40)), 0..8);
    let started = any::<bool>();
    runner
        .run(&(started, messages, vec(any::<u8>(), 0..20)), |(started, messages, rest)| {
            let mut bytes: Vec<u8> = messages.iter().flat_map(|(kind, body)| message(*kind, body)).collect();
            bytes.extend(rest);
            let client = match started {
                true => Client::logged_in(server.port(), "bob"),
                false => Client::tcp(server.port()),
            };
            throw(client, &bytes);
            Ok(())
        })
        .unwrap();
    serves(&server);
}

#[test]
fn a_message_has_a_limit_of_size() {
    let server = running_with(&Configuration { message_bytes_max: 1 << 20, ..configuration() });
    let mut client = Client::logged_in(server.port(), "bob");
    client.send(&[b'Q', 0x7f, 0xff, 0xff, 0xff]);
    assert_eq!(client.answers(), ["Error FATAL 08P01 invalid message length", "closed"]);
    serves(&server);
}

/// Much is sent ahead: the server reads no further than it answers, and answers all of it.
#[test]
fn a_long_pipeline_is_answered_in_order() {
    let server = running();
    let mut client = Client::logged_in(server.port(), "bob");
    let parse = message(b'P', b"\0SELECT generate_series(1, 3)\0\0\0");
    let (bind, execute) = (message(b'B', &[0; 8]), message(b'E', b"\0\0\0\0\0"));
    let one = [&parse, &bind, &execute, &SYNC.to_vec()].map(|part| part.as_slice()).concat();
    for _ in 0..100 {
        client.send(&one);
    }
    for _ in 0..100 {
        let answers = client.answers();
        assert_eq!((answers.len(), answers.last().unwrap().as_str()), (7, "ReadyForQuery I"), "{answers:?}");
    }
}

#[test]
fn a_message_may_come_byte_by_byte() {
    let server = running();
    let mut client = Client::tcp(server.port());
    startup(VERSION, &[("user", "bob")]).iter().for_each(|byte| client.send(&[*byte]));
    client.finish_login();
    crate::client::query("SELECT generate_series(1, 1)").iter().for_each(|byte| client.send(&[*byte]));
    assert_eq!(client.answers().len(), 4);
}

/// The memory that this process has, in KiB.
fn memory_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// With both ends in one process, a connection costs less than 100 KiB.
#[test]
fn idle_connections_are_cheap() {
    const COUNT: usize = 1000;
    let server = running_with(&Configuration { connections_max: COUNT + 10, ..configuration() });
    serves(&server);
    let before = memory_kib();
    let mut clients: Vec<Client> = (0..COUNT).map(|_| Client::logged_in(server.port(), "bob")).collect();
    clients.iter_mut().for_each(|client| {
        client.query("SELECT repeat('x', 1000) FROM generate_series(1, 100)");
    });
    let used = memory_kib().saturating_sub(before);
    eprintln!("{COUNT} idle connections: {used} KiB");
    assert!(used < 100 << 10, "{used} KiB");
    clients.iter_mut().for_each(|client| client.send(SYNC));
    clients.iter_mut().for_each(|client| assert_eq!(client.answers(), ["ReadyForQuery I"]));
}
