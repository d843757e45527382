//! Answers that nobody takes: standard output on a full disk, or closed. A change that is made is done, and what a command has found
//! out decides its exit code, whether somebody reads it or not.

use std::fs::File;
use std::process::{Output, Stdio};

use seawall::{Database, HoldLifetime, HoldOptions, Options};

use crate::support::Scratch;

const OLD_KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
const NEW_KEY: &str = "f00102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Standard output as on a full disk.
fn on_a_full_disk(scratch: &Scratch, arguments: &[&str]) -> Output {
    let full = File::options().write(true).open("/dev/full").unwrap();
    scratch.command(arguments).stdin(Stdio::null()).stdout(full).output().unwrap()
}

/// Standard output to a reader who has gone.
fn without_a_reader(scratch: &Scratch, arguments: &[&str]) -> Output {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    scratch.command(arguments).stdin(Stdio::null()).stdout(writer).output().unwrap()
}

/// What commands are to change: files, transactions in doubt `doubt-1` to `doubt-3`, a hold.
fn things_to_change(scratch: &Scratch) {
    scratch.write("old.key", OLD_KEY.as_bytes());
    scratch.write("new.key", NEW_KEY.as_bytes());
    scratch.write("rows.csv", b"a,1\nb,2\n");
    scratch.ok(["init", "doubtful"]);
    let database = Database::open(scratch.path("doubtful"), Options::default()).unwrap();
    let table = database.create_table("t").unwrap();
    for gid in ["doubt-1", "doubt-2", "doubt-3"] {
        let mut transaction = database.begin();
        transaction.put(&table, gid, "value").unwrap();
        transaction.prepare(gid).unwrap();
    }
    let options = HoldOptions { lifetime: HoldLifetime::Permanent, ..HoldOptions::default() };
    drop(database.log().hold("held", options, None).unwrap());
    database.close().unwrap();
}

/// Every command that changes something and answers, in an order in which each can.
const CHANGES: [&[&str]; 24] = [
    &["init", "db"],
    &["create", "db", "t"],
    &["rename", "db", "t", "u"],
    &["load", "db", "u", "rows.csv", "--no-header"],
    &["put", "db", "u", "key", "value", "--json"],
    &["delete", "db", "u", "key", "--json"],
    &["checkpoint", "db"],
    &["restore-point", "db", "point"],
    &["commit-prepared", "doubtful", "doubt-1"],
    &["rollback-prepared", "doubtful", "doubt-2"],
    &["in-doubt", "doubtful", "--older-than", "0", "--roll-back"],
    &["in-doubt", "doubtful", "--forget", "doubt-3"],
    &["release-hold", "doubtful", "held"],
    &["repo", "create", "repo"],
    &["backup", "db", "--repository", "repo"],
    &["backup", "db", "--repository", "repo"],
    &["restore", "copy", "--repository", "repo"],
    &["expire", "--repository", "repo", "--keep-count", "1", "--keep-recent", "0s", "--json"],
    &["init", "secret", "--encrypt", "--master-key-file", "old.key"],
    &["rotate-key", "secret", "--master-key-file", "old.key", "--new-master-key-file", "new.key"],
    &["repo", "create", "vault", "--master-key-file", "old.key"],
    &["repo", "rotate-key", "vault", "--master-key-file", "old.key", "--new-master-key-file", "new.key"],
    &["new-timeline", "db"],
    &["truncate", "db", "u"],
];

fn check_changes(scratch: &Scratch) {
    assert_eq!(scratch.ok(["tables", "db"]), "u\n");
    assert_eq!(scratch.ok(["scan", "db", "u"]), "", "it was truncated last");
    assert_eq!(scratch.ok(["scan", "copy", "u", "--keys-only"]), "a\nb\n");
    assert_eq!(scratch.ok(["scan", "doubtful", "t", "--keys-only"]), "doubt-1\n");
    assert_eq!(scratch.ok(["in-doubt", "doubtful"]), "nothing is in doubt\n");
    assert_eq!(scratch.ok(["in-doubt", "doubtful", "--forget", "doubt-3"]), "forgot 0 decisions\n");
    scratch.fails(3, ["release-hold", "doubtful", "held"]);
    assert_eq!(scratch.ok(["backup", "list", "repo"]).lines().count(), 1);
    scratch.ok(["tables", "secret", "--master-key-file", "new.key"]);
    scratch.fails(9, ["tables", "secret", "--master-key-file", "old.key"]);
    scratch.ok(["repo", "info", "vault", "--master-key-file", "new.key"]);
    scratch.fails(9, ["repo", "info", "vault", "--master-key-file", "old.key"]);
}

#[test]
fn a_change_whose_answer_nobody_can_take_is_done_with_a_warning() {
    let scratch = Scratch::new();
    things_to_change(&scratch);
    for arguments in CHANGES {
        let output = on_a_full_disk(&scratch, arguments);
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {message}");
        let is_told = message.contains("warning") && message.contains("standard output");
        assert!(is_told, "{arguments:?}: {message}");
    }
    check_changes(&scratch);
    // What only answers has failed.
    let output = on_a_full_disk(&scratch, &["tables", "db"]);
    assert_eq!(output.status.code(), Some(8), "{output:?}");
    assert!(text(&output.stderr).contains("standard output"), "{output:?}");
}

#[test]
fn a_change_whose_reader_has_gone_is_done() {
    let scratch = Scratch::new();
    things_to_change(&scratch);
    for arguments in CHANGES {
        let output = without_a_reader(&scratch, arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", text(&output.stderr));
    }
    check_changes(&scratch);
}

/// Exit code 0 would say that what need not be kept is gone.
#[test]
fn nothing_expires_where_nobody_can_be_told_what() {
    let scratch = Scratch::new();
    scratch.ok(["init", "db"]);
    scratch.ok(["repo", "create", "repo"]);
    (0..2).for_each(|_| drop(scratch.ok(["backup", "db", "--repository", "repo"])));
    let expire = ["expire", "--repository", "repo", "--keep-count", "1", "--keep-recent", "0s"];
    for (output, code) in [(without_a_reader(&scratch, &expire), 1), (on_a_full_disk(&scratch, &expire), 8)] {
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        assert_eq!(scratch.ok(["backup", "list", "repo"]).lines().count(), 2);
    }
}

/// Longer than what standard output gathers before it is written.
const LONG_ANSWER_BYTES: usize = 8 << 10;

/// The command that is asked lets no further byte into any file of the database before it answers for the last one.
#[test]
fn transactions_that_stay_in_doubt_are_reported_though_the_reader_has_gone() {
    const DECIDED: usize = 60;
    let scratch = Scratch::with_database();
    let database = Database::open(scratch.path("db"), Options::default()).unwrap();
    let table = database.create_table("t").unwrap();
    let gids: Vec<String> = (0..DECIDED).map(|number| format!("{}-{number:03}", "g".repeat(150))).collect();
    assert!(gids.iter().map(String::len).sum::<usize>() > LONG_ANSWER_BYTES);
    for gid in gids.iter().map(String::as_str).chain(["the last"]) {
        let mut transaction = database.begin();
        transaction.put(&table, gid, "value").unwrap();
        transaction.prepare(gid).unwrap();
    }
    database.close().unwrap();
    let ask = "case \"$SEAWALL_GID\" in *last) prlimit --pid $PPID --fsize=512: ;; esac; echo commit";
    let output = without_a_reader(&scratch, &["in-doubt", "db", "--ask", ask]);
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("\"the last\" stays in doubt"), "{message}");
    assert!(!message.contains("is made and durable"), "{message}");
    assert_eq!(scratch.ok(["scan", "db", "t", "--keys-only"]).lines().count(), DECIDED);
    assert!(scratch.ok(["in-doubt", "db"]).starts_with("\"the last\""));
}

#[test]
fn damage_is_4_though_the_reader_has_gone() {
    let scratch = Scratch::with_database();
    let rows: String =
        (0..30_000).map(|number| format!("{number:06},value {number:06} {}\n", "v".repeat(100))).collect();
    scratch.write("rows.csv", rows.as_bytes());
    scratch.ok(["load", "db", "t", "rows.csv", "--no-header"]);
    scratch.ok(["checkpoint", "db"]);
    let mut pages = scratch.read("db/pages");
    let damaged: Vec<usize> =
        (0..pages.len() - 12).filter(|&place| pages[place..].starts_with(b"value 0")).collect();
    for place in damaged {
        pages[place] ^= 1;
    }
    scratch.write("db/pages", &pages);
    let read = scratch.run(["check", "db"]);
    assert!(read.stdout.len() > LONG_ANSWER_BYTES, "{} bytes", read.stdout.len());
    for arguments in [&["check", "db"][..], &["check", "db", "--json"]] {
        for output in [without_a_reader(&scratch, arguments), on_a_full_disk(&scratch, arguments)] {
            assert_eq!(output.status.code(), Some(4), "{arguments:?}: {output:?}");
        }
    }
}

#[test]
fn a_damaged_repository_is_4_though_the_reader_has_gone() {
    let scratch = Scratch::with_database();
    scratch.ok(["repo", "create", "repo"]);
    scratch.ok(["create", "db", "t"]);
    let verify = ["verify", "--repository", "repo", "--full"];
    for number in 0..60 {
        scratch.ok(["put", "db", "t", &format!("key {number}"), "value"]);
        scratch.ok(["backup", "db", "--repository", "repo"]);
    }
    for path in files_under(&scratch.path("repo")) {
        if path.to_str().unwrap().contains("run-") {
            let mut content = std::fs::read(&path).unwrap();
            content[200] ^= 1;
            std::fs::write(&path, content).unwrap();
        }
    }
    let read = scratch.run(verify);
    assert!(read.stdout.len() > LONG_ANSWER_BYTES, "{} bytes", read.stdout.len());
    assert_eq!(without_a_reader(&scratch, &verify).status.code(), Some(4));
}

fn files_under(directory: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files_under(&path) } else { vec![path] }).collect()
}
