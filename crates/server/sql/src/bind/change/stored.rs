//! Expressions that a definition has as texts: defaults, checks, generated columns.

use seawall_values::{Datum, SqlError, SqlResult, TypeReference, oid};

use super::super::Binder;
use super::super::scope::{Clause, Scope, ScopeTable};
use super::{live_columns, scope_column};
use crate::algebra::{ColumnId, Demand, Expression, ExpressionKind};
use crate::schema::{ConstraintKind, Table};

impl Binder<'_> {
    /// Binds a text of the schema over columns of a table: nothing else can be named in it.
    pub(crate) fn stored_expression(
        &mut self,
        text: &str,
        table: &Table,
        columns: &[(usize, ColumnId)],
        clause: Clause,
    ) -> SqlResult<Expression> {
        let text = crate::parse::Text::new(text);
        let parsed = crate::parse::expression(&text).map_err(|error| {
            SqlError::internal(format!("an expression of table \"{}\": {error}", table.name))
        })?;
        let columns: Vec<_> = live_columns(table)
            .filter_map(|(position, column)| {
                let (_, id) = columns.iter().find(|(known, _)| *known == position)?;
                Some(scope_column(table, position, column, *id))
            })
            .collect();
        let shown = ScopeTable {
            name: table.name.clone(),
            schema: None,
            columns: columns.clone(),
            hidden: Vec::new(),
            row: None,
            table: None,
            is_scalar: false,
            is_visible: true,
        };
        let scope = Scope { columns, tables: vec![shown], clause: Some(clause), ..Scope::default() };
        let outer = std::mem::replace(&mut self.scopes, vec![scope]);
        let bound = self.for_table(|binder| binder.expression(&parsed));
        self.scopes = outer;
        // Positions in that text say nothing about the statement.
        bound.map_err(|mut error| {
            error.position = None;
            error
        })
    }

    /// What a column is without a value.
    pub(super) fn default_value(&mut self, table: &Table, position: usize) -> SqlResult<Expression> {
        let column = &table.columns[position];
        if column.identity.is_some() {
            let kind = ExpressionKind::NextValue(column.sequence);
            let next = Expression { kind, of: TypeReference::of(oid::INT8), position: None };
            return self.assigned(column, next);
        }
        let default = match &column.default {
            None => self.domain_default(column.domain)?,
            text => text.clone(),
        };
        let Some(text) = default else {
            let kind = ExpressionKind::Constant(Datum::Null);
            let null = Expression { kind, of: column.of, position: None };
            return if column.domain == 0 { Ok(null) } else { self.assigned(column, null) };
        };
        let value = self.stored_expression(&text, table, &[], Clause::Default)?;
        self.assigned(column, value)
    }

    /// The values of generated columns, for a row with these columns.
    pub(super) fn generated_values(
        &mut self,
        table: &Table,
        row: &[(usize, ColumnId)],
    ) -> SqlResult<Vec<(usize, Expression)>> {
        let mut values = Vec::new();
        for (position, column) in live_columns(table) {
            if let Some(text) = &column.generated {
                let value = self.stored_expression(text, table, row, Clause::Generated)?;
                values.push((position, self.assigned(column, value)?));
            }
        }
        Ok(values)
    }

    /// The conditions that the table demands of a row with these columns, in the order in which PostgreSQL looks at them: by name.
    pub(super) fn checks(
        &mut self,
        table: &Table,
        row: &[(usize, ColumnId)],
    ) -> SqlResult<Vec<(Demand, Expression)>> {
        let mut checks: Vec<(&String, Expression)> = Vec::new();
        for constraint in &table.constraints {
            if let ConstraintKind::Check(text) = &constraint.kind {
                let value = self.stored_expression(text, table, row, Clause::Check)?;
                checks.push((&constraint.name, self.coerce_to_boolean(value, "CHECK")?));
            }
        }
        checks.sort_by(|left, right| left.0.cmp(right.0));
        Ok(checks.into_iter().map(|(name, check)| (Demand::Constraint(name.clone()), check)).collect())
    }
}
