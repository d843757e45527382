//! Latencies, counted in buckets that grow with the latency: 64 for each power of two, so that a quantile is at most
//! 1.6% too high, over the whole range of nanoseconds, in 30 KB and one addition a record.

use std::time::Duration;

const SUB_BUCKET_BITS: u32 = 6;
const SUB_BUCKETS: usize = 1 << SUB_BUCKET_BITS;
const BUCKETS: usize = SUB_BUCKETS * (64 - SUB_BUCKET_BITS as usize + 1);

/// How many operations took how long.
#[derive(Clone, Debug)]
pub(crate) struct Histogram {
    buckets: Vec<u64>,
    count: u64,
    sum_nanos: u128,
    max_nanos: u64,
}

impl Histogram {
    pub(crate) fn new() -> Histogram {
        Histogram { buckets: vec![0; BUCKETS], count: 0, sum_nanos: 0, max_nanos: 0 }
    }

    pub(crate) fn record(&mut self, latency: Duration) {
        let nanos = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        self.buckets[bucket_of(nanos)] += 1;
        self.count += 1;
        self.sum_nanos += u128::from(nanos);
        self.max_nanos = self.max_nanos.max(nanos);
    }

    pub(crate) fn merge(&mut self, other: &Histogram) {
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine += theirs;
        }
        self.count += other.count;
        self.sum_nanos += other.sum_nanos;
        self.max_nanos = self.max_nanos.max(other.max_nanos);
    }

    /// The latency in microseconds that `share` of the operations did not exceed; 0 if there were none.
    pub(crate) fn quantile_micros(&self, share: f64) -> f64 {
        let wanted = share * self.count as f64;
        let mut below = 0;
        for (bucket, count) in self.buckets.iter().enumerate() {
            below += count;
            if below > 0 && below as f64 >= wanted {
                return last_of(bucket).min(self.max_nanos) as f64 / 1000.0;
            }
        }
        0.0
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Exact, not from the buckets; 0 if there were none.
    pub(crate) fn mean_micros(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum_nanos as f64 / self.count as f64 / 1000.0 }
    }

    pub(crate) fn max_micros(&self) -> f64 {
        self.max_nanos as f64 / 1000.0
    }
}

/// The first `SUB_BUCKETS` hold one value each; from there on the leading bit chooses the row, the next six the bucket.
fn bucket_of(nanos: u64) -> usize {
    let exponent = (nanos | 1).ilog2();
    if exponent < SUB_BUCKET_BITS {
        return usize::try_from(nanos).expect("below the number of sub-buckets");
    }
    let shift = exponent - SUB_BUCKET_BITS;
    let within = usize::try_from(nanos >> shift).expect("seven bits are left") - SUB_BUCKETS;
    (shift as usize + 1) * SUB_BUCKETS + within
}

/// The largest value that falls into `bucket`.
fn last_of(bucket: usize) -> u64 {
    if bucket < SUB_BUCKETS {
        return bucket as u64;
    }
    let shift = bucket / SUB_BUCKETS - 1;
    let first = u128::from((bucket % SUB_BUCKETS + SUB_BUCKETS) as u64) << shift;
    u64::try_from(first + (1 << shift) - 1).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_lies_at_most_a_64th_below_the_end_of_its_bucket() {
        for bits in 0..64 {
            for nanos in [1_u64 << bits, (1 << bits) + (1 << bits) / 3, (1_u64 << bits) - 1, u64::MAX] {
                let last = last_of(bucket_of(nanos));
                assert!(last >= nanos, "{nanos}: bucket ends at {last}");
                assert!(last - nanos <= nanos / 64, "{nanos}: bucket ends at {last}");
            }
        }
    }

    #[test]
    fn quantiles_and_the_maximum_are_found() {
        let mut histogram = Histogram::new();
        assert!(histogram.quantile_micros(0.5) < f64::EPSILON);
        for micros in 1..=1000 {
            histogram.record(Duration::from_micros(micros));
        }
        let mut other = Histogram::new();
        other.record(Duration::from_millis(9));
        histogram.merge(&other);
        let near = |value: f64, wanted: f64| (value / wanted - 1.0).abs() < 0.02;
        assert!(near(histogram.quantile_micros(0.5), 500.0), "{}", histogram.quantile_micros(0.5));
        assert!(near(histogram.quantile_micros(0.99), 990.0), "{}", histogram.quantile_micros(0.99));
        assert!(near(histogram.max_micros(), 9000.0));
        assert!(near(histogram.mean_micros(), (500_500.0 + 9000.0) / 1001.0), "{}", histogram.mean_micros());
    }
}
