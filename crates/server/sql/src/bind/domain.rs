//! Domains: a value of a domain is one of another type that has been looked at.
//!
//! Expressions have the type below the domain, so operators and functions are found as PostgreSQL finds them. Where a value is given to a
//! domain, by a cast or to a column, its conditions are put around it.

use seawall_values::system::CastContext;
use seawall_values::user_types::{VALUE, is_domain};
use seawall_values::{Oid, SqlError, SqlResult, TypeReference};

use super::Binder;
use super::scope::{Clause, Scope, ScopeColumn};
use crate::algebra::{DomainCheck, Expression, ExpressionKind, Written};

impl Binder<'_> {
    /// The type that values have: that below a domain.
    pub(crate) fn base_of(&self, of: TypeReference) -> SqlResult<TypeReference> {
        if is_domain(of.oid) { Ok(self.settings.types.domain(of.oid)?.base) } else { Ok(of) }
    }

    /// Converts to the type below the domain, and demands what the domain does.
    pub(super) fn coerce_to_domain(
        &mut self,
        expression: Expression,
        domain: Oid,
        context: CastContext,
        written: Written,
    ) -> SqlResult<Option<Expression>> {
        let base = self.settings.types.domain(domain)?.base;
        match self.coerce_to(expression, base, context, written)? {
            Some(value) => self.deeper(|binder| binder.checked(value, domain, domain)).map(Some),
            None => Ok(None),
        }
    }

    /// A value that meets the conditions of a domain, those of the domain that it was made of first. Messages name the domain `shown`.
    pub(super) fn checked(&mut self, value: Expression, domain: Oid, shown: Oid) -> SqlResult<Expression> {
        let types = std::sync::Arc::clone(&self.settings.types);
        let rules = types.domain(domain)?;
        let value = match rules.parent {
            0 => value,
            parent => self.deeper(|binder| binder.checked(value, parent, shown))?,
        };
        let (of, position) = (value.of, value.position);
        let id = self.new_column();
        let mut checks = Vec::with_capacity(rules.checks.len());
        for (name, condition) in &rules.checks {
            checks.push((name.clone(), self.domain_condition(condition, id, rules.base)?));
        }
        let check = DomainCheck {
            value,
            domain,
            name: types.domain(shown)?.name.clone(),
            is_not_null: rules.is_not_null,
            column: id,
            checks,
        };
        Ok(Expression { kind: ExpressionKind::CheckDomain(Box::new(check)), of, position })
    }

    fn domain_condition(
        &mut self,
        text: &str,
        id: crate::algebra::ColumnId,
        base: TypeReference,
    ) -> SqlResult<Expression> {
        let parsed = crate::parse::expression(&crate::parse::Text::new(text))
            .map_err(|error| SqlError::internal(format!("a condition of a domain: {error}")))?;
        let value = ScopeColumn { name: VALUE.to_owned(), id, of: base, origin: (0, 0) };
        let scope = Scope { columns: vec![value], clause: Some(Clause::Check), ..Scope::default() };
        let outer = std::mem::replace(&mut self.scopes, vec![scope]);
        let bound = self.expression(&parsed).and_then(|value| self.coerce_to_boolean(value, "CHECK"));
        self.scopes = outer;
        bound.map_err(|mut error| {
            error.position = None;
            error
        })
    }

    /// The default of a domain.
    pub(crate) fn domain_default(&self, domain: Oid) -> SqlResult<Option<String>> {
        match domain {
            0 => Ok(None),
            domain => Ok(self.settings.types.domain(domain)?.default.clone()),
        }
    }
}
