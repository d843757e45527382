//! The second phase of two-phase commit: the decision is logged, small, and the prepared rows are put with its stamp.
//!
//! If the power goes before the decision's record is durable, the transaction is in doubt again at the next open, as if
//! nobody had asked; after it, replay finds the decision and, by the stamp of the prepare in it, the rows.

use std::sync::Arc;
use std::time::Duration;

use seawall_sync::CancelToken;
use seawall_sync::atomic::Ordering;
use seawall_types::Lsn;
use seawall_wal::{Outcome, Prepare};

use crate::catalog;
use crate::catalog::logged_definitions::LoggedDefinitions;
use crate::engine::Engine;
use crate::error::Error;
use crate::in_doubt::age::Age;
use crate::in_doubt::definitions::Definitions;
use crate::in_doubt::guards::Guards;
use crate::in_doubt::prepare::damaged_body;
use crate::in_doubt::replayed::ReplayedTransactions;
use crate::in_doubt::{InDoubtTransaction, NewPrepared, NotClaimed, PreparedTransaction, rows};
use crate::options::Durability;
use crate::pacing::writer_pace::ReservedRoom;
use crate::row_key;
use crate::sabotage::{Defect, sabotaged};
use crate::transaction::admission::Logged;
use crate::transaction::commit::with_builder;
use crate::transaction::commit_request::CommitRequest;
use crate::transaction::commit_request::{RowsToApply, VisitRow};
use crate::transaction::lock_mode::RowLock;
use crate::transaction::lock_table::lock_name;
use crate::transaction::lock_wait::LockPatience;
use crate::transaction::read_item::ReadItem;

/// Rows that are put with a decision.
pub(crate) type ExtraRows<'r> = &'r [(Vec<u8>, Option<Vec<u8>>)];

impl Engine {
    /// Decides an in-doubt transaction, and waits until the decision is as durable as asked; its stamp.
    pub(crate) fn decide(
        &self,
        gid: &str,
        outcome: Outcome,
        durability: Durability,
        cancel: Option<&CancelToken>,
    ) -> Result<Lsn, Error> {
        let durability = if sabotaged(Defect::DecisionNotDurable) { Durability::Async } else { durability };
        let stamp = self.log_named_decision(gid, outcome, durability, cancel)?;
        self.finish_commit(stamp, durability, cancel)
    }

    /// As `decide`, without waiting for the disk.
    pub(crate) fn decide_async(
        &self,
        gid: &str,
        outcome: Outcome,
        durability: Durability,
        cancel: Option<&CancelToken>,
    ) -> Result<Lsn, Error> {
        let stamp = self.log_named_decision(gid, outcome, durability, cancel)?;
        self.log()?.request_flush(stamp);
        Ok(stamp)
    }

    /// Decides whichever transaction has the name now.
    fn log_named_decision(
        &self,
        gid: &str,
        outcome: Outcome,
        durability: Durability,
        cancel: Option<&CancelToken>,
    ) -> Result<Lsn, Error> {
        self.lifecycle.check_writable()?;
        match self.in_doubt.named(gid) {
            Ok(prepared) => self.log_decision(&prepared, outcome, durability, &[], cancel),
            Err(refused) => Err(self.not_claimed(gid, refused, durability, cancel)),
        }
    }

    /// Decides this transaction, and no other that has the same gid.
    pub(crate) fn log_decision(
        &self,
        prepared: &PreparedTransaction,
        outcome: Outcome,
        durability: Durability,
        extra: ExtraRows<'_>,
        cancel: Option<&CancelToken>,
    ) -> Result<Lsn, Error> {
        self.lifecycle.check_writable()?;
        let claimed = self.in_doubt.claim(prepared);
        let stamp =
            claimed.map_err(|refused| self.not_claimed(&prepared.gid, refused, durability, cancel))?;
        let decided = self.append_decision(prepared, stamp, outcome, durability, extra);
        if decided.is_err() {
            self.in_doubt.unclaim(prepared);
        }
        decided
    }

    /// Why a transaction cannot be decided. Who is told that it is decided already forgets it: so the decision has to be as
    /// durable as this caller asks first.
    fn not_claimed(
        &self,
        gid: &str,
        refused: NotClaimed,
        durability: Durability,
        cancel: Option<&CancelToken>,
    ) -> Error {
        let gid = gid.to_owned();
        match refused {
            NotClaimed::Unknown => Error::NotInDoubt { gid },
            NotClaimed::BeingDecided => Error::BeingDecided { gid },
            NotClaimed::Decided(stamp) => {
                // Whoever asked sees the outcome from now on, however its session and that of the decision are related.
                let settled = self.finish_commit(stamp, durability, cancel);
                let settled = settled.and_then(|_| self.require_visible(stamp, cancel));
                settled.err().unwrap_or(Error::NotInDoubt { gid })
            }
        }
    }

    /// Up to here everything is visible and durable.
    pub(crate) fn settled(&self) -> Lsn {
        self.visible().min(self.flushed())
    }

    fn append_decision(
        &self,
        prepared: &PreparedTransaction,
        prepare_stamp: Lsn,
        outcome: Outcome,
        durability: Durability,
        extra: ExtraRows<'_>,
    ) -> Result<Lsn, Error> {
        let (body, counter, mut room) = match outcome {
            Outcome::Commit => {
                let room = self.admit_to_memtable(prepared.bytes, prepared.row_count, LockPatience::NONE)?;
                let body = self.read_prepared(prepared, prepare_stamp)?;
                (Some(body), &self.in_doubt.counts.committed, room)
            }
            Outcome::Rollback => (None, &self.in_doubt.counts.rolled_back, ReservedRoom::none(self)),
        };
        // Before the record has a place: afterwards it must be applied, whatever happens.
        let prepare = body.as_deref().map(checked_prepare).transpose()?;
        with_builder(|builder| {
            builder.begin_decision(outcome, self.clock().wall_micros(), prepare_stamp, &prepared.gid);
            extra.iter().for_each(|(key, value)| builder.add(key, value.as_deref()));
            let count = builder.count() + prepare.map_or(0, |prepare| prepare.commit.count);
            let decided = (outcome == Outcome::Commit).then_some(&prepared.definitions);
            let request =
                CommitRequest { decided, ..CommitRequest::plain(prepared.lock_owner(), durability) };
            let record = builder.finish();
            let for_each = |visit: &mut VisitRow<'_>| {
                let mut row_key = Vec::new();
                for change in prepare.iter().flat_map(Prepare::changes) {
                    let change = change.expect("every change was looked at before");
                    change.copy_row_key(&mut row_key);
                    visit(&row_key, change.value());
                }
                extra.iter().for_each(|(key, value)| visit(key, value.as_deref()));
            };
            let rows = RowsToApply { count, bytes: prepared.bytes, for_each: &for_each };
            let Logged { stamp, ticket, view, evicted: _evicted } =
                self.log_and_apply(&request, std::iter::empty(), record, &rows, &mut room, || {})?;
            view.prepared.decided(prepare_stamp, stamp, prepared);
            self.applied(ticket, stamp, durability);
            self.in_doubt.decided(prepared, stamp, self.settled(), &self.locks);
            self.end_parts_of(prepared, outcome);
            counter.fetch_add(1, Ordering::Relaxed);
            Ok(stamp)
        })
    }

    /// Tables have the storages that the transaction has filled in parts, or nobody.
    fn end_parts_of(&self, prepared: &PreparedTransaction, outcome: Outcome) {
        let filled = prepared.definitions.filled().iter().copied();
        match outcome {
            Outcome::Commit => filled.for_each(|storage| self.loads.ended(storage)),
            Outcome::Rollback => self.give_up_storages(filled),
        }
    }

    /// The body of a prepared transaction that the caller has claimed: nobody takes it out of the tree meanwhile.
    pub(crate) fn read_prepared(
        &self,
        prepared: &PreparedTransaction,
        stamp: Lsn,
    ) -> Result<Arc<[u8]>, Error> {
        match prepared.body() {
            Some(body) => Ok(body),
            None => {
                let read = |key: &[u8]| self.read_row(key, Lsn::MAX, |row| row.map(<[u8]>::to_vec));
                Ok(rows::read_body(stamp, read)?.into())
            }
        }
    }

    /// All prepared transactions that are as durable as they asked to be, and whose decision is not, by the stamp of the
    /// prepare. A coordinator may take one that is not among them for decided, whatever happens.
    pub(crate) fn in_doubt_transactions(&self) -> Result<Vec<InDoubtTransaction>, Error> {
        self.lifecycle.check_open()?;
        // An `Async` prepare may have returned before it is visible. Only its session waits for that by itself, and a
        // coordinator may have another one.
        let logged = self.queue.last_entered();
        // Where standbys are waited for, that may take for ever: those count as in doubt whose prepare or decision is not visible.
        if !self.members.are_required() {
            self.wait_visible(logged, None);
        }
        let visible = self.visible();
        // Where the database has stopped, not all that is logged becomes visible: any of it may be in doubt.
        let all = self.in_doubt.all_between(visible, visible.max(logged));
        let mut found: Vec<_> =
            all.iter().map(|prepared| self.describe(prepared)).collect::<Result<_, _>>()?;
        found.sort_unstable_by_key(|transaction| transaction.lsn);
        Ok(found)
    }

    pub(crate) fn describe(&self, prepared: &PreparedTransaction) -> Result<InDoubtTransaction, Error> {
        Ok(InDoubtTransaction {
            gid: prepared.gid.to_string(),
            owner: prepared.owner.to_string(),
            prepared_micros: prepared.time_micros,
            age: prepared.age.now(&**self.clock()),
            lsn: prepared.stamp().unwrap_or_default(),
            tables: self.table_names(prepared)?,
            rows: prepared.row_count,
            bytes: prepared.bytes,
        })
    }

    fn table_names(&self, prepared: &PreparedTransaction) -> Result<Vec<String>, Error> {
        let objects = prepared.objects.iter().chain(prepared.definitions.objects());
        let names = objects.map(|object| self.name_of_object(object.id));
        let mut names: Vec<String> = names.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect();
        names.sort_unstable();
        names.dedup();
        Ok(names)
    }

    /// Age of the oldest in-doubt transaction.
    pub(crate) fn oldest_in_doubt(&self) -> Option<Duration> {
        self.in_doubt.all().iter().map(|prepared| prepared.age.now(&**self.clock())).max()
    }
}

/// The write set, every change of which decodes.
fn checked_prepare(body: &[u8]) -> Result<Prepare<'_>, Error> {
    let prepare = Prepare::decode(body).map_err(|error| damaged_body(&error))?;
    prepare.changes().try_for_each(|change| change.map(|_| ())).map_err(|error| damaged_body(&error))?;
    Ok(prepare)
}

/// At open.
impl Engine {
    /// Takes up what a replay found in doubt: locks, tables, protected reads. Before anybody can write.
    pub(crate) fn adopt_in_doubt(&self, replayed: ReplayedTransactions) -> Result<(), Error> {
        self.in_doubt.set_at_freeze(replayed.count());
        for (stamp, transaction) in replayed.into_ordered() {
            let body = transaction.read_body(&self.tree, stamp)?;
            // What the tree has need not be in memory.
            let prepared = self.adopt(stamp, &body, transaction.body)?;
            if let Some(frozen) = self.view().unmerged() {
                frozen.prepared.forget_after_merge(&prepared);
            }
        }
        Ok(())
    }

    /// Takes up one transaction in doubt; `kept` is its body, unless it is to be read from the tree when it is needed.
    pub(crate) fn adopt(
        &self,
        stamp: Lsn,
        body: &[u8],
        kept: Option<Arc<[u8]>>,
    ) -> Result<Arc<PreparedTransaction>, Error> {
        let prepare = checked_prepare(body)?;
        let guards = Guards::decode(prepare.guards).map_err(|error| damaged_body(&error))?;
        let (mut locks, mut written) = (Vec::new(), Vec::new());
        let (mut row_key, mut bytes) = (Vec::new(), 0_usize);
        let mut logged = LoggedDefinitions::default();
        for change in prepare.changes() {
            let change = change.map_err(|error| damaged_body(&error))?;
            change.copy_row_key(&mut row_key);
            bytes += row_key.len() + change.value().map_or(0, <[u8]>::len);
            logged.note(&row_key, change.value())?;
            let strength = if change.value().is_some() { RowLock::NoKeyUpdate } else { RowLock::Update };
            locks.push((lock_name(&row_key), strength));
            written.push(row_key.clone());
        }
        // How strongly is not on record. Nobody changes the row before the decision, and others may have locked it, too.
        locks.extend(guards.locked.iter().map(|row_key| (lock_name(row_key), RowLock::Share)));
        if sabotaged(Defect::PreparedLocksForgotten) {
            locks.clear();
        }
        let lock_owner = self.locks.new_owner();
        for (name, strength) in &locks {
            if !self.locks.adopt(lock_owner, *name, strength.mode()) {
                let problem = "a row of it is a row of another in-doubt transaction, too";
                return Err(rows::damaged(stamp, problem));
            }
        }
        // Two rows of one transaction may share a lock.
        let mut names: Vec<u64> = locks.into_iter().map(|(name, _)| name).collect();
        names.sort_unstable();
        names.dedup();
        let objects: Vec<_> = guards.objects.iter().map(|id| self.objects.open(*id)).collect();
        objects.iter().for_each(|object| object.hold_in_doubt());
        logged.finish();
        // Its decision may come after others have made tables.
        self.objects.never_draw_below(logged.next_id);
        logged.filled.iter().for_each(|storage| self.loads.filled_in_doubt(*storage));
        let definitions = Definitions::new(&logged, logged.filled.clone(), &self.objects);
        definitions.hold();
        let prepared = self.in_doubt.enter(NewPrepared {
            gid: Arc::from(prepare.gid),
            owner: Box::from(prepare.owner),
            time_micros: prepare.commit.time_micros,
            age: Age::since(&**self.clock(), prepare.commit.time_micros),
            row_count: prepare.commit.count,
            bytes: u64::try_from(bytes).expect("a length in memory fits into 64 bits"),
            body_bytes: body.len(),
            body: kept,
            objects,
            definitions,
            lock_owner,
        })?;
        self.never_draw_again(&guards.reads)?;
        let holder =
            self.in_doubt.protected.enter(lock_owner, written.iter().map(|key| &key[..]), &guards.reads);
        self.in_doubt.protected.count(&holder);
        self.in_doubt.logged(&prepared, stamp, names);
        Ok(prepared)
    }

    /// Objects that were never committed have left no trace but this: a new one with the id of one would seem to change
    /// what was read.
    fn never_draw_again(&self, reads: &[ReadItem]) -> Result<(), Error> {
        for read in reads {
            if let ReadItem::Row(row_key) = read
                && row_key::table_of(row_key) == Some(catalog::OBJECTS)
            {
                self.objects.never_draw(catalog::decode_id_key(row_key)?);
            }
        }
        Ok(())
    }
}
