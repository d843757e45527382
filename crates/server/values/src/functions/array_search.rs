//! Elements of arrays: where they are, whether they are there, and arrays without them.

use std::cmp::Ordering;
use std::sync::Arc;

use super::arguments::{mismatch, row};
use super::text::bounded;
use super::{Call, Table};
use crate::datum::{Array, Datum, Dimension};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::oid::{self, Oid};
use crate::order::{self, Comparison};

pub(super) const TABLE: Table = &[
    ("array_position", |call| first_position(call)),
    ("array_position_start", |call| first_position(call)),
    ("array_positions", |call| all_positions(call)),
    ("array_remove", |call| match call.arguments {
        [Datum::Null, _] => Ok(Datum::Null),
        [Datum::Array(array), element] => without(array, element),
        _ => Err(mismatch(call)),
    }),
    ("array_replace", |call| match call.arguments {
        [Datum::Null, _, _] => Ok(Datum::Null),
        [Datum::Array(array), from, to] => replaced(array, from, to),
        _ => Err(mismatch(call)),
    }),
    row!("arraycontains", [Array left, Array right], contains_all(left, right)),
    row!("arraycontained", [Array left, Array right], contains_all(right, left)),
    row!("arrayoverlap", [Array left, Array right], overlaps(left, right)),
    ("width_bucket_array", |call| match call.arguments {
        [value, Datum::Array(thresholds)] => bucket(value, thresholds),
        _ => Err(mismatch(call)),
    }),
];

/// The comparison of elements.
///
/// # Errors
/// `42883` if the type has no equality.
fn comparison(of: Oid) -> SqlResult<Comparison> {
    if matches!(of, oid::JSON | oid::XML | oid::JSONPATH) {
        let name = crate::system::system().type_by_oid(of).map_or("", |row| row.name.as_str());
        let message = format!("could not identify an equality operator for type {name}");
        return Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, message));
    }
    Ok(order::comparison(of))
}

/// A test for one element; a null is found by a null.
fn finder<'a>(array: &Array, wanted: &'a Datum) -> SqlResult<impl Fn(&Datum) -> bool + 'a> {
    let compare = comparison(array.element)?;
    Ok(move |value: &Datum| compare(value, wanted) == Ordering::Equal)
}

#[cold]
fn multidimensional(what: &str) -> Box<SqlError> {
    SqlError::unsupported(format!("{what} multidimensional arrays"))
}

/// The array in which a call searches; `None`: it is null.
fn searched<'a>(call: &Call<'a>) -> SqlResult<Option<(&'a Array, &'a Datum)>> {
    match call.arguments {
        [Datum::Null, ..] => Ok(None),
        [Datum::Array(array), _, ..] if array.dimensions.len() > 1 => {
            let message = "searching for elements in multidimensional arrays is not supported";
            Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message))
        }
        [Datum::Array(array), wanted, ..] => Ok(Some((array, wanted))),
        _ => Err(mismatch(call)),
    }
}

/// The subscripts of an array's elements.
fn subscripts(array: &Array) -> impl Iterator<Item = i32> {
    let lower = array.dimensions.first().map_or(1, |found| found.lower);
    (lower..=i32::MAX).take(array.values.len())
}

fn first_position(call: &Call<'_>) -> SqlResult<Datum> {
    let Some((array, wanted)) = searched(call)? else { return Ok(Datum::Null) };
    if array.values.is_empty() {
        return Ok(Datum::Null);
    }
    let start = match call.arguments.get(2) {
        None => i32::MIN,
        Some(Datum::Int4(start)) => *start,
        Some(Datum::Null) => {
            let message = "initial position must not be null";
            return Err(SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, message));
        }
        Some(_) => return Err(mismatch(call)),
    };
    let is_wanted = finder(array, wanted)?;
    let mut elements = subscripts(array).zip(&array.values);
    let found = elements.find(|(subscript, value)| *subscript >= start && is_wanted(value));
    Ok(found.map_or(Datum::Null, |(subscript, _)| Datum::Int4(subscript)))
}

fn all_positions(call: &Call<'_>) -> SqlResult<Datum> {
    let Some((array, wanted)) = searched(call)? else { return Ok(Datum::Null) };
    let is_wanted = finder(array, wanted)?;
    let elements = subscripts(array).zip(&array.values);
    let found = elements.filter(|(_, value)| is_wanted(value)).map(|(subscript, _)| Datum::Int4(subscript));
    Ok(Datum::Array(Arc::new(Array::one_dimensional(oid::INT4, found.collect()))))
}

fn without(array: &Arc<Array>, element: &Datum) -> SqlResult<Datum> {
    let lower = match array.dimensions[..] {
        [] => return Ok(Datum::Array(Arc::clone(array))),
        [Dimension { lower, .. }] => lower,
        _ => return Err(multidimensional("removing elements from")),
    };
    let is_removed = finder(array, element)?;
    let values: Vec<Datum> = array.values.iter().filter(|value| !is_removed(value)).cloned().collect();
    let mut left = Array::one_dimensional(array.element, values);
    left.dimensions.iter_mut().for_each(|dimension| dimension.lower = lower);
    Ok(Datum::Array(Arc::new(left)))
}

fn replaced(array: &Arc<Array>, from: &Datum, to: &Datum) -> SqlResult<Datum> {
    let is_replaced = finder(array, from)?;
    let value = |value: &Datum| if is_replaced(value) { to.clone() } else { value.clone() };
    let values = array.values.iter().map(value).collect();
    Ok(Datum::Array(Arc::new(Array { values, dimensions: array.dimensions.clone(), element: array.element })))
}

/// The values of an array in order, without nulls: a null is never equal to another.
fn sorted(array: &Array, compare: Comparison) -> Vec<&Datum> {
    let mut values: Vec<&Datum> = array.values.iter().filter(|value| !value.is_null()).collect();
    values.sort_unstable_by(|left, right| compare(left, right));
    values
}

fn checked_elements(left: &Array, right: &Array) -> SqlResult<Comparison> {
    if left.element != right.element {
        let message = "cannot compare arrays of different element types";
        return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message));
    }
    comparison(left.element)
}

fn contains_all(whole: &Array, parts: &Array) -> SqlResult<Datum> {
    let compare = checked_elements(whole, parts)?;
    if parts.values.iter().any(Datum::is_null) {
        return Ok(Datum::Bool(false));
    }
    let known = sorted(whole, compare);
    let is_known = |part: &Datum| known.binary_search_by(|value| compare(value, part)).is_ok();
    Ok(Datum::Bool(parts.values.iter().all(is_known)))
}

fn overlaps(left: &Array, right: &Array) -> SqlResult<Datum> {
    let compare = checked_elements(left, right)?;
    let known = sorted(left, compare);
    let is_known =
        |part: &Datum| !part.is_null() && known.binary_search_by(|value| compare(value, part)).is_ok();
    Ok(Datum::Bool(right.values.iter().any(is_known)))
}

/// How many of the thresholds, which are in order, are not above a value.
fn bucket(value: &Datum, thresholds: &Array) -> SqlResult<Datum> {
    if thresholds.dimensions.len() > 1 {
        let message = "thresholds must be one-dimensional array";
        return Err(SqlError::new(SqlState::ARRAY_SUBSCRIPT_ERROR, message));
    }
    if thresholds.values.iter().any(Datum::is_null) {
        let message = "thresholds array must not contain NULLs";
        return Err(SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, message));
    }
    let compare = comparison(thresholds.element)?;
    let count = thresholds.values.partition_point(|threshold| compare(threshold, value) != Ordering::Greater);
    Ok(Datum::Int4(bounded(count)))
}
