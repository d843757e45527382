//! News of the standbys reach the commits that wait for them.

use std::time::Duration;

use crate::engine::Engine;
use crate::quorum::members::{News, StandbyPositions};

impl Engine {
    /// The standbys are so far: shows what waited for that.
    pub(crate) fn standbys_are_at(&self, positions: StandbyPositions) {
        let news = self.members.are_at(positions, self.visible(), self.clock().monotonic());
        if let Some(quorum) = positions.quorum.filter(|_| self.members.are_required()) {
            self.queue.watermarks().raise(quorum);
        }
        if let News::Together(alone) = news {
            self.queue.watermarks().require(true);
            if let Err(error) = self.record_alone(None) {
                tracing::warn!(%error, "it is not on record that this server does not go on alone any more");
            }
            tracing::warn!(alone_from = %alone.from, "a quorum of standbys has caught up: commits wait for it again");
        }
        self.queue.advance();
        self.queue.wake_waiting();
        let safe_end = self.safe_end();
        self.archivers.all().iter().for_each(|archiver| archiver.flushed(safe_end));
    }

    /// Goes on alone if the time for that has come; how long until then, if it is to come.
    pub(crate) fn go_alone_in_time(&self) -> Option<Duration> {
        let now = self.clock().monotonic();
        let left = self.members.alone_in(now)?;
        if left.is_zero()
            && let Some(alone) = self.members.go_alone(self.visible(), now, self.clock().wall_micros())
        {
            // On record first: a restart tells that commits were acknowledged without standbys.
            if let Err(error) = self.record_alone(Some(alone)) {
                tracing::error!(%error, "it cannot be put on record that this server goes on alone");
            }
            tracing::error!(
                from = %alone.from,
                "no quorum of standbys has been connected for too long: this server goes on alone, and a standby that is promoted \
                 now lacks what it acknowledges"
            );
            self.queue.watermarks().require(false);
            self.queue.advance();
            self.queue.wake_waiting();
        }
        Some(left)
    }
}
