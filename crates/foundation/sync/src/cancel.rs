//! A request that ends what threads wait for.

use std::sync::Arc;
use std::time::Duration;

use crate::Mutex;
use crate::atomic::{AtomicBool, Ordering};
use crate::wait::WaitWord;

/// Ends the waits of threads that sleep under it, from any thread: at once, and for good until it is cleared.
///
/// A thread that never sleeps pays nothing. A thread that does enters the word that it sleeps on, so that a request wakes it.
#[derive(Debug, Default)]
pub struct CancelToken {
    requested: AtomicBool,
    /// A word for each thread that sleeps.
    slept_on: Mutex<Vec<Arc<WaitWord>>>,
}

impl CancelToken {
    /// Whether waits are to end.
    pub fn is_requested(&self) -> bool {
        self.requested.load(Ordering::Relaxed)
    }

    /// Ends all waits, those that begin later too.
    pub fn request(&self) {
        self.requested.store(true, Ordering::SeqCst);
        // Stored first: a thread that is not in the list yet looks at the request after it has entered its word.
        self.slept_on.lock().iter().for_each(|word| word.wake_all());
    }

    /// What was requested before counts no more: a statement begins.
    pub fn clear(&self) {
        if self.is_requested() {
            self.requested.store(false, Ordering::SeqCst);
        }
    }

    /// Sleeps for so long, unless waits are to end; may return early.
    pub fn sleep(&self, time: Duration) {
        let word = Arc::new(WaitWord::new());
        self.wait(&word, word.read(), Some(time));
    }

    /// Sleeps as [`WaitWord::wait`] does, unless waits are to end. Test the condition again, and the request.
    pub fn wait(&self, word: &Arc<WaitWord>, seen: u32, timeout: Option<Duration>) {
        self.slept_on.lock().push(Arc::clone(word));
        if !self.requested.load(Ordering::SeqCst) {
            word.wait(seen, timeout);
        }
        let mut slept_on = self.slept_on.lock();
        if let Some(mine) = slept_on.iter().position(|other| Arc::ptr_eq(other, word)) {
            slept_on.swap_remove(mine);
        }
    }
}
