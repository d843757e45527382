//! Latencies of operations: counts, means and quantiles, within a tenth of a percent.

use std::time::Duration;

use hdrhistogram::Histogram as Counts;

/// Significant decimal digits that a latency keeps.
const DIGITS: u8 = 3;

/// How many operations took how long.
#[derive(Clone, Debug)]
pub(crate) struct Histogram {
    nanos: Counts<u64>,
    sum_nanos: u128,
}

impl Histogram {
    pub(crate) fn new() -> Histogram {
        let nanos = Counts::new(DIGITS).expect("three digits are within the limits of the crate");
        Histogram { nanos, sum_nanos: 0 }
    }

    pub(crate) fn record(&mut self, latency: Duration) {
        let nanos = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        self.nanos.record(nanos).expect("a histogram that grows takes every number");
        self.sum_nanos += u128::from(nanos);
    }

    pub(crate) fn merge(&mut self, other: &Histogram) {
        self.nanos.add(&other.nanos).expect("a histogram that grows takes every other one");
        self.sum_nanos += other.sum_nanos;
    }

    /// The latency in microseconds that `share` of the operations did not exceed; 0 if there were none.
    pub(crate) fn quantile_micros(&self, share: f64) -> f64 {
        self.nanos.value_at_quantile(share).min(self.nanos.max()) as f64 / 1000.0
    }

    pub(crate) fn count(&self) -> u64 {
        self.nanos.len()
    }

    /// Exact, not from the buckets; 0 if there were none.
    pub(crate) fn mean_micros(&self) -> f64 {
        if self.nanos.is_empty() {
            return 0.0;
        }
        self.sum_nanos as f64 / self.nanos.len() as f64 / 1000.0
    }

    pub(crate) fn max_micros(&self) -> f64 {
        self.nanos.max() as f64 / 1000.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_the_mean_and_the_maximum_are_found() {
        let mut histogram = Histogram::new();
        assert!(histogram.quantile_micros(0.5) < f64::EPSILON);
        assert!(histogram.mean_micros() < f64::EPSILON);
        for micros in 1..=1000 {
            histogram.record(Duration::from_micros(micros));
        }
        let mut other = Histogram::new();
        other.record(Duration::from_millis(9));
        histogram.merge(&other);
        let near = |value: f64, wanted: f64| (value / wanted - 1.0).abs() < 0.002;
        assert_eq!(histogram.count(), 1001);
        assert!(near(histogram.quantile_micros(0.5), 501.0), "{}", histogram.quantile_micros(0.5));
        assert!(near(histogram.quantile_micros(0.99), 991.0), "{}", histogram.quantile_micros(0.99));
        assert!(near(histogram.max_micros(), 9000.0));
        assert!(near(histogram.mean_micros(), (500_500.0 + 9000.0) / 1001.0), "{}", histogram.mean_micros());
    }

    #[test]
    fn every_duration_is_taken() {
        let mut histogram = Histogram::new();
        histogram.record(Duration::ZERO);
        histogram.record(Duration::MAX);
        assert_eq!(histogram.count(), 2);
    }
}
