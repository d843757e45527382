//! `jsonb_path_*`, `@?` and `@@`: parts of a `jsonb` by a `jsonpath`.

use std::sync::Arc;

use super::arguments::mismatch;
use super::{Call, Table};
use crate::datum::{Datum, Jsonb};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::jsonpath::{Selection, parsed, select};

pub(super) const TABLE: Table = &[
    ("jsonb_path_exists", |call| exists(call)),
    ("jsonb_path_exists_tz", |call| exists(call)),
    ("jsonb_path_exists_opr", |call| exists(call)),
    ("jsonb_path_match", |call| matches(call)),
    ("jsonb_path_match_tz", |call| matches(call)),
    ("jsonb_path_match_opr", |call| matches(call)),
    ("jsonb_path_query_array", |call| all(call)),
    ("jsonb_path_query_array_tz", |call| all(call)),
    ("jsonb_path_query_first", |call| first(call)),
    ("jsonb_path_query_first_tz", |call| first(call)),
];

/// The items that a call selects, whether an error ended them, and whether errors are hidden, as those of operators are.
fn items(call: &Call<'_>) -> SqlResult<(Vec<Jsonb>, bool, bool)> {
    let none = Jsonb::Object(Vec::new());
    let (root, path, variables, is_silent) = match call.arguments {
        [Datum::Jsonb(root), Datum::Text(path)] => (root, path, &none, true),
        [Datum::Jsonb(root), Datum::Text(path), Datum::Jsonb(variables), Datum::Bool(is_silent)] => {
            (root, path, variables.as_ref(), *is_silent)
        }
        _ => return Err(mismatch(call)),
    };
    let path = parsed(path)?;
    let (items, has_failed) = select(&Selection { path: &path, root, variables, is_silent })?;
    Ok((items, has_failed, is_silent))
}

fn exists(call: &Call<'_>) -> SqlResult<Datum> {
    let (items, has_failed, _) = items(call)?;
    Ok(match (items.is_empty(), has_failed) {
        (true, true) => Datum::Null,
        (is_empty, _) => Datum::Bool(!is_empty),
    })
}

fn matches(call: &Call<'_>) -> SqlResult<Datum> {
    let (items, _, is_silent) = items(call)?;
    match items.as_slice() {
        [Jsonb::Bool(truth)] => Ok(Datum::Bool(*truth)),
        [Jsonb::Null] => Ok(Datum::Null),
        _ if is_silent => Ok(Datum::Null),
        _ => Err(SqlError::new(SqlState::new(b"22038"), "single boolean result is expected")),
    }
}

fn all(call: &Call<'_>) -> SqlResult<Datum> {
    Ok(Datum::Jsonb(Arc::new(Jsonb::Array(items(call)?.0))))
}

fn first(call: &Call<'_>) -> SqlResult<Datum> {
    let first = items(call)?.0.into_iter().next();
    Ok(first.map_or(Datum::Null, |item| Datum::Jsonb(Arc::new(item))))
}

/// All items, for a set.
pub(crate) fn selected(call: &Call<'_>) -> SqlResult<Vec<Datum>> {
    Ok(items(call)?.0.into_iter().map(|item| Datum::Jsonb(Arc::new(item))).collect())
}
