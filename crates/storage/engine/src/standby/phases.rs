//! What a promotion took, phase by phase: for the event log, the answer, and the statistics.

use std::time::Duration;

use seawall_io::Clock;
use seawall_types::{Lsn, TimelineId};

/// A promotion that this server has completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promotion {
    /// The timeline that it began.
    pub timeline: TimelineId,
    /// Where that timeline begins: the end of the received log.
    pub fork: Lsn,
    /// Where the time went.
    pub phases: PromotionPhases,
}

/// The phases of a promotion, in their order. One begins where the one before ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PromotionPhases {
    /// Receiving ends, and what has come becomes durable.
    pub receive: Duration,
    /// The rest of the log is applied.
    pub apply: Duration,
    /// A step of the applier, or a chunk of a checkpoint, is waited for.
    pub wait: Duration,
    /// The log begins the new timeline: history, segment, switch record.
    pub timeline: Duration,
    /// Both copies of the superblock name it.
    pub superblock: Duration,
    /// Holds, archivers and background threads are set up, and writers let in.
    pub writers: Duration,
}

impl PromotionPhases {
    /// Names and durations, in their order.
    pub fn named(&self) -> [(&'static str, Duration); 6] {
        let PromotionPhases { receive, apply, wait, timeline, superblock, writers } = *self;
        [
            ("receive", receive),
            ("apply", apply),
            ("wait", wait),
            ("timeline", timeline),
            ("superblock", superblock),
            ("writers", writers),
        ]
    }

    /// All of them: from the order to the first write that is possible.
    pub fn total(&self) -> Duration {
        self.named().iter().map(|(_, duration)| *duration).sum()
    }
}

/// Measures what comes one after another.
pub(crate) struct Laps<'c> {
    clock: &'c dyn Clock,
    begun: Duration,
}

impl<'c> Laps<'c> {
    pub(crate) fn begin(clock: &'c dyn Clock) -> Laps<'c> {
        Laps { clock, begun: clock.monotonic() }
    }

    /// Time since the last call, or since the beginning.
    pub(crate) fn lap(&mut self) -> Duration {
        let now = self.clock.monotonic();
        now.saturating_sub(std::mem::replace(&mut self.begun, now))
    }
}
