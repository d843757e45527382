//! `CREATE MATERIALIZED VIEW`, `REFRESH MATERIALIZED VIEW`.

use seawall_values::SqlResult;

use super::super::options::storage_options;
use super::super::reader::Reader;
use super::super::statement::definition::{CreateMaterializedView, Definition, RefreshMaterializedView};
use super::super::utility;
use super::table;

/// After `CREATE MATERIALIZED VIEW`.
pub(super) fn create(reader: &mut Reader<'_>) -> SqlResult<Definition> {
    let if_not_exists = reader.if_not_exists();
    let name = reader.object_name()?;
    let columns = reader.optional_names()?;
    if reader.take_word("using") {
        table::access_method(reader)?;
    }
    let options = if reader.take_word("with") { storage_options(reader)? } else { Vec::new() };
    if reader.take_word("tablespace") {
        table::tablespace(reader)?;
    }
    reader.expect_word("as")?;
    let start = reader.place();
    let query = utility::query_dml(reader)?;
    let text = reader.text_since(start);
    let with_data = with_data(reader);
    let create = CreateMaterializedView { name, if_not_exists, columns, options, query, text, with_data };
    Ok(Definition::CreateMaterializedView(Box::new(create)))
}

/// After `REFRESH`.
pub(super) fn refresh(reader: &mut Reader<'_>) -> SqlResult<Definition> {
    reader.expect(&["materialized", "view"])?;
    let is_concurrent = reader.take_word("concurrently");
    let name = reader.object_name()?;
    let with_data = with_data(reader);
    Ok(Definition::RefreshMaterializedView(RefreshMaterializedView { name, is_concurrent, with_data }))
}

/// `WITH DATA`, `WITH NO DATA`, or nothing.
fn with_data(reader: &mut Reader<'_>) -> bool {
    let is_empty = reader.take(&["with", "no", "data"]);
    if !is_empty {
        reader.take(&["with", "data"]);
    }
    !is_empty
}
