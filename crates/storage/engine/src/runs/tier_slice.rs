//! A slice of a merge of runs: the rows of a range of keys go from several runs into the one that is made of them.
//!
//! ```text
//!   sources, the newest first   [        |  b f ]  [        | c h ]
//!   target                      [ a d e  |       ]                      one chunk: the slice into the target, its rows out of the sources
//!                                        from  next
//! ```
//! Invariants:
//! * Readers have the target, with the segments of its filter, before the chunk of a slice is published: rows are in the target from then
//!   on. They lose segments of sources after it.
//! * Of any key only the target has rows, or only its sources have. So windows and checkpoints may come between two slices.
//! * The chunk of the first slice lists the target, and the superblock counts one more with it. A source that has nothing left is struck off
//!   in the chunk that takes the last of it.
//!
//! If the power goes before the chunk is committed, the disk has free pages and a number that is never drawn again; after it, the new state
//! (`seawall_tree`, `swap_slice`).

use std::sync::Arc;

use seawall_tree::{BulkLoader, LoadedSlice, MergedSlice, StoredRun, Superblock, TreeError};

use crate::checkpoint::statistics::Totals;
use crate::checkpoint::turn::CheckpointState;
use crate::engine::Engine;
use crate::error::Error;
use crate::row_key;
use crate::runs::filter::{BuiltSegment, Filter, FilterBuilder};
use crate::runs::filter_memory::within_memory;
use crate::runs::list::sort;
use crate::runs::run::{Run, RunDescriptor, RunNumber};
use crate::runs::slice::Slice;
use crate::runs::tier::Tier;
use crate::sabotage::{Defect, sabotaged};

/// The leaves of a slice, and what goes with them.
struct Loaded {
    slice: LoadedSlice,
    segments: Vec<BuiltSegment>,
    /// The same, as rows of the tree.
    filter: BulkLoader,
}

impl Engine {
    /// Merges the next slice of runs that are to become one, if there are such. For who has the turn to change the tree.
    ///
    /// # Errors
    /// `DiskFull` and others of a chunk; the slice can be merged again then. `Tree` for a page that cannot be read.
    pub(crate) fn merge_tier_slice(
        &self,
        state: &mut CheckpointState,
        totals: &mut Totals,
    ) -> Result<Slice, Error> {
        let runs = match sabotaged(Defect::TierUnderSnapshot) {
            true => self.view().runs.to_vec(),
            false => self.runs_to_merge(),
        };
        let Some(tier) = self.tier_due(&runs)? else { return Ok(Slice::Nothing) };
        let number = match &tier.target {
            Some(target) => target.number,
            None => self.number_of_target(state)?,
        };
        // What was counted is elsewhere afterwards: after a failure the table is read anew.
        let mut windows = state.windows.take();
        let before = self.clock().monotonic();
        let loaded = self.load_tier_slice(&tier, number)?;
        if tier.target.is_none() {
            // Pages of the tree may have it from here on.
            state.drawn_target = None;
        }
        totals.durations.merge += self.clock().monotonic().saturating_sub(before);
        let next = loaded.slice.next.clone();
        let slice_range = || (&tier.from[..], next.as_deref());
        let failed = |error| Error::tree(&error);
        if let Some(table) = &mut windows {
            table.keep_up(&self.tree, &runs).map_err(failed)?;
            for source in &tier.sources {
                table.take_out(&self.tree, source, slice_range()).map_err(failed)?;
            }
        }
        self.swap_tier_slice(&tier, number, loaded, totals)?;
        if let Some(table) = &mut windows {
            let target = self.view().runs.iter().find(|run| run.number == number).cloned();
            target.map_or(Ok(()), |run| table.put_in(&self.tree, &run, slice_range())).map_err(failed)?;
        }
        state.windows = windows;
        Ok(Slice::Tier)
    }

    /// The number of a run that is made of others. One with which a merge has failed before it had pages is used again, unless a higher one
    /// was drawn since: a target has a higher number than each of its sources.
    fn number_of_target(&self, state: &mut CheckpointState) -> Result<RunNumber, Error> {
        let next_run = self.redo.superblock().next_run;
        let drawn = state.drawn_target.filter(|number| number.get() + 1 == next_run);
        let number = drawn.map_or_else(|| self.draw_run_number(), Ok)?;
        state.drawn_target = Some(number);
        Ok(number)
    }

    /// Builds the leaves of the next slice, and the filter of its rows.
    fn load_tier_slice(&self, tier: &Tier, number: RunNumber) -> Result<Loaded, Error> {
        let failed = |error| Error::tree(&error);
        let (stored, target) = (stored_runs(&tier.sources), number.stored());
        let stamp = self.flushed();
        // A filter that some slices had and others not would say of the others' rows that there are none.
        let bits = match &tier.target {
            Some(target) => target.descriptor.filter_bits,
            None => self.options.checkpoint.runs.filter_bits,
        };
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
            let key = row_key::encode(number.filter_table(), &segment.separator);
            filter.push(&key, &segment.value).map_err(failed)?;
        }
        Ok(Loaded { slice, segments, filter })
    }

    /// Gives readers the target, and then applies the chunk that moves the rows.
    fn swap_tier_slice(
        &self,
        tier: &Tier,
        number: RunNumber,
        loaded: Loaded,
        totals: &mut Totals,
    ) -> Result<(), Error> {
        let Loaded { slice, segments, filter } = loaded;
        let leaves = slice.leaves + filter.leaf_count();
        // Of runs that have no row left nothing is made.
        let has_target = slice.rows > 0 || tier.target.is_some();
        let target = has_target.then(|| Arc::new(self.target_with(tier, number, &slice, segments)));
        let is_new = target.is_some() && tier.target.is_none();
        let listed = target.as_ref().map(|run| run.descriptor.encode().to_vec());
        let (stored, stored_target) = (stored_runs(&tier.sources), number.stored());
        let planned =
            self.tree.swap_slice(slice, (&stored, &stored_target), listed, Some(filter), self.flushed());
        let MergedSlice { chunk, emptied, segments, .. } = planned.map_err(|error| Error::tree(&error))?;
        let written_before = totals.written_bytes();
        totals.add_leaves(leaves, leaves * self.tree.format().page_bytes() as u64);
        let version = self.tree.version();
        let shows_late = sabotaged(Defect::TierViewLate);
        if !shows_late {
            self.show_target(number, target.clone());
        }
        let applied = if is_new || !emptied.is_empty() {
            let _storing = self.redo.storing();
            let current = self.redo.superblock();
            let gone = u32::try_from(emptied.len()).expect("the superblock counts all runs in 32 bits");
            let superblock =
                Superblock { run_count: current.run_count + u32::from(is_new) - gone, ..current };
            self.apply_chunk(chunk, Some(&superblock), totals).map(|()| self.redo.stored(superblock))
        } else {
            self.apply_chunk(chunk, None, totals)
        };
        if let Err(error) = applied {
            // Once readers have the new tree, its rows are in the target.
            if self.tree.version() == version {
                self.show_target(number, tier.target.clone());
            }
            return Err(error);
        }
        self.counters.run_merges.count_slice(totals.written_bytes() - written_before);
        if shows_late {
            self.show_target(number, target);
        }
        let emptied: Vec<RunNumber> = emptied.iter().map(|index| tier.sources[*index].number).collect();
        let segments = segments.into_iter().map(|(index, range)| (tier.sources[index].number, range));
        self.forget(&emptied, &segments.collect::<Vec<_>>());
        Ok(())
    }

    /// The target with a slice more.
    fn target_with(
        &self,
        tier: &Tier,
        number: RunNumber,
        slice: &LoadedSlice,
        segments: Vec<BuiltSegment>,
    ) -> Run {
        let before = tier.target.as_deref();
        let parts =
            || tier.sources.iter().map(|run| &run.descriptor).chain(before.map(|run| &run.descriptor));
        let so_far = |count: fn(&RunDescriptor) -> u64| before.map_or(0, |run| count(&run.descriptor));
        let filter_bytes = so_far(|run| run.filter_bytes)
            + segments.iter().map(|segment| segment.value.len() as u64).sum::<u64>();
        let (level, filter_bits) = match before {
            Some(run) => (run.descriptor.level, run.descriptor.filter_bits),
            None => {
                let highest = parts().map(|run| run.level).max().unwrap_or_default();
                let bits = if filter_bytes > 0 { self.options.checkpoint.runs.filter_bits } else { 0 };
                (highest.saturating_add(1), bits)
            }
        };
        let expected = "a merge of runs has one at least";
        let descriptor = RunDescriptor {
            level,
            filter_bits,
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
        let run = Run::new(number, descriptor);
        let filter = match before {
            Some(before) => {
                if before.lacks_filter() {
                    self.read_filter_of(before);
                }
                if before.lacks_filter() {
                    // It is not begun in the middle. Once there is memory it is read from the beginning.
                    return run;
                }
                before.filter().cloned()
            }
            None => (filter_bytes > 0).then(Filter::default),
        };
        run.set_filter(filter.map(|mut filter| {
            if !sabotaged(Defect::TierFilterForgets) || before.is_none() {
                segments.into_iter().for_each(|segment| filter.add(segment));
            }
            filter
        }));
        run
    }

    /// Gives readers a run, in the place of the one with its number; or none with that number.
    fn show_target(&self, number: RunNumber, run: Option<Arc<Run>>) {
        self.change_view(|view| {
            let others = view.runs.iter().filter(|other| other.number != number);
            let mut runs: Vec<Arc<Run>> = others.cloned().chain(run).collect();
            sort(&mut runs);
            view.runs = within_memory(runs, self.filter_bytes_max()).into();
        });
        self.share_cache_with_filters();
    }
}

fn stored_runs(runs: &[Arc<Run>]) -> Vec<StoredRun> {
    runs.iter().map(|run| run.stored()).collect()
}
