//! Reading one row at a snapshot: memtables from the newest down, then runs from the newest down, then the main part of the tree.
//!
//! The tree changes while readers read. A reader notes the tree's version before it takes the view of the memtables and runs, and
//! lets the tree answer only at that version, for each run and for its main part; otherwise it starts over. So between two looks no
//! merge moved a row from where the reader has not looked yet to where it has looked already.

use seawall_memtable::Lookup;
use seawall_tree::RunRow;
use seawall_types::{Lsn, PageId, TableId};

use crate::catalog::Table;
use crate::engine::Engine;
use crate::error::Error;
use crate::row_key;
use crate::runs::filter::row_hash;
use crate::snapshots::view::View;

/// Rows of a batch that are asked for at a time.
pub(crate) const READ_AHEAD_ROWS: usize = 64;
/// Rows of a batch that are looked at first.
const TRIED: usize = 4;

/// What runs know about a row.
enum InRuns<R> {
    Found(R),
    /// No run has the row: the main part of the tree knows.
    Missing,
    /// Another tree was published meanwhile.
    Changed,
}

impl Engine {
    /// Lets `read` look at the row that a registered snapshot sees.
    pub(crate) fn read_row<R>(
        &self,
        row_key: &[u8],
        snapshot: Lsn,
        read: impl FnOnce(Option<&[u8]>) -> R,
    ) -> Result<R, Error> {
        let mut read = Some(read);
        let mut take = || read.take().expect("a row is read once");
        loop {
            let version = self.tree.version();
            let view = self.view();
            self.check_snapshot(snapshot)?;
            match view.lookup(row_key, snapshot) {
                Lookup::Value(value) => return Ok(take()(Some(value))),
                Lookup::Deleted => return Ok(take()(None)),
                Lookup::Missing => {}
            }
            match self.read_runs(&view, version, row_key, snapshot, |value| take()(value))? {
                InRuns::Found(result) => return Ok(result),
                InRuns::Changed => continue,
                InRuns::Missing => {}
            }
            let found = self.tree.get_at(version, row_key, |value| take()(value));
            if let Some(result) = found.map_err(|error| Error::tree(&error))? {
                return Ok(result);
            }
        }
    }

    /// Looks for the row in the runs that the snapshot reads, newest first.
    #[inline]
    fn read_runs<R>(
        &self,
        view: &View,
        version: u64,
        row_key: &[u8],
        snapshot: Lsn,
        read: impl FnOnce(Option<&[u8]>) -> R,
    ) -> Result<InRuns<R>, Error> {
        if view.runs.is_empty() {
            return Ok(InRuns::Missing);
        }
        let Some(storage) = row_key::table_of(row_key) else { return Ok(InRuns::Missing) };
        let mut read = Some(read);
        let mut hash = None;
        for run in view.runs(snapshot).filter(|run| run.may_have_rows_of(storage)) {
            if !run.may_contain(row_key, *hash.get_or_insert_with(|| row_hash(row_key))) {
                continue;
            }
            let mut take =
                |value: Option<&[u8]>| read.take().expect("the first run with the row ends it")(value);
            let found = self.tree.pages().run_row_at(version, &run.key_of(row_key), |row| match row {
                RunRow::Absent => None,
                RunRow::Deleted => Some(take(None)),
                RunRow::Value(value) => Some(take(Some(value))),
            });
            match found.map_err(|error| Error::tree(&error))? {
                None => return Ok(InRuns::Changed),
                Some(Some(result)) => return Ok(InRuns::Found(result)),
                Some(None) => {}
            }
        }
        Ok(InRuns::Missing)
    }

    /// The registered snapshot soon reads the rows with these keys, at most `READ_AHEAD_ROWS`: what has to be read for them is read together.
    /// A hint. Where nothing has to be read for some of them, all over the batch, the others are not looked at.
    pub(crate) fn will_read<'k>(
        &self,
        storage: TableId,
        keys: impl IntoIterator<Item = &'k [u8]>,
        snapshot: Lsn,
    ) {
        let keys: Vec<&[u8]> = keys.into_iter().take(READ_AHEAD_ROWS).collect();
        let view = self.view();
        let mut leaves = Vec::new();
        let mut row_key = Vec::new();
        let mut look = |key: &[u8], leaves: &mut Vec<PageId>| {
            row_key::encode_into(&mut row_key, storage, key);
            self.leaves_to_read(&view, storage, &row_key, snapshot, leaves);
        };
        let is_tried = |place: usize| place.is_multiple_of(keys.len().div_ceil(TRIED));
        for (_, key) in keys.iter().enumerate().filter(|(place, _)| is_tried(*place)) {
            look(key, &mut leaves);
        }
        if leaves.is_empty() {
            return;
        }
        for (_, key) in keys.iter().enumerate().filter(|(place, _)| !is_tried(*place)) {
            look(key, &mut leaves);
        }
        self.tree.pages().will_read_leaves(leaves);
    }

    /// Adds the leaves that a read of the row has to read, as far as memory tells.
    fn leaves_to_read(
        &self,
        view: &View,
        storage: TableId,
        row_key: &[u8],
        snapshot: Lsn,
        leaves: &mut Vec<PageId>,
    ) {
        if !matches!(view.lookup(row_key, snapshot), Lookup::Missing) {
            return;
        }
        let mut hash = None;
        for run in view.runs(snapshot).filter(|run| run.may_have_rows_of(storage)) {
            if !run.may_contain(row_key, *hash.get_or_insert_with(|| row_hash(row_key))) {
                continue;
            }
            leaves.extend(self.tree.pages().leaf_to_read(&run.key_of(row_key)));
            if run.filter().is_some() {
                // It has the row, nearly always, and what is older is not read.
                return;
            }
        }
        leaves.extend(self.tree.pages().leaf_to_read(row_key));
    }

    /// Reads the row `key` of `table` at a registered snapshot.
    pub(crate) fn read_table_row<R>(
        &self,
        table: &Table,
        key: &[u8],
        lsn: Lsn,
        read: impl FnOnce(Option<&[u8]>) -> R,
    ) -> Result<R, Error> {
        let storage = self.storage_at(table, lsn)?;
        const STACK_BYTES: usize = 64;
        if key.len() <= STACK_BYTES - row_key::TABLE_BYTES {
            // Most keys are short: no allocation to look one up.
            let mut row_key = [0; STACK_BYTES];
            let length = row_key::TABLE_BYTES + key.len();
            row_key[..row_key::TABLE_BYTES].copy_from_slice(&storage.get().to_be_bytes());
            row_key[row_key::TABLE_BYTES..length].copy_from_slice(key);
            self.read_row(&row_key[..length], lsn, read)
        } else {
            self.read_row(&row_key::encode(storage, key), lsn, read)
        }
    }
}
