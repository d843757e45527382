//! Arithmetic of places in the log (`pg_lsn`).

use std::sync::Arc;

use num_bigint::BigInt;
use num_traits::ToPrimitive;

use super::Table;
use super::arguments::row;
use crate::datum::Datum;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::numeric::{self, Numeric};

pub(super) const TABLE: Table = &[
    row!("pg_lsn_mi", [Unsigned8 left, Unsigned8 right], Ok(difference(*left, *right))),
    row!("pg_wal_lsn_diff", [Unsigned8 left, Unsigned8 right], Ok(difference(*left, *right))),
    row!("pg_lsn_pli", [Unsigned8 place, Numeric bytes], moved(*place, bytes, "add NaN to pg_lsn")),
    row!("numeric_pl_pg_lsn/2", [Numeric bytes, Unsigned8 place], moved(*place, bytes, "add NaN to pg_lsn")),
    row!("pg_lsn_mii", [Unsigned8 place, Numeric bytes], {
        moved(*place, &bytes.negated(), "subtract NaN from pg_lsn")
    }),
    row!("numeric_pg_lsn", [Numeric bytes], moved(0, bytes, "convert NaN to pg_lsn")),
];

fn difference(left: u64, right: u64) -> Datum {
    let digits = BigInt::from(left) - BigInt::from(right);
    Datum::Numeric(Arc::new(Numeric::Finite { digits, scale: 0 }))
}

fn moved(place: u64, bytes: &Numeric, verb: &str) -> SqlResult<Datum> {
    if matches!(bytes, Numeric::NotANumber) {
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, format!("cannot {verb}")));
    }
    let sum = numeric::add(&Numeric::from(place), bytes)?.rounded(0);
    let moved = match sum {
        Numeric::Finite { digits, .. } => digits.to_u64(),
        _ => return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, "cannot convert infinity to pg_lsn")),
    };
    moved
        .map(Datum::Unsigned8)
        .ok_or_else(|| SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "pg_lsn out of range"))
}
