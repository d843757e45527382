//! `CREATE TABLE`: columns and constraints with their types and expressions.

use std::sync::Arc;

use seawall_values::user_types::is_domain;
use seawall_values::{Datum, Oid, SqlError, SqlResult, SqlState, TypeReference, oid};
use sqlparser::ast::DataType;

use super::super::Session;
use crate::algebra::{Change, ChangeKind, ExpressionKind, Query, Relation};
use crate::bind::Clause;
use crate::parse::statement::definition::{
    ColumnDefinition, ConstraintClause, ConstraintDefinition, CreateTable, CreateTableAs, OnCommit,
    TableElement, TableSource, WrittenExpression,
};
use crate::parse::statement::{ObjectName, Statement};
use crate::parse::{Dml, Text};
use crate::schema::define::requests::{
    Expression, NewColumn, NewConstraint, NewConstraintKind, NewForeignKey, NewKey, NewTable,
};
use crate::schema::{Definition, Table};

/// Columns that expressions of a definition may name.
pub(super) type Columns = Vec<(String, TypeReference)>;

impl Session {
    pub(super) fn create_table(&mut self, text: &Text, create: &CreateTable) -> SqlResult<()> {
        let mut columns = Vec::new();
        let mut types: Columns = Vec::new();
        let mut constraints = Vec::new();
        // Types first: expressions may name columns that come later.
        for element in &create.elements {
            match element {
                TableElement::Column(column) => {
                    let (of, _) =
                        self.column_type(text, &column.of).map_err(|error| error.at(column.position))?;
                    types.push((column.name.clone(), of));
                }
                TableElement::Like(like) => {
                    let like = self.liked_columns(like)?;
                    types.extend(like.iter().map(|column| (column.name.clone(), column.of)));
                }
                TableElement::Constraint(_) => {}
            }
        }
        for element in &create.elements {
            match element {
                TableElement::Column(column) => {
                    columns.push(self.new_column(text, column, &types)?);
                    for constraint in &column.constraints {
                        constraints.push(self.new_constraint(
                            text,
                            constraint,
                            &types,
                            Some(&create.name),
                        )?);
                    }
                }
                TableElement::Constraint(constraint) => {
                    constraints.push(self.new_constraint(text, constraint, &types, Some(&create.name))?);
                }
                TableElement::Like(like) => {
                    columns.extend(self.liked_columns(like)?);
                    constraints.extend(self.liked_constraints(like)?);
                }
            }
        }
        check_one_primary_key(create)?;
        let namespace = self
            .namespace_of_new(&create.name, create.is_temporary)
            .map_err(|error| error.at(create.name.position))?;
        let request = NewTable {
            name: create.name.name.clone(),
            namespace,
            is_temporary: create.is_temporary || namespace == self.asker.temporary_namespace,
            if_not_exists: create.if_not_exists,
            columns,
            constraints,
            options: create.options.clone(),
            query: None,
        };
        if create.on_commit != OnCommit::Preserve && !request.is_temporary {
            return Err(not_temporary());
        }
        let Some(table) = self.with_definer(|definer| definer.create_table(request))? else {
            return Ok(());
        };
        self.note_on_commit(table.oid, create.on_commit);
        for element in &create.elements {
            if let TableElement::Like(like) = element {
                self.copy_liked(like, &table)?;
            }
        }
        Ok(())
    }

    /// The type of a column, and whether it is one of `serial` and its like.
    pub(super) fn column_type(&mut self, text: &Text, of: &DataType) -> SqlResult<(TypeReference, bool)> {
        let serial = match of.to_string().to_lowercase().as_str() {
            "smallserial" | "serial2" => Some(oid::INT2),
            "serial" | "serial4" => Some(oid::INT4),
            "bigserial" | "serial8" => Some(oid::INT8),
            _ => None,
        };
        if let Some(of) = serial {
            return Ok((TypeReference::of(of), true));
        }
        self.bind_with(text, &[], |binder| binder.value_type_of(of)).map(|of| (of, false))
    }

    /// The domain that a column is to have, or 0.
    pub(super) fn column_domain(&mut self, text: &Text, of: &DataType) -> SqlResult<Oid> {
        if !matches!(of, DataType::Custom(..)) || self.column_type(text, of)?.1 {
            return Ok(0);
        }
        let of = self.bind_with(text, &[], |binder| binder.type_of(of))?.oid;
        Ok(if is_domain(of) { of } else { 0 })
    }

    pub(super) fn new_column(
        &mut self,
        text: &Text,
        column: &ColumnDefinition,
        types: &Columns,
    ) -> SqlResult<NewColumn> {
        check_collation(column.collation.as_ref())?;
        let (of, is_serial) =
            self.column_type(text, &column.of).map_err(|error| error.at(column.position))?;
        let domain = self.column_domain(text, &column.of)?;
        if is_serial && column.default.is_some() {
            let message =
                format!("multiple default values specified for column \"{}\" of table", column.name);
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
        let default = match &column.default {
            None => None,
            Some(default) => self.default_of(default, &column.name, of, domain)?,
        };
        let generated = match &column.generated {
            None => None,
            Some(generated) => {
                let what = ("generation expression", column.name.as_str());
                Some(self.assigned_words(generated, types, Clause::Generated, what, of)?)
            }
        };
        let identity = match &column.identity {
            None => None,
            Some((identity, clauses)) => Some((*identity, self.sequence_options(text, clauses)?)),
        };
        Ok(NewColumn {
            name: column.name.clone(),
            of,
            is_not_null: column.is_not_null == Some(true),
            default,
            identity,
            is_serial,
            generated,
            missing: None,
            domain,
        })
    }

    /// A default in PostgreSQL's words; `NULL` is none, unless it stands in the place of the default of a domain.
    pub(super) fn default_of(
        &mut self,
        default: &WrittenExpression,
        column: &str,
        of: TypeReference,
        domain: Oid,
    ) -> SqlResult<Option<Expression>> {
        self.begin_statement()?;
        let mut is_null = false;
        let words = self.bind_with(&default.text, &[], |binder| {
            binder.words_of(&default.expr, &Vec::new(), Clause::Default, |binder, value| {
                let value = binder.assigned_value(value, of, "default expression", column)?;
                is_null = matches!(value.kind, ExpressionKind::Constant(Datum::Null));
                Ok(value)
            })
        })?;
        Ok((!is_null || domain != 0).then_some(words))
    }

    /// An expression that is assigned to a column, in PostgreSQL's words.
    pub(super) fn assigned_words(
        &mut self,
        written: &WrittenExpression,
        columns: &Columns,
        clause: Clause,
        (what, column): (&str, &str),
        of: TypeReference,
    ) -> SqlResult<Expression> {
        self.begin_statement()?;
        self.bind_with(&written.text, &[], |binder| {
            binder.words_of(&written.expr, columns, clause, |binder, value| {
                binder.assigned_value(value, of, what, column)
            })
        })
    }

    /// A condition in PostgreSQL's words, and the columns in it.
    pub(super) fn condition_words(
        &mut self,
        written: &WrittenExpression,
        columns: &Columns,
        clause: Clause,
        construct: &str,
    ) -> SqlResult<(Expression, Vec<String>)> {
        self.begin_statement()?;
        self.bind_with(&written.text, &[], |binder| {
            let words = binder.words_of(&written.expr, columns, clause, |binder, value| {
                binder.coerce_to_boolean(value, construct)
            })?;
            Ok((words, binder.named_in_words.clone()))
        })
    }

    pub(super) fn new_constraint(
        &mut self,
        _text: &Text,
        constraint: &ConstraintDefinition,
        columns: &Columns,
        own: Option<&ObjectName>,
    ) -> SqlResult<NewConstraint> {
        let kind = match &constraint.kind {
            ConstraintClause::Check(condition) => {
                let (words, named) = self.condition_words(condition, columns, Clause::Check, "CHECK")?;
                NewConstraintKind::Check(words, named)
            }
            ConstraintClause::Key { is_primary, columns, included, is_nulls_not_distinct, index } => {
                let index = match index {
                    None => None,
                    Some(name) => {
                        let schema = own.and_then(|own| own.schema.clone());
                        let name = ObjectName {
                            database: None,
                            schema,
                            name: name.clone(),
                            position: constraint.position,
                        };
                        Some(self.relation_number(&name)?)
                    }
                };
                let key = NewKey {
                    columns: columns.clone(),
                    included: included.clone(),
                    is_nulls_not_distinct: *is_nulls_not_distinct,
                    index,
                };
                NewConstraintKind::Key(key, *is_primary)
            }
            ConstraintClause::ForeignKey {
                columns,
                target,
                target_columns,
                on_update,
                on_delete,
                is_match_full,
            } => {
                let is_own = own.is_some_and(|own| {
                    own.name == target.name && (own.schema == target.schema || target.schema.is_none())
                });
                let target = match self.named_relation(target) {
                    Ok(Definition::Table(table)) if table.query.is_none() => table.oid,
                    Err(error) if is_own && error.code == SqlState::UNDEFINED_TABLE => 0,
                    Ok(_) => {
                        let message = format!("referenced relation \"{}\" is not a table", target.name);
                        return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
                    }
                    Err(error) => return Err(error),
                };
                NewConstraintKind::ForeignKey(NewForeignKey {
                    columns: columns.clone(),
                    target,
                    target_columns: target_columns.clone(),
                    on_update: *on_update,
                    on_delete: *on_delete,
                    is_match_full: *is_match_full,
                })
            }
        };
        Ok(NewConstraint {
            name: constraint.name.clone(),
            kind,
            is_deferrable: constraint.is_deferrable,
            is_deferred: constraint.is_deferred,
            is_not_valid: constraint.is_not_valid,
        })
    }

    // `CREATE TABLE AS`.

    pub(super) fn create_table_as(&mut self, text: &Text, create: &CreateTableAs) -> SqlResult<String> {
        let (text, dml, types, parameters) = match &create.source {
            TableSource::Query(dml) => (text.clone(), dml.clone(), Vec::new(), Vec::new()),
            TableSource::Execute(execute) => {
                let prepared = self.prepared_named(&execute.name)?.clone();
                let parameters = self.execute_arguments(execute, &prepared)?;
                match &prepared.statement.statement {
                    Some(Statement::Dml(dml @ Dml::Query(_))) => (
                        prepared.statement.text.clone(),
                        dml.clone(),
                        prepared.parameters.to_vec(),
                        parameters,
                    ),
                    _ => {
                        let message = "prepared statement is not a SELECT";
                        return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
                    }
                }
            }
        };
        if create.on_commit != OnCommit::Preserve && !create.is_temporary {
            return Err(not_temporary());
        }
        self.begin_statement()?;
        let query = self.bound(&text, &dml, &types)?;
        if create.columns.len() > query.output.len() {
            let message = "too many column names were specified";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
        let mut columns = Vec::with_capacity(query.output.len());
        for (index, column) in query.output.iter().enumerate() {
            let of = match column.of.oid {
                oid::UNKNOWN => TypeReference::of(oid::TEXT),
                _ => column.of,
            };
            columns.push(NewColumn::plain(create.columns.get(index).unwrap_or(&column.name).clone(), of));
        }
        let namespace = self.namespace_of_new(&create.name, create.is_temporary)?;
        let request = NewTable {
            name: create.name.name.clone(),
            namespace,
            is_temporary: create.is_temporary,
            if_not_exists: create.if_not_exists,
            columns,
            constraints: Vec::new(),
            options: create.options.clone(),
            query: None,
        };
        let Some(table) = self.with_definer(|definer| definer.create_table(request))? else {
            return Ok("CREATE TABLE AS".to_owned());
        };
        self.note_on_commit(table.oid, create.on_commit);
        if !create.with_data {
            // As PostgreSQL says it: of an EXECUTE, how many rows there are.
            let is_query = matches!(create.source, TableSource::Query(_));
            return Ok(if is_query { "CREATE TABLE AS" } else { "SELECT 0" }.to_owned());
        }
        let rows = self.fill(&table, query, parameters)?;
        Ok(format!("SELECT {rows}"))
    }

    /// Inserts the rows of a query into a table; how many.
    pub(super) fn fill(
        &mut self,
        table: &Arc<Table>,
        query: Query,
        parameters: Vec<Datum>,
    ) -> SqlResult<u64> {
        let values =
            query.output.iter().enumerate().map(|(position, column)| (position, column.column)).collect();
        let change = Change {
            table: Arc::clone(table),
            kind: ChangeKind::Insert { values, conflict: None },
            input: query.relation,
            returning: Vec::new(),
            new: Vec::new(),
            checks: Vec::new(),
        };
        let query = Query {
            relation: Relation::Change(Box::new(change)),
            output: Vec::new(),
            parameters: query.parameters,
        };
        self.run_change(&query, parameters)
    }

    /// Runs a change that returns no rows; how many it is of.
    pub(super) fn run_change(&mut self, query: &Query, parameters: Vec<Datum>) -> SqlResult<u64> {
        let as_of = self.begin_statement()?;
        let planned = Arc::new(self.planned(query, as_of)?);
        let execution = crate::execute::Execution::open(
            Arc::clone(&planned.plan),
            parameters,
            self.limits(),
            crate::execute::Counting::Off,
        );
        let encoding = super::super::encode::Encoding::new(&[], &[]);
        let mut running = super::super::portal::Running::new(planned, execution, encoding);
        self.pull(&mut running, 0, None)?;
        Ok(running.execution.rows_changed())
    }
}

fn check_one_primary_key(create: &CreateTable) -> SqlResult<()> {
    let constraints = create.elements.iter().flat_map(|element| match element {
        TableElement::Column(column) => column.constraints.as_slice(),
        TableElement::Constraint(constraint) => std::slice::from_ref(constraint),
        TableElement::Like(_) => &[],
    });
    let is_primary = |kind: &ConstraintClause| matches!(kind, ConstraintClause::Key { is_primary: true, .. });
    match constraints.filter(|constraint| is_primary(&constraint.kind)).nth(1) {
        None => Ok(()),
        Some(second) => {
            let message = format!("multiple primary keys for table \"{}\" are not allowed", create.name.name);
            Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message).at(second.position))
        }
    }
}

fn not_temporary() -> Box<SqlError> {
    let message = "ON COMMIT can only be used on temporary tables";
    SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message)
}

/// All texts sort by their bytes: other collations are refused.
pub(super) fn check_collation(collation: Option<&ObjectName>) -> SqlResult<()> {
    match collation {
        Some(name) if !matches!(name.name.as_str(), "C" | "POSIX" | "default" | "ucs_basic") => {
            Err(SqlError::unsupported(format!("collation \"{}\"", name.name)))
        }
        _ => Ok(()),
    }
}
