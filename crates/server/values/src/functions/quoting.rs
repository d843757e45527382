//! Names and literals as they stand in statements: `quote_ident`, `quote_literal`, `parse_ident`, `format`; and `concat`.

use std::borrow::Cow;
use std::sync::Arc;

use super::arguments::{mismatch, row};
use super::text::{BYTES_MAX, too_long};
use super::{Call, Table};
use crate::datum::{Array, Datum};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::oid;
use crate::text_form;

pub(super) const TABLE: Table = &[
    row!("quote_ident", [Text name], Ok(Datum::text(quote_identifier(name)))),
    row!("quote_literal", [Text text], Ok(Datum::text(quote_literal(text)))),
    ("quote_literal/1", |call| Ok(Datum::text(quote_literal(&cast_of(call, 0)?)))),
    ("quote_nullable", nullable),
    ("quote_nullable/1", nullable),
    row!("parse_ident", [Text name, Bool is_strict], parse_identifiers(name, *is_strict)),
    ("text_concat", |call| concatenate(call, 0, "")),
    ("text_concat/variadic", |call| match call.arguments {
        [Datum::Null] => Ok(Datum::Null),
        _ => concatenate(&expanded(call, 0)?.call(), 0, ""),
    }),
    ("text_concat_ws", concatenate_with_separator),
    ("text_concat_ws/variadic", |call| match call.arguments {
        [_, Datum::Null] => Ok(Datum::Null),
        _ => concatenate_with_separator(&expanded(call, 1)?.call()),
    }),
    ("text_format", format),
    ("text_format_nv", format),
    ("text_format/variadic", |call| format(&expanded(call, 1)?.call())),
    ("pg_num_nulls", |call| Ok(count_nulls(call, true))),
    ("pg_num_nonnulls", |call| Ok(count_nulls(call, false))),
    ("pg_num_nulls/variadic", |call| variadic_nulls(call, true)),
    ("pg_num_nonnulls/variadic", |call| variadic_nulls(call, false)),
    ("textanycat/2", |call| joined(call)),
    ("anytextcat/2", |call| joined(call)),
];

/// Words that are no names without quotes: all of PostgreSQL's keywords but the unreserved ones. Sorted.
const KEYWORDS: &[&str] = &[
    "all",
    "analyse",
    "analyze",
    "and",
    "any",
    "array",
    "as",
    "asc",
    "asymmetric",
    "authorization",
    "between",
    "bigint",
    "binary",
    "bit",
    "boolean",
    "both",
    "case",
    "cast",
    "char",
    "character",
    "check",
    "coalesce",
    "collate",
    "collation",
    "column",
    "concurrently",
    "constraint",
    "create",
    "cross",
    "current_catalog",
    "current_date",
    "current_role",
    "current_schema",
    "current_time",
    "current_timestamp",
    "current_user",
    "dec",
    "decimal",
    "default",
    "deferrable",
    "desc",
    "distinct",
    "do",
    "else",
    "end",
    "except",
    "exists",
    "extract",
    "false",
    "fetch",
    "float",
    "for",
    "foreign",
    "freeze",
    "from",
    "full",
    "grant",
    "greatest",
    "group",
    "grouping",
    "having",
    "ilike",
    "in",
    "initially",
    "inner",
    "inout",
    "int",
    "integer",
    "intersect",
    "interval",
    "into",
    "is",
    "isnull",
    "join",
    "lateral",
    "leading",
    "least",
    "left",
    "like",
    "limit",
    "localtime",
    "localtimestamp",
    "national",
    "natural",
    "nchar",
    "none",
    "normalize",
    "not",
    "notnull",
    "null",
    "nullif",
    "numeric",
    "offset",
    "on",
    "only",
    "or",
    "order",
    "out",
    "outer",
    "overlaps",
    "overlay",
    "placing",
    "position",
    "precision",
    "primary",
    "real",
    "references",
    "returning",
    "right",
    "row",
    "select",
    "session_user",
    "setof",
    "similar",
    "smallint",
    "some",
    "substring",
    "symmetric",
    "table",
    "tablesample",
    "then",
    "time",
    "timestamp",
    "to",
    "trailing",
    "treat",
    "trim",
    "true",
    "union",
    "unique",
    "user",
    "using",
    "values",
    "varchar",
    "variadic",
    "verbose",
    "when",
    "where",
    "window",
    "with",
    "xmlattributes",
    "xmlconcat",
    "xmlelement",
    "xmlexists",
    "xmlforest",
    "xmlnamespaces",
    "xmlparse",
    "xmlpi",
    "xmlroot",
    "xmlserialize",
    "xmltable",
];

/// A name as it stands in a statement: in double quotes where it needs them.
pub fn quote_identifier(name: &str) -> Cow<'_, str> {
    let is_plain = name.starts_with(|first: char| first.is_ascii_lowercase() || first == '_')
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
        && KEYWORDS.binary_search(&name).is_err();
    if is_plain { Cow::Borrowed(name) } else { Cow::Owned(format!("\"{}\"", name.replace('"', "\"\""))) }
}

/// A text as a literal; one with backslashes as `E'..'`.
pub fn quote_literal(text: &str) -> String {
    let (prefix, escaped) = match text.contains('\\') {
        true => ("E", Cow::Owned(text.replace('\\', "\\\\"))),
        false => ("", Cow::Borrowed(text)),
    };
    format!("{prefix}'{}'", escaped.replace('\'', "''"))
}

/// The output of an argument.
fn text_of<'a>(call: &Call<'a>, index: usize) -> SqlResult<Cow<'a, str>> {
    let (Some(value), Some(of)) = (call.arguments.get(index), call.argument_types.get(index)) else {
        return Err(mismatch(call));
    };
    if let Datum::Text(text) = value {
        return Ok(Cow::Borrowed(text));
    }
    let mut text = String::new();
    text_form::output(of.oid, value, call.settings, &mut text)?;
    Ok(Cow::Owned(text))
}

/// An argument cast to `text`, which is its text form but for `boolean`.
fn cast_of<'a>(call: &Call<'a>, index: usize) -> SqlResult<Cow<'a, str>> {
    match call.arguments.get(index) {
        Some(Datum::Bool(value)) => Ok(Cow::Borrowed(if *value { "true" } else { "false" })),
        _ => text_of(call, index),
    }
}

fn nullable(call: &Call<'_>) -> SqlResult<Datum> {
    match call.arguments {
        [Datum::Null] => Ok(Datum::text("NULL")),
        _ => Ok(Datum::text(quote_literal(&cast_of(call, 0)?))),
    }
}

/// `||` of a text and a value of another type, which is cast; `concat` takes the text forms.
fn joined(call: &Call<'_>) -> SqlResult<Datum> {
    if call.arguments.iter().any(Datum::is_null) {
        return Ok(Datum::Null);
    }
    let (left, right) = (cast_of(call, 0)?, cast_of(call, 1)?);
    if left.len() + right.len() > BYTES_MAX {
        return Err(too_long());
    }
    Ok(Datum::text([left, right].concat()))
}

fn concatenate(call: &Call<'_>, first: usize, separator: &str) -> SqlResult<Datum> {
    let mut result = String::new();
    let mut is_first = true;
    for index in first..call.arguments.len() {
        if call.arguments[index].is_null() {
            continue;
        }
        if !std::mem::take(&mut is_first) {
            result.push_str(separator);
        }
        result.push_str(&text_of(call, index)?);
        if result.len() > BYTES_MAX {
            return Err(too_long());
        }
    }
    Ok(Datum::text(result))
}

fn concatenate_with_separator(call: &Call<'_>) -> SqlResult<Datum> {
    match call.arguments {
        [Datum::Text(separator), ..] => concatenate(call, 1, separator),
        [Datum::Null, ..] => Ok(Datum::Null),
        _ => Err(mismatch(call)),
    }
}

/// A call with the elements of an array in the place of it: `VARIADIC array` of a function of any types.
pub(super) struct Expanded<'a> {
    arguments: Vec<Datum>,
    types: Vec<crate::datum::TypeReference>,
    call: &'a Call<'a>,
}

impl Expanded<'_> {
    pub(super) fn call(&self) -> Call<'_> {
        Call { arguments: &self.arguments, argument_types: &self.types, ..*self.call }
    }
}

/// Expands the array that is the argument at `index`, the last one; a null is no arguments.
pub(super) fn expanded<'a>(call: &'a Call<'a>, index: usize) -> SqlResult<Expanded<'a>> {
    let (Some(before), Some(types)) = (call.arguments.get(..index), call.argument_types.get(..index)) else {
        return Err(mismatch(call));
    };
    let (mut arguments, mut types) = (before.to_vec(), types.to_vec());
    match call.arguments.get(index) {
        Some(Datum::Array(array)) => {
            let of = crate::datum::TypeReference::of(array.element);
            types.resize(types.len() + array.values.len(), of);
            arguments.extend(array.values.iter().cloned());
        }
        Some(Datum::Null) => {}
        _ => {
            let message = "VARIADIC argument must be an array";
            return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message));
        }
    }
    Ok(Expanded { arguments, types, call })
}

fn count_nulls(call: &Call<'_>, wanted: bool) -> Datum {
    let count = call.arguments.iter().filter(|value| value.is_null() == wanted).count();
    Datum::Int4(super::text::bounded(count))
}

/// Of a null array there is no number.
fn variadic_nulls(call: &Call<'_>, wanted: bool) -> SqlResult<Datum> {
    if let [Datum::Null] = call.arguments {
        return Ok(Datum::Null);
    }
    Ok(count_nulls(&expanded(call, 0)?.call(), wanted))
}

/// A place in a format: `%[position$][-][width]type`.
struct Specifier {
    position: Option<usize>,
    is_left: bool,
    width: Width,
    kind: char,
}

enum Width {
    None,
    Fixed(usize),
    /// That of an argument: the next one, or the one at a position.
    Argument(Option<usize>),
}

fn too_few() -> Box<SqlError> {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "too few arguments for format()")
}

fn unterminated() -> Box<SqlError> {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "unterminated format() type specifier")
        .with_hint("For a single \"%\" use \"%%\".")
}

fn format(call: &Call<'_>) -> SqlResult<Datum> {
    let pattern = match call.arguments.first() {
        Some(Datum::Text(pattern)) => pattern.clone(),
        Some(Datum::Null) => return Ok(Datum::Null),
        _ => return Err(mismatch(call)),
    };
    let mut result = String::new();
    let mut next = 1;
    let mut rest = pattern.as_ref();
    while let Some(at) = rest.find('%') {
        result.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('%') {
            result.push('%');
            rest = after;
            continue;
        }
        let specifier = specifier(&mut rest)?;
        let (width, is_left) = width_of(call, &specifier, &mut next)?;
        let index = specifier.position.unwrap_or(next);
        next = index + 1;
        if index >= call.arguments.len() {
            return Err(too_few());
        }
        let text = converted(call, index, specifier.kind)?;
        append_padded(&text, width, is_left, &mut result)?;
    }
    result.push_str(rest);
    Ok(Datum::text(result))
}

fn append_padded(text: &str, width: usize, is_left: bool, result: &mut String) -> SqlResult<()> {
    let padding = width.saturating_sub(text.chars().count());
    if result.len() + text.len() + padding > BYTES_MAX {
        return Err(too_long());
    }
    if is_left {
        result.push_str(text);
    }
    result.extend(std::iter::repeat_n(' ', padding));
    if !is_left {
        result.push_str(text);
    }
    Ok(())
}

fn converted<'a>(call: &Call<'a>, index: usize, kind: char) -> SqlResult<Cow<'a, str>> {
    if call.arguments[index].is_null() {
        return match kind {
            's' => Ok(Cow::Borrowed("")),
            'L' => Ok(Cow::Borrowed("NULL")),
            _ => Err(SqlError::new(
                SqlState::NULL_VALUE_NOT_ALLOWED,
                "null values cannot be formatted as an SQL identifier",
            )),
        };
    }
    let text = text_of(call, index)?;
    Ok(match kind {
        'I' => Cow::Owned(quote_identifier(&text).into_owned()),
        'L' => Cow::Owned(quote_literal(&text)),
        _ => text,
    })
}

fn width_of(call: &Call<'_>, specifier: &Specifier, next: &mut usize) -> SqlResult<(usize, bool)> {
    let index = match specifier.width {
        Width::None => return Ok((0, specifier.is_left)),
        Width::Fixed(width) => return Ok((width, specifier.is_left)),
        Width::Argument(position) => position.unwrap_or(*next),
    };
    *next = index + 1;
    let width = match call.arguments.get(index) {
        None => return Err(too_few()),
        Some(Datum::Null) => 0,
        Some(Datum::Int2(width)) => i32::from(*width),
        Some(Datum::Int4(width)) => *width,
        Some(_) => text_of(call, index)?.trim().parse().map_err(|_| {
            let message = format!(
                "invalid input syntax for type integer: \"{}\"",
                text_of(call, index).unwrap_or_default()
            );
            SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, message)
        })?,
    };
    let length = usize::try_from(width.unsigned_abs()).unwrap_or(usize::MAX);
    Ok((length, specifier.is_left || width < 0))
}

/// Reads digits, as a number.
fn number(rest: &mut &str) -> SqlResult<Option<usize>> {
    let length = rest.bytes().take_while(u8::is_ascii_digit).count();
    let (digits, after) = rest.split_at(length);
    if digits.is_empty() {
        return Ok(None);
    }
    *rest = after;
    if after.is_empty() {
        return Err(unterminated());
    }
    match digits.parse::<i32>().ok().and_then(|number| usize::try_from(number).ok()) {
        Some(number) => Ok(Some(number)),
        None => Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "number is out of range")),
    }
}

fn position(number: usize) -> SqlResult<usize> {
    if number > 0 {
        return Ok(number);
    }
    let message = "format specifies argument 0, but arguments are numbered from 1";
    Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message))
}

fn specifier(rest: &mut &str) -> SqlResult<Specifier> {
    if rest.is_empty() {
        return Err(unterminated());
    }
    let mut specifier = Specifier { position: None, is_left: false, width: Width::None, kind: 's' };
    let mut width = number(rest)?;
    if let Some(found) = width
        && let Some(after) = rest.strip_prefix('$')
    {
        specifier.position = Some(position(found)?);
        *rest = after;
        width = None;
    }
    if width.is_none() {
        while let Some(after) = rest.strip_prefix('-') {
            specifier.is_left = true;
            *rest = after;
        }
        if let Some(after) = rest.strip_prefix('*') {
            *rest = after;
            let found = number(rest)?;
            match (found, rest.strip_prefix('$')) {
                (Some(found), Some(after)) => {
                    *rest = after;
                    specifier.width = Width::Argument(Some(position(found)?));
                }
                (Some(_), None) => {
                    let message = "width argument position must be ended by \"$\"";
                    return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
                }
                (None, _) => specifier.width = Width::Argument(None),
            }
        } else {
            width = number(rest)?;
        }
    }
    if let Some(width) = width {
        specifier.width = Width::Fixed(width);
    }
    let kind = rest.chars().next().ok_or_else(unterminated)?;
    if !matches!(kind, 's' | 'I' | 'L') {
        let message = format!("unrecognized format() type specifier \"{kind}\"");
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
            .with_hint("For a single \"%\" use \"%%\"."));
    }
    *rest = &rest[1..];
    specifier.kind = kind;
    Ok(specifier)
}

fn invalid_identifier(whole: &str) -> Box<SqlError> {
    let message = format!("string is not a valid identifier: \"{whole}\"");
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

fn is_space(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\n' | '\r' | '\u{c}')
}

/// The parts of a qualified name, those without quotes in lower case.
fn parse_identifiers(whole: &str, is_strict: bool) -> SqlResult<Datum> {
    let mut parts = Vec::new();
    let mut rest = whole.trim_start_matches(is_space);
    let mut is_after_dot = false;
    loop {
        let part;
        (part, rest) = if rest.starts_with('"') {
            quoted_part(whole, rest)?
        } else {
            plain_part(whole, rest, is_after_dot)?
        };
        parts.push(Datum::text(part));
        rest = rest.trim_start_matches(is_space);
        match rest.strip_prefix('.') {
            Some(after) => rest = after.trim_start_matches(is_space),
            None if rest.is_empty() || !is_strict => break,
            None => return Err(invalid_identifier(whole)),
        }
        is_after_dot = true;
    }
    Ok(Datum::Array(Arc::new(Array::one_dimensional(oid::TEXT, parts))))
}

fn quoted_part<'a>(whole: &str, rest: &'a str) -> SqlResult<(String, &'a str)> {
    let mut part = String::new();
    let mut rest = &rest[1..];
    loop {
        let Some(at) = rest.find('"') else {
            return Err(invalid_identifier(whole).with_detail("String has unclosed double quotes."));
        };
        part.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        match rest.strip_prefix('"') {
            Some(after) => {
                part.push('"');
                rest = after;
            }
            None if part.is_empty() => {
                return Err(invalid_identifier(whole).with_detail("Quoted identifier must not be empty."));
            }
            None => return Ok((part, rest)),
        }
    }
}

fn plain_part<'a>(whole: &str, rest: &'a str, is_after_dot: bool) -> SqlResult<(String, &'a str)> {
    let is_start =
        |character: char| character.is_ascii_alphabetic() || character == '_' || !character.is_ascii();
    let is_part = |character: char| is_start(character) || character.is_ascii_digit() || character == '$';
    if !rest.starts_with(is_start) {
        let error = invalid_identifier(whole);
        return Err(if rest.starts_with('.') {
            error.with_detail("No valid identifier before \".\".")
        } else if is_after_dot {
            error.with_detail("No valid identifier after \".\".")
        } else {
            error
        });
    }
    let end = rest.find(|character| !is_part(character)).unwrap_or(rest.len());
    Ok((rest[..end].to_ascii_lowercase(), &rest[end..]))
}
