//! What an index has of a row.
//!
//! | part  | bytes | meaning                                                                                              |
//! |-------|------:|------------------------------------------------------------------------------------------------------|
//! | key   |    .. | the values that the index orders by (`storage::key`, with null marks)                                |
//! | key   |    .. | the key of the row, unless it is in the value                                                        |
//! | value |    .. | varint: length of the row's key, if it is here; else 0                                               |
//! | value |    .. | the key of the row, if it is here                                                                    |
//! | value |    .. | `INCLUDE`d columns, each: 0, or 1 and its value (`storage::value`)                                   |
//!
//! The key of the row is in the value where the values may be there once: in a unique index, unless one of them is null and nulls are
//! distinct. So two such entries have one key, and who writes the second one finds the first. A value that would be a single 0 is empty.
//!
//! The index of a deferrable constraint has its entries as one that is not unique: see `unique`.

use std::sync::Arc;

use seawall_codec::sort_key::PartReader;
use seawall_values::{Datum, Oid, SqlResult};

use crate::schema::{Column, Index, IndexedValue, Table};
use crate::storage::key::KeyPart;
use crate::storage::kind::Kind;
use crate::storage::value::{ValueReader, write_length, write_value};

/// Computes expressions of SQL over a row: `CHECK`, indexed expressions, predicates, defaults. The session implements it.
pub trait RowExpressions {
    /// The value of an expression over the columns of a row of the table.
    ///
    /// # Errors
    /// Those of the expression.
    fn evaluate(&mut self, table: &Arc<Table>, expression: &str, row: &[Datum]) -> SqlResult<Datum>;

    /// The value of an expression as the column `to` keeps it: of the column's type, and as the column's domain allows it.
    ///
    /// # Errors
    /// Those of the expression and of the conversion; `23502`, `23514`: the domain does not allow the value.
    fn assign(
        &mut self,
        table: &Arc<Table>,
        expression: &str,
        to: &Column,
        row: &[Datum],
    ) -> SqlResult<Datum>;
}

/// How the entries of an index are stored.
#[derive(Clone, Debug)]
pub struct IndexLayout {
    /// The index.
    pub index: Arc<Index>,
    parts: Vec<KeyPart>,
    included: Vec<(usize, Kind)>,
    /// The number of the deferrable constraint that it serves.
    deferrable: Option<Oid>,
}

/// An entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// Its key.
    pub key: Vec<u8>,
    /// Its value.
    pub value: Vec<u8>,
    /// Whether another row must not have the same key.
    pub is_exclusive: bool,
    /// How much of the key no other row must have in the end.
    pub exclusive_later: Option<usize>,
}

impl IndexLayout {
    /// The layout of an index of a table.
    pub fn of(table: &Table, index: &Arc<Index>) -> IndexLayout {
        let part = |key: &crate::schema::IndexKey| {
            KeyPart::nullable(Kind::of(key.of.oid), key.is_descending, key.is_nulls_first)
        };
        let included = |column: &usize| (*column, Kind::of(table.columns[*column].of.oid));
        IndexLayout {
            index: Arc::clone(index),
            parts: index.keys.iter().map(part).collect(),
            included: index.included.iter().map(included).collect(),
            deferrable: table.deferrable_constraint(index).map(|constraint| constraint.oid),
        }
    }

    /// The deferrable constraint that it serves.
    pub fn deferrable(&self) -> Option<Oid> {
        self.deferrable
    }

    /// What it orders by.
    pub fn parts(&self) -> &[KeyPart] {
        &self.parts
    }

    /// The values that the index orders by.
    ///
    /// # Errors
    /// Those of its expressions.
    pub fn values(
        &self,
        table: &Arc<Table>,
        row: &[Datum],
        expressions: &mut dyn RowExpressions,
    ) -> SqlResult<Vec<Datum>> {
        let value = |key: &crate::schema::IndexKey| match &key.what {
            IndexedValue::Column(column) => Ok(row[*column].clone()),
            IndexedValue::Expression(text) => expressions.evaluate(table, text, row),
        };
        self.index.keys.iter().map(value).collect()
    }

    /// The entry of a row; `None`: the index has none of it.
    ///
    /// # Errors
    /// Those of its expressions.
    pub fn entry(
        &self,
        table: &Arc<Table>,
        row: &[Datum],
        row_key: &[u8],
        expressions: &mut dyn RowExpressions,
    ) -> SqlResult<Option<Entry>> {
        if let Some(predicate) = &self.index.predicate
            && !matches!(expressions.evaluate(table, predicate, row)?, Datum::Bool(true))
        {
            return Ok(None);
        }
        let is_unique = self.index.is_unique || self.deferrable.is_some();
        let mut entry = Entry { is_exclusive: is_unique, ..Entry::default() };
        for (key, part) in self.index.keys.iter().zip(&self.parts) {
            let computed;
            let value = match &key.what {
                IndexedValue::Column(column) => &row[*column],
                IndexedValue::Expression(text) => {
                    computed = expressions.evaluate(table, text, row)?;
                    &computed
                }
            };
            entry.is_exclusive &= !value.is_null() || self.index.is_nulls_not_distinct;
            part.write(value, &mut entry.key)?;
        }
        if entry.is_exclusive && self.deferrable.is_some() {
            (entry.is_exclusive, entry.exclusive_later) = (false, Some(entry.key.len()));
        }
        if entry.is_exclusive {
            write_length(row_key.len(), &mut entry.value);
            entry.value.extend_from_slice(row_key);
        } else {
            entry.key.extend_from_slice(row_key);
            if !self.included.is_empty() {
                write_length(0, &mut entry.value);
            }
        }
        for (column, kind) in &self.included {
            let value = &row[*column];
            entry.value.push(u8::from(!value.is_null()));
            if !value.is_null() {
                write_value(*kind, value, &mut entry.value)?;
            }
        }
        Ok(Some(entry))
    }

    /// The key of the row that an entry is of.
    ///
    /// # Errors
    /// `XX001`: the bytes are no entry.
    pub fn row_key<'a>(&self, key: &'a [u8], value: &'a [u8]) -> SqlResult<&'a [u8]> {
        let in_value = self.row_key_in_value(value)?.0;
        if !in_value.is_empty() {
            return Ok(in_value);
        }
        let mut reader = PartReader::new(key);
        self.parts.iter().try_for_each(|part| part.skip(&mut reader))?;
        Ok(reader.rest())
    }

    fn row_key_in_value<'a>(&self, value: &'a [u8]) -> SqlResult<(&'a [u8], ValueReader<'a>)> {
        let mut reader = ValueReader::new(value);
        if value.is_empty() {
            return Ok((&[], reader));
        }
        Ok((reader.bytes()?, reader))
    }

    /// What reads the columns at `wanted`, by position in the table, from entries alone; `None`: entries do not have all of them.
    pub fn reader(&self, wanted: &[usize]) -> Option<EntryReader> {
        let is_column = |key: &crate::schema::IndexKey, wanted| matches!(key.what, IndexedValue::Column(column) if column == wanted);
        let mut reader = EntryReader { parts: vec![], included: vec![] };
        reader.parts.extend(self.parts.iter().map(|part| (*part, None)));
        reader.included.extend(self.included.iter().map(|(_, kind)| (*kind, None)));
        for (slot, wanted) in wanted.iter().enumerate() {
            let in_key = self
                .index
                .keys
                .iter()
                .zip(&self.parts)
                .position(|(key, part)| is_column(key, *wanted) && part.kind.is_exact_in_keys());
            let in_value = self.included.iter().position(|(column, _)| column == wanted);
            match (in_key, in_value) {
                (Some(position), _) => reader.parts[position].1 = Some(slot),
                (None, Some(position)) => reader.included[position].1 = Some(slot),
                (None, None) => return None,
            }
        }
        let until = reader.parts.iter().rposition(|(_, slot)| slot.is_some());
        reader.parts.truncate(until.map_or(0, |last| last + 1));
        let until = reader.included.iter().rposition(|(_, slot)| slot.is_some());
        reader.included.truncate(until.map_or(0, |last| last + 1));
        Some(reader)
    }
}

/// Reads columns from entries.
#[derive(Clone, Debug)]
pub struct EntryReader {
    parts: Vec<(KeyPart, Option<usize>)>,
    included: Vec<(Kind, Option<usize>)>,
}

impl EntryReader {
    /// Reads an entry into `row`, which has a place for each column, replacing what is there.
    ///
    /// # Errors
    /// `XX001`: the bytes are no entry.
    pub fn read(&self, key: &[u8], value: &[u8], row: &mut [Datum]) -> SqlResult<()> {
        let mut reader = PartReader::new(key);
        for (part, slot) in &self.parts {
            match slot {
                None => part.skip(&mut reader)?,
                Some(slot) => row[*slot] = part.read(&mut reader)?.unwrap_or_default(),
            }
        }
        if self.included.is_empty() {
            return Ok(());
        }
        let mut reader = ValueReader::new(value);
        reader.bytes()?;
        for (kind, slot) in &self.included {
            let is_null = reader.byte()? == 0;
            match (is_null, slot) {
                (true, Some(slot)) => row[*slot] = Datum::Null,
                (true, None) => {}
                (false, Some(slot)) => row[*slot] = reader.value(*kind)?,
                (false, None) => reader.skip(*kind)?,
            }
        }
        Ok(())
    }
}
