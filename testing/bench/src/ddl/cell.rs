//! One cell: a load, a cache and a number of sessions, and the database that its steps share.

use std::path::PathBuf;
use std::time::Duration;

use seawall::{Background, Database, Options};
use serde::{Deserialize, Serialize};

use super::arguments::{Load, Verb};
use crate::error::{BenchError, engine_error};

pub(super) const NAME: &str = "seawall";
/// A limit that no step reaches.
const NEVER_BYTES: u64 = 1 << 44;
const NEVER: Duration = Duration::from_secs(24 * 3600);
/// Twice what it takes at most, as half of the memory is for what a checkpoint merges.
const MEMORY_OF_A_DROP: u64 = 2048;
const VALUE_BYTES: u64 = 100;
/// Key, value and what a page adds.
const LARGE_ROW_BYTES: u64 = 8 + VALUE_BYTES + 8;

/// All that a step's process needs to know besides the step.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Cell {
    pub(super) load: Load,
    pub(super) verb: Verb,
    pub(super) per_transaction: u64,
    /// Of `Mixed`.
    pub(super) seconds: f64,
    pub(super) tables: u64,
    pub(super) rows: u64,
    pub(super) large_mib: u64,
    pub(super) threads: usize,
    pub(super) cache_mib: u64,
    pub(super) run: u64,
    pub(super) seed: u64,
    /// This cell's alone.
    pub(super) directory: PathBuf,
}

impl Cell {
    pub(super) fn table_count(&self) -> u64 {
        match self.load {
            Load::Empty | Load::Rows | Load::Mixed => self.tables,
            Load::Large => 1,
        }
    }

    pub(super) fn rows_of_a_table(&self) -> u64 {
        match self.load {
            Load::Empty | Load::Mixed => 0,
            Load::Rows => self.rows,
            Load::Large => (self.large_mib << 20) / LARGE_ROW_BYTES,
        }
    }

    /// Tables that are there when all were dropped or truncated.
    pub(super) fn tables_left(&self) -> u64 {
        match self.verb {
            Verb::Drop => 0,
            Verb::Truncate => self.table_count(),
        }
    }

    pub(super) fn value() -> Vec<u8> {
        vec![b'v'; usize::try_from(VALUE_BYTES).expect("a short value")]
    }

    pub(super) fn name(number: u64) -> String {
        format!("table-{number:06}")
    }

    /// Opens the cell's database. Checkpoints come when a step asks for one, but while rows are loaded.
    pub(super) fn open(&self, checkpoints: Checkpoints) -> Result<Database, BenchError> {
        self.open_at("database", checkpoints)
    }

    /// Opens the database `folder` of the cell with the same options.
    pub(super) fn open_at(&self, folder: &str, checkpoints: Checkpoints) -> Result<Database, BenchError> {
        let mut options = Options::default();
        options.memory.cache_bytes = self.cache_mib << 20;
        if checkpoints == Checkpoints::OnRequestOnly {
            options.background = Background::Manual;
        }
        if checkpoints != Checkpoints::ByLimits {
            // Room for what all drops put there, which no checkpoint takes away.
            options.memory.memtable_bytes =
                options.memory.memtable_bytes.max(self.table_count() * MEMORY_OF_A_DROP);
            options.checkpoint.log_bytes = NEVER_BYTES;
            options.checkpoint.interval = NEVER;
            options.recovery.target = None;
        }
        Database::open(self.directory.join(folder), options).map_err(engine_error(NAME, "open"))
    }

    pub(super) fn wrong(fact: impl Into<String>) -> BenchError {
        BenchError::Wrong { engine: NAME, fact: fact.into() }
    }
}

/// When the engine takes checkpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Checkpoints {
    /// By its defaults.
    ByLimits,
    OnRequest,
    /// Not even for what a recovery has replayed.
    OnRequestOnly,
}
