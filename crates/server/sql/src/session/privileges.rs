//! Whether the user may do what a statement does: `42501` if not.
//!
//! A plan is checked when it is made. It is made again after `SET ROLE` and after any change of definitions, roles or privileges, so what
//! is kept may be run.

use std::sync::Arc;

use seawall_values::{Oid, SqlError, SqlResult, SqlState};

use super::Session;
use crate::algebra::walk::{expressions, inputs, operands};
use crate::algebra::{Expression, ExpressionKind, MergeAction, MergeClause, Query, Relation};
use crate::bind::NeededPrivileges;
use crate::catalog::numbers::{BOOTSTRAP_ROLE, DATABASE, PG_CLASS, PG_DATABASE};
use crate::catalog::{heading, is_secret, oid_of};
use crate::optimize::walk::{self, Columns};
use crate::schema::privilege::{ObjectKind, Privileges, Rights};
use crate::schema::{Definition, Sequence, Table};

impl Session {
    /// `42501` unless the user, and the owners of the views in it, may do what a statement does.
    pub(super) fn check_privileges(&mut self, query: &Query, needed: &[NeededPrivileges]) -> SqlResult<()> {
        if self.asker.is_superuser && needed.iter().all(|needed| needed.checked_as.is_none()) {
            return Ok(());
        }
        let mut used = None;
        for needed in needed {
            let rights = self.rights_of(needed.checked_as)?;
            if rights.is_superuser() {
                continue;
            }
            let used = used.get_or_insert_with(|| used_columns(query));
            self.check_needed(needed, &rights, used)?;
        }
        Ok(())
    }

    /// The rights of a role; `None`: of the user, which are known with the search path.
    fn rights_of(&mut self, role: Option<Oid>) -> SqlResult<Arc<Rights>> {
        if let (None, Some((_, _, path))) = (role, &self.path)
            && let Some(rights) = &path.rights
        {
            return Ok(Arc::clone(rights));
        }
        let database = Arc::clone(&self.database);
        let role = role.unwrap_or(self.asker.user);
        database.store.rights(self.engine_transaction()?, role).map(Arc::new)
    }

    fn check_needed(&mut self, needed: &NeededPrivileges, rights: &Rights, used: &Columns) -> SqlResult<()> {
        let held = self.held_on(&needed.relation, 0, rights)?;
        let numbers = live_numbers(&needed.relation);
        let mut selected = needed.selected.clone();
        if !numbers.is_empty() {
            let visible = needed.columns.iter().zip(numbers.iter().cycle());
            selected.extend(visible.filter(|(id, _)| used.contains(id)).map(|(_, number)| *number));
        }
        let is_read = needed.is_read || !selected.is_empty();
        let all: Privileges = needed.privileges;
        let by_column = [
            (Privileges::SELECT, is_read, &selected),
            (Privileges::INSERT, all.has(Privileges::INSERT), &needed.inserted),
            (Privileges::UPDATE, all.has(Privileges::UPDATE), &needed.updated),
        ];
        let is_missing = !held.has(all.without(Privileges::INSERT.and(Privileges::UPDATE)));
        if is_missing {
            return Err(denied(&needed.relation));
        }
        for (privilege, is_wanted, columns) in by_column {
            if is_wanted && !held.has(privilege) {
                self.check_columns(needed, rights, privilege, columns, &numbers)?;
            }
        }
        Ok(())
    }

    /// Without a privilege on the relation, it must be had on each of the columns; if there are none, on any.
    fn check_columns(
        &mut self,
        needed: &NeededPrivileges,
        rights: &Rights,
        privilege: Privileges,
        columns: &[u16],
        all: &[u16],
    ) -> SqlResult<()> {
        if columns.is_empty() {
            for column in all {
                if self.held_on(&needed.relation, *column, rights)?.has(privilege) {
                    return Ok(());
                }
            }
            return Err(denied(&needed.relation));
        }
        for column in columns {
            if !self.held_on(&needed.relation, *column, rights)?.has(privilege) {
                return Err(denied(&needed.relation));
            }
        }
        Ok(())
    }

    /// The privileges that are had on a relation, or (from 1) on a column of it.
    fn held_on(&mut self, relation: &Definition, column: u16, rights: &Rights) -> SqlResult<Privileges> {
        if let Definition::System(system) = relation {
            let of_all = if is_secret(system) { Privileges::NONE } else { Privileges::SELECT };
            return Ok(of_all.and(rights.of_system(ObjectKind::Table)));
        }
        let kind = match relation {
            _ if column > 0 => ObjectKind::Column,
            Definition::Sequence(_) => ObjectKind::Sequence,
            _ => ObjectKind::Table,
        };
        let (place, owner) = ((oid_of(relation), PG_CLASS, column), heading(relation).owner);
        let database = Arc::clone(&self.database);
        database.store.privileges_held(self.engine_transaction()?, rights, kind, place, owner)
    }

    /// `42501` unless the user has one of the privileges on a table.
    pub(super) fn require_on_table(&mut self, table: &Arc<Table>, any: Privileges) -> SqlResult<()> {
        if self.asker.is_superuser {
            return Ok(());
        }
        let (relation, rights) = (Definition::Table(Arc::clone(table)), self.rights_of(None)?);
        let held = self.held_on(&relation, 0, &rights)?;
        if held.shared(any).is_none() { Err(denied(&relation)) } else { Ok(()) }
    }

    /// Whether the user has a privilege on the database.
    pub(super) fn has_on_database(&mut self, privilege: Privileges) -> SqlResult<bool> {
        let rights = self.rights_of(None)?;
        let (place, kind) = ((DATABASE, PG_DATABASE, 0), ObjectKind::Database);
        let database = Arc::clone(&self.database);
        let transaction = self.engine_transaction()?;
        let held = database.store.privileges_held(transaction, &rights, kind, place, BOOTSTRAP_ROLE)?;
        Ok(held.has(privilege))
    }
}

impl super::functions::Calls<'_> {
    /// `42501` unless the user has one of the privileges on a sequence.
    pub(super) fn require_on_sequence(
        &self,
        transaction: &mut seawall_engine::Transaction,
        sequence: &Sequence,
        any: Privileges,
    ) -> SqlResult<()> {
        if self.asker.is_superuser {
            return Ok(());
        }
        let store = &self.database.store;
        let rights = store.rights(transaction, self.asker.user)?;
        let place = (sequence.oid, PG_CLASS, 0);
        let held =
            store.privileges_held(transaction, &rights, ObjectKind::Sequence, place, sequence.owner)?;
        if held.shared(any).is_none() {
            let message = format!("permission denied for sequence {}", sequence.name);
            return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
        }
        Ok(())
    }
}

fn denied(relation: &Definition) -> Box<SqlError> {
    let kind = match relation {
        Definition::View(_) => "view",
        Definition::Sequence(_) => "sequence",
        Definition::Index(..) => "index",
        Definition::Table(_) => "table",
        Definition::System(system) if crate::catalog::is_system_view(system.oid) => "view",
        Definition::System(_) => "table",
    };
    let message = format!("permission denied for {kind} {}", heading(relation).name);
    SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message)
}

/// Numbers of the columns of a relation, without dropped ones.
fn live_numbers(relation: &Definition) -> Vec<u16> {
    let number = |position: usize| u16::try_from(position + 1).unwrap_or(u16::MAX);
    match relation {
        Definition::Table(table) => {
            let live = table.columns.iter().enumerate().filter(|(_, column)| !column.is_dropped);
            live.map(|(position, _)| number(position)).collect()
        }
        Definition::View(view) => (0..view.columns.len()).map(number).collect(),
        Definition::System(system) => (0..system.columns.len()).map(number).collect(),
        Definition::Sequence(_) => (0..3).map(number).collect(),
        Definition::Index(..) => Vec::new(),
    }
}

/// The relations that a statement names itself, and not a view in it: each alone (0), and with the numbers of the columns that are used.
pub(super) fn uses(query: &Query, needed: &[NeededPrivileges]) -> Vec<(Oid, u16)> {
    let used = used_columns(query);
    let mut uses = Vec::new();
    for needed in needed.iter().filter(|needed| needed.checked_as.is_none()) {
        let relation = oid_of(&needed.relation);
        uses.push((relation, 0));
        let numbers = live_numbers(&needed.relation);
        let visible = needed.columns.iter().zip(numbers.iter().cycle());
        uses.extend(visible.filter(|(id, _)| used.contains(id)).map(|(_, number)| (relation, *number)));
    }
    uses.sort_unstable();
    uses.dedup();
    uses
}

/// All columns that a statement uses anywhere.
fn used_columns(query: &Query) -> Columns {
    let mut used = Columns::default();
    used.extend(query.output.iter().map(|column| column.column));
    add_used(&query.relation, &mut used);
    used
}

fn add_used(relation: &Relation, used: &mut Columns) {
    match relation {
        // Checks of the table read rows for the table, not for the user.
        Relation::Change(change) => {
            change.returning.iter().for_each(|(_, value)| add_used_by(value, used));
            if let crate::algebra::ChangeKind::Insert { conflict: Some(conflict), .. } = &change.kind
                && let Some(update) = &conflict.update
            {
                update.values.iter().for_each(|(_, value)| add_used_by(value, used));
                update.condition.iter().for_each(|condition| add_used_by(condition, used));
            }
            let values = match &change.kind {
                crate::algebra::ChangeKind::Insert { values, .. }
                | crate::algebra::ChangeKind::Update { values, .. } => &values[..],
                crate::algebra::ChangeKind::Delete { .. } | crate::algebra::ChangeKind::Merge { .. } => &[],
            };
            used.extend(values.iter().map(|(_, column)| *column));
            if let crate::algebra::ChangeKind::Merge { clauses, .. } = &change.kind {
                clauses.iter().for_each(|clause| add_used_by_clause(clause, used));
            }
        }
        _ => {
            used.extend(walk::used_here(relation));
            expressions(relation, &mut |expression| add_used_in_subqueries(expression, used));
        }
    }
    inputs(relation, &mut |input| add_used(input, used));
}

fn add_used_by_clause(clause: &MergeClause, used: &mut Columns) {
    clause.condition.iter().for_each(|condition| add_used_by(condition, used));
    if let MergeAction::Insert(values) | MergeAction::Update(values) = &clause.action {
        values.iter().for_each(|(_, value)| add_used_by(value, used));
    }
}

fn add_used_by(expression: &Expression, used: &mut Columns) {
    walk::add_used(expression, used);
    add_used_in_subqueries(expression, used);
}

/// What subqueries use of their own relations.
fn add_used_in_subqueries(expression: &Expression, used: &mut Columns) {
    if let ExpressionKind::Subquery(subquery) = &expression.kind {
        add_used(&subquery.relation, used);
        used.extend(subquery.columns.iter().copied());
        operands(expression, &mut |operand| walk::add_used(operand, used));
    }
    operands(expression, &mut |operand| add_used_in_subqueries(operand, used));
}
