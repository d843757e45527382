//! Types of users: `CREATE TYPE`, `ALTER TYPE`, `DROP TYPE`.
//!
//! The labels of an enum have places, far from each other, and a value is stored as its place. So a new label finds a place between any
//! two others, and neither it nor a new name of a label touches a row.

use std::sync::Arc;

use seawall_values::user_types::{
    array_of_user_type, element_of_user_array, enum_number, is_composite, is_domain, is_enum, stored_name,
};
use seawall_values::{Oid, SqlError, SqlResult, SqlState};

use super::dependents::Object;
use super::requests::{Behavior, NewLabel, RelationName};
use super::{Definer, column_number, expression_text};
use crate::catalog::names::quoted;
use crate::schema::store::is_system_namespace;
use crate::schema::user_type::{EnumLabel, UserType, UserTypeKind};
use crate::schema::{ConstraintKind, Definition, IndexedValue, Table};

/// Between the places of two labels that were made one after the other: so often can the room between two be halved.
const STEP: i64 = 1 << 32;
/// Bytes of a label, at most.
const LABEL_BYTES_MAX: usize = 63;

impl Definer<'_> {
    /// `CREATE TYPE .. AS ENUM`.
    ///
    /// # Errors
    /// `42710`: the name is taken; `42602`, `23505`: labels.
    pub fn create_enum(&mut self, namespace: Oid, name: &str, labels: &[String]) -> SqlResult<()> {
        let store = self.tables.store;
        let mut made: Vec<EnumLabel> = Vec::with_capacity(labels.len());
        let mut place = 0;
        for text in labels {
            check_label(text)?;
            if made.iter().any(|known| known.text == *text) {
                let message = "duplicate key value violates unique constraint \"pg_enum_typid_label_index\"";
                return Err(SqlError::new(SqlState::UNIQUE_VIOLATION, message));
            }
            place += STEP;
            made.push(EnumLabel { oid: store.new_oid()?, place, text: text.clone() });
        }
        let oid = enum_number(store.new_oid()?).ok_or_else(|| {
            SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "no numbers for types are left in this database")
        })?;
        let (name, owner) = (name.to_owned(), self.owner);
        let new = UserType { oid, name, namespace, owner, kind: UserTypeKind::Enum(made) };
        store.put_user_type(self.tables.transaction, &new, None)
    }

    /// `ALTER TYPE .. ADD VALUE`.
    ///
    /// # Errors
    /// `42704`, `42809`, `42501`, `42602`, `42710`, `22023`; `54000`: there is no room between two labels.
    pub fn add_label(&mut self, name: &RelationName, new: &NewLabel) -> SqlResult<()> {
        let (old, mut labels) = self.enum_to_change(name)?;
        check_label(&new.label)?;
        if labels.iter().any(|known| known.text == new.label) {
            let message = format!("enum label \"{}\" already exists", new.label);
            if new.if_not_exists {
                self.notice(SqlState::DUPLICATE_OBJECT, format!("{message}, skipping"));
                return Ok(());
            }
            return Err(SqlError::new(SqlState::DUPLICATE_OBJECT, message));
        }
        let at = match &new.neighbour {
            None => labels.len(),
            Some((is_before, neighbour)) => place_of(&labels, neighbour)? + usize::from(!is_before),
        };
        let place = place_between(&labels, at).ok_or_else(|| {
            let message = format!("no room is left between two labels of enum {}", quoted(&old.name));
            SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)
                .with_hint("Make another type, and alter the columns to it.")
        })?;
        let oid = self.tables.store.new_oid()?;
        labels.insert(at, EnumLabel { oid, place, text: new.label.clone() });
        let changed = UserType { kind: UserTypeKind::Enum(labels), ..old.clone() };
        self.tables.store.put_user_type(self.tables.transaction, &changed, Some(&old))
    }

    /// `ALTER TYPE .. RENAME VALUE`.
    ///
    /// # Errors
    /// As `add_label`.
    pub fn rename_label(&mut self, name: &RelationName, label: &str, to: &str) -> SqlResult<()> {
        let (old, mut labels) = self.enum_to_change(name)?;
        check_label(to)?;
        let at = place_of(&labels, label)?;
        if labels.iter().any(|known| known.text == to) {
            let message = format!("enum label \"{to}\" already exists");
            return Err(SqlError::new(SqlState::DUPLICATE_OBJECT, message));
        }
        labels[at].text = to.to_owned();
        let changed = UserType { kind: UserTypeKind::Enum(labels), ..old.clone() };
        self.tables.store.put_user_type(self.tables.transaction, &changed, Some(&old))
    }

    /// `ALTER TYPE .. RENAME TO`.
    ///
    /// # Errors
    /// `42704`, `42501`, `42710`.
    pub fn rename_type(&mut self, name: &RelationName, to: &str) -> SqlResult<()> {
        let old = self.type_to_change(name)?;
        self.check_views_follow(old.oid, "type", "RENAME")?;
        let changed = UserType { name: to.to_owned(), ..old.clone() };
        self.tables.store.put_user_type(self.tables.transaction, &changed, Some(&old))
    }

    /// `ALTER TYPE .. SET SCHEMA`.
    ///
    /// # Errors
    /// `42704`, `42501`, `3F000`, `42710`.
    pub fn move_type(&mut self, name: &RelationName, schema: &str) -> SqlResult<()> {
        let old = self.type_to_change(name)?;
        self.check_views_follow(old.oid, "type", "SET SCHEMA")?;
        let namespace = self.namespace_of_new(Some(schema), false)?;
        let changed = UserType { namespace, ..old.clone() };
        self.tables.store.put_user_type(self.tables.transaction, &changed, Some(&old))
    }

    /// `ALTER TYPE .. OWNER TO`.
    ///
    /// # Errors
    /// `42704`, `42501`.
    pub fn give_type(&mut self, name: &RelationName, owner: Oid) -> SqlResult<()> {
        let old = self.type_to_change(name)?;
        self.require_role(owner)?;
        self.give_type_numbered(old.oid, owner)
    }

    pub(super) fn give_type_numbered(&mut self, oid: Oid, owner: Oid) -> SqlResult<()> {
        let store = self.tables.store;
        let Some(old) = store.user_type_to_change(self.tables.transaction, oid)? else { return Ok(()) };
        let changed = UserType { owner, ..old.clone() };
        store.put_user_type(self.tables.transaction, &changed, Some(&old))
    }

    /// `DROP TYPE`, `DROP DOMAIN`.
    ///
    /// # Errors
    /// `42704`, `42809`, `42501`, `2BP01`.
    pub fn drop_types(
        &mut self,
        names: &[RelationName],
        only_domains: bool,
        if_exists: bool,
        behavior: Behavior,
    ) -> SqlResult<()> {
        let mut objects = Vec::new();
        for name in names {
            let found = match self.type_named(name) {
                Err(error) if if_exists && error.code == SqlState::INVALID_SCHEMA_NAME => {
                    self.skip(format!("{}, skipping", error.message));
                    continue;
                }
                found => found?,
            };
            let Some(found) = found else {
                self.check_no_row_type(name)?;
                if !if_exists {
                    return Err(no_such_type(name));
                }
                self.skip(format!("type \"{}\" does not exist, skipping", dotted(name)));
                continue;
            };
            if only_domains && !is_domain(found.oid) {
                let message = format!("\"{}\" is not a domain", dotted(name));
                return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
            }
            self.require_owner_of_type(&found)?;
            let object = Object::Type(found.oid);
            if !objects.contains(&object) {
                objects.push(object);
            }
        }
        for object in &objects {
            if let Object::Type(oid) = object {
                self.tables.store.user_type_to_change(self.tables.transaction, *oid)?;
            }
        }
        // Whoever was about to give a column one of the types has committed: the columns are to be seen.
        self.see_all_definitions()?;
        self.drop_objects(&objects, behavior)
    }

    pub(super) fn drop_type(&mut self, oid: Oid) -> SqlResult<()> {
        let store = self.tables.store;
        let Some(found) = store.user_type_to_change(self.tables.transaction, oid)? else { return Ok(()) };
        if let UserTypeKind::Domain(domain) = &found.kind {
            for check in &domain.checks {
                store.remove_object(self.tables.transaction, check.oid)?;
            }
        }
        store.remove_user_type(self.tables.transaction, &found)
    }

    /// The type with this name.
    ///
    /// # Errors
    /// `3F000`: there is no such schema.
    pub fn type_named(&mut self, name: &RelationName) -> SqlResult<Option<UserType>> {
        let store = self.tables.store;
        let namespaces = match &name.schema {
            Some(schema) => vec![self.namespace_named(schema)?],
            None => self.path.namespaces.clone(),
        };
        for namespace in namespaces {
            if let Some(oid) = store.user_type_number(self.tables.transaction, namespace, &name.name)? {
                return store.user_type(self.tables.transaction, oid);
            }
        }
        Ok(None)
    }

    pub(super) fn type_to_change(&mut self, name: &RelationName) -> SqlResult<UserType> {
        let found = self.type_named(name)?.ok_or_else(|| no_such_type(name))?;
        self.require_owner_of_type(&found)?;
        let newest = self.tables.store.user_type_to_change(self.tables.transaction, found.oid)?;
        newest.ok_or_else(|| no_such_type(name))
    }

    fn enum_to_change(&mut self, name: &RelationName) -> SqlResult<(UserType, Vec<EnumLabel>)> {
        let found = self.type_to_change(name)?;
        match found.kind.clone() {
            UserTypeKind::Enum(labels) => Ok((found, labels)),
            UserTypeKind::Domain(_) | UserTypeKind::Composite(_) => {
                let message = format!("{} is not an enum", self.shown_type(&found)?);
                Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message))
            }
        }
    }

    pub(super) fn require_owner_of_type(&mut self, found: &UserType) -> SqlResult<()> {
        if self.has_role(found.owner)? {
            return Ok(());
        }
        let message = format!("must be owner of type {}", self.shown_type(found)?);
        Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message))
    }

    /// A type as messages name it: with its schema, if its name alone does not find it.
    pub(super) fn shown_type(&mut self, shown: &UserType) -> SqlResult<String> {
        let name = RelationName { schema: None, name: shown.name.clone() };
        if self.type_named(&name)?.is_some_and(|found| found.oid == shown.oid) {
            return Ok(quoted(&shown.name));
        }
        let schema = self.tables.store.namespace_name(self.tables.transaction, shown.namespace)?;
        Ok(format!("{}.{}", quoted(&schema), quoted(&shown.name)))
    }

    /// The type of the rows of a table goes with the table.
    fn check_no_row_type(&mut self, name: &RelationName) -> SqlResult<()> {
        let Some(definition @ (Definition::Table(_) | Definition::View(_))) = self.relation_named(name)?
        else {
            return Ok(());
        };
        let of = self.described(Object::Relation(crate::catalog::oid_of(&definition)))?;
        let message = format!("cannot drop type {} because {of} requires it", quoted(&name.name));
        Err(SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message)
            .with_hint(format!("You can drop {of} instead.")))
    }

    /// `42710` if a type has the name that a table or view is to have: its rows have a type of this name, too.
    pub(super) fn check_no_type(&mut self, namespace: Oid, name: &str) -> SqlResult<()> {
        match self.tables.store.user_type_number(self.tables.transaction, namespace, name)? {
            None => return Ok(()),
            Some(of) if is_composite(of) => {
                let message = format!("relation \"{name}\" already exists");
                return Err(SqlError::new(SqlState::DUPLICATE_TABLE, message));
            }
            Some(_) => {}
        }
        let message = format!("type \"{name}\" already exists");
        let hint = "A relation has an associated type of the same name, so you must use a name that doesn't \
                    conflict with any existing type.";
        Err(SqlError::new(SqlState::DUPLICATE_OBJECT, message).with_hint(hint))
    }

    /// The type of a new column stays until the transaction ends, and after that as long as the column is there. A domain, and those
    /// that it was made of, keep their conditions until then.
    pub(super) fn hold_type(&mut self, of: Oid) -> SqlResult<()> {
        let mut next = element_of_user_array(of).unwrap_or(of);
        if is_enum(next) || is_composite(next) {
            return self.hold_one_type(next);
        }
        while is_domain(next) {
            self.hold_one_type(next)?;
            next = self.parent_if_unchanged(next)?;
        }
        Ok(())
    }

    /// The domain that one is made of; 0: none. `40001` if another transaction has changed it since the statement began: values of a new
    /// column have met other conditions.
    fn parent_if_unchanged(&mut self, of: Oid) -> SqlResult<Oid> {
        let store = self.tables.store;
        self.tables.see_all_committed()?;
        let now = match self.tables.transaction.snapshot_lsn() {
            // It is refused if it is another one than in the snapshot.
            Some(_) => store.user_type_to_change(self.tables.transaction, of)?,
            None => store.user_type(self.tables.transaction, of)?,
        };
        let known = self.tables.settings.types.domain(of)?;
        match now.map(|now| now.kind) {
            Some(UserTypeKind::Domain(now)) if now.rules(known.name.clone()) == *known => Ok(now.parent),
            _ => Err(SqlError::new(
                SqlState::SERIALIZATION_FAILURE,
                "could not serialize access due to concurrent update",
            )
            .with_detail(format!("Domain {} was changed by another transaction.", known.name))),
        }
    }

    /// The types that a text of a definition names stay, too.
    pub(super) fn hold_types_in(&mut self, text: &str) -> SqlResult<()> {
        expression_text::objects_named(text).into_iter().try_for_each(|of| self.hold_type(of))
    }

    fn hold_one_type(&mut self, of: Oid) -> SqlResult<()> {
        match self.tables.store.user_type_held(self.tables.transaction, of, self.tables.lock_wait)? {
            true => Ok(()),
            false => {
                let message = format!("type with OID {of} does not exist");
                Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message))
            }
        }
    }

    /// Columns, defaults, constraints, indexes and views that need a type. Tables are looked through one by one.
    pub(super) fn dependents_of_type(&mut self, of: Oid) -> SqlResult<Vec<(Object, bool)>> {
        let store = self.tables.store;
        let mut found: Vec<(Object, bool)> = Vec::new();
        for dependent in store.dependents(self.tables.transaction, of)? {
            found.push((self.object_numbered(dependent.oid)?, false));
        }
        let mut after = 0;
        while let Some(definition) = store.definition_after(self.tables.transaction, after)? {
            after = crate::catalog::oid_of(&definition);
            if let Definition::Table(table) = &definition {
                found.extend(parts_with_type(table, of).into_iter().map(|object| (object, false)));
            }
        }
        Ok(found)
    }

    /// Types of a schema.
    pub(super) fn types_of_schema(&mut self, namespace: Oid) -> SqlResult<Vec<Object>> {
        if is_system_namespace(namespace) {
            return Ok(Vec::new());
        }
        let types = self.tables.store.user_types_in(self.tables.transaction, namespace)?;
        Ok(types.into_iter().map(Object::Type).collect())
    }
}

/// The parts of a table that need a type.
fn parts_with_type(table: &Arc<Table>, of: Oid) -> Vec<Object> {
    let mark = stored_name(of);
    let names = |text: &String| text.contains(&mark);
    let mut found = Vec::new();
    for (position, column) in table.columns.iter().enumerate().filter(|(_, column)| !column.is_dropped) {
        let number = column_number(position);
        let is_of_type =
            column.of.oid == of || column.domain == of || Some(column.of.oid) == array_of_user_type(of);
        if is_of_type || column.generated.as_ref().is_some_and(names) {
            found.push(Object::Column(table.oid, number));
        } else if column.default.as_ref().is_some_and(names) {
            found.push(Object::Default(table.oid, number));
        }
    }
    for constraint in &table.constraints {
        if matches!(&constraint.kind, ConstraintKind::Check(condition) if names(condition)) {
            found.push(Object::Constraint(table.oid, constraint.oid));
        }
    }
    for index in &table.indexes {
        let in_key = |what: &IndexedValue| matches!(what, IndexedValue::Expression(text) if names(text));
        if index.keys.iter().any(|key| in_key(&key.what)) || index.predicate.as_ref().is_some_and(names) {
            found.push(Object::Relation(index.oid));
        }
    }
    found
}

fn check_label(label: &str) -> SqlResult<()> {
    if label.len() <= LABEL_BYTES_MAX {
        return Ok(());
    }
    let detail = format!("Labels must be {LABEL_BYTES_MAX} bytes or less.");
    Err(SqlError::new(SqlState::INVALID_NAME, format!("invalid enum label \"{label}\"")).with_detail(detail))
}

fn place_of(labels: &[EnumLabel], label: &str) -> SqlResult<usize> {
    labels.iter().position(|known| known.text == label).ok_or_else(|| {
        let message = format!("\"{label}\" is not an existing enum label");
        SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
    })
}

/// The place of a label that comes at a position; `None`: its neighbours stand too close.
fn place_between(labels: &[EnumLabel], at: usize) -> Option<i64> {
    let before = at.checked_sub(1).and_then(|at| labels.get(at)).map(|label| label.place);
    let after = labels.get(at).map(|label| label.place);
    match (before, after) {
        (None, None) => Some(STEP),
        (Some(before), None) => before.checked_add(STEP),
        (None, Some(after)) => after.checked_sub(STEP),
        (Some(before), Some(after)) => {
            let middle = before + (after - before) / 2;
            (middle != before).then_some(middle)
        }
    }
}

pub(super) fn dotted(name: &RelationName) -> String {
    match &name.schema {
        Some(schema) => format!("{schema}.{}", name.name),
        None => name.name.clone(),
    }
}

pub(super) fn no_such_type(name: &RelationName) -> Box<SqlError> {
    SqlError::new(SqlState::UNDEFINED_OBJECT, format!("type \"{}\" does not exist", dotted(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(places: &[i64]) -> Vec<EnumLabel> {
        places.iter().map(|place| EnumLabel { oid: 1, place: *place, text: place.to_string() }).collect()
    }

    #[test]
    fn a_label_finds_a_place_until_its_neighbours_touch() {
        assert_eq!(place_between(&labels(&[]), 0), Some(STEP));
        assert_eq!(place_between(&labels(&[10, 20]), 0), Some(10 - STEP));
        assert_eq!(place_between(&labels(&[10, 20]), 1), Some(15));
        assert_eq!(place_between(&labels(&[10, 20]), 2), Some(20 + STEP));
        assert_eq!(place_between(&labels(&[10, 11]), 1), None);
        assert_eq!(place_between(&labels(&[-3, -2]), 1), None);
    }
}
