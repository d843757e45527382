//! A database of a few lines, right by construction, with clients that take turns at random.

use std::collections::{BTreeMap, BTreeSet};

use seawall::Isolation;
use seawall_simulation::SeededRandom;

use super::super::super::history::{Element, History, Key, Operation, Outcome, Place, Transaction};

const CLIENTS: usize = 5;
const KEYS: u64 = 4;

type State = BTreeMap<Key, Vec<Element>>;

/// A transaction under way.
struct Open {
    transaction: Transaction,
    /// What is committed when it first reads.
    snapshot: Option<State>,
    own: BTreeMap<Key, Vec<Element>>,
    steps_left: u64,
}

struct Model {
    isolation: Isolation,
    random: SeededRandom,
    committed: State,
    moment: u64,
    next_element: Element,
    open: BTreeMap<usize, Open>,
    history: History,
}

/// A history of about `length` transactions.
pub(super) fn history(seed: u64, isolation: Isolation, length: usize) -> History {
    let mut model = Model {
        isolation,
        random: SeededRandom::new(seed),
        committed: State::new(),
        moment: 0,
        next_element: 0,
        open: BTreeMap::new(),
        history: History::new(),
    };
    while model.history.len() < length {
        let client = model.random.index(CLIENTS);
        model.step(client);
    }
    model.finish()
}

impl Model {
    fn now(&mut self) -> u64 {
        self.moment += 1;
        self.moment
    }

    fn step(&mut self, client: usize) {
        match self.open.remove(&client) {
            None => {
                let number = u32::try_from(client).unwrap();
                let (begin, end, outcome) = (self.now(), u64::MAX, Outcome::Aborted);
                let transaction = Transaction {
                    client: number,
                    begin,
                    end,
                    outcome,
                    is_durable: true,
                    operations: Vec::new(),
                    place: Place::default(),
                };
                let steps_left = self.random.range(1..5);
                self.open
                    .insert(client, Open { transaction, snapshot: None, own: BTreeMap::new(), steps_left });
            }
            Some(open) if open.steps_left == 0 => self.end(open),
            Some(mut open) => {
                open.steps_left -= 1;
                if self.read_or_append(&mut open) {
                    self.open.insert(client, open);
                } else {
                    self.close(open, Outcome::Aborted);
                }
            }
        }
    }

    /// `false` if the transaction has to be given up.
    fn read_or_append(&mut self, open: &mut Open) -> bool {
        let key = self.random.below(KEYS);
        let appends = self.random.chance(1, 2);
        let is_locked = self.open.values().any(|other| other.own.contains_key(&key));
        if appends && self.isolation == Isolation::ReadCommitted && is_locked {
            return false;
        }
        let current = &self.committed;
        let seen = match self.isolation {
            Isolation::ReadCommitted => current,
            Isolation::Snapshot | Isolation::Serializable => {
                open.snapshot.get_or_insert_with(|| current.clone())
            }
        };
        let mut list = seen.get(&key).cloned().unwrap_or_default();
        list.extend(open.own.get(&key).into_iter().flatten());
        open.transaction.operations.push(Operation::Read { key, list });
        if appends {
            let element = self.next_element;
            self.next_element += 1;
            open.transaction.operations.push(Operation::Append { key, element });
            open.own.entry(key).or_default().push(element);
        }
        true
    }

    fn end(&mut self, open: Open) {
        let changed_since = |key: &Key| {
            open.snapshot.as_ref().is_some_and(|snapshot| snapshot.get(key) != self.committed.get(key))
        };
        let read: BTreeSet<Key> = open.transaction.reads().map(|(key, _)| key).collect();
        let is_refused = match self.isolation {
            Isolation::ReadCommitted => false,
            Isolation::Snapshot => open.own.keys().any(changed_since),
            Isolation::Serializable => read.iter().any(changed_since),
        };
        if is_refused || self.random.chance(1, 15) {
            return self.close(open, Outcome::Aborted);
        }
        let is_unknown = self.random.chance(1, 20);
        if !is_unknown || self.random.chance(1, 2) {
            for (key, own) in &open.own {
                self.committed.entry(*key).or_default().extend(own);
            }
        }
        self.close(open, if is_unknown { Outcome::Unknown } else { Outcome::Committed });
    }

    fn close(&mut self, mut open: Open, outcome: Outcome) {
        open.transaction.outcome = outcome;
        open.transaction.end = if outcome == Outcome::Unknown { u64::MAX } else { self.now() };
        self.history.push(open.transaction);
    }

    /// A recovery, and a look at everything.
    fn finish(mut self) -> History {
        let recovered = self.now();
        for transaction in self.history.iter_mut().filter(|transaction| transaction.end == u64::MAX) {
            transaction.end = recovered;
        }
        let (begin, end) = (self.now(), self.now());
        let read = |key| Operation::Read { key, list: self.committed.get(&key).cloned().unwrap_or_default() };
        let operations = (0..KEYS).map(read).collect();
        self.history.push(Transaction {
            client: 99,
            begin,
            end,
            outcome: Outcome::Committed,
            is_durable: true,
            operations,
            place: Place::default(),
        });
        self.history
    }
}
