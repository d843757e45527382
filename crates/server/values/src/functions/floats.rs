//! Arithmetic of `real` and `double precision`. A finite operand never silently becomes infinite, nor a nonzero one zero.

use super::Table;
use super::arguments::{division_by_zero, row};
use crate::datum::Datum;
use crate::error::{SqlError, SqlResult, SqlState};

/// `22003`: a finite computation gave infinity.
#[cold]
pub(crate) fn overflow() -> Box<SqlError> {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value out of range: overflow")
}

/// `22003`: a computation without zeros gave zero.
#[cold]
pub(crate) fn underflow() -> Box<SqlError> {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value out of range: underflow")
}

macro_rules! width {
    ($native:ident, $variant:ident) => {
        pub(super) mod $native {
            use super::*;

            fn datum(result: $native, is_finite: bool) -> SqlResult<Datum> {
                if result.is_infinite() && is_finite { Err(overflow()) } else { Ok(Datum::$variant(result)) }
            }

            pub(in super::super) fn add(left: $native, right: $native) -> SqlResult<Datum> {
                datum(left + right, left.is_finite() && right.is_finite())
            }

            pub(in super::super) fn subtract(left: $native, right: $native) -> SqlResult<Datum> {
                datum(left - right, left.is_finite() && right.is_finite())
            }

            pub(in super::super) fn multiply(left: $native, right: $native) -> SqlResult<Datum> {
                let result = left * right;
                if result == 0.0 && left != 0.0 && right != 0.0 {
                    return Err(underflow());
                }
                datum(result, !left.is_infinite() && !right.is_infinite())
            }

            pub(in super::super) fn divide(left: $native, right: $native) -> SqlResult<Datum> {
                if right == 0.0 && !left.is_nan() {
                    return Err(division_by_zero());
                }
                let result = left / right;
                if result == 0.0 && left != 0.0 && !right.is_infinite() {
                    return Err(underflow());
                }
                datum(result, !left.is_infinite())
            }
        }
    };
}
width!(f32, Float4);
width!(f64, Float8);

macro_rules! arithmetic {
    ($native:ident, $left:ident, $right:ident, $plus:literal, $minus:literal, $times:literal, $divide:literal) => {
        &[
            row!($plus, [$left left, $right right], $native::add($native::from(*left), $native::from(*right))),
            row!($minus, [$left left, $right right], $native::subtract($native::from(*left), $native::from(*right))),
            row!($times, [$left left, $right right], $native::multiply($native::from(*left), $native::from(*right))),
            row!($divide, [$left left, $right right], $native::divide($native::from(*left), $native::from(*right))),
        ]
    };
}

/// The tables of this file, one for each mixture.
pub(super) const TABLES: &[Table] = &[
    arithmetic!(f32, Float4, Float4, "float4pl", "float4mi", "float4mul", "float4div"),
    arithmetic!(f64, Float8, Float8, "float8pl", "float8mi", "float8mul", "float8div"),
    arithmetic!(f64, Float4, Float8, "float48pl", "float48mi", "float48mul", "float48div"),
    arithmetic!(f64, Float8, Float4, "float84pl", "float84mi", "float84mul", "float84div"),
    &[
        row!("float4um", [Float4 value], Ok(Datum::Float4(-value))),
        row!("float8um", [Float8 value], Ok(Datum::Float8(-value))),
        row!("float4up", [Float4 value], Ok(Datum::Float4(*value))),
        row!("float8up", [Float8 value], Ok(Datum::Float8(*value))),
    ],
];
