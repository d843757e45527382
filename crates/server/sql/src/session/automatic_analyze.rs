//! Automatic `ANALYZE`: a thread looks now and then for tables of which many rows have changed since their last one.
//!
//! It has a session of its own, which others see and cancel as any other. It waits for nobody, and gives up a table for which somebody
//! waits: the next look finds that again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use seawall_engine::LockWait;
use seawall_values::{Oid, SqlError, SqlResult};

use super::analyze::Manner;
use super::{Login, Session, SqlDatabase};
use crate::catalog::numbers::BOOTSTRAP_ROLE;
use crate::schema::Definition;

/// The number of its session. The server gives out others.
pub const PROCESS_ID: i32 = i32::MAX;

/// When tables are analyzed automatically. Each is named for a setting of PostgreSQL.
#[derive(Clone, Debug, PartialEq)]
pub struct AutomaticAnalyze {
    /// `autovacuum`.
    pub is_on: bool,
    /// `autovacuum_naptime`: between two looks.
    pub pause: Duration,
    /// `autovacuum_analyze_threshold`: more than so many rows must have changed,
    pub threshold: u32,
    /// `autovacuum_analyze_scale_factor`: and this share of the rows that there were at the last `ANALYZE`.
    pub scale_factor: f64,
}

impl Default for AutomaticAnalyze {
    fn default() -> AutomaticAnalyze {
        AutomaticAnalyze { is_on: true, pause: Duration::from_secs(60), threshold: 50, scale_factor: 0.1 }
    }
}

impl AutomaticAnalyze {
    /// Whether enough has changed of a table that had so many rows.
    #[expect(clippy::cast_precision_loss, reason = "the other side is an estimate")]
    fn is_due(&self, changed: u64, rows: f64) -> bool {
        changed as f64 > f64::from(self.threshold) + self.scale_factor * rows
    }

    /// The settings as sessions show them.
    pub(super) fn shown(&self) -> [(&'static str, String); 4] {
        [
            ("autovacuum", if self.is_on { "on" } else { "off" }.to_owned()),
            ("autovacuum_naptime", self.pause.as_secs().max(1).to_string()),
            ("autovacuum_analyze_threshold", self.threshold.to_string()),
            ("autovacuum_analyze_scale_factor", self.scale_factor.to_string()),
        ]
    }
}

/// The thread. Dropped, it ends.
#[derive(Debug)]
pub struct AnalyzeThread {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug)]
struct Shared {
    database: Arc<SqlDatabase>,
    is_to_end: AtomicBool,
    /// Guards nothing but the wait.
    rest: Mutex<()>,
    ends: Condvar,
}

impl AnalyzeThread {
    /// Begins to look for tables, as the settings of the database say.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start(database: &Arc<SqlDatabase>) -> std::io::Result<AnalyzeThread> {
        let shared = Arc::new(Shared {
            database: Arc::clone(database),
            is_to_end: AtomicBool::new(false),
            rest: Mutex::new(()),
            ends: Condvar::new(),
        });
        let of_thread = Arc::clone(&shared);
        let thread =
            std::thread::Builder::new().name("analyze".to_owned()).spawn(move || of_thread.keep_looking())?;
        Ok(AnalyzeThread { shared, thread: Mutex::new(Some(thread)) })
    }

    /// Ends the thread, and returns when it has ended.
    pub fn end(&self) {
        self.shared.is_to_end.store(true, Ordering::SeqCst);
        // It may wait for a commit that standbys lack.
        self.shared.database.activities.cancel(PROCESS_ID);
        // Taken, so that the thread is either waiting or has not looked yet.
        drop(self.shared.rest.lock());
        self.shared.ends.notify_all();
        if let Some(thread) = self.thread.lock().take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that analyzes tables has panicked");
        }
    }
}

impl Drop for AnalyzeThread {
    fn drop(&mut self) {
        self.end();
    }
}

impl Shared {
    fn is_to_end(&self) -> bool {
        self.is_to_end.load(Ordering::SeqCst)
    }

    fn keep_looking(&self) {
        while self.rest() {
            if let Err(error) = self.database.analyze_changed(&|| self.is_to_end()) {
                tracing::warn!(%error, "tables could not be analyzed automatically");
            }
        }
    }

    /// `false`: the thread is to end.
    fn rest(&self) -> bool {
        let pause = self.database.automatic_analyze().pause;
        let mut rest = self.rest.lock();
        if !self.is_to_end() {
            self.ends.wait_for(&mut rest, pause);
        }
        !self.is_to_end()
    }
}

impl SqlDatabase {
    /// When tables are analyzed automatically.
    pub fn automatic_analyze(&self) -> AutomaticAnalyze {
        self.automatic_analyze.lock().clone()
    }

    /// Analyzes the tables of which enough has changed, and returns how many. `is_to_end` is asked again and again.
    ///
    /// # Errors
    /// There can be no session. What single tables fail with is logged.
    pub fn analyze_changed(self: &Arc<SqlDatabase>, is_to_end: &dyn Fn() -> bool) -> SqlResult<usize> {
        let settings = self.automatic_analyze();
        if !settings.is_on || self.is_standby() {
            return Ok(0);
        }
        let due = self.tables_to_analyze(&settings)?;
        if due.is_empty() {
            return Ok(0);
        }
        let mut session = self.session_to_analyze()?;
        let mut analyzed = 0;
        for (table, name) in due {
            if is_to_end() {
                break;
            }
            match session.analyze_changed_table(table, &name, is_to_end) {
                Ok(()) => analyzed += 1,
                Err(error) => {
                    session.roll_back();
                    tracing::info!(table = name, %error, "a table is not analyzed automatically, for now");
                }
            }
        }
        Ok(analyzed)
    }

    /// Numbers and names.
    fn tables_to_analyze(&self, settings: &AutomaticAnalyze) -> SqlResult<Vec<(Oid, String)>> {
        let mut transaction = self.look();
        let mut due = Vec::new();
        for (oid, changed) in self.store.monitor.relations.changed_by(u64::from(settings.threshold)) {
            let Some(Definition::Table(table)) = self.store.definition(&mut transaction, oid)? else {
                continue;
            };
            let known = self.store.statistics(&mut transaction, oid)?;
            // Rows of a temporary table are for its own session, which analyzes it if it wants to.
            if !table.is_temporary && settings.is_due(changed, known.map_or(0.0, |known| known.rows)) {
                due.push((oid, table.name.clone()));
            }
        }
        Ok(due)
    }

    fn session_to_analyze(self: &Arc<SqlDatabase>) -> SqlResult<Session> {
        let role = self.store.role(&mut self.look(), BOOTSTRAP_ROLE)?;
        let role = role.ok_or_else(|| SqlError::internal("the first superuser is missing"))?;
        let plain = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        let settings = [
            ("application_name", "autovacuum"),
            ("default_transaction_isolation", "read committed"),
            ("default_transaction_read_only", "off"),
            ("search_path", "pg_catalog"),
            // The end of the server waits for this session, which so waits for no standby.
            ("synchronous_commit", "local"),
        ];
        let login = Login {
            user: role.name.clone(),
            database: "postgres".to_owned(),
            settings: settings.map(plain).to_vec(),
            process_id: PROCESS_ID,
            client: None,
        };
        self.session_of(login, &role)
    }

    /// Whether somebody waits for what the session that analyzes holds.
    fn is_waited_for_analyze(&self) -> bool {
        self.engine.waiting_requests().iter().any(|wait| wait.blocked_by.contains(&PROCESS_ID))
    }
}

impl Session {
    fn analyze_changed_table(
        &mut self,
        table: Oid,
        name: &str,
        is_to_end: &dyn Fn() -> bool,
    ) -> SqlResult<()> {
        self.cancel.begin();
        // Looked at afterwards: who ends the thread cancels what the session waits for, and that was just forgotten.
        if is_to_end() {
            self.cancel.cancel();
        }
        let now = super::settings::clock();
        self.activity.begin_statement(&format!("autovacuum: ANALYZE {name}"), false, now);
        let database = Arc::clone(&self.database);
        let manner = Manner {
            lock_wait: LockWait::NoWait,
            is_to_stop: &|| is_to_end() || database.is_waited_for_analyze(),
            is_automatic: true,
        };
        let analyzed = self.analyze_automatically(table, &manner);
        self.note_idle();
        analyzed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_due_as_in_postgresql() {
        let settings = AutomaticAnalyze::default();
        assert!(!settings.is_due(50, 0.0));
        assert!(settings.is_due(51, 0.0));
        assert!(!settings.is_due(150, 1_000.0));
        assert!(settings.is_due(151, 1_000.0));
        assert!(AutomaticAnalyze { scale_factor: 0.0, threshold: 0, ..settings }.is_due(1, 1e9));
    }
}
