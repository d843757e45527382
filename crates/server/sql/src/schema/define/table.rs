//! `CREATE TABLE`, and columns that are added.

use std::sync::Arc;

use rustc_hash::FxHashSet;
use seawall_values::system::system;
use seawall_values::{Datum, Oid, SqlError, SqlResult, SqlState, TypeReference, oid};

use super::requests::{Expression, NewColumn, NewConstraint, NewConstraintKind, NewTable, SequenceOptions};
use super::{Definer, column_number};
use crate::catalog::numbers::{PG_CLASS, relation_of_type};
use crate::schema::privilege::ObjectKind;
use crate::schema::{Column, Identity, RowKey, Sequence, Table};
use crate::storage::engine_error::EngineResult;

pub(super) const COLUMNS_MAX: usize = 1600;
pub(super) const SYSTEM_COLUMNS: [&str; 6] = ["tableoid", "ctid", "xmin", "cmin", "xmax", "cmax"];

impl Definer<'_> {
    /// `CREATE TABLE`. `None`: it was there (`IF NOT EXISTS`).
    ///
    /// # Errors
    /// `42P07`, `42701`, `42P16`, those of constraints, and what the engine says.
    pub fn create_table(&mut self, request: NewTable) -> SqlResult<Option<Arc<Table>>> {
        let store = self.tables.store;
        self.check_no_type(request.namespace, &request.name)?;
        if self.is_taken(request.namespace, &request.name, request.if_not_exists)? {
            return Ok(None);
        }
        check_columns(&request.columns)?;
        let oid = store.new_oid()?;
        let storage = format!("t{oid}");
        self.tables.transaction.create_table(&storage).sql()?;
        let table = Table {
            oid,
            name: request.name,
            namespace: request.namespace,
            owner: self.owner,
            columns: Vec::new(),
            key: RowKey::Number,
            storage,
            indexes: Vec::new(),
            constraints: Vec::new(),
            is_temporary: request.is_temporary,
            version: 0,
            options: request.options,
            query: request.query,
        };
        let mut table = store.put_table(self.tables.transaction, table, None)?;
        let mut columns = Vec::with_capacity(request.columns.len());
        for (position, column) in request.columns.iter().enumerate() {
            columns.push(self.new_column(&table, position, column)?);
        }
        let with_columns = Table { columns, ..Table::clone(&table) };
        table = store.put_table(self.tables.transaction, with_columns, Some(&table))?;
        // As in PostgreSQL: foreign keys come last, and may refer to keys of this very table.
        let is_foreign =
            |constraint: &&NewConstraint| matches!(constraint.kind, NewConstraintKind::ForeignKey(_));
        for constraint in request.constraints.iter().filter(|constraint| !is_foreign(constraint)) {
            table = self.add_constraint_to(&table, constraint)?;
        }
        for constraint in request.constraints.iter().filter(is_foreign) {
            table = self.add_constraint_to(&table, constraint)?;
        }
        self.give_default_access(ObjectKind::Table, (oid, PG_CLASS, 0), table.namespace)?;
        Ok(Some(table))
    }

    /// The definition of a new column, with the sequence that it owns.
    pub(super) fn new_column(
        &mut self,
        table: &Table,
        position: usize,
        request: &NewColumn,
    ) -> SqlResult<Column> {
        self.hold_type(request.of.oid)?;
        self.hold_type(request.domain)?;
        let mut column = Column {
            name: request.name.clone(),
            of: request.of,
            is_not_null: request.is_not_null || request.identity.is_some() || request.is_serial,
            default: request.default.as_ref().map(|default| default.text.clone()),
            identity: request.identity.as_ref().map(|(identity, _)| *identity),
            generated: request.generated.as_ref().map(|generated| generated.text.clone()),
            missing: request.missing.clone().unwrap_or(Datum::Null),
            is_dropped: false,
            sequence: 0,
            domain: request.domain,
        };
        if let Some(generated) = &request.generated {
            self.hold_types_in(&generated.text)?;
        }
        if let Some(default) = &request.default {
            self.note_default(table.oid, position, default)?;
        }
        let options = match &request.identity {
            Some((_, options)) => Some(options.clone()),
            None if request.is_serial => Some(SequenceOptions::default()),
            None => None,
        };
        if let Some(options) = options {
            let sequence = self.own_sequence(table, position, &request.name, request.of.oid, options)?;
            column.sequence = sequence.oid;
            if request.is_serial {
                let default = default_of(&sequence);
                self.note_default(table.oid, position, &default)?;
                column.default = Some(default.text);
            }
        }
        Ok(column)
    }

    /// A sequence for a column of a table, which goes with it.
    pub(super) fn own_sequence(
        &mut self,
        table: &Table,
        position: usize,
        column: &str,
        of: Oid,
        options: SequenceOptions,
    ) -> SqlResult<Sequence> {
        check_counts(of)?;
        let name = self.new_relation_name(table.namespace, (&table.name, column, "seq"))?;
        let options = SequenceOptions { of: options.of.or(Some(of)), owned_by: None, ..options };
        let sequence = Sequence {
            owned_by: Some((table.oid, position)),
            ..self.new_sequence(name, table.namespace, &options)?
        };
        let store = self.tables.store;
        store.put_sequence(self.tables.transaction, sequence.clone(), None)?;
        let on = (table.oid, column_number(position));
        store.put_dependency(self.tables.transaction, (sequence.oid, 0), on)?;
        self.give_default_access(ObjectKind::Sequence, (sequence.oid, PG_CLASS, 0), table.namespace)?;
        Ok(sequence)
    }

    /// Notes that the default of a column depends on the sequences in it.
    pub(super) fn note_default(
        &mut self,
        table: Oid,
        position: usize,
        default: &Expression,
    ) -> SqlResult<()> {
        self.hold_types_in(&default.text)?;
        for sequence in &default.sequences {
            let what = (table, column_number(position));
            self.tables.store.put_dependency(self.tables.transaction, what, (*sequence, 0))?;
        }
        Ok(())
    }
}

/// `nextval('s'::regclass)`, with the number in the place of the name.
fn default_of(sequence: &Sequence) -> Expression {
    Expression { text: format!("nextval('{}'::regclass)", sequence.oid), sequences: vec![sequence.oid] }
}

/// What a list of columns of a new table must meet.
fn check_columns(columns: &[NewColumn]) -> SqlResult<()> {
    if columns.len() > COLUMNS_MAX {
        let message = format!("tables can have at most {COLUMNS_MAX} columns");
        return Err(SqlError::new(SqlState::TOO_MANY_COLUMNS, message));
    }
    for column in columns {
        check_column(&column.name, column.of)?;
        check_generation(column)?;
    }
    check_names(columns.iter().map(|column| column.name.as_str()))
}

/// `42701` if two columns have one name.
pub(super) fn check_names<'a>(names: impl Iterator<Item = &'a str>) -> SqlResult<()> {
    let mut known = FxHashSet::default();
    for name in names {
        if !known.insert(name) {
            let message = format!("column \"{name}\" specified more than once");
            return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
        }
    }
    Ok(())
}

/// `22023` if the values of a type cannot come from a sequence.
pub(super) fn check_counts(of: Oid) -> SqlResult<()> {
    if matches!(of, oid::INT2 | oid::INT4 | oid::INT8) {
        return Ok(());
    }
    Err(SqlError::new(
        SqlState::INVALID_PARAMETER_VALUE,
        "identity column type must be smallint, integer, or bigint",
    ))
}

/// What every column must meet.
pub(super) fn check_column(name: &str, of: TypeReference) -> SqlResult<()> {
    if SYSTEM_COLUMNS.contains(&name) {
        let message = format!("column name \"{name}\" conflicts with a system column name");
        return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
    }
    if relation_of_type(of.oid).is_some() {
        // Rows of that table would have to be written again here when it is altered.
        return Err(SqlError::unsupported("a column with the type of rows of a table"));
    }
    match system().type_by_oid(of.oid) {
        Some(row) if row.kind == b'p' => {
            let message = format!("column \"{name}\" has pseudo-type {}", row.name);
            Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message))
        }
        _ => Ok(()),
    }
}

pub(super) fn check_generation(column: &NewColumn) -> SqlResult<()> {
    let has_default = column.default.is_some() || column.is_serial;
    let name = &column.name;
    let problem = match (&column.identity, &column.generated, has_default) {
        (Some((Identity::Always | Identity::ByDefault, _)), None, true) => "both default and identity",
        (None, Some(_), true) => "both default and generation expression",
        (Some(_), Some(_), _) => "both identity and generation expression",
        _ => return Ok(()),
    };
    Err(SqlError::new(SqlState::SYNTAX_ERROR, format!("{problem} specified for column \"{name}\"")))
}
