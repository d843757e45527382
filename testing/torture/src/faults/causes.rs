//! Which faults may be why a step fails, and for how long.
//!
//! ```text
//!   step 7: checkpoint    step 8: commit    step 9: checkpoint
//!       |  fault on a read                       |
//!       +--> may be why step 7 fails, and no other
//!       |  fault on a page that a thread writes  |
//!       +--------------------------------------->+ may be why any step up to the next checkpoint fails
//! ```
//! A checkpoint returns while a thread still writes its last pages in place. If that fails, whoever changes the tree next is told.
//! Merges of sorted runs come after a checkpoint, whose outcome does not speak of them: a fault there becomes known later, too.
//! Where the database has threads of its own, any fault may become known later, up to the next open: a checkpoint that succeeds does not
//! end an attempt of another thread.

use std::collections::BTreeSet;

use seawall::Error;
use seawall_simulation::{FaultError, Operation, StruckCall};

use super::fault::ENOSPC;

/// The only file that a thread writes after the step that began it has ended.
const WRITTEN_LATER: &str = "pages";

/// What is done after the step that began it has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DoneLater {
    Nothing,
    /// A thread writes pages in place.
    Pages,
    /// Runs are merged once a checkpoint is complete.
    Merges,
    /// Threads of the database do what they do.
    Anything,
}

/// Faults that struck and have not become known yet.
#[derive(Debug)]
pub(super) struct Causes {
    done_later: DoneLater,
    /// Of calls since the step began.
    of_the_step: BTreeSet<FaultError>,
    /// Those of them that may become known with a later one.
    of_the_step_or_later: BTreeSet<FaultError>,
    /// Of calls before it that may have done so, since the last checkpoint that was seen to succeed.
    of_before: BTreeSet<FaultError>,
    /// A sync of the pages has failed, which may have lost what was written to any of them.
    may_have_lost_pages: bool,
    /// A checkpoint may have failed, so the log may hold more rows than one leaves there.
    may_have_long_log: bool,
}

impl Causes {
    pub(super) fn new(done_later: DoneLater) -> Causes {
        Causes {
            done_later,
            of_the_step: BTreeSet::new(),
            of_the_step_or_later: BTreeSet::new(),
            of_before: BTreeSet::new(),
            may_have_lost_pages: false,
            may_have_long_log: false,
        }
    }

    /// A call failed.
    pub(super) fn note(&mut self, call: &StruckCall) {
        // A call that said that all was well is no reason for an error.
        if matches!(call.error, FaultError::Swallowed | FaultError::Dropped) {
            return;
        }
        self.of_the_step.insert(call.error);
        self.may_have_long_log = true;
        self.may_have_lost_pages |= call.operation == Operation::Sync && call.path == WRITTEN_LATER;
        let is_done_later = match self.done_later {
            DoneLater::Nothing => false,
            DoneLater::Pages => call.path == WRITTEN_LATER,
            DoneLater::Merges | DoneLater::Anything => true,
        };
        if is_done_later {
            self.of_the_step_or_later.insert(call.error);
        }
    }

    /// The disk was full until now. A thread may have met that, whatever was opened meanwhile.
    pub(super) fn disk_has_room_again(&mut self) {
        if self.done_later == DoneLater::Anything {
            self.of_the_step_or_later.insert(ENOSPC);
        }
    }

    /// What struck before is no reason for what fails from now on, but for what a thread may have met.
    pub(super) fn step_begins(&mut self) {
        self.of_the_step.clear();
        self.of_before.append(&mut self.of_the_step_or_later);
    }

    /// A checkpoint has succeeded: whatever was on its way before it is done.
    pub(super) fn checkpoint_succeeded(&mut self) {
        self.may_have_long_log = false;
        if self.done_later != DoneLater::Anything {
            self.of_before.clear();
        }
    }

    /// Whether pages may be damaged on the disk until the database is opened again.
    pub(super) fn may_have_lost_pages(&self) -> bool {
        self.may_have_lost_pages
    }

    /// The database is opened anew: nothing of its last life is on its way.
    pub(super) fn opened(&mut self) {
        self.step_begins();
        self.of_before.clear();
        self.may_have_lost_pages = false;
    }

    /// Whether a step can have failed with `error`. `is_full`: the disk has only so much space now.
    pub(super) fn explain(&self, error: &Error, is_full: bool) -> bool {
        let struck = &self.of_the_step | &self.of_before;
        let of_any = is_full || !struck.is_empty();
        let of_the_step = match self.done_later {
            DoneLater::Nothing | DoneLater::Pages | DoneLater::Merges => {
                is_full || !self.of_the_step.is_empty()
            }
            DoneLater::Anything => of_any,
        };
        let is_full = is_full || struck.contains(&ENOSPC);
        match error {
            Error::DiskFull { message } => is_full && !message.is_empty(),
            Error::Log { message: text } | Error::Keys { message: text } => of_the_step && !text.is_empty(),
            Error::Stopped { cause: text }
            | Error::Tree { message: text }
            | Error::Io { message: text }
            | Error::CheckpointFailing { cause: text } => of_any && !text.is_empty(),
            // Of a read-only open. How long the log is depends on when the threads take checkpoints, and on whether they fail.
            Error::Option { name: "memory.memtable_bytes", .. } => {
                self.done_later == DoneLater::Anything || self.may_have_long_log
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EIO: FaultError = FaultError::Number(5);

    fn struck(causes: &mut Causes, operation: Operation, path: &str, error: FaultError) {
        causes.note(&StruckCall { operation, path: path.to_owned(), error });
    }

    fn damaged() -> Error {
        Error::Tree { message: "page 7 is not the one that was written last".to_owned() }
    }

    #[test]
    fn a_fault_explains_the_step_that_it_strikes_and_no_later_one() {
        for done_later in [DoneLater::Nothing, DoneLater::Pages] {
            let mut causes = Causes::new(done_later);
            causes.step_begins();
            assert!(!causes.explain(&damaged(), false), "nothing has struck");
            struck(&mut causes, Operation::Read, "log/000000010000000000000001", EIO);
            assert!(causes.explain(&damaged(), false));
            causes.step_begins();
            assert!(!causes.explain(&damaged(), false), "{done_later:?}");
            assert!(!causes.explain(&Error::Stopped { cause: "a sync failed".to_owned() }, false));
        }
    }

    #[test]
    fn a_log_is_longer_than_a_checkpoint_leaves_it_only_after_a_fault() {
        let refused =
            Error::Option { name: "memory.memtable_bytes", problem: "too little to open this".to_owned() };
        let mut causes = Causes::new(DoneLater::Merges);
        assert!(!causes.explain(&refused, false));
        struck(&mut causes, Operation::Sync, "recovery/chunk", EIO);
        causes.opened();
        assert!(causes.explain(&refused, false), "the checkpoint of the life before has failed");
        causes.checkpoint_succeeded();
        assert!(!causes.explain(&refused, false));
    }

    #[test]
    fn a_page_that_a_thread_writes_may_fail_later_until_a_checkpoint_succeeds() {
        let full = Error::DiskFull { message: "no space".to_owned() };
        let mut causes = Causes::new(DoneLater::Pages);
        struck(&mut causes, Operation::Write, "pages", ENOSPC);
        for _ in 0..3 {
            causes.step_begins();
            assert!(causes.explain(&damaged(), false) && causes.explain(&full, false));
        }
        let log = Error::Log { message: "a record does not verify".to_owned() };
        assert!(!causes.explain(&log, false), "the log has nothing to do with pages");
        causes.checkpoint_succeeded();
        assert!(!causes.explain(&damaged(), false) && !causes.explain(&full, false));

        let mut without_threads = Causes::new(DoneLater::Nothing);
        struck(&mut without_threads, Operation::Write, "pages", EIO);
        without_threads.step_begins();
        assert!(!without_threads.explain(&damaged(), false));
    }

    #[test]
    fn a_fault_that_a_merge_of_runs_meets_may_become_known_until_a_checkpoint_succeeds() {
        let stopped = Error::Stopped { cause: "the superblock cannot be written".to_owned() };
        let mut causes = Causes::new(DoneLater::Merges);
        struck(&mut causes, Operation::WriteDurable, "superblock", ENOSPC);
        causes.checkpoint_succeeded();
        causes.step_begins();
        assert!(causes.explain(&stopped, false));
        causes.checkpoint_succeeded();
        assert!(!causes.explain(&stopped, false));
    }

    #[test]
    fn any_fault_that_threads_meet_may_become_known_later_until_the_next_open() {
        let mut causes = Causes::new(DoneLater::Anything);
        struck(&mut causes, Operation::WriteDurable, "log/000000010000000000000001", EIO);
        causes.step_begins();
        assert!(causes.explain(&Error::Stopped { cause: "a write failed".to_owned() }, false));
        causes.checkpoint_succeeded();
        assert!(causes.explain(&Error::Stopped { cause: "a write failed".to_owned() }, false));
        causes.opened();
        assert!(!causes.explain(&Error::Stopped { cause: "a write failed".to_owned() }, false));
    }

    #[test]
    fn that_the_disk_was_full_may_become_known_when_it_has_room_again_if_there_are_threads() {
        let full = Error::DiskFull { message: "no space".to_owned() };
        for done_later in [DoneLater::Nothing, DoneLater::Pages, DoneLater::Anything] {
            let mut causes = Causes::new(done_later);
            causes.opened();
            assert!(causes.explain(&full, true));
            causes.disk_has_room_again();
            causes.step_begins();
            assert_eq!(causes.explain(&full, false), done_later == DoneLater::Anything, "{done_later:?}");
            causes.opened();
            assert!(!causes.explain(&full, false));
        }
    }

    #[test]
    fn a_failed_sync_of_the_pages_may_have_lost_some_until_the_next_open() {
        let mut causes = Causes::new(DoneLater::Nothing);
        struck(&mut causes, Operation::Sync, "log", EIO);
        struck(&mut causes, Operation::Write, "pages", EIO);
        assert!(!causes.may_have_lost_pages());
        struck(&mut causes, Operation::Sync, "pages", EIO);
        causes.step_begins();
        assert!(causes.may_have_lost_pages());
        causes.opened();
        assert!(!causes.may_have_lost_pages());
    }

    #[test]
    fn a_call_that_says_that_all_is_well_explains_nothing() {
        let mut causes = Causes::new(DoneLater::Anything);
        struck(&mut causes, Operation::Write, "pages", FaultError::Dropped);
        struck(&mut causes, Operation::Sync, "pages", FaultError::Swallowed);
        assert!(!causes.explain(&damaged(), false));
    }
}
