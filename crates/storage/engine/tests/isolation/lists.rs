//! Transactions append to lists and read them; afterwards the lists tell in which order they must have run.
//!
//! Every appended element is unique, so a list read names all the transactions that wrote it, in order (Kingsbury and
//! Alvaro, "Elle: Inferring Isolation Anomalies from Experimental Observations", VLDB 2020). Edges between
//! transactions: `ww` one appended right after the other, `wr` one read what the other appended last, `rw` one read a
//! list that the other then appended to. What a level rules out is a circle of certain edges.

use std::collections::BTreeMap;
use std::sync::Mutex;

use seawall_engine::{Database, Error, Isolation, Table, Transaction, TransactionOptions};
use seawall_simulation::{SeededRandom, seeds};
use seawall_types::Lsn;

use super::{ALL, BACKGROUNDS, check_and_close, durability, open, with};

const KEYS: u64 = 6;
const THREADS: u64 = 4;
const ROUNDS: u64 = 40;

type List = Vec<u64>;

#[derive(Clone, Debug)]
enum Operation {
    Read { key: u64, list: List },
    Append { key: u64, element: u64 },
}

/// A committed transaction.
#[derive(Clone, Debug)]
struct Committed {
    stamp: Lsn,
    wrote: bool,
    operations: Vec<Operation>,
}

fn decode(value: Option<Vec<u8>>) -> List {
    let value = value.unwrap_or_default();
    value.chunks(8).map(|element| u64::from_be_bytes(element.try_into().unwrap())).collect()
}

fn encode(list: &[u64]) -> Vec<u8> {
    list.iter().flat_map(|element| element.to_be_bytes()).collect()
}

fn run_one(
    transaction: &mut Transaction,
    table: &Table,
    isolation: Isolation,
    random: &mut SeededRandom,
    next_element: &mut u64,
) -> Result<Vec<Operation>, Error> {
    let mut operations = Vec::new();
    for _ in 0..random.range(1..5) {
        let key = random.below(KEYS);
        if random.chance(1, 2) {
            let list = if random.chance(1, 3) {
                let rows: Result<Vec<_>, Error> =
                    transaction.range(table, key.to_be_bytes()..=key.to_be_bytes()).collect();
                decode(rows?.pop().map(|(_, value)| value))
            } else {
                decode(transaction.get(table, key.to_be_bytes())?)
            };
            operations.push(Operation::Read { key, list });
        } else {
            // Under Read Committed, only who locks what it reads may write what follows from it.
            let value = match isolation {
                Isolation::ReadCommitted => transaction.get_for_update(table, key.to_be_bytes())?,
                Isolation::Snapshot | Isolation::Serializable => transaction.get(table, key.to_be_bytes())?,
            };
            let mut list = decode(value);
            operations.push(Operation::Read { key, list: list.clone() });
            *next_element += 1;
            list.push(*next_element);
            transaction.put(table, key.to_be_bytes(), encode(&list))?;
            operations.push(Operation::Append { key, element: *next_element });
        }
    }
    Ok(operations)
}

fn run(database: &Database, table: &Table, isolation: Isolation, seed: u64) -> Vec<Committed> {
    let committed = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let committed = &committed;
            scope.spawn(move || {
                let mut random = SeededRandom::new(seed * 100 + thread);
                let mut next_element = thread << 32;
                for _ in 0..ROUNDS {
                    let options =
                        TransactionOptions { durability: durability(&mut random), ..with(isolation) };
                    let mut transaction = database.with(options).begin();
                    let result = run_one(&mut transaction, table, isolation, &mut random, &mut next_element);
                    let result = result.and_then(|operations| {
                        if random.chance(1, 10) {
                            transaction.rollback();
                            return Ok(None);
                        }
                        transaction.commit().map(|stamp| Some((stamp, operations)))
                    });
                    match result {
                        Ok(None) => {}
                        Ok(Some((stamp, operations))) => {
                            let wrote = operations.iter().any(|one| matches!(one, Operation::Append { .. }));
                            committed.lock().unwrap().push(Committed { stamp, wrote, operations });
                        }
                        Err(error) => assert!(error.is_retryable(), "{error}"),
                    }
                    if random.chance(1, 15) {
                        database.checkpoint().unwrap();
                    }
                }
            });
        }
    });
    committed.into_inner().unwrap()
}

/// Who depends on whom, by index.
#[derive(Debug, Default)]
struct Graph {
    /// `ww` and `wr`.
    after: BTreeMap<usize, Vec<usize>>,
    /// `rw`.
    overwritten_by: BTreeMap<usize, Vec<usize>>,
}

impl Graph {
    /// Builds the edges; refuses reads of what was never committed, of parts of a transaction, and of lists that are
    /// not a beginning of the final one.
    fn new(transactions: &[Committed], lists: &BTreeMap<u64, List>) -> Graph {
        let mut writers = BTreeMap::new();
        for (index, transaction) in transactions.iter().enumerate() {
            for operation in &transaction.operations {
                if let Operation::Append { key, element } = operation {
                    writers.insert(*element, index);
                    assert!(lists[key].contains(element), "{element} was appended to {key}, and is lost");
                }
            }
        }
        let mut graph = Graph::default();
        for list in lists.values() {
            for pair in list.windows(2) {
                graph.link(writer_of(&writers, pair[0]), writer_of(&writers, pair[1]));
            }
        }
        for (index, transaction) in transactions.iter().enumerate() {
            for operation in &transaction.operations {
                if let Operation::Read { key, list } = operation {
                    graph.read(index, list, &lists[key], &writers);
                }
            }
        }
        graph
    }

    fn link(&mut self, from: usize, to: usize) {
        if from != to {
            self.after.entry(from).or_default().push(to);
        }
    }

    fn read(&mut self, reader: usize, list: &List, whole: &List, writers: &BTreeMap<u64, usize>) {
        assert!(whole.starts_with(list), "{list:?} is no beginning of {whole:?}");
        // Its own appends at the end are not what it depends on.
        let foreign = list.iter().rposition(|element| writer_of(writers, *element) != reader);
        if let Some(last) = foreign {
            let writer = writer_of(writers, list[last]);
            self.link(writer, reader);
            let cut = whole.get(last + 1).is_some_and(|next| writer_of(writers, *next) == writer);
            assert!(!cut, "{list:?} shows a part of what one transaction appended");
        }
        if let Some(next) = whole[list.len()..].iter().find(|element| writer_of(writers, **element) != reader)
        {
            let writer = writer_of(writers, *next);
            // Before its own append: whoever appended between is a lost update, seen as a circle.
            self.overwritten_by.entry(reader).or_default().push(writer);
        }
    }

    fn successors(&self, of: usize, with_overwritten: bool) -> impl Iterator<Item = usize> {
        let overwritten = self.overwritten_by.get(&of).filter(|_| with_overwritten);
        self.after.get(&of).into_iter().chain(overwritten).flatten().copied()
    }

    fn reaches(&self, from: usize, to: usize, with_overwritten: bool) -> bool {
        let mut seen = std::collections::BTreeSet::new();
        let mut waiting = vec![from];
        while let Some(next) = waiting.pop() {
            if next == to {
                return true;
            }
            if seen.insert(next) {
                waiting.extend(self.successors(next, with_overwritten));
            }
        }
        false
    }

    /// A transaction on a circle that the level rules out.
    fn forbidden_circle(&self, isolation: Isolation) -> Option<usize> {
        let on_circle = |edges: &BTreeMap<usize, Vec<usize>>, with_overwritten: bool| {
            edges.iter().find_map(|(&from, targets)| {
                targets.iter().any(|&to| self.reaches(to, from, with_overwritten)).then_some(from)
            })
        };
        match isolation {
            // G0, G1c: no circle of `ww` and `wr`.
            Isolation::ReadCommitted => on_circle(&self.after, false),
            // G-single: nor one with a single `rw`.
            Isolation::Snapshot => {
                on_circle(&self.after, false).or_else(|| on_circle(&self.overwritten_by, false))
            }
            // G2: none at all.
            Isolation::Serializable => {
                on_circle(&self.after, true).or_else(|| on_circle(&self.overwritten_by, true))
            }
        }
    }
}

fn writer_of(writers: &BTreeMap<u64, usize>, element: u64) -> usize {
    *writers
        .get(&element)
        .unwrap_or_else(|| panic!("{element} was read, and its transaction never committed"))
}

/// Under `Serializable` the stamps are a serial order: run again in that order, every writer reads what it read.
fn assert_stamps_explain_reads(transactions: &[Committed]) {
    let mut writers: Vec<_> = transactions.iter().filter(|transaction| transaction.wrote).collect();
    writers.sort_by_key(|transaction| transaction.stamp);
    let mut lists: BTreeMap<u64, List> = BTreeMap::new();
    for transaction in writers {
        for operation in &transaction.operations {
            match operation {
                Operation::Read { key, list } => {
                    assert_eq!(
                        lists.entry(*key).or_default(),
                        list,
                        "key {key}, stamp {}",
                        transaction.stamp
                    );
                }
                Operation::Append { key, element } => lists.entry(*key).or_default().push(*element),
            }
        }
    }
}

#[test]
fn lists_show_no_circle_that_the_level_rules_out() {
    for seed in seeds(6) {
        for background in BACKGROUNDS {
            for isolation in ALL {
                let database = open(background);
                let table = database.create_table("lists").unwrap();
                let transactions = run(&database, &table, isolation, seed);
                let list = |key: u64| decode(database.get(&table, key.to_be_bytes()).unwrap());
                let lists: BTreeMap<u64, List> = (0..KEYS).map(|key| (key, list(key))).collect();
                let what = format!("seed {seed}, {isolation:?}, {background:?}");
                let wrote = transactions.iter().filter(|transaction| transaction.wrote).count();
                assert!(wrote > 20, "{what}: only {wrote} transactions wrote and committed");
                let circle = Graph::new(&transactions, &lists).forbidden_circle(isolation);
                assert_eq!(circle.map(|index| &transactions[index].operations).map(Vec::len), None, "{what}");
                if isolation == Isolation::Serializable {
                    assert_stamps_explain_reads(&transactions);
                }
                check_and_close(database);
            }
        }
    }
}

#[test]
fn the_checker_finds_the_circles_it_looks_for() {
    let transaction = |operations: &[Operation]| Committed {
        stamp: Lsn::ZERO,
        wrote: true,
        operations: operations.to_vec(),
    };
    let read = |key, list: &[u64]| Operation::Read { key, list: list.to_vec() };
    let append = |key, element| Operation::Append { key, element };
    let lists = BTreeMap::from([(0, vec![1]), (1, vec![2])]);
    // Write skew: two `rw` edges, which Snapshot allows.
    let skew = [transaction(&[read(0, &[]), append(1, 2)]), transaction(&[read(1, &[]), append(0, 1)])];
    let graph = Graph::new(&skew, &lists);
    assert!(graph.forbidden_circle(Isolation::Snapshot).is_none());
    assert!(graph.forbidden_circle(Isolation::Serializable).is_some());
    // A read that saw one half of the other: one `rw`, one `wr`.
    let lists = BTreeMap::from([(0, vec![1]), (1, vec![2])]);
    let torn = [transaction(&[append(0, 1), append(1, 2)]), transaction(&[read(0, &[1]), read(1, &[])])];
    let graph = Graph::new(&torn, &lists);
    assert!(graph.forbidden_circle(Isolation::ReadCommitted).is_none());
    assert!(graph.forbidden_circle(Isolation::Snapshot).is_some());
    // Two that each saw the other: no level allows that.
    let dirty = [transaction(&[append(0, 1), read(1, &[2])]), transaction(&[append(1, 2), read(0, &[1])])];
    let graph = Graph::new(&dirty, &lists);
    assert!(graph.forbidden_circle(Isolation::ReadCommitted).is_some());
}
