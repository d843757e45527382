//! The bounds of a scan, in row keys.

use std::ops::{Bound, RangeBounds};

use seawall_types::TableId;

use crate::row_key;
use seawall_tree::Direction;

/// Row keys of `table` that lie in `bounds` of users' keys.
pub(crate) fn row_bounds<K: AsRef<[u8]>>(
    table: TableId,
    bounds: &impl RangeBounds<K>,
) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    let row = |key: &K| row_key::encode(table, key.as_ref());
    let from = match bounds.start_bound() {
        Bound::Included(key) => Bound::Included(row(key)),
        Bound::Excluded(key) => Bound::Excluded(row(key)),
        Bound::Unbounded => Bound::Included(row_key::encode(table, b"")),
    };
    let to = match bounds.end_bound() {
        Bound::Included(key) => Bound::Included(row(key)),
        Bound::Excluded(key) => Bound::Excluded(row(key)),
        Bound::Unbounded => Bound::Excluded(row_key::encode(TableId::new(table.get() + 1), b"")),
    };
    (from, to)
}

pub(super) fn is_before_end(key: &[u8], end: Bound<&Vec<u8>>) -> bool {
    match end {
        Bound::Included(end) => key <= &end[..],
        Bound::Excluded(end) => key < &end[..],
        Bound::Unbounded => true,
    }
}

pub(super) fn is_after_start(key: &[u8], start: Bound<&Vec<u8>>) -> bool {
    match start {
        Bound::Included(start) => key >= &start[..],
        Bound::Excluded(start) => key > &start[..],
        Bound::Unbounded => true,
    }
}

/// Whether a key, met in `direction`, is still inside the range and the batch.
pub(super) fn inside_batch<'b>(
    from: &'b Bound<Vec<u8>>,
    to: &'b Bound<Vec<u8>>,
    batch_end: Option<&'b [u8]>,
    direction: Direction,
) -> impl Fn(&[u8]) -> bool + use<'b> {
    move |key| match direction {
        Direction::Forward => is_before_end(key, to.as_ref()) && batch_end.is_none_or(|fence| key < fence),
        Direction::Reverse => {
            is_after_start(key, from.as_ref()) && batch_end.is_none_or(|fence| key >= fence)
        }
    }
}

pub(crate) fn is_empty_range(from: &Bound<Vec<u8>>, to: &Bound<Vec<u8>>) -> bool {
    match (from, to) {
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
        (Bound::Included(from), Bound::Included(to)) => from > to,
        (Bound::Included(from) | Bound::Excluded(from), Bound::Included(to) | Bound::Excluded(to)) => {
            from >= to
        }
    }
}
