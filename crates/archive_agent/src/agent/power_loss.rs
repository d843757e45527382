//! Tests of the agent on a disk that loses power, or fails, at each call: the spool and two repositories lie on it, one of which is
//! required and one optional. Only the socket and the commands are left out; the cluster's own files are real.
//!
//! ```text
//!   script: the server writes segments, asks for them, recovers; a repository goes and comes back; the agent starts anew
//!      |
//!      | the power goes in call N, or call N fails; what was not synced is kept, lost or torn
//!      v
//!   what an administrator was promised:   told "archived"  -->  in the required repository; owed to the optional one, or there
//!                                         told "left out"  -->  noted, or on record in both
//!                                         acknowledged     -->  in the required repository, whether told or not
//!                                         the next agent starts, keeps the limit, archives the rest, and hands out right bytes
//! ```

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use seawall_archive::{
    ArchiveError, Compression, LogFileName, Packing, Repository, RepositoryOptions, RetryPolicy, System,
};
use seawall_io::Disk;
use seawall_simulation::{
    Fault, FaultError, FaultTarget, Operations, PowerLoss, SeededRandom, SimulatedClock, SimulatedDisk,
    SimulatedRandom, crash_count, crash_step, seeds,
};
use seawall_testing::wait_until;

use super::Shared;
use super::fetch::Fetcher;
use super::places::{Place, begin};
use super::push::{Pusher, QueueLimit};
use crate::data_directory::DataDirectory;
use crate::protocol::Answer;
use crate::spool::{FileIdentity, Spool};
use postgresql_log::PostgreSqlLog;

#[path = "../../../archive/tests/common/postgresql_log.rs"]
#[allow(dead_code, reason = "the tests of crate archive use all of it")]
mod postgresql_log;

const SYSTEM: u64 = 7_301_234_567_890_123_456;
const POSTGRESQL: System = System::PostgreSql(SYSTEM);
const REQUIRED: &str = "required";
const OPTIONAL: &str = "optional";
const SEGMENTS: usize = 16;
const SEGMENT_BYTES: u64 = 1 << 20;
/// The limit of the queue.
const LIMIT: u64 = 2 * SEGMENT_BYTES;
/// So often PostgreSQL asks for a segment before the limit is to hold: the first call finds out that the store is down.
const CALLS_MAX: usize = 3;

/// A log that all tests archive.
fn log() -> &'static PostgreSqlLog {
    static LOG: OnceLock<PostgreSqlLog> = OnceLock::new();
    LOG.get_or_init(|| {
        let mut log = PostgreSqlLog::new(SYSTEM);
        log.fill(SEGMENTS, 4000);
        log
    })
}

/// What happens.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// The server finishes so many segments.
    Write(usize),
    /// It asks for the first file that waits, as often as this.
    Archive(usize),
    /// A recovery asks for the first segments.
    Recover,
    /// A repository goes away.
    Down(&'static str),
    /// All are back.
    Up,
    /// A minute later.
    LookAround,
    /// The agent ends, and another begins.
    Restart,
}

/// With all that there is to lose: acknowledgements ahead, segments that are owed, left out, fetched ahead.
const STORY: &[Step] = &[
    Step::Write(3),
    Step::Archive(3),
    Step::Down(OPTIONAL),
    Step::Write(1),
    Step::Archive(1),
    Step::Recover,
    Step::Down(REQUIRED),
    Step::Write(4),
    Step::Archive(4),
    Step::Restart,
    Step::Archive(1),
    Step::Up,
    Step::LookAround,
    Step::Archive(1),
    Step::Recover,
    Step::LookAround,
    Step::Archive(2),
];

fn random_story(random: &mut SeededRandom) -> Vec<Step> {
    let step = |random: &mut SeededRandom| match random.below(16) {
        0..3 => Step::Write(random.index(2) + 1),
        3..9 => Step::Archive(random.index(3) + 1),
        9 | 10 => Step::Recover,
        11 => Step::Down(REQUIRED),
        12 => Step::Down(OPTIONAL),
        13 => Step::Up,
        14 => Step::LookAround,
        _ => Step::Restart,
    };
    let rest = (0..16).map(|_| step(random)).collect();
    [vec![Step::Write(2), Step::Archive(1)], rest].concat()
}

/// A machine with a cluster, a spool and repositories.
struct World {
    data: tempfile::TempDir,
    disk: SimulatedDisk,
    clock: SimulatedClock,
    /// A call of the disk that fails.
    fault: Option<Fault>,
    written: usize,
    told: Told,
}

/// What PostgreSQL was told, and has removed.
#[derive(Clone, Default)]
struct Told {
    archived: BTreeSet<String>,
    left_out: BTreeSet<String>,
}

struct Agent {
    shared: Arc<Shared>,
    pusher: Arc<Pusher>,
    fetcher: Arc<Fetcher>,
}

impl Agent {
    /// As a process ends: with all of its threads.
    fn end(self) {
        self.pusher.end();
        self.fetcher.end();
        wait_until("the agent's threads to end", || {
            Arc::strong_count(&self.pusher) == 1 && Arc::strong_count(&self.fetcher) == 1
        });
    }
}

impl World {
    fn new(seed: u64) -> World {
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
        World { data, disk, clock, fault: None, written: 0, told: Told::default() }
    }

    /// The same machine after its disk has lost power, with what an administrator and PostgreSQL know.
    fn on(&self, disk: SimulatedDisk) -> World {
        let data = tempfile::tempdir().unwrap();
        link_directory(self.data.path(), data.path());
        World {
            data,
            disk,
            clock: self.clock.clone(),
            fault: None,
            written: self.written,
            told: self.told.clone(),
        }
    }

    fn spool(&self) -> Spool {
        Spool::on(Arc::new(self.disk.subdirectory("spool")), 1)
    }

    fn place(&self, name: &str) -> Place {
        let disk = Arc::new(self.disk.subdirectory(name));
        Place::on(disk, options(&self.clock, self.disk.calls()), name == REQUIRED)
    }

    /// As a command starts one.
    fn start(&self) -> Result<Agent, String> {
        let spool = self.spool();
        spool.make_directories().map_err(|error| error.to_string())?;
        let data = DataDirectory::new(self.data.path().to_owned());
        let places = vec![self.place(REQUIRED), self.place(OPTIONAL)];
        let shared =
            Shared::take_over(spool, data, Arc::new(self.clock.clone()), |known| begin(places, known))?;
        let packing = Packing { compression: Compression::Lz4, ..Packing::default() };
        let pusher = Pusher::new(
            Arc::clone(&shared),
            packing,
            2,
            Some(QueueLimit { bytes: LIMIT, patience: Duration::ZERO }),
        );
        let fetcher = Fetcher::new(Arc::clone(&shared), 2, 4);
        pusher.look_at_repositories();
        Ok(Agent { shared, pusher, fetcher })
    }

    /// Runs a script, as far as the power lasts.
    fn run(&mut self, story: &[Step]) {
        let mut agent = self.start().ok();
        for step in story {
            if self.disk.crashed() {
                break;
            }
            match step {
                Step::Write(count) => self.write(*count, agent.as_ref()),
                Step::Archive(count) => (0..*count).for_each(|_| self.archive(agent.as_ref())),
                Step::Recover => self.recover(agent.as_ref()),
                Step::Down(name) => self.take_away(name),
                Step::Up => self.bring_back(),
                Step::LookAround => self.look_around(agent.as_ref()),
                Step::Restart => {
                    agent.take().into_iter().for_each(Agent::end);
                    agent = self.start().ok();
                }
            }
            // PostgreSQL asks again and again.
            agent = agent.or_else(|| self.start().ok());
        }
        agent.into_iter().for_each(Agent::end);
    }

    // ---- the server -----------------------------------------------------------------------------------------------

    fn path(&self, name: &str) -> PathBuf {
        self.data.path().join("pg_wal").join(name)
    }

    fn mark(&self, name: &str) -> PathBuf {
        self.path("archive_status").join(format!("{name}.ready"))
    }

    fn write(&mut self, count: usize, agent: Option<&Agent>) {
        for index in self.written..(self.written + count).min(SEGMENTS) {
            let name = log().name(index);
            std::fs::write(self.path(&name), log().segment(index)).unwrap();
            std::fs::write(self.mark(&name), b"").unwrap();
            if let Some(agent) = agent {
                agent.pusher.follow(&name);
            }
            self.written = index + 1;
        }
    }

    /// Files that are to be archived, in PostgreSQL's order.
    fn waiting(&self) -> Vec<String> {
        DataDirectory::new(self.data.path().to_owned()).ready().unwrap()
    }

    /// As `archive-push` does, for the first file that waits.
    fn archive(&mut self, agent: Option<&Agent>) {
        let waiting = self.waiting();
        let (Some(name), Some(agent)) = (waiting.first(), agent) else { return };
        let file = FileIdentity::of(&std::fs::metadata(self.path(name)).unwrap());
        let answer = match agent.shared.spool.is_acknowledged(name, file) {
            true => Answer::Ok,
            false => agent.pusher.request(&format!("pg_wal/{name}")),
        };
        match answer {
            Answer::Ok => self.told.archived.insert(name.clone()),
            Answer::Released(words) if words.starts_with("GAP") => {
                let bytes = waiting.len() as u64 * SEGMENT_BYTES;
                assert!(bytes > LIMIT, "{name} was let go when {bytes} bytes waited");
                self.told.left_out.insert(name.clone())
            }
            Answer::Released(_) => self.told.archived.insert(name.clone()),
            Answer::Failed(_) => return,
            other => panic!("{name}: {other:?}"),
        };
        rustix::fs::unlink(self.path(name)).unwrap();
        rustix::fs::unlink(self.mark(name)).unwrap();
    }

    /// From the first segment up to the first that is missing: whatever is handed out is what was archived.
    fn recover(&self, agent: Option<&Agent>) {
        let Some(agent) = agent else { return };
        for index in 0..self.written {
            let name = log().name(index);
            match agent.fetcher.request(&name, "pg_wal/RECOVERYXLOG") {
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

    // ---- the world ------------------------------------------------------------------------------------------------

    fn take_away(&self, name: &str) {
        let target = FaultTarget::Path { prefix: format!("{name}/"), operations: Operations::Any };
        self.disk.inject(Fault { target, error: FaultError::Number(5), skip: 0, count: u64::MAX });
    }

    fn bring_back(&self) {
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

    // ---- what was promised ----------------------------------------------------------------------------------------

    fn open(&self, name: &str) -> Repository {
        Repository::open_on(Arc::new(self.disk.subdirectory(name)), options(&self.clock, 99)).unwrap()
    }

    /// Before another agent has begun.
    fn examine_what_is_left(&self) {
        let (required, optional, spool) = (self.open(REQUIRED), self.open(OPTIONAL), self.spool());
        let owed = spool.owed(POSTGRESQL, &self.place(OPTIONAL).key()).unwrap();
        for name in &self.told.archived {
            assert!(has(&required, name), "{name} was called archived, and is not there");
            assert!(owed.contains(name) || has(&optional, name), "nobody knows that {name} is owed");
        }
        for name in self.waiting() {
            let file = FileIdentity::of(&std::fs::metadata(self.path(&name)).unwrap());
            if spool.is_acknowledged(&name, file) {
                assert!(has(&required, &name), "{name} is acknowledged, and is not there");
            }
        }
        let noted: BTreeSet<String> =
            spool.gap_notes().unwrap().iter().map(|note| note.place.to_string()).collect();
        for name in self.told.left_out.difference(&noted) {
            for repository in [&required, &optional] {
                assert!(is_on_record(repository, name), "nobody knows that {name} was left out");
            }
        }
    }

    /// The next agent goes on, whatever the last one has left.
    fn go_on(&mut self) {
        let agent = self.start().unwrap_or_else(|problem| panic!("the agent does not start: {problem}"));
        self.recover(Some(&agent));
        self.check_limit(&agent);
        self.bring_back();
        wait_until("all that waits to be archived", || {
            self.look_around(Some(&agent));
            self.archive(Some(&agent));
            self.waiting().is_empty()
        });
        let (required, optional) = (self.open(REQUIRED), self.open(OPTIONAL));
        wait_until("gaps to be on record, and what is owed to be paid", || {
            self.look_around(Some(&agent));
            let spool = &agent.shared.spool;
            spool.gap_notes().unwrap().is_empty()
                && spool.owed(POSTGRESQL, &agent.shared.places[1].key()).unwrap().is_empty()
        });
        for name in &self.told.archived {
            assert!(has(&required, name) && has(&optional, name), "{name} is not everywhere");
        }
        for name in &self.told.left_out {
            assert!(is_on_record(&required, name) && is_on_record(&optional, name), "{name}");
        }
        for index in 0..self.written {
            let name = log().name(index);
            match agent.fetcher.request(&name, "pg_wal/RECOVERYXLOG") {
                Answer::Ok => self.check_handed_out(index),
                Answer::Failed(words) => {
                    assert!(self.told.left_out.contains(&name) && words.contains("in a gap"), "{words}");
                }
                other => panic!("{name}: {other:?}"),
            }
        }
        agent.end();
    }

    /// A store that is down does not fill PostgreSQL's disk, whatever is left of an earlier agent.
    fn check_limit(&mut self, agent: &Agent) {
        self.take_away(REQUIRED);
        self.write(3, Some(agent));
        let waiting = self.waiting();
        if waiting.len() as u64 * SEGMENT_BYTES <= LIMIT {
            return;
        }
        (0..CALLS_MAX).for_each(|_| self.archive(Some(agent)));
        assert!(self.waiting() != waiting, "{} wait, and none is let go", waiting.len());
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

/// The same files under other names: an acknowledgement is of a file.
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

/// How many calls of the disk a story has.
fn calls_of(story: &[Step], seed: u64) -> u64 {
    let mut world = World::new(seed);
    world.run(story);
    world.disk.calls()
}

fn lose_power(story: &[Step], seed: u64, call: u64) {
    let mut world = World::new(seed);
    world.disk.crash_at(call);
    world.run(story);
    world.disk.crash();
    for outcome in [PowerLoss::LoseAll, PowerLoss::KeepAll, PowerLoss::Random(seed + call)] {
        println!("seed {seed}, power loss in call {call}, {outcome:?}");
        let mut after = world.on(world.disk.after_power_loss(outcome));
        after.examine_what_is_left();
        after.go_on();
    }
}

#[test]
fn a_power_loss_in_any_call_breaks_no_promise() {
    let mut whole = World::new(0);
    whole.run(STORY);
    assert!(whole.told.archived.len() >= 5 && whole.told.left_out.len() >= 2, "nothing to lose");
    let calls = whole.disk.calls();
    for call in (0..=calls).step_by(crash_step(calls, 40)) {
        lose_power(STORY, 0, call);
    }
}

#[test]
fn a_power_loss_in_any_story_breaks_no_promise() {
    for seed in seeds(crash_count(20)) {
        let mut random = SeededRandom::new(seed);
        let story = random_story(&mut random);
        println!("seed {seed}: {story:?}");
        let call = random.below(calls_of(&story, seed) + 1);
        lose_power(&story, seed, call);
    }
}

#[test]
fn a_call_that_fails_breaks_no_promise() {
    const EIO: i32 = 5;
    const ENOSPC: i32 = 28;
    let calls = calls_of(STORY, 0);
    for call in (0..calls).step_by(crash_step(calls, 40)) {
        for number in [EIO, ENOSPC] {
            println!("error {number} in call {call}");
            let mut world = World::new(0);
            let fault = Fault {
                target: FaultTarget::Call(call),
                error: FaultError::Number(number),
                skip: 0,
                count: 1,
            };
            world.disk.inject(fault.clone());
            world.fault = Some(fault);
            world.run(STORY);
            for disk in [world.disk.copy(), world.disk.after_power_loss(PowerLoss::LoseAll)] {
                let mut after = world.on(disk);
                after.examine_what_is_left();
                after.go_on();
            }
        }
    }
}
