//! `SELECT`: from the tables to the list of results.

use seawall_values::{Datum, Oid, SqlError, SqlResult, SqlState, TypeReference, oid};
use sqlparser::ast::{
    Distinct, Expr, Fetch, GroupByExpr, GroupByWithModifier, LimitClause, LockClause, LockType, NonBlock,
    OrderBy, OrderByExpr, OrderByKind, Query, Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr,
    Spanned, Value,
};
use sqlparser::tokenizer::Location;

use super::expression::{folded, qualified};
use super::same::{for_each_child_mut, is_same, visit, visit_relation};
use super::scope::{Clause, Scope, ScopeColumn};
use super::types::{category, element_of, type_name};
use super::{Binder, constant};
use crate::algebra::{
    ColumnId, Expression, ExpressionKind, OutputColumn, Relation, RowLock, SortKey, SubqueryKind, WaitPolicy,
};
use crate::catalog::names::quoted;

/// A result with its name.
#[derive(Clone, Debug)]
struct Item {
    value: Expression,
    name: String,
    origin: (Oid, i16),
}

/// What a query adds around its body.
#[derive(Clone, Copy)]
pub(super) struct Around<'q> {
    pub(super) order: &'q [OrderByExpr],
    pub(super) limit: Option<&'q LimitClause>,
    pub(super) fetch: Option<&'q Fetch>,
    pub(super) locks: &'q [LockClause],
}

/// Types that have no order.
pub(super) fn can_be_sorted(of: Oid) -> bool {
    let base = element_of(of).unwrap_or(of);
    !matches!(base, oid::JSON | oid::XML | oid::XID | oid::CID | oid::ACLITEM | oid::JSONPATH)
        && !matches!(category(base), b'G')
}

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
    /// A whole statement: literals that nothing has given a type are text.
    pub(super) fn bind_top_query(&mut self, query: &Query) -> SqlResult<(Relation, Vec<OutputColumn>)> {
        self.bind_query(query, false)
    }

    /// A query inside of another.
    pub(super) fn subquery(&mut self, query: &Query) -> SqlResult<(Relation, Vec<OutputColumn>)> {
        self.deeper(|binder| binder.bind_query(query, false))
    }

    /// A subquery in an expression.
    pub(super) fn subquery_of_expression(
        &mut self,
        query: &Query,
    ) -> SqlResult<(Relation, Vec<OutputColumn>)> {
        if self.scopes.last().is_some_and(|scope| scope.clause == Some(Clause::CopyWhere)) {
            let message = "cannot use subquery in COPY FROM WHERE condition";
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        self.subquery(query)
    }

    /// A query with its `WITH`. `keeps_unknown`: its literals get their types from where it is used.
    pub(super) fn bind_query(
        &mut self,
        query: &Query,
        keeps_unknown: bool,
    ) -> SqlResult<(Relation, Vec<OutputColumn>)> {
        if query.for_clause.is_some() || query.settings.is_some() || !query.pipe_operators.is_empty() {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "syntax error in a query"));
        }
        let around = Around {
            order: order_list(query.order_by.as_ref())?,
            limit: query.limit_clause.as_ref(),
            fetch: query.fetch.as_ref(),
            locks: &query.locks,
        };
        let Some(with) = &query.with else { return self.body(&query.body, around, keeps_unknown) };
        if with.recursive && matches!(*query.body, SetExpr::Merge(_)) {
            let message = "WITH RECURSIVE is not supported for MERGE statement";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
        self.with(with, |binder| binder.body(&query.body, around, keeps_unknown))
    }

    pub(super) fn body(
        &mut self,
        body: &SetExpr,
        around: Around<'_>,
        keeps_unknown: bool,
    ) -> SqlResult<(Relation, Vec<OutputColumn>)> {
        match body {
            SetExpr::Select(select) => self.in_scope(|binder| binder.select(select, around, keeps_unknown)),
            SetExpr::Query(inner) => {
                let (relation, output) = self.deeper(|binder| binder.bind_query(inner, keeps_unknown))?;
                self.around_rows(relation, output, around)
            }
            SetExpr::Values(values) => {
                let (relation, output) = self.in_scope(|binder| binder.values(values, keeps_unknown))?;
                self.around_rows(relation, output, around)
            }
            SetExpr::SetOperation { .. } => {
                let (relation, output) = self.deeper(|binder| binder.set_operation(body))?;
                self.around_rows(relation, output, around)
            }
            SetExpr::Table(table) => {
                let parts: Vec<sqlparser::ast::Ident> = table
                    .schema_name
                    .iter()
                    .chain(&table.table_name)
                    .map(|name| sqlparser::ast::Ident::with_quote('"', name))
                    .collect();
                let text = format!(
                    "SELECT * FROM {}",
                    parts
                        .iter()
                        .map(|part| part.value.to_lowercase())
                        .map(|part| super::types::quoted(&part))
                        .collect::<Vec<_>>()
                        .join(".")
                );
                let text = crate::parse::Text::new(&text);
                let query = crate::parse::query(&text)?;
                let (relation, output) = self.deeper(|binder| binder.bind_query(&query, false))?;
                self.around_rows(relation, output, around)
            }
            SetExpr::Insert(statement)
            | SetExpr::Update(statement)
            | SetExpr::Delete(statement)
            | SetExpr::Merge(statement) => {
                if around.is_there() {
                    return Err(SqlError::new(SqlState::SYNTAX_ERROR, "syntax error after a change"));
                }
                self.change_statement(statement)
            }
        }
    }

    /// Runs `body` in a query level of its own.
    pub(super) fn in_scope<T>(&mut self, body: impl FnOnce(&mut Self) -> SqlResult<T>) -> SqlResult<T> {
        self.scopes.push(Scope::default());
        let result = body(self);
        self.scopes.pop();
        result
    }

    fn select(
        &mut self,
        select: &Select,
        around: Around<'_>,
        keeps_unknown: bool,
    ) -> SqlResult<(Relation, Vec<OutputColumn>)> {
        if select.into.is_some() {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "SELECT ... INTO is not allowed here"));
        }
        if select.top.is_some()
            || select.qualify.is_some()
            || !select.lateral_views.is_empty()
            || !select.connect_by.is_empty()
        {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "syntax error in SELECT"));
        }
        let mut relation = self.from(&select.from)?;
        self.scope().named_windows = super::window::named_windows(&select.named_window)?;
        if let Some(condition) = &select.selection {
            let predicate = self.in_clause(Clause::Where, |binder| {
                let value = binder.expression(condition)?;
                binder.coerce_to_boolean(value, "WHERE")
            })?;
            relation = Relation::Filter { input: Box::new(relation), predicate };
        }
        let mut items = self.in_clause(Clause::Select, |binder| binder.items(&select.projection))?;
        if !keeps_unknown {
            for item in &mut items {
                let value = std::mem::replace(&mut item.value, constant(Datum::Null, oid::UNKNOWN));
                item.value = self.known(value)?;
            }
        }
        let (group_list, modifiers) = match &select.group_by {
            GroupByExpr::Expressions(list, modifiers) => (list.as_slice(), modifiers.as_slice()),
            GroupByExpr::All(_) => {
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, "syntax error at or near \"ALL\""));
            }
        };
        if modifiers.iter().any(|modifier| !matches!(modifier, GroupByWithModifier::GroupingSets(_))) {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "syntax error at or near \"WITH\""));
        }
        let mut groups = self.in_clause(Clause::GroupBy, |binder| binder.groups(group_list, &items))?;
        for modifier in modifiers {
            if let GroupByWithModifier::GroupingSets(expr) = modifier {
                self.in_clause(Clause::GroupBy, |binder| binder.group_item(expr, &items, &mut groups))?;
            }
        }
        groups.leave_out_repeated();
        let mut having = match &select.having {
            Some(condition) => Some(self.in_clause(Clause::Having, |binder| {
                let value = binder.expression(condition)?;
                binder.coerce_to_boolean(value, "HAVING")
            })?),
            None => None,
        };
        let visible = items.len();
        let mut order =
            self.in_clause(Clause::OrderBy, |binder| binder.order_items(around.order, &mut items))?;
        let mut distinct_on = match &select.distinct {
            Some(Distinct::On(list)) => {
                Some(self.in_clause(Clause::DistinctOn, |binder| binder.distinct_items(list, &mut items))?)
            }
            _ => None,
        };
        let is_grouped = !group_list.is_empty() || !modifiers.is_empty() || having.is_some() || {
            let scope = self.scope();
            !scope.aggregates.is_empty() || !scope.groupings.is_empty()
        };
        if is_grouped {
            relation = self.grouped(relation, groups, &mut items, &mut having)?;
        }
        if let Some(predicate) = having {
            relation = Relation::Filter { input: Box::new(relation), predicate };
        }
        relation = self.windowed(relation);
        relation = self.with_sets(relation);
        let mut computed = Vec::new();
        let mut columns = Vec::with_capacity(items.len());
        for item in items {
            let (column, of) = match item.value.kind {
                // Two literals that are alike are two columns. A column from outside becomes one of this query: its value is that of now.
                ExpressionKind::Column(id) if !self.is_from_outside(id) => {
                    self.as_column(item.value, &mut computed)
                }
                _ => {
                    let (id, of) = (self.new_column(), item.value.of);
                    computed.push((id, item.value));
                    (id, of)
                }
            };
            columns.push(OutputColumn { column, name: item.name, of, origin: item.origin });
        }
        if !computed.is_empty() {
            relation = Relation::Compute { input: Box::new(relation), values: computed };
        }
        let keys: Vec<SortKey> = order
            .drain(..)
            .map(|(index, written)| {
                let column = &columns[index];
                self.sort_key(column.column, column.of, written, self.position(&written.expr))
            })
            .collect::<SqlResult<_>>()?;
        match &select.distinct {
            None | Some(Distinct::All) => {
                relation = sorted(relation, keys.clone());
            }
            Some(Distinct::Distinct) => {
                if columns.len() > visible {
                    let message = "for SELECT DISTINCT, ORDER BY expressions must appear in select list";
                    return Err(SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message));
                }
                if !around.locks.is_empty() {
                    return Err(locks_not_allowed(around.locks, "DISTINCT clause"));
                }
                let on = columns.iter().map(|column| (column.column, column.of)).collect::<Vec<_>>();
                check_equality(&on)?;
                relation = sorted(Relation::Distinct { input: Box::new(relation), on }, keys.clone());
            }
            Some(Distinct::On(_)) => {
                let on: Vec<(ColumnId, TypeReference)> = distinct_on
                    .take()
                    .unwrap_or_default()
                    .into_iter()
                    .map(|index| (columns[index].column, columns[index].of))
                    .collect();
                let first = keys.iter().take(on.len()).all(|key| on.iter().any(|(id, _)| *id == key.column));
                if !first {
                    let message = "SELECT DISTINCT ON expressions must match initial ORDER BY expressions";
                    return Err(SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message));
                }
                relation = Relation::Distinct { input: Box::new(sorted(relation, keys.clone())), on };
            }
        }
        if !around.locks.is_empty() {
            if is_grouped {
                return Err(locks_not_allowed(around.locks, "GROUP BY clause"));
            }
            relation = self.locked(relation, around.locks)?;
        }
        relation = self.limited(relation, around, keys)?;
        columns.truncate(visible);
        Ok((relation, columns))
    }

    // The list of results.

    fn items(&mut self, projection: &[SelectItem]) -> SqlResult<Vec<Item>> {
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
                    items.extend(columns.into_iter().map(of_column));
                }
                SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options) => {
                    let position = self.position(item);
                    let (schema, plain) = qualified(name);
                    if let Some(table) = self.named_table(schema.as_deref(), &plain, position)? {
                        let (start, star) = (name.span().start, options.wildcard_token.0.span.start);
                        self.note_star(start, star, &table.columns);
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
        if self.stars.is_none() || self.search_path.is_some() || columns.is_empty() {
            return;
        }
        let (Some(start), Some(star)) = (self.text.position(start), self.text.position(star)) else { return };
        let names: Vec<String> = columns.iter().map(|column| self.written_name(column)).collect();
        if let Some(stars) = &mut self.stars
            && stars.iter().all(|(known, _, _)| *known != start)
        {
            stars.push((start, star - start + 1, names.join(", ")));
        }
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
        let [sqlparser::ast::AccessExpr::Dot(Expr::Wildcard(_))] = access_chain.as_slice() else {
            return Ok(None);
        };
        let value = self.expression(root)?;
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
    pub(super) fn values_of_items(&mut self, projection: &[SelectItem]) -> SqlResult<Vec<Expression>> {
        Ok(self.items(projection)?.into_iter().map(|item| item.value).collect())
    }

    /// `RETURNING`, as a list of results over the innermost scope.
    pub(super) fn returning(&mut self, list: &[SelectItem]) -> SqlResult<Vec<(OutputColumn, Expression)>> {
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

    // Groups.

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

    /// The aggregation, with the list of results over its columns.
    fn grouped(
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

    // Order.

    /// Each key as an item of the list of results; what is not there yet is added after what is shown.
    fn order_items<'q>(
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

    fn distinct_items(&mut self, list: &[Expr], items: &mut Vec<Item>) -> SqlResult<Vec<usize>> {
        let shown = items.len();
        list.iter().map(|expr| self.list_item(expr, items, shown, "SELECT DISTINCT ON")).collect()
    }

    /// A name of a result, a position, or an expression over the tables.
    fn list_item(
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
        let value = self.expression(expr)?;
        let value = self.known(value)?;
        if let Some(index) = items.iter().position(|item| is_same(&item.value, &value)) {
            return Ok(index);
        }
        items.push(Item { value, name: "?column?".to_owned(), origin: (0, 0) });
        Ok(items.len() - 1)
    }

    /// Order and limits around rows whose columns alone can be named: of `VALUES` and set operations.
    pub(super) fn around_rows(
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

    fn limited(&mut self, relation: Relation, around: Around<'_>, keys: Vec<SortKey>) -> SqlResult<Relation> {
        let (mut count, mut offset, mut with_ties) = (None, None, None);
        match around.limit {
            None => {}
            Some(LimitClause::LimitOffset { limit, offset: written, limit_by }) if limit_by.is_empty() => {
                if let Some(limit) = limit {
                    count = Some(self.row_count(limit, Clause::Limit)?);
                }
                if let Some(written) = written {
                    offset = Some(self.row_count(&written.value, Clause::Offset)?);
                }
            }
            Some(_) => {
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, "LIMIT #,# syntax is not supported")
                    .with_hint("Use separate LIMIT and OFFSET clauses."));
            }
        }
        if let Some(fetch) = around.fetch {
            if fetch.percent {
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, "syntax error at or near \"PERCENT\""));
            }
            count = Some(match &fetch.quantity {
                Some(quantity) => self.row_count(quantity, Clause::Limit)?,
                None => constant(Datum::Int8(1), oid::INT8),
            });
            let skips = |lock: &LockClause| lock.nonblock == Some(NonBlock::SkipLocked);
            if fetch.with_ties && around.locks.iter().any(skips) {
                let message = "SKIP LOCKED and WITH TIES options cannot be used together";
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
            }
            if fetch.with_ties {
                if keys.is_empty() {
                    let message = "WITH TIES cannot be specified without ORDER BY clause";
                    return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
                }
                with_ties = Some(keys);
            }
        }
        if count.is_none() && offset.is_none() {
            return Ok(relation);
        }
        Ok(Relation::Limit { input: Box::new(relation), count, offset, with_ties })
    }

    fn row_count(&mut self, expr: &Expr, clause: Clause) -> SqlResult<Expression> {
        let construct = clause.name();
        let value = self.in_clause(clause, |binder| binder.as_bigint(expr, construct))?;
        let level = self.scopes.len() - 1;
        let mut wrong = None;
        visit(&value, &mut |inner| {
            if let ExpressionKind::Column(id) = inner.kind {
                let scope = &self.scopes[level];
                let is_own = scope.columns.iter().any(|column| column.id == id);
                if is_own && wrong.is_none() {
                    wrong = Some(inner.position);
                }
            }
        });
        match wrong {
            Some(position) => {
                let message = format!("argument of {construct} must not contain variables");
                Err(SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message).at(position))
            }
            None => Ok(value),
        }
    }

    // Locks, sets.

    fn locked(&mut self, input: Relation, locks: &[LockClause]) -> SqlResult<Relation> {
        let mut rows: Vec<(ColumnId, RowLock, WaitPolicy)> = Vec::new();
        for lock in locks {
            let mode = match (&lock.lock_type, crate::parse::marked_lock(lock)) {
                (_, Some(mode)) => mode,
                (LockType::Update, None) => RowLock::Update,
                (LockType::Share, None) => RowLock::Share,
            };
            let policy = match lock.nonblock {
                None => WaitPolicy::Wait,
                Some(NonBlock::Nowait) => WaitPolicy::Fail,
                Some(NonBlock::SkipLocked) => WaitPolicy::Skip,
            };
            let wanted = crate::parse::locked_tables(lock);
            for name in &wanted {
                if !self.scope().tables.iter().any(|table| table.name == *name) {
                    let message =
                        format!("relation \"{name}\" in {} clause not found in FROM clause", lock_name(mode));
                    return Err(SqlError::new(SqlState::UNDEFINED_TABLE, message));
                }
            }
            let mut locked = Vec::new();
            for table in &self.scope().tables {
                if !wanted.is_empty() && !wanted.contains(&table.name) {
                    continue;
                }
                let Some(row) = table.row else { continue };
                locked.extend(table.table.as_ref().map(|table| table.oid));
                match rows.iter_mut().find(|(known, ..)| *known == row) {
                    Some(known) => {
                        known.1 = known.1.max(mode);
                        if policy != WaitPolicy::Wait {
                            known.2 = policy;
                        }
                    }
                    None => rows.push((row, mode, policy)),
                }
            }
            self.need_lock(&locked);
        }
        Ok(if rows.is_empty() { input } else { Relation::Lock { input: Box::new(input), rows } })
    }

    /// Set-returning functions of the list of results: those that others use as arguments first.
    pub(super) fn with_sets(&mut self, mut relation: Relation) -> Relation {
        let mut pending = std::mem::take(&mut self.scope().sets);
        while !pending.is_empty() {
            let ids: Vec<ColumnId> = pending.iter().map(|(id, _)| *id).collect();
            let needs_others = |call: &crate::algebra::Call| {
                let mut found = false;
                for argument in &call.arguments {
                    visit(argument, &mut |inner| {
                        found |= matches!(inner.kind, ExpressionKind::Column(id) if ids.contains(&id));
                    });
                }
                found
            };
            let (later, now): (Vec<_>, Vec<_>) =
                pending.into_iter().partition(|(_, call)| needs_others(call));
            if now.is_empty() {
                return relation;
            }
            relation = Relation::ComputeSets { input: Box::new(relation), sets: now };
            pending = later;
        }
        relation
    }
}

impl Around<'_> {
    fn is_there(&self) -> bool {
        !self.order.is_empty() || self.limit.is_some() || self.fetch.is_some() || !self.locks.is_empty()
    }
}

/// What `GROUP BY` says.
#[derive(Debug, Default)]
struct Groups {
    values: Vec<Expression>,
    sets: Vec<Vec<usize>>,
    has_sets: bool,
    /// `GROUP BY DISTINCT`.
    is_distinct: bool,
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
    match super::expression::name_parts(&call.name).as_slice() {
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
        for_each_child_mut(value, &mut |child| self.rewrite(child));
        if let ExpressionKind::Subquery(subquery) = &mut value.kind
            && let SubqueryKind::Any(test) | SubqueryKind::All(test) = &mut subquery.kind
        {
            self.rewrite(test);
        }
    }
}

fn sorted(input: Relation, keys: Vec<SortKey>) -> Relation {
    if keys.is_empty() { input } else { Relation::Sort { input: Box::new(input), keys } }
}

fn of_column(column: ScopeColumn) -> Item {
    Item {
        value: Expression { kind: ExpressionKind::Column(column.id), of: column.of, position: None },
        name: column.name,
        origin: column.origin,
    }
}

fn can_be_grouped(of: Oid) -> bool {
    can_be_sorted(of) || matches!(of, oid::XID | oid::CID)
}

pub(super) fn no_equality(of: Oid) -> Box<SqlError> {
    SqlError::new(
        SqlState::UNDEFINED_FUNCTION,
        format!("could not identify an equality operator for type {}", type_name(of)),
    )
}

fn check_equality(on: &[(ColumnId, TypeReference)]) -> SqlResult<()> {
    match on.iter().find(|(_, of)| !can_be_grouped(of.oid)) {
        Some((_, of)) => Err(no_equality(of.oid)),
        None => Ok(()),
    }
}

/// The name of a lock in messages.
fn lock_name(mode: RowLock) -> &'static str {
    match mode {
        RowLock::KeyShare => "FOR KEY SHARE",
        RowLock::Share => "FOR SHARE",
        RowLock::NoKeyUpdate => "FOR NO KEY UPDATE",
        RowLock::Update => "FOR UPDATE",
    }
}

fn locks_not_allowed(locks: &[LockClause], with: &str) -> Box<SqlError> {
    let mode = locks.first().map_or(RowLock::Update, |lock| match lock.lock_type {
        LockType::Update => RowLock::Update,
        LockType::Share => RowLock::Share,
    });
    SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, format!("{} is not allowed with {with}", lock_name(mode)))
}

/// `ORDER BY 2`.
fn position_in_list(value: &Value, count: usize, clause: &str, at: Option<u32>) -> SqlResult<Option<usize>> {
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

/// The name that PostgreSQL gives a result without an alias.
pub(super) fn column_name(expr: &Expr) -> Option<String> {
    Some(match expr {
        Expr::Identifier(ident) => folded(ident),
        Expr::CompoundIdentifier(parts) => folded(parts.last()?),
        Expr::CompoundFieldAccess { root, access_chain } => {
            let field = access_chain.iter().rev().find_map(|access| match access {
                sqlparser::ast::AccessExpr::Dot(Expr::Identifier(name)) => Some(folded(name)),
                _ => None,
            });
            return field.or_else(|| column_name(root));
        }
        Expr::Nested(inner) => return column_name(inner),
        Expr::Function(call) => match qualified(&call.name).1.as_str() {
            "user" | "current_role" => qualified(&call.name).1,
            name => name.to_owned(),
        },
        Expr::Cast { expr, data_type, .. } => {
            return column_name(expr).filter(|_| !is_weak(expr)).or_else(|| Some(internal_name(data_type)));
        }
        Expr::TypedString(typed) => internal_name(&typed.data_type),
        Expr::Prefixed { prefix, .. } => folded(prefix),
        Expr::Interval(_) => "interval".to_owned(),
        Expr::Case { else_result, .. } => {
            let inner = else_result.as_deref().filter(|inner| !is_weak(inner)).and_then(column_name);
            inner.unwrap_or_else(|| "case".to_owned())
        }
        Expr::Exists { negated: false, .. } => "exists".to_owned(),
        Expr::Subquery(query) => return first_name(&query.body),
        Expr::Array(_) => "array".to_owned(),
        Expr::Tuple(_) => "row".to_owned(),
        Expr::Extract { .. } => "extract".to_owned(),
        Expr::Position { .. } => "position".to_owned(),
        Expr::Substring { .. } => "substring".to_owned(),
        Expr::Overlay { .. } => "overlay".to_owned(),
        Expr::Ceil { .. } => "ceil".to_owned(),
        Expr::Floor { .. } => "floor".to_owned(),
        Expr::AtTimeZone { .. } => "timezone".to_owned(),
        Expr::Trim { trim_where, .. } => match trim_where {
            Some(sqlparser::ast::TrimWhereField::Leading) => "ltrim".to_owned(),
            Some(sqlparser::ast::TrimWhereField::Trailing) => "rtrim".to_owned(),
            _ => "btrim".to_owned(),
        },
        Expr::Collate { expr, .. } => return column_name(expr),
        _ => return None,
    })
}

/// Names that a cast around replaces.
fn is_weak(expr: &Expr) -> bool {
    match expr {
        Expr::Cast { .. } | Expr::TypedString(_) | Expr::Case { .. } | Expr::Interval(_) => true,
        Expr::Value(_) => true,
        Expr::Nested(inner) => is_weak(inner),
        _ => false,
    }
}

fn first_name(body: &SetExpr) -> Option<String> {
    match body {
        SetExpr::Select(select) => match select.projection.first()? {
            SelectItem::UnnamedExpr(expr) => column_name(expr),
            SelectItem::ExprWithAlias { alias, .. } => Some(folded(alias)),
            _ => None,
        },
        SetExpr::Query(query) => first_name(&query.body),
        SetExpr::SetOperation { left, .. } => first_name(left),
        SetExpr::Values(_) => Some("column1".to_owned()),
        _ => None,
    }
}

/// The name of a type as PostgreSQL's grammar has it inside: `int4` for `integer`.
fn internal_name(data_type: &sqlparser::ast::DataType) -> String {
    use sqlparser::ast::{ArrayElemTypeDef, DataType as D, TimezoneInfo as Z};
    let name = match data_type {
        D::Character(_) | D::Char(_) => "bpchar",
        D::CharacterVarying(_) | D::CharVarying(_) | D::Varchar(_) => "varchar",
        D::Numeric(_) | D::Decimal(_) | D::Dec(_) => "numeric",
        D::Float(_) | D::Float8 | D::DoublePrecision | D::Double(_) => "float8",
        D::Int2(_) | D::SmallInt(_) => "int2",
        D::Int(_) | D::Int4(_) | D::Integer(_) => "int4",
        D::Int8(_) | D::BigInt(_) => "int8",
        D::Float4 | D::Real => "float4",
        D::Bool | D::Boolean => "bool",
        D::Time(_, Z::WithTimeZone | Z::Tz) => "timetz",
        D::Time(..) => "time",
        D::Timestamp(_, Z::WithTimeZone | Z::Tz) => "timestamptz",
        D::Timestamp(..) => "timestamp",
        D::Interval { .. } => "interval",
        D::BitVarying(_) | D::VarBit(_) => "varbit",
        D::Bit(_) => "bit",
        D::Array(ArrayElemTypeDef::SquareBracket(element, _) | ArrayElemTypeDef::Qualified(element, _)) => {
            return internal_name(element);
        }
        D::Custom(name, _) => return qualified(name).1,
        other => return other.to_string().to_lowercase(),
    };
    name.to_owned()
}
