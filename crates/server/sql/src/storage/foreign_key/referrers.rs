//! Rows that refer to a key: by an index of theirs that begins with the columns, or by a look at all of them.

use std::sync::Arc;

use seawall_engine::{Direction, RowLock};
use seawall_types::Lsn;
use seawall_values::{Datum, SqlResult};

use super::{encoded, values_at};
use crate::execute::KeyRange;
use crate::schema::{ForeignKey, Index, IndexedValue, Table};
use crate::storage::engine_error::EngineResult;
use crate::storage::index_entry::IndexLayout;
use crate::storage::key::converted;
use crate::storage::kind::Kind;
use crate::storage::scan::bounds_of;
use crate::storage::table_storage::TableStorage;

/// Whether a row refers to the key.
pub(super) fn refers(table: &Table, key: &ForeignKey, row: &[Datum], wanted: &[Datum]) -> SqlResult<bool> {
    let Some(wanted) = as_stored(table, key, wanted) else { return Ok(false) };
    let values = values_at(row, &key.columns);
    Ok(encoded(table, &key.columns, &values)? == encoded(table, &key.columns, &wanted)?)
}

/// Values of the referred key, with the types of the referring columns; `None`: these cannot have such values.
fn as_stored(table: &Table, key: &ForeignKey, wanted: &[Datum]) -> Option<Vec<Datum>> {
    let pairs = key.columns.iter().zip(wanted);
    pairs.map(|(column, value)| converted(Kind::of(table.columns[*column].of.oid), value)).collect()
}

/// The columns of a foreign key in the order in which the index begins with them.
fn leading_columns(index: &Index, key: &ForeignKey) -> Option<Vec<usize>> {
    if index.predicate.is_some() || !index.is_valid || index.keys.len() < key.columns.len() {
        return None;
    }
    let column = |key: &crate::schema::IndexKey| match key.what {
        IndexedValue::Column(column) => Some(column),
        IndexedValue::Expression(_) => None,
    };
    let leading: Vec<usize> = index.keys[..key.columns.len()].iter().map(column).collect::<Option<_>>()?;
    key.columns.iter().all(|column| leading.contains(column)).then_some(leading)
}

impl TableStorage<'_> {
    /// The rows that refer to a key, as this transaction sees them. Under isolations with one snapshot, a row that was committed later
    /// is a conflict.
    pub(super) fn referrers(
        &mut self,
        table: &Arc<Table>,
        key: &ForeignKey,
        wanted: &[Datum],
    ) -> SqlResult<Vec<Vec<u8>>> {
        let Some(values) = as_stored(table, key, wanted) else { return Ok(Vec::new()) };
        let layout = self.layout(table)?;
        let indexed = layout.shape.indexes.iter().zip(&layout.index_handles).find_map(|(index, handle)| {
            leading_columns(&index.index, key).map(|leading| (index, handle, leading))
        });
        let fresh = self.database.snapshot();
        let is_one_snapshot = self.transaction.snapshot_lsn().is_some_and(|lsn: Lsn| lsn < fresh.lsn());
        let mut found = Vec::new();
        if let Some((index, handle, leading)) = indexed {
            let value = |column: &usize| {
                let position = key.columns.iter().position(|known| known == column);
                position.map_or(Datum::Null, |position| values[position].clone())
            };
            let range = KeyRange { equal: leading.iter().map(value).collect(), ..KeyRange::default() };
            let bounds = bounds_of(index.parts(), &range)?;
            let identity =
                |index: &IndexLayout, key: &[u8], value: &[u8]| index.row_key(key, value).map(<[u8]>::to_vec);
            let mut scan = self.transaction.open_scan(handle, bounds.clone(), Direction::Forward).sql()?;
            while let Some((key, value)) = scan.next_row().sql()? {
                found.push(identity(index, key, value)?);
            }
            if is_one_snapshot {
                let mut newer = fresh.range(handle, bounds);
                while let Some((key, value)) = newer.next_row().sql()? {
                    let identity = identity(index, key, value)?;
                    if !found.contains(&identity) {
                        self.newest(&layout, &identity, RowLock::KeyShare)?;
                    }
                }
            }
            return Ok(found);
        }
        let whole = &layout.shape.whole;
        let mut row = vec![Datum::Null; layout.shape.rows.column_count()];
        let mut scan = self.transaction.open_scan::<&[u8]>(&layout.handle, .., Direction::Forward).sql()?;
        while let Some((identity, value)) = scan.next_row().sql()? {
            whole.read(identity, value, &mut row)?;
            if refers(table, key, &row, wanted)? {
                found.push(identity.to_vec());
            }
        }
        if is_one_snapshot {
            let mut newer = fresh.rows(&layout.handle);
            while let Some((identity, value)) = newer.next_row().sql()? {
                whole.read(identity, value, &mut row)?;
                if refers(table, key, &row, wanted)? && !found.iter().any(|found| found == identity) {
                    self.newest(&layout, identity, RowLock::KeyShare)?;
                }
            }
        }
        Ok(found)
    }
}
