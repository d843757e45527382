//! Tables: a column for each cache, a line for each figure.

use super::arguments::{Arguments, Load};
use super::figures::Figures;
use crate::report::{number, table};

/// All steps of one cell.
#[derive(Clone, Debug)]
pub(super) struct Measured {
    pub(super) cache_mib: u64,
    pub(super) figures: Figures,
}

/// Figures in the order of the steps: what a step is about first.
const STEPS: [&str; 8] =
    ["puts", "create", "replay_creates", "drop", "replay_drops", "reclaim", "mixed", "replay_mixed"];

pub(super) fn markdown(load: Load, what: &str, arguments: &Arguments, measured: &[Measured]) -> String {
    let mut lines = vec![vec!["median".to_owned()]];
    let caches = &arguments.cache_mib;
    lines[0].extend(caches.iter().map(|cache| format!("cache {cache} MiB")));
    for name in names(measured) {
        let mut line = vec![name.replace('_', " ")];
        for cache in caches {
            line.push(median(measured, *cache, &name).map_or(String::new(), number));
        }
        lines.push(line);
    }
    format!("### {}, {what}\n\n{}", title(load, arguments), table(&lines, 1))
}

fn title(load: Load, arguments: &Arguments) -> String {
    match load {
        Load::Empty => format!("{} empty tables", number(arguments.tables as f64)),
        Load::Rows => format!("{} tables of {} rows", number(arguments.tables as f64), arguments.rows),
        Load::Large => format!("One table of {} MiB", arguments.large_mib),
        Load::Mixed => {
            let (tables, seconds) = (number(arguments.tables as f64), arguments.seconds);
            format!("{tables} empty tables, dropped and created beside writers for {seconds} s")
        }
    }
}

fn names(measured: &[Measured]) -> Vec<String> {
    let mut names: Vec<String> = measured.iter().flat_map(|one| one.figures.keys().cloned()).collect();
    let step = |name: &str| STEPS.iter().position(|step| name.starts_with(step)).unwrap_or(STEPS.len());
    names.sort_by(|one, other| (step(one), one).cmp(&(step(other), other)));
    names.dedup();
    names
}

/// Of an even number of runs the mean of the middle two.
fn median(measured: &[Measured], cache_mib: u64, name: &str) -> Option<f64> {
    let of_cache = measured.iter().filter(|one| one.cache_mib == cache_mib);
    let mut values: Vec<f64> = of_cache.filter_map(|one| one.figures.get(name).copied()).collect();
    values.sort_by(f64::total_cmp);
    let upper = *values.get(values.len() / 2)?;
    let lower = *values.get((values.len() - 1) / 2)?;
    Some(f64::midpoint(lower, upper))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_shows_the_median_of_its_cache_and_lines_follow_the_steps() {
        let one = |cache_mib, value: f64| Measured {
            cache_mib,
            figures: [("reclaim_seconds", value), ("puts_per_second", value * 10.0), ("drop_p50_us", 1.0)]
                .map(|(name, value)| (name.to_owned(), value))
                .into(),
        };
        let measured = [one(64, 3.0), one(8192, 7.0), one(64, 1.0), one(64, 2.0)];
        assert_eq!(names(&measured), ["puts_per_second", "drop_p50_us", "reclaim_seconds"]);
        assert_eq!(median(&measured, 64, "reclaim_seconds"), Some(2.0));
        assert_eq!(median(&measured, 8192, "puts_per_second"), Some(70.0));
        assert_eq!(median(&measured, 1, "puts_per_second"), None);
    }
}
