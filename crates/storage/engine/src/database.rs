//! What a program sees: the database, and snapshots of it.

mod log;

use std::ops::RangeBounds;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use seawall_io::{Disk, OsDisk};
use seawall_keys::{MasterKey, OtherMasterKeys};
use seawall_types::Lsn;
use seawall_wal::Outcome;

use crate::bulk_load::BulkLoad;
use crate::catalog::{self, ObjectRow, Table};
use crate::checkpoint::statistics::CheckpointStatistics;
use crate::engine::Engine;
use crate::environment::Environment;
use crate::error::Error;
use crate::in_doubt::InDoubtTransaction;
use crate::in_doubt::decisions::AutomaticDecision;
use crate::in_doubt::policy::RulesApplied;
use crate::in_doubt::rules::InDoubtRule;
use crate::inspect::check::{CheckSummary, Damage};
use crate::inspect::statistics::{DatabaseInfo, Statistics};
use crate::options::{Durability, Isolation, OpenMode, Options, TransactionOptions};
use crate::recovery::statistics::RecoveryProgress;
use crate::recovery::timeline::Continuation;
use crate::row_key;
use crate::snapshots::RegisteredSnapshot;
use crate::snapshots::scan::{Direction, Range};
use crate::transaction::Transaction;
use crate::transaction::commit::CommitHandle;
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

/// Why a run of a transaction came to nothing, and whether another run may succeed.
struct Refused<E> {
    error: E,
    is_retryable: bool,
}

impl Drop for OpenEngine {
    fn drop(&mut self) {
        if let Err(error) = self.0.close() {
            tracing::error!(%error, "closing the database failed; the next open recovers");
        }
    }
}

/// A table as the catalog knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableInfo {
    /// Name.
    pub name: String,
    /// Number, which no other table ever had or will have.
    pub id: u64,
    /// Number under which its rows lie now, in the log and in the tree; a truncate gives it a new one.
    pub storage: u64,
    /// When it was created, in microseconds since 1970.
    pub created_micros: i64,
}

impl Database {
    /// Opens the database in `directory`, recovering it if it was not closed.
    ///
    /// # Errors
    /// `InUse`, `NoDatabase`, `NotEmpty` as the mode asks, `Encrypted`, `NotEncrypted`, `MasterKey`, `WrongMasterKey` and
    /// `Keys` where the master key is not the one that is needed, `Option` for a value that cannot be, `Log` and `Tree` for
    /// damage: nothing is changed then.
    pub fn open(directory: impl AsRef<Path>, options: Options) -> Result<Database, Error> {
        Database::open_with(directory, options, |_| {})
    }

    /// As [`Database::open`], telling `progress` how the recovery goes: at most a few times a second.
    ///
    /// # Errors
    /// As `open`.
    pub fn open_with(
        directory: impl AsRef<Path>,
        options: Options,
        progress: impl FnMut(RecoveryProgress),
    ) -> Result<Database, Error> {
        let environment = Environment::of_the_system(Arc::new(OsDisk::new(directory.as_ref())));
        Database::open_in(environment, options, progress)
    }

    /// As [`Database::open`], on any disk and clock.
    ///
    /// # Errors
    /// As `open`.
    pub fn open_in(
        environment: Environment,
        options: Options,
        progress: impl FnMut(RecoveryProgress),
    ) -> Result<Database, Error> {
        let engine = Engine::open(environment, options, Continuation::Same, progress)?;
        Ok(Database::of(engine))
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
        self.begin_with(self.definition_options()).table(name)
    }

    /// Drops a table, in a transaction of its own. Takes the same time whatever the size of the table.
    ///
    /// # Errors
    /// `NoSuchTable`, and those of a commit.
    pub fn drop_table(&self, name: &str) -> Result<(), Error> {
        self.define(|transaction| transaction.drop_table(name))
    }

    /// Renames a table, in a transaction of its own.
    ///
    /// # Errors
    /// `NoSuchTable`, `TableExists`, `TableName`, and those of a commit.
    pub fn rename_table(&self, from: &str, to: &str) -> Result<(), Error> {
        self.define(|transaction| transaction.rename_table(from, to))
    }

    /// Removes all rows of a table, in a transaction of its own. Takes the same time whatever the size of the table.
    ///
    /// # Errors
    /// `NoSuchTable`, and those of a commit.
    pub fn truncate_table(&self, name: &str) -> Result<(), Error> {
        self.define(|transaction| transaction.truncate_table(name))
    }

    fn definition_options(&self) -> TransactionOptions {
        TransactionOptions { isolation: Isolation::ReadCommitted, ..self.engine().options.transaction() }
    }

    fn define<T>(&self, body: impl FnOnce(&mut Transaction) -> Result<T, Error>) -> Result<T, Error> {
        let mut transaction = self.begin_with(self.definition_options());
        let result = body(&mut transaction)?;
        transaction.commit()?;
        Ok(result)
    }

    /// All tables, by name.
    ///
    /// # Errors
    /// Damage met on the way.
    pub fn tables(&self) -> Result<Vec<TableInfo>, Error> {
        let engine = self.engine();
        engine.lifecycle.check_open()?;
        let snapshot = engine.register_snapshot_for(&self.session)?;
        let dropped = engine.dropped_lately(&snapshot)?;
        let (from, to) = row_bounds::<&[u8]>(catalog::OBJECTS, &..);
        let mut rows = Range::new(engine, snapshot, None, from, to, Direction::Forward);
        let mut tables = Vec::new();
        while let Some((key, value)) = rows.next_row()? {
            let id = key.try_into().map(u64::from_be_bytes).map_err(|_| Error::Catalog {
                place: format!("key {key:02x?}"),
                problem: "the key is not 8 bytes long",
            })?;
            if dropped.contains(&id) {
                continue;
            }
            let row = ObjectRow::decode(id, value)?;
            tables.push(TableInfo {
                name: row.name,
                id,
                storage: row.storage.get(),
                created_micros: row.created,
            });
        }
        tables.sort_by(|left, right| left.name.cmp(&right.name));
        Ok(tables)
    }

    /// Begins a transaction with the options of the database.
    pub fn begin(&self) -> Transaction {
        self.begin_with(self.engine().options.transaction())
    }

    /// Begins a transaction.
    pub fn begin_with(&self, options: TransactionOptions) -> Transaction {
        Transaction::new(Arc::clone(self.engine()), Arc::clone(&self.session), options)
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
    /// That of `body`, or of the commit: the first one that is not retryable, or the last one that is.
    pub fn transact<T>(&self, body: impl FnMut(&mut Transaction) -> Result<T, Error>) -> Result<T, Error> {
        self.try_transact(body)
    }

    /// As [`Database::transact`], with options.
    ///
    /// # Errors
    /// As `transact`.
    pub fn transact_with<T>(
        &self,
        options: TransactionOptions,
        body: impl FnMut(&mut Transaction) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.try_transact_with(options, body)
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
        self.try_transact_with(self.engine().options.transaction(), body)
    }

    /// As [`Database::try_transact`], with options.
    ///
    /// # Errors
    /// As `transact`.
    pub fn try_transact_with<T, E: From<Error>>(
        &self,
        options: TransactionOptions,
        mut body: impl FnMut(&mut Transaction) -> Result<T, E>,
    ) -> Result<T, E> {
        let (clock, retry_for) = (self.engine().clock(), self.engine().options.retry_for);
        let began = clock.monotonic();
        loop {
            match self.run_once(options, &mut body) {
                Ok(value) => return Ok(value),
                Err(refused)
                    if refused.is_retryable && clock.monotonic().saturating_sub(began) < retry_for =>
                {
                    // Whoever was in the way is logged. Until that is visible, a new snapshot would fail again.
                    self.engine().wait_for_all_logged()?;
                }
                Err(refused) => return Err(refused.error),
            }
        }
    }

    fn run_once<T, E: From<Error>>(
        &self,
        options: TransactionOptions,
        body: &mut impl FnMut(&mut Transaction) -> Result<T, E>,
    ) -> Result<T, Refused<E>> {
        let mut transaction = self.begin_with(options);
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

    /// Commits the in-doubt transaction `gid`. When it returns, the decision is as durable as the database's options ask,
    /// and every later transaction sees what was prepared. The stamp of the commit.
    ///
    /// # Errors
    /// `NotInDoubt` if no transaction of this name is in doubt, or not any more: an earlier decision is then as durable as
    /// this call asks; `BeingDecided`; `DiskFull`, after which
    /// it is in doubt as before; `DoneNotArchived`: it is decided; `Stopped`, which leaves it open: recovery decides.
    pub fn commit_prepared(&self, gid: &str) -> Result<Lsn, Error> {
        self.commit_prepared_with(gid, self.engine().options.durability)
    }

    /// As [`Database::commit_prepared`], with a durability.
    ///
    /// # Errors
    /// As `commit_prepared`.
    pub fn commit_prepared_with(&self, gid: &str, durability: Durability) -> Result<Lsn, Error> {
        self.engine().decide(gid, Outcome::Commit, durability).map(|stamp| self.observed(stamp))
    }

    /// As [`Database::commit_prepared_with`], without waiting for the disk.
    ///
    /// # Errors
    /// As `commit_prepared`.
    pub fn commit_prepared_async(&self, gid: &str, durability: Durability) -> Result<CommitHandle, Error> {
        let stamp = self.engine().decide_async(gid, Outcome::Commit, durability)?;
        Ok(self.logged_as(stamp, durability))
    }

    /// Rolls the in-doubt transaction `gid` back: as if it had never been. The stamp of the decision.
    ///
    /// # Errors
    /// As `commit_prepared`.
    pub fn rollback_prepared(&self, gid: &str) -> Result<Lsn, Error> {
        self.rollback_prepared_with(gid, self.engine().options.durability)
    }

    /// As [`Database::rollback_prepared`], with a durability.
    ///
    /// # Errors
    /// As `commit_prepared`.
    pub fn rollback_prepared_with(&self, gid: &str, durability: Durability) -> Result<Lsn, Error> {
        self.engine().decide(gid, Outcome::Rollback, durability).map(|stamp| self.observed(stamp))
    }

    /// As [`Database::rollback_prepared_with`], without waiting for the disk.
    ///
    /// # Errors
    /// As `commit_prepared`.
    pub fn rollback_prepared_async(&self, gid: &str, durability: Durability) -> Result<CommitHandle, Error> {
        let stamp = self.engine().decide_async(gid, Outcome::Rollback, durability)?;
        Ok(self.logged_as(stamp, durability))
    }

    fn logged_as(&self, stamp: Lsn, durability: Durability) -> CommitHandle {
        CommitHandle::new(Arc::clone(self.engine()), Arc::clone(&self.session), stamp, durability)
    }

    /// The transactions that are prepared and not decided, in the order of their prepares: all whose prepare has returned, in
    /// any session, and whose decision is not as durable yet as was asked. One that is not among them was decided, or never
    /// prepared. Waits for the flush of the commits that are ahead of them.
    ///
    /// When the database has stopped, those are among them that recovery may not find.
    ///
    /// # Errors
    /// Damage met when the names of their tables are read.
    pub fn in_doubt(&self) -> Result<Vec<InDoubtTransaction>, Error> {
        self.engine().in_doubt_transactions()
    }

    /// Applies `rules` to what is in doubt now; what became of that. The rules of the options are applied by a thread of the
    /// database, once a second.
    ///
    /// Rules that ask nobody come first. One transaction that cannot be decided does not keep the others from it, unless all
    /// would meet the same (`Stopped`, `DiskFull`, `ReadOnly`); when the database is closed meanwhile, that is the end.
    ///
    /// # Errors
    /// `Closed`.
    pub fn apply_in_doubt_rules(&self, rules: &[InDoubtRule]) -> Result<RulesApplied, Error> {
        self.engine().apply_in_doubt_rules(rules)
    }

    /// What rules have decided, in this process and before, oldest first: all that was not forgotten. If these are
    /// [`crate::DECISIONS_MAX`], rules only report.
    ///
    /// # Errors
    /// Damage met on the way.
    pub fn automatic_decisions(&self) -> Result<Vec<AutomaticDecision>, Error> {
        self.engine().lifecycle.check_open()?;
        self.engine().automatic_decisions()
    }

    /// What rules have decided about transactions of this name, in the order of their prepares.
    ///
    /// # Errors
    /// Damage met on the way.
    pub fn automatic_decisions_about(&self, gid: &str) -> Result<Vec<AutomaticDecision>, Error> {
        self.engine().lifecycle.check_open()?;
        self.engine().automatic_decisions_about(gid)
    }

    /// Removes the record of what rules have decided about `gid`: its coordinator knows. Whether there was one.
    ///
    /// # Errors
    /// Those of a commit.
    pub fn forget_automatic_decision(&self, gid: &str) -> Result<bool, Error> {
        self.engine().forget_automatic_decision(gid)
    }

    /// Removes the record of what rules have decided at least so long ago; how many decisions it was. A coordinator that comes
    /// back after that finds nothing, and may take a transaction for decided as it had said.
    ///
    /// # Errors
    /// Those of a commit.
    pub fn forget_old_automatic_decisions(&self, age: Duration) -> Result<usize, Error> {
        self.engine().forget_old_automatic_decisions(age)
    }

    /// Everything committed now, to read from for as long as it is kept.
    pub fn snapshot(&self) -> Snapshot {
        let engine = Arc::clone(self.engine());
        let lacks = engine.wait_for_session(&self.session).err();
        Snapshot { snapshot: engine.register_snapshot(), engine, lacks }
    }

    /// Sets a row, in a transaction of its own; the commit's stamp.
    ///
    /// # Errors
    /// Those of `Transaction::put` and `Transaction::commit`.
    pub fn put(&self, table: &Table, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<Lsn, Error> {
        self.put_with(table, key, value, self.engine().options.durability)
    }

    /// As [`Database::put`], with a durability.
    ///
    /// # Errors
    /// As `put`.
    pub fn put_with(
        &self,
        table: &Table,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        durability: Durability,
    ) -> Result<Lsn, Error> {
        let written = self.engine().write_one(table, key.as_ref(), Some(value.as_ref()), durability);
        written.map(|stamp| self.observed(stamp))
    }

    /// Deletes a row, in a transaction of its own; the commit's stamp.
    ///
    /// # Errors
    /// As `put`.
    pub fn delete(&self, table: &Table, key: impl AsRef<[u8]>) -> Result<Lsn, Error> {
        let written = self.engine().write_one(table, key.as_ref(), None, self.engine().options.durability);
        written.map(|stamp| self.observed(stamp))
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

    /// Loads many rows into a new table, past the log: see [`BulkLoad`].
    ///
    /// # Errors
    /// `TableExists`, `TableName`, and those of a commit.
    pub fn bulk_load(&self, name: &str) -> Result<BulkLoad, Error> {
        self.engine().wait_for_session(&self.session)?;
        BulkLoad::begin(self.engine(), name)
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

    /// As [`Database::rotate_master_key`], of a database that is not open: `old` is one that opens it.
    ///
    /// # Errors
    /// As `rotate_master_key`, and `InUse`, `NoDatabase`, `WrongMasterKey`.
    pub fn rotate_master_key_of_directory(
        directory: impl AsRef<Path>,
        old: MasterKey,
        new: &MasterKey,
        others: OtherMasterKeys,
    ) -> Result<(), Error> {
        let environment = Environment::of_the_system(Arc::new(OsDisk::new(directory.as_ref())));
        crate::encryption::rotate_master_key(&environment, old, new, others)
    }

    /// Opens an existing database for a check only: [`Database::check`] of a database that may not open otherwise.
    ///
    /// # Errors
    /// What kept the check from being made.
    pub fn check_directory(
        directory: impl AsRef<Path>,
        options: Options,
        report: &mut dyn FnMut(Damage),
    ) -> Result<CheckSummary, Error> {
        let disk: Arc<dyn Disk> = Arc::new(OsDisk::new(directory.as_ref()));
        Database::check_directory_in(Environment::of_the_system(disk), options, report)
    }

    /// As [`Database::check_directory`], on any disk and clock.
    ///
    /// # Errors
    /// As `check_directory`.
    pub fn check_directory_in(
        environment: Environment,
        options: Options,
        report: &mut dyn FnMut(Damage),
    ) -> Result<CheckSummary, Error> {
        crate::inspect::check::check_directory(
            environment,
            Options { mode: OpenMode::ReadOnly, ..options },
            report,
        )
    }
}

/// Everything that was committed at one moment.
#[derive(Debug)]
pub struct Snapshot {
    engine: Arc<Engine>,
    snapshot: RegisteredSnapshot,
    /// It lacks a commit of its session, for this reason: nothing can be read.
    lacks: Option<Error>,
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
        let object = self.engine.open_object(object)?;
        Ok(Table { name: Arc::from(name), object })
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

use crate::snapshots::scan::row_bounds;

impl Engine {
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
