//! Histograms of the stages of statements. Those of a commit within the engine are the engine's own.

use seawall_engine::DurationCounter;

/// Where the time of statements goes.
#[derive(Debug, Default)]
pub(crate) struct Stages {
    /// A text becomes statements. Not counted where a plan was kept.
    pub(crate) parse: DurationCounter,
    /// A query is bound and optimized. Not counted where a plan was kept.
    pub(crate) plan: DurationCounter,
    /// A statement runs, without its parsing and planning, with its waits for locks.
    pub(crate) execute: DurationCounter,
    /// A transaction that has written commits.
    pub(crate) commit: DurationCounter,
}

impl Stages {
    /// One family, with a label for each stage.
    pub(super) fn open_metrics(&self) -> String {
        let name = "seawall_sql_stage_duration_seconds";
        let mut text =
            format!("# TYPE {name} histogram\n# HELP {name} Time that the stages of statements took.\n");
        for (stage, counter) in [
            ("parse", &self.parse),
            ("plan", &self.plan),
            ("execute", &self.execute),
            ("commit", &self.commit),
        ] {
            // Writing to a text does not fail.
            counter.read().write(&mut text, name, &format!("stage=\"{stage}\",")).unwrap_or_default();
        }
        text
    }
}
