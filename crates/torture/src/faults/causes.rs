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

use std::collections::BTreeSet;

use seawall::Error;
use seawall_simulation::{FaultError, StruckCall};

use super::fault::ENOSPC;

/// The only file that a thread writes after the step that began it has ended.
const WRITTEN_LATER: &str = "pages";

/// Faults that struck and have not become known yet.
#[derive(Debug)]
pub(super) struct Causes {
    /// Whether a thread writes pages after a checkpoint has returned.
    has_page_writer: bool,
    /// Of calls since the step began.
    of_the_step: BTreeSet<FaultError>,
    of_the_step_on_pages: BTreeSet<FaultError>,
    /// Of calls on pages before it, and since the last checkpoint that was seen to end.
    on_pages_before: BTreeSet<FaultError>,
}

impl Causes {
    pub(super) fn new(checkpoint_threads: usize) -> Causes {
        Causes {
            has_page_writer: checkpoint_threads > 1,
            of_the_step: BTreeSet::new(),
            of_the_step_on_pages: BTreeSet::new(),
            on_pages_before: BTreeSet::new(),
        }
    }

    /// A call failed.
    pub(super) fn note(&mut self, call: &StruckCall) {
        // A call that said that all was well is no reason for an error.
        if matches!(call.error, FaultError::Swallowed | FaultError::Dropped) {
            return;
        }
        self.of_the_step.insert(call.error);
        if self.has_page_writer && call.path == WRITTEN_LATER {
            self.of_the_step_on_pages.insert(call.error);
        }
    }

    /// What struck before is no reason for what fails from now on, but for what a thread has met.
    pub(super) fn step_begins(&mut self) {
        self.of_the_step.clear();
        self.on_pages_before.append(&mut self.of_the_step_on_pages);
    }

    /// A checkpoint has succeeded: whatever was written in place before it is written.
    pub(super) fn checkpoint_succeeded(&mut self) {
        self.on_pages_before.clear();
    }

    /// The database is opened anew: nothing of its last life is on its way.
    pub(super) fn opened(&mut self) {
        self.step_begins();
        self.on_pages_before.clear();
    }

    /// Whether a step can have failed with `error`. `is_full`: the disk has only so much space now.
    pub(super) fn explain(&self, error: &Error, is_full: bool) -> bool {
        let struck = &self.of_the_step | &self.on_pages_before;
        let is_full = is_full || struck.contains(&ENOSPC);
        let of_the_step = is_full || !self.of_the_step.is_empty();
        let of_any = is_full || !struck.is_empty();
        match error {
            Error::DiskFull { message } => is_full && !message.is_empty(),
            Error::Log { message: text } | Error::Keys { message: text } => of_the_step && !text.is_empty(),
            Error::Stopped { cause: text }
            | Error::Tree { message: text }
            | Error::Io { message: text }
            | Error::CheckpointFailing { cause: text } => of_any && !text.is_empty(),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use seawall_simulation::Operation;

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
        for threads in [1, 3] {
            let mut causes = Causes::new(threads);
            causes.step_begins();
            assert!(!causes.explain(&damaged(), false), "nothing has struck");
            struck(&mut causes, Operation::Read, "log/000000010000000000000001", EIO);
            assert!(causes.explain(&damaged(), false));
            causes.step_begins();
            assert!(!causes.explain(&damaged(), false), "{threads} threads");
            assert!(!causes.explain(&Error::Stopped { cause: "a sync failed".to_owned() }, false));
        }
    }

    #[test]
    fn a_page_that_a_thread_writes_may_fail_later_until_a_checkpoint_succeeds() {
        let full = Error::DiskFull { message: "no space".to_owned() };
        let mut causes = Causes::new(2);
        struck(&mut causes, Operation::Write, "pages", ENOSPC);
        for _ in 0..3 {
            causes.step_begins();
            assert!(causes.explain(&damaged(), false) && causes.explain(&full, false));
        }
        let log = Error::Log { message: "a record does not verify".to_owned() };
        assert!(!causes.explain(&log, false), "the log has nothing to do with pages");
        causes.checkpoint_succeeded();
        assert!(!causes.explain(&damaged(), false) && !causes.explain(&full, false));

        let mut without_threads = Causes::new(1);
        struck(&mut without_threads, Operation::Write, "pages", EIO);
        without_threads.step_begins();
        assert!(!without_threads.explain(&damaged(), false));
    }

    #[test]
    fn a_call_that_says_that_all_is_well_explains_nothing() {
        let mut causes = Causes::new(2);
        struck(&mut causes, Operation::Write, "pages", FaultError::Dropped);
        struck(&mut causes, Operation::Sync, "pages", FaultError::Swallowed);
        assert!(!causes.explain(&damaged(), false));
    }
}
