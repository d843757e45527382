//! Filters are read after an open, beside everything else, and those that memory was lacking for when there is some. Until then each lookup
//! reads the runs.

use seawall_tree::Tree;

use crate::engine::Engine;
use crate::error;
use crate::row_key;
use crate::runs::filter::Filter;
use crate::runs::filter_memory::filter_bytes;
use crate::runs::run::Run;

/// Beside its bits a segment has a separator, a pointer and a count.
const SEGMENT_OVERHEAD_BYTES: usize = 64;
/// One part of so many of the memory for filters stays free when one is read.
const SLACK_PARTS: u64 = 16;

impl Engine {
    /// Reads the filters that are not in memory and for which there is some, newest run first. Ends early if `goes_on` says so, or the
    /// database is being closed.
    pub(crate) fn read_filters(&self, goes_on: &dyn Fn() -> bool) {
        let Some(_turn) = self.background.filters_turn.try_lock() else { return };
        let runs = self.view().runs.clone();
        let goes_on = || goes_on() && !self.background.stopping();
        for run in runs.iter().filter(|run| run.lacks_filter()) {
            // Readers have such a run before the tree has all of its filter. The next slice reads it, which has the turn.
            let is_being_made = runs.iter().any(|other| run.is_made_of(other));
            if is_being_made {
                continue;
            }
            if goes_on() && self.has_room_for_filter(run) {
                read_filter(run, &self.tree, &goes_on);
                self.share_cache_with_filters();
            }
        }
    }

    /// Reads the filter of one run, at once, if there is memory for it.
    pub(crate) fn read_filter_of(&self, run: &Run) {
        if self.has_room_for_filter(run) {
            read_filter(run, &self.tree, &|| true);
        }
    }

    /// Whether there is memory for the filter of a run, and some more: one that the next run would push out again is read for nothing.
    fn has_room_for_filter(&self, run: &Run) -> bool {
        let (from, to) = row_key::table_range(run.number.filter_table());
        // Segments are as long as an inline value, but for the last one of a slice.
        let segment_bytes = self.tree.format().max_inline_value_bytes() + SEGMENT_OVERHEAD_BYTES;
        let left =
            self.tree.estimate_rows(&from, &to).map_or(0, |rows| bytes_of_segments(rows, segment_bytes));
        // Leaves around may have far shorter rows.
        let left = left.min(2 * run.descriptor.filter_bytes);
        let most = self.filter_bytes_max();
        left + most / SLACK_PARTS <= most.saturating_sub(filter_bytes(&self.view().runs))
    }
}

/// About how many bytes of memory so many segments take.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an estimate")]
fn bytes_of_segments(segments: f64, segment_bytes: usize) -> u64 {
    segments.max(0.0).ceil() as u64 * segment_bytes as u64
}

/// Reads the filter of a run. One that is damaged is not used: without it each lookup reads the run, and finds what is there.
fn read_filter(run: &Run, tree: &Tree, goes_on: &dyn Fn() -> bool) {
    match Filter::read(tree, run.number.filter_table(), goes_on) {
        Ok(Some(filter)) => run.set_filter(Some(filter)),
        Ok(None) => {}
        Err(error) => {
            let (run_number, error) = (run.number.get(), error::chain(&error));
            tracing::warn!(
                run_number,
                error,
                "the filter of a run cannot be used, so lookups read the run; check the database"
            );
            run.set_filter(None);
        }
    }
}
