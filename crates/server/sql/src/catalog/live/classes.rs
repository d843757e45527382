//! `pg_class`, `pg_namespace`, `pg_inherits`.

use seawall_values::user_types::relation_of_composite;
use seawall_values::{Datum, Oid, SqlResult};

use super::super::names::Names;
use super::super::numbers::{BTREE, HEAP, PG_CLASS, PG_NAMESPACE, row_type};
use super::super::oid_of;
use super::super::source::Source;
use super::access::access_of;
use super::{Live, Rows, Table, name, small, texts_or_null};
use crate::schema::user_type::UserTypeKind;
use crate::schema::{ConstraintKind, Definition};

pub(super) const TABLE: Table = &[
    (
        "pg_class",
        Live::Each { make: pg_class, numbers: &[0], names: &[1], has_system: false, rest: Some(composites) },
    ),
    ("pg_namespace", Live::Once(pg_namespace)),
];

/// What differs between the kinds of relations.
struct Class<'a> {
    oid: Oid,
    name: &'a str,
    namespace: Oid,
    owner: Oid,
    row_type: Oid,
    access_method: Oid,
    kind: u8,
    columns: usize,
    checks: usize,
    has_index: bool,
    has_rule: bool,
    has_trigger: bool,
    is_temporary: bool,
    rows: Option<u64>,
    options: &'a [String],
    access: Datum,
    is_populated: bool,
}

impl Class<'_> {
    fn row(&self) -> Vec<Datum> {
        let storage = if matches!(self.kind, b'v' | b'c') { 0 } else { self.oid };
        let identity = if matches!(self.kind, b'r' | b'm') { b'd' } else { b'n' };
        vec![
            Datum::Oid(self.oid),
            name(self.name),
            Datum::Oid(self.namespace),
            Datum::Oid(self.row_type),
            Datum::Oid(0),
            Datum::Oid(self.owner),
            Datum::Oid(self.access_method),
            Datum::Oid(storage),
            Datum::Oid(0),
            Datum::Int4(0),
            Datum::Float4(self.tuples()),
            Datum::Int4(0),
            Datum::Oid(0),
            Datum::Bool(self.has_index),
            Datum::Bool(false),
            Datum::Char(if self.is_temporary { b't' } else { b'p' }),
            Datum::Char(self.kind),
            small(self.columns),
            small(self.checks),
            Datum::Bool(self.has_rule),
            Datum::Bool(self.has_trigger),
            Datum::Bool(false),
            Datum::Bool(false),
            Datum::Bool(false),
            Datum::Bool(self.is_populated),
            Datum::Char(identity),
            Datum::Bool(false),
            Datum::Oid(0),
            Datum::Oid(0),
            Datum::Oid(0),
            self.access.clone(),
            texts_or_null(self.options),
            Datum::Null,
        ]
    }

    /// `reltuples`: -1 says that nothing is known.
    #[expect(clippy::cast_precision_loss, reason = "the column is an estimate, and a real")]
    fn tuples(&self) -> f32 {
        self.rows.map_or(-1.0, |rows| rows as f32)
    }
}

fn pg_class(
    definition: &Definition,
    source: &mut dyn Source,
    names: &Names,
    rows: &mut Rows,
) -> SqlResult<()> {
    let access = access_of(source, names, (oid_of(definition), PG_CLASS, 0))?;
    match definition {
        Definition::Table(table) => {
            let is_check = |kind: &ConstraintKind| matches!(kind, ConstraintKind::Check(_));
            let is_foreign = |kind: &ConstraintKind| matches!(kind, ConstraintKind::ForeignKey(_));
            rows.push_back(
                Class {
                    oid: table.oid,
                    name: &table.name,
                    namespace: table.namespace,
                    owner: table.owner,
                    row_type: row_type(table.oid),
                    access_method: HEAP,
                    kind: if table.query.is_some() { b'm' } else { b'r' },
                    columns: table.columns.len(),
                    checks: table.constraints.iter().filter(|constraint| is_check(&constraint.kind)).count(),
                    has_index: !table.indexes.is_empty(),
                    has_rule: table.query.is_some(),
                    // psql looks for foreign keys to a table only if this is true: any table with a key may have them.
                    has_trigger: table.constraints.iter().any(|constraint| is_foreign(&constraint.kind))
                        || table.indexes.iter().any(|index| index.is_unique),
                    is_temporary: table.is_temporary,
                    rows: source.statistics(table.oid)?.rows,
                    options: &table.options,
                    access,
                    is_populated: table.query.as_ref().is_none_or(|query| query.is_populated),
                }
                .row(),
            );
            for index in &table.indexes {
                rows.push_back(
                    Class {
                        oid: index.oid,
                        name: &index.name,
                        namespace: table.namespace,
                        owner: table.owner,
                        row_type: 0,
                        access_method: BTREE,
                        kind: b'i',
                        columns: index.keys.len() + index.included.len(),
                        checks: 0,
                        has_index: false,
                        has_rule: false,
                        has_trigger: false,
                        is_temporary: table.is_temporary,
                        rows: Some(0),
                        options: &[],
                        access: Datum::Null,
                        is_populated: true,
                    }
                    .row(),
                );
            }
        }
        Definition::View(view) => rows.push_back(
            Class {
                oid: view.oid,
                name: &view.name,
                namespace: view.namespace,
                owner: view.owner,
                row_type: row_type(view.oid),
                access_method: 0,
                kind: b'v',
                columns: view.columns.len(),
                checks: 0,
                has_index: false,
                has_rule: true,
                has_trigger: false,
                is_temporary: view.namespace == source.asker().temporary_namespace,
                rows: None,
                options: &view.options,
                access,
                is_populated: true,
            }
            .row(),
        ),
        Definition::Sequence(sequence) => rows.push_back(
            Class {
                oid: sequence.oid,
                name: &sequence.name,
                namespace: sequence.namespace,
                owner: sequence.owner,
                row_type: 0,
                access_method: 0,
                kind: b'S',
                columns: 3,
                checks: 0,
                has_index: false,
                has_rule: false,
                has_trigger: false,
                is_temporary: sequence.namespace == source.asker().temporary_namespace,
                rows: Some(1),
                options: &[],
                access,
                is_populated: true,
            }
            .row(),
        ),
        // Their rows are initial ones.
        Definition::Index(..) | Definition::System(_) => {}
    }
    Ok(())
}

/// Composite types that users have made.
fn composites(source: &mut dyn Source, _names: &Names, rows: &mut Rows) -> SqlResult<()> {
    for known in source.user_types()? {
        let UserTypeKind::Composite(fields) = &known.kind else { continue };
        let class = Class {
            oid: relation_of_composite(known.oid).unwrap_or(0),
            name: &known.name,
            namespace: known.namespace,
            owner: known.owner,
            row_type: known.oid,
            access_method: 0,
            kind: b'c',
            columns: fields.len(),
            checks: 0,
            has_index: false,
            has_rule: false,
            has_trigger: false,
            is_temporary: known.namespace == source.asker().temporary_namespace,
            rows: Some(0),
            options: &[],
            access: Datum::Null,
            is_populated: true,
        };
        rows.push_back(class.row());
    }
    Ok(())
}

/// The schemas of users; `public` is one of them.
fn pg_namespace(source: &mut dyn Source, names: &Names, rows: &mut Rows) -> SqlResult<()> {
    for namespace in source.namespaces()? {
        rows.push_back(vec![
            Datum::Oid(namespace.oid),
            name(&namespace.name),
            Datum::Oid(namespace.owner),
            access_of(source, names, (namespace.oid, PG_NAMESPACE, 0))?,
        ]);
    }
    Ok(())
}
