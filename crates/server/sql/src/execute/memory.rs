//! Memory that a statement keeps: what it may use in all, and what one node may use before it spills. `budget`: what all statements may use.

mod budget;

use std::sync::Arc;

use super::spill::TemporaryFiles;
pub use budget::MemoryBudget;
pub(crate) use budget::Reservation;
use seawall_values::{Datum, SqlError, SqlResult, SqlState};

/// Limits of one statement.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Bytes that a sort, a hash table or a materialized relation keeps before it spills to a file: `work_mem`.
    pub work_memory: usize,
    /// Bytes that all nodes of a statement keep together: above it, the statement fails with `53200`.
    pub statement_memory: usize,
    /// What all statements keep together: above its limit, the one that asks fails with `53200`.
    pub budget: Arc<MemoryBudget>,
    /// The temporary files of the session.
    pub temporary_files: Arc<TemporaryFiles>,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            work_memory: 4 << 20,
            statement_memory: 256 << 20,
            budget: Arc::default(),
            temporary_files: Arc::default(),
        }
    }
}

/// While the memory of all statements is short, what keeps less than this, and than its share of it, spills nothing: files of a few rows
/// cost more than they save.
const SPILLED_BYTES_MIN: usize = 1 << 20;
const SHARES: usize = 64;

/// The memory of a statement, counted.
#[derive(Debug)]
pub(crate) struct Memory {
    used: usize,
    reserved: Reservation,
    peak: usize,
    limits: Limits,
}

impl Memory {
    pub(crate) fn new(limits: Limits) -> Memory {
        let reserved = Reservation::of(Arc::clone(&limits.budget));
        Memory { used: 0, reserved, peak: 0, limits }
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Whether what keeps so much is to go on in a file.
    pub(crate) fn is_to_spill(&self, bytes: usize) -> bool {
        bytes > self.limits.work_memory
            || (bytes > SPILLED_BYTES_MIN.min(self.reserved.budget().limit() / SHARES)
                && self.reserved.budget().is_tight())
    }

    /// Gives all of it back: nothing is kept any more.
    pub(crate) fn clear(&mut self) {
        self.used = 0;
        self.reserved.trim(0);
    }

    pub(crate) fn peak(&self) -> usize {
        self.peak
    }

    fn grow(&mut self, bytes: usize) -> SqlResult<()> {
        let used = self.used.saturating_add(bytes);
        if used > self.limits.statement_memory {
            return Err(out_of_memory(bytes, self.limits.statement_memory));
        }
        self.reserved.cover(used)?;
        self.used = used;
        self.peak = self.peak.max(used);
        Ok(())
    }

    fn shrink(&mut self, bytes: usize) {
        debug_assert!(self.used >= bytes, "more memory is given back than was taken");
        self.used = self.used.saturating_sub(bytes);
        self.reserved.trim(self.used);
    }
}

#[cold]
fn out_of_memory(bytes: usize, limit: usize) -> Box<SqlError> {
    SqlError::new(SqlState::OUT_OF_MEMORY, "out of memory")
        .with_detail(format!("The statement asked for {bytes} bytes more, above its limit of {limit} bytes."))
        .with_hint("Raise the memory limit of statements, or make the statement keep less.")
}

/// What one node has of the statement's memory.
#[derive(Debug, Default)]
pub(crate) struct Share {
    bytes: usize,
}

impl Share {
    /// Takes more of it.
    pub(crate) fn grow(&mut self, memory: &mut Memory, bytes: usize) -> SqlResult<()> {
        memory.grow(bytes)?;
        self.bytes += bytes;
        Ok(())
    }

    /// Takes more, or gives back, so that it has `bytes`.
    pub(crate) fn set(&mut self, memory: &mut Memory, bytes: usize) -> SqlResult<()> {
        if bytes > self.bytes {
            return self.grow(memory, bytes - self.bytes);
        }
        memory.shrink(self.bytes - bytes);
        self.bytes = bytes;
        Ok(())
    }

    /// Gives all of it back.
    pub(crate) fn clear(&mut self, memory: &mut Memory) {
        memory.shrink(self.bytes);
        self.bytes = 0;
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Bytes that a value keeps, about.
pub(crate) fn datum_bytes(datum: &Datum) -> usize {
    let heap = match datum {
        Datum::Text(text) => text.len() + 16,
        Datum::Bytea(bytes) | Datum::Bits(bytes, _) => bytes.len() + 16,
        Datum::Numeric(_) => 64,
        Datum::Array(array) => 64 + values_bytes(&array.values),
        Datum::Record(record) => 48 + 4 * record.types.len() + values_bytes(&record.values),
        Datum::Jsonb(json) => json_bytes(json),
        _ => 0,
    };
    size_of::<Datum>() + heap
}

/// Bytes that values keep, about.
pub(crate) fn values_bytes(values: &[Datum]) -> usize {
    values.iter().map(datum_bytes).sum()
}

fn json_bytes(root: &seawall_values::datum::Jsonb) -> usize {
    use seawall_values::datum::Jsonb;
    let mut bytes = 0;
    let mut pending = vec![root];
    while let Some(json) = pending.pop() {
        bytes += 48;
        match json {
            Jsonb::String(text) => bytes += text.len(),
            Jsonb::Array(items) => pending.extend(items),
            Jsonb::Object(members) => {
                for (key, value) in members {
                    bytes += key.len() + 24;
                    pending.push(value);
                }
            }
            Jsonb::Null | Jsonb::Bool(_) | Jsonb::Number(_) => {}
        }
    }
    bytes
}
