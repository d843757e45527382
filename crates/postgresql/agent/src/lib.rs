//! `archive_command` and `restore_command` of PostgreSQL, and the process that works ahead for them.
//!
//! ```text
//!   PostgreSQL --> seawall archive-push %p -----> out/NAME.ok in the spool? done
//!                        | else, on a socket            ^
//!                        v                              | when durable in every repository
//!                  agent: follows archive_status/*.ready, many uploads in flight --> repositories
//!                        ^
//!                        | on a socket                  in/NAME: fetched ahead, whole
//!   PostgreSQL --> seawall archive-get %f %p --------> moved to its place
//! ```
//! The first command starts the agent, which ends by itself when nobody has asked for anything for a while.
//!
//! Invariants:
//! * A command says that a file is archived only if it is durable in every repository: this file, not one of the same name.
//! * No word of another user's is believed, whoever got to the spool first: `trust`.
//! * Nothing polls: a command waits on a socket, the agent on the directory it follows and on its commands.
//! * A file that cannot be archived does not keep others from it, and is reported with its cause each time it is asked for.
//! * To recovery, the end of the archive and a store that does not answer are not the same.
//! * The agent may be killed at any time: the spool says no more than what is durable, and the next agent goes on.
//!
//! Start at [`client::push`] and [`agent::main`]. Files of the spool are in `spool`, what is said on the socket in `protocol`.

pub mod agent;
pub mod client;
mod data_directory;
mod log_line;
mod peer;
mod protocol;
mod regular;
mod replacement;
#[doc(hidden)]
pub mod sabotage;
mod settings;
mod spool;
mod trust;

pub use protocol::Form;
pub use settings::{ArchiveSettings, SettingsError};
pub use spool::{FileIdentity, Lock, Spool, SpoolLock};
