//! `CREATE INDEX`.

use seawall_values::{SqlError, SqlResult, SqlState};

use super::super::options::storage_options;
use super::super::reader::Reader;
use super::super::statement::definition::{CreateIndex, Definition, IndexKeyDefinition};
use super::super::token::TokenKind;
use super::constraint::nulls_not_distinct;
use super::table::tablespace;

/// After `CREATE`.
pub(super) fn create(reader: &mut Reader<'_>) -> SqlResult<Definition> {
    let is_unique = reader.take_word("unique");
    reader.expect_word("index")?;
    let is_concurrent = reader.take_word("concurrently");
    let if_not_exists = reader.if_not_exists();
    let name = if reader.is_word("on") && !if_not_exists { None } else { Some(reader.name()?) };
    reader.expect_word("on")?;
    let table = reader.relation_name()?;
    if reader.take_word("using") {
        method(reader)?;
    }
    reader.expect_character('(')?;
    let keys = reader.list(key)?;
    reader.expect_character(')')?;
    let included = if reader.take_word("include") { reader.names_in_parentheses()? } else { Vec::new() };
    let is_nulls_not_distinct = nulls_not_distinct(reader)?;
    if reader.take_word("with") {
        storage_options(reader)?;
    }
    if reader.take_word("tablespace") {
        tablespace(reader)?;
    }
    let predicate = if reader.take_word("where") { Some(reader.written_expression()?) } else { None };
    Ok(Definition::CreateIndex(CreateIndex {
        name,
        table,
        is_unique,
        is_concurrent,
        if_not_exists,
        keys,
        included,
        is_nulls_not_distinct,
        predicate,
    }))
}

/// Only the ordered one is there.
fn method(reader: &mut Reader<'_>) -> SqlResult<()> {
    let name = reader.name()?;
    match name.as_str() {
        "btree" => Ok(()),
        "hash" | "gist" | "spgist" | "gin" | "brin" => {
            Err(SqlError::unsupported(format!("access method \"{name}\"")).with_hint("Use a B-tree index."))
        }
        _ => {
            Err(SqlError::new(SqlState::UNDEFINED_OBJECT, format!("access method \"{name}\" does not exist")))
        }
    }
}

fn key(reader: &mut Reader<'_>) -> SqlResult<IndexKeyDefinition> {
    let value =
        if reader.is_character('(') { reader.expression_in_parentheses()? } else { column_or_call(reader)? };
    let collation = if reader.take_word("collate") { Some(reader.object_name()?) } else { None };
    let has_class = matches!(reader.peek(0), Some(TokenKind::Word(_) | TokenKind::Quoted(_)))
        && !["asc", "desc", "nulls"].iter().any(|word| reader.is_word(word));
    let operator_class = if has_class { Some(reader.object_name()?) } else { None };
    if operator_class.is_some() && reader.is_character('(') {
        return Err(SqlError::unsupported("options of operator classes"));
    }
    let is_descending = reader.take_one_of(&["asc", "desc"]) == Some("desc");
    let is_nulls_first = if reader.take_word("nulls") {
        let word = reader.take_one_of(&["first", "last"]).ok_or_else(|| reader.error())?;
        Some(word == "first")
    } else {
        None
    };
    Ok(IndexKeyDefinition { value, collation, operator_class, is_descending, is_nulls_first })
}

/// A name, or a call of a function: what follows it, such as an operator class, is no part of it.
fn column_or_call(
    reader: &mut Reader<'_>,
) -> SqlResult<super::super::statement::definition::WrittenExpression> {
    let mut ahead = 1;
    while reader.peek(ahead).is_some_and(|kind| kind.is_character('.')) {
        ahead += 2;
    }
    if reader.peek(ahead).is_some_and(|kind| kind.is_character('(')) {
        let mut depth = 0_usize;
        while let Some(kind) = reader.peek(ahead) {
            ahead += 1;
            if kind.is_character('(') {
                depth += 1;
            } else if kind.is_character(')') {
                depth -= 1;
                if depth == 0 {
                    break;
                }
            }
        }
    }
    reader.expression_of(ahead)
}
