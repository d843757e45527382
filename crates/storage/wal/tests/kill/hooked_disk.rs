//! A simulated disk that calls back in the middle of a call for the log: others append while it is on its way.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::sync::Arc;

use seawall_io::Disk;
use seawall_simulation::{CallKind, ObservedDisk, PendingCall, SimulatedDisk, Verdict};
use seawall_sync::Mutex;

type Hook = Box<dyn FnOnce() + Send>;

#[derive(Clone)]
pub(crate) struct HookedDisk {
    inner: SimulatedDisk,
    hooks: Arc<Mutex<Hooks>>,
}

#[derive(Default)]
struct Hooks {
    next: Option<(CallKind, Hook)>,
    are_mapped_writes_lost: bool,
}

impl HookedDisk {
    pub(crate) fn new(inner: SimulatedDisk) -> HookedDisk {
        HookedDisk { inner, hooks: Arc::default() }
    }

    /// The disk for the log.
    pub(crate) fn disk(&self) -> Arc<dyn Disk> {
        let hooked = self.clone();
        Arc::new(ObservedDisk::new(self.inner.clone(), move |call| hooked.see(call)))
    }

    /// Calls `hook` before the next such call, once.
    pub(crate) fn at_next(&self, kind: impl Into<CallKind>, hook: impl FnOnce() + Send + 'static) {
        self.hooks.lock().next = Some((kind.into(), Box::new(hook)));
    }

    /// From now on, writes to mapped files change nothing.
    pub(crate) fn lose_mapped_writes(&self) {
        self.hooks.lock().are_mapped_writes_lost = true;
    }

    fn see(&self, call: &PendingCall<'_>) -> Verdict {
        let is_of_the_log = call.path.split('/').next() == Some("log");
        let hook = self.hooks.lock().next.take_if(|(next, _)| is_of_the_log && *next == call.kind);
        if let Some((_, hook)) = hook {
            hook();
        }
        let is_lost = call.kind == CallKind::WriteMapped && self.hooks.lock().are_mapped_writes_lost;
        if is_lost { Verdict::Lose } else { Verdict::Make }
    }
}
