//! Uploads that have begun, and what becomes of them if a panic ends their thread.

use std::time::Duration;

use super::Pusher;
use super::failure::Failure;
use super::queue::{Outcome, Task};

/// Uploads of one file that have begun. If a panic ends them they have failed: the file is tried again, and the commands that wait
/// for it are answered.
pub(super) struct Begun<'a> {
    pusher: &'a Pusher,
    task: &'a Task,
    destinations: &'a [usize],
    /// Bytes on their way to each destination.
    bytes: u64,
    /// Read here, since a clock may be what panics.
    since: Duration,
}

impl<'a> Begun<'a> {
    /// Uploads of which nothing is on its way yet.
    pub(super) fn new(pusher: &'a Pusher, task: &'a Task, destinations: &'a [usize]) -> Begun<'a> {
        Begun { pusher, task, destinations, bytes: 0, since: pusher.shared.clock.monotonic() }
    }

    /// So many bytes are on their way to each destination.
    pub(super) fn send(&mut self, bytes: u64) {
        let mut state = self.pusher.state.lock();
        for destination in self.destinations {
            state.queue.destinations[*destination].begin(bytes);
        }
        self.bytes = bytes;
    }

    /// They have arrived, or have not.
    pub(super) fn end(mut self) {
        self.take_back();
    }

    fn take_back(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        if bytes == 0 {
            return;
        }
        let mut state = self.pusher.state.lock();
        for destination in self.destinations {
            state.queue.destinations[*destination].end(bytes);
        }
    }

    fn fail(&self) {
        let (name, pusher) = (&self.task.name, self.pusher);
        let failure = Failure::of_file(format!(
            "internal error while {name} was uploaded: see the panic message in the agent's output, and report it"
        ));
        for destination in self.destinations {
            let outcome =
                pusher.state.lock().queue.finish(name, *destination, None, Err(&failure), self.since);
            if let Outcome::Failed { askers } = outcome {
                Pusher::tell_askers(askers, &pusher.tell(name, &failure));
            }
        }
        pusher.changed.notify_all();
    }
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.take_back();
            self.fail();
        }
    }
}
