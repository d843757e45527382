//! Lists of options: `(name value, name)`.

use seawall_values::{SqlError, SqlResult, SqlState};

use super::reader::Reader;

/// An option as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WrittenOption {
    pub(super) name: String,
    pub(super) value: OptionValue,
    pub(super) position: Option<u32>,
}

/// The value of an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum OptionValue {
    None,
    /// A word, a text in quotes, or a number with its sign.
    Text(String),
    /// `*`.
    Star,
    /// `(a, b)`.
    List(Vec<String>),
}

/// `(name value, ..)`.
pub(super) fn options(reader: &mut Reader<'_>) -> SqlResult<Vec<WrittenOption>> {
    reader.expect_character('(')?;
    let options = reader.list(|reader| {
        let position = reader.position();
        let name = reader.label()?;
        Ok(WrittenOption { name, value: value(reader)?, position })
    })?;
    reader.expect_character(')')?;
    Ok(options)
}

fn value(reader: &mut Reader<'_>) -> SqlResult<OptionValue> {
    if reader.is_character(',') || reader.is_character(')') {
        return Ok(OptionValue::None);
    }
    if reader.take_operator("*") {
        return Ok(OptionValue::Star);
    }
    if reader.is_character('(') {
        reader.skip(1);
        let names = reader.list(text)?;
        reader.expect_character(')')?;
        return Ok(OptionValue::List(names));
    }
    text(reader).map(OptionValue::Text)
}

fn text(reader: &mut Reader<'_>) -> SqlResult<String> {
    if let Some(text) = reader.take_string().or_else(|| reader.take_number()) {
        return Ok(text);
    }
    reader.label()
}

/// `(name = value, ..)`, as tables and indexes have them: `name=value`.
pub(super) fn storage_options(reader: &mut Reader<'_>) -> SqlResult<Vec<String>> {
    reader.expect_character('(')?;
    let options = reader.list(|reader| {
        let mut name = reader.label()?;
        if reader.take_character('.') {
            name = format!("{name}.{}", reader.label()?);
        }
        let value = if reader.take_operator("=") { text(reader)? } else { "true".to_owned() };
        Ok(format!("{name}={value}"))
    })?;
    reader.expect_character(')')?;
    Ok(options)
}

impl WrittenOption {
    /// On, without a value, too.
    pub(super) fn boolean(&self) -> SqlResult<bool> {
        let text = match &self.value {
            OptionValue::None => return Ok(true),
            OptionValue::Text(text) => text.to_ascii_lowercase(),
            OptionValue::Star | OptionValue::List(_) => String::new(),
        };
        match text.as_str() {
            "true" | "on" | "1" => Ok(true),
            "false" | "off" | "0" => Ok(false),
            _ => {
                let message = format!("{} requires a Boolean value", self.name);
                Err(SqlError::new(SqlState::SYNTAX_ERROR, message))
            }
        }
    }

    /// Its text.
    pub(super) fn text(&self) -> SqlResult<String> {
        match &self.value {
            OptionValue::Text(text) => Ok(text.clone()),
            OptionValue::None => {
                Err(SqlError::new(SqlState::SYNTAX_ERROR, format!("{} requires a parameter", self.name)))
            }
            OptionValue::Star => Ok("*".to_owned()),
            OptionValue::List(names) => Ok(names.join(",")),
        }
    }
}
