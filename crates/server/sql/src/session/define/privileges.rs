//! `GRANT`, `REVOKE` and `ALTER DEFAULT PRIVILEGES`: words and names become a request.

use seawall_values::{Oid, SqlError, SqlResult, SqlState};

use super::super::Session;
use crate::parse::Text;
use crate::parse::statement::definition::{
    ChangePrivileges, Grantee, NewObjects, PrivilegeWord, PrivilegedObjects,
};
use crate::schema::define::requests::{ChangeOfPrivileges, PrivilegedObject, WrittenPrivilege};
use crate::schema::privilege::Privileges;

impl Session {
    pub(super) fn change_privileges(&mut self, text: &Text, change: &ChangePrivileges) -> SqlResult<()> {
        let privileges = change.privileges.iter().map(written).collect::<SqlResult<_>>()?;
        let mut grantees = Vec::with_capacity(change.grantees.len());
        for grantee in &change.grantees {
            grantees.push(match grantee {
                Grantee::Public => 0,
                Grantee::Role(role) => self.role_number(role)?,
            });
        }
        let request = ChangeOfPrivileges {
            is_grant: change.is_grant,
            is_of_option: change.is_of_option,
            privileges,
            objects: self.privileged_objects(text, &change.objects)?,
            grantees,
            behavior: change.behavior,
        };
        self.with_definer(|definer| definer.change_privileges(&request))
    }

    fn privileged_objects(
        &mut self,
        text: &Text,
        objects: &PrivilegedObjects,
    ) -> SqlResult<Vec<PrivilegedObject>> {
        let mut found = Vec::new();
        match objects {
            PrivilegedObjects::Relations(names) => {
                for name in names {
                    found.push(PrivilegedObject::Relation(self.relation_number(name)?));
                }
            }
            PrivilegedObjects::Sequences(names) => {
                for name in names {
                    found.push(PrivilegedObject::Sequence(self.relation_number(name)?));
                }
            }
            PrivilegedObjects::Schemas(names) => {
                for schema in self.schema_numbers(names)? {
                    found.push(PrivilegedObject::Schema(schema));
                }
            }
            PrivilegedObjects::Databases(names) => {
                for name in names {
                    if *name != self.login.database {
                        let message = format!("database \"{name}\" does not exist");
                        return Err(SqlError::new(SqlState::INVALID_CATALOG_NAME, message));
                    }
                    found.push(PrivilegedObject::Database);
                }
            }
            PrivilegedObjects::AllIn(kind, names) => {
                for schema in self.schema_numbers(names)? {
                    found.push(PrivilegedObject::AllIn(*kind, schema));
                }
            }
            PrivilegedObjects::Functions(names) => {
                for name in names {
                    match self.own_function(text, name)? {
                        Some(function) => found.push(PrivilegedObject::Function(function.oid)),
                        None => return Err(self.no_such_function(text, name)?),
                    }
                }
            }
            PrivilegedObjects::New(new) => return self.new_objects(new),
        }
        Ok(found)
    }

    fn new_objects(&mut self, new: &NewObjects) -> SqlResult<Vec<PrivilegedObject>> {
        let roles = match new.roles.is_empty() {
            true => vec![self.asker.user],
            false => self.role_numbers(&new.roles)?,
        };
        let schemas = match new.schemas.is_empty() {
            true => vec![0],
            false => self.schema_numbers(&new.schemas)?,
        };
        let pairs = roles.iter().flat_map(|role| schemas.iter().map(move |schema| (*role, *schema)));
        Ok(pairs.map(|(role, schema)| PrivilegedObject::New(role, schema, new.kind)).collect())
    }

    fn schema_numbers(&mut self, names: &[String]) -> SqlResult<Vec<Oid>> {
        self.with_definer(|definer| names.iter().map(|name| definer.namespace_named(name)).collect())
    }

    /// `42501` unless the user may make temporary tables.
    pub(super) fn require_temporary_tables(&mut self) -> SqlResult<()> {
        if self.has_on_database(Privileges::TEMPORARY)? {
            return Ok(());
        }
        let database = &self.login.database;
        let message = format!("permission denied to create temporary tables in database \"{database}\"");
        Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message))
    }

    /// `42501` unless the user may make schemas, and give them to this role.
    pub(super) fn require_schemas(&mut self, owner: Option<Oid>) -> SqlResult<()> {
        if !self.has_on_database(Privileges::CREATE)? {
            let message = format!("permission denied for database {}", self.login.database);
            return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
        }
        match owner {
            Some(owner) => self.with_definer(|definer| definer.require_role(owner)),
            None => Ok(()),
        }
    }
}

fn written(word: &PrivilegeWord) -> SqlResult<WrittenPrivilege> {
    let privilege = match &word.word {
        None => None,
        Some(word) => Some(Privileges::named(&word.to_uppercase()).ok_or_else(|| {
            SqlError::new(SqlState::SYNTAX_ERROR, format!("unrecognized privilege type \"{word}\""))
        })?),
    };
    Ok(WrittenPrivilege { privilege, columns: word.columns.clone() })
}
