//! Uploads: what is to be archived, in which order, where to, and how many at once.
//!
//! ```text
//!   waiting --worker--> read, packed once --+--> repository 1 --+--> in all that are required: out/NAME.ok, those who asked are told
//!      ^                                    +--> repository 2 --+--> failed: those who asked are told why
//!      |                                    +--> an optional one: a copy is pending, if it lacks the file then
//!      +-- asked for again, or its time has come
//! ```
//! * Nothing is archived before PostgreSQL has asked for a file once: an agent that a recovery has started serves a copy, perhaps, whose
//!   `archive_command` is none of ours. PostgreSQL asks for every file, so nothing on disk need say that it has asked before; and
//!   nothing can say it wrongly of a copy. What it was told before is made good by every agent: pending copies, and gaps to record.
//! * Those that a command waits for come first, then histories, then segments in the order of their names.
//! * A repository that is down or slow holds up its own uploads, for a growing rest, and no other's. If it is required, the commands
//!   that wait for it, and those that come meanwhile, are told at once what the last attempt said: PostgreSQL wants to shut down, perhaps.
//! * A file that cannot be archived, whatever the stores do, waits by itself and keeps none from its turn.
//! * Where a store asks for fewer requests, fewer are in flight, until it answers again as it should.
//! * If the administrator has set a limit, and the queue is over it while a required repository has taken nothing for a while, the file
//!   that PostgreSQL asks for is let go: to be copied from a required one that has it, else as a gap, which goes on record. Each is told.
//!
//! Start at [`Pusher::request`]. `queue` decides which file comes next and what the end of an upload means, without input or output.
//! `workers` upload; `work` is one upload. `queue_limit` lets segments go, `gaps` and `recorders` put them on record, and
//! `pending_copies` makes good what a repository lacks.

mod begun;
mod destination;
mod end;
mod failure;
pub(super) mod gaps;
mod limits;
mod pending_copies;
mod queue;
mod queue_limit;
mod recorders;
mod work;
mod workers;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use seawall_archive::{LogFileName, Packing};

use super::Shared;
use super::statistics::{DestinationStatistics, QueueStatistics};
use crate::log_line::log_line;
use crate::protocol::Answer;
use crate::spool::FileIdentity;
use limits::Limits;
use queue::{Queue, Release};
pub(crate) use queue_limit::QueueLimit;

/// Uploads of one data directory.
pub(super) struct Pusher {
    shared: Arc<Shared>,
    workers_max: usize,
    /// If there is one.
    queue_max: Option<QueueLimit>,
    /// PostgreSQL has asked for a file: whatever waits is archived from then on.
    follows: AtomicBool,
    has_taken_on_pending_copies: AtomicBool,
    /// One for each repository: a thread puts gaps on record there.
    has_recorder: Vec<AtomicBool>,
    state: Mutex<State>,
    /// Something waits, has ended, or may be tried again.
    changed: Condvar,
    limits: Limits,
}

struct State {
    queue: Queue,
    workers: usize,
    /// Files that are on their way to a required repository.
    required_uploads: usize,
    is_ending: bool,
    /// Since when the queue has been over its limit, and how long it was then.
    over_limit: Option<(Duration, usize)>,
    left_out: u64,
}

/// How a command that asks for a file gets its answer.
enum Course {
    Told(Answer),
    /// PostgreSQL is not to wait any longer.
    LetGo {
        reason: String,
        release: Release,
    },
    /// When the file is archived, or has failed.
    Waits(Receiver<Answer>),
}

impl Pusher {
    pub(super) fn new(
        shared: Arc<Shared>,
        packing: Packing,
        in_flight: usize,
        queue_max: Option<QueueLimit>,
    ) -> Arc<Pusher> {
        let queue = Queue::new(shared.repositories.iter().map(|handle| handle.is_required), in_flight);
        let workers_max = in_flight * shared.repositories.len();
        let state =
            State { queue, workers: 0, required_uploads: 0, is_ending: false, over_limit: None, left_out: 0 };
        let threads = shared.transfers.threads;
        let has_recorder = shared.repositories.iter().map(|_| AtomicBool::new(false)).collect();
        Arc::new(Pusher {
            shared,
            has_recorder,
            workers_max,
            queue_max,
            follows: AtomicBool::new(false),
            has_taken_on_pending_copies: AtomicBool::new(false),
            state: Mutex::new(state),
            changed: Condvar::new(),
            limits: Limits::new(packing, threads),
        })
    }

    /// PostgreSQL has asked for a file: takes on what waits.
    fn begin_to_follow(self: &Arc<Pusher>) {
        if !self.follows.swap(true, Ordering::SeqCst) {
            self.look_around();
        }
    }

    fn follows(&self) -> bool {
        self.follows.load(Ordering::SeqCst)
    }

    /// Archives the file at `path`, and waits for that.
    pub(super) fn request(self: &Arc<Pusher>, path: &str) -> Answer {
        self.begin_to_follow();
        let name = path.rsplit('/').next().unwrap_or_default().to_owned();
        if self.is_acknowledged(&name, path) {
            return Answer::Ok;
        }
        match self.take_on(&name, path) {
            Course::Told(answer) => answer,
            Course::LetGo { reason, release } => self.let_go(&name, path, &reason, &release),
            Course::Waits(answer) => answer
                .recv()
                .unwrap_or_else(|_| Answer::Failed("the agent ended before it was archived".to_owned())),
        }
    }

    /// Takes on a file that a command asks for, and decides how the command gets its answer.
    fn take_on(self: &Arc<Pusher>, name: &str, path: &str) -> Course {
        let mut state = self.state.lock();
        if state.is_ending {
            return Course::Told(Answer::OtherSettings);
        }
        // It may have been acknowledged since: it is known until then.
        if !state.queue.is_known(name) && self.is_acknowledged(name, path) {
            return Course::Told(Answer::Ok);
        }
        state.queue.take_on(name, path, self.shared.clock.monotonic());
        if state.queue.is_released(name) {
            state.queue.ask_once_more(name, path, self.identity_of(path));
        }
        if !state.queue.is_running(name) && !state.queue.is_settling(name) {
            let now = self.shared.clock.monotonic();
            if let Some(reason) = self.reason_to_let_go(&state, name, path, now) {
                let release = state.queue.begin_release(name, self.identity_of(path));
                return Course::LetGo { reason, release };
            }
            if let Some(message) = state.queue.trouble(name, now).map(str::to_owned) {
                // Another repository may take it meanwhile.
                self.start_workers(&mut state);
                drop(state);
                self.changed.notify_all();
                return Course::Told(Answer::Failed(message));
            }
        }
        let (sender, receiver) = channel();
        state.queue.ask(name, path, sender);
        self.start_workers(&mut state);
        drop(state);
        self.changed.notify_all();
        Course::Waits(receiver)
    }

    /// Takes the file with this name on, which PostgreSQL says is to be archived.
    pub(super) fn follow(self: &Arc<Pusher>, name: &str) {
        if !self.follows() || LogFileName::parse(name).is_none() {
            return;
        }
        let mut state = self.state.lock();
        if !state.is_ending {
            state.queue.take_on(name, &format!("pg_wal/{name}"), self.shared.clock.monotonic());
            self.start_workers(&mut state);
            drop(state);
            self.changed.notify_all();
        }
    }

    /// Finds what was missed, and makes good what can be made good.
    pub(super) fn look_around(self: &Arc<Pusher>) {
        self.take_on_changes();
        // It may have failed before: the spool's disk was full.
        self.shared.note_repositories();
        self.take_on_pending_copies();
        if self.follows() {
            self.look_for_files();
            self.watch_limit();
        }
        if self.state.lock().queue.running() == 0 {
            self.limits.worker_slots.clear();
        }
        self.changed.notify_all();
        self.record_gaps();
    }

    /// Takes on all files that are to be archived, and forgets those that no longer are.
    fn look_for_files(self: &Arc<Pusher>) {
        let ready = match self.shared.data.ready() {
            Ok(ready) => ready,
            Err(error) => {
                log_line!("cannot list what is to be archived: {error}");
                return;
            }
        };
        // A hundred thousand may wait, and nearly all of them are known.
        let unknown: Vec<&String> = {
            let state = self.state.lock();
            ready.iter().filter(|name| !state.queue.is_known(name)).collect()
        };
        let acknowledged = self.shared.spool.acknowledged().unwrap_or_else(|error| {
            log_line!("cannot list what is acknowledged: {error}");
            Vec::new()
        });
        let acknowledged: BTreeSet<&String> = acknowledged.iter().collect();
        let mark = self.shared.spool.mark();
        let is_acknowledged = |name: &String| {
            let file = || self.identity_of(&format!("pg_wal/{name}"));
            let is_of = |(mark, file)| self.shared.spool.is_acknowledged_for(mark, name, file);
            acknowledged.contains(name) && mark.zip(file()).is_some_and(is_of)
        };
        unknown.into_iter().filter(|name| !is_acknowledged(name)).for_each(|name| self.follow(name));
        let ready: BTreeSet<&str> = ready.iter().map(String::as_str).collect();
        let mut stale = acknowledged.iter().filter(|name| !ready.contains(name.as_str()));
        if let Err(error) = stale.try_for_each(|name| self.shared.spool.forget(name)) {
            log_line!("cannot tidy the spool up: {error}");
        }
        // Given up by PostgreSQL, or by whoever archived by hand: nobody will ask again.
        self.state.lock().queue.forget_failed(|name| ready.contains(name));
    }

    fn is_acknowledged(&self, name: &str, path: &str) -> bool {
        self.identity_of(path).is_some_and(|file| self.shared.spool.is_acknowledged(name, file))
    }

    fn identity_of(&self, path: &str) -> Option<FileIdentity> {
        std::fs::metadata(self.shared.data.full(path)).ok().map(|metadata| FileIdentity::of(&metadata))
    }

    /// Looks whether the repositories are those that were opened, each by a thread of its own: one may hang.
    pub(super) fn look_at_repositories(self: &Arc<Pusher>) {
        for index in 0..self.shared.repositories.len() {
            let pusher = Arc::clone(self);
            let looked = std::thread::Builder::new().name("look".to_owned()).spawn(move || {
                pusher.shared.repositories[index].look_at();
                pusher.take_on_changes();
            });
            if let Err(error) = looked {
                log_line!("no thread to look at a repository: {error}");
            }
        }
    }

    /// What a repository that was replaced had got counts no more: nothing is acknowledged for it, and what is not acknowledged yet
    /// is put again.
    fn take_on_changes(&self) {
        for (destination, handle) in self.shared.repositories.iter().enumerate() {
            if handle.take_change() {
                self.state.lock().queue.repository_changed(destination);
                self.shared.note_repositories();
            }
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        let state = self.state.lock();
        state.queue.running() == 0 && state.queue.unstarted() == 0 && self.shared.gaps.count() == 0
    }

    pub(super) fn statistics(&self) -> (QueueStatistics, Vec<DestinationStatistics>) {
        let state = self.state.lock();
        let now = self.shared.clock.monotonic();
        let paths = state.queue.waiting();
        let destinations = self.shared.repositories.iter().zip(&state.queue.destinations).enumerate();
        let destinations = destinations
            .map(|(index, (handle, destination))| {
                let (lag_segments, refused) = state.queue.lacking(index);
                DestinationStatistics {
                    url: handle.location(),
                    is_required: handle.is_required,
                    archived: destination.archived,
                    last_archived: destination.last_archived.clone(),
                    lag_segments,
                    refused,
                    in_flight: destination.running,
                    in_flight_limit: destination.limit(),
                    resting: destination.trouble(now).map(str::to_owned),
                    requests: handle.statistics(),
                    uploads: handle.uploads.read(),
                    upload_bytes: handle.upload_bytes.load(Ordering::Relaxed),
                }
            })
            .collect();
        let queue = QueueStatistics {
            follows: self.follows(),
            archived: state.queue.archived,
            last_archived: state.queue.last_archived.clone(),
            last_error: state.queue.last_error.clone(),
            segments: paths.len(),
            in_flight: state.queue.running(),
            limit_bytes: self.queue_max.map(|limit| limit.bytes),
            left_out: state.left_out,
            gaps_to_record: self.shared.gaps.count(),
            ..QueueStatistics::default()
        };
        drop(state);
        let files = paths.iter().filter_map(|path| self.shared.data.bytes_and_age(path));
        let (bytes, oldest_seconds) =
            files.fold((0, None), |(bytes, oldest), (more, age)| (bytes + more, oldest.max(Some(age))));
        (QueueStatistics { bytes, oldest_seconds, ..queue }, destinations)
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "files of the test, not of a database")]
mod tests;
