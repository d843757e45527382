//! `expire`, `verify` and `drill`: what they say, and their exit codes.
#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(clippy::disallowed_methods, reason = "files of the test, not of a database")]

#[path = "command_line/support.rs"]
#[allow(dead_code, reason = "no test needs all of it")]
mod support;

use serde_json::Value;
use support::{Scratch, json_lines};

/// A database `db` and a repository `repo` with backups of it.
fn backed_up(backups: u32) -> Scratch {
    let scratch = Scratch::with_database();
    scratch.ok(["repo", "create", "repo"]);
    scratch.ok(["create", "db", "t"]);
    for number in 0..backups {
        scratch.ok(["put", "db", "t", &format!("key {number}"), &"x".repeat(20_000)]);
        scratch.ok(["backup", "db", "--repository", "repo"]);
    }
    scratch
}

fn list(scratch: &Scratch) -> Vec<String> {
    let lines = json_lines(&scratch.ok(["backup", "list", "repo", "--json"]));
    lines.iter().map(|line| line["backup"].as_str().unwrap().to_owned()).collect()
}

fn one(text: &str) -> Value {
    json_lines(text).swap_remove(0)
}

#[test]
fn expire_shows_what_goes_and_why_the_rest_stays_and_removes_it() {
    let scratch = backed_up(3);
    let all = list(&scratch);
    let text = scratch.ok(["expire", "--repository", "repo", "--keep-count", "1"]);
    assert!(text.contains("may build on it") && text.contains("removed 0 objects"), "{text}");
    let text = scratch.ok([
        "expire",
        "--repository",
        "repo",
        "--keep-count",
        "1",
        "--keep-recent",
        "0s",
        "--dry-run",
    ]);
    assert!(text.contains(&format!("remove  backup {}", all[0])), "{text}");
    assert!(text.contains(&format!("keep    backup {}: the newest", all[2])), "{text}");
    assert!(text.contains("nothing was changed"), "{text}");
    assert_eq!(list(&scratch), all);
    let report = one(&scratch.ok([
        "expire",
        "--repository",
        "repo",
        "--keep-count",
        "1",
        "--keep-recent",
        "0s",
        "--json",
    ]));
    assert_eq!((&report["removed"], &report["dry_run"]), (&serde_json::json!(all[..2]), &Value::Bool(false)));
    assert_eq!(report["kept"][0]["reasons"], serde_json::json!(["newest", "count"]));
    assert!(report["removed_objects"].as_u64() > Some(3), "{report}");
    assert_eq!(list(&scratch), all[2..]);
    let again = one(&scratch.ok([
        "expire",
        "--repository",
        "repo",
        "--keep-count",
        "1",
        "--keep-recent",
        "0s",
        "--json",
    ]));
    assert_eq!(again["removed_objects"], 0);
    scratch.ok(["restore", "again", "--repository", "repo"]);
    scratch.ok(["check", "again"]);
}

#[test]
fn expire_wants_a_policy_and_a_repository() {
    let scratch = backed_up(1);
    let problem = scratch.fails(2, ["expire", "--repository", "repo"]);
    assert!(problem.contains("no policy"), "{problem}");
    scratch.fails(2, ["expire", "--repository", "repo", "--keep-age", "7"]);
    scratch.fails(2, ["expire", "--repository", "repo", "--keep-count", "0"]);
    scratch.fails(3, ["expire", "--repository", "nowhere", "--keep-count", "1"]);
    assert_eq!(list(&scratch).len(), 1);
}

#[test]
fn expire_goes_through_several_repositories() {
    let scratch = backed_up(2);
    scratch.ok(["repo", "create", "other"]);
    scratch.ok(["backup", "db", "--repository", "other"]);
    let urls = ["repo", "other"].map(|name| scratch.path(name).display().to_string()).join(" ");
    let mut command = scratch.command(["expire", "--keep-count", "1", "--keep-recent", "0s", "--json"]);
    let output = command.env("SEAWALL_REPOSITORY", urls).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let reports = json_lines(&String::from_utf8(output.stdout).unwrap());
    let removed: Vec<usize> =
        reports.iter().map(|report| report["removed"].as_array().unwrap().len()).collect();
    assert_eq!(removed, [1, 0]);
}

/// The files of the repository `repo` whose path has all these words.
fn objects(scratch: &Scratch, words: &[&str]) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    let mut directories = vec![scratch.path("repo")];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else if words.iter().all(|word| path.to_str().unwrap().contains(word)) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

fn flip(path: &std::path::Path, offset: usize) {
    let mut content = std::fs::read(path).unwrap();
    content[offset] ^= 1;
    std::fs::write(path, content).unwrap();
}

#[test]
fn verify_names_damage_and_the_exit_code_says_it() {
    let scratch = backed_up(1);
    let report = one(&scratch.ok(["verify", "--repository", "repo", "--full", "--json"]));
    assert_eq!((&report["ok"], &report["backups"]), (&Value::Bool(true), &Value::from(1)), "{report}");
    let run = objects(&scratch, &["run-00000001"]).swap_remove(0);
    flip(&run, 600);
    scratch.ok(["verify", "--repository", "repo"]);
    let output = scratch.run(["verify", "--repository", "repo", "--full"]);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("DAMAGE") && text.contains("run-00000001"), "{text}");
    flip(&run, 600);
    std::fs::rename(&run, scratch.path("elsewhere")).unwrap();
    let output = scratch.run(["verify", "--repository", "repo", "--json"]);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    let lines = json_lines(&String::from_utf8(output.stdout).unwrap());
    assert_eq!(
        (&lines[0]["finding"], &lines[0]["severity"]),
        (&Value::from("backup_incomplete"), &Value::from("damage"))
    );
    assert_eq!(lines[1]["damages"], 1);
    std::fs::rename(scratch.path("elsewhere"), &run).unwrap();
    std::fs::write(scratch.path("repo/notes.txt"), b"mine").unwrap();
    let problem = scratch.fails(1, ["verify", "--repository", "repo"]);
    assert!(problem.contains("not what belongs"), "{problem}");
    std::fs::remove_file(scratch.path("repo/notes.txt")).unwrap();
    // Two repositories, one of which is bad.
    scratch.ok(["repo", "create", "other"]);
    scratch.ok(["verify", "--repository", "repo", "--repository", "other"]);
    flip(&run, 20);
    scratch.fails(4, ["verify", "--repository", "other", "--repository", "repo"]);
}

#[test]
fn a_drill_restores_checks_reports_and_leaves_nothing() {
    let scratch = backed_up(2);
    let (repo, file) = (["--repository", "repo"], scratch.path("drill.prom"));
    std::fs::create_dir(scratch.path("tmp")).unwrap();
    let metrics = file.to_str().unwrap();
    let arguments = ["drill", repo[0], repo[1], "--scratch", "tmp", "--prometheus-file", metrics, "--json"];
    let report = one(&scratch.ok(arguments));
    assert_eq!((&report["ok"], &report["kept"]), (&Value::Bool(true), &Value::Null), "{report}");
    assert!(report["recovery_seconds"].as_f64() > Some(0.0), "{report}");
    assert_eq!(std::fs::read_dir(scratch.path("tmp")).unwrap().count(), 0);
    let text = String::from_utf8(scratch.read("drill.prom")).unwrap();
    assert!(text.contains("seawall_drill_success 1\n") && text.contains("phase=\"replay\""), "{text}");
    let success = |text: &str| {
        text.lines().find(|line| line.starts_with("seawall_drill_last_success")).unwrap().to_owned()
    };
    let shown = scratch.ok(["drill", repo[0], repo[1], "--scratch", "tmp", "--keep"]);
    assert!(shown.contains("time to recover") && shown.contains("no damage found"), "{shown}");
    let kept = std::fs::read_dir(scratch.path("tmp")).unwrap().next().unwrap().unwrap().path();
    assert!(shown.contains(kept.to_str().unwrap()), "{shown}");
    assert!(scratch.ok(["get", kept.to_str().unwrap(), "t", "key 1"]).starts_with("xxx"));
    std::fs::remove_dir_all(&kept).unwrap();
    let run = objects(&scratch, &[&list(&scratch)[1], "run-00000001"]).swap_remove(0);
    flip(&run, 600);
    let problem = scratch.fails(4, arguments);
    assert!(problem.contains("run-00000001"), "{problem}");
    assert_eq!(std::fs::read_dir(scratch.path("tmp")).unwrap().count(), 0);
    let after = String::from_utf8(scratch.read("drill.prom")).unwrap();
    assert!(after.contains("seawall_drill_success 0\n"), "{after}");
    assert_eq!(success(&after), success(&text), "when it last succeeded");
}

#[test]
fn a_drill_that_finds_damage_says_so_also_if_its_metrics_cannot_be_written() {
    let scratch = backed_up(1);
    let arguments = ["drill", "--repository", "repo", "--prometheus-file", "nowhere/drill.prom"];
    let problem = scratch.fails(3, arguments);
    assert!(problem.contains("cannot write nowhere/drill.prom"), "{problem}");
    flip(&objects(&scratch, &["run-00000001"])[0], 600);
    let problem = scratch.fails(4, arguments);
    for word in ["run-00000001", "cannot write nowhere/drill.prom"] {
        assert!(problem.contains(word), "{word}: {problem}");
    }
}

#[test]
fn a_system_that_cannot_be_read_keeps_no_other_from_being_expired() {
    for bad in [0, 1] {
        let scratch = backed_up(2);
        scratch.ok(["init", "other"]);
        scratch.ok(["create", "other", "t"]);
        for _ in 0..2 {
            scratch.ok(["backup", "other", "--repository", "repo"]);
        }
        let manifests = || objects(&scratch, &["backups", "/manifest"]);
        let all = manifests();
        assert_eq!(all.len(), 4, "{all:?}");
        // Sorted by system, and two of each.
        let bytes = std::fs::read(&all[2 * bad]).unwrap().len();
        flip(&all[2 * bad], bytes - 1);
        let problem =
            scratch.fails(4, ["expire", "--repository", "repo", "--keep-count", "1", "--keep-recent", "0s"]);
        assert!(problem.contains("was not expired"), "{problem}");
        let good = 2 * (1 - bad);
        let left: Vec<_> =
            manifests().into_iter().filter(|path| all[good..good + 2].contains(path)).collect();
        assert_eq!((left.len(), manifests().len()), (1, 3), "{problem}");
    }
}
