//! Drops in the memtable: one row each, written out as the rows that it stands for only when it is merged.
//!
//! ```text
//!   drop:   names[name] := object, storage              in the log and the memtable, and all that a replay holds
//!   merge:  names[name]     deleted
//!           objects[object] deleted                     in the tree
//!           reclaim[storage] entered
//! ```
//! So a drop costs one row in the log, and a replay of many drops little memory. Readers who find such a row know that
//! there is no table of that name; who comes by the object's number looks whether the object has its name still
//! (`Engine::object_row`).
//!
//! Invariants:
//! * The tree never holds such a row: the merge of the memtable that does writes it out, in one chunk.
//! * A commit that takes the name before that lists the drop in `reclaim`, so that nothing is forgotten; the object's row goes
//!   when the memtable of the drop is merged, as if it had been deleted by the drop.
//!
//! What is on disk if the power goes: before the chunk, the row in the log, which a replay brings back; after it, the rows
//! that it stands for, and the redo point behind the drop.

use seawall_memtable::{Cursor, Memtable};
use seawall_types::{Lsn, TableId};

use crate::catalog::{self, NAMES, NameRow, ReclaimRow};
use crate::error::Error;
use crate::row_key;

/// Memory that the rows take for which a drop stands, when they are written out.
pub(crate) const WRITTEN_OUT_BYTES: u64 = 224;

/// A table that was dropped, as a memtable says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DroppedTable {
    pub(crate) object: u64,
    /// Where its rows are, which belong to no table.
    pub(crate) storage: TableId,
    /// Stamp of the drop.
    pub(crate) stamp: Lsn,
}

/// Calls `visit` with the newest version of each row of a system table that a memtable knows and that is not deleted.
fn for_each_row(
    memtable: &Memtable,
    table: TableId,
    mut visit: impl FnMut(&[u8], Lsn, &[u8]) -> Result<(), Error>,
) -> Result<(), Error> {
    let (from, to) = row_key::table_range(table);
    let mut cursor = Cursor::new();
    cursor.seek(memtable, &from);
    while let Some((key, versions)) = cursor.next(memtable) {
        if key >= &to[..] {
            break;
        }
        if let (stamp, Some(row)) = versions.newest() {
            visit(key, stamp, row)?;
        }
    }
    Ok(())
}

/// The drops in a memtable whose names were not taken there since.
pub(crate) fn dropped_in(memtable: &Memtable) -> Result<Vec<DroppedTable>, Error> {
    let mut found = Vec::new();
    for_each_row(memtable, catalog::NAMES, |key, stamp, row| {
        if let NameRow::Dropped { object, storage } = NameRow::decode_key(key, row)? {
            found.push(DroppedTable { object, storage, stamp });
        }
        Ok(())
    })?;
    Ok(found)
}

/// The drops whose names were taken since. Those up to `start` are in an older memtable, and written out there.
fn retaken_in(memtable: &Memtable, start: Lsn) -> Result<Vec<DroppedTable>, Error> {
    let mut found = Vec::new();
    for_each_row(memtable, catalog::RECLAIM, |key, _, row| {
        let storage = TableId::new(catalog::decode_id_key(key)?);
        match ReclaimRow::decode(storage, row)? {
            ReclaimRow::Object { object, dropped } if dropped > start => {
                found.push(DroppedTable { object, storage, stamp: dropped });
            }
            ReclaimRow::Object { .. } | ReclaimRow::Storage | ReclaimRow::Filling => {}
        }
        Ok(())
    })?;
    Ok(found)
}

/// Enters the rows that drops stand for into a frozen memtable whose commits are later than `start`; a second call does
/// nothing. For readers nothing changes.
pub(crate) fn write_out(memtable: &Memtable, start: Lsn) -> Result<(), Error> {
    // Before anything is entered: what is entered is in `reclaim` already.
    let retaken = retaken_in(memtable, start)?;
    let dropped = dropped_in(memtable)?;
    for table in &dropped {
        enter(
            memtable,
            &catalog::reclaim_key(table.storage),
            table.stamp,
            Some(&ReclaimRow::Storage.encode()),
        );
    }
    for table in dropped.iter().chain(&retaken) {
        enter(memtable, &catalog::object_key(table.object), table.stamp, None);
    }
    Ok(())
}

fn enter(memtable: &Memtable, key: &[u8], stamp: Lsn, value: Option<&[u8]>) {
    if memtable.newest_stamp(key).is_none_or(|newest| newest < stamp) {
        // As a version of its own: snapshots from before the drop go on seeing what was there.
        memtable.insert(key, stamp, value, || Lsn::ZERO);
    }
}

/// A row of a frozen memtable as the tree gets it: of a drop only that the name is gone.
pub(crate) fn as_merged<'v>(key: &[u8], value: Option<&'v [u8]>) -> Option<&'v [u8]> {
    value.filter(|value| !is_drop(key, value))
}

/// Whether a row is a drop.
pub(crate) fn is_drop(key: &[u8], value: &[u8]) -> bool {
    row_key::table_of(key) == Some(NAMES) && NameRow::is_dropped(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_memtable::Lookup;

    #[test]
    fn a_drop_is_written_out_once_and_old_snapshots_see_what_was() {
        let memtable = Memtable::new(1 << 20);
        let put = |key: &[u8], stamp, value: &[u8]| {
            memtable.insert(key, Lsn::new(stamp), Some(value), || Lsn::ZERO);
        };
        let dropped = NameRow::Dropped { object: 70, storage: TableId::new(80) };
        put(&catalog::name_key("made here"), 10, &NameRow::Table(70).encode());
        put(&catalog::object_key(70), 10, b"its row");
        put(&catalog::name_key("made here"), 20, &dropped.encode());
        // These names were taken again; one of them was given up before this memtable.
        for (object, at) in [(71, 20), (72, 5)] {
            let retaken = ReclaimRow::Object { object, dropped: Lsn::new(at) };
            put(&catalog::name_key(&object.to_string()), 30, &NameRow::Table(90).encode());
            put(&catalog::reclaim_key(TableId::new(object)), 30, &retaken.encode());
        }
        for _ in 0..2 {
            write_out(&memtable, Lsn::new(9)).unwrap();
            assert_eq!(dropped_in(&memtable).unwrap().len(), 1);
            assert_eq!(memtable.get(&catalog::object_key(70), Lsn::new(20)), Lookup::Deleted);
            assert_eq!(memtable.get(&catalog::object_key(70), Lsn::new(19)), Lookup::Value(b"its row"));
            let reclaim = catalog::reclaim_key(TableId::new(80));
            assert_eq!(memtable.get(&reclaim, Lsn::new(20)), Lookup::Value(b""));
            assert_eq!(memtable.get(&reclaim, Lsn::new(19)), Lookup::Missing);
            assert_eq!(memtable.get(&catalog::object_key(71), Lsn::new(20)), Lookup::Deleted);
            assert_eq!(memtable.newest_stamp(&catalog::object_key(72)), None);
            assert_eq!(memtable.row_count(), 8);
        }
        assert_eq!(as_merged(&catalog::name_key("made here"), Some(&dropped.encode())), None);
        let user = row_key::encode(TableId::new(64), b"k");
        assert!(as_merged(&user, Some(&dropped.encode())).is_some());
    }
}
