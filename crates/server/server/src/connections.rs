//! The connections that there are: how many may be, what each does, and what ends it.
//!
//! A connection has an entry here from its start-up packet on. What another thread wants of it goes through the entry: a request to cancel its
//! statement, the end of the server, a limit of time. A statement is ended by its number, so that what comes late never ends the next one.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use seawall_sql::session::{ANALYZE_PROCESS_ID, Waker};
use seawall_values::{SqlError, SqlResult, SqlState};
use tokio::sync::Notify;

use crate::scram::is_equal;
use crate::socket::Socket;
use crate::statements::Canceller;

/// Between two times that a statement is told to end.
pub(crate) const CANCEL_AGAIN: Duration = Duration::from_millis(50);

/// Why a statement or a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The client has asked for it.
    Requested,
    /// `statement_timeout`.
    StatementTimeout,
    /// The server shuts down.
    Shutdown,
    /// The client is gone.
    Vanished,
}

impl Ending {
    /// Whether the connection ends with the statement.
    pub(crate) fn is_of_connection(self) -> bool {
        matches!(self, Ending::Shutdown | Ending::Vanished)
    }

    /// What the client is told.
    pub(crate) fn error(self) -> Box<SqlError> {
        match self {
            Ending::Requested => {
                SqlError::new(SqlState::QUERY_CANCELED, "canceling statement due to user request")
            }
            Ending::StatementTimeout => {
                SqlError::new(SqlState::QUERY_CANCELED, "canceling statement due to statement timeout")
            }
            Ending::Shutdown => {
                SqlError::new(SqlState::ADMIN_SHUTDOWN, "terminating connection due to administrator command")
            }
            Ending::Vanished => SqlError::new(SqlState::CONNECTION_FAILURE, "connection to client lost"),
        }
    }
}

/// What a session does.
#[derive(Default)]
struct Activity {
    /// Counts statements.
    number: u64,
    is_running: bool,
    /// Of the statement under way.
    ending: Option<Ending>,
    /// Counts limits of time.
    alarm: u64,
    /// Of the connection.
    is_to_end: bool,
    canceller: Option<Canceller>,
}

/// One connection.
pub(crate) struct Entry {
    pub(crate) process_id: i32,
    key: Vec<u8>,
    socket: Arc<Socket>,
    activity: Mutex<Activity>,
    /// It streams the log: a server that ends does not wait for its client.
    is_for_replication: AtomicBool,
    /// Wakes the task of an idle connection that is to end, or whose session has something for its client.
    pub(crate) woken: Arc<Notify>,
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "connection {}", self.process_id)
    }
}

impl Entry {
    pub(crate) fn set_canceller(&self, canceller: Canceller) {
        self.activity.lock().canceller = Some(canceller);
    }

    /// Wakes the task of an idle connection, from any thread.
    pub(crate) fn waker(&self) -> Waker {
        let woken = Arc::clone(&self.woken);
        Arc::new(move || woken.notify_one())
    }

    /// The connection is one for replication.
    pub(crate) fn set_for_replication(&self) {
        self.is_for_replication.store(true, Ordering::SeqCst);
    }

    /// A statement begins; returns its number.
    pub(crate) fn begin(&self) -> u64 {
        let mut activity = self.activity.lock();
        activity.number += 1;
        activity.is_running = true;
        activity.ending = None;
        activity.number
    }

    /// The statement has ended; returns why, if it was made to.
    pub(crate) fn finish(&self) -> Option<Ending> {
        let mut activity = self.activity.lock();
        activity.is_running = false;
        activity.ending.take()
    }

    /// Why the statement under way is to end, if it is.
    pub(crate) fn ending(&self) -> Option<Ending> {
        self.activity.lock().ending
    }

    pub(crate) fn is_to_end(&self) -> bool {
        self.activity.lock().is_to_end
    }

    /// Ends the statement with this number, if it is still under way; `None`: whichever is. Returns the number of what was told to end.
    ///
    /// To be called again until nothing is: a session may not notice what comes while a statement is just beginning.
    pub(crate) fn cancel(&self, number: Option<u64>, ending: Ending) -> Option<u64> {
        let mut activity = self.activity.lock();
        if !activity.is_running || number.is_some_and(|number| number != activity.number) {
            return None;
        }
        activity.ending.get_or_insert(ending);
        if let Some(canceller) = &activity.canceller {
            canceller();
        }
        Some(activity.number)
    }

    /// A limit of time begins, and the one before ends; returns its number.
    pub(crate) fn set_alarm(&self) -> u64 {
        let mut activity = self.activity.lock();
        activity.alarm += 1;
        activity.ending.take_if(|ending| *ending == Ending::StatementTimeout);
        activity.alarm
    }

    /// The limit of time with this number has passed; `false`: it has ended before. To be called again, as `cancel` is.
    fn time_out(&self, alarm: u64) -> bool {
        let is_set = self.activity.lock().alarm == alarm;
        is_set && self.cancel(None, Ending::StatementTimeout).is_some()
    }

    /// As `time_out`, again and again until the statement has ended.
    pub(crate) async fn insist_on_limit(&self, alarm: u64) {
        while self.time_out(alarm) {
            tokio::time::sleep(CANCEL_AGAIN).await;
        }
    }

    /// As `cancel`, again and again until the statement has ended.
    pub(crate) async fn insist(&self, number: Option<u64>, ending: Ending) {
        let mut told = self.cancel(number, ending);
        while told.is_some() {
            tokio::time::sleep(CANCEL_AGAIN).await;
            told = self.cancel(told, ending);
        }
    }

    /// Ends the connection after the statement under way, which is cancelled; a client that is still logging in is cut off. To be called
    /// again, as `cancel` is.
    pub(crate) fn end(&self) {
        let mut activity = self.activity.lock();
        activity.is_to_end = true;
        let is_logged_in = activity.canceller.is_some();
        drop(activity);
        if !is_logged_in {
            self.socket.end();
        }
        self.cancel(None, Ending::Shutdown);
        self.woken.notify_one();
    }

    /// Ends the connection without a word, whatever it waits for.
    pub(crate) fn cut(&self) {
        self.end();
        self.socket.end();
    }

    fn end_if_vanished(&self) {
        if self.activity.lock().is_running && self.socket.is_closed_by_peer() {
            // The next look tells it again.
            self.cancel(None, Ending::Vanished);
        }
    }
}

/// How many connections there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) connections_max: usize,
    /// Of these, for superusers.
    pub(crate) reserved: usize,
}

/// All connections.
#[derive(Debug)]
pub(crate) struct Connections {
    pub(crate) limits: Limits,
    entries: Mutex<HashMap<i32, Arc<Entry>>>,
    next_process_id: AtomicI32,
    /// Sockets that are open: more than entries, because some have not said yet what they want.
    pub(crate) sockets: AtomicUsize,
    /// Refused for want of room, since the start.
    pub(crate) refused: AtomicU64,
    changed: Notify,
}

/// An entry that is taken out when this is dropped.
#[derive(Debug)]
pub(crate) struct Registered {
    pub(crate) entry: Arc<Entry>,
    connections: Arc<Connections>,
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.connections.entries.lock().remove(&self.entry.process_id);
        self.connections.changed.notify_waiters();
    }
}

impl Connections {
    pub(crate) fn new(limits: Limits) -> Connections {
        Connections {
            limits,
            entries: Mutex::default(),
            next_process_id: AtomicI32::new(1),
            sockets: AtomicUsize::new(0),
            refused: AtomicU64::new(0),
            changed: Notify::new(),
        }
    }

    /// A place for a connection.
    ///
    /// # Errors
    /// `53300`: there are as many as may be.
    pub(crate) fn register(self: &Arc<Self>, socket: &Arc<Socket>, key: Vec<u8>) -> SqlResult<Registered> {
        let mut entries = self.entries.lock();
        if entries.len() >= self.limits.connections_max {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return Err(SqlError::new(SqlState::TOO_MANY_CONNECTIONS, "sorry, too many clients already"));
        }
        let process_id = loop {
            let next = self.next_process_id.fetch_add(1, Ordering::Relaxed) & i32::MAX;
            if next != 0 && next != ANALYZE_PROCESS_ID && !entries.contains_key(&next) {
                break next;
            }
        };
        let entry = Arc::new(Entry {
            process_id,
            key,
            socket: Arc::clone(socket),
            activity: Mutex::default(),
            is_for_replication: AtomicBool::new(false),
            woken: Arc::default(),
        });
        entries.insert(process_id, Arc::clone(&entry));
        Ok(Registered { entry, connections: Arc::clone(self) })
    }

    /// Whether only reserved places are left, beside those that are taken.
    ///
    /// # Errors
    /// `53300`: they are.
    pub(crate) fn refuse_reserved(&self) -> SqlResult<()> {
        if self.count() <= self.limits.connections_max.saturating_sub(self.limits.reserved) {
            return Ok(());
        }
        self.refused.fetch_add(1, Ordering::Relaxed);
        Err(SqlError::new(
            SqlState::TOO_MANY_CONNECTIONS,
            "remaining connection slots are reserved for non-replication superuser connections",
        ))
    }

    /// Sockets at a time: as many that have not said yet what they want as those that have, and some that only cancel.
    pub(crate) fn sockets_max(&self) -> usize {
        const MORE: usize = 32;
        self.limits.connections_max.saturating_mul(2).saturating_add(MORE)
    }

    /// Whether there are no other clients than those that stream the log.
    pub(crate) fn are_all_for_replication(&self) -> bool {
        self.entries.lock().values().all(|entry| entry.is_for_replication.load(Ordering::SeqCst))
    }

    pub(crate) fn count(&self) -> usize {
        self.entries.lock().len()
    }

    /// Connections that run a statement.
    pub(crate) fn running(&self) -> usize {
        self.all().iter().filter(|entry| entry.activity.lock().is_running).count()
    }

    /// The connection that a request to cancel is about, if `key` is the one that was given to its client.
    pub(crate) fn with_key(&self, process_id: i32, key: &[u8]) -> Option<Arc<Entry>> {
        let entry = self.entries.lock().get(&process_id).map(Arc::clone);
        match entry {
            Some(entry) if is_equal(&entry.key, key) => return Some(entry),
            Some(_) => tracing::warn!(process_id, "wrong key in a request to cancel"),
            None => tracing::info!(process_id, "a request to cancel names a connection that there is not"),
        }
        None
    }

    /// Cancels statements of clients that are gone.
    pub(crate) fn cancel_vanished(&self) {
        self.all().iter().for_each(|entry| entry.end_if_vanished());
    }

    pub(crate) fn all(&self) -> Vec<Arc<Entry>> {
        self.entries.lock().values().map(Arc::clone).collect()
    }

    /// Returns once there is none, or one has ended.
    pub(crate) async fn one_less(&self) {
        let changed = self.changed.notified();
        tokio::pin!(changed);
        changed.as_mut().enable();
        if self.count() > 0 {
            changed.await;
        }
    }
}
