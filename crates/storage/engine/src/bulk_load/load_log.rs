//! Decides whether a bulk load logs its rows: for an archive or a backup, which would miss them otherwise.
//!
//! ```text
//!   rows in the tree --> record "bulk load" --> commit that publishes the table      they are not needed in the log
//!   rows in the tree --> commits with the rows --> commit that publishes the table   they are
//! ```
//! Invariants:
//! * The rows are in the tree, durably, before the record is in the log, and that before the table is published.
//! * While they are needed, no such record gets into the log: it is refused in the log's critical section. So a log that
//!   was needed from a position on has every row behind it, and a tree that was read after that position has every row that
//!   was loaded past the log.
//!
//! What is on disk if the power goes: the storage is listed in `reclaim` until the table is published, whichever way its rows
//! came; those that were logged are cut out with the others.

use std::sync::Arc;

use seawall_types::{Lsn, TableId};

use crate::bulk_load::loaded_rows::LoadedRows;
use crate::engine::Engine;
use crate::error::Error;
use crate::options::Durability;
use crate::transaction::commit_request::CommitRequest;

/// As long as this is kept, rows of bulk loads are logged.
#[derive(Debug)]
pub(crate) struct LoadsLogged {
    engine: Arc<Engine>,
    /// No record from here on says that rows were loaded past the log.
    pub(crate) since: Lsn,
}

impl Drop for LoadsLogged {
    fn drop(&mut self) {
        self.engine.loads.release_log();
    }
}

/// The record is not wanted in the log: the rows are.
struct RowsNeeded;

impl Engine {
    /// From now on loads are logged, as long as what is returned is kept.
    pub(crate) fn need_loads_in_log(self: &Arc<Self>) -> Result<LoadsLogged, Error> {
        let since = self.log()?.in_order(|next| {
            self.loads.need_log();
            next
        });
        let since = since?;
        Ok(LoadsLogged { engine: Arc::clone(self), since })
    }

    /// As `need_loads_in_log`, for as long as the database is open.
    pub(crate) fn always_log_loads(&self) -> Result<(), Error> {
        let counted = self.log()?.in_order(|_| self.loads.need_log());
        counted.map_err(Error::from)
    }

    /// Tells the log of rows that were loaded into `storage`, and are in the tree; whether it got the rows themselves.
    pub(crate) fn tell_log_of_load(&self, storage: TableId) -> Result<bool, Error> {
        let mut record =
            seawall_wal::BulkLoad { table: storage, time_micros: self.clock().wall_micros() }.prepare();
        let appended = self.append(&mut record, |_| {
            let is_needed = self.loads.is_log_needed();
            if is_needed { Err(RowsNeeded) } else { Ok(()) }
        });
        match appended? {
            Ok(_) => Ok(false),
            Err(RowsNeeded) => self.log_rows(storage).map(|()| true),
        }
    }

    /// Logs all rows of a storage that has no other writer, each batch in a commit.
    fn log_rows(&self, storage: TableId) -> Result<(), Error> {
        let mut loaded = LoadedRows::of(self, storage);
        loop {
            let rows = loaded.next_batch()?;
            if rows.is_empty() {
                return Ok(());
            }
            let bytes = rows.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>();
            let request = CommitRequest::plain(self.locks.new_owner(), Durability::Async);
            let all = rows.iter().map(|(key, value)| (&key[..], Some(&value[..])));
            self.log_commit(&request, all, u64::try_from(bytes).unwrap_or(u64::MAX))?;
        }
    }
}
