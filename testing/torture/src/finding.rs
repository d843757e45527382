//! What a torture found, and how to see it again.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use seawall_simulation::SimulatedDisk;
use serde::{Deserialize, Serialize};

use crate::error::{TortureError, io_error};

/// A broken promise.
#[derive(Clone, Debug, Serialize, Deserialize)]
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
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Report {
    /// The sub-command's name.
    pub(crate) torture: Cow<'static, str>,
    pub(crate) findings: Vec<Finding>,
    /// How much was tried, by what: runs, kills, transactions.
    pub(crate) tried: BTreeMap<Cow<'static, str>, u64>,
    pub(crate) seconds: f64,
}

impl Report {
    pub(crate) fn new(torture: &'static str) -> Report {
        Report { torture: torture.into(), ..Report::default() }
    }

    pub(crate) fn count(&mut self, what: impl Into<Cow<'static, str>>, more: u64) {
        *self.tried.entry(what.into()).or_default() += more;
    }

    /// How many seeds were tried, from the first one on.
    pub(crate) fn seeds(&self) -> u64 {
        self.tried.get("seeds").copied().unwrap_or(0)
    }

    /// Adds what another one has found and counted.
    pub(crate) fn add(&mut self, other: Report) {
        self.findings.extend(other.findings);
        other.tried.into_iter().for_each(|(what, count)| self.count(what, count));
        self.seconds += other.seconds;
    }

    /// As JSON on one line, or as text. What was found decides the exit code, whether anybody reads what it was or not.
    pub(crate) fn print(&self, as_json: bool) -> Result<(), serde_json::Error> {
        if as_json {
            say(serde_json::to_string(self)?);
        } else {
            say(self);
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

/// A line on standard output. Where nobody takes it, nothing: `println!` would panic.
pub(crate) fn say(line: impl fmt::Display) {
    use std::io::Write;
    std::io::stdout().write_all(format!("{line}\n").as_bytes()).unwrap_or(());
}

/// Copies all files, as processes see them now, to a directory that stays.
pub(crate) fn keep_files(disk: &SimulatedDisk, seed: u64) -> Result<PathBuf, TortureError> {
    let prefix = format!("seawall-torture-seed-{seed}-");
    let kept = tempfile::Builder::new().prefix(&prefix).disable_cleanup(true).tempdir();
    let kept = kept.map_err(io_error("make a directory for evidence"))?;
    for entry in disk.list_all() {
        let path = kept.path().join(&entry.name);
        let bytes = disk.read_file(&entry.name).unwrap_or_default();
        std::fs::create_dir_all(path.parent().unwrap_or(Path::new(".")))
            .and_then(|()| std::fs::write(&path, bytes))
            .map_err(io_error("keep a file as evidence"))?;
    }
    Ok(kept.path().to_owned())
}
