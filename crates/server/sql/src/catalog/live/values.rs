//! Values of rows, made short.

use std::sync::Arc;

use seawall_values::{Array, Datum, Oid, oid};

use super::super::initial;

/// A text, or null.
pub(in super::super) fn text_or_null(text: Option<impl AsRef<str>>) -> Datum {
    text.map_or(Datum::Null, Datum::text)
}

/// A name, which is never null.
pub(in super::super) fn name(name: &str) -> Datum {
    Datum::text(name)
}

/// An array of one dimension.
pub(in super::super) fn array(element: Oid, values: impl IntoIterator<Item = Datum>) -> Datum {
    Datum::Array(Arc::new(Array::one_dimensional(element, values.into_iter().collect())))
}

/// Texts as an array; null if there are none.
pub(in super::super) fn texts_or_null(texts: &[String]) -> Datum {
    if texts.is_empty() { Datum::Null } else { array(oid::TEXT, texts.iter().map(Datum::text)) }
}

/// Numbers of columns as `smallint[]`.
pub(in super::super) fn column_numbers(positions: &[usize]) -> Datum {
    array(
        oid::INT2,
        positions.iter().map(|position| Datum::Int2(super::super::numbers::column_number(*position))),
    )
}

/// An `int2vector`.
pub(in super::super) fn int2vector(values: impl IntoIterator<Item = i16>) -> Datum {
    initial::vector(oid::INT2, values.into_iter().map(Datum::Int2).collect())
}

/// An `oidvector`.
pub(in super::super) fn oidvector(values: impl IntoIterator<Item = Oid>) -> Datum {
    initial::vector(oid::OID, values.into_iter().map(Datum::Oid).collect())
}

/// A moment, or null.
pub(in super::super) fn moment(micros: Option<i64>) -> Datum {
    micros.map_or(Datum::Null, Datum::TimestampTz)
}

/// Microseconds from 1970 to 2000.
const EPOCH: i64 = 946_684_800_000_000;

/// A moment that is told in microseconds since 1970.
pub(in super::super) fn moment_since_1970(micros: i64) -> Datum {
    Datum::TimestampTz(micros.saturating_sub(EPOCH))
}

/// A count that is kept as `u64`.
pub(in super::super) fn count(number: u64) -> Datum {
    Datum::Int8(i64::try_from(number).unwrap_or(i64::MAX))
}

/// A number that fits `smallint`, or its largest value.
pub(in super::super) fn small(number: usize) -> Datum {
    Datum::Int2(i16::try_from(number).unwrap_or(i16::MAX))
}
