//! A machine with a PostgreSQL cluster and an agent, whose spool and repositories lie on a simulated disk.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use seawall_archive::{
    ArchiveError, Compression, LogFileName, Packing, Repository, RepositoryOptions, RetryPolicy, System,
};
use seawall_io::Disk;
use seawall_simulation::{
    Fault, FaultError, FaultTarget, Operations, PowerLoss, SimulatedClock, SimulatedDisk, SimulatedRandom,
};
use seawall_testing::{PATIENCE, wait_until};

use super::Step;
use crate::agent::Shared;
use crate::agent::fetch::Fetcher;
use crate::agent::push::{Pusher, QueueLimit};
use crate::agent::repositories::{RepositoryHandle, begin};
use crate::agent::transfers::Transfers;
use crate::data_directory::DataDirectory;
use crate::protocol::Answer;
use crate::spool::{FileIdentity, Spool};
use postgresql_log::PostgreSqlLog;

#[path = "../../../../../archive/repository/tests/common/postgresql_log.rs"]
#[allow(dead_code, reason = "the tests of crate archive use all of it")]
mod postgresql_log;

pub(super) const REQUIRED: &str = "required";
pub(super) const OPTIONAL: &str = "optional";
const SYSTEM: u64 = 7_301_234_567_890_123_456;
const POSTGRESQL: System = System::PostgreSql(SYSTEM);
const SEGMENTS: usize = 16;
const SEGMENT_BYTES: u64 = 1 << 20;
/// The limit of the queue.
const LIMIT: u64 = 2 * SEGMENT_BYTES;
/// PostgreSQL runs `archive_command` so often before it rests for a minute, a second apart.
const TRIES: usize = 3;
/// Uploads to one repository at once.
const IN_FLIGHT: usize = 2;
const PREFETCH: usize = 4;

/// The log that all tests archive.
fn log() -> &'static PostgreSqlLog {
    static LOG: OnceLock<PostgreSqlLog> = OnceLock::new();
    LOG.get_or_init(|| {
        let mut log = PostgreSqlLog::new(SYSTEM);
        log.fill(SEGMENTS, 4000);
        log
    })
}

pub(super) struct Machine {
    /// The data directory of the cluster.
    data: tempfile::TempDir,
    pub(super) disk: SimulatedDisk,
    clock: SimulatedClock,
    /// A call of the disk that fails.
    fault: Option<Fault>,
    /// Segments that the server has written.
    written: usize,
    pub(super) told: Told,
}

/// Segments that PostgreSQL has removed, by the agent's answer.
#[derive(Clone, Default)]
pub(super) struct Told {
    pub(super) archived: BTreeSet<String>,
    pub(super) left_out: BTreeSet<String>,
}

struct Agent {
    shared: Arc<Shared>,
    pusher: Arc<Pusher>,
    fetcher: Arc<Fetcher>,
}

impl Agent {
    /// Ends like a process: with all of its threads.
    fn end(self) {
        let (pusher, fetcher) = (Arc::clone(&self.pusher), Arc::clone(&self.fetcher));
        within_limit("the agent to end", move || {
            pusher.end(PATIENCE);
            fetcher.end(PATIENCE);
        });
        wait_until("the agent's threads to end", || {
            Arc::strong_count(&self.pusher) == 1 && Arc::strong_count(&self.fetcher) == 1
        });
    }

    fn archive(&self, name: &str) -> Answer {
        let (pusher, path) = (Arc::clone(&self.pusher), format!("pg_wal/{name}"));
        within_limit("an answer to archive-push", move || pusher.request(&path))
    }

    fn fetch(&self, name: &str) -> Answer {
        let (fetcher, name) = (Arc::clone(&self.fetcher), name.to_owned());
        within_limit("an answer to archive-get", move || fetcher.request(&name, "pg_wal/RECOVERYXLOG"))
    }
}

/// A call that hangs fails the test.
fn within_limit<T: Send + 'static>(what: &str, call: impl FnOnce() -> T + Send + 'static) -> T {
    let call = std::thread::spawn(call);
    wait_until(what, || call.is_finished());
    call.join().unwrap()
}

impl Machine {
    pub(super) fn new(seed: u64) -> Machine {
        let disk = SimulatedDisk::new(seed);
        for name in ["spool", REQUIRED, OPTIONAL] {
            disk.create_directory(name).unwrap();
        }
        disk.sync_directory("").unwrap();
        let clock = SimulatedClock::default();
        for (number, name) in [REQUIRED, OPTIONAL].into_iter().enumerate() {
            let options = options(&clock, seed + number as u64);
            Repository::create_on(Arc::new(disk.subdirectory(name)), options).unwrap();
        }
        let data = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(data.path().join("pg_wal/archive_status")).unwrap();
        std::fs::create_dir_all(data.path().join("global")).unwrap();
        std::fs::write(data.path().join("global/pg_control"), SYSTEM.to_le_bytes()).unwrap();
        let disk = disk.after_power_loss(PowerLoss::KeepAll);
        Machine { data, disk, clock, fault: None, written: 0, told: Told::default() }
    }

    /// The same machine with another disk: what the power loss has left of this one's.
    pub(super) fn on(&self, disk: SimulatedDisk) -> Machine {
        let data = tempfile::tempdir().unwrap();
        link_directory(self.data.path(), data.path());
        let (clock, told) = (self.clock.clone(), self.told.clone());
        Machine { data, disk, clock, fault: None, written: self.written, told }
    }

    /// Lets one call of the disk fail.
    pub(super) fn let_fail(&mut self, fault: Fault) {
        self.disk.inject(fault.clone());
        self.fault = Some(fault);
    }

    fn spool(&self) -> Spool {
        Spool::on(Arc::new(self.disk.subdirectory("spool")), 1)
    }

    fn handle(&self, name: &str) -> RepositoryHandle {
        let disk = Arc::new(self.disk.subdirectory(name));
        RepositoryHandle::on(disk, options(&self.clock, self.disk.calls()), name == REQUIRED)
    }

    /// Starts an agent, as a command does.
    fn start(&self) -> Result<Agent, String> {
        let spool = self.spool();
        spool.make_directories().map_err(|error| error.to_string())?;
        let data = DataDirectory::new(self.data.path().to_owned());
        let repositories = vec![self.handle(REQUIRED), self.handle(OPTIONAL)];
        let shared =
            Shared::take_over(spool, data, Arc::new(self.clock.clone()), Transfers::default(), |known| {
                begin(repositories, known)
            })?;
        let packing = Packing { compression: Compression::Lz4, ..Packing::default() };
        let limit = QueueLimit { bytes: LIMIT, patience: Duration::ZERO };
        let pusher = Pusher::new(Arc::clone(&shared), packing, IN_FLIGHT, Some(limit));
        let fetcher = Fetcher::new(Arc::clone(&shared), IN_FLIGHT, PREFETCH);
        pusher.look_at_repositories();
        Ok(Agent { shared, pusher, fetcher })
    }

    /// Runs a story until the power goes.
    pub(super) fn run(&mut self, story: &[Step]) {
        let mut agent = self.start().ok();
        for step in story {
            if self.disk.crashed() {
                break;
            }
            match step {
                Step::Write(count) => self.write(*count, agent.as_ref()),
                Step::Archive(count) => (0..*count).for_each(|_| self.archive(agent.as_ref())),
                Step::Recover => self.recover(agent.as_ref()),
                Step::Down(name) => self.take_down(name),
                Step::Up => self.bring_up(),
                Step::LookAround => self.look_around(agent.as_ref()),
                Step::Restart => {
                    agent.take().into_iter().for_each(Agent::end);
                    agent = self.start().ok();
                }
            }
            // Every command of PostgreSQL starts an agent if there is none.
            agent = agent.or_else(|| self.start().ok());
        }
        agent.into_iter().for_each(Agent::end);
    }

    fn path(&self, name: &str) -> PathBuf {
        self.data.path().join("pg_wal").join(name)
    }

    fn ready(&self, name: &str) -> PathBuf {
        self.path("archive_status").join(format!("{name}.ready"))
    }

    fn write(&mut self, count: usize, agent: Option<&Agent>) {
        for index in self.written..(self.written + count).min(SEGMENTS) {
            let name = log().name(index);
            std::fs::write(self.path(&name), log().segment(index)).unwrap();
            std::fs::write(self.ready(&name), b"").unwrap();
            if let Some(agent) = agent {
                agent.pusher.follow(&name);
            }
            self.written = index + 1;
        }
    }

    /// Segments that are to be archived, in PostgreSQL's order.
    fn waiting(&self) -> Vec<String> {
        DataDirectory::new(self.data.path().to_owned()).ready().unwrap()
    }

    /// Archives the first segment that waits, and removes it then.
    fn archive(&mut self, agent: Option<&Agent>) {
        let waiting = self.waiting();
        let (Some(name), Some(agent)) = (waiting.first(), agent) else { return };
        for _ in 0..TRIES {
            match self.push(agent, name) {
                Answer::Ok => self.told.archived.insert(name.clone()),
                Answer::Released(words) if words.starts_with("GAP") => {
                    let bytes = waiting.len() as u64 * SEGMENT_BYTES;
                    assert!(bytes > LIMIT, "{name} was let go when {bytes} bytes waited");
                    self.told.left_out.insert(name.clone())
                }
                Answer::Released(_) => self.told.archived.insert(name.clone()),
                Answer::Failed(_) => {
                    self.clock.advance(Duration::from_secs(1));
                    continue;
                }
                other => panic!("{name}: {other:?}"),
            };
            rustix::fs::unlink(self.path(name)).unwrap();
            rustix::fs::unlink(self.ready(name)).unwrap();
            return;
        }
    }

    /// Does what the command `archive-push` does.
    fn push(&self, agent: &Agent, name: &str) -> Answer {
        let file = self.file(name);
        if agent.shared.spool.is_acknowledged(name, file) { Answer::Ok } else { agent.archive(name) }
    }

    fn file(&self, name: &str) -> FileIdentity {
        FileIdentity::of(&std::fs::metadata(self.path(name)).unwrap())
    }

    /// Fetches segments up to the first that is missing: each that is handed out has the bytes that were archived.
    fn recover(&self, agent: Option<&Agent>) {
        let Some(agent) = agent else { return };
        for index in 0..self.written {
            let name = log().name(index);
            match agent.fetch(&name) {
                Answer::Ok => self.check_handed_out(index),
                Answer::Missing => {
                    assert!(!self.told.archived.contains(&name), "{name} is archived, and not found");
                    assert!(!self.told.left_out.contains(&name), "{name} looks like the end of the archive");
                    break;
                }
                Answer::Failed(_) => break,
                other => panic!("{name}: {other:?}"),
            }
        }
    }

    fn check_handed_out(&self, index: usize) {
        let content = std::fs::read(self.path("RECOVERYXLOG")).unwrap();
        assert!(content == log().segment(index), "other bytes are handed out as {}", log().name(index));
        rustix::fs::unlink(self.path("RECOVERYXLOG")).unwrap();
    }

    fn take_down(&self, name: &str) {
        let target = FaultTarget::Path { prefix: format!("{name}/"), operations: Operations::Any };
        self.disk.inject(Fault { target, error: FaultError::Number(5), skip: 0, count: u64::MAX });
    }

    fn bring_up(&self) {
        self.disk.clear_faults();
        self.fault.iter().for_each(|fault| self.disk.inject(fault.clone()));
        self.clock.advance(Duration::from_secs(60));
    }

    fn look_around(&self, agent: Option<&Agent>) {
        self.clock.advance(Duration::from_secs(60));
        if let Some(agent) = agent {
            agent.pusher.look_around();
            agent.fetcher.look_around();
        }
    }

    fn open(&self, name: &str) -> Repository {
        Repository::open_on(Arc::new(self.disk.subdirectory(name)), options(&self.clock, 99)).unwrap()
    }

    /// Checks what is on the disk before another agent starts.
    pub(super) fn check_disk(&self) {
        let (required, optional, spool) = (self.open(REQUIRED), self.open(OPTIONAL), self.spool());
        let pending = spool.pending_copies(POSTGRESQL, &self.handle(OPTIONAL).key()).unwrap();
        for name in &self.told.archived {
            assert!(has(&required, name), "{name} was called archived, and is not there");
            assert!(
                pending.contains(name) || has(&optional, name),
                "no note says that a copy of {name} is pending"
            );
        }
        for name in self.waiting() {
            if spool.is_acknowledged(&name, self.file(&name)) {
                assert!(has(&required, &name), "{name} is acknowledged, and is not there");
            }
        }
        let noted: BTreeSet<String> =
            spool.gap_notes().unwrap().iter().map(|note| note.place.to_string()).collect();
        for name in self.told.left_out.difference(&noted) {
            for repository in [&required, &optional] {
                assert!(is_on_record(repository, name), "no note says that {name} was left out");
            }
        }
    }

    /// Checks that the next agent resumes, and ends with everything archived or on record.
    pub(super) fn resume(&mut self) {
        let agent = self.start().unwrap_or_else(|problem| panic!("the agent does not start: {problem}"));
        self.recover(Some(&agent));
        self.check_limit(&agent);
        self.bring_up();
        wait_until("all that waits to be archived", || {
            self.look_around(Some(&agent));
            self.archive(Some(&agent));
            self.waiting().is_empty()
        });
        wait_until("gaps to be on record, and no copy to be pending", || {
            self.look_around(Some(&agent));
            let spool = &agent.shared.spool;
            spool.gap_notes().unwrap().is_empty()
                && spool.pending_copies(POSTGRESQL, &agent.shared.repositories[1].key()).unwrap().is_empty()
        });
        self.check_repositories();
        self.check_recovery(&agent);
        agent.end();
    }

    /// A store that is down does not fill PostgreSQL's disk, whatever an earlier agent has left.
    fn check_limit(&mut self, agent: &Agent) {
        self.take_down(REQUIRED);
        self.write(3, Some(agent));
        let waiting = self.waiting();
        if waiting.len() as u64 * SEGMENT_BYTES > LIMIT {
            self.archive(Some(agent));
            assert!(self.waiting() != waiting, "{} wait, and none is let go", waiting.len());
        }
    }

    fn check_repositories(&self) {
        let (required, optional) = (self.open(REQUIRED), self.open(OPTIONAL));
        for name in &self.told.archived {
            assert!(has(&required, name) && has(&optional, name), "{name} is not everywhere");
        }
        for name in &self.told.left_out {
            assert!(is_on_record(&required, name) && is_on_record(&optional, name), "{name}");
        }
    }

    /// Every segment comes back, or is in a gap.
    fn check_recovery(&self, agent: &Agent) {
        for index in 0..self.written {
            let name = log().name(index);
            match agent.fetch(&name) {
                Answer::Ok => self.check_handed_out(index),
                Answer::Failed(words) => {
                    assert!(self.told.left_out.contains(&name) && words.contains("in a gap"), "{words}");
                }
                other => panic!("{name}: {other:?}"),
            }
        }
    }
}

fn options(clock: &SimulatedClock, seed: u64) -> RepositoryOptions {
    RepositoryOptions {
        retry: RetryPolicy::once(),
        clock: Arc::new(clock.clone()),
        random: Arc::new(SimulatedRandom::new(seed)),
        ..RepositoryOptions::default()
    }
}

/// Whether a repository has a segment. Panics if its bytes are others.
fn has(repository: &Repository, name: &str) -> bool {
    let mut content = Vec::new();
    match repository.fetch(POSTGRESQL, LogFileName::parse(name).unwrap(), &mut content) {
        Ok(_) => {
            let index = (0..SEGMENTS).find(|index| log().name(*index) == name).unwrap();
            assert!(content == log().segment(index), "{name} has other content");
            true
        }
        Err(ArchiveError::NotFound { .. }) => false,
        Err(error) => panic!("{name}: {error}"),
    }
}

fn is_on_record(repository: &Repository, name: &str) -> bool {
    let Some(LogFileName::Segment(place)) = LogFileName::parse(name) else { panic!("{name}") };
    repository.gaps(POSTGRESQL).unwrap().iter().any(|gap| gap.contains(place))
}

/// Links the files of one directory into another: an acknowledgement names the inode of a file.
fn link_directory(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            std::fs::create_dir(&to).unwrap();
            link_directory(&entry.path(), &to);
        } else {
            std::fs::hard_link(entry.path(), &to).unwrap();
        }
    }
}
