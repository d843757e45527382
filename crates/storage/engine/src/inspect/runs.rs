//! The sorted runs of a database, one by one.

use seawall_sync::MutexGuard;
use seawall_tree::Group;
use seawall_types::Lsn;

use crate::catalog::first_local_key;
use crate::checkpoint::merge_source::first_user_key;
use crate::engine::Engine;
use crate::error::Error;
use crate::runs::run::Run;

/// A sorted run: changes that a checkpoint has written beside the main part of the tree, or several of these merged into one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunInfo {
    /// Its number, which no other run of the directory ever had or will have.
    pub number: u64,
    /// 0: written by a checkpoint. Otherwise one more than the highest of the runs that it is made of.
    pub level: u8,
    /// Every change in it is stamped later than this.
    pub start: Lsn,
    /// Every change in it is stamped at most this. Where two runs overlap, the one with the higher number is being made of the other.
    pub end: Lsn,
    /// Rows when it was written, deletions included.
    pub rows: u64,
    /// How many of these say that a row is deleted.
    pub deletions: u64,
    /// Pages of rows when it was written.
    pub leaves: u64,
    /// Pages of rows that it has left. Merges into the main part, and into other runs, take the rest.
    pub leaves_left: u64,
    /// Bytes of the filter when it was written; 0: it has none.
    pub filter_bytes: u64,
    /// When it was written, or last grew, in microseconds since 1970.
    pub written_micros: i64,
}

impl Engine {
    /// All runs, the newest first.
    pub(crate) fn run_infos(&self) -> Result<Vec<RunInfo>, Error> {
        let mut infos = Vec::new();
        for run in self.view().runs.iter() {
            // Only who has the turn may go through interior pages. One run at a time: a checkpoint may wait.
            let turn = self.checkpoint_turn.take_patiently();
            // As it is by now.
            let listed = self.view().runs.iter().find(|listed| listed.number == run.number).cloned();
            if let Some(run) = listed {
                infos.push(self.run_info(&run)?);
            }
            MutexGuard::unlock_fair(turn);
        }
        Ok(infos)
    }

    fn run_info(&self, run: &Run) -> Result<RunInfo, Error> {
        let (from, to) = (run.key_of(&first_user_key()), run.key_of(&first_local_key()));
        let mut leaves_left = 0;
        for group in self.tree.groups(&from, &to) {
            let group: Group = group.map_err(|error| Error::tree(&error))?;
            leaves_left += group.leaves_within(&from, &to).len() as u64;
        }
        let descriptor = &run.descriptor;
        Ok(RunInfo {
            number: run.number.get(),
            level: descriptor.level,
            start: descriptor.start,
            end: descriptor.end,
            rows: descriptor.rows,
            deletions: descriptor.deletions,
            leaves: descriptor.leaves,
            leaves_left,
            filter_bytes: descriptor.filter_bytes,
            written_micros: descriptor.written_micros,
        })
    }
}
