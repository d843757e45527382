//! The events that a log reports to its owner.

use std::fmt::Debug;

use seawall_types::Lsn;

/// Hears from the log, on whatever thread something happens. It is given when the log is opened, and may be called before that
/// returns. Each call must be short and may not call the log's waiting methods.
pub trait LogObserver: Debug + Send + Sync {
    /// Everything before `flushed` is durable. Called after each flush, before the threads that wait for it wake.
    fn flushed(&self, _flushed: Lsn) {}

    /// Fewer spare segments are ready than the options want: it is time to call [`crate::Log::prepare_ahead`] or
    /// [`crate::Log::clean_up`].
    fn spares_low(&self) {}

    /// The log takes no more writes, because one of its own failed. May be called more than once.
    fn poisoned(&self) {}
}
