//! The forms of data that `COPY` reads and writes: text, csv and binary, as PostgreSQL has them.
//!
//! ```text
//!   chunks -> CopyReader -> rows of fields        rows of fields -> CopyWriter -> bytes
//! ```
//! A reader is given data in chunks that may end anywhere. It knows no types: a field is bytes, or nothing for a null.
//!
//! * `lines`: where a line of text or csv ends. `text`, `csv`, `binary`: the fields of one row. `write`: the other way.

mod binary;
mod csv;
mod lines;
#[cfg(test)]
mod tests;
mod text;
mod write;

use std::ops::Range;

use seawall_values::{SqlError, SqlResult, SqlState};

use crate::parse::statement::copy::{CopyFormat, CopyHeader, CopyOptions};
use binary::BinaryRows;
use lines::{Line, Lines};

pub(crate) use write::CopyWriter;

/// Of a value in a message, so many characters are shown.
const SHOWN_CHARACTERS_MAX: usize = 100;
/// A longer line, or row, is refused.
const ROW_BYTES_MAX: usize = 0x3fff_ffff;

/// A column that is read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CopyColumn {
    pub(crate) name: String,
    /// `FORCE_NOT_NULL`: what looks like a null is text.
    pub(crate) is_never_null: bool,
    /// `FORCE_NULL`: what looks like a null is one in quotes, too.
    pub(crate) is_null_in_quotes: bool,
}

/// What a reader has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// A row: `CopyReader::field` has its fields.
    Row,
    /// Nothing before it is given more data, or told that there is none.
    More,
    /// All rows have been read.
    End,
}

/// Data that has come and is not read yet.
#[derive(Debug, Default)]
struct Input {
    bytes: Vec<u8>,
    /// Where the first byte is that belongs to no row yet.
    start: usize,
    /// Whether no more will come.
    is_complete: bool,
}

/// The fields of a row.
#[derive(Debug, Default)]
struct Fields {
    /// Places in `Input::bytes`, or in `decoded`.
    places: Vec<Option<Place>>,
    /// Values with escapes taken out.
    decoded: Vec<u8>,
}

/// Where a field is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    Input(Range<usize>),
    Decoded(Range<usize>),
}

/// Reads rows from data that comes in chunks.
#[derive(Debug)]
pub(crate) struct CopyReader {
    options: CopyOptions,
    table: String,
    columns: Vec<CopyColumn>,
    input: Input,
    fields: Fields,
    /// The row's number, from 1; lines within quotes count.
    line_number: u64,
    /// The line of the row, for messages; none of binary data.
    line: Option<Range<usize>>,
    lines: Lines,
    binary: BinaryRows,
    is_header_read: bool,
    is_at_end: bool,
}

impl CopyReader {
    /// A reader of rows of a table with these columns.
    pub(crate) fn new(options: &CopyOptions, table: &str, columns: Vec<CopyColumn>) -> CopyReader {
        CopyReader {
            lines: Lines::new(options),
            options: options.clone(),
            table: table.to_owned(),
            columns,
            input: Input::default(),
            fields: Fields::default(),
            line_number: 0,
            line: None,
            binary: BinaryRows::default(),
            is_header_read: false,
            is_at_end: false,
        }
    }

    /// More data. Fields of the row before are gone.
    pub(crate) fn push(&mut self, data: &[u8]) {
        if self.is_at_end && self.options.format != CopyFormat::Binary {
            // After the marker of the end, everything is passed over.
            return;
        }
        self.line = None;
        self.fields.places.clear();
        self.input.bytes.drain(..self.input.start);
        self.lines.moved(self.input.start);
        self.input.start = 0;
        self.input.bytes.extend_from_slice(data);
    }

    /// There is no more data.
    pub(crate) fn finish(&mut self) {
        self.input.is_complete = true;
    }

    /// Reads the next row.
    ///
    /// # Errors
    /// `22P04` and its like, with where it is as the context.
    pub(crate) fn next(&mut self) -> SqlResult<Next> {
        let read =
            if self.options.format == CopyFormat::Binary { self.next_binary() } else { self.next_line() };
        read.map_err(|error| self.failed(error, None))
    }

    /// A field of the row: its bytes, in text and csv a valid text; `None`: a null.
    pub(crate) fn field(&self, column: usize) -> Option<&[u8]> {
        match self.fields.places.get(column)?.as_ref()? {
            Place::Input(range) => self.input.bytes.get(range.clone()),
            Place::Decoded(range) => self.fields.decoded.get(range.clone()),
        }
    }

    /// A field of the row as text.
    pub(crate) fn text(&self, column: usize) -> Option<&str> {
        self.field(column).and_then(|bytes| std::str::from_utf8(bytes).ok())
    }

    /// An error with where it arose: `COPY t, line 3, column b: "x"`.
    pub(crate) fn failed(&self, mut error: Box<SqlError>, column: Option<usize>) -> Box<SqlError> {
        let here = self.context(column);
        error.context = Some(match error.context.take() {
            Some(inner) => format!("{inner}\n{here}"),
            None => here,
        });
        error
    }

    fn context(&self, column: Option<usize>) -> String {
        let place = format!("COPY {}, line {}", self.table, self.line_number);
        match (column, &self.line) {
            (Some(column), line) => {
                let name = self.columns.get(column).map_or("", |column| column.name.as_str());
                match (line, self.field(column)) {
                    (None, _) => format!("{place}, column {name}"),
                    (_, Some(value)) => format!("{place}, column {name}: \"{}\"", shown(value)),
                    (_, None) => format!("{place}, column {name}: null input"),
                }
            }
            (None, Some(line)) => format!("{place}: \"{}\"", shown(&self.input.bytes[line.clone()])),
            (None, None) => place,
        }
    }

    fn next_line(&mut self) -> SqlResult<Next> {
        if self.is_at_end {
            return Ok(Next::End);
        }
        if !self.is_header_read && self.options.header != CopyHeader::None {
            if !self.read_line()? {
                return Ok(self.more_or_end());
            }
            self.is_header_read = true;
            if self.options.header == CopyHeader::Match {
                self.split()?;
                self.check_header()?;
            }
        }
        if self.is_at_end || !self.read_line()? {
            return Ok(self.more_or_end());
        }
        self.split()?;
        self.check_fields()?;
        Ok(Next::Row)
    }

    fn more_or_end(&self) -> Next {
        if self.is_at_end { Next::End } else { Next::More }
    }

    /// Takes a line; `false`: there is none yet, or none any more.
    fn read_line(&mut self) -> SqlResult<bool> {
        let found = self.lines.next(&self.input);
        self.line = None;
        match found {
            Ok(Line::More) => {
                if self.input.bytes.len() - self.input.start > ROW_BYTES_MAX {
                    return Err(too_long());
                }
                Ok(false)
            }
            Ok(Line::Found { text, next, line_breaks }) => {
                self.line_number += 1 + line_breaks;
                self.input.start = next;
                self.check_encoding(&text)?;
                self.line = Some(text);
                Ok(true)
            }
            Ok(Line::Last { text, line_breaks }) => {
                self.is_at_end = true;
                self.line_number += 1 + line_breaks;
                self.input.start = self.input.bytes.len();
                if text.is_empty() {
                    return Ok(false);
                }
                self.check_encoding(&text)?;
                self.line = Some(text);
                Ok(true)
            }
            Err(error) => {
                self.line_number += 1;
                Err(error)
            }
        }
    }

    fn check_encoding(&self, line: &Range<usize>) -> SqlResult<()> {
        std::str::from_utf8(&self.input.bytes[line.clone()])
            .map(|_| ())
            .map_err(|error| invalid_bytes(&self.input.bytes[line.clone()], error.valid_up_to()))
    }

    fn split(&mut self) -> SqlResult<()> {
        let Some(line) = self.line.clone() else { return Ok(()) };
        self.fields.places.clear();
        self.fields.decoded.clear();
        // A table without columns has empty lines.
        if self.columns.is_empty() && line.is_empty() {
            return Ok(());
        }
        match self.options.format {
            CopyFormat::Csv => csv::split(&self.input.bytes, line, &self.options, &mut self.fields),
            _ => text::split(&self.input.bytes, line, &self.options, &mut self.fields),
        }
    }

    fn check_fields(&mut self) -> SqlResult<()> {
        if self.fields.places.len() > self.columns.len() {
            return Err(bad_format("extra data after last expected column"));
        }
        if let Some(column) = self.columns.get(self.fields.places.len()) {
            return Err(bad_format(format!("missing data for column \"{}\"", column.name)));
        }
        for (index, column) in self.columns.iter().enumerate() {
            let null = self.options.null.as_bytes();
            if column.is_never_null && self.fields.places[index].is_none() {
                let start = self.fields.decoded.len();
                self.fields.decoded.extend_from_slice(null);
                self.fields.places[index] = Some(Place::Decoded(start..self.fields.decoded.len()));
            } else if column.is_null_in_quotes && self.field(index) == Some(null) {
                self.fields.places[index] = None;
            }
        }
        Ok(())
    }

    /// `HEADER MATCH`.
    fn check_header(&self) -> SqlResult<()> {
        let (given, expected) = (self.fields.places.len(), self.columns.len());
        if given != expected {
            return Err(bad_format(format!(
                "wrong number of fields in header line: got {given}, expected {expected}"
            )));
        }
        for (index, column) in self.columns.iter().enumerate() {
            let name = &column.name;
            let number = index + 1;
            match self.text(index) {
                Some(text) if text == name => {}
                Some(text) => {
                    return Err(bad_format(format!(
                        "column name mismatch in header line field {number}: got \"{text}\", expected \"{name}\""
                    )));
                }
                None => {
                    let null = &self.options.null;
                    return Err(bad_format(format!(
                        "column name mismatch in header line field {number}: got null value (\"{null}\"), expected \"{name}\""
                    )));
                }
            }
        }
        Ok(())
    }

    fn next_binary(&mut self) -> SqlResult<Next> {
        self.fields.places.clear();
        let next = self.binary.next(&mut self.input, self.columns.len(), &mut self.fields.places);
        let is_begun = self.binary.is_in_rows();
        match next {
            Ok(Next::Row) => self.line_number += 1,
            Ok(Next::More) if self.input.bytes.len() - self.input.start > ROW_BYTES_MAX => {
                return Err(too_long());
            }
            Err(_) if is_begun => self.line_number += 1,
            Ok(_) | Err(_) => {}
        }
        next
    }
}

/// The beginning of a value, for messages.
fn shown(value: &[u8]) -> String {
    let text = String::from_utf8_lossy(value);
    match text.char_indices().nth(SHOWN_CHARACTERS_MAX) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.into_owned(),
    }
}

fn bad_format(message: impl Into<String>) -> Box<SqlError> {
    SqlError::new(SqlState::BAD_COPY_FILE_FORMAT, message)
}

fn too_long() -> Box<SqlError> {
    SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "a row of COPY is too long")
        .with_hint("A row may have at most one gigabyte.")
}

/// `22021`, with the bytes from `at` on that are no character.
fn invalid_bytes(bytes: &[u8], at: usize) -> Box<SqlError> {
    let length = match bytes.get(at) {
        Some(0xC0..=0xDF) => 2,
        Some(0xE0..=0xEF) => 3,
        Some(0xF0..=0xF7) => 4,
        _ => 1,
    };
    let shown: Vec<String> = bytes[at..].iter().take(length).map(|byte| format!("0x{byte:02x}")).collect();
    let message = format!("invalid byte sequence for encoding \"UTF8\": {}", shown.join(" "));
    SqlError::new(SqlState::CHARACTER_NOT_IN_REPERTOIRE, message)
}
