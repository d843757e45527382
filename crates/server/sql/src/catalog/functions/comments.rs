//! `obj_description`, `col_description`, `shobj_description`: comments.

use seawall_values::functions::Call;
use seawall_values::{Datum, Oid, SqlResult};

use super::super::initial::initial_rows;
use super::super::numbers::PG_CLASS;
use super::super::relations;
use super::super::source::Source;
use super::{Table, integer, object, text};

pub(super) const TABLE: Table = &[
    ("obj_description/1", |source, call| comment(source, "pg_description", None, object(call, 0)?, 0)),
    ("obj_description/2", |source, call| of_class(source, "pg_description", call)),
    ("shobj_description/2", |source, call| of_class(source, "pg_shdescription", call)),
    ("col_description/2", |source, call| {
        comment(source, "pg_description", Some(PG_CLASS), object(call, 0)?, integer(call, 1)?)
    }),
];

/// The comment of an object that a named relation lists.
fn of_class(source: &mut dyn Source, relation: &str, call: &Call<'_>) -> SqlResult<Datum> {
    match relations::by_name(text(call, 1)?) {
        Some(class) => comment(source, relation, Some(class.oid), object(call, 0)?, 0),
        None => Ok(Datum::Null),
    }
}

fn comment(
    source: &mut dyn Source,
    relation: &str,
    class: Option<Oid>,
    object: Oid,
    column: i64,
) -> SqlResult<Datum> {
    for comment in source.comments(Some(object))? {
        if i64::from(comment.column) == column && class.is_none_or(|class| class == comment.class) {
            return Ok(Datum::text(comment.text));
        }
    }
    let mut rows = initial_rows(relation).numbered(object).iter();
    let is_meant = |row: &&Vec<Datum>| {
        let is_of_class = matches!(row[1], Datum::Oid(oid) if class.is_none_or(|class| class == oid));
        is_of_class && !matches!(row[2], Datum::Int4(number) if i64::from(number) != column)
    };
    Ok(rows.find(is_meant).and_then(|row| row.last().cloned()).unwrap_or_default())
}
