//! A column of `CREATE TABLE` and `ALTER TABLE ADD COLUMN`.

use seawall_values::{SqlError, SqlResult, SqlState};

use super::super::reader::Reader;
use super::super::statement::definition::{ColumnDefinition, ConstraintDefinition};
use super::{constraint, sequence};
use crate::schema::Identity;

pub(super) fn definition(reader: &mut Reader<'_>) -> SqlResult<ColumnDefinition> {
    let position = reader.position();
    let name = reader.name()?;
    let type_position = reader.position();
    let of = reader.data_type()?;
    let mut column = ColumnDefinition {
        name,
        of,
        position: type_position.or(position),
        collation: None,
        is_not_null: None,
        default: None,
        identity: None,
        generated: None,
        constraints: Vec::new(),
    };
    for ignored in ["compression", "storage"] {
        if reader.take_word(ignored) {
            reader.label()?;
        }
    }
    while clause(reader, &mut column)? {}
    Ok(column)
}

/// One clause after the type; `false`: there is none.
fn clause(reader: &mut Reader<'_>, column: &mut ColumnDefinition) -> SqlResult<bool> {
    if reader.take_word("collate") {
        column.collation = Some(reader.object_name()?);
        return Ok(true);
    }
    if constraint_attribute(reader, column)? {
        return Ok(true);
    }
    let position = reader.position();
    let name = if reader.take_word("constraint") { Some(reader.name()?) } else { None };
    let is_not = reader.take_word("not");
    if is_not || reader.is_word("null") {
        reader.expect_word("null")?;
        let is_not_null = is_not;
        let is_denied = column.identity.is_some() && !is_not_null;
        if is_denied || column.is_not_null.is_some_and(|before| before != is_not_null) {
            return Err(conflict(column, "conflicting NULL/NOT NULL declarations", position));
        }
        column.is_not_null = Some(is_not_null);
    } else if reader.take_word("default") {
        if column.default.is_some() {
            return Err(conflict(column, "multiple default values specified", position));
        }
        column.default = Some(reader.default_expression()?);
    } else if reader.take_word("generated") {
        generated(reader, column, position)?;
    } else if constraint::begins(reader) || reader.is_word("references") {
        let constraint = constraint::of_column(reader, name, &column.name)?;
        column.constraints.push(constraint);
    } else if name.is_some() {
        return Err(reader.error());
    } else {
        return Ok(false);
    }
    Ok(true)
}

/// `DEFERRABLE` and its like belong to the constraint before them.
fn constraint_attribute(reader: &mut Reader<'_>, column: &mut ColumnDefinition) -> SqlResult<bool> {
    let position = reader.position();
    let is_attribute = reader.is_word("deferrable")
        || reader.is_words(&["not", "deferrable"])
        || reader.is_word("initially");
    if !is_attribute {
        return Ok(false);
    }
    let clause = if reader.is_word("deferrable") {
        "DEFERRABLE"
    } else if reader.is_word("not") {
        "NOT DEFERRABLE"
    } else if reader.is_word_at(1, "deferred") {
        "INITIALLY DEFERRED"
    } else {
        "INITIALLY IMMEDIATE"
    };
    let attributes = constraint::attributes(reader)?;
    if reader.position() == position {
        // `INITIALLY`, and something else after it.
        reader.take_word("initially");
        return Err(reader.error());
    }
    match column.constraints.last_mut() {
        Some(last) if constraint::may_be_deferred(last) => {
            (last.is_deferrable, last.is_deferred) = (attributes.is_deferrable, attributes.is_deferred);
            Ok(true)
        }
        _ => Err(SqlError::new(SqlState::SYNTAX_ERROR, format!("misplaced {clause} clause")).at(position)),
    }
}

fn generated(reader: &mut Reader<'_>, column: &mut ColumnDefinition, position: Option<u32>) -> SqlResult<()> {
    let when_position = reader.position();
    let identity = when(reader)?;
    reader.expect_word("as")?;
    if reader.take_word("identity") {
        if column.is_not_null == Some(false) {
            return Err(conflict(column, "conflicting NULL/NOT NULL declarations", position));
        }
        if column.identity.is_some() {
            return Err(conflict(column, "multiple identity specifications", position));
        }
        let options = if reader.take_character('(') {
            let options = sequence::clauses(reader)?;
            reader.expect_character(')')?;
            options
        } else {
            Default::default()
        };
        column.identity = Some((identity, options));
        return Ok(());
    }
    let expression = reader.expression_in_parentheses()?;
    reader.expect_word("stored")?;
    if identity == Identity::ByDefault {
        let message = "for a generated column, GENERATED ALWAYS must be specified";
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, message).at(when_position));
    }
    if column.generated.is_some() {
        return Err(conflict(column, "multiple generation clauses specified", position));
    }
    column.generated = Some(expression);
    Ok(())
}

/// `ALWAYS`, `BY DEFAULT`.
pub(super) fn when(reader: &mut Reader<'_>) -> SqlResult<Identity> {
    if reader.take_word("always") {
        return Ok(Identity::Always);
    }
    reader.expect(&["by", "default"])?;
    Ok(Identity::ByDefault)
}

/// PostgreSQL names the table as well, which is the binder's to add: here the column stands alone.
fn conflict(column: &ColumnDefinition, what: &str, position: Option<u32>) -> Box<SqlError> {
    SqlError::new(SqlState::SYNTAX_ERROR, format!("{what} for column \"{}\"", column.name)).at(position)
}

/// A constraint with the words that a column's has.
pub(super) fn plain(
    name: Option<String>,
    kind: super::super::statement::definition::ConstraintClause,
    position: Option<u32>,
) -> ConstraintDefinition {
    ConstraintDefinition {
        name,
        kind,
        is_deferrable: false,
        is_deferred: false,
        is_not_valid: false,
        position,
    }
}
