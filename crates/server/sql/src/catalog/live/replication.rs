//! Views of replication: streams to standbys, the stream from a primary, slots.

use seawall_replication::{ReceiverStatus, SenderStatus, SlotInfo, SyncState};
use seawall_types::{Lsn, TimelineId};
use seawall_values::{Datum, Interval, SqlError, SqlResult, SqlState};

use super::super::names::{Names, role_number};
use super::super::source::Source;
use super::{Live, Rows, Table, moment_since_1970, name};

pub(super) const TABLE: Table = &[
    ("pg_stat_replication", Live::Once(pg_stat_replication)),
    ("pg_stat_wal_receiver", Live::Once(pg_stat_wal_receiver)),
    ("pg_replication_slots", Live::Once(pg_replication_slots)),
];

fn interval(micros: i64) -> Datum {
    Datum::Interval(Interval { months: 0, days: 0, micros })
}

fn position(lsn: Lsn) -> Datum {
    Datum::Unsigned8(lsn.get())
}

fn optional<T>(value: Option<T>, datum: impl FnOnce(T) -> Datum) -> Datum {
    value.map_or(Datum::Null, datum)
}

fn pg_stat_replication(source: &mut dyn Source, _names: &Names, rows: &mut Rows) -> SqlResult<()> {
    let senders = source.replication().map(|replication| {
        let states = |sender| (replication.sync_state(&sender), sender);
        replication.senders().into_iter().map(states).collect::<Vec<_>>()
    });
    for (state, sender) in senders.unwrap_or_default() {
        let user = role_number(source, &sender.user)?;
        rows.push_back(of_sender(sender, optional(user, Datum::Oid), state));
    }
    Ok(())
}

fn of_sender(sender: SenderStatus, user: Datum, (priority, state): (usize, SyncState)) -> Vec<Datum> {
    let (address, port) = match sender.client {
        Some((address, port)) => (Datum::text(address), Datum::Int4(i32::from(port))),
        None => (Datum::Null, Datum::Int4(-1)),
    };
    vec![
        Datum::Int4(sender.process_id),
        user,
        name(&sender.user),
        Datum::text(sender.application_name),
        address,
        Datum::Null,
        port,
        moment_since_1970(sender.began_micros),
        Datum::Null,
        Datum::text(if sender.is_streaming { "streaming" } else { "catchup" }),
        position(sender.sent),
        position(sender.progress.written),
        position(sender.progress.flushed),
        position(sender.progress.applied),
        optional(sender.lag.write_micros, interval),
        optional(sender.lag.flush_micros, interval),
        optional(sender.lag.replay_micros, interval),
        Datum::Int4(i32::try_from(priority).unwrap_or(i32::MAX)),
        Datum::text(state.name()),
        optional(sender.reply_micros, moment_since_1970),
    ]
}

fn pg_stat_wal_receiver(source: &mut dyn Source, _names: &Names, rows: &mut Rows) -> SqlResult<()> {
    let found = source.replication().and_then(|replication| replication.receiver());
    rows.extend(found.map(of_receiver));
    Ok(())
}

fn of_receiver(receiver: ReceiverStatus) -> Vec<Datum> {
    let timeline = |timeline: TimelineId| Datum::Int4(timeline.get().cast_signed());
    vec![
        // A thread of the server, and no process of its own.
        Datum::Int4(i32::try_from(std::process::id()).unwrap_or(0)),
        Datum::text(receiver.state),
        position(receiver.started_at),
        timeline(receiver.started_timeline),
        position(receiver.progress.written),
        position(receiver.progress.flushed),
        timeline(receiver.timeline),
        optional(receiver.message_micros, |(sent, _)| moment_since_1970(sent)),
        optional(receiver.message_micros, |(_, received)| moment_since_1970(received)),
        position(receiver.upstream_end),
        optional(receiver.end_micros, moment_since_1970),
        optional(receiver.slot, Datum::text),
        Datum::text(receiver.address.0),
        Datum::Int4(i32::from(receiver.address.1)),
        Datum::text(receiver.upstream),
    ]
}

fn pg_replication_slots(source: &mut dyn Source, _names: &Names, rows: &mut Rows) -> SqlResult<()> {
    let Some(replication) = source.replication() else { return Ok(()) };
    let slots = replication.slots();
    let slots = slots.map_err(|error| SqlError::new(SqlState::IO_ERROR, error.to_string()))?;
    rows.extend(slots.into_iter().map(of_slot));
    Ok(())
}

fn of_slot(slot: SlotInfo) -> Vec<Datum> {
    vec![
        name(&slot.name),
        Datum::Null,
        Datum::text("physical"),
        Datum::Null,
        Datum::Null,
        Datum::Bool(slot.is_temporary),
        Datum::Bool(slot.active.is_some()),
        optional(slot.active, Datum::Int4),
        Datum::Null,
        Datum::Null,
        if slot.is_lost { Datum::Null } else { position(slot.position) },
        Datum::Null,
        Datum::text(status_of(&slot)),
        optional(slot.safe_bytes, Datum::Int8),
        Datum::Bool(false),
    ]
}

/// PostgreSQL's word for how safe the log is that the slot keeps.
fn status_of(slot: &SlotInfo) -> &'static str {
    match slot.safe_bytes {
        _ if slot.is_lost => "lost",
        Some(bytes) if bytes < 0 => "unreserved",
        Some(_) | None => "reserved",
    }
}
