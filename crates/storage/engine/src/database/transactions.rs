//! The options of a handle's transactions, and the retry of a transaction after a conflict.

use std::sync::Arc;

use seawall_types::Lsn;

use super::Database;
use crate::catalog::Table;
use crate::error::Error;
use crate::options::{Durability, Isolation, TransactionOptions};
use crate::transaction::Transaction;
use crate::transaction::lock_wait::LockWait;

/// A setting of transactions, for [`Database::with`].
pub trait TransactionSetting {
    /// Puts the setting into `options`, and leaves what it says nothing about.
    fn put_into(self, options: &mut TransactionOptions);
}

impl TransactionSetting for TransactionOptions {
    fn put_into(self, options: &mut TransactionOptions) {
        *options = self;
    }
}

impl TransactionSetting for Durability {
    fn put_into(self, options: &mut TransactionOptions) {
        options.durability = self;
    }
}

impl TransactionSetting for Isolation {
    fn put_into(self, options: &mut TransactionOptions) {
        options.isolation = self;
    }
}

impl TransactionSetting for LockWait {
    fn put_into(self, options: &mut TransactionOptions) {
        options.lock_wait = self;
    }
}

/// Begins transactions with options of their own: see [`Database::with`].
///
/// ```
/// # use seawall_engine::{Database, Durability, Error, Isolation};
/// # fn main() -> Result<(), Error> {
/// # let directory = tempfile::tempdir().expect("a scratch directory");
/// # let database = Database::open(directory.path(), Default::default())?;
/// # let table = database.create_table("visits")?;
/// database.with(Durability::Async).put(&table, "alice", "1")?;
/// database.with(Isolation::Serializable).with(Durability::Sync).transact(|transaction| {
///     transaction.put(&table, "bob", "1")
/// })?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Transactions<'a> {
    database: &'a Database,
    options: TransactionOptions,
}

/// Why a run of a transaction came to nothing, and whether another run may succeed.
struct Refused<E> {
    error: E,
    is_retryable: bool,
}

impl<'a> Transactions<'a> {
    pub(super) fn new(database: &'a Database, options: TransactionOptions) -> Transactions<'a> {
        Transactions { database, options }
    }

    /// The same with one more setting.
    #[must_use]
    pub fn with(mut self, setting: impl TransactionSetting) -> Transactions<'a> {
        setting.put_into(&mut self.options);
        self
    }

    /// Begins a transaction.
    pub fn begin(&self) -> Transaction {
        let Database { engine, session } = self.database;
        Transaction::new(Arc::clone(&engine.0), Arc::clone(session), self.options)
    }

    /// As [`Database::transact`].
    ///
    /// # Errors
    /// As `Database::transact`.
    pub fn transact<T>(&self, body: impl FnMut(&mut Transaction) -> Result<T, Error>) -> Result<T, Error> {
        self.try_transact(body)
    }

    /// As [`Database::try_transact`].
    ///
    /// # Errors
    /// As `Database::transact`.
    pub fn try_transact<T, E: From<Error>>(
        &self,
        mut body: impl FnMut(&mut Transaction) -> Result<T, E>,
    ) -> Result<T, E> {
        let engine = self.database.engine();
        let (clock, retry_for) = (engine.clock(), self.options.retry_for);
        let began = clock.monotonic();
        loop {
            match self.run_once(&mut body) {
                Ok(value) => return Ok(value),
                Err(refused)
                    if refused.is_retryable && clock.monotonic().saturating_sub(began) < retry_for =>
                {
                    // Whoever was in the way is logged. Until that is visible, a new snapshot would fail again.
                    engine.wait_for_all_logged(Some(&self.database.session.waits.cancel))?;
                }
                Err(refused) => return Err(refused.error),
            }
        }
    }

    fn run_once<T, E: From<Error>>(
        &self,
        body: &mut impl FnMut(&mut Transaction) -> Result<T, E>,
    ) -> Result<T, Refused<E>> {
        let mut transaction = self.begin();
        let value = body(&mut transaction)
            .map_err(|error| Refused { error, is_retryable: transaction.met_a_conflict() })?;
        // Of a conflict that `body` has passed over, the commit says no more than that the transaction has failed.
        let met_a_conflict = transaction.met_a_conflict();
        transaction.commit().map_err(|error| {
            let was_passed_over = met_a_conflict && matches!(error, Error::TransactionFailed { .. });
            Refused { is_retryable: was_passed_over || error.is_retryable(), error: error.into() }
        })?;
        Ok(value)
    }

    /// As [`Database::put`].
    ///
    /// # Errors
    /// As `Database::put`.
    pub fn put(&self, table: &Table, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<Lsn, Error> {
        self.write_one(table, key.as_ref(), Some(value.as_ref()))
    }

    /// As [`Database::delete`].
    ///
    /// # Errors
    /// As `Database::put`.
    pub fn delete(&self, table: &Table, key: impl AsRef<[u8]>) -> Result<Lsn, Error> {
        self.write_one(table, key.as_ref(), None)
    }

    fn write_one(&self, table: &Table, key: &[u8], value: Option<&[u8]>) -> Result<Lsn, Error> {
        let Database { engine, session } = self.database;
        let written = engine.0.write_one(table, key, value, self.options, session);
        written.map(|stamp| self.database.observed(stamp))
    }
}
