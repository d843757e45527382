//! Implementations of functions, operators and casts, by the name of their source in `pg_proc.prosrc`.

use crate::datum::{Datum, TypeReference};
use crate::error::SqlResult;
use crate::settings::Settings;

/// What an implementation gets. Strict functions (`pg_proc.proisstrict`) are never called with a null.
#[derive(Debug)]
pub struct Call<'a> {
    /// The arguments; a `VARIADIC` function called with a list gets an array as its last one.
    pub arguments: &'a [Datum],
    /// Their types, with those of polymorphic parameters resolved.
    pub argument_types: &'a [TypeReference],
    /// The type of the result.
    pub result_type: TypeReference,
    /// Settings of the session.
    pub settings: &'a Settings,
}

/// A function of SQL that depends on nothing but its arguments and the settings.
pub type Implementation = fn(&Call<'_>) -> SqlResult<Datum>;

/// A part of the registry: sources and their implementations.
pub type Table = &'static [(&'static str, Implementation)];

/// All parts.
const TABLES: &[Table] = &[];

/// The implementation of a source, if there is one.
pub fn implementation(source: &str) -> Option<Implementation> {
    static MAP: std::sync::OnceLock<rustc_hash::FxHashMap<&'static str, Implementation>> =
        std::sync::OnceLock::new();
    let map = MAP.get_or_init(|| TABLES.iter().flat_map(|table| table.iter().copied()).collect());
    map.get(source).copied()
}
