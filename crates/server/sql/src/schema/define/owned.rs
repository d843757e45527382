//! `DROP OWNED`, `REASSIGN OWNED`, and how what a role owns or was granted is told.

use seawall_values::{Oid, SqlError, SqlResult, SqlState};

use super::Definer;
use super::dependents::Object;
use super::requests::Behavior;
use crate::catalog::heading;
use crate::catalog::numbers::{BOOTSTRAP_ROLE, PG_CLASS, PG_NAMESPACE, PG_PROC};
use crate::catalog::source::Namespace;
use crate::schema::Definition;
use crate::schema::privilege::{AccessItem, AccessList, ObjectKind};
use crate::schema::store::{AccessPlace, is_system_namespace};

impl Definer<'_> {
    /// `DROP OWNED BY`: drops what the roles own, and revokes what they were granted.
    ///
    /// # Errors
    /// `42501`, `2BP01`.
    pub fn drop_owned(&mut self, owners: &[Oid], behavior: Behavior) -> SqlResult<()> {
        let mut objects = Vec::new();
        for owner in owners.iter().copied() {
            self.require_membership(owner, "drop objects")?;
            objects.extend(self.owned_objects(owner)?);
        }
        self.drop_objects(&objects, behavior)?;
        for owner in owners.iter().copied() {
            self.revoke_all(owner)?;
        }
        Ok(())
    }

    /// `REASSIGN OWNED BY .. TO ..`.
    ///
    /// # Errors
    /// `42501`.
    pub fn reassign_owned(&mut self, owners: &[Oid], to: Oid) -> SqlResult<()> {
        self.require_membership(to, "reassign objects")?;
        for owner in owners.iter().copied() {
            self.require_membership(owner, "reassign objects")?;
            for object in self.owned_objects(owner)? {
                match object {
                    Object::Namespace(oid) => {
                        let found = self.tables.store.namespace(self.tables.transaction, oid)?;
                        if let Some(old) = found {
                            let given = Namespace { owner: to, ..old.clone() };
                            self.give_access(oid, PG_NAMESPACE, owner, to)?;
                            let transaction = &mut *self.tables.transaction;
                            self.tables.store.put_namespace(transaction, &given, Some(&old))?;
                        }
                    }
                    Object::Relation(oid) => self.give_relation(oid, to)?,
                    Object::Type(oid) => self.give_type_numbered(oid, to)?,
                    Object::Function(oid) => self.give_function_numbered(oid, owner, to)?,
                    Object::Column(..)
                    | Object::Default(..)
                    | Object::Constraint(..)
                    | Object::DomainCheck(..) => {}
                }
            }
        }
        Ok(())
    }

    fn require_membership(&mut self, role: Oid, verb: &str) -> SqlResult<()> {
        if role == BOOTSTRAP_ROLE && verb == "drop objects" {
            let message = format!(
                "cannot {verb} owned by role {} because they are required by the database system",
                self.role_name(role)?
            );
            return Err(SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message));
        }
        if self.has_role(role)? {
            return Ok(());
        }
        Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, format!("permission denied to {verb}")))
    }

    /// Schemas, types, functions, tables, views and sequences of an owner; not sequences that belong to a table.
    fn owned_objects(&mut self, owner: Oid) -> SqlResult<Vec<Object>> {
        let store = self.tables.store;
        let mut found = Vec::new();
        for namespace in store.namespaces(self.tables.transaction)? {
            if namespace.owner == owner && !is_system_namespace(namespace.oid) {
                found.push(Object::Namespace(namespace.oid));
            }
        }
        let types = store.user_types(self.tables.transaction)?.into_iter();
        found.extend(types.filter(|known| known.owner == owner).map(|known| Object::Type(known.oid)));
        let functions = store.functions(self.tables.transaction)?.into_iter();
        found.extend(functions.filter(|known| known.owner == owner).map(|known| Object::Function(known.oid)));
        let mut after = 0;
        while let Some(definition) = store.definition_after(self.tables.transaction, after)? {
            after = crate::catalog::oid_of(&definition);
            let is_part =
                matches!(&definition, Definition::Sequence(sequence) if sequence.owned_by.is_some());
            if heading(&definition).owner == owner && !is_part {
                found.push(Object::Relation(after));
            }
        }
        Ok(found)
    }

    /// Removes a role from all access lists.
    fn revoke_all(&mut self, role: Oid) -> SqlResult<()> {
        let store = self.tables.store;
        for (place, mut list) in store.access_lists_naming(self.tables.transaction, role)? {
            remove_grantee(&mut list, role)?;
            let is_kept = place.2 == 0 || !list.items.is_empty();
            store.put_access_list(self.tables.transaction, place, Some(&list).filter(|_| is_kept))?;
        }
        for (place, mut list) in store.all_default_access(self.tables.transaction)? {
            if place.0 == role {
                store.put_default_access(self.tables.transaction, place, None)?;
            } else if list.names(role) {
                remove_grantee(&mut list, role)?;
                store.put_default_access(self.tables.transaction, place, Some(&list))?;
            }
        }
        Ok(())
    }

    // How it is told.

    fn role_name(&mut self, role: Oid) -> SqlResult<String> {
        let found = self.tables.store.role(self.tables.transaction, role)?;
        Ok(found.map_or_else(|| role.to_string(), |role| role.name))
    }

    /// The line of `DROP ROLE` about an access list; none for the list of what the role owns.
    pub(super) fn described_access(
        &mut self,
        (object, class, column): AccessPlace,
        role: Oid,
    ) -> SqlResult<Option<String>> {
        let what = match class {
            PG_CLASS => {
                let found = self.tables.store.definition(self.tables.transaction, object)?;
                if found.is_none_or(|found| heading(&found).owner == role) {
                    return Ok(None);
                }
                match column {
                    0 => self.described(Object::Relation(object))?,
                    column => self.described(Object::Column(object, column))?,
                }
            }
            PG_NAMESPACE => {
                let found = self.tables.store.namespace(self.tables.transaction, object)?;
                if found.is_none_or(|found| found.owner == role) {
                    return Ok(None);
                }
                self.described(Object::Namespace(object))?
            }
            PG_PROC => {
                let found = self.tables.store.function(self.tables.transaction, object)?;
                if found.is_none_or(|found| found.owner == role) {
                    return Ok(None);
                }
                self.described(Object::Function(object))?
            }
            _ => "the database".to_owned(),
        };
        Ok(Some(format!("privileges for {what}")))
    }

    pub(super) fn described_default(
        &mut self,
        owner: Oid,
        namespace: Oid,
        kind: ObjectKind,
        is_own: bool,
    ) -> SqlResult<String> {
        let head = if is_own { "owner of" } else { "privileges for" };
        let objects = match kind {
            ObjectKind::Table | ObjectKind::Column => "relations",
            ObjectKind::Sequence => "sequences",
            ObjectKind::Function => "functions",
            ObjectKind::Type => "types",
            ObjectKind::Schema => "schemas",
            ObjectKind::Database => "databases",
        };
        let owner = self.role_name(owner)?;
        let mut line = format!("{head} default privileges on new {objects} belonging to role {owner}");
        if namespace != 0 {
            let schema = self.tables.store.namespace_name(self.tables.transaction, namespace)?;
            line.push_str(&format!(" in schema {schema}"));
        }
        Ok(line)
    }
}

/// Takes all that a role was granted out of a list, with what it has granted on.
fn remove_grantee(list: &mut AccessList, role: Oid) -> SqlResult<()> {
    let granted: Vec<AccessItem> = list.items.iter().filter(|item| item.grantee == role).copied().collect();
    for item in granted {
        // The role owns nothing here, so 0 stands for the owner.
        list.revoke(AccessItem { grantable: item.privileges, ..item }, 0, Behavior::Cascade)
            .map_err(|_| SqlError::internal("privileges depend on others after a cascade"))?;
    }
    Ok(())
}
