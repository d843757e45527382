use std::sync::Arc;

use num_bigint::BigInt;
use proptest::prelude::*;
use seawall_values::datum::{Jsonb, Numeric};
use seawall_values::{Array, Interval, Record, TypeReference, oid};

use super::*;
use crate::schema::{Column, KeyColumn};

fn column(of: seawall_values::Oid) -> Column {
    Column {
        name: "c".to_owned(),
        of: TypeReference::of(of),
        is_not_null: false,
        default: None,
        identity: None,
        generated: None,
        missing: Datum::Null,
        is_dropped: false,
        sequence: 0,
        domain: 0,
    }
}

fn table(types: &[seawall_values::Oid], key: RowKey) -> Table {
    Table {
        oid: 16384,
        name: "t".to_owned(),
        namespace: 2200,
        owner: 10,
        columns: types.iter().map(|of| column(*of)).collect(),
        key,
        storage: "t16384".to_owned(),
        indexes: Vec::new(),
        constraints: Vec::new(),
        is_temporary: false,
        query: None,
        version: 1,
        options: Vec::new(),
    }
}

fn read(layout: &RowLayout, wanted: &[usize], key: &[u8], value: &[u8]) -> Vec<String> {
    let mut row = vec![Datum::Null; wanted.len()];
    layout.reader(wanted).read(key, value, &mut row).unwrap();
    row.iter().map(|value| format!("{value:?}")).collect()
}

fn shown(row: &[Datum]) -> Vec<String> {
    row.iter().map(|value| format!("{value:?}")).collect()
}

#[test]
fn bytes_are_as_documented() {
    let layout = RowLayout::of(&table(&[oid::INT4, oid::TEXT, oid::BOOL], RowKey::Number));
    let mut value = Vec::new();
    layout.write_value(&[Datum::Int4(5), Datum::text("ab"), Datum::Null], &mut value).unwrap();
    assert_eq!(value, [1, 3, 0b011, 5, 0, 0, 0, 2, b'a', b'b']);
}

#[test]
fn columns_of_the_key_are_stored_once_where_the_key_gives_them_back() {
    let key = |column| KeyColumn { column, is_descending: column == 0, is_nulls_first: false };
    let layout =
        RowLayout::of(&table(&[oid::TEXT, oid::FLOAT8, oid::INT2], RowKey::Columns(vec![key(1), key(0)])));
    let row = [Datum::text("a\0b"), Datum::Float8(-0.0), Datum::Int2(7)];
    let (mut bytes, mut value) = (Vec::new(), Vec::new());
    layout.write_key(&row, &mut bytes).unwrap();
    layout.write_value(&row, &mut value).unwrap();
    assert_eq!(value[2], 0b110);
    assert_eq!(read(&layout, &[0, 1, 2], &bytes, &value), shown(&row));
    assert_eq!(read(&layout, &[0], &bytes, &value), shown(&row[..1]));
    assert_eq!(read(&layout, &[2, 1], &bytes, &value), shown(&[row[2].clone(), row[1].clone()]));
    assert_eq!(read(&layout, &[], &bytes, &value), shown(&[]));
}

#[test]
fn added_columns_have_their_missing_value_and_dropped_ones_none() {
    let old = RowLayout::of(&table(&[oid::INT4, oid::TEXT], RowKey::Number));
    let mut value = Vec::new();
    old.write_value(&[Datum::Int4(1), Datum::text("x")], &mut value).unwrap();
    let mut changed = table(&[oid::INT4, oid::TEXT, oid::INT8], RowKey::Number);
    changed.columns[0].is_dropped = true;
    changed.columns[2].missing = Datum::Int8(9);
    let layout = RowLayout::of(&changed);
    assert_eq!(
        read(&layout, &[0, 1, 2], &[0; 8], &value),
        shown(&[Datum::Null, Datum::text("x"), Datum::Int8(9)])
    );
    let mut rewritten = Vec::new();
    layout.write_value(&[Datum::Null, Datum::text("x"), Datum::Null], &mut rewritten).unwrap();
    assert_eq!(read(&layout, &[2], &[0; 8], &rewritten), shown(&[Datum::Null]));
}

#[test]
fn a_value_of_another_type_is_refused() {
    let layout = RowLayout::of(&table(&[oid::INT4], RowKey::Number));
    let refused = layout.write_value(&[Datum::Int8(1)], &mut Vec::new()).unwrap_err();
    assert_eq!(refused.code.as_str(), "XX000");
    assert_eq!(layout.write_value(&[], &mut Vec::new()).unwrap_err().code.as_str(), "XX000");
}

const TYPES: [seawall_values::Oid; 25] = [
    oid::BOOL,
    oid::CHAR,
    oid::INT2,
    oid::INT4,
    oid::INT8,
    oid::OID,
    oid::FLOAT4,
    oid::FLOAT8,
    oid::NUMERIC,
    oid::TEXT,
    oid::BPCHAR,
    oid::BYTEA,
    oid::DATE,
    oid::TIME,
    oid::TIMETZ,
    oid::TIMESTAMP,
    oid::TIMESTAMPTZ,
    oid::INTERVAL,
    oid::UUID,
    oid::JSONB,
    oid::VARBIT,
    oid::PG_LSN,
    oid::TID,
    oid::INT4_ARRAY,
    oid::RECORD,
];

fn numeric() -> impl Strategy<Value = Numeric> {
    prop_oneof![
        8 => (any::<i128>(), 0..50u32).prop_map(|(digits, scale)| Numeric::Finite { digits: BigInt::from(digits), scale }),
        1 => Just(Numeric::NotANumber),
        1 => Just(Numeric::PositiveInfinity),
        1 => Just(Numeric::NegativeInfinity),
    ]
}

fn jsonb() -> impl Strategy<Value = Jsonb> {
    let leaf = prop_oneof![
        Just(Jsonb::Null),
        any::<bool>().prop_map(Jsonb::Bool),
        numeric().prop_map(Jsonb::Number),
        ".{0,4}".prop_map(|text| Jsonb::String(Arc::from(text))),
    ];
    leaf.prop_recursive(3, 20, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Jsonb::Array),
            proptest::collection::vec((".{0,3}".prop_map(Arc::from), inner), 0..4).prop_map(Jsonb::Object),
        ]
    })
}

fn datum(of: seawall_values::Oid) -> BoxedStrategy<Datum> {
    let value = match of {
        oid::BOOL => any::<bool>().prop_map(Datum::Bool).boxed(),
        oid::CHAR => any::<u8>().prop_map(Datum::Char).boxed(),
        oid::INT2 => any::<i16>().prop_map(Datum::Int2).boxed(),
        oid::INT4 => any::<i32>().prop_map(Datum::Int4).boxed(),
        oid::INT8 => any::<i64>().prop_map(Datum::Int8).boxed(),
        oid::OID => any::<u32>().prop_map(Datum::Oid).boxed(),
        oid::FLOAT4 => any::<f32>().prop_map(Datum::Float4).boxed(),
        oid::FLOAT8 => any::<f64>().prop_map(Datum::Float8).boxed(),
        oid::NUMERIC => numeric().prop_map(|value| Datum::Numeric(Arc::new(value))).boxed(),
        oid::TEXT | oid::BPCHAR => ".{0,6}".prop_map(Datum::text).boxed(),
        oid::BYTEA => proptest::collection::vec(any::<u8>(), 0..6)
            .prop_map(|bytes| Datum::Bytea(Arc::from(bytes)))
            .boxed(),
        oid::DATE => any::<i32>().prop_map(Datum::Date).boxed(),
        oid::TIME => (0..86_400_000_000i64).prop_map(Datum::Time).boxed(),
        oid::TIMETZ => (0..86_400_000_000i64, -57_599..57_600i32)
            .prop_map(|(time, zone)| Datum::TimeTz(time, zone))
            .boxed(),
        oid::TIMESTAMP => any::<i64>().prop_map(Datum::Timestamp).boxed(),
        oid::TIMESTAMPTZ => any::<i64>().prop_map(Datum::TimestampTz).boxed(),
        oid::INTERVAL => (any::<i32>(), any::<i32>(), any::<i64>())
            .prop_map(|(months, days, micros)| Datum::Interval(Interval { months, days, micros }))
            .boxed(),
        oid::UUID => any::<[u8; 16]>().prop_map(Datum::Uuid).boxed(),
        oid::JSONB => jsonb().prop_map(|value| Datum::Jsonb(Arc::new(value))).boxed(),
        oid::VARBIT => (0..30u32)
            .prop_map(|bits| Datum::Bits(Arc::from(vec![0x80; bits.div_ceil(8) as usize]), bits))
            .boxed(),
        oid::PG_LSN => any::<u64>().prop_map(Datum::Unsigned8).boxed(),
        oid::TID => (any::<u32>(), any::<u16>()).prop_map(|(block, line)| Datum::Tid(block, line)).boxed(),
        oid::INT4_ARRAY => proptest::collection::vec(datum(oid::INT4), 0..4)
            .prop_map(|values| Datum::Array(Arc::new(Array::one_dimensional(oid::INT4, values))))
            .boxed(),
        _ => (datum(oid::TEXT), datum(oid::INT4))
            .prop_map(|(left, right)| {
                Datum::Record(Arc::new(Record {
                    types: vec![oid::TEXT, oid::INT4],
                    names: None,
                    values: vec![left, right],
                }))
            })
            .boxed(),
    };
    prop_oneof![1 => Just(Datum::Null), 5 => value].boxed()
}

/// A table, a row of it, and which of its columns are the primary key.
fn sample() -> impl Strategy<Value = (Vec<seawall_values::Oid>, Vec<Datum>, Vec<(usize, bool)>)> {
    let columns = proptest::collection::vec(0..TYPES.len(), 1..9);
    columns.prop_flat_map(|columns| {
        let types: Vec<_> = columns.iter().map(|index| TYPES[*index]).collect();
        let key = proptest::collection::vec((0..types.len(), any::<bool>()), 0..4);
        let row: Vec<_> = types.iter().map(|of| datum(*of)).collect();
        (Just(types), row, key)
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        (types, row, mut key) in sample(),
        wanted in proptest::collection::vec(any::<prop::sample::Index>(), 0..5),
    ) {
        key.sort_unstable();
        key.dedup_by_key(|part| part.0);
        key.retain(|(column, _)| !row[*column].is_null());
        let columns = key.iter().map(|(column, descending)| KeyColumn { column: *column, is_descending: *descending, is_nulls_first: false });
        let key = if key.is_empty() { RowKey::Number } else { RowKey::Columns(columns.collect()) };
        let layout = RowLayout::of(&table(&types, key));
        let (mut bytes, mut value) = (Vec::new(), Vec::new());
        if layout.is_numbered() {
            bytes.extend_from_slice(&RowLayout::number_key(7));
        } else {
            layout.write_key(&row, &mut bytes).unwrap();
        }
        layout.write_value(&row, &mut value).unwrap();
        let mut wanted: Vec<_> = wanted.iter().map(|index| index.index(types.len())).collect();
        wanted.sort_unstable();
        wanted.dedup();
        let expected: Vec<_> = wanted.iter().map(|column| row[*column].clone()).collect();
        prop_assert_eq!(read(&layout, &wanted, &bytes, &value), shown(&expected));
        let mut whole = vec![Datum::Null; types.len()];
        layout.whole_reader().read(&bytes, &value, &mut whole).unwrap();
        prop_assert_eq!(shown(&whole), shown(&row));
    }

    #[test]
    fn reading_anything_ends_without_a_panic(
        types in proptest::collection::vec(prop::sample::select(&TYPES[..]), 1..9),
        key in proptest::collection::vec(any::<u8>(), 0..40),
        mut value in proptest::collection::vec(any::<u8>(), 0..80),
    ) {
        let columns = vec![KeyColumn { column: 0, is_descending: true, is_nulls_first: false }];
        let layout = RowLayout::of(&table(&types, RowKey::Columns(columns)));
        if let Some(version) = value.first_mut() {
            *version = ROW_VERSION;
        }
        let refused = layout.whole_reader().read(&key, &value, &mut vec![Datum::Null; types.len()]).err();
        prop_assert!(refused.is_none_or(|error| error.code.as_str() == "XX001"));
    }
}
