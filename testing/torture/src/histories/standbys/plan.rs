//! What a seed means.

use std::time::Duration;

use seawall::{Durability, Isolation, Options, PageProtection, QuorumOptions, ReplicationLevel};
use seawall_replication::StandbyNames;
use seawall_simulation::SeededRandom;

use super::super::clients::Work;
use super::member::End;

/// What becomes of the place of a primary that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    /// A standby takes it.
    Promote,
    /// The primary starts again.
    Restart,
}

/// One life of a primary.
#[derive(Clone, Copy, Debug)]
pub(super) struct LifePlan {
    pub(super) end: End,
    /// During which call of its disk it ends, unless it is closed.
    pub(super) calls: u64,
    pub(super) then: Then,
    pub(super) is_network_bad: bool,
}

/// What commits wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waits {
    /// No standby: what a failover loses is taken out of the history.
    None,
    /// One of two.
    One,
    /// Both, until their readers see it.
    AllToApply,
}

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) clients: u32,
    pub(super) work: Work,
    pub(super) options: Options,
    pub(super) waits: Waits,
    pub(super) lives: Vec<LifePlan>,
    pub(super) random: SeededRandom,
}

impl Plan {
    pub(super) fn new(seed: u64) -> Plan {
        let mut random = SeededRandom::new(seed);
        let waits = *random.pick(&[Waits::None, Waits::One, Waits::AllToApply]);
        let lives = (0..random.range(2..4)).map(|_| life(&mut random)).collect();
        let mut options = Options::default();
        options.format.segment_bytes = *random.pick(&[64 << 10, 1 << 20]);
        options.memory.memtable_bytes = *random.pick(&[1 << 20, 16 << 20]);
        options.memory.cache_bytes = 1 << 20;
        options.checkpoint.log_bytes = *random.pick(&[128 << 10, 1 << 20]);
        options.checkpoint.threads = *random.pick(&[1, 2]);
        options.checkpoint.page_protection =
            *random.pick(&[PageProtection::RecoveryFile, PageProtection::LogImages]);
        // After that, pages get what no standby has, and such a primary comes back as a copy. Longer, and most of a round is waiting.
        options.checkpoint.standby_wait = Duration::from_millis(*random.pick(&[20, 500]));
        options.log.flush_interval = Duration::from_millis(*random.pick(&[10, 1_000]));
        // With less, a standby that is behind at a failover is made anew.
        options.log.keep_bytes = *random.pick(&[0, 64 << 20, 64 << 20]);
        options.quorum = (waits != Waits::None).then(QuorumOptions::default);
        let level = match waits {
            Waits::AllToApply => ReplicationLevel::Applied,
            Waits::None | Waits::One => ReplicationLevel::Flushed,
        };
        let work = Work {
            isolation: *random.pick(&[Isolation::Snapshot, Isolation::Serializable]),
            transactions: random.range(30..80),
            // A commit that waits for nobody is seen late behind one that does.
            async_percent: if waits == Waits::None { *random.pick(&[0, 20, 90]) } else { 0 },
            durability: Durability::Replicated(level),
        };
        Plan { clients: 4, work, options, waits, lives, random }
    }

    pub(super) fn quorum(&self) -> Option<StandbyNames> {
        let names = match self.waits {
            Waits::None => return None,
            Waits::One => "ANY 1 (a, b, c)",
            Waits::AllToApply => "FIRST 2 (a, b, c)",
        };
        Some(names.parse().expect("they are as PostgreSQL writes them"))
    }
}

fn life(random: &mut SeededRandom) -> LifePlan {
    LifePlan {
        end: *random.pick(&[End::Close, End::Kill, End::Kill, End::PowerLoss, End::PowerLoss]),
        calls: random.range(1..600),
        then: *random.pick(&[Then::Promote, Then::Promote, Then::Restart]),
        is_network_bad: random.chance(1, 2),
    }
}
