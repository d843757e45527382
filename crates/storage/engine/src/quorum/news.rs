//! News of the standbys reach the commits that wait for them.

use std::time::Duration;

use crate::engine::Engine;
use crate::quorum::members::{Alone, StandbyPositions};

impl Engine {
    /// The standbys are so far: shows what waited for that.
    pub(crate) fn standbys_are_at(&self, positions: StandbyPositions) {
        let has_caught_up = self.members.are_at(positions, self.visible(), self.clock().monotonic());
        if let Some(quorum) = positions.quorum.filter(|_| self.members.are_required()) {
            self.queue.watermarks().raise(quorum);
        }
        if has_caught_up {
            self.go_together();
        }
        self.queue.advance();
        self.queue.wake_waiting();
        let safe_end = self.safe_end();
        self.archivers.all().iter().for_each(|archiver| archiver.flushed(safe_end));
    }

    /// Waits for standbys again, if a quorum has still caught up.
    fn go_together(&self) {
        let _turn = self.members.turn();
        let Some(alone) = self.members.together(self.visible(), self.queue.watermarks()) else { return };
        if let Err(error) = self.record_alone(None) {
            tracing::warn!(%error, "it is not on record that this server does not go on alone any more");
        }
        tracing::warn!(alone_from = %alone.from, "a quorum of standbys has caught up: commits wait for it again");
    }

    /// Goes on alone if the time for that has come; how long until then, if it is to come.
    pub(crate) fn go_alone_in_time(&self) -> Option<Duration> {
        let left = self.members.alone_in(self.clock().monotonic())?;
        if left.is_zero() {
            self.go_alone();
        }
        Some(left)
    }

    fn go_alone(&self) {
        let _turn = self.members.turn();
        let now = self.clock().monotonic();
        // Another thread may have had the turn.
        if self.members.alone_in(now).is_none_or(|left| !left.is_zero()) {
            return;
        }
        let alone = Alone { since_micros: self.clock().wall_micros(), from: self.visible() };
        // On record first: a restart tells that commits were acknowledged without standbys.
        if let Err(error) = self.record_alone(Some(alone)) {
            tracing::error!(%error, "it cannot be put on record that this server goes on alone");
        }
        if !self.members.go_alone(alone, now, self.queue.watermarks()) {
            // A quorum came meanwhile.
            if let Err(error) = self.record_alone(None) {
                tracing::warn!(%error, "it is not on record that this server does not go on alone");
            }
            return;
        }
        tracing::error!(
            from = %alone.from,
            "no quorum of standbys has been connected for too long: this server goes on alone, and a standby that is promoted \
             now lacks what it acknowledges"
        );
        self.queue.advance();
        self.queue.wake_waiting();
    }
}
