//! Statements drawn from a grammar: each has an answer, none is an internal error, none costs the connection. Where PostgreSQL is
//! installed, the answers are its answers.
//!
//! `SEAWALL_GRAMMAR_STATEMENTS=100000` runs more than the suite does, `SEAWALL_GRAMMAR_SEED=1234` from another seed on.

mod expression;
mod statement;

use crate::client::{Client, SYNC, VERSION, message, query, shown, startup, text};
use crate::process::{Place, failure, rows};
use crate::reference::Reference;
use expression::Maker;

/// Statements of one seed: what they have made is dropped then.
const STATEMENTS: u64 = 60;
const DATABASE: &str = "seawall_grammar";

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| text.parse().unwrap())
}

/// What a server says of one statement: its rows in any order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Answer {
    fields: Option<String>,
    rows: Vec<String>,
    tag: Option<String>,
    code: Option<String>,
    status: String,
}

/// Sends `bytes`, and takes the answer to them.
fn answer(client: &mut Client, bytes: &[u8], what: &str) -> Answer {
    client.send(bytes);
    let mut answer = Answer::default();
    loop {
        let Some(message) = client.receive() else { panic!("{what}\nlost the connection") };
        match message.kind {
            b'T' => answer.fields = Some(shown(&message)),
            b'D' => answer.rows.push(shown(&message)),
            b'C' => answer.tag = Some(shown(&message)),
            b'E' => {
                let crate::process::Failure::Told { code, line } = failure(&message) else { continue };
                assert!(!code.starts_with("XX") && code != "57P01", "{what}\n{line}");
                answer.code = Some(code);
            }
            b'Z' => {
                answer.status = shown(&message);
                answer.rows.sort();
                // Rows of a statement that failed were sent before anybody knew.
                if answer.code.is_some() {
                    answer.rows.clear();
                    answer.fields = None;
                }
                return answer;
            }
            _ => {}
        }
    }
}

/// A statement as the extended protocol sends it.
fn extended(sql: &str) -> Vec<u8> {
    let parse = message(b'P', &[text(&["", sql]), vec![0; 2]].concat());
    let bind = message(b'B', &[text(&["", ""]), vec![0; 6]].concat());
    let describe = message(b'D', b"P\0");
    [parse, bind, describe, message(b'E', &[0; 5]), SYNC.to_vec()].concat()
}

/// Errors that depend on which row or which part of an expression is looked at first.
fn depends_on_order(answer: &Answer) -> bool {
    answer.code.as_ref().is_some_and(|code| code.starts_with("22"))
}

/// Of equal values with different scales any one may be shown.
fn is_any_of_equals(sql: &str) -> bool {
    let words = ["distinct", "union", "intersect", "except", "group by", "greatest", "partition"];
    words.iter().any(|word| sql.contains(word))
}

/// With no zeros at the end of fractions.
fn scaled(answer: &Answer) -> Answer {
    let shortened = |row: &String| {
        let values = row.split('"').map(|value| match value.parse::<f64>() {
            Ok(_) if value.contains('.') => value.trim_end_matches('0').trim_end_matches('.'),
            Ok(_) | Err(_) => value,
        });
        values.collect::<Vec<_>>().join("\"")
    };
    let mut rows: Vec<String> = answer.rows.iter().map(shortened).collect();
    rows.sort();
    Answer { rows, ..answer.clone() }
}

/// Of two mistakes in one statement either may be told.
fn are_mistakes(found: &Answer, expected: &Answer) -> bool {
    let is_mistake = |answer: &Answer| answer.code.as_ref().is_some_and(|code| code.starts_with("42"));
    is_mistake(found) && is_mistake(expected)
}

/// The statements of a seed, to one server or to two.
fn run(seed: u64, client: &mut Client, reference: Option<&mut Client>) -> (u64, u64) {
    let mut maker = Maker::new(seed);
    let (mut failed, mut reference) = (0, reference);
    for count in 0..STATEMENTS {
        let sql = maker.statement();
        let what = format!("seed {seed}, statement {count}: {sql}");
        let bytes = if maker.one_in(3) { extended(&sql) } else { query(&sql) };
        let found = answer(client, &bytes, &what);
        failed += u64::from(found.code.is_some());
        if let Some(reference) = &mut reference {
            let expected = answer(reference, &bytes, &format!("PostgreSQL, {what}"));
            let tolerated =
                depends_on_order(&expected) || depends_on_order(&found) || are_mistakes(&found, &expected);
            let is_alike =
                found == expected || (is_any_of_equals(&sql) && scaled(&found) == scaled(&expected));
            assert!(is_alike || tolerated, "{what}\nfound    {found:?}\nexpected {expected:?}");
            if found.status != expected.status {
                // From here on they are in different states.
                break;
            }
        }
    }
    (STATEMENTS, failed)
}

fn reset(client: &mut Client) {
    rows(client, "rollback");
    rows(client, "drop table if exists t0, t1, n0, n1, n2 cascade; drop view if exists v0, v1, v2 cascade");
    for sql in statement::set_up() {
        rows(client, &sql);
    }
}

fn seeds(default: u64) -> std::ops::Range<u64> {
    let first = number("SEAWALL_GRAMMAR_SEED", 1);
    first..first + number("SEAWALL_GRAMMAR_STATEMENTS", default).div_ceil(STATEMENTS)
}

#[test]
fn every_statement_has_an_answer() {
    let place = Place::new();
    let serving = place.serve(&[]);
    let (mut all, mut failed) = (0, 0);
    let mut client = serving.client();
    for seed in seeds(2400) {
        reset(&mut client);
        let (more, of_these) = run(seed, &mut client, None);
        (all, failed) = (all + more, failed + of_these);
    }
    eprintln!("{failed} of {all} statements failed");
    // Else the grammar would test nothing but errors.
    assert!(failed * 2 < all, "{failed} of {all} statements failed");
    drop(client);
    serving.end();
}

#[test]
fn statements_have_the_answers_of_postgresql() {
    let Some(postgresql) = Reference::start() else { return };
    let place = Place::new();
    let serving = place.serve(&[]);
    let mut administrator = Client::logged_in(postgresql.port, "postgres");
    rows(
        &mut administrator,
        &format!(
            "create database {DATABASE} template template0 encoding 'UTF8' lc_collate 'C' lc_ctype 'C.UTF-8'"
        ),
    );
    let mut reference = Client::tcp(postgresql.port);
    reference.send(&startup(
        VERSION,
        &[("user", "postgres"), ("database", DATABASE), ("client_min_messages", "warning")],
    ));
    reference.finish_login();
    let mut client = serving.client();
    for seed in seeds(2400) {
        reset(&mut client);
        reset(&mut reference);
        run(seed, &mut client, Some(&mut reference));
    }
    drop(reference);
    serving.end();
}
