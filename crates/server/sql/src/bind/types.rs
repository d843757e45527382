//! What is asked of types while statements are bound.

use seawall_values::system::{TypeRow, system};
use seawall_values::user_types::{
    array_of_user_type, element_of_user_array, is_composite as is_composite_type, is_enum, is_user_type,
    marked_name,
};
use seawall_values::{Oid, TypeReference, oid};

use super::coerce::polymorphic_types;
use crate::algebra::Call;
use crate::catalog::numbers::{relation_of_type, row_array_type, row_type};

/// `typcategory` of strings.
pub(crate) const STRING: u8 = b'S';
const INVALID: u8 = 0;

pub(crate) fn type_row(oid: Oid) -> Option<&'static TypeRow> {
    system().type_by_oid(oid)
}

pub(crate) fn category(oid: Oid) -> u8 {
    if is_row_type(oid) {
        return b'C';
    }
    if is_enum(oid) {
        return b'E';
    }
    if element_of_user_array(oid).is_some() {
        return b'A';
    }
    type_row(oid).map_or(INVALID, |row| row.category)
}

pub(crate) fn is_preferred(category_wanted: u8, oid: Oid) -> bool {
    type_row(oid).is_some_and(|row| row.is_preferred && row.category == category_wanted)
}

/// The type of the elements, if it is a true array type.
pub(crate) fn element_of(oid: Oid) -> Option<Oid> {
    if let Some((relation, true)) = relation_of_type(oid) {
        return Some(row_type(relation));
    }
    if let Some(element) = element_of_user_array(oid) {
        return Some(element);
    }
    let row = type_row(oid)?;
    let is_array = row.category == b'A' || oid == oid::RECORD_ARRAY;
    (row.element != 0 && is_array && oid != oid::INT2VECTOR && oid != oid::OIDVECTOR).then_some(row.element)
}

/// The columns of the result that a function names, with their types for these arguments.
pub(super) fn result_columns(call: &Call) -> Vec<(String, TypeReference)> {
    let arguments: Vec<Oid> = call.arguments.iter().map(|argument| argument.of.oid).collect();
    let polymorphic = polymorphic_types(&arguments, &call.function.arguments).unwrap_or_default();
    let of = |declared: Oid| TypeReference::of(polymorphic.resolve(declared).unwrap_or(declared));
    call.function.result_columns().map(|(name, declared)| (name.to_owned(), of(declared))).collect()
}

/// The array type with these elements.
pub(crate) fn array_of(oid: Oid) -> Option<Oid> {
    if let Some((relation, false)) = relation_of_type(oid) {
        return Some(row_array_type(relation));
    }
    type_row(oid).map(|row| row.array).filter(|array| *array != 0).or_else(|| array_of_user_type(oid))
}

/// Whether it is the row type of a table, or a composite type.
pub(crate) fn is_row_type(oid: Oid) -> bool {
    matches!(relation_of_type(oid), Some((_, false))) || is_composite_type(oid)
}

pub(crate) fn is_composite(oid: Oid) -> bool {
    is_row_type(oid) || type_row(oid).is_some_and(|row| row.kind == b'c')
}

pub(crate) fn is_polymorphic(oid: Oid) -> bool {
    matches!(
        oid,
        oid::ANYELEMENT
            | oid::ANYARRAY
            | oid::ANYNONARRAY
            | oid::ANYENUM
            | oid::ANYRANGE
            | oid::ANYCOMPATIBLE
            | oid::ANYCOMPATIBLEARRAY
            | oid::ANYCOMPATIBLENONARRAY
            | ANYCOMPATIBLERANGE
            | ANYMULTIRANGE
            | ANYCOMPATIBLEMULTIRANGE
    )
}

pub(crate) const ANYCOMPATIBLERANGE: Oid = 5080;
pub(crate) const ANYMULTIRANGE: Oid = 4537;
pub(crate) const ANYCOMPATIBLEMULTIRANGE: Oid = 4538;

/// The name of a type as messages show it.
pub(crate) fn type_name(oid: Oid) -> String {
    if let Some(element) = element_of(oid) {
        return format!("{}[]", type_name(element));
    }
    if is_user_type(oid) {
        return marked_name(oid);
    }
    let known = match oid {
        oid::BOOL => "boolean",
        oid::CHAR => "\"char\"",
        oid::INT2 => "smallint",
        oid::INT4 => "integer",
        oid::INT8 => "bigint",
        oid::FLOAT4 => "real",
        oid::FLOAT8 => "double precision",
        oid::BPCHAR => "character",
        oid::VARCHAR => "character varying",
        oid::TIME => "time without time zone",
        oid::TIMETZ => "time with time zone",
        oid::TIMESTAMP => "timestamp without time zone",
        oid::TIMESTAMPTZ => "timestamp with time zone",
        oid::VARBIT => "bit varying",
        _ => return type_row(oid).map_or_else(|| "???".to_owned(), |row| quoted(&row.name)),
    };
    known.to_owned()
}

/// A name with quotes, where it needs them.
pub(crate) fn quoted(name: &str) -> String {
    let is_plain = name.starts_with(|first: char| first.is_ascii_lowercase() || first == '_')
        && name.chars().all(|char| char.is_ascii_lowercase() || char.is_ascii_digit() || char == '_');
    if is_plain { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}
