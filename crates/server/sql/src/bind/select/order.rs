//! `ORDER BY` and `DISTINCT`: keys, and which types have an order or an equality.

use seawall_values::{SqlError, SqlResult, SqlState, TypeReference};
use sqlparser::ast::{Expr, OrderBy, OrderByExpr, OrderByKind, Value};

use super::super::Binder;
use super::super::expression::folded;
use super::super::order_of_types::{can_be_grouped, no_equality};
use super::super::row_locks::locks_not_allowed;
use super::super::same::{is_same, is_same_call};
use super::Around;
use super::items::Item;
use crate::algebra::{ColumnId, Expression, ExpressionKind, OutputColumn, Relation, SortKey, walk};

/// `ORDER BY` as a list.
pub(super) fn order_list(order: Option<&OrderBy>) -> SqlResult<&[OrderByExpr]> {
    match order.map(|order| &order.kind) {
        None => Ok(&[]),
        Some(OrderByKind::Expressions(list)) => Ok(list),
        Some(OrderByKind::All(_)) => {
            Err(SqlError::new(SqlState::SYNTAX_ERROR, "syntax error at or near \"ALL\""))
        }
    }
}

impl Binder<'_> {
    /// Each key as an item of the list of results; what is not there yet is added after what is shown.
    pub(super) fn order_items<'q>(
        &mut self,
        order: &'q [OrderByExpr],
        items: &mut Vec<Item>,
    ) -> SqlResult<Vec<(usize, &'q OrderByExpr)>> {
        let shown = items.len();
        let mut keys = Vec::with_capacity(order.len());
        for written in order {
            let index = self.list_item(&written.expr, items, shown, "ORDER BY")?;
            keys.push((index, written));
        }
        Ok(keys)
    }

    /// A name of a result, a position, or an expression over the tables.
    pub(super) fn list_item(
        &mut self,
        expr: &Expr,
        items: &mut Vec<Item>,
        shown: usize,
        clause: &str,
    ) -> SqlResult<usize> {
        let position = self.position(expr);
        if let Expr::Identifier(ident) = expr {
            let name = folded(ident);
            let mut named = items[..shown].iter().enumerate().filter(|(_, item)| item.name == name);
            if let Some((index, first)) = named.next() {
                if named.any(|(_, other)| !is_same(&other.value, &first.value)) {
                    let message = format!("{clause} \"{name}\" is ambiguous");
                    return Err(SqlError::new(SqlState::AMBIGUOUS_COLUMN, message).at(position));
                }
                return Ok(index);
            }
        }
        if let Expr::Value(value) = expr
            && let Some(index) = position_in_list(&value.value, shown, clause, position)?
        {
            return Ok(index);
        }
        let sets = self.scope().sets.len();
        let mut value = self.expression(expr)?;
        self.merge_sets(sets, &mut value);
        let value = self.known(value)?;
        if let Some(index) = items.iter().position(|item| is_same(&item.value, &value)) {
            return Ok(index);
        }
        items.push(Item { value, name: "?column?".to_owned(), origin: (0, 0) });
        Ok(items.len() - 1)
    }

    /// A set-returning function of the value that is there already, before this place, is that one.
    fn merge_sets(&mut self, first: usize, value: &mut Expression) {
        let sets = &mut self.scope().sets;
        let mut at = first;
        while let Some((_, call)) = sets.get(at) {
            let same = sets[..at].iter().find(|(_, earlier)| is_same_call(earlier, call)).map(|(id, _)| *id);
            let Some(same) = same else {
                at += 1;
                continue;
            };
            let (gone, _) = sets.remove(at);
            rename(value, gone, same);
            let arguments = sets[at..].iter_mut().flat_map(|(_, call)| &mut call.arguments);
            arguments.for_each(|argument| rename(argument, gone, same));
        }
    }

    /// Order and limits around rows whose columns alone can be named: of `VALUES` and set operations.
    pub(in crate::bind) fn around_rows(
        &mut self,
        relation: Relation,
        output: Vec<OutputColumn>,
        around: Around<'_>,
    ) -> SqlResult<(Relation, Vec<OutputColumn>)> {
        if !around.locks.is_empty() {
            return Err(locks_not_allowed(around.locks, "UNION/INTERSECT/EXCEPT"));
        }
        let mut keys = Vec::with_capacity(around.order.len());
        for written in around.order {
            let position = self.position(&written.expr);
            let (id, of) = self.output_key(&written.expr, &output, position)?;
            keys.push(self.sort_key(id, of, written, position)?);
        }
        let relation = sorted(relation, keys.clone());
        let relation = self.in_scope(|binder| binder.limited(relation, around, keys))?;
        Ok((relation, output))
    }

    fn output_key(
        &mut self,
        expr: &Expr,
        output: &[OutputColumn],
        position: Option<u32>,
    ) -> SqlResult<(ColumnId, TypeReference)> {
        if let Expr::Value(value) = expr
            && let Some(index) = position_in_list(&value.value, output.len(), "ORDER BY", position)?
        {
            return Ok((output[index].column, output[index].of));
        }
        if let Expr::Identifier(ident) = expr {
            let name = folded(ident);
            let mut named = output.iter().filter(|column| column.name == name);
            match (named.next(), named.next()) {
                (Some(column), None) => return Ok((column.column, column.of)),
                (Some(_), Some(_)) => {
                    let message = format!("ORDER BY \"{name}\" is ambiguous");
                    return Err(SqlError::new(SqlState::AMBIGUOUS_COLUMN, message).at(position));
                }
                (None, _) => return Err(self.missing_column(None, &name, position)),
            }
        }
        Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, "invalid UNION/INTERSECT/EXCEPT ORDER BY clause")
            .with_detail("Only result column names can be used, not expressions or functions.")
            .with_hint("Add the expression/function to every SELECT, or move the UNION into a FROM clause.")
            .at(position))
    }
}

/// Puts one column in the place of another.
fn rename(value: &mut Expression, from: ColumnId, to: ColumnId) {
    match &mut value.kind {
        ExpressionKind::Column(id) if *id == from => *id = to,
        _ => walk::operands_mut(value, &mut |operand| rename(operand, from, to)),
    }
}

pub(super) fn sorted(input: Relation, keys: Vec<SortKey>) -> Relation {
    if keys.is_empty() { input } else { Relation::Sort { input: Box::new(input), keys } }
}

pub(super) fn check_equality(on: &[(ColumnId, TypeReference)]) -> SqlResult<()> {
    match on.iter().find(|(_, of)| !can_be_grouped(of.oid)) {
        Some((_, of)) => Err(no_equality(of.oid)),
        None => Ok(()),
    }
}

/// `ORDER BY 2`.
pub(super) fn position_in_list(
    value: &Value,
    count: usize,
    clause: &str,
    at: Option<u32>,
) -> SqlResult<Option<usize>> {
    match value {
        Value::Number(text, _) => match text.parse::<i64>() {
            Ok(number) => match usize::try_from(number - 1) {
                Ok(index) if index < count => Ok(Some(index)),
                _ => {
                    let message = format!("{clause} position {number} is not in select list");
                    Err(SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message).at(at))
                }
            },
            Err(_) => {
                Err(SqlError::new(SqlState::SYNTAX_ERROR, format!("non-integer constant in {clause}")).at(at))
            }
        },
        Value::Placeholder(_) => Ok(None),
        _ => Err(SqlError::new(SqlState::SYNTAX_ERROR, format!("non-integer constant in {clause}")).at(at)),
    }
}
