//! The life of a commit: encoded and checksummed by its own thread, given its place in the log, applied to the
//! memtable, flushed with others, made visible in order.
//!
//! ```text
//!   encode, checksum     |  the log's critical section  |  apply to      |  wait for  |  visible
//!   (no lock)            |  LSN, ticket, memtable       |  the memtable  |  the flush |
//! ```
//! A commit of many rows applies them before the critical section, where it makes them known (`admission`).
//!
//! If the power goes before the flush is complete, the record is torn or missing and the commit never was; after it,
//! recovery replays the record. Row locks are released after the apply: see `Transaction`.

use std::borrow::Cow;
use std::cell::Cell;
use std::sync::Arc;

use seawall_sync::CancelToken;
use seawall_types::{Lsn, TableId};
use seawall_wal::CommitBuilder;

use crate::catalog::Table;
use crate::engine::Engine;
use crate::error::Error;
use crate::options::{Durability, TransactionOptions};
use crate::pacing::writer_pace::ReservedRoom;
use crate::row_key;
use crate::transaction::commit_queue::Ticket;
use crate::transaction::commit_request::{CommitRequest, RowsToApply, VisitRow};
use crate::transaction::lock::LockOwner;
use crate::transaction::lock_mode::RowLock;
use crate::transaction::lock_table::lock_name;
use crate::transaction::lock_wait::LockPatience;
use crate::transaction::session::Session;
use crate::transaction::touched_tables::TableUse;

/// A commit that is logged and may not be durable yet.
#[derive(Debug)]
pub struct CommitHandle {
    engine: Arc<Engine>,
    session: Arc<Session>,
    stamp: Lsn,
    durability: Durability,
}

impl CommitHandle {
    pub(crate) fn new(
        engine: Arc<Engine>,
        session: Arc<Session>,
        stamp: Lsn,
        durability: Durability,
    ) -> CommitHandle {
        CommitHandle { engine, session, stamp, durability }
    }

    /// Waits until the commit is as durable as its options ask; its stamp.
    ///
    /// # Errors
    /// `Stopped` if a write failed: whether the commit survives is decided by recovery. `DoneNotArchived`: it is durable
    /// here, and not archived. `NotReplicated`: it is durable here, and the wait for standbys was ended.
    pub fn wait(self) -> Result<Lsn, Error> {
        self.engine.finish_commit(self.stamp, self.durability, Some(&self.session.waits.cancel))?;
        self.engine.show_to(&self.session, self.stamp);
        Ok(self.stamp)
    }

    /// Whether the commit is on stable storage.
    pub fn is_durable(&self) -> bool {
        self.engine.flushed() >= self.stamp
    }

    /// The commit's stamp.
    pub fn lsn(&self) -> Lsn {
        self.stamp
    }
}

/// A thread keeps the memory of its last record for the next one, unless that was long: a thousand threads that have each
/// committed much once must not keep gigabytes.
const BUILDER_BYTES_KEPT: usize = 16 << 10;

seawall_sync::thread_local! {
    static BUILDER: Cell<CommitBuilder> = Cell::new(CommitBuilder::new());
}

/// Lends the thread's builder, which is the caller's own meanwhile, however long it waits.
pub(crate) fn with_builder<R>(make: impl FnOnce(&mut CommitBuilder) -> R) -> R {
    let mut builder = BUILDER.with(Cell::take);
    let result = make(&mut builder);
    if builder.record_bytes() <= BUILDER_BYTES_KEPT {
        BUILDER.with(|kept| kept.set(builder));
    }
    result
}

impl Engine {
    /// Logs and applies a commit; its stamp. The caller holds the locks of all `rows`.
    pub(crate) fn log_commit<'r>(
        &self,
        request: &CommitRequest<'_>,
        rows: impl Iterator<Item = (&'r [u8], Option<&'r [u8]>)> + Clone,
        bytes: u64,
    ) -> Result<Lsn, Error> {
        let row_count = u64::try_from(rows.size_hint().0).expect("a count in memory fits into 64 bits");
        let mut room = self.admit_to_memtable(bytes, row_count, request.patience)?;
        self.log_commit_in(&mut room, request, rows)
    }

    /// As `log_commit`, for the few rows that a checkpoint itself writes.
    pub(crate) fn log_commit_unthrottled<'r>(
        &self,
        request: &CommitRequest<'_>,
        rows: impl Iterator<Item = (&'r [u8], Option<&'r [u8]>)> + Clone,
    ) -> Result<Lsn, Error> {
        self.log_commit_in(&mut ReservedRoom::none(self), request, rows)
    }

    fn log_commit_in<'r>(
        &self,
        room: &mut ReservedRoom<'_>,
        request: &CommitRequest<'_>,
        rows: impl Iterator<Item = (&'r [u8], Option<&'r [u8]>)> + Clone,
    ) -> Result<Lsn, Error> {
        with_builder(|builder| {
            builder.begin(self.clock().wall_micros());
            rows.clone().for_each(|(key, value)| builder.add(key, value));
            let (count, keys) = (builder.count(), rows.clone().map(|(key, _)| key));
            let record = builder.finish();
            let bytes = u64::try_from(record.record_bytes()).expect("a record fits into memory");
            let for_each = |visit: &mut VisitRow<'_>| {
                rows.clone().for_each(|(key, value)| visit(key, value));
            };
            let to_apply = RowsToApply { count, bytes, for_each: &for_each };
            let logged = self.log_and_apply(request, keys, record, &to_apply, room, || {})?;
            self.applied(logged.ticket, logged.stamp, request.durability);
            // After it: nobody waits for the commit while it is counted.
            self.counters.logged_by_storage.note(rows.clone());
            Ok(logged.stamp)
        })
    }

    /// What the ticket stands for is applied: it becomes visible when it is as durable as it asks.
    pub(crate) fn applied(&self, ticket: Ticket, stamp: Lsn, durability: Durability) {
        self.queue.applied(ticket, durability);
        match (durability, self.log.written()) {
            // Before anybody sees it, and after the apply, for which others wait: copying may have to wait for the file system.
            (Durability::Async, Some(log)) => self.queue.mirrored_until(log.mirror_until(stamp)),
            // A flush that came before the rows were applied could not make the commit visible: nobody else will.
            _ if self.flushed() >= stamp => self.queue.advance(),
            _ => {}
        }
    }

    /// Waits until a logged commit is as durable as it asks, and visible. Where there are standbys to wait for, one that does not is not
    /// kept by those ahead that do: it returns before it is visible, and its session sees it.
    pub(crate) fn finish_commit(
        &self,
        stamp: Lsn,
        durability: Durability,
        cancel: Option<&CancelToken>,
    ) -> Result<Lsn, Error> {
        match durability {
            Durability::Async => {
                // At once, but after a long record. Then the commit can be seen, too: after a long record it was not copied when it
                // was applied, and no other thread says that it is now.
                self.log()?.survive_kill(stamp)?;
                self.queue.mirrored_until(stamp);
                self.background.async_commit();
            }
            Durability::Sync | Durability::Archived | Durability::Replicated(_) => {
                let (clock, stages) = (self.clock(), &self.counters.commit_stages);
                let begun = clock.monotonic();
                self.log()?.flush_until(stamp)?;
                let flushed = clock.monotonic();
                // Not only flushed: a commit ahead may be on its way still.
                match durability {
                    Durability::Replicated(_) => self.require_replicated(stamp, cancel)?,
                    _ if self.members.are_required() => self.queue.advance(),
                    _ => self.require_visible(stamp, None)?,
                }
                stages.flush.note(flushed.saturating_sub(begun));
                stages.visible.note(clock.monotonic().saturating_sub(flushed));
            }
        }
        if durability == Durability::Archived {
            let archived = self.wait_archived(stamp, cancel);
            archived.map_err(|cause| Error::DoneNotArchived { lsn: stamp, cause: Box::new(cause) })?;
        }
        Ok(stamp)
    }

    /// A transaction that writes one row and reads nothing.
    pub(crate) fn write_one(
        self: &Arc<Self>,
        table: &Table,
        key: &[u8],
        value: Option<&[u8]>,
        options: TransactionOptions,
        session: &Session,
    ) -> Result<Lsn, Error> {
        self.lifecycle.check_writable()?;
        row_key::check_sizes(key, value, self.key_bytes_max())?;
        let (owner, patience) = (self.locks.new_owner(), session.waits.patience(options.lock_wait));
        let strength = if value.is_some() { RowLock::NoKeyUpdate } else { RowLock::Update };
        let (storage, row_key) = self.lock_newest(owner, (table, key), strength, patience)?;
        let (name, bytes) = (lock_name(&row_key), row_key.len() + value.map_or(0, <[u8]>::len));
        let tables = [TableUse { table: table.clone(), storage: Some(storage) }];
        let request = CommitRequest {
            tables: Cow::Borrowed(&tables),
            patience,
            ..CommitRequest::plain(owner, options.durability)
        };
        let rows = std::iter::once((&row_key[..], value));
        let logged = self.log_commit(&request, rows, u64::try_from(bytes).expect("a row fits into memory"));
        self.locks.release(owner, name);
        self.finish_commit(logged?, options.durability, Some(&session.waits.cancel))
    }

    /// Locks the row `key` where the table's newest rows are: its storage and row key.
    fn lock_newest(
        &self,
        owner: LockOwner,
        (table, key): (&Table, &[u8]),
        strength: RowLock,
        patience: LockPatience<'_>,
    ) -> Result<(TableId, Vec<u8>), Error> {
        loop {
            let storage = self.newest_storage(table, patience.cancel)?;
            let row_key = row_key::encode(storage, key);
            let name = lock_name(&row_key);
            self.lock_one(owner, name, strength.mode(), patience)?;
            if table.object.newest_storage() == Some(storage) {
                return Ok((storage, row_key));
            }
            // While this one waited for the row, the table was truncated or dropped.
            self.locks.release(owner, name);
        }
    }
}

impl Engine {
    /// The error of a definition of the table `id`, which an in-doubt transaction uses.
    pub(crate) fn table_in_doubt(&self, id: u64) -> Error {
        let holder =
            self.in_doubt.all().into_iter().find(|held| held.objects.iter().any(|used| used.id == id));
        let gid = holder.map_or_else(String::new, |held| held.gid.to_string());
        match self.name_of_object(id) {
            Ok(name) => Error::TableInDoubt { name: name.unwrap_or_default(), gid },
            Err(error) => error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_keeps_no_memory_of_a_long_record_and_may_build_one_while_it_builds_another() {
        let build = |builder: &mut CommitBuilder, bytes: usize| {
            builder.begin(0);
            builder.put(b"\0\0\0\0\0\0\0\x07key", &vec![1; bytes]);
            builder.finish().record_bytes()
        };
        with_builder(|outer| {
            with_builder(|inner| assert!(build(inner, 100) < 200));
            assert!(build(outer, BUILDER_BYTES_KEPT) > BUILDER_BYTES_KEPT);
        });
        with_builder(|builder| assert!(builder.record_bytes() < 200, "the long one was kept"));
        with_builder(|builder| build(builder, 1_000));
        with_builder(|builder| assert!(builder.record_bytes() > 1_000, "a short one is kept"));
    }
}
