//! What all connections share.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use rustls::ServerConfig;
use seawall_engine::RecoveryProgress;
use seawall_io::{Clock, OsRandom, Random, SystemClock};
use seawall_replication::Replication;
use seawall_sql::password::{HASH_BYTES, Hash};
use seawall_sql::session::DatabaseSettings;
use seawall_values::{SqlError, SqlResult, SqlState};
use tokio::runtime::Handle;

use crate::access::AccessRule;
use crate::configuration::Configuration;
use crate::connections::{Connections, Limits};
use crate::failures::Failures;
use crate::metrics::Metrics;
use crate::pool::Pool;
use crate::statements::Statements;
use crate::supervisor;
use crate::tls::TlsError;
use crate::transport::Traffic;

/// Between two lines of the log about a recovery.
const RECOVERY_SECONDS: u64 = 10;

/// What a reload changes.
#[derive(Debug)]
pub(crate) struct Reloaded {
    pub(crate) access: Vec<AccessRule>,
    pub(crate) tls: Option<Arc<ServerConfig>>,
    pub(crate) authentication_timeout: Duration,
    pub(crate) write_timeout: Duration,
    pub(crate) message_bytes_max: usize,
    pub(crate) database: DatabaseSettings,
    pub(crate) logs_connections: bool,
}

impl Reloaded {
    pub(crate) fn of(configuration: &Configuration) -> Result<Reloaded, TlsError> {
        Ok(Reloaded {
            access: configuration.access.clone(),
            tls: configuration.tls.as_ref().map(|files| files.load()).transpose()?,
            authentication_timeout: configuration.authentication_timeout,
            write_timeout: configuration.write_timeout,
            message_bytes_max: configuration.message_bytes_max,
            database: configuration.database.clone(),
            logs_connections: configuration.logs_connections,
        })
    }
}

/// Where the server is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The database is being opened, and may be recovering.
    Starting,
    Serving,
    ShuttingDown,
}

/// Why a server that starts has no database yet.
#[derive(Debug)]
struct Obstacle {
    /// Of the first attempt that failed, by the monotonic clock.
    since: Duration,
    /// How many have failed.
    attempts: u64,
    why: String,
}

impl Obstacle {
    fn described(&self, now: Duration) -> String {
        let (seconds, attempts) = (now.saturating_sub(self.since).as_secs(), self.attempts);
        format!("starting, and held up for {seconds} s, in {attempts} attempts: {}", self.why)
    }
}

#[derive(Debug)]
pub(crate) struct Context {
    reloaded: RwLock<Arc<Reloaded>>,
    phase: AtomicU8,
    database: OnceLock<Arc<dyn Statements>>,
    /// Of the recovery under way, if there is one.
    recovery: Mutex<Option<RecoveryProgress>>,
    /// What keeps the server from its database, while something does.
    obstacle: Mutex<Option<Obstacle>>,
    pub(crate) connections: Arc<Connections>,
    pub(crate) pool: Pool,
    pub(crate) failures: Failures,
    pub(crate) metrics: Metrics,
    pub(crate) traffic: Arc<Traffic>,
    pub(crate) clock: SystemClock,
    pub(crate) random: OsRandom,
    pub(crate) runtime: Handle,
    /// What the salts of roles without a password come from.
    pub(crate) mock_secret: Hash,
    /// Where the Unix socket is.
    pub(crate) socket_directory: Option<PathBuf>,
}

impl Context {
    pub(crate) fn new(configuration: &Configuration, reloaded: Reloaded, runtime: Handle) -> Context {
        let random = OsRandom;
        let mut mock_secret = [0; HASH_BYTES];
        random.fill(&mut mock_secret);
        let limits = Limits {
            connections_max: configuration.connections_max,
            reserved: configuration.connections_reserved,
        };
        Context {
            reloaded: RwLock::new(Arc::new(reloaded)),
            phase: AtomicU8::new(0),
            database: OnceLock::new(),
            recovery: Mutex::default(),
            obstacle: Mutex::default(),
            connections: Arc::new(Connections::new(limits)),
            pool: Pool::new(configuration.connections_max),
            failures: Failures::default(),
            metrics: Metrics::default(),
            traffic: Arc::default(),
            clock: SystemClock,
            random,
            runtime,
            mock_secret,
            socket_directory: configuration.socket_directory.clone(),
        }
    }

    pub(crate) fn reloaded(&self) -> Arc<Reloaded> {
        Arc::clone(&self.reloaded.read())
    }

    pub(crate) fn reload(&self, reloaded: Reloaded) {
        if let Some(database) = self.database.get() {
            database.configure(&reloaded.database);
        }
        *self.reloaded.write() = Arc::new(reloaded);
    }

    pub(crate) fn phase(&self) -> Phase {
        match self.phase.load(Ordering::SeqCst) {
            0 => Phase::Starting,
            1 => Phase::Serving,
            _ => Phase::ShuttingDown,
        }
    }

    /// The database is open.
    pub(crate) fn serve(&self, database: Arc<dyn Statements>) {
        database.configure(&self.reloaded().database);
        if self.database.set(database).is_ok() {
            *self.recovery.lock() = None;
            self.overcome();
            self.phase.fetch_max(1, Ordering::SeqCst);
        }
    }

    /// The recovery is so far.
    pub(crate) fn note_recovery(&self, progress: RecoveryProgress) {
        let interval = |progress: RecoveryProgress| progress.elapsed.as_secs() / RECOVERY_SECONDS;
        let before = self.recovery.lock().replace(progress);
        if before.map(interval) != Some(interval(progress)) {
            let status = described(progress);
            tracing::info!("{status}");
            supervisor::tell(&format!("STATUS={status}"));
        }
    }

    /// How far the recovery under way is, if there is one.
    pub(crate) fn recovery(&self) -> Option<String> {
        self.recovery.lock().map(described)
    }

    /// An attempt to come to a database has failed, and is made again.
    pub(crate) fn note_obstacle(&self, why: &str) {
        Metrics::add(&self.metrics.start_failures);
        // A line for the service manager, whatever another server has said.
        let why: String = why.chars().map(|sign| if sign.is_control() { ' ' } else { sign }).collect();
        let now = self.now();
        let status = {
            let mut obstacle = self.obstacle.lock();
            let obstacle = obstacle.get_or_insert(Obstacle { since: now, attempts: 0, why: String::new() });
            obstacle.attempts += 1;
            obstacle.why = why;
            obstacle.described(now)
        };
        supervisor::tell(&format!("STATUS={status}"));
    }

    /// Nothing keeps the server from its database any more.
    pub(crate) fn overcome(&self) {
        let before = self.obstacle.lock().take();
        if before.is_some() {
            supervisor::tell("STATUS=starting");
        }
    }

    /// What keeps the server from its database, if something does.
    pub(crate) fn obstacle(&self) -> Option<String> {
        let now = self.now();
        self.obstacle.lock().as_ref().map(|obstacle| obstacle.described(now))
    }

    /// For how long something has kept the server from its database; zero if nothing does.
    pub(crate) fn held_up_for(&self) -> Duration {
        let now = self.now();
        self.obstacle.lock().as_ref().map_or(Duration::ZERO, |obstacle| now.saturating_sub(obstacle.since))
    }

    pub(crate) fn begin_shutdown(&self) {
        self.phase.store(2, Ordering::SeqCst);
    }

    /// The database, if it takes logins.
    ///
    /// # Errors
    /// `57P03`: not yet, or not any more.
    pub(crate) fn database(&self) -> SqlResult<Arc<dyn Statements>> {
        let refuse = |what| Err(SqlError::new(SqlState::CANNOT_CONNECT_NOW, what));
        match (self.phase(), self.database.get()) {
            (Phase::Serving, Some(database)) => Ok(Arc::clone(database)),
            (Phase::Starting | Phase::Serving, _) => refuse("the database system is starting up"),
            (Phase::ShuttingDown, _) => refuse("the database system is shutting down"),
        }
    }

    /// The engine's part of the metrics.
    pub(crate) fn engine_metrics(&self) -> Option<String> {
        self.database.get().map(|database| database.open_metrics())
    }

    /// The replication of the database, if it is open.
    pub(crate) fn replication(&self) -> Option<Arc<Replication>> {
        self.database.get().and_then(|database| database.replication())
    }

    /// Whether the database takes no more writes.
    pub(crate) fn is_stopped(&self) -> bool {
        self.database.get().is_some_and(|database| database.is_stopped())
    }

    pub(crate) fn now(&self) -> Duration {
        self.clock.monotonic()
    }

    /// Runs on a thread of the pool what the database may take long for.
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce() -> SqlResult<T> + Send + 'static,
    ) -> SqlResult<T> {
        let answer: io::Result<SqlResult<T>> = self.pool.run(question).await;
        answer.unwrap_or_else(|error| {
            let message = format!("no thread for a session: {error}");
            Err(SqlError::new(SqlState::INSUFFICIENT_RESOURCES, message))
        })
    }
}

fn described(progress: RecoveryProgress) -> String {
    let read = progress.replayed.bytes_since(progress.redo_point);
    let all = progress.end_at_most.bytes_since(progress.redo_point);
    let left = progress.left_at_most.as_secs();
    format!("recovering: {read} of at most {all} bytes of the log are replayed, at most {left} seconds to go")
}
