//! Functions of users: `CREATE FUNCTION`, `ALTER FUNCTION`, `DROP FUNCTION`.

use seawall_values::user_types::{element_of_user_array, is_user_type, marked_name};
use seawall_values::{Oid, SqlError, SqlResult, SqlState};

use super::Definer;
use super::dependents::Object;
use super::requests::Behavior;
use crate::catalog::definition_text::system_type;
use crate::catalog::names::quoted;
use crate::catalog::numbers::{PG_PROC, relation_of_type};
use crate::schema::function::Function;
use crate::schema::privilege::ObjectKind;
use crate::schema::store::is_system_namespace;

impl Definer<'_> {
    /// `CREATE FUNCTION`, `CREATE OR REPLACE FUNCTION`.
    ///
    /// # Errors
    /// `42723`; `42501`, `42P13`: it cannot be put in the place of what is there.
    pub fn create_function(&mut self, request: &Function, or_replace: bool) -> SqlResult<()> {
        let store = self.tables.store;
        let types = request.input_types();
        let existing =
            store.function_number(self.tables.transaction, request.namespace, &request.name, &types)?;
        let old = match existing {
            Some(oid) if or_replace => store.function_to_change(self.tables.transaction, oid)?,
            _ => None,
        };
        if let Some(old) = &old {
            self.require_owner_of_function(old)?;
            check_replaced(old, request)?;
        }
        for parameter in &request.parameters {
            self.hold_type(parameter.of)?;
        }
        self.hold_type(request.result)?;
        let (oid, owner) = match &old {
            Some(old) => (old.oid, old.owner),
            None => (store.new_oid()?, self.owner),
        };
        let new = Function { oid, owner, ..request.clone() };
        store.put_function(self.tables.transaction, &new, old.as_ref())?;
        if old.is_none() {
            self.give_default_access(ObjectKind::Function, (oid, PG_PROC, 0), new.namespace)?;
        }
        store.remove_dependencies(self.tables.transaction, oid, None)?;
        let types = new.parameters.iter().map(|parameter| parameter.of).chain([new.result]);
        for of in types.filter_map(needed_by_type) {
            store.put_dependency(self.tables.transaction, (oid, 0), (of, 0))?;
        }
        Ok(())
    }

    /// `DROP FUNCTION`.
    ///
    /// # Errors
    /// `42501`, `2BP01`.
    pub fn drop_functions(&mut self, functions: &[Oid], behavior: Behavior) -> SqlResult<()> {
        let mut objects = Vec::with_capacity(functions.len());
        for oid in functions.iter().copied() {
            let Some(found) = self.tables.store.function_to_change(self.tables.transaction, oid)? else {
                continue;
            };
            self.require_owner_of_function(&found)?;
            if !objects.contains(&Object::Function(oid)) {
                objects.push(Object::Function(oid));
            }
        }
        self.drop_objects(&objects, behavior)
    }

    pub(super) fn drop_function(&mut self, oid: Oid) -> SqlResult<()> {
        let store = self.tables.store;
        match store.function_to_change(self.tables.transaction, oid)? {
            Some(found) => store.remove_function(self.tables.transaction, &found),
            None => Ok(()),
        }
    }

    /// `ALTER FUNCTION .. RENAME TO`.
    ///
    /// # Errors
    /// `42501`, `42723`.
    pub fn rename_function(&mut self, oid: Oid, to: &str) -> SqlResult<()> {
        self.check_no_view(oid, "function", "RENAME", |_| false)?;
        self.change_function(oid, |old| Ok(Function { name: to.to_owned(), ..old.clone() }))
    }

    /// `ALTER FUNCTION .. SET SCHEMA`.
    ///
    /// # Errors
    /// `42501`, `3F000`, `42723`.
    pub fn move_function(&mut self, oid: Oid, schema: &str) -> SqlResult<()> {
        let namespace = self.namespace_of_new(Some(schema), false)?;
        self.check_no_view(oid, "function", "SET SCHEMA", |_| false)?;
        self.change_function(oid, |old| Ok(Function { namespace, ..old.clone() }))
    }

    /// `ALTER FUNCTION .. OWNER TO`.
    ///
    /// # Errors
    /// `42501`.
    pub fn give_function(&mut self, oid: Oid, owner: Oid) -> SqlResult<()> {
        self.require_role(owner)?;
        let found = self.tables.store.function(self.tables.transaction, oid)?;
        if let Some(found) = found {
            self.require_owner_of_function(&found)?;
            self.give_access(oid, PG_PROC, found.owner, owner)?;
        }
        self.change_function(oid, |old| Ok(Function { owner, ..old.clone() }))
    }

    pub(super) fn give_function_numbered(&mut self, oid: Oid, from: Oid, to: Oid) -> SqlResult<()> {
        let store = self.tables.store;
        let Some(old) = store.function_to_change(self.tables.transaction, oid)? else { return Ok(()) };
        self.give_access(oid, PG_PROC, from, to)?;
        let changed = Function { owner: to, ..old.clone() };
        store.put_function(self.tables.transaction, &changed, Some(&old))
    }

    /// `ALTER FUNCTION`: puts what `change` makes of a function into its place.
    ///
    /// # Errors
    /// `42501`, `42883`, and those of `change`.
    pub fn change_function(
        &mut self,
        oid: Oid,
        change: impl FnOnce(&Function) -> SqlResult<Function>,
    ) -> SqlResult<()> {
        let store = self.tables.store;
        let Some(old) = store.function_to_change(self.tables.transaction, oid)? else {
            let message = format!("function with OID {oid} does not exist");
            return Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, message));
        };
        self.require_owner_of_function(&old)?;
        store.put_function(self.tables.transaction, &change(&old)?, Some(&old))
    }

    pub(super) fn require_owner_of_function(&mut self, function: &Function) -> SqlResult<()> {
        if self.has_role(function.owner)? {
            return Ok(());
        }
        let message = format!("must be owner of function {}", function.name);
        Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message))
    }

    /// A function as messages name it: with its schema, if its name alone does not find it.
    pub(super) fn shown_function(&mut self, function: &Function) -> SqlResult<String> {
        let (store, types) = (self.tables.store, function.input_types());
        let mut seen = None;
        for namespace in self.path.namespaces.clone() {
            seen = store.function_number(self.tables.transaction, namespace, &function.name, &types)?;
            if seen.is_some() {
                break;
            }
        }
        let name = if seen == Some(function.oid) {
            quoted(&function.name)
        } else {
            let schema = store.namespace_name(self.tables.transaction, function.namespace)?;
            format!("{}.{}", quoted(&schema), quoted(&function.name))
        };
        Ok(format!("{name}({})", types_of(function).join(",")))
    }

    /// Functions of a schema.
    pub(super) fn functions_of_schema(&mut self, namespace: Oid) -> SqlResult<Vec<Object>> {
        if is_system_namespace(namespace) {
            return Ok(Vec::new());
        }
        let functions = self.tables.store.functions_in(self.tables.transaction, namespace)?;
        Ok(functions.into_iter().map(Object::Function).collect())
    }
}

fn types_of(function: &Function) -> Vec<String> {
    function
        .inputs()
        .map(|input| system_type(input.of, None).unwrap_or_else(|| marked_name(input.of)))
        .collect()
}

/// What users have made that a type needs: the type itself, or the relation whose rows it is of.
fn needed_by_type(of: Oid) -> Option<Oid> {
    if let Some((relation, _)) = relation_of_type(of) {
        return Some(relation);
    }
    let of = element_of_user_array(of).unwrap_or(of);
    is_user_type(of).then_some(of)
}

/// Callers of the old function can call the new one.
fn check_replaced(old: &Function, new: &Function) -> SqlResult<()> {
    let hint = format!("Use DROP FUNCTION {}({}) first.", old.name, types_of(old).join(","));
    let refuse = |message: String| {
        SqlError::new(SqlState::INVALID_FUNCTION_DEFINITION, message).with_hint(hint.clone())
    };
    if old.result != new.result || old.returns_set != new.returns_set {
        return Err(refuse("cannot change return type of existing function".to_owned()));
    }
    let outputs = |function: &Function| {
        let outputs = function.parameters.iter().filter(|one| matches!(one.mode, b'o' | b'b' | b't'));
        outputs.map(|one| (one.name.clone(), one.of)).collect::<Vec<_>>()
    };
    let (before, now) = (outputs(old), outputs(new));
    if before.len() > 1 && before != now {
        return Err(refuse("cannot change return type of existing function".to_owned())
            .with_detail("Row type defined by OUT parameters is different."));
    }
    for (old, new) in old.inputs().zip(new.inputs()) {
        if !old.name.is_empty() && old.name != new.name {
            return Err(refuse(format!("cannot change name of input parameter \"{}\"", old.name)));
        }
        if old.default.is_some() && new.default.is_none() {
            return Err(refuse("cannot remove parameter defaults from existing function".to_owned()));
        }
    }
    Ok(())
}
