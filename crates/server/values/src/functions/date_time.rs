//! Functions, operators and casts of dates, times, timestamps and intervals.
//!
//! * `arithmetic`: sums and differences. * `casts`: conversions between these types. * `comparison`: operands of two types.
//! * `making`: values from numbers. * `parts`: `extract`, `date_trunc`. * `current`: the clock. * `zones`: `AT TIME ZONE`. * `periods`: `OVERLAPS`, window frames.

mod arithmetic;
mod casts;
mod comparison;
mod current;
mod making;
mod parts;
mod periods;
mod zones;

use super::Table;

/// The tables of these files.
pub(super) const TABLES: &[Table] = &[
    arithmetic::TABLE,
    casts::TABLE,
    comparison::TABLE,
    current::TABLE,
    making::TABLE,
    parts::TABLE,
    periods::TABLE,
    zones::TABLE,
];
