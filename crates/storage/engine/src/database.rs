//! `Database`: the face of the engine for programs.
//!
//! ```text
//!   DatabaseDirectory --open--> Database --begin, transact--> Transaction
//!                                  |-- with(durability, isolation) --> Transactions    with options of their own
//!                                  |-- snapshot --> Snapshot                           reads at one moment
//!                                  |-- tables ----> Tables                             list, drop, rename, truncate, load
//!                                  |-- two_phase -> TwoPhase                           decisions about prepared transactions
//!                                  |-- quorum ----> Quorum                           standbys that commits wait for
//!                                  |-- standby ---> Standby                            receiving, applying, promotion
//!                                  \-- log -------> DatabaseLog                        archives, holds, restore points
//! ```
//! The handles on the right borrow the database and cost nothing.

mod directory;
mod handover;
mod locks;
mod log;
mod quorum;
mod snapshot;
mod standby;
mod tables;
mod transactions;
mod two_phase;

pub use directory::DatabaseDirectory;
pub use handover::Handover;
pub use locks::SessionLocks;
pub use log::DatabaseLog;
pub use quorum::Quorum;
pub use snapshot::Snapshot;
pub use standby::Standby;
pub use tables::{TableInfo, Tables};
pub use transactions::{TransactionSetting, Transactions};
pub use two_phase::TwoPhase;

use std::sync::Arc;

use seawall_keys::{MasterKey, OtherMasterKeys};
use seawall_types::Lsn;

use crate::catalog::Table;
use crate::checkpoint::statistics::CheckpointStatistics;
use crate::engine::Engine;
use crate::environment::Environment;
use crate::error::Error;
use crate::inspect::check::{CheckSummary, Damage};
use crate::inspect::runs::RunInfo;
use crate::inspect::statistics::{DatabaseInfo, Statistics};
use crate::options::{Isolation, Options};
use crate::recovery::timeline::Continuation;
use crate::transaction::Transaction;
use crate::transaction::session::Session;

/// A database: a directory with a log, a page file and a recovery file, open in this process.
///
/// Handles are cheap to clone and usable from any thread. Clones share a session: see [`Database::new_session`]. When the
/// last one goes, the database is closed; call
/// [`Database::close`] to see whether that succeeded.
#[derive(Clone, Debug)]
pub struct Database {
    engine: Arc<OpenEngine>,
    session: Arc<Session>,
}

/// Closes the engine with the last handle. Transactions and snapshots hold the engine itself, so they outlive this
/// and answer with `Closed`.
#[derive(Debug)]
struct OpenEngine(Arc<Engine>);

impl Drop for OpenEngine {
    fn drop(&mut self) {
        if let Err(error) = self.0.close() {
            tracing::error!(%error, "closing the database failed; the next open recovers");
        }
    }
}

impl Database {
    /// Opens the database in the directory at `place`, recovering it if it was not closed. A place is a path, or an
    /// [`Environment`] with any disk and clock. What else can be done with a directory is in [`DatabaseDirectory`].
    ///
    /// # Errors
    /// `InUse`, `NoDatabase`, `NotEmpty` as the mode asks, `Encrypted`, `NotEncrypted`, `MasterKey`, `WrongMasterKey` and
    /// `Keys` where the master key is not the one that is needed, `Option` for a value that cannot be, `Log` and `Tree` for
    /// damage: nothing is changed then.
    pub fn open(place: impl Into<Environment>, options: Options) -> Result<Database, Error> {
        Engine::open(place.into(), options, Continuation::Same, |_| {}).map(Database::of)
    }

    pub(crate) fn of(engine: Arc<Engine>) -> Database {
        Database { engine: Arc::new(OpenEngine(engine)), session: Arc::default() }
    }

    /// A handle to the same database with a session of its own.
    ///
    /// All that a session commits is seen by what the session reads later, and so by all clones of its handles. What
    /// another session commits is seen once it is durable, or, with `Durability::Async`, a flush later at most where `Sync`
    /// commits are ahead of it. In return no reader waits for the disk because another session commits `Async`. A server
    /// gives each of its connections a session.
    ///
    /// When the database has stopped (`Stopped`), a session whose `Async` commit may be lost reads no more, and others do.
    pub fn new_session(&self) -> Database {
        Database { engine: Arc::clone(&self.engine), session: Arc::default() }
    }

    /// From now on this session sees the commit stamped `stamp`, of whatever session, and all before it.
    pub fn observe(&self, stamp: Lsn) {
        // What no commit has reached would be waited for without end.
        self.engine().show_to(&self.session, stamp.min(self.engine().queue.last_entered()));
    }

    /// The stamp of a commit that has returned: this session sees it.
    fn observed(&self, stamp: Lsn) -> Lsn {
        self.engine().show_to(&self.session, stamp);
        stamp
    }

    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.engine.0
    }

    /// Creates an empty table, in a transaction of its own.
    ///
    /// # Errors
    /// `TableExists`, `TableName`, and those of a commit.
    pub fn create_table(&self, name: &str) -> Result<Table, Error> {
        self.define(|transaction| transaction.create_table(name))
    }

    /// The table of this name, created if it does not exist.
    ///
    /// # Errors
    /// `TableName`, and those of a commit.
    pub fn open_or_create_table(&self, name: &str) -> Result<Table, Error> {
        loop {
            match self.table(name) {
                Err(Error::NoSuchTable { .. }) => {}
                found => return found,
            }
            match self.create_table(name) {
                // Another thread was faster. By the time it is looked for, it may have been dropped again.
                Err(Error::TableExists { .. }) => {}
                created => return created,
            }
        }
    }

    /// The table of this name.
    ///
    /// # Errors
    /// `NoSuchTable`, or damage met on the way.
    pub fn table(&self, name: &str) -> Result<Table, Error> {
        self.with(Isolation::ReadCommitted).begin().table(name)
    }

    /// Stamp of the last commit since open that created, dropped, truncated or altered a table. It costs one load, for those who keep
    /// what they have planned: a plan that was made from a snapshot is good for later ones as long as this is not
    /// above that snapshot. It may be a commit that is not visible yet.
    pub fn definitions_changed_at(&self) -> Lsn {
        self.engine().objects.defined_at()
    }

    fn define<T>(&self, body: impl FnOnce(&mut Transaction) -> Result<T, Error>) -> Result<T, Error> {
        let mut transaction = self.with(Isolation::ReadCommitted).begin();
        let result = body(&mut transaction)?;
        transaction.commit()?;
        Ok(result)
    }

    /// The role of the primary, to be handed over to a standby without losing a commit.
    pub fn handover(&self) -> Handover<'_> {
        Handover::new(self)
    }

    /// The standbys that commits of `Durability::Replicated` wait for.
    pub fn quorum(&self) -> Quorum<'_> {
        Quorum::new(self)
    }

    /// What a standby does besides reading; `None` if the database was not opened by [`DatabaseDirectory::follow`], or was promoted.
    pub fn standby(&self) -> Option<Standby<'_>> {
        self.engine().log.received().map(|_| Standby::new(self))
    }

    /// The tables there are, and what is done to one as a whole: drop, rename, truncate, load.
    pub fn tables(&self) -> Tables<'_> {
        Tables::new(self)
    }

    /// Transactions that differ from the options of the database in `setting`: a durability, an isolation, a wait for locks, or
    /// all of them. For one call, `database.with(Durability::Async).put(..)`, or for many.
    pub fn with(&self, setting: impl TransactionSetting) -> Transactions<'_> {
        self.transactions().with(setting)
    }

    fn transactions(&self) -> Transactions<'_> {
        Transactions::new(self, self.engine().options.transaction)
    }

    /// Begins a transaction with the options of the database.
    pub fn begin(&self) -> Transaction {
        self.transactions().begin()
    }

    /// Runs `body` in a transaction and commits. If `body` returns an error, nothing is committed, and the caller gets the error.
    /// A `body` that returns `Ok` commits, also `Ok(Err(..))`: for errors of your own there is [`Database::try_transact`].
    ///
    /// If another transaction was in the way ([`Error::is_retryable`]), in a call of `body` or at the commit, all of it is run
    /// again, whatever error `body` made of that, and also if it passed over an error that ended the transaction. So `body` may run
    /// many times and must have no effects but on the transaction. A new run begins as soon as what was in the way is visible. None begins when `retry_for` of the options has
    /// passed since the first one did; their number has no limit.
    ///
    /// # Errors
    /// The error of `body` or of the commit: the first that is not retryable, or the last that is.
    pub fn transact<T>(&self, body: impl FnMut(&mut Transaction) -> Result<T, Error>) -> Result<T, Error> {
        self.transactions().transact(body)
    }

    /// As [`Database::transact`], with any error that can be made of an [`Error`]: so a program ends a transaction for a reason
    /// of its own.
    ///
    /// ```
    /// # use seawall_engine::{Database, Error, Transaction};
    /// #[derive(Debug)]
    /// enum TransferError {
    ///     NotEnough,
    ///     Database(Error),
    /// }
    ///
    /// impl From<Error> for TransferError {
    ///     fn from(error: Error) -> TransferError {
    ///         TransferError::Database(error)
    ///     }
    /// }
    ///
    /// # fn main() -> Result<(), TransferError> {
    /// # let directory = tempfile::tempdir().expect("a scratch directory");
    /// # let database = Database::open(directory.path(), Default::default())?;
    /// # let accounts = database.create_table("accounts")?;
    /// let transferred: Result<(), TransferError> = database.try_transact(|transaction| {
    ///     transaction.put(&accounts, "bob", "100")?;
    ///     match transaction.get_for_update(&accounts, "alice")? {
    ///         Some(_) => Ok(transaction.put(&accounts, "alice", "0")?),
    ///         None => Err(TransferError::NotEnough), // what was written to bob is not committed
    ///     }
    /// });
    /// assert!(matches!(transferred, Err(TransferError::NotEnough)));
    /// assert_eq!(database.get(&accounts, "bob")?, None);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As `transact`.
    pub fn try_transact<T, E: From<Error>>(
        &self,
        body: impl FnMut(&mut Transaction) -> Result<T, E>,
    ) -> Result<T, E> {
        self.transactions().try_transact(body)
    }

    /// Everything committed now, to read from for as long as it is kept.
    pub fn snapshot(&self) -> Snapshot {
        let engine = Arc::clone(self.engine());
        let lacks = engine.wait_for_session(&self.session).err();
        let cancel = Arc::clone(&self.session.waits.cancel);
        Snapshot { snapshot: engine.register_snapshot(), engine, cancel, lacks }
    }

    /// Sets a row, in a transaction of its own; the commit's stamp.
    ///
    /// # Errors
    /// The errors of `Transaction::put` and `Transaction::commit`.
    pub fn put(&self, table: &Table, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<Lsn, Error> {
        self.transactions().put(table, key, value)
    }

    /// Deletes a row, in a transaction of its own; the commit's stamp.
    ///
    /// # Errors
    /// As `put`.
    pub fn delete(&self, table: &Table, key: impl AsRef<[u8]>) -> Result<Lsn, Error> {
        self.transactions().delete(table, key)
    }

    /// The value of a row now.
    ///
    /// # Errors
    /// `NoSuchTable`, or damage met on the way.
    pub fn get(&self, table: &Table, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>, Error> {
        self.get_with(table, key, |value| value.map(<[u8]>::to_vec))
    }

    /// Lets `read` look at the value of a row now, without copying it.
    ///
    /// # Errors
    /// As `get`.
    pub fn get_with<R>(
        &self,
        table: &Table,
        key: impl AsRef<[u8]>,
        read: impl FnOnce(Option<&[u8]>) -> R,
    ) -> Result<R, Error> {
        let engine = self.engine();
        engine.lifecycle.check_open()?;
        engine.wait_for_session(&self.session)?;
        engine.with_current_snapshot(|lsn| engine.read_table_row(table, key.as_ref(), lsn, read))
    }

    /// The prepared transactions, and the decisions about them.
    pub fn two_phase(&self) -> TwoPhase<'_> {
        TwoPhase::new(self, self.engine().options.transaction.durability)
    }

    /// The log: its archives, who keeps it, names of positions in it, and the timeline.
    pub fn log(&self) -> DatabaseLog<'_> {
        DatabaseLog::new(self)
    }

    /// Runs a checkpoint to its end.
    ///
    /// # Errors
    /// `DiskFull`, `Stopped`, or damage met in a page that had to be read.
    pub fn checkpoint(&self) -> Result<CheckpointStatistics, Error> {
        self.engine().checkpoint_now()
    }

    /// Makes everything committed so far durable; the LSN up to which the log is.
    ///
    /// # Errors
    /// `Stopped`.
    pub fn flush(&self) -> Result<Lsn, Error> {
        self.engine().flush()
    }

    /// Reads everything, and tells `report` of each damage. Other work goes on meanwhile; a checkpoint that wants to run has
    /// its turn between two leaves.
    ///
    /// # Errors
    /// What kept the check from going on. Damage is no error: it is in the summary and was reported.
    pub fn check(&self, report: &mut dyn FnMut(Damage)) -> Result<CheckSummary, Error> {
        self.engine().check(report)
    }

    /// The name of the database's directory: the one that it was opened by, or where the directory has been moved to since. A
    /// database stays in the directory that it was opened in, whatever takes its name.
    pub fn directory(&self) -> String {
        self.engine().environment.disk.location("")
    }

    /// What the database has done since it was opened.
    pub fn statistics(&self) -> Statistics {
        self.engine().statistics()
    }

    /// What the database is: identity, sizes, log, last checkpoint.
    ///
    /// # Errors
    /// `Io` if the directory cannot be listed.
    pub fn info(&self) -> Result<DatabaseInfo, Error> {
        self.engine().info()
    }

    /// Its sorted runs, the newest first. Reads interior pages of all of them, and waits for the slice of a checkpoint that is under way.
    ///
    /// # Errors
    /// `Tree` if a page cannot be read.
    pub fn runs(&self) -> Result<Vec<RunInfo>, Error> {
        self.engine().run_infos()
    }

    /// Closes the database for all its handles: what is committed is flushed and merged into the tree, so that the
    /// next open has nothing to replay.
    ///
    /// # Errors
    /// `Stopped`, `DiskFull`: nothing acknowledged is lost, the next open replays the log.
    pub fn close(self) -> Result<(), Error> {
        self.engine().close()
    }

    /// Lets `new` open the database from now on, and with `OtherMasterKeys::Drop` no other master key any more. Rewrites
    /// the file `keys`, nothing else, while everybody goes on. Durable when it returns: keep the old one until then.
    ///
    /// # Errors
    /// `NotEncrypted`; `MasterKey` if `new` cannot be read, or too many others are kept; `Keys`, `Io`: the old master keys
    /// are then in force, or after an `Io` perhaps the new one.
    pub fn rotate_master_key(&self, new: &MasterKey, others: OtherMasterKeys) -> Result<(), Error> {
        self.engine().rotate_master_key(new, others)
    }
}
