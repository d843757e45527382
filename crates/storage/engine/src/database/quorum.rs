//! The quorum of standbys that commits wait for.

use super::Database;
use crate::quorum::members::{QuorumStatus, StandbyPositions};

/// The quorum of standbys of a database: see [`Database::quorum`].
#[derive(Clone, Copy, Debug)]
pub struct Quorum<'a> {
    database: &'a Database,
}

impl<'a> Quorum<'a> {
    pub(super) fn new(database: &'a Database) -> Quorum<'a> {
        Quorum { database }
    }

    /// The standbys are so far: what waited for that is visible when this returns. To be told of each change: of an acknowledgement, of a
    /// standby that comes, and of one that is lost. No position may lie beyond the durable end of this server's log.
    pub fn standbys_are_at(&self, positions: StandbyPositions) {
        self.database.engine().standbys_are_at(positions);
    }

    /// How it stands.
    pub fn status(&self) -> QuorumStatus {
        let engine = self.database.engine();
        engine.members.status(engine.clock().monotonic())
    }
}
