//! Statements that define objects: `REFRESH`, `CREATE`, `ALTER`, `DROP`, `COMMENT`, `GRANT`, `REVOKE`, `REASSIGN OWNED`.

mod alter;
mod column;
mod comment;
mod constraint;
mod domain;
mod drop;
mod drop_absent;
mod function;
mod grant;
mod index;
mod materialized_view;
mod role;
mod schema;
mod sequence;
mod table;
mod user_type;
mod view;

use seawall_values::{SqlError, SqlResult, SqlState};

use super::reader::Reader;
use super::statement::definition::{Definition, RoleName};
use crate::schema::define::requests::Behavior;

pub(super) fn definition(reader: &mut Reader<'_>) -> SqlResult<Definition> {
    let words = ["create", "alter", "drop", "comment", "grant", "revoke", "reassign", "refresh"];
    let word = reader.take_one_of(&words);
    match word.ok_or_else(|| reader.error())? {
        "create" => create(reader),
        "alter" => alter::alter(reader),
        "drop" => drop::drop(reader),
        "comment" => comment::comment(reader),
        "grant" => grant::grant(reader),
        "revoke" => grant::revoke(reader),
        "refresh" => materialized_view::refresh(reader),
        _ => reassign(reader),
    }
}

/// After `REASSIGN`.
fn reassign(reader: &mut Reader<'_>) -> SqlResult<Definition> {
    reader.expect(&["owned", "by"])?;
    let owners = reader.list(role_name)?;
    reader.expect_word("to")?;
    Ok(Definition::ReassignOwned { owners, to: role_name(reader)? })
}

/// After `CREATE`.
fn create(reader: &mut Reader<'_>) -> SqlResult<Definition> {
    let or_replace = reader.take(&["or", "replace"]);
    if or_replace && !is_replaceable(reader) {
        return Err(unsupported(reader, "CREATE"));
    }
    if reader.take_word("function") {
        return function::create(reader, or_replace);
    }
    let is_temporary = temporary(reader)?;
    if !is_temporary {
        reader.take_word("unlogged");
    }
    if reader.take_word("table") {
        return table::create(reader, is_temporary);
    }
    if reader.take_word("view") {
        return view::create(reader, or_replace, is_temporary);
    }
    if reader.take(&["materialized", "view"]) {
        return materialized_view::create(reader);
    }
    if reader.take_word("sequence") {
        return sequence::create(reader, is_temporary);
    }
    if reader.take_word("recursive") {
        return Err(SqlError::unsupported("CREATE RECURSIVE VIEW"));
    }
    if reader.is_words(&["unique", "index"]) || reader.is_word("index") {
        return index::create(reader);
    }
    if reader.take_word("schema") {
        return schema::create(reader);
    }
    if reader.take_word("type") {
        return user_type::create(reader);
    }
    if reader.take_word("domain") {
        return domain::create(reader);
    }
    match reader.take_one_of(&["role", "user", "group"]) {
        Some("user") if reader.is_word("mapping") => Err(SqlError::unsupported("CREATE USER MAPPING")),
        Some(word) => role::create(reader, word == "user"),
        None => Err(unsupported(reader, "CREATE")),
    }
}

fn is_replaceable(reader: &Reader<'_>) -> bool {
    ["view", "function", "temp", "temporary", "local", "recursive"].iter().any(|word| reader.is_word(word))
}

/// `TEMPORARY` in any of its forms.
fn temporary(reader: &mut Reader<'_>) -> SqlResult<bool> {
    let is_scoped = reader.take_one_of(&["local", "global"]).is_some();
    let is_temporary = reader.take_one_of(&["temp", "temporary"]).is_some();
    if is_scoped && !is_temporary {
        return Err(reader.error());
    }
    Ok(is_temporary)
}

/// Objects that PostgreSQL has and Seawall has not are named; what is none is an error of syntax.
fn unsupported(reader: &Reader<'_>, verb: &str) -> Box<SqlError> {
    const OBJECTS: [&[&str]; 40] = [
        &["access", "method"],
        &["aggregate"],
        &["cast"],
        &["collation"],
        &["constraint", "trigger"],
        &["conversion"],
        &["database"],
        &["default", "privileges"],
        &["default", "conversion"],
        &["domain"],
        &["event", "trigger"],
        &["extension"],
        &["foreign", "data", "wrapper"],
        &["foreign", "table"],
        &["language"],
        &["large", "object"],
        &["operator", "class"],
        &["operator", "family"],
        &["operator"],
        &["owned"],
        &["policy"],
        &["procedure"],
        &["procedural", "language"],
        &["publication"],
        &["routine"],
        &["rule"],
        &["server"],
        &["statistics"],
        &["subscription"],
        &["system"],
        &["tablespace"],
        &["text", "search", "configuration"],
        &["text", "search", "dictionary"],
        &["text", "search", "parser"],
        &["text", "search", "template"],
        &["transform"],
        &["trigger"],
        &["trusted", "language"],
        &["type"],
        &["user", "mapping"],
    ];
    match OBJECTS.iter().find(|words| reader.is_words(words)) {
        Some(words) => SqlError::unsupported(format!("{verb} {}", words.join(" ").to_uppercase())),
        None => reader.error(),
    }
}

/// `CASCADE`, `RESTRICT`, or nothing.
fn behavior(reader: &mut Reader<'_>) -> Behavior {
    match reader.take_one_of(&["cascade", "restrict"]) {
        Some("cascade") => Behavior::Cascade,
        _ => Behavior::Restrict,
    }
}

/// A role, or one of the words that stand for one.
fn role_name(reader: &mut Reader<'_>) -> SqlResult<RoleName> {
    match reader.take_one_of(&["current_user", "current_role", "session_user"]) {
        Some("session_user") => return Ok(RoleName::SessionUser),
        Some(_) => return Ok(RoleName::CurrentUser),
        None => {}
    }
    new_role_name(reader).map(RoleName::Named)
}

/// The name of a role that is made: not one of those that stand for others.
fn new_role_name(reader: &mut Reader<'_>) -> SqlResult<String> {
    let position = reader.position();
    for word in ["current_user", "current_role", "session_user"] {
        if reader.is_word(word) {
            let message = format!("{} cannot be used as a role name here", word.to_uppercase());
            return Err(SqlError::new(SqlState::RESERVED_NAME, message).at(position));
        }
    }
    let is_quoted = matches!(reader.peek(0), Some(super::token::TokenKind::Quoted(_)));
    let name = reader.unreserved_word()?;
    // `"public"` in quotes is reserved as well; `none` only without.
    if name == "public" || (name == "none" && !is_quoted) {
        let message = format!("role name \"{name}\" is reserved");
        return Err(SqlError::new(SqlState::RESERVED_NAME, message).at(position));
    }
    Ok(name)
}
