//! Aggregates: what is gathered over rows. Found by name and types of arguments, since `pg_proc` gives them no source.

use crate::datum::{Datum, TypeReference};
use crate::error::SqlResult;
use crate::settings::Settings;

/// One aggregate under way, of one group. The caller leaves out rows by `FILTER`, repeats by `DISTINCT`, and sorts for `ORDER BY`.
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

/// All of them: name, and types of arguments as `pg_proc.proargtypes` has them.
const AGGREGATES: &[(&str, &[crate::Oid], NewAccumulator)] = &[];

/// The aggregate with this name for declared arguments of these types.
pub fn aggregate(name: &str, declared: &[crate::Oid]) -> Option<NewAccumulator> {
    AGGREGATES.iter().find(|(known, types, _)| *known == name && *types == declared).map(|(_, _, new)| *new)
}
