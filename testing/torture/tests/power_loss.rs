//! Power losses under real processes; and that a disk which lies is found out.

use std::process::{Command, Output};

use seawall_testing::Need;
use serde_json::Value;

/// Exit codes of the command.
const NOTHING_FOUND: i32 = 0;
const FOUND: i32 = 1;
const UNAVAILABLE: i32 = 3;

/// Runs `seawall-torture power-loss` with files kept in `scratch`; `None`, said loudly, where no disk can be mounted.
fn power_loss(scratch: &tempfile::TempDir, arguments: &[&str]) -> Option<(Output, Value)> {
    let output = Command::new(env!("CARGO_BIN_EXE_seawall-torture"))
        .args(["power-loss", "--json"])
        .args(arguments)
        .env("TMPDIR", scratch.path())
        .output()
        .expect("cargo has built it");
    let messages = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(UNAVAILABLE) {
        Need::Fuse.skip(messages);
        return None;
    }
    let report = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {messages}"));
    Some((output, report))
}

fn tried(report: &Value, what: &str) -> u64 {
    report["tried"][what].as_u64().unwrap_or(0)
}

#[test]
fn acknowledged_commits_of_real_processes_survive_kills_and_power_losses() {
    let scratch = tempfile::tempdir().unwrap();
    let Some((output, report)) = power_loss(&scratch, &["--runs", "12", "--seed", "1"]) else { return };
    assert_eq!(output.status.code(), Some(NOTHING_FOUND), "{report:#}");
    // What is to be tested was there: otherwise the next kernel, or the next disk of ours, goes another way unnoticed.
    for what in [
        "lives",
        "kills",
        "power losses",
        "recoveries cut short",
        "transactions",
        "transactions that the power took",
    ] {
        assert!(tried(&report, what) > 0, "no {what}: {report:#}");
    }
    for what in
        ["direct writes", "syncs", "directory syncs", "pages written back", "preallocations", "renames"]
    {
        assert!(tried(&report, what) > 0, "no {what} came through the kernel: {report:#}");
    }
    assert!(
        tried(&report, "syncs") >= tried(&report, "direct writes"),
        "a durable write has its sync: {report:#}"
    );
}

#[test]
fn a_disk_that_lies_is_found_out() {
    let lies: [&[&str]; 3] = [
        &["--runs", "2", "--lose-syncs"],
        &["--runs", "20", "--lose-syncs", "10"],
        &["--runs", "2", "--lose-directory-syncs"],
    ];
    for lie in lies {
        let scratch = tempfile::tempdir().unwrap();
        let Some((output, report)) = power_loss(&scratch, lie) else { return };
        assert_eq!(output.status.code(), Some(FOUND), "{lie:?}: {report:#}");
        let finding = &report["findings"][0];
        let repeat = finding["repeat"].as_str().unwrap();
        assert!(repeat.contains(lie[2]) && repeat.contains("--seed"), "{repeat}");
        let evidence = std::path::Path::new(finding["evidence"].as_str().unwrap());
        assert!(evidence.starts_with(scratch.path()) && evidence.is_dir(), "{finding:#}");
    }
}
