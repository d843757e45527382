//! How long the log takes to a receiver: from when it was durable here to when the receiver has written, synced and applied it.
//!
//! ```text
//!   durable here, time --> samples --> receiver says: written, durable, applied up to ..   the newest sample up to there tells the lag
//! ```
//! As PostgreSQL's: a receiver that is slow makes the samples coarser, never more.

use std::collections::VecDeque;

use seawall_types::Lsn;

use crate::message::Progress;

/// Samples that are kept. Beyond, every other one goes.
const SAMPLES_MAX: usize = 1024;

/// How far a receiver lags, in microseconds; `None` until that is known, and when it has everything and nothing new came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lag {
    /// Handed to the receiver's system: network.
    pub write_micros: Option<i64>,
    /// Durable there: its disk, too.
    pub flush_micros: Option<i64>,
    /// Seen by its readers: applying, too.
    pub replay_micros: Option<i64>,
}

/// Measures the lag of one receiver.
#[derive(Debug, Default)]
pub struct LagTracker {
    /// When the log up to a position was sent first, oldest first.
    samples: VecDeque<(Lsn, i64)>,
    progress: Progress,
    lag: Lag,
}

impl LagTracker {
    /// The log up to `end` is durable here, and was given to the receiver.
    pub fn sent(&mut self, end: Lsn, now_micros: i64) {
        if self.samples.back().is_some_and(|(last, _)| *last >= end) {
            return;
        }
        if self.samples.len() >= SAMPLES_MAX {
            let mut index = 0;
            self.samples.retain(|_| {
                index += 1;
                index % 2 == 0
            });
        }
        self.samples.push_back((end, now_micros));
    }

    /// The receiver says how far it is.
    pub fn acknowledged(&mut self, progress: Progress, now_micros: i64) {
        let (before, lag) = (self.progress, &mut self.lag);
        let samples = &self.samples;
        let lag_at = |position: Lsn| {
            let count = samples.partition_point(|(end, _)| *end <= position);
            let (_, sent) = samples.get(count.checked_sub(1)?)?;
            Some(now_micros.saturating_sub(*sent).max(0))
        };
        let is_idle = progress == before && samples.is_empty();
        for (micros, position, moved) in [
            (&mut lag.write_micros, progress.written, progress.written > before.written),
            (&mut lag.flush_micros, progress.flushed, progress.flushed > before.flushed),
            (&mut lag.replay_micros, progress.applied, progress.applied > before.applied),
        ] {
            if is_idle {
                *micros = None;
            } else if moved {
                *micros = lag_at(position).or(*micros);
            }
        }
        let done = samples.partition_point(|(end, _)| *end <= progress.applied);
        self.samples.drain(..done);
        self.progress = progress;
    }

    /// What was measured last.
    pub fn lag(&self) -> Lag {
        self.lag
    }

    /// When the oldest log was sent that the receiver does not show; `None`: it shows all.
    pub fn behind_since_micros(&self) -> Option<i64> {
        self.samples.front().map(|(_, sent)| *sent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(written: u64, flushed: u64, applied: u64) -> Progress {
        Progress { written: Lsn::new(written), flushed: Lsn::new(flushed), applied: Lsn::new(applied) }
    }

    #[test]
    fn each_step_of_a_receiver_has_its_lag() {
        let mut tracker = LagTracker::default();
        tracker.sent(Lsn::new(100), 1_000);
        tracker.sent(Lsn::new(200), 2_000);
        tracker.acknowledged(progress(200, 100, 0), 2_500);
        let expected = Lag { write_micros: Some(500), flush_micros: Some(1_500), replay_micros: None };
        assert_eq!(tracker.lag(), expected);
        assert_eq!(tracker.behind_since_micros(), Some(1_000));
        tracker.acknowledged(progress(200, 200, 200), 4_000);
        let expected = Lag { write_micros: Some(500), flush_micros: Some(2_000), replay_micros: Some(2_000) };
        assert_eq!(tracker.lag(), expected);
        assert_eq!(tracker.behind_since_micros(), None);
        // Nothing new: what was measured does not stay for ever.
        tracker.acknowledged(progress(200, 200, 200), 14_000);
        assert_eq!(tracker.lag(), Lag::default());
    }

    #[test]
    fn a_receiver_that_says_nothing_takes_no_more_memory() {
        let mut tracker = LagTracker::default();
        for number in 1..100_000 {
            tracker.sent(Lsn::new(number), number.cast_signed());
            assert!(tracker.samples.len() <= SAMPLES_MAX);
        }
        tracker.acknowledged(progress(99_999, 99_999, 99_999), 100_000);
        assert_eq!(tracker.lag().replay_micros, Some(1));
    }
}
