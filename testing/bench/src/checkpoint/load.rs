//! What writers do: the rows of the tables.

use seawall::{Database, Table, Transaction};
use serde::{Deserialize, Serialize};

use crate::error::{BenchError, engine_error};
use crate::random::mix;
use crate::rows::{KeySpace, PutStream, Row, empty_batch};

pub(super) const NAME: &str = "seawall";
pub(super) const BATCH_ROWS: usize = 100;

/// What one operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Operation {
    /// One row by `Database::put`.
    Put,
    /// One row by begin, put, commit.
    Transaction,
    /// A transaction of 100 rows.
    Batch,
}

/// What a commit waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Durability {
    /// Nothing.
    Async,
    /// Stable storage.
    Sync,
}

impl From<Durability> for seawall::Durability {
    fn from(durability: Durability) -> seawall::Durability {
        match durability {
            Durability::Async => seawall::Durability::Async,
            Durability::Sync => seawall::Durability::Sync,
        }
    }
}

/// Who writes what, how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Load {
    pub(super) operation: Operation,
    pub(super) durability: Durability,
    pub(super) threads: usize,
}

impl Load {
    /// The label as part of a file's name.
    pub(super) fn file_words(&self) -> String {
        self.label().replace(", ", "-").replace(' ', "-")
    }

    pub(super) fn label(&self) -> String {
        let operation = match self.operation {
            Operation::Put => "single puts",
            Operation::Transaction => "one-row transactions",
            Operation::Batch => "batches of 100",
        };
        let durability = match self.durability {
            Durability::Async => "async",
            Durability::Sync => "sync",
        };
        let plural = if self.threads == 1 { "" } else { "s" };
        format!("{operation}, {durability}, {} thread{plural}", self.threads)
    }

    pub(super) fn rows_per_operation(&self) -> u64 {
        match self.operation {
            Operation::Put | Operation::Transaction => 1,
            Operation::Batch => BATCH_ROWS as u64,
        }
    }
}

/// Which keys a writer takes.
#[derive(Debug)]
pub(super) enum Keys {
    /// Any of those that are there, again and again.
    Overwrite(PutStream),
    /// Each key once and nowhere again: scattered over the whole key space, every thread its own.
    Unique { next: u64, step: u64, values: PutStream },
}

impl Keys {
    pub(super) fn overwrite(keys: KeySpace, value_bytes: usize, seed: u64) -> Keys {
        Keys::Overwrite(PutStream::new(keys, value_bytes, seed))
    }

    pub(super) fn unique(thread: usize, threads: usize, value_bytes: usize, seed: u64) -> Keys {
        let values = PutStream::new(KeySpace::new(1), value_bytes, seed);
        Keys::Unique { next: thread as u64, step: threads as u64, values }
    }

    fn fill(&mut self, rows: &mut [Row]) {
        match self {
            Keys::Overwrite(stream) => stream.fill(rows),
            Keys::Unique { next, step, values } => {
                values.fill(rows);
                for row in rows {
                    // A bijection, so that no key comes twice.
                    row.key = mix(*next).to_be_bytes();
                    *next += *step;
                }
            }
        }
    }
}

/// One thread's work.
pub(super) struct Writer<'run> {
    database: &'run Database,
    table: &'run Table,
    operation: Operation,
    keys: Keys,
    rows: Vec<Row>,
}

impl<'run> Writer<'run> {
    pub(super) fn new(database: &'run Database, table: &'run Table, load: Load, keys: Keys) -> Writer<'run> {
        let count = usize::try_from(load.rows_per_operation()).expect("at most a hundred");
        Writer { database, table, operation: load.operation, keys, rows: empty_batch(count) }
    }

    /// One operation.
    pub(super) fn write(&mut self) -> Result<(), BenchError> {
        self.keys.fill(&mut self.rows);
        match self.operation {
            Operation::Put => {
                let row = &self.rows[0];
                self.database
                    .put(self.table, row.key, &row.value)
                    .map(drop)
                    .map_err(engine_error(NAME, "put"))
            }
            Operation::Transaction | Operation::Batch => {
                // Rows come in random order, so two batches may lock each other out: one is then tried again.
                let put_all = |transaction: &mut Transaction| {
                    self.rows.iter().try_for_each(|row| transaction.put(self.table, row.key, &row.value))
                };
                self.database.transact(put_all).map_err(engine_error(NAME, "commit"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn unique_keys_of_all_threads_are_unique() {
        let mut seen = BTreeSet::new();
        for thread in 0..3 {
            let mut keys = Keys::unique(thread, 3, 10, 7);
            let mut rows = empty_batch(BATCH_ROWS);
            for _ in 0..20 {
                keys.fill(&mut rows);
                assert!(rows.iter().all(|row| row.value.len() == 10));
                seen.extend(rows.iter().map(|row| row.key));
            }
        }
        assert_eq!(seen.len(), 3 * 20 * BATCH_ROWS);
    }
}
