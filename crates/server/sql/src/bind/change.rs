//! `INSERT`, `UPDATE`, `DELETE`: the table, the values that rows get, `RETURNING`.
//!
//! * here: what the three share, `UPDATE` and `DELETE`. `insert`, `conflict`: `INSERT` and its `ON CONFLICT`. `merge`: `MERGE`. `element`: assignments to
//!   elements of arrays. `view`: the tables that views stand for.
//! * Defaults, checks and generated columns are texts of the schema, and are bound here over the new row: `stored`.

mod conflict;
mod element;
mod insert;
mod merge;
mod stored;
mod view;

use std::sync::Arc;

use seawall_values::system::CastContext;
use seawall_values::{Datum, SqlError, SqlResult, SqlState, TypeReference, oid};
use sqlparser::ast::{
    Assignment, AssignmentTarget, Delete, Expr, FromTable, ObjectName, SelectItem, Statement, TableAlias,
    TableFactor, TableWithJoins, Update, UpdateTableFromKind,
};

use self::view::TargetView;
use super::expression::{folded, qualified};
use super::from::missing_relation;
use super::scope::{Clause, ScopeColumn, ScopeTable};
use super::types::type_name;
use super::{Binder, column, constant};
use crate::algebra::{
    Change, ChangeKind, ColumnId, Expression, ExpressionKind, JoinKind, OutputColumn, Relation, Subquery,
    SubqueryKind, Written,
};
use crate::schema::privilege::Privileges;
use crate::schema::{Column, Definition, Identity, Table};

/// The table that a statement changes, as the statement names it.
#[derive(Clone, Debug)]
struct Target {
    table: Arc<Table>,
    name: String,
    schema: Option<String>,
    /// The view that stands for the table.
    view: Option<TargetView>,
}

impl Target {
    /// The position of a column that can be given a value.
    fn column_position(&self, name: &str, at: Option<u32>) -> SqlResult<usize> {
        match &self.view {
            Some(view) => view.position(name, at),
            None => column_position(&self.table, name).map_err(|error| error.at(at)),
        }
    }

    /// What the statement names.
    fn relation(&self) -> Definition {
        match self.view.as_ref().and_then(TargetView::view) {
            Some(view) => Definition::View(Arc::clone(view)),
            None => Definition::Table(Arc::clone(&self.table)),
        }
    }

    /// Its number.
    fn oid(&self) -> seawall_values::Oid {
        crate::catalog::oid_of(&self.relation())
    }

    /// The numbers that columns of the table have in it.
    fn numbers(&self, positions: &[usize]) -> Vec<u16> {
        match &self.view {
            Some(view) => view.numbers(positions),
            None => positions.iter().map(|position| number_of(*position)).collect(),
        }
    }

    fn has_column(&self, name: &str) -> bool {
        match &self.view {
            Some(view) => view.has_column(name),
            None => column_position(&self.table, name).is_ok(),
        }
    }

    /// The name of a column in messages.
    fn column_name(&self, position: usize) -> &str {
        let name = self.view.as_ref().and_then(|view| view.column_name(position));
        name.unwrap_or(&self.table.columns[position].name)
    }

    /// Its name in messages.
    fn relation_name(&self) -> &str {
        self.view.as_ref().map_or(&self.table.name, TargetView::name)
    }
}

impl Binder<'_> {
    /// Binds `INSERT`, `UPDATE`, `DELETE` or `MERGE`.
    pub(crate) fn change_statement(
        &mut self,
        statement: &Statement,
    ) -> SqlResult<(Relation, Vec<OutputColumn>)> {
        match statement {
            Statement::Insert(insert) => self.in_scope(|binder| binder.insert(insert)),
            Statement::Update(update) => self.in_scope(|binder| binder.update(update)),
            Statement::Delete(delete) => self.in_scope(|binder| binder.delete(delete)),
            Statement::Merge(merge) => self.in_scope(|binder| binder.merge(merge)),
            other => Err(SqlError::internal(format!("no change: {other}"))),
        }
    }

    /// The table that is to be changed. `verb`: `insert into`, `update`, `delete from`.
    fn target(
        &mut self,
        name: &ObjectName,
        alias: Option<&sqlparser::ast::Ident>,
        verb: &str,
    ) -> SqlResult<Target> {
        let position = self.position(name);
        let (schema, plain) = qualified(name);
        let mut view = None;
        let mut shown = None;
        let table = match self.find_relation(schema.as_deref(), &plain)? {
            Some(Definition::Table(table)) if table.query.is_some() => {
                if verb == "merge into" {
                    let message = format!("cannot execute MERGE on relation \"{}\"", table.name);
                    return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
                        .with_detail("This operation is not supported for materialized views."));
                }
                let message = format!("cannot change materialized view \"{}\"", table.name);
                return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
            }
            Some(Definition::Table(table)) => table,
            Some(Definition::View(found)) => {
                let (table, target) = self.target_view(&found, verb)?;
                view = Some(target);
                shown = Some(found.name.clone());
                table
            }
            Some(Definition::Sequence(sequence)) => {
                let message = format!("cannot change sequence \"{}\"", sequence.name);
                return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
            }
            Some(Definition::Index(_, index)) => {
                let message = format!("cannot open relation \"{}\"", index.name);
                return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message)
                    .with_detail("This operation is not supported for indexes.")
                    .at(position));
            }
            Some(Definition::System(system)) => {
                let message = format!("permission denied: \"{}\" is a system catalog", system.name);
                return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
            }
            None => return Err(missing_relation(schema.as_deref(), &plain).at(position)),
        };
        self.used.push((table.oid, table.version));
        let target = match alias {
            Some(alias) => Target { table, name: folded(alias), schema: None, view },
            None => Target { name: shown.unwrap_or_else(|| table.name.clone()), table, schema, view },
        };
        let privileges = match verb {
            "insert into" => Privileges::INSERT,
            "update" => Privileges::UPDATE,
            // Each of its clauses says what it needs.
            "merge into" => Privileges::NONE,
            _ => Privileges::DELETE,
        };
        let beneath = target.view.as_ref().map(|view| view.beneath().to_vec()).unwrap_or_default();
        self.need_change(target.relation(), privileges, beneath);
        Ok(target)
    }

    fn update(&mut self, update: &Update) -> SqlResult<(Relation, Vec<OutputColumn>)> {
        if update.or.is_some()
            || update.limit.is_some()
            || !update.order_by.is_empty()
            || update.output.is_some()
        {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "syntax error in UPDATE"));
        }
        let target = self.plain_target(&update.table, "update")?;
        let from: &[TableWithJoins] = match &update.from {
            None => &[],
            Some(UpdateTableFromKind::AfterSet(list) | UpdateTableFromKind::BeforeSet(list)) => list,
        };
        let (relation, row) = self.rows_to_change(&target, from, update.selection.as_ref())?;
        let mut relation = relation;
        let set = self.assignments(&target, &update.assignments, Some(&mut relation))?;
        let changed: Vec<usize> = set.iter().map(|(position, _)| *position).collect();
        self.need_update(target.oid(), target.numbers(&changed));
        let mut values: Vec<(usize, ColumnId)> = Vec::with_capacity(set.len());
        let mut computed = Vec::with_capacity(set.len());
        for (position, value) in set {
            let id = self.new_column();
            computed.push((id, value));
            values.push((position, id));
        }
        relation = Relation::Compute { input: Box::new(relation), values: computed };
        // Generated columns follow from the new values, and from the old ones of columns that are not set.
        let old = self.target_columns();
        let mut row_now = old;
        for (position, id) in &values {
            if let Some(known) = row_now.iter_mut().find(|(known, _)| known == position) {
                known.1 = *id;
            }
        }
        let generated = self.generated_values(&target.table, &row_now)?;
        if !generated.is_empty() {
            let mut computed = Vec::with_capacity(generated.len());
            for (position, value) in generated {
                let id = self.new_column();
                computed.push((id, value));
                values.push((position, id));
            }
            relation = Relation::Compute { input: Box::new(relation), values: computed };
        }
        self.changed(&target, relation, ChangeKind::Update { row, values }, update.returning.as_deref())
    }

    fn delete(&mut self, delete: &Delete) -> SqlResult<(Relation, Vec<OutputColumn>)> {
        if delete.limit.is_some()
            || !delete.order_by.is_empty()
            || delete.output.is_some()
            || !delete.tables.is_empty()
        {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "syntax error in DELETE"));
        }
        let (FromTable::WithFromKeyword(list) | FromTable::WithoutKeyword(list)) = &delete.from;
        let [only] = list.as_slice() else {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "syntax error at or near \",\""));
        };
        let target = self.plain_target(only, "delete from")?;
        let using = delete.using.as_deref().unwrap_or_default();
        let (relation, row) = self.rows_to_change(&target, using, delete.selection.as_ref())?;
        self.changed(&target, relation, ChangeKind::Delete { row }, delete.returning.as_deref())
    }

    fn plain_target(&mut self, written: &TableWithJoins, verb: &str) -> SqlResult<Target> {
        match &written.relation {
            TableFactor::Table { name, alias, args: None, .. } if written.joins.is_empty() => {
                let alias: Option<&TableAlias> = alias.as_ref();
                if alias.is_some_and(|alias| !alias.columns.is_empty()) {
                    return Err(SqlError::new(SqlState::SYNTAX_ERROR, "syntax error at or near \"(\""));
                }
                self.target(name, alias.map(|alias| &alias.name), verb)
            }
            _ => Err(SqlError::new(SqlState::SYNTAX_ERROR, "syntax error: a table is expected")),
        }
    }

    /// The rows of the table beside those of the other tables, for which the condition is true; and the column with their identity.
    fn rows_to_change(
        &mut self,
        target: &Target,
        others: &[TableWithJoins],
        condition: Option<&Expr>,
    ) -> SqlResult<(Relation, ColumnId)> {
        let mut relation = match others {
            [] => None,
            others => Some(self.from(others)?),
        };
        let (scan, columns, hidden, row) = self.scan(&target.table);
        let scope = self.scope();
        if scope.tables.iter().any(|table| table.name == target.name && table.schema.is_none()) {
            let message = format!("table name \"{}\" specified more than once", target.name);
            return Err(SqlError::new(SqlState::DUPLICATE_ALIAS, message));
        }
        scope.target = positions_of(&target.table, &columns);
        let mut shown = self.shown_columns(target.view.as_ref(), columns, hidden.clone())?;
        let scan = shown.around(scan);
        let scope = self.scope();
        scope.columns.splice(0..0, shown.columns.iter().cloned());
        scope.tables.insert(0, scope_table(target, shown.columns, hidden));
        let mut whole = match relation.take() {
            None => scan,
            Some(others) => Relation::Join {
                kind: JoinKind::Inner,
                left: Box::new(scan),
                right: Box::new(others),
                condition: constant(Datum::Bool(true), oid::BOOL),
            },
        };
        if let Some(condition) = condition {
            let predicate = self.in_clause(Clause::Where, |binder| {
                let value = binder.expression(condition)?;
                binder.coerce_to_boolean(value, "WHERE")
            })?;
            whole = Relation::Filter { input: Box::new(whole), predicate };
        }
        Ok((whole, row))
    }

    /// The columns of the table in the innermost scope, by position.
    fn target_columns(&mut self) -> Vec<(usize, ColumnId)> {
        self.scope().target.clone()
    }

    /// `SET`: positions and values.
    fn assignments(
        &mut self,
        target: &Target,
        assignments: &[Assignment],
        mut relation: Option<&mut Relation>,
    ) -> SqlResult<Vec<(usize, Expression)>> {
        let mut set: Vec<(usize, Expression)> = Vec::with_capacity(assignments.len());
        for assignment in assignments {
            if self.element_assignment(target, assignment, &mut set)? {
                continue;
            }
            let values = match &assignment.target {
                AssignmentTarget::ColumnName(name) => {
                    let position = self.assigned_column(target, name)?;
                    let value =
                        self.in_clause(Clause::UpdateSet, |binder| binder.expression(&assignment.value))?;
                    vec![(position, value)]
                }
                AssignmentTarget::Tuple(names) => {
                    self.tuple_assignment(target, names, &assignment.value, relation.as_deref_mut())?
                }
            };
            for (position, value) in values {
                if set.iter().any(|(known, _)| *known == position) {
                    let message =
                        format!("multiple assignments to same column \"{}\"", target.column_name(position));
                    return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
                }
                let value = self.updated_value(target, position, value)?;
                set.push((position, value));
            }
        }
        Ok(set)
    }

    /// `SET a[1] = x`. `false`: it is an assignment to all of a column.
    fn element_assignment(
        &mut self,
        target: &Target,
        assignment: &Assignment,
        set: &mut Vec<(usize, Expression)>,
    ) -> SqlResult<bool> {
        let (AssignmentTarget::ColumnName(name), Some((written, value))) =
            (&assignment.target, crate::parse::assigned_element(&assignment.value))
        else {
            return Ok(false);
        };
        let position = match super::expression::name_parts(name).as_slice() {
            // `SET t.a = 1`, which is not the field of a column.
            [table] if *table == target.name && !target.has_column(table) => {
                let qualified = [name.0.clone(), name.0.clone()].concat();
                self.assigned_column(target, &ObjectName(qualified))?
            }
            _ => self.assigned_column(target, name)?,
        };
        let column = &target.table.columns[position];
        let Some(element) = self.in_clause(Clause::UpdateSet, |binder| binder.element(column, written))?
        else {
            return Ok(false);
        };
        let value = self.in_clause(Clause::UpdateSet, |binder| binder.expression(value))?;
        if let Some(detail) = no_value_of_its_own(column) {
            let message = format!("column \"{}\" can only be updated to DEFAULT", column.name);
            return Err(SqlError::new(SqlState::GENERATED_ALWAYS, message).with_detail(detail));
        }
        let before = match set.iter().position(|(known, _)| *known == position) {
            Some(at) => element::set_by_parts(set.remove(at).1).ok_or_else(|| {
                let message =
                    format!("multiple assignments to same column \"{}\"", target.column_name(position));
                SqlError::new(SqlState::SYNTAX_ERROR, message)
            })?,
            None => {
                let known = self.target_columns();
                let id = known.iter().find(|(at, _)| *at == position).map(|(_, id)| *id);
                self.column_expression(
                    id.ok_or_else(|| SqlError::internal("a column of nowhere"))?,
                    column.of,
                )
            }
        };
        let value = self.updated_element(column, &element, before, value)?;
        set.push((position, value));
        Ok(true)
    }

    fn assigned_column(&mut self, target: &Target, name: &ObjectName) -> SqlResult<usize> {
        let position = self.position(name);
        let parts = super::expression::name_parts(name);
        match parts.as_slice() {
            [name] => target.column_position(name, position),
            [table, _] if *table == target.name && !target.has_column(table) => {
                let message =
                    format!("column \"{table}\" of relation \"{}\" does not exist", target.relation_name());
                Err(SqlError::new(SqlState::UNDEFINED_COLUMN, message)
                    .with_hint("SET target columns cannot be qualified with the relation name.")
                    .at(position))
            }
            [name, ..] => {
                target.column_position(name, position)?;
                Err(SqlError::unsupported("assignment to a field of a column").at(position))
            }
            [] => Err(SqlError::internal("an assignment to nothing")),
        }
    }

    /// `(a, b) = (1, 2)`, `(a, b) = (SELECT ..)`.
    fn tuple_assignment(
        &mut self,
        target: &Target,
        names: &[ObjectName],
        value: &Expr,
        relation: Option<&mut Relation>,
    ) -> SqlResult<Vec<(usize, Expression)>> {
        let positions: Vec<usize> =
            names.iter().map(|name| self.assigned_column(target, name)).collect::<SqlResult<_>>()?;
        let wrong_number = |at| {
            let message = "number of columns does not match number of values";
            Err(SqlError::new(SqlState::SYNTAX_ERROR, message).at(at))
        };
        let at = self.position(value);
        if let Expr::Subquery(query) = value {
            let (inner, output) = self.in_clause(Clause::UpdateSet, |binder| binder.subquery(query))?;
            if output.len() != positions.len() {
                return wrong_number(at);
            }
            let columns = output.iter().map(|column| column.column).collect();
            let kind = ExpressionKind::Subquery(Box::new(Subquery {
                kind: SubqueryKind::Row,
                relation: inner,
                columns,
            }));
            let row = self.new_column();
            let of = TypeReference::of(oid::RECORD);
            let Some(relation) = relation else {
                return self.fields_of_query(query, &positions, at);
            };
            let values = vec![(row, Expression { kind, of, position: at })];
            let before = std::mem::replace(relation, Relation::OneRow);
            *relation = Relation::Compute { input: Box::new(before), values };
            return Ok(positions
                .into_iter()
                .zip(output)
                .enumerate()
                .map(|(index, (position, field))| {
                    let kind = ExpressionKind::Field(Box::new(column(row, of)), index);
                    (position, Expression { kind, of: field.of, position: at })
                })
                .collect());
        }
        let fields: Vec<&Expr> = match value {
            Expr::Tuple(fields) => fields.iter().collect(),
            Expr::Nested(inner) if positions.len() == 1 => vec![inner],
            Expr::Function(call) if call.name.to_string().eq_ignore_ascii_case("row") => row_arguments(call)?,
            only if positions.len() == 1 => vec![only],
            _ => {
                let message =
                    "source for a multiple-column UPDATE item must be a sub-SELECT or ROW() expression";
                return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).at(at));
            }
        };
        if fields.len() != positions.len() {
            return wrong_number(at);
        }
        let mut values = Vec::with_capacity(positions.len());
        for (position, field) in positions.into_iter().zip(fields) {
            values.push((position, self.in_clause(Clause::UpdateSet, |binder| binder.expression(field))?));
        }
        Ok(values)
    }

    /// The fields of the row that a query gives, where the query cannot be computed before: each field has it for itself.
    fn fields_of_query(
        &mut self,
        query: &sqlparser::ast::Query,
        positions: &[usize],
        at: Option<u32>,
    ) -> SqlResult<Vec<(usize, Expression)>> {
        let mut fields = Vec::with_capacity(positions.len());
        for (index, position) in positions.iter().enumerate() {
            let (relation, output) = self.in_clause(Clause::UpdateSet, |binder| binder.subquery(query))?;
            let columns = output.iter().map(|column| column.column).collect();
            let subquery = Subquery { kind: SubqueryKind::Row, relation, columns };
            let of = TypeReference::of(oid::RECORD);
            let row = Expression { kind: ExpressionKind::Subquery(Box::new(subquery)), of, position: at };
            let kind = ExpressionKind::Field(Box::new(row), index);
            let of = output.get(index).map_or(of, |column| column.of);
            fields.push((*position, Expression { kind, of, position: at }));
        }
        Ok(fields)
    }

    /// What a column is set to: of its type, or its default.
    fn updated_value(
        &mut self,
        target: &Target,
        position: usize,
        value: Expression,
    ) -> SqlResult<Expression> {
        let column = &target.table.columns[position];
        if matches!(value.kind, ExpressionKind::Default) {
            return match &column.generated {
                // It is computed anew in any case.
                Some(_) => self.generated_value(target, position),
                None => self.default_value(&target.table, position),
            };
        }
        if let Some(detail) = no_value_of_its_own(column) {
            let message = format!("column \"{}\" can only be updated to DEFAULT", column.name);
            return Err(SqlError::new(SqlState::GENERATED_ALWAYS, message).with_detail(detail));
        }
        self.assigned(column, value)
    }

    fn generated_value(&mut self, target: &Target, position: usize) -> SqlResult<Expression> {
        let columns = self.target_columns();
        let found =
            self.generated_values(&target.table, &columns)?.into_iter().find(|(at, _)| *at == position);
        found
            .map(|(_, value)| value)
            .ok_or_else(|| SqlError::internal("a generated column without its expression"))
    }

    /// A value as an assignment converts it.
    pub(crate) fn assigned(&mut self, column: &Column, value: Expression) -> SqlResult<Expression> {
        let (from, position) = (value.of.oid, value.position);
        let to = match column.domain {
            0 => column.of,
            domain => TypeReference::of(domain),
        };
        match self.coerce_to(value, to, CastContext::Assignment, Written::ImplicitCast)? {
            Some(value) => Ok(value),
            None => {
                let message = format!(
                    "column \"{}\" is of type {} but expression is of type {}",
                    column.name,
                    type_name(to.oid),
                    type_name(from)
                );
                Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message)
                    .with_hint("You will need to rewrite or cast the expression.")
                    .at(position))
            }
        }
    }

    /// The change with its checks and `RETURNING`.
    fn changed(
        &mut self,
        target: &Target,
        input: Relation,
        kind: ChangeKind,
        returning: Option<&[SelectItem]>,
    ) -> SqlResult<(Relation, Vec<OutputColumn>)> {
        let mut new = Vec::new();
        let mut columns = Vec::new();
        for (position, column) in live_columns(&target.table) {
            let id = self.new_column();
            new.push((position, id));
            columns.push(scope_column(&target.table, position, column, id));
        }
        let mut checks = Vec::new();
        if !matches!(kind, ChangeKind::Delete { .. }) {
            checks = self.checks(&target.table, &new)?;
            if let Some(view) = &target.view {
                checks.extend(self.view_checks(view, columns.clone())?);
            }
        }
        let mut returned = Vec::new();
        if let Some(list) = returning {
            let scope = self.scope();
            let hidden = match scope.tables.first() {
                Some(first) if first.name == target.name && !matches!(kind, ChangeKind::Insert { .. }) => {
                    first.hidden.clone()
                }
                _ => Vec::new(),
            };
            let others = scope.tables.split_off(scope.tables.len().min(1));
            let shown = self.shown_columns(target.view.as_ref(), columns, hidden.clone())?;
            let scope = self.scope();
            scope.columns =
                shown.columns.iter().chain(others.iter().flat_map(|table| &table.columns)).cloned().collect();
            scope.tables = vec![scope_table(target, shown.columns.clone(), hidden)];
            scope.tables.extend(others);
            returned = self.returning(list)?;
            returned.iter_mut().for_each(|(_, value)| shown.resolve(value));
        }
        let output = returned.iter().map(|(output, _)| output.clone()).collect();
        let returning = returned.into_iter().map(|(output, value)| (output.column, value)).collect();
        let change = Change { table: Arc::clone(&target.table), kind, input, returning, new, checks };
        Ok((Relation::Change(Box::new(change)), output))
    }
}

/// The number of a column in `pg_attribute`.
fn number_of(position: usize) -> u16 {
    u16::try_from(position + 1).unwrap_or(u16::MAX)
}

/// The columns that are there, with their positions.
fn live_columns(table: &Table) -> impl Iterator<Item = (usize, &Column)> {
    table.columns.iter().enumerate().filter(|(_, column)| !column.is_dropped)
}

/// The columns of a scan of a table, by position.
fn positions_of(table: &Table, columns: &[ScopeColumn]) -> Vec<(usize, ColumnId)> {
    live_columns(table).zip(columns).map(|((position, _), column)| (position, column.id)).collect()
}

fn scope_column(table: &Table, position: usize, column: &Column, id: ColumnId) -> ScopeColumn {
    let number = i16::try_from(position + 1).unwrap_or(i16::MAX);
    ScopeColumn { name: column.name.clone(), id, of: column.of, origin: (table.oid, number) }
}

fn scope_table(target: &Target, columns: Vec<ScopeColumn>, hidden: Vec<ScopeColumn>) -> ScopeTable {
    ScopeTable {
        name: target.name.clone(),
        schema: target.schema.clone(),
        columns,
        hidden,
        row: None,
        table: Some(Arc::clone(&target.table)),
        is_scalar: false,
        is_visible: true,
    }
}

/// The position of a column that can be given a value.
fn column_position(table: &Table, name: &str) -> SqlResult<usize> {
    match live_columns(table).find(|(_, column)| column.name == name) {
        Some((position, _)) => Ok(position),
        None => {
            let message = format!("column \"{name}\" of relation \"{}\" does not exist", table.name);
            Err(SqlError::new(SqlState::UNDEFINED_COLUMN, message))
        }
    }
}

/// Why a column takes nothing but its default: the detail of the error.
fn no_value_of_its_own(column: &Column) -> Option<String> {
    if column.generated.is_some() {
        return Some(format!("Column \"{}\" is a generated column.", column.name));
    }
    (column.identity == Some(Identity::Always))
        .then(|| format!("Column \"{}\" is an identity column defined as GENERATED ALWAYS.", column.name))
}

fn row_arguments(call: &sqlparser::ast::Function) -> SqlResult<Vec<&Expr>> {
    use sqlparser::ast::{FunctionArg, FunctionArgExpr, FunctionArguments};
    let FunctionArguments::List(list) = &call.args else { return Ok(Vec::new()) };
    let plain = |argument| match argument {
        &FunctionArg::Unnamed(FunctionArgExpr::Expr(ref value)) => Ok(value),
        _ => Err(SqlError::new(SqlState::SYNTAX_ERROR, "syntax error in ROW()")),
    };
    list.args.iter().map(plain).collect()
}
