use std::os::unix::fs::FileExt;
use std::sync::Arc;

use proptest::prelude::*;
use seawall_values::datum::{Array, Dimension, Interval, Jsonb, Numeric, Record};
use seawall_values::{Datum, SqlState, oid};

use super::{SpillFile, SpillReader, row_codec};

fn numeric() -> impl Strategy<Value = Numeric> {
    prop_oneof![
        (any::<i128>(), 0..100_u32)
            .prop_map(|(digits, scale)| Numeric::Finite { digits: digits.into(), scale }),
        Just(Numeric::PositiveInfinity),
        Just(Numeric::NegativeInfinity),
        Just(Numeric::NotANumber),
    ]
}

fn json() -> impl Strategy<Value = Jsonb> {
    let leaf = prop_oneof![
        Just(Jsonb::Null),
        any::<bool>().prop_map(Jsonb::Bool),
        numeric().prop_map(Jsonb::Number),
        ".{0,8}".prop_map(|text| Jsonb::String(Arc::from(text))),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Jsonb::Array),
            prop::collection::vec((".{0,4}", inner), 0..4).prop_map(|members| {
                Jsonb::Object(members.into_iter().map(|(key, value)| (Arc::from(key), value)).collect())
            }),
        ]
    })
}

fn datum() -> impl Strategy<Value = Datum> {
    let leaf = prop_oneof![
        Just(Datum::Null),
        any::<bool>().prop_map(Datum::Bool),
        any::<u8>().prop_map(Datum::Char),
        any::<i16>().prop_map(Datum::Int2),
        any::<i32>().prop_map(Datum::Int4),
        any::<i64>().prop_map(Datum::Int8),
        any::<u32>().prop_map(Datum::Oid),
        any::<f32>().prop_map(Datum::Float4),
        any::<f64>().prop_map(Datum::Float8),
        numeric().prop_map(|value| Datum::Numeric(Arc::new(value))),
        ".{0,20}".prop_map(Datum::text),
        prop::collection::vec(any::<u8>(), 0..20).prop_map(|bytes| Datum::Bytea(Arc::from(bytes))),
        any::<i32>().prop_map(Datum::Date),
        any::<i64>().prop_map(Datum::Time),
        any::<(i64, i32)>().prop_map(|(time, zone)| Datum::TimeTz(time, zone)),
        any::<i64>().prop_map(Datum::Timestamp),
        any::<i64>().prop_map(Datum::TimestampTz),
        any::<(i32, i32, i64)>().prop_map(|(months, days, micros)| Datum::Interval(Interval {
            months,
            days,
            micros
        })),
        any::<[u8; 16]>().prop_map(Datum::Uuid),
        json().prop_map(|value| Datum::Jsonb(Arc::new(value))),
        prop::collection::vec(any::<u8>(), 0..4).prop_map(|bits| Datum::Bits(Arc::from(bits), 3)),
        any::<u64>().prop_map(Datum::Unsigned8),
        any::<(u32, u16)>().prop_map(|(block, line)| Datum::Tid(block, line)),
    ];
    leaf.prop_recursive(2, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(|values| {
                let dimensions = vec![Dimension { length: 4, lower: -1 }];
                Datum::Array(Arc::new(Array { element: oid::TEXT, dimensions, values }))
            }),
            prop::collection::vec(inner, 0..4).prop_map(|values| {
                Datum::Record(Arc::new(Record { types: vec![oid::INT4; values.len()], names: None, values }))
            }),
        ]
    })
}

proptest! {
    #[test]
    fn a_row_comes_back_as_it_was(row in prop::collection::vec(datum(), 0..6)) {
        let mut bytes = Vec::new();
        row_codec::encode(&row, &mut bytes).expect("rows can be encoded");
        let mut found = Vec::new();
        row_codec::decode(&bytes, &mut found).expect("what was encoded can be decoded");
        prop_assert_eq!(format!("{found:?}"), format!("{row:?}"));
    }

    #[test]
    fn other_bytes_are_refused_or_read_but_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        let mut found = Vec::new();
        let outcome = row_codec::decode(&bytes, &mut found);
        prop_assert!(outcome.is_ok() || outcome.is_err_and(|error| error.code == SqlState::DATA_CORRUPTED));
    }
}

#[test]
fn rows_are_read_while_more_are_written() {
    let mut file = SpillFile::create(&Arc::default()).expect("a file");
    let mut reader = SpillReader::default();
    for number in 0..20_000 {
        file.push(&[Datum::Int4(number), Datum::text("x".repeat(20))]).expect("pushed");
        if number % 3 == 0 {
            let mut row = Vec::new();
            assert!(reader.next(&file, &mut row).expect("read"));
            assert!(matches!(row[0], Datum::Int4(found) if found == number / 3), "{row:?} at {number}");
        }
    }
}

#[test]
fn a_damaged_file_is_reported() {
    let mut file = SpillFile::create(&Arc::default()).expect("a file");
    file.push(&[Datum::Int8(77)]).expect("pushed");
    file.flush().expect("written");
    file.file.write_all_at(&[0xFF], 20).expect("damaged");
    let error = SpillReader::default().next(&file, &mut Vec::new()).expect_err("the checksum differs");
    assert_eq!(error.code, SqlState::DATA_CORRUPTED);
}
