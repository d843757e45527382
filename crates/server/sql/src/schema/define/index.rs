//! `CREATE INDEX`, primary and unique keys.

use std::sync::Arc;

use seawall_values::user_types::{is_user_type, marked_name};
use seawall_values::{Datum, Oid, SqlError, SqlResult, SqlState, oid};

use super::names::joined;
use super::requests::{NewConstraint, NewIndex, NewIndexKey, NewKey};
use super::{Definer, find_column};
use crate::catalog::definition_text::system_type;
use crate::schema::{
    Constraint, ConstraintKind, Definition, Index, IndexKey, IndexedValue, KeyColumn, RowKey, Table,
};
use crate::storage::TableLockMode;
use crate::storage::engine_error::EngineResult;
use crate::storage::index_entry::{Entry, IndexLayout};
use crate::storage::new_rows::{NewRows, Repetition};
use crate::storage::row::RowLayout;

const KEYS_MAX: usize = 32;

/// A type as messages name it.
pub(super) fn type_name(of: Oid) -> String {
    system_type(of, None).unwrap_or_else(|| unnamed(of))
}

fn unnamed(of: Oid) -> String {
    if is_user_type(of) { marked_name(of) } else { of.to_string() }
}

pub(super) fn check_order(of: Oid) -> SqlResult<()> {
    if matches!(of, oid::JSON | oid::XML | oid::XID | oid::CID | oid::UNKNOWN | oid::PG_NODE_TREE) {
        let message =
            format!("data type {} has no default operator class for access method \"btree\"", type_name(of));
        return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message).with_hint(
            "You must specify an operator class for the index or define a default operator class for the data type.",
        ));
    }
    Ok(())
}

fn column_key(table: &Table, column: usize) -> IndexKey {
    IndexKey {
        what: IndexedValue::Column(column),
        of: table.columns[column].of,
        is_descending: false,
        is_nulls_first: false,
    }
}

impl Definer<'_> {
    /// `CREATE INDEX`. `None`: it was there (`IF NOT EXISTS`).
    ///
    /// # Errors
    /// `42501`, `42P07`, `42703`, `42704`, `54011`; `23505`: two rows have one key; what the engine says.
    pub fn create_index(&mut self, request: &NewIndex) -> SqlResult<Option<Arc<Index>>> {
        let table = self.table_locked(request.table, TableLockMode::Share)?;
        self.require_owner(&Definition::Table(Arc::clone(&table)))?;
        let name = match &request.name {
            Some(name) => name.clone(),
            None => self.index_name(&table, &request.keys, &request.included)?,
        };
        let store = self.tables.store;
        if self.is_taken(table.namespace, &name, request.if_not_exists)? {
            return Ok(None);
        }
        if request.keys.len() + request.included.len() > KEYS_MAX {
            let message = format!("cannot use more than {KEYS_MAX} columns in an index");
            return Err(SqlError::new(SqlState::TOO_MANY_COLUMNS, message));
        }
        let mut included = Vec::new();
        for column in &request.included {
            included.push(find_column(&table, column).ok_or_else(|| {
                SqlError::new(SqlState::UNDEFINED_COLUMN, format!("column \"{column}\" does not exist"))
            })?);
        }
        let key = |key: &NewIndexKey| {
            check_order(key.of.oid)?;
            let NewIndexKey { what, of, is_descending, is_nulls_first, .. } = key.clone();
            Ok(IndexKey { what, of, is_descending, is_nulls_first })
        };
        let oid = store.new_oid()?;
        let index = Index {
            oid,
            name,
            storage: Some(format!("i{oid}")),
            keys: request.keys.iter().map(key).collect::<SqlResult<_>>()?,
            included,
            is_unique: request.is_unique,
            is_nulls_not_distinct: request.is_nulls_not_distinct,
            is_primary: false,
            predicate: request.predicate.clone(),
            is_valid: true,
            constraint: 0,
        };
        for key in &index.keys {
            if let IndexedValue::Expression(text) = &key.what {
                self.hold_types_in(text)?;
            }
        }
        if let Some(predicate) = &index.predicate {
            self.hold_types_in(predicate)?;
        }
        let index = Arc::new(index);
        self.build_index(&table, &index)?;
        let mut changed = Table::clone(&table);
        changed.indexes.push(Arc::clone(&index));
        self.put_changed(changed, &table)?;
        Ok(Some(index))
    }

    /// `t_a_lower_idx`.
    fn index_name(&mut self, table: &Table, keys: &[NewIndexKey], included: &[String]) -> SqlResult<String> {
        let mut names: Vec<String> = Vec::new();
        for key in keys {
            let base = match (&key.what, &key.function) {
                (IndexedValue::Column(column), _) => table.columns[*column].name.clone(),
                (IndexedValue::Expression(_), Some(function)) => function.clone(),
                (IndexedValue::Expression(_), None) => "expr".to_owned(),
            };
            let mut name = base.clone();
            let mut suffix = 0;
            while names.contains(&name) {
                suffix += 1;
                name = format!("{base}{suffix}");
            }
            names.push(name);
        }
        names.extend(included.iter().cloned());
        let second = joined(names.iter().map(String::as_str));
        self.new_relation_name(table.namespace, (&table.name, &second, "idx"))
    }

    /// Makes the engine's table of an index, and enters the rows that are there.
    pub(super) fn build_index(&mut self, table: &Arc<Table>, index: &Arc<Index>) -> SqlResult<()> {
        self.loading(|definer| definer.enter_rows(table, index))
    }

    /// As `build_index`, as a part of something that loads more.
    pub(super) fn enter_rows(&mut self, table: &Arc<Table>, index: &Arc<Index>) -> SqlResult<()> {
        let Some(storage) = &index.storage else { return Ok(()) };
        let mut entries = NewRows::new(storage);
        let layout = IndexLayout::of(table, index);
        let mut known = Repetition::default();
        self.each_entry(table, index, |definer, row, entry| {
            if entry.exclusive_later.is_some_and(|length| known.is_again(&entry.key[..length])) {
                return Err(definer.duplicated(&layout, table, row)?);
            }
            entries.add(&mut definer.tables, entry.key, entry.value)
        })?;
        if entries.finish(&mut self.tables)? {
            return Ok(());
        }
        let mut known = Repetition::default();
        self.each_entry(table, index, |definer, row, entry| match known.is_again(&entry.key) {
            true => Err(definer.duplicated(&layout, table, row)?),
            false => Ok(()),
        })?;
        Err(SqlError::internal("two entries of an index have one key, but which ones is not found"))
    }

    /// Calls `body` with all rows of a table that an index has, and their entries.
    fn each_entry(
        &mut self,
        table: &Arc<Table>,
        index: &Arc<Index>,
        mut body: impl FnMut(&mut Self, &[Datum], Entry) -> SqlResult<()>,
    ) -> SqlResult<()> {
        let (layout, rows) = (IndexLayout::of(table, index), RowLayout::of(table));
        let reader = rows.whole_reader();
        let handle =
            self.tables.store.engine_table(self.tables.transaction, &table.storage, self.tables.as_of)?;
        let mut row = vec![Datum::Null; rows.column_count()];
        let mut scan = self.scan_all(&handle)?;
        while let Some((identity, value)) = scan.next_row().sql()? {
            reader.read(identity, value, &mut row)?;
            if let Some(entry) = layout.entry(table, &row, identity, self.tables.expressions)? {
                body(self, &row, entry)?;
            }
        }
        Ok(())
    }

    /// Adds a primary or unique key, of columns or of an index that is there.
    pub(super) fn add_key(
        &mut self,
        table: &Arc<Table>,
        request: &NewConstraint,
        key: &NewKey,
        is_primary: bool,
    ) -> SqlResult<Arc<Table>> {
        let is_deferrable = request.is_deferrable || request.is_deferred;
        if is_primary && table.indexes.iter().any(|index| index.is_primary) {
            let message = format!("multiple primary keys for table \"{}\" are not allowed", table.name);
            return Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message));
        }
        if let Some(index) = key.index {
            return self.add_key_of_index(table, request, index, is_primary);
        }
        let columns = key_columns(table, &key.columns, is_primary)?;
        let included = key_columns(table, &key.included, is_primary)?;
        let name = match &request.name {
            Some(name) => {
                self.check_constraint_name(table, name)?;
                name.clone()
            }
            None if is_primary => self.new_relation_name(table.namespace, (&table.name, "", "pkey"))?,
            None => {
                let second = joined(key.columns.iter().chain(&key.included).map(String::as_str));
                self.new_relation_name(table.namespace, (&table.name, &second, "key"))?
            }
        };
        let store = self.tables.store;
        let (oid, constraint) = (store.new_oid()?, store.new_oid()?);
        // Rows are stored under a primary key of columns alone.
        let holds_rows = is_primary && included.is_empty() && !is_deferrable;
        let index = Arc::new(Index {
            oid,
            name: name.clone(),
            storage: (!holds_rows).then(|| format!("i{oid}")),
            keys: columns.iter().map(|column| column_key(table, *column)).collect(),
            included,
            is_unique: !is_deferrable,
            is_nulls_not_distinct: key.is_nulls_not_distinct,
            is_primary,
            predicate: None,
            is_valid: true,
            constraint,
        });
        let mut changed = Table::clone(table);
        if is_primary {
            self.require_not_null(table, &columns)?;
            columns.iter().for_each(|column| changed.columns[*column].is_not_null = true);
        }
        changed.indexes.insert(if is_primary { 0 } else { table.indexes.len() }, Arc::clone(&index));
        let constraint = Constraint {
            is_deferrable,
            is_deferred: request.is_deferred,
            ..key_constraint(constraint, name, oid)
        };
        changed.constraints.push(constraint);
        if holds_rows {
            let part =
                |column: &usize| KeyColumn { column: *column, is_descending: false, is_nulls_first: false };
            changed.key = RowKey::Columns(columns.iter().map(part).collect());
            return self.rewrite(table, changed, None);
        }
        // What the entries are like depends on the constraint.
        let changed = self.put_changed(changed, table)?;
        self.build_index(&changed, &index)?;
        Ok(changed)
    }

    /// `ADD CONSTRAINT .. USING INDEX`.
    fn add_key_of_index(
        &mut self,
        table: &Arc<Table>,
        request: &NewConstraint,
        index: Oid,
        is_primary: bool,
    ) -> SqlResult<Arc<Table>> {
        let position = table.indexes.iter().position(|known| known.oid == index).ok_or_else(|| {
            SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, "index does not belong to the table")
        })?;
        let old = &table.indexes[position];
        let name = request.name.clone().unwrap_or_else(|| old.name.clone());
        let wrong = |why: &str| {
            let message = format!("\"{}\" {why}", old.name);
            SqlError::new(SqlState::WRONG_OBJECT_TYPE, message)
                .with_detail("Cannot create a primary key or unique constraint using such an index.")
        };
        if request.is_deferrable || request.is_deferred {
            return Err(SqlError::unsupported("a deferrable constraint USING INDEX"));
        }
        if old.constraint != 0 {
            let message = format!("index \"{}\" is already associated with a constraint", old.name);
            return Err(SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message));
        }
        if !old.is_unique {
            return Err(wrong("is not a unique index"));
        }
        if old.predicate.is_some() {
            return Err(wrong("is a partial index"));
        }
        let column = |key: &IndexKey| match key.what {
            IndexedValue::Column(column) if !key.is_descending && !key.is_nulls_first => Some(column),
            _ => None,
        };
        let columns: Option<Vec<usize>> = old.keys.iter().map(column).collect();
        let columns = columns.ok_or_else(|| {
            let message = format!("index \"{}\" contains expressions or has an order of its own", old.name);
            SqlError::new(SqlState::WRONG_OBJECT_TYPE, message)
        })?;
        if name != old.name {
            let message = format!(
                "ALTER TABLE / ADD CONSTRAINT USING INDEX will rename index \"{}\" to \"{name}\"",
                old.name
            );
            self.skip(message);
        }
        let mut changed = Table::clone(table);
        let constraint = self.tables.store.new_oid()?;
        if is_primary {
            self.require_not_null(table, &columns)?;
            columns.iter().for_each(|column| changed.columns[*column].is_not_null = true);
        }
        let index = Index { name: name.clone(), is_primary, constraint, ..Index::clone(old) };
        changed.constraints.push(key_constraint(constraint, name, index.oid));
        changed.indexes.remove(position);
        changed.indexes.insert(if is_primary { 0 } else { position }, Arc::new(index));
        self.put_changed(changed, table)
    }

    /// `23502` if a row has a null in one of these columns.
    pub(super) fn require_not_null(&mut self, table: &Arc<Table>, columns: &[usize]) -> SqlResult<()> {
        let open: Vec<usize> =
            columns.iter().copied().filter(|column| !table.columns[*column].is_not_null).collect();
        if open.is_empty() {
            return Ok(());
        }
        let reader = RowLayout::of(table).reader(&open);
        let handle =
            self.tables.store.engine_table(self.tables.transaction, &table.storage, self.tables.as_of)?;
        let mut row = vec![Datum::Null; open.len()];
        let mut scan = self.scan_all(&handle)?;
        while let Some((key, value)) = scan.next_row().sql()? {
            reader.read(key, value, &mut row)?;
            if let Some(position) = row.iter().position(Datum::is_null) {
                return Err(self.contains_nulls(table, open[position])?);
            }
        }
        Ok(())
    }
}

fn key_constraint(oid: Oid, name: String, index: Oid) -> Constraint {
    Constraint {
        oid,
        name,
        kind: ConstraintKind::Unique(index),
        is_deferrable: false,
        is_deferred: false,
        is_validated: true,
    }
}

fn key_columns(table: &Table, names: &[String], is_primary: bool) -> SqlResult<Vec<usize>> {
    let mut columns = Vec::with_capacity(names.len());
    for name in names {
        let column = find_column(table, name).ok_or_else(|| {
            let message = format!("column \"{name}\" named in key does not exist");
            SqlError::new(SqlState::UNDEFINED_COLUMN, message)
        })?;
        if columns.contains(&column) {
            let kind = if is_primary { "primary key" } else { "unique" };
            let message = format!("column \"{name}\" appears twice in {kind} constraint");
            return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
        }
        check_order(table.columns[column].of.oid)?;
        columns.push(column);
    }
    Ok(columns)
}
