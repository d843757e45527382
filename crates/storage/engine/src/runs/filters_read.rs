//! Filters are read after an open, beside everything else. Until then each lookup reads the runs.

use seawall_tree::Tree;

use crate::engine::Engine;
use crate::error;
use crate::runs::filter::Filter;
use crate::runs::filter_memory::filter_bytes;
use crate::runs::run::Run;

impl Engine {
    /// Reads the filters that were not read yet and for which there is memory, newest run first. Ends early if the database is being
    /// closed.
    pub(crate) fn read_filters(&self) {
        let runs = self.view().runs.clone();
        for run in runs.iter().filter(|run| run.lacks_filter()) {
            let goes_on = || !self.background.stopping();
            if goes_on() {
                let room = self.filter_bytes_max().saturating_sub(filter_bytes(&runs));
                read_filter(run, &self.tree, room, &goes_on);
            }
        }
        self.share_cache_with_filters();
    }
}

impl Engine {
    /// Reads the filter of one run, at once, if there is memory for it.
    pub(crate) fn read_filter_of(&self, run: &Run) {
        let room = self.filter_bytes_max().saturating_sub(filter_bytes(&self.view().runs));
        read_filter(run, &self.tree, room, &|| true);
    }
}

/// Reads the filter of a run, which may take `room` bytes of memory. One that takes more, or is damaged, is not used: without it each
/// lookup reads the run, and finds what is there.
fn read_filter(run: &Run, tree: &Tree, room: u64, goes_on: &dyn Fn() -> bool) {
    let fits = |bytes: usize| bytes as u64 <= room;
    match Filter::read(tree, run.number.filter_table(), &|bytes| fits(bytes) && goes_on()) {
        Ok(Some(filter)) => run.set_filter(Some(filter).filter(|filter| fits(filter.bytes()))),
        // If the end was not reached because the database is being closed, nobody asks any more.
        Ok(None) => run.set_filter(None),
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
