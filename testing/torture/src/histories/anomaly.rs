//! What may not happen, by its name in the literature, and which isolation level rules it out.
//!
//! Cycles are those of Adya ("Weak Consistency: A Generalized Theory and Optimistic Implementations for Distributed
//! Transactions", thesis, MIT 1999): an edge leads from one transaction to another that must come after it, because
//! it overwrote (`ww`) or read (`wr`) what the first wrote, or overwrote what the first read (`rw`). What Snapshot
//! rules out is every cycle without two adjacent `rw` edges (Fekete et al., "Making Snapshot Isolation Serializable",
//! TODS 2005; Cerone and Gotsman, "Analysing Snapshot Isolation", JACM 2018). How they are found in lists is
//! Kingsbury and Alvaro, "Elle: Inferring Isolation Anomalies from Experimental Observations", VLDB 2020.

use std::fmt;

use seawall::Isolation;
use serde::Serialize;

/// A name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(super) enum Kind {
    /// An element is in a list twice.
    DuplicateElement,
    /// Two reads of a list, neither of which is a beginning of the other.
    IncompatibleOrder,
    /// A read of something that nobody appended.
    GarbageRead,
    /// G1a: a read of what a transaction appended that did not commit.
    AbortedRead,
    /// G1b: a read of a part of what a transaction appended.
    IntermediateRead,
    /// A transaction does not see what it has seen or appended itself before.
    InternalInconsistency,
    /// A committed append that a later transaction does not see, and nobody ever does.
    LostAppend,
    /// A transaction does not see what was committed before it began, though others do.
    StaleRead,
    /// A reader of a standby sees more or less than its snapshot has.
    OutOfPosition,
    /// Two transactions changed a list after they had read the same state of it.
    LostUpdate,
    /// A cycle of `ww`.
    G0,
    /// A cycle of `ww` and `wr`.
    G1c,
    /// A cycle with one `rw`.
    GSingle,
    /// A cycle with several `rw`, no two of them adjacent.
    GNonadjacent,
    /// Any other cycle with `rw`.
    G2,
}

/// Something that must not happen, with those who were part of it.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Anomaly {
    pub(super) kind: Kind,
    /// The cycle closes only if it counts that a transaction had ended before another began.
    pub(super) in_real_time: bool,
    /// What was seen.
    pub(super) explanation: String,
    /// Indices in the history.
    pub(super) transactions: Vec<usize>,
}

impl Anomaly {
    pub(super) fn new(kind: Kind, explanation: String, transactions: Vec<usize>) -> Anomaly {
        Anomaly { kind, in_real_time: false, explanation, transactions }
    }
}

impl fmt::Display for Anomaly {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let in_real_time = if self.in_real_time { " in real time" } else { "" };
        write!(formatter, "{:?}{in_real_time}: {}", self.kind, self.explanation)
    }
}

/// Cycles that are looked for, each kind with all before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CycleKind {
    WriteCycles,
    InformationFlow,
    NoAdjacentAntiDependencies,
    All,
}

/// The cycles that `isolation` rules out. All else of `Kind` is ruled out by every level: a read always sees a list
/// as it was committed, whoever commits or begins later sees it, and appends are made of a read for update and a
/// write.
pub(super) fn forbidden_cycles(isolation: Isolation) -> &'static [CycleKind] {
    use CycleKind::{All, InformationFlow, NoAdjacentAntiDependencies, WriteCycles};
    match isolation {
        Isolation::ReadCommitted => &[WriteCycles, InformationFlow],
        Isolation::Snapshot => &[WriteCycles, InformationFlow, NoAdjacentAntiDependencies],
        Isolation::Serializable => &[WriteCycles, InformationFlow, NoAdjacentAntiDependencies, All],
    }
}
