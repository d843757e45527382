//! What all sessions of a database share.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use seawall_engine::{Database, Promotion, Transaction};
use seawall_replication::Replication;
use seawall_values::{SqlError, SqlResult, SqlState};

use super::activity::Activities;
use super::advisory::HeldAdvisoryLocks;
use super::automatic_analyze::AutomaticAnalyze;
use super::define::on_commit::OnCommitTables;
use super::notification::Notifications;
use super::plan_cache::PlanCache;
use super::recovery::{IN_HOT_STANDBY, not_in_recovery};
use super::settings::SessionSettings;
use super::{CancelHandle, Login, Session};
use crate::catalog::numbers::{BOOTSTRAP_ROLE, DATABASE, PG_DATABASE};
use crate::catalog::source::{Asker, Role};
use crate::execute::MemoryBudget;
use crate::schema::privilege::{ObjectKind, Privileges};
use crate::schema::store::SchemaStore;
use crate::storage::StorageSession;
use crate::storage::engine_error::EngineResult;

/// The superuser of a new database.
const SUPERUSER: &str = "postgres";

/// What an operator sets for all sessions together.
#[derive(Clone, Debug, PartialEq)]
pub struct DatabaseSettings {
    /// Bytes that all statements, and all that sessions keep, have together, at most.
    pub statement_memory_total: usize,
    /// When tables are analyzed automatically.
    pub automatic_analyze: AutomaticAnalyze,
    /// How old a commit is at least when a standby applies it.
    pub apply_delay: Duration,
}

impl Default for DatabaseSettings {
    fn default() -> DatabaseSettings {
        DatabaseSettings {
            statement_memory_total: 1 << 30,
            automatic_analyze: AutomaticAnalyze::default(),
            apply_delay: Duration::ZERO,
        }
    }
}

/// A database that speaks SQL.
#[derive(Debug)]
pub struct SqlDatabase {
    /// The engine.
    pub engine: Database,
    pub(crate) store: SchemaStore,
    pub(crate) activities: Activities,
    pub(crate) notifications: Notifications,
    pub(crate) plans: PlanCache,
    /// Transactions that were prepared here and have changed rows of tables, but no definition. Those of earlier servers are not in it.
    pub(crate) prepared_rows: Mutex<HashSet<String>>,
    /// Slots, streams to standbys, and the stream from a primary.
    pub replication: Arc<Replication>,
    /// What all statements, and all that sessions keep, may have of memory.
    pub memory: Arc<MemoryBudget>,
    /// Takes effect with the next look; sessions that there are show what was before.
    pub(super) automatic_analyze: Mutex<AutomaticAnalyze>,
    /// Microseconds since 2000-01-01 UTC.
    pub(crate) started_at: i64,
}

impl SqlDatabase {
    /// SQL over an engine's database; makes what it keeps in it, if that is missing.
    ///
    /// # Errors
    /// What the engine says.
    pub fn new(engine: Database) -> SqlResult<Arc<SqlDatabase>> {
        let store = SchemaStore::open(&engine, SUPERUSER)?;
        Ok(Arc::new(SqlDatabase {
            replication: Replication::new(engine.clone()),
            engine,
            store,
            activities: Activities::default(),
            notifications: Notifications::default(),
            plans: PlanCache::default(),
            prepared_rows: Mutex::default(),
            memory: Arc::default(),
            automatic_analyze: Mutex::default(),
            started_at: super::settings::clock(),
        }))
    }

    /// Begins a session.
    ///
    /// # Errors
    /// `28000`: no such role, or it may not log in; a setting that is wrong.
    pub fn connect(self: &Arc<SqlDatabase>, login: Login) -> SqlResult<Session> {
        let missing = || {
            let message = format!("role \"{}\" does not exist", login.user);
            SqlError::new(SqlState::INVALID_AUTHORIZATION_SPECIFICATION, message)
        };
        let role = self.role(&login.user)?.ok_or_else(missing)?;
        if !role.can_log_in {
            let message = format!("role \"{}\" is not permitted to log in", login.user);
            return Err(SqlError::new(SqlState::INVALID_AUTHORIZATION_SPECIFICATION, message));
        }
        self.check_may_connect(&login, &role)?;
        self.session_of(login, &role)
    }

    /// Begins a session of a role that may have one.
    pub(super) fn session_of(self: &Arc<SqlDatabase>, login: Login, role: &Role) -> SqlResult<Session> {
        let stored = self.stored_settings(role)?;
        let mut settings =
            SessionSettings::of_session(&login.user, role.is_superuser, &stored, &login.settings)?;
        if self.is_standby() {
            settings.state_fact(IN_HOT_STANDBY, "on");
        }
        let automatic = self.automatic_analyze();
        if automatic != AutomaticAnalyze::default() {
            automatic.shown().iter().for_each(|(name, value)| settings.state_fact(name, value));
        }
        if let Some(names) = self.replication.synchronous_standbys() {
            settings.state_fact("synchronous_standby_names", &names.to_string());
        }
        let (engine, locks) = self.engine.new_numbered_session(login.process_id);
        let cancel = CancelHandle { requested: engine.cancel_token() };
        let activity = self.activities.add(&login, role.oid, cancel.clone(), super::settings::clock());
        activity.set_application(settings.application_name());
        Ok(Session {
            login_role: role.oid,
            user: login.user.clone(),
            asker: self.asker(&login, role),
            engine,
            settings,
            open: None,
            storage: StorageSession::new(locks.clone()),
            expressions: super::stored::StoredExpressions::default(),
            path: None,
            types_seen: None,
            statements: FxHashMap::default(),
            portals: FxHashMap::default(),
            notices: Vec::new(),
            pending_notifications: Vec::new(),
            pending_channels: Vec::new(),
            on_commit: OnCommitTables::default(),
            attention: activity.attention.clone(),
            activity,
            advisory: HeldAdvisoryLocks::new(locks),
            temporary_files: Arc::default(),
            cancel,
            last_commit: None,
            measured: super::measure::Measured::default(),
            login,
            database: Arc::clone(self),
        })
    }

    /// What `ALTER ROLE ALL SET`, `ALTER DATABASE .. SET` and `ALTER ROLE .. SET` have stored: the more special comes later, and counts.
    fn stored_settings(&self, role: &Role) -> SqlResult<Vec<(String, String)>> {
        let mut transaction = self.look();
        let mut stored = Vec::new();
        for (database, role) in [(0, 0), (DATABASE, 0), (0, role.oid), (DATABASE, role.oid)] {
            for setting in self.store.settings_of(&mut transaction, database, role)? {
                let pair = setting.split_once('=');
                stored.extend(pair.map(|(name, value)| (name.to_owned(), value.to_owned())));
            }
        }
        Ok(stored)
    }

    /// `42501` unless the role may connect to the database.
    fn check_may_connect(&self, login: &Login, role: &Role) -> SqlResult<()> {
        let mut transaction = self.look();
        let rights = self.store.rights(&mut transaction, role.oid)?;
        let (kind, place) = (ObjectKind::Database, (DATABASE, PG_DATABASE, 0));
        let held = self.store.privileges_held(&mut transaction, &rights, kind, place, BOOTSTRAP_ROLE)?;
        if held.has(Privileges::CONNECT) {
            return Ok(());
        }
        let message = format!("permission denied for database \"{}\"", login.database);
        Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message)
            .with_detail("User does not have CONNECT privilege."))
    }

    fn asker(&self, login: &Login, role: &Role) -> Asker {
        Asker {
            user: role.oid,
            is_superuser: role.is_superuser,
            session_user: role.oid,
            database: login.database.clone(),
            search_path: Vec::new(),
            implied: 0,
            temporary_namespace: 0,
            process_id: login.process_id,
            server_started: self.started_at,
            configuration_loaded: self.started_at,
            addresses: None,
            is_in_recovery: self.is_standby(),
        }
    }

    fn role(&self, name: &str) -> SqlResult<Option<Role>> {
        self.store.role_named(&mut self.look(), name)
    }

    /// Looks at what is visible now, and waits for no commit: standbys log in by what is read here, and a commit may wait for them.
    pub(super) fn look(&self) -> Transaction {
        self.engine.new_session().begin()
    }

    /// Whether a role is a superuser: some connections are reserved for these.
    ///
    /// # Errors
    /// What the engine says.
    pub fn is_superuser(&self, role: &str) -> SqlResult<bool> {
        Ok(self.role(role)?.is_some_and(|role| role.is_superuser))
    }

    /// Whether a role may stream the log: a superuser, or one with `REPLICATION`.
    ///
    /// # Errors
    /// What the engine says.
    pub fn may_replicate(&self, role: &str) -> SqlResult<bool> {
        Ok(self.role(role)?.is_some_and(|role| role.is_superuser || role.replicates))
    }

    /// Whether it follows another server.
    pub fn is_standby(&self) -> bool {
        self.engine.standby().is_some()
    }

    /// Makes a primary of a standby: sessions go on, and may write from their next transaction on. Returns what took how long.
    ///
    /// # Errors
    /// `55000`: it is not a standby; what the engine says.
    pub fn promote(&self, reason: &str) -> SqlResult<Promotion> {
        let standby = self.engine.standby().ok_or_else(not_in_recovery)?;
        let promotion = standby.promote(reason).sql()?;
        self.store.note_promotion();
        Ok(promotion)
    }

    /// The SCRAM-SHA-256 verifier of a role that may log in, as `pg_authid.rolpassword` has it.
    ///
    /// # Errors
    /// What the engine says.
    pub fn password_of(&self, role: &str) -> SqlResult<Option<String>> {
        Ok(self.role(role)?.filter(|role| role.can_log_in).and_then(|role| role.password))
    }

    /// Takes over what an operator has set.
    pub fn configure(&self, settings: &DatabaseSettings) {
        self.memory.set_limit(settings.statement_memory_total);
        *self.automatic_analyze.lock() = settings.automatic_analyze.clone();
        if let Some(standby) = self.engine.standby() {
            standby.set_apply_delay(settings.apply_delay);
        }
    }

    /// What is counted of statements, as OpenMetrics text: families without the end of a text.
    pub fn open_metrics(&self) -> String {
        let (used, limit) = (self.memory.used(), self.memory.limit());
        let mut text = self.store.monitor.open_metrics();
        for (name, help, bytes) in [
            ("statement_memory", "Memory that statements and sessions keep.", used),
            ("statement_memory_limit", "Memory that they may keep.", limit),
        ] {
            text.push_str(&format!(
                "# TYPE seawall_sql_{name}_bytes gauge\n# UNIT seawall_sql_{name}_bytes bytes\n\
                 # HELP seawall_sql_{name}_bytes {help}\nseawall_sql_{name}_bytes {bytes}\n"
            ));
        }
        text
    }

    /// The sessions that a session waits for, by their numbers; 0: a prepared transaction.
    pub(crate) fn blockers_of(&self, process_id: i32) -> Vec<i32> {
        let waits = self.engine.waiting_requests();
        waits
            .into_iter()
            .find(|wait| wait.session == process_id)
            .map_or_else(Vec::new, |wait| wait.blocked_by)
    }

    pub(crate) fn forget(&self, process_id: i32) {
        self.activities.remove(process_id);
        self.notifications.unlisten(process_id, None);
    }
}
