//! Files that are not what they should be: refused with their line and exit code 7, as soon as that is known, in little time and
//! memory.

use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};

use seawall_testing::wait_until;

use crate::support::{SEAWALL, Scratch};

/// Loads `content` as `format`; what the command says of it, and the table afterwards.
fn refused(content: &[u8], format: &str) -> (String, String) {
    let scratch = Scratch::with_database();
    scratch.write("rows", content);
    let message = scratch.fails(7, ["load", "db", "t", "rows", "--format", format]);
    let tables = scratch.ok(["tables", "db"]);
    let rows = if tables.is_empty() { String::new() } else { scratch.ok(["scan", "db", "t"]) };
    (message, rows)
}

#[test]
fn a_quote_that_is_never_closed_is_refused_where_it_opens() {
    for (content, line) in [
        ("key,value\na,\"1\nb,2\nc,3\n", "line 2"),
        ("key,value\na,\"x", "line 2"),
        ("key,value\n\"a,1\nb,2\n", "line 2"),
        ("key,\"value\na,1\n", "line 1"),
        ("key,value\n\"a\nb\",\"c\n\n", "line 3"),
        ("key,value\na,\"1\"\"", "line 2"),
    ] {
        for (content, format) in [(content.to_owned(), "csv"), (content.replace(',', "\t"), "tsv")] {
            let (message, rows) = refused(content.as_bytes(), format);
            assert!(message.contains(line) && message.contains("closed"), "{content:?}: {message}");
            assert_eq!(rows, "", "{content:?}");
        }
    }
}

#[test]
fn text_beside_the_quotes_of_a_cell_is_refused() {
    for content in ["key,value\na,1\nb,\"x\"y\n", "key,value\na,1\nb,x\"y\n", "key,value\na,1\n\"b\" ,x\n"] {
        for (content, format) in [(content.to_owned(), "csv"), (content.replace(',', "\t"), "tsv")] {
            let (message, rows) = refused(content.as_bytes(), format);
            assert!(message.contains("line 3") && message.contains("quote"), "{content:?}: {message}");
            assert!(message.contains("--skip 1"), "{content:?}: {message}");
            assert_eq!(rows, "a\t1\n", "{content:?}: the row before it is loaded");
        }
    }
}

#[test]
fn cells_in_quotes_are_what_is_between_them() {
    let scratch = Scratch::with_database();
    let content = b"key,value\r\n\"a\",\"1,2\"\r\nb,\"\"\"\"\r\n\"c\",\"\"\n\"d\nd\",\"x\r\ny\"\n\ne,";
    scratch.pipe(content, ["load", "db", "t", "-"]);
    assert_eq!(scratch.ok(["scan", "db", "t"]), "a\t1,2\nb\t\"\nc\t\nd\\nd\tx\\r\\ny\ne\t\n");
}

/// Half a character is none, so no bytes are what the file means.
#[test]
fn a_json_string_that_is_no_text_is_refused() {
    for line in [
        r#"{"key":"b","value":"\ud800"}"#,
        r#"{"key":"b","value":"\udc00\ud800"}"#,
        r#"{"key":"\ud800","value":"x"}"#,
        r#"{"key":"b","value_hex":"\ud800"}"#,
    ] {
        let content = format!("{{\"key\":\"a\",\"value\":\"\\ud83d\\ude00\"}}\n{line}\n");
        let (message, rows) = refused(content.as_bytes(), "jsonl");
        assert!(message.contains("line 2") && message.contains("--skip 1"), "{line}: {message}");
        assert_eq!(rows, "a\t\u{1f600}\n", "{line}");
    }
}

/// A terminal takes some of what a file may hold for commands.
#[test]
fn messages_show_little_of_a_file_and_nothing_that_a_terminal_obeys() {
    let scratch = Scratch::with_database();
    let hostile = format!("\u{1b}]0;owned\u{7}\u{9b}31m{}", "x".repeat(10_000));
    let columns: Vec<String> = (0..5_000).map(|number| format!("{hostile}{number}")).collect();
    let twice = format!("{hostile},{hostile}\n1,2\n");
    for (content, format, arguments, code) in [
        (columns.join(",") + "\n", "csv", &["--key", "none"][..], 2),
        (twice, "csv", &[], 7),
        (format!("a,b\n{hostile}/,1\n"), "csv", &["--key", "a", "--key", "b"], 7),
        (format!("{{\"key\":[\"\u{9b}31m{}\"]}}\n", "\u{e9}".repeat(10_000)), "jsonl", &[], 7),
    ] {
        scratch.write("rows", content.as_bytes());
        let load =
            ["load", "db", "t", "rows", "--format", format].into_iter().chain(arguments.iter().copied());
        let message = scratch.fails(code, load);
        assert!(message.len() < 4_000, "{} bytes", message.len());
        let obeyed = message.trim_end_matches('\n').chars().find(|character| character.is_control());
        assert_eq!(obeyed, None, "{message:?}");
    }
}

/// As PostgreSQL and MySQL write TSV: what stands between tabs is the cell.
#[test]
fn quotes_enclose_nothing_where_that_is_said() {
    let content = "key\tvalue\nb\t\"x\"y\n\"a\t5'10\"\n\tz\"\n";
    let (message, _) = refused(content.as_bytes(), "tsv");
    assert!(message.contains("--no-quotes"), "{message}");
    for (format, content) in [("tsv", content.to_owned()), ("csv", content.replace('\t', ","))] {
        let scratch = Scratch::with_database();
        scratch.pipe(content.as_bytes(), ["load", "db", "t", "-", "--no-quotes", "--format", format]);
        assert_eq!(scratch.ok(["scan", "db", "t"]), "\tz\"\n\"a\t5'10\"\nb\t\"x\"y\n", "{format}");
    }
    let scratch = Scratch::with_database();
    scratch.write("rows.jsonl", b"{\"key\":\"a\"}\n");
    scratch.fails(2, ["load", "db", "t", "rows.jsonl", "--no-quotes"]);
}

#[test]
fn a_byte_order_mark_is_no_part_of_any_format() {
    let scratch = Scratch::with_database();
    for (format, content) in [
        ("csv", "\u{feff}\"key\",value\na,1\n"),
        ("tsv", "\u{feff}key\tvalue\na\t1\n"),
        ("jsonl", "\u{feff}{\"key\":\"a\",\"value\":\"1\"}\n"),
    ] {
        scratch.pipe(content.as_bytes(), ["load", "db", format, "-", "--format", format]);
        assert_eq!(scratch.ok(["scan", "db", format]), "a\t1\n", "{format}");
    }
    for format in ["csv", "jsonl"] {
        let load = ["load", "db", "empty", "-", "--no-header", "--format", format];
        scratch.pipe("\u{feff}".as_bytes(), load);
    }
}

#[test]
fn rows_with_an_empty_key_are_loaded_with_a_warning() {
    let scratch = Scratch::with_database();
    scratch.write("rows.csv", b"id,value\na,1\n,2\nb,3\n,4\n");
    let loaded = scratch.run(["load", "db", "t", "rows.csv"]);
    let message = String::from_utf8(loaded.stderr).unwrap();
    assert!(loaded.status.success(), "{message}");
    assert!(message.contains("warning") && message.contains("2 rows have an empty key"), "{message}");
    assert_eq!(scratch.ok(["scan", "db", "t"]), "\t4\na\t1\nb\t3\n");
    scratch.write("rows.csv", b"id,value\na,1\n");
    assert_eq!(scratch.run(["load", "db", "t", "rows.csv"]).stderr, b"");
}

/// Every cut of a file that does not lie between two lines is refused, or at least warned of.
#[test]
fn a_file_that_was_cut_off_does_not_pass_for_a_whole_one_in_silence() {
    let csv = "key,value\r\na,\"1,\"\"2\"\r\nbb,22\r\n";
    let tsv = csv.replace(',', "\t");
    let jsonl = "{\"key\":\"a\",\"value\":\"1\"}\n{\"key\":\"bb\",\"value\":22}\n";
    for (format, whole) in [("csv", csv), ("tsv", &tsv), ("jsonl", jsonl)] {
        let scratch = Scratch::with_database();
        for cut in 0..=whole.len() {
            scratch.write("rows", &whole.as_bytes()[..cut]);
            let loaded = scratch.run(["load", "db", &cut.to_string(), "rows", "--format", format]);
            let message = String::from_utf8(loaded.stderr).unwrap();
            let case = format!("{format}, {:?}: {message}", &whole[..cut]);
            let ends_whole = whole[..cut].ends_with(['\r', '\n', '}']) || (format == "jsonl" && cut == 0);
            match loaded.status.code() {
                Some(0) if ends_whole => assert_eq!(message, "", "{case}"),
                Some(0) => assert!(message.contains("warning") && message.contains("line end"), "{case}"),
                code => assert_eq!((code, ends_whole), (Some(7), false), "{case}"),
            }
        }
    }
}

#[test]
fn a_key_or_value_over_its_limit_keeps_the_rows_before_it() {
    let scratch = Scratch::with_database();
    scratch.write("rows.csv", format!("key,value\na,1\nb,2\n{},3\nd,4\n", "k".repeat(5000)).as_bytes());
    let message = scratch.fails(7, ["load", "db", "t", "rows.csv"]);
    assert!(message.contains("row 3") && message.contains("5000"), "{message}");
    assert!(message.contains("--skip 2"), "{message}");
    assert_eq!(scratch.ok(["scan", "db", "t"]), "a\t1\nb\t2\n");
}

#[test]
fn a_bad_line_among_rows_that_are_skipped_is_told_apart_from_one_after_them() {
    let scratch = Scratch::with_database();
    scratch.write("rows.csv", b"key,value\na,1\nb\nc,3\nd,4\n");
    let message = scratch.fails(7, ["load", "db", "t", "rows.csv", "--skip", "3"]);
    assert!(message.contains("line 3") && message.contains("nothing is loaded"), "{message}");
    assert!(message.contains("--skip 3") && !message.contains("are loaded;"), "{message}");
    assert_eq!(scratch.ok(["scan", "db", "t"]), "");
}

/// Memory that a command may take for its data: the longest line as it grows, beside the gigabyte of addresses that a database takes.
const DATA_BYTES: u64 = 2 << 30;
/// Longer than any line that could hold a row.
const ENDLESS_BYTES: usize = 500 << 20;

/// A load from a pipe, with a limit on its memory.
fn bounded_load(scratch: &Scratch, format: &str) -> Limited {
    let mut limited = Command::new("prlimit");
    limited.arg(format!("--data={DATA_BYTES}")).arg(SEAWALL);
    limited.args(["load", "db", "t", "-", "--format", format, "--cache-mib", "16", "--memtable-mib", "16"]);
    limited.current_dir(scratch.path("")).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    Limited(limited.spawn().unwrap())
}

#[test]
fn a_line_over_its_limit_is_refused_before_it_has_taken_the_memory() {
    for (format, start, repeated) in [
        ("csv", "key,value\na,1\n", ","),
        ("csv", "key,value\na,1\nb,", "x"),
        ("csv", "key,value\na,1\nb,\"", "x\n"),
        ("csv", "", "k,"),
        ("tsv", "key\tvalue\na\t1\n", "\t"),
        ("jsonl", "{\"key\":\"a\",\"value\":\"1\"}\n{\"key\":\"", "x"),
        ("jsonl", "{\"key\":\"a\",\"value\":\"1\"}\n", " "),
    ] {
        let scratch = Scratch::with_database();
        let mut child = bounded_load(&scratch, format);
        let mut input = child.0.stdin.take().unwrap();
        let piece = repeated.repeat((1 << 20) / repeated.len());
        // Until it ends: then nobody takes the rest.
        let mut written = input.write_all(start.as_bytes()).is_ok();
        let mut bytes = 0;
        while written && bytes < ENDLESS_BYTES {
            written = input.write_all(piece.as_bytes()).is_ok();
            bytes += piece.len();
        }
        drop(input);
        let (code, message) = child.end();
        let case = format!("{format}, {start:?}, {repeated:?} for {bytes} bytes");
        assert_eq!(code, Some(7), "{case}: {message}");
        assert!(!written, "{case}: it read all of it");
        assert!(message.contains("limit") && message.contains("line"), "{case}: {message}");
        if !start.is_empty() {
            assert_eq!(scratch.ok(["scan", "db", "t"]), "a\t1\n", "{case}");
        }
    }
}

#[test]
fn fields_without_end_are_refused_before_they_have_taken_the_memory() {
    let scratch = Scratch::with_database();
    let mut child = bounded_load(&scratch, "jsonl");
    let mut input = child.0.stdin.take().unwrap();
    let fields: String = (0..3_000_000).map(|number| format!(",\"{number}\":{number}")).collect();
    // It may have ended before it has taken all of it.
    input.write_all(format!("{{\"key\":\"a\"{fields}}}\n").as_bytes()).unwrap_or(());
    drop(input);
    let (code, message) = child.end();
    assert_eq!(code, Some(7), "{message}");
    assert!(message.contains("limit") && message.contains("line 1"), "{message}");
}

/// With time that grows by the square of the columns this is minutes.
#[test]
fn very_many_columns_take_no_more_time_than_as_many_rows() {
    const COLUMNS: usize = 1_000_000;
    let scratch = Scratch::with_database();
    let names: Vec<String> = (0..COLUMNS).map(|number| number.to_string()).collect();
    scratch.write("rows.csv", format!("{}\n{}\n", names.join(","), vec!["x"; COLUMNS].join(",")).as_bytes());
    let fields: Vec<String> = (0..COLUMNS).map(|number| format!("\"{number}\":1")).collect();
    scratch.write("rows.jsonl", format!("{{{}}}\n", fields.join(",")).as_bytes());
    for file in ["rows.csv", "rows.jsonl"] {
        let mut load = scratch.command(["load", "db", file, file, "--key", "7"]);
        let mut load = Limited(load.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap());
        assert_eq!(load.end(), (Some(0), String::new()), "{file}");
        assert_eq!(scratch.ok(["scan", "db", file, "--keys-only"]).lines().count(), 1);
    }
}

/// A process that does not outlive its test.
struct Limited(Child);

impl Limited {
    /// Its exit code and messages.
    fn end(&mut self) -> (Option<i32>, String) {
        wait_until("the load to end", || self.0.try_wait().unwrap().is_some());
        let mut messages = String::new();
        self.0.stderr.take().unwrap().read_to_string(&mut messages).unwrap();
        (self.0.wait().unwrap().code(), messages)
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        // It has ended, as a rule.
        self.0.kill().ok();
        self.0.wait().ok();
    }
}
