//! Names in expressions: columns, whole rows, and words that are values.

use seawall_values::{SqlError, SqlResult, SqlState, TypeReference, oid};
use sqlparser::ast::{Ident, ObjectName};

use super::super::Binder;
use super::super::scope::ScopeTable;
use super::identifier::{folded, qualified};
use crate::algebra::{Expression, ExpressionKind};

impl Binder<'_> {
    pub(super) fn identifier(&mut self, ident: &Ident, position: Option<u32>) -> SqlResult<Expression> {
        let name = folded(ident);
        if let Some(found) = self.named_column(&name, position)? {
            return Ok(Expression { kind: ExpressionKind::Column(found.id), of: found.of, position });
        }
        // A table's name is its row as a value.
        if let Some(table) = self.named_table(None, &name, position)? {
            return Ok(self.whole_row(&table, position));
        }
        if ident.quote_style.is_none()
            && let Some(value) = self.keyword_value(&name, position)?
        {
            return Ok(value);
        }
        Err(self.missing_column(None, &name, position))
    }

    /// Words that are values, where sqlparser takes them for names.
    fn keyword_value(&mut self, name: &str, position: Option<u32>) -> SqlResult<Option<Expression>> {
        Ok(match name {
            "default" => Some(Expression {
                kind: ExpressionKind::Default,
                of: TypeReference::of(oid::UNKNOWN),
                position,
            }),
            "current_user" | "session_user" | "user" | "current_role" | "current_catalog"
            | "current_schema" | "current_date" | "current_time" | "current_timestamp" | "localtime"
            | "localtimestamp" => Some(self.value_function(name, None, position)?),
            _ => None,
        })
    }

    pub(in crate::bind) fn whole_row(&mut self, table: &ScopeTable, position: Option<u32>) -> Expression {
        if table.is_scalar
            && let [only] = table.columns.as_slice()
        {
            return Expression { kind: ExpressionKind::Column(only.id), of: only.of, position };
        }
        self.note_all_named(&table.columns);
        let ids = table.columns.iter().map(|column| column.id).collect();
        let names = table.columns.iter().map(|column| column.name.as_str().into()).collect();
        let of = match &table.table {
            Some(table) => crate::catalog::numbers::row_type(table.oid),
            None => oid::RECORD,
        };
        Expression { kind: ExpressionKind::WholeRow(ids, names), of: TypeReference::of(of), position }
    }

    /// `table.*` where a value is expected: the row as one.
    pub(super) fn row_of_table(&mut self, name: &ObjectName, position: Option<u32>) -> SqlResult<Expression> {
        let (schema, name) = qualified(name);
        let table = self.named_table(schema.as_deref(), &name, position)?;
        let table = table.ok_or_else(|| self.missing_table(&name, position))?;
        Ok(self.whole_row(&table, position))
    }

    pub(super) fn compound(&mut self, parts: &[Ident], position: Option<u32>) -> SqlResult<Expression> {
        let names: Vec<String> = parts.iter().map(folded).collect();
        let (schema, table, name) = match names.as_slice() {
            [table, name] => (None, table, name),
            [schema, table, name] => (Some(schema.as_str()), table, name),
            [_, schema, table, name] => (Some(schema.as_str()), table, name),
            _ => {
                return Err(SqlError::new(
                    SqlState::SYNTAX_ERROR,
                    "improper qualified name (too many dotted names)",
                )
                .at(position));
            }
        };
        let Some(found) = self.named_table(schema, table, position)? else {
            // `column.field` of a composite column.
            if schema.is_none()
                && let Some(value) = self.named_column(table, position)?
            {
                let value = Expression { kind: ExpressionKind::Column(value.id), of: value.of, position };
                return self.field(value, name, position);
            }
            return Err(self.missing_table(table, position));
        };
        let mut columns = found.columns.iter().chain(&found.hidden).filter(|column| column.name == *name);
        match (columns.next(), columns.next()) {
            (Some(found), None) => {
                self.note_named(found);
                Ok(Expression { kind: ExpressionKind::Column(found.id), of: found.of, position })
            }
            (Some(_), Some(_)) => {
                let message = format!("column reference \"{name}\" is ambiguous");
                Err(SqlError::new(SqlState::AMBIGUOUS_COLUMN, message).at(position))
            }
            (None, _) => Err(self.missing_column(Some(table), name, position)),
        }
    }
}
