//! Functions of `boolean` that are no comparisons.

use super::Table;
use super::arguments::row;
use crate::datum::Datum;

/// Transition functions of `bool_and` and `bool_or`, which can be called by name.
pub(super) const TABLE: Table = &[
    row!("booland_statefunc", [Bool left, Bool right], Ok(Datum::Bool(*left && *right))),
    row!("boolor_statefunc", [Bool left, Bool right], Ok(Datum::Bool(*left || *right))),
];
