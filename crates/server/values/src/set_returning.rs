//! Functions that return a set of rows.

mod elements;
mod json;
mod json_records;
mod series;

use crate::datum::Datum;
use crate::error::SqlResult;
use crate::functions::Call;

pub use json_records::takes_columns;

/// Rows that are made as they are asked for. A row has a value for each column of the result.
pub type Rows = Box<dyn Iterator<Item = SqlResult<Vec<Datum>>> + Send>;

/// A set-returning function.
pub type SetImplementation = fn(&Call<'_>) -> SqlResult<Rows>;

/// A part of the registry: sources and their implementations.
type Table = &'static [(&'static str, SetImplementation)];

/// All parts.
const TABLES: &[Table] = &[elements::TABLE, json::TABLE, json_records::TABLE, series::TABLE];

/// The implementation of a source, if there is one.
pub fn set_implementation(source: &str) -> Option<SetImplementation> {
    let mut rows = TABLES.iter().flat_map(|table| table.iter());
    rows.find(|(known, _)| *known == source).map(|(_, implementation)| *implementation)
}

/// Rows with one column.
fn values(values: impl IntoIterator<Item = Datum, IntoIter: Send + 'static>) -> Rows {
    Box::new(values.into_iter().map(|value| Ok(vec![value])))
}
