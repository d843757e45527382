//! Every workload runs for a split second on Seawall, through the program and its child processes.

use std::path::Path;
use std::process::{Command, Output};

fn bench(directory: &Path, arguments: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_seawall-bench"))
        .args(arguments.split(' '))
        .arg("--dir")
        .arg(directory)
        .output()
        .expect("the program was built with this test")
}

/// JSON lines of a run that succeeded and left nothing behind.
fn measured(arguments: &str) -> Vec<serde_json::Value> {
    let directory = tempfile::tempdir().expect("scratch space");
    let output = bench(directory.path(), &format!("{arguments} --json --unsettled --engines seawall"));
    assert!(output.status.success(), "{arguments}: {}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(
        std::fs::read_dir(directory.path()).expect("it is there").count(),
        0,
        "{arguments}: files are left"
    );
    let text = String::from_utf8(output.stdout).expect("JSON is UTF-8");
    text.lines().map(|line| serde_json::from_str(line).expect("one JSON value a line")).collect()
}

#[test]
fn every_workload_measures_something() {
    for (arguments, lines) in [
        ("put --threads 1,3 --rows 500", 2),
        ("put-async-handles --in-flight 20 --rows 500", 1),
        ("batch --threads 2 --batch-rows 10 --rows 500", 1),
        ("put-buffered --threads 2 --rows 500", 1),
        ("load --rows 5000", 2),
        ("read --threads 2 --rows 5000 --runs 2", 2),
        ("read-cold --rows 5000 --cache-mib 1", 1),
        ("scan --rows 5000", 2),
        ("mix --rows 2000", 2),
        ("reopen --written-mib 1 --rows 3000", 2),
        ("recovery --written-mib 1 --rows 3000", 1),
        ("log-bytes --rows 500", 1),
        ("memory --rows 2000 --seconds 0.4", 1),
    ] {
        let seconds = if arguments.contains("--seconds") { "" } else { " --seconds 0.05" };
        let measured = measured(&format!("{arguments}{seconds}"));
        assert_eq!(measured.len(), lines, "{arguments}");
        for line in measured {
            assert!(line["value"].as_f64().unwrap() > 0.0, "{arguments}: {line}");
            assert_eq!(line["engine"], "seawall");
            assert!(line["resident_peak_bytes"].as_u64().unwrap() > 0, "{arguments}: {line}");
        }
    }
}

#[test]
fn log_overhead_stays_under_its_limit_and_aborts_write_nothing() {
    let measured = measured("log-bytes --rows 500 --seconds 0.05");
    let extra = &measured[0]["extra"];
    assert!(extra["log_overhead_per_commit"].as_f64().unwrap() <= 40.0, "{extra}");
    assert_eq!(extra["log_bytes_per_abort"].as_f64(), Some(0.0), "{extra}");
}

#[test]
fn an_engine_that_is_not_built_fails_with_its_name() {
    if cfg!(feature = "sqlite") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let output = bench(directory.path(), "put --engines sqlite --seconds 0.05 --threads 1");
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--features sqlite"));
}
