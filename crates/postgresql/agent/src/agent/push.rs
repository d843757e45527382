//! Uploads: what is to be archived, in which order, where to, and how many at once.
//!
//! ```text
//!   waiting --worker--> read, packed once --+--> repository 1 --+--> in all that are required: out/NAME.ok, those who asked are told
//!      ^                                    +--> repository 2 --+--> failed: those who asked are told why
//!      |                                    +--> an optional one: owed to it, if it lacks the file then
//!      +-- asked for again, or its time has come
//! ```
//! * Nothing is archived before PostgreSQL has asked for a file once: an agent that a recovery has started serves a copy, perhaps, whose
//!   `archive_command` is none of ours. PostgreSQL asks for every file, so nothing on disk need say that it has asked before; and
//!   nothing can say it wrongly of a copy. What it was told before is made good by every agent: what is owed, and gaps to record.
//! * Those that a command waits for come first, then histories, then segments in the order of their names.
//! * A repository that is down or slow holds up its own uploads, for a growing rest, and no other's. If it is required, the commands
//!   that wait for it, and those that come meanwhile, are told at once what the last attempt said: PostgreSQL wants to shut down, perhaps.
//! * A file that cannot be archived, whatever the stores do, waits by itself and keeps none from its turn.
//! * Where a store asks for fewer requests, fewer are in flight, until it answers again as it should.
//! * If the administrator has set a limit, and the queue is over it while a required repository has taken nothing for a while, the file
//!   that PostgreSQL asks for is let go: to be copied from a required one that has it, else as a gap, which goes on record. Each is told.

pub(super) mod gaps;
mod lane;
mod limits;
mod queue;
mod work;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use seawall_archive::{LogFileName, Packing};

use super::Shared;
use super::statistics::{Destination, QueueStatistics};
use super::stock::Share;
use crate::protocol::Answer;
use crate::say::say;
use crate::spool::{FileIdentity, GapNote};
use limits::Limits;
use queue::{Choice, Outcome, Queue, Task};
use work::{Failure, Prepared, Unprepared};

/// What may wait to be archived.
#[derive(Clone, Copy, Debug)]
pub(super) struct QueueLimit {
    pub(super) bytes: u64,
    /// A store that fails gets this long to take a file again, and one that works to make a queue shorter that is over the limit.
    pub(super) patience: Duration,
}

/// Uploads of one data directory.
pub(super) struct Pusher {
    shared: Arc<Shared>,
    workers_max: usize,
    /// If there is one.
    queue_max: Option<QueueLimit>,
    /// PostgreSQL has asked for a file: whatever waits is archived from then on.
    follows: AtomicBool,
    has_taken_on_owed: AtomicBool,
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
    is_ending: bool,
    /// Since when the queue has been over its limit, and how long it was then.
    over_limit: Option<(Duration, usize)>,
    left_out: u64,
}

impl Pusher {
    pub(super) fn new(
        shared: Arc<Shared>,
        packing: Packing,
        in_flight: usize,
        queue_max: Option<QueueLimit>,
    ) -> Arc<Pusher> {
        let queue = Queue::new(shared.places.iter().map(|place| place.is_required), in_flight);
        let workers_max = in_flight * shared.places.len();
        let state = State { queue, workers: 0, is_ending: false, over_limit: None, left_out: 0 };
        let has_recorder = shared.places.iter().map(|_| AtomicBool::new(false)).collect();
        Arc::new(Pusher {
            shared,
            has_recorder,
            workers_max,
            queue_max,
            follows: AtomicBool::new(false),
            has_taken_on_owed: AtomicBool::new(false),
            state: Mutex::new(state),
            changed: Condvar::new(),
            limits: Limits::new(packing),
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

    /// Takes on what an earlier agent has left owing to repositories, as soon as it is known whose files these are.
    fn take_on_owed(self: &Arc<Pusher>) {
        let Ok(system) = self.shared.system() else { return };
        if self.has_taken_on_owed.swap(true, Ordering::SeqCst) {
            return;
        }
        for (lane, place) in self.shared.places.iter().enumerate() {
            match self.shared.spool.owed(system, &place.key()) {
                Ok(names) => {
                    let mut state = self.state.lock();
                    names.iter().for_each(|name| state.queue.add_owed(name, lane));
                    self.staff(&mut state);
                }
                Err(error) => say!("cannot read what is owed to {}: {error}", place.location()),
            }
        }
        self.changed.notify_all();
    }

    /// Archives the file at `path`, and waits for that.
    pub(super) fn request(self: &Arc<Pusher>, path: &str) -> Answer {
        self.begin_to_follow();
        let name = path.rsplit('/').next().unwrap_or_default().to_owned();
        if self.is_acknowledged(&name, path) {
            return Answer::Ok;
        }
        let (sender, receiver) = channel();
        {
            let mut state = self.state.lock();
            if state.is_ending {
                return Answer::OtherSettings;
            }
            // It may have been acknowledged since: it is known until then.
            if !state.queue.is_known(&name) && self.is_acknowledged(&name, path) {
                return Answer::Ok;
            }
            state.queue.add(&name, path);
            let now = self.shared.clock.monotonic();
            let is_running = state.queue.is_running(&name);
            if !is_running && let Some(reason) = self.reason_to_let_go(&state, &name, path, now) {
                return self.let_go(&mut state, &name, path, reason);
            }
            match state.queue.trouble(&name, now) {
                Some(message) if !is_running => return Answer::Failed(message.to_owned()),
                _ => {}
            }
            state.queue.ask(&name, path, sender);
            self.staff(&mut state);
        }
        self.changed.notify_all();
        receiver
            .recv()
            .unwrap_or_else(|_| Answer::Failed("the agent ended before it was archived".to_owned()))
    }

    // ---- the limit of the queue -----------------------------------------------------------------------------------

    /// Why PostgreSQL is not to wait for this segment any longer, if so.
    fn reason_to_let_go(&self, state: &State, name: &str, path: &str, now: Duration) -> Option<String> {
        let QueueLimit { bytes: limit, patience } = self.queue_max?;
        if !matches!(LogFileName::parse(name), Some(LogFileName::Segment(_))) {
            return None;
        }
        let bytes = self.bytes_of(path).saturating_mul(state.queue.waiting_count() as u64);
        if bytes <= limit {
            return None;
        }
        let slow = state.over_limit.filter(|(since, count)| {
            now.saturating_sub(*since) >= patience && state.queue.waiting_count() >= *count
        });
        // A single failure is not worth a gap.
        let cause = match (state.queue.lasting_trouble(name, now, patience), slow) {
            (Some(trouble), _) => trouble.to_owned(),
            (None, Some(_)) => "the repository takes less than PostgreSQL writes".to_owned(),
            (None, None) => return None,
        };
        Some(format!("the queue of {bytes} bytes is over queue_max = {limit}; {cause}"))
    }

    fn bytes_of(&self, path: &str) -> u64 {
        std::fs::metadata(self.shared.data.full(path)).map_or(0, |metadata| metadata.len())
    }

    /// PostgreSQL may remove the segment. One that a required repository has is copied to the others later; else it is a gap.
    fn let_go(&self, state: &mut State, name: &str, path: &str, reason: String) -> Answer {
        let identity = self.identity_of(path);
        if let Some(owed) = state.queue.owe(name, identity) {
            if let Err(problem) = self.note_owed(name, &owed) {
                return Answer::Failed(problem);
            }
            return Answer::Released(format!(
                "{name} is not in every repository yet, and is copied there from one that has it: {reason}"
            ));
        }
        let Some(LogFileName::Segment(place)) = LogFileName::parse(name) else {
            return Answer::Failed(format!("{name} is no segment"));
        };
        let system = match self.shared.system() {
            Ok(system) => system,
            Err(problem) => return Answer::Failed(problem),
        };
        let note = GapNote {
            system,
            place,
            segment_bytes: u32::try_from(self.bytes_of(path)).unwrap_or(0),
            noticed_micros: self.shared.clock.wall_micros(),
            recorded: BTreeSet::new(),
            reason: reason.clone(),
        };
        if let Err(error) = self.shared.gaps.note(&self.shared.spool, note) {
            return Answer::Failed(format!("{reason}; and that {name} is left out cannot be noted: {error}"));
        }
        state.left_out += 1;
        let only_there: Vec<String> = (0..self.shared.places.len())
            .filter(|lane| state.queue.is_in(name, *lane, identity))
            .map(|lane| format!("; the optional repository {} has it", self.shared.places[lane].location()))
            .collect();
        state.queue.give_up(name);
        Answer::Released(format!(
            "GAP: {name} is NOT archived where that is required, and will be missing{}: {reason}. No recovery goes beyond it: take a \
             new base backup as soon as the repository answers again",
            only_there.concat()
        ))
    }

    fn note_owed(&self, name: &str, lanes: &[usize]) -> Result<(), String> {
        for lane in lanes {
            let (place, system) = (&self.shared.places[*lane], self.shared.system()?);
            self.shared.spool.note_owed(system, &place.key(), name).map_err(|error| {
                format!("cannot note that {} has yet to get {name}: {error}", place.location())
            })?;
        }
        Ok(())
    }

    /// Puts gaps on record, where a store answers again: by a thread for each that there is something for.
    fn record_gaps(self: &Arc<Pusher>) {
        if self.shared.gaps.count() == 0 {
            return;
        }
        let is_in_trouble: Vec<bool> =
            self.state.lock().queue.lanes.iter().map(|lane| lane.last_trouble().is_some()).collect();
        for (place, is_in_trouble) in is_in_trouble.into_iter().enumerate() {
            if is_in_trouble || !self.shared.gaps.are_to_be_recorded(&self.shared.places[place]) {
                continue;
            }
            // The last one may hang.
            if self.has_recorder[place].swap(true, Ordering::SeqCst) {
                continue;
            }
            let pusher = Arc::clone(self);
            let started = std::thread::Builder::new().name("gaps".to_owned()).spawn(move || {
                if let Err(problem) = pusher.record_gaps_in([place]) {
                    say!("gaps are not on record everywhere yet: {problem}");
                }
                pusher.has_recorder[place].store(false, Ordering::SeqCst);
            });
            if let Err(error) = started {
                say!("no thread to record gaps: {error}");
                self.has_recorder[place].store(false, Ordering::SeqCst);
            }
        }
    }

    /// In each of them, whatever another one says; the first problem.
    fn record_gaps_in(&self, places: impl IntoIterator<Item = usize>) -> Result<(), String> {
        let record = |place| self.shared.gaps.record(&self.shared, place);
        let recorded: Vec<Result<(), String>> = places.into_iter().map(record).collect();
        recorded.into_iter().collect()
    }

    /// The repositories that a file is archived in before PostgreSQL is told so.
    fn required(&self) -> impl Iterator<Item = usize> {
        let places = self.shared.places.iter().enumerate();
        places.filter(|(_, place)| place.is_required).map(|(index, _)| index)
    }

    // ---- what is to be archived -----------------------------------------------------------------------------------

    /// Takes the file with this name on, which PostgreSQL says is to be archived.
    pub(super) fn follow(self: &Arc<Pusher>, name: &str) {
        if !self.follows() || LogFileName::parse(name).is_none() {
            return;
        }
        let mut state = self.state.lock();
        if !state.is_ending {
            state.queue.add(name, &format!("pg_wal/{name}"));
            self.staff(&mut state);
            drop(state);
            self.changed.notify_all();
        }
    }

    /// Finds what was missed, and makes good what can be made good.
    pub(super) fn look_around(self: &Arc<Pusher>) {
        self.take_on_changes();
        // It may have failed before: the spool's disk was full.
        self.shared.note_repositories();
        self.take_on_owed();
        if self.follows() {
            self.look_for_files();
            self.watch_limit();
        }
        if self.state.lock().queue.running() == 0 {
            self.limits.desks.clear();
        }
        self.changed.notify_all();
        self.record_gaps();
    }

    /// Takes on all files that are to be archived, and forgets those that no longer are.
    fn look_for_files(self: &Arc<Pusher>) {
        let ready = match self.shared.data.ready() {
            Ok(ready) => ready,
            Err(error) => {
                say!("cannot list what is to be archived: {error}");
                return;
            }
        };
        // A hundred thousand may wait, and nearly all of them are known.
        let unknown: Vec<&String> = {
            let state = self.state.lock();
            ready.iter().filter(|name| !state.queue.is_known(name)).collect()
        };
        let acknowledged = self.shared.spool.acknowledged().unwrap_or_else(|error| {
            say!("cannot list what is acknowledged: {error}");
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
            say!("cannot tidy the spool up: {error}");
        }
        // Given up by PostgreSQL, or by whoever archived by hand: nobody will ask again.
        self.state.lock().queue.forget_failed(|name| ready.contains(name));
    }

    fn watch_limit(&self) {
        let Some(QueueLimit { bytes: limit, .. }) = self.queue_max else { return };
        let paths = self.state.lock().queue.waiting();
        let bytes: u64 = paths.iter().map(|path| self.bytes_of(path)).sum();
        let (count, now) = (paths.len(), self.shared.clock.monotonic());
        let mut state = self.state.lock();
        state.over_limit = match (bytes > limit, state.over_limit) {
            (false, _) => None,
            // It has become shorter: the store gets as long again.
            (true, Some((since, before))) if count >= before => Some((since, before)),
            (true, _) => Some((now, count)),
        };
    }

    fn is_acknowledged(&self, name: &str, path: &str) -> bool {
        self.identity_of(path).is_some_and(|file| self.shared.spool.is_acknowledged(name, file))
    }

    fn identity_of(&self, path: &str) -> Option<FileIdentity> {
        std::fs::metadata(self.shared.data.full(path)).ok().map(|metadata| FileIdentity::of(&metadata))
    }

    // ---- repositories that were replaced --------------------------------------------------------------------------

    /// Looks whether the repositories are those that were opened, each by a thread of its own: one may hang.
    pub(super) fn look_at_repositories(self: &Arc<Pusher>) {
        for index in 0..self.shared.places.len() {
            let pusher = Arc::clone(self);
            let looked = std::thread::Builder::new().name("look".to_owned()).spawn(move || {
                pusher.shared.places[index].look_at();
                pusher.take_on_changes();
            });
            if let Err(error) = looked {
                say!("no thread to look at a repository: {error}");
            }
        }
    }

    /// What a repository that was replaced had got counts no more: nothing is acknowledged for it, and what is not acknowledged yet
    /// is put again.
    fn take_on_changes(&self) {
        for (lane, place) in self.shared.places.iter().enumerate() {
            if place.take_change() {
                self.state.lock().queue.repository_changed(lane);
                self.shared.note_repositories();
            }
        }
    }

    // ---- workers --------------------------------------------------------------------------------------------------

    /// Starts threads for what waits, up to the limit. They stay.
    fn staff(self: &Arc<Pusher>, state: &mut State) {
        while state.workers < self.workers_max
            && state.workers < state.queue.running() + state.queue.unstarted()
        {
            let pusher = Arc::clone(self);
            let started = std::thread::Builder::new().name("push".to_owned()).spawn(move || pusher.work());
            if let Err(error) = started {
                say!("no further thread for uploads: {error}");
                break;
            }
            state.workers += 1;
        }
    }

    fn work(&self) {
        loop {
            // A desk first, then the file whose turn it is then: what a command waits for comes before what was only taken on.
            let desk = self.limits.desks.take();
            let Some(task) = self.next() else { break };
            match work::prepare(&self.shared, &self.limits, desk, &task) {
                Ok(prepared) => self.put(&task, prepared),
                Err(Unprepared::Failed(failure)) => self.refuse(&task, &failure),
                Err(Unprepared::Nowhere) => self.write_off(&task),
            }
        }
        self.state.lock().workers -= 1;
        self.changed.notify_all();
    }

    /// The next file, when there is one and its turn has come; `None` at the end.
    fn next(&self) -> Option<Task> {
        let mut state = self.state.lock();
        loop {
            if state.is_ending {
                return None;
            }
            let now = self.shared.clock.monotonic();
            match state.queue.choose(now) {
                Choice::Task(task) => return Some(task),
                Choice::Later(at) => {
                    self.changed.wait_for(&mut state, at.saturating_sub(now));
                }
                Choice::Nothing => self.changed.wait(&mut state),
            }
        }
    }

    /// Into all of its repositories at once: each is done with it by itself. The room in memory is free again when the required ones
    /// are done with it: an optional one may hang, and no other file waits for that.
    fn put(&self, task: &Task, mut prepared: Prepared) {
        let (share, bytes) = (Arc::new(prepared.share.take()), prepared.packed.header().stored_bytes);
        let prepared = prepared;
        let put = |lane: usize, share: Option<Arc<Option<Share>>>| {
            // What is acknowledged is what was put into the repositories that there were then.
            let content = prepared.identity.map(|identity| (identity, self.shared.spool.mark()));
            self.state.lock().queue.lanes[lane].begin(bytes);
            let result = work::put(&self.shared.places[lane], &prepared);
            self.state.lock().queue.lanes[lane].end(bytes);
            drop(share);
            self.finish(task, lane, content, result);
        };
        let with_share = |lane: &usize| {
            let is_required = self.shared.places[*lane].is_required;
            (*lane, is_required.then(|| Arc::clone(&share)))
        };
        let mut lanes: Vec<(usize, Option<Arc<Option<Share>>>)> = task.lanes.iter().map(with_share).collect();
        drop(share);
        let Some((last, last_share)) = lanes.pop() else { return };
        let put = &put;
        std::thread::scope(|scope| {
            for (lane, share) in lanes {
                scope.spawn(move || put(lane, share));
            }
            put(last, last_share);
        });
    }

    fn finish(
        &self,
        task: &Task,
        lane: usize,
        content: Option<(FileIdentity, Option<u32>)>,
        result: Result<(), Failure>,
    ) {
        self.take_on_changes();
        let (name, now) = (&*task.name, self.shared.clock.monotonic());
        let identity = content.map(|(identity, _)| identity);
        let outcome = self.state.lock().queue.finish(name, lane, identity, result.as_ref().copied(), now);
        let (answer, askers) = match (outcome, result) {
            (Outcome::Durable { owed }, _) => {
                // The stores answer again: before PostgreSQL goes on, what it went on without is on record. Nobody waits for an
                // optional repository.
                let answer = match self.record_gaps_in(self.required()) {
                    Ok(()) => self.acknowledge(task, content, &owed),
                    Err(problem) => Answer::Failed(format!(
                        "{name} is stored, and counts as archived only when an earlier gap is on record: {problem}"
                    )),
                };
                let settled = self.state.lock().queue.settle(name);
                settled.paid.into_iter().for_each(|lane| self.note_paid(name, lane));
                (answer, settled.askers)
            }
            (Outcome::Paid, _) => {
                self.note_paid(name, lane);
                (Answer::Ok, Vec::new())
            }
            (Outcome::Failed { askers }, Err(failure)) => (self.tell(name, &failure), askers),
            (Outcome::Held { askers, why }, _) => (Answer::Failed(why), askers),
            (Outcome::Failed { .. } | Outcome::Nothing, _) => (Answer::Ok, Vec::new()),
        };
        self.changed.notify_all();
        for asker in askers {
            // A command that has given up waiting.
            asker.send(answer.clone()).unwrap_or(());
        }
    }

    /// It is durable wherever that is required. What is owed is noted before PostgreSQL may remove the file.
    fn acknowledge(
        &self,
        task: &Task,
        content: Option<(FileIdentity, Option<u32>)>,
        owed: &[usize],
    ) -> Answer {
        let name = &task.name;
        if let Err(problem) = self.note_owed(name, owed) {
            return Answer::Failed(problem);
        }
        let Some((identity, mark)) = content else { return Answer::Ok };
        let now = std::fs::metadata(self.shared.data.full(&task.path));
        if now.map_or(true, |now| FileIdentity::of(&now) != identity) {
            return Answer::Failed(format!(
                "{name} was changed or removed while it was archived; what is there now is not known to be archived"
            ));
        }
        // It is archived all the same, and whoever waits is told so; the next who asks will find it there.
        if let Some(mark) = mark
            && let Err(error) = self.shared.spool.acknowledge(name, identity, mark)
        {
            say!("{name} is archived, and not acknowledged: {error}");
        }
        Answer::Ok
    }

    /// If that fails, the next agent finds out that it is paid.
    fn note_paid(&self, name: &str, lane: usize) {
        let key = self.shared.places[lane].key();
        let paid = self.shared.system().and_then(|system| {
            self.shared.spool.note_paid(system, &key, name).map_err(|error| error.to_string())
        });
        if let Err(problem) = paid {
            say!("what was owed is paid, and not noted: {problem}");
        }
    }

    /// What repositories are owed has been removed from all others before it was copied: it will not come. The gap is noted before the
    /// debt is forgotten.
    fn write_off(&self, task: &Task) {
        let mut state = self.state.lock();
        // Else PostgreSQL has asked for it once more, and has it.
        let noted = if state.queue.is_released(&task.name) { self.note_lost(task) } else { Ok(()) };
        if let Err(problem) = noted {
            drop(state);
            self.refuse(task, &Failure::of_file(problem));
            return;
        }
        let written_off = state.queue.write_off(task);
        drop(state);
        for lane in written_off {
            let place = self.shared.places[lane].location();
            say!(
                "{} was owed to {place}, and is in no repository any more: it will be missing there",
                task.name
            );
            self.note_paid(&task.name, lane);
        }
        self.changed.notify_all();
    }

    /// A gap of the repositories that were to get it, and of no other: those had it for as long as they were to keep it.
    fn note_lost(&self, task: &Task) -> Result<(), String> {
        let Some(LogFileName::Segment(place)) = LogFileName::parse(&task.name) else { return Ok(()) };
        let others = self.shared.places.iter().enumerate().filter(|(lane, _)| !task.lanes.contains(lane));
        let recorded = others.filter_map(|(_, other)| Some(other.record_mark(&other.id()?))).collect();
        let note = GapNote {
            system: self.shared.system()?,
            place,
            // It is nowhere to be measured; so its gap is one by itself.
            segment_bytes: 0,
            noticed_micros: self.shared.clock.wall_micros(),
            recorded,
            reason: "it was removed from the other repositories before it was copied here".to_owned(),
        };
        let noted = self.shared.gaps.note(&self.shared.spool, note);
        noted.map_err(|error| format!("{} is in no repository, and that cannot be noted: {error}", task.name))
    }

    fn refuse(&self, task: &Task, failure: &Failure) {
        let now = self.shared.clock.monotonic();
        let askers = self.state.lock().queue.refuse(task, failure, now);
        let answer = self.tell(&task.name, failure);
        self.changed.notify_all();
        for asker in askers {
            asker.send(answer.clone()).unwrap_or(());
        }
    }

    fn tell(&self, name: &str, failure: &Failure) -> Answer {
        if let Err(error) = self.shared.spool.note_error(name, &failure.message) {
            say!("cannot write to the spool: {error}");
        }
        // Where a store is down, all fail: that is said once, by its lane.
        if !failure.is_of_store {
            say!("{name} is not archived: {}", failure.message);
        }
        Answer::Failed(failure.message.clone())
    }

    // ---- end, statistics ------------------------------------------------------------------------------------------

    pub(super) fn is_idle(&self) -> bool {
        let state = self.state.lock();
        state.queue.running() == 0 && state.queue.unstarted() == 0 && self.shared.gaps.count() == 0
    }

    /// Waits for what is under way, and begins nothing more. No command waits for an upload after that.
    pub(super) fn end(&self) {
        let mut state = self.state.lock();
        state.is_ending = true;
        state.queue.drop_hopeless_askers();
        self.changed.notify_all();
        while state.workers > 0 {
            self.changed.wait(&mut state);
        }
        // An upload that has ended may have left its file to be put once more.
        state.queue.drop_all_askers();
    }

    pub(super) fn statistics(&self) -> (QueueStatistics, Vec<Destination>) {
        let state = self.state.lock();
        let now = self.shared.clock.monotonic();
        let paths = state.queue.waiting();
        let destinations = self.shared.places.iter().zip(&state.queue.lanes).enumerate();
        let destinations = destinations
            .map(|(index, (place, lane))| {
                let (lag_segments, refused) = state.queue.lacking(index);
                Destination {
                    url: place.location(),
                    is_required: place.is_required,
                    archived: lane.archived,
                    last_archived: lane.last_archived.clone(),
                    lag_segments,
                    refused,
                    in_flight: lane.running,
                    in_flight_limit: lane.limit(),
                    resting: lane.trouble(now).map(str::to_owned),
                    requests: place.statistics(),
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
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::os::unix::fs::MetadataExt;
    use std::path::Path;

    use seawall_archive::{Repository, RepositoryOptions, System};
    use seawall_io::SystemClock;

    use crate::agent::places::open_places;
    use crate::agent::stock::Stock;
    use crate::data_directory::DataDirectory;
    use crate::settings::ArchiveSettings;
    use crate::spool::Spool;

    /// A data directory and a required repository; whatever else the settings say.
    fn shared(directory: &Path, more: &str) -> Arc<Shared> {
        shared_with(directory, &["repository"], more)
    }

    /// As `shared`, with several required repositories in these directories.
    fn shared_with(directory: &Path, repositories: &[&str], more: &str) -> Arc<Shared> {
        let data = directory.join("data");
        std::fs::create_dir_all(data.join("global")).unwrap();
        std::fs::write(data.join("global/pg_control"), 7_u64.to_le_bytes()).unwrap();
        let url_of = |name| directory.join(name).display().to_string();
        let urls: Vec<String> = repositories.iter().map(url_of).collect();
        for url in &urls {
            Repository::create(&url.parse().unwrap(), RepositoryOptions::default()).unwrap();
        }
        let settings = ArchiveSettings::parse(&format!("repository = {urls:?}\n{more}\n"), "test").unwrap();
        let spool = Spool::new(directory.join("spool"), 1);
        spool.prepare().unwrap();
        Shared::take_over(spool, DataDirectory::new(data), Arc::new(SystemClock), |known| {
            open_places(&settings, known)
        })
        .unwrap()
    }

    /// The spool's disk was full when a repository was opened, say: nothing is acknowledged until it is noted.
    #[test]
    fn repositories_that_could_not_be_noted_are_noted_later() {
        let directory = tempfile::tempdir().unwrap();
        let shared = shared(directory.path(), "");
        std::fs::remove_file(directory.path().join("spool/repositories")).unwrap();
        let in_the_way = directory.path().join("spool/repositories.new");
        std::fs::create_dir(&in_the_way).unwrap();
        let pusher = Pusher::new(Arc::clone(&shared), Packing::default(), 1, None);
        pusher.look_around();
        assert_eq!(shared.spool.mark(), None);
        std::fs::remove_dir(&in_the_way).unwrap();
        pusher.look_around();
        assert!(shared.spool.mark().is_some());
    }

    /// Segments later than a gap must not count as archived before the gap is on record: a recovery would take it for the archive's end.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "a file that is in the way")]
    fn nothing_is_acknowledged_while_a_gap_cannot_be_put_on_record() {
        let directory = tempfile::tempdir().unwrap();
        let shared = shared(directory.path(), "");
        std::fs::create_dir_all(directory.path().join("data/pg_wal/archive_status")).unwrap();
        shared.gaps.note(&shared.spool, gap()).unwrap();
        let system = directory.path().join("repository").join(System::PostgreSql(7).to_string());
        std::fs::create_dir_all(&system).unwrap();
        // Where the directory of the gaps belongs.
        std::fs::write(system.join("gaps"), b"").unwrap();
        std::fs::write(directory.path().join("data/pg_wal/00000002.history"), b"1\t0/3000158\tx\n").unwrap();
        let pusher = Pusher::new(Arc::clone(&shared), Packing::default(), 1, None);
        let answer = pusher.request("pg_wal/00000002.history");
        let Answer::Failed(problem) = answer else { panic!("{answer:?}") };
        assert!(problem.contains("gap") && problem.contains("on record"), "{problem}");
        assert!(shared.spool.acknowledged().unwrap().is_empty());
        std::fs::remove_file(system.join("gaps")).unwrap();
        seawall_testing::wait_until("the file to be archived", || {
            pusher.request("pg_wal/00000002.history") == Answer::Ok
        });
        assert!(shared.spool.gap_notes().unwrap().is_empty());
        pusher.end();
    }

    fn gap() -> GapNote {
        let Some(LogFileName::Segment(place)) = LogFileName::parse("000000010000000000000007") else {
            panic!()
        };
        GapNote {
            system: System::PostgreSql(7),
            place,
            segment_bytes: 1 << 24,
            noticed_micros: 1,
            recorded: BTreeSet::new(),
            reason: "down".to_owned(),
        }
    }

    fn gap_threads() -> usize {
        let threads = std::fs::read_dir("/proc/self/task").unwrap();
        let paths = threads.map(|entry| entry.unwrap().path().join("comm"));
        // One may end while it is looked at.
        paths.filter(|path| std::fs::read_to_string(path).is_ok_and(|name| name == "gaps\n")).count()
    }

    /// A store that takes connections and says nothing, as an optional repository.
    fn shared_with_one_that_hangs(directory: &Path) -> (TcpListener, Arc<Shared>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let url = format!("s3://b/p?endpoint=http://127.0.0.1:{port}&region=x&anonymous=true&timeout=600");
        let shared = shared(directory, &format!("archive.optional_repository = {url:?}"));
        (listener, shared)
    }

    fn write_to_archive(directory: &Path, name: &str, content: &[u8]) -> Option<FileIdentity> {
        let path = directory.join("data/pg_wal").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        Some(FileIdentity::of(&std::fs::metadata(&path).unwrap()))
    }

    const PATIENCE: Duration = Duration::from_secs(60);

    fn limit_of_a_byte() -> Option<QueueLimit> {
        Some(QueueLimit { bytes: 1, patience: PATIENCE })
    }

    fn store_is_down() -> Failure {
        Failure { message: "down".to_owned(), is_of_store: true, is_too_much: false }
    }

    /// A command that asks for a file, in a thread of its own.
    fn ask(pusher: &Arc<Pusher>, name: &str) -> std::thread::JoinHandle<Answer> {
        let (pusher, path) = (Arc::clone(pusher), format!("pg_wal/{name}"));
        std::thread::spawn(move || pusher.request(&path))
    }

    fn answer_of(command: std::thread::JoinHandle<Answer>) -> Answer {
        seawall_testing::wait_until("the command to have its answer", || command.is_finished());
        command.join().unwrap()
    }

    const HISTORY: &str = "00000002.history";
    const SEGMENT: &str = "000000010000000000000007";

    /// An agent with two required repositories that is told to end while a command waits for a file and an upload of it is under way
    /// to the first one. The test is the worker: `finish` says how the uploads end. Returns what the command is told.
    fn end_while_a_command_waits(is_second_busy: bool, finish: impl FnOnce(&Pusher, &Task)) -> Answer {
        let directory = tempfile::tempdir().unwrap();
        let shared = shared_with(directory.path(), &["repository", "another"], "");
        let pusher = Pusher::new(shared, Packing::default(), 1, None);
        {
            let mut state = pusher.state.lock();
            // No thread is started, since as many as may be are there.
            state.workers = pusher.workers_max;
            state.queue.lanes[1].running = usize::from(is_second_busy);
        }
        let command = ask(&pusher, HISTORY);
        let task = seawall_testing::wait_for("the file to be taken on", || {
            match pusher.state.lock().queue.choose(Duration::ZERO) {
                Choice::Task(task) => Some(task),
                Choice::Later(_) | Choice::Nothing => None,
            }
        });
        assert_eq!(task.lanes.len(), if is_second_busy { 1 } else { 2 });
        let ending = std::thread::spawn({
            let pusher = Arc::clone(&pusher);
            move || pusher.end()
        });
        seawall_testing::wait_until("the agent to begin to end", || pusher.state.lock().is_ending);
        finish(&pusher, &task);
        pusher.state.lock().workers = 0;
        pusher.changed.notify_all();
        seawall_testing::wait_until("the uploads to have ended", || ending.is_finished());
        answer_of(command)
    }

    /// The agent waits for each command before it gives its spool back to the next agent.
    #[test]
    fn a_command_that_waits_for_a_file_that_one_repository_lacks_is_told_when_the_agent_ends() {
        let put_into_the_first = |pusher: &Pusher, task: &Task| pusher.finish(task, 0, None, Ok(()));
        let answer = end_while_a_command_waits(true, put_into_the_first);
        assert!(matches!(&answer, Answer::Failed(problem) if problem.contains("ended")), "{answer:?}");
    }

    /// The file was replaced between two uploads of it, so both repositories are to get it once more.
    #[test]
    fn a_command_that_waits_for_a_file_that_is_begun_anew_is_told_when_the_agent_ends() {
        let directory = tempfile::tempdir().unwrap();
        let contents = ["one", "another"].map(|content| {
            let identity = write_to_archive(directory.path(), HISTORY, content.as_bytes()).unwrap();
            Some((identity, None))
        });
        let put_into_both = |pusher: &Pusher, task: &Task| {
            contents
                .into_iter()
                .enumerate()
                .for_each(|(lane, content)| pusher.finish(task, lane, content, Ok(())));
        };
        let answer = end_while_a_command_waits(false, put_into_both);
        assert!(matches!(&answer, Answer::Failed(problem) if problem.contains("ended")), "{answer:?}");
    }

    /// There is memory for one file at a time.
    #[test]
    fn an_optional_repository_that_hangs_keeps_no_memory_from_the_required_ones() {
        let directory = tempfile::tempdir().unwrap();
        let (_listener, shared) = shared_with_one_that_hangs(directory.path());
        let mut pusher = Pusher::new(shared, Packing::default(), 4, None);
        let content = b"1\t0/3000158\tx\n";
        Arc::get_mut(&mut pusher).unwrap().limits.memory = Stock::new(2 * content.len() as u64);
        for number in 2..12 {
            let name = format!("{number:08X}.history");
            write_to_archive(directory.path(), &name, content);
            assert_eq!(answer_of(ask(&pusher, &name)), Answer::Ok, "{name}");
        }
        // It is not told to end: that would wait for the store that hangs.
    }

    #[test]
    fn a_single_failure_opens_no_gap() {
        let directory = tempfile::tempdir().unwrap();
        let shared = shared(directory.path(), "");
        write_to_archive(directory.path(), SEGMENT, &[0; 100]);
        let pusher = Pusher::new(shared, Packing::default(), 4, limit_of_a_byte());
        let path = format!("pg_wal/{SEGMENT}");
        let mut state = pusher.state.lock();
        state.queue.add(SEGMENT, &path);
        let reason = |state: &State, now| pusher.reason_to_let_go(state, SEGMENT, &path, now);
        let mut now = Duration::from_secs(1000);
        state.queue.lanes[0].succeeded("before");
        now += Duration::from_secs(1);
        state.queue.lanes[0].failed(now, &store_is_down());
        assert_eq!(reason(&state, now), None, "it has answered a second ago");
        // It goes on failing, each time that it is tried.
        let down_since = now;
        while now < down_since + PATIENCE {
            assert_eq!(reason(&state, now), None, "down for {:?}", now.saturating_sub(down_since));
            now += Duration::from_secs(31);
            state.queue.lanes[0].failed(now, &store_is_down());
        }
        let given = reason(&state, now).unwrap_or_default();
        assert!(given.contains("down") && given.contains("queue_max"), "{given}");
        // It answers again: it gets as long once more.
        state.queue.lanes[0].succeeded("before");
        state.queue.lanes[0].failed(now, &store_is_down());
        assert_eq!(reason(&state, now), None);
    }

    /// The data directory was rolled back in place: the repository that has the file has the one that was there before.
    #[test]
    fn a_file_that_another_one_has_replaced_is_not_copied_from_a_repository() {
        let directory = tempfile::tempdir().unwrap();
        let shared = shared_with(directory.path(), &["repository", "another"], "");
        let before = write_to_archive(directory.path(), SEGMENT, b"before");
        let pusher = Pusher::new(Arc::clone(&shared), Packing::default(), 4, limit_of_a_byte());
        let path = format!("pg_wal/{SEGMENT}");
        let mut state = pusher.state.lock();
        let now = pusher.shared.clock.monotonic();
        state.queue.add(SEGMENT, &path);
        assert!(matches!(state.queue.choose(now), Choice::Task(task) if task.lanes == [0, 1]));
        state.queue.finish(SEGMENT, 0, before, Ok(()), now);
        state.queue.finish(SEGMENT, 1, None, Err(&store_is_down()), now);
        write_to_archive(directory.path(), SEGMENT, b"what is there now");
        let Answer::Released(said) = pusher.let_go(&mut state, SEGMENT, &path, "full".to_owned()) else {
            panic!()
        };
        assert!(said.starts_with("GAP"), "{said}");
        assert_eq!(shared.spool.gap_notes().unwrap().len(), 1);
    }

    /// Else it would be looked for every minute, by every agent.
    #[test]
    fn what_is_owed_and_is_in_no_repository_any_more_is_a_gap_of_the_one_that_was_to_get_it() {
        let directory = tempfile::tempdir().unwrap();
        let url = directory.path().join("another").display().to_string();
        Repository::create(&url.parse().unwrap(), RepositoryOptions::default()).unwrap();
        let shared = shared(directory.path(), &format!("archive.optional_repository = {url:?}"));
        let (system, keys) = (System::PostgreSql(7), [shared.places[0].key(), shared.places[1].key()]);
        for name in [SEGMENT, HISTORY] {
            shared.spool.note_owed(system, &keys[1], name).unwrap();
        }
        let pusher = Pusher::new(Arc::clone(&shared), Packing::default(), 4, None);
        pusher.look_around();
        seawall_testing::wait_until("nothing to be owed", || {
            shared.spool.owed(system, &keys[1]).unwrap().is_empty()
        });
        let gaps = |place: usize| shared.places[place].ask(|repository| repository.gaps(system)).unwrap();
        seawall_testing::wait_until("the gap to be on record", || {
            pusher.look_around();
            shared.spool.gap_notes().unwrap().is_empty()
        });
        let gaps = [gaps(0), gaps(1)].map(|gaps| gaps.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(gaps, [vec![], vec![format!("{SEGMENT}-{SEGMENT}")]]);
        let state = pusher.state.lock();
        assert_eq!((state.queue.lacking(1), state.queue.archived), ((0, 0), 0));
        drop(state);
        pusher.end();
    }

    /// A gap is to be put on record in a store that takes connections and says nothing.
    #[test]
    fn a_repository_that_hangs_holds_up_one_thread_and_no_other_repository() {
        let directory = tempfile::tempdir().unwrap();
        let (_listener, shared) = shared_with_one_that_hangs(directory.path());
        shared.gaps.note(&shared.spool, gap()).unwrap();
        let pusher = Pusher::new(Arc::clone(&shared), Packing::default(), 1, None);
        for _ in 0..20 {
            pusher.look_around();
        }
        let recorded = || shared.spool.gap_notes().unwrap()[0].recorded.clone();
        seawall_testing::wait_until("the required repository to have it on record", || {
            let required = &shared.places[0];
            required.id().is_some_and(|id| recorded() == BTreeSet::from([required.record_mark(&id)]))
        });
        pusher.look_around();
        assert!(gap_threads() <= shared.places.len(), "{} threads", gap_threads());
        // What waits for the required ones before each acknowledgement: they have it on record, so nothing is written.
        let notes = || std::fs::metadata(directory.path().join("spool/gaps")).unwrap().ino();
        let before = notes();
        pusher.record_gaps_in(pusher.required()).unwrap();
        assert_eq!(notes(), before, "the notes were written again");
    }
}
