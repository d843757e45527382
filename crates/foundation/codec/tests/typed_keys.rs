//! The two promises of typed keys, for every type: bytes sort as values do, and what was written is read back. And one
//! of decoders: any bytes give a value or an error.

use std::cmp::Ordering;
use std::fmt::Debug;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use seawall_codec::key::{self, Key, Timestamp};
use seawall_codec::value::{self, Value};
use uuid::Uuid;

/// Order, round trip and self-delimitation of two keys.
fn check<K: Key + PartialEq + Debug>(a: &K, b: &K, order: Ordering) {
    assert_eq!(key::encode(a).cmp(&key::encode(b)), order, "whole keys {a:?} and {b:?}");
    assert_eq!(key::decode::<K>(&key::encode(a)).as_ref(), Ok(a));

    let (mut bytes_a, mut bytes_b) = (Vec::new(), Vec::new());
    a.encode(&mut bytes_a);
    b.encode(&mut bytes_b);
    if order == Ordering::Equal {
        assert_eq!(bytes_a, bytes_b);
    } else {
        // What follows must not decide: the difference is inside both encodings, so neither is the other's prefix.
        assert_eq!(bytes_a.cmp(&bytes_b), order, "parts {a:?} and {b:?}");
        assert!(!bytes_a.starts_with(&bytes_b) && !bytes_b.starts_with(&bytes_a), "parts {a:?} and {b:?}");
    }

    // A part leaves what follows it alone.
    bytes_a.extend_from_slice(b"rest");
    let mut input = bytes_a.as_slice();
    assert_eq!(K::decode(&mut input).as_ref(), Ok(a));
    assert_eq!(input, b"rest");
}

fn ordered<K: Key + Ord + Debug>(a: &K, b: &K) {
    check(a, b, a.cmp(b));
}

/// Strings of few different bytes, so that prefixes and the escaped bytes come often.
fn tricky_bytes() -> impl Strategy<Value = Vec<u8>> {
    vec(prop_oneof![Just(0u8), Just(1), Just(0xFE), Just(0xFF), any::<u8>()], 0..6)
}

fn tricky_text() -> impl Strategy<Value = String> {
    vec(prop_oneof![Just('\0'), Just('\u{1}'), Just('a'), Just('\u{ff}'), any::<char>()], 0..6)
        .prop_map(|characters| characters.into_iter().collect())
}

fn time() -> impl Strategy<Value = SystemTime> {
    (any::<i32>(), 0u32..1_000_000_000).prop_map(|(seconds, nanoseconds)| {
        let distance = Duration::from_secs(u64::from(seconds.unsigned_abs()));
        let second = if seconds < 0 { UNIX_EPOCH - distance } else { UNIX_EPOCH + distance };
        second + Duration::from_nanos(u64::from(nanoseconds))
    })
}

macro_rules! order_tests {
    ($($name:ident: $strategy:expr;)*) => {
        proptest! {
            #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]
            $(
                #[test]
                fn $name(a in $strategy, b in $strategy) {
                    ordered(&a, &b);
                    ordered(&a, &a);
                }
            )*
        }
    };
}

order_tests! {
    order_of_u8: any::<u8>();
    order_of_u16: any::<u16>();
    order_of_u32: any::<u32>();
    order_of_u64: any::<u64>();
    order_of_u128: any::<u128>();
    order_of_i8: any::<i8>();
    order_of_i16: any::<i16>();
    order_of_i32: any::<i32>();
    order_of_i64: any::<i64>();
    order_of_i128: any::<i128>();
    order_of_bool: any::<bool>();
    order_of_char: any::<char>();
    order_of_text: tricky_text();
    order_of_byte_strings: tricky_bytes();
    order_of_arrays: any::<[u8; 3]>();
    order_of_uuids: any::<u128>().prop_map(Uuid::from_u128);
    order_of_timestamps: any::<i64>();
    order_of_times: time();
    order_of_options: option::of(tricky_text());
    order_of_nested_options: option::of(option::of(0u8..2));
    order_of_pairs: (tricky_bytes(), tricky_bytes());
    order_of_triples: (tricky_text(), any::<i8>(), option::of(tricky_bytes()));
    order_of_nested_tuples: ((tricky_bytes(), 0u8..2), (tricky_text(), tricky_text()));
    order_of_eight_parts:
        (0u8..2, 0i8..2, any::<bool>(), tricky_text(), 0u16..2, tricky_bytes(), option::of(0u8..2), tricky_text());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn floats_are_in_total_order(a in any::<u64>(), b in any::<u64>(), c in any::<u32>(), d in any::<u32>()) {
        let (a, b) = (f64::from_bits(a), f64::from_bits(b));
        prop_assert_eq!(key::encode(&a).cmp(&key::encode(&b)), a.total_cmp(&b));
        prop_assert_eq!(key::decode::<f64>(&key::encode(&a)).unwrap().to_bits(), a.to_bits());
        let (c, d) = (f32::from_bits(c), f32::from_bits(d));
        prop_assert_eq!(key::encode(&c).cmp(&key::encode(&d)), c.total_cmp(&d));
        prop_assert_eq!(key::decode::<f32>(&key::encode(&c)).unwrap().to_bits(), c.to_bits());
    }

    #[test]
    fn values_read_back(
        a in any::<(u8, i16, u32, i64, u128, bool)>(),
        text in any::<String>(),
        bytes in any::<Vec<u8>>(),
        maybe in any::<Option<i32>>(),
        id in any::<u128>(),
    ) {
        let value = (a, text, (), bytes, maybe, Uuid::from_u128(id), Timestamp::from_micros(-5), [1u8, 2]);
        prop_assert_eq!(Value::decode(&value::encode(&value)), Ok(value));
    }

    #[test]
    fn any_bytes_give_a_value_or_an_error(bytes in prop_oneof![vec(any::<u8>(), 0..64), tricky_bytes()]) {
        decode_all(&bytes);
    }
}

type Everything = (String, Option<Vec<u8>>, char, f64, bool, SystemTime, Timestamp, [u8; 2]);

/// What decodes must encode to the same bytes again: no value has two encodings.
fn decode_all(bytes: &[u8]) {
    fn one<K: Key>(bytes: &[u8]) {
        if let Ok(key) = key::decode::<K>(bytes) {
            assert_eq!(key::encode(&key), bytes);
        }
        let mut input = bytes;
        if let Ok(key) = K::decode(&mut input) {
            let mut again = Vec::new();
            key.encode(&mut again);
            assert_eq!(again, bytes[..bytes.len() - input.len()]);
        }
    }
    one::<Everything>(bytes);
    one::<String>(bytes);
    one::<(Vec<u8>, u8)>(bytes);
    one::<(String, String)>(bytes);
    one::<Option<Option<bool>>>(bytes);
    one::<SystemTime>(bytes);
    one::<i128>(bytes);
    one::<char>(bytes);
    fn one_value<V: Value>(bytes: &[u8]) {
        if let Ok(value) = V::decode(bytes) {
            assert_eq!(value::encode(&value), bytes);
        }
    }
    one_value::<(String, Vec<u8>, u8)>(bytes);
    one_value::<Option<(bool, ())>>(bytes);
    one_value::<f64>(bytes);
}

#[test]
fn special_floats_are_where_documented() {
    let sorted = [
        -f64::NAN,
        f64::NEG_INFINITY,
        f64::MIN,
        -1.0,
        -f64::MIN_POSITIVE,
        -5e-324,
        -0.0,
        0.0,
        5e-324,
        1.0,
        f64::MAX,
        f64::INFINITY,
        f64::NAN,
    ];
    let bytes: Vec<_> = sorted.iter().map(key::encode).collect();
    assert!(bytes.is_sorted_by(|a, b| a < b));
}

#[test]
fn extreme_times_do_not_panic() {
    for seconds in [i64::MIN, i64::MIN + 1, -1, 0, i64::MAX] {
        let mut bytes = key::encode(&seconds);
        bytes.extend_from_slice(&999_999_999u32.to_be_bytes());
        if let Ok(time) = key::decode::<SystemTime>(&bytes) {
            assert_eq!(key::encode(&time), bytes);
            let rounded: Timestamp = time.into();
            assert!(rounded.as_micros() < 0 || seconds >= 0);
        }
    }
}
