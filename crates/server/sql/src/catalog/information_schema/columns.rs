//! `columns`.

use seawall_values::system::system;
use seawall_values::user_types::element_of_user_array;
use seawall_values::{Datum, Oid, SqlResult, TypeReference};

use super::super::definition_text::{self, system_type};
use super::super::initial::value_of;
use super::super::live::views::is_view;
use super::super::live::{Rows, name, text_or_null};
use super::super::names::Names;
use super::super::numbers::{DEFAULT_COLLATION, PG_CATALOG, column_number};
use super::super::source::Source;
use super::super::{heading, initial, relations};
use super::{
    TypeShape, character_length, datetime_precision, interval_fields, is_shown, numeric_precision,
    numeric_radix, numeric_scale, octet_length, yes_or_no,
};
use crate::schema::user_type::UserType;
use crate::schema::{Column, Definition, Identity};

pub(super) fn columns(
    definition: &Definition,
    source: &mut dyn Source,
    names: &Names,
    rows: &mut Rows,
) -> SqlResult<()> {
    let is_materialized = matches!(definition, Definition::Table(table) if table.query.is_some());
    if is_materialized || !is_shown(definition, source, names)? {
        return Ok(());
    }
    let user_types = source.user_types()?;
    let writer = Writer { definition, names, user_types, is_updatable: !is_view(definition) };
    match definition {
        Definition::Table(table) => {
            for (position, column) in
                table.columns.iter().enumerate().filter(|(_, column)| !column.is_dropped)
            {
                let identity = identity(source, column)?;
                let shape = Shape { name: &column.name, of: column.of, is_not_null: column.is_not_null };
                let shown = with_names(source, column)?;
                rows.push_back(writer.row(position, shape, Some(&shown), identity));
            }
        }
        Definition::View(view) => {
            for (position, (name, of)) in view.columns.iter().enumerate() {
                rows.push_back(writer.row(position, Shape { name, of: *of, is_not_null: false }, None, None));
            }
        }
        Definition::System(relation) => {
            for (position, (name, of)) in relation.columns.iter().enumerate() {
                let is_not_null = is_system_column_not_null(relation.oid, name);
                rows.push_back(writer.row(position, Shape { name, of: *of, is_not_null }, None, None));
            }
        }
        Definition::Sequence(_) | Definition::Index(..) => {}
    }
    Ok(())
}

/// A column whose default names relations, and does not number them.
fn with_names<'a>(source: &mut dyn Source, column: &'a Column) -> SqlResult<std::borrow::Cow<'a, Column>> {
    match &column.default {
        Some(default) if default.contains("'::regclass") || default.contains("pg_catalog.") => {
            let default = Some(definition_text::with_relation_names(source, default)?);
            Ok(std::borrow::Cow::Owned(Column { default, ..column.clone() }))
        }
        _ => Ok(std::borrow::Cow::Borrowed(column)),
    }
}

fn is_system_column_not_null(relation: Oid, column: &str) -> bool {
    let positions = ["attname", "attnotnull"].map(|name| relations::column_position("pg_attribute", name));
    let [Some(at_name), Some(at_not_null)] = positions else { return false };
    let mut rows = initial::initial_rows("pg_attribute").numbered(relation).iter();
    rows.any(|row| {
        matches!((&row[at_name], &row[at_not_null]), (Datum::Text(name), Datum::Bool(true)) if **name == *column)
    })
}

/// `START`, `INCREMENT`, `MAXVALUE`, `MINVALUE` and `CYCLE` of an identity column.
type IdentityOptions = ([i64; 4], bool);

fn identity(source: &mut dyn Source, column: &Column) -> SqlResult<Option<IdentityOptions>> {
    if column.identity.is_none() {
        return Ok(None);
    }
    Ok(match source.definition(column.sequence)? {
        Some(Definition::Sequence(found)) => {
            Some(([found.start, found.increment, found.maximum, found.minimum], found.is_cycling))
        }
        _ => None,
    })
}

/// What all columns have.
#[derive(Clone, Copy)]
struct Shape<'a> {
    name: &'a str,
    of: TypeReference,
    is_not_null: bool,
}

struct Writer<'a> {
    definition: &'a Definition,
    names: &'a Names,
    user_types: Vec<UserType>,
    is_updatable: bool,
}

impl Writer<'_> {
    fn row(
        &self,
        position: usize,
        shape: Shape<'_>,
        column: Option<&Column>,
        identity: Option<IdentityOptions>,
    ) -> Vec<Datum> {
        let found = heading(self.definition);
        let number = column_number(position);
        let generated = column.and_then(|column| column.generated.as_ref());
        let default = column.filter(|_| generated.is_none()).and_then(|column| column.default.as_ref());
        let mut row = vec![
            name(&self.names.database),
            name(self.names.namespace(found.namespace)),
            name(found.name),
            name(shape.name),
            Datum::Int4(i32::from(number)),
            text_or_null(default),
            yes_or_no(!shape.is_not_null),
        ];
        self.push_type(&mut row, shape.of);
        row.extend([
            Datum::Null,
            Datum::Null,
            Datum::Null,
            Datum::Null,
            name(&number.to_string()),
            yes_or_no(false),
        ]);
        push_identity(&mut row, column.and_then(|column| column.identity), identity);
        row.push(Datum::text(if generated.is_some() { "ALWAYS" } else { "NEVER" }));
        row.push(text_or_null(generated));
        row.push(yes_or_no(self.is_updatable));
        row
    }

    /// From `data_type` to `udt_name`.
    fn push_type(&self, row: &mut Vec<Datum>, of: TypeReference) {
        let shape = TypeShape { of: of.oid, modifier: of.modifier };
        let known = system().type_by_oid(of.oid);
        let data_type = match known {
            Some(row) if row.element != 0 && row.length == -1 => "ARRAY".to_owned(),
            None if element_of_user_array(of.oid).is_some() => "ARRAY".to_owned(),
            Some(row) if row.namespace == PG_CATALOG => system_type(of.oid, None).unwrap_or_default(),
            _ => "USER-DEFINED".to_owned(),
        };
        let number = |number: Option<i32>| number.map_or(Datum::Null, Datum::Int4);
        row.push(Datum::text(data_type));
        row.extend(
            [
                character_length,
                octet_length,
                numeric_precision,
                numeric_radix,
                numeric_scale,
                datetime_precision,
            ]
            .map(|property| number(property(shape))),
        );
        row.push(text_or_null(interval_fields(shape)));
        row.extend(std::iter::repeat_n(Datum::Null, 4));
        self.push_collation(row, of.oid);
        row.extend(std::iter::repeat_n(Datum::Null, 3));
        row.push(name(&self.names.database));
        let (namespace, type_name) = match known {
            Some(known) => (known.namespace, known.name.clone()),
            None => self.user_type(of.oid).unwrap_or_default(),
        };
        row.push(name(self.names.namespace(namespace)));
        row.push(name(&type_name));
    }

    /// The schema and the name of a type that users have made.
    fn user_type(&self, of: Oid) -> Option<(Oid, String)> {
        let element = element_of_user_array(of);
        let found = self.user_types.iter().find(|known| known.oid == element.unwrap_or(of))?;
        let mark = if element.is_some() { "_" } else { "" };
        Some((found.namespace, format!("{mark}{}", found.name)))
    }

    /// The collation, unless it is the default one.
    fn push_collation(&self, row: &mut Vec<Datum>, of: Oid) {
        match value_of("pg_type", of, "typcollation") {
            Datum::Oid(collation) if collation != 0 && collation != DEFAULT_COLLATION => row.extend([
                name(&self.names.database),
                name("pg_catalog"),
                value_of("pg_collation", collation, "collname"),
            ]),
            _ => row.extend(std::iter::repeat_n(Datum::Null, 3)),
        }
    }
}

/// From `is_identity` to `identity_cycle`.
fn push_identity(row: &mut Vec<Datum>, identity: Option<Identity>, options: Option<IdentityOptions>) {
    row.push(yes_or_no(identity.is_some()));
    row.push(text_or_null(identity.map(|identity| match identity {
        Identity::Always => "ALWAYS",
        Identity::ByDefault => "BY DEFAULT",
    })));
    match options {
        Some((numbers, is_cycling)) => {
            row.extend(numbers.map(|number| Datum::text(number.to_string())));
            row.push(yes_or_no(is_cycling));
        }
        None => {
            row.extend(std::iter::repeat_n(Datum::Null, 4));
            row.push(yes_or_no(false));
        }
    }
}
