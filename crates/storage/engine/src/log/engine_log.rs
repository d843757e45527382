//! The log of an open engine: written by this engine, or only read.
//!
//! Every place that appends asks [`EngineLog::written`] at the moment of use, so an engine whose log is not written at first may
//! begin to write one while readers go on. A written log stays the engine's log until the engine is closed: what was lent to a
//! caller stays valid, and a use costs one load.

use std::sync::OnceLock;

use seawall_types::Lsn;
use seawall_wal::{Log, OpenLog};

/// See the module.
#[derive(Debug)]
pub(crate) struct EngineLog {
    written: OnceLock<OpenLog>,
    /// End of the log of an engine that writes none.
    end: Lsn,
}

impl EngineLog {
    /// The log of an engine that appends to it.
    pub(crate) fn written_to(log: OpenLog) -> EngineLog {
        let end = log.appended();
        EngineLog { written: OnceLock::from(log), end }
    }

    /// A log that ends at `end`, of an engine that only reads.
    pub(crate) fn only_read(end: Lsn) -> EngineLog {
        EngineLog { written: OnceLock::new(), end }
    }

    /// The log, if this engine writes it.
    pub(crate) fn written(&self) -> Option<&Log> {
        self.written.get().map(|log| &**log)
    }

    /// End of what is logged.
    pub(crate) fn appended(&self) -> Lsn {
        self.written().map_or(self.end, Log::appended)
    }

    /// End of what is durable.
    pub(crate) fn flushed(&self) -> Lsn {
        self.written().map_or(self.end, Log::flushed)
    }
}
