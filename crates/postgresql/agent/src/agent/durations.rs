//! A histogram of durations that threads add to: uploads, acknowledgements, downloads.
//!
//! The classes are close enough that a quantile, interpolated within its class, is right to a fifth; mean and longest are exact.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper ends of the classes, in microseconds. One more class has what is longer than all of them.
const ENDS: [u64; 28] = [
    1_000, 1_500, 2_000, 3_000, 5_000, 7_000, 10_000, 15_000, 20_000, 30_000, 50_000, 70_000, 100_000,
    150_000, 200_000, 300_000, 500_000, 700_000, 1_000_000, 1_500_000, 2_000_000, 3_000_000, 5_000_000,
    7_000_000, 10_000_000, 15_000_000, 30_000_000, 60_000_000,
];
const CLASSES: usize = ENDS.len() + 1;

/// Counts durations. Its numbers are `Relaxed`: each is right on its own, and nothing is ordered by them.
#[derive(Debug, Default)]
pub(crate) struct DurationCounter {
    counts: [AtomicU64; CLASSES],
    micros: AtomicU64,
    longest: AtomicU64,
}

impl DurationCounter {
    /// Counts one duration.
    pub(crate) fn note(&self, duration: Duration) {
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        let class = ENDS.partition_point(|end| *end < micros);
        self.counts[class].fetch_add(1, Ordering::Relaxed);
        self.micros.fetch_add(micros, Ordering::Relaxed);
        self.longest.fetch_max(micros, Ordering::Relaxed);
    }

    /// What was counted so far.
    pub(crate) fn read(&self) -> Durations {
        Durations {
            counts: std::array::from_fn(|class| self.counts[class].load(Ordering::Relaxed)),
            micros: self.micros.load(Ordering::Relaxed),
            longest: self.longest.load(Ordering::Relaxed),
        }
    }
}

/// Durations that were counted, as they were at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Durations {
    counts: [u64; CLASSES],
    micros: u64,
    longest: u64,
}

impl Durations {
    /// How many there were.
    pub(crate) fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Their sum.
    pub(crate) fn total(&self) -> Duration {
        Duration::from_micros(self.micros)
    }

    /// The longest of them.
    pub(crate) fn longest(&self) -> Duration {
        Duration::from_micros(self.longest)
    }

    /// The duration that so many percent of them did not exceed, interpolated within its class. `None` if there were none.
    pub(crate) fn percentile(&self, percent: u64) -> Option<Duration> {
        let count = self.count();
        if count == 0 {
            return None;
        }
        let rank = (count * percent).div_ceil(100).max(1);
        let mut before = 0;
        for (class, in_class) in self.counts.iter().enumerate() {
            if before + in_class >= rank {
                let start = if class == 0 { 0 } else { ENDS[class - 1] };
                let end = ENDS.get(class).copied().unwrap_or(u64::MAX).min(self.longest).max(start);
                let within = (end - start) / in_class * (rank - before);
                return Some(Duration::from_micros(start + within));
            }
            before += in_class;
        }
        Some(self.longest())
    }

    /// For each class its end in seconds, `+Inf` for the last, and how many durations were not longer: the buckets of Prometheus.
    pub(crate) fn buckets(&self) -> impl Iterator<Item = (String, u64)> {
        let seconds = |micros: &u64| format!("{}", Duration::from_micros(*micros).as_secs_f64());
        let ends = ENDS.iter().map(seconds).chain(["+Inf".to_owned()]);
        let mut sum = 0;
        ends.zip(self.counts).map(move |(end, count)| {
            sum += count;
            (end, sum)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_near_what_was_counted() {
        let counter = DurationCounter::default();
        assert_eq!((counter.read().percentile(50), counter.read().count()), (None, 0));
        for millis in 1..=1000 {
            counter.note(Duration::from_millis(millis));
        }
        let durations = counter.read();
        assert_eq!((durations.count(), durations.longest()), (1000, Duration::from_secs(1)));
        assert_eq!(durations.total(), Duration::from_micros(500_500_000));
        for (percent, millis) in [(1, 10), (50, 500), (99, 990), (100, 1000)] {
            let found = durations.percentile(percent).unwrap().as_millis();
            assert!(found.abs_diff(millis) <= millis / 5, "{percent} %: {found} ms");
        }
    }

    #[test]
    fn what_is_longer_than_all_classes_is_counted_too() {
        let counter = DurationCounter::default();
        counter.note(Duration::from_secs(500));
        let durations = counter.read();
        assert_eq!(durations.percentile(99), Some(Duration::from_secs(500)));
        let buckets: Vec<(String, u64)> = durations.buckets().collect();
        assert_eq!(buckets.last(), Some(&("+Inf".to_owned(), 1)));
        assert_eq!((buckets[0].0.as_str(), buckets[CLASSES - 2].1), ("0.001", 0));
    }
}
