//! A primary hands its role over: what writes waits, a standby gets all of the log and goes on, and this server writes no more.
//!
//! ```text
//!   park: no record enters the log; all before is durable and visible: E    (writers wait)
//!     --> the standby has everything up to E      (for the caller to see)
//!     --> record: the file `handover`, durably    (from here on a restart writes nothing either)
//!     --> the standby is ordered to go on at E    (for the caller)
//!           +-- it does        --> hand over: writers are refused; close, and follow it
//!           +-- it does not    --> take back: the file goes, writers go on
//!           +-- no answer      --> hand over, until one of the two is known
//! ```
//! **Invariant:** between the order and an answer that says that the standby does not go on, no record enters this log: not in this process,
//! and not after a restart. So at most one of the two writes, and what the standby goes on with is all that was ever acknowledged.
//!
//! **If the power goes** before the file is durable, nothing was ordered, and the next open is a primary as before. After it, the next open
//! finds the file and takes no writes ([`Engine::take_up_handover`]): the caller asks the standby, and hands over or takes back.
//!
//! Readers go on meanwhile. A checkpoint may run: what it writes to pages lies before E.

mod record;

pub use record::HandoverRecord;

use std::time::Duration;

use seawall_sync::CancelToken;
use seawall_types::Lsn;
use seawall_wal::{LogError, PreparedRecord, RecordSpan};

use crate::background::IDLE;
use crate::engine::Engine;
use crate::error::Error;
use crate::log::parking::Door;

impl Engine {
    /// Parks all writers; where the log ends, once everything before is durable and visible. If that takes longer than `limit`, writers go on.
    pub(crate) fn park_writers(&self, limit: Duration) -> Result<Lsn, Error> {
        self.lifecycle.check_writable()?;
        let log = self.log()?;
        if !self.log.parking.park() {
            return Err(Error::Parked);
        }
        let parked = log.park().map_err(Error::from).and_then(|end| {
            log.flush_until(end)?;
            self.queue.advance();
            let begun = self.clock().monotonic();
            let last = self.queue.last_entered();
            // No other thread acknowledges, or moves a clock, where the caller does all the work.
            let limit = if self.is_manual() { Duration::ZERO } else { limit };
            let left = || limit.saturating_sub(self.clock().monotonic().saturating_sub(begun));
            let goes_on = || self.lifecycle.check_open().is_ok() && !left().is_zero();
            self.queue.wait_until(
                None,
                || self.visible() >= last,
                || goes_on().then(|| self.go_alone_in_time().unwrap_or(IDLE).min(left()).min(IDLE)),
            );
            self.lifecycle.check_open()?;
            self.lifecycle.check_not_stopped()?;
            if self.visible() >= last { Ok(end) } else { Err(Error::StandbysLack { lsn: last }) }
        });
        parked.inspect_err(|_| self.let_writers_go_on())
    }

    /// Writers go on.
    fn let_writers_go_on(&self) {
        if let Some(log) = self.log.written() {
            log.unpark();
        }
        self.log.parking.open();
    }

    /// Puts on record, durably, that writers are parked for good unless `take_back` says otherwise.
    pub(crate) fn record_handover(&self, record: &HandoverRecord) -> Result<(), Error> {
        if self.log.parking.door() != Door::Parked {
            return Err(Error::Parked);
        }
        record.store(&*self.environment.disk)
    }

    /// Refuses writers, also those that are parked.
    pub(crate) fn refuse_writers(&self) {
        self.log.parking.hand_over();
        // Those that wait for a decision of a prepared transaction wait for a write.
        self.in_doubt.protected.wake_waiting();
    }

    /// The role stays here: forgets the record, durably, and then lets writers go on.
    pub(crate) fn take_back(&self) -> Result<(), Error> {
        HandoverRecord::remove(&*self.environment.disk)?;
        self.let_writers_go_on();
        Ok(())
    }

    /// Of a database that is being opened: where its role was handed over, and nothing is known of what became of that, it takes no writes.
    pub(crate) fn take_up_handover(&self) -> Result<(), Error> {
        let Some(log) = self.log.written() else { return Ok(()) };
        let record = HandoverRecord::read(&*self.environment.disk)?;
        let Some(record) = record else { return Ok(()) };
        if record.timeline != self.timeline() {
            // This server has followed the other one, and was promoted since.
            return HandoverRecord::remove(&*self.environment.disk);
        }
        log.park()?;
        self.log.parking.hand_over();
        tracing::warn!(timeline = %record.timeline, end = %record.end,
            "this server had begun to hand its role over, and takes no writes until the other server has said what became of that");
        Ok(())
    }

    /// Waits while writers are parked.
    pub(crate) fn wait_for_log(&self, cancel: Option<&CancelToken>) -> Result<(), Error> {
        let parking = &self.log.parking;
        loop {
            let seen = parking.changed.read();
            match parking.door() {
                Door::Open => return Ok(()),
                Door::HandedOver => return Err(Error::HandedOver),
                Door::Parked => {}
            }
            self.lifecycle.check_open()?;
            self.lifecycle.check_not_stopped()?;
            match cancel {
                Some(cancel) if cancel.is_requested() => return Err(Error::Cancelled),
                // Bounded, because not everything that ends the wait is announced.
                Some(cancel) => cancel.wait(&parking.changed, seen, Some(IDLE)),
                None => parking.changed.wait(seen, Some(IDLE)),
            }
        }
    }

    /// Appends a record that depends on nothing but its place, as soon as the log takes it.
    pub(crate) fn append<R, E>(
        &self,
        record: &mut PreparedRecord,
        mut in_order: impl FnMut(RecordSpan) -> Result<R, E>,
    ) -> Result<Result<(RecordSpan, R), E>, Error> {
        loop {
            match self.log()?.append(record, &mut in_order) {
                Err(LogError::Parked) => self.wait_for_log(None)?,
                appended => return Ok(appended?),
            }
        }
    }
}
