//! What the streams of a server say together, for the commits that wait for standbys.

use std::sync::OnceLock;

use seawall_engine::{Database, StandbyPositions};
use seawall_types::Lsn;

use crate::synchronous::{Member, StandbyNames, SyncState};

/// The standbys that commits wait for, and the database that is told of them.
#[derive(Debug)]
pub(crate) struct Quorum {
    database: Database,
    names: OnceLock<StandbyNames>,
}

impl Quorum {
    pub(crate) fn new(database: Database) -> Quorum {
        Quorum { database, names: OnceLock::new() }
    }

    pub(crate) fn is_of(&self, names: StandbyNames) {
        self.names.get_or_init(|| names);
    }

    pub(crate) fn names(&self) -> Option<&StandbyNames> {
        self.names.get()
    }

    /// These are all streams now. What waited for that is visible when this returns.
    pub(crate) fn streams_are(&self, streams: &[Member]) {
        // A receiver that applies nothing, as `pg_receivewal`, takes nobody's place.
        let candidates = streams.iter().filter(|stream| stream.progress.applied > Lsn::ZERO);
        let candidate = candidates.map(|stream| stream.progress.flushed).max();
        let quorum = self.names.get().and_then(|names| names.positions(streams));
        self.database.quorum().standbys_are_at(StandbyPositions { quorum, candidate });
    }

    /// The place of a stream in the list, from 1 on, or 0, and what it is to the commits.
    pub(crate) fn sync_state(&self, stream: &Member, streams: &[Member]) -> (usize, SyncState) {
        match self.names.get() {
            Some(names) => (names.priority(&stream.name), names.sync_state(stream, streams)),
            None => (0, SyncState::Asynchronous),
        }
    }
}
