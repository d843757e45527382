//! Names to definitions, along a search path.

use std::sync::Arc;

use seawall_engine::Transaction;
use seawall_values::{Oid, SqlError, SqlResult, SqlState};

use super::{SchemaStore, is_system_namespace};
use crate::catalog;
use crate::catalog::numbers::{PG_CATALOG, PG_NAMESPACE, PG_PROC};
use crate::schema::function::Function;
use crate::schema::privilege::{ObjectKind, Privileges, Rights};
use crate::schema::user_type::UserType;
use crate::schema::{Definition, Definitions};

/// Where names without a schema are looked up.
#[derive(Clone, Debug, Default)]
pub struct SearchPath {
    /// Numbers of schemas, in order; those that are implied are among them: the temporary schema first, then `pg_catalog`, unless the
    /// setting has them elsewhere.
    pub namespaces: Vec<Oid>,
    /// The session's own temporary schema; 0: there is none yet.
    pub temporary: Oid,
    /// Where new relations are made: the first schema that the setting names and that exists.
    pub creation: Option<Oid>,
    /// With whose rights names are looked up; `None`: the server's own.
    pub rights: Option<Arc<Rights>>,
}

impl SearchPath {
    /// The path that `search_path` names. Schemas that do not exist, or that the role must not use, are left out.
    ///
    /// # Errors
    /// What the engine says.
    pub fn of(
        names: &[String],
        user: &str,
        rights: Option<Arc<Rights>>,
        temporary: Oid,
        store: &SchemaStore,
        transaction: &mut Transaction,
    ) -> SqlResult<SearchPath> {
        let mut path = SearchPath { namespaces: Vec::new(), temporary, creation: None, rights };
        for name in names {
            let name = if name == "$user" { user } else { name };
            if let Some(oid) = path.namespace(store, transaction, name)?
                && !path.namespaces.contains(&oid)
                && path.may_use(store, transaction, oid)?
            {
                path.creation = path.creation.or(Some(oid));
                path.namespaces.push(oid);
            }
        }
        if !path.namespaces.contains(&PG_CATALOG) {
            path.namespaces.insert(0, PG_CATALOG);
        }
        if temporary != 0 && !path.namespaces.contains(&temporary) {
            path.namespaces.insert(0, temporary);
        }
        Ok(path)
    }

    /// Whether objects of a schema may be named.
    fn may_use(&self, store: &SchemaStore, transaction: &mut Transaction, oid: Oid) -> SqlResult<bool> {
        let Some(rights) = &self.rights else { return Ok(true) };
        if rights.is_superuser() || oid == self.temporary || is_system_namespace(oid) {
            return Ok(true);
        }
        let Some(found) = store.namespace(transaction, oid)? else { return Ok(false) };
        let place = (oid, PG_NAMESPACE, 0);
        let kind = ObjectKind::Schema;
        let held = store.privileges_held(transaction, rights, kind, place, found.owner)?;
        Ok(held.has(Privileges::USAGE))
    }

    /// The number of the schema with this name; `pg_temp` is the session's own.
    ///
    /// # Errors
    /// What the engine says.
    pub fn namespace(
        &self,
        store: &SchemaStore,
        transaction: &mut Transaction,
        name: &str,
    ) -> SqlResult<Option<Oid>> {
        match name {
            "pg_temp" => Ok(Some(self.temporary).filter(|oid| *oid != 0)),
            name => store.namespace_number(transaction, name),
        }
    }
}

/// The definitions that a transaction sees, for the statement under way.
#[derive(Debug)]
pub struct SchemaReader<'a> {
    /// Where they are.
    pub store: &'a SchemaStore,
    /// Who asks.
    pub transaction: &'a mut Transaction,
    /// Where names without a schema are looked up.
    pub path: &'a SearchPath,
}

impl SchemaReader<'_> {
    fn schema_named(&mut self, schema: &str) -> SqlResult<Oid> {
        let found = self.path.namespace(self.store, self.transaction, schema)?;
        found.ok_or_else(|| {
            let message = format!("schema \"{schema}\" does not exist");
            SqlError::new(SqlState::INVALID_SCHEMA_NAME, message)
        })
    }

    fn relation_in(&mut self, namespace: Oid, name: &str) -> SqlResult<Option<Definition>> {
        if is_system_namespace(namespace) {
            return Ok(catalog::relation_named(namespace, name).map(Definition::System));
        }
        match self.store.relation_number(self.transaction, namespace, name)? {
            Some(oid) => self.store.definition(self.transaction, oid),
            None => Ok(None),
        }
    }
}

impl Definitions for SchemaReader<'_> {
    fn relation(&mut self, schema: Option<&str>, name: &str) -> SqlResult<Option<Definition>> {
        let Some(schema) = schema else {
            for namespace in self.path.namespaces.iter().copied() {
                if let Some(found) = self.relation_in(namespace, name)? {
                    return Ok(Some(found));
                }
            }
            return Ok(None);
        };
        let namespace = self.schema_named(schema)?;
        self.relation_in(namespace, name)
    }

    fn user_type(&mut self, schema: Option<&str>, name: &str) -> SqlResult<Option<UserType>> {
        let namespaces = match schema {
            None => self.path.namespaces.clone(),
            Some(schema) => vec![self.schema_named(schema)?],
        };
        for namespace in namespaces {
            if let Some(oid) = self.store.user_type_number(self.transaction, namespace, name)? {
                return self.store.user_type(self.transaction, oid);
            }
        }
        Ok(None)
    }

    fn functions(&mut self, schema: Option<&str>, name: &str) -> SqlResult<Vec<Arc<Function>>> {
        let namespaces = match schema {
            None => self.path.namespaces.clone(),
            Some(schema) => vec![self.schema_named(schema)?],
        };
        let mut found = Vec::new();
        for namespace in namespaces.into_iter().filter(|namespace| !is_system_namespace(*namespace)) {
            found.extend(self.store.functions_named(self.transaction, namespace, name)?);
        }
        Ok(found)
    }

    fn check_may_execute(&mut self, function: &Function) -> SqlResult<()> {
        let Some(rights) = &self.path.rights else { return Ok(()) };
        let (kind, place) = (ObjectKind::Function, (function.oid, PG_PROC, 0));
        let held = self.store.privileges_held(self.transaction, rights, kind, place, function.owner)?;
        if rights.is_superuser() || held.has(Privileges::EXECUTE) {
            return Ok(());
        }
        let message = format!("permission denied for function {}", function.name);
        Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message))
    }

    fn check_may_use(&mut self, schema: &str) -> SqlResult<()> {
        match self.path.namespace(self.store, self.transaction, schema)? {
            Some(oid) if !self.path.may_use(self.store, self.transaction, oid)? => {
                let message = format!("permission denied for schema {schema}");
                Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message))
            }
            _ => Ok(()),
        }
    }

    fn relation_by_oid(&mut self, oid: Oid) -> SqlResult<Option<Definition>> {
        match catalog::relation(oid) {
            Some(relation) => Ok(Some(Definition::System(relation))),
            None => self.store.definition(self.transaction, oid),
        }
    }
}
