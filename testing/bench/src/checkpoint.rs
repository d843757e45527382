//! Checkpoints under load: the three published tests of page protection, and what a checkpoint costs whom.
//!
//! ```text
//!   arguments --> plan: loads x configurations --> tables: a child process for each cell
//!                                                     |
//!     full speed, fixed rate, extreme:  prepare -> warm up -> writers | watch | carriers of the log -> figures -> every row is there
//!     readers:                          write -> read alone -> read during a checkpoint, in turns
//!     kill, recovery target:            writing process -> SIGKILL -> open, first read -> nothing acknowledged is lost
//! ```
//! Invariants:
//! * All configurations of a row write the same keys and values, in turns within a run.
//! * A figure counts only if the rows are there: a cell that misses a row, or has one too many, fails.
//! * A stall counts: a fixed rate measures from when an operation was due, and gaps count up to the end of the run.
//!
//! Only Seawall is measured. The shape is the published one, so that figures of others can be put beside it.
//! Start at `cell::measure`.

mod arguments;
mod carrier;
mod cell;
mod configuration;
mod figures;
mod killed;
mod load;
mod plan;
#[cfg(feature = "plot")]
mod plot;
mod readers;
mod report;
mod series;
mod stamps;
mod tables;
mod watch;
mod write_run;
mod writer_process;

pub(crate) use arguments::Test;
pub(crate) use cell::measure;
pub(crate) use tables::run;
pub(crate) use writer_process::write_until_killed;
