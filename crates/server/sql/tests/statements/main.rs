//! Statements of SQL through a session, with answers that PostgreSQL 15 has given: see record.py.

mod client;

use client::TestDatabase;

/// Runs the statements of a recorded file in order, and compares what each returns.
fn check(file: &str, text: &str) {
    let database = TestDatabase::new();
    let mut client = database.connect();
    for set_up in ["create schema recorded", "set search_path = recorded", "set timezone = 'UTC'"] {
        client.run(set_up);
    }
    let mut different = Vec::new();
    let mut count = 0;
    for block in text.split("\n\n").map(|block| block.trim_matches('\n')).filter(|block| !block.is_empty()) {
        let (statement, expected) = block.split_once("\n----").expect("a statement and its answer");
        let expected = expected.trim_start_matches('\n');
        let answer = client.run(statement).join("\n");
        count += 1;
        if answer.trim_end() != expected.trim_end() {
            different.push(format!("{statement}\n  PostgreSQL: {expected}\n  here:       {answer}"));
        }
    }
    assert!(count > 0, "{file} is empty");
    assert!(
        different.is_empty(),
        "{file}: {} of {count} answers differ:\n{}",
        different.len(),
        different.join("\n\n")
    );
}

macro_rules! recorded {
    ($($name:ident),* $(,)?) => {
        $(
            #[test]
            fn $name() {
                check(stringify!($name), include_str!(concat!("recorded/", stringify!($name), ".txt")));
            }
        )*
    };
}

recorded! {
    changes,
    definitions,
    expressions,
    json,
    queries,
    transactions,
    types,
}

/// A row that another transaction has changed is looked at again in its newest version, whichever way the statement finds it.
#[test]
fn a_change_of_a_row_that_was_waited_for_is_not_lost() {
    const ROUNDS: i32 = 50;
    let database = TestDatabase::new();
    let mut client = database.connect();
    client.run("create table t (id int primary key, k int unique, x int); insert into t values (1, 1, 0)");
    let ways = ["id = 1", "k = 1", "x >= 0", "id in (select 1)"];
    std::thread::scope(|scope| {
        for way in ways {
            let mut client = database.connect();
            scope.spawn(move || {
                for _ in 0..ROUNDS {
                    let answer = client.run(&format!("update t set x = x + 1 where {way}"));
                    assert_eq!(answer, ["-> UPDATE 1"], "{way}");
                }
            });
        }
    });
    let expected = format!("{}", ROUNDS * 4);
    assert_eq!(client.run("select x from t"), ["[x]", &expected, "-> SELECT 1"]);
}
