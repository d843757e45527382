//! Names of objects as values: `regclass`, `regtype`, `regproc`, `regprocedure`, `regoper`, `regoperator`, `regnamespace`, `regrole`,
//! `regcollation`; and the look-up of names that functions take as texts.

use std::borrow::Cow;

use seawall_values::functions::Call;
use seawall_values::system::{FunctionRow, OperatorRow, system};
use seawall_values::user_types::array_of_user_type;
use seawall_values::{Datum, Oid, SqlError, SqlResult, SqlState, oid};

use super::super::initial::{initial_rows, value_of};
use super::super::names::{
    namespace_name, namespace_number, qualified, quoted, relation_in, relation_text, role_name, role_number,
    type_text,
};
use super::super::numbers::{PG_CATALOG, relation_of_type, row_array_type, row_type};
use super::super::oid_of;
use super::super::source::Source;
use super::procedures::function_numbered;
use super::{Table, object, text};
use crate::schema::Definition;

pub(super) const TABLE: Table = &[
    ("regclassin", |source, call| input(source, oid::REGCLASS, call)),
    // A text is a name, also one of digits.
    ("text_regclass", |source, call| Ok(Datum::Oid(oid_of(&relation_of_name(source, text(call, 0)?)?)))),
    ("regtypein", |source, call| input(source, oid::REGTYPE, call)),
    ("regprocin", |source, call| input(source, oid::REGPROC, call)),
    ("regprocedurein", |source, call| input(source, oid::REGPROCEDURE, call)),
    ("regoperin", |source, call| input(source, oid::REGOPER, call)),
    ("regoperatorin", |source, call| input(source, oid::REGOPERATOR, call)),
    ("regnamespacein", |source, call| input(source, oid::REGNAMESPACE, call)),
    ("regrolein", |source, call| input(source, oid::REGROLE, call)),
    ("regcollationin", |source, call| input(source, oid::REGCOLLATION, call)),
    ("regclassout", |source, call| output(source, oid::REGCLASS, call)),
    ("regtypeout", |source, call| output(source, oid::REGTYPE, call)),
    ("regprocout", |source, call| output(source, oid::REGPROC, call)),
    ("regprocedureout", |source, call| output(source, oid::REGPROCEDURE, call)),
    ("regoperout", |source, call| output(source, oid::REGOPER, call)),
    ("regoperatorout", |source, call| output(source, oid::REGOPERATOR, call)),
    ("regnamespaceout", |source, call| output(source, oid::REGNAMESPACE, call)),
    ("regroleout", |source, call| output(source, oid::REGROLE, call)),
    ("regcollationout", |source, call| output(source, oid::REGCOLLATION, call)),
    ("to_regclass", |source, call| found(source, oid::REGCLASS, call)),
    ("to_regtype", |source, call| found(source, oid::REGTYPE, call)),
    ("to_regproc", |source, call| found(source, oid::REGPROC, call)),
    ("to_regprocedure", |source, call| found(source, oid::REGPROCEDURE, call)),
    ("to_regoper", |source, call| found(source, oid::REGOPER, call)),
    ("to_regoperator", |source, call| found(source, oid::REGOPERATOR, call)),
    ("to_regnamespace", |source, call| found(source, oid::REGNAMESPACE, call)),
    ("to_regrole", |source, call| found(source, oid::REGROLE, call)),
    ("to_regcollation", |source, call| found(source, oid::REGCOLLATION, call)),
];

fn input(source: &mut dyn Source, of: Oid, call: &Call<'_>) -> SqlResult<Datum> {
    reference_input(source, of, text(call, 0)?).map(Datum::Oid)
}

fn output(source: &mut dyn Source, of: Oid, call: &Call<'_>) -> SqlResult<Datum> {
    reference_output(source, of, object(call, 0)?).map(Datum::text)
}

/// `to_reg..`: null where the input would be an error because there is no such object; a number is not a name.
fn found(source: &mut dyn Source, of: Oid, call: &Call<'_>) -> SqlResult<Datum> {
    let name = text(call, 0)?;
    let is_number = name.bytes().all(|byte| byte.is_ascii_digit()) && !name.is_empty();
    if is_number || name == "-" {
        return Ok(Datum::Null);
    }
    match reference_input(source, of, name) {
        Ok(oid) => Ok(Datum::Oid(oid)),
        Err(error) if error.code == SqlState::INVALID_NAME || error.code == SqlState::SYNTAX_ERROR => {
            Err(error)
        }
        Err(error) if error.code.as_str().starts_with("42") || error.code.as_str().starts_with("3F") => {
            Ok(Datum::Null)
        }
        Err(error) => Err(error),
    }
}

/// A name of one or more parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// The schema, if it was written.
    pub schema: Option<String>,
    /// The last part.
    pub name: String,
}

/// Reads a name with dots: parts without quotes are made lower case.
///
/// # Errors
/// `42602`: it is not one.
pub fn parse_name(text: &str) -> SqlResult<Name> {
    let invalid = || SqlError::new(SqlState::INVALID_NAME, "invalid name syntax");
    let mut parts = Vec::new();
    let mut rest = text.trim();
    loop {
        let (part, following) = match rest.strip_prefix('"') {
            Some(inner) => quoted_part(inner).ok_or_else(invalid)?,
            None => {
                let end =
                    rest.find(|letter: char| letter == '.' || letter.is_whitespace()).unwrap_or(rest.len());
                (rest[..end].to_lowercase(), &rest[end..])
            }
        };
        if part.is_empty() || part.contains('"') {
            return Err(invalid());
        }
        parts.push(part);
        match following.trim_start() {
            "" => break,
            following => rest = following.strip_prefix('.').ok_or_else(invalid)?.trim_start(),
        }
    }
    match <[String; 1]>::try_from(parts) {
        Ok([name]) => Ok(Name { schema: None, name }),
        Err(mut parts) => {
            let name = parts.pop().ok_or_else(invalid)?;
            match parts.len() {
                // A database may stand in front.
                1 | 2 => Ok(Name { schema: parts.pop(), name }),
                _ => Err(SqlError::new(
                    SqlState::SYNTAX_ERROR,
                    format!("improper qualified name (too many dotted names): {text}"),
                )),
            }
        }
    }
}

/// A part in quotes, after the first one; two quotes in it stand for one.
fn quoted_part(text: &str) -> Option<(String, &str)> {
    let mut part = String::new();
    let mut letters = text.char_indices().peekable();
    while let Some((position, letter)) = letters.next() {
        if letter != '"' {
            part.push(letter);
        } else if letters.next_if(|(_, next)| *next == '"').is_some() {
            part.push('"');
        } else {
            return Some((part, &text[position + 1..]));
        }
    }
    None
}

/// The schemas in which a name is looked up: the one that is written, or those of the search path.
fn schemas(source: &mut dyn Source, name: &Name) -> SqlResult<Vec<Oid>> {
    match &name.schema {
        None => Ok(source.asker().search_path.clone()),
        Some(schema) if schema == "pg_temp" => Ok(vec![source.asker().temporary_namespace]),
        Some(schema) => match namespace_number(source, schema)? {
            Some(namespace) => Ok(vec![namespace]),
            None => Err(SqlError::new(
                SqlState::INVALID_SCHEMA_NAME,
                format!("schema \"{schema}\" does not exist"),
            )),
        },
    }
}

/// A name as it was meant, without quotes: as messages show it.
fn plain(name: &Name) -> String {
    match &name.schema {
        Some(schema) => format!("{schema}.{}", name.name),
        None => name.name.clone(),
    }
}

/// The relation with a name, which may have a schema.
///
/// # Errors
/// `42602` for what is not a name; `3F000`: there is no such schema; `42P01`: there is no such relation.
pub fn relation_of_name(source: &mut dyn Source, text: &str) -> SqlResult<Definition> {
    let name = parse_name(text).map_err(|mut error| {
        error.message = error.message.replace("improper qualified name", "improper relation name");
        error
    })?;
    for namespace in schemas(source, &name)? {
        if let Some(definition) = relation_in(source, namespace, &name.name)? {
            return Ok(definition);
        }
    }
    let name = plain(&name);
    Err(SqlError::new(SqlState::UNDEFINED_TABLE, format!("relation \"{name}\" does not exist")))
}

/// The type with a name as SQL writes it: `integer`, `varchar(20)`, `timestamp with time zone`, `s.t[]`.
///
/// # Errors
/// `42602` for what is not a name; `42704`: there is none.
pub fn type_of_name(source: &mut dyn Source, text: &str) -> SqlResult<Oid> {
    let (base, is_array) = without_brackets(text.trim());
    let words = without_modifier(base);
    let element = match sql_type_name(&words) {
        Some(name) => system().type_by_name(name).map(|row| row.oid),
        None => named_type(source, &words)?,
    };
    let missing = || {
        SqlError::new(SqlState::UNDEFINED_OBJECT, format!("type \"{}\" does not exist", base.to_lowercase()))
    };
    let element = element.ok_or_else(missing)?;
    if !is_array {
        return Ok(element);
    }
    match (system().type_by_oid(element), relation_of_type(element)) {
        (Some(row), _) if row.array != 0 => Ok(row.array),
        (_, Some((relation, false))) => Ok(row_array_type(relation)),
        _ => array_of_user_type(element).ok_or_else(missing),
    }
}

/// The name before `[]` or `ARRAY`, and whether there are any.
fn without_brackets(text: &str) -> (&str, bool) {
    match text.find('[') {
        Some(position) if text.ends_with(']') => (text[..position].trim_end(), true),
        _ => (text, false),
    }
}

/// The name without its modifier in parentheses, and with one space between words.
fn without_modifier(text: &str) -> String {
    let outside = match (text.find('('), text.find(')')) {
        (Some(open), Some(close)) if open < close => format!("{} {}", &text[..open], &text[close + 1..]),
        _ => text.to_owned(),
    };
    outside.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The name in `pg_type` of a type that SQL's grammar names.
fn sql_type_name(words: &str) -> Option<&'static str> {
    Some(match words.to_lowercase().as_str() {
        "boolean" => "bool",
        "smallint" => "int2",
        "integer" | "int" => "int4",
        "bigint" => "int8",
        "real" => "float4",
        "double precision" | "float" => "float8",
        "decimal" | "dec" => "numeric",
        "character varying" | "char varying" => "varchar",
        "character" | "char" | "nchar" => "bpchar",
        "bit varying" => "varbit",
        "time without time zone" => "time",
        "time with time zone" => "timetz",
        "timestamp without time zone" => "timestamp",
        "timestamp with time zone" => "timestamptz",
        words if words.starts_with("interval ") => "interval",
        _ => return None,
    })
}

fn named_type(source: &mut dyn Source, words: &str) -> SqlResult<Option<Oid>> {
    let name = parse_name(words)?;
    for namespace in schemas(source, &name)? {
        if let Some(row) = system().type_in(namespace, &name.name) {
            return Ok(Some(row.oid));
        }
        let user_types = source.user_types()?;
        let known = |name: &str| {
            user_types
                .iter()
                .find(|known| known.namespace == namespace && known.name == name)
                .map(|known| known.oid)
        };
        if let Some(of) = known(&name.name) {
            return Ok(Some(of));
        }
        if let Some(of) = name.name.strip_prefix('_').and_then(known).and_then(array_of_user_type) {
            return Ok(Some(of));
        }
        let element = name.name.strip_prefix('_').filter(|_| namespace != PG_CATALOG);
        for (relation, of) in
            [(Some(name.name.as_str()), row_type as fn(Oid) -> Oid), (element, row_array_type)]
        {
            let Some(relation) = relation else { continue };
            if let Some(found @ (Definition::Table(_) | Definition::View(_))) =
                source.definition_named(namespace, relation)?
            {
                return Ok(Some(of(oid_of(&found))));
            }
        }
    }
    Ok(None)
}

/// The number of what a text names, for one of the `reg..` types. A number stands for itself.
///
/// # Errors
/// There is no such object, or more than one: PostgreSQL's code and message.
pub fn reference_input(source: &mut dyn Source, of: Oid, text: &str) -> SqlResult<Oid> {
    if text == "-" {
        return Ok(0);
    }
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        let out_of_range = |_| {
            SqlError::new(
                SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
                format!("value \"{text}\" is out of range for type oid"),
            )
        };
        return text.parse().map_err(out_of_range);
    }
    match of {
        oid::REGCLASS => relation_of_name(source, text).map(|definition| oid_of(&definition)),
        oid::REGTYPE => type_of_name(source, text),
        oid::REGPROC => function_of_name(source, text),
        oid::REGPROCEDURE => function_of_signature(source, text),
        oid::REGOPER => operator_of_name(source, text),
        oid::REGOPERATOR => operator_of_signature(source, text),
        oid::REGNAMESPACE => {
            let name = parse_name(text)?;
            namespace_number(source, &name.name)?.ok_or_else(|| {
                SqlError::new(
                    SqlState::INVALID_SCHEMA_NAME,
                    format!("schema \"{}\" does not exist", name.name),
                )
            })
        }
        oid::REGROLE => {
            let name = parse_name(text)?;
            role_number(source, &name.name)?.ok_or_else(|| no_role(&name.name))
        }
        oid::REGCOLLATION => collation_of_name(source, text),
        _ => Err(SqlError::unsupported(format!("a name of an object of type {of}"))),
    }
}

pub(super) fn no_role(name: &str) -> Box<SqlError> {
    SqlError::new(SqlState::UNDEFINED_OBJECT, format!("role \"{name}\" does not exist"))
}

/// Functions of a name in the schemas where it is looked up.
fn functions_of(source: &mut dyn Source, name: &Name) -> SqlResult<Vec<Cow<'static, FunctionRow>>> {
    let mut found: Vec<Cow<'static, FunctionRow>> = Vec::new();
    for namespace in schemas(source, name)? {
        found.extend(system().functions_in(namespace, &name.name).iter().map(Cow::Borrowed));
        let own = source.functions_named(namespace, &name.name)?;
        found.extend(own.iter().map(|function| Cow::Owned(function.row())));
    }
    Ok(found)
}

fn function_of_name(source: &mut dyn Source, text: &str) -> SqlResult<Oid> {
    let name = parse_name(text)?;
    match &functions_of(source, &name)?[..] {
        [] => Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, format!("function \"{text}\" does not exist"))),
        [function] => Ok(function.oid),
        _ => Err(SqlError::new(
            SqlState::AMBIGUOUS_FUNCTION,
            format!("more than one function named \"{text}\""),
        )),
    }
}

fn function_of_signature(source: &mut dyn Source, text: &str) -> SqlResult<Oid> {
    let (name, types) = parse_signature(source, text)?;
    let name = parse_name(name)?;
    let functions = functions_of(source, &name)?;
    let found = functions.into_iter().find(|function| function.arguments == types);
    found.map(|function| function.oid).ok_or_else(|| {
        SqlError::new(SqlState::UNDEFINED_FUNCTION, format!("function \"{text}\" does not exist"))
    })
}

/// The name, and the types in parentheses after it. `NONE` is 0.
fn parse_signature<'a>(source: &mut dyn Source, text: &'a str) -> SqlResult<(&'a str, Vec<Oid>)> {
    let missing =
        |what| SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, format!("expected a {what} parenthesis"));
    let (name, rest) = text.split_once('(').ok_or_else(|| missing("left"))?;
    let listed = rest.trim_end().strip_suffix(')').ok_or_else(|| missing("right"))?;
    let mut types = Vec::new();
    let mut depth = 0;
    let is_comma = |letter: char| {
        depth += i32::from(letter == '(') - i32::from(letter == ')');
        letter == ',' && depth == 0
    };
    for part in listed.split(is_comma).map(str::trim).filter(|_| !listed.trim().is_empty()) {
        types.push(if part.eq_ignore_ascii_case("none") { 0 } else { type_of_name(source, part)? });
    }
    Ok((name.trim(), types))
}

/// The operators of a name, which may stand behind the name of a schema. All of them are in `pg_catalog`.
fn operators_of(text: &str) -> &'static [OperatorRow] {
    system().operators_named(text.trim().trim_start_matches("pg_catalog.").trim())
}

fn operator_of_name(_source: &mut dyn Source, text: &str) -> SqlResult<Oid> {
    match operators_of(text) {
        [] => Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, format!("operator does not exist: {text}"))),
        [operator] => Ok(operator.oid),
        _ => Err(SqlError::new(SqlState::AMBIGUOUS_FUNCTION, format!("more than one operator named {text}"))),
    }
}

fn operator_of_signature(source: &mut dyn Source, text: &str) -> SqlResult<Oid> {
    let (name, types) = parse_signature(source, text)?;
    let [left, right] = types[..] else {
        return Err(match types.len() {
            0 | 1 => SqlError::new(SqlState::UNDEFINED_PARAMETER, "missing argument")
                .with_hint("Use NONE to denote the missing argument of a unary operator."),
            _ => SqlError::new(SqlState::TOO_MANY_ARGUMENTS, "too many arguments")
                .with_hint("Provide two argument types for operator."),
        });
    };
    let found = operators_of(name).iter().find(|operator| (operator.left, operator.right) == (left, right));
    found.map(|operator| operator.oid).ok_or_else(|| {
        SqlError::new(SqlState::UNDEFINED_FUNCTION, format!("operator does not exist: {text}"))
    })
}

fn collation_of_name(source: &mut dyn Source, text: &str) -> SqlResult<Oid> {
    let name = parse_name(text)?;
    let found = initial_rows("pg_collation").all().iter().find_map(|row| match (&row[0], &row[1]) {
        (Datum::Oid(oid), Datum::Text(known)) if **known == *name.name => Some(*oid),
        _ => None,
    });
    let is_known_schema = schemas(source, &name)?.contains(&PG_CATALOG);
    found.filter(|_| is_known_schema).ok_or_else(|| {
        let name = plain(&name);
        SqlError::new(
            SqlState::UNDEFINED_OBJECT,
            format!("collation \"{name}\" for encoding \"UTF8\" does not exist"),
        )
    })
}

/// The name of an object as a value of one of the `reg..` types shows it; its number, if there is no such object.
///
/// # Errors
/// What the source says.
pub fn reference_output(source: &mut dyn Source, of: Oid, number: Oid) -> SqlResult<String> {
    if number == 0 {
        return Ok("-".to_owned());
    }
    let known = match of {
        oid::REGCLASS => return relation_text(source, number),
        oid::REGTYPE => Some(type_text(source, number, None)?).filter(|text| text != "???"),
        oid::REGPROC => match function_numbered(source, number)? {
            Some(function) => {
                let name = Name { schema: None, name: function.name.clone() };
                let found = functions_of(source, &name)?;
                let is_only_one = found.len() == 1 && found[0].oid == number;
                Some(qualified(source, function.namespace, &function.name, is_only_one)?)
            }
            None => None,
        },
        oid::REGPROCEDURE => match function_numbered(source, number)? {
            Some(function) => Some(signature(source, &function)?),
            None => None,
        },
        oid::REGOPER => system().operator(number).map(|operator| match operators_of(&operator.name) {
            [_] => operator.name.clone(),
            _ => format!("pg_catalog.{}", operator.name),
        }),
        oid::REGOPERATOR => match system().operator(number) {
            Some(operator) => {
                let left = if operator.left == 0 {
                    "NONE".to_owned()
                } else {
                    type_text(source, operator.left, None)?
                };
                let right = type_text(source, operator.right, None)?;
                Some(format!("{}({left},{right})", operator.name))
            }
            None => None,
        },
        oid::REGNAMESPACE => namespace_name(source, number)?.map(|name| quoted(&name)),
        oid::REGROLE => role_name(source, number)?.map(|name| quoted(&name)),
        oid::REGCOLLATION => match value_of("pg_collation", number, "collname") {
            Datum::Text(name) => Some(quoted(&name)),
            _ => None,
        },
        _ => None,
    };
    Ok(known.unwrap_or_else(|| number.to_string()))
}

/// A function's name with the types of its arguments.
fn signature(source: &mut dyn Source, function: &FunctionRow) -> SqlResult<String> {
    let is_visible = source.asker().search_path.contains(&function.namespace);
    let name = qualified(source, function.namespace, &function.name, is_visible)?;
    let types = function.arguments.iter().map(|of| type_text(source, *of, None));
    Ok(format!("{name}({})", types.collect::<SqlResult<Vec<_>>>()?.join(",")))
}
