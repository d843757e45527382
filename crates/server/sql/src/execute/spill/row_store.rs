//! Rows that are kept and read again: in memory up to a limit, then in a temporary file.

use seawall_values::{Datum, SqlError, SqlResult};

use super::super::context::Context;
use super::super::memory::{Memory, Share, values_bytes};
use super::{SpillFile, SpillReader};

/// Rows of one width, in the order in which they were added.
#[derive(Debug, Default)]
pub(crate) struct RowStore {
    width: usize,
    values: Vec<Datum>,
    /// Rows in memory.
    rows: usize,
    share: Share,
    /// The rows after those in memory.
    spilled: Option<SpillFile>,
    /// Where each of them is, if rows are read by number.
    positions: Option<Vec<u64>>,
}

/// A place in a store.
#[derive(Debug, Default)]
pub(crate) struct Cursor {
    row: usize,
    reader: SpillReader,
}

impl RowStore {
    pub(crate) fn new(width: usize) -> RowStore {
        RowStore { width, ..RowStore::default() }
    }

    /// A store whose rows are read by number.
    pub(crate) fn numbered(width: usize) -> RowStore {
        RowStore { width, positions: Some(Vec::new()), ..RowStore::default() }
    }

    pub(crate) fn len(&self) -> usize {
        let spilled = self.spilled.as_ref().map_or(0, SpillFile::rows);
        self.rows + usize::try_from(spilled).unwrap_or(usize::MAX)
    }

    /// Whether it has a temporary file.
    pub(crate) fn is_spilled(&self) -> bool {
        self.spilled.is_some()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds a row: the values of slots.
    pub(crate) fn push_slots(&mut self, slots: &[usize], context: &mut Context<'_>) -> SqlResult<()> {
        if self.spilled.is_some() {
            let mut row = Vec::with_capacity(slots.len());
            context.save(slots, &mut row);
            return self.push(&row, context);
        }
        let start = self.values.len();
        context.save(slots, &mut self.values);
        let bytes = values_bytes(&self.values[start..]);
        self.rows += 1;
        self.account(bytes, &mut context.state.memory)
    }

    /// Adds a row.
    pub(crate) fn push(&mut self, row: &[Datum], context: &mut Context<'_>) -> SqlResult<()> {
        self.push_within(row, &mut context.state.memory)
    }

    /// Adds a row that counts for this memory.
    pub(crate) fn push_within(&mut self, row: &[Datum], memory: &mut Memory) -> SqlResult<()> {
        debug_assert_eq!(row.len(), self.width, "a row of another width");
        if let Some(file) = &mut self.spilled {
            let position = file.push(row)?;
            if let Some(positions) = &mut self.positions {
                self.share.grow(memory, size_of::<u64>())?;
                positions.push(position);
            }
            return Ok(());
        }
        self.values.extend_from_slice(row);
        self.rows += 1;
        self.account(values_bytes(row), memory)
    }

    /// No row is added any more: what buffered them goes.
    pub(crate) fn finish(&mut self) -> SqlResult<()> {
        self.spilled.as_mut().map_or(Ok(()), SpillFile::finish)
    }

    fn account(&mut self, bytes: usize, memory: &mut Memory) -> SqlResult<()> {
        self.share.grow(memory, bytes)?;
        if memory.is_to_spill(self.share.bytes()) {
            self.spilled = Some(SpillFile::create(&memory.limits().temporary_files)?);
        }
        Ok(())
    }

    /// The next row of a cursor, into slots. `false`: there is none yet.
    pub(crate) fn next(
        &self,
        cursor: &mut Cursor,
        slots: &[usize],
        context: &mut Context<'_>,
    ) -> SqlResult<bool> {
        if cursor.row < self.rows {
            let start = cursor.row * self.width;
            context.load(slots, &self.values[start..start + self.width]);
            cursor.row += 1;
            return Ok(true);
        }
        let Some(file) = &self.spilled else { return Ok(false) };
        let mut row = Vec::with_capacity(self.width);
        if !cursor.reader.next(file, &mut row)? {
            return Ok(false);
        }
        cursor.row += 1;
        context.restore(slots, row);
        Ok(true)
    }

    /// The next row of a cursor: some of its values, by position in the row, into slots. `false`: there is none yet.
    pub(crate) fn next_columns(
        &self,
        cursor: &mut Cursor,
        columns: &[(usize, usize)],
        context: &mut Context<'_>,
    ) -> SqlResult<bool> {
        if cursor.row < self.rows {
            let start = cursor.row * self.width;
            for (position, slot) in columns {
                context.row[*slot].clone_from(&self.values[start + position]);
            }
            cursor.row += 1;
            return Ok(true);
        }
        let mut row = Vec::with_capacity(self.width);
        if !self.next_row(cursor, &mut row)? {
            return Ok(false);
        }
        for (position, slot) in columns {
            context.row[*slot].clone_from(&row[*position]);
        }
        Ok(true)
    }

    /// The next row of a cursor, in place of what `row` has.
    pub(crate) fn next_row(&self, cursor: &mut Cursor, row: &mut Vec<Datum>) -> SqlResult<bool> {
        row.clear();
        if cursor.row < self.rows {
            let start = cursor.row * self.width;
            row.extend_from_slice(&self.values[start..start + self.width]);
            cursor.row += 1;
            return Ok(true);
        }
        let Some(file) = &self.spilled else { return Ok(false) };
        let has_row = cursor.reader.next(file, row)?;
        cursor.row += usize::from(has_row);
        Ok(has_row)
    }

    /// The place after the last row.
    pub(crate) fn end(&self) -> Cursor {
        let mut reader = SpillReader::default();
        if let Some(file) = &self.spilled {
            reader.seek(file.end());
        }
        Cursor { row: self.len(), reader }
    }

    /// Reads the row with a number into slots.
    pub(crate) fn load(
        &self,
        number: usize,
        slots: &[usize],
        reader: &mut SpillReader,
        context: &mut Context<'_>,
    ) -> SqlResult<()> {
        if number < self.rows {
            let start = number * self.width;
            context.load(slots, &self.values[start..start + self.width]);
            return Ok(());
        }
        let mut row = Vec::with_capacity(self.width);
        self.read_spilled(number, &mut row, reader)?;
        context.restore(slots, row);
        Ok(())
    }

    /// Reads the row with a number, in place of what `row` has.
    pub(crate) fn read(
        &self,
        number: usize,
        row: &mut Vec<Datum>,
        reader: &mut SpillReader,
    ) -> SqlResult<()> {
        row.clear();
        if number < self.rows {
            let start = number * self.width;
            row.extend_from_slice(&self.values[start..start + self.width]);
            return Ok(());
        }
        self.read_spilled(number, row, reader)
    }

    fn read_spilled(&self, number: usize, row: &mut Vec<Datum>, reader: &mut SpillReader) -> SqlResult<()> {
        let position = self.positions.as_ref().and_then(|positions| positions.get(number - self.rows));
        let (Some(file), Some(position)) = (&self.spilled, position) else {
            return Err(SqlError::internal(format!("row {number} of a row store is not there")));
        };
        reader.seek(*position);
        reader.next(file, row)?;
        Ok(())
    }

    /// Forgets all rows.
    pub(crate) fn clear(&mut self, context: &mut Context<'_>) {
        self.values.clear();
        self.rows = 0;
        self.spilled = None;
        if let Some(positions) = &mut self.positions {
            positions.clear();
        }
        self.share.clear(&mut context.state.memory);
    }
}
