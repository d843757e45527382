//! From measurements to a table: medians, ratios, what was to be reached.

use std::fmt::Write;

use crate::engine::EngineKind;
use crate::plan::Reach;
use crate::workload::{Better, Measurement};

/// All runs of one row of the table.
#[derive(Clone, Debug)]
pub(crate) struct ReportRow {
    pub(crate) label: String,
    pub(crate) threads: usize,
    pub(crate) unit: &'static str,
    pub(crate) better: Better,
    pub(crate) reach: Option<Reach>,
    /// In the order in which they were measured.
    pub(crate) measurements: Vec<Measurement>,
}

impl ReportRow {
    /// The run with the median value, so that its latencies and its memory belong to the value shown; of an even
    /// number the worse one of the middle two.
    fn median(&self, engine: EngineKind) -> Option<&Measurement> {
        let mut runs: Vec<&Measurement> =
            self.measurements.iter().filter(|run| run.engine == engine).collect();
        runs.sort_by(|one, other| match self.better {
            Better::Higher => one.value.total_cmp(&other.value),
            Better::Lower => other.value.total_cmp(&one.value),
        });
        runs.get(runs.len().saturating_sub(1) / 2).copied()
    }

    fn best_peer(&self) -> Option<&Measurement> {
        let peers = EngineKind::ALL.into_iter().filter(|kind| *kind != EngineKind::Seawall);
        peers.filter_map(|kind| self.median(kind)).max_by(|one, other| match self.better {
            Better::Higher => one.value.total_cmp(&other.value),
            Better::Lower => other.value.total_cmp(&one.value),
        })
    }

    /// How many times as good as the best peer; above 1 is better, whichever way the value counts.
    fn ratio(&self) -> Option<f64> {
        let (mine, best) = (self.median(EngineKind::Seawall)?.value, self.best_peer()?.value);
        let ratio = match self.better {
            Better::Higher => mine / best,
            Better::Lower => best / mine,
        };
        ratio.is_finite().then_some(ratio)
    }

    /// Whether Seawall reached what it must; `None` if that cannot be said from these runs.
    fn reached(&self) -> Option<bool> {
        let mine = self.median(EngineKind::Seawall)?;
        match self.reach? {
            Reach::RatioToBestPeer(wanted) => Some(self.ratio()? >= wanted),
            Reach::ValueAtLeast(wanted) => Some(mine.value >= wanted),
            Reach::ValueAtMost(wanted) => Some(mine.value <= wanted),
            Reach::ExtraAtMost(name, wanted) => Some(*mine.extra.get(name)? <= wanted),
        }
    }

    fn wanted(&self) -> String {
        match self.reach {
            Some(Reach::RatioToBestPeer(ratio)) => format!("{ratio}x"),
            Some(Reach::ValueAtLeast(value)) => format!(">= {} {}", number(value), self.unit),
            Some(Reach::ValueAtMost(value)) => format!("<= {} {}", number(value), self.unit),
            Some(Reach::ExtraAtMost(name, value)) => {
                format!("{} <= {}", name.replace('_', " "), number(value))
            }
            None => "".into(),
        }
    }
}

/// Both tables: values beside each other, then what each cost.
pub(crate) fn markdown(rows: &[ReportRow]) -> String {
    let engines: Vec<EngineKind> = EngineKind::ALL
        .into_iter()
        .filter(|kind| rows.iter().any(|row| row.median(*kind).is_some()))
        .collect();
    let mut text = values_table(rows, &engines);
    text.push('\n');
    text.push_str(&costs_table(rows, &engines));
    text
}

fn values_table(rows: &[ReportRow], engines: &[EngineKind]) -> String {
    let mut lines = vec![vec!["workload".to_owned(), "threads".into(), "unit".into()]];
    lines[0].extend(engines.iter().map(|kind| kind.name().to_owned()));
    lines[0].extend(["best peer", "ratio", "reach", "reached"].map(String::from));
    for row in rows {
        let mut line = vec![row.label.clone(), row.threads.to_string(), row.unit.to_owned()];
        line.extend(
            engines.iter().map(|kind| row.median(*kind).map_or(String::new(), |run| number(run.value))),
        );
        line.push(row.best_peer().map_or(String::new(), |run| run.engine.name().into()));
        line.push(row.ratio().map_or(String::new(), |ratio| format!("{ratio:.2}x")));
        line.push(row.wanted());
        line.push(row.reached().map_or("", |reached| if reached { "yes" } else { "no" }).into());
        lines.push(line);
    }
    table(&lines, 3)
}

fn costs_table(rows: &[ReportRow], engines: &[EngineKind]) -> String {
    let header = [
        "workload",
        "threads",
        "engine",
        "value",
        "p50 us",
        "p99 us",
        "max us",
        "CPU us/op",
        "CPU s",
        "RSS peak MiB",
        "device MiB written",
        "more",
    ];
    let mut lines = vec![header.map(String::from).to_vec()];
    for row in rows {
        for run in engines.iter().filter_map(|kind| row.median(*kind)) {
            lines.push(cost_line(row, run));
        }
    }
    table(&lines, 3)
}

fn cost_line(row: &ReportRow, run: &Measurement) -> Vec<String> {
    let mebibytes = |bytes: u64| number(bytes as f64 / f64::from(1 << 20));
    let more: Vec<String> = run
        .extra
        .iter()
        .map(|(name, value)| format!("{} {}", name.replace('_', " "), number(*value)))
        .collect();
    vec![
        row.label.clone(),
        row.threads.to_string(),
        run.engine.name().into(),
        number(run.value),
        number(run.p50_us),
        number(run.p99_us),
        number(run.max_us),
        number(run.cpu_us_per_operation),
        number(run.cpu_seconds),
        mebibytes(run.resident_peak_bytes),
        mebibytes(run.device_written_bytes),
        more.join("; "),
    ]
}

/// Markdown whose columns also line up in a terminal; from column `numbers_from` on they are set to the right.
pub(crate) fn table(lines: &[Vec<String>], numbers_from: usize) -> String {
    let columns = lines[0].len();
    let widths: Vec<usize> = (0..columns)
        .map(|column| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0).max(3))
        .collect();
    let mut text = String::new();
    for (index, line) in lines.iter().enumerate() {
        for (column, cell) in line.iter().enumerate() {
            let width = widths[column];
            let aligned = if column < numbers_from {
                format!("| {cell:<width$} ")
            } else {
                format!("| {cell:>width$} ")
            };
            text.push_str(&aligned);
        }
        text.push_str("|\n");
        if index == 0 {
            for (column, width) in widths.iter().enumerate() {
                let dashes = "-".repeat(width + 1);
                let end = if column < numbers_from { "-" } else { ":" };
                write!(text, "|{dashes}{end}").expect("a string takes all that is written");
            }
            text.push_str("|\n");
        }
    }
    text
}

/// Three significant digits or the whole number, thousands apart.
pub(crate) fn number(value: f64) -> String {
    if value == 0.0 {
        return "0".into();
    }
    match value.abs() {
        tiny if tiny < 0.01 => format!("{value:.6}"),
        small if small < 1.0 => format!("{value:.3}"),
        small if small < 10.0 => format!("{value:.2}"),
        small if small < 100.0 => format!("{value:.1}"),
        _ => grouped(&format!("{value:.0}")),
    }
}

fn grouped(digits: &str) -> String {
    let (sign, digits) = digits.strip_prefix('-').map_or(("", digits), |digits| ("-", digits));
    let mut text = String::from(sign);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn run(engine: EngineKind, value: f64, better: Better) -> Measurement {
        Measurement {
            workload: "put".into(),
            engine,
            threads: 8,
            rows: 1000,
            run: 1,
            value,
            unit: "commits/s".into(),
            better,
            operations: 10,
            seconds: 1.0,
            p50_us: 1.0,
            p99_us: 2.0,
            max_us: 3.0,
            cpu_seconds: 0.5,
            cpu_us_per_operation: 50.0,
            resident_peak_bytes: 3 << 20,
            configured_bytes: 4 << 20,
            device_written_bytes: 5 << 20,
            device_read_bytes: 0,
            extra: BTreeMap::from([("log_overhead_per_commit".to_owned(), 39.0)]),
        }
    }

    fn row(better: Better, reach: Reach, values: &[(EngineKind, f64)]) -> ReportRow {
        ReportRow {
            label: "put".into(),
            threads: 8,
            unit: "commits/s",
            better,
            reach: Some(reach),
            measurements: values.iter().map(|(kind, value)| run(*kind, *value, better)).collect(),
        }
    }

    #[test]
    fn medians_and_the_best_peer_make_the_ratio() {
        use EngineKind::{Fjall, Rocksdb, Seawall};
        let values = [
            (Seawall, 300.0),
            (Seawall, 100.0),
            (Seawall, 200.0),
            (Rocksdb, 90.0),
            (Fjall, 80.0),
            (Fjall, 999.0),
        ];
        let row = row(Better::Higher, Reach::RatioToBestPeer(2.0), &values);
        // Of two runs the worse one counts, for Seawall as for a peer: fjall has 80.
        assert_eq!(row.best_peer().unwrap().engine, Rocksdb);
        assert!((row.ratio().unwrap() - 200.0 / 90.0).abs() < 1e-9);
        assert_eq!(row.reached(), Some(true));
    }

    #[test]
    fn a_lower_value_can_be_the_better_one() {
        use EngineKind::{Lmdb, Seawall, Sqlite};
        let values = [(Seawall, 0.5), (Lmdb, 2.0), (Sqlite, 1.0)];
        let row = row(Better::Lower, Reach::ValueAtMost(0.4), &values);
        assert_eq!(row.best_peer().unwrap().engine, Sqlite);
        assert!((row.ratio().unwrap() - 2.0).abs() < 1e-9);
        assert_eq!(row.reached(), Some(false));
    }

    #[test]
    fn nothing_is_said_of_what_was_not_measured() {
        let alone = row(Better::Higher, Reach::RatioToBestPeer(1.0), &[(EngineKind::Seawall, 1.0)]);
        assert_eq!((alone.ratio(), alone.reached()), (None, None));
        let absent = row(Better::Higher, Reach::ExtraAtMost("absent", 1.0), &[(EngineKind::Seawall, 1.0)]);
        assert_eq!(absent.reached(), None);
        let there = row(
            Better::Higher,
            Reach::ExtraAtMost("log_overhead_per_commit", 40.0),
            &[(EngineKind::Seawall, 1.0)],
        );
        assert_eq!(there.reached(), Some(true));
    }

    #[test]
    fn table_is_markdown_that_lines_up() {
        let values = [(EngineKind::Seawall, 204_300.0), (EngineKind::Rocksdb, 43_900.0)];
        let text = markdown(&[row(Better::Higher, Reach::RatioToBestPeer(4.0), &values)]);
        let first: Vec<&str> = text.lines().take(3).collect();
        assert_eq!(
            first,
            [
                "| workload | threads | unit      | seawall | rocksdb | best peer | ratio | reach | reached |",
                "|----------|---------|-----------|--------:|--------:|----------:|------:|------:|--------:|",
                "| put      | 8       | commits/s | 204,300 |  43,900 |   rocksdb | 4.65x |    4x |     yes |",
            ]
        );
    }

    #[test]
    fn numbers_have_three_digits_or_all() {
        let shown = [0.0, 0.000_412, 0.0123, 1.234, 12.34, 123.4, 1234.0, 1_234_567.0, -1234.0].map(number);
        assert_eq!(shown, ["0", "0.000412", "0.012", "1.23", "12.3", "123", "1,234", "1,234,567", "-1,234"]);
    }
}
