//! `count`, `regr_count`.

use super::{Accumulator, Table};
use crate::datum::Datum;
use crate::error::SqlResult;
use crate::oid;
use crate::settings::Settings;

pub(super) const TABLE: Table = &[
    ("count", &[], |_, _| Box::new(Count { rows: 0 })),
    ("count", &[oid::ANY], |_, _| Box::new(Count { rows: 0 })),
    ("regr_count", &[oid::FLOAT8, oid::FLOAT8], |_, _| Box::new(Count { rows: 0 })),
];

/// Rows without a null argument: of `count(*)`, which has no arguments, all.
struct Count {
    rows: i64,
}

impl Accumulator for Count {
    fn add(&mut self, arguments: &[Datum], _settings: &Settings) -> SqlResult<()> {
        self.rows += i64::from(!arguments.iter().any(Datum::is_null));
        Ok(())
    }

    fn remove(&mut self, arguments: &[Datum], _settings: &Settings) -> SqlResult<bool> {
        self.rows -= i64::from(!arguments.iter().any(Datum::is_null));
        Ok(true)
    }

    fn result(&self, _settings: &Settings) -> SqlResult<Datum> {
        Ok(Datum::Int8(self.rows))
    }

    fn memory_bytes(&self) -> usize {
        size_of::<Self>()
    }
}
