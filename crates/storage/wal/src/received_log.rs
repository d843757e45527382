//! The log of a standby, received from another server.
//!
//! ```text
//!   bytes --verified--> written to the segment files --sync--> durable --> may be applied, and streamed on
//!                                    |                            |             mark (`received`), every 16 MiB
//!                                 whole records      >=       flushed LSN    >=   |
//! ```
//! Bytes come as [`LogStream`] sends them: each has its place, and the files become those of the primary, byte for byte. Header pages
//! are compared and not copied: this server makes its own, which are the same, in the order that a log needs (`segment_set`).
//!
//! Invariants:
//! * Nothing is written that is not a record of this timeline, but for the beginning of one whose end has not come yet.
//! * `flushed` is the end of a whole record, and never runs backwards.
//! * A failed write or sync is never tried again: the log receives nothing more until it is opened anew.
//!
//! **If the power goes**, the log ends at the first record that does not verify, at the mark or behind it, wherever the syncs were
//! (`received`). What is left behind that end is not zeroed, as a log that is written must do: it will be received once more, and the
//! bytes are the same, for only durable bytes are streamed. Files that lie wholly beyond the end are made ready anew.
//!
//! **Promotion** begins a new timeline where the last whole record ends: [`ReceivedLog::close`], then [`crate::begin_timeline`] with its
//! answer. The received timeline counts up to there, and is never written on here.

use std::ops::ControlFlow;
use std::sync::{Arc, OnceLock};

use seawall_io::{Disk, DiskFile, OpenMode};
use seawall_sync::Mutex;
use seawall_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use seawall_types::{Lsn, TimelineId};

use crate::error::{LogError, LogStreamError, ReceiveError};
use crate::geometry::{HEADER_BYTES, LogGeometry};
use crate::holds::{HoldError, HoldInfo, HoldOptions, HoldPosition, Holds};
use crate::metrics::Counters;
use crate::observer::LogObserver;
use crate::open::{ReceivedFiles, open_received};
use crate::options::LogOptions;
use crate::pending::{self, Clearing};
use crate::reader::{EndReason, LogEnd};
use crate::received::ReceivedMark;
use crate::recent::RecentLog;
use crate::record_walk::{RecordWalk, WalkError};
use crate::retention::{Cleaning, Recycling, RetentionReport, all_batches};
use crate::sabotage::{Defect, sabotaged};
use crate::segment::{LogIdentity, SegmentUse, encode_header};
use crate::segment_set::{NewBlocks, SegmentSet};
use crate::stream::{LogStream, StreamedLog};
use crate::switch;
use crate::timeline::TimelineHistory;
use crate::writer::{HandedOver, LogBuffers, OpenLog, buffer_capacity};

/// How far the mark may lag the durable log before a sync moves it.
const MARK_LAG_BYTES: u64 = 16 << 20;
/// Log comes in bulk while a sync is of so many bytes or more, in the mean of what went to a segment: to write a segment twice would cost more
/// than the metadata of its syncs. Not under a load that a standby follows: its spares may become a primary's log.
const BULK_BYTES_PER_SYNC: u64 = 2 << 20;
/// So much that was written is handed to the device, so that the next sync finds less to do.
const STARTED_BYTES: u64 = 1 << 20;

/// See the module.
pub struct ReceivedLog {
    segments: SegmentSet,
    counters: Counters,
    holds: Holds,
    /// For the log that a promotion begins.
    buffers: Mutex<Option<LogBuffers>>,
    history: TimelineHistory,
    recent: RecentLog,
    /// Where recovery starts, as far as the log was told.
    redo_point: AtomicU64,
    /// Everything before is durable. Written under `receiving`.
    flushed: AtomicU64,
    /// Whether log comes in bulk: see `BULK_BYTES_PER_SYNC`. Written under `receiving`.
    is_bulk: AtomicBool,
    /// Held across disk calls by the one who receives.
    receiving: Mutex<Receiving>,
    poison: OnceLock<String>,
    observer: Option<Arc<dyn LogObserver>>,
}

/// What only the receiver touches.
struct Receiving {
    /// Where the next byte goes: may lie in a header page.
    position: Lsn,
    walk: RecordWalk,
    /// End of the last whole record that is written.
    whole: Lsn,
    /// The segment that was written last, and whether it has bytes that are not synced.
    segment: Option<(u64, Arc<dyn DiskFile>)>,
    is_dirty: bool,
    /// Of that segment: bytes that went there, its syncs, and up to where the device was asked to write it.
    bytes: u64,
    syncs: u64,
    started: u64,
    mark: ReceivedMark,
    is_closed: bool,
}

impl std::fmt::Debug for ReceivedLog {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("ReceivedLog")
            .field("timeline", &self.timeline())
            .field("flushed", &self.flushed())
            .finish_non_exhaustive()
    }
}

impl ReceivedLog {
    /// Begins to receive the timeline of `options` from its beginning on: stores its history, and makes its mark. All log before is
    /// here, and durable. The caller's superblock may name the timeline when this has returned, and must before anything is received.
    ///
    /// # Errors
    /// `History`, `NoSpace`, `Io`: the timeline is not begun, and this may be called again.
    pub fn begin(disk: Arc<dyn Disk>, options: &LogOptions) -> Result<ReceivedLog, LogError> {
        let identity = options.check()?;
        let start = match options.ancestors.last() {
            Some(left) => left.fork,
            None => identity.geometry.first_lsn(),
        };
        if !options.ancestors.is_empty() {
            options.history().store(&disk).map_err(|source| LogError::History { source })?;
        }
        let end = LogEnd { lsn: start, durable: start, reason: EndReason::NoRecord };
        ReceivedLog::open_with(disk, options, end, Clearing::Zeros, HandedOver::default)
    }

    /// As `begin`, for the timeline that another server has begun where this log ends, once `end` has said where. The holds go on, as
    /// they are.
    ///
    /// # Errors
    /// As `begin`.
    pub fn begin_next(&self, options: &LogOptions) -> Result<ReceivedLog, LogError> {
        let start = self.flushed();
        options.history().store(&self.segments.disk).map_err(|source| LogError::History { source })?;
        let end = LogEnd { lsn: start, durable: start, reason: EndReason::NoRecord };
        // No reader looks into the pending files, before the new timeline has its mark or after it: this one has a mark, too. Zeros
        // would cost more than all else here, and an acknowledgement may be waited for.
        let clearing = Clearing::NotNeeded;
        let disk = Arc::clone(&self.segments.disk);
        ReceivedLog::open_with(disk, options, end, clearing, || self.hand_over())
    }

    /// Opens the log for receiving where recovery found that it ends. A log without a mark, of a server that was restored or has
    /// written the timeline before, gets one: it is received from now on.
    ///
    /// # Errors
    /// `Header` if the segment at the end is not one of this log; `ReceivedMark`; `NoSpace`, `Io`. The log can be opened again.
    pub fn open(disk: Arc<dyn Disk>, options: &LogOptions, end: LogEnd) -> Result<ReceivedLog, LogError> {
        ReceivedLog::open_with(disk, options, end, Clearing::Zeros, HandedOver::default)
    }

    /// As `open`, with what a log of this process that has ended hands over. That is asked for when nothing but a new file of holds can
    /// fail. `unmarked`: what a log without a mark does about the pending files.
    fn open_with(
        disk: Arc<dyn Disk>,
        options: &LogOptions,
        end: LogEnd,
        unmarked: Clearing,
        handed_over: impl FnOnce() -> HandedOver,
    ) -> Result<ReceivedLog, LogError> {
        let ReceivedFiles { segments, counters } = open_received(&disk, options, end)?;
        let identity = segments.identity;
        let mark = ReceivedMark::open(&*disk, identity.database, identity.timeline);
        let mark = match mark.map_err(|source| LogError::ReceivedMark { source })? {
            // One beyond the end is of a life in which more of the timeline was here: what comes now would be damage before it.
            Some(mark) if mark.synced() <= end.lsn => {
                prepare_pending(&*disk, &identity, options, Clearing::NotNeeded)?;
                mark
            }
            Some(_) | None => {
                // Before the mark: from then on readers pass the pending files over. What a process that wrote the timeline here has
                // left in them is not the primary's.
                prepare_pending(&*disk, &identity, options, unmarked)?;
                ReceivedMark::create(&*disk, identity.database, identity.timeline, end.lsn)?
            }
        };
        let geometry = identity.geometry;
        let oldest = segments.oldest_retained(geometry.segment_of(end.lsn));
        let HandedOver { holds, buffers } = handed_over();
        let holds = match holds {
            Some(holds) => holds,
            None => Holds::open(disk, identity.database, geometry, oldest, end.lsn)
                .map_err(|source| LogError::Holds { source })?,
        };
        if options.keep_bytes > 0 {
            holds.keep_newest(options.keep_bytes, end.lsn);
        }
        let receiving = Receiving {
            position: end.lsn,
            walk: RecordWalk::from(&identity, end.lsn),
            whole: end.lsn,
            segment: None,
            is_dirty: false,
            bytes: 0,
            syncs: 0,
            started: 0,
            mark,
            is_closed: false,
        };
        Ok(ReceivedLog {
            segments,
            counters,
            holds,
            buffers: Mutex::new(Some(buffers.unwrap_or_else(|| LogBuffers::new(options.buffer_bytes)))),
            history: options.history(),
            recent: RecentLog::new(options.recent_bytes),
            redo_point: AtomicU64::new(0),
            flushed: AtomicU64::new(end.lsn.get()),
            is_bulk: AtomicBool::new(false),
            receiving: Mutex::new(receiving),
            poison: OnceLock::new(),
            observer: options.observer.clone(),
        })
    }

    /// Where the next byte is to come from: what a new connection asks for.
    pub fn wanted(&self) -> Lsn {
        self.receiving.lock().position
    }

    /// Verifies and writes the bytes that follow, of which the first one is the file byte of LSN `start`. They are durable after
    /// [`ReceivedLog::sync`]. After an error all bytes from `wanted` on have to come again: from the end of a whole record.
    ///
    /// # Errors
    /// `Place` if other bytes are wanted; `Record`, `Header` if they are not this log; `LoadedPastLog` if rows are missing from it;
    /// `Log` if they cannot be written.
    pub fn receive(&self, start: Lsn, bytes: &[u8]) -> Result<(), ReceiveError> {
        let mut receiving = self.receiving.lock();
        self.check_open(&receiving)?;
        if start != receiving.position {
            return Err(ReceiveError::Place { expected: receiving.position, found: start });
        }
        let taken = self.take(&mut receiving, bytes);
        if taken.is_err() {
            self.return_to_whole(&mut receiving);
        }
        taken
    }

    /// Forgets the beginning of a record that is to go on behind `end`, where all records have ended: a byte was changed on the way. What
    /// came of it is wanted again. Whether there was such a record.
    pub fn forget_record_across(&self, end: Lsn) -> bool {
        let mut receiving = self.receiving.lock();
        let is_across = receiving.whole < end && self.geometry().normalise(receiving.position) >= end;
        if is_across {
            self.return_to_whole(&mut receiving);
        }
        is_across
    }

    fn return_to_whole(&self, receiving: &mut Receiving) {
        receiving.position = receiving.whole;
        receiving.walk = RecordWalk::from(&self.segments.identity, receiving.whole);
    }

    /// Makes all whole records durable that have come; where they end.
    ///
    /// # Errors
    /// `Poisoned`: what is on disk is unknown, and the log has to be opened anew. `Closed`.
    pub fn sync(&self) -> Result<Lsn, LogError> {
        let mut receiving = self.receiving.lock();
        self.check_open(&receiving)?;
        self.sync_records(&mut receiving)?;
        if receiving.whole.bytes_since(receiving.mark.synced()) >= MARK_LAG_BYTES {
            self.advance_mark(&mut receiving)?;
        }
        Ok(receiving.whole)
    }

    /// As `sync`, and moves the mark there: damage before it is never taken for a torn tail. For a receiver with nothing to do.
    ///
    /// # Errors
    /// As `sync`.
    pub fn settle(&self) -> Result<Lsn, LogError> {
        let mut receiving = self.receiving.lock();
        self.check_open(&receiving)?;
        self.sync_records(&mut receiving)?;
        self.advance_mark(&mut receiving)?;
        Ok(receiving.whole)
    }

    /// Receives nothing more; where the log ends, durably. When it returns, nobody writes to the log any more. A second call only
    /// says where that was.
    ///
    /// # Errors
    /// As `sync`.
    pub fn close(&self) -> Result<LogEnd, LogError> {
        let mut receiving = self.receiving.lock();
        if !receiving.is_closed {
            self.check_poison()?;
            self.sync_records(&mut receiving)?;
            self.advance_mark(&mut receiving)?;
        }
        self.end_receiving(&mut receiving)
    }

    /// As `close`, and leaves the mark where it is: a promotion has no use for one, and no time.
    ///
    /// # Errors
    /// As `sync`.
    pub fn end(&self) -> Result<LogEnd, LogError> {
        self.end_receiving(&mut self.receiving.lock())
    }

    /// [`crate::begin_timeline`] where this log has ended, once `close` or `end` has said where. The holds go on, as they are.
    ///
    /// # Errors
    /// As there.
    pub fn begin_timeline(
        &self,
        options: &LogOptions,
        end: LogEnd,
        time_micros: i64,
    ) -> Result<OpenLog, LogError> {
        switch::begin(&self.segments.disk, options, end, time_micros, self.hand_over())
    }

    /// For the next log of this process.
    fn hand_over(&self) -> HandedOver {
        HandedOver { holds: self.holds.hand_over(), buffers: self.buffers.lock().take() }
    }

    fn end_receiving(&self, receiving: &mut Receiving) -> Result<LogEnd, LogError> {
        if !receiving.is_closed {
            self.check_poison()?;
            self.sync_records(receiving)?;
            receiving.is_closed = true;
            self.segments.close();
            self.holds.close();
            self.recent.has_changed();
        }
        Ok(LogEnd { lsn: receiving.whole, durable: receiving.whole, reason: EndReason::Limit })
    }

    /// Everything before is durable; a record ends there.
    pub fn flushed(&self) -> Lsn {
        Lsn::new(self.flushed.load(Ordering::SeqCst))
    }

    /// The timeline that is received.
    pub fn timeline(&self) -> TimelineId {
        self.segments.identity.timeline.id
    }

    /// Segment size and what follows from it.
    pub fn geometry(&self) -> LogGeometry {
        self.segments.identity.geometry
    }

    /// Why the log receives nothing more, if so.
    pub fn poison_cause(&self) -> Option<&str> {
        self.poison.get().map(String::as_str)
    }

    /// Opens a stream of what is durable here, for a receiver of this server's own.
    ///
    /// # Errors
    /// As [`crate::OpenLog::stream`].
    pub fn stream(self: &Arc<Self>, from: Lsn) -> Result<LogStream, LogStreamError> {
        LogStream::open(Arc::clone(self) as Arc<dyn StreamedLog>, from)
    }

    /// Makes spare segments ready, as [`crate::Log::prepare_ahead`] does. For a background thread.
    ///
    /// # Errors
    /// `NoSpace`, `Io`: try again later. `Poisoned` if a sync of the directory failed.
    pub fn prepare_ahead(&self) -> Result<(), LogError> {
        self.check_poison()?;
        let outcome = self.segments.prepare_ahead(self.flushed(), || self.new_blocks(), &self.counters);
        self.poison_if_fatal(outcome)
    }
}

/// What the log is kept for, and cleaning it up.
impl ReceivedLog {
    /// As [`crate::Log::hold`].
    ///
    /// # Errors
    /// As there.
    pub fn hold(
        &self,
        name: &str,
        options: HoldOptions,
        from: Lsn,
        created_micros: i64,
    ) -> Result<Arc<HoldPosition>, HoldError> {
        self.holds.create(name, options, from, created_micros)
    }

    /// As [`crate::Log::find_hold`].
    ///
    /// # Errors
    /// As there.
    pub fn find_hold(&self, name: &str) -> Result<Arc<HoldPosition>, HoldError> {
        self.holds.find(name)
    }

    /// As [`crate::Log::limit_hold`].
    ///
    /// # Errors
    /// As there.
    pub fn limit_hold(&self, name: &str, limit_bytes: Option<u64>) -> Result<(), HoldError> {
        self.holds.limit(name, limit_bytes)
    }

    /// As [`crate::Log::release_hold`].
    ///
    /// # Errors
    /// As there.
    pub fn release_hold(&self, name: &str) -> Result<(), HoldError> {
        self.holds.release(name, None)
    }

    /// As [`crate::Log::release_this_hold`].
    ///
    /// # Errors
    /// As there.
    pub fn release_this_hold(&self, name: &str, position: &Arc<HoldPosition>) -> Result<(), HoldError> {
        self.holds.release(name, Some(position))
    }

    /// As [`crate::Log::check_hold`].
    ///
    /// # Errors
    /// As there.
    pub fn check_hold(&self, name: &str, position: &Arc<HoldPosition>) -> Result<(), HoldError> {
        self.holds.check(name, position)
    }

    /// As [`crate::Log::forget_hold`].
    pub fn forget_hold(&self, name: &str, position: &Arc<HoldPosition>) {
        self.holds.forget(name, position);
    }

    /// Who holds the log, by name.
    pub fn holds(&self) -> Vec<HoldInfo> {
        self.holds.list()
    }

    /// As [`crate::Log::retain_from`]: says where recovery starts, and recycles or removes all segments that nobody needs.
    ///
    /// # Errors
    /// As there.
    pub fn retain_from(&self, redo_point: Lsn) -> Result<RetentionReport, LogError> {
        if self.redo_point.fetch_max(redo_point.get(), Ordering::SeqCst) < redo_point.get() {
            self.segments.estimate.lock().cycle_ended(self.flushed());
            self.segments.try_all_again();
        }
        all_batches(|| {
            self.check_poison()?;
            let cleaned = self.cleaning().batch(Recycling::AsWanted, &mut || ControlFlow::Continue(()));
            self.poison_if_fatal(cleaned)
        })
    }

    fn cleaning(&self) -> Cleaning<'_> {
        Cleaning {
            segments: &self.segments,
            counters: &self.counters,
            holds: &self.holds,
            redo_point: Lsn::new(self.redo_point.load(Ordering::SeqCst)),
            appended: self.flushed(),
            flushed: self.flushed(),
        }
    }
}

impl ReceivedLog {
    fn take(&self, receiving: &mut Receiving, mut bytes: &[u8]) -> Result<(), ReceiveError> {
        let geometry = self.geometry();
        while !bytes.is_empty() {
            let position = receiving.position;
            let (number, offset) = (geometry.segment_of(position), geometry.offset_of(position));
            let is_header = offset < HEADER_BYTES;
            let left = if is_header { HEADER_BYTES - offset } else { geometry.segment_bytes() - offset };
            let left = usize::try_from(left).unwrap_or(usize::MAX);
            let (piece, rest) = bytes.split_at(bytes.len().min(left));
            if is_header {
                self.compare_header(position, piece)?;
            } else {
                receiving.walk.follow(piece).map_err(|error| match error {
                    WalkError::NoRecord(lsn) => ReceiveError::Record { lsn },
                    WalkError::LoadedPastLog(lsn) => ReceiveError::LoadedPastLog { lsn },
                })?;
                self.write(receiving, number, offset, piece)?;
                receiving.whole = receiving.walk.end();
            }
            receiving.position = Lsn::new(position.get() + piece.len() as u64);
            bytes = rest;
        }
        Ok(())
    }

    /// The header page of a segment of this log has one content.
    fn compare_header(&self, position: Lsn, bytes: &[u8]) -> Result<(), ReceiveError> {
        let number = self.geometry().segment_of(position);
        let page = encode_header(&self.segments.identity, number, SegmentUse::Begun);
        let offset = usize::try_from(self.geometry().offset_of(position)).expect("less than a header page");
        if page[offset..offset + bytes.len()] == *bytes {
            Ok(())
        } else {
            Err(ReceiveError::Header { lsn: position })
        }
    }

    /// Writes record bytes into segment `number`.
    fn write(
        &self,
        receiving: &mut Receiving,
        number: u64,
        offset: u64,
        bytes: &[u8],
    ) -> Result<(), LogError> {
        if receiving.segment.as_ref().is_none_or(|(open, _)| *open != number) {
            if receiving.segment.is_some() {
                let is_bulk = receiving.syncs * BULK_BYTES_PER_SYNC <= receiving.bytes;
                self.is_bulk.store(is_bulk, Ordering::SeqCst);
            }
            // Before it is left: a later sync is of the next one.
            self.sync_file(receiving)?;
            receiving.segment = Some((number, self.begin_segment(number)?));
            (receiving.bytes, receiving.syncs, receiving.started) = (0, 0, offset);
        }
        let (_, file) = receiving.segment.as_ref().expect("it was just opened");
        let path = self.segments.path_of(number);
        let written = file.write_all_at(bytes, offset);
        written.map_err(|error| {
            self.poison(format!("write {} bytes at offset {offset} of {path}: {error}", bytes.len()))
        })?;
        receiving.is_dirty = true;
        receiving.bytes += bytes.len() as u64;
        let written = offset + bytes.len() as u64;
        // After an error the log comes again from before.
        let waiting = written.saturating_sub(receiving.started);
        if waiting >= STARTED_BYTES {
            file.start_writing(receiving.started, waiting);
            receiving.started = written;
        }
        if self.recent.is_streamed() {
            self.recent.keep(self.geometry().stream_position(receiving.position), bytes);
        }
        Ok(())
    }

    /// Makes segment `number` ready, and says durably that the log comes there.
    fn begin_segment(&self, number: u64) -> Result<Arc<dyn DiskFile>, LogError> {
        if number >= self.segments.prepared_until() {
            self.counters.segment_waits.add(1);
            let prepared = self.segments.prepare_through(number, self.new_blocks(), &self.counters);
            self.poison_if_fatal(prepared)?;
        }
        let path = self.segments.path_of(number);
        let handle = self.segments.take_handle(number)?;
        self.segments
            .begin(&*handle, number)
            .map_err(|error| self.poison(format!("write the header of {path}: {error}")))?;
        if self.segments.spares_are_low(number)
            && let Some(observer) = &self.observer
        {
            observer.spares_low();
        }
        let file = self.segments.disk.open(&path, OpenMode::Write);
        file.map_err(|error| LogError::io("open", &path, error))
    }

    fn new_blocks(&self) -> NewBlocks {
        if self.is_bulk.load(Ordering::SeqCst) { NewBlocks::Allocated } else { NewBlocks::Written }
    }

    fn sync_records(&self, receiving: &mut Receiving) -> Result<(), LogError> {
        self.sync_file(receiving)?;
        let (whole, flushed) = (receiving.whole, self.flushed());
        assert!(whole >= flushed, "flushed ran backwards: {flushed} to {whole}");
        if whole > flushed {
            self.flushed.store(whole.get(), Ordering::SeqCst);
            self.recent.has_changed();
            if let Some(observer) = &self.observer {
                observer.flushed(whole);
            }
        }
        Ok(())
    }

    fn sync_file(&self, receiving: &mut Receiving) -> Result<(), LogError> {
        let Some((number, file)) = receiving.segment.as_ref().filter(|_| receiving.is_dirty) else {
            return Ok(());
        };
        let path = self.segments.path_of(*number);
        if !sabotaged(Defect::ReceivedNotSynced) {
            file.sync_data().map_err(|error| self.poison(format!("sync {path}: {error}")))?;
        }
        self.counters.flushes.add(1);
        receiving.is_dirty = false;
        receiving.syncs += 1;
        Ok(())
    }

    fn advance_mark(&self, receiving: &mut Receiving) -> Result<(), LogError> {
        let advanced = receiving.mark.advance(receiving.whole);
        self.poison_if_fatal(advanced)
    }

    fn check_open(&self, receiving: &Receiving) -> Result<(), LogError> {
        self.check_poison()?;
        if receiving.is_closed { Err(LogError::Closed) } else { Ok(()) }
    }

    fn check_poison(&self) -> Result<(), LogError> {
        match self.poison.get() {
            None => Ok(()),
            Some(cause) => Err(LogError::Poisoned { cause: cause.clone() }),
        }
    }

    fn poison_if_fatal<T>(&self, outcome: Result<T, LogError>) -> Result<T, LogError> {
        outcome.map_err(|error| match error {
            LogError::Poisoned { cause } => self.poison(cause),
            other => other,
        })
    }

    /// From now on nothing is received. Only the first cause counts.
    fn poison(&self, cause: String) -> LogError {
        tracing::error!(%cause, "the log receives nothing more");
        let cause = self.poison.get_or_init(|| cause).clone();
        self.recent.has_changed();
        if let Some(observer) = &self.observer {
            observer.poisoned();
        }
        LogError::Poisoned { cause }
    }
}

/// Makes the pending files for the timeline that a promotion begins, which has no time to. Nothing is stored in them before.
fn prepare_pending(
    disk: &dyn Disk,
    identity: &LogIdentity,
    options: &LogOptions,
    clearing: Clearing,
) -> Result<(), LogError> {
    pending::prepare(disk, identity, buffer_capacity(options.buffer_bytes), clearing).map(drop)
}

impl StreamedLog for ReceivedLog {
    fn flushed(&self) -> Lsn {
        ReceivedLog::flushed(self)
    }

    fn oldest_retained(&self) -> Lsn {
        self.segments.oldest_retained(self.geometry().segment_of(ReceivedLog::flushed(self)))
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
        self.check_open(&self.receiving.lock())
    }
}
