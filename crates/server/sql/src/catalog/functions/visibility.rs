//! `pg_table_is_visible` and its kind: whether an object is found by its name alone.

use seawall_values::functions::Call;
use seawall_values::user_types::{element_of_user_array, is_user_type};
use seawall_values::{Datum, SqlResult};

use super::super::initial::value_of;
use super::super::names::{is_relation_visible, is_type_visible, relation_numbered};
use super::super::numbers::relation_of_type;
use super::super::source::Source;
use super::{Table, object};

pub(super) const TABLE: Table = &[
    ("pg_table_is_visible", |source, call| relation(source, object(call, 0)?)),
    ("pg_type_is_visible", type_),
    ("pg_function_is_visible", function),
    ("pg_operator_is_visible", |source, call| initial(source, call, "pg_operator", "oprnamespace")),
    ("pg_opclass_is_visible", |source, call| initial(source, call, "pg_opclass", "opcnamespace")),
    ("pg_opfamily_is_visible", |source, call| initial(source, call, "pg_opfamily", "opfnamespace")),
    ("pg_conversion_is_visible", |source, call| initial(source, call, "pg_conversion", "connamespace")),
    ("pg_collation_is_visible", |source, call| initial(source, call, "pg_collation", "collnamespace")),
    ("pg_statistics_obj_is_visible", |_, _| Ok(Datum::Null)),
    ("pg_ts_config_is_visible", |source, call| initial(source, call, "pg_ts_config", "cfgnamespace")),
    ("pg_ts_dict_is_visible", |source, call| initial(source, call, "pg_ts_dict", "dictnamespace")),
    ("pg_ts_parser_is_visible", |source, call| initial(source, call, "pg_ts_parser", "prsnamespace")),
    ("pg_ts_template_is_visible", |source, call| initial(source, call, "pg_ts_template", "tmplnamespace")),
];

fn relation(source: &mut dyn Source, oid: seawall_values::Oid) -> SqlResult<Datum> {
    match relation_numbered(source, oid)? {
        Some(definition) => is_relation_visible(source, &definition).map(Datum::Bool),
        // An index of a system relation.
        None => Ok(in_search_path(source, &value_of("pg_class", oid, "relnamespace"))),
    }
}

fn type_(source: &mut dyn Source, call: &Call<'_>) -> SqlResult<Datum> {
    let of = object(call, 0)?;
    if is_user_type(of) {
        let all = source.user_types()?;
        let element = element_of_user_array(of).unwrap_or(of);
        let Some(found) = all.iter().find(|known| known.oid == element) else { return Ok(Datum::Null) };
        return Ok(Datum::Bool(is_type_visible(source, &all, found)));
    }
    match relation_of_type(of) {
        Some((table, _)) => relation(source, table),
        None => initial(source, call, "pg_type", "typnamespace"),
    }
}

/// A function that one before it hides has the same arguments.
fn function(source: &mut dyn Source, call: &Call<'_>) -> SqlResult<Datum> {
    let Some(found) = source.function(object(call, 0)?)? else {
        return initial(source, call, "pg_proc", "pronamespace");
    };
    let types = found.input_types();
    for namespace in source.asker().search_path.clone() {
        if namespace == found.namespace {
            return Ok(Datum::Bool(true));
        }
        let before = source.functions_named(namespace, &found.name)?;
        if before.iter().any(|other| other.input_types() == types) {
            return Ok(Datum::Bool(false));
        }
    }
    Ok(Datum::Bool(false))
}

/// An object of an initial row: names in the schemas of the system are there once.
fn initial(source: &mut dyn Source, call: &Call<'_>, relation: &str, namespace: &str) -> SqlResult<Datum> {
    Ok(in_search_path(source, &value_of(relation, object(call, 0)?, namespace)))
}

/// Null: there is no such object.
fn in_search_path(source: &mut dyn Source, namespace: &Datum) -> Datum {
    match namespace {
        Datum::Oid(namespace) => Datum::Bool(source.asker().search_path.contains(namespace)),
        _ => Datum::Null,
    }
}
