//! Names of types in messages, and which type is an array of which.

use crate::oid::{self, Oid};
use crate::system::{TypeRow, system};
use crate::user_types;

/// The name that SQL has for a type, as PostgreSQL's `format_type` shows it; `???` if there is no such type.
pub fn type_name(of: Oid) -> &'static str {
    match of {
        oid::BOOL => "boolean",
        oid::CHAR => "\"char\"",
        oid::INT2 => "smallint",
        oid::INT4 => "integer",
        oid::INT8 => "bigint",
        oid::FLOAT4 => "real",
        oid::FLOAT8 => "double precision",
        oid::BPCHAR => "character",
        oid::VARCHAR => "character varying",
        oid::BIT => "bit",
        oid::VARBIT => "bit varying",
        oid::TIME => "time without time zone",
        oid::TIMETZ => "time with time zone",
        oid::TIMESTAMP => "timestamp without time zone",
        oid::TIMESTAMPTZ => "timestamp with time zone",
        oid::BOOL_ARRAY => "boolean[]",
        oid::CHAR_ARRAY => "\"char\"[]",
        oid::INT2_ARRAY => "smallint[]",
        oid::INT4_ARRAY => "integer[]",
        oid::INT8_ARRAY => "bigint[]",
        oid::FLOAT4_ARRAY => "real[]",
        oid::FLOAT8_ARRAY => "double precision[]",
        oid::BPCHAR_ARRAY => "character[]",
        oid::VARCHAR_ARRAY => "character varying[]",
        oid::TEXT_ARRAY => "text[]",
        oid::NUMERIC_ARRAY => "numeric[]",
        _ => row(of).map_or("???", |row| row.name.as_str()),
    }
}

/// The type of the elements of an array type.
pub fn array_element(of: Oid) -> Option<Oid> {
    match of {
        oid::TEXT_ARRAY => Some(oid::TEXT),
        oid::INT4_ARRAY => Some(oid::INT4),
        oid::INT8_ARRAY => Some(oid::INT8),
        _ => row(of)
            .map(|row| row.element)
            .filter(|element| *element != 0)
            .or_else(|| user_types::element_of_user_array(of)),
    }
}

/// The type of arrays of a type.
pub fn array_of(element: Oid) -> Option<Oid> {
    row(element)
        .map(|row| row.array)
        .filter(|array| *array != 0)
        .or_else(|| user_types::array_of_user_type(element))
}

/// Whether a type is one that only parameters and results of functions have.
pub(super) fn is_pseudo(of: Oid) -> bool {
    row(of).is_some_and(|row| row.kind == b'p')
}

fn row(of: Oid) -> Option<&'static TypeRow> {
    system().type_by_oid(of)
}
