//! `EXPLAIN`.

use seawall_values::{SqlError, SqlResult, SqlState};

use super::super::options::{WrittenOption, options};
use super::super::reader::Reader;
use super::super::statement::definition::Definition;
use super::super::statement::{Explain, ExplainFormat, ExplainOptions, Statement, Utility};

pub(super) fn explain(reader: &mut Reader<'_>) -> SqlResult<Explain> {
    reader.expect_word("explain")?;
    let mut shown = ExplainOptions {
        is_analyze: false,
        is_verbose: false,
        has_costs: true,
        has_settings: false,
        has_buffers: false,
        has_wal: false,
        has_timing: None,
        has_summary: None,
        format: ExplainFormat::Text,
    };
    if reader.is_character('(') && !begins_query(reader) {
        for option in options(reader)? {
            apply(&mut shown, &option)?;
        }
        check(&shown)?;
    } else {
        shown.is_analyze = reader.take_one_of(&["analyze", "analyse"]).is_some();
        shown.is_verbose = reader.take_word("verbose");
    }
    Ok(Explain { options: shown, statement: explained(reader)? })
}

/// Whether the parenthesis is one of the query.
fn begins_query(reader: &Reader<'_>) -> bool {
    let words = ["select", "with", "values", "table"];
    reader.peek(1).is_some_and(|kind| kind.is_character('('))
        || words.iter().any(|word| reader.is_word_at(1, word))
}

fn explained(reader: &mut Reader<'_>) -> SqlResult<Statement> {
    const WORDS: [&str; 11] = [
        "select", "with", "values", "table", "insert", "update", "delete", "merge", "execute", "declare",
        "create",
    ];
    if !reader.is_character('(') && !WORDS.iter().any(|word| reader.is_word(word)) {
        return Err(reader.error());
    }
    let start = reader.place();
    let statement = super::statement(reader)?;
    let is_explained = match &statement {
        Statement::Dml(_) => true,
        Statement::Utility(utility) => match &**utility {
            Utility::Execute(_) | Utility::Declare(_) => true,
            Utility::Define(definition) => matches!(**definition, Definition::CreateTableAs(_)),
            _ => false,
        },
    };
    if is_explained {
        return Ok(statement);
    }
    reader.go_back(start);
    Err(reader.error())
}

fn apply(shown: &mut ExplainOptions, option: &WrittenOption) -> SqlResult<()> {
    match option.name.as_str() {
        "analyze" => shown.is_analyze = option.boolean()?,
        "verbose" => shown.is_verbose = option.boolean()?,
        "costs" => shown.has_costs = option.boolean()?,
        "settings" => shown.has_settings = option.boolean()?,
        "buffers" => shown.has_buffers = option.boolean()?,
        "wal" => shown.has_wal = option.boolean()?,
        "timing" => shown.has_timing = Some(option.boolean()?),
        "summary" => shown.has_summary = Some(option.boolean()?),
        "format" => {
            let format = option.text()?;
            shown.format = match format.as_str() {
                "text" => ExplainFormat::Text,
                "json" => ExplainFormat::Json,
                "xml" => ExplainFormat::Xml,
                "yaml" => ExplainFormat::Yaml,
                _ => {
                    let message = format!("unrecognized value for EXPLAIN option \"format\": \"{format}\"");
                    return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message).at(option.position));
                }
            };
        }
        name => {
            let message = format!("unrecognized EXPLAIN option \"{name}\"");
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message).at(option.position));
        }
    }
    Ok(())
}

fn check(shown: &ExplainOptions) -> SqlResult<()> {
    let refused = |option: &str| {
        let message = format!("EXPLAIN option {option} requires ANALYZE");
        Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message))
    };
    if shown.is_analyze {
        Ok(())
    } else if shown.has_wal {
        refused("WAL")
    } else if shown.has_timing == Some(true) {
        refused("TIMING")
    } else {
        Ok(())
    }
}
