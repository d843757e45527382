//! `min` and `max`.

use std::cmp::Ordering;

use super::{Accumulator, Table};
use crate::datum::Datum;
use crate::error::SqlResult;
use crate::oid::{self, Oid};
use crate::order::{self, Comparison};
use crate::settings::Settings;

macro_rules! extremes {
    ($($oid:ident),*) => {
        &[$(
            ("min", &[oid::$oid], |_, _| Box::new(Extreme::new(oid::$oid, Ordering::Less))),
            ("max", &[oid::$oid], |_, _| Box::new(Extreme::new(oid::$oid, Ordering::Greater))),
        )*]
    };
}

pub(super) const TABLE: Table = extremes!(
    INT2,
    INT4,
    INT8,
    FLOAT4,
    FLOAT8,
    NUMERIC,
    TEXT,
    BPCHAR,
    DATE,
    TIME,
    TIMETZ,
    TIMESTAMP,
    TIMESTAMPTZ,
    INTERVAL,
    OID,
    TID,
    PG_LSN,
    XID8,
    ANYARRAY,
    ANYENUM
);

/// The least or the greatest value; of equal ones that look different the last, but the first `character(n)`.
struct Extreme {
    /// How the value that stays compares with the next one.
    wanted: Ordering,
    stays_if_equal: bool,
    compare: Comparison,
    value: Datum,
}

impl Extreme {
    fn new(of: Oid, wanted: Ordering) -> Extreme {
        let (compare, stays_if_equal) = (order::comparison(of), of == oid::BPCHAR);
        Extreme { wanted, stays_if_equal, compare, value: Datum::Null }
    }

    fn stays(&self, next: &Datum) -> bool {
        let order = (self.compare)(&self.value, next);
        order == self.wanted || order.is_eq() && self.stays_if_equal
    }
}

impl Accumulator for Extreme {
    fn add(&mut self, arguments: &[Datum], _settings: &Settings) -> SqlResult<()> {
        let [value] = arguments else { return Err(super::misplaced(arguments)) };
        if !value.is_null() && (self.value.is_null() || !self.stays(value)) {
            self.value = value.clone();
        }
        Ok(())
    }

    fn result(&self, _settings: &Settings) -> SqlResult<Datum> {
        Ok(self.value.clone())
    }

    fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.value.memory_bytes()
    }
}
