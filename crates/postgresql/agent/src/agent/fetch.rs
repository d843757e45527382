//! Downloads: the file that recovery asks for, and those that it will ask for next.
//!
//! ```text
//!   asked for: NAME --+-- whole in in/NAME --> moved to its place
//!                     +-- under way        --> waited for
//!                     +-- else             --> fetched by the thread that asks, before anything else
//!                         what has its place before stays until the file is whole: `files`
//!   meanwhile the window: as many after NAME as the requests so far deserve, 8, 16 ... --> workers --> in/
//! ```
//! The window slides: with each segment that is asked for, one more is begun, so that as many are in flight all the time. It does so
//! before that segment is there, so that recovery waits for a slow store twice at most; it does not become wide at once, since all that
//! is in flight shares one line with the segment that is waited for. Where the archive ended when it was last asked, it is a single segment: a standby takes one every now and then. Only a recovery
//! gets a window: it asks
//! for segments in their order and lets them be put into `RECOVERYXLOG`; `pg_rewind` and people do not. What was not there
//! is not remembered: the next time it may be. One that is missing on purpose, in a gap, is not the end of the archive.

mod files;

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use seawall_archive::{ArchiveError, Gap, Header, LogFileName, SegmentPlace, StoreCause, System};

use super::repositories::RepositoryHandle;
use super::statistics::FetchStatistics;
use super::transfers::milliseconds;
use super::{Shared, moved};
use crate::log_line::log_line;
use crate::protocol::Answer;
use crate::replacement::remove_left;
use files::Target;

/// What recovery lets a segment be put into.
const RECOVERY_FILE: &str = "RECOVERYXLOG";
/// The window after a first request, and what it grows by with each that follows.
const WINDOW_FIRST: usize = 8;
const WINDOW_GROWTH: usize = 2;
/// What lies ahead goes when recovery has asked for nothing for so many looks around: some minutes.
const QUIET_ROUNDS: u32 = 30;

/// Downloads of one data directory.
pub(super) struct Fetcher {
    shared: Arc<Shared>,
    in_flight: usize,
    window_max: usize,
    state: Mutex<State>,
    /// There is something to fetch, which one worker is woken for; or the end, or a worker's end.
    changed: Condvar,
    /// The directory that was looked through last for what killed agents have left.
    tidied: Mutex<Option<PathBuf>>,
}

#[derive(Default)]
struct State {
    /// To be fetched ahead, in their order.
    waiting: VecDeque<SegmentPlace>,
    ahead: BTreeMap<SegmentPlace, Ahead>,
    workers: usize,
    window: usize,
    /// The first segment that was looked for and is not there: the archive ends before it. Nothing is fetched ahead from it on, until
    /// recovery has come to it.
    end: Option<SegmentPlace>,
    /// Of the log, as far as it is known: zero before the first segment.
    segment_bytes: u32,
    /// The segment that recovery has asked for, and the one that it asks for next, if it goes on.
    position: Option<(SegmentPlace, Option<SegmentPlace>)>,
    is_ending: bool,
    fetched: u64,
    fetched_ahead: u64,
    /// Looks around since somebody has asked for something.
    quiet_rounds: u32,
}

impl State {
    /// The segment that recovery asks for next, if it goes on.
    fn expected(&self) -> Option<SegmentPlace> {
        self.position.and_then(|(_, next)| next)
    }

    /// Recovery asks for `place`: how wide the window is now. Returns where it begins.
    fn advance(
        &mut self,
        system: System,
        place: SegmentPlace,
        segment_bytes: Option<u32>,
        window_max: usize,
    ) -> Option<SegmentPlace> {
        self.segment_bytes = segment_bytes.unwrap_or(self.segment_bytes);
        let next = place.next(system, self.segment_bytes);
        let is_at_end = self.end.is_some_and(|end| end == place || Some(end) == next);
        let window = match self.position {
            _ if is_at_end => 1,
            // What was fetched ahead could not be used, and it was fetched once more.
            Some((last, _)) if last == place => self.window,
            _ if self.expected() == Some(place) => self.window.saturating_mul(WINDOW_GROWTH),
            _ => WINDOW_FIRST,
        };
        self.window = window.min(window_max);
        // It is looked for again when recovery has come to it, or has turned elsewhere.
        self.end = self.end.filter(|end| !is_at_end && *end > place && end.timeline == place.timeline);
        self.position = Some((place, next));
        next
    }
}

/// A segment that is fetched ahead.
enum Ahead {
    Waiting,
    /// With those who wait for it.
    Running(Vec<Sender<bool>>),
    /// In the spool, whole.
    There,
}

/// A worker thread. Counted until this is dropped, also by a panic.
struct Worker<'a>(&'a Fetcher);

impl Drop for Worker<'_> {
    fn drop(&mut self) {
        self.0.state.lock().workers -= 1;
        self.0.changed.notify_all();
    }
}

/// A download ahead. Commands that wait for it when a panic ends it fetch the segment themselves.
struct Download<'a>(&'a Fetcher, SegmentPlace);

impl Drop for Download<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.finish(self.1, false, false);
        }
    }
}

/// What a fetch came to.
enum Fetched {
    There(Box<Header>),
    Missing,
    Failed(String),
}

impl Fetcher {
    pub(super) fn new(shared: Arc<Shared>, in_flight: usize, window_max: usize) -> Arc<Fetcher> {
        let in_flight = in_flight.min(window_max.max(1));
        Arc::new(Fetcher {
            shared,
            in_flight,
            window_max,
            state: Mutex::default(),
            changed: Condvar::new(),
            tidied: Mutex::default(),
        })
    }

    /// Fetches the file with this name to `path`, and waits for that.
    pub(super) fn request(self: &Arc<Fetcher>, name: &str, path: &str) -> Answer {
        let Some(parsed) = LogFileName::parse(name) else {
            return Answer::Failed(format!("{name} is not a file of a log"));
        };
        let system = match self.shared.system() {
            Ok(system) => system,
            Err(problem) => return Answer::Failed(problem),
        };
        let target = self.shared.data.full(path);
        self.tidy_beside(&target);
        let is_recovery = Path::new(path).file_name().is_some_and(|name| name == RECOVERY_FILE);
        match parsed {
            LogFileName::Segment(place) if is_recovery && self.window_max > 0 => {
                self.fetch_next(system, place, &target)
            }
            _ => match self.fetch_asked(system, parsed, &target) {
                Fetched::There(_) => Answer::Ok,
                Fetched::Missing => Answer::Missing,
                Fetched::Failed(message) => Answer::Failed(message),
            },
        }
    }

    /// A segment for recovery, which will want the next one.
    fn fetch_next(self: &Arc<Fetcher>, system: System, place: SegmentPlace, target: &Path) -> Answer {
        self.state.lock().quiet_rounds = 0;
        if self.wait_for_ahead(system, place) {
            let name = place.to_string();
            match self.shared.spool.hand_out(&name, target) {
                Ok(()) => return Answer::Ok,
                // Somebody has tidied the spool up: it is fetched again.
                Err(error) => log_line!("{name} was fetched ahead and cannot be put in place: {error}"),
            }
        }
        match self.fetch_asked(system, LogFileName::Segment(place), target) {
            Fetched::There(header) => {
                self.slide(system, place, Some(header.segment_bytes));
                Answer::Ok
            }
            Fetched::Missing => {
                let mut state = self.state.lock();
                // In other cases it is one of a timeline that recovery only tries.
                if state.expected() == Some(place) {
                    state.end = Some(place);
                }
                Answer::Missing
            }
            Fetched::Failed(message) => Answer::Failed(message),
        }
    }

    /// Whether the segment lies in the spool; waits for it if it is under way, and moves the window on meanwhile. If it only waits
    /// for its turn, it is taken out: who asks fetches it himself.
    fn wait_for_ahead(self: &Arc<Fetcher>, system: System, place: SegmentPlace) -> bool {
        let receiver = {
            let mut state = self.state.lock();
            match state.ahead.remove(&place) {
                None => return false,
                Some(Ahead::There) => {
                    drop(state);
                    self.slide(system, place, None);
                    return true;
                }
                Some(Ahead::Waiting) => {
                    state.waiting.retain(|waiting| *waiting != place);
                    return false;
                }
                Some(Ahead::Running(mut askers)) => {
                    let (sender, receiver) = channel();
                    askers.push(sender);
                    state.ahead.insert(place, Ahead::Running(askers));
                    receiver
                }
            }
        };
        self.slide(system, place, None);
        let is_there = receiver.recv().unwrap_or(false);
        if is_there {
            self.state.lock().ahead.remove(&place);
        }
        is_there
    }

    /// Removes what killed agents have left where `target` is to be: once for each directory, which mostly is `pg_wal`.
    fn tidy_beside(&self, target: &Path) {
        let Some(directory) = target.parent() else { return };
        let mut tidied = self.tidied.lock();
        if tidied.as_deref() == Some(directory) {
            return;
        }
        *tidied = Some(directory.to_owned());
        if let Err(error) = remove_left(directory, self.shared.clock.wall_micros()) {
            log_line!("cannot look for what was left in {}: {error}", directory.display());
        }
    }

    fn fetch_asked(&self, system: System, name: LogFileName, target: &Path) -> Fetched {
        match (self.fetch_to(system, name, Target::Named(target)), name) {
            (Fetched::There(header), _) => {
                self.state.lock().fetched += 1;
                Fetched::There(header)
            }
            (Fetched::Missing, LogFileName::Segment(place)) => self.missing(system, place),
            (fetched, _) => fetched,
        }
    }

    /// A segment is in no repository: at the end of the archive, or in a gap.
    fn missing(&self, system: System, place: SegmentPlace) -> Fetched {
        let gap = match self.gap_of(system, place) {
            Ok(Some(gap)) => gap,
            Ok(None) => return Fetched::Missing,
            Err(problem) => return Fetched::Failed(problem),
        };
        Fetched::Failed(format!(
            "{place} is in a gap: {} to {} were left out of the archive on purpose, as `seawall repo info` tells. No recovery goes \
             beyond: set a recovery target before {}, or restore a base backup that was taken after it",
            gap.first, gap.last, gap.first
        ))
    }

    /// A gap is noted in a spool until it is on record in a repository, so spools come first. Nothing of the answer is kept for the
    /// next question: recovery ends where it is told that a segment is missing.
    fn gap_of(&self, system: System, place: SegmentPlace) -> Result<Option<Gap>, String> {
        let Shared { gaps, spool, repositories, .. } = &*self.shared;
        let is_noted = gaps.has(system, place)
            || moved::is_left_out(spool, system, place, repositories).map_err(|error| {
                format!("whether {place} was left out of the archive is not known: {error}")
            })?;
        if is_noted {
            return Ok(Some(Gap { first: place, last: place }));
        }
        // An optional repository has no gap on record that those that are required have not.
        for handle in repositories.iter().filter(|handle| handle.is_required) {
            let recorded =
                handle.ask(|repository| repository.gaps(system)).map_err(|error| error.to_string())?;
            if let Some(gap) = recorded.into_iter().find(|gap| gap.contains(place)) {
                return Ok(Some(gap));
            }
        }
        Ok(None)
    }

    /// As many at once as the repository that is asked first can take.
    fn fetch_ahead(&self, system: System, place: SegmentPlace) -> Fetched {
        let repositories =
            RepositoryHandle::in_order(&self.shared.repositories, self.shared.clock.monotonic());
        let _permit = repositories.first().map(|handle| handle.fetches.acquire(1));
        if self.state.lock().is_ending {
            return Fetched::Failed("the agent ends".to_owned());
        }
        let name = place.to_string();
        self.fetch_to(system, LogFileName::Segment(place), Target::Ahead(&self.shared.spool, &name))
    }

    /// Fetches a file from the first repository that has it, and puts it in its place.
    fn fetch_to(&self, system: System, name: LogFileName, target: Target<'_>) -> Fetched {
        let mut failure = None;
        let mut sink = match target.create() {
            Ok(sink) => sink,
            Err(error) => return Fetched::Failed(format!("cannot create {target}: {error}")),
        };
        let (transfers, clock) = (&self.shared.transfers, &*self.shared.clock);
        let now = clock.monotonic();
        for handle in RepositoryHandle::in_order(&self.shared.repositories, now) {
            let begun = clock.monotonic();
            let fetched = transfers.download_rate.run(clock, || {
                let fetched = handle.ask(|repository| repository.fetch(system, name, &mut *sink));
                (fetched.as_ref().map_or(0, |header| header.stored_bytes), fetched)
            });
            match fetched {
                Ok(header) => {
                    let duration = clock.monotonic().saturating_sub(begun);
                    target.durations(transfers).note(duration);
                    transfers.log(
                        clock,
                        format_args!(
                            "fetched {name} from {}: {} bytes in {}",
                            handle.location(),
                            header.stored_bytes,
                            milliseconds(duration)
                        ),
                    );
                    let placed = sink.put_in_place();
                    return placed.map_or_else(
                        |error| {
                            log_line!("{name} is fetched and cannot be put at {target}: {error}");
                            Fetched::Failed(format!("cannot put {name} at {target}: {error}"))
                        },
                        |()| Fetched::There(Box::new(header)),
                    );
                }
                Err(ArchiveError::NotFound { .. }) => {}
                Err(error) => {
                    log_line!("{name}: {error}");
                    if is_of_store(&error) {
                        handle.ask_last(self.shared.clock.monotonic());
                    }
                    failure = may_have(handle, name, &error).then(|| words(handle, &error)).or(failure);
                }
            }
        }
        // One that could not be asked may have it.
        failure.map_or(Fetched::Missing, Fetched::Failed)
    }

    /// Moves the window behind `place`, which recovery has now, or will have in a moment.
    fn slide(self: &Arc<Fetcher>, system: System, place: SegmentPlace, segment_bytes: Option<u32>) {
        let mut state = self.state.lock();
        if state.is_ending {
            return;
        }
        let mut next = state.advance(system, place, segment_bytes, self.window_max);
        let segment_bytes = state.segment_bytes;
        // What lies before the window was skipped, or belongs to an earlier recovery.
        let stale: Vec<SegmentPlace> = state
            .ahead
            .iter()
            .filter(|(ahead, stage)| {
                !matches!(stage, Ahead::Running(_)) && (**ahead < place || ahead.timeline != place.timeline)
            })
            .map(|(ahead, _)| *ahead)
            .collect();
        for ahead in stale {
            state.ahead.remove(&ahead);
            state.waiting.retain(|waiting| *waiting != ahead);
            self.remove(ahead);
        }
        for _ in 0..state.window {
            let Some(place) = next.filter(|place| state.end.is_none_or(|end| *place < end)) else { break };
            let State { ahead, waiting, .. } = &mut *state;
            ahead.entry(place).or_insert_with(|| {
                waiting.push_back(place);
                self.changed.notify_one();
                Ahead::Waiting
            });
            next = place.next(system, segment_bytes);
        }
        self.start_workers(&mut state, system);
    }

    fn start_workers(self: &Arc<Fetcher>, state: &mut State, system: System) {
        while state.workers < self.in_flight && state.workers < state.ahead.len() {
            let fetcher = Arc::clone(self);
            let started =
                std::thread::Builder::new().name("fetch".to_owned()).spawn(move || fetcher.work(system));
            if let Err(error) = started {
                log_line!("no further thread for downloads: {error}");
                break;
            }
            state.workers += 1;
        }
    }

    fn work(&self, system: System) {
        let _counted = Worker(self);
        while let Some(place) = self.next() {
            let _download = Download(self, place);
            let fetched = self.fetch_ahead(system, place);
            self.finish(place, matches!(fetched, Fetched::There(_)), matches!(fetched, Fetched::Missing));
        }
    }

    fn next(&self) -> Option<SegmentPlace> {
        let mut state = self.state.lock();
        loop {
            if state.is_ending {
                return None;
            }
            if let Some(place) = state.waiting.pop_front() {
                state.ahead.insert(place, Ahead::Running(Vec::new()));
                return Some(place);
            }
            self.changed.wait(&mut state);
        }
    }

    fn finish(&self, place: SegmentPlace, is_there: bool, is_missing: bool) {
        let mut state = self.state.lock();
        let stage = state.ahead.remove(&place);
        if is_there {
            state.fetched_ahead += 1;
            state.ahead.insert(place, Ahead::There);
        }
        if is_missing {
            state.end = Some(state.end.map_or(place, |end| end.min(place)));
            // Behind the end of the archive there is nothing.
            let behind: Vec<SegmentPlace> = state.waiting.drain(..).collect();
            for place in behind {
                state.ahead.remove(&place);
            }
        }
        drop(state);
        if let Some(Ahead::Running(askers)) = stage {
            for asker in askers {
                // A command that has given up waiting.
                asker.send(is_there).unwrap_or(());
            }
        }
    }

    fn remove(&self, place: SegmentPlace) {
        if let Err(error) = self.shared.spool.remove_ahead(&place.to_string()) {
            log_line!("what was fetched ahead cannot be removed: {error}");
        }
    }

    /// A recovery that has ended leaves segments behind: they go.
    pub(super) fn look_around(&self) {
        let mut state = self.state.lock();
        state.quiet_rounds += 1;
        if state.quiet_rounds < QUIET_ROUNDS {
            return;
        }
        let there: Vec<SegmentPlace> = state
            .ahead
            .iter()
            .filter(|(_, stage)| matches!(stage, Ahead::There))
            .map(|(place, _)| *place)
            .collect();
        // A standby that waits for the next segment has none ahead.
        for place in there {
            state.ahead.remove(&place);
            self.remove(place);
        }
    }

    /// Begins nothing more, and waits for downloads ahead for as long as `patience`: the next agent removes what was abandoned. A command
    /// that waits for one of them is waited for by itself.
    pub(super) fn end(&self, patience: Duration) {
        let mut state = self.state.lock();
        state.is_ending = true;
        self.changed.notify_all();
        self.shared.transfers.download_rate.lift();
        if self.changed.wait_while_for(&mut state, |state| state.workers > 0, patience).timed_out() {
            log_line!("the agent ends and abandons {} downloads ahead", state.workers);
        }
    }

    pub(super) fn statistics(&self) -> FetchStatistics {
        let state = self.state.lock();
        let count = |wanted: fn(&Ahead) -> bool| state.ahead.values().filter(|stage| wanted(stage)).count();
        FetchStatistics {
            asked_for: state.fetched,
            ahead: state.fetched_ahead,
            in_spool: count(|stage| matches!(stage, Ahead::There)),
            in_flight: count(|stage| matches!(stage, Ahead::Running(_))),
            durations: self.shared.transfers.fetches.read(),
            durations_ahead: self.shared.transfers.fetches_ahead.read(),
        }
    }
}

/// Whether a repository that could not be asked for a file may be the only one that has it. Segments may have been left out of the
/// required ones, with a note that was lost with its machine; other files are in all of them, or PostgreSQL still has them.
fn may_have(handle: &RepositoryHandle, name: LogFileName, error: &ArchiveError) -> bool {
    handle.is_required || !is_of_store(error) || matches!(name, LogFileName::Segment(_))
}

/// Whether other files would fare no better.
fn is_of_store(error: &ArchiveError) -> bool {
    matches!(error, ArchiveError::Store(error) if error.cause != StoreCause::NotFound)
        || error.asks_for_reopening()
}

fn words(handle: &RepositoryHandle, error: &ArchiveError) -> String {
    match handle.is_required {
        true => error.to_string(),
        false => format!(
            "the optional repository {} cannot be asked, and may have what the others lack: {error}; to recover without it, leave it \
             out of the settings",
            handle.location()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use seawall_io::Clock;

    use crate::agent::panicking_clock::PanickingClock;
    use crate::agent::tests::shared;

    fn place(number: u64) -> SegmentPlace {
        match LogFileName::parse(&format!("00000001{number:016X}")) {
            Some(LogFileName::Segment(place)) => place,
            _ => panic!("{number} is no segment"),
        }
    }

    #[test]
    fn the_window_widens_while_segments_are_asked_for_in_order_and_is_one_segment_at_the_end() {
        let mut state = State::default();
        let ask = |state: &mut State, number| {
            let next = state.advance(System::PostgreSql(7), place(number), Some(16 << 20), 32);
            assert_eq!((next, state.expected()), (Some(place(number + 1)), Some(place(number + 1))));
            state.window
        };
        assert_eq!([1, 2, 3, 3, 4].map(|number| ask(&mut state, number)), [8, 16, 32, 32, 32]);
        // Somewhere else: another recovery.
        assert_eq!([9, 10].map(|number| ask(&mut state, number)), [8, 16]);
        // Nothing is there from 13 on, and recovery has not come to that yet.
        state.end = Some(place(13));
        assert_eq!((ask(&mut state, 11), state.end), (32, Some(place(13))));
        for number in 12..15 {
            state.end = Some(place(number + number % 2));
            assert_eq!(ask(&mut state, number), 1, "a standby takes one after the other as they come");
            assert_eq!(state.end, None, "it may be there the next time");
        }
        assert_eq!([15, 16, 17].map(|number| ask(&mut state, number)), [2, 4, 8], "it has fallen behind");
        state.end = Some(place(19));
        assert_eq!((ask(&mut state, 3), state.end), (8, Some(place(19))));
        assert_eq!((ask(&mut state, 30), state.end), (8, None), "elsewhere");
        let mut narrow = State::default();
        assert_eq!(narrow.advance(System::PostgreSql(7), place(1), Some(16 << 20), 3), Some(place(2)));
        assert_eq!(narrow.window, 3);
    }

    #[test]
    fn a_worker_that_panics_is_not_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let clock = Arc::new(PanickingClock::new("fetch"));
        let fetcher = Fetcher::new(shared(directory.path(), Arc::clone(&clock) as Arc<dyn Clock>), 4, 32);
        fetcher.slide(System::PostgreSql(7), place(1), Some(16 << 20));
        seawall_testing::wait_until("the workers to panic", || {
            clock.has_panicked() && fetcher.state.lock().workers == 0
        });
        // Nor by a command that asks for its segment: it fetches that itself.
        assert!(!fetcher.state.lock().ahead.values().any(|stage| matches!(stage, Ahead::Running(_))));
    }
}
