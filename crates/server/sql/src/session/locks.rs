//! Locks as system relations show them: those of the engine, under PostgreSQL's names.
//!
//! A row lock takes no place in `pg_locks`, as in PostgreSQL: a session that waits for a row waits for the transaction that has the row.

use seawall_engine::{LockMode, LockTarget, WaitingRequest};

use super::SqlDatabase;
use crate::catalog::source::{Activity, HeldLock};
use crate::storage::lock_tag::{LockedThing, mode_name, shown_transaction};

/// 2000-01-01 in microseconds since 1970-01-01.
const EPOCH_MICROS: i64 = 946_684_800_000_000;

/// Sessions that have a transaction, with its number.
type Transactions = [(i32, u64)];

fn virtual_transaction(session: i32, transactions: &Transactions) -> String {
    let transaction = transactions.iter().find(|(known, _)| *known == session);
    format!("{session}/{}", transaction.map_or(0, |(_, number)| *number))
}

fn lock_of(session: i32, mode: LockMode, transactions: &Transactions) -> HeldLock {
    HeldLock {
        kind: "virtualxid",
        relation: None,
        transaction: None,
        virtual_id: None,
        advisory: None,
        process_id: Some(session),
        virtual_transaction: virtual_transaction(session, transactions),
        mode: mode_name(mode),
        is_granted: true,
        waiting_since: None,
    }
}

fn of_thing(thing: LockedThing, lock: HeldLock) -> HeldLock {
    HeldLock { kind: thing.kind(), relation: thing.relation(), advisory: thing.advisory(), ..lock }
}

fn waiting(wait: &WaitingRequest, transactions: &Transactions) -> HeldLock {
    let since = Some(wait.since_micros.saturating_sub(EPOCH_MICROS));
    let lock = |mode| HeldLock {
        is_granted: false,
        waiting_since: since,
        ..lock_of(wait.session, mode, transactions)
    };
    match wait.target {
        LockTarget::Object(tag) => of_thing(LockedThing::of(tag), lock(wait.mode)),
        LockTarget::Row { holder } => HeldLock {
            kind: "transactionid",
            transaction: Some(shown_transaction(holder)),
            ..lock(LockMode::Share)
        },
    }
}

/// The lock of its own number that a transaction holds.
fn of_transaction(number: u64, transactions: &Transactions) -> HeldLock {
    let session = transactions.iter().find(|(_, known)| *known == number).map(|(session, _)| *session);
    let lock = HeldLock {
        kind: "transactionid",
        transaction: Some(shown_transaction(number)),
        ..lock_of(session.unwrap_or_default(), LockMode::Exclusive, transactions)
    };
    match session {
        Some(_) => lock,
        // A prepared one.
        None => HeldLock { process_id: None, virtual_transaction: format!("-1/{number}"), ..lock },
    }
}

impl SqlDatabase {
    /// All locks, held and waited for.
    pub(super) fn locks(&self) -> Vec<HeldLock> {
        let transactions = self.engine.transactions_of_sessions();
        let waits = self.engine.waiting_requests();
        let mut locks: Vec<HeldLock> = Vec::new();
        for (session, _) in &transactions {
            let lock = lock_of(*session, LockMode::Exclusive, &transactions);
            locks.push(HeldLock { virtual_id: Some(lock.virtual_transaction.clone()), ..lock });
        }
        for held in self.engine.locked_objects() {
            let thing = LockedThing::of(held.tag);
            let shown = |mode| of_thing(thing, lock_of(held.session, mode, &transactions));
            locks.extend(held.modes.iter().map(shown));
        }
        let mut waited_for: Vec<u64> = waits.iter().filter_map(holder_of).collect();
        waited_for.sort_unstable();
        waited_for.dedup();
        locks.extend(waited_for.into_iter().map(|number| of_transaction(number, &transactions)));
        locks.extend(waits.iter().map(|wait| waiting(wait, &transactions)));
        locks
    }

    /// What all sessions do.
    pub(super) fn activity(&self) -> Vec<Activity> {
        let mut sessions = self.activities.all();
        for wait in self.engine.waiting_requests() {
            if let Some(session) = sessions.iter_mut().find(|session| session.process_id == wait.session) {
                session.wait = Some(("Lock", event_of(&wait)));
            }
        }
        sessions
    }
}

fn holder_of(wait: &WaitingRequest) -> Option<u64> {
    match wait.target {
        LockTarget::Row { holder } => Some(holder),
        LockTarget::Object(_) => None,
    }
}

fn event_of(wait: &WaitingRequest) -> &'static str {
    match wait.target {
        LockTarget::Row { .. } => "transactionid",
        LockTarget::Object(tag) => LockedThing::of(tag).kind(),
    }
}
