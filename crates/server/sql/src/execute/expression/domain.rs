//! Values of domains.

use seawall_values::{Datum, SqlError, SqlResult, SqlState};

use super::super::context::Context;
use super::Expression;

/// A value that is to meet the conditions of a domain.
#[derive(Debug)]
pub(crate) struct DomainCheck {
    pub(crate) value: Expression,
    /// The slot that the value is put into for the conditions.
    pub(crate) slot: usize,
    /// The name of the domain.
    pub(crate) name: String,
    pub(crate) is_not_null: bool,
    pub(crate) checks: Vec<(String, Expression)>,
}

impl DomainCheck {
    pub(crate) fn evaluate(&self, context: &mut Context<'_>) -> SqlResult<Datum> {
        let value = self.value.evaluate(context)?;
        if self.is_not_null && value.is_null() {
            let message = format!("domain {} does not allow null values", self.name);
            return Err(SqlError::new(SqlState::NOT_NULL_VIOLATION, message));
        }
        for (name, condition) in &self.checks {
            context.row[self.slot].clone_from(&value);
            if matches!(condition.evaluate(context)?, Datum::Bool(false)) {
                let message = format!("value for domain {} violates check constraint \"{name}\"", self.name);
                return Err(SqlError::new(SqlState::CHECK_VIOLATION, message));
            }
        }
        Ok(value)
    }
}
