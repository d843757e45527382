//! `INSERT`: which columns, which values, what the others get.

use seawall_values::{SqlError, SqlResult, SqlState};
use sqlparser::ast::{Expr, Insert, ObjectName, OnInsert, Query, SetExpr, TableObject};

use super::super::Binder;
use super::super::expression::qualified;
use super::super::scope::{Clause, Scope};
use super::super::set_operation::literal_of;
use super::element::Element;
use super::{Target, live_columns, no_value_of_its_own, scope_column, scope_table};
use crate::algebra::{ChangeKind, ColumnId, Expression, ExpressionKind, OutputColumn, Relation};
use crate::parse::Overriding;

/// A row source: its relation, and the column that each given column of the table takes its value from.
type Source = (Relation, Vec<(usize, ColumnId)>);

/// The columns that are listed, by position, and the parts of them that are given.
pub(super) struct Listed<'i> {
    /// An error: it is a column of a view that takes no value.
    pub(super) positions: Vec<SqlResult<usize>>,
    /// For each of them; none: all are given whole.
    elements: Vec<Option<Element>>,
    names: &'i [ObjectName],
}

impl Listed<'_> {
    pub(super) fn element(&self, index: usize) -> Option<&Element> {
        self.elements.get(index).and_then(Option::as_ref)
    }
}

impl Binder<'_> {
    pub(super) fn insert(&mut self, insert: &Insert) -> SqlResult<(Relation, Vec<OutputColumn>)> {
        if insert.or.is_some()
            || insert.ignore
            || insert.overwrite
            || insert.replace_into
            || !insert.assignments.is_empty()
        {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "syntax error in INSERT"));
        }
        let TableObject::TableName(name) = &insert.table else {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "syntax error in INSERT"));
        };
        let alias = insert.table_alias.as_ref().map(|alias| &alias.alias);
        let target = self.target(name, alias, "insert into")?;
        let elements = crate::parse::listed_elements(insert).unwrap_or_default();
        let listed = self.listed_columns(&target, &insert.columns, elements)?;
        let overriding = crate::parse::overriding(insert);
        let (mut relation, mut values) = match &insert.source {
            None => (Relation::OneRow, Vec::new()),
            Some(source) => {
                let source = self.source(&target, source, &listed, overriding)?;
                self.with_elements(source, &listed.elements, &target.table.columns)?
            }
        };
        let given: Vec<usize> = match insert.columns.is_empty() {
            true => values.iter().map(|(position, _)| *position).collect(),
            false => listed.positions.into_iter().filter_map(Result::ok).collect(),
        };
        self.need_insert(target.oid(), target.numbers(&given));
        let mut computed = Vec::new();
        for (position, column) in live_columns(&target.table) {
            let has_value = values.iter().any(|(known, _)| *known == position);
            if has_value
                || column.generated.is_some()
                || (column.default.is_none() && column.identity.is_none() && column.domain == 0)
            {
                continue;
            }
            let value = self.default_value(&target.table, position)?;
            let id = self.new_column();
            computed.push((id, value));
            values.push((position, id));
        }
        relation = with_computed(relation, computed);
        if let Some(condition) = self.copied_where.take() {
            relation = self.with_copied_where(&target, relation, &values, &condition)?;
        }
        relation = self.with_generated(&target, relation, &mut values)?;
        let conflict = match &insert.on {
            None => None,
            Some(OnInsert::OnConflict(written)) => Some(self.conflict(&target, insert, written)?),
            Some(_) => {
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, "syntax error at or near \"DUPLICATE\""));
            }
        };
        let scope = self.scope();
        scope.tables.clear();
        scope.columns.clear();
        self.changed(&target, relation, ChangeKind::Insert { values, conflict }, insert.returning.as_deref())
    }

    /// The rows of a `COPY` that meet its `WHERE`, which names columns of the table; one without a value is null there.
    fn with_copied_where(
        &mut self,
        target: &Target,
        relation: Relation,
        values: &[(usize, ColumnId)],
        condition: &Expr,
    ) -> SqlResult<Relation> {
        let (nulls, row) = self.with_nulls(target, values);
        let columns: Vec<_> = live_columns(&target.table)
            .filter_map(|(position, column)| {
                let (_, id) = row.iter().find(|(known, _)| *known == position)?;
                Some(scope_column(&target.table, position, column, *id))
            })
            .collect();
        let tables = vec![scope_table(target, columns.clone(), Vec::new())];
        let scope = Scope { columns, tables, clause: Some(Clause::CopyWhere), ..Scope::default() };
        let outer = std::mem::replace(&mut self.scopes, vec![scope]);
        let value = self.expression(condition);
        let predicate = value.and_then(|value| self.coerce_to_boolean(value, "WHERE"));
        self.scopes = outer;
        let predicate = predicate?;
        let used = crate::optimize::used_columns(&predicate);
        for (position, id) in &row {
            let column = &target.table.columns[*position];
            if column.generated.is_some() && used.contains(id) {
                let message = "generated columns are not supported in COPY FROM WHERE conditions";
                return Err(SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message)
                    .with_detail(format!("Column \"{}\" is a generated column.", column.name)));
            }
        }
        Ok(Relation::Filter { input: Box::new(with_computed(relation, nulls)), predicate })
    }

    /// Nulls for the columns that have no value, and the columns of a whole row.
    #[expect(clippy::type_complexity, reason = "what is computed, and where each column is")]
    fn with_nulls(
        &mut self,
        target: &Target,
        values: &[(usize, ColumnId)],
    ) -> (Vec<(ColumnId, Expression)>, Vec<(usize, ColumnId)>) {
        let mut nulls = Vec::new();
        let mut row = values.to_vec();
        for (position, column) in live_columns(&target.table) {
            if !row.iter().any(|(known, _)| *known == position) {
                let id = self.new_column();
                let kind = ExpressionKind::Constant(seawall_values::Datum::Null);
                nulls.push((id, Expression { kind, of: column.of, position: None }));
                row.push((position, id));
            }
        }
        (nulls, row)
    }

    /// Generated columns, from the values that the others get; a column that gets none is null there.
    fn with_generated(
        &mut self,
        target: &Target,
        relation: Relation,
        values: &mut Vec<(usize, ColumnId)>,
    ) -> SqlResult<Relation> {
        if target.table.columns.iter().all(|column| column.generated.is_none()) {
            return Ok(relation);
        }
        let (nulls, row) = self.with_nulls(target, values);
        let generated = self.generated_values(&target.table, &row)?;
        let mut computed = Vec::with_capacity(generated.len());
        for (position, value) in generated {
            let id = self.new_column();
            computed.push((id, value));
            values.push((position, id));
        }
        Ok(with_computed(with_computed(relation, nulls), computed))
    }

    /// The columns that are given values, by position: those that are listed, or all.
    pub(super) fn listed_columns<'i>(
        &mut self,
        target: &Target,
        names: &'i [ObjectName],
        written: &[Expr],
    ) -> SqlResult<Listed<'i>> {
        if names.is_empty() {
            let positions = match &target.view {
                Some(view) => view.positions(),
                None => live_columns(&target.table).map(|(position, _)| Ok(position)).collect(),
            };
            return Ok(Listed { positions, elements: Vec::new(), names });
        }
        let mut elements: Vec<Option<Element>> = Vec::with_capacity(written.len());
        let mut listed = Vec::with_capacity(names.len());
        for (index, name) in names.iter().enumerate() {
            let at = self.position(name);
            let plain = qualified(name).1;
            let position = target.column_position(&plain, at)?;
            let element = match written.get(index) {
                Some(written) => self.element(&target.table.columns[position], written)?,
                None => None,
            };
            let is_repeated = (0..index).any(|before| {
                listed[before] == position
                    && (element.is_none() || elements.get(before).is_none_or(Option::is_none))
            });
            elements.push(element);
            if is_repeated {
                let message = format!("column \"{plain}\" specified more than once");
                return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message).at(at));
            }
            listed.push(position);
        }
        Ok(Listed { positions: listed.into_iter().map(Ok).collect(), elements, names })
    }

    fn source(
        &mut self,
        target: &Target,
        source: &Query,
        listed: &Listed<'_>,
        overriding: Option<Overriding>,
    ) -> SqlResult<Source> {
        if let SetExpr::Values(values) = source.body.as_ref()
            && source.with.is_none()
            && source.order_by.is_none()
            && source.limit_clause.is_none()
        {
            let rows: Vec<&[Expr]> = values.rows.iter().map(|row| row.content.as_slice()).collect();
            return self.value_rows(target, &rows, listed, overriding);
        }
        let (mut relation, output) = self.deeper(|binder| binder.bind_query(source, true))?;
        let last = output.last().and_then(|column| self.shown_position(&relation, column));
        let given = self.given_columns(listed, output.len(), last)?;
        let mut values = Vec::with_capacity(given.len());
        let mut computed = Vec::new();
        for (index, (position, from)) in given.iter().zip(&output).enumerate() {
            let column = &target.table.columns[*position];
            let value = match literal_of(&mut relation, from.column) {
                Some(literal) if literal.of.oid == seawall_values::oid::UNKNOWN => literal,
                _ => self.column_expression(from.column, from.of),
            };
            if self.takes_default(target, *position, overriding)? {
                continue;
            }
            let value = match listed.element(index) {
                Some(element) => self.element_value(column, element, value)?,
                None => self.assigned(column, value)?,
            };
            let (id, _) = self.as_column(value, &mut computed);
            values.push((*position, id));
        }
        Ok((with_computed(relation, computed), values))
    }

    fn shown_position(&self, relation: &Relation, column: &OutputColumn) -> Option<u32> {
        match relation {
            Relation::Compute { values, .. } => {
                values.iter().find(|(id, _)| *id == column.column).and_then(|(_, value)| value.position)
            }
            _ => None,
        }
    }

    /// `VALUES`: each value is one of its column's type, or `DEFAULT`.
    fn value_rows(
        &mut self,
        target: &Target,
        rows: &[&[Expr]],
        listed: &Listed<'_>,
        overriding: Option<Overriding>,
    ) -> SqlResult<Source> {
        let width = rows.first().map_or(0, |row| row.len());
        if rows.iter().any(|row| row.len() != width) {
            let odd = rows.iter().find(|row| row.len() != width).and_then(|row| row.first());
            let at = odd.and_then(|value| self.position(value));
            let message = "VALUES lists must all be the same length";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message).at(at));
        }
        let first_extra = rows
            .first()
            .and_then(|row| row.get(listed.positions.len()))
            .and_then(|value| self.position(value));
        let given = self.given_columns(listed, width, first_extra)?;
        let mut typed = Vec::with_capacity(rows.len());
        for row in rows {
            let mut values = Vec::with_capacity(width);
            for (index, (position, written)) in given.iter().zip(*row).enumerate() {
                let value = self.in_clause(Clause::Values, |binder| binder.expression(written))?;
                values.push(match listed.element(index) {
                    Some(element) => self.element_value(&target.table.columns[*position], element, value)?,
                    None => self.inserted_value(target, *position, value, overriding)?,
                });
            }
            typed.push(values);
        }
        let columns: Vec<ColumnId> = given.iter().map(|_| self.new_column()).collect();
        let pairs = given.iter().copied().zip(columns.iter().copied()).collect();
        if typed.len() == 1 {
            // As a list of results: a function in it may return a set.
            let relation = self.with_sets(Relation::OneRow);
            let values = columns.into_iter().zip(typed.into_iter().flatten()).collect();
            return Ok((with_computed(relation, values), pairs));
        }
        if !self.scope().sets.is_empty() {
            let message = "set-returning functions are not allowed in VALUES";
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        Ok((Relation::Values { columns, rows: typed }, pairs))
    }

    pub(super) fn inserted_value(
        &mut self,
        target: &Target,
        position: usize,
        value: Expression,
        overriding: Option<Overriding>,
    ) -> SqlResult<Expression> {
        let column = &target.table.columns[position];
        if matches!(value.kind, ExpressionKind::Default) {
            if column.generated.is_some() {
                // Its value is put in its place after the others are known.
                let kind = ExpressionKind::Constant(seawall_values::Datum::Null);
                return Ok(Expression { kind, of: column.of, position: None });
            }
            return self.default_value(&target.table, position);
        }
        if self.takes_default(target, position, overriding)? {
            return self.default_value(&target.table, position);
        }
        self.assigned(column, value)
    }

    /// Whether the value of an identity column is passed over (`OVERRIDING USER VALUE`); an error where none may be given.
    fn takes_default(
        &self,
        target: &Target,
        position: usize,
        overriding: Option<Overriding>,
    ) -> SqlResult<bool> {
        let column = &target.table.columns[position];
        if column.identity.is_some() && overriding == Some(Overriding::User) {
            return Ok(true);
        }
        let is_overridden = column.identity.is_some() && overriding == Some(Overriding::System);
        match no_value_of_its_own(column) {
            Some(detail) if !is_overridden => {
                let message = format!("cannot insert a non-DEFAULT value into column \"{}\"", column.name);
                let error = SqlError::new(SqlState::GENERATED_ALWAYS, message).with_detail(detail);
                Err(match column.identity {
                    Some(_) => error.with_hint("Use OVERRIDING SYSTEM VALUE to override."),
                    None => error,
                })
            }
            _ => Ok(false),
        }
    }

    /// The columns that so many values are for.
    pub(super) fn given_columns(
        &self,
        listed: &Listed<'_>,
        values: usize,
        at: Option<u32>,
    ) -> SqlResult<Vec<usize>> {
        if values > listed.positions.len() {
            let message = "INSERT has more expressions than target columns";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message).at(at));
        }
        if let Some(name) = listed.names.get(values) {
            let at = self.position(name);
            let message = "INSERT has more target columns than expressions";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message).at(at));
        }
        listed.positions[..values].iter().cloned().collect()
    }
}

fn with_computed(input: Relation, values: Vec<(ColumnId, Expression)>) -> Relation {
    if values.is_empty() {
        return input;
    }
    Relation::Compute { input: Box::new(input), values }
}
