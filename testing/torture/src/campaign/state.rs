//! How far a campaign is: a file that is replaced whole.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;

use crate::error::{TortureError, io_error};
use crate::finding::{Finding, Report};

const FILE: &str = "campaign.json";

/// What one torture has done.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Share {
    /// The first seed that did not begin.
    pub(super) next_seed: u64,
    pub(super) seeds: u64,
    pub(super) seconds: f64,
    pub(super) tried: BTreeMap<String, u64>,
    pub(super) findings: Vec<Finding>,
    /// Why it cannot run here.
    pub(super) skipped: Option<String>,
}

impl Share {
    pub(super) fn new(next_seed: u64) -> Share {
        let (tried, findings) = (BTreeMap::new(), Vec::new());
        Share { next_seed, seeds: 0, seconds: 0.0, tried, findings, skipped: None }
    }

    pub(super) fn add(&mut self, report: Report, seeds: u64, seconds: f64) {
        self.next_seed += seeds;
        self.seeds += seeds;
        self.seconds += seconds;
        self.findings.extend(report.findings);
        for (what, count) in report.tried {
            *self.tried.entry(what.into_owned()).or_default() += count;
        }
    }
}

/// All of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct State {
    pub(super) first_seed: u64,
    pub(super) slices: usize,
    pub(super) seconds: f64,
    /// By torture.
    pub(super) shares: BTreeMap<String, Share>,
}

impl State {
    /// The state of the campaign in `directory`; of a new one, whose seeds begin with `first_seed`, if there is none.
    pub(super) fn open(directory: &Path, first_seed: u64) -> Result<State, TortureError> {
        std::fs::create_dir_all(directory).map_err(io_error("make the campaign's directory"))?;
        match std::fs::read(directory.join(FILE)) {
            Ok(bytes) => Ok(serde_json::from_slice(&bytes)?),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                Ok(State { first_seed, slices: 0, seconds: 0.0, shares: BTreeMap::new() })
            }
            Err(error) => Err(io_error("read how far the campaign is")(error)),
        }
    }

    pub(super) fn store(&self, directory: &Path) -> Result<(), TortureError> {
        replace(directory, FILE, &serde_json::to_vec_pretty(self)?)
    }

    pub(super) fn findings(&self) -> impl Iterator<Item = &Finding> {
        self.shares.values().flat_map(|share| &share.findings)
    }

    /// All shares as one report.
    pub(super) fn report(&self) -> Report {
        let mut report = Report { seconds: self.seconds, ..Report::new("campaign") };
        for (name, share) in &self.shares {
            report.findings.extend(share.findings.iter().cloned());
            for (what, count) in &share.tried {
                report.count(format!("{name}: {what}"), *count);
            }
        }
        report
    }
}

/// Puts a file in place, or leaves the one that was there.
pub(super) fn replace(directory: &Path, name: &str, bytes: &[u8]) -> Result<(), TortureError> {
    let mut file = NamedTempFile::new_in(directory).map_err(io_error("make a file of the campaign"))?;
    file.write_all(bytes).map_err(io_error("write a file of the campaign"))?;
    file.persist(directory.join(name))
        .map(drop)
        .map_err(|error| io_error("name a file of the campaign")(error.error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_campaign_that_was_stored_goes_on_where_it_was() {
        let directory = tempfile::tempdir().unwrap();
        let mut state = State::open(directory.path(), 100).unwrap();
        let mut share = Share::new(100);
        let mut report = Report::new("model");
        report.count("seeds", 5);
        share.add(report, 5, 1.5);
        state.shares.insert("model".to_owned(), share);
        state.store(directory.path()).unwrap();
        let found = State::open(directory.path(), 7).unwrap();
        assert_eq!(found.first_seed, 100);
        assert_eq!(found.shares["model"].next_seed, 105);
        assert_eq!(found.report().tried["model: seeds"], 5);
    }
}
