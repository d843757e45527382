//! Temporary files: rows that do not fit into memory.
//!
//! A file has no name, so nothing is left of it after the statement, or after a crash. Each row is framed with its length and a checksum.

mod kept_rows;
mod partitions;
mod row_codec;
mod row_store;
mod temporary_files;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use seawall_codec::checksum::crc32c;
use seawall_values::{Datum, SqlError, SqlResult, SqlState};

pub(crate) use kept_rows::KeptRows;
pub(crate) use partitions::{Part, Partitions, Source};
pub(crate) use row_store::{Cursor, RowStore};
pub use temporary_files::TemporaryFiles;

/// Bytes that are written and read at a time.
const BUFFER_BYTES: usize = 64 << 10;

/// Bytes in front of each row: its length and its checksum.
const HEADER_BYTES: usize = 8;

/// A temporary file of rows.
#[derive(Debug)]
pub(crate) struct SpillFile {
    file: File,
    /// What has not been written yet.
    buffer: Vec<u8>,
    /// Bytes in the file.
    written: u64,
    rows: u64,
    /// The session whose limit its bytes count for.
    session: Arc<TemporaryFiles>,
}

#[cold]
fn failure(what: &str, error: &std::io::Error) -> Box<SqlError> {
    let code = match error.kind() {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => SqlState::DISK_FULL,
        _ => SqlState::IO_ERROR,
    };
    SqlError::new(code, format!("could not {what} a temporary file: {error}"))
}

impl SpillFile {
    /// A new file of a session.
    pub(crate) fn create(session: &Arc<TemporaryFiles>) -> SqlResult<SpillFile> {
        let directory = session.directory();
        let file = tempfile::tempfile_in(directory).map_err(|error| {
            let mut error = failure("create", &error);
            error.detail = Some(format!("The directory is \"{}\".", directory.display()));
            error
        })?;
        Ok(SpillFile { file, buffer: Vec::new(), written: 0, rows: 0, session: Arc::clone(session) })
    }

    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    /// Appends a row; returns its position.
    pub(crate) fn push(&mut self, row: &[Datum]) -> SqlResult<u64> {
        let position = self.written + self.buffer.len() as u64;
        let start = self.buffer.len();
        self.buffer.extend_from_slice(&[0; HEADER_BYTES]);
        row_codec::encode(row, &mut self.buffer)?;
        let payload = &self.buffer[start + HEADER_BYTES..];
        let length = u32::try_from(payload.len()).map_err(|_| {
            SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "a row for a temporary file exceeds 4 GiB")
        })?;
        let checksum = crc32c(payload);
        self.buffer[start..start + 4].copy_from_slice(&length.to_le_bytes());
        self.buffer[start + 4..start + 8].copy_from_slice(&checksum.to_le_bytes());
        self.rows += 1;
        if self.buffer.len() >= BUFFER_BYTES {
            self.flush()?;
        }
        Ok(position)
    }

    /// Writes what is in the buffer, and gives the buffer's memory back: no row follows.
    pub(crate) fn finish(&mut self) -> SqlResult<()> {
        self.flush()?;
        self.buffer = Vec::new();
        Ok(())
    }

    /// Writes what is in the buffer.
    fn flush(&mut self) -> SqlResult<()> {
        let bytes = self.buffer.len() as u64;
        self.session.take(&self.file, self.written, bytes)?;
        let written = self.file.write_all_at(&self.buffer, self.written);
        if let Err(error) = written {
            self.session.give_back(bytes);
            return Err(failure("write", &error));
        }
        self.written += bytes;
        self.buffer.clear();
        // One long row must not keep its memory for the rest of the file.
        self.buffer.shrink_to(2 * BUFFER_BYTES);
        Ok(())
    }

    fn end(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }
}

impl Drop for SpillFile {
    fn drop(&mut self) {
        self.session.give_back(self.written);
    }
}

/// A place in a temporary file, which is read forward.
#[derive(Debug, Default)]
pub(crate) struct SpillReader {
    position: u64,
    /// Bytes of the file from `buffer_start` on.
    buffer: Vec<u8>,
    buffer_start: u64,
}

impl SpillReader {
    /// Continues at a position that `SpillFile::push` has returned.
    pub(crate) fn seek(&mut self, position: u64) {
        self.position = position;
    }

    /// Appends the values of the next row to `row`. `false`: there is none.
    pub(crate) fn next(&mut self, file: &SpillFile, row: &mut Vec<Datum>) -> SqlResult<bool> {
        if self.position >= file.end() {
            return Ok(false);
        }
        let position = self.position;
        let header = self.bytes(file, position, HEADER_BYTES)?;
        let (length, checksum) = match header {
            [a, b, c, d, e, f, g, h] => {
                (u32::from_le_bytes([*a, *b, *c, *d]), u32::from_le_bytes([*e, *f, *g, *h]))
            }
            _ => (0, 0),
        };
        let length = length as usize;
        let payload = self.bytes(file, position + HEADER_BYTES as u64, length)?;
        if crc32c(payload) != checksum {
            return Err(SqlError::new(
                SqlState::DATA_CORRUPTED,
                format!("a temporary file is damaged: the checksum of the row at byte {position} differs"),
            ));
        }
        row_codec::decode(payload, row)?;
        self.position += (HEADER_BYTES + length) as u64;
        Ok(true)
    }

    /// Bytes of the file.
    fn bytes<'b>(&'b mut self, file: &'b SpillFile, position: u64, count: usize) -> SqlResult<&'b [u8]> {
        // Rows are written as a whole: one is in the file, or in the buffer.
        if position >= file.written {
            return part(&file.buffer, position - file.written, count);
        }
        let is_inside = position >= self.buffer_start
            && position + count as u64 <= self.buffer_start + self.buffer.len() as u64;
        if !is_inside {
            let left = usize::try_from(file.written.saturating_sub(position)).unwrap_or(usize::MAX);
            let length = left.min(count.max(BUFFER_BYTES));
            self.buffer.truncate(length);
            self.buffer.shrink_to(2 * BUFFER_BYTES);
            self.buffer.resize(length, 0);
            self.buffer_start = position;
            file.file.read_exact_at(&mut self.buffer, position).map_err(|error| failure("read", &error))?;
        }
        part(&self.buffer, position - self.buffer_start, count)
    }
}

fn part(buffer: &[u8], start: u64, count: usize) -> SqlResult<&[u8]> {
    let start = usize::try_from(start).unwrap_or(usize::MAX);
    buffer.get(start..start.saturating_add(count)).ok_or_else(|| {
        SqlError::new(SqlState::DATA_CORRUPTED, "a temporary file is damaged: it ends inside of a row")
    })
}

#[cfg(test)]
mod tests;
