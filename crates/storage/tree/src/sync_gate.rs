//! Lets threads prepare what they will write while the sync that it has to wait for is under way.

use seawall_sync::{Condvar, Mutex};

use crate::error::TreeError;

/// Closed until the sync has come back.
#[derive(Debug)]
pub(crate) struct SyncGate {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GateState {
    Closed,
    Open,
    /// The sync failed: nothing may be written.
    Failed,
}

impl SyncGate {
    /// For writers that have nothing to wait for.
    pub(crate) fn open() -> SyncGate {
        SyncGate { state: Mutex::new(GateState::Open), changed: Condvar::new() }
    }

    /// To be opened by the result of a sync.
    pub(crate) fn closed() -> SyncGate {
        SyncGate { state: Mutex::new(GateState::Closed), changed: Condvar::new() }
    }

    fn set(&self, is_synced: bool) {
        *self.state.lock() = if is_synced { GateState::Open } else { GateState::Failed };
        self.changed.notify_all();
    }

    /// Lets the writers give up if this is dropped while they wait: a sync that panics must not leave them waiting.
    pub(crate) fn opener(&self) -> Opener<'_> {
        Opener(self)
    }

    /// Whether a writer may write now.
    pub(crate) fn is_open(&self) -> bool {
        *self.state.lock() == GateState::Open
    }

    /// Waits until it may.
    ///
    /// # Errors
    /// `Unwritable` if the sync failed; the one who called it has the cause.
    pub(crate) fn wait(&self) -> Result<(), TreeError> {
        let mut state = self.state.lock();
        while *state == GateState::Closed {
            self.changed.wait(&mut state);
        }
        match *state {
            GateState::Open => Ok(()),
            GateState::Closed | GateState::Failed => {
                Err(TreeError::Unwritable { reason: "the sync of the pages before failed".to_owned() })
            }
        }
    }
}

/// See [`SyncGate::opener`].
pub(crate) struct Opener<'g>(&'g SyncGate);

impl Opener<'_> {
    /// Lets the writers go on, or give up.
    pub(crate) fn set(self, is_synced: bool) {
        self.0.set(is_synced);
    }
}

impl Drop for Opener<'_> {
    fn drop(&mut self) {
        let is_closed = *self.0.state.lock() == GateState::Closed;
        if is_closed {
            self.0.set(false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writers_give_up_when_the_sync_panics() {
        let gate = SyncGate::closed();
        let waited = std::thread::scope(|scope| {
            let writer = scope.spawn(|| gate.wait());
            drop(gate.opener());
            writer.join().unwrap()
        });
        assert!(waited.is_err());
        let gate = SyncGate::closed();
        gate.opener().set(true);
        assert!(gate.wait().is_ok());
    }
}
