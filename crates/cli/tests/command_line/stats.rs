//! `stats` beside a process that has the database open, after its kill, and after its end.

use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use seawall_testing::wait_for;
use serde_json::Value;

use crate::support::{Scratch, json_lines};

/// A process that has a database open, for as long as its standard input is.
struct Writer {
    child: Child,
    input: Option<ChildStdin>,
    /// It ends when nobody reads them.
    acknowledgements: Lines<BufReader<ChildStdout>>,
}

impl Writer {
    /// With two rows committed.
    fn start(scratch: &Scratch) -> Writer {
        let load = ["load", "db", "t", "-", "--format", "jsonl", "--batch", "1", "--acks"];
        let mut child = scratch.command(load).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let acknowledgements = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut writer = Writer { input: child.stdin.take(), child, acknowledgements };
        writer.put("a");
        writer.put("b");
        writer
    }

    /// Commits a row; returns when that is durable.
    fn put(&mut self, key: &str) {
        let input = self.input.as_mut().unwrap();
        writeln!(input, "{{\"key\":\"{key}\",\"value\":\"1\"}}").unwrap();
        input.flush().unwrap();
        assert!(self.acknowledgements.next().unwrap().unwrap().starts_with("committed "));
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn end(&mut self) {
        drop(self.input.take());
        self.child.wait().unwrap();
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // A second kill of a dead process is an error that does not matter.
        self.child.kill().and_then(|()| self.child.wait().map(drop)).unwrap_or(());
    }
}

fn answer(scratch: &Scratch) -> Option<Value> {
    let output = scratch.run(["stats", "db", "--json"]);
    match output.status.code() {
        Some(0) => Some(json_lines(std::str::from_utf8(&output.stdout).unwrap()).remove(0)),
        // Open for less than a second.
        Some(5) => None,
        _ => panic!("{output:?}"),
    }
}

/// The answer once the writer has published.
fn running(scratch: &Scratch, records_at_least: u64) -> Value {
    wait_for("statistics to be published", || {
        let found = answer(scratch).filter(|found| found["running"] == true)?;
        let records = found["statistics"]["seawall_log_records_total"].as_u64()?;
        (records >= records_at_least).then_some(found)
    })
}

#[test]
fn a_running_database_is_watched_and_what_a_killed_one_leaves_is_told_as_such() {
    let scratch = Scratch::with_database();
    let mut writer = Writer::start(&scratch);
    let first = running(&scratch, 2);
    assert_eq!(first["process_id"], u64::from(writer.child.id()));
    let text = scratch.ok(["stats", "db"]);
    assert!(text.starts_with("running                          yes: process "), "{text}");
    assert!(text.contains("\nlog records ") && text.contains("\nredo point "), "{text}");
    let metrics = scratch.ok(["stats", "db", "--openmetrics"]);
    assert!(metrics.contains("\nseawall_up 1\n") && metrics.ends_with("\n# EOF\n"), "{metrics}");
    assert!(metrics.contains("\nseawall_log_records_total "), "{metrics}");

    // What changes is published again.
    let records = first["statistics"]["seawall_log_records_total"].as_u64().unwrap();
    writer.put("c");
    running(&scratch, records + 1);

    writer.kill();
    let left = answer(&scratch).unwrap();
    assert_eq!((&left["running"], &left["process_id"]), (&Value::from(false), &first["process_id"]));
    assert!(left["statistics"]["seawall_log_records_total"].as_u64() > Some(records));
    let text = scratch.ok(["stats", "db"]);
    assert!(text.starts_with("running                          no: process "), "{text}");
    assert!(text.lines().next().unwrap().ends_with(", and was killed"), "{text}");
    let metrics = scratch.ok(["stats", "db", "--openmetrics"]);
    assert!(metrics.ends_with("\nseawall_up 0\n# EOF\n"), "{metrics}");
}

#[test]
fn a_closed_database_answers_from_its_files() {
    let scratch = Scratch::with_database();
    let mut writer = Writer::start(&scratch);
    running(&scratch, 2);
    writer.end();
    assert_eq!(scratch.read("db/statistics"), b"");
    let mut closed = answer(&scratch).unwrap();
    assert_eq!(closed.as_object_mut().unwrap().remove("running"), Some(Value::from(false)));
    assert_eq!(closed, json_lines(&scratch.ok(["info", "db", "--json"]))[0]);
    let info = scratch.ok(["info", "db"]);
    let text = scratch.ok(["stats", "db"]);
    assert_eq!(text, format!("running          no: the database is closed\n{info}"));
    let metrics = scratch.ok(["stats", "db", "--openmetrics"]);
    assert!(metrics.ends_with("\nseawall_up 0\n# EOF\n"), "{metrics}");
}

#[test]
fn damaged_statistics_are_none() {
    let scratch = Scratch::with_database();
    let mut writer = Writer::start(&scratch);
    running(&scratch, 2);
    writer.kill();
    let whole = scratch.read("db/statistics");
    let damaged = whole.iter().map(|byte| byte ^ 1).collect::<Vec<u8>>();
    for bytes in [&damaged[..], &whole[..60], &[]] {
        scratch.write("db/statistics", bytes);
        let answer = answer(&scratch).unwrap();
        assert_eq!((&answer["running"], answer.get("statistics")), (&Value::from(false), None));
    }
    assert!(scratch.ok(["check", "db"]).contains("no damage"));
}

#[test]
fn statistics_of_no_database_are_refused() {
    let scratch = Scratch::with_database();
    scratch.fails(3, ["stats", "nowhere"]);
    scratch.fails(3, ["stats", "nowhere", "--openmetrics"]);
    scratch.fails(2, ["stats", "db", "--openmetrics", "--json"]);
}
