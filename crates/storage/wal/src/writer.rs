//! Appends to the log, and waits for durability.
//!
//! Start at [`Log::append`]. `appender` gives out places, `flush` makes batches durable, `mirror` copies them for `Async` commits.
//!
//! Lock order: flusher, then appender. The preparation of segments has a mutex of its own (`segment_set`), which is
//! taken with neither of them held. What is atomic is written under the mutex named and read without.

mod appender;
mod batch;
mod buffers;
mod flush;
mod handed_over;
mod holds;
mod mirror;

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use seawall_io::{Clock, Disk};
use seawall_keys::Cipher;
use seawall_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use seawall_sync::thread::{self, JoinHandle};
use seawall_sync::{Mutex, WaitWord};
use seawall_types::{Lsn, TimelineId};

use crate::error::{LogError, LogStreamError};
use crate::geometry::LogGeometry;
use crate::holds::Holds;
use crate::metrics::{Counters, LogStatistics};
use crate::observer::LogObserver;
use crate::open::StartState;
use crate::options::{FlushBy, LogOptions};
use crate::pending;
use crate::reader::LogEnd;
use crate::recent::RecentLog;
use crate::record::{PreparedRecord, RecordSpan};
use crate::segment_set::{NewBlocks, SegmentInfo, SegmentSet};
use crate::stream::{LogStream, StreamedLog};
use crate::timeline::TimelineHistory;

pub(crate) use appender::buffer_capacity;
use appender::{Appender, Room};
pub(crate) use buffers::LogBuffers;
use flush::{FlusherState, InFlight};
pub(crate) use handed_over::HandedOver;
use mirror::Mirror;

/// The log of one database: its state and all that can be done with it. An [`OpenLog`] owns it.
pub struct Log {
    pub(crate) geometry: LogGeometry,
    pub(crate) segments: SegmentSet,
    pub(crate) counters: Counters,
    pub(crate) holds: Holds,
    history: TimelineHistory,
    /// The newest bytes, while somebody streams them.
    recent: RecentLog,
    /// Where recovery starts, as far as the log was told.
    redo_point: AtomicU64,
    timeline: TimelineId,
    record_bytes_max: u64,
    buffer_capacity: usize,
    flush_by: FlushBy,
    clock: Option<Arc<dyn Clock>>,
    cipher: Option<Cipher>,
    appender: Mutex<Appender>,
    /// The thread that holds this mutex is the flusher.
    flusher: Mutex<FlusherState>,
    /// End of the last record. Written under `appender`.
    appended: AtomicU64,
    /// Everything before is durable. Written under `flusher`.
    flushed: AtomicU64,
    mirror: Mirror,
    /// The last batch that was started: which LSNs it ends at, and the parity of its number. Written under `appender`.
    in_flight: InFlight,
    /// The highest LSN that a thread wants flushed.
    wanted: AtomicU64,
    /// Threads that wait for a batch sleep on the word of its parity: one call wakes exactly those of one batch.
    durable: [WaitWord; 2],
    /// Threads that wait for room in the buffer.
    room: WaitWord,
    /// The flusher thread.
    work: WaitWord,
    stop: AtomicBool,
    poison: OnceLock<String>,
    observer: Option<Arc<dyn LogObserver>>,
}

/// A log that is open for writing, with the thread that flushes it if the options ask for one. Dropping it ends the thread and
/// flushes nothing: what must be durable was waited for.
#[derive(Debug)]
pub struct OpenLog {
    log: Arc<Log>,
    flusher_thread: Option<JoinHandle<()>>,
}

impl Deref for OpenLog {
    type Target = Log;

    fn deref(&self) -> &Log {
        &self.log
    }
}

impl Drop for OpenLog {
    fn drop(&mut self) {
        self.log.stop.store(true, Ordering::SeqCst);
        self.log.work.wake_all();
        if let Some(thread) = self.flusher_thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the log's flusher thread panicked");
        }
    }
}

impl std::fmt::Debug for Log {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Log")
            .field("timeline", &self.timeline())
            .field("appended", &self.appended())
            .field("flushed", &self.flushed())
            .finish_non_exhaustive()
    }
}

impl Log {
    /// Creates the log of a new database: the directory and the first segment. The first record will start at
    /// [`LogGeometry::first_lsn`]. Spares are the business of [`Log::prepare_ahead`].
    ///
    /// # Errors
    /// `AlreadyExists` if there are segments of this timeline that hold anything; `NoSpace`, `Io`.
    pub fn create(disk: Arc<dyn Disk>, options: LogOptions) -> Result<OpenLog, LogError> {
        let first = options.check()?.geometry.first_lsn();
        Log::create_at(disk, options, first)
    }

    /// Creates the first segment of a new timeline, which starts at `start`: the log before it is on other timelines. Whatever
    /// the size of segments, that takes a rename and two syncs, if there is a spare that the log before has not begun.
    ///
    /// # Errors
    /// As [`Log::create`], and `Options` if no record can start at `start`.
    pub fn create_at(disk: Arc<dyn Disk>, options: LogOptions, start: Lsn) -> Result<OpenLog, LogError> {
        Log::create_with(disk, &options, start, HandedOver::default())
    }

    /// As `create_at`, with what a log of this process that has ended hands over.
    pub(crate) fn create_with(
        disk: Arc<dyn Disk>,
        options: &LogOptions,
        start: Lsn,
        handed_over: HandedOver,
    ) -> Result<OpenLog, LogError> {
        let state = crate::open::create(disk, options, start)?;
        let holds = handed_over.holds.map_or_else(|| open_holds(options, &state.segments, state.end), Ok)?;
        Log::start(options, state, holds, handed_over.buffers)
    }

    /// Opens the log for writing where recovery found that it ends. Whatever lies behind the end and could be taken for
    /// a record once the log has grown to it is zeroed first, durably; a crash in the middle leaves the same end. Records
    /// that only the pending files hold are given up with it: recovery reads with [`crate::PendingUse::Rescue`].
    ///
    /// # Errors
    /// `Header` if the segment is not one of this log; `NoSpace`, `Io`. The log can be opened again.
    pub fn open(disk: Arc<dyn Disk>, options: LogOptions, end: LogEnd) -> Result<OpenLog, LogError> {
        let state = crate::open::open(disk, &options, end)?;
        let holds = open_holds(&options, &state.segments, state.end)?;
        Log::start(&options, state, holds, None)
    }

    fn start(
        options: &LogOptions,
        state: StartState,
        holds: Holds,
        buffers: Option<LogBuffers>,
    ) -> Result<OpenLog, LogError> {
        let capacity = buffer_capacity(options.buffer_bytes);
        let StartState { identity, segments, end, carry, counters, clearing } = state;
        let mappings = pending::prepare(&*segments.disk, &identity, capacity, clearing)?;
        let mirror = Mirror::new(identity.geometry, identity.key(), mappings);
        let buffers = buffers.filter(|buffers| buffers.first.capacity() >= capacity);
        let LogBuffers { first, second } = buffers.unwrap_or_else(|| LogBuffers::new(options.buffer_bytes));
        let appender = Appender::new(identity.geometry, identity.key(), end, &carry, first);
        mirror.begin(appender.batch());
        let log = Arc::new(Log {
            geometry: identity.geometry,
            segments,
            counters,
            holds,
            history: options.history(),
            recent: RecentLog::new(options.recent_bytes),
            redo_point: AtomicU64::new(0),
            timeline: identity.timeline.id,
            record_bytes_max: options.record_bytes_max,
            buffer_capacity: capacity,
            flush_by: options.flush_by,
            clock: options.clock.clone(),
            cipher: options.cipher.clone(),
            appender: Mutex::new(appender),
            flusher: Mutex::new(FlusherState::new(second)),
            appended: AtomicU64::new(end.get()),
            flushed: AtomicU64::new(end.get()),
            mirror,
            in_flight: InFlight::new(end),
            wanted: AtomicU64::new(0),
            durable: [WaitWord::new(), WaitWord::new()],
            room: WaitWord::new(),
            work: WaitWord::new(),
            stop: AtomicBool::new(false),
            poison: OnceLock::new(),
            observer: options.observer.clone(),
        });
        let flusher_thread = match options.flush_by {
            FlushBy::Caller => None,
            FlushBy::Thread => {
                let log = Arc::clone(&log);
                let builder = thread::Builder::new().name("seawall-log-flusher".to_owned());
                let thread = builder.spawn(move || log.run_flusher());
                Some(thread.map_err(|source| LogError::io("start the flusher thread of", "log", source))?)
            }
        };
        Ok(OpenLog { log, flusher_thread })
    }

    /// Gives `record` the next place in the log; it is durable once `flush_until(span.end)` has returned. A record of more
    /// than 64 KiB, or of a quarter of a buffer if that is less, is moved into the log, and nothing is left of it; a shorter
    /// one is copied. `in_order` runs under the append mutex, so its calls come in the order of
    /// the log; it must be short and make no system call. If it refuses, the record is not appended, the place goes to
    /// the next one, and the refusal comes back as the inner result.
    ///
    /// In an encrypted database, the record is encrypted first, and belongs to this log only.
    ///
    /// Waits while the buffer is full, and prepares the next segment if it was not prepared ahead.
    ///
    /// # Errors
    /// `Poisoned`; `Parked`; `RecordTooLarge`; `NoSpace` or `Io` if the next segment cannot be prepared: nothing was appended and
    /// the same record can be appended later.
    pub fn append<R, E>(
        &self,
        record: &mut PreparedRecord,
        in_order: impl FnOnce(RecordSpan) -> Result<R, E>,
    ) -> Result<Result<(RecordSpan, R), E>, LogError> {
        assert!(
            record.record_bytes() >= crate::record::RECORD_HEADER_BYTES,
            "a record is finished before it is appended"
        );
        // Here, so that nobody can forget it, and before the mutex.
        if let Some(cipher) = &self.cipher {
            record.encrypt(cipher);
        }
        let bytes = record.record_bytes();
        if bytes as u64 > self.record_bytes_max {
            return Err(LogError::RecordTooLarge { bytes: bytes as u64, limit: self.record_bytes_max });
        }
        loop {
            let room_seen = self.room.read();
            let mut appender = self.appender.lock();
            self.check_poison()?;
            if appender.closed {
                return Err(LogError::Closed);
            }
            if appender.parked {
                return Err(LogError::Parked);
            }
            match appender.room_for(bytes) {
                Room::Here(span) => {
                    // The next record's segment, too: a log that fills its segment to the last byte ends in the next
                    // one, which must then hold nothing that could be taken for a record.
                    let segment = self.geometry.segment_of(span.end);
                    if segment >= self.segments.prepared_until() {
                        drop(appender);
                        self.prepare_through(segment)?;
                        continue;
                    }
                    let answer = match in_order(span) {
                        Ok(answer) => answer,
                        Err(refusal) => return Ok(Err(refusal)),
                    };
                    appender.place(record, span);
                    self.appended.store(span.end.get(), Ordering::SeqCst);
                    let pending = appender.pending_bytes();
                    drop(appender);
                    self.after_append(span, bytes, pending);
                    return Ok(Ok((span, answer)));
                }
                Room::Full => {
                    let end = appender.next();
                    drop(appender);
                    self.wait_for_room(end, room_seen);
                }
            }
        }
    }

    /// Runs `in_order` in the place between two records, with the LSN of the next one: everything appended before is
    /// before it, everything after it after. Needs no room in the log.
    ///
    /// # Errors
    /// `Closed`, `Poisoned`.
    pub fn in_order<R>(&self, in_order: impl FnOnce(Lsn) -> R) -> Result<R, LogError> {
        let appender = self.appender.lock();
        self.check_poison()?;
        if appender.closed {
            return Err(LogError::Closed);
        }
        Ok(in_order(self.appended()))
    }

    /// Takes no records until [`Log::unpark`]: `append` refuses with `Parked`. Where the log ends.
    ///
    /// # Errors
    /// `Closed`, `Poisoned`.
    pub fn park(&self) -> Result<Lsn, LogError> {
        let mut appender = self.appender.lock();
        self.check_poison()?;
        if appender.closed {
            return Err(LogError::Closed);
        }
        appender.parked = true;
        Ok(self.appended())
    }

    /// Takes records again.
    pub fn unpark(&self) {
        self.appender.lock().parked = false;
    }

    /// Takes no more records, and makes those it has durable. When it returns, no thread writes to the log any more.
    ///
    /// # Errors
    /// As `flush_until`.
    pub fn close(&self) -> Result<(), LogError> {
        self.appender.lock().closed = true;
        self.segments.close();
        self.holds.close();
        self.flush_until(self.appended())?;
        self.recent.has_changed();
        Ok(())
    }

    /// The end of the last record.
    pub fn appended(&self) -> Lsn {
        Lsn::new(self.appended.load(Ordering::SeqCst))
    }

    /// Everything before is durable.
    pub fn flushed(&self) -> Lsn {
        Lsn::new(self.flushed.load(Ordering::SeqCst))
    }

    /// The timeline that is written on.
    pub fn timeline(&self) -> TimelineId {
        self.timeline
    }

    /// Segment size and what follows from it.
    pub fn geometry(&self) -> LogGeometry {
        self.geometry
    }

    /// Why the log takes no more writes, if so.
    pub fn poison_cause(&self) -> Option<&str> {
        self.poison.get().map(String::as_str)
    }

    /// Prepares segments until as many spares are ready as the options want. For a background thread.
    ///
    /// # Errors
    /// `NoSpace`, `Io`: nothing is lost, try again later. `Poisoned` if a sync of the directory failed.
    pub fn prepare_ahead(&self) -> Result<(), LogError> {
        self.check_poison()?;
        let outcome = self.segments.prepare_ahead(self.appended(), || NewBlocks::Written, &self.counters);
        self.poison_if_fatal(outcome)
    }

    /// The first LSN of the oldest segment from which on none is missing.
    pub fn oldest_retained(&self) -> Lsn {
        self.segments.oldest_retained(self.geometry.segment_of(self.flushed()))
    }

    /// The segments on disk, oldest first.
    pub fn segments(&self) -> Vec<SegmentInfo> {
        self.segments.list(self.geometry.segment_of(self.appended()))
    }

    /// What the log has done since it was opened.
    pub fn statistics(&self) -> LogStatistics {
        let (records, record_bytes) = {
            let appender = self.appender.lock();
            (appender.records, appender.record_bytes)
        };
        self.counters.snapshot(records, record_bytes, self.holds.lost_count())
    }

    /// How many threads wait until the log is durable.
    pub fn waiting_count(&self) -> u64 {
        self.durable.iter().map(|word| u64::from(word.sleepers())).sum()
    }
}

impl Log {
    pub(crate) fn redo_point(&self) -> Lsn {
        Lsn::new(self.redo_point.load(Ordering::SeqCst))
    }

    /// Whether it was before.
    pub(crate) fn move_redo_point(&self, to: Lsn) -> bool {
        self.redo_point.fetch_max(to.get(), Ordering::SeqCst) < to.get()
    }

    /// Things that can be done without the append mutex.
    fn after_append(&self, span: RecordSpan, bytes: usize, pending: usize) {
        let half = self.buffer_capacity / 2;
        // Once a batch: the log's thread starts before appenders have to wait for room.
        if self.flush_by == FlushBy::Thread && pending >= half && pending - bytes.min(pending) < half {
            self.request_flush(span.end);
        }
        let segment = self.geometry.segment_of(span.end);
        if segment != self.geometry.segment_of(span.start)
            && self.segments.spares_are_low(segment)
            && let Some(observer) = &self.observer
        {
            observer.spares_low();
        }
    }

    fn wait_for_room(&self, end: Lsn, room_seen: u32) {
        self.counters.buffer_waits.add(1);
        match self.flush_by {
            FlushBy::Thread => {
                self.request_flush(end);
                self.room.wait(room_seen, None);
            }
            // A failure shows in the next round of `append`.
            FlushBy::Caller => self.flush_until(end).unwrap_or(()),
        }
    }

    fn prepare_through(&self, segment: u64) -> Result<(), LogError> {
        self.counters.segment_waits.add(1);
        let outcome = self.segments.prepare_through(segment, NewBlocks::Written, &self.counters);
        self.poison_if_fatal(outcome)
    }

    pub(crate) fn check_poison(&self) -> Result<(), LogError> {
        match self.poison.get() {
            None => Ok(()),
            Some(cause) => Err(LogError::Poisoned { cause: cause.clone() }),
        }
    }

    /// What a failed sync of the directory leaves on disk is unknown, like that of a file.
    pub(crate) fn poison_if_fatal<T>(&self, outcome: Result<T, LogError>) -> Result<T, LogError> {
        if let Err(LogError::Poisoned { cause }) = &outcome {
            self.poison(cause.clone());
        }
        outcome
    }

    /// From now on nothing is written, and no thread waits.
    fn poison(&self, cause: String) {
        tracing::error!(%cause, "the log takes no more writes");
        // Only the first cause counts.
        self.poison.get_or_init(|| cause);
        self.durable.iter().for_each(WaitWord::wake_all);
        self.room.wake_all();
        self.work.wake_all();
        self.recent.has_changed();
        if let Some(observer) = &self.observer {
            observer.poisoned();
        }
    }
}

impl OpenLog {
    /// Opens a stream of the log's bytes from `from` on.
    ///
    /// # Errors
    /// `NotRetained` if the log is not kept from there on any more; `NotReached` if it does not go so far.
    pub fn stream(&self, from: Lsn) -> Result<LogStream, LogStreamError> {
        LogStream::open(Arc::clone(&self.log) as Arc<dyn StreamedLog>, from)
    }
}

impl StreamedLog for Log {
    fn flushed(&self) -> Lsn {
        Log::flushed(self)
    }

    fn oldest_retained(&self) -> Lsn {
        Log::oldest_retained(self)
    }

    fn segment_set(&self) -> &SegmentSet {
        &self.segments
    }

    fn history(&self) -> &TimelineHistory {
        &self.history
    }

    fn recent(&self) -> &RecentLog {
        &self.recent
    }

    fn check_growing(&self) -> Result<(), LogError> {
        self.check_poison()?;
        let is_closed = self.appender.lock().closed;
        if is_closed && self.flushed() == self.appended() { Err(LogError::Closed) } else { Ok(()) }
    }
}

fn open_holds(options: &LogOptions, segments: &SegmentSet, end: Lsn) -> Result<Holds, LogError> {
    let geometry = segments.identity.geometry;
    let oldest = segments.oldest_retained(geometry.segment_of(end));
    let holds = Holds::open(Arc::clone(&segments.disk), options.database, geometry, oldest, end);
    let holds = holds.map_err(|source| LogError::Holds { source })?;
    if options.keep_bytes > 0 {
        holds.keep_newest(options.keep_bytes, end);
    }
    Ok(holds)
}
