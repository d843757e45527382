//! `FROM`: tables, subqueries, functions, joins.

use std::sync::Arc;

use seawall_values::system::FunctionKind;
use seawall_values::{Datum, SqlError, SqlResult, SqlState, TypeReference, oid};
use sqlparser::ast::{
    Expr, FunctionArg, Join, JoinConstraint, JoinOperator, ObjectName, TableAlias, TableFactor,
    TableWithJoins,
};

use super::call::{FunctionName, FunctionOrCast, has_set_implementation, not_there};
use super::expression::{folded, qualified};
use super::scope::{Clause, ScopeColumn, ScopeTable};
use super::{Binder, boolean, constant};
use crate::algebra::{Call, Expression, ExpressionKind, JoinKind, Relation, Scan, Written};
use crate::schema::{Definition, SystemRelation, Table, View};

/// A part of `FROM` with what it makes visible.
#[derive(Debug)]
pub(super) struct FromItem {
    pub(super) relation: Relation,
    pub(super) tables: Vec<ScopeTable>,
    pub(super) columns: Vec<ScopeColumn>,
}

/// A function in FROM, and the columns of its rows.
type CalledRows = (Call, Vec<(String, TypeReference)>);

impl FromItem {
    pub(super) fn of_table(relation: Relation, table: ScopeTable) -> FromItem {
        FromItem { relation, columns: table.columns.clone(), tables: vec![table] }
    }
}

fn always() -> Expression {
    constant(seawall_values::Datum::Bool(true), oid::BOOL)
}

impl Binder<'_> {
    /// Binds the whole list into the innermost scope; the relation.
    pub(super) fn from(&mut self, list: &[TableWithJoins]) -> SqlResult<Relation> {
        let mut whole: Option<FromItem> = None;
        for item in list {
            let next = match whole.take() {
                None => self.table_with_joins(item)?,
                Some(left) => {
                    let right = self.beside(&left, |binder| binder.table_with_joins(item))?;
                    let joined = Relation::Join {
                        kind: JoinKind::Inner,
                        left: Box::new(left.relation),
                        right: Box::new(right.relation),
                        condition: always(),
                    };
                    let (mut tables, mut columns) = (left.tables, left.columns);
                    self.check_aliases(&tables, &right.tables)?;
                    tables.extend(right.tables);
                    columns.extend(right.columns);
                    FromItem { relation: joined, tables, columns }
                }
            };
            whole = Some(next);
        }
        let Some(whole) = whole else { return Ok(Relation::OneRow) };
        let scope = self.scope();
        scope.tables = whole.tables;
        scope.columns = whole.columns;
        Ok(whole.relation)
    }

    /// Runs `body` where what is left of it can be used laterally.
    fn beside<T>(&mut self, left: &FromItem, body: impl FnOnce(&mut Self) -> SqlResult<T>) -> SqlResult<T> {
        let scope = self.scope();
        let before = (scope.tables.len(), scope.columns.len());
        scope.tables.extend(left.tables.iter().cloned());
        scope.columns.extend(left.columns.iter().cloned());
        let result = body(self);
        let scope = self.scope();
        scope.tables.truncate(before.0);
        scope.columns.truncate(before.1);
        result
    }

    /// Runs `body` where nothing of this query's `FROM` can be used.
    fn alone<T>(&mut self, body: impl FnOnce(&mut Self) -> SqlResult<T>) -> SqlResult<T> {
        let scope = self.scope();
        let hidden = |table: &mut ScopeTable| std::mem::replace(&mut table.is_visible, false);
        let visible: Vec<bool> = scope.tables.iter_mut().map(hidden).collect();
        let columns = std::mem::take(&mut scope.columns);
        let result = body(self);
        let scope = self.scope();
        scope.columns = columns;
        for (table, is_visible) in scope.tables.iter_mut().zip(visible) {
            table.is_visible = is_visible;
        }
        result
    }

    fn check_aliases(&self, left: &[ScopeTable], right: &[ScopeTable]) -> SqlResult<()> {
        for table in right {
            let is_same = |other: &&ScopeTable| {
                other.name == table.name
                    && (other.schema.is_none() || table.schema.is_none() || other.schema == table.schema)
            };
            if !table.name.is_empty() && left.iter().any(|other| is_same(&other)) {
                let message = format!("table name \"{}\" specified more than once", table.name);
                return Err(SqlError::new(SqlState::DUPLICATE_ALIAS, message));
            }
        }
        Ok(())
    }

    fn table_with_joins(&mut self, item: &TableWithJoins) -> SqlResult<FromItem> {
        self.deeper(|binder| {
            let mut left = binder.factor(&item.relation)?;
            for join in &item.joins {
                left = binder.join(left, join)?;
            }
            Ok(left)
        })
    }

    fn factor(&mut self, factor: &TableFactor) -> SqlResult<FromItem> {
        match factor {
            TableFactor::Table { name, alias, args: None, with_ordinality: false, sample: None, .. } => {
                self.named_relation(name, alias.as_ref())
            }
            TableFactor::Table { name, alias, args: Some(args), with_ordinality, .. }
                if crate::parse::is_rows_from(name) =>
            {
                self.rows_from(&args.args, *with_ordinality, alias.as_ref())
            }
            TableFactor::Table { name, alias, args: Some(args), with_ordinality, .. } => {
                self.table_function(name, &args.args, *with_ordinality, alias.as_ref())
            }
            TableFactor::Function { name, args, with_ordinality, alias, .. }
                if crate::parse::is_rows_from(name) =>
            {
                self.rows_from(args, *with_ordinality, alias.as_ref())
            }
            TableFactor::Function { name, args, with_ordinality, alias, .. } => {
                self.table_function(name, args, *with_ordinality, alias.as_ref())
            }
            TableFactor::UNNEST { alias, array_exprs, with_offset: false, with_ordinality, .. } => {
                self.unnest(array_exprs, *with_ordinality, alias.as_ref())
            }
            TableFactor::Derived { lateral, subquery, alias, sample: None } => {
                let bound = match lateral {
                    true => self.subquery(subquery),
                    false => self.alone(|binder| binder.subquery(subquery)),
                };
                let (relation, output) = bound?;
                let columns: Vec<ScopeColumn> = output
                    .into_iter()
                    .map(|column| ScopeColumn {
                        name: column.name,
                        id: column.column,
                        of: column.of,
                        origin: column.origin,
                    })
                    .collect();
                if alias.is_none() {
                    let position = self.position(factor);
                    return Err(SqlError::new(SqlState::SYNTAX_ERROR, "subquery in FROM must have an alias")
                        .with_hint("For example, FROM (SELECT ...) [AS] foo.")
                        .at(position));
                }
                self.aliased(relation, String::new(), None, columns, alias.as_ref(), None)
            }
            TableFactor::NestedJoin { table_with_joins, alias } => {
                let inner = self.table_with_joins(table_with_joins)?;
                match alias {
                    None => Ok(inner),
                    Some(_) => {
                        self.aliased(inner.relation, String::new(), None, inner.columns, alias.as_ref(), None)
                    }
                }
            }
            TableFactor::Table { sample: Some(_), .. } | TableFactor::Derived { sample: Some(_), .. } => {
                Err(SqlError::unsupported("TABLESAMPLE"))
            }
            other => Err(SqlError::unsupported(format!("FROM {other}"))),
        }
    }

    /// The relation with a name: a common table expression, a table, a view, a system relation.
    fn named_relation(&mut self, name: &ObjectName, alias: Option<&TableAlias>) -> SqlResult<FromItem> {
        let position = self.position(name);
        let (schema, plain) = qualified(name);
        if schema.is_none()
            && let Some((relation, columns)) = self.common_table(&plain, position)?
        {
            return self.aliased(relation, plain, None, columns, alias, None);
        }
        let found = self.find_relation(schema.as_deref(), &plain)?;
        let Some(found) = found else {
            return Err(missing_relation(schema.as_deref(), &plain).at(position));
        };
        let item = match &found {
            Definition::Table(table) => self.table(table, schema, alias)?,
            Definition::View(view) => self.view(view, alias, position)?,
            Definition::System(system) => self.system_relation(system, schema, alias)?,
            Definition::Sequence(sequence) => self.sequence(sequence, alias)?,
            Definition::Index(..) => {
                return Err(SqlError::new(
                    SqlState::WRONG_OBJECT_TYPE,
                    format!("cannot open relation \"{plain}\""),
                )
                .with_detail("This operation is not supported for indexes.")
                .at(position));
            }
        };
        self.need_select(found, &item.columns);
        Ok(item)
    }

    /// A relation by its name, where the text that is bound is read with a search path of its own.
    pub(crate) fn find_relation(
        &mut self,
        schema: Option<&str>,
        name: &str,
    ) -> SqlResult<Option<Definition>> {
        if schema.is_none()
            && let Some(path) = self.search_path.clone()
        {
            for schema in &path {
                if let Some(found) = self.definitions.relation(Some(schema), name)? {
                    return Ok(Some(found));
                }
            }
        }
        if let Some(schema) = schema
            && self.search_path.is_none()
        {
            self.definitions.check_may_use(schema)?;
        }
        self.definitions.relation(schema, name)
    }

    fn table(
        &mut self,
        table: &Arc<Table>,
        schema: Option<String>,
        alias: Option<&TableAlias>,
    ) -> SqlResult<FromItem> {
        self.used.push((table.oid, table.version));
        let (scan, columns, hidden, row) = self.scan(table);
        let mut item = self.aliased(scan, table.name.clone(), schema, columns, alias, Some(table))?;
        if let Some(first) = item.tables.first_mut() {
            first.hidden = hidden;
            first.row = Some(row);
        }
        Ok(item)
    }

    /// A scan of all columns of a table; what is not used is left out later.
    pub(super) fn scan(
        &mut self,
        table: &Arc<Table>,
    ) -> (Relation, Vec<ScopeColumn>, Vec<ScopeColumn>, crate::algebra::ColumnId) {
        let mut scanned = Vec::new();
        let mut columns = Vec::new();
        for (position, column) in table.columns.iter().enumerate().filter(|(_, column)| !column.is_dropped) {
            let id = self.new_column();
            scanned.push((position, id));
            let number = i16::try_from(position + 1).unwrap_or(i16::MAX);
            columns.push(ScopeColumn {
                name: column.name.clone(),
                id,
                of: column.of,
                origin: (table.oid, number),
            });
        }
        let (row, table_oid) = (self.new_column(), self.new_column());
        let hidden = vec![ScopeColumn {
            name: "tableoid".to_owned(),
            id: table_oid,
            of: TypeReference::of(oid::OID),
            origin: (table.oid, -6),
        }];
        let scan =
            Scan { table: Arc::clone(table), columns: scanned, row: Some(row), table_oid: Some(table_oid) };
        (Relation::Scan(scan), columns, hidden, row)
    }

    fn view(
        &mut self,
        view: &Arc<View>,
        alias: Option<&TableAlias>,
        position: Option<u32>,
    ) -> SqlResult<FromItem> {
        let text = crate::parse::Text::new(&view.query);
        let query = crate::parse::query(&text)
            .map_err(|error| SqlError::internal(format!("the text of view \"{}\": {error}", view.name)))?;
        // Its text sees nothing of the query that it is used in.
        let scopes = std::mem::take(&mut self.scopes);
        let tables = std::mem::take(&mut self.common_tables);
        let path = self.search_path.replace(view.search_path.clone());
        let owner = self.view_owner.replace(view.owner);
        let bound = self.deeper(|binder| binder.subquery(&query));
        self.scopes = scopes;
        self.common_tables = tables;
        self.search_path = path;
        self.view_owner = owner;
        let (relation, output) = bound.map_err(|mut error| {
            error.position = position;
            error
        })?;
        let columns = output
            .into_iter()
            .zip(&view.columns)
            .enumerate()
            .map(|(index, (column, (name, _)))| ScopeColumn {
                name: name.clone(),
                id: column.column,
                of: column.of,
                origin: (view.oid, i16::try_from(index + 1).unwrap_or(i16::MAX)),
            })
            .collect();
        self.aliased(relation, view.name.clone(), None, columns, alias, None)
    }

    fn system_relation(
        &mut self,
        system: &Arc<SystemRelation>,
        schema: Option<String>,
        alias: Option<&TableAlias>,
    ) -> SqlResult<FromItem> {
        let mut scanned = Vec::with_capacity(system.columns.len());
        let mut columns = Vec::with_capacity(system.columns.len());
        for (position, (name, of)) in system.columns.iter().enumerate() {
            let id = self.new_column();
            scanned.push((position, id));
            let number = i16::try_from(position + 1).unwrap_or(i16::MAX);
            columns.push(ScopeColumn { name: (*name).to_owned(), id, of: *of, origin: (system.oid, number) });
        }
        let table_oid = self.new_column();
        let relation = Relation::Compute {
            input: Box::new(Relation::System { relation: system.oid, columns: scanned }),
            values: vec![(table_oid, constant(seawall_values::Datum::Oid(system.oid), oid::OID))],
        };
        let mut item = self.aliased(relation, system.name.to_owned(), schema, columns, alias, None)?;
        if let Some(first) = item.tables.first_mut() {
            first.hidden.push(ScopeColumn {
                name: "tableoid".to_owned(),
                id: table_oid,
                of: TypeReference::of(oid::OID),
                origin: (system.oid, -6),
            });
        }
        Ok(item)
    }

    /// A sequence is a relation of one row.
    fn sequence(
        &mut self,
        sequence: &Arc<crate::schema::Sequence>,
        alias: Option<&TableAlias>,
    ) -> SqlResult<FromItem> {
        let shown = [("last_value", oid::INT8), ("log_cnt", oid::INT8), ("is_called", oid::BOOL)];
        let mut columns = Vec::new();
        let mut scanned = Vec::new();
        for (position, (name, of)) in shown.into_iter().enumerate() {
            let id = self.new_column();
            scanned.push((position, id));
            columns.push(ScopeColumn {
                name: name.to_owned(),
                id,
                of: TypeReference::of(of),
                origin: (0, 0),
            });
        }
        let relation = Relation::System { relation: sequence.oid, columns: scanned };
        self.aliased(relation, sequence.name.clone(), None, columns, alias, None)
    }

    /// With an alias for the table, and names for its first columns.
    fn aliased(
        &mut self,
        relation: Relation,
        name: String,
        schema: Option<String>,
        mut columns: Vec<ScopeColumn>,
        alias: Option<&TableAlias>,
        table: Option<&Arc<Table>>,
    ) -> SqlResult<FromItem> {
        let (name, schema) = match alias {
            Some(alias) => (folded(&alias.name), None),
            None => (name, schema),
        };
        if let Some(alias) = alias {
            if alias.columns.len() > columns.len() {
                let message = format!(
                    "table \"{name}\" has {} columns available but {} columns specified",
                    columns.len(),
                    alias.columns.len()
                );
                return Err(SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message));
            }
            for (column, written) in columns.iter_mut().zip(&alias.columns) {
                column.name = folded(&written.name);
            }
        }
        let table = ScopeTable {
            name,
            schema,
            columns,
            hidden: Vec::new(),
            row: None,
            table: table.cloned(),
            is_scalar: false,
            is_visible: true,
        };
        Ok(FromItem::of_table(relation, table))
    }

    // Functions.

    fn table_function(
        &mut self,
        name: &ObjectName,
        arguments: &[FunctionArg],
        has_ordinality: bool,
        alias: Option<&TableAlias>,
    ) -> SqlResult<FromItem> {
        let position = self.position(name);
        let (schema, plain) = qualified(name);
        let named;
        let alias = match alias {
            Some(unnamed) if crate::parse::is_columns_mark(&unnamed.name) => {
                named =
                    TableAlias { name: sqlparser::ast::Ident::with_quote('"', &plain), ..unnamed.clone() };
                Some(&named)
            }
            alias => alias,
        };
        if schema.is_none() && plain == "unnest" && arguments.len() > 1 {
            let expressions: Option<Vec<Expr>> = arguments
                .iter()
                .map(|argument| match argument {
                    FunctionArg::Unnamed(sqlparser::ast::FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
                    _ => None,
                })
                .collect();
            if let Some(expressions) = expressions {
                return self.unnest(&expressions, has_ordinality, alias);
            }
        }
        let call = self.in_clause(Clause::From, |binder| {
            let message = "set-returning functions must appear at top level of FROM";
            let (bound, is_variadic) =
                binder.without_sets(message, |binder| binder.arguments(arguments, position))?;
            binder.call(
                &FunctionName { schema: schema.clone(), name: plain.clone() },
                bound,
                is_variadic,
                position,
            )
        })?;
        let chosen = match call {
            FunctionOrCast::Function(chosen) => *chosen,
            FunctionOrCast::Cast(value) => {
                return self.value_in_from(*value, &plain, has_ordinality, alias);
            }
        };
        match chosen.function.kind {
            FunctionKind::Aggregate => {
                let message = "aggregate functions are not allowed in functions in FROM";
                return Err(SqlError::new(SqlState::GROUPING_ERROR, message).at(position));
            }
            FunctionKind::Window => {
                let message = "window functions are not allowed in functions in FROM";
                return Err(SqlError::new(SqlState::WINDOWING_ERROR, message).at(position));
            }
            _ => {}
        }
        let takes_columns = seawall_values::set_returning::takes_columns(&chosen.function.source);
        if !chosen.function.returns_set && !takes_columns {
            let call =
                Call { function: chosen.function, arguments: chosen.arguments, written: Written::Function };
            let value = self.implemented(call, chosen.result, position)?;
            return self.value_in_from(value, &plain, has_ordinality, alias);
        }
        if !has_set_implementation(&chosen.function) {
            return Err(not_there(&chosen.function).at(position));
        }
        let mut call =
            Call { function: chosen.function, arguments: chosen.arguments, written: Written::Function };
        let outputs = self.function_columns(&call, chosen.result, &plain, alias, position)?;
        if takes_columns {
            call.arguments.extend(column_arguments(&outputs));
        }
        self.functions(vec![(call, outputs)], &plain, has_ordinality, alias)
    }

    /// The columns that a function returns: name and type.
    fn function_columns(
        &mut self,
        call: &Call,
        result: seawall_values::Oid,
        name: &str,
        alias: Option<&TableAlias>,
        position: Option<u32>,
    ) -> SqlResult<Vec<(String, TypeReference)>> {
        let outputs = super::types::result_columns(call);
        if !outputs.is_empty() {
            return Ok(outputs);
        }
        if super::types::is_row_type(result) {
            return self.row_columns(result);
        }
        if result == oid::RECORD {
            let definitions = alias.map(|alias| alias.columns.as_slice()).unwrap_or_default();
            let defined: Option<Vec<_>> = definitions
                .iter()
                .map(|column| column.data_type.as_ref().map(|of| (folded(&column.name), of)))
                .collect();
            return match defined {
                Some(defined) if !defined.is_empty() => {
                    defined.into_iter().map(|(name, of)| Ok((name, self.type_of(of)?))).collect()
                }
                _ => Err(SqlError::new(
                    SqlState::SYNTAX_ERROR,
                    "a column definition list is required for functions returning \"record\"",
                )
                .at(position)),
            };
        }
        // The alias of a function that returns one value names the value, too.
        let name = alias.map_or_else(|| name.to_owned(), |alias| folded(&alias.name));
        Ok(vec![(name, TypeReference::of(result))])
    }

    fn functions(
        &mut self,
        calls: Vec<CalledRows>,
        name: &str,
        has_ordinality: bool,
        alias: Option<&TableAlias>,
    ) -> SqlResult<FromItem> {
        let mut columns = Vec::new();
        let mut functions = Vec::new();
        let is_scalar = calls.len() == 1
            && calls.iter().all(|(call, outputs)| outputs.len() == 1 && call.function.result != oid::RECORD);
        for (call, outputs) in calls {
            let mut made = Vec::new();
            for (name, of) in outputs {
                let id = self.new_column();
                made.push(id);
                columns.push(ScopeColumn { name, id, of, origin: (0, 0) });
            }
            functions.push((call, made));
        }
        let ordinality = has_ordinality.then(|| self.new_column());
        if let Some(id) = ordinality {
            let of = TypeReference::of(oid::INT8);
            columns.push(ScopeColumn { name: "ordinality".to_owned(), id, of, origin: (0, 0) });
        }
        let relation = Relation::Functions { functions, ordinality };
        let mut item = self.aliased(relation, name.to_owned(), None, columns, alias, None)?;
        if let Some(first) = item.tables.first_mut() {
            first.is_scalar = is_scalar && ordinality.is_none();
        }
        Ok(item)
    }

    /// `ROWS FROM (f(..), g(..))`.
    fn rows_from(
        &mut self,
        functions: &[FunctionArg],
        has_ordinality: bool,
        alias: Option<&TableAlias>,
    ) -> SqlResult<FromItem> {
        let mut calls = Vec::with_capacity(functions.len());
        for function in functions {
            let FunctionArg::Unnamed(sqlparser::ast::FunctionArgExpr::Expr(Expr::Function(call))) = function
            else {
                return Err(SqlError::unsupported("ROWS FROM of what is no function"));
            };
            calls.extend(self.row_source(call)?);
        }
        self.functions(calls, "", has_ordinality, alias)
    }

    /// One function of `ROWS FROM`, or several `unnest` for one with several arrays.
    fn row_source(&mut self, call: &sqlparser::ast::Function) -> SqlResult<Vec<CalledRows>> {
        let position = self.position(&call.name);
        let sqlparser::ast::FunctionArguments::List(list) = &call.args else {
            return Err(SqlError::unsupported("ROWS FROM of this function").at(position));
        };
        let (schema, plain) = qualified(&call.name);
        if schema.is_none() && plain == "unnest" && list.args.len() > 1 {
            let array = |argument| match argument {
                &FunctionArg::Unnamed(sqlparser::ast::FunctionArgExpr::Expr(ref array)) => Ok(array.clone()),
                _ => Err(SqlError::unsupported("unnest of this argument").at(position)),
            };
            let arrays: Vec<Expr> = list.args.iter().map(array).collect::<SqlResult<_>>()?;
            return self.unnest_calls(&arrays, None);
        }
        let chosen = self.in_clause(Clause::From, |binder| {
            let message = "set-returning functions must appear at top level of FROM";
            let (bound, is_variadic) =
                binder.without_sets(message, |binder| binder.arguments(&list.args, position))?;
            binder.call(&FunctionName { schema, name: plain.clone() }, bound, is_variadic, position)
        })?;
        let FunctionOrCast::Function(chosen) = chosen else {
            return Err(SqlError::unsupported(format!("{plain} in ROWS FROM")).at(position));
        };
        let is_set = chosen.function.returns_set;
        let is_known = chosen.function.kind == FunctionKind::Function
            && !seawall_values::set_returning::takes_columns(&chosen.function.source);
        if !is_known || (is_set && !has_set_implementation(&chosen.function)) {
            return Err(not_there(&chosen.function).at(position));
        }
        let call =
            Call { function: chosen.function, arguments: chosen.arguments, written: Written::Function };
        let outputs = self.function_columns(&call, chosen.result, &plain, None, position)?;
        Ok(vec![(call, outputs)])
    }

    fn unnest(
        &mut self,
        arrays: &[Expr],
        has_ordinality: bool,
        alias: Option<&TableAlias>,
    ) -> SqlResult<FromItem> {
        let calls = self.unnest_calls(arrays, alias)?;
        self.functions(calls, "unnest", has_ordinality, alias)
    }

    fn unnest_calls(&mut self, arrays: &[Expr], alias: Option<&TableAlias>) -> SqlResult<Vec<CalledRows>> {
        let mut calls = Vec::with_capacity(arrays.len());
        for array in arrays {
            let position = self.position(array);
            let value = self.in_clause(Clause::From, |binder| binder.expression(array))?;
            let name = FunctionName { schema: Some("pg_catalog".to_owned()), name: "unnest".to_owned() };
            let argument = super::call::Argument { name: None, value };
            let FunctionOrCast::Function(chosen) = self.call(&name, vec![argument], false, position)? else {
                return Err(SqlError::internal("unnest that is a cast"));
            };
            let call =
                Call { function: chosen.function, arguments: chosen.arguments, written: Written::Function };
            let name = match (arrays.len(), alias) {
                (1, Some(alias)) => folded(&alias.name),
                _ => "unnest".to_owned(),
            };
            let outputs = if super::types::is_row_type(chosen.result) {
                self.row_columns(chosen.result)?
            } else {
                vec![(name, TypeReference::of(chosen.result))]
            };
            calls.push((call, outputs));
        }
        Ok(calls)
    }

    /// A function that returns one value is a table of one row.
    fn value_in_from(
        &mut self,
        value: Expression,
        name: &str,
        has_ordinality: bool,
        alias: Option<&TableAlias>,
    ) -> SqlResult<FromItem> {
        let fields = self.fields_of(&value)?;
        let mut values = Vec::new();
        let mut columns = Vec::new();
        let is_scalar = fields.is_empty();
        if is_scalar {
            let (id, of) = (self.new_column(), value.of);
            let name = alias.map_or_else(|| name.to_owned(), |alias| folded(&alias.name));
            columns.push(ScopeColumn { name, id, of, origin: (0, 0) });
            values.push((id, value));
        } else {
            for (index, (name, of)) in fields.into_iter().enumerate() {
                let id = self.new_column();
                columns.push(ScopeColumn { name, id, of, origin: (0, 0) });
                let kind = ExpressionKind::Field(Box::new(value.clone()), index);
                values.push((id, Expression { kind, of, position: None }));
            }
        }
        if has_ordinality {
            let (id, of) = (self.new_column(), TypeReference::of(oid::INT8));
            columns.push(ScopeColumn { name: "ordinality".to_owned(), id, of, origin: (0, 0) });
            values.push((id, constant(seawall_values::Datum::Int8(1), oid::INT8)));
        }
        let relation = Relation::Compute { input: Box::new(Relation::OneRow), values };
        let mut item = self.aliased(relation, name.to_owned(), None, columns, alias, None)?;
        if let Some(first) = item.tables.first_mut() {
            first.is_scalar = is_scalar && !has_ordinality;
        }
        Ok(item)
    }

    /// Binds a part of a clause.
    pub(super) fn in_clause<T>(
        &mut self,
        clause: Clause,
        body: impl FnOnce(&mut Self) -> SqlResult<T>,
    ) -> SqlResult<T> {
        let before = self.scope().clause.replace(clause);
        let result = body(self);
        self.scope().clause = before;
        result
    }

    // Joins.

    fn join(&mut self, left: FromItem, join: &Join) -> SqlResult<FromItem> {
        use JoinOperator as J;
        let (kind, constraint) = match &join.join_operator {
            J::Join(constraint) | J::Inner(constraint) => (JoinKind::Inner, constraint),
            J::CrossJoin(constraint) => (JoinKind::Inner, constraint),
            J::Left(constraint) | J::LeftOuter(constraint) => (JoinKind::Left, constraint),
            J::Right(constraint) | J::RightOuter(constraint) => (JoinKind::Right, constraint),
            J::FullOuter(constraint) => (JoinKind::Full, constraint),
            _ => {
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, "syntax error at or near \"JOIN\""));
            }
        };
        // Rows of the right side that have no match are in the result, too: they cannot depend on those of the left one.
        let right = match kind {
            JoinKind::Right | JoinKind::Full => {
                let tables = left.tables.iter().cloned();
                let hidden = tables.map(|table| ScopeTable { is_visible: false, ..table }).collect();
                let hidden = FromItem { relation: Relation::OneRow, tables: hidden, columns: Vec::new() };
                self.beside(&hidden, |binder| binder.factor(&join.relation))?
            }
            _ => self.beside(&left, |binder| binder.factor(&join.relation))?,
        };
        self.check_aliases(&left.tables, &right.tables)?;
        match constraint {
            JoinConstraint::None => Ok(joined(kind, left, right, always())),
            JoinConstraint::On(condition) => {
                let condition = self.join_condition(&left, &right, condition)?;
                Ok(joined(kind, left, right, condition))
            }
            JoinConstraint::Using(names) => {
                let (names, alias) = crate::parse::using_names(names);
                let names: Vec<String> = names.iter().map(|name| qualified(name).1).collect();
                let mut item = self.join_using(kind, left, right, &names, true)?;
                if let Some(alias) = alias {
                    let columns = item.columns[..names.len()].to_vec();
                    let merged = [ScopeTable::of_columns(qualified(alias).1, columns)];
                    self.check_aliases(&item.tables, &merged)?;
                    item.tables.extend(merged);
                }
                Ok(item)
            }
            JoinConstraint::Natural => {
                let is_shared = |name: &String| right.columns.iter().any(|column| column.name == *name);
                let names: Vec<String> =
                    left.columns.iter().map(|column| column.name.clone()).filter(is_shared).collect();
                self.join_using(kind, left, right, &names, false)
            }
        }
    }

    fn join_condition(
        &mut self,
        left: &FromItem,
        right: &FromItem,
        condition: &Expr,
    ) -> SqlResult<Expression> {
        let bound = self.in_clause(Clause::JoinOn, |binder| {
            binder.only_with(left, right, |binder| {
                let value = binder.expression(condition)?;
                binder.coerce_to_boolean(value, "JOIN/ON")
            })
        })?;
        Ok(bound)
    }

    /// Runs `body` where only the two sides of a join can be used, and what encloses the query.
    fn only_with<T>(
        &mut self,
        left: &FromItem,
        right: &FromItem,
        body: impl FnOnce(&mut Self) -> SqlResult<T>,
    ) -> SqlResult<T> {
        let scope = self.scope();
        let mut tables: Vec<ScopeTable> = left.tables.iter().chain(&right.tables).cloned().collect();
        // Those further left are named in messages only.
        let hidden = scope.tables.iter().cloned().map(|table| ScopeTable { is_visible: false, ..table });
        tables.extend(hidden);
        let columns = left.columns.iter().chain(&right.columns).cloned().collect();
        let tables = std::mem::replace(&mut scope.tables, tables);
        let columns = std::mem::replace(&mut scope.columns, columns);
        let result = body(self);
        let scope = self.scope();
        scope.tables = tables;
        scope.columns = columns;
        result
    }

    fn join_using(
        &mut self,
        kind: JoinKind,
        left: FromItem,
        right: FromItem,
        names: &[String],
        is_written: bool,
    ) -> SqlResult<FromItem> {
        let mut tests = Vec::with_capacity(names.len());
        let mut merged = Vec::with_capacity(names.len());
        let mut computed = Vec::new();
        for (index, name) in names.iter().enumerate() {
            if is_written && names[..index].contains(name) {
                let message = format!("column name \"{name}\" appears more than once in USING clause");
                return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
            }
            let from_left = one_column(&left.columns, name, "left")?;
            let from_right = one_column(&right.columns, name, "right")?;
            let side = |column: &ScopeColumn| self.column_expression(column.id, column.of);
            let (l, r) = (side(&from_left), side(&from_right));
            tests.push(self.operator(None, "=", Some(l.clone()), r.clone(), None)?);
            let common = self.common_type_of(&[&l, &r], "JOIN/USING")?;
            let (plain, other) = if kind == JoinKind::Right { (r, l) } else { (l, r) };
            let origin = if kind == JoinKind::Right { from_right.origin } else { from_left.origin };
            let plain = self.coerce_common(plain, common, "JOIN/USING")?;
            let value = if kind == JoinKind::Full {
                let of = TypeReference::of(common);
                let other = self.coerce_common(other, common, "JOIN/USING")?;
                Expression { kind: ExpressionKind::Coalesce(vec![plain, other]), of, position: None }
            } else {
                plain
            };
            let (id, of) = self.as_column(value, &mut computed);
            let origin = if kind == JoinKind::Full { (0, 0) } else { origin };
            merged.push(ScopeColumn { name: name.clone(), id, of, origin });
        }
        let rest = |columns: &[ScopeColumn]| -> Vec<ScopeColumn> {
            columns.iter().filter(|column| !names.contains(&column.name)).cloned().collect()
        };
        let columns: Vec<ScopeColumn> =
            merged.into_iter().chain(rest(&left.columns)).chain(rest(&right.columns)).collect();
        let condition = match tests.len() {
            0 => always(),
            1 => tests.remove(0),
            _ => boolean(ExpressionKind::And(tests), None),
        };
        let mut item = joined(kind, left, right, condition);
        item.columns = columns;
        if !computed.is_empty() {
            item.relation = Relation::Compute { input: Box::new(item.relation), values: computed };
        }
        Ok(item)
    }
}

fn one_column(columns: &[ScopeColumn], name: &str, side: &str) -> SqlResult<ScopeColumn> {
    let mut found = columns.iter().filter(|column| column.name == name);
    match (found.next(), found.next()) {
        (Some(column), None) => Ok(column.clone()),
        (Some(_), Some(_)) => {
            let message = format!("common column name \"{name}\" appears more than once in {side} table");
            Err(SqlError::new(SqlState::AMBIGUOUS_COLUMN, message))
        }
        (None, _) => {
            let message =
                format!("column \"{name}\" specified in USING clause does not exist in {side} table");
            Err(SqlError::new(SqlState::UNDEFINED_COLUMN, message))
        }
    }
}

fn joined(kind: JoinKind, left: FromItem, right: FromItem, condition: Expression) -> FromItem {
    let (mut tables, mut columns) = (left.tables, left.columns);
    tables.extend(right.tables);
    columns.extend(right.columns);
    let relation =
        Relation::Join { kind, left: Box::new(left.relation), right: Box::new(right.relation), condition };
    FromItem { relation, tables, columns }
}

/// `42P01`.
pub(crate) fn missing_relation(schema: Option<&str>, name: &str) -> Box<SqlError> {
    let written = match schema {
        Some(schema) => format!("{schema}.{name}"),
        None => name.to_owned(),
    };
    SqlError::new(SqlState::UNDEFINED_TABLE, format!("relation \"{written}\" does not exist"))
}

/// Names, types and modifiers of columns, as arguments of a function that makes rows of JSON.
fn column_arguments(columns: &[(String, TypeReference)]) -> [Expression; 3] {
    let array = |element: seawall_values::Oid,
                 array: seawall_values::Oid,
                 value: fn(&(String, TypeReference)) -> Datum| {
        let values = columns.iter().map(value).collect();
        constant(Datum::Array(Arc::new(seawall_values::Array::one_dimensional(element, values))), array)
    };
    [
        array(oid::TEXT, oid::TEXT_ARRAY, |(name, _)| Datum::text(name)),
        array(oid::OID, oid::OID_ARRAY, |(_, of)| Datum::Oid(of.oid)),
        array(oid::INT4, oid::INT4_ARRAY, |(_, of)| Datum::Int4(of.modifier)),
    ]
}
