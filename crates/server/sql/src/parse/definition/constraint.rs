//! Constraints of tables and columns.

use seawall_values::{SqlError, SqlResult, SqlState};

use super::super::options::storage_options;
use super::super::reader::Reader;
use super::super::statement::definition::{ConstraintClause, ConstraintDefinition};
use super::column::plain;
use super::table::tablespace;
use crate::schema::ReferentialAction;

/// When a constraint is checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Attributes {
    pub(super) is_deferrable: bool,
    pub(super) is_deferred: bool,
    pub(super) is_not_valid: bool,
}

/// Whether a constraint is next.
pub(super) fn begins(reader: &Reader<'_>) -> bool {
    let is_call = |ahead: usize| reader.peek(ahead).is_some_and(|kind| kind.is_character('('));
    reader.is_word("constraint")
        || reader.is_word("check")
        || reader.is_word("unique")
        || reader.is_words(&["primary", "key"])
        || reader.is_words(&["foreign", "key"])
        || (reader.is_word("exclude") && (is_call(1) || reader.is_word_at(1, "using")))
}

/// A constraint of a table, with its name.
pub(super) fn of_table(reader: &mut Reader<'_>) -> SqlResult<ConstraintDefinition> {
    let position = reader.position();
    let name = if reader.take_word("constraint") { Some(reader.name()?) } else { None };
    let kind = if reader.take(&["foreign", "key"]) {
        let columns = reader.names_in_parentheses()?;
        reader.expect_word("references")?;
        foreign_key(reader, columns)?
    } else {
        check_or_key(reader, None)?
    };
    let mut constraint = plain(name, kind, position);
    let attributes = attributes(reader)?;
    let is_check = matches!(constraint.kind, ConstraintClause::Check(_));
    let is_key = matches!(constraint.kind, ConstraintClause::Key { .. });
    let refused = |kind: &str, what: &str| {
        let message = format!("{kind} constraints cannot be marked {what}");
        Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message))
    };
    if is_check && attributes.is_deferrable {
        return refused("CHECK", "DEFERRABLE");
    }
    if is_key && attributes.is_not_valid {
        let kind = if is_primary(&constraint) { "PRIMARY KEY" } else { "UNIQUE" };
        return refused(kind, "NOT VALID");
    }
    constraint.is_deferrable = attributes.is_deferrable;
    constraint.is_deferred = attributes.is_deferred;
    constraint.is_not_valid = attributes.is_not_valid;
    Ok(constraint)
}

fn is_primary(constraint: &ConstraintDefinition) -> bool {
    matches!(constraint.kind, ConstraintClause::Key { is_primary: true, .. })
}

/// A constraint after a column; its attributes are clauses of their own.
pub(super) fn of_column(
    reader: &mut Reader<'_>,
    name: Option<String>,
    column: &str,
) -> SqlResult<ConstraintDefinition> {
    let position = reader.position();
    let kind = if reader.take_word("references") {
        foreign_key(reader, vec![column.to_owned()])?
    } else {
        check_or_key(reader, Some(column))?
    };
    Ok(plain(name, kind, position))
}

fn check_or_key(reader: &mut Reader<'_>, column: Option<&str>) -> SqlResult<ConstraintClause> {
    if reader.take_word("check") {
        let expression = reader.expression_in_parentheses()?;
        reader.take(&["no", "inherit"]);
        return Ok(ConstraintClause::Check(expression));
    }
    if reader.is_word("exclude") {
        return Err(SqlError::unsupported("EXCLUDE"));
    }
    let is_primary = reader.take(&["primary", "key"]);
    if !is_primary {
        reader.expect_word("unique")?;
    }
    let is_nulls_not_distinct = !is_primary && nulls_not_distinct(reader)?;
    let mut key = (Vec::new(), Vec::new(), None);
    match column {
        Some(column) => key.0.push(column.to_owned()),
        None if reader.take(&["using", "index"]) => key.2 = Some(reader.name()?),
        None => {
            key.0 = reader.names_in_parentheses()?;
            key.1 = if reader.take_word("include") { reader.names_in_parentheses()? } else { Vec::new() };
        }
    }
    if reader.take_word("with") {
        storage_options(reader)?;
    }
    if reader.take(&["using", "index", "tablespace"]) {
        tablespace(reader)?;
    }
    let (columns, included, index) = key;
    Ok(ConstraintClause::Key { is_primary, columns, included, is_nulls_not_distinct, index })
}

/// `NULLS NOT DISTINCT`, `NULLS DISTINCT`.
pub(super) fn nulls_not_distinct(reader: &mut Reader<'_>) -> SqlResult<bool> {
    if !reader.is_words(&["nulls", "distinct"]) && !reader.is_words(&["nulls", "not"]) {
        return Ok(false);
    }
    reader.skip(1);
    let is_not = reader.take_word("not");
    reader.expect_word("distinct")?;
    Ok(is_not)
}

/// After `REFERENCES`.
fn foreign_key(reader: &mut Reader<'_>, columns: Vec<String>) -> SqlResult<ConstraintClause> {
    let target = reader.object_name()?;
    let target_columns = reader.optional_names()?;
    let mut is_match_full = false;
    if reader.take_word("match") {
        match reader.take_one_of(&["full", "simple", "partial"]) {
            Some("full") => is_match_full = true,
            Some("simple") => {}
            Some(_) => {
                return Err(SqlError::new(
                    SqlState::FEATURE_NOT_SUPPORTED,
                    "MATCH PARTIAL not yet implemented",
                ));
            }
            None => return Err(reader.error()),
        }
    }
    let (mut on_update, mut on_delete) = (ReferentialAction::NoAction, ReferentialAction::NoAction);
    while reader.take_word("on") {
        match reader.take_one_of(&["update", "delete"]) {
            Some("update") => on_update = action(reader)?,
            Some(_) => on_delete = action(reader)?,
            None => return Err(reader.error()),
        }
    }
    Ok(ConstraintClause::ForeignKey { columns, target, target_columns, on_update, on_delete, is_match_full })
}

fn action(reader: &mut Reader<'_>) -> SqlResult<ReferentialAction> {
    if reader.take(&["no", "action"]) {
        return Ok(ReferentialAction::NoAction);
    }
    let action = match reader.take_one_of(&["restrict", "cascade", "set"]).ok_or_else(|| reader.error())? {
        "restrict" => ReferentialAction::Restrict,
        "cascade" => ReferentialAction::Cascade,
        _ => match reader.take_one_of(&["null", "default"]).ok_or_else(|| reader.error())? {
            "null" => ReferentialAction::SetNull,
            _ => ReferentialAction::SetDefault,
        },
    };
    if reader.is_character('(') {
        return Err(SqlError::unsupported("ON DELETE SET NULL or SET DEFAULT of some columns"));
    }
    Ok(action)
}

/// `DEFERRABLE INITIALLY DEFERRED NOT VALID`, in any order.
pub(super) fn attributes(reader: &mut Reader<'_>) -> SqlResult<Attributes> {
    let (mut deferrable, mut deferred, mut is_not_valid) = (None, None, false);
    loop {
        let position = reader.position();
        let conflict = |what: &str| Err(SqlError::new(SqlState::SYNTAX_ERROR, what).at(position));
        if reader.take_word("deferrable") {
            deferrable = Some(true);
        } else if reader.take(&["not", "deferrable"]) {
            deferrable = Some(false);
        } else if reader.take(&["initially", "deferred"]) {
            deferred = Some(true);
        } else if reader.take(&["initially", "immediate"]) {
            deferred = Some(false);
        } else if reader.take(&["not", "valid"]) {
            is_not_valid = true;
        } else if !reader.take(&["no", "inherit"]) {
            break;
        }
        if deferrable == Some(false) && deferred == Some(true) {
            return conflict("constraint declared INITIALLY DEFERRED must be DEFERRABLE");
        }
    }
    let is_deferred = deferred == Some(true);
    // A deferred one is deferrable, without being called so.
    Ok(Attributes { is_deferrable: deferrable.unwrap_or(is_deferred), is_deferred, is_not_valid })
}

/// Whether `DEFERRABLE` may follow.
pub(super) fn may_be_deferred(constraint: &ConstraintDefinition) -> bool {
    !matches!(constraint.kind, ConstraintClause::Check(_))
}
