//! `Snapshot`: reads of one moment.

use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use seawall_sync::CancelToken;
use seawall_types::Lsn;

use crate::catalog::Table;
use crate::engine::Engine;
use crate::error::Error;
use crate::snapshots::RegisteredSnapshot;
use crate::snapshots::read::READ_AHEAD_ROWS;
use crate::snapshots::scan::{Direction, Range, Scan, row_bounds};

/// Everything that was committed at one moment.
#[derive(Debug)]
pub struct Snapshot {
    pub(super) engine: Arc<Engine>,
    pub(super) snapshot: RegisteredSnapshot,
    /// Of its session.
    pub(super) cancel: Arc<CancelToken>,
    /// It lacks a commit of its session, for this reason: nothing can be read.
    pub(super) lacks: Option<Error>,
}

impl Snapshot {
    /// It sees every commit stamped at most this.
    pub fn lsn(&self) -> Lsn {
        self.snapshot.lsn()
    }

    /// The table of this name at the snapshot.
    ///
    /// # Errors
    /// `NoSuchTable`, or damage met on the way.
    pub fn table(&self, name: &str) -> Result<Table, Error> {
        self.check_usable()?;
        let object = self.engine.object_named(name, self.lsn())?;
        let object = object.ok_or_else(|| Error::NoSuchTable { name: name.to_owned() })?;
        let object = self.engine.open_object(object, Some(&self.cancel))?;
        Ok(Table { name: Arc::from(name), object, as_of: self.lsn() })
    }

    /// The value of a row.
    ///
    /// # Errors
    /// `NoSuchTable`, or damage met on the way.
    pub fn get(&self, table: &Table, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>, Error> {
        self.get_with(table, key, |value| value.map(<[u8]>::to_vec))
    }

    /// Lets `read` look at the value of a row, without copying it.
    ///
    /// # Errors
    /// As `get`.
    pub fn get_with<R>(
        &self,
        table: &Table,
        key: impl AsRef<[u8]>,
        read: impl FnOnce(Option<&[u8]>) -> R,
    ) -> Result<R, Error> {
        self.check_usable()?;
        self.engine.read_table_row(table, key.as_ref(), self.lsn(), read)
    }

    /// The values of several rows, in the order of `keys`. What has to be read from disk for them is read together, some 64 rows at a time:
    /// of rows that are not cached, one thread gets several times as many a second as by one call of `get` after another.
    ///
    /// # Errors
    /// As `get`.
    pub fn get_many(&self, table: &Table, keys: &[impl AsRef<[u8]>]) -> Result<Vec<Option<Vec<u8>>>, Error> {
        let mut values = Vec::with_capacity(keys.len());
        for part in keys.chunks(READ_AHEAD_ROWS) {
            self.will_read(table, part)?;
            for key in part {
                values.push(self.get(table, key)?);
            }
        }
        Ok(values)
    }

    /// As `get_many`, for who reads the rows itself: `keys` are soon read. Of more than 64 the first are meant.
    ///
    /// # Errors
    /// `NoSuchTable`. What is wrong with a page is an error of the read.
    pub fn will_read(&self, table: &Table, keys: &[impl AsRef<[u8]>]) -> Result<(), Error> {
        self.check_usable()?;
        if keys.len() > 1 {
            let storage = self.engine.storage_at(table, self.lsn())?;
            self.engine.will_read(storage, keys.iter().map(AsRef::as_ref), self.lsn());
        }
        Ok(())
    }

    /// All rows of `table`, ascending.
    pub fn rows(&self, table: &Table) -> Range<'_> {
        self.range::<&[u8]>(table, ..)
    }

    /// The rows of `table` in `bounds`, ascending.
    pub fn range<K: AsRef<[u8]>>(&self, table: &Table, bounds: impl RangeBounds<K>) -> Range<'_> {
        self.scan(table, &bounds, Direction::Forward)
    }

    /// The rows of `table` in `bounds`, descending.
    pub fn range_reverse<K: AsRef<[u8]>>(&self, table: &Table, bounds: impl RangeBounds<K>) -> Range<'_> {
        self.scan(table, &bounds, Direction::Reverse)
    }

    /// Opens a scan of the rows of `table` in `bounds` that borrows nothing, and may outlive the snapshot.
    ///
    /// # Errors
    /// As `get`.
    pub fn open_scan<K: AsRef<[u8]>>(
        &self,
        table: &Table,
        bounds: impl RangeBounds<K>,
        direction: Direction,
    ) -> Result<Scan, Error> {
        self.check_usable()?;
        let storage = self.engine.storage_at(table, self.lsn())?;
        let snapshot = self.engine.register_snapshot_at(self.lsn());
        Ok(Scan::new(Arc::clone(&self.engine), snapshot, row_bounds(storage, &bounds), direction))
    }

    /// About how many rows of `table` are in `bounds`, for as much effort as two point reads. Rows that no checkpoint has taken up yet are
    /// not counted. Two more reads for each run; a row that was changed may be counted once more for each run that has the change.
    ///
    /// # Errors
    /// As `get`.
    pub fn estimate_rows<K: AsRef<[u8]>>(
        &self,
        table: &Table,
        bounds: impl RangeBounds<K>,
    ) -> Result<f64, Error> {
        self.check_usable()?;
        let storage = self.engine.storage_at(table, self.lsn())?;
        let key = |bound: Bound<Vec<u8>>| match bound {
            Bound::Included(key) | Bound::Excluded(key) => key,
            Bound::Unbounded => Vec::new(),
        };
        let (from, to) = row_bounds(storage, &bounds);
        let (from, to) = (key(from), key(to));
        let estimate = |from: &[u8], to: &[u8]| {
            self.engine.tree.estimate_rows(from, to).map_err(|error| Error::tree(&error))
        };
        let mut rows = estimate(&from, &to)?;
        let view = self.engine.view();
        for run in view.runs(self.lsn()).filter(|run| run.may_have_rows_of(storage)) {
            rows += estimate(&run.key_of(&from), &run.key_of(&to))? * run.share_of_values();
        }
        Ok(rows)
    }

    fn check_usable(&self) -> Result<(), Error> {
        self.engine.lifecycle.check_open()?;
        self.lacks.clone().map_or(Ok(()), Err)
    }

    fn scan<K: AsRef<[u8]>>(
        &self,
        table: &Table,
        bounds: &impl RangeBounds<K>,
        direction: Direction,
    ) -> Range<'_> {
        let storage = self.check_usable().and_then(|()| self.engine.storage_at(table, self.lsn()));
        match storage {
            Ok(storage) => {
                let (from, to) = row_bounds(storage, bounds);
                let snapshot = self.engine.register_snapshot_at(self.lsn());
                Range::new(&self.engine, snapshot, None, from, to, direction)
            }
            Err(error) => Range::failed(&self.engine, error),
        }
    }
}
