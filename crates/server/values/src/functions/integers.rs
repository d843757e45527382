//! Arithmetic of `smallint`, `integer` and `bigint`, in each of their mixtures. All of it is checked.

use super::Table;
use super::arguments::{division_by_zero, out_of_range, row};
use crate::datum::Datum;
use crate::error::SqlResult;

/// Checked operations of one width.
trait Integer: Copy + Eq + Default {
    const OUT_OF_RANGE: &'static str;
    fn plus(self, other: Self) -> Option<Self>;
    fn minus(self, other: Self) -> Option<Self>;
    fn times(self, other: Self) -> Option<Self>;
    fn quotient(self, other: Self) -> Option<Self>;
    fn remainder(self, other: Self) -> Self;
    fn datum(self) -> Datum;
}

macro_rules! integer {
    ($native:ty, $variant:ident, $name:literal) => {
        impl Integer for $native {
            const OUT_OF_RANGE: &'static str = $name;
            fn plus(self, other: Self) -> Option<Self> {
                self.checked_add(other)
            }
            fn minus(self, other: Self) -> Option<Self> {
                self.checked_sub(other)
            }
            fn times(self, other: Self) -> Option<Self> {
                self.checked_mul(other)
            }
            fn quotient(self, other: Self) -> Option<Self> {
                self.checked_div(other)
            }
            fn remainder(self, other: Self) -> Self {
                self.wrapping_rem(other)
            }
            fn datum(self) -> Datum {
                Datum::$variant(self)
            }
        }
    };
}
integer!(i16, Int2, "smallint");
integer!(i32, Int4, "integer");
integer!(i64, Int8, "bigint");

#[inline]
fn checked<T: Integer>(result: Option<T>) -> SqlResult<Datum> {
    result.map(T::datum).ok_or_else(|| out_of_range(T::OUT_OF_RANGE))
}

#[inline]
fn divide<T: Integer>(dividend: T, divisor: T) -> SqlResult<Datum> {
    if divisor == T::default() { Err(division_by_zero()) } else { checked(dividend.quotient(divisor)) }
}

#[inline]
fn modulo<T: Integer>(dividend: T, divisor: T) -> SqlResult<Datum> {
    if divisor == T::default() { Err(division_by_zero()) } else { Ok(dividend.remainder(divisor).datum()) }
}

/// `smallint` is shifted as an `integer` and cut, as in C.
#[expect(clippy::cast_possible_truncation, reason = "the upper half is cut on purpose")]
fn cut(value: i32) -> Datum {
    Datum::Int2(value as i16)
}

/// The bits that a shift by `count` moves: PostgreSQL leaves it to the processor, which takes the count modulo the width.
fn shift(count: i32) -> u32 {
    count.cast_unsigned()
}

macro_rules! arithmetic {
    ($native:ty, $left:ident, $right:ident, $plus:literal, $minus:literal, $times:literal, $divide:literal) => {
        &[
            row!($plus, [$left left, $right right], checked(<$native>::from(*left).plus(<$native>::from(*right)))),
            row!($minus, [$left left, $right right], checked(<$native>::from(*left).minus(<$native>::from(*right)))),
            row!($times, [$left left, $right right], checked(<$native>::from(*left).times(<$native>::from(*right)))),
            row!($divide, [$left left, $right right], divide(<$native>::from(*left), <$native>::from(*right))),
        ]
    };
}

macro_rules! one_width {
    ($native:ty, $variant:ident, $modulo:literal, $and:literal, $or:literal, $xor:literal, $not:literal, $minus:literal, $plus:literal) => {
        &[
            row!($modulo, [$variant left, $variant right], modulo(*left, *right)),
            row!($and, [$variant left, $variant right], Ok(Datum::$variant(left & right))),
            row!($or, [$variant left, $variant right], Ok(Datum::$variant(left | right))),
            row!($xor, [$variant left, $variant right], Ok(Datum::$variant(left ^ right))),
            row!($not, [$variant value], Ok(Datum::$variant(!value))),
            row!($minus, [$variant value], checked(value.checked_neg())),
            row!($plus, [$variant value], Ok(Datum::$variant(*value))),
        ]
    };
}

/// The tables of this file, one for each mixture.
pub(super) const TABLES: &[Table] = &[
    arithmetic!(i16, Int2, Int2, "int2pl", "int2mi", "int2mul", "int2div"),
    arithmetic!(i32, Int4, Int4, "int4pl", "int4mi", "int4mul", "int4div"),
    arithmetic!(i64, Int8, Int8, "int8pl", "int8mi", "int8mul", "int8div"),
    arithmetic!(i32, Int2, Int4, "int24pl", "int24mi", "int24mul", "int24div"),
    arithmetic!(i32, Int4, Int2, "int42pl", "int42mi", "int42mul", "int42div"),
    arithmetic!(i64, Int2, Int8, "int28pl", "int28mi", "int28mul", "int28div"),
    arithmetic!(i64, Int8, Int2, "int82pl", "int82mi", "int82mul", "int82div"),
    arithmetic!(i64, Int4, Int8, "int48pl", "int48mi", "int48mul", "int48div"),
    arithmetic!(i64, Int8, Int4, "int84pl", "int84mi", "int84mul", "int84div"),
    one_width!(i16, Int2, "int2mod", "int2and", "int2or", "int2xor", "int2not", "int2um", "int2up"),
    one_width!(i32, Int4, "int4mod", "int4and", "int4or", "int4xor", "int4not", "int4um", "int4up"),
    one_width!(i64, Int8, "int8mod", "int8and", "int8or", "int8xor", "int8not", "int8um", "int8up"),
    &[
        row!("int2shl", [Int2 value, Int4 count], Ok(cut(i32::from(*value).wrapping_shl(shift(*count))))),
        row!("int2shr", [Int2 value, Int4 count], Ok(cut(i32::from(*value).wrapping_shr(shift(*count))))),
        row!("int4shl", [Int4 value, Int4 count], Ok(Datum::Int4(value.wrapping_shl(shift(*count))))),
        row!("int4shr", [Int4 value, Int4 count], Ok(Datum::Int4(value.wrapping_shr(shift(*count))))),
        row!("int8shl", [Int8 value, Int4 count], Ok(Datum::Int8(value.wrapping_shl(shift(*count))))),
        row!("int8shr", [Int8 value, Int4 count], Ok(Datum::Int8(value.wrapping_shr(shift(*count))))),
        row!("int4inc", [Int4 value], checked(value.checked_add(1))),
        row!("int8inc", [Int8 value], checked(value.checked_add(1))),
        row!("int8dec", [Int8 value], checked(value.checked_sub(1))),
    ],
];
