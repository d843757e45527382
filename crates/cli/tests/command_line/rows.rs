//! `put`, `get`, `delete`, `scan` and the commands for tables.

use crate::support::{Scratch, json_lines};

#[test]
fn a_first_session_works() {
    let scratch = Scratch::with_database();
    scratch.ok(["create", "db", "accounts"]);
    scratch.ok(["put", "db", "accounts", "alice", "100"]);
    scratch.ok(["put", "db", "accounts", "bob", "-50"]);
    assert_eq!(scratch.ok(["get", "db", "accounts", "bob"]), "-50\n");
    assert_eq!(scratch.ok(["scan", "db", "accounts"]), "alice\t100\nbob\t-50\n");
    scratch.ok(["delete", "db", "accounts", "alice"]);
    scratch.fails(3, ["delete", "db", "accounts", "alice"]);
    assert_eq!(scratch.ok(["scan", "db", "accounts", "--keys-only"]), "bob\n");
    assert!(scratch.ok(["check", "db"]).contains("no damage"));
}

#[test]
fn bytes_go_in_and_out_in_hexadecimal() {
    let scratch = Scratch::with_database();
    scratch.ok(["create", "db", "t"]);
    scratch.ok(["put", "db", "t", "--hex", "00ff", "ff00"]);
    assert_eq!(scratch.ok(["get", "db", "t", "00ff", "--hex"]), "ff00\n");
    assert_eq!(scratch.ok(["scan", "db", "t"]), "\\x00\\xff\t\\xff\\x00\n");
    assert_eq!(scratch.ok(["scan", "db", "t", "--hex"]), "00ff\tff00\n");
    let rows = json_lines(&scratch.ok(["scan", "db", "t", "--json"]));
    assert_eq!(rows, [serde_json::json!({ "key_hex": "00ff", "value_hex": "ff00" })]);
    scratch.fails(2, ["get", "db", "t", "0", "--hex"]);
}

#[test]
fn values_come_from_files_and_go_to_them() {
    let scratch = Scratch::with_database();
    scratch.ok(["create", "db", "t"]);
    let content: Vec<u8> = (0..200_000u32).flat_map(u32::to_le_bytes).collect();
    scratch.write("content", &content);
    scratch.ok(["put", "db", "t", "a", "--value-file", "content"]);
    assert_eq!(scratch.ok_bytes(["get", "db", "t", "a", "--raw"]), content);
    scratch.pipe(b"from a pipe", ["put", "db", "t", "b", "--value-file", "-"]);
    assert_eq!(scratch.ok(["get", "db", "t", "b"]), "from a pipe\n");
}

#[test]
fn a_scan_shows_the_range_asked_for() {
    let scratch = Scratch::with_database();
    scratch.write("rows.csv", b"key,value\na,1\nab,2\nac,3\nb,4\n");
    scratch.ok(["load", "db", "t", "rows.csv"]);
    let keys = |more: &[&str]| {
        let arguments = [&["scan", "db", "t", "--keys-only"], more].concat();
        scratch.ok(arguments).split_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(keys(&[]), "a ab ac b");
    assert_eq!(keys(&["--from", "ab", "--to", "b"]), "ab ac");
    assert_eq!(keys(&["--prefix", "a"]), "a ab ac");
    assert_eq!(keys(&["--reverse", "--limit", "2"]), "b ac");
    assert_eq!(keys(&["--prefix", "a", "--reverse"]), "ac ab a");
    assert_eq!(keys(&["--from", "b", "--to", "a"]), "");
    assert_eq!(keys(&["--limit", "0"]), "");
}

#[test]
fn tables_are_made_renamed_emptied_and_dropped() {
    let scratch = Scratch::with_database();
    scratch.ok(["create", "db", "b"]);
    scratch.ok(["create", "db", "a"]);
    assert_eq!(scratch.ok(["tables", "db"]), "a\nb\n");
    scratch.ok(["put", "db", "a", "k", "v"]);
    scratch.ok(["rename", "db", "a", "c"]);
    assert_eq!(scratch.ok(["get", "db", "c", "k"]), "v\n");
    scratch.ok(["truncate", "db", "c"]);
    assert_eq!(scratch.ok(["scan", "db", "c"]), "");
    scratch.ok(["drop", "db", "c"]);
    let names: Vec<_> = json_lines(&scratch.ok(["tables", "db", "--json"]));
    assert_eq!(names.len(), 1);
    assert_eq!(names[0]["name"], "b");
}

#[test]
fn whoever_has_seen_enough_may_close_the_pipe() {
    let scratch = Scratch::with_database();
    let rows: String = (0..20_000).map(|number| format!("{number:08},{number}\n")).collect();
    scratch.write("rows.csv", rows.as_bytes());
    scratch.ok(["load", "db", "t", "rows.csv", "--no-header"]);
    let mut child =
        scratch.command(["scan", "db", "t"]).stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut reader = std::io::BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    std::io::BufRead::read_line(&mut reader, &mut line).unwrap();
    drop(reader);
    assert_eq!(line, "00000000\t0\n");
    assert!(child.wait().unwrap().success());
}
