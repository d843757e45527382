//! Three servers keep what standbys promise; held to more than that, they are found out.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that fails panics")]

use std::process::Command;

use serde_json::Value;

/// Exit codes of the command.
const NOTHING_FOUND: i32 = 0;
const FOUND: i32 = 1;

fn standbys(arguments: &[&str]) -> (Option<i32>, Value) {
    let scratch = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_seawall-torture"))
        .args(["standbys", "--json"])
        .args(arguments)
        .env("TMPDIR", scratch.path())
        .output()
        .unwrap();
    let messages = String::from_utf8_lossy(&output.stderr);
    let report = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {messages}"));
    (output.status.code(), report)
}

#[test]
fn all_servers_agree_on_the_order_of_commits_over_promotions_and_a_bad_network() {
    let (code, report) = standbys(&["--seeds", "6", "--seed", "1"]);
    assert_eq!(code, Some(NOTHING_FOUND), "{report:#}");
    for what in [
        "promotions",
        "logs cut",
        "copies",
        "standbys restarted",
        "servers cut off",
        "comparisons row by row",
        "reads on standbys",
        "transactions committed",
        "ww",
        "wr",
        "rw",
        "real time",
    ] {
        assert!(report["tried"][what].as_u64() > Some(0), "no {what}: {report:#}");
    }
}

#[test]
fn standbys_that_are_held_to_real_time_are_found_out() {
    let (code, report) = standbys(&["--check-as-one-server", "--seconds", "60", "--seed", "1"]);
    assert_eq!(code, Some(FOUND), "{report:#}");
    let what = report["findings"][0]["what"].as_str().unwrap();
    assert!(what.contains("StaleRead") || what.contains("in real time"), "{what}");
}
