//! The real command, end to end. One binary, because linking it is what takes time.
#![expect(clippy::unwrap_used, reason = "a test that fails panics")]

#[path = "../common/agents.rs"]
#[allow(dead_code, reason = "the tests of archiving use all of it")]
mod agents;
mod batch;
mod damage;
mod documents;
mod encryption;
mod every_command;
mod exit_codes;
mod in_doubt;
mod input;
mod kill;
mod kill_backup;
mod load_and_dump;
mod manual;
mod moved;
mod refusals;
mod rows;
mod serve;
mod settings;
mod stats;
mod support;
mod tour;
mod typed_keys;
mod unread;
