//! Durations counted in classes: how many were not longer than each of a few ends. Counting takes no latch, and no memory.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper ends of the classes, in microseconds. One more class has what is longer than all of them.
const ENDS: [u64; 16] = [
    50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000,
    5_000_000, 30_000_000,
];
const CLASSES: usize = ENDS.len() + 1;

/// A histogram that threads add to. Its numbers are `Relaxed`: each is right on its own, and nothing is ordered by them.
#[derive(Debug, Default)]
pub struct DurationCounter {
    counts: [AtomicU64; CLASSES],
    micros: AtomicU64,
}

impl DurationCounter {
    /// Counts one duration.
    pub fn note(&self, duration: Duration) {
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        let class = ENDS.partition_point(|end| *end < micros);
        self.counts[class].fetch_add(1, Ordering::Relaxed);
        self.micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// What was counted so far.
    pub fn read(&self) -> DurationHistogram {
        DurationHistogram {
            counts: std::array::from_fn(|class| self.counts[class].load(Ordering::Relaxed)),
            total_micros: self.micros.load(Ordering::Relaxed),
        }
    }
}

/// A histogram, as it was at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DurationHistogram {
    counts: [u64; CLASSES],
    total_micros: u64,
}

impl DurationHistogram {
    /// How many durations were counted.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Their sum.
    pub fn total(&self) -> Duration {
        Duration::from_micros(self.total_micros)
    }

    /// For each class its end in seconds, `+Inf` for the last, and how many durations were not longer: the buckets of OpenMetrics.
    pub fn buckets(&self) -> impl Iterator<Item = (String, u64)> {
        let ends = ENDS.iter().map(|end| seconds(*end)).chain(["+Inf".to_owned()]);
        let mut sum = 0;
        ends.zip(self.counts).map(move |(end, count)| {
            sum += count;
            (end, sum)
        })
    }

    /// The samples of a family of OpenMetrics. `labels` is empty, or such as `stage="flush",`.
    ///
    /// # Errors
    /// None, as long as `text` takes everything: a `String` does.
    pub fn write(&self, text: &mut impl std::fmt::Write, name: &str, labels: &str) -> std::fmt::Result {
        for (end, count) in self.buckets() {
            writeln!(text, "{name}_bucket{{{labels}le=\"{end}\"}} {count}")?;
        }
        let alone = labels.trim_end_matches(',');
        let alone = if alone.is_empty() { String::new() } else { format!("{{{alone}}}") };
        writeln!(text, "{name}_count{alone} {}", self.count())?;
        writeln!(text, "{name}_sum{alone} {}", seconds(self.total_micros))
    }
}

fn seconds(micros: u64) -> String {
    format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_counts_what_is_not_longer() {
        let counter = DurationCounter::default();
        [50, 51, 40_000_000].into_iter().for_each(|micros| counter.note(Duration::from_micros(micros)));
        let histogram = counter.read();
        let mut text = String::new();
        histogram.write(&mut text, "d", "").unwrap();
        assert!(text.starts_with("d_bucket{le=\"0.000050\"} 1\nd_bucket{le=\"0.000100\"} 2\n"), "{text}");
        assert!(text.ends_with(
            "d_bucket{le=\"30.000000\"} 2\nd_bucket{le=\"+Inf\"} 3\nd_count 3\nd_sum 40.000101\n"
        ));
        assert_eq!((histogram.count(), histogram.total()), (3, Duration::from_micros(40_000_101)));
    }

    #[test]
    fn labels_are_on_every_sample() {
        let mut text = String::new();
        DurationHistogram::default().write(&mut text, "d", "stage=\"flush\",").unwrap();
        assert!(text.starts_with("d_bucket{stage=\"flush\",le=\"0.000050\"} 0\n"), "{text}");
        assert!(text.ends_with("d_count{stage=\"flush\"} 0\nd_sum{stage=\"flush\"} 0.000000\n"), "{text}");
    }
}
