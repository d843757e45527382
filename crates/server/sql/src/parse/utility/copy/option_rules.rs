//! Which options of `COPY` go together.

use seawall_values::{SqlError, SqlResult, SqlState};

use super::super::super::options::{OptionValue, WrittenOption};
use super::super::super::statement::copy::{CopyColumns, CopyFormat, CopyHeader, CopyOptions};

/// Options as given.
#[derive(Default)]
struct Given {
    format: CopyFormat,
    is_freeze: bool,
    delimiter: Option<String>,
    null: Option<String>,
    header: Option<CopyHeader>,
    quote: Option<String>,
    escape: Option<String>,
    force_quote: CopyColumns,
    force_not_null: Option<Vec<String>>,
    force_null: Option<Vec<String>>,
    encoding: Option<String>,
}

/// The options, with defaults.
pub(super) fn checked(written: &[WrittenOption], is_from: bool) -> SqlResult<CopyOptions> {
    let mut given = Given::default();
    for (index, option) in written.iter().enumerate() {
        if written[..index].iter().any(|before| before.name == option.name) {
            return Err(syntax("conflicting or redundant options").at(option.position));
        }
        take(&mut given, option, is_from)?;
    }
    check_binary(&given)?;
    let is_csv = given.format == CopyFormat::Csv;
    let delimiter =
        one_byte(given.delimiter.as_deref().unwrap_or(if is_csv { "," } else { "\t" }), "delimiter")?;
    let null = given.null.clone().unwrap_or_else(|| if is_csv { String::new() } else { "\\N".to_owned() });
    if matches!(delimiter, b'\n' | b'\r') {
        return Err(invalid("COPY delimiter cannot be newline or carriage return"));
    }
    if null.contains(['\n', '\r']) {
        return Err(invalid("COPY null representation cannot use newline or carriage return"));
    }
    if !is_csv && b"\\.abcdefghijklmnopqrstuvwxyz0123456789".contains(&delimiter) {
        return Err(invalid(&format!("COPY delimiter cannot be \"{}\"", char::from(delimiter))));
    }
    check_csv_only(&given, is_csv)?;
    let quote = one_byte(given.quote.as_deref().unwrap_or("\""), "quote")?;
    if is_csv && delimiter == quote {
        return Err(invalid("COPY delimiter and quote must be different"));
    }
    let escape = match &given.escape {
        Some(escape) => one_byte(escape, "escape")?,
        None => quote,
    };
    check_direction(&given, is_csv, is_from)?;
    if given.format != CopyFormat::Binary && null.as_bytes().contains(&delimiter) {
        return Err(unsupported("COPY delimiter must not appear in the NULL specification"));
    }
    if is_csv && null.as_bytes().contains(&quote) {
        return Err(unsupported("CSV quote character must not appear in the NULL specification"));
    }
    Ok(CopyOptions {
        format: given.format,
        is_freeze: given.is_freeze,
        delimiter,
        null,
        header: given.header.unwrap_or_default(),
        quote,
        escape,
        force_quote: given.force_quote,
        force_not_null: given.force_not_null.unwrap_or_default(),
        force_null: given.force_null.unwrap_or_default(),
        encoding: given.encoding,
    })
}

fn take(given: &mut Given, option: &WrittenOption, is_from: bool) -> SqlResult<()> {
    match option.name.as_str() {
        "format" => {
            let format = option.text()?;
            given.format = match format.as_str() {
                "text" => CopyFormat::Text,
                "csv" => CopyFormat::Csv,
                "binary" => CopyFormat::Binary,
                _ => {
                    return Err(
                        invalid(&format!("COPY format \"{format}\" not recognized")).at(option.position)
                    );
                }
            };
        }
        "freeze" => given.is_freeze = option.boolean()?,
        "delimiter" => given.delimiter = Some(option.text()?),
        "null" => given.null = Some(option.text()?),
        "header" => given.header = Some(header(option, is_from)?),
        "quote" => given.quote = Some(option.text()?),
        "escape" => given.escape = Some(option.text()?),
        "force_quote" => {
            given.force_quote = match &option.value {
                OptionValue::Star => CopyColumns::All,
                _ => CopyColumns::Listed(columns(option)?),
            }
        }
        "force_not_null" => given.force_not_null = Some(columns(option)?),
        "force_null" => given.force_null = Some(columns(option)?),
        "encoding" => given.encoding = Some(option.text()?),
        name => return Err(syntax(&format!("option \"{name}\" not recognized")).at(option.position)),
    }
    Ok(())
}

fn header(option: &WrittenOption, is_from: bool) -> SqlResult<CopyHeader> {
    if let OptionValue::Text(text) = &option.value
        && text.eq_ignore_ascii_case("match")
    {
        return if is_from {
            Ok(CopyHeader::Match)
        } else {
            Err(unsupported("cannot use \"match\" with HEADER in COPY TO"))
        };
    }
    match option.boolean() {
        Ok(true) => Ok(CopyHeader::Line),
        Ok(false) => Ok(CopyHeader::None),
        Err(_) => Err(syntax(&format!("{} requires a Boolean value or \"match\"", option.name))),
    }
}

fn columns(option: &WrittenOption) -> SqlResult<Vec<String>> {
    match &option.value {
        OptionValue::List(names) => Ok(names.clone()),
        _ => {
            let message = format!("argument to option \"{}\" must be a list of column names", option.name);
            Err(invalid(&message).at(option.position))
        }
    }
}

fn check_binary(given: &Given) -> SqlResult<()> {
    if given.format != CopyFormat::Binary {
        return Ok(());
    }
    if given.delimiter.is_some() {
        return Err(syntax("cannot specify DELIMITER in BINARY mode"));
    }
    if given.null.is_some() {
        return Err(syntax("cannot specify NULL in BINARY mode"));
    }
    if matches!(given.header, Some(CopyHeader::Line | CopyHeader::Match)) {
        return Err(unsupported("cannot specify HEADER in BINARY mode"));
    }
    Ok(())
}

fn check_csv_only(given: &Given, is_csv: bool) -> SqlResult<()> {
    let refused = |what: &str| Err(unsupported(&format!("COPY {what} available only in CSV mode")));
    if is_csv {
        Ok(())
    } else if given.quote.is_some() {
        refused("quote")
    } else if given.escape.is_some() {
        refused("escape")
    } else {
        Ok(())
    }
}

fn check_direction(given: &Given, is_csv: bool, is_from: bool) -> SqlResult<()> {
    let lists = [
        ("force quote", given.force_quote != CopyColumns::None, false),
        ("force not null", given.force_not_null.is_some(), true),
        ("force null", given.force_null.is_some(), true),
    ];
    for (what, is_given, is_for_from) in lists {
        if is_given && !is_csv {
            return Err(unsupported(&format!("COPY {what} available only in CSV mode")));
        }
        if is_given && is_for_from != is_from {
            let direction = if is_for_from { "FROM" } else { "TO" };
            return Err(unsupported(&format!("COPY {what} only available using COPY {direction}")));
        }
    }
    Ok(())
}

fn one_byte(text: &str, what: &str) -> SqlResult<u8> {
    match text.as_bytes() {
        [byte] => Ok(*byte),
        _ => Err(unsupported(&format!("COPY {what} must be a single one-byte character"))),
    }
}

fn syntax(message: &str) -> Box<SqlError> {
    SqlError::new(SqlState::SYNTAX_ERROR, message)
}

fn invalid(message: &str) -> Box<SqlError> {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

fn unsupported(message: &str) -> Box<SqlError> {
    SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
}
