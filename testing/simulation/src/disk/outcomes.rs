//! What a power loss may leave, state by state: all states where they are few, a sample drawn by seed where they are many.
//!
//! ```text
//!   pending changes --cut at borders of 512 bytes, or 4 KiB--> parts       of a file: sectors, and the length a write reached
//!                                                                          of a directory: its own name, each changed name
//!   a state = a subset of the parts --> SimulatedDisk; the same bytes and names twice count once
//! ```
//! Any subset is one that the contract of `seawall_io::Disk` allows: parts of one write are a torn write, parts of a later
//! one without an earlier one are writes that were reordered, a length without its bytes reads as zeros, bytes without their
//! length are cut off.

use std::collections::{BTreeMap, HashSet};
use std::fmt;

use super::SimulatedDisk;
use super::directory::InodeId;
use super::inode::SECTOR_BYTES;
use super::power_loss::Fates;
use super::state::State;
use crate::random::SeededRandom;

/// Borders of the coarser parts: pages of the operating system's cache.
const CACHE_PAGE_BYTES: u64 = 4096;
/// No borders: a change is there or not.
const WHOLE: u64 = u64::MAX;
/// After so many draws in a row that gave nothing new, no more are made.
const VAIN_DRAWS_MAX: u64 = 64;

/// How many of the states of a power loss are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coverage {
    /// Every one, torn at 512-byte borders.
    Sectors,
    /// Every one torn at 4 KiB borders, and a sample of those torn at 512-byte borders.
    Pages,
    /// Every one in which each change is there whole or not at all, and a sample of those that are torn.
    Changes,
    /// A sample.
    Sample,
}

/// What changes of a disk belong to; parts are counted place by place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    Directory(String),
    File(InodeId),
}

/// All parts of a disk's pending changes, at one size.
#[derive(Clone, Debug, Default)]
pub(super) struct Parts {
    /// A border is at each multiple of so many bytes.
    border_bytes: u64,
    /// Of each place its first part.
    starts: BTreeMap<Place, usize>,
    /// The first part of each change, and what is pending there.
    changes: Vec<usize>,
    count: usize,
}

impl Parts {
    fn of(state: &State, border_bytes: u64) -> Parts {
        let mut parts = Parts { border_bytes, ..Parts::default() };
        for (place, counts) in state.pending_parts(border_bytes) {
            parts.starts.insert(place, parts.count);
            for count in counts {
                parts.changes.push(parts.count);
                parts.count += count;
            }
        }
        parts
    }

    /// How many subsets there are; `None` for more than any limit.
    fn states(&self) -> Option<u64> {
        u32::try_from(self.count).ok().and_then(|count| 1_u64.checked_shl(count))
    }

    /// The parts of each change.
    fn changes(&self) -> impl Iterator<Item = std::ops::Range<usize>> {
        let ends = self.changes.iter().skip(1).copied().chain([self.count]);
        self.changes.iter().zip(ends).map(|(&start, end)| start..end)
    }

    /// The changes of each place, by their indices.
    fn places(&self) -> impl Iterator<Item = std::ops::Range<usize>> {
        let index = |part: usize| self.changes.partition_point(|start| *start < part);
        let mut starts: Vec<usize> = self.starts.values().map(|&part| index(part)).collect();
        starts.dedup();
        starts.push(self.changes.len());
        (1..starts.len()).map(move |end| starts[end - 1]..starts[end])
    }
}

/// Which parts survive.
#[derive(Clone, Debug)]
pub(super) struct Chosen {
    pub(super) border_bytes: u64,
    pub(super) starts: BTreeMap<Place, usize>,
    pub(super) kept: Vec<bool>,
}

impl Chosen {
    /// Whether the part `next` is kept; goes on to the one behind it.
    pub(super) fn keeps(&self, next: &mut usize) -> bool {
        *next += 1;
        self.kept[*next - 1]
    }
}

/// One state that a power loss may leave.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The disk, with power.
    pub disk: SimulatedDisk,
    /// Counted from 0 in the order of [`SimulatedDisk::outcomes`].
    pub number: u64,
    kept: usize,
    parts: usize,
    border_bytes: u64,
}

impl fmt::Display for Outcome {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Outcome { number, kept, parts, border_bytes, .. } = self;
        write!(formatter, "state {number}, with {kept} of {parts} ")?;
        match *border_bytes {
            WHOLE => formatter.write_str("changes"),
            _ => write!(formatter, "parts of at most {border_bytes} bytes"),
        }
    }
}

/// The states that a power loss may leave, each once. The first one has lost everything that was not synced, the second
/// one nothing, unless these are the same.
#[derive(Debug)]
pub struct Outcomes {
    disk: SimulatedDisk,
    /// Of each size, the smallest one first.
    parts: [Parts; 3],
    coverage: Coverage,
    limit: u64,
    random: SeededRandom,
    seen: HashSet<u64>,
    /// How many subsets were tried, those seen before included.
    tried: u64,
    /// Draws since one gave a new state.
    vain: u64,
}

impl Outcomes {
    pub(super) fn new(disk: &SimulatedDisk, limit: u64, seed: u64) -> Outcomes {
        let parts = {
            let state = disk.state.lock();
            [SECTOR_BYTES, CACHE_PAGE_BYTES, WHOLE].map(|border_bytes| Parts::of(&state, border_bytes))
        };
        let are_within = |index: usize, limit: u64| {
            let parts: &Parts = &parts[index];
            parts.states().is_some_and(|states| states <= limit)
        };
        // Something is left for those that are torn.
        let coverage = if are_within(0, limit) {
            Coverage::Sectors
        } else if are_within(1, limit / 2) {
            Coverage::Pages
        } else if are_within(2, limit / 2) {
            Coverage::Changes
        } else {
            Coverage::Sample
        };
        let (random, seen) = (SeededRandom::new(seed), HashSet::new());
        Outcomes { disk: disk.clone(), parts, coverage, limit, random, seen, tried: 0, vain: 0 }
    }

    /// How many of the states come.
    pub fn coverage(&self) -> Coverage {
        self.coverage
    }

    /// The next subset to try, and of which parts; `None` when there are no more.
    fn choose(&mut self) -> Option<(Vec<bool>, usize)> {
        let number = self.tried;
        self.tried += 1;
        let exhausted = match self.coverage {
            Coverage::Sectors => Some(0),
            Coverage::Pages => Some(1),
            Coverage::Changes => Some(2),
            Coverage::Sample => None,
        };
        if let Some(index) = exhausted {
            let parts = &self.parts[index];
            let states = parts.states().expect("they are few enough to be tried");
            if number < states {
                // The last subset comes second.
                let subset = match number {
                    0 => 0,
                    1 => states - 1,
                    other => other - 1,
                };
                return Some(((0..parts.count).map(|part| subset >> part & 1 == 1).collect(), index));
            }
            if self.coverage == Coverage::Sectors {
                return None;
            }
        }
        // What is tried one after the other has come to its end.
        self.vain += 1;
        let index = usize::from(self.random.chance(1, 3));
        let parts = &self.parts[index];
        let kept = match number {
            0 => vec![false; parts.count],
            1 => vec![true; parts.count],
            _ => draw(parts, &mut self.random),
        };
        Some((kept, index))
    }
}

impl Iterator for Outcomes {
    type Item = Outcome;

    fn next(&mut self) -> Option<Outcome> {
        while self.seen.len() as u64 != self.limit && self.vain < VAIN_DRAWS_MAX {
            let (kept, index) = self.choose()?;
            let parts = &self.parts[index];
            let border_bytes = parts.border_bytes;
            let (kept_count, part_count) = (kept.iter().filter(|kept| **kept).count(), kept.len());
            let chosen = Chosen { border_bytes, starts: parts.starts.clone(), kept };
            let state = self.disk.state.lock().after_power_loss(Fates::chosen(chosen));
            let number = self.seen.len() as u64;
            if self.seen.insert(self.disk.state.lock().fingerprint(&state)) {
                self.vain = 0;
                let disk = SimulatedDisk::with_state(state);
                return Some(Outcome { disk, number, kept: kept_count, parts: part_count, border_bytes });
            }
        }
        None
    }
}

/// Draws a subset, of one of several shapes: rare mixes come as often as even ones.
fn draw(parts: &Parts, random: &mut SeededRandom) -> Vec<bool> {
    let mut kept = vec![false; parts.count];
    let percent = *random.pick(&[5, 30, 50, 70, 95]);
    match random.below(6) {
        // All but one, or one alone.
        0 => {
            let is_kept = random.chance(1, 2);
            kept.fill(!is_kept);
            let part = random.index(parts.count);
            kept[part] = is_kept;
        }
        // Each file and directory as it was at some moment.
        1 | 2 => {
            let changes: Vec<_> = parts.changes().collect();
            for place in parts.places() {
                let end = random.index(place.len() + 1);
                changes[place].iter().take(end).for_each(|change| kept[change.clone()].fill(true));
            }
        }
        // Each change whole or not at all.
        3 => parts.changes().for_each(|change| kept[change].fill(random.chance(percent, 100))),
        // Some of them torn.
        4 => {
            for change in parts.changes() {
                if random.chance(1, 4) {
                    kept[change].fill_with(|| random.chance(1, 2));
                } else {
                    kept[change].fill(random.chance(percent, 100));
                }
            }
        }
        _ => kept.fill_with(|| random.chance(percent, 100)),
    }
    kept
}
