//! Conversations that are almost right, many at a time, beside a session whose answers must stay right.
//!
//! `SEAWALL_FUZZ_SECONDS=600` fuzzes longer than the suite does, `SEAWALL_FUZZ_SEED=1234` from another seed on. A finding names its seed.

mod conversation;
mod mutation;

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use seawall_testing::{PATIENCE, wait_until};

use crate::client::Client;
use crate::process::{Place, Serving, rows, value};

/// Connections at once.
const THREADS: u64 = 8;
/// The suite's share.
const SECONDS: u64 = 5;
const ROWS: u64 = 500;

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| text.parse().unwrap())
}

/// How a conversation goes, and how its client leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leaving {
    /// It says that nothing more comes, and takes what is sent up to the end.
    Politely,
    /// It closes its socket with answers unread.
    Abruptly,
}

/// Sends a conversation, in pieces; returns what came back, if all of it was waited for.
fn converse(port: u16, seed: u64, key: &(i32, Vec<u8>)) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut talk = conversation::any(&mut random, key);
    mutation::mutate(&mut talk, &conversation::any(&mut random, key), &mut random);
    let sent = talk.parts.concat();
    let leaving = if random.u8(0..5) == 0 { Leaving::Abruptly } else { Leaving::Politely };
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else {
        panic!("seed {seed}: nobody listens")
    };
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    let mut received = Vec::new();
    // Who does not read what is sent would wait for a server that waits for it.
    std::thread::scope(|scope| {
        let mut reader = stream.try_clone().unwrap();
        let answers = scope.spawn(move || {
            let mut received = Vec::new();
            let read = if leaving == Leaving::Politely {
                reader.read_to_end(&mut received).map(drop)
            } else {
                Ok(())
            };
            (read, received)
        });
        let mut rest = &sent[..];
        while !rest.is_empty() {
            let count = if random.u8(0..3) == 0 { random.usize(1..=rest.len().min(9)) } else { rest.len() };
            // The server may hang up.
            if stream.write_all(&rest[..count]).is_err() {
                break;
            }
            rest = &rest[count..];
        }
        // It may have closed both directions already.
        stream.shutdown(Shutdown::Write).unwrap_or_default();
        let (read, bytes) = answers.join().unwrap();
        if let Err(error) = read {
            let has_closed = error.kind() == std::io::ErrorKind::ConnectionReset;
            assert!(has_closed, "seed {seed}: the server does not end the connection: {error}");
        }
        received = bytes;
    });
    received
}

/// No answer says that the server has made a mistake. PostgreSQL says so of a `jsonb` whose first byte is wrong, and so do we.
fn judge(seed: u64, received: &[u8]) {
    let text = String::from_utf8_lossy(received);
    let internal = text.split("\0CXX000\0M").skip(1).map(|rest| rest.split('\0').next().unwrap_or_default());
    for message in internal {
        assert!(message.starts_with("unsupported jsonb version number"), "seed {seed}: {message}");
    }
}

/// A session that does its work, whatever others send; returns how often.
fn witness(port: u16, is_over: &AtomicBool) -> u64 {
    let mut client = Client::logged_in(port, "postgres");
    rows(
        &mut client,
        "create temporary table mine (n bigint); prepare sum as select sum(v), count(*) from watched; set statement_timeout = '30s'",
    );
    let of_row = "select v from watched where id = 7";
    let before: u64 = value(&mut client, of_row).parse().unwrap();
    let mut changes = 0;
    while !is_over.load(Ordering::SeqCst) {
        changes += 1;
        rows(&mut client, &format!("insert into mine values ({changes})"));
        rows(
            &mut client,
            "begin; update watched set v = v + 1 where id = 7; update watched set v = v - 1 where id = 8; commit",
        );
        let found = rows(&mut client, "execute sum");
        assert_eq!(found, [[Some((ROWS * (ROWS + 1) / 2).to_string()), Some(ROWS.to_string())]]);
        assert_eq!(value(&mut client, "select count(*) from mine"), changes.to_string());
    }
    assert_eq!(value(&mut client, of_row), (before + changes).to_string());
    changes
}

fn set_up(serving: &Serving) {
    rows(
        &mut serving.client(),
        &format!(
            "create table watched (id bigint primary key, v bigint); \
             insert into watched select id, id from generate_series(1, {ROWS}) id; \
             create role fuzz login; create role secret login password 'nobody knows'; create schema fuzz authorization fuzz"
        ),
    );
    let mut own = Client::logged_in(serving.port, "fuzz");
    rows(
        &mut own,
        "create table fuzz.t (id serial primary key, name text, n numeric, extra jsonb, raw bytea); \
         insert into fuzz.t (name, n) select 'name ' || i, i from generate_series(1, 50) i",
    );
}

/// Sessions, sockets and descriptors of all that was sent are gone.
fn is_tidy(serving: &Serving, descriptors: usize) {
    let mut client = serving.client();
    let count = "select count(*) from pg_stat_activity where pid <> pg_backend_pid()";
    wait_until("all sessions have ended", || value(&mut client, count) == "0");
    let locks = "select count(*) from pg_locks where pid <> pg_backend_pid()";
    assert_eq!(value(&mut client, locks), "0");
    drop(client);
    wait_until("all sockets are closed", || serving.descriptors() <= descriptors);
}

/// Runs seeds from `first` on until `limit` is over; returns the next one.
fn fuzz(serving: &Serving, first: u64, limit: Duration) -> u64 {
    let own = serving.client();
    let key = (own.process_id, own.key.clone());
    let (next, is_over) = (AtomicU64::new(first), AtomicBool::new(false));
    #[expect(clippy::disallowed_methods, reason = "the time of the machine that runs the test")]
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let witness = scope.spawn(|| witness(serving.port, &is_over));
        let threads: Vec<_> = (0..THREADS)
            .map(|_| {
                scope.spawn(|| {
                    while begun.elapsed() < limit {
                        let seed = next.fetch_add(1, Ordering::SeqCst);
                        judge(seed, &converse(serving.port, seed, &key));
                    }
                })
            })
            .collect();
        let results: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
        is_over.store(true, Ordering::SeqCst);
        let changes = witness.join().unwrap();
        eprintln!("seeds {first}..{}; {changes} transactions beside them", next.load(Ordering::SeqCst));
        results.into_iter().for_each(|result| result.unwrap());
    });
    next.load(Ordering::SeqCst)
}

#[test]
fn garbage_harms_nobody_else() {
    let place = Place::new();
    let access =
        ["--access", "host all secret all scram-sha-256", "--access", "host all all 127.0.0.0/8 trust"];
    let mut serving = place.serve(&access);
    set_up(&serving);
    let (seconds, seed) = (number("SEAWALL_FUZZ_SECONDS", SECONDS), number("SEAWALL_FUZZ_SEED", 1));
    let descriptors = serving.descriptors() + usize::try_from(THREADS).unwrap();
    // What the first part takes is kept for those that come: catalogs, plans, memory of the allocator.
    let next = fuzz(&serving, seed, Duration::from_secs(seconds).div_f64(2.0));
    is_tidy(&serving, descriptors);
    let before = serving.memory_kib();
    fuzz(&serving, next, Duration::from_secs(seconds).div_f64(2.0));
    is_tidy(&serving, descriptors);
    let grown = serving.memory_kib().saturating_sub(before);
    eprintln!("{before} KiB, and {grown} KiB more at the end");
    assert!(grown < 128 << 10, "{grown} KiB more");
    serving.panics_nowhere();
    assert!(serving.exit_status().is_none());
    serving.end();
}
