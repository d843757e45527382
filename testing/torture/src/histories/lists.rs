//! Who appended what, and in which order: the longest list that anybody read of a key holds the others.

use std::collections::{BTreeMap, HashMap};

use super::history::{Element, History, Key};

#[derive(Debug)]
pub(super) struct Lists {
    /// Index of the transaction that appended it, committed or not.
    writers: HashMap<(Key, Element), usize>,
    /// The longest list that a committed transaction read.
    orders: BTreeMap<Key, Vec<Element>>,
}

impl Lists {
    pub(super) fn new(history: &History) -> Lists {
        let mut lists = Lists { writers: HashMap::new(), orders: BTreeMap::new() };
        for (index, transaction) in history.iter().enumerate() {
            lists.writers.extend(transaction.appends().map(|append| (append, index)));
            for (key, list) in transaction.reads().filter(|_| transaction.is_committed()) {
                let order = lists.orders.entry(key).or_default();
                if list.len() > order.len() {
                    *order = list.to_vec();
                }
            }
        }
        lists
    }

    pub(super) fn writer(&self, key: Key, element: Element) -> Option<usize> {
        self.writers.get(&(key, element)).copied()
    }

    pub(super) fn order(&self, key: Key) -> &[Element] {
        self.orders.get(&key).map_or(&[], Vec::as_slice)
    }

    pub(super) fn orders(&self) -> impl Iterator<Item = (Key, &[Element])> {
        self.orders.iter().map(|(key, order)| (*key, order.as_slice()))
    }

    /// The last element of `list` that `reader` did not append itself.
    pub(super) fn last_foreign(&self, key: Key, list: &[Element], reader: usize) -> Option<Element> {
        list.iter().rev().copied().find(|element| self.writer(key, *element) != Some(reader))
    }
}
