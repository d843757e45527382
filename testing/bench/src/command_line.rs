//! What the user may ask.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::checkpoint::Test;
use crate::ddl;
use crate::engine::{EngineKind, LogLimits};
use crate::memory_limits;
use crate::rows::Order;
use crate::segments;
use crate::workload::Change;

/// Runs the same workloads against Seawall and its peers, each cell in a process of its own.
///
/// Peers are in the program only if it was built with their features:
///   cargo run --release -p seawall-bench --features rocksdb,lmdb,redb,fjall,sqlite -- all
/// Standard output has a Markdown table, or JSON lines with --json; progress goes to standard error.
/// Exit code 0: everything measured; 1: a cell failed or was wrong; 2: bad arguments.
#[derive(Debug, Parser)]
#[command(name = "seawall-bench", version, verbatim_doc_comment)]
pub(crate) struct CommandLine {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The workloads, and the commands that the program gives itself.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Durable commits of one row, by default at 1, 8, 32 and 64 threads
    Put(Common),
    /// Durable commits of one row, one thread keeping many in flight (Seawall only)
    PutAsyncHandles {
        #[command(flatten)]
        common: Common,
        /// Commits in flight
        #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
        in_flight: u32,
    },
    /// Durable commits of many rows, by default at 1 and 8 threads
    Batch {
        #[command(flatten)]
        common: Common,
        /// Rows in one commit
        #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
        batch_rows: u32,
    },
    /// Commits of one row that wait for nothing, by default at 1 and 8 threads
    PutBuffered(Common),
    /// Bulk load into an empty table, by default of 10,000,000 rows
    Load {
        #[command(flatten)]
        common: Common,
        /// Order of the rows; both if not given
        #[arg(long)]
        order: Option<Order>,
        /// Not by a bulk load: in commits of so many rows that wait for nothing
        #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
        transaction_rows: Option<u32>,
    },
    /// Point reads, everything cached, by default at 1 and 2 threads
    Read(Common),
    /// Point reads with every file out of the page cache, by default of 4,000,000 rows; counts page reads
    ReadCold {
        #[command(flatten)]
        common: Common,
        /// Of rows that are not there
        #[arg(long)]
        absent: bool,
        /// Rows that one call reads
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
        together: u16,
    },
    /// Full scans and scans of 100 rows, everything cached
    Scan {
        #[command(flatten)]
        common: Common,
        /// Rows of a short scan
        #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
        scan_rows: u64,
    },
    /// Reads and puts by Zipf's law, 50/50 and 95/5, by default at 2 threads
    Mix {
        #[command(flatten)]
        common: Common,
        /// Share of reads; 50 and 95 if not given
        #[arg(long, value_parser = clap::value_parser!(u64).range(0..=100))]
        read_percent: Option<u64>,
    },
    /// Random changes in batches, of more rows than the cache has room for, by default ten times as many bytes, for 60 seconds: rows a second,
    /// and bytes to the device for each byte of theirs
    Beyond {
        #[command(flatten)]
        common: Common,
        /// What becomes of rows; both if not given
        #[arg(long)]
        change: Option<Change>,
        /// Rows in one commit
        #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
        batch_rows: u32,
    },
    /// Time to open after kill -9, with this much written since the last checkpoint
    Reopen {
        #[command(flatten)]
        common: Common,
        #[command(flatten)]
        written: Written,
        /// Limits of the log; both if not given
        #[arg(long)]
        limits: Option<LogLimits>,
    },
    /// Rows replayed a second after kill -9, from a log of commits of one row
    Recovery {
        #[command(flatten)]
        common: Common,
        #[command(flatten)]
        written: Written,
    },
    /// Bytes a commit: on the device, and in Seawall's log
    LogBytes(Common),
    /// Resident memory through all kinds of work, against the configured limits, by default for 600 seconds
    Memory(Common),
    /// The cases where memory is hardest to bound, against the sum of what the options allow (Seawall only)
    MemoryLimits(memory_limits::Arguments),
    /// The whole table, with the ratio that each workload must reach
    All {
        #[command(flatten)]
        common: Common,
        #[command(flatten)]
        written: Written,
    },
    /// Checkpoints under load: Seawall with each page protection and compression, in the published tests
    Checkpoint {
        #[command(subcommand)]
        test: Test,
    },
    /// Tables by the hundred thousand: created, dropped one by one, replayed, reclaimed
    Ddl(ddl::Arguments),
    /// Transactions prepared and committed, beside puts, and the replay of exactly that log (Seawall only)
    Twophase(crate::twophase::Arguments),
    /// Old log segments removed while somebody works: time, directory syncs, longest commit and open (Seawall only)
    Segments(segments::Arguments),
    /// Short commits beside large, serializable and in-doubt transactions: who makes whom wait, and how long (Seawall only)
    Stalls(crate::stalls::Arguments),
    /// From the order to promote a standby to its first durable commit, one JSON line a try
    Promotion(crate::standby::PromotionArguments),
    /// How long a standby takes for the log of a load, beside how long its primary took, one JSON line
    Replication(crate::standby::ReplicationArguments),
    /// Syncs and random reads a second that the device can do
    Device(Common),
    /// One cell of a table, for the program itself
    #[command(hide = true)]
    Cell {
        /// The cell, JSON
        cell: String,
    },
    /// One cell of a table of checkpoints, for the program itself
    #[command(hide = true)]
    CheckpointCell {
        /// The cell, JSON
        cell: String,
    },
    /// Writes until it is killed, for the program itself
    #[command(hide = true)]
    CheckpointWriter {
        /// The cell, JSON
        cell: String,
    },
    /// One step of a cell of `ddl`, for the program itself
    #[command(hide = true)]
    DdlStep {
        /// The step, JSON
        step: String,
    },
    /// One case of `memory-limits`, for the program itself
    #[command(hide = true)]
    MemoryCase {
        /// The cell, JSON
        cell: String,
    },
    /// Clients of two-phase commit, until they are killed, for the program itself
    #[command(hide = true)]
    TwophaseWriter {
        /// The run, JSON
        run: String,
    },
    /// Writes and waits to be killed, for the program itself
    #[command(hide = true)]
    Fill {
        /// The cell, JSON
        cell: String,
    },
}

/// What every workload takes.
#[derive(Clone, Debug, Args)]
pub(crate) struct Common {
    /// Directory for the databases; a folder is made in it and removed at the end. Must be on the disk to be measured
    #[arg(long, default_value = "target/bench")]
    pub(crate) dir: PathBuf,
    /// Seconds of each measurement; loads and reopenings take what they take
    #[arg(long, value_parser = seconds)]
    pub(crate) seconds: Option<f64>,
    /// Numbers of threads, comma-separated
    #[arg(long, value_delimiter = ',')]
    pub(crate) threads: Vec<usize>,
    /// Distinct keys
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) rows: Option<u64>,
    /// Engines, comma-separated; all in this program if not given
    #[arg(long, value_delimiter = ',')]
    pub(crate) engines: Vec<EngineKind>,
    /// Runs of each cell, engines taking turns; the median is shown
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=99))]
    pub(crate) runs: u64,
    /// One JSON line a run instead of the Markdown table
    #[arg(long)]
    pub(crate) json: bool,
    /// Do not write the machine's dirty pages before each cell: quicker, and cells disturb each other
    #[arg(long)]
    pub(crate) unsettled: bool,
    /// Cache of each engine
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    pub(crate) cache_mib: u64,
    /// Bytes that sorted runs may have in Seawall, in percent of the main part: 5 to 100, or 0 for no runs
    #[arg(long, default_value_t = 25, value_parser = clap::value_parser!(u32).range(0..=100))]
    pub(crate) run_percent: u32,
    /// Bytes of a value, half of them compressible
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(0..=1 << 20))]
    pub(crate) value_bytes: u32,
    /// Chooses keys and values, the same for every engine
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

/// How much is written before the kill.
#[derive(Clone, Debug, Args)]
pub(crate) struct Written {
    /// Mebibytes of keys and values
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    pub(crate) written_mib: u64,
}

pub(crate) fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| format!("{text} is not a number"))?;
    if (0.01..=86_400.0).contains(&seconds) {
        Ok(seconds)
    } else {
        Err("must be between 0.01 and 86400".into())
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn definition_holds_together() {
        CommandLine::command().debug_assert();
    }

    #[test]
    fn lists_and_units_are_read() {
        let line = "seawall-bench put --threads 1,8 --engines seawall,sqlite --seconds 0.5 --json";
        let parsed = CommandLine::try_parse_from(line.split(' ')).unwrap();
        let Command::Put(common) = parsed.command else { panic!("{parsed:?}") };
        assert_eq!(common.threads, [1, 8]);
        assert_eq!(common.engines, [EngineKind::Seawall, EngineKind::Sqlite]);
        assert!(common.json);
    }

    #[test]
    fn senseless_arguments_are_refused() {
        for line in
            ["put --seconds 0", "put --seconds nan", "put --rows 0", "mix --read-percent 101", "put --runs 0"]
        {
            let words = std::iter::once("seawall-bench").chain(line.split(' '));
            assert!(CommandLine::try_parse_from(words).is_err(), "{line}");
        }
    }
}
