//! `ALTER TABLE`, one action at a time.

use std::sync::Arc;

use seawall_values::{Oid, SqlResult};

use super::Definer;
use super::requests::TableChange;
use crate::schema::{Definition, Table};

impl Definer<'_> {
    /// Does one action of `ALTER TABLE`; returns the table as it is then.
    ///
    /// # Errors
    /// Those of the action.
    pub fn alter_table(&mut self, oid: Oid, change: &TableChange) -> SqlResult<Arc<Table>> {
        let table = self.table_to_change(oid)?;
        self.require_owner(&Definition::Table(Arc::clone(&table)))?;
        self.check_no_events(&table, "ALTER TABLE")?;
        match change {
            TableChange::AddColumn { column, constraints, if_not_exists } => {
                self.add_column(&table, column, constraints, *if_not_exists)
            }
            TableChange::DropColumn { name, if_exists, behavior } => {
                self.drop_column(&table, name, *if_exists, *behavior)
            }
            TableChange::RenameColumn(name, to) => self.rename_column(&table, name, to),
            TableChange::SetType(name, to) => self.set_type(&table, name, to),
            TableChange::SetDefault(name, default) => self.set_default(&table, name, default.as_ref()),
            TableChange::SetNotNull(name, true) => self.set_not_null(&table, name),
            TableChange::SetNotNull(name, false) => self.drop_not_null(&table, name),
            TableChange::AddIdentity(name, identity, options) => {
                self.add_identity(&table, name, *identity, options)
            }
            TableChange::SetIdentity(name, identity, options) => {
                self.set_identity(&table, name, *identity, options)
            }
            TableChange::DropIdentity(name, if_exists) => self.drop_identity(&table, name, *if_exists),
            TableChange::DropExpression(name, if_exists) => self.drop_expression(&table, name, *if_exists),
            TableChange::AddConstraint(constraint) => self.add_constraint_to(&table, constraint),
            TableChange::DropConstraint { name, if_exists, behavior } => {
                self.drop_constraint(&table, name, *if_exists, *behavior)
            }
            TableChange::RenameConstraint(name, to) => self.rename_constraint(&table, name, to),
            TableChange::AlterConstraint(name, is_deferrable, is_deferred) => {
                self.alter_constraint(&table, name, *is_deferrable, *is_deferred)
            }
            TableChange::ValidateConstraint(name) => self.validate_constraint(&table, name),
            TableChange::SetOptions(options) => self.set_options(&table, options),
            TableChange::ResetOptions(names) => self.reset_options(&table, names),
        }
    }
}
