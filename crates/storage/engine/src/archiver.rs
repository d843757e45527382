//! The engine's own archivers, one for each archive: each puts the log into its own, piece by piece, and the tail of it every second.
//!
//! ```text
//!   log      [ 4 ][ 5 ][ 6 ][ 7 . . . . |      durable up to here
//!              up   up   |    tail: . . .|      several pieces at a time; what is durable of the last segment as a small object
//!                    position = end of 5        the log is kept from here on: the permanent hold "archiver NAME"
//! ```
//! Invariants:
//! * Only durable bytes go up, so what is archived is a part of every later log of this timeline.
//! * The hold never stands behind a piece that is not in the archive. After a crash it may stand before some that are: the same
//!   goes up once more, and the archive takes it quietly.
//! * A writer waits for an archive only if it asks for `Durability::Archived`: for those that are required.
//! * Archives know nothing of each other: one that is down or slow keeps no other from what it can.
//! * Uploads end in any order, and nothing lies far behind a piece that is not there (`UPLOADS_AHEAD_MAX`). What counts as archived is
//!   the part from the position on that has no hole.
//!
//! How many uploads there are at a time follows what is waiting: it grows by one with each that succeeds while more wait, and
//! is halved by each that fails.
//!
//! What is on disk if the power goes: the hold's position, in `log/holds`; nothing else. What was going up is there whole or not
//! at all, and goes up again. What happens when the hold is lost is in `gap`, and what is found out before the first upload in `joint`.

mod gap;
mod joint;
mod keeping;
pub(crate) mod log_archive;
pub(crate) mod pieces;
pub(crate) mod uploads;
mod watch;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use seawall_io::Clock;
use seawall_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use seawall_sync::{Mutex, WaitWord};
use seawall_types::{Lsn, TimelineId};
use seawall_wal::{HoldOptions, HoldPosition, SegmentName};

use crate::archiver::log_archive::{ArchiveOptions, LogArchiveError, LogFile};

pub use gap::ArchiveGap;
pub(crate) use keeping::{check_archives, hold_name, hold_options};
pub use watch::ArchiveWatch;

use gap::OpeningGap;
use pieces::{LogPieces, Piece};
use uploads::{Uploaded, Uploads};

/// Uploads at a time, to begin with.
const UPLOADS_AT_FIRST: usize = 2;
/// No upload begins of what lies so many segments or more behind the first that is not in the archive: who finds a part of the
/// log missing that lies nearer to its end knows that it may be on its way.
pub const UPLOADS_AHEAD_MAX: u64 = 64;
/// How long a failed upload waits before it is tried again; it doubles up to the second.
const RETRY_FIRST: Duration = Duration::from_millis(100);
const RETRY_LAST: Duration = Duration::from_secs(10);
/// How often the thread looks around if it is not woken.
const IDLE: Duration = Duration::from_secs(1);
/// Closing looks so often whether uploads have ended.
const CLOSE_ROUND: Duration = Duration::from_millis(100);
/// However short the interval is.
const PAUSE_LEAST: Duration = Duration::from_millis(5);

fn ahead_max() -> usize {
    usize::try_from(UPLOADS_AHEAD_MAX).expect("a small number")
}

/// What has been archived, in numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArchiveStatistics {
    /// The archive, as the options name it.
    pub name: String,
    /// Whether `Durability::Archived` waits for it.
    pub is_required: bool,
    /// The archive has the log up to here.
    pub archived: Lsn,
    /// Durable log that it does not have.
    pub lag_bytes: u64,
    /// Full segments that wait, those going up included.
    pub segments_waiting: u64,
    /// Uploads under way.
    pub uploads: u64,
    /// Segments archived since the database was opened, with those that were there already.
    pub segments: u64,
    /// Tails archived.
    pub tails: u64,
    /// Bytes of log files archived, before compression.
    pub bytes: u64,
    /// When an upload last succeeded, in microseconds since 1970.
    pub last_success_micros: Option<i64>,
    /// Uploads that failed, and were or will be tried again.
    pub failures: u64,
    /// Why what was tried is not archived, of several files the oldest: until it is, whatever else succeeds.
    pub failing: Option<String>,
    /// Gaps that were opened since the database was opened, and are on record in the archive.
    pub gaps: u64,
    /// The last one, on record or not.
    pub last_gap: Option<ArchiveGap>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Archiver {
    name: String,
    is_required: bool,
    uploads: Arc<Uploads>,
    uploads_max: usize,
    tail_interval: Option<Duration>,
    close_patience: Duration,
    pieces: LogPieces,
    /// What the log is kept with.
    hold_options: HoldOptions,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
    archived: AtomicU64,
    became_archived: Arc<WaitWord>,
    /// When the log is durable up to here, there is another piece.
    next_piece: AtomicU64,
    /// A commit waits for the archive to have the log up to here.
    wanted: AtomicU64,
    /// Held while one who opens a gap goes on with it.
    opening: Mutex<Option<OpeningGap>>,
    /// Changes when a gap is on record, and when the database is closed.
    news: WaitWord,
    is_closing: AtomicBool,
}

#[derive(Debug)]
struct State {
    /// `None` if it is lost, and a gap is being opened.
    hold: Option<Arc<HoldPosition>>,
    /// It is known that what goes up from the position on follows on what the archive has: `joint`.
    is_joined: bool,
    /// Gaps of this process; the last one may not be on record yet.
    gaps: Vec<ArchiveGap>,
    /// Histories that the archive may not have.
    histories: Vec<TimelineId>,
    /// Pieces known to be durable, oldest first, from `position` on.
    waiting: VecDeque<Waiting>,
    /// Where the last of them ends.
    planned: Lsn,
    /// The archive has the pieces up to here.
    position: Lsn,
    tail: Tail,
    in_flight: BTreeSet<LogFile>,
    uploads_wanted: usize,
    retry: Duration,
    /// Nothing is started before.
    not_before: Duration,
    /// Why what was tried and is not archived failed. Tails by where they begin: they grow until the next try.
    failed: BTreeMap<LogFile, String>,
    /// The file that failed last. Another file goes first, so that a failing file cannot block the only upload slot.
    failed_last: Option<LogFile>,
    /// Why a gap is not on record.
    gap_failing: Option<String>,
    counts: ArchiveStatistics,
}

#[derive(Debug)]
struct Waiting {
    piece: Piece,
    is_archived: bool,
}

/// What the archive has of the segment that is being written.
#[derive(Debug, Default)]
struct Tail {
    segment: Option<SegmentName>,
    /// Its first bytes, this many.
    bytes: u64,
    started: Option<Duration>,
}

/// The archivers of a database, one for each archive; none before they are made.
#[derive(Debug, Default)]
pub(crate) struct Archivers(OnceLock<Vec<Arc<Archiver>>>);

impl Archivers {
    pub(crate) fn all(&self) -> &[Arc<Archiver>] {
        self.0.get().map_or(&[], Vec::as_slice)
    }

    fn make(&self, archivers: Vec<Arc<Archiver>>) {
        assert!(self.0.set(archivers).is_ok(), "archivers are made once");
    }
}

impl State {
    /// Whether a file that is going up is to go up still.
    fn wants(&self, file: LogFile) -> bool {
        let is_waiting = || self.waiting.iter().any(|waiting| waiting.piece.file == file);
        match file {
            LogFile::History(_) => true,
            LogFile::Segment(_) => is_waiting(),
            LogFile::Tail { segment, .. } => self.tail.segment == Some(segment) || is_waiting(),
        }
    }

    /// Whether the log is kept from the position on.
    fn is_held(&self) -> bool {
        self.hold.as_ref().is_some_and(|hold| !hold.is_over())
    }

    /// Why what was tried is not archived: of several files, the oldest.
    fn failing(&self) -> Option<&String> {
        self.gap_failing.as_ref().or_else(|| self.failed.values().next())
    }

    fn forget_failures(&mut self, archived: LogFile) {
        self.failed.retain(|file, _| !is_part(*file, archived));
    }
}

/// Whether what failed is a file, or a tail of it.
fn is_part(failed: LogFile, file: LogFile) -> bool {
    match (failed, file) {
        (LogFile::Tail { segment, .. }, LogFile::Segment(whole)) => segment == whole,
        _ => failed == begin_of(file),
    }
}

/// The file, but for how far a tail goes.
fn begin_of(file: LogFile) -> LogFile {
    match file {
        LogFile::Tail { segment, from, .. } => LogFile::Tail { segment, from, to: from },
        LogFile::History(_) | LogFile::Segment(_) => file,
    }
}

impl Archiver {
    /// An archiver for a log that is archived up to `position`, and that `hold` keeps from there on.
    fn new(
        options: &ArchiveOptions,
        uploads: Uploads,
        pieces: LogPieces,
        (position, hold): (Lsn, Option<Arc<HoldPosition>>),
        clock: Arc<dyn Clock>,
    ) -> Archiver {
        let position = pieces.geometry.normalise(position);
        Archiver {
            hold_options: keeping::hold_options(options),
            name: options.name.clone(),
            is_required: options.is_required,
            uploads: Arc::new(uploads),
            uploads_max: options.uploads_max.max(1),
            tail_interval: options.tail_interval,
            // Nobody waits for one that is not required.
            close_patience: if options.is_required { options.close_patience } else { Duration::ZERO },
            clock,
            state: Mutex::new(State {
                hold,
                is_joined: false,
                gaps: Vec::new(),
                histories: pieces.timelines_with_history(),
                waiting: VecDeque::new(),
                planned: position,
                position,
                tail: Tail::default(),
                in_flight: BTreeSet::new(),
                uploads_wanted: UPLOADS_AT_FIRST.min(options.uploads_max.max(1)),
                retry: RETRY_FIRST,
                not_before: Duration::ZERO,
                failed: BTreeMap::new(),
                failed_last: None,
                gap_failing: None,
                counts: ArchiveStatistics::default(),
            }),
            pieces,
            archived: AtomicU64::new(position.get()),
            became_archived: Arc::default(),
            next_piece: AtomicU64::new(0),
            wanted: AtomicU64::new(0),
            opening: Mutex::default(),
            news: WaitWord::new(),
            is_closing: AtomicBool::new(false),
        }
    }

    /// What to start now, and the hold that keeps it. Looks at what has ended first.
    fn next_uploads(&self, flushed: Lsn, now: Duration) -> Option<(Arc<HoldPosition>, Vec<LogFile>)> {
        let mut state = self.state.lock();
        self.take_ended(&mut state, now);
        let hold = state.hold.clone()?;
        self.plan(&mut state, flushed);
        self.publish(&state);
        let mut files = Vec::new();
        if now < state.not_before || !state.is_joined {
            return None;
        }
        // Tails are small, and somebody may wait for one: they have a place of their own.
        files.extend(self.next_tail(&mut state, flushed, now));
        let is_tail = |file: &&LogFile| matches!(file, LogFile::Tail { from, .. } if *from > 0);
        let busy = state.in_flight.iter().filter(|file| !is_tail(file)).count();
        let room = state.uploads_wanted.saturating_sub(busy);
        let histories = state.histories.iter().map(|timeline| LogFile::History(*timeline));
        // A piece goes up only when the histories are there: whoever finds it finds its ancestors.
        let near = state.waiting.iter().take(ahead_max());
        let waiting = near.filter(|waiting| !waiting.is_archived);
        let pieces = waiting.map(|waiting| waiting.piece.file).filter(|_| state.histories.is_empty());
        let (last, first): (Vec<_>, Vec<_>) = pieces.partition(|file| state.failed_last == Some(*file));
        let new = histories.chain(first).chain(last).filter(|file| !state.in_flight.contains(file));
        files.extend(new.take(room).collect::<Vec<_>>());
        state.in_flight.extend(files.iter().copied());
        if !files.is_empty() {
            state.failed_last = None;
        }
        (!files.is_empty()).then_some((hold, files))
    }

    fn take_ended(&self, state: &mut State, now: Duration) {
        for (file, result) in self.uploads.take_ended() {
            state.in_flight.remove(&file);
            self.ended(state, file, result, now);
        }
    }

    /// Waits until nothing is under way; `false` if an upload fails, or it takes too long.
    fn settle(&self) -> bool {
        // Rounds and not a deadline: a clock may stand still.
        let rounds = self.close_patience.as_millis() / CLOSE_ROUND.as_millis();
        for _ in 0..=rounds {
            let seen = self.uploads.work.read();
            {
                let mut state = self.state.lock();
                self.take_ended(&mut state, self.clock.monotonic());
                self.publish(&state);
                let has_failed = !state.failed.is_empty() || state.gap_failing.is_some();
                let is_idle = state.in_flight.is_empty() && !self.uploads.is_asking();
                if is_idle || has_failed {
                    return is_idle && !has_failed;
                }
            }
            if rounds > 0 {
                self.uploads.work.wait(seen, Some(CLOSE_ROUND));
            }
        }
        false
    }

    fn plan(&self, state: &mut State, flushed: Lsn) {
        while let Some(piece) = self.pieces.next(state.planned, flushed) {
            state.planned = piece.end;
            state.waiting.push_back(Waiting { piece, is_archived: false });
        }
        let border = self.pieces.geometry.segment_of(flushed) + 1;
        self.next_piece.store(self.pieces.geometry.first_record_of(border).get(), Ordering::SeqCst);
    }

    /// The new bytes of the segment that is being written, if it is time for them.
    fn next_tail(&self, state: &mut State, flushed: Lsn, now: Duration) -> Option<LogFile> {
        let (segment, _) = self.pieces.current(flushed);
        if state.tail.segment != Some(segment) {
            state.tail = Tail { segment: Some(segment), started: state.tail.started, bytes: 0 };
        }
        let to = self.pieces.durable_bytes(flushed).filter(|to| *to > state.tail.bytes)?;
        let is_wanted = self.wanted.load(Ordering::SeqCst) > self.archived.load(Ordering::SeqCst);
        let since = |started| now.saturating_sub(started);
        let is_over = |interval| state.tail.started.is_none_or(|started| since(started) >= interval);
        let is_due = self.tail_interval.is_some_and(is_over);
        let is_of_it =
            |file: &LogFile| matches!(file, LogFile::Tail { segment: other, .. } if *other == segment);
        let is_under_way = state.in_flight.iter().any(is_of_it);
        // Of no use before everything that lies before it is there.
        let is_near = state.waiting.len() <= ahead_max();
        if is_under_way || !(is_wanted || is_due) || !is_near || !state.histories.is_empty() {
            return None;
        }
        state.tail.started = Some(now);
        Some(LogFile::Tail { segment, from: state.tail.bytes, to })
    }

    fn ended(&self, state: &mut State, file: LogFile, result: Uploaded, now: Duration) {
        let bytes = match result {
            Ok(bytes) => bytes,
            // It was left out meanwhile, or will be: the hold that kept it is over.
            Err(error) if !state.wants(file) || error == LogArchiveError::not_kept() => return,
            Err(LogArchiveError(problem)) => {
                tracing::warn!(
                    archive = self.name,
                    ?file,
                    problem,
                    "the log is not archived; it is kept, and this will be tried again"
                );
                state.counts.failures += 1;
                state.failed_last = Some(file);
                state.failed.insert(begin_of(file), problem);
                state.uploads_wanted = (state.uploads_wanted / 2).max(1);
                state.not_before = now + state.retry;
                state.retry = (state.retry * 2).min(RETRY_LAST);
                return;
            }
        };
        state.retry = RETRY_FIRST;
        state.forget_failures(file);
        state.counts.bytes += bytes;
        state.counts.last_success_micros = Some(self.clock.wall_micros());
        match file {
            LogFile::History(timeline) => state.histories.retain(|left| *left != timeline),
            LogFile::Segment(_) => state.counts.segments += 1,
            LogFile::Tail { segment, to, .. } => {
                state.counts.tails += 1;
                if state.tail.segment == Some(segment) {
                    state.tail.bytes = state.tail.bytes.max(to);
                }
            }
        }
        for waiting in state.waiting.iter_mut().filter(|waiting| waiting.piece.file == file) {
            waiting.is_archived = true;
        }
        while let Some(first) = state.waiting.front().filter(|first| first.is_archived) {
            state.position = first.piece.end;
            state.waiting.pop_front();
        }
        if state.waiting.len() > state.in_flight.len() {
            state.uploads_wanted = (state.uploads_wanted + 1).min(self.uploads_max);
        }
    }

    /// Tells everybody how far the archive is.
    fn publish(&self, state: &State) {
        if let Some(hold) = &state.hold {
            hold.advance(state.position);
        }
        let archived = self.archived_by(state);
        if self.archived.fetch_max(archived.get(), Ordering::SeqCst) < archived.get() {
            self.became_archived.wake_all();
        }
    }

    fn archived_by(&self, state: &State) -> Lsn {
        let Some(segment) = state.tail.segment.filter(|_| state.tail.bytes > 0) else {
            return state.position;
        };
        let end = Lsn::new(segment.number * self.pieces.geometry.segment_bytes() + state.tail.bytes);
        let (_, start) = self.pieces.current(end);
        if state.position >= start { state.position.max(end) } else { state.position }
    }

    /// Time until there may be something to do, if no other thread says so.
    fn pause(&self, now: Duration) -> Duration {
        let state = self.state.lock();
        let Some(interval) = self.tail_interval else { return IDLE };
        let until = |moment: Duration| moment.saturating_sub(now);
        let due = state.tail.started.map_or(interval, |started| until(started + interval));
        // One that was due and was not started has nothing new in it, or waits for the one before.
        let due = if due.is_zero() { interval } else { due };
        due.max(until(state.not_before)).clamp(PAUSE_LEAST, IDLE)
    }

    /// The archive has the log up to here.
    pub(crate) fn archived(&self) -> Lsn {
        Lsn::new(self.archived.load(Ordering::SeqCst))
    }

    /// The log is durable up to `flushed`. Called after each flush.
    pub(crate) fn flushed(&self, flushed: Lsn) {
        if flushed.get() >= self.next_piece.load(Ordering::SeqCst) {
            self.uploads.work.wake_all();
        }
    }

    /// Wakes the thread.
    pub(crate) fn look(&self) {
        self.uploads.work.wake_all();
    }

    /// Wakes the thread, and those who wait for the archive: the database is being closed.
    pub(crate) fn end(&self) {
        self.is_closing.store(true, Ordering::SeqCst);
        self.news.wake_all();
        self.uploads.work.wake_all();
        self.became_archived.wake_all();
    }

    pub(crate) fn statistics(&self, flushed: Lsn) -> ArchiveStatistics {
        let state = self.state.lock();
        let is_segment = |waiting: &&Waiting| matches!(waiting.piece.file, LogFile::Segment(_));
        let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        ArchiveStatistics {
            name: self.name.clone(),
            is_required: self.is_required,
            archived: self.archived(),
            lag_bytes: flushed.bytes_since(self.archived()),
            segments_waiting: count(state.waiting.iter().filter(is_segment).count()),
            uploads: count(state.in_flight.len()),
            failing: state.failing().cloned(),
            last_gap: state.gaps.last().cloned(),
            ..state.counts.clone()
        }
    }
}
