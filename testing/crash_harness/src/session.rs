//! Runs the steps of a plan against a database, and keeps account in [`SharedProgress`] of what a crash may leave.

use std::sync::Arc;

use seawall::{
    Database, DatabaseDirectory, Durability, Error, HoldLifetime, HoldOptions, Isolation, Options,
    Transaction, TransactionOptions,
};
use seawall_io::Disk;

use crate::environment;
use crate::progress::SharedProgress;
use crate::state::{Change, Guards, Rows, State, guarded_table};

/// The hold of the plans.
const HOLD_NAME: &str = "slot";

/// One step of a plan.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "a step has the name of the call that it makes")]
pub enum Step {
    Commit {
        changes: Vec<Change>,
        durability: Durability,
    },
    RolledBack {
        changes: Vec<Change>,
    },
    Prepare {
        gid: String,
        changes: Vec<Change>,
        durability: Durability,
    },
    Decide {
        gid: String,
        commits: bool,
        durability: Durability,
    },
    /// Rows in the order in which they are added; of equal keys the last one stays.
    BulkLoad {
        table: String,
        rows: Vec<(Vec<u8>, Arc<[u8]>)>,
        finished: bool,
    },
    Flush,
    Checkpoint,
    Reopen,
    /// Closes it and goes on on a new timeline.
    NewTimeline,
    /// Makes the permanent hold, or moves it to the redo point.
    HoldLog,
    RestorePoint,
}

/// A database that is being worked with.
#[derive(Debug)]
pub struct Session {
    disk: Arc<dyn Disk>,
    /// With which it is opened.
    pub options: Options,
    database: Option<Database>,
    /// What it may hold.
    pub progress: SharedProgress,
}

impl Session {
    /// A session that opens the database now.
    ///
    /// # Errors
    /// Those of the open.
    pub fn open(disk: Arc<dyn Disk>, options: &Options, progress: SharedProgress) -> Result<Session, Error> {
        let mut session = Session { disk, options: options.clone(), database: None, progress };
        session.reopen()?;
        Ok(session)
    }

    /// A session whose database is not open yet: the first step opens it.
    pub fn closed(disk: Arc<dyn Disk>, options: &Options, progress: SharedProgress) -> Session {
        Session { disk, options: options.clone(), database: None, progress }
    }

    /// A session with a database that is open.
    pub fn with(
        database: Database,
        disk: Arc<dyn Disk>,
        options: &Options,
        progress: SharedProgress,
    ) -> Session {
        Session { disk, options: options.clone(), database: Some(database), progress }
    }

    /// Drops the database if it is open, and opens it.
    ///
    /// # Errors
    /// Those of the open.
    pub fn reopen(&mut self) -> Result<(), Error> {
        self.database = None;
        self.database = Some(Database::open(environment(Arc::clone(&self.disk)), self.options.clone())?);
        Ok(())
    }

    /// Whether the database is open: not after an open that failed.
    pub fn is_open(&self) -> bool {
        self.database.is_some()
    }

    /// Opens it if it is not open.
    ///
    /// # Errors
    /// Those of the open.
    pub fn database(&mut self) -> Result<&Database, Error> {
        if self.database.is_none() {
            self.reopen()?;
        }
        Ok(self.database.as_ref().expect("it was just opened"))
    }

    /// Runs one step.
    ///
    /// # Errors
    /// Those of the calls it makes; the attempted commit may be there then or not.
    pub fn run(&mut self, step: &Step) -> Result<(), Error> {
        self.progress.lock().refused();
        self.database()?;
        match step {
            Step::Commit { changes, durability } => self.commit(changes, *durability),
            Step::RolledBack { changes } => {
                let mut transaction = self.begin(Durability::Sync)?;
                changes.iter().try_for_each(|change| change.run(&mut transaction))?;
                transaction.rollback();
                Ok(())
            }
            Step::Prepare { gid, changes, durability } => self.prepare(gid, changes, *durability),
            Step::Decide { gid, commits, durability } => self.decide(gid, *commits, *durability),
            Step::BulkLoad { table, rows, finished } => self.bulk_load(table, rows, *finished),
            Step::Flush => {
                self.database()?.flush()?;
                self.progress.lock().all_durable();
                Ok(())
            }
            Step::Checkpoint => {
                self.database()?.checkpoint()?;
                self.progress.lock().all_durable();
                Ok(())
            }
            Step::Reopen => {
                self.close()?;
                self.reopen()
            }
            Step::NewTimeline => {
                self.close()?;
                let environment = environment(Arc::clone(&self.disk));
                let reason = "a step of a plan";
                let database =
                    DatabaseDirectory::at(environment).open_on_new_timeline(self.options.clone(), reason)?;
                self.database = Some(database);
                Ok(())
            }
            Step::HoldLog => self.hold_log(),
            Step::RestorePoint => {
                self.database()?.log().create_restore_point("a step of a plan")?;
                self.progress.lock().all_durable();
                Ok(())
            }
        }
    }

    fn close(&mut self) -> Result<(), Error> {
        self.database.take().expect("it is open").close()?;
        self.progress.lock().all_durable();
        Ok(())
    }

    fn hold_log(&mut self) -> Result<(), Error> {
        let database = self.database()?;
        let redo_point = database.statistics().checkpoints.redo_point;
        match database.log().find_hold(HOLD_NAME) {
            Ok(hold) => hold.advance(redo_point),
            Err(Error::NoSuchLogHold { .. }) => {
                let options = HoldOptions { lifetime: HoldLifetime::Permanent, ..HoldOptions::default() };
                database.log().hold(HOLD_NAME, options, None).map(drop)
            }
            Err(error) => Err(error),
        }
    }

    fn begin(&mut self, durability: Durability) -> Result<Transaction, Error> {
        let defaults = self.options.transaction;
        let options = TransactionOptions { isolation: Isolation::Snapshot, durability, ..defaults };
        Ok(self.database()?.with(options).begin())
    }

    /// One that locks a row, and has read a range, that it does not write.
    fn begin_guarded(
        &mut self,
        gid: &str,
        table: &str,
        durability: Durability,
    ) -> Result<Transaction, Error> {
        let defaults = self.options.transaction;
        let options = TransactionOptions { isolation: Isolation::Serializable, durability, ..defaults };
        let mut transaction = self.database()?.with(options).begin();
        let table = self.database()?.table(table)?;
        let guards = Guards::of(gid);
        transaction.get_for_update(&table, &guards.locked)?;
        // The power may go in a read of a page, too.
        let found = transaction.range(&table, guards.read).collect::<Result<Vec<_>, Error>>()?;
        assert!(found.is_empty(), "{found:?}");
        Ok(transaction)
    }

    fn commit(&mut self, changes: &[Change], durability: Durability) -> Result<(), Error> {
        let mut next = State::clone(self.progress.lock().current());
        changes.iter().for_each(|change| next.apply(change));
        let mut transaction = self.begin(durability)?;
        changes.iter().try_for_each(|change| change.run(&mut transaction))?;
        self.progress.lock().attempt(next);
        transaction.commit()?;
        self.committed(durability);
        Ok(())
    }

    fn committed(&mut self, durability: Durability) {
        let mut progress = self.progress.lock();
        progress.committed();
        if durability == Durability::Sync {
            progress.all_durable();
        }
    }

    fn prepare(&mut self, gid: &str, changes: &[Change], durability: Durability) -> Result<(), Error> {
        let mut next = State::clone(self.progress.lock().current());
        next.prepared.insert(gid.to_owned(), Arc::new(changes.to_vec()));
        let mut transaction = match guarded_table(gid, changes) {
            None => self.begin(durability)?,
            Some(table) => self.begin_guarded(gid, table, durability)?,
        };
        changes.iter().try_for_each(|change| change.run(&mut transaction))?;
        self.progress.lock().attempt(next);
        transaction.prepare(gid)?;
        self.committed(durability);
        Ok(())
    }

    fn decide(&mut self, gid: &str, commits: bool, durability: Durability) -> Result<(), Error> {
        let mut next = State::clone(self.progress.lock().current());
        next.decide(gid, commits);
        self.progress.lock().attempt(next);
        let database = self.database()?;
        if commits {
            database.two_phase().with(durability).commit(gid)?;
        } else {
            database.two_phase().with(durability).rollback(gid)?;
        }
        self.committed(durability);
        Ok(())
    }

    fn bulk_load(&mut self, table: &str, rows: &[(Vec<u8>, Arc<[u8]>)], finished: bool) -> Result<(), Error> {
        let mut load = self.database()?.tables().bulk_load(table)?;
        for (key, value) in rows {
            load.add(key, value)?;
        }
        if finished {
            let mut next = State::clone(self.progress.lock().current());
            let rows: Rows = rows.iter().cloned().collect();
            next.tables.insert(table.to_owned(), Arc::new(rows));
            self.progress.lock().attempt(next);
            load.finish()?;
            let mut progress = self.progress.lock();
            progress.committed();
            progress.all_durable();
        }
        Ok(())
    }
}
