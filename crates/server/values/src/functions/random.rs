//! `random` and `setseed`.

use super::arguments::mismatch;
use super::{Call, Table};
use crate::datum::Datum;
use crate::error::{SqlError, SqlResult, SqlState};

pub(super) const TABLE: Table =
    &[("drandom", |call| call.settings.random.next().map(Datum::Float8)), ("setseed", set_seed)];

fn set_seed(call: &Call<'_>) -> SqlResult<Datum> {
    let [Datum::Float8(seed)] = call.arguments else {
        return Err(mismatch(call));
    };
    if !(-1.0..=1.0).contains(seed) {
        let message = format!("setseed parameter {seed} is out of allowed range [-1,1]");
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
    }
    call.settings.random.set_seed(*seed);
    Ok(Datum::text(""))
}
