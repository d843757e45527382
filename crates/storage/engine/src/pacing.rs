//! Writers, checkpoints and recovery kept in step.
//!
//! ```text
//!   measurements, recovery_time        when a checkpoint must start so that a recovery stays within its target
//!              |
//!            pace                      rate at which memory and log suffice until the checkpoint ends
//!              |
//!          throttle                    each commit pays for its bytes at that rate
//!              |
//!         writer_pace                  a commit gets its room in the memtable, or waits for it
//! ```
//! Start at `writer_pace`.

pub(crate) mod measurements;
pub(crate) mod pace;
pub(crate) mod recovery_time;
pub(crate) mod throttle;
pub(crate) mod writer_pace;
