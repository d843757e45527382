//! Statistics of a column from a sample of its values, as PostgreSQL's `compute_scalar_stats` makes them.

use std::cmp::Ordering;

use seawall_values::{Datum, TypeReference, oid};

use super::ColumnStatistics;
use super::sample::SampledValue;
use crate::execute::{compare, is_padded};

/// A value of the sample, and in how many of its rows it is.
struct Run<'v> {
    value: &'v Datum,
    count: usize,
}

/// How many values of which kind a sample has.
struct Counts {
    sampled: f64,
    rows: f64,
    nulls: f64,
    too_wide: f64,
}

/// Statistics of a column of a table with so many rows. `target`: how many common values and ranges are kept at most.
pub(crate) fn column_statistics<'v>(
    values: impl Iterator<Item = &'v SampledValue>,
    rows: f64,
    of: TypeReference,
    target: usize,
) -> ColumnStatistics {
    let mut counts = Counts { sampled: 0.0, rows, nulls: 0.0, too_wide: 0.0 };
    let (mut kept, mut width): (Vec<(&Datum, usize)>, usize) = (Vec::new(), 0);
    for value in values {
        counts.sampled += 1.0;
        width += value.width;
        if value.is_null() {
            counts.nulls += 1.0;
        } else if value.is_too_wide() {
            counts.too_wide += 1.0;
        } else {
            kept.push((&value.value, kept.len()));
        }
    }
    let not_null = counts.sampled - counts.nulls;
    let mut statistics = ColumnStatistics {
        of,
        null_fraction: if counts.sampled > 0.0 { counts.nulls / counts.sampled } else { 0.0 },
        average_width: if not_null > 0.0 { saturated(width as f64 / not_null) } else { 0 },
        distinct: 0.0,
        common: Vec::new(),
        histogram: Vec::new(),
        correlation: None,
    };
    // Values of json have no order.
    if kept.is_empty() || of.oid == oid::JSON {
        return statistics;
    }
    let is_padded = is_padded(of.oid);
    kept.sort_by(|left, right| compare(left.0, right.0, is_padded));
    statistics.correlation = correlation(&kept);
    let runs = runs(&kept, is_padded);
    statistics.distinct = distinct(&runs, &counts);
    let mut is_common = vec![false; runs.len()];
    for number in common(&runs, &counts, statistics.distinct, statistics.null_fraction, target) {
        is_common[number] = true;
        let share = runs[number].count as f64 / counts.sampled;
        statistics.common.push((runs[number].value.clone(), share));
    }
    let rest: Vec<&Run<'_>> =
        runs.iter().zip(&is_common).filter(|(_, is_common)| !**is_common).map(|(run, _)| run).collect();
    statistics.histogram = histogram(&rest, target);
    statistics
}

fn runs<'v>(sorted: &[(&'v Datum, usize)], is_padded: bool) -> Vec<Run<'v>> {
    let mut runs: Vec<Run<'v>> = Vec::new();
    for (value, _) in sorted {
        match runs.last_mut() {
            Some(run) if compare(run.value, value, is_padded) == Ordering::Equal => run.count += 1,
            _ => runs.push(Run { value, count: 1 }),
        }
    }
    runs
}

/// Pearson's coefficient of places in the order of values and in that of rows.
fn correlation(sorted: &[(&Datum, usize)]) -> Option<f64> {
    let count = sorted.len() as f64;
    if sorted.len() < 2 {
        return None;
    }
    let products: f64 = sorted.iter().enumerate().map(|(place, (_, row))| place as f64 * *row as f64).sum();
    let sum = (count - 1.0) * count / 2.0;
    let squares = (count - 1.0) * count * (2.0 * count - 1.0) / 6.0;
    Some((count * products - sum * sum) / (count * squares - sum * sum))
}

/// How many different values the whole table has, as `ColumnStatistics::distinct` says it: Haas and Stokes, "Estimating the number of classes
/// in a finite population", 1998, their estimator `Duj1`.
fn distinct(runs: &[Run<'_>], counts: &Counts) -> f64 {
    let found = runs.len() as f64;
    let repeated = runs.iter().filter(|run| run.count > 1).count() as f64;
    let null_fraction = counts.nulls / counts.sampled;
    if repeated == 0.0 {
        return -(1.0 - null_fraction);
    }
    let estimated = if counts.too_wide == 0.0 && repeated == found {
        found
    } else {
        let once = found - repeated + counts.too_wide;
        let (all, sampled) = (once + repeated, counts.sampled - counts.nulls);
        let rows = counts.rows * (1.0 - null_fraction);
        let estimated = sampled * all / ((sampled - once) + once * sampled / rows.max(1.0));
        estimated.clamp(all, rows.max(all)).round()
    };
    if estimated > 0.1 * counts.rows { -(estimated / counts.rows) } else { estimated }
}

/// The most common values, by their place in `runs`: those that are more common than others by more than chance.
fn common(runs: &[Run<'_>], counts: &Counts, distinct: f64, null_fraction: f64, target: usize) -> Vec<usize> {
    let mut repeated: Vec<usize> = (0..runs.len()).filter(|number| runs[*number].count > 1).collect();
    repeated.sort_by_key(|number| std::cmp::Reverse(runs[*number].count));
    let is_complete =
        repeated.len() == runs.len() && counts.too_wide == 0.0 && distinct > 0.0 && repeated.len() <= target;
    repeated.truncate(target);
    let is_whole_table = counts.sampled == counts.rows || counts.rows <= 1.0;
    if is_complete || is_whole_table {
        return repeated;
    }
    let all_distinct = if distinct < 0.0 { -distinct * counts.rows } else { distinct };
    let (sampled, rows) = (counts.sampled, counts.rows);
    let mut before: f64 = repeated.iter().map(|number| runs[*number].count as f64).sum();
    while let Some(last) = repeated.last() {
        let count = runs[*last].count as f64;
        before -= count;
        // The share of a value that is not among the more common ones.
        let others = all_distinct - (repeated.len() - 1) as f64;
        let share = (1.0 - before / sampled - null_fraction).clamp(0.0, 1.0) / others.max(1.0);
        // The deviation of a hypergeometric distribution.
        let expected = rows * count / sampled;
        let variance =
            sampled * expected * (rows - expected) * (rows - sampled) / (rows * rows * (rows - 1.0));
        if count > share * sampled + 2.0 * variance.max(0.0).sqrt() + 0.5 {
            break;
        }
        repeated.pop();
    }
    repeated
}

/// Values at even distances, the smallest and the largest among them.
fn histogram(runs: &[&Run<'_>], target: usize) -> Vec<Datum> {
    let bounds = runs.len().min(target + 1);
    if bounds < 2 {
        return Vec::new();
    }
    let all: usize = runs.iter().map(|run| run.count).sum();
    let (mut histogram, mut runs, mut end) = (Vec::with_capacity(bounds), runs.iter(), 0);
    let mut current = None;
    for bound in 0..bounds {
        let place = bound * (all - 1) / (bounds - 1);
        while current.is_none() || place >= end {
            let Some(run) = runs.next() else { break };
            end += run.count;
            current = Some(run.value);
        }
        histogram.extend(current.cloned());
    }
    histogram
}

/// A whole number near this one.
#[expect(clippy::cast_possible_truncation, reason = "the cast of a float saturates")]
fn saturated(value: f64) -> i32 {
    value as i32
}

#[cfg(test)]
mod tests;
