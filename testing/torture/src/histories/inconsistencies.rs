//! What a single read tells, without any cycle.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use seawall::Isolation;

use super::anomaly::{Anomaly, Kind};
use super::history::{Element, History, Key, Operation, Outcome, Place, Transaction};
use super::lists::Lists;

/// All anomalies of the history that are no cycles.
pub(super) fn inconsistencies(history: &History, lists: &Lists, isolation: Isolation) -> Vec<Anomaly> {
    let mut found = Vec::new();
    for (index, transaction) in committed(history) {
        for (key, list) in transaction.reads() {
            let reader = Reader { history, lists, index, key, list };
            found.extend(reader.duplicate());
            found.extend(reader.order());
            found.extend(reader.origins());
            found.extend(reader.intermediate());
        }
        found.extend(internal(transaction, isolation).map(|text| {
            Anomaly::new(Kind::InternalInconsistency, format!("transaction {index}: {text}"), vec![index])
        }));
    }
    found.extend(stale_reads(history, lists));
    found.extend(out_of_position(history, lists));
    found.extend(lost_appends(history, lists));
    found.extend(lost_updates(history, lists));
    found
}

fn committed(history: &History) -> impl Iterator<Item = (usize, &Transaction)> {
    history.iter().enumerate().filter(|(_, transaction)| transaction.is_committed())
}

/// One read of a committed transaction.
struct Reader<'a> {
    history: &'a History,
    lists: &'a Lists,
    index: usize,
    key: Key,
    list: &'a [Element],
}

impl Reader<'_> {
    fn anomaly(&self, kind: Kind, what: &str, others: &[usize]) -> Anomaly {
        let Reader { index, key, list, .. } = self;
        let explanation = format!("transaction {index} read {list:?} of list {key}: {what}");
        Anomaly::new(kind, explanation, [&[*index], others].concat())
    }

    fn duplicate(&self) -> Option<Anomaly> {
        let mut seen = HashSet::new();
        let twice = self.list.iter().find(|element| !seen.insert(**element))?;
        Some(self.anomaly(Kind::DuplicateElement, &format!("{twice} is there twice"), &[]))
    }

    fn order(&self) -> Option<Anomaly> {
        let order = self.lists.order(self.key);
        let what = format!("another read {order:?}");
        (!order.starts_with(self.list)).then(|| self.anomaly(Kind::IncompatibleOrder, &what, &[]))
    }

    fn origins(&self) -> Option<Anomaly> {
        self.list.iter().find_map(|&element| match self.lists.writer(self.key, element) {
            None => Some(self.anomaly(Kind::GarbageRead, &format!("nobody appended {element}"), &[])),
            Some(writer) if self.history[writer].outcome == Outcome::Aborted => {
                let what = format!("transaction {writer}, which appended {element}, did not commit");
                Some(self.anomaly(Kind::AbortedRead, &what, &[writer]))
            }
            Some(_) => None,
        })
    }

    /// Each transaction's elements are there together: so the last one of another is the last one it appended.
    fn intermediate(&self) -> Option<Anomaly> {
        let element = self.lists.last_foreign(self.key, self.list, self.index)?;
        let writer = self.lists.writer(self.key, element)?;
        let of_key = |&(key, _): &(Key, Element)| key == self.key;
        let (_, last) = self.history[writer].appends().filter(of_key).last()?;
        let what = format!("transaction {writer} appended {element} and then {last}");
        (last != element).then(|| self.anomaly(Kind::IntermediateRead, &what, &[writer]))
    }
}

/// What a transaction saw, against what it must have known.
fn internal(transaction: &Transaction, isolation: Isolation) -> Option<String> {
    let mut known: HashMap<Key, Vec<Element>> = HashMap::new();
    let mut appended: HashMap<Key, Vec<Element>> = HashMap::new();
    for operation in &transaction.operations {
        match operation {
            Operation::Append { key, element } => {
                appended.entry(*key).or_default().push(*element);
                if let Some(list) = known.get_mut(key) {
                    list.push(*element);
                }
            }
            Operation::Read { key, list } => {
                let own = appended.get(key).map_or(&[][..], Vec::as_slice);
                if !list.ends_with(own) {
                    return Some(format!("appended {own:?} to list {key}, then read {list:?}"));
                }
                // Under Read Committed each read sees what is committed then; but not once the row is locked.
                let may_grow = isolation == Isolation::ReadCommitted && own.is_empty();
                let fits = |known: &Vec<Element>| {
                    if may_grow { list.starts_with(known) } else { list == known }
                };
                if let Some(known) = known.get(key).filter(|known| !fits(known)) {
                    return Some(format!("knew {known:?} of list {key}, then read {list:?}"));
                }
                known.insert(*key, list.clone());
            }
        }
    }
    None
}

/// Reads that miss an element whose transaction had ended before the reader began, where that counts.
fn stale_reads(history: &History, lists: &Lists) -> Vec<Anomaly> {
    let lagging: BTreeSet<u32> = history
        .iter()
        .map(|reader| reader.place)
        .filter(|place| place.is_standby)
        .map(|place| place.server)
        .collect();
    let of_primaries = FirstBehind::new(history, lists, |_| true);
    let of_servers: BTreeMap<u32, FirstBehind> = lagging
        .into_iter()
        .map(|server| (server, FirstBehind::new(history, lists, |writer| writer.place.server == server)))
        .collect();
    let mut found = Vec::new();
    for (index, transaction) in committed(history) {
        // Whoever writes does so on a primary.
        let Place { server, is_standby, .. } = transaction.place;
        let first_behind = of_servers.get(&server).filter(|_| is_standby).unwrap_or(&of_primaries);
        for (key, list) in transaction.reads() {
            let missed = first_behind.get(key, list.len());
            if let Some(writer) = missed.filter(|writer| history[*writer].end < transaction.begin) {
                let text = format!(
                    "transaction {index} read {list:?} of list {key}; transaction {writer} had ended before it began, \
                     and others read {:?}",
                    lists.order(key)
                );
                found.push(Anomaly::new(Kind::StaleRead, text, vec![writer, index]));
            }
        }
    }
    found
}

/// For each length of a list, who of those behind it ended first.
struct FirstBehind(BTreeMap<Key, Vec<Option<usize>>>);

impl FirstBehind {
    fn new(history: &History, lists: &Lists, counts: impl Fn(&Transaction) -> bool) -> FirstBehind {
        let of_list = |order: &[Element], key| {
            let mut first: Option<usize> = None;
            let mut behind = vec![None];
            for &element in order.iter().rev() {
                // One of unknown outcome took place: somebody has read the element.
                let is_there = |writer: &usize| {
                    history[*writer].outcome != Outcome::Aborted && counts(&history[*writer])
                };
                let writer = lists.writer(key, element).filter(is_there);
                first = [first, writer].into_iter().flatten().min_by_key(|index| history[*index].end);
                behind.push(first);
            }
            behind.reverse();
            behind
        };
        FirstBehind(lists.orders().map(|(key, order)| (key, of_list(order, key))).collect())
    }

    fn get(&self, key: Key, length: usize) -> Option<usize> {
        self.0.get(&key).and_then(|behind| behind.get(length).copied().flatten())
    }
}

/// Readers of standbys that see more or less than was committed up to the position of their snapshot.
fn out_of_position(history: &History, lists: &Lists) -> Vec<Anomaly> {
    let position_of = |key, element| {
        let writer = lists.writer(key, element).filter(|writer| history[*writer].is_committed())?;
        Some((writer, history[writer].place.position?))
    };
    let mut found = Vec::new();
    for (index, transaction) in committed(history).filter(|(_, transaction)| transaction.place.is_standby) {
        let Some(snapshot) = transaction.place.position else { continue };
        for (key, list) in transaction.reads() {
            let order = lists.order(key);
            let (seen, unseen) = order.split_at(list.len().min(order.len()));
            let early =
                seen.iter().filter_map(|&element| position_of(key, element)).find(|(_, at)| *at > snapshot);
            let late = unseen
                .iter()
                .filter_map(|&element| position_of(key, element))
                .find(|(_, at)| *at <= snapshot);
            for (what, (writer, position)) in [("sees", early), ("lacks", late)]
                .into_iter()
                .filter_map(|(what, found)| Some((what, found?)))
            {
                let text = format!(
                    "transaction {index} reads at {snapshot}, and {what} in list {key} what transaction {writer} \
                     committed at {position}"
                );
                found.push(Anomaly::new(Kind::OutOfPosition, text, vec![writer, index]));
            }
        }
    }
    found
}

/// Committed elements that are in no list though somebody looked later.
fn lost_appends(history: &History, lists: &Lists) -> Vec<Anomaly> {
    let mut last_look: HashMap<Key, (u64, usize)> = HashMap::new();
    for (index, transaction) in committed(history) {
        // A standby may lag.
        for (key, _) in transaction.reads().filter(|_| !transaction.place.is_standby) {
            let look = last_look.entry(key).or_default();
            *look = (*look).max((transaction.begin, index));
        }
    }
    let there: HashSet<(Key, Element)> =
        lists.orders().flat_map(|(key, order)| order.iter().map(move |element| (key, *element))).collect();
    let mut found = Vec::new();
    for (index, transaction) in committed(history) {
        for (key, element) in transaction.appends().filter(|append| !there.contains(append)) {
            if let Some(&(begin, reader)) = last_look.get(&key).filter(|(begin, _)| *begin > transaction.end)
            {
                let text = format!(
                    "transaction {index} appended {element} to list {key} and ended at {}; transaction {reader} began at \
                     {begin}, and the list is {:?}",
                    transaction.end,
                    lists.order(key)
                );
                found.push(Anomaly::new(Kind::LostAppend, text, vec![index, reader]));
            }
        }
    }
    found
}

/// Transactions that appended to a list after they had read the same state of it.
fn lost_updates(history: &History, lists: &Lists) -> Vec<Anomaly> {
    let mut bases: HashMap<(Key, Option<Element>), usize> = HashMap::new();
    let mut found = Vec::new();
    for (index, transaction) in history.iter().enumerate() {
        let mut read: HashMap<Key, Option<Element>> = HashMap::new();
        for operation in &transaction.operations {
            match operation {
                Operation::Read { key, list } => {
                    read.insert(*key, lists.last_foreign(*key, list, index));
                }
                Operation::Append { key, element } => {
                    let is_real = transaction.is_committed() || lists.order(*key).contains(element);
                    let Some(base) =
                        read.get(key).copied().filter(|_| is_real && transaction.outcome != Outcome::Aborted)
                    else {
                        continue;
                    };
                    let other = *bases.entry((*key, base)).or_insert(index);
                    if other != index {
                        let text = format!(
                            "transactions {other} and {index} both read list {key} up to {base:?} and appended to it"
                        );
                        found.push(Anomaly::new(Kind::LostUpdate, text, vec![other, index]));
                    }
                }
            }
        }
    }
    found
}
