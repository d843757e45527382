//! One of the servers: a database on a simulated disk, behind a real server, that follows another one or is the primary.

use std::sync::Arc;
use std::time::Duration;

use seawall::{Database, DatabaseDirectory, Environment, Error, Lsn, Options, Rejoined, TimelineId};
use seawall_io::{Clock, Disk, SystemClock};
use seawall_replication::{
    Follower, RejoinError, Replication, StandbyNames, UpstreamHistory, UpstreamSettings, bootstrap,
    needs_copy,
};
use seawall_server::{Configuration, Server, Shutdown};
use seawall_simulation::{PowerLoss, SeededRandom, SimulatedDisk};
use seawall_sql::session::SqlDatabase;

use super::network::Network;

/// Names of all servers: of hosts, slots and connections.
pub(super) const NAMES: [&str; 3] = ["a", "b", "c"];

/// Attempts to reach the primary, on a network that is bad.
const ATTEMPTS_MAX: u32 = 200;
/// Between two of them.
pub(super) const REST: Duration = Duration::from_millis(20);
/// What takes longer does not come to an end.
pub(super) const PATIENCE: Duration = Duration::from_secs(120);
/// What a standby says that has to be started again, or made anew.
const FOR_GOOD: [&str; 3] =
    ["has already been removed", "is lost", "this server has the log of its timeline"];

/// How the life of a server ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// In order.
    Close,
    /// The disk keeps all that it was given.
    Kill,
    /// The disk loses what was not synced.
    PowerLoss,
}

impl End {
    pub(super) fn name(self) -> &'static str {
        match self {
            End::Close => "closes",
            End::Kill => "kills",
            End::PowerLoss => "power losses",
        }
    }
}

/// What all servers have in common.
#[derive(Debug)]
pub(super) struct Common {
    pub(super) options: Options,
    pub(super) network: Arc<Network>,
    /// Commits wait for these.
    pub(super) quorum: Option<StandbyNames>,
}

/// A server that does not run.
#[derive(Debug)]
pub(super) struct Stopped {
    pub(super) number: usize,
    pub(super) disk: SimulatedDisk,
}

/// A server that runs.
pub(super) struct Member {
    pub(super) number: usize,
    pub(super) disk: SimulatedDisk,
    pub(super) sql: Arc<SqlDatabase>,
    server: Server,
    /// Of a standby, or of one that was promoted.
    follower: Option<Follower>,
}

/// How a server came to follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Came {
    /// Its log went on.
    AsItWas,
    /// Its log was cut.
    Cut,
    /// It was made anew.
    Copied,
}

/// Why a directory cannot be followed with.
enum Unprepared {
    /// The network, or a primary that is not there yet.
    Later(String),
    /// Its pages hold what was lost.
    Anew,
    Never(String),
}

impl Stopped {
    pub(super) fn name(&self) -> &'static str {
        NAMES[self.number]
    }

    fn environment(&self) -> Environment {
        Environment::of_the_system(Arc::new(self.disk.clone()) as Arc<dyn Disk>)
    }

    /// Of the primary among all servers.
    fn upstream(&self) -> UpstreamSettings {
        let (hosts, name) = (NAMES.join(","), self.name());
        let text = format!(
            "host={hosts} port=1 user=postgres slot={name} application_name={name} sslmode=disable connect_timeout=10"
        );
        text.parse().expect("they are in the words of libpq")
    }

    /// Starts as the primary.
    pub(super) fn lead(self, common: &Common) -> Result<Member, String> {
        let opened = Database::open(self.environment(), common.options.clone());
        let database = opened.map_err(|error| format!("{}: opening failed: {error}", self.name()))?;
        Member::begin(self, database, common)
    }

    /// Starts as a standby of whoever is the primary.
    pub(super) fn follow(mut self, common: &Common) -> Result<(Member, Came), String> {
        let (settings, name) = (self.upstream(), self.name());
        let (mut came, mut attempts) = (Came::AsItWas, 0);
        loop {
            attempts += 1;
            match self.prepare(&settings, common) {
                Ok(prepared) => {
                    came = if came == Came::Copied { came } else { prepared };
                    break;
                }
                Err(Unprepared::Anew) => {
                    came = Came::Copied;
                    self.disk = SimulatedDisk::new(self.disk.calls());
                }
                Err(Unprepared::Later(_)) if attempts < ATTEMPTS_MAX => std::thread::park_timeout(REST),
                Err(Unprepared::Later(error) | Unprepared::Never(error)) => {
                    return Err(format!("{name} cannot follow: {error}"));
                }
            }
        }
        let opened = self.directory().follow(common.options.clone());
        let database = opened.map_err(|error| format!("{name} does not open: {error}"))?;
        self.complete(&database, &settings, common)?;
        let start = |sql: &SqlDatabase| self.start(&sql.replication, &settings, common);
        let mut member =
            Member::begin(Stopped { number: self.number, disk: self.disk.clone() }, database, common)?;
        member.follower = Some(start(&member.sql)?);
        Ok((member, came))
    }

    fn directory(&self) -> DatabaseDirectory {
        DatabaseDirectory::at(self.environment())
    }

    /// Makes its directory one that can follow.
    fn prepare(&self, settings: &UpstreamSettings, common: &Common) -> Result<Came, Unprepared> {
        let (environment, line) = (self.environment(), common.network.of(self.name()));
        let is_new = needs_copy(&environment).map_err(|error| Unprepared::Never(error.to_string()))?;
        if is_new {
            let copied = bootstrap(settings, &line, &environment, &common.options, &mut |_| {});
            return copied.map(|()| Came::Copied).map_err(|error| Unprepared::Later(error.to_string()));
        }
        let directory = self.directory();
        let is_followed = directory.is_followed().map_err(|error| Unprepared::Never(error.to_string()))?;
        let rejoined = UpstreamHistory::ask(&directory, settings, &line)
            .and_then(|history| history.rejoin(&directory, &common.options));
        match rejoined {
            Ok(Rejoined::AsItWas) => Ok(Came::AsItWas),
            Ok(Rejoined::Cut(_)) => Ok(Came::Cut),
            Err(RejoinError::Database(Error::PagesBeyondFork { .. })) => Err(Unprepared::Anew),
            // It opens with the log that it has.
            Err(RejoinError::Client(_)) if is_followed => Ok(Came::AsItWas),
            Err(RejoinError::Client(error)) => Err(Unprepared::Later(error.to_string())),
            Err(error) => Err(Unprepared::Never(error.to_string())),
        }
    }

    /// Follows until a copy is whole: before, nobody may read.
    fn complete(
        &self,
        database: &Database,
        settings: &UpstreamSettings,
        common: &Common,
    ) -> Result<(), String> {
        let Some(end) = database.standby().and_then(|standby| standby.copied_until()) else { return Ok(()) };
        let replication = Replication::new(database.clone());
        let _follower = self.start(&replication, settings, common)?;
        let begun = SystemClock.monotonic();
        while let Some(standby) = database.standby().filter(|standby| standby.copied_until().is_some()) {
            match standby.wait_applied(end, REST) {
                Ok(()) | Err(Error::NotApplied { .. }) if SystemClock.monotonic() < begun + PATIENCE => {}
                ended => {
                    let said = replication.receiver().and_then(|receiver| receiver.last_error);
                    return Err(format!(
                        "{}: the copy does not become whole: {ended:?}, {said:?}",
                        self.name()
                    ));
                }
            }
        }
        Ok(())
    }

    fn start(
        &self,
        replication: &Arc<Replication>,
        settings: &UpstreamSettings,
        common: &Common,
    ) -> Result<Follower, String> {
        let line = Box::new(common.network.of(self.name()));
        let now = || SystemClock.wall_micros();
        Follower::start(Arc::clone(replication), settings.clone(), line, None, now, Box::new(|| {}))
            .map_err(|error| format!("cannot start a thread: {error}"))
    }
}

impl Member {
    fn begin(stopped: Stopped, database: Database, common: &Common) -> Result<Member, String> {
        let Stopped { number, disk } = stopped;
        let failed = |what: &dyn std::fmt::Display| format!("{}: {what}", NAMES[number]);
        let configuration = Configuration {
            listen: vec!["127.0.0.1".to_owned()],
            port: 0,
            socket_directory: None,
            ..Configuration::default()
        };
        let sql = SqlDatabase::new(database).map_err(|error| failed(&error.message))?;
        if let Some(quorum) = &common.quorum {
            sql.replication.commits_wait_for(quorum.clone());
        }
        let server = Server::start(&configuration).map_err(|error| failed(&error))?;
        server.serve(Arc::new(Arc::clone(&sql)));
        common.network.listens(NAMES[number], server.port());
        Ok(Member { number, disk, sql, server, follower: None })
    }

    pub(super) fn name(&self) -> &'static str {
        NAMES[self.number]
    }

    pub(super) fn database(&self) -> &Database {
        &self.sql.engine
    }

    /// A standby that receives from nobody now.
    pub(super) fn is_disconnected(&self) -> bool {
        self.sql.replication.receiver().is_none_or(|receiver| receiver.state != "streaming")
    }

    /// Why it does not receive, if something keeps it from that for good.
    pub(super) fn is_left_behind(&self) -> Option<String> {
        let told = self.sql.replication.receiver().and_then(|receiver| receiver.last_error)?;
        FOR_GOOD.iter().any(|words| told.contains(words)).then_some(told)
    }

    /// Where its durable log ends.
    pub(super) fn end_of_log(&self) -> (TimelineId, Lsn) {
        let log = self.database().log();
        (log.timeline(), log.flushed())
    }

    /// Ends, as `end` says; what is left.
    pub(super) fn end(self, end: End, random: &mut SeededRandom) -> Result<Stopped, String> {
        let Member { number, disk, sql, server, follower } = self;
        if end != End::Close {
            disk.crash();
        }
        drop(follower);
        server.end(if end == End::Close { Shutdown::Fast } else { Shutdown::Immediate });
        let closed = sql.engine.clone().close();
        let disk = match end {
            End::Close => {
                closed.map_err(|error| format!("{}: closing failed: {error}", NAMES[number]))?;
                disk
            }
            End::Kill => disk.copy(),
            End::PowerLoss => disk.after_power_loss(PowerLoss::Random(random.next_u64())),
        };
        Ok(Stopped { number, disk })
    }
}
