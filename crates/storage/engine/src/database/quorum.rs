//! The quorum of standbys that commits wait for.

use super::Database;
use seawall_types::Lsn;

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

    /// Whether commits of `Durability::Replicated` wait for standbys, by the options of the database.
    pub fn is_required(&self) -> bool {
        self.database.engine().members.are_required()
    }

    /// The stamp of the newest commit in the log, if it is not visible yet.
    pub fn newest_waiting(&self) -> Option<Lsn> {
        let queue = &self.database.engine().queue;
        // Visible is read second: it only grows.
        let newest = queue.last_entered();
        (newest > queue.visible()).then_some(newest)
    }

    /// Puts on record what is visible now: a restart shows at least that. By itself, this is done a few times a second.
    pub fn keep_mark(&self) {
        self.database.engine().keep_mark();
    }

    /// How it stands.
    pub fn status(&self) -> QuorumStatus {
        let engine = self.database.engine();
        engine.members.status(engine.clock().monotonic())
    }
}
