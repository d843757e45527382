//! What a torture found, and how to see it again.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use serde::Serialize;

/// A broken promise.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// The run that found it.
    pub seed: u64,
    /// What was promised, and what was there.
    pub what: String,
    /// The command that does the same run again.
    pub repeat: String,
    /// Where the files are kept on which it was found.
    pub evidence: Option<PathBuf>,
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "FOUND (seed {}): {}", self.seed, self.what)?;
        if let Some(evidence) = &self.evidence {
            writeln!(formatter, "  kept:   {}", evidence.display())?;
        }
        write!(formatter, "  repeat: {}", self.repeat)
    }
}

/// What a torture did and found.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Report {
    /// The sub-command's name.
    pub(crate) torture: &'static str,
    pub(crate) findings: Vec<Finding>,
    /// How much was tried, by what: runs, kills, transactions.
    pub(crate) tried: BTreeMap<&'static str, u64>,
    pub(crate) seconds: f64,
}

impl Report {
    pub(crate) fn new(torture: &'static str) -> Report {
        Report { torture, ..Report::default() }
    }

    pub(crate) fn count(&mut self, what: &'static str, more: u64) {
        *self.tried.entry(what).or_default() += more;
    }

    /// As JSON on one line, or as text.
    pub(crate) fn print(&self, as_json: bool) -> Result<(), serde_json::Error> {
        if as_json {
            println!("{}", serde_json::to_string(self)?);
        } else {
            println!("{self}");
        }
        Ok(())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for finding in &self.findings {
            writeln!(formatter, "{finding}")?;
        }
        write!(formatter, "{}: {} found in {:.1} s", self.torture, self.findings.len(), self.seconds)?;
        self.tried.iter().try_for_each(|(what, count)| write!(formatter, "\n  {what}: {count}"))
    }
}
