//! The privileges that a statement takes, noted while it is bound. `session::privileges` checks them.
//!
//! As in PostgreSQL, `SELECT` is taken on the columns that a text names, whether or not what they are is used later. What the
//! definitions of a table read, such as generated columns, is read for the table and not for the user.

use seawall_values::Oid;

use super::Binder;
use super::scope::ScopeColumn;
use crate::schema::Definition;
use crate::schema::privilege::Privileges;

/// The privileges that a statement takes on one relation that it names.
#[derive(Clone, Debug)]
pub(crate) struct NeededPrivileges {
    pub(crate) relation: Definition,
    /// Whose they must be: a view's owner for what its text names; `None`: the role that asks.
    pub(crate) checked_as: Option<Oid>,
    /// On the relation; `INSERT` and `UPDATE` may be had on the columns instead.
    pub(crate) privileges: Privileges,
    /// Whether `SELECT` is taken even if no column is named.
    pub(crate) is_read: bool,
    /// Numbers of columns that are named; negative: those that every table has.
    pub(crate) selected: Vec<i16>,
    /// Numbers of columns that `INSERT` gives values to.
    pub(crate) inserted: Vec<u16>,
    /// Numbers of columns that `UPDATE` gives values to.
    pub(crate) updated: Vec<u16>,
    /// Whether the text of a function names it.
    pub(crate) is_in_function: bool,
    /// What a change of a view changes in its place, from the view down: the next view, at last the table.
    pub(crate) beneath: Vec<Beneath>,
}

/// A relation that is changed in the place of a view.
#[derive(Clone, Debug)]
pub(crate) struct Beneath {
    pub(crate) relation: Definition,
    /// Whose privileges are looked at: as the view above it says.
    pub(crate) checked_as: Option<Oid>,
    /// Of columns of the view that the statement names, and of their numbers here.
    pub(crate) numbers: Vec<(u16, u16)>,
    /// Numbers of the columns that the view above it names.
    pub(crate) selected: Vec<i16>,
}

/// A column that is named: for which owner of a view, of which relation, its number.
pub(super) type NamedColumn = (Option<Oid>, Oid, i16);

impl Binder<'_> {
    /// The statement reads a relation.
    pub(super) fn need_select(&mut self, relation: Definition) {
        self.need(relation, Privileges::NONE, true);
    }

    /// The statement changes a relation.
    pub(super) fn need_change(
        &mut self,
        relation: Definition,
        privileges: Privileges,
        beneath: Vec<Beneath>,
    ) {
        self.need(relation, privileges, false);
        if let Some(needed) = self.needed.last_mut() {
            needed.beneath = beneath;
        }
    }

    fn need(&mut self, relation: Definition, privileges: Privileges, is_read: bool) {
        self.needed.push(NeededPrivileges {
            relation,
            checked_as: self.view_owner,
            privileges,
            is_read,
            selected: Vec::new(),
            inserted: Vec::new(),
            updated: Vec::new(),
            is_in_function: self.functions.is_inside(),
            beneath: Vec::new(),
        });
    }

    /// A text names a column.
    pub(super) fn note_named(&mut self, column: &ScopeColumn) {
        let (relation, number) = column.origin;
        if relation != 0 && !self.is_for_table {
            self.named.insert((self.view_owner, relation, number));
        }
    }

    /// A text names all columns.
    pub(super) fn note_all_named(&mut self, columns: &[ScopeColumn]) {
        columns.iter().for_each(|column| self.note_named(column));
    }

    /// Runs `body` for the table, not for the user: what it names is not asked for.
    pub(super) fn for_table<T>(&mut self, body: impl FnOnce(&mut Self) -> T) -> T {
        let before = std::mem::replace(&mut self.is_for_table, true);
        let result = body(self);
        self.is_for_table = before;
        result
    }

    /// The privileges that the statement takes: it is bound.
    pub(crate) fn take_needed(&mut self) -> Vec<NeededPrivileges> {
        let mut all = std::mem::take(&mut self.needed);
        for needed in &mut all {
            let relation = crate::catalog::oid_of(&needed.relation);
            let named =
                self.named.iter().filter(|(owner, of, _)| (*owner, *of) == (needed.checked_as, relation));
            needed.selected.extend(named.map(|(_, _, number)| *number));
            needed.selected.sort_unstable();
            needed.selected.dedup();
        }
        all
    }

    /// The numbers of the columns of a relation that texts with this owner name.
    pub(super) fn named_for(&self, owner: Option<Oid>, relation: Oid) -> Vec<i16> {
        let named = self.named.iter().filter(|(of, on, _)| (*of, *on) == (owner, relation));
        named.map(|(_, _, number)| *number).collect()
    }

    /// The relation that the innermost change is of, as `need_change` has noted it.
    fn needed_of(&mut self, relation: Oid) -> Option<&mut NeededPrivileges> {
        let is_meant = |needed: &&mut NeededPrivileges| {
            !needed.is_read && crate::catalog::oid_of(&needed.relation) == relation
        };
        self.needed.iter_mut().rev().find(is_meant)
    }

    /// `INSERT` gives values to the columns with these numbers.
    pub(super) fn need_insert(&mut self, relation: Oid, numbers: Vec<u16>) {
        if let Some(needed) = self.needed_of(relation) {
            needed.inserted.extend(numbers);
        }
    }

    /// `ON CONFLICT` looks for rows with the same values in these columns.
    pub(super) fn need_selected(&mut self, relation: Oid, numbers: Vec<u16>) {
        if let Some(needed) = self.needed_of(relation) {
            needed.selected.extend(numbers.into_iter().filter_map(|number| i16::try_from(number).ok()));
        }
    }

    /// A clause of `MERGE` changes the table.
    pub(super) fn need_besides(&mut self, relation: Oid, privilege: Privileges) {
        if let Some(needed) = self.needed_of(relation) {
            needed.privileges = needed.privileges.and(privilege);
        }
    }

    /// `UPDATE`, or `ON CONFLICT DO UPDATE`, gives values to these columns.
    pub(super) fn need_update(&mut self, relation: Oid, numbers: Vec<u16>) {
        if let Some(needed) = self.needed_of(relation) {
            needed.privileges = needed.privileges.and(Privileges::UPDATE);
            needed.updated.extend(numbers);
        }
    }
}
