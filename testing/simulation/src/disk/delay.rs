//! Calls that take their time: so much on a clock, or until somebody lets them go.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use seawall_io::Clock;

use super::call::Operation;
use super::fault::FaultTarget;

/// Calls that take longer than others, and then do what they are for, or fail if a fault is waiting for them.
#[derive(Clone, Debug)]
pub struct Delay {
    /// Which calls.
    pub target: FaultTarget,
    /// How long each takes.
    pub duration: Duration,
    /// How many of them are as fast as ever first.
    pub skip: u64,
    /// How many of them are then slow.
    pub count: u64,
}

/// Holds calls until it is opened or dropped: a disk that answers nothing for a while, however long that is.
#[derive(Debug)]
pub struct Gate(Arc<GateState>);

/// A call that a test waits for comes within this, or never.
const AWAITED: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
struct GateState {
    inside: Mutex<Inside>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Inside {
    is_open: bool,
    waiting: u64,
}

impl Gate {
    /// Waits until so many calls wait here.
    ///
    /// # Panics
    /// If they do not come within a minute.
    pub fn await_waiting(&self, calls: u64) {
        let mut inside = self.0.inside.lock();
        let waited = self.0.changed.wait_while_for(&mut inside, |inside| inside.waiting < calls, AWAITED);
        assert!(!waited.timed_out(), "{} of {calls} calls came to a gate within {AWAITED:?}", inside.waiting);
    }

    /// How many calls wait here now.
    pub fn waiting(&self) -> u64 {
        self.0.inside.lock().waiting
    }

    /// Lets all calls go on, those that come later too.
    pub fn open(&self) {
        self.0.inside.lock().is_open = true;
        self.0.changed.notify_all();
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.open();
    }
}

impl GateState {
    fn pass(&self) {
        let mut inside = self.inside.lock();
        inside.waiting += 1;
        self.changed.notify_all();
        self.changed.wait_while(&mut inside, |inside| !inside.is_open);
        inside.waiting -= 1;
    }
}

/// What a call has to wait for.
pub(super) enum Wait {
    Clock(Arc<dyn Clock>, Duration),
    Gate(Arc<GateHandle>),
}

/// The disk's side of a gate.
pub(super) struct GateHandle {
    target: FaultTarget,
    state: Arc<GateState>,
}

impl Wait {
    pub(super) fn wait(self) {
        match self {
            Wait::Clock(clock, duration) => clock.sleep(duration),
            Wait::Gate(gate) => gate.state.pass(),
        }
    }
}

/// All that is slow about a disk.
#[derive(Clone, Default)]
pub(super) struct Delays {
    waiting: Vec<(Delay, Arc<dyn Clock>)>,
    gates: Vec<Arc<GateHandle>>,
}

impl Delays {
    pub(super) fn add(&mut self, delay: Delay, clock: Arc<dyn Clock>) {
        self.waiting.push((delay, clock));
    }

    pub(super) fn hold(&mut self, target: FaultTarget) -> Gate {
        let state = Arc::new(GateState::default());
        self.gates.retain(|gate| !gate.state.inside.lock().is_open);
        self.gates.push(Arc::new(GateHandle { target, state: Arc::clone(&state) }));
        Gate(state)
    }

    /// No call is slow any more; those that wait at a gate go on waiting for it.
    pub(super) fn clear(&mut self) {
        self.waiting.clear();
        self.gates.clear();
    }

    /// What this call has to wait for.
    pub(super) fn of(&mut self, operation: Operation, paths: [&str; 2], call: Option<u64>) -> Vec<Wait> {
        self.waiting.retain(|(delay, _)| delay.count > 0);
        let mut waits = Vec::new();
        for (delay, clock) in &mut self.waiting {
            if !delay.target.is_meant(operation, paths, call) {
                continue;
            }
            if delay.skip > 0 {
                delay.skip -= 1;
            } else {
                delay.count -= 1;
                waits.push(Wait::Clock(Arc::clone(clock), delay.duration));
            }
        }
        let held = self.gates.iter().filter(|gate| gate.target.is_meant(operation, paths, call));
        waits.extend(held.map(|gate| Wait::Gate(Arc::clone(gate))));
        waits
    }
}

impl fmt::Debug for Delays {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Delays")
            .field("waiting", &self.waiting.len())
            .field("gates", &self.gates.len())
            .finish()
    }
}
