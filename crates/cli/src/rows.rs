//! Rows in files: what `load` reads and `dump` writes.
//!
//! ```text
//!   iata,name,state        --> key LAX, value {"name":"Los Angeles International","state":"CA"}
//!   LAX,Los Angeles...,CA
//!
//!   key,value              --> key alice, value 100         (what `dump` writes, byte for byte)
//!   alice,100
//! ```

mod changes;
mod delimited;
mod json_lines;
mod well_formed;
mod writer;

use std::collections::HashMap;
use std::io::{self, Read};
use std::path::Path;

use seawall::{KEY_BYTES_MAX, VALUE_BYTES_MAX};

use crate::arguments::Format;
use crate::failure::Failure;
use crate::key_type::KeyType;
use crate::output::excerpt;

pub(crate) use changes::{Change, ChangeReader};
pub(crate) use writer::RowWriter;

/// Key and value, as a table stores them.
pub(crate) type Row = (Vec<u8>, Vec<u8>);

/// More columns of a file are refused: each takes memory, however little is in it.
const COLUMNS_MAX: usize = 1 << 20;
/// Bytes of the longest row, with room for the names of its columns and what stands between them.
const ROW_BYTES_MAX: usize = KEY_BYTES_MAX + VALUE_BYTES_MAX + (1 << 20);

/// Which columns are the key, what the first line is, and what a quote is.
#[derive(Debug, Clone)]
pub(crate) struct Shape {
    /// Columns of the key; empty for the default.
    pub(crate) key: Vec<String>,
    /// Stands between the parts of a key of several columns.
    pub(crate) separator: String,
    /// What the texts of these columns stand for; `None`: themselves.
    pub(crate) key_type: Option<KeyType>,
    /// Whether the first line names the columns.
    pub(crate) header: Header,
    /// What a quote is in CSV and TSV.
    pub(crate) quotes: Quotes,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Header {
    Present,
    Absent,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Quotes {
    /// They enclose a cell, as in RFC 4180.
    Enclosing,
    /// Bytes like any others.
    Plain,
}

/// The rows of a file, one after another.
pub(crate) enum RowReader {
    Delimited(delimited::DelimitedReader),
    JsonLines(json_lines::JsonLinesReader),
}

impl RowReader {
    /// Rows of `input`, called `name` in messages.
    pub(crate) fn new(
        input: Box<dyn Read>,
        name: String,
        format: Format,
        shape: &Shape,
    ) -> Result<RowReader, Failure> {
        let input = without_byte_order_mark(input).map_err(Failure::io(format!("cannot read {name}")))?;
        match format {
            Format::Csv => {
                delimited::DelimitedReader::new(input, name, b',', shape).map(RowReader::Delimited)
            }
            Format::Tsv => {
                delimited::DelimitedReader::new(input, name, b'\t', shape).map(RowReader::Delimited)
            }
            Format::Jsonl => Ok(RowReader::JsonLines(json_lines::JsonLinesReader::new(input, name, shape))),
        }
    }

    /// The next row, or `None` after the last.
    pub(crate) fn next_row(&mut self) -> Result<Option<Row>, Failure> {
        match self {
            RowReader::Delimited(reader) => reader.next_row(),
            RowReader::JsonLines(reader) => reader.next_row(),
        }
    }

    /// After the last row: whether a file that was cut off there could look like this one.
    pub(crate) fn may_be_cut_off(&self) -> bool {
        match self {
            RowReader::Delimited(reader) => reader.ends_in_row(),
            // An object that was cut off has no closing brace.
            RowReader::JsonLines(_) => false,
        }
    }
}

/// `input` without the byte order mark that some programs write before UTF-8.
fn without_byte_order_mark(mut input: Box<dyn Read>) -> io::Result<Box<dyn Read>> {
    const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();
    let mut start = Vec::new();
    input.by_ref().take(BYTE_ORDER_MARK.len() as u64).read_to_end(&mut start)?;
    if start == BYTE_ORDER_MARK {
        start.clear();
    }
    Ok(Box::new(io::Cursor::new(start).chain(input)))
}

/// The columns by their names. A `kind` is what the format calls them: "columns", "fields".
fn places<'a>(
    names: impl ExactSizeIterator<Item = &'a str>,
    kind: &str,
) -> Result<HashMap<&'a str, usize>, String> {
    let mut places = HashMap::with_capacity(names.len());
    for (place, name) in names.enumerate() {
        if places.insert(name, place).is_some() {
            return Err(format!("two {kind} are named \"{}\"", excerpt(name)));
        }
    }
    Ok(places)
}

/// Refuses a value over the limit before it is copied.
fn check_value_length(bytes: usize) -> Result<(), String> {
    if bytes > VALUE_BYTES_MAX {
        return Err(format!("the value is longer than {VALUE_BYTES_MAX} bytes, which is the limit"));
    }
    Ok(())
}

/// The format that a file's extension stands for.
pub(crate) fn format_of(path: &Path) -> Option<Format> {
    let extension = path.extension()?.to_str()?.to_ascii_lowercase();
    match extension.as_str() {
        "csv" => Some(Format::Csv),
        "tsv" | "tab" => Some(Format::Tsv),
        "jsonl" | "ndjson" => Some(Format::Jsonl),
        _ => None,
    }
}

/// The key that these columns stand for.
fn key_of(parts: &[&[u8]], separator: &str, key_type: Option<&KeyType>) -> Result<Vec<u8>, String> {
    let Some(key_type) = key_type else {
        return match parts {
            [part] => Ok(part.to_vec()),
            _ => join_key(parts, separator),
        };
    };
    let text = |part| std::str::from_utf8(part).map_err(|_| "a column of the key is not UTF-8".to_owned());
    let texts = parts.iter().copied().map(text).collect::<Result<Vec<&str>, String>>()?;
    match texts[..] {
        // All parts in one column, as `dump` writes them.
        [text] if key_type.part_count() > 1 => key_type.parse(text),
        _ => key_type.encode(&texts),
    }
}

/// Joins the parts of a key. A part before the last must not contain the separator, or two different keys would become
/// the same.
fn join_key(parts: &[&[u8]], separator: &str) -> Result<Vec<u8>, String> {
    let [first @ .., last] = parts else { return Ok(Vec::new()) };
    let separator = separator.as_bytes();
    let mut key = Vec::new();
    for part in first {
        if separator.is_empty() || part.windows(separator.len()).any(|window| window == separator) {
            return Err(format!(
                "part \"{}\" of the key contains the separator {:?}; give another one with --separator",
                excerpt(&String::from_utf8_lossy(part)),
                String::from_utf8_lossy(separator)
            ));
        }
        key.extend_from_slice(part);
        key.extend_from_slice(separator);
    }
    key.extend_from_slice(last);
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_key_stay_apart() {
        assert_eq!(join_key(&[b"CA", b"LAX"], "/"), Ok(b"CA/LAX".to_vec()));
        assert_eq!(join_key(&[b"CA", b"L/X"], "/"), Ok(b"CA/L/X".to_vec()));
        assert!(join_key(&[b"C/A", b"LAX"], "/").is_err());
        assert!(join_key(&[b"CA", b"LAX"], "").is_err());
    }
}
