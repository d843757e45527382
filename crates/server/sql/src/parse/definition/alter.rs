//! `ALTER`.

mod action;

use seawall_values::{SqlError, SqlResult};

use super::super::reader::Reader;
use super::super::statement::ObjectName;
use super::super::statement::definition::{
    AlterRelation, AlterSchema, AlterSequence, AlterSetting, Definition, RelationAction,
};
use super::{domain, function, grant, role, role_name, sequence, unsupported, user_type};
use crate::schema::define::requests::RelationKind;

/// After `ALTER`.
pub(super) fn alter(reader: &mut Reader<'_>) -> SqlResult<Definition> {
    if reader.is_words(&["user", "mapping"]) {
        return Err(unsupported(reader, "ALTER"));
    }
    if reader.take(&["default", "privileges"]) {
        return grant::default_privileges(reader);
    }
    if reader.take_word("type") {
        return user_type::alter(reader);
    }
    if reader.take_word("domain") {
        return domain::alter(reader);
    }
    if reader.take_word("function") || reader.take_word("routine") {
        return function::alter(reader);
    }
    if reader.take(&["materialized", "view"]) {
        return relation(reader, RelationKind::MaterializedView);
    }
    let words = ["table", "view", "index", "sequence", "schema", "role", "user", "group", "database"];
    match reader.take_one_of(&words).ok_or_else(|| unsupported(reader, "ALTER"))? {
        "table" => relation(reader, RelationKind::Table),
        "view" => relation(reader, RelationKind::View),
        "index" => relation(reader, RelationKind::Index),
        "sequence" => alter_sequence(reader),
        "schema" => schema(reader),
        "group" => group(reader),
        "database" => database(reader),
        _ => role::alter(reader),
    }
}

fn relation(reader: &mut Reader<'_>, kind: RelationKind) -> SqlResult<Definition> {
    if reader.is_words(&["all", "in", "tablespace"]) {
        return Err(SqlError::unsupported("ALTER ALL IN TABLESPACE"));
    }
    let if_exists = reader.if_exists();
    let name = reader.relation_name()?;
    let actions = actions(reader, kind)?;
    Ok(Definition::AlterRelation(AlterRelation { kind, name, if_exists, actions }))
}

/// Those that stand alone, or a list.
fn actions(reader: &mut Reader<'_>, kind: RelationKind) -> SqlResult<Vec<RelationAction>> {
    match alone(reader, kind)? {
        Some(action) => Ok(vec![action]),
        None => reader.list(|reader| action::action(reader, kind)),
    }
}

/// `RENAME ..`, `SET SCHEMA`.
fn alone(reader: &mut Reader<'_>, kind: RelationKind) -> SqlResult<Option<RelationAction>> {
    if reader.take(&["set", "schema"]) {
        return Ok(Some(RelationAction::SetSchema(reader.name()?)));
    }
    if !reader.take_word("rename") {
        return Ok(None);
    }
    if reader.take_word("to") {
        return Ok(Some(RelationAction::Rename(reader.name()?)));
    }
    let is_constraint = kind == RelationKind::Table && reader.take_word("constraint");
    if !is_constraint {
        reader.take_word("column");
    }
    let name = reader.name()?;
    reader.expect_word("to")?;
    let to = reader.name()?;
    Ok(Some(if is_constraint {
        RelationAction::RenameConstraint { name, to }
    } else {
        RelationAction::RenameColumn { name, to }
    }))
}

fn alter_sequence(reader: &mut Reader<'_>) -> SqlResult<Definition> {
    let if_exists = reader.if_exists();
    let name: ObjectName = reader.object_name()?;
    let action = if reader.take(&["owner", "to"]) {
        Some(RelationAction::SetOwner(role_name(reader)?))
    } else if reader.take(&["set", "logged"]) || reader.take(&["set", "unlogged"]) {
        Some(RelationAction::Nothing)
    } else {
        alone(reader, RelationKind::Sequence)?
    };
    if let Some(action) = action {
        let kind = RelationKind::Sequence;
        return Ok(Definition::AlterRelation(AlterRelation { kind, name, if_exists, actions: vec![action] }));
    }
    let start = reader.place();
    let options = sequence::clauses(reader)?;
    if reader.place() == start {
        return Err(reader.error());
    }
    Ok(Definition::AlterSequence(AlterSequence { name, if_exists, options }))
}

fn schema(reader: &mut Reader<'_>) -> SqlResult<Definition> {
    let name = reader.name()?;
    if reader.take(&["rename", "to"]) {
        return Ok(Definition::AlterSchema(AlterSchema::Rename { name, to: reader.name()? }));
    }
    reader.expect(&["owner", "to"])?;
    Ok(Definition::AlterSchema(AlterSchema::Owner { name, owner: role_name(reader)? }))
}

/// `ALTER GROUP`: the old form of granting roles.
fn group(reader: &mut Reader<'_>) -> SqlResult<Definition> {
    let role = role_name(reader)?;
    let Some(word) = reader.take_one_of(&["add", "drop"]) else {
        return Err(SqlError::unsupported("ALTER GROUP RENAME"));
    };
    reader.expect_word("user")?;
    let members = reader.list(role_name)?;
    let roles = vec![role];
    Ok(match word {
        "add" => Definition::GrantRoles { roles, members, is_admin: false },
        _ => Definition::RevokeRoles { roles, members, only_admin: false },
    })
}

fn database(reader: &mut Reader<'_>) -> SqlResult<Definition> {
    let name = reader.name()?;
    if reader.is_words(&["set", "tablespace"]) || !(reader.is_word("set") || reader.is_word("reset")) {
        return Err(SqlError::unsupported("ALTER DATABASE"));
    }
    let change = role::setting_change(reader)?;
    Ok(Definition::AlterSetting(AlterSetting {
        role: None,
        database: Some(name),
        change,
        is_of_database: true,
    }))
}
