//! Histories of real clients keep what their level promises; held to a stronger one, they are found out.

use std::process::Command;

use serde_json::Value;

/// Exit codes of the command.
const NOTHING_FOUND: i32 = 0;
const FOUND: i32 = 1;

fn histories(arguments: &[&str]) -> (Option<i32>, Value) {
    let scratch = tempfile::tempdir().expect("a scratch directory can be made");
    let output = Command::new(env!("CARGO_BIN_EXE_seawall-torture"))
        .args(["histories", "--json"])
        .args(arguments)
        .env("TMPDIR", scratch.path())
        .output()
        .expect("cargo has built it");
    let messages = String::from_utf8_lossy(&output.stderr);
    let report = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {messages}"));
    (output.status.code(), report)
}

#[test]
fn clients_at_every_level_see_what_it_promises_over_checkpoints_and_crashes() {
    let (code, report) = histories(&["--seeds", "12", "--seed", "1"]);
    assert_eq!(code, Some(NOTHING_FOUND), "{report:#}");
    for what in [
        "checkpoints",
        "kills",
        "power losses",
        "transactions committed",
        "transactions aborted",
        "transactions of unknown outcome",
        "ww",
        "wr",
        "rw",
        "real time",
    ] {
        assert!(report["tried"][what].as_u64() > Some(0), "no {what}: {report:#}");
    }
}

#[test]
fn clients_held_to_a_stronger_level_than_theirs_are_found_out() {
    for (level, stronger, kinds) in [
        ("snapshot", "serializable", &["G2"][..]),
        ("read-committed", "snapshot", &["GSingle", "GNonadjacent", "InternalInconsistency"]),
    ] {
        let arguments = ["--isolation", level, "--check-as", stronger, "--seconds", "60", "--seed", "1"];
        let (code, report) = histories(&arguments);
        assert_eq!(code, Some(FOUND), "{level}: {report:#}");
        for finding in report["findings"].as_array().expect("a list of findings") {
            let what = finding["what"].as_str().expect("a text");
            assert!(kinds.iter().any(|kind| what.contains(kind)), "{level} must have no {what}");
            let repeat = finding["repeat"].as_str().expect("a text");
            assert!(repeat.contains(level) && repeat.contains(stronger), "{repeat}");
        }
    }
}
