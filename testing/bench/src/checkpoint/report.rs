//! Tables in the published shape: a column for each configuration, a line for each figure.

use std::collections::BTreeSet;

use super::cell::{Kind, Measured};
use super::configuration::Configuration;
use super::figures::{in_order, words};
use crate::report::{number, table};

/// All runs of one load.
#[derive(Clone, Debug)]
pub(super) struct Table {
    pub(super) title: String,
    pub(super) kind: Kind,
    /// In the order in which they were measured.
    pub(super) measured: Vec<Measured>,
}

/// By which figure runs are sorted to find the median, and whether more of it is better.
fn leading_figure(kind: Kind) -> (&'static str, bool) {
    match kind {
        Kind::Overwrite | Kind::Extreme => ("rows_per_second", true),
        Kind::Readers => ("reads_p99_9_during_to_without", false),
        Kind::Kill | Kind::RecoveryTarget => ("first_read_seconds", false),
    }
}

/// What is said of a cell when it is done.
pub(super) fn headline(measured: &Measured) -> String {
    let also = match measured.kind {
        Kind::Overwrite | Kind::Extreme => ["latency_p99_9_us", "longest_gap_ms", "checkpoints"],
        Kind::Readers => {
            ["reads_during_checkpoint_p99_9_us", "reads_during_checkpoint_max_us", "checkpoints"]
        }
        Kind::Kill => ["killed_at_share_of_checkpoint", "lost_commits", "acknowledged_commits"],
        Kind::RecoveryTarget => ["estimated_seconds", "killed_after_seconds", "replayed_mib"],
    };
    let names = std::iter::once(leading_figure(measured.kind).0).chain(also);
    let shown = names.filter_map(|name| {
        measured.figures.get(name).map(|value| format!("{} {}", words(name), number(*value)))
    });
    shown.collect::<Vec<_>>().join(", ")
}

impl Table {
    fn configurations(&self) -> Vec<&Configuration> {
        let mut seen = BTreeSet::new();
        let all = self.measured.iter().map(|measured| &measured.configuration);
        all.filter(|configuration| seen.insert(*configuration)).collect()
    }

    fn runs(&self, configuration: &Configuration) -> Vec<&Measured> {
        self.measured.iter().filter(|measured| measured.configuration == *configuration).collect()
    }

    /// The run with the median value, so that all of a column belong together; of an even number the worse one of the
    /// middle two.
    fn median(&self, configuration: &Configuration) -> Option<&Measured> {
        let (name, more_is_better) = leading_figure(self.kind);
        let mut runs = self.runs(configuration);
        let value = |run: &Measured| run.figures.get(name).copied().unwrap_or(0.0);
        runs.sort_by(|one, other| value(one).total_cmp(&value(other)));
        let last = runs.len().checked_sub(1)?;
        let middle = if more_is_better { last / 2 } else { last.div_ceil(2) };
        runs.get(middle).copied()
    }

    pub(super) fn medians(&self) -> Vec<&Measured> {
        self.configurations().into_iter().filter_map(|configuration| self.median(configuration)).collect()
    }

    /// Rows a second of the slowest configuration.
    pub(super) fn slowest(&self) -> Option<f64> {
        let rates = self.medians().into_iter().filter_map(|run| run.figures.get("rows_per_second").copied());
        rates.min_by(f64::total_cmp)
    }

    /// What a column shows of a figure: that of the median run; of tries, their median and the most.
    fn shown(&self, configuration: &Configuration, name: &str) -> String {
        match self.kind {
            Kind::Overwrite | Kind::Extreme | Kind::Readers => {
                let run = self.median(configuration);
                run.and_then(|run| run.figures.get(name)).map_or(String::new(), |value| number(*value))
            }
            Kind::Kill | Kind::RecoveryTarget => {
                let runs = self.runs(configuration);
                let mut values: Vec<f64> =
                    runs.iter().filter_map(|run| run.figures.get(name).copied()).collect();
                values.sort_by(f64::total_cmp);
                match (values.get(values.len() / 2), values.last()) {
                    (Some(median), Some(most)) => format!("{} / {}", number(*median), number(*most)),
                    _ => String::new(),
                }
            }
        }
    }
}

pub(super) fn markdown(done: &Table) -> String {
    let configurations = done.configurations();
    let heading = match done.kind {
        Kind::Overwrite | Kind::Extreme | Kind::Readers => "median run",
        Kind::Kill | Kind::RecoveryTarget => "median / most",
    };
    let mut lines = vec![vec![heading.to_owned()]];
    lines[0].extend(configurations.iter().map(|configuration| configuration.label()));
    let mut runs = vec!["runs".to_owned()];
    runs.extend(configurations.iter().map(|configuration| done.runs(configuration).len().to_string()));
    lines.push(runs);
    let names = done.measured.iter().flat_map(|measured| measured.figures.keys().map(String::as_str));
    for name in in_order(names) {
        let mut line = vec![words(name)];
        line.extend(configurations.iter().map(|configuration| done.shown(configuration, name)));
        lines.push(line);
    }
    format!("### {}\n\n{}", done.title, table(&lines, 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::load::{Durability, Load, Operation};

    fn measured(kind: Kind, compression: &str, run: u64, figures: &[(&str, f64)]) -> Measured {
        Measured {
            kind,
            load: Load { operation: Operation::Put, durability: Durability::Async, threads: 8 },
            configuration: Configuration {
                protection: "recovery-file".into(),
                compression: compression.into(),
            },
            rows: 10,
            value_bytes: 100,
            run,
            figures: figures.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect(),
        }
    }

    #[test]
    fn columns_are_of_the_median_run_and_lines_in_the_published_order() {
        let kind = Kind::Overwrite;
        let run = |compression, run, rate, gap| {
            measured(kind, compression, run, &[("longest_gap_ms", gap), ("rows_per_second", rate)])
        };
        let runs = vec![
            run("none", 1, 5000.0, 7.0),
            run("lz4", 1, 900.0, 3.0),
            run("none", 2, 4000.0, 8.0),
            run("none", 3, 9000.0, 9.0),
        ];
        let table = Table { title: "Full speed".into(), kind, measured: runs };
        assert_eq!(table.slowest(), Some(900.0));
        let text = markdown(&table);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "### Full speed");
        assert_eq!(lines[2], "| median run      | recovery-file, none | recovery-file, lz4 |");
        assert_eq!(lines[4], "| runs            |                   3 |                  1 |");
        assert_eq!(lines[5], "| rows per second |               5,000 |                900 |");
        assert_eq!(lines[6], "| longest gap ms  |                7.00 |               3.00 |");
        assert_eq!(headline(&table.measured[0]), "rows per second 5,000, longest gap ms 7.00");
    }

    #[test]
    fn tries_show_the_worst_one_too() {
        let kind = Kind::Kill;
        let tries =
            [0.3, 0.9, 0.5].map(|seconds| measured(kind, "lz4", 1, &[("first_read_seconds", seconds)]));
        let table = Table { title: "kill".into(), kind, measured: tries.to_vec() };
        assert!(markdown(&table).contains("0.500 / 0.900"), "{}", markdown(&table));
    }

    #[test]
    fn of_two_runs_the_worse_one_counts() {
        let of = |kind, name, values: [f64; 2]| {
            let measured = values.map(|value| measured(kind, "lz4", 1, &[(name, value)])).to_vec();
            let table = Table { title: String::new(), kind, measured };
            table.medians()[0].figures[name]
        };
        assert!((of(Kind::Extreme, "rows_per_second", [2.0, 1.0]) - 1.0).abs() < f64::EPSILON);
        let ratio = of(Kind::Readers, "reads_p99_9_during_to_without", [2.0, 1.0]);
        assert!((ratio - 2.0).abs() < f64::EPSILON);
    }
}
