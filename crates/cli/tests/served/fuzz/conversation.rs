//! Valid conversations of all kinds, message by message, drawn from a seed.

use crate::client::{SYNC, VERSION, cancel, message, query, startup, text};

/// What a client sends, in order. The first part is what comes before the login: a start-up packet, or a request.
#[derive(Clone, Debug)]
pub(crate) struct Conversation {
    pub(crate) parts: Vec<Vec<u8>>,
}

/// Statements of a role with a schema of its own.
const STATEMENTS: [&str; 24] = [
    "select 1",
    "",
    ";;",
    "select * from t order by id limit 10",
    "select count(*), max(name) from t group by id % 3",
    "insert into t values (default, 'row', 1.5, '{\"a\": [1, 2]}', '\\x00ff') returning id, name, n",
    "update t set n = n + 1 where id % 7 = 3",
    "delete from t where id > 50",
    "begin; insert into t (name) values ('x'); savepoint a; delete from t; rollback to a; commit",
    "begin",
    "commit",
    "rollback",
    "select 1/0",
    "select nothing from nowhere",
    "prepare p (int) as select * from t where id = $1; execute p (3); deallocate p",
    "begin; declare c cursor for select * from t; fetch 3 from c; fetch backward 1 from c; close c; end",
    "create temporary table s (a int); insert into s select generate_series(1, 100); table s; drop table s",
    "set statement_timeout = 500; show all; reset all",
    "listen l; notify l, 'payload'; unlisten *",
    "select repeat('x', 5000) from generate_series(1, 200)",
    "select pg_advisory_lock(1); select pg_advisory_unlock(1)",
    "explain (format json) select * from t a join t b using (id)",
    "select pg_sleep(0.01)",
    "with recursive r (n) as (select 1 union all select n + 1 from r where n < 50) select array_agg(n) from r",
];

/// With parameters: the text, and their types.
const PARAMETERIZED: [(&str, &[u32]); 6] = [
    ("select $1::int + 1", &[23]),
    ("select $1, $2::text || 'y'", &[25, 25]),
    ("select * from t where id = $1 and name = $2", &[23, 25]),
    ("insert into t (name, n, extra, raw) values ($1, $2, $3, $4)", &[25, 1700, 3802, 17]),
    ("select * from t where id = any ($1)", &[1007]),
    ("select $1::timestamptz, $2::interval, $3::uuid", &[1184, 1186, 2950]),
];

const COPIES: [&str; 6] = [
    "copy t (name, n) from stdin",
    "copy t (name, n) from stdin (format csv, header)",
    "copy t (name) from stdin (format binary)",
    "copy t to stdout",
    "copy (select * from t) to stdout (format csv)",
    "copy t to stdout (format binary)",
];

pub(crate) fn any(random: &mut fastrand::Rng, own_key: &(i32, Vec<u8>)) -> Conversation {
    let parts = match random.u8(0..20) {
        0 => vec![tls_request(), bytes(random, 300)],
        // A handshake at once, of which nothing but the first bytes is right.
        1 => vec![[&[22, 3, 1, 1, 0, 1, 0, 0, 252, 3, 3], &bytes(random, 250)[..]].concat()],
        2 => vec![with_length(&80_877_104_u32.to_be_bytes()), login("fuzz", random)],
        3 => vec![cancel(own_key.0, &own_key.1)],
        4 => vec![
            startup(VERSION, &[("user", "secret"), ("database", "postgres")]),
            first_scram(random),
            last_scram(random),
        ],
        _ => session(random),
    };
    Conversation { parts }
}

fn session(random: &mut fastrand::Rng) -> Vec<Vec<u8>> {
    let mut parts = vec![login("fuzz", random)];
    for _ in 0..random.usize(1..6) {
        match random.u8(0..6) {
            0 | 1 => parts.push(query(pick(random, &STATEMENTS))),
            2 | 3 => extended(random, &mut parts),
            4 => copy(random, &mut parts),
            _ => pipeline(random, &mut parts),
        }
    }
    parts.push(message(b'X', b""));
    parts
}

fn login(user: &str, random: &mut fastrand::Rng) -> Vec<u8> {
    let version = if random.bool() { VERSION } else { VERSION + 2 };
    let mut settings = vec![("user", user), ("database", "postgres"), ("statement_timeout", "1000")];
    let more = [
        ("application_name", "fuzzer"),
        ("options", "-c work_mem=64kB"),
        ("_pq_.new", "1"),
        ("client_encoding", "UTF8"),
    ];
    settings.extend(more.iter().filter(|_| random.u8(0..4) == 0));
    startup(version, &settings)
}

fn extended(random: &mut fastrand::Rng, parts: &mut Vec<Vec<u8>>) {
    let (sql, types) = match random.bool() {
        true => pick(random, &PARAMETERIZED),
        false => (pick(random, &STATEMENTS), &[][..]),
    };
    let (statement, portal) = (pick(random, &["", "s1", "s2"]), pick(random, &["", "p1"]));
    let given = if random.bool() { types } else { &[] };
    let type_list: Vec<u8> = given.iter().flat_map(|oid| oid.to_be_bytes()).collect();
    parts.push(message(b'P', &[text(&[statement, sql]), counted(given.len()), type_list].concat()));
    if random.bool() {
        parts.push(message(b'D', &[b"S", &text(&[statement])[..]].concat()));
    }
    parts.push(message(b'B', &[text(&[portal, statement]), values(random, types.len())].concat()));
    if random.bool() {
        parts.push(message(b'D', &[b"P", &text(&[portal])[..]].concat()));
    }
    let limit = pick(random, &[0, 1, 3, i32::MAX, -1]);
    parts.push(message(b'E', &[text(&[portal]), limit.to_be_bytes().to_vec()].concat()));
    if random.u8(0..4) == 0 {
        parts.push(message(b'H', b""));
    }
    if random.u8(0..4) == 0 {
        parts.push(message(b'C', &[b"S", &text(&[statement])[..]].concat()));
    }
    parts.push(SYNC.to_vec());
}

/// Formats and values of parameters, and the formats of results.
fn values(random: &mut fastrand::Rng, count: usize) -> Vec<u8> {
    let is_binary = u16::from(random.u8(0..4) == 0);
    let mut body = [counted(1), is_binary.to_be_bytes().to_vec(), counted(count)].concat();
    for _ in 0..count {
        let value =
            pick(random, &["1", "-7", "text", "{1,2,3}", "2024-02-29 12:00:00+00", "1 day", "{}", ""]);
        match random.u8(0..8) {
            0 => body.extend((-1_i32).to_be_bytes()),
            1 => body.extend(with_count(&bytes(random, 20))),
            _ => body.extend(with_count(value.as_bytes())),
        }
    }
    [body, counted(1), u16::from(random.bool()).to_be_bytes().to_vec()].concat()
}

fn copy(random: &mut fastrand::Rng, parts: &mut Vec<Vec<u8>>) {
    let sql = pick(random, &COPIES);
    parts.push(query(sql));
    if sql.contains("stdin") {
        if sql.contains("binary") {
            let head =
                [&b"PGCOPY\n\xff\r\n\0"[..], &[0; 8], &[0, 1, 0, 0, 0, 2], b"ab", &[0xff, 0xff]].concat();
            parts.push(message(b'd', &head));
        }
        for _ in 0..random.usize(0..4) {
            parts.push(message(
                b'd',
                pick(random, &["a\t1\n", "a,1\n", "\\N\t\\N\n", "\\.\n", "\"q\"\"\",2\n", "half"]).as_bytes(),
            ));
        }
        parts.push(match random.bool() {
            true => message(b'c', b""),
            false => message(b'f', &text(&["no more"])),
        });
    }
}

/// Several statements before one Sync, one of which may fail.
fn pipeline(random: &mut fastrand::Rng, parts: &mut Vec<Vec<u8>>) {
    for _ in 0..random.usize(1..6) {
        parts.push(message(b'P', &[text(&["", pick(random, &STATEMENTS)]), counted(0)].concat()));
        parts.push(message(b'B', &[text(&["", ""]), counted(0), counted(0), counted(0)].concat()));
        parts.push(message(b'E', &[text(&[""]), vec![0; 4]].concat()));
    }
    parts.push(SYNC.to_vec());
}

fn first_scram(random: &mut fastrand::Rng) -> Vec<u8> {
    let first = format!("n,,n=,r={:x}", random.u128(..));
    message(b'p', &[text(&["SCRAM-SHA-256"]), with_count(first.as_bytes())].concat())
}

fn last_scram(random: &mut fastrand::Rng) -> Vec<u8> {
    message(b'p', format!("c=biws,r={:x},p=AAAA", random.u128(..)).as_bytes())
}

fn tls_request() -> Vec<u8> {
    with_length(&80_877_103_u32.to_be_bytes())
}

fn with_length(body: &[u8]) -> Vec<u8> {
    [&u32::try_from(body.len() + 4).unwrap().to_be_bytes(), body].concat()
}

fn with_count(body: &[u8]) -> Vec<u8> {
    [&u32::try_from(body.len()).unwrap().to_be_bytes(), body].concat()
}

fn counted(count: usize) -> Vec<u8> {
    u16::try_from(count).unwrap().to_be_bytes().to_vec()
}

pub(crate) fn bytes(random: &mut fastrand::Rng, count_max: usize) -> Vec<u8> {
    (0..random.usize(0..=count_max)).map(|_| random.u8(..)).collect()
}

fn pick<T: Copy>(random: &mut fastrand::Rng, choices: &[T]) -> T {
    choices[random.usize(0..choices.len())]
}
