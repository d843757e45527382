//! The first phase of two-phase commit: the write set goes to the log, the locks stay, and the transaction is in doubt until
//! somebody decides it.
//!
//! ```text
//!   encode | enter the gid, and what was | the log's critical section: LSN, checks,    | wait for the flush
//!          | read and written            | tables are held, what was read is protected |
//! ```
//! A prepare is a promise that the transaction can be committed. So everything that can refuse a commit is checked here, in
//! the log's critical section, and what could refuse it later is kept away: rows by their locks, tables by a count that
//! keeps them from being dropped or truncated, and what was read under `Serializable` by `in_doubt::protected`. What the transaction
//! defines is rows of the catalog, and kept from others by `in_doubt::definitions`.
//!
//! What is on disk if the power goes: see `in_doubt`.

use std::sync::Arc;

use rustc_hash::FxHashSet;
use seawall_sync::atomic::Ordering;
use seawall_types::Lsn;
use seawall_wal::{GID_BYTES_MAX, OWNER_BYTES_MAX, PreparedRecord, RecordError};

use crate::catalog::OpenObject;
use crate::catalog::logged_definitions::LoggedDefinitions;
use crate::error::Error;
use crate::in_doubt::age::Age;
use crate::in_doubt::definitions::Definitions;
use crate::in_doubt::guards::Guards;
use crate::in_doubt::{NewPrepared, PreparedTransaction};
use crate::pacing::writer_pace::ReservedRoom;
use crate::transaction::Transaction;
use crate::transaction::admission::Logged;
use crate::transaction::commit::{CommitHandle, with_builder};
use crate::transaction::commit_request::CommitRequest;
use crate::transaction::commit_request::RowsToApply;
use crate::transaction::lock_table::lock_name;
use crate::transaction::read_item::ReadItem;
use crate::transaction::read_item::without_repetition;

impl Transaction {
    /// Names who is responsible for the transaction, up to 64 bytes: shown with in-doubt transactions, and what policies
    /// about them go by.
    ///
    /// # Errors
    /// `Owner` if the name is longer.
    pub fn set_owner(&mut self, owner: &str) -> Result<(), Error> {
        if owner.len() > OWNER_BYTES_MAX {
            return Err(Error::Owner { bytes: owner.len(), limit: OWNER_BYTES_MAX });
        }
        self.owner_name = Box::from(owner);
        Ok(())
    }

    /// Prepares the transaction under the name `gid`: it is in doubt from now on, across restarts, until
    /// [`crate::TwoPhase::commit`] or [`crate::TwoPhase::rollback`] decides it. When this returns, the
    /// prepare is as durable as the transaction's options ask. The stamp of the prepare.
    ///
    /// Until the decision nobody sees what it wrote, nobody writes those rows, and its tables cannot be dropped or
    /// truncated. A table that it creates, drops, truncates, renames or alters, nobody else defines; and who has written to such a
    /// table waits, in `commit` or `prepare`, for the decision. Who has read it under `Serializable` waits in `prepare`. Under
    /// `Serializable` nobody commits a change of what it has read. It keeps no snapshot, and no log.
    ///
    /// # Errors
    /// `Gid`; `GidInUse`; `NothingToPrepare` if nothing was written and, under `Serializable`, nothing read; `Locked` if, under
    /// `Serializable`, a transaction in doubt has written what it has read, or defines a table of it, and is not decided while it waits
    /// (`lock_wait`); and those of `commit`. [`Error::effect`] tells what has become of the transaction: after most errors nothing is
    /// prepared and it is rolled back; after `DoneNotArchived`, with `Durability::Archived` only, it is prepared, and has to be
    /// decided; `Stopped` leaves it open, recovery decides.
    pub fn prepare(self, gid: &str) -> Result<Lsn, Error> {
        let in_log = self.logged_as();
        in_log(self.log_prepare(gid)?).wait()
    }

    /// As `prepare`, without waiting for the disk: whoever waits on the handle knows when the prepare is durable.
    ///
    /// # Errors
    /// As `prepare`.
    pub fn prepare_async(self, gid: &str) -> Result<CommitHandle, Error> {
        let (engine, in_log) = (Arc::clone(&self.engine), self.logged_as());
        let stamp = self.log_prepare(gid)?;
        engine.log()?.request_flush(stamp);
        Ok(in_log(stamp))
    }

    fn log_prepare(mut self, gid: &str) -> Result<Lsn, Error> {
        let logged = self.enter_log_as(gid);
        if logged.is_err() {
            self.end_without_record()?;
        }
        logged
    }

    fn enter_log_as(&mut self, gid: &str) -> Result<Lsn, Error> {
        self.check_usable()?;
        check_gid(gid)?;
        self.check_preparable()?;
        self.engine.lifecycle.check_writable()?;
        self.check_taken_over()?;
        self.write_fate_of_parts()?;
        let logged = LoggedDefinitions::of(self.writes.rows())?;
        let definitions = Definitions::new(&logged, self.storages_in_parts(), &self.engine.objects);
        let reads = self.take_reads();
        let objects = self.used_objects(&reads);
        let guards = self.guards(reads, &objects);
        let encoded = guards.encode();
        let bytes = self.writes.bytes();
        let encoded_bytes = u64::try_from(encoded.len()).expect("a length in memory fits into 64 bits");
        let guarded = bytes + encoded_bytes;
        // What is in doubt has a copy of the rows and guards in its record.
        self.check_room_for(guarded + encoded_bytes)?;
        let (engine, session) = (Arc::clone(&self.engine), Arc::clone(&self.session));
        let patience = session.waits.patience(self.options.lock_wait);
        let mut room = engine.admit_to_memtable(guarded, 0, patience)?;
        with_builder(|builder| {
            let time_micros = self.engine.clock().wall_micros();
            builder.begin_prepare(time_micros, gid, &self.owner_name, &encoded);
            self.writes.rows().for_each(|(key, value)| builder.add(key, value));
            let row_count = builder.count();
            let record = builder.finish();
            let body: Arc<[u8]> = record.body().into();
            let prepared = self.engine.in_doubt.enter(NewPrepared {
                gid: Arc::from(gid),
                owner: std::mem::take(&mut self.owner_name),
                time_micros,
                age: Age::zero(&**self.engine.clock()),
                row_count,
                bytes,
                body_bytes: body.len(),
                body: Some(Arc::clone(&body)),
                objects,
                definitions,
                lock_owner: self.owner(),
            })?;
            let logged = self.append_prepare(&prepared, &guards, record, body, &mut room);
            if logged.is_ok() {
                self.engine.counters.logged_by_storage.note(self.writes.rows());
            } else {
                self.engine.in_doubt.protected.leave(self.owner());
                self.engine.in_doubt.remove(&prepared);
            }
            logged
        })
    }

    fn check_preparable(&self) -> Result<(), Error> {
        // What a serializable transaction has read it must protect until the decision: in another database of the same
        // global transaction it may have written, and there somebody may have read what it writes.
        if self.writes.is_empty() && !self.has_reads() { Err(Error::NothingToPrepare) } else { Ok(()) }
    }

    /// What the transaction holds besides the rows it wrote.
    fn guards(&mut self, mut reads: Vec<ReadItem>, objects: &[Arc<OpenObject>]) -> Guards {
        let locked = self.locked_rows.take().into_iter();
        let mut locked: Vec<_> =
            locked.filter(|row_key| self.writes.get(row_key).is_none()).map(Vec::from).collect();
        locked.sort_unstable();
        // Rows that it wrote are locked.
        let is_written =
            |item: &ReadItem| matches!(item, ReadItem::Row(key) if self.writes.get(key).is_some());
        reads.retain(|item| !is_written(item));
        let reads = without_repetition(&reads);
        Guards { objects: objects.iter().map(|object| object.id).collect(), locked, reads }
    }

    /// Puts the record into the log. The transaction has handed over what it holds then.
    fn append_prepare(
        &mut self,
        prepared: &Arc<PreparedTransaction>,
        guards: &Guards,
        record: &mut PreparedRecord,
        body: Arc<[u8]>,
        room: &mut ReservedRoom<'_>,
    ) -> Result<Lsn, Error> {
        let engine = Arc::clone(&self.engine);
        // Before it has a place in the log: see `in_doubt::protected`.
        let written = self.writes.rows().map(|(key, _)| key);
        let holder = engine.in_doubt.protected.enter(self.owner(), written, &guards.reads);
        let request = CommitRequest { reads: &guards.reads, holder: Some(&holder), ..self.commit_request() };
        let durability = request.durability;
        let keys = self.writes.rows().map(|(key, _)| key);
        let Logged { stamp, ticket, view, evicted: _evicted } =
            engine.log_and_apply(&request, keys, record, &RowsToApply::NONE, room, || {
                prepared.objects.iter().for_each(|object| object.hold_in_doubt());
                prepared.definitions.hold();
            })?;
        // Before it can be decided.
        view.prepared.prepared(stamp, prepared, body);
        engine.in_doubt.logged(prepared, stamp, self.take_locks_of(&guards.locked));
        engine.in_doubt.counts.prepared.fetch_add(1, Ordering::Relaxed);
        engine.applied(ticket, stamp, durability);
        self.leave_parts_in_doubt();
        self.release_logged();
        Ok(stamp)
    }

    /// The locks of the rows that it wrote, and of `locked`: others, of writes that were undone, are left to be released.
    fn take_locks_of(&mut self, locked: &[Vec<u8>]) -> Vec<u64> {
        // Rows of its own tables are not locked.
        if self.touched.definitions().is_empty() && self.locks.len() <= self.writes.len() {
            return std::mem::take(&mut self.locks);
        }
        let written = self.writes.rows().map(|(key, _)| lock_name(key));
        let kept: FxHashSet<u64> = written.chain(locked.iter().map(|key| lock_name(key))).collect();
        let (taken, left) = std::mem::take(&mut self.locks).into_iter().partition(|name| kept.contains(name));
        self.locks = left;
        taken
    }
}

/// Refuses what cannot name a prepared transaction.
pub(crate) fn check_gid(gid: &str) -> Result<(), Error> {
    if (1..=GID_BYTES_MAX).contains(&gid.len()) {
        return Ok(());
    }
    Err(Error::Gid { gid: gid.to_owned(), bytes: gid.len() })
}

/// The error of a prepared write set that does not decode.
pub(crate) fn damaged_body(error: &RecordError) -> Error {
    Error::Log { message: format!("a prepared write set: {error}") }
}

#[cfg(test)]
mod tests {
    use crate::database::Database;
    use crate::environment::Environment;
    use crate::options::{Background, Isolation, Options, TransactionOptions};
    use crate::transaction::lock::LockOwner;
    use crate::transaction::lock_wait::LockWait;

    use super::*;
    use crate::row_key;

    #[test]
    fn rows_of_a_prepare_that_has_no_place_in_the_log_yet_keep_nobody_waiting() {
        let environment = Environment {
            disk: Arc::new(seawall_simulation::SimulatedDisk::new(1)),
            clock: Arc::new(seawall_simulation::SimulatedClock::new(0)),
            random: Arc::new(seawall_simulation::SimulatedRandom::new(1)),
        };
        let options = Options { background: Background::Manual, ..Options::default() };
        let database = Database::open(environment, options.clone()).unwrap();
        let table = database.create_table("t").unwrap();
        let storage = database.engine().newest_storage(&table, None).unwrap();
        let serializable = TransactionOptions {
            isolation: Isolation::Serializable,
            lock_wait: LockWait::NoWait,
            ..options.transaction
        };
        let prepare = |gid: &str| {
            let mut transaction = database.with(serializable).begin();
            assert_eq!(transaction.rows(&table).count(), 0);
            transaction.prepare(gid)
        };
        let rows: Vec<_> = (0..5_000_u32).map(|row| row_key::encode(storage, &row.to_be_bytes())).collect();
        let protected = &database.engine().in_doubt.protected;
        let other = LockOwner(u64::MAX);
        let holder = protected.enter(other, rows.iter().map(|row| &row[..]), &[]);
        prepare("first").unwrap();
        protected.count(&holder);
        let refused = prepare("second");
        assert!(
            matches!(refused, Err(Error::Locked { .. })),
            "it has written what this one has read: {refused:?}"
        );
        protected.leave(other);
        prepare("third").unwrap();
    }
}
