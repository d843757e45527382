//! `CREATE VIEW`.

use seawall_values::{SqlError, SqlResult, SqlState};

use super::super::options::storage_options;
use super::super::reader::Reader;
use super::super::statement::definition::{CreateView, Definition};
use super::super::utility;
use crate::schema::{CheckOption, truth_of};

/// After `CREATE VIEW`.
pub(super) fn create(reader: &mut Reader<'_>, or_replace: bool, is_temporary: bool) -> SqlResult<Definition> {
    let name = reader.object_name()?;
    let columns = reader.optional_names()?;
    let mut options = Vec::new();
    if reader.take_word("with") {
        for option in storage_options(reader)? {
            options.push(known_option(&option)?);
        }
    }
    reader.expect_word("as")?;
    let start = reader.place();
    let query = utility::query_dml(reader)?;
    let text = reader.text_since(start);
    if reader.take_word("with") {
        let kind = reader.take_one_of(&["local", "cascaded"]).unwrap_or("cascaded");
        reader.expect(&["check", "option"])?;
        if options.iter().any(|option| option.starts_with("check_option=")) {
            let message = "parameter \"check_option\" specified more than once";
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
        }
        options.push(format!("check_option={kind}"));
    }
    Ok(Definition::CreateView(CreateView { name, or_replace, is_temporary, columns, query, text, options }))
}

/// An option that views have, as it was written.
fn known_option(written: &str) -> SqlResult<String> {
    let invalid = |message: String| SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message);
    let (name, value) = written.split_once('=').unwrap_or((written, "true"));
    match name {
        "check_option" if CheckOption::named(value).is_some() => Ok(written.to_owned()),
        "check_option" => Err(invalid(format!("invalid value for enum option \"{name}\": {value}"))
            .with_detail("Valid values are \"local\" and \"cascaded\".")),
        "security_barrier" | "security_invoker" if truth_of(value).is_some() => Ok(written.to_owned()),
        "security_barrier" | "security_invoker" => {
            Err(invalid(format!("invalid value for boolean option \"{name}\": {value}")))
        }
        _ => Err(invalid(format!("unrecognized parameter \"{name}\""))),
    }
}
