//! Schemas: made, renamed, given to others; temporary ones of sessions.

use std::sync::Arc;

use seawall_values::{Oid, SqlError, SqlResult, SqlState};

use super::Definer;
use super::dependents::Object;
use super::requests::{Behavior, DropNamed, NewNamespace};
use crate::catalog::numbers::PG_NAMESPACE;
use crate::catalog::source::Namespace;
use crate::schema::Table;
use crate::schema::privilege::ObjectKind;
use crate::schema::store::is_system_namespace;

fn no_such_schema(name: &str) -> Box<SqlError> {
    SqlError::new(SqlState::INVALID_SCHEMA_NAME, format!("schema \"{name}\" does not exist"))
}

fn check_name(name: &str) -> SqlResult<()> {
    if name.starts_with("pg_") {
        let message = format!("unacceptable schema name \"{name}\"");
        return Err(SqlError::new(SqlState::RESERVED_NAME, message)
            .with_detail("The prefix \"pg_\" is reserved for system schemas."));
    }
    Ok(())
}

impl Definer<'_> {
    /// `CREATE SCHEMA`: its number. `None`: it was there (`IF NOT EXISTS`).
    ///
    /// # Errors
    /// `42P06`, `42939`.
    pub fn create_schema(&mut self, request: &NewNamespace) -> SqlResult<Option<Oid>> {
        check_name(&request.name)?;
        let store = self.tables.store;
        if store.namespace_number(self.tables.transaction, &request.name)?.is_some() {
            let message = format!("schema \"{}\" already exists", request.name);
            if request.if_not_exists {
                self.notice(SqlState::DUPLICATE_SCHEMA, format!("{message}, skipping"));
                return Ok(None);
            }
            return Err(SqlError::new(SqlState::DUPLICATE_SCHEMA, message));
        }
        let (oid, owner) = (store.new_oid()?, request.owner.unwrap_or(self.owner));
        let namespace = Namespace { oid, name: request.name.clone(), owner };
        store.put_namespace(self.tables.transaction, &namespace, None)?;
        self.give_default_access(ObjectKind::Schema, (oid, PG_NAMESPACE, 0), 0)?;
        Ok(Some(oid))
    }

    /// `ALTER SCHEMA .. RENAME TO`.
    ///
    /// # Errors
    /// `3F000`, `42P06`, `42939`.
    pub fn rename_schema(&mut self, name: &str, to: &str) -> SqlResult<()> {
        let old = self.schema_to_change(name)?;
        check_name(to)?;
        if self.tables.store.namespace_number(self.tables.transaction, to)?.is_some_and(is_system_namespace) {
            let message = format!("schema \"{to}\" already exists");
            return Err(SqlError::new(SqlState::DUPLICATE_SCHEMA, message));
        }
        let renamed = Namespace { name: to.to_owned(), ..old.clone() };
        self.tables.store.put_namespace(self.tables.transaction, &renamed, Some(&old))
    }

    /// `ALTER SCHEMA .. OWNER TO`.
    ///
    /// # Errors
    /// `3F000`.
    pub fn give_schema(&mut self, name: &str, owner: Oid) -> SqlResult<()> {
        let old = self.schema_to_change(name)?;
        let given = Namespace { owner, ..old.clone() };
        self.give_access(old.oid, PG_NAMESPACE, old.owner, owner)?;
        self.tables.store.put_namespace(self.tables.transaction, &given, Some(&old))
    }

    pub(super) fn require_owner_of_schema(&mut self, oid: Oid) -> SqlResult<()> {
        let name = self.tables.store.namespace_name(self.tables.transaction, oid)?;
        self.schema_to_change(&name).map(drop)
    }

    fn schema_to_change(&mut self, name: &str) -> SqlResult<Namespace> {
        let store = self.tables.store;
        let oid = store.namespace_number(self.tables.transaction, name)?;
        let oid = oid.ok_or_else(|| no_such_schema(name))?;
        if is_system_namespace(oid) {
            let message = format!("permission denied for schema {name}");
            return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
        }
        let namespace = store.namespace(self.tables.transaction, oid)?.ok_or_else(|| no_such_schema(name))?;
        if !self.has_role(namespace.owner)? {
            let message = format!("must be owner of schema {name}");
            return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
        }
        Ok(namespace)
    }

    /// `DROP SCHEMA`.
    ///
    /// # Errors
    /// `3F000`, `2BP01`.
    pub fn drop_schemas(&mut self, request: &DropNamed) -> SqlResult<()> {
        let mut objects = Vec::new();
        for name in &request.names {
            let known = self.tables.store.namespace_number(self.tables.transaction, name)?;
            if known.is_none() && request.if_exists {
                self.skip(format!("schema \"{name}\" does not exist, skipping"));
                continue;
            }
            if known.is_some_and(is_system_namespace) {
                let message =
                    format!("cannot drop schema {name} because it is required by the database system");
                return Err(SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message));
            }
            objects.push(Object::Namespace(self.schema_to_change(name)?.oid));
        }
        self.drop_objects(&objects, request.behavior)
    }

    /// The temporary schema of the session with this number, empty.
    ///
    /// # Errors
    /// What the engine says.
    pub fn temporary_schema(&mut self, session: i32) -> SqlResult<Oid> {
        let (store, name) = (self.tables.store, format!("pg_temp_{session}"));
        if let Some(oid) = store.namespace_number(self.tables.transaction, &name)? {
            // A session of this number has ended without a word.
            self.drop_temporary(oid)?;
            return Ok(oid);
        }
        let oid = store.new_oid()?;
        let namespace = Namespace { oid, name, owner: crate::catalog::numbers::BOOTSTRAP_ROLE };
        store.put_namespace(self.tables.transaction, &namespace, None)?;
        Ok(oid)
    }

    /// Drops temporary tables with what depends on them: their transaction commits.
    ///
    /// # Errors
    /// What the engine says.
    pub fn drop_at_commit(&mut self, tables: &[Arc<Table>]) -> SqlResult<()> {
        let objects: Vec<Object> = tables.iter().map(|table| Object::Relation(table.oid)).collect();
        let notices = self.notices.len();
        self.drop_objects(&objects, Behavior::Cascade)?;
        self.notices.truncate(notices);
        Ok(())
    }

    /// Drops all that is in a temporary schema: its session ends, or `DISCARD TEMP`.
    ///
    /// # Errors
    /// What the engine says.
    pub fn drop_temporary(&mut self, namespace: Oid) -> SqlResult<()> {
        let contents = self.contents_of(namespace)?;
        let notices = self.notices.len();
        self.drop_objects(&contents, Behavior::Cascade)?;
        self.notices.truncate(notices);
        Ok(())
    }
}
