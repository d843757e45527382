//! What a power loss does to changes that no sync has covered.

use std::ops::Range;

use super::inode::Change;
use crate::random::SeededRandom;

/// Which of the changes that were not synced are there after a power loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PowerLoss {
    /// None of them.
    LoseAll,
    /// All of them, the one during which the power went included.
    KeepAll,
    /// Each is kept, lost, or torn into 512-byte sectors of which any may be kept; drawn from this seed.
    Random(u64),
}

/// Decides change by change.
#[derive(Debug)]
pub(super) struct Fates {
    outcome: PowerLoss,
    random: SeededRandom,
    /// Some power losses take nearly all, some nearly nothing: rare mixes are tried as often as even ones.
    kept_percent: u64,
    torn_percent: u64,
}

impl Fates {
    pub(super) fn new(outcome: PowerLoss) -> Fates {
        let seed = match outcome {
            PowerLoss::Random(seed) => seed,
            PowerLoss::LoseAll | PowerLoss::KeepAll => 0,
        };
        let mut random = SeededRandom::new(seed);
        let kept_percent = *random.pick(&[5, 30, 50, 70, 95]);
        let torn_percent = *random.pick(&[0, 20, 60]);
        Fates { outcome, random, kept_percent, torn_percent }
    }

    /// The parts of `change` that reach the disk.
    pub(super) fn of_change(&mut self, change: &Change) -> Vec<Change> {
        match self.outcome {
            PowerLoss::LoseAll => Vec::new(),
            PowerLoss::KeepAll => vec![change.clone()],
            PowerLoss::Random(_)
                if change.range().is_some() && self.random.chance(self.torn_percent, 100) =>
            {
                change.torn(self)
            }
            PowerLoss::Random(_) if self.random.chance(self.kept_percent, 100) => vec![change.clone()],
            PowerLoss::Random(_) => Vec::new(),
        }
    }

    /// The parts of a change that a failed call has done: nothing, or torn.
    pub(super) fn of_failed(&mut self, change: &Change) -> Vec<Change> {
        if self.random.chance(1, 2) { Vec::new() } else { change.torn(self) }
    }

    pub(super) fn keeps_name(&mut self) -> bool {
        match self.outcome {
            PowerLoss::LoseAll => false,
            PowerLoss::KeepAll => true,
            PowerLoss::Random(_) => self.random.chance(self.kept_percent, 100),
        }
    }

    /// Random runs of sectors of `range`: most of them single, of a long range longer ones too.
    pub(super) fn tear(&mut self, range: Range<u64>, sector_bytes: u64) -> Vec<Range<u64>> {
        let run_max = ((range.end - range.start) / sector_bytes / 32).max(1);
        let mut parts = Vec::new();
        let mut start = range.start;
        while start < range.end {
            let run = self.random.range(1..run_max + 1) * sector_bytes;
            let end = range.end.min(start - start % sector_bytes + run);
            if self.random.chance(1, 2) {
                parts.push(start..end);
            }
            start = end;
        }
        parts
    }
}
