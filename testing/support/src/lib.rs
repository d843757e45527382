//! What tests of several crates need: skips that are seen, waits that end, ports of their own, programs of others.
//!
//! ```text
//!   a test --> Need::skip --> standard error, past the test harness
//!                        +--> target/skipped.txt, which .ci/run prints at its end
//!                        +--> a failure, where SEAWALL_REQUIRE names the need
//!
//!   a test --> wait_until("what", || ...) --> a failure that names it, after a minute
//! ```
//! Invariants:
//! * No test skips silently: what it needs has a name, and a machine can be made to insist on it.
//! * No wait of a test is without a limit.

mod flag;
mod install;
mod port;
mod skip;
mod wait;

pub use flag::SetWhenDropped;
pub use install::install;
pub use port::Port;
pub use skip::Need;
pub use wait::{PATIENCE, wait_for, wait_until, wait_until_within};

/// Writes to standard error past the test harness, which keeps back what a test prints that passes.
fn say(message: &str) {
    use std::io::Write;
    let said = std::io::stderr().lock().write_all(message.as_bytes());
    said.expect("a test has a standard error");
}
