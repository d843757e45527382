//! `DROP`.

use seawall_values::SqlResult;

use super::super::reader::Reader;
use super::super::statement::definition::Definition;
use super::{behavior, drop_absent, role_name, unsupported, user_type};
use crate::schema::define::requests::RelationKind;

/// After `DROP`.
pub(super) fn drop(reader: &mut Reader<'_>) -> SqlResult<Definition> {
    if reader.is_words(&["user", "mapping"]) {
        return Err(unsupported(reader, "DROP"));
    }
    if reader.take(&["owned", "by"]) {
        let owners = reader.list(role_name)?;
        return Ok(Definition::DropOwned { owners, behavior: behavior(reader) });
    }
    if reader.take_word("type") {
        return user_type::drop(reader, false);
    }
    if reader.take_word("domain") {
        return user_type::drop(reader, true);
    }
    if reader.take(&["materialized", "view"]) {
        let if_exists = reader.if_exists();
        let (kind, names) = (RelationKind::MaterializedView, reader.list(Reader::object_name)?);
        return Ok(Definition::DropRelations { kind, names, if_exists, behavior: behavior(reader) });
    }
    if let Some(definition) = drop_absent::drop(reader)? {
        return Ok(definition);
    }
    let words = ["table", "view", "sequence", "index", "schema", "role", "user", "group"];
    let word = reader.take_one_of(&words).ok_or_else(|| unsupported(reader, "DROP"))?;
    if word == "index" {
        reader.take_word("concurrently");
    }
    let if_exists = reader.if_exists();
    let kind = match word {
        "table" => RelationKind::Table,
        "view" => RelationKind::View,
        "sequence" => RelationKind::Sequence,
        "index" => RelationKind::Index,
        "schema" => {
            let names = reader.list(Reader::name)?;
            return Ok(Definition::DropSchemas { names, if_exists, behavior: behavior(reader) });
        }
        _ => return Ok(Definition::DropRoles { names: reader.list(role_name)?, if_exists }),
    };
    let names = reader.list(Reader::object_name)?;
    Ok(Definition::DropRelations { kind, names, if_exists, behavior: behavior(reader) })
}
