//! What sessions do: `pg_stat_activity`, `pg_locks`, `pg_prepared_xacts`, `pg_prepared_statements`, `pg_cursors`.

use seawall_values::{Datum, SqlResult, oid};

use super::super::names::Names;
use super::super::numbers::{DATABASE, READ_ALL_STATISTICS};
use super::super::source::{Activity, Source};
use super::{Live, Rows, Table, array, moment, name, text_or_null};

pub(super) const TABLE: Table = &[
    ("pg_stat_activity", Live::Once(pg_stat_activity)),
    ("pg_locks", Live::Once(pg_locks)),
    ("pg_prepared_xacts", Live::Once(pg_prepared_xacts)),
    ("pg_prepared_statements", Live::Once(pg_prepared_statements)),
    ("pg_cursors", Live::Once(pg_cursors)),
];

fn pg_stat_activity(source: &mut dyn Source, names: &Names, rows: &mut Rows) -> SqlResult<()> {
    for session in source.activity() {
        if !names.has_role(session.user) && !names.has_role(READ_ALL_STATISTICS) {
            rows.push_back(hidden_activity(&session, names));
            continue;
        }
        let is_client = session.backend_type == "client backend";
        let of_client = |value: Datum| if is_client { value } else { Datum::Null };
        let has_user = session.user != 0;
        let (address, port) = match session.client {
            Some((address, port)) => (Datum::text(address), Datum::Int4(port)),
            None => (Datum::Null, of_client(Datum::Int4(-1))),
        };
        rows.push_back(vec![
            of_client(Datum::Oid(DATABASE)),
            of_client(name(&names.database)),
            Datum::Int4(session.process_id),
            Datum::Null,
            if has_user { Datum::Oid(session.user) } else { Datum::Null },
            if has_user { name(&names.role(session.user)) } else { Datum::Null },
            Datum::text(session.application),
            address,
            Datum::Null,
            port,
            Datum::TimestampTz(session.started),
            moment(session.transaction_started),
            moment(session.statement_started),
            moment(session.state_changed),
            text_or_null(session.wait.map(|(kind, _)| kind)),
            text_or_null(session.wait.map(|(_, event)| event)),
            of_client(Datum::text(session.state)),
            Datum::Null,
            Datum::Null,
            Datum::Null,
            Datum::text(session.query),
            Datum::text(session.backend_type),
        ]);
    }
    Ok(())
}

/// What all roles see of a session of another one.
fn hidden_activity(session: &Activity, names: &Names) -> Vec<Datum> {
    let has_user = session.user != 0;
    let mut row = vec![
        Datum::Oid(DATABASE),
        name(&names.database),
        Datum::Int4(session.process_id),
        Datum::Null,
        if has_user { Datum::Oid(session.user) } else { Datum::Null },
        if has_user { name(&names.role(session.user)) } else { Datum::Null },
        Datum::text(&session.application),
    ];
    row.extend(std::iter::repeat_n(Datum::Null, 13));
    row.extend([Datum::text("<insufficient privilege>"), Datum::Null]);
    row
}

fn pg_locks(source: &mut dyn Source, _names: &Names, rows: &mut Rows) -> SqlResult<()> {
    for lock in source.locks() {
        let (class, object, part) = match lock.advisory {
            Some((class, object, part)) => (Datum::Oid(class), Datum::Oid(object), Datum::Int2(part)),
            None => (Datum::Null, Datum::Null, Datum::Null),
        };
        let is_of_database = lock.relation.is_some() || lock.advisory.is_some();
        rows.push_back(vec![
            Datum::text(lock.kind),
            if is_of_database { Datum::Oid(DATABASE) } else { Datum::Null },
            lock.relation.map_or(Datum::Null, Datum::Oid),
            Datum::Null,
            Datum::Null,
            lock.virtual_id.map_or(Datum::Null, Datum::text),
            lock.transaction.map_or(Datum::Null, Datum::Oid),
            class,
            object,
            part,
            Datum::text(lock.virtual_transaction),
            lock.process_id.map_or(Datum::Null, Datum::Int4),
            Datum::text(lock.mode),
            Datum::Bool(lock.is_granted),
            Datum::Bool(false),
            moment(lock.waiting_since),
        ]);
    }
    Ok(())
}

fn pg_prepared_xacts(source: &mut dyn Source, _names: &Names, rows: &mut Rows) -> SqlResult<()> {
    rows.extend(source.prepared_transactions()?.into_iter().map(|prepared| {
        vec![
            Datum::Oid(prepared.transaction),
            Datum::text(prepared.name),
            Datum::TimestampTz(prepared.prepared),
            name(&prepared.owner),
            name(&prepared.database),
        ]
    }));
    Ok(())
}

fn pg_prepared_statements(source: &mut dyn Source, _names: &Names, rows: &mut Rows) -> SqlResult<()> {
    rows.extend(source.prepared_statements().into_iter().map(|prepared| {
        vec![
            Datum::text(prepared.name),
            Datum::text(prepared.statement),
            Datum::TimestampTz(prepared.prepared),
            array(oid::REGTYPE, prepared.parameters.into_iter().map(Datum::Oid)),
            Datum::Bool(prepared.is_from_sql),
            Datum::Int8(0),
            Datum::Int8(0),
        ]
    }));
    Ok(())
}

fn pg_cursors(source: &mut dyn Source, _names: &Names, rows: &mut Rows) -> SqlResult<()> {
    rows.extend(source.cursors().into_iter().map(|cursor| {
        vec![
            Datum::text(cursor.name),
            Datum::text(cursor.statement),
            Datum::Bool(cursor.is_holdable),
            Datum::Bool(cursor.is_binary),
            Datum::Bool(cursor.is_scrollable),
            Datum::TimestampTz(cursor.opened),
        ]
    }));
    Ok(())
}
