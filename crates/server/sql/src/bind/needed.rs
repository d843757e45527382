//! The privileges that a statement takes, noted while it is bound. `session::privileges` checks them.

use std::sync::Arc;

use seawall_values::Oid;

use super::Binder;
use super::scope::ScopeColumn;
use crate::algebra::ColumnId;
use crate::schema::privilege::Privileges;
use crate::schema::{Definition, Table};

/// The privileges that a statement takes on one relation that it names.
#[derive(Clone, Debug)]
pub(crate) struct NeededPrivileges {
    pub(crate) relation: Definition,
    /// Whose they must be: a view's owner for what its text names; `None`: the role that asks.
    pub(crate) checked_as: Option<Oid>,
    /// On the relation; `INSERT` and `UPDATE` may be had on the columns instead.
    pub(crate) privileges: Privileges,
    /// The columns that it makes visible, in order, and once more for each row of it that can be named; of those that are used, `SELECT` is taken.
    pub(crate) columns: Vec<ColumnId>,
    /// Whether `SELECT` is taken even if no column is used.
    pub(crate) is_read: bool,
    /// Numbers of columns that are read besides: those that `ON CONFLICT` names.
    pub(crate) selected: Vec<u16>,
    /// Numbers of columns that `INSERT` gives values to.
    pub(crate) inserted: Vec<u16>,
    /// Numbers of columns that `UPDATE` gives values to.
    pub(crate) updated: Vec<u16>,
}

impl Binder<'_> {
    /// The statement reads a relation.
    pub(super) fn need_select(&mut self, relation: Definition, columns: &[ScopeColumn]) {
        let columns = columns.iter().map(|column| column.id).collect();
        self.needed.push(NeededPrivileges {
            relation,
            checked_as: self.view_owner,
            privileges: Privileges::NONE,
            columns,
            is_read: true,
            selected: Vec::new(),
            inserted: Vec::new(),
            updated: Vec::new(),
        });
    }

    /// The statement changes a table.
    pub(super) fn need_change(&mut self, table: &Arc<Table>, privileges: Privileges) {
        self.needed.push(NeededPrivileges {
            relation: Definition::Table(Arc::clone(table)),
            checked_as: self.view_owner,
            privileges,
            columns: Vec::new(),
            is_read: false,
            selected: Vec::new(),
            inserted: Vec::new(),
            updated: Vec::new(),
        });
    }

    /// The table that the statement changes, as `need_change` has noted it.
    fn needed_of(&mut self, table: &Table) -> Option<&mut NeededPrivileges> {
        let is_meant = |needed: &&mut NeededPrivileges| {
            !needed.is_read && crate::catalog::oid_of(&needed.relation) == table.oid
        };
        self.needed.iter_mut().rev().find(is_meant)
    }

    /// Columns of the changed table that the statement can name.
    pub(super) fn need_columns(&mut self, table: &Table, columns: &[ScopeColumn]) {
        if let Some(needed) = self.needed_of(table) {
            needed.columns.extend(columns.iter().map(|column| column.id));
        }
    }

    /// `INSERT` gives values to these columns.
    pub(super) fn need_insert(&mut self, table: &Table, positions: &[usize]) {
        if let Some(needed) = self.needed_of(table) {
            needed.inserted.extend(positions.iter().map(|position| number(*position)));
        }
    }

    /// `ON CONFLICT` looks for rows with the same values in these columns.
    pub(super) fn need_selected(&mut self, table: &Table, positions: &[usize]) {
        if let Some(needed) = self.needed_of(table) {
            needed.selected.extend(positions.iter().map(|position| number(*position)));
        }
    }

    /// The statement locks rows of tables that it reads.
    pub(super) fn need_lock(&mut self, tables: &[Oid]) {
        for needed in &mut self.needed {
            if needed.is_read && tables.contains(&crate::catalog::oid_of(&needed.relation)) {
                needed.privileges = needed.privileges.and(Privileges::UPDATE);
            }
        }
    }

    /// A clause of `MERGE` changes the table.
    pub(super) fn need_besides(&mut self, table: &Table, privilege: Privileges) {
        if let Some(needed) = self.needed_of(table) {
            needed.privileges = needed.privileges.and(privilege);
        }
    }

    /// `UPDATE`, or `ON CONFLICT DO UPDATE`, gives values to these columns.
    pub(super) fn need_update(&mut self, table: &Table, positions: impl Iterator<Item = usize>) {
        if let Some(needed) = self.needed_of(table) {
            needed.privileges = needed.privileges.and(Privileges::UPDATE);
            needed.updated.extend(positions.map(number));
        }
    }
}

/// A column's number in `pg_attribute`.
fn number(position: usize) -> u16 {
    u16::try_from(position + 1).unwrap_or(u16::MAX)
}
