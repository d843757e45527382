//! Implementations of functions, operators and casts, by the name of their source in `pg_proc.prosrc`.

pub(crate) mod arguments;
mod array_search;
pub(crate) mod array_text;
pub(crate) mod arrays;
mod bits;
mod booleans;
mod bytes;
mod casts;
mod comparison;
mod date_time;
mod degrees;
pub(crate) mod encoding;
mod enums;
mod floats;
mod formatting;
mod hashes;
mod integers;
mod json;
mod json_build;
mod jsonb;
mod jsonb_change;
pub(crate) mod jsonb_path;
mod like;
mod log_places;
mod math;
mod numeric;
pub mod quoting;
mod random;
pub(crate) mod regex;
mod similar;
mod sizes;
pub(crate) mod text;
mod transitions;
mod unicode;
mod uuid;

use crate::datum::{Datum, TypeReference};
use crate::error::SqlResult;
use crate::settings::Settings;

/// What an implementation gets. Strict functions (`pg_proc.proisstrict`) are never called with a null.
#[derive(Debug)]
pub struct Call<'a> {
    /// The arguments; a `VARIADIC` function called with a list gets an array as its last one. A function of any arguments
    /// (`VARIADIC "any"`) gets the list; called with an array it is another one, with `/variadic` at the end of its source.
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

/// Parts.
const TABLES: &[Table] = &[
    array_search::TABLE,
    array_text::TABLE,
    arrays::TABLE,
    bits::TABLE,
    booleans::TABLE,
    bytes::TABLE,
    encoding::TABLE,
    enums::TABLE,
    hashes::TABLE,
    json::TABLE,
    json_build::TABLE,
    jsonb::TABLE,
    jsonb_change::TABLE,
    jsonb_path::TABLE,
    like::TABLE,
    log_places::TABLE,
    math::TABLE,
    numeric::TABLE,
    quoting::TABLE,
    random::TABLE,
    regex::TABLE,
    similar::TABLE,
    sizes::TABLE,
    text::TABLE,
    transitions::TABLE,
    unicode::TABLE,
    uuid::TABLE,
];

/// Parts that are lists of tables themselves.
const TABLE_LISTS: &[&[Table]] = &[
    casts::TABLES,
    comparison::TABLES,
    date_time::TABLES,
    floats::TABLES,
    formatting::TABLES,
    integers::TABLES,
];

/// The implementation of a source, if there is one.
pub fn implementation(source: &str) -> Option<Implementation> {
    static MAP: std::sync::OnceLock<rustc_hash::FxHashMap<&'static str, Implementation>> =
        std::sync::OnceLock::new();
    let map = MAP.get_or_init(|| {
        TABLE_LISTS.iter().copied().chain([TABLES]).flatten().copied().flatten().copied().collect()
    });
    map.get(source).copied()
}
