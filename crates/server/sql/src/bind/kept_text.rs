//! What the text of a view keeps: numbers in the place of the names of relations, types and labels, so that these can be renamed, and
//! others that get their names are not taken for them.
//!
//! ```text
//!   from t                       from pg_catalog."16384".t         the name is how the query knows the table
//!   from s.t                     from pg_catalog."16384".s.t
//!   from t as x                  from pg_catalog."16384" as x
//!   'sad'::mood                  '\x01 4294967296'::pg_catalog."268451840"
//! ```

use seawall_values::user_types::{element_of_user_array, is_enum, stored_name};
use seawall_values::{Datum, Oid, SqlResult, TypeReference};
use sqlparser::ast::{ObjectName, ObjectNamePart, Spanned};

use super::Binder;
use super::expression::{name_parts, qualified};
use super::types::quoted;
use super::written;
use crate::schema::Definition;

/// A relation as a kept text names it.
pub(super) struct KeptRelation {
    pub(super) oid: Oid,
    /// How the query knows it.
    pub(super) schema: Option<String>,
    pub(super) name: String,
}

/// The relation that a name in a kept text stands for.
fn kept_relation(name: &ObjectName) -> Option<KeptRelation> {
    let mut parts = name_parts(name).into_iter();
    let oid = match (parts.next(), parts.next()) {
        (Some(schema), Some(number)) if schema == "pg_catalog" => number.parse().ok()?,
        _ => return None,
    };
    let (schema, name) = match (parts.next(), parts.next()) {
        (Some(schema), Some(name)) => (Some(schema), name),
        (Some(name), None) => (None, name),
        (None, _) => (None, String::new()),
    };
    Some(KeptRelation { oid, schema, name })
}

impl Binder<'_> {
    /// A relation as a statement or a kept text names it: how the query knows it, and what it is.
    pub(super) fn named(
        &mut self,
        name: &ObjectName,
    ) -> SqlResult<(Option<String>, String, Option<Definition>)> {
        if self.search_path.is_some()
            && let Some(kept) = kept_relation(name)
        {
            let found = self.definitions.relation_by_oid(kept.oid)?;
            return Ok((kept.schema, kept.name, found));
        }
        let (schema, plain) = qualified(name);
        let found = self.find_relation(schema.as_deref(), &plain)?;
        Ok((schema, plain, found))
    }

    /// Puts the number of a relation into the text.
    pub(super) fn keep_relation(&mut self, name: &ObjectName, found: &Definition, has_alias: bool) {
        if matches!(found, Definition::System(_)) {
            return;
        }
        let oid = crate::catalog::oid_of(found);
        let (schema, plain) = qualified(name);
        let known_as = match (has_alias, schema) {
            (true, _) => String::new(),
            (false, None) => format!(".{}", quoted(&plain)),
            (false, Some(schema)) => format!(".{}.{}", quoted(&schema), quoted(&plain)),
        };
        self.keep_name(name, format!("pg_catalog.\"{oid}\"{known_as}"));
    }

    /// Puts the number of a type into the text.
    pub(super) fn keep_type(&mut self, name: &ObjectName, of: Oid) {
        self.keep_name(name, stored_name(of));
    }

    /// Puts the places of labels into the text.
    pub(super) fn keep_labels(
        &mut self,
        position: Option<u32>,
        of: TypeReference,
        value: &Datum,
    ) -> SqlResult<()> {
        let is_of_labels = is_enum(of.oid) || element_of_user_array(of.oid).is_some();
        if !self.keeps_text() || !is_of_labels {
            return Ok(());
        }
        let Some((start, length)) = position.and_then(|position| self.text.string_at(position)) else {
            return Ok(());
        };
        let literal = written::literal(value, of, self.settings)?;
        self.keep(start, length, literal);
        Ok(())
    }

    /// Whether the text that is bound is kept.
    fn keeps_text(&self) -> bool {
        self.replaced.is_some() && self.search_path.is_none()
    }

    fn keep_name(&mut self, name: &ObjectName, with: String) {
        let (Some(ObjectNamePart::Identifier(first)), true) = (name.0.first(), self.keeps_text()) else {
            return;
        };
        let span = name.span();
        let (Some(start), Some(end)) = (self.text.position(span.start), self.text.position(span.end)) else {
            return;
        };
        // What was made while the statement was read stands nowhere in it.
        if end > start && self.text.has_name_at(start, &first.value) {
            self.keep(start, end - start, with);
        }
    }

    /// Replaces a part of the text, from a position, of so many characters.
    pub(super) fn keep(&mut self, start: u32, length: u32, with: String) {
        if let Some(replaced) = &mut self.replaced
            && replaced.iter().all(|(known, _, _)| *known != start)
        {
            replaced.push((start, length, with));
        }
    }
}
