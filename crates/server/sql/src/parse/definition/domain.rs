//! `CREATE DOMAIN`, `ALTER DOMAIN`.

use seawall_values::{SqlError, SqlResult, SqlState};

use super::super::reader::Reader;
use super::super::statement::definition::{
    AlterType, ConstraintClause, CreateDomain, Definition, TypeAction,
};
use super::{behavior, constraint, user_type};

/// After `CREATE DOMAIN`.
pub(super) fn create(reader: &mut Reader<'_>) -> SqlResult<Definition> {
    let name = reader.object_name()?;
    reader.take_word("as");
    let of = reader.data_type()?;
    let mut domain =
        CreateDomain { name, of, collation: None, default: None, is_not_null: None, checks: Vec::new() };
    while clause(reader, &mut domain)? {}
    Ok(Definition::CreateDomain(domain))
}

/// One clause after the type; `false`: there is none.
fn clause(reader: &mut Reader<'_>, domain: &mut CreateDomain) -> SqlResult<bool> {
    if reader.take_word("collate") {
        domain.collation = Some(reader.object_name()?);
        return Ok(true);
    }
    if reader.take_word("default") {
        if domain.default.is_some() {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "multiple default expressions"));
        }
        domain.default = Some(reader.default_expression()?);
        return Ok(true);
    }
    let name = if reader.take_word("constraint") { Some(reader.name()?) } else { None };
    if reader.is_words(&["not", "null"]) || reader.is_word("null") {
        let is_not_null = reader.take_word("not");
        reader.expect_word("null")?;
        if domain.is_not_null.is_some_and(|before| before != is_not_null) {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "conflicting NULL/NOT NULL constraints"));
        }
        domain.is_not_null = Some(is_not_null);
        return Ok(true);
    }
    if reader.take_word("check") {
        domain.checks.push((name, reader.expression_in_parentheses()?));
        return Ok(true);
    }
    for (word, shown) in [("unique", "unique"), ("primary", "primary key"), ("references", "foreign key")] {
        if reader.is_word(word) {
            let message = format!("{shown} constraints not possible for domains");
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
    }
    if name.is_some() { Err(reader.error()) } else { Ok(false) }
}

/// After `ALTER DOMAIN`.
pub(super) fn alter(reader: &mut Reader<'_>) -> SqlResult<Definition> {
    let name = reader.object_name()?;
    let action = match user_type::alter_any(reader)? {
        Some(action) => action,
        None => action(reader)?,
    };
    Ok(Definition::AlterType(AlterType { name, is_domain: true, action }))
}

fn action(reader: &mut Reader<'_>) -> SqlResult<TypeAction> {
    if reader.take(&["set", "default"]) {
        return Ok(TypeAction::SetDefault(Some(reader.default_expression()?)));
    }
    if reader.take(&["drop", "default"]) {
        return Ok(TypeAction::SetDefault(None));
    }
    if reader.take(&["set", "not", "null"]) {
        return Ok(TypeAction::SetNotNull(true));
    }
    if reader.take(&["drop", "not", "null"]) {
        return Ok(TypeAction::SetNotNull(false));
    }
    if reader.take(&["validate", "constraint"]) {
        return Ok(TypeAction::ValidateConstraint(reader.name()?));
    }
    if reader.take(&["rename", "constraint"]) {
        let name = reader.name()?;
        reader.expect_word("to")?;
        return Ok(TypeAction::RenameConstraint { name, to: reader.name()? });
    }
    if reader.take(&["drop", "constraint"]) {
        let if_exists = reader.if_exists();
        let name = reader.name()?;
        // Nothing depends on a condition.
        behavior(reader);
        return Ok(TypeAction::DropConstraint { name, if_exists });
    }
    reader.expect_word("add")?;
    let added = constraint::of_table(reader)?;
    match added.kind {
        ConstraintClause::Check(condition) => {
            Ok(TypeAction::AddCheck { name: added.name, condition, is_not_valid: added.is_not_valid })
        }
        ConstraintClause::Key { is_primary, .. } => {
            let kind = if is_primary { "primary key" } else { "unique" };
            let message = format!("{kind} constraints not possible for domains");
            Err(SqlError::new(SqlState::SYNTAX_ERROR, message))
        }
        ConstraintClause::ForeignKey { .. } => {
            let message = "foreign key constraints not possible for domains";
            Err(SqlError::new(SqlState::SYNTAX_ERROR, message))
        }
    }
}
