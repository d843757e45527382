//! `COMMENT ON`.

use seawall_values::SqlResult;

use super::super::reader::Reader;
use super::super::statement::definition::{CommentedObject, Definition};
use super::sequence::column_name;
use super::{function, role_name, unsupported};
use crate::schema::define::requests::RelationKind;

/// After `COMMENT`.
pub(super) fn comment(reader: &mut Reader<'_>) -> SqlResult<Definition> {
    reader.expect_word("on")?;
    let on = commented(reader)?;
    reader.expect_word("is")?;
    let text = if reader.take_word("null") { None } else { Some(reader.string()?) };
    Ok(Definition::Comment { on, text })
}

fn commented(reader: &mut Reader<'_>) -> SqlResult<CommentedObject> {
    if let Some(word) = reader.take_one_of(&["type", "domain"]) {
        return Ok(CommentedObject::Type(reader.object_name()?, word == "domain"));
    }
    if reader.take_word("function") || reader.take_word("routine") {
        return Ok(CommentedObject::Function(function::routine(reader)?));
    }
    if reader.take(&["materialized", "view"]) {
        return Ok(CommentedObject::Relation(RelationKind::MaterializedView, reader.object_name()?));
    }
    let words = ["table", "view", "sequence", "index", "column", "constraint", "schema", "role", "database"];
    let Some(word) = reader.take_one_of(&words) else { return Err(unsupported(reader, "COMMENT ON")) };
    let kind = match word {
        "table" => RelationKind::Table,
        "view" => RelationKind::View,
        "sequence" => RelationKind::Sequence,
        "index" => RelationKind::Index,
        "column" => {
            let (relation, column) = column_name(reader, "column name must be qualified")?;
            return Ok(CommentedObject::Column(relation, column));
        }
        "constraint" => {
            let name = reader.name()?;
            reader.expect_word("on")?;
            if reader.is_word("domain") {
                return Err(unsupported(reader, "COMMENT ON CONSTRAINT ON"));
            }
            return Ok(CommentedObject::Constraint(reader.object_name()?, name));
        }
        "schema" => return Ok(CommentedObject::Schema(reader.name()?)),
        "role" => return Ok(CommentedObject::Role(role_name(reader)?)),
        _ => return Ok(CommentedObject::Database(reader.name()?)),
    };
    Ok(CommentedObject::Relation(kind, reader.object_name()?))
}
