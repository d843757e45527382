//! Tables by the hundred thousand: creating them, dropping them one by one, and replaying the log of that.
//!
//! ```text
//!   cell: a load, a cache, a number of sessions. A process for each step, which ends without closing its database:
//!
//!     puts      durable puts of one row: what a commit costs here
//!     create    tables, with their rows
//!     replay    of that log, where all of it is still there
//!     drop      each table in a durable transaction of its own, in random order
//!     replay    of that log alone
//!     reclaim   what the drops left: cut out of the tree and given back
//! ```
//! `mixed` instead drops tables and creates them again beside writers of rows, for as long as it is told, with the engine's own
//! checkpoints, and then replays what is left of the log.
//!
//! Invariants:
//! * A figure counts only if the tables are there, or gone, and the database is sound at the end.
//! * A replay is measured in a process that did nothing before it.
//!
//! Only Seawall is measured. Start at `step::run`.

mod arguments;
mod cell;
mod create;
mod figures;
mod mixed;
mod report;
mod step;
mod tables;

pub(crate) use arguments::Arguments;
pub(crate) use step::run as run_step;
pub(crate) use tables::run;
