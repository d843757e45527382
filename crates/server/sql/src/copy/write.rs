//! Rows as `COPY .. TO` writes them.

use seawall_values::{SqlError, SqlResult, SqlState};

use super::binary::SIGNATURE;
use crate::parse::statement::copy::{CopyFormat, CopyHeader, CopyOptions};

/// Writes rows.
#[derive(Debug)]
pub(crate) struct CopyWriter {
    options: CopyOptions,
    /// For each column, whether it is always in quotes.
    is_quoted: Vec<bool>,
    /// The column that is written next.
    column: usize,
}

impl CopyWriter {
    /// A writer of rows with so many columns, those with `true` always in quotes.
    pub(crate) fn new(options: &CopyOptions, is_quoted: Vec<bool>) -> CopyWriter {
        CopyWriter { options: options.clone(), is_quoted, column: 0 }
    }

    /// What stands before the rows.
    pub(crate) fn begin<'a>(
        &mut self,
        names: impl Iterator<Item = &'a str>,
        to: &mut Vec<u8>,
    ) -> SqlResult<()> {
        if self.options.format == CopyFormat::Binary {
            to.extend_from_slice(&SIGNATURE);
            to.extend_from_slice(&[0; 8]);
        } else if self.options.header != CopyHeader::None {
            for (index, name) in names.enumerate() {
                if index > 0 {
                    to.push(self.options.delimiter);
                }
                match self.options.format {
                    CopyFormat::Csv => self.write_csv(name.as_bytes(), false, to),
                    _ => self.write_text(name.as_bytes(), to),
                }
            }
            to.push(b'\n');
        }
        Ok(())
    }

    /// Begins a row.
    pub(crate) fn begin_row(&mut self, to: &mut Vec<u8>) -> SqlResult<()> {
        self.column = 0;
        if self.options.format == CopyFormat::Binary {
            let count = i16::try_from(self.is_quoted.len()).map_err(|_| too_large())?;
            to.extend_from_slice(&count.to_be_bytes());
        }
        Ok(())
    }

    /// The next field of the row: its text or binary form; `None`: a null.
    pub(crate) fn field(&mut self, value: Option<&[u8]>, to: &mut Vec<u8>) -> SqlResult<()> {
        let column = self.column;
        self.column += 1;
        if self.options.format == CopyFormat::Binary {
            let length = match value {
                Some(value) => i32::try_from(value.len()).map_err(|_| too_large())?,
                None => -1,
            };
            to.extend_from_slice(&length.to_be_bytes());
            to.extend_from_slice(value.unwrap_or_default());
            return Ok(());
        }
        if column > 0 {
            to.push(self.options.delimiter);
        }
        match (value, self.options.format) {
            (None, _) => to.extend_from_slice(self.options.null.as_bytes()),
            (Some(value), CopyFormat::Csv) => {
                self.write_csv(value, self.is_quoted.get(column).copied().unwrap_or(false), to);
            }
            (Some(value), _) => self.write_text(value, to),
        }
        Ok(())
    }

    /// Ends a row.
    pub(crate) fn end_row(&mut self, to: &mut Vec<u8>) {
        if self.options.format != CopyFormat::Binary {
            to.push(b'\n');
        }
    }

    /// What stands after the rows.
    pub(crate) fn end(&mut self, to: &mut Vec<u8>) {
        if self.options.format == CopyFormat::Binary {
            to.extend_from_slice(&(-1_i16).to_be_bytes());
        }
    }

    fn write_text(&self, value: &[u8], to: &mut Vec<u8>) {
        for byte in value {
            let escaped = match byte {
                0x08 => b'b',
                0x0C => b'f',
                b'\n' => b'n',
                b'\r' => b'r',
                b'\t' => b't',
                0x0B => b'v',
                b'\\' => b'\\',
                byte if *byte == self.options.delimiter => *byte,
                byte => {
                    to.push(*byte);
                    continue;
                }
            };
            to.extend_from_slice(&[b'\\', escaped]);
        }
    }

    fn write_csv(&self, value: &[u8], is_quoted: bool, to: &mut Vec<u8>) {
        let (quote, escape, delimiter) = (self.options.quote, self.options.escape, self.options.delimiter);
        let needs_quotes = |byte: &u8| *byte == delimiter || *byte == quote || matches!(*byte, b'\n' | b'\r');
        let is_end_marker = self.is_quoted.len() == 1 && value == b"\\.";
        if !is_quoted
            && value != self.options.null.as_bytes()
            && !is_end_marker
            && !value.iter().any(needs_quotes)
        {
            to.extend_from_slice(value);
            return;
        }
        to.push(quote);
        for byte in value {
            if *byte == quote || *byte == escape {
                to.push(escape);
            }
            to.push(*byte);
        }
        to.push(quote);
    }
}

fn too_large() -> Box<SqlError> {
    SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "a value is too large for COPY")
}
