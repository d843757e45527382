//! Reads of a serializable transaction, one by one and as keys without repetition.

use std::ops::Bound;
use std::sync::Arc;

use crate::catalog::OpenObject;
use crate::in_doubt::ranges::End;
use crate::transaction::memory::bytes;

/// A read besides its keys: its entry in a list that doubles as it grows.
pub(super) const READ_BYTES: u64 = 160;

/// Something that was read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ReadItem {
    Row(Vec<u8>),
    Range(Bound<Vec<u8>>, Bound<Vec<u8>>),
    /// The existence of the table, and the storage of its rows.
    Object(Arc<OpenObject>),
}

impl ReadItem {
    pub(crate) fn object(&self) -> Option<&Arc<OpenObject>> {
        match self {
            ReadItem::Object(object) => Some(object),
            ReadItem::Row(_) | ReadItem::Range(..) => None,
        }
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        let of_bound = |bound: &Bound<Vec<u8>>| match bound {
            Bound::Included(key) | Bound::Excluded(key) => bytes(key.len()),
            Bound::Unbounded => 0,
        };
        READ_BYTES
            + match self {
                ReadItem::Row(key) => bytes(key.len()),
                ReadItem::Range(from, to) => of_bound(from) + of_bound(to),
                ReadItem::Object(_) => 0,
            }
    }
}

/// Keys that were read: rows, and ranges that do not overlap. Both are sorted, so a look for a key is short.
#[derive(Debug, Default)]
pub(crate) struct ReadKeys<'r> {
    rows: Vec<&'r [u8]>,
    ranges: Vec<(Arc<[u8]>, End)>,
}

impl<'r> ReadKeys<'r> {
    /// The keys of `reads`, each covered once.
    pub(crate) fn of(reads: &'r [ReadItem]) -> ReadKeys<'r> {
        let row = |read: &'r ReadItem| match read {
            ReadItem::Row(key) => Some(&key[..]),
            ReadItem::Range(..) | ReadItem::Object(_) => None,
        };
        let mut ranges: Vec<_> =
            reads.iter().filter(|read| matches!(read, ReadItem::Range(..))).filter_map(range_of).collect();
        ranges.sort_unstable();
        let mut joined: Vec<(Arc<[u8]>, End)> = Vec::new();
        for (start, end) in ranges {
            match joined.last_mut() {
                Some((_, last)) if *last >= End::Before(Arc::clone(&start)) => {
                    *last = end.max(last.clone());
                }
                _ => joined.push((start, end)),
            }
        }
        let mut keys = ReadKeys { rows: Vec::new(), ranges: joined };
        let mut rows: Vec<_> = reads.iter().filter_map(row).filter(|key| !keys.is_in_range(key)).collect();
        rows.sort_unstable();
        rows.dedup();
        keys.rows = rows;
        keys
    }

    /// Whether the key was read.
    pub(crate) fn covers(&self, key: &[u8]) -> bool {
        self.rows.binary_search(&key).is_ok() || self.is_in_range(key)
    }

    fn is_in_range(&self, key: &[u8]) -> bool {
        let before = self.ranges.partition_point(|(start, _)| start[..] <= *key);
        let covers = |end: &End| match end {
            End::Before(end) => *key < end[..],
            End::Unbounded => true,
        };
        before > 0 && covers(&self.ranges[before - 1].1)
    }

    /// For rows only: what a defect leaves of them.
    pub(crate) fn without_ranges(self) -> ReadKeys<'r> {
        ReadKeys { ranges: Vec::new(), ..self }
    }
}

/// The same reads without repetition: no two ranges overlap, and no row lies in a range. So no key is covered twice by what
/// one transaction has read.
pub(crate) fn without_repetition(reads: &[ReadItem]) -> Vec<ReadItem> {
    let ReadKeys { rows, ranges } = ReadKeys::of(reads);
    let ranges = ranges.into_iter().map(|(start, end)| {
        let end = match end {
            End::Before(end) => Bound::Excluded(end.to_vec()),
            End::Unbounded => Bound::Unbounded,
        };
        ReadItem::Range(Bound::Included(start.to_vec()), end)
    });
    let objects = reads.iter().filter(|read| matches!(read, ReadItem::Object(_))).cloned();
    rows.into_iter().map(|key| ReadItem::Row(key.to_vec())).chain(ranges).chain(objects).collect()
}

/// Start and end of what was read, unless that is nothing.
pub(crate) fn range_of(item: &ReadItem) -> Option<(Arc<[u8]>, End)> {
    let (start, end) = match item {
        ReadItem::Row(key) => (Arc::from(&key[..]), End::Before(next_key(key))),
        ReadItem::Range(from, to) => {
            let start = match from {
                Bound::Included(key) => Arc::from(&key[..]),
                Bound::Excluded(key) => next_key(key),
                Bound::Unbounded => Arc::default(),
            };
            let end = match to {
                Bound::Included(key) => End::Before(next_key(key)),
                Bound::Excluded(key) => End::Before(Arc::from(&key[..])),
                Bound::Unbounded => End::Unbounded,
            };
            (start, end)
        }
        ReadItem::Object(_) => return None,
    };
    (End::Before(Arc::clone(&start)) < end).then_some((start, end))
}

/// The first key behind this one.
fn next_key(key: &[u8]) -> Arc<[u8]> {
    [key, &[0]].concat().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(key: &[u8]) -> ReadItem {
        ReadItem::Row(key.to_vec())
    }

    fn range(from: &[u8], to: &[u8]) -> ReadItem {
        ReadItem::Range(Bound::Included(from.to_vec()), Bound::Excluded(to.to_vec()))
    }

    #[test]
    fn reads_that_repeat_are_joined() {
        let included = ReadItem::Range(Bound::Excluded(b"x".to_vec()), Bound::Included(b"y".to_vec()));
        let endless = ReadItem::Range(Bound::Included(b"y".to_vec()), Bound::Unbounded);
        let reads = vec![
            range(b"f", b"h"),
            row(b"c"),
            range(b"b", b"d"),
            row(b"g"),
            row(b"a"),
            range(b"c", b"f"),
            row(b"a"),
            range(b"m", b"m"),
            row(b"h"),
            included.clone(),
        ];
        let after_x = Bound::Included(b"x\0".to_vec());
        let expected = |end: Bound<Vec<u8>>| {
            vec![row(b"a"), row(b"h"), range(b"b", b"h"), ReadItem::Range(after_x.clone(), end)]
        };
        assert_eq!(without_repetition(&reads), expected(Bound::Excluded(b"y\0".to_vec())));
        let longer = [reads, vec![endless, row(b"z")]].concat();
        assert_eq!(without_repetition(&longer), expected(Bound::Unbounded));
    }
}
