//! Which runs become one: the youngest ones, once `checkpoint.runs.fan_in` of them are of a size. So readers look through few runs, and a row
//! is written again for a tenfold of runs, not for each.
//!
//! ```text
//!   youngest first   | 1 | 1 | 2 | 3 | 5 | 9 | 14 | 30 |   200   |      what is left of each
//!                    '------------ become one ---------'                none has more than all younger ones together
//! ```
//! Remnants of old runs, of which windows have taken most, become one with the young ones. At `checkpoint.runs.run_count` runs, neighbours
//! become one whatever their sizes: those of which that has the least to read.
//!
//! A merge goes slice by slice (`tier_slice`). How far one has come is seen in the list and in the tree, and nowhere else: the interval of the
//! target holds those of its sources, and the sources have rows only where no slice has been. So a merge that was cut short by the end of
//! the process resumes. Of the runs that it is made of, and of older ones, no other one is made before its end: intervals of two targets
//! would cross. Younger ones may become one meanwhile, and go first, since they are small: so there are few runs however long the merge of
//! large ones takes.

use std::sync::Arc;

use crate::catalog::first_local_key;
use crate::checkpoint::merge_source::first_user_key;
use crate::engine::Engine;
use crate::error::Error;
use crate::pacing::run_debt::runs_usual;
use crate::runs::route::first_row;
use crate::runs::run::Run;
use crate::sabotage::{Defect, sabotaged};

/// A merge of runs, at one of its slices.
#[derive(Debug)]
pub(super) struct Tier {
    /// The runs that become one, the newest first. Their rows before `from` have moved to the target.
    pub(super) sources: Vec<Arc<Run>>,
    /// The run that earlier slices have built; `None` at the first slice.
    pub(super) target: Option<Arc<Run>>,
    /// Where the next slice begins, by row key; the empty key at the first one.
    pub(super) from: Vec<u8>,
}

impl Engine {
    /// The merge of runs to go on with, if some are due. `runs` are those that no snapshot is older than, the newest first.
    pub(super) fn tier_due(&self, runs: &[Arc<Run>]) -> Result<Option<Tier>, Error> {
        let under_way = unfinished(runs);
        let is_younger = |run: &&Arc<Run>| {
            under_way.as_ref().is_none_or(|(target, _)| run.descriptor.start >= target.end())
        };
        let younger = runs.iter().take_while(is_younger).count();
        if let Some(sources) = self.sources_of_next(&runs[..younger], under_way.is_none())? {
            return Ok(Some(Tier { sources, target: None, from: Vec::new() }));
        }
        under_way.map_or(Ok(None), |(target, sources)| self.resumed(target, sources))
    }

    /// The runs that become one next, the newest first, of `runs`, which no merge has yet. `are_all`: there are no others.
    fn sources_of_next(&self, runs: &[Arc<Run>], are_all: bool) -> Result<Option<Vec<Arc<Run>>>, Error> {
        let options = &self.options.checkpoint.runs;
        let fan_in = usize::try_from(options.fan_in).unwrap_or(usize::MAX);
        let run_count = usize::try_from(options.run_count).unwrap_or(usize::MAX);
        if runs.len() < fan_in.min(run_count) {
            return Ok(None);
        }
        let mut sizes = Vec::with_capacity(runs.len());
        for run in runs {
            sizes.push(self.leaves_left(run)?);
        }
        // Where writers begin to be slowed, at the latest; but a merge that is under way ends runs sooner than another one.
        let usual = usize::try_from(runs_usual(options.fan_in.into(), options.run_count.into()));
        let most = run_count.min(usual.unwrap_or(usize::MAX).saturating_add(1));
        let too_many = || (are_all && runs.len() >= most).then(|| cheapest(&sizes, fan_in));
        let sources = of_a_size(&sizes, fan_in).or_else(too_many).map(|chosen| runs[chosen].to_vec());
        Ok(sources.map(|mut sources| {
            if sabotaged(Defect::TierSkipsRun) && sources.len() > 2 {
                sources.remove(1);
            }
            sources
        }))
    }

    /// A merge, at the first row that no slice has taken.
    fn resumed(&self, target: Arc<Run>, sources: Vec<Arc<Run>>) -> Result<Option<Tier>, Error> {
        let mut first: Option<Vec<u8>> = None;
        for source in &sources {
            let row = first_row(&self.tree, source.prefix(), &[])?;
            first = first.into_iter().chain(row).min();
        }
        let from = first.unwrap_or_else(|| first_local_key().to_vec());
        if first_row(&self.tree, target.prefix(), &from)?.is_some() {
            // No merge leaves that behind. Each run reads well on its own, and windows end them all.
            let (target, sources) = (target.number, sources.len());
            tracing::warn!(%target, sources, "a run has rows where those that it is made of have some, so they are not merged on");
            return Ok(None);
        }
        Ok(Some(Tier { sources, target: Some(target), from }))
    }

    /// About how many leaves a run has left. Long values do not count: they stay where they are.
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    fn leaves_left(&self, run: &Run) -> Result<f64, Error> {
        let (from, to) = (run.key_of(&first_user_key()), run.key_of(&first_local_key()));
        let rows = self.tree.estimate_rows(&from, &to).map_err(|error| Error::tree(&error))?;
        Ok(rows * run.descriptor.leaves as f64 / run.descriptor.rows as f64)
    }
}

/// The youngest target of a merge that is under way, and its sources.
fn unfinished(runs: &[Arc<Run>]) -> Option<(Arc<Run>, Vec<Arc<Run>>)> {
    runs.iter().find_map(|target| {
        let sources: Vec<Arc<Run>> = runs.iter().filter(|run| target.is_made_of(run)).cloned().collect();
        (!sources.is_empty()).then(|| (Arc::clone(target), sources))
    })
}

/// The first of neighbours, the youngest first, of which `fan_in` or more have no more than all younger ones of them together.
fn of_a_size(sizes: &[f64], fan_in: usize) -> Option<std::ops::Range<usize>> {
    (0..sizes.len()).find_map(|first| {
        let (mut end, mut sum) = (first + 1, sizes[first]);
        while let Some(size) = sizes.get(end).filter(|size| **size <= sum) {
            sum += size;
            end += 1;
        }
        (end - first >= fan_in).then_some(first..end)
    })
}

/// The two to `count_max` neighbouring runs whose merge reads the least for each run that it ends.
///
/// # Panics
/// If there are fewer than two runs.
fn cheapest(sizes: &[f64], count_max: usize) -> std::ops::Range<usize> {
    let mut best: Option<(f64, std::ops::Range<usize>)> = None;
    for first in 0..sizes.len() {
        let mut sum = sizes[first];
        let mut ended = 0.0;
        for (end, size) in (first + 2..).zip(&sizes[first + 1..]).take(count_max.max(2) - 1) {
            sum += size;
            ended += 1.0;
            if best.as_ref().is_none_or(|(cost, _)| sum / ended < *cost) {
                best = Some((sum / ended, first..end));
            }
        }
    }
    best.expect("there are two runs").1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_of_a_size_are_found_from_the_youngest_on() {
        let sizes = [1.0, 1.0, 2.0, 3.0, 5.0, 9.0, 14.0, 30.0, 200.0];
        assert_eq!(of_a_size(&sizes, 8), Some(0..8));
        assert_eq!(of_a_size(&sizes, 9), None);
        // The youngest one is small; those behind it are of a size.
        assert_eq!(of_a_size(&[1.0, 10.0, 10.0, 15.0, 100.0], 3), Some(1..4));
        // A remnant between them goes with them.
        assert_eq!(of_a_size(&[10.0, 10.0, 0.5, 12.0, 400.0], 4), Some(0..4));
        assert_eq!(of_a_size(&[1.0, 2.0, 4.0, 8.0], 2), None);
        assert_eq!(of_a_size(&[], 2), None);
    }

    #[test]
    fn the_cheapest_neighbours_are_found() {
        assert_eq!(cheapest(&[4.0, 2.0], 8), 0..2);
        assert_eq!(cheapest(&[1.0, 2.0, 4.0, 8.0, 16.0], 8), 0..2);
        assert_eq!(cheapest(&[1.0; 5], 3), 0..3);
        assert_eq!(cheapest(&[1.0; 5], 16), 0..5);
        assert_eq!(cheapest(&[9.0, 50.0, 1.0, 2.0, 70.0], 8), 2..4);
        assert_eq!(cheapest(&[9.0, 50.0, 1.0, 2.0, 70.0], 1), 2..4);
    }
}
