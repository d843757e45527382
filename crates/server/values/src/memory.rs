//! How much memory values take, for what must keep within limits.

use crate::datum::{Datum, Jsonb, Numeric};
use crate::error::{SqlError, SqlState};

/// Bytes that PostgreSQL lets a value have.
pub(crate) const VALUE_BYTES_MAX: usize = 0x3FFF_FFFF;

/// `54000`: a value would have more than a gigabyte.
#[cold]
pub(crate) fn too_large(length: usize, added: usize) -> Box<SqlError> {
    SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "out of memory")
        .with_detail(format!("Cannot enlarge string buffer containing {length} bytes by {added} more bytes."))
}

/// Bytes that the two counters of an `Arc` take.
const SHARED: usize = 16;

impl Datum {
    /// Bytes of memory, those on the heap included; shared ones count for each that shares them.
    pub fn memory_bytes(&self) -> usize {
        let heap = match self {
            Datum::Text(text) => SHARED + text.len(),
            Datum::Bytea(bytes) | Datum::Bits(bytes, _) => SHARED + bytes.len(),
            Datum::Numeric(number) => SHARED + size_of::<Numeric>() + numeric_heap_bytes(number),
            Datum::Jsonb(value) => SHARED + jsonb_bytes(value),
            Datum::Array(array) => {
                SHARED
                    + array.values.iter().map(Datum::memory_bytes).sum::<usize>()
                    + array.dimensions.len() * 8
                    + 56
            }
            Datum::Record(record) => {
                SHARED
                    + record.values.iter().map(Datum::memory_bytes).sum::<usize>()
                    + record.types.len() * 4
                    + 48
            }
            _ => 0,
        };
        size_of::<Datum>() + heap
    }
}

fn numeric_heap_bytes(number: &Numeric) -> usize {
    match number {
        Numeric::Finite { digits, .. } => usize::try_from(digits.bits() / 8).unwrap_or(usize::MAX / 2) + 8,
        Numeric::PositiveInfinity | Numeric::NegativeInfinity | Numeric::NotANumber => 0,
    }
}

fn jsonb_bytes(value: &Jsonb) -> usize {
    let heap = match value {
        Jsonb::Null | Jsonb::Bool(_) => 0,
        Jsonb::Number(number) => numeric_heap_bytes(number),
        Jsonb::String(text) => SHARED + text.len(),
        Jsonb::Array(values) => values.iter().map(jsonb_bytes).sum(),
        Jsonb::Object(members) => {
            members.iter().map(|(key, value)| SHARED + 16 + key.len() + jsonb_bytes(value)).sum()
        }
    };
    size_of::<Jsonb>() + heap
}
