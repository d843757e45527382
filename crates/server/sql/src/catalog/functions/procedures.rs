//! Functions as text: `pg_get_function_arguments`, `pg_get_function_result` and their kind.

use std::borrow::Cow;

use seawall_values::functions::Call;
use seawall_values::system::{FunctionKind, FunctionRow, system};
use seawall_values::{Datum, Oid, SqlError, SqlResult, SqlState};

use super::super::initial::value_of;
use super::super::names::{qualified, quoted, type_text};
use super::super::source::Source;
use super::{Table, integer, nothing, object};
use crate::schema::function::Function;

pub(super) const TABLE: Table = &[
    ("pg_get_function_arguments", |source, call| {
        with_function(source, call, |source, function| arguments(source, function, Defaults::Shown))
    }),
    ("pg_get_function_identity_arguments", |source, call| {
        with_function(source, call, |source, function| arguments(source, function, Defaults::Hidden))
    }),
    ("pg_get_function_result", |source, call| with_function(source, call, result)),
    ("pg_get_function_arg_default", argument_default),
    ("pg_get_function_sqlbody", nothing),
    ("pg_get_functiondef", definition),
];

/// Whether defaults are written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Defaults {
    Shown,
    Hidden,
}

type Describe = fn(&mut dyn Source, &FunctionRow) -> SqlResult<Option<String>>;

fn with_function(source: &mut dyn Source, call: &Call<'_>, describe: Describe) -> SqlResult<Datum> {
    match function_numbered(source, object(call, 0)?)? {
        Some(function) => Ok(describe(source, &function)?.map_or(Datum::Null, Datum::text)),
        None => Ok(Datum::Null),
    }
}

/// A function of the system, or of a user.
pub(super) fn function_numbered(
    source: &mut dyn Source,
    oid: Oid,
) -> SqlResult<Option<Cow<'static, FunctionRow>>> {
    if let Some(function) = system().function(oid) {
        return Ok(Some(Cow::Borrowed(function)));
    }
    Ok(source.function(oid)?.map(|function| Cow::Owned(function.row())))
}

/// A parameter: mode, type, name.
struct Parameter<'a> {
    mode: u8,
    of: Oid,
    name: &'a str,
}

fn parameters(function: &FunctionRow) -> Vec<Parameter<'_>> {
    let name = |position: usize| function.names.get(position).map_or("", String::as_str);
    let outputs = function.outputs.iter().enumerate();
    let all: Vec<Parameter<'_>> = outputs
        .map(|(position, (mode, of))| Parameter {
            mode: mode.bytes().next().unwrap_or(b'i'),
            of: *of,
            name: name(position),
        })
        .collect();
    if !all.is_empty() {
        return all;
    }
    let inputs = function.arguments.iter().enumerate();
    inputs.map(|(position, of)| Parameter { mode: b'i', of: *of, name: name(position) }).collect()
}

/// The parameters of a function, as `CREATE FUNCTION` takes them.
///
/// # Errors
/// What the source says.
pub fn function_arguments(source: &mut dyn Source, function: &FunctionRow) -> SqlResult<String> {
    Ok(arguments(source, function, Defaults::Shown)?.unwrap_or_default())
}

fn arguments(
    source: &mut dyn Source,
    function: &FunctionRow,
    defaults: Defaults,
) -> SqlResult<Option<String>> {
    let first_default =
        function.arguments.len() - function.default_values.len().min(function.arguments.len());
    // The arguments of an ordered-set aggregate that stand before its order are fewer than all.
    let direct = direct_arguments(function);
    let mut text = String::new();
    let mut inputs = 0;
    let mut written = 0;
    for parameter in parameters(function) {
        let is_input = matches!(parameter.mode, b'i' | b'b' | b'v');
        let mode = match parameter.mode {
            b'o' => "OUT ",
            b'b' => "INOUT ",
            b'v' => "VARIADIC ",
            b't' => continue,
            _ => "",
        };
        inputs += usize::from(is_input);
        if direct.is_some_and(|direct| inputs == direct + 1) {
            text += if written > 0 { " ORDER BY " } else { "ORDER BY " };
        } else if written > 0 {
            text += ", ";
        }
        text += mode;
        if !parameter.name.is_empty() {
            text += &format!("{} ", quoted(parameter.name));
        }
        text += &type_text(source, parameter.of, None)?;
        written += 1;
        if let (true, Defaults::Shown, true) = (is_input, defaults, inputs > first_default) {
            text += &format!(" DEFAULT {}", function.default_values[inputs - first_default - 1]);
        }
    }
    // One argument that stands for any number is named before the order and in it.
    if let (Some(direct), true) = (direct, function.variadic != 0)
        && direct == function.arguments.len()
    {
        text = format!("{text} ORDER BY {text}");
    }
    Ok(Some(text))
}

fn direct_arguments(function: &FunctionRow) -> Option<usize> {
    let is_ordered = matches!(value_of("pg_aggregate", function.oid, "aggkind"), Datum::Char(b'o' | b'h'));
    match value_of("pg_aggregate", function.oid, "aggnumdirectargs") {
        Datum::Int2(number) if is_ordered && function.kind == FunctionKind::Aggregate => {
            usize::try_from(number).ok()
        }
        _ => None,
    }
}

fn result(source: &mut dyn Source, function: &FunctionRow) -> SqlResult<Option<String>> {
    if function.kind == FunctionKind::Procedure {
        return Ok(None);
    }
    let columns = parameters(function).into_iter().filter(|parameter| parameter.mode == b't');
    let columns: Vec<String> = columns
        .map(|parameter| Ok(format!("{} {}", quoted(parameter.name), type_text(source, parameter.of, None)?)))
        .collect::<SqlResult<_>>()?;
    if !columns.is_empty() {
        return Ok(Some(format!("TABLE({})", columns.join(", "))));
    }
    let of = type_text(source, function.result, None)?;
    Ok(Some(if function.returns_set { format!("SETOF {of}") } else { of }))
}

/// The default of a parameter, counted from 1 over all parameters.
fn argument_default(source: &mut dyn Source, call: &Call<'_>) -> SqlResult<Datum> {
    let Some(function) = function_numbered(source, object(call, 0)?)? else { return Ok(Datum::Null) };
    let Ok(number) = usize::try_from(integer(call, 1)?) else { return Ok(Datum::Null) };
    let all = parameters(&function);
    let is_input = |parameter: &Parameter<'_>| matches!(parameter.mode, b'i' | b'b' | b'v');
    if !number.checked_sub(1).and_then(|position| all.get(position)).is_some_and(is_input) {
        return Ok(Datum::Null);
    }
    let before = all.iter().take(number).filter(|parameter| is_input(parameter)).count();
    let first = function.arguments.len() - function.default_values.len().min(function.arguments.len());
    let found = (before > first).then(|| function.default_values.get(before - first - 1)).flatten();
    Ok(found.map_or(Datum::Null, Datum::text))
}

/// `CREATE FUNCTION` of a function of a user.
fn own_definition(source: &mut dyn Source, function: &Function) -> SqlResult<Datum> {
    let row = function.row();
    let name = qualified(source, function.namespace, &function.name, false)?;
    let mut text = format!("CREATE OR REPLACE FUNCTION {name}({})\n", function_arguments(source, &row)?);
    text += &format!(" RETURNS {}\n LANGUAGE sql\n", result(source, &row)?.unwrap_or_default());
    let mut properties = Vec::new();
    properties.extend(match function.volatility {
        b'i' => Some("IMMUTABLE".to_owned()),
        b's' => Some("STABLE".to_owned()),
        _ => None,
    });
    properties.extend(match function.parallel {
        b's' => Some("PARALLEL SAFE".to_owned()),
        b'r' => Some("PARALLEL RESTRICTED".to_owned()),
        _ => None,
    });
    properties.extend(function.is_strict.then(|| "STRICT".to_owned()));
    properties.extend(function.is_leakproof.then(|| "LEAKPROOF".to_owned()));
    properties.extend((function.cost != 100.0).then(|| format!("COST {}", function.cost)));
    let has_rows = function.returns_set && function.rows != 1000.0;
    properties.extend(has_rows.then(|| format!("ROWS {}", function.rows)));
    if !properties.is_empty() {
        text += &format!(" {}\n", properties.join(" "));
    }
    // As PostgreSQL, another mark where the text has this one.
    let mut mark = "function".to_owned();
    while function.body.contains(&format!("${mark}$")) {
        mark.push('x');
    }
    text += &format!("AS ${mark}${}${mark}$\n", function.body);
    Ok(Datum::text(text))
}

/// `CREATE FUNCTION`.
fn definition(source: &mut dyn Source, call: &Call<'_>) -> SqlResult<Datum> {
    let number = object(call, 0)?;
    if let Some(function) = source.function(number)? {
        return own_definition(source, &function);
    }
    let Some(function) = system().function(number) else { return Ok(Datum::Null) };
    if function.kind == FunctionKind::Aggregate {
        let message = format!("\"{}\" is an aggregate function", function.name);
        return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
    }
    let name = qualified(source, function.namespace, &function.name, false)?;
    let mut text = format!("CREATE OR REPLACE FUNCTION {name}({})\n", function_arguments(source, function)?);
    text += &format!(" RETURNS {}\n", result(source, function)?.unwrap_or_default());
    let property = |column: &str| value_of("pg_proc", function.oid, column);
    let language = match property("prolang") {
        Datum::Oid(language) => value_of("pg_language", language, "lanname"),
        other => other,
    };
    let Datum::Text(language) = language else { return Ok(Datum::Null) };
    text += &format!(" LANGUAGE {language}\n");
    let mut properties = Vec::new();
    properties.extend((function.kind == FunctionKind::Window).then_some("WINDOW"));
    properties.extend(match function.volatility {
        b'i' => Some("IMMUTABLE"),
        b's' => Some("STABLE"),
        _ => None,
    });
    properties.extend(match property("proparallel") {
        Datum::Char(b's') => Some("PARALLEL SAFE"),
        Datum::Char(b'r') => Some("PARALLEL RESTRICTED"),
        _ => None,
    });
    properties.extend(function.is_strict.then_some("STRICT"));
    if !properties.is_empty() {
        text += &format!(" {}\n", properties.join(" "));
    }
    if let Datum::Text(body) = property("prosrc") {
        text += &format!("AS $function${body}$function$\n");
    }
    Ok(Datum::text(text))
}
