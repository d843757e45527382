//! The rows of a storage without writers, as a bulk load has put them into the tree.
//!
//! They are read in batches, each at a snapshot of its own: for one snapshot of all, checkpoints would keep what the tree had,
//! until it is cancelled, and the load with it.

use std::ops::Bound;

use seawall_types::TableId;

use crate::engine::Engine;
use crate::error::Error;
use crate::snapshots::scan::{self, Direction};

/// A batch has about this many bytes.
const BATCH_BYTES: usize = 1 << 20;

/// Key, as the tree has it, and value.
pub(crate) type LoadedRow = (Vec<u8>, Vec<u8>);

/// See the module.
pub(crate) struct LoadedRows<'e> {
    engine: &'e Engine,
    from: Bound<Vec<u8>>,
    to: Bound<Vec<u8>>,
    batch: std::vec::IntoIter<LoadedRow>,
}

impl<'e> LoadedRows<'e> {
    /// All rows of `storage`, ascending.
    pub(crate) fn of(engine: &'e Engine, storage: TableId) -> LoadedRows<'e> {
        let (from, to) = scan::row_bounds::<&[u8]>(storage, &..);
        LoadedRows { engine, from, to, batch: Vec::new().into_iter() }
    }

    /// The next row.
    pub(crate) fn next(&mut self) -> Result<Option<LoadedRow>, Error> {
        if self.batch.len() == 0 {
            self.batch = self.next_batch()?.into_iter();
        }
        Ok(self.batch.next())
    }

    /// The next rows; none at the end.
    pub(crate) fn next_batch(&mut self) -> Result<Vec<LoadedRow>, Error> {
        let rows = loop {
            match self.read_batch() {
                // Each try is at a younger snapshot, and a checkpoint has to end meanwhile to cancel that.
                Err(Error::SnapshotCancelled { .. }) => self.engine.lifecycle.check_open()?,
                read => break read?,
            }
        };
        if let Some((last, _)) = rows.last() {
            self.from = Bound::Excluded(last.clone());
        }
        Ok(rows)
    }

    fn read_batch(&self) -> Result<Vec<LoadedRow>, Error> {
        let (snapshot, to) = (self.engine.register_snapshot(), self.to.clone());
        let mut range =
            scan::Range::new(self.engine, snapshot, None, self.from.clone(), to, Direction::Forward);
        let (mut rows, mut bytes) = (Vec::new(), 0);
        while bytes < BATCH_BYTES
            && let Some((key, value)) = range.next_entry()?
        {
            bytes += key.len() + value.len();
            rows.push((key.to_vec(), value.to_vec()));
        }
        Ok(rows)
    }
}
