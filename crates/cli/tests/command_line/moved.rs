//! The directory of a database is moved while a `load` has it open, and something else is put in its place: what an operator does
//! who restores beside a server that still runs.
#![allow(clippy::disallowed_methods, reason = "files of the test, not of a database")]

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use crate::support::Scratch;

const BATCH: u64 = 100;
/// Before the move, and in all: several segments of 1 MiB each time, and several checkpoints.
const BEFORE: u64 = 10_000;
const ROWS: u64 = 30_000;

/// A `load` that is fed row by row.
struct Loader {
    child: Child,
    input: ChildStdin,
    acknowledgements: BufReader<ChildStdout>,
}

fn row(number: u64) -> String {
    format!("{number:08},{}{number}\n", "v".repeat(250))
}

impl Loader {
    fn start(scratch: &Scratch) -> Loader {
        let batch = BATCH.to_string();
        let arguments =
            ["load", "db", "t", "-", "--no-header", "--acks", "--memtable-mib", "2", "--batch", &batch];
        let mut child = scratch
            .command(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Loader { child, input, acknowledgements: BufReader::new(output) }
    }

    /// Hands over the rows `from..to` and reads until `until` are acknowledged.
    fn load(&mut self, from: u64, to: u64, until: u64) {
        let rows: String = (from..to).map(row).collect();
        self.input.write_all(rows.as_bytes()).unwrap();
        let wanted = format!("committed {until}\n");
        let mut line = String::new();
        while line != wanted {
            line.clear();
            assert!(
                self.acknowledgements.read_line(&mut line).unwrap() > 0,
                "the load ended before {until} rows"
            );
        }
    }

    /// Ends the input; standard error of the load, which has ended well.
    fn end(mut self) -> String {
        drop(self.input);
        self.acknowledgements.read_to_end(&mut Vec::new()).unwrap();
        let output = self.child.wait_with_output().unwrap();
        let messages = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{messages}");
        messages
    }
}

fn database(scratch: &Scratch) -> Loader {
    scratch.ok(["init", "db", "--segment-mib", "1"]);
    Loader::start(scratch)
}

/// The first `count` rows and no others are in the database.
fn assert_rows(scratch: &Scratch, directory: &str, count: u64) {
    assert!(scratch.ok(["check", directory]).contains("no damage"));
    let found = scratch.ok(["scan", directory, "t"]);
    let expected: String = (0..count).map(|number| row(number).replace(',', "\t")).collect();
    assert!(found == expected, "{directory} has {} rows, expected {count}", found.lines().count());
}

/// Names and contents of all files, sorted.
fn files(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(self::files(&path));
        } else {
            files.push((path.display().to_string(), std::fs::read(&path).unwrap()));
        }
    }
    files.sort();
    files
}

#[test]
fn a_database_that_is_moved_works_on_where_it_is_and_says_so() {
    let scratch = Scratch::new();
    let mut loader = database(&scratch);
    loader.load(0, BEFORE, BEFORE);
    std::fs::rename(scratch.path("db"), scratch.path("db.old")).unwrap();
    loader.load(BEFORE, ROWS, ROWS);
    let messages = loader.end();
    assert!(messages.contains("db was moved to ") && messages.contains("/db.old"), "{messages}");
    assert!(!scratch.path("db").exists());
    assert_rows(&scratch, "db.old", ROWS);
}

#[test]
fn a_restore_in_place_of_a_moved_database_and_the_moved_one_both_keep_their_rows() {
    let scratch = Scratch::new();
    scratch.ok(["repo", "create", "repository"]);
    let mut loader = database(&scratch);
    loader.load(0, BATCH, BATCH);
    loader.end();
    scratch.ok(["backup", "db", "--repository", "repository"]);
    let mut loader = Loader::start(&scratch);
    loader.load(BATCH, BEFORE, BEFORE - BATCH);
    std::fs::rename(scratch.path("db"), scratch.path("db.old")).unwrap();
    scratch.ok(["restore", "db", "--repository", "repository"]);
    let restored = files(&scratch.path("db"));
    loader.load(BEFORE, ROWS, ROWS - BATCH);
    loader.end();
    assert!(files(&scratch.path("db")) == restored, "the load wrote into the restored directory");
    assert_rows(&scratch, "db", BATCH);
    assert_rows(&scratch, "db.old", ROWS);
}

#[test]
fn a_copy_in_place_of_a_moved_database_takes_rows_of_its_own_while_the_moved_one_works_on() {
    let scratch = Scratch::new();
    let mut loader = database(&scratch);
    loader.load(0, BATCH, BATCH);
    loader.end();
    let copied = std::process::Command::new("cp")
        .arg("-r")
        .args(["db", "copy"].map(|name| scratch.path(name)))
        .status();
    assert!(copied.unwrap().success());
    let mut loader = Loader::start(&scratch);
    loader.load(BATCH, BEFORE, BEFORE - BATCH);
    std::fs::rename(scratch.path("db"), scratch.path("db.old")).unwrap();
    std::fs::rename(scratch.path("copy"), scratch.path("db")).unwrap();
    for number in BATCH..2 * BATCH {
        let (key, value) =
            row(number).trim_end().split_once(',').map(|(k, v)| (k.to_owned(), v.to_owned())).unwrap();
        scratch.ok(["put", "db", "t", &key, &value]);
        if number == BATCH + BATCH / 2 {
            loader.load(BEFORE, ROWS, ROWS - BATCH);
        }
    }
    loader.end();
    assert_rows(&scratch, "db", 2 * BATCH);
    assert_rows(&scratch, "db.old", ROWS);
}

#[test]
fn a_moved_database_that_is_killed_is_recovered_where_it_is() {
    let scratch = Scratch::new();
    let mut loader = database(&scratch);
    loader.load(0, BEFORE, BEFORE);
    std::fs::rename(scratch.path("db"), scratch.path("db.old")).unwrap();
    scratch.ok(["init", "db"]);
    let other = files(&scratch.path("db"));
    loader.load(BEFORE, ROWS, ROWS);
    loader.child.kill().unwrap();
    loader.child.wait().unwrap();
    assert!(files(&scratch.path("db")) == other, "the load wrote into the other database");
    assert_rows(&scratch, "db.old", ROWS);
}
