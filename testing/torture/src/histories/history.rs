//! What clients did and saw.

use serde::Serialize;

/// Number of a list.
pub(super) type Key = u64;
/// What is appended: each one once.
pub(super) type Element = u64;

/// One step of a transaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) enum Operation {
    /// The whole list was read. One that is not there is empty.
    Read {
        key: Key,
        list: Vec<Element>,
    },
    Append {
        key: Key,
        element: Element,
    },
}

/// What the client was told at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) enum Outcome {
    Committed,
    /// Certainly not committed: rolled back, or refused.
    Aborted,
    /// The database stopped before it answered, so that recovery has decided.
    Unknown,
}

/// Where a transaction ran. `Default`: on the only server that there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Place {
    pub(super) server: u32,
    /// The server was a standby, which may lag: of real time, only what happened on the same server counts.
    pub(super) is_standby: bool,
    /// The stamp of its commit; of a reader of a standby, the snapshot. `None`: not known.
    pub(super) position: Option<u64>,
    /// Begin of the transaction whose commit the server had applied for certain when this one began.
    pub(super) awaited: Option<u64>,
}

/// One try of a client. Moments are counted, not timed: each begin and end in the whole history has a number of its
/// own.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Transaction {
    pub(super) client: u32,
    /// Before it did anything.
    pub(super) begin: u64,
    /// After the client was told of the outcome; of an unknown one, after the recovery that decided.
    pub(super) end: u64,
    pub(super) outcome: Outcome,
    /// The client waited until it was on stable storage.
    pub(super) is_durable: bool,
    pub(super) operations: Vec<Operation>,
    pub(super) place: Place,
}

impl Transaction {
    /// `(key, list)` of each read, in order.
    pub(super) fn reads(&self) -> impl Iterator<Item = (Key, &[Element])> {
        self.operations.iter().filter_map(|operation| match operation {
            Operation::Read { key, list } => Some((*key, list.as_slice())),
            Operation::Append { .. } => None,
        })
    }

    /// `(key, element)` of each append, in order.
    pub(super) fn appends(&self) -> impl Iterator<Item = (Key, Element)> {
        self.operations.iter().filter_map(|operation| match operation {
            Operation::Append { key, element } => Some((*key, *element)),
            Operation::Read { .. } => None,
        })
    }

    pub(super) fn is_committed(&self) -> bool {
        self.outcome == Outcome::Committed
    }
}

/// All transactions, in no particular order.
pub(super) type History = Vec<Transaction>;
