//! Typed keys, typed values, compressed blocks.

use std::cmp::Ordering;
use std::fmt::Debug;
use std::time::SystemTime;

use seawall_codec::compression::{Compression, Compressor, Decompressor};
use seawall_codec::key::{self, Key, Timestamp};
use seawall_codec::value::{self, Value};
use uuid::Uuid;

use crate::input::{Entries, Input};

/// The entry functions of this file, by the name of their target.
pub const ENTRIES: &Entries =
    &[("typed_key", typed_key), ("typed_value", typed_value), ("compression", compression)];

/// What is decoded is exactly what `encode` writes, at the end of a key and in the middle of one; and two keys are in
/// the order of their bytes.
fn check_key<K: Key>(bytes: &[u8], order: impl Fn(&K, &K) -> Ordering) {
    let whole = key::decode::<K>(bytes);
    if let Ok(key) = &whole {
        assert_eq!(key::encode(key), bytes, "a whole key has one encoding");
    }
    let mut left = bytes;
    let Ok(first) = K::decode(&mut left) else { return };
    let mut encoded = Vec::new();
    first.encode(&mut encoded);
    assert_eq!(encoded, bytes[..bytes.len() - left.len()], "a part of a key has one encoding");
    let first_bytes = encoded;
    let Ok(second) = K::decode(&mut left) else { return };
    let mut second_bytes = Vec::new();
    second.encode(&mut second_bytes);
    assert_eq!(first_bytes.cmp(&second_bytes), order(&first, &second), "the bytes sort as the keys do");
    assert_eq!(key::encode(&first).cmp(&key::encode(&second)), order(&first, &second));
    if first_bytes != second_bytes {
        assert!(!second_bytes.starts_with(&first_bytes), "no encoding is the start of another");
    }
}

/// A key of one of many types: the first byte chooses.
pub fn typed_key(data: &[u8]) {
    let mut input = Input::new(data);
    let chosen = input.byte();
    let bytes = input.rest();
    match chosen % 24 {
        0 => check_key::<u8>(bytes, Ord::cmp),
        1 => check_key::<u32>(bytes, Ord::cmp),
        2 => check_key::<u128>(bytes, Ord::cmp),
        3 => check_key::<i8>(bytes, Ord::cmp),
        4 => check_key::<i64>(bytes, Ord::cmp),
        5 => check_key::<i128>(bytes, Ord::cmp),
        6 => check_key::<f32>(bytes, f32::total_cmp),
        7 => check_key::<f64>(bytes, f64::total_cmp),
        8 => check_key::<bool>(bytes, Ord::cmp),
        9 => check_key::<char>(bytes, Ord::cmp),
        10 => check_key::<String>(bytes, Ord::cmp),
        11 => check_key::<Vec<u8>>(bytes, Ord::cmp),
        12 => check_key::<[u8; 5]>(bytes, Ord::cmp),
        13 => check_key::<Option<String>>(bytes, Ord::cmp),
        14 => check_key::<Option<Option<u16>>>(bytes, Ord::cmp),
        15 => check_key::<Uuid>(bytes, Ord::cmp),
        16 => check_key::<Timestamp>(bytes, Ord::cmp),
        17 => check_key::<SystemTime>(bytes, Ord::cmp),
        18 => check_key::<(String, u16)>(bytes, Ord::cmp),
        19 => check_key::<(u16, Vec<u8>, String)>(bytes, Ord::cmp),
        20 => check_key::<(Option<Vec<u8>>, Vec<u8>)>(bytes, Ord::cmp),
        21 => check_key::<((String, bool), Option<i16>, char, Vec<u8>)>(bytes, Ord::cmp),
        22 => check_key::<(u8, u8, u8, u8, u8, u8, SystemTime, Option<String>)>(bytes, Ord::cmp),
        _ => check_key::<Option<(Vec<u8>, Vec<u8>)>>(bytes, Ord::cmp),
    }
}

fn check_value<V: Value + Debug>(bytes: &[u8]) {
    if let Ok(decoded) = V::decode(bytes) {
        assert_eq!(value::encode(&decoded), bytes, "{decoded:?} has one encoding");
    }
}

/// A value of one of many types: the first byte chooses.
pub fn typed_value(data: &[u8]) {
    let mut input = Input::new(data);
    let chosen = input.byte();
    let bytes = input.rest();
    match chosen % 18 {
        0 => check_value::<u8>(bytes),
        1 => check_value::<u64>(bytes),
        2 => check_value::<i128>(bytes),
        3 => check_value::<f32>(bytes),
        4 => check_value::<f64>(bytes),
        5 => check_value::<bool>(bytes),
        6 => check_value::<()>(bytes),
        7 => check_value::<Vec<u8>>(bytes),
        8 => check_value::<String>(bytes),
        9 => check_value::<[u8; 7]>(bytes),
        10 => check_value::<Uuid>(bytes),
        11 => check_value::<Timestamp>(bytes),
        12 => check_value::<Option<String>>(bytes),
        13 => check_value::<Option<Option<bool>>>(bytes),
        14 => check_value::<(String,)>(bytes),
        15 => check_value::<(String, u16, Vec<u8>)>(bytes),
        16 => check_value::<((String, bool), Option<(u8, String)>, ())>(bytes),
        _ => check_value::<((), (), String, u8, bool, Option<u8>, Vec<u8>, Option<String>)>(bytes),
    }
}

/// A block is taken as a compressed one, and compressed as it is.
pub fn compression(data: &[u8]) {
    let mut input = Input::new(data);
    let code = input.byte();
    let expected = usize::from(input.u16()) % 16_385;
    let block = input.rest();
    let Some(compression) = Compression::from_code(code % 5) else { return };
    let mut decompressor = Decompressor::new();
    let mut output = vec![0xEE; expected];
    if let Err(error) = decompressor.decompress(compression, block, &mut output) {
        assert!(!error.to_string().is_empty());
    }
    let mut packed = vec![1, 2, 3];
    let bytes = Compressor::new(compression).compress(block, &mut packed);
    assert_eq!(packed.len(), 3 + bytes);
    let mut back = vec![0; block.len()];
    decompressor.decompress(compression, &packed[3..], &mut back).expect("what was compressed comes back");
    assert_eq!(back, block);
    let mut longer = vec![0; block.len() + 1];
    let refused = decompressor.decompress(compression, &packed[3..], &mut longer);
    assert!(refused.is_err(), "one byte short is an error");
}
