//! Rows that fill a new table of the engine: a few are written by the transaction, many are loaded past it.
//!
//! ```text
//!   few:   create_table, put, ..                                     gone with the transaction
//!   many:  note the name --> bulk load, published --> the transaction removes the note and names the table in a definition
//!                                                     else: dropped at once, or when the database is opened
//! ```
//! Nobody else knows of a table that was loaded before the transaction commits. Only a transaction that sees what is committed meanwhile
//! can use one.

use rustc_hash::{FxHashSet, FxHasher};
use seawall_engine::{BulkLoad, Direction};
use seawall_types::Lsn;
use seawall_values::SqlResult;

use crate::storage::engine_error::EngineResult;
use crate::storage::table_storage::TableStorage;

/// Rows that the transaction writes itself, in bytes. Few in unit tests, so that these load some.
const WRITTEN_BYTES_MAX: usize = if cfg!(test) { 2 << 10 } else { 4 << 20 };

/// The rows of a new table of the engine.
pub(crate) struct NewRows {
    name: String,
    first: Vec<(Vec<u8>, Vec<u8>)>,
    bytes: usize,
    load: Option<BulkLoad>,
}

impl NewRows {
    /// For a table with this name, which is not there yet.
    pub(crate) fn new(name: &str) -> NewRows {
        NewRows { name: name.to_owned(), first: Vec::new(), bytes: 0, load: None }
    }

    /// Adds a row.
    pub(crate) fn add(
        &mut self,
        tables: &mut TableStorage<'_>,
        key: Vec<u8>,
        value: Vec<u8>,
    ) -> SqlResult<()> {
        if let Some(load) = &mut self.load {
            return load.add(key, value).sql();
        }
        self.bytes += key.len() + value.len() + size_of::<(Vec<u8>, Vec<u8>)>();
        self.first.push((key, value));
        // A transaction with one snapshot would not see the table.
        if self.bytes > WRITTEN_BYTES_MAX && tables.transaction.snapshot_lsn().is_none() {
            tables.store.note_load(&self.name)?;
            let mut load = tables.database.tables().bulk_load(&self.name).sql()?;
            for (key, value) in self.first.drain(..) {
                load.add(key, value).sql()?;
            }
            self.load = Some(load);
        }
        Ok(())
    }

    /// Makes the table. `false`: two rows have one key.
    pub(crate) fn finish(mut self, tables: &mut TableStorage<'_>) -> SqlResult<bool> {
        let Some(mut load) = self.load.take() else { return self.write(tables) };
        load.finish().sql()?;
        tables.session.loaded.push(self.name.clone());
        tables.see_all_committed()?;
        let handle = tables.store.engine_table(tables.transaction, &self.name, tables.as_of)?;
        let mut scan = tables.transaction.open_scan::<&[u8]>(&handle, .., Direction::Forward).sql()?;
        let mut count = 0;
        while scan.next_row().sql()?.is_some() {
            count += 1;
        }
        Ok(count == load.row_count())
    }

    fn write(mut self, tables: &mut TableStorage<'_>) -> SqlResult<bool> {
        self.first.sort_unstable();
        let handle = tables.transaction.create_table(&self.name).sql()?;
        let is_distinct = self.first.windows(2).all(|pair| pair[0].0 != pair[1].0);
        for (key, value) in self.first {
            tables.transaction.put(&handle, key, value).sql()?;
        }
        Ok(is_distinct)
    }
}

/// Finds a key that comes again.
#[derive(Default)]
pub(crate) struct Repetition(FxHashSet<u64>);

impl Repetition {
    /// Whether the key was there before; seldom also one with the same hash.
    pub(crate) fn is_again(&mut self, key: &[u8]) -> bool {
        use std::hash::Hasher;
        let mut hasher = FxHasher::default();
        hasher.write(key);
        !self.0.insert(hasher.finish())
    }
}

impl TableStorage<'_> {
    /// From here on the statement sees all that was committed before.
    pub(crate) fn see_all_committed(&mut self) -> SqlResult<()> {
        self.database.observe(Lsn::new(u64::MAX));
        self.as_of = self.transaction.begin_statement().sql()?;
        Ok(())
    }

    /// The statement uses all that it has loaded: it stays, if the transaction commits.
    pub(crate) fn keep_loads(&mut self) -> SqlResult<()> {
        for name in std::mem::take(&mut self.session.loaded) {
            self.store.remove_note_of_load(self.transaction, &name)?;
        }
        Ok(())
    }

    /// The statement has failed: what it has loaded goes.
    pub(crate) fn drop_loads(&mut self) {
        for name in std::mem::take(&mut self.session.loaded) {
            if let Err(error) = self.store.drop_load(&name) {
                tracing::warn!(table = %name, %error, "a table that was loaded in vain is dropped at the next open");
            }
        }
    }
}
