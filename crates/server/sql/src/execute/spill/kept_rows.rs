//! The rows that a query has given, kept by its cursor.

use seawall_values::{Datum, SqlResult};

use super::super::memory::{Limits, Memory};
use super::{RowStore, SpillReader};

/// Rows by number: in memory up to a limit, then in a temporary file.
#[derive(Debug)]
pub(crate) struct KeptRows {
    /// The number of the first one, from 0.
    first: u64,
    store: RowStore,
    memory: Memory,
    reader: SpillReader,
    row: Vec<Datum>,
}

impl KeptRows {
    pub(crate) fn new(width: usize, first: u64, limits: Limits) -> KeptRows {
        KeptRows {
            first,
            store: RowStore::numbered(width),
            memory: Memory::new(limits),
            reader: SpillReader::default(),
            row: Vec::with_capacity(width),
        }
    }

    pub(crate) fn first(&self) -> u64 {
        self.first
    }

    /// The number of the row after the last one.
    pub(crate) fn end(&self) -> u64 {
        self.first.saturating_add(u64::try_from(self.store.len()).unwrap_or(u64::MAX))
    }

    /// Whether it has a temporary file.
    pub(crate) fn is_spilled(&self) -> bool {
        self.store.is_spilled()
    }

    /// Adds a row at the end.
    pub(crate) fn push<'a>(&mut self, values: impl Iterator<Item = &'a Datum>) -> SqlResult<()> {
        self.row.clear();
        self.row.extend(values.cloned());
        self.store.push_within(&self.row, &mut self.memory)
    }

    /// No row is added any more: what buffered them goes.
    pub(crate) fn finish(&mut self) -> SqlResult<()> {
        self.store.finish()
    }

    /// The row with a number.
    pub(crate) fn read(&mut self, number: u64) -> SqlResult<&[Datum]> {
        let index = usize::try_from(number.saturating_sub(self.first)).unwrap_or(usize::MAX);
        self.store.read(index, &mut self.row, &mut self.reader)?;
        Ok(&self.row)
    }
}
