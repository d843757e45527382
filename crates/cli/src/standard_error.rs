//! Standard error: what is no answer of the command.

use std::fmt;
use std::io::{self, Write};

/// A line on standard error. Where nobody takes it, nothing: `eprintln!` would end the process, with an exit code that says something
/// else.
pub(crate) fn tell(line: impl fmt::Display) {
    io::stderr().write_all(format!("{line}\n").as_bytes()).unwrap_or(());
}

/// Standard error, for what is no failure.
#[derive(Clone, Copy)]
pub(crate) struct Warnings {
    pub(crate) json: bool,
}

impl Warnings {
    pub(crate) fn warn(self, text: impl fmt::Display) {
        match self.json {
            true => tell(serde_json::json!({ "warning": text.to_string() })),
            false => tell(format_args!("seawall: warning: {text}")),
        }
    }
}
