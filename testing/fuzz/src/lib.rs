//! Entry functions of the fuzzers: each takes bytes that nobody chose and drives one decoder with them.
//!
//! ```text
//!   fuzz_targets/X.rs --------------------------+
//!   regressions/X/* --> tests/regressions.rs ---+--> entry function --> the crate's public API
//!                   \-> tests/fuzz_regressions.rs of the crates
//! ```
//! Invariants:
//! * An entry function returns. A panic, more than 10 s or more than 2 GiB is a finding: whatever the bytes are, a
//!   decoder answers with data or with a typed error.
//! * What is accepted is checked: it must read the same after it was written again.
//! * The same bytes give the same run: no clock, no randomness.
//!
//! Each file uses nothing but the crates that it tests, so that those crates' own tests can include it.

pub mod archive;
pub mod backup;
pub mod base_backup;
pub mod cases;
pub mod codec;
pub mod command_line;
pub mod directory;
pub mod input;
pub mod keys;
pub mod log;
pub mod protocol;
pub mod published_statistics;
pub mod replication;
pub mod run_rows;
pub mod settings;
pub mod statement;
pub mod stored_backup;
pub mod system_rows;
pub mod tree;

/// The entry functions of all targets, by the target's name.
pub fn entries() -> Vec<(&'static str, input::Entry)> {
    [
        log::ENTRIES,
        tree::ENTRIES,
        codec::ENTRIES,
        keys::ENTRIES,
        archive::ENTRIES,
        backup::ENTRIES,
        base_backup::ENTRIES,
        stored_backup::ENTRIES,
        directory::ENTRIES,
        system_rows::ENTRIES,
        run_rows::ENTRIES,
        published_statistics::ENTRIES,
        command_line::ENTRIES,
        protocol::ENTRIES,
        replication::ENTRIES,
        settings::ENTRIES,
        statement::ENTRIES,
    ]
    .concat()
}
