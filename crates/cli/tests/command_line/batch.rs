//! `batch`: all of its changes, or none; and `count`.

use crate::support::{Scratch, json_lines};

fn with_accounts() -> Scratch {
    let scratch = Scratch::with_database();
    for table in ["accounts", "journal"] {
        scratch.ok(["create", "db", table]);
    }
    scratch.ok(["put", "db", "accounts", "alice", "100"]);
    scratch.ok(["put", "db", "accounts", "bob", "0"]);
    scratch
}

const TRANSFER: &str = "\
{\"put\":\"accounts\",\"key\":\"alice\",\"value\":\"70\"}

{\"put\":\"accounts\",\"key\":\"carol\",\"value\":\"30\"}
{\"delete\":\"accounts\",\"key\":\"bob\"}
{\"put\":\"journal\",\"key_hex\":\"00\",\"value_hex\":\"ff\"}
";

#[test]
fn changes_of_several_tables_are_one_commit() {
    let scratch = with_accounts();
    scratch.write("transfer.jsonl", TRANSFER.as_bytes());
    let answer = scratch.ok(["batch", "db", "transfer.jsonl"]);
    assert_eq!(answer, "committed 3 puts and 1 delete in one transaction\n");
    assert_eq!(scratch.ok(["scan", "db", "accounts"]), "alice\t70\ncarol\t30\n");
    assert_eq!(scratch.ok(["scan", "db", "journal", "--hex"]), "00\tff\n");
    let commits = scratch.ok(["log", "db", "--records"]);
    assert!(commits.contains("commit of 4 changes"), "{commits}");

    let answer = json_lines(
        &String::from_utf8(scratch.pipe(TRANSFER.as_bytes(), ["batch", "db", "-", "--json"])).unwrap(),
    );
    assert_eq!((&answer[0]["puts"], &answer[0]["deletes"]), (&3.into(), &1.into()));
    assert!(answer[0]["lsn"].as_str().is_some_and(|lsn| lsn.starts_with("0/")), "{answer:?}");
    let nothing = scratch.pipe(b"\n", ["batch", "db", "-"]);
    assert_eq!(nothing, b"committed 0 puts and 0 deletes in one transaction\n");
}

#[test]
fn a_wrong_line_is_named_and_nothing_is_committed() {
    let scratch = with_accounts();
    let long_key = format!("{{\"put\":\"accounts\",\"key\":\"{}\",\"value\":\"1\"}}", "k".repeat(5000));
    for wrong in [
        "{\"put\":\"accounts\",\"key\":\"alice\"}",
        "{\"put\":\"accounts\",\"key\":\"alice\",\"value\":\"1\",\"vlaue\":\"2\"}",
        "{\"put\":\"nothing\",\"key\":\"alice\",\"value\":\"1\"}",
        "{\"delete\":\"accounts\"",
        "put accounts alice 1",
        &long_key,
    ] {
        scratch.write("changes.jsonl", format!("{TRANSFER}{wrong}\n{TRANSFER}").as_bytes());
        let message = scratch.fails(7, ["batch", "db", "changes.jsonl"]);
        assert!(message.contains("changes.jsonl, line 6: "), "{wrong}: {message}");
        assert!(message.contains("(nothing is committed)"), "{wrong}: {message}");
        assert_eq!(scratch.ok(["scan", "db", "accounts"]), "alice\t100\nbob\t0\n", "{wrong}");
    }
    scratch.fails(3, ["batch", "db", "missing.jsonl"]);
    scratch.fails(3, ["batch", "nowhere", "changes.jsonl"]);
}

#[test]
fn rows_are_counted() {
    let scratch = with_accounts();
    assert_eq!(scratch.ok(["count", "db"]), "accounts\t2\njournal\t0\n");
    // Some in the tree, some in the log, one in both.
    scratch.ok(["checkpoint", "db"]);
    scratch.ok(["put", "db", "accounts", "alice", "50"]);
    scratch.ok(["put", "db", "accounts", "carol", "50"]);
    let counted = json_lines(&scratch.ok(["count", "db", "accounts", "--json"]));
    assert_eq!(counted, [serde_json::json!({ "table": "accounts", "rows": 3 })]);
    let message = scratch.fails(3, ["count", "db", "accounts", "nothing"]);
    assert!(message.contains("nothing"), "{message}");
}
