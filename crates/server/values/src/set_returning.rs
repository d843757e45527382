//! Functions that return a set of rows.

use crate::datum::Datum;
use crate::error::SqlResult;
use crate::functions::Call;

/// Rows that are made as they are asked for. A row has a value for each column of the result.
pub type Rows = Box<dyn Iterator<Item = SqlResult<Vec<Datum>>> + Send>;

/// A set-returning function.
pub type SetImplementation = fn(&Call<'_>) -> SqlResult<Rows>;

/// All of them, by source.
const TABLE: &[(&str, SetImplementation)] = &[];

/// The implementation of a source, if there is one.
pub fn set_implementation(source: &str) -> Option<SetImplementation> {
    TABLE.iter().find(|(known, _)| *known == source).map(|(_, implementation)| *implementation)
}
