//! Threads that put gaps on record in the repositories, one for each.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Pusher;
use crate::log_line::log_line;

impl Pusher {
    /// Puts gaps on record, where a store answers again: by a thread for each that there is something for.
    pub(super) fn record_gaps(self: &Arc<Pusher>) {
        if self.shared.gaps.count() == 0 {
            return;
        }
        let is_in_trouble: Vec<bool> = self
            .state
            .lock()
            .queue
            .destinations
            .iter()
            .map(|destination| destination.last_trouble().is_some())
            .collect();
        for (index, is_in_trouble) in is_in_trouble.into_iter().enumerate() {
            if is_in_trouble || !self.shared.gaps.are_to_be_recorded(&self.shared.repositories[index]) {
                continue;
            }
            // The last one may hang.
            if self.has_recorder[index].swap(true, Ordering::SeqCst) {
                continue;
            }
            let pusher = Arc::clone(self);
            let started = std::thread::Builder::new().name("gaps".to_owned()).spawn(move || {
                if let Err(problem) = pusher.record_gaps_in([index]) {
                    log_line!("gaps are not on record everywhere yet: {problem}");
                }
                pusher.has_recorder[index].store(false, Ordering::SeqCst);
            });
            if let Err(error) = started {
                log_line!("no thread to record gaps: {error}");
                self.has_recorder[index].store(false, Ordering::SeqCst);
            }
        }
    }

    /// In each of them, whatever another one says; the first problem.
    pub(super) fn record_gaps_in(&self, repositories: impl IntoIterator<Item = usize>) -> Result<(), String> {
        let record = |index| self.shared.gaps.record(&self.shared, index);
        let recorded: Vec<Result<(), String>> = repositories.into_iter().map(record).collect();
        recorded.into_iter().collect()
    }

    /// The repositories that a file is archived in before PostgreSQL is told so.
    pub(super) fn required(&self) -> impl Iterator<Item = usize> {
        let repositories = self.shared.repositories.iter().enumerate();
        repositories.filter(|(_, handle)| handle.is_required).map(|(index, _)| index)
    }
}
