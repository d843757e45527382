//! Functions over the labels of an enum.

use std::sync::Arc;

use super::arguments::mismatch;
use super::{Call, Table};
use crate::datum::{Array, Datum};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::oid::Oid;

pub(super) const TABLE: Table = &[
    ("enum_first", |call| end_of(call, <[Datum]>::first)),
    ("enum_last", |call| end_of(call, <[Datum]>::last)),
    ("enum_range_all", |call| {
        let of = argument_enum(call)?;
        Ok(array(of, places(call, of)?))
    }),
    ("enum_range_bounds", |call| {
        let of = argument_enum(call)?;
        let [from, to] = call.arguments else { return Err(mismatch(call)) };
        let is_within = |place: &Datum| match (from, to, place) {
            (Datum::Int8(from), _, Datum::Int8(place)) if place < from => false,
            (_, Datum::Int8(to), Datum::Int8(place)) if place > to => false,
            _ => true,
        };
        Ok(array(of, places(call, of)?.into_iter().filter(is_within).collect()))
    }),
];

/// The enum that the first argument has, which may be a null.
fn argument_enum(call: &Call<'_>) -> SqlResult<Oid> {
    call.argument_types.first().map(|of| of.oid).ok_or_else(|| mismatch(call))
}

fn places(call: &Call<'_>, of: Oid) -> SqlResult<Vec<Datum>> {
    Ok(call.settings.types.labels(of)?.labels.iter().map(|(place, _)| Datum::Int8(*place)).collect())
}

fn array(of: Oid, places: Vec<Datum>) -> Datum {
    Datum::Array(Arc::new(Array::one_dimensional(of, places)))
}

fn end_of(call: &Call<'_>, end: fn(&[Datum]) -> Option<&Datum>) -> SqlResult<Datum> {
    let of = argument_enum(call)?;
    end(&places(call, of)?).cloned().ok_or_else(|| {
        let message = format!(
            "enum {} contains no values",
            call.settings.types.labels(of).map_or("", |known| known.name.as_str())
        );
        SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
    })
}
