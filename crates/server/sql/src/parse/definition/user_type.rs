//! `CREATE TYPE`, `ALTER TYPE`, `DROP TYPE`.

use seawall_values::{SqlError, SqlResult};

use super::super::reader::Reader;
use super::super::statement::definition::{AlterType, Definition, TypeAction};
use super::{behavior, role_name};

/// After `CREATE TYPE`.
pub(super) fn create(reader: &mut Reader<'_>) -> SqlResult<Definition> {
    let name = reader.object_name()?;
    if !reader.take_word("as") {
        return Err(SqlError::unsupported("CREATE TYPE of a base type"));
    }
    if reader.take_word("range") {
        return Err(SqlError::unsupported("CREATE TYPE AS RANGE"));
    }
    if reader.is_character('(') {
        return Err(SqlError::unsupported("CREATE TYPE of a composite type"));
    }
    reader.expect_word("enum")?;
    reader.expect_character('(')?;
    let labels = if reader.is_character(')') { Vec::new() } else { reader.list(Reader::string)? };
    reader.expect_character(')')?;
    Ok(Definition::CreateEnum { name, labels })
}

/// After `ALTER TYPE`.
pub(super) fn alter(reader: &mut Reader<'_>) -> SqlResult<Definition> {
    let name = reader.object_name()?;
    let action = match alter_any(reader)? {
        Some(action) => action,
        None if reader.take(&["add", "value"]) => add_value(reader)?,
        None if reader.take(&["rename", "value"]) => {
            let label = reader.string()?;
            reader.expect_word("to")?;
            TypeAction::RenameValue { label, to: reader.string()? }
        }
        None => return Err(SqlError::unsupported("ALTER TYPE of a composite type")),
    };
    Ok(Definition::AlterType(AlterType { name, is_domain: false, action }))
}

/// What can be done with all types.
pub(super) fn alter_any(reader: &mut Reader<'_>) -> SqlResult<Option<TypeAction>> {
    Ok(Some(if reader.take(&["rename", "to"]) {
        TypeAction::Rename(reader.name()?)
    } else if reader.take(&["owner", "to"]) {
        TypeAction::SetOwner(role_name(reader)?)
    } else if reader.take(&["set", "schema"]) {
        TypeAction::SetSchema(reader.name()?)
    } else {
        return Ok(None);
    }))
}

fn add_value(reader: &mut Reader<'_>) -> SqlResult<TypeAction> {
    let if_not_exists = reader.if_not_exists();
    let label = reader.string()?;
    let neighbour = match reader.take_one_of(&["before", "after"]) {
        Some(word) => Some((word == "before", reader.string()?)),
        None => None,
    };
    Ok(TypeAction::AddValue { label, if_not_exists, neighbour })
}

/// After `DROP TYPE`, `DROP DOMAIN`.
pub(super) fn drop(reader: &mut Reader<'_>, is_domain: bool) -> SqlResult<Definition> {
    let if_exists = reader.if_exists();
    let names = reader.list(Reader::object_name)?;
    Ok(Definition::DropTypes { is_domain, names, if_exists, behavior: behavior(reader) })
}
