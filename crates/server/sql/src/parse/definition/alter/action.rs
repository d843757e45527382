//! One action of `ALTER TABLE`.

use seawall_values::{SqlError, SqlResult};

use super::super::super::options::{options, storage_options};
use super::super::super::reader::Reader;
use super::super::super::statement::definition::{RelationAction as Action, SequenceClauses};
use super::super::super::token::TokenKind;
use super::super::{behavior, column, constraint, role_name, sequence};
use crate::schema::define::requests::RelationKind;

pub(super) fn action(reader: &mut Reader<'_>, kind: RelationKind) -> SqlResult<Action> {
    let words = ["add", "drop", "alter", "validate", "owner", "set", "reset", "cluster", "replica"];
    let start = reader.place();
    let has_columns = matches!(kind, RelationKind::Table | RelationKind::MaterializedView);
    match reader.take_one_of(&words) {
        Some("owner") => {
            reader.expect_word("to")?;
            Ok(Action::SetOwner(role_name(reader)?))
        }
        Some("set") => set(reader),
        Some("reset") => Ok(Action::ResetOptions(option_names(reader)?)),
        Some("alter") => alter(reader),
        Some("add") if has_columns => add(reader),
        Some("drop") if has_columns => drop(reader),
        Some("validate") if kind == RelationKind::Table => {
            reader.expect_word("constraint")?;
            Ok(Action::ValidateConstraint(reader.name()?))
        }
        Some("cluster") => {
            reader.expect_word("on")?;
            reader.name()?;
            Ok(Action::Nothing)
        }
        Some("replica") => replica_identity(reader),
        _ => {
            reader.go_back(start);
            Err(unsupported(reader))
        }
    }
}

fn unsupported(reader: &Reader<'_>) -> Box<SqlError> {
    let forms: [&[&str]; 11] = [
        &["attach", "partition"],
        &["detach", "partition"],
        &["disable", "trigger"],
        &["disable", "rule"],
        &["disable", "row"],
        &["enable"],
        &["force", "row"],
        &["no", "force"],
        &["no", "inherit"],
        &["inherit"],
        &["of"],
    ];
    match forms.iter().find(|words| reader.is_words(words)) {
        Some(words) => SqlError::unsupported(format!("ALTER TABLE {}", words.join(" ").to_uppercase())),
        None => reader.error(),
    }
}

fn add(reader: &mut Reader<'_>) -> SqlResult<Action> {
    if constraint::begins(reader) {
        return constraint::of_table(reader).map(Action::AddConstraint);
    }
    reader.take_word("column");
    let if_not_exists = reader.if_not_exists();
    Ok(Action::AddColumn { column: column::definition(reader)?, if_not_exists })
}

fn drop(reader: &mut Reader<'_>) -> SqlResult<Action> {
    if reader.take_word("constraint") {
        let if_exists = reader.if_exists();
        let name = reader.name()?;
        return Ok(Action::DropConstraint { name, if_exists, behavior: behavior(reader) });
    }
    reader.take_word("column");
    let if_exists = reader.if_exists();
    let name = reader.name()?;
    Ok(Action::DropColumn { name, if_exists, behavior: behavior(reader) })
}

fn set(reader: &mut Reader<'_>) -> SqlResult<Action> {
    if reader.is_character('(') {
        return storage_options(reader).map(Action::SetOptions);
    }
    if reader.take_one_of(&["logged", "unlogged"]).is_some()
        || reader.take(&["without", "cluster"])
        || reader.take(&["without", "oids"])
    {
        return Ok(Action::Nothing);
    }
    if reader.take(&["access", "method"]) {
        return Err(SqlError::unsupported("ALTER TABLE SET ACCESS METHOD"));
    }
    reader.expect_word("tablespace")?;
    super::super::table::tablespace(reader)?;
    Ok(Action::Nothing)
}

fn option_names(reader: &mut Reader<'_>) -> SqlResult<Vec<String>> {
    Ok(options(reader)?.into_iter().map(|option| option.name).collect())
}

fn replica_identity(reader: &mut Reader<'_>) -> SqlResult<Action> {
    reader.expect_word("identity")?;
    if reader.take(&["using", "index"]) {
        reader.name()?;
    } else if reader.take_one_of(&["nothing", "full", "default"]).is_none() {
        return Err(reader.error());
    }
    Ok(Action::Nothing)
}

/// After `ALTER`: a column, or a constraint.
fn alter(reader: &mut Reader<'_>) -> SqlResult<Action> {
    if reader.take_word("constraint") {
        let name = reader.name()?;
        let attributes = constraint::attributes(reader)?;
        let (is_deferrable, is_deferred) = (attributes.is_deferrable, attributes.is_deferred);
        return Ok(Action::AlterConstraint { name, is_deferrable, is_deferred });
    }
    reader.take_word("column");
    // `ALTER INDEX i ALTER COLUMN 1 SET STATISTICS`.
    if matches!(reader.peek(0), Some(TokenKind::Number(_))) {
        reader.skip(1);
        reader.expect(&["set", "statistics"])?;
        reader.integer()?;
        return Ok(Action::Nothing);
    }
    let name = reader.name()?;
    alter_column(reader, name)
}

fn alter_column(reader: &mut Reader<'_>, column: String) -> SqlResult<Action> {
    if reader.take_word("type") || reader.take(&["set", "data", "type"]) {
        let of = reader.data_type()?;
        let collation = if reader.take_word("collate") { Some(reader.object_name()?) } else { None };
        let using = if reader.take_word("using") { Some(reader.written_expression()?) } else { None };
        return Ok(Action::SetType { column, of, collation, using });
    }
    if reader.take(&["set", "default"]) {
        return Ok(Action::SetDefault { column, default: Some(reader.written_expression()?) });
    }
    if reader.take(&["drop", "default"]) {
        return Ok(Action::SetDefault { column, default: None });
    }
    if reader.take(&["set", "not", "null"]) {
        return Ok(Action::SetNotNull { column, is_not_null: true });
    }
    if reader.take(&["drop", "not", "null"]) {
        return Ok(Action::SetNotNull { column, is_not_null: false });
    }
    if reader.take(&["drop", "identity"]) {
        return Ok(Action::DropIdentity { column, if_exists: reader.if_exists() });
    }
    if reader.take(&["drop", "expression"]) {
        return Ok(Action::DropExpression { column, if_exists: reader.if_exists() });
    }
    if reader.take(&["add", "generated"]) {
        return add_identity(reader, column);
    }
    if reader.is_words(&["set", "statistics"])
        || reader.is_words(&["set", "storage"])
        || reader.is_words(&["set", "compression"])
    {
        reader.skip(2);
        if reader.take_number().is_none() {
            reader.label()?;
        }
        return Ok(Action::NothingOfColumn(column));
    }
    if reader.is_words(&["set"]) && reader.peek(1).is_some_and(|kind| kind.is_character('(')) {
        reader.skip(1);
        storage_options(reader)?;
        return Ok(Action::NothingOfColumn(column));
    }
    if reader.take_word("reset") {
        option_names(reader)?;
        return Ok(Action::NothingOfColumn(column));
    }
    set_identity(reader, column)
}

fn add_identity(reader: &mut Reader<'_>, column: String) -> SqlResult<Action> {
    let identity = column::when(reader)?;
    reader.expect(&["as", "identity"])?;
    let mut options = SequenceClauses::default();
    if reader.take_character('(') {
        options = sequence::clauses(reader)?;
        reader.expect_character(')')?;
    }
    Ok(Action::AddIdentity { column, identity, options })
}

/// `SET GENERATED ALWAYS SET INCREMENT 2 RESTART`.
fn set_identity(reader: &mut Reader<'_>, column: String) -> SqlResult<Action> {
    let start = reader.place();
    let (mut identity, mut options) = (None, SequenceClauses::default());
    loop {
        if reader.take(&["set", "generated"]) {
            identity = Some(column::when(reader)?);
        } else if reader.take_word("set") {
            if !sequence::clause(reader, &mut options)? {
                return Err(reader.error());
            }
        } else if reader.is_word("restart") {
            sequence::clause(reader, &mut options)?;
        } else {
            break;
        }
    }
    if reader.place() == start {
        return Err(reader.error());
    }
    Ok(Action::SetIdentity { column, identity, options })
}
