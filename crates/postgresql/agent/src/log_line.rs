//! Lines on standard error: the agent's log, and for commands PostgreSQL's.

use std::fmt;
#[cfg(not(test))]
use std::io::{self, Write};

/// Writes a line, where that is possible. `eprintln!` would end the thread, or the command with an exit code of its own, when the disk of
/// the log is full; and to a recovery that code is the end of the archive.
pub(crate) fn write(words: fmt::Arguments<'_>) {
    // The harness keeps back what a test prints that passes.
    #[cfg(test)]
    eprintln!("{words}");
    #[cfg(not(test))]
    io::stderr().write_all(format!("{words}\n").as_bytes()).unwrap_or(());
}

/// Writes a line to the log, with the arguments of `eprintln!`.
macro_rules! log_line {
    ($($words:tt)*) => { $crate::log_line::write(format_args!($($words)*)) };
}
pub(crate) use log_line;
