//! `pg_proc`: functions that users have made.

use seawall_values::{Datum, Oid, SqlResult, oid};

use super::super::names::Names;
use super::super::source::Source;
use super::access::access_of;
use super::{Live, Rows, Table, array, name, oidvector, small};
use crate::catalog::numbers::PG_PROC;
use crate::schema::function::Function;

pub(super) const TABLE: Table = &[("pg_proc", Live::Once(pg_proc))];

/// `pg_language.oid` of `sql`.
const SQL: Oid = 14;

fn pg_proc(source: &mut dyn Source, names: &Names, rows: &mut Rows) -> SqlResult<()> {
    for function in source.functions()? {
        let access = access_of(source, names, (function.oid, PG_PROC, 0))?;
        rows.push_back(row(&function, access));
    }
    Ok(())
}

fn row(function: &Function, access: Datum) -> Vec<Datum> {
    let described = function.row();
    let or_null =
        |values: Vec<Datum>, element| if values.is_empty() { Datum::Null } else { array(element, values) };
    let mode = |one: &(String, Oid)| Datum::Char(one.0.bytes().next().unwrap_or(b'i'));
    let modes: Vec<Datum> = described.outputs.iter().map(mode).collect();
    let all: Vec<Datum> = described.outputs.iter().map(|(_, of)| Datum::Oid(*of)).collect();
    let parameters: Vec<Datum> = described.names.iter().map(Datum::text).collect();
    let defaults = described.default_values.join(", ");
    #[expect(clippy::cast_possible_truncation, reason = "the columns are reals")]
    let real = |number: f64| Datum::Float4(number as f32);
    vec![
        Datum::Oid(function.oid),
        name(&function.name),
        Datum::Oid(function.namespace),
        Datum::Oid(function.owner),
        Datum::Oid(SQL),
        real(function.cost),
        real(function.rows),
        Datum::Oid(described.variadic),
        Datum::Oid(0),
        Datum::Char(b'f'),
        Datum::Bool(false),
        Datum::Bool(function.is_leakproof),
        Datum::Bool(function.is_strict),
        Datum::Bool(function.returns_set),
        Datum::Char(function.volatility),
        Datum::Char(function.parallel),
        small(described.arguments.len()),
        small(described.default_values.len()),
        Datum::Oid(function.result),
        oidvector(described.arguments),
        or_null(all, oid::OID),
        or_null(modes, oid::CHAR),
        or_null(parameters, oid::TEXT),
        if defaults.is_empty() { Datum::Null } else { Datum::text(defaults) },
        Datum::Null,
        Datum::text(&function.body),
        Datum::Null,
        Datum::Null,
        Datum::Null,
        access,
    ]
}
