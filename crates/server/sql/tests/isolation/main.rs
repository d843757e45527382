//! Sessions that are in each other's way, with answers that PostgreSQL 15 has given: see record.py.

#[path = "../statements/client.rs"]
mod client;

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use client::{Client, TestDatabase};
use seawall_testing::wait_until;

/// A session at work on a thread of its own.
struct Worker {
    number: i32,
    statements: Option<Sender<String>>,
    answers: Receiver<Vec<String>>,
    thread: Option<JoinHandle<()>>,
    is_waiting: bool,
}

impl Worker {
    fn new(database: &TestDatabase, number: i32) -> Worker {
        let mut client = database.connect_as(number);
        client.run("set search_path = recorded");
        let (statements, to_run) = channel::<String>();
        let (answered, answers) = channel();
        let thread = std::thread::spawn(move || {
            for statement in to_run {
                if answered.send(client.run(&statement)).is_err() {
                    return;
                }
            }
        });
        Worker { number, statements: Some(statements), answers, thread: Some(thread), is_waiting: false }
    }

    fn send(&mut self, statement: String) {
        let statements = self.statements.as_ref().expect("it is at work");
        statements.send(statement).expect("the session is there");
    }

    /// Its answer; `None`: it waits for other sessions, as it is to.
    fn answer(&self, database: &TestDatabase, is_to_wait: bool) -> Option<Vec<String>> {
        let mut answer = None;
        wait_until("the session to answer or to wait", || {
            answer = self.answers.try_recv().ok();
            // Waits that a limit or a cancel ends are not looked at: under way they are as those that stay.
            answer.is_some() || (is_to_wait && is_blocked(database, self.number))
        });
        answer
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.statements = None;
        if let Some(thread) = self.thread.take()
            && !std::thread::panicking()
        {
            thread.join().expect("the session has ended");
        }
    }
}

fn is_blocked(database: &TestDatabase, number: i32) -> bool {
    database.database.engine.waiting_requests().iter().any(|wait| wait.session == number)
}

fn indented(lines: &[String]) -> impl Iterator<Item = String> {
    lines.iter().map(|line| format!("    {line}"))
}

/// Runs steps, and returns them with their answers. Those of a record have theirs: where sessions wait and go on in it, they are
/// expected to. In others, a session that waits is taken to go on waiting.
fn run(recorded: &[&str], has_answers: bool) -> Vec<String> {
    let database = TestDatabase::new();
    let mut monitor: Client = database.connect();
    monitor.run("create schema recorded");
    let mut workers: BTreeMap<i32, Worker> = BTreeMap::new();
    let mut out = Vec::new();
    let mut lines = recorded.iter().copied().peekable();
    while let Some(line) = lines.next() {
        out.push(line.to_owned());
        let mut answers = Vec::new();
        while let Some(answer) = lines.next_if(|line| line.starts_with("  ")) {
            answers.push(answer);
        }
        let Some((number, statement)) = line.split_once(": ").filter(|_| !line.starts_with('#')) else {
            continue;
        };
        let number: i32 = number.parse().expect("the number of a session");
        let statement = (1..10).fold(statement.to_owned(), |text, other| {
            text.replace(&format!("{{pid{other}}}"), &other.to_string())
        });
        let worker = workers.entry(number).or_insert_with(|| Worker::new(&database, number));
        assert!(!worker.is_waiting, "{line}: the session waits:\n{}", out.join("\n"));
        worker.send(statement);
        let answer = worker.answer(&database, !has_answers || answers.first() == Some(&"    waits"));
        worker.is_waiting = answer.is_none();
        out.extend(indented(&answer.unwrap_or_else(|| vec!["waits".to_owned()])));
        for (other, waiter) in
            workers.iter_mut().filter(|(other, waiter)| **other != number && waiter.is_waiting)
        {
            let goes_on = format!("  {other} goes on");
            if let Some(answer) =
                waiter.answer(&database, !has_answers || !answers.contains(&goes_on.as_str()))
            {
                waiter.is_waiting = false;
                out.push(goes_on);
                out.extend(indented(&answer));
            }
        }
    }
    out
}

fn check(file: &str, recorded: &str) {
    let expected: Vec<&str> = recorded.lines().collect();
    let here = run(&expected, true);
    let first = here.iter().zip(&expected).position(|(here, expected)| here != expected);
    let first = first.or((here.len() != expected.len()).then_some(here.len().min(expected.len())));
    if let Some(first) = first {
        let step = here[..first.min(here.len())]
            .iter()
            .rposition(|line| !line.starts_with("  "))
            .unwrap_or_default();
        panic!(
            "{file}, line {}\nPostgreSQL:\n{}\nhere:\n{}",
            first + 1,
            expected[step..expected.len().min(first + 5)].join("\n"),
            here[step..here.len().min(first + 5)].join("\n")
        );
    }
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
    deadlocks,
    foreign_keys,
    locked_views,
    prepared,
    read_committed,
    rechecked_joins,
    row_locks,
    savepoints,
    snapshots,
    waits,
}

/// PostgreSQL refuses the second one earlier, where it writes.
#[test]
fn a_serializable_transaction_does_not_wait_for_the_decision_of_one_that_it_depends_on() {
    let steps = "1: create table t (k int primary key, v int); insert into t values (1, 0), (2, 0)
1: begin isolation level serializable
1: select v from t where k = 1
1: update t set v = 5 where k = 2
1: prepare transaction 'undecided'
2: begin isolation level serializable
2: select v from t where k = 2
2: update t set v = 6 where k = 1
2: prepare transaction 'dependent'
1: commit prepared 'undecided'
2: update t set v = 7 where k = 1";
    let answers = run(&steps.lines().collect::<Vec<_>>(), false);
    let refused =
        "    ERROR 40001: could not serialize access due to read/write dependencies among transactions";
    let prepare = answers.iter().position(|line| line == "2: prepare transaction 'dependent'");
    assert_eq!(answers[prepare.expect("the step") + 1], refused, "{answers:#?}");
    assert_eq!(answers.last().map(String::as_str), Some("    -> UPDATE 1"), "{answers:#?}");
}

/// Prints what sessions answer to the steps of a file: `STEPS=... cargo test -p seawall-sql --test isolation -- --nocapture try_it`.
#[test]
fn try_it() {
    if let Some(path) = std::env::var_os("STEPS") {
        let steps = std::fs::read_to_string(path).expect("the steps");
        println!("{}", run(&steps.lines().collect::<Vec<_>>(), false).join("\n"));
    }
}
