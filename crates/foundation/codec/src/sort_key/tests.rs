use std::cmp::Ordering;

use proptest::prelude::*;

use super::*;

const ASCENDING: PartOrder = PartOrder { is_descending: false, nulls: Nulls::Last };
const DESCENDING: PartOrder = PartOrder { is_descending: true, nulls: Nulls::First };

fn part(order: PartOrder, write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    write_part(order, &mut out, write);
    out
}

fn decimal(text: &str) -> Vec<u8> {
    let (is_negative, text) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = format!("{whole}{fraction}");
    let scale = u32::try_from(fraction.len()).unwrap();
    part(ASCENDING, |out| write_decimal(Decimal::Finite { is_negative, digits: &digits, scale }, out))
}

#[test]
fn bytes_are_as_documented() {
    let mut out = Vec::new();
    write_part(ASCENDING, &mut out, |out| 7i32.encode(out));
    write_null(ASCENDING, &mut out);
    write_part(DESCENDING, &mut out, |out| write_bytes(b"ab", out));
    assert_eq!(out, b"\x01\x80\0\0\x07\x02\x01\x9e\x9d\xff\xfe");
    assert_eq!(decimal("0.00"), [1, 0x30]);
    assert_eq!(decimal("12.340"), [1, 0x40, 0x80, 0, 2, 13, 35, 0]);
    assert_eq!(decimal("-5"), [1, 0x20, 0x7F, 0xFF, 0xFE, 0xCC, 0xFF]);
}

#[test]
fn floats_have_one_zero_and_one_nan_which_is_last() {
    let bytes = |value: f64| part(ASCENDING, |out| write_f64(value, out));
    assert_eq!(bytes(-0.0), bytes(0.0));
    assert_eq!(bytes(f64::NAN), bytes(-f64::NAN));
    assert!(bytes(f64::INFINITY) < bytes(f64::NAN));
    let bytes = |value: f32| part(ASCENDING, |out| write_f32(value, out));
    assert_eq!(bytes(-0.0), bytes(0.0));
    assert!(bytes(f32::INFINITY) < bytes(-f32::NAN));
}

#[test]
fn special_decimals_are_outside_of_all_numbers() {
    let special = |decimal| part(ASCENDING, |out| write_decimal(decimal, out));
    assert!(special(Decimal::MinusInfinity) < decimal("-99999999999999999999999999"));
    assert!(special(Decimal::Infinity) > decimal("99999999999999999999999999"));
    assert!(special(Decimal::NotANumber) > special(Decimal::Infinity));
}

#[test]
fn damaged_parts_are_refused() {
    assert!(matches!(PartReader::new(&[3]).is_null(ASCENDING), Err(KeyError::Byte { .. })));
    assert!(matches!(PartReader::new(b"ab").bytes(ASCENDING, &mut Vec::new()), Err(KeyError::Unended)));
    assert!(matches!(PartReader::new(b"ab\0").skip_bytes(ASCENDING), Err(KeyError::Unended)));
    assert!(matches!(PartReader::new(&[0x40, 1]).skip_decimal(ASCENDING), Err(KeyError::Short { .. })));
    assert!(matches!(PartReader::new(&[0x41]).skip_decimal(ASCENDING), Err(KeyError::Byte { .. })));
}

/// A value of one of the types, as the model compares it.
#[derive(Clone, Debug)]
enum Sample {
    Null,
    Integer(i64),
    Bytes(Vec<u8>),
    Decimal(i64, u32),
}

fn sample(kind: u8) -> BoxedStrategy<Sample> {
    let value = match kind {
        0 => prop_oneof![any::<i64>(), -2..3i64].prop_map(Sample::Integer).boxed(),
        1 => proptest::collection::vec(prop_oneof![Just(0u8), Just(1), Just(255), any::<u8>()], 0..5)
            .prop_map(Sample::Bytes)
            .boxed(),
        _ => (prop_oneof![any::<i64>(), -300..300i64], 0..6u32)
            .prop_map(|(digits, scale)| Sample::Decimal(digits, scale))
            .boxed(),
    };
    prop_oneof![1 => Just(Sample::Null), 6 => value].boxed()
}

fn compare(left: &Sample, right: &Sample, order: PartOrder) -> Ordering {
    let null = if order.nulls == Nulls::First { Ordering::Less } else { Ordering::Greater };
    let compared = match (left, right) {
        (Sample::Null, Sample::Null) => return Ordering::Equal,
        (Sample::Null, _) => return null,
        (_, Sample::Null) => return null.reverse(),
        (Sample::Integer(left), Sample::Integer(right)) => left.cmp(right),
        (Sample::Bytes(left), Sample::Bytes(right)) => left.cmp(right),
        (Sample::Decimal(left, left_scale), Sample::Decimal(right, right_scale)) => {
            let scaled = |digits: i64, scale: u32| i128::from(digits) * 10i128.pow(6 - scale);
            scaled(*left, *left_scale).cmp(&scaled(*right, *right_scale))
        }
        _ => unreachable!("both are of one type"),
    };
    if order.is_descending { compared.reverse() } else { compared }
}

fn write(value: &Sample, order: PartOrder, out: &mut Vec<u8>) {
    match value {
        Sample::Null => write_null(order, out),
        Sample::Integer(value) => write_part(order, out, |out| value.encode(out)),
        Sample::Bytes(bytes) => write_part(order, out, |out| write_bytes(bytes, out)),
        Sample::Decimal(digits, scale) => {
            let text = digits.unsigned_abs().to_string();
            let decimal = Decimal::Finite { is_negative: *digits < 0, digits: &text, scale: *scale };
            write_part(order, out, |out| write_decimal(decimal, out));
        }
    }
}

fn key() -> impl Strategy<Value = (Vec<PartOrder>, Vec<Sample>, Vec<Sample>)> {
    let part = (0..3u8, any::<bool>(), any::<bool>()).prop_flat_map(|(kind, is_descending, first)| {
        let nulls = if first { Nulls::First } else { Nulls::Last };
        (Just(PartOrder { is_descending, nulls }), sample(kind), sample(kind))
    });
    proptest::collection::vec(part, 1..4).prop_map(|parts| {
        let orders = parts.iter().map(|part| part.0).collect();
        let left = parts.iter().map(|part| part.1.clone()).collect();
        (orders, left, parts.into_iter().map(|part| part.2).collect())
    })
}

proptest! {
    #[test]
    fn bytes_have_the_order_of_the_values((orders, left, right) in key()) {
        let encode = |values: &[Sample]| {
            let mut out = Vec::new();
            orders.iter().zip(values).for_each(|(order, value)| write(value, *order, &mut out));
            out
        };
        let both = orders.iter().zip(left.iter().zip(&right));
        let expected = both.map(|(order, (left, right))| compare(left, right, *order)).find(|order| order.is_ne());
        prop_assert_eq!(encode(&left).cmp(&encode(&right)), expected.unwrap_or(Ordering::Equal));
    }

    #[test]
    fn parts_are_read_and_passed_over_as_they_were_written((orders, values, _) in key()) {
        let mut out = Vec::new();
        orders.iter().zip(&values).for_each(|(order, value)| write(value, *order, &mut out));
        let (mut reader, mut skipper) = (PartReader::new(&out), PartReader::new(&out));
        for (order, value) in orders.iter().zip(&values) {
            let is_null = reader.is_null(*order).unwrap();
            prop_assert_eq!(is_null, skipper.is_null(*order).unwrap());
            prop_assert_eq!(is_null, matches!(value, Sample::Null));
            match value {
                Sample::Null => {}
                Sample::Integer(value) => {
                    prop_assert_eq!(reader.value::<i64, 8>(*order).unwrap(), *value);
                    skipper.skip_fixed(8).unwrap();
                }
                Sample::Bytes(bytes) => {
                    let mut read = Vec::new();
                    reader.bytes(*order, &mut read).unwrap();
                    prop_assert_eq!(&read, bytes);
                    skipper.skip_bytes(*order).unwrap();
                }
                Sample::Decimal(..) => {
                    reader.skip_decimal(*order).unwrap();
                    skipper.skip_decimal(*order).unwrap();
                }
            }
        }
        prop_assert!(reader.rest().is_empty() && skipper.rest().is_empty());
    }

    #[test]
    fn reading_anything_ends_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..40), descending in any::<bool>()) {
        let order = PartOrder { is_descending: descending, nulls: Nulls::Last };
        let mut reader = PartReader::new(&bytes);
        while reader.is_null(order).is_ok() && reader.skip_decimal(order).is_ok() && reader.bytes(order, &mut Vec::new()).is_ok() {}
    }
}
