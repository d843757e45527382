//! The test of old segments as a user runs it, small.

use std::process::Command;

#[test]
fn old_segments_go_in_batches_of_one_directory_sync() {
    let directory = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_seawall-bench"))
        .args(["segments", "--segments", "40", "--segment-mib", "1", "--seconds", "0.1", "--opens", "3"])
        .args(["--json", "--unsettled", "--dir"])
        .arg(directory.path())
        .output()
        .expect("the program was built with this test");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let line: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one line of JSON");
    let number = |name: &str| line[name].as_u64().unwrap_or_else(|| panic!("{name} is not in {line}"));
    assert!(number("beside_removed") + number("beside_recycled") >= 40, "{line}");
    assert!(number("at_once_batches") <= 2, "{line}");
    for part in ["beside", "at_once"] {
        let of = |name: &str| number(&format!("{part}_{name}"));
        assert_eq!(of("directory_syncs"), of("batches") + of("segments_made"), "{line}");
    }
    assert!(
        line["beside_commit_max_us"].as_f64() > Some(0.0) && line["first_open_us"].as_f64() > Some(0.0),
        "{line}"
    );
}

#[test]
fn the_seconds_after_a_new_timeline_are_measured_with_several_sessions() {
    let directory = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_seawall-bench"))
        .args([
            "segments",
            "--segments",
            "40",
            "--segment-mib",
            "1",
            "--threads",
            "1,4",
            "--switch-seconds",
            "1",
        ])
        .args(["--only-switch", "--json", "--unsettled", "--dir"])
        .arg(directory.path())
        .output()
        .expect("the program was built with this test");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.iter().map(|line| line["threads"].as_u64()).collect::<Vec<_>>(), [Some(1), Some(4)]);
    for line in &lines {
        let number = |name: &str| line[name].as_u64().unwrap_or_else(|| panic!("{name} is not in {line}"));
        assert!(number("recycled") > 0 && number("made_of_zeros") <= 2, "{line}");
        assert!(number("intervals_after") >= 10 && number("interval_median_before") > 0, "{line}");
    }
}
