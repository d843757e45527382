//! Functions over the catalogs and the session, by `pg_proc.prosrc`. Unlike those of crate `values` they ask a source.
//!
//! `has_.._privilege` come in eight or more forms each, for names and numbers of roles and objects: one implementation tells them from
//! its arguments.

mod access;
mod access_lists;
mod comments;
mod definitions;
mod descriptions;
mod procedures;
mod references;
mod server;
mod sets;
mod shapes;
mod sizes;
mod visibility;

use std::sync::OnceLock;

use rustc_hash::FxHashMap;
use seawall_values::functions::Call;
use seawall_values::set_returning;
use seawall_values::{Datum, Oid, SqlError, SqlResult};

use super::source::Source;

pub use procedures::function_arguments;
pub use references::{Name, parse_name, reference_input, reference_output, relation_of_name, type_of_name};
pub(crate) use server::encoding_named;

/// A function that asks a source. Strict ones are never called with a null.
pub type Implementation = fn(&mut dyn Source, &Call<'_>) -> SqlResult<Datum>;

/// One that returns rows.
pub type SetImplementation = fn(&mut dyn Source, &Call<'_>) -> SqlResult<set_returning::Rows>;

/// A part of the registry: sources and their implementations.
type Table = &'static [(&'static str, Implementation)];

const TABLES: [Table; 10] = [
    access_lists::TABLE,
    comments::TABLE,
    definitions::TABLE,
    descriptions::TABLE,
    procedures::TABLE,
    references::TABLE,
    server::TABLE,
    shapes::TABLE,
    sizes::TABLE,
    visibility::TABLE,
];

/// The implementation of a source, if it is one of these functions.
pub fn implementation(source: &str) -> Option<Implementation> {
    static MAP: OnceLock<FxHashMap<&'static str, Implementation>> = OnceLock::new();
    let map = MAP.get_or_init(|| TABLES.iter().flat_map(|table| table.iter().copied()).collect());
    map.get(source).copied().or_else(|| access::implementation(source))
}

/// The implementation of a source that returns rows, if it is one of these functions.
pub fn set_implementation(source: &str) -> Option<SetImplementation> {
    sets::TABLE.iter().find(|(known, _)| *known == source).map(|(_, implementation)| *implementation)
}

/// The argument at a position as text.
fn text<'a>(call: &'a Call<'_>, position: usize) -> SqlResult<&'a str> {
    match call.arguments.get(position) {
        Some(Datum::Text(text)) => Ok(text),
        other => Err(unexpected(other, "a text")),
    }
}

/// The argument at a position as the number of an object.
fn object(call: &Call<'_>, position: usize) -> SqlResult<Oid> {
    match call.arguments.get(position) {
        Some(Datum::Oid(oid)) => Ok(*oid),
        other => Err(unexpected(other, "an oid")),
    }
}

/// The argument at a position as an integer of any size.
fn integer(call: &Call<'_>, position: usize) -> SqlResult<i64> {
    match call.arguments.get(position) {
        Some(Datum::Int2(number)) => Ok(i64::from(*number)),
        Some(Datum::Int4(number)) => Ok(i64::from(*number)),
        Some(Datum::Int8(number)) => Ok(*number),
        other => Err(unexpected(other, "an integer")),
    }
}

/// The argument at a position as a boolean.
fn boolean(call: &Call<'_>, position: usize) -> SqlResult<bool> {
    match call.arguments.get(position) {
        Some(Datum::Bool(value)) => Ok(*value),
        other => Err(unexpected(other, "a boolean")),
    }
}

fn unexpected(argument: Option<&Datum>, what: &str) -> Box<SqlError> {
    SqlError::internal(format!("a function over the catalogs got {argument:?} where it takes {what}"))
}

/// Null, whatever the argument: there are no objects of this kind.
fn nothing(_source: &mut dyn Source, _call: &Call<'_>) -> SqlResult<Datum> {
    Ok(Datum::Null)
}
