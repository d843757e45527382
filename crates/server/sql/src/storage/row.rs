//! A row of a table as bytes: its key, and its value with the columns that the key does not give back.
//!
//! The value; the integers of `storage::value`:
//!
//! | bytes       | field   | meaning                                                                                     |
//! |------------:|---------|---------------------------------------------------------------------------------------------|
//! |           1 | version | `ROW_VERSION`; another one is refused                                                       |
//! |        1 .. | columns | varint: how many columns the table had when the row was written, dropped ones included      |
//! | columns / 8 | bitmap  | a bit for each column, lowest first: 1: its value follows. 0: it is null, dropped, or in the|
//! |             |         | key. Rounded up; bits past the last column are 0                                            |
//! |          .. | values  | one after another, in the order of the columns                                              |
//!
//! A column that was added after the row was written has its `Column::missing`. The key is the columns of the primary key
//! (`storage::key`, without null marks), or a number of eight bytes, big-endian.

use std::sync::Arc;

use seawall_codec::key::Key;
use seawall_codec::sort_key::PartReader;
use seawall_values::{Datum, SqlError, SqlResult};

use crate::schema::{RowKey, Table};
use crate::storage::key::KeyPart;
use crate::storage::kind::Kind;
use crate::storage::value::{ValueReader, damaged, write_length, write_value};

const ROW_VERSION: u8 = 1;

/// Where the value of a column is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// In the row's value.
    Value,
    /// In its key alone.
    Key,
    /// Nowhere: the column was dropped.
    Nowhere,
}

/// How the rows of a table are stored.
#[derive(Clone, Debug)]
pub struct RowLayout {
    columns: Arc<[(Kind, Place, Datum)]>,
    key: RowKeyLayout,
}

/// What the keys of rows are made of.
#[derive(Clone, Debug)]
enum RowKeyLayout {
    Number,
    Columns(Arc<[(usize, KeyPart)]>),
}

impl RowLayout {
    /// The layout of a table's rows.
    pub fn of(table: &Table) -> RowLayout {
        let kinds: Vec<Kind> = table.columns.iter().map(|column| Kind::of(column.of.oid)).collect();
        let key = match &table.key {
            RowKey::Number => RowKeyLayout::Number,
            RowKey::Columns(columns) => RowKeyLayout::Columns(
                columns
                    .iter()
                    .map(|key| (key.column, KeyPart::not_null(kinds[key.column], key.is_descending)))
                    .collect(),
            ),
        };
        let is_in_key = |position: usize| match &key {
            RowKeyLayout::Number => false,
            RowKeyLayout::Columns(parts) => {
                parts.iter().any(|(column, part)| *column == position && part.kind.is_exact_in_keys())
            }
        };
        let column = |(position, column): (usize, &crate::schema::Column)| {
            let place = match (column.is_dropped, is_in_key(position)) {
                (true, _) => Place::Nowhere,
                (false, true) => Place::Key,
                (false, false) => Place::Value,
            };
            (kinds[position], place, column.missing.clone())
        };
        RowLayout { columns: table.columns.iter().enumerate().map(column).collect(), key }
    }

    /// How many columns a row has, dropped ones included.
    pub fn column_count(&self) -> usize {
        self.columns.len()
    }

    /// Whether rows are stored under a number that each is given.
    pub fn is_numbered(&self) -> bool {
        matches!(self.key, RowKeyLayout::Number)
    }

    /// Whether the column is a part of the rows' key.
    pub fn is_key_column(&self, position: usize) -> bool {
        match &self.key {
            RowKeyLayout::Number => false,
            RowKeyLayout::Columns(parts) => parts.iter().any(|(column, _)| *column == position),
        }
    }

    /// Appends the key of a row that has one of its own. Without a primary key there is none: the caller gives it a number.
    ///
    /// # Errors
    /// `XX000` for a value of another type.
    pub fn write_key(&self, row: &[Datum], out: &mut Vec<u8>) -> SqlResult<()> {
        match &self.key {
            RowKeyLayout::Number => Err(SqlError::internal("the rows of this table are numbered")),
            RowKeyLayout::Columns(parts) => {
                parts.iter().try_for_each(|(column, part)| part.write(&row[*column], out))
            }
        }
    }

    /// The key of the row with a number.
    pub fn number_key(number: u64) -> [u8; 8] {
        number.to_be_bytes()
    }

    /// Appends the value of a row: a value for each column of the table.
    ///
    /// # Errors
    /// `XX000` for a value of another type.
    pub fn write_value(&self, row: &[Datum], out: &mut Vec<u8>) -> SqlResult<()> {
        if row.len() != self.columns.len() {
            let (given, columns) = (row.len(), self.columns.len());
            return Err(SqlError::internal(format!("a row of {given} values for {columns} columns")));
        }
        out.push(ROW_VERSION);
        write_length(row.len(), out);
        let bitmap = out.len();
        out.resize(bitmap + row.len().div_ceil(8), 0);
        for (position, (value, (kind, place, _))) in row.iter().zip(self.columns.iter()).enumerate() {
            if *place == Place::Value && !value.is_null() {
                out[bitmap + position / 8] |= 1 << (position % 8);
                write_value(*kind, value, out)?;
            }
        }
        Ok(())
    }

    /// What reads the columns at `wanted`, by position, into a row with one place for each of them.
    pub fn reader(&self, wanted: &[usize]) -> RowReader {
        let slots = |position: usize| wanted.iter().position(|wanted| *wanted == position);
        let is_wanted = |position: usize| slots(position).is_some();
        let columns_until = (0..self.columns.len())
            .rfind(|position| is_wanted(*position) && self.columns[*position].1 == Place::Value)
            .map_or(0, |last| last + 1);
        let columns = self.columns[..columns_until].iter().enumerate();
        let columns = columns.map(|(position, (kind, place, missing))| {
            let slot = if *place == Place::Value { slots(position) } else { None };
            (*kind, slot, missing.clone())
        });
        let mut key: Vec<_> = match &self.key {
            RowKeyLayout::Number => Vec::new(),
            RowKeyLayout::Columns(parts) => parts
                .iter()
                .map(|(column, part)| (*part, slots(*column).filter(|_| part.kind.is_exact_in_keys())))
                .collect(),
        };
        key.truncate(key.iter().rposition(|(_, slot)| slot.is_some()).map_or(0, |last| last + 1));
        let columns: Vec<_> = columns.collect();
        let read =
            columns.iter().filter_map(|(_, slot, _)| *slot).chain(key.iter().filter_map(|(_, slot)| *slot));
        let read: Vec<usize> = read.collect();
        let nulls = (0..wanted.len()).filter(|slot| !read.contains(slot)).collect();
        RowReader { columns, key, nulls }
    }

    /// Reads the columns at `wanted`, by position, of one row; for several rows a reader is quicker.
    ///
    /// # Errors
    /// As `RowReader::read`.
    pub fn read(&self, wanted: &[usize], key: &[u8], value: &[u8], row: &mut [Datum]) -> SqlResult<()> {
        row.fill(Datum::Null);
        let place = |position: usize| wanted.iter().position(|wanted| *wanted == position);
        if let RowKeyLayout::Columns(parts) = &self.key {
            let place_of = |(column, part): &(usize, KeyPart)| {
                if part.kind.is_exact_in_keys() { place(*column) } else { None }
            };
            let used = parts.iter().rposition(|part| place_of(part).is_some()).map_or(0, |last| last + 1);
            read_key(key, parts[..used].iter().map(|part| (&part.1, place_of(part))), row)?;
        }
        let is_in_value = |position: &&usize| self.columns[**position].1 == Place::Value;
        let Some(last) = wanted.iter().filter(is_in_value).max() else { return Ok(()) };
        let columns = self.columns.iter().take(last + 1).enumerate();
        let columns = columns.map(|(position, (kind, of, missing))| {
            (*kind, if *of == Place::Value { place(position) } else { None }, missing)
        });
        read_value(value, columns, row)
    }

    /// The parts of the rows' key; none: rows are numbered.
    pub(crate) fn key_parts(&self) -> impl Iterator<Item = &KeyPart> {
        let parts = match &self.key {
            RowKeyLayout::Number => &[][..],
            RowKeyLayout::Columns(parts) => parts,
        };
        parts.iter().map(|(_, part)| part)
    }

    /// What reads all columns.
    pub fn whole_reader(&self) -> RowReader {
        self.reader(&(0..self.columns.len()).collect::<Vec<_>>())
    }
}

/// Reads some columns of rows.
#[derive(Clone, Debug)]
pub struct RowReader {
    /// For each column up to the last one that is wanted: its kind, where it goes, its value in older rows.
    columns: Vec<(Kind, Option<usize>, Datum)>,
    /// For each part of the key up to the last one that is wanted.
    key: Vec<(KeyPart, Option<usize>)>,
    /// Places that no row has a value for: of dropped columns.
    nulls: Vec<usize>,
}

impl RowReader {
    /// Reads a row into `row`, which has a place for each column, replacing what is there.
    ///
    /// # Errors
    /// `XX001`: the bytes are no row of this table.
    pub fn read(&self, key: &[u8], value: &[u8], row: &mut [Datum]) -> SqlResult<()> {
        for place in &self.nulls {
            row[*place] = Datum::Null;
        }
        read_key(key, self.key.iter().map(|(part, place)| (part, *place)), row)?;
        if self.columns.is_empty() {
            return Ok(());
        }
        read_value(value, self.columns.iter().map(|(kind, place, missing)| (*kind, *place, missing)), row)
    }
}

/// Reads parts of a key, each into its place, if it has one.
fn read_key<'p>(
    key: &[u8],
    parts: impl Iterator<Item = (&'p KeyPart, Option<usize>)>,
    row: &mut [Datum],
) -> SqlResult<()> {
    let mut reader = PartReader::new(key);
    for (part, place) in parts {
        match place {
            None => part.skip(&mut reader)?,
            Some(place) => row[place] = part.read(&mut reader)?.unwrap_or_default(),
        }
    }
    Ok(())
}

/// Reads the first columns of a row's value, each into its place, if it has one.
fn read_value<'c>(
    value: &[u8],
    columns: impl Iterator<Item = (Kind, Option<usize>, &'c Datum)>,
    row: &mut [Datum],
) -> SqlResult<()> {
    let mut reader = ValueReader::new(value);
    if reader.byte()? != ROW_VERSION {
        return Err(damaged("its version is not known"));
    }
    let stored = reader.length()?;
    let bitmap = reader.take(stored.div_ceil(8))?;
    for (position, (kind, place, missing)) in columns.enumerate() {
        let is_stored = match bitmap.get(position / 8) {
            Some(byte) if position < stored => byte & (1 << (position % 8)) != 0,
            _ => {
                if let Some(place) = place {
                    row[place] = missing.clone();
                }
                continue;
            }
        };
        match (is_stored, place) {
            (true, Some(place)) => row[place] = reader.value(kind)?,
            (true, None) => reader.skip(kind)?,
            (false, Some(place)) => row[place] = Datum::Null,
            (false, None) => {}
        }
    }
    Ok(())
}

/// The number in the key of a row without a primary key.
///
/// # Errors
/// `XX001`: it is none.
pub fn row_number(key: &[u8]) -> SqlResult<u64> {
    u64::decode_last(key).map_err(|_| damaged("a row's number does not have eight bytes"))
}

#[cfg(test)]
mod tests;
