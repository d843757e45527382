//! `routines`, `parameters`: functions that users have made.

use rustc_hash::FxHashMap;
use seawall_values::system::system;
use seawall_values::user_types::element_of_user_array;
use seawall_values::{Datum, Oid, SqlResult};

use super::super::definition_text::{system_type, with_relation_names};
use super::super::live::{Rows, name};
use super::super::names::Names;
use super::super::numbers::{PG_CATALOG, PG_PROC, relation_of_type};
use super::super::source::Source;
use super::super::{heading, relations};
use super::yes_or_no;
use crate::schema::function::{Function, FunctionParameter};

/// Rows are made by the names of their columns: most of them are null.
type Columns = FxHashMap<&'static str, Datum>;

pub(super) fn routines(source: &mut dyn Source, names: &Names, rows: &mut Rows) -> SqlResult<()> {
    for function in shown_functions(source, names)? {
        let result = type_names(source, names, function.result)?;
        let mut columns = specific(names, &function);
        let is_owner = names.has_role(function.owner);
        columns.extend([
            ("routine_catalog", name(&names.database)),
            ("routine_schema", name(names.namespace(function.namespace))),
            ("routine_name", name(&function.name)),
            ("routine_type", Datum::text("FUNCTION")),
            ("data_type", Datum::text(result.shown)),
            ("type_udt_catalog", name(&names.database)),
            ("type_udt_schema", name(&result.schema)),
            ("type_udt_name", name(&result.name)),
            ("dtd_identifier", name("0")),
            ("routine_body", Datum::text("SQL")),
            ("routine_definition", if is_owner { Datum::text(&function.body) } else { Datum::Null }),
            ("external_language", Datum::text("SQL")),
            ("parameter_style", Datum::text("GENERAL")),
            ("is_deterministic", yes_or_no(function.volatility == b'i')),
            ("sql_data_access", Datum::text("MODIFIES")),
            ("is_null_call", yes_or_no(function.is_strict)),
            ("schema_level_routine", yes_or_no(true)),
            ("max_dynamic_result_sets", Datum::Int4(0)),
            ("security_type", Datum::text("INVOKER")),
            ("as_locator", yes_or_no(false)),
            ("is_udt_dependent", yes_or_no(false)),
        ]);
        rows.push_back(row_of("routines", columns));
    }
    Ok(())
}

pub(super) fn parameters(source: &mut dyn Source, names: &Names, rows: &mut Rows) -> SqlResult<()> {
    for function in shown_functions(source, names)? {
        for (number, parameter) in (1..).zip(&function.parameters) {
            let of = type_names(source, names, parameter.of)?;
            let default = match &parameter.default {
                Some(default) if names.has_role(function.owner) => {
                    Datum::text(with_relation_names(source, default)?)
                }
                _ => Datum::Null,
            };
            let mut columns = specific(names, &function);
            columns.extend([
                ("ordinal_position", Datum::Int4(number)),
                ("parameter_mode", Datum::text(mode_of(parameter))),
                ("is_result", yes_or_no(false)),
                ("as_locator", yes_or_no(false)),
                (
                    "parameter_name",
                    if parameter.name.is_empty() { Datum::Null } else { name(&parameter.name) },
                ),
                ("data_type", Datum::text(of.shown)),
                ("udt_catalog", name(&names.database)),
                ("udt_schema", name(&of.schema)),
                ("udt_name", name(&of.name)),
                ("dtd_identifier", name(&number.to_string())),
                ("parameter_default", default),
            ]);
            rows.push_back(row_of("parameters", columns));
        }
    }
    Ok(())
}

/// Those that the user owns or may call.
fn shown_functions(source: &mut dyn Source, names: &Names) -> SqlResult<Vec<Function>> {
    let mut shown = Vec::new();
    for function in source.functions()? {
        let is_shown = names.has_role(function.owner)
            || match source.access_list((function.oid, PG_PROC, 0))? {
                // Without a list of its own all may call it.
                None => true,
                Some(list) => !list.held(names.rights()).is_none(),
            };
        if is_shown {
            shown.push(function);
        }
    }
    Ok(shown)
}

/// What tells functions of one name apart.
fn specific(names: &Names, function: &Function) -> Columns {
    Columns::from_iter([
        ("specific_catalog", name(&names.database)),
        ("specific_schema", name(names.namespace(function.namespace))),
        ("specific_name", name(&format!("{}_{}", function.name, function.oid))),
    ])
}

fn mode_of(parameter: &FunctionParameter) -> &'static str {
    match parameter.mode {
        b'o' | b't' => "OUT",
        b'b' => "INOUT",
        _ => "IN",
    }
}

/// A type as `data_type` shows it, and its schema and name.
#[derive(Default)]
struct TypeNames {
    shown: String,
    schema: String,
    name: String,
}

fn type_names(source: &mut dyn Source, names: &Names, of: Oid) -> SqlResult<TypeNames> {
    let schema = |oid: Oid| names.namespace(oid).to_owned();
    if let Some(row) = system().type_by_oid(of) {
        let shown = match row {
            row if row.element != 0 && row.length == -1 => "ARRAY".to_owned(),
            row if row.namespace == PG_CATALOG => system_type(of, None).unwrap_or_default(),
            _ => "USER-DEFINED".to_owned(),
        };
        return Ok(TypeNames { shown, schema: schema(row.namespace), name: row.name.clone() });
    }
    let array_name = |is_array: bool, name: &str| {
        if is_array {
            ("ARRAY".to_owned(), format!("_{name}"))
        } else {
            ("USER-DEFINED".to_owned(), name.to_owned())
        }
    };
    if let Some((relation, is_array)) = relation_of_type(of) {
        let Some(definition) = source.definition(relation)? else { return Ok(TypeNames::default()) };
        let found = heading(&definition);
        let (shown, name) = array_name(is_array, found.name);
        return Ok(TypeNames { shown, schema: schema(found.namespace), name });
    }
    let element = element_of_user_array(of);
    let known = source.user_types()?.into_iter().find(|known| known.oid == element.unwrap_or(of));
    Ok(known.map_or_else(TypeNames::default, |known| {
        let (shown, name) = array_name(element.is_some(), &known.name);
        TypeNames { shown, schema: schema(known.namespace), name }
    }))
}

fn row_of(relation: &str, mut columns: Columns) -> Vec<Datum> {
    let names = relations::columns_of(relation);
    names.into_iter().map(|name| columns.remove(name).unwrap_or_default()).collect()
}
