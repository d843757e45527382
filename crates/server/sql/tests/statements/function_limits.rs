//! Functions whose queries would grow without an end, or beyond what a statement may be.

use crate::client::{Client, TestDatabase};

fn last(client: &mut Client, text: &str) -> String {
    client.run(text).pop().unwrap_or_default()
}

fn made(client: &mut Client, name: &str, body: &str) -> String {
    let text = format!("create or replace function {name}(n int) returns int language sql as $${body}$$");
    last(client, &text)
}

/// The stack of sessions: see the pool of the server.
fn on_a_stack_of_sessions(work: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(32 << 20).spawn(work).expect("a thread");
    thread.join().expect("no overflow");
}

#[test]
fn no_function_is_in_itself() {
    let database = TestDatabase::new();
    let mut client = database.connect();
    let refused = |name: &str| format!("ERROR 0A000: function {name}, which calls itself is not supported");
    assert_eq!(made(&mut client, "f", "select case when n > 0 then f(n - 1) else 0 end"), refused("f"));
    assert_eq!(made(&mut client, "f", "select n + 1"), "-> CREATE FUNCTION");
    assert_eq!(made(&mut client, "f", "select f(n)"), refused("f"));
    assert_eq!(made(&mut client, "g", "select f(n) + 1"), "-> CREATE FUNCTION");
    assert_eq!(made(&mut client, "f", "select g(n)"), refused("f"));
    assert_eq!(client.run("select g(1)"), ["[g]", "3", "-> SELECT 1"]);
}

#[test]
fn calls_in_calls_have_limits() {
    on_a_stack_of_sessions(calls_in_calls);
}

fn calls_in_calls() {
    let database = TestDatabase::new();
    let mut client = database.connect();
    made(&mut client, "f0", "select n + 1");
    // Each is twice as much as the one before.
    let mut refused = None;
    for level in 1..40 {
        let below = level - 1;
        let answer = made(&mut client, &format!("f{level}"), &format!("select f{below}(n) + f{below}(n)"));
        if answer != "-> CREATE FUNCTION" {
            refused = Some((level, answer));
            break;
        }
    }
    let (level, answer) = refused.expect("there is a limit");
    assert!((5..12).contains(&level), "{level}");
    assert_eq!(answer, "ERROR 54001: a statement has more than 1000 calls of functions of users");
    // Each is one level deeper.
    made(&mut client, "g0", "select count(*)::int from (select n) as x");
    let mut refused = None;
    for level in 1..400 {
        let below = level - 1;
        let body = format!("select g{below}(n)::int from (select n) as x");
        let answer = made(&mut client, &format!("g{level}"), &body);
        if answer != "-> CREATE FUNCTION" {
            refused = Some(answer);
            break;
        }
    }
    assert_eq!(refused.expect("there is a limit"), "ERROR 54001: stack depth limit exceeded");
    assert_eq!(client.run("select g20(5)"), ["[g20]", "1", "-> SELECT 1"]);
}
