//! Which statement it is, by its first words.

mod copy;
mod cursor;
mod explain;
mod maintenance;
mod prepared;
mod setting;
mod transaction;

use std::sync::Arc;

use seawall_values::{SqlError, SqlResult};
use sqlparser::ast::{Expr, Query, Select, SetExpr};
use sqlparser::parser::Parser;

use super::definition;
use super::reader::Reader;
use super::statement::definition::{CreateTableAs, Definition, OnCommit, TableSource};
use super::statement::{Discard, Dml, ObjectName, Statement, Utility};
use super::token::TokenKind;

pub(super) use prepared::execute;
pub(super) use setting::{assignment as setting_assignment, named as setting_named};

/// Reads a statement up to where it ends; what follows it is its caller's.
pub(super) fn statement(reader: &mut Reader<'_>) -> SqlResult<Statement> {
    let word = match reader.peek(0) {
        Some(TokenKind::Word(word)) => word.clone(),
        Some(TokenKind::Character('(')) => return query_statement(reader),
        _ => return Err(reader.error()),
    };
    let utility = match word.as_str() {
        "select" | "with" | "values" | "table" => return query_statement(reader),
        "insert" | "update" | "delete" | "merge" => return dml(reader).map(Statement::Dml),
        "begin" | "start" | "commit" | "end" | "abort" | "rollback" | "savepoint" | "release" => {
            Utility::Transaction(transaction::transaction(reader)?)
        }
        "prepare" if reader.is_word_at(1, "transaction") => {
            Utility::Transaction(transaction::transaction(reader)?)
        }
        "set" => setting::set(reader)?,
        "reset" => setting::reset(reader)?,
        "show" => setting::show(reader)?,
        "prepare" => prepared::prepare(reader)?,
        "execute" => Utility::Execute(execute(reader)?),
        "deallocate" => prepared::deallocate(reader)?,
        "declare" => Utility::Declare(cursor::declare(reader)?),
        "fetch" | "move" => Utility::Fetch(cursor::fetch(reader)?),
        "close" => cursor::close(reader)?,
        "copy" => Utility::Copy(Box::new(copy::copy(reader)?)),
        "explain" => Utility::Explain(Box::new(explain::explain(reader)?)),
        "listen" | "unlisten" | "notify" => channel(reader, &word)?,
        "discard" => discard(reader)?,
        "lock" => maintenance::lock(reader)?,
        "truncate" => maintenance::truncate(reader)?,
        "vacuum" | "analyze" | "analyse" | "checkpoint" | "cluster" | "reindex" => {
            Utility::Maintenance(maintenance::maintenance(reader)?)
        }
        "create" | "alter" | "drop" | "comment" | "grant" | "revoke" | "reassign" | "refresh" => {
            Utility::Define(Box::new(definition::definition(reader)?))
        }
        _ => return Err(unknown(reader, &word)),
    };
    Ok(Statement::Utility(Arc::new(utility)))
}

/// Statements that PostgreSQL has and Seawall has not are named; all others are errors of syntax.
fn unknown(reader: &Reader<'_>, word: &str) -> Box<SqlError> {
    match word {
        "do" | "call" | "load" => SqlError::unsupported(word.to_uppercase()),
        "security" if reader.is_word_at(1, "label") => SqlError::unsupported("SECURITY LABEL"),
        "refresh" if reader.is_word_at(1, "materialized") => {
            SqlError::unsupported("REFRESH MATERIALIZED VIEW")
        }
        "import" if reader.is_word_at(1, "foreign") => SqlError::unsupported("IMPORT FOREIGN SCHEMA"),
        "reassign" if reader.is_word_at(1, "owned") => SqlError::unsupported("REASSIGN OWNED"),
        _ => reader.error(),
    }
}

/// A query, or a change.
pub(super) fn dml(reader: &mut Reader<'_>) -> SqlResult<Dml> {
    for (verb, after) in [("insert", "into"), ("delete", "from"), ("merge", "into")] {
        if reader.is_word(verb) && !reader.is_word_at(1, after) {
            reader.skip(1);
            return Err(reader.error());
        }
    }
    if ["insert", "update", "delete", "merge"].iter().any(|word| reader.is_word(word)) {
        return Ok(Dml::Change(Box::new(reader.parse(Parser::parse_statement)?)));
    }
    query(reader).map(Dml::Query)
}

/// A query, without `INTO`.
pub(super) fn query_dml(reader: &mut Reader<'_>) -> SqlResult<Dml> {
    query(reader).map(Dml::Query)
}

fn query(reader: &mut Reader<'_>) -> SqlResult<Box<Query>> {
    if !reader.is_character('(')
        && !["select", "with", "values", "table"].iter().any(|word| reader.is_word(word))
    {
        return Err(reader.error());
    }
    reader.parse(Parser::parse_query)
}

/// A query; `SELECT .. INTO` makes a table.
fn query_statement(reader: &mut Reader<'_>) -> SqlResult<Statement> {
    let mut query = query(reader)?;
    let Some(into) = first_select(&mut query.body).and_then(|select| select.into.take()) else {
        return Ok(Statement::Dml(Dml::Query(query)));
    };
    let name =
        into.targets.first().and_then(|target| table_name(target, reader)).ok_or_else(|| reader.error())?;
    let create = CreateTableAs {
        name,
        is_temporary: into.temporary,
        if_not_exists: false,
        columns: Vec::new(),
        options: Vec::new(),
        on_commit: OnCommit::default(),
        source: TableSource::Query(Dml::Query(query)),
        with_data: true,
    };
    Ok(Statement::Utility(Arc::new(Utility::Define(Box::new(Definition::CreateTableAs(create))))))
}

/// A name that sqlparser has read as an expression.
fn table_name(target: &Expr, reader: &Reader<'_>) -> Option<ObjectName> {
    let parts = match target {
        Expr::Identifier(ident) => std::slice::from_ref(ident),
        Expr::CompoundIdentifier(parts) => parts.as_slice(),
        _ => return None,
    };
    let position = parts.first().and_then(|ident| reader.text().position(ident.span.start));
    let mut parts = parts.iter().map(|ident| ident.value.clone()).rev();
    Some(ObjectName { name: parts.next()?, schema: parts.next(), database: parts.next(), position })
}

/// The leftmost `SELECT` of set operations.
fn first_select(body: &mut SetExpr) -> Option<&mut Select> {
    match body {
        SetExpr::Select(select) => Some(select),
        SetExpr::SetOperation { left, .. } => first_select(left),
        _ => None,
    }
}

/// `LISTEN`, `UNLISTEN`, `NOTIFY`.
fn channel(reader: &mut Reader<'_>, word: &str) -> SqlResult<Utility> {
    reader.skip(1);
    if word == "unlisten" && reader.take_operator("*") {
        return Ok(Utility::Unlisten(None));
    }
    let channel = reader.name()?;
    Ok(match word {
        "listen" => Utility::Listen(channel),
        "unlisten" => Utility::Unlisten(Some(channel)),
        _ => {
            let payload = if reader.take_character(',') { reader.string()? } else { String::new() };
            Utility::Notify { channel, payload }
        }
    })
}

fn discard(reader: &mut Reader<'_>) -> SqlResult<Utility> {
    reader.skip(1);
    let what = reader
        .take_one_of(&["all", "plans", "sequences", "temp", "temporary"])
        .ok_or_else(|| reader.error())?;
    Ok(Utility::Discard(match what {
        "all" => Discard::All,
        "plans" => Discard::Plans,
        "sequences" => Discard::Sequences,
        _ => Discard::Temporary,
    }))
}
