//! The threads of a database: one for checkpoints, one that flushes `Async` commits in time and one that makes segments of
//! the log (`log::keeper`), one that cleans the log up (`log::cleaner`), one for each archive that archives it
//! (`archiver`), one for rules about in-doubt transactions if there are any, and one that publishes statistics. A standby has
//! those for checkpoints and segments, one that applies (`standby::applier`), and one that asks archives what they have
//! (`standby::archive_hold`); the others start with its promotion.
//! That for checkpoints has another one of low priority, for what takes long. The log's own flusher is one more. None is needed for correctness: with
//! `Background::Manual` there are none, and the calling threads do the work.

mod threads;

use std::time::Duration;

use seawall_sync::atomic::{AtomicBool, Ordering};
use seawall_sync::thread::JoinHandle;
use seawall_sync::{Mutex, WaitWord};

/// How often a thread with nothing to do looks around.
pub(crate) const IDLE: Duration = Duration::from_secs(1);

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct BackgroundThreads {
    threads: Mutex<Vec<JoinHandle<()>>>,
    stop: AtomicBool,
    checkpoint_wanted: AtomicBool,
    checkpoint_work: WaitWord,
    pub(crate) flush_wanted: AtomicBool,
    pub(crate) log_work: WaitWord,
    pub(crate) segment_work: WaitWord,
    rules_work: WaitWord,
    /// Held while filters of runs are read: two threads that read them at once would take memory twice.
    pub(crate) filters_turn: Mutex<()>,
    pub(crate) clean_work: WaitWord,
    /// Changes when a standby may have something to apply.
    pub(crate) apply_work: WaitWord,
    /// Changes when the threads are to stop.
    stopped: WaitWord,
}

impl BackgroundThreads {
    /// An `Async` commit was acknowledged and wants to be flushed within the interval.
    pub(crate) fn async_commit(&self) {
        // Read before the swap: while a flush is wanted already, commits share the line and write nothing.
        if !self.flush_wanted.load(Ordering::SeqCst) && !self.flush_wanted.swap(true, Ordering::SeqCst) {
            self.log_work.wake_all();
        }
    }

    /// A limit is reached.
    pub(crate) fn want_checkpoint(&self) {
        if !self.checkpoint_wanted.load(Ordering::SeqCst)
            && !self.checkpoint_wanted.swap(true, Ordering::SeqCst)
        {
            self.checkpoint_work.wake_all();
        }
    }

    /// The log wants segments.
    pub(crate) fn want_segments(&self) {
        self.segment_work.wake_all();
    }

    /// There may be segments that are not needed.
    pub(crate) fn want_cleaning(&self) {
        self.clean_work.wake_all();
    }

    /// Returns after `duration`, or when the threads are to stop.
    pub(crate) fn rest(&self, duration: Duration) {
        let seen = self.stopped.read();
        if !self.stopping() && !duration.is_zero() {
            self.stopped.wait(seen, Some(duration));
        }
    }

    pub(crate) fn stopping(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }
}
