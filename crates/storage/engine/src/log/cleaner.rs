//! When the log is cleaned up: by a thread of its own, so that neither a commit nor a checkpoint nor opening waits for a file
//! system to free files. Closing removes a few.
//!
//! ```text
//!   checkpoint ended ---+
//!   holder moved on  ---+--> want_cleaning --> thread: batch after batch (`wal::retention`), resting three times as long
//!   opened           ---+                              after each file as it took
//! ```
//! With `Background::Manual` whoever runs a checkpoint does it, all at once and in a repeatable order.
//!
//! **If the power goes**, nothing is to be made up for: see `wal::retention`. What the last process left is cleaned up by the
//! next one soon after it has opened, not on the way.

use std::ops::ControlFlow;
use std::time::Duration;

use seawall_types::Lsn;

use crate::engine::Engine;
use crate::error::Error;

/// How often the thread looks for holders that are over their limit, or have moved on in silence.
const IDLE: Duration = Duration::from_secs(1);
/// How long it waits after an error.
const RETRY: Duration = Duration::from_secs(1);
/// Rest after each removed or recycled file, as a multiple of the time that it took: the disk belongs to others.
const REST: u32 = 3;
const REST_MAX: Duration = Duration::from_millis(500);
/// Files that a close removes: so that a database that is only ever opened for a moment is cleaned up, too.
const FILES_AT_CLOSE: u32 = 32;

impl Engine {
    /// A checkpoint has ended, and both copies of the superblock say so.
    pub(crate) fn clean_log_up_to(&self, redo_point: Lsn) -> Result<(), Error> {
        let Some(log) = self.log.written() else {
            return match self.log.received() {
                Some(log) => {
                    log.retain_from(redo_point)?;
                    if self.is_manual() { self.prepare_segments().map_err(Error::from) } else { Ok(()) }
                }
                None => Ok(()),
            };
        };
        if self.is_manual() {
            return log.retain_from(redo_point).map(|_| ()).map_err(Error::from);
        }
        log.redo_point_moved(redo_point);
        self.background.want_cleaning();
        Ok(())
    }

    /// The last of it, within bounds.
    pub(crate) fn clean_log_at_close(&self) {
        let Some(log) = self.log.written().filter(|log| !self.is_manual() && log.needs_clean_up()) else {
            return;
        };
        let mut left = FILES_AT_CLOSE;
        let removed = log.remove_unneeded(&mut || {
            left -= 1;
            if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        if let Err(error) = removed {
            tracing::warn!(%error, "log segments that are not needed are left; the next open removes them");
        }
    }

    /// The thread.
    pub(crate) fn keep_log_clean(&self) {
        let background = &self.background;
        let mut has_begun = false;
        loop {
            let seen = background.clean_work.read();
            if background.stopping() {
                return;
            }
            // A bug in there must not let the log fill the disk without a word.
            let cleaned = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                if has_begun { self.clean_one_batch() } else { self.take_up_redo_point() }
            }));
            let panicked = |_| Err(Error::Log { message: "cleaning it up panicked".to_owned() });
            let left = cleaned.unwrap_or_else(panicked);
            has_begun |= left.is_ok();
            match left {
                Ok(0) => background.clean_work.wait(seen, Some(IDLE)),
                Ok(_) => {}
                Err(error) => {
                    tracing::error!(%error, "the log is not cleaned up; this will be tried again");
                    if self.lifecycle.check_writable().is_err() {
                        return;
                    }
                    background.clean_work.wait(seen, Some(RETRY));
                }
            }
        }
    }

    /// After a crash, the copy of the superblock that is not in force may have an older redo point, and needs segments from
    /// there on should the other copy be damaged: before they go, it is written anew. Then there may be segments to clean up.
    fn take_up_redo_point(&self) -> Result<u64, Error> {
        let Some(log) = self.log.written() else { return Ok(0) };
        let _turn = self.checkpoint_turn.take();
        let redo_point = self.redo.point();
        if log.would_free(redo_point) {
            let _storing = self.redo.storing();
            self.tree
                .store_superblock(&self.redo.superblock())
                .map_err(|error| self.tree_write_error(&error))?;
        }
        log.recovery_starts_at(redo_point);
        Ok(log.count_unneeded())
    }

    /// Segments that are left to clean up.
    fn clean_one_batch(&self) -> Result<u64, Error> {
        let Some(log) = self.log.written().filter(|log| log.needs_clean_up()) else { return Ok(0) };
        let mut begun = self.clock().monotonic();
        let cleaned = log.clean_up(&mut || {
            let worked = self.clock().monotonic().saturating_sub(begun);
            self.background.rest((worked * REST).min(REST_MAX));
            begun = self.clock().monotonic();
            if self.background.stopping() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        // What was given up for an archive is on record the sooner, and nobody waits for it any more.
        self.archivers
            .all()
            .iter()
            .filter(|archiver| !archiver.is_held())
            .for_each(|archiver| archiver.look());
        let report = cleaned?;
        tracing::debug!(?report, "a batch of log segments was cleaned up");
        // Nothing more can be done now about what is left.
        Ok(if report.batches == 0 { 0 } else { report.left })
    }
}
