//! Arrays: their shape, and arrays made of arrays and elements.

use std::sync::Arc;

use super::arguments::{mismatch, out_of_range, row};
use super::text::bounded;
use super::{Call, Table};
use crate::datum::{Array, Datum, Dimension};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::order;

pub(super) const TABLE: Table = &[
    row!("array_ndims", [Array array], {
        Ok(shown(array, |array| Datum::Int4(bounded(array.dimensions.len()))))
    }),
    row!("array_dims", [Array array], Ok(shown(array, |array| Datum::text(bounds_text(array))))),
    row!("array_length", [Array array, Int4 number], {
        Ok(dimension(array, *number).map_or(Datum::Null, |found| Datum::Int4(found.length)))
    }),
    row!("array_lower", [Array array, Int4 number], {
        Ok(dimension(array, *number).map_or(Datum::Null, |found| Datum::Int4(found.lower)))
    }),
    row!("array_upper", [Array array, Int4 number], {
        Ok(dimension(array, *number).map_or(Datum::Null, |found| Datum::Int4(last_subscript(found))))
    }),
    row!("array_cardinality", [Array array], Ok(Datum::Int4(bounded(array.values.len())))),
    ("array_append", |call| match call.arguments {
        [array, element] => extended(call, array, element, End::Last),
        _ => Err(mismatch(call)),
    }),
    ("array_prepend", |call| match call.arguments {
        [element, array] => extended(call, array, element, End::First),
        _ => Err(mismatch(call)),
    }),
    ("array_cat", concatenated),
    ("array_fill", filled),
    ("array_fill_with_lower_bounds", filled),
    row!("trim_array", [Array array, Int4 count], trimmed(array, *count)),
    row!("array_larger", [Array left, Array right], {
        let is_less = order::compare(&call_value(left), &call_value(right)).is_lt();
        Ok(call_value(if is_less { right } else { left }))
    }),
    row!("array_smaller", [Array left, Array right], {
        let is_less = order::compare(&call_value(left), &call_value(right)).is_lt();
        Ok(call_value(if is_less { left } else { right }))
    }),
];

/// Dimensions that an array may have.
pub(crate) const DIMENSIONS_MAX: usize = 6;

/// Elements that an array may have.
const ELEMENTS_MAX: usize = 134_217_727;

fn call_value(array: &Arc<Array>) -> Datum {
    Datum::Array(Arc::clone(array))
}

/// A property of an array that an empty one lacks.
fn shown(array: &Array, property: impl Fn(&Array) -> Datum) -> Datum {
    if array.dimensions.is_empty() { Datum::Null } else { property(array) }
}

/// The subscript of the last element in a dimension.
pub(crate) fn last_subscript(dimension: &Dimension) -> i32 {
    dimension.lower.wrapping_add(dimension.length).wrapping_sub(1)
}

/// A dimension by its number, from 1.
pub(crate) fn dimension(array: &Array, number: i32) -> Option<&Dimension> {
    array.dimensions.get(usize::try_from(number).ok()?.checked_sub(1)?)
}

fn bounds_text(array: &Array) -> String {
    let bounds = |found: &Dimension| format!("[{}:{}]", found.lower, last_subscript(found));
    array.dimensions.iter().map(bounds).collect()
}

/// `54000`: an array would be too large.
#[cold]
fn too_large() -> Box<SqlError> {
    let message = format!("array size exceeds the maximum allowed ({ELEMENTS_MAX})");
    SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)
}

/// `54000`: an array would have too many dimensions.
#[cold]
pub(crate) fn too_many_dimensions(count: usize) -> Box<SqlError> {
    let message =
        format!("number of array dimensions ({count}) exceeds the maximum allowed ({DIMENSIONS_MAX})");
    SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)
}

#[derive(Clone, Copy)]
enum End {
    First,
    Last,
}

/// An array with one more element. The first subscript stays.
fn extended(call: &Call<'_>, array: &Datum, element: &Datum, end: End) -> SqlResult<Datum> {
    let array = match array {
        Datum::Array(array) => array,
        Datum::Null => {
            let of = match end {
                End::First => call.argument_types.first(),
                End::Last => call.argument_types.last(),
            };
            let of = of.ok_or_else(|| mismatch(call))?.oid;
            return Ok(Datum::Array(Arc::new(Array::one_dimensional(of, vec![element.clone()]))));
        }
        _ => return Err(mismatch(call)),
    };
    let lower = match array.dimensions[..] {
        [] => 1,
        [Dimension { length, lower }] => {
            let next = match end {
                End::First => lower.checked_sub(1),
                End::Last => lower.checked_add(length),
            };
            next.ok_or_else(|| out_of_range("integer"))?;
            lower
        }
        _ => {
            let message = "argument must be empty or one-dimensional array";
            return Err(SqlError::new(SqlState::DATA_EXCEPTION, message));
        }
    };
    let mut values = Vec::with_capacity(array.values.len() + 1);
    match end {
        End::First => {
            values.push(element.clone());
            values.extend(array.values.iter().cloned());
        }
        End::Last => {
            values.extend(array.values.iter().cloned());
            values.push(element.clone());
        }
    }
    if values.len() > ELEMENTS_MAX {
        return Err(too_large());
    }
    let dimensions = vec![Dimension { length: bounded(values.len()), lower }];
    checked_bounds(&dimensions)?;
    Ok(Datum::Array(Arc::new(Array { element: array.element, dimensions, values })))
}

#[cold]
fn incompatible(detail: impl Into<String>) -> Box<SqlError> {
    SqlError::new(SqlState::ARRAY_SUBSCRIPT_ERROR, "cannot concatenate incompatible arrays")
        .with_detail(detail)
}

fn concatenated(call: &Call<'_>) -> SqlResult<Datum> {
    let (left, right) = match call.arguments {
        [Datum::Array(left), Datum::Array(right)] => (left, right),
        [Datum::Null, other @ (Datum::Array(_) | Datum::Null)] | [other @ Datum::Array(_), Datum::Null] => {
            return Ok(other.clone());
        }
        _ => return Err(mismatch(call)),
    };
    if left.dimensions.is_empty() {
        return Ok(call_value(right));
    }
    if right.dimensions.is_empty() {
        return Ok(call_value(left));
    }
    let dimensions = joined_dimensions(&left.dimensions, &right.dimensions)?;
    if left.values.len() + right.values.len() > ELEMENTS_MAX {
        return Err(too_large());
    }
    let values = left.values.iter().chain(&right.values).cloned().collect();
    Ok(Datum::Array(Arc::new(Array { element: left.element, dimensions, values })))
}

/// The shape of two arrays one after the other; one of them may be an element of the other's outermost dimension.
fn joined_dimensions(left: &[Dimension], right: &[Dimension]) -> SqlResult<Vec<Dimension>> {
    let (mut whole, added, fits, detail) = if left.len() == right.len() {
        let detail = "Arrays with differing element dimensions are not compatible for concatenation.";
        (left.to_vec(), right[0].length, left[1..] == right[1..], detail)
    } else {
        let detail = "Arrays with differing dimensions are not compatible for concatenation.";
        if left.len() + 1 == right.len() {
            (right.to_vec(), 1, *left == right[1..], detail)
        } else if left.len() == right.len() + 1 {
            (left.to_vec(), 1, left[1..] == *right, detail)
        } else {
            return Err(incompatible(format!(
                "Arrays of {} and {} dimensions are not compatible for concatenation.",
                left.len(),
                right.len()
            )));
        }
    };
    if !fits {
        return Err(incompatible(detail));
    }
    whole[0].length = whole[0].length.checked_add(added).ok_or_else(too_large)?;
    checked_bounds(&whole)?;
    Ok(whole)
}

/// # Errors
/// `54000` if a subscript would be no `integer`.
pub(crate) fn checked_bounds(dimensions: &[Dimension]) -> SqlResult<()> {
    for Dimension { length, lower } in dimensions {
        if lower.checked_add(*length).is_none() {
            let message = format!("array lower bound is too large: {lower}");
            return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
        }
    }
    Ok(())
}

#[cold]
fn wrong_subscripts(detail: &str) -> Box<SqlError> {
    SqlError::new(SqlState::ARRAY_SUBSCRIPT_ERROR, "wrong number of array subscripts").with_detail(detail)
}

/// The numbers of an array that describes the shape of another one.
fn numbers(call: &Call<'_>, index: usize) -> SqlResult<Vec<i32>> {
    let null = |what: &str| SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, what);
    let array = match call.arguments.get(index) {
        Some(Datum::Array(array)) => array,
        Some(Datum::Null) => return Err(null("dimension array or low bound array cannot be null")),
        _ => return Err(mismatch(call)),
    };
    if array.dimensions.len() > 1 {
        return Err(wrong_subscripts("Dimension array must be one dimensional."));
    }
    let number = |value: &Datum| match value {
        Datum::Int4(number) => Ok(*number),
        Datum::Null => Err(null("dimension values cannot be null")),
        _ => Err(mismatch(call)),
    };
    array.values.iter().map(number).collect()
}

fn filled(call: &Call<'_>) -> SqlResult<Datum> {
    let (Some(value), Some(of)) = (call.arguments.first(), call.argument_types.first()) else {
        return Err(mismatch(call));
    };
    let has_bounds = call.arguments.len() > 2;
    if let Some(null) = call.arguments[1..].iter().position(Datum::is_null) {
        numbers(call, null + 1)?;
    }
    let lengths = numbers(call, 1)?;
    if lengths.len() > DIMENSIONS_MAX {
        return Err(too_many_dimensions(lengths.len()));
    }
    let bounds = if has_bounds { numbers(call, 2)? } else { vec![1; lengths.len()] };
    if bounds.len() != lengths.len() {
        return Err(wrong_subscripts("Low bound array has different size than dimensions array."));
    }
    let dimensions: Vec<Dimension> =
        lengths.into_iter().zip(bounds).map(|(length, lower)| Dimension { length, lower }).collect();
    let count = element_count(&dimensions)?;
    checked_bounds(&dimensions)?;
    if count == 0 {
        return Ok(Datum::Array(Arc::new(Array::one_dimensional(of.oid, Vec::new()))));
    }
    if count.saturating_mul(value.memory_bytes()) > super::text::BYTES_MAX {
        return Err(too_large());
    }
    Ok(Datum::Array(Arc::new(Array { element: of.oid, dimensions, values: vec![value.clone(); count] })))
}

/// How many elements an array of this shape has.
///
/// # Errors
/// `54000` if there are too many.
pub(crate) fn element_count(dimensions: &[Dimension]) -> SqlResult<usize> {
    if dimensions.is_empty() {
        return Ok(0);
    }
    let mut count: usize = 1;
    for Dimension { length, .. } in dimensions {
        let length = usize::try_from(*length).map_err(|_| too_large())?;
        count = count.checked_mul(length).filter(|count| *count <= ELEMENTS_MAX).ok_or_else(too_large)?;
    }
    Ok(count)
}

/// An array without so many elements at the end. Subscripts begin with 1.
fn trimmed(array: &Array, count: i32) -> SqlResult<Datum> {
    let length = array.dimensions.first().map_or(0, |outer| outer.length);
    if count < 0 || count > length {
        let message = format!("number of elements to trim must be between 0 and {length}");
        return Err(SqlError::new(SqlState::ARRAY_SUBSCRIPT_ERROR, message));
    }
    let kept = length - count;
    if kept == 0 {
        return Ok(Datum::Array(Arc::new(Array::one_dimensional(array.element, Vec::new()))));
    }
    let mut dimensions: Vec<Dimension> =
        array.dimensions.iter().map(|found| Dimension { length: found.length, lower: 1 }).collect();
    dimensions[0].length = kept;
    let values = array.values[..element_count(&dimensions)?].to_vec();
    Ok(Datum::Array(Arc::new(Array { element: array.element, dimensions, values })))
}
