//! Constraints of tables are added, dropped, renamed and validated.

use std::sync::Arc;

use seawall_values::{Datum, SqlError, SqlResult, SqlState};

use super::Definer;
use super::dependents::Object;
use super::names::new_constraint_name;
use super::requests::{Behavior, Expression, NewConstraint, NewConstraintKind};
use crate::schema::{Constraint, ConstraintKind, Index, Table};
use crate::storage::engine_error::EngineResult;

fn no_such_constraint(name: &str, table: &Table) -> Box<SqlError> {
    let message = format!("constraint \"{name}\" of relation \"{}\" does not exist", table.name);
    SqlError::new(SqlState::UNDEFINED_OBJECT, message)
}

fn find(table: &Table, name: &str) -> SqlResult<usize> {
    let found = table.constraints.iter().position(|constraint| constraint.name == name);
    found.ok_or_else(|| no_such_constraint(name, table))
}

fn not_such_a_constraint(name: &str, table: &Table, kinds: &str) -> Box<SqlError> {
    let message = format!("constraint \"{name}\" of relation \"{}\" is not a {kinds} constraint", table.name);
    SqlError::new(SqlState::WRONG_OBJECT_TYPE, message)
}

impl Definer<'_> {
    pub(super) fn add_constraint_to(
        &mut self,
        table: &Arc<Table>,
        request: &NewConstraint,
    ) -> SqlResult<Arc<Table>> {
        match &request.kind {
            NewConstraintKind::Check(condition, columns) => {
                self.add_check(table, request, condition, columns)
            }
            NewConstraintKind::Key(key, is_primary) => self.add_key(table, request, key, *is_primary),
            NewConstraintKind::ForeignKey(key) => self.add_foreign_key(table, request, key),
        }
    }

    /// `42710` if a constraint of the table has this name.
    pub(super) fn check_constraint_name(&mut self, table: &Table, name: &str) -> SqlResult<()> {
        if find(table, name).is_ok() {
            let message = format!("constraint \"{name}\" for relation \"{}\" already exists", table.name);
            return Err(SqlError::new(SqlState::DUPLICATE_OBJECT, message));
        }
        Ok(())
    }

    fn add_check(
        &mut self,
        table: &Arc<Table>,
        request: &NewConstraint,
        condition: &Expression,
        columns: &[String],
    ) -> SqlResult<Arc<Table>> {
        let name = match (&request.name, columns) {
            (Some(name), _) => {
                self.check_constraint_name(table, name)?;
                name.clone()
            }
            (None, [column]) => new_constraint_name(table, column, "check"),
            (None, _) => new_constraint_name(table, "", "check"),
        };
        self.hold_types_in(&condition.text)?;
        let mut changed = Table::clone(table);
        changed.constraints.push(Constraint {
            oid: self.tables.store.new_oid()?,
            name: name.clone(),
            kind: ConstraintKind::Check(condition.text.clone()),
            is_deferrable: false,
            is_deferred: false,
            is_validated: !request.is_not_valid,
        });
        let changed = self.put_changed(changed, table)?;
        if !request.is_not_valid {
            self.validate_check(&changed, &name, &condition.text)?;
        }
        Ok(changed)
    }

    /// `23514` if a row does not meet a condition.
    fn validate_check(&mut self, table: &Arc<Table>, name: &str, condition: &str) -> SqlResult<()> {
        let layout = self.tables.layout(table)?;
        let mut row = vec![Datum::Null; layout.shape.rows.column_count()];
        let mut scan = self.scan_all(&layout.handle)?;
        while let Some((identity, value)) = scan.next_row().sql()? {
            layout.shape.whole.read(identity, value, &mut row)?;
            if matches!(self.tables.expressions.evaluate(table, condition, &row)?, Datum::Bool(false)) {
                return Err(self.violated(table, name)?);
            }
        }
        Ok(())
    }

    pub(super) fn drop_constraint(
        &mut self,
        table: &Arc<Table>,
        name: &str,
        if_exists: bool,
        behavior: Behavior,
    ) -> SqlResult<Arc<Table>> {
        let position = match find(table, name) {
            Ok(position) => position,
            Err(error) if if_exists => {
                self.skip(format!("{}, skipping", error.message));
                return Ok(Arc::clone(table));
            }
            Err(error) => return Err(error),
        };
        let constraint = Object::Constraint(table.oid, table.constraints[position].oid);
        self.drop_objects(&[constraint], behavior)?;
        self.tables.table(table.oid)
    }

    /// Renames a constraint, and the index that it has.
    pub(super) fn rename_constraint(
        &mut self,
        table: &Arc<Table>,
        name: &str,
        to: &str,
    ) -> SqlResult<Arc<Table>> {
        let position = find(table, name).map_err(|_| {
            let message = format!("constraint \"{name}\" for table \"{}\" does not exist", table.name);
            SqlError::new(SqlState::UNDEFINED_OBJECT, message)
        })?;
        self.check_constraint_name(table, to)?;
        let mut changed = Table::clone(table);
        to.clone_into(&mut changed.constraints[position].name);
        if let ConstraintKind::Unique(index) = changed.constraints[position].kind
            && let Some(index) = changed.indexes.iter_mut().find(|known| known.oid == index)
        {
            *index = Arc::new(Index { name: to.to_owned(), ..Index::clone(index) });
        }
        self.put_changed(changed, table)
    }

    pub(super) fn alter_constraint(
        &mut self,
        table: &Arc<Table>,
        name: &str,
        is_deferrable: bool,
        is_deferred: bool,
    ) -> SqlResult<Arc<Table>> {
        let position = find(table, name)?;
        let mut changed = Table::clone(table);
        let constraint = &mut changed.constraints[position];
        if !matches!(constraint.kind, ConstraintKind::ForeignKey(_)) {
            return Err(not_such_a_constraint(name, table, "foreign key"));
        }
        constraint.is_deferrable = is_deferrable || is_deferred;
        constraint.is_deferred = is_deferred;
        self.put_changed(changed, table)
    }

    pub(super) fn validate_constraint(&mut self, table: &Arc<Table>, name: &str) -> SqlResult<Arc<Table>> {
        let position = find(table, name)?;
        let constraint = &table.constraints[position];
        if matches!(constraint.kind, ConstraintKind::Unique(_)) {
            return Err(not_such_a_constraint(name, table, "foreign key or check"));
        }
        if constraint.is_validated {
            return Ok(Arc::clone(table));
        }
        let mut changed = Table::clone(table);
        changed.constraints[position].is_validated = true;
        let changed = self.put_changed(changed, table)?;
        match &constraint.kind {
            ConstraintKind::Check(condition) => self.validate_check(&changed, name, condition)?,
            ConstraintKind::ForeignKey(_) => self.validate_foreign_key(&changed, constraint.oid)?,
            ConstraintKind::Unique(_) => {}
        }
        Ok(changed)
    }
}
