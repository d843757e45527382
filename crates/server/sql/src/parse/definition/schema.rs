//! `CREATE SCHEMA`.

use seawall_values::{SqlError, SqlResult, SqlState};

use super::super::reader::Reader;
use super::super::statement::definition::{CreateSchema, Definition};
use super::role_name;

/// After `CREATE SCHEMA`.
pub(super) fn create(reader: &mut Reader<'_>) -> SqlResult<Definition> {
    let if_not_exists = reader.if_not_exists();
    let name = if reader.is_word("authorization") { None } else { Some(reader.name()?) };
    let owner = if reader.take_word("authorization") { Some(role_name(reader)?) } else { None };
    let mut elements = Vec::new();
    while reader.is_word("create") || reader.is_word("grant") {
        if reader.is_word_at(1, "schema") {
            reader.skip(1);
            return Err(reader.error());
        }
        if if_not_exists {
            let message = "CREATE SCHEMA IF NOT EXISTS cannot include schema elements";
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).at(reader.position()));
        }
        let start = reader.place();
        let element = super::definition(reader)?;
        if !is_element(&element) {
            reader.go_back(start + 1);
            return Err(reader.error());
        }
        elements.push(element);
    }
    Ok(Definition::CreateSchema(CreateSchema { name, owner, if_not_exists, elements }))
}

/// Whether it may stand in a schema.
fn is_element(definition: &Definition) -> bool {
    matches!(
        definition,
        Definition::CreateTable(_)
            | Definition::CreateIndex(_)
            | Definition::CreateView(_)
            | Definition::CreateSequence(_)
    )
}
