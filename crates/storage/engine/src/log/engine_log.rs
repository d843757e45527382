//! The log of an open engine: written by this engine, received from another server, or only read.
//!
//! ```text
//!   open for writing ----------------------------> written
//!   open to follow a primary ----> received ---> promoted: written      (`standby`)
//!                                   |      ^
//!                                   +------+  a new timeline of the primary
//!   open for reading only                            appended = flushed = where it ended
//! ```
//! Every place that appends asks [`EngineLog::written`] at the moment of use, so an engine may begin to write while readers go on. A
//! written log stays the engine's log until the engine is closed: what was lent to a caller stays valid, and a use costs one load.

use std::sync::{Arc, OnceLock};

use seawall_sync::atomic::{AtomicBool, Ordering};
use seawall_types::{Lsn, TimelineId};
use seawall_wal::{Log, LogStream, LogStreamError, OpenLog, ReceivedLog};

use crate::log::parking::Parking;

/// See the module.
#[derive(Debug)]
pub(crate) struct EngineLog {
    written: OnceLock<OpenLog>,
    /// Of a promoted log: everything that writers rely on is in place.
    takes_writers: AtomicBool,
    /// The log of a standby, also after its promotion.
    received: Option<ReceivedTimeline>,
    /// End of the log when the engine was opened.
    end_at_open: Lsn,
    /// Whether those who write get in.
    pub(crate) parking: Parking,
}

/// The log of a timeline that is or was received, and what followed it. Nothing is taken out: what was lent stays valid.
#[derive(Debug)]
struct ReceivedTimeline {
    log: Arc<ReceivedLog>,
    next: OnceLock<Box<ReceivedTimeline>>,
}

impl ReceivedTimeline {
    fn of(log: ReceivedLog) -> ReceivedTimeline {
        ReceivedTimeline { log: Arc::new(log), next: OnceLock::new() }
    }

    fn last(&self) -> &ReceivedTimeline {
        let mut last = self;
        while let Some(next) = last.next.get() {
            last = next;
        }
        last
    }
}

impl EngineLog {
    /// The log of an engine that appends to it.
    pub(crate) fn written_to(log: OpenLog) -> EngineLog {
        let end_at_open = log.appended();
        EngineLog {
            written: OnceLock::from(log),
            takes_writers: AtomicBool::new(true),
            received: None,
            end_at_open,
            parking: Parking::default(),
        }
    }

    /// The log of an engine that follows another one.
    pub(crate) fn received_by(log: ReceivedLog) -> EngineLog {
        let end_at_open = log.flushed();
        EngineLog {
            written: OnceLock::new(),
            takes_writers: AtomicBool::new(false),
            received: Some(ReceivedTimeline::of(log)),
            end_at_open,
            parking: Parking::default(),
        }
    }

    /// A log that ends at `end`, of an engine that only reads.
    pub(crate) fn only_read(end: Lsn) -> EngineLog {
        EngineLog {
            written: OnceLock::new(),
            takes_writers: AtomicBool::new(false),
            received: None,
            end_at_open: end,
            parking: Parking::default(),
        }
    }

    /// The log, if this engine writes it.
    pub(crate) fn written(&self) -> Option<&Log> {
        self.written.get().map(|log| &**log)
    }

    /// The log, if this engine receives it.
    pub(crate) fn received(&self) -> Option<&ReceivedLog> {
        self.last_received().map(|log| &**log).filter(|_| self.written.get().is_none())
    }

    /// The timeline that is written or received; `None` if the log is only read.
    pub(crate) fn timeline(&self) -> Option<TimelineId> {
        let written = self.written().map(|log| log.timeline());
        written.or_else(|| self.last_received().map(|log| log.timeline()))
    }

    fn last_received(&self) -> Option<&Arc<ReceivedLog>> {
        self.received.as_ref().map(|received| &received.last().log)
    }

    /// The log that was received has ended, and the one of the next timeline is received from now on. One call at a time.
    pub(crate) fn receive_next(&self, log: ReceivedLog) {
        let last = self.received.as_ref().expect("only a standby follows").last();
        assert!(
            last.next.set(Box::new(ReceivedTimeline::of(log))).is_ok(),
            "a timeline is followed by one other"
        );
    }

    /// Whether nothing of the database is changed.
    pub(crate) fn is_read_only(&self) -> bool {
        self.written.get().is_none() && self.received.is_none()
    }

    /// Whether transactions may write.
    pub(crate) fn takes_writers(&self) -> bool {
        self.takes_writers.load(Ordering::SeqCst)
    }

    /// Transactions may write from now on.
    pub(crate) fn let_writers_in(&self) {
        self.takes_writers.store(true, Ordering::SeqCst);
    }

    /// The engine received its log, and writes one from now on: its own records, and those of transactions after `let_writers_in`.
    pub(crate) fn become_written(&self, log: OpenLog) {
        assert!(self.received.is_some(), "only a standby is promoted");
        assert!(self.written.set(log).is_ok(), "a standby is promoted once");
    }

    /// Why nothing more is written or received, if so.
    pub(crate) fn failure(&self) -> Option<&str> {
        match (self.written(), self.last_received()) {
            (Some(log), _) => log.poison_cause(),
            (None, Some(log)) => log.poison_cause(),
            (None, None) => None,
        }
    }

    /// End of what is logged.
    pub(crate) fn appended(&self) -> Lsn {
        self.written().map_or_else(|| self.durable_here(), Log::appended)
    }

    /// End of what is durable.
    pub(crate) fn flushed(&self) -> Lsn {
        self.written().map_or_else(|| self.durable_here(), Log::flushed)
    }

    /// The durable end of a log that this server does not write.
    fn durable_here(&self) -> Lsn {
        self.last_received().map_or(self.end_at_open, |log| log.flushed())
    }

    /// A stream of the log's bytes; `None` if this engine only reads.
    pub(crate) fn stream(&self, from: Lsn) -> Option<Result<LogStream, LogStreamError>> {
        match (self.written.get(), self.last_received()) {
            (Some(log), _) => Some(log.stream(from)),
            (None, Some(log)) => Some(log.stream(from)),
            (None, None) => None,
        }
    }
}
