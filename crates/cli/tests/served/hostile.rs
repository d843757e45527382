//! Statements that would take all of the stack, or all of the memory, and guesses at passwords.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::net::{AddressFamily, SocketFlags, SocketType};

use crate::client::{Client, VERSION, message, startup, text};
use crate::process::{Failure, Place, answered, rows, value};

/// A text of as many levels.
type Nested = fn(usize) -> String;

/// Each nests something in something else of its kind.
const NESTED: [(&str, Nested); 21] = [
    ("parentheses", |levels| format!("select {}1{}", "(".repeat(levels), ")".repeat(levels))),
    ("parentheses that are left open", |levels| format!("select {}", "(".repeat(levels))),
    ("signs", |levels| format!("select {}1", "- ".repeat(levels))),
    ("not", |levels| format!("select {}true", "not ".repeat(levels))),
    ("sums", |levels| format!("select 1{}", " + 1".repeat(levels))),
    ("and", |levels| format!("select true{}", " and true".repeat(levels))),
    ("or of columns", |levels| format!("select * from small where a = 1{}", " or a = 2".repeat(levels))),
    ("case", |levels| format!("select {}1{}", "case when true then ".repeat(levels), " end".repeat(levels))),
    ("calls", |levels| format!("select {}1{}", "abs(".repeat(levels), ")".repeat(levels))),
    ("casts", |levels| format!("select 1{}", "::int".repeat(levels))),
    ("arrays", |levels| format!("select {}1{}", "array[".repeat(levels), "]".repeat(levels))),
    ("elements", |levels| format!("select a{} from small", "[1]".repeat(levels))),
    ("subqueries", |levels| format!("select {}1{}", "(select ".repeat(levels), ")".repeat(levels))),
    ("FROM", |levels| format!("{}select 1{}", "select * from (".repeat(levels), ") x".repeat(levels))),
    ("joins", |levels| format!("select 1 from small{}", " cross join small".repeat(levels))),
    ("joins of many tables", |levels| {
        let tables: String =
            (0..levels.min(1000)).map(|number| format!(" cross join small s{number}")).collect();
        format!("select count(*) from small{tables}")
    }),
    ("rows", |levels| format!("select {}1{}", "row(".repeat(levels / 5), ")".repeat(levels / 5))),
    ("unions", |levels| format!("select 1{}", " union all select 1".repeat(levels))),
    ("WITH", |levels| format!("{}select 1{}", "with x as (".repeat(levels), ") select 1".repeat(levels))),
    ("json", |levels| format!("select '{}{}'::jsonb", "[".repeat(levels), "]".repeat(levels))),
    ("explain", |levels| format!("{}select 1", "explain ".repeat(levels))),
];

/// A session outlives each; what comes of it is an answer, or that it is too much.
#[test]
fn a_statement_that_is_nested_too_deeply_is_refused() {
    let place = Place::new();
    let serving = place.serve(&[]);
    let mut client = serving.client();
    rows(
        &mut client,
        "create table small (a int); insert into small values (1); set statement_timeout = '20s'",
    );
    for (what, nested) in NESTED {
        for levels in [100, 2_000, 5_000, 100_000] {
            let found = answered(&mut client, &nested(levels));
            if let Err(failure) = found {
                let Failure::Told { code, line } = &failure else { panic!("{what}, {levels} levels: lost") };
                let expected = [
                    "54001", "42601", "42804", "42P16", "54011", "54000", "42712", "22P02", "57014", "0A000",
                ];
                assert!(expected.contains(&code.as_str()), "{what}, {levels} levels: {line}");
            }
        }
    }
    assert_eq!(value(&mut client, "select a from small"), "1");
    drop(client);
    serving.end();
}

/// Each would take more memory than there is.
const GREEDY: [&str; 10] = [
    "select length(array_to_string(array_agg(repeat('x', 1000) || i), ',')) from generate_series(1, 100000000) i",
    "select length(string_agg(repeat('x', 1000), '')) from generate_series(1, 100000000) i",
    "select length(repeat(repeat('x', 1000000), 1000000))",
    "select length(lpad('x', 2000000000))",
    "with recursive r (t) as (select 'x' union all select t || t from r) select max(length(t)) from r",
    "select length(jsonb_agg(repeat('x', 1000))::text) from generate_series(1, 100000000) i",
    "select count(*) from (select array_agg(i) over () from generate_series(1, 100000000) i) x",
    "select array_fill(1, array[2000000000])",
    "declare c scroll cursor with hold for select repeat('x', 1000) || i from generate_series(1, 100000000) i",
    "select count(distinct repeat('x', 1000) || i) from generate_series(1, 100000000) i group by i % 1000000",
];

#[test]
fn a_statement_that_would_take_all_memory_is_refused() {
    const BYTES_MAX: u64 = 2 << 30;
    let place = Place::new();
    let mut serving = place.serve(&[]);
    let mut client = serving.client();
    let mut other = serving.client();
    // What goes into a file is limited, so that the test leaves the disk to others.
    rows(&mut client, "set statement_timeout = '5s'; set temp_file_limit = '256MB'");
    for sql in GREEDY {
        let refused = answered(&mut client, sql).expect_err(sql);
        let Failure::Told { code, line } = &refused else { panic!("{sql}: lost") };
        assert!(
            ["53100", "53200", "53400", "54000", "57014", "22023"].contains(&code.as_str()),
            "{sql}: {line}"
        );
        let used = serving.memory_max_kib();
        eprintln!("{code}, {used} KiB: {sql}");
        assert!(used << 10 < BYTES_MAX, "{used} KiB: {sql}");
        assert_eq!(value(&mut other, "select 1"), "1");
    }
    assert!(serving.exit_status().is_none());
    drop((client, other));
    serving.end();
}

/// A connection from an address of this machine of its own.
fn from_address(address: Ipv4Addr, port: u16) -> Client {
    let socket =
        rustix::net::socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)
            .unwrap();
    rustix::net::bind(&socket, &SocketAddr::from((address, 0))).unwrap();
    rustix::net::connect(&socket, &SocketAddr::from((Ipv4Addr::LOCALHOST, port))).unwrap();
    Client::of(TcpStream::from(socket))
}

/// Tries a password that is wrong; returns the code of the refusal.
fn guess(address: Ipv4Addr, port: u16) -> String {
    let mut client = from_address(address, port);
    client.send(&startup(VERSION, &[("user", "ada"), ("database", "postgres")]));
    let asked = client.receive().unwrap();
    assert_eq!((asked.kind, asked.body[3]), (b'R', 10));
    let first = b"n,,n=,r=0123456789";
    let length = u32::try_from(first.len()).unwrap().to_be_bytes();
    client.send(&message(b'p', &[text(&["SCRAM-SHA-256"]), length.to_vec(), first.to_vec()].concat()));
    let asked = client.receive().unwrap();
    let nonce = String::from_utf8(asked.body[4..].to_vec()).unwrap();
    let nonce = nonce.split(',').next().unwrap().to_owned();
    // Thirty-two bytes that are no proof.
    client.send(&message(b'p', format!("c=biws,{nonce},p={}=", "A".repeat(43)).as_bytes()));
    match crate::process::failure(&client.receive().unwrap()) {
        Failure::Told { code, .. } => code,
        Failure::Lost => panic!("no answer"),
    }
}

/// From many addresses, so that none of them waits for the one before it.
#[test]
fn wrong_passwords_by_the_thousand_are_refused_and_harm_nobody() {
    const GUESSES: u64 = 2000;
    let place = Place::new();
    let serving = place.serve(&[
        "--access",
        "host all ada all scram-sha-256",
        "--access",
        "host all all 127.0.0.0/8 trust",
    ]);
    let mut client = serving.client();
    rows(&mut client, "create role ada login password 'correct horse'");
    let before = serving.memory_kib();
    let next = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::SeqCst);
                    if number >= GUESSES {
                        return;
                    }
                    // Three of each address.
                    let [high, low] = u16::try_from(number / 3).unwrap().to_be_bytes();
                    assert_eq!(guess(Ipv4Addr::new(127, 1, high, low), serving.port), "28P01");
                }
            });
        }
        while next.load(Ordering::SeqCst) < GUESSES {
            assert_eq!(value(&mut client, "select 1"), "1");
            assert_eq!(value(&mut serving.client(), "select 2"), "2");
        }
    });
    let grown = serving.memory_kib().saturating_sub(before);
    assert!(grown < 64 << 10, "{grown} KiB more");
    drop(client);
    serving.end();
}
