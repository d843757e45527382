//! What users write: command lines, files with rows, LSNs, names of transactions.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use seawall::xa::Xid;
use seawall::{ImageCompression, Lsn, PageProtection};
use seawall_cli::parsers::{self, RowFormat};

use crate::input::{Choices, Entries, Input};

/// The entry functions of this file, by the name of their target.
pub const ENTRIES: &Entries = &[("command_line", command_line), ("row_file", row_file), ("names", names)];

/// Words that mean something, so that few bytes make a command.
const WORDS: [&str; 40] = [
    "create",
    "load",
    "dump",
    "get",
    "put",
    "delete",
    "scan",
    "check",
    "info",
    "log",
    "bench",
    "tour",
    "table",
    "in-doubt",
    "timelines",
    "--json",
    "--hex",
    "--key",
    "--format",
    "csv",
    "jsonl",
    "--batch",
    "--seconds",
    "1e9",
    "-1",
    "0",
    "--threads",
    "--limit",
    "--from",
    "--to",
    "--page-bytes",
    "--",
    "--help",
    "--version",
    "--master-key",
    "file:/k",
    "--seed",
    "18446744073709551616",
    "DIR",
    "TABLE",
];

/// A command line of words that mean something and of others.
pub fn command_line(data: &[u8]) {
    let mut input = Input::new(data);
    let mut arguments = vec![OsString::from("seawall")];
    while !input.is_empty() && arguments.len() < 24 {
        let chosen = usize::from(input.byte());
        arguments.push(match WORDS.get(chosen) {
            Some(word) => (*word).into(),
            None => std::ffi::OsStr::from_bytes(input.take(chosen % 20)).to_owned(),
        });
    }
    if let Err(message) = parsers::command_line(arguments) {
        assert!(!message.is_empty());
    }
}

/// A file with rows. What is read can be written, in every format that can hold it, and read again.
pub fn row_file(data: &[u8]) {
    let mut input = Input::new(data);
    let choices = Choices::of(&mut input);
    let format = |number| match number {
        0 => RowFormat::Csv,
        1 => RowFormat::Tsv,
        _ => RowFormat::Jsonl,
    };
    let key: &[String] = match choices.number(2, 4) {
        0 => &["id".to_owned()],
        1 => &["b".to_owned(), "a".to_owned()],
        _ => &[],
    };
    let rows = match parsers::read_rows(input.rest(), format(choices.number(0, 3)), key, !choices.has(4)) {
        Ok(rows) => rows,
        Err(message) => return assert!(!message.is_empty()),
    };
    let written = format(choices.number(5, 3));
    let in_hex = choices.has(7);
    let text = parsers::write_rows(&rows, written, in_hex).expect("memory takes everything");
    let again = parsers::read_rows(&text, written, &[], true);
    assert_eq!(again.as_ref(), Ok(&rows), "{}", text.escape_ascii());
}

/// Names that are written as text have one spelling; an LSN has, but for zeros in front of its halves and small letters.
pub fn names(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Ok(xid) = text.parse::<Xid>() {
        assert_eq!(xid.to_string(), text);
    }
    if let Ok(lsn) = text.parse::<Lsn>() {
        let without_zeros = |half: &str| match half.trim_start_matches('0') {
            "" => "0".to_owned(),
            digits => digits.to_ascii_uppercase(),
        };
        let halves: Vec<_> = text.split('/').map(without_zeros).collect();
        assert_eq!(lsn.to_string(), halves.join("/"));
        assert!(text.split('/').all(|half| half.len() <= 8), "{text}");
    }
    if let Ok(compression) = text.parse::<ImageCompression>() {
        assert_eq!(compression.to_string(), text);
    }
    if let Ok(protection) = text.parse::<PageProtection>() {
        assert_eq!(protection.to_string(), text);
    }
}
