//! How many rows a table has, and for which share of them conditions hold: by the statistics of `ANALYZE`, and without them by defaults.

use std::cmp::Ordering;

use rustc_hash::FxHashMap;
use seawall_values::{Datum, numeric};

use super::access::{Bound, bound_on};
use super::planner::Planner;
use super::walk::{Columns, as_column};
use crate::algebra::{ColumnId, Expression, ExpressionKind, Scan};
use crate::execute::expression::Operator;
use crate::execute::{compare, is_padded};
use crate::schema::statistics::{ColumnStatistics, TableStatistics};
use crate::schema::{IndexedValue, RowKey, Table};

/// Rows of a table about which nothing is known.
const ROWS_DEFAULT: f64 = 1_000.0;

/// Different values of a column about which nothing is known.
const DISTINCT_DEFAULT: f64 = 200.0;

/// The share of rows for which a condition holds about which nothing is known.
pub(super) const SHARE_DEFAULT: f64 = 0.33;

/// Elements of a list that is not known.
const ELEMENTS_DEFAULT: f64 = 5.0;

/// Fewer rows than this share are never expected of a range: statistics are not that exact.
const SHARE_MIN: f64 = 0.000_1;

/// The value that an expression is known to have.
fn constant(expression: &Expression) -> Option<&Datum> {
    match &expression.kind {
        ExpressionKind::Constant(value) => Some(value),
        ExpressionKind::Relabel(inner) => constant(inner),
        _ => None,
    }
}

/// Shares of rows below the upper and above the lower bound of a column; `None`: there is no such bound.
#[derive(Clone, Copy, Debug, Default)]
struct RangeShare {
    lower: Option<f64>,
    upper: Option<f64>,
}

impl RangeShare {
    fn add(&mut self, operator: Operator, share: f64) {
        let side = match operator {
            Operator::Less | Operator::LessOrEqual => &mut self.upper,
            _ => &mut self.lower,
        };
        *side = Some(side.map_or(share, |known| known.min(share)));
    }

    /// `is_known`: by statistics, so that what is outside of one bound is inside of the other one.
    fn share(self, is_known: bool) -> f64 {
        match (self.lower, self.upper) {
            (Some(lower), Some(upper)) if is_known => (lower + upper - 1.0).max(SHARE_MIN),
            (lower, upper) => lower.unwrap_or(1.0) * upper.unwrap_or(1.0),
        }
    }
}

impl Planner<'_> {
    /// What is known of a table; looked up once.
    pub(super) fn table_statistics(&mut self, table: &Table) -> Option<std::sync::Arc<TableStatistics>> {
        if let Some(known) = self.known_statistics.get(&table.oid) {
            return known.clone();
        }
        let found = self.statistics.of_table(table.oid);
        self.known_statistics.insert(table.oid, found.clone());
        found
    }

    pub(super) fn table_rows(&mut self, table: &Table) -> f64 {
        if let Some(known) = self.table_statistics(table) {
            return known.rows.max(1.0);
        }
        if let Some(rows) = self.estimated_rows.get(&table.oid) {
            return *rows;
        }
        // Rows that were written a moment ago are not in the estimate.
        let rows = self.statistics.estimated_rows(table).unwrap_or(0.0).max(ROWS_DEFAULT);
        self.estimated_rows.insert(table.oid, rows);
        rows
    }

    /// Does something with the statistics of a column.
    fn of_column<T>(
        &mut self,
        table: &Table,
        column: usize,
        body: impl FnOnce(&ColumnStatistics, f64) -> T,
    ) -> Option<T> {
        let known = self.table_statistics(table)?;
        known.column(column, table.columns[column].of).map(|column| body(column, known.rows))
    }

    /// About how many different values a column of a table has.
    pub(super) fn distinct_values(&mut self, table: &Table, column: usize) -> f64 {
        let rows = self.table_rows(table);
        let is_unique = |keys: &[usize]| keys == [column];
        let is_key = match &table.key {
            RowKey::Columns(columns) => is_unique(&columns.iter().map(|key| key.column).collect::<Vec<_>>()),
            RowKey::Number => false,
        };
        let is_indexed = table.indexes.iter().any(|index| {
            index.is_unique
                && index.predicate.is_none()
                && index.keys.len() == 1
                && matches!(index.keys[0].what, IndexedValue::Column(known) if known == column)
        });
        if is_key || is_indexed {
            return rows;
        }
        let known = self.of_column(table, column, ColumnStatistics::distinct_of).flatten();
        known.unwrap_or_else(|| DISTINCT_DEFAULT.min(rows)).clamp(1.0, rows)
    }

    /// The share of a table's rows for which all conditions hold.
    pub(super) fn selectivity(&mut self, scan: &Scan, conditions: &[&Expression], made: &Columns) -> f64 {
        let mut share = 1.0;
        let mut ranges: FxHashMap<usize, RangeShare> = FxHashMap::default();
        for condition in conditions {
            match bound_of(scan, condition, made) {
                Some((column, Bound::Compare(operator, value))) if operator != Operator::Equal => {
                    let of_bound = self.range_share(&scan.table, column, operator, value);
                    ranges.entry(column).or_default().add(operator, of_bound);
                }
                _ => share *= self.condition_share(scan, condition, made),
            }
        }
        for (column, range) in ranges {
            let is_known = self.of_column(&scan.table, column, |_, _| ()).is_some();
            share *= range.share(is_known);
        }
        share
    }

    /// The share of rows that a range of a column has: of conditions that compare it.
    pub(super) fn bounds_share<'b, 'e: 'b>(
        &mut self,
        table: &Table,
        column: usize,
        bounds: impl Iterator<Item = &'b Bound<'e>>,
    ) -> f64 {
        let mut range = RangeShare::default();
        for bound in bounds {
            if let Bound::Compare(operator, value) = bound {
                let share = self.range_share(table, column, *operator, value);
                range.add(*operator, share);
            }
        }
        let is_known = self.of_column(table, column, |_, _| ()).is_some();
        range.share(is_known)
    }

    /// The share of rows for which one condition holds.
    fn condition_share(&mut self, scan: &Scan, condition: &Expression, made: &Columns) -> f64 {
        if let Some((column, bound)) = bound_of(scan, condition, made) {
            return self.bound_share(&scan.table, column, &bound);
        }
        let column_of = |expression: &Expression| {
            let column = as_column(expression)?;
            scan.columns.iter().find(|(_, known)| *known == column).map(|(position, _)| *position)
        };
        match &condition.kind {
            ExpressionKind::And(all) => {
                all.iter().map(|part| self.condition_share(scan, part, made)).product()
            }
            ExpressionKind::Or(all) => {
                let none: f64 = all.iter().map(|part| 1.0 - self.condition_share(scan, part, made)).product();
                1.0 - none
            }
            ExpressionKind::Not(one) => 1.0 - self.condition_share(scan, one, made),
            ExpressionKind::IsNotNull(one) => match column_of(one) {
                Some(column) => 1.0 - self.bound_share(&scan.table, column, &Bound::IsNull),
                None => SHARE_DEFAULT,
            },
            ExpressionKind::Column(_) => {
                let column = column_of(condition);
                let is_true = |known: &ColumnStatistics, rows| equal_share(known, rows, &Datum::Bool(true));
                column
                    .and_then(|column| self.of_column(&scan.table, column, is_true))
                    .unwrap_or(SHARE_DEFAULT)
            }
            _ => SHARE_DEFAULT,
        }
    }

    /// The share of rows for which what a condition says about a column holds.
    pub(super) fn bound_share(&mut self, table: &Table, column: usize, bound: &Bound<'_>) -> f64 {
        match bound {
            Bound::Compare(Operator::Equal, value) => match constant(value) {
                Some(value) => {
                    let known = self.of_column(table, column, |known, rows| equal_share(known, rows, value));
                    known.unwrap_or_else(|| 1.0 / self.distinct_values(table, column))
                }
                None => 1.0 / self.distinct_values(table, column),
            },
            Bound::Compare(operator, value) => self.range_share(table, column, *operator, value),
            Bound::In(array) => {
                let share = match constant(array) {
                    Some(Datum::Array(array)) => {
                        let all = |known: &ColumnStatistics, rows| {
                            array.values.iter().map(|value| equal_share(known, rows, value)).sum()
                        };
                        self.of_column(table, column, all).unwrap_or_else(|| {
                            array.values.len() as f64 / self.distinct_values(table, column)
                        })
                    }
                    _ => ELEMENTS_DEFAULT / self.distinct_values(table, column),
                };
                share.min(1.0)
            }
            Bound::IsNull => self.of_column(table, column, |known, _| known.null_fraction).unwrap_or(0.05),
        }
    }

    fn range_share(&mut self, table: &Table, column: usize, operator: Operator, value: &Expression) -> f64 {
        let Some(value) = constant(value) else { return SHARE_DEFAULT };
        let is_padded = is_padded(table.columns[column].of.oid);
        let share = |known: &ColumnStatistics, _| {
            let is_upper = matches!(operator, Operator::Less | Operator::LessOrEqual);
            let is_inclusive = matches!(operator, Operator::LessOrEqual | Operator::Greater);
            let below = below(known, value, is_inclusive, is_padded);
            if is_upper { below } else { 1.0 - known.null_fraction - below }
        };
        self.of_column(table, column, share).unwrap_or(SHARE_DEFAULT).clamp(SHARE_MIN, 1.0)
    }

    /// About how many different values a column has, wherever it comes from; `None`: from no table.
    pub(super) fn distinct_of_column(&mut self, column: ColumnId) -> Option<f64> {
        let (table, position) = self.origins.get(&column).cloned()?;
        Some(self.distinct_values(&table, position))
    }
}

/// What a condition says about a column of a scan, and which one.
fn bound_of<'e>(scan: &Scan, condition: &'e Expression, made: &Columns) -> Option<(usize, Bound<'e>)> {
    scan.columns.iter().find_map(|(position, column)| {
        let of = scan.table.columns[*position].of.oid;
        bound_on(condition, *column, of, made).map(|bound| (*position, bound))
    })
}

/// The share of rows with this value.
fn equal_share(column: &ColumnStatistics, rows: f64, value: &Datum) -> f64 {
    if value.is_null() {
        return 0.0;
    }
    let is_padded = is_padded(column.of.oid);
    let common = column.common.iter().find(|(known, _)| compare(known, value, is_padded) == Ordering::Equal);
    if let Some((_, share)) = common {
        return *share;
    }
    let others = column.distinct_of(rows).unwrap_or(DISTINCT_DEFAULT) - column.common.len() as f64;
    let share = (1.0 - column.common_fraction() - column.null_fraction).max(0.0) / others.max(1.0);
    let least = column.common.last().map_or(1.0, |(_, share)| *share);
    share.min(least).max(1.0 / rows.max(1.0))
}

/// The share of rows with values below another one, or (`is_inclusive`) up to it.
fn below(column: &ColumnStatistics, value: &Datum, is_inclusive: bool, is_padded: bool) -> f64 {
    let is_below = |known: &Datum| match compare(known, value, is_padded) {
        Ordering::Less => true,
        Ordering::Equal => is_inclusive,
        Ordering::Greater => false,
    };
    let common: f64 = column.common.iter().filter(|(known, _)| is_below(known)).map(|(_, share)| share).sum();
    let others = (1.0 - column.common_fraction() - column.null_fraction).max(0.0);
    let place = histogram_place(&column.histogram, value, is_padded);
    common + others * place.unwrap_or(SHARE_DEFAULT)
}

/// The share of a histogram's values that are below another one; `None`: there is no histogram.
fn histogram_place(bounds: &[Datum], value: &Datum, is_padded: bool) -> Option<f64> {
    let bins = bounds.len().checked_sub(1).filter(|bins| *bins > 0)?;
    let after = bounds.partition_point(|bound| compare(bound, value, is_padded) != Ordering::Greater);
    if after == 0 {
        return Some(0.0);
    }
    if after > bins {
        return Some(1.0);
    }
    let within = match (number(&bounds[after - 1]), number(&bounds[after]), number(value)) {
        (Some(low), Some(high), Some(value)) if high > low => ((value - low) / (high - low)).clamp(0.0, 1.0),
        _ => 0.5,
    };
    Some((after as f64 - 1.0 + within) / bins as f64)
}

/// A value as a number, where distances mean something.
#[expect(clippy::cast_precision_loss, reason = "an estimate")]
fn number(value: &Datum) -> Option<f64> {
    match value {
        Datum::Int2(value) => Some(f64::from(*value)),
        Datum::Int4(value) | Datum::Date(value) => Some(f64::from(*value)),
        Datum::Int8(value) | Datum::Time(value) | Datum::Timestamp(value) | Datum::TimestampTz(value) => {
            Some(*value as f64)
        }
        Datum::Oid(value) => Some(f64::from(*value)),
        Datum::Float4(value) => Some(f64::from(*value)),
        Datum::Float8(value) => Some(*value),
        Datum::Numeric(value) => numeric::to_f64(value).ok(),
        _ => None,
    }
    .filter(|number| number.is_finite())
}

#[cfg(test)]
mod tests {
    use seawall_values::{TypeReference, oid};

    use super::*;

    /// Half of the rows have 7, the others 0 to 1,000 evenly, a tenth has none.
    fn column() -> ColumnStatistics {
        ColumnStatistics {
            of: TypeReference::of(oid::INT4),
            null_fraction: 0.1,
            average_width: 4,
            distinct: 1_000.0,
            common: vec![(Datum::Int4(7), 0.5)],
            histogram: (0..=10).map(|bound| Datum::Int4(bound * 100)).collect(),
            correlation: None,
        }
    }

    fn near(found: f64, expected: f64) {
        assert!((found - expected).abs() < 0.001, "{found}, not {expected}");
    }

    #[test]
    fn a_common_value_has_its_share_and_others_the_rest() {
        near(equal_share(&column(), 1e6, &Datum::Int4(7)), 0.5);
        near(equal_share(&column(), 1e6, &Datum::Int8(7)), 0.5);
        near(equal_share(&column(), 1e6, &Datum::Int4(8)), 0.4 / 999.0);
        near(equal_share(&column(), 1e6, &Datum::Null), 0.0);
    }

    #[test]
    fn ranges_are_read_off_the_histogram() {
        near(below(&column(), &Datum::Int4(7), false, false), 0.4 * 0.007);
        near(below(&column(), &Datum::Int4(7), true, false), 0.5 + 0.4 * 0.007);
        near(below(&column(), &Datum::Int4(250), true, false), 0.5 + 0.4 * 0.25);
        near(below(&column(), &Datum::Int4(-1), true, false), 0.0);
        near(below(&column(), &Datum::Int4(5_000), true, false), 0.9);
    }

    #[test]
    fn two_bounds_leave_what_is_between_them() {
        let range = RangeShare { lower: Some(0.7), upper: Some(0.4) };
        near(range.share(true), 0.1);
        near(range.share(false), 0.28);
    }
}
