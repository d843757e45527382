//! One cell: one load on one configuration, in a process of its own.

use std::path::PathBuf;
use std::time::Duration;

use seawall::Options;
use serde::{Deserialize, Serialize};

use super::carrier::Carriers;
use super::configuration::Configuration;
use super::figures::Figures;
use super::load::Load;
use super::{killed, readers, write_run};
use crate::error::{BenchError, engine_error, file_error};
use crate::rows::{KeySpace, Order, RowSource};

pub(super) const TABLE: &str = "rows";
/// A limit that no run reaches.
const NEVER_BYTES: u64 = 1 << 44;
const NEVER: Duration = Duration::from_secs(24 * 3600);

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    /// Rows that are there are overwritten, with a checkpoint every so often and for no other reason.
    Overwrite,
    /// New rows under a memory limit; checkpoints whenever the engine wants them.
    Extreme,
    /// Point reads during a checkpoint and without one.
    Readers,
    /// SIGKILL in the middle of a checkpoint.
    Kill,
    /// SIGKILL at any moment, with nothing but the recovery-time target to start checkpoints.
    RecoveryTarget,
}

/// All that a child process needs to know.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Cell {
    pub(super) kind: Kind,
    pub(super) load: Load,
    pub(super) configuration: Configuration,
    pub(super) carriers: Carriers,
    /// Distinct keys that are there at the start.
    pub(super) rows: u64,
    pub(super) value_bytes: usize,
    pub(super) cache_bytes: u64,
    pub(super) memtable_bytes: u64,
    pub(super) chunk_bytes: Option<u64>,
    /// Seconds from one checkpoint to the next.
    pub(super) interval: f64,
    pub(super) recovery_target: f64,
    pub(super) warm_up: f64,
    pub(super) seconds: f64,
    pub(super) operations_per_second: Option<f64>,
    pub(super) run: u64,
    pub(super) seed: u64,
    /// Empty, and this cell's alone.
    pub(super) directory: PathBuf,
    /// Where throughput goes as CSV, interval by interval.
    pub(super) series: Option<PathBuf>,
}

/// What a cell came to: a JSON line.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Measured {
    pub(super) kind: Kind,
    pub(super) load: Load,
    pub(super) configuration: Configuration,
    pub(super) rows: u64,
    pub(super) value_bytes: usize,
    pub(super) run: u64,
    pub(super) figures: Figures,
}

/// Measures one cell in this process.
pub(crate) fn measure(cell: &Cell) -> Result<Measured, BenchError> {
    if !matches!(cell.kind, Kind::Overwrite | Kind::Extreme) && !cell.carriers.is_none() {
        let message = "--archive and --standby are for full-speed, fixed-rate and extreme";
        return Err(BenchError::Process(message.into()));
    }
    let database = cell.database_directory();
    std::fs::create_dir_all(&database).map_err(file_error("create", &database))?;
    let figures = match cell.kind {
        Kind::Overwrite | Kind::Extreme => write_run::measure(cell)?,
        Kind::Readers => readers::measure(cell)?,
        Kind::Kill | Kind::RecoveryTarget => killed::measure(cell)?,
    };
    Ok(Measured {
        kind: cell.kind,
        load: cell.load,
        configuration: cell.configuration.clone(),
        rows: cell.rows,
        value_bytes: cell.value_bytes,
        run: cell.run,
        figures,
    })
}

impl Cell {
    pub(super) fn database_directory(&self) -> PathBuf {
        self.directory.join("database")
    }

    pub(super) fn keys(&self) -> KeySpace {
        KeySpace::new(self.rows)
    }

    /// Differs by run and thread, and not by configuration.
    pub(super) fn thread_seed(&self, thread: usize) -> u64 {
        self.seed.wrapping_mul(1_000_003).wrapping_add(self.run * 1009).wrapping_add(thread as u64)
    }

    pub(super) fn open(&self) -> Result<seawall::Database, BenchError> {
        let directory = self.database_directory();
        seawall::Database::open(directory, self.options()?).map_err(engine_error("seawall", "open"))
    }

    /// Each kind has its own reason for checkpoints, and the others are kept away.
    pub(super) fn options(&self) -> Result<Options, BenchError> {
        let mut options = Options::default();
        options.memory.cache_bytes = self.cache_bytes;
        options.memory.memtable_bytes = self.memtable_bytes;
        options.checkpoint.interval = Duration::from_secs_f64(self.interval);
        options.transaction.durability = self.load.durability.into();
        options.recovery.target = None;
        if let Some(chunk_bytes) = self.chunk_bytes {
            options.checkpoint.chunk_bytes = chunk_bytes;
        }
        match self.kind {
            // By memory and time, and not by the log alone where memory takes more than the engine's default.
            Kind::Extreme => {
                options.recovery.target = Options::default().recovery.target;
                options.checkpoint.log_bytes = options.checkpoint.log_bytes.max(self.memtable_bytes);
            }
            Kind::Overwrite => options.checkpoint.log_bytes = NEVER_BYTES,
            Kind::Readers | Kind::Kill => {
                options.checkpoint.log_bytes = NEVER_BYTES;
                options.checkpoint.interval = NEVER;
            }
            Kind::RecoveryTarget => {
                options.checkpoint.log_bytes = NEVER_BYTES;
                options.checkpoint.interval = NEVER;
                options.recovery.target = Some(Duration::from_secs_f64(self.recovery_target));
            }
        }
        self.configuration.apply(&mut options)?;
        Ok(options)
    }

    /// Loads all rows of the cell.
    pub(super) fn preload(&self, database: &seawall::Database) -> Result<seawall::Table, BenchError> {
        let failed = |operation| engine_error("seawall", operation);
        let mut load = database.tables().bulk_load(TABLE).map_err(failed("begin a bulk load"))?;
        let mut rows = RowSource::new(self.keys(), self.value_bytes, Order::Sorted, self.seed);
        while let Some((key, value)) = rows.next() {
            load.add(key, value).map_err(failed("add a row to a bulk load"))?;
        }
        load.finish().map(drop).map_err(failed("finish a bulk load"))?;
        database.table(TABLE).map_err(failed("open the table"))
    }

    pub(super) fn wrong(&self, fact: impl Into<String>) -> BenchError {
        BenchError::Wrong { engine: "seawall", fact: fact.into() }
    }
}
