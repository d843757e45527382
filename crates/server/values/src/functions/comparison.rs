//! The comparison operators of all types.

use std::cmp::Ordering;

use super::Call;
use super::Table;
use super::arguments::{mismatch, row};
use crate::datum::{Datum, Record};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::oid;
use crate::order::{compare, compare_floats, comparison, is_equal, without_blanks};

/// The six operators and the comparison of arguments of these variants, where their order is an expression of the two.
macro_rules! compared {
    ($left:ident, $right:ident, |$a:ident, $b:ident| $order:expr, $equal:literal, $unequal:literal, $less:literal, $at_most:literal, $greater:literal, $at_least:literal) => {
        &[
            row!($equal, [$left $a, $right $b], Ok(Datum::Bool($order.is_eq()))),
            row!($unequal, [$left $a, $right $b], Ok(Datum::Bool($order.is_ne()))),
            row!($less, [$left $a, $right $b], Ok(Datum::Bool($order.is_lt()))),
            row!($at_most, [$left $a, $right $b], Ok(Datum::Bool($order.is_le()))),
            row!($greater, [$left $a, $right $b], Ok(Datum::Bool($order.is_gt()))),
            row!($at_least, [$left $a, $right $b], Ok(Datum::Bool($order.is_ge()))),
        ]
    };
}

/// Primitive operands: the processor compares them without an `Ordering` in between.
macro_rules! primitive {
    ($native:ty, $left:ident, $right:ident, $equal:literal, $unequal:literal, $less:literal, $at_most:literal, $greater:literal, $at_least:literal) => {
        &[
            row!($equal, [$left a, $right b], Ok(Datum::Bool(<$native>::from(*a) == <$native>::from(*b)))),
            row!($unequal, [$left a, $right b], Ok(Datum::Bool(<$native>::from(*a) != <$native>::from(*b)))),
            row!($less, [$left a, $right b], Ok(Datum::Bool(<$native>::from(*a) < <$native>::from(*b)))),
            row!($at_most, [$left a, $right b], Ok(Datum::Bool(<$native>::from(*a) <= <$native>::from(*b)))),
            row!($greater, [$left a, $right b], Ok(Datum::Bool(<$native>::from(*a) > <$native>::from(*b)))),
            row!($at_least, [$left a, $right b], Ok(Datum::Bool(<$native>::from(*a) >= <$native>::from(*b)))),
        ]
    };
}

/// Any two arguments, by the order of their type.
macro_rules! ordered {
    ($equal:literal, $unequal:literal, $less:literal, $at_most:literal, $greater:literal, $at_least:literal) => {
        &[
            ($equal, |call| two(call, |left, right| is_equal(left, right))),
            ($unequal, |call| two(call, |left, right| !is_equal(left, right))),
            ($less, |call| two(call, |left, right| compare(left, right).is_lt())),
            ($at_most, |call| two(call, |left, right| compare(left, right).is_le())),
            ($greater, |call| two(call, |left, right| compare(left, right).is_gt())),
            ($at_least, |call| two(call, |left, right| compare(left, right).is_ge())),
        ]
    };
}

fn two(call: &Call<'_>, holds: impl Fn(&Datum, &Datum) -> bool) -> SqlResult<Datum> {
    match call.arguments {
        [left, right] => Ok(Datum::Bool(holds(left, right))),
        _ => Err(mismatch(call)),
    }
}

/// Rows of anonymous types may have different fields: whether they can be compared is seen here.
fn records(call: &Call<'_>, holds: fn(Ordering) -> bool) -> SqlResult<Datum> {
    let [Datum::Record(left), Datum::Record(right)] = call.arguments else {
        return Err(mismatch(call));
    };
    Ok(Datum::Bool(holds(compare_rows(left, right)?)))
}

fn compare_rows(left: &Record, right: &Record) -> SqlResult<Ordering> {
    for (index, (left_value, right_value)) in left.values.iter().zip(&right.values).enumerate() {
        let of = |record: &Record| record.types.get(index).copied().unwrap_or(oid::UNKNOWN);
        if of(left) != of(right) {
            let message = format!(
                "cannot compare dissimilar column types {} and {} at record column {}",
                crate::text_form::type_name(of(left)),
                crate::text_form::type_name(of(right)),
                index + 1
            );
            return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message));
        }
        let order = comparison(of(left))(left_value, right_value);
        if order.is_ne() {
            return Ok(order);
        }
    }
    if left.values.len() == right.values.len() {
        return Ok(Ordering::Equal);
    }
    let message = "cannot compare record types with different numbers of columns";
    Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message))
}

/// The binary forms of two rows: alike only if nothing can tell the rows apart, such as the scale of a number.
fn images(call: &Call<'_>) -> SqlResult<(Vec<u8>, Vec<u8>)> {
    let [left, right] = call.arguments else {
        return Err(mismatch(call));
    };
    let image = |value: &Datum| {
        let mut image = Vec::new();
        crate::binary_form::send(oid::RECORD, value, call.settings, &mut image).map(|()| image)
    };
    Ok((image(left)?, image(right)?))
}

fn larger(call: &Call<'_>) -> SqlResult<Datum> {
    match call.arguments {
        [left, right] => Ok(if compare(left, right).is_ge() { left } else { right }.clone()),
        _ => Err(mismatch(call)),
    }
}

fn smaller(call: &Call<'_>) -> SqlResult<Datum> {
    match call.arguments {
        [left, right] => Ok(if compare(left, right).is_le() { left } else { right }.clone()),
        _ => Err(mismatch(call)),
    }
}

/// The order of two `character(n)`, whose blanks at the end do not count.
fn padded_order(call: &Call<'_>) -> SqlResult<Ordering> {
    match call.arguments {
        [Datum::Text(left), Datum::Text(right)] => {
            Ok(without_blanks(left).as_bytes().cmp(without_blanks(right).as_bytes()))
        }
        _ => Err(mismatch(call)),
    }
}

fn padded(call: &Call<'_>, holds: fn(Ordering) -> bool) -> SqlResult<Datum> {
    padded_order(call).map(|order| Datum::Bool(holds(order)))
}

/// The three-way comparisons that B-tree classes are made of.
fn three_way(call: &Call<'_>) -> SqlResult<Datum> {
    match call.arguments {
        [left, right] => Ok(Datum::Int4(compare(left, right) as i32)),
        _ => Err(mismatch(call)),
    }
}

/// The tables of this file, one for each type.
#[rustfmt::skip]
pub(super) const TABLES: &[Table] = &[
    primitive!(i16, Int2, Int2, "int2eq", "int2ne", "int2lt", "int2le", "int2gt", "int2ge"),
    primitive!(i32, Int4, Int4, "int4eq", "int4ne", "int4lt", "int4le", "int4gt", "int4ge"),
    primitive!(i64, Int8, Int8, "int8eq", "int8ne", "int8lt", "int8le", "int8gt", "int8ge"),
    primitive!(i32, Int2, Int4, "int24eq", "int24ne", "int24lt", "int24le", "int24gt", "int24ge"),
    primitive!(i32, Int4, Int2, "int42eq", "int42ne", "int42lt", "int42le", "int42gt", "int42ge"),
    primitive!(i64, Int2, Int8, "int28eq", "int28ne", "int28lt", "int28le", "int28gt", "int28ge"),
    primitive!(i64, Int8, Int2, "int82eq", "int82ne", "int82lt", "int82le", "int82gt", "int82ge"),
    primitive!(i64, Int4, Int8, "int48eq", "int48ne", "int48lt", "int48le", "int48gt", "int48ge"),
    primitive!(i64, Int8, Int4, "int84eq", "int84ne", "int84lt", "int84le", "int84gt", "int84ge"),
    primitive!(bool, Bool, Bool, "booleq", "boolne", "boollt", "boolle", "boolgt", "boolge"),
    primitive!(u8, Char, Char, "chareq", "charne", "charlt", "charle", "chargt", "charge"),
    primitive!(u32, Oid, Oid, "oideq", "oidne", "oidlt", "oidle", "oidgt", "oidge"),
    primitive!(u64, Unsigned8, Unsigned8, "pg_lsn_eq", "pg_lsn_ne", "pg_lsn_lt", "pg_lsn_le", "pg_lsn_gt", "pg_lsn_ge"),
    primitive!(u64, Unsigned8, Unsigned8, "xid8eq", "xid8ne", "xid8lt", "xid8le", "xid8gt", "xid8ge"),
    compared!(Float4, Float4, |a, b| compare_floats(f64::from(*a), f64::from(*b)), "float4eq", "float4ne", "float4lt", "float4le", "float4gt", "float4ge"),
    compared!(Float8, Float8, |a, b| compare_floats(*a, *b), "float8eq", "float8ne", "float8lt", "float8le", "float8gt", "float8ge"),
    compared!(Float4, Float8, |a, b| compare_floats(f64::from(*a), *b), "float48eq", "float48ne", "float48lt", "float48le", "float48gt", "float48ge"),
    compared!(Float8, Float4, |a, b| compare_floats(*a, f64::from(*b)), "float84eq", "float84ne", "float84lt", "float84le", "float84gt", "float84ge"),
    compared!(Numeric, Numeric, |a, b| a.compare(b), "numeric_eq", "numeric_ne", "numeric_lt", "numeric_le", "numeric_gt", "numeric_ge"),
    compared!(Text, Text, |a, b| without_blanks(a).as_bytes().cmp(without_blanks(b).as_bytes()), "bpchareq", "bpcharne", "bpcharlt", "bpcharle", "bpchargt", "bpcharge"),
    ordered!("texteq", "textne", "text_lt", "text_le", "text_gt", "text_ge"),
    ordered!("nameeq", "namene", "namelt", "namele", "namegt", "namege"),
    ordered!("nameeqtext", "namenetext", "namelttext", "nameletext", "namegttext", "namegetext"),
    ordered!("texteqname", "textnename", "textltname", "textlename", "textgtname", "textgename"),
    ordered!("byteaeq", "byteane", "bytealt", "byteale", "byteagt", "byteage"),
    ordered!("date_eq", "date_ne", "date_lt", "date_le", "date_gt", "date_ge"),
    ordered!("time_eq", "time_ne", "time_lt", "time_le", "time_gt", "time_ge"),
    ordered!("timetz_eq", "timetz_ne", "timetz_lt", "timetz_le", "timetz_gt", "timetz_ge"),
    ordered!("timestamp_eq", "timestamp_ne", "timestamp_lt", "timestamp_le", "timestamp_gt", "timestamp_ge"),
    ordered!("interval_eq", "interval_ne", "interval_lt", "interval_le", "interval_gt", "interval_ge"),
    ordered!("uuid_eq", "uuid_ne", "uuid_lt", "uuid_le", "uuid_gt", "uuid_ge"),
    ordered!("biteq", "bitne", "bitlt", "bitle", "bitgt", "bitge"),
    ordered!("tideq", "tidne", "tidlt", "tidle", "tidgt", "tidge"),
    ordered!("jsonb_eq", "jsonb_ne", "jsonb_lt", "jsonb_le", "jsonb_gt", "jsonb_ge"),
    ordered!("oidvectoreq", "oidvectorne", "oidvectorlt", "oidvectorle", "oidvectorgt", "oidvectorge"),
    ordered!("enum_eq", "enum_ne", "enum_lt", "enum_le", "enum_gt", "enum_ge"),
    ordered!("array_eq", "array_ne", "array_lt", "array_le", "array_gt", "array_ge"),
    &[
        ("record_eq", |call| records(call, Ordering::is_eq)),
        ("record_ne", |call| records(call, Ordering::is_ne)),
        ("record_lt", |call| records(call, Ordering::is_lt)),
        ("record_le", |call| records(call, Ordering::is_le)),
        ("record_gt", |call| records(call, Ordering::is_gt)),
        ("record_ge", |call| records(call, Ordering::is_ge)),
        ("record_image_eq", |call| images(call).map(|(left, right)| Datum::Bool(left == right))),
        ("record_image_ne", |call| images(call).map(|(left, right)| Datum::Bool(left != right))),
        ("text_pattern_lt", |call| two(call, |left, right| compare(left, right).is_lt())),
        ("text_pattern_le", |call| two(call, |left, right| compare(left, right).is_le())),
        ("text_pattern_gt", |call| two(call, |left, right| compare(left, right).is_gt())),
        ("text_pattern_ge", |call| two(call, |left, right| compare(left, right).is_ge())),
        row!("xideq", [Oid left, Oid right], Ok(Datum::Bool(left == right))),
        row!("xidneq", [Oid left, Oid right], Ok(Datum::Bool(left != right))),
        row!("cideq", [Oid left, Oid right], Ok(Datum::Bool(left == right))),
        ("bpchar_pattern_lt", |call| padded(call, Ordering::is_lt)),
        ("bpchar_pattern_le", |call| padded(call, Ordering::is_le)),
        ("bpchar_pattern_gt", |call| padded(call, Ordering::is_gt)),
        ("bpchar_pattern_ge", |call| padded(call, Ordering::is_ge)),
        ("bpcharcmp", |call| padded_order(call).map(|order| Datum::Int4(order as i32))),
        ("btbpchar_pattern_cmp", |call| padded_order(call).map(|order| Datum::Int4(order as i32))),
        ("btarraycmp", three_way),
        ("btboolcmp", three_way),
        ("btcharcmp", three_way),
        ("btfloat4cmp", three_way),
        ("btfloat8cmp", three_way),
        ("btint24cmp", three_way),
        ("btint28cmp", three_way),
        ("btint2cmp", three_way),
        ("btint42cmp", three_way),
        ("btint48cmp", three_way),
        ("btint4cmp", three_way),
        ("btint82cmp", three_way),
        ("btint84cmp", three_way),
        ("btint8cmp", three_way),
        ("btnamecmp", three_way),
        ("btnametextcmp", three_way),
        ("btoidcmp", three_way),
        ("btoidvectorcmp", three_way),
        ("bttextcmp", three_way),
        ("bttextnamecmp", three_way),
        ("bttidcmp", three_way),
        ("byteacmp", three_way),
        ("date_cmp", three_way),
        ("enum_cmp", three_way),
        ("interval_cmp", three_way),
        ("jsonb_cmp", three_way),
        ("numeric_cmp", three_way),
        ("pg_lsn_cmp", three_way),
        ("time_cmp", three_way),
        ("timestamp_cmp", three_way),
        ("timetz_cmp", three_way),
        ("uuid_cmp", three_way),
        ("xid8cmp", three_way),
        ("text_larger", larger),
        ("array_larger", larger),
        ("enum_larger", larger),
        ("float4larger", larger),
        ("float8larger", larger),
        ("int2larger", larger),
        ("int4larger", larger),
        ("int8larger", larger),
        ("numeric_larger", larger),
        ("oidlarger", larger),
        ("pg_lsn_larger", larger),
        ("tidlarger", larger),
        ("xid8_larger", larger),
        ("date_larger", larger),
        ("time_larger", larger),
        ("timetz_larger", larger),
        ("timestamp_larger", larger),
        ("interval_larger", larger),
        ("text_smaller", smaller),
        ("array_smaller", smaller),
        ("enum_smaller", smaller),
        ("float4smaller", smaller),
        ("float8smaller", smaller),
        ("int2smaller", smaller),
        ("int4smaller", smaller),
        ("int8smaller", smaller),
        ("numeric_smaller", smaller),
        ("oidsmaller", smaller),
        ("pg_lsn_smaller", smaller),
        ("tidsmaller", smaller),
        ("xid8_smaller", smaller),
        ("date_smaller", smaller),
        ("time_smaller", smaller),
        ("timetz_smaller", smaller),
        ("timestamp_smaller", smaller),
        ("interval_smaller", smaller),
        ("bpchar_larger", |call| padded_order(call).map(|order| call.arguments[usize::from(order.is_lt())].clone())),
        ("bpchar_smaller", |call| padded_order(call).map(|order| call.arguments[usize::from(order.is_gt())].clone())),
    ],
];
