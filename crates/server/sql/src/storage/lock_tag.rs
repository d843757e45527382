//! What the engine's locks of objects stand for: tables, and numbers of the clients'.

use seawall_engine::{CircleMember, LockMode, LockTag, LockTarget};
use seawall_values::Oid;

use crate::catalog::numbers::DATABASE;

const RELATION: u32 = 0;
const ADVISORY_ONE: u32 = 1;
const ADVISORY_TWO: u32 = 2;

/// An object that is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum LockedThing {
    Relation(Oid),
    /// A number of the clients': a `bigint`.
    AdvisoryOne(i64),
    /// Two `integer`s, which are never equal to a `bigint`.
    AdvisoryTwo(i32, i32),
}

fn halves(number: u64) -> (u32, u32) {
    let bytes = number.to_be_bytes();
    let half = |start: usize| bytes[start..start + 4].iter().fold(0, |sum, byte| sum << 8 | u32::from(*byte));
    (half(0), half(4))
}

impl LockedThing {
    pub(crate) fn tag(self) -> LockTag {
        match self {
            LockedThing::Relation(table) => LockTag { kind: RELATION, number: u64::from(table) },
            LockedThing::AdvisoryOne(number) => {
                LockTag { kind: ADVISORY_ONE, number: number.cast_unsigned() }
            }
            LockedThing::AdvisoryTwo(first, second) => {
                let (first, second) = (first.cast_unsigned(), second.cast_unsigned());
                LockTag { kind: ADVISORY_TWO, number: u64::from(first) << 32 | u64::from(second) }
            }
        }
    }

    pub(crate) fn of(tag: LockTag) -> LockedThing {
        let (first, second) = halves(tag.number);
        match tag.kind {
            ADVISORY_ONE => LockedThing::AdvisoryOne(tag.number.cast_signed()),
            ADVISORY_TWO => LockedThing::AdvisoryTwo(first.cast_signed(), second.cast_signed()),
            _ => LockedThing::Relation(second),
        }
    }

    /// The number of the table.
    pub(crate) fn relation(self) -> Option<Oid> {
        match self {
            LockedThing::Relation(table) => Some(table),
            LockedThing::AdvisoryOne(_) | LockedThing::AdvisoryTwo(..) => None,
        }
    }

    /// `classid`, `objid` and `objsubid` of `pg_locks`.
    pub(crate) fn advisory(self) -> Option<(Oid, Oid, i16)> {
        match self {
            LockedThing::Relation(_) => None,
            LockedThing::AdvisoryOne(number) => {
                let (first, second) = halves(number.cast_unsigned());
                Some((first, second, 1))
            }
            LockedThing::AdvisoryTwo(first, second) => {
                Some((first.cast_unsigned(), second.cast_unsigned(), 2))
            }
        }
    }

    /// `locktype` of `pg_locks`, and what a session that waits for it waits for.
    pub(crate) fn kind(self) -> &'static str {
        match self {
            LockedThing::Relation(_) => "relation",
            LockedThing::AdvisoryOne(_) | LockedThing::AdvisoryTwo(..) => "advisory",
        }
    }

    fn description(self) -> String {
        match (self, self.advisory()) {
            (_, Some((class, object, part))) => {
                format!("advisory lock [{DATABASE},{class},{object},{part}]")
            }
            (thing, None) => {
                format!("relation {} of database {DATABASE}", thing.relation().unwrap_or_default())
            }
        }
    }
}

/// The name of a mode in `pg_locks` and in messages.
pub(crate) fn mode_name(mode: LockMode) -> &'static str {
    match mode {
        LockMode::AccessShare => "AccessShareLock",
        LockMode::RowShare => "RowShareLock",
        LockMode::RowExclusive => "RowExclusiveLock",
        LockMode::ShareUpdateExclusive => "ShareUpdateExclusiveLock",
        LockMode::Share => "ShareLock",
        LockMode::ShareRowExclusive => "ShareRowExclusiveLock",
        LockMode::Exclusive => "ExclusiveLock",
        LockMode::AccessExclusive => "AccessExclusiveLock",
    }
}

/// The number of a transaction as statements show it.
pub(crate) fn shown_transaction(number: u64) -> u32 {
    halves(number).1
}

/// The detail of a deadlock: a line for each session, which waits for the next one.
pub(crate) fn circle_detail(circle: &[CircleMember]) -> String {
    let next = circle.iter().skip(1).chain(circle.first());
    let lines = circle.iter().zip(next).map(|(member, next)| {
        let what = match member.target {
            // Whoever wants a row waits for the end of the transaction that has it.
            LockTarget::Row { holder } => {
                format!("{} on transaction {}", mode_name(LockMode::Share), shown_transaction(holder))
            }
            LockTarget::Object(tag) => {
                format!("{} on {}", mode_name(member.mode), LockedThing::of(tag).description())
            }
        };
        format!("Process {} waits for {what}; blocked by process {}.", member.session, next.session)
    });
    lines.collect::<Vec<String>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_come_back_from_their_tags() {
        let things = [
            LockedThing::Relation(16_384),
            LockedThing::AdvisoryOne(-1),
            LockedThing::AdvisoryOne(i64::MAX),
            LockedThing::AdvisoryTwo(-1, i32::MIN),
            LockedThing::AdvisoryTwo(0, 7),
        ];
        for thing in things {
            assert_eq!(LockedThing::of(thing.tag()), thing);
        }
        assert_eq!(LockedThing::AdvisoryOne(5 << 32 | 6).advisory(), Some((5, 6, 1)));
    }

    #[test]
    fn a_circle_is_told_in_the_words_of_postgresql() {
        let circle = [
            CircleMember { session: 3, target: LockTarget::Row { holder: 741 }, mode: LockMode::Exclusive },
            CircleMember {
                session: 2,
                target: LockTarget::Object(LockedThing::Relation(16_384).tag()),
                mode: LockMode::AccessExclusive,
            },
            CircleMember {
                session: 5,
                target: LockTarget::Object(LockedThing::AdvisoryTwo(1, 2).tag()),
                mode: LockMode::Share,
            },
        ];
        let database = DATABASE;
        assert_eq!(
            circle_detail(&circle),
            format!(
                "Process 3 waits for ShareLock on transaction 741; blocked by process 2.\n\
                 Process 2 waits for AccessExclusiveLock on relation 16384 of database {database}; blocked by process 5.\n\
                 Process 5 waits for ShareLock on advisory lock [{database},1,2,2]; blocked by process 3."
            )
        );
    }
}
