//! What other sessions want of one that may be idle: that it gives its client what has come for it, or that it ends.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use seawall_values::SqlResult;

use super::{Session, Sink};

/// Wakes whoever serves a session, from any thread. Called for a session at work, too, and then in vain.
pub type Waker = Arc<dyn Fn() + Send + Sync>;

/// Asks for a session's attention.
#[derive(Clone, Default)]
pub(crate) struct Attention {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    waker: OnceLock<Waker>,
    is_to_end: AtomicBool,
}

impl fmt::Debug for Attention {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Attention, to end: {}", self.is_to_end())
    }
}

impl Attention {
    /// Something has come for it.
    pub(crate) fn call(&self) {
        if let Some(waker) = self.shared.waker.get() {
            waker();
        }
    }

    /// The session is to end, as `pg_terminate_backend` asks for. What it runs is cancelled apart from this.
    pub(crate) fn end(&self) {
        self.shared.is_to_end.store(true, Ordering::SeqCst);
        self.call();
    }

    fn is_to_end(&self) -> bool {
        self.shared.is_to_end.load(Ordering::SeqCst)
    }
}

impl Session {
    /// Says how to wake whoever serves this session: [`Session::attend`] is to be called then. Counts once.
    pub fn set_waker(&mut self, waker: Waker) {
        self.attention.shared.waker.get_or_init(|| waker);
    }

    /// Gives the client of an idle session what has come for it meanwhile.
    ///
    /// # Errors
    /// The receiver is gone.
    pub fn attend(&mut self, sink: &mut dyn Sink) -> SqlResult<()> {
        if self.open.is_none() { self.deliver_notifications(sink) } else { Ok(()) }
    }

    /// Whether another session has ended this one: its connection is to end with `57P01`.
    pub fn is_to_end(&self) -> bool {
        self.attention.is_to_end()
    }
}
