//! The aggregation of a query, and the rule that what stands above it is grouped by or aggregated.

use seawall_values::{SqlError, SqlResult, SqlState, TypeReference};

use super::super::Binder;
use super::super::same::is_same;
use super::super::scope::ScopeColumn;
use super::grouping_sets::Groups;
use super::items::Item;
use crate::algebra::walk::{operands_mut, visit, visit_relation};
use crate::algebra::{ColumnId, Expression, ExpressionKind, Relation, SubqueryKind};

impl Binder<'_> {
    /// The aggregation, with the list of results over its columns.
    pub(super) fn grouped(
        &mut self,
        input: Relation,
        groups: Groups,
        items: &mut [Item],
        having: &mut Option<Expression>,
    ) -> SqlResult<Relation> {
        let mut below = std::mem::take(&mut self.scope().aggregate_inputs);
        let mut sets_below = Vec::new();
        let mut keys: Vec<(ColumnId, TypeReference, Expression)> = Vec::new();
        for value in groups.values {
            // A set-returning function that is grouped by is computed before.
            if let ExpressionKind::Column(id) = value.kind {
                let scope = self.scope();
                if let Some(index) = scope.sets.iter().position(|(set, _)| *set == id) {
                    sets_below.push(scope.sets.remove(index));
                }
            }
            let (id, of) = self.as_column(value.clone(), &mut below);
            keys.push((id, of, value));
        }
        let grouping = std::mem::take(&mut self.scope().groupings);
        let mut checked_grouping = Vec::with_capacity(grouping.len());
        for (id, arguments) in grouping {
            let mut positions = Vec::with_capacity(arguments.len());
            for argument in arguments {
                let found = keys.iter().position(|(_, _, key)| is_same(key, &argument));
                positions.push(found.ok_or_else(|| {
                    let message =
                        "arguments to GROUPING must be grouping expressions of the associated query level";
                    SqlError::new(SqlState::GROUPING_ERROR, message).at(argument.position)
                })?);
            }
            checked_grouping.push((id, positions));
        }
        let aggregates = std::mem::take(&mut self.scope().aggregates);
        let above: Vec<ColumnId> =
            aggregates.iter().map(|(id, _)| *id).chain(checked_grouping.iter().map(|(id, _)| *id)).collect();
        let dependent = self.dependent_columns(&keys);
        let mut used_dependent: Vec<(ColumnId, TypeReference)> = Vec::new();
        {
            let scope = self.scope();
            let computed: Vec<ColumnId> = scope
                .sets
                .iter()
                .map(|(id, _)| *id)
                .chain(scope.windows.iter().map(|(id, _)| *id))
                .chain(scope.window_inputs.iter().map(|(id, _)| *id))
                .collect();
            let mut allowed = above;
            allowed.extend(computed);
            let check = Grouped { keys: &keys, allowed: &allowed, dependent: &dependent };
            let mut windows = std::mem::take(&mut self.scope().windows);
            let mut window_inputs = std::mem::take(&mut self.scope().window_inputs);
            let mut sets = std::mem::take(&mut self.scope().sets);
            for item in items.iter_mut() {
                if groups.has_sets {
                    check.rewrite_constant(&mut item.value);
                }
                check.rewrite(&mut item.value);
                self.check_grouped(&check, &item.value, &mut used_dependent)?;
            }
            for value in having.iter_mut().chain(window_inputs.iter_mut().map(|(_, value)| value)) {
                check.rewrite(value);
                self.check_grouped(&check, value, &mut used_dependent)?;
            }
            for (_, window) in &mut windows {
                for value in window.call.arguments.iter_mut().chain(&mut window.call.filter) {
                    check.rewrite(value);
                    self.check_grouped(&check, value, &mut used_dependent)?;
                }
            }
            for (_, call) in &mut sets {
                for value in &mut call.arguments {
                    check.rewrite(value);
                    self.check_grouped(&check, value, &mut used_dependent)?;
                }
            }
            let scope = self.scope();
            scope.windows = windows;
            scope.window_inputs = window_inputs;
            scope.sets = sets;
        }
        let mut input = input;
        if !sets_below.is_empty() {
            input = Relation::ComputeSets { input: Box::new(input), sets: sets_below };
        }
        if !below.is_empty() {
            input = Relation::Compute { input: Box::new(input), values: below };
        }
        let mut group_columns: Vec<(ColumnId, TypeReference)> =
            keys.iter().map(|(id, of, _)| (*id, *of)).collect();
        let mut sets = if groups.has_sets { groups.sets } else { Vec::new() };
        for column in used_dependent {
            if !group_columns.iter().any(|(id, _)| *id == column.0) {
                // What depends on the whole key is in each set that has the key.
                let index = group_columns.len();
                group_columns.push(column);
                sets.iter_mut().for_each(|set| set.push(index));
            }
        }
        Ok(Relation::Aggregate {
            input: Box::new(input),
            groups: group_columns,
            sets,
            grouping: checked_grouping,
            aggregates,
        })
    }

    /// Columns of tables whose primary key is grouped by: they have one value in each group.
    fn dependent_columns(&mut self, keys: &[(ColumnId, TypeReference, Expression)]) -> Vec<ScopeColumn> {
        let mut dependent = Vec::new();
        for scope_table in &self.scope().tables {
            let Some(table) = &scope_table.table else { continue };
            let Some(primary) = table.indexes.iter().find(|index| index.is_primary) else { continue };
            let is_grouped = primary.keys.iter().all(|key| {
                let crate::schema::IndexedValue::Column(position) = key.what else { return false };
                let number = i16::try_from(position + 1).unwrap_or(i16::MAX);
                let column = scope_table.columns.iter().find(|column| column.origin == (table.oid, number));
                column.is_some_and(|column| keys.iter().any(|(id, ..)| *id == column.id))
            });
            if is_grouped && !primary.keys.is_empty() {
                dependent.extend(scope_table.columns.iter().cloned());
            }
        }
        dependent
    }

    /// `42803` for a column that is neither grouped by nor aggregated.
    fn check_grouped(
        &mut self,
        check: &Grouped<'_>,
        value: &Expression,
        dependent: &mut Vec<(ColumnId, TypeReference)>,
    ) -> SqlResult<()> {
        let mut wrong: Option<(ColumnId, Option<u32>, bool)> = None;
        let scope = self.scopes.last();
        let is_input = |id: ColumnId| {
            scope.is_some_and(|scope| {
                scope.columns.iter().any(|column| column.id == id)
                    || scope
                        .tables
                        .iter()
                        .any(|table| table.columns.iter().chain(&table.hidden).any(|column| column.id == id))
            })
        };
        let mut look = |id: ColumnId, position: Option<u32>, is_inside: bool| {
            if check.keys.iter().any(|(key, ..)| *key == id) || check.allowed.contains(&id) || !is_input(id) {
                return;
            }
            match check.dependent.iter().find(|column| column.id == id) {
                Some(column) => dependent.push((id, column.of)),
                None => {
                    wrong.get_or_insert((id, position, is_inside));
                }
            }
        };
        visit(value, &mut |inner| match &inner.kind {
            ExpressionKind::Column(id) => look(*id, inner.position, false),
            ExpressionKind::WholeRow(ids, _) => ids.iter().for_each(|id| look(*id, inner.position, false)),
            ExpressionKind::Subquery(subquery) => {
                visit_relation(&subquery.relation, &mut |inner| {
                    if let ExpressionKind::Column(id) = inner.kind {
                        look(id, inner.position, true);
                    }
                });
            }
            _ => {}
        });
        let Some((id, position, is_inside)) = wrong else { return Ok(()) };
        let name = self.shown_name(id);
        let message = match is_inside {
            true => format!("subquery uses ungrouped column \"{name}\" from outer query"),
            false => format!(
                "column \"{name}\" must appear in the GROUP BY clause or be used in an aggregate function"
            ),
        };
        Err(SqlError::new(SqlState::GROUPING_ERROR, message).at(position))
    }

    fn shown_name(&self, id: ColumnId) -> String {
        for table in self.scopes.iter().rev().flat_map(|scope| &scope.tables) {
            if let Some(column) = table.columns.iter().chain(&table.hidden).find(|column| column.id == id) {
                return format!("{}.{}", table.name, column.name);
            }
        }
        "?".to_owned()
    }
}

/// What may be used above a grouping.
struct Grouped<'g> {
    keys: &'g [(ColumnId, TypeReference, Expression)],
    allowed: &'g [ColumnId],
    dependent: &'g [ScopeColumn],
}

impl Grouped<'_> {
    /// A constant that is grouped by is null in the sets that leave it out.
    fn rewrite_constant(&self, value: &mut Expression) {
        let is_key =
            |key: &Expression| matches!(key.kind, ExpressionKind::Constant(_)) && is_same(key, value);
        if let Some((id, of, _)) = self.keys.iter().find(|(_, _, key)| is_key(key)) {
            *value = Expression { kind: ExpressionKind::Column(*id), of: *of, position: value.position };
        }
    }

    /// Expressions that are grouped by become columns of the grouping.
    fn rewrite(&self, value: &mut Expression) {
        if let Some((id, of, _)) = self.keys.iter().find(|(_, _, key)| is_same(key, value)) {
            if !matches!(value.kind, ExpressionKind::Constant(_)) {
                *value = Expression { kind: ExpressionKind::Column(*id), of: *of, position: value.position };
            }
            return;
        }
        operands_mut(value, &mut |child| self.rewrite(child));
        if let ExpressionKind::Subquery(subquery) = &mut value.kind
            && let SubqueryKind::Any(test) | SubqueryKind::All(test) = &mut subquery.kind
        {
            self.rewrite(test);
        }
    }
}
