//! Lock modes: eight, from one that conflicts only with the strongest to an exclusive one.
//!
//! Modes and conflicts are those of PostgreSQL's tables. Rows use four of them: see [`RowLock`].

/// How a lock is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LockMode {
    /// `ACCESS SHARE`.
    AccessShare,
    /// `ROW SHARE`.
    RowShare,
    /// `ROW EXCLUSIVE`.
    RowExclusive,
    /// `SHARE UPDATE EXCLUSIVE`.
    ShareUpdateExclusive,
    /// `SHARE`.
    Share,
    /// `SHARE ROW EXCLUSIVE`.
    ShareRowExclusive,
    /// `EXCLUSIVE`.
    Exclusive,
    /// `ACCESS EXCLUSIVE`: held alone.
    AccessExclusive,
}

impl LockMode {
    /// All modes, from the weakest on.
    pub const ALL: [LockMode; 8] = [
        LockMode::AccessShare,
        LockMode::RowShare,
        LockMode::RowExclusive,
        LockMode::ShareUpdateExclusive,
        LockMode::Share,
        LockMode::ShareRowExclusive,
        LockMode::Exclusive,
        LockMode::AccessExclusive,
    ];

    /// The modes that no other owner may hold at the same time.
    pub(crate) fn conflicts(self) -> LockModes {
        LockModes(match self {
            LockMode::AccessShare => 0b1000_0000,
            LockMode::RowShare => 0b1100_0000,
            LockMode::RowExclusive => 0b1111_0000,
            LockMode::ShareUpdateExclusive => 0b1111_1000,
            LockMode::Share => 0b1110_1100,
            LockMode::ShareRowExclusive => 0b1111_1100,
            LockMode::Exclusive => 0b1111_1110,
            LockMode::AccessExclusive => 0b1111_1111,
        })
    }
}

/// A set of modes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LockModes(pub(crate) u8);

impl LockModes {
    /// Whether the set has no mode.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether the mode is in the set.
    pub fn has(self, mode: LockMode) -> bool {
        self.0 & LockModes::from(mode).0 != 0
    }

    /// The set with one more mode.
    #[must_use]
    pub fn with(self, mode: LockMode) -> LockModes {
        LockModes(self.0 | LockModes::from(mode).0)
    }

    /// The set without a mode.
    pub(crate) fn without(self, mode: LockMode) -> LockModes {
        LockModes(self.0 & !LockModes::from(mode).0)
    }

    /// The modes of the set, from the weakest on.
    pub fn iter(self) -> impl Iterator<Item = LockMode> {
        LockMode::ALL.into_iter().filter(move |mode| self.has(*mode))
    }

    /// Whether another owner may not hold any of these modes beside `mode`.
    pub(crate) fn conflict_with(self, mode: LockMode) -> bool {
        self.0 & mode.conflicts().0 != 0
    }

    /// Whether whatever conflicts with `mode` conflicts with the set already: taking `mode` beside it changes nothing.
    pub(crate) fn cover(self, mode: LockMode) -> bool {
        if self.has(mode) || self.has(LockMode::AccessExclusive) {
            return true;
        }
        let together = self.iter().fold(0, |all, held| all | held.conflicts().0);
        mode.conflicts().0 & !together == 0
    }
}

impl From<LockMode> for LockModes {
    fn from(mode: LockMode) -> LockModes {
        LockModes(1 << (mode as u8))
    }
}

/// How a row is locked.
///
/// | beside another's | KeyShare | Share | NoKeyUpdate | Update |
/// |------------------|----------|-------|-------------|--------|
/// | KeyShare         | yes      | yes   | yes         |        |
/// | Share            | yes      | yes   |             |        |
/// | NoKeyUpdate      | yes      |       |             |        |
/// | Update           |          |       |             |        |
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RowLock {
    /// The row stays: no other transaction deletes it. Others write its value, which `put` does under `NoKeyUpdate`.
    KeyShare,
    /// The row stays as it is.
    Share,
    /// For a new value under the same key.
    NoKeyUpdate,
    /// For anything; a delete takes it.
    Update,
}

impl RowLock {
    /// The mode that a row lock is held in.
    pub(crate) fn mode(self) -> LockMode {
        match self {
            RowLock::KeyShare => LockMode::AccessShare,
            RowLock::Share => LockMode::RowShare,
            RowLock::NoKeyUpdate => LockMode::Exclusive,
            RowLock::Update => LockMode::AccessExclusive,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_conflict_as_in_postgresql() {
        for (row, one) in LockMode::ALL.iter().enumerate() {
            for (column, other) in LockMode::ALL.iter().enumerate() {
                let conflicts = LockModes::from(*one).conflict_with(*other);
                assert_eq!(conflicts, LockModes::from(*other).conflict_with(*one), "{one:?} and {other:?}");
                // PostgreSQL's table is a staircase, but for SHARE with itself and two steps of SHARE UPDATE EXCLUSIVE.
                let expected = match (row.min(column), row.max(column)) {
                    (4, 4) => false,
                    (3, 3) => true,
                    (2, 3) => false,
                    (low, high) => low + high >= 7 - usize::from(low == 2 && high == 4),
                };
                assert_eq!(conflicts, expected, "{one:?} and {other:?}");
            }
        }
    }

    #[test]
    fn rows_are_shared_as_the_table_says() {
        let strengths = [RowLock::KeyShare, RowLock::Share, RowLock::NoKeyUpdate, RowLock::Update];
        for (row, one) in strengths.iter().enumerate() {
            for (column, other) in strengths.iter().enumerate() {
                let conflicts = LockModes::from(one.mode()).conflict_with(other.mode());
                assert_eq!(conflicts, row + column >= 3, "{one:?} and {other:?}");
                assert_eq!(LockModes::from(one.mode()).cover(other.mode()), one >= other);
            }
        }
    }
}
