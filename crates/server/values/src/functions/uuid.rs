//! `gen_random_uuid`.

use super::Table;
use crate::datum::Datum;
use crate::error::SqlError;

pub(super) const TABLE: Table = &[("gen_random_uuid", |_| {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)
        .map_err(|error| SqlError::internal(format!("could not generate random values: {error}")))?;
    // Version 4, variant 1 of RFC 4122.
    bytes[6] = bytes[6] & 0x0F | 0x40;
    bytes[8] = bytes[8] & 0x3F | 0x80;
    Ok(Datum::Uuid(bytes))
})];
