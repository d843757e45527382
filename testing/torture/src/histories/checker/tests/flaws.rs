//! Small histories that must not be, to be put between the transactions of a right one.

use seawall::Isolation;
use seawall_simulation::SeededRandom;

use super::super::super::anomaly::Kind;
use super::super::super::history::{Element, History, Key, Operation, Outcome, Place, Transaction};
use super::ALL;

/// A few transactions on lists of their own.
pub(super) struct Flaw {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) in_real_time: bool,
    pub(super) forbidden_at: &'static [Isolation],
    transactions: Vec<Transaction>,
}

/// Lists, and elements, that no other transaction has.
const FIRST: u64 = 1 << 40;
/// Moments of a right history are so far apart when a flaw is put between two.
const ROOM: u64 = 1000;

const SNAPSHOT_ON: &[Isolation] = &[Isolation::Snapshot, Isolation::Serializable];
const SERIALIZABLE: &[Isolation] = &[Isolation::Serializable];

fn read(key: Key, list: &[Element]) -> Operation {
    Operation::Read { key: FIRST + key, list: list.iter().map(|element| FIRST + element).collect() }
}

fn append(key: Key, element: Element) -> Operation {
    Operation::Append { key: FIRST + key, element: FIRST + element }
}

/// Runs from moment `begin` to `end`.
fn during(begin: u64, end: u64, outcome: Outcome, operations: &[Operation]) -> Transaction {
    let (operations, place) = (operations.to_vec(), Place::default());
    Transaction { client: 1000, begin, end, outcome, is_durable: true, operations, place }
}

/// Committed, and at the same time as the others of its kind.
fn at_once(number: u64, operations: &[Operation]) -> Transaction {
    during(number, 100 + number, Outcome::Committed, operations)
}

/// Reads when all others are over.
fn after(operations: &[Operation]) -> Transaction {
    during(200, 201, Outcome::Committed, operations)
}

fn flaw(
    name: &'static str,
    kind: Kind,
    forbidden_at: &'static [Isolation],
    transactions: &[Transaction],
) -> Flaw {
    Flaw { name, kind, in_real_time: false, forbidden_at, transactions: transactions.to_vec() }
}

fn in_real_time(flaw: Flaw) -> Flaw {
    Flaw { in_real_time: true, ..flaw }
}

const X: Key = 0;
const Y: Key = 1;
const Z: Key = 2;

/// One of each kind at least.
pub(super) fn all() -> Vec<Flaw> {
    [reads(), losses(), cycles(), anti_dependencies(), cycles_in_real_time()].into_iter().flatten().collect()
}

fn reads() -> Vec<Flaw> {
    vec![
        flaw(
            "an element twice",
            Kind::DuplicateElement,
            &ALL,
            &[at_once(0, &[append(X, 1)]), at_once(1, &[read(X, &[1, 1])])],
        ),
        flaw(
            "two orders",
            Kind::IncompatibleOrder,
            &ALL,
            &[
                at_once(0, &[append(X, 1)]),
                at_once(1, &[append(X, 2)]),
                at_once(2, &[read(X, &[1])]),
                at_once(3, &[read(X, &[2])]),
            ],
        ),
        flaw("an element from nowhere", Kind::GarbageRead, &ALL, &[at_once(0, &[read(X, &[77])])]),
        flaw(
            "G1a",
            Kind::AbortedRead,
            &ALL,
            &[during(0, 100, Outcome::Aborted, &[append(X, 1)]), at_once(1, &[read(X, &[1])])],
        ),
        flaw(
            "G1b",
            Kind::IntermediateRead,
            &ALL,
            &[
                at_once(0, &[append(X, 1), append(X, 2)]),
                at_once(1, &[read(X, &[1])]),
                after(&[read(X, &[1, 2])]),
            ],
        ),
        flaw(
            "an own append that is not seen",
            Kind::InternalInconsistency,
            &ALL,
            &[at_once(0, &[append(X, 1), read(X, &[])]), after(&[read(X, &[1])])],
        ),
        flaw(
            "a read that cannot be repeated",
            Kind::InternalInconsistency,
            SNAPSHOT_ON,
            &[at_once(0, &[append(X, 1)]), at_once(1, &[read(X, &[]), read(X, &[1])])],
        ),
    ]
}

fn losses() -> Vec<Flaw> {
    vec![
        flaw("a lost append", Kind::LostAppend, &ALL, &[at_once(0, &[append(X, 1)]), after(&[read(X, &[])])]),
        flaw(
            "a stale read",
            Kind::StaleRead,
            &ALL,
            &[
                during(0, 1, Outcome::Committed, &[append(X, 1)]),
                during(2, 5, Outcome::Committed, &[read(X, &[])]),
                during(3, 4, Outcome::Committed, &[read(X, &[1])]),
            ],
        ),
        flaw(
            "a commit of unknown outcome, seen and then lost",
            Kind::StaleRead,
            &ALL,
            &[
                during(0, 100, Outcome::Unknown, &[append(X, 1)]),
                during(1, 2, Outcome::Committed, &[read(X, &[1])]),
                after(&[read(X, &[])]),
            ],
        ),
        flaw(
            "a lost update",
            Kind::LostUpdate,
            &ALL,
            &[
                at_once(0, &[read(X, &[]), append(X, 1)]),
                at_once(1, &[read(X, &[]), append(X, 2)]),
                after(&[read(X, &[1, 2])]),
            ],
        ),
    ]
}

fn cycles() -> Vec<Flaw> {
    vec![
        flaw(
            "G0",
            Kind::G0,
            &ALL,
            &[
                at_once(0, &[append(X, 1), append(Y, 2)]),
                at_once(1, &[append(X, 3), append(Y, 4)]),
                after(&[read(X, &[1, 3]), read(Y, &[4, 2])]),
            ],
        ),
        flaw(
            "G1c",
            Kind::G1c,
            &ALL,
            &[at_once(0, &[append(X, 1), read(Y, &[2])]), at_once(1, &[append(Y, 2), read(X, &[1])])],
        ),
        flaw(
            "G1c of three, mostly of writes",
            Kind::G1c,
            &ALL,
            &[
                at_once(0, &[append(X, 1), append(Y, 6)]),
                at_once(1, &[append(X, 2), append(Z, 3)]),
                at_once(2, &[read(Z, &[3]), append(Y, 4)]),
                after(&[read(X, &[1, 2]), read(Y, &[4, 6])]),
            ],
        ),
    ]
}

fn anti_dependencies() -> Vec<Flaw> {
    vec![
        flaw(
            "half of a transaction",
            Kind::GSingle,
            SNAPSHOT_ON,
            &[
                at_once(0, &[append(X, 1), append(Y, 2)]),
                at_once(1, &[read(X, &[1]), read(Y, &[])]),
                after(&[read(Y, &[2])]),
            ],
        ),
        flaw(
            "a long fork",
            Kind::GNonadjacent,
            SNAPSHOT_ON,
            &[
                at_once(0, &[append(X, 1)]),
                at_once(1, &[append(Y, 2)]),
                at_once(2, &[read(X, &[1]), read(Y, &[])]),
                at_once(3, &[read(X, &[]), read(Y, &[2])]),
            ],
        ),
        flaw(
            "write skew",
            Kind::G2,
            SERIALIZABLE,
            &[
                at_once(0, &[read(X, &[]), read(Y, &[]), append(Y, 1)]),
                at_once(1, &[read(X, &[]), read(Y, &[]), append(X, 2)]),
                after(&[read(X, &[2]), read(Y, &[1])]),
            ],
        ),
        // Fekete, O'Neil and O'Neil, "A Read-Only Transaction Anomaly Under Snapshot Isolation", SIGMOD Record 2004.
        flaw(
            "an anomaly that needs a reader",
            Kind::G2,
            SERIALIZABLE,
            &[
                at_once(0, &[read(X, &[]), read(Y, &[]), append(X, 1)]),
                at_once(1, &[read(Y, &[]), append(Y, 2)]),
                at_once(2, &[read(X, &[]), read(Y, &[2])]),
                after(&[read(X, &[1]), read(Y, &[2])]),
            ],
        ),
        flaw(
            "write skew with one whose outcome is unknown",
            Kind::G2,
            SERIALIZABLE,
            &[
                at_once(0, &[read(X, &[]), append(Y, 1)]),
                at_once(1, &[read(Y, &[]), append(Z, 3)]),
                during(2, 103, Outcome::Unknown, &[append(Z, 4), append(X, 2)]),
                after(&[read(X, &[2]), read(Y, &[1]), read(Z, &[4, 3])]),
            ],
        ),
    ]
}

fn cycles_in_real_time() -> Vec<Flaw> {
    let flaws = [
        flaw(
            "a write before an earlier one",
            Kind::G0,
            &ALL,
            &[
                during(0, 1, Outcome::Committed, &[append(X, 1)]),
                during(2, 3, Outcome::Committed, &[append(X, 2)]),
                after(&[read(X, &[2, 1])]),
            ],
        ),
        flaw(
            "seen before it began",
            Kind::G1c,
            &ALL,
            &[
                during(0, 1, Outcome::Committed, &[read(X, &[1])]),
                during(2, 3, Outcome::Committed, &[append(X, 1)]),
            ],
        ),
        flaw(
            "the later of two, and not the earlier",
            Kind::GSingle,
            SNAPSHOT_ON,
            &[
                during(1, 2, Outcome::Committed, &[append(X, 1)]),
                during(3, 4, Outcome::Committed, &[append(Y, 2)]),
                during(0, 5, Outcome::Committed, &[read(X, &[]), read(Y, &[2])]),
                after(&[read(X, &[1])]),
            ],
        ),
    ];
    flaws.into_iter().map(in_real_time).collect()
}

impl Flaw {
    /// Between two moments of `history`, whose transactions are in a random order afterwards.
    pub(super) fn put_into(&self, history: &mut History, random: &mut SeededRandom) {
        let last = history.iter().map(|transaction| transaction.end).max().unwrap_or(0);
        let start = random.below(last + 1) * ROOM + 1;
        for transaction in history.iter_mut() {
            transaction.begin *= ROOM;
            transaction.end *= ROOM;
        }
        history.extend(self.transactions.iter().cloned().map(|mut transaction| {
            transaction.begin += start;
            transaction.end += start;
            transaction
        }));
        random.shuffle(history);
    }
}
