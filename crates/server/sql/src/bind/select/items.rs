//! The list of results: its items, and what `*` stands for.

use seawall_values::{Oid, SqlError, SqlResult, SqlState, TypeReference};
use sqlparser::ast::{AccessExpr, Expr, SelectItem, SelectItemQualifiedWildcardKind, Spanned};
use sqlparser::tokenizer::Location;

use super::super::Binder;
use super::super::expression::{folded, qualified};
use super::super::scope::{Clause, ScopeColumn};
use super::super::types::type_name;
use super::result_name::column_name;
use crate::algebra::{Expression, ExpressionKind, OutputColumn};
use crate::catalog::names::quoted;

/// A result with its name.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) value: Expression,
    pub(super) name: String,
    pub(super) origin: (Oid, i16),
}

impl Binder<'_> {
    pub(super) fn items(&mut self, projection: &[SelectItem]) -> SqlResult<Vec<Item>> {
        let mut items = Vec::with_capacity(projection.len());
        for item in projection {
            match item {
                SelectItem::UnnamedExpr(expr) if crate::parse::is_nothing_mark(expr) => {}
                SelectItem::UnnamedExpr(expr) => {
                    if let Some(expanded) = self.expanded(expr)? {
                        items.extend(expanded);
                        continue;
                    }
                    let value = self.expression(expr)?;
                    items.push(self.item(value, column_name(expr).unwrap_or_else(|| "?column?".to_owned())));
                }
                SelectItem::ExprWithAlias { expr, alias } => {
                    let value = self.expression(expr)?;
                    items.push(self.item(value, folded(alias)));
                }
                SelectItem::Wildcard(options) => {
                    let columns = self.scope().columns.clone();
                    let star = options.wildcard_token.0.span.start;
                    self.note_star(star, star, &columns);
                    if self.scope().tables.is_empty() {
                        let message = "SELECT * with no tables specified is not valid";
                        return Err(SqlError::new(SqlState::SYNTAX_ERROR, message).at(self.position(item)));
                    }
                    self.note_all_named(&columns);
                    items.extend(columns.into_iter().map(of_column));
                }
                SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options) => {
                    let position = self.position(item);
                    let (schema, plain) = qualified(name);
                    if let Some(table) = self.named_table(schema.as_deref(), &plain, position)? {
                        let (start, star) = (name.span().start, options.wildcard_token.0.span.start);
                        self.note_star(start, star, &table.columns);
                        self.note_all_named(&table.columns);
                        items.extend(table.columns.into_iter().map(of_column));
                        continue;
                    }
                    let Some(column) = self.named_column(&plain, position)?.filter(|_| schema.is_none())
                    else {
                        return Err(self.missing_table(&plain, position));
                    };
                    let value =
                        Expression { kind: ExpressionKind::Column(column.id), of: column.of, position };
                    items.extend(self.fields(value)?);
                }
                SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::Expr(expr), _) => {
                    let value = self.expression(expr)?;
                    items.extend(self.fields(value)?);
                }
                SelectItem::ExprWithAliases { .. } => {
                    return Err(SqlError::new(SqlState::SYNTAX_ERROR, "syntax error at or near \"(\""));
                }
            }
        }
        Ok(items)
    }

    /// Notes what a `*` stands for, from where its table is named to the star itself.
    fn note_star(&mut self, start: Location, star: Location, columns: &[ScopeColumn]) {
        if self.replaced.is_none() || self.search_path.is_some() || columns.is_empty() {
            return;
        }
        let (Some(start), Some(star)) = (self.text.position(start), self.text.position(star)) else { return };
        let names: Vec<String> = columns.iter().map(|column| self.written_name(column)).collect();
        self.keep(start, star - start + 1, names.join(", "));
    }

    /// A column with its table, unless two tables share it.
    fn written_name(&self, column: &ScopeColumn) -> String {
        let tables = self.scopes.last().map_or(&[][..], |scope| &scope.tables);
        let mut owners = tables.iter().filter(|table| {
            table.is_visible && !table.name.is_empty() && table.columns.iter().any(|own| own.id == column.id)
        });
        let name = quoted(&column.name);
        match (owners.next(), owners.next()) {
            (Some(owner), None) => format!("{}.{name}", quoted(&owner.name)),
            _ => name,
        }
    }

    /// `(f(x)).*` in parentheses.
    fn expanded(&mut self, expr: &Expr) -> SqlResult<Option<Vec<Item>>> {
        let Expr::CompoundFieldAccess { root, access_chain } = expr else { return Ok(None) };
        let Some((AccessExpr::Dot(Expr::Identifier(last)), chain)) = access_chain.split_last() else {
            return Ok(None);
        };
        if !crate::parse::is_all_fields_mark(last) {
            return Ok(None);
        }
        let position = self.position(expr);
        let value = self.access(root, chain, position)?;
        self.fields(value).map(Some)
    }

    fn fields(&mut self, value: Expression) -> SqlResult<Vec<Item>> {
        let fields = self.fields_of(&value)?;
        if fields.is_empty() {
            let message = format!("type {} is not composite", type_name(value.of.oid));
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message).at(value.position));
        }
        let item = |(index, (name, of)): (usize, (String, TypeReference))| Item {
            value: Expression {
                kind: ExpressionKind::Field(Box::new(value.clone()), index),
                of,
                position: value.position,
            },
            name,
            origin: (0, 0),
        };
        Ok(fields.into_iter().enumerate().map(item).collect())
    }

    fn item(&mut self, value: Expression, name: String) -> Item {
        let origin = match value.kind {
            ExpressionKind::Column(id) => self
                .scopes
                .iter()
                .flat_map(|scope| &scope.columns)
                .chain(
                    self.scopes.iter().flat_map(|scope| scope.tables.iter().flat_map(|table| &table.columns)),
                )
                .find(|column| column.id == id)
                .map_or((0, 0), |column| column.origin),
            _ => (0, 0),
        };
        Item { value, name, origin }
    }

    /// The values of a list of results over the innermost scope.
    pub(in crate::bind) fn values_of_items(
        &mut self,
        projection: &[SelectItem],
    ) -> SqlResult<Vec<Expression>> {
        Ok(self.items(projection)?.into_iter().map(|item| item.value).collect())
    }

    /// `RETURNING`, as a list of results over the innermost scope.
    pub(in crate::bind) fn returning(
        &mut self,
        list: &[SelectItem],
    ) -> SqlResult<Vec<(OutputColumn, Expression)>> {
        let items = self.in_clause(Clause::Returning, |binder| binder.items(list))?;
        let mut returned = Vec::with_capacity(items.len());
        for item in items {
            let value = self.known(item.value)?;
            let column = self.new_column();
            let output = OutputColumn { column, name: item.name, of: value.of, origin: item.origin };
            returned.push((output, value));
        }
        Ok(returned)
    }
}

fn of_column(column: ScopeColumn) -> Item {
    Item {
        value: Expression { kind: ExpressionKind::Column(column.id), of: column.of, position: None },
        name: column.name,
        origin: column.origin,
    }
}
