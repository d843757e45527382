//! A record's way into the log: what it depends on is checked, it gets its place, and its rows get into the memtable.
//!
//! ```text
//!   few rows:                check, long | critical section: check the rest, LSN | rows into the memtable
//!   many rows:   rows into the memtable, | critical section: check the rest, LSN,
//!                pending; check, long    | publish the rows with one store
//! ```
//! Invariants:
//! * The log's critical section grows with the tables and definitions of a transaction, and not with the rows that it has
//!   written or read. The long part of each check comes before. Inside, what has changed since is looked at; if that is much,
//!   the record leaves the critical section and comes again. One that was overtaken in every round but the last is the
//!   exception: there all of its rows are held against transactions in doubt, and `KEYS_IN_LAST_ROUND` keys of others against
//!   what it has read.
//! * Between the critical section and `applied`, `ROWS_AHEAD` rows and `BYTES_AHEAD` bytes are inserted at most.
//! * The rows of a record are in the memtable that was active at its place in the log. A thread that inserts them before
//!   holds `applying_ahead`, which a freeze takes alone. Meanwhile the thread waits for nothing that needs a freeze.
//! * A record that waits for a decision holds no room in the memtable: the decision may need it.
//!
//! What is on disk if the power goes: as for any commit, nothing before the record is durable. Rows that are pending are
//! in memory only.

use std::sync::Arc;
use std::time::Duration;

use seawall_sync::arc_swap::Guard;
use seawall_sync::{CancelToken, thread};
use seawall_types::Lsn;
use seawall_wal::PreparedRecord;

use crate::catalog::OpenObject;
use crate::engine::Engine;
use crate::error::{CHANGED_READS, Error};
use crate::in_doubt::protected::PASSED_OVER_MAX;
use crate::options::Durability;
use crate::pacing::writer_pace::ReservedRoom;
use crate::sabotage::{Defect, sabotaged};
use crate::snapshots::view::View;
use crate::transaction::commit_queue::Ticket;
use crate::transaction::commit_request::{CommitRequest, RowsToApply};
use crate::transaction::lock_wait::{LockPatience, LockWait};
use crate::transaction::read_item::ReadItem;
use crate::transaction::read_item::ReadKeys;
use crate::transaction::recent_commits::{EvictedKeys, Watch, WrittenKeys};
use crate::transaction::touched_tables::{TableUse, table_changed};

/// So many keys are looked at in the log's critical section at most, but for the last round.
const KEYS_INSIDE: usize = 256;
/// And in the last round.
const KEYS_IN_LAST_ROUND: usize = 1 << 16;
/// Keys of a commit with more rows are not collected for those who validate: its rows are in the memtable by then.
const KEYS_COLLECTED: u64 = 1 << 16;
/// Rounds of checks that come too late. In the last one all that is left is looked at in the critical section; changes that
/// are too many for that, or that nobody has collected, count as a conflict.
const ROUNDS_MAX: u32 = 16;

/// A record that is in the log, and its rows in the memtable of `view`. A freeze that takes the memtable out of use does
/// not return before the ticket is `applied`.
pub(crate) struct Logged {
    pub(crate) stamp: Lsn,
    pub(crate) ticket: Ticket,
    pub(crate) view: Guard<Arc<View>>,
    /// To be freed after the ticket is `applied`: others wait for that.
    pub(crate) evicted: EvictedKeys,
}

/// Why the commit was not admitted to the log.
enum Refused {
    Changed(usize),
    /// An in-doubt transaction uses the table with this id, which is to be dropped, truncated or altered.
    InDoubt(u64),
    /// An in-doubt transaction defines a table that was written to.
    Redefined,
    /// An in-doubt transaction has read what is to be written.
    Protected,
    /// An in-doubt transaction has written what the one that is to be prepared has read.
    Undecided,
    Conflict,
    Cancelled,
    QueueFull,
    /// Too much has entered the log since the check outside.
    Overtaken,
    /// The log takes no record.
    Failed(Error),
}

impl From<Error> for Refused {
    fn from(error: Error) -> Refused {
        Refused::Failed(error)
    }
}

/// What a record depends on, and how far that was checked outside of the log's critical section.
struct Check<'c, K> {
    request: &'c CommitRequest<'c>,
    row_keys: K,
    /// There are few keys and reads, and no rows are put in ahead: in-doubt transactions are asked in the critical section
    /// alone.
    is_short: bool,
    /// No in-doubt transaction was in the way when so many had begun to count.
    no_doubt_at: Option<u64>,
    /// Nothing stamped above the snapshot and at most this has changed what was read.
    unchanged_until: Lsn,
    validation: Option<Validation<'c>>,
    rounds: u32,
}

/// A look at what was read that takes long.
struct Validation<'v> {
    read_keys: ReadKeys<'v>,
    /// Tables that were read.
    objects: Vec<&'v OpenObject>,
    _watch: Watch<'v>,
}

impl Engine {
    /// Gives a record its place in the log, if what `request` depends on is as it was, and puts its rows into the
    /// memtable, in which `room` is reserved for them. `in_order` runs in the log's critical section. The caller holds the
    /// locks of the rows.
    pub(crate) fn log_and_apply<'r>(
        &self,
        request: &CommitRequest<'_>,
        row_keys: impl Iterator<Item = &'r [u8]> + Clone,
        record: &mut PreparedRecord,
        rows: &RowsToApply<'_>,
        room: &mut ReservedRoom<'_>,
        in_order: impl Fn(),
    ) -> Result<Logged, Error> {
        if request.durability == Durability::Archived && self.archivers.all().is_empty() {
            return Err(Error::NoArchive);
        }
        let mut waiting_since = None;
        loop {
            let unprotected = self.in_doubt.protected.seen();
            let mut check = Check::new(request, row_keys.clone(), rows);
            let admitted = self.admit(&mut check, record, rows, &in_order);
            // Before a wait: while it lives, others may leave their keys for it.
            drop(check);
            match admitted {
                Ok(logged) => return Ok(logged),
                Err(refused) => {
                    // The decision that is waited for may need the room. And what was put in for nothing counts as used.
                    room.give_back();
                    self.wait_or_fail(request, refused, &mut waiting_since, unprotected)?;
                    room.reserve()?;
                }
            }
        }
    }

    fn admit<'c, 'r>(
        &'c self,
        check: &mut Check<'c, impl Iterator<Item = &'r [u8]> + Clone>,
        record: &mut PreparedRecord,
        rows: &RowsToApply<'_>,
        in_order: impl Fn(),
    ) -> Result<Logged, Refused> {
        // First, so that rows are seldom put in for nothing.
        self.check_outside(check)?;
        let written = self.collect_keys(check.request, rows);
        if rows.are_many() {
            let _no_freeze = self.applying_ahead.read();
            let view = self.view();
            // If the record is refused, or the log fails, nobody ever sees the rows.
            let pending = view.active.begin_pending();
            (rows.for_each)(&mut |key, value| pending.insert(key, value, || self.horizon_in(&view)));
            return self.append_checked(check, record, rows.count, &written, |stamp| {
                pending.publish(stamp);
                in_order();
            });
        }
        let logged = self.append_checked(check, record, rows.count, &written, |_| in_order())?;
        let (stamp, view) = (logged.stamp, &logged.view);
        (rows.for_each)(&mut |key, value| {
            view.active.insert(key, stamp, value, || self.horizon_in(view));
        });
        Ok(logged)
    }

    /// Appends the record as soon as what it depends on is checked, after `ROUNDS_MAX` attempts at most. Waits for nothing
    /// that needs a freeze: `applying_ahead` may be held.
    fn append_checked<'c, 'r>(
        &'c self,
        check: &mut Check<'c, impl Iterator<Item = &'r [u8]> + Clone>,
        record: &mut PreparedRecord,
        row_count: u64,
        written: &WrittenKeys,
        in_order: impl Fn(Lsn),
    ) -> Result<Logged, Refused> {
        let log = self.log()?;
        let request = check.request;
        loop {
            self.check_outside(check)?;
            let appended = log.append(record, |span| {
                self.check_inside(check)?;
                let ticket = self.queue.enter(span.end).ok_or(Refused::QueueFull)?;
                self.queue.count_rows(row_count);
                self.apply_definitions(request, span.end);
                in_order(span.end);
                // After the tables are held: who finds that it counts finds them held, too.
                if let Some(holder) = request.holder {
                    self.in_doubt.protected.count(holder);
                }
                // Last: whoever finds the entry finds what it stands for.
                let evicted = self.recent_commits.entered(span.end, written.clone());
                Ok((ticket, self.view(), evicted))
            });
            match appended.map_err(Error::from)? {
                Ok((span, (ticket, view, evicted))) => {
                    return Ok(Logged { stamp: span.end, ticket, view, evicted });
                }
                Err(Refused::Overtaken) if !check.is_last_round() => check.rounds += 1,
                Err(refused) => return Err(refused),
            }
        }
    }

    /// What the record defines is so from its place in the log on. In the log's critical section.
    fn apply_definitions(&self, request: &CommitRequest<'_>, stamp: Lsn) {
        // Of a prepare its decision does.
        if request.holder.is_some() {
            return;
        }
        for definition in request.definitions {
            definition.object.change(definition.storage, stamp);
            self.counters.reclaim.give_up(definition.given_up);
        }
        request.altered.iter().for_each(|object| object.alter(stamp));
        if let Some(decided) = request.decided {
            decided.apply(stamp);
            self.counters.reclaim.give_up(decided.given_up());
        }
        if request.has_definitions() {
            self.objects.defined(stamp);
        }
    }

    /// For those who validate meanwhile. Not for those who begin to later: they look in the memtables.
    fn collect_keys(&self, request: &CommitRequest<'_>, rows: &RowsToApply<'_>) -> WrittenKeys {
        if !self.recent_commits.is_watched() || rows.count > KEYS_COLLECTED {
            return WrittenKeys::UNKNOWN;
        }
        WrittenKeys::collect(request.has_definitions(), |visit| (rows.for_each)(&mut |key, _| visit(key)))
    }

    /// Waits until the record may be admitted after all, or says why it never will.
    fn wait_or_fail(
        &self,
        request: &CommitRequest<'_>,
        refused: Refused,
        waiting_since: &mut Option<Duration>,
        unprotected: u32,
    ) -> Result<(), Error> {
        let mut wait = |waited| self.wait_for_decision(request.patience, waiting_since, unprotected, waited);
        match refused {
            Refused::Changed(index) => {
                let used = &request.tables[index];
                let object = &used.table.object;
                self.require_visible(object.changed_at().max(object.altered_at()), request.patience.cancel)?;
                Err(table_changed(used))
            }
            Refused::InDoubt(id) => Err(self.table_in_doubt(id)),
            Refused::Redefined => wait("the transaction that defines a table of it is in doubt"),
            Refused::Protected => wait("the transaction that has read it is in doubt"),
            Refused::Undecided => wait("the transaction that has written what it has read is in doubt"),
            Refused::Conflict | Refused::Overtaken => Err(Error::Conflict { what: CHANGED_READS }),
            Refused::Cancelled => Err(self.snapshot_cancelled(request.snapshot)),
            Refused::QueueFull => self.wait_for_queue(request.patience.cancel),
            Refused::Failed(Error::Parked) => self.wait_for_log(request.patience.cancel),
            Refused::Failed(error) => Err(error),
        }
    }

    /// The queue is full of commits that are not visible: waits until one is.
    #[cold]
    fn wait_for_queue(&self, cancel: Option<&CancelToken>) -> Result<(), Error> {
        self.log()?.flush_until(self.appended())?;
        let limit = || self.lifecycle.check_not_stopped().ok().and_then(|()| self.wait_limit(cancel));
        self.queue.wait_until(cancel, || self.queue.has_room(), limit);
        self.lifecycle.check_not_stopped()?;
        if self.queue.has_room() {
            return Ok(());
        }
        // Standbys are waited for, and this wait was ended.
        self.lifecycle.check_open()?;
        if cancel.is_some_and(CancelToken::is_requested) { Err(Error::Cancelled) } else { Ok(()) }
    }

    /// Waits until some in-doubt transaction is decided that had read or written something.
    fn wait_for_decision(
        &self,
        patience: LockPatience<'_>,
        waiting_since: &mut Option<Duration>,
        seen: u32,
        waited_for: &'static str,
    ) -> Result<(), Error> {
        // The decision would be a write: it cannot come any more.
        self.lifecycle.check_writable()?;
        let now = self.clock().monotonic();
        let waited = now.saturating_sub(*waiting_since.get_or_insert(now));
        let left = match patience.wait {
            LockWait::NoWait => Duration::ZERO,
            LockWait::Timeout(timeout) => timeout.saturating_sub(waited),
        };
        if left.is_zero() {
            return Err(Error::Locked { waited: waited_for });
        }
        if patience.is_cancelled() {
            return Err(Error::Cancelled);
        }
        self.in_doubt.protected.wait(seen, left, patience.cancel);
        Ok(())
    }
}

impl<'c, 'r, K: Iterator<Item = &'r [u8]> + Clone> Check<'c, K> {
    fn new(request: &'c CommitRequest<'c>, row_keys: K, rows: &RowsToApply<'_>) -> Check<'c, K> {
        // A commit that is refused after its rows are in the memtable has taken the memory for nothing.
        let is_short = !rows.are_many()
            && request.reads.len() <= KEYS_INSIDE
            && row_keys.clone().nth(KEYS_INSIDE).is_none();
        Check {
            request,
            row_keys,
            is_short,
            no_doubt_at: None,
            unchanged_until: request.snapshot,
            validation: None,
            rounds: 0,
        }
    }
}

impl<K> Check<'_, K> {
    fn is_last_round(&self) -> bool {
        self.rounds >= ROUNDS_MAX
    }
}

/// The checks.
impl Engine {
    /// What may take long. Not in the log's critical section.
    fn check_outside<'c, 'r>(
        &'c self,
        check: &mut Check<'c, impl Iterator<Item = &'r [u8]> + Clone>,
    ) -> Result<(), Refused> {
        check_tables(check.request)?;
        if !check.is_short {
            let counted = self.in_doubt.protected.counted();
            if check.no_doubt_at != Some(counted) {
                self.check_in_doubt(check, usize::MAX)?;
                check.no_doubt_at = Some(counted);
            }
        }
        let request = check.request;
        if request.reads.is_empty() || self.queue.last_entered() <= check.unchanged_until {
            return Ok(());
        }
        if check.validation.is_none() {
            let read_keys = ReadKeys::of(request.reads);
            let read_keys =
                if sabotaged(Defect::RangeNotValidated) { read_keys.without_ranges() } else { read_keys };
            let watch = self.recent_commits.watch(|| self.queue.last_entered());
            let objects = request.reads.iter().filter_map(ReadItem::object).map(|object| &**object).collect();
            check.validation = Some(Validation { read_keys, objects, _watch: watch });
            return self.look_at_reads(check);
        }
        // Not further: who looks more slowly than others commit would never be done.
        let (until, mut any_number) = (self.queue.last_entered(), usize::MAX);
        while check.unchanged_until < until {
            if !self.look_at_recent(check, &mut any_number)? {
                return self.look_at_reads(check);
            }
            // A commit that has just entered leaves its entry at once.
            thread::yield_now();
        }
        Ok(())
    }

    /// What is left of the checks, and short. In the log's critical section.
    fn check_inside<'r>(
        &self,
        check: &mut Check<'_, impl Iterator<Item = &'r [u8]> + Clone>,
    ) -> Result<(), Refused> {
        let request = check.request;
        check_tables(request)?;
        if check.no_doubt_at != Some(self.in_doubt.protected.counted()) {
            if !check.is_short && !check.is_last_round() {
                return Err(Refused::Overtaken);
            }
            match self.check_in_doubt(check, PASSED_OVER_MAX) {
                Err(Refused::Overtaken) if check.rounds >= ROUNDS_MAX => return Err(Refused::Conflict),
                Err(Refused::Overtaken) => {
                    // From now on it is asked outside.
                    check.is_short = false;
                    return Err(Refused::Overtaken);
                }
                other => other?,
            }
        }
        if request.reads.is_empty() || self.queue.last_entered() <= check.unchanged_until {
            return Ok(());
        }
        let mut keys_left = if check.is_last_round() { KEYS_IN_LAST_ROUND } else { KEYS_INSIDE };
        loop {
            let before = check.unchanged_until;
            if !self.look_at_recent(check, &mut keys_left)? || check.unchanged_until == before {
                return Err(Refused::Overtaken);
            }
            if self.queue.last_entered() <= check.unchanged_until {
                return Ok(());
            }
        }
    }

    /// Whether transactions in doubt are in the way; `Overtaken`, if that is open after so many rows that do not count yet.
    fn check_in_doubt<'r>(
        &self,
        check: &Check<'_, impl Iterator<Item = &'r [u8]> + Clone>,
        passed_over_max: usize,
    ) -> Result<(), Refused> {
        let (request, in_doubt) = (check.request, &self.in_doubt.protected);
        if request.holder.is_some() {
            // A drop writes no row that was read.
            if request.reads.iter().filter_map(ReadItem::object).any(|object| !object.is_settled()) {
                return Err(Refused::Undecided);
            }
            match in_doubt.has_written_any(request.owner, request.reads, passed_over_max) {
                Some(false) => {}
                Some(true) => return Err(Refused::Undecided),
                None => return Err(Refused::Overtaken),
            }
        }
        if in_doubt.has_read_any(request.owner, check.row_keys.clone())
            && !sabotaged(Defect::PreparedReadsForgotten)
        {
            return Err(Refused::Protected);
        }
        Ok(())
    }

    /// Looks at all that was read, in the memtables.
    fn look_at_reads<K>(&self, check: &mut Check<'_, K>) -> Result<(), Refused> {
        if check.is_last_round() {
            return Err(Refused::Overtaken);
        }
        check.rounds += 1;
        let request = check.request;
        let until = self.queue.last_entered();
        // Commits up to there may still be on their way into the memtable.
        self.queue.wait_applied();
        let view = self.view();
        if request.reads.iter().any(|read| changed_since(&view, read, request.snapshot)) {
            return Err(Refused::Conflict);
        }
        // After the look: what was kept for the snapshot was there then.
        if request.snapshot_is_held && self.is_cancelled(request.snapshot) {
            return Err(Refused::Cancelled);
        }
        check.unchanged_until = until;
        Ok(())
    }

    /// Looks at what commits have written since, at most so many keys of them; false if that does not suffice.
    fn look_at_recent<K>(&self, check: &mut Check<'_, K>, keys_left: &mut usize) -> Result<bool, Refused> {
        let Some(Validation { read_keys, objects, .. }) = &check.validation else { return Ok(false) };
        let Some(entries) = self.recent_commits.since(check.unchanged_until, KEYS_INSIDE) else {
            return Ok(false);
        };
        for (stamp, written) in &entries {
            let Some(mut keys) = written.keys() else { return Ok(false) };
            let Some(left) = keys_left.checked_sub(written.count().max(1)) else { return Ok(false) };
            *keys_left = left;
            if written.has_definitions && objects.len() > *keys_left {
                return Ok(false);
            }
            let is_table_changed =
                || objects.iter().any(|object| object.changed_since(check.request.snapshot));
            if keys.any(|key| read_keys.covers(key)) || (written.has_definitions && is_table_changed()) {
                return Err(Refused::Conflict);
            }
            check.unchanged_until = *stamp;
        }
        Ok(true)
    }
}

/// Whether the tables are where and what they were taken to be, and may be defined anew.
fn check_tables(request: &CommitRequest<'_>) -> Result<(), Refused> {
    if let Some(index) = request.tables.iter().position(TableUse::is_outdated) {
        return Err(Refused::Changed(index));
    }
    let mut defined = request.definitions.iter().map(|own| &own.object).chain(request.altered);
    if let Some(held) = defined.find(|object| !object.is_free()) {
        return Err(Refused::InDoubt(held.id));
    }
    let is_settled = request.tables.iter().all(|used| used.table.object.is_settled());
    if is_settled { Ok(()) } else { Err(Refused::Redefined) }
}

fn changed_since(view: &View, read: &ReadItem, snapshot: Lsn) -> bool {
    match read {
        ReadItem::Row(row_key) => view.newest_stamp_after(row_key, snapshot).is_some(),
        ReadItem::Object(object) => object.changed_since(snapshot),
        ReadItem::Range(..) if sabotaged(Defect::RangeNotValidated) => false,
        ReadItem::Range(from, to) => {
            crate::snapshots::scan::any_newer_in(view, from.as_ref(), to.as_ref(), snapshot)
        }
    }
}
