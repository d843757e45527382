//! Does a history keep what its isolation level promises?
//!
//! ```text
//!   history --> lists: who appended what, in which order
//!                 |--> inconsistencies: what single reads tell
//!                 `--> dependencies: ww, wr, rw, real time --> cycles of the kinds that the level rules out
//! ```
//! Every level is held to real time, as `Transaction::commit` promises: every later transaction sees the commit. So
//! `Serializable` means strict serializability here.

use std::collections::BTreeMap;

use seawall::Isolation;

use super::anomaly::{Anomaly, forbidden_cycles};
use super::dependencies::Dependencies;
use super::history::History;
use super::inconsistencies::inconsistencies;
use super::lists::Lists;

/// What a history shows.
#[derive(Debug)]
pub(super) struct Verdict {
    /// All that the level rules out; of cycles those of the first kind that there is, one for each group of
    /// transactions.
    pub(super) anomalies: Vec<Anomaly>,
    /// How many dependencies of each kind were there to be on a cycle.
    pub(super) dependencies: BTreeMap<&'static str, u64>,
}

/// Holds `history` to `isolation`.
pub(super) fn check(history: &History, isolation: Isolation) -> Verdict {
    let lists = Lists::new(history);
    let mut anomalies = inconsistencies(history, &lists, isolation);
    let dependencies = Dependencies::new(history, &lists);
    let kinds = forbidden_cycles(isolation);
    let searches = [false, true]
        .into_iter()
        .flat_map(|in_real_time| kinds.iter().map(move |kind| (*kind, in_real_time)));
    let mut cycles = searches.map(|(kind, in_real_time)| dependencies.cycles(kind, in_real_time));
    anomalies.extend(cycles.find(|cycles| !cycles.is_empty()).unwrap_or_default());
    Verdict { anomalies, dependencies: dependencies.count() }
}

#[cfg(test)]
mod tests;
