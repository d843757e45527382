//! The documented exit codes, and messages that name what is wrong. JSON where it is asked for.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use crate::support::{Scratch, json_lines};

#[test]
fn usage_is_2() {
    let scratch = Scratch::with_database();
    scratch.fails(2, ["frobnicate"]);
    scratch.fails(2, ["get", "db"]);
    scratch.fails(2, ["init", "other", "--page-bytes", "5000"]);
    scratch.ok(["create", "db", "t"]);
    let message = scratch.fails(2, ["create", "db", ""]);
    assert!(message.contains("255"), "{message}");
    scratch.write("rows.csv", b"a,b\n1,2\n");
    let message = scratch.fails(2, ["load", "db", "t", "rows.csv", "--key", "c"]);
    assert!(message.contains("there are: a, b"), "{message}");
}

#[test]
fn missing_is_3() {
    let scratch = Scratch::with_database();
    scratch.fails(3, ["info", "nowhere"]);
    scratch.fails(3, ["check", "nowhere"]);
    std::fs::create_dir(scratch.path("other")).unwrap();
    scratch.write("other/file", b"of something else");
    scratch.fails(3, ["info", "other"]);
    scratch.fails(3, ["check", "other"]);
    scratch.fails(6, ["init", "other"]);
    scratch.fails(3, ["get", "db", "nothing", "key"]);
    scratch.fails(3, ["drop", "db", "nothing"]);
    scratch.fails(3, ["load", "db", "t", "missing.csv"]);
    scratch.fails(3, ["load", "nowhere", "t", "-"]);
    scratch.ok(["create", "db", "t"]);
    let message = scratch.fails(3, ["get", "db", "t", "key"]);
    assert!(message.contains("key") && message.contains("\"t\""), "{message}");
    assert!(!scratch.path("nowhere").exists(), "looking for a database must not make one");
}

#[test]
fn exit_codes_are_the_same_where_nobody_takes_the_message() {
    let scratch = Scratch::with_database();
    for (arguments, code) in [(&["info", "nowhere"][..], 3), (&["--json", "drop", "db", "nothing"], 3)] {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let status = scratch.command(arguments).stderr(full).status().unwrap();
        assert_eq!(status.code(), Some(code), "{arguments:?}");
    }
}

#[test]
fn in_use_is_5() {
    let scratch = Scratch::with_database();
    let load = ["load", "db", "t", "-", "--no-header", "--batch", "1", "--acks"];
    let mut loader = scratch.command(load).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = loader.stdin.take().unwrap();
    stdin.write_all(b"a,1\nb,2\n").unwrap();
    stdin.flush().unwrap();
    let mut line = String::new();
    BufReader::new(loader.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "committed 1\n");
    let message = scratch.fails(5, ["put", "db", "t", "c", "3"]);
    assert!(message.contains("in use"), "{message}");
    drop(stdin);
    loader.wait().unwrap();
    scratch.ok(["put", "db", "t", "c", "3"]);
}

#[test]
fn existing_is_6() {
    let scratch = Scratch::with_database();
    scratch.fails(6, ["init", "db"]);
    scratch.ok(["create", "db", "t"]);
    scratch.fails(6, ["create", "db", "t"]);
    scratch.ok(["create", "db", "u"]);
    scratch.fails(6, ["rename", "db", "t", "u"]);
}

#[test]
fn errors_are_json_where_asked_for() {
    let scratch = Scratch::with_database();
    let errors = json_lines(&scratch.fails(3, ["--json", "get", "db", "nothing", "key"]));
    assert_eq!(errors[0]["exit_code"], 3);
    assert!(errors[0]["error"].as_str().unwrap().contains("nothing"));
}

#[test]
fn answers_are_json_where_asked_for() {
    let scratch = Scratch::new();
    let made = json_lines(&scratch.ok(["init", "db", "--json"]));
    let created = json_lines(&scratch.ok(["create", "db", "t", "--json"]));
    assert_eq!(created, [serde_json::json!({ "created": "t" })]);
    let put = json_lines(&scratch.ok(["put", "db", "t", "a", "1", "--json"]));
    let row = json_lines(&scratch.ok(["get", "db", "t", "a", "--json"]));
    assert_eq!(row, [serde_json::json!({ "key": "a", "value": "1" })]);
    let info = json_lines(&scratch.ok(["info", "db", "--json"]));
    assert_eq!(info[0]["database_id"], made[0]["database_id"]);
    assert_eq!(info[0]["tables"], 1);
    assert!(info[0]["segments"].as_array().is_some_and(|segments| !segments.is_empty()));
    json_lines(&scratch.ok(["checkpoint", "db", "--json"]));
    let checked = json_lines(&scratch.ok(["check", "db", "--json"]));
    assert_eq!(checked.last().unwrap(), &serde_json::json!({ "ok": true }));

    scratch.ok(["put", "db", "t", "b", "22"]);
    let from = put[0]["lsn"].as_str().unwrap();
    let records = json_lines(&scratch.ok(["log", "db", "--json", "--from", from]));
    assert!(records.iter().all(|record| record["lsn"].is_string() && record["kind"].is_string()));
    assert!(records.iter().any(|record| record["changes"][0]["key"] == "b"), "{records:?}");
    let first = json_lines(&scratch.ok(["log", "db", "--json", "--from", from, "--limit", "1"]));
    assert_eq!(first, records[..1]);
    let text = scratch.ok(["log", "db", "--from", from]);
    assert!(text.contains("put t b (2 bytes)"), "{text}");
    let message = scratch.fails(2, ["log", "db", "--from", "0/1001001"]);
    assert!(message.contains("no record starts at 0/1001001"), "{message}");
}

#[test]
fn the_log_at_a_glance_and_what_is_named_in_it() {
    let scratch = Scratch::with_database();
    let overview = || json_lines(&scratch.ok(["log", "db", "--json", "--restore-points"])).swap_remove(0);
    let made = json_lines(&scratch.ok(["restore-point", "db", "before the upgrade", "--json"]));
    let seen = overview();
    assert_eq!(seen["restore_points"][0]["name"], "before the upgrade");
    assert_eq!(seen["restore_points"][0]["lsn"], made[0]["lsn"]);
    assert!(seen["segments"][0]["state"] == "live" && seen["timeline"] == 1, "{seen}");
    let fork = seen["end"].clone();
    let told = scratch.ok(["new-timeline", "db", "--reason", "the old machine may still be writing"]);
    assert_eq!(told, "the log continues on timeline 2\n");
    let seen = overview();
    assert_eq!((&seen["timeline"], &seen["ancestors"][0]["left_at"]), (&2.into(), &fork), "{seen}");
    assert!(seen["restore_points"].as_array().is_some_and(|points| points.len() == 1), "{seen}");
    let brief = json_lines(&scratch.ok(["log", "db", "--json"])).swap_remove(0);
    assert!(brief["end"] == seen["end"] && brief.get("restore_points").is_none(), "{brief}");
    let text = scratch.ok(["log", "db", "--restore-points"]);
    for part in
        ["1 left at", "the old machine", "live", "held by          recovery", "\"before the upgrade\""]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    let records = json_lines(&scratch.ok(["log", "db", "--records", "--json"]));
    assert!(records.iter().any(|record| record["kind"] == "timeline switch" && record["timeline"] == 2));
    scratch.ok(["check", "db"]);
    assert!(scratch.fails(3, ["release-hold", "db", "nobody"]).contains("no hold \"nobody\""));
    scratch.fails(2, ["log", "db", "--restore-points", "--records"]);
    scratch.fails(2, ["restore-point", "db", ""]);
    scratch.fails(3, ["new-timeline", "nowhere"]);
}

#[test]
fn help_teaches() {
    let scratch = Scratch::new();
    let help = scratch.ok(["--help"]);
    assert!(help.contains("seawall init bank") && help.contains("Exit codes"), "{help}");
    for command in ["load", "dump", "scan", "put", "log", "tour", "bench", "init"] {
        let help = scratch.ok([command, "--help"]);
        assert!(help.contains("Example"), "{command}: {help}");
    }
}

#[test]
fn pages_are_protected_as_the_options_say() {
    let scratch = Scratch::with_database();
    let info = || json_lines(&scratch.ok(["info", "db", "--json"])).swap_remove(0);
    scratch.ok(["create", "db", "protected"]);
    assert_eq!(info()["page_protection"], "recovery-file");
    let in_log = ["--page-protection", "log-images", "--page-image-compression", "zstd"];
    scratch.ok([&["put", "db", "protected", "key", "value"][..], &in_log].concat());
    assert_eq!(info()["page_protection"], "log-images");
    let records = json_lines(&scratch.ok(["log", "db", "--records", "--json"]));
    assert!(records.iter().any(|record| record["kind"] == "page images"), "{records:?}");
    scratch.fails(2, ["info", "db", "--page-protection", "nowhere"]);
    scratch.fails(2, ["info", "db", "--page-image-compression", "gzip"]);
    scratch.ok(["put", "db", "protected", "key", "other"]);
    assert_eq!(info()["page_protection"], "recovery-file");
}

#[test]
fn runs_have_the_share_that_the_option_says() {
    let scratch = Scratch::with_database();
    scratch.ok(["create", "db", "changed"]);
    scratch.ok(["put", "db", "changed", "key", "value", "--run-percent", "25"]);
    let refused = scratch.fails(2, ["put", "db", "changed", "key", "other", "--run-percent", "3"]);
    assert!(refused.contains("--run-percent: must be from 5 to 100"), "{refused}");
    scratch.fails(2, ["put", "db", "changed", "key", "other", "--run-percent", "101"]);
    assert_eq!(scratch.ok(["get", "db", "changed", "key"]).trim(), "value");
}
