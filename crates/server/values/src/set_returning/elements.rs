//! Elements of arrays and parts of texts as rows.

use std::sync::Arc;

use super::{Rows, Table, values};
use crate::datum::{Array, Datum};
use crate::error::SqlResult;
use crate::functions::Call;
use crate::functions::{arguments, array_text, arrays, regex};

pub(super) const TABLE: Table = &[
    ("array_unnest", |call| match call.arguments {
        [Datum::Array(array)] => Ok(elements(array)),
        _ => Err(arguments::mismatch(call)),
    }),
    ("generate_subscripts", subscripts),
    ("generate_subscripts_nodir", subscripts),
    ("text_to_table", |call| Ok(values(array_text::parts(call)?.unwrap_or_default()))),
    ("text_to_table_null", |call| Ok(values(array_text::parts(call)?.unwrap_or_default()))),
    ("regexp_matches", |call| Ok(values(regex::all_matches(call)?))),
    ("regexp_matches_no_flags", |call| Ok(values(regex::all_matches(call)?))),
    ("regexp_split_to_table", |call| Ok(values(regex::split(call, "regexp_split_to_table")?))),
    ("regexp_split_to_table_no_flags", |call| Ok(values(regex::split(call, "regexp_split_to_table")?))),
];

fn elements(array: &Arc<Array>) -> Rows {
    let array = Arc::clone(array);
    values((0..array.values.len()).map(move |index| array.values[index].clone()))
}

/// The subscripts of a dimension, forwards or backwards.
fn subscripts(call: &Call<'_>) -> SqlResult<Rows> {
    let (array, number, is_reverse) = match call.arguments {
        [Datum::Array(array), Datum::Int4(number)] => (array, number, false),
        [Datum::Array(array), Datum::Int4(number), Datum::Bool(is_reverse)] => (array, number, *is_reverse),
        _ => return Err(arguments::mismatch(call)),
    };
    let Some(dimension) = arrays::dimension(array, *number) else { return Ok(values([])) };
    let subscripts = (dimension.lower..=arrays::last_subscript(dimension)).map(Datum::Int4);
    Ok(if is_reverse { values(subscripts.rev()) } else { values(subscripts) })
}
