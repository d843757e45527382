//! `pg_type`: the types of rows of tables and views, types that users have made, and arrays of all of these. `pg_enum`.

use seawall_values::user_types::{array_of_user_type, is_composite, is_enum, relation_of_composite};
use seawall_values::{Datum, Oid, SqlResult};

use super::super::definition_text::with_relation_names;
use super::super::heading;
use super::super::initial::value_of;
use super::super::names::Names;
use super::super::numbers::{relation_of_type, row_array_type, row_type};
use super::super::source::Source;
use super::{Live, Rows, Table, name};
use crate::schema::Definition;
use crate::schema::user_type::{Domain, UserType, UserTypeKind};

pub(super) const TABLE: Table = &[
    ("pg_type", Live::Both { each: row_types, numbers: &[0, 11], once: user_types }),
    ("pg_enum", Live::Once(pg_enum)),
];

/// An initial type of rows, and its array: their functions are those of all.
const PATTERN: Oid = 83;
const ARRAY_PATTERN: Oid = 210;
/// `anyenum`, whose functions are those of each enum.
const ENUM_PATTERN: Oid = 3500;
/// `pg_proc.oid` of `domain_in`.
const DOMAIN_IN: Oid = 2597;
/// The size of the places of labels here.
const PLACES: f32 = 4_294_967_296.0;

fn row_types(
    definition: &Definition,
    _source: &mut dyn Source,
    _names: &Names,
    rows: &mut Rows,
) -> SqlResult<()> {
    let (Definition::Table(_) | Definition::View(_)) = definition else { return Ok(()) };
    let relation = super::super::oid_of(definition);
    let found = heading(definition);
    for (oid, name) in
        [(row_type(relation), found.name.to_owned()), (row_array_type(relation), format!("_{}", found.name))]
    {
        rows.push_back(row(oid, &name, found.namespace, found.owner));
    }
    Ok(())
}

fn row(oid: Oid, type_name: &str, namespace: Oid, owner: Oid) -> Vec<Datum> {
    let (relation, is_array) = relation_of_type(oid).unwrap_or((0, false));
    with_pattern(if is_array { ARRAY_PATTERN } else { PATTERN }, |column| match column {
        "oid" => Some(Datum::Oid(oid)),
        "typname" => Some(name(type_name)),
        "typnamespace" => Some(Datum::Oid(namespace)),
        "typowner" => Some(Datum::Oid(owner)),
        "typrelid" => Some(Datum::Oid(if is_array { 0 } else { relation })),
        "typelem" => Some(Datum::Oid(if is_array { row_type(relation) } else { 0 })),
        "typarray" => Some(Datum::Oid(if is_array { 0 } else { row_array_type(relation) })),
        _ => None,
    })
}

/// A row whose columns are those of an initial type, but for some.
fn with_pattern(pattern: Oid, own: impl Fn(&str) -> Option<Datum>) -> Vec<Datum> {
    let columns = super::super::relations::by_name("pg_type")
        .map_or_else(Vec::new, |relation| relation.columns.clone());
    let value = |column: &str| own(column).unwrap_or_else(|| value_of("pg_type", pattern, column));
    columns.iter().map(|(column, _)| value(column)).collect()
}

fn user_types(source: &mut dyn Source, _names: &Names, rows: &mut Rows) -> SqlResult<()> {
    for known in source.user_types()? {
        match &known.kind {
            UserTypeKind::Enum(_) => {
                rows.push_back(enum_row(&known));
                rows.push_back(array_row(&known, b'i'));
            }
            UserTypeKind::Composite(_) => {
                rows.push_back(composite_row(&known));
                rows.push_back(array_row(&known, b'd'));
            }
            UserTypeKind::Domain(domain) => {
                let default = match &domain.default {
                    Some(default) => Datum::text(with_relation_names(source, default)?),
                    None => Datum::Null,
                };
                rows.push_back(domain_row(&known, domain, &default));
            }
        }
    }
    Ok(())
}

fn enum_row(known: &UserType) -> Vec<Datum> {
    with_pattern(ENUM_PATTERN, |column| match column {
        "oid" => Some(Datum::Oid(known.oid)),
        "typname" => Some(name(&known.name)),
        "typnamespace" => Some(Datum::Oid(known.namespace)),
        "typowner" => Some(Datum::Oid(known.owner)),
        "typtype" => Some(Datum::Char(b'e')),
        "typcategory" => Some(Datum::Char(b'E')),
        "typarray" => Some(Datum::Oid(array_of_user_type(known.oid).unwrap_or(0))),
        _ => None,
    })
}

fn composite_row(known: &UserType) -> Vec<Datum> {
    with_pattern(PATTERN, |column| match column {
        "oid" => Some(Datum::Oid(known.oid)),
        "typname" => Some(name(&known.name)),
        "typnamespace" => Some(Datum::Oid(known.namespace)),
        "typowner" => Some(Datum::Oid(known.owner)),
        "typrelid" => Some(Datum::Oid(relation_of_composite(known.oid).unwrap_or(0))),
        "typarray" => Some(Datum::Oid(array_of_user_type(known.oid).unwrap_or(0))),
        _ => None,
    })
}

fn array_row(known: &UserType, alignment: u8) -> Vec<Datum> {
    with_pattern(ARRAY_PATTERN, |column| match column {
        "oid" => Some(Datum::Oid(array_of_user_type(known.oid).unwrap_or(0))),
        "typname" => Some(name(&format!("_{}", known.name))),
        "typnamespace" => Some(Datum::Oid(known.namespace)),
        "typowner" => Some(Datum::Oid(known.owner)),
        "typelem" => Some(Datum::Oid(known.oid)),
        "typalign" => Some(Datum::Char(alignment)),
        _ => None,
    })
}

fn domain_row(known: &UserType, domain: &Domain, default: &Datum) -> Vec<Datum> {
    let of = if domain.parent == 0 { domain.base.oid } else { domain.parent };
    let pattern = match domain.base.oid {
        of if is_enum(of) => ENUM_PATTERN,
        of if is_composite(of) => PATTERN,
        of => of,
    };
    with_pattern(pattern, |column| match column {
        "oid" => Some(Datum::Oid(known.oid)),
        "typname" => Some(name(&known.name)),
        "typnamespace" => Some(Datum::Oid(known.namespace)),
        "typowner" => Some(Datum::Oid(known.owner)),
        "typtype" => Some(Datum::Char(b'd')),
        "typispreferred" => Some(Datum::Bool(false)),
        "typarray" | "typelem" | "typrelid" => Some(Datum::Oid(0)),
        "typinput" => Some(Datum::Oid(DOMAIN_IN)),
        "typnotnull" => Some(Datum::Bool(domain.is_not_null)),
        "typbasetype" => Some(Datum::Oid(of)),
        "typtypmod" => Some(Datum::Int4(domain.base.modifier)),
        "typdefault" | "typdefaultbin" => Some(default.clone()),
        _ => None,
    })
}

fn pg_enum(source: &mut dyn Source, _names: &Names, rows: &mut Rows) -> SqlResult<()> {
    for known in source.user_types()? {
        let UserTypeKind::Enum(labels) = &known.kind else { continue };
        for label in labels {
            rows.push_back(vec![
                Datum::Oid(label.oid),
                Datum::Oid(known.oid),
                Datum::Float4(label.place as f32 / PLACES),
                name(&label.text),
            ]);
        }
    }
    Ok(())
}
