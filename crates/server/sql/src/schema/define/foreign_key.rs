//! Foreign keys are added.

use std::sync::Arc;

use seawall_values::{Datum, SqlError, SqlResult, SqlState};

use super::column_type::incompatible;
use super::names::{joined, new_constraint_name};
use super::requests::{NewConstraint, NewForeignKey};
use super::table::SYSTEM_COLUMNS;
use super::{Definer, column_number, find_column};
use crate::schema::{Constraint, ConstraintKind, ForeignKey, Index, IndexedValue, Table};
use crate::storage::engine_error::EngineResult;
use crate::storage::key::can_refer;

fn columns_of(table: &Table, names: &[String]) -> SqlResult<Vec<usize>> {
    let column = |name: &String| {
        if SYSTEM_COLUMNS.contains(&name.as_str()) {
            let message = "system columns cannot be used in foreign keys";
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        find_column(table, name).ok_or_else(|| {
            let message = format!("column \"{name}\" referenced in foreign key constraint does not exist");
            SqlError::new(SqlState::UNDEFINED_COLUMN, message)
        })
    };
    names.iter().map(column).collect()
}

fn plain_columns(index: &Index) -> Option<Vec<usize>> {
    let column = |key: &crate::schema::IndexKey| match key.what {
        IndexedValue::Column(column) => Some(column),
        IndexedValue::Expression(_) => None,
    };
    index.keys.iter().map(column).collect()
}

/// The columns that a foreign key refers to, and the index that keeps them unique.
fn target_of<'t>(target: &'t Table, names: &[String]) -> SqlResult<(Vec<usize>, &'t Index)> {
    if names.is_empty() {
        let index = target.indexes.iter().find(|index| index.is_primary).ok_or_else(|| {
            let message = format!("there is no primary key for referenced table \"{}\"", target.name);
            SqlError::new(SqlState::UNDEFINED_OBJECT, message)
        })?;
        check_is_immediate(target, index, "primary key")?;
        return Ok((plain_columns(index).unwrap_or_default(), index));
    }
    let columns = columns_of(target, names)?;
    let is_set = |index: &Index| {
        let keys = plain_columns(index).unwrap_or_default();
        keys.len() == columns.len() && keys.iter().all(|key| columns.contains(key))
    };
    if let Some(index) = target.indexes.iter().find(|index| !index.is_unique && is_set(index)) {
        check_is_immediate(target, index, "unique constraint")?;
    }
    let usable =
        |index: &&Arc<Index>| index.is_unique && index.is_valid && index.predicate.is_none() && is_set(index);
    let index = target.indexes.iter().find(usable).ok_or_else(|| {
        let message = format!(
            "there is no unique constraint matching given keys for referenced table \"{}\"",
            target.name
        );
        SqlError::new(SqlState::INVALID_FOREIGN_KEY, message)
    })?;
    Ok((columns, index))
}

/// `55000`: a key that may be there twice for a while cannot be referred to.
fn check_is_immediate(target: &Table, index: &Index, kind: &str) -> SqlResult<()> {
    if target.deferrable_constraint(index).is_none() {
        return Ok(());
    }
    let message = format!("cannot use a deferrable {kind} for referenced table \"{}\"", target.name);
    Err(SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message))
}

impl Definer<'_> {
    pub(super) fn add_foreign_key(
        &mut self,
        table: &Arc<Table>,
        request: &NewConstraint,
        key: &NewForeignKey,
    ) -> SqlResult<Arc<Table>> {
        let is_own = key.target == 0 || key.target == table.oid;
        let target = if is_own { Arc::clone(table) } else { self.table_to_change(key.target)? };
        if target.is_temporary != table.is_temporary {
            let kind = if table.is_temporary { "temporary" } else { "permanent" };
            let message = format!("constraints on {kind} tables may reference only {kind} tables");
            return Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message));
        }
        let columns = columns_of(table, &key.columns)?;
        let (target_columns, index) = target_of(&target, &key.target_columns)?;
        self.require_references(&target, &target_columns)?;
        if columns.len() != target_columns.len() {
            let message = "number of referencing and referenced columns for foreign key disagree";
            return Err(SqlError::new(SqlState::INVALID_FOREIGN_KEY, message));
        }
        let name = match &request.name {
            Some(name) => {
                self.check_constraint_name(table, name)?;
                name.clone()
            }
            None => new_constraint_name(table, &joined(key.columns.iter().map(String::as_str)), "fkey"),
        };
        for (column, on) in columns.iter().zip(&target_columns) {
            let (column, on) = (&table.columns[*column], &target.columns[*on]);
            if !can_refer(column.of.oid, on.of.oid) {
                let names = (&column.name[..], &on.name[..]);
                return Err(incompatible(&name, names, (column.of.oid, on.of.oid)));
            }
        }
        let foreign = ForeignKey {
            columns,
            target: target.oid,
            target_columns,
            target_index: index.oid,
            on_update: key.on_update,
            on_delete: key.on_delete,
            is_match_full: key.is_match_full,
        };
        let constraint = Constraint {
            oid: self.tables.store.new_oid()?,
            name,
            kind: ConstraintKind::ForeignKey(foreign.clone()),
            is_deferrable: request.is_deferrable || request.is_deferred,
            is_deferred: request.is_deferred,
            is_validated: !request.is_not_valid,
        };
        let (store, index) = (self.tables.store, index.oid);
        for column in &foreign.target_columns {
            let on = (target.oid, column_number(*column));
            store.put_dependency(self.tables.transaction, (constraint.oid, 0), on)?;
        }
        store.put_dependency(self.tables.transaction, (constraint.oid, 0), (index, 0))?;
        let number = constraint.oid;
        let mut changed = Table::clone(table);
        changed.constraints.push(constraint);
        let changed = self.put_changed(changed, table)?;
        if !is_own {
            // Plans and layouts of the other table have to know that it is referred to.
            self.put_changed(Table::clone(&target), &target)?;
        }
        if !request.is_not_valid {
            self.validate_foreign_key(&changed, number)?;
        }
        Ok(changed)
    }

    /// Looks at all rows of the referring table.
    pub(super) fn validate_foreign_key(&mut self, table: &Arc<Table>, constraint: u32) -> SqlResult<()> {
        let layout = self.tables.layout(table)?;
        let mut row = vec![Datum::Null; layout.shape.rows.column_count()];
        let mut scan = self.scan_all(&layout.handle)?;
        while let Some((identity, value)) = scan.next_row().sql()? {
            layout.shape.whole.read(identity, value, &mut row)?;
            self.tables.check_reference(table, constraint, &row)?;
        }
        Ok(())
    }
}
