//! `CREATE SEQUENCE`, and options of sequences.

use seawall_values::{SqlError, SqlResult, SqlState};

use super::super::reader::Reader;
use super::super::statement::ObjectName;
use super::super::statement::definition::{CreateSequence, Definition, SequenceClauses};
use super::super::token::TokenKind;

/// After `CREATE SEQUENCE`.
pub(super) fn create(reader: &mut Reader<'_>, is_temporary: bool) -> SqlResult<Definition> {
    let if_not_exists = reader.if_not_exists();
    let name = reader.object_name()?;
    let options = clauses(reader)?;
    Ok(Definition::CreateSequence(CreateSequence { name, is_temporary, if_not_exists, options }))
}

/// Options up to what is none.
pub(super) fn clauses(reader: &mut Reader<'_>) -> SqlResult<SequenceClauses> {
    let mut clauses = SequenceClauses::default();
    while clause(reader, &mut clauses)? {}
    Ok(clauses)
}

/// One option; `false`: there is none.
pub(super) fn clause(reader: &mut Reader<'_>, clauses: &mut SequenceClauses) -> SqlResult<bool> {
    let position = reader.position();
    let is_repeated = if reader.take_word("as") {
        clauses.of.replace(reader.data_type()?).is_some()
    } else if reader.take_word("start") {
        reader.take_word("with");
        clauses.start.replace(number(reader)?).is_some()
    } else if reader.take_word("increment") {
        reader.take_word("by");
        clauses.increment.replace(number(reader)?).is_some()
    } else if reader.take(&["no", "minvalue"]) {
        clauses.minimum.replace(None).is_some()
    } else if reader.take_word("minvalue") {
        clauses.minimum.replace(Some(number(reader)?)).is_some()
    } else if reader.take(&["no", "maxvalue"]) {
        clauses.maximum.replace(None).is_some()
    } else if reader.take_word("maxvalue") {
        clauses.maximum.replace(Some(number(reader)?)).is_some()
    } else if reader.take_word("cache") {
        clauses.cache.replace(number(reader)?).is_some()
    } else if reader.take(&["no", "cycle"]) {
        clauses.is_cycling.replace(false).is_some()
    } else if reader.take_word("cycle") {
        clauses.is_cycling.replace(true).is_some()
    } else if reader.take_word("restart") {
        let has_with = reader.take_word("with");
        let has_number =
            has_with || matches!(reader.peek(0), Some(TokenKind::Number(_) | TokenKind::Operator(_)));
        let value = if has_number { Some(number(reader)?) } else { None };
        clauses.restart.replace(value).is_some()
    } else if reader.take(&["owned", "by"]) {
        clauses.owned_by.replace(owner(reader)?).is_some()
    } else if reader.take(&["sequence", "name"]) {
        clauses.name.replace(reader.object_name()?).is_some()
    } else {
        return Ok(false);
    };
    if is_repeated {
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, "conflicting or redundant options").at(position));
    }
    Ok(true)
}

/// A whole number of 64 bits.
fn number(reader: &mut Reader<'_>) -> SqlResult<i64> {
    let start = reader.place();
    let Some(number) = reader.take_number() else { return Err(reader.error()) };
    number.parse().map_err(|_| {
        if number.contains(['.', 'e', 'E']) {
            let message = format!("invalid input syntax for type bigint: \"{number}\"");
            return SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, message);
        }
        reader.go_back(start);
        let message = format!("value \"{number}\" is out of range for type bigint");
        SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message)
    })
}

/// `table.column`, `NONE`.
fn owner(reader: &mut Reader<'_>) -> SqlResult<Option<(ObjectName, String)>> {
    if reader.is_word("none") && !reader.peek(1).is_some_and(|kind| kind.is_character('.')) {
        reader.skip(1);
        return Ok(None);
    }
    column_name(reader, "invalid OWNED BY option").map(Some)
}

/// `table.column`, with what may stand before the table.
pub(super) fn column_name(reader: &mut Reader<'_>, message: &str) -> SqlResult<(ObjectName, String)> {
    let position = reader.position();
    let mut parts = vec![reader.name()?];
    while reader.take_character('.') {
        parts.push(reader.label()?);
    }
    let column = parts.pop().unwrap_or_default();
    let Some(name) = parts.pop() else {
        let error = SqlError::new(SqlState::SYNTAX_ERROR, message);
        return Err(if message.starts_with("invalid OWNED BY") {
            error.with_hint("Specify OWNED BY table.column or OWNED BY NONE.")
        } else {
            error
        });
    };
    Ok((ObjectName { schema: parts.pop(), database: parts.pop(), name, position }, column))
}
