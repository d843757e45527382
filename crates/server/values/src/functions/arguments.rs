//! How implementations take their arguments apart, and the errors that many of them share.

use crate::error::{SqlError, SqlState};

use super::Call;

/// The arguments are not of the types that the source declares: the binder called the wrong function.
#[cold]
pub(crate) fn mismatch(call: &Call<'_>) -> Box<SqlError> {
    SqlError::internal(format!("a function was called with arguments of other types: {:?}", call.arguments))
}

/// `22003`: the result does not fit `what`.
#[cold]
pub(crate) fn out_of_range(what: &str) -> Box<SqlError> {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, format!("{what} out of range"))
}

/// `22012`.
#[cold]
pub(crate) fn division_by_zero() -> Box<SqlError> {
    SqlError::new(SqlState::DIVISION_BY_ZERO, "division by zero")
}

/// A row of a table: an implementation that takes arguments of these variants of `Datum` by reference. With `with`, it sees the call too.
macro_rules! row {
    ($source:literal, [$($variant:ident $($argument:ident)+),*], $result:expr) => {
        ($source, |call: &$crate::functions::Call<'_>| match call.arguments {
            [$($crate::datum::Datum::$variant($($argument),+)),*] => $result,
            _ => Err($crate::functions::arguments::mismatch(call)),
        })
    };
    ($source:literal, $call:ident, [$($variant:ident $($argument:ident)+),*], $result:expr) => {
        ($source, |$call: &$crate::functions::Call<'_>| match $call.arguments {
            [$($crate::datum::Datum::$variant($($argument),+)),*] => $result,
            _ => Err($crate::functions::arguments::mismatch($call)),
        })
    };
}
pub(super) use row;
