//! `CREATE TABLE`.

use seawall_values::{SqlError, SqlResult, SqlState};

use super::super::options::storage_options;
use super::super::reader::Reader;
use super::super::statement::ObjectName;
use super::super::statement::definition::{
    CreateTable, CreateTableAs, Definition, LikeClause, OnCommit, TableElement, TableSource,
};
use super::super::token::TokenKind;
use super::super::utility;
use super::{column, constraint};

/// After `CREATE TABLE`.
pub(super) fn create(reader: &mut Reader<'_>, is_temporary: bool) -> SqlResult<Definition> {
    let if_not_exists = reader.if_not_exists();
    let name = reader.object_name()?;
    if reader.is_words(&["partition", "of"]) {
        return Err(SqlError::unsupported("CREATE TABLE PARTITION OF"));
    }
    if reader.take_word("of") {
        return Err(SqlError::unsupported("CREATE TABLE OF"));
    }
    if !reader.is_character('(') || names_only(reader) {
        return create_as(reader, name, is_temporary, if_not_exists);
    }
    let elements = elements(reader)?;
    let (options, on_commit) = clauses(reader)?;
    Ok(Definition::CreateTable(CreateTable {
        name,
        is_temporary,
        if_not_exists,
        elements,
        options,
        on_commit,
    }))
}

/// Whether the parenthesis has names and nothing else, as before `AS`.
fn names_only(reader: &Reader<'_>) -> bool {
    let mut ahead = 1;
    loop {
        match (reader.peek(ahead), reader.peek(ahead + 1)) {
            (Some(TokenKind::Word(_) | TokenKind::Quoted(_)), Some(TokenKind::Character(','))) => ahead += 2,
            (Some(TokenKind::Word(_) | TokenKind::Quoted(_)), Some(TokenKind::Character(')'))) => {
                return true;
            }
            _ => return false,
        }
    }
}

fn elements(reader: &mut Reader<'_>) -> SqlResult<Vec<TableElement>> {
    reader.expect_character('(')?;
    if reader.take_character(')') {
        return Ok(Vec::new());
    }
    let elements = reader.list(element)?;
    reader.expect_character(')')?;
    Ok(elements)
}

fn element(reader: &mut Reader<'_>) -> SqlResult<TableElement> {
    if reader.take_word("like") {
        return like(reader).map(TableElement::Like);
    }
    if constraint::begins(reader) {
        return constraint::of_table(reader).map(TableElement::Constraint);
    }
    column::definition(reader).map(TableElement::Column)
}

fn like(reader: &mut Reader<'_>) -> SqlResult<LikeClause> {
    const WHAT: [&str; 9] = [
        "all",
        "comments",
        "compression",
        "constraints",
        "defaults",
        "generated",
        "identity",
        "indexes",
        "statistics",
    ];
    let table = reader.object_name()?;
    let mut clause = LikeClause {
        table,
        with_comments: false,
        with_constraints: false,
        with_defaults: false,
        with_generated: false,
        with_identity: false,
        with_indexes: false,
    };
    while let Some(word) = reader.take_one_of(&["including", "excluding"]) {
        let is_included = word == "including";
        let what = if reader.take_word("storage") { Some("storage") } else { reader.take_one_of(&WHAT) };
        let what = what.ok_or_else(|| reader.error())?;
        let is_meant = |name: &str| what == name || what == "all";
        let set = |flag: &mut bool, name: &str| {
            if is_meant(name) {
                *flag = is_included;
            }
        };
        set(&mut clause.with_comments, "comments");
        set(&mut clause.with_constraints, "constraints");
        set(&mut clause.with_defaults, "defaults");
        set(&mut clause.with_generated, "generated");
        set(&mut clause.with_identity, "identity");
        set(&mut clause.with_indexes, "indexes");
    }
    Ok(clause)
}

/// What may follow the columns.
fn clauses(reader: &mut Reader<'_>) -> SqlResult<(Vec<String>, OnCommit)> {
    if reader.take_word("inherits") {
        // `INHERITS ()` inherits nothing.
        reader.expect_character('(')?;
        if !reader.take_character(')') {
            return Err(SqlError::unsupported("INHERITS"));
        }
    }
    if reader.take(&["partition", "by"]) {
        return Err(SqlError::unsupported("PARTITION BY"));
    }
    if reader.take_word("using") {
        access_method(reader)?;
    }
    let mut options = Vec::new();
    if reader.take_word("with") {
        options = storage_options(reader)?;
    } else if reader.take_word("without") {
        reader.expect_word("oids")?;
    }
    let on_commit = on_commit(reader)?;
    if reader.take_word("tablespace") {
        tablespace(reader)?;
    }
    Ok((options, on_commit))
}

pub(super) fn access_method(reader: &mut Reader<'_>) -> SqlResult<()> {
    let name = reader.name()?;
    if name == "heap" {
        return Ok(());
    }
    Err(SqlError::new(SqlState::UNDEFINED_OBJECT, format!("access method \"{name}\" does not exist")))
}

pub(super) fn tablespace(reader: &mut Reader<'_>) -> SqlResult<()> {
    let name = reader.name()?;
    if name == "pg_default" {
        return Ok(());
    }
    Err(SqlError::new(SqlState::UNDEFINED_OBJECT, format!("tablespace \"{name}\" does not exist")))
}

fn on_commit(reader: &mut Reader<'_>) -> SqlResult<OnCommit> {
    if !reader.take(&["on", "commit"]) {
        return Ok(OnCommit::default());
    }
    if reader.take_word("drop") {
        return Ok(OnCommit::Drop);
    }
    let is_kept = reader.take_word("preserve");
    if !is_kept {
        reader.expect_word("delete")?;
    }
    reader.expect_word("rows")?;
    Ok(if is_kept { OnCommit::Preserve } else { OnCommit::Delete })
}

/// `CREATE TABLE name (columns) .. AS query`, after the name.
fn create_as(
    reader: &mut Reader<'_>,
    name: ObjectName,
    is_temporary: bool,
    if_not_exists: bool,
) -> SqlResult<Definition> {
    let columns = reader.optional_names()?;
    let (options, on_commit) = clauses(reader)?;
    reader.expect_word("as")?;
    let source = if reader.is_word("execute") {
        TableSource::Execute(utility::execute(reader)?)
    } else {
        TableSource::Query(utility::query_dml(reader)?)
    };
    let with_data = !reader.take(&["with", "no", "data"]);
    if with_data {
        reader.take(&["with", "data"]);
    }
    Ok(Definition::CreateTableAs(CreateTableAs {
        name,
        is_temporary,
        if_not_exists,
        columns,
        options,
        on_commit,
        source,
        with_data,
    }))
}
