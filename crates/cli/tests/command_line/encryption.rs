//! Encrypted databases from the shell: with a key from a file, a variable or a command, killed and searched.

use std::path::Path;
use std::process::Stdio;

use crate::support::Scratch;

const OLD: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
const NEW: &str = "f00102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

fn scratch() -> Scratch {
    let scratch = Scratch::new();
    scratch.write("old.key", OLD.as_bytes());
    scratch.write("new.key", format!("{NEW}\n").as_bytes());
    scratch
}

fn files_under(directory: &Path, each: &mut dyn FnMut(&Path, &[u8])) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files_under(&path, each) } else { each(&path, &std::fs::read(&path).unwrap()) }
    }
}

/// The files that hold one of these texts.
fn files_with(directory: &Path, needles: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    files_under(directory, &mut |path, bytes| {
        let holds = |needle: &&str| bytes.windows(needle.len()).any(|window| window == needle.as_bytes());
        if needles.iter().any(holds) {
            found.push(path.display().to_string());
        }
    });
    found
}

#[test]
fn every_command_works_with_each_source_of_the_master_key() {
    let scratch = scratch();
    let file = ["--master-key-file", "old.key"];
    let variable = ["--master-key-env", "SEAWALL_TEST_KEY"];
    let command = ["--master-key-command", "cat old.key"];
    let run = |source: [&str; 2], arguments: &[&str]| {
        let mut command = scratch.command(arguments.iter().copied().chain(source));
        let output = command.env("SEAWALL_TEST_KEY", OLD).stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    run(file, &["init", "db", "--encrypt"]);
    run(variable, &["create", "db", "accounts"]);
    run(command, &["put", "db", "accounts", "alice", "100"]);
    for source in [file, variable, command] {
        assert_eq!(run(source, &["get", "db", "accounts", "alice"]), "100\n");
        assert!(run(source, &["check", "db"]).contains("no damage found"));
        assert!(run(source, &["info", "db"]).contains("encrypted        yes"));
        assert!(run(source, &["log", "db", "--records"]).contains("put accounts alice"));
        run(source, &["checkpoint", "db"]);
    }
}

#[test]
fn a_wrong_key_none_or_one_too_many_exits_with_nine() {
    let scratch = scratch();
    scratch.write("short.key", b"password");
    scratch.ok(["init", "db", "--encrypt", "--master-key-file", "old.key"]);
    scratch.ok(["init", "plain"]);
    assert!(scratch.fails(9, ["tables", "db"]).contains("is encrypted"));
    for command in ["tables", "check", "log", "info"] {
        let wrong = scratch.fails(9, [command, "db", "--master-key-file", "new.key"]);
        assert!(wrong.contains("another master key"), "{command}: {wrong}");
        let plain = scratch.fails(9, [command, "plain", "--master-key-file", "old.key"]);
        assert!(plain.contains("is not encrypted"), "{command}: {plain}");
    }
    let malformed = scratch.fails(9, ["tables", "db", "--master-key-file", "short.key"]);
    assert!(malformed.contains("short.key") && malformed.contains("8 bytes long"), "{malformed}");
    let missing = scratch.fails(9, ["tables", "db", "--master-key-file", "no.key"]);
    assert!(missing.contains("no.key"), "{missing}");
    let failing = scratch.fails(9, ["tables", "db", "--master-key-command", "exit 7"]);
    assert!(failing.contains("exit 7") && failing.contains('7'), "{failing}");
    scratch.fails(9, ["tables", "db", "--master-key-env", "SEAWALL_NOT_SET_ANYWHERE"]);
    scratch.fails(2, ["tables", "db", "--master-key-env", "A", "--master-key-file", "old.key"]);
    scratch.fails(2, ["init", "other", "--encrypt"]);
    scratch.fails(2, ["init", "other", "--master-key-file", "old.key"]);
    scratch.fails(9, ["init", "other", "--encrypt", "--master-key-file", "short.key"]);
    // Nothing was made, so it can be made now.
    scratch.ok(["init", "other"]);
}

#[test]
fn a_rotated_key_opens_and_the_old_one_does_not() {
    let scratch = scratch();
    let (old, new) = (["--master-key-file", "old.key"], ["--master-key-file", "new.key"]);
    let with = |arguments: &[&'static str], key: [&'static str; 2]| [arguments, &key].concat();
    scratch.ok(with(&["init", "db", "--encrypt"], old));
    scratch.ok(with(&["create", "db", "t"], old));
    scratch.ok(with(&["put", "db", "t", "k", "v"], old));
    scratch.ok(with(&["rotate-key", "db", "--new-master-key-file", "new.key", "--keep-others"], old));
    assert_eq!(scratch.ok(with(&["get", "db", "t", "k"], old)), "v\n");
    assert_eq!(scratch.ok(with(&["get", "db", "t", "k"], new)), "v\n");
    scratch.ok(with(&["rotate-key", "db", "--new-master-key-command", "cat new.key"], new));
    scratch.fails(9, with(&["get", "db", "t", "k"], old));
    assert_eq!(scratch.ok(with(&["get", "db", "t", "k"], new)), "v\n");
    scratch.fails(9, with(&["rotate-key", "db", "--new-master-key-file", "new.key"], old));
    scratch.fails(2, with(&["rotate-key", "db"], new));
    scratch.fails(2, ["rotate-key", "db", "--new-master-key-file", "new.key"]);
    scratch.fails(3, with(&["rotate-key", "nowhere", "--new-master-key-file", "new.key"], old));
}

/// `kill -9` in the middle of a load: no file, not even one that the process had no time to remove, shows a row; every
/// acknowledged row is there. The same without encryption, so that the search is known to find what there is.
#[test]
fn nothing_can_be_read_after_kill_9() {
    const ROWS: u64 = 20_000;
    let rows: String = (0..ROWS).map(|row| format!("name-of-{row:05},secret-of-{row:05}\n")).collect();
    for is_encrypted in [true, false] {
        let scratch = scratch();
        scratch.write("rows.csv", rows.as_bytes());
        let key: &[&str] = if is_encrypted { &["--master-key-file", "old.key"] } else { &[] };
        let with = |arguments: &[&'static str]| {
            arguments.iter().copied().chain(key.iter().copied()).collect::<Vec<_>>()
        };
        scratch.ok(with(if is_encrypted { &["init", "db", "--encrypt"] } else { &["init", "db"] }));
        let load =
            with(&["load", "db", "hidden-table", "rows.csv", "--no-header", "--acks", "--batch", "100"]);
        let mut child = scratch.command(load).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
        let mut acknowledged = 0;
        let mut read = |line: Option<std::io::Result<String>>| {
            let count =
                line.and_then(Result::ok).and_then(|line| line.strip_prefix("committed ")?.parse().ok());
            acknowledged = count.unwrap_or(acknowledged);
            count.is_some()
        };
        for _ in 0..40 {
            assert!(read(lines.next()));
        }
        child.kill().unwrap();
        while read(lines.next()) {}
        child.wait().unwrap();
        let needles = ["name-of-", "secret-of-", "hidden-table"];
        let found = files_with(&scratch.path("db"), &needles);
        assert_eq!(found.is_empty(), is_encrypted, "{found:?}");
        let dumped = scratch.ok(with(&["dump", "db", "hidden-table"]));
        assert!(dumped.lines().count() as u64 > acknowledged, "{acknowledged} rows were acknowledged");
        scratch.ok(with(&["checkpoint", "db"]));
        let found = files_with(&scratch.path("db"), &needles);
        assert_eq!(found.is_empty(), is_encrypted, "{found:?}");
        assert!(scratch.ok(with(&["check", "db"])).contains("no damage found"));
    }
}
