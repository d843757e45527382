//! Values of all types as `json` and `jsonb`.

use std::sync::Arc;

use super::{checked_string, escape_into, normalize_members};
use crate::datum::{Array, Datum, Jsonb, Numeric, Record};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::oid::{self, Oid};
use crate::settings::{DateStyle, Settings};
use crate::text_form;
use crate::user_types::{is_composite, is_enum};

/// Whether elements stand in lines of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// All in one line.
    Compact,
    /// The elements of the outermost array or row in lines.
    Lines,
}

impl Layout {
    fn separator(self) -> &'static str {
        match self {
            Layout::Compact => ",",
            Layout::Lines => ",\n ",
        }
    }
}

/// Appends a value as JSON.
///
/// # Errors
/// As the output of its type.
pub fn append_json(
    of: Oid,
    value: &Datum,
    layout: Layout,
    settings: &Settings,
    output: &mut String,
) -> SqlResult<()> {
    match value {
        Datum::Null => output.push_str("null"),
        Datum::Bool(true) => output.push_str("true"),
        Datum::Bool(false) => output.push_str("false"),
        Datum::Int8(_) if is_enum(of) => escape_into(&plain_text(of, value, settings)?, output),
        Datum::Int2(_) | Datum::Int4(_) | Datum::Int8(_) => text_form::output(of, value, settings, output)?,
        Datum::Float4(_) | Datum::Float8(_) | Datum::Numeric(_) => {
            let start = output.len();
            text_form::output(of, value, settings, output)?;
            // JSON has no infinities and no NaN.
            if output.ends_with(|last: char| !last.is_ascii_digit()) {
                let text = output.split_off(start);
                escape_into(&text, output);
            }
        }
        Datum::Text(text) if of == oid::JSON => output.push_str(text),
        Datum::Text(text) => escape_into(text, output),
        Datum::Jsonb(value) => super::print(value, output),
        Datum::Array(array) => append_array(array, layout, settings, output)?,
        Datum::Record(record) => append_record(of, record, layout, settings, output)?,
        _ => escape_into(&plain_text(of, value, settings)?, output),
    }
    Ok(())
}

fn append_array(array: &Array, layout: Layout, settings: &Settings, output: &mut String) -> SqlResult<()> {
    if array.dimensions.is_empty() {
        output.push_str("[]");
        return Ok(());
    }
    append_dimension(array, 0, &mut array.values.iter(), layout, settings, output)
}

fn append_dimension(
    array: &Array,
    level: usize,
    values: &mut std::slice::Iter<'_, Datum>,
    layout: Layout,
    settings: &Settings,
    output: &mut String,
) -> SqlResult<()> {
    let Some(dimension) = array.dimensions.get(level) else {
        let value = values.next().unwrap_or(&Datum::Null);
        return append_json(array.element, value, Layout::Compact, settings, output);
    };
    output.push('[');
    for index in 0..dimension.length {
        if index > 0 {
            output.push_str(layout.separator());
        }
        append_dimension(array, level + 1, values, Layout::Compact, settings, output)?;
    }
    output.push(']');
    Ok(())
}

fn append_record(
    of: Oid,
    record: &Record,
    layout: Layout,
    settings: &Settings,
    output: &mut String,
) -> SqlResult<()> {
    output.push('{');
    for (index, (field, value)) in record.types.iter().zip(&record.values).enumerate() {
        if index > 0 {
            output.push_str(layout.separator());
        }
        escape_into(&field_name(of, record, index, settings), output);
        output.push(':');
        append_json(*field, value, Layout::Compact, settings, output)?;
    }
    output.push('}');
    Ok(())
}

/// The name of a field of a row: that of the composite type, or the one that the row knows.
fn field_name(of: Oid, record: &Record, index: usize, settings: &Settings) -> Arc<str> {
    let composite = is_composite(of).then(|| settings.types.composite(of).ok()).flatten();
    let name = match composite {
        Some(composite) => composite.fields.get(index).map(|field| &field.name),
        None => record.names.as_ref().and_then(|names| names.get(index)),
    };
    name.map_or_else(|| Arc::from(format!("f{}", index + 1)), Arc::clone)
}

/// The text that is a value's JSON string: dates and times as XML Schema has them, whatever the settings say; all others as they print.
fn plain_text(of: Oid, value: &Datum, settings: &Settings) -> SqlResult<String> {
    let mut text = String::new();
    match value {
        Datum::Date(_) | Datum::Timestamp(_) | Datum::TimestampTz(_)
            if settings.date_style != DateStyle::Iso =>
        {
            let settings = Settings { date_style: DateStyle::Iso, ..settings.clone() };
            text_form::output(of, value, &settings, &mut text)?;
        }
        _ => text_form::output(of, value, settings, &mut text)?,
    }
    if let Datum::Timestamp(_) | Datum::TimestampTz(_) = value
        && let Some(space) = text.find(' ')
    {
        text.replace_range(space..=space, "T");
        if let Datum::TimestampTz(_) = value {
            complete_offset(&mut text);
        }
    }
    Ok(text)
}

/// Makes `+00:00` of an offset `+00`.
fn complete_offset(text: &mut String) {
    let end = text.find(' ').unwrap_or(text.len());
    if let Some(sign) = text[..end].rfind(['+', '-'])
        && end - sign == 3
    {
        text.insert_str(end, ":00");
    }
}

/// A value as `jsonb`.
///
/// # Errors
/// As `append_json`, and those of a `json` that is no `jsonb`.
pub fn to_jsonb(of: Oid, value: &Datum, settings: &Settings) -> SqlResult<Jsonb> {
    Ok(match value {
        Datum::Null => Jsonb::Null,
        Datum::Bool(value) => Jsonb::Bool(*value),
        Datum::Int8(_) if is_enum(of) => Jsonb::String(checked_string(&plain_text(of, value, settings)?)?),
        Datum::Int2(_)
        | Datum::Int4(_)
        | Datum::Int8(_)
        | Datum::Float4(_)
        | Datum::Float8(_)
        | Datum::Numeric(_) => {
            let mut text = String::new();
            text_form::output(of, value, settings, &mut text)?;
            match text.parse::<Numeric>()? {
                number @ Numeric::Finite { .. } => Jsonb::Number(number),
                _ => Jsonb::String(Arc::from(text)),
            }
        }
        Datum::Text(text) if of == oid::JSON => super::parse(text)?,
        Datum::Text(text) => Jsonb::String(checked_string(text)?),
        Datum::Jsonb(value) => value.as_ref().clone(),
        Datum::Array(array) => {
            if array.dimensions.is_empty() {
                return Ok(Jsonb::Array(Vec::new()));
            }
            dimension_to_jsonb(array, 0, &mut array.values.iter(), settings)?
        }
        Datum::Record(record) => {
            let fields = record.types.iter().zip(&record.values).enumerate();
            let members = fields.map(|(index, (field, value))| {
                Ok((field_name(of, record, index, settings), to_jsonb(*field, value, settings)?))
            });
            Jsonb::Object(normalize_members(members.collect::<SqlResult<_>>()?))
        }
        _ => Jsonb::String(checked_string(&plain_text(of, value, settings)?)?),
    })
}

fn dimension_to_jsonb(
    array: &Array,
    level: usize,
    values: &mut std::slice::Iter<'_, Datum>,
    settings: &Settings,
) -> SqlResult<Jsonb> {
    let Some(dimension) = array.dimensions.get(level) else {
        return to_jsonb(array.element, values.next().unwrap_or(&Datum::Null), settings);
    };
    let elements = (0..dimension.length).map(|_| dimension_to_jsonb(array, level + 1, values, settings));
    Ok(Jsonb::Array(elements.collect::<SqlResult<_>>()?))
}

/// The text that a value has as the key of an object.
///
/// # Errors
/// `22023` if it is an array, a row or JSON.
pub fn key_text(of: Oid, value: &Datum, settings: &Settings) -> SqlResult<String> {
    match value {
        Datum::Array(_) | Datum::Record(_) | Datum::Jsonb(_) => Err(structured_key()),
        Datum::Text(_) if of == oid::JSON => Err(structured_key()),
        Datum::Bool(value) => Ok(if *value { "true" } else { "false" }.to_owned()),
        Datum::Text(text) => Ok(text.to_string()),
        _ => plain_text(of, value, settings),
    }
}

#[cold]
fn structured_key() -> Box<SqlError> {
    SqlError::new(
        SqlState::INVALID_PARAMETER_VALUE,
        "key value must be scalar, not array, composite, or json",
    )
}
