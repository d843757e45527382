//! What the user may ask of `seawall-bench checkpoint`.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};

use super::carrier::Carriers;
use super::configuration::{COMPRESSIONS, PROTECTIONS, names};
use super::load::{Durability, Operation};
use crate::command_line::seconds;

/// The tests.
#[derive(Debug, Subcommand)]
pub(crate) enum Test {
    /// Rows overwritten as fast as possible, a checkpoint every 10 s; 40 s each
    ///
    /// Without --operations, --durabilities and --threads: the five loads of the published tables.
    FullSpeed {
        #[command(flatten)]
        common: Common,
        #[command(flatten)]
        loads: Loads,
    },
    /// The same at 60% of the lowest full-speed rate of a row's configurations, which is measured first
    FixedRate {
        #[command(flatten)]
        common: Common,
        #[command(flatten)]
        loads: Loads,
        /// Rows a second, instead of measuring at full speed first
        #[arg(long, value_parser = rate)]
        rate: Option<f64>,
        /// Share of the full-speed rate
        #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=100))]
        percent: u64,
    },
    /// Unique keys in batches of 100 at full speed, under a memory limit far below the data; 600 s each
    ///
    /// The regime of the published test, with data of the size of the cache: --cache-mib 12288 --memtable-mib 3072 --interval 30.
    Extreme {
        #[command(flatten)]
        common: Common,
        #[command(flatten)]
        loads: Loads,
        /// Memory for memtables and cache, half each, where --cache-mib and --memtable-mib do not say otherwise
        #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u64).range(8..=1 << 20))]
        memory_mib: u64,
        /// Where throughput goes, each 100 ms: a CSV file for each cell and, in a program with feature `plot`, an SVG
        #[arg(long, default_value = "target/bench-series")]
        series: PathBuf,
    },
    /// Latency of point reads during a checkpoint, beside that without one; 10 s of checkpoints each
    Readers {
        #[command(flatten)]
        common: Common,
        /// Numbers of reading threads, comma-separated
        #[arg(long, value_delimiter = ',', default_values_t = [1])]
        threads: Vec<usize>,
    },
    /// kill -9 in the middle of a checkpoint: start to first read, and whether anything acknowledged is lost; 5 tries
    Kill {
        #[command(flatten)]
        common: Common,
        #[command(flatten)]
        loads: Loads,
    },
    /// kill -9 at any moment of 30 s, with nothing but the recovery-time target to start checkpoints; 20 tries
    RecoveryTarget {
        #[command(flatten)]
        common: Common,
        #[command(flatten)]
        loads: Loads,
        /// Seconds within which a recovery must be done
        #[arg(long, default_value_t = 5.0, value_parser = seconds)]
        target: f64,
    },
    /// Plots throughput series again, one panel each
    #[cfg(feature = "plot")]
    Plot {
        /// CSV files of `extreme`
        #[arg(required = true)]
        series: Vec<PathBuf>,
        /// The picture
        #[arg(long)]
        picture: PathBuf,
    },
}

/// What every test takes.
#[derive(Clone, Debug, Args)]
pub(crate) struct Common {
    /// Directory for the databases; a folder is made in it and removed at the end. Must be on the disk to be measured
    #[arg(long, default_value = "target/bench")]
    pub(super) dir: PathBuf,
    /// Seconds of each measurement; of `kill`: from one checkpoint to the next
    #[arg(long, value_parser = seconds)]
    pub(super) seconds: Option<f64>,
    /// Seconds of writing before the measurement of full speed and fixed rate
    #[arg(long, default_value_t = 10.0, value_parser = seconds)]
    pub(super) warm_up: f64,
    /// Seconds from one checkpoint to the next
    #[arg(long, default_value_t = 10.0, value_parser = seconds)]
    pub(super) interval: f64,
    /// Runs of each cell, configurations taking turns; the median is shown. Of `kill` and `recovery-target`: tries
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=9999))]
    pub(super) runs: Option<u64>,
    /// Distinct keys that are there at the start
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) rows: u64,
    /// Bytes of a value, half of them compressible
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(0..=1 << 20))]
    pub(super) value_bytes: u32,
    /// Page protections, comma-separated; all if not given
    #[arg(long, value_delimiter = ',', value_parser = PossibleValuesParser::new(names(PROTECTIONS)))]
    pub(super) protections: Vec<String>,
    /// Compressions of page images, comma-separated; all if not given
    #[arg(long, value_delimiter = ',', value_parser = PossibleValuesParser::new(names(COMPRESSIONS)))]
    pub(super) compressions: Vec<String>,
    /// Memory for cached pages; 256 if not given, but for `extreme`
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    pub(super) cache_mib: Option<u64>,
    /// Memory for changed rows, instead of what all rows need twice
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    pub(super) memtable_mib: Option<u64>,
    /// Page images that become durable together, at most 64; the engine's default if not given, 64 for `readers`
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=64))]
    pub(super) chunk_mib: Option<u64>,
    #[command(flatten)]
    pub(super) carriers: Carriers,
    /// Chooses keys, values and moments, the same for every configuration
    #[arg(long, default_value_t = 1)]
    pub(super) seed: u64,
    /// One JSON line a run instead of the Markdown tables
    #[arg(long)]
    pub(super) json: bool,
    /// Do not write the machine's dirty pages before each cell: quicker, and cells disturb each other
    #[arg(long)]
    pub(super) unsettled: bool,
}

/// What the writers do: every operation with every durability and every number of threads.
#[derive(Clone, Debug, Args)]
pub(crate) struct Loads {
    /// Operations, comma-separated
    #[arg(long, value_delimiter = ',')]
    pub(super) operations: Vec<Operation>,
    /// Durabilities of commits, comma-separated
    #[arg(long, value_delimiter = ',')]
    pub(super) durabilities: Vec<Durability>,
    /// Numbers of writing threads, comma-separated
    #[arg(long, value_delimiter = ',')]
    pub(super) threads: Vec<usize>,
}

fn rate(text: &str) -> Result<f64, String> {
    let rate: f64 = text.parse().map_err(|_| format!("{text} is not a number"))?;
    if (1.0..=1e9).contains(&rate) { Ok(rate) } else { Err("must be between 1 and 1000000000".into()) }
}
