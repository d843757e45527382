//! A defect that is asked for by a name that no crate declares.
#![expect(clippy::unwrap_used, reason = "a test that fails panics")]

use std::process::{Command, Output};

fn torture(defect: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_seawall-torture"));
    command.args(["model", "--histories", "1"]).env("SEAWALL_SABOTAGE", defect).output().unwrap()
}

#[test]
fn a_misspelt_defect_is_an_error_and_no_run_that_finds_nothing() {
    let output = torture("flush-not-durabel");
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.contains("flush-not-durabel"), "{message}");
    assert!(output.stdout.is_empty());
}

#[test]
fn an_empty_name_asks_for_nothing() {
    let output = torture("");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}
