//! What is said on standard error: the agent's log, and for commands PostgreSQL's.

use std::fmt;
use std::io::{self, Write};

/// Says it, where that is possible. `eprintln!` would end the thread, or the command with an exit code of its own, when the disk of
/// the log is full; and to a recovery that code is the end of the archive.
pub(crate) fn line(words: fmt::Arguments<'_>) {
    io::stderr().write_all(format!("{words}\n").as_bytes()).unwrap_or(());
}

/// As `eprintln!`.
macro_rules! say {
    ($($words:tt)*) => { $crate::say::line(format_args!($($words)*)) };
}
pub(crate) use say;
