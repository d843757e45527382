//! Group flush: one thread makes a batch durable for all who wait, while the next batch fills.
//!
//! ```text
//!   batch 7 (odd)    |= fill =|===== write =====|wake those on word 1|
//!   batch 8 (even)            |====== fill =====|===== write =====|wake those on word 0|
//! ```
//! A thread that waits registers what it wants, then tries to become the flusher; if there is one already it sleeps on
//! the word of its batch. The flusher gives up its role *before* it looks whether anything more is wanted, so whoever
//! failed to become the flusher has registered in time to be seen.

use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use seawall_io::{AppendBuffer, DiskFile};
use seawall_sync::atomic::{AtomicU64, Ordering};
use seawall_types::Lsn;

use super::Log;
use super::batch::{Batch, SpentMemory};
use super::mirror::Mirrored;
use crate::error::LogError;
use crate::geometry::{HEADER_BYTES, StreamPosition};
use crate::options::FlushBy;
use crate::sabotage::{Defect, sabotaged};

/// What only the flusher touches.
#[derive(Debug)]
pub(super) struct FlusherState {
    /// The buffer of the last batch.
    spare: Option<AppendBuffer>,
    /// The segment that was written last.
    segment: Option<(u64, Arc<dyn DiskFile>)>,
}

/// The last batch that was started: the LSN it ends at, times two, plus the parity of its number.
#[derive(Debug)]
pub(super) struct InFlight(AtomicU64);

impl InFlight {
    pub(super) fn new(end: Lsn) -> InFlight {
        InFlight(AtomicU64::new(end.get() << 1))
    }

    fn start(&self, batch: &Batch) {
        self.0.store(batch.end.get() << 1 | (batch.bytes.number & 1), Ordering::SeqCst);
    }

    /// The parity of the batch that a record ending at `end`, already appended, belongs to: that of the last batch
    /// started, or of the one after it. Earlier ones are durable, and no thread waits for them.
    fn parity_of(&self, end: Lsn) -> usize {
        let value = self.0.load(Ordering::SeqCst);
        let is_odd = value & 1 == 1;
        let belongs_to_it = end.get() <= value >> 1;
        usize::from(is_odd == belongs_to_it)
    }

    /// The parity of the batch after the last one started.
    fn next_parity(&self) -> usize {
        usize::from(self.0.load(Ordering::SeqCst) & 1 == 0)
    }
}

impl FlusherState {
    pub(super) fn new(spare: AppendBuffer) -> FlusherState {
        FlusherState { spare: Some(spare), segment: None }
    }
}

impl Log {
    /// Returns once everything before `end` is durable. One thread flushes for all who wait.
    ///
    /// # Errors
    /// `Poisoned` if a write failed: whether the records in question survive is decided by recovery.
    ///
    /// # Panics
    /// If `end` is beyond what was appended.
    pub fn flush_until(&self, end: Lsn) -> Result<(), LogError> {
        if self.flushed() >= end {
            return Ok(());
        }
        assert!(
            end <= self.appended(),
            "nothing was appended up to {end}, so nothing can be flushed up to it"
        );
        self.want(end);
        loop {
            let word = &self.durable[self.in_flight.parity_of(end)];
            let seen = word.read();
            if self.flushed() >= end {
                return Ok(());
            }
            self.check_poison()?;
            match self.flusher.try_lock() {
                Some(mut flusher) => {
                    let spent = if self.flushed() < end { self.flush_batch(&mut flusher) } else { None };
                    drop(flusher);
                    self.hand_over();
                    // The next flush does not wait for this.
                    drop(spent);
                }
                None => word.wait(seen, None),
            }
        }
    }

    /// Returns once everything before `end`, the end of an appended record, survives the end of this process, a kill
    /// included: at once, unless a record came before that the pending files have no room for, which is flushed.
    ///
    /// # Errors
    /// As `flush_until`.
    pub fn survive_kill(&self, end: Lsn) -> Result<(), LogError> {
        loop {
            let mirrored = self.mirrored_until(end);
            match mirrored.gap_end {
                // Behind a gap nothing is found again.
                Some(gap_end) if mirrored.until < end => self.flush_until(gap_end.min(end))?,
                Some(_) | None => return Ok(()),
            }
        }
    }

    /// Copies what was appended before `end` to where it survives the end of this process, a kill included, and returns how
    /// far the log survives one: less than `end` if a record came before that the pending files have no room for. Waits
    /// for no flush.
    pub fn mirror_until(&self, end: Lsn) -> Lsn {
        self.mirrored_until(end).until
    }

    /// As `mirror_until`, with the end of the record that the pending files have no room for.
    fn mirrored_until(&self, end: Lsn) -> Mirrored {
        let flushed = self.flushed();
        let until = self.mirror.mirrored().max(flushed);
        if until >= end { Mirrored { until, gap_end: None } } else { self.mirror.copy(flushed, end) }
    }

    /// Asks for a flush up to `end` and does not wait for it if the log has a thread; flushes here if it has none. A
    /// failure shows in the next `append` or `flush_until`.
    pub fn request_flush(&self, end: Lsn) {
        // The thread would never be done with a wish for what was not appended.
        let end = end.min(self.appended());
        if self.flushed() >= end {
            return;
        }
        match self.flush_by {
            // A failure shows in the next `append` or `flush_until`.
            FlushBy::Caller => self.flush_until(end).unwrap_or(()),
            FlushBy::Thread => {
                self.want(end);
                self.work.wake_one();
            }
        }
    }

    fn want(&self, end: Lsn) {
        self.wanted.fetch_max(end.get(), Ordering::SeqCst);
    }

    fn more_is_wanted(&self) -> bool {
        self.wanted.load(Ordering::SeqCst) > self.flushed().get() && self.poison.get().is_none()
    }

    /// Finds the next flusher. The role is free already: a thread that registers a wish later can take it.
    fn hand_over(&self) {
        if !self.more_is_wanted() {
            return;
        }
        match self.flush_by {
            FlushBy::Thread => self.work.wake_one(),
            FlushBy::Caller => self.durable[self.in_flight.next_parity()].wake_one(),
        }
    }

    /// The flusher thread: works while something is wanted, sleeps else.
    pub(super) fn run_flusher(&self) {
        loop {
            let seen = self.work.read();
            if self.stop.load(Ordering::SeqCst) {
                return;
            }
            if !self.more_is_wanted() {
                self.work.wait(seen, None);
                continue;
            }
            match self.flusher.try_lock() {
                // Keeps the role while it is needed: threads that wake append again instead of flushing in turns.
                Some(mut flusher) => {
                    let spent = self.flush_while_wanted(&mut flusher);
                    drop(flusher);
                    // Who wants more meanwhile flushes it.
                    drop(spent);
                }
                // A caller is at it, and hands over when it is done.
                None => self.work.wait(seen, None),
            }
        }
    }

    /// Until nothing more is wanted, or there is memory to free.
    fn flush_while_wanted(&self, flusher: &mut FlusherState) -> Option<SpentMemory> {
        while self.more_is_wanted() {
            let spent = self.flush_batch(flusher);
            if spent.is_some() {
                return spent;
            }
        }
        None
    }

    /// Makes durable what is pending, and tells those who wait. If that is not possible, poisons the log. What it returns is
    /// freed when the role has been given up.
    fn flush_batch(&self, flusher: &mut FlusherState) -> Option<SpentMemory> {
        if self.poison.get().is_some() {
            return None;
        }
        // A bug in there, or in an observer, must not let threads sleep for ever.
        let flushed = catch_unwind(AssertUnwindSafe(|| self.take_and_write(flusher)));
        let panicked = |_| Err("a flush of the log panicked".to_owned());
        flushed.unwrap_or_else(panicked).unwrap_or_else(|cause| {
            self.poison(cause);
            None
        })
    }

    fn take_and_write(&self, flusher: &mut FlusherState) -> Result<Option<SpentMemory>, String> {
        let batch = {
            let mut appender = self.appender.lock();
            let batch = appender.take_batch(&mut flusher.spare);
            if let Some(batch) = &batch {
                self.in_flight.start(batch);
                self.mirror.begin(appender.batch());
            }
            batch
        };
        let Some(mut batch) = batch else { return Ok(None) };
        self.room.wake_all();
        if sabotaged(Defect::FlushedBeforeWrite) {
            self.publish_flushed(batch.end);
        }
        let started = self.clock.as_ref().map(|clock| clock.monotonic());
        self.write_batch(flusher, &mut batch)?;
        if let (Some(started), Some(clock)) = (started, &self.clock) {
            let nanos = clock.monotonic().saturating_sub(started).as_nanos();
            let nanos = u64::try_from(nanos).unwrap_or(u64::MAX);
            self.counters.flush_nanos.add(nanos);
            self.counters.batch_nanos_longest.raise_to(nanos);
        }
        self.counters.batches.add(1);
        self.keep_for_streams(&batch);
        if !sabotaged(Defect::FlushedBeforeWrite) {
            self.publish_flushed(batch.end);
        }
        self.durable[usize::from(batch.bytes.number & 1 == 1)].wake_all();
        self.mirror.forget(&batch.bytes);
        let (buffer, spent) = batch.into_parts();
        flusher.spare = Some(buffer);
        Ok(spent)
    }

    /// Keeps what the batch adds to the durable log in memory, if a stream is open. Before the log says that it is durable: a stream
    /// that hears of it finds it there.
    fn keep_for_streams(&self, batch: &Batch) {
        if !self.recent.is_streamed() {
            return;
        }
        let mut position = self.geometry.stream_position(self.flushed());
        let carried = position.0.saturating_sub(batch.bytes.first.0);
        let carried = usize::try_from(carried).expect("less than a block is written again");
        batch.bytes.visit(carried..batch.bytes.total(), |piece| {
            self.recent.keep(position, piece);
            position = StreamPosition(position.0 + piece.len() as u64);
        });
    }

    fn publish_flushed(&self, end: Lsn) {
        let (flushed, appended) = (self.flushed(), self.appended());
        assert!(flushed < end, "flushed ran backwards: {flushed} to {end}");
        assert!(end <= appended, "flushed {end} is past appended {appended}");
        self.flushed.store(end.get(), Ordering::SeqCst);
        self.recent.has_changed();
        if let Some(observer) = &self.observer {
            observer.flushed(end);
        }
    }

    /// One durable write for each segment that the batch touches, in order, and one more for each that it begins; several
    /// for each where there are long records.
    fn write_batch(&self, flusher: &mut FlusherState, batch: &mut Batch) -> Result<(), String> {
        let (total, bytes_max) = (batch.padded_bytes(), batch.prepare());
        let first = batch.bytes.first;
        let mut done = 0;
        while done < total {
            let (number, offset) = self.geometry.file_position(StreamPosition(first.0 + done as u64));
            let left_in_segment =
                usize::try_from(self.geometry.segment_bytes() - offset).expect("a segment has at most 1 GiB");
            let bytes = left_in_segment.min(total - done).min(bytes_max);
            let path = self.segments.path_of(number);
            let failed =
                |error: &dyn Display| format!("write {bytes} bytes at offset {offset} of {path}: {error}");
            let is_first = flusher.segment.as_ref().is_none_or(|(open, _)| *open != number);
            let file = self.segment_file(flusher, number).map_err(|error| failed(&error))?;
            if is_first && offset == HEADER_BYTES && !sabotaged(Defect::BegunMarkNotWritten) {
                self.segments.begin(&**file, number).map_err(|error| failed(&error))?;
            }
            batch.write_durable(&**file, done..done + bytes, offset).map_err(|error| failed(&error))?;
            self.counters.flushes.add(1);
            self.counters.flushed_bytes.add(bytes as u64);
            done += bytes;
        }
        Ok(())
    }

    fn segment_file<'f>(
        &self,
        flusher: &'f mut FlusherState,
        number: u64,
    ) -> Result<&'f Arc<dyn DiskFile>, LogError> {
        if flusher.segment.as_ref().is_none_or(|(open, _)| *open != number) {
            flusher.segment = Some((number, self.segments.take_handle(number)?));
        }
        let (_, file) = flusher.segment.as_ref().expect("it was just put there");
        Ok(file)
    }
}
