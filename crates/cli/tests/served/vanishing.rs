//! Clients that are slow, silent or gone, in every state of a session: what they hold is given up, and others never notice.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::net::sockopt::set_socket_linger;
use seawall_testing::wait_until;

use crate::client::{Client, SYNC, VERSION, message, query, startup, text};
use crate::process::{Place, Serving, rows, value};

/// What a client is in the middle of. Where it can, it holds the lock of the row 1 of `held`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Half of the start-up packet is sent.
    Greeting,
    InTransaction,
    /// A transaction has failed.
    InFailedTransaction,
    /// Half of a statement is sent.
    MidStatement,
    /// Rows of COPY were sent, and not their end.
    Copying,
    /// Half of a row of COPY is sent.
    MidCopyRow,
    /// It takes nothing of a long answer.
    NotTaking,
    /// It takes nothing of a long COPY.
    NotTakingCopy,
    Sleeping,
    /// It waits for the row 2, which somebody else has.
    Waiting,
    /// A portal is suspended, and no Sync was sent.
    Suspended,
    /// The answer to a pipeline without Sync is not asked for.
    MidPipeline,
}

const STATES: [State; 12] = [
    State::Greeting,
    State::InTransaction,
    State::InFailedTransaction,
    State::MidStatement,
    State::Copying,
    State::MidCopyRow,
    State::NotTaking,
    State::NotTakingCopy,
    State::Sleeping,
    State::Waiting,
    State::Suspended,
    State::MidPipeline,
];

const HOLD: &str = "begin; update held set n = n + 1 where id = 1";

/// A client in a state of that kind.
fn brought_to(state: State, port: u16, settings: &[(&str, &str)]) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let login = startup(VERSION, &[&[("user", "postgres"), ("database", "postgres")], settings].concat());
    if state == State::Greeting {
        stream.write_all(&login[..login.len() / 2]).unwrap();
        return stream;
    }
    let mut client = Client::of(stream.try_clone().unwrap());
    client.send(&login);
    client.finish_login();
    rows(&mut client, HOLD);
    let parse = |sql: &str| message(b'P', &[text(&["", sql]), vec![0; 2]].concat());
    let bind = message(b'B', &[text(&["", ""]), vec![0; 6]].concat());
    let execute = |limit: i32| message(b'E', &[&b"\0"[..], &limit.to_be_bytes()].concat());
    let copied = message(b'd', b"5\t5\n");
    match state {
        State::Greeting | State::InTransaction => {}
        State::InFailedTransaction => assert_eq!(client.query("nonsense").last().unwrap(), "ReadyForQuery E"),
        State::MidStatement => client.send(&query(&" ".repeat(1 << 20))[..12]),
        State::Copying | State::MidCopyRow => {
            client.query("copy held from stdin");
            client.send(&copied);
            if state == State::MidCopyRow {
                client.send(&message(b'd', &[b'x'; 1 << 20])[..50]);
            }
        }
        State::NotTaking => client.send(&query("select repeat('x', 1000) from generate_series(1, 1000000)")),
        State::NotTakingCopy => {
            client.send(&query("copy (select repeat('x', 1000) from generate_series(1, 1000000)) to stdout"));
        }
        State::Sleeping => client.send(&query("select pg_sleep(3600)")),
        State::Waiting => client.send(&query("update held set n = 0 where id = 2")),
        State::Suspended => {
            client.send(
                &[parse("select generate_series(1, 1000)"), bind, execute(5), message(b'H', b"")].concat(),
            );
            while client.receive().unwrap().kind != b's' {}
        }
        State::MidPipeline => {
            client.send(&[parse("update held set n = n + 1 where id = 3"), bind, execute(0)].concat())
        }
    }
    stream
}

/// How a client goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Going {
    Closing,
    /// As a process that was killed with answers unread, or a machine that is on again.
    Resetting,
    /// It sends nothing more, and takes nothing either.
    HalfClosing,
}

fn goes(stream: &TcpStream, going: Going) {
    match going {
        Going::Closing => stream.shutdown(Shutdown::Both).unwrap(),
        Going::Resetting => set_socket_linger(stream, Some(Duration::ZERO)).unwrap(),
        Going::HalfClosing => stream.shutdown(Shutdown::Write).unwrap(),
    }
}

/// A session that does its work all the while; returns how often.
fn beside(port: u16, is_over: &AtomicBool) -> u64 {
    let mut client = Client::logged_in(port, "postgres");
    let mut count = 0;
    while !is_over.load(Ordering::SeqCst) {
        count += 1;
        rows(&mut client, "set statement_timeout = '20s'; update held set n = n + 1 where id = 4");
        assert_eq!(value(&mut client, "select n from held where id = 4"), count.to_string());
    }
    count
}

fn set_up(serving: &Serving) -> Client {
    let mut client = serving.client();
    rows(
        &mut client,
        "create table held (id int primary key, n int); insert into held select i, 0 from generate_series(1, 4) i",
    );
    client
}

/// The row 1 is free, no session is left but so many, and nothing of what was under way is there.
fn is_given_up(client: &mut Client, what: &str, sessions: u32) {
    wait_until(&format!("{what} has ended"), || {
        value(client, "select count(*) from pg_stat_activity") == sessions.to_string()
    });
    rows(client, "set lock_timeout = '20s'; update held set n = n where id in (1, 3)");
    assert_eq!(value(client, "select sum(n) from held where id <> 4"), "0", "{what}");
}

#[test]
fn a_client_that_vanishes_takes_what_it_holds_with_it() {
    let place = Place::new();
    let serving = place.serve(&["--client-check-interval", "1s", "--write-timeout", "1s"]);
    let mut client = set_up(&serving);
    let mut holder = serving.client();
    rows(&mut holder, "begin; update held set n = n where id = 2");
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let beside = scope.spawn(|| beside(serving.port, &is_over));
        for state in STATES {
            for going in [Going::Closing, Going::Resetting, Going::HalfClosing] {
                let stream = brought_to(state, serving.port, &[]);
                goes(&stream, going);
                // One that has half closed stays as it is.
                let kept = (going == Going::HalfClosing).then_some(stream);
                is_given_up(&mut client, &format!("{state:?}, {going:?}"), 3);
                drop(kept);
            }
        }
        is_over.store(true, Ordering::SeqCst);
        assert!(beside.join().unwrap() > 0);
    });
    serving.panics_nowhere();
    drop((client, holder));
    serving.end();
}

/// Each has a limit that fits its state.
#[test]
fn a_client_that_stays_and_says_nothing_has_a_limit() {
    let place = Place::new();
    let serving = place.serve(&["--write-timeout", "1s", "--authentication-timeout", "1s"]);
    let mut client = set_up(&serving);
    let limit = [("idle_in_transaction_session_timeout", "300")];
    let of_statement = [("statement_timeout", "300"), limit[0]];
    for state in STATES.into_iter().filter(|state| *state != State::Waiting) {
        let settings = match state {
            State::Copying | State::MidCopyRow | State::Sleeping => &of_statement[..],
            _ => &limit[..],
        };
        let stream = brought_to(state, serving.port, settings);
        is_given_up(&mut client, &format!("{state:?}, silent"), 1);
        drop(stream);
    }
    drop(client);
    serving.end();
}

/// Bytes that come one by one are no reason to wait longer than a limit says.
#[test]
fn a_client_that_trickles_has_the_same_limits() {
    let place = Place::new();
    let serving = place.serve(&[]);
    let mut client = set_up(&serving);
    for (state, settings) in [
        (State::MidStatement, [("idle_in_transaction_session_timeout", "500")]),
        (State::MidCopyRow, [("statement_timeout", "500")]),
    ] {
        let stream = brought_to(state, serving.port, &settings);
        trickles(stream, |trickling| {
            match state {
                // The statement ends, and its transaction is the client's to end.
                State::MidCopyRow => {
                    let failed =
                        "select count(*) from pg_stat_activity where state = 'idle in transaction (aborted)'";
                    wait_until("the COPY has ended", || value(&mut client, failed) == "1");
                    trickling.store(false, Ordering::SeqCst);
                }
                _ => is_given_up(&mut client, &format!("{state:?}, trickling"), 1),
            }
        });
        is_given_up(&mut client, &format!("{state:?}, gone"), 1);
    }
    drop(client);
    serving.end();
}

/// Sends a byte now and then while `work` goes on, and closes the connection then.
fn trickles(mut stream: TcpStream, work: impl FnOnce(&AtomicBool)) {
    let trickling = AtomicBool::new(true);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // A message whose length is far off.
            while trickling.load(Ordering::SeqCst) && stream.write_all(b"x").is_ok() {
                // The pace of the client, and nothing that the test waits for.
                std::thread::sleep(Duration::from_millis(5));
            }
            stream.shutdown(Shutdown::Both).unwrap_or_default();
        });
        work(&trickling);
        trickling.store(false, Ordering::SeqCst);
    });
}

/// A client that takes a little now and then keeps nobody from ending the server.
#[test]
fn a_server_ends_beside_a_client_that_takes_little() {
    let place = Place::new();
    let serving = place.serve(&[]);
    drop(set_up(&serving));
    let mut reader = brought_to(State::InTransaction, serving.port, &[]);
    // One row that is far longer than the buffers of the connection.
    reader.write_all(&query("select repeat('x', 100000000)")).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut piece = [0; 4096];
            while !is_over.load(Ordering::SeqCst) && matches!(reader.read(&mut piece), Ok(1..)) {
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        wait_until("the row is on its way", || {
            value(&mut serving.client(), "select count(*) from pg_stat_activity where state = 'active'")
                == "2"
        });
        serving.end();
        is_over.store(true, Ordering::SeqCst);
    });
    place.check();
}

/// What was sent ahead of its end by a client that goes is done.
#[test]
fn what_was_sent_before_the_end_is_done() {
    let place = Place::new();
    let serving = place.serve(&[]);
    let mut client = set_up(&serving);
    let mut stream = TcpStream::connect(("127.0.0.1", serving.port)).unwrap();
    let login = startup(VERSION, &[("user", "postgres"), ("database", "postgres")]);
    stream.write_all(&[login, query("update held set n = 7 where id = 1"), SYNC.to_vec()].concat()).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    stream.read_to_end(&mut Vec::new()).unwrap();
    assert_eq!(value(&mut client, "select n from held where id = 1"), "7");
    drop(client);
    serving.end();
}
