//! `CREATE TYPE`, `ALTER TYPE`, `DROP TYPE`.

use seawall_values::system::system;
use seawall_values::{SqlError, SqlResult, SqlState};

use super::super::Session;
use crate::parse::statement::ObjectName;
use crate::parse::statement::definition::{AlterType, TypeAction};
use crate::schema::define::requests::{Behavior, NewLabel};

impl Session {
    pub(super) fn create_enum(&mut self, name: &ObjectName, labels: &[String]) -> SqlResult<()> {
        let namespace = self.namespace_of_new(name, false)?;
        self.with_definer(|definer| definer.create_enum(namespace, &name.name, labels))
    }

    pub(super) fn alter_type(&mut self, alter: &AlterType) -> SqlResult<()> {
        refuse_system_type(&alter.name).map_err(|error| match system().type_by_name(&alter.name.name) {
            Some(row) if alter.is_domain => {
                let message = format!("{} is not a domain", crate::bind::types::type_name(row.oid));
                SqlError::new(SqlState::WRONG_OBJECT_TYPE, message)
            }
            _ => error,
        })?;
        let name = alter.name.relation();
        if alter.is_domain {
            self.with_definer(|definer| definer.require_domain(&name))?;
        }
        match &alter.action {
            TypeAction::AddValue { label, if_not_exists, neighbour } => {
                let new = NewLabel {
                    label: label.clone(),
                    if_not_exists: *if_not_exists,
                    neighbour: neighbour.clone(),
                };
                self.with_definer(|definer| definer.add_label(&name, &new))
            }
            TypeAction::RenameValue { label, to } => {
                self.with_definer(|definer| definer.rename_label(&name, label, to))
            }
            TypeAction::Rename(to) => self.with_definer(|definer| definer.rename_type(&name, to)),
            TypeAction::SetSchema(schema) => self.with_definer(|definer| definer.move_type(&name, schema)),
            TypeAction::SetOwner(owner) => {
                let owner = self.role_number(owner)?;
                self.with_definer(|definer| definer.give_type(&name, owner))
            }
            TypeAction::SetDefault(_)
            | TypeAction::SetNotNull(_)
            | TypeAction::AddCheck { .. }
            | TypeAction::DropConstraint { .. }
            | TypeAction::RenameConstraint { .. }
            | TypeAction::ValidateConstraint(_) => self.alter_domain(&name, &alter.action),
        }
    }

    pub(super) fn drop_types(
        &mut self,
        names: &[ObjectName],
        is_domain: bool,
        if_exists: bool,
        behavior: Behavior,
    ) -> SqlResult<()> {
        names.iter().try_for_each(refuse_drop_of_system_type)?;
        let names: Vec<_> = names.iter().map(ObjectName::relation).collect();
        self.with_definer(|definer| definer.drop_types(&names, is_domain, if_exists, behavior))
    }
}

fn refuse_drop_of_system_type(name: &ObjectName) -> SqlResult<()> {
    refuse_system_type(name).map_err(|_| {
        let of = system().type_by_name(&name.name).map_or(0, |row| row.oid);
        let of = crate::bind::types::type_name(of);
        let message = format!("cannot drop type {of} because it is required by the database system");
        SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message)
    })
}

/// The types of the system stay as they are.
fn refuse_system_type(name: &ObjectName) -> SqlResult<()> {
    let is_of_system = name.schema.as_deref().is_none_or(|schema| schema == "pg_catalog");
    match system().type_by_name(&name.name) {
        Some(row) if is_of_system => {
            let message = format!("must be owner of type {}", crate::bind::types::type_name(row.oid));
            Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message))
        }
        _ => Ok(()),
    }
}
