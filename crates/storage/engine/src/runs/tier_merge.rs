//! How far a merge of several runs into one has come. It is forgotten with the process: what is merged by then stays merged.

use std::sync::Arc;

use crate::runs::run::{Run, RunNumber};

/// A merge of runs that is under way.
#[derive(Debug)]
pub(crate) struct TierMerge {
    pub(super) target: RunNumber,
    /// What it is made of. Those that are still listed have rows from `from` on only.
    pub(super) sources: Vec<RunNumber>,
    /// Where the next slice begins; the empty key before the first one.
    pub(super) from: Vec<u8>,
}

impl TierMerge {
    /// Its runs that are left, the newest first, and the target, if it is there.
    pub(super) fn among(&self, runs: &[Arc<Run>]) -> (Vec<Arc<Run>>, Option<Arc<Run>>) {
        let sources = runs.iter().filter(|run| self.sources.contains(&run.number)).cloned().collect();
        (sources, runs.iter().find(|run| run.number == self.target).cloned())
    }
}
