//! What the replication of a server does: its slots, its receivers, and where it receives itself. Views and the connections share it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use seawall_engine::{AtLimit, Database, Error, HoldInfo, HoldKind, HoldLifetime, HoldOptions, LogHold};
use seawall_types::{Lsn, TimelineId};

use crate::lag::Lag;
use crate::message::Progress;
use crate::quorum::Quorum;
use crate::settings::Listens;
use crate::synchronous::{Member, StandbyNames, SyncState};
use crate::take_over::{TakeOver, TakeOverError, TakeOvers, TakenOver};

/// PostgreSQL's limit of names.
const SLOT_NAME_BYTES_MAX: usize = 63;

/// The replication of a server. See the module.
#[derive(Debug)]
pub struct Replication {
    database: Database,
    /// Slots in use, with the number of the connection.
    active: Mutex<BTreeMap<String, i32>>,
    senders: Mutex<BTreeMap<i32, SenderStatus>>,
    /// Notified when one of them is further, or gone.
    senders_changed: Condvar,
    /// How many wait for that.
    waiting_for_senders: AtomicUsize,
    take_overs: TakeOvers,
    receiver: Mutex<Option<ReceiverStatus>>,
    quorum: Quorum,
    /// Bytes of log that a slot may keep; `None`: any number.
    slot_limit: Mutex<Option<u64>>,
}

/// What a stream is to: a row of `pg_stat_replication`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SenderStatus {
    /// The number of the connection.
    pub process_id: i32,
    /// The role.
    pub user: String,
    /// What the receiver calls itself.
    pub application_name: String,
    /// Its address and port; `None`: the Unix socket.
    pub client: Option<(String, u16)>,
    /// Where it listens itself, if it has said so.
    pub listens: Option<Listens>,
    /// When the connection began: microseconds since 1970.
    pub began_micros: i64,
    /// Whether it has everything that is durable.
    pub is_streaming: bool,
    /// The end of what was sent.
    pub sent: Lsn,
    /// What it says.
    pub progress: Progress,
    /// When it said so: microseconds since 1970.
    pub reply_micros: Option<i64>,
    /// How long it takes.
    pub lag: Lag,
    /// When the oldest log was sent that it has not applied; `None`: it has applied all. Microseconds since 1970.
    pub behind_since_micros: Option<i64>,
}

/// Where a standby receives from: the row of `pg_stat_wal_receiver`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceiverStatus {
    /// `streaming`, or what it waits for.
    pub state: &'static str,
    /// Where to, without the password.
    pub upstream: String,
    /// The slot there.
    pub slot: Option<String>,
    /// Host and port.
    pub address: (String, u16),
    /// The timeline.
    pub timeline: TimelineId,
    /// Where the stream began, and on which timeline.
    pub started_at: Lsn,
    /// See `started_at`.
    pub started_timeline: TimelineId,
    /// When that end came here for the first time: microseconds since 1970.
    pub end_micros: Option<i64>,
    /// How far it is.
    pub progress: Progress,
    /// The end of the upstream's log, as it last said.
    pub upstream_end: Lsn,
    /// When the last message was sent there, and came here: microseconds since 1970.
    pub message_micros: Option<(i64, i64)>,
    /// Why the last connection ended.
    pub last_error: Option<String>,
    /// Connections that have ended with an error, or could not be made, while no archive gave the log: since this server follows.
    pub failures: u64,
}

/// A slot: a row of `pg_replication_slots`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotInfo {
    /// Its name.
    pub name: String,
    /// It ends with the connection that made it.
    pub is_temporary: bool,
    /// The connection that uses it.
    pub active: Option<i32>,
    /// The log is kept from here on.
    pub position: Lsn,
    /// It held more than its limit, and holds nothing any more.
    pub is_lost: bool,
    /// So many bytes of log may come before it is lost; less than none if the next clean-up takes it. `None`: there is no limit, or it is
    /// lost.
    pub safe_bytes: Option<i64>,
}

/// Why a slot is not made, found, or dropped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SlotError {
    /// The name is not one of a slot.
    #[error("replication slot name {0:?} is not valid: it has 1 to 63 small letters, digits and underscores")]
    Name(String),
    /// There is a slot or another hold of this name.
    #[error("replication slot {0:?} already exists")]
    Exists(String),
    /// There is none.
    #[error("replication slot {0:?} does not exist")]
    Missing(String),
    /// A connection uses it.
    #[error("replication slot {name:?} is active for PID {process_id}")]
    Active {
        /// Its name.
        name: String,
        /// The connection.
        process_id: i32,
    },
    /// What the engine says.
    #[error(transparent)]
    Database(#[from] Error),
}

/// A slot that a connection uses.
#[derive(Debug)]
pub struct ActiveSlot {
    hold: LogHold,
    replication: Arc<Replication>,
}

impl ActiveSlot {
    /// The receiver has everything before.
    ///
    /// # Errors
    /// `LogHoldLost`, `NoSuchLogHold`.
    pub fn advance(&self, to: Lsn) -> Result<(), Error> {
        if to > self.hold.position() { self.hold.advance(to) } else { Ok(()) }
    }
}

impl Drop for ActiveSlot {
    fn drop(&mut self) {
        self.replication.active.lock().remove(self.hold.name());
    }
}

impl Replication {
    /// Of a database that is open.
    pub fn new(database: Database) -> Arc<Replication> {
        let (active, senders, senders_changed, waiting_for_senders) = Default::default();
        let (take_overs, receiver, slot_limit) = Default::default();
        let quorum = Quorum::new(database.clone());
        Arc::new(Replication {
            database,
            active,
            senders,
            senders_changed,
            waiting_for_senders,
            take_overs,
            receiver,
            quorum,
            slot_limit,
        })
    }

    /// Commits wait for these standbys, if the database was opened with a quorum. Said once; later calls change nothing.
    pub fn commits_wait_for(&self, names: StandbyNames) {
        self.quorum.is_of(names);
    }

    /// The standbys that commits wait for.
    pub fn synchronous_standbys(&self) -> Option<&StandbyNames> {
        self.quorum.names()
    }

    /// The database.
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// Slots keep so many bytes of log at most from now on, those that there are, too; `None`: any number, until the disk is full. One that
    /// would keep more is lost.
    ///
    /// # Errors
    /// What the engine says.
    pub fn limit_slots(&self, limit_bytes: Option<u64>) -> Result<(), Error> {
        let mut limit = self.slot_limit.lock();
        *limit = limit_bytes;
        let log = self.database.log();
        let slots = log.holds()?.into_iter().filter(|hold| hold.options.kind == HoldKind::Standby);
        for slot in slots.filter(|slot| slot.options.limit_bytes != limit_bytes) {
            match log.limit_hold(&slot.name, limit_bytes) {
                // It was dropped meanwhile.
                Ok(()) | Err(Error::NoSuchLogHold { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Makes a slot, durably, which keeps the log from where recovery starts. A temporary one ends when the hold is dropped.
    ///
    /// # Errors
    /// `Name`, `Exists`; `Database`, on a standby as well.
    pub fn create_slot(&self, name: &str, is_temporary: bool) -> Result<LogHold, SlotError> {
        check_name(name)?;
        if self.database.log().holds()?.iter().any(|hold| hold.name == name) {
            return Err(SlotError::Exists(name.to_owned()));
        }
        let lifetime = if is_temporary { HoldLifetime::Process } else { HoldLifetime::Permanent };
        let limit = self.slot_limit.lock();
        let options = HoldOptions {
            kind: HoldKind::Standby,
            lifetime,
            limit_bytes: *limit,
            at_limit: AtLimit::LoseHold,
        };
        Ok(self.database.log().hold(name, options, None)?)
    }

    /// Ends a slot, durably.
    ///
    /// # Errors
    /// `Missing`, `Active`; `Database`.
    pub fn drop_slot(&self, name: &str) -> Result<(), SlotError> {
        self.slot(name)?;
        let active = self.active.lock();
        if let Some(process_id) = active.get(name).copied() {
            return Err(SlotError::Active { name: name.to_owned(), process_id });
        }
        Ok(self.database.log().release_hold(name)?)
    }

    /// A slot.
    ///
    /// # Errors
    /// `Missing`; `Database`.
    pub fn slot(&self, name: &str) -> Result<SlotInfo, SlotError> {
        let found = self.slots()?.into_iter().find(|slot| slot.name == name);
        found.ok_or_else(|| SlotError::Missing(name.to_owned()))
    }

    /// All slots, by name.
    ///
    /// # Errors
    /// What the engine says.
    pub fn slots(&self) -> Result<Vec<SlotInfo>, Error> {
        let holds = self.database.log().holds()?;
        let end = self.database.log().flushed();
        let active = self.active.lock();
        let info = |hold: HoldInfo| SlotInfo {
            active: active.get(&hold.name).copied(),
            is_temporary: hold.options.lifetime == HoldLifetime::Process,
            position: hold.position,
            is_lost: hold.lost_at.is_some(),
            safe_bytes: safe_bytes(&hold, end),
            name: hold.name,
        };
        Ok(holds.into_iter().filter(|hold| hold.options.kind == HoldKind::Standby).map(info).collect())
    }

    /// A slot for a connection, which nobody else uses meanwhile.
    ///
    /// # Errors
    /// `Missing`, `Active`; `Database`, `LogHoldLost` among them.
    pub fn use_slot(self: &Arc<Self>, name: &str, process_id: i32) -> Result<ActiveSlot, SlotError> {
        self.take_slot(name, process_id, |database, name| database.log().find_hold(name))
    }

    /// As `use_slot`, for a copy of the rows, which needs the log from before its checkpoint on: the slot of a standby that was there before may
    /// have come further, or be lost.
    ///
    /// # Errors
    /// `Missing`, `Active`; `Database`, on a standby as well.
    pub fn use_slot_for_copy(self: &Arc<Self>, name: &str, process_id: i32) -> Result<ActiveSlot, SlotError> {
        self.take_slot(name, process_id, |database, name| database.log().hold_again(name))
    }

    fn take_slot(
        self: &Arc<Self>,
        name: &str,
        process_id: i32,
        find: impl FnOnce(&Database, &str) -> Result<LogHold, Error>,
    ) -> Result<ActiveSlot, SlotError> {
        self.slot(name)?;
        let mut active = self.active.lock();
        if let Some(process_id) = active.get(name).copied() {
            return Err(SlotError::Active { name: name.to_owned(), process_id });
        }
        let hold = find(&self.database, name)?;
        active.insert(name.to_owned(), process_id);
        Ok(ActiveSlot { hold, replication: Arc::clone(self) })
    }

    /// All streams.
    pub fn senders(&self) -> Vec<SenderStatus> {
        self.senders.lock().values().cloned().collect()
    }

    /// The place of a stream among the standbys that commits wait for, from 1 on, or 0, and what it is to them.
    pub fn sync_state(&self, sender: &SenderStatus) -> (usize, SyncState) {
        self.quorum.sync_state(&member(sender), &members(&self.senders.lock()))
    }

    /// A stream is so far. Commits that waited for that are visible when this returns.
    pub fn note_sender(&self, status: SenderStatus) {
        let mut senders = self.senders.lock();
        let now = (status.progress, status.is_streaming);
        let before = senders.insert(status.process_id, status);
        if before.is_none_or(|before| (before.progress, before.is_streaming) != now) {
            self.quorum.streams_are(&members(&senders));
            self.senders_changed.notify_all();
        }
    }

    /// Waits until the stream of this number is so far, for as long as `left` says. `false`: that was too short, or the stream has ended.
    pub(crate) fn wait_for_sender(
        &self,
        process_id: i32,
        is_so_far: impl Fn(&SenderStatus) -> bool,
        left: impl Fn() -> Duration,
    ) -> bool {
        self.waiting_for_senders.fetch_add(1, Ordering::SeqCst);
        let has_come = self.wait_for_sender_status(process_id, is_so_far, left);
        self.waiting_for_senders.fetch_sub(1, Ordering::SeqCst);
        has_come
    }

    fn wait_for_sender_status(
        &self,
        process_id: i32,
        is_so_far: impl Fn(&SenderStatus) -> bool,
        left: impl Fn() -> Duration,
    ) -> bool {
        let mut senders = self.senders.lock();
        loop {
            let Some(sender) = senders.get(&process_id) else { return false };
            if is_so_far(sender) {
                return true;
            }
            let left = left();
            if left.is_zero() {
                return false;
            }
            self.senders_changed.wait_for(&mut senders, left);
        }
    }

    /// Whether a commit, or a switchover, may wait for what the receiver of this name says.
    pub fn is_waited_for(&self, application_name: &str) -> bool {
        let is_named = |names: &StandbyNames| names.priority(application_name) > 0;
        self.quorum.names().is_some_and(is_named) || self.waiting_for_senders.load(Ordering::SeqCst) > 0
    }

    /// The slot that the connection of this number uses.
    pub(crate) fn slot_of(&self, process_id: i32) -> Option<String> {
        let active = self.active.lock();
        active.iter().find(|(_, user)| **user == process_id).map(|(name, _)| name.clone())
    }

    /// Follows the order of this standby's primary to go on where its log ends, with `promote`; the new timeline.
    ///
    /// # Errors
    /// `TakeOverError`. What became of it, [`Replication::cancel_take_over`] says.
    pub fn take_over<E>(
        &self,
        take_over: &TakeOver,
        promote: impl FnOnce() -> Result<(), E>,
    ) -> Result<TimelineId, TakeOverError<E>> {
        self.take_overs.follow(&self.database, take_over, promote)
    }

    /// Cancels an order, unless it was followed: it is not followed any more when this returns.
    ///
    /// # Errors
    /// What became of it only the next start knows; what the engine says.
    pub fn cancel_take_over(&self, order: &str) -> Result<TakenOver, Error> {
        self.take_overs.cancel(&self.database, order)
    }

    /// A stream has ended.
    pub fn forget_sender(&self, process_id: i32) {
        let mut senders = self.senders.lock();
        if senders.remove(&process_id).is_some() {
            self.quorum.streams_are(&members(&senders));
            self.senders_changed.notify_all();
        }
    }

    /// Where this server receives from; `None`: it does not.
    pub fn receiver(&self) -> Option<ReceiverStatus> {
        self.receiver.lock().clone()
    }

    /// Changes what is said of where this server receives from.
    pub fn note_receiver(&self, change: impl FnOnce(&mut Option<ReceiverStatus>)) {
        change(&mut self.receiver.lock());
    }
}

/// What may come until a hold is lost, of a log that ends at `end`.
fn safe_bytes(hold: &HoldInfo, end: Lsn) -> Option<i64> {
    let limit = hold.options.limit_bytes.filter(|_| hold.lost_at.is_none())?;
    let held = end.bytes_since(hold.position.min(end));
    let signed = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
    Some(signed(limit) - signed(held))
}

fn member(sender: &SenderStatus) -> Member {
    Member {
        process_id: sender.process_id,
        name: sender.application_name.clone(),
        is_streaming: sender.is_streaming,
        progress: sender.progress,
    }
}

fn members(senders: &BTreeMap<i32, SenderStatus>) -> Vec<Member> {
    senders.values().map(member).collect()
}

fn check_name(name: &str) -> Result<(), SlotError> {
    let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    let is_name = (1..=SLOT_NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_allowed);
    if is_name { Ok(()) } else { Err(SlotError::Name(name.to_owned())) }
}

#[cfg(test)]
mod tests {
    use seawall_crash_harness::{open, small_options, template};

    use super::*;

    #[test]
    fn a_standby_that_commits_wait_for_is_waited_for_and_any_one_during_a_switchover() {
        let replication = Replication::new(open(&template(&small_options()), &small_options()));
        assert!(!replication.is_waited_for("a"), "no commit waits for standbys");
        replication.commits_wait_for("ANY 1 (a)".parse().unwrap());
        assert!(replication.is_waited_for("a"));
        assert!(!replication.is_waited_for("b"));
        let stream = SenderStatus {
            process_id: 1,
            user: "postgres".to_owned(),
            application_name: "b".to_owned(),
            client: None,
            listens: None,
            began_micros: 0,
            is_streaming: true,
            sent: Lsn::ZERO,
            progress: Progress::default(),
            reply_micros: None,
            lag: Lag::default(),
            behind_since_micros: None,
        };
        replication.note_sender(stream);
        let is_so_far = |_: &SenderStatus| {
            assert!(replication.is_waited_for("b"), "a switchover waits");
            false
        };
        assert!(!replication.wait_for_sender(1, is_so_far, || Duration::ZERO));
        assert!(!replication.is_waited_for("b"), "it does not wait any more");
    }
}
