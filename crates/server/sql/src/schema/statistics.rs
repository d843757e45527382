//! What `ANALYZE` finds out about the rows of a table, and the optimizer estimates with.
//!
//! ```text
//!   rows of a scan -> sample -> values of a column -> column -> ColumnStatistics
//! ```

pub(crate) mod column;
pub(crate) mod sample;

use seawall_values::{Datum, TypeReference};

/// Statistics of a table, as of one `ANALYZE`. Immutable: the next one makes others.
#[derive(Clone, Debug, Default)]
pub struct TableStatistics {
    /// Given out once, so that what was decoded for it is good for ever.
    pub version: u64,
    /// Rows.
    pub rows: f64,
    /// When they were counted: microseconds since 2000-01-01 UTC.
    pub analyzed_at: i64,
    /// By position in the table; `None`: nothing is known of the column.
    pub columns: Vec<Option<ColumnStatistics>>,
}

/// Statistics of a column, as `pg_stats` has them.
#[derive(Clone, Debug)]
pub struct ColumnStatistics {
    /// The column's type when it was analyzed: with another one, they mean nothing.
    pub of: TypeReference,
    /// The share of nulls.
    pub null_fraction: f64,
    /// Bytes of a value that is not null, on average.
    pub average_width: i32,
    /// How many different values there are; negative: their number divided by that of the rows.
    pub distinct: f64,
    /// The most common values, and the share of rows with each; the largest share first.
    pub common: Vec<(Datum, f64)>,
    /// Bounds of ranges with about as many rows each, in order. The most common values are in none of them.
    pub histogram: Vec<Datum>,
    /// How well the order of values agrees with that of rows, from -1 to 1; `None`: unknown.
    pub correlation: Option<f64>,
}

impl TableStatistics {
    /// Statistics of a column with this type.
    pub fn column(&self, position: usize, of: TypeReference) -> Option<&ColumnStatistics> {
        self.columns.get(position)?.as_ref().filter(|column| column.of.oid == of.oid)
    }
}

impl ColumnStatistics {
    /// How many different values a table with so many rows has.
    pub fn distinct_of(&self, rows: f64) -> Option<f64> {
        match self.distinct {
            0.0 => None,
            share if share < 0.0 => Some(-share * rows),
            count => Some(count),
        }
    }

    /// The share of rows with one of the most common values.
    pub fn common_fraction(&self) -> f64 {
        self.common.iter().map(|(_, share)| share).sum()
    }
}
