//! Values of which a part is set.

use std::sync::Arc;

use seawall_values::datum::Jsonb;
use seawall_values::{Array, Datum, Oid, SqlError, SqlResult, SqlState, assignment};

use super::super::context::Context;
use super::{Expression, SubscriptPart};

/// `SET a[1] = x`, `SET a[1:2] = x`, `SET j['x'] = y`.
#[derive(Debug)]
pub(crate) struct Assignment {
    pub(crate) container: Expression,
    pub(crate) parts: Box<[SubscriptPart]>,
    pub(crate) is_slice: bool,
    pub(crate) value: Expression,
    /// The type of an array's elements; `None`: it is a `jsonb`.
    pub(crate) element: Option<Oid>,
}

impl Assignment {
    pub(crate) fn evaluate(&self, context: &mut Context<'_>) -> SqlResult<Datum> {
        let container = self.container.evaluate(context)?;
        match self.element {
            None => self.set_member(&container, context),
            Some(element) => {
                let array = match container {
                    Datum::Array(array) => array,
                    _ => Arc::new(Array::one_dimensional(element, Vec::new())),
                };
                self.set_part(array, context)
            }
        }
    }

    fn set_member(&self, container: &Datum, context: &mut Context<'_>) -> SqlResult<Datum> {
        let mut path = Vec::with_capacity(self.parts.len());
        for part in &self.parts {
            let step = part.to.as_ref().map(|to| to.evaluate(context)).transpose()?.unwrap_or_default();
            if step.is_null() {
                return Err(null_subscript("jsonb"));
            }
            path.push(step);
        }
        let json = match container {
            Datum::Jsonb(json) => Some(json.as_ref()),
            _ => None,
        };
        let new = match self.value.evaluate(context)? {
            Datum::Jsonb(new) => new.as_ref().clone(),
            _ => Jsonb::Null,
        };
        Ok(Datum::Jsonb(Arc::new(assignment::set_member(json, &path, new)?)))
    }

    fn set_part(&self, array: Arc<Array>, context: &mut Context<'_>) -> SqlResult<Datum> {
        let mut bounds = Vec::with_capacity(self.parts.len());
        for part in &self.parts {
            bounds.push((subscript(part.from.as_ref(), context)?, subscript(part.to.as_ref(), context)?));
        }
        let value = self.value.evaluate(context)?;
        let changed = match (self.is_slice, value) {
            (true, Datum::Array(source)) => assignment::set_slice(&array, &bounds, &source)?,
            // As in PostgreSQL: a slice that is set to null stays as it is.
            (true, _) => return Ok(Datum::Array(array)),
            (false, value) => {
                let subscripts: Vec<i32> = bounds.iter().filter_map(|(_, to)| *to).collect();
                assignment::set_element(&array, &subscripts, value)?
            }
        };
        Ok(Datum::Array(Arc::new(changed)))
    }
}

/// A subscript that is written may not be null.
fn subscript(written: Option<&Expression>, context: &mut Context<'_>) -> SqlResult<Option<i32>> {
    let Some(written) = written else { return Ok(None) };
    match super::array::number(Some(written), context)? {
        Some(number) => Ok(Some(number)),
        None => Err(null_subscript("array")),
    }
}

fn null_subscript(of: &str) -> Box<SqlError> {
    let message = format!("{of} subscript in assignment must not be null");
    SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, message)
}
