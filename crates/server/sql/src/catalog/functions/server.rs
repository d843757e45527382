//! What a session asks about itself and the server.

use std::sync::Arc;

use seawall_engine::{Database, Standby};
use seawall_types::Lsn;
use seawall_values::functions::Call;
use seawall_values::{Datum, Oid, Record, SqlError, SqlResult, SqlState, oid};

use super::super::live::database::UTF8;
use super::super::live::{array, moment_since_1970, name};
use super::super::names::{namespace_name, role_name, unknown_role};
use super::super::source::{EngineTotals, Source};
use super::{Table, boolean, integer, nothing, object, text};
use crate::schema::Definition;
use crate::session::not_in_recovery;

pub(super) const TABLE: Table = &[
    ("pgsql_version", version),
    ("current_user", |source, _| {
        let user = source.asker().user;
        role(source, user)
    }),
    ("session_user", |source, _| {
        let user = source.asker().session_user;
        role(source, user)
    }),
    ("current_database", |source, _| Ok(name(&source.asker().database))),
    ("current_schema", current_schema),
    ("current_schemas", current_schemas),
    ("pg_my_temp_schema", |source, _| Ok(Datum::Oid(source.asker().temporary_namespace))),
    ("pg_is_other_temp_schema", |_, _| Ok(Datum::Bool(false))),
    ("pg_backend_pid", |source, _| Ok(Datum::Int4(source.asker().process_id))),
    ("pg_postmaster_start_time", |source, _| Ok(Datum::TimestampTz(source.asker().server_started))),
    ("pg_conf_load_time", |source, _| Ok(Datum::TimestampTz(source.asker().configuration_loaded))),
    ("pg_is_in_recovery", |source, _| Ok(Datum::Bool(source.asker().is_in_recovery))),
    ("pg_current_wal_lsn", |source, _| written(source, |totals| totals.log_end)),
    ("pg_current_wal_insert_lsn", |source, _| written(source, |totals| totals.log_end)),
    ("pg_current_wal_flush_lsn", |source, _| written(source, |totals| totals.durable_end)),
    ("pg_last_wal_receive_lsn", |source, _| followed(source, |database| database.log().flushed())),
    ("pg_last_wal_replay_lsn", |source, _| followed(source, |database| database.snapshot().lsn())),
    ("pg_last_xact_replay_timestamp", |source, _| {
        let replication = source.replication();
        let standby = replication.as_ref().and_then(|replication| replication.database().standby());
        let ended = standby.and_then(|standby| standby.statistics().ok()?.last_end_micros);
        Ok(ended.map_or(Datum::Null, moment_since_1970))
    }),
    ("pg_promote", promote),
    ("pg_wal_replay_pause", |source, _| {
        let paused =
            on_standby(source, "pg_wal_replay_pause", Asks::Superuser, |standby| standby.pause_applying());
        paused.map(|()| Datum::text(""))
    }),
    ("pg_wal_replay_resume", |source, _| {
        let resumed =
            on_standby(source, "pg_wal_replay_resume", Asks::Superuser, |standby| standby.resume_applying());
        resumed.map(|()| Datum::text(""))
    }),
    ("pg_is_wal_replay_paused", |source, _| {
        let name = "pg_is_wal_replay_paused";
        on_standby(source, name, Asks::Anybody, is_paused).map(Datum::Bool)
    }),
    ("pg_get_wal_replay_pause_state", |source, _| {
        let name = "pg_get_wal_replay_pause_state";
        let is_paused = on_standby(source, name, Asks::Anybody, is_paused)?;
        Ok(Datum::text(if is_paused { "paused" } else { "not paused" }))
    }),
    ("inet_client_addr", |source, _| Ok(addresses(source).0)),
    ("inet_client_port", |source, _| Ok(addresses(source).1)),
    ("inet_server_addr", |source, _| Ok(addresses(source).2)),
    ("inet_server_port", |source, _| Ok(addresses(source).3)),
    ("pg_client_encoding", |_, _| Ok(name("UTF8"))),
    ("getdatabaseencoding", |_, _| Ok(name("UTF8"))),
    ("PG_encoding_to_char", |_, call| Ok(name(encoding_name(integer(call, 0)?)))),
    ("PG_char_to_encoding", encoding_number),
    ("pg_encoding_max_length_sql", encoding_length),
    ("pg_current_xact_id", |source, call| transaction(source, call, true)),
    ("pg_current_xact_id_if_assigned", |source, call| transaction(source, call, false)),
    ("pg_typeof", |_, call| Ok(call.argument_types.first().map_or(Datum::Null, |of| Datum::Oid(of.oid)))),
    ("pg_collation_for", nothing),
    ("pg_collation_actual_version", nothing),
    ("pg_tablespace_location", |_, _| Ok(Datum::text(""))),
    ("pg_relation_is_publishable", |_, _| Ok(Datum::Bool(false))),
    ("pg_partition_root", nothing),
    ("pg_sequence_parameters", sequence_parameters),
    ("pg_relation_is_updatable", relation_is_updatable),
    ("pg_column_is_updatable", |source, call| match relation_is_updatable(source, call)? {
        Datum::Int4(events) => Ok(Datum::Bool(events != 0)),
        _ => Ok(Datum::Bool(false)),
    }),
];

/// PostgreSQL's version whose behaviour this is, and Seawall's.
fn version(source: &mut dyn Source, _call: &Call<'_>) -> SqlResult<Datum> {
    let settings = source.settings();
    let shown = settings
        .iter()
        .find(|setting| setting.name == "server_version")
        .map(|setting| setting.value.as_str());
    let shown = shown.unwrap_or("15");
    let (seawall, architecture, system) =
        (env!("CARGO_PKG_VERSION"), std::env::consts::ARCH, std::env::consts::OS);
    Ok(Datum::text(format!(
        "PostgreSQL {shown} (Seawall {seawall}) on {architecture}-unknown-{system}, compiled by rustc, {}-bit",
        usize::BITS
    )))
}

/// A position of a log that is written here.
///
/// # Errors
/// `55000`: it is another server's.
fn written(source: &mut dyn Source, position: fn(&EngineTotals) -> u64) -> SqlResult<Datum> {
    if source.asker().is_in_recovery {
        let error = SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, "recovery is in progress");
        return Err(error.with_hint("WAL control functions cannot be executed during recovery."));
    }
    Ok(Datum::Unsigned8(position(&source.engine_totals())))
}

/// A position of the log of another server; null on one that follows none.
fn followed(source: &mut dyn Source, position: fn(&Database) -> Lsn) -> SqlResult<Datum> {
    let replication = source.replication().filter(|replication| replication.database().standby().is_some());
    Ok(replication.map_or(Datum::Null, |found| Datum::Unsigned8(position(found.database()).get())))
}

/// Who may call a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asks {
    Superuser,
    Anybody,
}

/// What only a standby can do.
///
/// # Errors
/// `55000`: the server is not a standby; `42501`.
fn on_standby<T>(
    source: &mut dyn Source,
    function: &str,
    asks: Asks,
    act: impl FnOnce(Standby<'_>) -> T,
) -> SqlResult<T> {
    if asks == Asks::Superuser && !source.asker().is_superuser {
        let message = format!("permission denied for function {function}");
        return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
    }
    let replication = source.replication();
    let standby = replication.as_ref().and_then(|replication| replication.database().standby());
    standby.map(act).ok_or_else(not_in_recovery)
}

fn is_paused(standby: Standby<'_>) -> bool {
    standby.statistics().is_ok_and(|statistics| statistics.paused)
}

fn promote(source: &mut dyn Source, _call: &Call<'_>) -> SqlResult<Datum> {
    if !source.asker().is_superuser {
        let message = "permission denied for function pg_promote";
        return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
    }
    source.promote()?;
    Ok(Datum::Bool(true))
}

fn role(source: &mut dyn Source, oid: Oid) -> SqlResult<Datum> {
    Ok(name(&role_name(source, oid)?.unwrap_or_else(|| unknown_role(oid))))
}

/// The first schema of the search path that is written in it; null: there is none.
fn current_schema(source: &mut dyn Source, _call: &Call<'_>) -> SqlResult<Datum> {
    let asker = source.asker();
    let Some(namespace) = asker.search_path.get(asker.implied).copied() else { return Ok(Datum::Null) };
    Ok(namespace_name(source, namespace)?.map_or(Datum::Null, Datum::text))
}

fn current_schemas(source: &mut dyn Source, call: &Call<'_>) -> SqlResult<Datum> {
    let asker = source.asker();
    let skipped = if boolean(call, 0)? { 0 } else { asker.implied };
    let path: Vec<Oid> = asker.search_path.iter().skip(skipped).copied().collect();
    let mut names = Vec::new();
    for namespace in path {
        names.extend(namespace_name(source, namespace)?.map(Datum::text));
    }
    Ok(array(oid::NAME, names))
}

/// Address and port of the client and of the server; null without a network.
fn addresses(source: &mut dyn Source) -> (Datum, Datum, Datum, Datum) {
    match &source.asker().addresses {
        Some((client, server)) => {
            (Datum::text(&client.0), Datum::Int4(client.1), Datum::text(&server.0), Datum::Int4(server.1))
        }
        None => (Datum::Null, Datum::Null, Datum::Null, Datum::Null),
    }
}

/// PostgreSQL's encodings in the order of their numbers.
const ENCODINGS: [&str; 42] = [
    "SQL_ASCII",
    "EUC_JP",
    "EUC_CN",
    "EUC_KR",
    "EUC_TW",
    "EUC_JIS_2004",
    "UTF8",
    "MULE_INTERNAL",
    "LATIN1",
    "LATIN2",
    "LATIN3",
    "LATIN4",
    "LATIN5",
    "LATIN6",
    "LATIN7",
    "LATIN8",
    "LATIN9",
    "LATIN10",
    "WIN1256",
    "WIN1258",
    "WIN866",
    "WIN874",
    "KOI8R",
    "WIN1251",
    "WIN1252",
    "ISO_8859_5",
    "ISO_8859_6",
    "ISO_8859_7",
    "ISO_8859_8",
    "WIN1250",
    "WIN1253",
    "WIN1254",
    "WIN1255",
    "WIN1257",
    "KOI8U",
    "SJIS",
    "BIG5",
    "GBK",
    "UHC",
    "GB18030",
    "JOHAB",
    "SHIFT_JIS_2004",
];

fn encoding_name(number: i64) -> &'static str {
    usize::try_from(number).ok().and_then(|number| ENCODINGS.get(number)).copied().unwrap_or("")
}

fn encoding_number(_source: &mut dyn Source, call: &Call<'_>) -> SqlResult<Datum> {
    Ok(Datum::Int4(encoding_named(text(call, 0)?).map_or(-1, |(number, _)| number)))
}

/// The number of an encoding and its name in PostgreSQL's own form, by its name in any form that PostgreSQL takes.
pub(crate) fn encoding_named(name: &str) -> Option<(i32, &'static str)> {
    let plain =
        |name: &str| name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_lowercase();
    let asked = plain(name);
    if asked == "unicode" {
        return Some((UTF8, "UTF8"));
    }
    let found = ENCODINGS.iter().zip(0..).find(|(known, _)| plain(known) == asked);
    found.map(|(name, number)| (number, *name))
}

/// Bytes that a character has at most: known of the encoding that databases have.
fn encoding_length(_source: &mut dyn Source, call: &Call<'_>) -> SqlResult<Datum> {
    Ok(if integer(call, 0)? == i64::from(UTF8) { Datum::Int4(4) } else { Datum::Null })
}

/// `pg_current_xact_id` and the older `txid_current`, which has another type.
fn transaction(source: &mut dyn Source, call: &Call<'_>, is_assigned: bool) -> SqlResult<Datum> {
    Ok(match source.transaction_number(is_assigned)? {
        None => Datum::Null,
        Some(number) if call.result_type.oid == oid::XID8 => Datum::Unsigned8(number),
        Some(number) => super::super::live::count(number),
    })
}

/// Bits of the events that a relation takes: tables all three, others none.
fn relation_is_updatable(source: &mut dyn Source, call: &Call<'_>) -> SqlResult<Datum> {
    const INSERT_UPDATE_DELETE: i32 = 1 << 3 | 1 << 2 | 1 << 4;
    let found = source.definition(object(call, 0)?)?;
    let is_table = matches!(found, Some(Definition::Table(_)));
    Ok(Datum::Int4(if is_table { INSERT_UPDATE_DELETE } else { 0 }))
}

/// A sequence's options as a row.
fn sequence_parameters(source: &mut dyn Source, call: &Call<'_>) -> SqlResult<Datum> {
    let Some(Definition::Sequence(sequence)) = source.definition(object(call, 0)?)? else {
        return Ok(Datum::Null);
    };
    let fields = [
        (oid::INT8, Datum::Int8(sequence.start)),
        (oid::INT8, Datum::Int8(sequence.minimum)),
        (oid::INT8, Datum::Int8(sequence.maximum)),
        (oid::INT8, Datum::Int8(sequence.increment)),
        (oid::BOOL, Datum::Bool(sequence.is_cycling)),
        (oid::INT8, Datum::Int8(sequence.cache)),
        (oid::OID, Datum::Oid(sequence.of)),
    ];
    let (types, values) = fields.into_iter().unzip();
    Ok(Datum::Record(Arc::new(Record { types, names: None, values })))
}
