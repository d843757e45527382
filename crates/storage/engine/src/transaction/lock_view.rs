//! Locks and waits, as programs see them.

use crate::transaction::lock_mode::{LockMode, LockModes};

/// An object of the program that can be locked: what `kind` and `number` mean is the program's business.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LockTag {
    /// Which sort of object.
    pub kind: u32,
    /// Which of them.
    pub number: u64,
}

/// What is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockTarget {
    /// A row, held by this transaction, or by one of them. Numbers of transactions begin anew when the database is opened.
    Row {
        /// The number of the holder.
        holder: u64,
    },
    /// An object.
    Object(LockTag),
}

/// A session that waits for another one, as one of a circle of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CircleMember {
    /// The number of the session; 0: it has none.
    pub session: i32,
    /// What it waits for.
    pub target: LockTarget,
    /// How it would hold that.
    pub mode: LockMode,
}

/// An object that is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockedObject {
    /// The number of the session that has locked it.
    pub session: i32,
    /// Which object.
    pub tag: LockTag,
    /// How it is held.
    pub modes: LockModes,
}

/// A request that waits for a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingRequest {
    /// The number of the session that waits; 0: it has none.
    pub session: i32,
    /// What it waits for.
    pub target: LockTarget,
    /// How it would hold that.
    pub mode: LockMode,
    /// When it began to wait, in microseconds since 1970.
    pub since_micros: i64,
    /// The numbers of the sessions that hold the lock, or came first; 0: transactions in doubt, or without a session.
    pub blocked_by: Vec<i32>,
}
