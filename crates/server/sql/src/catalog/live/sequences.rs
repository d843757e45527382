//! `pg_sequence`, `pg_sequences`.

use seawall_values::{Datum, SqlResult};

use super::super::names::Names;
use super::super::source::Source;
use super::{Live, Rows, Table, name};
use crate::catalog::numbers::PG_CLASS;
use crate::schema::Definition;
use crate::schema::privilege::{AccessList, ObjectKind, Privileges};

pub(super) const TABLE: Table = &[
    (
        "pg_sequence",
        Live::Each { make: pg_sequence, numbers: &[0], names: &[], has_system: false, rest: None },
    ),
    (
        "pg_sequences",
        Live::Each { make: pg_sequences, numbers: &[], names: &[1], has_system: false, rest: None },
    ),
];

fn pg_sequence(
    definition: &Definition,
    _source: &mut dyn Source,
    _names: &Names,
    rows: &mut Rows,
) -> SqlResult<()> {
    let Definition::Sequence(sequence) = definition else { return Ok(()) };
    rows.push_back(vec![
        Datum::Oid(sequence.oid),
        Datum::Oid(sequence.of),
        Datum::Int8(sequence.start),
        Datum::Int8(sequence.increment),
        Datum::Int8(sequence.maximum),
        Datum::Int8(sequence.minimum),
        Datum::Int8(sequence.cache),
        Datum::Bool(sequence.is_cycling),
    ]);
    Ok(())
}

fn pg_sequences(
    definition: &Definition,
    source: &mut dyn Source,
    names: &Names,
    rows: &mut Rows,
) -> SqlResult<()> {
    let Definition::Sequence(sequence) = definition else { return Ok(()) };
    let list = source.access_list((sequence.oid, PG_CLASS, 0))?;
    let list = list.unwrap_or_else(|| AccessList::of_new(ObjectKind::Sequence, sequence.owner));
    let rights = names.rights();
    let held = list.held(rights).and(rights.of_system(ObjectKind::Sequence));
    let may_see = rights.is_superuser() || !held.shared(Privileges::SELECT.and(Privileges::USAGE)).is_none();
    let value = if may_see { source.sequence_value(sequence.oid)? } else { None };
    let value = value.map_or(Datum::Null, Datum::Int8);
    rows.push_back(vec![
        name(names.namespace(sequence.namespace)),
        name(&sequence.name),
        name(&names.role(sequence.owner)),
        Datum::Oid(sequence.of),
        Datum::Int8(sequence.start),
        Datum::Int8(sequence.minimum),
        Datum::Int8(sequence.maximum),
        Datum::Int8(sequence.increment),
        Datum::Bool(sequence.is_cycling),
        Datum::Int8(sequence.cache),
        value,
    ]);
    Ok(())
}
