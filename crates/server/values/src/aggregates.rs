//! Aggregates: what is gathered over rows. Found by name and types of arguments, since `pg_proc` gives them no source.

mod counting;
mod extremes;
mod float_moments;
mod integer_moments;
mod intervals;
mod json;
mod lists;
mod logic;
mod numeric_moments;
mod ordered;
mod regression;

use crate::datum::{Datum, TypeReference};
use crate::error::SqlResult;
use crate::settings::Settings;

/// One aggregate under way, of one group. The caller leaves out rows by `FILTER`, repeats by `DISTINCT`, and sorts for `ORDER BY`.
///
/// An ordered-set aggregate (`percentile_cont(0.5) WITHIN GROUP (ORDER BY x)`) gets with each row its direct arguments, then those
/// of `WITHIN GROUP`; the rows come in that order.
pub trait Accumulator: Send {
    /// Takes the arguments of a row, nulls included.
    ///
    /// # Errors
    /// Such as an overflow.
    fn add(&mut self, arguments: &[Datum], settings: &Settings) -> SqlResult<()>;

    /// Takes a row back: the frame of a window has left it behind. `false`: this aggregate cannot, and is computed anew.
    ///
    /// # Errors
    /// As `add`.
    fn remove(&mut self, _arguments: &[Datum], _settings: &Settings) -> SqlResult<bool> {
        Ok(false)
    }

    /// The result so far.
    ///
    /// # Errors
    /// As `add`.
    fn result(&self, settings: &Settings) -> SqlResult<Datum>;

    /// Bytes that it keeps.
    fn memory_bytes(&self) -> usize;
}

/// Makes an accumulator for arguments and a result of these types.
pub type NewAccumulator = fn(&[TypeReference], TypeReference) -> Box<dyn Accumulator>;

/// A part of the registry: name, types of arguments as `pg_proc.proargtypes` has them, and what makes an accumulator.
type Table = &'static [(&'static str, &'static [crate::Oid], NewAccumulator)];

/// All parts.
const TABLES: &[Table] = &[
    counting::TABLE,
    extremes::TABLE,
    float_moments::TABLE,
    integer_moments::TABLE,
    intervals::TABLE,
    json::TABLE,
    lists::TABLE,
    logic::TABLE,
    numeric_moments::TABLE,
    ordered::TABLE,
    regression::TABLE,
];

/// The aggregate with this name for declared arguments of these types.
pub fn aggregate(name: &str, declared: &[crate::Oid]) -> Option<NewAccumulator> {
    let rows = TABLES.iter().flat_map(|table| table.iter());
    rows.into_iter().find(|(known, types, _)| *known == name && *types == declared).map(|(_, _, new)| *new)
}

/// `XX000`: an argument is not of its declared type, or there is none.
#[cold]
fn misplaced(arguments: &[Datum]) -> Box<crate::SqlError> {
    crate::SqlError::internal(format!("an aggregate got {arguments:?}"))
}
