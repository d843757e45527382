//! The end of all uploads, which the end of the agent waits for.

use std::time::Duration;

use super::Pusher;
use crate::log_line::log_line;

/// A worker thread. Counted until this is dropped, also by a panic.
pub(super) struct Worker<'a>(pub(super) &'a Pusher);

impl Drop for Worker<'_> {
    fn drop(&mut self) {
        self.0.state.lock().workers -= 1;
        self.0.changed.notify_all();
    }
}

/// A file on its way to a required repository. The agent does not end before this is dropped.
pub(super) struct Required<'a>(pub(super) &'a Pusher);

impl Drop for Required<'_> {
    fn drop(&mut self) {
        self.0.state.lock().required_uploads -= 1;
        self.0.changed.notify_all();
    }
}

impl Pusher {
    /// Begins nothing more, and waits for uploads to required repositories. Those to optional ones get as long as `patience`: what
    /// is abandoned then was noted as a pending copy before PostgreSQL was told anything. No command waits for an upload after that.
    pub(in crate::agent) fn end(&self, patience: Duration) {
        let mut state = self.state.lock();
        state.is_ending = true;
        state.queue.drop_hopeless_askers();
        self.changed.notify_all();
        self.shared.transfers.upload_rate.lift();
        self.changed.wait_while(&mut state, |state| state.required_uploads > 0);
        let waited = self.changed.wait_while_for(&mut state, |state| state.workers > 0, patience);
        if waited.timed_out() {
            for (destination, handle) in state.queue.destinations.iter().zip(&self.shared.repositories) {
                let (running, location) = (destination.running, handle.location());
                if running > 0 {
                    log_line!(
                        "the agent ends and abandons {running} uploads to {location}: the next agent resumes them"
                    );
                }
            }
        }
        // An upload that has ended may have left its file to be put once more.
        state.queue.drop_all_askers();
    }
}
