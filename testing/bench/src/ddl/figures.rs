//! Figures of a step, each named for it.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::histogram::Histogram;

/// Name and value; the unit is in the name.
pub(super) type Figures = BTreeMap<String, f64>;

/// Figures of a step, as they come.
pub(super) struct Named {
    step: &'static str,
    pub(super) figures: Figures,
}

impl Named {
    pub(super) fn new(step: &'static str) -> Named {
        Named { step, figures: Figures::new() }
    }

    pub(super) fn set(&mut self, name: &str, value: f64) {
        self.figures.insert(format!("{}_{name}", self.step), value);
    }

    /// Count, rate and latencies of operations by all sessions.
    pub(super) fn set_operations(&mut self, histogram: &Histogram, elapsed: Duration) {
        self.set("per_second", histogram.count() as f64 / elapsed.as_secs_f64());
        self.set("seconds", elapsed.as_secs_f64());
        self.set("p50_us", histogram.quantile_micros(0.5));
        self.set("p99_us", histogram.quantile_micros(0.99));
        self.set("max_us", histogram.max_micros());
    }
}

pub(super) fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / 1_048_576.0
}
