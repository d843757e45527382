//! Databases among faults keep what they promise; on a disk that lies about its failures they are found out.

use std::process::Command;

use serde_json::Value;

/// Exit codes of the command.
const NOTHING_FOUND: i32 = 0;
const FOUND: i32 = 1;

fn faults(arguments: &[&str]) -> (Option<i32>, Value) {
    let output = Command::new(env!("CARGO_BIN_EXE_seawall-torture"))
        .args(["faults", "--json"])
        .args(arguments)
        .output()
        .expect("cargo has built it");
    let messages = String::from_utf8_lossy(&output.stderr);
    let report = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {messages}"));
    (output.status.code(), report)
}

#[test]
fn a_database_keeps_its_promises_among_faults_of_every_kind() {
    let (code, report) = faults(&["--runs", "150", "--seed", "1"]);
    assert_eq!(code, Some(NOTHING_FOUND), "{report:#}");
    for what in [
        "EIO: read",
        "EIO: write",
        "EIO: write and sync",
        "EIO: sync",
        "EIO: sync directory",
        "EIO: rename",
        "EIO: preallocate",
        "EIO: create",
        "EIO: open",
        "ENOSPC: write",
        "ENOSPC: write and sync",
        "ENOSPC: sync",
        "lost: write",
        "lost writes told by check and refused",
        "short: read",
        "fault: disk dies",
        "fault: disk full",
        "fault: slow calls",
        "fault: time of day jumps",
        "fault: hours pass at once",
        "fault: bit rot after a close",
        "fault: bit rot after a kill",
        "fault: bit rot after a power loss",
        "fault: bit rot once stopped",
        "bit rot told by check and refused",
        "bit rot told by check and made good",
        "bit rot that tears the end of the log",
        "databases that stopped",
        "steps that failed",
        "opens that failed",
        "power losses",
        "kills",
        "closes",
    ] {
        assert!(report["tried"][what].as_u64() > Some(0), "no {what}: {report:#}");
    }
}

#[test]
fn a_run_is_repeated_by_its_seed() {
    let without_time = |arguments: &[&str]| {
        let (_, mut report) = faults(arguments);
        report["seconds"] = Value::Null;
        report
    };
    let arguments = ["--runs", "3", "--seed", "77", "--checkpoint-threads", "1"];
    assert_eq!(without_time(&arguments), without_time(&arguments));
}

#[test]
fn a_disk_that_lies_about_its_failures_is_found_out() {
    let (code, report) = faults(&["--runs", "200", "--seed", "1", "--swallow", "--checkpoint-threads", "1"]);
    assert_eq!(code, Some(FOUND), "{report:#}");
    let repeat = report["findings"][0]["repeat"].as_str().expect("a text");
    let arguments: Vec<&str> = repeat.split(' ').skip(2).collect();
    let (again, second) = faults(&arguments);
    assert_eq!(again, Some(FOUND), "{repeat}");
    assert_eq!(report["findings"][0]["what"], second["findings"][0]["what"]);
}
