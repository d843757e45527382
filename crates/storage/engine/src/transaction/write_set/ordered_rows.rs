//! Rows in key order, for a transaction that writes very many of them.
//!
//! ```text
//!   tree   a < c < d < f                 rows that came in any order
//!   tail             < g < h < k         rows that came in ascending order since: a push each
//! ```
//! A row that belongs between those of the tail moves the tail into the tree, each of its rows once. So a load in order costs no
//! search, and rows in no order cost what a tree costs.
//!
//! Each row has the first bytes of its key in its slot: a search follows the pointer to the row where they are equal only.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::ops::Bound;

use crate::transaction::memory::bytes;

/// A row as the transaction left it, in one piece, so that a million of them take little more than their bytes:
///
/// | bytes | field  | meaning                                                |
/// |------:|--------|--------------------------------------------------------|
/// |     2 | head   | length of the key << 1, and whether the row is deleted |
/// |       | key    |                                                        |
/// |       | value  | nothing if the row is deleted                          |
///
/// Rows compare by their keys.
#[derive(Clone, Debug)]
pub(super) struct Row {
    prefix: u128,
    content: Box<[u8]>,
}

const HEAD_BYTES: usize = 2;

impl Row {
    pub(super) fn new(key: &[u8], value: Option<&[u8]>) -> Row {
        let key_bytes = u16::try_from(key.len()).expect("a row key has at most some thousand bytes");
        let head = (key_bytes << 1 | u16::from(value.is_none())).to_le_bytes();
        let content = [&head[..], key, value.unwrap_or_default()].concat().into_boxed_slice();
        Row { prefix: prefix_of(key), content }
    }

    /// The row without what follows from its content.
    pub(super) fn into_content(self) -> Box<[u8]> {
        self.content
    }

    pub(super) fn of_content(content: Box<[u8]>) -> Row {
        let mut row = Row { prefix: 0, content };
        row.prefix = prefix_of(row.key());
        row
    }

    /// Bytes of key and value in a row's content.
    pub(super) fn bytes_of(content: &[u8]) -> u64 {
        bytes(content.len() - HEAD_BYTES)
    }

    fn head(&self) -> u16 {
        u16::from_le_bytes([self.content[0], self.content[1]])
    }

    fn key_end(&self) -> usize {
        HEAD_BYTES + usize::from(self.head() >> 1)
    }

    pub(super) fn key(&self) -> &[u8] {
        &self.content[HEAD_BYTES..self.key_end()]
    }

    /// `None` is a delete.
    pub(super) fn value(&self) -> Option<&[u8]> {
        (self.head() & 1 == 0).then(|| &self.content[self.key_end()..])
    }

    /// Bytes of key and value.
    pub(super) fn bytes(&self) -> u64 {
        Row::bytes_of(&self.content)
    }
}

/// The first sixteen bytes of a row key: the table, and eight bytes of the row's own. Keys with different prefixes are ordered as these.
fn prefix_of(key: &[u8]) -> u128 {
    match key.first_chunk() {
        Some(first) => u128::from_be_bytes(*first),
        None => {
            let mut padded = [0; size_of::<u128>()];
            padded[..key.len()].copy_from_slice(key);
            u128::from_be_bytes(padded)
        }
    }
}

/// A row, or a key to search for: both have a place in the order.
trait Placed {
    fn prefix(&self) -> u128;
    fn key(&self) -> &[u8];
}

impl Placed for Row {
    fn prefix(&self) -> u128 {
        self.prefix
    }
    fn key(&self) -> &[u8] {
        Row::key(self)
    }
}

struct Sought<'k> {
    prefix: u128,
    key: &'k [u8],
}

impl<'k> Sought<'k> {
    fn new(key: &'k [u8]) -> Sought<'k> {
        Sought { prefix: prefix_of(key), key }
    }
}

impl Placed for Sought<'_> {
    fn prefix(&self) -> u128 {
        self.prefix
    }
    fn key(&self) -> &[u8] {
        self.key
    }
}

fn compare(one: &(impl Placed + ?Sized), other: &(impl Placed + ?Sized)) -> Ordering {
    one.prefix().cmp(&other.prefix()).then_with(|| one.key().cmp(other.key()))
}

impl<'a> Borrow<dyn Placed + 'a> for Row {
    fn borrow(&self) -> &(dyn Placed + 'a) {
        self
    }
}

impl Ord for dyn Placed + '_ {
    fn cmp(&self, other: &Self) -> Ordering {
        compare(self, other)
    }
}

impl PartialOrd for dyn Placed + '_ {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for dyn Placed + '_ {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for dyn Placed + '_ {}

impl Ord for Row {
    fn cmp(&self, other: &Row) -> Ordering {
        compare(self, other)
    }
}

impl PartialOrd for Row {
    fn partial_cmp(&self, other: &Row) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Row {
    fn eq(&self, other: &Row) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Row {}

/// The rows of a write set, in the order of their keys.
#[derive(Clone, Debug, Default)]
pub(super) struct OrderedRows {
    tree: BTreeSet<Row>,
    /// Ascending, and after all rows of the tree.
    tail: Vec<Row>,
}

impl OrderedRows {
    pub(super) fn len(&self) -> usize {
        self.tree.len() + self.tail.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tail.is_empty() && self.tree.is_empty()
    }

    /// Inserts the row. Returns the row with the same key that it replaces.
    pub(super) fn replace(&mut self, row: Row) -> Option<Row> {
        if self.tail.last().or_else(|| self.tree.last()).is_none_or(|last| *last < row) {
            self.tail.push(row);
            return None;
        }
        if self.tail.first().is_some_and(|first| *first <= row) {
            if let Ok(place) = self.tail.binary_search(&row) {
                return Some(std::mem::replace(&mut self.tail[place], row));
            }
            self.merge_tail();
        }
        self.tree.replace(row)
    }

    fn merge_tail(&mut self) {
        let tail = std::mem::take(&mut self.tail);
        if tail.len() > self.tree.len() {
            // Builds the tree anew.
            self.tree.append(&mut BTreeSet::from_iter(tail));
        } else {
            self.tree.extend(tail);
        }
    }

    pub(super) fn get(&self, key: &[u8]) -> Option<&Row> {
        let sought = Sought::new(key);
        match self.tail.first() {
            Some(first) if compare(first, &sought).is_le() => {
                let place = self.tail.binary_search_by(|row| compare(row, &sought));
                place.ok().map(|place| &self.tail[place])
            }
            _ => self.tree.get(&sought as &dyn Placed),
        }
    }

    /// Takes the row out.
    pub(super) fn take(&mut self, key: &[u8]) -> Option<Row> {
        let sought = Sought::new(key);
        if self.tail.last().is_some_and(|last| compare(last, &sought).is_eq()) {
            // As a rollback to a savepoint does with what was written since.
            let last = self.tail.pop();
            if self.tail.capacity() > 4 * self.tail.len() {
                self.tail.shrink_to(2 * self.tail.len());
            }
            return last;
        }
        if self.tail.first().is_some_and(|first| compare(first, &sought).is_le()) {
            self.merge_tail();
        }
        self.tree.take(&sought as &dyn Placed)
    }

    /// Takes the rows from `from` to before `to` out.
    pub(super) fn take_range(&mut self, from: &[u8], to: &[u8]) -> OrderedRows {
        let (first, end) = (Sought::new(from), Sought::new(to));
        if self.tree.last().is_none_or(|last| compare(last, &first).is_lt()) {
            let begin = self.tail.partition_point(|row| compare(row, &first).is_lt());
            let end = self.tail.partition_point(|row| compare(row, &end).is_lt());
            return OrderedRows { tree: BTreeSet::new(), tail: self.tail.drain(begin..end).collect() };
        }
        self.merge_tail();
        let mut taken = self.tree.split_off(&first as &dyn Placed);
        let mut after = taken.split_off(&end as &dyn Placed);
        if !after.is_empty() {
            self.tree.append(&mut after);
        }
        OrderedRows { tree: taken, tail: Vec::new() }
    }

    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = &Row> + Clone {
        self.tree.iter().chain(&self.tail)
    }

    /// The rows of a range whose end is not before its beginning, nor excludes it where both are one.
    pub(super) fn range(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
    ) -> impl DoubleEndedIterator<Item = &Row> {
        debug_assert!(!has_its_end_before_it(from, to), "the range {from:?}..{to:?} ends before it begins");
        let (from, to) = (from.map(Sought::new), to.map(Sought::new));
        let begin = match &from {
            Bound::Included(from) => self.tail.partition_point(|row| compare(row, from).is_lt()),
            Bound::Excluded(from) => self.tail.partition_point(|row| compare(row, from).is_le()),
            Bound::Unbounded => 0,
        };
        let end = match &to {
            Bound::Included(to) => self.tail.partition_point(|row| compare(row, to).is_le()),
            Bound::Excluded(to) => self.tail.partition_point(|row| compare(row, to).is_lt()),
            Bound::Unbounded => self.tail.len(),
        };
        let bounds = (placed(&from), placed(&to));
        self.tree.range::<dyn Placed, _>(bounds).chain(&self.tail[begin..end])
    }
}

fn has_its_end_before_it(from: Bound<&[u8]>, to: Bound<&[u8]>) -> bool {
    match (from, to) {
        (Bound::Excluded(from), Bound::Excluded(to)) => from >= to,
        (Bound::Included(from) | Bound::Excluded(from), Bound::Included(to) | Bound::Excluded(to)) => {
            from > to
        }
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
    }
}

fn placed<'s>(bound: &'s Bound<Sought<'_>>) -> Bound<&'s (dyn Placed + 's)> {
    bound.as_ref().map(|sought| sought as &dyn Placed)
}

impl FromIterator<Row> for OrderedRows {
    fn from_iter<I: IntoIterator<Item = Row>>(rows: I) -> OrderedRows {
        OrderedRows { tree: rows.into_iter().collect(), tail: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use seawall_simulation::{SeededRandom, seeds};

    use super::*;
    use crate::snapshots::scan::bounds::is_empty_range;

    type Content = Vec<(Vec<u8>, Option<Vec<u8>>)>;
    type Model = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

    fn content<'r>(rows: impl Iterator<Item = &'r Row>) -> Content {
        rows.map(|row| (row.key().to_vec(), row.value().map(<[u8]>::to_vec))).collect()
    }

    /// Short ones, and ones about as long as the prefix, with the byte that pads it.
    fn key(random: &mut SeededRandom) -> Vec<u8> {
        let (length, values) =
            if random.chance(1, 2) { (random.below(3), 3) } else { (14 + random.below(5), 2) };
        (0..length).map(|_| u8::try_from(random.below(values)).unwrap()).collect()
    }

    fn bound(random: &mut SeededRandom) -> Bound<Vec<u8>> {
        match random.below(3) {
            0 => Bound::Included(key(random)),
            1 => Bound::Excluded(key(random)),
            _ => Bound::Unbounded,
        }
    }

    fn write(rows: &mut OrderedRows, model: &mut Model, key: Vec<u8>, value: Option<Vec<u8>>) {
        let replaced = rows.replace(Row::new(&key, value.as_deref()));
        assert_eq!(replaced.map(|row| row.value().map(<[u8]>::to_vec)), model.insert(key, value));
    }

    fn step(rows: &mut OrderedRows, model: &mut Model, random: &mut SeededRandom) {
        match random.below(10) {
            0..4 => {
                let value =
                    (!random.chance(1, 4)).then(|| vec![7; usize::try_from(random.below(3)).unwrap()]);
                write(rows, model, key(random), value);
            }
            4..6 => {
                for number in 0..random.below(20) {
                    let mut next = model.last_key_value().map_or(Vec::new(), |(last, _)| last.clone());
                    next.push(u8::from(number % 2 == 0));
                    write(rows, model, next, Some(Vec::new()));
                }
            }
            6 => {
                let last = model.keys().next_back().filter(|_| random.chance(1, 2)).cloned();
                let key = last.unwrap_or_else(|| key(random));
                let taken = rows.take(&key).map(|row| row.value().map(<[u8]>::to_vec));
                assert_eq!(taken, model.remove(&key));
            }
            7 => {
                let (one, other) = (key(random), key(random));
                let (from, to) = if one <= other { (one, other) } else { (other, one) };
                let taken = content(rows.take_range(&from, &to).iter());
                let expected: Content = model
                    .range(from.clone()..to.clone())
                    .map(|(key, value)| (key.clone(), value.clone()))
                    .collect();
                assert_eq!(taken, expected);
                model.retain(|key, _| *key < from || *key >= to);
            }
            _ => {
                let (from, to) = (bound(random), bound(random));
                if is_empty_range(&from, &to) {
                    return;
                }
                let bounds = (from.as_ref().map(Vec::as_slice), to.as_ref().map(Vec::as_slice));
                let mut expected: Content =
                    model.range::<[u8], _>(bounds).map(|(key, value)| (key.clone(), value.clone())).collect();
                assert_eq!(content(rows.range(bounds.0, bounds.1)), expected);
                expected.reverse();
                assert_eq!(content(rows.range(bounds.0, bounds.1).rev()), expected);
            }
        }
    }

    #[test]
    fn rows_are_those_of_a_map() {
        for seed in seeds(200) {
            let mut random = SeededRandom::new(seed);
            let (mut rows, mut model) = (OrderedRows::default(), Model::new());
            for _step in 0..60 {
                step(&mut rows, &mut model, &mut random);
                assert_eq!((rows.len(), rows.is_empty()), (model.len(), model.is_empty()), "seed {seed}");
                let all: Content = model.clone().into_iter().collect();
                assert_eq!(content(rows.iter()), all, "seed {seed}");
                for (key, value) in &model {
                    assert_eq!(rows.get(key).unwrap().value(), value.as_deref(), "seed {seed}");
                }
                assert!(rows.get(&[9]).is_none());
            }
        }
    }

    #[test]
    fn a_load_in_order_never_comes_to_the_tree() {
        let mut rows = OrderedRows::default();
        for number in 0..1000_u64 {
            rows.replace(Row::new(&number.to_be_bytes(), Some(b"value")));
        }
        assert_eq!((rows.tree.len(), rows.tail.len()), (0, 1000));
        rows.replace(Row::new(&500_u64.to_be_bytes(), None));
        assert_eq!(rows.tree.len(), 0, "a row that is there is written again in place");
        rows.replace(Row::new(b"\0\0\0\0\0\0\0\x05between", None));
        assert_eq!((rows.tree.len(), rows.tail.len()), (1001, 0));
    }
}
