//! One run, and its place in the tree. Rows of the tree from key 2^63 on belong to this directory alone:
//!
//! | table                 | rows                                                                                              |
//! |-----------------------|---------------------------------------------------------------------------------------------------|
//! | 2^63                  | `runs`, the list: key = number of the run, u64 big-endian; value = descriptor, below                |
//! | 2^63 + 2^32 + number  | the rows of a run: key = row key, that is table id, u64 big-endian, and the user's key             |
//! | 2^63 + 2^61 + number  | the segments of a run's filter: see `filter`                                                       |
//!
//! Like every row key, each of these keys begins with the table's id as eight big-endian bytes. Numbers are drawn from a counter in the
//! superblock and never used again. A descriptor is rewritten only while the run is made of others, slice by slice; what is left of a run is
//! seen in the tree. Integers little-endian:
//!
//! | offset | bytes | field          | meaning                                                                             |
//! |-------:|------:|----------------|-------------------------------------------------------------------------------------|
//! |      0 |     1 | version        | 1; another one is refused                                                           |
//! |      1 |     1 | level          | 0: written by a checkpoint; else one more than the highest of the runs that it was made of; for display |
//! |      2 |     2 | filter_bits    | bits of its filter for each row; 0: it has none                                     |
//! |      4 |     4 | reserved       | zero; anything else is refused                                                      |
//! |      8 |     8 | start          | every change in it is stamped later than this LSN                                   |
//! |     16 |     8 | end            | and at most this, which is at most the redo point                                   |
//! |     24 |     8 | rows           | when it was written, those that say that a row is deleted included                  |
//! |     32 |     8 | deletions      | when it was written: rows that say so                                               |
//! |     40 |     8 | leaves         | when it was written                                                                 |
//! |     48 |     8 | row_bytes      | keys and values when it was written, long values included                           |
//! |     56 |     8 | first_storage  | smallest table id in it                                                             |
//! |     64 |     8 | last_storage   | greatest table id in it                                                             |
//! |     72 |     8 | filter_bytes   | of all segments, when it was written                                                |
//! |     80 |     8 | written_micros | when it was written, microseconds since 1970, signed; for display                   |

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use seawall_codec::bytes::{u16_at, u32_at, u64_at};
use seawall_tree::{RUN_NUMBERS, RUN_NUMBERS_MAX};
use seawall_types::{Lsn, TableId};

use crate::catalog::{FIRST_LOCAL_TABLE, FIRST_USER_TABLE};
use crate::error::Error;
use crate::row_key;
use crate::runs::filter::Filter;

/// The list of runs.
pub(crate) const RUNS: TableId = TableId::new(FIRST_LOCAL_TABLE);
const FIRST_ROWS_TABLE: u64 = FIRST_LOCAL_TABLE + (1 << 32);
const FIRST_FILTER_TABLE: u64 = FIRST_LOCAL_TABLE + (1 << 61);
// Where the tree takes rows that are deleted.
const _: () = assert!(FIRST_ROWS_TABLE == RUN_NUMBERS.start && FIRST_FILTER_TABLE == RUN_NUMBERS.end);
const _: () = assert!(FIRST_ROWS_TABLE + RUN_NUMBERS_MAX <= FIRST_FILTER_TABLE);
const _: () = assert!(RUN_NUMBERS_MAX < u64::MAX - FIRST_FILTER_TABLE);

pub(crate) const DESCRIPTOR_BYTES: usize = 88;
const DESCRIPTOR_VERSION: u8 = 1;
/// Beyond this a filter lets no key pass that it should not, and only takes memory.
pub(crate) const FILTER_BITS_MAX: u16 = 64;

/// The number of a run. It says nothing about its age: a run that is made of others gets a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RunNumber(u64);

impl RunNumber {
    /// `None` if it is too high to have been drawn.
    pub(crate) fn new(number: u64) -> Option<RunNumber> {
        (number < RUN_NUMBERS_MAX).then_some(RunNumber(number))
    }

    pub(crate) fn get(self) -> u64 {
        self.0
    }

    /// Where the run's rows are.
    pub(crate) fn rows_table(self) -> TableId {
        TableId::new(FIRST_ROWS_TABLE + self.0)
    }

    /// Where the segments of its filter are.
    pub(crate) fn filter_table(self) -> TableId {
        TableId::new(FIRST_FILTER_TABLE + self.0)
    }

    /// The key of the row that lists the run.
    pub(crate) fn list_key(self) -> Vec<u8> {
        row_key::encode(RUNS, &self.0.to_be_bytes())
    }

    /// Reads the key of such a row.
    pub(crate) fn from_list_key(key: &[u8]) -> Result<RunNumber, Error> {
        let number = row_key::key_of(key).try_into().ok().map(u64::from_be_bytes);
        number.and_then(RunNumber::new).ok_or_else(|| Error::Catalog {
            place: format!("key {key:02x?} of the list of runs"),
            problem: "it is not the number of a run",
        })
    }
}

impl std::fmt::Display for RunNumber {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(&self.0, formatter)
    }
}

/// What the list says of a run. See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RunDescriptor {
    pub(crate) level: u8,
    /// Zero: the run has no filter.
    pub(crate) filter_bits: u16,
    /// Every change in the run is stamped later than this.
    pub(crate) start: Lsn,
    /// Every change in the run is stamped at most this.
    pub(crate) end: Lsn,
    /// When it was written, deletions included.
    pub(crate) rows: u64,
    pub(crate) deletions: u64,
    pub(crate) leaves: u64,
    pub(crate) row_bytes: u64,
    pub(crate) first_storage: TableId,
    pub(crate) last_storage: TableId,
    pub(crate) filter_bytes: u64,
    /// Microseconds since 1970.
    pub(crate) written_micros: i64,
}

impl RunDescriptor {
    pub(crate) fn encode(&self) -> [u8; DESCRIPTOR_BYTES] {
        let mut value = [0; DESCRIPTOR_BYTES];
        value[0] = DESCRIPTOR_VERSION;
        value[1] = self.level;
        value[2..4].copy_from_slice(&self.filter_bits.to_le_bytes());
        value[8..16].copy_from_slice(&self.start.get().to_le_bytes());
        value[16..24].copy_from_slice(&self.end.get().to_le_bytes());
        value[24..32].copy_from_slice(&self.rows.to_le_bytes());
        value[32..40].copy_from_slice(&self.deletions.to_le_bytes());
        value[40..48].copy_from_slice(&self.leaves.to_le_bytes());
        value[48..56].copy_from_slice(&self.row_bytes.to_le_bytes());
        value[56..64].copy_from_slice(&self.first_storage.get().to_le_bytes());
        value[64..72].copy_from_slice(&self.last_storage.get().to_le_bytes());
        value[72..80].copy_from_slice(&self.filter_bytes.to_le_bytes());
        value[80..88].copy_from_slice(&self.written_micros.to_le_bytes());
        value
    }

    /// What is wrong with it, if it does not decode.
    pub(crate) fn decode(value: &[u8]) -> Result<RunDescriptor, &'static str> {
        let value: &[u8; DESCRIPTOR_BYTES] =
            value.try_into().map_err(|_| "its descriptor is not 88 bytes long")?;
        if value[0] != DESCRIPTOR_VERSION {
            return Err("its descriptor has an unknown version");
        }
        if u32_at(value, 4) != 0 {
            return Err("reserved bytes of its descriptor are not zero");
        }
        let descriptor = RunDescriptor {
            level: value[1],
            filter_bits: u16_at(value, 2),
            start: Lsn::new(u64_at(value, 8)),
            end: Lsn::new(u64_at(value, 16)),
            rows: u64_at(value, 24),
            deletions: u64_at(value, 32),
            leaves: u64_at(value, 40),
            row_bytes: u64_at(value, 48),
            first_storage: TableId::new(u64_at(value, 56)),
            last_storage: TableId::new(u64_at(value, 64)),
            filter_bytes: u64_at(value, 72),
            written_micros: u64_at(value, 80).cast_signed(),
        };
        descriptor.check()?;
        Ok(descriptor)
    }

    /// Refuses what no run can be.
    fn check(&self) -> Result<(), &'static str> {
        if self.start >= self.end {
            return Err("it ends before it starts");
        }
        if self.rows == 0 || self.deletions > self.rows || self.leaves == 0 || self.leaves > self.rows {
            return Err("its counts of rows and leaves do not go together");
        }
        if self.filter_bits > FILTER_BITS_MAX || (self.filter_bits == 0) != (self.filter_bytes == 0) {
            return Err("it has no such filter");
        }
        let (first, last) = (self.first_storage, self.last_storage);
        if first > last || first.get() < FIRST_USER_TABLE || last.get() >= FIRST_LOCAL_TABLE {
            return Err("it has no such storages");
        }
        Ok(())
    }
}

/// Runs, newest first.
pub(crate) type Runs = Arc<[Arc<Run>]>;

/// A listed run.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) number: RunNumber,
    pub(crate) descriptor: RunDescriptor,
    /// Not set while it is not in memory; `None` if there is none, or it is damaged. Without it each lookup reads the run.
    filter: OnceLock<Option<Filter>>,
}

impl Run {
    pub(crate) fn new(number: RunNumber, descriptor: RunDescriptor) -> Run {
        let filter = if descriptor.filter_bits == 0 { OnceLock::from(None) } else { OnceLock::new() };
        Run { number, descriptor, filter }
    }

    /// The stamp up to which it has changes. Snapshots from there on read it.
    pub(crate) fn end(&self) -> Lsn {
        self.descriptor.end
    }

    /// What the keys of its rows in the tree begin with.
    pub(crate) fn prefix(&self) -> [u8; row_key::TABLE_BYTES] {
        self.number.rows_table().get().to_be_bytes()
    }

    /// The key in the tree of its row with this row key.
    pub(crate) fn key_of(&self, row_key: &[u8]) -> Vec<u8> {
        row_key::encode(self.number.rows_table(), row_key)
    }

    /// Whether this run is the target of a merge under way, and the other one of its sources: the interval of a target holds those of its
    /// sources, and no other intervals meet.
    pub(crate) fn is_made_of(&self, other: &Run) -> bool {
        let (target, source) = (&self.descriptor, &other.descriptor);
        self.number > other.number && target.start <= source.start && source.end <= target.end
    }

    /// The share of its rows, when it was written, that do not say that a row is deleted.
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    pub(crate) fn share_of_values(&self) -> f64 {
        let RunDescriptor { rows, deletions, .. } = self.descriptor;
        (rows - deletions) as f64 / rows as f64
    }

    /// Whether enough of its rows say that a row is deleted to count what they delete.
    pub(crate) fn deletes_many(&self) -> bool {
        self.descriptor.deletions >= self.descriptor.rows / 32 && self.descriptor.deletions > 0
    }

    /// Whether it can have rows of this storage.
    pub(crate) fn may_have_rows_of(&self, storage: TableId) -> bool {
        (self.descriptor.first_storage..=self.descriptor.last_storage).contains(&storage)
    }

    /// Whether it can have the row, which is in a storage of its own. `hash` is that of the row key: see `filter`.
    pub(crate) fn may_contain(&self, row_key: &[u8], hash: u64) -> bool {
        self.filter().is_none_or(|filter| filter.may_contain(row_key, hash))
    }

    /// Its filter, if there is one to use by now.
    pub(crate) fn filter(&self) -> Option<&Filter> {
        self.filter.get().and_then(Option::as_ref)
    }

    /// Whether its filter is not in memory and may be read: it was not looked for yet, or there was no memory for it.
    pub(crate) fn lacks_filter(&self) -> bool {
        self.filter.get().is_none()
    }

    /// The run with less of its filter in memory: the segments that begin in `gone` are of no row any more.
    pub(crate) fn without_segments(&self, gone: &[Range<Vec<u8>>]) -> Run {
        let Run { number, descriptor, filter } = self;
        let left = filter.get().map(|filter| filter.as_ref().map(|filter| filter.without(gone)));
        // One that is not read yet is read as it is then.
        let filter = left.map_or_else(OnceLock::new, OnceLock::from);
        Run { number: *number, descriptor: descriptor.clone(), filter }
    }

    /// The run without its filter in memory, which may be read again.
    pub(crate) fn without_filter(&self) -> Run {
        Run::new(self.number, self.descriptor.clone())
    }

    /// Sets the filter, or that there is none to use. The first one counts.
    pub(crate) fn set_filter(&self, filter: Option<Filter>) {
        // Two that read it have read the same.
        self.filter.get_or_init(|| filter);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> RunDescriptor {
        RunDescriptor {
            level: 2,
            filter_bits: 10,
            start: Lsn::new(100),
            end: Lsn::new(200),
            rows: 50,
            deletions: 7,
            leaves: 3,
            row_bytes: 5000,
            first_storage: TableId::new(64),
            last_storage: TableId::new(70),
            filter_bytes: 68,
            written_micros: -5,
        }
    }

    #[test]
    fn descriptors_read_back() {
        let plain = RunDescriptor { filter_bits: 0, filter_bytes: 0, deletions: 0, ..sample() };
        for descriptor in [sample(), plain] {
            assert_eq!(RunDescriptor::decode(&descriptor.encode()), Ok(descriptor));
        }
    }

    #[test]
    fn descriptors_that_no_run_can_have_are_refused() {
        let with = |change: fn(&mut RunDescriptor)| {
            let mut descriptor = sample();
            change(&mut descriptor);
            descriptor
        };
        for refused in [
            with(|descriptor| descriptor.start = descriptor.end),
            with(|descriptor| descriptor.rows = 0),
            with(|descriptor| descriptor.deletions = 51),
            with(|descriptor| descriptor.leaves = 0),
            with(|descriptor| descriptor.leaves = 51),
            with(|descriptor| descriptor.filter_bits = 0),
            with(|descriptor| descriptor.filter_bits = 65),
            with(|descriptor| descriptor.filter_bytes = 0),
            with(|descriptor| descriptor.first_storage = TableId::new(63)),
            with(|descriptor| descriptor.last_storage = TableId::new(65 - 2)),
            with(|descriptor| descriptor.last_storage = RUNS),
        ] {
            assert!(RunDescriptor::decode(&refused.encode()).is_err(), "{refused:?}");
        }
        let bytes = sample().encode();
        for length in 0..DESCRIPTOR_BYTES {
            assert!(RunDescriptor::decode(&bytes[..length]).is_err(), "{length} bytes");
        }
        assert!(RunDescriptor::decode(&[&bytes[..], &[0]].concat()).is_err());
        for (offset, byte) in [(0, 2), (0, 0), (4, 1), (7, 1)] {
            let mut bytes = sample().encode();
            bytes[offset] = byte;
            assert!(RunDescriptor::decode(&bytes).is_err(), "offset {offset}");
        }
    }

    #[test]
    fn tables_of_runs_do_not_meet_and_keys_of_the_list_read_back() {
        let last = RunNumber::new(RUN_NUMBERS_MAX - 1).unwrap();
        let first = RunNumber::new(0).unwrap();
        assert_eq!(RunNumber::new(RUN_NUMBERS_MAX), None);
        assert!(RUNS < first.rows_table() && last.rows_table() < first.filter_table());
        assert!(last.filter_table().get() < u64::MAX);
        for number in [first, last] {
            assert_eq!(RunNumber::from_list_key(&number.list_key()).unwrap(), number);
        }
        for key in [&[0xFF; 8][..], &[0; 7], &[0; 9], &[]] {
            assert!(RunNumber::from_list_key(&row_key::encode(RUNS, key)).is_err(), "{key:?}");
        }
    }
}
