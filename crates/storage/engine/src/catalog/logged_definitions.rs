//! What the rows of the catalog in one record say: which numbers are taken, and which tables are created, moved, altered or dropped.

use std::collections::BTreeMap;

use seawall_types::TableId;
use seawall_wal::Changes;

use crate::catalog::{self, FIRST_LOCAL_TABLE, NameRow, ObjectRow, ReclaimRow};
use crate::error::Error;
use crate::row_key;

/// Tables that a record defines.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct LoggedDefinitions {
    /// Where the rows of each table are from then on, by object id; `None`: the table is dropped.
    pub(crate) tables: BTreeMap<u64, Option<TableId>>,
    /// Storages that are entered into `reclaim`.
    pub(crate) given_up: u64,
    /// Storages that are taken out of `reclaim`, as tables get them.
    pub(crate) filled: Vec<TableId>,
    /// The lowest id that is free, as far as the rows show.
    pub(crate) next_id: u64,
}

impl LoggedDefinitions {
    /// The definitions among `rows`: row keys and values.
    pub(crate) fn of<'r>(
        rows: impl Iterator<Item = (&'r [u8], Option<&'r [u8]>)>,
    ) -> Result<LoggedDefinitions, Error> {
        let mut found = LoggedDefinitions::default();
        // System tables come first in a write set, and no row of another table says anything.
        for (row_key, value) in rows {
            found.note(row_key, value)?;
        }
        found.finish();
        Ok(found)
    }

    /// Takes one row into account.
    pub(crate) fn note(&mut self, row_key: &[u8], value: Option<&[u8]>) -> Result<(), Error> {
        self.next_id = self.next_id.max(next_id(row_key, value)?);
        match (row_key::table_of(row_key), value) {
            (Some(catalog::NAMES), Some(row)) => {
                if let NameRow::Dropped { object, .. } = NameRow::decode_key(row_key, row)? {
                    self.given_up += 1;
                    self.tables.insert(object, None);
                }
            }
            (Some(catalog::OBJECTS), Some(row)) => {
                let id = catalog::decode_id_key(row_key)?;
                self.tables.entry(id).or_insert(Some(ObjectRow::decode(id, row)?.storage));
            }
            (Some(catalog::OBJECTS), None) => {
                self.tables.insert(catalog::decode_id_key(row_key)?, None);
            }
            (Some(catalog::RECLAIM), Some(row)) => {
                let storage = TableId::new(catalog::decode_id_key(row_key)?);
                self.given_up += u64::from(ReclaimRow::decode(storage, row)? == ReclaimRow::Storage);
            }
            (Some(catalog::RECLAIM), None) => {
                self.filled.push(TableId::new(catalog::decode_id_key(row_key)?));
            }
            _ => {}
        }
        Ok(())
    }

    /// All rows were noted.
    pub(crate) fn finish(&mut self) {
        let tables = &self.tables;
        self.filled.retain(|storage| tables.values().any(|place| *place == Some(*storage)));
    }
}

/// The lowest table id that is free, as far as a row of the catalog shows.
pub(crate) fn next_id(row_key: &[u8], value: Option<&[u8]>) -> Result<u64, Error> {
    let table = row_key::table_of(row_key);
    let highest = match value {
        // A table that was truncated and dropped at once has left its storage in this row alone.
        Some(row) if table == Some(catalog::NAMES) => match NameRow::decode_key(row_key, row)? {
            NameRow::Table(object) => object,
            NameRow::Dropped { object, storage } => object.max(storage.get()),
        },
        Some(row) if table == Some(catalog::OBJECTS) => {
            let id = catalog::decode_id_key(row_key)?;
            id.max(ObjectRow::decode(id, row)?.storage.get())
        }
        _ if table == Some(catalog::OBJECTS) || table == Some(catalog::RECLAIM) => {
            catalog::decode_id_key(row_key)?
        }
        _ => return Ok(0),
    };
    if highest >= FIRST_LOCAL_TABLE {
        return Err(Error::Catalog {
            place: format!("table {highest}"),
            problem: "no table has so high a number",
        });
    }
    Ok(highest + 1)
}

/// Whether a record gives the storage of a row of `reclaim` to a table.
pub(crate) fn gives_away(changes: Changes<'_>, reclaim_key: &[u8]) -> Result<bool, Error> {
    let storage = TableId::new(catalog::decode_id_key(reclaim_key)?);
    let mut row_key = Vec::new();
    for change in changes {
        let Ok(change) = change else { return Ok(false) };
        if let (catalog::OBJECTS, Some(row)) = (change.table(), change.value()) {
            change.copy_row_key(&mut row_key);
            if ObjectRow::decode(catalog::decode_id_key(&row_key)?, row)?.storage == storage {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(id: u64, storage: u64) -> (Vec<u8>, Option<Vec<u8>>) {
        let row = ObjectRow { storage: TableId::new(storage), created: 0, name: "t".to_owned() };
        (catalog::object_key(id), Some(row.encode()))
    }

    #[test]
    fn rows_of_a_record_say_which_tables_it_defines() {
        let dropped = NameRow::Dropped { object: 73, storage: TableId::new(98) };
        let rows = [
            (catalog::name_key("created"), Some(NameRow::Table(70).encode())),
            (catalog::name_key("dropped"), Some(dropped.encode())),
            object(70, 70),
            // Truncated, and filled in parts.
            object(71, 90),
            // Created and dropped.
            (catalog::object_key(72), None),
            object(73, 98),
            (catalog::reclaim_key(TableId::new(71)), Some(ReclaimRow::Storage.encode())),
            (catalog::reclaim_key(TableId::new(90)), None),
            (catalog::reclaim_key(TableId::new(91)), None),
            (row_key::encode(TableId::new(64), b"row"), Some(b"value".to_vec())),
        ];
        let found =
            LoggedDefinitions::of(rows.iter().map(|(key, value)| (&key[..], value.as_deref()))).unwrap();
        let at = |storage| Some(TableId::new(storage));
        assert_eq!(found.tables, [(70, at(70)), (71, at(90)), (72, None), (73, None)].into());
        assert_eq!((found.given_up, &found.filled[..], found.next_id), (2, &[TableId::new(90)][..], 99));
        let row = row_key::encode(TableId::new(64), b"row");
        let plain = LoggedDefinitions::of(std::iter::once((&row[..], None))).unwrap();
        assert_eq!(plain, LoggedDefinitions::default());
    }
}
