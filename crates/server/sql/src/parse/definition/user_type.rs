//! `CREATE TYPE`, `ALTER TYPE`, `DROP TYPE`.

use seawall_values::{SqlError, SqlResult};

use super::super::reader::Reader;
use super::super::statement::definition::{
    AlterType, Definition, TypeAction, WrittenField, WrittenFieldChange,
};
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
    if reader.take_character('(') {
        let fields = if reader.is_character(')') { Vec::new() } else { reader.list(field)? };
        reader.expect_character(')')?;
        return Ok(Definition::CreateComposite { name, fields });
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
        None if reader.is_words(&["set"]) => return Err(SqlError::unsupported("ALTER TYPE SET")),
        None => TypeAction::ChangeFields(field_changes(reader)?),
    };
    Ok(Definition::AlterType(AlterType { name, is_domain: false, action }))
}

/// A field of a composite type.
fn field(reader: &mut Reader<'_>) -> SqlResult<WrittenField> {
    let name = reader.name()?;
    let of = reader.data_type()?;
    let collation = if reader.take_word("collate") { Some(reader.object_name()?) } else { None };
    Ok(WrittenField { name, of, collation })
}

/// `ADD ATTRIBUTE`, `DROP ATTRIBUTE`, `ALTER ATTRIBUTE`, `RENAME ATTRIBUTE`.
fn field_changes(reader: &mut Reader<'_>) -> SqlResult<Vec<WrittenFieldChange>> {
    if reader.take(&["rename", "attribute"]) {
        let name = reader.name()?;
        reader.expect_word("to")?;
        let change = WrittenFieldChange::Rename { name, to: reader.name()? };
        behavior(reader);
        return Ok(vec![change]);
    }
    reader.list(|reader| {
        let change = if reader.take(&["add", "attribute"]) {
            WrittenFieldChange::Add(field(reader)?)
        } else if reader.take(&["drop", "attribute"]) {
            let if_exists = reader.if_exists();
            WrittenFieldChange::Drop { name: reader.name()?, if_exists }
        } else if reader.take(&["alter", "attribute"]) {
            let name = reader.name()?;
            reader.take(&["set", "data"]);
            reader.expect_word("type")?;
            let of = reader.data_type()?;
            let collation = if reader.take_word("collate") { Some(reader.object_name()?) } else { None };
            WrittenFieldChange::Alter(WrittenField { name, of, collation })
        } else {
            return Err(reader.error());
        };
        behavior(reader);
        Ok(change)
    })
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
