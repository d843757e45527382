//! Comparison of values in rows: keys of sorts, groups and hash tables.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

use rustc_hash::FxHasher;
use seawall_values::{Datum, Oid, oid, order};

/// A key of a sort over the slots of a row, or over the values of a stored row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    /// The slot, or the position.
    pub(crate) at: usize,
    pub(crate) is_descending: bool,
    pub(crate) is_nulls_first: bool,
    /// Whether spaces at the end do not count: `character(n)`.
    pub(crate) is_padded: bool,
}

impl Key {
    /// The order of two values of this key.
    #[inline]
    pub(crate) fn compare(&self, left: &Datum, right: &Datum) -> Ordering {
        match (left.is_null(), right.is_null()) {
            (true, true) => Ordering::Equal,
            (true, false) if self.is_nulls_first => Ordering::Less,
            (true, false) => Ordering::Greater,
            (false, true) if self.is_nulls_first => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => {
                let ordering = compare(left, right, self.is_padded);
                if self.is_descending { ordering.reverse() } else { ordering }
            }
        }
    }
}

/// The order of two rows by keys whose `at` is a position in them.
pub(crate) fn compare_rows(keys: &[Key], left: &[Datum], right: &[Datum]) -> Ordering {
    for key in keys {
        let ordering = key.compare(&left[key.at], &right[key.at]);
        if ordering != Ordering::Equal {
            return ordering;
        }
    }
    Ordering::Equal
}

fn integer(datum: &Datum) -> Option<i64> {
    match datum {
        Datum::Int2(value) => Some(i64::from(*value)),
        Datum::Int4(value) => Some(i64::from(*value)),
        Datum::Int8(value) => Some(*value),
        _ => None,
    }
}

fn without_padding(text: &str) -> &str {
    text.trim_end_matches(' ')
}

/// The order of two values that are not null. Integers of all widths compare, as do both kinds of floats.
#[inline]
pub(crate) fn compare(left: &Datum, right: &Datum, is_padded: bool) -> Ordering {
    match (left, right) {
        (Datum::Int4(left), Datum::Int4(right)) => left.cmp(right),
        (Datum::Int8(left), Datum::Int8(right)) => left.cmp(right),
        (Datum::Text(left), Datum::Text(right)) if is_padded => {
            without_padding(left).cmp(without_padding(right))
        }
        (Datum::Text(left), Datum::Text(right)) => left.as_bytes().cmp(right.as_bytes()),
        _ => compare_others(left, right),
    }
}

fn compare_others(left: &Datum, right: &Datum) -> Ordering {
    match (left, right) {
        (Datum::Float4(left), Datum::Float8(_)) => order::compare(&Datum::Float8(f64::from(*left)), right),
        (Datum::Float8(_), Datum::Float4(right)) => order::compare(left, &Datum::Float8(f64::from(*right))),
        _ => match (integer(left), integer(right)) {
            (Some(left), Some(right)) => left.cmp(&right),
            _ => order::compare(left, right),
        },
    }
}

/// Whether two values are the same; two nulls are.
pub(crate) fn is_same(left: &Datum, right: &Datum, is_padded: bool) -> bool {
    match (left.is_null(), right.is_null()) {
        (false, false) => compare(left, right, is_padded) == Ordering::Equal,
        (left, right) => left == right,
    }
}

/// Feeds a value to a hasher so that the same values give the same hash.
#[inline]
pub(crate) fn hash_value(datum: &Datum, is_padded: bool, hasher: &mut FxHasher) {
    match datum {
        Datum::Null => hasher.write_u8(0),
        Datum::Int2(value) => i64::from(*value).hash(hasher),
        Datum::Int4(value) => i64::from(*value).hash(hasher),
        Datum::Int8(value) => value.hash(hasher),
        Datum::Text(text) if is_padded => without_padding(text).hash(hasher),
        Datum::Text(text) => text.hash(hasher),
        Datum::Float4(value) => order::hash_into(&Datum::Float8(f64::from(*value)), hasher),
        other => order::hash_into(other, hasher),
    }
}

/// The hash of values: `padded` says which of them are `character(n)`.
pub(crate) fn hash_values<'a>(values: impl Iterator<Item = (&'a Datum, bool)>) -> u64 {
    let mut hasher = FxHasher::default();
    for (value, is_padded) in values {
        hash_value(value, is_padded, &mut hasher);
    }
    mix(hasher.finish())
}

/// Spreads a hash over all bits: partitions take some, tables others.
fn mix(hash: u64) -> u64 {
    let hash = (hash ^ (hash >> 32)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    hash ^ (hash >> 29)
}

/// Whether the lists have the same values.
pub(crate) fn are_same(left: &[Datum], right: &[Datum], padded: &[bool]) -> bool {
    left.iter().zip(right).zip(padded).all(|((left, right), padded)| is_same(left, right, *padded))
}

/// Whether values of a type are compared as `character(n)`.
pub(crate) fn is_padded(of: Oid) -> bool {
    of == oid::BPCHAR
}
