//! Tables that come and go, few of them, through the program and its child processes.

use std::path::Path;
use std::process::{Command, Output};

fn bench(directory: &Path, arguments: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_seawall-bench"))
        .arg("ddl")
        .args(arguments.split(' '))
        .arg("--unsettled")
        .arg("--dir")
        .arg(directory)
        .output()
        .expect("the program was built with this test")
}

#[test]
fn every_load_is_measured_step_by_step() {
    let directory = tempfile::tempdir().unwrap();
    let arguments = "--tables 60 --rows 20 --large-mib 2 --threads 1,3 --cache-mib 1,8 --json";
    let output = bench(directory.path(), arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect();
    // Two loads by two numbers of sessions and the large one by one, each with two caches.
    assert_eq!(lines.len(), 5 * 2);
    for line in &lines {
        let figure = |name: &str| line["figures"][name].as_f64().unwrap_or_else(|| panic!("{name}: {line}"));
        assert!(figure("drop_per_second") > 0.0 && figure("drop_rate_to_put_rate") > 0.0);
        assert!(figure("drop_log_bytes_each") < 200.0, "{line}");
        assert!(figure("replay_drops_records") >= line["tables"].as_f64().unwrap());
        assert!(figure("replay_drops_pages_read") < 0.5, "{line}");
        assert_eq!(line["figures"]["replay_creates_seconds"].is_number(), line["load"] == "empty");
        if line["load"] == "large" {
            assert!(figure("reclaim_freed_mib") > 1.5 && figure("reclaim_punched_mib") >= 1.0, "{line}");
        }
    }
    let left: Vec<_> = std::fs::read_dir(directory.path()).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn tables_are_truncated_and_several_go_in_one_transaction() {
    let directory = tempfile::tempdir().unwrap();
    let arguments = "--loads rows --verbs drop,truncate --per-transaction 1,7,100 --tables 40 --rows 5 --threads 2 --cache-mib 1 --json";
    let output = bench(directory.path(), arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let measured: Vec<_> =
        lines.iter().map(|line| (line["verb"].as_str(), line["per_transaction"].as_u64())).collect();
    let expected: Vec<_> = ["drop", "truncate"]
        .into_iter()
        .flat_map(|verb| [1, 7, 100].map(|each| (Some(verb), Some(each))))
        .collect();
    assert_eq!(measured, expected);
    for line in &lines {
        let figure = |name: &str| line["figures"][name].as_f64().unwrap_or_else(|| panic!("{name}: {line}"));
        assert!(figure("drop_tables_per_second") > 0.0 && figure("replay_drops_records") >= 1.0, "{line}");
    }
}

#[test]
fn drops_are_mixed_with_writes_and_memory_is_watched() {
    let directory = tempfile::tempdir().unwrap();
    let output = bench(directory.path(), "--loads mixed --tables 50 --seconds 2 --cache-mib 8 --json");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let line: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one line of JSON");
    let figure = |name: &str| line["figures"][name].as_f64().unwrap_or_else(|| panic!("{name}: {line}"));
    assert!(figure("mixed_per_second") > 0.0 && figure("mixed_small_transactions_per_second") > 0.0);
    assert!(figure("mixed_memory_most_mib") > 0.0 && figure("replay_mixed_memory_peak_mib") > 0.0);
}

#[test]
fn tables_are_shown_by_cache() {
    let directory = tempfile::tempdir().unwrap();
    let output = bench(directory.path(), "--loads empty --tables 20 --threads 2 --cache-mib 1,2");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("### 20"), "{text}");
    assert!(text.contains("cache 1 MiB | cache 2 MiB"), "{text}");
    assert_eq!(bench(directory.path(), "--tables 0").status.code(), Some(2));
}
