//! What the user may ask of `seawall-bench ddl`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

use crate::command_line::seconds;

/// Which tables are dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Load {
    /// Many tables without rows.
    Empty,
    /// Many tables with `--rows` rows each.
    Rows,
    /// One table of `--large-mib`.
    Large,
    /// One session drops empty tables and creates them again, one at a time, beside seven that write rows: memory each second.
    Mixed,
}

/// How tables lose their rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Verb {
    /// With the table.
    Drop,
    /// Alone.
    Truncate,
}

/// What `ddl` takes.
#[derive(Clone, Debug, Args)]
pub(crate) struct Arguments {
    /// Directory for the databases; a folder is made in it and removed at the end. Must be on the disk to be measured
    #[arg(long, default_value = "target/bench")]
    pub(super) dir: PathBuf,
    /// Which tables are dropped, comma-separated
    #[arg(long, value_delimiter = ',', default_values_t = [Load::Empty, Load::Rows, Load::Large])]
    pub(super) loads: Vec<Load>,
    /// Tables of `empty` and `rows`
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub(super) tables: u64,
    /// Whether tables are dropped or truncated, comma-separated; of `mixed`, dropped
    #[arg(long, value_delimiter = ',', default_values_t = [Verb::Drop])]
    pub(super) verbs: Vec<Verb>,
    /// Tables that one transaction drops or truncates, comma-separated
    #[arg(long, value_delimiter = ',', default_values_t = [1])]
    pub(super) per_transaction: Vec<u64>,
    /// Seconds of `mixed`
    #[arg(long, default_value_t = 60.0, value_parser = seconds)]
    pub(super) seconds: f64,
    /// Rows of each table of `rows`
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(super) rows: u64,
    /// Size of the table of `large`
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    pub(super) large_mib: u64,
    /// Sessions that drop at a time, comma-separated; of `large`, one
    #[arg(long, value_delimiter = ',', default_values_t = [1, 8])]
    pub(super) threads: Vec<usize>,
    /// Memory for cached pages, comma-separated
    #[arg(long, value_delimiter = ',', default_values_t = [64, 8192])]
    pub(super) cache_mib: Vec<u64>,
    /// Runs of each cell, caches taking turns; the median is shown
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=99))]
    pub(super) runs: u64,
    /// Chooses the order of the drops
    #[arg(long, default_value_t = 1)]
    pub(super) seed: u64,
    /// One JSON line a run instead of the Markdown tables
    #[arg(long)]
    pub(super) json: bool,
    /// Do not write the machine's dirty pages before each step: quicker, and steps disturb each other
    #[arg(long)]
    pub(super) unsettled: bool,
}

impl std::fmt::Display for Load {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Load::Empty => "empty",
            Load::Rows => "rows",
            Load::Large => "large",
            Load::Mixed => "mixed",
        })
    }
}

impl std::fmt::Display for Verb {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Verb::Drop => "drop",
            Verb::Truncate => "truncate",
        })
    }
}
