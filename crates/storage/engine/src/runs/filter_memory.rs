//! Memory of filters: a part of `memory.cache_bytes`, at most a quarter. The cache of pages has the rest.
//!
//! Where the filters of all runs take more, the largest ones are done without: lookups read those runs.

use std::sync::Arc;

use crate::engine::Engine;
use crate::runs::run::Run;

/// Filters have one part of so many of the cache's memory, at most.
const CACHE_PARTS: u64 = 4;

impl Engine {
    /// Bytes of memory that filters may take.
    pub(crate) fn filter_bytes_max(&self) -> u64 {
        self.options.memory.cache_bytes / CACHE_PARTS
    }

    /// Gives the cache of pages what filters leave of its memory.
    pub(crate) fn share_cache_with_filters(&self) {
        let bytes = filter_bytes(&self.view().runs);
        self.tree.pages().set_aside(usize::try_from(bytes).unwrap_or(usize::MAX));
    }
}

/// Bytes of memory that the filters of runs take.
pub(crate) fn filter_bytes(runs: &[Arc<Run>]) -> u64 {
    runs.iter().map(|run| bytes_of(run)).sum()
}

/// The runs, those with the largest filters without these, so that the filters of all take at most `bytes_max`.
pub(crate) fn within_memory(mut runs: Vec<Arc<Run>>, bytes_max: u64) -> Vec<Arc<Run>> {
    while filter_bytes(&runs) > bytes_max {
        let largest = runs.iter_mut().max_by_key(|run| bytes_of(run)).expect("some run has a filter");
        tracing::debug!(run = %largest.number, "filters of runs take too much memory, so lookups read this run");
        *largest = Arc::new(largest.without_filter());
    }
    runs
}

fn bytes_of(run: &Run) -> u64 {
    run.filter().map_or(0, |filter| u64::try_from(filter.bytes()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use seawall_simulation::SimulatedDisk;

    use super::*;
    use crate::runs::testing::{add_filler, checkpoint_into_run, open};

    #[test]
    fn the_largest_filters_are_done_without() {
        let database = open(&SimulatedDisk::new(1)).unwrap();
        add_filler(&database);
        let table = database.create_table("t").unwrap();
        database.checkpoint().unwrap();
        for count in [100_u64, 400, 200, 300] {
            for number in 0..count {
                database.put(&table, number.to_be_bytes(), count.to_be_bytes()).unwrap();
            }
            checkpoint_into_run(database.engine(), 10);
        }
        let runs = database.engine().view().runs.to_vec();
        let sizes: Vec<u64> = runs.iter().map(|run| bytes_of(run)).collect();
        assert!(sizes.iter().all(|bytes| *bytes > 0), "{sizes:?}");
        let left = |bytes_max| {
            let within = within_memory(runs.clone(), bytes_max);
            within.iter().map(|run| bytes_of(run)).collect::<Vec<u64>>()
        };
        let all: u64 = sizes.iter().sum();
        assert_eq!(left(all), sizes);
        // Newest first: 300, 200, 400 and 100 rows.
        assert_eq!(left(all - 1), [sizes[0], sizes[1], 0, sizes[3]]);
        assert_eq!(left(sizes[1] + sizes[3]), [0, sizes[1], 0, sizes[3]]);
        assert_eq!(left(0), [0; 4]);
        // Once there is memory, they are read again.
        let engine = database.engine();
        engine.change_view(|view| view.runs = within_memory(view.runs.to_vec(), sizes[1] + sizes[3]).into());
        assert!(engine.view().runs[0].lacks_filter() && engine.view().runs[2].lacks_filter());
        engine.read_filters(&|| true);
        let again: Vec<u64> = engine.view().runs.iter().map(|run| bytes_of(run)).collect();
        assert_eq!(again, sizes);
    }
}
