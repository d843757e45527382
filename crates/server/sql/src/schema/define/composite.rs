//! Composite types: `CREATE TYPE .. AS (..)`, and changes of their fields.
//!
//! A stored row has its fields by position, and texts name them: a type that columns, domains or views use keeps its fields.

use seawall_values::user_types::{
    CompositeField, composite_number, element_of_user_array, is_composite, is_user_type,
};
use seawall_values::{Oid, SqlError, SqlResult, SqlState};

use super::Definer;
use super::dependents::Object;
use super::requests::{FieldChange, RelationName};
use crate::schema::user_type::{UserType, UserTypeKind};

impl Definer<'_> {
    /// `CREATE TYPE .. AS (..)`.
    ///
    /// # Errors
    /// `42710`: the name is taken; `42701`, `42P16`: fields.
    pub fn create_composite(
        &mut self,
        namespace: Oid,
        name: &str,
        fields: Vec<CompositeField>,
    ) -> SqlResult<()> {
        let store = self.tables.store;
        check_fields(&fields)?;
        let oid = composite_number(store.new_oid()?).ok_or_else(|| {
            SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "no numbers for types are left in this database")
        })?;
        let (name, owner) = (name.to_owned(), self.owner);
        let new = UserType { oid, name, namespace, owner, kind: UserTypeKind::Composite(fields) };
        store.put_user_type(self.tables.transaction, &new, None)?;
        self.note_needs_of_composite(&new)
    }

    /// `ALTER TYPE .. ADD ATTRIBUTE` and its kind.
    ///
    /// # Errors
    /// `42704`, `42501`, `42809`; `42701`, `42703`: fields; `0A000`: a column has the type.
    pub fn change_fields(&mut self, name: &RelationName, changes: Vec<FieldChange>) -> SqlResult<()> {
        let old = self.type_to_change(name)?;
        let UserTypeKind::Composite(mut fields) = old.kind.clone() else {
            let message = format!("{} is not a composite type", self.shown_type(&old)?);
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
        };
        let missing = |field: &str| {
            let message = format!("column \"{field}\" of relation \"{}\" does not exist", old.name);
            SqlError::new(SqlState::UNDEFINED_COLUMN, message)
        };
        let place =
            |fields: &[CompositeField], name: &str| fields.iter().position(|known| *known.name == *name);
        for change in changes {
            match change {
                FieldChange::Add(field) => {
                    if place(&fields, &field.name).is_some() {
                        let message =
                            format!("column \"{}\" of relation \"{}\" already exists", field.name, old.name);
                        return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
                    }
                    fields.push(field);
                }
                FieldChange::Drop { name, if_exists } => match place(&fields, &name) {
                    Some(at) => {
                        fields.remove(at);
                    }
                    None if if_exists => {
                        let message = format!(
                            "column \"{name}\" of relation \"{}\" does not exist, skipping",
                            old.name
                        );
                        self.skip(message);
                    }
                    None => return Err(missing(&name)),
                },
                FieldChange::Alter(field) => {
                    let at = place(&fields, &field.name).ok_or_else(|| missing(&field.name))?;
                    fields[at] = field;
                }
                FieldChange::Rename { name, to } => {
                    if place(&fields, &to).is_some() {
                        let message = format!("column \"{to}\" of relation \"{}\" already exists", old.name);
                        return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
                    }
                    let at = place(&fields, &name).ok_or_else(|| {
                        SqlError::new(SqlState::UNDEFINED_COLUMN, format!("column \"{name}\" does not exist"))
                    })?;
                    fields[at].name = to.as_str().into();
                }
            }
        }
        check_fields(&fields)?;
        self.check_not_used(&old)?;
        let new = UserType { kind: UserTypeKind::Composite(fields), ..old.clone() };
        self.tables.store.put_user_type(self.tables.transaction, &new, Some(&old))?;
        self.note_needs_of_composite(&new)
    }

    /// `0A000` if rows with the fields that the type has are stored, or a text names them.
    fn check_not_used(&mut self, of: &UserType) -> SqlResult<()> {
        // Whoever was about to give a column the type has committed: the column is to be seen.
        self.see_all_definitions()?;
        let mut seen = vec![of.oid];
        let mut at = 0;
        while let Some(next) = seen.get(at).copied() {
            at += 1;
            for (object, _) in self.dependents_of_type(next)? {
                match object {
                    Object::Type(oid) if is_composite(oid) => {
                        if !seen.contains(&oid) {
                            seen.push(oid);
                        }
                    }
                    _ => return Err(self.used(of, object)?),
                }
            }
        }
        Ok(())
    }

    fn used(&mut self, of: &UserType, by: Object) -> SqlResult<Box<SqlError>> {
        let shown = self.shown_type(of)?;
        let shown = if shown.starts_with('"') { shown } else { format!("\"{shown}\"") };
        let user = match by {
            Object::Column(table, column) => {
                let table_name = match self.tables.store.definition(self.tables.transaction, table)? {
                    Some(definition) => crate::catalog::heading(&definition).name.to_owned(),
                    None => table.to_string(),
                };
                format!("column \"{table_name}.{}\"", self.column_name(table, column)?)
            }
            other => self.described(other)?,
        };
        let message = format!("cannot alter type {shown} because {user} uses it");
        Ok(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message))
    }

    /// Notes the types of the fields, which stay.
    fn note_needs_of_composite(&mut self, of: &UserType) -> SqlResult<()> {
        let UserTypeKind::Composite(fields) = &of.kind else { return Ok(()) };
        let store = self.tables.store;
        store.remove_dependencies(self.tables.transaction, of.oid, None)?;
        for field in fields {
            let on = if field.domain == 0 { field.of.oid } else { field.domain };
            self.hold_type(on)?;
            let on = element_of_user_array(on).unwrap_or(on);
            if is_user_type(on) {
                store.put_dependency(self.tables.transaction, (of.oid, 0), (on, 0))?;
            }
        }
        Ok(())
    }
}

fn check_fields(fields: &[CompositeField]) -> SqlResult<()> {
    super::table::check_names(fields.iter().map(|field| &*field.name))?;
    for field in fields {
        super::table::check_column(&field.name, field.of)?;
    }
    Ok(())
}
