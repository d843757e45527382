//! Writers and the checkpoint kept in step: who waits for whom, and for how long.
//!
//! A commit pays the throttle before it enters the log. The checkpoint reports after each chunk, and the writers look for
//! themselves after so much log; both compute the rate anew. Beyond five quarters of its limit, the memtable lets
//! commits in only as chunks are finished, and beyond one and a half not before a checkpoint has ended: that far it comes
//! only if the disk stands still.

use std::sync::Arc;
use std::time::Duration;

use seawall_sync::atomic::Ordering;
use seawall_wal::{AtLimit, HoldOptions, HoldPosition};

use crate::engine::Engine;
use crate::error::Error;
use crate::pacing::pace::{HoldbackMeter, LOOK_BYTES, LogHoldback, LowestRate, MergeSpeed, number, share};
use crate::pacing::recovery_time::RedoLength;
use crate::pacing::throttle::{ThrottleReason, ThrottleStatistics};
use crate::recovery::RecoveryStatistics;
use crate::snapshots::view::Frozen;

/// A pause of the checkpoint is cut into pieces of this length, so that it ends soon after its reason has.
const PAUSE: Duration = Duration::from_millis(5);

/// A hold on the log for which writers are slowed before it reaches its limit.
#[derive(Debug)]
struct SlowingHold {
    position: Arc<HoldPosition>,
    limit_bytes: u64,
    meter: HoldbackMeter,
}

/// Those who hold log back.
#[derive(Debug, Default)]
pub(crate) struct SlowingHolds(Vec<SlowingHold>);

/// A row in the memtable, besides key and value: entry, version, and its share of the index.
const MEMTABLE_ROW_BYTES: u64 = 72;
/// Less is not worth counting: a thousand threads that are let in with as much at once are within the slack.
const RESERVED_MIN: u64 = 4 << 10;

/// Room in the memtable for a commit that has been let in and is not applied yet. Given back when this is dropped.
#[derive(Debug)]
#[must_use = "the room is given back when this is dropped"]
pub(crate) struct ReservedRoom<'e> {
    engine: &'e Engine,
    /// What the rows of the commit take; `None`: it waits for no room.
    needed: Option<u64>,
    /// What is counted in `Engine::reserved_room`.
    reserved: u64,
}

impl<'e> ReservedRoom<'e> {
    /// Of a record that waits for no room: it has few rows, or none.
    pub(crate) fn none(engine: &'e Engine) -> ReservedRoom<'e> {
        ReservedRoom { engine, needed: None, reserved: 0 }
    }

    /// Reserves the room again that was given back; waits until there is some.
    pub(crate) fn reserve(&mut self) -> Result<(), Error> {
        if let Some(needed) = self.needed {
            self.give_back();
            self.reserved = self.engine.wait_until_reserved(needed)?;
        }
        Ok(())
    }

    /// Before a wait: what is waited for may need the room.
    pub(crate) fn give_back(&mut self) {
        let reserved = std::mem::take(&mut self.reserved);
        if reserved > 0 {
            self.engine.reserved_room.fetch_sub(reserved, Ordering::SeqCst);
            self.engine.room.wake_all();
        }
    }
}

impl Drop for ReservedRoom<'_> {
    fn drop(&mut self) {
        self.give_back();
    }
}

/// Writers.
impl Engine {
    /// Makes sure that the memtable has room for the rows of a commit, slowing the caller down as the checkpoint needs. The
    /// room is reserved until what is returned is dropped: when the rows are in the memtable.
    pub(crate) fn admit_to_memtable(&self, bytes: u64, rows: u64) -> Result<ReservedRoom<'_>, Error> {
        self.look_at_pace();
        self.throttle.admit(bytes);
        let needed = Some(bytes + rows * MEMTABLE_ROW_BYTES);
        let mut room = ReservedRoom { engine: self, needed, reserved: 0 };
        room.reserve()?;
        Ok(room)
    }

    /// Reserves room, as soon as there is some; how much is reserved.
    fn wait_until_reserved(&self, needed: u64) -> Result<u64, Error> {
        let reached = self.limit_reached();
        if self.is_manual() {
            reached.map(|trigger| self.checkpoint(trigger)).transpose()?;
            return Ok(0);
        }
        if reached.is_some() {
            self.background.want_checkpoint();
        } else if needed < RESERVED_MIN {
            return Ok(0);
        }
        // The throttle aims at the limit; a quarter as much again is for what it cannot foresee.
        let hard_limit = self.active_limit() + self.active_limit() / 4;
        if !self.try_reserve(needed, hard_limit) {
            self.wait_for_room(needed, hard_limit)?;
        }
        Ok(needed)
    }

    /// Reserves room, if the active memtable, with what others have reserved, is not over `limit`. Looked at and reserved in
    /// one step: of those who come at once, one may go over the limit.
    fn try_reserve(&self, bytes: u64, limit: u64) -> bool {
        let mut reserved = self.reserved_room.load(Ordering::SeqCst);
        loop {
            if self.active_bytes().saturating_add(reserved) > limit || !self.fits_in_all(bytes, reserved) {
                return false;
            }
            let with = reserved.saturating_add(bytes);
            let exchange =
                self.reserved_room.compare_exchange(reserved, with, Ordering::SeqCst, Ordering::SeqCst);
            match exchange {
                Ok(_) => return true,
                Err(now) => reserved = now,
            }
        }
    }

    /// Whether the memory of all memtables suffices for a large commit beside the one that is being merged. Without that, it
    /// fits as well as it ever will. A small one never waits for this.
    fn fits_in_all(&self, bytes: u64, reserved: u64) -> bool {
        if bytes < self.active_limit() / 8 {
            return true;
        }
        let view = self.view();
        let Some(frozen) = view.unmerged() else { return true };
        let merging = count(frozen.memtable.bytes_used()).saturating_add(frozen.prepared.bytes());
        let all = merging.saturating_add(self.active_bytes()).saturating_add(reserved).saturating_add(bytes);
        all <= self.options.memtable_bytes / 2 * 3
    }

    #[cold]
    fn wait_for_room(&self, bytes: u64, hard_limit: u64) -> Result<(), Error> {
        let chunks = self.progress.chunks();
        let before = self.clock().monotonic();
        loop {
            let seen = self.room.read();
            let moved = self.progress.chunks() != chunks;
            let limit = if moved { self.active_limit() / 2 * 3 } else { hard_limit };
            if self.try_reserve(bytes, limit) {
                self.throttle.note_wait(self.clock().monotonic().saturating_sub(before));
                return Ok(());
            }
            // What others had reserved may have filled the memtable only now.
            if self.limit_reached().is_some() {
                self.background.want_checkpoint();
            }
            if let Some(error) = self.counters.last_checkpoint_error.lock().clone() {
                return Err(match error {
                    Error::DiskFull { .. } | Error::Stopped { .. } => error,
                    other => Error::CheckpointFailing { cause: other.to_string() },
                });
            }
            self.check_open()?;
            self.room.wait(seen, Some(Duration::from_millis(50)));
        }
    }

    /// Computes the rate anew if so much was logged since the last time that it may be wrong.
    fn look_at_pace(&self) {
        let appended = self.appended().get();
        let due = self.next_look.load(Ordering::Relaxed);
        if appended < due {
            return;
        }
        let next = appended + LOOK_BYTES;
        // One of those who come here at once does it for all.
        if self.next_look.compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            self.look_at_recovery_time();
            self.pace_writers();
            self.throttle.roll_window();
        }
    }

    /// Takes up what earlier sessions measured, and adds what this replay shows. One that merged on the way shows how fast
    /// merging is, so it does not count.
    pub(crate) fn learn_from_recovery(&self, replay: &RecoveryStatistics) {
        let measured = self.measurements.read();
        let mut speed = measured.speed;
        let length =
            RedoLength { rows: replay.rows, bytes: replay.end_of_log.bytes_since(replay.redo_point) };
        if replay.merges == 0 {
            speed.learn(length, replay.duration);
        }
        self.recovery_time.set_speed(speed);
        *self.counters.checkpoint_history.lock() = measured.history;
    }

    fn look_at_recovery_time(&self) {
        let total = RedoLength { rows: self.queue.logged_rows(), bytes: self.appended().get() };
        let view = self.view();
        let rows = u64::try_from(view.active.row_count()).unwrap_or(u64::MAX);
        let (checkpoint, _) = self.merge_speed.lock().estimate(rows, self.active_bytes(), 0, Duration::ZERO);
        self.recovery_time.look(self.clock().monotonic(), total, self.redo_length(), checkpoint);
    }

    /// Sets the rate that writers keep to, from everything that can fill.
    pub(crate) fn pace_writers(&self) {
        let mut lowest = LowestRate::default();
        lowest.offer(self.memtable_rate(), ThrottleReason::Memtable);
        lowest.offer(self.recovery_rate(), ThrottleReason::LogVolume);
        lowest.offer(self.holdback_rate(), ThrottleReason::HeldBackLog);
        match lowest.in_bytes() {
            Some((rate, reason)) => self.throttle.limit(rate, reason),
            None => self.throttle.release(),
        }
    }

    /// Bytes of log a second that fill the memtable when the checkpoint ends.
    fn memtable_rate(&self) -> Option<f64> {
        let (used, limit) = (number(self.active_bytes()), number(self.active_limit()));
        let rate = self.progress.rate(used, limit)?;
        let view = self.view();
        let logged = self.appended().bytes_since(view.active_start);
        let images = self.image_log_bytes.load(Ordering::Relaxed).saturating_sub(view.images_before);
        Some(rate / self.memtable_per_log.look(self.active_bytes(), logged, images))
    }

    /// Bytes of log a second that keep the time to recover below the target until the checkpoint ends.
    fn recovery_rate(&self) -> Option<f64> {
        let redo = self.redo_length();
        let (used, limit) = self.recovery_time.used_and_limit(redo)?;
        let seconds_per_byte = used / number(redo.bytes.max(1));
        let rate = self.progress.rate(used, limit)?;
        (seconds_per_byte > 0.0).then(|| rate / seconds_per_byte)
    }

    fn holdback_rate(&self) -> Option<f64> {
        let holds = &mut self.slowing_holds.lock().0;
        if holds.is_empty() {
            return None;
        }
        holds.retain(|hold| !hold.position.is_over());
        let (now, appended) = (self.clock().monotonic(), self.appended());
        let rates = holds.iter_mut().filter_map(|hold| {
            let held_bytes = appended.bytes_since(hold.position.get());
            let holdback = LogHoldback { held_bytes, limit_bytes: hold.limit_bytes };
            hold.meter.rate(now, appended.get(), holdback)
        });
        rates.min_by(f64::total_cmp)
    }

    /// From now on writers are slowed, smoothly, when the hold comes near its limit, if its options say so.
    pub(crate) fn slow_writers_for(&self, options: &HoldOptions, position: &Arc<HoldPosition>) {
        let (AtLimit::SlowWriters, Some(limit_bytes)) = (options.at_limit, options.limit_bytes) else {
            return;
        };
        let position = Arc::clone(position);
        let hold = SlowingHold { position, limit_bytes, meter: HoldbackMeter::default() };
        self.slowing_holds.lock().0.push(hold);
    }

    /// The checkpoint has ended, or failed. `delayed_before`: how long commits had been delayed when it began.
    pub(crate) fn end_of_progress(&self, delayed_before: Duration) {
        let delayed = self.throttle.delayed() > delayed_before;
        let saturated = delayed && self.throttle.is_limiting() && !self.is_manual();
        self.saturated.store(saturated, Ordering::Relaxed);
        self.progress.end();
        self.progress.count_chunk();
        self.pace_writers();
        if saturated {
            self.background.want_checkpoint();
        }
    }

    pub(crate) fn throttle_statistics(&self) -> ThrottleStatistics {
        ThrottleStatistics {
            fill: share(self.active_bytes(), self.active_limit()),
            progress: self.progress.progress(),
            ..self.throttle.statistics()
        }
    }
}

/// The checkpoint's side: how far it is, and how fast it may write.
pub(crate) struct MergePace<'e> {
    engine: &'e Engine,
    speed: MergeSpeed,
    all: u64,
    bytes: u64,
    done: u64,
    started: Duration,
    paused: Duration,
    /// From the beginning to the last chunk, without pauses.
    merging: Duration,
}

fn count(things: usize) -> u64 {
    u64::try_from(things).unwrap_or(u64::MAX)
}

impl<'e> MergePace<'e> {
    pub(crate) fn begin(engine: &'e Engine, frozen: &Frozen) -> MergePace<'e> {
        let pace = MergePace {
            engine,
            speed: *engine.merge_speed.lock(),
            all: count(frozen.memtable.row_count()),
            bytes: count(frozen.memtable.bytes_used()).saturating_add(frozen.prepared.bytes()),
            done: 0,
            started: engine.clock().monotonic(),
            paused: Duration::ZERO,
            merging: Duration::ZERO,
        };
        pace.report();
        pace
    }

    /// The memtable has got the rows that drops in it stand for.
    pub(crate) fn count_all(&mut self, frozen: &Frozen) {
        self.all = count(frozen.memtable.row_count());
        self.bytes = count(frozen.memtable.bytes_used());
    }

    /// A chunk was applied; `done` rows and `written_bytes` in all, so far. Rests if the checkpoint writes too fast.
    pub(crate) fn chunk_done(&mut self, done: u64, written_bytes: u64) {
        self.done = done;
        self.merging = self.elapsed().saturating_sub(self.paused);
        self.engine.progress.count_chunk();
        self.report();
        self.engine.room.wake_all();
        self.rest(written_bytes);
    }

    fn elapsed(&self) -> Duration {
        self.engine.clock().monotonic().saturating_sub(self.started)
    }

    fn progress(&self) -> f64 {
        share(self.done, self.all).min(1.0)
    }

    fn report(&self) {
        let (left, total) = self.speed.estimate(self.all, self.bytes, self.done, self.merging);
        self.engine.progress.set(self.progress(), left, total);
        self.engine.pace_writers();
    }

    /// Keeps to `checkpoint_io_limit`, unless that would slow writers or somebody wants the checkpoint to end.
    fn rest(&mut self, written_bytes: u64) {
        let limit = self.engine.options.checkpoint_io_limit;
        if limit == 0 {
            return;
        }
        let due = Duration::from_secs_f64(number(written_bytes) / number(limit));
        while self.elapsed() < due && !self.is_urgent() {
            let before = self.elapsed();
            self.engine.clock().sleep(PAUSE.min(due.saturating_sub(before)));
            self.paused += self.elapsed().saturating_sub(before);
        }
    }

    fn is_urgent(&self) -> bool {
        let engine = self.engine;
        let fill = share(engine.active_bytes(), engine.active_limit());
        engine.background.stopping()
            || engine.check_open().is_err()
            || engine.checkpoint_waiters.load(Ordering::SeqCst) > 0
            || fill > self.progress().max(0.25)
            || engine.recovery_time.is_due()
    }

    /// The checkpoint has ended after `total`: the next one is expected to be as fast.
    pub(crate) fn learn(&self, total: Duration) {
        let mut speed = self.engine.merge_speed.lock();
        speed.learn(self.done, self.merging, total.saturating_sub(self.paused));
    }

    pub(crate) fn paused(&self) -> Duration {
        self.paused
    }
}

#[cfg(test)]
mod tests {
    use seawall_simulation::SimulatedDisk;

    use super::*;
    use crate::database::Database;
    use crate::engine::Environment;
    use crate::options::{Background, Options};

    #[test]
    fn who_waits_for_room_is_told_when_some_is_given_back() {
        let options =
            Options { background: Background::Threads, memtable_bytes: 8 << 20, ..Options::default() };
        let environment = Environment::of_the_system(Arc::new(SimulatedDisk::new(1)));
        let database = Database::open_in(environment, options, |_| {}).unwrap();
        let engine = database.engine();
        let mut room = engine.admit_to_memtable(1 << 20, 1).unwrap();
        let reserved = engine.reserved_room.load(Ordering::SeqCst);
        assert!(reserved >= 1 << 20, "{reserved}");
        let seen = engine.room.read();
        room.give_back();
        assert_eq!(engine.reserved_room.load(Ordering::SeqCst), 0);
        assert_ne!(engine.room.read(), seen, "nobody was told");
        room.reserve().unwrap();
        assert_eq!(engine.reserved_room.load(Ordering::SeqCst), reserved);
        let seen = engine.room.read();
        drop(room);
        assert_eq!(engine.reserved_room.load(Ordering::SeqCst), 0);
        assert_ne!(engine.room.read(), seen, "nobody was told");
        database.close().unwrap();
    }
}
