//! A simulated disk that keeps, for each call, what would be left if the power went during it.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use seawall_io::Disk;
use seawall_simulation::{ObservedDisk, PendingCall, SimulatedDisk, Verdict};

use crate::progress::SharedProgress;
use crate::state::State;

/// A disk whose power went during a call.
pub struct CrashPoint {
    /// Number of the call, from 0.
    pub index: u64,
    /// Which call it was.
    pub call: String,
    /// What it did with which kind of file.
    pub kind: String,
    /// Without power; `after_power_loss` gives what a restart finds.
    pub disk: SimulatedDisk,
    /// What the database may hold, newest first.
    pub candidates: Vec<Arc<State>>,
    /// What it may hold if only the process ends: no acknowledged commit is missing.
    pub survivors: Vec<Arc<State>>,
}

/// Called with a description of each call, in the middle of it, before it has done anything.
pub type Observer = Arc<dyn Fn(&str) + Send + Sync>;

/// A disk that copies itself in each call, with the power gone. See the module.
#[derive(Clone)]
pub struct WatchedDisk {
    inner: SimulatedDisk,
    progress: SharedProgress,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Default)]
struct Seen {
    observer: Option<Observer>,
    calls: u64,
    /// The calls whose points are kept; `None`: all.
    wanted: Option<BTreeSet<u64>>,
    points: Vec<CrashPoint>,
    /// Of so many syncs one does nothing.
    lose_syncs: Option<u64>,
    syncs: u64,
}

impl fmt::Debug for WatchedDisk {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("WatchedDisk")
    }
}

impl WatchedDisk {
    /// Watches what is done with `inner`; `progress` says what may be in the database meanwhile.
    pub fn new(inner: SimulatedDisk, progress: SharedProgress) -> WatchedDisk {
        WatchedDisk { inner, progress, seen: Arc::default() }
    }

    /// The disk for the database.
    pub fn disk(&self) -> Arc<dyn Disk> {
        let watched = self.clone();
        Arc::new(ObservedDisk::new(self.inner.clone(), move |call| watched.see(call)))
    }

    /// From now on `observer` hears of each call.
    pub fn observe(&self, observer: Option<Observer>) {
        self.seen.lock().observer = observer;
    }

    /// Keeps only the crash points in these calls.
    pub fn watch_only(&self, calls: BTreeSet<u64>) {
        self.seen.lock().wanted = Some(calls);
    }

    /// Lets the disk lie: of so many syncs, of files and directories, one makes nothing durable.
    pub fn lose_syncs(&self, one_in: Option<u64>) {
        self.seen.lock().lose_syncs = one_in;
    }

    /// Whether this sync is one that the disk lies about.
    fn loses_sync(&self) -> bool {
        let mut seen = self.seen.lock();
        seen.syncs += 1;
        seen.lose_syncs.is_some_and(|one_in| seen.syncs.is_multiple_of(one_in))
    }

    /// Cuts the power now.
    pub fn crash(&self) {
        self.inner.crash();
    }

    /// The points since the last call of this.
    pub fn take_points(&self) -> Vec<CrashPoint> {
        std::mem::take(&mut self.seen.lock().points)
    }

    fn see(&self, call: &PendingCall<'_>) -> Verdict {
        if call.kind.is_counted() {
            self.watch(call);
        }
        if call.kind.is_sync() && self.loses_sync() { Verdict::Lose } else { Verdict::Make }
    }

    /// Makes the call on a copy that loses power in it.
    fn watch(&self, call: &PendingCall<'_>) {
        let (copy, candidates, survivors) = {
            // Held, so that no commit of another thread comes between the copy and what may be in it.
            let progress = self.progress.lock();
            (self.inner.copy(), progress.candidates(), progress.survivors())
        };
        copy.crash_at(0);
        let outcome = call.make_on(&copy);
        // A call that changes nothing is not counted, and one that is refused does nothing.
        if outcome.is_ok() || !copy.crashed() {
            return;
        }
        let trace = copy.trace();
        let call = trace.last().expect("the power went in a call");
        let name = call.to_string();
        let file = call.path.split(['/', '.']).next().unwrap_or_default();
        let kind = format!("{} {file}", call.operation.verb());
        let observer = self.seen.lock().observer.clone();
        observer.inspect(|observer| observer(&name));
        let seen = &mut *self.seen.lock();
        if seen.wanted.as_ref().is_none_or(|wanted| wanted.contains(&seen.calls)) {
            seen.points.push(CrashPoint {
                index: seen.calls,
                call: name,
                kind,
                disk: copy,
                candidates,
                survivors,
            });
        }
        seen.calls += 1;
    }
}
