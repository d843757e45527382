//! Numbers that are given out once: of objects, of versions of tables, and of rows without a primary key.
//!
//! They are taken in blocks by transactions of their own, so a user's transaction neither waits for another's nor gives a number back.
//! Such a transaction is not waited for: it is in the log before any commit that uses one of its numbers, so no crash loses it alone.

use std::sync::Arc;

use seawall_engine::{Durability, Isolation, Transaction};
use seawall_values::{Oid, SqlError, SqlResult, SqlState};

use super::{SchemaStore, rows};
use crate::storage::engine_error::{EngineResult, sql_error};
use crate::storage::layout::RowNumbers;
use crate::storage::value::damaged;

/// The first number that PostgreSQL gives to an object of a user.
const FIRST_OID: u64 = 16_384;
/// Numbers of types that users make begin a range above (`seawall_values::user_types`), then those that `catalog::numbers` says.
const OIDS_END: u64 = 0x0C00_0000;
const OIDS_AT_ONCE: u64 = 64;
const VERSIONS_AT_ONCE: u64 = 4_096;
const ROWS_AT_ONCE: u64 = 4_096;

fn row_counter(storage: &str) -> String {
    format!("rows of {storage}")
}

/// The blocks that are in use.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    oids: std::ops::Range<u64>,
    versions: std::ops::Range<u64>,
}

impl SchemaStore {
    /// A number for an object.
    ///
    /// # Errors
    /// `54000`: there are none left; what the engine says.
    pub fn new_oid(&self) -> SqlResult<Oid> {
        let mut numbers = self.numbers.lock();
        let next = match numbers.oids.next() {
            Some(next) => next,
            None => {
                let mut block = self.take_block("oid", FIRST_OID, OIDS_AT_ONCE)?;
                let next = block.next().unwrap_or(OIDS_END);
                numbers.oids = block;
                next
            }
        };
        let in_range = Oid::try_from(next).ok().filter(|_| next < OIDS_END);
        in_range.ok_or_else(|| {
            SqlError::new(
                SqlState::PROGRAM_LIMIT_EXCEEDED,
                "no numbers for objects are left in this database",
            )
            .with_hint("Move the tables to a new database with pg_dump.")
        })
    }

    /// A version, higher than all before.
    ///
    /// # Errors
    /// What the engine says.
    pub(crate) fn new_version(&self) -> SqlResult<u64> {
        let mut numbers = self.numbers.lock();
        if let Some(next) = numbers.versions.next() {
            return Ok(next);
        }
        let mut block = self.take_block("version", 1, VERSIONS_AT_ONCE)?;
        let next = block.next().unwrap_or(u64::MAX);
        numbers.versions = block;
        Ok(next)
    }

    /// Numbers for rows of the engine's table with this name.
    pub(crate) fn new_row_numbers(&self, storage: &str) -> SqlResult<std::ops::Range<u64>> {
        self.take_block(&row_counter(storage), 1, ROWS_AT_ONCE)
    }

    /// What gives out numbers for the rows of an engine's table to all sessions.
    pub(crate) fn row_numbers(&self, storage: &str) -> Arc<RowNumbers> {
        let mut known = self.row_numbers.lock();
        if let Some(numbers) = known.get(storage) {
            return Arc::clone(numbers);
        }
        let numbers = Arc::<RowNumbers>::default();
        known.insert(Arc::from(storage), Arc::clone(&numbers));
        numbers
    }

    /// Forgets the numbers of an engine's table that goes, if the transaction commits.
    ///
    /// The row is written by transactions of their own, so one that sees an older moment could not delete it: it notes that here.
    pub(crate) fn discard_row_numbers(&self, transaction: &mut Transaction, storage: &str) -> SqlResult<()> {
        let note = rows::discarded(rows::Discarded::Counter, &rows::counter(&row_counter(storage)));
        self.put(transaction, &note, b"")
    }

    /// Forgets the state of a sequence, as `discard_row_numbers` does.
    pub(crate) fn discard_sequence(&self, transaction: &mut Transaction, state: u64) -> SqlResult<()> {
        let note = rows::discarded(rows::Discarded::Sequence, &state.to_be_bytes());
        self.put(transaction, &note, b"")
    }

    /// Notes, at once, that a table of the engine is being loaded for a transaction.
    pub(crate) fn note_load(&self, name: &str) -> SqlResult<()> {
        let note = rows::discarded(rows::Discarded::Table, name.as_bytes());
        let mut transaction = self.database.new_session().begin();
        transaction.put(&self.definitions, note, b"").sql()?;
        transaction.commit().map(drop).sql()
    }

    /// The table stays, if the transaction commits.
    pub(crate) fn remove_note_of_load(&self, transaction: &mut Transaction, name: &str) -> SqlResult<()> {
        self.delete(transaction, &rows::discarded(rows::Discarded::Table, name.as_bytes()))
    }

    /// Drops a table that was loaded in vain. One that is not visible yet, because standbys lack it, is dropped at the next open.
    pub(crate) fn drop_load(&self, name: &str) -> SqlResult<()> {
        let mut transaction = self.database.new_session().begin();
        match transaction.table(name) {
            Err(seawall_engine::Error::NoSuchTable { .. }) => return Ok(()),
            found => drop(found.sql()?),
        }
        transaction.drop_table(name).sql()?;
        self.remove_note_of_load(&mut transaction, name)?;
        transaction.commit().map(drop).sql()
    }

    /// Removes what was noted: nobody uses it, as the database has just been opened.
    pub(super) fn remove_discarded(&self, transaction: &mut Transaction) -> SqlResult<()> {
        for (note, _) in self.rows(transaction, &rows::all_discarded())? {
            match rows::discarded_row(&note) {
                Some((rows::Discarded::Counter, key)) => self.delete(transaction, key)?,
                Some((rows::Discarded::Sequence, key)) => transaction.delete(&self.sequences, key).sql()?,
                Some((rows::Discarded::Table, name)) => drop_if_there(transaction, name)?,
                None => return Err(damaged("the key of a discarded row")),
            }
            self.delete(transaction, &note)?;
        }
        Ok(())
    }

    fn take_block(&self, name: &str, first: u64, count: u64) -> SqlResult<std::ops::Range<u64>> {
        // A session of its own: it waits for no commit of another block, which may not be visible for as long as standbys lack it.
        let session = self.database.new_session();
        let mut transaction = session.with(Isolation::ReadCommitted).with(Durability::Async).begin();
        let (key, mut taken) = (rows::counter(name), 0..0);
        let take = |stored: Option<&[u8]>| -> Result<Option<[u8; 8]>, TakeError> {
            let next = match stored {
                Some(bytes) => u64::from_le_bytes(bytes.try_into().map_err(|_| TakeError::Damaged)?),
                None => first,
            };
            taken = next..next.saturating_add(count);
            Ok(Some(taken.end.to_le_bytes()))
        };
        transaction.try_update(&self.definitions, &key, take).map_err(|error| match error {
            TakeError::Damaged => damaged("a counter"),
            TakeError::Engine(error) => sql_error(&error),
        })?;
        transaction.commit_async().sql()?.wait().sql()?;
        Ok(taken)
    }
}

/// Why a block is not taken.
enum TakeError {
    Damaged,
    Engine(seawall_engine::Error),
}

impl From<seawall_engine::Error> for TakeError {
    fn from(error: seawall_engine::Error) -> TakeError {
        TakeError::Engine(error)
    }
}

fn drop_if_there(transaction: &mut Transaction, name: &[u8]) -> SqlResult<()> {
    let name = std::str::from_utf8(name).map_err(|_| damaged("the name of a table is not UTF-8"))?;
    match transaction.table(name) {
        Ok(_) => transaction.drop_table(name).sql(),
        Err(seawall_engine::Error::NoSuchTable { .. }) => Ok(()),
        Err(error) => Err(error).sql(),
    }
}
