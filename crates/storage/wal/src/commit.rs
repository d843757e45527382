//! The body of a commit record: the write set of one transaction.
//!
//! | bytes     | field        | meaning                                                                    |
//! |----------:|--------------|----------------------------------------------------------------------------|
//! |         8 | time         | of the commit, microseconds since 1970, signed                             |
//! |    varint | count        | changes that follow                                                        |
//! |           | per change:  |                                                                            |
//! |    varint | shape        | bytes of the key without its table id << 2, new table << 1, delete         |
//! |  (varint) | table        | the table id, if "new table" is set: else that of the change before        |
//! |           | key          | the key without its table id                                               |
//! |  (varint) | value length | unless it is a delete                                                      |
//! |           | value        | unless it is a delete                                                      |
//!
//! The records of two-phase commit have the same form, with more between count and changes (`prepared`).
//!
//! All of it is encrypted in an encrypted database (`record`), where a commit takes 40 bytes more.
//!
//! A commit of one row with an 8-byte key in a table below 128 and a value below 128 bytes takes 26 bytes beyond key
//! and value, record header included.

use seawall_types::TableId;

use crate::body::{BodyReader, VARINT_BYTES_MAX, encode_varint, put_varint};
use crate::error::RecordError;
use crate::record::{PreparedRecord, RECORD_ENVELOPE_BYTES, RECORD_HEADER_BYTES, RecordKind};

/// The table id at the start of a row key, big-endian.
pub const TABLE_ID_BYTES: usize = 8;
/// The longest row key: table id and user's key.
pub const ROW_KEY_BYTES_MAX: usize = TABLE_ID_BYTES + 4096;
/// The longest value.
pub const VALUE_BYTES_MAX: usize = 64 << 20;

const TIME_BYTES: usize = 8;
/// Room before the first change: header, envelope, time and count are only known at the end and are put right before it.
const FRONT_BYTES: usize = RECORD_HEADER_BYTES + RECORD_ENVELOPE_BYTES + TIME_BYTES + VARINT_BYTES_MAX;

const SHAPE_DELETE: u64 = 1;
const SHAPE_TABLE: u64 = 2;

/// Collects a write set, encoded as it comes; used again and again without new memory.
///
/// ```
/// # use seawall_wal::CommitBuilder;
/// let mut builder = CommitBuilder::new();
/// builder.begin(1_700_000_000_000_000);
/// builder.put(b"\0\0\0\0\0\0\0\x07user key", b"value");
/// builder.delete(b"\0\0\0\0\0\0\0\x07other key");
/// let record = builder.finish();
/// assert!(record.record_bytes() < 80);
/// // ... append it to the log, and begin the next one.
/// ```
#[derive(Debug, Default)]
pub struct CommitBuilder {
    record: PreparedRecord,
    /// Between `begin` and `finish`.
    is_open: bool,
    kind: Option<RecordKind>,
    time_micros: i64,
    count: u64,
    table: Option<[u8; TABLE_ID_BYTES]>,
}

impl CommitBuilder {
    /// A builder that has not begun.
    pub fn new() -> CommitBuilder {
        CommitBuilder::default()
    }

    /// Starts an empty write set with commit time `time_micros` (since 1970), in the memory of the last one.
    pub fn begin(&mut self, time_micros: i64) {
        self.begin_kind(RecordKind::Commit, time_micros, |_| {});
    }

    /// As `begin`, for a record of `kind`, which has what `head` writes before the changes.
    pub(crate) fn begin_kind(&mut self, kind: RecordKind, time_micros: i64, head: impl FnOnce(&mut Vec<u8>)) {
        let bytes = self.record.buffer_mut();
        bytes.clear();
        bytes.resize(FRONT_BYTES, 0);
        head(bytes);
        self.is_open = true;
        self.kind = Some(kind);
        self.time_micros = time_micros;
        self.count = 0;
        self.table = None;
    }

    /// Adds `put row_key value`.
    ///
    /// # Panics
    /// If nothing was begun, the key is shorter than a table id or longer than [`ROW_KEY_BYTES_MAX`], or the value is
    /// longer than [`VALUE_BYTES_MAX`].
    pub fn put(&mut self, row_key: &[u8], value: &[u8]) {
        assert!(value.len() <= VALUE_BYTES_MAX, "a value of {} bytes is too long", value.len());
        self.push_key(row_key, 0);
        let bytes = self.record.buffer_mut();
        put_varint(bytes, value.len() as u64);
        bytes.extend_from_slice(value);
    }

    /// Adds `delete row_key`.
    ///
    /// # Panics
    /// If nothing was begun, or the key is shorter than a table id or longer than [`ROW_KEY_BYTES_MAX`].
    pub fn delete(&mut self, row_key: &[u8]) {
        self.push_key(row_key, SHAPE_DELETE);
    }

    /// Adds `put row_key value`, or `delete row_key` where there is no value.
    ///
    /// # Panics
    /// As `put` and `delete`.
    pub fn add(&mut self, row_key: &[u8], value: Option<&[u8]>) {
        match value {
            Some(value) => self.put(row_key, value),
            None => self.delete(row_key),
        }
    }

    /// Changes so far.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Whether there are no changes.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Length of the record so far, at most a few bytes too high.
    pub fn record_bytes(&self) -> usize {
        self.record.record_bytes().max(FRONT_BYTES)
    }

    /// The record of these changes. It stays in the builder until the next `begin`; to keep it longer, clone it.
    ///
    /// # Panics
    /// If nothing was begun.
    pub fn finish(&mut self) -> &mut PreparedRecord {
        assert!(self.is_open, "a write set is begun before it is finished");
        self.is_open = false;
        let (count, count_bytes) = encode_varint(self.count);
        let time_start = FRONT_BYTES - count_bytes - TIME_BYTES;
        let bytes = self.record.buffer_mut();
        bytes[FRONT_BYTES - count_bytes..FRONT_BYTES].copy_from_slice(&count[..count_bytes]);
        bytes[time_start..time_start + TIME_BYTES].copy_from_slice(&self.time_micros.to_le_bytes());
        let kind = self.kind.expect("what is open is of a kind");
        self.record.complete(kind, time_start - RECORD_HEADER_BYTES);
        &mut self.record
    }

    fn push_key(&mut self, row_key: &[u8], delete: u64) {
        assert!(self.is_open, "a write set is begun before changes are added");
        assert!(row_key.len() <= ROW_KEY_BYTES_MAX, "a row key of {} bytes is too long", row_key.len());
        let (table, key) = row_key.split_first_chunk().expect("a row key starts with its table id");
        let new_table = if self.table.as_ref() == Some(table) { 0 } else { SHAPE_TABLE };
        let bytes = self.record.buffer_mut();
        put_varint(bytes, (key.len() as u64) << 2 | new_table | delete);
        if new_table != 0 {
            put_varint(bytes, u64::from_be_bytes(*table));
            self.table = Some(*table);
        }
        bytes.extend_from_slice(key);
        self.count += 1;
    }
}

/// A commit as read from the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Commit<'a> {
    /// When it was committed, microseconds since 1970. For people and for recovery to a time; the order is the LSN's.
    pub time_micros: i64,
    /// How many changes [`Commit::changes`] gives. Never more than the body has bytes.
    pub count: u64,
    changes: BodyReader<'a>,
}

/// One change of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change<'a> {
    table: TableId,
    key: &'a [u8],
    value: Option<&'a [u8]>,
}

impl<'a> Commit<'a> {
    pub(crate) fn decode(body: &'a [u8]) -> Result<Commit<'a>, RecordError> {
        let (commit, ()) = Commit::decode_with(body, |_| Ok(()))?;
        Ok(commit)
    }

    /// Reads a body that has something between count and changes.
    pub(crate) fn decode_with<T>(
        body: &'a [u8],
        head: impl FnOnce(&mut BodyReader<'a>) -> Result<T, RecordError>,
    ) -> Result<(Commit<'a>, T), RecordError> {
        let mut reader = BodyReader::new(body);
        let time_micros = i64::from_le_bytes(reader.fixed("time")?);
        let offset = reader.offset();
        let count = reader.varint("count")?;
        let head = head(&mut reader)?;
        if count > reader.remaining() as u64 {
            return Err(RecordError::Value { field: "count", offset });
        }
        Ok((Commit { time_micros, count, changes: reader }, head))
    }

    /// The changes in the order in which they were added. After an error nothing more comes.
    pub fn changes(&self) -> Changes<'a> {
        Changes { reader: self.changes, left: self.count, table: None, done: false }
    }
}

impl<'a> Change<'a> {
    /// The table.
    pub fn table(&self) -> TableId {
        self.table
    }

    /// The key in the table.
    pub fn key(&self) -> &'a [u8] {
        self.key
    }

    /// The new value; `None` deletes the row.
    pub fn value(&self) -> Option<&'a [u8]> {
        self.value
    }

    /// Puts the row key (table id, then key) into `buffer`, whose old content goes.
    pub fn copy_row_key(&self, buffer: &mut Vec<u8>) {
        buffer.clear();
        buffer.extend_from_slice(&self.table.get().to_be_bytes());
        buffer.extend_from_slice(self.key);
    }
}

/// Iterates over the changes of a commit; each is checked before it is given out.
#[derive(Clone, Debug)]
pub struct Changes<'a> {
    reader: BodyReader<'a>,
    left: u64,
    table: Option<TableId>,
    done: bool,
}

impl<'a> Changes<'a> {
    /// How many changes are left, as the record says; an error may come before.
    pub fn left(&self) -> u64 {
        self.left
    }

    fn read(&mut self) -> Result<Change<'a>, RecordError> {
        let offset = self.reader.offset();
        let shape = self.reader.varint("change")?;
        if shape & SHAPE_TABLE != 0 {
            self.table = Some(TableId::new(self.reader.varint("table")?));
        }
        let Some(table) = self.table else {
            return Err(RecordError::Value { field: "table", offset });
        };
        let key_bytes = shape >> 2;
        if key_bytes > (ROW_KEY_BYTES_MAX - TABLE_ID_BYTES) as u64 {
            return Err(RecordError::Value { field: "key length", offset });
        }
        let key = self.reader.bytes(key_bytes, "key")?;
        if shape & SHAPE_DELETE != 0 {
            return Ok(Change { table, key, value: None });
        }
        let offset = self.reader.offset();
        let value_bytes = self.reader.varint("value length")?;
        if value_bytes > VALUE_BYTES_MAX as u64 {
            return Err(RecordError::Value { field: "value length", offset });
        }
        let value = self.reader.bytes(value_bytes, "value")?;
        Ok(Change { table, key, value: Some(value) })
    }
}

impl<'a> Iterator for Changes<'a> {
    type Item = Result<Change<'a>, RecordError>;

    fn next(&mut self) -> Option<Result<Change<'a>, RecordError>> {
        if self.done {
            return None;
        }
        if self.left == 0 {
            self.done = true;
            return self.reader.finish().err().map(Err);
        }
        self.left -= 1;
        let change = self.read();
        self.done = change.is_err();
        Some(change)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row_key(table: u64, key: &[u8]) -> Vec<u8> {
        [&table.to_be_bytes()[..], key].concat()
    }

    fn body(record: &PreparedRecord) -> Vec<u8> {
        record.as_bytes()[RECORD_HEADER_BYTES..].to_vec()
    }

    #[test]
    fn a_write_set_comes_back() {
        let mut builder = CommitBuilder::new();
        let long_key = vec![b'k'; 4096];
        let changes = [
            (7, &b"a"[..], Some(b"1".to_vec())),
            (7, b"", Some(Vec::new())),
            (7, b"b", None),
            (u64::MAX, &long_key, Some(vec![3; 70_000])),
            (0, b"c", None),
            (7, b"a", None),
        ];
        for round in 0..3 {
            builder.begin(-round);
            for (table, key, value) in &changes {
                match value {
                    Some(value) => builder.put(&row_key(*table, key), value),
                    None => builder.delete(&row_key(*table, key)),
                }
            }
            let body = body(builder.finish());
            let commit = Commit::decode(&body).unwrap();
            assert_eq!((commit.time_micros, commit.count), (-round, 6));
            let mut key_buffer = Vec::new();
            for (change, (table, key, value)) in commit.changes().zip(&changes) {
                let change = change.unwrap();
                change.copy_row_key(&mut key_buffer);
                assert_eq!(key_buffer, row_key(*table, key));
                assert_eq!(change.value, value.as_deref());
            }
            assert_eq!(commit.changes().count(), 6);
        }
    }

    #[test]
    fn one_small_row_costs_at_most_thirty_bytes() {
        let mut builder = CommitBuilder::new();
        builder.begin(0);
        builder.put(&row_key(1000, b"8 bytes."), &[1; 100]);
        let record = builder.finish();
        assert!(record.record_bytes() - 108 <= 30, "{}", record.record_bytes() - 108);
    }

    #[test]
    fn every_cut_and_every_changed_byte_gives_an_error_or_other_changes() {
        let mut builder = CommitBuilder::new();
        builder.begin(5);
        for index in 0..20_u64 {
            builder.put(&row_key(index / 5, &index.to_be_bytes()), &[7; 20]);
            builder.delete(&row_key(index / 5, b"x"));
        }
        let body = body(builder.finish());
        let read =
            |body: &[u8]| Commit::decode(body)?.changes().collect::<Result<Vec<_>, _>>().map(|all| all.len());
        assert_eq!(read(&body), Ok(40));
        for cut in 0..body.len() {
            assert!(read(&body[..cut]).is_err(), "cut at {cut}");
        }
        for position in 0..body.len() {
            for value in [0, 1, 0x7F, 0x80, 0xFF] {
                let mut damaged = body.clone();
                damaged[position] = value;
                // Either is fine, as long as it ends and does not panic.
                if let Ok(count) = read(&damaged) {
                    assert!(count <= damaged.len());
                }
            }
        }
        assert!(matches!(read(&[&body[..], &[0]].concat()), Err(RecordError::Trailing { bytes: 1, .. })));
    }

    #[test]
    fn an_empty_write_set_is_a_record_too() {
        let mut builder = CommitBuilder::new();
        builder.begin(9);
        let body = body(builder.finish());
        let commit = Commit::decode(&body).unwrap();
        assert_eq!((commit.time_micros, commit.changes().count()), (9, 0));
    }
}
