//! How far runs are beyond what they may be, and what that leaves to writers.
//!
//! ```text
//!   leaves of runs   soft: the share of `run_percent` ............ hard: twice that, and four memtables
//!   runs             soft: between `fan_in` and `run_count` ...... hard: `run_count`
//!                    debt 0                                        debt 1
//! ```
//! One thread makes checkpoints and merges runs. From a debt of zero on, writers are slowed so that checkpoints take only a part of its time:
//! half at a debt of a ninth, a tenth at a debt of one. So merges get the more time the further they are behind, and writers are slowed until
//! both keep step, at whatever speed the machine has. No writer stands still: beyond a debt of one checkpoints still have a twentieth.

use seawall_sync::atomic::{AtomicU64, Ordering};

use crate::pacing::pace::number;

/// A debt of one leaves a tenth to checkpoints.
const STEEPNESS: f64 = 9.0;
/// The least that is left.
const SHARE_MIN: f64 = 0.05;

/// Where there should be no runs, those that are left go in whatever time there is, as long as they have no more of the main part.
const PERCENT_LEFT: u64 = 25;

/// Runs that could be merged, at one moment, and what they may be.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RunFill {
    /// Leaves of runs, and as many as the rows fill that these delete.
    pub(crate) leaves: u64,
    /// Leaves of the main part.
    pub(crate) tree_leaves: u64,
    /// Leaves of a run, by the memory of all memtables.
    pub(crate) memtable_leaves: u64,
    pub(crate) count: u64,
    /// `checkpoint.runs`.
    pub(crate) run_percent: u64,
    pub(crate) fan_in: u64,
    pub(crate) run_count: u64,
}

/// How many runs there may be before they count as a debt, and before some are merged whatever their sizes: as many as come together until
/// they are of a size, and some more.
pub(crate) fn runs_usual(fan_in: u64, run_count: u64) -> u64 {
    u64::midpoint(fan_in.min(run_count), run_count)
}

impl RunFill {
    /// Zero where runs may be as they are, one where they are at their limit.
    pub(crate) fn debt(&self) -> f64 {
        self.debt_of_leaves().max(self.debt_of_count()).max(0.0)
    }

    /// Whether there are too many runs rather than too many leaves in them. Merges of runs into one make them fewer; windows mostly make them
    /// only smaller.
    pub(crate) fn is_mostly_of_count(&self) -> bool {
        self.debt_of_count() > self.debt_of_leaves().max(0.0)
    }

    fn debt_of_leaves(&self) -> f64 {
        let percent = if self.run_percent == 0 { PERCENT_LEFT } else { self.run_percent };
        let soft = number(self.tree_leaves) * number(percent) / 100.0;
        let hard = 2.0 * soft + 4.0 * number(self.memtable_leaves.max(1));
        (number(self.leaves) - soft) / (hard - soft)
    }

    fn debt_of_count(&self) -> f64 {
        let (most, usual) = (number(self.run_count), number(runs_usual(self.fan_in, self.run_count)));
        (number(self.count) - usual) / (most - usual).max(1.0)
    }
}

/// The share of the time of their thread that a debt leaves to checkpoints; `None`: all of it.
fn share_for(debt: f64) -> Option<f64> {
    (debt > 0.0).then(|| (1.0 / (1.0 + STEEPNESS * debt)).max(SHARE_MIN))
}

/// The debt, and how fast checkpoints are. Bits of `f64`, all of them, and `Relaxed`: estimates.
#[derive(Debug, Default)]
pub(crate) struct RunDebt {
    debt: AtomicU64,
    /// Bytes of memtable that a checkpoint merges a second, or writes into a run; zero before the first one.
    checkpoint_speed: AtomicU64,
}

impl RunDebt {
    pub(crate) fn set(&self, fill: &RunFill) {
        self.debt.store(fill.debt().to_bits(), Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> f64 {
        f64::from_bits(self.debt.load(Ordering::Relaxed))
    }

    /// A checkpoint of so many bytes of memtable took `seconds`. Little of either tells nothing: syncs are most of a small one. Half of
    /// what was known before stays, so that one that was held up does not slow writers tenfold.
    pub(crate) fn learn(&self, bytes: u64, seconds: f64) {
        if bytes >= 64 << 10 && seconds > 0.0 {
            let (known, speed) = (self.checkpoint_speed(), number(bytes) / seconds);
            let speed = if known > 0.0 { f64::midpoint(known, speed) } else { speed };
            self.checkpoint_speed.store(speed.to_bits(), Ordering::Relaxed);
        }
    }

    fn checkpoint_speed(&self) -> f64 {
        f64::from_bits(self.checkpoint_speed.load(Ordering::Relaxed))
    }

    /// Bytes of memtable a second that writers may fill; `None` if they need not be slowed.
    pub(crate) fn rate(&self) -> Option<f64> {
        let speed = self.checkpoint_speed();
        share_for(self.get()).filter(|_| speed > 0.0).map(|share| share * speed)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use seawall_simulation::SimulatedDisk;

    use super::*;
    use crate::pacing::throttle::ThrottleReason;
    use crate::runs::testing::open_on;

    fn fill() -> RunFill {
        RunFill {
            leaves: 250,
            tree_leaves: 1_000,
            memtable_leaves: 25,
            count: 16,
            run_percent: 25,
            fan_in: 8,
            run_count: 24,
        }
    }

    #[test]
    fn debts_are_of_leaves_or_of_runs() {
        let debt = |change: fn(&mut RunFill)| {
            let mut fill = fill();
            change(&mut fill);
            fill.debt()
        };
        assert!(debt(|_| ()).abs() < 1e-9, "just what they may be");
        assert!(debt(|fill| fill.leaves = 0).abs() < 1e-9);
        assert!((debt(|fill| fill.leaves = 600) - 1.0).abs() < 1e-9);
        assert!((debt(|fill| fill.leaves = 425) - 0.5).abs() < 1e-9);
        assert!((debt(|fill| fill.count = 20) - 0.5).abs() < 1e-9);
        assert!((debt(|fill| fill.count = 24) - 1.0).abs() < 1e-9);
        assert!(debt(|fill| (fill.leaves, fill.tree_leaves) = (90, 0)) < 1.0, "a tree that is empty yet");
        assert!(debt(|fill| (fill.count, fill.fan_in, fill.run_count) = (2, 16, 2)).abs() < 1e-9);
        assert!(debt(|fill| fill.run_percent = 0).abs() < 1e-9, "few are left");
        assert!((debt(|fill| (fill.run_percent, fill.count) = (0, 20)) - 0.5).abs() < 1e-9);
    }

    #[test]
    fn the_larger_debt_is_known() {
        assert!(!fill().is_mostly_of_count(), "neither");
        assert!(RunFill { count: 20, leaves: 424, ..fill() }.is_mostly_of_count());
        assert!(!RunFill { count: 20, leaves: 426, ..fill() }.is_mostly_of_count());
        assert!(RunFill { count: 17, leaves: 0, ..fill() }.is_mostly_of_count());
        assert!(!RunFill { count: 3, leaves: 251, ..fill() }.is_mostly_of_count());
    }

    #[test]
    fn writers_are_slowed_smoothly_and_never_stand_still() {
        let state = RunDebt::default();
        state.learn(10 << 20, 0.1);
        let mut last = f64::MAX;
        for leaves in 250..2_000 {
            state.set(&RunFill { leaves, ..fill() });
            let rate = state.rate();
            if leaves == 250 {
                assert_eq!(rate, None);
                continue;
            }
            let rate = rate.unwrap();
            assert!(rate <= last && rate >= 5.0 * 1024.0 * 1024.0, "{leaves}: {rate}");
            assert!(last == f64::MAX || rate > last * 0.96, "a jump at {leaves}: {last} to {rate}");
            last = rate;
        }
    }

    #[test]
    fn commits_pay_for_the_debt_of_runs() {
        let database = open_on(Arc::new(SimulatedDisk::new(1)), |_| ()).unwrap();
        let table = database.create_table("t").unwrap();
        let engine = database.engine();
        // Half of the way to the limit leaves two elevenths: the rows take 55 milliseconds of checkpoints.
        engine.pacing.run_debt.learn(10 << 20, 1.0);
        engine.pacing.note_runs(&RunFill { leaves: 425, ..fill() }, || engine.fill());
        let throttle = || database.statistics().throttle;
        assert_eq!(throttle().reason, Some(ThrottleReason::Runs));
        for number in 0..100_u32 {
            database.put(&table, number.to_be_bytes(), vec![1; 4 << 10]).unwrap();
        }
        assert!((50_000..1_000_000).contains(&throttle().delayed_micros), "{:?}", throttle());
        engine.pacing.note_runs(&fill(), || engine.fill());
        assert_eq!(throttle().reason, None);
    }

    /// A thread that has to merge three times as long as it makes checkpoints: both keep step, far from the limit.
    #[test]
    fn writers_and_merges_come_to_keep_step() {
        let (state, mut leaves, seconds) = (RunDebt::default(), 250.0_f64, 0.01);
        // A memtable of 100 leaves a second of checkpoint, and 33 leaves merged a second besides.
        state.learn(100 << 20, 1.0);
        let mut last = 0.0;
        for _ in 0..20_000 {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count of leaves")]
            state.set(&RunFill { leaves: leaves as u64, ..fill() });
            let written = state.rate().map_or(1.0, |rate| rate / 1024.0 / 1024.0 / 100.0) * 100.0;
            let merged = (1.0 - written / 100.0) * 100.0 / 3.0;
            leaves += (written - merged) * seconds;
            last = written;
        }
        assert!((24.0..26.0).contains(&last), "{last}");
        assert!(leaves < 400.0, "{leaves}");
    }
}
