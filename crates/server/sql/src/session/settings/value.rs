//! Values of settings by their kinds: how a text is read, and how a value is shown.
//!
//! A value is kept as text without a unit, as `pg_settings.setting` has it, but with all digits of a fraction.

use seawall_values::{SqlError, SqlResult, SqlState};

use super::known::{Kind, Known};
use super::number::{self, NotNumber};
use super::unit::{Unit, general};

/// Words that stand for others among the words of an enumeration.
const ALIASES: [(&str, &str); 7] = [
    ("true", "on"),
    ("yes", "on"),
    ("1", "on"),
    ("false", "off"),
    ("no", "off"),
    ("0", "off"),
    ("debug", "debug2"),
];

/// `22023`: the text is not a value of the setting.
#[cold]
pub(super) fn invalid(name: &str, text: &str) -> Box<SqlError> {
    let message = format!("invalid value for parameter \"{name}\": \"{text}\"");
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

/// The value that a text stands for. `name` is the setting's name as it was given.
pub(super) fn parse(known: &Known, name: &str, text: &str) -> SqlResult<String> {
    match &known.kind {
        Kind::Bool => match boolean(text) {
            Some(value) => Ok(if value { "on" } else { "off" }.to_owned()),
            None => {
                let message = format!("parameter \"{name}\" requires a Boolean value");
                Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message))
            }
        },
        Kind::Integer { unit, minimum, maximum } => {
            let value = number::integer(text, *unit).map_err(|error| not_number(error, name, text))?;
            match (*minimum..=*maximum).contains(&value) {
                true => Ok(value.to_string()),
                false => Err(out_of_range(
                    name,
                    &value.to_string(),
                    *unit,
                    &minimum.to_string(),
                    &maximum.to_string(),
                )),
            }
        }
        Kind::Real { unit, minimum, maximum } => {
            let value = number::real(text, *unit).map_err(|error| not_number(error, name, text))?;
            match (*minimum..=*maximum).contains(&value) {
                true => Ok(value.to_string()),
                false => {
                    Err(out_of_range(name, &general(value), *unit, &general(*minimum), &general(*maximum)))
                }
            }
        }
        Kind::Enumeration(words) => {
            word(words, text).ok_or_else(|| invalid(name, text).with_hint(available(words)))
        }
        Kind::Text | Kind::List { .. } => Ok(text.to_owned()),
    }
}

/// A value with its unit, as `SHOW` prints it.
pub(super) fn show(known: &Known, value: &str) -> String {
    match (&known.kind, value.parse::<i64>(), value.parse::<f64>()) {
        (Kind::Integer { unit: Some(unit), .. }, Ok(number), _) => unit.show_integer(number),
        (Kind::Real { unit: Some(unit), .. }, _, Ok(number)) => unit.show_real(number),
        _ => setting(known, value),
    }
}

/// A value without a unit, as `pg_settings` shows it.
pub(super) fn setting(known: &Known, value: &str) -> String {
    match (&known.kind, value.parse::<f64>()) {
        (Kind::Real { .. }, Ok(number)) => general(number),
        _ => value.to_owned(),
    }
}

/// A boolean in one of the forms that settings take: words may be cut short, as long as they are clear.
pub(super) fn boolean(text: &str) -> Option<bool> {
    let lower = text.to_ascii_lowercase();
    let is = |word: &str, shortest: usize| lower.len() >= shortest && word.starts_with(&lower);
    match &lower[..] {
        "1" => Some(true),
        "0" => Some(false),
        _ if is("true", 1) || is("yes", 1) || is("on", 2) => Some(true),
        _ if is("false", 1) || is("no", 1) || is("off", 2) => Some(false),
        _ => None,
    }
}

fn word(words: &[String], text: &str) -> Option<String> {
    let find = |text: &str| words.iter().find(|word| word.eq_ignore_ascii_case(text)).cloned();
    let alias = ALIASES.iter().find(|(alias, _)| alias.eq_ignore_ascii_case(text));
    match (find(text), alias) {
        (Some(word), _) => Some(word),
        // `client_min_messages` takes it, but does not offer it.
        (None, _) if text.eq_ignore_ascii_case("info") => find("notice").map(|_| "info".to_owned()),
        (None, Some((_, word))) => find(word),
        (None, None) => None,
    }
}

fn available(words: &[String]) -> String {
    let words: Vec<&str> = words.iter().map(String::as_str).filter(|word| !word.is_empty()).collect();
    format!("Available values: {}.", words.join(", "))
}

#[cold]
fn not_number(error: NotNumber, name: &str, text: &str) -> Box<SqlError> {
    let invalid = invalid(name, text);
    match error {
        NotNumber::Malformed => invalid,
        NotNumber::Unit(unit) => invalid.with_hint(unit.hint()),
        NotNumber::TooLarge => invalid.with_hint("Value exceeds integer range."),
    }
}

#[cold]
fn out_of_range(name: &str, value: &str, unit: Option<Unit>, minimum: &str, maximum: &str) -> Box<SqlError> {
    let unit = unit.map(|unit| format!(" {}", unit.name)).unwrap_or_default();
    let message =
        format!("{value}{unit} is outside the valid range for parameter \"{name}\" ({minimum} .. {maximum})");
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}
