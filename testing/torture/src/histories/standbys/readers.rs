//! Clients that read on standbys, while these apply, are cut off, restarted and promoted.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use seawall::{Database, Error, Table};
use seawall_simulation::SeededRandom;

use super::super::clients::{Recorder, look};
use super::super::history::Place;

/// Reads of one client in one life of a standby, at most: histories have to be checked.
const READS_MAX: u32 = 120;
/// Between two reads, at most, in microseconds.
const PAUSE_MICROS_MAX: u64 = 3_000;
/// The longest wait for a commit that was acknowledged: the network may be cut.
const WAIT_MAX: Duration = Duration::from_millis(50);

/// When a life ends, and what holds until then.
#[derive(Debug, Default)]
pub(super) struct Life {
    pub(super) is_over: AtomicBool,
    /// What was acknowledged may be lost from now on: a position on the log of the old primary says nothing any more.
    pub(super) may_lose: AtomicBool,
    /// Standbys have applied whatever is acknowledged.
    pub(super) is_applied_everywhere: bool,
}

/// One client of one standby.
pub(super) struct Reader<'a> {
    pub(super) number: u32,
    pub(super) server: u32,
    pub(super) database: Database,
    pub(super) table: Table,
    pub(super) recorder: &'a Recorder,
    pub(super) life: &'a Life,
    pub(super) random: SeededRandom,
}

impl Reader<'_> {
    /// Reads until the life is over, or the server is gone; `is_gone` says whether that was meant.
    ///
    /// # Errors
    /// The one that a standby refused to be read with.
    pub(super) fn run(mut self, is_gone: &AtomicBool) -> Result<(), Error> {
        for _ in 0..READS_MAX {
            std::thread::park_timeout(Duration::from_micros(self.random.below(PAUSE_MICROS_MAX)));
            if self.life.is_over.load(Ordering::SeqCst) {
                break;
            }
            let read = self.read();
            if is_gone.load(Ordering::SeqCst) {
                break;
            }
            read?;
        }
        Ok(())
    }

    fn read(&mut self) -> Result<(), Error> {
        let awaited = self.awaited();
        let place = Place { server: self.server, is_standby: true, position: None, awaited };
        let mut keys = self.recorder.keys();
        if self.random.chance(1, 2) {
            self.random.shuffle(&mut keys);
            keys.truncate(3);
        }
        let mut seen = look(&self.database, &self.table, self.recorder, self.number, &keys, place)?;
        if self.life.may_lose.load(Ordering::SeqCst) {
            seen.place.position = None;
        }
        self.recorder.record(seen);
        Ok(())
    }

    /// The commit that the next read must see.
    fn awaited(&mut self) -> Option<u64> {
        let (begin, position) = self.recorder.last_commit()?;
        if !self.life.is_applied_everywhere {
            if self.random.chance(2, 3) {
                return None;
            }
            // A standby that is promoted has applied what it has.
            self.database.standby()?.wait_applied(position, WAIT_MAX).ok()?;
        }
        (!self.life.may_lose.load(Ordering::SeqCst)).then_some(begin)
    }
}
