//! Lengths and precisions of types, from their modifiers.

use seawall_values::{Oid, oid};

use super::super::definition_text::system_type;

/// A type with its modifier, as `_pg_truetypid` and `_pg_truetypmod` find them.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct TypeShape {
    pub(in super::super) of: Oid,
    pub(in super::super) modifier: i32,
}

/// The largest text in bytes, as `information_schema` says it.
const LARGEST_TEXT: i32 = 1 << 30;
/// Bytes that a character has at most.
const CHARACTER_BYTES: i32 = 4;

/// `character_maximum_length`.
pub(in super::super) fn character_length(shape: TypeShape) -> Option<i32> {
    match shape.of {
        _ if shape.modifier == -1 => None,
        oid::BPCHAR | oid::VARCHAR => Some(shape.modifier.wrapping_sub(4)),
        oid::BIT | oid::VARBIT => Some(shape.modifier),
        _ => None,
    }
}

/// `character_octet_length`.
pub(in super::super) fn octet_length(shape: TypeShape) -> Option<i32> {
    match shape.of {
        oid::TEXT | oid::BPCHAR | oid::VARCHAR if shape.modifier == -1 => Some(LARGEST_TEXT),
        oid::TEXT | oid::BPCHAR | oid::VARCHAR => {
            Some(character_length(shape)?.saturating_mul(CHARACTER_BYTES))
        }
        _ => None,
    }
}

/// `numeric_precision`.
pub(in super::super) fn numeric_precision(shape: TypeShape) -> Option<i32> {
    match shape.of {
        oid::INT2 => Some(16),
        oid::INT4 => Some(32),
        oid::INT8 => Some(64),
        oid::NUMERIC if shape.modifier == -1 => None,
        oid::NUMERIC => Some(shape.modifier.wrapping_sub(4) >> 16 & 0xFFFF),
        oid::FLOAT4 => Some(24),
        oid::FLOAT8 => Some(53),
        _ => None,
    }
}

/// `numeric_precision_radix`.
pub(in super::super) fn numeric_radix(shape: TypeShape) -> Option<i32> {
    match shape.of {
        oid::INT2 | oid::INT4 | oid::INT8 | oid::FLOAT4 | oid::FLOAT8 => Some(2),
        oid::NUMERIC => Some(10),
        _ => None,
    }
}

/// `numeric_scale`.
pub(in super::super) fn numeric_scale(shape: TypeShape) -> Option<i32> {
    match shape.of {
        oid::INT2 | oid::INT4 | oid::INT8 => Some(0),
        oid::NUMERIC if shape.modifier == -1 => None,
        oid::NUMERIC => Some(shape.modifier.wrapping_sub(4) & 0x7FF),
        _ => None,
    }
}

/// `datetime_precision`.
pub(in super::super) fn datetime_precision(shape: TypeShape) -> Option<i32> {
    match shape.of {
        oid::DATE => Some(0),
        oid::TIME | oid::TIMETZ | oid::TIMESTAMP | oid::TIMESTAMPTZ if shape.modifier < 0 => Some(6),
        oid::TIME | oid::TIMETZ | oid::TIMESTAMP | oid::TIMESTAMPTZ => Some(shape.modifier),
        oid::INTERVAL if shape.modifier < 0 || shape.modifier & 0xFFFF == 0xFFFF => Some(6),
        oid::INTERVAL => Some(shape.modifier & 0xFFFF),
        _ => None,
    }
}

/// `interval_type`: the fields of an interval, such as `YEAR TO MONTH`.
pub(in super::super) fn interval_fields(shape: TypeShape) -> Option<String> {
    if shape.of != oid::INTERVAL {
        return None;
    }
    let text = system_type(shape.of, Some(shape.modifier))?;
    let fields = text.strip_prefix("interval")?.split('(').next()?.trim();
    (!fields.is_empty()).then(|| fields.to_uppercase())
}
