//! The limit of time of the statement under way.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use crate::connections::Entry;

/// Ends a statement that takes longer than its limit. Dropped, it ends none.
pub(crate) struct Alarm<'c> {
    runtime: &'c Handle,
    entry: &'c Arc<Entry>,
    task: Option<AbortHandle>,
}

impl<'c> Alarm<'c> {
    /// Without a limit yet.
    pub(crate) fn new(runtime: &'c Handle, entry: &'c Arc<Entry>) -> Alarm<'c> {
        Alarm { runtime, entry, task: None }
    }

    /// From now on the statement has this limit, and none that was set before.
    pub(crate) fn set(&mut self, limit: Option<Duration>) {
        self.stop();
        let Some(limit) = limit else { return };
        let (entry, number) = (Arc::clone(self.entry), self.entry.set_alarm());
        let ring = async move {
            tokio::time::sleep(limit).await;
            entry.insist_on_limit(number).await;
        };
        self.task = Some(self.runtime.spawn(ring).abort_handle());
    }

    fn stop(&mut self) {
        if let Some(task) = self.task.take() {
            task.abort();
            // The task may be past its last wait.
            self.entry.set_alarm();
        }
    }
}

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        self.stop();
    }
}
