//! Types that users make: rows of definitions like relations, with names of their own.

use seawall_engine::{LockWait, Transaction};
use seawall_values::user_types::UserTypes;
use seawall_values::{Oid, SqlError, SqlResult, SqlState};

use super::{SchemaStore, SearchPath, encoding, rows};
use crate::catalog::names::quoted;
use crate::schema::user_type::{UserType, UserTypeKind, composite_fields};
use crate::storage::engine_error::EngineResult;
use crate::storage::value::damaged;

impl SchemaStore {
    /// The type with this number, if users have made it.
    ///
    /// # Errors
    /// What the engine says; `XX001`.
    pub fn user_type(&self, transaction: &mut Transaction, oid: Oid) -> SqlResult<Option<UserType>> {
        self.get(transaction, &rows::user_type(oid))?.map(|bytes| encoding::decode(&bytes)).transpose()
    }

    /// As `user_type`, in its newest version, which nobody else changes, drops or takes for a column until the transaction ends.
    ///
    /// # Errors
    /// As `user_type`, and those of a row lock.
    pub fn user_type_to_change(
        &self,
        transaction: &mut Transaction,
        oid: Oid,
    ) -> SqlResult<Option<UserType>> {
        let bytes = transaction.get_for_update(&self.definitions, rows::user_type(oid)).sql()?;
        bytes.map(|bytes| encoding::decode(&bytes)).transpose()
    }

    /// Whether the type is there. Then it stays until the transaction ends.
    ///
    /// # Errors
    /// What the engine says.
    pub fn user_type_held(&self, transaction: &mut Transaction, oid: Oid, wait: LockWait) -> SqlResult<bool> {
        transaction.lock_existing_row(&self.definitions, rows::user_type(oid), wait).sql()
    }

    /// The number of the type with this name in a schema.
    ///
    /// # Errors
    /// What the engine says.
    pub fn user_type_number(
        &self,
        transaction: &mut Transaction,
        namespace: Oid,
        name: &str,
    ) -> SqlResult<Option<Oid>> {
        self.number_at(transaction, &rows::type_name(namespace, name))
    }

    /// All types that users have made, by their numbers.
    ///
    /// # Errors
    /// What the engine says; `XX001`.
    pub fn user_types(&self, transaction: &mut Transaction) -> SqlResult<Vec<UserType>> {
        let rows = self.rows(transaction, &rows::user_types())?;
        rows.iter().map(|(_, bytes)| encoding::decode(bytes)).collect()
    }

    /// What texts of values need of all types, under names as they are seen along a path.
    ///
    /// # Errors
    /// As `user_types`.
    pub fn types_seen(&self, transaction: &mut Transaction, path: &SearchPath) -> SqlResult<UserTypes> {
        let mut seen = UserTypes::default();
        for known in self.user_types(transaction)? {
            let mut shown = quoted(&known.name);
            if !self.is_type_visible(transaction, path, &known)? {
                let schema = self.namespace_name(transaction, known.namespace)?;
                shown = format!("{}.{shown}", quoted(&schema));
            }
            match &known.kind {
                UserTypeKind::Enum(_) => seen.add_enum(known.oid, known.labels(shown)),
                UserTypeKind::Domain(domain) => seen.add_domain(known.oid, domain.rules(shown)),
                UserTypeKind::Composite(fields) => {
                    seen.add_composite(known.oid, composite_fields(fields, shown));
                }
            }
        }
        Ok(seen)
    }

    /// Whether the name alone finds the type.
    fn is_type_visible(
        &self,
        transaction: &mut Transaction,
        path: &SearchPath,
        known: &UserType,
    ) -> SqlResult<bool> {
        for namespace in path.namespaces.iter().copied() {
            if let Some(first) = self.user_type_number(transaction, namespace, &known.name)? {
                return Ok(first == known.oid);
            }
        }
        Ok(false)
    }

    /// Numbers of all types in a schema.
    ///
    /// # Errors
    /// What the engine says.
    pub fn user_types_in(&self, transaction: &mut Transaction, namespace: Oid) -> SqlResult<Vec<Oid>> {
        let number = |(_, value): (Vec<u8>, Vec<u8>)| {
            value.try_into().map(u32::from_le_bytes).map_err(|_| damaged("a number"))
        };
        self.rows(transaction, &rows::type_names(namespace))?.into_iter().map(number).collect()
    }

    /// Writes a type in the place of `old`.
    ///
    /// # Errors
    /// `42710`: the name is taken; what the engine says.
    pub fn put_user_type(
        &self,
        transaction: &mut Transaction,
        new: &UserType,
        old: Option<&UserType>,
    ) -> SqlResult<()> {
        let is_renamed = |old: &UserType| (old.namespace, &old.name) != (new.namespace, &new.name);
        if old.is_none_or(is_renamed) {
            if let Some(old) = old {
                self.delete(transaction, &rows::type_name(old.namespace, &old.name))?;
            }
            let taken = || {
                let message = format!("type \"{}\" already exists", new.name);
                SqlError::new(SqlState::DUPLICATE_OBJECT, message)
            };
            if self.relation_number(transaction, new.namespace, &new.name)?.is_some() {
                return Err(taken());
            }
            self.take_name(transaction, &rows::type_name(new.namespace, &new.name), new.oid, taken)?;
        }
        self.put(transaction, &rows::user_type(new.oid), &encoding::encode(new)?)
    }

    /// Removes a type that nothing uses.
    ///
    /// # Errors
    /// What the engine says.
    pub fn remove_user_type(&self, transaction: &mut Transaction, gone: &UserType) -> SqlResult<()> {
        self.remove_object(transaction, gone.oid)?;
        self.delete(transaction, &rows::type_name(gone.namespace, &gone.name))?;
        self.delete(transaction, &rows::user_type(gone.oid))
    }
}
