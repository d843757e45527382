//! Both places of the second copy, and all compressions: power lost at every disk call, again with the other place
//! after it, and damage to either copy at the worst moment. The tree is that before the chunk or that after it, or it
//! does not open; it is never a mixture.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "protection/base.rs"]
mod base;
mod common;
#[path = "protection/damage.rs"]
mod damage;
#[path = "protection/forged.rs"]
mod forged;
#[path = "protection/power_loss.rs"]
mod power_loss;
#[path = "protection/writing.rs"]
mod writing;
