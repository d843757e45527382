//! What the server counts for those who look after it: statements, relations, and where time goes.
//!
//! All of it is in memory, bounded, and begins anew with the server.
//!
//! * `relations`: scans and changes of tables and indexes, for `pg_stat_user_tables` and its kind.
//! * `statements`: calls and times of statements, for `pg_stat_statements`.
//! * `stages`: histograms of the stages of statements, for `/metrics`.

pub(crate) mod relations;
pub(crate) mod stages;
pub(crate) mod statements;

use std::sync::atomic::{AtomicU64, Ordering};

use relations::RelationRegistry;
use stages::Stages;
use statements::StatementRegistry;

/// All counters of a database.
#[derive(Debug, Default)]
pub struct Monitor {
    pub(crate) relations: RelationRegistry,
    pub(crate) statements: StatementRegistry,
    pub(crate) stages: Stages,
    pub(crate) counts: Counts,
}

/// Counts of single things. Each is `Relaxed`: right on its own.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Texts that were parsed.
    pub(crate) parses: AtomicU64,
    /// Queries that were planned.
    pub(crate) plans: AtomicU64,
    /// Statements that found their plan among those that are kept.
    pub(crate) plans_found: AtomicU64,
    /// Transactions that committed.
    pub(crate) commits: AtomicU64,
    /// Transactions that were rolled back.
    pub(crate) rollbacks: AtomicU64,
    /// Deadlocks that were found.
    pub(crate) deadlocks: AtomicU64,
}

/// Counts one.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl Monitor {
    /// What is counted, as families of OpenMetrics.
    pub(crate) fn open_metrics(&self) -> String {
        let mut text = self.stages.open_metrics();
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        for (name, help, value) in [
            ("parses", "Texts that were parsed.", read(&self.counts.parses)),
            ("plans", "Queries that were planned.", read(&self.counts.plans)),
            ("cached_plans", "Statements that found a plan that was kept.", read(&self.counts.plans_found)),
            ("commits", "Transactions that committed.", read(&self.counts.commits)),
            ("rollbacks", "Transactions that were rolled back.", read(&self.counts.rollbacks)),
            ("deadlocks", "Deadlocks that were found.", read(&self.counts.deadlocks)),
        ] {
            text.push_str(&format!(
                "# TYPE seawall_sql_{name} counter\n# HELP seawall_sql_{name} {help}\nseawall_sql_{name}_total {value}\n"
            ));
        }
        text
    }
}
