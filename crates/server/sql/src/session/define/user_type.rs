//! `CREATE TYPE`, `ALTER TYPE`, `DROP TYPE`.

use seawall_values::system::system;
use seawall_values::user_types::{CompositeField, is_domain};
use seawall_values::{SqlError, SqlResult, SqlState};

use super::super::Session;
use super::table::check_collation;
use crate::parse::Text;
use crate::parse::statement::ObjectName;
use crate::parse::statement::definition::{AlterType, TypeAction, WrittenField, WrittenFieldChange};
use crate::schema::define::requests::{Behavior, FieldChange, NewLabel};

impl Session {
    pub(super) fn create_enum(&mut self, name: &ObjectName, labels: &[String]) -> SqlResult<()> {
        let namespace = self.namespace_of_new(name, false)?;
        self.with_definer(|definer| definer.create_enum(namespace, &name.name, labels))
    }

    pub(super) fn create_composite(
        &mut self,
        text: &Text,
        name: &ObjectName,
        fields: &[WrittenField],
    ) -> SqlResult<()> {
        let fields = fields.iter().map(|field| self.field_of(text, field)).collect::<SqlResult<_>>()?;
        let namespace = self.namespace_of_new(name, false)?;
        self.with_definer(|definer| definer.create_composite(namespace, &name.name, fields))
    }

    fn field_of(&mut self, text: &Text, written: &WrittenField) -> SqlResult<CompositeField> {
        check_collation(written.collation.as_ref())?;
        let bound = self.bind_with(text, &[], |binder| {
            let of = binder.type_of(&written.of)?;
            Ok((of, binder.base_of(of)?))
        });
        let (declared, of) = bound?;
        let domain = if is_domain(declared.oid) { declared.oid } else { 0 };
        Ok(CompositeField { name: written.name.as_str().into(), of, domain })
    }

    pub(super) fn alter_type(&mut self, text: &Text, alter: &AlterType) -> SqlResult<()> {
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
            TypeAction::ChangeFields(changes) => {
                let mut bound = Vec::with_capacity(changes.len());
                for change in changes {
                    bound.push(match change {
                        WrittenFieldChange::Add(field) => FieldChange::Add(self.field_of(text, field)?),
                        WrittenFieldChange::Alter(field) => FieldChange::Alter(self.field_of(text, field)?),
                        WrittenFieldChange::Drop { name, if_exists } => {
                            FieldChange::Drop { name: name.clone(), if_exists: *if_exists }
                        }
                        WrittenFieldChange::Rename { name, to } => {
                            FieldChange::Rename { name: name.clone(), to: to.clone() }
                        }
                    });
                }
                self.with_definer(|definer| definer.change_fields(&name, bound))
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
