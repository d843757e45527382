//! The parsers of what users write, for those who feed them what no user would write: fuzzers. Whatever the bytes are,
//! they answer with what it stands for or with a message.

use std::ffi::OsString;

use clap::Parser;

use crate::arguments::{Arguments, Format};
use crate::output::Notation;
use crate::rows::{Header, Quotes, RowReader, RowWriter, Shape};

/// Key and value, as a table stores them.
pub type Row = (Vec<u8>, Vec<u8>);

/// Parses a command line, the program's name first.
///
/// # Errors
/// What is wrong with it, or the help that it asks for.
pub fn command_line(arguments: impl IntoIterator<Item = OsString>) -> Result<(), String> {
    Arguments::try_parse_from(arguments).map(drop).map_err(|error| error.to_string())
}

/// How rows are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowFormat {
    /// Comma-separated values.
    Csv,
    /// Tab-separated values.
    Tsv,
    /// One JSON object a line.
    Jsonl,
}

impl RowFormat {
    fn format(self) -> Format {
        match self {
            RowFormat::Csv => Format::Csv,
            RowFormat::Tsv => Format::Tsv,
            RowFormat::Jsonl => Format::Jsonl,
        }
    }
}

/// Reads rows as `seawall load` does. `key`: the columns of the key, none for the default.
///
/// # Errors
/// What is wrong, with its line.
pub fn read_rows(
    text: &[u8],
    format: RowFormat,
    key: &[String],
    has_header: bool,
) -> Result<Vec<Row>, String> {
    let header = if has_header { Header::Present } else { Header::Absent };
    let shape = Shape {
        key: key.to_vec(),
        separator: "/".to_owned(),
        key_type: None,
        header,
        quotes: Quotes::Enclosing,
    };
    let input = Box::new(std::io::Cursor::new(text.to_vec()));
    let reader = RowReader::new(input, "input".to_owned(), format.format(), &shape);
    let mut reader = reader.map_err(|failure| failure.to_string())?;
    let mut rows = Vec::new();
    while let Some(row) = reader.next_row().map_err(|failure| failure.to_string())? {
        rows.push(row);
    }
    Ok(rows)
}

/// Writes rows as `seawall dump` does.
///
/// # Errors
/// None that memory can cause.
pub fn write_rows(rows: &[Row], format: RowFormat, in_hex: bool) -> std::io::Result<Vec<u8>> {
    let notation = Notation::new(in_hex);
    let mut writer = RowWriter::new(Vec::new(), format.format(), notation, notation)?;
    rows.iter().try_for_each(|(key, value)| writer.write(key, value))?;
    writer.finish()
}
