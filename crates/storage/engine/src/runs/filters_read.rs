//! Filters are read after an open, beside everything else. Until then each lookup reads the runs.

use seawall_tree::Tree;

use crate::engine::Engine;
use crate::error;
use crate::runs::filter::Filter;
use crate::runs::run::Run;

impl Engine {
    /// Reads the filters that were not read yet, newest run first. Ends early if the database is being closed.
    pub(crate) fn read_filters(&self) {
        let runs = self.view().runs.clone();
        for run in runs.iter().filter(|run| run.lacks_filter()) {
            let goes_on = || !self.background.stopping();
            if goes_on() {
                read_filter(run, &self.tree, &goes_on);
            }
        }
    }
}

/// Reads the filter of a run. One that is damaged is not used: without it each lookup reads the run, and finds what is there.
fn read_filter(run: &Run, tree: &Tree, goes_on: &dyn Fn() -> bool) {
    match Filter::read(tree, run.number.filter_table(), goes_on) {
        Ok(None) => {}
        Ok(Some(filter)) => run.set_filter(Some(filter)),
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
