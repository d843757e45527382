//! The order of values: the default B-tree class of each type. Sorting, grouping, joins and the comparison operators use it.
//!
//! Invariants:
//! * `compare` is a total order of the values of one type. Nulls are last and equal each other, as they are inside arrays and records.
//! * Values that are equal have the same hash.
//!
//! `character(n)` alone needs its type to be compared, since trailing blanks do not count there: see `comparison`.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

use crate::datum::{Array, Datum, Interval, Jsonb, Record};
use crate::oid::{self, Oid};

/// Compares two values of one type.
pub type Comparison = fn(&Datum, &Datum) -> Ordering;

/// The comparison of a type: faster than `compare` in a sort, and exact for `character(n)`.
pub fn comparison(of: Oid) -> Comparison {
    match of {
        oid::BPCHAR => compare_blank_padded,
        _ => compare,
    }
}

/// Compares two values of one type.
pub fn compare(left: &Datum, right: &Datum) -> Ordering {
    match (left, right) {
        (Datum::Int4(left), Datum::Int4(right)) | (Datum::Date(left), Datum::Date(right)) => left.cmp(right),
        (Datum::Int8(left), Datum::Int8(right))
        | (Datum::Time(left), Datum::Time(right))
        | (Datum::Timestamp(left), Datum::Timestamp(right))
        | (Datum::TimestampTz(left), Datum::TimestampTz(right)) => left.cmp(right),
        (Datum::Text(left), Datum::Text(right)) => left.as_bytes().cmp(right.as_bytes()),
        (Datum::Bool(left), Datum::Bool(right)) => left.cmp(right),
        (Datum::Char(left), Datum::Char(right)) => left.cmp(right),
        (Datum::Int2(left), Datum::Int2(right)) => left.cmp(right),
        (Datum::Oid(left), Datum::Oid(right)) => left.cmp(right),
        (Datum::Float4(left), Datum::Float4(right)) => compare_floats(f64::from(*left), f64::from(*right)),
        (Datum::Float8(left), Datum::Float8(right)) => compare_floats(*left, *right),
        (Datum::Numeric(left), Datum::Numeric(right)) => left.compare(right),
        (Datum::Bytea(left), Datum::Bytea(right)) => left.cmp(right),
        (Datum::TimeTz(left_micros, left_zone), Datum::TimeTz(right_micros, right_zone)) => {
            // A sum of a time and an interval may be at the end of the numbers.
            let utc = |micros: i64, zone: i32| micros.saturating_add(i64::from(zone) * 1_000_000);
            // The same instant in two zones: the zone farther east is less.
            (utc(*left_micros, *left_zone), *left_zone).cmp(&(utc(*right_micros, *right_zone), *right_zone))
        }
        (Datum::Interval(left), Datum::Interval(right)) => interval_micros(left).cmp(&interval_micros(right)),
        (Datum::Uuid(left), Datum::Uuid(right)) => left.cmp(right),
        (Datum::Jsonb(left), Datum::Jsonb(right)) => compare_jsonb(left, right),
        (Datum::Array(left), Datum::Array(right)) => compare_arrays(left, right),
        (Datum::Record(left), Datum::Record(right)) => compare_records(left, right),
        (Datum::Bits(left, left_count), Datum::Bits(right, right_count)) => {
            left.cmp(right).then(left_count.cmp(right_count))
        }
        (Datum::Unsigned8(left), Datum::Unsigned8(right)) => left.cmp(right),
        (Datum::Tid(left_block, left_line), Datum::Tid(right_block, right_line)) => {
            (left_block, left_line).cmp(&(right_block, right_line))
        }
        _ => compare_unlike(left, right),
    }
}

/// Whether two values of one type are equal. Two nulls are.
pub fn is_equal(left: &Datum, right: &Datum) -> bool {
    match (left, right) {
        (Datum::Text(left), Datum::Text(right)) => left == right,
        _ => compare(left, right) == Ordering::Equal,
    }
}

/// Hashes a value: equal values have equal hashes.
pub fn hash_into(value: &Datum, hasher: &mut impl Hasher) {
    match value {
        Datum::Null => hasher.write_u8(0),
        Datum::Bool(value) => hasher.write_u8(u8::from(*value)),
        Datum::Char(value) => hasher.write_u8(*value),
        Datum::Int2(value) => hasher.write_i64(i64::from(*value)),
        Datum::Int4(value) | Datum::Date(value) => hasher.write_i64(i64::from(*value)),
        Datum::Int8(value) | Datum::Time(value) | Datum::Timestamp(value) | Datum::TimestampTz(value) => {
            hasher.write_i64(*value);
        }
        Datum::Oid(value) => hasher.write_u32(*value),
        Datum::Float4(value) => hash_float(f64::from(*value), hasher),
        Datum::Float8(value) => hash_float(*value, hasher),
        Datum::Numeric(value) => value.hash_into(hasher),
        Datum::Text(value) => value.hash(hasher),
        Datum::Bytea(value) => value.hash(hasher),
        Datum::TimeTz(micros, zone) => (*micros, *zone).hash(hasher),
        Datum::Interval(value) => interval_micros(value).hash(hasher),
        Datum::Uuid(value) => value.hash(hasher),
        Datum::Jsonb(value) => hash_jsonb(value, hasher),
        Datum::Array(value) => {
            hasher.write_usize(value.values.len());
            value.values.iter().for_each(|element| hash_as(value.element, element, hasher));
        }
        Datum::Record(record) => {
            record.values.iter().zip(&record.types).for_each(|(value, of)| hash_as(*of, value, hasher));
        }
        Datum::Bits(bits, count) => (bits, *count).hash(hasher),
        Datum::Unsigned8(value) => hasher.write_u64(*value),
        Datum::Tid(block, line) => (*block, *line).hash(hasher),
        Datum::Internal(_) => {}
    }
}

/// Hashes a value of this type.
pub fn hash_as(of: Oid, value: &Datum, hasher: &mut impl Hasher) {
    match value {
        Datum::Text(text) if of == oid::BPCHAR => without_blanks(text).hash(hasher),
        _ => hash_into(value, hasher),
    }
}

/// A float's place: every NaN is equal to itself and after all numbers, and -0 is 0.
pub(crate) fn compare_floats(left: f64, right: f64) -> Ordering {
    left.partial_cmp(&right).unwrap_or_else(|| left.is_nan().cmp(&right.is_nan()))
}

fn hash_float(value: f64, hasher: &mut impl Hasher) {
    let canonical = if value == 0.0 {
        0.0
    } else if value.is_nan() {
        f64::NAN
    } else {
        value
    };
    hasher.write_u64(canonical.to_bits());
}

/// The length by which intervals are compared: a month has 30 days, a day 24 hours.
pub(crate) fn interval_micros(interval: &Interval) -> i128 {
    const DAY: i128 = 86_400_000_000;
    let days = i128::from(interval.months) * 30 + i128::from(interval.days);
    days * DAY + i128::from(interval.micros)
}

/// A `character(n)` as far as comparisons see it.
pub(crate) fn without_blanks(text: &str) -> &str {
    text.trim_end_matches(' ')
}

fn compare_blank_padded(left: &Datum, right: &Datum) -> Ordering {
    match (left, right) {
        (Datum::Text(left), Datum::Text(right)) => {
            without_blanks(left).as_bytes().cmp(without_blanks(right).as_bytes())
        }
        _ => compare(left, right),
    }
}

/// Element by element; then the shorter one is less, then the one with fewer dimensions, then by their shapes.
fn compare_arrays(left: &Array, right: &Array) -> Ordering {
    let compare_elements = comparison(left.element);
    for (left, right) in left.values.iter().zip(&right.values) {
        let order = compare_elements(left, right);
        if order != Ordering::Equal {
            return order;
        }
    }
    let shape = |array: &Array| -> Vec<i32> {
        let lengths = array.dimensions.iter().map(|dimension| dimension.length);
        lengths.chain(array.dimensions.iter().map(|dimension| dimension.lower)).collect()
    };
    (left.values.len().cmp(&right.values.len()))
        .then(left.dimensions.len().cmp(&right.dimensions.len()))
        .then_with(|| {
            if left.dimensions == right.dimensions { Ordering::Equal } else { shape(left).cmp(&shape(right)) }
        })
}

/// Field by field; whether the fields fit each other is for the caller to see.
fn compare_records(left: &Record, right: &Record) -> Ordering {
    for (index, (left_value, right_value)) in left.values.iter().zip(&right.values).enumerate() {
        let of = left.types.get(index).copied().unwrap_or_default();
        let order = comparison(of)(left_value, right_value);
        if order != Ordering::Equal {
            return order;
        }
    }
    left.values.len().cmp(&right.values.len())
}

/// PostgreSQL's order of `jsonb`: null, strings, numbers, booleans, arrays, objects; fewer elements before more.
/// An empty array is before everything else, unless it is inside of another value.
pub fn compare_jsonb(left: &Jsonb, right: &Jsonb) -> Ordering {
    let is_empty = |value: &Jsonb| matches!(value, Jsonb::Array(elements) if elements.is_empty());
    is_empty(right).cmp(&is_empty(left)).then_with(|| compare_inner_jsonb(left, right))
}

fn compare_inner_jsonb(left: &Jsonb, right: &Jsonb) -> Ordering {
    match (left, right) {
        (Jsonb::Bool(left), Jsonb::Bool(right)) => left.cmp(right),
        (Jsonb::Number(left), Jsonb::Number(right)) => left.compare(right),
        (Jsonb::String(left), Jsonb::String(right)) => left.as_bytes().cmp(right.as_bytes()),
        (Jsonb::Array(left), Jsonb::Array(right)) => left.len().cmp(&right.len()).then_with(|| {
            let mut orders = left.iter().zip(right).map(|(left, right)| compare_inner_jsonb(left, right));
            orders.find(|order| *order != Ordering::Equal).unwrap_or(Ordering::Equal)
        }),
        (Jsonb::Object(left), Jsonb::Object(right)) => left.len().cmp(&right.len()).then_with(|| {
            let mut orders = left.iter().zip(right).map(|((left_key, left), (right_key, right))| {
                left_key.as_bytes().cmp(right_key.as_bytes()).then_with(|| compare_inner_jsonb(left, right))
            });
            orders.find(|order| *order != Ordering::Equal).unwrap_or(Ordering::Equal)
        }),
        _ => jsonb_rank(left).cmp(&jsonb_rank(right)),
    }
}

fn jsonb_rank(value: &Jsonb) -> u8 {
    match value {
        Jsonb::Null => 0,
        Jsonb::String(_) => 1,
        Jsonb::Number(_) => 2,
        Jsonb::Bool(_) => 3,
        Jsonb::Array(_) => 4,
        Jsonb::Object(_) => 5,
    }
}

fn hash_jsonb(value: &Jsonb, hasher: &mut impl Hasher) {
    hasher.write_u8(jsonb_rank(value));
    match value {
        Jsonb::Null => {}
        Jsonb::Bool(value) => hasher.write_u8(u8::from(*value)),
        Jsonb::Number(value) => value.hash_into(hasher),
        Jsonb::String(value) => value.hash(hasher),
        Jsonb::Array(elements) => {
            hasher.write_usize(elements.len());
            elements.iter().for_each(|element| hash_jsonb(element, hasher));
        }
        Jsonb::Object(members) => {
            hasher.write_usize(members.len());
            for (key, member) in members {
                key.hash(hasher);
                hash_jsonb(member, hasher);
            }
        }
    }
}

/// Nulls are last. Integers of different widths are compared by value; other mixtures have an order, but no meaning.
fn compare_unlike(left: &Datum, right: &Datum) -> Ordering {
    let integer = |value: &Datum| match value {
        Datum::Int2(value) => Some(i64::from(*value)),
        Datum::Int4(value) => Some(i64::from(*value)),
        Datum::Int8(value) => Some(*value),
        _ => None,
    };
    match (integer(left), integer(right)) {
        (Some(left), Some(right)) => left.cmp(&right),
        _ => rank(left).cmp(&rank(right)),
    }
}

fn rank(value: &Datum) -> u8 {
    match value {
        Datum::Bool(_) => 0,
        Datum::Char(_) => 1,
        Datum::Int2(_) | Datum::Int4(_) | Datum::Int8(_) => 2,
        Datum::Oid(_) => 3,
        Datum::Float4(_) => 4,
        Datum::Float8(_) => 5,
        Datum::Numeric(_) => 6,
        Datum::Text(_) => 7,
        Datum::Bytea(_) => 8,
        Datum::Date(_) => 9,
        Datum::Time(_) => 10,
        Datum::TimeTz(..) => 11,
        Datum::Timestamp(_) => 12,
        Datum::TimestampTz(_) => 13,
        Datum::Interval(_) => 14,
        Datum::Uuid(_) => 15,
        Datum::Jsonb(_) => 16,
        Datum::Array(_) => 17,
        Datum::Record(_) => 18,
        Datum::Bits(..) => 19,
        Datum::Unsigned8(_) => 20,
        Datum::Tid(..) => 21,
        Datum::Internal(_) => 22,
        Datum::Null => 23,
    }
}
