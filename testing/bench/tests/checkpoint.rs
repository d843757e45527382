//! The tests of checkpoints as a user runs them, small: every cell in its process, kills included, JSON lines out.

use std::path::Path;
use std::process::Command;

fn lines(directory: &Path, arguments: &[&str]) -> Vec<serde_json::Value> {
    let output = Command::new(env!("CARGO_BIN_EXE_seawall-bench"))
        .arg("checkpoint")
        .args(arguments)
        .args(["--json", "--unsettled", "--dir"])
        .arg(directory)
        .output()
        .expect("the program was built with this test");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    let text = String::from_utf8(output.stdout).expect("JSON is text");
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect();
    assert!(!lines.is_empty(), "{arguments:?}: {errors}");
    lines
}

fn figure(line: &serde_json::Value, name: &str) -> f64 {
    line["figures"][name].as_f64().unwrap_or_else(|| panic!("{name} is not in {line}"))
}

fn words(line: &str) -> Vec<&str> {
    line.split(' ').collect()
}

#[test]
fn full_speed_measures_every_configuration() {
    let directory = tempfile::tempdir().unwrap();
    let arguments = "full-speed --operations put,transaction,batch --durabilities async,sync --threads 2 \
                     --compressions none,lz4 --seconds 0.5 --warm-up 0.01 --interval 0.1 --rows 2000";
    let lines = lines(directory.path(), &words(arguments));
    // With both page protections.
    assert_eq!(lines.len(), 3 * 2 * 2 * 2);
    for line in &lines {
        assert!(figure(line, "rows_per_second") > 0.0);
        assert!(figure(line, "log_bytes_per_row") > 100.0, "{line}");
        assert!(figure(line, "latency_p99_9_us") <= figure(line, "latency_max_us"), "{line}");
        assert!(figure(line, "longest_gap_ms") <= 1000.0 * figure(line, "window_seconds"), "{line}");
        // How many there are depends on how long the machine took; that there are some does not.
        assert!(figure(line, "intervals") >= 1.0, "{line}");
    }
}

#[test]
fn a_fixed_rate_is_a_share_of_full_speed() {
    let directory = tempfile::tempdir().unwrap();
    let arguments = "fixed-rate --operations put --threads 1 --compressions none,lz4 --seconds 0.4 --warm-up 0.01 \
                     --interval 0.1 --rows 1000";
    let lines = lines(directory.path(), &words(arguments));
    assert_eq!(lines.len(), 8);
    let full = lines[..4].iter().map(|line| figure(line, "rows_per_second")).fold(f64::INFINITY, f64::min);
    for line in &lines[4..] {
        let wanted = figure(line, "wanted_rows_per_second");
        assert!((wanted / (0.6 * full) - 1.0).abs() < 0.001, "{wanted} of {full}");
        // How near the machine comes to it is its own affair: the pace is tested on a clock of its own.
        assert!(figure(line, "rows_per_second") > 0.0, "{line}");
    }
}

#[test]
fn extreme_leaves_a_series_of_every_cell() {
    let directory = tempfile::tempdir().unwrap();
    let series = directory.path().join("series");
    let mut arguments = words("extreme --threads 2 --operations batch --compressions lz4 --seconds 0.6");
    arguments.extend(["--memory-mib", "8", "--series", series.to_str().unwrap()]);
    let lines = lines(directory.path(), &arguments);
    assert!(figure(&lines[0], "intervals") >= 1.0);
    let name = "extreme-batches-of-100-async-2-threads-recovery-file-lz4-run1.csv";
    let text = std::fs::read_to_string(series.join(name)).unwrap();
    assert!(text.starts_with("second,rows_per_second\n0.0,"), "{text}");
    assert_eq!((text.lines().count() - 1).to_string(), figure(&lines[0], "intervals").to_string());
    assert_eq!(series.join("extreme-batches-of-100-async-2-threads.svg").exists(), cfg!(feature = "plot"));
}

#[test]
fn readers_are_measured_with_and_without_a_checkpoint() {
    let directory = tempfile::tempdir().unwrap();
    let lines = lines(directory.path(), &words("readers --compressions lz4 --seconds 0.2 --rows 20000"));
    for part in ["without", "during"] {
        assert!(figure(&lines[0], &format!("reads_{part}_checkpoint_p99_9_us")) >= 0.0);
    }
    // A checkpoint a round, and nothing else starts one.
    let rounds = figure(&lines[0], "rounds");
    assert!(
        rounds > 0.0 && (figure(&lines[0], "checkpoints_by_request") - rounds).abs() < 0.5,
        "{}",
        lines[0]
    );
}

#[test]
fn a_kill_in_a_checkpoint_loses_no_durable_commit() {
    let directory = tempfile::tempdir().unwrap();
    let arguments = "kill --durabilities sync --threads 4 --operations transaction --compressions lz4 --runs 2 \
                     --interval 0.3 --rows 40000";
    let lines = lines(directory.path(), &words(arguments));
    assert_eq!(lines.len(), 4);
    for line in &lines {
        assert!(figure(line, "lost_commits") < 0.5, "{line}");
        assert!(figure(line, "acknowledged_commits") > 0.0, "{line}");
        assert!(figure(line, "first_read_seconds") > 0.0, "{line}");
    }
}

#[test]
fn a_kill_at_any_moment_is_recovered_from() {
    let directory = tempfile::tempdir().unwrap();
    let arguments = "recovery-target --threads 2 --operations transaction --durabilities async --compressions lz4 \
                     --runs 2 --seconds 0.5 --rows 5000";
    let lines = lines(directory.path(), &words(arguments));
    assert_eq!(lines.len(), 4);
    assert!(lines.iter().all(|line| figure(line, "open_seconds") > 0.0));
}

#[test]
fn senseless_arguments_are_refused() {
    for line in
        ["full-speed --compressions rle", "extreme --memory-mib 0", "fixed-rate --rate 0", "kill --runs 0"]
    {
        let output = Command::new(env!("CARGO_BIN_EXE_seawall-bench"))
            .arg("checkpoint")
            .args(line.split(' '))
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{line}");
    }
}
