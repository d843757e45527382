//! A timeline: its number, and what distinguishes it from another one of the same number.

use crate::lsn::Lsn;
use crate::names::{TimelineId, TimelineMark};

/// A timeline, distinguished from every other of the same database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeline {
    /// Its number.
    pub id: TimelineId,
    /// The LSN where it left its parent; zero for the first.
    pub began: Lsn,
    /// Its mark.
    pub mark: TimelineMark,
}

impl Timeline {
    /// The timeline of a new database.
    pub const FIRST: Timeline =
        Timeline { id: TimelineId::FIRST, began: Lsn::ZERO, mark: TimelineMark::NONE };
}
