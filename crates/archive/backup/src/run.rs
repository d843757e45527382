//! A run: rows of a backup in the order of their keys, or ranges of which an increment keeps what its parent has: the first key of
//! each, and the last one as its value. The content of an object, which has the checksums; integers little-endian, *varint* as in log records: seven bits a byte, the lowest first.
//!
//! | offset | bytes  | field    | meaning                                                            |
//! |-------:|-------:|----------|--------------------------------------------------------------------|
//! |      0 |      8 | magic    | `SWRUN\r\n` and 0x1A                                               |
//! |      8 |      4 | version  | [`FORMAT_VERSION`]; an unknown one is refused                      |
//! |     12 |      4 | number   | of the run; 0 has the system keyspace                              |
//! |     16 |      8 | stamp    | no change in the rows is newer; of run 0, the redo point           |
//! |     24 |      8 | rows     | how many follow                                                    |
//! |        |        | a row:   |                                                                    |
//! |        | varint | shared   | bytes that the key has in common with the one before               |
//! |        | varint | suffix   | bytes of the key after these                                       |
//! |        | varint | value    | bytes of the value                                                 |
//! |        |        |          | the suffix, then the value                                         |

use std::ops::Range;

use seawall_types::Lsn;
use seawall_wal::put_varint;

/// The version of runs.
pub(crate) const FORMAT_VERSION: u32 = 1;

const MAGIC: [u8; 8] = *b"SWRUN\r\n\x1A";
const HEADER_BYTES: usize = 32;
/// A key has at most 4 KiB and the number of its table.
const KEY_BYTES_MAX: usize = 8 << 10;

/// Makes a run.
#[derive(Debug)]
pub(crate) struct RunBuilder {
    bytes: Vec<u8>,
    rows: u64,
    key: Vec<u8>,
}

impl RunBuilder {
    pub(crate) fn new() -> RunBuilder {
        RunBuilder { bytes: vec![0; HEADER_BYTES], rows: 0, key: Vec::new() }
    }

    /// Adds a row; its key is greater than the one before.
    pub(crate) fn push(&mut self, key: &[u8], value: &[u8]) {
        let shared = self.key.iter().zip(key).take_while(|(left, right)| left == right).count();
        for length in [shared, key.len() - shared, value.len()] {
            put_varint(&mut self.bytes, length as u64);
        }
        self.bytes.extend_from_slice(&key[shared..]);
        self.bytes.extend_from_slice(value);
        self.key.truncate(shared);
        self.key.extend_from_slice(&key[shared..]);
        self.rows += 1;
    }

    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    /// Its length so far.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The run.
    pub(crate) fn finish(mut self, number: u32, stamp: Lsn) -> Vec<u8> {
        self.bytes[0..8].copy_from_slice(&MAGIC);
        self.bytes[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        self.bytes[12..16].copy_from_slice(&number.to_le_bytes());
        self.bytes[16..24].copy_from_slice(&stamp.get().to_le_bytes());
        self.bytes[24..32].copy_from_slice(&self.rows.to_le_bytes());
        self.bytes
    }
}

/// Reads a run, row by row.
#[derive(Debug)]
pub(crate) struct RunReader {
    content: Vec<u8>,
    /// What comes next in it.
    at: usize,
    rows_left: u64,
    key: Vec<u8>,
    /// Where the value of the row lies.
    value: Range<usize>,
}

impl RunReader {
    /// Reads the header of run `number`. It stands before the first row.
    pub(crate) fn open(content: Vec<u8>, number: u32) -> Result<RunReader, &'static str> {
        let header = content.first_chunk::<HEADER_BYTES>().ok_or("it is shorter than its header")?;
        if header[0..8] != MAGIC {
            return Err("it is not a run");
        }
        let field = |offset: usize| u32::from_le_bytes([0, 1, 2, 3].map(|index| header[offset + index]));
        if field(8) != FORMAT_VERSION {
            return Err("it is of a newer release");
        }
        if field(12) != number {
            return Err("it is another run");
        }
        let (_, rows) = header.split_last_chunk::<8>().expect("a header has more than eight bytes");
        let rows_left = u64::from_le_bytes(*rows);
        Ok(RunReader { content, at: HEADER_BYTES, rows_left, key: Vec::new(), value: 0..0 })
    }

    /// How many rows are left.
    pub(crate) fn rows_left(&self) -> u64 {
        self.rows_left
    }

    /// Its length.
    pub(crate) fn bytes(&self) -> u64 {
        self.content.len() as u64
    }

    /// The key of the row that it stands at.
    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }

    /// The value of the row that it stands at.
    pub(crate) fn value(&self) -> &[u8] {
        &self.content[self.value.clone()]
    }

    /// Moves to the next row; `false` after the last one.
    pub(crate) fn advance(&mut self) -> Result<bool, &'static str> {
        if self.rows_left == 0 {
            let is_whole = self.at == self.content.len();
            return if is_whole { Ok(false) } else { Err("there is data after its rows") };
        }
        let (shared, suffix, value) = (self.length()?, self.length()?, self.length()?);
        if shared > self.key.len() || suffix > KEY_BYTES_MAX {
            return Err("the length of a key cannot be");
        }
        let suffix = self.take(suffix)?;
        self.value = self.take(value)?;
        let suffix = &self.content[suffix];
        let is_greater = self
            .key
            .get(shared)
            .map_or(!suffix.is_empty(), |byte| suffix.first().is_some_and(|first| first > byte));
        if !is_greater {
            return Err("its keys do not ascend");
        }
        self.key.truncate(shared);
        self.key.extend_from_slice(suffix);
        self.rows_left -= 1;
        Ok(true)
    }

    fn length(&mut self) -> Result<usize, &'static str> {
        let mut number: u64 = 0;
        for shift in (0..63).step_by(7) {
            let byte = *self.content.get(self.at).ok_or("it ends within a row")?;
            self.at += 1;
            number |= u64::from(byte & 0x7F) << shift;
            if byte & 0x80 == 0 {
                return usize::try_from(number).map_err(|_| "a length cannot be");
            }
        }
        Err("a length cannot be")
    }

    fn take(&mut self, bytes: usize) -> Result<Range<usize>, &'static str> {
        let end = self.at.checked_add(bytes).filter(|end| *end <= self.content.len());
        let start = std::mem::replace(&mut self.at, end.ok_or("it ends within a row")?);
        Ok(start..self.at)
    }
}

/// Reads all of a run, the content of the object with this number; how many rows or ranges are in it.
///
/// # Errors
/// What is wrong with it.
pub fn check_backup_run(content: Vec<u8>, number: u32) -> Result<u64, &'static str> {
    let mut run = RunReader::open(content, number)?;
    let rows = run.rows_left();
    while run.advance()? {}
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{collection, prelude::*};

    type Rows = std::collections::BTreeMap<Vec<u8>, Vec<u8>>;

    fn run_of(rows: &Rows) -> Vec<u8> {
        let mut builder = RunBuilder::new();
        rows.iter().for_each(|(key, value)| builder.push(key, value));
        assert_eq!(builder.rows(), rows.len() as u64);
        builder.finish(7, Lsn::new(9))
    }

    fn read(bytes: &[u8]) -> Result<Rows, &'static str> {
        let mut reader = RunReader::open(bytes.to_vec(), 7)?;
        let mut rows = Rows::new();
        while reader.advance()? {
            let key = reader.key();
            assert!(rows.last_key_value().is_none_or(|(last, _)| &last[..] < key), "{key:?} does not ascend");
            rows.insert(key.to_vec(), reader.value().to_vec());
        }
        Ok(rows)
    }

    /// Keys of rows begin with the number of their table: none is empty.
    fn rows() -> impl Strategy<Value = Rows> {
        let bytes = |least| collection::vec(any::<u8>(), least..40);
        collection::btree_map(bytes(1), bytes(0), 0..100)
    }

    proptest! {
        #[test]
        fn rows_come_back(rows in rows()) {
            prop_assert_eq!(read(&run_of(&rows)).unwrap(), rows);
        }

        #[test]
        fn any_bytes_are_rows_in_order_or_an_error(cut in 0_usize..200, flip in 0_usize..200, bit in 0_u8..8) {
            let rows = (0..10_u8).map(|number| (vec![number, 1, 2], vec![number; 5])).collect();
            let mut bytes = run_of(&rows);
            let flip = flip % bytes.len();
            bytes[flip] ^= 1 << bit;
            bytes.truncate(cut.max(1));
            // Which asserts that they ascend.
            drop(read(&bytes));
        }
    }

    #[test]
    fn what_is_no_run_is_refused() {
        let bytes = run_of(&[(b"a".to_vec(), b"1".to_vec())].into());
        assert!(RunReader::open(bytes.clone(), 8).is_err());
        assert!(RunReader::open(bytes[..31].to_vec(), 7).is_err());
        assert!(read(&[&bytes[..], b"x"].concat()).is_err());
        assert!(read(&bytes[..bytes.len() - 1]).is_err());
    }
}
