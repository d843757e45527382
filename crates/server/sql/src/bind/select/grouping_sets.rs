//! `GROUP BY`: its values, and the sets that `ROLLUP`, `CUBE` and `GROUPING SETS` stand for.

use seawall_values::{SqlError, SqlResult, SqlState};
use sqlparser::ast::{Expr, GroupByExpr, GroupByWithModifier};

use super::super::Binder;
use super::super::expression::folded;
use super::super::order_of_types::{can_be_grouped, no_equality};
use super::super::same::is_same;
use super::super::scope::Clause;
use super::items::Item;
use super::order::position_in_list;
use crate::algebra::walk::visit;
use crate::algebra::{ColumnId, Expression, ExpressionKind};

impl Binder<'_> {
    /// `GROUP BY`; `None` if there is none.
    pub(super) fn group_by(&mut self, clause: &GroupByExpr, items: &[Item]) -> SqlResult<Option<Groups>> {
        let GroupByExpr::Expressions(list, modifiers) = clause else {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "syntax error at or near \"ALL\""));
        };
        if list.is_empty() && modifiers.is_empty() {
            return Ok(None);
        }
        self.in_clause(Clause::GroupBy, |binder| {
            let mut groups = binder.groups(list, items)?;
            for modifier in modifiers {
                let GroupByWithModifier::GroupingSets(sets) = modifier else {
                    return Err(SqlError::new(SqlState::SYNTAX_ERROR, "syntax error at or near \"WITH\""));
                };
                binder.group_item(sets, items, &mut groups)?;
            }
            groups.leave_out_repeated();
            Ok(Some(groups))
        })
    }

    fn groups(&mut self, list: &[Expr], items: &[Item]) -> SqlResult<Groups> {
        let mut groups = Groups::default();
        let list = match list {
            [first, rest @ ..] if crate::parse::is_distinct_mark(first) => {
                groups.is_distinct = true;
                rest
            }
            list => list,
        };
        for expr in list {
            self.group_item(expr, items, &mut groups)?;
        }
        Ok(groups)
    }

    fn group_item(&mut self, expr: &Expr, items: &[Item], groups: &mut Groups) -> SqlResult<()> {
        let sets = self.grouping_sets(expr, items, groups)?;
        groups.multiply(sets);
        Ok(())
    }

    /// The sets that one item of `GROUP BY` stands for.
    fn grouping_sets(
        &mut self,
        expr: &Expr,
        items: &[Item],
        groups: &mut Groups,
    ) -> SqlResult<Vec<Vec<usize>>> {
        let all = |binder: &mut Self, list: &[Expr], groups: &mut Groups| -> SqlResult<Vec<usize>> {
            let flat = list.iter().flat_map(|expr| match expr {
                Expr::Tuple(inner) => inner.as_slice(),
                single => std::slice::from_ref(single),
            });
            flat.map(|expr| binder.group_value(expr, items, groups)).collect()
        };
        match expr {
            Expr::GroupingSets(sets) => {
                groups.has_sets = true;
                let mut found = Vec::new();
                for set in sets {
                    match set.as_slice() {
                        [single] => match inner_sets(single) {
                            Some(inner) => found.extend(self.grouping_sets(&inner, items, groups)?),
                            None => found.push(all(self, set, groups)?),
                        },
                        set => found.push(all(self, set, groups)?),
                    }
                }
                Ok(found)
            }
            Expr::Rollup(parts) => {
                groups.has_sets = true;
                let parts: Vec<Vec<usize>> =
                    parts.iter().map(|part| all(self, part, groups)).collect::<SqlResult<_>>()?;
                Ok((0..=parts.len()).rev().map(|count| parts[..count].concat()).collect())
            }
            Expr::Cube(parts) => {
                groups.has_sets = true;
                if parts.len() > 12 {
                    return Err(SqlError::new(SqlState::TOO_MANY_COLUMNS, "CUBE is limited to 12 elements"));
                }
                let parts: Vec<Vec<usize>> =
                    parts.iter().map(|part| all(self, part, groups)).collect::<SqlResult<_>>()?;
                let sets = (0..1_usize << parts.len()).rev().map(|mask| {
                    let chosen =
                        parts.iter().enumerate().filter(|(bit, _)| mask >> (parts.len() - 1 - bit) & 1 == 1);
                    chosen.flat_map(|(_, part)| part.iter().copied()).collect()
                });
                Ok(sets.collect())
            }
            Expr::Tuple(list) if list.is_empty() => Ok(vec![Vec::new()]),
            Expr::Tuple(list) => Ok(vec![all(self, list, groups)?]),
            expr => Ok(vec![vec![self.group_value(expr, items, groups)?]]),
        }
    }

    /// One value to group by: a position, a name of a column or of a result, or an expression.
    fn group_value(&mut self, expr: &Expr, items: &[Item], groups: &mut Groups) -> SqlResult<usize> {
        let position = self.position(expr);
        let value = match expr {
            Expr::Identifier(ident) => {
                let name = folded(ident);
                let is_column = self.scope().columns.iter().any(|column| column.name == name);
                let mut named = items.iter().filter(|item| item.name == name);
                match (is_column, named.next()) {
                    (false, Some(item)) => {
                        if named.any(|other| !is_same(&other.value, &item.value)) {
                            let message = format!("GROUP BY \"{name}\" is ambiguous");
                            return Err(SqlError::new(SqlState::AMBIGUOUS_COLUMN, message).at(position));
                        }
                        item.value.clone()
                    }
                    _ => self.expression(expr)?,
                }
            }
            Expr::Value(value) => match position_in_list(&value.value, items.len(), "GROUP BY", position)? {
                Some(index) => items[index].value.clone(),
                None => self.expression(expr)?,
            },
            expr => self.expression(expr)?,
        };
        let value = self.known(value)?;
        let mut has_aggregate = false;
        let aggregates: Vec<ColumnId> = {
            let scope = self.scope();
            scope
                .aggregates
                .iter()
                .map(|(id, _)| *id)
                .chain(scope.windows.iter().map(|(id, _)| *id))
                .collect()
        };
        visit(&value, &mut |inner| {
            has_aggregate |= matches!(inner.kind, ExpressionKind::Column(id) if aggregates.contains(&id))
        });
        if has_aggregate {
            let message = "aggregate functions are not allowed in GROUP BY";
            return Err(SqlError::new(SqlState::GROUPING_ERROR, message).at(value.position));
        }
        if !can_be_grouped(value.of.oid) {
            return Err(no_equality(value.of.oid).at(position));
        }
        if let Some(index) = groups.values.iter().position(|known| is_same(known, &value)) {
            return Ok(index);
        }
        groups.values.push(value);
        Ok(groups.values.len() - 1)
    }
}

/// What `GROUP BY` says.
#[derive(Debug, Default)]
pub(super) struct Groups {
    pub(super) values: Vec<Expression>,
    pub(super) sets: Vec<Vec<usize>>,
    pub(super) has_sets: bool,
    /// `GROUP BY DISTINCT`.
    pub(super) is_distinct: bool,
}

/// `ROLLUP` and `CUBE` inside of `GROUPING SETS` are functions for sqlparser.
fn inner_sets(expr: &Expr) -> Option<Expr> {
    use sqlparser::ast::{FunctionArg, FunctionArgExpr, FunctionArguments};
    let call = match expr {
        Expr::GroupingSets(_) | Expr::Rollup(_) | Expr::Cube(_) => return Some(expr.clone()),
        Expr::Function(call) => call,
        _ => return None,
    };
    let FunctionArguments::List(list) = &call.args else { return None };
    let mut parts = Vec::with_capacity(list.args.len());
    for argument in &list.args {
        let FunctionArg::Unnamed(FunctionArgExpr::Expr(part)) = argument else { return None };
        parts.push(match part {
            Expr::Tuple(list) => list.clone(),
            single => vec![single.clone()],
        });
    }
    match super::super::expression::name_parts(&call.name).as_slice() {
        [name] if name == "rollup" => Some(Expr::Rollup(parts)),
        [name] if name == "cube" => Some(Expr::Cube(parts)),
        _ => None,
    }
}

impl Groups {
    /// `DISTINCT`: of sets with the same members one is left.
    fn leave_out_repeated(&mut self) {
        if !self.is_distinct {
            return;
        }
        let mut known: Vec<Vec<usize>> = Vec::with_capacity(self.sets.len());
        self.sets.retain(|set| {
            let mut members = set.clone();
            members.sort_unstable();
            members.dedup();
            let is_new = !known.contains(&members);
            if is_new {
                known.push(members);
            }
            is_new
        });
    }

    /// Items of `GROUP BY` beside each other: each set of one with each of the other.
    fn multiply(&mut self, sets: Vec<Vec<usize>>) {
        if self.sets.is_empty() {
            self.sets = sets;
            return;
        }
        let product =
            self.sets.iter().flat_map(|left| sets.iter().map(move |right| [left.as_slice(), right].concat()));
        self.sets = product.collect();
    }
}
