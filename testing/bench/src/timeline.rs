//! When operations completed: bins of a few milliseconds, a set of them for each thread, merged when the run is over.
//!
//! ```text
//!   bin     |  0  |  1  |  2  |  3  |  4  |      count, first and last completion of each
//!   thread 1   x x   x                  x
//!   thread 2    x     x x               x
//!                      |<--- gap ----->|         between the last of one bin and the first of the next that has any
//! ```
//! A thread writes to its own bins only, so counting costs an addition and shares nothing. A gap shorter than a bin may
//! not be seen; one that is two bins long is exact to a microsecond.

use std::time::Duration;

/// What throughput is shown for; a multiple of every bin width.
pub(crate) const INTERVAL: Duration = Duration::from_millis(100);
const WIDTHS_MILLIS: [u64; 6] = [1, 2, 5, 10, 20, 50];
/// 7 MiB a thread.
const BINS_MAX: u64 = 600_000;

/// Completions of one bin; times in microseconds from its start.
#[derive(Clone, Copy, Debug, Default)]
struct Bin {
    count: u32,
    first: u32,
    last: u32,
}

/// Completions of one thread, or of all after merging.
#[derive(Clone, Debug)]
pub(crate) struct Timeline {
    width_micros: u64,
    bins: Vec<Bin>,
}

impl Timeline {
    /// Room for `duration`; what completes later widens it.
    pub(crate) fn new(duration: Duration) -> Timeline {
        let millis = duration.as_millis();
        let fits = |width: &u64| millis / u128::from(*width) < u128::from(BINS_MAX);
        let width = WIDTHS_MILLIS.into_iter().find(fits).unwrap_or(100);
        let bins = usize::try_from(millis / u128::from(width)).unwrap_or(0) + 1;
        Timeline { width_micros: width * 1000, bins: vec![Bin::default(); bins] }
    }

    /// One completion, `since` the start of the run.
    pub(crate) fn add(&mut self, since: Duration) {
        let micros = u64::try_from(since.as_micros()).unwrap_or(u64::MAX);
        let index = usize::try_from(micros / self.width_micros).unwrap_or(usize::MAX);
        if index >= self.bins.len() {
            self.bins.resize(index + 1, Bin::default());
        }
        let within = u32::try_from(micros % self.width_micros).expect("a bin is shorter than an hour");
        let bin = &mut self.bins[index];
        if bin.count == 0 {
            bin.first = within;
        }
        bin.last = within;
        bin.count = bin.count.saturating_add(1);
    }

    pub(crate) fn merge(&mut self, other: &Timeline) {
        assert_eq!(self.width_micros, other.width_micros, "threads of one run have bins of one width");
        if self.bins.len() < other.bins.len() {
            self.bins.resize(other.bins.len(), Bin::default());
        }
        for (mine, theirs) in self.bins.iter_mut().zip(&other.bins).filter(|(_, theirs)| theirs.count > 0) {
            mine.first = if mine.count == 0 { theirs.first } else { mine.first.min(theirs.first) };
            mine.last = mine.last.max(theirs.last);
            mine.count = mine.count.saturating_add(theirs.count);
        }
    }

    /// The longest time without a completion between the start and `elapsed`.
    pub(crate) fn longest_gap(&self, elapsed: Duration) -> Duration {
        let (mut longest, mut last) = (0, 0);
        let starts = (0_u64..).map(|index| index * self.width_micros);
        for (start, bin) in starts.zip(&self.bins).filter(|(_, bin)| bin.count > 0) {
            longest = longest.max((start + u64::from(bin.first)).saturating_sub(last));
            last = start + u64::from(bin.last);
        }
        let end = u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX);
        Duration::from_micros(longest.max(end.saturating_sub(last)))
    }

    /// Completions in each whole interval of `duration`.
    pub(crate) fn intervals(&self, duration: Duration) -> Vec<u64> {
        let whole = usize::try_from(duration.as_millis() / INTERVAL.as_millis()).unwrap_or(usize::MAX);
        let interval_micros = u64::try_from(INTERVAL.as_micros()).expect("a tenth of a second");
        let bins = usize::try_from(interval_micros / self.width_micros).expect("at most a hundred");
        let sum = |bins: &[Bin]| bins.iter().map(|bin| u64::from(bin.count)).sum();
        let mut intervals: Vec<u64> = self.bins.chunks(bins).map(sum).take(whole).collect();
        intervals.resize(whole, 0);
        intervals
    }
}

/// How even throughput was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Evenness {
    pub(crate) median: u64,
    pub(crate) least: u64,
    /// Intervals in which nothing completed.
    pub(crate) at_zero: u64,
    /// Intervals with less than a fifth of the median.
    pub(crate) below_fifth: u64,
    /// Intervals with less than half of the median.
    pub(crate) below_half: u64,
}

pub(crate) fn evenness(intervals: &[u64]) -> Evenness {
    let mut sorted = intervals.to_vec();
    sorted.sort_unstable();
    let median = sorted.get(sorted.len() / 2).copied().unwrap_or(0);
    let count = |counts: &dyn Fn(u64) -> bool| {
        u64::try_from(intervals.iter().filter(|count| counts(**count)).count()).expect("a count fits")
    };
    Evenness {
        median,
        least: sorted.first().copied().unwrap_or(0),
        at_zero: count(&|count| count == 0),
        below_fifth: count(&|count| count * 5 < median),
        below_half: count(&|count| count * 2 < median),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(millis: f64) -> Duration {
        Duration::from_secs_f64(millis / 1000.0)
    }

    fn of(completions: &[f64]) -> Timeline {
        let mut timeline = Timeline::new(millis(500.0));
        completions.iter().for_each(|at| timeline.add(millis(*at)));
        timeline
    }

    #[test]
    fn a_gap_counts_only_if_no_thread_completed_anything() {
        let mut timeline = of(&[10.0, 200.0]);
        assert_eq!(timeline.longest_gap(millis(300.0)), millis(190.0));
        timeline.merge(&of(&[50.25, 120.5]));
        assert_eq!(timeline.longest_gap(millis(300.0)), millis(100.0), "from 200 to the end");
        assert_eq!(timeline.longest_gap(millis(210.0)), millis(79.5), "from 120.5 to 200");
        assert_eq!(of(&[90.0, 100.0]).longest_gap(millis(110.0)), millis(90.0), "from the start");
        assert_eq!(of(&[]).longest_gap(millis(300.0)), millis(300.0));
    }

    #[test]
    fn intervals_are_whole_and_empty_ones_are_there() {
        let timeline = of(&[10.0, 20.0, 110.0, 420.0, 499.0, 510.0]);
        assert_eq!(timeline.intervals(millis(500.0)), [2, 1, 0, 0, 2]);
        assert_eq!(timeline.intervals(millis(499.0)), [2, 1, 0, 0]);
        assert_eq!(of(&[]).intervals(millis(250.0)), [0, 0]);
    }

    #[test]
    fn long_runs_get_wider_bins() {
        assert_eq!(Timeline::new(Duration::from_secs(599)).width_micros, 1000);
        assert_eq!(Timeline::new(Duration::from_secs(3600)).width_micros, 10_000);
        let day = Timeline::new(Duration::from_secs(86_400));
        assert!(day.bins.len() < 1_000_000);
    }

    #[test]
    fn evenness_counts_what_is_far_below_the_median() {
        let even = evenness(&[100, 100, 100, 49, 19, 0, 120]);
        assert_eq!(even, Evenness { median: 100, least: 0, at_zero: 1, below_fifth: 2, below_half: 3 });
    }
}
