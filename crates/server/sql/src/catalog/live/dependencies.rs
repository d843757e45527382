//! `pg_depend`, `pg_rewrite`, `pg_description`, `pg_shdescription`.
//!
//! Of dependencies, those are listed that clients look for: what belongs to a table and goes with it, and what views and functions need.

use seawall_values::user_types::is_user_type;
use seawall_values::{Datum, Oid, SqlResult};

use super::super::names::Names;
use super::super::numbers::{
    PG_ATTRDEF, PG_AUTHID, PG_CATALOG, PG_CLASS, PG_CONSTRAINT, PG_DATABASE, PG_NAMESPACE, PG_PROC,
    PG_REWRITE, PG_TYPE, column_default, column_number, relation_of_type, row_array_type, row_type, rule,
};
use super::super::source::Source;
use super::{Live, Rows, Table, name};
use crate::schema::{Column, ConstraintKind, Definition, IndexedValue, Sequence, Table as Defined};

pub(super) const TABLE: Table = &[
    ("pg_depend", Live::Both { each: pg_depend, numbers: &[], once: of_functions }),
    ("pg_rewrite", Live::Each { make: pg_rewrite, numbers: &[2], names: &[], has_system: false, rest: None }),
    ("pg_description", Live::Once(|source, _, rows| comments(source, rows, false))),
    ("pg_shdescription", Live::Once(|source, _, rows| comments(source, rows, true))),
];

/// An object, or a part of one: class, number, column.
type Object = (Oid, Oid, i16);

/// One object needs another. `a`: it goes with it; `i`: it is a part of it; `n`: it stands in its way.
fn dependency(dependent: Object, on: Object, kind: u8) -> Vec<Datum> {
    let (class, object, column) = dependent;
    let (on_class, on_object, on_column) = on;
    vec![
        Datum::Oid(class),
        Datum::Oid(object),
        Datum::Int4(i32::from(column)),
        Datum::Oid(on_class),
        Datum::Oid(on_object),
        Datum::Int4(i32::from(on_column)),
        Datum::Char(kind),
    ]
}

fn pg_depend(
    definition: &Definition,
    source: &mut dyn Source,
    _names: &Names,
    rows: &mut Rows,
) -> SqlResult<()> {
    match definition {
        Definition::Table(table) => {
            of_relation(table.oid, table.namespace, true, rows);
            of_columns(table, rows);
            of_constraints(table, rows);
            of_indexes(table, rows);
        }
        Definition::View(view) => {
            of_relation(view.oid, view.namespace, true, rows);
            rows.push_back(dependency((PG_REWRITE, rule(view.oid), 0), (PG_CLASS, view.oid, 0), b'i'));
            of_query(source, view.oid, rows)?;
        }
        Definition::Sequence(sequence) => {
            of_relation(sequence.oid, sequence.namespace, false, rows);
            if let Some((table, position)) = sequence.owned_by {
                let kind = if is_identity(source, sequence, table, position)? { b'i' } else { b'a' };
                let column = (PG_CLASS, table, column_number(position));
                rows.push_back(dependency((PG_CLASS, sequence.oid, 0), column, kind));
            }
        }
        Definition::Index(..) | Definition::System(_) => {}
    }
    Ok(())
}

/// What the query of a view names.
fn of_query(source: &mut dyn Source, view: Oid, rows: &mut Rows) -> SqlResult<()> {
    for (on, column) in source.dependencies(view)? {
        let class = if is_user_type(on) {
            PG_TYPE
        } else if source.function(on)?.is_some() {
            PG_PROC
        } else {
            PG_CLASS
        };
        let column = i16::try_from(column).unwrap_or(i16::MAX);
        rows.push_back(dependency((PG_REWRITE, rule(view), 0), (class, on, column), b'n'));
    }
    Ok(())
}

/// Functions of users need their schemas, and the types of their parameters and results.
fn of_functions(source: &mut dyn Source, _names: &Names, rows: &mut Rows) -> SqlResult<()> {
    for function in source.functions()? {
        let object = (PG_PROC, function.oid, 0);
        rows.push_back(dependency(object, (PG_NAMESPACE, function.namespace, 0), b'n'));
        let types = function.parameters.iter().map(|parameter| parameter.of).chain([function.result]);
        for of in types.filter(|of| is_user_type(*of) || relation_of_type(*of).is_some()) {
            rows.push_back(dependency(object, (PG_TYPE, of, 0), b'n'));
        }
    }
    Ok(())
}

fn of_relation(oid: Oid, namespace: Oid, has_type: bool, rows: &mut Rows) {
    if namespace != PG_CATALOG && namespace != super::super::numbers::PUBLIC {
        rows.push_back(dependency((PG_CLASS, oid, 0), (PG_NAMESPACE, namespace, 0), b'n'));
    }
    if has_type {
        rows.push_back(dependency((PG_TYPE, row_type(oid), 0), (PG_CLASS, oid, 0), b'i'));
        rows.push_back(dependency((PG_TYPE, row_array_type(oid), 0), (PG_TYPE, row_type(oid), 0), b'i'));
    }
}

/// Whether the column that a sequence belongs to is an identity column: the sequence is a part of it.
fn is_identity(source: &mut dyn Source, sequence: &Sequence, table: Oid, position: usize) -> SqlResult<bool> {
    let Some(Definition::Table(table)) = source.definition(table)? else { return Ok(false) };
    let is_identity = |column: &Column| column.identity.is_some() && column.sequence == sequence.oid;
    Ok(table.columns.get(position).is_some_and(is_identity))
}

fn of_columns(table: &Defined, rows: &mut Rows) {
    for (position, column) in table.columns.iter().enumerate().filter(|(_, column)| !column.is_dropped) {
        let number = column_number(position);
        if column.default.is_none() && column.generated.is_none() {
            continue;
        }
        let default = (PG_ATTRDEF, column_default(table.oid, number), 0);
        rows.push_back(dependency(default, (PG_CLASS, table.oid, number), b'a'));
        if column.sequence != 0 && column.identity.is_none() {
            rows.push_back(dependency(default, (PG_CLASS, column.sequence, 0), b'n'));
        }
    }
}

fn of_constraints(table: &Defined, rows: &mut Rows) {
    for constraint in &table.constraints {
        let object = (PG_CONSTRAINT, constraint.oid, 0);
        let columns = match &constraint.kind {
            ConstraintKind::Check(condition) => super::constraints::columns_of(table, condition),
            ConstraintKind::Unique(index) => {
                rows.push_back(dependency((PG_CLASS, *index, 0), object, b'i'));
                let index = table.indexes.iter().find(|known| known.oid == *index);
                index.map_or_else(Vec::new, |index| key_columns(index.keys.iter().map(|key| &key.what)))
            }
            ConstraintKind::ForeignKey(key) => {
                for position in &key.target_columns {
                    rows.push_back(dependency(
                        object,
                        (PG_CLASS, key.target, column_number(*position)),
                        b'n',
                    ));
                }
                rows.push_back(dependency(object, (PG_CLASS, key.target_index, 0), b'n'));
                key.columns.clone()
            }
        };
        for position in columns {
            rows.push_back(dependency(object, (PG_CLASS, table.oid, column_number(position)), b'a'));
        }
    }
}

/// Indexes without a constraint need their columns.
fn of_indexes(table: &Defined, rows: &mut Rows) {
    for index in table.indexes.iter().filter(|index| index.constraint == 0) {
        let columns = key_columns(index.keys.iter().map(|key| &key.what));
        if columns.is_empty() {
            rows.push_back(dependency((PG_CLASS, index.oid, 0), (PG_CLASS, table.oid, 0), b'a'));
        }
        for position in columns.iter().chain(&index.included) {
            rows.push_back(dependency(
                (PG_CLASS, index.oid, 0),
                (PG_CLASS, table.oid, column_number(*position)),
                b'a',
            ));
        }
    }
}

fn key_columns<'a>(keys: impl Iterator<Item = &'a IndexedValue>) -> Vec<usize> {
    keys.filter_map(|key| match key {
        IndexedValue::Column(position) => Some(*position),
        IndexedValue::Expression(_) => None,
    })
    .collect()
}

/// The rule that makes a relation a view.
fn pg_rewrite(
    definition: &Definition,
    _source: &mut dyn Source,
    _names: &Names,
    rows: &mut Rows,
) -> SqlResult<()> {
    let Definition::View(view) = definition else { return Ok(()) };
    rows.push_back(vec![
        Datum::Oid(rule(view.oid)),
        name("_RETURN"),
        Datum::Oid(view.oid),
        Datum::Char(b'1'),
        Datum::Char(b'O'),
        Datum::Bool(true),
        Datum::text("<>"),
        Datum::text(&view.query),
    ]);
    Ok(())
}

/// Comments of what belongs to the database, or of what databases share.
fn comments(source: &mut dyn Source, rows: &mut Rows, is_shared: bool) -> SqlResult<()> {
    for comment in source.comments(None)? {
        if matches!(comment.class, PG_AUTHID | PG_DATABASE) != is_shared {
            continue;
        }
        let mut row = vec![Datum::Oid(comment.object), Datum::Oid(comment.class)];
        row.extend((!is_shared).then_some(Datum::Int4(comment.column)));
        row.push(Datum::text(&comment.text));
        rows.push_back(row);
    }
    Ok(())
}
