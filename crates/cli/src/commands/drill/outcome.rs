//! What a drill of a database and one of a cluster have in common: how it is asked for, and how it went.

use std::time::Duration;

use seawall::TimelineId;
use seawall_backup::PassedOver;

use crate::arguments::{DrillArguments, Shared};
use crate::failure::Failure;

/// How a drill went: what monitors are told.
pub(in crate::commands) struct Outcome {
    pub(in crate::commands) recovery: Duration,
    /// In their order, with their names.
    pub(in crate::commands) phases: Vec<(&'static str, Duration)>,
    pub(in crate::commands) damages: u64,
    /// Why what was tried out is not what production would need, if it is not.
    pub(in crate::commands) stale: Option<String>,
    /// Whether the report could be written: what the drill has found counts in any case.
    pub(in crate::commands) written: Result<(), Failure>,
}

/// Why a drill along a timeline that nobody has named says nothing of production: another has newer data, or may be the one that the
/// time asked for means.
pub(in crate::commands) fn stale(
    arguments: &DrillArguments,
    timeline: TimelineId,
    passed_over: &[PassedOver],
) -> Option<String> {
    let is_stale = |other: &&PassedOver| other.is_newer || other.may_be_meant;
    let other = passed_over.iter().filter(|_| arguments.timeline.is_none()).find(is_stale)?;
    let why = match other.may_be_meant {
        true => "production may have been on another one at the time asked for,",
        false => "there is newer data of",
    };
    Some(format!(
        "the drill went along timeline {timeline}, and {why} {}: name the one of production with --timeline",
        other.what
    ))
}

/// Objects that are fetched at a time.
pub(in crate::commands) fn threads(shared: &Shared, arguments: &DrillArguments) -> usize {
    usize::from(arguments.threads.unwrap_or_else(|| shared.settings.require("drill.threads")))
}
