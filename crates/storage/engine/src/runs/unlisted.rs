//! What a checkpoint that was cut short has left: the rows of a run that it had not listed yet. Nobody reads them.

use crate::checkpoint::statistics::Totals;
use crate::checkpoint::turn::CheckpointState;
use crate::engine::Engine;
use crate::error::Error;
use crate::pacing::merge_pace::MergePace;
use crate::row_key;
use crate::runs::list::unlisted_tables;

impl Engine {
    /// Cuts such runs out, in the first checkpoint after an open. It must come before a run is written, which is not listed either until
    /// the checkpoint ends.
    pub(crate) fn cut_unlisted_runs(
        &self,
        state: &mut CheckpointState,
        pace: &mut MergePace<'_>,
        totals: &mut Totals,
    ) -> Result<(), Error> {
        if state.unlisted_runs_are_gone {
            return Ok(());
        }
        // Where none was ever begun, the tree need not be asked.
        if self.redo.superblock().next_run > 0 {
            let tables = unlisted_tables(&self.tree, &self.view().runs)?;
            let ranges = tables.into_iter().map(|table| {
                let (from, to) = row_key::table_range(table);
                from..to
            });
            self.cut_ranges(ranges, pace, totals)?;
        }
        state.unlisted_runs_are_gone = true;
        Ok(())
    }
}
