//! `pg_database`: the one that there is, under the name that the client has asked for.

use seawall_values::{Datum, SqlResult};

use super::super::names::Names;
use super::super::numbers::{BOOTSTRAP_ROLE, DATABASE, DEFAULT_TABLESPACE, PG_DATABASE};
use super::super::source::Source;
use super::access::access_of;
use super::{Live, Rows, Table, name};

pub(super) const TABLE: Table = &[("pg_database", Live::Once(pg_database))];

/// The number of UTF8 among PostgreSQL's encodings.
pub(in super::super) const UTF8: i32 = 6;
/// What texts are ordered and classified by.
pub(in super::super) const LOCALE: &str = "C.UTF-8";

fn pg_database(source: &mut dyn Source, names: &Names, rows: &mut Rows) -> SqlResult<()> {
    rows.push_back(vec![
        Datum::Oid(DATABASE),
        name(&names.database),
        Datum::Oid(BOOTSTRAP_ROLE),
        Datum::Int4(UTF8),
        Datum::Char(b'c'),
        Datum::Bool(false),
        Datum::Bool(true),
        Datum::Int4(-1),
        Datum::Oid(3),
        Datum::Oid(1),
        Datum::Oid(DEFAULT_TABLESPACE),
        Datum::text(LOCALE),
        Datum::text(LOCALE),
        Datum::Null,
        Datum::Null,
        access_of(source, names, (DATABASE, PG_DATABASE, 0))?,
    ]);
    Ok(())
}
