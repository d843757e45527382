//! Arrays: construction, subscripts and slices, conversion of elements.

use std::sync::Arc;

use seawall_values::datum::{Array, Dimension, Jsonb};
use seawall_values::{Datum, Oid, SqlError, SqlResult, SqlState};

use super::super::context::Context;
use super::Expression;
use super::call::evaluate_all;

/// The most dimensions that an array has.
const DIMENSIONS_MAX: usize = 6;

/// `ARRAY[..]`.
#[derive(Debug)]
pub(crate) struct ArrayConstructor {
    pub(crate) elements: Box<[Expression]>,
    pub(crate) element: Oid,
    pub(crate) is_nested: bool,
}

impl ArrayConstructor {
    pub(crate) fn evaluate(&self, context: &mut Context<'_>) -> SqlResult<Datum> {
        let values = evaluate_all(&self.elements, context)?;
        let array = if self.is_nested {
            nest(self.element, values)?
        } else {
            Array::one_dimensional(self.element, values)
        };
        Ok(Datum::Array(Arc::new(array)))
    }
}

/// An array of arrays with the same dimensions, as one with a dimension more.
pub(crate) fn nest(element: Oid, values: Vec<Datum>) -> SqlResult<Array> {
    let mut inner: Option<Vec<Dimension>> = None;
    let mut all = Vec::new();
    let mut count: usize = 0;
    for value in values {
        let Datum::Array(array) = value else { continue };
        match &inner {
            Some(dimensions) if *dimensions != array.dimensions => {
                return Err(SqlError::new(
                    SqlState::ARRAY_SUBSCRIPT_ERROR,
                    "multidimensional arrays must have array expressions with matching dimensions",
                ));
            }
            Some(_) => {}
            None => inner = Some(array.dimensions.clone()),
        }
        count += 1;
        all.extend(array.values.iter().cloned());
    }
    let inner = inner.unwrap_or_default();
    if inner.len() >= DIMENSIONS_MAX {
        return Err(SqlError::new(
            SqlState::PROGRAM_LIMIT_EXCEEDED,
            format!(
                "number of array dimensions ({}) exceeds the maximum allowed ({DIMENSIONS_MAX})",
                inner.len() + 1
            ),
        ));
    }
    if inner.is_empty() {
        return Ok(Array::one_dimensional(element, Vec::new()));
    }
    let length = i32::try_from(count).map_err(|_| too_large())?;
    let mut dimensions = vec![Dimension { length, lower: 1 }];
    dimensions.extend(inner);
    Ok(Array { element, dimensions, values: all })
}

#[cold]
fn too_large() -> Box<SqlError> {
    SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "array size exceeds the maximum allowed")
}

/// `a[1]`, `a[1:2]`, `j['x']`.
#[derive(Debug)]
pub(crate) struct Subscripts {
    pub(crate) container: Expression,
    pub(crate) parts: Box<[SubscriptPart]>,
    pub(crate) is_slice: bool,
}

/// One subscript.
#[derive(Debug)]
pub(crate) struct SubscriptPart {
    pub(crate) from: Option<Expression>,
    pub(crate) to: Option<Expression>,
}

impl Subscripts {
    pub(crate) fn evaluate(&self, context: &mut Context<'_>) -> SqlResult<Datum> {
        let container = self.container.evaluate(context)?;
        match container {
            Datum::Null => Ok(Datum::Null),
            Datum::Array(array) if self.is_slice => self.slice(&array, context),
            Datum::Array(array) => self.element(&array, context),
            Datum::Jsonb(json) => self.member(&json, context),
            other => Err(SqlError::internal(format!("subscript of {other:?}"))),
        }
    }

    fn element(&self, array: &Array, context: &mut Context<'_>) -> SqlResult<Datum> {
        let mut index: usize = 0;
        let mut is_inside = self.parts.len() == array.dimensions.len();
        for (position, part) in self.parts.iter().enumerate() {
            let Some(subscript) = number(part.to.as_ref(), context)? else { return Ok(Datum::Null) };
            let Some(dimension) = array.dimensions.get(position) else { continue };
            let offset = i64::from(subscript) - i64::from(dimension.lower);
            match usize::try_from(offset) {
                Ok(offset) if offset < length(*dimension) => index = index * length(*dimension) + offset,
                _ => is_inside = false,
            }
        }
        Ok(if is_inside { array.values.get(index).cloned().unwrap_or_default() } else { Datum::Null })
    }

    fn slice(&self, array: &Array, context: &mut Context<'_>) -> SqlResult<Datum> {
        let mut bounds = Vec::with_capacity(array.dimensions.len());
        for (position, part) in self.parts.iter().enumerate() {
            // A slice of one dimension makes all of them slices: a subscript alone counts from 1.
            let from = match &part.from {
                Some(from) => number(Some(from), context)?.map(Some),
                None => Some(None),
            };
            let to = match &part.to {
                Some(to) => number(Some(to), context)?.map(Some),
                None => Some(None),
            };
            let (Some(from), Some(to)) = (from, to) else { return Ok(Datum::Null) };
            if let Some(dimension) = array.dimensions.get(position) {
                let lower = i64::from(dimension.lower);
                let upper = lower + i64::from(dimension.length) - 1;
                bounds
                    .push((from.map_or(lower, i64::from).max(lower), to.map_or(upper, i64::from).min(upper)));
            }
        }
        if self.parts.len() > array.dimensions.len() {
            return Ok(empty(array.element));
        }
        for dimension in &array.dimensions[bounds.len()..] {
            let lower = i64::from(dimension.lower);
            bounds.push((lower, lower + i64::from(dimension.length) - 1));
        }
        if bounds.is_empty() || bounds.iter().any(|(from, to)| from > to) {
            return Ok(empty(array.element));
        }
        Ok(cut(array, &bounds))
    }

    fn member(&self, json: &Arc<Jsonb>, context: &mut Context<'_>) -> SqlResult<Datum> {
        let mut keys = Vec::with_capacity(self.parts.len());
        for part in &self.parts {
            let Some(to) = &part.to else { return Ok(Datum::Null) };
            keys.push(to.evaluate(context)?);
        }
        let mut at: &Jsonb = json;
        for key in &keys {
            let found = match (at, key) {
                (Jsonb::Object(members), Datum::Text(name)) => {
                    members.iter().find(|(known, _)| known == name).map(|(_, value)| value)
                }
                (Jsonb::Array(items), Datum::Int4(index)) => json_item(items, i64::from(*index)),
                (Jsonb::Array(items), Datum::Text(index)) => {
                    index.trim().parse::<i64>().ok().and_then(|index| json_item(items, index))
                }
                (Jsonb::Object(members), Datum::Int4(index)) => {
                    let name = index.to_string();
                    members.iter().find(|(known, _)| **known == *name).map(|(_, value)| value)
                }
                _ => None,
            };
            match found {
                Some(value) => at = value,
                None => return Ok(Datum::Null),
            }
        }
        Ok(Datum::Jsonb(Arc::new(at.clone())))
    }
}

fn json_item(items: &[Jsonb], index: i64) -> Option<&Jsonb> {
    let count = i64::try_from(items.len()).ok()?;
    let index = if index < 0 { index + count } else { index };
    items.get(usize::try_from(index).ok()?)
}

fn length(dimension: Dimension) -> usize {
    usize::try_from(dimension.length).unwrap_or(0)
}

fn empty(element: Oid) -> Datum {
    Datum::Array(Arc::new(Array::one_dimensional(element, Vec::new())))
}

/// The elements between bounds, which are inside of the array's.
fn cut(array: &Array, bounds: &[(i64, i64)]) -> Datum {
    let mut values = Vec::new();
    let mut at: Vec<i64> = bounds.iter().map(|(from, _)| *from).collect();
    'all: loop {
        let index = at.iter().zip(&array.dimensions).fold(0, |index, (subscript, dimension)| {
            let offset = usize::try_from(subscript - i64::from(dimension.lower)).unwrap_or(0);
            index * length(*dimension) + offset
        });
        values.push(array.values.get(index).cloned().unwrap_or_default());
        for position in (0..at.len()).rev() {
            if at[position] < bounds[position].1 {
                at[position] += 1;
                continue 'all;
            }
            at[position] = bounds[position].0;
        }
        break;
    }
    let dimensions = bounds
        .iter()
        .map(|(from, to)| Dimension { length: i32::try_from(to - from + 1).unwrap_or(i32::MAX), lower: 1 })
        .collect();
    Datum::Array(Arc::new(Array { element: array.element, dimensions, values }))
}

pub(super) fn number(expression: Option<&Expression>, context: &mut Context<'_>) -> SqlResult<Option<i32>> {
    let Some(expression) = expression else { return Ok(None) };
    match expression.evaluate(context)? {
        Datum::Int4(value) => Ok(Some(value)),
        Datum::Int2(value) => Ok(Some(i32::from(value))),
        Datum::Null => Ok(None),
        other => Err(SqlError::internal(format!("subscript {other:?}"))),
    }
}

/// A cast of each element of an array.
#[derive(Debug)]
pub(crate) struct ConvertElements {
    pub(crate) array: Expression,
    /// The slot that an element is put into.
    pub(crate) slot: usize,
    pub(crate) converted: Expression,
    pub(crate) element: Oid,
}

impl ConvertElements {
    pub(crate) fn evaluate(&self, context: &mut Context<'_>) -> SqlResult<Datum> {
        let array = match self.array.evaluate(context)? {
            Datum::Array(array) => array,
            other => return Ok(other),
        };
        let mut values = Vec::with_capacity(array.values.len());
        for value in &array.values {
            context.row[self.slot].clone_from(value);
            values.push(self.converted.evaluate(context)?);
        }
        let dimensions = array.dimensions.clone();
        Ok(Datum::Array(Arc::new(Array { element: self.element, dimensions, values })))
    }
}
