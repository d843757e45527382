//! Objects that are no relations: schemas, roles, comments, settings, and who depends on whom.

use seawall_engine::Transaction;
use seawall_values::{Oid, SqlError, SqlResult, SqlState};

use super::rows::Place;
use super::{SchemaStore, encoding, rows};
use crate::catalog::numbers::{PG_CATALOG, SEAWALL};
use crate::catalog::source::{Comment, Namespace, Role};
use crate::storage::value::damaged;

/// An object that depends on another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dependent {
    /// Its number: of a relation, or of a constraint.
    pub oid: Oid,
    /// The column of it that does, from 1 (a default, of a sequence); 0: all of it.
    pub column: u16,
    /// The column that it depends on, from 1; 0: the object as a whole.
    pub on_column: u16,
}

/// Numbers of objects that are so near to one another are looked for together.
const NEAR: Oid = 8;

impl SchemaStore {
    /// The number of the schema with this name.
    ///
    /// # Errors
    /// What the engine says.
    pub fn namespace_number(&self, transaction: &mut Transaction, name: &str) -> SqlResult<Option<Oid>> {
        match name {
            "pg_catalog" => Ok(Some(PG_CATALOG)),
            "seawall" => Ok(Some(SEAWALL)),
            "information_schema" => Ok(Some(crate::catalog::information_schema())),
            name => self.number_at(transaction, &rows::namespace_name(name)),
        }
    }

    /// The schema with this number, unless it is one of the system.
    ///
    /// # Errors
    /// What the engine says.
    pub fn namespace(&self, transaction: &mut Transaction, oid: Oid) -> SqlResult<Option<Namespace>> {
        self.get(transaction, &rows::namespace(oid))?.map(|bytes| encoding::decode(&bytes)).transpose()
    }

    /// The name of a schema, also of one of the system.
    ///
    /// # Errors
    /// What the engine says.
    pub fn namespace_name(&self, transaction: &mut Transaction, oid: Oid) -> SqlResult<String> {
        if oid == PG_CATALOG {
            return Ok("pg_catalog".to_owned());
        }
        if oid == SEAWALL {
            return Ok("seawall".to_owned());
        }
        if oid == crate::catalog::information_schema() {
            return Ok("information_schema".to_owned());
        }
        Ok(self.namespace(transaction, oid)?.map(|namespace| namespace.name).unwrap_or_default())
    }

    /// All schemas but those of the system.
    ///
    /// # Errors
    /// What the engine says.
    pub fn namespaces(&self, transaction: &mut Transaction) -> SqlResult<Vec<Namespace>> {
        let rows = self.rows(transaction, &rows::namespaces())?;
        rows.iter().map(|(_, bytes)| encoding::decode(bytes)).collect()
    }

    /// Writes a schema in the place of `old`.
    ///
    /// # Errors
    /// `42P06`: the name is taken.
    pub fn put_namespace(
        &self,
        transaction: &mut Transaction,
        namespace: &Namespace,
        old: Option<&Namespace>,
    ) -> SqlResult<()> {
        if old.is_none_or(|old| old.name != namespace.name) {
            if let Some(old) = old {
                self.delete(transaction, &rows::namespace_name(&old.name))?;
            }
            let taken = || {
                let message = format!("schema \"{}\" already exists", namespace.name);
                SqlError::new(SqlState::DUPLICATE_SCHEMA, message)
            };
            if self.namespace_number(transaction, &namespace.name)?.is_some() {
                return Err(taken());
            }
            self.take_name(transaction, &rows::namespace_name(&namespace.name), namespace.oid, taken)?;
        }
        self.put(transaction, &rows::namespace(namespace.oid), &encoding::encode(namespace)?)
    }

    /// Removes a schema, which is empty.
    ///
    /// # Errors
    /// What the engine says.
    pub fn remove_namespace(&self, transaction: &mut Transaction, namespace: &Namespace) -> SqlResult<()> {
        self.remove_object(transaction, namespace.oid)?;
        self.delete(transaction, &rows::namespace_name(&namespace.name))?;
        self.delete(transaction, &rows::namespace(namespace.oid))
    }

    /// The role with this name, also one whose name begins with `pg_`.
    ///
    /// # Errors
    /// What the engine says.
    pub fn role_named(&self, transaction: &mut Transaction, name: &str) -> SqlResult<Option<Role>> {
        match self.number_at(transaction, &rows::role_name(name))? {
            Some(oid) => self.role(transaction, oid),
            None => Ok(crate::catalog::system_role(|_, known| known == name)),
        }
    }

    /// The role with this number, also one whose name begins with `pg_`.
    ///
    /// # Errors
    /// What the engine says.
    pub fn role(&self, transaction: &mut Transaction, oid: Oid) -> SqlResult<Option<Role>> {
        match self.get(transaction, &rows::role(oid))? {
            Some(bytes) => encoding::decode(&bytes).map(Some),
            None => Ok(crate::catalog::system_role(|known, _| known == oid)),
        }
    }

    /// All roles but those whose names begin with `pg_`.
    ///
    /// # Errors
    /// What the engine says.
    pub fn roles(&self, transaction: &mut Transaction) -> SqlResult<Vec<Role>> {
        let rows = self.rows(transaction, &rows::roles())?;
        rows.iter().map(|(_, bytes)| encoding::decode(bytes)).collect()
    }

    /// Writes a role in the place of `old`.
    ///
    /// # Errors
    /// `42710`: the name is taken.
    pub fn put_role(&self, transaction: &mut Transaction, role: &Role, old: Option<&Role>) -> SqlResult<()> {
        if old.is_none_or(|old| old.name != role.name) {
            if let Some(old) = old {
                self.delete(transaction, &rows::role_name(&old.name))?;
            }
            let taken = || {
                let message = format!("role \"{}\" already exists", role.name);
                SqlError::new(SqlState::DUPLICATE_OBJECT, message)
            };
            self.take_name(transaction, &rows::role_name(&role.name), role.oid, taken)?;
        }
        self.put(transaction, &rows::role(role.oid), &encoding::encode(role)?)
    }

    /// Removes a role.
    ///
    /// # Errors
    /// What the engine says.
    pub fn remove_role(&self, transaction: &mut Transaction, role: &Role) -> SqlResult<()> {
        self.remove_object(transaction, role.oid)?;
        self.delete(transaction, &rows::role_name(&role.name))?;
        self.delete(transaction, &rows::role(role.oid))
    }

    /// Sets the comment of an object, or of a column of it (from 1); `None`: removes it.
    ///
    /// # Errors
    /// What the engine says.
    pub fn put_comment(
        &self,
        transaction: &mut Transaction,
        (object, class, column): (Oid, Oid, u16),
        text: Option<&str>,
    ) -> SqlResult<()> {
        let key = rows::comment(object, class, column);
        match text {
            Some(text) => self.put(transaction, &key, text.as_bytes()),
            None => self.delete(transaction, &key),
        }
    }

    /// Comments of an object; `None`: all.
    ///
    /// # Errors
    /// What the engine says.
    pub fn comments(&self, transaction: &mut Transaction, object: Option<Oid>) -> SqlResult<Vec<Comment>> {
        let comment = |(key, text): (Vec<u8>, Vec<u8>)| {
            let (object, class, column) =
                rows::commented(&key).ok_or_else(|| damaged("the key of a comment"))?;
            let text = String::from_utf8(text).map_err(|_| damaged("a comment is not UTF-8"))?;
            Ok(Comment { object, class, column: i32::from(column), text })
        };
        self.rows(transaction, &rows::comments(object))?.into_iter().map(comment).collect()
    }

    /// Settings as `name=value` that sessions of a role begin with, in a database; 0: of any.
    ///
    /// # Errors
    /// What the engine says.
    pub fn settings_of(
        &self,
        transaction: &mut Transaction,
        database: Oid,
        role: Oid,
    ) -> SqlResult<Vec<String>> {
        let stored = self.get(transaction, &rows::settings(database, role))?;
        stored.map_or_else(|| Ok(Vec::new()), |bytes| encoding::decode(&bytes))
    }

    /// Sets what `settings_of` returns.
    ///
    /// # Errors
    /// What the engine says.
    pub fn put_settings(
        &self,
        transaction: &mut Transaction,
        database: Oid,
        role: Oid,
        settings: &Vec<String>,
    ) -> SqlResult<()> {
        let key = rows::settings(database, role);
        if settings.is_empty() {
            self.delete(transaction, &key)
        } else {
            self.put(transaction, &key, &encoding::encode(settings)?)
        }
    }

    /// Notes that `what` depends on `on`: objects, or columns of them, from 1.
    ///
    /// # Errors
    /// What the engine says.
    pub fn put_dependency(&self, transaction: &mut Transaction, what: Place, on: Place) -> SqlResult<()> {
        self.put(transaction, &rows::dependent(on, what), b"")?;
        self.put(transaction, &rows::dependency(what, on), b"")
    }

    /// Who depends on an object or on its columns.
    ///
    /// # Errors
    /// What the engine says.
    pub fn dependents(&self, transaction: &mut Transaction, on: Oid) -> SqlResult<Vec<Dependent>> {
        let dependent = |(key, _): (Vec<u8>, Vec<u8>)| {
            let (on, what) = rows::places(&key).ok_or_else(|| damaged("the key of a dependency"))?;
            Ok(Dependent { oid: what.0, column: what.1, on_column: on.1 })
        };
        self.rows(transaction, &rows::dependents(on))?.into_iter().map(dependent).collect()
    }

    /// The objects, and columns of them, that an object depends on.
    ///
    /// # Errors
    /// What the engine says.
    pub fn dependencies(&self, transaction: &mut Transaction, what: Oid) -> SqlResult<Vec<Place>> {
        let place = |(key, _): (Vec<u8>, Vec<u8>)| {
            rows::places(&key).map(|(_, on)| on).ok_or_else(|| damaged("the key of a dependency"))
        };
        self.rows(transaction, &rows::dependencies(what))?.into_iter().map(place).collect()
    }

    /// Forgets what an object depends on, or (`column` above 0) a column of it.
    ///
    /// # Errors
    /// What the engine says.
    pub fn remove_dependencies(
        &self,
        transaction: &mut Transaction,
        what: Oid,
        column: Option<u16>,
    ) -> SqlResult<()> {
        for (key, _) in self.rows(transaction, &rows::dependencies(what))? {
            let (what, on) = rows::places(&key).ok_or_else(|| damaged("the key of a dependency"))?;
            if column.is_none_or(|column| column == what.1) {
                self.delete(transaction, &key)?;
                self.delete(transaction, &rows::dependent(on, what))?;
            }
        }
        Ok(())
    }

    /// Forgets the comments of an object, its access lists, and what it depends on.
    pub(in crate::schema) fn remove_object(&self, transaction: &mut Transaction, oid: Oid) -> SqlResult<()> {
        self.remove_objects(transaction, &mut [oid])
    }

    /// As `remove_object`, of several: those that were made together have numbers next to one another, and are looked for together.
    pub(super) fn remove_objects(&self, transaction: &mut Transaction, oids: &mut [Oid]) -> SqlResult<()> {
        oids.sort_unstable();
        for near in oids.chunk_by(|oid, next| next - oid <= NEAR) {
            let (Some(first), Some(last)) = (near.first(), near.last()) else { continue };
            for (key, _) in
                self.rows_between(transaction, &rows::dependencies(*first), &rows::dependencies(*last))?
            {
                let (what, on) = rows::places(&key).ok_or_else(|| damaged("the key of a dependency"))?;
                if near.contains(&what.0) {
                    self.delete(transaction, &key)?;
                    self.delete(transaction, &rows::dependent(on, what))?;
                }
            }
            let sections: [fn(Oid) -> Vec<u8>; 2] = [|oid| rows::comments(Some(oid)), rows::access_of_number];
            for section in sections {
                for (key, _) in self.rows_between(transaction, &section(*first), &section(*last))? {
                    let (oid, ..) = rows::commented(&key).ok_or_else(|| damaged("the key of an object"))?;
                    if near.contains(&oid) {
                        self.delete(transaction, &key)?;
                    }
                }
            }
        }
        Ok(())
    }
}
