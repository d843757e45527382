//! Whether the user may do what a statement does: `42501` if not.
//!
//! A plan is checked when it is made. It is made again after `SET ROLE` and after any change of definitions, roles or privileges, so what
//! is kept may be run.

use std::sync::Arc;

use seawall_values::{Oid, SqlError, SqlResult, SqlState};

use super::Session;
use crate::bind::NeededPrivileges;
use crate::catalog::numbers::{BOOTSTRAP_ROLE, DATABASE, PG_CHECKPOINT, PG_CLASS, PG_DATABASE};
use crate::catalog::{heading, is_secret, oid_of};
use crate::schema::privilege::{ObjectKind, Privileges, Rights};
use crate::schema::{Definition, Sequence};

/// The privileges that are taken on one relation.
struct Taken {
    all: Privileges,
    /// The columns that are named; `None`: it is not read.
    selected: Option<Vec<i16>>,
    inserted: Vec<u16>,
    updated: Vec<u16>,
}

impl Session {
    /// `42501` unless the user, and the owners of the views in it, may do what a statement does.
    pub(super) fn check_privileges(&mut self, needed: &[NeededPrivileges]) -> SqlResult<()> {
        let is_of_user = |needed: &NeededPrivileges| needed.checked_as.is_none() && needed.beneath.is_empty();
        if self.asker.is_superuser && needed.iter().all(is_of_user) {
            return Ok(());
        }
        for needed in needed {
            let is_read = needed.is_read || !needed.selected.is_empty();
            let taken = Taken {
                all: needed.privileges,
                selected: is_read.then(|| needed.selected.clone()),
                inserted: needed.inserted.clone(),
                updated: needed.updated.clone(),
            };
            self.check_taken(&needed.relation, needed.checked_as, &taken)?;
            for beneath in &needed.beneath {
                let here = |numbers: &[u16]| {
                    let is_meant = |(above, _): &&(u16, u16)| numbers.contains(above);
                    beneath.numbers.iter().filter(is_meant).map(|(_, number)| *number).collect()
                };
                let taken = Taken {
                    all: needed.privileges,
                    selected: is_read.then(|| beneath.selected.clone()),
                    inserted: here(&needed.inserted),
                    updated: here(&needed.updated),
                };
                self.check_taken(&beneath.relation, beneath.checked_as, &taken)?;
            }
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

    fn check_taken(&mut self, relation: &Definition, by: Option<Oid>, taken: &Taken) -> SqlResult<()> {
        let rights = self.rights_of(by)?;
        if rights.is_superuser() {
            return Ok(());
        }
        let held = self.held_on(relation, 0, &rights)?;
        if !held.has(taken.all.without(Privileges::INSERT.and(Privileges::UPDATE))) {
            return Err(denied(relation));
        }
        if let Some(selected) = &taken.selected
            && !held.has(Privileges::SELECT)
        {
            let columns: Result<Vec<u16>, _> = selected.iter().map(|number| u16::try_from(*number)).collect();
            // Columns that every table has go with the table.
            let columns = columns.map_err(|_| denied(relation))?;
            self.check_columns(relation, &rights, Privileges::SELECT, &columns)?;
        }
        for (privilege, columns) in
            [(Privileges::INSERT, &taken.inserted), (Privileges::UPDATE, &taken.updated)]
        {
            if taken.all.has(privilege) && !held.has(privilege) {
                self.check_columns(relation, &rights, privilege, columns)?;
            }
        }
        Ok(())
    }

    /// Without a privilege on the relation, it must be had on each of the columns; if there are none, on any.
    fn check_columns(
        &mut self,
        relation: &Definition,
        rights: &Rights,
        privilege: Privileges,
        columns: &[u16],
    ) -> SqlResult<()> {
        if columns.is_empty() {
            for column in live_numbers(relation) {
                if self.held_on(relation, column, rights)?.has(privilege) {
                    return Ok(());
                }
            }
            return Err(denied(relation));
        }
        for column in columns {
            if !self.held_on(relation, *column, rights)?.has(privilege) {
                return Err(denied(relation));
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

    /// `42501` unless the user has one of the privileges on a relation.
    pub(super) fn require_on(&mut self, relation: &Definition, any: Privileges) -> SqlResult<()> {
        if self.asker.is_superuser {
            return Ok(());
        }
        let rights = self.rights_of(None)?;
        let held = self.held_on(relation, 0, &rights)?;
        if held.shared(any).is_none() { Err(denied(relation)) } else { Ok(()) }
    }

    /// `42501` unless the user may ask for a checkpoint. The statement has looked up nothing before.
    pub(super) fn require_checkpoint(&mut self) -> SqlResult<()> {
        if self.look_up_user()?.has_role(PG_CHECKPOINT) {
            return Ok(());
        }
        let message = "must be superuser or have privileges of pg_checkpoint to do CHECKPOINT";
        Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message))
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
        Definition::Table(table) if table.query.is_some() => "materialized view",
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

/// The relations that a statement names itself, and not a view in it: each alone (0), and with the numbers of the columns that it names.
pub(super) fn uses(needed: &[NeededPrivileges]) -> Vec<(Oid, u16)> {
    let mut uses = Vec::new();
    for needed in needed.iter().filter(|needed| needed.checked_as.is_none() && !needed.is_in_function) {
        let relation = oid_of(&needed.relation);
        uses.push((relation, 0));
        let numbers = needed.selected.iter().filter_map(|number| u16::try_from(*number).ok());
        uses.extend(numbers.map(|number| (relation, number)));
    }
    uses.sort_unstable();
    uses.dedup();
    uses
}
