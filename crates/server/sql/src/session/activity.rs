//! Who does what: the rows of `pg_stat_activity`, and the cancelling of statements by the number of their session.
//!
//! Each session has a mutex of its own, which it takes once a statement; the registry's is taken when sessions begin and end, and by
//! those who look.

use std::sync::Arc;

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use seawall_values::Oid;

use super::attention::Attention;
use super::{CancelHandle, Login, TransactionStatus};
use crate::catalog::source::Activity;

/// Bytes of a statement that are shown: `track_activity_query_size` less the end of the text.
const QUERY_BYTES_MAX: usize = 1_023;

/// The sessions of a database, by their numbers.
#[derive(Debug, Default)]
pub(crate) struct Activities {
    sessions: Mutex<FxHashMap<i32, Arc<SessionActivity>>>,
}

/// What one session does.
#[derive(Debug)]
pub(crate) struct SessionActivity {
    process_id: i32,
    user: Oid,
    client: Option<(String, i32)>,
    started: i64,
    cancel: CancelHandle,
    pub(super) attention: Attention,
    now: Mutex<Now>,
}

/// What changes with each statement.
#[derive(Debug)]
struct Now {
    application: String,
    query: String,
    state: &'static str,
    state_changed: i64,
    transaction_started: Option<i64>,
    statement_started: Option<i64>,
    wait: Option<(&'static str, &'static str)>,
}

impl Activities {
    /// A session begins: microseconds since 2000-01-01 UTC.
    pub(crate) fn add(
        &self,
        login: &Login,
        user: Oid,
        cancel: CancelHandle,
        now: i64,
    ) -> Arc<SessionActivity> {
        let activity = Arc::new(SessionActivity {
            process_id: login.process_id,
            user,
            client: login.client.as_ref().map(|(address, port)| (address.clone(), i32::from(*port))),
            started: now,
            cancel,
            attention: Attention::default(),
            now: Mutex::new(Now {
                application: String::new(),
                query: String::new(),
                state: "idle",
                state_changed: now,
                transaction_started: None,
                statement_started: None,
                wait: None,
            }),
        });
        self.sessions.lock().insert(login.process_id, Arc::clone(&activity));
        activity
    }

    /// A session has ended.
    pub(crate) fn remove(&self, process_id: i32) {
        self.sessions.lock().remove(&process_id);
    }

    /// What all sessions do, in the order of their numbers.
    pub(crate) fn all(&self) -> Vec<Activity> {
        let mut sessions: Vec<Arc<SessionActivity>> = self.sessions.lock().values().cloned().collect();
        sessions.sort_by_key(|session| session.process_id);
        sessions.iter().map(|session| session.shown()).collect()
    }

    /// The role of the session with this number; `None`: there is no such session.
    pub(crate) fn user_of(&self, process_id: i32) -> Option<Oid> {
        self.sessions.lock().get(&process_id).map(|session| session.user)
    }

    /// Cancels what a session does; `false`: there is no such session.
    pub(crate) fn cancel(&self, process_id: i32) -> bool {
        self.stop(process_id, |session| session.cancel.cancel())
    }

    /// Ends a session, and what it does; `false`: there is no such session.
    pub(crate) fn terminate(&self, process_id: i32) -> bool {
        self.stop(process_id, |session| {
            // In this order, so that what the cancel ends is known to be the last.
            session.attention.end();
            session.cancel.cancel();
        })
    }

    fn stop(&self, process_id: i32, stop: impl FnOnce(&SessionActivity)) -> bool {
        let session = self.sessions.lock().get(&process_id).cloned();
        session.as_deref().map(stop).is_some()
    }
}

impl SessionActivity {
    /// A statement begins.
    pub(crate) fn begin_statement(&self, text: &str, is_in_block: bool, now: i64) {
        let mut current = self.now.lock();
        current.query.clear();
        current.query.push_str(&text[..text.floor_char_boundary(QUERY_BYTES_MAX)]);
        current.state = "active";
        current.state_changed = now;
        current.statement_started = Some(now);
        if !is_in_block || current.transaction_started.is_none() {
            current.transaction_started = Some(now);
        }
    }

    /// The session waits for its client.
    pub(crate) fn end_statement(&self, status: TransactionStatus, now: i64) {
        let mut current = self.now.lock();
        current.state_changed = now;
        current.state = match status {
            TransactionStatus::Idle => {
                current.transaction_started = None;
                "idle"
            }
            TransactionStatus::InTransaction => "idle in transaction",
            TransactionStatus::Failed => "idle in transaction (aborted)",
        };
    }

    /// `application_name` has another value.
    pub(crate) fn set_application(&self, name: &str) {
        let mut current = self.now.lock();
        current.application.clear();
        current.application.push_str(name);
    }

    /// The statement waits: `wait_event_type` and `wait_event`; `None`: no longer.
    pub(crate) fn set_wait(&self, wait: Option<(&'static str, &'static str)>) {
        self.now.lock().wait = wait;
    }

    fn shown(&self) -> Activity {
        let now = self.now.lock();
        let is_idle = now.state != "active";
        Activity {
            process_id: self.process_id,
            user: self.user,
            application: now.application.clone(),
            client: self.client.clone(),
            started: self.started,
            transaction_started: now.transaction_started,
            statement_started: now.statement_started,
            state_changed: Some(now.state_changed),
            wait: if is_idle { Some(("Client", "ClientRead")) } else { now.wait },
            state: now.state,
            query: now.query.clone(),
            backend_type: match self.process_id {
                super::automatic_analyze::PROCESS_ID => "autovacuum worker",
                _ => "client backend",
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn login(process_id: i32) -> Login {
        Login { process_id, client: Some(("127.0.0.1".to_owned(), 5)), ..Login::default() }
    }

    #[test]
    fn sessions_show_what_they_do() {
        let activities = Activities::default();
        let second = activities.add(&login(2), 10, CancelHandle::default(), 100);
        let _first = activities.add(&login(1), 10, CancelHandle::default(), 100);
        second.set_application("psql");
        second.begin_statement("begin", false, 200);
        second.end_statement(TransactionStatus::InTransaction, 210);
        second.begin_statement("select 1", true, 300);
        second.set_wait(Some(("Lock", "advisory")));
        let shown = activities.all();
        assert_eq!(shown.iter().map(|session| session.process_id).collect::<Vec<_>>(), [1, 2]);
        assert_eq!((shown[0].state, &shown[0].query[..]), ("idle", ""));
        let shown = &shown[1];
        assert_eq!((&shown.application[..], &shown.query[..], shown.state), ("psql", "select 1", "active"));
        assert_eq!((shown.transaction_started, shown.statement_started), (Some(200), Some(300)));
        assert_eq!(shown.wait, Some(("Lock", "advisory")));
        assert_eq!(shown.client, Some(("127.0.0.1".to_owned(), 5)));
        second.set_wait(None);
        second.end_statement(TransactionStatus::Idle, 310);
        let shown = activities.all().remove(1);
        assert_eq!((shown.state, shown.transaction_started, shown.state_changed), ("idle", None, Some(310)));
        assert_eq!(shown.query, "select 1");
        activities.remove(2);
        assert_eq!(activities.all().len(), 1);
    }

    #[test]
    fn long_statements_are_cut_between_characters() {
        let activities = Activities::default();
        let session = activities.add(&login(1), 10, CancelHandle::default(), 0);
        session.begin_statement(&"é".repeat(1_000), false, 1);
        assert_eq!(activities.all()[0].query, "é".repeat(511));
    }

    #[test]
    fn statements_are_cancelled_by_the_number_of_their_session() {
        let activities = Activities::default();
        let cancel = CancelHandle::default();
        let _session = activities.add(&login(1), 10, cancel.clone(), 0);
        assert!(!activities.cancel(2));
        assert!(!cancel.requested.is_requested());
        assert!(activities.cancel(1));
        assert!(cancel.requested.is_requested());
        assert_eq!((activities.user_of(1), activities.user_of(2)), (Some(10), None));
    }
}
