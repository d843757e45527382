//! Checks of values that their kinds alone do not tell, and the forms in which these values are kept.

use seawall_values::settings::{DateOrder, DateStyle};
use seawall_values::system::system;
use seawall_values::{SqlError, SqlResult, SqlState};

use super::date_style::{self, NotStyle};
use super::known::{Kind, Known};
use super::value::invalid;
use super::{list, time_zone};

/// Values that mean something that does not exist here: refused, so that nothing is misread.
const REFUSED: [(&str, &str); 10] = [
    ("allow_system_table_mods", "on"),
    ("array_nulls", "off"),
    ("exit_on_error", "on"),
    ("ignore_checksum_failure", "on"),
    ("ignore_system_indexes", "on"),
    ("quote_all_identifiers", "on"),
    ("session_replication_role", "replica"),
    ("standard_conforming_strings", "off"),
    ("transform_null_equals", "on"),
    ("zero_damaged_pages", "on"),
];

/// The values that a check of `DateStyle` falls back to.
#[derive(Clone, Copy, Debug)]
pub(super) struct DateStyles {
    pub(super) current: (DateStyle, DateOrder),
    pub(super) default: (DateStyle, DateOrder),
}

/// The form in which a value is kept.
///
/// # Errors
/// `22023` and others of PostgreSQL; `0A000` for a value that is not supported.
pub(super) fn check(known: &Known, value: String, styles: DateStyles) -> SqlResult<String> {
    let name = &known.name[..];
    if REFUSED.contains(&(name, &value)) {
        return Err(SqlError::unsupported(format!("{name} = {value}")));
    }
    let error = || invalid(name, &value);
    match name {
        "DateStyle" => date_style(&value, styles),
        "TimeZone" | "log_timezone" => time_zone::parse(&value).map(|(_, shown)| shown),
        "client_encoding" => client_encoding(&value),
        "application_name" => Ok(printable(&value)),
        "default_with_oids" if value == "on" => {
            let message = "tables declared WITH OIDS are not supported";
            Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message))
        }
        "timezone_abbreviations" if value != "Default" => Err(error()),
        "lc_messages" | "lc_monetary" | "lc_numeric" | "lc_time" if !is_locale(name, &value) => Err(error()),
        "default_table_access_method" if value != "heap" => {
            Err(error().with_detail(format!("Table access method \"{value}\" does not exist.")))
        }
        "default_tablespace" if !is_tablespace(&value) => {
            Err(error().with_detail(format!("Tablespace \"{value}\" does not exist.")))
        }
        "default_text_search_config" => text_search_configuration(&value).ok_or_else(error),
        "temp_tablespaces" => temporary_tablespaces(known, value),
        _ => match known.kind {
            Kind::List { .. } if list::split(&value).is_none() => Err(malformed_list(name, &value)),
            _ => Ok(value),
        },
    }
}

fn malformed_list(name: &str, value: &str) -> Box<SqlError> {
    invalid(name, value).with_detail("List syntax is invalid.")
}

fn date_style(value: &str, styles: DateStyles) -> SqlResult<String> {
    let words = list::split(value).ok_or_else(|| malformed_list("DateStyle", value))?;
    let error = |detail: String| invalid("DateStyle", value).with_detail(detail);
    match date_style::parse(&words, styles.current, styles.default) {
        Ok(style) => Ok(date_style::show(style)),
        Err(NotStyle::Conflicting) => Err(error("Conflicting \"datestyle\" specifications.".to_owned())),
        Err(NotStyle::Unrecognized(word)) => Err(error(format!("Unrecognized key word: \"{word}\"."))),
    }
}

/// Texts are UTF-8; a client that does not name an encoding gets the bytes as they are.
fn client_encoding(value: &str) -> SqlResult<String> {
    let (_, name) =
        crate::catalog::functions::encoding_named(value).ok_or_else(|| invalid("client_encoding", value))?;
    if matches!(name, "UTF8" | "SQL_ASCII") {
        return Ok(name.to_owned());
    }
    let message = format!("invalid value for parameter \"client_encoding\": \"{value}\"");
    Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
        .with_detail(format!("Conversion between {name} and UTF8 is not supported.")))
}

/// A text whose bytes other than printable ASCII are question marks.
fn printable(text: &str) -> String {
    text.bytes().map(|byte| if matches!(byte, 32..=126) { char::from(byte) } else { '?' }).collect()
}

/// Whether what is done here is what the locale says: messages are English, numbers and names of months those of C.
fn is_locale(name: &str, value: &str) -> bool {
    let is_plain = ["", "C", "POSIX", "C.UTF-8", "C.utf8"].contains(&value);
    is_plain || name == "lc_messages" && (value == "en" || value.starts_with("en_"))
}

fn is_tablespace(name: &str) -> bool {
    matches!(name, "" | "pg_default")
}

fn temporary_tablespaces(known: &Known, value: String) -> SqlResult<String> {
    let names = list::split(&value).ok_or_else(|| malformed_list(&known.name, &value))?;
    match names.iter().find(|name| !is_tablespace(name)) {
        Some(name) => {
            Err(SqlError::new(SqlState::UNDEFINED_OBJECT, format!("tablespace \"{name}\" does not exist")))
        }
        None => Ok(value),
    }
}

fn text_search_configuration(value: &str) -> Option<String> {
    let name = value.strip_prefix("pg_catalog.").unwrap_or(value);
    let block = system().block("pg_ts_config")?;
    let column = block.position("cfgname");
    let is_known = block.rows().any(|row| row[column].as_deref() == Some(name));
    is_known.then(|| format!("pg_catalog.{name}"))
}
