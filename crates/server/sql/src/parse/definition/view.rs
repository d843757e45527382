//! `CREATE VIEW`.

use seawall_values::{SqlError, SqlResult};

use super::super::options::storage_options;
use super::super::reader::Reader;
use super::super::statement::definition::{CreateView, Definition};
use super::super::utility;

/// After `CREATE VIEW`.
pub(super) fn create(reader: &mut Reader<'_>, or_replace: bool, is_temporary: bool) -> SqlResult<Definition> {
    let name = reader.object_name()?;
    let columns = reader.optional_names()?;
    if reader.take_word("with") {
        let options = storage_options(reader)?;
        if let Some(option) = options.iter().find(|option| !option.starts_with("security_")) {
            return Err(SqlError::unsupported(format!("option \"{option}\" of views")));
        }
    }
    reader.expect_word("as")?;
    let start = reader.place();
    let query = utility::query_dml(reader)?;
    let text = reader.text_since(start);
    if reader.is_word("with") {
        return Err(SqlError::unsupported("WITH CHECK OPTION"));
    }
    Ok(Definition::CreateView(CreateView { name, or_replace, is_temporary, columns, query, text }))
}
