//! Two-phase commit as a user measures it, small: writers killed, their logs replayed, JSON lines out.

use std::process::Command;

#[test]
fn pairs_are_written_killed_and_replayed() {
    let directory = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_seawall-bench"))
        .args(["twophase", "--clients", "2,5", "--seconds", "0.3", "--rows", "500", "--json", "--dir"])
        .arg(directory.path())
        .output()
        .expect("the program was built with this test");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let text = String::from_utf8(output.stdout).expect("JSON is text");
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect();
    assert_eq!(lines.len(), 2);
    for (line, clients) in lines.iter().zip([2, 5]) {
        assert_eq!((&line["workload"], &line["clients"]), (&"twophase".into(), &clients.into()));
        let figure = |work: &str, name: &str| line[work][name].as_f64().expect("a figure is a number");
        for work in ["puts", "pairs"] {
            assert!(figure(work, "transactions_per_second") > 0.0);
            assert!(figure(work, "replay_to_production") > 0.0, "{line}");
        }
        // Key, value and gid twice, and what records cost.
        let bytes = figure("pairs", "log_bytes_per_transaction");
        assert!((200.0..300.0).contains(&bytes), "{bytes}");
    }
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "databases are left behind");
}

#[test]
fn checkpoints_come_between_what_is_held_and_what_is_in_doubt_is_decided_after_the_kill() {
    let directory = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_seawall-bench"))
        .args(["twophase", "--clients", "4", "--seconds", "1.5", "--rows", "500", "--json"])
        .args([
            "--checkpoint-interval",
            "0.3",
            "--hold-ms",
            "0,50",
            "--in-doubt",
            "40",
            "--rows-each",
            "3",
            "--dir",
        ])
        .arg(directory.path())
        .output()
        .expect("the program was built with this test");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let line: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one line of JSON");
    let pairs = &line["pairs"];
    assert!(pairs["written"]["checkpoints"].as_u64() > Some(0), "{line}");
    assert_eq!(pairs["replayed"]["decided"].as_u64(), Some(40), "{line}");
    assert!(pairs["written"]["slowest_decision_micros"].as_f64() > Some(0.0), "{line}");
}
