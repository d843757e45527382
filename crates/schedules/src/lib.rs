//! Schedules: the code where threads meet, run under a scheduler that a seed tells which thread goes on at each access.
//!
//! ```text
//!   scenario: threads of the real log, memtable, engine --points--> seawall_sync::explored --seed--> who goes on
//!        |                                                                ^
//!        +-- PointedDisk over a SimulatedDisk: each disk call is a point -+
//!        +-- RunClock: time passes when somebody sleeps
//! ```
//! A scenario checks what is promised at every moment that a schedule can show: what was acknowledged is there after a power
//! loss at any point, snapshots are prefixes, nobody who waits is forgotten (the run would end in a deadlock).
//!
//! Invariants:
//! * The same seed gives the same run: a scenario takes nothing from outside.
//! * Nothing is copied from the code under test: the crates below are built with other primitives, that is all.
//!
//! Without the feature `shuttle` there is nothing here. Start at `scenarios`; `docs/testing.md` tells how to repeat a run.
#![cfg(feature = "shuttle")]
#![allow(clippy::unwrap_used, reason = "a scenario that fails panics")]

mod freeze;
mod group_commit;
mod locks;
mod memtables;
mod publish;
mod retention;
mod room;
mod waiting;
mod world;

pub use seawall_sync::explored::{Exploration, explore};

/// Something that threads do together, with checks of what is promised.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// Its name, also that of its test.
    pub name: &'static str,
    /// Seeds of an ordinary run.
    pub seeds: u64,
    /// One run. Panics where a promise is broken.
    pub run: fn(u64),
}

impl Scenario {
    /// Runs it by many seeds.
    ///
    /// # Panics
    /// If a promise is broken, or threads wait for each other. The seed is printed.
    pub fn explore(&self, exploration: Exploration) {
        explore(self.name, exploration, self.run);
    }
}

/// All scenarios.
pub fn scenarios() -> Vec<Scenario> {
    let scenario = |name, seeds, run| Scenario { name, seeds, run };
    vec![
        scenario("waiting_for_a_word", 500, waiting::for_a_word),
        scenario("group_commit_in_the_log", 200, group_commit::in_the_log),
        scenario("group_commit_without_a_flusher_thread", 200, group_commit::without_a_flusher_thread),
        scenario("group_commit_in_the_engine", 100, group_commit::in_the_engine),
        scenario("versions_in_a_memtable", 200, memtables::versions),
        scenario("freeze_against_writers", 60, freeze::against_writers),
        scenario("publish_against_readers", 40, publish::against_readers),
        scenario("room_in_the_memtable", 30, room::in_the_memtable),
        scenario("locks_in_a_cycle", 100, locks::in_a_cycle),
        scenario("locks_that_time_out", 100, locks::that_time_out),
        scenario("locks_in_doubt", 60, locks::in_doubt),
        scenario("locks_of_a_stopped_database", 60, locks::of_a_stopped_database),
        scenario("retention_against_writer_and_reader", 100, retention::against_writer_and_reader),
    ]
}

/// Points of the run under way so far.
pub fn steps() -> usize {
    seawall_sync::explored::steps()
}
