//! Uploads: what is to be archived, in which order, and how many at once.
//!
//! ```text
//!   waiting --worker--> running --+--> out/NAME.ok, those who asked are told
//!      ^                          +--> failed: those who asked are told why
//!      +-- asked for again, or its time has come --'
//! ```
//! * Those that a command waits for come first, then histories, then segments in the order of their names.
//! * A store that is down or slow holds all uploads up, for a growing rest; a command that comes meanwhile is told at once what
//!   the last attempt said, so that PostgreSQL is not held up when it wants to shut down.
//! * A file that cannot be archived, whatever the store does, waits by itself and keeps none from its turn.
//! * Where the store asks for fewer requests, fewer are in flight, until it answers again as it should.

mod work;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use seawall_archive::Packing;
use seawall_io::Clock;

use super::Shared;
use crate::protocol::Answer;
use work::{Failure, Worker};

/// Rests after uploads that failed because of the store: from the first to the longest, doubling.
const STORE_REST: Duration = Duration::from_secs(1);
const STORE_REST_MAX: Duration = Duration::from_secs(30);
/// A file that cannot be archived is looked at again after this, if nobody asks for it before.
const FILE_REST: Duration = Duration::from_secs(60);

/// Uploads of one data directory.
pub(super) struct Pusher {
    shared: Arc<Shared>,
    packing: Packing,
    state: Mutex<State>,
    /// Something waits, has ended, or may be tried again.
    changed: Condvar,
    /// Files in memory as a whole: as many as there are processors to compress them.
    pub(super) processors: Permits,
}

#[derive(Default)]
struct State {
    jobs: BTreeMap<String, Job>,
    running: usize,
    workers: usize,
    /// Most that may run: `in_flight`, or fewer where the store asks for that. In thousandths.
    limit_thousandths: usize,
    in_flight_max: usize,
    store: Store,
    is_ending: bool,
    archived: u64,
    last_archived: Option<String>,
    last_error: Option<String>,
}

/// What the last uploads say of the store.
#[derive(Default)]
struct Store {
    /// How long uploads rest after the next failure.
    rest: Duration,
    /// Until when they rest, and why.
    down: Option<(Duration, String)>,
}

struct Job {
    /// From the data directory on.
    path: String,
    stage: Stage,
    /// Commands that wait for it.
    askers: Vec<Sender<Answer>>,
}

enum Stage {
    Waiting,
    Running,
    /// Not before this.
    Failed(Duration),
}

/// So many may go on at once.
pub(super) struct Permits {
    free: Mutex<usize>,
    returned: Condvar,
}

/// One of them, until dropped.
pub(super) struct Permit<'a>(&'a Permits);

impl Permits {
    pub(super) fn new(count: usize) -> Permits {
        Permits { free: Mutex::new(count), returned: Condvar::new() }
    }

    pub(super) fn take(&self) -> Permit<'_> {
        let mut free = self.free.lock();
        while *free == 0 {
            self.returned.wait(&mut free);
        }
        *free -= 1;
        Permit(self)
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        *self.0.free.lock() += 1;
        self.0.returned.notify_one();
    }
}

/// Processors of this machine that this process may use.
pub(super) fn processors() -> usize {
    std::thread::available_parallelism().map_or(2, std::num::NonZero::get)
}

impl Pusher {
    pub(super) fn new(shared: Arc<Shared>, packing: Packing, in_flight: usize) -> Arc<Pusher> {
        let state = State {
            in_flight_max: in_flight,
            limit_thousandths: in_flight * 1000,
            store: Store { rest: STORE_REST, down: None },
            ..State::default()
        };
        Arc::new(Pusher {
            shared,
            packing,
            state: Mutex::new(state),
            changed: Condvar::new(),
            processors: Permits::new(processors()),
        })
    }

    /// Archives the file at `path`, and waits for that.
    pub(super) fn request(self: &Arc<Pusher>, path: &str) -> Answer {
        let name = path.rsplit('/').next().unwrap_or_default().to_owned();
        let (sender, receiver) = channel();
        {
            let mut state = self.state.lock();
            if state.is_ending {
                return Answer::OtherSettings;
            }
            let now = self.shared.clock.monotonic();
            let is_running = matches!(state.jobs.get(&name), Some(Job { stage: Stage::Running, .. }));
            if let Some((until, message)) = &state.store.down
                && now < *until
                && !is_running
            {
                let message = message.clone();
                state.add(&name, path);
                return Answer::Failed(message);
            }
            state.add(&name, path);
            let job = state.jobs.get_mut(&name).expect("it was just added");
            job.askers.push(sender);
            if matches!(job.stage, Stage::Failed(_)) {
                job.stage = Stage::Waiting;
            }
            self.staff(&mut state);
        }
        self.changed.notify_one();
        receiver
            .recv()
            .unwrap_or_else(|_| Answer::Failed("the agent ended before it was archived".to_owned()))
    }

    /// Takes the file with this name on, which PostgreSQL says is to be archived.
    pub(super) fn follow(self: &Arc<Pusher>, name: &str) {
        if seawall_archive::LogFileName::parse(name).is_none() {
            return;
        }
        let mut state = self.state.lock();
        if !state.is_ending {
            state.add(name, &format!("pg_wal/{name}"));
            self.staff(&mut state);
            drop(state);
            self.changed.notify_one();
        }
    }

    /// Takes on all files that are to be archived, and forgets those that no longer are.
    pub(super) fn look_around(self: &Arc<Pusher>) {
        let ready = match self.shared.data.ready() {
            Ok(ready) => ready,
            Err(error) => {
                eprintln!("cannot list what is to be archived: {error}");
                return;
            }
        };
        for name in &ready {
            if !self.is_acknowledged(name) {
                self.follow(name);
            }
        }
        let ready: std::collections::BTreeSet<&String> = ready.iter().collect();
        let forgotten = self.shared.spool.acknowledged().and_then(|names| {
            names
                .iter()
                .filter(|name| !ready.contains(name))
                .try_for_each(|name| self.shared.spool.forget(name))
        });
        if let Err(error) = forgotten {
            eprintln!("cannot tidy the spool up: {error}");
        }
        let mut state = self.state.lock();
        // Given up by PostgreSQL, or by whoever archived by hand: nobody will ask again.
        state.jobs.retain(|name, job| !matches!(job.stage, Stage::Failed(_)) || ready.contains(name));
        self.changed.notify_all();
    }

    fn is_acknowledged(&self, name: &str) -> bool {
        let metadata = std::fs::metadata(self.shared.data.full(&format!("pg_wal/{name}")));
        metadata.is_ok_and(|metadata| {
            self.shared.spool.is_acknowledged(name, crate::spool::FileIdentity::of(&metadata))
        })
    }

    /// Starts threads for what waits, up to the limit. They stay.
    fn staff(self: &Arc<Pusher>, state: &mut State) {
        let waiting = state.jobs.values().filter(|job| matches!(job.stage, Stage::Waiting)).count();
        while state.workers < state.in_flight_max && state.workers < state.running + waiting {
            let pusher = Arc::clone(self);
            let started = std::thread::Builder::new().name("push".to_owned()).spawn(move || pusher.work());
            if let Err(error) = started {
                eprintln!("no further thread for uploads: {error}");
                break;
            }
            state.workers += 1;
        }
    }

    fn work(&self) {
        let mut worker = Worker::new(self.packing);
        while let Some((name, path)) = self.next() {
            let result = worker.push(&self.shared, &self.processors, &name, &path);
            self.finish(&name, result);
        }
        self.state.lock().workers -= 1;
        self.changed.notify_all();
    }

    /// The next file, when there is one and its turn has come; `None` at the end.
    fn next(&self) -> Option<(String, String)> {
        let mut state = self.state.lock();
        loop {
            if state.is_ending {
                return None;
            }
            let now = self.shared.clock.monotonic();
            match state.choose(now) {
                Choice::Job(name) => {
                    let job = state.jobs.get_mut(&name).expect("it was just chosen");
                    job.stage = Stage::Running;
                    let path = job.path.clone();
                    state.running += 1;
                    return Some((name, path));
                }
                Choice::Later(at) => {
                    self.changed.wait_for(&mut state, at.saturating_sub(now));
                }
                Choice::Nothing => self.changed.wait(&mut state),
            }
        }
    }

    fn finish(&self, name: &str, result: Result<(), Failure>) {
        let mut state = self.state.lock();
        state.running -= 1;
        let now = self.shared.clock.monotonic();
        let job = state.jobs.get_mut(name).expect("a running job stays");
        let askers = std::mem::take(&mut job.askers);
        let answer = match result {
            Ok(()) => {
                state.jobs.remove(name);
                state.succeeded(name);
                Answer::Ok
            }
            Err(failure) => {
                if let Err(error) = self.shared.spool.note_error(name, &failure.message) {
                    eprintln!("cannot write to the spool: {error}");
                }
                job.stage = Stage::Failed(now + FILE_REST);
                if failure.is_of_store {
                    job.stage = Stage::Waiting;
                    state.store_failed(now, &failure);
                }
                eprintln!("{name} is not archived: {}", failure.message);
                state.last_error = Some(failure.message.clone());
                Answer::Failed(failure.message)
            }
        };
        drop(state);
        self.changed.notify_all();
        for asker in askers {
            // A command that has given up waiting.
            asker.send(answer.clone()).unwrap_or(());
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        let state = self.state.lock();
        state.running == 0 && !state.jobs.values().any(|job| matches!(job.stage, Stage::Waiting))
    }

    /// Waits for what is under way, and begins nothing more.
    pub(super) fn end(&self) {
        let mut state = self.state.lock();
        state.is_ending = true;
        for job in state.jobs.values_mut().filter(|job| !matches!(job.stage, Stage::Running)) {
            job.askers.clear();
        }
        self.changed.notify_all();
        while state.workers > 0 {
            self.changed.wait(&mut state);
        }
    }

    pub(super) fn status(&self) -> String {
        let state = self.state.lock();
        let waiting = state.jobs.values().filter(|job| matches!(job.stage, Stage::Waiting)).count();
        let failed = state.jobs.values().filter(|job| matches!(job.stage, Stage::Failed(_))).count();
        let last = state.last_archived.as_deref().unwrap_or("none");
        let mut text = format!(
            "archived {}, the last {last}; waiting {waiting}, in flight {}, failed {failed}",
            state.archived, state.running
        );
        if let Some(error) = &state.last_error {
            text.push_str(&format!("\nlast failure: {error}"));
        }
        text
    }
}

/// What a worker may do.
enum Choice {
    Job(String),
    /// Not before this.
    Later(Duration),
    Nothing,
}

impl State {
    /// Takes a file on, unless it is there.
    fn add(&mut self, name: &str, path: &str) {
        let job = || Job { path: path.to_owned(), stage: Stage::Waiting, askers: Vec::new() };
        self.jobs.entry(name.to_owned()).or_insert_with(job);
    }

    fn choose(&self, now: Duration) -> Choice {
        if let Some((until, _)) = &self.store.down {
            if now < *until {
                return Choice::Later(*until);
            }
            // One finds out whether the store is back.
            if self.running > 0 {
                return Choice::Nothing;
            }
        }
        if self.running >= (self.limit_thousandths / 1000).max(1) {
            return Choice::Nothing;
        }
        let rank = |name: &str, job: &Job| (job.askers.is_empty(), !name.ends_with(".history"));
        let is_due = |job: &Job| match job.stage {
            Stage::Waiting => true,
            Stage::Failed(at) => at <= now,
            Stage::Running => false,
        };
        let due = self.jobs.iter().filter(|(_, job)| is_due(job));
        if let Some((name, _)) = due.min_by_key(|(name, job)| rank(name, job)) {
            return Choice::Job(name.clone());
        }
        let next = self.jobs.values().filter_map(|job| match job.stage {
            Stage::Failed(at) => Some(at),
            Stage::Waiting | Stage::Running => None,
        });
        next.min().map_or(Choice::Nothing, Choice::Later)
    }

    fn succeeded(&mut self, name: &str) {
        self.archived += 1;
        self.last_archived = Some(name.to_owned());
        self.store.rest = STORE_REST;
        self.store.down = None;
        // One more in flight for each round of all that are.
        let step = 1_000_000 / self.limit_thousandths.max(1000);
        self.limit_thousandths = (self.limit_thousandths + step).min(self.in_flight_max * 1000);
    }

    fn store_failed(&mut self, now: Duration, failure: &Failure) {
        let is_resting = self.store.down.as_ref().is_some_and(|(until, _)| now < *until);
        // Those that were in flight when the store went away fail together, and count as one.
        if !is_resting {
            self.store.down = Some((now + self.store.rest, failure.message.clone()));
            self.store.rest = (self.store.rest * 2).min(STORE_REST_MAX);
            if failure.is_too_much {
                self.limit_thousandths = (self.limit_thousandths / 2).max(1000);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(in_flight: usize) -> State {
        State {
            in_flight_max: in_flight,
            limit_thousandths: in_flight * 1000,
            store: Store { rest: STORE_REST, down: None },
            ..State::default()
        }
    }

    fn chosen(state: &State, now: Duration) -> Option<String> {
        match state.choose(now) {
            Choice::Job(name) => Some(name),
            Choice::Later(_) | Choice::Nothing => None,
        }
    }

    fn failure(is_too_much: bool) -> Failure {
        Failure { message: "down".to_owned(), is_of_store: true, is_too_much }
    }

    #[test]
    fn what_is_asked_for_comes_first_then_histories_then_segments_in_order() {
        let mut state = state(8);
        for name in ["000000010000000000000003", "000000010000000000000002", "00000002.history"] {
            state.add(name, name);
        }
        let now = Duration::ZERO;
        assert_eq!(chosen(&state, now).unwrap(), "00000002.history");
        state.jobs.get_mut("000000010000000000000003").unwrap().askers.push(channel().0);
        assert_eq!(chosen(&state, now).unwrap(), "000000010000000000000003");
        state.jobs.remove("000000010000000000000003");
        state.jobs.remove("00000002.history");
        assert_eq!(chosen(&state, now).unwrap(), "000000010000000000000002");
        state.jobs.get_mut("000000010000000000000002").unwrap().stage = Stage::Failed(Duration::from_secs(9));
        assert_eq!(chosen(&state, now), None);
        assert!(chosen(&state, Duration::from_secs(9)).is_some());
    }

    #[test]
    fn a_store_that_is_down_holds_all_up_and_is_tried_by_one() {
        let mut state = state(8);
        state.add("a", "a");
        state.add("b", "b");
        let now = Duration::from_secs(100);
        state.store_failed(now, &failure(false));
        // The others that were in flight fail, too.
        state.store_failed(now, &failure(false));
        assert_eq!(state.store.rest, STORE_REST * 2);
        assert_eq!(chosen(&state, now), None);
        let later = now + STORE_REST;
        assert!(chosen(&state, later).is_some());
        state.running = 1;
        assert_eq!(chosen(&state, later), None, "one finds out");
        state.succeeded("a");
        assert!(chosen(&state, later).is_some());
        assert_eq!(state.store.rest, STORE_REST);
    }

    #[test]
    fn a_store_that_asks_for_less_gets_less_until_it_answers_again() {
        let mut state = state(16);
        state.store_failed(Duration::ZERO, &failure(true));
        assert_eq!(state.limit_thousandths, 8000);
        for round in 1..20_u64 {
            state.store_failed(Duration::from_secs(100 * round), &failure(true));
        }
        assert_eq!(state.limit_thousandths, 1000, "never none");
        for _ in 0..1000 {
            state.succeeded("a");
        }
        assert_eq!(state.limit_thousandths, 16_000);
    }
}
