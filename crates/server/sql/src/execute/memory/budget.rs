//! Memory that all statements, and all that sessions keep, have together.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use seawall_values::{SqlError, SqlResult, SqlState};

/// What is taken and given back at a time: statements that keep little ask seldom.
const QUANTUM_BYTES: usize = 16 << 10;

/// How much memory all statements of a database may keep, and how much they do. Whoever asks for more is refused, and nobody else.
#[derive(Debug)]
pub struct MemoryBudget {
    limit: AtomicUsize,
    /// `Relaxed` everywhere: a count that guards no other memory.
    used: AtomicUsize,
}

impl Default for MemoryBudget {
    /// Without a limit.
    fn default() -> MemoryBudget {
        MemoryBudget { limit: AtomicUsize::new(usize::MAX), used: AtomicUsize::new(0) }
    }
}

impl MemoryBudget {
    /// So many bytes in all. What is already kept beyond them stays.
    pub fn set_limit(&self, bytes: usize) {
        self.limit.store(bytes, Ordering::Relaxed);
    }

    /// Bytes that there may be.
    pub fn limit(&self) -> usize {
        self.limit.load(Ordering::Relaxed)
    }

    /// Bytes that are taken.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Whether so little is left that statements put into files what they can.
    pub(crate) fn is_tight(&self) -> bool {
        self.used() > self.limit() / 4 * 3
    }

    fn take(&self, bytes: usize) -> SqlResult<()> {
        let limit = self.limit();
        let sum = |used: usize| used.checked_add(bytes).filter(|sum| *sum <= limit);
        match self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, sum) {
            Ok(_) => Ok(()),
            Err(_) => Err(exhausted(bytes, limit)),
        }
    }

    fn give_back(&self, bytes: usize) {
        let before = self.used.fetch_sub(bytes, Ordering::Relaxed);
        assert!(before >= bytes, "{bytes} bytes are given back of {before} that were taken");
    }
}

#[cold]
fn exhausted(bytes: usize, limit: usize) -> Box<SqlError> {
    SqlError::new(SqlState::OUT_OF_MEMORY, "out of memory")
        .with_detail(format!(
            "The statement asked for {bytes} bytes more, above the limit of {limit} bytes of all statements together."
        ))
        .with_hint("Run fewer statements at a time, or raise server.statement_memory_total.")
}

/// A part of a budget, which is given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Reservation {
    budget: Arc<MemoryBudget>,
    bytes: usize,
}

impl Reservation {
    /// Nothing yet.
    pub(crate) fn of(budget: Arc<MemoryBudget>) -> Reservation {
        Reservation { budget, bytes: 0 }
    }

    /// So much.
    ///
    /// # Errors
    /// `53200`.
    pub(crate) fn take(budget: &Arc<MemoryBudget>, bytes: usize) -> SqlResult<Reservation> {
        budget.take(bytes)?;
        Ok(Reservation { budget: Arc::clone(budget), bytes })
    }

    pub(crate) fn budget(&self) -> &MemoryBudget {
        &self.budget
    }

    /// Has at least so much.
    ///
    /// # Errors
    /// `53200`: what it has stays as it is.
    pub(crate) fn cover(&mut self, bytes: usize) -> SqlResult<()> {
        if bytes > self.bytes {
            let more = (bytes - self.bytes).checked_next_multiple_of(QUANTUM_BYTES).unwrap_or(usize::MAX);
            self.budget.take(more)?;
            self.bytes += more;
        }
        Ok(())
    }

    /// Gives back what it has beyond so much, if that is worth it.
    pub(super) fn trim(&mut self, bytes: usize) {
        let kept = bytes.next_multiple_of(QUANTUM_BYTES);
        if self.bytes > kept + 4 * QUANTUM_BYTES || bytes == 0 {
            self.budget.give_back(self.bytes - kept);
            self.bytes = kept;
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.give_back(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_is_given_back() {
        let budget = Arc::new(MemoryBudget::default());
        budget.set_limit(100 * QUANTUM_BYTES);
        let mut one = Reservation::of(Arc::clone(&budget));
        one.cover(1).unwrap();
        assert_eq!(budget.used(), QUANTUM_BYTES);
        one.cover(QUANTUM_BYTES).unwrap();
        assert_eq!(budget.used(), QUANTUM_BYTES);
        let other = Reservation::take(&budget, 90 * QUANTUM_BYTES).unwrap();
        assert!(budget.is_tight());
        assert_eq!(one.cover(11 * QUANTUM_BYTES).unwrap_err().code, SqlState::OUT_OF_MEMORY);
        assert_eq!(budget.used(), 91 * QUANTUM_BYTES);
        drop(other);
        one.cover(11 * QUANTUM_BYTES).unwrap();
        one.trim(10 * QUANTUM_BYTES);
        assert_eq!(budget.used(), 11 * QUANTUM_BYTES, "a little more is kept");
        one.trim(1);
        assert_eq!(budget.used(), QUANTUM_BYTES);
        drop(one);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn a_lower_limit_takes_nothing_away() {
        let budget = Arc::new(MemoryBudget::default());
        let kept = Reservation::take(&budget, 1000).unwrap();
        budget.set_limit(10);
        assert!(Reservation::take(&budget, 1).is_err());
        drop(kept);
        Reservation::take(&budget, 10).unwrap();
    }
}
