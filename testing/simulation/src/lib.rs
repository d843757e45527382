//! A disk that loses power and a clock that stands still: one seed gives one run. Used by tests only.
//!
//! ```text
//!   test: seed --> SimulatedDisk --crash_at(call)--> engine runs until "power lost"
//!                       |
//!                       | after_power_loss(LoseAll | KeepAll | Random(seed)), or outcomes(limit, seed) for all of them
//!                       v
//!                  SimulatedDisk holding what a real one might hold --> engine opens it --> checks
//! ```
//! Invariants:
//! * What was synced before the power loss is there after it: bytes by a sync of the file, names by a sync of the
//!   directory. Of what was not, any part may be there, in 512-byte sectors, in any order.
//! * The same seed and the same calls from one thread give the same bytes, errors and losses.
//! * `copy` and `after_power_loss` share unchanged blocks with the disk they came from, and never change it.
//!
//! Start at [`SimulatedDisk`].

mod clock;
mod crash_count;
mod disk;
mod random;

pub use clock::SimulatedClock;
pub use crash_count::{crash_count, crash_step};
pub use disk::{
    Call, CallKind, CallOutcome, Coverage, Delay, Fault, FaultError, FaultKind, FaultTarget, Gate,
    ObservedDisk, Operation, Operations, Outcome, Outcomes, PendingCall, PowerLoss, ReadCount,
    SimulatedDirectory, SimulatedDisk, StruckCall, Verdict,
};
pub use random::{SeededRandom, SimulatedRandom, seeds};
