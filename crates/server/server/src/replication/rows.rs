//! Answers of replication commands: rows of texts.

use seawall_sql::session::{EncodedRow, Field, Notice, Sink};
use seawall_values::{Oid, SqlResult, TypeReference, oid};

use crate::protocol::backend::Messages;

/// A column of an answer.
pub(super) struct Column<'n> {
    name: &'n str,
    of: Oid,
    type_length: i16,
}

impl Column<'_> {
    pub(super) fn text(name: &str) -> Column<'_> {
        Column::of(name, oid::TEXT, -1)
    }

    pub(super) fn of(name: &str, of: Oid, type_length: i16) -> Column<'_> {
        Column { name, of, type_length }
    }

    fn field(&self) -> Field {
        Field {
            name: self.name.to_owned(),
            table: 0,
            column: 0,
            of: TypeReference::of(self.of),
            type_length: self.type_length,
            format: 0,
        }
    }
}

/// Puts rows and their end.
pub(super) fn answer(output: &mut Messages, columns: &[Column<'_>], rows: &[&[Option<String>]], tag: &str) {
    output.row_description(&columns.iter().map(Column::field).collect::<Vec<_>>());
    for row in rows {
        output.data_row(&encoded(row));
    }
    output.command_complete(Some(tag));
}

fn encoded(row: &[Option<String>]) -> EncodedRow {
    let mut bytes = Vec::new();
    for value in row {
        match value {
            None => bytes.extend_from_slice(&(-1_i32).to_be_bytes()),
            Some(text) => {
                // Texts of answers are far shorter than 4 GiB.
                bytes.extend_from_slice(&u32::try_from(text.len()).unwrap_or(0).to_be_bytes());
                bytes.extend_from_slice(text.as_bytes());
            }
        }
    }
    EncodedRow { columns: u16::try_from(row.len()).unwrap_or(u16::MAX), bytes }
}

/// The answer of a statement that the session runs.
pub(super) struct Answer<'o> {
    pub(super) output: &'o mut Messages,
}

impl Sink for Answer<'_> {
    fn fields(&mut self, fields: &[Field]) -> SqlResult<()> {
        self.output.row_description(fields);
        Ok(())
    }

    fn row(&mut self, row: &EncodedRow) -> SqlResult<()> {
        self.output.data_row(row);
        Ok(())
    }

    fn complete(&mut self, tag: Option<&str>) -> SqlResult<()> {
        self.output.command_complete(tag);
        Ok(())
    }

    fn notice(&mut self, notice: &Notice) -> SqlResult<()> {
        self.output.notice(notice);
        Ok(())
    }

    fn setting(&mut self, name: &str, value: &str) -> SqlResult<()> {
        self.output.parameter_status(name, value);
        Ok(())
    }

    fn notification(&mut self, process_id: i32, channel: &str, payload: &str) -> SqlResult<()> {
        self.output.notification(process_id, channel, payload);
        Ok(())
    }

    fn copy_out(&mut self, _format: i8, _columns: usize) -> SqlResult<()> {
        Ok(())
    }

    fn copy_data(&mut self, _data: &[u8]) -> SqlResult<()> {
        Ok(())
    }

    fn copy_in(&mut self, _format: i8, _columns: usize) -> SqlResult<()> {
        Ok(())
    }

    fn next_copy_data(&mut self) -> SqlResult<Option<Vec<u8>>> {
        Ok(None)
    }
}
