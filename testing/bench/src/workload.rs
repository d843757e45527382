//! The workloads, and one cell of the table: a workload on an engine, in a process of its own.
//!
//! ```text
//!   plan ---> cell (JSON) ---> child process: prepare, warm up, measure ---> measurement (JSON) ---> report
//! ```

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::engine::{Durability, EngineKind, LogLimits, Settings};
use crate::error::{BenchError, file_error};
use crate::rows::{KeySpace, Order};
use crate::timed_run::Totals;
use crate::usage::Memory;

mod beyond;
mod commit;
mod load;
mod log_bytes;
mod memory;
mod mix;
mod prepared;
mod read;
pub(crate) mod reopen;
mod scan;

/// What is done to an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "kebab-case")]
pub(crate) enum Workload {
    /// Durable commits of one row.
    Put,
    /// Durable commits of one row, `in_flight` of them started before the oldest is waited for.
    PutAsyncHandles { in_flight: usize },
    /// Durable commits of `batch_rows` rows.
    Batch { batch_rows: usize },
    /// Commits of one row that wait for nothing.
    PutBuffered,
    /// A bulk load into an empty table.
    Load { order: Order },
    /// An empty table filled by commits of `transaction_rows` rows that wait for nothing.
    Transactions { order: Order, transaction_rows: usize },
    /// Random reads of a database that fits the cache.
    Read,
    /// Random reads after every file was dropped from the page cache, of rows that are there or of others; a call reads `together`.
    ReadCold { absent: bool, together: u16 },
    /// Every row in key order.
    ScanFull,
    /// `scan_rows` rows from a random key on.
    ScanShort { scan_rows: u64 },
    /// Reads and puts that wait for nothing, by Zipf's law.
    Mix { read_percent: u64 },
    /// Random changes of more rows than the cache has room for, in batches that wait for nothing.
    Beyond { change: Change, batch_rows: usize },
    /// Opening after `kill -9` with this much written.
    Reopen { written_bytes: u64, limits: LogLimits },
    /// As `Reopen`, in rows a second, from a log of commits of one row.
    Recovery { written_bytes: u64 },
    /// Bytes a commit.
    LogBytes,
    /// Resident memory through all kinds of work.
    Memory,
}

/// What becomes of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Change {
    /// Rows come in between those that are there.
    Insert,
    /// Rows get other values.
    Update,
}

/// Which way a value is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Better {
    Higher,
    Lower,
}

impl Workload {
    pub(crate) fn label(self) -> String {
        match self {
            Workload::Put => "put".into(),
            Workload::PutAsyncHandles { in_flight } => format!("put, {in_flight} in flight"),
            Workload::Batch { batch_rows } => format!("batch of {batch_rows}"),
            Workload::PutBuffered => "put-buffered".into(),
            Workload::Load { order: Order::Sorted } => "load sorted".into(),
            Workload::Load { order: Order::Random } => "load random".into(),
            Workload::Transactions { order: Order::Sorted, transaction_rows } => {
                format!("sorted transactions of {transaction_rows}")
            }
            Workload::Transactions { order: Order::Random, transaction_rows } => {
                format!("random transactions of {transaction_rows}")
            }
            Workload::Read => "read".into(),
            Workload::ReadCold { absent, together } => {
                let rows = if absent { ", absent rows" } else { "" };
                let together = if together > 1 { format!(", {together} together") } else { String::new() };
                format!("read-cold{rows}{together}")
            }
            Workload::ScanFull => "scan full".into(),
            Workload::ScanShort { scan_rows } => format!("scan {scan_rows} rows"),
            Workload::Mix { read_percent } => format!("mix {read_percent}/{}", 100 - read_percent),
            Workload::Beyond { change: Change::Insert, .. } => "beyond memory, inserts".into(),
            Workload::Beyond { change: Change::Update, .. } => "beyond memory, updates".into(),
            Workload::Reopen { written_bytes, limits } => {
                let limits = if limits == LogLimits::Raised { "all in the log" } else { "default limits" };
                format!("reopen after {}, {limits}", mebibytes(written_bytes))
            }
            Workload::Recovery { written_bytes } => format!("recovery of {}", mebibytes(written_bytes)),
            Workload::LogBytes => "log-bytes".into(),
            Workload::Memory => "memory".into(),
        }
    }

    pub(crate) fn unit(self) -> &'static str {
        match self {
            Workload::Put | Workload::PutAsyncHandles { .. } | Workload::PutBuffered => "commits/s",
            Workload::Batch { .. } => "batches/s",
            Workload::Load { .. }
            | Workload::Transactions { .. }
            | Workload::ScanFull
            | Workload::Beyond { .. }
            | Workload::Recovery { .. } => "rows/s",
            Workload::Read | Workload::ReadCold { .. } => "reads/s",
            Workload::ScanShort { .. } => "scans/s",
            Workload::Mix { .. } => "operations/s",
            Workload::Reopen { .. } => "s",
            Workload::LogBytes => "device bytes/commit",
            Workload::Memory => "MiB peak",
        }
    }

    pub(crate) fn better(self) -> Better {
        match self {
            Workload::Reopen { .. } | Workload::LogBytes | Workload::Memory => Better::Lower,
            Workload::Put
            | Workload::PutAsyncHandles { .. }
            | Workload::Batch { .. }
            | Workload::PutBuffered
            | Workload::Load { .. }
            | Workload::Transactions { .. }
            | Workload::Read
            | Workload::ReadCold { .. }
            | Workload::ScanFull
            | Workload::ScanShort { .. }
            | Workload::Mix { .. }
            | Workload::Beyond { .. }
            | Workload::Recovery { .. } => Better::Higher,
        }
    }
}

fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", bytes >> 20)
}

/// All that a child process needs to know.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Cell {
    pub(crate) engine: EngineKind,
    pub(crate) workload: Workload,
    pub(crate) threads: usize,
    /// Distinct keys.
    pub(crate) rows: u64,
    pub(crate) value_bytes: usize,
    pub(crate) cache_bytes: u64,
    /// Of Seawall: `checkpoint.runs.run_percent`.
    pub(crate) run_percent: u32,
    pub(crate) seconds: f64,
    pub(crate) run: u64,
    pub(crate) seed: u64,
    /// Empty, and this cell's alone.
    pub(crate) directory: PathBuf,
    /// Holds databases that are only read, so that one is loaded once for all cells that read it.
    pub(crate) prepared: PathBuf,
}

impl Cell {
    pub(crate) fn keys(&self) -> KeySpace {
        KeySpace::new(self.rows)
    }

    pub(crate) fn duration(&self) -> Duration {
        Duration::from_secs_f64(self.seconds)
    }

    /// Differs by run and thread, and not by engine.
    pub(crate) fn thread_seed(&self, thread: usize) -> u64 {
        self.seed.wrapping_mul(1_000_003).wrapping_add(self.run * 1009).wrapping_add(thread as u64)
    }

    pub(crate) fn settings(&self, durability: Durability) -> Settings {
        Settings {
            directory: self.directory.clone(),
            cache_bytes: self.cache_bytes,
            run_percent: self.run_percent,
            durability,
            log_room_bytes: None,
        }
    }

    pub(crate) fn wrong(&self, fact: impl Into<String>) -> BenchError {
        BenchError::Wrong { engine: self.engine.name(), fact: fact.into() }
    }
}

/// What a cell came to.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Measurement {
    pub(crate) workload: String,
    pub(crate) engine: EngineKind,
    pub(crate) threads: usize,
    pub(crate) rows: u64,
    pub(crate) run: u64,
    pub(crate) value: f64,
    pub(crate) unit: String,
    pub(crate) better: Better,
    pub(crate) operations: u64,
    pub(crate) seconds: f64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) max_us: f64,
    pub(crate) cpu_seconds: f64,
    pub(crate) cpu_us_per_operation: f64,
    /// Of the measured part where the kernel lets the peak be reset.
    pub(crate) resident_peak_bytes: u64,
    /// What the engine's options allow it: cache and memtables.
    pub(crate) configured_bytes: u64,
    pub(crate) device_written_bytes: u64,
    pub(crate) device_read_bytes: u64,
    /// Figures that only this workload has, by name.
    pub(crate) extra: BTreeMap<String, f64>,
}

impl Measurement {
    pub(crate) fn new(cell: &Cell, value: f64, totals: &Totals, configured_bytes: u64) -> Measurement {
        let cpu_seconds = totals.usage.cpu.as_secs_f64();
        Measurement {
            workload: cell.workload.label(),
            engine: cell.engine,
            threads: cell.threads,
            rows: cell.rows,
            run: cell.run,
            value,
            unit: cell.workload.unit().into(),
            better: cell.workload.better(),
            operations: totals.operations,
            seconds: totals.elapsed.as_secs_f64(),
            p50_us: totals.histogram.quantile_micros(0.5),
            p99_us: totals.histogram.quantile_micros(0.99),
            max_us: totals.histogram.max_micros(),
            cpu_seconds,
            cpu_us_per_operation: per(cpu_seconds * 1e6, totals.operations),
            resident_peak_bytes: Memory::of_this_process().resident_peak,
            configured_bytes,
            device_written_bytes: totals.usage.device_written_bytes,
            device_read_bytes: totals.usage.device_read_bytes,
            extra: BTreeMap::new(),
        }
    }

    pub(crate) fn with(mut self, name: &str, value: f64) -> Measurement {
        self.extra.insert(name.into(), value);
        self
    }
}

/// `amount` for each of `count`; 0 of none.
pub(crate) fn per(amount: f64, count: u64) -> f64 {
    if count == 0 { 0.0 } else { amount / count as f64 }
}

/// Measures one cell in this process.
pub(crate) fn measure(cell: &Cell) -> Result<Measurement, BenchError> {
    std::fs::create_dir_all(&cell.directory).map_err(file_error("create", &cell.directory))?;
    match cell.workload {
        Workload::Put => commit::put(cell, Durability::Synced),
        Workload::PutBuffered => commit::put(cell, Durability::Buffered),
        Workload::PutAsyncHandles { in_flight } => commit::put_in_flight(cell, in_flight),
        Workload::Batch { batch_rows } => commit::put_batches(cell, batch_rows),
        Workload::Load { order } => load::load(cell, order),
        Workload::Transactions { order, transaction_rows } => {
            load::in_transactions(cell, order, transaction_rows)
        }
        Workload::Read => read::cached(cell),
        Workload::ReadCold { absent, together } => read::cold(cell, absent, together),
        Workload::ScanFull => scan::full(cell),
        Workload::ScanShort { scan_rows } => scan::short(cell, scan_rows),
        Workload::Mix { read_percent } => mix::mix(cell, read_percent),
        Workload::Beyond { change, batch_rows } => beyond::beyond(cell, change, batch_rows),
        Workload::Reopen { .. } => reopen::reopen(cell),
        Workload::Recovery { .. } => reopen::recovery(cell),
        Workload::LogBytes => log_bytes::log_bytes(cell),
        Workload::Memory => memory::memory(cell),
    }
}
