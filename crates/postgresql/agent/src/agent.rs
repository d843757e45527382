//! The agent: one process for each data directory, which uploads what PostgreSQL will ask to be archived, and downloads what it
//! will ask for.
//!
//! ```text
//!   listener  --a thread for each command--> push::request, fetch::request    wait for the answer, and give it
//!   inotify   --NAME.ready--> push::follow --> workers, at most in_flight --> repositories --> out/NAME.ok
//!                             fetch window --> workers                    <-- repositories --> in/NAME
//!   every ten seconds         what was missed, gaps to record, the text file for Prometheus
//! ```
//! Before PostgreSQL has asked for a file to be archived once, it only downloads: see `push`.
//!
//! It ends when nothing is under way and nobody has asked for anything for some minutes, when the data directory is gone, or
//! when a command comes with other settings or from another cluster in the same directory.

mod durations;
mod fetch;
mod moved;
#[cfg(test)]
mod panicking_clock;
#[cfg(test)]
mod power_loss;
mod push;
mod rate;
mod repositories;
mod semaphore;
mod statistics;
mod transfers;
mod watch;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use seawall_archive::System;
use seawall_io::{Clock, SystemClock};

use crate::data_directory::DataDirectory;
use crate::log_line::log_line;
use crate::peer::check_peer;
use crate::protocol::{Answer, Form, LINE_BYTES_MAX, Request, mark_of};
use crate::settings::ArchiveSettings;
use crate::spool::{Lock, Spool};
use fetch::Fetcher;
use push::gaps::Gaps;
use push::{Pusher, QueueLimit};
use repositories::{RepositoryHandle, open_repositories};
use statistics::Statistics;
use transfers::Transfers;
use watch::{Event, Watch};

/// Without anything to do for this long, it ends.
const IDLE: Duration = Duration::from_secs(600);
/// What inotify may have missed is found this often.
const LOOK_AROUND: Duration = Duration::from_secs(10);
/// A repository that was replaced, or has other keys, is found out this often.
const LOOK_AT_REPOSITORIES: Duration = Duration::from_secs(60);
/// When the agent ends, uploads to optional repositories get so long, and then downloads ahead: the next agent waits for the end.
const OPTIONAL_ENDS_WITHIN: Duration = Duration::from_secs(5);
/// A command that does not send its line is not waited for.
const LINE_TIMEOUT: Duration = Duration::from_secs(10);

/// What all threads of the agent share.
pub(crate) struct Shared {
    pub(crate) data: DataDirectory,
    /// Whose the data directory was when that was first known.
    system: OnceLock<System>,
    pub(crate) spool: Spool,
    pub(crate) repositories: Vec<RepositoryHandle>,
    pub(crate) gaps: Gaps,
    pub(crate) transfers: Transfers,
    /// Held while the repositories are noted. Whether that failed the last time: it is said once.
    pub(crate) is_note_missing: Mutex<bool>,
    pub(crate) clock: Arc<dyn Clock>,
}

struct Agent {
    shared: Arc<Shared>,
    pusher: Arc<Pusher>,
    fetcher: Arc<Fetcher>,
    mark: u32,
    /// Text file for Prometheus.
    prometheus_file: Option<PathBuf>,
    /// Commands that wait for an answer.
    commands: Mutex<u32>,
    /// One of them has its answer.
    answered: Condvar,
    /// When the last one came.
    last_command: Mutex<Duration>,
    is_ending: AtomicBool,
}

/// A command that waits for its answer. Counted until this is dropped, also by a panic.
struct Command(Arc<Agent>);

impl Drop for Command {
    fn drop(&mut self) {
        *self.0.commands.lock() -= 1;
        self.0.answered.notify_all();
    }
}

/// Runs the agent: the spool, the data directory; the settings come on standard input. Says on standard output that it
/// listens, or why it does not. Returns the exit code.
pub fn main(arguments: &[OsString]) -> u8 {
    let started = start(arguments);
    let answer = match &started {
        Ok(_) => Answer::Ok,
        Err(problem) => Answer::Failed(problem.clone()),
    };
    let mut output = io::stdout();
    // Whoever started it may have been killed meanwhile: others will come.
    let told = output.write_all(answer.to_line().as_bytes()).and_then(|()| output.flush());
    if let Err(error) = told {
        log_line!("the process that started the agent has ended: {error}");
    }
    match started {
        Ok((agent, listener, watch)) => {
            agent.run(&listener, watch);
            0
        }
        Err(problem) => {
            log_line!("the agent did not start: {problem}");
            1
        }
    }
}

type Started = (Arc<Agent>, UnixListener, Watch);

fn start(arguments: &[OsString]) -> Result<Started, String> {
    let [spool, data] = arguments else { return Err("expected a spool and a data directory".to_owned()) };
    let data = DataDirectory::new(PathBuf::from(data));
    let mut text = String::new();
    let read = io::stdin().read_to_string(&mut text);
    read.map_err(|error| format!("cannot read the settings: {error}"))?;
    let settings = ArchiveSettings::parse(&text, "the settings").map_err(|error| error.to_string())?;
    settings.guard_secrets().map_err(|error| error.to_string())?;
    let spool = Spool::new(PathBuf::from(spool), settings.repositories_mark());
    // A session of its own: what PostgreSQL sends to the processes that it has started does not end this one.
    if let Err(error) = rustix::process::setsid() {
        log_line!("the agent stays in the session that it was started in: {error}");
    }
    // The one before may still be at its last uploads.
    let timeout = settings.timeout();
    let lock = spool.lock_within(Lock::Agent, timeout, &SystemClock);
    let lock = lock.map_err(|error| format!("cannot lock the spool: {error}"))?;
    let shared = Shared::take_over(spool, data, Arc::new(SystemClock), Transfers::new(&settings), |known| {
        open_repositories(&settings, known)
    })?;
    moved::take_over(&shared);
    let listener = listen(&shared.spool)?;
    let watched = shared.data.archive_status();
    let watch =
        Watch::new(&watched).map_err(|error| format!("cannot watch {}: {error}", watched.display()))?;
    let mark = mark_of(&settings, &shared.data.full(""));
    let queue_max = settings.queue_max().map(|bytes| QueueLimit { bytes, patience: timeout });
    // For as long as the process lives.
    std::mem::forget(lock);
    let agent = Agent {
        pusher: Pusher::new(Arc::clone(&shared), settings.packing(), settings.in_flight(), queue_max),
        fetcher: Fetcher::new(Arc::clone(&shared), settings.get_in_flight(), settings.prefetch()),
        mark,
        prometheus_file: settings.prometheus_file(),
        commands: Mutex::default(),
        answered: Condvar::new(),
        last_command: Mutex::new(shared.clock.monotonic()),
        is_ending: AtomicBool::new(false),
        shared,
    };
    Ok((Arc::new(agent), listener, watch))
}

fn listen(spool: &Spool) -> Result<UnixListener, String> {
    let socket = spool.socket();
    match std::fs::symlink_metadata(&socket) {
        // Left behind by one that was killed: its lock is ours now.
        Ok(_) => rustix::fs::unlink(&socket)
            .map_err(|error| format!("cannot remove {}: {error}", socket.display()))?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(format!("cannot look at {}: {error}", socket.display())),
    }
    UnixListener::bind(&socket).map_err(|error| {
        format!("cannot listen at {}: {error}; a shorter SEAWALL_SPOOL may help", socket.display())
    })
}

impl Agent {
    fn run(self: Arc<Agent>, listener: &UnixListener, mut watch: Watch) {
        self.pusher.look_at_repositories();
        self.pusher.look_around();
        self.write_prometheus();
        let mut looked_around = self.shared.clock.monotonic();
        let mut looked_at_repositories = looked_around;
        while !self.is_ending.load(Ordering::SeqCst) {
            match watch.wait(listener, LOOK_AROUND) {
                Ok(events) => events.into_iter().for_each(|event| self.handle(event, listener)),
                Err(error) => {
                    log_line!("the agent cannot wait for anything, and ends: {error}");
                    break;
                }
            }
            let now = self.shared.clock.monotonic();
            if now.saturating_sub(looked_around) >= LOOK_AROUND {
                looked_around = now;
                self.turn_log();
                self.pusher.look_around();
                self.fetcher.look_around();
                self.write_prometheus();
                if now.saturating_sub(looked_at_repositories) >= LOOK_AT_REPOSITORIES {
                    looked_at_repositories = now;
                    self.pusher.look_at_repositories();
                    moved::take_over(&self.shared);
                }
                if self.is_idle(now) || !self.shared.data.exists() {
                    break;
                }
            }
        }
        self.end();
    }

    /// An agent may live for years: its log must not fill the disk.
    fn turn_log(&self) {
        let spool = &self.shared.spool;
        let turn = || -> io::Result<()> {
            if spool.turn_log()? {
                nix::unistd::dup2_stderr(spool.open_log()?)?;
                log_line!("what was said before is in agent.log.old");
            }
            Ok(())
        };
        if let Err(error) = turn() {
            log_line!("the log cannot be put aside: {error}");
        }
    }

    fn handle(self: &Arc<Agent>, event: Event, listener: &UnixListener) {
        match event {
            Event::Command => match listener.accept() {
                Ok((stream, _)) => self.serve(stream),
                Err(error) => log_line!("a command could not be accepted: {error}"),
            },
            Event::Ready(name) => self.pusher.follow(&name),
            Event::Missed => self.pusher.look_around(),
        }
    }

    fn is_idle(&self, now: Duration) -> bool {
        let since = now.saturating_sub(*self.last_command.lock());
        since >= IDLE && *self.commands.lock() == 0 && self.pusher.is_idle()
    }

    /// Uploads to required repositories are brought to their end, and nothing new is begun. Commands that come now find nobody listening, start
    /// another agent, and that one waits for the lock.
    fn end(&self) {
        if let Err(error) = rustix::fs::unlink(self.shared.spool.socket()) {
            log_line!("the socket could not be removed: {error}");
        }
        self.pusher.end(OPTIONAL_ENDS_WITHIN);
        self.fetcher.end(OPTIONAL_ENDS_WITHIN);
        let mut commands = self.commands.lock();
        while *commands > 0 {
            self.answered.wait(&mut commands);
        }
    }

    fn serve(self: &Arc<Agent>, stream: UnixStream) {
        *self.last_command.lock() = self.shared.clock.monotonic();
        *self.commands.lock() += 1;
        let command = Command(Arc::clone(self));
        let served = std::thread::Builder::new().name("command".to_owned()).spawn(move || {
            if let Err(error) = check_peer(&stream).and_then(|()| command.0.answer(&stream)) {
                log_line!("a command was not served: {error}");
            }
        });
        if let Err(error) = served {
            log_line!("no thread for a command: {error}");
        }
    }

    fn answer(&self, mut stream: &UnixStream) -> io::Result<()> {
        stream.set_read_timeout(Some(LINE_TIMEOUT))?;
        let mut line = String::new();
        BufReader::new(stream).take(LINE_BYTES_MAX).read_line(&mut line)?;
        let answer = match Request::parse(&line) {
            None => Answer::Failed("the agent does not understand this release of seawall".to_owned()),
            Some((Request::Stop, _)) => {
                self.wake_to_end();
                Answer::Ok
            }
            Some((Request::Status(Form::Text), _)) => Answer::Status(self.statistics().to_text()),
            Some((Request::Status(Form::Json), _)) => Answer::Status(self.statistics().to_json().to_string()),
            Some((_, mark)) if mark != self.mark => {
                self.wake_to_end();
                Answer::OtherSettings
            }
            // The next agent begins with nothing of the cluster that was there before.
            Some(_) if self.shared.is_of_another_cluster() => {
                self.wake_to_end();
                Answer::OtherSettings
            }
            Some((Request::Hello, _)) => Answer::Ok,
            Some((Request::Push { path }, _)) => {
                let begun = self.shared.clock.monotonic();
                let answer = self.pusher.request(&path);
                self.shared.transfers.answers.note(self.shared.clock.monotonic().saturating_sub(begun));
                answer
            }
            Some((Request::Fetch { name, path }, _)) => self.fetcher.request(&name, &path),
        };
        stream.write_all(answer.to_line().as_bytes())
    }

    /// The main thread looks at it when it wakes: a connection wakes it.
    fn wake_to_end(&self) {
        self.is_ending.store(true, Ordering::SeqCst);
        if let Err(error) = UnixStream::connect(self.shared.spool.socket()) {
            log_line!("the agent is ending already: {error}");
        }
    }

    fn statistics(&self) -> Statistics {
        let (queue, destinations) = self.pusher.statistics();
        Statistics {
            system: self.shared.system().ok().map(|system| system.to_string()),
            now_seconds: self.shared.clock.wall_micros() / 1_000_000,
            queue,
            destinations,
            fetches: self.fetcher.statistics(),
            acknowledgements: self.shared.transfers.acknowledgements.read(),
            answers: self.shared.transfers.answers.read(),
        }
    }

    fn write_prometheus(&self) {
        let Some(path) = &self.prometheus_file else { return };
        if let Err(error) = self.statistics().write_prometheus(path) {
            log_line!("cannot write {}: {error}", path.display());
        }
    }
}

impl Shared {
    /// Takes over what an earlier agent has left in the spool, which is locked. `repositories` opens the repositories; it is given the ids of
    /// those that were open before.
    fn take_over(
        spool: Spool,
        data: DataDirectory,
        clock: Arc<dyn Clock>,
        transfers: Transfers,
        repositories: impl FnOnce(&BTreeMap<String, String>) -> Result<Vec<RepositoryHandle>, String>,
    ) -> Result<Arc<Shared>, String> {
        let known = spool
            .repositories()
            .map_err(|error| format!("cannot read which repositories there were: {error}"))?;
        spool
            .check_pending_copies()
            .map_err(|error| format!("cannot take on what repositories lack: {error}"))?;
        let repositories = repositories(&known)?;
        let gaps = Gaps::read(&spool, &repositories)
            .map_err(|error| format!("cannot read what was left out: {error}"))?;
        spool.clear_ahead().map_err(|error| format!("cannot clear the spool: {error}"))?;
        let system = data.system().map_or_else(|_| OnceLock::new(), OnceLock::from);
        let is_note_missing = Mutex::default();
        let shared =
            Arc::new(Shared { data, system, spool, repositories, gaps, transfers, is_note_missing, clock });
        shared.note_repositories();
        Ok(shared)
    }

    /// Notes durably which repositories these are, if that is not noted. What was acknowledged for others is acknowledged no more.
    pub(crate) fn note_repositories(&self) {
        let mut is_missing = self.is_note_missing.lock();
        let required = self.repositories.iter().filter(|handle| handle.is_required);
        let ids = required.filter_map(|handle| Some((handle.key(), handle.id()?))).collect();
        let noted = self.spool.note_repositories(&ids);
        match &noted {
            Err(error) if !*is_missing => log_line!(
                "which repositories there are cannot be noted, so nothing can be acknowledged ahead: {error}"
            ),
            Ok(()) if *is_missing => log_line!("which repositories there are is noted now"),
            _ => {}
        }
        *is_missing = noted.is_err();
    }

    /// Whose files these are. Read each time: another cluster may be restored into the same directory.
    pub(crate) fn system(&self) -> Result<System, String> {
        // The control file may have come after the agent: a restore is under way.
        let found = self.data.system().map_err(|error| {
            let control = self.data.full("global/pg_control");
            format!("cannot read the system identifier in {}: {error}", control.display())
        })?;
        let known = *self.system.get_or_init(|| found);
        match known == found {
            true => Ok(found),
            false => Err(format!(
                "the data directory was {known}'s and is {found}'s now: this agent ends, and another one continues"
            )),
        }
    }

    /// Whether another cluster is in the data directory than the one whose files are queued, and fetched ahead.
    fn is_of_another_cluster(&self) -> bool {
        self.system.get().is_some_and(|known| self.data.system().is_ok_and(|found| found != *known))
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "files of the test, not of a database")]
mod tests {
    use super::*;
    use std::path::Path;

    use panicking_clock::PanickingClock;
    use seawall_archive::{Packing, Repository, RepositoryOptions};

    /// A data directory and a repository.
    pub(super) fn shared(directory: &Path, clock: Arc<dyn Clock>) -> Arc<Shared> {
        let (data, url) = (directory.join("data"), directory.join("repository").display().to_string());
        std::fs::create_dir_all(data.join("global")).unwrap();
        std::fs::write(data.join("global/pg_control"), 7_u64.to_le_bytes()).unwrap();
        Repository::create(&url.parse().unwrap(), RepositoryOptions::default()).unwrap();
        let settings = ArchiveSettings::parse(&format!("repository = {url:?}"), "test").unwrap();
        let spool = Spool::new(directory.join("spool"), 1);
        spool.prepare().unwrap();
        Shared::take_over(spool, DataDirectory::new(data), clock, Transfers::default(), |known| {
            open_repositories(&settings, known)
        })
        .unwrap()
    }

    /// The end of the agent waits for each command.
    #[test]
    fn a_command_that_panics_is_not_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let clock = Arc::new(PanickingClock::new("command"));
        let shared = shared(directory.path(), Arc::clone(&clock) as Arc<dyn Clock>);
        let agent = Arc::new(Agent {
            pusher: Pusher::new(Arc::clone(&shared), Packing::default(), 1, None),
            fetcher: Fetcher::new(Arc::clone(&shared), 1, 1),
            mark: 1,
            prometheus_file: None,
            commands: Mutex::default(),
            answered: Condvar::new(),
            last_command: Mutex::default(),
            is_ending: AtomicBool::new(false),
            shared,
        });
        let (mut command, stream) = UnixStream::pair().unwrap();
        let request = Request::Push { path: "pg_wal/00000002.history".to_owned() };
        command.write_all(request.to_line(agent.mark).as_bytes()).unwrap();
        agent.serve(stream);
        seawall_testing::wait_until("the command to panic", || {
            clock.has_panicked() && *agent.commands.lock() == 0
        });
    }
}
