//! Counts the recorded decisions of rules, whose number is limited.

use seawall_sync::Mutex;

use crate::error::Error;

/// Decisions that are recorded or about to be, once they were counted.
#[derive(Debug, Default)]
pub(crate) struct DecisionCount(Mutex<Option<usize>>);

impl DecisionCount {
    /// Counts one more, if there are fewer than `limit`; whether there were. `count` counts those on record.
    pub(crate) fn reserve(
        &self,
        limit: usize,
        count: impl FnOnce() -> Result<usize, Error>,
    ) -> Result<bool, Error> {
        let mut known = self.0.lock();
        let count = match *known {
            Some(count) => count,
            None => count()?,
        };
        let has_room = count < limit;
        *known = Some(count + usize::from(has_room));
        Ok(has_room)
    }

    /// So many are gone, or did not come after all.
    pub(crate) fn forget(&self, gone: usize) {
        if let Some(count) = &mut *self.0.lock() {
            *count = count.saturating_sub(gone);
        }
    }

    #[cfg(test)]
    pub(crate) fn set(&self, count: usize) {
        *self.0.lock() = Some(count);
    }
}
