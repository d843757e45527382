//! What a power loss does to changes that no sync has covered.

use std::ops::Range;

use super::inode::Change;
use super::outcomes::{Chosen, Place};
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
    decides: Decides,
    random: SeededRandom,
    /// Some power losses take nearly all, some nearly nothing: rare mixes are tried as often as even ones.
    kept_percent: u64,
    torn_percent: u64,
}

#[derive(Debug)]
enum Decides {
    Outcome(PowerLoss),
    /// Part by part, the next one being `next`.
    Chosen {
        chosen: Chosen,
        next: usize,
    },
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
        Fates { decides: Decides::Outcome(outcome), random, kept_percent, torn_percent }
    }

    /// Those that somebody has chosen.
    pub(super) fn chosen(chosen: Chosen) -> Fates {
        Fates { decides: Decides::Chosen { chosen, next: 0 }, ..Fates::new(PowerLoss::LoseAll) }
    }

    /// What is asked from now on is about `place`, from its first pending change on.
    pub(super) fn enter(&mut self, place: &Place) {
        if let Decides::Chosen { chosen, next } = &mut self.decides {
            // Nothing is pending in the other places, so nothing is asked.
            *next = chosen.starts.get(place).copied().unwrap_or(chosen.kept.len());
        }
    }

    /// The parts of `change` that reach the disk.
    pub(super) fn of_change(&mut self, change: &Change) -> Vec<Change> {
        match &mut self.decides {
            Decides::Outcome(PowerLoss::LoseAll) => Vec::new(),
            Decides::Outcome(PowerLoss::KeepAll) => vec![change.clone()],
            Decides::Outcome(PowerLoss::Random(_))
                if change.range().is_some() && self.random.chance(self.torn_percent, 100) =>
            {
                change.torn(self)
            }
            Decides::Outcome(PowerLoss::Random(_)) if self.random.chance(self.kept_percent, 100) => {
                vec![change.clone()]
            }
            Decides::Outcome(PowerLoss::Random(_)) => Vec::new(),
            Decides::Chosen { chosen, next } => {
                let parts = change.parts(chosen.border_bytes);
                parts.into_iter().filter(|_| chosen.keeps(next)).collect()
            }
        }
    }

    /// Whether the length that a write has given its file is there, whatever there is of its bytes.
    pub(super) fn keeps_length(&mut self) -> bool {
        match &mut self.decides {
            Decides::Outcome(PowerLoss::LoseAll) => false,
            Decides::Outcome(PowerLoss::KeepAll) => true,
            Decides::Outcome(PowerLoss::Random(_)) => self.random.chance(self.kept_percent, 100),
            Decides::Chosen { chosen, next } => chosen.keeps(next),
        }
    }

    /// Whether a durable write that fails has been done but for the flush of the device's cache.
    pub(super) fn fails_at_the_flush(&mut self) -> bool {
        self.random.chance(1, 3)
    }

    /// The parts of a change that a failed call has done: nothing, or torn.
    pub(super) fn of_failed(&mut self, change: &Change) -> Vec<Change> {
        if self.random.chance(1, 2) { Vec::new() } else { change.torn(self) }
    }

    pub(super) fn keeps_name(&mut self) -> bool {
        match &mut self.decides {
            Decides::Outcome(PowerLoss::LoseAll) => false,
            Decides::Outcome(PowerLoss::KeepAll) => true,
            Decides::Outcome(PowerLoss::Random(_)) => self.random.chance(self.kept_percent, 100),
            Decides::Chosen { chosen, next } => chosen.keeps(next),
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
