//! Schedules: the code where threads meet, run under a scheduler that a seed tells which thread goes on at each access.
//!
//! ```text
//!   scenario: threads of the real log, memtable, engine --points--> seawall_sync::explored --seed--> who goes on
//!        |                                                                ^
//!        +-- a SimulatedDisk whose calls are points ---------------------+
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
mod isolation;
mod locks;
mod memtables;
mod plans;
mod publish;
mod quorum;
mod retention;
mod room;
mod throttle;
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
        scenario("waiting_for_a_word", 2000, waiting::for_a_word),
        scenario("group_commit_in_the_log", 200, group_commit::in_the_log),
        scenario("group_commit_without_a_flusher_thread", 200, group_commit::without_a_flusher_thread),
        scenario("group_commit_when_the_process_is_killed", 200, group_commit::when_the_process_is_killed),
        scenario("group_commit_in_the_engine", 100, group_commit::in_the_engine),
        scenario("versions_in_a_memtable", 200, memtables::versions),
        scenario("splits_in_a_memtable", 300, memtables::splits),
        scenario("pending_commits_in_a_memtable", 200, memtables::pending_commits),
        scenario("newest_version_in_a_memtable", 300, memtables::looks_at_the_newest_version),
        scenario("freeze_against_writers", 60, freeze::against_writers),
        scenario("freeze_against_prepared_transactions", 100, freeze::against_prepared_transactions),
        scenario("snapshots_of_hot_rows", 200, isolation::of_snapshots),
        scenario("snapshots_of_large_commits", 60, isolation::of_snapshots_beside_large_commits),
        scenario("statements_of_one_moment", 100, isolation::of_statements),
        scenario("plans_beside_an_alteration", 100, plans::beside_an_alteration),
        scenario("serializable_transactions", 200, isolation::of_serializable_transactions),
        scenario("validations_beside_commits", 100, isolation::of_validations_beside_commits),
        scenario("reader_and_definition_in_doubt", 200, isolation::of_a_reader_and_a_definition_in_doubt),
        scenario("publish_against_readers", 100, publish::against_readers),
        scenario("room_in_the_memtable", 40, room::in_the_memtable),
        scenario("throttle_of_writers", 60, throttle::of_writers),
        scenario("locks_in_a_cycle", 200, locks::in_a_cycle),
        scenario("locks_that_time_out", 150, locks::that_time_out),
        scenario("locks_given_back_at_savepoints", 150, locks::given_back_at_savepoints),
        scenario("locks_in_doubt", 100, locks::in_doubt),
        scenario("locks_of_a_stopped_database", 60, locks::of_a_stopped_database),
        scenario("locks_that_are_cancelled", 150, locks::that_are_cancelled),
        scenario("locks_of_rows_and_objects", 150, locks::of_rows_and_objects),
        scenario("commits_that_wait_for_standbys", 100, quorum::of_standbys),
        scenario("standbys_that_come_and_go", 100, quorum::that_come_and_go),
        scenario("retention_against_writer_and_reader", 320, retention::against_writer_and_reader),
    ]
}

/// Points of the run under way so far.
pub fn steps() -> usize {
    seawall_sync::explored::steps()
}
