//! What is told of a history.

use std::path::PathBuf;

use super::history::{History, Outcome};
use crate::error::{TortureError, io_error};
use crate::finding::Report;

/// Of one history, no more anomalies are told.
pub(super) const TOLD_MAX: usize = 3;

/// Counts what is in a history.
pub(super) fn count(history: &History, report: &mut Report) {
    for transaction in history {
        let what = match transaction.outcome {
            Outcome::Committed => "transactions committed",
            Outcome::Aborted => "transactions aborted",
            Outcome::Unknown => "transactions of unknown outcome",
        };
        report.count(what, 1);
        report.count("lists read", transaction.reads().count() as u64);
    }
}

/// The history as JSON, in a file that stays.
pub(super) fn keep(history: &History, seed: u64) -> Result<PathBuf, TortureError> {
    let prefix = format!("seawall-torture-history-{seed}-");
    let builder = tempfile::Builder::new().prefix(&prefix).suffix(".json").disable_cleanup(true).tempfile();
    let file = builder.map_err(io_error("make a file for evidence"))?;
    serde_json::to_writer(std::io::BufWriter::new(file.as_file()), history)?;
    Ok(file.path().to_owned())
}
