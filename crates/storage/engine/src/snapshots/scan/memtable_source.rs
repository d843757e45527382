//! A memtable as a source of a scan's rows.

use std::ops::Bound;
use std::sync::Arc;

use seawall_memtable::{Cursor, Lookup, Memtable};
use seawall_types::Lsn;

use seawall_tree::Direction;

/// Where a row was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Value,
    Deleted,
}

/// A memtable, standing at its next row that the snapshot sees.
pub(super) struct MemtableSource {
    memtable: Arc<Memtable>,
    cursor: Cursor,
    /// The row it stands at, copied: the cursor's own borrow would not outlive a call.
    pub(super) key: Vec<u8>,
    pub(super) value: Vec<u8>,
    pub(super) found: Option<Found>,
}

impl MemtableSource {
    /// A source that stands at the first row, met in `direction`, of `from..to` that `snapshot` sees and that is inside.
    pub(super) fn starting_at(
        memtable: Arc<Memtable>,
        direction: Direction,
        (from, to): (&Bound<Vec<u8>>, &Bound<Vec<u8>>),
        snapshot: Lsn,
        inside: impl Fn(&[u8]) -> bool,
    ) -> MemtableSource {
        let mut source = MemtableSource {
            memtable,
            cursor: Cursor::new(),
            key: Vec::new(),
            value: Vec::new(),
            found: None,
        };
        source.seek(direction, from, to);
        source.advance(direction, snapshot, inside);
        source
    }

    /// Moves to the next row that `snapshot` sees and that is still inside.
    pub(super) fn advance(&mut self, direction: Direction, snapshot: Lsn, inside: impl Fn(&[u8]) -> bool) {
        self.found = loop {
            let next = match direction {
                Direction::Forward => self.cursor.next(&self.memtable),
                Direction::Reverse => self.cursor.previous(&self.memtable),
            };
            let Some((key, versions)) = next else { break None };
            if !inside(key) {
                break None;
            }
            let found = match versions.visible(snapshot) {
                Lookup::Missing => continue,
                Lookup::Deleted => Found::Deleted,
                Lookup::Value(value) => {
                    self.value.clear();
                    self.value.extend_from_slice(value);
                    Found::Value
                }
            };
            self.key.clear();
            self.key.extend_from_slice(key);
            break Some(found);
        };
    }

    /// Goes before the first row, met in `direction`, of `from..to`.
    fn seek(&mut self, direction: Direction, from: &Bound<Vec<u8>>, to: &Bound<Vec<u8>>) {
        // The cursor's `seek` goes before a key: after an excluded one, the smallest key that is greater is sought.
        let successor = |key: &Vec<u8>| [&key[..], &[0]].concat();
        let MemtableSource { memtable, cursor, .. } = self;
        match (direction, from, to) {
            (Direction::Forward, Bound::Included(key), _) => cursor.seek(memtable, key),
            (Direction::Forward, Bound::Excluded(key), _) => cursor.seek(memtable, &successor(key)),
            (Direction::Forward, Bound::Unbounded, _) => cursor.seek_to_first(memtable),
            (Direction::Reverse, _, Bound::Included(key)) => cursor.seek_reverse(memtable, &successor(key)),
            (Direction::Reverse, _, Bound::Excluded(key)) => cursor.seek_reverse(memtable, key),
            (Direction::Reverse, _, Bound::Unbounded) => cursor.seek_to_last(memtable),
        }
    }

    /// The row it stands at; `None` at the end.
    pub(super) fn current(&self) -> Option<&[u8]> {
        self.found.map(|_| &self.key[..])
    }
}
