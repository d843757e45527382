//! Functions that users make: rows of definitions, found by their schema, name and types of inputs.

use std::sync::Arc;

use seawall_engine::Transaction;
use seawall_values::{Oid, SqlError, SqlResult, SqlState};

use super::{SchemaStore, encoding, rows};
use crate::schema::function::Function;
use crate::storage::engine_error::EngineResult;
use crate::storage::value::damaged;

impl SchemaStore {
    /// The function with this number, if users have made it.
    ///
    /// # Errors
    /// What the engine says; `XX001`.
    pub fn function(&self, transaction: &mut Transaction, oid: Oid) -> SqlResult<Option<Function>> {
        self.get(transaction, &rows::function(oid))?.map(|bytes| encoding::decode(&bytes)).transpose()
    }

    /// As `function`, in its newest version, which nobody else changes until the transaction ends.
    ///
    /// # Errors
    /// As `function`, and those of a row lock.
    pub fn function_to_change(&self, transaction: &mut Transaction, oid: Oid) -> SqlResult<Option<Function>> {
        let bytes = transaction.get_for_update(&self.definitions, rows::function(oid)).sql()?;
        bytes.map(|bytes| encoding::decode(&bytes)).transpose()
    }

    /// The functions of a schema with this name.
    ///
    /// # Errors
    /// What the engine says; `XX001`.
    pub fn functions_named(
        &self,
        transaction: &mut Transaction,
        namespace: Oid,
        name: &str,
    ) -> SqlResult<Vec<Arc<Function>>> {
        let mut found = Vec::new();
        for oid in self.function_numbers(transaction, &rows::functions_named(namespace, name))? {
            found.extend(self.function(transaction, oid)?.map(Arc::new));
        }
        Ok(found)
    }

    /// The number of the function of a schema with this name and these types of inputs.
    ///
    /// # Errors
    /// What the engine says.
    pub fn function_number(
        &self,
        transaction: &mut Transaction,
        namespace: Oid,
        name: &str,
        types: &[Oid],
    ) -> SqlResult<Option<Oid>> {
        self.number_at(transaction, &rows::function_name(namespace, name, types))
    }

    /// Numbers of all functions in a schema.
    ///
    /// # Errors
    /// What the engine says.
    pub fn functions_in(&self, transaction: &mut Transaction, namespace: Oid) -> SqlResult<Vec<Oid>> {
        self.function_numbers(transaction, &rows::function_names(namespace))
    }

    /// All functions that users have made, by their numbers.
    ///
    /// # Errors
    /// What the engine says; `XX001`.
    pub fn functions(&self, transaction: &mut Transaction) -> SqlResult<Vec<Function>> {
        let rows = self.rows(transaction, &rows::functions())?;
        rows.iter().map(|(_, bytes)| encoding::decode(bytes)).collect()
    }

    fn function_numbers(&self, transaction: &mut Transaction, prefix: &[u8]) -> SqlResult<Vec<Oid>> {
        let number = |(_, value): (Vec<u8>, Vec<u8>)| {
            value.try_into().map(u32::from_le_bytes).map_err(|_| damaged("a number"))
        };
        self.rows(transaction, prefix)?.into_iter().map(number).collect()
    }

    /// Writes a function in the place of `old`.
    ///
    /// # Errors
    /// `42723`: there is one with this name and these types; what the engine says.
    pub fn put_function(
        &self,
        transaction: &mut Transaction,
        new: &Function,
        old: Option<&Function>,
    ) -> SqlResult<()> {
        let key = |function: &Function| {
            rows::function_name(function.namespace, &function.name, &function.input_types())
        };
        let name = key(new);
        if old.is_none_or(|old| key(old) != name) {
            if let Some(old) = old {
                self.delete(transaction, &key(old))?;
            }
            let taken = || {
                let message = format!("function \"{}\" already exists with same argument types", new.name);
                SqlError::new(SqlState::DUPLICATE_FUNCTION, message)
            };
            self.take_name(transaction, &name, new.oid, taken)?;
        }
        self.put(transaction, &rows::function(new.oid), &encoding::encode(new)?)
    }

    /// Removes a function that nothing uses.
    ///
    /// # Errors
    /// What the engine says.
    pub fn remove_function(&self, transaction: &mut Transaction, gone: &Function) -> SqlResult<()> {
        self.remove_object(transaction, gone.oid)?;
        self.delete(transaction, &rows::function_name(gone.namespace, &gone.name, &gone.input_types()))?;
        self.delete(transaction, &rows::function(gone.oid))
    }
}
