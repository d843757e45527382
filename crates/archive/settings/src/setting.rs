//! One setting: its values, and where they are from.

use std::fmt;
use std::path::Path;

/// Where a value is from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// An option of the command line.
    Option(String),
    /// A variable of the environment.
    Environment(String),
    /// A line of the file.
    File {
        /// The file.
        path: String,
        /// The first one is 1.
        line: usize,
    },
    /// Nobody has set it.
    Default,
}

impl Origin {
    pub(crate) fn file(path: &Path, line: usize) -> Origin {
        Origin::File { path: path.display().to_string(), line }
    }

    /// The level, for programs.
    pub fn level(&self) -> &'static str {
        match self {
            Origin::Option(_) => "option",
            Origin::Environment(_) => "environment",
            Origin::File { .. } => "file",
            Origin::Default => "default",
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Option(name) | Origin::Environment(name) => formatter.write_str(name),
            Origin::File { path, line } => write!(formatter, "{path}, line {line}"),
            Origin::Default => formatter.write_str("default"),
        }
    }
}

/// What is set, and where.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    /// One, or several of a list.
    pub(crate) texts: Vec<String>,
    pub(crate) origin: Origin,
}
