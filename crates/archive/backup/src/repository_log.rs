//! The log of a repository, for a standby: segments that are fetched ahead of the one that is being received, then the tail.
//!
//! ```text
//!   timeline 1   [ 5 whole ][ 6 whole ][ 7 tails . . |      to the end of what is there
//!                      |from                   |until: another timeline has left this one
//! ```
//! A standby receives one timeline at a time. Where it goes on to another one is its own to say.

use std::ops::ControlFlow;
use std::sync::Arc;

use seawall_archive::{LogFileName, Repository, System};
use seawall_types::{DatabaseId, Lsn, TimelineId};
use seawall_wal::{LogGeometry, TimelineHistory};

use crate::error::BackupError;
use crate::history::StoredHistory;
use crate::stored_log::StoredLog;

/// Segments that are in memory at a time, and their memory: of long ones fewer.
const SEGMENTS_MAX: u64 = 4;
const MEMORY_BYTES: u64 = 32 << 20;

/// The log of one database in a repository.
#[derive(Clone, Debug)]
pub struct RepositoryLog {
    repository: Arc<Repository>,
    database: DatabaseId,
}

impl RepositoryLog {
    /// The log of `database`.
    pub fn new(repository: Arc<Repository>, database: DatabaseId) -> RepositoryLog {
        RepositoryLog { repository, database }
    }

    /// The histories of all timelines with higher numbers than `timeline`.
    ///
    /// # Errors
    /// `Damaged` if one of them cannot be read; what the repository says.
    pub fn histories_after(&self, timeline: TimelineId) -> Result<Vec<TimelineHistory>, BackupError> {
        let system = System::Seawall(self.database);
        let mut found = Vec::new();
        for (name, _) in self.repository.list_histories(system)? {
            let LogFileName::History(later) = name else { continue };
            if later > timeline
                && let Some(stored) = StoredHistory::read(&self.repository, system, later)?
            {
                found.push(stored.into_history()?);
            }
        }
        Ok(found)
    }

    /// Gives the log of the timeline that `history` is of, from the file byte of LSN `from` on and up to `until`, to `put`: bytes of
    /// segment files of `segment_bytes` as they are, in order, and the LSN of the first. Ends when `put` says so, or where the log ends;
    /// there.
    ///
    /// # Errors
    /// `LeftOut`, `Gap` if there is later log: what is missing may be on its way. `Damaged`; what the repository says; `Database` if no log
    /// has such segments.
    pub fn fetch(
        &self,
        history: &TimelineHistory,
        segment_bytes: u64,
        from: Lsn,
        until: Lsn,
        put: &mut dyn FnMut(Lsn, &[u8]) -> ControlFlow<()>,
    ) -> Result<Lsn, BackupError> {
        let mut at = from;
        if at >= until {
            return Ok(at);
        }
        let geometry = LogGeometry::new(segment_bytes).map_err(|error| of_log(&error))?;
        let threads = (MEMORY_BYTES / segment_bytes).clamp(1, SEGMENTS_MAX);
        let threads = usize::try_from(threads).unwrap_or(1);
        let log = StoredLog::new(&self.repository, None, self.database, geometry, history.clone());
        // A byte of the segment that `until` may only begin is not wanted.
        let last = if until == Lsn::MAX { until } else { Lsn::new(until.get() - 1) };
        let fetched = log.fetch(from, last, threads, &mut |fetched, arrived| {
            let start = fetched.name.number * segment_bytes;
            // After the next header page is where a record would begin: the page is one of the next file.
            let stop = arrived.get().min(start + segment_bytes).min(until.get());
            let piece = at.get().checked_sub(start).and_then(|first| {
                let first = usize::try_from(first).ok()?;
                let stop = usize::try_from(stop.checked_sub(start)?).ok()?;
                fetched.content.get(first..stop)
            });
            let flow = match piece {
                Some(piece) if !piece.is_empty() => put(at, piece),
                Some(_) | None => ControlFlow::Continue(()),
            };
            at = at.max(Lsn::new(stop));
            Ok(if at >= until { ControlFlow::Break(()) } else { flow })
        })?;
        fetched.gap.map_or(Ok(at), Err)
    }
}

fn of_log(error: &seawall_wal::LogError) -> BackupError {
    seawall_engine::Error::Log { message: error.to_string() }.into()
}
