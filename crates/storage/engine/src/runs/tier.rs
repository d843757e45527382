//! Several runs become one, slice by slice: the youngest ones, once `checkpoint.runs.fan_in` of them are of a size. So readers look through
//! few runs, and a row is written again for a tenfold of runs, not for each.
//!
//! ```text
//!   youngest first   | 1 | 1 | 2 | 3 | 5 | 9 | 14 | 30 |   200   |      what is left of each
//!                    '------------ become one ---------'                none has more than all younger ones together
//! ```
//! Remnants of old runs, of which windows have taken most, become one with the young ones.
//!
//! Invariants:
//! * Readers have the target, with the segments of its filter, before the chunk of a slice is published: rows are in the target from then on.
//! * Of any key only the target has rows, or only its sources have. So a merge may be given up between two slices, and windows and
//!   checkpoints may come in between.
//!
//! What is on disk if the power goes: `seawall_tree`, `swap_slice`.

use std::sync::Arc;

use seawall_tree::{BulkLoader, LoadedSlice, MergedSlice, Superblock, TreeError};

use crate::catalog::first_local_key;
use crate::checkpoint::merge_source::first_user_key;
use crate::checkpoint::statistics::Totals;
use crate::checkpoint::turn::CheckpointState;
use crate::engine::Engine;
use crate::error::Error;
use crate::row_key;
use crate::runs::debt::Slice;
use crate::runs::filter::{BuiltSegment, Filter, FilterBuilder};
use crate::runs::filter_memory::within_memory;
use crate::runs::list::sort;
use crate::runs::run::{Run, RunDescriptor, RunNumber};
use crate::runs::tier_merge::TierMerge;

impl Engine {
    /// Merges the next slice of runs that are to become one, if there are such. For who has the turn to change the tree.
    ///
    /// # Errors
    /// As `merge_window`. The merge is then begun anew.
    pub(crate) fn merge_tier_slice(&self, state: &mut CheckpointState) -> Result<Slice, Error> {
        let runs = self.runs_to_merge();
        let under_way = state.tier.take().map(|tier| {
            let (sources, target) = tier.among(&runs);
            (tier, sources, target)
        });
        let (mut tier, sources, target) = match under_way {
            // A window may have taken all that the target had, and struck it off.
            Some((tier, sources, Some(target))) if !sources.is_empty() => (tier, sources, Some(target)),
            _ => {
                let Some(sources) = self.runs_of_a_size(&runs)? else { return Ok(Slice::Nothing) };
                let numbers = sources.iter().map(|run| run.number).collect();
                let target = self.draw_run_number()?;
                (TierMerge { target, sources: numbers, from: Vec::new() }, sources, None)
            }
        };
        // Leaves that were counted are elsewhere now.
        state.windows = None;
        if let Some(next) = self.merge_slice_of(&tier, &sources, target)? {
            tier.from = next;
            state.tier = Some(tier);
        }
        Ok(Slice::Tier)
    }

    /// Merges a slice; where the next one begins.
    fn merge_slice_of(
        &self,
        tier: &TierMerge,
        sources: &[Arc<Run>],
        before: Option<Arc<Run>>,
    ) -> Result<Option<Vec<u8>>, Error> {
        let failed = |error| Error::tree(&error);
        let stored: Vec<_> = sources.iter().map(|run| run.stored()).collect();
        let target = tier.target.stored();
        let stamp = self.flushed();
        let bits = self.options.checkpoint.runs.filter_bits;
        let inline_bytes_max = self.tree.format().max_inline_value_bytes();
        let mut builder =
            (bits > 0).then(|| FilterBuilder::from_key(tier.from.clone(), bits, inline_bytes_max));
        let mut segments: Vec<BuiltSegment> = Vec::new();
        let mut each = |row_key: &[u8]| {
            segments.extend(builder.as_mut().and_then(|builder| builder.push(row_key)));
            Ok::<(), TreeError>(())
        };
        let budget_bytes = self.options.checkpoint.chunk_bytes;
        let slice = self
            .tree
            .load_slice((&stored, &target), &tier.from, budget_bytes, &|_| false, &mut each, stamp)
            .map_err(failed)?;
        segments.extend(builder.and_then(FilterBuilder::finish));
        let mut filter = target.filter_loader(&self.tree, &tier.from, stamp);
        for segment in &segments {
            let key = row_key::encode(tier.target.filter_table(), &segment.separator);
            filter.push(&key, &segment.value).map_err(failed)?;
        }
        let run = (slice.rows > 0 || before.is_some())
            .then(|| self.target_with(tier, sources, before.as_deref(), &slice, segments));
        let merged = self.plan_slice(slice, (sources, tier.target), run.as_ref(), filter)?;
        let is_new = run.is_some() && before.is_none();
        self.apply_slice(merged, sources, run, is_new)
    }

    /// The target with a slice more.
    fn target_with(
        &self,
        tier: &TierMerge,
        sources: &[Arc<Run>],
        before: Option<&Run>,
        slice: &LoadedSlice,
        segments: Vec<BuiltSegment>,
    ) -> Run {
        let parts = || sources.iter().map(|run| &run.descriptor).chain(before.map(|run| &run.descriptor));
        let so_far = |count: fn(&RunDescriptor) -> u64| before.map_or(0, |run| count(&run.descriptor));
        let filter_bytes = so_far(|run| run.filter_bytes)
            + segments.iter().map(|segment| segment.value.len() as u64).sum::<u64>();
        let level = match before {
            Some(run) => run.descriptor.level,
            None => parts().map(|run| run.level).max().unwrap_or_default().saturating_add(1),
        };
        let expected = "a merge of runs has one at least";
        let descriptor = RunDescriptor {
            level,
            filter_bits: if filter_bytes > 0 { self.options.checkpoint.runs.filter_bits } else { 0 },
            start: parts().map(|run| run.start).min().expect(expected),
            end: parts().map(|run| run.end).max().expect(expected),
            rows: so_far(|run| run.rows) + slice.rows,
            deletions: so_far(|run| run.deletions) + slice.deletions,
            leaves: so_far(|run| run.leaves) + slice.leaves,
            row_bytes: so_far(|run| run.row_bytes) + slice.row_bytes,
            first_storage: parts().map(|run| run.first_storage).min().expect(expected),
            last_storage: parts().map(|run| run.last_storage).max().expect(expected),
            filter_bytes,
            written_micros: self.clock().wall_micros(),
        };
        let run = Run::new(tier.target, descriptor);
        // A filter for which there was no memory is not begun in the middle.
        let filter = match before {
            Some(before) => before.filter().cloned(),
            None => (filter_bytes > 0).then(Filter::default),
        };
        run.set_filter(filter.map(|mut filter| {
            segments.into_iter().for_each(|segment| filter.add(segment));
            filter
        }));
        run
    }

    fn plan_slice(
        &self,
        slice: LoadedSlice,
        (sources, target): (&[Arc<Run>], RunNumber),
        run: Option<&Run>,
        filter: BulkLoader,
    ) -> Result<MergedSlice, Error> {
        let stored: Vec<_> = sources.iter().map(|run| run.stored()).collect();
        let listed = run.map(|run| run.descriptor.encode().to_vec());
        let planned =
            self.tree.swap_slice(slice, (&stored, &target.stored()), listed, Some(filter), self.flushed());
        planned.map_err(|error| Error::tree(&error))
    }

    /// Gives readers the target, and then applies the chunk.
    fn apply_slice(
        &self,
        merged: MergedSlice,
        sources: &[Arc<Run>],
        run: Option<Run>,
        is_new: bool,
    ) -> Result<Option<Vec<u8>>, Error> {
        let MergedSlice { chunk, next, emptied, segments } = merged;
        let (runs_before, version_before) = (Arc::clone(&self.view().runs), self.tree.version());
        if let Some(run) = run {
            self.show_run(run);
        }
        let mut totals = Totals::default();
        let applied = if is_new || !emptied.is_empty() {
            let _storing = self.redo.storing();
            let current = self.redo.superblock();
            let gone = u32::try_from(emptied.len()).expect("the superblock counts all runs in 32 bits");
            let run_count = current.run_count + u32::from(is_new) - gone;
            let superblock = Superblock { run_count, ..current };
            self.apply_chunk(chunk, Some(&superblock), &mut totals).map(|()| self.redo.stored(superblock))
        } else {
            self.apply_chunk(chunk, None, &mut totals)
        };
        if let Err(error) = applied {
            // If readers have got the new tree, its rows are in the target.
            if self.tree.version() == version_before {
                self.change_view(|view| view.runs = runs_before);
                self.share_cache_with_filters();
            }
            return Err(error);
        }
        let emptied: Vec<RunNumber> = emptied.iter().map(|index| sources[*index].number).collect();
        let segments = segments.into_iter().map(|(index, range)| (sources[index].number, range));
        self.forget(&emptied, &segments.collect::<Vec<_>>());
        Ok(next)
    }

    /// Puts a run into the view, in the place of the one with its number, if that is there.
    fn show_run(&self, run: Run) {
        self.change_view(|view| {
            let others = view.runs.iter().filter(|other| other.number != run.number);
            let mut runs: Vec<Arc<Run>> = others.cloned().collect();
            runs.push(Arc::new(run));
            sort(&mut runs);
            view.runs = within_memory(runs, self.filter_bytes_max()).into();
        });
        self.share_cache_with_filters();
    }

    /// The runs that are to become one: `fan_in` or more that follow each other, of which none has more than all younger ones of them.
    fn runs_of_a_size(&self, runs: &[Arc<Run>]) -> Result<Option<Vec<Arc<Run>>>, Error> {
        let fan_in = usize::try_from(self.options.checkpoint.runs.fan_in).unwrap_or(usize::MAX);
        if runs.len() < fan_in {
            return Ok(None);
        }
        let mut sizes = Vec::with_capacity(runs.len());
        for run in runs {
            sizes.push(self.bytes_left(run)?);
        }
        Ok(of_a_size(&sizes, fan_in).map(|chosen| runs[chosen].to_vec()))
    }

    /// About how many bytes of rows a run has left.
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    fn bytes_left(&self, run: &Run) -> Result<f64, Error> {
        let (from, to) = (run.key_of(&first_user_key()), run.key_of(&first_local_key()));
        let rows = self.tree.estimate_rows(&from, &to).map_err(|error| Error::tree(&error))?;
        Ok(rows * run.descriptor.row_bytes as f64 / run.descriptor.rows as f64)
    }
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
}
