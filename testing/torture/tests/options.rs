//! What an option may change is what something costs, never what it answers.
#![expect(clippy::unwrap_used, reason = "a test that fails panics")]

use seawall_torture::metamorphic::run_histories;

/// Option sets under which each history runs.
const SETS: u64 = 6;

#[test]
fn a_history_has_the_same_answers_under_every_option_set() {
    let findings = run_histories(seawall_simulation::seeds(100), SETS);
    findings.iter().for_each(|finding| eprintln!("{finding}"));
    assert!(findings.is_empty(), "{} histories went wrong", findings.len());
}

fn torture(stdout: std::process::Stdio) -> std::process::Output {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_seawall-torture"));
    command.args(["options", "--histories", "2", "--sets", "2"]).stdout(stdout).output().unwrap()
}

#[test]
fn what_was_counted_does_not_read_like_what_was_found() {
    let output = torture(std::process::Stdio::piped());
    let report = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{report}");
    assert!(report.starts_with("options: 0 found"), "{report}");
    for line in report.lines().filter(|line| line.contains("answered")) {
        assert!(line.contains("the same under all sets"), "{line}");
    }
    assert!(report.lines().filter(|line| line.contains("answered")).count() > 3, "{report}");
}

/// As in `seawall-torture options | head -1`.
#[test]
fn a_report_that_nobody_reads_changes_no_exit_code() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = torture(writer.into());
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{message}");
    assert!(!message.contains("panicked"), "{message}");
}
